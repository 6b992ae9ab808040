//! Wi-Fi: a station waits for the medium, and then sends what has gathered as one aggregate.
//!
//! With packets in the queue, the station waits for a grant. How long it waits is drawn by the jitter model of the C4 tests; it waits while
//! others use the medium, so that this takes nothing from its own share, the rate. At the grant it asks the queue for as many packets as the
//! rate has paid for by then, the last one in part, at least one and at most `frames`. They leave at once, as one aggregate. What an
//! aggregate has no room for is lost to the link: a station that had to wait for long does not send two of them for it.
//!
//! So no packet leaves alone that has waited with others, the queue sees the waiting (as the queues of a Linux station do, which fill an
//! aggregate when the hardware has room), and over long times the link carries its rate, or less if aggregates are full.

use super::{Link, LinkContext, Waiting};
use crate::rng::Rng;
use crate::units::{Rate, Time};

/// Name in experiment files.
pub const NAME: &str = "wifi";
/// One line.
pub const TITLE: &str = "Wi-Fi: packets wait for the medium and leave together";
/// Specification and deviations.
pub const SOURCE: &str = "jitter model of the C4 tests, draft-huitema-ccwg-c4-test-02; there each packet draws a delay behind the queue and holds back those behind it, here each aggregate draws it and its packets wait in the queue";

crate::params! {
    /// Parameters of a Wi-Fi link.
    pub struct Params {
        /// Average time that a grant takes; 1 ms is a good Wi-Fi, 7 ms a bad one, 12 ms one that fades. Below 1 ms it is as at 1 ms, above 91 ms as at 91 ms.
        jitter: Time = Time::from_millis(1), unit "", range Time(0), Time::from_secs(1), source "draft-huitema-ccwg-c4-test-02: averages of good, bad and fading Wi-Fi";
        /// Most packets of an aggregate.
        frames: u32 = 64, unit "packets", range 1_u32, 1_024_u32, source "IEEE 802.11-2016 section 9.3.1.9: a compressed block acknowledgement covers 64 frames; Linux ieee80211.h: IEEE80211_MAX_AMPDU_BUF_HT, and 1024 with EHT";
    }
}

/// The unit of short waits, and the longest that is taken off one.
const SHORT: f64 = 1e6;
/// The unit of long waits, ns.
const LONG: f64 = 7.5e6;
/// Mean of the numbers of short and of long waits, if there are long ones: parameters of Poisson distributions.
const SHORT_WAITS: f64 = 1.0;
const LONG_WAITS: f64 = 12.0;
/// The probability of 0 under these two, e^-1 and e^-12.
const NO_SHORT: f64 = 0.367_879_441_171_442_33;
const NO_LONG: f64 = 6.144_212_353_328_21e-6;
/// Most that long waits add to the average: 12 * 7.5 ms.
const LONG_AVERAGE: f64 = LONG_WAITS * LONG;

/// The station.
#[derive(Clone, Debug)]
pub struct State {
    rate: Rate,
    frames: u32,
    /// Probability that a grant takes long.
    bad: f64,
    rng: Rng,
    /// Packets are waiting for a grant, or are part of one.
    waits: bool,
    /// When the medium is granted, or was last.
    grant: Time,
    /// Packets of this grant.
    taken: u32,
    /// Until when the rate has paid for what was sent.
    paid: Time,
}

/// Draws a number from a Poisson distribution with this mean, whose probability of 0 is `none`: by inversion, so that it takes no functions
/// that processors compute differently.
fn poisson(rng: &mut Rng, mean: f64, none: f64) -> f64 {
    let drawn = rng.next_f64();
    let (mut number, mut probability, mut sum) = (0.0, none, none);
    // the sum comes so near to 1 that nothing drawn is above it long before this
    while drawn >= sum && number < 100.0 {
        number += 1.0;
        probability *= mean / number;
        sum += probability;
    }
    number
}

impl State {
    /// A station that has sent nothing yet.
    pub fn new(params: Params, context: &LinkContext) -> State {
        State {
            rate: context.rate,
            frames: params.frames,
            bad: ((params.jitter.0 as f64 - SHORT) / LONG_AVERAGE).clamp(0.0, 1.0),
            rng: context.rng("link wifi", 0),
            waits: false,
            grant: Time::ZERO,
            taken: 0,
            paid: Time::ZERO,
        }
    }

    /// How long a grant takes.
    fn draw(&mut self) -> Time {
        let is_bad = self.rng.next_f64() < self.bad;
        let long = if is_bad { poisson(&mut self.rng, LONG_WAITS, NO_LONG) } else { 0.0 };
        let short = poisson(&mut self.rng, SHORT_WAITS, NO_SHORT);
        let less = if short >= 1.0 { self.rng.next_f64() * SHORT } else { 0.0 };
        Time((short * SHORT + long * LONG - less) as u64)
    }
}

impl Link for State {
    fn wait(&mut self, waiting: Waiting, now: Time) -> Option<Time> {
        if waiting.packets == 0 {
            self.waits = false;
            return Some(Time::NEVER);
        }
        if !self.waits || self.grant < now {
            // the queue had nothing to send until now
            self.paid = self.paid.max(now);
            self.waits = true;
        } else if now < self.grant {
            return Some(self.grant);
        } else if self.taken == 0 || (self.paid <= now && self.taken < self.frames) {
            return None;
        }
        if self.taken >= self.frames {
            self.paid = self.paid.max(now);
        }
        self.taken = 0;
        self.grant = (self.paid + self.draw()).max(now);
        (self.grant > now).then_some(self.grant)
    }

    fn take(&mut self, bytes: u64, now: Time) -> Time {
        self.paid += self.rate.serialise(bytes);
        self.taken += 1;
        now
    }

    fn set_rate(&mut self, rate: Rate, _now: Time) {
        self.rate = rate;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{carry, context};
    use super::*;

    fn link(jitter_ms: u64, frames: u32) -> State {
        State::new(Params { jitter: Time::from_millis(jitter_ms), frames }, &context(10))
    }

    #[test]
    fn numbers_are_drawn_as_poisson_says() {
        let mut rng = Rng::stream(1, "test", 0);
        for (mean, none) in [(SHORT_WAITS, NO_SHORT), (LONG_WAITS, NO_LONG)] {
            assert!((none - (-mean).exp()).abs() < 1e-12 * none);
            let drawn: Vec<f64> = (0..40_000).map(|_| poisson(&mut rng, mean, none)).collect();
            let average = drawn.iter().sum::<f64>() / 4e4;
            let variance = drawn.iter().map(|one| (one - average) * (one - average)).sum::<f64>() / 4e4;
            // the deviation of the average is sqrt(mean / 40000)
            assert!((average - mean).abs() < 4.0 * (mean / 4e4).sqrt(), "{average}");
            assert!((variance / mean - 1.0).abs() < 0.05, "{variance}");
        }
    }

    #[test]
    fn a_grant_takes_its_average() {
        for (jitter, average) in [(0, 1.0), (1, 1.0), (7, 7.0), (12, 12.0), (500, 91.0)] {
            let mut link = link(jitter, 64);
            let waits: Vec<f64> = (0..40_000).map(|_| link.draw().0 as f64 / 1e6).collect();
            // less up to 1 ms, half of it in the mean, where there is a short wait: in 1 - 1/e of them
            let expected = average - 0.5 * (1.0 - NO_SHORT);
            let found = waits.iter().sum::<f64>() / 4e4;
            assert!((found - expected).abs() < 0.04 * average, "{jitter}: {found}, not {expected}");
        }
    }

    #[test]
    fn packets_that_wait_leave_together() {
        let mut link = link(7, 64);
        // what the first grants will take
        let mut same = link.clone();
        let waits: Vec<u64> = (0..3).map(|_| same.draw().0).collect();
        // 1000 B are 0.8 ms: a grant after w has floor(w / 0.8 ms) + 1 of them, and the next one counts from what the rate has paid
        let left = carry(&mut link, &[(0, 1_000); 300]);
        let (mut paid, mut at, mut packet) = (0, 0, 0);
        for wait in waits {
            at = at.max(paid + wait);
            let count = (1 + (at - paid) / 800_000).min(64) as usize;
            assert!(
                left[packet..packet + count].iter().all(|&gone| gone == (at, at)),
                "{at}: {:?}",
                &left[packet..packet + count]
            );
            paid = if count == 64 { at } else { paid + 800_000 * count as u64 };
            packet += count;
        }
    }

    #[test]
    fn it_carries_its_rate_unless_aggregates_are_full() {
        let last = |frames, jitter| carry(&mut link(jitter, frames), &[(0, 1_000); 20_000]).last().map_or(0, |gone| gone.1);
        // 20,000 packets of 0.8 ms: 16 s, and what the last grants took
        for jitter in [1, 7] {
            let all = last(1_024, jitter);
            assert!((15_900_000_000..16_300_000_000).contains(&all), "{jitter}: {all}");
        }
        // alone each packet takes 0.8 ms or its grant, whichever is longer. With n short waits a grant takes n ms less up to 1 ms: the mean of the
        // longer is 0.8, 0.82, 1.5, 2.5, ... ms for n = 0, 1, 2, 3, ..., together 1.0956 ms, 20,000 times, +- 0.09 s
        let alone = last(1, 1);
        assert!((21_500_000_000..22_300_000_000).contains(&alone), "{alone}");
    }
}
