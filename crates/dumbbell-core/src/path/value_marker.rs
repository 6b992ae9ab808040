//! The edge of core-stateless resource sharing: measures the rate of what passes and gives every packet a value, from which a bottleneck
//! without any knowledge of flows (`csaqm`) decides what it marks.
//!
//! Framework: per-packet values (ppv.elte.hu). A throughput-value function (TVF), strictly decreasing in the rate, is the policy: if
//! everything below a value v is marked or dropped, what is left of a flow is the rate r with TVF(r) = v, the same for all flows that
//! have the same TVF. To get that of a flow of rate R, the value of a packet is TVF(r), r uniform in (0, R). With weight w it is
//! TVF(r / w): what is left is w r.
//!
//! The TVF is logarithmic, and its value fits into 16 bits: 2048 values an octave, which is a resolution of 0.034 % of the rate from
//! 1 kbit/s (value 65534) to 4.29 Tbit/s (value 1); rates beyond have the value at the end. A bottleneck compares values and does
//! nothing else with them, so that any strictly decreasing function shares alike. Value 0 is left to packets that passed no edge,
//! and 65535, [`HIGHEST`], to those that are never marked: the handshake (SYN and pure ACKs), which also is not measured. UDP and
//! retransmissions are measured and valued as data is: a value of their own would be a way around the policy.
//!
//! The rate is an exponential average with time constant `window`: the rate R of a token bucket that follows R' = (arrivals - R) /
//! window (Marker A of the framework; its public code for ns-3, natrushun/PPV-NS-3-3.44, in steps), solved exactly between packets.
//! That code lets a bucket of 7500 B stand between both, and draws r between the old and the new rate for packets that do not fit;
//! with bursts of a sender (up to 64 KiB at one instant) most packets would not fit, and so have values of R alone. Here r is
//! always uniform in (0, R), and R counts half of the packet itself: then the rates that a packet of every burst sees lie evenly
//! around the true one. With bursts that come every t, their mean is the true rate times x coth(x), x = t / (2 window): 2 % above it at
//! t = window / 2, 8 % at t = window. Below one frame a window the rate is overestimated.
//!
//! In `bottleneck.path` it measures and values all flows as one.

use super::{Carried, Stage, Way};
use crate::packet::{flag, Packet};
use crate::rng::Rng;
use crate::units::Time;

/// Name in experiment files.
pub const NAME: &str = "value_marker";
/// One line.
pub const TITLE: &str = "edge marker of core-stateless AQM: packet values by measured rate and weight";
/// Specification and deviations.
pub const SOURCE: &str =
    "per-packet values (ppv.elte.hu), rate-measuring marker; the rate is an exponential average, the function logarithmic";

crate::params! {
    /// Parameters of the edge marker.
    pub struct Params {
        /// Weight: flows that send enough share in its proportion.
        weight: f64 = 1.0, unit "ratio", range 0.001, 1000.0, source "the default is ours: equal shares, as in the paper on coexistence of BBRv2 and DCTCP (2021)";
        /// Time constant of the measured rate.
        window: Time = Time::from_millis(40), unit "", range Time::from_micros(100), Time::from_secs(100), source "TbTime of natrushun/PPV-NS-3-3.44: 0.04 s";
    }
}

/// Value of packets that are never marked.
pub const HIGHEST: u16 = u16::MAX;
/// Values that the rates take.
const MOST: f64 = (HIGHEST - 1) as f64;
/// Values in an octave of the rate: 32 octaves make 16 bits.
const PER_OCTAVE: f64 = 2048.0;
/// The rate that has the largest value, B/s: 1 kbit/s.
const LEAST_RATE: f64 = 125.0;

/// The value of a packet, by the throughput-value function: `rate` in B/s, already divided by the weight.
#[inline]
pub fn value_of(rate: f64) -> u16 {
    (MOST - PER_OCTAVE * (rate / LEAST_RATE).log2()).clamp(1.0, MOST) as u16
}

/// Measures, and draws.
#[derive(Clone, Debug)]
pub struct State {
    /// 1 / weight.
    share: f64,
    /// 1 / window, 1/s.
    inverse: f64,
    /// The average rate, B/s, at `last`.
    rate: f64,
    last: Time,
}

impl State {
    /// With `params`.
    pub fn new(params: Params, _rng: &mut Rng) -> State {
        State { share: 1.0 / params.weight, inverse: 1.0 / params.window.as_secs_f64(), rate: 0.0, last: Time::ZERO }
    }

    /// `bytes` come. Returns the rate that they see, B/s.
    #[inline]
    fn measure(&mut self, bytes: u32, now: Time) -> f64 {
        if now > self.last {
            self.rate *= (-(now - self.last).as_secs_f64() * self.inverse).exp();
            self.last = now;
        }
        let half = 0.5 * f64::from(bytes) * self.inverse;
        let seen = self.rate + half;
        self.rate = seen + half;
        seen
    }

    /// The value of `packet`; `draw` is uniform in [0, 1).
    #[inline]
    fn value(&mut self, packet: &Packet, now: Time, draw: f64) -> u16 {
        if packet.has(flag::SYN | flag::PURE_ACK) {
            return HIGHEST;
        }
        let rate = self.measure(u32::from(packet.len), now);
        value_of(draw * rate * self.share)
    }
}

impl<T: Carried> Stage<T> for State {
    #[inline]
    fn push(&mut self, mut item: T, now: Time, way: &mut Way<T>) {
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
    use crate::path::{AnyStage, End, Path};
    use crate::tcp::Ack;

    fn marker(weight: f64) -> State {
        State::new(Params { weight, ..Params::default() }, &mut Rng::stream(1, "test", 0))
    }

    /// Frames of 1000 B, one every `gap` microseconds from `from` to `to` ms; returns the rates that they see.
    fn frames(marker: &mut State, from: u64, to: u64, gap: u64) -> Vec<f64> {
        (from * 1000 / gap..to * 1000 / gap).map(|n| marker.measure(1000, Time::from_micros(n * gap))).collect()
    }

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found}, expected {expected}");
    }

    #[test]
    fn values_are_logarithmic_from_a_kilobit_to_terabits() {
        assert_eq!(value_of(125.0), 65_534);
        // one octave is 2048 values
        assert_eq!(value_of(250.0), 65_534 - 2048);
        // 1 Mbit/s: 65534 - 2048 log2(1000) = 65534 - 20409.9; 1 Tbit/s: 65534 - 61229.8
        assert_eq!((value_of(125e3), value_of(125e9)), (45_124, 4304));
        // beyond the ends
        assert_eq!([0.0, 1.0, 125e10, f64::MAX].map(value_of), [65_534, 65_534, 1, 1]);
        // 0.1 % of the rate is 2.95 values, at any rate
        for rate in [125e3, 625e6] {
            assert!((2..=3).contains(&(value_of(rate) - value_of(rate * 1.001))));
        }
    }

    #[test]
    fn a_steady_rate_is_measured() {
        // 1 MB/s; x coth(x) at x = 1 ms / 80 ms is 1.00005
        let mut steady = marker(1.0);
        close(frames(&mut steady, 0, 1000, 1000)[999], 1.00005e6, 1e-5);
        // one frame every 40 ms: 25 kB/s times coth(0.5) / 2
        close(frames(&mut marker(1.0), 0, 4000, 40_000)[99], 25e3 * 1.08198, 1e-5);
        // the first frame sees half of itself: 500 B in 40 ms
        assert_eq!(marker(1.0).measure(1000, Time::from_secs(5)), 12_500.0);
    }

    #[test]
    fn steps_are_followed_within_the_window() {
        // from 1 to 4 MB/s and back: after 40 ms, 4 - 3/e and 1 + 3/e
        let mut steps = marker(1.0);
        frames(&mut steps, 0, 1000, 1000);
        let up = frames(&mut steps, 1000, 1800, 250);
        close(up[160], 2.896e6, 0.01);
        close(up[3199], 4e6, 1e-3);
        let down = frames(&mut steps, 1800, 3000, 1000);
        close(down[40], 2.104e6, 0.01);
        // the window is a parameter: 10 ms are four time constants of 2.5 ms
        let window = Time::from_micros(2500);
        let mut quick = State::new(Params { window, ..Params::default() }, &mut Rng::stream(1, "test", 0));
        close(*frames(&mut quick, 0, 10, 100).last().unwrap(), 10e6 * (1.0 - (-4.0_f64).exp()), 0.01);
    }

    /// Bursts of `frames` full frames, one every `ms`, after a warm-up: every rate that a frame sees, over the true one.
    fn bursts(frames: u64, ms: u64) -> Vec<f64> {
        let (mut marker, bytes) = (marker(1.0), u32::from(MTU_FRAME));
        let rate = frames as f64 * f64::from(bytes) / (ms as f64 / 1000.0);
        let all = (0..2000 * frames).map(|n| marker.measure(bytes, Time::from_millis(n / frames * ms)) / rate);
        all.skip(1000 * frames as usize).collect()
    }

    #[test]
    fn the_rate_of_bursts_is_right_on_average() {
        // x coth(x), x = t / 80 ms
        for (frames, ms, expected) in [(44, 1, 1.00005), (44, 20, 1.0207), (44, 40, 1.0820), (200, 20, 1.0207)] {
            let seen = bursts(frames, ms);
            close(seen.iter().sum::<f64>() / seen.len() as f64, expected, 1e-3);
        }
    }

    #[test]
    fn on_and_off_is_right_on_average() {
        // 2 MB/s for 40 ms, then nothing for 40 ms: 1 MB/s. While on, the rate is 2 - (2 - low) exp(-t / 40 ms) with low = 2 / (1 + e);
        // its mean is 2 - (2 - low) (1 - 1/e) = 1.0758
        let mut marker = marker(1.0);
        let seen: Vec<f64> = (0..50).flat_map(|n| frames(&mut marker, n * 80, n * 80 + 40, 500)).collect();
        close(seen[800..].iter().sum::<f64>() / 3200.0, 1.0758e6, 2e-3);
    }

    /// The share of packets that are worth `rate` (B/s) or less, of a flow of 1 MB/s.
    fn share_below(weight: f64, rate: f64, together: u64) -> f64 {
        let (mut marker, mut rng) = (marker(weight), Rng::stream(1, "test", 1));
        let frame = Packet { len: 1000, ..Packet::EMPTY };
        let time = |n: u64| Time::from_millis(n / together * together);
        let values = (0..200_000_u64).map(|n| marker.value(&frame, time(n), rng.next_f64()));
        values.skip(1000).filter(|&value| value > value_of(rate)).count() as f64 / 199_000.0
    }

    #[test]
    fn a_threshold_leaves_every_flow_its_rate_times_its_weight() {
        // standard error of a share: 0.001
        close(share_below(1.0, 250e3, 1), 0.25, 0.02);
        close(share_below(3.0, 250e3, 1), 0.75, 0.01);
        close(share_below(0.5, 250e3, 1), 0.125, 0.03);
        // and in bursts of ten, which come every 10 ms
        close(share_below(1.0, 250e3, 10), 0.25, 0.02);
        // a threshold above its rate leaves all
        assert!(share_below(3.0, 340e3, 1) > 0.9999);
    }

    #[test]
    fn the_handshake_has_the_highest_value_and_is_not_measured() {
        let mut marker = marker(1.0);
        let mut value = |flags| marker.value(&Packet { len: 1000, flags, ..Packet::EMPTY }, Time::ZERO, 0.5);
        assert_eq!((value(flag::SYN), value(flag::PURE_ACK)), (HIGHEST, HIGHEST));
        // half of 12.5, 37.5, 62.5 kB/s: neither UDP nor retransmissions are spared
        let expected = [6.25e3, 18.75e3, 31.25e3].map(value_of);
        assert_eq!([0, flag::UDP, flag::RETRANSMISSION].map(&mut value), expected);
    }

    #[derive(Default)]
    struct Values(Vec<u16>);

    impl End<Packet> for Values {
        fn arrive(&mut self, packet: Packet, _now: Time) {
            self.0.push(packet.value);
        }

        fn dropped(&mut self, _packet: Packet, _reason: DropReason, _now: Time) {}
    }

    #[test]
    fn a_path_draws_the_values() {
        let mut path = Path::new(vec![AnyStage::ValueMarker(marker(1.0))], Rng::stream(1, "test", 0));
        let mut seen = Values::default();
        for n in 0..100_000 {
            path.push(Packet { len: 1000, ecn: Ecn::Ect0, ..Packet::EMPTY }, Time::from_millis(n), &mut seen);
        }
        // half of the packets of 1 MB/s are worth 500 kB/s or less, and none more than 1 MB/s
        let low = seen.0.iter().filter(|&&value| value > value_of(500e3)).count();
        close(low as f64, 50_000.0, 0.02);
        assert!(seen.0[1000..].iter().all(|&value| value >= value_of(1.001e6)));
    }

    #[test]
    fn acknowledgements_have_no_value() {
        let stages = [serde_json::json!({"name": NAME}).as_object().unwrap().clone()];
        let rng = || Rng::stream(1, "test", 0);
        assert!(crate::path::build::<Packet>(&stages, rng()).is_ok());
        let error = crate::path::build::<(Ack, u32)>(&stages, rng()).unwrap_err().to_string();
        assert_eq!(error, "[0].name: found \"value_marker\", allowed: loss, burst_loss, jitter, reorder, batch, policer");
    }
}
