//! DCTCP as in Linux (`net/ipv4/tcp_dctcp.c`), in its integer arithmetic, with switches for what changed over the years.
//!
//! Specification: RFC 8257 (Reno's growth, g = 1/16, alpha first 1). Once a window of data, alpha moves by g towards the
//! fraction of it that was marked; a reduction takes alpha/2 of the window. Everything around it is Linux's: the first ECE
//! of an episode reduces, by PRR over a round trip, with the alpha of the windows before; nothing grows meanwhile.
//!
//! Values of the switches by kernel (version numbers of the first from memory, the others as read):
//!
//! | kernel | `alpha_floor` | `counting` | `loss_response` |
//! |---|---|---|---|
//! | 3.18 to 4.1 | keep | bytes | alpha |
//! | 4.2 to 5.0 | zero | bytes | alpha |
//! | SCE's tree of mid-2019 (chromi/sce c54f3c5a) | zero | bytes | alpha-halve-on-rto |
//! | since 5.1, and the long-term kernels it was carried to | zero | packets | halve |
//! | modules of the L4S testbed (L4STeam/l4sdemo) | keep | bytes before 5.1, packets since | halve |
//!
//! Integer effects that decide results: marks below 1/64 of a window add nothing to alpha; with "zero", alpha then falls to
//! 0 and the sender no longer reacts; with "keep" it stays at 15, which cuts nothing off windows up to 136 segments. A cut is
//! rounded down to whole segments, so that none is made below 2048/alpha segments. Where marks are frequent, alpha rests
//! up to 15 above their fraction. Under random marks of probability p the window is about 2/alpha for that reason; with
//! cuts in fractions of a segment it would be 1.06/p, as growth starts again after each (both in the last test).
//!
//! Not Linux:
//!
//! - `dctcp_clamp_alpha_on_loss` (up to 5.0, off by default) is left out.
//! - "bytes" takes every ACK that does not advance as a duplicate; Linux leaves out those that only update the window.

use super::conn::{CaState, Congestion, Conn};
use super::exit::ExitCause;
use super::reno::IncreasePer;
use super::{reno, AckEvent, CcContext, CongestionControl, Echo, EcnUse};
use crate::packet::Ecn;

/// Name in experiment files.
pub const NAME: &str = "dctcp";
/// One line.
pub const TITLE: &str = "DCTCP, as Linux since 5.1: the window is cut by half the fraction of marked data, once a round trip";
/// Specification and deviations.
pub const SOURCE: &str = "RFC 8257; Linux >= 5.1 net/ipv4/tcp_dctcp.c, whose integer arithmetic is followed; switches for \
    3.18 to 5.0, the SCE tree of 2019 (chromi/sce c54f3c5a) and the modules of the L4S testbed (L4STeam/l4sdemo)";

crate::choice! {
    /// Treatment of an alpha so small that its share g rounds to nothing.
    pub enum AlphaFloor {
        /// Alpha falls to 0 at once. Linux since 4.2 or so.
        Zero = "zero",
        /// Alpha stays: 15 is the least with g = 1/16. Linux 3.18 to 4.1, L4S testbed.
        Keep = "keep",
    }
}

crate::choice! {
    /// Unit in which the marked fraction is counted.
    pub enum Counting {
        /// Segments delivered, selectively acknowledged ones included. Linux since 5.1.
        Packets = "packets",
        /// Bytes cumulatively acknowledged. Linux up to 5.0.
        Bytes = "bytes",
    }
}

crate::choice! {
    /// Reaction of the window to loss.
    pub enum LossResponse {
        /// Half, for fast recovery and timeout. Linux since 5.1, L4S testbed.
        Halve = "halve",
        /// As ECN: next to nothing when there were no marks. Linux 3.18 to 5.0.
        Alpha = "alpha",
        /// As ECN in fast recovery, half at a timeout. chromi/sce c54f3c5a.
        AlphaHalveOnRto = "alpha-halve-on-rto",
    }
}

crate::params! {
    /// Parameters of DCTCP.
    pub struct Params {
        /// g, the weight of the newest window in alpha: 4 is 1/16.
        shift_g: u32 = 4, unit "-log2", range 0u32, 10u32, source "Linux tcp_dctcp.c dctcp_shift_g; RFC 8257 section 4.2";
        /// alpha of a new connection.
        alpha_init: u32 = 1024, unit "1/1024", range 0u32, 1024u32, source "Linux tcp_dctcp.c dctcp_alpha_on_init; RFC 8257 section 3.3";
        /// Whether alpha can reach 0.
        alpha_floor: AlphaFloor = AlphaFloor::Zero, unit "", source "Linux tcp_dctcp.c dctcp_update_alpha since 4.2";
        /// Unit in which the marked fraction is counted.
        counting: Counting = Counting::Packets, unit "", source "Linux tcp_dctcp.c dctcp_update_alpha since 5.1";
        /// Reaction to loss.
        loss_response: LossResponse = LossResponse::Halve, unit "", source "Linux tcp_dctcp.c dctcp_react_to_loss since 5.1";
        /// Unit that moves the window towards the next segment.
        increase_per: IncreasePer = IncreasePer::Segment, unit "", source "tcp_cong_avoid_ai counts segments since Linux 4.0";
        /// Codepoint of its packets: ECT(0), or ECT(1), which DualPI2 takes for L4S.
        ect: u8 = 0, unit "", range 0u8, 1u8, source "Linux sends ECT(0); RFC 9331 section 4.1";
    }
}

/// alpha is in 1/1024. Linux `DCTCP_MAX_ALPHA`.
const ALPHA_ONE: u32 = 1024;
/// log2 of [`ALPHA_ONE`].
const ALPHA_SHIFT: u32 = 10;
/// A reduction takes alpha/2 of the window. RFC 8257 section 3.4.
const CUT_SHIFT: u32 = ALPHA_SHIFT + 1;
/// Least window after a reduction. Linux `dctcp_ssthresh`.
const MIN_SSTHRESH: u32 = 2;
/// Bytes that a duplicate ACK counts with [`Counting::Bytes`]: Linux `icsk_ack.rcv_mss`, the estimate of the segments that
/// the *peer* sends, which a host that only sends bulk data never raises above its start, `TCP_MSS_DEFAULT`.
const DUPACK_BYTES: u64 = 536;

/// State of DCTCP.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    /// Estimate of the marked fraction, 1/1024.
    alpha: u32,
    /// The window of data that alpha is updated for ends here.
    next_seq: u64,
    /// Segments delivered before this window; or bytes acknowledged in it.
    total: u64,
    /// Segments among these that were delivered by ACKs with ECE.
    marked: u64,
}

impl State {
    /// DCTCP with `params`.
    pub fn new(params: Params, _context: &CcContext) -> State {
        let alpha = params.alpha_init;
        State { params, alpha, next_seq: 0, total: 0, marked: 0 }
    }

    /// Begins a window of data. Linux `dctcp_reset`.
    fn start_window(&mut self, conn: &Conn) {
        self.next_seq = conn.snd_nxt;
        (self.total, self.marked) = match self.params.counting {
            Counting::Packets => (conn.delivered, conn.delivered_ce),
            Counting::Bytes => (0, 0),
        };
    }

    /// Moves alpha after a window of which `marked` of `total` were marked. RFC 8257 section 3.3, equation for DCTCP.Alpha.
    fn update_alpha(&mut self, marked: u64, total: u64) {
        let mut decay = self.alpha >> self.params.shift_g;
        if decay == 0 && self.params.alpha_floor == AlphaFloor::Zero {
            decay = self.alpha;
        }
        let gain = (marked << (ALPHA_SHIFT - self.params.shift_g)) / total.max(1);
        // more marked than delivered cannot be; a cut above half would follow
        self.alpha = (self.alpha - decay + gain.min(u64::from(ALPHA_ONE)) as u32).min(ALPHA_ONE);
    }

    /// The window less alpha/2 of it. RFC 8257 section 3.4.
    fn cut(&self, cwnd: u32) -> u32 {
        let cut = (u64::from(cwnd) * u64::from(self.alpha)) >> CUT_SHIFT;
        (cwnd - cut as u32).max(MIN_SSTHRESH)
    }
}

/// RFC 5681 section 3.1, equation 4, on the window. Linux `dctcp_react_to_loss`.
fn half(cwnd: u32) -> u32 {
    (cwnd >> 1).max(MIN_SSTHRESH)
}

impl CongestionControl for State {
    fn ecn(&self) -> EcnUse {
        let codepoint = if self.params.ect == 1 { Ecn::Ect1 } else { Ecn::Ect0 };
        EcnUse { required: true, codepoint, echo: Echo::PerPacket, only_accurate: false, ..EcnUse::default() }
    }

    fn init(&mut self, conn: &mut Conn) {
        self.start_window(conn);
    }

    #[inline]
    fn in_ack_event(&mut self, conn: &mut Conn, ack: &AckEvent) {
        if self.params.counting == Counting::Bytes {
            let bytes = if ack.advanced > 0 { ack.advanced * u64::from(conn.mss) } else { DUPACK_BYTES };
            self.total += bytes;
            self.marked += if ack.ece { bytes } else { 0 };
        }
        if ack.una >= self.next_seq {
            let (marked, total) = match self.params.counting {
                Counting::Packets => (conn.delivered_ce - self.marked, conn.delivered - self.total),
                Counting::Bytes => (self.marked, self.total),
            };
            self.update_alpha(marked, total);
            self.start_window(conn);
        }
    }

    fn ssthresh(&mut self, conn: &Conn, cause: Congestion) -> u32 {
        // CE marks cut the window by alpha / 2
        match (cause, self.params.loss_response) {
            (Congestion::Timeout, LossResponse::Halve | LossResponse::AlphaHalveOnRto) => half(conn.cwnd),
            // loss found by a tail-loss probe as well: Linux passes through CWR then, and halves only on entering Recovery
            _ => self.cut(conn.cwnd),
        }
    }

    #[inline]
    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        reno::grow(conn, acked, self.params.increase_per);
    }

    fn set_state(&mut self, conn: &mut Conn, state: CaState) {
        // also when a reduction for ECN is under way: from what is left of the window
        let enters_recovery = state == CaState::Recovery && conn.state != CaState::Recovery;
        if enters_recovery && self.params.loss_response == LossResponse::Halve {
            conn.set_ssthresh(half(conn.cwnd), ExitCause::Loss);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::conn;
    use super::*;
    use crate::cc::conn::CaEvent;
    use crate::rng::Rng;

    fn dctcp(edit: impl FnOnce(&mut Params)) -> State {
        let mut params = Params::default();
        edit(&mut params);
        State::new(params, &CcContext::default())
    }

    /// alpha at the start and after each of `windows` windows with `marked` of `total` marked.
    fn alphas(cc: &mut State, marked: u64, total: u64, windows: usize) -> Vec<u32> {
        let mut alphas = vec![cc.alpha];
        for _ in 0..windows {
            cc.update_alpha(marked, total);
            alphas.push(cc.alpha);
        }
        alphas
    }

    // ---- alpha

    #[test]
    fn alpha_decays_by_a_sixteenth_a_window_and_gains_a_sixteenth_of_the_marked_fraction() {
        // each row: a - (a >> 4) + (64 * F), rounded down
        let table: [(u64, [u32; 11]); 6] = [
            (0, [1024, 960, 900, 844, 792, 743, 697, 654, 614, 576, 540]),
            (1, [1024, 960, 900, 844, 792, 743, 697, 654, 614, 576, 540]),
            (2, [1024, 961, 902, 847, 796, 748, 703, 661, 621, 584, 549]),
            (10, [1024, 966, 912, 861, 814, 770, 728, 689, 652, 618, 586]),
            (25, [1024, 976, 931, 889, 850, 813, 779, 747, 717, 689, 662]),
            (50, [1024, 992, 962, 934, 908, 884, 861, 840, 820, 801, 783]),
        ];
        for floor in [AlphaFloor::Zero, AlphaFloor::Keep] {
            for (percent, expected) in table {
                let mut cc = dctcp(|p| p.alpha_floor = floor);
                assert_eq!(alphas(&mut cc, percent, 100, 10), expected, "{percent} % {floor:?}");
            }
        }
    }

    #[test]
    fn alpha_comes_to_rest_above_the_fraction_or_at_the_floor() {
        // at rest a >> 4 = 64 F, so a = 16 * floor(64 F) + 15 when approached from above: 31 = 16 * 1 + 15
        for (percent, zero, keep) in [(0, 0, 15), (1, 0, 15), (2, 31, 31), (10, 111, 111), (25, 271, 271), (50, 527, 527)] {
            for (floor, rest) in [(AlphaFloor::Zero, zero), (AlphaFloor::Keep, keep)] {
                let mut cc = dctcp(|p| p.alpha_floor = floor);
                assert_eq!(alphas(&mut cc, percent, 100, 300).last(), Some(&rest), "{percent} % {floor:?}");
            }
        }
        // without marks alpha is below 16 after 74 windows: then "zero" takes it to 0
        let mut cc = dctcp(|_| ());
        let alphas = alphas(&mut cc, 0, 100, 75);
        assert!(alphas[73] >= 16 && alphas[74] == 15 && alphas[75] == 0, "{alphas:?}");
    }

    #[test]
    fn alpha_follows_rfc_8257_to_within_rounding() {
        // real-valued, F = 0.25: 1, .95312, .90918, .86798, .82936, .79315, .75920; each step rounds away less than 2/1024
        let mut real = 1.0;
        let mut cc = dctcp(|_| ());
        for n in 1..=100 {
            real = real * (15.0 / 16.0) + 0.25 / 16.0;
            cc.update_alpha(25, 100);
            let difference = f64::from(cc.alpha) / 1024.0 - real;
            assert!((-0.001..15.1 / 1024.0).contains(&difference), "window {n}: {} instead of {real}", cc.alpha);
        }
    }

    #[test]
    fn alpha_never_exceeds_one() {
        for shift_g in [0, 4, 10] {
            let mut cc = dctcp(|p| p.shift_g = shift_g);
            cc.update_alpha(1, 0);
            assert_eq!(cc.alpha, 1024);
            // g = 1: alpha is the fraction of the last window
            cc.update_alpha(1, 4);
            assert_eq!(cc.alpha, [256, 976, 1023][(shift_g as usize).div_ceil(5)], "{shift_g}");
        }
    }

    // ---- windows of data

    /// An ACK of `n` segments through the hooks, in the order of Linux up to 6.14; whatever is acknowledged is sent again.
    fn ack_n(cc: &mut State, conn: &mut Conn, n: u32, ece: bool) {
        let (advanced, una) = (u64::from(n), conn.snd_una + u64::from(n));
        cc.in_ack_event(conn, &AckEvent { ece, advanced, una, ..AckEvent::default() });
        conn.snd_una += u64::from(n);
        conn.delivered += u64::from(n);
        conn.delivered_ce += if ece { u64::from(n) } else { 0 };
        conn.snd_nxt = conn.snd_nxt.max(conn.snd_una + u64::from(conn.cwnd));
    }

    #[test]
    fn alpha_moves_once_a_window() {
        let mut conn = conn();
        let mut cc = dctcp(|_| ());
        cc.init(&mut conn);
        // segments 0..10 are out: the ACK of the tenth ends the window, before its own delivery is counted
        for n in 1..=9 {
            ack_n(&mut cc, &mut conn, 1, n > 4);
            assert_eq!(cc.alpha, 1024);
        }
        ack_n(&mut cc, &mut conn, 1, true);
        // 5 of 9 marked: 1024 - 64 + floor(64 * 5 / 9) = 35
        assert_eq!(cc.alpha, 995);
        // 19 was sent when the ninth ACK came: 19 more segments are in the next window, the tenth ACK's first
        for _ in 0..8 {
            ack_n(&mut cc, &mut conn, 1, false);
        }
        assert_eq!(cc.alpha, 995);
        ack_n(&mut cc, &mut conn, 1, false);
        // 1 of 9: 995 - 62 + floor(64 / 9) = 7
        assert_eq!(cc.alpha, 940);
    }

    #[test]
    fn bytes_include_the_ack_that_ends_the_window() {
        let mut conn = conn();
        let mut cc = dctcp(|p| p.counting = Counting::Bytes);
        cc.init(&mut conn);
        for n in 1..=10 {
            ack_n(&mut cc, &mut conn, 1, n > 5);
        }
        // 5 of 10: 1024 - 64 + 32
        assert_eq!((cc.alpha, cc.total, cc.marked), (992, 0, 0));
        // a duplicate counts 536 of 1448 bytes: 2 * 536 / (2 * 536 + 4 * 1448) = 0.156 marked
        for n in [0, 0, 4] {
            ack_n(&mut cc, &mut conn, n, n == 0);
        }
        assert_eq!((cc.total, cc.marked), (2 * 536 + 4 * 1448, 2 * 536));
        ack_n(&mut cc, &mut conn, 5, false);
        // 1072 / (1072 + 9 * 1448 = 14104): 992 - 62 + floor(64 * .0760)
        assert_eq!(cc.alpha, 934);
    }

    #[test]
    fn a_connection_begins_its_first_window_where_it_stands() {
        let mut conn = Conn { snd_una: 100, snd_nxt: 110, delivered: 100, delivered_ce: 50, ..conn() };
        let mut cc = dctcp(|p| p.alpha_init = 512);
        cc.init(&mut conn);
        ack_n(&mut cc, &mut conn, 10, false);
        // nothing was delivered before that ACK: 512 - 32
        assert_eq!(cc.alpha, 480);
    }

    // ---- reductions

    #[test]
    fn a_reduction_takes_half_of_alpha() {
        // 100 - floor(27100 / 2048) = 87; 15 cuts nothing off 136 segments, 1 off 137, 2 off 300
        for (alpha, cwnd, ssthresh) in [
            (1024, 100, 50),
            (1024, 3, 2),
            (1024, 2, 2),
            (271, 100, 87),
            (15, 100, 100),
            (15, 136, 136),
            (15, 137, 136),
            (15, 300, 298),
            (0, 1000, 1000),
            (0, 1, 2),
        ] {
            let mut cc = dctcp(|p| p.alpha_init = alpha);
            assert_eq!(cc.ssthresh(&Conn { cwnd, ..conn() }, Congestion::Ecn), ssthresh, "alpha {alpha} cwnd {cwnd}");
        }
    }

    /// Threshold after fast recovery and after a timeout of a window of 100, as the sender arranges them.
    fn after_loss(loss_response: LossResponse, state: CaState) -> (u32, u32) {
        let mut conn = Conn { cwnd: 100, state, ..conn() };
        let mut cc = dctcp(|p| (p.loss_response, p.alpha_init) = (loss_response, 271));
        let timeout = cc.ssthresh(&conn, Congestion::Timeout);
        if state < CaState::Cwr {
            conn.ssthresh = cc.ssthresh(&conn, Congestion::Loss);
        }
        cc.set_state(&mut conn, CaState::Recovery);
        cc.cwnd_event(&mut conn, CaEvent::CompleteCwr);
        (conn.ssthresh, timeout)
    }

    #[test]
    fn loss_halves_or_cuts_by_alpha() {
        for (response, expected) in
            [(LossResponse::Halve, (50, 50)), (LossResponse::Alpha, (87, 87)), (LossResponse::AlphaHalveOnRto, (87, 50))]
        {
            assert_eq!(after_loss(response, CaState::Disorder), expected);
        }
    }

    #[test]
    fn loss_during_a_reduction_halves_what_is_left_once() {
        assert_eq!(after_loss(LossResponse::Halve, CaState::Cwr).0, 50);
        let mut conn = Conn { cwnd: 60, ssthresh: 50, state: CaState::Recovery, ..conn() };
        dctcp(|_| ()).set_state(&mut conn, CaState::Recovery);
        assert_eq!(conn.ssthresh, 50);
    }

    #[test]
    fn a_spurious_reduction_is_undone() {
        let mut conn = Conn { cwnd: 50, prior_cwnd: 100, ..conn() };
        assert_eq!(dctcp(|_| ()).undo_cwnd(&mut conn), 100);
    }

    // ---- random marking

    /// Mean window with every segment marked with probability `p`, and Linux's machine around: nothing grows from the first
    /// mark until a window later, and the credit towards the next segment is lost. Either with this file's cuts, in whole
    /// segments, or with real ones of p/2.
    fn mean_window(p: f64, whole_segments: bool) -> f64 {
        let mut rng = Rng::stream(1, "marks", 0);
        let mut conn = Conn { ssthresh: 2, ..conn() };
        let mut cc = dctcp(|_| ());
        cc.init(&mut conn);
        let (mut window, mut target) = (10.0, 10.0);
        let (mut sum, mut rounds) = (0.0, 0.0);
        for _ in 0..300_000 {
            let ece = rng.next_f64() < p;
            ack_n(&mut cc, &mut conn, 1, ece);
            if conn.state == CaState::Cwr && conn.snd_una > conn.high_seq {
                (conn.state, window) = (CaState::Open, target);
                conn.cwnd = target as u32;
            }
            if ece && conn.state == CaState::Open {
                let cut = cc.ssthresh(&conn, Congestion::Ecn);
                target = if whole_segments { f64::from(cut) } else { window * (1.0 - p / 2.0) };
                (conn.state, conn.high_seq, conn.cwnd_cnt) = (CaState::Cwr, conn.snd_nxt, 0);
            } else if conn.state == CaState::Open {
                cc.cong_avoid(&mut conn, 1);
                window = if whole_segments { f64::from(conn.cwnd) } else { window + f64::from(conn.cwnd_cnt == 0) };
                conn.cwnd = window as u32;
            }
            conn.snd_nxt = conn.snd_nxt.max(conn.snd_una + u64::from(conn.cwnd));
            sum += 1.0;
            rounds += 1.0 / window;
        }
        sum / rounds
    }

    #[test]
    fn random_marks_hold_a_window_of_2_over_alpha_where_real_cuts_would_hold_1_06_over_p() {
        for p in [0.05, 0.1, 0.2] {
            // With real cuts, x = pW: a window grows by a segment for every window without a mark, of which there are
            // 1/(e^x - 1) between two cuts of W p/2 = x/2; so x (e^x - 1) = 2, x = 1.06, less what is rounded down here.
            let real = mean_window(p, false) * p;
            assert!((0.97..1.10).contains(&real), "p {p}: {real}");
            // A cut in whole segments is none below 2048/alpha, and alpha rests half of its 15 steps above p on average.
            let whole = mean_window(p, true);
            let threshold = 2.0 / (p + 7.5 / 1024.0);
            assert!((0.92..1.08).contains(&(whole / threshold)), "p {p}: {whole} instead of {threshold}");
        }
    }
}
