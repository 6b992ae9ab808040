//! Some congestion experienced (SCE): a ramp of marks on the sojourn time, below the point where COBALT marks CE.
//!
//! Specification: draft-morton-tsvwg-sce-01 for the codepoint; `sch_cake.c` of github.com/chromi/sce and the tc-cake of its
//! iproute2 for the ramp. Marks are random and independent of each other, on sparse and bulk flows alike.
//!
//! As there, the probability is a 32-bit binary fraction and its slopes are cut to whole units of 2^-32 a nanosecond: the ramp
//! ends a little below where it should (99.94 % at a target of 5 ms), more so the longer the target is. A packet that is SCE
//! already is not counted as marked (an older version, 56915a8, counts it).

use crate::packet::{Ecn, Packet};
use crate::rng::Rng;
use crate::units::Duration;

crate::choice! {
    /// How the probability of SCE rises with the sojourn time.
    pub enum SceMode {
        /// No SCE marks.
        Off = "off",
        /// From 0 at half the target to 1 at the target.
        On = "on",
        /// From 0 at the target to 1 at twice the target.
        Single = "single",
        /// From 0 at half the target to one in `sce_thresh` at the target, and from there to 1 at twice the target.
        Thresh = "thresh",
    }
}

/// A mode with its number: what does not depend on a tin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SceSetting {
    /// The keyword.
    pub mode: SceMode,
    /// With [`SceMode::Thresh`]: one packet in so many is marked at the target.
    pub thresh: u16,
}

/// The ramp of one tin. Probabilities are in units of 2^-32, slopes in such units a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    on: bool,
    target: Duration,
    /// Probability at target.
    knee: u64,
    /// Slope above half the target, as long as COBALT does not call the queue too long.
    low: u64,
    /// Slope above the target, from when it does.
    high: u64,
}

impl Ramp {
    /// Never marks.
    pub const OFF: Ramp = Ramp { on: false, target: Duration::ZERO, knee: 0, low: 0, high: 0 };

    /// The ramp of a tin with `target`, which must not be 0.
    pub fn new(setting: SceSetting, target: Duration) -> Ramp {
        const ONE: u64 = u32::MAX as u64;
        let knee = match setting.mode {
            SceMode::Off => return Ramp::OFF,
            SceMode::On => ONE,
            SceMode::Single => 0,
            SceMode::Thresh => ONE / u64::from(setting.thresh.max(1)),
        };
        Ramp { on: true, target, knee, low: knee / (target.0 / 2), high: (ONE - knee) / target.0 }
    }

    /// Probability of a mark in units of 2^-32; may exceed 1.
    ///
    /// `over` is COBALT's test, which also wants four full frames: on slow links the lower slope goes on above the target until
    /// then, past the knee, and the probability jumps to the upper one.
    fn probability(&self, sojourn: Duration, over: bool) -> u64 {
        let half = self.target / 2;
        match (sojourn > half, over) {
            (false, _) => 0,
            (true, false) => (sojourn - half).0.saturating_mul(self.low),
            (true, true) => sojourn.saturating_sub(self.target).0.saturating_mul(self.high).saturating_add(self.knee),
        }
    }

    /// Whether a packet with `sojourn` that is kept gets an SCE mark. Draws only where chance decides.
    #[inline]
    pub fn marks(&self, sojourn: Duration, over: bool, rng: &mut Rng) -> bool {
        if !self.on {
            return false;
        }
        let probability = self.probability(sojourn, over);
        probability > u64::from(u32::MAX) || (probability > 0 && u64::from(rng.next_u32()) < probability)
    }
}

/// Turns ECT(0) into SCE, which is ECT(1); any other codepoint stays. Returns whether it did.
#[inline]
pub fn set_sce(packet: &mut Packet) -> bool {
    let marked = packet.ecn() == Ecn::Ect0;
    if marked {
        packet.set_ecn(Ecn::Ect1);
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::testing::packet;

    const TARGET: Duration = Duration::from_millis(5);

    fn ramp(mode: SceMode, thresh: u16) -> Ramp {
        Ramp::new(SceSetting { mode, thresh }, TARGET)
    }

    /// At 100 Mbit/s four frames are 0.48 ms: being over target is all that counts.
    fn share(ramp: &Ramp, sojourn_us: u64) -> f64 {
        let sojourn = Duration::from_micros(sojourn_us);
        (ramp.probability(sojourn, sojourn > TARGET) as f64 / 4_294_967_296.0).min(1.0)
    }

    #[test]
    fn probabilities_at_a_target_of_5_ms() {
        // Slopes, cut: on: 2^32 / 2.5 ms = 1717.98 -> 1717; single: 2^32 / 5 ms = 858.99 -> 858;
        // 2: 858.99 -> 858 and 429.49 -> 429; 16: 107.37 -> 107 and 805.3 -> 805; 64: 26.8 -> 26 and 845.6 -> 845.
        // At 3.75 ms: 1717 * 1.25 ms / 2^32 = 0.4997; at 10 ms with 16: 1/16 + 805 * 5 ms / 2^32 = 0.9996.
        let ramps = [(SceMode::On, 1), (SceMode::Thresh, 2), (SceMode::Thresh, 16), (SceMode::Thresh, 64), (SceMode::Single, 1)]
            .map(|(m, n)| ramp(m, n));
        for (sojourn_us, expected) in [
            (2_500, [0.0, 0.0, 0.0, 0.0, 0.0]),
            (3_750, [0.4997, 0.2497, 0.0311, 0.0076, 0.0]),
            (5_000, [0.9994, 0.4994, 0.0623, 0.0151, 0.0]),
            (5_500, [1.0, 0.5499, 0.1562, 0.1140, 0.0999]),
            (7_500, [1.0, 0.7497, 0.5311, 0.5075, 0.4994]),
            (10_000, [1.0, 0.9994, 0.9996, 0.9993, 0.9988]),
        ] {
            let got = ramps.map(|ramp| (share(&ramp, sojourn_us) * 1e4).round() / 1e4);
            assert_eq!(got, expected, "{sojourn_us} us");
        }
    }

    #[test]
    fn on_is_a_threshold_of_one_and_off_never_marks() {
        assert_eq!(ramp(SceMode::On, 8), ramp(SceMode::Thresh, 1));
        assert_eq!([0, 2_500, 5_000, 1_000_000].map(|us| share(&ramp(SceMode::Off, 8), us)), [0.0; 4]);
        // 1/1024 at the target, cut: 4194303 / 2.5 ms = 1.68 -> 1: 2.5e6 / 2^32
        assert_eq!(ramp(SceMode::Thresh, 1024).probability(TARGET, false), 2_500_000);
    }

    #[test]
    fn on_a_slow_link_the_lower_slope_goes_on_until_four_frames_wait() {
        // 5 Mbit/s: target 5 ms, four frames 9.69 ms. N = 2 at 9 ms: 858 * 6.5 ms / 2^32 = 1.2985 if not over, else
        // 0.5 + 429 * 4 ms / 2^32 = 0.8995: the probability falls.
        let two = ramp(SceMode::Thresh, 2);
        let at = |over| two.probability(Duration::from_millis(9), over) as f64 / 4_294_967_296.0;
        assert!((at(false) - 1.2985).abs() < 1e-4 && (at(true) - 0.8995).abs() < 1e-4, "{} {}", at(false), at(true));
        // N = 16: 107 * 6.5 ms / 2^32 = 0.1619, then 1/16 + 805 * 4 ms / 2^32 = 0.8122: it jumps up.
        let sixteen = ramp(SceMode::Thresh, 16);
        let of = |over| sixteen.probability(Duration::from_millis(9), over) as f64 / 4_294_967_296.0;
        assert!((of(false) - 0.1619).abs() < 1e-4 && (of(true) - 0.8122).abs() < 1e-4, "{} {}", of(false), of(true));
        // Single does not mark before.
        assert_eq!(ramp(SceMode::Single, 1).probability(Duration::from_millis(9), false), 0);
    }

    #[test]
    fn the_longest_waits_at_the_shortest_targets_do_not_overflow() {
        let short = Ramp::new(SceSetting { mode: SceMode::Single, thresh: 1 }, Duration::from_micros(1));
        assert_eq!(short.probability(Duration(u64::MAX), true), u64::MAX);
        let long = Ramp::new(SceSetting { mode: SceMode::On, thresh: 1 }, Duration::from_secs(50));
        assert_eq!(long.probability(Duration::from_secs(40), false), 0, "a slope below one unit is cut to 0");
    }

    #[test]
    fn marks_are_as_many_as_the_probability_says() {
        // n p +- 5 sqrt(n p (1 - p)), n = 100000
        let mut rng = Rng::stream(1, "cake-sce", 0);
        let n = 100_000;
        for (mode, thresh, sojourn_us) in [(SceMode::On, 1, 3_750), (SceMode::Thresh, 16, 5_000), (SceMode::Single, 1, 9_000)] {
            let ramp = ramp(mode, thresh);
            let sojourn = Duration::from_micros(sojourn_us);
            let marks = (0..n).filter(|_| ramp.marks(sojourn, sojourn > TARGET, &mut rng)).count() as f64;
            let (p, n) = (share(&ramp, sojourn_us), f64::from(n));
            assert!((marks - n * p).abs() < 5.0 * (n * p * (1.0 - p)).sqrt(), "{mode:?} {thresh}: {marks} of {n}, p = {p}");
        }
    }

    #[test]
    fn chance_is_asked_only_where_it_decides() {
        let drawn = |ramp: Ramp, sojourn_us| {
            let mut rng = Rng::stream(1, "cake-sce", 0);
            let marked = ramp.marks(Duration::from_micros(sojourn_us), sojourn_us > 5_000, &mut rng);
            (marked, rng.next_u64() != Rng::stream(1, "cake-sce", 0).next_u64())
        };
        assert_eq!(drawn(ramp(SceMode::Off, 1), 100_000), (false, false));
        assert_eq!(drawn(ramp(SceMode::On, 1), 2_500), (false, false));
        assert_eq!(drawn(ramp(SceMode::Single, 1), 4_000), (false, false));
        assert_eq!(drawn(ramp(SceMode::Single, 1), 10_100), (true, false));
        assert!(drawn(ramp(SceMode::On, 1), 4_000).1);
    }

    #[test]
    fn only_ect0_becomes_sce() {
        let after = |ecn| {
            let mut packet = packet(0, ecn);
            (set_sce(&mut packet), packet.ecn())
        };
        assert_eq!(after(Ecn::Ect0), (true, Ecn::Ect1));
        for ecn in [Ecn::Ect1, Ecn::Ce, Ecn::NotEct] {
            assert_eq!(after(ecn), (false, ecn));
        }
    }
}
