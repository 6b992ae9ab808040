//! Congestion controls that are classes in Python.

use super::Instance;
use dumbbell_core::cc::conn::{CaState, Congestion, Conn};
use dumbbell_core::cc::{AckEvent, CongestionControl, Control, EcnUse, Model, RateSample};
use dumbbell_plugin::abi;
use dumbbell_plugin::steering::{self, is_window, state_name, WINDOWS};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// State of a connection that a control reads, as `dumbbell_conn` of the C interface.
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
    fn from_conn(conn: &Conn) -> PyConn {
        let seen = abi::CConn::read_conn(conn);
        let abi::CConn { now, delivered, delivered_ce, sent, acked, min_rtt_us, srtt_us, mdev_us, .. } = seen;
        let abi::CConn { in_flight, lost, sacked, retransmitted, prior_cwnd, cwnd_max, mss, state, .. } = seen;
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

/// Values that a control sets, as `dumbbell_steer`.
#[pyclass(get_all, name = "Steer")]
struct PySteer {
    cwnd: u32,
    ssthresh: u32,
    pacing_rate: u64,
}

impl PySteer {
    fn from_conn(conn: &Conn) -> PySteer {
        let abi::CSteer { cwnd, ssthresh, pacing_rate } = abi::CSteer::read_steer(conn);
        PySteer { cwnd, ssthresh, pacing_rate }
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

/// Sample of an ACK, as `dumbbell_sample`; None for missing values.
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
        let sample = PySample {
            delivered: sample.ack_delivered,
            lost: sample.ack_lost,
            marked: sample.ack_marked,
            ece: sample.ece,
            rtt_us: sample.rtt_us,
            interval_us: sample.interval_us.filter(|_| sample.sample_delivered.is_some()),
            sample_delivered: sample.sample_delivered.unwrap_or(0),
            sample_lost: sample.sample_lost,
            sample_marked: sample.sample_marked,
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
            |answer: Bound<'_, PyAny>| answer.extract::<Option<Bound<'_, PyDict>>>()?.map(|told| told_model(&told)).transpose();
        self.instance.call("model", |py| (seen,).into_pyobject(py), read).flatten()
    }
}

/// Reads the dict that model() returns; a key that is not there, or None, is not known.
fn told_model(told: &Bound<'_, PyDict>) -> PyResult<Model> {
    let mut state = "";
    let mut found = abi::CModel::NOTHING;
    for (key, value) in told.iter().filter(|(_, value)| !value.is_none()) {
        let key: String = key.extract()?;
        let wrong = || PyValueError::new_err(format!("model() tells {key} {value}; allowed: {}", kind_of(&key)));
        let (count, real, flag) = (value.extract::<u64>(), value.extract::<f64>(), value.extract::<bool>());
        match key.as_str() {
            "state" => {
                let name: String = value.extract().map_err(|_| wrong())?;
                state = state_name(&name).map_err(PyValueError::new_err)?;
            }
            "round" => found.round = count.map_err(|_| wrong())?,
            "max_bw" => found.max_bw = count.map_err(|_| wrong())?,
            "bw" => found.bw = count.map_err(|_| wrong())?,
            "bw_shortterm" => found.bw_shortterm = count.map_err(|_| wrong())?,
            "inflight_shortterm" => found.inflight_shortterm = count.map_err(|_| wrong())?,
            "inflight_longterm" => found.inflight_longterm = count.map_err(|_| wrong())?,
            "min_rtt_us" => found.min_rtt_us = count.map_err(|_| wrong())?,
            "extra_acked" => found.extra_acked = count.map_err(|_| wrong())?,
            "inflight" => found.inflight = count.map_err(|_| wrong())?,
            "probe_up_step" => found.probe_up_step = count.map_err(|_| wrong())?,
            "pacing_gain" => found.pacing_gain = real.map_err(|_| wrong())?,
            "cwnd_gain" => found.cwnd_gain = real.map_err(|_| wrong())?,
            "ecn_alpha" => found.ecn_alpha = real.map_err(|_| wrong())?,
            "full_bw_now" => found.full_bw_now = flag.map_err(|_| wrong())?.into(),
            "full_bw_reached" => found.full_bw_reached = flag.map_err(|_| wrong())?.into(),
            "idle_restart" => found.idle_restart = flag.map_err(|_| wrong())?.into(),
            _ => return Err(PyValueError::new_err(format!("model() has the key {key:?}; allowed: {}", MODEL.join(", ")))),
        }
    }
    if state.is_empty() {
        return Err(PyValueError::new_err("model() tells no state; allowed: a dict with state, or None"));
    }
    Ok(steering::model(&found, state))
}

/// Keys that model() may return, as in `dumbbell_model`.
const MODEL: [&str; 17] = [
    "state",
    "round",
    "max_bw",
    "bw",
    "bw_shortterm",
    "inflight_shortterm",
    "inflight_longterm",
    "min_rtt_us",
    "extra_acked",
    "inflight",
    "probe_up_step",
    "pacing_gain",
    "cwnd_gain",
    "ecn_alpha",
    "full_bw_now",
    "full_bw_reached",
    "idle_restart",
];

/// Returns the allowed values of a key of model() in words.
fn kind_of(key: &str) -> &'static str {
    match key {
        "state" => "text",
        "pacing_gain" | "cwnd_gain" | "ecn_alpha" => "a number",
        "full_bw_now" | "full_bw_reached" | "idle_restart" => "True or False",
        _ => "a whole number, 0 or more",
    }
}
