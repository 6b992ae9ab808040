//! A run whose packets are written.

use crate::arrow::{as_error, coded_or_none, integers_or_none, reals, Rows};
use crate::{config_error, load_all, parse, run_error, Cancel, Result};
use arrow_array::{ArrayRef, StringArray};
use arrow_schema::ArrowError;
use dumbbell_config::RunConfig;
use dumbbell_core::param::ParamError;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_packets::{
    points, CapturePoint, CaptureWriter, CapturedRun, ColumnValues, Columns, InferredQueue, PacketRecorder, PacketSelection,
    Stream, WrittenPackets,
};
use dumbbell_sim::extensions::Extensions;
use dumbbell_sim::{Outcome, Sim};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Arc;

const PROGRAM: &str = concat!("dumbbell ", env!("CARGO_PKG_VERSION"));

/// A file that is written from its start. One that is there goes: ext4 writes what was cut to nothing to the disk before it is closed, and whoever
/// reads the old one keeps it. A pipe, and where a link leads, stay.
fn new_file(path: &Path) -> io::Result<CaptureWriter> {
    if path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        // in a folder where nothing can be removed it is cut
        let _ = std::fs::remove_file(path);
    }
    Ok(Box::new(File::create(path)?))
}

fn write(
    config: &str,
    extensions: Extensions,
    cancel: &AtomicBool,
    asked: PacketSelection,
    file: Option<(CaptureWriter, &str)>,
) -> PyResult<(Outcome, WrittenPackets)> {
    let config = parse(config)?;
    let read = RunConfig::read(&config, &extensions).map_err(config_error)?;
    let file = file.map(|(sink, comment)| (sink, PROGRAM, comment));
    let recorder = PacketRecorder::new(&read, asked, file)
        .map_err(|found| config_error(ParamError::new("points", found, "points of this run")))?;
    let builder = Sim::builder(&config).extensions(extensions).listener(|hop| recorder.listener(hop));
    let outcome = builder.build().map_err(config_error)?.run(cancel, &AtomicU64::default()).map_err(run_error)?;
    Ok((outcome, recorder.finish()?))
}

fn rows(columns: &Columns) -> PyResult<Rows> {
    let array = |column: ColumnValues<'_>| -> std::result::Result<ArrayRef, ArrowError> {
        Ok(match column {
            ColumnValues::Whole(values) => integers_or_none(values),
            ColumnValues::Real(values) => reals(values.iter().map(|value| value.to_bits()).collect(), true),
            ColumnValues::Text(words) => coded_or_none(&words.codes, Arc::new(StringArray::from_iter_values(&words.words)))?,
        })
    };
    let all = columns.name_columns().into_iter().map(|(name, column)| Ok((name, array(column)?)));
    Rows::new(all.collect::<std::result::Result<_, ArrowError>>().map_err(as_error)?).map_err(as_error)
}

/// Points of a run over these hops, in the order in which data pass them.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // made from Python's list
pub fn packet_points(hops: Vec<String>) -> Vec<String> {
    points(hops.iter().map(String::as_str))
}

/// Runs one canonical configuration as `run` does, and writes its packets: into the file `path`, pcapng with this comment, or into the rows that are
/// returned. `points` are some of `packet_points`, none are the senders'; `flows` are numbers, none are all; times are ns. `snap` is how many bytes of each frame the
/// file keeps, 0 for all, None for headers and payload that is not zeros. Returns what was measured, how many packets were written, and the rows.
///
/// Raises what `run` raises, and OSError if a file cannot be written.
#[pyfunction]
#[pyo3(signature = (config, cancel, path=None, *, comment="", points=vec![], flows=vec![], start=0, end=u64::MAX, snap=None, plugins=BTreeMap::new()))]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)] // made from Python's tables; keywords
pub fn run_packets(
    py: Python<'_>,
    config: &str,
    cancel: &Cancel,
    path: Option<PathBuf>,
    comment: &str,
    points: Vec<String>,
    flows: Vec<u32>,
    start: u64,
    end: u64,
    snap: Option<u32>,
    plugins: BTreeMap<String, Bound<'_, PyAny>>,
) -> PyResult<(Result, u64, Option<Rows>)> {
    let extensions = load_all(&plugins)?;
    let asked = PacketSelection { points, flows, from: Instant(start), until: Instant(end), snap };
    let file = match path {
        Some(path) => Some((py.detach(|| new_file(&path))?, comment)),
        None => None,
    };
    let (outcome, WrittenPackets { count, columns }) = py.detach(|| write(config, extensions, &cancel.flag, asked, file))?;
    let rows = columns.as_ref().map(rows).transpose()?;
    Ok((outcome.into(), count, rows))
}

/// Captures of a run: a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CaptureFiles {
    streams: Vec<(String, u16, PathBuf, u64)>,
    queues: Vec<QueueFiles>,
    told: Vec<(u16, PathBuf)>,
    started: u64,
    first_port: u16,
    receivers: Option<(u16, u16)>,
    mss: Option<u32>,
    completes: bool,
}

/// Captures at a queue, and traits of the queue: a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct QueueFiles {
    arrived: PathBuf,
    left: PathBuf,
    count: u64,
    drops_on_arrival: bool,
    flow_queues: bool,
    limit: Option<u64>,
    drops: u64,
}

fn place(name: &str, hop: u16) -> PyResult<CapturePoint> {
    Ok(match name {
        "left" => CapturePoint::Left,
        "right" => CapturePoint::Right,
        "into" => CapturePoint::Into(hop),
        "out" => CapturePoint::Out(hop),
        _ => return Err(PyValueError::new_err(format!("{name}: left, right, into or out"))),
    })
}

/// Writes the packets of a run of a canonical configuration that kernels carried out, from files that were written meanwhile; `dumbbell_packets::Captured`
/// describes them. A stream is (place, number of the hop, file, ns by which its frames passed earlier). The rest is as in `run_packets`. Returns how many packets were written, and the rows.
///
/// Raises ValueError on a bad configuration, RuntimeError if files do not fit together, and OSError if one cannot be read or written.
#[pyfunction]
#[pyo3(signature = (config, files, path=None, *, comment="", points=vec![], flows=vec![], start=0, end=u64::MAX, snap=None))]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)] // made from Python's tables; keywords
pub fn write_captured(
    py: Python<'_>,
    config: &str,
    files: CaptureFiles,
    path: Option<PathBuf>,
    comment: &str,
    points: Vec<String>,
    flows: Vec<u32>,
    start: u64,
    end: u64,
    snap: Option<u32>,
) -> PyResult<(u64, Option<Rows>)> {
    let config = RunConfig::from_json(&parse(config)?).map_err(config_error)?;
    let asked = PacketSelection { points, flows, from: Instant(start), until: Instant(end), snap };
    let stream = |(name, hop, records, earlier): (String, u16, PathBuf, u64)| {
        Ok(Stream { place: place(&name, hop)?, path: records, earlier: Duration(earlier) })
    };
    let captured = CapturedRun {
        streams: files.streams.into_iter().map(stream).collect::<PyResult<_>>()?,
        told: files.told,
        started: files.started,
        first_port: files.first_port,
        receivers: files.receivers.map(|(first, last)| first..=last),
        mss: files.mss,
        completes: files.completes,
    };
    let queue = |QueueFiles { arrived, left, count, drops_on_arrival, flow_queues, limit, drops }| InferredQueue {
        arrived,
        left,
        count,
        drops_on_arrival,
        flow_queues,
        limit,
        drops,
    };
    let queues: Vec<InferredQueue> = files.queues.into_iter().map(queue).collect();
    let file = match path {
        Some(path) => Some((py.detach(|| new_file(&path))?, PROGRAM, comment)),
        None => None,
    };
    let written = py.detach(|| captured.write(&config, asked, &queues, file)).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => PyRuntimeError::new_err(error.to_string()),
        _ => error.into(),
    })?;
    Ok((written.count, written.columns.as_ref().map(rows).transpose()?))
}
