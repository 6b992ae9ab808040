//! BBRv2 of google/bbr, branch v2alpha, on Linux 6.1; no mainline Linux has it: bounds by loss and ECN, and a cycle of UP, DOWN, CRUISE and
//! REFILL. The machine that it shares with v3 is in [`probing`](super::bbr::probing); here is what v2 does otherwise.

use super::bbr::probing::{probing_params, settings, BbrVersion, Machine, Settings, FULL_BW_ROUNDS};
use super::bbr::{to_fixed, BbrRate, Bursts, UNIT};
use super::conn::Conn;
use super::{CcContext, RateSample};
use crate::units::Duration;

/// Name in experiment files.
pub const NAME: &str = "bbr2";
/// One line.
pub const TITLE: &str = "BBRv2 of google/bbr, branch v2alpha, on Linux 6.1";
/// Specification and deviations.
pub const SOURCE: &str = "tcp_bbr2.c of google/bbr, branch v2alpha, on Linux 6.1 (CachyOS/kernel-patches 6.1/0001-bbr2.patch). Not modelled: \
    fast_ack_mode, whose pace of ACKs is the usual one; a delayed ACK of a single small segment is not told apart (is_ack_delayed)";

probing_params! {
    startup_gain: 739.0 / 256.0, "bbr_high_gain = 739/256";
    startup_cwnd_gain: 739.0 / 256.0, "bbr_startup_cwnd_gain = 739/256";
    probe_down_gain: 0.75, "bbr_pacing_gain: 192/256";
    full_loss_count: 8, "bbr_full_loss_cnt = 8";
    ecn: "module parameter ecn_enable, off by default";
    probe_up_cwnd_gain: {}
    ecn_reprobe_gain: {}
}

/// Bursts grow on short paths, eight times as far as in other kernels: GSO_MAX_SIZE of Linux 6.1 is 524280.
pub(super) const BURSTS: Bursts = Bursts { near: 524_280, most: 524_280, least: None };
/// PROBE_UP has found a queue with so much in flight. Linux `bbr_bw_probe_pif_gain`.
const QUEUE_GAIN: u32 = UNIT * 5 / 4;

/// The behaviour of v2 that v3 does not share.
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
    fn check_full_bw(machine: &mut Machine<V2>, sample: &RateSample, _bw: BbrRate) {
        if machine.full_bw.reached || !machine.round_start || sample.is_app_limited {
            return;
        }
        let max_bw = machine.max_bw();
        if machine.full_bw.is_growth(max_bw) {
            machine.full_bw.restart(max_bw);
            return;
        }
        machine.full_bw.rounds += 1;
        machine.full_bw.now = machine.full_bw.rounds >= FULL_BW_ROUNDS;
        machine.full_bw.reached = machine.full_bw.now;
    }

    fn enter_up(_machine: &mut Machine<V2>, _bw: BbrRate) {}

    /// When the last probe was too high and this one gets there, or after a round trip with a queue of a quarter of the product.
    fn up_is_over(machine: &mut Machine<V2>, conn: &Conn, in_net: u32, _bw: BbrRate) -> bool {
        if machine.last_probe.too_high && in_net >= machine.bounds.inflight_hi {
            machine.last_probe.precautionary = true;
            return true;
        }
        machine.has_climbed_for_min_rtt() && in_net >= machine.inflight_at_max(conn, QUEUE_GAIN)
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
