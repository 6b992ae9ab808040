//! Common parts of Reno-SCE and DCTCP-SCE: a window moved by a signed count of bytes, once per ACK. Cubic-SCE uses the root and the
//! choices.
//!
//! Specification: draft-grimes-tcpm-tcpsce-00 (an ACK with ESCE asks for a small reduction, CE keeps its meaning) and the
//! senders of the SCE project (github.com/chromi/sce, `net/ipv4/tcp_reno_sce.c` 07bbe597 "A" and 63982553 "B",
//! `tcp_dctcp_sce.c` 9fae76b9). Bytes acknowledged in congestion avoidance add to the count, ACKs with ESCE take from it
//! instead; at plus or minus `mss_divisor` times the window it turns into a segment more or less. Slow start is Linux's.
//!
//! Choices, and what speaks for their defaults:
//!
//! - `mss_divisor` 536. The code divides by `icsk_ack.rcv_mss`, the estimate of the segments that the *peer* sends. It starts
//!   at 536 (`TCP_MSS_DEFAULT`) and only data received can raise it: a host that only sends keeps 536, while it is
//!   acknowledged in segments of 1448 bytes. So the window moves 1448/536 = 2.70 times as fast as intended, up and down.
//!   draft-heist-tsvwg-sce-one-and-two-flow-tests-00 section 5.1.3 measured just that: at 100 Mbit/s and 160 ms DCTCP took
//!   225 s to reach the bandwidth-delay product, DCTCP-SCE 80 s, 2.8 times as fast; one segment per round trip takes 221 s.
//! - `slow_start_exit` at-once. In "B" and DCTCP-SCE as published ESCE never lowers `ssthresh`, so that slow start outlasts
//!   it, but the project's README of 2019 says that one brief excursion of the queue ends slow start, as "A" does.
//! - `ce_response` as-coded. Comments and plots of the authors have 75 % after CE, or 87.5 % if SCE came before; as coded,
//!   these cuts come on top of what Linux does by itself: PRR brings the window to `ssthresh`, about half. With the ramp
//!   sce-single, where CE matters, the draft's shares against Reno and CUBIC fit the code, not the comments
//!   (docs/lab-book.md).
//!
//! The square root that Reno-SCE needs is kept in single steps, up when the count adds a segment, down when it takes one.
//! Slow start adds segments without a step: the root is too small after it, and with it the first reactions.
//!
//! Not Linux:
//!
//! - Products are 64 bits wide; Linux's 32 bits overflow when bytes acknowledged times window exceed 4 GB.
//! - Every ACK that does not advance counts as a duplicate, hence as `mss_divisor` bytes; Linux leaves out those that only
//!   update the receiver's window.
//! - "documented": PRR owns the window during CWR and fast recovery and the count rests; as coded both move it.

use super::conn::{CaEvent, CaState, Congestion, Conn};
use super::exit::ExitCause;
use super::{slow_start, AckEvent};

/// Least window that SCE and CE leave. chromi/sce `tcp_reno_sce.c`, `tcp_dctcp_sce.c`, `tcp_cubic_sce.c`.
pub(super) const MIN_CWND: u32 = 2;
/// Loss takes 1/2. chromi/sce, as above: "loss 50%".
const LOSS_SHIFT: u32 = 1;
/// CE takes 1/4. chromi/sce, as above: "ABE 75%".
const CE_SHIFT: u32 = 2;
/// CE takes 1/8 if SCE came lately. chromi/sce, as above: "87.5% with SCE".
const CE_AFTER_SCE_SHIFT: u32 = 3;

crate::versions! {
    /// Which of two versions of `tcp_reno_sce.c`.
    pub enum SceVersion sets Reaction = { LATER } {
        /// 07bbe597, the older: half the reaction, CE spread over the ACKs that carry ECE, ESCE wins over ECE.
        A = "A" { divisor_shift: 1, esce_wins: true, ce_at_end: false },
        /// 63982553, as all later files: CE at the end of CWR, ECE wins over ESCE.
        B = "B" {},
    }
}

/// Values that a version sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reaction {
    /// Divisor of Reno's reaction, log2.
    pub divisor_shift: u32,
    /// Whether ESCE counts on an ACK that has ECE, too.
    esce_wins: bool,
    /// Whether CE takes its part at the end of CWR, and not by the ACKs that carry ECE.
    ce_at_end: bool,
}

const LATER: Reaction = Reaction { divisor_shift: 0, esce_wins: false, ce_at_end: true };

crate::choice! {
    /// Reaction of `ssthresh` to ESCE.
    pub enum EsceExit {
        /// `ssthresh` becomes half the window: slow start is over. Version A, README of 2019.
        AtOnce = "at-once",
        /// `ssthresh` never falls: only CE and loss end slow start. Version B and DCTCP-SCE as coded.
        CeOnly = "ce-only",
    }
}

crate::choice! {
    /// How CE and loss act together with Linux's CWR and PRR.
    pub enum CeResponse {
        /// CE leaves 75 %, or 87.5 % if SCE came lately; loss leaves half.
        Documented = "documented",
        /// PRR brings the window to `ssthresh`; then (version A: meanwhile) comes the documented cut as well.
        AsCoded = "as-coded",
    }
}

/// Choices of one sender.
#[derive(Clone, Debug)]
pub(super) struct SceConfig {
    /// Bytes of count for each segment of window: a change by one segment takes `mss_divisor * cwnd`.
    pub mss_divisor: u32,
    pub version: SceVersion,
    pub slow_start_exit: EsceExit,
    pub ce_response: CeResponse,
}

impl Default for Root {
    /// Returns the root for a new connection.
    fn default() -> Root {
        Root(1)
    }
}

/// The square root of the window, rounded up while it grows and one less while it shrinks, in single steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root(u32);

impl Root {
    fn square(self) -> u64 {
        u64::from(self.0) * u64::from(self.0)
    }

    /// The window has become `cwnd`, one more.
    fn grow_to(&mut self, cwnd: u32) {
        self.0 += u32::from(self.square() < u64::from(cwnd));
    }

    /// The window has become `cwnd`, one less.
    pub fn shrink_to(&mut self, cwnd: u32) {
        self.0 -= u32::from(self.square() >= u64::from(cwnd) && self.0 > 1);
    }

    /// The window was cut to `cwnd`.
    pub fn lower(&mut self, cwnd: u32) {
        while self.square() >= u64::from(cwnd) && self.0 > 1 {
            self.0 -= 1;
        }
    }

    /// Sets the root for `cwnd`, as if the window had shrunk to it: the largest whose square is below `cwnd`.
    pub fn follow(&mut self, cwnd: u32) {
        while self.square() < u64::from(cwnd) {
            self.0 += 1;
        }
        self.lower(cwnd);
    }

    /// The root.
    pub fn get(self) -> u32 {
        self.0
    }

    #[cfg(test)]
    pub fn from_root(root: u32) -> Root {
        Root(root)
    }
}

/// The hooks of a congestion control that are those of its [`Sce`], `self.sce`: all but the one for each ACK.
macro_rules! hooks_of_sce {
    () => {
        fn ssthresh(&mut self, conn: &$crate::cc::conn::Conn, cause: $crate::cc::conn::Congestion) -> u32 {
            self.sce.ssthresh(conn, cause)
        }

        #[inline]
        fn cong_avoid(&mut self, conn: &mut $crate::cc::conn::Conn, acked: u32) {
            self.sce.cong_avoid(conn, acked);
        }

        fn cwnd_event(&mut self, conn: &mut $crate::cc::conn::Conn, event: $crate::cc::conn::CaEvent) {
            self.sce.cwnd_event(conn, event);
        }

        fn undo_cwnd(&mut self, conn: &mut $crate::cc::conn::Conn) -> u32 {
            self.sce.undo_cwnd(conn)
        }
    };
}
pub(super) use hooks_of_sce;

/// State of a sender whose window is moved by a count of bytes.
#[derive(Clone, Debug)]
pub(super) struct Sce {
    config: SceConfig,
    set: Reaction,
    /// Bytes towards the next segment more (positive) or less. Linux `snd_cwnd_cnt` of these modules.
    pub count: i64,
    /// Largest window since the last reduction. `loss_cwnd` of these modules.
    peak: u32,
    /// ACKs until the last ESCE is forgotten. `recent_sce` of these modules.
    pub recent: u32,
    pub root: Root,
    /// `ssthresh` at the last reduction ("documented").
    reduced_to: u32,
}

impl Sce {
    pub fn new(config: SceConfig) -> Sce {
        Sce { set: config.version.sets(), config, count: 0, peak: 0, recent: 0, root: Root::default(), reduced_to: 0 }
    }

    /// An ACK; `response` gives the bytes that an ESCE ACK of so many bytes takes from the count, by window and its root.
    #[inline]
    pub fn on_ack(&mut self, conn: &mut Conn, ack: &AckEvent, response: impl Fn(u64, u32, u32) -> u64) {
        let bytes = match ack.advanced {
            0 => u64::from(self.config.mss_divisor),
            segments => segments * u64::from(conn.mss),
        };
        let as_coded = self.config.ce_response == CeResponse::AsCoded;
        let sce = ack.esce && (self.set.esce_wins || !ack.ece);
        let threshold = i64::from(self.config.mss_divisor) * i64::from(conn.cwnd);
        if !as_coded && matches!(conn.state, CaState::Cwr | CaState::Recovery) {
            // PRR owns the window
        } else if sce {
            self.count -= response(bytes, conn.cwnd, self.root.0) as i64;
            self.peak = conn.cwnd;
            let ssthresh = match self.config.slow_start_exit {
                EsceExit::AtOnce => self.half_peak(),
                EsceExit::CeOnly => conn.ssthresh.max(self.half_peak()),
            };
            conn.set_ssthresh(ssthresh, ExitCause::Sce);
        } else if !self.set.ce_at_end && ack.ece {
            if as_coded {
                let shift = self.ce_shift();
                self.count -= ((bytes * u64::from(conn.cwnd)) >> shift) as i64;
                self.peak = conn.cwnd;
                conn.set_ssthresh(self.half_peak(), ExitCause::Ecn);
            }
        } else if !conn.in_slow_start() && conn.cwnd_limited() {
            self.count += bytes as i64;
            self.peak = self.peak.max(conn.cwnd);
        }
        if sce {
            self.recent = conn.cwnd.saturating_add(1);
        }
        self.move_window(conn, threshold);
        self.recent = self.recent.saturating_sub(1);
    }

    /// Turns the count into segments; `threshold` is that of the window at the start of the ACK.
    #[inline]
    fn move_window(&mut self, conn: &mut Conn, threshold: i64) {
        while self.count <= -threshold {
            self.count += threshold;
            if conn.cwnd > MIN_CWND {
                conn.cwnd -= 1;
                self.root.shrink_to(conn.cwnd);
            }
        }
        while self.count >= threshold {
            self.count -= threshold;
            if conn.cwnd < conn.cwnd_clamp {
                conn.cwnd += 1;
                self.root.grow_to(conn.cwnd);
            }
        }
    }

    /// Slow start; what it leaves over counts towards congestion avoidance, which happens in [`Sce::on_ack`].
    #[inline]
    pub fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        if conn.cwnd_limited() && conn.in_slow_start() {
            let left = slow_start(conn, acked);
            self.count += i64::from(left) * i64::from(self.config.mss_divisor);
        }
    }

    fn half_peak(&self) -> u32 {
        (self.peak >> 1).max(MIN_CWND)
    }

    fn ce_shift(&self) -> u32 {
        if self.recent > 0 {
            CE_AFTER_SCE_SHIFT
        } else {
            CE_SHIFT
        }
    }

    /// See [`super::CongestionControl::ssthresh`].
    pub fn ssthresh(&mut self, conn: &Conn, cause: Congestion) -> u32 {
        match (self.config.ce_response, self.set.ce_at_end) {
            (CeResponse::Documented, _) => {
                let shift = if cause == Congestion::Ecn { self.ce_shift() } else { LOSS_SHIFT };
                self.reduced_to = self.cut(conn.cwnd, shift);
                self.reduced_to
            }
            (CeResponse::AsCoded, false) => self.half_peak(),
            (CeResponse::AsCoded, true) => conn.ssthresh.max(self.half_peak()),
        }
    }

    /// `cwnd` less 1/2^`shift` of it, at least one segment; the count begins again.
    fn cut(&mut self, cwnd: u32, shift: u32) -> u32 {
        self.peak = cwnd;
        self.count = 0;
        let left = cwnd.saturating_sub((cwnd >> shift).max(1)).max(MIN_CWND);
        self.root.lower(left);
        left
    }

    /// See [`super::CongestionControl::cwnd_event`].
    pub fn cwnd_event(&mut self, conn: &mut Conn, event: CaEvent) {
        let shift = match (event, self.set.ce_at_end) {
            (CaEvent::CompleteCwr, _) if self.config.ce_response == CeResponse::Documented => {
                // SCE may take the window below what CE left without a return to slow start; nothing if it was undone
                if conn.ssthresh == self.reduced_to && conn.cwnd == self.reduced_to {
                    conn.ssthresh = self.half_peak();
                }
                return;
            }
            (CaEvent::CompleteCwr, true) => self.ce_shift(),
            (CaEvent::Loss, _) if self.config.ce_response == CeResponse::AsCoded => LOSS_SHIFT,
            _ => return,
        };
        conn.cwnd = self.cut(conn.cwnd, shift);
        if self.set.ce_at_end {
            // of a window of 1 the module makes 0
            conn.ssthresh = (self.peak >> 1).max(1);
        }
    }

    /// See [`super::CongestionControl::undo_cwnd`].
    pub fn undo_cwnd(&self, conn: &Conn) -> u32 {
        conn.cwnd.max(self.peak)
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::conn;
    use super::*;

    fn sce(edit: impl FnOnce(&mut SceConfig)) -> Sce {
        let mut config = SceConfig {
            mss_divisor: 1448,
            version: SceVersion::B,
            slow_start_exit: EsceExit::AtOnce,
            ce_response: CeResponse::Documented,
        };
        edit(&mut config);
        Sce::new(config)
    }

    /// In congestion avoidance with `cwnd`.
    fn avoidance(cwnd: u32) -> Conn {
        Conn { cwnd, ssthresh: 2, snd_nxt: u64::from(cwnd), max_packets_out: cwnd, ..conn() }
    }

    fn ack(advanced: u64, ece: bool, esce: bool) -> AckEvent {
        AckEvent { ece, esce, advanced, ..AckEvent::default() }
    }

    fn none(_bytes: u64, _cwnd: u32, _root: u32) -> u64 {
        0
    }

    #[test]
    fn the_root_is_rounded_up_while_growing_and_one_less_while_shrinking() {
        let mut root = Root(1);
        for cwnd in 2..=1000_u32 {
            root.grow_to(cwnd);
            assert_eq!(root.0, f64::from(cwnd).sqrt().ceil() as u32, "{cwnd}");
        }
        // down: the largest whose square is below the window
        for cwnd in (2..1000_u32).rev() {
            root.shrink_to(cwnd);
            assert_eq!(root.0, (f64::from(cwnd).sqrt().ceil() as u32 - 1).max(1), "{cwnd}");
        }
    }

    #[test]
    fn the_root_falls_below_that_of_a_cut_window_but_not_below_1() {
        for (root, cwnd, lowered) in [(10, 81, 8), (10, 82, 9), (10, 101, 10), (3, 1000, 3), (7, 2, 1), (1, 1, 1)] {
            let mut cut = Root(root);
            cut.lower(cwnd);
            assert_eq!(cut.0, lowered, "{root} at {cwnd}");
        }
    }

    #[test]
    fn the_root_follows_any_window() {
        for start in [1, 10, 100] {
            for (cwnd, followed) in [(1, 1), (2, 1), (100, 9), (101, 10), (10_000, 99)] {
                let mut root = Root(start);
                root.follow(cwnd);
                assert_eq!(root.get(), followed, "{start} to {cwnd}");
            }
        }
    }

    #[test]
    fn a_window_of_bytes_is_a_segment() {
        let (mut cc, mut conn) = (sce(|_| ()), avoidance(10));
        for n in 1..=9 {
            cc.on_ack(&mut conn, &ack(1, false, false), none);
            assert_eq!((conn.cwnd, cc.count), (10, 1448 * n));
        }
        cc.on_ack(&mut conn, &ack(1, false, false), none);
        assert_eq!((conn.cwnd, cc.count), (11, 0));
    }

    #[test]
    fn as_coded_a_round_trip_adds_2_7_segments() {
        let (mut cc, mut conn) = (sce(|c| c.mss_divisor = 536), avoidance(100));
        for _ in 0..100 {
            cc.on_ack(&mut conn, &ack(1, false, false), none);
        }
        // 100 * 1448 = 53600 + 54136 + 37064 left
        assert_eq!((conn.cwnd, cc.count), (102, 37_064));
    }

    #[test]
    fn one_ack_moves_by_several_segments_at_the_threshold_of_its_start() {
        let (mut cc, mut conn) = (sce(|_| ()), avoidance(4));
        // 11 = 4 + 4 + 3, not 4 + 5 + 2
        cc.on_ack(&mut conn, &ack(11, false, false), none);
        assert_eq!((conn.cwnd, cc.count), (6, 3 * 1448));
        // 6 * (1 - 5) = -24 = -(6 + 6 + 6 + 6): from 6 to 2, and with 3 over
        cc.on_ack(&mut conn, &ack(6, false, true), |bytes, _, _| bytes * 5);
        assert_eq!((conn.cwnd, cc.count), (2, -3 * 1448));
    }

    #[test]
    fn neither_an_unused_window_nor_slow_start_counts() {
        let (mut cc, mut conn) = (sce(|_| ()), avoidance(10));
        conn.is_cwnd_limited = false;
        cc.on_ack(&mut conn, &ack(10, false, false), none);
        conn.is_cwnd_limited = true;
        conn.ssthresh = 20;
        cc.on_ack(&mut conn, &ack(10, false, false), none);
        assert_eq!((conn.cwnd, cc.count), (10, 0));
        // 10 + 13: 3 left over count as much as the divisor says
        cc.cong_avoid(&mut conn, 13);
        assert_eq!((conn.cwnd, cc.count), (20, 3 * 1448));
        cc.cong_avoid(&mut conn, 13);
        assert_eq!((conn.cwnd, cc.count), (20, 3 * 1448));
    }

    #[test]
    fn the_window_keeps_between_2_and_the_clamp() {
        let (mut cc, mut conn) = (sce(|_| ()), avoidance(3));
        cc.on_ack(&mut conn, &ack(1, false, true), |_, _, _| 1_000_000);
        assert_eq!(conn.cwnd, 2);
        conn.cwnd_clamp = 4;
        cc.on_ack(&mut conn, &ack(1000, false, false), none);
        assert_eq!(conn.cwnd, 4);
    }

    #[test]
    fn slow_start_leaves_the_root_behind() {
        let (mut cc, mut conn) = (sce(|_| ()), avoidance(10));
        conn.ssthresh = 100;
        cc.cong_avoid(&mut conn, 90);
        assert_eq!((conn.cwnd, cc.root), (100, Root(1)));
        // nine segments later it is right again: 10^2 = 100 < 109 does not step, 1 step a segment before
        for n in 2..=10 {
            let window = u64::from(conn.cwnd);
            cc.on_ack(&mut conn, &ack(window, false, false), none);
            assert_eq!(cc.root, Root(n));
        }
    }

    #[test]
    fn esce_ends_slow_start_at_once_or_never() {
        for (exit, ssthresh) in [(EsceExit::AtOnce, 20), (EsceExit::CeOnly, conn().ssthresh)] {
            let (mut cc, mut conn) = (sce(|c| c.slow_start_exit = exit), avoidance(40));
            conn.ssthresh = crate::cc::conn::INFINITE_SSTHRESH;
            cc.on_ack(&mut conn, &ack(1, false, true), |bytes, _, _| bytes);
            // the reaction itself is a 40th of a segment
            assert_eq!((conn.cwnd, conn.ssthresh, cc.count), (40, ssthresh, -1448));
        }
        // a threshold that is there is kept, if it is above half
        let (mut cc, mut conn) = (sce(|c| c.slow_start_exit = EsceExit::CeOnly), avoidance(40));
        for (before, after) in [(10, 20), (30, 30)] {
            conn.ssthresh = before;
            cc.on_ack(&mut conn, &ack(1, false, true), none);
            assert_eq!(conn.ssthresh, after);
        }
    }

    #[test]
    fn sce_is_remembered_for_a_window_of_acks() {
        let (mut cc, mut conn) = (sce(|_| ()), avoidance(40));
        assert_eq!(cc.recent, 0);
        cc.on_ack(&mut conn, &ack(1, false, true), none);
        assert_eq!(cc.recent, 40);
        for left in (0..40).rev() {
            cc.on_ack(&mut conn, &ack(1, false, false), none);
            assert_eq!(cc.recent, left);
        }
    }

    #[test]
    fn which_of_esce_and_ece_wins() {
        for (version, count) in [(SceVersion::A, -5000), (SceVersion::B, 1448)] {
            let (mut cc, mut conn) = (sce(|c| c.version = version), avoidance(40));
            cc.on_ack(&mut conn, &ack(1, true, true), |_, _, _| 5000);
            assert_eq!(cc.count, count, "{version:?}");
            assert_eq!(cc.recent > 0, version == SceVersion::A);
        }
    }

    /// A CE episode that ends after its reduction, as the sender arranges it: PRR ends at `ssthresh`.
    fn episode(cc: &mut Sce, conn: &mut Conn, cause: Congestion) {
        conn.ssthresh = cc.ssthresh(conn, cause);
        conn.state = CaState::Cwr;
        let settled = (conn.cwnd, cc.count);
        if cc.config.ce_response == CeResponse::Documented {
            cc.on_ack(conn, &ack(2, true, true), |_, _, _| 1 << 20);
            assert_eq!((conn.cwnd, cc.count), settled, "PRR owns the window");
        }
        conn.cwnd = conn.cwnd.min(conn.ssthresh);
        cc.cwnd_event(conn, CaEvent::CompleteCwr);
        conn.state = CaState::Open;
    }

    #[test]
    fn ce_leaves_three_quarters_or_seven_eighths_after_sce() {
        for version in [SceVersion::A, SceVersion::B] {
            for (recent, cause, left) in [(0, Congestion::Ecn, 75), (1, Congestion::Ecn, 88), (1, Congestion::Loss, 50)] {
                let (mut cc, mut conn) = (sce(|c| c.version = version), avoidance(100));
                (cc.recent, cc.count, cc.root) = (recent, 99, Root(10));
                episode(&mut cc, &mut conn, cause);
                // 100 - 25, 100 - floor(12.5), 100 - 50; 9^2 = 81 is not below 75, 8^2 is; 10^2 is not below 88
                assert_eq!((conn.cwnd, conn.ssthresh, cc.count), (left, 50, 0));
                assert_eq!(
                    cc.root,
                    Root(match left {
                        88 => 9,
                        75 => 8,
                        _ => 7,
                    })
                );
                assert_eq!(cc.undo_cwnd(&conn), 100);
            }
        }
    }

    #[test]
    fn a_reduction_takes_at_least_one_segment_down_to_two() {
        for (cwnd, left) in [(7, 6), (4, 3), (3, 2), (2, 2), (1, 2)] {
            assert_eq!(sce(|_| ()).ssthresh(&avoidance(cwnd), Congestion::Ecn), left, "{cwnd}");
        }
    }

    #[test]
    fn an_undone_reduction_leaves_the_threshold_alone() {
        let (mut cc, mut conn) = (sce(|_| ()), avoidance(100));
        assert_eq!(cc.ssthresh(&conn, Congestion::Loss), 50);
        (conn.cwnd, conn.ssthresh) = (100, 75);
        cc.cwnd_event(&mut conn, CaEvent::CompleteCwr);
        assert_eq!((conn.cwnd, conn.ssthresh), (100, 75));
    }

    #[test]
    fn as_coded_b_cuts_again_after_prr() {
        let as_coded = |c: &mut SceConfig| c.ce_response = CeResponse::AsCoded;
        let (mut cc, mut conn) = (sce(as_coded), avoidance(100));
        cc.peak = 100;
        episode(&mut cc, &mut conn, Congestion::Ecn);
        // to half by PRR, then a quarter of that, rounded down: 50 - 12; the threshold is half of what PRR left
        assert_eq!((conn.cwnd, conn.ssthresh), (38, 25));
        // a threshold above half keeps PRR from going so low: 60 - 15
        let (mut other, mut high) = (sce(as_coded), avoidance(100));
        (other.peak, high.ssthresh) = (100, 60);
        episode(&mut other, &mut high, Congestion::Ecn);
        assert_eq!((high.cwnd, high.ssthresh), (45, 30));
        // after SCE an eighth; a timeout takes half of what there is
        (other.recent, high.cwnd, high.ssthresh) = (1, 80, 30);
        other.peak = 80;
        episode(&mut other, &mut high, Congestion::Ecn);
        assert_eq!((high.cwnd, high.ssthresh), (35, 20));
        other.cwnd_event(&mut high, CaEvent::Loss);
        assert_eq!((high.cwnd, high.ssthresh), (18, 17));
    }

    #[test]
    fn as_coded_a_spreads_ce_over_the_acks_with_ece() {
        let (mut cc, mut conn) = (sce(|c| (c.version, c.ce_response) = (SceVersion::A, CeResponse::AsCoded)), avoidance(100));
        // each segment takes cwnd / 4 segments' worth of count: 1/4 of a segment of window; 1/8 after SCE
        for _ in 0..4 {
            cc.on_ack(&mut conn, &ack(1, true, false), none);
        }
        assert_eq!((conn.cwnd, conn.ssthresh, cc.count), (99, 50, 0));
        cc.recent = 100;
        for _ in 0..8 {
            cc.on_ack(&mut conn, &ack(1, true, false), none);
        }
        // 99 / 8 segments each, rounded to bytes: 8 * 17919 of 99 * 1448 = 143352
        assert_eq!((conn.cwnd, cc.count), (98, 0));
        cc.cwnd_event(&mut conn, CaEvent::CompleteCwr);
        assert_eq!(conn.cwnd, 98);
        cc.cwnd_event(&mut conn, CaEvent::Loss);
        assert_eq!((conn.cwnd, conn.ssthresh), (49, 49));
    }
}
