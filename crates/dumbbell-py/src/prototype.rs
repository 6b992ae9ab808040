//! Queue disciplines and congestion controls that are classes in Python: for prototypes, many times slower than others.

use dumbbell_core::aqm::{self, Aqm, Dequeue, FlowKey, QueueContext, STATES};
use dumbbell_core::cc::conn::{CaState, Congestion, Conn};
use dumbbell_core::cc::{self, AckEvent, CcContext, CongestionControl, Control, Echo, EcnUse, RateSample};
use dumbbell_core::log::{At, DropReason, Log, Mark, MarkReason, Place};
use dumbbell_core::packet::{Ecn, Packet};
use dumbbell_core::units::{Rate, Time};
use dumbbell_plugin::shelf::Shelf;
use dumbbell_plugin::{abi, Declared, Make, Plugin};
use dumbbell_sim::additions::Fault;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A packet in the queue: its number, when the queue took it in (ns), flow, bytes of the frame, ECN field (0 to 3), and whether it is
/// an acknowledgement on its way back.
#[pyclass(frozen, get_all, name = "Packet")]
struct PyPacket {
    id: u64,
    arrived: u64,
    flow: u32,
    length: u16,
    ecn: u8,
    is_ack: bool,
}

impl PyPacket {
    fn of(id: u64, packet: &Packet) -> PyPacket {
        PyPacket {
            id,
            arrived: packet.enqueue_time.0,
            flow: packet.flow,
            length: packet.len,
            ecn: packet.ecn as u8,
            is_ack: packet.is_back(),
        }
    }
}

/// What happened while Python was called, in order.
enum Told {
    Marked(Packet, Ecn, Mark, MarkReason, At),
    Dropped(Packet, DropReason, Place, At),
}

#[derive(Default)]
struct Later(Vec<Told>);

impl Log for Later {
    fn marked(&mut self, packet: &Packet, before: Ecn, mark: Mark, reason: MarkReason, at: At) {
        self.0.push(Told::Marked(*packet, before, mark, reason, at));
    }
    fn dropped(&mut self, packet: &Packet, reason: DropReason, place: Place, at: At) {
        self.0.push(Told::Dropped(*packet, reason, place, at));
    }
}

struct Kept {
    shelf: Shelf,
    now: Time,
    later: Later,
}

/// The simulator, as `dumbbell_host` of the C interface.
#[pyclass(frozen, name = "Host")]
struct PyHost {
    kept: Arc<Mutex<Kept>>,
}

impl PyHost {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self, choose: impl FnOnce(&Shelf) -> Option<u64>) -> Option<PyPacket> {
        let kept = self.kept();
        let id = choose(&kept.shelf)?;
        kept.shelf.packet(id).map(|packet| PyPacket::of(id, packet))
    }
}

#[pymethods]
impl PyHost {
    /// Sets CE; returns False if the packet cannot have it.
    fn mark(&self, id: u64) -> bool {
        let Kept { shelf, now, later } = &mut *self.kept();
        shelf.mark(id, *now, later)
    }

    /// Drops a packet: the one that arrives, or one in the queue.
    fn drop(&self, id: u64) {
        let Kept { shelf, now, later } = &mut *self.kept();
        shelf.drop(id, *now, later);
    }

    /// Puts the packet at the end of a list.
    fn push(&self, list: u32, id: u64) {
        self.kept().shelf.push(list, id);
    }

    /// First packet of a list, or None.
    fn first(&self, list: u32) -> Option<PyPacket> {
        self.shown(|shelf| shelf.first(list))
    }

    /// Last packet of a list, or None.
    fn last(&self, list: u32) -> Option<PyPacket> {
        self.shown(|shelf| shelf.last(list))
    }

    /// Packets in a list.
    fn packets(&self, list: u32) -> u64 {
        self.kept().shelf.in_list(list).0
    }

    /// Bytes in a list.
    fn bytes(&self, list: u32) -> u64 {
        self.kept().shelf.in_list(list).1
    }

    /// In dequeue(): nothing leaves before `time`.
    fn wait(&self, time: u64) {
        self.kept().shelf.wait(Time(time));
    }
}

/// An instance of the class; which optional methods it has.
struct Instance {
    object: Option<Py<PyAny>>,
    methods: Vec<String>,
    of: String,
    fault: Fault,
}

impl Instance {
    fn new(
        class: &Py<PyAny>,
        methods: &[&str],
        of: String,
        fault: Fault,
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

    fn wrong(&self, error: &PyErr) {
        let text = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        self.fault.report(|| format!("{}: {text}", self.of));
    }

    fn has(&self, method: &str) -> bool {
        self.methods.iter().any(|one| one == method)
    }

    /// What a method returns; `None` if it fails, which is reported.
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
    kept: Arc<Mutex<Kept>>,
}

impl PyQueue {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells `log` what Python did.
    fn tell(&self, log: &mut impl Log) {
        let told = std::mem::take(&mut self.kept().later.0);
        for one in told {
            match one {
                Told::Marked(packet, before, mark, reason, at) => log.marked(&packet, before, mark, reason, at),
                Told::Dropped(packet, reason, place, at) => log.dropped(&packet, reason, place, at),
            }
        }
    }
}

impl Aqm for PyQueue {
    fn flow_starts(&mut self, flow: u32, key: &FlowKey) {
        if self.instance.has("flow_starts") {
            let FlowKey { src_host, dst_host, ports, dscp } = *key;
            self.instance.call("flow_starts", |py| (flow, src_host, dst_host, ports, dscp).into_pyobject(py), |_| Ok(()));
        }
    }

    fn enqueue<L: Log>(&mut self, packet: Packet, now: Time, log: &mut L) {
        let seen = {
            let mut kept = self.kept();
            kept.now = now;
            let id = kept.shelf.arrive(packet, now);
            kept.shelf.packet(id).map(|one| PyPacket::of(id, one))
        };
        let host = &self.host;
        self.instance.call("enqueue", |py| (host.clone_ref(py), seen, now.0).into_pyobject(py), |_| Ok(()));
        self.tell(log);
        self.kept().shelf.settle(now, log);
    }

    fn dequeue<L: Log>(&mut self, now: Time, log: &mut L) -> Dequeue {
        self.kept().now = now;
        let host = &self.host;
        let id = self.instance.call(
            "dequeue",
            |py| (host.clone_ref(py), now.0).into_pyobject(py),
            |answer| answer.extract::<Option<u64>>(),
        );
        self.tell(log);
        self.kept().shelf.leave(id.flatten().unwrap_or(0), now, log)
    }

    fn packets(&self) -> usize {
        self.kept().shelf.held()
    }

    fn bytes(&self) -> u64 {
        self.kept().shelf.held_bytes()
    }

    fn next_timer(&self) -> Time {
        if !self.instance.has("timer_at") {
            return Time::NEVER;
        }
        let at = self.instance.call("timer_at", |py| Ok(PyTuple::empty(py)), |answer| answer.extract::<Option<u64>>());
        at.flatten().map_or(Time::NEVER, Time)
    }

    fn on_timer<L: Log>(&mut self, now: Time, log: &mut L) {
        self.kept().now = now;
        let host = &self.host;
        self.instance.call("timer", |py| (host.clone_ref(py), now.0).into_pyobject(py), |_| Ok(()));
        self.tell(log);
        let next = self.next_timer();
        self.kept().shelf.ticked(next, now);
    }

    fn set_rate(&mut self, rate: Rate, now: Time) {
        if self.instance.has("rate") {
            self.instance.call("rate", |py| (rate.bits(), now.0).into_pyobject(py), |_| Ok(()));
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

/// What a control reads of its connection, as `dumbbell_conn` of the C interface.
#[pyclass(frozen, get_all, name = "Conn")]
struct PyConn {
    now: u64,
    delivered: u64,
    delivered_ce: u64,
    sent: u64,
    acked: u64,
    min_rtt_us: u64,
    srtt_us: u32,
    mdev_us: u32,
    in_flight: u32,
    lost: u32,
    sacked: u32,
    retransmitted: u32,
    prior_cwnd: u32,
    cwnd_max: u32,
    mss: u32,
    state: u32,
    cwnd_limited: bool,
}

impl PyConn {
    fn of(conn: &Conn) -> PyConn {
        let abi::Conn { now, delivered, delivered_ce, sent, acked, min_rtt_us, srtt_us, mdev_us, .. } = abi::Conn::of(conn);
        let abi::Conn { in_flight, lost, sacked, retransmitted, prior_cwnd, cwnd_max, mss, state, .. } = abi::Conn::of(conn);
        let cwnd_limited = conn.cwnd_limited();
        PyConn {
            now,
            delivered,
            delivered_ce,
            sent,
            acked,
            min_rtt_us,
            srtt_us,
            mdev_us,
            in_flight,
            lost,
            sacked,
            retransmitted,
            prior_cwnd,
            cwnd_max,
            mss,
            state,
            cwnd_limited,
        }
    }
}

/// What it steers, as `dumbbell_steer`.
#[pyclass(get_all, set_all, name = "Steer")]
struct PySteer {
    cwnd: u32,
    ssthresh: u32,
    pacing_rate: u64,
}

impl PySteer {
    fn of(conn: &Conn) -> PySteer {
        PySteer { cwnd: conn.cwnd, ssthresh: conn.ssthresh, pacing_rate: conn.pacing_rate }
    }
}

/// What an ACK brought, as `dumbbell_sample`; None where there is nothing.
#[pyclass(frozen, get_all, name = "Sample")]
struct PySample {
    delivered: u32,
    lost: u32,
    marked: u32,
    ece: bool,
    rtt_us: Option<u32>,
    interval_us: Option<u64>,
    sample_delivered: u32,
    sample_lost: u32,
    sample_marked: u32,
    app_limited: bool,
    prior_in_flight: u32,
    tx_in_flight: u32,
    prior_delivered: u64,
}

/// What the class says of itself once.
#[derive(Clone, Copy)]
struct Traits {
    control: Control,
    rate_samples: bool,
    ecn: EcnUse,
}

struct PyControl {
    instance: Instance,
    traits: Traits,
}

impl PyControl {
    /// Lets a method steer; what it must not do is reported and put right.
    fn steer(
        &self,
        conn: &mut Conn,
        method: &str,
        arguments: impl for<'py> FnOnce(Python<'py>, PyConn, Py<PySteer>) -> PyResult<Bound<'py, PyTuple>>,
    ) {
        let (seen, before) = (PyConn::of(conn), PySteer::of(conn));
        let mut after = None;
        let heard = &mut after;
        self.instance.call(
            method,
            |py| {
                let steer = Py::new(py, before)?;
                *heard = Some(steer.clone_ref(py));
                arguments(py, seen, steer)
            },
            |_| Ok(()),
        );
        let Some(after) = after else { return };
        let (cwnd, ssthresh, pacing_rate) = Python::attach(|py| {
            let steer = after.bind(py).borrow();
            (steer.cwnd, steer.ssthresh, steer.pacing_rate)
        });
        if cwnd == 0 || ssthresh == 0 {
            self.instance.wrong(&PyValueError::new_err(format!("cwnd {cwnd}, ssthresh {ssthresh}; allowed: 1 or more")));
        }
        conn.cwnd = cwnd.clamp(1, conn.cwnd_clamp().max(1));
        conn.ssthresh = ssthresh.max(1);
        if self.traits.control != Control::Window {
            conn.pacing_rate = pacing_rate;
        }
    }

    fn window(&self, method: &str, segments: Option<u32>) -> u32 {
        if segments == Some(0) {
            self.instance.wrong(&PyValueError::new_err(format!("{method}() returned 0; allowed: 1 or more")));
        }
        segments.unwrap_or(2).max(1)
    }
}

impl CongestionControl for PyControl {
    fn control(&self) -> Control {
        self.traits.control
    }

    fn rate_samples(&self) -> bool {
        self.traits.rate_samples
    }

    fn ecn(&self) -> EcnUse {
        self.traits.ecn
    }

    fn init(&mut self, conn: &mut Conn) {
        if self.instance.has("init") {
            self.steer(conn, "init", |py, seen, steer| (seen, steer).into_pyobject(py));
        }
    }

    fn in_ack_event(&mut self, conn: &mut Conn, ack: &AckEvent) {
        if self.instance.has("in_ack_event") {
            let (ece, marked) = (ack.ece, ack.new_ce);
            self.steer(conn, "in_ack_event", move |py, seen, steer| (seen, steer, ece, marked).into_pyobject(py));
        }
    }

    fn ssthresh(&mut self, conn: &Conn, cause: Congestion) -> u32 {
        let by = match cause {
            Congestion::Ecn => "ecn",
            Congestion::Loss => "loss",
            Congestion::Timeout => "timeout",
        };
        let (seen, steer) = (PyConn::of(conn), PySteer::of(conn));
        let segments = self.instance.call("ssthresh", |py| (seen, steer, by).into_pyobject(py), |answer| answer.extract());
        self.window("ssthresh", segments)
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        self.steer(conn, "cong_avoid", move |py, seen, steer| (seen, steer, acked).into_pyobject(py));
    }

    fn cong_control(&mut self, conn: &mut Conn, sample: &RateSample) {
        let sample = PySample {
            delivered: sample.newly_delivered,
            lost: sample.newly_lost,
            marked: sample.newly_marked,
            ece: sample.ece,
            rtt_us: sample.rtt_us,
            interval_us: sample.interval_us.filter(|_| sample.delivered.is_some()),
            sample_delivered: sample.delivered.unwrap_or(0),
            sample_lost: sample.lost,
            sample_marked: sample.delivered_ce,
            app_limited: sample.is_app_limited,
            prior_in_flight: sample.prior_in_flight,
            tx_in_flight: sample.tx_in_flight,
            prior_delivered: sample.prior_delivered,
        };
        self.steer(conn, "cong_control", move |py, seen, steer| (seen, steer, sample).into_pyobject(py));
    }

    fn pkts_acked(&mut self, conn: &mut Conn, pkts: u32, rtt_us: Option<u32>) {
        if self.instance.has("pkts_acked") {
            self.steer(conn, "pkts_acked", move |py, seen, steer| (seen, steer, pkts, rtt_us).into_pyobject(py));
        }
    }

    fn set_state(&mut self, conn: &mut Conn, state: CaState) {
        if self.instance.has("set_state") {
            self.steer(conn, "set_state", move |py, seen, steer| (seen, steer, state.name()).into_pyobject(py));
        }
    }

    fn undo_cwnd(&mut self, conn: &mut Conn) -> u32 {
        if !self.instance.has("undo_cwnd") {
            return conn.cwnd.max(conn.prior_cwnd());
        }
        let (seen, steer) = (PyConn::of(conn), PySteer::of(conn));
        let segments = self.instance.call("undo_cwnd", |py| (seen, steer).into_pyobject(py), |answer| answer.extract());
        self.window("undo_cwnd", segments)
    }
}

const QUEUE: [&str; 5] = ["flow_starts", "rate", "timer_at", "timer", "state"];
const CONTROL: [&str; 5] = ["init", "in_ack_event", "pkts_acked", "set_state", "undo_cwnd"];

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

fn declared(name: &str, of: &Bound<'_, PyAny>) -> PyResult<Declared> {
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

/// The plugin that a class is.
pub fn plugin(class: &Bound<'_, PyAny>) -> PyResult<Plugin> {
    let is_queue = word(class, "kind", &[("", None), ("queue", Some(true)), ("control", Some(false))])?
        .ok_or_else(|| PyValueError::new_err("the class has no kind; allowed: queue, control"))?;
    let mut params = Vec::new();
    if let Some(of_class) = class.getattr_opt("params")? {
        let table = of_class.cast::<PyDict>().map_err(|_| PyValueError::new_err("params is no dict"))?;
        for (name, of) in table {
            params.push(declared(&name.extract::<String>()?, &of)?);
        }
    }
    let by = word(class, "by", &[("window", Control::Window), ("rate", Control::Rate), ("both", Control::Both)])?;
    let needed: &[&str] = match (is_queue, by) {
        (true, _) => &["enqueue", "dequeue"],
        (false, Control::Both) => &["ssthresh", "cong_control"],
        (false, _) => &["ssthresh", "cong_avoid"],
    };
    for method in needed {
        if !class.hasattr(*method)? {
            return Err(PyValueError::new_err(format!("the class has no method {method}()")));
        }
    }
    if is_queue && class.hasattr("timer")? != class.hasattr("timer_at")? {
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
    let make = if is_queue {
        Make::Queue(Arc::new(move |values, context: &QueueContext, fault| {
            let (rate, seed) = (context.rate.bits(), context.seed);
            let arguments = |py: Python<'_>| Ok((table(py, &names, values)?, rate, seed).into_pyobject(py)?.unbind());
            let kept = Kept { shelf: Shelf::new(&own, fault.clone()), now: Time::ZERO, later: Later::default() };
            let kept = Arc::new(Mutex::new(kept));
            let instance = Instance::new(&of, &QUEUE, format!("queue {own}"), fault, arguments);
            let host = Python::attach(|py| Py::new(py, PyHost { kept: Arc::clone(&kept) }));
            aqm::Foreign::new(PyQueue { instance, host: host.expect("memory for an object"), kept })
        }))
    } else {
        Make::Control(Arc::new(move |values, context: &CcContext, fault| {
            let (seed, flow) = (context.seed, context.flow);
            let arguments = |py: Python<'_>| Ok((table(py, &names, values)?, seed, flow).into_pyobject(py)?.unbind());
            let instance = Instance::new(&of, &CONTROL, format!("control {own}"), fault, arguments);
            cc::Foreign(Box::new(PyControl { instance, traits }))
        }))
    };
    Plugin::new(name, text(class, "title")?, text(class, "source")?, params, make)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}
