//! BBRv3 of google/bbr, branch v3, on Linux 6.12; no mainline Linux has it. The machine that it shares with v2 is in
//! [`probing`](super::bbr::probing); here is what v3 does otherwise.

use super::bbr::probing::{probing_params, settings, BbrVersion, Machine, Settings, FULL_BW_ROUNDS};
use super::bbr::{to_fixed, BbrRate, Bursts, GSO_LEGACY_MAX_SIZE};
use super::conn::Conn;
use super::{CcContext, RateSample};
use crate::units::Duration;

/// Name in experiment files.
pub const NAME: &str = "bbr3";
/// One line.
pub const TITLE: &str = "BBRv3 of google/bbr, branch v3, on Linux 6.12";
/// Specification and deviations.
pub const SOURCE: &str = "tcp_bbr.c of google/bbr, branch v3, on Linux 6.12 (CachyOS/kernel-patches 6.12/0002-bbr3.patch). Not modelled: PLB, off by \
    default; fast_ack_mode, whose pace of ACKs is the usual one; a delayed ACK of a single small segment is not told apart (is_ack_delayed)";

probing_params! {
    startup_gain: 710.0 / 256.0, "bbr_startup_pacing_gain = 710/256, 4 ln 2";
    startup_cwnd_gain: 2.0, "bbr_startup_cwnd_gain = 512/256";
    probe_down_gain: 232.0 / 256.0, "bbr_pacing_gain: 232/256";
    full_loss_count: 6, "bbr_full_loss_cnt = 6";
    ecn: "ECN_LOW, a feature of the route (ip route … features ecn_low), off by default";
    probe_up_cwnd_gain: {
        /// Window in PROBE_UP over the bandwidth-delay product.
        probe_up_cwnd_gain: f64 = 2.25, unit "", range 1.0, 7.9, source "bbr_bw_probe_cwnd_gain: 64/256 more than bbr_cwnd_gain";
    }
    ecn_reprobe_gain: {
        /// Marks without losses in a cycle start a new probe. Its first step is this fraction of `inflight_hi`; 0: no such probe.
        ecn_reprobe_gain: f64 = 0.5, unit "", range 0.0, 1.0, source "bbr_ecn_reprobe_gain = 128/256";
    }
}

/// Bursts grow on short paths.
pub(super) const BURSTS: Bursts = Bursts { near: GSO_LEGACY_MAX_SIZE, most: GSO_LEGACY_MAX_SIZE, least: Some(2) };

/// The behaviour of v3 that v2 does not share.
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
    fn check_full_bw(machine: &mut Machine<V3>, sample: &RateSample, bw: BbrRate) {
        if machine.full_bw.now || sample.is_app_limited {
            return;
        }
        if machine.full_bw.is_growth(bw) {
            machine.full_bw.restart(bw);
            return;
        }
        if !machine.round_start {
            return;
        }
        machine.full_bw.rounds += 1;
        machine.full_bw.now = machine.full_bw.rounds >= FULL_BW_ROUNDS;
        machine.full_bw.reached |= machine.full_bw.now;
    }

    fn enter_up(machine: &mut Machine<V3>, bw: BbrRate) {
        machine.full_bw.restart(bw);
    }

    /// When the last probe was too high and this one gets there, or when the rate grows no more; while the upper bound limits the window the rate
    /// cannot grow, and the search begins again.
    fn up_is_over(machine: &mut Machine<V3>, conn: &Conn, in_net: u32, bw: BbrRate) -> bool {
        if machine.last_probe.too_high && in_net >= machine.bounds.inflight_hi {
            machine.last_probe.precautionary = true;
            return true;
        }
        if machine.limited_by_upper_bound(conn) {
            machine.full_bw.restart(bw);
            return false;
        }
        machine.full_bw.now
    }

    fn inflight_hi_after_startup(machine: &Machine<V3>, inflight: u32) -> u32 {
        inflight.max(machine.latest.inflight)
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
