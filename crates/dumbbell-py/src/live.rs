//! Bindings of the engine on the real clock.

use super::{config_error, parse, Cancel, Interrupted, Progress, Result};
use dumbbell_live::run::LiveError;
use dumbbell_live::{namespaces, programs, shell};
use pyo3::exceptions::{PyChildProcessError, PyFileNotFoundError, PyOSError, PyPermissionError, PyRuntimeError};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Version of the live engine: the package's version and a hash of the code of core, simulator and live engine.
#[pyfunction]
pub fn live_version() -> String {
    format!("{}.{}", dumbbell_sim::ENGINE_VERSION, env!("DUMBBELL_LIVE_SOURCES"))
}

/// Version of the applications in guests: a hash of their code, without comments and tests.
#[pyfunction]
pub fn apps_version() -> &'static str {
    env!("DUMBBELL_APPS_SOURCES")
}

/// Checks that a canonical configuration can be run live on this machine; ValueError with `key`, `found` and `allowed`.
#[pyfunction]
pub fn live_check(config: &str) -> PyResult<()> {
    dumbbell_live::run::check(&parse(config)?).map_err(config_error)
}

/// Lets this process, which must have one thread only, make network namespaces; OSError says why it may not.
#[pyfunction]
pub fn live_permission() -> PyResult<()> {
    dumbbell_live::namespaces::gain_permission().map_err(|error| PyOSError::new_err(error.to_string()))
}

/// Runs one canonical configuration in real time, without holding the GIL; `live_permission` comes before. `trace` is a folder for the headers of all frames.
///
/// Raises ValueError on a bad configuration, OSError if there is no network to work in, RuntimeError if an invariant fails, Interrupted if cancelled.
#[pyfunction]
#[pyo3(signature = (config, cancel, progress=None, trace=None))]
#[allow(clippy::needless_pass_by_value)] // made from Python's path
pub fn live_run(
    py: Python<'_>,
    config: &str,
    cancel: &Cancel,
    progress: Option<&Progress>,
    trace: Option<PathBuf>,
) -> PyResult<Result> {
    let flag = &cancel.flag;
    let reached = progress.map_or_else(Default::default, |p| p.simulated.clone());
    let done = py.detach(|| parse(config).map(|config| dumbbell_live::run::run(&config, flag, &reached, trace.as_deref())))?;
    done.map(Result::from).map_err(live_error)
}

fn live_error(error: LiveError) -> PyErr {
    match error {
        LiveError::Config(error) => config_error(error),
        LiveError::Setup(error) => PyOSError::new_err(error.to_string()),
        LiveError::Program(error) => match error.kind() {
            std::io::ErrorKind::NotFound => PyFileNotFoundError::new_err(error.to_string()),
            _ => PyPermissionError::new_err(error.to_string()),
        },
        LiveError::Server { .. } => PyChildProcessError::new_err(error.to_string()),
        LiveError::Cancelled => Interrupted::new_err("cancelled"),
        LiveError::Invariant(_) => PyRuntimeError::new_err(error.to_string()),
    }
}

/// In a guest: carries out the applications of the run in `folder`, whose clock of the system was `started` at its start, ns.
///
/// Raises OSError if a file cannot be read, and for whatever the kernel refuses.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // made from Python's path
pub fn run_guest_apps(py: Python<'_>, folder: PathBuf, started: u64) -> PyResult<()> {
    py.detach(|| dumbbell_live::apps::run(&folder, started)).map_err(|error| PyOSError::new_err(error.to_string()))
}

/// Checks that programs can be put behind the bottleneck of a canonical configuration; ValueError with `key`, `found` and `allowed`.
#[pyfunction]
pub fn shell_check(config: &str) -> PyResult<()> {
    shell::check(&parse(config)?).map_err(config_error)
}

/// Ends all processes below this one, which are given `seconds` to do so by themselves.
#[pyfunction]
pub fn end_descendants(py: Python<'_>, seconds: f64) {
    py.detach(|| programs::end_descendants(Duration::from_secs_f64(seconds)));
}

/// From now on what descendants of this process leave behind are its children.
#[pyfunction]
pub fn adopt_descendants() {
    programs::become_subreaper();
}

/// Namespaces with a bottleneck in between, for programs; `live_permission` comes before.
#[pyclass(frozen, name = "Shell")]
pub struct PyShell(shell::Shell);

#[pymethods]
impl PyShell {
    /// `up` and `down` are the canonical configurations of the two directions, `servers` lines for the shell of the far end, `files` path and content
    /// of what the command finds in place of the host's; `resolver` is an address that only the host reaches. ValueError and OSError as for `live_run`.
    #[new]
    #[pyo3(signature = (up, down, servers, files, *, way_out, resolver))]
    fn new(
        up: &str,
        down: &str,
        servers: Vec<OsString>,
        files: Vec<(String, String)>,
        way_out: bool,
        resolver: Option<IpAddr>,
    ) -> PyResult<PyShell> {
        let configs = [parse(up)?, parse(down)?];
        let resolver = match resolver {
            Some(IpAddr::V4(address)) => Some(address),
            _ => None,
        };
        shell::Shell::new(shell::ShellJob { configs, servers, files, way_out, resolver }).map(PyShell).map_err(live_error)
    }

    /// Runs a command until it is over: its exit status, what was measured on the way up and down, and servers that ended before, with their
    /// status. FileNotFoundError or PermissionError for a command that cannot be started, ChildProcessError for a server that ends at once.
    #[allow(clippy::type_complexity)]
    fn run(&self, py: Python<'_>, command: Vec<OsString>) -> PyResult<(i32, Result, Result, Vec<(usize, i32)>)> {
        let ended = py.detach(|| self.0.run(&command)).map_err(live_error)?;
        let [up, down] = ended.measured;
        Ok((ended.status, up.into(), down.into(), ended.servers))
    }

    /// Returns the state so far, JSON.
    fn view(&self) -> String {
        self.0.view().to_string()
    }

    /// Ends the command by a signal.
    fn end(&self, signal: i32) {
        self.0.end(signal);
    }
}

/// Addresses that programs behind the bottleneck see, by the name of their end.
pub fn shell_addresses() -> [(&'static str, String); 3] {
    [("far", namespaces::RIGHT), ("host", namespaces::HOST), ("resolver", namespaces::DNS)]
        .map(|(name, address)| (name, address.to_string()))
}
