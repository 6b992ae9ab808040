//! Reordering: some packets take a longer way, and others overtake them.

use super::{Downstream, PathItem, Stage};
use crate::rng::Rng;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// Name in experiment files.
pub const NAME: &str = "reorder";
/// One line.
pub const TITLE: &str = "some packets are delayed, others overtake them";
/// Specification and deviations.
pub const SOURCE: &str = "RFC 4737 section 3; netem delays all but the reordered packets, here only these are delayed";

crate::params! {
    /// Parameters of reordering.
    pub struct Params {
        /// Probability that a packet is delayed.
        probability: f64 = 0.01, unit "probability", range 0.0, 1.0, source "the default is ours";
        /// How long it is delayed.
        delay: Duration = Duration::from_millis(1), unit "", range Duration(0), Duration::from_secs(60), source "the default is ours";
        /// Packets that get here from this time on.
        from: Instant = Instant::ZERO, unit "", range Instant(0), Instant::from_secs(86_400), source "the default is ours: always";
        /// Until this time.
        to: Option<Instant> = None, unit "", range Instant(0), Instant::from_secs(86_400), source "the default is ours: always";
    }
}

/// Delays some packets.
#[derive(Clone, Debug)]
pub struct State<T> {
    params: Params,
    /// Items and when they go on: in order, since the delay is always the same.
    held: VecDeque<(Instant, T)>,
}

impl<T> State<T> {
    /// With `params`.
    pub fn new(params: Params, _rng: &mut Rng) -> State<T> {
        State { params, held: VecDeque::new() }
    }
}

impl<T: PathItem> Stage<T> for State<T> {
    fn push(&mut self, item: T, now: Instant, way: &mut Downstream<T>) {
        let Params { probability, from, to, .. } = self.params;
        let reorders = from <= now && to.is_none_or(|to| now < to);
        if reorders && way.rng.next_f64() < probability {
            self.held.push_back((now + self.params.delay, item));
        } else {
            way.pass(item, now);
        }
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
    fn a_tenth_of_the_packets_is_overtaken_by_five() {
        // a packet a millisecond: one that is delayed by 5.5 ms leaves between the fifth and the sixth behind it
        let params = Params { probability: 0.1, delay: Duration::from_micros(5500), from: Instant::ZERO, to: None };
        let state = State { params, held: VecDeque::new() };
        let seen = drive(&mut path(AnyStage::Reorder(state)), (0..10_000).map(Instant::from_millis));
        let late: Vec<_> = seen.arrived.iter().filter(|(time, number)| *time != Instant::from_millis(*number)).collect();
        assert!(late.iter().all(|(time, number)| *time == Instant::from_millis(*number) + Duration::from_micros(5500)));
        // standard deviation: sqrt(10000 * 0.1 * 0.9) = 30
        assert!((880..1120).contains(&late.len()), "{}", late.len());
        let mut all: Vec<u64> = seen.arrived.iter().map(|(_, number)| *number).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..10_000));
    }

    #[test]
    fn nothing_is_delayed_before_and_after_its_time() {
        let params = Params { probability: 1.0, delay: Duration(100), from: Instant(5), to: Some(Instant(8)) };
        let seen = drive(&mut path(AnyStage::Reorder(State { params, held: VecDeque::new() })), (0..20).map(Instant));
        assert_eq!(seen.arrived.iter().filter(|(time, number)| *time != Instant(*number)).count(), 3);
        assert_eq!(seen.arrived[17..], [(Instant(105), 5), (Instant(106), 6), (Instant(107), 7)]);
    }
}
