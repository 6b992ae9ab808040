//! Reno-SCE: Reno that gives way to SCE marks by the square root of its window in a round trip.
//!
//! Specification: draft-grimes-tcpm-tcpsce-00, as the SCE project wrote it (github.com/chromi/sce,
//! `net/ipv4/tcp_reno_sce.c`, two versions). An ACK with ESCE takes sqrt(cwnd) (version B; half of that: A) times what it
//! acknowledges from the count of bytes to which other ACKs add what they acknowledge. So the window rests where a
//! fraction 1/(1 + sqrt(cwnd)) of the data is marked (A: 1/(1 + sqrt(cwnd)/2)), and a whole round trip of marks takes
//! sqrt(cwnd) segments (A: half). The rest, with the choices that evidence had to decide, is in `sce.rs`.
//!
//! `version` B: with A the one-flow tables of the draft come out at a tenth to a third too much goodput at 10 Mbit/s and
//! less (docs/lab-book.md), although A, which carries relics of the DCTCP module it was copied from, is the older one.
//!
//! ECN is negotiated as usual, with ECT(0) on data: SCE has no handshake of its own.

use super::conn::Conn;
use super::sce::{hooks_of_sce, Sce, SceConfig};
pub use super::sce::{CeResponse, EsceExit, SceVersion};
use super::{AckEvent, CcContext, CongestionControl};

/// Name in experiment files.
pub const NAME: &str = "reno-sce";
/// One line.
pub const TITLE: &str = "Reno-SCE: Reno that gives up sqrt(cwnd) segments for a round trip of SCE marks";
/// Specification and deviations.
pub const SOURCE: &str = "draft-grimes-tcpm-tcpsce-00; github.com/chromi/sce net/ipv4/tcp_reno_sce.c 07bbe597 (A) and 63982553 \
    (B); reaction to CE as the authors describe it unless ce_response says otherwise";

crate::params! {
    /// Parameters of Reno-SCE.
    pub struct Params {
        /// Which version of the module.
        version: SceVersion = SceVersion::B, unit "", source "chromi/sce 63982553; the draft's tables (docs/lab-book.md)";
        /// Bytes by which acknowledged data is divided into segments: 536 as coded, 1448 as intended.
        mss_divisor: u32 = 536, unit "bytes", range 1u32, 65_535u32, source "chromi/sce: icsk_ack.rcv_mss of a host that only sends";
        /// Event that ends slow start besides CE and loss.
        slow_start_exit: EsceExit = EsceExit::AtOnce, unit "", source "chromi/sce 07bbe597, README of 2019";
        /// How CE and loss act together with PRR.
        ce_response: CeResponse = CeResponse::AsCoded, unit "", source "chromi/sce 63982553; the draft's tables (docs/lab-book.md)";
    }
}

/// State of Reno-SCE.
#[derive(Clone, Debug)]
pub struct State {
    sce: Sce,
    /// A reaction is divided by 2 to this power.
    divisor_shift: u32,
}

impl State {
    /// Reno-SCE with `params`.
    pub fn new(params: Params, _context: &CcContext) -> State {
        let Params { version, mss_divisor, slow_start_exit, ce_response } = params;
        let divisor_shift = version.sets().divisor_shift;
        State { sce: Sce::new(SceConfig { mss_divisor, version, slow_start_exit, ce_response }), divisor_shift }
    }
}

impl CongestionControl for State {
    #[inline]
    fn in_ack_event(&mut self, conn: &mut Conn, ack: &AckEvent) {
        let shift = self.divisor_shift;
        self.sce.on_ack(conn, ack, |bytes, _cwnd, root| (bytes * u64::from(root)) >> shift);
    }

    hooks_of_sce!();
}

#[cfg(test)]
mod tests {
    use super::super::conn::Congestion;
    use super::super::driver::DrivenSender;
    use super::super::sce::Root;
    use super::*;
    use crate::units::Duration;

    const RTT: Duration = Duration::from_millis(80);

    fn reno_sce(version: SceVersion, mss_divisor: u32) -> State {
        State::new(Params { version, mss_divisor, ..Params::default() }, &CcContext::default())
    }

    /// In congestion avoidance with a window of `cwnd`, whose root is right.
    fn avoidance(cc: State, cwnd: u32) -> DrivenSender<State> {
        let mut sender = DrivenSender::new(cc, cwnd);
        sender.conn.ssthresh = 2;
        sender.cc.sce.root = Root::from_root(f64::from(cwnd).sqrt().ceil() as u32);
        sender
    }

    #[test]
    fn what_one_ack_of_two_segments_moves() {
        // in segments of window: 2 * 1448 * 10 / (1448 * 100) = 0.2; * 1448 / 536 = 0.540; A half of that
        for (version, divisor, down, up) in [
            (SceVersion::B, 1448, 0.2, 0.02),
            (SceVersion::A, 1448, 0.1, 0.02),
            (SceVersion::B, 536, 0.540, 0.054),
            (SceVersion::A, 536, 0.270, 0.054),
        ] {
            let moved = |esce| {
                let mut sender = avoidance(reno_sce(version, divisor), 100);
                sender.ack_marked(2, RTT, false, esce);
                assert_eq!(sender.conn.cwnd, 100);
                sender.cc.sce.count as f64 / f64::from(divisor * 100)
            };
            assert!((moved(true) + down).abs() < 0.0005, "{version:?} {divisor}: {}", moved(true));
            assert!((moved(false) - up).abs() < 0.0005, "{version:?} {divisor}: {}", moved(false));
        }
    }

    #[test]
    fn a_round_trip_of_marks_takes_the_root_of_the_window() {
        // B, intended: 200 - 14.1; the window falls below 196 = 14^2 and the root to 13 on the way
        let mut sender = avoidance(reno_sce(SceVersion::B, 1448), 200);
        sender.cc.sce.root = Root::from_root(14);
        for _ in 0..200 {
            sender.ack_marked(1, RTT, false, true);
        }
        assert!((185..=187).contains(&sender.conn.cwnd), "{}", sender.conn.cwnd);
    }

    #[test]
    fn the_window_rests_where_one_in_one_plus_root_is_marked() {
        // One mark in 11 holds a window whose root is 10, for A 20. Growing, the root becomes 10 at 82 segments; shrinking, at
        // 121: the window rests where it first gets there.
        for (version, start, rest) in
            [(SceVersion::B, 20, 82), (SceVersion::B, 600, 121), (SceVersion::A, 330, 362), (SceVersion::A, 480, 441)]
        {
            for divisor in [536, 1448] {
                let mut sender = avoidance(reno_sce(version, divisor), start);
                for n in 0..400_000 {
                    sender.ack_marked(1, RTT, false, n % 11 == 0);
                }
                let cwnd = sender.conn.cwnd;
                assert!(cwnd.abs_diff(rest) <= 1, "{version:?} from {start}, {divisor}: {cwnd}");
            }
        }
    }

    #[test]
    fn the_first_mark_ends_slow_start_without_a_cut() {
        let mut sender = DrivenSender::new(reno_sce(SceVersion::A, 536), 10);
        sender.round(RTT);
        sender.round(RTT);
        assert_eq!(sender.conn.cwnd, 40);
        sender.ack_marked(1, RTT, false, true);
        // root 1, halved: 724 bytes of 40 * 536
        assert_eq!((sender.conn.cwnd, sender.conn.ssthresh, sender.cc.sce.count), (40, 20, -724));
        sender.round(RTT);
        // 40 * 1448 - 724 = 57196 = 21440 + 21976 + 13780
        assert_eq!((sender.conn.cwnd, sender.cc.sce.count), (42, 13_780));
    }

    #[test]
    fn ce_as_documented_leaves_three_quarters_or_seven_eighths() {
        for (esce, left) in [(false, 75), (true, 88)] {
            let documented = Params { version: SceVersion::A, ce_response: CeResponse::Documented, ..Params::default() };
            let mut sender = avoidance(State::new(documented, &CcContext::default()), 100);
            sender.ack_marked(1, RTT, false, esce);
            assert_eq!(sender.conn.cwnd, 100);
            sender.congestion(Congestion::Ecn);
            assert_eq!((sender.conn.cwnd, sender.conn.ssthresh), (left, 50));
        }
    }
}
