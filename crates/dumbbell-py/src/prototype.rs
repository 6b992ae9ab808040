//! Queue disciplines, congestion controls and those of video that are classes in Python: for prototypes, many times slower than others.

use dumbbell_core::aqm::{self, Aqm, Dequeue, QueueContext, STATES};
use dumbbell_core::cc::{self, CcContext, Control, Echo, EcnUse};
use dumbbell_core::fork::{CannotFork, SharedCopies};
use dumbbell_core::log::{At, DropReason, DropSite, Log, Mark, MarkReason};
use dumbbell_core::packet::{Ecn, FlowKey, Packet};
use dumbbell_core::units::{Instant, Rate};
use dumbbell_plugin::packet_table::PacketTable;
use dumbbell_plugin::{abi, Declared, Make, Plugin};
use dumbbell_sim::extensions::PluginFault;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[macro_use]
mod classes;
mod control;
mod media;

use control::{PyControl, Traits};

class! {
    /// A packet in the queue: its number, when the queue took it in (ns), flow, bytes of the frame, ECN field (0 to 3), and whether it is
    /// an acknowledgement on its way back.
    #[pyclass(frozen, get_all, name = "Packet")]
    PyPacket from CPacket
}

impl PyPacket {
    fn from_packet(id: u64, packet: &Packet) -> PyPacket {
        abi::CPacket::read_packet(id, packet).into()
    }
}

/// A call to the log while Python was called.
enum LogCall {
    Marked(Packet, Ecn, Mark, MarkReason, At),
    Dropped(Packet, DropReason, DropSite, At),
}

#[derive(Default)]
struct DeferredLogCalls(Vec<LogCall>);

impl Log for DeferredLogCalls {
    fn on_mark(&mut self, packet: &Packet, before: Ecn, mark: Mark, reason: MarkReason, at: At) {
        self.0.push(LogCall::Marked(*packet, before, mark, reason, at));
    }
    fn on_drop(&mut self, packet: &Packet, reason: DropReason, place: DropSite, at: At) {
        self.0.push(LogCall::Dropped(*packet, reason, place, at));
    }
}

struct CallState {
    table: PacketTable,
    now: Instant,
    later: DeferredLogCalls,
}

/// The simulator, as `dumbbell_host` of the C interface.
#[pyclass(frozen, name = "Host")]
struct PyHost {
    kept: Arc<Mutex<CallState>>,
}

impl PyHost {
    fn lock(&self) -> MutexGuard<'_, CallState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show_packet(&self, choose: impl FnOnce(&PacketTable) -> Option<u64>) -> Option<PyPacket> {
        let kept = self.lock();
        let id = choose(&kept.table)?;
        kept.table.packet(id).map(|packet| PyPacket::from_packet(id, packet))
    }
}

#[pymethods]
impl PyHost {
    /// Sets CE; returns False if the packet cannot have it.
    fn mark(&self, id: u64) -> bool {
        let CallState { table, now, later } = &mut *self.lock();
        table.mark(id, *now, later)
    }

    /// Drops a packet: the one that arrives, or one in the queue.
    fn drop(&self, id: u64) {
        let CallState { table, now, later } = &mut *self.lock();
        table.drop(id, *now, later);
    }

    /// Puts the packet at the end of a list.
    fn push(&self, list: u32, id: u64) {
        self.lock().table.push(list, id);
    }

    /// First packet of a list, or None.
    fn first(&self, list: u32) -> Option<PyPacket> {
        self.show_packet(|table| table.first(list))
    }

    /// Last packet of a list, or None.
    fn last(&self, list: u32) -> Option<PyPacket> {
        self.show_packet(|table| table.last(list))
    }

    /// Packets in a list.
    fn packets(&self, list: u32) -> u64 {
        self.lock().table.in_list(list).0
    }

    /// Bytes in a list.
    fn bytes(&self, list: u32) -> u64 {
        self.lock().table.in_list(list).1
    }

    /// In dequeue(): nothing leaves before `time`.
    fn wait(&self, time: u64) {
        self.lock().table.wait(Instant(time));
    }
}

/// An instance of the class; which optional methods it has.
struct Instance {
    object: Option<Py<PyAny>>,
    methods: Vec<String>,
    of: String,
    fault: PluginFault,
}

impl Instance {
    fn new(
        class: &Py<PyAny>,
        methods: &[&str],
        of: String,
        fault: PluginFault,
        arguments: impl FnOnce(Python<'_>) -> PyResult<Py<PyTuple>>,
    ) -> Instance {
        let made = Python::attach(|py| {
            let object = class.bind(py).call1(arguments(py)?.bind(py))?;
            let has = |name: &&&str| object.hasattr(**name).unwrap_or(false);
            let there = methods.iter().filter(has).map(|name| (*name).to_owned()).collect();
            Ok::<_, PyErr>((object.unbind(), there))
        });
        match made {
            Ok((object, there)) => Instance { object: Some(object), methods: there, of, fault },
            Err(error) => {
                let instance = Instance { object: None, methods: Vec::new(), of, fault };
                instance.wrong(&error);
                instance
            }
        }
    }

    /// Returns the copy that Python's copy.deepcopy makes of the instance.
    fn fork(&self, shared: &mut SharedCopies) -> Result<Instance, CannotFork> {
        let copy = |object: &Py<PyAny>| {
            Python::attach(|py| Ok(py.import("copy")?.call_method1("deepcopy", (object.bind(py),))?.unbind()))
                .map_err(|error: PyErr| CannotFork::because(format!("copy.deepcopy: {error}")))
        };
        let object = self.object.as_ref().map(copy).transpose()?;
        Ok(Instance { object, methods: self.methods.clone(), of: self.of.clone(), fault: self.fault.fork(shared) })
    }

    fn wrong(&self, error: &PyErr) {
        let text = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        let line = line_of(error).map_or(String::new(), |line| format!(" (line {line})"));
        self.fault.report(|| format!("{}: {text}{line}", self.of));
    }

    fn has(&self, method: &str) -> bool {
        self.methods.iter().any(|one| one == method)
    }

    /// Calls a method and returns its result; `None` if it fails, which is reported.
    fn call<T>(
        &self,
        method: &str,
        arguments: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyTuple>>,
        read: impl for<'py> FnOnce(Bound<'py, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let object = self.object.as_ref()?;
        let answer = Python::attach(|py| read(object.bind(py).call_method1(method, arguments(py)?)?));
        answer.inspect_err(|error| self.wrong(error)).ok()
    }
}

/// Returns the line of the class's program in which an exception was raised, or which called what raised it in another file.
fn line_of(error: &PyErr) -> Option<u32> {
    let file = |place: &Bound<'_, PyAny>| -> PyResult<String> {
        place.getattr("tb_frame")?.getattr("f_code")?.getattr("co_filename")?.extract()
    };
    Python::attach(|py| {
        let mut place = error.traceback(py)?.into_any();
        let program = file(&place).ok()?;
        let mut line = place.getattr("tb_lineno").ok()?.extract().ok();
        while let Some(next) = place.getattr("tb_next").ok().filter(|next| !next.is_none()) {
            place = next;
            if file(&place).is_ok_and(|file| file == program) {
                line = place.getattr("tb_lineno").ok()?.extract().ok();
            }
        }
        line
    })
}

fn table<'py>(py: Python<'py>, params: &[Declared], values: &[f64]) -> PyResult<Bound<'py, PyDict>> {
    let table = PyDict::new(py);
    for (param, &value) in params.iter().zip(values) {
        match param.json(value) {
            Value::Bool(on) => table.set_item(&param.name, on)?,
            Value::Number(number) if number.is_u64() => table.set_item(&param.name, number.as_u64())?,
            _ => table.set_item(&param.name, value)?,
        }
    }
    Ok(table)
}

struct PyQueue {
    instance: Instance,
    host: Py<PyHost>,
    kept: Arc<Mutex<CallState>>,
    /// Result of timer_at() after the last call: the engine reads it several times per packet.
    next: Instant,
}

impl PyQueue {
    fn new(instance: Instance, host: Py<PyHost>, kept: Arc<Mutex<CallState>>) -> PyQueue {
        let mut queue = PyQueue { instance, host, kept, next: Instant::NEVER };
        queue.ask();
        queue
    }

    /// Asks when the timer is called next, after a call that may have changed it.
    fn ask(&mut self) {
        if self.instance.has("timer_at") {
            let read = |answer: Bound<'_, PyAny>| answer.extract::<Option<u64>>();
            let at = self.instance.call("timer_at", |py| Ok(PyTuple::empty(py)), read);
            self.next = at.flatten().map_or(Instant::NEVER, Instant);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells `log` what Python did.
    fn report_calls(&self, log: &mut impl Log) {
        let told = std::mem::take(&mut self.lock().later.0);
        for one in told {
            match one {
                LogCall::Marked(packet, before, mark, reason, at) => log.on_mark(&packet, before, mark, reason, at),
                LogCall::Dropped(packet, reason, place, at) => log.on_drop(&packet, reason, place, at),
            }
        }
    }
}

impl Aqm for PyQueue {
    fn fork(&self, shared: &mut SharedCopies) -> Result<PyQueue, CannotFork> {
        let instance = self.instance.fork(shared)?;
        let CallState { table, now, .. } = &*self.lock();
        let kept = CallState { table: table.fork(shared), now: *now, later: DeferredLogCalls::default() };
        let kept = Arc::new(Mutex::new(kept));
        let host = Python::attach(|py| Py::new(py, PyHost { kept: Arc::clone(&kept) }));
        let host = host.map_err(|error| CannotFork::because(error.to_string()))?;
        Ok(PyQueue { instance, host, kept, next: self.next })
    }

    fn flow_starts(&mut self, flow: u32, key: &FlowKey) {
        if self.instance.has("flow_starts") {
            let FlowKey { src_host, dst_host, ports, dscp } = *key;
            self.instance.call("flow_starts", |py| (flow, src_host, dst_host, ports, dscp).into_pyobject(py), |_| Ok(()));
            self.ask();
        }
    }

    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        let seen = {
            let mut kept = self.lock();
            kept.now = now;
            let id = kept.table.arrive(packet, now);
            kept.table.packet(id).map(|one| PyPacket::from_packet(id, one))
        };
        let host = &self.host;
        self.instance.call("enqueue", |py| (host.clone_ref(py), seen, now.0).into_pyobject(py), |_| Ok(()));
        self.ask();
        self.report_calls(log);
        self.lock().table.settle(now, log);
    }

    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        self.lock().now = now;
        let host = &self.host;
        let id = self.instance.call(
            "dequeue",
            |py| (host.clone_ref(py), now.0).into_pyobject(py),
            |answer| answer.extract::<Option<u64>>(),
        );
        self.ask();
        self.report_calls(log);
        self.lock().table.leave(id.flatten().unwrap_or(0), now, log)
    }

    fn packets(&self) -> usize {
        self.lock().table.count_queued()
    }

    fn bytes(&self) -> u64 {
        self.lock().table.held_bytes()
    }

    fn next_timer(&self) -> Instant {
        self.next
    }

    fn on_timer<L: Log>(&mut self, now: Instant, log: &mut L) {
        self.lock().now = now;
        let host = &self.host;
        self.instance.call("timer", |py| (host.clone_ref(py), now.0).into_pyobject(py), |_| Ok(()));
        self.ask();
        self.report_calls(log);
        self.lock().table.check_timer(self.next, now);
    }

    fn set_rate(&mut self, rate: Rate, now: Instant) {
        if self.instance.has("rate") {
            self.instance.call("rate", |py| (rate.bits(), now.0).into_pyobject(py), |_| Ok(()));
            self.ask();
        }
    }

    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        if self.instance.has("state") {
            let read = |answer: Bound<'_, PyAny>| answer.extract::<BTreeMap<String, f64>>();
            let values = self.instance.call("state", |py| Ok(PyTuple::empty(py)), read).unwrap_or_default();
            for (name, _, _) in STATES {
                values.get(name).into_iter().for_each(|value| tell(name, *value));
            }
        }
    }
}

const QUEUE: [&str; 5] = ["flow_starts", "rate", "timer_at", "timer", "state"];
const CONTROL: [&str; 6] = ["init", "in_ack_event", "pkts_acked", "set_state", "undo_cwnd", "model"];

/// One of some words that an attribute may be; the first if it is not there.
fn word<T: Copy>(class: &Bound<'_, PyAny>, name: &str, words: &[(&str, T)]) -> PyResult<T> {
    let found: String = match class.getattr_opt(name)? {
        Some(value) => value.extract()?,
        None => return Ok(words[0].1),
    };
    words.iter().find(|(word, _)| *word == found).map(|one| one.1).ok_or_else(|| {
        let allowed: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        PyValueError::new_err(format!("{name} is {found:?}; allowed: {}", allowed.join(", ")))
    })
}

fn text(class: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    class.getattr(name)?.extract().map_err(|_| PyValueError::new_err(format!("{name} is no text")))
}

fn flag(class: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    class.getattr_opt(name)?.map_or(Ok(false), |value| value.extract())
}

fn read_declaration(name: &str, of: &Bound<'_, PyAny>) -> PyResult<Declared> {
    let kinds = [
        ("float", abi::FLOAT),
        ("int", abi::INT),
        ("bool", abi::BOOL),
        ("time", abi::TIME),
        ("rate", abi::RATE),
        ("size", abi::SIZE),
    ];
    let of = of.cast::<PyDict>().map_err(|_| PyValueError::new_err(format!("parameter {name} is no dict")))?;
    let known = ["kind", "default", "min", "max", "unit", "doc"];
    for key in of.keys() {
        let key: String = key.extract()?;
        if !known.contains(&key.as_str()) {
            return Err(PyValueError::new_err(format!("parameter {name}: key {key:?}; allowed: {}", known.join(", "))));
        }
    }
    let needed = |key: &str| of.get_item(key)?.ok_or_else(|| PyValueError::new_err(format!("parameter {name} has no {key:?}")));
    let kind_name: String = needed("kind")?.extract()?;
    let kind = kinds.iter().find(|(word, _)| *word == kind_name).ok_or_else(|| {
        PyValueError::new_err(format!("parameter {name}: kind {kind_name:?}; allowed: float, int, bool, time, rate, size"))
    })?;
    let number = |key: &str| needed(key)?.extract::<f64>();
    let range = if kind.1 == abi::BOOL { [0.0, 1.0] } else { [number("min")?, number("max")?] };
    let told = |key: &str| of.get_item(key)?.map_or(Ok(String::new()), |value| value.extract());
    let numbers = [number("default")?, range[0], range[1]];
    Declared::new(name.to_owned(), kind.1, numbers, told("unit")?, told("doc")?)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Kind of a class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Queue,
    Control,
    Media,
}

/// The plugin that a class is.
pub fn plugin(class: &Bound<'_, PyAny>) -> PyResult<Plugin> {
    let kinds = [("", None), ("queue", Some(Kind::Queue)), ("control", Some(Kind::Control)), ("media", Some(Kind::Media))];
    let kind = word(class, "kind", &kinds)?
        .ok_or_else(|| PyValueError::new_err("the class has no kind; allowed: queue, control, media"))?;
    let is_queue = kind == Kind::Queue;
    let mut params = Vec::new();
    if let Some(of_class) = class.getattr_opt("params")? {
        let table = of_class.cast::<PyDict>().map_err(|_| PyValueError::new_err("params is no dict"))?;
        for (name, of) in table {
            params.push(read_declaration(&name.extract::<String>()?, &of)?);
        }
    }
    let by = word(class, "by", &[("window", Control::Window), ("rate", Control::Rate), ("both", Control::Both)])?;
    let needed: &[&str] = match (kind, by) {
        (Kind::Queue, _) => &["enqueue", "dequeue"],
        (Kind::Control, Control::Both) => &["ssthresh", "cong_control"],
        (Kind::Control, _) => &["ssthresh", "cong_avoid"],
        (Kind::Media, _) => &["encoder_rate", "pacing_rate", "feedback"],
    };
    for method in needed {
        if !class.hasattr(*method)? {
            return Err(PyValueError::new_err(format!("the class has no method {method}()")));
        }
    }
    if kind != Kind::Control && class.hasattr("timer")? != class.hasattr("timer_at")? {
        return Err(PyValueError::new_err("the class has one of timer() and timer_at(); allowed: both or none"));
    }
    let codepoints = [("ect0", Ecn::Ect0), ("ect1", Ecn::Ect1), ("not-ect", Ecn::NotEct)];
    let echoes = [("until-cwr", Echo::UntilCwr), ("accurate", Echo::Accurate), ("per-packet", Echo::PerPacket)];
    let traits = Traits {
        control: by,
        rate_samples: flag(class, "rate_samples")?,
        ecn: EcnUse {
            required: flag(class, "ecn_required")?,
            codepoint: word(class, "codepoint", &codepoints)?,
            echo: word(class, "echo", &echoes)?,
            ..EcnUse::default()
        },
    };
    let name = text(class, "name")?;
    let of = Arc::<Py<PyAny>>::new(class.clone().unbind());
    let (names, own) = (Arc::<[Declared]>::from(params.clone()), name.clone());
    let make = if kind == Kind::Media {
        media::make(class, &own, names)?
    } else if is_queue {
        Make::Queue(Arc::new(move |values, context: &QueueContext, fault| {
            let (rate, seed) = (context.rate.bits(), context.seed);
            let arguments = |py: Python<'_>| Ok((table(py, &names, values)?, rate, seed).into_pyobject(py)?.unbind());
            let kept = CallState {
                table: PacketTable::new(&own, fault.clone()),
                now: Instant::ZERO,
                later: DeferredLogCalls::default(),
            };
            let kept = Arc::new(Mutex::new(kept));
            let instance = Instance::new(&of, &QUEUE, format!("queue {own}"), fault, arguments);
            let host = Python::attach(|py| Py::new(py, PyHost { kept: Arc::clone(&kept) }));
            aqm::DynAqm::new(PyQueue::new(instance, host.expect("memory for an object"), kept))
        }))
    } else {
        Make::Control(Arc::new(move |values, context: &CcContext, fault| {
            let (seed, flow) = (context.seed, context.flow);
            let arguments = |py: Python<'_>| Ok((table(py, &names, values)?, seed, flow).into_pyobject(py)?.unbind());
            let instance = Instance::new(&of, &CONTROL, format!("control {own}"), fault, arguments);
            cc::DynCc(Box::new(PyControl { instance, traits }))
        }))
    };
    let mut plugin = Plugin::new(name, text(class, "title")?, text(class, "source")?, params, make)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    if kind == Kind::Control && by != Control::Both {
        let hooks = [("cong_control()", class.hasattr("cong_control")?), ("rate_samples", traits.rate_samples)];
        plugin.note_without_effect(hooks, "by = \"both\"");
    }
    Ok(plugin)
}
