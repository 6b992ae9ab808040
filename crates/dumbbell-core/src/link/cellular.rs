//! A cellular link for one user: a serial link whose rate makes a Brownian motion, and, if it is the way up, requests for room.
//!
//! Radio conditions and the other users of the cell change the rate that the scheduler gives to one user. The rate is a share of the hop's rate,
//! which is the highest. In steps of 20 ms the share rises or falls by the same amount, each with a probability of one half, and is reflected at
//! `low_rate` and at 1, so that in the long run all shares between them are equally likely. A packet goes on at the new rate when the rate changes.
//!
//! A modem has no room until it asks for it. If `request` is not 0, a packet that finds the queue empty waits for the next opportunity to ask, one
//! each `request`, and then for the time `grant`. As long as packets wait, reports of them travel with the packets, and the link goes on.
//!
//! Slots and retransmissions are the stage `harq`, behind the link.
//!
//! The motion is that of Winstein et al. The standard deviation between the means of two seconds is the motion times the root of 2/3. In the downloads of
//! uccmisl/5Gdataset it is 0.18 of the 95th percentile of the rate at rest (5G, median of 5 files) and 0.21 in a car (LTE, 11 files; 5G, 15 files), which are motions of 0.22 to 0.25.
//!
//! Deviations: the model that is cited has a Poisson process of whole packets with this rate, and stays at 0 in an outage until it escapes; here the rate is
//! carried evenly, and its lowest value is not 0. The two directions change independently. A user that is idle keeps its modulation and its
//! connection: no paging, no random access, no hand-over.

use super::{Link, LinkContext, QueueContent};
use crate::rng::Rng;
use crate::units::{Duration, Instant, Rate};

/// Name in experiment files.
pub const NAME: &str = "cellular";
/// One line.
pub const TITLE: &str = "LTE or 5G for one user: the rate makes a Brownian motion, and a modem asks for room";
/// Specification and deviations.
pub const SOURCE: &str =
    "Winstein, Sivaraman, Balakrishnan, NSDI 2013, section 3.1: a Brownian motion of the rate; between bounds that reflect, without outages; requests by 3GPP TS 36.321; not compared with a measurement";

crate::params! {
    /// Parameters of a cellular link.
    pub struct Params {
        /// Lowest rate, as a part of the hop's rate, which is the highest.
        low_rate: f64 = 0.1, unit "", range 0.01, 1.0, source "ours; Winstein et al., NSDI 2013: from 0 to the highest; in uccmisl/5Gdataset, downloads reach 0 too";
        /// How far the rate moves: the standard deviation of its change in a second, as a part of the hop's rate, away from the bounds.
        motion: f64 = 0.2, unit "1/sqrt(s)", range 0.0, 1.0, source "Winstein et al., NSDI 2013, section 3.1: 200 packets/s a root second, of at most 1000 packets/s; uccmisl/5Gdataset (Raca et al., MMSys 2020), computed here: medians of 0.22 (5G at rest) to 0.25 (LTE and 5G in a car), of the 95th percentile of each download";
        /// Time from one opportunity to ask for room to the next; 0: the link needs no requests, as on the way down.
        request: Duration = Duration(0), unit "", range Duration(0), Duration::from_secs(1), source "3GPP TS 36.213 table 10.1.5-1: periods of scheduling requests of 1 to 80 ms";
        /// Time from a request until packets may leave.
        grant: Duration = Duration::from_millis(8), unit "", range Duration(0), Duration::from_secs(1), source "3GPP TS 36.213 section 8 (ns-3, lte-common.h: UL_PUSCH_TTIS_DELAY 4): a grant is for 4 ms later; as long for the request: ours";
    }
}

/// Time between two changes of the rate.
const STEP: Duration = Duration::from_millis(20); // Winstein et al., NSDI 2013, section 3.2: ticks of 20 ms
const NANOS: u128 = 1_000_000_000;

/// The share of the rate as a function of time, which only goes forward.
#[derive(Clone, Debug)]
struct Walk {
    share: f64,
    low: f64,
    /// Change of the share in a step.
    change: f64,
    /// Time of the next change.
    until: Instant,
    rng: Rng,
}

impl Walk {
    fn new(params: &Params, context: &LinkContext) -> Walk {
        let mut rng = context.rng("link cellular", 0);
        let low = params.low_rate;
        let share = low + (1.0 - low) * rng.next_f64();
        let phase = Duration(1 + rng.draw_below(STEP.0));
        let change = params.motion * STEP.as_secs_f64().sqrt();
        Walk { share, low, change, until: Instant::ZERO + phase, rng }
    }

    fn change(&mut self) {
        let change = if self.rng.next_u64() >> 63 == 0 { self.change } else { -self.change };
        let mut share = self.share + change;
        if share > 1.0 {
            share = 2.0 - share;
        }
        if share < self.low {
            share = 2.0 * self.low - share;
        }
        // bounds that are closer to each other than a change
        self.share = share.clamp(self.low, 1.0);
        self.until = self.until.saturating_add(STEP);
    }

    fn go_to(&mut self, now: Instant) {
        while now >= self.until {
            self.change();
        }
    }

    /// Whole bit/s, at least one.
    fn rate(&self, whole: Rate) -> u64 {
        ((whole.bits() as f64 * self.share) as u64).max(1)
    }

    /// Sends `bits` from `at` on; returns when the last has left.
    fn send(&mut self, bits: u128, whole: Rate, at: Instant) -> Instant {
        let (mut at, mut bits) = (at, bits);
        loop {
            self.go_to(at);
            let rate = u128::from(self.rate(whole));
            let carried = u128::from((self.until - at).0) * rate / NANOS;
            if bits <= carried {
                return at + Duration((bits * NANOS).div_ceil(rate) as u64);
            }
            bits -= carried;
            at = self.until;
        }
    }

    /// Returns the bits that leave between two times.
    fn count_bits(&mut self, whole: Rate, from: Instant, to: Instant) -> u128 {
        let (mut at, mut bits) = (from, 0);
        while at < to {
            self.go_to(at);
            let ends = self.until.min(to);
            bits += u128::from((ends - at).0) * u128::from(self.rate(whole)) / NANOS;
            at = ends;
        }
        bits
    }
}

/// The last packet on the link.
#[derive(Clone, Debug)]
struct LastPacket {
    bytes: u64,
    began: Instant,
    ends: Instant,
    /// Rate of the hop, and the walk when the packet began.
    whole: Rate,
    walk: Walk,
}

/// The link of one direction.
#[derive(Clone, Debug)]
pub struct State {
    whole: Rate,
    walk: Walk,
    last: LastPacket,
    request: Duration,
    grant: Duration,
    /// Time of the first opportunity to ask.
    phase: Instant,
    /// When packets may leave, while some wait.
    opens: Option<Instant>,
}

impl State {
    /// A link whose first share is drawn.
    pub fn new(params: Params, context: &LinkContext) -> State {
        let walk = Walk::new(&params, context);
        let phase = Instant(context.rng("link cellular request", 0).draw_below(params.request.0));
        let last = LastPacket { bytes: 0, began: Instant::ZERO, ends: Instant::ZERO, whole: context.rate, walk: walk.clone() };
        State { whole: context.rate, walk, last, request: params.request, grant: params.grant, phase, opens: None }
    }

    /// When packets may leave that come at `now`.
    fn find_grant(&self, now: Instant) -> Instant {
        let number = now.saturating_since(self.phase).0.div_ceil(self.request.0);
        self.phase.saturating_add(self.request * number).saturating_add(self.grant)
    }
}

impl Link for State {
    fn wait(&mut self, waiting: QueueContent, now: Instant) -> Option<Instant> {
        if self.request == Duration::ZERO {
            return None;
        }
        if waiting.packets == 0 {
            self.opens = None;
            return Some(Instant::NEVER);
        }
        let opens = self.opens.unwrap_or_else(|| self.find_grant(now));
        self.opens = Some(opens);
        (now < opens).then_some(opens)
    }

    fn take(&mut self, bytes: u64, now: Instant) -> Instant {
        self.walk.go_to(now);
        let walk = self.walk.clone();
        let ends = self.walk.send(u128::from(bytes) * 8, self.whole, now);
        self.last = LastPacket { bytes, began: now, ends, whole: self.whole, walk };
        ends
    }

    fn set_rate(&mut self, rate: Rate, _now: Instant) {
        self.whole = rate;
    }

    fn unsent(&self, now: Instant) -> u64 {
        let last = &self.last;
        if now >= last.ends {
            return 0;
        }
        let sent = last.walk.clone().count_bits(last.whole, last.began, now);
        last.bytes - ((sent / 8) as u64).min(last.bytes)
    }

    fn open(&mut self, from: Instant, until: Instant) -> f64 {
        let (mut at, mut open) = (from, 0.0);
        while at < until {
            self.walk.go_to(at);
            let ends = self.walk.until.min(until);
            open += (ends - at).as_secs_f64() * self.walk.share;
            at = ends;
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{carry, context, waiting};
    use super::*;

    /// A link of `mbit` Mbit/s whose share starts at `share` and changes at 20 ms, 40 ms and so on.
    fn link(params: Params, mbit: u64, share: f64) -> State {
        let mut link = State::new(params, &context(mbit));
        link.walk.share = share;
        link.walk.until = Instant::from_millis(20);
        link
    }

    #[test]
    fn a_packet_goes_on_at_the_new_rate() {
        let mut one = link(Params { low_rate: 0.5, motion: 0.0, ..Params::default() }, 10, 1.0);
        // 1000 B at 10 Mbit/s are 0.8 ms
        assert_eq!(carry(&mut one, &[(0, 1_000), (5_000_000, 1_000)]), [(0, 800_000), (5_000_000, 5_800_000)]);
        // from 19.6 ms on, 500 B at 10 Mbit/s; the rest at half of it
        let mut two = link(Params { low_rate: 0.5, motion: 0.0, ..Params::default() }, 10, 1.0);
        two.walk.change = 0.5;
        let ends = two.take(1_000, Instant(19_600_000));
        assert_eq!(ends, Instant(20_800_000), "{}", two.walk.share);
        assert_eq!([19_600_000, 20_000_000, 20_400_000, 20_800_000].map(|ns| two.unsent(Instant(ns))), [1_000, 500, 250, 0]);
        // the share is 0.5 until 40 ms: of the 20 ms from 20 ms on, half counts
        assert!((two.open(Instant::from_millis(21), Instant::from_millis(40)) - 0.0095).abs() < 1e-12);
    }

    #[test]
    fn shares_are_equally_likely_between_their_bounds_and_move_as_far_as_said() {
        let mut shares = Vec::new();
        let mut changes = Vec::new();
        for seed in 0..200 {
            let mut walk = Walk::new(&Params { low_rate: 0.4, ..Params::default() }, &LinkContext { seed, ..context(10) });
            for second in 0..200 {
                walk.go_to(Instant(second * 1_000_000_000));
                shares.push(walk.share);
            }
            // far from its bounds: 50 changes of 0.2 * sqrt(0.02)
            let mut free = Walk { low: -1e9, share: -1e6, ..walk.clone() };
            let before = free.share;
            (0..50).for_each(|_| free.change());
            changes.push(free.share - before);
        }
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let below = shares.iter().filter(|&&share| share < 0.55).count() as f64 / shares.len() as f64;
        assert!(shares.iter().all(|share| (0.4..=1.0).contains(share)));
        assert!((mean - 0.7).abs() < 0.02 && (below - 0.25).abs() < 0.03, "{mean} {below}");
        // the deviation of the estimate is 0.2 / sqrt(400) = 0.01
        let deviation = (changes.iter().map(|change| change * change).sum::<f64>() / changes.len() as f64).sqrt();
        assert!((deviation - 0.2).abs() < 0.04, "{deviation}");
    }

    #[test]
    fn each_run_begins_with_another_share_and_repeats_it() {
        let first = |seed| State::new(Params::default(), &LinkContext { seed, ..context(10) }).walk.share;
        assert!(first(1) == first(1) && first(1) != first(2));
        let shares: Vec<f64> = (0..2_000).map(first).collect();
        // uniform from 0.1 to 1: mean 0.55 +- 0.9 / sqrt(12 * 2000) = 0.006
        assert!((shares.iter().sum::<f64>() / 2e3 - 0.55).abs() < 0.03);
    }

    #[test]
    fn the_first_packet_asks_and_those_that_wait_do_not() {
        let ms = Duration::from_millis;
        let params = Params { low_rate: 1.0, request: ms(10), grant: ms(8), ..Params::default() };
        let mut up = link(params.clone(), 10, 1.0);
        up.phase = Instant::from_millis(3);
        // asked at 3 ms, granted at 11 ms; the second comes while the first is there; the third asks at 23 ms
        let left = carry(&mut up, &[(1_000_000, 1_000), (11_500_000, 1_000), (20_000_000, 1_000)]);
        assert_eq!(left, [(11_000_000, 11_800_000), (11_800_000, 12_600_000), (31_000_000, 31_800_000)]);
        // at an opportunity, it is used
        let mut at_once = link(params, 10, 1.0);
        at_once.phase = Instant::from_millis(3);
        assert_eq!(at_once.wait(waiting(1), Instant::from_millis(13)), Some(Instant::from_millis(21)));
        // the way down needs none
        assert_eq!(link(Params::default(), 10, 1.0).wait(waiting(1), Instant::from_millis(13)), None);
        // opportunities are anywhere in a period
        let phases: Vec<u64> = (0..500)
            .map(|seed| {
                let other = Params { request: ms(10), ..Params::default() };
                State::new(other, &LinkContext { seed, ..context(10) }).phase.0
            })
            .collect();
        assert!(phases.iter().all(|&ns| ns < 10_000_000) && phases.iter().sum::<u64>() / 500 > 4_000_000);
    }

    #[test]
    fn a_slow_link_ends() {
        let mut slow = link(Params { low_rate: 0.01, ..Params::default() }, 1, 0.01);
        slow.set_rate(Rate(1_000), Instant::ZERO);
        let ends = slow.take(1_514, Instant::ZERO);
        // 12112 bits at 10 to 1000 bit/s
        assert!((12_112_000_000..=1_211_200_000_000).contains(&ends.0));
        let halves = [0, ends.0 / 2, ends.0].map(|ns| slow.unsent(Instant(ns)));
        assert!(halves[0] == 1_514 && halves[1] > 0 && halves[1] < 1_514 && halves[2] == 0, "{halves:?}");
    }
}
