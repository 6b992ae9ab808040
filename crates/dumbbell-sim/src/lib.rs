//! The discrete-event engine: N flows, each with its own base RTT, through one bottleneck, on a virtual clock.
//!
//! [`run`] takes a run's configuration and gives its measures; equal configurations give equal bits.

pub mod bottleneck;
mod builder;
mod engine;
pub mod hop;
pub mod huge_pages;
mod min_tree;

pub use builder::{Builder, Listener};
use config::{BottleneckParams, FlowConfig, FlowParams, RunConfig, BOTTLENECK};
use dumbbell_config as config;
pub use dumbbell_config::{extensions, protocol, registry};
use dumbbell_core::aqm::{AnyAqm, Aqm, QueueContext};
use dumbbell_core::cc::{CcContext, CcSpec};
use dumbbell_core::link;
use dumbbell_core::param::ParamError;
use dumbbell_core::record::QueueCounters;
use dumbbell_core::rng::mix;
use dumbbell_core::units::{Rate, Time};
use dumbbell_measure::{capacity, classes, hop_log, measure, outcome, short_flows, transit};
pub use dumbbell_measure::{table, Outcome, Tables};
use engine::{Speaks, Standing};
use extensions::{Extensions, PluginFault};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

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

/// Checks a configuration, canonical JSON, without running it.
///
/// # Errors
/// The first key that cannot be used.
pub fn check(config: &Value) -> Result<(), ParamError> {
    check_with(config, &Extensions::default())
}

/// [`check`] with algorithms that are not registered.
///
/// # Errors
/// The first key that cannot be used.
pub fn check_with(config: &Value, extensions: &Extensions) -> Result<(), ParamError> {
    let config = RunConfig::read(config, extensions)?;
    let (queues, _) = build(&config, extensions)?;
    // a run itself may ask for more than there is: whoever watches one asks for all
    check_states(&config, &queues)
}

/// Builds what `config` names: the queue discipline of each hop and the congestion controls of the flows.
fn build(config: &RunConfig, extensions: &Extensions) -> Result<(Vec<AnyAqm>, Vec<Speaks>), ParamError> {
    if engine::frame(config.hosts.mss) > u32::from(u16::MAX) {
        return Err(ParamError::new("hosts.mss", config.hosts.mss, "frames below 64 KiB"));
    }
    let mut controls = Vec::with_capacity(config.flows.len());
    let mut last: Option<(&FlowConfig, CcSpec)> = None;
    for (index, flow) in config.flows.iter().enumerate() {
        let within = |error: ParamError| error.prefix_key(&format!("flows[{index}].cc"));
        if let Some(make) = extensions.choose_stack(&flow.cc).map_err(within)? {
            fits_stack(&flow.params).map_err(|error| error.prefix_key(&format!("flows[{index}]")))?;
            controls.push(Speaks::Stack(make));
            continue;
        }
        let chosen = match last.take() {
            Some((other, chosen)) if Arc::ptr_eq(&other.cc, &flow.cc) => chosen,
            _ => extensions.choose_control(&flow.cc).map_err(within)?,
        };
        controls.push(Speaks::Tcp(chosen.build(&CcContext { seed: config.run.seed, flow: index as u64 })));
        last = Some((flow, chosen));
    }
    Ok((every_queue(config, extensions)?, controls))
}

/// What is to be recorded of queue disciplines, one of them tells, at points of the time series; of a plugin that is not known before it runs.
fn check_states(config: &RunConfig, queues: &[AnyAqm]) -> Result<(), ParamError> {
    if config.states.is_empty() {
        return Ok(());
    }
    if !config.record.series {
        return Err(ParamError::new(
            "record.queue",
            config.states.join(", "),
            "nothing without record.series: it is kept at its points",
        ));
    }
    let mut told = Vec::new();
    for queue in queues {
        if matches!(queue, AnyAqm::Dyn(_)) {
            return Ok(());
        }
        queue.state(&mut |name, _| told.push(name));
    }
    match config.states.iter().find(|state| !told.contains(state)) {
        None => Ok(()),
        Some(state) if told.is_empty() => {
            Err(ParamError::new("record.queue", state, "nothing: the queue disciplines of this run tell nothing of their state"))
        }
        Some(state) => {
            told.dedup();
            Err(ParamError::new("record.queue", state, format!("what a queue discipline of this run tells: {}", told.join(", "))))
        }
    }
}

/// What only TCP's application and receiver can do, a flow of a stack does not ask for.
fn fits_stack(params: &FlowParams) -> Result<(), ParamError> {
    let refused = |key: &str| Err(ParamError::new(key, "a value", "none with a stack"));
    let default = FlowParams::default();
    if params.connect.is_some() {
        return refused("connect");
    }
    if params.app_rate_from != default.app_rate_from || params.app_pause.is_some() {
        return refused(if params.app_pause.is_some() { "app_pause" } else { "app_rate_from" });
    }
    if params.ecn_echo != default.ecn_echo {
        return refused("ecn_echo");
    }
    Ok(())
}

/// Builds the queue discipline of each hop of `config`: the bottleneck, then the others.
///
/// # Errors
/// The first key below an `aqm` that cannot be used.
pub fn queue_disciplines(config: &RunConfig) -> Result<Vec<AnyAqm>, ParamError> {
    every_queue(config, &Extensions::default())
}

fn every_queue(config: &RunConfig, extensions: &Extensions) -> Result<Vec<AnyAqm>, ParamError> {
    let mut aqms = vec![first_queue(config, extensions)?];
    for (index, hop) in config.hops.iter().enumerate() {
        // queues of one kind do not draw the same numbers
        let seed = mix(config.run.seed ^ (index as u64 + 1) << 48);
        let context = context(config, &hop.params, seed);
        let place = format!("{}.aqm", hop.name);
        let is_paced = is_paced(&hop.params, hop.link.as_ref());
        let aqm = discipline(&hop.aqm, &context, is_paced, extensions).map_err(|e| e.prefix_key(&place))?;
        check_link(hop.link.as_ref(), &aqm).map_err(|e| e.prefix_key(&hop.name))?;
        aqms.push(aqm);
    }
    Ok(aqms)
}

/// Builds the queue discipline of `config`, which learns the rate that it is to know.
///
/// # Errors
/// The first key below `bottleneck.aqm` that cannot be used.
pub fn queue_discipline(config: &RunConfig) -> Result<AnyAqm, ParamError> {
    first_queue(config, &Extensions::default())
}

/// What a queue is built for.
fn context(config: &RunConfig, params: &BottleneckParams, seed: u64) -> QueueContext {
    let hosts = &config.hosts;
    let (full_frame, small_heads) = (hosts.full_frame(), hosts.small_heads());
    QueueContext { rate: params.rate, seed, link_layer: params.layer(), full_frame, small_heads }
}

fn first_queue(config: &RunConfig, extensions: &Extensions) -> Result<AnyAqm, ParamError> {
    let context = context(config, &config.bottleneck, config.run.seed);
    let is_paced = is_paced(&config.bottleneck, config.link.as_ref());
    let aqm = discipline(&config.aqm, &context, is_paced, extensions).map_err(|e| e.prefix_key("bottleneck.aqm"))?;
    check_link(config.link.as_ref(), &aqm).map_err(|e| e.prefix_key(BOTTLENECK))?;
    Ok(aqm)
}

/// Whether a link has a pace of its own, which a queue that shapes leaves to it.
fn is_paced(params: &BottleneckParams, link: Option<&link::LinkSpec>) -> bool {
    params.trace.is_some() || link.is_some_and(|link| !matches!(link, link::LinkSpec::Unshaped(_)))
}

/// A link without a rate needs a queue that has one.
fn check_link(link: Option<&link::LinkSpec>, aqm: &AnyAqm) -> Result<(), ParamError> {
    match link {
        Some(link::LinkSpec::Unshaped(_)) if !aqm.shapes() => {
            Err(ParamError::new("link", "unshaped", "a link with a rate, or a queue that shapes by itself"))
        }
        _ => Ok(()),
    }
}

fn discipline(
    aqm: &Map<String, Value>,
    context: &QueueContext,
    is_paced: bool,
    extensions: &Extensions,
) -> Result<AnyAqm, ParamError> {
    let mut any = extensions.build_aqm(aqm, context)?;
    if is_paced {
        dumbbell_core::with_aqm!(&mut any, aqm => if aqm.shapes() {
            // a rate that is the mean of others is none to shape at: without a rate of its own, the queue leaves the pace to the link
            aqm.set_rate(Rate::UNLIMITED, Time::ZERO);
        });
    }
    Ok(any)
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
    /// Congestion window, segments; this and what follows is 0 for UDP.
    pub cwnd: u32,
    /// Slow-start threshold, segments.
    pub ssthresh: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Smoothed RTT, us; 0 before the first sample.
    pub srtt_us: u32,
}

/// A run, looked at while it is paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Time of the last event.
    pub now: Time,
    /// Events so far.
    pub events: u64,
    /// Packets in the queue.
    pub queued_packets: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// What the bottleneck has counted.
    pub queue: QueueCounters,
    /// Everything that sends, as far as it is there.
    pub endpoints: Vec<EndpointView>,
}

/// A run on its way: it can be paused at any time, looked into and gone on with, to the same bits.
///
/// ```
/// use dumbbell_core::units::Time;
/// let config = serde_json::json!({"duration": 1_000_000_000, "bottleneck": {"aqm": {"name": "codel"}},
///     "flows": [{"cc": {"name": "cubic"}}]});
/// let mut sim = dumbbell_sim::Sim::new(&config).unwrap();
/// while !sim.step(sim.now() + Time::from_millis(100)).unwrap() {
///     println!("{}: {} packets queued", sim.now(), sim.view().queued_packets);
/// }
/// assert_eq!(sim.finish().unwrap().tables.flows.height(), 1);
/// ```
pub struct Sim {
    run: Box<dyn engine::Run>,
    duration: Time,
    reached: Time,
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

    /// A run of `config` with algorithms and listeners that are not registered.
    pub fn builder(config: &Value) -> Builder<'_> {
        Builder::new(config)
    }

    fn from_run(run: Box<dyn engine::Run>, duration: Time, fault: PluginFault) -> Sim {
        Sim { run, duration, reached: Time::ZERO, over: false, fault }
    }

    /// Lets everything happen until `until`, that instant included. Returns whether the run is over.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn step(&mut self, until: Time) -> Result<bool, RunError> {
        while !self.over && self.advance(until, SLICE)? != Standing::Paused {}
        Ok(self.over)
    }

    fn advance(&mut self, until: Time, events: u64) -> Result<Standing, RunError> {
        let standing = self.run.advance(until, events);
        if let Some(what) = self.fault.message() {
            return Err(RunError::Plugin(what.to_owned()));
        }
        let standing = standing?;
        self.over = standing == Standing::Over;
        if standing == Standing::Paused {
            self.reached = self.reached.max(until);
        }
        Ok(standing)
    }

    /// How far the run has come.
    pub fn now(&self) -> Time {
        self.reached
    }

    /// What there is to see.
    pub fn view(&self) -> View {
        self.run.view()
    }

    /// Goes on to the end, and returns what was measured.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn finish(mut self) -> Result<Outcome, RunError> {
        self.step(Time::NEVER)?;
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
    run_with(config, Extensions::default(), cancel, progress)
}

/// [`run`] with algorithms that are not registered.
///
/// # Errors
/// As [`run`], and what one of them did wrong.
pub fn run_with(config: &Value, extensions: Extensions, cancel: &AtomicBool, progress: &AtomicU64) -> Result<Outcome, RunError> {
    let mut sim = Sim::builder(config).extensions(extensions).build()?;
    while sim.advance(Time::NEVER, SLICE)? != Standing::Over {
        if cancel.load(Ordering::Relaxed) {
            return Err(RunError::Cancelled);
        }
        progress.store(sim.run.time().min(sim.duration).0, Ordering::Relaxed);
    }
    progress.store(sim.duration.0, Ordering::Relaxed);
    sim.finish()
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
