//! The smallest RTT, and PROBE_RTT, which looks for it.

use super::{AckPhase, BbrVersion, Machine, ProbingMode};
use crate::cc::conn::{CaState, Conn};
use crate::cc::RateSample;

impl<V: BbrVersion> Machine<V> {
    /// Linux `bbr_save_cwnd`.
    pub(super) fn save_cwnd(&mut self, conn: &Conn) {
        let whole = self.prev_state < CaState::Recovery && self.mode != ProbingMode::ProbeRtt;
        self.prior_cwnd = if whole { conn.cwnd } else { self.prior_cwnd.max(conn.cwnd) };
    }

    /// Linux `bbr_update_min_rtt`.
    pub(super) fn update_min_rtt(&mut self, conn: &mut Conn, sample: &RateSample) {
        let now = conn.jiffies();
        let expired = now > self.probe_rtt_min_stamp + self.set.probe_rtt_interval_ms;
        if let Some(rtt) = sample.rtt_us {
            let refreshes = rtt < self.probe_rtt_min_us || (V::EQUAL_RTT_REFRESHES && rtt == self.probe_rtt_min_us);
            if refreshes || expired {
                self.probe_rtt_min_us = rtt;
                self.probe_rtt_min_stamp = now;
            }
        }
        if self.probe_rtt_min_us <= self.min_rtt_us || now > self.min_rtt_stamp + self.set.min_rtt_ms {
            self.min_rtt_us = self.probe_rtt_min_us;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
        if self.set.probe_rtt_ms > 0 && expired && !self.idle_restart && self.mode != ProbingMode::ProbeRtt {
            // in the order of Linux: the mode is part of what is saved
            self.mode = ProbingMode::ProbeRtt;
            self.save_cwnd(conn);
            self.probe_rtt_done = None;
            self.ack_phase = AckPhase::Stopping;
            self.begin_round(conn);
        }
        if self.mode == ProbingMode::ProbeRtt {
            self.stay_in_probe_rtt(conn, now);
        }
        if sample.sample_delivered.is_some_and(|delivered| delivered > 0) {
            self.idle_restart = false;
        }
    }

    pub(super) fn stay_in_probe_rtt(&mut self, conn: &mut Conn, now: u64) {
        conn.holds_back = true;
        if self.probe_rtt_done.is_none() {
            if conn.in_flight() <= self.probe_rtt_cwnd() {
                self.probe_rtt_done = Some(now + self.set.probe_rtt_ms);
                self.probe_rtt_round_done = false;
                self.begin_round(conn);
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(conn);
        }
    }

    /// Linux `bbr_check_probe_rtt_done`, `bbr_exit_probe_rtt`.
    pub(super) fn check_probe_rtt_done(&mut self, conn: &mut Conn) {
        let now = conn.jiffies();
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.probe_rtt_min_stamp = now;
        conn.cwnd = conn.cwnd.max(self.prior_cwnd);
        self.reset_lower_bounds();
        if self.full_bw_reached {
            if conn.exits.first.is_none() {
                // STARTUP ended meanwhile
                conn.leave_slow_start(self.startup_ends_by);
            }
            self.start_down(conn);
            self.start_cruise();
        } else {
            self.mode = ProbingMode::Startup;
        }
    }
}
