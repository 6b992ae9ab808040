//! Programs behind a bottleneck: a command in the left namespace, servers and the way out in the right one, a queue in each direction.

use crate::clock::MonotonicClock;
use crate::direction::{needs_values, Direction, FrameLog, Treatment};
use crate::forwarder::{Forwarder, RunWatcher};
use crate::frame::{Tuple, TCP, UDP};
use crate::lateness::{allowed_lateness, target, Lateness};
use crate::namespaces::{HostPair, Namespace, SetupContext};
use crate::packet_socket::PacketSocket;
use crate::priority;
use crate::programs::{self, end_descendants, HostFiles, ProgramEvent};
use crate::relay::{Outside, RelayPort};
use crate::run::{judge, LiveError, MOST_FRAMES};
use dumbbell_bottleneck::Bottleneck;
use dumbbell_config::RunConfig;
use dumbbell_core::aqm::{AnyAqm, Aqm};
use dumbbell_core::param::ParamError;
use dumbbell_core::record::QueueCounters;
use dumbbell_core::units::{Duration, Instant, Rate};
use dumbbell_core::with_aqm;
use dumbbell_measure::capacity;
use dumbbell_measure::from_frames::{self, FrameRecorder};
use dumbbell_measure::from_live::FlowCounts;
use dumbbell_measure::Outcome;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::{json, Value};
use std::any::Any;
use std::ffi::OsString;
use std::mem::discriminant;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time;

/// Names of the directions, in the order of the forwarder: port 0 is the command's.
pub const DIRECTIONS: [&str; 2] = ["up", "down"];
/// How often what is seen is put where [`Shell::view`] finds it.
const LOOK: Duration = Duration::from_millis(50);
/// How long servers may take until they listen.
const SERVER_PATIENCE: time::Duration = time::Duration::from_secs(10);
/// How long programs may take to end once they have been asked to.
const END_PATIENCE: time::Duration = time::Duration::from_secs(2);
/// Base RTT of a path that no flow describes: the default of `flows.base_rtt`.
const BASE_RTT: Duration = Duration::from_millis(20);

/// Settings of a run of `dumbbell shell`, without the command itself.
#[derive(Debug, Default)]
pub struct ShellJob {
    /// Canonical JSON of the bottleneck in each direction, in the order of [`DIRECTIONS`].
    pub configs: [Value; 2],
    /// Commands of the far end, lines for the shell.
    pub servers: Vec<OsString>,
    /// Files that the command sees in place of those of the host.
    pub files: HostFiles,
    /// Whether there is a way out, to the host and its network.
    pub way_out: bool,
    /// The address that [`DNS`](crate::namespaces::DNS) stands for.
    pub resolver: Option<Ipv4Addr>,
}

/// Checks that programs can be put behind the bottleneck of `config`, canonical JSON.
///
/// # Errors
/// The first key that cannot be used.
pub fn check(config: &Value) -> Result<(), ParamError> {
    usable(&RunConfig::from_json(config)?)
}

fn usable(config: &RunConfig) -> Result<(), ParamError> {
    let refuse = |key: &str, found: &str, allowed: &str| Err(ParamError::new(key, found, format!("{allowed} behind a shell")));
    if needs_values(&config.aqm) {
        return refuse("bottleneck.aqm", config.aqm.name(), "a queue discipline that works on what headers carry");
    }
    if dumbbell_bottleneck::queue_discipline(config)?.reads_acks() {
        return refuse("bottleneck.aqm.ack_filter", "a filter", "off");
    }
    if let Some((key, found)) = config.simulated_link(0) {
        return refuse(&format!("bottleneck.{key}"), found, "shaper, or a trace without delays,");
    }
    if !config.is_one_hop() {
        return refuse("hop", "several hops, or routes", "one hop for each direction");
    }
    if config.has_shared_stages() {
        return refuse("bottleneck.path", "stages of a path", "none");
    }
    match config.flows.first() {
        Some(flow) if !(flow.stages.path.is_empty() && flow.stages.ack_path.is_empty()) => {
            refuse("flows[0].path", "stages of a path", "none")
        }
        _ => Ok(()),
    }
}

/// The base RTT of the path: the first flow's, or else the first `[[web]]`'s.
fn base_rtt(config: &RunConfig) -> Duration {
    let of_web = || config.web.first().map(|web| web.params.base_rtt);
    config.flows.first().map(|flow| flow.params.base_rtt).or_else(of_web).unwrap_or(BASE_RTT)
}

/// How a session ended.
pub struct ShellOutcome {
    /// Exit status of the command; 128 and the number of the signal that ended it.
    pub status: i32,
    /// Measurements of each direction, in the order of [`DIRECTIONS`].
    pub measured: [Outcome; 2],
    /// Servers that ended before the command did, by number, with their status.
    pub servers: Vec<(usize, i32)>,
}

/// Namespaces that are ready for programs.
pub struct Shell {
    job: ShellJob,
    configs: [RunConfig; 2],
    wire: HostPair,
    outside: Option<Outside>,
    live: Mutex<Value>,
    /// The command shall end with this signal.
    ending: AtomicI32,
}

impl Shell {
    /// Makes everything but the programs. The process must be allowed to make network namespaces, and be in the host's.
    ///
    /// # Errors
    /// A configuration that cannot be used, no network to work in.
    pub fn new(job: ShellJob) -> Result<Shell, LiveError> {
        let mut configs = Vec::new();
        for config in &job.configs {
            check(config)?;
            configs.push(RunConfig::from_json(config)?);
        }
        let Ok(configs) = <[RunConfig; 2]>::try_from(configs) else {
            return Err(LiveError::Invariant("two directions".to_owned()));
        };
        let wire = HostPair::new()?;
        wire.lead_everywhere(configs[0].hosts.ecn)?;
        programs::become_subreaper();
        let outside = job.way_out.then(|| Outside::start(job.resolver));
        Ok(Shell { job, configs, wire, outside, live: Mutex::default(), ending: AtomicI32::new(0) })
    }

    /// Returns the state so far as JSON: `time_s`, and for each direction counters that only grow, the backlog, and the rate.
    pub fn view(&self) -> Value {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the command by `signal`, and by SIGKILL if it does not mind.
    pub fn end(&self, signal: i32) {
        self.ending.store(signal, Ordering::Relaxed);
    }

    /// Runs `command`, at least one word, until it is over, and returns what came through. No process that it began is left then.
    ///
    /// # Errors
    /// The command cannot be started, or frames cannot be forwarded.
    pub fn run(&self, command: &[OsString]) -> Result<ShellOutcome, LiveError> {
        let [up, down] = &self.configs;
        let of_up = dumbbell_bottleneck::queue_discipline(up)?;
        let of_down = dumbbell_bottleneck::queue_discipline(down)?;
        let result = self.start_servers().and_then(|servers| {
            let (status, measured) = if discriminant(&of_up) == discriminant(&of_down) {
                with_aqm!(of_up, aqm => match downcast_aqm(of_down, &aqm) {
                    Some(other) => self.carry_out([aqm, other], command),
                    None => Err(LiveError::Invariant("two queue disciplines of one kind".to_owned())),
                })?
            } else {
                self.carry_out([of_up, of_down], command)?
            };
            let early = servers.iter().enumerate().filter_map(|(number, news)| Some((number, ended_early(news)?.ok()?)));
            Ok(ShellOutcome { status, measured, servers: early.collect() })
        });
        end_descendants(END_PATIENCE);
        result
    }

    fn carry_out<A: Aqm + Send>(&self, aqms: [A; 2], command: &[OsString]) -> Result<(i32, [Outcome; 2]), LiveError> {
        let mut ports = Vec::new();
        for (index, outside) in self.wire.interfaces().into_iter().zip([None, self.outside.clone()]) {
            let port = self.wire.middle.run_inside(|| PacketSocket::open(index)).context("a packet socket")?;
            ports.push(RelayPort::new(port, outside));
        }
        let mut directions = Vec::new();
        for (config, aqm) in self.configs.iter().zip(aqms) {
            let queue = Bottleneck::new(aqm, from_frames::KINDS.len(), &config.bottleneck, FrameLog::default());
            let others = Treatment { delay: base_rtt(config) / 2, ..Treatment::default() };
            directions.push(Direction::new(Some(queue), others, MOST_FRAMES).with_classes(kind_of));
        }
        let (Ok(ports), Ok(directions)) = (<[_; 2]>::try_from(ports), <[_; 2]>::try_from(directions)) else {
            return Err(LiveError::Invariant("two ports and two directions".to_owned()));
        };
        let mut forwarder = Forwarder::new(ports, directions);
        let mut observing = DirectionRecorder::new(&self.configs, &self.live);
        let _awake = priority::Awake::keep();
        let clock = MonotonicClock::start();
        let stop = AtomicBool::new(false);
        let (status, forwarded) = thread::scope(|scope| {
            let (forwarder, observing, clock, stop) = (&mut forwarder, &mut observing, &clock, &stop);
            let forwarding = scope.spawn(move || {
                priority::raise(priority::FORWARDER);
                // sockets that the gate opens are at the far end
                let done = self.wire.right.enter().and_then(|()| forwarder.run(clock, &[stop], observing));
                stop.store(true, Ordering::Relaxed);
                done
            });
            let status = self.run_command(command, stop);
            stop.store(true, Ordering::Relaxed);
            (status, forwarding.join())
        });
        let end = clock.now();
        let panicked = || Err(std::io::Error::other("a thread that ended early"));
        forwarded.unwrap_or_else(|_| panicked()).context("to forward frames")?;
        let status = status?;
        let measured = self.finish(&mut forwarder, observing, end)?;
        Ok((status_of(status), measured))
    }

    /// Starts the servers, and waits until they listen.
    fn start_servers(&self) -> Result<Vec<Receiver<ProgramEvent>>, LiveError> {
        let mut servers = Vec::new();
        for line in &self.job.servers {
            let program = programs::server(line).context("standard error for a server")?;
            servers.push(self.start(program, false));
        }
        let began = time::Instant::now();
        let is_waiting = || began.elapsed() < SERVER_PATIENCE && !programs::listen_at(&self.wire.right, servers.len());
        while !servers.is_empty() && is_waiting() {
            for (number, news) in servers.iter().enumerate() {
                match ended_early(news) {
                    Some(Ok(status)) => return Err(LiveError::Server { number, status }),
                    Some(Err(error)) => return Err(LiveError::Program(error)),
                    None => {}
                }
            }
            if self.ending.load(Ordering::Relaxed) != 0 {
                return Err(LiveError::Cancelled);
            }
            thread::sleep(time::Duration::from_millis(10));
        }
        Ok(servers)
    }

    /// Runs the command until it is over, or `stop` is set.
    fn run_command(&self, command: &[OsString], stop: &AtomicBool) -> Result<ExitStatus, LiveError> {
        let mut words = command.iter();
        let mut program = Command::new(words.next().cloned().unwrap_or_default());
        program.args(words);
        self.wait(&self.start(program, true), stop)
    }

    /// Starts a program in a thread of its own, at the left end or the right one.
    fn start(&self, mut program: Command, is_left: bool) -> Receiver<ProgramEvent> {
        let (sender, news) = channel();
        let end: &Namespace = if is_left { &self.wire.left } else { &self.wire.right };
        match end.try_clone() {
            Err(error) => drop(sender.send(ProgramEvent::Refused(error))),
            Ok(place) => {
                let files = self.job.files.clone();
                thread::spawn(move || programs::run(&place, &files, &mut program, &sender));
            }
        }
        news
    }

    fn wait(&self, news: &Receiver<ProgramEvent>, stop: &AtomicBool) -> Result<ExitStatus, LiveError> {
        let mut process = None;
        let mut asked: Option<time::Instant> = None;
        loop {
            match news.recv_timeout(time::Duration::from_millis(20)) {
                Ok(ProgramEvent::Began(pid)) => process = Some(Pid::from_raw(pid)),
                Ok(ProgramEvent::Refused(error)) => return Err(LiveError::Program(error)),
                Ok(ProgramEvent::Ended(status)) => return Ok(status),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(LiveError::Invariant("a command that nobody waits for".to_owned()))
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let signal = match self.ending.load(Ordering::Relaxed) {
                // nothing moves any more
                0 if stop.load(Ordering::Relaxed) => libc::SIGTERM,
                signal => signal,
            };
            let (Some(pid), true) = (process, signal != 0) else { continue };
            match asked {
                None => {
                    let asking = [Signal::try_from(signal).unwrap_or(Signal::SIGTERM), Signal::SIGHUP, Signal::SIGCONT];
                    for one in asking {
                        let _ = kill(pid, one);
                    }
                    asked = Some(time::Instant::now());
                }
                Some(since) if since.elapsed() > END_PATIENCE => {
                    let _ = kill(pid, Signal::SIGKILL);
                }
                Some(_) => {}
            }
        }
    }

    /// Checks what must hold, and makes the tables of both directions.
    fn finish<A: Aqm>(
        &self,
        forwarder: &mut Forwarder<A, RelayPort<PacketSocket>>,
        observing: DirectionRecorder<'_>,
        end: Instant,
    ) -> Result<[Outcome; 2], LiveError> {
        let mut outcomes = Vec::new();
        for (number, recorder) in observing.recorders.into_iter().enumerate() {
            if let Some(queue) = forwarder.directions[number].queue_mut() {
                queue.settle(end);
            }
            let (direction, config) = (&forwarder.directions[number], &self.configs[number]);
            direction.check_conservation().map_err(LiveError::Invariant)?;
            let Some(queue) = direction.queue() else { continue };
            capacity::check(config, 0, end, &queue.log.counters.queue, queue.link_use()).map_err(LiveError::Invariant)?;
            let mut outcome = recorder.finish(
                end - Instant::ZERO,
                flows(direction),
                &queue.log.counters,
                queue.aqm.counters(),
                direction.counts().arrived,
            );
            let most = allowed_lateness([base_rtt(config)], target(&config.aqm), config.bottleneck.rate);
            judge(&mut outcome, forwarder, most, None)?;
            outcomes.push(outcome);
        }
        <[Outcome; 2]>::try_from(outcomes).map_err(|_| LiveError::Invariant("two queues".to_owned()))
    }
}

/// `any`, if it is of the type of `like`.
fn downcast_aqm<A: Aqm + 'static>(any: AnyAqm, _like: &A) -> Option<A> {
    let boxed: Box<dyn Any> = with_aqm!(any, aqm => Box::new(aqm));
    boxed.downcast::<A>().ok().map(|aqm| *aqm)
}

/// Exit status of the program behind `news`, if it has ended.
fn ended_early(news: &Receiver<ProgramEvent>) -> Option<std::io::Result<i32>> {
    match news.try_iter().last() {
        Some(ProgramEvent::Ended(status)) => Some(Ok(status_of(status))),
        Some(ProgramEvent::Refused(error)) => Some(Err(error)),
        _ => None,
    }
}

fn status_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Index in [`from_frames::KINDS`].
fn kind_of(tuple: &Tuple) -> u16 {
    match tuple.protocol {
        TCP => 0,
        UDP => 1,
        _ => 2,
    }
}

/// Address and port, or protocol where there are no ports.
fn format_address(address: u128, port: u16, protocol: u8) -> String {
    let address = match std::net::Ipv6Addr::from(address) {
        mapped if mapped.to_ipv4_mapped().is_some() => mapped.to_ipv4_mapped().map_or(IpAddr::V6(mapped), IpAddr::V4),
        other => IpAddr::V6(other),
    };
    match (address, protocol) {
        (_, TCP | UDP) => std::net::SocketAddr::new(address, port).to_string(),
        _ => format!("{address} protocol {protocol}"),
    }
}

fn flows<A: Aqm>(direction: &Direction<A>) -> Vec<from_frames::FrameFlow> {
    let Some(queue) = direction.queue() else { return Vec::new() };
    (0..)
        .zip(direction.flows())
        .map(|(slot, (tuple, [start, end]))| from_frames::FrameFlow {
            slot,
            kind: kind_of(&tuple),
            source: format_address(tuple.src, tuple.src_port, tuple.protocol),
            destination: format_address(tuple.dst, tuple.dst_port, tuple.protocol),
            start,
            end,
            counted: FlowCounts {
                counters: queue.log.counters.flows.flow_counters(slot),
                received: direction.receiver_stats(slot),
            },
        })
        .collect()
}

/// Takes down both directions: points of their series, changes of rate, and what [`Shell::view`] shows.
struct DirectionRecorder<'a> {
    recorders: [FrameRecorder; 2],
    /// The interval of the series of each direction.
    intervals: [Option<Duration>; 2],
    points: [Instant; 2],
    /// Changes of rate to come, the next at the end.
    changes: [Vec<(Instant, Rate)>; 2],
    rates: [Rate; 2],
    look: Instant,
    live: &'a Mutex<Value>,
}

impl<'a> DirectionRecorder<'a> {
    fn new(configs: &'a [RunConfig; 2], live: &'a Mutex<Value>) -> DirectionRecorder<'a> {
        let of = |config: &RunConfig, is_up| FrameRecorder::new(config, base_rtt(config), is_up);
        let interval = |config: &RunConfig| config.record.series.then_some(config.record.interval);
        let changes = |config: &RunConfig| config.rate_changes.iter().rev().map(|change| (change.at, change.rate)).collect();
        let [up, down] = configs;
        let intervals = [interval(up), interval(down)];
        DirectionRecorder {
            recorders: [of(up, true), of(down, false)],
            intervals,
            points: intervals.map(|first| first.map_or(Instant::NEVER, |first| Instant::ZERO + first)),
            changes: [changes(up), changes(down)],
            rates: [up.bottleneck.rate, down.bottleneck.rate],
            look: Instant::ZERO,
            live,
        }
    }

    fn next_change(&self, number: usize) -> Instant {
        self.changes[number].last().map_or(Instant::NEVER, |&(at, _)| at)
    }

    fn show<A: Aqm>(&self, now: Instant, directions: &[Direction<A>; 2], lateness: &[Lateness; 2]) {
        let mut shown = json!({"time_s": now.as_secs_f64()});
        for (number, name) in DIRECTIONS.into_iter().enumerate() {
            let Some(queue) = directions[number].queue() else { continue };
            let QueueCounters { sent, sojourn_ns, packets, bytes, ce_marks, sce_marks, drops_overflow, drops_aqm, .. } =
                queue.log.counters.queue;
            shown[name] = json!({
                "rate": self.rates[number].bits(), "sent": sent, "sojourn_ns": sojourn_ns, "packets": packets, "bytes": bytes,
                "ce_marks": ce_marks, "sce_marks": sce_marks, "drops": drops_overflow + drops_aqm,
                "backlog_packets": queue.aqm.packets(), "backlog_bytes": queue.aqm.bytes(),
                "lateness_p99_ns": lateness[number].p50_p99_max()[1].0,
            });
        }
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }
}

impl<A: Aqm> RunWatcher<A> for DirectionRecorder<'_> {
    fn next(&self) -> Instant {
        let of = |number: usize| self.points[number].min(self.next_change(number));
        self.look.min(of(0)).min(of(1))
    }

    fn on_time(&mut self, now: Instant, directions: &mut [Direction<A>; 2], lateness: &mut [Lateness; 2]) {
        for (number, direction) in directions.iter_mut().enumerate() {
            if self.next_change(number) <= now {
                if let (Some((_, rate)), Some(queue)) = (self.changes[number].pop(), direction.queue_mut()) {
                    queue.set_rate(rate, now);
                    self.rates[number] = rate;
                }
            }
            if let (true, Some(interval), Some(queue)) =
                (self.points[number] <= now, self.intervals[number], direction.queue_mut())
            {
                queue.settle(now);
                let counters = queue.log.counters.queue;
                let queued = [queue.aqm.packets() as u64, queue.aqm.bytes()];
                let payload = (0..direction.flows().count() as u32).map(|slot| (slot, direction.receiver_stats(slot).bytes));
                self.recorders[number].point(now, counters, queued, payload);
                self.points[number] += interval;
            }
        }
        if self.look <= now {
            self.show(now, directions, lateness);
            self.look = now + LOOK;
        }
    }
}
