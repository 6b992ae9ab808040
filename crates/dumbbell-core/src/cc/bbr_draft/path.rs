//! The model of the path: section 5.5.

use super::{BbrState, Rs, Saved, State, UNBOUNDED};
use crate::cc::bbr::BbrRate;
use crate::cc::conn::{CaState, Conn};
use crate::cc::LossEvent;

impl State {
    // ---- Rounds (5.5.1)

    /// UpdateRound, section 5.5.1.
    fn update_round(&mut self, conn: &Conn, rs: &Rs) {
        self.round.start = rs.has_data && rs.prior_delivered >= self.round.next_delivered;
        if self.round.start {
            self.start_round(conn);
            self.round.count += 1;
            self.phase.count_round();
        }
    }

    /// StartRound, section 5.5.1.
    pub(super) fn start_round(&mut self, conn: &Conn) {
        self.round.next_delivered = conn.delivered;
    }

    // ---- Bandwidth (5.5.2 to 5.5.6)

    /// UpdateMaxBw, section 5.5.5.
    fn update_max_bw(&mut self, conn: &Conn, rs: &Rs) {
        self.update_round(conn, rs);
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.5.4
        //# By default, the estimator discards application-limited samples, since by definition they reflect application limits.
        if rs.delivery_rate > BbrRate::ZERO && (rs.delivery_rate >= self.bw.max || !rs.is_app_limited) {
            self.bw.max = BbrRate(self.bw.filter.update(rs.delivery_rate.0));
        }
    }

    /// BoundBWForModel, section 5.5.10.3.
    pub(super) fn bound_bw_for_model(&mut self) {
        self.bw.estimate = self.bw.max.min(self.bw.shortterm);
    }

    // ---- Aggregation (5.5.9)

    /// UpdateACKAggregation, section 5.5.9.
    pub(super) fn update_ack_aggregation(&mut self, conn: &Conn, rs: &Rs) {
        let extra_acked = &mut self.extra_acked;
        let interval = conn.now.saturating_since(extra_acked.interval_start);
        let mut expected = self.bw.estimate.0 * interval.as_secs_f64();
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.5.9
        //# If the ACK rate falls below the expected bandwidth, then the algorithm estimates an aggregation episode has terminated, and resets
        //# the sampling interval to start from the current time.
        if extra_acked.delivered <= expected {
            (extra_acked.delivered, extra_acked.interval_start) = (0.0, conn.now);
            expected = 0.0;
        }
        extra_acked.delivered += f64::from(rs.newly_acked);
        let extra = (extra_acked.delivered - expected).min(f64::from(conn.cwnd));
        let window = if self.full_bw.reached { self.params.extra_acked_filter_len } else { 1 };
        extra_acked.extra = extra_acked.filter.update(u64::from(window), self.round.count, extra);
    }

    // ---- Losses while it probes (5.5.10.2)

    /// IsInflightTooHigh, section 5.5.10.2.
    pub(super) fn is_inflight_too_high(&self, lost: u32, tx_in_flight: u32) -> bool {
        f64::from(lost) > f64::from(tx_in_flight) * self.params.loss_thresh
    }

    /// HandleInflightTooHigh, section 5.5.10.2.
    fn handle_inflight_too_high(&mut self, conn: &Conn, tx_in_flight: f64, is_app_limited: bool) {
        self.last_probe.too_high = true;
        self.is_bw_probe_sample = false;
        if !is_app_limited {
            //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.5.10.2
            //# And the BBR.Beta (0.7x) bound is to try to ensure that BBR does not react more dramatically than CUBIC's 0.7x multiplicative
            //# decrease factor.
            self.inflight.longterm = tx_in_flight.max(self.target_inflight(conn) * self.params.beta) as u32;
        }
        if self.phase.state() == BbrState::Up {
            self.undo.saved.left = Some(BbrState::Up);
            self.undo.before_marks.left = Some(BbrState::Up);
            self.start_probe_bw_down(conn);
        }
    }

    /// NoteLoss, section 5.5.10.2.
    pub(super) fn note_loss(&mut self, conn: &Conn) {
        if !self.loss_round.has_loss {
            self.loss_round.delivered = conn.delivered;
            self.save_cwnd(conn, conn.cwnd);
            if conn.state < CaState::Recovery && self.undo.marked_at.is_none() {
                self.undo.saved = self.snapshot(conn);
            }
        }
        self.loss_round.has_loss = true;
    }

    /// HandleLostPacket, section 5.5.10.2.
    pub(super) fn handle_lost_packet(&mut self, conn: &Conn, loss: &LossEvent) {
        if self.undo.marked_at != Some(conn.now) {
            self.undo.before_marks = self.snapshot(conn);
            self.undo.marked_at = None;
        }
        self.note_loss(conn);
        self.undo.marked_at = Some(conn.now);
        if self.loss_round.last_lost.is_none_or(|last| loss.seq != last + 1) {
            self.loss_round.ranges += 1;
        }
        self.loss_round.last_lost = Some(loss.seq);
        if self.is_bw_probe_sample && self.is_inflight_too_high(loss.lost, loss.tx_in_flight) {
            let at_loss = self.inflight_at_loss(loss.lost, loss.tx_in_flight);
            self.handle_inflight_too_high(conn, at_loss, loss.is_app_limited);
        }
    }

    /// InflightAtLoss, section 5.5.10.2, of one segment: with how many in flight losses crossed the threshold.
    pub(super) fn inflight_at_loss(&self, lost: u32, tx_in_flight: u32) -> f64 {
        let size = 1.0;
        let inflight_prev = f64::from(tx_in_flight) - size;
        let lost_prev = f64::from(lost) - size;
        let thresh = self.params.loss_thresh;
        let lost_prefix = (thresh * inflight_prev - lost_prev) / (1.0 - thresh);
        inflight_prev + lost_prefix
    }

    // ---- Losses otherwise (5.5.10.3)

    /// UpdateLatestDeliverySignals, section 5.5.10.3.
    pub(super) fn update_latest_delivery_signals(&mut self, conn: &Conn, rs: &Rs) {
        self.loss_round.start = false;
        self.bw.latest = self.bw.latest.max(rs.delivery_rate);
        self.inflight.latest = self.inflight.latest.max(rs.delivered);
        if rs.has_data && rs.prior_delivered >= self.loss_round.delivered {
            self.loss_round.delivered = conn.delivered;
            self.loss_round.start = true;
        }
    }

    /// AdvanceLatestDeliverySignals, section 5.5.10.3.
    pub(super) fn advance_latest_delivery_signals(&mut self, rs: &Rs) {
        if self.loss_round.start {
            self.bw.latest = rs.delivery_rate;
            self.inflight.latest = rs.delivered;
        }
    }

    /// ResetCongestionSignals, section 5.5.10.3.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.loss_round.has_loss = false;
        self.bw.latest = BbrRate::ZERO;
        self.inflight.latest = 0;
    }

    /// UpdateCongestionSignals, section 5.5.10.3.
    pub(super) fn update_congestion_signals(&mut self, conn: &Conn, rs: &Rs) {
        self.update_max_bw(conn, rs);
        if self.loss_round.start {
            self.adapt_lower_bounds_from_congestion(conn);
            self.loss_round.has_loss = false;
        }
    }

    /// AdaptLowerBoundsFromCongestion, InitLowerBounds and LossLowerBounds, section 5.5.10.3.
    fn adapt_lower_bounds_from_congestion(&mut self, conn: &Conn) {
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.5.10.3
        //# This applies generally: whether in fast recovery, RTO recovery, TLP recovery; whether application-limited or not.
        if self.phase.state().is_probing() || !self.loss_round.has_loss {
            return;
        }
        if self.bw.shortterm == BbrRate::INFINITE {
            self.bw.shortterm = self.bw.max;
        }
        if self.inflight.shortterm == UNBOUNDED {
            self.inflight.shortterm = conn.cwnd;
        }
        let beta = self.params.beta;
        self.bw.shortterm = self.bw.latest.max(self.bw.shortterm.scale(beta));
        self.inflight.shortterm = self.inflight.latest.max((beta * f64::from(self.inflight.shortterm)) as u32);
    }

    /// ResetShortTermModel, section 5.5.10.3.
    pub(super) fn reset_short_term_model(&mut self) {
        self.bw.shortterm = BbrRate::INFINITE;
        self.inflight.shortterm = UNBOUNDED;
    }

    // ---- Spurious recovery (5.5.11)

    /// The state that SaveStateUponLoss saves, section 5.5.11.1.
    fn snapshot(&self, conn: &Conn) -> Saved {
        Saved {
            left: None,
            cwnd: conn.cwnd,
            bw_shortterm: self.bw.shortterm,
            inflight_shortterm: self.inflight.shortterm,
            inflight_longterm: self.inflight.longterm,
        }
    }

    /// OnEnterRTO and OnEnterFastRecovery, section 5.6.4.4: the state is saved as it was before the losses that led here were marked. After a
    /// timeout the transport has set the window already.
    pub(super) fn enter_recovery(&mut self, conn: &Conn, state: CaState) {
        let found = if self.undo.marked_at == Some(conn.now) { self.undo.before_marks } else { self.snapshot(conn) };
        self.undo.marked_at = None;
        self.save_cwnd(conn, found.cwnd);
        self.undo.saved = found;
        if state == CaState::Recovery {
            self.loss_round.recovery_delivered = conn.delivered;
        }
    }

    /// HandleSpuriousLossDetection, section 5.5.11.2.
    pub(super) fn handle_spurious_loss_detection(&mut self, conn: &mut Conn) {
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.5.11.2
        //# It restores the congestion window, resets the loss round state and the full bandwidth detector, and restores the short-term and
        //# long-term model parameters to be at least the values saved before the loss episode.
        self.restore_cwnd(conn);
        self.loss_round.has_loss = false;
        self.full_bw.restart(BbrRate::ZERO);
        self.bw.shortterm = self.bw.shortterm.max(self.undo.saved.bw_shortterm);
        self.inflight.shortterm = self.inflight.shortterm.max(self.undo.saved.inflight_shortterm);
        self.inflight.longterm = self.inflight.longterm.max(self.undo.saved.inflight_longterm);
        let left = self.undo.saved.left.take();
        self.return_to(left, conn);
    }
}
