//! DOCSIS-PIE: the queue of a cable modem's way up, which estimates its delay from the bytes that wait and the rate that the modem is granted.
//!
//! Specification: RFC 8034, with the values and the order of steps as in CableLabs' model (cablelabs/docsis-ns3,
//! `model/dual-queue-coupled-aqm.cc`, the Classic queue). It differs from RFC 8033, [`pie`](super::pie), in this:
//!
//! | | RFC 8033 | DOCSIS-PIE |
//! |---|---|---|
//! | delay | sojourn, or backlog / measured rate of departure | backlog / configured rate |
//! | target, update, gains | 15 ms, 15 ms, 0.125 and 1.25 Hz | 10 ms, 16 ms, 0.25 and 2.5 Hz |
//! | probability | of a packet, at most 1 | of 1024 B, at most 13.6: that of a packet is in proportion to its size, at most 0.85 |
//! | steps of the gains | down to 1/2048 | the same, and up: 2 from 0.1, 8 from 1, 32 from 10 |
//! | delay above 200 ms | | +2 % |
//! | decay | when the delay is 0 | while the delay is below 5 ms |
//! | begin | always active | inactive until a third of the buffer is full; the first drop is followed by 142 ms without drops |
//! | ECN | up to 10 % | none |
//!
//! A modem with a peak rate above its sustained rate divides the bytes that its tokens cover by the peak rate. The link `docsis` has no peak
//! rate, so that all bytes are divided by the hop's rate. Bytes count as on the link (`link_layer`).
//!
//! Deviation: the first update comes at a random moment within an interval, because no modem starts together with the traffic.

use super::fifo::Fifo;
use super::{Aqm, Dequeue, QueueContext};
use crate::link_layer::LinkLayer;
use crate::log::{At, DropReason, DropSite, Log};
use crate::packet::Packet;
use crate::param::ParamError;
use crate::rng::Rng;
use crate::units::{Duration, Instant, Rate};

/// Name in experiment files.
pub const NAME: &str = "docsis_pie";
/// One line.
pub const TITLE: &str = "the queue of a cable modem's way up: PIE with the delay from backlog and granted rate";
/// Specification and deviations.
pub const SOURCE: &str =
    "RFC 8034, with the values of cablelabs/docsis-ns3, dual-queue-coupled-aqm.cc; without a peak rate; first update within an interval; not compared with a modem";

crate::params! {
    /// Parameters of DOCSIS-PIE.
    pub struct Params {
        /// Bytes of frames that fit, as they are on the link; unset: 100 ms at the rate of the hop when the run begins, and at least 10 full frames.
        limit: Option<u64> = None, unit "bytes", range 1_u64, 1_000_000_000_000_u64,
            source "docsis-ns3, ClassicBufferSize: 100 ms at the sustained rate (MULPI C.1.2.17); RFC 8034 BUFFER_SIZE; the least size is ours";
        /// Delay to hold.
        target: Duration = Duration::from_millis(10), unit "", range Duration::from_micros(1), Duration::from_secs(10),
            source "RFC 8034 LATENCY_TARGET; docsis-ns3, ClassicAqmLatencyTarget: 10 ms";
    }
}

/// Time between two updates of the probability.
const INTERVAL: Duration = Duration::from_millis(16); // RFC 8034 INTERVAL; docsis-ns3, Interval
/// Gain on the distance from the target, Hz.
const A: f64 = 0.25; // RFC 8034 A; docsis-ns3, A
/// Gain on the change of delay, Hz.
const B: f64 = 2.5; // RFC 8034 B; docsis-ns3, B
/// Time without drops after the first one.
const MAX_BURST: Duration = Duration::from_millis(142); // RFC 8034 MAX_BURST; docsis-ns3, MaxBurstAllowance
/// Time of quiet after which the queue is inactive again.
const BURST_RESET_TIMEOUT: Duration = Duration::from_secs(1); // RFC 8034; docsis-ns3, BurstResetTimeout
/// Size of the packets whose probability the controller sets, bytes.
const MEAN_PACKET: f64 = 1024.0; // RFC 8034 MEAN_PKTSIZE; docsis-ns3, MeanPktSize
/// Size of the smallest packet, bytes.
const LEAST_PACKET: f64 = 64.0; // RFC 8034 MIN_PKTSIZE; docsis-ns3, MIN_PKTSIZE
/// Expected drops below which no packet is dropped; also the largest probability of a packet.
const PROB_LOW: f64 = 0.85; // RFC 8034 PROB_LOW; docsis-ns3, ProbLow
/// Expected drops from which on the next packet is dropped.
const PROB_HIGH: f64 = 8.5; // RFC 8034 PROB_HIGH; docsis-ns3, ProbHigh
/// Delay below which the probability decays.
const LATENCY_LOW: Duration = Duration::from_millis(5); // RFC 8034 LATENCY_LOW; docsis-ns3, LATENCY_LOW
/// Delay above which the probability rises faster.
const LATENCY_HIGH: Duration = Duration::from_millis(200); // RFC 8034 LATENCY_HIGH; docsis-ns3, CalculateDropProb
/// Size of the default buffer, as time at the rate.
const DEFAULT_BUFFER: Duration = Duration::from_millis(100); // docsis-ns3, DEFAULT_UPSTREAM_TARGET_BUFFER_CONFIGURATION

/// How far the queue has come on its way to dropping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// Less than a third of the buffer was ever full.
    Inactive,
    /// The controller may drop.
    Quiescent,
    /// The controller has dropped.
    Active,
}

/// A queue with its parameters.
#[derive(Clone, Debug)]
pub struct State {
    limit: u64,
    target: Duration,
    rate: Rate,
    link_layer: LinkLayer,
    fifo: Fifo,
    /// Bytes that wait, as on the link.
    queued: u64,
    rng: Rng,
    next_update: Instant,
    activity: Activity,
    /// Probability of a drop of [`MEAN_PACKET`] bytes.
    prob: f64,
    /// Drops expected since the last one.
    accumulated: f64,
    /// Delay at the last update.
    qdelay: Duration,
    /// Rest of the time without drops.
    burst: Duration,
    /// For how long the queue has been quiet.
    quiet: Duration,
}

impl State {
    /// An empty queue.
    pub fn new(params: Params, context: &QueueContext) -> State {
        let of_rate = bytes_in(DEFAULT_BUFFER, context.rate);
        State {
            limit: params.limit.unwrap_or(of_rate.max(10 * u64::from(context.full_frame))),
            target: params.target,
            rate: context.rate,
            link_layer: context.link_layer,
            fifo: Fifo::default(),
            queued: 0,
            rng: Rng::stream(context.seed, NAME, 0),
            next_update: context.first_tick("docsis_pie phase", INTERVAL, INTERVAL),
            activity: Activity::Inactive,
            prob: 0.0,
            accumulated: 0.0,
            qdelay: Duration::ZERO,
            burst: Duration::ZERO,
            quiet: Duration::ZERO,
        }
    }

    /// Returns the bytes that `packet` takes on the link.
    #[inline]
    fn measure(&self, packet: &Packet) -> u64 {
        u64::from(self.link_layer.wire_bytes(packet.len))
    }

    /// Returns the time that the waiting bytes take at the rate; none at a rate without limit.
    fn estimate_delay(&self) -> Duration {
        let nanos = (u128::from(self.queued) * 8_000_000_000).checked_div(u128::from(self.rate.bits())).unwrap_or(0);
        Duration(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Whether the controller drops a packet of `bytes` that arrives.
    #[inline]
    fn drops_early(&mut self, bytes: u64) -> bool {
        if self.burst > Duration::ZERO {
            return false;
        }
        if self.prob == 0.0 {
            self.accumulated = 0.0;
        }
        if self.activity == Activity::Inactive {
            if self.queued < self.limit / 3 {
                return false;
            }
            self.activity = Activity::Quiescent;
        }
        let prob = (self.prob * bytes as f64 / MEAN_PACKET).min(PROB_LOW);
        self.accumulated += prob;
        let is_calm = self.qdelay < self.target / 2 && self.prob < 0.2;
        if is_calm || self.queued as f64 <= 2.0 * MEAN_PACKET || self.accumulated < PROB_LOW {
            return false;
        }
        if self.accumulated < PROB_HIGH && self.rng.next_f64() > prob {
            return false;
        }
        self.accumulated = 0.0;
        if self.activity == Activity::Quiescent {
            (self.activity, self.burst) = (Activity::Active, MAX_BURST);
        }
        true
    }

    /// The time of an update has come.
    fn update(&mut self) {
        let (delay, before) = (self.estimate_delay(), self.qdelay);
        if self.burst > Duration::ZERO {
            self.prob = 0.0;
            self.burst = self.burst.saturating_sub(INTERVAL);
        } else {
            self.prob = change_prob(self.prob, delay, before, self.target);
        }
        let is_quiet = delay < self.target / 2 && before < self.target / 2 && self.prob == 0.0 && self.burst == Duration::ZERO;
        match self.activity {
            Activity::Active if is_quiet => (self.activity, self.quiet) = (Activity::Quiescent, Duration::ZERO),
            Activity::Quiescent if is_quiet => {
                self.quiet += INTERVAL;
                if self.quiet > BURST_RESET_TIMEOUT {
                    (self.activity, self.quiet) = (Activity::Inactive, Duration::ZERO);
                }
            }
            Activity::Quiescent => self.quiet = Duration::ZERO,
            Activity::Active | Activity::Inactive => {}
        }
        self.qdelay = delay;
    }
}

/// Returns the bytes that take `time` at `rate`.
fn bytes_in(time: Duration, rate: Rate) -> u64 {
    (u128::from(time.0) * u128::from(rate.bits()) / 8_000_000_000) as u64
}

/// Returns the probability after an update.
fn change_prob(prob: f64, delay: Duration, before: Duration, target: Duration) -> f64 {
    let seconds = |time: Duration| time.as_secs_f64();
    let mut change = A * (seconds(delay) - seconds(target)) + B * (seconds(delay) - seconds(before));
    change /= match prob {
        p if p < 0.000_001 => 2048.0,
        p if p < 0.000_01 => 512.0,
        p if p < 0.000_1 => 128.0,
        p if p < 0.001 => 32.0,
        p if p < 0.01 => 8.0,
        p if p < 0.1 => 2.0,
        p if p < 1.0 => 0.5,
        p if p < 10.0 => 0.125,
        _ => 0.031_25,
    };
    if prob >= 0.1 {
        change = change.min(0.02);
    }
    let mut next = prob + change;
    if delay < LATENCY_LOW && before < LATENCY_LOW {
        next *= 0.98;
    } else if delay > LATENCY_HIGH {
        next += 0.02;
    }
    next.clamp(0.0, PROB_LOW * MEAN_PACKET / LEAST_PACKET)
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn changeable(&self) -> &'static [&'static str] {
        &["limit", "target"]
    }

    fn take_params(&mut self, fresh: State, _now: Instant) -> Result<(), ParamError> {
        (self.limit, self.target) = (fresh.limit, fresh.target);
        Ok(())
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.queued + bytes <= self.limit
    }

    #[inline(always)]
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        let bytes = self.measure(&packet);
        let at = At::time(now);
        if self.queued + bytes > self.limit {
            log.on_drop(&packet, DropReason::Overflow, DropSite::Arrival, at);
        } else if self.drops_early(bytes) {
            log.on_drop(&packet, DropReason::Aqm, DropSite::Arrival, at);
        } else {
            self.queued += bytes;
            self.fifo.accept(packet, now, log);
        }
    }

    #[inline(always)]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        let Some(packet) = self.fifo.pop() else { return Dequeue::Empty };
        self.queued -= self.measure(&packet);
        log.on_dequeue(&packet, At::time(now));
        Dequeue::Packet(packet)
    }

    look_at_fifo!(hint);

    fn next_timer(&self) -> Instant {
        self.next_update
    }

    fn on_timer<L: Log>(&mut self, now: Instant, _log: &mut L) {
        self.update();
        self.next_update = now + INTERVAL;
    }

    fn set_rate(&mut self, rate: Rate, _now: Instant) {
        self.rate = rate;
    }

    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("p", self.prob);
        tell("qdelay_ms", self.qdelay.0 as f64 / 1e6);
        tell("burst_ms", self.burst.0 as f64 / 1e6);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{context, packet};
    use super::*;
    use crate::link_layer::Preset;
    use crate::packet::Ecn;
    use crate::record::Counters;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_probability_changes_as_the_controller_says() {
        // change = 0.25 (q - 10 ms) + 2.5 (q - q_old), divided by the step of the probability
        for (prob, delay, before, expected) in [
            // (0.25 * 0.010 + 2.5 * 0.020) / 2048
            (0.0, 20, 0, 0.0525 / 2048.0),
            (0.000_005, 20, 20, 0.000_005 + 0.0025 / 512.0),
            (0.000_05, 20, 20, 0.000_05 + 0.0025 / 128.0),
            (0.0005, 20, 20, 0.0005 + 0.0025 / 32.0),
            (0.005, 20, 20, 0.005 + 0.0025 / 8.0),
            (0.05, 20, 20, 0.05 + 0.0025 / 2.0),
            // above 10 % the change is multiplied, up to 2 % of rise
            (0.5, 20, 20, 0.505),
            (0.5, 30, 0, 0.52),
            (0.5, 10, 30, 0.4),
            (5.0, 10, 11, 4.98),
            (12.0, 10, 11, 12.0 - 0.0025 * 32.0),
            // above 200 ms 2 % more, up to 0.85 * 1024 / 64
            (0.5, 300, 300, 0.54),
            (13.599, 300, 300, 13.6),
            // below 5 ms it decays: (0.05 + 0.25 (0.004 - 0.010) / 2) * 0.98
            (0.05, 4, 4, 0.048_265),
            (0.000_1, 0, 0, (0.000_1 - 0.0025 / 32.0) * 0.98),
            (0.000_05, 0, 100, 0.0),
        ] {
            let found = change_prob(prob, MS(delay), MS(before), MS(10));
            assert!((found - expected).abs() < 1e-12, "{prob} {delay} {before}: {found}, not {expected}");
        }
        // 5 ms is not below 5 ms, and 200 ms not above 200 ms
        assert_eq!(change_prob(0.5, MS(10), MS(10), MS(10)), 0.5);
        assert!((change_prob(0.5, MS(5), MS(4), MS(5)) - 0.505).abs() < 1e-12);
        assert_eq!(change_prob(0.5, MS(200), MS(200), MS(200)), 0.5);
    }

    /// A queue of 10 Mbit/s with three packets, probability `prob`, past all beginnings, which measured a delay of 20 ms.
    fn busy(prob: f64) -> (State, Counters) {
        let (mut state, mut log) =
            (State::new(Params { limit: Some(150_000), ..Params::default() }, &context(10)), Counters::default());
        (0..3).for_each(|seq| state.enqueue(packet(seq, Ecn::Ect0), Instant::ZERO, &mut log));
        (state.activity, state.prob, state.qdelay) = (Activity::Active, prob, MS(20));
        (state, log)
    }

    fn is_dropped(state: &mut State, log: &mut Counters, len: u16) -> bool {
        let before = log.queue.drops_aqm;
        state.enqueue(Packet { len, ..packet(9, Ecn::Ect0) }, Instant::ZERO, log);
        let is_dropped = log.queue.drops_aqm > before;
        if !is_dropped {
            let _ = state.dequeue(Instant::ZERO, log);
        }
        is_dropped
    }

    #[test]
    fn drops_are_spread_and_in_proportion_to_size() {
        // p = 0.01 of 1024 B is 0.0147852 of 1514 B: 57 packets are never dropped (0.843 expected drops), 575 hold one for certain (8.50)
        let (mut state, mut log) = busy(0.01);
        let (mut last, mut gaps) = (0, Vec::new());
        for number in 1..=200_000_u64 {
            if is_dropped(&mut state, &mut log, 1514) {
                gaps.push(number - last);
                last = number;
            }
        }
        assert!(gaps.iter().all(|gap| (58..=575).contains(gap)), "{gaps:?}");
        // 57 packets, then geometric with mean 1 / 0.0147852 = 67.6; standard deviation 67 / sqrt(1600) = 1.7
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((mean - 124.6).abs() < 6.0, "{mean}");
        assert_eq!(log.queue.ce_marks, 0);
    }

    #[test]
    fn a_packet_has_a_probability_of_at_most_085() {
        // of 1024 B it is 13.6 at most, which leaves 0.85 for 64 B
        let (mut state, mut log) = busy(13.6);
        let dropped = (0..20_000).filter(|_| is_dropped(&mut state, &mut log, 1514)).count();
        // each packet has 0.85 expected drops, and 0.85 is the probability of the coin: 17,000 +- 50
        assert!((16_700..17_300).contains(&dropped), "{dropped}");
    }

    #[test]
    fn what_is_never_dropped() {
        let certain = |change: &dyn Fn(&mut State)| {
            let (mut state, mut log) = busy(0.15);
            state.accumulated = 9.0;
            change(&mut state);
            is_dropped(&mut state, &mut log, 1514)
        };
        assert!(certain(&|_| {}));
        assert!(!certain(&|state| state.burst = Duration(1)), "time without drops");
        assert!(!certain(&|state| state.qdelay = Duration(4_999_999)), "half of the target");
        assert!(certain(&|state| state.qdelay = MS(5)));
        assert!(certain(&|state| (state.qdelay, state.prob) = (Duration::ZERO, 0.2)));
        // 2048 B are needed
        assert!(!certain(&|state| state.queued = 2_048));
        assert!(certain(&|state| state.queued = 2_049));
        // a third of 150,000 B ends the inactive state
        assert!(!certain(&|state| (state.activity, state.queued) = (Activity::Inactive, 49_999)));
        assert!(certain(&|state| (state.activity, state.queued) = (Activity::Inactive, 50_000)));
        assert!(!certain(&|state| state.prob = 0.0), "no probability forgets what was expected");
    }

    #[test]
    fn the_first_drop_gives_142_ms_without_drops() {
        let (mut state, mut log) = busy(0.5);
        (state.activity, state.accumulated) = (Activity::Quiescent, 9.0);
        assert!(is_dropped(&mut state, &mut log, 1514));
        assert_eq!((state.activity, state.burst, state.accumulated), (Activity::Active, MS(142), 0.0));
        // 9 updates of 16 ms without a probability; the delay of 3 packets of 1514 B at 10 Mbit/s is 3.6336 ms
        for update in 1..=9_u64 {
            state.prob = 0.5;
            state.update();
            assert_eq!((state.prob, state.burst), (0.0, MS(142).saturating_sub(MS(16 * update))));
        }
        assert_eq!(state.qdelay, Duration(3_633_600));
        // a second drop gives none
        (state.activity, state.accumulated, state.prob, state.qdelay) = (Activity::Active, 9.0, 0.5, MS(20));
        assert!(is_dropped(&mut state, &mut log, 1514) && state.burst == Duration::ZERO);
    }

    #[test]
    fn a_second_of_quiet_makes_it_inactive() {
        let (mut state, _) = busy(0.0);
        (state.qdelay, state.queued) = (Duration::ZERO, 0);
        state.update();
        assert_eq!(state.activity, Activity::Quiescent);
        // 62 updates are 992 ms, 63 are 1008 ms
        (0..62).for_each(|_| state.update());
        assert_eq!(state.activity, Activity::Quiescent);
        let mut interrupted = state.clone();
        state.update();
        assert_eq!(state.activity, Activity::Inactive);
        // a delay of half the target, 6250 B at 10 Mbit/s, begins the second again
        interrupted.queued = 6_250;
        interrupted.update();
        assert_eq!((interrupted.activity, interrupted.quiet), (Activity::Quiescent, Duration::ZERO));
    }

    #[test]
    fn bytes_count_as_on_the_link_and_follow_its_rate() {
        let layered = QueueContext { link_layer: LinkLayer::of_preset(Preset::Docsis), ..context(10) };
        let mut state = State::new(Params::default(), &layered);
        // 100 ms of 10 Mbit/s
        assert_eq!(state.limit, 125_000);
        // 1518 B each: 82 fit
        let mut log = Counters::default();
        (0..90).for_each(|seq| state.enqueue(packet(seq, Ecn::NotEct), Instant::ZERO, &mut log));
        assert_eq!((state.packets(), state.queued, log.queue.drops_overflow), (82, 124_476, 8));
        assert!(state.has_room(524) && !state.has_room(525));
        assert_eq!(state.estimate_delay(), Duration(99_580_800));
        state.set_rate(Rate::from_mbit(5), Instant::ZERO);
        assert_eq!(state.estimate_delay(), Duration(199_161_600));
        while let Dequeue::Packet(_) = state.dequeue(Instant::ZERO, &mut log) {}
        assert_eq!(state.queued, 0);
        // at 64 kbit/s 100 ms are less than a frame
        assert_eq!(State::new(Params::default(), &QueueContext { rate: Rate(64_000), ..context(1) }).limit, 15_140);
    }
}
