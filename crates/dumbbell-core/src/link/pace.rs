//! How long packets take at a rate, so that no nanosecond that is cut off adds up.

use crate::hint::unlikely;
use crate::units::{Duration, Rate};

/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;

/// Times of transmission at a rate, in whole nanoseconds. What is cut off one is added to the next ones, so that over any time no more is
/// carried than the rate allows.
#[derive(Clone, Debug)]
pub struct Pace {
    rate: Rate,
    /// The last length, the time that it takes, and what is cut off that, in nanoseconds over the rate: most packets are as long as the one
    /// before, and a quotient costs more than the rest.
    last: (u64, Duration, u64),
    /// Sum of all that was cut off so far, less than a nanosecond.
    owed: u64,
}

impl Pace {
    /// At `rate`.
    pub fn new(rate: Rate) -> Pace {
        Pace { rate, last: (0, Duration::ZERO, 0), owed: 0 }
    }

    /// The rate.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// How long the next `bytes` take at the most.
    #[inline(always)]
    pub fn longest(&mut self, bytes: u64) -> Duration {
        if unlikely(bytes != self.last.0) {
            self.last = self.quotient(bytes);
        }
        self.last.1 + Duration(1)
    }

    /// How long the next `bytes` take.
    #[inline(always)]
    pub fn take(&mut self, bytes: u64) -> Duration {
        if unlikely(bytes != self.last.0) {
            self.last = self.quotient(bytes);
        }
        let (_, time, rest) = self.last;
        if unlikely(rest > 0) {
            return self.take_rest(time, rest);
        }
        time
    }

    fn take_rest(&mut self, time: Duration, rest: u64) -> Duration {
        self.owed += rest;
        if self.owed < self.rate.bits() {
            return time;
        }
        self.owed -= self.rate.bits();
        time + Duration(1)
    }

    fn quotient(&self, bytes: u64) -> (u64, Duration, u64) {
        let (bit_ns, rate) = (u128::from(bytes) * 8 * u128::from(NANOS), u128::from(self.rate.bits()));
        if rate == 0 {
            return (bytes, Duration::ZERO, 0);
        }
        (bytes, self.rate.serialise(bytes), (bit_ns % rate) as u64)
    }

    /// Bytes that take `time`, rounded up.
    pub fn bytes_in(&self, time: Duration) -> u64 {
        (u128::from(time.0) * u128::from(self.rate.bits())).div_ceil(8 * u128::from(NANOS)).min(u128::from(u64::MAX)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_does_not_add_up() {
        // 1514 B at 100 Gbit/s take 121.12 ns: 12112 ns for 100 of them, where whole nanoseconds alone make 12100
        let mut pace = Pace::new(Rate(100_000_000_000));
        assert_eq!((0..100).map(|_| pace.take(1_514).0).sum::<u64>(), 12_112);
        // lengths in turn: 121.12 and 5.28 ns
        let both: u64 = (0..50).map(|_| pace.take(1_514).0 + pace.take(66).0).sum();
        assert_eq!(both, 6_320);
        // nothing is cut off at rates that divide well
        assert_eq!(Pace::new(Rate::from_mbit(10)).take(1_514), Duration(1_211_200));
        assert_eq!(Pace::new(Rate::UNLIMITED).take(1_514), Duration::ZERO);
        assert_eq!(Pace::new(Rate(8)).take(1 << 40), Duration(u64::MAX));
    }

    #[test]
    fn bytes_of_a_time_are_rounded_up() {
        // 1 ns at 10 Mbit/s is a hundredth of a bit
        let pace = Pace::new(Rate::from_mbit(10));
        assert_eq!([0, 1, 800, 801].map(|ns| pace.bytes_in(Duration(ns))), [0, 1, 1, 2]);
    }
}
