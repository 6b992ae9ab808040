//! Pacing rate, burst and window: section 5.6.

use super::{BbrState, Rs, State, LEAST_QUANTUM, NOMINAL_RTT_US, UNBOUNDED, UP_BUDGET};
use crate::cc::bbr::BbrRate;
use crate::cc::conn::{CaState, Conn};

impl State {
    // ---- Gains (5.6.1)

    /// Pacing gain of the state: the table of section 5.6.1.
    pub(super) fn pacing_gain(&self) -> f64 {
        match self.phase.state() {
            BbrState::Startup => self.params.startup_pacing_gain,
            BbrState::Drain => self.params.drain_pacing_gain,
            BbrState::Down => self.params.probe_down_pacing_gain,
            BbrState::Up => self.params.probe_up_pacing_gain,
            BbrState::Cruise | BbrState::Refill | BbrState::ProbeRtt => 1.0,
        }
    }

    /// Window gain of the state: the table of section 5.6.1.
    pub(super) fn cwnd_gain(&self) -> f64 {
        match self.phase.state() {
            BbrState::Up => self.params.probe_up_cwnd_gain,
            BbrState::ProbeRtt => self.params.probe_rtt_cwnd_gain,
            _ => self.params.default_cwnd_gain,
        }
    }

    // ---- Pacing rate (5.6.2)

    /// InitPacingRate, section 5.6.2.
    pub(super) fn init_pacing_rate(&self, conn: &mut Conn) {
        let rtt_us = if self.min_rtt.rtt.is_finite() { self.min_rtt.rtt } else { NOMINAL_RTT_US };
        let nominal_bandwidth = f64::from(conn.cwnd) * f64::from(conn.mss) * 1e6 / rtt_us;
        conn.pacing_rate = (self.params.startup_pacing_gain * nominal_bandwidth).max(1.0) as u64;
    }

    /// SetPacingRateWithGain, section 5.6.2. The rate stays before the first estimate of the bandwidth.
    pub(super) fn set_pacing_rate_with_gain(&self, conn: &mut Conn, gain: f64) {
        let share = (100.0 - self.params.pacing_margin_percent) / 100.0;
        let rate = self.bw.estimate.scale(gain).payload_share(conn.mss, share);
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.6.2
        //# In particular, this prevents the pacing rate from being reduced when the connection has only seen application-limited bandwidth
        //# samples.
        if rate > 0 && (self.full_bw.reached || rate > conn.pacing_rate) {
            conn.pacing_rate = rate;
        }
    }

    /// SetPacingRate, section 5.6.2.
    pub(super) fn set_pacing_rate(&self, conn: &mut Conn) {
        self.set_pacing_rate_with_gain(conn, self.pacing_gain());
    }

    // ---- Burst (5.6.3)

    /// SetSendQuantum, section 5.6.3.
    pub(super) fn set_send_quantum(&mut self, conn: &Conn) {
        let bytes = conn.pacing_rate as f64 * self.params.send_quantum_time.as_secs_f64();
        let most = f64::from(self.params.send_quantum_max);
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.6.3
        //# However, for the sake of the network and other users, a BBR implementation SHOULD attempt to use the smallest feasible quanta.
        self.send_quantum = (bytes.min(most) / f64::from(conn.mss)).max(LEAST_QUANTUM);
    }

    // ---- Window (5.6.4)

    /// BDPMultiple, section 5.6.4.2, of bandwidth `bw`.
    pub(super) fn bdp_multiple(&self, bw: BbrRate<f64>, gain: f64) -> f64 {
        if self.min_rtt.rtt == f64::INFINITY {
            return f64::from(self.initial_cwnd);
        }
        bw.scale(gain).segments_in_us(self.min_rtt.rtt)
    }

    /// QuantizationBudget, section 5.6.4.2, with the offload budget of TCP (section 5.5.8.1).
    fn quantization_budget(&self, inflight_cap: f64) -> u32 {
        let offload_budget = f64::from(self.params.offload_quanta) * self.send_quantum;
        let mut cap = inflight_cap.max(offload_budget).max(f64::from(self.params.min_pipe_cwnd));
        if self.phase.state() == BbrState::Up {
            cap += UP_BUDGET;
        }
        cap as u32
    }

    /// Inflight, section 5.6.4.2, of bandwidth `bw`.
    pub(super) fn inflight(&self, bw: BbrRate<f64>, gain: f64) -> u32 {
        self.quantization_budget(self.bdp_multiple(bw, gain))
    }

    /// UpdateMaxInflight, section 5.6.4.2.
    fn max_inflight(&self) -> u32 {
        self.quantization_budget(self.bdp_multiple(self.bw.estimate, self.cwnd_gain()) + self.extra_acked.extra)
    }

    /// SaveCwnd, section 5.6.4.4, of window `cwnd`.
    pub(super) fn save_cwnd(&mut self, conn: &Conn, cwnd: u32) {
        if conn.state < CaState::Recovery && self.phase.state() != BbrState::ProbeRtt {
            self.prior_cwnd = cwnd;
        } else {
            self.prior_cwnd = self.prior_cwnd.max(cwnd);
        }
    }

    /// RestoreCwnd, section 5.6.4.4.
    pub(super) fn restore_cwnd(&self, conn: &mut Conn) {
        conn.cwnd = conn.cwnd.max(self.prior_cwnd);
    }

    /// ProbeRTTCwnd, section 5.6.4.5.
    pub(super) fn probe_rtt_cwnd(&self) -> u32 {
        (self.bdp_multiple(self.bw.estimate, self.params.probe_rtt_cwnd_gain) as u32).max(self.params.min_pipe_cwnd)
    }

    /// SetCwnd, section 5.6.4.6.
    pub(super) fn set_cwnd(&self, conn: &mut Conn, rs: &Rs) {
        let max_inflight = self.max_inflight();
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.6.4.6
        //# When C.cwnd is below BBR.max_inflight, BBR raises C.cwnd gradually and cautiously, increasing C.cwnd by no more than the amount of
        //# data acknowledged (cumulatively or selectively) upon each ACK.
        let grown = conn.cwnd.saturating_add(rs.newly_acked);
        let delivered = conn.delivered - self.initial_delivered;
        if self.full_bw.reached {
            conn.cwnd = grown.min(max_inflight);
        } else if conn.cwnd < max_inflight || delivered < u64::from(self.initial_cwnd) {
            conn.cwnd = grown;
        }
        conn.cwnd = conn.cwnd.max(self.params.min_pipe_cwnd);
        // BoundCwndForProbeRTT, section 5.6.4.5
        if self.phase.state() == BbrState::ProbeRtt {
            conn.cwnd = conn.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd_for_model(conn);
        conn.cwnd = conn.cwnd.min(conn.cwnd_clamp);
    }

    /// BoundCwndForModel, section 5.6.4.7.
    fn bound_cwnd_for_model(&self, conn: &mut Conn) {
        let longterm = match self.phase.state() {
            BbrState::Down | BbrState::Refill | BbrState::Up => self.inflight.longterm,
            BbrState::Cruise | BbrState::ProbeRtt => self.inflight_with_headroom(),
            BbrState::Startup | BbrState::Drain => UNBOUNDED,
        };
        let cap = longterm.min(self.inflight.shortterm).max(self.params.min_pipe_cwnd);
        conn.cwnd = conn.cwnd.min(cap);
    }
}
