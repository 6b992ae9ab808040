//! BBRv2 of google/bbr, branch v2alpha, on Linux 6.1; no mainline Linux has it: bounds by loss and ECN, and a cycle of UP, DOWN, CRUISE and
//! REFILL. The machine that it shares with v3 is in [`probing`](super::bbr::probing); here is what v2 does otherwise.

use super::bbr::probing::{settings, BbrVersion, FullBw, Machine, Settings, FULL_BW_ROUNDS};
use super::bbr::{to_fixed, Bursts, UNIT};
use super::conn::Conn;
use super::{CcContext, RateSample};
use crate::units::Time;

/// Name in experiment files.
pub const NAME: &str = "bbr2";
/// One line.
pub const TITLE: &str = "BBRv2 of google/bbr, branch v2alpha, on Linux 6.1";
/// Specification and deviations.
pub const SOURCE: &str = "tcp_bbr2.c of google/bbr, branch v2alpha, on Linux 6.1 (CachyOS/kernel-patches 6.1/0001-bbr2.patch). Not modelled: \
    fast_ack_mode, whose pace of ACKs is the usual one; a delayed ACK of a single small segment is not told apart (is_ack_delayed)";

crate::params! {
    /// Parameters.
    pub struct Params {
        /// Pacing rate in STARTUP.
        startup_gain: f64 = 739.0 / 256.0, unit "", range 1.0, 7.9, source "bbr_high_gain = 739/256";
        /// Window over the bandwidth-delay product in STARTUP and DRAIN.
        startup_cwnd_gain: f64 = 739.0 / 256.0, unit "", range 1.0, 7.9, source "bbr_startup_cwnd_gain = 739/256";
        /// Pacing rate in DRAIN.
        drain_gain: f64 = 88.0 / 256.0, unit "", range 0.004, 1.0, source "bbr_drain_gain = 88/256";
        /// Pacing rate in PROBE_UP.
        probe_up_gain: f64 = 1.25, unit "", range 1.0, 3.9, source "bbr_pacing_gain: 320/256";
        /// Pacing rate in PROBE_DOWN.
        probe_down_gain: f64 = 0.75, unit "", range 0.004, 1.0, source "bbr_pacing_gain: 192/256";
        /// Window over the bandwidth-delay product in the cycle.
        cwnd_gain: f64 = 2.0, unit "", range 1.0, 7.9, source "bbr_cwnd_gain = 512/256";
        /// Share of the short-term bounds that a round with losses takes.
        beta: f64 = 76.0 / 256.0, unit "", range 0.0, 0.99, source "bbr_beta = 76/256";
        /// Losses of what was in flight that are too many.
        loss_thresh: f64 = 5.0 / 256.0, unit "", range 0.004, 0.99, source "bbr_loss_thresh = 5/256";
        /// Share of `inflight_hi` that is left to others while it cruises.
        headroom: f64 = 38.0 / 256.0, unit "", range 0.0, 0.99, source "bbr_inflight_headroom = 38/256";
        /// So many ACKs with losses end STARTUP, in a round that lost more than `loss_thresh`.
        full_loss_count: u32 = 8, unit "ACKs", range 1_u32, 15_u32, source "bbr_full_loss_cnt = 8";
        /// Answer ECN, if `hosts.ecn` lets it be negotiated. The receiver then echoes every change of CE at once.
        ecn: bool = false, unit "", source "module parameter ecn_enable, off by default";
        /// Answer ECN only once an RTT of at most this was seen; 0: whatever the RTT.
        ecn_max_rtt: Time = Time::from_millis(5), unit "", range Time(0), Time::from_secs(60), source "bbr_ecn_max_rtt_us = 5000";
        /// Weight of a round in the average of marks.
        ecn_alpha_gain: f64 = 16.0 / 256.0, unit "", range 0.004, 0.99, source "bbr_ecn_alpha_gain = 16/256";
        /// Share of `inflight_lo` that a round takes in which all were marked.
        ecn_factor: f64 = 85.0 / 256.0, unit "", range 0.0, 0.99, source "bbr_ecn_factor = 85/256";
        /// Share of marks that is too much for a probe and for STARTUP.
        ecn_thresh: f64 = 0.5, unit "", range 0.004, 0.99, source "bbr_ecn_thresh = 128/256";
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

/// Bursts grow on short paths, eight times as far as in other kernels: GSO_MAX_SIZE of Linux 6.1 is 524280.
pub(super) const BURSTS: Bursts = Bursts { near: 524_280, most: 524_280, least: None };
/// PROBE_UP has found a queue with so much in flight. Linux `bbr_bw_probe_pif_gain`.
const QUEUE_GAIN: u32 = UNIT * 5 / 4;

/// What v2 does otherwise than v3.
#[derive(Clone, Debug)]
pub struct V2;

impl BbrVersion for V2 {
    const BURSTS: Bursts = BURSTS;
    const EQUAL_RTT_REFRESHES: bool = true;
    const MARKS_AT_THRESHOLD: bool = true;
    const ALPHA_WHEN_ELIGIBLE: bool = false;
    const LATEST_BEFORE: bool = false;
    const UP_ACKS_IN_SERIES: bool = true;
    const PROBE_LOSSES: bool = false;
    const TIMEOUT_ENDS_SEARCH: bool = false;
    const BOUNDS_END_FAST_PATH: bool = false;

    /// In STARTUP, once per round, by the largest rate. Linux `bbr_check_full_bw_reached`.
    fn check_full_bw(machine: &mut Machine<V2>, sample: &RateSample, _bw: u32) {
        if machine.full_bw_reached || !machine.round_start || sample.is_app_limited {
            return;
        }
        let max_bw = machine.max_bw();
        if machine.full.is_growth(max_bw) {
            machine.full = FullBw::starting_at(max_bw);
            return;
        }
        machine.full.rounds += 1;
        machine.full.now = machine.full.rounds >= FULL_BW_ROUNDS;
        machine.full_bw_reached = machine.full.now;
    }

    fn enter_up(_machine: &mut Machine<V2>, _bw: u32) {}

    /// When the last probe was too high and this one gets there, or after a round trip with a queue of a quarter of the product.
    fn up_is_over(machine: &mut Machine<V2>, conn: &Conn, in_net: u32, _bw: u32) -> bool {
        if machine.prev_probe_too_high && in_net >= machine.inflight_hi {
            machine.stopped_risky = true;
            return true;
        }
        machine.has_elapsed(u64::from(machine.min_rtt_us)) && in_net >= machine.inflight_at_max(conn, QUEUE_GAIN)
    }

    fn inflight_hi_after_startup(_machine: &Machine<V2>, inflight: u32) -> u32 {
        inflight
    }
}

/// State of a connection.
pub type State = Machine<V2>;

impl State {
    /// A control with `params` for the connection of `context`.
    #[allow(clippy::needless_pass_by_value)] // the registry hands parameters over
    pub fn new(params: Params, context: &CcContext) -> State {
        Machine::from_settings(settings!(&params, params.cwnd_gain, 0.0), NAME, context)
    }
}
