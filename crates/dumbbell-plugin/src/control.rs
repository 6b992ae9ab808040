//! A congestion control of a shared library.
#![allow(unsafe_code)]

use crate::abi;
use crate::steering::{self, is_window, state_name, WINDOWS};
use dumbbell_config::extensions::PluginFault;
use dumbbell_core::cc::conn::{CaState, Congestion, Conn};
use dumbbell_core::cc::{AckEvent, CcContext, CongestionControl, Control, Echo, EcnUse, Model, RateSample};
use dumbbell_core::fork::{CannotFork, SharedCopies};
use dumbbell_core::packet::Ecn;
use std::cell::Cell;
use std::ffi::{c_void, CStr};
use std::sync::Arc;

/// The control of one connection. The functions that the interface requires are there: [`load`](crate::Plugin::load) has looked.
pub struct PluginControl {
    functions: &'static abi::CControl,
    this: *mut c_void,
    name: Arc<str>,
    fault: PluginFault,
    /// The state that it reported last.
    state: Cell<&'static str>,
}

// SAFETY: `this` is used only through `&mut Plugged` or `&Plugged`, and `Plugged` is not `Sync`: by one thread at a time, as the
// interface promises. What the library shares between instances is its own to guard, as the interface says.
unsafe impl Send for PluginControl {}

type Steers = unsafe extern "C" fn(*mut c_void, *const abi::CConn, *mut abi::CSteer, u32, i64);

impl abi::CConn {
    /// Returns the state of `conn` that a control may read.
    pub fn read_conn(conn: &Conn) -> abi::CConn {
        abi::CConn {
            now: conn.now().0,
            delivered: conn.delivered_segments(),
            delivered_ce: conn.delivered_ce(),
            sent: conn.snd_nxt(),
            acked: conn.snd_una(),
            min_rtt_us: match conn.rtt().min_us() {
                u32::MAX => 0,
                us => u64::from(us),
            },
            srtt_us: conn.rtt().srtt_us(),
            mdev_us: conn.rtt().mdev_4us >> 2,
            in_flight: conn.in_flight(),
            lost: conn.lost_out(),
            sacked: conn.sacked_out(),
            retransmitted: conn.retrans_out(),
            prior_cwnd: conn.prior_cwnd(),
            cwnd_max: conn.cwnd_clamp(),
            mss: conn.mss,
            state: number(conn.state()),
            cwnd_limited: u32::from(conn.cwnd_limited()),
        }
    }
}

impl abi::CSample {
    /// Returns the values of `sample` that a control may read.
    pub fn read_sample(sample: &RateSample) -> abi::CSample {
        abi::CSample {
            delivered: sample.ack_delivered,
            lost: sample.ack_lost,
            marked: sample.ack_marked,
            ece: u32::from(sample.ece),
            rtt_us: or_none(sample.rtt_us),
            interval_us: sample.interval_us.filter(|_| sample.sample_delivered.is_some()).map_or(-1, |us| us as i64),
            sample_delivered: sample.sample_delivered.unwrap_or(0),
            sample_lost: sample.sample_lost,
            sample_marked: sample.sample_marked,
            app_limited: u32::from(sample.is_app_limited),
            prior_in_flight: sample.prior_in_flight,
            tx_in_flight: sample.tx_in_flight,
            prior_delivered: sample.prior_delivered,
        }
    }
}

fn number(state: CaState) -> u32 {
    match state {
        CaState::Open => 0,
        CaState::Disorder => 1,
        CaState::Cwr => 2,
        CaState::Recovery => 3,
        CaState::Loss => 4,
    }
}

fn or_none<T: Into<i64>>(value: Option<T>) -> i64 {
    value.map_or(-1, Into::into)
}

impl PluginControl {
    /// The control of the connection of `context`, with the values of its parameters.
    pub fn new(
        functions: &'static abi::CControl,
        name: &Arc<str>,
        values: &[f64],
        context: &CcContext,
        fault: &PluginFault,
    ) -> PluginControl {
        // SAFETY: there are as many values as the library declared parameters
        let create = |create: unsafe extern "C" fn(u64, u64, *const f64) -> *mut c_void| unsafe {
            create(context.seed, context.flow, values.as_ptr())
        };
        let this = functions.create.map_or(std::ptr::null_mut(), create);
        let plugged = PluginControl { functions, this, name: Arc::clone(name), fault: fault.clone(), state: Cell::new("") };
        if this.is_null() {
            plugged.wrong(|| "create() returned NULL".to_owned());
        }
        plugged
    }

    fn wrong(&self, what: impl FnOnce() -> String) {
        self.fault.report(|| format!("control {}: {}", self.name, what()));
    }

    /// Lets the library steer; what it must not do is reported and put right.
    fn steer(&mut self, conn: &mut Conn, act: impl FnOnce(*mut c_void, *const abi::CConn, *mut abi::CSteer)) {
        if self.this.is_null() {
            return;
        }
        let (seen, before) = (abi::CConn::read_conn(conn), abi::CSteer::read_steer(conn));
        let mut steer = before;
        act(self.this, &seen, &mut steer);
        if let Some(wrong) = steer.apply(&before, self.control(), conn) {
            self.wrong(|| wrong);
        }
    }

    fn steer_by(&mut self, conn: &mut Conn, function: Option<Steers>, a: u32, b: i64) {
        if let Some(function) = function {
            // SAFETY: `this` came from `create`; what is read and steered is valid for the call
            self.steer(conn, |this, seen, steer| unsafe { function(this, seen, steer, a, b) });
        }
    }

    /// A window that the library names, 1 or more.
    fn window(&self, what: &str, segments: u32) -> u32 {
        if !is_window(segments) {
            self.wrong(|| format!("{what}() returned {segments}; {WINDOWS}"));
        }
        segments.max(1)
    }
}

impl Drop for PluginControl {
    fn drop(&mut self) {
        if let Some(destroy) = self.functions.destroy.filter(|_| !self.this.is_null()) {
            // SAFETY: `this` came from `create`, and nothing uses it any more
            unsafe { destroy(self.this) }
        }
    }
}

impl CongestionControl for PluginControl {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Box<dyn CongestionControl + Send>, CannotFork> {
        // SAFETY: `this` came from `create`, and `self` is not `Sync`
        let this = unsafe { abi::clone_instance(self.functions.clone, self.this)? };
        let (name, fault, state) = (Arc::clone(&self.name), self.fault.fork(shared), self.state.clone());
        Ok(Box::new(PluginControl { functions: self.functions, this, name, fault, state }))
    }

    fn control(&self) -> Control {
        match self.functions.by {
            0 => Control::Window,
            1 => Control::Rate,
            _ => Control::Both,
        }
    }

    fn rate_samples(&self) -> bool {
        self.functions.rate_samples != 0
    }

    fn ecn(&self) -> EcnUse {
        EcnUse {
            required: self.functions.ecn_required != 0,
            codepoint: match self.functions.codepoint {
                0 => Ecn::NotEct,
                1 => Ecn::Ect1,
                _ => Ecn::Ect0,
            },
            echo: match self.functions.echo {
                0 => Echo::UntilCwr,
                1 => Echo::Accurate,
                _ => Echo::PerPacket,
            },
            ..EcnUse::default()
        }
    }

    fn init(&mut self, conn: &mut Conn) {
        if let Some(init) = self.functions.init {
            // SAFETY: `this` came from `create`; what is read and steered is valid for the call
            self.steer(conn, |this, seen, steer| unsafe { init(this, seen, steer) });
        }
    }

    fn in_ack_event(&mut self, conn: &mut Conn, ack: &AckEvent) {
        self.steer_by(conn, self.functions.in_ack_event, u32::from(ack.ece), or_none(ack.new_ce));
    }

    fn ssthresh(&mut self, conn: &Conn, cause: Congestion) -> u32 {
        let by = match cause {
            Congestion::Ecn => 0,
            Congestion::Loss => 1,
            Congestion::Timeout => 2,
        };
        let Some(ssthresh) = self.functions.ssthresh.filter(|_| !self.this.is_null()) else { return 2 };
        // SAFETY: `this` came from `create`; what is read is valid for the call
        let segments = unsafe { ssthresh(self.this, &abi::CConn::read_conn(conn), &abi::CSteer::read_steer(conn), by) };
        self.window("ssthresh", segments)
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        if let Some(cong_avoid) = self.functions.cong_avoid {
            // SAFETY: `this` came from `create`; what is read and steered is valid for the call
            self.steer(conn, |this, seen, steer| unsafe { cong_avoid(this, seen, steer, acked) });
        }
    }

    fn cong_control(&mut self, conn: &mut Conn, sample: &RateSample) {
        let Some(cong_control) = self.functions.cong_control else { return };
        let sample = abi::CSample::read_sample(sample);
        // SAFETY: `this` came from `create`; what is read and steered is valid for the call
        self.steer(conn, |this, seen, steer| unsafe { cong_control(this, seen, steer, &sample) });
    }

    fn pkts_acked(&mut self, conn: &mut Conn, pkts: u32, rtt_us: Option<u32>) {
        self.steer_by(conn, self.functions.pkts_acked, pkts, or_none(rtt_us));
    }

    fn set_state(&mut self, conn: &mut Conn, state: CaState) {
        if let Some(set_state) = self.functions.set_state {
            // SAFETY: `this` came from `create`; what is read and steered is valid for the call
            self.steer(conn, |this, seen, steer| unsafe { set_state(this, seen, steer, number(state)) });
        }
    }

    fn undo_cwnd(&mut self, conn: &mut Conn) -> u32 {
        let Some(undo) = self.functions.undo_cwnd.filter(|_| !self.this.is_null()) else {
            return conn.cwnd.max(conn.prior_cwnd());
        };
        // SAFETY: `this` came from `create`; what is read is valid for the call
        let segments = unsafe { undo(self.this, &abi::CConn::read_conn(conn), &abi::CSteer::read_steer(conn)) };
        self.window("undo_cwnd", segments)
    }

    fn model(&self, conn: &Conn) -> Option<Model> {
        let tell = self.functions.model.filter(|_| !self.this.is_null())?;
        let mut told = abi::CModel::UNKNOWN;
        // SAFETY: `this` came from `create`; the connection and the model are valid for the call
        unsafe { tell(self.this, &abi::CConn::read_conn(conn), &raw mut told) }
        if told.state.is_null() {
            return None;
        }
        // SAFETY: the interface makes it a string of C, which is valid until the next call
        let name = unsafe { CStr::from_ptr(told.state) };
        if name.to_bytes() != self.state.get().as_bytes() {
            match name.to_str().map_or_else(|_| state_name(""), state_name) {
                Ok(state) => self.state.set(state),
                Err(wrong) => {
                    self.wrong(|| wrong);
                    return None;
                }
            }
        }
        Some(steering::model(&told, self.state.get()))
    }
}
