//! Jitter: each packet takes a random time longer; packets stay in order.

use super::{Downstream, PathItem, Stage};
use crate::real;
use crate::rng::Rng;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// Name in experiment files.
pub const NAME: &str = "jitter";
/// One line.
pub const TITLE: &str = "random extra delay that keeps the order";
/// Specification and deviations.
pub const SOURCE: &str = "uniform, as the default of tc-netem(8) delay with jitter, but without reordering; \
    truncated Gaussian: RFC 8868 section 4.5, as its variation without reordering";

crate::choice! {
    /// How the extra delay is distributed.
    pub enum Distribution {
        /// From 0 to `max`, uniformly.
        Uniform = "uniform",
        /// The amount of a normal distribution around 0 whose standard deviation is a third of `max`, and at most `max`.
        Gaussian = "gaussian",
    }
}

crate::params! {
    /// Parameters of jitter.
    pub struct Params {
        /// Largest extra delay. Each packet draws one from 0 to this; a packet that would overtake waits for the one ahead.
        max: Duration = Duration::from_millis(1), unit "", range Duration(0), Duration::from_secs(60), source "the default is ours; RFC 8868 section 4.5: 15 ms with gaussian";
        /// How the extra delay is distributed: uniformly, or as the amount of a normal distribution with a standard deviation of a third of `max`, cut at `max`.
        distribution: Distribution = Distribution::Uniform, unit "", source "tc-netem(8); RFC 8868 section 4.5: truncated at three standard deviations";
    }
}

/// Standard deviations at which the normal distribution is cut: `N_STD` of RFC 8868 section 4.5.
const CUT: f64 = 3.0;

/// Returns a number from a normal distribution with mean 0 and standard deviation 1: Marsaglia's polar method, whose square root and logarithm
/// give the same bits on every system.
fn draw_normal(rng: &mut Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * rng.next_f64() - 1.0, 2.0 * rng.next_f64() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * real::ln(square) / square).sqrt();
        }
    }
}

/// Delays packets.
#[derive(Clone, Debug)]
pub struct State<T> {
    params: Params,
    /// Items and when they go on.
    held: VecDeque<(Instant, T)>,
}

impl<T> State<T> {
    /// With `params`.
    pub fn new(params: Params, _rng: &mut Rng) -> State<T> {
        State { params, held: VecDeque::new() }
    }

    /// Draws an extra delay.
    fn draw(&self, rng: &mut Rng) -> Duration {
        let max = self.params.max;
        match self.params.distribution {
            Distribution::Uniform => Duration(rng.draw_below(max.0 + 1)),
            Distribution::Gaussian => Duration((draw_normal(rng).abs().min(CUT) / CUT * max.0 as f64) as u64),
        }
    }
}

impl<T: PathItem> Stage<T> for State<T> {
    fn push(&mut self, item: T, now: Instant, way: &mut Downstream<T>) {
        let extra = self.draw(way.rng);
        let last = self.held.back().map_or(Instant::ZERO, |held| held.0);
        self.held.push_back(((now + extra).max(last), item));
    }

    fn next_timer(&self) -> Instant {
        self.held.front().map_or(Instant::NEVER, |held| held.0)
    }

    fn on_timer(&mut self, now: Instant, way: &mut Downstream<T>) {
        if let Some((_, item)) = self.held.pop_front() {
            way.pass(item, now);
        }
    }

    fn count_items(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drive, path};
    use super::super::AnyStage;
    use super::*;

    #[test]
    fn the_delay_is_uniform_and_the_order_is_kept() {
        let max = Duration::from_millis(1);
        let sent = |number: u64| Instant::from_millis(2 * number);
        let state = State { params: Params { max, ..Params::default() }, held: VecDeque::new() };
        // too far apart to wait for each other: the mean is 0.5 ms +- 1 / sqrt(12 * 10000) = 0.003 ms
        let seen = drive(&mut path(AnyStage::Jitter(state.clone())), (0..10_000).map(sent));
        let extra: Vec<u64> = seen.arrived.iter().map(|&(time, number)| (time - sent(number)).0).collect();
        assert!(extra.iter().all(|&extra| extra <= max.0));
        assert!((extra.iter().sum::<u64>() as f64 / 1e10 - 0.5).abs() < 0.012);
        // close together
        let dense = drive(&mut path(AnyStage::Jitter(state)), (0..10_000).map(|number| Instant(1_000 * number)));
        assert!(dense.arrived.iter().map(|(_, number)| *number).eq(0..10_000));
        assert!(dense.arrived.windows(2).all(|two| two[0].0 <= two[1].0));
    }

    #[test]
    fn the_gaussian_delay_is_cut_at_three_deviations() {
        let (max, sent) = (Duration::from_millis(15), |number: u64| Instant::from_millis(20 * number));
        let params = Params { max, distribution: Distribution::Gaussian };
        let state = State { params, held: VecDeque::new() };
        let seen = drive(&mut path(AnyStage::Jitter(state)), (0..100_000).map(sent));
        let extra: Vec<f64> = seen.arrived.iter().map(|&(time, number)| (time - sent(number)).0 as f64 / 1e6).collect();
        // the mean of the amount is 5 ms * sqrt(2 / pi) = 3.989 ms, less 0.004 ms that the cut takes; its deviation is 5 ms * sqrt(1 - 2 / pi) = 3.014 ms,
        // over sqrt(100000) 0.0095 ms
        let mean = extra.iter().sum::<f64>() / 1e5;
        assert!((mean - 3.985).abs() < 0.03, "{mean}");
        // 68.27 % are within one deviation, 0.27 % are cut at three
        let share = |below: f64| extra.iter().filter(|&&one| one < below).count() as f64 / 1e5;
        assert!((share(5.0) - 0.6827).abs() < 0.005, "{}", share(5.0));
        let cut = extra.iter().filter(|&&one| one == 15.0).count();
        assert!((200..340).contains(&cut) && extra.iter().all(|&one| one <= 15.0), "{cut}");
    }
}
