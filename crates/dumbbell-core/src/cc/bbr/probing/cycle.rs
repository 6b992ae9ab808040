//! The cycle that probes for bandwidth, and the long-term bound of what is in flight, which probes raise and losses or marks of a probe lower.

use super::{BbrVersion, Climb, Machine, MAX_ROUNDS, MAX_UP_ROUNDS, RAND_ROUNDS};
use crate::cc::bbr::phase::{AckPhase, BbrPhase, BbrState, Wait};
use crate::cc::bbr::{scale_by_share, BbrRate, SCALE, UNIT, UNSET};
use crate::cc::conn::{CaState, Conn};
use crate::cc::RateSample;

impl Climb {
    /// The first round of PROBE_UP, with a step that has doubled `rounds` times.
    pub(super) fn start(conn: &Conn, rounds: u32, start_us: u64) -> Climb {
        let mut climb = Climb { start_us, rounds, cnt: UNSET, acks: 0 };
        climb.raise_slope(conn);
        climb
    }

    /// `inflight_hi` grows twice as fast. Linux `bbr_raise_inflight_hi_slope`.
    pub(super) fn raise_slope(&mut self, conn: &Conn) {
        self.cnt = (conn.cwnd >> self.rounds).max(1);
        self.rounds = (self.rounds + 1).min(MAX_UP_ROUNDS);
    }
}

impl<V: BbrVersion> Machine<V> {
    pub(super) fn start_refill(&mut self, conn: &Conn, up_rounds: u32) {
        self.reset_lower_bounds();
        self.last_probe.precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.begin_round(conn);
        self.enter(BbrPhase::Refill { up_rounds });
    }

    fn start_up(&mut self, conn: &Conn, bw: BbrRate, up_rounds: u32) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.begin_round(conn);
        V::enter_up(self, bw);
        self.enter(BbrPhase::Up(Climb::start(conn, up_rounds, self.now_us)));
    }

    pub(super) fn start_down(&mut self, conn: &Conn) {
        self.reset_signals();
        let rounds = self.rng.draw_below(RAND_ROUNDS) as u32;
        let wait_us = u64::from(self.set.probe_wait_us) + self.rng.draw_below(u64::from(self.set.probe_wait_random_us));
        self.ack_phase = AckPhase::ProbeStopping;
        self.begin_round(conn);
        self.enter(BbrPhase::Down(Wait { until: self.now_us + wait_us, rounds }));
    }

    pub(super) fn start_cruise(&mut self) {
        let BbrPhase::Down(wait) = self.phase else { return };
        if self.bounds.inflight_lo != UNSET {
            self.bounds.inflight_lo = self.bounds.inflight_lo.min(self.bounds.inflight_hi);
        }
        self.enter(BbrPhase::Cruise(wait));
    }

    /// The upper bound limits the window: raises it. Linux `bbr_probe_inflight_hi_upward`.
    pub(super) fn probe_upward(&mut self, conn: &Conn, acked: u32) {
        let limited = self.limited_by_upper_bound(conn);
        let BbrPhase::Up(climb) = &mut self.phase else { return };
        if !limited {
            if V::UP_ACKS_IN_SERIES {
                climb.acks = 0;
            }
            return;
        }
        climb.acks += acked;
        if climb.acks >= climb.cnt {
            let step = climb.acks / climb.cnt;
            climb.acks -= step * climb.cnt;
            self.bounds.inflight_hi = self.bounds.inflight_hi.saturating_add(step).min(UNSET - 1);
            self.try_fast_path &= !V::BOUNDS_END_FAST_PATH;
        }
        if self.round_start {
            climb.raise_slope(conn);
        }
    }

    /// The window is used, and is as large as the upper bound allows.
    pub fn limited_by_upper_bound(&self, conn: &Conn) -> bool {
        conn.is_cwnd_limited && conn.cwnd >= self.bounds.inflight_hi
    }

    /// A probe found too much in flight when `tx_in_flight` was sent. Linux `bbr_handle_inflight_too_high`.
    pub(super) fn handle_too_high(&mut self, conn: &Conn, tx_in_flight: u32, app_limited: bool) {
        self.last_probe.too_high = true;
        self.probe_samples = false;
        if !app_limited {
            self.bounds.inflight_hi = tx_in_flight.max(self.beta_cut(self.target_inflight(conn)));
        }
        if self.phase.state() == BbrState::Up {
            self.start_down(conn);
        }
    }

    /// Segments in flight when the loss of `segments` exceeded the threshold; `tx_in_flight` were when they were sent. Linux
    /// `bbr_inflight_hi_from_lost_skb`.
    pub(super) fn inflight_at_loss(&self, tx_in_flight: u32, lost: u32, segments: u32) -> u32 {
        let (Some(before), Some(lost_before)) = (tx_in_flight.checked_sub(segments), lost.checked_sub(segments)) else {
            return UNSET;
        };
        let thresh = u64::from(self.set.loss_thresh);
        let budget = (u64::from(before) * thresh).div_ceil(u64::from(UNIT));
        let prefix = (budget.saturating_sub(u64::from(lost_before)) << SCALE) / (u64::from(UNIT) - thresh);
        before + prefix as u32
    }

    /// Returns whether a new probe has begun. Linux `bbr_adapt_upper_bounds`.
    pub(super) fn adapt_upper_bounds(&mut self, conn: &Conn, sample: &RateSample) -> bool {
        if self.round_start && self.ack_phase == AckPhase::ProbeStarting {
            self.ack_phase = AckPhase::ProbeFeedback;
        } else if self.round_start && self.ack_phase == AckPhase::ProbeStopping {
            self.probe_samples = false;
            self.ack_phase = AckPhase::Init;
            if self.phase.state().in_cycle() {
                if !sample.is_app_limited && self.bw_hi[1] > BbrRate(0) {
                    self.bw_hi = [self.bw_hi[1], BbrRate(0)];
                }
                if self.last_probe.precautionary && !self.last_probe.too_high {
                    self.start_refill(conn, 0);
                    return true;
                }
            }
        }
        if self.too_high(sample) {
            if self.probe_samples {
                self.handle_too_high(conn, sample.tx_in_flight, sample.is_app_limited);
            }
        } else if self.bounds.inflight_hi != UNSET {
            self.bounds.inflight_hi = self.bounds.inflight_hi.max(sample.tx_in_flight);
            self.probe_upward(conn, sample.ack_delivered);
        }
        false
    }

    /// Begins a probe if it is time. Linux `bbr_check_time_to_probe_bw`.
    pub(super) fn check_time_to_probe(&mut self, conn: &Conn, wait: Wait<u64>) -> bool {
        let gain = self.set.ecn_reprobe_gain;
        if gain > 0 && self.marks.eligible && self.marks.in_cycle && !self.losses.in_cycle && conn.state == CaState::Open {
            let step = scale_by_share(self.bounds.inflight_hi, gain);
            self.start_refill(conn, step.checked_ilog2().unwrap_or(0));
            return true;
        }
        let rounds = MAX_ROUNDS.min(self.target_inflight(conn));
        if self.now_us > wait.until || wait.rounds >= rounds {
            self.start_refill(conn, 0);
            return true;
        }
        false
    }

    /// Linux `bbr_update_cycle_phase`.
    pub(super) fn update_cycle(&mut self, conn: &Conn, sample: &RateSample, bw: BbrRate) {
        if !self.full_bw.reached || self.adapt_upper_bounds(conn, sample) || !self.phase.state().in_cycle() {
            return;
        }
        let in_net = self.in_network(conn, sample.prior_in_flight, sample);
        match self.phase {
            BbrPhase::Cruise(wait) => {
                self.check_time_to_probe(conn, wait);
            }
            BbrPhase::Refill { up_rounds } => {
                if self.round_start {
                    self.probe_samples = true;
                    self.start_up(conn, bw, up_rounds);
                }
            }
            BbrPhase::Up(_) => {
                if V::up_is_over(self, conn, in_net, bw) {
                    self.last_probe.too_high = false;
                    self.start_down(conn);
                }
            }
            BbrPhase::Down(wait) => {
                let probes = self.check_time_to_probe(conn, wait);
                if !probes && in_net <= self.with_headroom() && in_net <= self.inflight_at_max(conn, UNIT) {
                    self.start_cruise();
                }
            }
            BbrPhase::Startup | BbrPhase::Drain { .. } | BbrPhase::ProbeRtt(_) => {}
        }
    }

    /// STARTUP to DRAIN, DRAIN to the cycle. Linux `bbr_check_drain`.
    pub(super) fn check_drain(&mut self, conn: &mut Conn, sample: &RateSample) {
        if self.phase.state() == BbrState::Startup && self.full_bw.reached {
            self.phase.enter(BbrPhase::Drain { start_round: self.rounds });
            conn.leave_slow_start(self.startup_ends_by);
            conn.ssthresh = self.inflight_at_max(conn, UNIT);
            self.reset_signals();
        }
        if self.phase.state() == BbrState::Drain
            && self.in_network(conn, conn.in_flight(), sample) <= self.inflight_at_max(conn, UNIT)
        {
            self.start_down(conn);
        }
    }
}
