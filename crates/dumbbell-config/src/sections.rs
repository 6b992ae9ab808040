//! The sections of a run's configuration: every key with its unit, default, range and source.

use dumbbell_core::link_layer::{Framing, LinkLayer, Preset};
use dumbbell_core::link_trace::LinkTrace;
use dumbbell_core::param::ParamError;
use dumbbell_core::tcp::host::HostParams;
use dumbbell_core::tcp::receiver::Misbehaviour;
use dumbbell_core::traffic::{Arrivals, Codepoint, FlowSizes, Spacing, Times};
use dumbbell_core::units::{Duration, Instant, Rate};
use dumbbell_core::{choice, params};

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
    /// Which hosts the flows of one entry have.
    pub enum HostSharing {
        /// All of them those that `src_host` and `dst_host` name.
        Shared = "shared",
        /// Each flow two that nothing else in the run has.
        Each = "each",
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
        duration: Duration = Duration::from_secs(60), unit "", range Duration(1), Duration::from_secs(86_400), source "tcp_nup of Flent runs 60 s by default";
        /// Seed of every random stream.
        seed: u64 = 1, unit "", source "";
    }
}

params! {
    /// The bottleneck, except for its queue discipline.
    pub struct BottleneckParams {
        /// Rate. It counts Ethernet frames without FCS. With `trace` it is the mean rate of the trace.
        rate: Rate = Rate::from_mbit(10), unit "", range Rate(1000), Rate(10_000_000_000_000), source "";
        /// How packets leave the queue. A queue that shapes by itself (cake) stands at a token bucket of one frame instead of `link`: the link
        /// limits what the queue lets leave.
        shaper: Shaper = Shaper::Link, unit "", source "";
        /// Bucket of the htb shaper; only with it.
        burst: u32 = 1514, unit "bytes", range 1514_u32, 100_000_000_u32, source "one frame, the least that sch_htb works with";
        /// File with the link's opportunities to send, instead of `rate`, `shaper`, `burst` and `rate_changes`: a time in whole milliseconds per
        /// line, each for one full frame of 1514 B, and behind it perhaps a one-way delay in ms. A relative path starts at the folder of the
        /// experiment file.
        trace: Option<LinkTrace> = None, unit "", source "mahimahi: mm-link(1); docs/traces.md";
        /// Kind of the link, which sets the overhead of each frame, counted in `rate`. A queue that shapes counts the same.
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
            return Err(ParamError::new("trace", "set, and so is shaper or burst", "without them"));
        }
        Ok(())
    }

    /// Returns the link layer, which says how long a frame is on the link.
    pub fn layer(&self) -> LinkLayer {
        LinkLayer::of_preset(self.link_layer).with_overrides(self.overhead, self.mpu, self.framing)
    }

    /// Gives `rate` the value that it has with a trace; `given` says whether the configuration sets it.
    pub(crate) fn settle_rate(&mut self, given: bool) -> Result<(), ParamError> {
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
        base_rtt: Duration = Duration::from_millis(20), unit "", range Duration(0), Duration::from_secs(60), source "";
        /// When it connects, if that is before `start`; its application still starts to write at `start`.
        connect: Option<Instant> = None, unit "", range Instant(0), Instant::from_secs(86_400), source "";
        /// From this time on it sends no new data.
        stop: Option<Instant> = None, unit "", source "";
        /// Ends after this much payload.
        size: Option<u64> = None, unit "bytes", range 1_u64, 1_u64 << 60, source "";
        /// The application writes payload at this rate instead of as fast as it can.
        app_rate: Option<Rate> = None, unit "", range Rate(1000), Rate(10_000_000_000_000), source "";
        /// From this time on it writes at `app_rate`; until then as fast as it can.
        app_rate_from: Instant = Instant::ZERO, unit "", range Instant(0), Instant::from_secs(86_400), source "";
        /// From this time on the application writes nothing; data already written is still sent.
        app_pause: Option<Instant> = None, unit "", range Instant(0), Instant::from_secs(86_400), source "";
        /// When it continues after `app_pause`; unset: never. It does not make up for the pause.
        app_resume: Option<Instant> = None, unit "", range Instant(0), Instant::from_secs(86_400), source "";
        /// Random loss of data packets ahead of the bottleneck.
        loss: f64 = 0.0, unit "probability", range 0.0, 1.0, source "";
        /// Random extra delay of each data packet, uniform from 0 to this; packets stay in order.
        jitter: Duration = Duration::ZERO, unit "", range Duration(0), Duration::from_secs(60), source "";
        /// Host that sends what goes down and receives what goes up, for queues that isolate hosts.
        src_host: u32 = 1, unit "", source "";
        /// Host that receives what goes down and sends what goes up, for queues that isolate hosts.
        dst_host: u32 = 2, unit "", source "";
        /// Whether all flows of this entry have the hosts that `src_host` and `dst_host` name, or each of its `count` has two of its own, which nothing else in
        /// the run has.
        hosts: HostSharing = HostSharing::Shared, unit "", source "";
        /// Differentiated-services codepoint.
        dscp: u8 = 0, unit "", range 0_u8, 63_u8, source "RFC 2474";
        /// How the receiver echoes CE: as the congestion control expects it, until CWR, per packet, or as a count.
        ecn_echo: EcnEcho = EcnEcho::Auto, unit "", source "RFC 3168 section 6.1.3, RFC 8257 section 3.2, RFC 9768";
        /// Overrides `hosts.ecn` for this flow.
        ecn: Option<bool> = None, unit "", source "";
        /// Overrides `hosts.initial_window` for this flow.
        initial_window: Option<u32> = None, unit "segments", range 1_u32, 10_000_u32, source "RFC 6928; Linux TCP_INIT_CWND";
        /// Overrides the payload of a full segment for this flow, at most `hosts.mss`, from which devices keep their MTU and queues their quanta.
        mss: Option<u32> = None, unit "bytes", range 88_u32, 8948_u32, source "RFC 9293 section 3.7.1; Linux TCP_MAXSEG";
        /// Overrides `hosts.receive_buffer` for this flow, which bounds its window.
        receive_buffer: Option<u64> = None, unit "bytes", range 8192_u64, 1_u64 << 40, source "Linux SO_RCVBUF";
        /// How its receiver misbehaves: it acknowledges segments that have not arrived, acknowledges each segment in ten parts, or conceals CE. Unset: it does not.
        misbehaves: Option<Misbehaviour> = None, unit "", source "Savage et al. 1999; RFC 3540 section 1; RFC 9743 section 7.6";
    } check FlowParams::check
}

/// Checks that hosts which each flow has for itself are not named as well.
fn check_hosts(hosts: HostSharing, src_host: u32, dst_host: u32) -> Result<(), ParamError> {
    let default = FlowParams::default();
    if hosts == HostSharing::Each && (src_host, dst_host) != (default.src_host, default.dst_host) {
        return Err(ParamError::new("hosts", "each", "shared next to src_host and dst_host"));
    }
    Ok(())
}

impl FlowParams {
    /// Returns the host parameters of this flow if they differ from `hosts`.
    pub fn own_host(&self, hosts: &HostParams) -> Option<HostParams> {
        let own = HostParams {
            initial_window: self.initial_window.unwrap_or(hosts.initial_window),
            mss: self.mss.unwrap_or(hosts.mss),
            receive_buffer: self.receive_buffer.unwrap_or(hosts.receive_buffer),
            ..hosts.clone()
        };
        let is_set = self.initial_window.is_some() || self.mss.is_some() || self.receive_buffer.is_some();
        is_set.then_some(own)
    }

    fn check(&self) -> Result<(), ParamError> {
        check_hosts(self.hosts, self.src_host, self.dst_host)?;
        let changes = self.app_rate_from > Instant::ZERO || self.app_pause.is_some();
        if changes && self.size.is_some() {
            return Err(ParamError::new("size", "a size", "none beside app_rate_from and app_pause"));
        }
        if self.app_rate_from > Instant::ZERO && self.app_rate.is_none() {
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
        size: FlowSizes = FlowSizes::Pareto { shape: 0.9, min: 1_000, max: 1_000_000 }, unit "", source "De Schepper et al. 2015: bounded Pareto, 1 kB to 1 MB, 9 kB in the mean";
        /// Propagation, both directions together.
        base_rtt: Duration = Duration::from_millis(20), unit "", range Duration(0), Duration::from_secs(60), source "";
        /// No flow starts from this time on.
        stop: Option<Instant> = None, unit "", source "";
        /// Host that sends what goes down and receives what goes up, for queues that isolate hosts.
        src_host: u32 = 1, unit "", source "";
        /// Host that receives what goes down and sends what goes up, for queues that isolate hosts.
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
        /// Length of a frame without FCS: 42 B of headers and the payload; by default a full frame of `hosts.mss`, which is also the most: nothing is cut
        /// into fragments. The 1470 B that iperf sends make 1512 B.
        size: u16 = 1514, unit "bytes", range 60_u16, 9014_u16, frames 1, source "a full frame: an MTU of 1500 B and the Ethernet header";
        /// Time between frames.
        spacing: Spacing = Spacing::Constant, unit "", source "";
        /// ECN field.
        ecn: Codepoint = Codepoint::NotEct, unit "", source "RFC 3168 section 5, RFC 9331";
        /// Sends nothing from this time on.
        stop: Option<Instant> = None, unit "", source "";
        /// For how long it sends at `rate`, from its start on, before it is silent for `off`, and so on. Unset: always.
        on: Option<Duration> = None, unit "", range Duration::from_millis(1), Duration::from_secs(86_400), source "";
        /// For how long it is silent behind each time `on`.
        off: Option<Duration> = None, unit "", range Duration::from_millis(1), Duration::from_secs(86_400), source "";
        /// Whether `on` and `off` are always the same or exponentially distributed with these means.
        times: Times = Times::Fixed, unit "", source "exponential: an on-off process of two states";
        /// The receiver sends each packet back at once, and RTTs are measured: ping, irtt.
        echo: bool = false, unit "", source "";
        /// With `echo`: propagation, both directions together. UDP that nobody answers has none.
        base_rtt: Duration = Duration(0), unit "", range Duration(0), Duration::from_secs(60), source "";
        /// Host that sends what goes down and receives what goes up, for queues that isolate hosts.
        src_host: u32 = 1, unit "", source "";
        /// Host that receives what goes down and sends what goes up, for queues that isolate hosts.
        dst_host: u32 = 2, unit "", source "";
        /// Whether all flows of this entry have the hosts that `src_host` and `dst_host` name, or each of its `count` has two of its own, which nothing else in
        /// the run has.
        hosts: HostSharing = HostSharing::Shared, unit "", source "";
        /// Differentiated-services codepoint.
        dscp: u8 = 0, unit "", range 0_u8, 63_u8, source "RFC 2474";
    } check UdpParams::check
}

impl UdpParams {
    fn check(&self) -> Result<(), ParamError> {
        check_hosts(self.hosts, self.src_host, self.dst_host)?;
        match (self.on, self.off) {
            (Some(on), None) => Err(ParamError::new("on", on, "none without off")),
            (None, Some(off)) => Err(ParamError::new("off", off, "none without on")),
            (None, None) if self.times != Times::Fixed => {
                Err(ParamError::new("times", "exponential", "fixed without on and off"))
            }
            _ => Ok(()),
        }
    }
}

params! {
    /// One user of an application, except for the application, its congestion control and start.
    pub struct AppParams {
        /// Propagation, both directions together.
        base_rtt: Duration = Duration::from_millis(20), unit "", range Duration(0), Duration::from_secs(60), source "";
        /// Nothing new begins from this time on: no page, no frame.
        stop: Option<Instant> = None, unit "", source "";
        /// Host that sends what goes down and receives what goes up, for queues that isolate hosts.
        src_host: u32 = 1, unit "", source "";
        /// Host that receives what goes down and sends what goes up, for queues that isolate hosts.
        dst_host: u32 = 2, unit "", source "";
        /// Differentiated-services codepoint.
        dscp: u8 = 0, unit "", range 0_u8, 63_u8, source "RFC 2474";
        /// How the receivers of streams echo CE: as the congestion control expects it, until CWR, per packet, or as a count.
        ecn_echo: EcnEcho = EcnEcho::Auto, unit "", source "RFC 3168 section 6.1.3, RFC 8257 section 3.2, RFC 9768";
        /// Overrides `hosts.ecn` for streams.
        ecn: Option<bool> = None, unit "", source "";
    }
}

params! {
    /// Data that a run keeps.
    pub struct RecordParams {
        /// Measurement starts at this time, rounded up to a multiple of 200 ms. Time series, convergence, completion times, smallest RTTs and the
        /// queue discipline's own counters cover the whole run. Short flows that started earlier are left out.
        from: Instant = Instant::ZERO, unit "", range Instant(0), Instant::from_secs(86_400), source "";
        /// Whether time series are stored.
        series: bool = true, unit "", source "";
        /// Interval of the time series.
        interval: Duration = Duration::from_secs(1), unit "", range Duration::from_millis(1), Duration::from_secs(86_400), source "";
        /// Interval of the trace of each listed flow's congestion control; unset, there is no trace. A change of state also writes a row. With 0s
        /// each event of the flow writes a row.
        trace: Option<Duration> = None, unit "", range Duration(0), Duration::from_secs(86_400), source "";
        /// Largest number of short flows that are stored one by one, and of pages and other loads of applications. If there are more, a uniform random sample is stored;
        /// statistics always cover all of them.
        short_flows: u32 = 100_000, unit "flows", range 0_u32, 100_000_000_u32, source "";
    }
}
