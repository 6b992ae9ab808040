//! Simulations that go on step by step, and agents of their flows.

use crate::{config_error, load_all, parse, run_error, Result};
use dumbbell_core::units::{Duration, Instant};
use dumbbell_sim::agents::{AgentError, Agents, Every, ACTIONS, COLUMNS};
use dumbbell_sim::events::EventRecorder;
use dumbbell_sim::{CannotFork, SharedCopies, Sim};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The TypeError for what cannot be copied.
fn fork_error(refused: CannotFork) -> PyErr {
    PyTypeError::new_err(refused.to_string())
}

fn agent_error(error: AgentError) -> PyErr {
    match error {
        AgentError::Input(error) => config_error(error),
        AgentError::Fork(refused) => fork_error(refused),
        failed @ AgentError::Run(..) => PyRuntimeError::new_err(failed.to_string()),
    }
}

/// A simulation of one canonical configuration, which goes on step by step. Times are ns.
///
/// Raises ValueError (with `key`, `found` and `allowed`) on a bad configuration, RuntimeError if a plugin cannot be loaded.
#[pyclass(frozen, name = "Simulation")]
pub struct PySimulation {
    sim: Mutex<Option<Sim>>,
    events: Option<EventRecorder>,
}

impl PySimulation {
    fn new(sim: Sim, events: Option<EventRecorder>) -> PySimulation {
        PySimulation { sim: Mutex::new(Some(sim)), events }
    }

    /// Lets everything happen until `until`; Ctrl-C ends that.
    fn step_until(&self, py: Python<'_>, until: u64) -> PyResult<bool> {
        while !self.call_sim(py, |sim| sim.step_in_part(Instant(until)).map_err(run_error))? {
            py.check_signals()?;
        }
        self.call_sim(py, |sim| Ok(sim.is_over()))
    }

    /// Does something with the simulation, unless it was finished.
    fn call_sim<T: Send>(&self, py: Python<'_>, act: impl FnOnce(&mut Sim) -> PyResult<T> + Send) -> PyResult<T> {
        py.detach(|| match &mut *lock(&self.sim) {
            Some(sim) => act(sim),
            None => Err(PyValueError::new_err("the simulation is finished")),
        })
    }
}

/// Returns a column for each key of the rows.
fn columns(rows: Vec<Map<String, Value>>) -> Value {
    let mut columns = Map::new();
    for row in rows {
        for (key, value) in row {
            if let Value::Array(column) = columns.entry(key).or_insert_with(|| json!([])) {
                column.push(value);
            }
        }
    }
    columns.into()
}

/// Returns the state of a simulation as columns by part.
fn describe_view(sim: &Sim) -> Value {
    let view = sim.view();
    let row = |value: Value| value.as_object().cloned().unwrap_or_default();
    let mbit = |bytes: Option<u64>| bytes.map(|rate| rate as f64 * 8e-6);
    let flows = view.endpoints.iter().map(|one| {
        let sender = &one.sender;
        row(json!({"flow": one.number, "payload_bytes": one.payload, "cwnd": sender.cwnd, "ssthresh": sender.ssthresh,
            "in_flight": sender.in_flight, "srtt_ms": f64::from(sender.srtt_us) / 1e3, "retransmissions": sender.retransmissions}))
    });
    let mut names: Vec<&'static str> = Vec::new();
    let hops = sim.view_hops();
    for (name, _) in hops.iter().flat_map(|hop| &hop.states) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let queues = hops.iter().map(|hop| {
        let counted = &hop.counters;
        let mut of_hop = row(json!({"hop": hop.name, "backlog_packets": hop.packets, "backlog_bytes": hop.bytes,
            "packets": counted.packets, "bytes": counted.bytes, "ce_marks": counted.ce_marks, "sce_marks": counted.sce_marks,
            "drops_overflow": counted.drops_overflow, "drops_aqm": counted.drops_aqm}));
        for name in &names {
            let value = hop.states.iter().find(|(state, _)| state == name).map(|(_, value)| *value);
            of_hop.insert((*name).to_owned(), json!(value));
        }
        of_hop
    });
    let controls = sim.view_controls().into_iter().map(|one| {
        let model = one.model;
        row(json!({"flow": one.number, "ca_state": one.ca_state.name(), "pacing_rate_mbit": mbit(one.pacing_rate),
            "state": model.map_or("", |model| model.state), "bw_mbit": mbit(model.map(|model| model.bw)),
            "max_bw_mbit": mbit(model.map(|model| model.max_bw)), "round": model.map(|model| model.round),
            "pacing_gain": model.map(|model| model.pacing_gain), "cwnd_gain": model.map(|model| model.cwnd_gain),
            "model_min_rtt_ms": model.and_then(|model| model.min_rtt_us).map(|us| f64::from(us) / 1e3)}))
    });
    json!({"time": sim.now().0, "events": view.events, "flows": columns(flows.collect()), "queues": columns(queues.collect()),
        "controls": columns(controls.collect())})
}

/// An event: time (ns), hop, event, kind, reason, flow, number, length, whether it is an acknowledgement.
type Event = (u64, String, &'static str, &'static str, &'static str, u32, u64, u16, bool);

#[pymethods]
impl PySimulation {
    #[new]
    #[pyo3(signature = (config, *, plugins=BTreeMap::new(), events=false))]
    fn create(config: &str, plugins: BTreeMap<String, Bound<'_, PyAny>>, events: bool) -> PyResult<PySimulation> {
        let (config, extensions) = (parse(config)?, load_all(&plugins)?);
        let recorder = events.then(EventRecorder::default);
        let mut builder = Sim::builder(&config).extensions(extensions).changeable();
        if let Some(recorder) = recorder.clone() {
            builder = builder.listener(move |hop| recorder.listener(hop));
        }
        Ok(PySimulation::new(builder.build().map_err(config_error)?, recorder))
    }

    /// Lets everything happen until `until`; returns whether the run is over. Raises RuntimeError if an invariant fails or a plugin does what it must not.
    fn step(&self, py: Python<'_>, until: u64) -> PyResult<bool> {
        self.step_until(py, until)
    }

    /// How far it has come.
    #[getter]
    fn get_time(&self, py: Python<'_>) -> PyResult<u64> {
        self.call_sim(py, |sim| Ok(sim.now().0))
    }

    /// Whether the run is over.
    #[getter]
    fn get_over(&self, py: Python<'_>) -> PyResult<bool> {
        self.call_sim(py, |sim| Ok(sim.is_over()))
    }

    /// JSON: the present state, as columns.
    fn view(&self, py: Python<'_>) -> PyResult<String> {
        self.call_sim(py, |sim| Ok(describe_view(sim).to_string()))
    }

    /// Sets what a key stands for to a value, canonical JSON. Raises ValueError (with `key`, `found` and `allowed`) if that cannot be.
    fn set(&self, py: Python<'_>, key: &str, value: &str) -> PyResult<()> {
        let value = parse(value)?;
        self.call_sim(py, |sim| sim.set(key, &value).map_err(config_error))
    }

    /// Each hop with its queue discipline, by name.
    fn queues(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        self.call_sim(py, |sim| {
            let config = sim.config();
            let others = config.hops.iter().map(|hop| (hop.name.clone(), hop.aqm.name().to_owned()));
            Ok(std::iter::once((config.hop_name(0).to_owned(), config.aqm.name().to_owned())).chain(others).collect())
        })
    }

    /// A copy, which goes on to the same bits, with the events that were not taken yet. Raises TypeError if a part cannot be copied.
    fn fork(&self, py: Python<'_>) -> PyResult<PySimulation> {
        let mut shared = SharedCopies::default();
        let sim = self.call_sim(py, |sim| sim.fork_with(&mut shared).map_err(fork_error))?;
        Ok(PySimulation::new(sim, self.events.as_ref().map(|recorder| recorder.fork(&mut shared))))
    }

    /// Events of packets since the last call, if it keeps them.
    fn take_events(&self) -> Vec<Event> {
        let Some(recorder) = &self.events else { return Vec::new() };
        let hops = recorder.hops();
        let of_event = |one: dumbbell_sim::events::PacketEvent| {
            let hop = hops[usize::from(one.hop)].clone();
            (one.time.0, hop, one.event, one.kind, one.reason, one.flow, one.number, one.length, one.is_ack)
        };
        recorder.take().into_iter().map(of_event).collect()
    }

    /// Goes on to the end; returns what was measured. The simulation is finished then.
    fn finish(&self, py: Python<'_>) -> PyResult<Result> {
        self.step_until(py, u64::MAX)?;
        py.detach(|| match lock(&self.sim).take() {
            Some(sim) => sim.finish().map(Result::from).map_err(run_error),
            None => Err(PyValueError::new_err("the simulation is finished")),
        })
    }
}

/// The agents of the flows with the control `external` in copies of simulations. `every` is "ack", a time (ns), or a multiple of an RTT.
///
/// Raises ValueError (with `key`, `found` and `allowed`) on bad input, TypeError if a simulation cannot be copied.
#[pyclass(frozen, name = "Agents")]
pub struct PyAgents(Mutex<Agents>);

/// Copies of simulations.
fn copy_all(py: Python<'_>, simulations: &[Py<PySimulation>]) -> PyResult<Vec<Sim>> {
    simulations.iter().map(|one| one.get().call_sim(py, |sim| sim.fork().map_err(fork_error))).collect()
}

/// Reads how often agents act.
fn read_every(time: Option<u64>, rtts: Option<f64>) -> Every {
    match (time, rtts) {
        (Some(time), _) => Every::Time(Duration(time)),
        (None, Some(count)) => Every::Rtts(count),
        (None, None) => Every::Ack,
    }
}

#[pymethods]
impl PyAgents {
    #[new]
    #[pyo3(signature = (simulations, *, time=None, rtts=None, threads=1))]
    #[allow(clippy::needless_pass_by_value)] // made from Python's list
    fn create(
        py: Python<'_>,
        simulations: Vec<Py<PySimulation>>,
        time: Option<u64>,
        rtts: Option<f64>,
        threads: usize,
    ) -> PyResult<PyAgents> {
        let sims = copy_all(py, &simulations)?;
        Agents::new(sims, read_every(time, rtts), threads).map(|agents| PyAgents(Mutex::new(agents))).map_err(config_error)
    }

    /// Run and flow of each row.
    #[getter]
    fn get_rows(&self) -> Vec<(usize, usize)> {
        lock(&self.0).rows()
    }

    /// Whether each run is over.
    #[getter]
    fn get_over(&self) -> Vec<bool> {
        lock(&self.0).are_over()
    }

    /// How far each run has come, ns.
    #[getter]
    fn get_times(&self) -> Vec<u64> {
        lock(&self.0).times().iter().map(|time| time.0).collect()
    }

    /// Carries out actions, and fills the rows of the agents that are due then; `due` gets 1 or 0 for each. All are contiguous buffers.
    #[allow(clippy::needless_pass_by_value)] // made from Python's buffers
    fn step(&self, py: Python<'_>, actions: PyBuffer<f64>, rows: PyBuffer<f64>, due: PyBuffer<u8>) -> PyResult<()> {
        let (asked, mut found) = (actions.to_vec(py)?, rows.to_vec(py)?);
        let told = py.detach(|| {
            let mut agents = lock(&self.0);
            agents.step(&asked, &mut found).map(|()| agents.due().to_vec())
        });
        rows.copy_from_slice(py, &found)?;
        due.copy_from_slice(py, &told.map_err(agent_error)?)
    }

    /// Replaces a run by a copy of a simulation.
    fn replace(&self, py: Python<'_>, number: usize, simulation: &PySimulation) -> PyResult<()> {
        let sim = simulation.call_sim(py, |sim| sim.fork().map_err(fork_error))?;
        lock(&self.0).replace(number, sim).map_err(config_error)
    }

    /// A copy of a run.
    fn fork(&self, number: usize) -> PyResult<PySimulation> {
        lock(&self.0).fork_run(number).map(|sim| PySimulation::new(sim, None)).map_err(agent_error)
    }
}

/// Columns of the rows that agents get and of their actions, as JSON: `{"observations": [{"name", "unit", "doc"}], "actions": [name]}`.
#[pyfunction]
pub fn agent_columns() -> String {
    let observations: Vec<Value> =
        COLUMNS.iter().map(|column| json!({"name": column.name, "unit": column.unit, "doc": column.doc})).collect();
    json!({"observations": observations, "actions": ACTIONS}).to_string()
}
