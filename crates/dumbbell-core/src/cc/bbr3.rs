//! BBRv3 of google/bbr, branch v3, on Linux 6.12; no mainline Linux has it. The machine that it shares with v2 is in
//! [`probing`](super::bbr::probing); here is what v3 does otherwise.

use super::bbr::probing::{settings, BbrVersion, FullBw, Machine, Settings, FULL_BW_ROUNDS};
use super::bbr::{to_fixed, Bursts, GSO_LEGACY_MAX_SIZE};
use super::conn::Conn;
use super::{CcContext, RateSample};
use crate::units::Time;

/// Name in experiment files.
pub const NAME: &str = "bbr3";
/// One line.
pub const TITLE: &str = "BBRv3 of google/bbr, branch v3, on Linux 6.12";
/// Specification and deviations.
pub const SOURCE: &str = "tcp_bbr.c of google/bbr, branch v3, on Linux 6.12 (CachyOS/kernel-patches 6.12/0002-bbr3.patch). Not modelled: PLB, off by \
    default; fast_ack_mode, whose pace of ACKs is the usual one; a delayed ACK of a single small segment is not told apart (is_ack_delayed)";

crate::params! {
    /// Parameters.
    pub struct Params {
        /// Pacing rate in STARTUP.
        startup_gain: f64 = 710.0 / 256.0, unit "", range 1.0, 7.9, source "bbr_startup_pacing_gain = 710/256, 4 ln 2";
        /// Window over the bandwidth-delay product in STARTUP and DRAIN.
        startup_cwnd_gain: f64 = 2.0, unit "", range 1.0, 7.9, source "bbr_startup_cwnd_gain = 512/256";
        /// Pacing rate in DRAIN.
        drain_gain: f64 = 88.0 / 256.0, unit "", range 0.004, 1.0, source "bbr_drain_gain = 88/256";
        /// Pacing rate in PROBE_UP.
        probe_up_gain: f64 = 1.25, unit "", range 1.0, 3.9, source "bbr_pacing_gain: 320/256";
        /// Pacing rate in PROBE_DOWN.
        probe_down_gain: f64 = 232.0 / 256.0, unit "", range 0.004, 1.0, source "bbr_pacing_gain: 232/256";
        /// Window over the bandwidth-delay product in the cycle.
        cwnd_gain: f64 = 2.0, unit "", range 1.0, 7.9, source "bbr_cwnd_gain = 512/256";
        /// The same in PROBE_UP.
        probe_up_cwnd_gain: f64 = 2.25, unit "", range 1.0, 7.9, source "bbr_bw_probe_cwnd_gain: 64/256 more than bbr_cwnd_gain";
        /// Share of the short-term bounds that a round with losses takes.
        beta: f64 = 76.0 / 256.0, unit "", range 0.0, 0.99, source "bbr_beta = 76/256";
        /// Losses of what was in flight that are too many.
        loss_thresh: f64 = 5.0 / 256.0, unit "", range 0.004, 0.99, source "bbr_loss_thresh = 5/256";
        /// Share of `inflight_hi` that is left to others while it cruises.
        headroom: f64 = 38.0 / 256.0, unit "", range 0.0, 0.99, source "bbr_inflight_headroom = 38/256";
        /// So many ACKs with losses end STARTUP, in a round that lost more than `loss_thresh`.
        full_loss_count: u32 = 6, unit "ACKs", range 1_u32, 15_u32, source "bbr_full_loss_cnt = 6";
        /// Answer ECN, if `hosts.ecn` lets it be negotiated. The receiver then echoes every change of CE at once.
        ecn: bool = false, unit "", source "ECN_LOW, a feature of the route (ip route … features ecn_low), off by default";
        /// Answer ECN only once an RTT of at most this was seen; 0: whatever the RTT.
        ecn_max_rtt: Time = Time::from_millis(5), unit "", range Time(0), Time::from_secs(60), source "bbr_ecn_max_rtt_us = 5000";
        /// Weight of a round in the average of marks.
        ecn_alpha_gain: f64 = 16.0 / 256.0, unit "", range 0.004, 0.99, source "bbr_ecn_alpha_gain = 16/256";
        /// Share of `inflight_lo` that a round takes in which all were marked.
        ecn_factor: f64 = 85.0 / 256.0, unit "", range 0.0, 0.99, source "bbr_ecn_factor = 85/256";
        /// Share of marks that is too much for a probe and for STARTUP.
        ecn_thresh: f64 = 0.5, unit "", range 0.004, 0.99, source "bbr_ecn_thresh = 128/256";
        /// Marks without losses in a cycle start a new probe. Its first step is this fraction of `inflight_hi`; 0: no such probe.
        ecn_reprobe_gain: f64 = 0.5, unit "", range 0.0, 1.0, source "bbr_ecn_reprobe_gain = 128/256";
        /// Shortest wait between the ends of two probes.
        probe_wait: Time = Time::from_secs(2), unit "", range Time::from_millis(1), Time::from_secs(60), source "bbr_bw_probe_base_us";
        /// And up to this much more, drawn at random.
        probe_wait_random: Time = Time::from_secs(1), unit "", range Time::from_micros(1), Time::from_secs(60), source "bbr_bw_probe_rand_us";
        /// Age at which the smallest RTT is given up.
        min_rtt_window: Time = Time::from_secs(10), unit "", range Time::from_millis(100), Time::from_secs(3600), source "bbr_min_rtt_win_sec";
        /// Time without a new smallest RTT after which PROBE_RTT looks for one.
        probe_rtt_interval: Time = Time::from_secs(5), unit "", range Time::from_millis(100), Time::from_secs(3600), source "bbr_probe_rtt_win_ms";
        /// Least time that PROBE_RTT takes; 0: there is none.
        probe_rtt_duration: Time = Time::from_millis(200), unit "", range Time(0), Time::from_secs(10), source "bbr_probe_rtt_mode_ms";
        /// Window over the bandwidth-delay product in PROBE_RTT.
        probe_rtt_cwnd_gain: f64 = 0.5, unit "", range 0.0, 0.99, source "bbr_probe_rtt_cwnd_gain = 128/256";
    }
}

/// Bursts grow on short paths.
pub(super) const BURSTS: Bursts = Bursts { near: GSO_LEGACY_MAX_SIZE, most: GSO_LEGACY_MAX_SIZE, least: Some(2) };

/// What v3 does otherwise than v2.
#[derive(Clone, Debug)]
pub struct V3;

impl BbrVersion for V3 {
    const BURSTS: Bursts = BURSTS;
    const EQUAL_RTT_REFRESHES: bool = false;
    const MARKS_AT_THRESHOLD: bool = false;
    const ALPHA_WHEN_ELIGIBLE: bool = true;
    const LATEST_BEFORE: bool = true;
    const UP_ACKS_IN_SERIES: bool = false;
    const PROBE_LOSSES: bool = true;
    const TIMEOUT_ENDS_SEARCH: bool = true;
    const BOUNDS_END_FAST_PATH: bool = true;

    /// In every state, growth with any ACK, its absence once per round. Linux `bbr_check_full_bw_reached`.
    fn check_full_bw(machine: &mut Machine<V3>, sample: &RateSample, bw: u32) {
        if machine.full.now || sample.is_app_limited {
            return;
        }
        if machine.full.is_growth(bw) {
            machine.full = FullBw::starting_at(bw);
            return;
        }
        if !machine.round_start {
            return;
        }
        machine.full.rounds += 1;
        machine.full.now = machine.full.rounds >= FULL_BW_ROUNDS;
        machine.full_bw_reached |= machine.full.now;
    }

    fn enter_up(machine: &mut Machine<V3>, bw: u32) {
        machine.full = FullBw::starting_at(bw);
    }

    /// When the last probe was too high and this one gets there, or when the rate grows no more; while the upper bound limits the window the rate
    /// cannot grow, and the search begins anew.
    fn up_is_over(machine: &mut Machine<V3>, conn: &Conn, in_net: u32, bw: u32) -> bool {
        if machine.prev_probe_too_high && in_net >= machine.inflight_hi {
            machine.stopped_risky = true;
            return true;
        }
        if machine.limited_by_upper_bound(conn) {
            machine.full = FullBw::starting_at(bw);
            return false;
        }
        machine.full.now
    }

    fn inflight_hi_after_startup(machine: &Machine<V3>, inflight: u32) -> u32 {
        inflight.max(machine.inflight_latest)
    }
}

/// State of a connection.
pub type State = Machine<V3>;

impl State {
    /// A control with `params` for the connection of `context`.
    #[allow(clippy::needless_pass_by_value)] // the registry hands parameters over
    pub fn new(params: Params, context: &CcContext) -> State {
        Machine::from_settings(settings!(&params, params.probe_up_cwnd_gain, params.ecn_reprobe_gain), NAME, context)
    }
}
