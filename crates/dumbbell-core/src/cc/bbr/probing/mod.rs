//! The machine of BBRv2 and v3: bounds of rate and volume, the cycle that probes them, ECN, PROBE_RTT. What a version does otherwise is its
//! [`BbrVersion`], in a file of its own.
//!
//! The order of work is that of Linux `tcp_bbr2.c` and `tcp_bbr.c` (google/bbr); bounds have their Linux names: `bw_lo`, `inflight_lo`, `inflight_hi`.

use super::phase::{AckPhase, BbrPhase, BbrState, FullBw, LastProbe, MinRtt};
use super::{in_network, scale_by_share, Aggregation, BbrPacing, BbrRate, Bursts, AGGREGATION_ROUNDS, MIN_CWND, UNIT, UNSET};
use crate::cc::conn::{CaEvent, CaState, Congestion, Conn, INFINITE_SSTHRESH};
use crate::cc::exit::ExitCause;
use crate::cc::{CcContext, CongestionControl, Control, Echo, EcnUse, LossEvent, Model, RateSample};
use crate::rng::Rng;

mod cycle;
mod min_rtt;
mod settings;
mod signals;

pub use settings::Settings;
pub(in crate::cc) use settings::{probing_params, settings};

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
/// Most doublings of the step in one probe. Linux `bbr_raise_inflight_hi_slope`.
const MAX_UP_ROUNDS: u32 = 30;
/// Most of the initial window that is remembered. Linux `init_cwnd`, 7 bits.
const MAX_INIT_CWND: u32 = 127;

impl FullBw<BbrRate> {
    /// `bw` is growth.
    pub fn is_growth(&self, bw: BbrRate) -> bool {
        bw >= self.bw.scale_by_share(FULL_BW_THRESH)
    }
}

/// The differences between BBRv2 and BBRv3.
pub trait BbrVersion: Sized + Clone + std::fmt::Debug {
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
    /// A raise of a bound, and an undo of a cut, end the fast path.
    const BOUNDS_END_FAST_PATH: bool;

    /// Looks whether the rate `bw` of this ACK still grows.
    fn check_full_bw(machine: &mut Machine<Self>, sample: &RateSample, bw: BbrRate);

    /// PROBE_UP begins with an ACK of rate `bw`.
    fn enter_up(machine: &mut Machine<Self>, bw: BbrRate);

    /// Whether PROBE_UP ends, after an ACK of rate `bw` with `in_net` segments in the network.
    fn up_is_over(machine: &mut Machine<Self>, conn: &Conn, in_net: u32, bw: BbrRate) -> bool;

    /// `inflight_hi` after a STARTUP that losses or marks ended.
    fn inflight_hi_after_startup(machine: &Machine<Self>, inflight: u32) -> u32;
}

/// Bounds of rate and volume.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    bw_lo: BbrRate,
    inflight_lo: u32,
    pub(in crate::cc) inflight_hi: u32,
}

/// Largest rate and volume of the round of losses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latest {
    bw: BbrRate,
    pub(in crate::cc) inflight: u32,
}

/// Losses of the round and of the cycle.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    round_delivered: u64,
    round_start: bool,
    in_round: bool,
    in_cycle: bool,
    events: u32,
}

/// Marks of the round and of the cycle, and their average.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    in_round: bool,
    in_cycle: bool,
    eligible: bool,
    alpha: u32,
    /// `delivered` and `delivered_ce` when `alpha` was last updated.
    delivered: u64,
    delivered_ce: u64,
    startup_rounds: u32,
}

/// How `inflight_hi` grows in PROBE_UP.
#[derive(Clone, Debug)]
pub struct Climb {
    /// When the probe began, us.
    start_us: u64,
    /// Doublings of the step.
    rounds: u32,
    /// Segments acknowledged for each segment by which it grows.
    cnt: u32,
    acks: u32,
}

/// A connection of BBRv2 or BBRv3.
#[derive(Clone, Debug)]
pub struct Machine<V: BbrVersion> {
    set: Settings,
    rng: Rng,
    pacing: BbrPacing,
    /// Waits in us, the end of PROBE_RTT in ms.
    pub(in crate::cc) phase: BbrPhase<u64, Climb>,
    ack_phase: AckPhase,
    /// ACKs that arrive answer what a probe sent.
    probe_samples: bool,
    pub(in crate::cc) last_probe: LastProbe,
    pacing_gain: u32,
    cwnd_gain: u32,
    init_cwnd: u32,
    prior_cwnd: u32,
    prev_state: CaState,
    now_us: u64,
    next_round: u64,
    pub(in crate::cc) round_start: bool,
    rounds: u64,
    pub(in crate::cc) full_bw: FullBw<BbrRate>,
    /// The cause of the end of STARTUP, unless another comes first.
    startup_ends_by: ExitCause,
    try_fast_path: bool,
    idle_restart: bool,
    /// us, and ms of its age.
    min_rtt: MinRtt<u32, u64>,
    /// The one whose age asks for PROBE_RTT.
    probe_rtt_min: MinRtt<u32, u64>,
    /// Largest rate of the last and of this cycle.
    bw_hi: [BbrRate; 2],
    pub(in crate::cc) bounds: Bounds,
    /// Before the last reduction.
    undo: Bounds,
    pub(in crate::cc) latest: Latest,
    aggregation: Aggregation,
    losses: Losses,
    marks: Marks,
    version: std::marker::PhantomData<V>,
}

impl<V: BbrVersion> Machine<V> {
    /// A machine with `set`; `name` is that of its random stream.
    pub fn from_settings(set: Settings, name: &str, context: &CcContext) -> Machine<V> {
        let unset = MinRtt { rtt: UNSET, stamp: 0 };
        let bounds = Bounds { bw_lo: BbrRate::UNSET, inflight_lo: UNSET, inflight_hi: UNSET };
        Machine {
            rng: Rng::stream(context.seed, name, context.flow),
            // replaced when the connection is established
            pacing: BbrPacing::before_connection(set.startup_gain),
            phase: BbrPhase::Startup,
            ack_phase: AckPhase::Init,
            probe_samples: false,
            last_probe: LastProbe::default(),
            pacing_gain: set.startup_gain,
            cwnd_gain: set.startup_cwnd_gain,
            init_cwnd: 0,
            prior_cwnd: 0,
            prev_state: CaState::Open,
            now_us: 0,
            next_round: 0,
            round_start: false,
            rounds: 0,
            full_bw: FullBw::default(),
            startup_ends_by: ExitCause::Plateau,
            try_fast_path: false,
            idle_restart: false,
            min_rtt: unset,
            probe_rtt_min: unset,
            bw_hi: [BbrRate(0); 2],
            bounds,
            undo: Bounds { bw_lo: BbrRate(0), inflight_lo: 0, inflight_hi: 0 },
            latest: Latest::default(),
            aggregation: Aggregation::default(),
            losses: Losses::default(),
            marks: Marks { alpha: UNIT, ..Marks::default() },
            set,
            version: std::marker::PhantomData,
        }
    }

    /// Largest rate of the filter.
    pub fn max_bw(&self) -> BbrRate {
        self.bw_hi[0].max(self.bw_hi[1])
    }

    fn bw(&self) -> BbrRate {
        self.max_bw().min(self.bounds.bw_lo)
    }

    fn bdp(&self, bw: BbrRate, gain: u32) -> u32 {
        bw.bdp(self.min_rtt.rtt, gain, self.init_cwnd)
    }

    /// Room for bursts, and to probe at all. Linux `bbr_quantization_budget`.
    fn add_burst_budget(&self, conn: &Conn, segments: u32) -> u32 {
        let least = segments.max(3 * V::BURSTS.goal(conn, self.min_rtt.rtt)).max(MIN_CWND);
        least + if self.phase.state() == BbrState::Up { 2 } else { 0 }
    }

    /// Segments in flight at `gain` times `bw`. Linux `bbr_inflight`.
    pub fn inflight(&self, conn: &Conn, bw: BbrRate, gain: u32) -> u32 {
        self.add_burst_budget(conn, self.bdp(bw, gain))
    }

    /// Linux `bbr_target_inflight`.
    fn target_inflight(&self, conn: &Conn) -> u32 {
        self.inflight(conn, self.bw(), UNIT).min(conn.cwnd)
    }

    fn in_network(&self, conn: &Conn, in_flight: u32, sample: &RateSample) -> u32 {
        let rising = (self.pacing_gain > UNIT).then(|| V::BURSTS.goal(conn, self.min_rtt.rtt));
        in_network(in_flight, sample, self.bw(), rising)
    }

    fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp(self.bw(), self.set.probe_rtt_cwnd_gain).max(MIN_CWND)
    }

    fn beta_cut(&self, value: u32) -> u32 {
        scale_by_share(value, UNIT - self.set.beta)
    }

    /// `inflight_hi` less what is left to others; `UNSET` if it is not set. Linux `bbr_inflight_with_headroom`.
    fn with_headroom(&self) -> u32 {
        if self.bounds.inflight_hi == UNSET {
            return UNSET;
        }
        let headroom = scale_by_share(self.bounds.inflight_hi, self.set.headroom).max(1);
        self.bounds.inflight_hi.saturating_sub(headroom).max(MIN_CWND)
    }

    /// More than the smallest RTT has passed in PROBE_UP. Linux `bbr_has_elapsed_in_phase`.
    pub fn has_climbed_for_min_rtt(&self) -> bool {
        matches!(&self.phase, BbrPhase::Up(climb) if self.now_us > climb.start_us + u64::from(self.min_rtt.rtt))
    }

    /// `inflight` of the largest rate, with `gain`.
    pub fn inflight_at_max(&self, conn: &Conn, gain: u32) -> u32 {
        self.inflight(conn, self.max_bw(), gain)
    }

    fn begin_round(&mut self, conn: &Conn) {
        self.next_round = conn.delivered;
    }

    fn enter(&mut self, phase: BbrPhase<u64, Climb>) {
        self.phase.enter(phase);
        self.try_fast_path = false;
    }

    /// Linux `bbr_update_gains`.
    fn update_gains(&mut self) {
        let set = &self.set;
        (self.pacing_gain, self.cwnd_gain) = match self.phase.state() {
            BbrState::Startup => (set.startup_gain, set.startup_cwnd_gain),
            BbrState::Drain => (set.drain_gain, set.startup_cwnd_gain),
            BbrState::Down => (set.probe_down_gain, set.cwnd_gain),
            BbrState::Cruise | BbrState::Refill => (UNIT, set.cwnd_gain),
            BbrState::Up => (set.probe_up_gain, set.probe_up_cwnd_gain),
            BbrState::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// Linux `bbr_set_cwnd`.
    fn set_cwnd(&mut self, conn: &mut Conn, acked: u32, bw: BbrRate) {
        let mut cwnd = conn.cwnd;
        if acked > 0 {
            let target = self.bdp(bw, self.cwnd_gain).saturating_add(self.aggregation.allowance(bw));
            let target = self.add_burst_budget(conn, target);
            self.try_fast_path = if self.full_bw.reached {
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
        if self.phase.state() == BbrState::ProbeRtt {
            conn.cwnd = conn.cwnd.min(self.probe_rtt_cwnd());
        }
    }

    /// Linux `bbr_bound_cwnd_for_inflight_model`.
    fn bound_cwnd(&self, conn: &mut Conn) {
        let cap = match self.phase.state() {
            BbrState::Down | BbrState::Refill | BbrState::Up => self.bounds.inflight_hi,
            BbrState::Cruise | BbrState::ProbeRtt => self.with_headroom(),
            BbrState::Startup | BbrState::Drain => UNSET,
        };
        conn.cwnd = conn.cwnd.min(cap.min(self.bounds.inflight_lo).max(MIN_CWND));
    }

    fn update_model(&mut self, conn: &mut Conn, sample: &RateSample, bw: BbrRate) {
        if sample.interval_us.is_some_and(|us| us > 0) && sample.ack_delivered > 0 {
            self.update_signals(conn, sample, bw);
            let window = if self.full_bw.reached { AGGREGATION_ROUNDS } else { 1 };
            let estimate = self.bw();
            self.aggregation.update(conn, sample.ack_delivered, estimate, self.round_start, window);
        }
        self.check_startup_loss(conn, sample);
        V::check_full_bw(self, sample, bw);
        self.check_drain(conn, sample);
        self.update_cycle(conn, sample, bw);
        self.update_min_rtt(conn, sample);
    }

    /// The application is the limit, and nothing in the model can change: only what follows time is looked at. Returns whether that was
    /// all, and whether the model is to be updated if not. Linux `bbr_run_fast_path`.
    fn fast_path(&mut self, conn: &mut Conn, sample: &RateSample, bw: BbrRate) -> Option<bool> {
        let plain = self.try_fast_path && sample.is_app_limited && bw < self.max_bw();
        if !plain || self.losses.in_round || self.marks.in_round {
            return Some(true);
        }
        let before = (self.phase.state(), self.min_rtt.rtt);
        self.check_drain(conn, sample);
        self.update_cycle(conn, sample, bw);
        self.update_min_rtt(conn, sample);
        // Linux compares the mode without the phase of the cycle, whose changes end the fast path
        let same = before == (self.phase.state(), self.min_rtt.rtt) && self.try_fast_path;
        if same {
            None
        } else {
            Some(false)
        }
    }
}

impl<V: BbrVersion> CongestionControl for Machine<V> {
    fn control(&self) -> Control {
        Control::Both
    }
    fn rate_samples(&self) -> bool {
        true
    }
    fn buffered_windows(&self) -> u8 {
        3
    }

    fn ecn(&self) -> EcnUse {
        let echo = if self.set.ecn { Echo::PerPacket } else { Echo::UntilCwr };
        EcnUse { echo, every_packet: self.set.ecn, ..EcnUse::default() }
    }

    /// Marks count from when it is eligible for ECN: with the key `ecn` and a path that is short enough. Linux `ecn_eligible`.
    fn answers(&self, cause: Congestion) -> bool {
        cause != Congestion::Ecn || self.marks.eligible
    }

    fn init(&mut self, conn: &mut Conn) {
        self.now_us = conn.now.as_micros();
        self.init_cwnd = conn.cwnd.min(MAX_INIT_CWND);
        self.prior_cwnd = conn.prior_cwnd;
        conn.ssthresh = INFINITE_SSTHRESH;
        let min_rtt = conn.rtt.min_us();
        self.min_rtt = MinRtt { rtt: min_rtt, stamp: conn.jiffies() };
        self.probe_rtt_min = self.min_rtt;
        self.pacing = BbrPacing::new(conn, self.set.startup_gain);
        self.aggregation.restart(self.now_us);
        self.losses.round_delivered = conn.delivered + 1;
        self.next_round = conn.delivered;
    }

    /// The window is BBR's own: what is saved is for the end of a timeout, and for an undo.
    fn ssthresh(&mut self, conn: &Conn, _cause: Congestion) -> u32 {
        self.save_cwnd(conn);
        self.undo = self.bounds;
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
            self.phase.count_round();
            self.update_alpha(conn);
        }
        self.marks.in_round |= sample.ece && (self.marks.eligible || !V::ALPHA_WHEN_ELIGIBLE);
        let bw = interval.map_or(BbrRate(0), |us| BbrRate::ceil(sample.sample_delivered.unwrap_or(0), us));
        self.losses.round_start = false;
        if V::LATEST_BEFORE && interval.is_some() && sample.ack_delivered > 0 {
            self.take_latest(conn, sample, bw);
        }
        if let Some(update) = self.fast_path(conn, sample, bw) {
            if update {
                self.update_model(conn, sample, bw);
            }
            self.update_gains();
            let estimate = self.bw();
            self.pacing.set(conn, estimate, self.pacing_gain, self.full_bw.reached);
            self.set_cwnd(conn, sample.ack_delivered, estimate);
            self.bound_cwnd(conn);
        }
        if V::LATEST_BEFORE && self.losses.round_start && !sample.acks_probe {
            self.forget_latest(sample, bw);
        }
        self.prev_state = conn.state;
        self.losses.in_cycle |= sample.sample_lost > 0;
        self.marks.in_cycle |= sample.sample_marked > 0;
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
        Some(V::BURSTS.burst_segments(conn, self.min_rtt.rtt))
    }

    fn cwnd_event(&mut self, conn: &mut Conn, event: CaEvent) {
        match event {
            CaEvent::TxStart { app_limited: true, .. } => {
                self.now_us = conn.now.as_micros();
                self.idle_restart = true;
                self.aggregation.restart(self.now_us);
                if self.phase.state().in_cycle() {
                    let estimate = self.bw();
                    self.pacing.set(conn, estimate, UNIT, self.full_bw.reached);
                } else {
                    self.check_probe_rtt_done(conn);
                }
            }
            CaEvent::ProbeRepairedLoss { app_limited } if V::PROBE_LOSSES => {
                self.note_loss(conn);
                let in_flight = self.latest.inflight + 1;
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
            if V::TIMEOUT_ENDS_SEARCH {
                self.full_bw.restart(BbrRate(0));
            }
            self.full_bw.bw = BbrRate(0);
            if !self.phase.state().is_probing() && self.bounds.inflight_lo == UNSET {
                self.bounds.inflight_lo = conn.cwnd.max(self.prior_cwnd);
            }
        } else if self.prev_state == CaState::Loss {
            conn.cwnd = conn.cwnd.max(self.prior_cwnd);
            self.try_fast_path = false;
        }
    }

    fn undo_cwnd(&mut self, _conn: &mut Conn) -> u32 {
        self.full_bw.restart(BbrRate(0));
        self.losses.in_round = false;
        self.bounds = Bounds {
            bw_lo: self.bounds.bw_lo.max(self.undo.bw_lo),
            inflight_lo: self.bounds.inflight_lo.max(self.undo.inflight_lo),
            inflight_hi: self.bounds.inflight_hi.max(self.undo.inflight_hi),
        };
        self.try_fast_path &= !V::BOUNDS_END_FAST_PATH;
        self.prior_cwnd
    }

    fn model(&self, conn: &Conn) -> Option<Model> {
        let set = |bound: u32| (bound != UNSET).then_some(bound);
        let share = |gain: u32| f64::from(gain) / f64::from(UNIT);
        Some(Model {
            state: self.phase.state().name(),
            round: self.rounds,
            max_bw: self.max_bw().payload(conn.mss),
            bw: self.bw().payload(conn.mss),
            bw_shortterm: (self.bounds.bw_lo != BbrRate::UNSET).then(|| self.bounds.bw_lo.payload(conn.mss)),
            inflight_shortterm: set(self.bounds.inflight_lo),
            inflight_longterm: set(self.bounds.inflight_hi),
            min_rtt_us: set(self.min_rtt.rtt),
            extra_acked: self.aggregation.extra(),
            inflight: self.inflight(conn, self.bw(), UNIT),
            probe_up_step: if let BbrPhase::Up(climb) = &self.phase { Some(conn.cwnd / climb.cnt.max(1)) } else { None },
            pacing_gain: share(self.pacing_gain),
            cwnd_gain: share(self.cwnd_gain),
            full_bw_now: Some(self.full_bw.now),
            full_bw_reached: Some(self.full_bw.reached),
            idle_restart: Some(self.idle_restart),
            ecn_alpha: self.set.ecn.then(|| share(self.marks.alpha)),
        })
    }
}

#[cfg(test)]
mod tests;
