//! The edge of core-stateless resource sharing: measures the rate of what passes and gives every packet a value, from which a bottleneck
//! without any knowledge of flows (`csaqm`) decides what it marks.
//!
//! Framework: per-packet values (ppv.elte.hu). A throughput-value function (TVF), strictly decreasing in the rate, is the policy: if
//! everything below a value v is marked or dropped, what is left of a flow is the rate r with TVF(r) = v, the same for all flows that
//! have the same TVF. To get that of a flow of rate R, the value of a packet is TVF(r), r uniform in (0, R). With weight w it is
//! TVF(r / w): what is left is w r.
//!
//! The TVF is logarithmic, and its value fits into 16 bits: 2048 values an octave, in steps of 0.05 % of the rate or less, from
//! 1 kbit/s (value 65534) to 4.29 Tbit/s (value 1); rates beyond have the value at the end. A bottleneck compares values and does
//! nothing else with them, so that any strictly decreasing function shares alike. Value 0 is left to packets that passed no edge,
//! and 65535, [`HIGHEST`], to those that are never marked: the handshake (SYN and pure ACKs), which also is not measured. UDP and
//! retransmissions are measured and valued as data is: a value of their own would be a way around the policy.
//!
//! The rate R follows a token bucket, as in the public code for ns-3 (natrushun/PPV-NS-3-3.44): tokens come at R. A packet that finds
//! enough of them takes them, and r is uniform in (0, R). If there are more than `depth`, R falls by the excess over `window`. If there
//! are too few, R rises by what is missing, and r is uniform between the old and the new rate: the packet is worth what the rate has
//! become. Both ways, R goes to the rate of arrivals with the time constant `window`; its mean over time is right for steady traffic
//! and for bursts less than a window apart.
//!
//! So packets of an even stream are worth all rates from 0 to R, and a threshold marks the share of them that is above the rate it
//! leaves. Packets of a burst above `depth`, as senders with segmentation offload make them, are worth R alone: a threshold marks most of
//! them or almost none. The flow is then held at the rate of the threshold whatever share of marks its congestion control needs. With
//! values from an average and r in (0, R) for all packets, a flow that needs a share m of marks gets 1 / (1 - m) times that rate; m is 0 for
//! CUBIC, but 32 packets over the window for Linux's DCTCP, as its alpha is in 1/1024 and forgets what is below 16.
//!
//! In `bottleneck.path` it measures and values all flows as one.

use super::{Downstream, PathItem, Stage};
use crate::packet::{flag, Packet};
use crate::real;
use crate::rng::Rng;
use crate::units::{Duration, Instant};
use std::f64::consts::LN_2;
use std::sync::LazyLock;

/// Name in experiment files.
pub const NAME: &str = "value_marker";
/// One line.
pub const TITLE: &str = "edge marker of core-stateless AQM: packet values by measured rate and weight";
/// Specification and deviations.
pub const SOURCE: &str =
    "per-packet values (ppv.elte.hu), rate-measuring marker as in natrushun/PPV-NS-3-3.44; the function is logarithmic";

crate::params! {
    /// Parameters of the edge marker.
    pub struct Params {
        /// Weight: flows that send enough share in its proportion.
        weight: f64 = 1.0, unit "ratio", range 0.001, 1000.0, source "the default is ours: equal shares, as in Fejes et al. 2020";
        /// Time constant of the measured rate.
        window: Duration = Duration::from_millis(40), unit "", range Duration::from_micros(100), Duration::from_secs(100), source "TbTime of natrushun/PPV-NS-3-3.44: 0.04 s";
        /// Tokens that there may be before the rate falls.
        depth: u32 = 7500, unit "bytes", range 1000_u32, 1_000_000_000_u32, source "target of the bucket in natrushun/PPV-NS-3-3.44";
    }
}

/// Value of packets that are never marked.
pub const HIGHEST: u16 = u16::MAX;
/// The largest value of a rate.
const MOST: u16 = HIGHEST - 1;
/// Values in an octave of the rate: 32 octaves make 16 bits.
const PER_OCTAVE: f64 = 2048.0;
/// The rate that has the largest value, B/s: 1 kbit/s.
const LEAST_RATE: f64 = 125.0;

/// Tokens after a packet for which there were too few, bytes (beta of natrushun/PPV-NS-3-3.44).
const REFILL: f64 = 1000.0;

/// Bits of the mantissa that count: 2048 steps an octave.
const STEP_BITS: u32 = 11;
/// Bits of the mantissa of an `f64` below them.
const BELOW: u32 = f64::MANTISSA_DIGITS - 1 - STEP_BITS;
/// Exponent of 1.0 as an `f64` stores it.
const EXPONENT_OF_ONE: i32 = f64::MAX_EXP - 1;

/// Values that lie between 1 and `1 + step / 2048`, rounded down.
static OF_STEP: LazyLock<[u16; 1 << STEP_BITS]> = LazyLock::new(|| {
    let steps = f64::from(1_u32 << STEP_BITS);
    std::array::from_fn(|step| (PER_OCTAVE * real::ln_1p(step as f64 / steps) / LN_2) as u16)
});

/// The value of a packet, by the throughput-value function: `rate` in B/s, 0 or more, already divided by the weight.
#[inline]
pub fn value_of(rate: f64) -> u16 {
    let bits = (rate * LEAST_RATE.recip()).to_bits() >> BELOW;
    let octaves = (bits >> STEP_BITS) as i32 - EXPONENT_OF_ONE;
    let step = bits as usize % (1 << STEP_BITS);
    let below = octaves * PER_OCTAVE as i32 + i32::from(OF_STEP[step]);
    (i32::from(MOST) - below).clamp(1, i32::from(MOST)) as u16
}

/// Measures, and draws.
#[derive(Clone, Debug)]
pub struct State {
    /// 1 / weight.
    share: f64,
    /// 1 / window, 1/s.
    inverse: f64,
    /// Bytes.
    depth: f64,
    /// The rate, B/s.
    rate: f64,
    /// Tokens at `last`, bytes.
    tokens: f64,
    last: Instant,
}

impl State {
    /// With `params`; the bucket is full, and the rate 0.
    pub fn new(params: Params, _rng: &mut Rng) -> State {
        let depth = f64::from(params.depth);
        let [share, inverse] = [params.weight, params.window.as_secs_f64()].map(f64::recip);
        State { share, inverse, depth, rate: 0.0, tokens: depth, last: Instant::ZERO }
    }

    /// A packet of `bytes` comes. Returns the least and the largest rate that it may be worth, B/s.
    #[inline]
    fn measure(&mut self, bytes: u16, now: Instant) -> (f64, f64) {
        let bytes = f64::from(bytes);
        let left = self.tokens + self.rate * ((now - self.last).as_nanos() as f64 * 1e-9) - bytes;
        self.last = now;
        if left < 0.0 {
            let before = self.rate;
            self.rate += (REFILL - left) * self.inverse;
            self.tokens = REFILL;
            return (before, self.rate);
        }
        self.tokens = left;
        if left > self.depth {
            self.rate -= (left - self.depth) * self.inverse;
            self.tokens = self.depth;
            // no less than one packet a window
            let least = bytes * self.inverse;
            if self.rate < least {
                (self.rate, self.tokens) = (least, 0.0);
            }
        }
        (0.0, self.rate)
    }

    /// The value of `packet`; `draw` is uniform in [0, 1).
    #[inline]
    fn value(&mut self, packet: &Packet, now: Instant, draw: f64) -> u16 {
        if packet.has(flag::SYN | flag::PURE_ACK | flag::BACK) {
            return HIGHEST;
        }
        let (least, most) = self.measure(packet.len, now);
        value_of((least + draw * (most - least)) * self.share)
    }
}

impl<T: PathItem> Stage<T> for State {
    #[inline]
    fn push(&mut self, mut item: T, now: Instant, way: &mut Downstream<T>) {
        if let Some(packet) = item.packet_mut() {
            packet.value = self.value(packet, now, way.rng.next_f64());
        }
        way.pass(item, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::DropReason;
    use crate::packet::{Ecn, MTU_FRAME};
    use crate::path::{AnyStage, Path, Sink};
    use crate::reply::ReceiverReply;

    fn marker(weight: f64) -> State {
        State::new(Params { weight, ..Params::default() }, &mut Rng::stream(1, "test", 0))
    }

    /// Frames of 1000 B, one every `gap` microseconds from `from` to `to` ms; returns the rate after each.
    fn frames(marker: &mut State, from: u64, to: u64, gap: u64) -> Vec<f64> {
        (from * 1000 / gap..to * 1000 / gap).map(|n| marker.measure(1000, Instant::from_micros(n * gap)).1).collect()
    }

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found}, expected {expected}");
    }

    #[test]
    fn values_are_logarithmic_from_a_kilobit_to_terabits() {
        assert_eq!(value_of(125.0), 65_534);
        // one octave is 2048 values
        assert_eq!(value_of(250.0), 65_534 - 2048);
        // rounded up, 1 Mbit/s: 65534 - 2048 log2(1000) = 65534 - 20409.9; 1 Tbit/s: 65534 - 61229.8
        assert_eq!((value_of(125e3), value_of(125e9)), (45_125, 4305));
        // beyond the ends
        assert_eq!([0.0, 1.0, 125e10, f64::MAX].map(value_of), [65_534, 65_534, 1, 1]);
        // 0.1 % of the rate is 2.95 values, at any rate
        for rate in [125e3, 625e6] {
            assert!((2..=3).contains(&(value_of(rate) - value_of(rate * 1.001))));
        }
    }

    #[test]
    fn the_bucket_moves_the_rate() {
        let mut marker = marker(1.0);
        let mut at = |ms: u64| marker.measure(1000, Instant::from_millis(ms));
        // 7500 B of tokens are enough for seven frames; at the eighth 500 B are missing: 1500 B / 40 ms
        assert!((0..7).all(|_| at(0) == (0.0, 0.0)));
        assert_eq!(at(0), (0.0, 37_500.0));
        // 1000 B of tokens are left: enough for the ninth; at the tenth 1000 B are missing: 2000 B / 40 ms
        assert_eq!([at(0), at(0)], [(0.0, 37_500.0), (37_500.0, 87_500.0)]);
        // 1000 + 8750 - 1000 B in 100 ms, 1250 B above the depth: down by 31,250 B/s
        assert_eq!(at(100), (0.0, 56_250.0));
        // and after a long time no less than one frame in 40 ms
        assert_eq!(at(1000), (0.0, 25_000.0));
    }

    #[test]
    fn a_steady_rate_is_measured() {
        for gap in [100, 1000, 4000] {
            let seen = frames(&mut marker(1.0), 0, 2000, gap);
            close(*seen.last().unwrap(), 1e9 / gap as f64, 1e-3);
        }
        // it never falls below one frame a window, 25 kB/s
        assert_eq!(frames(&mut marker(1.0), 0, 4000, 80_000).last(), Some(&25_000.0));
    }

    #[test]
    fn steps_are_followed_within_the_window() {
        let mut steps = marker(1.0);
        frames(&mut steps, 0, 1000, 1000);
        // from 1 to 4 MB/s: 7500 B are missing after 2.5 ms, then 4 - 3/e after 40 ms; each packet without tokens adds 1000 B more
        let up = frames(&mut steps, 1000, 1800, 250);
        close(up[10 + 160], 2.896e6, 0.03);
        close(up[3199], 4e6, 0.01);
        // and back: 1 + 3/e after 40 ms
        let down = frames(&mut steps, 1800, 3000, 1000);
        close(down[42], 2.104e6, 0.03);
        close(down[1199], 1e6, 1e-3);
        // the window is a parameter: after 12.5 ms, which are five of 2.5 ms, hardly anything is left of the step
        let window = Duration::from_micros(2500);
        let mut quick = State::new(Params { window, ..Params::default() }, &mut Rng::stream(1, "test", 0));
        frames(&mut quick, 0, 1000, 1000);
        assert!(frames(&mut quick, 1000, 1015, 250)[50] > 3.9e6);
    }

    #[test]
    fn a_burst_is_worth_what_the_rate_becomes() {
        // 44 full frames every 20 ms: 3,330,800 B/s. The first finds the bucket full, four more fit; 70 B are missing for the next, and 514 B
        // for each of 38 more: the rate rises by (1070 + 38 * 1514) B / 40 ms = 1,465,050 B/s, up to the true one
        let (mut marker, mut seen) = (marker(1.0), Vec::new());
        for n in 0..44 * 1000 {
            seen.push(marker.measure(MTU_FRAME, Instant::from_millis(n / 44 * 20)));
        }
        let (high, low) = (3_330_800.0, 3_330_800.0 - 1_465_050.0);
        let burst = &seen[44 * 999..];
        for (number, &(least, most)) in burst.iter().enumerate() {
            match number {
                0..5 => assert_eq!(least, 0.0),
                _ => close(most - least, if number == 5 { 26_750.0 } else { 37_850.0 }, 1e-9),
            }
        }
        close(burst[0].1, low, 1e-6);
        close(burst[43].1, high, 1e-6);
    }

    /// The rate of frames of 1514 B at `times` (us), which come again every `period` ms: its mean over time.
    fn mean_rate(times: impl Fn(u64) -> Vec<u64>, period: u64) -> f64 {
        let (mut marker, mut area, mut last) = (marker(1.0), 0.0, Instant::ZERO);
        for round in 0..2000 {
            for time in times(round) {
                let now = Instant::from_millis(round * period) + Duration::from_micros(time);
                if round >= 1000 {
                    area += marker.rate * (now - last.max(Instant::from_millis(1000 * period))).as_secs_f64();
                }
                last = now;
                marker.measure(MTU_FRAME, now);
            }
        }
        area / (last - Duration::from_millis(1000 * period)).as_secs_f64()
    }

    #[test]
    fn the_rate_is_right_on_average() {
        // what is forgiven and what is thrown away are alike as long as the rate stays between the same bounds: no pattern has a bias
        close(mean_rate(|_| vec![0; 44], 20), 44.0 * 1514.0 / 0.02, 2e-3);
        close(mean_rate(|_| vec![0; 44], 2), 44.0 * 1514.0 / 0.002, 2e-3);
        // 40 ms on, 20 ms off
        close(mean_rate(|_| (0..200).map(|n| n * 200).collect(), 60), 200.0 * 1514.0 / 0.06, 2e-3);
        // bursts of 4 to 44 frames, in disorder
        let uneven = |round: u64| vec![0; [44, 4, 30, 10, 22][round as usize % 5]];
        close(mean_rate(uneven, 8), 22.0 * 1514.0 / 0.008, 5e-3);
    }

    /// The share of packets that are worth `rate` (B/s) or less, of a flow of 1 MB/s.
    fn share_below(weight: f64, rate: f64, together: u64) -> f64 {
        let (mut marker, mut rng) = (marker(weight), Rng::stream(1, "test", 1));
        let frame = Packet { len: 1000, ..Packet::EMPTY };
        let time = |n: u64| Instant::from_millis(n / together * together);
        let values = (0..200_000_u64).map(|n| marker.value(&frame, time(n), rng.next_f64()));
        values.skip(1000).filter(|&value| value > value_of(rate)).count() as f64 / 199_000.0
    }

    #[test]
    fn a_threshold_leaves_every_flow_its_rate_times_its_weight() {
        // standard error of a share: 0.001
        close(share_below(1.0, 250e3, 1), 0.25, 0.02);
        close(share_below(3.0, 250e3, 1), 0.75, 0.01);
        close(share_below(0.5, 250e3, 1), 0.125, 0.03);
        // and in bursts of five, which fit into the bucket
        close(share_below(1.0, 250e3, 5), 0.25, 0.02);
        // a threshold above its rate leaves all
        assert!(share_below(3.0, 340e3, 1) > 0.9999);
    }

    #[test]
    fn the_handshake_has_the_highest_value_and_is_not_measured() {
        let mut marker = marker(1.0);
        let mut value = |flags| {
            let mut packet = Packet { len: 1000, ..Packet::EMPTY };
            packet.add_flags(flags);
            marker.value(&packet, Instant::ZERO, 0.5)
        };
        assert_eq!([flag::SYN, flag::PURE_ACK, flag::BACK].map(&mut value), [HIGHEST; 3]);
        // after seven frames the bucket is empty, and the others are worth their rate: neither UDP nor retransmissions are spared
        assert!((0..7).all(|_| value(0) == value_of(0.0)));
        let expected = [18_750.0, 18_750.0, 62_500.0].map(value_of);
        assert_eq!([flag::UDP, flag::RETRANSMISSION, 0].map(&mut value), expected);
    }

    #[derive(Default)]
    struct Values(Vec<u16>);

    impl Sink<Packet> for Values {
        fn arrive(&mut self, packet: Packet, _now: Instant) {
            self.0.push(packet.value);
        }

        fn on_drop(&mut self, _packet: Packet, _reason: DropReason, _now: Instant) {}
    }

    #[test]
    fn a_path_draws_the_values() {
        let mut path = Path::new(vec![AnyStage::ValueMarker(marker(1.0))], Rng::stream(1, "test", 0));
        let mut seen = Values::default();
        for n in 0..100_000 {
            path.push(Packet { len: 1000, ..Packet::new_tcp(0, Ecn::Ect0, 0) }, Instant::from_millis(n), &mut seen);
        }
        // half of the packets of 1 MB/s are worth 500 kB/s or less, and none more than 1 MB/s
        let low = seen.0.iter().filter(|&&value| value > value_of(500e3)).count();
        close(low as f64, 50_000.0, 0.02);
        assert!(seen.0[1000..].iter().all(|&value| value >= value_of(1.001e6)));
    }

    #[test]
    fn acknowledgements_have_no_value() {
        let stages = [serde_json::json!({"name": NAME}).as_object().unwrap().clone()];
        assert!(crate::path::read::<Packet>(&stages).is_ok());
        let error = crate::path::read::<(ReceiverReply, u32)>(&stages).unwrap_err().to_string();
        assert_eq!(
            error,
            "[0].name: found \"value_marker\", allowed: loss, burst_loss, jitter, delay, reorder, batch, policer, harq"
        );
    }
}
