//! Responsiveness under working conditions, in round trips per minute (RPM): draft-ietf-ippm-responsiveness-09, of 6 July 2026.
//!
//! A test adds connections until their goodput is stable, and then goes on until the responsiveness is stable too, or its time is over. Meanwhile it sends probes. A foreign probe opens a connection and
//! requests one byte; a self probe requests one byte over a connection of the load. Drafts to -03 took the mean of the times of both, this one the mean of their responsivenesses.
//!
//! Readings of the draft where it leaves room. The trimmed mean at 95 % keeps the fastest 95 % of the samples, rounded up. The standard deviation of the last MAD values is that of a
//! population. The first values of a series need MAD intervals each.

use crate::units::{Duration, Rate};
use std::collections::VecDeque;

crate::params! {
    /// Parameters of a test.
    pub struct Params {
        /// Intervals of a moving average (MAD).
        averaged: u32 = 4, unit "intervals", range 1_u32, 100_u32, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Interval at which stability is evaluated (ID).
        interval: Duration = Duration::from_secs(5), unit "", range Duration::from_millis(100), Duration::from_secs(60), source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Share of the samples that a trimmed mean keeps (TMP).
        kept: f64 = 0.95, unit "", range 0.01, 1.0, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Standard deviation of the last averages up to which they are stable, relative to the current one (SDT).
        tolerance: f64 = 0.05, unit "", range 0.0, 1.0, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Connections at the start (INP).
        initial: u32 = 1, unit "connections", range 1_u32, 1_000_u32, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Connections that each interval adds (INC).
        added: u32 = 1, unit "connections", range 0_u32, 1_000_u32, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Most connections (MNP).
        most: u32 = 16, unit "connections", range 1_u32, 1_000_u32, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Probes of each kind per second (MPS).
        probes: f64 = 100.0, unit "probes/s", range 0.01, 10_000.0, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Share of the capacity that probes may take (PTC).
        probe_share: f64 = 0.05, unit "", range 0.0001, 1.0, source "draft-ietf-ippm-responsiveness-09 section 5.2";
    }
}

/// Bytes that a foreign and a self probe exchange (section 5.3): estimates of the draft, with TCP and TLS.
pub const FOREIGN_PROBE_BYTES: u64 = 5_000;
/// Bytes that a self probe exchanges.
pub const SELF_PROBE_BYTES: u64 = 1_000;

/// Times of the probes that finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeTimes {
    /// Handshakes of TCP of foreign probes (tcp_f).
    pub tcp_foreign: Vec<Duration>,
    /// Handshakes of TLS, by round trip (tls_f); none without TLS.
    pub tls_foreign: Vec<Duration>,
    /// Requests of foreign probes, from the request to the last byte of the response (http_f).
    pub http_foreign: Vec<Duration>,
    /// Requests over connections of the load (http_l).
    pub http_loaded: Vec<Duration>,
}

impl ProbeTimes {
    fn extend(&mut self, other: &ProbeTimes) {
        self.tcp_foreign.extend(&other.tcp_foreign);
        self.tls_foreign.extend(&other.tls_foreign);
        self.http_foreign.extend(&other.http_foreign);
        self.http_loaded.extend(&other.http_loaded);
    }
}

/// Round trips per minute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Responsiveness {
    /// On connections of their own.
    pub foreign: f64,
    /// On the connections of the load.
    pub loaded: f64,
}

impl Responsiveness {
    /// Computes both from the times of probes, of which each trimmed mean keeps the share `kept`. `None` if a kind of times is missing, except for those of TLS, which then do not count.
    pub fn compute(times: &ProbeTimes, kept: f64) -> Option<Responsiveness> {
        let mean = |values: &[Duration]| compute_trimmed_mean(values, kept);
        let (tcp, http) = (mean(&times.tcp_foreign)?, mean(&times.http_foreign)?);
        let foreign = match mean(&times.tls_foreign) {
            Some(tls) => (tcp + tls + http) / 3.0,
            None => (tcp + http) / 2.0,
        };
        let loaded = mean(&times.http_loaded)?;
        let per_minute = |seconds: f64| 60.0 / seconds.max(1e-9);
        Some(Responsiveness { foreign: per_minute(foreign), loaded: per_minute(loaded) })
    }

    /// Returns the result of the test: the mean of both.
    pub fn mean(&self) -> f64 {
        (self.foreign + self.loaded) / 2.0
    }
}

/// Mean of the smallest values, of which the share `kept` counts, rounded up; seconds. `None` without values.
pub fn compute_trimmed_mean(times: &[Duration], kept: f64) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let count = ((kept * sorted.len() as f64).ceil() as usize).min(sorted.len());
    let sum: u128 = sorted[..count].iter().map(|time| u128::from(time.0)).sum();
    (count > 0).then(|| sum as f64 / count as f64 / 1e9)
}

/// How far a value of the test can be trusted (section 5.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Fewer than MAD intervals before the time was over.
    Low,
    /// Not stable after MAD intervals.
    Medium,
    /// Stable.
    High,
}

/// Result of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestResult {
    /// Goodput of the last MAD intervals, bit/s.
    pub goodput: f64,
    /// Confidence in the goodput.
    pub goodput_confidence: Confidence,
    /// Responsiveness of the last MAD intervals; `None` if no probe finished.
    pub responsiveness: Option<Responsiveness>,
    /// Confidence in the responsiveness.
    pub confidence: Confidence,
}

/// Work of the test at the end of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TestStep {
    /// Go on with this number of connections.
    Continue {
        /// Connections of the load from now on.
        connections: u32,
    },
    /// End the test.
    Finish(TestResult),
}

/// The last MAD values of a series that becomes stable.
#[derive(Clone, Debug, Default)]
struct Series(VecDeque<f64>);

impl Series {
    /// Adds a value, and returns whether the series is stable.
    fn add(&mut self, value: f64, params: &Params) -> bool {
        let averaged = params.averaged as usize;
        self.0.push_back(value);
        if self.0.len() > averaged {
            self.0.pop_front();
        }
        let count = self.0.len() as f64;
        let mean = self.0.iter().sum::<f64>() / count;
        let variance = self.0.iter().map(|one| (one - mean) * (one - mean)).sum::<f64>() / count;
        self.0.len() == averaged && variance.sqrt() < params.tolerance * value
    }

    fn confidence(&self, is_stable: bool, params: &Params) -> Confidence {
        if is_stable {
            Confidence::High
        } else if self.0.len() == params.averaged as usize {
            Confidence::Medium
        } else {
            Confidence::Low
        }
    }
}

/// The algorithm of a test in one direction, or in both at once: decides after each interval.
#[derive(Clone, Debug)]
pub struct ResponsivenessTest {
    params: Params,
    connections: u32,
    /// Bytes and probes of the last MAD intervals.
    recent: VecDeque<(u64, ProbeTimes)>,
    goodputs: Series,
    responsivenesses: Series,
    has_goodput: bool,
}

impl ResponsivenessTest {
    /// A test with [`ResponsivenessTest::connections`] connections.
    pub fn new(params: Params) -> ResponsivenessTest {
        ResponsivenessTest {
            connections: params.initial.min(params.most),
            params,
            recent: VecDeque::new(),
            goodputs: Series::default(),
            responsivenesses: Series::default(),
            has_goodput: false,
        }
    }

    /// Connections of the load.
    pub fn connections(&self) -> u32 {
        self.connections
    }

    /// Time between two pairs of probes, one of each kind: 1 / MPS, longer if the probes would take more than their share of `capacity`.
    pub fn probe_interval(&self, capacity: Rate) -> Duration {
        let bits = (FOREIGN_PROBE_BYTES + SELF_PROBE_BYTES) as f64 * 8.0;
        let least = bits / (self.params.probe_share * capacity.bits().max(1) as f64);
        Duration(((1.0 / self.params.probes).max(least) * 1e9) as u64)
    }

    /// An interval ends, in which the load transferred `bytes` and the probes of `times` finished.
    pub fn on_interval(&mut self, bytes: u64, times: ProbeTimes) -> TestStep {
        self.recent.push_back((bytes, times));
        if self.recent.len() > self.params.averaged as usize {
            self.recent.pop_front();
        }
        self.connections = self.connections.saturating_add(self.params.added).min(self.params.most);
        if !self.has_goodput {
            self.has_goodput = self.goodputs.add(self.compute_goodput(), &self.params);
        } else if let Some(current) = self.compute_responsiveness() {
            if self.responsivenesses.add(current.mean(), &self.params) {
                return TestStep::Finish(self.result(true));
            }
        }
        TestStep::Continue { connections: self.connections }
    }

    /// The time of the test is over: returns what there is.
    pub fn stop(&self) -> TestResult {
        self.result(false)
    }

    fn result(&self, is_stable: bool) -> TestResult {
        TestResult {
            goodput: self.compute_goodput(),
            goodput_confidence: self.goodputs.confidence(self.has_goodput, &self.params),
            responsiveness: self.compute_responsiveness(),
            confidence: self.responsivenesses.confidence(is_stable, &self.params),
        }
    }

    /// Moving average of the goodput, bit/s: the first intervals of a test have fewer than MAD before them.
    fn compute_goodput(&self) -> f64 {
        let bytes: u128 = self.recent.iter().map(|(bytes, _)| u128::from(*bytes)).sum();
        bytes as f64 * 8.0 / (self.recent.len().max(1) as f64 * self.params.interval.as_secs_f64())
    }

    fn compute_responsiveness(&self) -> Option<Responsiveness> {
        let mut all = ProbeTimes::default();
        self.recent.iter().for_each(|(_, times)| all.extend(times));
        Responsiveness::compute(&all, self.params.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prop_assert, proptest};

    fn of_millis(values: &[u64]) -> Vec<Duration> {
        values.iter().copied().map(Duration::from_millis).collect()
    }

    fn probes(tcp: u64, tls: Option<u64>, http: u64, loaded: u64) -> ProbeTimes {
        ProbeTimes {
            tcp_foreign: of_millis(&[tcp]),
            tls_foreign: tls.map_or(Vec::new(), |tls| of_millis(&[tls])),
            http_foreign: of_millis(&[http]),
            http_loaded: of_millis(&[loaded]),
        }
    }

    #[test]
    fn responsivenesses_of_both_kinds_are_averaged() {
        // foreign 60,000 / ((20 + 30 + 40) / 3) = 2000, loaded 60,000 / 60 = 1000: 1500. The mean of the times, 45 ms, would be 1333
        let found = Responsiveness::compute(&probes(20, Some(30), 40, 60), 0.95).expect("probes");
        assert_eq!((found.foreign.round(), found.loaded.round(), found.mean().round()), (2_000.0, 1_000.0, 1_500.0));
        // without TLS (20 + 40) / 2 = 30 ms: a handshake of TLS of no time would make it 20 ms
        let plain = Responsiveness::compute(&probes(20, None, 40, 60), 0.95).expect("probes");
        assert_eq!(plain.mean().round(), 1_500.0);
        assert_eq!(Responsiveness::compute(&ProbeTimes { http_loaded: Vec::new(), ..probes(20, None, 40, 60) }, 0.95), None);
    }

    #[test]
    fn a_trimmed_mean_ignores_the_slowest_twentieth() {
        // 19 of 10 ms and one of 1 s: 95 % of 20 are 19
        let mut times = [[10; 19].as_slice(), &[1_000]].concat();
        times.rotate_right(7);
        assert_eq!(compute_trimmed_mean(&of_millis(&times), 0.95), Some(0.010));
        // 95 % of 10 are 9.5, rounded up: all. (9 * 10 + 1000) / 10 = 109 ms
        assert_eq!(compute_trimmed_mean(&of_millis(&[[10; 9].as_slice(), &[1_000]].concat()), 0.95), Some(0.109));
        assert_eq!((compute_trimmed_mean(&of_millis(&[7]), 0.95), compute_trimmed_mean(&[], 0.95)), (Some(0.007), None));
    }

    #[test]
    fn a_test_ends_when_goodput_and_then_responsiveness_are_stable() {
        let mut test = ResponsivenessTest::new(Params::default());
        assert_eq!(test.connections(), 1);
        // 6.25 MB in 5 s are 10 Mbit/s; the first intervals ramp up
        let mut connections = Vec::new();
        let mut steps = [2_000_000, 5_000_000].into_iter().chain(std::iter::repeat(6_250_000));
        let result = loop {
            match test.on_interval(steps.next().unwrap_or(0), probes(100, Some(100), 100, 150)) {
                TestStep::Continue { connections: more } => connections.push(more),
                TestStep::Finish(result) => break result,
            }
        };
        // Averages in MB: 2, 3.5, 4.42, 4.875, 5.94, 6.25, 6.25, 6.25. Standard deviations of four: 1.10 of 2 to 4.875; 0.88; 0.74; of 4.875, 5.94, 6.25, 6.25 0.57; of 5.94, 6.25, 6.25, 6.25
        // 0.13, which is below 5 % of 6.25: stable after interval 8. Four intervals of responsiveness follow: 12 in all.
        assert_eq!(connections, [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!((result.goodput, result.goodput_confidence, result.confidence), (10e6, Confidence::High, Confidence::High));
        // (600 + 400) / 2
        assert_eq!(result.responsiveness.map(|found| found.mean().round()), Some(500.0));
    }

    #[test]
    fn a_test_whose_time_is_over_says_how_far_it_came() {
        let mut test = ResponsivenessTest::new(Params { added: 10, ..Params::default() });
        let confidences = |one: &ResponsivenessTest| (one.stop().goodput_confidence, one.stop().confidence);
        for n in 1..=3 {
            test.on_interval(n * 1_000_000, ProbeTimes::default());
            assert_eq!(confidences(&test), (Confidence::Low, Confidence::Low));
        }
        test.on_interval(4_000_000, ProbeTimes::default());
        assert_eq!((confidences(&test), test.connections()), ((Confidence::Medium, Confidence::Low), 16));
        assert_eq!(test.stop().responsiveness, None);
        // (1 + 2 + 3 + 4) MB in 20 s
        assert_eq!(test.stop().goodput, 4e6);
    }

    #[test]
    fn probes_take_their_share_of_a_slow_link_at_most() {
        let test = ResponsivenessTest::new(Params::default());
        // 48,000 bit for a pair: 100 pairs per second from 96 Mbit/s on; at 1 Mbit/s 5 % carry one pair in 0.96 s
        assert_eq!(test.probe_interval(Rate::from_mbit(1_000)), Duration::from_millis(10));
        assert_eq!(test.probe_interval(Rate::from_mbit(1)), Duration::from_millis(960));
    }

    proptest! {
        #[test]
        fn a_trimmed_mean_lies_between_the_values(values in vec(0_u64..1 << 50, 1..50), kept in 0.01_f64..1.0) {
            let times: Vec<Duration> = values.iter().copied().map(Duration).collect();
            let mean = compute_trimmed_mean(&times, kept).expect("values") * 1e9;
            let (least, most) = (values.iter().min().expect("one"), values.iter().max().expect("one"));
            prop_assert!(mean >= *least as f64 * (1.0 - 1e-12) - 1.0 && mean <= *most as f64 * (1.0 + 1e-12) + 1.0);
        }
    }
}
