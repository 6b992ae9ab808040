//! Alternative Backoff with ECN: a smaller answer to a CE mark than to a loss, for any congestion control that multiplies.
//!
//! Specification: RFC 8511; Khademi, Armitage, Welzl, Zander, Fairhurst, Ros, "Alternative Backoff: Achieving Low Latency and High
//! Throughput with ECN and AQM", IFIP Networking 2017. Only the factor of the reduction changes; loss and timeouts are answered as
//! ever, and a loss in a window whose mark was answered already gets the rest of its reduction.

use super::conn::{Congestion, Conn};
use crate::param::ParamError;

/// Factors are in 1/1024, as those of Linux's `tcp_cubic.c`.
const ONE: u64 = 1024;

/// Factor that replaces that of the reduction.
#[derive(Clone, Copy, Debug)]
pub struct Abe {
    beta_ecn: u64,
    in_slow_start: bool,
}

impl Abe {
    /// With `beta_ecn` of the window kept, also by the reduction that ends slow start if `in_slow_start`.
    pub fn new(beta_ecn: f64, in_slow_start: bool) -> Abe {
        Abe { beta_ecn: (beta_ecn * ONE as f64).round() as u64, in_slow_start }
    }

    /// The share of the window that is kept, 1/1024, if it is ABE that answers `cause`.
    pub fn factor(&self, conn: &Conn, cause: Congestion) -> Option<u64> {
        let answers = cause == Congestion::Ecn && (self.in_slow_start || !conn.in_slow_start());
        answers.then_some(self.beta_ecn)
    }
}

/// Returns `cwnd` times `factor` (1/1024): never less than two segments (RFC 5681 equation 4).
pub(super) fn scale_window(cwnd: u32, factor: u64) -> u32 {
    ((u64::from(cwnd) * factor / ONE) as u32).max(2)
}

/// Refuses a factor that is set but not used.
pub(super) fn check(abe: bool, beta_ecn: f64, default: f64) -> Result<(), ParamError> {
    if !abe && beta_ecn != default {
        return Err(ParamError::new("beta_ecn", beta_ecn, "left out, unless abe = true"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::driver::conn;
    use super::*;

    #[test]
    fn only_ecn_is_answered_and_slow_start_on_request() {
        let fast = Conn { cwnd: 100, ..conn() };
        let steady = Conn { ssthresh: 50, ..fast.clone() };
        let (both, avoidance) = (Abe::new(0.8, true), Abe::new(0.8, false));
        // 0.8 * 1024 = 819.2
        assert_eq!(both.factor(&fast, Congestion::Ecn), Some(819));
        assert_eq!(both.factor(&steady, Congestion::Ecn), Some(819));
        assert_eq!(avoidance.factor(&fast, Congestion::Ecn), None);
        assert_eq!(avoidance.factor(&steady, Congestion::Ecn), Some(819));
        for cause in [Congestion::Loss, Congestion::Timeout] {
            assert_eq!(both.factor(&fast, cause), None);
        }
    }

    #[test]
    fn what_is_kept_is_never_below_two_segments() {
        // 100 * 819 / 1024 = 79.98
        assert_eq!((scale_window(100, 819), scale_window(3, 512), scale_window(1, 1000)), (79, 2, 2));
    }
}
