//! Bindings of the engine on the real clock.

use super::{parse, Cancel, Interrupted, Progress, Result};
use dumbbell_live::run::LiveError;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// Version of the live engine: that of the package and a hash of the sources of core, simulator and live engine.
#[pyfunction]
fn live_version() -> String {
    format!("{}.{}", dumbbell_sim::ENGINE_VERSION, env!("DUMBBELL_LIVE_SOURCES"))
}

/// Checks that a canonical configuration can be run live on this machine; ValueError as `key: found …, allowed: …`.
#[pyfunction]
fn live_check(config: &str) -> PyResult<()> {
    dumbbell_live::run::check(&parse(config)?).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Lets this process, which must have one thread only, make network namespaces; OSError says why it may not.
#[pyfunction]
fn live_permission() -> PyResult<()> {
    dumbbell_live::namespaces::gain_permission().map_err(|error| PyOSError::new_err(error.to_string()))
}

/// Runs one canonical configuration in real time, without holding the GIL; `live_permission` comes before.
///
/// Raises ValueError on a bad configuration, OSError if there is no network to work in, RuntimeError if an invariant fails, Interrupted if cancelled.
#[pyfunction]
#[pyo3(signature = (config, cancel, progress=None))]
fn live_run(py: Python<'_>, config: &str, cancel: &Cancel, progress: Option<&Progress>) -> PyResult<Result> {
    let flag = &cancel.flag;
    let reached = progress.map_or_else(Default::default, |p| p.simulated.clone());
    let done = py.detach(|| parse(config).map(|config| dumbbell_live::run::run(&config, flag, &reached)))?;
    done.map(Result).map_err(|error| match error {
        LiveError::Config(error) => PyValueError::new_err(error.to_string()),
        LiveError::Setup(error) => PyOSError::new_err(error.to_string()),
        LiveError::Cancelled => Interrupted::new_err("cancelled"),
        other @ LiveError::Invariant(_) => PyRuntimeError::new_err(other.to_string()),
    })
}

/// Adds these functions to the extension module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(live_version, module)?)?;
    module.add_function(wrap_pyfunction!(live_check, module)?)?;
    module.add_function(wrap_pyfunction!(live_permission, module)?)?;
    module.add_function(wrap_pyfunction!(live_run, module)?)
}
