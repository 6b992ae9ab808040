//! The states of BBR and their transitions: sections 5.3 and 5.4.

use super::{AckPhase, BbrPhase, BbrState, Climb, Rs, State, MAX_UP_ROUNDS, UNBOUNDED};
use crate::cc::bbr::phase::{MinRtt, Wait};
use crate::cc::conn::{CaState, Conn};
use crate::cc::exit::ExitCause;
use crate::units::{Duration, Instant};

impl State {
    // ---- Startup (5.3.1)

    /// CheckStartupDone, section 5.3.1.1.
    pub(super) fn check_startup_done(&mut self, conn: &mut Conn, rs: &Rs) {
        let cause = if self.check_startup_high_loss(conn, rs) { ExitCause::Loss } else { ExitCause::Plateau };
        if self.phase.state() == BbrState::Startup && self.full_bw.reached {
            conn.leave_slow_start(cause);
            // EnterDrain, section 5.3.2
            self.phase.enter(BbrPhase::Drain { start_round: self.round.count });
        }
    }

    /// CheckFullBWReached, section 5.3.1.2.
    pub(super) fn check_full_bw_reached(&mut self, rs: &Rs) {
        if self.full_bw.now || !self.round.start || rs.is_app_limited {
            return;
        }
        if rs.delivery_rate >= self.full_bw.bw.scale(self.params.full_bw_growth) {
            self.full_bw.restart(rs.delivery_rate);
            return;
        }
        self.full_bw.rounds += 1;
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.3.1.2
        //# BBR waits three packet-timed round trips to have reasonable evidence that the sender is not detecting a delivery-rate plateau that
        //# was temporarily imposed by congestion or receive-window auto-tuning.
        self.full_bw.now = self.full_bw.rounds >= self.params.full_bw_rounds;
        if self.full_bw.now {
            self.full_bw.reached = true;
        }
    }

    /// CheckStartupHighLoss, section 5.3.1.3.
    fn check_startup_high_loss(&mut self, conn: &Conn, rs: &Rs) -> bool {
        if !self.loss_round.start {
            return false;
        }
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.3.1.3
        //# The connection has been in fast recovery for at least one full packet-timed round trip.
        let round_in_recovery = conn.state == CaState::Recovery && rs.prior_delivered >= self.loss_round.recovery_delivered;
        let ranges = std::mem::take(&mut self.loss_round.ranges);
        self.loss_round.last_lost = None;
        let high = self.phase.state() == BbrState::Startup
            && round_in_recovery
            //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.3.1.3
            //# There are at least BBRStartupFullLossCnt=6 discontiguous sequence ranges lost in that round trip.
            && ranges >= self.params.startup_full_loss_count
            && self.is_inflight_too_high(rs.lost, rs.tx_in_flight);
        if high {
            self.undo.saved.left = Some(BbrState::Startup);
            self.full_bw.reached = true;
            self.full_bw.now = true;
            self.inflight.longterm = (self.bdp_multiple(self.bw.estimate, 1.0) as u32).max(self.inflight.latest);
        }
        high
    }

    // ---- Drain (5.3.2)

    /// CheckDrainDone, section 5.3.2.
    pub(super) fn check_drain_done(&mut self, conn: &Conn) {
        let BbrPhase::Drain { start_round } = self.phase else { return };
        if conn.in_flight() <= self.inflight(self.bw.estimate, 1.0)
            //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.3.2
            //# In that case, BBR enters ProbeBW after 3 round trips, allowing the bandwidth max filter to advance during the next probing
            //# cycle.
            || self.round.count > start_round + u64::from(self.params.drain_rounds)
        {
            // EnterProbeBW, section 5.3.3.9
            self.start_probe_bw_down(conn);
        }
    }

    // ---- ProbeBW (5.3.3)

    /// IsTimeToProbeBW, section 5.3.3.8.
    fn is_time_to_probe_bw(&mut self, conn: &Conn, wait: Wait<Instant>) -> bool {
        let due = conn.now > wait.until || self.is_reno_coexistence_probe_time(conn, wait.rounds);
        if due {
            self.start_probe_bw_refill(conn);
        }
        due
    }

    /// PickProbeWait, section 5.3.3.8: `BBR.rounds_since_probe_up`, and `BBR.bw_probe_wait` after `BBR.cycle_stamp`.
    fn pick_probe_wait(&mut self, conn: &Conn) -> Wait<Instant> {
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.3.3.8.2
        //# We randomize both the T_bbr and T_reno parameters, for better mixing and fairness convergence.
        let rounds = self.rng.draw_below(2) as u32;
        let wait = self.params.probe_wait + Duration(self.rng.draw_below(self.params.probe_wait_spread.0));
        Wait { until: conn.now.saturating_add(wait), rounds }
    }

    /// IsRenoCoexistenceProbeTime, section 5.3.3.8.
    fn is_reno_coexistence_probe_time(&self, conn: &Conn, rounds_since_probe_up: u32) -> bool {
        f64::from(rounds_since_probe_up) >= self.target_inflight(conn).min(f64::from(self.params.reno_rounds))
    }

    /// TargetInflight, section 5.3.3.8.
    pub(super) fn target_inflight(&self, conn: &Conn) -> f64 {
        self.bdp_multiple(self.bw.estimate, 1.0).min(f64::from(conn.cwnd))
    }

    /// StartProbeBW_DOWN, section 5.3.3.9.
    pub(super) fn start_probe_bw_down(&mut self, conn: &Conn) {
        self.reset_congestion_signals();
        let wait = self.pick_probe_wait(conn);
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round(conn);
        self.phase.enter(BbrPhase::Down(wait));
    }

    /// StartProbeBW_CRUISE, section 5.3.3.9.
    fn start_probe_bw_cruise(&mut self) {
        if let BbrPhase::Down(wait) = self.phase {
            self.phase.enter(BbrPhase::Cruise(wait));
        }
    }

    /// StartProbeBW_REFILL, section 5.3.3.9.
    pub(super) fn start_probe_bw_refill(&mut self, conn: &Conn) {
        self.reset_short_term_model();
        self.last_probe.precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(conn);
        self.phase.enter(BbrPhase::Refill { up_rounds: 0 });
    }

    /// StartProbeBW_UP, section 5.3.3.9.
    fn start_probe_bw_up(&mut self, conn: &Conn, rs: &Rs) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round(conn);
        self.full_bw.restart(rs.delivery_rate);
        self.phase.enter(BbrPhase::Up(Climb::start(conn)));
    }

    /// UpdateProbeBWCyclePhase, section 5.3.3.9.
    pub(super) fn update_probe_bw_cycle_phase(&mut self, conn: &Conn, rs: &Rs) {
        if !self.full_bw.reached || !rs.has_data {
            return;
        }
        if self.adapt_long_term_model(conn, rs) {
            return;
        }
        match self.phase {
            BbrPhase::Down(wait) => {
                if !self.is_time_to_probe_bw(conn, wait) && self.is_time_to_cruise(conn) {
                    self.start_probe_bw_cruise();
                }
            }
            BbrPhase::Cruise(wait) => {
                self.is_time_to_probe_bw(conn, wait);
            }
            BbrPhase::Refill { .. } => {
                if self.round.start {
                    self.is_bw_probe_sample = true;
                    self.start_probe_bw_up(conn, rs);
                }
            }
            BbrPhase::Up(_) => {
                if self.is_time_to_go_down(conn, rs) {
                    self.last_probe.too_high = false;
                    self.start_probe_bw_down(conn);
                }
            }
            BbrPhase::Startup | BbrPhase::Drain { .. } | BbrPhase::ProbeRtt(_) => {}
        }
    }

    /// IsTimeToCruise, section 5.3.3.9.
    fn is_time_to_cruise(&self, conn: &Conn) -> bool {
        let in_flight = conn.in_flight();
        in_flight <= self.inflight_with_headroom() && in_flight <= self.inflight(self.bw.max, 1.0)
    }

    /// IsTimeToGoDown, section 5.3.3.9.
    fn is_time_to_go_down(&mut self, conn: &Conn, rs: &Rs) -> bool {
        if self.last_probe.too_high && conn.in_flight() >= self.inflight.longterm {
            self.last_probe.precautionary = true;
            return true;
        }
        if conn.is_cwnd_limited && conn.cwnd >= self.inflight.longterm {
            self.full_bw.restart(rs.delivery_rate);
            return false;
        }
        self.full_bw.now
    }

    /// InflightWithHeadroom, section 5.3.3.9.
    pub(super) fn inflight_with_headroom(&self) -> u32 {
        if self.inflight.longterm == UNBOUNDED {
            return UNBOUNDED;
        }
        let bound = f64::from(self.inflight.longterm);
        let headroom = (self.params.headroom * bound).max(1.0);
        ((bound - headroom) as u32).max(self.params.min_pipe_cwnd)
    }

    /// ProbeInflightLongtermUpward, section 5.3.3.9.
    fn probe_inflight_longterm_upward(&mut self, conn: &Conn, rs: &Rs) {
        let BbrPhase::Up(climb) = &mut self.phase else { return };
        if !conn.is_cwnd_limited || conn.cwnd < self.inflight.longterm {
            return;
        }
        climb.acked += f64::from(rs.newly_acked);
        if climb.acked >= climb.acked_per_inc {
            let delta = (climb.acked / climb.acked_per_inc).floor();
            climb.acked -= delta * climb.acked_per_inc;
            self.inflight.longterm = self.inflight.longterm.saturating_add(delta as u32);
        }
        if self.round.start {
            climb.raise_slope(conn);
        }
    }

    /// AdaptLongTermModel, section 5.3.3.9. Returns whether it decided on another state.
    fn adapt_long_term_model(&mut self, conn: &Conn, rs: &Rs) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round.start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round.start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            let probing = self.phase.state().in_cycle();
            if probing && !rs.is_app_limited {
                self.bw.filter.advance();
            }
            if probing && self.last_probe.precautionary && !self.last_probe.too_high {
                self.start_probe_bw_refill(conn);
                return true;
            }
        }
        if !self.is_inflight_too_high(rs.lost, rs.tx_in_flight) && self.inflight.longterm != UNBOUNDED {
            self.inflight.longterm = self.inflight.longterm.max(rs.tx_in_flight);
            self.probe_inflight_longterm_upward(conn, rs);
        }
        false
    }

    // ---- ProbeRTT (5.3.4)

    /// UpdateMinRTT, section 5.3.4.3.
    pub(super) fn update_min_rtt(&mut self, conn: &Conn, rs: &Rs) {
        let now = conn.now;
        self.probe_rtt_expired = now > self.probe_rtt_min.stamp.saturating_add(self.params.probe_rtt_interval);
        if let Some(rtt) = rs.rtt_us.map(f64::from) {
            if rtt < self.probe_rtt_min.rtt || self.probe_rtt_expired {
                self.probe_rtt_min = MinRtt { rtt, stamp: now };
            }
        }
        let min_rtt_expired = now > self.min_rtt.stamp.saturating_add(self.params.min_rtt_filter_len);
        if self.probe_rtt_min.rtt < self.min_rtt.rtt || min_rtt_expired {
            self.min_rtt = self.probe_rtt_min;
        }
    }

    /// CheckProbeRTT, section 5.3.4.3.
    pub(super) fn check_probe_rtt(&mut self, conn: &mut Conn, rs: &Rs) {
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.3.4.2
        //# As an optimization, when restarting from idle and finding that the BBR.probe_rtt_min_delay has expired, BBR does not enter ProbeRTT;
        //# the idleness is deemed a sufficient attempt to coordinate to drain the queue.
        if self.phase.state() != BbrState::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            // EnterProbeRTT
            self.phase.enter(BbrPhase::PROBE_RTT);
            self.save_cwnd(conn, conn.cwnd);
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round(conn);
        }
        if self.phase.state() == BbrState::ProbeRtt {
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
        let probe_rtt_cwnd = self.probe_rtt_cwnd();
        let BbrPhase::ProbeRtt(probe) = &mut self.phase else { return };
        if probe.done.is_none() {
            if conn.in_flight() <= probe_rtt_cwnd {
                probe.done = Some(conn.now.saturating_add(self.params.probe_rtt_duration));
                self.start_round(conn);
            }
            return;
        }
        probe.round_done |= self.round.start;
        if probe.round_done {
            self.check_probe_rtt_done(conn);
        }
    }

    /// CheckProbeRTTDone, section 5.3.4.3.
    fn check_probe_rtt_done(&mut self, conn: &mut Conn) {
        if matches!(&self.phase, BbrPhase::ProbeRtt(probe) if probe.done.is_some_and(|stamp| conn.now > stamp)) {
            self.probe_rtt_min.stamp = conn.now;
            self.restore_cwnd(conn);
            self.exit_probe_rtt(conn);
        }
    }

    /// ExitProbeRTT, section 5.3.4.4.
    fn exit_probe_rtt(&mut self, conn: &mut Conn) {
        self.reset_short_term_model();
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.3.4.4
        //# When exiting ProbeRTT, BBR transitions to ProbeBW if it estimates the pipe was filled already, or Startup otherwise.
        if self.full_bw.reached {
            if conn.exits.first.is_none() {
                // Startup ended meanwhile
                conn.leave_slow_start(ExitCause::Plateau);
            }
            self.start_probe_bw_down(conn);
            self.start_probe_bw_cruise();
        } else {
            self.phase.enter(BbrPhase::Startup);
        }
    }

    // ---- Idle restart (5.4)

    /// HandleRestartFromIdle, section 5.4.1: nothing is in flight, and the application was the limit.
    pub(super) fn handle_restart_from_idle(&mut self, conn: &mut Conn) {
        self.idle_restart = true;
        self.extra_acked.interval_start = conn.now;
        if self.phase.state().in_cycle() {
            self.set_pacing_rate_with_gain(conn, 1.0);
        } else {
            //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.4.1
            //# If a connection goes idle during ProbeRTT then often it will have met those exit conditions by the time it restarts, so that the
            //# connection can restore C.cwnd to its full value before it starts transmitting a new flight of data.
            self.check_probe_rtt_done(conn);
        }
    }

    /// Back to where a loss episode that was spurious found it: section 5.5.11.2.
    pub(super) fn return_to(&mut self, left: Option<BbrState>, conn: &Conn) {
        let state = self.phase.state();
        if left == Some(BbrState::Startup) && state != BbrState::Startup {
            self.full_bw.reached = false;
            if state != BbrState::ProbeRtt {
                self.phase.enter(BbrPhase::Startup);
            }
        } else if left == Some(BbrState::Up) && !matches!(state, BbrState::Up | BbrState::ProbeRtt) {
            self.start_probe_bw_refill(conn);
        }
    }
}

impl Climb {
    /// The first round of ProbeBW_UP.
    pub(super) fn start(conn: &Conn) -> Climb {
        let mut climb = Climb { rounds: 0, acked: 0.0, acked_per_inc: f64::INFINITY };
        climb.raise_slope(conn);
        climb
    }

    /// RaiseInflightLongtermSlope, section 5.3.3.9.
    fn raise_slope(&mut self, conn: &Conn) {
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.3.3.5
        //# The additive increase to BBR.inflight_longterm doubles each round trip; in each successive round trip, BBR.inflight_longterm grows
        //# (in units of C.SMSS) by 1, 2, 4, 8, 16, etc, with the increases spread uniformly across the entire round trip.
        let growth_this_round = f64::from(1_u32 << self.rounds);
        self.rounds = (self.rounds + 1).min(MAX_UP_ROUNDS);
        self.acked_per_inc = (f64::from(conn.cwnd) / growth_this_round).max(1.0);
    }
}
