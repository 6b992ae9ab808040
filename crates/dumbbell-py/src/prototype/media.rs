//! Congestion controls of video that are classes in Python.

use super::{table, Instance};
use dumbbell_core::app::AppContext;
use dumbbell_core::fork::{CannotFork, SharedCopies};
use dumbbell_core::media::control::MediaPacket;
use dumbbell_core::media::feedback::{PacketReport, PerPacketFeedback, SenderControl};
use dumbbell_core::units::{Duration, Instant, Rate};
use dumbbell_plugin::{abi, media, Declared, Make};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::Arc;

class! {
    /// A packet of a video: its number, when it was sent and when it arrived (ns, on two clocks; None for one that is lost), bytes of payload, and
    /// ECN field (0 to 3).
    #[pyclass(frozen, get_all, name = "MediaPacket")]
    PyMediaPacket from CMediaPacket
}

const OPTIONAL: [&str; 5] = ["start", "packet_sent", "may_send", "timer_at", "timer"];
/// Time between two reports of the receiver unless the class declares `interval`, ns.
const INTERVAL: u64 = 50_000_000;

/// Returns what makes the control of a video from `class`, a class called `name`.
///
/// # Errors
/// An interval between reports that cannot be.
pub(super) fn make(class: &Bound<'_, PyAny>, name: &str, params: Arc<[Declared]>) -> PyResult<Make> {
    let interval = class.getattr_opt("interval")?.map_or(Ok(INTERVAL), |found| {
        found.extract::<u64>().map_err(|_| PyValueError::new_err(format!("interval {found}; allowed: a whole number of ns")))
    })?;
    dumbbell_plugin::check_interval(interval).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let (class, name) = (Arc::<Py<PyAny>>::new(class.clone().unbind()), name.to_owned());
    Ok(Make::Media(Arc::new(move |values, context: &AppContext, fault| {
        let (seed, number) = (media::derive_seed(context), context.number);
        let arguments = |py: Python<'_>| Ok((table(py, &params, values)?, seed, number).into_pyobject(py)?.unbind());
        let instance = Instance::new(&class, &OPTIONAL, format!("media {name}"), fault, arguments);
        let mut control = PyMedia { instance, next: Instant::NEVER };
        control.ask_timer();
        Box::new(PerPacketFeedback::new(control, Duration(interval)))
    })))
}

struct PyMedia {
    instance: Instance,
    /// Result of timer_at() after the last call.
    next: Instant,
}

impl PyMedia {
    /// Asks when the timer is called next, after a call that may have changed it.
    fn ask_timer(&mut self) {
        if self.instance.has("timer_at") {
            let read = |answer: Bound<'_, PyAny>| answer.extract::<Option<u64>>();
            let at = self.instance.call("timer_at", |py| Ok(PyTuple::empty(py)), read);
            self.next = at.flatten().map_or(Instant::NEVER, Instant);
        }
    }

    fn ask_rate(&self, method: &str, buffered: u64) -> Rate {
        let read = |answer: Bound<'_, PyAny>| {
            let bits = answer
                .extract::<u64>()
                .map_err(|_| PyValueError::new_err(format!("{method}() returned {answer}; allowed: a whole number of bit/s")))?;
            media::read_rate(method, bits).map_err(PyValueError::new_err)
        };
        self.instance.call(method, |py| (buffered,).into_pyobject(py), read).unwrap_or(Rate(1_000))
    }
}

impl SenderControl for PyMedia {
    fn fork(&self, shared: &mut SharedCopies) -> Result<PyMedia, CannotFork> {
        Ok(PyMedia { instance: self.instance.fork(shared)?, next: self.next })
    }

    fn start(&mut self, now: Instant) {
        if self.instance.has("start") {
            self.instance.call("start", |py| (now.0,).into_pyobject(py), |_| Ok(()));
            self.ask_timer();
        }
    }

    fn encoder_rate(&self, buffered: u64) -> Rate {
        self.ask_rate("encoder_rate", buffered)
    }

    fn pacing_rate(&self, buffered: u64) -> Rate {
        self.ask_rate("pacing_rate", buffered)
    }

    fn may_send(&self, bytes: u32) -> bool {
        if !self.instance.has("may_send") {
            return true;
        }
        self.instance.call("may_send", |py| (bytes,).into_pyobject(py), |answer| answer.extract::<bool>()).unwrap_or(true)
    }

    fn next_timer(&self) -> Instant {
        self.next
    }

    fn on_timer(&mut self, now: Instant) {
        self.instance.call("timer", |py| (now.0,).into_pyobject(py), |_| Ok(()));
        self.ask_timer();
        if self.next <= now {
            self.instance.wrong(&PyValueError::new_err(media::describe_late_timer(self.next, now)));
            self.next = Instant::NEVER;
        }
    }

    fn on_send(&mut self, packet: &MediaPacket) {
        if self.instance.has("packet_sent") {
            let seen = PyMediaPacket::from(abi::CMediaPacket::read_sent(packet));
            self.instance.call("packet_sent", |py| (seen,).into_pyobject(py), |_| Ok(()));
            self.ask_timer();
        }
    }

    fn on_feedback(&mut self, packets: &[PacketReport], rtt: Duration, now: Instant) {
        self.instance.call(
            "feedback",
            |py| {
                let seen = packets.iter().map(|packet| Py::new(py, PyMediaPacket::from(abi::CMediaPacket::read_report(packet))));
                let seen = PyList::new(py, seen.collect::<PyResult<Vec<_>>>()?)?;
                (seen, rtt.0, now.0).into_pyobject(py)
            },
            |_| Ok(()),
        );
        self.ask_timer();
    }
}
