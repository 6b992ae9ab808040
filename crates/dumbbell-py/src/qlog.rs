//! A run that is written as qlog.

use crate::{config_error, load, Cancel, Interrupted, Result};
use dumbbell_config::RunConfig;
use dumbbell_core::units::Duration;
use dumbbell_qlog::{Names, QlogRecorder, QlogWriter};
use dumbbell_sim::extensions::Extensions;
use dumbbell_sim::{Builder, Outcome, RunError, Sim};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Simulated time between two looks at the flag that ends a run.
const SLICE: Duration = Duration::from_millis(10);

/// Why a run that is written came to nothing.
pub enum Failure {
    Run(RunError),
    File(io::Error),
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Run(RunError::Config(error)) => config_error(error),
            Failure::Run(RunError::Cancelled) => Interrupted::new_err("cancelled"),
            Failure::Run(other) => PyRuntimeError::new_err(other.to_string()),
            Failure::File(error) => PyOSError::new_err(error.to_string()),
        }
    }
}

/// A configuration that JSON is.
///
/// # Errors
/// The text is not a configuration.
pub fn parse_config(config: &str) -> std::result::Result<Value, Failure> {
    serde_json::from_str(config).map_err(|error| Failure::File(io::Error::other(error)))
}

/// Carries a run out, until `cancel` says that it is to end.
///
/// # Errors
/// The exception that `run` raises.
pub fn carry_out(builder: Builder<'_>, cancel: &AtomicBool) -> std::result::Result<Outcome, Failure> {
    let mut sim = builder.build().map_err(|error| Failure::Run(error.into()))?;
    while !sim.step(sim.now() + SLICE).map_err(Failure::Run)? {
        if cancel.load(Ordering::Relaxed) {
            return Err(Failure::Run(RunError::Cancelled));
        }
    }
    sim.finish().map_err(Failure::Run)
}

/// Opens a file and writes its header, JSON.
fn sink(path: &PathBuf, header: &str) -> io::Result<QlogWriter> {
    let mut file = File::create(path)?;
    writeln!(file, "\u{1e}{header}")?;
    Ok(Box::new(file))
}

fn write(
    config: &str,
    extensions: Extensions,
    cancel: &AtomicBool,
    senders: Vec<(u32, QlogWriter)>,
    (network, names): (Option<QlogWriter>, Names),
) -> std::result::Result<(Outcome, u64), Failure> {
    let config = parse_config(config)?;
    let read = RunConfig::read(&config, &extensions).map_err(|error| Failure::Run(error.into()))?;
    let recorder = QlogRecorder::new(names, senders, network, read.end());
    let builder = Sim::builder(&config).extensions(extensions).listener(|hop| recorder.listener(hop));
    let outcome = carry_out(builder, cancel)?;
    Ok((outcome, recorder.finish().map_err(Failure::File)?))
}

/// Runs one canonical configuration as `run` does, and writes qlog: of each of `senders`, by number of the flow, and of the `network`, a path and a header,
/// JSON. `old_names` are those of qlog 0.3. Returns what was measured and how many records there are.
///
/// Raises what `run` raises, and OSError if a file cannot be written.
#[pyfunction]
#[pyo3(signature = (config, cancel, senders, network=None, *, old_names=false, plugins=BTreeMap::new()))]
#[allow(clippy::needless_pass_by_value)] // made from Python's tables
pub fn run_qlog(
    py: Python<'_>,
    config: &str,
    cancel: &Cancel,
    senders: BTreeMap<u32, (PathBuf, String)>,
    network: Option<(PathBuf, String)>,
    old_names: bool,
    plugins: BTreeMap<String, Bound<'_, PyAny>>,
) -> PyResult<(Result, u64)> {
    let mut extensions = Extensions::default();
    for (name, plugin) in plugins {
        load(&plugin)?.add_to(&mut extensions, &name);
    }
    let of_senders = senders.iter().map(|(&number, (path, header))| Ok((number, sink(path, header)?)));
    let of_senders = of_senders.collect::<io::Result<Vec<_>>>()?;
    let of_network = network.map(|(path, header)| sink(&path, &header)).transpose()?;
    let (flag, names) = (&cancel.flag, if old_names { Names::V03 } else { Names::Draft });
    let written = py.detach(|| write(config, extensions, flag, of_senders, (of_network, names)));
    let (outcome, records) = written?;
    Ok((outcome.into(), records))
}
