//! A link that sends when its trace has an opportunity.
//!
//! The queue is asked at an opportunity, not before. A packet that does not fit into what is left of it leaves part by part, and has left
//! with its last byte; so long it is on the wire. Whatever is in the queue at the instant of an opportunity can use it, in whichever order
//! the events of this instant come. An opportunity that finds the queue empty, or a queue that shapes by itself and waits, is lost.
//!
//! A trace may say how long packets take at each time ([`LinkTrace::delay_at`]).

use super::{Link, LinkContext, QueueContent};
use crate::link_trace::{LinkTrace, Opportunities};
use crate::units::{Duration, Instant, Rate};

/// Name in experiment files.
pub const NAME: &str = "trace";
/// One line.
pub const TITLE: &str = "a link that sends when a trace has opportunities";
/// Specification and deviations.
pub const SOURCE: &str = "mahimahi: mm-link(1); docs/traces.md says where this differs; the same as trace = FILE";

crate::params! {
    /// Parameters of a link that follows a trace.
    pub struct Params {
        /// File with the opportunities: a time in whole milliseconds per line, and behind it, if packets take a time that changes, the
        /// one-way delay from then on, ms. A relative path starts at the folder of the experiment file. It has to be set.
        file: Option<LinkTrace> = None, unit "", source "mahimahi: mm-link(1); docs/traces.md";
    }
}

/// The opportunities that are left, and the trace with its delays.
#[derive(Clone, Debug)]
pub struct State {
    opportunities: Opportunities,
    trace: LinkTrace,
}

impl State {
    /// Follows the trace of `params`, or one with an opportunity each millisecond.
    pub fn new(params: Params, _context: &LinkContext) -> State {
        State::from_trace(params.file.unwrap_or_else(LinkTrace::every_millisecond))
    }

    /// Follows `trace`.
    pub fn from_trace(trace: LinkTrace) -> State {
        State { opportunities: Opportunities::new(trace.clone(), Instant::ZERO), trace }
    }
}

impl Link for State {
    const DELAYS: bool = true;

    #[inline(never)]
    fn wait(&mut self, waiting: QueueContent, now: Instant) -> Option<Instant> {
        self.opportunities.skip_to(now);
        match self.opportunities.next() {
            at if at <= now => None,
            // nobody asks an empty queue for a packet: mahimahi does not either
            _ if waiting.packets == 0 => Some(Instant::NEVER),
            at => Some(at),
        }
    }

    fn take(&mut self, bytes: u64, _now: Instant) -> Instant {
        self.opportunities.take(bytes)
    }

    /// Changes nothing, since the trace says what the rate is.
    fn set_rate(&mut self, _rate: Rate, _now: Instant) {}

    /// Returns the bytes that were taken from opportunities that are still to come.
    fn unsent(&self, now: Instant) -> u64 {
        self.opportunities.used_bytes().saturating_sub(self.trace.bytes_until(now))
    }

    fn delay(&mut self, now: Instant) -> Duration {
        self.trace.delay_at(now)
    }

    fn open(&mut self, from: Instant, until: Instant) -> f64 {
        let before = if from == Instant::ZERO { 0 } else { self.trace.bytes_until(from) };
        (self.trace.bytes_until(until) - before) as f64 * 8.0 / self.trace.mean_rate().bits() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::carry;
    use super::*;

    #[test]
    fn packets_leave_at_opportunities_and_take_as_long_as_the_trace_says() {
        let trace = LinkTrace::parse("test", b"2 10\n5 20.5\n9 1\n").unwrap();
        let mut link = State::from_trace(trace);
        // 2000 B are 1514 B of the first opportunity and 486 B of the second, in which 1000 B more fit; of 56 B then 28 B are left for the third
        let left = carry(&mut link, &[(0, 2_000), (0, 1_000), (0, 56)]);
        assert_eq!(left, [(2_000_000, 5_000_000), (5_000_000, 5_000_000), (5_000_000, 9_000_000)]);
        // all of the first two opportunities and 28 B of the third
        assert_eq!([2, 5, 8, 9].map(|ms| link.unsent(Instant::from_millis(ms))), [1_514 + 28, 28, 28, 0]);
        let delay = |ms: u64| link.clone().delay(Instant::from_millis(ms)).0 / 1_000;
        // at first as at the first time; after the lap of 9 ms as at the last time, until the first comes again at 11 ms
        assert_eq!(
            [0, 2, 4, 5, 8, 9, 10, 11, 14].map(delay),
            [10_000, 10_000, 10_000, 20_500, 20_500, 1_000, 1_000, 10_000, 20_500]
        );
    }
}
