//! The discrete-event engine: N flows, each with its own base RTT, through one bottleneck, on a virtual clock.
//!
//! [`run`] takes a run's configuration and gives its measures; equal configurations give equal bits.

pub mod agents;
mod builder;
mod change;
pub mod describe;
mod engine;
pub mod events;
pub mod huge_pages;
mod min_tree;
mod reader;

pub use builder::{Builder, Listener};
pub use change::{Change, StagePlace};
pub use dumbbell_bottleneck::{check, check_with};
use dumbbell_config as config;
use dumbbell_config::RunConfig;
pub use dumbbell_config::{extensions, registry};
use dumbbell_core::cc::conn::CaState;
use dumbbell_core::cc::Model;
pub use dumbbell_core::fork::{CannotFork, Fork, SharedCopies};
use dumbbell_core::param::ParamError;
pub use dumbbell_core::protocol;
use dumbbell_core::record::QueueCounters;
use dumbbell_core::units::Instant;
pub use dumbbell_measure::flow::SenderState;
use dumbbell_measure::{capacity, classes, flow, hop_log, measure, outcome, short_flows, transit};
pub use dumbbell_measure::{table, Outcome, Tables};
use engine::{RunState, Threads};
use extensions::PluginFault;
pub use reader::ConfigReader;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Version of the engine without the hash of its sources. `dumbbell-py` appends that hash, and the whole is part of every run's key.
pub const ENGINE_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+1");

/// Why a run gave no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ParamError),
    /// Something that must always hold did not: a bug.
    #[error("invariant broken: {0}")]
    Invariant(String),
    /// An algorithm from elsewhere did what it must not do.
    #[error("{0}")]
    Plugin(String),
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
}

/// An endpoint, looked at while a run is paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointView {
    /// Number in the run: flows, then UDP, then short flows as they arrive.
    pub number: u32,
    /// Class of traffic.
    pub class: u16,
    /// Payload that has arrived, bytes: acknowledged for TCP, received for UDP.
    pub payload: u64,
    /// State of its sender; all 0 for UDP.
    pub sender: SenderState,
}

/// A hop, looked at while a run is paused.
#[derive(Clone, Debug, PartialEq)]
pub struct HopView {
    /// Name of the hop.
    pub name: String,
    /// Packets in its queue.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Counters since the start.
    pub counters: QueueCounters,
    /// State of its queue discipline, by the names of [`aqm::STATES`](dumbbell_core::aqm::STATES).
    pub states: Vec<(&'static str, f64)>,
}

/// The congestion control of a TCP connection, looked at while a run is paused.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlView {
    /// Number of the flow in the run.
    pub number: u32,
    /// State of the congestion machine.
    pub ca_state: CaState,
    /// Pacing rate of the payload, bytes per second, if it is paced.
    pub pacing_rate: Option<u64>,
    /// Model of the path, if it has one.
    pub model: Option<Model>,
}

/// A run, looked at while it is paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Time of the last event.
    pub now: Instant,
    /// Events so far.
    pub events: u64,
    /// Packets in the queue.
    pub queued_packets: u64,
    /// Bytes of these packets.
    pub queued_bytes: u64,
    /// Counters of the bottleneck.
    pub queue: QueueCounters,
    /// Everything that sends, as far as it is there.
    pub endpoints: Vec<EndpointView>,
}

/// A run on its way: it can be paused at any time, looked into and gone on with, to the same bits.
///
/// ```
/// use dumbbell_core::units::{Duration, Instant};
/// let config = serde_json::json!({"duration": 1_000_000_000, "bottleneck": {"aqm": {"name": "codel"}},
///     "flows": [{"cc": {"name": "cubic"}}]});
/// let mut sim = dumbbell_sim::Sim::new(&config).unwrap();
/// while !sim.step(sim.now() + Duration::from_millis(100)).unwrap() {
///     println!("{}: {} packets queued", sim.now(), sim.view().queued_packets);
/// }
/// assert_eq!(sim.finish().unwrap().tables.flows.height(), 1);
/// ```
pub struct Sim {
    run: Box<dyn engine::Run>,
    end: Instant,
    reached: Instant,
    over: bool,
    fault: PluginFault,
}

impl Sim {
    /// A run of `config`, canonical JSON (see `docs/architecture.md`), that has not begun.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn new(config: &Value) -> Result<Sim, ParamError> {
        Sim::builder(config).build()
    }

    /// A run of a configuration that was read already, without algorithms of programs, and has not begun.
    ///
    /// # Errors
    /// A link without a rate whose queue has none.
    pub fn from_config(config: RunConfig) -> Result<Sim, ParamError> {
        Sim::on_threads(config, 1)
    }

    /// [`Sim::from_config`] on up to `count` threads ([`Builder::threads`]).
    ///
    /// # Errors
    /// A link without a rate whose queue has none.
    pub fn on_threads(config: RunConfig, count: usize) -> Result<Sim, ParamError> {
        let threads = Threads { count: count.max(1), ..Threads::ONE };
        builder::build_run(config, None, PluginFault::default(), Some((builder::delivers_ahead(), threads)))
    }

    /// A run of `config` with algorithms and listeners that are not registered.
    pub fn builder(config: &Value) -> Builder<'_> {
        Builder::new(config)
    }

    fn from_run(run: Box<dyn engine::Run>, end: Instant, fault: PluginFault) -> Sim {
        Sim { run, end, reached: Instant::ZERO, over: false, fault }
    }

    fn allow_changes(&mut self) {
        self.run.allow_changes();
    }

    /// Lets everything happen until `until`, that instant included. Returns whether the run is over.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn step(&mut self, until: Instant) -> Result<bool, RunError> {
        while !self.over && self.advance(until, SLICE)? != RunState::Paused {}
        Ok(self.over)
    }

    /// Does a part of [`Sim::step`], some milliseconds of computing at most. Returns whether all of it is done.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn step_in_part(&mut self, until: Instant) -> Result<bool, RunError> {
        Ok(self.over || self.advance(until, SLICE)? != RunState::Busy)
    }

    fn advance(&mut self, until: Instant, events: u64) -> Result<RunState, RunError> {
        let standing = self.run.advance(until, events);
        if let Some(what) = self.fault.message() {
            return Err(RunError::Plugin(what.to_owned()));
        }
        let standing = standing?;
        self.over = standing == RunState::Over;
        match standing {
            RunState::Paused => self.reached = self.reached.max(until),
            RunState::Acked => self.reached = self.reached.max(self.run.time()),
            RunState::Busy | RunState::Over => {}
        }
        Ok(standing)
    }

    /// Lets everything happen until an acknowledgement has reached a sender with the control [`external`](dumbbell_core::cc::external), or until `until`. Returns whether
    /// one has.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn step_to_ack(&mut self, until: Instant) -> Result<bool, RunError> {
        self.run.stop_at_acks(true);
        let mut last = Ok(RunState::Busy);
        while matches!(last, Ok(RunState::Busy)) && !self.over {
            last = self.advance(until, SLICE);
        }
        self.run.stop_at_acks(false);
        last.map(|standing| standing == RunState::Acked)
    }

    /// Number of events so far.
    pub fn count_events(&self) -> u64 {
        self.run.count_events()
    }

    /// Whether the run is over.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Returns the configuration, with the changes so far.
    pub fn config(&self) -> &RunConfig {
        self.run.config()
    }

    /// Changes the run, which [may change](Builder::changeable), at the time that it has reached.
    ///
    /// # Errors
    /// A change that the run cannot make.
    pub fn change(&mut self, change: &Change) -> Result<(), ParamError> {
        if self.over {
            return Err(ParamError::new("change", "a run that is over", "a run that goes on"));
        }
        self.run.change(change, self.reached)
    }

    /// Changes what `key`, a key as in an experiment file, stands for to `value`, canonical JSON ([`Change::read`]).
    ///
    /// # Errors
    /// A key that cannot change, or a value that it cannot have.
    pub fn set(&mut self, key: &str, value: &Value) -> Result<(), ParamError> {
        let change = Change::read(self.run.config(), key, value, self.reached)?;
        self.change(&change).map_err(|error| ParamError { key: key.to_owned(), ..error })
    }

    fn has_acks(&self, flow: usize) -> bool {
        self.run.has_acks(flow)
    }

    /// Takes what the agent of flow number `flow` is told, if its control is [`external`](dumbbell_core::cc::external).
    pub fn observe(&mut self, flow: usize) -> Option<agents::FlowObservation> {
        self.run.observe(flow)
    }

    /// How far the run has come.
    pub fn now(&self) -> Instant {
        self.reached
    }

    /// Returns the present state.
    pub fn view(&self) -> View {
        self.run.view()
    }

    /// Returns each hop as it is now: the bottleneck, then the others.
    pub fn view_hops(&self) -> Vec<HopView> {
        self.run.view_hops()
    }

    /// Returns the congestion control of each TCP connection as it is now.
    pub fn view_controls(&self) -> Vec<ControlView> {
        self.run.view_controls()
    }

    /// Returns a copy that goes on as this run does, to the same bits, whatever happens to the other.
    ///
    /// # Errors
    /// A part that a program brought along, or a listener, that cannot be copied.
    pub fn fork(&self) -> Result<Sim, CannotFork> {
        self.fork_with(&mut SharedCopies::default())
    }

    /// [`Sim::fork`], after which `shared` has the copies of what a program shares with listeners of the run, such as an [`EventRecorder`](events::EventRecorder).
    ///
    /// # Errors
    /// As of [`Sim::fork`].
    pub fn fork_with(&self, shared: &mut SharedCopies) -> Result<Sim, CannotFork> {
        let (run, fault) = (self.run.fork(shared)?, self.fault.fork(shared));
        Ok(Sim { run, fault, ..*self })
    }

    /// Goes on to the end, unless `cancel` stops it, and returns what was measured. `progress` holds the simulated nanoseconds so far.
    ///
    /// # Errors
    /// A broken invariant, what an algorithm from elsewhere did wrong, or cancellation.
    pub fn run(self, cancel: &AtomicBool, progress: &AtomicU64) -> Result<Outcome, RunError> {
        self.run_unless(|| cancel.load(Ordering::Relaxed), progress)
    }

    /// [`Sim::run`], which `is_cancelled` stops: it is called several hundred times a second.
    ///
    /// # Errors
    /// A broken invariant, or a run that was cancelled, as from [`Sim::run`].
    pub fn run_unless(mut self, mut is_cancelled: impl FnMut() -> bool, progress: &AtomicU64) -> Result<Outcome, RunError> {
        while self.advance(Instant::NEVER, SLICE)? != RunState::Over {
            if is_cancelled() {
                return Err(RunError::Cancelled);
            }
            progress.store(self.run.time().min(self.end).0, Ordering::Relaxed);
        }
        progress.store(self.end.0, Ordering::Relaxed);
        self.finish()
    }

    /// Goes on to the end, and returns what was measured.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn finish(mut self) -> Result<Outcome, RunError> {
        self.step(Instant::NEVER)?;
        self.run.finish()
    }
}

/// Events between two looks at the cancel flag, and at what algorithms from elsewhere did wrong.
const SLICE: u64 = 1 << 14;

/// Runs one simulation. `config` is canonical JSON (see `docs/architecture.md`); `cancel` stops it early; `progress`
/// holds the simulated nanoseconds so far.
///
/// # Errors
/// A configuration that cannot be used, a broken invariant, or cancellation.
pub fn run(config: &Value, cancel: &AtomicBool, progress: &AtomicU64) -> Result<Outcome, RunError> {
    Sim::new(config)?.run(cancel, progress)
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
