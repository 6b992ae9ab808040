//! Traffic that comes and goes: when short flows arrive, how long they are, and UDP that reacts to no feedback.
//!
//! Everything here draws from the random stream that it is given, and knows no transport: the engine makes a connection
//! out of every arrival.

mod pareto;

pub use self::pareto::Pareto;
use crate::packet::{Ecn, Packet};
use crate::param::{ParamKind, ParamType};
use crate::real;
use crate::rng::Rng;
use crate::units::{Duration, Instant, Rate};
use serde_json::{json, Value};
use std::sync::Arc;

/// How often flows arrive: a Poisson process. Its rate is fixed, or grows with the rate of the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Flows per second.
    PerSecond(f64),
    /// Flows per second for each Mbit/s of the bottleneck's rate at the start of the run.
    PerMbit(f64),
}

/// Most arrivals per second, or per second and Mbit/s.
const MAX_ARRIVALS: f64 = 1e6;

impl Arrivals {
    /// Flows per second over a bottleneck of `rate`.
    pub fn per_second(self, rate: Rate) -> f64 {
        match self {
            Arrivals::PerSecond(flows) => flows,
            Arrivals::PerMbit(flows) => flows * rate.bits() as f64 / 1e6,
        }
    }

    /// Time to the next arrival over a bottleneck of `rate`; [`Duration::MAX`] if there is none.
    pub fn gap(self, rate: Rate, rng: &mut Rng) -> Duration {
        exponential(self.per_second(rate), rng)
    }
}

/// A time that is exponential with this mean; always 0 if that is 0.
pub(crate) fn exponential_gap(mean: Duration, rng: &mut Rng) -> Duration {
    if mean == Duration::ZERO {
        return mean;
    }
    exponential(1.0 / mean.as_secs_f64(), rng)
}

/// Time to the next event of a Poisson process with `per_second` events per second; [`Duration::MAX`] if that is 0.
pub(crate) fn exponential(per_second: f64, rng: &mut Rng) -> Duration {
    // 1 - u lies in (0, 1]; -ln of it is at most 36.8
    let seconds = -real::ln(1.0 - rng.next_f64()) / per_second;
    if seconds.is_finite() && seconds < 1e9 {
        Duration((seconds * 1e9) as u64)
    } else {
        Duration::MAX
    }
}

impl ParamType for Arrivals {
    const KIND: ParamKind = ParamKind::Arrivals;

    fn from_json(value: &Value) -> Result<Self, String> {
        let allowed = || format!("{{\"per_second\": N}} or {{\"per_mbit\": N}}, N from 0 to {MAX_ARRIVALS}");
        let map = value.as_object().filter(|map| map.len() == 1).ok_or_else(allowed)?;
        let flows = |key: &str| map.get(key)?.as_f64().filter(|flows| (0.0..=MAX_ARRIVALS).contains(flows));
        flows("per_second").map(Arrivals::PerSecond).or_else(|| flows("per_mbit").map(Arrivals::PerMbit)).ok_or_else(allowed)
    }

    fn to_json(&self) -> Value {
        match self {
            Arrivals::PerSecond(flows) => json!({"per_second": flows}),
            Arrivals::PerMbit(flows) => json!({"per_mbit": flows}),
        }
    }
}

/// How much payload a flow carries.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowSizes {
    /// Always this many bytes.
    Fixed(u64),
    /// Bounded Pareto: the tail exponent `shape`, from `min` to `max` bytes. The same as a Pareto distribution whose
    /// values above `max` are drawn again.
    Pareto {
        /// Tail exponent; 0.9 for web-like load (De Schepper et al., "Data Centre to the Home", 2015).
        shape: f64,
        /// Smallest size, bytes.
        min: u64,
        /// Largest size, bytes.
        max: u64,
    },
    /// One of these sizes (bytes), each with its share of the flows; the shares are cumulative and the last is 1.
    Empirical(Arc<[(u64, f64)]>),
}

/// Draws from [`FlowSizes`].
#[derive(Clone, Debug)]
pub enum SizeSource {
    /// Always this many bytes.
    Fixed(u64),
    /// Bounded Pareto.
    Pareto(Box<Pareto>),
    /// As [`FlowSizes::Empirical`].
    Empirical(Arc<[(u64, f64)]>),
}

impl SizeSource {
    /// The size of one flow, bytes.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            SizeSource::Fixed(size) => *size,
            SizeSource::Pareto(pareto) => pareto.draw(rng),
            SizeSource::Empirical(sizes) => {
                let share = rng.next_f64();
                let index = sizes.partition_point(|&(_, up_to)| up_to <= share);
                sizes[index.min(sizes.len() - 1)].0
            }
        }
    }
}

/// Largest size, bytes.
const MAX_SIZE: u64 = 1 << 50;
/// Most sizes of an empirical distribution.
const MAX_SIZES: usize = 1_000_000;

impl FlowSizes {
    /// Returns a source that draws sizes from this distribution.
    pub fn source(&self) -> SizeSource {
        match self {
            FlowSizes::Fixed(size) => SizeSource::Fixed(*size),
            FlowSizes::Pareto { shape, min, max } => SizeSource::Pareto(Box::new(Pareto::new(*shape, *min, *max))),
            FlowSizes::Empirical(sizes) => SizeSource::Empirical(Arc::clone(sizes)),
        }
    }

    /// Mean size, bytes.
    pub fn mean(&self) -> f64 {
        match self {
            FlowSizes::Fixed(size) => *size as f64,
            FlowSizes::Pareto { shape, min, max } => {
                let (low, high) = (*min as f64, *max as f64);
                let ratio = low / high;
                let scale = low / (1.0 - real::pow(ratio, *shape));
                if (shape - 1.0).abs() < 1e-9 {
                    scale * real::ln(1.0 / ratio)
                } else {
                    scale * shape / (shape - 1.0) * (1.0 - real::pow(ratio, shape - 1.0))
                }
            }
            FlowSizes::Empirical(sizes) => {
                let before = std::iter::once(0.0).chain(sizes.iter().map(|&(_, up_to)| up_to));
                sizes.iter().zip(before).map(|(&(size, up_to), from)| size as f64 * (up_to - from)).sum()
            }
        }
    }

    fn empirical(pairs: &[Value]) -> Option<FlowSizes> {
        let mut sizes = Vec::with_capacity(pairs.len().min(MAX_SIZES));
        let mut total = 0.0;
        for pair in pairs {
            let [size, weight] = pair.as_array()?.as_slice() else { return None };
            let size = size.as_u64().filter(|size| (1..=MAX_SIZE).contains(size))?;
            total += weight.as_f64().filter(|weight| (0.0..1e18).contains(weight))?;
            sizes.push((size, total));
        }
        if sizes.len() > MAX_SIZES || total <= 0.0 {
            return None;
        }
        sizes.iter_mut().for_each(|(_, up_to)| *up_to /= total);
        Some(FlowSizes::Empirical(sizes.into()))
    }
}

impl ParamType for FlowSizes {
    const KIND: ParamKind = ParamKind::Sizes;

    fn from_json(value: &Value) -> Result<Self, String> {
        let size = |bytes: &Value| bytes.as_u64().filter(|size| (1..=MAX_SIZE).contains(size));
        let map = value.as_object();
        let get = |key: &str| map.and_then(|map| map.get(key)).unwrap_or(&Value::Null);
        let found = match map.map_or(0, serde_json::Map::len) {
            1 => match get("empirical").as_array() {
                Some(pairs) => FlowSizes::empirical(pairs),
                None => size(get("fixed")).map(FlowSizes::Fixed),
            },
            3 => {
                let shape = get("pareto").as_f64().filter(|shape| (0.01..=100.0).contains(shape));
                match (shape, size(get("min")), size(get("max"))) {
                    (Some(shape), Some(min), Some(max)) if min < max => Some(FlowSizes::Pareto { shape, min, max }),
                    _ => None,
                }
            }
            _ => None,
        };
        found.ok_or_else(|| {
            "{\"fixed\": bytes}, {\"pareto\": shape from 0.01 to 100, \"min\": bytes, \"max\": more bytes} or \
             {\"empirical\": [[bytes, weight], …]}"
                .into()
        })
    }

    fn to_json(&self) -> Value {
        match self {
            FlowSizes::Fixed(size) => json!({"fixed": size}),
            FlowSizes::Pareto { shape, min, max } => json!({"pareto": shape, "min": min, "max": max}),
            FlowSizes::Empirical(sizes) => {
                let before = std::iter::once(0.0).chain(sizes.iter().map(|&(_, up_to)| up_to));
                let pairs: Vec<Value> =
                    sizes.iter().zip(before).map(|(&(size, up_to), from)| json!([size, up_to - from])).collect();
                json!({"empirical": pairs})
            }
        }
    }
}

crate::choice! {
    /// The time between two packets of UDP.
    pub enum Spacing {
        /// Always the same.
        Constant = "constant",
        /// Exponential: a Poisson process.
        Poisson = "poisson",
    }
}

crate::choice! {
    /// The ECN field that a sender without a transport sets.
    pub enum Codepoint {
        /// Not ECN-capable.
        NotEct = "not-ect",
        /// ECT(0).
        Ect0 = "ect0",
        /// ECT(1), which puts it into the low-latency queue of DualPI2.
        Ect1 = "ect1",
    }
}

impl From<Codepoint> for Ecn {
    fn from(codepoint: Codepoint) -> Ecn {
        match codepoint {
            Codepoint::NotEct => Ecn::NotEct,
            Codepoint::Ect0 => Ecn::Ect0,
            Codepoint::Ect1 => Ecn::Ect1,
        }
    }
}

crate::choice! {
    /// How long times on and off are.
    pub enum Times {
        /// Always the same.
        Fixed = "fixed",
        /// Exponentially distributed, with these means.
        Exponential = "exponential",
    }
}

/// Times in which a source sends, and times in which it is silent, in turns.
#[derive(Clone, Debug)]
pub struct OnOff {
    on: Duration,
    off: Duration,
    /// Random numbers of the times, if they are drawn.
    rng: Option<Rng>,
    /// When the present time on is over, on a clock that stands still during times off, ns.
    on_until_ns: f64,
    /// Times off so far, ns.
    silent_ns: f64,
}

impl OnOff {
    /// On from the start, for `on`, then off for `off`. With `rng`, both are drawn from exponential distributions with these means.
    pub fn new(on: Duration, off: Duration, rng: Option<Rng>) -> OnOff {
        let mut times = OnOff { on, off, rng, on_until_ns: 0.0, silent_ns: 0.0 };
        times.on_until_ns = times.draw(on);
        times
    }

    fn draw(&mut self, mean: Duration) -> f64 {
        let drawn = self.rng.as_mut().map_or(1.0, |rng| -real::ln(1.0 - rng.next_f64()));
        mean.0 as f64 * drawn
    }

    /// Returns when the time on has come to `elapsed_ns`, from the start, ns. What is due at the end of a time on is due behind the time off.
    fn find_time(&mut self, elapsed_ns: f64) -> f64 {
        while elapsed_ns >= self.on_until_ns {
            self.silent_ns += self.draw(self.off);
            self.on_until_ns += self.draw(self.on);
        }
        elapsed_ns + self.silent_ns
    }
}

/// UDP that sends at its rate whatever happens to it.
#[derive(Clone, Debug)]
pub struct UdpSource {
    /// Time between the starts of two frames, ns; real, so that the rate is exact in the long run.
    gap_ns: f64,
    spacing: Spacing,
    flow: u32,
    len: u16,
    ecn: Ecn,
    rng: Rng,
    on_off: Option<Box<OnOff>>,
    /// When the first packet is due, and how far the schedule has come since, ns.
    started: Instant,
    elapsed_ns: f64,
    /// When the next packet is due.
    pub next: Instant,
    /// Packets sent.
    pub sent: u64,
}

impl UdpSource {
    /// Frames of `len` bytes with codepoint `ecn` at `rate`, for the flow in slot `flow`; silent until [`UdpSource::start`].
    pub fn new(flow: u32, rate: Rate, len: u16, ecn: Ecn, spacing: Spacing, rng: Rng) -> UdpSource {
        UdpSource {
            gap_ns: f64::from(len) * 8e9 / rate.bits() as f64,
            spacing,
            flow,
            len,
            ecn,
            rng,
            on_off: None,
            started: Instant::NEVER,
            elapsed_ns: 0.0,
            next: Instant::NEVER,
            sent: 0,
        }
    }

    /// Sends at its rate in times on, and nothing in times off.
    pub fn with_times(self, on_off: OnOff) -> UdpSource {
        UdpSource { on_off: Some(Box::new(on_off)), ..self }
    }

    /// The first packet is due at `now`.
    pub fn start(&mut self, now: Instant) {
        self.started = now;
        self.next = now;
    }

    /// Sends nothing more.
    pub fn stop(&mut self) {
        self.next = Instant::NEVER;
    }

    /// The packet that is due at [`UdpSource::next`].
    #[inline]
    pub fn send(&mut self) -> Packet {
        let UdpSource { flow, len, ecn, .. } = *self;
        let packet = Packet { flow, len, ..Packet::new_udp(self.sent, ecn, self.next) };
        self.sent += 1;
        self.elapsed_ns += match self.spacing {
            Spacing::Constant => self.gap_ns,
            Spacing::Poisson => -real::ln(1.0 - self.rng.next_f64()) * self.gap_ns,
        };
        let since_start = self.on_off.as_mut().map_or(self.elapsed_ns, |times| times.find_time(self.elapsed_ns));
        self.next = self.started.saturating_add(Duration(since_start as u64));
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rng() -> Rng {
        Rng::stream(1, "traffic test", 0)
    }

    #[test]
    fn arrivals_scale_with_the_link_and_have_the_mean_of_their_rate() {
        // 2.5 per Mbit/s over 40 Mbit/s: 100 a second
        assert_eq!(Arrivals::PerMbit(2.5).per_second(Rate::from_mbit(40)), 100.0);
        let mut random = rng();
        let total: f64 = (0..100_000).map(|_| Arrivals::PerSecond(100.0).gap(Rate(0), &mut random).as_secs_f64()).sum();
        // 1000 s expected, standard deviation 1000 / sqrt(100000) = 3.2 s
        assert!((total - 1000.0).abs() < 12.0, "{total}");
        assert_eq!(Arrivals::PerSecond(0.0).gap(Rate(0), &mut random), Duration::MAX);
    }

    #[test]
    fn bounded_pareto_has_the_analytic_mean_and_median() {
        let sizes = FlowSizes::Pareto { shape: 0.9, min: 1_000, max: 1_000_000 };
        // L/H = 1e-3, (L/H)^0.9 = 10^-2.7 = 0.0019953; mean = L/(1 - 0.0019953) * 0.9/(-0.1) * (1 - (L/H)^-0.1)
        // = 1002.0 * -9 * (1 - 10^0.3) = 1002.0 * -9 * (1 - 1.9952623) = 8975.3
        assert!((sizes.mean() - 8975.3).abs() < 1.0, "{}", sizes.mean());
        let (source, mut random) = (sizes.source(), rng());
        let mut drawn: Vec<u64> = (0..400_000).map(|_| source.draw(&mut random)).collect();
        drawn.sort_unstable();
        assert!(drawn[0] >= 1_000 && drawn[drawn.len() - 1] <= 1_000_000);
        // F = 1/2 at L / (1 - (1 - 0.0019953) / 2)^(1/0.9) = 1000 / 0.50099765^(1.1111) = 2155
        let median = drawn[drawn.len() / 2] as f64;
        assert!((median / 2155.0 - 1.0).abs() < 0.01, "{median}");
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        assert!((mean / 8975.3 - 1.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn empirical_sizes_come_with_their_weights() {
        let sizes = FlowSizes::from_json(&json!({"empirical": [[100, 1], [200, 3], [900, 0]]})).expect("sizes");
        assert_eq!(sizes.mean(), 175.0);
        let (source, mut random) = (sizes.source(), rng());
        let drawn: Vec<u64> = (0..100_000).map(|_| source.draw(&mut random)).collect();
        let share = drawn.iter().filter(|&&size| size == 100).count() as f64 / 1e5;
        assert!((share - 0.25).abs() < 0.006, "{share}");
        assert!(!drawn.contains(&900));
    }

    #[test]
    fn wrong_traffic_is_refused() {
        for bad in
            [json!(1), json!({}), json!({"per_second": -1}), json!({"per_hour": 1}), json!({"per_second": 1, "per_mbit": 1})]
        {
            assert!(Arrivals::from_json(&bad).is_err(), "{bad}");
        }
        for bad in [
            json!({"fixed": 0}),
            json!({"pareto": 0.9, "min": 5, "max": 5}),
            json!({"pareto": 0, "min": 1, "max": 5}),
            json!({"empirical": []}),
            json!({"empirical": [[1, 0]]}),
            json!({"empirical": [[1]]}),
        ] {
            assert!(FlowSizes::from_json(&bad).is_err(), "{bad}");
        }
        for good in [json!({"fixed": 10}), json!({"pareto": 0.9, "min": 1, "max": 5})] {
            assert_eq!(FlowSizes::from_json(&good).expect("sizes").to_json(), good);
        }
    }

    #[test]
    fn udp_keeps_its_rate_exactly() {
        // 1514 B at 7 Mbit/s: 1730285.71 ns apart; the 7000000th of 12112 bits is due at 12112 s
        let mut udp = UdpSource::new(0, Rate::from_mbit(7), 1514, Ecn::Ect1, Spacing::Constant, rng());
        udp.start(Instant::from_secs(1));
        for _ in 0..70_000 {
            let packet = udp.send();
            assert_eq!((packet.ecn(), packet.len, packet.has(crate::packet::flag::UDP)), (Ecn::Ect1, 1514, true));
        }
        // 70000 * 12112 bit / 7 Mbit/s = 121.12 s
        assert!((udp.next.as_secs_f64() - 122.12).abs() < 1e-6, "{}", udp.next);
        udp.stop();
        assert_eq!(udp.next, Instant::NEVER);
    }

    #[test]
    fn udp_is_silent_in_times_off_and_keeps_its_schedule_over_them() {
        // 1000 B at 8 Mbit/s: a frame a millisecond. 2.5 ms on, 10 ms off: frames at 0, 1, 2 ms; the next is due after 3 ms of time on,
        // half a millisecond into the second time on, which begins at 12.5 ms; then 14 ms, and 5 ms of time on end: 15 ms + 10 ms = 25 ms
        let mut udp = UdpSource::new(0, Rate::from_mbit(8), 1000, Ecn::NotEct, Spacing::Constant, rng()).with_times(OnOff::new(
            Duration::from_micros(2_500),
            Duration::from_millis(10),
            None,
        ));
        udp.start(Instant::from_secs(1));
        let mut times = Vec::new();
        for _ in 0..7 {
            times.push((udp.next - Instant::from_secs(1)).0 / 1000);
            let _ = udp.send();
        }
        assert_eq!(times, [0, 1_000, 2_000, 13_000, 14_000, 25_000, 26_000]);
    }

    #[test]
    fn drawn_times_on_and_off_have_their_means() {
        // on for 1/5 of the time: 8 Mbit/s in times on are 1.6 Mbit/s in the mean
        let mut udp = UdpSource::new(0, Rate::from_mbit(8), 1000, Ecn::NotEct, Spacing::Constant, rng()).with_times(OnOff::new(
            Duration::from_millis(20),
            Duration::from_millis(80),
            Some(Rng::stream(3, "traffic test", 1)),
        ));
        udp.start(Instant::ZERO);
        let mut gaps = Vec::new();
        for _ in 0..200_000 {
            let before = udp.next;
            let _ = udp.send();
            gaps.push(udp.next - before);
        }
        // 200 s of time on in 10,000 pieces: the sum of as many times off is 800 s +- 80 ms * sqrt(10000) = 8 s
        assert!((udp.next.as_secs_f64() - 1000.0).abs() < 30.0, "{}", udp.next);
        let silent = gaps.iter().filter(|gap| **gap > Duration::from_micros(1_001)).count();
        // a time on that holds no frame joins the times off around it: each frame is the last of its time on with 1 - exp(-1/20) = 0.0488
        assert!((silent as f64 / 200_000.0 - 0.0488).abs() < 0.002, "{silent}");
    }

    #[test]
    fn poisson_udp_has_the_same_mean_and_another_spacing() {
        let mut udp = UdpSource::new(0, Rate::from_mbit(12), 1500, Ecn::NotEct, Spacing::Poisson, rng());
        udp.start(Instant::ZERO);
        let mut gaps = Vec::new();
        for _ in 0..100_000 {
            let before = udp.next;
            let _ = udp.send();
            gaps.push((udp.next - before).as_secs_f64());
        }
        // 1 ms apart in the mean; the standard deviation of an exponential is its mean
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e-3 - 1.0).abs() < 0.015 && (variance.sqrt() / 1e-3 - 1.0).abs() < 0.03, "{mean} {variance}");
    }
}
