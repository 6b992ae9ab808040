//! What a run counts: per-queue and per-flow counters and the sojourn histogram.

use crate::packet::{Ecn, Packet};
use crate::units::Time;

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The queue was full.
    Overflow,
    /// The AQM decided to.
    Aqm,
    /// Random loss of the path, outside the queue.
    Loss,
}

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Congestion experienced.
    Ce,
    /// Some congestion experienced: ECT(0) became ECT(1).
    Sce,
}

/// Per-flow counters at the bottleneck, packets. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounters {
    /// Offered to the queue.
    pub arrived: u64,
    /// Left the queue towards the receiver.
    pub departed: u64,
    /// Time that those spent in the queue, ns.
    pub sojourn_ns: u64,
    /// Dropped by the queue because it was full.
    pub dropped_overflow: u64,
    /// Dropped by the AQM.
    pub dropped_aqm: u64,
    /// Packets that the queue turned into CE.
    pub ce: u64,
    /// Packets that the queue turned into SCE.
    pub sce: u64,
    /// Packets that were dropped as CE.
    pub ce_dropped: u64,
    /// Packets that the queue turned into SCE and dropped afterwards.
    ///
    /// Told by the codepoint: exact as long as a flow sends one of ECT(0) and ECT(1) and not both, as every transport does.
    pub sce_dropped: u64,
}

/// Counters of the queue, packets. They only grow.
#[derive(Clone, Debug, Default)]
pub struct QueueLog {
    /// Per flow, indexed as [`Packet::flow`].
    pub flows: Vec<FlowCounters>,
    /// CE marks, including those set on packets that were CE already, as Linux counts them.
    pub ce_marks: u64,
    /// SCE marks.
    pub sce_marks: u64,
    /// Drops because the queue was full.
    pub drops_overflow: u64,
    /// Drops by the AQM.
    pub drops_aqm: u64,
}

impl QueueLog {
    /// Counters for `flows` flows.
    pub fn new(flows: usize) -> QueueLog {
        QueueLog { flows: vec![FlowCounters::default(); flows], ..QueueLog::default() }
    }

    /// The queue dropped `packet`.
    pub fn dropped(&mut self, packet: &Packet, reason: DropReason) {
        let flow = &mut self.flows[packet.flow as usize];
        flow.ce_dropped += u64::from(packet.ecn == Ecn::Ce);
        // Only what was ECT(0) becomes SCE: a flow that sends ECT(1) itself has no SCE marks, one that has them sends ECT(0).
        flow.sce_dropped += u64::from(packet.ecn == Ecn::Ect1 && flow.sce > 0);
        match reason {
            DropReason::Overflow => {
                flow.dropped_overflow += 1;
                self.drops_overflow += 1;
            }
            DropReason::Aqm | DropReason::Loss => {
                flow.dropped_aqm += 1;
                self.drops_aqm += 1;
            }
        }
    }

    /// Sets CE on `packet` if it is ECN-capable, and counts the mark. Returns whether it is CE now.
    #[inline]
    pub fn set_ce(&mut self, packet: &mut Packet) -> bool {
        let before = packet.ecn;
        let marked = packet.set_ce();
        if marked {
            self.marked(packet, before, Mark::Ce);
        }
        marked
    }

    /// The queue marked `packet`; `before` is the codepoint that it had.
    ///
    /// What a queue turned into SCE does not become CE in the same queue: one that sets SCE sets CE first, judges a packet once
    /// and when it leaves. So SCE marks are conserved: set = received + dropped + queued.
    pub fn marked(&mut self, packet: &Packet, before: Ecn, mark: Mark) {
        let flow = &mut self.flows[packet.flow as usize];
        match mark {
            Mark::Ce => {
                self.ce_marks += 1;
                flow.ce += u64::from(before != Ecn::Ce);
            }
            Mark::Sce => {
                self.sce_marks += 1;
                flow.sce += 1;
            }
        }
    }
}

/// Sub-buckets per octave: 2^6, so that a quantile is exact to 1/64.
const SUB_BITS: u32 = 6;
/// Bits of a nanosecond count below the histogram's resolution: 1.024 us, the clock of Linux's CoDel.
const UNIT_BITS: u32 = 10;
/// Buckets for values below 2^46 ns (19.5 h); what is longer falls into the last one.
const BUCKETS: usize = (46 - UNIT_BITS as usize - SUB_BITS as usize + 1) << SUB_BITS;

/// A log-linear histogram of times, after HdrHistogram: 128 buckets of 1.024 us, then 64 for every doubling.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    max: Time,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], total: 0, sum: 0, max: Time::ZERO }
    }
}

impl Histogram {
    #[inline]
    fn bucket(value: Time) -> usize {
        let units = value.0 >> UNIT_BITS;
        let octave = (63 - (units | 1).leading_zeros()).saturating_sub(SUB_BITS);
        (((octave as usize) << SUB_BITS) + (units >> octave) as usize).min(BUCKETS - 1)
    }

    /// Smallest value of bucket `index`.
    fn lower(index: usize) -> Time {
        let octave = (index >> SUB_BITS).saturating_sub(1);
        Time(((index - (octave << SUB_BITS)) as u64) << octave << UNIT_BITS)
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: Time) {
        self.counts[Self::bucket(value)] += 1;
        self.total += 1;
        self.sum += u128::from(value.0);
        self.max = self.max.max(value);
    }

    /// Counts everything that `other` has counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
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
    pub fn max(&self) -> Time {
        self.max
    }

    /// The value below or at which a share `q` (0..=1) of all values lies, as the middle of its bucket.
    pub fn quantile(&self, q: f64) -> Time {
        let rank = ((q * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += count;
            if count > 0 && seen >= rank {
                let (low, high) = (Self::lower(index), Self::lower(index + 1));
                return Time((low.0 + high.0) / 2).min(self.max);
            }
        }
        Time::ZERO
    }

    /// The buckets that are not empty: (smallest value, count), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (Time, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, &count)| count > 0).map(|(index, &count)| (Self::lower(index), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::testing::packet;

    #[test]
    fn only_what_the_queue_marked_is_counted_as_dropped_sce() {
        let mut log = QueueLog::new(2);
        let of_flow = |flow, ecn| Packet { flow, ..packet(0, ecn) };
        // Flow 0 sends ECT(0) and is marked once; flow 1 sends ECT(1).
        log.marked(&of_flow(0, Ecn::Ect1), Ecn::Ect0, Mark::Sce);
        for (flow, ecn) in [(0, Ecn::Ect0), (0, Ecn::Ect1), (0, Ecn::Ce), (0, Ecn::NotEct), (1, Ecn::Ect1)] {
            log.dropped(&of_flow(flow, ecn), DropReason::Aqm);
        }
        assert_eq!((log.flows[0].sce, log.flows[0].sce_dropped, log.flows[0].ce_dropped), (1, 1, 1));
        assert_eq!((log.flows[1].sce, log.flows[1].sce_dropped), (0, 0));
    }

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_are_narrow() {
        for shift in 0..46 {
            for low in [0_u64, 1, 77, 1000] {
                let value = Time((1 << shift) + low);
                let index = Histogram::bucket(value);
                let (lower, upper) = (Histogram::lower(index), Histogram::lower(index + 1));
                assert!(lower <= value && value < upper, "{value:?} in {lower:?}..{upper:?}");
                assert!((upper.0 - lower.0) as f64 <= 1024.0_f64.max(lower.0 as f64 / 64.0));
            }
        }
    }

    #[test]
    fn quantiles_of_one_to_a_hundred_milliseconds() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|ms| histogram.record(Time::from_millis(ms)));
        assert_eq!(histogram.mean(), 50.5e6);
        for (q, ms) in [(0.01, 1.0), (0.5, 50.0), (0.99, 99.0)] {
            let got = histogram.quantile(q).0 as f64 / 1e6;
            assert!((got / ms - 1.0).abs() < 1.0 / 64.0, "p{q}: {got}");
        }
        assert_eq!(histogram.quantile(1.0), Time::from_millis(100).min(histogram.max()));
        assert_eq!(histogram.buckets().map(|(_, n)| n).sum::<u64>(), 100);
    }

    #[test]
    fn merged_histograms_are_one_of_all_values() {
        let (mut all, mut parts) = (Histogram::default(), [Histogram::default(), Histogram::default()]);
        for ms in 1..=100 {
            all.record(Time::from_millis(ms));
            parts[ms as usize % 2].record(Time::from_millis(ms));
        }
        let [mut merged, odd] = parts;
        merged.merge(&odd);
        assert_eq!((merged.total(), merged.mean(), merged.max()), (all.total(), all.mean(), all.max()));
        assert!(merged.buckets().eq(all.buckets()));
    }

    #[test]
    fn longest_values_do_not_overflow() {
        let mut histogram = Histogram::default();
        histogram.record(Time(u64::MAX - 1));
        assert_eq!(histogram.total(), 1);
        assert!(histogram.quantile(0.5) > Time::ZERO);
    }
}
