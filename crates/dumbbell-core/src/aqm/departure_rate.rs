//! The rate at which packets leave a queue, as Linux 3.14 to 5.4 measured it for PIE, and PI2 after it.
//!
//! Specification: RFC 8033 section 5.2; `pie_process_dequeue` of `sch_pie.c`. A measurement begins when enough is queued, ends when
//! that much has left, and enters a moving average.

/// Rates are in 1/256 bytes per tick (`PIE_SCALE`, pie.h).
pub const RATE_SHIFT: u32 = 8;
/// No measurement is under way (`DQCOUNT_INVALID`).
const IDLE: u64 = u64::MAX;

/// Constants of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Estimator {
    /// Bytes that a measurement takes, and that must be queued for one.
    pub threshold: u64,
    /// A measurement has the weight 2 to minus this in the average.
    pub weight_shift: u32,
}

/// State of the measurement; times in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Departures {
    /// Bytes that left in this measurement.
    count: u64,
    /// When it began.
    since: u64,
    /// Average, 1/256 bytes per tick; 0: not known.
    pub rate: u64,
}

impl Default for Departures {
    fn default() -> Departures {
        Departures { count: IDLE, since: 0, rate: 0 }
    }
}

impl Departures {
    /// `len` bytes leave at `now` and `backlog` bytes behind. Returns how long the measurement took that this ends.
    #[inline]
    pub fn on_departure(&mut self, estimator: &Estimator, len: u16, backlog: u64, now: u64) -> Option<u64> {
        if self.count == IDLE {
            if backlog < estimator.threshold {
                return None;
            }
            (self.count, self.since) = (0, now);
        }
        self.count += u64::from(len);
        if self.count < estimator.threshold || now == self.since {
            return None;
        }
        let passed = now - self.since;
        let rate = (self.count << RATE_SHIFT) / passed;
        self.rate = match self.rate {
            0 => rate,
            average => average - (average >> estimator.weight_shift) + (rate >> estimator.weight_shift),
        };
        (self.count, self.since) = (if backlog < estimator.threshold { IDLE } else { 0 }, now);
        Some(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_begins_with_enough_queued_and_ends_with_as_much_sent() {
        let estimator = Estimator { threshold: 10_000, weight_shift: 3 };
        let mut departures = Departures::default();
        assert_eq!(departures.on_departure(&estimator, 1500, 9_999, 100), None);
        assert_eq!(departures.count, IDLE);
        // the first that leaves enough behind is part of it: 7 * 1500 B from 100 to 700
        for n in 1..7 {
            assert_eq!(departures.on_departure(&estimator, 1500, 10_000, 100 * n), None);
        }
        assert_eq!(departures.on_departure(&estimator, 1500, 10_000, 700), Some(600));
        assert_eq!(departures.rate, 10_500 * 256 / 600);
        // the next begins at once; it takes 200 ticks: 7/8 of 4480 and 1/8 of 13440
        for n in 1..=7 {
            departures.on_departure(&estimator, 1500, 9_999, 700 + 200 * n / 7);
        }
        assert_eq!(departures.rate, 4480 - 560 + 1680);
        assert_eq!(departures.count, IDLE, "less is queued: no further one");
        // nothing can be measured within one tick
        departures.on_departure(&estimator, 20_000, 10_000, 1000);
        assert_eq!((departures.rate, departures.count), (5600, 20_000));
    }
}
