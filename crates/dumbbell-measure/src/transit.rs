//! One-way delay of UDP's packets from sender to receiver, and its variation.

use crate::statistics::ms;
use dumbbell_core::histogram::CompactHistogram;
use dumbbell_core::units::Duration;

/// One-way delays of packets, of one flow or of several.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    times: CompactHistogram<u64>,
    packets: u64,
    sum_ns: u128,
    /// Sum of what the jitter was after each packet that had one before it in its flow, and how many such packets there were.
    jitter_sum_ns: f64,
    jitters: u64,
}

impl Delays {
    /// Takes in the delays of other packets.
    pub fn merge(&mut self, other: &Delays) {
        self.times.merge(&other.times);
        self.packets += other.packets;
        self.sum_ns += other.sum_ns;
        self.jitter_sum_ns += other.jitter_sum_ns;
        self.jitters += other.jitters;
    }

    /// Median delay, ms; NaN without packets.
    pub fn median_ms(&self) -> f64 {
        self.times.quantiles([0.5]).map_or(f64::NAN, |[median]| ms(median))
    }

    /// Mean, smallest, P95, P99 and largest delay and the mean over the packets of their flows' jitter, ms.
    /// NaN without packets, and without one that had another before it.
    pub fn figures_ms(&self) -> [f64; 6] {
        let (Some((least, most)), Some([p95, p99])) = (self.times.range(), self.times.quantiles([0.95, 0.99])) else {
            return [f64::NAN; 6];
        };
        // whole nanoseconds apart, so that the mean of equal delays is exactly one of them
        let packets = u128::from(self.packets);
        let mean = (self.sum_ns / packets) as f64 + (self.sum_ns % packets) as f64 / packets as f64;
        // 0 / 0 is NaN
        let jitter = self.jitter_sum_ns / self.jitters as f64;
        [mean / 1e6, ms(least), ms(p95), ms(p99), ms(most), jitter / 1e6]
    }
}

/// Packets of UDP that were lost, and all whose fate is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpFate {
    /// Lost on the way; of packets that are answered, also those whose answer was.
    pub lost: u64,
    /// These and all that arrived, or whose answer did.
    pub known: u64,
}

impl UdpFate {
    /// Adds those of other packets.
    pub fn merge(&mut self, other: UdpFate) {
        self.lost += other.lost;
        self.known += other.known;
    }

    /// The share that was lost; NaN if the fate of no packet is known.
    pub fn share(self) -> f64 {
        self.lost as f64 / self.known as f64
    }
}

/// How long an answer may take before it counts as lost: three times the largest RTT so far, or, without any, 1 s. irtt waits as long for the last
/// answers (its default `-w 3x4s`); 1 s is the first retransmission timeout of RFC 6298, section 2.
pub fn patience(largest_rtt: Option<Duration>) -> Duration {
    largest_rtt.map_or(Duration::from_secs(1), |rtt| Duration(rtt.0.saturating_mul(3)))
}

/// The packets of one flow as its receiver sees them.
#[derive(Clone, Debug, Default)]
pub struct Transit {
    /// Delays of the packets that count.
    pub delays: Delays,
    /// Delay of the last packet that arrived.
    last: Option<Duration>,
    /// RFC 3550 section 6.4.1.
    jitter_ns: f64,
}

impl Transit {
    /// A packet arrives after `delay`.
    #[inline]
    pub fn record_delay(&mut self, delay: Duration) {
        let delays = &mut self.delays;
        delays.times.record(delay);
        delays.packets += 1;
        delays.sum_ns += u128::from(delay.0);
        if let Some(last) = self.last.replace(delay) {
            // D(i-1, i) = (R_i - R_i-1) - (S_i - S_i-1), the difference of two delays; J += (|D| - J) / 16
            self.jitter_ns += (delay.0.abs_diff(last.0) as f64 - self.jitter_ns) / 16.0;
            delays.jitter_sum_ns += self.jitter_ns;
            delays.jitters += 1;
        }
    }

    /// The packets so far do not count. The receiver's estimate of the jitter goes on.
    pub fn forget(&mut self) {
        self.delays = Delays::default();
    }

    /// The jitter after the last packet, ms; NaN if no packet that counts had one before it.
    pub fn jitter_ms(&self) -> f64 {
        if self.delays.jitters > 0 {
            self.jitter_ns / 1e6
        } else {
            f64::NAN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn transit(delays_us: &[u64]) -> Transit {
        let mut transit = Transit::default();
        delays_us.iter().for_each(|&us| transit.record_delay(Duration(us * 1000)));
        transit
    }

    #[test]
    fn jitter_is_that_reckoned_by_hand() {
        // delays of 10, 26, 10, 10 ms: |D| is 16, 16, 0. J = 16/16 = 1; 1 + 15/16 = 1.9375; 1.9375 * 15/16 = 1.81640625
        let transit = transit(&[10_000, 26_000, 10_000, 10_000]);
        assert_eq!(transit.jitter_ms(), 1.816_406_25);
        let [mean, least, .., most, jitter] = transit.delays.figures_ms();
        assert_eq!([mean, least, most, jitter], [14.0, 10.0, 26.0, (1.0 + 1.9375 + 1.816_406_25) / 3.0]);
    }

    #[test]
    fn equal_delays_have_no_jitter_and_exact_figures() {
        let transit = transit(&[1211; 7]);
        assert_eq!(transit.delays.figures_ms(), [1.211, 1.211, 1.211, 1.211, 1.211, 0.0]);
        assert_eq!(transit.jitter_ms(), 0.0);
    }

    #[test]
    fn what_is_not_there_has_no_value() {
        let none = Transit::default();
        assert!(none.delays.figures_ms().iter().all(|value| value.is_nan()) && none.jitter_ms().is_nan());
        let one = transit(&[5]);
        let [delays @ .., jitter] = one.delays.figures_ms();
        assert_eq!(delays, [0.005; 5]);
        assert!(one.jitter_ms().is_nan() && jitter.is_nan());
    }

    #[test]
    fn what_is_forgotten_does_not_count_and_the_jitter_goes_on() {
        let mut transit = transit(&[10_000, 26_000]);
        transit.forget();
        assert!(transit.jitter_ms().is_nan() && transit.delays.figures_ms()[0].is_nan());
        transit.record_delay(Duration::from_millis(10));
        assert_eq!(transit.delays.figures_ms(), [10.0, 10.0, 10.0, 10.0, 10.0, 1.9375]);
        assert_eq!(transit.jitter_ms(), 1.9375);
    }

    proptest! {
        #[test]
        fn figures_are_in_order_and_those_of_all_flows_together(
            flows in prop::collection::vec(prop::collection::vec(0..1_u64 << 47, 0..60), 1..5)
        ) {
            let mut all = Delays::default();
            for delays in &flows {
                let mut transit = Transit::default();
                delays.iter().for_each(|&delay| transit.record_delay(Duration(delay)));
                if delays.len() > 1 {
                    // a mean of earlier |D|: never above the largest
                    let most = delays.windows(2).map(|two| two[0].abs_diff(two[1])).max().unwrap_or(0) as f64 / 1e6;
                    prop_assert!((0.0..=most).contains(&transit.jitter_ms()), "{} {most}", transit.jitter_ms());
                    prop_assert!((0.0..=most).contains(&transit.delays.figures_ms()[5]));
                } else {
                    prop_assert!(transit.jitter_ms().is_nan());
                }
                all.merge(&transit.delays);
            }
            let mut sorted: Vec<u64> = flows.concat();
            sorted.sort_unstable();
            let [mean, least, p95, p99, most, _] = all.figures_ms();
            let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else {
                prop_assert!(mean.is_nan() && least.is_nan() && most.is_nan());
                return Ok(());
            };
            prop_assert_eq!((least, most), (ms(Duration(first)), ms(Duration(last))));
            prop_assert!(least <= mean && mean <= most && least <= p95 && p95 <= p99 && p99 <= most);
            let exact_mean = sorted.iter().map(|&delay| delay as f64).sum::<f64>() / sorted.len() as f64 / 1e6;
            prop_assert!((mean / exact_mean - 1.0).abs() < 1e-9 || exact_mean == 0.0);
            for (share, found) in [(0.95, p95), (0.99, p99)] {
                let rank = ((share * sorted.len() as f64).ceil() as usize).max(1) - 1;
                let exact = sorted[rank] as f64;
                // half a bin; what is longer than 2^46 ns is in the last one
                prop_assert!((found * 1e6 - exact).abs() <= 512.0_f64.max(exact / 128.0) || exact >= (1_u64 << 46) as f64);
            }
        }
    }
}
