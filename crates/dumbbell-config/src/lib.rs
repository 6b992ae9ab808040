//! One run, resolved: what engines read. Canonical JSON in, a [`RunConfig`] out.

mod classes;
pub mod extensions;
mod frames;
mod keys;
mod read;
mod route;
pub mod schedule;
mod sections;
mod shaped;
pub mod web;

pub use self::classes::{Class, ClassKind, Classes, MAX_CLASSES};
use self::keys::{object, without_keys};
use self::read::{read_all, read_app, read_flow, read_states, read_udp, read_web};
use self::route::{read_hop, read_hops};
pub use self::route::{read_rate_change, HopConfig, RateChange, Route, BOTTLENECK, MAX_HOPS, REVERSE};
pub use self::sections::{
    AppParams, BottleneckParams, EcnEcho, FlowParams, HostSharing, RecordParams, RunParams, Shaper, UdpParams, WebParams,
};
use crate::extensions::{CarrierSpec, Extensions, ProtocolFactory, TransportSpec};
use dumbbell_core::app::{self, AppKind, AppSpec, StreamDirection};
use dumbbell_core::aqm::AqmSpec;
use dumbbell_core::cc::{CcContext, CcSpec, CongestionControl};
use dumbbell_core::link::{self, AnyLink, LinkContext};
use dumbbell_core::link_trace::LinkTrace;
use dumbbell_core::packet::HEADERS;
use dumbbell_core::param::{check_keys, ParamError};
use dumbbell_core::path::{self, StageSpec};
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::rng::{mix, Rng};
use dumbbell_core::tcp::host::{self, HostParams};
use dumbbell_core::tcp::receiver::Misbehaviour;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_core::{aqm, cc};
use serde_json::{json, Value};
use std::sync::Arc;

/// Everything that a run's configuration can hold, described: queue disciplines, congestion controls, sections
/// and the profiles of hosts.
pub fn registry() -> Value {
    let algorithms = |specs: Vec<dumbbell_core::param::AlgorithmSpec>| specs.iter().map(|s| s.to_json()).collect::<Vec<_>>();
    let section = |specs: Vec<dumbbell_core::param::ParamSpec>| specs.iter().map(|s| s.to_json()).collect::<Vec<_>>();
    json!({
        "aqm": algorithms(aqm::specs()),
        "cc": algorithms(cc::specs()),
        "stage": algorithms(path::specs()),
        "stages_of_data": <ReceiverReply as path::PathItem>::REFUSED,
        "link": algorithms(link::specs()),
        "app": algorithms(app::specs()),
        "apps_of_streams": AppSpec::KINDS.iter().filter(|(_, kind)| matches!(kind, AppKind::Streams(_))).map(|(name, _)| *name).collect::<Vec<_>>(),
        "sections": {
            "run": section(RunParams::specs()), "bottleneck": section(BottleneckParams::specs()),
            "hosts": section(HostParams::specs()), "flows": section(FlowParams::specs()), "web": section(WebParams::specs()),
            "udp": section(UdpParams::specs()), "app": section(AppParams::specs()), "record": section(RecordParams::specs()),
        },
        "states": aqm::STATES.map(|(name, unit, doc)| json!({"name": name, "unit": unit, "doc": doc})),
        "profiles": host::profiles(),
    })
}

/// Earliest and latest start of a flow; drawn uniformly.
#[derive(Clone, Copy, Debug)]
pub struct StartRange {
    /// Earliest.
    pub min: Instant,
    /// Latest.
    pub max: Instant,
}

impl StartRange {
    /// A start drawn from the stream `name` of `seed`, number `index`.
    pub fn draw(&self, seed: u64, name: &str, index: usize) -> Instant {
        self.min + Duration(Rng::stream(seed, name, index as u64).draw_below((self.max - self.min).0 + 1))
    }
}

/// One flow.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// Transport of the flow; flows in a row with equal transports share one.
    pub transport: Arc<TransportSpec>,
    /// When it starts.
    pub start: StartRange,
    /// Stages that it passes alone.
    pub stages: Arc<StageConfig>,
    /// Hops that it passes with others.
    pub route: Arc<Route>,
    /// The rest.
    pub params: FlowParams,
}

/// Stages that the packets of an endpoint pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageConfig {
    /// Between the sender and the bottleneck, in this order.
    pub path: Vec<StageSpec>,
    /// Between the receiver and the sender.
    pub ack_path: Vec<StageSpec>,
}

impl FlowConfig {
    /// Whether its TCP asks for ECN.
    fn asks_for_ecn(&self, hosts: &HostParams) -> bool {
        let is_required = |cc: &CcSpec| cc.build(&CcContext::default()).ecn().required;
        self.params.ecn.unwrap_or(hosts.ecn) || matches!(&*self.transport, TransportSpec::Tcp(cc) if is_required(cc))
    }

    /// Whether both are of one connection class.
    fn is_like(&self, other: &FlowConfig) -> bool {
        let of = |FlowConfig { params, .. }: &FlowConfig| {
            (params.base_rtt, params.ecn, params.initial_window, params.mss, params.receive_buffer, params.misbehaves)
        };
        of(self) == of(other) && self.transport == other.transport && self.route == other.route
    }
}

/// Short flows that come and go.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// Congestion control of every flow.
    pub cc: CcSpec,
    /// When the process of arrivals begins.
    pub start: StartRange,
    /// Stages that each flow passes alone.
    pub stages: StageConfig,
    /// Hops that they pass with others.
    pub route: Arc<Route>,
    /// The rest.
    pub params: WebParams,
}

/// One source of UDP.
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// When it starts.
    pub start: StartRange,
    /// Stages that it passes alone.
    pub stages: StageConfig,
    /// Hops that it passes with others.
    pub route: Arc<Route>,
    /// Another protocol of a program.
    pub protocol: Option<ProtocolFactory>,
    /// The rest.
    pub params: UdpParams,
}

impl UdpConfig {
    /// Returns its name in the tables.
    pub fn name(&self) -> &str {
        if let Some(protocol) = &self.protocol {
            protocol.name()
        } else if self.params.echo {
            "ping"
        } else {
            "udp"
        }
    }

    /// Propagation, both directions together, and whether it is sent up: 0 and down of what nobody answers.
    pub fn line(&self) -> (Duration, bool) {
        (self.params.base_rtt, self.params.echo && self.route.up)
    }
}

/// One user of an application.
#[derive(Clone, Debug)]
pub struct AppConfig {
    /// The application.
    pub spec: AppSpec,
    /// Transport of its streams.
    pub cc: Option<CarrierSpec>,
    /// When it starts.
    pub start: StartRange,
    /// Stages that each connection or way passes alone, by [`StreamDirection::index`].
    pub stages: [StageConfig; 2],
    /// Hops that they pass with others, by [`StreamDirection::index`].
    pub routes: [Arc<Route>; 2],
    /// The rest.
    pub params: AppParams,
}

impl AppConfig {
    /// Returns the name of its classes: that of the application, with that of its congestion control.
    pub fn class_name(&self) -> String {
        match &self.cc {
            Some(cc) => format!("{} over {}", self.spec.name(), cc.name()),
            None => self.spec.name().to_owned(),
        }
    }

    /// Returns the route of what goes this way.
    pub fn route(&self, way: StreamDirection) -> &Arc<Route> {
        &self.routes[way.index()]
    }
}

/// One run, checked.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// The whole run.
    pub run: RunParams,
    /// The bottleneck.
    pub bottleneck: BottleneckParams,
    /// Link of the bottleneck, if the configuration names one.
    pub link: Option<link::LinkSpec>,
    /// Queue discipline.
    pub aqm: AqmSpec,
    /// Changes of rate, in order of time.
    pub rate_changes: Vec<RateChange>,
    /// Stages that all packets pass right ahead of the queue.
    pub path: Vec<StageSpec>,
    /// Stages that all packets pass behind the bottleneck.
    pub behind: Vec<StageSpec>,
    /// Propagation behind the bottleneck's link.
    pub delay: Duration,
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
    /// Users of applications, in order.
    pub apps: Vec<AppConfig>,
    /// Data that the run keeps.
    pub record: RecordParams,
    /// Names of the queue disciplines' states that the time series keep ([`aqm::STATES`]).
    pub states: Vec<&'static str>,
}

/// Gives every flow and source of UDP that has hosts of its own the next two numbers above those that are named: flows first, in order.
fn give_hosts(flows: &mut [FlowConfig], udp: &mut [UdpConfig], web: &[WebConfig]) {
    let named = flows.iter().map(|one| one.params.src_host.max(one.params.dst_host));
    let named = named.chain(udp.iter().map(|one| one.params.src_host.max(one.params.dst_host)));
    let mut last = named.chain(web.iter().map(|one| one.params.src_host.max(one.params.dst_host))).max().unwrap_or(0);
    let mut next = || {
        last = last.wrapping_add(1);
        last
    };
    for FlowConfig { params, .. } in flows.iter_mut().filter(|one| one.params.hosts == HostSharing::Each) {
        (params.src_host, params.dst_host) = (next(), next());
    }
    for UdpConfig { params, .. } in udp.iter_mut().filter(|one| one.params.hosts == HostSharing::Each) {
        (params.src_host, params.dst_host) = (next(), next());
    }
}

/// `ss` and Flent poll TCP_INFO at this interval.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);

/// Most users of applications in one run; each may have a hundred connections.
pub const MAX_APPS: usize = 10_000;

/// Most flows and UDP sources in one run.
pub const MAX_FLOWS: usize = 1_000_000;

impl RunConfig {
    /// Reads canonical JSON.
    ///
    /// # Errors
    /// The first key that cannot be used: which, what was found, what is allowed.
    pub fn from_json(config: &Value) -> Result<RunConfig, ParamError> {
        RunConfig::read(config, &Extensions::default())
    }

    /// Reads canonical JSON, with algorithms that are not registered.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn read(config: &Value, extensions: &Extensions) -> Result<RunConfig, ParamError> {
        let root = object(config, "run")?;
        check_keys(root, &RunParams::specs(), &SECTIONS)?;
        let hosts = match root.get("hosts") {
            None => HostParams::default(),
            Some(hosts) => HostParams::from_json(object(hosts, "hosts")?).map_err(|e| e.prefix_key("hosts"))?,
        };
        if hosts.mss + u32::from(HEADERS) > u32::from(u16::MAX) {
            return Err(ParamError::new("hosts.mss", hosts.mss, "frames below 64 KiB"));
        }
        let settled;
        let root = if hosts.mss == HostParams::default().mss {
            root
        } else {
            let mut own = root.clone();
            frames::settle(&mut own, hosts.full_frame());
            settled = own;
            &settled
        };
        let run = RunParams::from_json(&without_keys(root, &SECTIONS))?;

        let section = object(root.get(BOTTLENECK).unwrap_or(&Value::Null), BOTTLENECK)?;
        let end = Instant::ZERO + run.duration;
        let mut rate_changes = Vec::new();
        let first = read_hop(section, BOTTLENECK, 0, end, &mut rate_changes, extensions).map_err(|e| e.prefix_key(BOTTLENECK))?;
        let hops = read_hops(root, end, &mut rate_changes, extensions)?;
        rate_changes.sort_by_key(|change| change.at);
        let names: Vec<&str> = std::iter::once(BOTTLENECK).chain(hops.iter().map(|hop| hop.name.as_str())).collect();

        let controls = hosts.profile.controls();
        let mut flows = read_all(root, "flows", MAX_FLOWS, |value, last| read_flow(value, last, &controls, &names, extensions))?;
        let mut udp = read_all(root, "udp", MAX_FLOWS - flows.len(), |value, _| read_udp(value, &names, extensions))?;
        let web = read_all(root, "web", MAX_CLASSES, |value, _| Ok((read_web(value, &controls, &names, extensions)?, 1)))?;
        let apps = read_all(root, "app", MAX_APPS, |value, _| read_app(value, &controls, &names, extensions))?;
        give_hosts(&mut flows, &mut udp, &web);
        if flows.is_empty() && udp.is_empty() && web.is_empty() && apps.is_empty() {
            return Err(ParamError::new("flows", "nothing that sends", "one entry or more in flows, web, udp or app"));
        }
        let exceeds = |flow: &FlowConfig| flow.params.mss.is_some_and(|mss| mss > hosts.mss);
        if let Some(index) = flows.iter().position(exceeds) {
            let found = format!("{} B", flows[index].params.mss.unwrap_or_default());
            return Err(ParamError::new(format!("flows[{index}].mss"), found, format!("at most hosts.mss = {} B", hosts.mss)));
        }
        let conceals_nothing =
            |flow: &FlowConfig| flow.params.misbehaves == Some(Misbehaviour::Conceals) && !flow.asks_for_ecn(&hosts);
        if let Some(index) = flows.iter().position(conceals_nothing) {
            return Err(ParamError::new(
                format!("flows[{index}].misbehaves"),
                "conceals, and the flow has no ECN",
                "ecn = true as well",
            ));
        }
        let too_large = |one: &UdpConfig| one.protocol.is_none() && one.params.size > hosts.full_frame();
        if let Some(index) = udp.iter().position(too_large) {
            let allowed = format!("at most {} B, a full frame of hosts.mss = {} B", hosts.full_frame(), hosts.mss);
            return Err(ParamError::new(format!("udp[{index}].size"), format!("{} B", udp[index].params.size), allowed));
        }
        if let Some(index) = apps.iter().position(|app| app.spec.largest_frame() > hosts.full_frame()) {
            let allowed = format!("at most {} B, a full frame of hosts.mss = {} B", hosts.full_frame(), hosts.mss);
            let found = format!("datagrams of {} B with their headers", apps[index].spec.largest_frame());
            return Err(ParamError::new(format!("app[{index}].kind"), found, allowed));
        }
        let record = match root.get("record") {
            None => RecordParams::default(),
            Some(record) => RecordParams::from_json(&without_keys(object(record, "record")?, &["queue"]))
                .map_err(|e| e.prefix_key("record"))?,
        };
        let states = read_states(root).map_err(|e| e.prefix_key("record"))?;
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
            apps,
            record,
            states,
        };
        resolved.check_controls()?;
        if resolved.measured_from() >= resolved.end() {
            let [found, most] = [resolved.record.from, resolved.end()].map(|time| format!("{} s", time.as_secs_f64()));
            return Err(ParamError::new("record.from", found, format!("less than the duration, {most}")));
        }
        Ok(resolved)
    }

    /// When the run ends.
    pub fn end(&self) -> Instant {
        Instant::ZERO + self.run.duration
    }

    /// When counting begins: [`RecordParams::from`] in whole intervals of the samples.
    pub fn measured_from(&self) -> Instant {
        Instant(self.record.from.0.next_multiple_of(SAMPLE_INTERVAL.0))
    }

    /// For how long is counted.
    pub fn measured_time(&self) -> Duration {
        self.end() - self.measured_from()
    }

    /// Bits that the bottleneck can carry after `from` and until `until`, and if `from` is 0 at that instant too.
    pub fn capacity_bits(&self, from: Instant, until: Instant) -> f64 {
        self.capacity_bits_of(0, from, until)
    }

    /// The keys of hop `hop`, 0 is the bottleneck, and the link that it names.
    fn hop(&self, hop: usize) -> (&BottleneckParams, Option<&link::LinkSpec>) {
        let other = hop.checked_sub(1).map(|other| &self.hops[other]);
        other.map_or((&self.bottleneck, self.link.as_ref()), |other| (&other.params, other.link.as_ref()))
    }

    /// The keys of hop `hop`, 0 is the bottleneck.
    pub fn hop_params(&self, hop: usize) -> &BottleneckParams {
        self.hop(hop).0
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
        chosen.map(|chosen| chosen.build(&LinkContext { rate: params.rate, seed, run_seed: self.run.seed }))
    }

    /// Returns the first hop of the data of `route` whose queue shapes at a rate of its own, 0 is the bottleneck.
    pub fn shaper_of(&self, route: &Route) -> Option<usize> {
        let shapes = |hop: &usize| {
            let aqm = if *hop == 0 { &self.aqm } else { &self.hops[*hop - 1].aqm };
            aqm.name() == "cake" && aqm.values().get("bandwidth").and_then(Value::as_u64).is_some_and(|rate| rate > 0)
        };
        route.data.iter().map(|&hop| usize::from(hop)).find(shapes)
    }

    /// Checks that each program that sets rates of shapers has one.
    fn check_controls(&self) -> Result<(), ParamError> {
        let has_none = |app: &AppConfig| {
            matches!(app.spec, AppSpec::Autorate(_)) && app.routes.iter().all(|route| self.shaper_of(route).is_none())
        };
        match self.apps.iter().position(has_none) {
            None => Ok(()),
            Some(index) => {
                let found = format!("{}, and no hop of its routes shapes", self.apps[index].spec.name());
                Err(ParamError::new(format!("app[{index}].kind"), found, "a hop with aqm = cake and a bandwidth"))
            }
        }
    }

    /// Returns the part of the link of hop `hop` that only simulations have, if there is one, as key and value: a named link, or delays of a trace.
    pub fn simulated_link(&self, hop: usize) -> Option<(&'static str, &str)> {
        let (params, chosen) = self.hop(hop);
        let delays = params.trace.as_ref().is_some_and(LinkTrace::has_delays).then_some(("trace", "a trace with delays"));
        chosen.map(|chosen| ("link", chosen.name())).or(delays)
    }

    /// Whether packets that leave the link of hop `hop` take longer at some times than at others.
    pub fn link_delays(&self, hop: usize) -> bool {
        let (params, chosen) = self.hop(hop);
        chosen.map_or_else(|| params.trace.as_ref().is_some_and(LinkTrace::has_delays), link::LinkSpec::delays)
    }

    /// Returns the capacity of hop `hop` between two times, bits; 0 is the bottleneck.
    pub fn capacity_bits_of(&self, hop: usize, from: Instant, until: Instant) -> f64 {
        let (link, _) = self.hop(hop);
        if let Some(trace) = &link.trace {
            let before = if from == Instant::ZERO { 0 } else { trace.bytes_until(from) };
            return (trace.bytes_until(until) - before) as f64 * 8.0;
        }
        let mut built = self.named_link(hop);
        let open = |own: &mut Option<AnyLink>, begin: Instant, end: Instant| match own {
            None => (end - begin).as_secs_f64(),
            Some(own) => own.open(begin, end),
        };
        let (mut bits, mut since, mut rate) = (0.0, from, link.rate);
        for change in self.rate_changes.iter().filter(|change| usize::from(change.hop) == hop) {
            let at = change.at.clamp(from, until);
            bits += open(&mut built, since, at) * rate.bits() as f64;
            (since, rate) = (at, change.rate);
            if let Some(own) = &mut built {
                own.set_rate(rate, at);
            }
        }
        bits + open(&mut built, since, until) * rate.bits() as f64
    }

    /// Returns the rate that each hop's link carries, bit/s: its rate at the start, or what its trace or the link that it names carries in the measured time.
    pub fn link_rates(&self) -> Vec<f64> {
        let of_hop = |hop: usize| match self.hop(hop) {
            (BottleneckParams { trace: None, rate, .. }, None) => rate.bits() as f64,
            _ => self.capacity_bits_of(hop, self.measured_from(), self.end()) / self.measured_time().as_secs_f64(),
        };
        (0..=self.hops.len()).map(of_hop).collect()
    }

    /// Whether there is one hop, over which all data go and behind which they do not take longer at some times; and acknowledgements wait
    /// nowhere.
    pub fn is_one_hop(&self) -> bool {
        let flows = self.flows.iter().map(|flow| &flow.route);
        let others = self.udp.iter().map(|udp| &udp.route).chain(self.apps.iter().flat_map(|app| &app.routes));
        let mut routes = flows.chain(self.web.iter().map(|web| &web.route)).chain(others);
        let is_even = self.delay == Duration::ZERO && !self.link_delays(0);
        self.hops.is_empty() && is_even && routes.all(|route| **route == Route::default())
    }

    /// Whether all packets pass stages ahead of the bottleneck or behind it.
    pub fn has_shared_stages(&self) -> bool {
        !(self.path.is_empty() && self.behind.is_empty())
    }

    /// Interval of the time series, if it is kept and a point falls into the run.
    pub fn series_interval(&self) -> Option<Duration> {
        let interval = self.record.interval;
        (self.record.series && interval <= self.run.duration).then_some(interval)
    }
}

/// Keys of a run that hold tables or lists of them.
const SECTIONS: [&str; 9] = [BOTTLENECK, "hop", REVERSE, "hosts", "flows", "web", "udp", "app", "record"];
