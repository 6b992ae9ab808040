//! Python bindings of the engine: converts and releases the GIL; holds no logic.

use arrow::Rows;
use dumbbell_config::schedule::Schedule;
use dumbbell_config::{BottleneckParams, RunConfig};
use dumbbell_core::link_trace::{BadTrace, LinkTrace};
use dumbbell_core::param::{ParamError, ParamType};
use dumbbell_measure::from_capture::{measure, Capture, CaptureError, HopCaptures};
use dumbbell_plugin::{abi, trial, Plugin, HEADER};
use dumbbell_sim::extensions::Extensions;
use dumbbell_sim::huge_pages::HugePages;
use dumbbell_sim::{ConfigReader, Outcome, RunError, Sim, Tables};
use packed::{Described, PackedRun};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::PyBytes;
use serde_json::Value;
use std::alloc::System;
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod arrow;
#[cfg(target_os = "linux")]
mod live;
mod packed;
mod packets;
mod places;
mod prototype;
mod qlog;
mod simulation;

/// Puts the memory of thousands of flows into huge pages.
#[global_allocator]
static ALLOCATOR: HugePages<System> = HugePages(System);

create_exception!(dumbbell._native, Interrupted, PyException, "The run was cancelled.");

/// A flag that runs check all the time: `cancel()` ends every run that was given it.
#[pyclass(frozen)]
#[derive(Default)]
struct Cancel {
    flag: Arc<AtomicBool>,
}

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Cancel {
        Cancel::default()
    }

    /// Ends every run that was given this flag.
    fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether `cancel()` was called.
    #[getter]
    fn get_cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

/// How far a run has come, readable from any thread.
#[pyclass(frozen)]
#[derive(Default)]
struct Progress {
    simulated: Arc<AtomicU64>,
}

#[pymethods]
impl Progress {
    #[new]
    fn new() -> Progress {
        Progress::default()
    }

    /// Simulated time so far, ns.
    #[getter]
    fn get_simulated(&self) -> u64 {
        self.simulated.load(Ordering::Relaxed)
    }

    /// A run on another engine has come to `time`, ns.
    fn reach(&self, time: u64) {
        self.simulated.store(time, Ordering::Relaxed);
    }
}

/// Outcome of one run; `gather` puts the outcomes of many runs into tables.
#[pyclass(frozen, module = "dumbbell._native")]
struct Result(PackedRun);

impl From<Outcome> for Result {
    fn from(outcome: Outcome) -> Result {
        Result(PackedRun::new(&outcome))
    }
}

#[pymethods]
impl Result {
    /// JSON: figures of the queue and across flows.
    #[getter]
    fn summary(&self) -> String {
        let mut row = self.0.row();
        row.shift_remove("hash");
        Value::Object(row).to_string()
    }

    /// Hex digest over every figure.
    #[getter]
    fn hash(&self) -> String {
        self.0.row()["hash"].as_str().unwrap_or_default().to_owned()
    }

    /// Everything, for `from_bytes` of the same version of the engine.
    fn to_bytes(&self) -> PyResult<Vec<u8>> {
        self.0.to_bytes().map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Restores the outcome on which `to_bytes` was called.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Result> {
        PackedRun::from_bytes(data).map(Result).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The function that restores the outcome, and its argument: for pickle.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let restore = py.get_type::<Result>().getattr("from_bytes")?;
        Ok((restore, (PyBytes::new(py, &self.to_bytes()?),)))
    }
}

/// Gathers the outcomes of all `results`, table by table: of all tables, or of those with these names.
///
/// `described` has names and values, one for each of `results`: columns of table `runs`. If the first is `key`, every table has it.
/// Raises ValueError if they are of several versions of the engine.
#[pyfunction]
#[pyo3(signature = (results, described=vec![], tables=None))]
#[allow(clippy::needless_pass_by_value)] // made from Python's lists
fn gather(
    py: Python<'_>,
    results: Vec<Py<Result>>,
    described: Vec<(String, Described)>,
    tables: Option<Vec<String>>,
) -> PyResult<Vec<(String, Rows)>> {
    let runs: Vec<&PackedRun> = results.iter().map(|result| &result.get().0).collect();
    let is_wanted = |name: &String| tables.as_ref().is_none_or(|wanted| wanted.contains(name));
    let joined = py.detach(|| packed::join(&runs, &described, is_wanted))?;
    joined.ok_or_else(|| PyValueError::new_err("results of several versions of the engine"))
}

/// The ValueError for a configuration that cannot be used, with the attributes `key`, `found` and `allowed`.
fn config_error(error: ParamError) -> PyErr {
    let raised = PyValueError::new_err(error.to_string());
    let fields = [("key", error.key), ("found", error.found), ("allowed", error.allowed)];
    Python::attach(|py| fields.into_iter().try_for_each(|(name, text)| raised.value(py).setattr(name, text)))
        .map_or_else(|failed| failed, |()| raised)
}

/// The exception for a run that gave no result.
fn run_error(error: RunError) -> PyErr {
    match error {
        RunError::Config(error) => config_error(error),
        RunError::Cancelled => Interrupted::new_err("cancelled"),
        other => PyRuntimeError::new_err(other.to_string()),
    }
}

fn parse(config: &str) -> PyResult<Value> {
    serde_json::from_str(config).map_err(|error| config_error(ParamError::new("config", error, "JSON")))
}

/// Everything that a configuration can hold, described, as JSON.
#[pyfunction]
fn registry() -> String {
    dumbbell_sim::registry().to_string()
}

/// Every table and column of the results, described, as JSON.
#[pyfunction]
fn columns() -> String {
    Tables::describe_tables().to_string()
}

/// Version of the engine: the package's version and a hash of the engine's code, without comments and tests.
#[pyfunction]
fn engine_version() -> String {
    format!("{}.{}", dumbbell_sim::ENGINE_VERSION, env!("DUMBBELL_ENGINE_SOURCES"))
}

/// Version of what `schedule` and `from_capture` do: a hash of their code, without comments and tests.
#[pyfunction]
fn measuring_version() -> &'static str {
    env!("DUMBBELL_MEASURING_SOURCES")
}

/// Checks a canonical configuration without running it; ValueError with `key`, `found` and `allowed`.
#[pyfunction]
fn check(config: &str) -> PyResult<()> {
    dumbbell_sim::check(&parse(config)?).map_err(config_error)
}

/// Time between two looks at Python's signals: Ctrl-C ends a run at once.
const LOOK_AT_SIGNALS: Duration = Duration::from_millis(50);

thread_local! {
    /// Reads the configurations of a thread: the next one mostly differs in its seed alone.
    static READER: RefCell<ConfigReader> = RefCell::default();
}

/// Reads a configuration without plugins.
fn read_config(config: &str) -> std::result::Result<RunConfig, ParamError> {
    READER.with_borrow_mut(|reader| reader.read(config))
}

/// Runs one canonical configuration without holding the GIL; without `cancel`, an exception of a signal's handler ends it and is raised. `plugins` are the libraries, or classes in Python, that it calls plugins, by
/// the names that it has for them: they are loaded into this process. The run may use this number of `threads`; its results are the same with any.
///
/// Raises ValueError (with `key`, `found` and `allowed`) on a bad configuration, RuntimeError if an invariant fails or a plugin cannot be
/// loaded or does what it must not, Interrupted if cancelled.
#[pyfunction]
#[pyo3(signature = (config, cancel=None, progress=None, plugins=BTreeMap::new(), threads=1))]
fn run(
    py: Python<'_>,
    config: &str,
    cancel: Option<&Cancel>,
    progress: Option<&Progress>,
    plugins: BTreeMap<String, Bound<'_, PyAny>>,
    threads: usize,
) -> PyResult<Result> {
    let simulated = progress.map_or_else(Arc::default, |p| p.simulated.clone());
    let extensions = if plugins.is_empty() { None } else { Some(load_all(&plugins)?) };
    py.detach(|| {
        let sim = match extensions {
            None => read_config(config).and_then(|read| Sim::on_threads(read, threads)),
            Some(extensions) => Sim::builder(&parse(config)?).extensions(extensions).threads(threads).build(),
        };
        simulate(sim.map_err(config_error)?, cancel.map(|cancel| &*cancel.flag), &simulated)
    })
}

/// Runs a simulation until `flag` is set or, if there is none, until a handler of a signal raises an exception.
fn simulate(sim: Sim, flag: Option<&AtomicBool>, simulated: &AtomicU64) -> PyResult<Result> {
    let (mut looked, mut raised) = (Instant::now(), None);
    let is_cancelled = || match flag {
        Some(flag) => flag.load(Ordering::Relaxed),
        None if looked.elapsed() < LOOK_AT_SIGNALS => false,
        None => {
            looked = Instant::now();
            raised = Python::attach(|py| py.check_signals()).err();
            raised.is_some()
        }
    };
    let outcome = sim.run_unless(is_cancelled, simulated);
    raised.map_or_else(|| outcome.map(Result::from).map_err(run_error), Err)
}

/// Runs configurations without plugins, one after the other, as `run` would, each on up to `threads`: short ones wait for no lock of Python's in between.
///
/// Returns for each the seconds that it took and its outcome, or the exception that `run` would raise; a panic is a RuntimeError.
#[pyfunction]
#[pyo3(signature = (configs, cancel, progress, threads=1))]
fn run_all<'py>(
    py: Python<'py>,
    configs: Vec<PyBackedStr>,
    cancel: &Cancel,
    progress: Vec<Py<Progress>>,
    threads: usize,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let flag = &cancel.flag;
    let told: Vec<_> = progress.iter().map(|one| one.get().simulated.clone()).collect();
    let one_run = |(config, simulated): (&PyBackedStr, &Arc<AtomicU64>)| {
        let started = Instant::now();
        let found = catch_unwind(AssertUnwindSafe(|| {
            let sim = read_config(config).and_then(|config| Sim::on_threads(config, threads)).map_err(config_error)?;
            sim.run(flag, simulated).map(Result::from).map_err(run_error)
        }));
        let found = found.unwrap_or_else(|panic| Err(PyRuntimeError::new_err(panic_message(panic.as_ref()))));
        found.map(|result| (started.elapsed().as_secs_f64(), result))
    };
    let ended: Vec<_> = py.detach(|| configs.iter().zip(&told).map(one_run).collect());
    let in_python = |found: PyResult<(f64, Result)>| match found {
        Ok(measured) => Ok(measured.into_pyobject(py)?.into_any()),
        Err(error) => Ok(error.into_value(py).into_bound(py).into_any()),
    };
    ended.into_iter().map(in_python).collect()
}

/// Returns the message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

/// The plugin at a path, or that a class in Python is.
fn load(plugin: &Bound<'_, PyAny>) -> PyResult<Plugin> {
    match plugin.extract::<PathBuf>() {
        Ok(path) => Plugin::load(path).map_err(|error| PyRuntimeError::new_err(error.to_string())),
        Err(_) => prototype::plugin(plugin),
    }
}

/// Loads the plugins of a run, by the names that its configuration has for them.
fn load_all(plugins: &BTreeMap<String, Bound<'_, PyAny>>) -> PyResult<Extensions> {
    let mut extensions = Extensions::default();
    for (name, plugin) in plugins {
        load(plugin)?.add_to(&mut extensions, name);
    }
    Ok(extensions)
}

/// Describes a plugin (a path, or a class in Python) as JSON, like an algorithm of `registry` with its `kind`: `aqm` or `cc`. It is loaded into
/// this process.
///
/// Raises RuntimeError if it is no plugin.
#[pyfunction]
fn describe_plugin(plugin: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(load(plugin)?.to_json().to_string())
}

/// How far the trial of a plugin has come, readable from any thread.
#[pyclass(frozen)]
#[derive(Default)]
struct Trial(trial::TrialProgress);

#[pymethods]
impl Trial {
    #[new]
    fn new() -> Trial {
        Trial::default()
    }

    /// Sequences and runs that are done.
    #[getter]
    fn get_done(&self) -> u64 {
        self.0.count_done()
    }

    /// Simulated time of the run that is being made, ns.
    #[getter]
    fn get_simulated(&self) -> u64 {
        self.0.simulated_time()
    }

    /// Returns the current activity in words.
    #[getter]
    fn get_doing(&self) -> String {
        self.0.current_step()
    }
}

/// Tries a plugin, a path or a class in Python, out, as `dumbbell_plugin::trial` says: how many sequences of operations and runs it stood.
///
/// Raises RuntimeError, one line, if it is no plugin or does what it must not.
#[pyfunction]
fn try_plugin(
    py: Python<'_>,
    plugin: &Bound<'_, PyAny>,
    seed: u64,
    sequences: u32,
    runs: u32,
    trial: &Trial,
) -> PyResult<(u32, u32)> {
    let plugin = load(plugin)?;
    let simulate = |config: &Value, extensions, is_copied, simulated: &AtomicU64| {
        let run = |sim: Sim| sim.run(&AtomicBool::new(false), simulated).map_err(|error| error.to_string());
        let mut sim = Sim::builder(config).extensions(extensions).build().map_err(|error| error.to_string())?;
        if is_copied {
            let third = dumbbell_core::units::Instant(sim.config().end().0 / 3);
            while !sim.step_in_part(third).map_err(|error| error.to_string())? {
                simulated.store(sim.view().now.0, Ordering::Relaxed);
            }
            if let Ok(copy) = sim.fork() {
                // the run ends before its copy goes on
                run(std::mem::replace(&mut sim, copy))?;
            }
        }
        run(sim).map(|outcome| outcome.hash)
    };
    let tried = py.detach(|| trial::try_out(&plugin, seed, sequences, runs, &trial.0, simulate));
    let tried = tried.map_err(PyRuntimeError::new_err)?;
    Ok((tried.sequences, tried.runs))
}

/// The header that plugins in C include.
#[pyfunction]
fn plugin_header() -> &'static str {
    HEADER
}

/// The types of that header, for plugins in Rust.
#[pyfunction]
fn plugin_types() -> &'static str {
    abi::SOURCE
}

fn trace_error(error: BadTrace) -> PyErr {
    PyValueError::new_err((error.found, error.allowed))
}

/// Reads the trace of a link, in mahimahi's format: its schedule. ValueError with two arguments: what was found, what is allowed.
#[pyfunction]
fn link_schedule(py: Python<'_>, content: &[u8]) -> PyResult<String> {
    py.detach(|| LinkTrace::parse("", content).map(|trace| trace.schedule())).map_err(trace_error)
}

/// Mean rate of a schedule, bit/s; ValueError as `link_schedule`.
#[pyfunction]
fn link_rate(schedule: &str) -> PyResult<u64> {
    LinkTrace::from_schedule("", schedule).map(|trace| trace.mean_rate().bits()).map_err(trace_error)
}

/// Returns the link layer of the hop with these keys as JSON: bytes that replace the Ethernet header, or None; the smallest length; how
/// frames are packed.
///
/// Raises ValueError (with `key`, `found` and `allowed`) on bad keys.
#[pyfunction]
fn link_layer(keys: &str) -> PyResult<(Option<u16>, u16, String)> {
    let value = parse(keys)?;
    let table = value.as_object().cloned().unwrap_or_default();
    let layer = BottleneckParams::from_json(&table).map_err(config_error)?.layer();
    let framing = layer.framing.to_json();
    Ok((layer.overhead, layer.mpu, framing.as_str().unwrap_or_default().to_owned()))
}

/// When everything in a canonical configuration starts, drawn from its seed, as JSON: `{"flows": [ns], "udp": [ns], "web": [[process, ns, bytes]], "app":
/// [[ns, connections]]}`.
///
/// Raises ValueError (with `key`, `found` and `allowed`) on a bad configuration.
#[pyfunction]
fn schedule(config: &str) -> PyResult<String> {
    let config = RunConfig::from_json(&parse(config)?).map_err(config_error)?;
    Ok(Schedule::new(&config).to_json().to_string())
}

/// Captures at the queue of a hop: a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Hop {
    arrived: PyBackedBytes,
    sent: PyBackedBytes,
    signals_on_arrival: bool,
    flow_queues: bool,
    limit: Option<u64>,
    counters: BTreeMap<String, u64>,
}

/// Computes the outcome of a run on another engine from captures; `dumbbell_measure::from_capture` describes the formats.
///
/// `hops` are the bottleneck and then the others; `counters` of each are those of its queue discipline, by name. `started` is the clock of the
/// captures when the run began, ns, `apps` what applications reported. Raises ValueError on a bad configuration, RuntimeError if the captures do
/// not fit together.
#[pyfunction]
#[pyo3(signature = (config, *, hops, samples, started, apps=None))]
#[allow(clippy::needless_pass_by_value)] // made from Python's list
fn from_capture(
    py: Python<'_>,
    config: &str,
    hops: Vec<Hop>,
    samples: &[u8],
    started: u64,
    apps: Option<&[u8]>,
) -> PyResult<Result> {
    let config = parse(config)?;
    let hops = hops.iter().map(|hop| HopCaptures {
        arrived: &hop.arrived,
        sent: &hop.sent,
        signals_on_arrival: hop.signals_on_arrival,
        flow_queues: hop.flow_queues,
        limit: hop.limit,
        counters: hop.counters.clone(),
    });
    let captured = Capture { hops: hops.collect(), samples, apps: apps.unwrap_or_default(), started };
    let outcome = py.detach(|| measure(&config, &captured)).map_err(|error| match error {
        CaptureError::Config(error) => config_error(error),
        other => PyRuntimeError::new_err(other.to_string()),
    })?;
    Ok(outcome.into())
}

#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::live::{
        adopt_descendants, apps_version, end_descendants, live_check, live_permission, live_run, live_version, run_guest_apps,
        shell_check, PyShell,
    };
    #[pymodule_export]
    use super::packets::{packet_points, run_packets, write_captured};
    #[pymodule_export]
    use super::places::toml_places;
    #[pymodule_export]
    use super::qlog::run_qlog;
    #[pymodule_export]
    use super::simulation::{agent_columns, PyAgents, PySimulation};
    #[pymodule_export]
    use super::{
        check, columns, describe_plugin, engine_version, from_capture, gather, link_layer, link_rate, link_schedule,
        measuring_version, plugin_header, plugin_types, registry, run, run_all, schedule, try_plugin, Cancel, Interrupted,
        Progress, Result, Rows, Trial,
    };

    #[cfg(target_os = "linux")]
    #[pymodule_init]
    fn add_addresses(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("SHELL_ADDRESSES", super::live::shell_addresses())
    }
}
