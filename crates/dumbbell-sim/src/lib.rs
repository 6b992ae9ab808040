//! The discrete-event engine: N flows, each with its own base RTT, through one bottleneck, on a virtual clock.
//!
//! [`run`] takes a run's configuration and gives its measures; equal configurations give equal bits.

pub mod bottleneck;
mod classes;
pub mod config;
mod engine;
pub mod from_capture;
pub mod from_frames;
pub mod from_live;
mod measure;
mod min_tree;
mod outcome;
pub mod schedule;
mod short_flows;
pub mod table;
mod trace;
mod transit;

pub use config::registry;
use config::{FlowConfig, RunConfig};
use dumbbell_core::aqm::{self, AnyAqm, Aqm, QueueContext};
use dumbbell_core::cc::{AnyCc, CcContext, Chosen};
use dumbbell_core::param::ParamError;
use dumbbell_core::record::QueueCounters;
use dumbbell_core::rng::mix;
use dumbbell_core::units::{Rate, Time};
use engine::Standing;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use table::{Column, Table};

/// Changes whenever results may change: part of every run's key.
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
    /// What was captured of a run does not fit together.
    #[error("capture: {0}")]
    Capture(String),
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
}

/// What a run measured, as columns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tables {
    /// One row a flow or source of UDP that is listed.
    pub flows: Table,
    /// One row a class of traffic.
    pub classes: Table,
    /// One row a listed flow and interval.
    pub series: Table,
    /// One row an interval.
    pub queue_series: Table,
    /// Histogram of the time in queue, one row a class and bin.
    pub sojourn: Table,
    /// Histogram of the RTT samples of listed TCP flows, one row a class and bin.
    pub rtt: Table,
    /// One row a short flow.
    pub short_flows: Table,
    /// Short flows by class and size.
    pub slowdowns: Table,
    /// What the congestion controls of the listed flows believed, if it was recorded.
    pub trace: Table,
}

impl Tables {
    /// Every table with its name in the store, in order.
    pub fn named(&self) -> [(&'static str, &Table); 9] {
        let Tables { flows, classes, series, queue_series, sojourn, rtt, short_flows, slowdowns, trace } = self;
        [
            ("flows", flows),
            ("classes", classes),
            ("series", series),
            ("queue_series", queue_series),
            ("sojourn", sojourn),
            ("rtt", rtt),
            ("short_flows", short_flows),
            ("slowdowns", slowdowns),
            ("trace", trace),
        ]
    }
}

/// What a run measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Figures of the queue and across flows.
    pub summary: Value,
    /// Everything else.
    pub tables: Tables,
    /// Digest of what was measured: equal for equal results.
    pub hash: String,
}

/// Whether the digest leaves a figure of a run or column of a table out.
///
/// A run that behaves as ever keeps its digest, so that results of any two engines can be compared by it. Measures that came later are
/// therefore left out. P95 of the time in queue follows from the histogram, which the digest covers. One-way delays follow from
/// the configuration and its random draws, which show in the rest of what is measured, unless UDP alone passes stages of a path that draw.
fn is_beside_digest(name: &str) -> bool {
    name == "sojourn_p95_ms" || transit::is_of_transit(name)
}

impl Outcome {
    pub(crate) fn new(summary: Value, tables: Tables) -> Outcome {
        let mut digest = Digest::default();
        let mut covered = summary.clone();
        if let Some(figures) = covered.as_object_mut() {
            figures.retain(|name, _| !is_beside_digest(name));
        }
        digest.bytes(covered.to_string().as_bytes());
        tables.named().iter().for_each(|(_, table)| digest.table(table));
        Outcome { summary, tables, hash: digest.hex() }
    }
}

/// 128 bits over what a run measured; not against an adversary.
struct Digest([u64; 2]);

impl Default for Digest {
    fn default() -> Digest {
        Digest([mix(1), mix(2)])
    }
}

impl Digest {
    fn word(&mut self, word: u64) {
        self.0 = [mix(self.0[0] ^ word), mix(self.0[1].rotate_left(23) ^ word)];
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn table(&mut self, table: &Table) {
        for (name, column) in table.columns.iter().filter(|(name, _)| !is_beside_digest(name)) {
            self.bytes(name.as_bytes());
            match column {
                Column::U64(values) => values.iter().for_each(|&value| self.word(value)),
                Column::F64(values) => values.iter().for_each(|value| self.word(value.to_bits())),
                Column::Text(values) => values.iter().for_each(|value| self.bytes(value.as_bytes())),
            }
        }
    }

    fn hex(&self) -> String {
        format!("{:016x}{:016x}", self.0[0], self.0[1])
    }
}

/// Checks a configuration, canonical JSON, without running it.
///
/// # Errors
/// The first key that cannot be used.
pub fn check(config: &Value) -> Result<(), ParamError> {
    let config = RunConfig::from_json(config)?;
    build(&config).map(drop)
}

/// Builds what `config` names: queue discipline and congestion controls of the flows.
fn build(config: &RunConfig) -> Result<(AnyAqm, Vec<AnyCc>), ParamError> {
    if engine::frame(config.hosts.mss) > u32::from(u16::MAX) {
        return Err(ParamError::new("hosts.mss", config.hosts.mss, "frames below 64 KiB"));
    }
    let mut controls = Vec::with_capacity(config.flows.len());
    let mut last: Option<(&FlowConfig, Chosen)> = None;
    for (index, flow) in config.flows.iter().enumerate() {
        let chosen = match last.take() {
            Some((other, chosen)) if Arc::ptr_eq(&other.cc, &flow.cc) => chosen,
            _ => Chosen::from_json(&flow.cc).map_err(|e| e.within(&format!("flows[{index}].cc")))?,
        };
        controls.push(chosen.build(&CcContext { seed: config.run.seed, flow: index as u64 }));
        last = Some((flow, chosen));
    }
    Ok((queue_discipline(config)?, controls))
}

/// Builds the queue discipline of `config`, which learns the rate that it is to know.
///
/// # Errors
/// The first key below `bottleneck.aqm` that cannot be used.
pub fn queue_discipline(config: &RunConfig) -> Result<AnyAqm, ParamError> {
    let context = QueueContext { rate: config.bottleneck.rate, seed: config.run.seed };
    let mut any = aqm::build(&config.aqm, &context).map_err(|e| e.within("bottleneck.aqm"))?;
    if config.bottleneck.trace.is_some() {
        dumbbell_core::with_aqm!(&mut any, aqm => if aqm.shapes() {
            // a rate that is the mean of others is none to shape at: without a rate of its own, the queue leaves the pace to the trace
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
}

impl Sim {
    /// A run of `config`, canonical JSON (see `docs/architecture.md`), that has not begun.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn new(config: &Value) -> Result<Sim, ParamError> {
        let config = Arc::new(RunConfig::from_json(config)?);
        let (any, controls) = build(&config)?;
        let duration = config.run.duration;
        let run: Box<dyn engine::Run> =
            dumbbell_core::with_aqm!(any, aqm => Box::new(engine::Engine::new(config, controls, aqm, ())?));
        Ok(Sim { run, duration, reached: Time::ZERO, over: false })
    }

    /// Lets everything happen until `until`, that instant included. Returns whether the run is over.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn step(&mut self, until: Time) -> Result<bool, RunError> {
        while !self.over && self.advance(until, u64::MAX)? != Standing::Paused {}
        Ok(self.over)
    }

    fn advance(&mut self, until: Time, events: u64) -> Result<Standing, RunError> {
        let standing = self.run.advance(until, events)?;
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

/// Events between two looks at the cancel flag.
const CANCEL_CHECK: u64 = 1 << 14;

/// Runs one simulation. `config` is canonical JSON (see `docs/architecture.md`); `cancel` stops it early; `progress`
/// holds the simulated nanoseconds so far.
///
/// # Errors
/// A configuration that cannot be used, a broken invariant, or cancellation.
pub fn run(config: &Value, cancel: &AtomicBool, progress: &AtomicU64) -> Result<Outcome, RunError> {
    let mut sim = Sim::new(config)?;
    while sim.advance(Time::NEVER, CANCEL_CHECK)? != Standing::Over {
        if cancel.load(Ordering::Relaxed) {
            return Err(RunError::Cancelled);
        }
        progress.store(sim.run.time().min(sim.duration).0, Ordering::Relaxed);
    }
    progress.store(sim.duration.0, Ordering::Relaxed);
    sim.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn measures_that_came_later_are_beside_the_digest_and_no_others() {
        let config = json!({"duration": 1_000_000_000, "bottleneck": {"aqm": {"name": "codel"}}, "udp": [{}]});
        let outcome = Sim::new(&config).and_then(|sim| sim.finish().map_err(|error| panic!("{error}"))).expect("a run");
        let again = |summary: &Value, tables: &Tables| Outcome::new(summary.clone(), tables.clone()).hash;
        let names: Vec<String> = outcome.summary.as_object().expect("an object").keys().cloned().collect();
        let later = |name: &str| name.starts_with("delay_") || name.starts_with("jitter_") || name == "sojourn_p95_ms";
        assert_eq!(names.iter().filter(|name| later(name)).count(), 7);
        for name in &names {
            let mut changed = outcome.summary.clone();
            changed[name] = json!("changed");
            assert_eq!(again(&changed, &outcome.tables) == outcome.hash, later(name), "{name}");
        }
        for of_flows in [true, false] {
            let columns = if of_flows { &outcome.tables.flows.columns } else { &outcome.tables.classes.columns };
            assert_eq!(columns.iter().filter(|(name, _)| later(name)).count(), 7);
            for (number, (name, _)) in columns.iter().enumerate() {
                let mut changed = outcome.tables.clone();
                let table = if of_flows { &mut changed.flows } else { &mut changed.classes };
                table.columns[number].1 = Column::Text(vec!["changed".to_owned()]);
                assert_eq!(again(&outcome.summary, &changed) == outcome.hash, later(name), "{name}");
            }
        }
    }
}
