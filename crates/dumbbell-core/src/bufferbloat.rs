//! Latency under load: the increase of the RTT over that of the idle path, and the bufferbloat grade of it.
//!
//! The grades are those of DSLReports' speed test (dslreports.com/faq/17930), which other tests have taken over with the same thresholds. What is graded there is the mean increase: of
//! the mean RTT while the link is fully used, over the mean RTT of the idle link; with tests in both directions, the mean of the two increases. Medians and quantiles are listed next to
//! the mean because a mean conceals short queues that come and go.

use crate::histogram::{CompactHistogram, Count};
use crate::units::Duration;
use std::fmt;

/// A bufferbloat grade. There is no E.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// Below 5 ms.
    APlus,
    /// Below 30 ms.
    A,
    /// Below 60 ms.
    B,
    /// Below 200 ms.
    C,
    /// Below 400 ms.
    D,
    /// All others.
    F,
}

/// Grades with the increase of latency that they stay below (dslreports.com/faq/17930).
pub const THRESHOLDS: [(Grade, Duration); 5] = [
    (Grade::APlus, Duration::from_millis(5)),
    (Grade::A, Duration::from_millis(30)),
    (Grade::B, Duration::from_millis(60)),
    (Grade::C, Duration::from_millis(200)),
    (Grade::D, Duration::from_millis(400)),
];

impl Grade {
    /// Returns the grade of a mean increase of latency.
    pub fn of_increase(increase: Duration) -> Grade {
        THRESHOLDS.iter().find(|(_, below)| increase < *below).map_or(Grade::F, |&(grade, _)| grade)
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Grade::APlus => "A+",
            Grade::A => "A",
            Grade::B => "B",
            Grade::C => "C",
            Grade::D => "D",
            Grade::F => "F",
        })
    }
}

/// Increases of the RTT under load. An RTT that fell counts as an increase of zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyIncrease {
    /// The mean under load, less the mean of the idle path: this is graded.
    pub mean: Duration,
    /// The median under load, less the median of the idle path.
    pub median: Duration,
    /// The 95th percentile under load, less the median of the idle path.
    pub p95: Duration,
}

impl LatencyIncrease {
    /// Compares the RTTs of a path under load with those of the same path when it was idle. `None` if either has no RTTs.
    pub fn compare<C: Count, D: Count>(idle: &CompactHistogram<C>, loaded: &CompactHistogram<D>) -> Option<LatencyIncrease> {
        let [idle_median] = idle.quantiles([0.5])?;
        let [median, p95] = loaded.quantiles([0.5, 0.95])?;
        Some(LatencyIncrease {
            mean: compute_mean(loaded).saturating_sub(compute_mean(idle)),
            median: median.saturating_sub(idle_median),
            p95: p95.saturating_sub(idle_median),
        })
    }

    /// Returns the grade of tests in both directions: that of the mean of their increases. A test in one direction is graded by itself.
    pub fn grade(directions: &[LatencyIncrease]) -> Option<Grade> {
        let sum: u128 = directions.iter().map(|increase| u128::from(increase.mean.0)).sum();
        let mean = sum.checked_div(directions.len() as u128)?;
        Some(Grade::of_increase(Duration(mean as u64)))
    }
}

/// Mean of the values, each taken as the smallest value of its bucket but not as less than the smallest of all: at most 1/64 too small.
fn compute_mean<C: Count>(values: &CompactHistogram<C>) -> Duration {
    let least = values.range().map_or(Duration::ZERO, |(least, _)| least);
    let (sum, total) = values.buckets().fold((0_u128, 0_u128), |(sum, total), (value, count)| {
        (sum + u128::from(value.max(least).0) * u128::from(count), total + u128::from(count))
    });
    Duration(sum.checked_div(total).unwrap_or(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_millis(values: &[u64]) -> CompactHistogram {
        let mut histogram = CompactHistogram::default();
        values.iter().for_each(|&ms| histogram.record(Duration::from_millis(ms)));
        histogram
    }

    #[test]
    fn grades_begin_at_their_thresholds() {
        let grades = [0, 4, 5, 29, 30, 59, 60, 199, 200, 399, 400, 100_000]
            .map(|ms| Grade::of_increase(Duration::from_millis(ms)).to_string());
        assert_eq!(grades.join(" "), "A+ A+ A A B B C C D D F F");
        assert_eq!(Grade::of_increase(Duration(4_999_999)), Grade::APlus);
        assert!(THRESHOLDS.is_sorted() && Grade::APlus < Grade::F);
    }

    #[test]
    fn the_increase_is_over_the_idle_path() {
        // idle 20 ms; loaded 19 of 60 ms and one of 460 ms: mean (19 * 60 + 460) / 20 = 80 ms, median 60 ms; the 95th percentile is the 19th value, 60 ms
        let idle = of_millis(&[20; 10]);
        let loaded = of_millis(&[[60; 19].as_slice(), &[460]].concat());
        let increase = LatencyIncrease::compare(&idle, &loaded).expect("RTTs");
        let is_near = |found: Duration, ms: f64| (found.as_secs_f64() * 1e3 / ms - 1.0).abs() < 1.0 / 32.0;
        assert!(is_near(increase.mean, 60.0) && is_near(increase.median, 40.0) && is_near(increase.p95, 40.0), "{increase:?}");
        // a second slow one of 20 is the 95th percentile
        let slower = of_millis(&[[60; 18].as_slice(), &[460; 2]].concat());
        assert!(is_near(LatencyIncrease::compare(&idle, &slower).expect("RTTs").p95, 440.0));
        // values of one bucket are exact: an idle path under load is A+
        assert_eq!(LatencyIncrease::compare(&idle, &of_millis(&[20; 3])).map(|same| same.mean), Some(Duration::ZERO));
        // a path that became faster has no increase
        assert_eq!(LatencyIncrease::compare(&loaded, &idle).map(|faster| faster.median), Some(Duration::ZERO));
        assert_eq!(LatencyIncrease::compare(&idle, &of_millis(&[])), None);
        assert_eq!(LatencyIncrease::compare(&of_millis(&[]), &idle), None);
    }

    #[test]
    fn both_directions_share_one_grade() {
        let of = |ms| LatencyIncrease { mean: Duration::from_millis(ms), median: Duration::ZERO, p95: Duration::ZERO };
        // DSLReports: for an A+, (increase of the upload + increase of the download) / 2 is below 5 ms
        assert_eq!(LatencyIncrease::grade(&[of(2), of(7)]), Some(Grade::APlus));
        assert_eq!(LatencyIncrease::grade(&[of(2), of(8)]), Some(Grade::A));
        assert_eq!(LatencyIncrease::grade(&[of(60)]), Some(Grade::C));
        assert_eq!(LatencyIncrease::grade(&[]), None);
    }
}
