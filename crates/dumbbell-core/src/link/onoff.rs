//! Suspension: a serial link that carries for a time and then not for a time.
//!
//! A packet that is on the link when a suspension begins goes on where it was when that is over. The queue is not asked meanwhile.

use super::pace::Pace;
use super::{Link, LinkContext, QueueContent};
use crate::rng::Rng;
use crate::traffic::{exponential, Times};
use crate::units::{Duration, Instant, Rate};

/// Name in experiment files.
pub const NAME: &str = "onoff";
/// One line.
pub const TITLE: &str = "suspension: a serial link that is on for a time and off for a time";
/// Specification and deviations.
pub const SOURCE: &str = "draft-huitema-ccwg-c4-test-02, the case with suspensions; black holes are one long time off";

crate::params! {
    /// Parameters of a link with suspensions.
    pub struct Params {
        /// For how long it carries packets, first from 0 on.
        on: Duration = Duration::from_millis(1_800), unit "", range Duration::from_millis(1), Duration::from_secs(86_400), source "draft-huitema-ccwg-c4-test-02: 1.8 s on";
        /// For how long it carries nothing.
        off: Duration = Duration::from_millis(200), unit "", range Duration(0), Duration::from_secs(86_400), source "draft-huitema-ccwg-c4-test-02: 0.2 s off";
        /// Whether both times are always the same or exponentially distributed with these means.
        times: Times = Times::Fixed, unit "", source "fixed: draft-huitema-ccwg-c4-test-02; exponential: an on-off process of two states";
    }
}

/// The link: a time on, and the time off behind it.
#[derive(Clone, Debug)]
pub struct State {
    pace: Pace,
    /// The last packet, bytes, and when it has left.
    last: (u64, Instant),
    on: Duration,
    off: Duration,
    /// Random numbers of the times, if they are drawn.
    rng: Option<Rng>,
    /// The end of the time on, and of the time off behind it.
    closes: Instant,
    opens: Instant,
}

impl State {
    /// On from time 0.
    pub fn new(params: Params, context: &LinkContext) -> State {
        let rng = (params.times == Times::Exponential).then(|| context.rng("link onoff", 0));
        let mut link = State {
            pace: Pace::new(context.rate),
            last: (0, Instant::ZERO),
            on: params.on,
            off: params.off,
            rng,
            closes: Instant::ZERO,
            opens: Instant::ZERO,
        };
        link.next_period();
        link
    }

    fn draw(rng: &mut Option<Rng>, mean: Duration) -> Duration {
        rng.as_mut().map_or(mean, |rng| exponential(1.0 / mean.as_secs_f64(), rng))
    }

    fn next_period(&mut self) {
        self.closes = self.opens.saturating_add(State::draw(&mut self.rng, self.on));
        self.opens = self.closes.saturating_add(State::draw(&mut self.rng, self.off));
    }

    /// Goes on to the period of `now`, which is not before the one it is in.
    fn go_to(&mut self, now: Instant) {
        if self.rng.is_none() && self.opens <= now {
            let period = self.on + self.off;
            let skipped = Duration((now - self.opens).0 / period.0 * period.0);
            self.opens += skipped;
        }
        while self.opens <= now {
            self.next_period();
        }
    }
}

impl Link for State {
    fn wait(&mut self, waiting: QueueContent, now: Instant) -> Option<Instant> {
        self.go_to(now);
        if now < self.closes {
            return None;
        }
        Some(if waiting.packets == 0 { Instant::NEVER } else { self.opens })
    }

    fn take(&mut self, bytes: u64, now: Instant) -> Instant {
        let (mut at, mut left) = (now, self.pace.take(bytes));
        loop {
            self.go_to(at);
            let open = self.closes.saturating_since(at);
            if left <= open {
                self.last = (bytes, at + left);
                return at + left;
            }
            left -= open;
            at = self.opens;
        }
    }

    fn set_rate(&mut self, rate: Rate, _now: Instant) {
        self.pace = Pace::new(rate);
    }

    /// A time off in front of what is left counts as if it carried: so it is no less than is left.
    fn unsent(&self, now: Instant) -> u64 {
        let (bytes, ends) = self.last;
        self.pace.bytes_in(ends.saturating_since(now)).min(bytes)
    }

    fn open(&mut self, from: Instant, until: Instant) -> f64 {
        let (mut at, mut open) = (from, Instant::ZERO);
        while at < until {
            self.go_to(at);
            open += self.closes.min(until).saturating_since(at);
            at = self.opens;
        }
        open.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{carry, context, waiting};
    use super::*;

    fn link(on: u64, off: u64, times: Times) -> State {
        State::new(Params { on: Duration::from_millis(on), off: Duration::from_millis(off), times }, &context(10))
    }

    #[test]
    fn a_packet_goes_on_after_the_suspension() {
        // 1000 B take 0.8 ms: on until 2 ms, off until 5 ms, on until 7 ms
        let left = carry(&mut link(2, 3, Times::Fixed), &[(0, 1_000), (0, 1_000), (0, 1_000), (0, 500)]);
        assert_eq!(left, [(0, 800_000), (800_000, 1_600_000), (1_600_000, 5_400_000), (5_400_000, 5_800_000)]);
        // one that comes while it is off waits; one of 10,000 B, 8 ms, takes four times on; one comes just at the end of a time on
        let later = carry(&mut link(2, 3, Times::Fixed), &[(3_000_000, 10_000), (37_000_000, 1_250)]);
        assert_eq!(later, [(5_000_000, 22_000_000), (40_000_000, 41_000_000)]);
        assert_eq!(carry(&mut link(2, 3, Times::Fixed), &[(0, 2_500), (0, 1_250)]), [(0, 2_000_000), (5_000_000, 6_000_000)]);
    }

    #[test]
    fn it_skips_far_and_counts_the_open_time() {
        let mut link = link(2, 3, Times::Fixed);
        assert_eq!(link.wait(waiting(1), Instant(5_000_000_000_000_001_000)), None);
        assert_eq!(link.closes, Instant(5_000_000_000_002_000_000));
        let open = |from: u64, until: u64| {
            let mut default = State::new(Params::default(), &context(10));
            default.open(Instant::from_millis(from), Instant::from_millis(until))
        };
        // 1.8 s on, 0.2 s off
        assert_eq!([open(0, 10_000), open(1_700, 2_100), open(1_850, 1_900)], [9.0, 0.2, 0.0]);
    }

    #[test]
    fn exponential_times_have_their_means_and_differ_by_seed() {
        let until = Instant::from_secs(20_000);
        let open = |seed| {
            let params = Params { times: Times::Exponential, ..Params::default() };
            State::new(params, &LinkContext { rate: Rate::from_mbit(10), seed, run_seed: seed }).open(Instant::ZERO, until)
        };
        // on for 0.9 of the time; of 10,000 periods the share has a deviation of about 0.9 * 0.1 * sqrt(2 / 10000) = 0.0013
        assert!((open(1) / 20_000.0 - 0.9).abs() < 0.006, "{}", open(1));
        assert!(open(1) != open(2) && open(1) == open(1));
    }
}
