//! Congestion signals of losses and marks: the average of marks, the signals of a round, the short-term bounds.

use super::{BbrVersion, Latest, Machine, FULL_ECN_ROUNDS, MAX_LOSS_EVENTS};
use crate::cc::bbr::{scale_by_share, BbrRate, SCALE, UNIT, UNSET};
use crate::cc::conn::{CaState, Conn};
use crate::cc::exit::ExitCause;
use crate::cc::RateSample;

impl<V: BbrVersion> Machine<V> {
    /// A round is over: averages its share of marks. Linux `bbr_update_ecn_alpha`.
    pub(super) fn update_alpha(&mut self, conn: &Conn) {
        let near = self.set.ecn_max_rtt_us == 0 || self.min_rtt.rtt <= self.set.ecn_max_rtt_us;
        if V::ALPHA_WHEN_ELIGIBLE {
            self.marks.eligible |= self.set.ecn && near;
            if !self.marks.eligible {
                return;
            }
        }
        let delivered = conn.delivered - self.marks.delivered;
        if delivered == 0 {
            return;
        }
        self.marks.eligible |= self.set.ecn && near;
        let ratio = (((conn.delivered_ce - self.marks.delivered_ce) << SCALE) / delivered) as u32;
        let gain = self.set.ecn_alpha_gain;
        self.marks.alpha = (scale_by_share(self.marks.alpha, UNIT - gain) + scale_by_share(ratio, gain)).min(UNIT);
        self.marks.delivered = conn.delivered;
        self.marks.delivered_ce = conn.delivered_ce;
        if self.full_bw.reached || !self.marks.eligible {
            return;
        }
        self.marks.startup_rounds = if ratio >= self.set.ecn_thresh { self.marks.startup_rounds + 1 } else { 0 };
        if self.marks.startup_rounds >= FULL_ECN_ROUNDS {
            self.leave_startup_for_congestion(conn, ExitCause::Ecn);
        }
    }

    /// Losses or marks end STARTUP. Linux `bbr_handle_queue_too_high_in_startup`.
    pub(super) fn leave_startup_for_congestion(&mut self, conn: &Conn, cause: ExitCause) {
        self.full_bw.reached = true;
        self.startup_ends_by = cause;
        self.bounds.inflight_hi = V::inflight_hi_after_startup(self, self.inflight_at_max(conn, UNIT));
    }

    /// A segment was lost: the round of losses begins with the first one. Linux `bbr_note_loss`.
    pub(super) fn note_loss(&mut self, conn: &Conn) {
        if !self.losses.in_round {
            self.losses.round_delivered = conn.delivered;
        }
        self.losses.in_round = true;
        self.losses.in_cycle = true;
    }

    /// Linux `bbr_update_latest_delivery_signals`.
    pub(super) fn take_latest(&mut self, conn: &Conn, sample: &RateSample, bw: BbrRate) {
        self.latest.bw = self.latest.bw.max(bw);
        self.latest.inflight = self.latest.inflight.max(sample.sample_delivered.unwrap_or(0));
        if sample.prior_delivered >= self.losses.round_delivered {
            self.losses.round_delivered = conn.delivered;
            self.losses.round_start = true;
        }
    }

    pub(super) fn forget_latest(&mut self, sample: &RateSample, bw: BbrRate) {
        self.latest = Latest { bw, inflight: sample.sample_delivered.unwrap_or(0) };
    }

    /// Linux `bbr_update_congestion_signals`.
    pub(super) fn update_signals(&mut self, conn: &Conn, sample: &RateSample, bw: BbrRate) {
        if !sample.is_app_limited || bw >= self.max_bw() {
            self.bw_hi[1] = self.bw_hi[1].max(bw);
        }
        self.losses.in_round |= sample.ack_lost > 0;
        if !V::LATEST_BEFORE {
            self.take_latest(conn, sample, bw);
        }
        if !self.losses.round_start {
            return;
        }
        self.adapt_lower_bounds(conn);
        self.losses.in_round = false;
        self.marks.in_round = false;
        if !V::LATEST_BEFORE {
            self.forget_latest(sample, bw);
        }
    }

    /// Lowers the short-term bounds by the congestion of a round, unless it was asked for. Linux `bbr_adapt_lower_bounds`.
    pub(super) fn adapt_lower_bounds(&mut self, conn: &Conn) {
        if self.phase.state().is_probing() {
            return;
        }
        let mut by_ecn = UNSET;
        if self.marks.in_round && self.marks.eligible && self.set.ecn_factor > 0 {
            if self.bounds.inflight_lo == UNSET {
                self.bounds.inflight_lo = conn.cwnd;
            }
            by_ecn = scale_by_share(self.bounds.inflight_lo, self.ecn_cut());
        }
        if self.losses.in_round {
            if self.bounds.bw_lo == BbrRate::UNSET {
                self.bounds.bw_lo = self.max_bw();
            }
            if self.bounds.inflight_lo == UNSET {
                self.bounds.inflight_lo = conn.cwnd;
            }
            self.bounds.bw_lo = self.latest.bw.max(self.bounds.bw_lo.scale_by_share(UNIT - self.set.beta)).max(BbrRate(1));
            self.bounds.inflight_lo = self.latest.inflight.max(self.beta_cut(self.bounds.inflight_lo));
        }
        self.bounds.inflight_lo = self.bounds.inflight_lo.min(by_ecn);
    }

    /// Share of a bound that remains after marks, in 1/256.
    pub(super) fn ecn_cut(&self) -> u32 {
        UNIT - scale_by_share(self.marks.alpha, self.set.ecn_factor)
    }

    pub(super) fn reset_lower_bounds(&mut self) {
        self.bounds.bw_lo = BbrRate::UNSET;
        self.bounds.inflight_lo = UNSET;
    }

    pub(super) fn reset_signals(&mut self) {
        (self.losses.in_round, self.losses.in_cycle) = (false, false);
        (self.marks.in_round, self.marks.in_cycle) = (false, false);
        self.latest = Latest::default();
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
        over && marked > 0 && delivered > 0 && self.marks.eligible
    }

    /// ACKs with losses in STARTUP. Linux `bbr_check_loss_too_high_in_startup`.
    pub(super) fn check_startup_loss(&mut self, conn: &Conn, sample: &RateSample) {
        if self.full_bw.reached {
            return;
        }
        if sample.ack_lost > 0 {
            self.losses.events = (self.losses.events + 1).min(MAX_LOSS_EVENTS);
        }
        if !self.losses.round_start {
            return;
        }
        let many = conn.state == CaState::Recovery && self.losses.events >= self.set.full_loss_count;
        if many && self.too_high(sample) {
            self.leave_startup_for_congestion(conn, ExitCause::Loss);
        } else {
            self.losses.events = 0;
        }
    }
}
