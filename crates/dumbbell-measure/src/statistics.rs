//! Means, percentiles and fairness.

use dumbbell_core::histogram::{CompactHistogram, Count};
use dumbbell_core::units::Duration;

/// Mean of `count` values with this `sum`, in units of `scale`; NaN if there are none.
pub fn mean(sum: u64, count: u64, scale: f64) -> f64 {
    if count > 0 {
        sum as f64 / count as f64 / scale
    } else {
        f64::NAN
    }
}

/// P50, P95 and P99, ms; NaN if there are no samples.
pub fn rtt_percentiles_ms<C: Count>(samples: &CompactHistogram<C>) -> [f64; 3] {
    samples.quantiles([0.5, 0.95, 0.99]).map_or([f64::NAN; 3], |found| found.map(ms))
}

/// Time in ms.
pub fn ms(time: Duration) -> f64 {
    time.0 as f64 / 1e6
}

/// Jain's index of fairness, 1/n to 1; NaN if nothing was shared.
pub fn jain(shares: &[f64]) -> f64 {
    let total: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    if squares > 0.0 {
        total * total / (shares.len() as f64 * squares)
    } else {
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn jain_of_known_shares() {
        // {2, 1}: 9 / (2 * 5); {3, 1}: 16 / (2 * 10); {4, 1}: 25 / (2 * 17); {10, 1}: 121 / (2 * 101); {1, 1, 1, 0}: 9 / (4 * 3)
        let known = [(vec![2.0, 1.0], 0.9), (vec![3.0, 1.0], 0.8), (vec![4.0, 1.0], 0.7353), (vec![10.0, 1.0], 0.5990)];
        for (shares, expected) in known {
            assert!((jain(&shares) - expected).abs() < 5e-5, "{shares:?}: {}", jain(&shares));
        }
        assert_eq!(jain(&[1.0, 1.0, 1.0, 0.0]), 0.75);
        assert_eq!(jain(&[5.0; 7]), 1.0);
        assert!(jain(&[0.0, 0.0]).is_nan());
    }
}
