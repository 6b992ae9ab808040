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
