//! Rates of delivery: in the fixed point of the kernel, and as real numbers.

use super::{scale_by_share, SCALE, UNIT, UNSET};

/// log2 of the unit. Linux `BW_SCALE`.
const BW_SCALE: u32 = 24;
/// Pacing stays this far below the estimate. Linux `bbr_pacing_margin_percent`.
const PACING_MARGIN_PERCENT: u64 = 1;

/// A rate: segments per microsecond times 2^24, as the kernel has it, or segments per second as an `f64`, as the draft's BBR computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BbrRate<T = u32>(pub T);

impl BbrRate {
    /// A bound that is not set.
    pub const UNSET: BbrRate = BbrRate(UNSET);

    /// `delivered` segments in `interval_us`, rounded down as v1 does.
    pub fn floor(delivered: u32, interval_us: u64) -> BbrRate {
        BbrRate(((u64::from(delivered) << BW_SCALE) / interval_us).min(u64::from(UNSET - 1)) as u32)
    }

    /// `delivered` segments in `interval_us`, rounded up as v2 and v3 do.
    pub fn ceil(delivered: u32, interval_us: u64) -> BbrRate {
        BbrRate((u64::from(delivered) << BW_SCALE).div_ceil(interval_us).min(u64::from(UNSET - 1)) as u32)
    }

    /// `share` 256ths of it, rounded down.
    pub fn scale_by_share(self, share: u32) -> BbrRate {
        BbrRate(scale_by_share(self.0, share))
    }

    /// Segments that leave in `us`.
    pub fn segments_in(self, us: u64) -> u64 {
        u64::from(self.0).saturating_mul(us) >> BW_SCALE
    }

    /// Bytes of payload per second at `gain` times this rate, less `margin` percent. Linux `bbr_rate_bytes_per_sec`.
    pub fn bytes_per_sec(self, gain: u32, mss: u32, margin: u64) -> u64 {
        let rate = (u128::from(self.0) * u128::from(mss) * u128::from(gain)) >> SCALE;
        ((rate * u128::from(1_000_000 / 100 * (100 - margin))) >> BW_SCALE) as u64
    }

    /// Bytes of payload per second.
    pub fn payload(self, mss: u32) -> u64 {
        self.bytes_per_sec(UNIT, mss, 0)
    }

    /// The pacing rate at `gain` times this rate. Linux `bbr_bw_to_pacing_rate`.
    pub fn pacing(self, gain: u32, mss: u32) -> u64 {
        self.bytes_per_sec(gain, mss, PACING_MARGIN_PERCENT).max(1)
    }

    /// `gain` times the segments in flight at this rate in `min_rtt_us`, rounded up; `initial` while no RTT is known. Linux `bbr_bdp`.
    pub fn bdp(self, min_rtt_us: u32, gain: u32, initial: u32) -> u32 {
        if min_rtt_us == UNSET {
            return initial;
        }
        let product = u128::from(self.0) * u128::from(min_rtt_us) * u128::from(gain);
        (((product >> SCALE) + (1 << BW_SCALE) - 1) >> BW_SCALE).min(u128::from(u32::MAX / 4)) as u32
    }
}

impl BbrRate<f64> {
    /// Before the first sample.
    pub const ZERO: BbrRate<f64> = BbrRate(0.0);
    /// A bound that is not set.
    pub const INFINITE: BbrRate<f64> = BbrRate(f64::INFINITY);

    /// `delivered` segments in `interval_us`.
    pub fn per_second(delivered: u32, interval_us: u64) -> BbrRate<f64> {
        BbrRate(f64::from(delivered) * 1e6 / interval_us as f64)
    }

    /// The larger of both.
    pub fn max(self, other: BbrRate<f64>) -> BbrRate<f64> {
        BbrRate(self.0.max(other.0))
    }

    /// The smaller of both.
    pub fn min(self, other: BbrRate<f64>) -> BbrRate<f64> {
        BbrRate(self.0.min(other.0))
    }

    /// `gain` times this rate.
    pub fn scale(self, gain: f64) -> BbrRate<f64> {
        BbrRate(gain * self.0)
    }

    /// Segments in `us`.
    pub fn segments_in_us(self, us: f64) -> f64 {
        self.0 * us / 1e6
    }

    /// `share` of its bytes of payload per second.
    pub fn payload_share(self, mss: u32, share: f64) -> u64 {
        (self.0 * f64::from(mss) * share) as u64
    }
}
