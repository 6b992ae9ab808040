//! The machine of BBRv2 and v3: bounds of rate and volume, the cycle that probes them, ECN, PROBE_RTT. What a version does otherwise is its
//! [`Version`], in a file of its own.
//!
//! The order of work is that of Linux `tcp_bbr2.c` and `tcp_bbr.c` (google/bbr); bounds have their Linux names: `bw_lo`, `inflight_lo`, `inflight_hi`.

use super::{
    bdp, in_network, payload_rate, rate_ceil, Aggregation, Bursts, Pacing, AGGREGATION_ROUNDS, MIN_CWND, SCALE, UNIT, UNSET,
};
use crate::cc::conn::{CaEvent, CaState, Congestion, Conn, INFINITE_SSTHRESH};
use crate::cc::{CcContext, CongestionControl, Control, Echo, EcnUse, LossEvent, Model, RateSample};
use crate::rng::Rng;

/// Most rounds by which a probe waits for Reno. Linux `bbr_bw_probe_max_rounds`.
const MAX_ROUNDS: u32 = 63;
/// Bound of what is drawn for the rounds since the last probe. Linux `bbr_bw_probe_rand_rounds`.
const RAND_ROUNDS: u64 = 2;
/// Rounds of growth below the threshold that fill the pipe. Linux `bbr_full_bw_cnt`.
pub const FULL_BW_ROUNDS: u32 = 3;
/// Growth of the rate that counts as such. Linux `bbr_full_bw_thresh`.
const FULL_BW_THRESH: u32 = UNIT * 5 / 4;
/// Rounds with too many marks that end STARTUP. Linux `bbr_full_ecn_cnt`.
const FULL_ECN_ROUNDS: u32 = 2;
/// Most that the counter of ACKs with losses of a round holds. Linux `loss_events_in_round`, 4 bits.
const MAX_LOSS_EVENTS: u32 = 15;
/// Most that the counter of rounds since a probe holds. Linux `rounds_since_probe`, 8 bits.
const MAX_ROUNDS_COUNTED: u32 = 255;
/// Most doublings of the step in one probe. Linux `bbr_raise_inflight_hi_slope`.
const MAX_UP_ROUNDS: u32 = 30;
/// Most of the initial window that is remembered. Linux `init_cwnd`, 7 bits.
const MAX_INIT_CWND: u32 = 127;

/// Parameters in the units of the machine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// STARTUP.
    pub startup_pacing_gain: u32,
    pub startup_cwnd_gain: u32,
    pub drain_gain: u32,
    pub up_gain: u32,
    pub down_gain: u32,
    pub cwnd_gain: u32,
    /// In PROBE_UP.
    pub up_cwnd_gain: u32,
    pub probe_rtt_cwnd_gain: u32,
    /// Share of the bounds that a loss takes.
    pub beta: u32,
    pub loss_thresh: u32,
    pub headroom: u32,
    /// ACKs with losses in a round that end STARTUP.
    pub full_loss_cnt: u32,
    /// Whether it answers ECN, and up to which `min_rtt`, us (0: any).
    pub ecn: bool,
    pub ecn_max_rtt_us: u32,
    pub ecn_alpha_gain: u32,
    pub ecn_factor: u32,
    pub ecn_thresh: u32,
    /// Share of `inflight_hi` that the first step of a probe after marks makes; 0: there is no such probe.
    pub ecn_reprobe_gain: u32,
    pub probe_base_us: u32,
    pub probe_rand_us: u32,
    pub min_rtt_ms: u64,
    pub probe_rtt_interval_ms: u64,
    pub probe_rtt_ms: u64,
}

/// Where the machine stands. Linux `mode` and `cycle_idx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Startup => "startup",
            Mode::Drain => "drain",
            Mode::Down => "probe_down",
            Mode::Cruise => "probe_cruise",
            Mode::Refill => "probe_refill",
            Mode::Up => "probe_up",
            Mode::ProbeRtt => "probe_rtt",
        }
    }

    /// Linux `BBR_PROBE_BW`.
    fn in_cycle(self) -> bool {
        matches!(self, Mode::Down | Mode::Cruise | Mode::Refill | Mode::Up)
    }
}

/// Which part of a probe the ACKs that arrive answer. Linux `bbr_ack_phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The search for a rate that grows no more.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullBw {
    /// Largest rate so far.
    pub bw: u32,
    /// Rounds without growth since.
    pub rounds: u32,
    /// Found, in this search.
    pub now: bool,
}

impl FullBw {
    /// From here on `bw` has to be exceeded.
    pub fn from(bw: u32) -> FullBw {
        FullBw { bw, ..FullBw::default() }
    }

    /// `bw` is growth.
    pub fn grows(&self, bw: u32) -> bool {
        u64::from(bw) >= u64::from(self.bw) * u64::from(FULL_BW_THRESH) >> SCALE
    }
}

/// What tells BBRv2 and BBRv3 apart.
pub trait Version: Sized + Clone + std::fmt::Debug {
    /// How it sizes bursts.
    const BURSTS: Bursts;
    /// An equal RTT refreshes the estimate whose age asks for PROBE_RTT.
    const EQUAL_RTT_REFRESHES: bool;
    /// Exactly the threshold's share of marks is too much.
    const MARKS_AT_THRESHOLD: bool;
    /// The average of marks is kept, and a round remembers ECE, only once ECN may be used.
    const ALPHA_WHEN_ELIGIBLE: bool;
    /// The latest signals are taken before the fast path, and forgotten at the end of an ACK.
    const LATEST_BEFORE: bool;
    /// In PROBE_UP, ACKs count towards the next step only in an unbroken series of ACKs that the window limits.
    const UP_ACKS_IN_SERIES: bool;
    /// A loss that a probe repairs counts.
    const PROBE_LOSSES: bool;
    /// A timeout ends the search for a full pipe, and does not only lower what is to be exceeded.
    const TIMEOUT_ENDS_SEARCH: bool;
    /// What raises a bound, or undoes a cut, ends the fast path.
    const BOUNDS_END_FAST_PATH: bool;

    /// Looks whether the rate `bw` of this ACK still grows.
    fn check_full_bw(machine: &mut Machine<Self>, sample: &RateSample, bw: u32);

    /// PROBE_UP begins with an ACK of rate `bw`.
    fn enter_up(machine: &mut Machine<Self>, bw: u32);

    /// Whether PROBE_UP ends, after an ACK of rate `bw` with `in_net` segments in the network.
    fn up_is_over(machine: &mut Machine<Self>, conn: &Conn, in_net: u32, bw: u32) -> bool;

    /// `inflight_hi` after a STARTUP that losses or marks ended.
    fn inflight_hi_after_startup(machine: &Machine<Self>, inflight: u32) -> u32;
}

/// A connection of BBRv2 or BBRv3.
#[derive(Clone, Debug)]
pub struct Machine<V: Version> {
    set: Settings,
    rng: Rng,
    pacing: Pacing,
    pub(in crate::cc) mode: Mode,
    ack_phase: AckPhase,
    pacing_gain: u32,
    cwnd_gain: u32,
    init_cwnd: u32,
    prior_cwnd: u32,
    prev_state: CaState,
    now_us: u64,

    // rounds
    next_round: u64,
    pub(in crate::cc) round_start: bool,
    rounds: u64,
    pub(in crate::cc) full: FullBw,
    pub(in crate::cc) full_bw_reached: bool,
    try_fast_path: bool,
    idle_restart: bool,

    // RTT
    pub(in crate::cc) min_rtt_us: u32,
    min_rtt_stamp: u64,
    probe_rtt_min_us: u32,
    probe_rtt_min_stamp: u64,
    /// When PROBE_RTT may end, ms.
    probe_rtt_done: Option<u64>,
    probe_rtt_round_done: bool,

    // bounds
    /// Largest rate of the last and of this cycle.
    bw_hi: [u32; 2],
    bw_lo: u32,
    inflight_lo: u32,
    pub(in crate::cc) inflight_hi: u32,
    /// Largest rate and volume of the round of losses.
    bw_latest: u32,
    pub(in crate::cc) inflight_latest: u32,
    undo: [u32; 3],
    aggregation: Aggregation,

    // congestion signals
    loss_round_delivered: u64,
    loss_round_start: bool,
    loss_in_round: bool,
    loss_in_cycle: bool,
    loss_events: u32,
    ecn_in_round: bool,
    ecn_in_cycle: bool,
    ecn_eligible: bool,
    ecn_alpha: u32,
    alpha_delivered: u64,
    alpha_delivered_ce: u64,
    startup_ecn_rounds: u32,

    // the cycle
    cycle_us: u64,
    probe_wait_us: u64,
    rounds_since_probe: u32,
    up_rounds: u32,
    up_cnt: u32,
    up_acks: u32,
    /// ACKs that arrive answer what a probe sent.
    probe_samples: bool,
    pub(in crate::cc) prev_probe_too_high: bool,
    pub(in crate::cc) stopped_risky: bool,
    version: std::marker::PhantomData<V>,
}

impl<V: Version> Machine<V> {
    /// A machine with `set`; `name` is that of its random stream.
    pub fn with(set: Settings, name: &str, context: &CcContext) -> Machine<V> {
        let high_gain = set.startup_pacing_gain;
        Machine {
            rng: Rng::stream(context.seed, name, context.flow),
            // replaced when the connection is established
            pacing: Pacing::before(high_gain),
            mode: Mode::Startup,
            ack_phase: AckPhase::Init,
            pacing_gain: set.startup_pacing_gain,
            cwnd_gain: set.startup_cwnd_gain,
            init_cwnd: 0,
            prior_cwnd: 0,
            prev_state: CaState::Open,
            now_us: 0,
            next_round: 0,
            round_start: false,
            rounds: 0,
            full: FullBw::default(),
            full_bw_reached: false,
            try_fast_path: false,
            idle_restart: false,
            min_rtt_us: UNSET,
            min_rtt_stamp: 0,
            probe_rtt_min_us: UNSET,
            probe_rtt_min_stamp: 0,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            bw_hi: [0; 2],
            bw_lo: UNSET,
            inflight_lo: UNSET,
            inflight_hi: UNSET,
            bw_latest: 0,
            inflight_latest: 0,
            undo: [0; 3],
            aggregation: Aggregation::default(),
            loss_round_delivered: 0,
            loss_round_start: false,
            loss_in_round: false,
            loss_in_cycle: false,
            loss_events: 0,
            ecn_in_round: false,
            ecn_in_cycle: false,
            ecn_eligible: false,
            ecn_alpha: UNIT,
            alpha_delivered: 0,
            alpha_delivered_ce: 0,
            startup_ecn_rounds: 0,
            cycle_us: 0,
            probe_wait_us: 0,
            rounds_since_probe: 0,
            up_rounds: 0,
            up_cnt: UNSET,
            up_acks: 0,
            probe_samples: false,
            prev_probe_too_high: false,
            stopped_risky: false,
            set,
            version: std::marker::PhantomData,
        }
    }

    /// Largest rate of the filter.
    pub fn max_bw(&self) -> u32 {
        self.bw_hi[0].max(self.bw_hi[1])
    }

    fn bw(&self) -> u32 {
        self.max_bw().min(self.bw_lo)
    }

    fn bdp(&self, bw: u32, gain: u32) -> u32 {
        bdp(bw, self.min_rtt_us, gain, self.init_cwnd)
    }

    /// Room for bursts, and to probe at all. Linux `bbr_quantization_budget`.
    fn quantised(&self, conn: &Conn, segments: u32) -> u32 {
        let least = segments.max(3 * V::BURSTS.goal(conn, self.min_rtt_us)).max(MIN_CWND);
        least + if self.mode == Mode::Up { 2 } else { 0 }
    }

    /// What `gain` times `bw` has in flight. Linux `bbr_inflight`.
    pub fn inflight(&self, conn: &Conn, bw: u32, gain: u32) -> u32 {
        self.quantised(conn, self.bdp(bw, gain))
    }

    /// Linux `bbr_target_inflight`.
    fn target_inflight(&self, conn: &Conn) -> u32 {
        self.inflight(conn, self.bw(), UNIT).min(conn.cwnd)
    }

    fn in_network(&self, conn: &Conn, in_flight: u32, sample: &RateSample) -> u32 {
        let rising = (self.pacing_gain > UNIT).then(|| V::BURSTS.goal(conn, self.min_rtt_us));
        in_network(in_flight, sample, self.bw(), rising)
    }

    fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp(self.bw(), self.set.probe_rtt_cwnd_gain).max(MIN_CWND)
    }

    fn beta_cut(&self, value: u32) -> u32 {
        (u64::from(value) * u64::from(UNIT - self.set.beta) >> SCALE) as u32
    }

    /// `inflight_hi` less what is left to others; `UNSET` if it is not set. Linux `bbr_inflight_with_headroom`.
    fn with_headroom(&self) -> u32 {
        if self.inflight_hi == UNSET {
            return UNSET;
        }
        let headroom = ((u64::from(self.inflight_hi) * u64::from(self.set.headroom)) >> SCALE).max(1);
        (u64::from(self.inflight_hi).saturating_sub(headroom) as u32).max(MIN_CWND)
    }

    /// More than this time has passed in this phase. Linux `bbr_has_elapsed_in_phase`.
    pub fn has_elapsed(&self, us: u64) -> bool {
        self.now_us > self.cycle_us + us
    }

    /// `inflight` of the largest rate, with `gain`.
    pub fn inflight_at_max(&self, conn: &Conn, gain: u32) -> u32 {
        self.inflight(conn, self.max_bw(), gain)
    }

    fn begin_round(&mut self, conn: &Conn) {
        self.next_round = conn.delivered;
    }

    fn enter(&mut self, mode: Mode) {
        self.mode = mode;
        self.try_fast_path = false;
    }

    // ---- ECN --------------------------------------------------------------------------------------------------------

    /// A round is over: averages its share of marks. Linux `bbr_update_ecn_alpha`.
    fn update_alpha(&mut self, conn: &Conn) {
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
        self.ecn_alpha = ((((UNIT - gain) * self.ecn_alpha) >> SCALE) + ((gain * ratio) >> SCALE)).min(UNIT);
        self.alpha_delivered = conn.delivered;
        self.alpha_delivered_ce = conn.delivered_ce;
        if self.full_bw_reached || !self.ecn_eligible {
            return;
        }
        self.startup_ecn_rounds = if ratio >= self.set.ecn_thresh { self.startup_ecn_rounds + 1 } else { 0 };
        if self.startup_ecn_rounds >= FULL_ECN_ROUNDS {
            self.leave_startup_for_congestion(conn);
        }
    }

    // ---- congestion signals -----------------------------------------------------------------------------------------

    /// Losses or marks end STARTUP. Linux `bbr_handle_queue_too_high_in_startup`.
    fn leave_startup_for_congestion(&mut self, conn: &Conn) {
        self.full_bw_reached = true;
        self.inflight_hi = V::inflight_hi_after_startup(self, self.inflight_at_max(conn, UNIT));
    }

    /// A segment was lost: the round of losses begins with the first one. Linux `bbr_note_loss`.
    fn note_loss(&mut self, conn: &Conn) {
        if !self.loss_in_round {
            self.loss_round_delivered = conn.delivered;
        }
        self.loss_in_round = true;
        self.loss_in_cycle = true;
    }

    fn probing(&self) -> bool {
        matches!(self.mode, Mode::Startup | Mode::Refill | Mode::Up)
    }

    /// Linux `bbr_update_latest_delivery_signals`.
    fn take_latest(&mut self, conn: &Conn, sample: &RateSample, bw: u32) {
        self.bw_latest = self.bw_latest.max(bw);
        self.inflight_latest = self.inflight_latest.max(sample.delivered.unwrap_or(0));
        if sample.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = conn.delivered;
            self.loss_round_start = true;
        }
    }

    fn forget_latest(&mut self, sample: &RateSample, bw: u32) {
        self.bw_latest = bw;
        self.inflight_latest = sample.delivered.unwrap_or(0);
    }

    /// Linux `bbr_update_congestion_signals`.
    fn update_signals(&mut self, conn: &Conn, sample: &RateSample, bw: u32) {
        if !sample.is_app_limited || bw >= self.max_bw() {
            self.bw_hi[1] = self.bw_hi[1].max(bw);
        }
        self.loss_in_round |= sample.newly_lost > 0;
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
    fn adapt_lower_bounds(&mut self, conn: &Conn) {
        if self.probing() {
            return;
        }
        let mut by_ecn = UNSET;
        if self.ecn_in_round && self.ecn_eligible && self.set.ecn_factor > 0 {
            if self.inflight_lo == UNSET {
                self.inflight_lo = conn.cwnd;
            }
            by_ecn = (u64::from(self.inflight_lo) * u64::from(self.ecn_cut()) >> SCALE) as u32;
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
    fn ecn_cut(&self) -> u32 {
        UNIT - ((self.ecn_alpha * self.set.ecn_factor) >> SCALE)
    }

    fn reset_lower_bounds(&mut self) {
        self.bw_lo = UNSET;
        self.inflight_lo = UNSET;
    }

    fn reset_signals(&mut self) {
        self.loss_in_round = false;
        self.loss_in_cycle = false;
        self.ecn_in_round = false;
        self.ecn_in_cycle = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    /// Linux `bbr_is_inflight_too_high`.
    fn too_high(&self, sample: &RateSample) -> bool {
        self.too_many_lost(sample.lost, sample.tx_in_flight)
            || self.too_many_marked(sample.delivered_ce, sample.delivered.unwrap_or(0))
    }

    fn too_many_lost(&self, lost: u32, tx_in_flight: u32) -> bool {
        let most = u64::from(tx_in_flight) * u64::from(self.set.loss_thresh) >> SCALE;
        tx_in_flight > 0 && u64::from(lost) > most
    }

    fn too_many_marked(&self, marked: u32, delivered: u32) -> bool {
        let most = (u64::from(delivered) * u64::from(self.set.ecn_thresh) >> SCALE) as u32;
        let over = marked > most || (V::MARKS_AT_THRESHOLD && marked == most);
        over && marked > 0 && delivered > 0 && self.ecn_eligible
    }

    /// ACKs with losses in STARTUP. Linux `bbr_check_loss_too_high_in_startup`.
    fn check_startup_loss(&mut self, conn: &Conn, sample: &RateSample) {
        if self.full_bw_reached {
            return;
        }
        if sample.newly_lost > 0 {
            self.loss_events = (self.loss_events + 1).min(MAX_LOSS_EVENTS);
        }
        if !self.loss_round_start {
            return;
        }
        let many = conn.state == CaState::Recovery && self.loss_events >= self.set.full_loss_cnt;
        if many && self.too_high(sample) {
            self.leave_startup_for_congestion(conn);
        } else {
            self.loss_events = 0;
        }
    }

    // ---- the cycle --------------------------------------------------------------------------------------------------

    fn start_refill(&mut self, conn: &Conn, up_rounds: u32) {
        self.reset_lower_bounds();
        self.up_rounds = up_rounds;
        self.up_acks = 0;
        self.stopped_risky = false;
        self.ack_phase = AckPhase::Refilling;
        self.begin_round(conn);
        self.enter(Mode::Refill);
    }

    fn start_up(&mut self, conn: &Conn, bw: u32) {
        self.ack_phase = AckPhase::Starting;
        self.begin_round(conn);
        self.cycle_us = self.now_us;
        V::enter_up(self, bw);
        self.enter(Mode::Up);
        self.raise_slope(conn);
    }

    fn start_down(&mut self, conn: &Conn) {
        self.reset_signals();
        self.up_cnt = UNSET;
        self.rounds_since_probe = self.rng.below(RAND_ROUNDS) as u32;
        self.probe_wait_us = u64::from(self.set.probe_base_us) + self.rng.below(u64::from(self.set.probe_rand_us));
        self.cycle_us = self.now_us;
        self.ack_phase = AckPhase::Stopping;
        self.begin_round(conn);
        self.enter(Mode::Down);
    }

    fn start_cruise(&mut self) {
        if self.inflight_lo != UNSET {
            self.inflight_lo = self.inflight_lo.min(self.inflight_hi);
        }
        self.enter(Mode::Cruise);
    }

    /// `inflight_hi` grows twice as fast. Linux `bbr_raise_inflight_hi_slope`.
    fn raise_slope(&mut self, conn: &Conn) {
        self.up_cnt = (conn.cwnd >> self.up_rounds).max(1);
        self.up_rounds = (self.up_rounds + 1).min(MAX_UP_ROUNDS);
    }

    /// The upper bound limits the window: raises it. Linux `bbr_probe_inflight_hi_upward`.
    fn probe_upward(&mut self, conn: &Conn, acked: u32) {
        if !self.limited_by_upper_bound(conn) {
            if V::UP_ACKS_IN_SERIES {
                self.up_acks = 0;
            }
            return;
        }
        self.up_acks += acked;
        if self.up_acks >= self.up_cnt {
            let step = self.up_acks / self.up_cnt;
            self.up_acks -= step * self.up_cnt;
            self.inflight_hi = self.inflight_hi.saturating_add(step).min(UNSET - 1);
            self.try_fast_path &= !V::BOUNDS_END_FAST_PATH;
        }
        if self.round_start {
            self.raise_slope(conn);
        }
    }

    /// The window is used, and is as large as the upper bound allows.
    pub fn limited_by_upper_bound(&self, conn: &Conn) -> bool {
        conn.is_cwnd_limited && conn.cwnd >= self.inflight_hi
    }

    /// A probe found too much in flight when `tx_in_flight` was sent. Linux `bbr_handle_inflight_too_high`.
    fn handle_too_high(&mut self, conn: &Conn, tx_in_flight: u32, app_limited: bool) {
        self.prev_probe_too_high = true;
        self.probe_samples = false;
        if !app_limited {
            self.inflight_hi = tx_in_flight.max(self.beta_cut(self.target_inflight(conn)));
        }
        if self.mode == Mode::Up {
            self.start_down(conn);
        }
    }

    /// What was in flight when the loss of `segment` went over the threshold, of `tx_in_flight` when it was sent. Linux
    /// `bbr_inflight_hi_from_lost_skb`.
    fn inflight_at_loss(&self, tx_in_flight: u32, lost: u32, segments: u32) -> u32 {
        let (Some(before), Some(lost_before)) = (tx_in_flight.checked_sub(segments), lost.checked_sub(segments)) else {
            return UNSET;
        };
        let thresh = u64::from(self.set.loss_thresh);
        let budget = (u64::from(before) * thresh).div_ceil(u64::from(UNIT));
        let prefix = (budget.saturating_sub(u64::from(lost_before)) << SCALE) / (u64::from(UNIT) - thresh);
        before + prefix as u32
    }

    /// Returns whether a new probe has begun. Linux `bbr_adapt_upper_bounds`.
    fn adapt_upper_bounds(&mut self, conn: &Conn, sample: &RateSample) -> bool {
        if self.round_start && self.ack_phase == AckPhase::Starting {
            self.ack_phase = AckPhase::Feedback;
        } else if self.round_start && self.ack_phase == AckPhase::Stopping {
            self.probe_samples = false;
            self.ack_phase = AckPhase::Init;
            if self.mode.in_cycle() {
                if !sample.is_app_limited && self.bw_hi[1] > 0 {
                    self.bw_hi = [self.bw_hi[1], 0];
                }
                if self.stopped_risky && !self.prev_probe_too_high {
                    self.start_refill(conn, 0);
                    return true;
                }
            }
        }
        if self.too_high(sample) {
            if self.probe_samples {
                self.handle_too_high(conn, sample.tx_in_flight, sample.is_app_limited);
            }
        } else if self.inflight_hi != UNSET {
            self.inflight_hi = self.inflight_hi.max(sample.tx_in_flight);
            if self.mode == Mode::Up {
                self.probe_upward(conn, sample.newly_delivered);
            }
        }
        false
    }

    /// Begins a probe if it is time. Linux `bbr_check_time_to_probe_bw`.
    fn check_time_to_probe(&mut self, conn: &Conn) -> bool {
        let gain = self.set.ecn_reprobe_gain;
        if gain > 0 && self.ecn_eligible && self.ecn_in_cycle && !self.loss_in_cycle && conn.state == CaState::Open {
            let step = u64::from(self.inflight_hi) * u64::from(gain) >> SCALE;
            self.start_refill(conn, step.checked_ilog2().unwrap_or(0));
            return true;
        }
        let rounds = MAX_ROUNDS.min(self.target_inflight(conn));
        if self.has_elapsed(self.probe_wait_us) || self.rounds_since_probe >= rounds {
            self.start_refill(conn, 0);
            return true;
        }
        false
    }

    /// Linux `bbr_update_cycle_phase`.
    fn update_cycle(&mut self, conn: &Conn, sample: &RateSample, bw: u32) {
        if !self.full_bw_reached || self.adapt_upper_bounds(conn, sample) || !self.mode.in_cycle() {
            return;
        }
        let in_net = self.in_network(conn, sample.prior_in_flight, sample);
        match self.mode {
            Mode::Cruise => {
                self.check_time_to_probe(conn);
            }
            Mode::Refill => {
                if self.round_start {
                    self.probe_samples = true;
                    self.start_up(conn, bw);
                }
            }
            Mode::Up => {
                if V::up_is_over(self, conn, in_net, bw) {
                    self.prev_probe_too_high = false;
                    self.start_down(conn);
                }
            }
            Mode::Down => {
                let probes = self.check_time_to_probe(conn);
                if !probes && in_net <= self.with_headroom() && in_net <= self.inflight_at_max(conn, UNIT) {
                    self.start_cruise();
                }
            }
            Mode::Startup | Mode::Drain | Mode::ProbeRtt => {}
        }
    }

    /// STARTUP to DRAIN, DRAIN to the cycle. Linux `bbr_check_drain`.
    fn check_drain(&mut self, conn: &mut Conn, sample: &RateSample) {
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            conn.ssthresh = self.inflight_at_max(conn, UNIT);
            self.reset_signals();
        }
        if self.mode == Mode::Drain && self.in_network(conn, conn.in_flight(), sample) <= self.inflight_at_max(conn, UNIT) {
            self.start_down(conn);
        }
    }

    // ---- RTT --------------------------------------------------------------------------------------------------------

    /// Linux `bbr_save_cwnd`.
    fn save_cwnd(&mut self, conn: &Conn) {
        let whole = self.prev_state < CaState::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if whole { conn.cwnd } else { self.prior_cwnd.max(conn.cwnd) };
    }

    /// Linux `bbr_update_min_rtt`.
    fn update_min_rtt(&mut self, conn: &mut Conn, sample: &RateSample) {
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
        if self.set.probe_rtt_ms > 0 && expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            // in the order of Linux: the mode is part of what is saved
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(conn);
            self.probe_rtt_done = None;
            self.ack_phase = AckPhase::Stopping;
            self.begin_round(conn);
        }
        if self.mode == Mode::ProbeRtt {
            self.stay_in_probe_rtt(conn, now);
        }
        if sample.delivered.is_some_and(|delivered| delivered > 0) {
            self.idle_restart = false;
        }
    }

    fn stay_in_probe_rtt(&mut self, conn: &mut Conn, now: u64) {
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
    fn check_probe_rtt_done(&mut self, conn: &mut Conn) {
        let now = conn.jiffies();
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.probe_rtt_min_stamp = now;
        conn.cwnd = conn.cwnd.max(self.prior_cwnd);
        self.reset_lower_bounds();
        if self.full_bw_reached {
            self.start_down(conn);
            self.start_cruise();
        } else {
            self.mode = Mode::Startup;
        }
    }

    // ---- window and rate --------------------------------------------------------------------------------------------

    /// Linux `bbr_update_gains`.
    fn update_gains(&mut self) {
        let set = &self.set;
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (set.startup_pacing_gain, set.startup_cwnd_gain),
            Mode::Drain => (set.drain_gain, set.startup_cwnd_gain),
            Mode::Down => (set.down_gain, set.cwnd_gain),
            Mode::Cruise | Mode::Refill => (UNIT, set.cwnd_gain),
            Mode::Up => (set.up_gain, set.up_cwnd_gain),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// Linux `bbr_set_cwnd`.
    fn set_cwnd(&mut self, conn: &mut Conn, acked: u32, bw: u32) {
        let mut cwnd = conn.cwnd;
        if acked > 0 {
            let target = self.bdp(bw, self.cwnd_gain).saturating_add(self.aggregation.allowance(bw));
            let target = self.quantised(conn, target);
            self.try_fast_path = if self.full_bw_reached {
                cwnd = cwnd.saturating_add(acked).min(target);
                cwnd == target
            } else if cwnd < target || cwnd < 2 * self.init_cwnd {
                cwnd = cwnd.saturating_add(acked);
                false
            } else {
                true
            };
            cwnd = cwnd.max(MIN_CWND);
        }
        conn.cwnd = cwnd.min(conn.cwnd_clamp);
        if self.mode == Mode::ProbeRtt {
            conn.cwnd = conn.cwnd.min(self.probe_rtt_cwnd());
        }
    }

    /// Linux `bbr_bound_cwnd_for_inflight_model`.
    fn bound_cwnd(&self, conn: &mut Conn) {
        let cap = match self.mode {
            Mode::Down | Mode::Refill | Mode::Up => self.inflight_hi,
            Mode::Cruise | Mode::ProbeRtt => self.with_headroom(),
            Mode::Startup | Mode::Drain => UNSET,
        };
        conn.cwnd = conn.cwnd.min(cap.min(self.inflight_lo).max(MIN_CWND));
    }

    fn update_model(&mut self, conn: &mut Conn, sample: &RateSample, bw: u32) {
        if sample.interval_us.is_some_and(|us| us > 0) && sample.newly_delivered > 0 {
            self.update_signals(conn, sample, bw);
            let window = if self.full_bw_reached { AGGREGATION_ROUNDS } else { 1 };
            let estimate = self.bw();
            self.aggregation.update(conn, sample.newly_delivered, estimate, self.round_start, window);
        }
        self.check_startup_loss(conn, sample);
        V::check_full_bw(self, sample, bw);
        self.check_drain(conn, sample);
        self.update_cycle(conn, sample, bw);
        self.update_min_rtt(conn, sample);
    }

    /// The application is the limit, and nothing in the model can change: only what follows time is looked at. Returns whether that was
    /// all, and whether the model is to be updated if not. Linux `bbr_run_fast_path`.
    fn fast_path(&mut self, conn: &mut Conn, sample: &RateSample, bw: u32) -> Option<bool> {
        let plain = self.try_fast_path && sample.is_app_limited && bw < self.max_bw();
        if !plain || self.loss_in_round || self.ecn_in_round {
            return Some(true);
        }
        let before = (self.mode, self.min_rtt_us);
        self.check_drain(conn, sample);
        self.update_cycle(conn, sample, bw);
        self.update_min_rtt(conn, sample);
        // Linux compares the mode without the phase of the cycle, whose changes end the fast path
        let same = before == (self.mode, self.min_rtt_us) && self.try_fast_path;
        if same {
            None
        } else {
            Some(false)
        }
    }
}

impl<V: Version> CongestionControl for Machine<V> {
    const CONTROL: Control = Control::Both;
    const RATE_SAMPLES: bool = true;
    const BUFFERED_WINDOWS: u8 = 3;

    fn ecn(&self) -> EcnUse {
        let echo = if self.set.ecn { Echo::PerPacket } else { Echo::UntilCwr };
        EcnUse { echo, every_packet: self.set.ecn, ..EcnUse::default() }
    }

    fn init(&mut self, conn: &mut Conn) {
        self.now_us = conn.now.as_micros();
        self.init_cwnd = conn.cwnd.min(MAX_INIT_CWND);
        self.prior_cwnd = conn.prior_cwnd;
        conn.ssthresh = INFINITE_SSTHRESH;
        let min_rtt = conn.rtt.min_us();
        (self.min_rtt_us, self.probe_rtt_min_us) = (min_rtt, min_rtt);
        (self.min_rtt_stamp, self.probe_rtt_min_stamp) = (conn.jiffies(), conn.jiffies());
        self.pacing = Pacing::new(conn, self.set.startup_pacing_gain);
        self.aggregation.restart(self.now_us);
        self.loss_round_delivered = conn.delivered + 1;
    }

    /// The window is BBR's own: what is saved is for the end of a timeout, and for an undo.
    fn ssthresh(&mut self, conn: &Conn, _cause: Congestion) -> u32 {
        self.save_cwnd(conn);
        self.undo = [self.bw_lo, self.inflight_lo, self.inflight_hi];
        conn.ssthresh
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn cong_control(&mut self, conn: &mut Conn, sample: &RateSample) {
        self.now_us = conn.now.as_micros();
        let interval = sample.interval_us.filter(|&us| us > 0);
        self.round_start = interval.is_some() && sample.prior_delivered >= self.next_round;
        if self.round_start {
            self.begin_round(conn);
            self.rounds += 1;
            self.rounds_since_probe = (self.rounds_since_probe + 1).min(MAX_ROUNDS_COUNTED);
            self.update_alpha(conn);
        }
        self.ecn_in_round |= sample.ece && (self.ecn_eligible || !V::ALPHA_WHEN_ELIGIBLE);
        let bw = interval.map_or(0, |us| rate_ceil(sample.delivered.unwrap_or(0), us));
        self.loss_round_start = false;
        if V::LATEST_BEFORE && interval.is_some() && sample.newly_delivered > 0 {
            self.take_latest(conn, sample, bw);
        }
        if let Some(update) = self.fast_path(conn, sample, bw) {
            if update {
                self.update_model(conn, sample, bw);
            }
            self.update_gains();
            let estimate = self.bw();
            self.pacing.set(conn, estimate, self.pacing_gain, self.full_bw_reached);
            self.set_cwnd(conn, sample.newly_delivered, estimate);
            self.bound_cwnd(conn);
        }
        if V::LATEST_BEFORE && self.loss_round_start && !sample.acks_probe {
            self.forget_latest(sample, bw);
        }
        self.prev_state = conn.state;
        self.loss_in_cycle |= sample.lost > 0;
        self.ecn_in_cycle |= sample.delivered_ce > 0;
    }

    fn on_loss(&mut self, conn: &mut Conn, loss: &LossEvent) {
        self.note_loss(conn);
        if self.probe_samples && self.too_many_lost(loss.lost, loss.tx_in_flight) {
            let in_flight = self.inflight_at_loss(loss.tx_in_flight, loss.lost, 1);
            self.now_us = conn.now.as_micros();
            self.handle_too_high(conn, in_flight, loss.is_app_limited);
        }
    }

    fn max_burst(&self, conn: &Conn) -> Option<u32> {
        Some(V::BURSTS.sent(conn, self.min_rtt_us))
    }

    fn cwnd_event(&mut self, conn: &mut Conn, event: CaEvent) {
        match event {
            CaEvent::TxStart { app_limited: true, .. } => {
                self.now_us = conn.now.as_micros();
                self.idle_restart = true;
                self.aggregation.restart(self.now_us);
                if self.mode.in_cycle() {
                    let estimate = self.bw();
                    self.pacing.set(conn, estimate, UNIT, self.full_bw_reached);
                } else if self.mode == Mode::ProbeRtt {
                    self.check_probe_rtt_done(conn);
                }
            }
            CaEvent::ProbeRepairedLoss { app_limited } if V::PROBE_LOSSES => {
                self.note_loss(conn);
                let in_flight = self.inflight_latest + 1;
                if self.probe_samples && self.too_many_lost(1, in_flight) {
                    self.now_us = conn.now.as_micros();
                    self.handle_too_high(conn, in_flight, app_limited);
                }
            }
            _ => {}
        }
    }

    fn set_state(&mut self, conn: &mut Conn, state: CaState) {
        if state == CaState::Loss {
            self.prev_state = CaState::Loss;
            self.full = if V::TIMEOUT_ENDS_SEARCH { FullBw::default() } else { FullBw { bw: 0, ..self.full } };
            if !self.probing() && self.inflight_lo == UNSET {
                self.inflight_lo = conn.cwnd.max(self.prior_cwnd);
            }
        } else if self.prev_state == CaState::Loss {
            conn.cwnd = conn.cwnd.max(self.prior_cwnd);
            self.try_fast_path = false;
        }
    }

    fn undo_cwnd(&mut self, _conn: &Conn) -> u32 {
        self.full = FullBw::default();
        self.loss_in_round = false;
        let [bw_lo, inflight_lo, inflight_hi] = self.undo;
        self.bw_lo = self.bw_lo.max(bw_lo);
        self.inflight_lo = self.inflight_lo.max(inflight_lo);
        self.inflight_hi = self.inflight_hi.max(inflight_hi);
        self.try_fast_path &= !V::BOUNDS_END_FAST_PATH;
        self.prior_cwnd
    }

    fn model(&self, conn: &Conn) -> Option<Model> {
        let set = |bound: u32| (bound != UNSET).then_some(bound);
        let share = |gain: u32| f64::from(gain) / f64::from(UNIT);
        Some(Model {
            state: self.mode.name(),
            round: self.rounds,
            max_bw: payload_rate(self.max_bw(), conn.mss),
            bw: payload_rate(self.bw(), conn.mss),
            bw_shortterm: set(self.bw_lo).map(|bw| payload_rate(bw, conn.mss)),
            inflight_shortterm: set(self.inflight_lo),
            inflight_longterm: set(self.inflight_hi),
            min_rtt_us: set(self.min_rtt_us),
            extra_acked: self.aggregation.extra(),
            inflight: self.inflight(conn, self.bw(), UNIT),
            probe_up_step: (self.mode == Mode::Up).then(|| conn.cwnd / self.up_cnt.max(1)),
            pacing_gain: share(self.pacing_gain),
            cwnd_gain: share(self.cwnd_gain),
            full_bw_now: self.full.now,
            full_bw_reached: self.full_bw_reached,
            idle_restart: self.idle_restart,
            ecn_alpha: self.set.ecn.then(|| share(self.ecn_alpha)),
        })
    }
}

#[cfg(test)]
mod tests;
