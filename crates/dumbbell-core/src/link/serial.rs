//! A serial link: one packet after the other, bit by bit.

use super::{Link, LinkContext, Waiting};
use crate::hint::unlikely;
use crate::units::{Rate, Time};

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
    rate: Rate,
    /// The last length, and the time that it takes: most packets are as long as the one before, and a quotient costs more than the rest.
    last: (u64, Time),
}

impl State {
    /// At the rate of the hop.
    pub fn new(_params: Params, context: &LinkContext) -> State {
        State { rate: context.rate, last: (0, Time::ZERO) }
    }
}

impl Link for State {
    #[inline(always)]
    fn wait(&mut self, _waiting: Waiting, _now: Time) -> Option<Time> {
        None
    }

    #[inline(always)]
    fn take(&mut self, bytes: u64, now: Time) -> Time {
        if unlikely(bytes != self.last.0) {
            self.last = (bytes, self.rate.serialise(bytes));
        }
        now + self.last.1
    }

    fn set_rate(&mut self, rate: Rate, _now: Time) {
        *self = State { rate, last: (0, Time::ZERO) };
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
}
