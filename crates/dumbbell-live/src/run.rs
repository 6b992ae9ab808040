//! A run of an experiment on the real clock: kernel TCP between two namespaces, through the bottleneck of the simulator.

use crate::clock::MonotonicClock;
use crate::direction::{needs_values, Direction, FrameLog, Treatment};
use crate::flows::{FlowPlan, Plans, Receivers, MOST_FLOWS};
use crate::forwarder::{Forwarder, LoopCounters, RunWatcher};
use crate::lateness::{allowed_lateness, target, Lateness};
use crate::namespaces::{HostPair, SetupContext, SetupError};
use crate::packet_socket::PacketSocket;
use crate::port::FramePort;
use crate::priority;
use crate::trace::TraceWriter;
use dumbbell_bottleneck::{Bottleneck, Listeners};
use dumbbell_config::{Classes, EcnEcho, FlowConfig, Route, RunConfig, REVERSE};
use dumbbell_core::aqm::{AnyAqm, Aqm};
use dumbbell_core::packet::FlowKey;
use dumbbell_core::param::ParamError;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_core::with_aqm;
use dumbbell_measure::capacity;
use dumbbell_measure::columns::Timing;
use dumbbell_measure::from_live::{FlowCounts, LiveFlow, LiveHop, LiveRecorder};
use dumbbell_measure::together::LOOK;
use dumbbell_measure::Outcome;
use serde_json::{json, Value};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// Frames that are held at a time in each direction: 100 MB, and more than any queue's limit and what waits in a line of 1 s at 1 Gbit/s.
pub(crate) const MOST_FRAMES: usize = 1 << 16;
/// Payload of a full segment at an MTU of 1500 with time stamps, the one that the interfaces have.
const MSS: u32 = dumbbell_core::packet::MSS as u32;

/// Why a run gave no result.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ParamError),
    /// There is no network to work in.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A program cannot be started.
    #[error("{0}")]
    Program(io::Error),
    /// A server ended before it listened.
    #[error("server {number} ended with status {status}")]
    Server {
        /// Index among the servers.
        number: usize,
        /// Exit status.
        status: i32,
    },
    /// Something that must always hold did not: a bug.
    #[error("invariant broken: {0}")]
    Invariant(String),
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
}

/// The kernel's name of a congestion control.
fn kernel_name(cc: &str) -> &str {
    match cc {
        "bbr1" => "bbr",
        other => other,
    }
}

/// Congestion controls that this kernel has, as the simulator calls them.
fn known_ccs() -> Vec<String> {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    known.split_whitespace().map(|name| if name == "bbr" { "bbr1" } else { name }.to_owned()).collect()
}

fn refuse<T>(key: &str, found: impl ToString, allowed: &str) -> Result<T, ParamError> {
    Err(ParamError::new(key, found.to_string(), format!("{allowed} with --engine live")))
}

/// Checks that `config`, canonical JSON, can be run on this machine.
///
/// # Errors
/// The first key that cannot be used.
pub fn check(config: &Value) -> Result<(), ParamError> {
    readable(&RunConfig::from_json(config)?)
}

fn readable(config: &RunConfig) -> Result<(), ParamError> {
    readable_hops(config)?;
    if !config.states.is_empty() {
        return refuse("record.queue", "state of a queue discipline", "none");
    }
    if !config.apps.is_empty() {
        return refuse("app", "set", "left out: only the simulator runs applications");
    }
    if !config.web.is_empty() || !config.udp.is_empty() {
        return refuse(if config.web.is_empty() { "udp" } else { "web" }, "set", "left out: the live engine runs flows only");
    }
    if config.record.trace.is_some() {
        return refuse("record.trace", "an interval", "none");
    }
    if config.hosts.mss != MSS {
        return refuse("hosts.mss", config.hosts.mss, "1448 B");
    }
    if config.flows.len() > MOST_FLOWS {
        return refuse("flows", config.flows.len(), &format!("at most {MOST_FLOWS}"));
    }
    let ccs = known_ccs();
    for (number, flow) in config.flows.iter().enumerate() {
        let at = |key: &str| format!("flows[{number}].{key}");
        let (params, cc) = (&flow.params, flow.transport.name());
        if !ccs.iter().any(|known| known == cc) {
            return refuse(&at("cc"), cc, &format!("what this kernel has ({})", ccs.join(", ")));
        }
        if !(flow.stages.path.is_empty() && flow.stages.ack_path.is_empty()) {
            return refuse(&at("path"), "stages of a path", "none");
        }
        if flow.route.data != usual(config, flow.route.up).data {
            return refuse(&at("route"), "a route", "that of the flow's direction");
        }
        if flow.route.acks != usual(config, flow.route.up).acks {
            return refuse(&at("ack_route"), "a route", "that of the flow's direction");
        }
        let unset = [
            ("connect", params.connect.is_some()),
            ("app_rate", params.app_rate.is_some()),
            ("app_pause", params.app_pause.is_some()),
            ("ecn_echo", params.ecn_echo != EcnEcho::Auto),
            ("initial_window", params.initial_window.is_some()),
            ("mss", params.mss.is_some()),
            ("receive_buffer", params.receive_buffer.is_some()),
            ("misbehaves", params.misbehaves.is_some()),
        ];
        if let Some((key, _)) = unset.iter().find(|(_, is_set)| *is_set) {
            return refuse(&at(key), "a value", "the default");
        }
    }
    Ok(())
}

/// Data down and acknowledgements of what is sent up pass the bottleneck, the others the hop of [`REVERSE`], if there is one.
fn usual(config: &RunConfig, up: bool) -> Route {
    let reverse = if config.hops.is_empty() { Vec::new() } else { vec![1] };
    match up {
        true => Route { data: reverse, acks: vec![0], up },
        false => Route { data: vec![0], acks: reverse, up },
    }
}

fn readable_hops(config: &RunConfig) -> Result<(), ParamError> {
    if let Some(other) = config.hops.iter().find(|hop| hop.name != REVERSE) {
        return refuse("hop", &other.name, "no hops but [reverse]");
    }
    let first = ("bottleneck", &config.aqm, config.has_shared_stages(), config.delay);
    let others = config.hops.iter().map(|hop| {
        let has_stages = !(hop.path.is_empty() && hop.behind.is_empty());
        (REVERSE, &hop.aqm, has_stages, hop.delay)
    });
    for (hop, ((place, aqm, has_stages, delay), built)) in
        std::iter::once(first).chain(others).zip(dumbbell_bottleneck::queue_disciplines(config)?).enumerate()
    {
        if let Some((key, found)) = config.simulated_link(hop) {
            return refuse(&format!("{place}.{key}"), found, "shaper, or a trace without delays");
        }
        if needs_values(aqm) {
            return refuse(&format!("{place}.aqm"), aqm.name(), "a queue discipline that works on what headers carry");
        }
        if built.reads_acks() && !config.hops.is_empty() {
            return refuse(&format!("{place}.aqm.ack_filter"), "a filter", "off");
        }
        if has_stages {
            return refuse(&format!("{place}.path"), "stages of a path", "none");
        }
        if delay > Duration::ZERO {
            return refuse(&format!("{place}.delay"), delay, "0s, and base RTTs of the flows,");
        }
    }
    Ok(())
}

/// Steers a run: when counting begins and ends, points of the series, looks at what flows get together, changes of rate.
struct Director {
    config: Arc<RunConfig>,
    recorder: LiveRecorder,
    /// Actions that are still to come, the next one at the end.
    agenda: Vec<(Instant, Action)>,
    over: Arc<AtomicBool>,
    progress: Arc<AtomicU64>,
}

/// In the order in which they come at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    Rate(usize),
    Point,
    Look,
    Begin,
    End,
}

impl Director {
    fn new(config: &Arc<RunConfig>, over: &Arc<AtomicBool>, progress: &Arc<AtomicU64>) -> Director {
        let (from, end) = (config.measured_from(), config.end());
        let mut agenda = vec![(end, Action::End)];
        if from > Instant::ZERO {
            agenda.push((from, Action::Begin));
        }
        let rates = config.rate_changes.iter().enumerate().filter(|(_, change)| change.at < end);
        agenda.extend(rates.map(|(number, change)| (change.at, Action::Rate(number))));
        if let Some(interval) = config.series_interval() {
            agenda.extend((1..=end.0 / interval.0).map(|point| (Instant::ZERO + interval * point, Action::Point)));
        }
        agenda.extend((1..=end.0 / LOOK.0).map(|look| (Instant::ZERO + LOOK * look, Action::Look)));
        agenda.sort_unstable_by(|one, other| other.cmp(one));
        let recorder = LiveRecorder::new(Arc::clone(config));
        Director { config: Arc::clone(config), recorder, agenda, over: Arc::clone(over), progress: Arc::clone(progress) }
    }
}

/// Returns the counters of each flow: of its data in their direction, and of its acknowledgements in the other one.
fn flow_counts<A: Aqm>(directions: &[Direction<A>; 2], config: &RunConfig) -> Vec<FlowCounts> {
    let of = |slot: u32| {
        let up = usize::from(config.flows[slot as usize].route.up);
        let (data, acks) = (&directions[up], &directions[1 - up]);
        let mut received = data.receiver_stats(slot);
        received.acks = acks.count_arrived(slot);
        received.data = received.arrived;
        FlowCounts {
            counters: data.queue().map_or_else(Default::default, |queue| queue.log.counters.flows.flow_counters(slot)),
            received,
        }
    };
    (0..config.flows.len() as u32).map(of).collect()
}

/// Returns the state of each hop at `now`; `at_end` adds the counters of the queue discipline itself.
fn hops<A: Aqm>(directions: &mut [Direction<A>; 2], now: Instant, at_end: bool) -> Vec<LiveHop<'_>> {
    let queues = directions.iter_mut().filter_map(Direction::queue_mut);
    let found = queues.map(|queue| {
        queue.settle(now);
        let Bottleneck { log: Listeners { counters, listener }, aqm, .. } = queue;
        let of_discipline = if at_end { Aqm::counters(aqm) } else { Vec::new() };
        LiveHop { packets: aqm.packets() as u64, bytes: aqm.bytes(), counters, acks: &listener.acks, of_discipline }
    });
    found.collect()
}

impl<A: Aqm> RunWatcher<A> for Director {
    fn next(&self) -> Instant {
        self.agenda.last().map_or(Instant::NEVER, |&(at, _)| at)
    }

    fn on_time(&mut self, now: Instant, directions: &mut [Direction<A>; 2], lateness: &mut [Lateness; 2]) {
        let Some((_, act)) = self.agenda.pop() else { return };
        self.progress.store(now.0, Ordering::Relaxed);
        let flows = if matches!(act, Action::Look | Action::Begin | Action::End) {
            flow_counts(directions, &self.config)
        } else {
            Vec::new()
        };
        match act {
            Action::Rate(number) => {
                let change = self.config.rate_changes[number];
                // the only other hop is that of the other direction
                if let Some(queue) = directions[usize::from(change.hop)].queue_mut() {
                    queue.set_rate(change.rate, now);
                }
            }
            Action::Point => self.recorder.point(now, &hops(directions, now, false)),
            Action::Look => self.recorder.record_counts(now, &flows),
            Action::Begin => {
                lateness.iter_mut().for_each(Lateness::forget);
                self.recorder.begin(&mut hops(directions, now, false), flows);
            }
            Action::End => {
                self.recorder.end(&hops(directions, now, true), flows);
                self.over.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Runs one experiment in real time. `config` is canonical JSON; `cancel` stops it early; `progress` holds the nanoseconds so far. The process
/// must be allowed to make network namespaces: [`gain_permission`](crate::namespaces::gain_permission). `trace` is a folder for the headers of all frames: see [`TraceWriter`].
///
/// # Errors
/// A configuration that cannot be used, no network to work in, a broken invariant, or cancellation.
pub fn run(
    config: &Value,
    cancel: &Arc<AtomicBool>,
    progress: &Arc<AtomicU64>,
    trace: Option<&Path>,
) -> Result<Outcome, LiveError> {
    let config = Arc::new(RunConfig::from_json(config)?);
    readable(&config)?;
    priority::own_session();
    let mut aqms = dumbbell_bottleneck::queue_disciplines(&config)?;
    match (aqms.pop(), aqms.pop()) {
        (Some(any), None) => with_aqm!(any, aqm => carry_out(&config, [Some(aqm), None], (cancel, progress), trace)),
        (reverse, forward) => carry_out::<AnyAqm>(&config, [forward, reverse], (cancel, progress), trace),
    }
}

/// The flows of a run, as the kernel is to carry them out.
fn plans(config: &RunConfig) -> Plans {
    let plan = |(number, flow): (usize, &FlowConfig)| FlowPlan {
        cc: kernel_name(flow.transport.name()).to_owned(),
        start: flow.start.draw(config.run.seed, "start", number),
        stop: flow.params.stop,
        size: flow.params.size,
        ecn: flow.params.ecn.unwrap_or(config.hosts.ecn),
        dscp: flow.params.dscp,
        up: flow.route.up,
    };
    Plans::new(config.flows.iter().enumerate().map(plan).collect())
}

/// Both directions, with the queue of each: down the bottleneck, up that of [`REVERSE`] or none, and behind it a line of the base RTT, for data
/// and for acknowledgements, as in the simulator.
fn directions<A: Aqm>(config: &RunConfig, plans: &Plans, classes: &Classes, aqms: [Option<A>; 2]) -> [Direction<A>; 2] {
    let links = [Some(&config.bottleneck), config.hops.first().map(|hop| &hop.params)];
    let mut links = links.into_iter();
    let mut directions = aqms.map(|aqm| {
        let built = aqm.zip(links.next().flatten());
        let queue = built.map(|(own, link)| Bottleneck::new(own, classes.list.len(), link, FrameLog::default()));
        Direction::new(queue, Treatment::default(), MOST_FRAMES)
    });
    for ((number, tuple), flow) in (0..).zip(plans.tuples()).zip(&config.flows) {
        let (params, class) = (&flow.params, classes.of_flow[number as usize]);
        let key = FlowKey { src_host: params.src_host, dst_host: params.dst_host, ports: number, dscp: params.dscp };
        // data go from the source to the destination, up the other way round; their acknowledgements come back
        let turned = FlowKey { src_host: key.dst_host, dst_host: key.src_host, ..key };
        let up = flow.route.up;
        let (data, back) = if up { (turned, key) } else { (key, turned) };
        let back = FlowKey { ports: back.ports ^ (1 << 31), ..back };
        let behind = |is_up: bool| if is_up { params.base_rtt } else { Duration::ZERO };
        let of_data = Treatment { key: data, class, delay: behind(up), back: false };
        let of_acks = Treatment { key: back, class, delay: behind(!up), back: true };
        directions[usize::from(up)].announce(tuple, &of_data);
        directions[usize::from(!up)].announce(tuple.reverse(), &of_acks);
    }
    directions
}

fn carry_out<A: Aqm + Send>(
    config: &Arc<RunConfig>,
    aqms: [Option<A>; 2],
    (cancel, progress): (&Arc<AtomicBool>, &Arc<AtomicU64>),
    trace: Option<&Path>,
) -> Result<Outcome, LiveError> {
    let (plans, over) = (plans(config), Arc::new(AtomicBool::new(false)));
    let mut director = Director::new(config, &over, progress);
    let mut directions = directions(config, &plans, director.recorder.classes(), aqms);
    if let Some(folder) = trace {
        let [down, up] = directions;
        let open = |number| TraceWriter::new(folder, number).context("files of a trace");
        directions = [down.with_trace(open(0)?), up.with_trace(open(1)?)];
    }
    let _awake = priority::Awake::keep();
    let wire = HostPair::new()?;
    let mut ports = Vec::new();
    for index in wire.interfaces() {
        ports.push(wire.middle.run_inside(|| PacketSocket::open(index)).context("a packet socket")?);
    }
    let (Some(right), Some(left)) = (ports.pop(), ports.pop()) else {
        return Err(LiveError::Invariant("two ports".to_owned()));
    };
    // those who send down are on the left, their receivers on the right, and the other way round
    let ways: Vec<bool> = [false, true].into_iter().filter(|&up| plans.has_direction(up)).collect();
    if plans.has_direction(true) {
        wire.both_ways()?;
    }
    let end = |is_left: bool| if is_left { &wire.left } else { &wire.right };
    let mut receivers = Vec::new();
    for &up in &ways {
        receivers.push(end(up).run_inside(|| plans.listen()).context("sockets that receive")?);
    }
    let mut forwarder = Forwarder::new([left, right], directions);
    let clock = MonotonicClock::start();
    let (end_of_run, series) = (config.end(), config.series_interval());
    // ends all threads: when the run is over, one of them has failed, or the caller wants it
    let stop = AtomicBool::new(false);
    let (sent, received, forwarded) = std::thread::scope(|scope| {
        let (plans, clock, stop, end) = (&plans, &clock, &stop, &end);
        let ending = |result: io::Result<()>| {
            if result.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            result
        };
        let receive = |ours: Receivers| {
            scope.spawn(move || {
                priority::raise(priority::ENDS);
                ending(ours.run(stop)).map(|()| priority::mean_core_wait())
            })
        };
        let receiving: Vec<_> = receivers.into_iter().map(receive).collect();
        let send = |&up: &bool| {
            scope.spawn(move || {
                priority::raise(priority::ENDS);
                let mut flows = Vec::new();
                let done = end(!up).enter().and_then(|()| plans.send(up, clock, (end_of_run, series), stop));
                ending(done.map(|found| flows = found)).map(|()| (flows, priority::mean_core_wait()))
            })
        };
        let sending: Vec<_> = ways.iter().map(send).collect();
        let (forwarder, director, over) = (&mut forwarder, &mut director, &over);
        let forwarding = scope.spawn(move || {
            priority::raise(priority::FORWARDER);
            let done = forwarder.run(clock, &[stop, over], director);
            ending(done)
        });
        while !forwarding.is_finished() && !stop.load(Ordering::Relaxed) {
            if cancel.load(Ordering::Relaxed) {
                stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let forwarded = forwarding.join();
        let sent: Vec<_> = sending.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        let received: Vec<_> = receiving.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        (sent, received, forwarded)
    });
    if cancel.load(Ordering::Relaxed) {
        return Err(LiveError::Cancelled);
    }
    let panicked = || io::Error::other("a thread that ended early");
    forwarded.unwrap_or_else(|_| Err(panicked())).context("to forward frames")?;
    let mut waited = None;
    for one in received {
        waited = waited.max(one.unwrap_or_else(|_| Err(panicked())).context("to receive")?);
    }
    let mut flows = vec![LiveFlow::default(); config.flows.len()];
    for (one, &up) in sent.into_iter().zip(&ways) {
        let (of_ours, delayed) = one.unwrap_or_else(|_| Err(panicked())).context("to send")?;
        let ours = flows.iter_mut().zip(of_ours).zip(&config.flows).filter(|(_, flow)| flow.route.up == up);
        ours.for_each(|((place, flow), _)| *place = flow);
        waited = waited.max(delayed);
    }
    for one in forwarder.directions.iter_mut().filter_map(Direction::take_trace) {
        one.finish().context("to write a trace")?;
    }
    finish(config, director.recorder, &mut forwarder, &flows, waited)
}

/// Checks what must hold, and makes the tables. `waited` is the mean time that senders or receivers waited for a core.
fn finish<A: Aqm, P: FramePort>(
    config: &RunConfig,
    recorder: LiveRecorder,
    forwarder: &mut Forwarder<A, P>,
    flows: &[LiveFlow],
    waited: Option<Duration>,
) -> Result<Outcome, LiveError> {
    for direction in &forwarder.directions {
        direction.check_conservation().map_err(LiveError::Invariant)?;
    }
    // settled last when the run was over
    for (number, queue) in forwarder.directions.iter().filter_map(Direction::queue).enumerate() {
        let counted = &queue.log.counters.queue;
        capacity::check(config, number, config.end(), counted, queue.link_use()).map_err(LiveError::Invariant)?;
    }
    let events: u64 = forwarder.directions.iter().map(|direction| direction.counts().arrived).sum();
    let mut outcome = recorder.finish(flows, events);
    let rtts = || config.flows.iter().map(|flow| flow.params.base_rtt);
    let first = allowed_lateness(rtts(), target(&config.aqm), config.bottleneck.rate);
    let allowed =
        config.hops.iter().map(|hop| allowed_lateness(rtts(), target(&hop.aqm), hop.params.rate)).fold(first, Duration::min);
    judge(&mut outcome, forwarder, allowed, waited)?;
    Ok(outcome)
}

/// Adds to a summary how late frames were, how many were lost outside the queue, and whether the run is valid:
/// a P99 of `allowed` is. `waited` is the mean time that the ends waited for a core, if that is known.
pub(crate) fn judge<A: Aqm, P: FramePort>(
    outcome: &mut Outcome,
    forwarder: &mut Forwarder<A, P>,
    allowed: Duration,
    waited: Option<Duration>,
) -> Result<(), LiveError> {
    let mut lost = forwarder.effort.unsent;
    for port in &mut forwarder.ports {
        lost += port.overrun().context("to ask a packet socket what it lost")?;
    }
    lost += forwarder.directions.iter().map(|direction| direction.counts().refused).sum::<u64>();
    let (late, forwarder) = (worse(&forwarder.lateness), describe_effort(&forwarder.effort));
    outcome.add_timing(&Timing { late, allowed, waited, lost, forwarder });
    Ok(())
}

fn describe_effort(effort: &LoopCounters) -> Value {
    json!({"rounds": effort.rounds, "sleeps": effort.sleeps, "refused_sends": effort.refused_sends})
}

/// P50, P99 and largest lateness of the direction with the larger P99.
fn worse(of: &[Lateness; 2]) -> [Duration; 3] {
    let [one, other] = [of[0].p50_p99_max(), of[1].p50_p99_max()];
    if one[1] >= other[1] {
        one
    } else {
        other
    }
}
