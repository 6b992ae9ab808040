//! What losses and marks say: the average of marks, the signals of a round, the short-term bounds.

use super::{BbrVersion, Machine, ProbingMode, FULL_ECN_ROUNDS, MAX_LOSS_EVENTS};
use crate::cc::bbr::{scale_by_share, SCALE, UNIT, UNSET};
use crate::cc::conn::{CaState, Conn};
use crate::cc::exit::ExitCause;
use crate::cc::RateSample;

impl<V: BbrVersion> Machine<V> {
    /// A round is over: averages its share of marks. Linux `bbr_update_ecn_alpha`.
    pub(super) fn update_alpha(&mut self, conn: &Conn) {
        let near = self.set.ecn_max_rtt_us == 0 || self.min_rtt_us <= self.set.ecn_max_rtt_us;
        if V::ALPHA_WHEN_ELIGIBLE {
            self.ecn_eligible |= self.set.ecn && near;
            if !self.ecn_eligible {
                return;
            }
        }
        let delivered = conn.delivered - self.alpha_delivered;
        if delivered == 0 {
            return;
        }
        self.ecn_eligible |= self.set.ecn && near;
        let ratio = (((conn.delivered_ce - self.alpha_delivered_ce) << SCALE) / delivered) as u32;
        let gain = self.set.ecn_alpha_gain;
        self.ecn_alpha = (scale_by_share(self.ecn_alpha, UNIT - gain) + scale_by_share(ratio, gain)).min(UNIT);
        self.alpha_delivered = conn.delivered;
        self.alpha_delivered_ce = conn.delivered_ce;
        if self.full_bw_reached || !self.ecn_eligible {
            return;
        }
        self.startup_ecn_rounds = if ratio >= self.set.ecn_thresh { self.startup_ecn_rounds + 1 } else { 0 };
        if self.startup_ecn_rounds >= FULL_ECN_ROUNDS {
            self.leave_startup_for_congestion(conn, ExitCause::Ecn);
        }
    }

    /// Losses or marks end STARTUP. Linux `bbr_handle_queue_too_high_in_startup`.
    pub(super) fn leave_startup_for_congestion(&mut self, conn: &Conn, cause: ExitCause) {
        self.full_bw_reached = true;
        self.startup_ends_by = cause;
        self.inflight_hi = V::inflight_hi_after_startup(self, self.inflight_at_max(conn, UNIT));
    }

    /// A segment was lost: the round of losses begins with the first one. Linux `bbr_note_loss`.
    pub(super) fn note_loss(&mut self, conn: &Conn) {
        if !self.loss_in_round {
            self.loss_round_delivered = conn.delivered;
        }
        self.loss_in_round = true;
        self.loss_in_cycle = true;
    }

    pub(super) fn probing(&self) -> bool {
        matches!(self.mode, ProbingMode::Startup | ProbingMode::Refill | ProbingMode::Up)
    }

    /// Linux `bbr_update_latest_delivery_signals`.
    pub(super) fn take_latest(&mut self, conn: &Conn, sample: &RateSample, bw: u32) {
        self.bw_latest = self.bw_latest.max(bw);
        self.inflight_latest = self.inflight_latest.max(sample.sample_delivered.unwrap_or(0));
        if sample.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = conn.delivered;
            self.loss_round_start = true;
        }
    }

    pub(super) fn forget_latest(&mut self, sample: &RateSample, bw: u32) {
        self.bw_latest = bw;
        self.inflight_latest = sample.sample_delivered.unwrap_or(0);
    }

    /// Linux `bbr_update_congestion_signals`.
    pub(super) fn update_signals(&mut self, conn: &Conn, sample: &RateSample, bw: u32) {
        if !sample.is_app_limited || bw >= self.max_bw() {
            self.bw_hi[1] = self.bw_hi[1].max(bw);
        }
        self.loss_in_round |= sample.ack_lost > 0;
        if !V::LATEST_BEFORE {
            self.take_latest(conn, sample, bw);
        }
        if !self.loss_round_start {
            return;
        }
        self.adapt_lower_bounds(conn);
        self.loss_in_round = false;
        self.ecn_in_round = false;
        if !V::LATEST_BEFORE {
            self.forget_latest(sample, bw);
        }
    }

    /// Lowers the short-term bounds by the congestion of a round, unless it was asked for. Linux `bbr_adapt_lower_bounds`.
    pub(super) fn adapt_lower_bounds(&mut self, conn: &Conn) {
        if self.probing() {
            return;
        }
        let mut by_ecn = UNSET;
        if self.ecn_in_round && self.ecn_eligible && self.set.ecn_factor > 0 {
            if self.inflight_lo == UNSET {
                self.inflight_lo = conn.cwnd;
            }
            by_ecn = scale_by_share(self.inflight_lo, self.ecn_cut());
        }
        if self.loss_in_round {
            if self.bw_lo == UNSET {
                self.bw_lo = self.max_bw();
            }
            if self.inflight_lo == UNSET {
                self.inflight_lo = conn.cwnd;
            }
            self.bw_lo = self.bw_latest.max(self.beta_cut(self.bw_lo)).max(1);
            self.inflight_lo = self.inflight_latest.max(self.beta_cut(self.inflight_lo));
        }
        self.inflight_lo = self.inflight_lo.min(by_ecn);
    }

    /// What marks leave of a bound, in 1/256.
    pub(super) fn ecn_cut(&self) -> u32 {
        UNIT - scale_by_share(self.ecn_alpha, self.set.ecn_factor)
    }

    pub(super) fn reset_lower_bounds(&mut self) {
        self.bw_lo = UNSET;
        self.inflight_lo = UNSET;
    }

    pub(super) fn reset_signals(&mut self) {
        self.loss_in_round = false;
        self.loss_in_cycle = false;
        self.ecn_in_round = false;
        self.ecn_in_cycle = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    /// Linux `bbr_is_inflight_too_high`.
    pub(super) fn too_high(&self, sample: &RateSample) -> bool {
        self.too_many_lost(sample.sample_lost, sample.tx_in_flight)
            || self.too_many_marked(sample.sample_marked, sample.sample_delivered.unwrap_or(0))
    }

    pub(super) fn too_many_lost(&self, lost: u32, tx_in_flight: u32) -> bool {
        tx_in_flight > 0 && lost > scale_by_share(tx_in_flight, self.set.loss_thresh)
    }

    pub(super) fn too_many_marked(&self, marked: u32, delivered: u32) -> bool {
        let most = scale_by_share(delivered, self.set.ecn_thresh);
        let over = marked > most || (V::MARKS_AT_THRESHOLD && marked == most);
        over && marked > 0 && delivered > 0 && self.ecn_eligible
    }

    /// ACKs with losses in STARTUP. Linux `bbr_check_loss_too_high_in_startup`.
    pub(super) fn check_startup_loss(&mut self, conn: &Conn, sample: &RateSample) {
        if self.full_bw_reached {
            return;
        }
        if sample.ack_lost > 0 {
            self.loss_events = (self.loss_events + 1).min(MAX_LOSS_EVENTS);
        }
        if !self.loss_round_start {
            return;
        }
        let many = conn.state == CaState::Recovery && self.loss_events >= self.set.full_loss_cnt;
        if many && self.too_high(sample) {
            self.leave_startup_for_congestion(conn, ExitCause::Loss);
        } else {
            self.loss_events = 0;
        }
    }
}
