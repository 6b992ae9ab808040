//! Independent loss: each packet is lost with the same probability.

use super::{Downstream, PathItem, Stage};
use crate::log::DropReason;
use crate::rng::Rng;
use crate::units::Instant;

/// Name in experiment files.
pub const NAME: &str = "loss";
/// One line.
pub const TITLE: &str = "independent random loss";
/// Specification and deviations.
pub const SOURCE: &str = "tc-netem(8): loss random, without correlation";

crate::params! {
    /// Parameters of independent loss.
    pub struct Params {
        /// Probability that a packet is lost.
        probability: f64 = 0.01, unit "probability", range 0.0, 1.0, source "the default is ours";
        /// Packets that get here from this time on.
        from: Instant = Instant::ZERO, unit "", range Instant(0), Instant::from_secs(86_400), source "the default is ours: always";
        /// Until this time.
        to: Option<Instant> = None, unit "", range Instant(0), Instant::from_secs(86_400), source "the default is ours: always";
    }
}

/// Loses packets.
#[derive(Clone, Debug)]
pub struct State {
    probability: f64,
    from: Instant,
    to: Instant,
}

impl State {
    /// With `params`.
    pub fn new(params: Params, _rng: &mut Rng) -> State {
        State { probability: params.probability, from: params.from, to: params.to.unwrap_or(Instant::NEVER) }
    }

    /// From now on a packet is lost with this `probability`.
    pub fn set_probability(&mut self, probability: f64) {
        self.probability = probability;
    }
}

impl<T: PathItem> Stage<T> for State {
    #[inline]
    fn push(&mut self, item: T, now: Instant, way: &mut Downstream<T>) {
        if self.from <= now && now < self.to && way.rng.next_f64() < self.probability {
            way.drop(item, DropReason::Loss, now);
        } else {
            way.pass(item, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drive, path};
    use super::super::AnyStage;
    use super::*;

    #[test]
    fn the_share_that_is_lost_is_the_probability() {
        for probability in [0.0, 0.1, 1.0] {
            let mut path = path(AnyStage::Loss(State { probability, from: Instant::ZERO, to: Instant::NEVER }));
            let seen = drive(&mut path, (0..100_000).map(Instant));
            assert_eq!(seen.arrived.len() + seen.dropped.len(), 100_000);
            // standard error: sqrt(0.1 * 0.9 / 100000) = 0.00095
            assert!((seen.dropped.len() as f64 / 1e5 - probability).abs() < 0.004);
            assert!(seen.arrived.windows(2).all(|two| two[0].1 < two[1].1));
        }
    }

    #[test]
    fn nothing_is_lost_before_and_after_its_time() {
        let seen =
            drive(&mut path(AnyStage::Loss(State { probability: 1.0, from: Instant(5), to: Instant(8) })), (0..20).map(Instant));
        assert!(seen.dropped.iter().map(|(_, number)| *number).eq(5..8), "{:?}", seen.dropped);
    }
}
