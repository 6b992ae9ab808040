//! The discrete-event engine: N flows, each with its own base RTT, through one bottleneck, on a virtual clock.
//!
//! [`run`] takes a run's configuration and gives its measures; equal configurations give equal bits.

mod bottleneck;
mod classes;
pub mod config;
mod engine;
mod measure;
mod min_tree;
pub mod table;

pub use config::registry;
use config::RunConfig;
use dumbbell_core::aqm::{self, AnyAqm, Surroundings};
use dumbbell_core::cc::{self, AnyCc, CcContext};
use dumbbell_core::param::ParamError;
use dumbbell_core::rng::mix;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicU64};
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
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
}

/// What a run measured, as columns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tables {
    /// One row a flow.
    pub flows: Table,
    /// One row a connection class.
    pub classes: Table,
    /// One row a flow and interval.
    pub series: Table,
    /// One row an interval.
    pub queue_series: Table,
    /// Histogram of the time in queue, one row a class and bin.
    pub sojourn: Table,
}

/// What a run measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Figures of the queue and across flows.
    pub summary: Value,
    /// Everything else.
    pub tables: Tables,
    /// Digest of everything that was measured: equal for equal results.
    pub hash: String,
}

impl Outcome {
    /// `tables.classes` holds what was measured in the queue, to which what follows from `tables.flows` is added; `rate`
    /// is the link's, bit/s.
    pub(crate) fn new(mut summary: Value, mut tables: Tables, rate: u64) -> Outcome {
        let mut digest = Digest::default();
        digest.bytes(summary.to_string().as_bytes());
        let Tables { flows, classes, series, queue_series, sojourn } = &tables;
        for table in [flows, classes, series, queue_series, sojourn] {
            digest.table(table);
        }
        let of_queue = std::mem::take(&mut tables.classes);
        tables.classes = classes::table(&tables.flows, of_queue, rate).expect("measure.rs names all columns");
        for (name, ratio) in classes::ratios(&tables.classes) {
            summary[name] = ratio;
        }
        Outcome { summary, tables, hash: digest.hex() }
    }
}

/// 128 bits over everything that a run measured; not against an adversary.
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
        for (name, column) in &table.columns {
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

/// Builds what `config` names: queue discipline and congestion controls.
fn build(config: &RunConfig) -> Result<(AnyAqm, Vec<AnyCc>), ParamError> {
    if engine::frame(config.hosts.mss) > u32::from(u16::MAX) {
        return Err(ParamError::new("hosts.mss", config.hosts.mss, "frames below 64 KiB"));
    }
    let mut controls = Vec::with_capacity(config.flows.len());
    for (index, flow) in config.flows.iter().enumerate() {
        let context = CcContext { seed: config.run.seed, flow: index as u64 };
        controls.push(cc::build(&flow.cc, &context).map_err(|e| e.within(&format!("flows[{index}].cc")))?);
    }
    let keys = engine::flow_keys(config);
    let surroundings = Surroundings { rate: config.bottleneck.rate, flows: &keys, seed: config.run.seed };
    let any = aqm::build(&config.aqm, &surroundings).map_err(|e| e.within("bottleneck.aqm"))?;
    Ok((any, controls))
}

/// Runs one simulation. `config` is canonical JSON (see `docs/architecture.md`); `cancel` stops it early; `progress`
/// holds the simulated nanoseconds so far.
///
/// # Errors
/// A configuration that cannot be used, a broken invariant, or cancellation.
pub fn run(config: &Value, cancel: &AtomicBool, progress: &AtomicU64) -> Result<Outcome, RunError> {
    let config = RunConfig::from_json(config)?;
    let (any, controls) = build(&config)?;
    dumbbell_core::with_aqm!(any, aqm => engine::simulate(&config, controls, aqm, cancel, progress))
}
