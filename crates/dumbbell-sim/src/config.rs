//! One run, resolved: what the engine reads.

mod route;

use crate::additions::{Additions, MakeProtocol};
use dumbbell_core::cc::Chosen;
use dumbbell_core::link::{self, AnyLink, LinkContext};
use dumbbell_core::link_layer::{Framing, LinkLayer, Preset};
use dumbbell_core::link_trace::LinkTrace;
use dumbbell_core::packet::Packet;
use dumbbell_core::param::{check_keys, ParamError, ParamType};
use dumbbell_core::path::{self, Carried};
use dumbbell_core::rng::{mix, Rng};
use dumbbell_core::tcp::host::{self, HostParams};
use dumbbell_core::tcp::Ack;
use dumbbell_core::traffic::{Arrivals, Codepoint, Sizes, Spacing};
use dumbbell_core::units::{Rate, Time};
use dumbbell_core::{aqm, cc, choice, params};
use route::{read_hop, read_hops, read_route, OF_ROUTE};
pub use route::{HopConfig, RateChange, Route, BOTTLENECK, MAX_HOPS, REVERSE};
use serde_json::{json, Map, Value};
use std::sync::Arc;

choice! {
    /// How packets leave the queue.
    pub enum Shaper {
        /// A serial link: a packet arrives when its last bit has been sent.
        Link = "link",
        /// A token bucket on an infinitely fast link, as in Linux HTB: a packet arrives when it leaves the queue.
        Htb = "htb",
    }
}

choice! {
    /// How the receiver echoes CE.
    pub enum EcnEcho {
        /// As the congestion control expects it.
        Auto = "auto",
        /// ECE until CWR (RFC 3168).
        Classic = "classic",
        /// ECE as the packets came (RFC 8257 section 3.2).
        Dctcp = "dctcp",
        /// A count of CE packets on every ACK (AccECN, RFC 9768).
        AccEcn = "accecn",
    }
}

params! {
    /// The whole run.
    pub struct RunParams {
        /// Length of the run.
        duration: Time = Time::from_secs(60), unit "", range Time(1), Time::from_secs(86_400), source "tcp_nup of Flent runs 60 s by default";
        /// Seed of every random stream.
        seed: u64 = 1, unit "", source "";
    }
}

params! {
    /// The bottleneck, except for its queue discipline.
    pub struct BottleneckParams {
        /// Rate. It counts Ethernet frames without FCS. With `trace` it is the mean rate of the trace.
        rate: Rate = Rate::from_mbit(10), unit "", range Rate(1000), Rate(10_000_000_000_000), source "";
        /// How packets leave the queue; not used by a queue that shapes by itself (cake).
        shaper: Shaper = Shaper::Link, unit "", source "";
        /// Bucket of the htb shaper.
        burst: u32 = 1514, unit "bytes", range 1514_u32, 100_000_000_u32, source "one frame, the least that sch_htb works with";
        /// File with the link's opportunities to send, instead of `rate`, `shaper`, `burst` and `rate_changes`: a time in whole milliseconds per
        /// line, each for one full frame of 1514 B, and behind it perhaps a one-way delay in ms. A relative path starts at the folder of the
        /// experiment file.
        trace: Option<LinkTrace> = None, unit "", source "mahimahi: mm-link(1); docs/traces.md";
        /// Kind of the link: what a frame takes on it beside itself, out of `rate`. A queue that shapes counts the same.
        link_layer: Preset = Preset::Raw, unit "", source "tc-cake(8): raw is the default; bytes and cells of each";
        /// Bytes on the link in front of the IP packet, instead of the Ethernet header; unset: those of `link_layer`.
        overhead: Option<u16> = None, unit "bytes", range 0_u16, 256_u16, source "tc-stab(8), tc-cake(8): overhead";
        /// Smallest packet on the link, overhead included; unset: that of `link_layer`.
        mpu: Option<u16> = None, unit "bytes", range 0_u16, 256_u16, source "tc-stab(8), tc-cake(8): mpu";
        /// Cells or code blocks of the link; unset: those of `link_layer`.
        framing: Option<Framing> = None, unit "", source "tc-stab(8): linklayer; tc-cake(8): atm, ptm";
    } check BottleneckParams::check
}

impl BottleneckParams {
    fn check(&self) -> Result<(), ParamError> {
        let default = BottleneckParams::default();
        if self.trace.is_some() && (self.shaper != default.shaper || self.burst != default.burst) {
            return Err(ParamError::new("trace", "shaper or burst beside it", "a trace without them"));
        }
        Ok(())
    }

    /// What a frame takes on the link.
    pub fn layer(&self) -> LinkLayer {
        LinkLayer::of_preset(self.link_layer).with(self.overhead, self.mpu, self.framing)
    }

    /// Gives `rate` the value that it has with a trace; `given` says whether the configuration sets it.
    fn settle_rate(&mut self, given: bool) -> Result<(), ParamError> {
        let Some(mean) = self.trace.as_ref().map(LinkTrace::mean_rate) else { return Ok(()) };
        if given && self.rate != mean {
            return Err(ParamError::new("rate", self.rate, format!("the mean rate of the trace, {mean}")));
        }
        self.rate = mean;
        Ok(())
    }
}

params! {
    /// One flow, except for its congestion control and start.
    pub struct FlowParams {
        /// Propagation, both directions together.
        base_rtt: Time = Time::from_millis(20), unit "", range Time(0), Time::from_secs(60), source "";
        /// When it connects, if that is before `start`; its application still starts to write at `start`.
        connect: Option<Time> = None, unit "", range Time(0), Time::from_secs(86_400), source "";
        /// From this time on it sends no new data.
        stop: Option<Time> = None, unit "", source "";
        /// Ends after this much payload.
        size: Option<u64> = None, unit "bytes", range 1_u64, 1_u64 << 60, source "";
        /// The application writes payload at this rate instead of as fast as it can.
        app_rate: Option<Rate> = None, unit "", range Rate(1000), Rate(10_000_000_000_000), source "";
        /// From this time on it writes at `app_rate`; until then as fast as it can.
        app_rate_from: Time = Time::ZERO, unit "", range Time(0), Time::from_secs(86_400), source "";
        /// From this time on the application writes nothing; data already written is still sent.
        app_pause: Option<Time> = None, unit "", range Time(0), Time::from_secs(86_400), source "";
        /// When it continues after `app_pause`; unset: never. It does not make up for the pause.
        app_resume: Option<Time> = None, unit "", range Time(0), Time::from_secs(86_400), source "";
        /// Random loss of data packets ahead of the bottleneck.
        loss: f64 = 0.0, unit "probability", range 0.0, 1.0, source "";
        /// Random extra delay of each data packet, uniform from 0 to this; packets stay in order.
        jitter: Time = Time::ZERO, unit "", range Time(0), Time::from_secs(60), source "";
        /// Sending host, for queues that isolate hosts.
        src_host: u32 = 1, unit "", source "";
        /// Receiving host, for queues that isolate hosts.
        dst_host: u32 = 2, unit "", source "";
        /// Differentiated-services codepoint.
        dscp: u8 = 0, unit "", range 0_u8, 63_u8, source "RFC 2474";
        /// How the receiver echoes CE: as the congestion control expects it, until CWR, per packet, or as a count.
        ecn_echo: EcnEcho = EcnEcho::Auto, unit "", source "RFC 3168 section 6.1.3, RFC 8257 section 3.2, RFC 9768";
        /// Overrides `hosts.ecn` for this flow.
        ecn: Option<bool> = None, unit "", source "";
    } check FlowParams::check
}

impl FlowParams {
    fn check(&self) -> Result<(), ParamError> {
        let changes = self.app_rate_from > Time::ZERO || self.app_pause.is_some();
        if changes && self.size.is_some() {
            return Err(ParamError::new("size", "a size", "none beside app_rate_from and app_pause"));
        }
        if self.app_rate_from > Time::ZERO && self.app_rate.is_none() {
            return Err(ParamError::new("app_rate_from", self.app_rate_from, "0s without app_rate"));
        }
        if self.connect.is_some() && (changes || self.size.is_some() || self.app_rate.is_some()) {
            return Err(ParamError::new("connect", "a time", "none beside size, app_rate and app_pause"));
        }
        match (self.app_pause, self.app_resume) {
            (None, Some(resume)) => Err(ParamError::new("app_resume", resume, "none without app_pause")),
            (Some(pause), Some(resume)) if resume <= pause => {
                Err(ParamError::new("app_resume", resume, format!("a time after app_pause, {pause}")))
            }
            _ => Ok(()),
        }
    }
}

params! {
    /// Short flows, except for their congestion control and start. The process of arrivals starts at `start`; nothing arrives earlier.
    pub struct WebParams {
        /// How often flows arrive, as a Poisson process: "100/s", or "2.5/s/Mbit" for each Mbit/s of the bottleneck's rate.
        arrivals: Arrivals = Arrivals::PerMbit(2.5), unit "", source "high load of De Schepper et al. 2015: 100 a second at 40 Mbit/s; low load is a tenth";
        /// Payload of each flow: a size, { pareto = SHAPE, min = SIZE, max = SIZE }, or { csv = FILE } with a size in bytes and a weight per line.
        size: Sizes = Sizes::Pareto { shape: 0.9, min: 1_000, max: 1_000_000 }, unit "", source "De Schepper et al. 2015: bounded Pareto, 1 kB to 1 MB, 9 kB in the mean";
        /// Propagation, both directions together.
        base_rtt: Time = Time::from_millis(20), unit "", range Time(0), Time::from_secs(60), source "";
        /// No flow starts from this time on.
        stop: Option<Time> = None, unit "", source "";
        /// Sending host, for queues that isolate hosts.
        src_host: u32 = 1, unit "", source "";
        /// Receiving host, for queues that isolate hosts.
        dst_host: u32 = 2, unit "", source "";
        /// Differentiated-services codepoint.
        dscp: u8 = 0, unit "", range 0_u8, 63_u8, source "RFC 2474";
        /// How the receiver echoes CE: as the congestion control expects it, until CWR, per packet, or as a count.
        ecn_echo: EcnEcho = EcnEcho::Auto, unit "", source "RFC 3168 section 6.1.3, RFC 8257 section 3.2, RFC 9768";
        /// Overrides `hosts.ecn` for these flows.
        ecn: Option<bool> = None, unit "", source "";
    }
}

params! {
    /// Unresponsive UDP, except for its start.
    pub struct UdpParams {
        /// Rate. It counts Ethernet frames without FCS, as the bottleneck's rate does.
        rate: Rate = Rate::from_mbit(1), unit "", range Rate(1000), Rate(10_000_000_000_000), source "";
        /// Length of a frame without FCS: 42 B of headers and the payload. The 1470 B that iperf sends make 1512 B.
        size: u16 = 1514, unit "bytes", range 60_u16, 9014_u16, source "a full frame at an MTU of 1500 B";
        /// Time between frames.
        spacing: Spacing = Spacing::Constant, unit "", source "";
        /// ECN field.
        ecn: Codepoint = Codepoint::NotEct, unit "", source "RFC 3168 section 5, RFC 9331";
        /// Sends nothing from this time on.
        stop: Option<Time> = None, unit "", source "";
        /// The receiver sends each packet back at once, and RTTs are measured: ping, irtt.
        echo: bool = false, unit "", source "";
        /// With `echo`: propagation, both directions together. UDP that nobody answers has none.
        base_rtt: Time = Time(0), unit "", range Time(0), Time::from_secs(60), source "";
        /// Sending host, for queues that isolate hosts.
        src_host: u32 = 1, unit "", source "";
        /// Receiving host, for queues that isolate hosts.
        dst_host: u32 = 2, unit "", source "";
        /// Differentiated-services codepoint.
        dscp: u8 = 0, unit "", range 0_u8, 63_u8, source "RFC 2474";
    }
}

params! {
    /// What is kept of a run.
    pub struct RecordParams {
        /// Measurement starts at this time, rounded up to a multiple of 200 ms. Time series, convergence, completion times, smallest RTTs and the
        /// queue discipline's own counters cover the whole run. Short flows that started earlier are left out.
        from: Time = Time::ZERO, unit "", range Time(0), Time::from_secs(86_400), source "";
        /// Whether time series are stored.
        series: bool = true, unit "", source "";
        /// Interval of the time series.
        interval: Time = Time::from_secs(1), unit "", range Time::from_millis(1), Time::from_secs(86_400), source "";
        /// Interval of the trace of each listed flow's congestion control; unset, there is no trace. A change of state also writes a row. With 0s
        /// each event of the flow writes a row.
        trace: Option<Time> = None, unit "", range Time(0), Time::from_secs(86_400), source "";
        /// Largest number of short flows that are stored one by one. If there are more, a uniform random sample is stored; statistics by size
        /// always cover all of them.
        short_flows: u32 = 100_000, unit "flows", range 0_u32, 100_000_000_u32, source "";
    }
}

/// Everything that a run's configuration can hold, described: queue disciplines, congestion controls, sections
/// and the profiles of hosts.
pub fn registry() -> Value {
    let algorithms = |specs: Vec<dumbbell_core::param::AlgorithmSpec>| specs.iter().map(|s| s.to_json()).collect::<Vec<_>>();
    let section = |specs: Vec<dumbbell_core::param::ParamSpec>| specs.iter().map(|s| s.to_json()).collect::<Vec<_>>();
    json!({
        "aqm": algorithms(aqm::specs()),
        "cc": algorithms(cc::specs()),
        "stage": algorithms(path::specs()),
        "link": algorithms(link::specs()),
        "sections": {
            "run": section(RunParams::specs()), "bottleneck": section(BottleneckParams::specs()),
            "hosts": section(HostParams::specs()), "flows": section(FlowParams::specs()), "web": section(WebParams::specs()),
            "udp": section(UdpParams::specs()), "record": section(RecordParams::specs()),
        },
        "states": aqm::STATES.map(|(name, unit, doc)| json!({"name": name, "unit": unit, "doc": doc})),
        "profiles": host::profiles(),
    })
}

/// Earliest and latest start of a flow; drawn uniformly.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Earliest.
    pub min: Time,
    /// Latest.
    pub max: Time,
}

impl Start {
    /// A start drawn from the stream `name` of `seed`, number `index`.
    pub fn draw(&self, seed: u64, name: &str, index: usize) -> Time {
        self.min + Time(Rng::stream(seed, name, index as u64).below((self.max - self.min).0 + 1))
    }
}

/// One flow.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// Congestion control: `name` and parameters; one map for flows in a row that have the same.
    pub cc: Arc<Map<String, Value>>,
    /// When it starts.
    pub start: Start,
    /// What it passes by itself.
    pub stages: Arc<StageConfig>,
    /// What it passes with others.
    pub route: Arc<Route>,
    /// The rest.
    pub params: FlowParams,
}

/// Stages that the packets of an endpoint pass, each with its `name` and parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageConfig {
    /// Between the sender and the bottleneck, in this order.
    pub path: Vec<Map<String, Value>>,
    /// Between the receiver and the sender.
    pub ack_path: Vec<Map<String, Value>>,
}

impl FlowConfig {
    /// Whether both are of one connection class.
    fn is_like(&self, other: &FlowConfig) -> bool {
        let of = |flow: &FlowConfig| (flow.params.base_rtt, flow.params.ecn);
        of(self) == of(other) && self.cc == other.cc && self.route == other.route
    }
}

/// Short flows that come and go.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// Name of the congestion control.
    pub cc_name: String,
    /// Congestion control of every flow.
    pub cc: Chosen,
    /// When the process of arrivals begins.
    pub start: Start,
    /// What each flow passes by itself.
    pub stages: StageConfig,
    /// What they pass with others.
    pub route: Arc<Route>,
    /// The rest.
    pub params: WebParams,
}

/// One source of UDP.
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// When it starts.
    pub start: Start,
    /// What it passes by itself.
    pub stages: StageConfig,
    /// What it passes with others.
    pub route: Arc<Route>,
    /// Another protocol of a program, with what makes it.
    pub protocol: Option<(String, MakeProtocol)>,
    /// The rest.
    pub params: UdpParams,
}

impl UdpConfig {
    /// What it is called in the tables.
    pub fn name(&self) -> &str {
        if let Some((name, _)) = &self.protocol {
            name
        } else if self.params.echo {
            "ping"
        } else {
            "udp"
        }
    }

    /// Propagation, both directions together, and whether it is sent up: 0 and down of what nobody answers.
    pub fn line(&self) -> (Time, bool) {
        (self.params.base_rtt, self.params.echo && self.route.up)
    }
}

/// One run, checked.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// The whole run.
    pub run: RunParams,
    /// The bottleneck.
    pub bottleneck: BottleneckParams,
    /// Its link, if the configuration names one.
    pub link: Option<link::Chosen>,
    /// Queue discipline: `name` and parameters.
    pub aqm: Map<String, Value>,
    /// Changes of rate, in order of time.
    pub rate_changes: Vec<RateChange>,
    /// Stages that all packets pass right ahead of the queue.
    pub path: Vec<Map<String, Value>>,
    /// Stages that all packets pass behind the bottleneck.
    pub behind: Vec<Map<String, Value>>,
    /// Propagation behind the bottleneck's link.
    pub delay: Time,
    /// The other hops.
    pub hops: Vec<HopConfig>,
    /// Both ends.
    pub hosts: HostParams,
    /// Flows, in order.
    pub flows: Vec<FlowConfig>,
    /// Short flows, process by process.
    pub web: Vec<WebConfig>,
    /// Sources of UDP, in order.
    pub udp: Vec<UdpConfig>,
    /// What is kept.
    pub record: RecordParams,
    /// What of the queue disciplines' state the time series keep ([`aqm::STATES`]).
    pub states: Vec<&'static str>,
}

/// `ss` and Flent poll TCP_INFO at this interval.
pub const SAMPLE_INTERVAL: Time = Time::from_millis(200);

/// Most flows and UDP sources in one run.
pub const MAX_FLOWS: usize = 1_000_000;

impl RunConfig {
    /// Reads canonical JSON.
    ///
    /// # Errors
    /// The first key that cannot be used: which, what was found, what is allowed.
    pub fn from_json(config: &Value) -> Result<RunConfig, ParamError> {
        RunConfig::read(config, &Additions::default())
    }

    /// The same, with algorithms that are not registered.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn read(config: &Value, additions: &Additions) -> Result<RunConfig, ParamError> {
        let root = object(config, "run")?;
        check_keys(root, &RunParams::specs(), &SECTIONS)?;
        let run = RunParams::from_json(&without(root, &SECTIONS))?;

        let section = object(root.get(BOTTLENECK).unwrap_or(&Value::Null), BOTTLENECK)?;
        let mut rate_changes = Vec::new();
        let first = read_hop(section, BOTTLENECK, 0, &mut rate_changes).map_err(|e| e.within(BOTTLENECK))?;
        let hops = read_hops(root, &mut rate_changes)?;
        rate_changes.sort_by_key(|change| change.at);
        let names: Vec<&str> = std::iter::once(BOTTLENECK).chain(hops.iter().map(|hop| hop.name.as_str())).collect();

        let hosts = match root.get("hosts") {
            None => HostParams::default(),
            Some(hosts) => HostParams::from_json(object(hosts, "hosts")?).map_err(|e| e.within("hosts"))?,
        };

        let controls = hosts.profile.controls();
        let flows = read_all(root, "flows", MAX_FLOWS, |value, last| read_flow(value, last, &controls, &names))?;
        let udp = read_all(root, "udp", MAX_FLOWS - flows.len(), |value, _| read_udp(value, &names, additions))?;
        let web = read_all(root, "web", MAX_CLASSES, |value, _| Ok((read_web(value, &controls, &names, additions)?, 1)))?;
        if flows.is_empty() && udp.is_empty() && web.is_empty() {
            return Err(ParamError::new("flows", "nothing that sends", "one entry or more in flows, web or udp"));
        }
        let record = match root.get("record") {
            None => RecordParams::default(),
            Some(record) => {
                RecordParams::from_json(&without(object(record, "record")?, &["queue"])).map_err(|e| e.within("record"))?
            }
        };
        let states = read_states(root).map_err(|e| e.within("record"))?;
        let HopConfig { params: bottleneck, link, aqm, path, behind, delay, .. } = first;
        let resolved = RunConfig {
            run,
            bottleneck,
            link,
            aqm,
            rate_changes,
            path,
            behind,
            delay,
            hops,
            hosts,
            flows,
            web,
            udp,
            record,
            states,
        };
        if resolved.measured_from() >= resolved.run.duration {
            let [found, most] = [resolved.record.from, resolved.run.duration].map(|time| format!("{} s", time.as_secs_f64()));
            return Err(ParamError::new("record.from", found, format!("less than the duration, {most}")));
        }
        Ok(resolved)
    }

    /// When counting begins: [`RecordParams::from`] in whole intervals of the samples.
    pub fn measured_from(&self) -> Time {
        Time(self.record.from.0.next_multiple_of(SAMPLE_INTERVAL.0))
    }

    /// For how long is counted.
    pub fn measured(&self) -> Time {
        self.run.duration - self.measured_from()
    }

    /// Bits that the bottleneck can carry after `from` and until `until`, and if `from` is 0 at that instant too.
    pub fn capacity_bits(&self, from: Time, until: Time) -> f64 {
        self.capacity_bits_of(0, from, until)
    }

    /// The keys of hop `hop`, 0 is the bottleneck, and the link that it names.
    fn hop(&self, hop: usize) -> (&BottleneckParams, Option<&link::Chosen>) {
        let other = hop.checked_sub(1).map(|other| &self.hops[other]);
        other.map_or((&self.bottleneck, self.link.as_ref()), |other| (&other.params, other.link.as_ref()))
    }

    /// The name of hop `hop`, 0 is the bottleneck.
    pub fn hop_name(&self, hop: usize) -> &str {
        hop.checked_sub(1).map_or(BOTTLENECK, |other| &self.hops[other].name)
    }

    /// The link that hop `hop` names, 0 is the bottleneck, with nothing on it.
    pub fn named_link(&self, hop: usize) -> Option<AnyLink> {
        let (params, chosen) = self.hop(hop);
        // links of one kind do not draw the same numbers
        let seed = if hop == 0 { self.run.seed } else { mix(self.run.seed ^ (hop as u64) << 48) };
        chosen.map(|chosen| chosen.build(&LinkContext { rate: params.rate, seed }))
    }

    /// What of the link of hop `hop` is of simulations alone, if it is, as key and value: a link that is named, or delays of a trace.
    pub fn simulated_link(&self, hop: usize) -> Option<(&'static str, &'static str)> {
        let (params, chosen) = self.hop(hop);
        let delays = params.trace.as_ref().is_some_and(LinkTrace::has_delays).then_some(("trace", "a trace with delays"));
        chosen.map(|chosen| ("link", chosen.name())).or(delays)
    }

    /// Whether packets that leave the link of hop `hop` take longer at some times than at others.
    pub fn link_delays(&self, hop: usize) -> bool {
        let (params, chosen) = self.hop(hop);
        chosen.map_or_else(|| params.trace.as_ref().is_some_and(LinkTrace::has_delays), link::Chosen::delays)
    }

    /// The same of hop `hop`: 0 is the bottleneck.
    pub fn capacity_bits_of(&self, hop: usize, from: Time, until: Time) -> f64 {
        let (link, _) = self.hop(hop);
        if let Some(trace) = &link.trace {
            let before = if from == Time::ZERO { 0 } else { trace.bytes_until(from) };
            return (trace.bytes_until(until) - before) as f64 * 8.0;
        }
        let mut built = self.named_link(hop);
        let mut open = |begin: Time, end: Time| match &mut built {
            None => (end - begin).as_secs_f64(),
            Some(own) => own.open(begin, end),
        };
        let (mut bits, mut since, mut rate) = (0.0, from, link.rate);
        for change in self.rate_changes.iter().filter(|change| usize::from(change.hop) == hop) {
            let at = change.at.clamp(from, until);
            bits += open(since, at) * rate.bits() as f64;
            (since, rate) = (at, change.rate);
        }
        bits + open(since, until) * rate.bits() as f64
    }

    /// What each hop's link carries, bit/s: its rate at the start, or what its trace or the link that it names carries in the measured time.
    pub fn link_rates(&self) -> Vec<f64> {
        let of_hop = |hop: usize| match self.hop(hop) {
            (BottleneckParams { trace: None, rate, .. }, None) => rate.bits() as f64,
            _ => self.capacity_bits_of(hop, self.measured_from(), self.run.duration) / self.measured().as_secs_f64(),
        };
        (0..=self.hops.len()).map(of_hop).collect()
    }

    /// Whether there is one hop, over which all data go and behind which they do not take longer at some times; and acknowledgements wait
    /// nowhere.
    pub fn is_one_hop(&self) -> bool {
        let flows = self.flows.iter().map(|flow| &flow.route);
        let mut routes = flows.chain(self.web.iter().map(|web| &web.route)).chain(self.udp.iter().map(|udp| &udp.route));
        let is_even = self.delay == Time::ZERO && !self.link_delays(0);
        self.hops.is_empty() && is_even && routes.all(|route| **route == Route::default())
    }

    /// Whether all packets pass stages ahead of the bottleneck or behind it.
    pub fn has_shared_stages(&self) -> bool {
        !(self.path.is_empty() && self.behind.is_empty())
    }

    /// Interval of the time series, if it is kept and a point falls into the run.
    pub fn series_interval(&self) -> Option<Time> {
        let interval = self.record.interval;
        (self.record.series && interval <= self.run.duration).then_some(interval)
    }
}

/// Keys of a run that hold tables or lists of them.
const SECTIONS: [&str; 8] = [BOTTLENECK, "hop", REVERSE, "hosts", "flows", "web", "udp", "record"];

/// Largest number of connection classes; all further connections are in the last one.
pub const MAX_CLASSES: usize = 256;

/// What the members of a class are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassKind {
    /// Flows of `[[flows]]`.
    Flows,
    /// Short flows of one `[[web]]`.
    Web,
    /// UDP.
    Udp,
}

impl ClassKind {
    /// As it stands in the tables.
    pub fn name(self) -> &'static str {
        match self {
            ClassKind::Flows => "flows",
            ClassKind::Web => "web",
            ClassKind::Udp => "udp",
        }
    }
}

/// A class of traffic: flows that are alike.
#[derive(Clone, Debug)]
pub struct Class {
    /// What its members are.
    pub kind: ClassKind,
    /// Name of the congestion control; "udp" for UDP.
    pub cc: String,
    /// Base RTT.
    pub base_rtt: Time,
    /// Which hops its members' packets pass.
    pub route: Arc<Route>,
}

/// The classes of a run, and which class everything belongs to.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// Class by class.
    pub list: Vec<Class>,
    /// Of each flow.
    pub of_flow: Vec<u16>,
    /// Of each source of UDP.
    pub of_udp: Vec<u16>,
    /// Of each process of short flows.
    pub of_web: Vec<u16>,
}

impl Classes {
    /// Adds a class, or returns the last one if there are too many.
    fn add(&mut self, kind: ClassKind, cc: &str, base_rtt: Time, route: &Arc<Route>) -> u16 {
        if self.list.len() < MAX_CLASSES {
            self.list.push(Class { kind, cc: cc.to_owned(), base_rtt, route: Arc::clone(route) });
        }
        (self.list.len() - 1) as u16
    }
}

/// Name of the congestion control that `cc` describes.
pub fn cc_name(cc: &Map<String, Value>) -> &str {
    cc.get("name").and_then(Value::as_str).unwrap_or("")
}

impl RunConfig {
    /// Classes, numbered as they appear: flows by congestion control with its parameters, base RTT and ECN; UDP by its parameters; each
    /// process of short flows is its own.
    pub fn classes(&self) -> Classes {
        let mut classes = Classes::default();
        let mut known: Vec<(&FlowConfig, u16)> = Vec::new();
        for flow in &self.flows {
            let class = match known.iter().find(|(other, _)| other.is_like(flow)) {
                Some(&(_, class)) => class,
                None => {
                    let class = classes.add(ClassKind::Flows, cc_name(&flow.cc), flow.params.base_rtt, &flow.route);
                    if known.len() < MAX_CLASSES {
                        known.push((flow, class));
                    }
                    class
                }
            };
            classes.of_flow.push(class);
        }
        let mut known_udp: Vec<(&UdpConfig, u16)> = Vec::new();
        for one in &self.udp {
            let of = |udp: &UdpParams| (udp.rate, udp.size, udp.ecn, udp.dscp, udp.echo, udp.base_rtt);
            let is_like = |other: &UdpConfig| {
                of(&other.params) == of(&one.params) && other.route == one.route && other.name() == one.name()
            };
            let class = match known_udp.iter().find(|(other, _)| is_like(other)) {
                Some(&(_, class)) => class,
                None => {
                    let class = classes.add(ClassKind::Udp, one.name(), one.params.base_rtt, &one.route);
                    if known_udp.len() < MAX_CLASSES {
                        known_udp.push((one, class));
                    }
                    class
                }
            };
            classes.of_udp.push(class);
        }
        for web in &self.web {
            let class = classes.add(ClassKind::Web, &web.cc_name, web.params.base_rtt, &web.route);
            classes.of_web.push(class);
        }
        classes
    }
}

fn without(map: &Map<String, Value>, keys: &[&str]) -> Map<String, Value> {
    map.iter().filter(|(key, _)| !keys.contains(&key.as_str())).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn object<'a>(value: &'a Value, key: &str) -> Result<&'a Map<String, Value>, ParamError> {
    value.as_object().ok_or_else(|| ParamError::new(key, value, "a table"))
}

fn list<'a>(value: Option<&'a Value>, key: &str) -> Result<&'a [Value], ParamError> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(ParamError::new(key, other, "a list")),
    }
}

/// The value of `key`, or `default` where there is none.
fn field<T: ParamType>(map: &Map<String, Value>, key: &str, default: T) -> Result<T, ParamError> {
    map.get(key).map_or(Ok(default), |value| T::from_json(value).map_err(|allowed| ParamError::new(key, value, allowed)))
}

/// Reads the list `key`. `read` turns an entry, given the result of the one before it, into a value and its count; at most `most` in
/// total.
fn read_all<T: Clone>(
    root: &Map<String, Value>,
    key: &str,
    most: usize,
    read: impl Fn(&Value, Option<&T>) -> Result<(T, usize), ParamError>,
) -> Result<Vec<T>, ParamError> {
    let entries = list(root.get(key), key)?;
    let mut all: Vec<T> = Vec::with_capacity(entries.len().min(most));
    for (index, entry) in entries.iter().enumerate() {
        let (one, count) = read(entry, all.last()).map_err(|e| e.within(&format!("{key}[{index}]")))?;
        let total = all.len().saturating_add(count);
        if total > most {
            return Err(ParamError::new(key, format!("{total} of them"), format!("at most {most}")));
        }
        all.resize(total, one);
    }
    Ok(all)
}

/// The congestion control in `map`: what it does not set is as the hosts' profile has it, by name of the control in `of_profile`.
fn read_control(map: &Map<String, Value>, of_profile: &Map<String, Value>) -> Result<Map<String, Value>, ParamError> {
    let mut control = object(map.get("cc").unwrap_or(&Value::Null), "cc")?.clone();
    if let Some(values) = of_profile.get(cc_name(&control)).and_then(Value::as_object) {
        for (key, value) in values {
            control.entry(key).or_insert_with(|| value.clone());
        }
    }
    Ok(control)
}

/// Reads one entry of `[[flows]]` and its count; shares `cc` and `stages` with `last` if they are equal.
fn read_flow(
    value: &Value,
    last: Option<&FlowConfig>,
    of_profile: &Map<String, Value>,
    hops: &[&str],
) -> Result<(FlowConfig, usize), ParamError> {
    let map = object(value, "flow")?;
    let params = FlowParams::from_json(&without(&without(map, &OF_ROUTE), &["cc", "start", "count", "path", "ack_path"]))?;
    let route = read_route(map, hops)?;
    let route = last.map(|flow| &flow.route).filter(|same| **same == route).cloned().unwrap_or(route);
    let count = read_count(map)?;
    let mut stages = read_stages(map)?;
    // loss and jitter are short for the stages that come first
    let jitter = json!({"name": path::jitter::NAME, "max": params.jitter.0});
    let loss = json!({"name": path::loss::NAME, "probability": params.loss});
    for (stage, wanted) in [(jitter, params.jitter > Time::ZERO), (loss, params.loss > 0.0)] {
        if wanted {
            stages.path.insert(0, object(&stage, "path")?.clone());
        }
    }
    let stages = last.map(|flow| &flow.stages).filter(|same| ***same == stages).cloned().unwrap_or_else(|| Arc::new(stages));
    let cc = read_control(map, of_profile)?;
    let cc = last.map(|flow| &flow.cc).filter(|same| ***same == cc).cloned().unwrap_or_else(|| Arc::new(cc));
    let start = read_start(map)?;
    if let Some(connect) = params.connect.filter(|&connect| connect > start.min) {
        return Err(ParamError::new("connect", connect, format!("up to start, {}", start.min)));
    }
    Ok((FlowConfig { cc, start, stages, route, params }, count))
}

fn read_web(
    value: &Value,
    of_profile: &Map<String, Value>,
    hops: &[&str],
    additions: &Additions,
) -> Result<WebConfig, ParamError> {
    let map = object(value, "web")?;
    let params = WebParams::from_json(&without(&without(map, &OF_ROUTE), &["cc", "start", "path", "ack_path"]))?;
    let route = read_route(map, hops)?;
    let cc = read_control(map, of_profile)?;
    let chosen = additions.choose_control(&cc).map_err(|e| e.within("cc"))?;
    Ok(WebConfig {
        cc_name: cc_name(&cc).to_owned(),
        cc: chosen,
        start: read_start(map)?,
        stages: read_stages(map)?,
        route,
        params,
    })
}

fn read_udp(value: &Value, hops: &[&str], additions: &Additions) -> Result<(UdpConfig, usize), ParamError> {
    let map = object(value, "udp")?;
    let params = UdpParams::from_json(&without(&without(map, &OF_ROUTE), &["start", "count", "path", "ack_path", "protocol"]))?;
    let protocol = match map.get("protocol") {
        None => None,
        Some(keys) => {
            let keys = object(keys, "protocol")?;
            Some(additions.choose_endpoint(keys).map_err(|e| e.within("protocol"))?)
        }
    };
    if params.base_rtt > Time::ZERO && !params.echo {
        return Err(ParamError::new("base_rtt", params.base_rtt, "0s without echo"));
    }
    let route = read_route(map, hops)?;
    let stages = read_stages(map)?;
    if !stages.ack_path.is_empty() && !params.echo {
        return Err(ParamError::new("ack_path", "stages of answers", "none without echo"));
    }
    Ok((UdpConfig { start: read_start(map)?, stages, route, protocol, params }, read_count(map)?))
}

/// What of the queue disciplines' state the time series keep.
fn read_states(root: &Map<String, Value>) -> Result<Vec<&'static str>, ParamError> {
    let known = aqm::STATES.map(|(name, _, _)| name);
    let named = list(root.get("record").and_then(|record| record.get("queue")), "queue")?;
    let state = |value: &Value| {
        let found = known.into_iter().find(|name| value.as_str() == Some(name));
        found.ok_or_else(|| ParamError::new("queue", value, known.join(", ")))
    };
    named.iter().map(state).collect()
}

fn read_stages(map: &Map<String, Value>) -> Result<StageConfig, ParamError> {
    Ok(StageConfig { path: read_path::<Packet>(map, "path")?, ack_path: read_path::<Ack>(map, "ack_path")? })
}

/// The stages in the list `key`, each of which can be built for items of type `T`.
fn read_path<T: Carried>(map: &Map<String, Value>, key: &str) -> Result<Vec<Map<String, Value>>, ParamError> {
    let entries = list(map.get(key), key)?.iter().enumerate();
    let stages =
        entries.map(|(index, stage)| object(stage, &format!("{key}[{index}]")).cloned()).collect::<Result<Vec<_>, _>>()?;
    let place = |error: ParamError| ParamError { key: format!("{key}{}", error.key), ..error };
    path::build::<T>(&stages, Rng::stream(0, "check", 0)).map_err(place)?;
    Ok(stages)
}

fn read_count(map: &Map<String, Value>) -> Result<usize, ParamError> {
    match field(map, "count", 1_u64)? {
        0 => Err(ParamError::new("count", 0, "1 or more")),
        count => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
    }
}

fn read_start(map: &Map<String, Value>) -> Result<Start, ParamError> {
    match map.get("start") {
        None => Ok(Start { min: Time::ZERO, max: Time::ZERO }),
        Some(Value::Object(range)) => {
            check_keys(range, &[], &["min", "max"]).map_err(|e| e.within("start"))?;
            let end = |key: &str| range.get(key).and_then(Value::as_u64).map(Time);
            match (end("min"), end("max")) {
                (Some(min), Some(max)) if min <= max && max <= Time::from_secs(86_400) => Ok(Start { min, max }),
                _ => Err(ParamError::new("start", Value::Object(range.clone()), "min <= max, within a day")),
            }
        }
        Some(other) => Err(ParamError::new("start", other, "{min, max}")),
    }
}
