//! A run of an experiment on the real clock: kernel TCP between two namespaces, through the bottleneck of the simulator.

use crate::clock::Clock;
use crate::direction::{needs_values, Direction, Dropped, Treatment};
use crate::flows::{Plan, Plans, MOST_FLOWS};
use crate::forwarder::{Effort, Forwarder, Watch};
use crate::lateness::{allowed, Lateness};
use crate::namespaces::{Doing, SetupError, Wire};
use crate::packet_socket::PacketSocket;
use crate::port::Port;
use crate::priority;
use dumbbell_core::aqm::{Aqm, FlowKey};
use dumbbell_core::param::ParamError;
use dumbbell_core::units::Time;
use dumbbell_core::with_aqm;
use dumbbell_sim::bottleneck::Bottleneck;
use dumbbell_sim::config::{cc_name, Classes, EcnEcho, FlowConfig, RunConfig};
use dumbbell_sim::from_live::{Counted, Flow, Recorder};
use dumbbell_sim::Outcome;
use serde_json::{json, Value};
use std::io;
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
        /// Its place among the servers.
        number: usize,
        /// Its exit status.
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
    dumbbell_sim::check(config)?;
    readable(&RunConfig::from_json(config)?)
}

fn readable(config: &RunConfig) -> Result<(), ParamError> {
    let name = config.aqm.get("name").and_then(Value::as_str).unwrap_or("");
    if needs_values(name) {
        return refuse("bottleneck.aqm", name, "a queue discipline that works on what headers carry");
    }
    if let Some((key, found)) = config.simulated_link(0) {
        return refuse(&format!("bottleneck.{key}"), found, "shaper, or a trace without delays");
    }
    if !config.is_one_hop() {
        return refuse("hop", "several hops, or routes", "one hop and acknowledgements that do not wait");
    }
    if config.has_shared_stages() {
        return refuse("bottleneck.path", "stages of a path", "none");
    }
    if !config.states.is_empty() {
        return refuse("record.queue", "state of a queue discipline", "none");
    }
    if !config.web.is_empty() || !config.udp.is_empty() {
        return refuse(if config.web.is_empty() { "udp" } else { "web" }, "traffic beside flows", "flows only");
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
        let (params, cc) = (&flow.params, cc_name(&flow.cc));
        if !ccs.iter().any(|known| known == cc) {
            return refuse(&at("cc"), cc, &format!("what this kernel has ({})", ccs.join(", ")));
        }
        if !(flow.stages.path.is_empty() && flow.stages.ack_path.is_empty()) {
            return refuse(&at("path"), "stages of a path", "none");
        }
        let unset = [
            ("connect", params.connect.is_some()),
            ("app_rate", params.app_rate.is_some()),
            ("app_pause", params.app_pause.is_some()),
            ("ecn_echo", params.ecn_echo != EcnEcho::Auto),
        ];
        if let Some((key, _)) = unset.iter().find(|(_, is_set)| *is_set) {
            return refuse(&at(key), "a value", "the default");
        }
    }
    Ok(())
}

/// Steers a run: when counting begins and ends, points of the series, changes of rate.
struct Director {
    config: Arc<RunConfig>,
    recorder: Recorder,
    /// What is to come, the next at the end.
    agenda: Vec<(Time, Act)>,
    over: Arc<AtomicBool>,
    progress: Arc<AtomicU64>,
}

/// In the order in which they come at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Rate(usize),
    Point,
    Begin,
    End,
}

impl Director {
    fn new(config: &Arc<RunConfig>, over: &Arc<AtomicBool>, progress: &Arc<AtomicU64>) -> Director {
        let (from, duration) = (config.measured_from(), config.run.duration);
        let mut agenda = vec![(duration, Act::End)];
        if from > Time::ZERO {
            agenda.push((from, Act::Begin));
        }
        let rates = config.rate_changes.iter().enumerate().filter(|(_, change)| change.at < duration);
        agenda.extend(rates.map(|(number, change)| (change.at, Act::Rate(number))));
        if let Some(interval) = config.series_interval() {
            agenda.extend((1..=duration.0 / interval.0).map(|point| (Time(point * interval.0), Act::Point)));
        }
        agenda.sort_unstable_by(|one, other| other.cmp(one));
        let recorder = Recorder::new(Arc::clone(config));
        Director { config: Arc::clone(config), recorder, agenda, over: Arc::clone(over), progress: Arc::clone(progress) }
    }
}

fn counted<A: Aqm>(directions: &[Direction<A>; 2]) -> Vec<Counted> {
    let [data, acks] = directions;
    let of = |slot: u32| {
        let mut received = data.received(slot);
        received.acks = acks.arrived(slot);
        received.data = received.arrived;
        Counted { counters: data.queue().map_or_else(Default::default, |queue| queue.counters.flows.of(slot)), received }
    };
    (0..data.announced() as u32).map(of).collect()
}

impl<A: Aqm> Watch<A> for Director {
    fn next(&self) -> Time {
        self.agenda.last().map_or(Time::NEVER, |&(at, _)| at)
    }

    fn look(&mut self, now: Time, directions: &mut [Direction<A>; 2], lateness: &mut [Lateness; 2]) {
        let Some((_, act)) = self.agenda.pop() else { return };
        self.progress.store(now.0, Ordering::Relaxed);
        let flows = if matches!(act, Act::Begin | Act::End) { counted(directions) } else { Vec::new() };
        let Some(queue) = directions[0].queue_mut() else { return };
        match act {
            Act::Rate(number) => queue.set_rate(self.config.rate_changes[number].rate, now),
            Act::Point => {
                let (packets, bytes) = (queue.aqm.packets() as u64, queue.aqm.bytes());
                self.recorder.point(now, queue.counters.queue, packets, bytes);
            }
            Act::Begin => {
                lateness.iter_mut().for_each(Lateness::forget);
                self.recorder.begin(&mut queue.counters, flows);
            }
            Act::End => {
                self.recorder.end(&queue.counters, queue.aqm.counters(), flows);
                self.over.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Runs one experiment in real time. `config` is canonical JSON; `cancel` stops it early; `progress` holds the nanoseconds so far. The process
/// must be allowed to make network namespaces: [`gain_permission`](crate::namespaces::gain_permission).
///
/// # Errors
/// A configuration that cannot be used, no network to work in, a broken invariant, or cancellation.
pub fn run(config: &Value, cancel: &Arc<AtomicBool>, progress: &Arc<AtomicU64>) -> Result<Outcome, LiveError> {
    check(config)?;
    priority::own_session();
    let config = Arc::new(RunConfig::from_json(config)?);
    let any = dumbbell_sim::queue_discipline(&config)?;
    with_aqm!(any, aqm => carry_out(&config, aqm, cancel, progress))
}

/// The flows of a run, as the kernel is to carry them out.
fn plans(config: &RunConfig) -> Plans {
    let plan = |(number, flow): (usize, &FlowConfig)| Plan {
        cc: kernel_name(cc_name(&flow.cc)).to_owned(),
        start: flow.start.draw(config.run.seed, "start", number),
        stop: flow.params.stop,
        size: flow.params.size,
        ecn: flow.params.ecn.unwrap_or(config.hosts.ecn),
        dscp: flow.params.dscp,
    };
    Plans::new(config.flows.iter().enumerate().map(plan).collect())
}

/// Both directions: data through the queue, acknowledgements through a line of the base RTT, as in the simulator.
fn directions<A: Aqm>(config: &RunConfig, plans: &Plans, classes: &Classes, aqm: A) -> [Direction<A>; 2] {
    let bottleneck = &config.bottleneck;
    let queue = Bottleneck::new(aqm, classes.list.len(), bottleneck, Dropped::default());
    let mut data = Direction::new(Some(queue), Treatment::default(), MOST_FRAMES);
    let mut acks = Direction::new(None, Treatment::default(), MOST_FRAMES);
    for ((number, tuple), flow) in (0..).zip(plans.tuples()).zip(&config.flows) {
        let params = &flow.params;
        let key = FlowKey { src_host: params.src_host, dst_host: params.dst_host, ports: number, dscp: params.dscp };
        data.announce(tuple, &Treatment { key, class: classes.of_flow[number as usize], delay: Time::ZERO });
        acks.announce(tuple.reversed(), &Treatment { delay: params.base_rtt, ..Treatment::default() });
    }
    [data, acks]
}

fn carry_out<A: Aqm + Send>(
    config: &Arc<RunConfig>,
    aqm: A,
    cancel: &Arc<AtomicBool>,
    progress: &Arc<AtomicU64>,
) -> Result<Outcome, LiveError> {
    let (plans, over) = (plans(config), Arc::new(AtomicBool::new(false)));
    let mut director = Director::new(config, &over, progress);
    let directions = directions(config, &plans, director.recorder.classes(), aqm);
    let _awake = priority::Awake::keep();
    let wire = Wire::new()?;
    let mut ports = Vec::new();
    for index in wire.interfaces() {
        ports.push(wire.middle.within(|| PacketSocket::open(index)).doing("a packet socket")?);
    }
    let (Some(right), Some(left)) = (ports.pop(), ports.pop()) else {
        return Err(LiveError::Invariant("two ports".to_owned()));
    };
    let receivers = wire.right.within(|| plans.listen()).doing("sockets that receive")?;
    let mut forwarder = Forwarder::new([left, right], directions);
    let clock = Clock::start();
    let (duration, series) = (config.run.duration, config.series_interval());
    // ends all threads: when the run is over, one of them has failed, or the caller wants it
    let stop = AtomicBool::new(false);
    let (sent, received, forwarded) = std::thread::scope(|scope| {
        let (wire, plans, clock, stop) = (&wire, &plans, &clock, &stop);
        let ending = |result: io::Result<()>| {
            if result.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            result
        };
        let receiving = scope.spawn(move || {
            priority::raise(priority::ENDS);
            ending(receivers.run(stop)).map(|()| priority::waited())
        });
        let sending = scope.spawn(move || {
            priority::raise(priority::ENDS);
            let mut flows = Vec::new();
            let done = wire.left.enter().and_then(|()| plans.send(clock, duration, series, stop)).map(|found| flows = found);
            ending(done).map(|()| (flows, priority::waited()))
        });
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
        let sent = sending.join();
        stop.store(true, Ordering::Relaxed);
        (sent, receiving.join(), forwarded)
    });
    if cancel.load(Ordering::Relaxed) {
        return Err(LiveError::Cancelled);
    }
    let panicked = || io::Error::other("a thread that ended early");
    forwarded.unwrap_or_else(|_| Err(panicked())).doing("to forward frames")?;
    let received = received.unwrap_or_else(|_| Err(panicked())).doing("to receive")?;
    let (flows, sent) = sent.unwrap_or_else(|_| Err(panicked())).doing("to send")?;
    finish(config, director.recorder, &mut forwarder, &flows, sent.max(received))
}

/// Checks what must hold, and makes the tables. `waited` is the mean time that senders or receivers waited for a core.
fn finish<A: Aqm, P: Port>(
    config: &RunConfig,
    recorder: Recorder,
    forwarder: &mut Forwarder<A, P>,
    flows: &[Flow],
    waited: Option<Time>,
) -> Result<Outcome, LiveError> {
    for direction in &forwarder.directions {
        direction.check_conservation().map_err(LiveError::Invariant)?;
    }
    let events: u64 = forwarder.directions.iter().map(|direction| direction.counts().arrived).sum();
    let mut outcome = recorder.finish(flows, events);
    let target = config.aqm.get("target").and_then(Value::as_u64).map(Time);
    let allowed = allowed(config.flows.iter().map(|flow| flow.params.base_rtt), target, config.bottleneck.rate);
    judge(&mut outcome, forwarder, allowed, waited)?;
    Ok(outcome)
}

/// Adds to a summary how late frames were, how many were lost outside the queue, and whether the run is valid:
/// a P99 of `allowed` is. `waited` is the mean time that the ends waited for a core, if that is known.
pub(crate) fn judge<A: Aqm, P: Port>(
    outcome: &mut Outcome,
    forwarder: &mut Forwarder<A, P>,
    allowed: Time,
    waited: Option<Time>,
) -> Result<(), LiveError> {
    let mut lost = forwarder.effort.unsent;
    for port in &mut forwarder.ports {
        lost += port.overrun().doing("to ask a packet socket what it lost")?;
    }
    lost += forwarder.directions.iter().map(|direction| direction.counts().refused).sum::<u64>();
    let [p50, p99, max] = worse(&forwarder.lateness);
    let ms = |time: Time| time.0 as f64 / 1e6;
    outcome.summary["lateness_p50_ms"] = json!(ms(p50));
    outcome.summary["lateness_p99_ms"] = json!(ms(p99));
    outcome.summary["lateness_max_ms"] = json!(ms(max));
    outcome.summary["lateness_allowed_ms"] = json!(ms(allowed));
    outcome.summary["ends_waited_ms"] = json!(waited.map(ms));
    outcome.summary["frames_lost"] = json!(lost);
    outcome.summary["valid"] = json!(u64::from(p99.max(waited.unwrap_or_default()) <= allowed && lost == 0));
    outcome.summary["forwarder"] = json!(described(&forwarder.effort));
    Ok(())
}

fn described(effort: &Effort) -> Value {
    json!({"rounds": effort.rounds, "sleeps": effort.sleeps, "refused_sends": effort.refused_sends})
}

/// P50, P99 and largest lateness of the direction with the larger P99.
fn worse(of: &[Lateness; 2]) -> [Time; 3] {
    let [one, other] = [of[0].p50_p99_max(), of[1].p50_p99_max()];
    if one[1] >= other[1] {
        one
    } else {
        other
    }
}
