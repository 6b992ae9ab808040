//! A low-earth-orbit satellite: at fixed times the terminal is handed over to another satellite, with another rate and another one-way delay.
//!
//! The run begins with a satellite. At each hand-over the link carries nothing for a short time; then it is a serial link at the new rate.
//! A packet that is on the link at a hand-over goes on where it was. Rate and delay are drawn uniformly, each satellite's by itself,
//! and so is the time of the first hand-over: a run begins at any time between two.
//!
//! The two directions of one terminal are two links. With the same number as `terminal` they are with the same satellites: hand-overs come at
//! the same instants, and a satellite has the same delay both ways. Rates are each link's own, since uplink and downlink are separate
//! channels, which their schedulers share out separately.

use super::{Link, LinkContext, QueueContent};
use crate::rng::{mix, Rng};
use crate::units::{Duration, Instant, Rate};

/// Name in experiment files.
pub const NAME: &str = "leo";
/// One line.
pub const TITLE: &str = "a low-earth-orbit satellite: rate and delay change at each hand-over";
/// Specification and deviations.
pub const SOURCE: &str =
    "Mohan et al., \"A multifaceted look at Starlink performance\", WWW 2024: links are reconfigured every 15 s; delays by geometry; the distributions are ours";

crate::params! {
    /// Parameters of a satellite link.
    pub struct Params {
        /// From one hand-over to the next. The first comes at a time that is drawn from the seed, at most this.
        interval: Duration = Duration::from_secs(15), unit "", range Duration::from_secs(1), Duration::from_secs(86_400), source "Mohan et al., WWW 2024 (arXiv:2310.09242): globally synchronised reconfiguration intervals of 15 s";
        /// For how long nothing is carried at a hand-over, at most half of `interval`.
        outage: Duration = Duration::from_millis(50), unit "", range Duration(0), Duration::from_secs(60), source "Huston, \"A transport protocol's view of Starlink\", APNIC blog, 2024: at a hand-over 30 to 50 ms are added to the latency";
        /// Lowest rate of a satellite, as a part of the hop's rate, which is the highest.
        low_rate: f64 = 0.14, unit "", range 0.01, 1.0, source "LeoCC, SIGCOMM 2025: capacity between 10 and 70 Mbit/s within tens of seconds";
        /// Shortest one-way delay of a satellite.
        delay_min: Duration = Duration::from_micros(3_700), unit "", range Duration(0), Duration::from_secs(1), source "geometry: 2 * 550 km / c; 550 km is a shell of SpaceX's application to the FCC of 17 April 2020, Attachment A";
        /// Longest one-way delay of a satellite.
        delay_max: Duration = Duration::from_micros(7_500), unit "", range Duration(0), Duration::from_secs(1), source "geometry: 2 * 1123 km / c, the distance at 550 km and an elevation of 25 degrees, the lowest of the same application";
        /// Links with the same number are the directions of one terminal: they have hand-overs at the same instants, and the same delays. Unset: a
        /// terminal of its own.
        terminal: Option<u32> = None, unit "", range 0_u32, 1_000_000_u32, source "Huston, \"Measuring Starlink protocol performance\", NANOG 92, 2024: a terminal is assigned to one satellite in each slot of 15 s";
    } check Params::check
}

impl Params {
    fn check(&self) -> Result<(), crate::param::ParamError> {
        let refuse = |key: &str, found: Duration, allowed: String| Err(crate::param::ParamError::new(key, found, allowed));
        if self.outage > self.interval / 2 {
            return refuse("outage", self.outage, format!("at most half of interval, {}", self.interval / 2));
        }
        if self.delay_min > self.delay_max {
            return refuse("delay_min", self.delay_min, format!("at most delay_max, {}", self.delay_max));
        }
        Ok(())
    }
}

/// The connection with a satellite, from one hand-over to the next.
#[derive(Clone, Copy, Debug)]
struct Satellite {
    /// Share of the hop's rate.
    share: f64,
    delay: Duration,
    /// Time at which it begins to carry, and time of the next hand-over.
    opens: Instant,
    ends: Instant,
}

/// The satellite that the terminal is with.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    context: LinkContext,
    /// Seed of what the directions of a terminal have in common.
    terminal: u64,
    /// For how long the terminal was with the first satellite when the run began.
    before: Duration,
    /// The last packet, bytes, and when it has left.
    last: (u64, Instant),
    with: Satellite,
    /// Satellite of the packets whose delay was last asked for. During a hand-over the next packet may be taken before that is asked for the last one.
    left_by: Satellite,
}

const NANOS: u128 = 1_000_000_000;

impl State {
    /// With the first satellite.
    pub fn new(params: Params, context: &LinkContext) -> State {
        let terminal = params.terminal.map_or(context.seed, |number| mix(context.run_seed ^ mix(u64::from(number) + 1)));
        let before = Duration(Rng::stream(terminal, "link leo first", 0).draw_below(params.interval.0));
        let with = State::satellite(&params, context, terminal, before, 0);
        State { params, context: *context, terminal, before, last: (0, Instant::ZERO), with, left_by: with }
    }

    fn satellite(params: &Params, context: &LinkContext, terminal: u64, before: Duration, number: u64) -> Satellite {
        let mut rng = context.rng("link leo", number);
        let share = params.low_rate + (1.0 - params.low_rate) * rng.next_f64();
        if params.terminal.is_some() {
            rng = Rng::stream(terminal, "link leo", number);
        }
        let delay = params.delay_min + Duration(rng.draw_below((params.delay_max - params.delay_min).0 + 1));
        let starts = Instant(number.saturating_mul(params.interval.0)).saturating_sub(before);
        let opens = if number == 0 { starts } else { starts.saturating_add(params.outage) };
        Satellite { share, delay, opens, ends: Instant((number + 1).saturating_mul(params.interval.0)).saturating_sub(before) }
    }

    fn satellite_at(&self, now: Instant) -> Satellite {
        let number = now.saturating_add(self.before).0 / self.params.interval.0;
        State::satellite(&self.params, &self.context, self.terminal, self.before, number)
    }

    fn go_to(&mut self, now: Instant) {
        if now >= self.with.ends {
            self.with = self.satellite_at(now);
        }
    }

    /// Rate of the satellite, whole bit/s, at least one.
    fn rate(&self) -> u64 {
        ((self.context.rate.bits() as f64 * self.with.share) as u64).max(1)
    }
}

impl Link for State {
    const DELAYS: bool = true;

    fn wait(&mut self, waiting: QueueContent, now: Instant) -> Option<Instant> {
        self.go_to(now);
        if now >= self.with.opens {
            return None;
        }
        Some(if waiting.packets == 0 { Instant::NEVER } else { self.with.opens })
    }

    fn take(&mut self, bytes: u64, now: Instant) -> Instant {
        let (mut at, mut bits) = (now, u128::from(bytes) * 8);
        loop {
            self.go_to(at);
            at = at.max(self.with.opens);
            let rate = u128::from(self.rate());
            let carried = u128::from((self.with.ends - at).0) * rate / NANOS;
            if bits <= carried {
                let ends = at + Duration((bits * NANOS).div_ceil(rate) as u64);
                self.last = (bytes, ends);
                return ends;
            }
            bits -= carried;
            at = self.with.ends;
        }
    }

    fn set_rate(&mut self, rate: Rate, _now: Instant) {
        self.context.rate = rate;
    }

    /// At the rate of the satellite that carries the end of it; an outage in front of that counts as if it carried.
    fn unsent(&self, now: Instant) -> u64 {
        let (bytes, ends) = self.last;
        let left = u128::from(ends.saturating_since(now).0) * u128::from(self.rate());
        (left.div_ceil(8 * NANOS) as u64).min(bytes)
    }

    fn delay(&mut self, now: Instant) -> Duration {
        if now >= self.left_by.ends {
            self.left_by = self.satellite_at(now);
        }
        self.left_by.delay
    }

    fn open(&mut self, from: Instant, until: Instant) -> f64 {
        let (mut at, mut open) = (from, 0.0);
        while at < until {
            self.go_to(at);
            let Satellite { opens, ends, share, .. } = self.with;
            open += ends.min(until).saturating_since(at.max(opens)).as_secs_f64() * share;
            at = ends;
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{carry, context};
    use super::*;

    /// Satellites of 1 s, all with the whole rate, 10 Mbit/s.
    fn even_satellites() -> State {
        let params = Params { interval: Duration::from_secs(1), low_rate: 1.0, ..Params::default() };
        link_in_interval(params, 10)
    }

    /// A link whose first hand-over comes after a whole interval.
    fn link_in_interval(params: Params, mbit: u64) -> State {
        let mut link = State::new(params, &context(mbit));
        link.before = Duration::ZERO;
        link.with = link.satellite_at(Instant::ZERO);
        link.left_by = link.with;
        link
    }

    #[test]
    fn runs_begin_at_any_time_between_two_hand_overs() {
        let first = |seed| State::new(Params::default(), &LinkContext { seed, ..context(10) }).with.ends.as_secs_f64();
        let times: Vec<f64> = (0..4_000).map(first).collect();
        // uniform up to 15 s: mean 7.5 s, deviation of the mean 15 / sqrt(12 * 4000) = 0.07 s
        assert!((times.iter().sum::<f64>() / 4e3 - 7.5).abs() < 0.3 && times.iter().all(|&time| 0.0 < time && time <= 15.0));
    }

    #[test]
    fn nothing_leaves_at_a_hand_over() {
        // 1000 B take 0.8 ms; the second has 0.5 ms until the hand-over and 0.3 ms after the outage of 50 ms; the third comes in the outage
        let left = carry(&mut even_satellites(), &[(0, 1_000), (999_500_000, 1_000), (1_010_000_000, 1_000)]);
        assert_eq!(left, [(0, 800_000), (999_500_000, 1_050_300_000), (1_050_300_000, 1_051_100_000)]);
        // 10 s at 1 Mbit/s go on over ten hand-overs with 9 outages
        let mut slow = even_satellites();
        slow.set_rate(Rate::from_mbit(1), Instant::ZERO);
        assert_eq!(slow.take(1_250_000, Instant::ZERO), Instant(10_500_000_000));
    }

    #[test]
    fn rate_and_delay_are_uniform_and_of_the_seed() {
        let mut link = link_in_interval(Params::default(), 100);
        let (mut shares, mut delays) = (Vec::new(), Vec::new());
        for number in 0..10_000 {
            let at = Instant(number * Params::default().interval.0);
            delays.push(link.delay(at).0);
            shares.push(link.left_by.share);
            assert_eq!(link.delay(at + Duration::from_secs(14)).0, delays[number as usize]);
        }
        let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len() as f64;
        // uniform from 0.14 to 1: mean 0.57 +- 0.86 / sqrt(12 * 10000) = 0.0025; delays: 5.6 ms +- 0.011 ms
        assert!((mean(&shares) - 0.57).abs() < 0.01 && shares.iter().all(|share| (0.14..1.0).contains(share)));
        let delays: Vec<f64> = delays.into_iter().map(|ns| ns as f64 / 1e6).collect();
        assert!((mean(&delays) - 5.6).abs() < 0.045 && delays.iter().all(|ms| (3.7..=7.5).contains(ms)), "{}", mean(&delays));
        let first = |seed| State::new(Params::default(), &LinkContext { seed, ..context(100) }).with.share;
        assert!(first(1) == first(1) && first(1) != first(2));
    }

    #[test]
    fn the_directions_of_one_terminal_have_the_same_satellites_and_rates_of_their_own() {
        let link = |run_seed, seed, terminal| {
            let params = Params { terminal, ..Params::default() };
            State::new(params, &LinkContext { rate: Rate::from_mbit(100), seed, run_seed })
        };
        let satellites = |mut one: State| -> Vec<Satellite> {
            (0..200)
                .map(|_| {
                    let with = one.with;
                    one.go_to(with.ends);
                    with
                })
                .collect()
        };
        let of = |run_seed, seed, terminal| satellites(link(run_seed, seed, terminal));
        let common = |list: &[Satellite]| list.iter().map(|one| (one.delay, one.ends)).collect::<Vec<_>>();
        let shares = |list: &[Satellite]| list.iter().map(|one| one.share).collect::<Vec<_>>();
        let (down, up) = (of(5, 5, Some(1)), of(5, 77, Some(1)));
        assert_eq!(common(&down), common(&up));
        assert!(shares(&down).iter().zip(shares(&up)).all(|(one, other)| *one != other));
        // another terminal, another run, and a terminal without a number
        for other in [of(5, 77, Some(2)), of(6, 77, Some(1)), of(5, 77, None)] {
            assert!(
                common(&down)[0].1 != common(&other)[0].1 && common(&down).iter().zip(common(&other)).all(|(a, b)| a.0 != b.0)
            );
        }
        // rates do not depend on the terminal
        assert_eq!(shares(&up), shares(&of(5, 77, None)));
    }

    #[test]
    fn the_open_time_leaves_outages_out() {
        // the first satellite has no outage: 1 s, 0.95 s, and of the third 0.05 s
        let open = even_satellites().open(Instant::ZERO, Instant::from_millis(2_100));
        assert!((open - 2.0).abs() < 1e-9, "{open}");
        assert!(even_satellites().open(Instant::from_millis(1_010), Instant::from_millis(1_040)) == 0.0);
    }

    #[test]
    fn contradictions_are_refused() {
        let read = |value: serde_json::Value| Params::from_json(value.as_object().unwrap()).unwrap_err().to_string();
        let error = read(serde_json::json!({"interval": 1_000_000_000, "outage": 600_000_000}));
        assert_eq!(error, "outage: found 600ms, allowed: at most half of interval, 500ms");
        let of_delay = read(serde_json::json!({"delay_min": 9_000_000}));
        assert_eq!(of_delay, "delay_min: found 9ms, allowed: at most delay_max, 7500us");
    }
}
