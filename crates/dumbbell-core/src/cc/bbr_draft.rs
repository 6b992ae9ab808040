//! BBR as the IETF's draft has it, which calls it version 3.
//!
//! Specification: draft-ietf-ccwg-bbr at 4ce5e87 (2026-08-03). Sections here are the draft's, and so are names, in snake case. The parts follow it as well:
//! `states` is sections 5.3 and 5.4, `path` 5.5, `output` 5.6; this file has 2 (parameters and state) and 5.2 (what happens when). Linux's BBRv3 is another
//! algorithm in many places: see `bbr3`.
//!
//! Open points of the draft, and the choices made here:
//! - Volumes are counted in segments, as section 2 allows, and bounds of them in whole segments, rounded down: nothing but full segments is in flight. A rate is in
//!   segments per second.
//! - Section 3.7 has no answer to ECN, and lets nobody send ECT who has none. So this sends Not-ECT, and does not ask for ECN, whatever the host's setting.
//! - Section 5.2.1 does not set `probe_rtt_min_delay` and its stamp: they begin as `min_rtt` does. `C.delivered` begins at the handshake.
//! - Section 5.3.1.3 leaves Startup at the end of a round (`loss_round_start`), the only time at which a full round's losses are known. It sets `full_bw_now` too, as the
//!   draft's test case wants.
//! - The transport marks losses before it enters recovery, whose entry saves the state (5.6.4.4). What is saved is as it was before these marks, and how they left Startup
//!   or ProbeBW_UP is remembered. Otherwise recovery would begin with what its first losses did, and undo would take back nothing.
//! - `NoteLoss` saves the state at the first loss of a round (5.5.10.2). It does so outside recovery only: within, the save of the entry is the one to go back to, and
//!   `StartProbeBW_DOWN` makes the next loss the first of a round at once.
//! - A segment that a tail-loss probe repaired is never marked lost. It counts as a loss in its round nevertheless (5.5.10.3: TLP recovery).
//! - An ACK without a rate sample moves neither rounds nor ProbeBW (5.3.3.9 and 5.5.1 are for ACKs that acknowledge data). Selective acknowledgement is always there.
//! - The idle restart wants nothing in flight (5.4.1): here everything sent was acknowledged.
//!
//! Where the draft says two things, its pseudocode holds:
//! - The table of 5.6.1 bounds the window in Drain by `inflight_longterm`, BoundCwndForModel (5.6.4.7) does not.
//! - The test case of a probe that ends by loss while the application is the limit wants `inflight_longterm` set; HandleInflightTooHigh (5.5.10.2) does not set it then.
//! - CheckProbeRTT (5.3.4.3) saves the window when the state is ProbeRTT already, so that an older and larger window stays. The next ACK's bounds make up for it.
//! - 5.6.4.5 speaks of MinPipeCwnd as the window of ProbeRTT, ProbeRTTCwnd takes half of the BDP.

mod filter;
mod output;
mod path;
mod states;

use super::bbr::phase::{AckPhase, BbrPhase, BbrState, FullBw, LastProbe, MinRtt};
use super::bbr::{BbrRate, WindowedMax};
use super::conn::{CaEvent, CaState, Congestion, Conn};
use super::{CcContext, CongestionControl, Control, EcnUse, LossEvent, Model, RateSample};
use crate::packet::Ecn;
use crate::rng::Rng;
use crate::units::{Duration, Instant};
use filter::MaxOfCycles;

/// Name in experiment files.
pub const NAME: &str = "bbr-draft";
/// One line.
pub const TITLE: &str = "BBRv3 as the IETF's draft specifies it";
/// Specification and deviations.
pub const SOURCE: &str =
    "draft-ietf-ccwg-bbr at 4ce5e87 (2026-08-03); volumes in segments; no ECN, for the draft has no answer to CE";

crate::params! {
    /// Parameters of the draft's BBR.
    pub struct Params {
        /// Pacing gain in Startup: doubles the rate each round.
        startup_pacing_gain: f64 = 2.77, unit "", range 1.0, 10.0, source "StartupPacingGain, section 2.5";
        /// Pacing gain in Drain.
        drain_pacing_gain: f64 = 0.5, unit "", range 0.01, 1.0, source "DrainPacingGain, section 2.5";
        /// Pacing gain in ProbeBW_DOWN.
        probe_down_pacing_gain: f64 = 0.9, unit "", range 0.01, 1.0, source "section 5.3.3.1";
        /// Pacing gain in ProbeBW_UP.
        probe_up_pacing_gain: f64 = 1.25, unit "", range 1.0, 10.0, source "section 5.3.3.5";
        /// Share by which it paces below its estimate of the bandwidth.
        pacing_margin_percent: f64 = 1.0, unit "%", range 0.0, 50.0, source "PacingMarginPercent, section 2.5";
        /// Window gain but in ProbeBW_UP and ProbeRTT.
        default_cwnd_gain: f64 = 2.0, unit "", range 1.0, 10.0, source "DefaultCwndGain, section 2.6";
        /// Window gain in ProbeBW_UP.
        probe_up_cwnd_gain: f64 = 2.25, unit "", range 1.0, 10.0, source "section 5.3.3.5";
        /// Window gain in ProbeRTT.
        probe_rtt_cwnd_gain: f64 = 0.5, unit "", range 0.01, 1.0, source "ProbeRTTCwndGain, section 2.16.2";
        /// Growth of the delivery rate in a round below which the pipe may be full.
        full_bw_growth: f64 = 1.25, unit "", range 1.0, 10.0, source "section 5.3.1.2";
        /// Rounds of less growth after which it is full.
        full_bw_rounds: u32 = 3, unit "rounds", range 1u32, 100u32, source "section 5.3.1.2";
        /// Separate ranges of lost segments in a round that end Startup.
        startup_full_loss_count: u32 = 6, unit "ranges", range 1u32, 1_000u32, source "BBRStartupFullLossCnt, section 5.3.1.3";
        /// Rounds in Drain before it ends whatever is in flight.
        drain_rounds: u32 = 3, unit "rounds", range 0u32, 100u32, source "section 5.3.2";
        /// Loss rate in a round that is tolerated while it probes for bandwidth.
        loss_thresh: f64 = 0.02, unit "", range 0.0, 0.9, source "LossThresh, section 2.8";
        /// Decrease of short-term bounds in a round with loss.
        beta: f64 = 0.7, unit "", range 0.0, 1.0, source "Beta, section 2.8";
        /// Share of the long-term bound that is left free while it cruises.
        headroom: f64 = 0.15, unit "", range 0.0, 1.0, source "Headroom, section 2.8";
        /// Least window.
        min_pipe_cwnd: u32 = 4, unit "segments", range 1u32, 1_000u32, source "MinPipeCwnd, section 2.8";
        /// A minimum of the RTT is kept so long.
        min_rtt_filter_len: Duration = Duration::from_secs(10), unit "", range Duration::from_millis(1), Duration::from_secs(3600), source "MinRTTFilterLen, section 2.16.1";
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 5.3.4.2
        //# To allow coordination with other BBR flows, each BBR flow MUST use the standard BBR.ProbeRTTInterval of 5 secs.
        /// Without a new minimum for so long it enters ProbeRTT.
        probe_rtt_interval: Duration = Duration::from_secs(5), unit "", range Duration::from_millis(1), Duration::from_secs(3600), source "ProbeRTTInterval, section 2.16.2";
        /// Least time in ProbeRTT with little in flight.
        probe_rtt_duration: Duration = Duration::from_millis(200), unit "", range Duration::ZERO, Duration::from_secs(60), source "ProbeRTTDuration, section 2.16.2";
        /// Cycles of ProbeBW over which the largest bandwidth is kept.
        max_bw_filter_len: u32 = 2, unit "cycles", range 1u32, filter::MAX_CYCLES, source "MaxBwFilterLen, section 2.11";
        /// Rounds over which the largest aggregation of ACKs is kept; one in Startup.
        extra_acked_filter_len: u32 = 10, unit "rounds", range 1u32, 1_000u32, source "ExtraAckedFilterLen, section 2.12";
        /// Least time between probes for bandwidth.
        probe_wait: Duration = Duration::from_secs(2), unit "", range Duration::ZERO, Duration::from_secs(3600), source "T_bbr, section 5.3.3.8";
        /// A random fraction of this is added to it.
        probe_wait_spread: Duration = Duration::from_secs(1), unit "", range Duration::ZERO, Duration::from_secs(3600), source "T_bbr, section 5.3.3.8";
        /// Most rounds between probes for bandwidth: the sawtooth of a Reno flow that is so large.
        reno_rounds: u32 = 63, unit "rounds", range 1u32, 100_000u32, source "T_reno_bound, section 5.3.3.8";
        /// A burst is what leaves in this time.
        send_quantum_time: Duration = Duration::from_millis(1), unit "", range Duration::ZERO, Duration::from_secs(1), source "SetSendQuantum, section 5.6.3";
        /// Largest burst.
        send_quantum_max: u32 = 65_536, unit "bytes", range 1u32, 16_777_216u32, source "SetSendQuantum, section 5.6.3";
        /// Bursts that fit the window at least, for offloads at both ends.
        offload_quanta: u32 = 3, unit "bursts", range 0u32, 100u32, source "UpdateOffloadBudget for TCP, section 5.5.8.1";
    }
}

/// Not set: a bound of segments.
const UNBOUNDED: u32 = u32::MAX;
/// Least burst, segments. SetSendQuantum, section 5.6.3.
const LEAST_QUANTUM: f64 = 2.0;
/// Additional room of the window in ProbeBW_UP, segments. QuantizationBudget, section 5.6.4.2.
const UP_BUDGET: f64 = 2.0;
/// The step of the long-term bound doubles at most so often. RaiseInflightLongtermSlope, section 5.3.3.9.
const MAX_UP_ROUNDS: u32 = 30;
/// Initial RTT if none is known. InitPacingRate, section 5.6.2.
const NOMINAL_RTT_US: f64 = 1_000.0;

/// The state saved at the start of a loss episode (section 5.5.11.1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Saved {
    /// State that the losses ended, if they did: `undo_state`.
    left: Option<BbrState>,
    cwnd: u32,
    bw_shortterm: BbrRate<f64>,
    inflight_shortterm: u32,
    inflight_longterm: u32,
}

/// `RS`, section 2.3. A delivery rate of 0 is that of an ACK without a reliable sample.
#[derive(Clone, Copy, Debug, Default)]
struct Rs {
    has_data: bool,
    newly_acked: u32,
    delivered: u32,
    delivery_rate: BbrRate<f64>,
    prior_delivered: u64,
    tx_in_flight: u32,
    lost: u32,
    is_app_limited: bool,
    rtt_us: Option<u32>,
}

impl Rs {
    /// GenerateRateSample, section 4.1.2.3, whose work the transport has done.
    fn new(sample: &RateSample) -> Rs {
        let delivered = sample.sample_delivered.unwrap_or(0);
        Rs {
            has_data: sample.sample_delivered.is_some(),
            newly_acked: sample.ack_delivered,
            delivered,
            delivery_rate: sample.interval_us.filter(|&us| us > 0).map_or(BbrRate::ZERO, |us| BbrRate::per_second(delivered, us)),
            prior_delivered: sample.prior_delivered,
            tx_in_flight: sample.tx_in_flight,
            lost: sample.sample_lost,
            is_app_limited: sample.is_app_limited,
            rtt_us: sample.rtt_us,
        }
    }
}

/// Rounds.
#[derive(Clone, Debug, Default)]
struct Round {
    count: u64,
    next_delivered: u64,
    start: bool,
}

/// Bandwidth.
#[derive(Clone, Debug)]
struct Bandwidth {
    /// `BBR.max_bw`.
    max: BbrRate<f64>,
    /// `BBR.MaxBwFilter`.
    filter: MaxOfCycles,
    /// Infinite while it is not set.
    shortterm: BbrRate<f64>,
    latest: BbrRate<f64>,
    /// `BBR.bw`.
    estimate: BbrRate<f64>,
}

/// Bounds and the latest sample of what is in flight, segments.
#[derive(Clone, Debug)]
struct Inflight {
    longterm: u32,
    shortterm: u32,
    latest: u32,
}

/// Aggregation of ACKs.
#[derive(Clone, Debug, Default)]
struct ExtraAcked {
    /// `BBR.extra_acked`, segments.
    extra: f64,
    filter: WindowedMax<f64>,
    interval_start: Instant,
    delivered: f64,
}

/// The round in which losses are counted.
#[derive(Clone, Debug, Default)]
struct LossRound {
    delivered: u64,
    start: bool,
    /// `BBR.is_loss_in_round`.
    has_loss: bool,
    /// Separate ranges lost in this round.
    ranges: u32,
    /// The newest segment lost in it.
    last_lost: Option<u64>,
    /// `C.delivered` when fast recovery began.
    recovery_delivered: u64,
}

/// The state that an undo restores.
#[derive(Clone, Debug, Default)]
struct Undo {
    saved: Saved,
    /// When losses were last marked, if recovery has not begun since nor an ACK been answered.
    marked_at: Option<Instant>,
    /// The state before these marks.
    before_marks: Saved,
}

/// How the long-term bound grows in ProbeBW_UP.
#[derive(Clone, Debug)]
struct Climb {
    /// `BBR.bw_probe_up_rounds`.
    rounds: u32,
    /// `BBR.bw_probe_up_acked`.
    acked: f64,
    /// `BBR.probe_up_acked_per_inc`.
    acked_per_inc: f64,
}

/// State of the draft's BBR: sections 2.5 to 2.16. Bounds of volumes are in segments, RTTs in us. Where the draft's variables share the
/// beginning of their names, they are a group: `BBR.full_bw_now` is `full_bw.now`.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    rng: Rng,
    phase: BbrPhase<Instant, Climb>,
    ack_phase: AckPhase,
    is_bw_probe_sample: bool,
    last_probe: LastProbe,
    round: Round,
    bw: Bandwidth,
    inflight: Inflight,
    /// us; infinite before the first sample.
    min_rtt: MinRtt<f64, Instant>,
    /// `BBR.probe_rtt_min_delay` and its stamp, whose age asks for ProbeRTT.
    probe_rtt_min: MinRtt<f64, Instant>,
    probe_rtt_expired: bool,
    extra_acked: ExtraAcked,
    loss_round: LossRound,
    full_bw: FullBw<BbrRate<f64>>,
    undo: Undo,
    prior_cwnd: u32,
    idle_restart: bool,
    /// `C.InitialCwnd`.
    initial_cwnd: u32,
    /// `C.delivered` when the connection was established.
    initial_delivered: u64,
    /// Segments.
    send_quantum: f64,
}

impl State {
    /// BBR with `params`.
    pub fn new(params: Params, context: &CcContext) -> State {
        let filter = MaxOfCycles::new(params.max_bw_filter_len);
        let unset = MinRtt { rtt: f64::INFINITY, stamp: Instant::ZERO };
        State {
            rng: Rng::stream(context.seed, NAME, context.flow),
            params,
            phase: BbrPhase::Startup,
            ack_phase: AckPhase::Init,
            is_bw_probe_sample: false,
            last_probe: LastProbe::default(),
            round: Round::default(),
            bw: Bandwidth {
                max: BbrRate::ZERO,
                filter,
                shortterm: BbrRate::INFINITE,
                latest: BbrRate::ZERO,
                estimate: BbrRate::ZERO,
            },
            inflight: Inflight { longterm: UNBOUNDED, shortterm: UNBOUNDED, latest: 0 },
            min_rtt: unset,
            probe_rtt_min: unset,
            probe_rtt_expired: false,
            extra_acked: ExtraAcked::default(),
            loss_round: LossRound::default(),
            full_bw: FullBw::default(),
            undo: Undo::default(),
            prior_cwnd: 0,
            idle_restart: false,
            initial_cwnd: 0,
            initial_delivered: 0,
            send_quantum: LEAST_QUANTUM,
        }
    }

    /// UpdateModelAndState, section 5.2.3.
    fn update_model_and_state(&mut self, conn: &mut Conn, rs: &Rs) {
        self.update_latest_delivery_signals(conn, rs);
        self.update_congestion_signals(conn, rs);
        self.update_ack_aggregation(conn, rs);
        self.check_full_bw_reached(rs);
        self.check_startup_done(conn, rs);
        self.check_drain_done(conn);
        self.update_probe_bw_cycle_phase(conn, rs);
        self.update_min_rtt(conn, rs);
        self.check_probe_rtt(conn, rs);
        self.advance_latest_delivery_signals(rs);
        self.bound_bw_for_model();
    }

    /// UpdateControlParameters, section 5.2.3.
    fn update_control_parameters(&mut self, conn: &mut Conn, rs: &Rs) {
        self.set_pacing_rate(conn);
        self.set_send_quantum(conn);
        self.set_cwnd(conn, rs);
    }
}

impl CongestionControl for State {
    fn control(&self) -> Control {
        Control::Both
    }
    fn rate_samples(&self) -> bool {
        true
    }

    /// Section 3.7: who has no answer to CE must not send ECT.
    fn ecn(&self) -> EcnUse {
        //= draft-ietf-ccwg-bbr at 4ce5e87, section 3.7
        //# However, if the connection claims ECN support by marking packets using either the ECT(0) or ECT(1) code point, the congestion
        //# controller response MUST treat any CE marks as congestion.
        EcnUse { codepoint: Ecn::NotEct, ..EcnUse::default() }
    }

    /// OnInit, section 5.2.1.
    fn init(&mut self, conn: &mut Conn) {
        conn.paced = true;
        if conn.rtt.srtt_8us > 0 {
            self.min_rtt.rtt = f64::from(conn.rtt.srtt_us().max(1));
        }
        self.min_rtt.stamp = conn.now;
        self.probe_rtt_min = self.min_rtt;
        self.extra_acked.interval_start = conn.now;
        self.initial_cwnd = conn.cwnd;
        self.initial_delivered = conn.delivered;
        self.init_pacing_rate(conn);
        self.set_send_quantum(conn);
    }

    fn ssthresh(&mut self, conn: &Conn, cause: Congestion) -> u32 {
        if cause == Congestion::Loss && self.undo.marked_at != Some(conn.now) {
            // no segment was marked lost: a tail-loss probe has repaired it
            self.note_loss(conn);
        }
        conn.ssthresh
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    /// UpdateOnACK, section 5.2.3.
    fn cong_control(&mut self, conn: &mut Conn, sample: &RateSample) {
        let rs = Rs::new(sample);
        self.undo.marked_at = None;
        self.update_model_and_state(conn, &rs);
        self.update_control_parameters(conn, &rs);
    }

    /// Section 5.2.4.
    fn on_loss(&mut self, conn: &mut Conn, loss: &LossEvent) {
        self.handle_lost_packet(conn, loss);
    }

    /// Section 5.6.3.
    fn max_burst(&self, _conn: &Conn) -> Option<u32> {
        Some(self.send_quantum as u32)
    }

    /// OnTransmit, section 5.2.2.
    fn cwnd_event(&mut self, conn: &mut Conn, event: CaEvent) {
        if let CaEvent::TxStart { app_limited: true, .. } = event {
            self.handle_restart_from_idle(conn);
        }
    }

    /// OnEnterRTO, OnEnterFastRecovery and the end of recovery, section 5.6.4.4.
    fn set_state(&mut self, conn: &mut Conn, state: CaState) {
        if state >= CaState::Recovery && conn.state != state {
            self.enter_recovery(conn, state);
        } else if state < CaState::Recovery && conn.state >= CaState::Recovery {
            self.restore_cwnd(conn);
        }
    }

    /// Section 5.2.5.
    fn undo_cwnd(&mut self, conn: &mut Conn) -> u32 {
        self.handle_spurious_loss_detection(conn);
        conn.cwnd
    }

    fn model(&self, conn: &Conn) -> Option<Model> {
        let bytes = |rate: BbrRate<f64>| rate.payload_share(conn.mss, 1.0);
        let bound = |segments: u32| (segments != UNBOUNDED).then_some(segments);
        Some(Model {
            state: self.phase.state().name(),
            round: self.round.count,
            max_bw: bytes(self.bw.max),
            bw: bytes(self.bw.estimate),
            bw_shortterm: (self.bw.shortterm != BbrRate::INFINITE).then(|| bytes(self.bw.shortterm)),
            inflight_shortterm: bound(self.inflight.shortterm),
            inflight_longterm: bound(self.inflight.longterm),
            min_rtt_us: self.min_rtt.rtt.is_finite().then_some(self.min_rtt.rtt as u32),
            extra_acked: self.extra_acked.extra as u32,
            inflight: self.inflight(self.bw.estimate, 1.0),
            probe_up_step: if let BbrPhase::Up(climb) = &self.phase { Some(1 << climb.rounds.saturating_sub(1)) } else { None },
            pacing_gain: self.pacing_gain(),
            cwnd_gain: self.cwnd_gain(),
            full_bw_now: Some(self.full_bw.now),
            full_bw_reached: Some(self.full_bw.reached),
            idle_restart: Some(self.idle_restart),
            ecn_alpha: None,
        })
    }
}

#[cfg(test)]
mod tests;
