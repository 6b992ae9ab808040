//! Batching: packets are held and sent together, as at a sender that waits for a grant (DOCSIS) or for its turn on the air (Wi-Fi).
//!
//! Grants come every `interval`, at a random phase. All packets that are held go on with the next grant, or as soon as there are
//! `frames` of them. On the ACK path this is ACK aggregation.

use super::{Downstream, PathItem, Stage};
use crate::rng::Rng;
use crate::units::{Duration, Instant};

/// Name in experiment files.
pub const NAME: &str = "batch";
/// One line.
pub const TITLE: &str = "packets are held and sent together";
/// Specification and deviations.
pub const SOURCE: &str =
    "a model of grants (DOCSIS MAP interval) and aggregates (IEEE 802.11 A-MPDU); no limit on what a grant carries";

crate::params! {
    /// Parameters of batching.
    pub struct Params {
        /// Time between two grants.
        interval: Duration = Duration::from_millis(2), unit "", range Duration(1), Duration::from_secs(60), source "DOCSIS: a MAP message about every 2 ms";
        /// Number of packets that go on at once, without a grant; unset: packets always wait.
        frames: Option<u32> = None, unit "packets", range 1_u32, 65_536_u32, source "IEEE 802.11: 64 MPDUs in an A-MPDU of 802.11n; off by default";
    }
}

/// Holds packets.
#[derive(Clone, Debug)]
pub struct State<T> {
    params: Params,
    /// Time of a grant, before the first interval is over.
    phase: Instant,
    /// The grant that the held packets wait for.
    grant: Instant,
    held: Vec<T>,
}

impl<T> State<T> {
    /// With `params`; the phase is drawn from `rng`.
    pub fn new(params: Params, rng: &mut Rng) -> State<T> {
        let phase = Instant(rng.draw_below(params.interval.0));
        State { params, phase, grant: Instant::NEVER, held: Vec::new() }
    }

    /// The first grant after `now`.
    fn grant_after(&self, now: Instant) -> Instant {
        let Duration(interval) = self.params.interval;
        match now.0.checked_sub(self.phase.0) {
            None => self.phase,
            Some(since) => self.phase + Duration((since / interval + 1) * interval),
        }
    }
}

impl<T: PathItem> State<T> {
    fn release(&mut self, now: Instant, way: &mut Downstream<T>) {
        self.grant = Instant::NEVER;
        for item in self.held.drain(..) {
            way.pass(item, now);
        }
    }
}

impl<T: PathItem> Stage<T> for State<T> {
    fn push(&mut self, item: T, now: Instant, way: &mut Downstream<T>) {
        if self.held.is_empty() {
            self.grant = self.grant_after(now);
        }
        self.held.push(item);
        if self.params.frames.is_some_and(|frames| self.held.len() >= frames as usize) {
            self.release(now, way);
        }
    }

    fn next_timer(&self) -> Instant {
        self.grant
    }

    fn on_timer(&mut self, now: Instant, way: &mut Downstream<T>) {
        self.release(now, way);
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

    fn release_times(frames: Option<u32>, times: &[u64]) -> Vec<(u64, u64)> {
        let params = Params { interval: Duration::from_millis(10), frames };
        let state = State { params, phase: Instant::from_millis(3), grant: Instant::NEVER, held: Vec::new() };
        let seen = drive(&mut path(AnyStage::Batch(state)), times.iter().map(|&ms| Instant::from_millis(ms)));
        seen.arrived.into_iter().map(|(time, number)| (time.as_millis(), number)).collect()
    }

    #[test]
    fn what_is_held_goes_on_with_the_next_grant() {
        // grants at 3, 13, 23, 33 ms; what comes at the time of a grant waits for the next one
        assert_eq!(release_times(None, &[0, 2, 4, 12, 13, 30]), [(3, 0), (3, 1), (13, 2), (13, 3), (23, 4), (33, 5)]);
    }

    #[test]
    fn a_full_batch_does_not_wait() {
        assert_eq!(release_times(Some(3), &[4, 5, 6, 7, 8, 20]), [(6, 0), (6, 1), (6, 2), (13, 3), (13, 4), (23, 5)]);
    }
}
