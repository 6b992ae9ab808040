//! BBRv1 of Linux 6.1, changed by the patches of BBRv2, which size its bursts; mainline Linux has it without them. It paces at the largest delivery
//! rate of ten rounds, probes it in eight phases of a round trip, keeps twice the bandwidth-delay product in flight, and answers neither losses
//! nor ECN but by a round of packet conservation.

use super::bbr::phase::RttProbe;
use super::bbr::{
    in_network, to_fixed, Aggregation, BbrPacing, BbrRate, Bursts, WindowedMax, AGGREGATION_ROUNDS, GSO_LEGACY_MAX_SIZE,
    MIN_CWND, SCALE, UNIT, UNSET,
};
use super::conn::{CaEvent, CaState, Congestion, Conn, INFINITE_SSTHRESH};
use super::exit::ExitCause;
use super::{CcContext, CongestionControl, Control, LossEvent, Model, RateSample};
use crate::rng::Rng;
use crate::units::Duration;

/// Name in experiment files.
pub const NAME: &str = "bbr1";
/// One line.
pub const TITLE: &str = "BBRv1 of Linux 6.1, changed by the patches of BBRv2, which size its bursts";
/// Specification and deviations.
pub const SOURCE: &str =
    "tcp_bbr.c of Linux 6.1, changed by the patches of BBRv2 (google/bbr, branch v2alpha; CachyOS/kernel-patches 6.1/0001-bbr2.patch), \
    in which the control sizes bursts by itself. Mainline Linux has BBRv1 without these patches. Not modelled: a delayed ACK of a single small segment is not told apart (is_ack_delayed)";

crate::params! {
    /// Parameters.
    pub struct Params {
        /// Pacing rate in STARTUP, and window in STARTUP and DRAIN over the bandwidth-delay product.
        startup_gain: f64 = 739.0 / 256.0, unit "", range 1.0, 7.9, source "bbr_high_gain = 739/256";
        /// Pacing rate in DRAIN.
        drain_gain: f64 = 88.0 / 256.0, unit "", range 0.004, 1.0, source "bbr_drain_gain = 88/256";
        /// Pacing rate in the phase that probes.
        probe_up_gain: f64 = 1.25, unit "", range 1.0, 3.9, source "bbr_pacing_gain: 320/256";
        /// Pacing rate in the phase after it.
        probe_down_gain: f64 = 0.75, unit "", range 0.004, 1.0, source "bbr_pacing_gain: 192/256";
        /// Window over the bandwidth-delay product.
        cwnd_gain: f64 = 2.0, unit "", range 1.0, 7.9, source "bbr_cwnd_gain = 512/256";
        /// Time without a smaller RTT after which PROBE_RTT looks for one.
        min_rtt_window: Duration = Duration::from_secs(10), unit "", range Duration::from_millis(100), Duration::from_secs(3600), source "bbr_min_rtt_win_sec";
        /// Least time that PROBE_RTT takes; 0: there is none.
        probe_rtt_duration: Duration = Duration::from_millis(200), unit "", range Duration(0), Duration::from_secs(10), source "bbr_probe_rtt_mode_ms";
    }
}

/// Bursts do not depend on the RTT.
pub(super) const BURSTS: Bursts = Bursts { near: 0, most: GSO_LEGACY_MAX_SIZE, least: None };
/// Rounds of the filter of rates. Linux `bbr_bw_rtts`.
const BW_ROUNDS: u64 = 10;
/// Phases of the cycle; the first probes, the second drains. Linux `CYCLE_LEN`.
const PHASES: u32 = 8;
/// Number of phases in which the cycle may begin. Linux `bbr_cycle_rand`.
const FIRST_PHASES: u64 = 7;
/// Window before the first RTT, segments. Linux `TCP_INIT_CWND`.
const INIT_CWND: u32 = 10;
/// Growth of the rate that counts as such, and the rounds without it that fill the pipe. Linux `bbr_full_bw_thresh`, `bbr_full_bw_cnt`.
const FULL_BW_THRESH: u32 = UNIT * 5 / 4;
const FULL_BW_ROUNDS: u32 = 3;

/// The state with its variables. Linux `bbr_mode`.
#[derive(Clone, Copy, Debug)]
enum Bbr1Mode {
    Startup,
    Drain,
    ProbeBw {
        phase: u32,
        start_us: u64,
    },
    /// With the end in ms.
    ProbeRtt(RttProbe<u64>),
}

/// Looks for a policer: two intervals in a row with many losses and the same rate. Linux `lt_*`.
#[derive(Clone, Copy, Debug, Default)]
struct LongTerm {
    sampling: bool,
    /// The rate of the policer is known, and used.
    in_use: bool,
    rounds: u32,
    bw: BbrRate,
    /// Begin of the interval: ms, delivered, lost.
    stamp_ms: u64,
    delivered: u64,
    lost: u64,
}

/// Shortest interval, rounds; four times that is the longest. Linux `bbr_lt_intvl_min_rtts`.
const LT_MIN_ROUNDS: u32 = 4;
/// Share of losses in an interval, 50/256. Linux `bbr_lt_loss_thresh`.
const LT_LOSS_THRESH: u64 = 50;
/// Two rates are the same within an eighth, or within 4 kbit/s, bytes per second. Linux `bbr_lt_bw_ratio`, `bbr_lt_bw_diff`.
const LT_BW_RATIO: u32 = UNIT / 8;
const LT_BW_DIFF: u64 = 4000 / 8;
/// Rounds for which the rate is used. Linux `bbr_lt_bw_max_rtts`.
const LT_MAX_ROUNDS: u32 = 48;
/// Pacing margin in the comparison, percent. Linux `bbr_pacing_margin_percent`.
const LT_MARGIN: u64 = 1;

impl LongTerm {
    /// A new interval begins.
    fn begin(&mut self, delivered_us: u64, delivered: u64, lost: u64) {
        *self = LongTerm { stamp_ms: delivered_us / 1000, delivered, lost, rounds: 0, ..*self };
    }

    /// The rate of an interval is `bw`. Returns whether the policer is found. Linux `bbr_lt_bw_interval_done`.
    fn end(&mut self, bw: BbrRate, mss: u32) -> bool {
        if self.bw > BbrRate(0) {
            let difference = BbrRate(bw.0.abs_diff(self.bw.0));
            let alike = u64::from(difference.0) * u64::from(UNIT) <= u64::from(LT_BW_RATIO) * u64::from(self.bw.0);
            if alike || difference.bytes_per_sec(UNIT, mss, LT_MARGIN) <= LT_BW_DIFF {
                self.bw = BbrRate(((u64::from(bw.0) + u64::from(self.bw.0)) >> 1) as u32);
                self.in_use = true;
                self.rounds = 0;
                return true;
            }
        }
        self.bw = bw;
        false
    }

    /// Whether enough was lost.
    fn lossy(lost: u64, delivered: u64) -> bool {
        delivered > 0 && lost << SCALE >= LT_LOSS_THRESH * delivered
    }
}

/// A connection.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    rng: Rng,
    pacing: BbrPacing,
    mode: Bbr1Mode,
    pacing_gain: u32,
    cwnd_gain: u32,
    prior_cwnd: u32,
    prev_state: CaState,
    /// When something was last delivered, us. Linux `delivered_mstamp`.
    delivered_us: u64,
    next_round: u64,
    round_start: bool,
    rounds: u64,
    bw: WindowedMax<BbrRate>,
    full_bw: BbrRate,
    full_bw_rounds: u32,
    full_bw_reached: bool,
    packet_conservation: bool,
    idle_restart: bool,
    min_rtt_us: u32,
    min_rtt_stamp: u64,
    long_term: LongTerm,
    /// Loss marks so far. Linux `tcp_sock.lost`.
    lost: u64,
    aggregation: Aggregation,
}

impl State {
    /// A control with `params` for the connection of `context`.
    pub fn new(params: Params, context: &CcContext) -> State {
        let high_gain = to_fixed(params.startup_gain);
        State {
            rng: Rng::stream(context.seed, NAME, context.flow),
            pacing: BbrPacing::before_connection(high_gain),
            mode: Bbr1Mode::Startup,
            pacing_gain: high_gain,
            cwnd_gain: high_gain,
            prior_cwnd: 0,
            prev_state: CaState::Open,
            delivered_us: 0,
            next_round: 0,
            round_start: false,
            rounds: 0,
            bw: WindowedMax::default(),
            full_bw: BbrRate(0),
            full_bw_rounds: 0,
            full_bw_reached: false,
            packet_conservation: false,
            idle_restart: false,
            min_rtt_us: UNSET,
            min_rtt_stamp: 0,
            long_term: LongTerm::default(),
            lost: 0,
            aggregation: Aggregation::default(),
            params,
        }
    }

    fn bw(&self) -> BbrRate {
        if self.long_term.in_use {
            self.long_term.bw
        } else {
            self.bw.largest()
        }
    }

    /// Linux `bbr_quantization_budget`: room for three bursts, an even number, and two more to probe at all.
    fn add_burst_budget(&self, conn: &Conn, segments: u32) -> u32 {
        let even = (segments.saturating_add(3 * BURSTS.goal(conn, self.min_rtt_us)) + 1) & !1;
        even + if matches!(self.mode, Bbr1Mode::ProbeBw { phase: 0, .. }) { 2 } else { 0 }
    }

    /// Linux `bbr_inflight`.
    fn inflight(&self, conn: &Conn, bw: BbrRate, gain: u32) -> u32 {
        self.add_burst_budget(conn, bw.bdp(self.min_rtt_us, gain, INIT_CWND))
    }

    fn in_network(&self, conn: &Conn, in_flight: u32, sample: &RateSample) -> u32 {
        let rising = (self.pacing_gain > UNIT).then(|| BURSTS.goal(conn, self.min_rtt_us));
        in_network(in_flight, sample, self.bw(), rising)
    }

    /// Linux `bbr_update_bw`.
    fn update_bw(&mut self, conn: &Conn, sample: &RateSample) {
        self.round_start = false;
        let (Some(delivered), Some(interval)) = (sample.sample_delivered, sample.interval_us.filter(|&us| us > 0)) else {
            return;
        };
        if sample.prior_delivered >= self.next_round {
            self.next_round = conn.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.sample_long_term(conn, sample.ack_lost > 0, sample.is_app_limited);
        let bw = BbrRate::floor(delivered, interval);
        if !sample.is_app_limited || bw >= self.bw.largest() {
            self.bw.update(BW_ROUNDS, self.rounds, bw);
        }
    }

    // ---- policers ---------------------------------------------------------------------------------------------------

    fn begin_interval(&mut self, conn: &Conn) {
        self.long_term.begin(self.delivered_us, conn.delivered, self.lost);
    }

    /// Linux `bbr_reset_lt_bw_sampling`.
    fn reset_long_term(&mut self, conn: &Conn) {
        self.long_term = LongTerm::default();
        self.begin_interval(conn);
    }

    /// Linux `bbr_lt_bw_sampling`.
    fn sample_long_term(&mut self, conn: &Conn, losses: bool, app_limited: bool) {
        if self.long_term.in_use {
            if matches!(self.mode, Bbr1Mode::ProbeBw { .. }) && self.round_start {
                self.long_term.rounds += 1;
                if self.long_term.rounds >= LT_MAX_ROUNDS {
                    self.reset_long_term(conn);
                    self.enter_probe_bw();
                }
            }
            return;
        }
        if !self.long_term.sampling {
            if !losses {
                return;
            }
            self.begin_interval(conn);
            self.long_term.sampling = true;
        }
        if app_limited {
            return self.reset_long_term(conn);
        }
        self.long_term.rounds += u32::from(self.round_start);
        if self.long_term.rounds < LT_MIN_ROUNDS {
            return;
        }
        if self.long_term.rounds > 4 * LT_MIN_ROUNDS {
            return self.reset_long_term(conn);
        }
        let lost = self.lost - self.long_term.lost;
        let delivered = conn.delivered - self.long_term.delivered;
        if !losses || !LongTerm::lossy(lost, delivered) {
            return;
        }
        let ms = (self.delivered_us / 1000).saturating_sub(self.long_term.stamp_ms);
        if ms < 1 {
            return;
        }
        if ms >= u64::from(u32::MAX) / 1000 {
            return self.reset_long_term(conn);
        }
        let bw = BbrRate::floor(delivered as u32, ms * 1000);
        if self.long_term.end(bw, conn.mss) {
            self.pacing_gain = UNIT;
        } else {
            self.begin_interval(conn);
        }
    }

    // ---- the cycle --------------------------------------------------------------------------------------------------

    /// Linux `bbr_reset_probe_bw_mode`: any phase but the one that drains.
    fn enter_probe_bw(&mut self) {
        let phase = PHASES - self.rng.draw_below(FIRST_PHASES) as u32;
        self.start_phase(phase);
    }

    fn start_phase(&mut self, phase: u32) {
        self.mode = Bbr1Mode::ProbeBw { phase: phase % PHASES, start_us: self.delivered_us };
    }

    fn phase_gain(&self, phase: u32) -> u32 {
        match phase {
            0 => to_fixed(self.params.probe_up_gain),
            1 => to_fixed(self.params.probe_down_gain),
            _ => UNIT,
        }
    }

    /// The phase that began at `start_us` is over. Linux `bbr_is_next_cycle_phase`.
    fn phase_is_over(&self, conn: &Conn, sample: &RateSample, start_us: u64) -> bool {
        let full_length = self.delivered_us.saturating_sub(start_us) > u64::from(self.min_rtt_us);
        if self.pacing_gain == UNIT {
            return full_length;
        }
        let in_net = self.in_network(conn, sample.prior_in_flight, sample);
        if self.pacing_gain > UNIT {
            let probed = in_net >= self.inflight(conn, self.bw.largest(), self.pacing_gain);
            return full_length && (sample.ack_lost > 0 || probed);
        }
        full_length || in_net <= self.inflight(conn, self.bw.largest(), UNIT)
    }

    /// Linux `bbr_check_full_bw_reached`.
    fn check_full_bw(&mut self, sample: &RateSample) {
        if self.full_bw_reached || !self.round_start || sample.is_app_limited {
            return;
        }
        if self.bw.largest() >= self.full_bw.scale_by_share(FULL_BW_THRESH) {
            self.full_bw = self.bw.largest();
            self.full_bw_rounds = 0;
            return;
        }
        self.full_bw_rounds += 1;
        self.full_bw_reached = self.full_bw_rounds >= FULL_BW_ROUNDS;
    }

    /// Linux `bbr_check_drain`.
    fn check_drain(&mut self, conn: &mut Conn, sample: &RateSample) {
        if matches!(self.mode, Bbr1Mode::Startup) && self.full_bw_reached {
            self.mode = Bbr1Mode::Drain;
            conn.leave_slow_start(ExitCause::Plateau);
            conn.ssthresh = self.inflight(conn, self.bw.largest(), UNIT);
        }
        let bdp = self.inflight(conn, self.bw.largest(), UNIT);
        if matches!(self.mode, Bbr1Mode::Drain) && self.in_network(conn, conn.in_flight(), sample) <= bdp {
            self.enter_probe_bw();
        }
    }

    // ---- RTT --------------------------------------------------------------------------------------------------------

    /// Linux `bbr_save_cwnd`.
    fn save_cwnd(&mut self, conn: &Conn) {
        let whole = self.prev_state < CaState::Recovery && !matches!(self.mode, Bbr1Mode::ProbeRtt(_));
        self.prior_cwnd = if whole { conn.cwnd } else { self.prior_cwnd.max(conn.cwnd) };
    }

    /// Linux `bbr_update_min_rtt`.
    fn update_min_rtt(&mut self, conn: &mut Conn, sample: &RateSample) {
        let now = conn.jiffies();
        let expired = now > self.min_rtt_stamp + self.params.min_rtt_window.as_millis();
        if let Some(rtt) = sample.rtt_us.filter(|&rtt| rtt < self.min_rtt_us || expired) {
            self.min_rtt_us = rtt;
            self.min_rtt_stamp = now;
        }
        let wanted = self.params.probe_rtt_duration > Duration::ZERO;
        if wanted && expired && !self.idle_restart && !matches!(self.mode, Bbr1Mode::ProbeRtt(_)) {
            self.mode = Bbr1Mode::ProbeRtt(RttProbe::default());
            self.save_cwnd(conn);
        }
        if let Bbr1Mode::ProbeRtt(probe) = &mut self.mode {
            conn.holds_back = true;
            if probe.done.is_some() {
                probe.round_done |= self.round_start;
                if probe.round_done {
                    self.check_probe_rtt_done(conn);
                }
            } else if conn.in_flight() <= MIN_CWND {
                probe.done = Some(now + self.params.probe_rtt_duration.as_millis());
                self.next_round = conn.delivered;
            }
        }
        if sample.sample_delivered.is_some_and(|delivered| delivered > 0) {
            self.idle_restart = false;
        }
    }

    /// Linux `bbr_check_probe_rtt_done`.
    fn check_probe_rtt_done(&mut self, conn: &mut Conn) {
        let now = conn.jiffies();
        if !matches!(&self.mode, Bbr1Mode::ProbeRtt(probe) if probe.done.is_some_and(|done| now > done)) {
            return;
        }
        self.min_rtt_stamp = now;
        conn.cwnd = conn.cwnd.max(self.prior_cwnd);
        if self.full_bw_reached {
            if conn.exits.first.is_none() {
                // STARTUP ended meanwhile
                conn.leave_slow_start(ExitCause::Plateau);
            }
            self.enter_probe_bw();
        } else {
            self.mode = Bbr1Mode::Startup;
        }
    }

    // ---- window -----------------------------------------------------------------------------------------------------

    /// Linux `bbr_update_gains`.
    fn update_gains(&mut self) {
        let high = to_fixed(self.params.startup_gain);
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Bbr1Mode::Startup => (high, high),
            Bbr1Mode::Drain => (to_fixed(self.params.drain_gain), high),
            Bbr1Mode::ProbeBw { phase, .. } => {
                let gain = if self.long_term.in_use { UNIT } else { self.phase_gain(phase) };
                (gain, to_fixed(self.params.cwnd_gain))
            }
            Bbr1Mode::ProbeRtt(_) => (UNIT, UNIT),
        };
    }

    /// The window in and after a recovery, and whether it is final: packets are conserved. Linux `bbr_set_cwnd_to_recover_or_restore`.
    fn recover(&mut self, conn: &Conn, sample: &RateSample) -> (u32, bool) {
        let (before, state) = (self.prev_state, conn.state);
        let mut cwnd = conn.cwnd;
        if sample.ack_lost > 0 {
            cwnd = cwnd.saturating_sub(sample.ack_lost).max(1);
        }
        let conserved = conn.in_flight() + sample.ack_delivered;
        if state == CaState::Recovery && before != CaState::Recovery {
            self.packet_conservation = true;
            self.next_round = conn.delivered;
            cwnd = conserved;
        } else if before >= CaState::Recovery && state < CaState::Recovery {
            cwnd = cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.prev_state = state;
        if self.packet_conservation {
            (cwnd.max(conserved), true)
        } else {
            (cwnd, false)
        }
    }

    /// Linux `bbr_set_cwnd`.
    fn set_cwnd(&mut self, conn: &mut Conn, sample: &RateSample, bw: BbrRate) {
        let mut cwnd = conn.cwnd;
        let acked = sample.ack_delivered;
        if acked > 0 {
            let (recovering, last) = self.recover(conn, sample);
            cwnd = recovering;
            if !last {
                let extra = if self.full_bw_reached { self.aggregation.allowance(bw) } else { 0 };
                let target =
                    self.add_burst_budget(conn, bw.bdp(self.min_rtt_us, self.cwnd_gain, INIT_CWND).saturating_add(extra));
                if self.full_bw_reached {
                    cwnd = cwnd.saturating_add(acked).min(target);
                } else if cwnd < target || conn.delivered < u64::from(INIT_CWND) {
                    cwnd = cwnd.saturating_add(acked);
                }
                cwnd = cwnd.max(MIN_CWND);
            }
        }
        conn.cwnd = cwnd.min(conn.cwnd_clamp);
        if matches!(self.mode, Bbr1Mode::ProbeRtt(_)) {
            conn.cwnd = conn.cwnd.min(MIN_CWND);
        }
    }
}

impl CongestionControl for State {
    fn control(&self) -> Control {
        Control::Both
    }
    fn rate_samples(&self) -> bool {
        true
    }
    fn buffered_windows(&self) -> u8 {
        3
    }

    /// Linux negotiates ECN for it as the host says, and tcp_bbr.c reads no marks.
    fn answers(&self, cause: Congestion) -> bool {
        cause != Congestion::Ecn
    }

    fn init(&mut self, conn: &mut Conn) {
        self.delivered_us = conn.now.as_micros();
        self.next_round = conn.delivered;
        conn.ssthresh = INFINITE_SSTHRESH;
        self.min_rtt_us = conn.rtt.min_us();
        self.min_rtt_stamp = conn.jiffies();
        self.pacing = BbrPacing::new(conn, to_fixed(self.params.startup_gain));
        self.aggregation.restart(self.delivered_us);
        self.reset_long_term(conn);
    }

    fn ssthresh(&mut self, conn: &Conn, _cause: Congestion) -> u32 {
        self.save_cwnd(conn);
        conn.ssthresh
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn cong_control(&mut self, conn: &mut Conn, sample: &RateSample) {
        if sample.ack_delivered > 0 {
            self.delivered_us = conn.now.as_micros();
        }
        self.update_bw(conn, sample);
        if sample.ack_delivered > 0 && sample.interval_us.is_some_and(|us| us > 0) {
            let bw = self.bw();
            self.aggregation.update(conn, sample.ack_delivered, bw, self.round_start, AGGREGATION_ROUNDS);
        }
        if let Bbr1Mode::ProbeBw { phase, start_us } = self.mode {
            if self.phase_is_over(conn, sample, start_us) {
                self.start_phase(phase + 1);
            }
        }
        self.check_full_bw(sample);
        self.check_drain(conn, sample);
        self.update_min_rtt(conn, sample);
        self.update_gains();
        let bw = self.bw();
        self.pacing.set(conn, bw, self.pacing_gain, self.full_bw_reached);
        self.set_cwnd(conn, sample, bw);
    }

    fn on_loss(&mut self, _conn: &mut Conn, _loss: &LossEvent) {
        self.lost += 1;
    }

    fn max_burst(&self, conn: &Conn) -> Option<u32> {
        Some(BURSTS.burst_segments(conn, self.min_rtt_us))
    }

    fn cwnd_event(&mut self, conn: &mut Conn, event: CaEvent) {
        let CaEvent::TxStart { app_limited, .. } = event else { return };
        // Linux tcp_rate_skb_sent: what is sent into an empty network restarts the clock
        self.delivered_us = conn.now.as_micros();
        if !app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(self.delivered_us);
        if matches!(self.mode, Bbr1Mode::ProbeBw { .. }) {
            let bw = self.bw();
            self.pacing.set(conn, bw, UNIT, self.full_bw_reached);
        } else {
            self.check_probe_rtt_done(conn);
        }
    }

    fn set_state(&mut self, conn: &mut Conn, state: CaState) {
        if state == CaState::Loss {
            self.prev_state = CaState::Loss;
            self.full_bw = BbrRate(0);
            // a timeout counts as the start of a round with losses
            self.round_start = true;
            self.sample_long_term(conn, true, false);
        }
    }

    fn undo_cwnd(&mut self, conn: &mut Conn) -> u32 {
        self.full_bw = BbrRate(0);
        self.full_bw_rounds = 0;
        self.reset_long_term(conn);
        conn.cwnd
    }

    fn model(&self, conn: &Conn) -> Option<Model> {
        let share = |gain: u32| f64::from(gain) / f64::from(UNIT);
        let state = match self.mode {
            Bbr1Mode::Startup => "startup",
            Bbr1Mode::Drain => "drain",
            Bbr1Mode::ProbeRtt(_) => "probe_rtt",
            Bbr1Mode::ProbeBw { .. } if self.pacing_gain > UNIT => "probe_up",
            Bbr1Mode::ProbeBw { .. } if self.pacing_gain < UNIT => "probe_down",
            Bbr1Mode::ProbeBw { .. } => "probe_cruise",
        };
        Some(Model {
            state,
            round: self.rounds,
            max_bw: self.bw.largest().payload(conn.mss),
            bw: self.bw().payload(conn.mss),
            min_rtt_us: (self.min_rtt_us != UNSET).then_some(self.min_rtt_us),
            extra_acked: self.aggregation.extra(),
            inflight: self.inflight(conn, self.bw(), UNIT),
            pacing_gain: share(self.pacing_gain),
            cwnd_gain: share(self.cwnd_gain),
            full_bw_now: Some(self.full_bw_reached),
            full_bw_reached: Some(self.full_bw_reached),
            idle_restart: Some(self.idle_restart),
            ..Model::default()
        })
    }
}

#[cfg(test)]
mod tests;
