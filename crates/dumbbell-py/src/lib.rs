//! Python bindings of the engine: converts, releases the GIL, returns columns; holds no logic.

use dumbbell_sim::table::{Column, Table};
use dumbbell_sim::RunError;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

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
    fn cancelled(&self) -> bool {
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
    fn simulated(&self) -> u64 {
        self.simulated.load(Ordering::Relaxed)
    }
}

/// What one run measured.
#[pyclass(frozen, get_all)]
struct Result {
    /// JSON: figures of the queue and across flows.
    summary: String,
    /// Columns, one row a flow: `(name, "u64" | "f64" | "text", little-endian bytes | list of str)`.
    flows: Py<PyList>,
    /// Columns, one row a connection class.
    classes: Py<PyList>,
    /// Columns, one row a flow and interval.
    series: Py<PyList>,
    /// Columns, one row an interval: the queue.
    queue_series: Py<PyList>,
    /// Columns, one row a bin of the sojourn histogram.
    sojourn: Py<PyList>,
    /// Hex digest over every figure.
    hash: String,
}

fn words<'py, const N: usize>(py: Python<'py>, values: impl ExactSizeIterator<Item = [u8; N]>) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, values.len() * N, |bytes| {
        for (to, from) in bytes.chunks_exact_mut(N).zip(values) {
            to.copy_from_slice(&from);
        }
        Ok(())
    })
}

fn columns(py: Python<'_>, table: &Table) -> PyResult<Py<PyList>> {
    let list = PyList::empty(py);
    for (name, column) in &table.columns {
        match column {
            Column::U64(values) => list.append((name, "u64", words(py, values.iter().map(|v| v.to_le_bytes()))?))?,
            Column::F64(values) => list.append((name, "f64", words(py, values.iter().map(|v| v.to_le_bytes()))?))?,
            Column::Text(values) => list.append((name, "text", PyList::new(py, values)?))?,
        }
    }
    Ok(list.unbind())
}

fn parse(config: &str) -> PyResult<Value> {
    serde_json::from_str(config).map_err(|error| PyValueError::new_err(format!("config: found {error}, allowed: JSON")))
}

/// Everything that a configuration can hold, described, as JSON.
#[pyfunction]
fn registry() -> String {
    dumbbell_sim::registry().to_string()
}

/// Version of the engine: that of the package and a hash of the engine's sources.
#[pyfunction]
fn engine_version() -> String {
    format!("{}.{}", dumbbell_sim::ENGINE_VERSION, env!("DUMBBELL_ENGINE_SOURCES"))
}

/// Checks a canonical configuration without running it; ValueError as `key: found …, allowed: …`.
#[pyfunction]
fn check(config: &str) -> PyResult<()> {
    dumbbell_sim::check(&parse(config)?).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Runs one canonical configuration without holding the GIL.
///
/// Raises ValueError (`key: found …, allowed: …`) on a bad configuration, RuntimeError if an invariant fails,
/// Interrupted if cancelled.
#[pyfunction]
#[pyo3(signature = (config, cancel, progress=None))]
fn run(py: Python<'_>, config: &str, cancel: &Cancel, progress: Option<&Progress>) -> PyResult<Result> {
    let flag = &cancel.flag;
    let simulated = progress.map_or_else(Arc::default, |p| p.simulated.clone());
    let outcome =
        py.detach(|| parse(config).map(|config| dumbbell_sim::run(&config, flag, &simulated)))?.map_err(|error| match error {
            RunError::Config(error) => PyValueError::new_err(error.to_string()),
            RunError::Cancelled => Interrupted::new_err("cancelled"),
            other => PyRuntimeError::new_err(other.to_string()),
        })?;
    let tables = &outcome.tables;
    Ok(Result {
        summary: outcome.summary.to_string(),
        flows: columns(py, &tables.flows)?,
        classes: columns(py, &tables.classes)?,
        series: columns(py, &tables.series)?,
        queue_series: columns(py, &tables.queue_series)?,
        sojourn: columns(py, &tables.sojourn)?,
        hash: outcome.hash,
    })
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Interrupted", module.py().get_type::<Interrupted>())?;
    module.add_class::<Cancel>()?;
    module.add_class::<Progress>()?;
    module.add_class::<Result>()?;
    module.add_function(wrap_pyfunction!(registry, module)?)?;
    module.add_function(wrap_pyfunction!(engine_version, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)
}
