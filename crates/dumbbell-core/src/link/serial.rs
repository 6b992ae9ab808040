//! A serial link: one packet after the other, bit by bit.

use super::pace::Pace;
use super::{Link, LinkContext, QueueContent};
use crate::units::{Duration, Instant, Rate};

/// Name in experiment files.
pub const NAME: &str = "serial";
/// One line.
pub const TITLE: &str = "a serial link: a packet arrives when its last bit has been sent";
/// Specification and deviations.
pub const SOURCE: &str = "the same as shaper = \"link\"";

crate::params! {
    /// Parameters of a serial link: none.
    pub struct Params {}
}

/// A serial link.
#[derive(Clone, Debug)]
pub struct State {
    pace: Pace,
    /// When the last packet has left, and the rate at which it goes.
    ends: Instant,
    wire: Rate,
}

impl State {
    /// At the rate of the hop.
    pub fn new(_params: Params, context: &LinkContext) -> State {
        State { pace: Pace::new(context.rate), ends: Instant::ZERO, wire: context.rate }
    }
}

impl State {
    /// How long the next `bytes` take at the most.
    #[inline(always)]
    pub fn longest(&mut self, bytes: u64) -> Duration {
        self.pace.longest(bytes)
    }
}

impl Link for State {
    #[inline(always)]
    fn wait(&mut self, _waiting: QueueContent, _now: Instant) -> Option<Instant> {
        None
    }

    #[inline(always)]
    fn take(&mut self, bytes: u64, now: Instant) -> Instant {
        self.wire = self.pace.rate();
        self.ends = now + self.pace.take(bytes);
        self.ends
    }

    fn set_rate(&mut self, rate: Rate, _now: Instant) {
        self.pace = Pace::new(rate);
    }

    fn unsent(&self, now: Instant) -> u64 {
        Pace::new(self.wire).bytes_in(self.ends.saturating_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{carry, context};
    use super::*;

    #[test]
    fn packets_leave_bit_by_bit() {
        // 1000 B at 10 Mbit/s take 0.8 ms; the third comes to an idle link
        let left = carry(&mut State::new(Params {}, &context(10)), &[(0, 1_000), (0, 500), (5_000_000, 1_000)]);
        assert_eq!(left, [(0, 800_000), (800_000, 1_200_000), (5_000_000, 5_800_000)]);
    }

    #[test]
    fn what_is_left_of_a_packet_is_not_carried_yet() {
        let mut link = State::new(Params {}, &context(10));
        assert_eq!(link.take(1_000, Instant(0)), Instant(800_000));
        assert_eq!([0, 200_000, 799_999, 800_000, 900_000].map(|at| link.unsent(Instant(at))), [1_000, 750, 1, 0, 0]);
        // what is on the wire goes on at the old rate
        link.set_rate(Rate::from_mbit(1), Instant(200_000));
        assert_eq!(link.unsent(Instant(200_000)), 750);
        assert_eq!((link.take(1_000, Instant(800_000)), link.unsent(Instant(800_000))), (Instant(8_800_000), 1_000));
    }
}
