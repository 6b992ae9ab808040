//! Log-linear histograms of times, after HdrHistogram: 128 buckets of 1.024 us, then 64 for every doubling. A quantile is exact to
//! 1/64.
//!
//! Both kinds hold only the buckets between the smallest and the largest one seen, so that memory follows the spread of the values.

use crate::hint::unlikely;
use crate::prefetch::prefetch;
use crate::units::Duration;

/// Sub-buckets per octave: 2^6, so that a quantile is exact to 1/64.
const SUB_BITS: u32 = 6;
/// Bits of a nanosecond count below the histogram's resolution: 1.024 us, the clock of Linux's CoDel.
const UNIT_BITS: u32 = 10;
/// Buckets in every doubling of a value: the resolution of quantiles.
pub const BINS: u32 = 1 << SUB_BITS;
/// Width of the narrowest bucket.
pub const LEAST_BIN: Duration = Duration(1 << UNIT_BITS);
/// Buckets for values below 2^46 ns (19.5 h); what is longer falls into the last one.
const BUCKETS: usize = (46 - UNIT_BITS as usize - SUB_BITS as usize + 1) << SUB_BITS;
/// Buckets of a range that holds one value: an octave. No range is smaller.
const FIRST_RANGE: usize = 1 << SUB_BITS;

/// The bucket of `value`. Whatever is not below [`BUCKETS`] means the last one: [`Buckets::grow`] sees to that.
#[inline]
fn bucket(value: Duration) -> usize {
    // Exponent and first bits of the mantissa of a real number are number and part of its octave, for fewer instructions than shifts
    // take. What the conversion rounds, from 2^53 on, is in the last bucket anyhow.
    const BEFORE_FIRST_OCTAVE: usize = (f64::MAX_EXP - 1) as usize + (UNIT_BITS + SUB_BITS) as usize - 1;
    if unlikely(value.0 >> (UNIT_BITS + SUB_BITS) == 0) {
        return (value.0 >> UNIT_BITS) as usize;
    }
    let bits = (value.0 as i64 as f64).to_bits() >> (f64::MANTISSA_DIGITS - 1 - SUB_BITS);
    bits as usize - (BEFORE_FIRST_OCTAVE << SUB_BITS)
}

/// Smallest value of bucket `index`.
fn lower(index: usize) -> Duration {
    let octave = (index >> SUB_BITS).saturating_sub(1);
    Duration(((index - (octave << SUB_BITS)) as u64) << octave << UNIT_BITS)
}

/// Middle of bucket `index`.
fn middle(index: usize) -> Duration {
    Duration((lower(index).0 + lower(index + 1).0) / 2)
}

/// Which of `total` values, counted from 1 in ascending order, is the `q`-quantile.
fn rank(q: f64, total: u64) -> u64 {
    ((q * total as f64).ceil() as u64).clamp(1, total.max(1))
}

/// A count of one bucket.
pub trait Count: Copy + Default {
    /// Adds `more`.
    fn add(&mut self, more: u64);
    /// The count.
    fn get(self) -> u64;
}

impl Count for u64 {
    #[inline(always)]
    fn add(&mut self, more: u64) {
        *self += more;
    }

    #[inline(always)]
    fn get(self) -> u64 {
        self
    }
}

/// Stays at its largest value, 2^32 - 1.
impl Count for u32 {
    #[inline(always)]
    fn add(&mut self, more: u64) {
        *self = self.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
    }

    #[inline(always)]
    fn get(self) -> u64 {
        u64::from(self)
    }
}

/// Counts of a range of buckets, which grows as needed.
#[derive(Clone, Debug, Default)]
struct Buckets<C> {
    counts: Box<[C]>,
    /// The bucket that `counts` begins with.
    first: u32,
    /// Where in `counts` the last value is, as long as the range has not grown since: a hint.
    last: u32,
}

impl<C: Count> Buckets<C> {
    /// Counts one value in bucket `index`.
    #[inline]
    fn increment(&mut self, index: usize) {
        let place = index.wrapping_sub(self.first as usize);
        match self.counts.get_mut(place) {
            Some(count) => {
                self.last = place as u32;
                count.add(1);
            }
            None => self.grow(index).add(1),
        }
    }

    /// Takes bucket `index` into the range, which becomes at least twice as long: a spread of n buckets costs log2(n) allocations.
    /// Returns its count.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, index: usize) -> &mut C {
        let index = index.min(BUCKETS - 1);
        let (first, len) = (self.first as usize, self.counts.len());
        if (first..first + len).contains(&index) {
            return &mut self.counts[index - first];
        }
        let double = FIRST_RANGE.max(2 * len);
        let range = if len == 0 {
            index..index + double
        } else if index < first {
            index.min((first + len).saturating_sub(double))..first + len
        } else {
            first..(first + double).max(index + 1)
        };
        let range = range.start..range.end.min(BUCKETS);
        let mut counts = vec![C::default(); range.len()];
        if len > 0 {
            counts[first - range.start..][..len].copy_from_slice(&self.counts);
        }
        (self.counts, self.first) = (counts.into_boxed_slice(), range.start as u32);
        &mut self.counts[index - range.start]
    }

    /// Asks for the counts about the last value.
    #[inline]
    fn prefetch(&self) {
        if let Some(count) = self.counts.get(self.last as usize) {
            prefetch(count);
        }
    }

    /// The buckets that are not empty, with their counts, ascending.
    fn iter(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let counts = self.counts.iter().map(|count| count.get());
        (self.first as usize..).zip(counts).filter(|&(_, count)| count > 0)
    }

    /// Counts everything that `other` has counted.
    fn merge<D: Count>(&mut self, other: &Buckets<D>) {
        other.iter().for_each(|(index, count)| self.grow(index).add(count));
    }

    /// The bucket of value `rank`, counted from 1 in ascending order.
    fn of_rank(&self, rank: u64) -> Option<usize> {
        let mut seen = 0;
        self.iter().find_map(|(index, count)| {
            seen += count;
            (seen >= rank).then_some(index)
        })
    }
}

/// A histogram with exact mean and maximum.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Buckets<u64>,
    total: u64,
    sum: u128,
    max: Duration,
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: Duration) {
        self.counts.increment(bucket(value));
        self.total += 1;
        self.sum += u128::from(value.0);
        self.max = self.max.max(value);
    }

    /// Counts everything that `other` has counted.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.merge(&other.counts);
        self.total += other.total;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Number of values.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Exact mean, ns; 0 if empty.
    pub fn mean(&self) -> f64 {
        if self.total == 0 {
            0.0
        } else {
            self.sum as f64 / self.total as f64
        }
    }

    /// Exact largest value.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The value below or at which a share `q` (0..=1) of all values lies, as the middle of its bucket.
    pub fn quantile(&self, q: f64) -> Duration {
        self.counts.of_rank(rank(q, self.total)).map_or(Duration::ZERO, |index| middle(index).min(self.max))
    }

    /// The buckets that are not empty: (smallest value, count), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.counts.iter().map(|(index, count)| (lower(index), count))
    }
}

/// A histogram that is small enough for each of thousands of flows to have one: 40 bytes and 4 for each bucket of its range. Values
/// between a base RTT and three times that take 512 bytes. With counts of 64 bits it sums those of a class.
///
/// A bucket of 32 bits counts no further than 2^32 - 1.
#[derive(Clone, Debug)]
pub struct CompactHistogram<C = u32> {
    counts: Buckets<C>,
    min: Duration,
    max: Duration,
}

impl<C: Count> Default for CompactHistogram<C> {
    fn default() -> CompactHistogram<C> {
        CompactHistogram { counts: Buckets::default(), min: Duration::MAX, max: Duration::ZERO }
    }
}

impl<C: Count> CompactHistogram<C> {
    /// Counts one value.
    #[inline(always)]
    pub fn record(&mut self, value: Duration) {
        // seldom, and two jumps cost less than two minima
        if value < self.min || value > self.max {
            self.widen(value, value);
        }
        self.counts.increment(bucket(value));
    }

    /// A value will come soon, mostly close to the last one: asks for the counts there. A cache line has those of 16 buckets, from one value
    /// to another one 13 to 25 % above it.
    #[inline]
    pub fn prefetch(&self) {
        self.counts.prefetch();
    }

    #[cold]
    #[inline(never)]
    fn widen(&mut self, min: Duration, max: Duration) {
        self.min = self.min.min(min);
        self.max = self.max.max(max);
    }

    /// Counts everything that `other` has counted.
    pub fn merge<D: Count>(&mut self, other: &CompactHistogram<D>) {
        self.counts.merge(&other.counts);
        self.widen(other.min, other.max);
    }

    /// Number of values.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// Exact smallest and largest value. `None` without any.
    pub fn range(&self) -> Option<(Duration, Duration)> {
        (self.min <= self.max).then_some((self.min, self.max))
    }

    /// The values below or at which these shares (0..=1) of all values lie: the middles of their buckets, but not outside of what was
    /// recorded. `None` without any.
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> Option<[Duration; N]> {
        let total = self.total();
        let value = |q| middle(self.counts.of_rank(rank(q, total)).unwrap_or(0)).clamp(self.min, self.max);
        (total > 0).then(|| shares.map(value))
    }

    /// The buckets that are not empty: (smallest value, count), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.counts.iter().map(|(index, count)| (lower(index), count))
    }

    /// Bytes of memory in addition to the struct itself.
    pub fn heap_bytes(&self) -> usize {
        size_of_val(&*self.counts.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::mix;

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn compact(values: impl IntoIterator<Item = Duration>) -> CompactHistogram {
        let mut histogram = CompactHistogram::default();
        values.into_iter().for_each(|value| histogram.record(value));
        histogram
    }

    #[test]
    fn buckets_are_those_of_shifts() {
        // HdrHistogram's integer form
        let shifted = |value: Duration| {
            let units = value.0 >> UNIT_BITS;
            let octave = (63 - (units | 1).leading_zeros()).saturating_sub(SUB_BITS);
            (((octave as usize) << SUB_BITS) + (units >> octave) as usize).min(BUCKETS - 1)
        };
        for seed in 0..100_000_u64 {
            // all magnitudes, and the ends of their buckets
            let random = mix(seed) >> (seed % 64);
            let edge = lower((random % BUCKETS as u64) as usize).0;
            for value in [random, !random, edge, edge.saturating_sub(1), edge + 1, 1 << (seed % 64), (1 << (seed % 64)) - 1] {
                assert_eq!(bucket(Duration(value)).min(BUCKETS - 1), shifted(Duration(value)), "{value}");
            }
        }
    }

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_are_narrow() {
        for shift in 0..46 {
            for low in [0_u64, 1, 77, 1000] {
                let value = Duration((1 << shift) + low);
                let index = bucket(value);
                let (from, to) = (lower(index), lower(index + 1));
                assert!(from <= value && value < to, "{value:?} in {from:?}..{to:?}");
                assert!((to.0 - from.0) as f64 <= 1024.0_f64.max(from.0 as f64 / 64.0));
            }
        }
    }

    #[test]
    fn quantiles_of_one_to_a_hundred_milliseconds() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|ms| histogram.record(Duration::from_millis(ms)));
        assert_eq!(histogram.mean(), 50.5e6);
        for (q, ms) in [(0.01, 1.0), (0.5, 50.0), (0.99, 99.0)] {
            let got = histogram.quantile(q).0 as f64 / 1e6;
            assert!((got / ms - 1.0).abs() < 1.0 / 64.0, "p{q}: {got}");
        }
        assert_eq!(histogram.quantile(1.0), Duration::from_millis(100).min(histogram.max()));
        assert_eq!(histogram.buckets().map(|(_, n)| n).sum::<u64>(), 100);
    }

    #[test]
    fn merged_histograms_are_one_of_all_values() {
        let (mut all, mut parts) = (Histogram::default(), [Histogram::default(), Histogram::default()]);
        for ms in 1..=100 {
            all.record(Duration::from_millis(ms));
            parts[ms as usize % 2].record(Duration::from_millis(ms));
        }
        let [mut merged, odd] = parts;
        merged.merge(&odd);
        assert_eq!((merged.total(), merged.mean(), merged.max()), (all.total(), all.mean(), all.max()));
        assert!(merged.buckets().eq(all.buckets()));
    }

    #[test]
    fn longest_values_do_not_overflow() {
        let mut histogram = Histogram::default();
        histogram.record(Duration(u64::MAX - 1));
        assert_eq!(histogram.total(), 1);
        assert!(histogram.quantile(0.5) > Duration::ZERO);
    }

    #[test]
    fn quantiles_are_the_middles_of_the_buckets_that_hold_them() {
        // 20 ms are 19531 units of 1.024 us. 2^14 <= 19531 < 2^15: buckets of 2^8 units, of which it is in number 76: 76 << 18 = 19.923 ms
        // to 77 << 18 = 20.185 ms, middle 20.054 ms. So 40 ms: 76 << 19 to 77 << 19; 60 ms: 114 << 19 to 115 << 19; 200 ms: 95 << 21 to
        // 96 << 21, whose middle 200.278 ms is beyond the largest value.
        let values = [(50, 20), (45, 40), (4, 60), (1, 200)].map(|(count, value)| std::iter::repeat_n(ms(value), count));
        let histogram = compact(values.into_iter().flatten());
        assert_eq!(histogram.total(), 100);
        // values number 50, 51, 95, 96, 99 and 100
        let found = histogram.quantiles([0.5, 0.501, 0.95, 0.951, 0.99, 1.0]);
        let expected = [20_054_016, 40_108_032, 40_108_032, 60_030_976, 60_030_976, 200_000_000];
        assert_eq!(found, Some(expected.map(Duration)));
        assert_eq!(CompactHistogram::<u32>::default().quantiles([0.5]), None);
    }

    #[test]
    fn a_constant_value_is_exact() {
        for nanos in [0, 1, 20_000_000, 20_121_000, u64::MAX - 1] {
            let three = compact([Duration(nanos); 3]);
            assert_eq!(three.quantiles([0.0, 0.5, 1.0]), Some([Duration(nanos); 3]));
            assert_eq!(three.range(), Some((Duration(nanos), Duration(nanos))));
        }
        assert_eq!(compact([]).range(), None);
        assert_eq!(compact([ms(3), ms(1), ms(2)]).range(), Some((ms(1), ms(3))));
    }

    #[test]
    fn the_range_grows_to_both_sides_and_loses_nothing() {
        let range = |histogram: &CompactHistogram| {
            let counts = &histogram.counts;
            let first = counts.first as usize;
            first..first + counts.counts.len()
        };
        // 40 ms is in bucket 9 * 64 + 76 = 652, 39 ms in 650, 10 ms in 7 * 64 + 76 = 524, 60 ms in 690, 100 ms in 735
        let mut histogram = compact([ms(40)]);
        assert_eq!(range(&histogram), 652..716);
        histogram.record(ms(39)); // twice 64 buckets
        assert_eq!(range(&histogram), 588..716);
        histogram.record(ms(10)); // twice 128 reach beyond
        assert_eq!(range(&histogram), 460..716);
        histogram.record(ms(60));
        assert_eq!(range(&histogram), 460..716);
        histogram.record(ms(100)); // twice 256
        assert_eq!(range(&histogram), 460..972);
        let found: Vec<(usize, u64)> = histogram.counts.iter().collect();
        assert_eq!(found, [(524, 1), (650, 1), (652, 1), (690, 1), (735, 1)]);
        // a leap of more than twice the range: 640 ms are in bucket 13 * 64 + 76 = 908
        assert_eq!(range(&compact([ms(40), ms(640)])), 652..909);
        assert_eq!(range(&compact([ms(640), ms(40)])), 652..972);
        // as far as there are buckets
        let mut whole = compact([ms(1), Duration::ZERO]);
        (0..10).for_each(|_| whole.record(Duration(u64::MAX - 1)));
        assert_eq!(range(&whole), 0..BUCKETS);
        assert_eq!(whole.total(), 12);
    }

    #[test]
    fn values_up_to_three_times_the_smallest_take_512_bytes() {
        let histogram = compact((20..=60).map(ms));
        assert_eq!((histogram.heap_bytes(), size_of::<CompactHistogram>()), (512, 40));
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        const SHARES: [f64; 6] = [0.0, 0.01, 0.5, 0.95, 0.99, 1.0];
        for seed in 0..100 {
            // from 1 us to 10 s, spread evenly over the octaves or crowded into one
            let octaves = 1 + seed % 23;
            let count = 1 + mix(seed) % 2_000;
            let draw = |n: u64| {
                let random = mix(mix(seed) ^ n);
                Duration((1000 << (random % octaves)) + (random >> 32) % 1_000_000)
            };
            let mut sorted: Vec<Duration> = (0..count).map(draw).collect();
            let histogram = compact(sorted.iter().copied());
            sorted.sort_unstable();
            let found = histogram.quantiles(SHARES).expect("values");
            for (q, value) in SHARES.into_iter().zip(found) {
                let exact = sorted[((q * count as f64).ceil() as usize).max(1) - 1];
                // half a bucket
                let most = 512.0_f64.max(exact.0 as f64 / 128.0);
                assert!((value.0 as f64 - exact.0 as f64).abs() <= most, "seed {seed}, p{q}: {value:?}, exactly {exact:?}");
            }
        }
    }

    #[test]
    fn merged_flows_are_one_of_all_values() {
        let parts = [compact((1..=10).map(ms)), compact((5..=80).map(ms)), CompactHistogram::default()];
        let mut class = CompactHistogram::<u64>::default();
        parts.iter().for_each(|part| class.merge(part));
        let all = compact((1..=10).chain(5..=80).map(ms));
        assert_eq!(class.quantiles([0.0, 0.3, 0.5, 0.99, 1.0]), all.quantiles([0.0, 0.3, 0.5, 0.99, 1.0]));
        assert!(class.buckets().eq(all.buckets()));
        // 10 ms are in bucket 524: 76 << 17 ns
        assert_eq!(class.buckets().find(|&(from, _)| from.0 == 76 << 17), Some((Duration(9_961_472), 2)));
    }

    #[test]
    fn a_full_count_of_a_flow_stays_and_a_class_counts_on() {
        let mut flow = compact([ms(1), ms(2)]);
        flow.counts.counts[0] = u32::MAX - 1;
        (0..3).for_each(|_| flow.record(ms(1)));
        flow.record(ms(1) + Duration(1));
        flow.counts.counts[64] = 0;
        assert_eq!(flow.total(), u64::from(u32::MAX));
        let mut class = CompactHistogram::<u64>::default();
        (0..2).for_each(|_| class.merge(&flow));
        assert_eq!(class.total(), 2 * u64::from(u32::MAX));
        let mut sum = flow.clone();
        sum.merge(&class);
        assert_eq!(sum.total(), u64::from(u32::MAX));
    }
}
