//! Reno as in Linux (`net/ipv4/tcp_cong.c`): RFC 5681 growth counted in delivered segments, half on congestion; with ABE if asked
//! for, as in FreeBSD's `cc_newreno.c`.

use super::abe::{self, Abe};
use super::conn::{Congestion, Conn};
use super::{additive_increase, slow_start, CcContext, CongestionControl};
use crate::param::ParamError;

/// Name in experiment files.
pub const NAME: &str = "reno";
/// One line.
pub const TITLE: &str = "NewReno: +1 segment a round trip, half on congestion";
/// Specification and deviations.
pub const SOURCE: &str = "RFC 5681, RFC 6582, RFC 8511; Linux net/ipv4/tcp_cong.c; window in segments, not bytes, as Linux";

crate::choice! {
    /// Unit that moves the window towards the next segment.
    pub enum IncreasePer {
        /// Every segment delivered. Linux since 4.0.
        Segment = "segment",
        /// Every ACK, outside slow start: with delayed ACKs half as fast. Linux up to 3.19.
        Ack = "ack",
    }
}

crate::params! {
    /// Parameters of Reno.
    pub struct Params {
        /// Alternative Backoff with ECN: answer CE by `beta_ecn`.
        abe: bool = false, unit "", source "RFC 8511; FreeBSD net.inet.tcp.cc.abe = 0";
        /// Window kept after CE.
        beta_ecn: f64 = BETA_ECN, unit "window", range 0.1, 0.99, source "RFC 8511 section 3.1; FreeBSD cc_newreno(4): 80 %";
        /// `beta_ecn` also for the reduction that ends slow start; else half.
        abe_slow_start: bool = true, unit "", source "FreeBSD cc_newreno.c makes no difference";
        /// Unit that moves the window towards the next segment.
        increase_per: IncreasePer = IncreasePer::Segment, unit "", source "tcp_cong_avoid_ai counts segments since Linux 4.0";
    } check Params::check
}

/// Window kept after CE (RFC 8511 section 3.1).
const BETA_ECN: f64 = 0.8;

impl Params {
    fn check(&self) -> Result<(), ParamError> {
        abe::check(self.abe, self.beta_ecn, BETA_ECN)
    }
}

/// Reno: nothing but what it answers to CE, and what it counts.
#[derive(Clone, Debug)]
pub struct State {
    abe: Option<Abe>,
    increase_per: IncreasePer,
}

impl State {
    /// Reno with `params`.
    pub fn new(params: Params, _context: &CcContext) -> State {
        let abe = params.abe.then(|| Abe::new(params.beta_ecn, params.abe_slow_start));
        State { abe, increase_per: params.increase_per }
    }
}

/// Half of `cwnd`, and never below two. RFC 5681 equation 4; Linux `tcp_reno_ssthresh`.
fn half(cwnd: u32) -> u32 {
    (cwnd >> 1).max(2)
}

impl CongestionControl for State {
    fn ssthresh(&mut self, conn: &Conn, cause: Congestion) -> u32 {
        self.abe.and_then(|abe| abe.factor(conn, cause)).map_or(half(conn.cwnd), |factor| abe::scale_window(conn.cwnd, factor))
    }

    fn loss_after_ecn(&self, conn: &Conn) -> Option<u32> {
        self.abe.map(|_| half(conn.prior_cwnd))
    }

    #[inline]
    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        grow(conn, acked, self.increase_per);
    }
}

/// Slow start, then +1 segment a window. Linux `tcp_reno_cong_avoid`.
#[inline]
pub(super) fn grow(conn: &mut Conn, acked: u32, per: IncreasePer) {
    if !conn.cwnd_limited() {
        return;
    }
    let left = if conn.in_slow_start() { slow_start(conn, acked) } else { acked };
    if left > 0 {
        additive_increase(conn, conn.cwnd, if per == IncreasePer::Ack { 1 } else { left });
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::{conn, DrivenSender};
    use super::*;
    use crate::units::Duration;

    const RTT: Duration = Duration::from_millis(100);

    fn reno() -> State {
        State::new(Params::default(), &CcContext::default())
    }

    #[test]
    fn halves_but_never_below_two() {
        for (cwnd, ssthresh) in [(100, 50), (51, 25), (4, 2), (3, 2), (1, 2)] {
            let conn = Conn { cwnd, ..conn() };
            assert_eq!(reno().ssthresh(&conn, Congestion::Loss), ssthresh, "cwnd {cwnd}");
        }
    }

    #[test]
    fn linux_before_4_0_counts_acks_outside_slow_start() {
        for (per, cwnd_cnt) in [(IncreasePer::Segment, 8), (IncreasePer::Ack, 4)] {
            let mut cc = State::new(Params { increase_per: per, ..Params::default() }, &CcContext::default());
            let mut conn = Conn { ssthresh: 10, ..conn() };
            (0..4).for_each(|_| cc.cong_avoid(&mut conn, 2));
            assert_eq!((conn.cwnd, conn.cwnd_cnt), (10, cwnd_cnt), "{per:?}");
            // segments in slow start, whoever counts
            let mut fresh = Conn { ssthresh: 100, ..conn };
            cc.cong_avoid(&mut fresh, 2);
            assert_eq!(fresh.cwnd, 12);
        }
    }

    #[test]
    fn doubles_in_slow_start_then_adds_one_a_round() {
        let mut sender = DrivenSender::new(reno(), 10);
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
        let mut sender = DrivenSender::new(reno(), 8);
        sender.conn.ssthresh = 10;
        // 2 of the 5 take the window to 10; 3 are credit towards 11
        sender.ack_n(5, RTT);
        assert_eq!((sender.conn.cwnd, sender.conn.cwnd_cnt), (10, 3));
    }

    #[test]
    fn after_a_timeout_slow_start_to_half() {
        let mut sender = DrivenSender::new(reno(), 32);
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
            reno().cong_avoid(&mut conn, 1);
            assert_eq!(conn.cwnd, grown);
        }
        // in avoidance it must have been the limit
        let mut conn = Conn { ssthresh: 5, is_cwnd_limited: false, max_packets_out: 10, ..conn() };
        reno().cong_avoid(&mut conn, 10);
        assert_eq!((conn.cwnd, conn.cwnd_cnt), (10, 0));
    }

    #[test]
    fn a_spurious_reduction_is_undone() {
        let mut sender = DrivenSender::new(reno(), 40);
        sender.congestion(Congestion::Loss);
        assert_eq!(sender.cc.undo_cwnd(&mut sender.conn), 40);
    }

    #[test]
    fn abe_keeps_four_fifths_after_ce_and_half_after_loss() {
        let mut sender = DrivenSender::new(State::new(Params { abe: true, ..Params::default() }, &CcContext::default()), 100);
        sender.congestion(Congestion::Ecn);
        assert_eq!(sender.conn.cwnd, 79);
        sender.congestion(Congestion::Loss);
        assert_eq!(sender.conn.cwnd, 39);
        // a loss in the window of the mark: half of what it was before the mark
        let conn = Conn { cwnd: 79, prior_cwnd: 100, ..conn() };
        assert_eq!(sender.cc.loss_after_ecn(&conn), Some(50));
        assert_eq!(reno().loss_after_ecn(&conn), None);
    }

    #[test]
    fn a_factor_without_abe_is_refused() {
        let read = |json: serde_json::Value| Params::from_json(json.as_object().unwrap()).map(|_| ()).map_err(|e| e.to_string());
        assert_eq!(
            read(serde_json::json!({"beta_ecn": 0.7})),
            Err("beta_ecn: found 0.7, allowed: left out, unless abe = true".into())
        );
        assert_eq!(read(serde_json::json!({"beta_ecn": 0.7, "abe": true})), Ok(()));
    }
}
