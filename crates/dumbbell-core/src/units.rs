//! Units of the simulator: instants, durations and rates, all integers.
//!
//! Instants and durations are nanoseconds in a `u64` (584 years); a rate is bits per second of Ethernet frames without FCS, so that an
//! MSS of 1448 B (a 1514 B frame) fills a link at a goodput of 1448/1514 of its rate.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// Gives a count of nanoseconds its constructors, its readings and its display.
macro_rules! count_nanoseconds {
    ($type:ident, $last:literal) => {
        impl $type {
            /// Zero.
            pub const ZERO: $type = $type(0);

            /// From seconds.
            pub const fn from_secs(s: u64) -> $type {
                $type(s * 1_000_000_000)
            }
            /// From milliseconds.
            pub const fn from_millis(ms: u64) -> $type {
                $type(ms * 1_000_000)
            }
            /// From microseconds.
            pub const fn from_micros(us: u64) -> $type {
                $type(us * 1_000)
            }
            /// Nanoseconds.
            pub const fn as_nanos(self) -> u64 {
                self.0
            }
            /// Whole microseconds, truncated.
            pub const fn as_micros(self) -> u64 {
                self.0 / 1_000
            }
            /// Whole milliseconds, truncated; Linux's jiffies at HZ = 1000.
            pub const fn as_millis(self) -> u64 {
                self.0 / 1_000_000
            }
            /// Seconds as a real number.
            pub fn as_secs_f64(self) -> f64 {
                self.0 as f64 / 1e9
            }
            /// `self - duration`, or zero if `duration` is longer.
            #[inline]
            pub const fn saturating_sub(self, duration: Duration) -> $type {
                $type(self.0.saturating_sub(duration.0))
            }
            /// `self + duration`, or the largest value if the sum is larger.
            #[inline]
            pub const fn saturating_add(self, duration: Duration) -> $type {
                $type(self.0.saturating_add(duration.0))
            }
        }

        impl Add<Duration> for $type {
            type Output = $type;
            #[inline]
            fn add(self, duration: Duration) -> $type {
                $type(self.0 + duration.0)
            }
        }
        impl Sub<Duration> for $type {
            type Output = $type;
            #[inline]
            fn sub(self, duration: Duration) -> $type {
                $type(self.0 - duration.0)
            }
        }
        impl AddAssign<Duration> for $type {
            #[inline]
            fn add_assign(&mut self, duration: Duration) {
                self.0 += duration.0;
            }
        }
        impl SubAssign<Duration> for $type {
            #[inline]
            fn sub_assign(&mut self, duration: Duration) {
                self.0 -= duration.0;
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    u64::MAX => f.write_str($last),
                    n if n % 1_000_000_000 == 0 => write!(f, "{}s", n / 1_000_000_000),
                    n if n % 1_000_000 == 0 => write!(f, "{}ms", n / 1_000_000),
                    n if n % 1_000 == 0 => write!(f, "{}us", n / 1_000),
                    n => write!(f, "{n}ns"),
                }
            }
        }
    };
}

/// An instant: nanoseconds since the start of the run.
///
/// The difference of two instants is a [`Duration`], which moves an instant:
///
/// ```
/// use dumbbell_core::units::{Duration, Instant};
/// let later = Instant::from_millis(1) + Duration::from_millis(2);
/// assert_eq!(later - Instant::from_millis(1), Duration::from_millis(2));
/// ```
///
/// Two instants cannot be added:
///
/// ```compile_fail
/// use dumbbell_core::units::Instant;
/// let later = Instant::from_millis(1) + Instant::from_millis(2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

/// A length of time in nanoseconds.
///
/// It moves an instant or another duration; an instant cannot be taken from it:
///
/// ```compile_fail
/// use dumbbell_core::units::{Duration, Instant};
/// let rest = Duration::from_millis(2) - Instant::from_millis(1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub u64);

count_nanoseconds!(Instant, "never");
count_nanoseconds!(Duration, "for ever");

impl Instant {
    /// Later than every event.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// `self - earlier`, or zero if `earlier` is later.
    #[inline]
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Sub for Instant {
    type Output = Duration;
    #[inline]
    fn sub(self, earlier: Instant) -> Duration {
        Duration(self.0 - earlier.0)
    }
}

impl Duration {
    /// Longer than every wait: an instant that is this far away never comes.
    pub const MAX: Duration = Duration(u64::MAX);
}

impl Mul<u64> for Duration {
    type Output = Duration;
    #[inline]
    fn mul(self, factor: u64) -> Duration {
        Duration(self.0 * factor)
    }
}
impl Div<u64> for Duration {
    type Output = Duration;
    #[inline]
    fn div(self, divisor: u64) -> Duration {
        Duration(self.0 / divisor)
    }
}

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl Rate {
    /// No limit.
    pub const UNLIMITED: Rate = Rate(0);

    /// From Mbit/s.
    pub const fn from_mbit(m: u64) -> Rate {
        Rate(m * 1_000_000)
    }
    /// Bits per second.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// Bytes per second, truncated.
    pub const fn bytes(self) -> u64 {
        self.0 / 8
    }
    /// Time to serialise `bytes` at this rate, truncated to the nanosecond; zero if unlimited.
    #[inline]
    pub fn serialise(self, bytes: u64) -> Duration {
        match self.0 {
            0 => Duration::ZERO,
            rate => match (bytes * 8).checked_mul(1_000_000_000) {
                Some(bit_ns) => Duration(bit_ns / rate),
                None => Duration((bytes as u128 * 8_000_000_000 / rate as u128).min(u64::MAX as u128) as u64),
            },
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("unlimited"),
            n if n % 1_000_000_000 == 0 => write!(f, "{}Gbit", n / 1_000_000_000),
            n if n % 1_000_000 == 0 => write!(f, "{}Mbit", n / 1_000_000),
            n if n % 1_000 == 0 => write!(f, "{}kbit", n / 1_000),
            n => write!(f, "{n}bit"),
        }
    }
}

/// Expiry of a Linux timer set at `now` for `delay` later: `HZ` = 1000, so that `delay` becomes whole milliseconds, rounded up,
/// from the last one. The timer wheel then rounds up once more so that no timer is early: to the next millisecond, from 63 on to the
/// next multiple of 8, from 504 on of 64, and so on. Linux since 4.8, `calc_wheel_index` (kernel/time/timer.c).
pub fn timer_wheel(now: Instant, delay: Duration) -> Instant {
    let delay = delay.0.div_ceil(1_000_000);
    let mut shift = 0;
    while delay >= 63 << shift && shift < 21 {
        shift += 3;
    }
    let expires = now.as_millis() + delay;
    Instant::from_millis(((expires >> shift) + 1) << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_full_frame_takes_1211_microseconds_at_10_mbit() {
        // 1514 B * 8 / 10e6 = 1.2112 ms
        assert_eq!(Rate::from_mbit(10).serialise(1514), Duration(1_211_200));
        assert_eq!(Rate::UNLIMITED.serialise(1514), Duration::ZERO);
        // 2^40 B * 8e9 does not fit 64 bits
        assert_eq!(Rate(8).serialise(1 << 40), Duration(u64::MAX));
    }

    #[test]
    fn durations_lie_between_instants_and_move_them() {
        let (early, late, step) = (Instant::from_millis(2), Instant::from_millis(5), Duration::from_millis(3));
        assert_eq!(late - early, step);
        assert_eq!((early + step, late - step), (late, early));
        let mut moved = early;
        moved += step * 4;
        moved -= step / 3;
        assert_eq!(moved, Instant::from_millis(13));
        let mut sum = step + step;
        sum -= Duration::from_millis(1);
        assert_eq!(sum - step, Duration::from_millis(2));
    }

    #[test]
    fn saturating_forms_stay_between_zero_and_the_end() {
        let (early, late, step) = (Instant(2), Instant(5), Duration(3));
        assert_eq!((late.saturating_since(early), early.saturating_since(late)), (step, Duration::ZERO));
        assert_eq!((late.saturating_sub(step), early.saturating_sub(step)), (early, Instant::ZERO));
        assert_eq!((early.saturating_add(step), early.saturating_add(Duration::MAX)), (late, Instant::NEVER));
        assert_eq!((step.saturating_sub(Duration(4)), step.saturating_add(Duration::MAX)), (Duration::ZERO, Duration::MAX));
    }

    #[test]
    fn display_uses_the_largest_exact_unit() {
        assert_eq!(Instant::from_millis(1500).to_string(), "1500ms");
        assert_eq!(Duration::from_micros(1500).to_string(), "1500us");
        assert_eq!((Instant::NEVER.to_string(), Duration::MAX.to_string()), ("never".to_owned(), "for ever".to_owned()));
        assert_eq!(Rate::from_mbit(2500).to_string(), "2500Mbit");
    }

    #[test]
    fn kernel_timers_count_whole_ticks_from_the_last_one_and_are_never_early() {
        // from the last tick, rounded up, and one tick more; from 63 ms on the next multiple of 8 after that, from 504 of 64
        for (now_us, delay_us, expiry_ms) in [
            (0, 1_000, 2),
            (700, 1_000, 2),
            (999, 1_001, 3),
            (40_000, 22_000, 63),
            (40_001, 1, 42),
            (1_000, 62_000, 64),
            (1_000, 63_000, 72),
            (0, 200_000, 208),
            (7_900, 200_000, 208),
            (8_000, 200_000, 216),
            (0, 503_000, 504),
            (0, 504_000, 512),
            (0, 1_000_000, 1024),
        ] {
            let expiry = timer_wheel(Instant::from_micros(now_us), Duration::from_micros(delay_us));
            assert_eq!(expiry, Instant::from_millis(expiry_ms), "{now_us} + {delay_us}");
        }
    }
}
