//! The virtual-clock shaper: when the next packet may leave.

use crate::units::{Duration, Instant, Rate};

/// Rates below 64 B/s count as 64 B/s (`MIN_RATE`, `cake_set_rate`).
const MIN_BYTES_PER_SECOND: u64 = 64;
/// Binary digits of the time a byte takes (`cake_set_rate` uses a shift of 34).
const SHIFT: u32 = 34;

/// How long a byte takes, as a binary fraction, so that a packet needs no division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteTime {
    mantissa: u64,
    shift: u32,
}

impl ByteTime {
    /// At `bytes_per_second`; 0 is unlimited: no time.
    pub fn from_rate(bytes_per_second: u64) -> ByteTime {
        if bytes_per_second == 0 {
            return ByteTime { mantissa: 0, shift: 0 };
        }
        let exact = (1_000_000_000_u128 << SHIFT) / u128::from(bytes_per_second.max(MIN_BYTES_PER_SECOND));
        // At most 34 bits are kept: times any length they fit 64 bits.
        let surplus = (128 - exact.leading_zeros()).saturating_sub(SHIFT);
        ByteTime { mantissa: (exact >> surplus) as u64, shift: SHIFT - surplus }
    }

    /// Returns the rate, bytes per second; infinite if it is unlimited.
    pub fn bytes_per_second(self) -> f64 {
        1e9 * (1_u64 << self.shift) as f64 / self.mantissa as f64
    }

    /// Time for `bytes`.
    #[inline]
    pub fn times(self, bytes: u32) -> Duration {
        Duration((self.mantissa * u64::from(bytes)) >> self.shift)
    }
}

/// Bytes per second of `rate`, 0 if unlimited: Linux's unit of rate.
pub fn bytes_per_second(rate: Rate) -> u64 {
    match rate {
        Rate::UNLIMITED => 0,
        _ => rate.bytes().max(1),
    }
}

/// The global shaper. No bursts: time that passes idle gives no credit.
#[derive(Clone, Copy, Debug)]
pub struct CakeShaper {
    byte_time: ByteTime,
    next: Instant,
    /// Runs at 2/3 of the rate over what was sent, not dropped: bounds the gap that charged drops can make.
    failsafe_next: Instant,
}

impl CakeShaper {
    /// A shaper at `bytes_per_second`.
    pub fn new(bytes_per_second: u64) -> CakeShaper {
        CakeShaper { byte_time: ByteTime::from_rate(bytes_per_second), next: Instant::ZERO, failsafe_next: Instant::ZERO }
    }

    /// Changes the rate; what was sent stays charged at the old one.
    pub fn set_rate(&mut self, bytes_per_second: u64) {
        self.byte_time = ByteTime::from_rate(bytes_per_second);
    }

    /// Returns the rate, bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.byte_time.bytes_per_second()
    }

    /// When the next packet may leave.
    #[inline]
    pub fn ready_at(&self) -> Instant {
        self.next.min(self.failsafe_next)
    }

    /// The whole discipline was idle until `now`.
    #[inline]
    pub fn wake(&mut self, now: Instant) {
        if self.next < now {
            self.next = now;
            self.failsafe_next = now;
        }
    }

    /// Charges `bytes`.
    #[inline]
    pub fn charge(&mut self, bytes: u32, dropped: bool) {
        let duration = self.byte_time.times(bytes);
        self.next += duration;
        if !dropped {
            self.failsafe_next += Duration(duration.0 + (duration.0 >> 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_at_10_mbit() {
        // 800 ns a byte: 1514 B take 1211200 ns, the failsafe 1.5 times as long, 1538 B 1230400 ns
        let mut shaper = CakeShaper::new(1_250_000);
        shaper.charge(1514, false);
        assert_eq!((shaper.next, shaper.failsafe_next), (Instant(1_211_200), Instant(1_816_800)));
        assert_eq!(ByteTime::from_rate(1_250_000).times(1538), Duration(1_230_400));
    }

    #[test]
    fn byte_time_is_exact_to_the_nanosecond_over_all_rates() {
        for bits in [1, 512, 10_000, 1_000_000, 3_333_333, 10_000_000, 999_999_999, 10_000_000_000, 400_000_000_000] {
            let rate = bytes_per_second(Rate(bits)).max(MIN_BYTES_PER_SECOND);
            for bytes in [1, 64, 1514, 65_535] {
                let exact = bytes * 1_000_000_000 / rate;
                let got = ByteTime::from_rate(rate).times(bytes as u32).0;
                // 34 bits, cut: at most one unit, or 2^-33 of the value
                assert!(got <= exact && exact - got <= 1 + (exact >> 32), "{bits} bit/s, {bytes} B: {got}, not {exact}");
            }
        }
        assert_eq!(ByteTime::from_rate(0).times(1514), Duration::ZERO);
        // floor of 64 B/s
        assert_eq!(ByteTime::from_rate(1).times(64), Duration::from_secs(1));
    }

    #[test]
    fn dropped_packets_do_not_move_the_failsafe_clock() {
        let mut shaper = CakeShaper::new(1_250_000);
        for _ in 0..10 {
            shaper.charge(1000, true);
        }
        assert_eq!((shaper.next, shaper.ready_at()), (Instant::from_millis(8), Instant::ZERO));
    }

    #[test]
    fn idle_time_gives_no_credit() {
        let mut shaper = CakeShaper::new(1_250_000);
        shaper.wake(Instant::from_secs(1));
        assert_eq!(shaper.ready_at(), Instant::from_secs(1));
        shaper.charge(1000, false);
        shaper.wake(Instant::from_secs(1)); // still busy: nothing to pull up
        assert_eq!(shaper.ready_at(), Instant(1_000_800_000));
    }
}
