//! Jitter: each packet takes a random time longer; packets stay in order.

use super::{Downstream, PathItem, Stage};
use crate::rng::Rng;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// Name in experiment files.
pub const NAME: &str = "jitter";
/// One line.
pub const TITLE: &str = "random extra delay that keeps the order";
/// Specification and deviations.
pub const SOURCE: &str = "uniform, as the default of tc-netem(8) delay with jitter, but without reordering";

crate::params! {
    /// Parameters of jitter.
    pub struct Params {
        /// Largest extra delay. Each packet draws one from 0 to this, uniformly; a packet that would overtake waits for the one ahead.
        max: Duration = Duration::from_millis(1), unit "", range Duration(0), Duration::from_secs(60), source "the default is ours";
    }
}

/// Delays packets.
#[derive(Clone, Debug)]
pub struct State<T> {
    max: Duration,
    /// Items and when they go on.
    held: VecDeque<(Instant, T)>,
}

impl<T> State<T> {
    /// With `params`.
    pub fn new(params: Params, _rng: &mut Rng) -> State<T> {
        State { max: params.max, held: VecDeque::new() }
    }
}

impl<T: PathItem> Stage<T> for State<T> {
    fn push(&mut self, item: T, now: Instant, way: &mut Downstream<T>) {
        let extra = Duration(way.rng.draw_below(self.max.0 + 1));
        let last = self.held.back().map_or(Instant::ZERO, |held| held.0);
        self.held.push_back(((now + extra).max(last), item));
    }

    fn next_timer(&self) -> Instant {
        self.held.front().map_or(Instant::NEVER, |held| held.0)
    }

    fn on_timer(&mut self, now: Instant, way: &mut Downstream<T>) {
        if let Some((_, item)) = self.held.pop_front() {
            way.pass(item, now);
        }
    }

    fn count_items(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drive, path};
    use super::super::AnyStage;
    use super::*;

    #[test]
    fn the_delay_is_uniform_and_the_order_is_kept() {
        let max = Duration::from_millis(1);
        let sent = |number: u64| Instant::from_millis(2 * number);
        let state = State { max, held: VecDeque::new() };
        // too far apart to wait for each other: the mean is 0.5 ms +- 1 / sqrt(12 * 10000) = 0.003 ms
        let seen = drive(&mut path(AnyStage::Jitter(state.clone())), (0..10_000).map(sent));
        let extra: Vec<u64> = seen.arrived.iter().map(|&(time, number)| (time - sent(number)).0).collect();
        assert!(extra.iter().all(|&extra| extra <= max.0));
        assert!((extra.iter().sum::<u64>() as f64 / 1e10 - 0.5).abs() < 0.012);
        // close together
        let dense = drive(&mut path(AnyStage::Jitter(state)), (0..10_000).map(|number| Instant(1_000 * number)));
        assert!(dense.arrived.iter().map(|(_, number)| *number).eq(0..10_000));
        assert!(dense.arrived.windows(2).all(|two| two[0].0 <= two[1].0));
    }
}
