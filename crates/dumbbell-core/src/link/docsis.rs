//! A cable modem's way up: it asks for room, gets a grant some intervals later, and sends a grant's worth at once.
//!
//! Time is divided into intervals, for each of which the head end allots room (the MAP). At the beginning of each the modem asks for what is
//! in its queue and not asked for yet; the answer comes `pipeline` intervals later. An interval grants what was asked for, at most what the
//! rate carries in an interval; more has to wait for the next ones. At the beginning of an interval with a grant, the queue is asked for
//! packets until the grant is used up, and they leave. A packet that exceeds it goes on in the next grants and has left at the beginning of
//! the one in which its last byte is (continuous concatenation and fragmentation). What a grant has and nobody uses is lost.

use super::{Link, LinkContext, Waiting};
use crate::units::{Rate, Time};

/// Name in experiment files.
pub const NAME: &str = "docsis";
/// One line.
pub const TITLE: &str = "a cable modem's way up: requests, and grants some milliseconds later";
/// Specification and deviations.
pub const SOURCE: &str = "CM-SP-MULPIv3.1, best-effort scheduling, with the intervals of CableLabs' model docsis-ns3; without collisions of requests, and the grant is at the beginning of its interval";

crate::params! {
    /// Parameters of a cable modem's way up.
    pub struct Params {
        /// For how long a MAP allots room.
        interval: Time = Time::from_millis(2), unit "", range Time::from_micros(100), Time::from_secs(1), source "cablelabs/docsis-ns3, doc/source/system-configuration.rst: MapInterval, 2e-3 s; model-overview.rst: typically 1 to 2 ms";
        /// Intervals from a request to its grant.
        pipeline: u32 = 2, unit "intervals", range 1_u32, 16_u32, source "cablelabs/docsis-ns3, doc/source/model-overview.rst: what is asked for in MAP interval z - 2, ahead of the deadline, is granted in z";
    }
}

/// Longest pipeline.
const MOST: usize = 16;

/// Modem and head end.
#[derive(Clone, Debug)]
pub struct State {
    rate: Rate,
    interval: Time,
    pipeline: usize,
    /// The interval that was last begun.
    number: u64,
    /// Bytes that were asked for at the beginning of each interval, by its number, and all of them.
    asked: [u64; MOST],
    asked_in_all: u64,
    /// Bytes that the head end knows of and has not granted.
    known: u64,
    /// What is left of the interval, as ns of transmission; debt is paid by the next ones.
    left: i64,
}

impl State {
    /// A modem that has asked for nothing.
    pub fn new(params: Params, context: &LinkContext) -> State {
        let pipeline = (params.pipeline as usize).clamp(1, MOST);
        let Params { interval, .. } = params;
        State {
            rate: context.rate,
            interval,
            pipeline,
            number: 0,
            asked: [0; MOST],
            asked_in_all: 0,
            known: 0,
            left: interval.0 as i64,
        }
    }

    /// Bytes that take `ns` on the link.
    fn bytes_in(&self, ns: i64) -> u64 {
        (u128::from(ns.max(0).unsigned_abs()) * u128::from(self.rate.bits()) / 8_000_000_000) as u64
    }

    /// The next interval begins.
    fn begin_next(&mut self) {
        // what was granted and nobody used
        self.known -= self.known.min(self.bytes_in(self.left));
        self.left = self.left.min(0) + self.interval.0 as i64;
        self.number += 1;
        let answered = &mut self.asked[(self.number % self.pipeline as u64) as usize];
        self.known += *answered;
        self.asked_in_all -= std::mem::take(answered);
    }

    /// Goes on to the interval of `now`.
    fn go_to(&mut self, now: Time) {
        let number = now.0 / self.interval.0;
        while self.number < number {
            if self.known == 0 && self.asked_in_all == 0 && self.left >= 0 {
                self.number = number;
                self.left = self.interval.0 as i64;
                return;
            }
            self.begin_next();
        }
    }
}

impl Link for State {
    fn wait(&mut self, waiting: Waiting, now: Time) -> Option<Time> {
        let before = self.number;
        self.go_to(now);
        let begins = Time(self.number * self.interval.0);
        if now == begins && (self.number > before || now == Time::ZERO) {
            // with the request of this interval: there is none yet, since it was just answered
            let place = (self.number % self.pipeline as u64) as usize;
            let more = waiting.bytes.saturating_sub(self.asked_in_all + self.known);
            self.asked[place] += more;
            self.asked_in_all += more;
        }
        if waiting.packets == 0 {
            return Some(Time::NEVER);
        }
        (now > begins || self.known == 0 || self.left <= 0).then(|| begins.saturating_add(self.interval))
    }

    fn take(&mut self, bytes: u64, now: Time) -> Time {
        self.left -= self.rate.serialise(bytes).0 as i64;
        self.known = self.known.saturating_sub(bytes);
        let debt = (-self.left).max(0).unsigned_abs();
        now.saturating_add(Time(debt.div_ceil(self.interval.0) * self.interval.0))
    }

    fn set_rate(&mut self, rate: Rate, _now: Time) {
        self.rate = rate;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{carry, context};
    use super::*;

    const MS: u64 = 1_000_000;

    fn link() -> State {
        // 2500 B an interval of 2 ms
        State::new(Params::default(), &context(10))
    }

    fn left(arrivals: &[(u64, u64)]) -> Vec<u64> {
        carry(&mut link(), arrivals).into_iter().map(|gone| gone.1 / MS).collect()
    }

    #[test]
    fn a_packet_waits_for_request_and_grant() {
        // asked for at 2 ms, granted at 6 ms
        assert_eq!(left(&[(MS / 2, 1_000)]), [6]);
        // one that comes at the beginning of an interval asks in it
        assert_eq!(left(&[(0, 1_000), (20 * MS, 1_000)]), [4, 24]);
        // one that comes after the request asks two milliseconds later
        assert_eq!(left(&[(2 * MS, 1_000), (3 * MS, 1_000)]), [6, 8]);
    }

    #[test]
    fn packets_leave_in_grants_of_the_rate() {
        // 7 packets of 1000 B, asked for at 2 ms: 2500 B at 6, 8 and 10 ms; the third leaves with the grant that has its last byte
        assert_eq!(left(&[(MS, 1_000); 7]), [6, 6, 8, 8, 8, 10, 10]);
        // a frame of 6000 B takes three grants, and leaves room in the last one
        assert_eq!(left(&[(0, 6_000), (0, 1_000)]), [8, 8]);
    }

    #[test]
    fn what_nobody_uses_is_lost() {
        let mut link = link();
        let at = |ms: u64| Time(ms * MS);
        let queue = |packets, bytes| Waiting { packets, bytes };
        // asks for 5000 B, which are dropped
        assert_eq!(link.wait(queue(5, 5_000), at(0)), Some(at(2)));
        assert_eq!(link.wait(queue(0, 0), at(2)), Some(Time::NEVER));
        // the grant at 4 ms is lost, that at 6 ms has the other 2500 B
        assert_eq!(link.wait(queue(4, 4_000), at(6)), None);
        assert_eq!([link.take(2_000, at(6)), link.take(2_000, at(6))], [at(6), at(8)]);
    }

    #[test]
    fn it_carries_its_rate() {
        // 10,000 packets of 1514 B are 6056 grants of 2500 B, the first at 6 ms
        let gone = carry(&mut link(), &[(MS, 1_514); 10_000]);
        assert_eq!(gone.last().map(|gone| gone.1), Some((6 + 6_055 * 2) * MS));
    }
}
