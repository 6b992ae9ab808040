//! The model of the path: section 5.5.

use super::{BbrPhase, Rs, Saved, State, UNBOUNDED};
use crate::cc::conn::{CaState, Conn};
use crate::cc::LossEvent;

impl State {
    // ---- Rounds (5.5.1)

    /// UpdateRound, section 5.5.1.
    fn update_round(&mut self, conn: &Conn, rs: &Rs) {
        self.round_start = rs.has_data && rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round(conn);
            self.round_count += 1;
            self.rounds_since_probe_up = self.rounds_since_probe_up.saturating_add(1);
        }
    }

    /// StartRound, section 5.5.1.
    pub(super) fn start_round(&mut self, conn: &Conn) {
        self.next_round_delivered = conn.delivered;
    }

    // ---- Bandwidth (5.5.2 to 5.5.6)

    /// UpdateMaxBw, section 5.5.5.
    fn update_max_bw(&mut self, conn: &Conn, rs: &Rs) {
        self.update_round(conn, rs);
        if rs.delivery_rate > 0.0 && (rs.delivery_rate >= self.max_bw || !rs.is_app_limited) {
            self.max_bw = self.max_bw_filter.update(rs.delivery_rate);
        }
    }

    /// BoundBWForModel, section 5.5.10.3.
    pub(super) fn bound_bw_for_model(&mut self) {
        self.bw = self.max_bw.min(self.bw_shortterm);
    }

    // ---- Aggregation (5.5.9)

    /// UpdateACKAggregation, section 5.5.9.
    pub(super) fn update_ack_aggregation(&mut self, conn: &Conn, rs: &Rs) {
        let interval = conn.now.saturating_sub(self.extra_acked_interval_start);
        let mut expected = self.bw * interval.as_secs_f64();
        if self.extra_acked_delivered <= expected {
            self.extra_acked_delivered = 0.0;
            self.extra_acked_interval_start = conn.now;
            expected = 0.0;
        }
        self.extra_acked_delivered += f64::from(rs.newly_acked);
        let extra = (self.extra_acked_delivered - expected).min(f64::from(conn.cwnd));
        let window = if self.full_bw_reached { self.params.extra_acked_filter_len } else { 1 };
        self.extra_acked = self.extra_acked_filter.update(u64::from(window), self.round_count, extra);
    }

    // ---- Losses while it probes (5.5.10.2)

    /// IsInflightTooHigh, section 5.5.10.2.
    pub(super) fn is_inflight_too_high(&self, lost: u32, tx_in_flight: u32) -> bool {
        f64::from(lost) > f64::from(tx_in_flight) * self.params.loss_thresh
    }

    /// HandleInflightTooHigh, section 5.5.10.2.
    fn handle_inflight_too_high(&mut self, conn: &Conn, tx_in_flight: f64, is_app_limited: bool) {
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !is_app_limited {
            self.inflight_longterm = tx_in_flight.max(self.target_inflight(conn) * self.params.beta) as u32;
        }
        if self.state == BbrPhase::Up {
            self.undo.left = Some(BbrPhase::Up);
            self.before_marks.left = Some(BbrPhase::Up);
            self.start_probe_bw_down(conn);
        }
    }

    /// NoteLoss, section 5.5.10.2.
    pub(super) fn note_loss(&mut self, conn: &Conn) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = conn.delivered;
            self.save_cwnd(conn, conn.cwnd);
            if conn.state < CaState::Recovery && self.marked_at.is_none() {
                self.undo = self.snapshot(conn);
            }
        }
        self.is_loss_in_round = true;
    }

    /// HandleLostPacket, section 5.5.10.2.
    pub(super) fn handle_lost_packet(&mut self, conn: &Conn, loss: &LossEvent) {
        if self.marked_at != Some(conn.now) {
            self.before_marks = self.snapshot(conn);
            self.marked_at = None;
        }
        self.note_loss(conn);
        self.marked_at = Some(conn.now);
        if self.last_lost.is_none_or(|last| loss.seq != last + 1) {
            self.lost_ranges += 1;
        }
        self.last_lost = Some(loss.seq);
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
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(rs.delivery_rate);
        self.inflight_latest = self.inflight_latest.max(rs.delivered);
        if rs.has_data && rs.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = conn.delivered;
            self.loss_round_start = true;
        }
    }

    /// AdvanceLatestDeliverySignals, section 5.5.10.3.
    pub(super) fn advance_latest_delivery_signals(&mut self, rs: &Rs) {
        if self.loss_round_start {
            self.bw_latest = rs.delivery_rate;
            self.inflight_latest = rs.delivered;
        }
    }

    /// ResetCongestionSignals, section 5.5.10.3.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0;
    }

    /// UpdateCongestionSignals, section 5.5.10.3.
    pub(super) fn update_congestion_signals(&mut self, conn: &Conn, rs: &Rs) {
        self.update_max_bw(conn, rs);
        if self.loss_round_start {
            self.adapt_lower_bounds_from_congestion(conn);
            self.is_loss_in_round = false;
        }
    }

    /// AdaptLowerBoundsFromCongestion, InitLowerBounds and LossLowerBounds, section 5.5.10.3.
    fn adapt_lower_bounds_from_congestion(&mut self, conn: &Conn) {
        if self.is_probing_bw() || !self.is_loss_in_round {
            return;
        }
        if self.bw_shortterm == f64::INFINITY {
            self.bw_shortterm = self.max_bw;
        }
        if self.inflight_shortterm == UNBOUNDED {
            self.inflight_shortterm = conn.cwnd;
        }
        let beta = self.params.beta;
        self.bw_shortterm = self.bw_latest.max(beta * self.bw_shortterm);
        self.inflight_shortterm = self.inflight_latest.max((beta * f64::from(self.inflight_shortterm)) as u32);
    }

    /// ResetShortTermModel, section 5.5.10.3.
    pub(super) fn reset_short_term_model(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = UNBOUNDED;
    }

    // ---- Spurious recovery (5.5.11)

    /// What SaveStateUponLoss saves, section 5.5.11.1.
    fn snapshot(&self, conn: &Conn) -> Saved {
        Saved {
            left: None,
            cwnd: conn.cwnd,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        }
    }

    /// OnEnterRTO and OnEnterFastRecovery, section 5.6.4.4: the state is saved as it was before the losses that led here were marked. After a
    /// timeout the transport has set the window already.
    pub(super) fn enter_recovery(&mut self, conn: &Conn, state: CaState) {
        let found = if self.marked_at == Some(conn.now) { self.before_marks } else { self.snapshot(conn) };
        self.marked_at = None;
        self.save_cwnd(conn, found.cwnd);
        self.undo = found;
        if state == CaState::Recovery {
            self.recovery_delivered = conn.delivered;
        }
    }

    /// HandleSpuriousLossDetection, section 5.5.11.2.
    pub(super) fn handle_spurious_loss_detection(&mut self, conn: &mut Conn) {
        self.restore_cwnd(conn);
        self.is_loss_in_round = false;
        self.reset_full_bw();
        self.bw_shortterm = self.bw_shortterm.max(self.undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo.inflight_longterm);
        let left = self.undo.left.take();
        self.return_to(left, conn);
    }
}
