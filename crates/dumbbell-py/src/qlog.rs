//! A run that is written as qlog.

use crate::{config_error, load_all, parse, run_error, Cancel, Result};
use dumbbell_config::RunConfig;
use dumbbell_qlog::{Names, QlogRecorder, QlogWriter};
use dumbbell_sim::extensions::Extensions;
use dumbbell_sim::{Outcome, Sim};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};

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
) -> PyResult<(Outcome, u64)> {
    let config = parse(config)?;
    let read = RunConfig::read(&config, &extensions).map_err(config_error)?;
    let recorder = QlogRecorder::new(names, senders, network, read.end());
    let builder = Sim::builder(&config).extensions(extensions).listener(|hop| recorder.listener(hop));
    let outcome = builder.build().map_err(config_error)?.run(cancel, &AtomicU64::default()).map_err(run_error)?;
    Ok((outcome, recorder.finish()?))
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
    let extensions = load_all(&plugins)?;
    let of_senders = senders.iter().map(|(&number, (path, header))| Ok((number, sink(path, header)?)));
    let of_senders = of_senders.collect::<io::Result<Vec<_>>>()?;
    let of_network = network.map(|(path, header)| sink(&path, &header)).transpose()?;
    let (flag, names) = (&cancel.flag, if old_names { Names::V03 } else { Names::Draft });
    let written = py.detach(|| write(config, extensions, flag, of_senders, (of_network, names)));
    let (outcome, records) = written?;
    Ok((outcome.into(), records))
}
