//! How late frames left against their schedule, and how late is too late.

use dumbbell_core::aqm::AqmSpec;
use dumbbell_core::histogram::Histogram;
use dumbbell_core::packet::MTU_FRAME;
use dumbbell_core::units::{Duration, Rate};
use serde_json::Value;

/// Lateness of the frames of one direction.
#[derive(Clone, Debug, Default)]
pub struct Lateness(Histogram);

impl Lateness {
    /// A frame left so late.
    #[inline]
    pub fn record(&mut self, late: Duration) {
        self.0.record(late);
    }

    /// Discards all measurements so far.
    pub fn forget(&mut self) {
        self.0 = Histogram::default();
    }

    /// Returns the lateness of all frames.
    pub fn histogram(&self) -> &Histogram {
        &self.0
    }

    /// Half, 99 % and all of the frames were at most so late.
    pub fn p50_p99_max(&self) -> [Duration; 3] {
        [self.0.quantile(0.5), self.0.quantile(0.99), self.0.max()]
    }
}

/// P99 lateness up to which a run is valid: a tenth of the smallest time that matters in it. These are the base RTTs, the target of the
/// queue discipline if it has one, and ten packet times; zero means that there is none.
pub fn allowed_lateness(base_rtts: impl IntoIterator<Item = Duration>, target: Option<Duration>, rate: Rate) -> Duration {
    let packets = rate.serialise(10 * u64::from(MTU_FRAME));
    let smallest = base_rtts.into_iter().chain(target).filter(|&time| time > Duration::ZERO).fold(packets, Duration::min);
    smallest / 10
}

/// Returns the target of a queue discipline that has one.
pub fn target(aqm: &AqmSpec) -> Option<Duration> {
    aqm.values().get("target").and_then(Value::as_u64).map(Duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_time_counts() {
        let of = |rtts: &[u64], target: Option<u64>, mbit| {
            let rtts = rtts.iter().map(|&rtt| Duration::from_millis(rtt));
            allowed_lateness(rtts, target.map(Duration::from_millis), Rate::from_mbit(mbit)).as_micros()
        };
        // ten packets: 12.112 ms at 10 Mbit/s, 0.6056 ms at 200 Mbit/s
        assert_eq!((of(&[20, 80], Some(5), 10), of(&[20], None, 10), of(&[20], Some(5), 200)), (500, 1211, 60));
        assert_eq!((of(&[2, 0], Some(5), 10), of(&[0], Some(0), 10)), (200, 1211));
    }
}
