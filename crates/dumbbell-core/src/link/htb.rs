//! A token bucket on an infinitely fast link, as Linux HTB keeps it.

use super::pace::Pace;
use super::{Link, LinkContext, QueueContent};
use crate::units::{Duration, Instant, Rate};

/// Name in experiment files.
pub const NAME: &str = "htb";
/// One line.
pub const TITLE: &str = "a token bucket on an infinitely fast link: a packet arrives when it leaves the queue";
/// Specification and deviations.
pub const SOURCE: &str = "tc-htb(8), one class; the same as shaper = \"htb\"";

crate::params! {
    /// Parameters of a token bucket.
    pub struct Params {
        /// Depth of the bucket.
        burst: u32 = 1514, unit "bytes", range 1514_u32, 100_000_000_u32, source "one frame, the least that sch_htb works with";
    }
}

/// Tokens are nanoseconds of transmission; a packet may leave while there is no debt, and then runs into debt, so that two may follow each
/// other after an idle time.
#[derive(Clone, Debug)]
pub struct State {
    pace: Pace,
    burst: u32,
    tokens: i64,
    depth: i64,
    filled_at: Instant,
}

impl State {
    /// A full bucket.
    pub fn new(params: Params, context: &LinkContext) -> State {
        let depth = context.rate.serialise(u64::from(params.burst)).0 as i64;
        State { pace: Pace::new(context.rate), burst: params.burst, tokens: depth, depth, filled_at: Instant::ZERO }
    }

    /// Bytes that its rate carries in `time`, rounded up.
    pub fn bytes_in(&self, time: Duration) -> u64 {
        self.pace.bytes_in(time)
    }

    /// Debt left at `now`, as time to wait.
    #[inline]
    pub fn debt(&mut self, now: Instant) -> Duration {
        let gained = (now - self.filled_at).0.min(i64::MAX as u64 / 2) as i64;
        self.tokens = (self.tokens + gained).min(self.depth);
        self.filled_at = now;
        Duration((-self.tokens).max(0) as u64)
    }
}

impl Link for State {
    #[inline]
    fn wait(&mut self, waiting: QueueContent, now: Instant) -> Option<Instant> {
        let debt = self.debt(now);
        if waiting.packets == 0 {
            // sch_htb takes a class without packets out of its rounds: the queue is not asked, and does not learn that it is empty
            return Some(Instant::NEVER);
        }
        (debt > Duration::ZERO).then(|| now + debt)
    }

    #[inline]
    fn take(&mut self, bytes: u64, now: Instant) -> Instant {
        self.tokens -= self.pace.take(bytes).0 as i64;
        now
    }

    fn set_rate(&mut self, rate: Rate, now: Instant) {
        self.debt(now);
        self.pace = Pace::new(rate);
        self.depth = rate.serialise(u64::from(self.burst)).0 as i64;
    }

    /// Returns the bytes that the bucket has given and did not get back yet: a full bucket has carried every packet that left.
    fn unsent(&self, now: Instant) -> u64 {
        let missing = (self.depth - self.tokens).max(0).unsigned_abs();
        self.pace.bytes_in(Duration(missing).saturating_sub(now.saturating_since(self.filled_at)))
    }

    fn most_unsent(&self) -> u64 {
        u64::from(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{carry, context};
    use super::*;

    #[test]
    fn two_follow_each_other_after_an_idle_time() {
        // the bucket holds 1514 B, 1.2112 ms at 10 Mbit/s: the second leaves with 514 B of tokens and a debt of 486 B
        let mut link = State::new(Params::default(), &context(10));
        let left = carry(&mut link, &[(0, 1_000), (0, 1_000), (0, 1_000), (9_000_000, 1_000), (9_000_000, 1_000)]);
        assert_eq!(left.iter().map(|gone| gone.1).collect::<Vec<_>>(), [0, 0, 388_800, 9_000_000, 9_000_000]);
    }

    #[test]
    fn what_a_bucket_gives_is_carried_as_it_fills() {
        let mut link = State::new(Params::default(), &context(10));
        assert_eq!(link.unsent(Instant(5)), 0);
        // 2000 B at once are 1.6 ms of the rate
        assert!((link.take(1_000, Instant(0)), link.take(1_000, Instant(0))) == (Instant(0), Instant(0)));
        assert_eq!([0, 800_000, 1_600_000, 9_000_000].map(|at| link.unsent(Instant(at))), [2_000, 1_000, 0, 0]);
    }
}
