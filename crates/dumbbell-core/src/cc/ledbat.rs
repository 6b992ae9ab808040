//! LEDBAT: background traffic that keeps its own queueing delay at a target, by one-way delays (RFC 6817).
//!
//! The window grows by at most `gain` segments a round trip, the less the nearer the queueing delay is to `target`, and shrinks by
//! the same rule above it. Losses and CE marks halve it once a round trip. The queueing delay is the smallest of the last `filter`
//! one-way delays less the smallest of the last `base_history` minutes, so that a queue of acknowledgements on the way back does
//! not count.
//!
//! One-way delays are differences of TCP timestamps, in whole milliseconds: the receiver's clock when an acknowledgement leaves, less the
//! timestamp of the first packet that it acknowledges. A delayed acknowledgement adds the time until the second packet came, which the filter takes out as far as it can.
//!
//! Differences from the pseudocode of RFC 6817 section 2.4.2:
//!
//! - `ALLOWED_INCREASE` bounds increases alone, by the most that was in flight in the last round trip, and a window that was not used does not grow (Linux `tcp_cwnd_validate`). The
//!   pseudocode also lowers the window to what is in flight plus one segment, which with the bursts of segmentation offload would shrink the window of a sender that uses it.
//! - The congestion machine is Linux's: PRR carries reductions out, and delays do not move the window meanwhile. A timeout leaves one segment, and
//!   the timer is that of TCP, not `CTO`.
//!
//! A flow that begins while others keep a queue takes that queue for base delay, and gets more than they do: the latecomer's advantage of RFC 6817
//! section 4.4.

use super::background::{halve, QueueingDelay, WindowFraction, MIN_CWND};
use super::conn::{Congestion, Conn};
use super::exit::ExitCause;
use super::{slow_start, AckEvent, CcContext, CongestionControl};
use crate::units::Duration;

/// Name in experiment files.
pub const NAME: &str = "ledbat";
/// One line.
pub const TITLE: &str = "LEDBAT: background traffic that adds at most a target of one-way queueing delay";
/// Specification and deviations.
pub const SOURCE: &str = "RFC 6817; one-way delays by TCP timestamps in ms; the congestion machine of Linux";

crate::params! {
    /// Parameters of LEDBAT.
    pub struct Params {
        /// Queueing delay that it keeps to, `TARGET`.
        target: Duration = Duration::from_millis(100), unit "", range Duration::from_millis(1), Duration::from_secs(10), source "RFC 6817 section 2.5: at most 100 ms; RFC 7928 section 5.4 asks for 5 ms";
        /// Segments that a round trip adds to the window without a queue, `GAIN`.
        gain: f64 = 1.0, unit "segments", range 0.001, 100.0, source "RFC 6817 section 2.5: at most 1; RFC 7928 section 5.4 asks for 10";
        /// Minutes whose smallest delays give the base delay, `BASE_HISTORY`.
        base_history: u32 = 10, unit "minutes", range 1_u32, 1000_u32, source "RFC 6817 section 2.5: 10";
        /// Samples whose smallest is the current delay, `CURRENT_FILTER`; those older than a round trip do not count.
        filter: u32 = 4, unit "samples", range 1_u32, 1000_u32, source "RFC 6817, CURRENT_FILTER: at least 4 samples in each RTT";
        /// Slow start up to the target or the first loss, instead of growing by `gain` from the start.
        slow_start: bool = false, unit "", source "RFC 6817 section 2.4.2 has none: a GAIN of 1 limits the ramp-up to that of Reno in congestion avoidance (2.5); RFC 5681 section 3.1";
    }
}

/// Segments by which the window may exceed the most that was in flight in the last round trip. RFC 6817 section 2.5.
const ALLOWED_INCREASE: u32 = 1;

/// State of LEDBAT.
#[derive(Clone, Debug)]
pub struct State {
    target_us: f64,
    gain: f64,
    slow_start: bool,
    delay: QueueingDelay,
    fraction: WindowFraction,
}

impl State {
    /// LEDBAT with `params`.
    #[allow(clippy::needless_pass_by_value)] // the registry hands parameters over
    pub fn new(params: Params, _context: &CcContext) -> State {
        State {
            target_us: params.target.as_micros() as f64,
            gain: params.gain,
            slow_start: params.slow_start,
            delay: QueueingDelay::new(params.base_history, params.filter),
            fraction: WindowFraction::default(),
        }
    }

    /// Distance of the queueing delay from the target, in targets: 1 without a queue, negative above the target. RFC 6817 `off_target`.
    fn off_target(&self, conn: &Conn) -> f64 {
        (self.target_us - self.delay.estimate_us(conn) as f64) / self.target_us
    }
}

impl CongestionControl for State {
    fn init(&mut self, conn: &mut Conn) {
        conn.cwnd = conn.cwnd.min(MIN_CWND);
        if !self.slow_start {
            conn.ssthresh = MIN_CWND;
        }
    }

    fn in_ack_event(&mut self, conn: &mut Conn, ack: &AckEvent) {
        if ack.advanced > 0 {
            self.delay.add_sample(i64::from(ack.one_way_ms) * 1000, conn.now);
        }
    }

    fn ssthresh(&mut self, conn: &Conn, _cause: Congestion) -> u32 {
        self.fraction.reset();
        halve(conn.cwnd)
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        let (off_target, limited) = (self.off_target(conn), conn.cwnd_limited());
        let mut left = acked;
        if self.slow_start && conn.in_slow_start() {
            if off_target > 0.0 {
                left = if limited { slow_start(conn, acked) } else { 0 };
                if left == 0 {
                    return;
                }
            } else {
                conn.set_ssthresh(conn.cwnd.max(MIN_CWND), ExitCause::Delay);
            }
        }
        if conn.cwnd < MIN_CWND && limited {
            // after a timeout
            conn.cwnd = MIN_CWND.min(conn.cwnd_clamp);
        }
        if off_target < 0.0 || limited {
            let segments = self.gain * off_target * f64::from(left) / f64::from(conn.cwnd);
            self.fraction.move_window(conn, segments, conn.max_packets_out.saturating_add(ALLOWED_INCREASE));
        }
        // a window that fell because of delay is no slow start
        conn.ssthresh = conn.ssthresh.min(conn.cwnd.max(MIN_CWND));
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::{conn, DrivenSender};
    use super::*;
    use crate::units::Instant;

    const BASE: Duration = Duration::from_millis(40);

    fn ledbat(edit: impl FnOnce(&mut Params)) -> State {
        let mut params = Params { filter: 1, ..Params::default() };
        edit(&mut params);
        State::new(params, &CcContext::default())
    }

    /// Established with a window of `cwnd` on a path without a queue.
    fn sender(cwnd: u32, edit: impl FnOnce(&mut Params)) -> DrivenSender<State> {
        let mut sender = DrivenSender::new(ledbat(edit), 10);
        assert_eq!(sender.conn.cwnd, 2);
        sender.cc.delay.add_sample(BASE.as_micros() as i64, Instant::ZERO);
        let (snd_nxt, max_packets_out) = (u64::from(cwnd), cwnd);
        sender.conn = Conn { cwnd, snd_nxt, max_packets_out, ..sender.conn };
        sender
    }

    /// A round trip with `queue_ms` of queue.
    fn queue(queue_ms: u64) -> Duration {
        BASE + Duration::from_millis(queue_ms)
    }

    #[test]
    fn the_distance_from_the_target_is_in_targets() {
        let mut cc = ledbat(|_| ());
        cc.delay.add_sample(40_000, Instant::ZERO);
        for (delay_ms, off_target) in [(40, 1.0), (90, 0.5), (140, 0.0), (190, -0.5), (1140, -10.0)] {
            cc.delay.add_sample(delay_ms * 1000, Instant::ZERO);
            assert_eq!(cc.off_target(&conn()), off_target, "{delay_ms} ms");
        }
    }

    #[test]
    fn a_window_without_a_queue_grows_by_a_segment_a_round_trip() {
        let mut sender = sender(2, |_| ());
        for cwnd in 3..=12 {
            sender.round(BASE);
            // each of W ACKs adds 1/W, or 1/(W + 1) after the step
            assert!((cwnd - 1..=cwnd).contains(&sender.conn.cwnd), "{} after {} rounds", sender.conn.cwnd, cwnd - 2);
        }
        assert!(!sender.conn.in_slow_start() && sender.conn.exits.first.is_none());
    }

    #[test]
    fn an_ack_moves_the_window_by_gain_times_the_distance_times_its_share() {
        // 1 * (100 - 25)/100 * 4/20 = 0.15: seven make 1.05
        let mut near = sender(20, |_| ());
        (0..6).for_each(|_| near.ack_n(4, queue(25)));
        assert_eq!(near.conn.cwnd, 20);
        near.ack_n(4, queue(25));
        assert_eq!(near.conn.cwnd, 21);
        // 1 * (100 - 300)/100 * 5/20 = -0.5: two make -1
        let mut beyond = sender(20, |_| ());
        beyond.ack_n(5, queue(300));
        assert_eq!(beyond.conn.cwnd, 20);
        beyond.ack_n(5, queue(300));
        assert_eq!(beyond.conn.cwnd, 19);
        // at the target it stays: 0 * 20/20
        let mut there = sender(20, |_| ());
        there.round(queue(100));
        assert_eq!(there.conn.cwnd, 20);
        // what RFC 7928 asks for: 10 * (5 - 4)/5 * 2/20 = 0.2
        let mut sharp = sender(20, |p| *p = Params { target: Duration::from_millis(5), gain: 10.0, filter: 1, ..p.clone() });
        (0..5).for_each(|_| sharp.ack_n(2, queue(4)));
        assert_eq!(sharp.conn.cwnd, 21);
    }

    #[test]
    fn the_window_is_two_at_the_least() {
        let mut sender = sender(5, |_| ());
        sender.ack_n(5, queue(5000));
        // -49 * 5/5
        assert_eq!(sender.conn.cwnd, 2);
        sender.ack_n(2, BASE);
        assert_eq!(sender.conn.cwnd, 3);
    }

    #[test]
    fn an_increase_goes_a_segment_beyond_what_was_used_and_not_without_use() {
        // 10 * 5/10 = 5, but 10 were in flight
        let mut eager = sender(10, |p| p.gain = 10.0);
        eager.ack_n(5, BASE);
        assert_eq!(eager.conn.cwnd, 11);
        let mut idle = sender(10, |_| ());
        idle.conn.is_cwnd_limited = false;
        idle.ack_n(10, BASE);
        assert_eq!(idle.conn.cwnd, 10);
        // -1 * 10/10
        idle.ack_n(10, queue(200));
        assert_eq!(idle.conn.cwnd, 9);
    }

    #[test]
    fn losses_and_marks_halve() {
        for cause in [Congestion::Loss, Congestion::Ecn] {
            let mut sender = sender(21, |_| ());
            sender.congestion(cause);
            assert_eq!((sender.conn.cwnd, sender.conn.ssthresh), (10, 10));
            // a window that delay lowers does not return by slow start: -1 * 10/10
            sender.ack_n(10, queue(200));
            assert_eq!((sender.conn.cwnd, sender.conn.ssthresh), (9, 9));
        }
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_the_way_back_is_no_slow_start() {
        let mut sender = sender(32, |_| ());
        sender.congestion(Congestion::Timeout);
        assert_eq!((sender.conn.cwnd, sender.conn.ssthresh), (1, 16));
        sender.ack_n(1, BASE);
        // 2 at once, and 1/2 towards the third
        assert_eq!((sender.conn.cwnd, sender.conn.ssthresh), (2, 2));
        sender.ack_n(1, BASE);
        assert_eq!(sender.conn.cwnd, 3);
    }

    #[test]
    fn slow_start_ends_at_the_target_if_there_is_one() {
        let mut sender = sender(2, |p| p.slow_start = true);
        for cwnd in [4, 8, 16] {
            sender.round(BASE);
            assert_eq!(sender.conn.cwnd, cwnd);
        }
        sender.ack_n(1, queue(99));
        assert_eq!(sender.conn.cwnd, 17);
        sender.ack_n(1, queue(100));
        assert_eq!((sender.conn.cwnd, sender.conn.ssthresh), (17, 17));
        assert_eq!(sender.conn.exits.first.map(|exit| (exit.cwnd, exit.cause)), Some((17, ExitCause::Delay)));
        // from then on by the gain: 17/17
        sender.ack_n(17, BASE);
        assert_eq!(sender.conn.cwnd, 18);
    }

    #[test]
    fn an_ack_that_does_not_advance_is_no_sample() {
        let mut sender = sender(10, |_| ());
        let duplicate = AckEvent { one_way_ms: -500, ..AckEvent::default() };
        sender.cc.in_ack_event(&mut sender.conn, &duplicate);
        assert_eq!(sender.cc.delay.base_us(), Some(40_000));
        sender.cc.in_ack_event(&mut sender.conn, &AckEvent { advanced: 1, ..duplicate });
        assert_eq!(sender.cc.delay.base_us(), Some(-500_000));
    }
}
