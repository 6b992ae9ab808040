//! The smallest RTT, and PROBE_RTT, which looks for it.

use super::{BbrVersion, Machine};
use crate::cc::bbr::phase::{AckPhase, BbrPhase, BbrState, MinRtt};
use crate::cc::conn::{CaState, Conn};
use crate::cc::RateSample;

impl<V: BbrVersion> Machine<V> {
    /// Linux `bbr_save_cwnd`.
    pub(super) fn save_cwnd(&mut self, conn: &Conn) {
        let whole = self.prev_state < CaState::Recovery && self.phase.state() != BbrState::ProbeRtt;
        self.prior_cwnd = if whole { conn.cwnd } else { self.prior_cwnd.max(conn.cwnd) };
    }

    /// Linux `bbr_update_min_rtt`.
    pub(super) fn update_min_rtt(&mut self, conn: &mut Conn, sample: &RateSample) {
        let now = conn.jiffies();
        let expired = now > self.probe_rtt_min.stamp + self.set.probe_rtt_interval_ms;
        if let Some(rtt) = sample.rtt_us {
            let refreshes = rtt < self.probe_rtt_min.rtt || (V::EQUAL_RTT_REFRESHES && rtt == self.probe_rtt_min.rtt);
            if refreshes || expired {
                self.probe_rtt_min = MinRtt { rtt, stamp: now };
            }
        }
        if self.probe_rtt_min.rtt <= self.min_rtt.rtt || now > self.min_rtt.stamp + self.set.min_rtt_window_ms {
            self.min_rtt = self.probe_rtt_min;
        }
        if self.set.probe_rtt_duration_ms > 0 && expired && !self.idle_restart && self.phase.state() != BbrState::ProbeRtt {
            // in the order of Linux: the mode is part of what is saved
            self.phase.enter(BbrPhase::PROBE_RTT);
            self.save_cwnd(conn);
            self.ack_phase = AckPhase::ProbeStopping;
            self.begin_round(conn);
        }
        if self.phase.state() == BbrState::ProbeRtt {
            self.stay_in_probe_rtt(conn, now);
        }
        if sample.sample_delivered.is_some_and(|delivered| delivered > 0) {
            self.idle_restart = false;
        }
    }

    pub(super) fn stay_in_probe_rtt(&mut self, conn: &mut Conn, now: u64) {
        conn.holds_back = true;
        let probe_rtt_cwnd = self.probe_rtt_cwnd();
        let BbrPhase::ProbeRtt(probe) = &mut self.phase else { return };
        if probe.done.is_none() {
            if conn.in_flight() <= probe_rtt_cwnd {
                probe.done = Some(now + self.set.probe_rtt_duration_ms);
                self.begin_round(conn);
            }
            return;
        }
        probe.round_done |= self.round_start;
        if probe.round_done {
            self.check_probe_rtt_done(conn);
        }
    }

    /// Linux `bbr_check_probe_rtt_done`, `bbr_exit_probe_rtt`.
    pub(super) fn check_probe_rtt_done(&mut self, conn: &mut Conn) {
        let now = conn.jiffies();
        if !matches!(&self.phase, BbrPhase::ProbeRtt(probe) if probe.done.is_some_and(|done| now > done)) {
            return;
        }
        self.probe_rtt_min.stamp = now;
        conn.cwnd = conn.cwnd.max(self.prior_cwnd);
        self.reset_lower_bounds();
        if self.full_bw.reached {
            if conn.exits.first.is_none() {
                // STARTUP ended meanwhile
                conn.leave_slow_start(self.startup_ends_by);
            }
            self.start_down(conn);
            self.start_cruise();
        } else {
            self.phase.enter(BbrPhase::Startup);
        }
    }
}
