//! Loss in bursts: a Markov chain of a good and a bad state, each with its own loss.
//!
//! Specification: Gilbert, "Capacity of a Burst-Noise Channel" (BSTJ 39(5), 1960), and Elliott, "Estimates of Error Rates for Codes on
//! Burst-Noise Channels" (BSTJ 42(5), 1963), with their letters, as in `tc netem loss gemodel`: for each packet, the state may change;
//! the packet is lost with the probability of the state before the change.
//!
//! The chain is in the bad state for a share p / (p + r) of all packets, so that the loss is `(r (1 - k) + p (1 - h)) / (p + r)` in the
//! long run. With h = 0 and k = 1 the bad state is the loss episode of RFC 6534: its mean length is 1/r packets, and one begins with a
//! share `p r / (p + r)` of all packets.
//!
//! Deviation: the chain begins in its stationary distribution, where netem begins in the good state.

use super::{Downstream, PathItem, Stage};
use crate::log::DropReason;
use crate::param::ParamError;
use crate::rng::Rng;
use crate::units::Instant;

/// Name in experiment files.
pub const NAME: &str = "burst_loss";
/// One line.
pub const TITLE: &str = "loss in bursts (Gilbert-Elliott)";
/// Specification and deviations.
pub const SOURCE: &str = "Gilbert 1960, Elliott 1963; tc-netem(8): loss gemodel; begins in the stationary distribution";

crate::params! {
    /// Parameters of loss in bursts.
    pub struct Params {
        /// Probability, for each packet, of a change from the good to the bad state.
        p: f64 = 0.001, unit "probability", range 0.0, 1.0, source "tc-netem(8): gemodel p; the default is ours: one burst in 1000 packets";
        /// Probability, for each packet, of a change from the bad to the good state.
        r: f64 = 0.2, unit "probability", range 0.0, 1.0, source "tc-netem(8): gemodel r; the default is ours: bursts of 5 packets";
        /// Probability that a packet passes in the bad state.
        h: f64 = 0.0, unit "probability", range 0.0, 1.0, source "tc-netem(8): gemodel, 1-h is 100 % by default";
        /// Probability that a packet passes in the good state.
        k: f64 = 1.0, unit "probability", range 0.0, 1.0, source "tc-netem(8): gemodel, 1-k is 0 by default";
    } check Params::check
}

impl Params {
    fn check(&self) -> Result<(), ParamError> {
        if self.p + self.r > 0.0 {
            return Ok(());
        }
        Err(ParamError::new("p", self.p, "more than 0 with r = 0: the state would never change"))
    }
}

/// Loses packets.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    bad: bool,
}

impl State {
    /// With `params`.
    pub fn new(params: Params, rng: &mut Rng) -> State {
        let bad = rng.next_f64() * (params.p + params.r) < params.p;
        State { params, bad }
    }
}

impl<T: PathItem> Stage<T> for State {
    #[inline]
    fn push(&mut self, item: T, now: Instant, way: &mut Downstream<T>) {
        let Params { p, r, h, k } = self.params;
        let (change, passes) = if self.bad { (r, h) } else { (p, k) };
        self.bad ^= way.rng.next_f64() < change;
        if way.rng.next_f64() < passes {
            way.pass(item, now);
        } else {
            way.drop(item, DropReason::Loss, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drive, path};
    use super::super::AnyStage;
    use super::*;

    const PACKETS: u64 = 400_000;

    /// Numbers of the packets that are lost.
    fn lose_packets(p: f64, r: f64, h: f64, k: f64) -> Vec<u64> {
        let state = State::new(Params { p, r, h, k }, &mut Rng::stream(2, "test", 0));
        let seen = drive(&mut path(AnyStage::BurstLoss(state)), (0..PACKETS).map(Instant));
        assert_eq!(seen.arrived.len() + seen.dropped.len(), PACKETS as usize);
        seen.dropped.iter().map(|(_, number)| *number).collect()
    }

    #[test]
    fn the_loss_in_the_long_run_is_that_of_the_stationary_distribution() {
        for (p, r, h, k) in [(0.01, 0.2, 0.0, 1.0), (0.05, 0.5, 0.3, 0.99), (0.5, 0.5, 0.0, 1.0), (0.1, 0.9, 0.0, 1.0)] {
            let expected = (r * (1.0 - k) + p * (1.0 - h)) / (p + r);
            let share = lose_packets(p, r, h, k).len() as f64 / PACKETS as f64;
            // the variance of the mean of a two-state chain is that of independent draws times (2 - p - r) / (p + r), at most
            let error = (expected * (1.0 - expected) / PACKETS as f64 * ((2.0 - p - r) / (p + r)).max(1.0)).sqrt();
            assert!((share - expected).abs() < 4.0 * error, "{p} {r} {h} {k}: {share}, expected {expected} +- {error}");
        }
    }

    #[test]
    fn bursts_have_a_geometric_length_with_mean_one_over_r() {
        let lost = lose_packets(0.01, 0.2, 0.0, 1.0);
        let bursts = 1 + lost.windows(2).filter(|two| two[1] != two[0] + 1).count();
        // 400000 * 0.01 * 0.2 / 0.21 = 3810 bursts; the standard error of their mean is sqrt(0.8) / 0.2 / sqrt(3810) = 0.072
        assert!((3500..4100).contains(&bursts), "{bursts}");
        let mean = lost.len() as f64 / bursts as f64;
        assert!((mean - 5.0).abs() < 0.3, "{mean}");
    }

    #[test]
    fn a_chain_that_never_changes_is_refused() {
        let json = serde_json::json!({"p": 0.0, "r": 0.0});
        assert!(Params::from_json(json.as_object().unwrap()).unwrap_err().to_string().contains("never change"));
    }
}
