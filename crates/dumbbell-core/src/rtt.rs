//! Round-trip time: `srtt`, `mdev`, `rttvar`, RTO and the windowed minimum, in Linux's fixed point.

use crate::hint::{likely, unlikely};
use crate::units::{Duration, Instant};

/// Linux `TCP_RTO_MIN`: 200 ms (RFC 6298 asks for 1 s).
pub const RTO_MIN_US: u32 = 200_000;
/// Linux `TCP_RTO_MAX`: 120 s.
pub const RTO_MAX_US: u32 = 120_000_000;
/// RTO before the first sample: 1 s (RFC 6298 section 2.1).
pub const RTO_INIT_US: u32 = 1_000_000;
/// Longest sample, us: 268 s, so that everything made of it fits 32 bits.
const SAMPLE_MAX_US: u32 = 1 << 28;
/// The minimum is kept over this window: sysctl `tcp_min_rtt_wlen`, 300 s.
pub const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// Jacobson's estimator as Linux computes it: variance is tracked as the largest mean deviation of a window of data.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct RttEstimator {
    /// Smoothed RTT, 1/8 us; 0 before the first sample.
    pub srtt_8us: u32,
    /// Mean deviation, 1/4 us.
    pub mdev_4us: u32,
    /// Largest `mdev_4us` of the current window of data, at least the RTO floor.
    mdev_max_us: u32,
    /// Added to `srtt` to give the RTO, us.
    pub rttvar_us: u32,
    /// `rttvar_us` decays when this segment is acknowledged.
    rtt_seq: u64,
    /// Windowed minimum: times of the three best samples.
    min_at: [Instant; 3],
    /// The samples, us.
    min: [u32; 3],
    /// Floor of `rttvar_us`.
    rto_min_us: u32,
}

impl Default for RttEstimator {
    fn default() -> RttEstimator {
        RttEstimator::new(RTO_MIN_US)
    }
}

impl RttEstimator {
    /// Before the first sample, with `rto_min_us` as the floor of the variance.
    pub fn new(rto_min_us: u32) -> RttEstimator {
        let (min_at, min) = ([Instant::ZERO; 3], [u32::MAX; 3]);
        RttEstimator { srtt_8us: 0, mdev_4us: 0, mdev_max_us: 0, rttvar_us: 0, rtt_seq: 0, min_at, min, rto_min_us }
    }

    /// A sample of `rtt_us` for data below `snd_una`. Linux `tcp_rtt_estimator`.
    #[inline(always)]
    pub fn sample(&mut self, rtt_us: u32, snd_una: u64, snd_nxt: u64) {
        let rtt_us = rtt_us.min(SAMPLE_MAX_US);
        if unlikely(self.srtt_8us == 0) {
            self.srtt_8us = (rtt_us << 3).max(1);
            self.mdev_4us = rtt_us << 1;
            self.rttvar_us = self.mdev_4us.max(self.rto_min_us);
            self.mdev_max_us = self.rttvar_us;
            self.rtt_seq = snd_nxt;
            return;
        }
        let error = i64::from(rtt_us) - i64::from(self.srtt_8us >> 3);
        self.srtt_8us = (i64::from(self.srtt_8us) + error).max(1) as u32;
        let mut deviation = error.abs() - i64::from(self.mdev_4us >> 2);
        if error < 0 && deviation > 0 {
            // a falling RTT raises the variance eight times more slowly (Eifel)
            deviation >>= 3;
        }
        self.mdev_4us = (i64::from(self.mdev_4us) + deviation) as u32;
        if unlikely(self.mdev_4us > self.mdev_max_us) {
            self.mdev_max_us = self.mdev_4us;
            self.rttvar_us = self.rttvar_us.max(self.mdev_max_us);
        }
        if unlikely(snd_una > self.rtt_seq) {
            if self.mdev_max_us < self.rttvar_us {
                self.rttvar_us -= (self.rttvar_us - self.mdev_max_us) >> 2;
            }
            self.rtt_seq = snd_nxt;
            self.mdev_max_us = self.rto_min_us;
        }
    }

    /// Retransmission timeout without back-off, us.
    #[inline]
    pub fn rto_us(&self) -> u32 {
        match self.srtt_8us {
            0 => RTO_INIT_US,
            srtt => ((srtt >> 3) + self.rttvar_us).min(RTO_MAX_US),
        }
    }

    /// Smoothed RTT, us; 0 before the first sample. What `ss` prints as `rtt`.
    #[inline]
    pub fn srtt_us(&self) -> u32 {
        self.srtt_8us >> 3
    }

    /// Smallest sample of the last 300 s, us; `u32::MAX` before the first.
    #[inline]
    pub fn min_us(&self) -> u32 {
        self.min[0]
    }

    /// Feeds the windowed minimum: Nichols' filter of three samples, as Linux `win_minmax.c`.
    #[inline(always)]
    pub fn sample_min(&mut self, rtt_us: u32, now: Instant) {
        let age = now.saturating_since(self.min_at[0]);
        // one above all three, the oldest of which is too young for any to be replaced, changes nothing
        if !likely(rtt_us > self.min[2] && age <= Duration(MIN_RTT_WINDOW.0 / 4)) {
            self.update_min(rtt_us, age, now);
        }
    }

    /// A sample may take the place of one of the three, the oldest of which has this age.
    #[inline(never)]
    fn update_min(&mut self, rtt_us: u32, age: Duration, now: Instant) {
        if rtt_us <= self.min[0] || now.saturating_since(self.min_at[2]) > MIN_RTT_WINDOW {
            return self.replace_min(0, rtt_us, now);
        }
        if rtt_us <= self.min[1] {
            self.replace_min(1, rtt_us, now);
        } else if rtt_us <= self.min[2] {
            self.replace_min(2, rtt_us, now);
        }
        if age > MIN_RTT_WINDOW {
            self.forget_min(rtt_us, now);
            if now.saturating_since(self.min_at[0]) > MIN_RTT_WINDOW {
                self.forget_min(rtt_us, now);
            }
        } else if self.min_at[1] == self.min_at[0] && age > Duration(MIN_RTT_WINDOW.0 / 4) {
            self.replace_min(1, rtt_us, now);
        } else if self.min_at[2] == self.min_at[1] && age > Duration(MIN_RTT_WINDOW.0 / 2) {
            self.replace_min(2, rtt_us, now);
        }
    }

    /// A new sample takes the place of number `from` and of those behind it.
    fn replace_min(&mut self, from: usize, rtt_us: u32, now: Instant) {
        self.min[from..].fill(rtt_us);
        self.min_at[from..].fill(now);
    }

    /// The first of the three is too old: the others move up, and a new sample comes behind them.
    fn forget_min(&mut self, rtt_us: u32, now: Instant) {
        self.min = [self.min[1], self.min[2], rtt_us];
        self.min_at = [self.min_at[1], self.min_at[2], now];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sample_sets_srtt_and_half_of_it_as_deviation() {
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.rto_us(), 1_000_000);
        rtt.sample(40_000, 0, 10);
        assert_eq!((rtt.srtt_us(), rtt.mdev_4us), (40_000, 80_000));
        // 2 * 40 ms = 80 ms is below the floor of 200 ms: RTO = 40 + 200
        assert_eq!(rtt.rto_us(), 240_000);
    }

    #[test]
    fn samples_of_any_size_are_taken() {
        let mut rtt = RttEstimator::default();
        for n in 0..100 {
            rtt.sample(if n % 3 == 0 { u32::MAX } else { 0 }, n, n + 1);
            assert!(rtt.srtt_us() <= 1 << 28 && rtt.rto_us() <= RTO_MAX_US, "{rtt:?}");
        }
    }

    #[test]
    fn constant_rtt_converges_and_the_rto_floor_is_srtt_plus_200_ms() {
        let mut rtt = RttEstimator::default();
        for n in 0..200 {
            rtt.sample(300_000, n, n + 1);
        }
        assert_eq!(rtt.srtt_us(), 300_000);
        // first 600 ms of variance, then a quarter of the excess goes for every window of data
        assert!((500_000..501_000).contains(&rtt.rto_us()), "{}", rtt.rto_us());
    }

    #[test]
    fn a_step_moves_srtt_by_an_eighth() {
        let mut rtt = RttEstimator::default();
        rtt.sample(80_000, 0, 1);
        rtt.sample(160_000, 0, 1);
        // 80 + (160 - 80) / 8 = 90; mdev: |80| against 40 -> 40 + (80 - 40) / 4 = 50
        assert_eq!((rtt.srtt_us(), rtt.mdev_4us >> 2), (90_000, 50_000));
    }

    #[test]
    fn minimum_is_forgotten_after_its_window() {
        let mut rtt = RttEstimator::default();
        rtt.sample_min(10, Instant::ZERO);
        for s in 1..=299 {
            rtt.sample_min(20, Instant::from_secs(s));
        }
        assert_eq!(rtt.min_us(), 10);
        rtt.sample_min(20, Instant::from_secs(301));
        assert_eq!(rtt.min_us(), 20);
    }

    /// RFC 6298 with Linux's changes, in real numbers: `srtt`, mean deviation (times 4), its maximum in a window of data,
    /// and what is added to `srtt`; us.
    struct Real {
        srtt: f64,
        mdev: f64,
        mdev_max: f64,
        rttvar: f64,
        window_end: u64,
    }

    impl Real {
        fn sample(&mut self, rtt: f64, snd_una: u64, snd_nxt: u64) {
            let floor = f64::from(RTO_MIN_US);
            if self.srtt == 0.0 {
                *self = Real { srtt: rtt, mdev: 2.0 * rtt, mdev_max: 0.0, rttvar: (2.0 * rtt).max(floor), window_end: snd_nxt };
                self.mdev_max = self.rttvar;
                return;
            }
            // mdev <- 3/4 mdev + 1/4 |error|, an eighth of that step if the RTT falls faster than it usually deviates
            let error = rtt - self.srtt;
            let excess = error.abs() - self.mdev / 4.0;
            self.srtt += error / 8.0;
            self.mdev += if error < 0.0 && excess > 0.0 { excess / 8.0 } else { excess };
            if self.mdev > self.mdev_max {
                self.mdev_max = self.mdev;
                self.rttvar = self.rttvar.max(self.mdev);
            }
            if snd_una > self.window_end {
                if self.mdev_max < self.rttvar {
                    self.rttvar -= (self.rttvar - self.mdev_max) / 4.0;
                }
                self.window_end = snd_nxt;
                self.mdev_max = floor;
            }
        }
    }

    #[test]
    fn agrees_with_real_numbers() {
        // srtt is kept in 1/8 us, and the error that is added to it loses up to 7/8 us by truncation: with a gain of 1/8 an
        // offset of at most (7/8) / (1/8) eighths = 7/8 us; another 7/8 us when it is read: below 2 us. The deviation
        // (times 4) takes over the error of srtt (1 us) and truncates 3/4 us: (1 + 3/4) / (1/4) = 7. rttvar adds 1 for each
        // quarter that decays: 1 / (1/4) + 7 = 11.
        for (seed, base, spread) in [(1, 20_000, 2_000), (2, 100, 300), (3, 80_000, 400_000), (4, 1_000_000, 5), (5, 5_000, 0)] {
            let mut fixed = RttEstimator::default();
            let mut real = Real { srtt: 0.0, mdev: 0.0, mdev_max: 0.0, rttvar: 0.0, window_end: 0 };
            for step in 0..5_000_u64 {
                let random = crate::rng::mix(seed << 32 | step);
                // a uniform part, and now and then a spike
                let spike = if random >> 57 == 0 { 10 * base } else { 0 };
                let rtt = (base + random % (spread + 1) + spike) as u32;
                let (una, nxt) = (step, step + 1 + random % 20);
                fixed.sample(rtt, una, nxt);
                real.sample(f64::from(rtt), una, nxt);
                let off = |name: &str, found: u32, exact: f64, most: f64| {
                    assert!((f64::from(found) - exact).abs() <= most, "seed {seed} step {step}: {name} {found}, exactly {exact}");
                };
                off("srtt", fixed.srtt_us(), real.srtt, 2.0);
                off("mdev", fixed.mdev_4us, real.mdev, 7.0);
                off("rttvar", fixed.rttvar_us, real.rttvar, 11.0);
                off("rto", fixed.rto_us(), real.srtt + real.rttvar, 13.0);
            }
        }
    }

    #[test]
    fn windowed_minimum_agrees_with_the_true_one_of_half_the_window_or_better() {
        // Nichols' filter keeps three samples: never below the true minimum, and not above that of the newer half
        let mut rtt = RttEstimator::default();
        let mut samples: Vec<(Instant, u32)> = Vec::new();
        for second in 0..2_000 {
            let now = Instant::from_secs(second);
            let sample = 100 + (crate::rng::mix(second) % 1_000) as u32 + (second % 700) as u32;
            samples.push((now, sample));
            rtt.sample_min(sample, now);
            let least = |age: u64| {
                let from = now.saturating_sub(Duration::from_secs(age));
                samples.iter().filter(|(at, _)| *at >= from).map(|&(_, value)| value).min().expect("a sample")
            };
            assert!((least(300)..=least(150)).contains(&rtt.min_us()), "at {now}: {}", rtt.min_us());
        }
    }
}
