//! COBALT, the AQM of every flow queue: CoDel's schedule for flows that respond, BLUE for those that do not.
//!
//! Differs from CoDel of RFC 8289: there is no `first_above_time` (the wait of one interval is the first gap of the schedule),
//! every call gives exactly one verdict, and `count` decays step by step on the same schedule when the queue is short.

use super::sce::Ramp;
use crate::rng::Rng;
use crate::units::{Duration, Instant};

/// BLUE raises the drop probability by 1/256 (`p_inc`, sch_cake.c), in units of 2^-32.
const BLUE_INCREMENT: u32 = 1 << 24;
/// BLUE lowers the drop probability by 1/4096 (`p_dec`, sch_cake.c), in units of 2^-32.
const BLUE_DECREMENT: u32 = 1 << 20;

/// 1/sqrt(count) in Q0.32 for counts below 16 (`inv_sqrt_cache`, sch_cake.c 6.18); 0 and 1 are the largest number below 1.
const INV_SQRT: [u32; 16] = [
    u32::MAX,
    u32::MAX,
    3_037_000_500,
    2_479_700_525,
    2_147_483_648,
    1_920_767_767,
    1_753_413_056,
    1_623_345_051,
    1_518_500_250,
    1_431_655_765,
    1_358_187_913,
    1_294_981_364,
    1_239_850_262,
    1_191_209_601,
    1_147_878_294,
    1_108_955_787,
];

/// Thresholds of COBALT, which follow from the tin's rate and the configured RTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Acceptable standing delay.
    pub target: Duration,
    /// Time constant of the schedule.
    pub interval: Duration,
    /// Time to send a full frame at the tin's rate.
    pub mtu_time: Duration,
    /// Marks of some congestion.
    pub sce: Ramp,
}

/// Where chance comes from. BLUE and SCE have a stream each, so that one does not disturb the other.
#[derive(Clone, Debug)]
pub struct Coins {
    blue: Rng,
    sce: Rng,
}

impl Coins {
    /// The streams of a run with `seed`.
    pub fn new(seed: u64) -> Coins {
        Coins { blue: Rng::stream(seed, "cake blue", 0), sce: Rng::stream(seed, "cake-sce", 0) }
    }
}

/// State of one flow queue.
///
/// Zero is the state of a queue that was never used, as in Linux, where the whole table is zeroed: `rec_inv_sqrt` starts as 0,
/// not as 1. So the first overload of a fresh queue waits 0 instead of one interval, and its second packet over target is
/// signalled. Once `count` has decayed to 0 the value is 1 and the first gap is an interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cobalt {
    /// When the next signal, or the next decay of `count`, is due.
    pub drop_next: Instant,
    blue_timer: Instant,
    /// Strength of the schedule: a gap is interval / sqrt(count).
    pub count: u32,
    rec_inv_sqrt: u32,
    /// BLUE's drop probability, in units of 2^-32.
    pub p_drop: u32,
    dropping: bool,
}

/// Decision of COBALT on a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CobaltVerdict {
    /// Set CE, if it is sent.
    pub mark: bool,
    /// Drop it, unless it is the last one of its flow.
    pub drop: bool,
    /// Turn ECT(0) into SCE, if it is sent; CE goes first.
    pub sce: bool,
}

impl Cobalt {
    /// Whether the law is in its state of dropping.
    pub fn is_dropping(&self) -> bool {
        self.dropping
    }

    /// Judges a packet at the head, which has waited for `sojourn`.
    ///
    /// `bulk_flows` is 0 except when shaping ingress: the queue that matters then is upstream and shared by them.
    #[inline]
    pub fn judge(
        &mut self,
        th: &Thresholds,
        now: Instant,
        sojourn: Duration,
        capable: bool,
        bulk_flows: u32,
        coins: &mut Coins,
    ) -> CobaltVerdict {
        let mtu_times = 4.max(2 * u64::from(bulk_flows));
        let over = sojourn > th.target && sojourn.0 > th.mtu_time.0 * mtu_times;
        let mut verdict = CobaltVerdict::default();
        let mut past_due = now > self.drop_next;
        let mut due = self.count > 0 && now >= self.drop_next;
        if over {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.after_gap(th, now);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        if due && self.dropping {
            verdict.mark = capable;
            verdict.drop = !capable;
            self.set_count(self.count.saturating_add(1));
            self.drop_next = self.after_gap(th, self.drop_next);
            past_due = now > self.drop_next;
        } else {
            while due {
                self.set_count(self.count - 1);
                self.drop_next = self.after_gap(th, self.drop_next);
                past_due = now > self.drop_next;
                due = self.count > 0 && now >= self.drop_next;
            }
        }
        // BLUE: flows that do not respond. It never marks, on purpose.
        if self.p_drop > 0 && !verdict.drop && coins.blue.next_u32() < self.p_drop {
            verdict.drop = true;
        }
        verdict.sce = !verdict.drop && th.sce.marks(sojourn, over, &mut coins.sce);

        if self.count == 0 {
            // Not needed for the schedule: drop_next also shows how long ago the queue was active.
            self.drop_next = now + th.interval;
        } else if past_due && !verdict.drop {
            // A schedule that lags behind is not caught up with.
            self.drop_next = now;
        }
        verdict
    }

    /// A packet of this queue was dropped because the memory was full.
    pub fn queue_full(&mut self, th: &Thresholds, now: Instant) {
        if now.saturating_since(self.blue_timer) > th.target {
            self.p_drop = self.p_drop.saturating_add(BLUE_INCREMENT);
            self.blue_timer = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// The queue was served and found empty.
    pub fn queue_empty(&mut self, th: &Thresholds, now: Instant) {
        if self.p_drop > 0 && now.saturating_since(self.blue_timer) > th.target {
            self.p_drop = self.p_drop.saturating_sub(BLUE_DECREMENT);
            self.blue_timer = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.set_count(self.count - 1);
            self.drop_next = self.after_gap(th, self.drop_next);
        }
    }

    /// Whether nothing would be lost by forgetting this state.
    pub fn is_at_rest(&self, now: Instant) -> bool {
        self.p_drop == 0 && self.count == 0 && now >= self.drop_next
    }

    #[inline]
    fn after_gap(&self, th: &Thresholds, from: Instant) -> Instant {
        from + Duration(((u128::from(th.interval.0) * u128::from(self.rec_inv_sqrt)) >> 32) as u64)
    }

    #[inline]
    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.rec_inv_sqrt = match INV_SQRT.get(count as usize) {
            Some(&exact) => exact,
            None => newton_step(self.rec_inv_sqrt, count),
        };
    }
}

/// One step of Newton's method for 1/sqrt(count), x' = x/2 (3 - count x^2), in Q0.32.
fn newton_step(rec_inv_sqrt: u32, count: u32) -> u32 {
    let x = u64::from(rec_inv_sqrt);
    let square = (x * x) >> 32;
    // Two bits are given up before the product and one bit is the division by 2: 64 bits are enough.
    let factor = (3_u64 << 32).wrapping_sub(u64::from(count).wrapping_mul(square)) >> 2;
    (factor.wrapping_mul(x) >> 31) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::cake::sce;

    /// 100 Mbit/s, 100 ms: a full frame takes 121.12 us, so that target decides.
    const TH: Thresholds =
        Thresholds { target: Duration(5_000_000), interval: Duration(100_000_000), mtu_time: Duration(121_120), sce: Ramp::OFF };

    fn coins() -> Coins {
        Coins::new(1)
    }

    /// Times (ms) of marks: a packet leaves every ms, with a sojourn of 10 ms from 10 ms on.
    fn mark_times(mut cobalt: Cobalt, until_ms: u64) -> Vec<u64> {
        let mut coins = coins();
        let marked = |ms: &u64| {
            let sojourn = Duration::from_millis(if *ms < 10 { 0 } else { 10 });
            let verdict = cobalt.judge(&TH, Instant::from_millis(*ms), sojourn, true, 0, &mut coins);
            assert!(!verdict.drop);
            verdict.mark
        };
        (0..until_ms).filter(marked).collect()
    }

    #[test]
    fn a_fresh_queue_marks_its_second_packet_over_target() {
        // Linux's quirk: at 10 ms the gap is 0, so that 11 ms is due. Then from drop_next = 10 ms:
        // 10 + {70.71, 128.45, 178.45, 223.17, 263.99} = 80.71, 138.45, 188.45, 233.17, 273.99, each at the next departure.
        assert_eq!(mark_times(Cobalt::default(), 280), [11, 81, 139, 189, 234, 274]);
    }

    #[test]
    fn a_queue_that_was_at_rest_waits_for_an_interval() {
        // 10 + 100 = 110 ms is due at 110 ms (the gap is 100 ms less 23 ns); then 110 + {70.71, 128.45, ...}
        let primed = Cobalt { rec_inv_sqrt: u32::MAX, ..Cobalt::default() };
        assert_eq!(mark_times(primed, 380), [110, 181, 239, 289, 334, 374]);
    }

    #[test]
    fn inverse_square_roots() {
        for (count, &rec) in INV_SQRT.iter().enumerate().skip(2) {
            assert_eq!(rec, (4_294_967_296.0 / (count as f64).sqrt()).round() as u32, "count {count}");
        }
        // From 1/sqrt(15), one step to 16: x = 0.258199, x/2 (3 - 16/15) = 0.249592: 24.959 ms of 100, not 25.
        let mut cobalt = Cobalt { rec_inv_sqrt: INV_SQRT[15], ..Cobalt::default() };
        cobalt.set_count(16);
        assert_eq!(cobalt.after_gap(&TH, Instant::ZERO).as_micros(), 24_959);
        for (count, gap_us) in [(1, 99_999), (2, 70_710), (3, 57_735), (4, 50_000), (5, 44_721), (6, 40_824)] {
            cobalt.set_count(count);
            assert_eq!(cobalt.after_gap(&TH, Instant::ZERO).as_micros(), gap_us, "count {count}");
        }
    }

    #[test]
    fn four_full_frames_are_never_too_long_a_queue() {
        // 1 Mbit/s: 12.112 ms a frame, target 18.168 ms; four frames are 48.448 ms.
        let th = Thresholds {
            target: Duration::from_micros(18_168),
            interval: Duration::from_micros(113_168),
            mtu_time: Duration(12_112_000),
            sce: Ramp::OFF,
        };
        let over = |sojourn, bulk_flows| {
            let mut cobalt = Cobalt::default();
            cobalt.judge(&th, Instant::from_secs(1), Duration(sojourn), true, bulk_flows, &mut coins());
            cobalt.dropping
        };
        assert!(!over(48_448_000, 0) && over(48_448_001, 0));
        // ingress with 3 bulk flows: 2 * 3 frames are 72.672 ms; with one, the 4 frames stand
        assert!(!over(72_672_000, 3) && over(72_672_001, 3) && over(48_448_001, 1));
    }

    #[test]
    fn a_packet_that_cannot_be_marked_is_dropped() {
        let mut cobalt = Cobalt { count: 1, dropping: true, rec_inv_sqrt: u32::MAX, ..Cobalt::default() };
        let verdict = cobalt.judge(&TH, Instant::from_secs(1), Duration::from_millis(6), false, 0, &mut coins());
        assert_eq!(verdict, CobaltVerdict { mark: false, drop: true, sce: false });
        // exactly target is not over it
        let mut calm = Cobalt { count: 1, dropping: true, rec_inv_sqrt: u32::MAX, ..Cobalt::default() };
        assert_eq!(calm.judge(&TH, Instant::from_secs(1), TH.target, false, 0, &mut coins()), CobaltVerdict::default());
    }

    #[test]
    fn count_decays_on_its_own_schedule() {
        // count 4, due at 1000 ms: to 3 at 1000, to 2 after 57.74 (gap of 3), to 1 after 70.71, to 0 after 100: 1228.45 ms.
        let decayed = |ms: u64| {
            let mut cobalt =
                Cobalt { count: 4, drop_next: Instant::from_millis(1000), rec_inv_sqrt: INV_SQRT[4], ..Cobalt::default() };
            cobalt.judge(&TH, Instant::from_millis(ms), Duration::ZERO, true, 0, &mut coins());
            cobalt.count
        };
        assert_eq!([999, 1000, 1057, 1058, 1128, 1129, 1228, 1229].map(decayed), [4, 3, 3, 2, 2, 1, 1, 0]);
    }

    #[test]
    fn blue_rises_once_a_target_and_falls_sixteen_times_slower() {
        let mut cobalt = Cobalt::default();
        for (ms, p) in [(10, 1), (14, 1), (15, 1), (16, 2), (20, 2), (22, 3)] {
            // more than 5 ms since the last rise: 10, 16 (not 15), 22
            cobalt.queue_full(&TH, Instant::from_millis(ms));
            assert_eq!(cobalt.p_drop, p << 24, "{ms} ms");
        }
        let mut steps = 0;
        for ms in (100..).step_by(6).take(16) {
            assert!(cobalt.p_drop > 2 << 24);
            cobalt.queue_empty(&TH, Instant::from_millis(ms));
            steps += 1;
        }
        assert_eq!((steps, cobalt.p_drop), (16, 2 << 24));
        cobalt.queue_empty(&TH, Instant::from_millis(100 + 15 * 6 + 5)); // 5 ms are not more than the target
        assert_eq!(cobalt.p_drop, 2 << 24);
    }

    #[test]
    fn blue_drops_a_share_of_p_and_never_marks() {
        let mut cobalt = Cobalt { p_drop: 1 << 30, ..Cobalt::default() };
        let mut random = coins();
        let drops = (0..40_000_u64)
            .map(|us| cobalt.judge(&TH, Instant::from_micros(us), Duration::ZERO, true, 0, &mut random))
            .inspect(|verdict| assert!(!verdict.mark))
            .filter(|verdict| verdict.drop)
            .count();
        // 40000/4 = 10000, standard deviation sqrt(40000 * 3/16) = 87
        assert!((9_650..10_350).contains(&drops), "{drops}");
    }

    #[test]
    fn some_congestion_is_said_of_packets_that_are_kept() {
        let setting = sce::SceSetting { mode: sce::SceMode::On, thresh: 1 };
        let th = Thresholds { sce: Ramp::new(setting, TH.target), ..TH };
        let judge = |mut cobalt: Cobalt, capable| {
            cobalt.judge(&th, Instant::from_secs(1), Duration::from_millis(9), capable, 0, &mut coins())
        };
        let due = Cobalt { count: 1, dropping: true, rec_inv_sqrt: u32::MAX, ..Cobalt::default() };
        // over target: the ramp is at its end; CE is for the caller to set first
        assert_eq!(judge(Cobalt::default(), true), CobaltVerdict { sce: true, ..CobaltVerdict::default() });
        assert_eq!(judge(due, true), CobaltVerdict { mark: true, drop: false, sce: true });
        assert_eq!(judge(due, false), CobaltVerdict { mark: false, drop: true, sce: false });
        let blue = Cobalt { p_drop: u32::MAX, ..Cobalt::default() };
        assert_eq!(judge(blue, true), CobaltVerdict { mark: false, drop: true, sce: false });
    }

    #[test]
    fn probability_saturates() {
        let mut cobalt = Cobalt { p_drop: u32::MAX - 1, ..Cobalt::default() };
        cobalt.queue_full(&TH, Instant::from_secs(1));
        assert_eq!(cobalt.p_drop, u32::MAX);
    }

    #[test]
    fn a_schedule_that_lags_is_not_caught_up_with() {
        // A second late at count 1: the mark schedules 70.7 ms after the old time, which is past, so that the next is due at once,
        // but the lag is forgotten: the one after that waits for a whole gap.
        let mut cobalt = Cobalt { count: 1, dropping: true, drop_next: Instant::from_secs(1), ..Cobalt::default() };
        let mut marks =
            |now: u64| cobalt.judge(&TH, Instant::from_millis(now), Duration::from_millis(10), true, 0, &mut coins()).mark;
        assert!(marks(2000) && marks(2001));
        // 2000 + 57.7 (count 3)
        assert!(!marks(2057) && marks(2058));
        assert!(!marks(2059));
    }
}
