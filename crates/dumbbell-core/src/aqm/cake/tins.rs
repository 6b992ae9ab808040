//! Tins: priority classes by differentiated-services codepoint, each with a soft threshold rate.
//!
//! A tin over its rate loses priority, not capacity.

use super::cobalt::Thresholds;
use super::isolation::FlowList;
use super::sce::{Ramp, SceSetting};
use super::shaper::ByteTime;
use crate::units::{Duration, Instant};

/// One tin.
#[derive(Clone, Debug)]
pub struct Tin {
    /// Thresholds of the COBALTs of its queues.
    pub thresholds: Thresholds,
    /// Bytes that a flow may send in its turn.
    pub flow_quantum: u32,
    byte_time: ByteTime,
    /// When the tin is within its rate again.
    pub next: Instant,
    quantum: i32,
    /// Bytes left in its turn; without a shaper.
    pub deficit: i32,
    /// Flow queues to be served: those of `NEW` and `DECAYING`; those of `OLD` are in turns.
    pub lists: [FlowList; 2],
    /// Flows that have not used up a quantum yet, in the new or the old list.
    pub sparse_flows: u32,
    /// Flows that have.
    pub bulk_flows: u32,
    /// Packets.
    pub packets: u32,
}

/// Flows that became active.
pub const NEW: usize = 0;
/// Empty flows whose COBALT is not yet at rest.
pub const DECAYING: usize = 1;
/// Flows that used up a quantum: not a list, but [`super::turns::TurnRing`].
pub const OLD: usize = 2;

/// Rates and what follows from them, for one tin at `bytes_per_second` (0: unlimited), as `cake_set_rate` computes it.
///
/// Returns the flow quantum and the thresholds.
fn rate_dependent(bytes_per_second: u64, full_frame: u16, rtt: Duration, sce: SceSetting) -> (u32, Thresholds) {
    // tc-cake(8): target is 1/20 of rtt, at least 1 us.
    let configured = (rtt / 20).max(Duration::from_micros(1));
    let mtu_time = ByteTime::from_rate(bytes_per_second).times(u32::from(full_frame));
    let target = configured.max(mtu_time * 3 / 2);
    let interval = (rtt + target - configured).max(target + target);
    let quantum = if bytes_per_second == 0 { 1514 } else { (bytes_per_second >> 12).clamp(300, 1514) };
    (quantum as u32, Thresholds { target, interval, mtu_time, sce: Ramp::new(sce, target) })
}

impl Tin {
    /// An empty tin.
    pub fn new(bytes_per_second: u64, quantum: i32, full_frame: u16, rtt: Duration, sce: SceSetting) -> Tin {
        let (flow_quantum, thresholds) = rate_dependent(bytes_per_second, full_frame, rtt, sce);
        let byte_time = ByteTime::from_rate(bytes_per_second);
        let lists = [FlowList::default(); 2];
        Tin {
            thresholds,
            flow_quantum,
            byte_time,
            next: Instant::ZERO,
            quantum,
            deficit: 0,
            lists,
            sparse_flows: 0,
            bulk_flows: 0,
            packets: 0,
        }
    }

    /// Changes the rate.
    pub fn set_rate(&mut self, bytes_per_second: u64, full_frame: u16, rtt: Duration, sce: SceSetting) {
        (self.flow_quantum, self.thresholds) = rate_dependent(bytes_per_second, full_frame, rtt, sce);
        self.byte_time = ByteTime::from_rate(bytes_per_second);
    }

    /// Whether a flow is waiting for service, not counting those that only decay.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.sparse_flows + self.bulk_flows > 0
    }

    /// Charges `bytes` to the tin's own clock, which lags at most one packet behind.
    #[inline]
    pub fn charge(&mut self, bytes: u32, now: Instant) {
        let duration = self.byte_time.times(bytes);
        if self.next < now {
            self.next += duration;
        } else if self.next < now + duration {
            self.next = now + duration;
        }
    }
}

/// With a shaper: of the tins with flows, the last one within its rate, or else the one that will be first.
#[inline]
pub fn by_schedule(tins: &[Tin], now: Instant) -> usize {
    let mut best = (0, Instant::NEVER);
    for (index, tin) in tins.iter().enumerate() {
        if tin.is_active() && tin.next <= best.1.max(now) {
            best = (index, tin.next);
        }
    }
    best.0
}

/// Without a shaper: deficit round robin from `current` on. At least one tin must be active.
#[inline]
pub fn by_turns(tins: &mut [Tin], mut current: usize) -> usize {
    while tins[current].deficit < 0 || !tins[current].is_active() {
        if tins[current].deficit <= 0 {
            tins[current].deficit += tins[current].quantum;
        }
        current += 1;
        if current == tins.len() {
            current = 0;
        }
    }
    current
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::cake::diffserv::Diffserv;
    use crate::aqm::cake::sce::SceMode;
    use crate::units::Rate;

    const NO_SCE: SceSetting = SceSetting { mode: SceMode::Off, thresh: 1 };

    #[test]
    fn target_interval_and_quantum_by_rate() {
        // mtu_time = 1514 * 8 / rate; target = max(1.5 mtu_time, 5 ms); interval = max(100 + target - 5, 2 target);
        // quantum = clamp(rate in B/s / 4096, 300, 1514)
        for (kbit, mtu_time_ns, target_us, interval_us, quantum) in [
            (64, 189_250_000, 283_875, 567_750, 300),
            (500, 24_224_000, 36_336, 131_336, 300),
            (1_000, 12_112_000, 18_168, 113_168, 300),
            (2_000, 6_056_000, 9_084, 104_084, 300),
            (5_000, 2_422_400, 5_000, 100_000, 300),
            (10_000, 1_211_200, 5_000, 100_000, 305),
            (50_000, 242_240, 5_000, 100_000, 1514),
        ] {
            let (got_quantum, th) = rate_dependent(Rate(kbit * 1000).bytes(), 1514, Duration::from_millis(100), NO_SCE);
            // a byte time of 34 bits loses up to 0.02 ns in 189 ms, so that a whole number may be cut to the one below
            assert!(mtu_time_ns - th.mtu_time.0 <= 1, "{kbit} kbit/s: {}", th.mtu_time);
            assert!(Instant::from_micros(target_us).0 - th.target.0 <= 2, "{kbit} kbit/s: {}", th.target);
            assert!(Instant::from_micros(interval_us).0 - th.interval.0 <= 4, "{kbit} kbit/s: {}", th.interval);
            assert_eq!(got_quantum, quantum, "{kbit} kbit/s");
        }
    }

    #[test]
    fn the_target_is_that_of_one_and_a_half_frames_of_the_device() {
        // cake_set_rate: at 1 Mbit/s 1.5 * 8 us a byte: 526 B 6.312 ms, 9000 B 108 ms, and an interval of twice as much; the quantum stays
        for (frame, target_us, interval_us) in [(154, 5_000, 100_000), (526, 6_312, 101_312), (9_000, 108_000, 216_000)] {
            let (quantum, th) = rate_dependent(125_000, frame, Duration::from_millis(100), NO_SCE);
            let [target, interval] = [target_us, interval_us].map(Instant::from_micros);
            assert!(target.0 - th.target.0 <= 2 && interval.0 - th.interval.0 <= 4, "{frame} B: {} {}", th.target, th.interval);
            assert_eq!(quantum, 300);
        }
    }

    #[test]
    fn a_short_rtt_is_stretched_to_two_targets() {
        // 1 Mbit/s, rtt 10 ms: target 1.5 * 12.112 = 18.168 ms; 10 + 18.168 - 0.5 = 27.668 < 36.336 ms
        let (_, th) = rate_dependent(125_000, 1514, Duration::from_millis(10), NO_SCE);
        assert_eq!((th.target.as_micros(), th.interval.as_micros()), (18_168, 36_336));
    }

    #[test]
    fn an_unlimited_tin_has_no_mtu_time() {
        let (quantum, th) = rate_dependent(0, 1514, Duration::from_millis(100), NO_SCE);
        assert_eq!(
            (quantum, th.mtu_time, th.target, th.interval),
            (1514, Duration::ZERO, Duration::from_millis(5), Duration::from_millis(100))
        );
    }

    #[test]
    fn tins_of_diffserv3_at_10_mbit() {
        // Bulk 625 kbit/s: 1.5 * 1514 * 8 / 0.625 = 29068.8 us, 100 ms + 24068.8; voice 2.5 Mbit/s: 7267.2 us, 102267.2 us
        let tins: Vec<Tin> = Diffserv::Diffserv3
            .shares(1_250_000)
            .into_iter()
            .map(|(r, q)| Tin::new(r, q, 1514, Duration::from_millis(100), NO_SCE))
            .collect();
        let us = |time: Duration| (time.0 as f64 / 1e3).round() as u64;
        assert_eq!((us(tins[1].thresholds.target), us(tins[1].thresholds.interval)), (29_069, 124_069));
        assert_eq!((us(tins[2].thresholds.target), us(tins[2].thresholds.interval)), (7_267, 102_267));
        assert_eq!(tins.iter().map(|tin| tin.quantum).collect::<Vec<_>>(), [1024, 64, 256]);
    }

    #[test]
    fn a_tin_keeps_its_turn_down_to_a_deficit_of_zero() {
        let mut tins: Vec<Tin> =
            [1024, 64].into_iter().map(|quantum| Tin::new(0, quantum, 1514, Duration::from_millis(100), NO_SCE)).collect();
        tins.iter_mut().for_each(|tin| tin.bulk_flows = 1);
        assert_eq!((by_turns(&mut tins, 0), tins[0].deficit), (0, 0));
        tins[0].deficit = -1500;
        // the turn passes to tin 1 and tin 0 gets its quantum
        assert_eq!((by_turns(&mut tins, 0), tins[0].deficit), (1, -476));
        // 1 is out: 64 a round; 0 has 548 after the next round
        tins[1].deficit = -1500;
        assert_eq!((by_turns(&mut tins, 1), tins[1].deficit, tins[0].deficit), (0, -1372, 548));
    }
}
