//! Pacing: when the next transmission may leave, and Linux's pacing rate.

use super::host::HostParams;
use super::known::Known;
use crate::cc::conn::Conn;
use crate::hint::unlikely;
use crate::units::{Duration, Instant};

/// The first segments are never paced (Linux `tcp_update_skb_after_send`, after sch_fq).
const UNPACED_SEGMENTS: u64 = 10;

/// Linux `tcp_wstamp_ns` and the pacing timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    /// Earliest time of the next transmission.
    pub next: Instant,
    /// A transmission waits for it.
    blocked: bool,
}

impl Pacer {
    pub fn new() -> Pacer {
        Pacer { next: Instant::ZERO, blocked: false }
    }

    /// When the transmission that waits may leave.
    #[inline]
    pub fn timer(&self) -> Instant {
        if self.blocked {
            self.next
        } else {
            Instant::NEVER
        }
    }

    /// Nothing waits any more.
    #[inline]
    pub fn release(&mut self) {
        self.blocked = false;
    }

    /// Whether the next transmission has to wait; if so, [`Pacer::timer`] says until when.
    #[inline]
    pub fn holds(&mut self, conn: &Conn) -> bool {
        self.blocked = conn.paced && self.next > conn.now;
        self.blocked
    }

    /// For how much longer it holds the next transmission, in whole ms; `None`: for less than one. Linux `tcp_pacing_delay`.
    #[inline]
    pub fn delay(&self, now: Instant) -> Option<Duration> {
        let wait = self.next.saturating_since(now);
        unlikely(wait >= Duration::from_millis(1)).then(|| Duration::from_millis(wait.as_millis()))
    }

    /// `segments` leave now. Linux `tcp_update_skb_after_send`.
    #[inline]
    pub fn charge(&mut self, conn: &Conn, segments: u64) {
        if !conn.paced {
            return;
        }
        let before = self.next;
        self.next = before.max(conn.now);
        let rate = conn.pacing_rate;
        if rate == 0 || rate == u64::MAX || conn.snd_nxt < UNPACED_SEGMENTS {
            return;
        }
        let len = segments * u64::from(conn.mss) * 1_000_000_000 / rate;
        // time lost to a late wake-up is given back, up to half of the interval
        let credit = (self.next - before).0.min(len / 2);
        self.next += Duration(len - credit);
    }
}

/// The pacing rate that Linux gives a window-based control, bytes of payload per second; as it is before the first RTT sample. Linux
/// `tcp_update_pacing_rate`.
#[inline]
pub(super) fn window_rate<K: Known>(conn: &Conn, host: &HostParams) -> u64 {
    let slow_start = conn.cwnd < conn.ssthresh / 2;
    let ratio = if slow_start { K::pacing_ss_ratio(host) } else { K::pacing_ca_ratio(host) };
    conn.window_rate(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::driver::conn;
    use crate::tcp::known::Anything;

    /// 1448 B a millisecond.
    fn paced_connection(now_ms: u64) -> Conn {
        Conn { now: Instant::from_millis(now_ms), paced: true, pacing_rate: 1_448_000, snd_nxt: 10, ..conn() }
    }

    #[test]
    fn a_burst_is_followed_by_its_time_at_the_pacing_rate() {
        let mut pacer = Pacer::new();
        pacer.next = Instant::from_millis(100);
        pacer.charge(&paced_connection(100), 2);
        assert!(pacer.holds(&paced_connection(101)));
        assert_eq!(pacer.timer(), Instant::from_millis(102));
        assert!(!pacer.holds(&paced_connection(102)));
        assert_eq!(pacer.timer(), Instant::NEVER);
    }

    #[test]
    fn a_late_wake_up_is_given_back_up_to_half_of_the_interval() {
        // 0.5 ms late: 2 - 0.5 ms; 5 ms late: 2 - 1 ms
        for (late_us, next_us) in [(500, 2_000), (5_000, 6_000)] {
            let mut pacer = Pacer::new();
            pacer.next = Instant::from_millis(100);
            let conn = Conn { now: Instant::from_micros(100_000 + late_us), ..paced_connection(0) };
            pacer.charge(&conn, 2);
            assert_eq!(pacer.next, Instant::from_micros(100_000 + next_us));
        }
    }

    #[test]
    fn the_first_ten_segments_and_unpaced_flows_are_free() {
        for conn in [Conn { snd_nxt: 9, ..paced_connection(100) }, Conn { paced: false, ..paced_connection(100) }] {
            let mut pacer = Pacer::new();
            pacer.charge(&conn, 10);
            assert!(!pacer.holds(&conn));
        }
    }

    #[test]
    fn the_rate_is_the_window_a_round_trip_times_the_ratio() {
        let mut conn = Conn { cwnd: 10, ..conn() };
        assert_eq!(window_rate::<Anything>(&conn, &HostParams::default()), 0);
        conn.rtt.sample(100_000, 0, 1);
        // 10 * 1448 B / 0.1 s, twice that in slow start, 1.2 times from half of ssthresh on
        assert_eq!(window_rate::<Anything>(&conn, &HostParams::default()), 289_600);
        conn.ssthresh = 20;
        assert_eq!(window_rate::<Anything>(&conn, &HostParams::default()), 173_760);
    }
}
