//! DCTCP-SCE: Reno that gives way to SCE marks by half of what they cover, at once.
//!
//! Specification: draft-grimes-tcpm-tcpsce-00, as the SCE project wrote it (github.com/chromi/sce,
//! `net/ipv4/tcp_dctcp_sce.c` 9fae76b9; the same arithmetic in 09cf5620 of 2022). An ACK with ESCE takes cwnd/2 times what
//! it acknowledges from the count of bytes to which other ACKs add what they acknowledge: the window shrinks by half the
//! marked segments. There is no average of the marked fraction, unlike in DCTCP. The window rests where a fraction
//! 2/(cwnd + 2) of the data is marked. CE is handled as in Reno-SCE's version B. The rest, with the choices that evidence
//! had to decide, is in `sce.rs`.
//!
//! Left out: the pacing and the weaker end of slow start that the module had from 2022.
//!
//! ECN is negotiated as usual, with ECT(0) on data: SCE has no handshake of its own, and the receiver need not be DCTCP's.

use super::conn::Conn;
use super::sce::{hooks_of_sce, Sce, SceConfig, SceVersion};
pub use super::sce::{CeResponse, EsceExit};
use super::{AckEvent, CcContext, CongestionControl};

/// Name in experiment files.
pub const NAME: &str = "dctcp-sce";
/// One line.
pub const TITLE: &str = "DCTCP-SCE: Reno that gives up half a segment for each SCE-marked one";
/// Specification and deviations.
pub const SOURCE: &str = "draft-grimes-tcpm-tcpsce-00; github.com/chromi/sce net/ipv4/tcp_dctcp_sce.c 9fae76b9; reaction to CE \
    as the authors describe it unless ce_response says otherwise, slow start ends with ESCE unless slow_start_exit does";

crate::params! {
    /// Parameters of DCTCP-SCE.
    pub struct Params {
        /// Bytes by which acknowledged data is divided into segments: 536 as coded, 1448 as intended.
        mss_divisor: u32 = 536, unit "bytes", range 1u32, 65_535u32, source "chromi/sce: icsk_ack.rcv_mss of a host that only sends";
        /// Event that ends slow start besides CE and loss.
        slow_start_exit: EsceExit = EsceExit::AtOnce, unit "", source "chromi/sce, README of 2019";
        /// How CE and loss act together with PRR.
        ce_response: CeResponse = CeResponse::AsCoded, unit "", source "chromi/sce 9fae76b9; the draft's tables (docs/lab-book.md)";
    }
}

/// State of DCTCP-SCE.
#[derive(Clone, Debug)]
pub struct State {
    sce: Sce,
}

impl State {
    /// DCTCP-SCE with `params`.
    pub fn new(params: Params, _context: &CcContext) -> State {
        let Params { mss_divisor, slow_start_exit, ce_response } = params;
        State { sce: Sce::new(SceConfig { mss_divisor, version: SceVersion::B, slow_start_exit, ce_response }) }
    }
}

impl CongestionControl for State {
    #[inline]
    fn in_ack_event(&mut self, conn: &mut Conn, ack: &AckEvent) {
        self.sce.on_ack(conn, ack, |bytes, cwnd, _root| bytes * u64::from(cwnd) / 2);
    }

    hooks_of_sce!();
}

#[cfg(test)]
mod tests {
    use super::super::conn::Congestion;
    use super::super::driver::DrivenSender;
    use super::*;
    use crate::units::Duration;

    const RTT: Duration = Duration::from_millis(80);

    /// In congestion avoidance with a window of `cwnd`.
    fn avoidance(mss_divisor: u32, cwnd: u32) -> DrivenSender<State> {
        let mut sender = DrivenSender::new(State::new(Params { mss_divisor, ..Params::default() }, &CcContext::default()), cwnd);
        sender.conn.ssthresh = 2;
        sender
    }

    #[test]
    fn what_one_ack_of_two_segments_moves() {
        // half of two segments; as coded 1448 / 536 = 2.70 times that: two segments and 0.70 of a third
        for (divisor, cwnd, left) in [(1448, 99, 0.0), (536, 98, -0.7015)] {
            let mut sender = avoidance(divisor, 100);
            sender.ack_marked(2, RTT, false, true);
            let rest = sender.cc.sce.count as f64 / f64::from(divisor * 100);
            assert_eq!(sender.conn.cwnd, cwnd);
            assert!((rest - left).abs() < 0.0005, "{rest}");
        }
    }

    #[test]
    fn a_round_trip_of_marks_takes_half() {
        // each mark takes half a segment of the window of the moment: 100 marks take 50
        let mut sender = avoidance(1448, 100);
        for _ in 0..100 {
            sender.ack_marked(1, RTT, false, true);
        }
        assert_eq!(sender.conn.cwnd, 50);
    }

    #[test]
    fn the_window_rests_where_2_in_cwnd_plus_2_are_marked() {
        // one mark in 51, as 2 in 102
        for start in [10, 300] {
            for divisor in [536, 1448] {
                let mut sender = avoidance(divisor, start);
                for n in 0..100_000 {
                    sender.ack_marked(1, RTT, false, n % 51 == 0);
                }
                assert!((98..=102).contains(&sender.conn.cwnd), "from {start}, {divisor}: {}", sender.conn.cwnd);
            }
        }
    }

    #[test]
    fn the_first_mark_ends_slow_start() {
        let mut sender = DrivenSender::new(State::new(Params::default(), &CcContext::default()), 10);
        sender.round(RTT);
        sender.ack_marked(1, RTT, false, true);
        // 20 * 724 bytes = 1.35 * 20 * 536
        assert_eq!((sender.conn.cwnd, sender.conn.ssthresh, sender.cc.sce.count), (19, 10, -3_760));
    }

    #[test]
    fn ce_as_documented_leaves_three_quarters_or_seven_eighths() {
        for (esce, before, left) in [(false, 100, 75), (true, 99, 87)] {
            let documented = Params { ce_response: CeResponse::Documented, ..Params::default() };
            let mut sender = DrivenSender::new(State::new(documented, &CcContext::default()), 100);
            sender.conn.ssthresh = 2;
            sender.ack_marked(1, RTT, false, esce);
            assert_eq!(sender.conn.cwnd, before);
            sender.congestion(Congestion::Ecn);
            assert_eq!(sender.conn.cwnd, left);
        }
    }
}
