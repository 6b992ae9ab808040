//! A bounded Pareto distribution: the sizes of short flows.
//!
//! A power takes as long as half a packet does. So a draw first estimates it by two small tables, and works it out only where a whole number lies
//! within the error of the estimate: the size is the same in any case.

use crate::real;
use crate::rng::Rng;
use std::f64::consts::{LN_2, LOG2_E};

/// The logarithm's table has one entry for so many leading bits of a mantissa, that of powers one for as fine a step.
const BITS: u32 = 6;
const STEPS: usize = 1 << BITS;
/// Bits of a mantissa, and 1 as bits: its exponent.
const MANTISSA: u32 = 52;
const ONE: u64 = 1023 << MANTISSA;
/// Relative error of an estimate for an exponent of 1, at the most. Series of five terms end with an error of 2^-44 for arguments up to 2^-7 (logarithm:
/// x^6 / 6 * 1.44) and of 2^-48 up to 2^-6.5 (power: x^6 / 720); rounding adds less than 2^-46. The rest is margin, which costs nothing: 1 draw in a million.
const ERROR: f64 = 1.0 / (1_u64 << 36) as f64;

/// Sizes from `min` to `max` bytes with the tail exponent `shape`, and what a draw needs of them.
#[derive(Clone, Debug)]
pub struct Pareto {
    min: u64,
    max: u64,
    low: f64,
    /// 1 - (L/H)^a: the share of the unbounded distribution that lies below `max`.
    below: f64,
    /// 1/a.
    exponent: f64,
    /// Relative error of an estimate.
    error: f64,
    /// For the middle of each step of a mantissa, its inverse and its logarithm to base 2.
    logarithms: [(f64, f64); STEPS],
    /// 2 to the power of each step of 0 to 1.
    powers: [f64; STEPS],
}

impl Pareto {
    /// Sizes from `min` to `max` bytes with the tail exponent `shape`.
    pub fn new(shape: f64, min: u64, max: u64) -> Pareto {
        let (low, high) = (min as f64, max as f64);
        let exponent = 1.0 / shape;
        let step = |index: usize| index as f64 / STEPS as f64;
        let logarithm = |index| {
            let middle = 1.0 + step(index) + 0.5 / STEPS as f64;
            (1.0 / middle, real::ln(middle) * LOG2_E)
        };
        Pareto {
            min,
            max,
            low,
            below: 1.0 - real::pow(low / high, shape),
            exponent,
            error: ERROR * (1.0 + exponent),
            logarithms: std::array::from_fn(logarithm),
            powers: std::array::from_fn(|index| real::pow(2.0, step(index))),
        }
    }

    /// A size, bytes.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        // inverse of F(x) = (1 - (L/x)^a) / (1 - (L/H)^a)
        let above = 1.0 - rng.next_f64() * self.below;
        let estimate = self.estimate(above);
        let least = (estimate * (1.0 - self.error)) as u64;
        let size = if least == (estimate * (1.0 + self.error)) as u64 { least } else { self.exact(above) };
        size.clamp(self.min, self.max)
    }

    /// The size that a share of `above` of all sizes exceeds, to the last bit.
    #[cold]
    fn exact(&self, above: f64) -> u64 {
        (self.low / real::pow(above, self.exponent)) as u64
    }

    /// Returns the size to a relative error of `self.error`: L 2^(-log2(above) / a). `above` is positive and at most 1.
    #[inline]
    fn estimate(&self, above: f64) -> f64 {
        let bits = above.to_bits();
        let (inverse, logarithm) = self.logarithms[(bits >> (MANTISSA - BITS)) as usize % STEPS];
        let x = f64::from_bits(bits & ((1 << MANTISSA) - 1) | ONE) * inverse - 1.0;
        let ln_1p = x * (1.0 - x * (1.0 / 2.0 - x * (1.0 / 3.0 - x * (1.0 / 4.0 - x * (1.0 / 5.0)))));
        let exponent = ((bits >> MANTISSA) as i64 - (ONE >> MANTISSA) as i64) as f64;
        let power = -self.exponent * (exponent + (logarithm + ln_1p * LOG2_E));

        let steps = (power * STEPS as f64) as i64;
        let z = (power - steps as f64 / STEPS as f64) * LN_2;
        let exp = 1.0 + z * (1.0 + z * (1.0 / 2.0 + z * (1.0 / 6.0 + z * (1.0 / 24.0 + z * (1.0 / 120.0)))));
        let whole = f64::from_bits(ONE.wrapping_add_signed((steps >> BITS) << MANTISSA));
        self.low * (self.powers[steps as usize % STEPS] * exp * whole)
    }
}

#[cfg(test)]
mod tests {
    use super::{real, Pareto, Rng};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn a_draw_is_the_power_rounded_down(shape in 0.01_f64..100.0, min in 1_u64..1 << 40, more in 1_u64..1 << 50, seed: u64) {
            let (pareto, mut rng) = (Pareto::new(shape, min, min + more), Rng::stream(seed, "test", 0));
            for _ in 0..1000 {
                let mut same = rng.clone();
                let above = 1.0 - same.next_f64() * (1.0 - real::pow(min as f64 / (min + more) as f64, shape));
                let size = (min as f64 / real::pow(above, 1.0 / shape)) as u64;
                prop_assert_eq!(pareto.draw(&mut rng), size.clamp(min, min + more));
            }
        }

        #[test]
        fn estimates_are_much_better_than_they_must_be(shape in 0.01_f64..100.0, share in 0.0_f64..1.0) {
            let pareto = Pareto::new(shape, 1_000, 1_000_000);
            let above = 1.0 - share * pareto.below;
            let exact = 1_000.0 / real::pow(above, 1.0 / shape);
            prop_assert!((pareto.estimate(above) / exact - 1.0).abs() < pareto.error / 64.0);
        }
    }

    #[test]
    fn a_size_next_to_a_whole_number_is_worked_out() {
        // 1 of all sizes exceed the smallest: the estimate may lie on either side of it
        let pareto = Pareto::new(0.9, 1_000, 1_000_000);
        let estimate = pareto.estimate(1.0);
        assert_ne!((estimate * (1.0 - pareto.error)) as u64, (estimate * (1.0 + pareto.error)) as u64);
        assert_eq!(pareto.exact(1.0), 1_000);
    }
}
