//! Wi-Fi: a station waits for the medium, and then sends what has gathered as one aggregate.
//!
//! With packets in the queue, the station waits for a grant. How long it waits is drawn by the jitter model of the C4 tests; it waits while
//! others use the medium, so that this takes nothing from its own share, the rate. At the grant it asks the queue for as many packets as the
//! rate has paid for by then, the last one in part, at least one and at most `frames`. They leave at once, as one aggregate. What an
//! aggregate has no room for is lost to the link: a station that had to wait for long does not send two of them for it.
//!
//! So no packet leaves alone that has waited with others, the queue sees the waiting (as the queues of a Linux station do, which fill an
//! aggregate when the hardware has room), and over long times the link carries its rate, or less if aggregates are full.
//!
//! A link that fades has another average for a time, from the first grant in it on.
//!
//! So the link can carry an aggregate of full frames at every grant (`share_of`, [`Link::capacity_deficit`]). At 100 Mbit/s such an aggregate is 7.8 ms of
//! the rate, and a grant that takes 90 ms loses the rest.

use super::pace::Pace;
use super::{Link, LinkContext, QueueContent};
use crate::packet::MTU_FRAME;
use crate::rng::Rng;
use crate::units::{Duration, Instant, Rate};

/// Name in experiment files.
pub const NAME: &str = "wifi";
/// One line.
pub const TITLE: &str = "Wi-Fi: packets wait for the medium and leave together";
/// Specification and deviations.
pub const SOURCE: &str = "jitter model of the C4 tests, draft-huitema-ccwg-c4-test-02; there each packet draws a delay behind the queue and holds back those behind it, here each aggregate draws it and its packets wait in the queue";

crate::params! {
    /// Parameters of a Wi-Fi link.
    pub struct Params {
        /// Average of the C4 model, in which 1 ms is a good Wi-Fi, 7 ms a bad one, and 12 ms one that fades. A grant takes 0.68 ms in the mean
        /// (0.32 ms less than 1 ms, because a part of a millisecond is taken off), and 90 ms more with a probability of
        /// (jitter - 1 ms) / 90 ms: 0.067 at 7 ms. Below 1 ms it is as at 1 ms, above 91 ms as at 91 ms.
        jitter: Duration = Duration::from_millis(1), unit "", range Duration(0), Duration::from_secs(1), source "draft-huitema-ccwg-c4-test-02: averages of good, bad and fading Wi-Fi";
        /// From this time on the link fades: until `fade_to`, its average is `fade_jitter`. The rate does not change; rate_changes can lower it for this time.
        fade_from: Option<Instant> = None, unit "", range Instant(0), Instant::from_secs(86_400), source "draft-huitema-ccwg-c4-test-02: from 1 s to 3 s; by default it does not fade";
        /// Until this time; unset: until the end.
        fade_to: Option<Instant> = None, unit "", range Instant(0), Instant::from_secs(86_400), source "draft-huitema-ccwg-c4-test-02: from 1 s to 3 s";
        /// Average of the C4 model while the link fades.
        fade_jitter: Duration = Duration::from_millis(12), unit "", range Duration(0), Duration::from_secs(1), source "draft-huitema-ccwg-c4-test-02: 12 ms while it fades";
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

/// How often grants take long, and what follows for the link.
#[derive(Clone, Copy, Debug)]
struct Medium {
    /// Probability that a grant takes long.
    bad: f64,
    /// The share of the rate that the link can carry.
    share: f64,
}

impl Medium {
    fn new(jitter: Duration, full: Duration, frames: u32) -> Medium {
        let bad = ((jitter.0 as f64 - SHORT) / LONG_AVERAGE).clamp(0.0, 1.0);
        Medium { bad, share: share_of(bad, full, frames) }
    }

    /// Returns the same medium at another rate.
    fn with_rate(self, full: Duration, frames: u32) -> Medium {
        Medium { share: share_of(self.bad, full, frames), ..self }
    }
}

/// A time in which the link fades.
#[derive(Clone, Copy, Debug)]
struct Fading {
    from: Instant,
    to: Instant,
    /// Whether the link is in it, as far as the station has followed.
    is_on: bool,
    /// The medium of the other time.
    other: Medium,
}

/// The station.
#[derive(Clone, Debug)]
pub struct State {
    pace: Pace,
    frames: u32,
    /// Time that a full aggregate of full frames takes from the rate.
    full: Duration,
    /// How often grants take long, and the share of the rate that the link can carry.
    medium: Medium,
    /// When the link fades, and the medium of the time that it is not in now: of fading, or of the rest.
    fades: Option<Fading>,
    rng: Rng,
    /// Packets are waiting for a grant, or are part of one.
    waits: bool,
    /// When the medium is granted, or was last.
    grant: Instant,
    /// Packets of this grant.
    taken: u32,
    /// Until when the rate has paid for what was sent, and had paid when this grant was asked for.
    paid: Instant,
    paid_before: Instant,
    /// Since when packets have been waiting or leaving.
    busy_since: Instant,
    /// Bytes that the link could carry less than its share until then.
    lost: f64,
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
        let full = aggregate(context.rate, params.frames);
        let fades = params.fade_from.map(|from| Fading {
            from,
            to: params.fade_to.unwrap_or(Instant::NEVER),
            is_on: false,
            other: Medium::new(params.fade_jitter, full, params.frames),
        });
        State {
            pace: Pace::new(context.rate),
            frames: params.frames,
            full,
            medium: Medium::new(params.jitter, full, params.frames),
            fades,
            rng: context.rng("link wifi", 0),
            waits: false,
            grant: Instant::ZERO,
            taken: 0,
            paid: Instant::ZERO,
            paid_before: Instant::ZERO,
            busy_since: Instant::ZERO,
            lost: 0.0,
        }
    }

    /// Bytes that the rate carries in `ns`.
    fn bytes_in(&self, ns: f64) -> f64 {
        ns * self.pace.rate().bits() as f64 / 8e9
    }

    /// Ends a grant, or the wait for it: bytes that the rate had paid for and that a full aggregate has no room for are lost.
    fn close_grant(&mut self) {
        if self.taken > 0 {
            let used = (self.paid - self.paid_before).max(self.full);
            let lost = self.grant.saturating_since(self.paid_before).saturating_sub(used);
            self.lost += self.bytes_in(lost.0 as f64);
        }
    }

    /// Notes that no packet waits from `now` on. While none waits, the link could carry its share; while packets wait, its capacity is known.
    fn rest(&mut self, now: Instant) {
        if self.waits {
            self.close_grant();
            let busy = now.saturating_since(self.busy_since);
            self.lost -= (1.0 - self.medium.share) * self.bytes_in(busy.0 as f64);
            self.waits = false;
        }
        self.taken = 0;
    }

    /// Counts what was carried until now at the share of the rate that the link could carry until now.
    fn settle(&mut self, now: Instant) {
        if self.waits {
            let busy = now.saturating_since(self.busy_since);
            self.lost -= (1.0 - self.medium.share) * self.bytes_in(busy.0 as f64);
            self.busy_since = self.busy_since.max(now);
        }
    }

    /// Takes the medium that the link has at `now`.
    fn follow_fading(&mut self, now: Instant) {
        let Some(fading) = self.fades else { return };
        let is_on = fading.from <= now && now < fading.to;
        if is_on != fading.is_on {
            self.settle(now);
            self.fades = Some(Fading { is_on, other: self.medium, ..fading });
            self.medium = fading.other;
        }
    }

    /// How long a grant takes.
    fn draw(&mut self) -> Duration {
        let is_bad = self.rng.next_f64() < self.medium.bad;
        let long = if is_bad { poisson(&mut self.rng, LONG_WAITS, NO_LONG) } else { 0.0 };
        let short = poisson(&mut self.rng, SHORT_WAITS, NO_SHORT);
        let less = if short >= 1.0 { self.rng.next_f64() * SHORT } else { 0.0 };
        Duration((short * SHORT + long * LONG - less) as u64)
    }
}

impl Link for State {
    fn wait(&mut self, waiting: QueueContent, now: Instant) -> Option<Instant> {
        if waiting.packets == 0 {
            self.rest(now);
            return Some(Instant::NEVER);
        }
        if !self.waits || self.grant < now {
            // the queue had nothing to send until now
            self.rest(self.grant.max(self.busy_since));
            self.paid = self.paid.max(now);
            self.busy_since = now;
            self.waits = true;
        } else if now < self.grant {
            return Some(self.grant);
        } else if self.taken == 0 || (self.paid <= now && self.taken < self.frames) {
            return None;
        }
        self.close_grant();
        self.follow_fading(now);
        if self.taken >= self.frames {
            self.paid = self.paid.max(now);
        }
        self.taken = 0;
        self.paid_before = self.paid;
        self.grant = (self.paid + self.draw()).max(now);
        (self.grant > now).then_some(self.grant)
    }

    fn take(&mut self, bytes: u64, now: Instant) -> Instant {
        self.paid += self.pace.take(bytes);
        self.taken += 1;
        now
    }

    fn set_rate(&mut self, rate: Rate, now: Instant) {
        self.follow_fading(now);
        self.settle(now);
        if self.waits {
            // time that the rate has paid, or that packets owe to it, stays as it is, and is worth bytes of the new rate
            let paid = now.0 as f64 - self.paid_before.0 as f64;
            self.lost += self.bytes_in(paid) - paid * rate.bits() as f64 / 8e9;
        }
        self.pace = Pace::new(rate);
        self.full = aggregate(rate, self.frames);
        self.medium = self.medium.with_rate(self.full, self.frames);
        if let Some(fading) = &mut self.fades {
            fading.other = fading.other.with_rate(self.full, self.frames);
        }
    }

    fn unsent(&self, now: Instant) -> u64 {
        self.pace.bytes_in(self.paid.saturating_since(now))
    }

    fn capacity_deficit(&self, now: Instant) -> i64 {
        let mut until = self.clone();
        if until.waits && until.taken == 0 {
            // as if it were granted now
            (until.grant, until.taken) = (until.grant.min(now), 1);
        }
        until.rest(now);
        until.lost as i64
    }

    fn open(&mut self, from: Instant, until: Instant) -> f64 {
        let whole = (until - from).as_secs_f64() * self.medium.share;
        let Some(fading) = self.fades else { return whole };
        // the part of this time in which the medium is the other one
        let faded = fading.to.min(until).saturating_since(fading.from.max(from));
        let other = if fading.is_on { (until - from).saturating_sub(faded) } else { faded };
        whole + other.as_secs_f64() * (fading.other.share - self.medium.share)
    }
}

/// Time that an aggregate of `frames` full frames takes at `rate`.
fn aggregate(rate: Rate, frames: u32) -> Duration {
    rate.serialise(u64::from(MTU_FRAME) * u64::from(frames))
}

/// Parts into which the millisecond is cut that is taken off a short wait: the mean over it is taken at their middles.
const PARTS: u32 = 32;

/// The share of the rate that a queue of full frames that is never empty gets, if a grant takes long with the probability `bad` and `frames` of
/// them, an aggregate, take `full`: the mean of what a grant sends over the mean of the time it takes from the rate. A grant after `w` sends as
/// many frames as the rate has paid for, and one; if those are all of an aggregate, the rest of `w` is lost.
fn share_of(bad: f64, full: Duration, frames: u32) -> f64 {
    let frame = full.0 as f64 / f64::from(frames);
    if frame <= 0.0 {
        return 1.0;
    }
    let (mut sent, mut taken) = (0.0, 0.0);
    let mut weigh = |wait: f64, probability: f64| {
        let count = ((wait / frame).floor() + 1.0).min(f64::from(frames));
        sent += probability * count * frame;
        taken += probability * if count < f64::from(frames) { count * frame } else { wait.max(count * frame) };
    };
    for (long, of_long) in
        [(0.0, 1.0 - bad)].into_iter().chain(distribution(LONG_WAITS, NO_LONG).map(|(n, p)| (n * LONG, p * bad)))
    {
        if of_long <= 0.0 {
            continue;
        }
        for (short, probability) in distribution(SHORT_WAITS, NO_SHORT).map(|(n, p)| (n * SHORT, p * of_long)) {
            if short == 0.0 {
                weigh(long, probability);
                continue;
            }
            for part in 0..PARTS {
                let less = SHORT * (f64::from(part) + 0.5) / f64::from(PARTS);
                weigh(long + short - less, probability / f64::from(PARTS));
            }
        }
    }
    sent / taken
}

/// Numbers with their probabilities under a Poisson distribution, as far as they matter.
fn distribution(mean: f64, none: f64) -> impl Iterator<Item = (f64, f64)> {
    let mut probability = none;
    (0..60_u32).map(move |number| {
        if number > 0 {
            probability *= mean / f64::from(number);
        }
        (f64::from(number), probability)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{carry, context, waiting};
    use super::*;

    fn link(jitter_ms: u64, frames: u32) -> State {
        State::new(Params { jitter: Duration::from_millis(jitter_ms), frames, ..Params::default() }, &context(10))
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
    fn its_capacity_is_what_a_full_queue_gets() {
        // full frames, always enough of them: what it carries is what it could, to the byte, and in the mean its share of the rate
        for (mbit, jitter, frames) in [(100, 7, 64), (100, 1, 64), (20, 12, 16), (10, 1, 1), (1_000, 7, 1_024), (10, 7, 64)] {
            let mut link =
                State::new(Params { jitter: Duration::from_millis(jitter), frames, ..Params::default() }, &context(mbit));
            let until = Instant::from_secs(400);
            let mut carried = 0;
            let mut now = Instant::ZERO;
            while now < until {
                match link.wait(waiting(10_000), now) {
                    Some(later) => now = later,
                    None => {
                        link.take(1_514, now);
                        carried += 1_514;
                    }
                }
            }
            let could =
                Rate::from_mbit(mbit).bits() as f64 / 8.0 * link.open(Instant::ZERO, now) - link.capacity_deficit(now) as f64;
            let used = (carried - link.unsent(now)) as f64 / could;
            assert!((0.999..=1.0).contains(&used), "{mbit} Mbit/s, {jitter} ms, {frames}: {used}");
            let mean = carried as f64 * 8.0 / now.as_secs_f64() / Rate::from_mbit(mbit).bits() as f64;
            assert!(
                (mean / link.medium.share - 1.0).abs() < 0.06,
                "{mbit} Mbit/s, {jitter} ms, {frames}: {mean}, not {}",
                link.medium.share
            );
        }
    }

    #[test]
    fn its_capacity_follows_changes_of_the_rate() {
        for (first, second, jitter, frames) in
            [(100, 1, 7, 4), (1, 100, 7, 4), (1, 100, 12, 1_024), (100, 1, 12, 64), (5, 50, 1, 1)]
        {
            let mut link =
                State::new(Params { jitter: Duration::from_millis(jitter), frames, ..Params::default() }, &context(first));
            let (mut carried, mut could, mut now, mut changed) = (0, 0.0, Instant::ZERO, Instant::ZERO);
            // the rates take turns, each for some 300 ms and never at the instant of a grant
            for turn in 0..400_u64 {
                let mbit = [first, second][turn as usize % 2];
                let until = Instant::from_millis((turn + 1) * 300) + Duration(turn * 1_234_567);
                loop {
                    match link.wait(waiting(10_000), now) {
                        Some(later) if later > until => break,
                        Some(later) => now = later,
                        None => {
                            link.take(1_514, now);
                            carried += 1_514;
                        }
                    }
                }
                could += Rate::from_mbit(mbit).bits() as f64 / 8.0 * link.open(changed, until);
                (now, changed) = (until, until);
                let carries = carried as f64 - link.unsent(now) as f64;
                let most = could - link.capacity_deficit(now) as f64;
                // a frame, or what is owed of it, counts at either rate
                let frame = (1 + turn) as f64 * 1_514.0;
                assert!(carries <= most + frame, "{first} and {second} Mbit/s, {jitter} ms, {frames}: {carries} of {most}");
                link.set_rate(Rate::from_mbit([second, first][turn as usize % 2]), until);
            }
            let used = carried as f64 / (could - link.capacity_deficit(now) as f64);
            assert!((0.97..=1.03).contains(&used), "{first} and {second} Mbit/s, {jitter} ms, {frames}: {used}");
        }
    }

    #[test]
    fn a_link_that_fades_has_the_average_of_the_time() {
        let params =
            Params { fade_from: Some(Instant::from_secs(100)), fade_to: Some(Instant::from_secs(300)), ..Params::default() };
        let mut link = State::new(params, &context(100));
        let mut grants = Vec::new();
        let (mut carried, mut now) = (0.0, Instant::ZERO);
        while now < Instant::from_secs(400) {
            match link.wait(waiting(10_000), now) {
                Some(later) => {
                    // the time that the rate has paid for goes by as well
                    grants.push((now.as_secs_f64(), (later - link.paid_before).as_secs_f64() * 1e3));
                    now = later;
                }
                None => {
                    link.take(1_514, now);
                    carried += 1_514.0;
                }
            }
        }
        let mean = |from: f64, to: f64| {
            let within: Vec<f64> = grants.iter().filter(|grant| (from..to).contains(&grant.0)).map(|grant| grant.1).collect();
            within.iter().sum::<f64>() / within.len() as f64
        };
        // as in `a_grant_takes_its_average`: 0.684 ms, and 11 ms more while it fades
        for (from, to, average, within) in [(0.0, 100.0, 0.684, 0.02), (100.0, 300.0, 11.684, 1.0), (300.0, 400.0, 0.684, 0.02)] {
            let found = mean(from, to);
            assert!((found - average).abs() < within, "from {from} s: {found}, not {average}");
        }
        // what it carried is what it could, in the time that fades and in the other
        let could = 12.5e6 * link.open(Instant::ZERO, now) - link.capacity_deficit(now) as f64;
        let used = (carried - link.unsent(now) as f64) / could;
        assert!((0.998..=1.002).contains(&used), "{used}");
        // asked of a part of it
        let good = link.open(Instant::ZERO, Instant::from_secs(100));
        let bad = link.open(Instant::from_secs(100), Instant::from_secs(300));
        assert!(bad / 200.0 < good / 100.0);
        assert!((link.open(Instant::from_secs(50), Instant::from_secs(350)) - good - bad).abs() < 1e-9);
    }

    #[test]
    fn while_it_rests_it_could_carry_its_share() {
        let mut link = State::new(Params { jitter: Duration::from_millis(7), frames: 64, ..Params::default() }, &context(100));
        assert_eq!(link.capacity_deficit(Instant::from_secs(9)), 0);
        // a packet, and nothing behind it: what it could carry meanwhile is at most the rate
        let granted = link.wait(waiting(1), Instant::from_secs(10)).expect("a grant");
        assert_eq!(link.wait(waiting(1), granted), None);
        link.take(1_514, granted);
        link.wait(waiting(0), granted);
        let busy = (granted - Duration::from_secs(10)).as_secs_f64();
        let gained = -link.capacity_deficit(Instant::from_secs(20)) as f64;
        assert!(gained <= (1.0 - link.medium.share) * busy * 12.5e6 && gained > -busy * 12.5e6, "{gained} in {busy} s");
        assert_eq!(link.capacity_deficit(Instant::from_secs(20)), link.capacity_deficit(Instant::from_secs(30)));
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
