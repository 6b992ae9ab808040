//! Delay for a time: packets take a longer way, and then the shorter one again, as after a change of route.

use super::{Downstream, PathItem, Stage};
use crate::rng::Rng;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// Name in experiment files.
pub const NAME: &str = "delay";
/// One line.
pub const TITLE: &str = "a longer way for a time";
/// Specification and deviations.
pub const SOURCE: &str =
    "RFC 9743 section 7.9: paths change during a connection; whether packets under way are overtaken is a choice here";

crate::params! {
    /// Parameters of a delay for a time.
    pub struct Params {
        /// How much longer the way takes.
        add: Duration = Duration::from_millis(50), unit "", range Duration(0), Duration::from_secs(60), source "the default is ours";
        /// Packets that get here from this time on.
        from: Instant = Instant::ZERO, unit "", range Instant(0), Instant::from_secs(86_400), source "the default is ours: always";
        /// Until this time.
        to: Option<Instant> = None, unit "", range Instant(0), Instant::from_secs(86_400), source "the default is ours: always";
        /// Packets behind `to` overtake those that are still on the longer way, instead of waiting for them.
        reorder: bool = false, unit "", source "the default is ours; RFC 4737 section 3 is reordering";
    }
}

/// Delays packets that get here in its time.
#[derive(Clone, Debug)]
pub struct State<T> {
    params: Params,
    /// Items and when they go on, in order.
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
        let Params { add, from, to, reorder } = self.params;
        let is_longer = from <= now && to.is_none_or(|to| now < to);
        match self.held.back() {
            _ if is_longer => self.held.push_back((now + add, item)),
            Some(&(last, _)) if !reorder => self.held.push_back((last.max(now), item)),
            _ => way.pass(item, now),
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

    /// Times and numbers of items that leave, of one a unit of time, if the way takes 10 longer from 3 to 5.
    fn leave(reorder: bool) -> Vec<(u64, u64)> {
        let params = Params { add: Duration(10), from: Instant(3), to: Some(Instant(5)), reorder };
        let stage = AnyStage::Delay(State { params, held: VecDeque::new() });
        drive(&mut path(stage), (0..8).chain(20..21).map(Instant))
            .arrived
            .into_iter()
            .map(|(at, number)| (at.0, number))
            .collect()
    }

    #[test]
    fn packets_behind_the_change_wait_for_those_on_the_longer_way() {
        // 3 and 4 take until 13 and 14; 5, 6 and 7 get here before, wait for them, and leave together; what comes at 20 finds nothing ahead
        assert_eq!(leave(false), [(0, 0), (1, 1), (2, 2), (13, 3), (14, 4), (14, 5), (14, 6), (14, 7), (20, 8)]);
    }

    #[test]
    fn packets_behind_the_change_overtake_if_they_may() {
        assert_eq!(leave(true), [(0, 0), (1, 1), (2, 2), (5, 5), (6, 6), (7, 7), (13, 3), (14, 4), (20, 8)]);
    }
}
