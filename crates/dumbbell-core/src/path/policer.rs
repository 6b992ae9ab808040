//! A policer: a token bucket without a queue. A packet for which there are not enough tokens is dropped.
//!
//! Specification: `tc police` (Linux `net/sched/act_police.c`) with `rate` and `burst` and without peak rate, which is RFC 2697 with
//! an excess burst of 0 and red packets dropped. As in Linux, tokens are nanoseconds of transmission at `rate`; the bucket is full at
//! first. Rates count frames without FCS.

use super::{Downstream, PathItem, Stage};
use crate::log::DropReason;
use crate::rng::Rng;
use crate::units::{Duration, Instant, Rate};

/// Name in experiment files.
pub const NAME: &str = "policer";
/// One line.
pub const TITLE: &str = "token bucket that drops what does not conform";
/// Specification and deviations.
pub const SOURCE: &str = "tc-police(8), act_police.c; RFC 2697 with EBS = 0; no peakrate";

crate::params! {
    /// Parameters of the policer.
    pub struct Params {
        /// Rate at which tokens are added.
        rate: Rate = Rate::from_mbit(10), unit "", range Rate(1000), Rate(10_000_000_000_000), source "tc-police(8): rate; RFC 2697: CIR; the default is ours";
        /// Depth of the bucket; by default ten full frames of `hosts.mss`.
        burst: u32 = 15_140, unit "bytes", range 66_u32, 4_000_000_000_u32, frames 10, source "tc-police(8): burst; RFC 2697: CBS; the default, ten full frames, is ours";
    }
}

/// The bucket.
#[derive(Clone, Debug)]
pub struct State {
    rate: Rate,
    /// Transmission time of the burst.
    depth: Duration,
    tokens: Duration,
    filled_at: Instant,
}

impl State {
    /// With `params`.
    pub fn new(params: Params, _rng: &mut Rng) -> State {
        let depth = params.rate.serialise(u64::from(params.burst));
        State { rate: params.rate, depth, tokens: depth, filled_at: Instant::ZERO }
    }
}

impl<T: PathItem> Stage<T> for State {
    fn push(&mut self, item: T, now: Instant, way: &mut Downstream<T>) {
        self.tokens = (self.tokens + (now - self.filled_at)).min(self.depth);
        self.filled_at = now;
        let cost = self.rate.serialise(u64::from(item.frame()));
        if cost > self.tokens {
            way.drop(item, DropReason::Policer, now);
        } else {
            self.tokens -= cost;
            way.pass(item, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drive, path};
    use super::super::AnyStage;
    use super::*;

    /// Items are 1000 B: 1 ms at 8 Mbit/s.
    fn policer(burst: u32) -> State {
        State::new(Params { rate: Rate::from_mbit(8), burst }, &mut Rng::stream(1, "test", 0))
    }

    #[test]
    fn a_burst_passes_and_then_what_the_rate_allows() {
        // 2500 B: two at once, and 500 B are left; half a millisecond later there are 1000 B again
        let times = [0, 0, 0, 400, 500, 600, 1_499, 1_500].map(Instant::from_micros);
        let seen = drive(&mut path(AnyStage::Policer(policer(2500))), times);
        let numbers: Vec<u64> = seen.arrived.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, [0, 1, 4, 7]);
    }

    #[test]
    fn in_the_long_run_the_rate_passes() {
        // 20 s at twice the rate, evenly and in bursts of ten: 20000 frames and the first 5
        for together in [1, 10] {
            let times = (0..40_000_u64).map(|number| Instant::from_micros(500 * (number / together * together)));
            let seen = drive(&mut path(AnyStage::Policer(policer(5000))), times);
            assert!((19_990..=20_005).contains(&seen.arrived.len()), "{together}: {}", seen.arrived.len());
            assert_eq!(seen.arrived.len() + seen.dropped.len(), 40_000);
        }
    }

    #[test]
    fn what_is_larger_than_the_bucket_never_passes() {
        let seen = drive(&mut path(AnyStage::Policer(policer(999))), (0..10).map(Instant::from_secs));
        assert_eq!(seen.dropped.len(), 10);
    }
}
