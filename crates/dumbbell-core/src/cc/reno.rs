//! Reno as in Linux (`net/ipv4/tcp_cong.c`): RFC 5681 growth counted in delivered segments, half on congestion.

use super::{additive_increase, slow_start, CongestionControl};
use crate::tcp::conn::{Congestion, Conn};

/// Name in experiment files.
pub const NAME: &str = "reno";
/// One line.
pub const TITLE: &str = "NewReno: +1 segment a round trip, half on congestion";
/// Specification and deviations.
pub const SOURCE: &str = "RFC 5681, RFC 6582; Linux net/ipv4/tcp_cong.c; window in segments, not bytes, as Linux";

crate::params! {
    /// Reno has no parameters.
    pub struct Params {}
}

/// Reno keeps no state of its own.
#[derive(Clone, Debug)]
pub struct State;

impl State {
    /// Reno.
    pub fn new(_params: Params) -> State {
        State
    }
}

impl CongestionControl for State {
    fn ssthresh(&mut self, conn: &Conn, _cause: Congestion) -> u32 {
        (conn.cwnd >> 1).max(2)
    }

    #[inline]
    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        if !conn.cwnd_limited() {
            return;
        }
        let left = if conn.in_slow_start() { slow_start(conn, acked) } else { acked };
        if left > 0 {
            additive_increase(conn, conn.cwnd, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{conn, Sender};
    use super::*;
    use crate::units::Time;

    const RTT: Time = Time::from_millis(100);

    #[test]
    fn halves_but_never_below_two() {
        for (cwnd, ssthresh) in [(100, 50), (51, 25), (4, 2), (3, 2), (1, 2)] {
            let conn = Conn { cwnd, ..conn() };
            assert_eq!(State.ssthresh(&conn, Congestion::Loss), ssthresh, "cwnd {cwnd}");
        }
    }

    #[test]
    fn doubles_in_slow_start_then_adds_one_a_round() {
        let mut sender = Sender::new(State, 10);
        sender.round(RTT);
        assert_eq!(sender.conn.cwnd, 20);
        sender.round(RTT);
        assert_eq!(sender.conn.cwnd, 40);
        sender.congestion(Congestion::Ecn);
        assert_eq!((sender.conn.cwnd, sender.conn.ssthresh, sender.conn.prior_cwnd), (20, 20, 40));
        for n in 1..=10 {
            sender.round(RTT);
            assert_eq!(sender.conn.cwnd, 20 + n);
        }
    }

    #[test]
    fn one_ack_crosses_from_slow_start_to_avoidance() {
        let mut sender = Sender::new(State, 8);
        sender.conn.ssthresh = 10;
        // 2 of the 5 take the window to 10; 3 are credit towards 11
        sender.ack_n(5, RTT);
        assert_eq!((sender.conn.cwnd, sender.conn.cwnd_cnt), (10, 3));
    }

    #[test]
    fn after_a_timeout_slow_start_to_half() {
        let mut sender = Sender::new(State, 32);
        sender.congestion(Congestion::Timeout);
        assert_eq!((sender.conn.cwnd, sender.conn.ssthresh), (1, 16));
        for cwnd in [2, 4, 8, 16, 17] {
            sender.round(RTT);
            assert_eq!(sender.conn.cwnd, cwnd);
        }
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        // slow start may go to twice what was used: 19 < 2 * 10, 20 is not
        for (cwnd, grown) in [(19, 20), (20, 20)] {
            let mut conn = Conn { cwnd, is_cwnd_limited: false, max_packets_out: 10, ..conn() };
            State.cong_avoid(&mut conn, 1);
            assert_eq!(conn.cwnd, grown);
        }
        // in avoidance it must have been the limit
        let mut conn = Conn { ssthresh: 5, is_cwnd_limited: false, max_packets_out: 10, ..conn() };
        State.cong_avoid(&mut conn, 10);
        assert_eq!((conn.cwnd, conn.cwnd_cnt), (10, 0));
    }

    #[test]
    fn a_spurious_reduction_is_undone() {
        let mut sender = Sender::new(State, 40);
        sender.congestion(Congestion::Loss);
        assert_eq!(sender.cc.undo_cwnd(&sender.conn), 40);
    }
}
