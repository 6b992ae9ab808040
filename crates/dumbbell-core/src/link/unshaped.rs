//! A link without a rate of its own.

use super::{Link, LinkContext, Waiting};
use crate::units::{Rate, Time};

/// Name in experiment files.
pub const NAME: &str = "unshaped";
/// One line.
pub const TITLE: &str = "an infinitely fast link, for a queue that shapes by itself";
/// Specification and deviations.
pub const SOURCE: &str = "what cake has unless another link is named";

crate::params! {
    /// Parameters of an infinitely fast link: none.
    pub struct Params {}
}

/// An infinitely fast link.
#[derive(Clone, Debug)]
pub struct State;

impl State {
    /// There is one only.
    pub fn new(_params: Params, _context: &LinkContext) -> State {
        State
    }
}

impl Link for State {
    #[inline(always)]
    fn wait(&mut self, _waiting: Waiting, _now: Time) -> Option<Time> {
        None
    }

    #[inline(always)]
    fn take(&mut self, _bytes: u64, now: Time) -> Time {
        now
    }

    fn set_rate(&mut self, _rate: Rate, _now: Time) {}
}

#[cfg(test)]
mod tests {
    use super::super::testing::{carry, context};
    use super::*;

    #[test]
    fn packets_leave_as_they_come() {
        assert_eq!(carry(&mut State::new(Params {}, &context(10)), &[(0, 1_000), (0, 500), (7, 9)]), [(0, 0), (0, 0), (7, 7)]);
    }
}
