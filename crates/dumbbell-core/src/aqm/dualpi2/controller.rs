//! The PI controller: one probability, from the longer of the two delays, every `tupdate`.
//!
//! Linux (`sch_dualpi2.c`, `calculate_probability`) computes in integers: the probability is 32 bits, delays are ns, gains are cut to
//! whole units. Its versions differ in how gains and differences are cut ([`Arithmetic`]). Where a change of 100 % and more is cut to
//! 32 bits, an overflow can go unnoticed; so it does here.

use crate::units::Duration;

crate::choice! {
    /// How the controller computes.
    pub enum Arithmetic {
        /// Linux 6.17 and the 5.10 module: gains per 1/64 ns, the sum divided by 64, towards zero.
        Linux = "linux",
        /// L4STeam/l4sdemo of August 2019: the same sum divided by 127, which halves both gains.
        Linux127 = "linux-127",
        /// L4STeam/l4sdemo of 25 July 2019: each of the two terms divided by 127, towards zero.
        Linux127Terms = "linux-127-terms",
        /// L4STeam/l4sdemo of 17 July 2019: each of the two terms shifted by 6, downwards.
        LinuxShiftTerms = "linux-shift-terms",
        /// Up to July 2019: gains in whole units per ns, so that 0.3125 and 3.125 Hz become 0.233 and 2.79 Hz.
        PerNs = "per-ns",
        /// RFC 9332: real numbers, never outside 0 and 1.
        Real = "real",
    }
}

/// A probability of 1 in Linux (`MAX_PROB`).
pub const MAX_PROB: u32 = u32::MAX;
/// Gains come in 1/256 Hz (`ALPHA_BETA_SCALE`, tc/q_dualpi2.c).
pub const GAIN_SCALE: f64 = 256.0;
const NSEC_PER_SEC: u64 = 1_000_000_000;

/// `hertz` in 1/256 Hz, cut by tc, which computes in single precision.
pub fn quantise_hertz(hertz: f64) -> u64 {
    f64::from(hertz as f32 * GAIN_SCALE as f32) as u64
}

/// Gain per ns, in 1/64, of `hertz` (`dualpi2_scale_alpha_beta`).
fn scaled_gain(hertz: f64) -> i64 {
    let param = quantise_hertz(hertz);
    (((param * u64::from(MAX_PROB)) >> 2) / NSEC_PER_SEC) as i64
}

/// Gain per ns of `hertz` (`__dualpi2_vars_from_params` of 2019).
fn whole_gain(hertz: f64) -> i64 {
    let param = quantise_hertz(hertz);
    ((param * (u64::from(MAX_PROB) / NSEC_PER_SEC)) >> 8) as i64
}

/// `prob` and `delta` in 32 bits. That the sum left them shows only if it did so by less than 100 %.
#[inline]
pub fn pi_step(prob: u32, delta: i64) -> u32 {
    let new = i64::from(prob).wrapping_add(delta) as u32;
    match delta > 0 {
        true if new < prob => MAX_PROB,
        false if new > prob => 0,
        _ => new,
    }
}

/// Gains and period from which the controller is built.
#[derive(Clone, Copy, Debug)]
pub struct PiGains {
    /// How it computes.
    pub arithmetic: Arithmetic,
    /// Delay to hold.
    pub target: Duration,
    /// Gain on the distance from target, Hz.
    pub alpha: f64,
    /// Gain on the change of the delay, Hz.
    pub beta: f64,
    /// Largest probability, in [`MAX_PROB`]s.
    pub cap: u32,
}

/// The controller and its probability p'.
#[derive(Clone, Copy, Debug)]
pub struct Controller {
    gains: PiGains,
    alpha: i64,
    beta: i64,
    /// p', in [`MAX_PROB`]s.
    prob: u32,
    /// p' as a real number.
    real: f64,
    last_qdelay: Duration,
}

impl Controller {
    /// Tells p' and the delay at the last update.
    pub fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        let p = match self.gains.arithmetic {
            Arithmetic::Real => self.real,
            _ => f64::from(self.prob) / f64::from(MAX_PROB),
        };
        tell("p", p);
        tell("qdelay_ms", self.last_qdelay.0 as f64 / 1e6);
    }

    /// With a probability of 0.
    pub fn new(gains: PiGains) -> Controller {
        let gain = match gains.arithmetic {
            Arithmetic::PerNs => whole_gain,
            _ => scaled_gain,
        };
        let [alpha, beta] = [gains.alpha, gains.beta].map(gain);
        Controller { gains, alpha, beta, prob: 0, real: 0.0, last_qdelay: Duration::ZERO }
    }

    /// Returns this controller with the gains of `other`.
    #[must_use]
    pub fn with_gains(self, other: Controller) -> Controller {
        let Controller { prob, real, last_qdelay, .. } = self;
        Controller { prob, real, last_qdelay, ..other }
    }

    /// p', in [`MAX_PROB`]s.
    #[inline]
    pub fn prob(&self) -> u32 {
        self.prob
    }

    /// p' as a real number.
    #[inline]
    pub fn probability(&self) -> f64 {
        self.real
    }

    /// The delay is `qdelay` at the time of an update.
    pub fn update(&mut self, qdelay: Duration) {
        let last = std::mem::replace(&mut self.last_qdelay, qdelay);
        if self.gains.arithmetic == Arithmetic::Real {
            return self.update_real(qdelay.as_secs_f64(), last.as_secs_f64());
        }
        let difference = |from: Duration| (qdelay.0 as i64).wrapping_sub(from.0 as i64);
        let from_target = difference(self.gains.target).wrapping_mul(self.alpha);
        let change = difference(last).wrapping_mul(self.beta);
        let sum = from_target.wrapping_add(change);
        let delta = match self.gains.arithmetic {
            Arithmetic::Linux => sum / 64,
            Arithmetic::Linux127 => sum / 127,
            Arithmetic::Linux127Terms => from_target / 127 + change / 127,
            Arithmetic::LinuxShiftTerms => (from_target >> 6) + (change >> 6),
            Arithmetic::PerNs | Arithmetic::Real => sum,
        };
        self.prob = pi_step(self.prob, delta).min(self.gains.cap);
        self.real = f64::from(self.prob) / f64::from(MAX_PROB);
    }

    /// RFC 9332 appendix A.
    fn update_real(&mut self, qdelay: f64, last: f64) {
        let target = self.gains.target.as_secs_f64();
        //= RFC 9332, section A.1
        //# p' = p' + alpha * (curq - target) + beta * (curq - prevq)
        let new = self.real + self.gains.alpha * (qdelay - target) + self.gains.beta * (qdelay - last);
        self.real = new.clamp(0.0, f64::from(self.gains.cap) / f64::from(MAX_PROB));
        self.prob = (self.real * f64::from(MAX_PROB)) as u32;
    }

    /// Delay to hold.
    #[cfg(test)]
    pub fn target(&self) -> Duration {
        self.gains.target
    }

    /// Sets p' and the delay of the last update.
    #[cfg(test)]
    pub fn set(&mut self, prob: u32, last_qdelay: Duration) {
        (self.prob, self.real, self.last_qdelay) = (prob, f64::from(prob) / f64::from(MAX_PROB), last_qdelay);
    }
}
