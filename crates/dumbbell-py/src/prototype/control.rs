//! Congestion controls that are classes in Python.

use super::Instance;
use dumbbell_core::cc::conn::{CaState, Congestion, Conn};
use dumbbell_core::cc::{AckEvent, CongestionControl, Control, EcnUse, Model, RateSample};
use dumbbell_core::fork::{CannotFork, SharedCopies};
use dumbbell_plugin::abi;
use dumbbell_plugin::steering::{self, is_window, state_name, WINDOWS};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

class! {
    /// State of a connection that a control reads, as `dumbbell_conn` of the C interface.
    #[pyclass(frozen, get_all, name = "Conn")]
    PyConn from CConn
}

class! {
    /// Values that a control sets, as `dumbbell_steer`.
    #[pyclass(get_all, name = "Steer")]
    PySteer from CSteer
}

class! {
    /// Sample of an ACK, as `dumbbell_sample`; None for missing values.
    #[pyclass(frozen, get_all, name = "Sample")]
    PySample from CSample
}

impl PyConn {
    fn from_conn(conn: &Conn) -> PyConn {
        abi::CConn::read_conn(conn).into()
    }
}

impl PySteer {
    fn from_conn(conn: &Conn) -> PySteer {
        abi::CSteer::read_steer(conn).into()
    }
}

/// A whole number that a class sets or returns; says what it is of if it does not fit.
fn extract_whole<'py, T: FromPyObjectOwned<'py>>(name: &str, value: &Bound<'py, PyAny>, allowed: &str) -> PyResult<T> {
    let shown = || value.repr().map_or_else(|_| "no number".to_owned(), |text| text.to_string());
    value.extract().map_err(|_| PyValueError::new_err(format!("{name} {}; {allowed}", shown())))
}

const RATES: &str = "allowed: a whole number of bytes per second, 1 or more";

#[pymethods]
impl PySteer {
    #[setter]
    fn set_cwnd(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.cwnd = extract_whole("cwnd", value, WINDOWS)?;
        Ok(())
    }

    #[setter]
    fn set_ssthresh(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.ssthresh = extract_whole("ssthresh", value, WINDOWS)?;
        Ok(())
    }

    #[setter]
    fn set_pacing_rate(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.pacing_rate = extract_whole("pacing_rate", value, RATES)?;
        Ok(())
    }
}

/// Traits that the class declares once.
#[derive(Clone, Copy)]
pub(super) struct Traits {
    pub control: Control,
    pub rate_samples: bool,
    pub ecn: EcnUse,
}

pub(super) struct PyControl {
    pub instance: Instance,
    pub traits: Traits,
}

impl PyControl {
    /// Lets a method steer; what it must not do is reported and put right.
    fn steer(
        &self,
        conn: &mut Conn,
        method: &str,
        arguments: impl for<'py> FnOnce(Python<'py>, PyConn, Py<PySteer>) -> PyResult<Bound<'py, PyTuple>>,
    ) {
        let (seen, before) = (PyConn::from_conn(conn), PySteer::from_conn(conn));
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
        let set = Python::attach(|py| {
            let PySteer { cwnd, ssthresh, pacing_rate } = *after.bind(py).borrow();
            abi::CSteer { cwnd, ssthresh, pacing_rate }
        });
        if let Some(wrong) = set.apply(&abi::CSteer::read_steer(conn), self.traits.control, conn) {
            self.instance.wrong(&PyValueError::new_err(wrong));
        }
    }

    fn window(&self, method: &str, segments: Option<u32>) -> u32 {
        if let Some(wrong) = segments.filter(|&segments| !is_window(segments)) {
            self.instance.wrong(&PyValueError::new_err(format!("{method}() returned {wrong}; {WINDOWS}")));
        }
        segments.unwrap_or(2).max(1)
    }
}

impl CongestionControl for PyControl {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Box<dyn CongestionControl + Send>, CannotFork> {
        Ok(Box::new(PyControl { instance: self.instance.fork(shared)?, traits: self.traits }))
    }

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
        let (seen, steer) = (PyConn::from_conn(conn), PySteer::from_conn(conn));
        let segments = self.instance.call(
            "ssthresh",
            |py| (seen, steer, by).into_pyobject(py),
            |answer| extract_whole("ssthresh() returned", &answer, WINDOWS),
        );
        self.window("ssthresh", segments)
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        self.steer(conn, "cong_avoid", move |py, seen, steer| (seen, steer, acked).into_pyobject(py));
    }

    fn cong_control(&mut self, conn: &mut Conn, sample: &RateSample) {
        let sample = PySample::from(abi::CSample::read_sample(sample));
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
        let (seen, steer) = (PyConn::from_conn(conn), PySteer::from_conn(conn));
        let segments = self.instance.call(
            "undo_cwnd",
            |py| (seen, steer).into_pyobject(py),
            |answer| extract_whole("undo_cwnd() returned", &answer, WINDOWS),
        );
        self.window("undo_cwnd", segments)
    }

    fn model(&self, conn: &Conn) -> Option<Model> {
        if !self.instance.has("model") {
            return None;
        }
        let seen = PyConn::from_conn(conn);
        let read =
            |answer: Bound<'_, PyAny>| answer.extract::<Option<Bound<'_, PyDict>>>()?.map(|told| parse_model(&told)).transpose();
        self.instance.call("model", |py| (seen,).into_pyobject(py), read).flatten()
    }
}

/// Reads a value that model() returns, by the word for its type; the error for a value of another type names the type.
macro_rules! told {
    (Flag, $value:expr) => {
        $value.extract::<bool>().map(abi::Flag::from).map_err(|_| "True or False")
    };
    (f64, $value:expr) => {
        $value.extract::<f64>().map_err(|_| "a number")
    };
    ($kind:ident, $value:expr) => {
        $value.extract::<$kind>().map_err(|_| "a whole number, 0 or more")
    };
}

/// Declares how the dict that model() returns is read: the state, which is text and comes first, and the other fields of `dumbbell_model`.
macro_rules! read_model {
    ($state:ident: Text, $($field:ident: $kind:ident,)*) => {
        /// Reads the dict that model() returns; a key that is not there, or None, is not known.
        fn parse_model(told: &Bound<'_, PyDict>) -> PyResult<Model> {
            let mut state = "";
            let mut found = abi::CModel::UNKNOWN;
            for (key, value) in told.iter().filter(|(_, value)| !value.is_none()) {
                let key: String = key.extract()?;
                let wrong = |allowed| PyValueError::new_err(format!("model() tells {key} {value}; allowed: {allowed}"));
                match key.as_str() {
                    stringify!($state) => {
                        let name: String = value.extract().map_err(|_| wrong("text"))?;
                        state = state_name(&name).map_err(PyValueError::new_err)?;
                    }
                    $(stringify!($field) => found.$field = told!($kind, value).map_err(wrong)?,)*
                    _ => {
                        let allowed = [stringify!($state), $(stringify!($field)),*].join(", ");
                        return Err(PyValueError::new_err(format!("model() has the key {key:?}; allowed: {allowed}")));
                    }
                }
            }
            if state.is_empty() {
                return Err(PyValueError::new_err("model() tells no state; allowed: a dict with state, or None"));
            }
            Ok(steering::model(&found, state))
        }
    };
}

dumbbell_plugin::with_fields! { CModel, read_model! }
