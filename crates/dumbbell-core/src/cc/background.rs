//! Parts that LEDBAT and LEDBAT++ share: the estimate of the queueing delay (RFC 6817 sections 2.4.2 and 3.1), and a window that
//! moves by parts of a segment.

use super::conn::Conn;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// Window of a new connection, and smallest window that delays leave, segments. RFC 6817 section 2.5: INIT_CWND and MIN_CWND.
pub const MIN_CWND: u32 = 2;
/// Period of each smallest delay in the history of base delays. RFC 6817 section 2.4.2, `update_base_delay`.
const HISTORY_PERIOD: Duration = Duration::from_secs(60);

/// Half of `cwnd` after a loss or a CE mark, and never below [`MIN_CWND`]. RFC 6817 section 2.4.2, "on data loss".
pub fn halve(cwnd: u32) -> u32 {
    (cwnd / 2).max(MIN_CWND)
}

/// A measured delay.
#[derive(Clone, Copy, Debug)]
struct DelaySample {
    delay_us: i64,
    time: Instant,
}

/// Estimate of the queueing delay: the smallest of the newest delays less the smallest of the last minutes. Delays may be one-way, by
/// clocks that disagree by any constant.
#[derive(Clone, Debug)]
pub struct QueueingDelay {
    /// Smallest delay of each of the last minutes that had samples, oldest first, us. RFC 6817 `base_delays`.
    minima: VecDeque<i64>,
    /// Most of them. RFC 6817 `BASE_HISTORY`.
    base_history: usize,
    /// Smallest of [`minima`](QueueingDelay::minima).
    base_us: Option<i64>,
    /// Minute of the last of them, by the clock of the sender.
    minute: u64,
    /// Newest samples, oldest first. RFC 6817 `current_delays`.
    samples: VecDeque<DelaySample>,
    /// Most of them. RFC 6817 `CURRENT_FILTER`.
    filter: usize,
}

impl QueueingDelay {
    /// An estimate with no samples yet, by base delays of `base_history` minutes and the last `filter` samples.
    pub fn new(base_history: u32, filter: u32) -> QueueingDelay {
        let (base_history, filter) = (base_history as usize, filter as usize);
        QueueingDelay {
            minima: VecDeque::with_capacity(base_history),
            base_history,
            base_us: None,
            minute: 0,
            samples: VecDeque::with_capacity(filter),
            filter,
        }
    }

    /// Adds a delay of `delay_us`, measured at `time`.
    pub fn add_sample(&mut self, delay_us: i64, time: Instant) {
        let minute = time.as_nanos() / HISTORY_PERIOD.as_nanos();
        match self.minima.back_mut() {
            Some(smallest) if minute == self.minute => *smallest = delay_us.min(*smallest),
            _ => {
                if self.minima.len() == self.base_history {
                    self.minima.pop_front();
                    self.base_us = self.minima.iter().min().copied();
                }
                self.minima.push_back(delay_us);
                self.minute = minute;
            }
        }
        self.base_us = Some(self.base_us.map_or(delay_us, |base| base.min(delay_us)));
        if self.samples.len() == self.filter {
            self.samples.pop_front();
        }
        self.samples.push_back(DelaySample { delay_us, time });
    }

    /// Returns the base delay, us; `None` before the first sample.
    pub fn base_us(&self) -> Option<i64> {
        self.base_us
    }

    /// Returns the queueing delay at the time of `conn`, us; 0 before the first sample. Samples older than a round trip do not count, except
    /// the newest: RFC 6817 limits `CURRENT_FILTER` so.
    pub fn estimate_us(&self, conn: &Conn) -> i64 {
        let round_trip = Duration::from_micros(u64::from(conn.rtt.srtt_8us) / 8);
        let is_fresh = |sample: &&DelaySample| conn.now.saturating_since(sample.time) <= round_trip;
        let newest = self.samples.back();
        let current = self.samples.iter().filter(is_fresh).chain(newest).map(|sample| sample.delay_us).min();
        // with a history of one minute, a recent sample may be smaller than all that remain
        current.zip(self.base_us).map_or(0, |(current, base)| (current - base).max(0))
    }
}

/// Part of a segment by which the window is larger than its whole segments; negative if it is smaller.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowFraction(f64);

impl WindowFraction {
    /// Moves the window of `conn` by `segments`. It neither rises above `most` nor falls below [`MIN_CWND`] by that.
    pub fn move_window(&mut self, conn: &mut Conn, segments: f64, most: u32) {
        let sum = self.0 + segments;
        let wanted = i64::from(conn.cwnd).saturating_add(sum as i64);
        let (least, most) = (conn.cwnd.min(MIN_CWND), conn.cwnd.max(most).min(conn.cwnd_clamp));
        let reached = wanted.clamp(i64::from(least.min(most)), i64::from(most));
        // a bound takes the rest away
        self.0 = if reached == wanted { sum.fract() } else { 0.0 };
        conn.cwnd = reached as u32;
    }

    /// Forgets the fraction: the window was set to whole segments.
    pub fn reset(&mut self) {
        self.0 = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::conn;
    use super::*;

    /// A connection at `millis` with a smoothed RTT of 100 ms.
    fn conn_at(millis: u64) -> Conn {
        let mut conn = Conn { now: Instant::from_millis(millis), ..conn() };
        conn.rtt.srtt_8us = 8 * 100_000;
        conn
    }

    #[test]
    fn the_queue_is_the_smallest_of_the_newest_samples_above_the_base() {
        let mut delay = QueueingDelay::new(10, 4);
        assert_eq!((delay.base_us(), delay.estimate_us(&conn_at(0))), (None, 0));
        for (millis, sample) in [(0, 30), (10, 45), (20, 50), (30, 41), (40, 60)] {
            delay.add_sample(sample, Instant::from_millis(millis));
        }
        // of 45, 50, 41, 60: 41 - 30
        assert_eq!((delay.base_us(), delay.estimate_us(&conn_at(40))), (Some(30), 11));
        // at 135 ms those of 10, 20 and 30 ms are older than 100 ms; at 500 ms all are, and the newest remains
        assert_eq!(delay.estimate_us(&conn_at(135)), 30);
        assert_eq!(delay.estimate_us(&conn_at(500)), 30);
    }

    #[test]
    fn clocks_may_disagree_by_any_constant() {
        for offset in [-5_000_000, 0, 7_000_000_000] {
            let mut delay = QueueingDelay::new(10, 1);
            delay.add_sample(offset + 20, Instant::from_secs(0));
            delay.add_sample(offset + 90, Instant::from_secs(1));
            assert_eq!(delay.estimate_us(&conn_at(1000)), 70);
        }
    }

    #[test]
    fn a_minimum_is_forgotten_after_so_many_minutes_with_samples() {
        let mut delay = QueueingDelay::new(2, 1);
        delay.add_sample(10, Instant::from_secs(59));
        delay.add_sample(25, Instant::from_secs(61));
        assert_eq!(delay.base_us(), Some(10));
        // the third minute pushes the first out: 25 and 40 are left
        delay.add_sample(40, Instant::from_secs(125));
        assert_eq!(delay.base_us(), Some(25));
        // an hour without samples is no minute
        delay.add_sample(50, Instant::from_secs(3725));
        assert_eq!(delay.base_us(), Some(40));
        delay.add_sample(30, Instant::from_secs(3726));
        assert_eq!(delay.base_us(), Some(30));
    }

    #[test]
    fn a_window_moves_by_whole_segments_and_keeps_the_rest() {
        let mut fraction = WindowFraction::default();
        let mut conn = conn();
        for (step, cwnd) in [(0.4, 10), (0.4, 10), (0.4, 11), (-0.1, 11), (-0.2, 11), (-1.0, 10), (2.1, 12)] {
            // sums: 0.4, 0.8, 1.2 -> +1 and 0.2, 0.1, -0.1, -1.1 -> -1 and -0.1, 2.0
            fraction.move_window(&mut conn, step, u32::MAX);
            assert_eq!(conn.cwnd, cwnd, "{step}");
        }
    }

    #[test]
    fn bounds_keep_no_rest() {
        let mut fraction = WindowFraction::default();
        let mut conn = Conn { cwnd: 5, ..conn() };
        fraction.move_window(&mut conn, 3.9, 6);
        fraction.move_window(&mut conn, 0.2, 6);
        assert_eq!(conn.cwnd, 6);
        fraction.move_window(&mut conn, -1e300, 6);
        fraction.move_window(&mut conn, 0.9, 6);
        assert_eq!(conn.cwnd, MIN_CWND);
        // a window above what may be reached stays, and so does that of a timeout
        let mut large = Conn { cwnd: 9, ..conn.clone() };
        fraction.reset();
        fraction.move_window(&mut large, 1.0, 6);
        assert_eq!(large.cwnd, 9);
        let mut small = Conn { cwnd: 1, ..conn };
        fraction.move_window(&mut small, -1.0, 6);
        assert_eq!(small.cwnd, 1);
    }

    #[test]
    fn a_loss_halves_down_to_two() {
        assert_eq!([100, 5, 4, 3, 1].map(halve), [50, 2, 2, 2, 2]);
    }
}
