//! Cubic-SCE: CUBIC that gives way to SCE marks by the square root of its window in a round trip, and flattens its curve.
//!
//! Specification: the SCE project's module (github.com/chromi/sce, `net/ipv4/tcp_cubic_sce.c` 1280a6d0 and 0139ea04, 2019 and
//! 2020), which its authors called "still being developed" in 2019. It is CUBIC of Linux 5.1 with three changes:
//!
//! - An ACK with ESCE takes sqrt(cwnd) times what it acknowledges from the count of bytes that drives CUBIC's Reno-friendly
//!   estimate. At minus `mss_divisor` times the window the window and the plateau of the curve lose a segment.
//! - The same ACK moves the plateau towards the present by the fraction acked/sqrt(cwnd) of its distance, at the height that
//!   leaves the curve as it is now. The code has acked in bytes here, so that any segment moves it all the way: the
//!   curve is flat at every mark. Before the first epoch of growth, ESCE only ends slow start.
//! - CE, and loss as well, leave 7/8 if SCE came within the last window of ACKs, 0.7 otherwise.
//!
//! `mss_divisor` is 536 as in Reno-SCE, see `sce.rs`: reductions are 2.70 times as fast as intended; growth is not, as both
//! its sides have the same unit. The square root is right from the first epoch on: it follows the window at every ACK.
//!
//! Not the module:
//!
//! - Where the plateau lies ahead, the code takes the elapsed time off twice. Its unsigned difference wraps, the plateau ends
//!   up at four thousand million segments, and from then on the window grows by half in a round trip whatever the marks
//!   ask for, until CE or loss. Here the curve is continuous in both cases, as the code is in the other.
//! - `ce_response` "documented": ESCE is ignored while PRR reduces the window. As coded it sets `ssthresh` to half of what is
//!   left of the window, and PRR follows.
//! - The ACK that begins an epoch counts in it, as in Linux since.
//! - Every ACK that does not advance counts as a duplicate, hence as `mss_divisor` bytes; Linux leaves out those that only
//!   update the receiver's window.
//!
//! ECN is negotiated as usual, with ECT(0) on data: SCE has no handshake of its own.

use super::conn::{CaEvent, CaState, Congestion, Conn};
use super::cubic::{self, curve_time};
use super::exit::ExitCause;
use super::hystart::HystartForm;
pub use super::sce::CeResponse;
use super::sce::{Root, MIN_CWND};
use super::{AckEvent, CcContext, CongestionControl};

/// Name in experiment files.
pub const NAME: &str = "cubic-sce";
/// One line.
pub const TITLE: &str = "Cubic-SCE: CUBIC that gives up sqrt(cwnd) segments for a round trip of SCE marks";
/// Specification and deviations.
pub const SOURCE: &str =
    "github.com/chromi/sce net/ipv4/tcp_cubic_sce.c 1280a6d0, an experiment of 2019 and 2020; its arithmetic \
    is followed except where it wraps";

crate::params! {
    /// Parameters of Cubic-SCE; those of CUBIC that are not here have Linux's defaults.
    pub struct Params {
        /// Bytes by which acknowledged data is divided into segments: 536 as coded, 1448 as intended.
        mss_divisor: u32 = 536, unit "bytes", range 1u32, 65_535u32, source "chromi/sce: icsk_ack.rcv_mss of a host that only sends";
        /// Whether ESCE changes `ssthresh` while PRR reduces the window.
        ce_response: CeResponse = CeResponse::Documented, unit "", source "as for reno-sce";
        /// Which HyStart ends slow start early, named by the Linux version.
        hystart: HystartForm = HystartForm::Milliseconds, unit "", source "chromi/sce tcp_cubic_sce.c 1280a6d0, as Linux 5.1";
    }
}

/// State of Cubic-SCE.
#[derive(Clone, Debug)]
pub struct State {
    cubic: cubic::State,
    mss_divisor: u32,
    ce_response: CeResponse,
    root: Root,
    /// ACKs until the last ESCE is forgotten. `recent_sce` of the module.
    recent: u32,
}

impl State {
    /// Cubic-SCE with `params`.
    pub fn new(params: Params, _context: &CcContext) -> State {
        let Params { mss_divisor, ce_response, hystart } = params;
        let plain = cubic::Params { hystart, ..cubic::Params::default() };
        let cubic = cubic::State::with_ack_unit(plain, mss_divisor);
        State { cubic, mss_divisor, ce_response, root: Root::default(), recent: 0 }
    }

    /// Moves the plateau towards the present by `bytes`/root of its distance, without a step in the curve.
    fn flatten(&mut self, now: u64, epoch_start: u64, bytes: u64) {
        let root = u64::from(self.root.get());
        let share = bytes.min(root);
        let elapsed = curve_time(now.saturating_sub(epoch_start));
        let height = self.cubic.w_cubic(elapsed);
        if elapsed < self.cubic.k {
            // it is still ahead: a new epoch, with less of it left
            let left = (self.cubic.k - elapsed) * (root - share) / root;
            self.cubic.epoch_start = Some(now);
            self.cubic.k = left;
            self.cubic.origin = height.saturating_add(self.cubic.height(left));
        } else {
            // it is behind: the epoch as if it had begun there, with a plateau later than that
            let since = elapsed - self.cubic.k;
            let k = since * share / root;
            self.cubic.epoch_start = Some(epoch_start + jiffies(self.cubic.k));
            self.cubic.k = k;
            self.cubic.origin = height.saturating_sub(self.cubic.height(since - k));
        }
    }

    /// Takes what an ESCE ACK of `bytes` asks for from the count, and the window.
    fn give_way(&mut self, conn: &mut Conn, bytes: u64) {
        self.cubic.ack_cnt -= (bytes * u64::from(self.root.get())) as i64;
        let threshold = i64::from(self.mss_divisor) * i64::from(conn.cwnd);
        while self.cubic.ack_cnt <= -threshold {
            self.cubic.ack_cnt += threshold;
            if conn.cwnd > MIN_CWND {
                conn.cwnd -= 1;
                self.root.shrink_to(conn.cwnd);
            }
            self.cubic.origin = self.cubic.origin.saturating_sub(1);
        }
    }
}

/// Time on the curve (1/1024 s) in jiffies of 1 ms.
fn jiffies(curve_time: u64) -> u64 {
    (curve_time * 1000) >> 10
}

impl CongestionControl for State {
    fn init(&mut self, conn: &mut Conn) {
        self.cubic.init(conn);
    }

    #[inline]
    fn in_ack_event(&mut self, conn: &mut Conn, ack: &AckEvent) {
        let reducing = matches!(conn.state, CaState::Cwr | CaState::Recovery);
        if ack.esce && !(reducing && self.ce_response == CeResponse::Documented) {
            if let Some(epoch_start) = self.cubic.epoch_start {
                let bytes = match ack.advanced {
                    0 => u64::from(self.mss_divisor),
                    segments => segments * u64::from(conn.mss),
                };
                self.recent = conn.cwnd.saturating_add(1);
                self.flatten(conn.jiffies(), epoch_start, bytes);
                self.give_way(conn, bytes);
            }
            // of a window of 1 the module makes 0, to which PRR would go
            conn.set_ssthresh((conn.cwnd / 2).max(1), ExitCause::Sce);
        }
        self.recent = self.recent.saturating_sub(1);
    }

    fn ssthresh(&mut self, conn: &Conn, cause: Congestion) -> u32 {
        let ssthresh = self.cubic.ssthresh(conn, cause);
        if self.recent > 0 {
            // 7/8: chromi/sce tcp_cubic_sce.c
            ((u64::from(conn.cwnd) * 7 / 8) as u32).max(MIN_CWND)
        } else {
            ssthresh
        }
    }

    #[inline]
    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        self.cubic.cong_avoid(conn, acked);
        if !conn.in_slow_start() {
            self.root.follow(conn.cwnd);
        }
    }

    #[inline]
    fn pkts_acked(&mut self, conn: &mut Conn, pkts: u32, rtt_us: Option<u32>) {
        self.cubic.pkts_acked(conn, pkts, rtt_us);
    }

    fn cwnd_event(&mut self, conn: &mut Conn, event: CaEvent) {
        self.cubic.cwnd_event(conn, event);
    }

    fn set_state(&mut self, conn: &mut Conn, state: CaState) {
        self.cubic.set_state(conn, state);
        if state == CaState::Loss {
            self.root = Root::default();
            self.recent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::{conn, DrivenSender};
    use super::*;
    use crate::units::{Duration, Instant};

    const RTT: Duration = Duration::from_millis(80);

    fn cubic_sce(mss_divisor: u32) -> State {
        State::new(Params { mss_divisor, hystart: HystartForm::Off, ..Params::default() }, &CcContext::default())
    }

    /// At time 0, an epoch after a reduction from `w_max` to `cwnd` has just begun.
    fn epoch(mss_divisor: u32, w_max: u32, cwnd: u32) -> DrivenSender<State> {
        let mut sender = DrivenSender::new(cubic_sce(mss_divisor), cwnd);
        sender.conn.ssthresh = 2;
        // a window of w_max that is reduced sets the maximum
        sender.cc.cubic.ssthresh(&Conn { cwnd: w_max, ..conn() }, Congestion::Loss);
        sender.cc.cong_avoid(&mut sender.conn, 1);
        (sender.conn.cwnd, sender.cc.cubic.ack_cnt) = (cwnd, 0);
        sender
    }

    #[test]
    fn without_marks_it_is_cubic() {
        let plain = cubic::Params { hystart: HystartForm::Off, ..cubic::Params::default() };
        let mut cubic = DrivenSender::new(cubic::State::new(plain, &CcContext::default()), 100);
        for mut sender in [DrivenSender::new(cubic_sce(536), 100), DrivenSender::new(cubic_sce(1448), 100)] {
            cubic = DrivenSender::new(cubic.cc, 100);
            for reduction in [Congestion::Ecn, Congestion::Loss, Congestion::Timeout] {
                sender.congestion(reduction);
                cubic.congestion(reduction);
                for _ in 0..100 {
                    sender.round(RTT);
                    cubic.round(RTT);
                    // a fraction of a segment is kept where CUBIC rounds down: the Reno-friendly step comes earlier or later
                    assert!(sender.conn.cwnd.abs_diff(cubic.conn.cwnd) <= 1, "{} {}", sender.conn.cwnd, cubic.conn.cwnd);
                }
            }
        }
    }

    #[test]
    fn what_one_esce_ack_of_two_segments_takes() {
        // the root of 100 from above is 9: 2 * 1448 * 9 / (1448 * 100) = 0.18, as coded 0.486
        for (divisor, down) in [(1448, 0.18), (536, 0.486)] {
            let mut sender = epoch(divisor, 100, 100);
            assert_eq!(sender.cc.root, Root::from_root(9));
            sender.cc.in_ack_event(&mut sender.conn, &AckEvent { ece: false, esce: true, advanced: 2, ..AckEvent::default() });
            let moved = sender.cc.cubic.ack_cnt as f64 / f64::from(divisor * 100);
            assert!((moved + down).abs() < 0.0005, "{moved}");
            assert_eq!((sender.conn.cwnd, sender.conn.ssthresh, sender.cc.recent), (100, 50, 100));
        }
    }

    #[test]
    fn a_round_trip_of_marks_takes_the_root_and_the_plateau_with_it() {
        let mut sender = epoch(1448, 200, 200);
        let origin = sender.cc.cubic.origin;
        for _ in 0..200 {
            sender.cc.in_ack_event(&mut sender.conn, &AckEvent { ece: false, esce: true, advanced: 1, ..AckEvent::default() });
        }
        // four segments at 200/14 ACKs each, until the root is 13 at 196; then one for every 15 ACKs: 143/15 = 9.5
        assert_eq!((sender.conn.cwnd, sender.cc.cubic.origin), (187, origin - 13));
    }

    #[test]
    fn a_plateau_ahead_comes_to_the_present() {
        // W(1 s) = 86.7, see cubic.rs: the plateau, 3.2 s ahead at 100, is now here and as high as the curve
        let mut sender = epoch(1448, 100, 70);
        sender.conn.now = Instant::from_secs(1);
        sender.cc.flatten(1_000, 0, 1448);
        assert_eq!((sender.cc.cubic.k, sender.cc.cubic.origin, sender.cc.cubic.epoch_start), (0, 87, Some(1_000)));
        // nothing of it left: the curve goes on from here as C t^3
        assert_eq!(sender.cc.cubic.w_cubic(2_048), 87 + 3);
    }

    #[test]
    fn a_plateau_behind_comes_to_the_present() {
        // K = 4.216 s; at 8 s W = 121.7
        let mut sender = epoch(1448, 100, 70);
        let k = sender.cc.cubic.k;
        sender.cc.flatten(8_000, 0, 1448);
        let start = jiffies(k);
        assert_eq!(sender.cc.cubic.epoch_start, Some(start));
        assert_eq!((sender.cc.cubic.k, sender.cc.cubic.origin), (8 * 1024 - k, 121));
        // flat now, to the rounding of K to jiffies
        let now = curve_time(8_000 - start);
        assert!(now.abs_diff(sender.cc.cubic.k) <= 2 && sender.cc.cubic.w_cubic(now) == 121);
    }

    #[test]
    fn a_part_of_the_way_leaves_no_step_in_the_curve() {
        // fewer bytes than the root, as only tiny segments have: 3 of 9
        for (now, elapsed) in [(1_000, 1_024), (8_000, 8_192)] {
            let mut sender = epoch(1448, 100, 100);
            (sender.cc.cubic.k, sender.cc.cubic.origin) = (4_317, 130);
            let before = sender.cc.cubic.w_cubic(elapsed);
            sender.cc.flatten(now, 0, 3);
            let start = sender.cc.cubic.epoch_start.unwrap();
            let after = sender.cc.cubic.w_cubic(curve_time(now - start));
            assert!(before.abs_diff(after) <= 1, "{before} {after}");
            // ahead: 2/3 of the 3293 are left; behind: 1/3 of the 3875 since the plateau
            assert_eq!(sender.cc.cubic.k, if now == 1_000 { 2_195 } else { 1_291 });
        }
    }

    #[test]
    fn esce_before_the_first_epoch_only_ends_slow_start() {
        let mut sender = DrivenSender::new(cubic_sce(536), 10);
        sender.round(RTT);
        sender.round(RTT);
        sender.cc.in_ack_event(&mut sender.conn, &AckEvent { ece: false, esce: true, advanced: 1, ..AckEvent::default() });
        assert_eq!((sender.conn.cwnd, sender.conn.ssthresh, sender.cc.cubic.ack_cnt, sender.cc.recent), (40, 20, 0, 0));
        // the next ACK begins an epoch, with the root of the window
        sender.ack_n(1, RTT);
        assert!(sender.cc.cubic.epoch_start.is_some() && sender.cc.root == Root::from_root(6));
    }

    #[test]
    fn ce_leaves_seven_eighths_after_sce() {
        for (esce, left) in [(false, 70), (true, 87)] {
            let mut sender = epoch(1448, 100, 100);
            sender.ack_marked(1, RTT, false, esce);
            assert_eq!(sender.conn.cwnd, 100);
            sender.congestion(Congestion::Ecn);
            assert_eq!(sender.conn.cwnd, left);
            assert_eq!(sender.cc.cubic.epoch_start, None);
        }
    }

    #[test]
    fn esce_during_a_reduction_lowers_the_threshold_only_as_coded() {
        for (ce_response, ssthresh) in [(CeResponse::Documented, 70), (CeResponse::AsCoded, 45)] {
            let mut sender = epoch(1448, 100, 100);
            sender.cc.ce_response = ce_response;
            sender.conn.ssthresh = sender.cc.ssthresh(&sender.conn, Congestion::Ecn);
            (sender.conn.state, sender.conn.cwnd) = (CaState::Cwr, 90);
            sender.cc.in_ack_event(&mut sender.conn, &AckEvent { ece: true, esce: true, advanced: 1, ..AckEvent::default() });
            assert_eq!((sender.conn.ssthresh, sender.cc.recent), (ssthresh, 0));
        }
    }

    #[test]
    fn a_timeout_forgets_everything() {
        let mut sender = epoch(536, 100, 100);
        sender.ack_marked(1, RTT, false, true);
        sender.congestion(Congestion::Timeout);
        let mut new = cubic_sce(536);
        new.init(&mut sender.conn);
        assert_eq!(format!("{:?}", sender.cc), format!("{new:?}"));
    }
}
