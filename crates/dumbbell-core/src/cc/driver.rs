//! A tiny sender that drives a congestion control by itself, without a transport: for tests and for a look at one alone.
//!
//! The sender has endless data, loses nothing and goes through congestion episodes in one step.

use super::conn::{CaEvent, CaState, Congestion, Conn};
use super::{AckEvent, CongestionControl};
use crate::units::Duration;

/// A connection that uses its whole window of 10 segments and has acknowledged nothing yet.
pub fn conn() -> Conn {
    Conn { cwnd: 10, snd_nxt: 10, max_packets_out: 10, is_cwnd_limited: true, ..Conn::new() }
}

/// A sender with endless data: whatever is acknowledged is replaced by as much as the window allows.
pub struct DrivenSender<C> {
    /// The connection, as the control sees it.
    pub conn: Conn,
    /// The congestion control.
    pub cc: C,
}

impl<C: CongestionControl> DrivenSender<C> {
    /// Established at time 0, with `cwnd` segments in flight.
    pub fn new(mut cc: C, cwnd: u32) -> DrivenSender<C> {
        let mut conn = Conn { cwnd, snd_nxt: u64::from(cwnd), max_packets_out: cwnd, ..conn() };
        cc.init(&mut conn);
        DrivenSender { conn, cc }
    }

    /// Lets time pass.
    pub fn advance(&mut self, time: Duration) {
        self.conn.now += time;
    }

    /// One ACK of `n` segments with an RTT sample, in the order of Linux `tcp_ack` up to 6.14.
    pub fn ack_n(&mut self, n: u32, rtt: Duration) {
        self.ack_marked(n, rtt, false, false);
    }

    /// One ACK that may carry ECE and ESCE; ECE begins no episode by itself.
    pub fn ack_marked(&mut self, n: u32, rtt: Duration, ece: bool, esce: bool) {
        let (advanced, una) = (u64::from(n), self.conn.snd_una + u64::from(n));
        // ACKs take no time
        let one_way_ms = rtt.as_millis() as i32;
        self.cc.in_ack_event(&mut self.conn, &AckEvent { ece, esce, advanced, una, new_ce: None, one_way_ms });
        self.conn.snd_una += u64::from(n);
        self.conn.delivered += u64::from(n);
        self.conn.delivered_ce += if ece { u64::from(n) } else { 0 };
        self.cc.pkts_acked(&mut self.conn, n, Some(rtt.as_micros() as u32));
        self.cc.cong_avoid(&mut self.conn, n);
        self.conn.snd_nxt = self.conn.snd_nxt.max(self.conn.snd_una + u64::from(self.conn.cwnd));
        self.conn.max_packets_out = self.conn.packets_out();
    }

    /// One round trip: every segment of the window is acknowledged by itself, evenly over `rtt`.
    pub fn round(&mut self, rtt: Duration) {
        let window = self.conn.cwnd;
        let start = self.conn.now;
        for n in 1..=window {
            self.conn.now = start + rtt * u64::from(n) / u64::from(window);
            self.ack_n(1, rtt);
        }
    }

    /// A congestion episode, its recovery passed over.
    pub fn congestion(&mut self, cause: Congestion) {
        let conn = &mut self.conn;
        conn.prior_cwnd = conn.cwnd;
        conn.cwnd_cnt = 0;
        let ssthresh = self.cc.ssthresh(conn, cause);
        conn.set_ssthresh(ssthresh, cause.into());
        if cause == Congestion::Timeout {
            self.cc.cwnd_event(conn, CaEvent::Loss);
            conn.cwnd = 1;
            self.cc.set_state(conn, CaState::Loss);
        } else {
            conn.cwnd = conn.ssthresh;
            self.cc.cwnd_event(conn, CaEvent::CompleteCwr);
        }
        self.cc.set_state(conn, CaState::Open);
    }
}
