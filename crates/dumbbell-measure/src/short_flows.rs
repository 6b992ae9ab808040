//! Short flows: how long each took, one by one up to a limit, and their slow-down by class and size.

use crate::columns::{self, ShortFlowsRow, Slowdowns};
use crate::table::Table;
use dumbbell_core::histogram::Histogram;
use dumbbell_core::rng::Rng;
use dumbbell_core::units::{Duration, Instant, Rate};
use std::collections::BTreeMap;

/// A short flow that is over, or was not when its measured time ended.
#[derive(Clone, Copy, Debug)]
pub struct ShortFlow {
    /// Number in the run.
    pub number: u32,
    /// Class of traffic.
    pub class: u16,
    /// Payload, bytes.
    pub size: u64,
    /// When its SYN was sent, on its own clock.
    pub start: Instant,
    /// From its SYN until everything was acknowledged.
    pub completion: Option<Duration>,
    /// Propagation, both directions together.
    pub base_rtt: Duration,
}

impl ShortFlow {
    /// Completion over size/rate + base RTT: what the payload takes on an empty link of `rate`, in one round trip.
    fn slowdown(&self, rate: Rate) -> Option<f64> {
        let ideal = self.size as f64 * 8.0 / rate.bits() as f64 + self.base_rtt.as_secs_f64();
        Some(self.completion?.as_secs_f64() / ideal)
    }
}

/// A slow-down of 1 in the units of [`Histogram`]: 1 ms, so that its resolution of about 1 us is a thousandth.
const ONE: f64 = 1e6;

/// Flows of one class and a range of sizes.
#[derive(Clone, Debug, Default)]
pub struct FlowBin {
    /// How many began.
    pub started: u64,
    /// Slowdowns of the flows that finished, in units of `ONE`.
    pub slowdown: Histogram,
    /// Sum of the exact slowdowns.
    pub slowdown_sum: f64,
    /// Completion times of flows that finished.
    pub completion: Histogram,
}

/// A bin with its class and range of sizes.
pub struct FlowBinRow<'a> {
    /// Number of the class.
    pub class: u16,
    /// The range begins there, bytes.
    pub from: u64,
    /// End of the bin, exclusive.
    pub to: u64,
    /// Flows in the bin.
    pub bin: &'a FlowBin,
}

impl FlowBinRow<'_> {
    /// A figure of those that finished; NaN if there are none.
    pub fn of_finished(&self, of: impl Fn(&FlowBin) -> f64) -> f64 {
        if self.bin.slowdown.total() > 0 {
            of(self.bin)
        } else {
            f64::NAN
        }
    }

    /// A quantile of their slow-downs.
    pub fn slowdown(&self, q: f64) -> f64 {
        self.of_finished(|bin| bin.slowdown.quantile(q).0 as f64 / ONE)
    }

    /// A quantile of their completion times, s.
    pub fn completion(&self, q: f64) -> f64 {
        self.of_finished(|bin| bin.completion.quantile(q).as_secs_f64())
    }
}

/// All short flows of a run.
#[derive(Clone, Debug)]
pub struct ShortFlows {
    rate: Rate,
    /// Most flows in `kept`.
    limit: usize,
    kept: Vec<ShortFlow>,
    /// Flows in all.
    pub seen: u64,
    rng: Rng,
    bins: BTreeMap<(u16, u64), FlowBin>,
}

/// The range of sizes that `size` belongs to, 1 to 2, 2 to 5 and 5 to 10 times a power of ten: its lower end, bytes.
fn bin_of(size: u64) -> u64 {
    // a division takes longer than all of this
    let mut decade = 1_u64;
    while size >= decade.saturating_mul(10) {
        decade *= 10;
    }
    if size < 2 * decade {
        decade
    } else if size < decade.saturating_mul(5) {
        2 * decade
    } else {
        5 * decade
    }
}

/// The end of the range of sizes that begins at `from`.
fn bin_end(from: u64) -> u64 {
    let mut decade = 1;
    while from / decade >= 10 {
        decade *= 10;
    }
    match from / decade {
        2 => 5 * decade,
        first => 2 * first * decade,
    }
}

impl ShortFlows {
    /// No flows yet. Over a link of `rate`; `limit` of them are kept one by one, drawn from the streams of `seed` if there are more.
    pub fn new(rate: Rate, limit: usize, seed: u64) -> ShortFlows {
        let rng = Rng::stream(seed, "short flows kept", 0);
        ShortFlows { rate, limit, kept: Vec::new(), seen: 0, rng, bins: BTreeMap::new() }
    }

    /// Takes a flow into the statistics.
    pub fn add(&mut self, flow: ShortFlow) {
        self.seen += 1;
        let bin = self.bins.entry((flow.class, bin_of(flow.size))).or_default();
        bin.started += 1;
        if let (Some(completion), Some(slowdown)) = (flow.completion, flow.slowdown(self.rate)) {
            bin.completion.record(completion);
            bin.slowdown.record(Duration((slowdown * ONE) as u64));
            bin.slowdown_sum += slowdown;
        }
        // Vitter's algorithm R: each of n flows is kept with probability limit / n
        if self.kept.len() < self.limit {
            self.kept.push(flow);
        } else {
            let place = self.rng.draw_below(self.seen) as usize;
            if place < self.limit {
                self.kept[place] = flow;
            }
        }
    }

    /// How many are kept one by one.
    pub fn count_kept(&self) -> u64 {
        self.kept.len() as u64
    }

    /// One row per flow, in order of their numbers.
    pub fn flows_table(&mut self) -> Table {
        self.kept.sort_unstable_by_key(|flow| flow.number);
        let slowdown = |flow: &ShortFlow| flow.slowdown(self.rate).unwrap_or(f64::NAN);
        let rows = self.kept.iter().map(|flow| ShortFlowsRow { flow, slowdown: slowdown(flow) });
        columns::ShortFlows::table(&rows.collect::<Vec<_>>())
    }

    /// One row per class and range of sizes.
    pub fn sizes_table(&self) -> Table {
        let row = |(&(class, from), bin)| FlowBinRow { class, from, to: bin_end(from), bin };
        Slowdowns::table(&self.bins.iter().map(row).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(number: u32, size: u64, completion_ms: u64) -> ShortFlow {
        let completion = (completion_ms > 0).then(|| Duration::from_millis(completion_ms));
        ShortFlow { number, class: 0, size, start: Instant::ZERO, completion, base_rtt: Duration::from_millis(10) }
    }

    #[test]
    fn sizes_fall_into_ranges_of_1_2_5() {
        let ranges = [
            (1, 1, 2),
            (2, 2, 5),
            (4, 2, 5),
            (5, 5, 10),
            (9, 5, 10),
            (10, 10, 20),
            (1999, 1000, 2000),
            (1_000_000, 1_000_000, 2_000_000),
        ];
        for (size, from, to) in ranges {
            assert_eq!((bin_of(size), bin_end(from)), (from, to), "{size}");
        }
    }

    #[test]
    fn slow_down_is_against_an_empty_link() {
        // 100 kB at 8 Mbit/s: 100 ms, and 10 ms of propagation; 220 ms are twice that, 330 ms three times
        let mut flows = ShortFlows::new(Rate::from_mbit(8), 10, 1);
        flows.add(flow(0, 100_000, 220));
        flows.add(flow(1, 100_000, 330));
        flows.add(flow(2, 100_000, 0));
        let rows = flows.flows_table();
        let found = rows.real("slowdown").expect("a column");
        assert!((found[0] - 2.0).abs() < 1e-12 && (found[1] - 3.0).abs() < 1e-12 && found[2].is_nan(), "{found:?}");
        let sizes = flows.sizes_table();
        let of = |name: &str| sizes.real(name).expect("a column")[0];
        assert!((of("slowdown_mean") - 2.5).abs() < 1e-12 && (of("slowdown_p99") / 3.0 - 1.0).abs() < 0.016);
        assert_eq!((sizes.int("flows"), sizes.int("finished")), (Some(&[3][..]), Some(&[2][..])));
    }

    #[test]
    fn of_too_many_flows_an_even_sample_is_kept_and_all_are_counted() {
        let mut flows = ShortFlows::new(Rate::from_mbit(8), 100, 1);
        (0..10_000).for_each(|number| flows.add(flow(number, 1000, 20)));
        assert_eq!((flows.seen, flows.count_kept()), (10_000, 100));
        let rows = flows.flows_table();
        let numbers = rows.int("flow").expect("a column");
        let mean = numbers.iter().sum::<u64>() as f64 / 100.0;
        // mean 5000, standard deviation 10000 / sqrt(12) / 10 = 289
        assert!((mean - 5000.0).abs() < 900.0, "{mean}");
        assert_eq!(flows.sizes_table().int("flows"), Some(&[10_000][..]));
    }
}
