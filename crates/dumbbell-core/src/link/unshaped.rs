//! A link for a queue that shapes by itself: it lets packets leave as the queue gives them, if they are not more than it carries.
//!
//! The link is a token bucket of one frame, as [`htb`] is, at the rate of the hop. A queue that shapes at this rate or below never waits for it.
//! One that shapes above it, or counts too few bytes of each frame, is only asked while the bucket has no debt, so that packets wait in the
//! queue: a queue directly at its link, whose device stops it while it is busy.

use super::{htb, Link, LinkContext, QueueContent};
use crate::units::{Duration, Instant, Rate};

/// Name in experiment files.
pub const NAME: &str = "unshaped";
/// One line.
pub const TITLE: &str = "for a queue that shapes by itself: packets leave as it gives them, at most at the hop's rate";
/// Specification and deviations.
pub const SOURCE: &str = "what cake has unless another link is named: Cake as the leaf of an HTB class with a burst of one frame";

crate::params! {
    /// Parameters of a link for a queue that shapes by itself: none.
    pub struct Params {}
}

/// The bucket.
#[derive(Clone, Debug)]
pub struct State(htb::State);

impl State {
    /// A full bucket.
    pub fn new(_params: Params, context: &LinkContext) -> State {
        State(htb::State::new(htb::Params::default(), context))
    }

    /// Until when nothing may leave, as time to wait.
    #[inline]
    pub fn debt(&mut self, now: Instant) -> Duration {
        self.0.debt(now)
    }
}

impl Link for State {
    fn wait(&mut self, waiting: QueueContent, now: Instant) -> Option<Instant> {
        self.0.wait(waiting, now)
    }

    #[inline(always)]
    fn take(&mut self, bytes: u64, now: Instant) -> Instant {
        self.0.take(bytes, now)
    }

    fn set_rate(&mut self, rate: Rate, now: Instant) {
        self.0.set_rate(rate, now);
    }

    fn unsent(&self, now: Instant) -> u64 {
        self.0.unsent(now)
    }

    fn most_unsent(&self) -> u64 {
        self.0.most_unsent()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{carry, context};
    use super::*;

    #[test]
    fn packets_leave_as_they_come_up_to_the_rate() {
        // 1514 B take 1.2112 ms at 10 Mbit/s: a queue that shapes at this rate never waits
        let spaced = [(0, 1_514), (1_211_200, 1_514), (2_422_400, 1_514), (9_000_000, 1_000)];
        assert!(carry(&mut State::new(Params {}, &context(10)), &spaced)
            .iter()
            .zip(spaced)
            .all(|(left, (at, _))| *left == (at, at)));
        // one that shapes at twice the rate waits as soon as the bucket is empty
        let faster = [(0, 1_514), (605_600, 1_514), (1_211_200, 1_514), (1_816_800, 1_514)];
        let left: Vec<u64> = carry(&mut State::new(Params {}, &context(10)), &faster).iter().map(|left| left.1).collect();
        assert_eq!(left, [0, 605_600, 1_211_200, 2_422_400]);
    }
}
