//! What BBR does in its states, and when it changes them: sections 5.3 and 5.4.

use super::{AckPhase, BbrPhase, Rs, State, MAX_UP_ROUNDS, UNBOUNDED};
use crate::cc::conn::{CaState, Conn};
use crate::cc::exit::ExitCause;
use crate::units::Time;

impl State {
    // ---- Startup (5.3.1)

    /// EnterStartup, section 5.3.1.1. The gains follow from the state.
    fn enter_startup(&mut self) {
        self.state = BbrPhase::Startup;
    }

    /// CheckStartupDone, section 5.3.1.1.
    pub(super) fn check_startup_done(&mut self, conn: &mut Conn, rs: &Rs) {
        let cause = if self.check_startup_high_loss(conn, rs) { ExitCause::Loss } else { ExitCause::Plateau };
        if self.state == BbrPhase::Startup && self.full_bw_reached {
            conn.leave_slow_start(cause);
            self.enter_drain();
        }
    }

    /// ResetFullBW, section 5.3.1.2.
    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = 0.0;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    /// CheckFullBWReached, section 5.3.1.2.
    pub(super) fn check_full_bw_reached(&mut self, rs: &Rs) {
        if self.full_bw_now || !self.round_start || rs.is_app_limited {
            return;
        }
        if rs.delivery_rate >= self.full_bw * self.params.full_bw_growth {
            self.reset_full_bw();
            self.full_bw = rs.delivery_rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= self.params.full_bw_rounds;
        if self.full_bw_now {
            self.full_bw_reached = true;
        }
    }

    /// CheckStartupHighLoss, section 5.3.1.3.
    fn check_startup_high_loss(&mut self, conn: &Conn, rs: &Rs) -> bool {
        if !self.loss_round_start {
            return false;
        }
        let round_in_recovery = conn.state == CaState::Recovery && rs.prior_delivered >= self.recovery_delivered;
        let ranges = std::mem::take(&mut self.lost_ranges);
        self.last_lost = None;
        let high = self.state == BbrPhase::Startup
            && round_in_recovery
            && ranges >= self.params.startup_full_loss_count
            && self.is_inflight_too_high(rs.lost, rs.tx_in_flight);
        if high {
            self.undo.left = Some(BbrPhase::Startup);
            self.full_bw_reached = true;
            self.full_bw_now = true;
            self.inflight_longterm = (self.bdp_multiple(self.bw, 1.0) as u32).max(self.inflight_latest);
        }
        high
    }

    // ---- Drain (5.3.2)

    /// EnterDrain, section 5.3.2.
    fn enter_drain(&mut self) {
        self.state = BbrPhase::Drain;
        self.drain_start_round = self.round_count;
    }

    /// CheckDrainDone, section 5.3.2.
    pub(super) fn check_drain_done(&mut self, conn: &Conn) {
        if self.state == BbrPhase::Drain
            && (conn.in_flight() <= self.inflight(self.bw, 1.0)
                || self.round_count > self.drain_start_round + u64::from(self.params.drain_rounds))
        {
            // EnterProbeBW, section 5.3.3.9
            self.start_probe_bw_down(conn);
        }
    }

    // ---- ProbeBW (5.3.3)

    /// IsTimeToProbeBW, section 5.3.3.8.
    fn is_time_to_probe_bw(&mut self, conn: &Conn) -> bool {
        let elapsed = conn.now > self.cycle_stamp.saturating_add(self.bw_probe_wait);
        let due = elapsed || self.is_reno_coexistence_probe_time(conn);
        if due {
            self.start_probe_bw_refill(conn);
        }
        due
    }

    /// PickProbeWait, section 5.3.3.8.
    fn pick_probe_wait(&mut self) {
        self.rounds_since_probe_up = self.rng.draw_below(2) as u32;
        self.bw_probe_wait = self.params.probe_wait + Time(self.rng.draw_below(self.params.probe_wait_spread.0));
    }

    /// IsRenoCoexistenceProbeTime, section 5.3.3.8.
    fn is_reno_coexistence_probe_time(&self, conn: &Conn) -> bool {
        let rounds = self.target_inflight(conn).min(f64::from(self.params.reno_rounds));
        f64::from(self.rounds_since_probe_up) >= rounds
    }

    /// TargetInflight, section 5.3.3.8.
    pub(super) fn target_inflight(&self, conn: &Conn) -> f64 {
        self.bdp_multiple(self.bw, 1.0).min(f64::from(conn.cwnd))
    }

    /// StartProbeBW_DOWN, section 5.3.3.9.
    pub(super) fn start_probe_bw_down(&mut self, conn: &Conn) {
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = f64::INFINITY;
        self.pick_probe_wait();
        self.cycle_stamp = conn.now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round(conn);
        self.state = BbrPhase::Down;
    }

    /// StartProbeBW_CRUISE, section 5.3.3.9.
    fn start_probe_bw_cruise(&mut self) {
        self.state = BbrPhase::Cruise;
    }

    /// StartProbeBW_REFILL, section 5.3.3.9.
    pub(super) fn start_probe_bw_refill(&mut self, conn: &Conn) {
        self.reset_short_term_model();
        self.bw_probe_up_rounds = 0;
        self.bw_probe_up_acked = 0.0;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(conn);
        self.state = BbrPhase::Refill;
    }

    /// StartProbeBW_UP, section 5.3.3.9.
    fn start_probe_bw_up(&mut self, conn: &Conn, rs: &Rs) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round(conn);
        self.reset_full_bw();
        self.full_bw = rs.delivery_rate;
        self.state = BbrPhase::Up;
        self.raise_inflight_longterm_slope(conn);
    }

    /// UpdateProbeBWCyclePhase, section 5.3.3.9.
    pub(super) fn update_probe_bw_cycle_phase(&mut self, conn: &Conn, rs: &Rs) {
        if !self.full_bw_reached || !rs.has_data {
            return;
        }
        if self.adapt_long_term_model(conn, rs) {
            return;
        }
        match self.state {
            BbrPhase::Down => {
                if !self.is_time_to_probe_bw(conn) && self.is_time_to_cruise(conn) {
                    self.start_probe_bw_cruise();
                }
            }
            BbrPhase::Cruise => {
                self.is_time_to_probe_bw(conn);
            }
            BbrPhase::Refill => {
                if self.round_start {
                    self.is_bw_probe_sample = true;
                    self.start_probe_bw_up(conn, rs);
                }
            }
            BbrPhase::Up => {
                if self.is_time_to_go_down(conn, rs) {
                    self.prev_probe_too_high = false;
                    self.start_probe_bw_down(conn);
                }
            }
            BbrPhase::Startup | BbrPhase::Drain | BbrPhase::ProbeRtt => {}
        }
    }

    /// IsInAProbeBWState, section 5.3.3.9.
    pub(super) fn is_in_a_probe_bw_state(&self) -> bool {
        matches!(self.state, BbrPhase::Down | BbrPhase::Cruise | BbrPhase::Refill | BbrPhase::Up)
    }

    /// IsProbingBW, section 5.3.3.9.
    pub(super) fn is_probing_bw(&self) -> bool {
        matches!(self.state, BbrPhase::Startup | BbrPhase::Refill | BbrPhase::Up)
    }

    /// IsTimeToCruise, section 5.3.3.9.
    fn is_time_to_cruise(&self, conn: &Conn) -> bool {
        let in_flight = conn.in_flight();
        in_flight <= self.inflight_with_headroom() && in_flight <= self.inflight(self.max_bw, 1.0)
    }

    /// IsTimeToGoDown, section 5.3.3.9.
    fn is_time_to_go_down(&mut self, conn: &Conn, rs: &Rs) -> bool {
        if self.prev_probe_too_high && conn.in_flight() >= self.inflight_longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        if conn.is_cwnd_limited && conn.cwnd >= self.inflight_longterm {
            self.reset_full_bw();
            self.full_bw = rs.delivery_rate;
            return false;
        }
        self.full_bw_now
    }

    /// InflightWithHeadroom, section 5.3.3.9.
    pub(super) fn inflight_with_headroom(&self) -> u32 {
        if self.inflight_longterm == UNBOUNDED {
            return UNBOUNDED;
        }
        let bound = f64::from(self.inflight_longterm);
        let headroom = (self.params.headroom * bound).max(1.0);
        ((bound - headroom) as u32).max(self.params.min_pipe_cwnd)
    }

    /// RaiseInflightLongtermSlope, section 5.3.3.9.
    fn raise_inflight_longterm_slope(&mut self, conn: &Conn) {
        let growth_this_round = f64::from(1_u32 << self.bw_probe_up_rounds);
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(MAX_UP_ROUNDS);
        self.probe_up_acked_per_inc = (f64::from(conn.cwnd) / growth_this_round).max(1.0);
    }

    /// ProbeInflightLongtermUpward, section 5.3.3.9.
    fn probe_inflight_longterm_upward(&mut self, conn: &Conn, rs: &Rs) {
        if !conn.is_cwnd_limited || conn.cwnd < self.inflight_longterm {
            return;
        }
        self.bw_probe_up_acked += f64::from(rs.newly_acked);
        if self.bw_probe_up_acked >= self.probe_up_acked_per_inc {
            let delta = (self.bw_probe_up_acked / self.probe_up_acked_per_inc).floor();
            self.bw_probe_up_acked -= delta * self.probe_up_acked_per_inc;
            self.inflight_longterm = self.inflight_longterm.saturating_add(delta as u32);
        }
        if self.round_start {
            self.raise_inflight_longterm_slope(conn);
        }
    }

    /// AdaptLongTermModel, section 5.3.3.9. Returns whether it decided on another state.
    fn adapt_long_term_model(&mut self, conn: &Conn, rs: &Rs) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            let probing = self.is_in_a_probe_bw_state();
            if probing && !rs.is_app_limited {
                self.max_bw_filter.advance();
            }
            if probing && self.prev_probe_precautionary && !self.prev_probe_too_high {
                self.start_probe_bw_refill(conn);
                return true;
            }
        }
        if !self.is_inflight_too_high(rs.lost, rs.tx_in_flight) && self.inflight_longterm != UNBOUNDED {
            self.inflight_longterm = self.inflight_longterm.max(rs.tx_in_flight);
            if self.state == BbrPhase::Up {
                self.probe_inflight_longterm_upward(conn, rs);
            }
        }
        false
    }

    // ---- ProbeRTT (5.3.4)

    /// UpdateMinRTT, section 5.3.4.3.
    pub(super) fn update_min_rtt(&mut self, conn: &Conn, rs: &Rs) {
        let now = conn.now;
        self.probe_rtt_expired = now > self.probe_rtt_min_stamp.saturating_add(self.params.probe_rtt_interval);
        if let Some(rtt) = rs.rtt_us.map(f64::from) {
            if rtt < self.probe_rtt_min_delay || self.probe_rtt_expired {
                self.probe_rtt_min_delay = rtt;
                self.probe_rtt_min_stamp = now;
            }
        }
        let min_rtt_expired = now > self.min_rtt_stamp.saturating_add(self.params.min_rtt_filter_len);
        if self.probe_rtt_min_delay < self.min_rtt || min_rtt_expired {
            self.min_rtt = self.probe_rtt_min_delay;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }

    /// CheckProbeRTT, section 5.3.4.3.
    pub(super) fn check_probe_rtt(&mut self, conn: &mut Conn, rs: &Rs) {
        if self.state != BbrPhase::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            // EnterProbeRTT
            self.state = BbrPhase::ProbeRtt;
            self.save_cwnd(conn, conn.cwnd);
            self.probe_rtt_done_stamp = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round(conn);
        }
        if self.state == BbrPhase::ProbeRtt {
            self.handle_probe_rtt(conn);
        }
        if rs.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// HandleProbeRTT, section 5.3.4.3.
    fn handle_probe_rtt(&mut self, conn: &mut Conn) {
        // MarkConnectionAppLimited, section 4.1.2.4
        conn.holds_back = true;
        if self.probe_rtt_done_stamp.is_none() {
            if conn.in_flight() <= self.probe_rtt_cwnd() {
                self.probe_rtt_done_stamp = Some(conn.now.saturating_add(self.params.probe_rtt_duration));
                self.probe_rtt_round_done = false;
                self.start_round(conn);
            }
            return;
        }
        if self.round_start {
            self.probe_rtt_round_done = true;
        }
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(conn);
        }
    }

    /// CheckProbeRTTDone, section 5.3.4.3.
    fn check_probe_rtt_done(&mut self, conn: &mut Conn) {
        if self.probe_rtt_done_stamp.is_some_and(|stamp| conn.now > stamp) {
            self.probe_rtt_min_stamp = conn.now;
            self.restore_cwnd(conn);
            self.exit_probe_rtt(conn);
        }
    }

    /// ExitProbeRTT, section 5.3.4.4.
    fn exit_probe_rtt(&mut self, conn: &mut Conn) {
        self.reset_short_term_model();
        if self.full_bw_reached {
            if conn.exits.first.is_none() {
                // Startup ended meanwhile
                conn.leave_slow_start(ExitCause::Plateau);
            }
            self.start_probe_bw_down(conn);
            self.start_probe_bw_cruise();
        } else {
            self.enter_startup();
        }
    }

    // ---- Idle restart (5.4)

    /// HandleRestartFromIdle, section 5.4.1: nothing is in flight, and the application was the limit.
    pub(super) fn handle_restart_from_idle(&mut self, conn: &mut Conn) {
        self.idle_restart = true;
        self.extra_acked_interval_start = conn.now;
        if self.is_in_a_probe_bw_state() {
            self.set_pacing_rate_with_gain(conn, 1.0);
        } else if self.state == BbrPhase::ProbeRtt {
            self.check_probe_rtt_done(conn);
        }
    }

    /// Back to where a loss episode that was spurious found it: section 5.5.11.2.
    pub(super) fn return_to(&mut self, left: Option<BbrPhase>, conn: &Conn) {
        match left {
            Some(BbrPhase::Startup) if self.state != BbrPhase::Startup => {
                self.full_bw_reached = false;
                if self.state != BbrPhase::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(BbrPhase::Up) if self.state != BbrPhase::Up && self.state != BbrPhase::ProbeRtt => {
                self.start_probe_bw_refill(conn)
            }
            _ => {}
        }
    }
}
