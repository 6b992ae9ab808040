//! A cable modem's way up: it asks for room, gets a grant some intervals later, and sends a grant's worth at once.
//!
//! Time is divided into intervals, for each of which the head end allots room (the MAP). Once in each, the modem asks for what is in its queue
//! and not asked for yet; the answer comes `pipeline` intervals later. An interval grants what was asked for, at most what the rate carries in
//! an interval; more has to wait for the next ones. At the instant of a grant, the queue is asked for packets until the grant is used up, and
//! they leave. A packet that exceeds it goes on in the next grants and has left at the instant of the one in which its last byte is
//! (continuous concatenation and fragmentation). The unused part of a grant is lost.
//!
//! The head end places grants of many modems in an interval. So the instant of an interval, at which this modem sends and asks, is drawn
//! uniformly over it; requests ride on grants. Where intervals begin is drawn too, since no sender knows the clock of the head end: nothing
//! is at the same place of each interval, or of each run.

use super::pace::Pace;
use super::{Link, LinkContext, QueueContent};
use crate::rng::mix;
use crate::units::{Duration, Instant, Rate};

/// Name in experiment files.
pub const NAME: &str = "docsis";
/// One line.
pub const TITLE: &str = "a cable modem's way up: requests, and grants some milliseconds later";
/// Specification and deviations.
pub const SOURCE: &str = "CM-SP-MULPIv3.1, best-effort scheduling, with intervals, pipeline and drawn places of grants as in CableLabs' model docsis-ns3; without collisions of requests; a grant takes no time on the channel";

crate::params! {
    /// Parameters of a cable modem's way up.
    pub struct Params {
        /// For how long a MAP allots room.
        interval: Duration = Duration::from_millis(2), unit "", range Duration::from_micros(100), Duration::from_secs(1), source "cablelabs/docsis-ns3, doc/source/system-configuration.rst: MapInterval, 2e-3 s; model-overview.rst: typically 1 to 2 ms";
        /// Intervals from a request to its grant.
        pipeline: u32 = 2, unit "intervals", range 1_u32, 16_u32, source "cablelabs/docsis-ns3, doc/source/model-overview.rst: what is asked for in MAP interval z - 2, ahead of the deadline, is granted in z";
    }
}

/// Longest pipeline.
const MOST: usize = 16;

/// Modem and head end.
#[derive(Clone, Debug)]
pub struct State {
    pace: Pace,
    interval: Duration,
    pipeline: usize,
    /// When the first whole interval begins; the one before it is number 0 and grants nothing.
    first: Instant,
    /// Seed from which the place of each interval's instant is drawn.
    seed: u64,
    /// The last interval whose instant has come.
    number: u64,
    /// Bytes that were asked for in each interval, by its number, and all of them.
    asked: [u64; MOST],
    asked_in_all: u64,
    /// Bytes that the head end knows of and has not granted.
    known: u64,
    /// Rest of the interval, as ns of transmission; the next intervals pay a debt.
    left: i64,
}

impl State {
    /// A modem that has asked for nothing.
    pub fn new(params: Params, context: &LinkContext) -> State {
        let pipeline = (params.pipeline as usize).clamp(1, MOST);
        let Params { interval, .. } = params;
        let mut rng = context.rng("link docsis", 0);
        State {
            pace: Pace::new(context.rate),
            interval,
            pipeline,
            first: Instant(rng.draw_below(interval.0)),
            seed: rng.next_u64(),
            number: 0,
            asked: [0; MOST],
            asked_in_all: 0,
            known: 0,
            left: interval.0 as i64,
        }
    }

    /// Bytes that take `ns` on the link.
    fn bytes_in(&self, ns: i64) -> u64 {
        (u128::from(ns.max(0).unsigned_abs()) * u128::from(self.pace.rate().bits()) / 8_000_000_000) as u64
    }

    /// When interval `number`, which is not 0, begins.
    fn begin(&self, number: u64) -> Instant {
        self.first.saturating_add(Duration((number - 1).saturating_mul(self.interval.0)))
    }

    /// When the modem sends and asks in interval `number`; in interval 0 it does neither.
    fn instant(&self, number: u64) -> Instant {
        if number == 0 {
            return Instant::ZERO;
        }
        let place = (u128::from(mix(self.seed ^ mix(number))) * u128::from(self.interval.0)) >> 64;
        self.begin(number).saturating_add(Duration(place as u64))
    }

    /// The last interval whose instant is not after `now`.
    fn interval_at(&self, now: Instant) -> u64 {
        if now < self.first {
            return 0;
        }
        let number = (now - self.first).0 / self.interval.0 + 1;
        if self.instant(number) <= now {
            number
        } else {
            number - 1
        }
    }

    /// The next interval begins.
    fn begin_next(&mut self) {
        // the unused part of the grant
        self.known -= self.known.min(self.bytes_in(self.left));
        self.left = self.left.min(0) + self.interval.0 as i64;
        self.number += 1;
        let answered = &mut self.asked[(self.number % self.pipeline as u64) as usize];
        self.known += *answered;
        self.asked_in_all -= std::mem::take(answered);
    }

    /// Goes on to the last instant that is not after `now`.
    fn go_to(&mut self, now: Instant) {
        let number = self.interval_at(now);
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
    fn wait(&mut self, waiting: QueueContent, now: Instant) -> Option<Instant> {
        let before = self.number;
        self.go_to(now);
        let instant = self.instant(self.number);
        if now == instant && self.number > before {
            // with the request of this interval: there is none yet, since it was just answered
            let place = (self.number % self.pipeline as u64) as usize;
            let more = waiting.bytes.saturating_sub(self.asked_in_all + self.known);
            self.asked[place] += more;
            self.asked_in_all += more;
        }
        if waiting.packets == 0 {
            return Some(Instant::NEVER);
        }
        (now > instant || self.known == 0 || self.left <= 0).then(|| self.instant(self.number + 1))
    }

    fn take(&mut self, bytes: u64, now: Instant) -> Instant {
        self.left -= self.pace.take(bytes).0 as i64;
        self.known = self.known.saturating_sub(bytes);
        let debt = (-self.left).max(0).unsigned_abs();
        match debt.div_ceil(self.interval.0) {
            0 => now,
            later => self.instant(self.number + later),
        }
    }

    fn set_rate(&mut self, rate: Rate, _now: Instant) {
        self.pace = Pace::new(rate);
    }

    /// A grant's worth leaves at once and is carried in the time of its interval.
    fn unsent(&self, now: Instant) -> u64 {
        if self.number == 0 {
            return 0;
        }
        let used = (self.interval.0 as i64 - self.left).max(0).unsigned_abs();
        self.pace.bytes_in(Duration(used).saturating_sub(now.saturating_since(self.begin(self.number))))
    }

    fn most_unsent(&self) -> u64 {
        self.pace.bytes_in(self.interval)
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

    /// The instant at which the modem sends in each of the first intervals, ns.
    fn instants() -> Vec<u64> {
        (0..6_100).map(|number| link().instant(number).0).collect()
    }

    fn departures(arrivals: &[(u64, u64)]) -> Vec<u64> {
        carry(&mut link(), arrivals).into_iter().map(|gone| gone.1).collect()
    }

    #[test]
    fn instants_are_drawn_uniformly_over_intervals_that_begin_anywhere() {
        let mut begins = Vec::new();
        let mut places = Vec::new();
        for seed in 0..2_000 {
            let link = State::new(Params::default(), &LinkContext { seed, ..context(10) });
            begins.push(link.first.0 as f64 / MS as f64);
            for number in 1..4 {
                let place = link.instant(number) - link.begin(number);
                assert!(place < link.interval && link.interval_at(link.instant(number)) == number);
                assert!(link.interval_at(Instant(link.instant(number + 1).0 - 1)) == number);
                places.push(place.0 as f64 / MS as f64);
            }
        }
        // uniform over 2 ms: mean 1 ms, mean square 4/3 ms; 0.58 ms / sqrt(2000) are 0.013 ms
        for list in [begins, places] {
            let mean = |of: fn(f64) -> f64| list.iter().map(|&one| of(one)).sum::<f64>() / list.len() as f64;
            assert!((mean(|one| one) - 1.0).abs() < 0.05 && (mean(|one| one * one) - 4.0 / 3.0).abs() < 0.1);
        }
    }

    #[test]
    fn a_packet_waits_for_request_and_grant() {
        let at = instants();
        // asked for in interval 1, granted in interval 3
        assert_eq!(departures(&[(0, 1_000)]), [at[3]]);
        // one that comes at the instant of an interval asks in it, one that comes after it asks in the next
        assert_eq!(departures(&[(at[10], 1_000)]), [at[12]]);
        assert_eq!(departures(&[(at[10], 1_000), (at[10] + 1, 1_000)]), [at[12], at[13]]);
    }

    #[test]
    fn packets_leave_in_grants_of_the_rate() {
        let at = instants();
        // 7 packets of 1000 B, asked for in interval 1: 2500 B in each from 3 on; the third leaves with the grant that has its last byte
        assert_eq!(departures(&[(0, 1_000); 7]), [3, 3, 4, 4, 4, 5, 5].map(|number| at[number]));
        // a frame of 6000 B takes three grants, and leaves room in the last one
        assert_eq!(departures(&[(0, 6_000), (0, 1_000)]), [at[5], at[5]]);
    }

    #[test]
    fn what_nobody_uses_is_lost() {
        let mut link = link();
        let at: Vec<Instant> = instants().into_iter().map(Instant).collect();
        let queue = |packets, bytes| QueueContent { packets, bytes };
        // asks for 5000 B, which are dropped
        assert_eq!(link.wait(queue(5, 5_000), at[1]), Some(at[2]));
        assert_eq!(link.wait(queue(0, 0), at[2]), Some(Instant::NEVER));
        // the grant of interval 3 is lost, that of 4 has the other 2500 B
        assert_eq!(link.wait(queue(4, 4_000), at[4]), None);
        assert_eq!([link.take(2_000, at[4]), link.take(2_000, at[4])], [at[4], at[5]]);
    }

    #[test]
    fn it_carries_its_rate() {
        // 10,000 packets of 1514 B are 6056 grants of 2500 B, the first in interval 3
        let gone = carry(&mut link(), &[(0, 1_514); 10_000]);
        assert_eq!(gone.last().map(|gone| gone.1), Some(instants()[3 + 6_055]));
    }

    #[test]
    fn a_grant_is_carried_in_its_interval() {
        let mut link = link();
        let at: Vec<Instant> = instants().into_iter().map(Instant).collect();
        assert!(
            link.wait(QueueContent { packets: 4, bytes: 4_000 }, at[1]).is_some()
                && link.wait(QueueContent { packets: 4, bytes: 4_000 }, at[3]).is_none()
        );
        let (begins, ends) = (link.begin(3), link.begin(4));
        assert_eq!([link.take(2_000, at[3]), link.take(2_000, at[3])], [at[3], at[4]]);
        // 4000 B are 3.2 ms of the rate, which count from the beginning of the interval
        let passed = (at[3] - begins).0;
        assert_eq!(link.unsent(at[3]), (3_200_000 - passed).div_ceil(800));
        assert_eq!((link.unsent(ends), link.unsent(ends + Duration(1_200_000))), (1_500, 0));
    }
}
