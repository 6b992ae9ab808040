//! Functions of real numbers whose last bit depends on the library of a system, or on its processor, if they come from there.
//!
//! IEEE 754 determines sums, products, quotients and square roots to the last bit, and no logarithm. These are computed from what it determines, and so
//! are the same bits everywhere: in a browser, on every processor, under every libc. Engine and algorithms use no others (`clippy.toml`).

/// Natural logarithm of `x`.
#[inline]
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// Natural logarithm of `1 + x`, precise for small `x`.
#[inline]
pub fn ln_1p(x: f64) -> f64 {
    libm::log1p(x)
}

/// e to the power `x`.
#[inline]
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// `x` to the power `y`.
#[inline]
pub fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::{E, LN_2};

    #[test]
    fn values_are_exact_where_they_are_known() {
        assert_eq!((ln(1.0), ln(2.0), ln(0.5), ln(E)), (0.0, LN_2, -LN_2, 1.0));
        assert_eq!((ln_1p(0.0), ln_1p(1.0), ln_1p(-0.5)), (0.0, LN_2, -LN_2));
        // ln(1 + x) = x - x^2 / 2 + ..., and 2^-60 squared is below the last bit
        let small = 1.0 / (1_u64 << 60) as f64;
        assert_eq!(ln_1p(small), small);
        assert_eq!((pow(2.0, 10.0), pow(9.0, 0.5), pow(7.0, 0.0), pow(0.0, 0.9)), (1024.0, 3.0, 1.0, 0.0));
        assert_eq!(ln(0.0), f64::NEG_INFINITY);
        assert_eq!((exp(0.0), exp(f64::NEG_INFINITY), exp(710.0)), (1.0, 0.0, f64::INFINITY));
        assert!((exp(1.0) - E).abs() <= E * f64::EPSILON, "within a unit in the last place");
    }
}
