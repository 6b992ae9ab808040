//! NADA, a congestion control for interactive video: RFC 8698.
//!
//! The receiver makes one congestion signal of queueing delay, losses and marks, and reports it each 100 ms with the receiving rate; the sender derives the rate of its encoder and of its pacer. Rates
//! count the bytes of RTP payloads.
//!
//! Readings of the RFC where it leaves room: `p_loss` and `p_mark` are smoothed once per report, as in the authors' implementation (cisco/ns3-rmcat). Neighbouring missing packets are one loss event of RFC
//! 5348, section 5.4, as the receiver does not know the RTT by which that RFC joins events. The sender takes each RTT as it is. The base
//! delay does not expire.
//!
//! The congestion signal is at most 500 ms, as in the authors' implementation. The RFC has only the bound of its field, 3.28 s, with which the rate oscillates for long after a burst of losses: their penalty grows with the square of
//! their share, and while it decays, equation 7 takes its change for an empty queue.
//!
//! With the values of the RFC a loss never expires: the average loss interval of RFC 5348, section 5.4, contains the open interval, the one since the last loss, if that makes the average longer. The weight
//! of the open interval is at least 1/6 of all weights, so that 7 averages (MULTILOSS) are at least 7/6 of it. The authors' implementation does the same: once a packet is lost, large delays are warped for good.

use super::control::{MediaArrival, MediaControl, MediaReport};
use crate::packet::Ecn;
use crate::real;
use crate::units::{Duration, Instant, Rate};
use std::collections::VecDeque;

crate::params! {
    /// Parameters of NADA.
    pub struct Params {
        /// Weight of the flow against others (PRIO).
        priority: f64 = 1.0, unit "", range 0.001, 1_000.0, source "RFC 8698 table 2";
        /// Lowest rate of the application (RMIN).
        least: Rate = Rate(150_000), unit "", range Rate(1_000), Rate(1_000_000_000), source "RFC 8698 table 2";
        /// Highest rate of the application (RMAX).
        most: Rate = Rate(1_500_000), unit "", range Rate(1_000), Rate(1_000_000_000), source "RFC 8698 table 2";
        /// Reference congestion level (XREF).
        reference: Duration = Duration::from_millis(10), unit "", range Duration(1_000), Duration::from_secs(10), source "RFC 8698 table 2";
        /// Speed of gradual updates (KAPPA).
        kappa: f64 = 0.5, unit "", range 0.0, 10.0, source "RFC 8698 table 2";
        /// Influence of a change of the signal, relative to its offset (ETA).
        eta: f64 = 2.0, unit "", range 0.0, 100.0, source "RFC 8698 table 2";
        /// Upper bound of the RTT for gradual updates (TAU).
        tau: Duration = Duration::from_millis(500), unit "", range Duration::from_millis(1), Duration::from_secs(10), source "RFC 8698 table 2";
        /// Time between two reports (DELTA).
        feedback: Duration = Duration::from_millis(100), unit "", range Duration::from_millis(1), Duration::from_secs(10), source "RFC 8698 table 2";
        /// Time over which the receiver observes losses, marks and rate (LOGWIN).
        window: Duration = Duration::from_millis(500), unit "", range Duration::from_millis(1), Duration::from_secs(60), source "RFC 8698 table 2";
        /// Queueing delay from which on the rate does not ramp up (QEPS).
        buildup: Duration = Duration::from_millis(10), unit "", range Duration(1_000), Duration::from_secs(10), source "RFC 8698 table 2";
        /// Bound on the delay by filtering (DFILT).
        filtering: Duration = Duration::from_millis(120), unit "", range Duration::ZERO, Duration::from_secs(10), source "RFC 8698 table 2";
        /// Largest relative increase per report while the rate ramps up (GAMMA_MAX).
        gamma_max: f64 = 0.5, unit "", range 0.0, 10.0, source "RFC 8698 table 2";
        /// Bound on the queueing delay that the flow causes itself while the rate ramps up (QBOUND).
        ramp_delay: Duration = Duration::from_millis(50), unit "", range Duration::ZERO, Duration::from_secs(10), source "RFC 8698 table 2";
        /// Mean loss intervals after which the last loss no longer counts (MULTILOSS). From 6 on it always counts, because the mean contains the time since then.
        loss_expiry: f64 = 7.0, unit "", range 0.0, 1_000.0, source "RFC 8698 table 2";
        /// Queueing delay from which on losses reduce it non-linearly (QTH).
        warp_threshold: Duration = Duration::from_millis(50), unit "", range Duration(1_000), Duration::from_secs(10), source "RFC 8698 table 2";
        /// Scale of this reduction (LAMBDA).
        lambda: f64 = 0.5, unit "", range 0.0, 100.0, source "RFC 8698 table 2";
        /// Reference share of lost packets (PLRREF).
        reference_loss: f64 = 0.01, unit "", range 1e-6, 1.0, source "RFC 8698 table 2";
        /// Reference share of marked packets (PMRREF).
        reference_marking: f64 = 0.01, unit "", range 1e-6, 1.0, source "RFC 8698 table 2";
        /// Penalty for losses of the reference share (DLOSS).
        loss_penalty: Duration = Duration::from_millis(10), unit "", range Duration::ZERO, Duration::from_secs(10), source "RFC 8698 table 2";
        /// Penalty for marks of the reference share (DMARK).
        mark_penalty: Duration = Duration::from_millis(2), unit "", range Duration::ZERO, Duration::from_secs(10), source "RFC 8698 table 2";
        /// Largest congestion signal.
        largest: Duration = Duration::from_millis(500), unit "", range Duration::from_millis(1), Duration(3_276_700_000), source "cisco/ns3-rmcat, the authors' implementation: XMAX";
        /// Frame rate by which the rate-shaping buffer is drained (FPS).
        frame_rate: f64 = 30.0, unit "frames/s", range 1.0, 1_000.0, source "RFC 8698 table 2";
        /// Influence of the rate-shaping buffer on the sending rate (BETA_S).
        beta_sending: f64 = 0.1, unit "", range 0.0, 1.0, source "RFC 8698 table 2";
        /// Influence of the rate-shaping buffer on the encoder's rate (BETA_V).
        beta_video: f64 = 0.1, unit "", range 0.0, 1.0, source "RFC 8698 table 2";
        /// Smoothing of the shares of losses and marks (ALPHA).
        alpha: f64 = 0.1, unit "", range 0.0, 1.0, source "RFC 8698 table 2";
        /// Packets of the minimum filter of the queueing delay.
        filter: u32 = 15, unit "packets", range 1_u32, 1_000_u32, source "RFC 8698 section 5.1.1";
    }
    check check
}

/// Refuses a range of rates without a rate.
fn check(params: &Params) -> Result<(), crate::param::ParamError> {
    if params.least > params.most {
        let allowed = format!("at least least, {}", params.least);
        return Err(crate::param::ParamError::new("most", params.most, allowed));
    }
    Ok(())
}

fn to_millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A report of the receiver (section 5.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feedback {
    /// Whether the rate may ramp up: rmode is 0.
    pub ramps_up: bool,
    /// Aggregate congestion signal, ms (x_curr).
    pub congestion: f64,
    /// Receiving rate, bit/s (r_recv).
    pub receiving_rate: f64,
}

impl Feedback {
    /// Packs the report into 48 bits: 1 of rmode, 15 of x_curr in units of 100 us, 32 of r_recv in bit/s. Larger values take the largest of their fields.
    pub fn pack(&self) -> u64 {
        let congestion = ((self.congestion * 10.0).round() as u64).min((1 << 15) - 1);
        let rate = (self.receiving_rate as u64).min(u64::from(u32::MAX));
        u64::from(!self.ramps_up) << 47 | congestion << 32 | rate
    }

    /// Unpacks a report.
    pub fn unpack(bits: u64) -> Feedback {
        Feedback {
            ramps_up: bits >> 47 & 1 == 0,
            congestion: (bits >> 32 & ((1 << 15) - 1)) as f64 / 10.0,
            receiving_rate: (bits & u64::from(u32::MAX)) as f64,
        }
    }
}

/// Weights of loss intervals, the newest first (RFC 5348, section 5.4).
const INTERVAL_WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// Numbers of packets between losses.
#[derive(Clone, Debug, Default)]
struct LossIntervals {
    /// Packets since the last loss.
    open: u64,
    /// Up to eight intervals between losses, the newest first.
    closed: VecDeque<u64>,
}

impl LossIntervals {
    /// Packets were lost, after `open` others.
    fn lose(&mut self) {
        self.closed.truncate(INTERVAL_WEIGHTS.len() - 1);
        self.closed.push_front(self.open);
        self.open = 0;
    }

    /// Average of up to eight intervals (RFC 5348, section 5.4): the open one counts if that makes the average longer. `None` before the first loss.
    fn average(&self) -> Option<f64> {
        let weigh = |intervals: &mut dyn Iterator<Item = u64>| {
            intervals.zip(INTERVAL_WEIGHTS).map(|(interval, weight)| interval as f64 * weight).sum::<f64>()
        };
        let count = self.closed.len();
        let with_open = weigh(&mut std::iter::once(self.open).chain(self.closed.iter().copied()).take(count));
        let closed = weigh(&mut self.closed.iter().copied());
        (count > 0).then(|| with_open.max(closed) / INTERVAL_WEIGHTS[..count].iter().sum::<f64>())
    }
}

/// A packet in the receiver's observation window.
#[derive(Clone, Copy, Debug)]
struct ObservedPacket {
    arrived: Instant,
    number: u64,
    bytes: u32,
    is_marked: bool,
    is_queued: bool,
}

/// The receiver's algorithm (section 4.2).
#[derive(Clone, Debug)]
pub struct NadaReceiver {
    params: Params,
    /// Smallest one-way delay (d_base).
    base: Duration,
    /// Queueing delays of the last packets.
    queueing: VecDeque<Duration>,
    observed: VecDeque<ObservedPacket>,
    /// The number after that of the last packet which left the window, and after that of the last which came.
    window_start: u64,
    next: u64,
    intervals: LossIntervals,
    loss: f64,
    marking: f64,
}

impl NadaReceiver {
    /// A receiver without packets.
    pub fn new(params: Params) -> NadaReceiver {
        NadaReceiver {
            params,
            base: Duration::MAX,
            queueing: VecDeque::new(),
            observed: VecDeque::new(),
            window_start: 0,
            next: 0,
            intervals: LossIntervals::default(),
            loss: 0.0,
            marking: 0.0,
        }
    }

    /// Packet `number`, counted from 0, arrives after `delay`. A packet that was overtaken counts as lost and changes nothing.
    pub fn receive(&mut self, number: u64, bytes: u32, delay: Duration, is_marked: bool, now: Instant) {
        if number < self.next {
            return;
        }
        if number > self.next {
            self.intervals.lose();
        }
        self.next = number + 1;
        self.intervals.open += 1;
        self.base = self.base.min(delay);
        let queueing = delay - self.base;
        self.queueing.truncate(self.params.filter as usize - 1);
        self.queueing.push_front(queueing);
        let is_queued = queueing >= self.params.buildup;
        self.observed.push_back(ObservedPacket { arrived: now, number, bytes, is_marked, is_queued });
        self.forget_old(now);
    }

    /// Makes a report.
    pub fn report(&mut self, now: Instant) -> Feedback {
        self.forget_old(now);
        let received = self.observed.len() as u64;
        let sent = self.next - self.window_start;
        let share = |count: u64| count as f64 / sent.max(1) as f64;
        let marked = self.observed.iter().filter(|packet| packet.is_marked).count() as u64;
        let alpha = self.params.alpha;
        self.loss = alpha * share(sent - received) + (1.0 - alpha) * self.loss;
        self.marking = alpha * share(marked) + (1.0 - alpha) * self.marking;
        let bytes: u64 = self.observed.iter().map(|packet| u64::from(packet.bytes)).sum();
        Feedback {
            ramps_up: sent == received && self.observed.iter().all(|packet| !packet.is_queued),
            congestion: self.compute_congestion(),
            receiving_rate: bytes as f64 * 8.0 / self.params.window.as_secs_f64(),
        }
    }

    /// Forgets packets that are older than the window.
    fn forget_old(&mut self, now: Instant) {
        while let Some(packet) = self.observed.front().filter(|old| now.saturating_since(old.arrived) > self.params.window) {
            self.window_start = packet.number + 1;
            self.observed.pop_front();
        }
    }

    /// Aggregate congestion signal, ms (equation 2).
    fn compute_congestion(&self) -> f64 {
        let Params { reference_marking, reference_loss, mark_penalty, loss_penalty, largest, .. } = self.params;
        let (marks, losses) = (self.marking / reference_marking, self.loss / reference_loss);
        let penalty = to_millis(mark_penalty) * marks * marks + to_millis(loss_penalty) * losses * losses;
        (self.compute_delay() + penalty).min(to_millis(largest))
    }

    /// Queueing delay, ms: warped until the last loss expires, then interpolated for one loss interval more.
    fn compute_delay(&self) -> f64 {
        let delay = self.queueing.iter().min().map_or(0.0, |least| to_millis(*least));
        let Some(average) = self.intervals.average() else { return delay };
        let expired = (self.intervals.open as f64 - self.params.loss_expiry * average) / average.max(1.0);
        let expired = expired.clamp(0.0, 1.0);
        expired * delay + (1.0 - expired) * self.warp(delay)
    }

    /// Non-linear warping of a delay in ms (equation 1).
    fn warp(&self, delay: f64) -> f64 {
        let threshold = to_millis(self.params.warp_threshold);
        if delay < threshold {
            delay
        } else {
            threshold * real::exp(-self.params.lambda * (delay - threshold) / threshold)
        }
    }
}

/// The sender's algorithm (sections 4.3 and 5.2.2). Rates are in bit/s.
#[derive(Clone, Debug)]
pub struct NadaSender {
    params: Params,
    reference: f64,
    last_congestion: f64,
    last_report: Instant,
}

impl NadaSender {
    /// A sender that starts at `start` with its lowest rate.
    pub fn new(params: Params, start: Instant) -> NadaSender {
        NadaSender { reference: params.least.bits() as f64, params, last_congestion: 0.0, last_report: start }
    }

    /// A report arrives, with an RTT.
    pub fn on_feedback(&mut self, feedback: &Feedback, rtt: Duration, now: Instant) {
        let elapsed = to_millis(now.saturating_since(self.last_report));
        if feedback.ramps_up {
            self.ramp_up(feedback.receiving_rate, rtt);
        } else {
            self.update_gradually(feedback.congestion, elapsed);
        }
        self.reference = self.reference.min(self.params.most.bits() as f64).max(self.params.least.bits() as f64);
        (self.last_congestion, self.last_report) = (feedback.congestion, now);
    }

    /// Rate that the network carries (r_ref).
    pub fn reference_rate(&self) -> Rate {
        Rate(self.reference as u64)
    }

    /// Rate for the encoder, with `buffered` bytes in the rate-shaping buffer (r_vin, equations 11 and 13).
    pub fn video_rate(&self, buffered: u64) -> Rate {
        let rate = self.reference - self.compute_adjustment(self.params.beta_video, buffered);
        Rate(rate.max(self.params.least.bits() as f64) as u64)
    }

    /// Rate of the pacer (r_send, equations 12 and 14).
    pub fn sending_rate(&self, buffered: u64) -> Rate {
        let rate = self.reference + self.compute_adjustment(self.params.beta_sending, buffered);
        Rate(rate.min(self.params.most.bits() as f64) as u64)
    }

    fn compute_adjustment(&self, beta: f64, buffered: u64) -> f64 {
        (0.05 * self.reference).min(beta * 8.0 * buffered as f64 * self.params.frame_rate)
    }

    /// Equations 3 and 4.
    fn ramp_up(&mut self, receiving_rate: f64, rtt: Duration) {
        let Params { gamma_max, ramp_delay, feedback, filtering, .. } = self.params;
        let loop_delay = rtt.saturating_add(feedback).saturating_add(filtering);
        let gamma = gamma_max.min(to_millis(ramp_delay) / to_millis(loop_delay));
        self.reference = self.reference.max((1.0 + gamma) * receiving_rate);
    }

    /// Equations 5 to 7; `elapsed` since the last report in ms.
    fn update_gradually(&mut self, congestion: f64, elapsed: f64) {
        let Params { priority, reference, most, kappa, eta, tau, .. } = self.params;
        let tau = to_millis(tau);
        let offset = congestion - priority * to_millis(reference) * most.bits() as f64 / self.reference;
        let change = congestion - self.last_congestion;
        let by_offset = kappa * elapsed / tau * (offset / tau) * self.reference;
        let by_change = kappa * eta * (change / tau) * self.reference;
        self.reference -= by_offset + by_change;
    }
}

/// Bytes of a report, headers included (RFC 8698, section 6.3).
const REPORT_LENGTH: u16 = 200;

/// Both ends of NADA.
#[derive(Clone, Debug)]
pub struct Nada {
    sender: NadaSender,
    receiver: NadaReceiver,
}

impl Nada {
    /// A control whose video has not started.
    pub fn new(params: &Params) -> Nada {
        Nada { sender: NadaSender::new(params.clone(), Instant::ZERO), receiver: NadaReceiver::new(params.clone()) }
    }

    /// Returns the sender's algorithm.
    pub fn sender(&self) -> &NadaSender {
        &self.sender
    }
}

impl MediaControl for Nada {
    crate::fork_by_clone!(dyn MediaControl);

    fn start(&mut self, now: Instant) {
        self.sender.last_report = now;
    }

    fn encoder_rate(&self, buffered: u64) -> Rate {
        self.sender.video_rate(buffered)
    }

    fn pacing_rate(&self, buffered: u64) -> Rate {
        self.sender.sending_rate(buffered)
    }

    fn on_arrival(&mut self, MediaArrival { packet, delay, at, ecn }: &MediaArrival) {
        self.receiver.receive(packet.number, packet.bytes, *delay, *ecn == Ecn::Ce, *at);
    }

    fn report_interval(&self) -> Duration {
        self.receiver.params.feedback
    }

    fn report(&mut self, now: Instant) -> MediaReport {
        MediaReport { value: self.receiver.report(now).pack(), length: REPORT_LENGTH }
    }

    fn on_report(&mut self, value: u64, rtt: Duration, now: Instant) {
        self.sender.on_feedback(&Feedback::unpack(value), rtt, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prop_assert, proptest};

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn instant(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    fn sender(rate: f64, last_congestion: f64) -> NadaSender {
        NadaSender { reference: rate, last_congestion, ..NadaSender::new(Params::default(), Instant::ZERO) }
    }

    fn is_near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= 1e-4 * expected.abs()
    }

    #[test]
    fn the_rate_ramps_up_by_gamma_above_the_receiving_rate() {
        let report = |receiving_rate| Feedback { ramps_up: true, congestion: 0.0, receiving_rate };
        // gamma = min(0.5, 50 / (100 + 100 + 120)) = 0.15625; 400 kbit/s * 1.15625 = 462.5 kbit/s
        let mut one = sender(150_000.0, 0.0);
        one.on_feedback(&report(400_000.0), ms(100), instant(100));
        assert_eq!(one.reference, 462_500.0);
        // never below the rate so far, and not above RMAX
        one.on_feedback(&report(300_000.0), ms(100), instant(200));
        assert_eq!(one.reference, 462_500.0);
        one.on_feedback(&report(1_400_000.0), ms(100), instant(300));
        assert_eq!(one.reference_rate(), Rate(1_500_000));
        // DELTA + DFILT alone keep gamma below 50 / 220 = 0.227
        let mut near = sender(150_000.0, 0.0);
        near.on_feedback(&report(220_000.0), Duration::ZERO, instant(100));
        assert!(is_near(near.reference, 270_000.0));
    }

    #[test]
    fn a_gradual_update_follows_offset_and_change_of_the_signal() {
        let report = |congestion| Feedback { ramps_up: false, congestion, receiving_rate: 0.0 };
        // offset 20 - 10 * 1.5 = 5 ms, change 10 ms: 1e6 (1 - 0.5 * 100/500 * 5/500 - 0.5 * 2 * 10/500) = 1e6 (1 - 0.001 - 0.02)
        let mut one = sender(1e6, 10.0);
        one.on_feedback(&report(20.0), ms(100), instant(100));
        assert!(is_near(one.reference, 979_000.0), "{}", one.reference);
        // at equilibrium, x = 10 * 1.5 = 15 ms, nothing changes
        let mut still = sender(1e6, 15.0);
        still.on_feedback(&report(15.0), ms(100), instant(100));
        assert_eq!(still.reference, 1e6);
        // a report after 200 ms counts its offset twice: 1e6 (1 - 0.002)
        let mut late = sender(1e6, 20.0);
        late.on_feedback(&report(20.0), ms(100), instant(200));
        assert!(is_near(late.reference, 998_000.0));
        // no less than RMIN
        let mut low = sender(160_000.0, 0.0);
        low.on_feedback(&report(3_000.0), ms(100), instant(100));
        assert_eq!(low.reference_rate(), Rate(150_000));
    }

    #[test]
    fn the_rate_shaping_buffer_moves_both_rates_apart() {
        // section 5.2.2: a buffer of 2000 B means 0.1 * 8 * 2000 * 30 = 48 kbit/s; 5 % of 1 Mbit/s are the bound
        let one = sender(1e6, 0.0);
        assert_eq!((one.video_rate(2_000), one.sending_rate(2_000)), (Rate(952_000), Rate(1_048_000)));
        assert_eq!((one.video_rate(4_000), one.sending_rate(4_000)), (Rate(950_000), Rate(1_050_000)));
        let (low, high) = (sender(150_000.0, 0.0), sender(1.5e6, 0.0));
        assert_eq!((low.video_rate(9_000), high.sending_rate(9_000)), (Rate(150_000), Rate(1_500_000)));
    }

    #[test]
    fn a_report_takes_48_bits() {
        let report = Feedback { ramps_up: false, congestion: 12.34, receiving_rate: 1_234_567.8 };
        let expected = Feedback { congestion: 12.3, receiving_rate: 1_234_567.0, ..report };
        assert_eq!(Feedback::unpack(report.pack()), expected);
        assert_eq!(report.pack(), 1 << 47 | 123 << 32 | 1_234_567);
        let large = Feedback { ramps_up: true, congestion: 1e9, receiving_rate: 1e12 };
        assert_eq!(large.pack() >> 47, 0);
        // "approximately 3.27 seconds" and 4.3 Gbit/s
        assert_eq!(
            Feedback::unpack(large.pack()),
            Feedback { ramps_up: true, congestion: 3_276.7, receiving_rate: 4_294_967_295.0 }
        );
    }

    #[test]
    fn delays_above_50_ms_are_warped() {
        let receiver = NadaReceiver::new(Params::default());
        // 50 exp(-0.5 (100 - 50) / 50) = 50 * 0.606531 = 30.327 ms; 50 exp(-1.5) = 11.157 ms at 200 ms
        assert_eq!((receiver.warp(49.0), receiver.warp(50.0)), (49.0, 50.0));
        assert!(is_near(receiver.warp(100.0), 30.3265) && is_near(receiver.warp(200.0), 11.1565));
    }

    #[test]
    fn losses_and_marks_are_penalties() {
        let receiver = NadaReceiver { loss: 0.03, marking: 0.02, ..NadaReceiver::new(Params::default()) };
        // 10 * (0.03 / 0.01)^2 + 2 * (0.02 / 0.01)^2 = 90 + 8 ms
        assert!(is_near(receiver.compute_congestion(), 98.0));
    }

    #[test]
    fn loss_intervals_are_averaged_with_the_weights_of_tfrc() {
        let mut intervals = LossIntervals { open: 50, ..LossIntervals::default() };
        assert_eq!(intervals.average(), None);
        intervals.lose();
        assert_eq!((intervals.open, intervals.average()), (0, Some(50.0)));
        // one interval has the whole weight: the longer one of 50, which is closed, and 80, which is open
        intervals.open = 80;
        assert_eq!(intervals.average(), Some(80.0));
        intervals.lose();
        // (80 + 50) / 2, without the open one; with it, (open + 80) / 2 is longer from 51 packets on
        for (open, expected) in [(0, 65.0), (50, 65.0), (60, 70.0)] {
            intervals.open = open;
            assert_eq!(intervals.average(), Some(expected));
        }
        // (10 + 20 + 30 + 40 + 0.8 * 50 + 0.6 * 60 + 0.4 * 70 + 0.2 * 80) / 6 = 220 / 6; a ninth interval is forgotten
        let mut eight = LossIntervals { open: 5, closed: (1..=8).map(|n| 10 * n).collect() };
        assert!(is_near(eight.average().expect("intervals"), 220.0 / 6.0));
        eight.lose();
        // (5 + 10 + 20 + 30 + 0.8 * 40 + 0.6 * 50 + 0.4 * 60 + 0.2 * 70) / 6 = 165 / 6
        assert!(is_near(eight.average().expect("intervals"), 165.0 / 6.0));
        // with 100 of the open one: (100 + 5 + 10 + 20 + 0.8 * 30 + 0.6 * 40 + 0.4 * 50 + 0.2 * 60) / 6 = 215 / 6
        eight.open = 100;
        assert!(is_near(eight.average().expect("intervals"), 215.0 / 6.0));
    }

    /// A receiver of packets of 1,250 B each 10 ms, 1 Mbit/s, until `end` ms; `delay` gives the delay of a packet, `None` if it is lost.
    fn receive(end: u64, delay: impl Fn(u64) -> Option<u64>) -> (NadaReceiver, Vec<Feedback>) {
        let mut receiver = NadaReceiver::new(Params::default());
        let mut reports = Vec::new();
        for n in 0..end / 10 {
            if let Some(delay) = delay(n) {
                receiver.receive(n, 1_250, ms(delay), false, instant(10 * n + delay));
            }
            if n % 10 == 9 {
                reports.push(receiver.report(instant(10 * n + delay(n).unwrap_or(50))));
            }
        }
        (receiver, reports)
    }

    #[test]
    fn the_receiver_reports_rate_and_mode() {
        let (_, reports) = receive(1_000, |_| Some(50));
        assert!(reports.iter().all(|report| report.ramps_up && report.congestion == 0.0));
        // 10 packets in the first 100 ms of the window of 500 ms: 200 kbit/s; then the window is full: 51 packets arrive within 500 ms, bounds included
        assert!(is_near(reports[0].receiving_rate, 200_000.0) && is_near(reports[9].receiving_rate, 1_020_000.0), "{reports:?}");
        // A queue of 10 ms from packet 50 on ends the ramp. The filter reports the smallest of 15 packets: all are queued from packet 64 on
        let (_, queued) = receive(1_000, |n| Some(if n < 50 { 50 } else { 60 }));
        let modes: Vec<bool> = queued.iter().map(|report| report.ramps_up).collect();
        assert_eq!(modes, [[true; 5], [false; 5]].concat());
        let signals: Vec<f64> = queued.iter().map(|report| report.congestion).collect();
        assert_eq!(signals, [[0.0; 6].as_slice(), &[10.0; 4]].concat());
    }

    #[test]
    fn the_receiver_reports_losses_with_smoothing() {
        // packet 4 is lost: 1 of 10, 0.1 * 0.1 = 0.01 and a signal of 10 ms; then 1 of 20: 0.1 * 0.05 + 0.9 * 0.01 = 0.014, 19.6 ms
        let (receiver, reports) = receive(1_000, |n| (n != 4).then_some(50));
        assert!(is_near(reports[0].congestion, 10.0) && is_near(reports[1].congestion, 19.6), "{reports:?}");
        // it leaves the window with packet 3, which is older than 500 ms at packet 54
        let modes: Vec<bool> = reports.iter().map(|report| report.ramps_up).collect();
        assert_eq!(modes, [[false; 5], [true; 5]].concat());
        assert_eq!((receiver.intervals.open, receiver.intervals.closed), (95, VecDeque::from([4])));
        // a packet that was overtaken stays lost
        let mut late = NadaReceiver::new(Params::default());
        for n in [0, 2, 1] {
            late.receive(n, 100, ms(50), false, instant(100));
        }
        assert_eq!((late.observed.len(), late.next), (2, 3));
    }

    /// Delay in the signal, ms, of 100 ms of queueing and `open` packets after the last of many losses, each after 20 packets.
    fn delay_after_a_loss(open: u64, params: Params) -> f64 {
        let mut receiver = NadaReceiver::new(params);
        receiver.queueing.push_front(ms(100));
        receiver.intervals = LossIntervals { open, closed: VecDeque::from([20; 8]) };
        receiver.compute_delay()
    }

    #[test]
    fn warping_ends_gradually_after_the_last_loss_if_losses_expire_early() {
        // the average is (open + 100) / 6 from open = 20 on: with 2 of them, 2 (open + 100) / 6 = open at 50
        let warped = |open| delay_after_a_loss(open, Params { loss_expiry: 2.0, ..Params::default() });
        assert!(is_near(warped(0), 30.3265) && is_near(warped(50), 30.3265));
        // at 68 the average is 28, and 68 - 2 * 28 = 12: 12 / 28 of the way to 100 ms; at 100 the average is 33.3, and one more is over
        assert!(is_near(warped(68), 30.3265 + 12.0 / 28.0 * 69.6735), "{}", warped(68));
        assert!(warped(99) < 99.9 && is_near(warped(100), 100.0) && warped(1_000) == 100.0);
    }

    #[test]
    fn warping_never_ends_with_the_values_of_the_rfc() {
        for open in [0, 140, 160, 1_000, 1_000_000] {
            assert!(is_near(delay_after_a_loss(open, Params::default()), 30.3265));
        }
        // below 6 averages it ends
        assert_eq!(delay_after_a_loss(1_000_000, Params { loss_expiry: 4.9, ..Params::default() }), 100.0);
    }

    #[test]
    fn parameters_that_leave_no_rate_are_refused() {
        let refused = Params::from_json(serde_json::json!({"most": 100_000}).as_object().expect("a table"));
        assert_eq!(refused.expect_err("an error").to_string(), "most: found 100kbit, allowed: at least least, 150kbit");
    }

    proptest! {
        #[test]
        fn the_rate_stays_within_its_range(reports in vec((0_u64..1 << 48, 0_u64..5_000, 0_u64..1_000), 0..100)) {
            let mut one = NadaSender::new(Params::default(), Instant::ZERO);
            let mut now = Instant::ZERO;
            for (bits, elapsed, rtt) in reports {
                now += ms(elapsed);
                one.on_feedback(&Feedback::unpack(bits), ms(rtt), now);
                prop_assert!((150_000..=1_500_000).contains(&one.reference_rate().bits()));
            }
        }
    }
}
