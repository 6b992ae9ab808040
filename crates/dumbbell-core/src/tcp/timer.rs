//! The retransmission timer: one clock that is set for one of three things, and the back-off of the timeout.

use crate::hint::likely;
use crate::rtt::{RttEstimator, RTO_INIT_US, RTO_MAX_US};
use crate::units::{timer_wheel, Duration, Instant};

/// Linux `TCP_TIMEOUT_MIN_US`: two ticks, the least that a timer is set for.
const TIMEOUT_MIN_US: u64 = 2_000;

/// Purpose for which the retransmission timer is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Nothing.
    Off,
    /// Retransmission timeout.
    Rto,
    /// Tail-loss probe.
    Tlp,
    /// RACK's reordering window.
    Reordering,
}

/// Linux `icsk_pending`, `icsk_timeout`, `icsk_backoff`, `icsk_retransmits`.
#[derive(Clone, Debug)]
pub(super) struct RetransmissionTimer {
    /// When it was set, and for how much later; the wheel rounds that up ([`RetransmissionTimer::fire_time`]). Most ACKs set it again, so that
    /// the rounding is left until somebody asks.
    set_at: Instant,
    timeout: Duration,
    /// Purpose for which it is set.
    pub kind: Timer,
    /// Number of times that the timeout has doubled since the last RTT sample.
    pub backoff: u32,
    /// Timeouts since `snd_una` last advanced.
    pub timeouts: u32,
}

impl RetransmissionTimer {
    pub fn new() -> RetransmissionTimer {
        RetransmissionTimer { set_at: Instant::NEVER, timeout: Duration::ZERO, kind: Timer::Off, backoff: 0, timeouts: 0 }
    }

    #[inline]
    pub fn set(&mut self, kind: Timer, timeout_us: u64, now: Instant) {
        self.kind = kind;
        self.set_at = now;
        self.timeout = Duration::from_micros(timeout_us);
    }

    #[inline]
    pub fn stop(&mut self) {
        self.kind = Timer::Off;
        self.disarm();
    }

    /// Stops the timer, and remembers its purpose.
    #[inline]
    pub fn disarm(&mut self) {
        self.set_at = Instant::NEVER;
    }

    /// When it fires.
    pub fn fire_time(&self) -> Instant {
        if self.set_at == Instant::NEVER {
            Instant::NEVER
        } else {
            timer_wheel(self.set_at, self.timeout)
        }
    }

    /// Returns a time before which the timer does not fire; cheaper than [`RetransmissionTimer::fire_time`].
    #[inline]
    pub fn not_before(&self) -> Instant {
        self.set_at.saturating_add(self.timeout)
    }

    /// Sets it for the end of RACK's reordering window, at most for a timeout.
    pub fn set_reordering(&mut self, wait: Duration, rtt: &RttEstimator, now: Instant) {
        self.set(Timer::Reordering, (wait.as_micros() + TIMEOUT_MIN_US).min(self.rto_us(rtt)), now);
    }

    /// Retransmission timeout with back-off, us. Without back-off the wheel rounds it up to whole ms.
    #[inline]
    pub fn rto_us(&self, rtt: &RttEstimator) -> u64 {
        if likely(self.backoff == 0) {
            u64::from(rtt.rto_us())
        } else {
            self.whole_rto_us(rtt)
        }
    }

    /// Returns the RTO as the kernel keeps it: in whole ms, and backoff doubles that. Linux `__tcp_set_rto`.
    fn whole_rto_us(&self, rtt: &RttEstimator) -> u64 {
        let whole = u64::from(rtt.rto_us()).next_multiple_of(1000);
        (whole << self.backoff.min(16)).min(u64::from(RTO_MAX_US))
    }

    /// Returns the rest of the timeout of a segment that was sent at `sent`, us.
    fn rto_left_us(&self, rtt: &RttEstimator, sent: Instant, now: Instant) -> u64 {
        self.whole_rto_us(rtt).saturating_sub((now - sent).as_micros())
    }

    /// Postpones the timer by `delay`, the time for which pacing holds the next packet. Linux `tcp_reset_xmit_timer`.
    #[cold]
    pub fn put_off(&mut self, delay: Duration) {
        self.timeout += delay;
    }

    /// Sets it for the timeout of the oldest segment, last sent at `oldest_sent`. Linux `tcp_rearm_rto`.
    pub fn set_rto(&mut self, rtt: &RttEstimator, oldest_sent: Instant, now: Instant) {
        let timeout = match self.kind {
            // these were set instead of the timeout, whose clock goes on from the oldest segment
            Timer::Tlp | Timer::Reordering => self.rto_left_us(rtt, oldest_sent, now).max(1),
            _ => self.rto_us(rtt),
        };
        self.set(Timer::Rto, timeout, now);
    }

    /// Sets it for a tail-loss probe (RFC 8985 section 7.2) of `packets_out` segments. The timeout bounds it, of which `used` is over: since the
    /// oldest of them was last sent, or nothing if the timeout restarts. `rto_min_us` is asked for a lone one. Linux `tcp_schedule_loss_probe`.
    #[inline(always)]
    pub fn set_probe(
        &mut self,
        rtt: &RttEstimator,
        packets_out: u32,
        used: Duration,
        rto_min_us: impl FnOnce() -> u32,
        now: Instant,
    ) {
        let srtt = rtt.srtt_us();
        let timeout = Duration::from_micros(2 * u64::from(srtt) + TIMEOUT_MIN_US);
        let is_usual = srtt > 0 && packets_out != 1 && self.backoff == 0;
        if likely(is_usual && Duration::from_micros(u64::from(rtt.rto_us())) >= timeout + used) {
            self.kind = Timer::Tlp;
            (self.set_at, self.timeout) = (now, timeout);
        } else {
            self.set_unusual_probe(rtt, packets_out, used, rto_min_us(), now);
        }
    }

    /// [`RetransmissionTimer::set_probe`] of a lone segment, before the first sample, with a back-off, or bounded by the timeout.
    #[cold]
    #[inline(never)]
    fn set_unusual_probe(&mut self, rtt: &RttEstimator, packets_out: u32, used: Duration, rto_min_us: u32, now: Instant) {
        let mut timeout = match rtt.srtt_us() {
            0 => u64::from(RTO_INIT_US),
            srtt if packets_out == 1 => 2 * u64::from(srtt) + u64::from(rto_min_us),
            srtt => 2 * u64::from(srtt) + TIMEOUT_MIN_US,
        };
        let left_us = self.rto_us(rtt) as i64 - timeout as i64;
        if left_us * 1000 < used.0 as i64 {
            timeout = self.bounded_probe_us(timeout, rtt, used);
        }
        self.set(Timer::Tlp, timeout, now);
    }

    /// Returns the part of `timeout` us that the timeout of the oldest segment leaves to a probe, if `used` of it is over. This is rare, so only here it is
    /// rounded.
    #[cold]
    fn bounded_probe_us(&self, timeout: u64, rtt: &RttEstimator, used: Duration) -> u64 {
        let used = used.as_micros();
        match self.whole_rto_us(rtt).saturating_sub(used) {
            left if left > 0 && self.rto_us(rtt) < timeout + used => timeout.min(left),
            _ => timeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_millis(1_000);

    /// srtt 40 ms, variance at the floor: RTO 240 ms.
    fn rtt() -> RttEstimator {
        let mut rtt = RttEstimator::default();
        rtt.sample(40_000, 0, 1);
        rtt
    }

    fn due(ms: u64) -> Instant {
        timer_wheel(NOW, Duration::from_millis(ms))
    }

    #[test]
    fn the_timeout_doubles_up_to_two_minutes() {
        let mut timer = RetransmissionTimer::new();
        for (backoff, expected) in [(0, 240_000), (1, 480_000), (4, 3_840_000), (9, 120_000_000), (u32::MAX, 120_000_000)] {
            timer.backoff = backoff;
            assert_eq!(timer.rto_us(&rtt()), expected, "back-off {backoff}");
        }
    }

    #[test]
    fn whole_milliseconds_double() {
        // 242.3 ms: 243 * 8
        let mut rtt = RttEstimator::default();
        rtt.sample(42_300, 0, 1);
        let mut timer = RetransmissionTimer::new();
        timer.backoff = 3;
        timer.set_rto(&rtt, NOW, NOW);
        assert_eq!(timer.fire_time(), due(1944));
        // what is left: 243 - 100.5 = 142.5 ms
        timer.backoff = 0;
        timer.kind = Timer::Tlp;
        timer.set_rto(&rtt, NOW.saturating_sub(Duration::from_micros(100_500)), NOW);
        assert_eq!(timer.timeout, Duration::from_micros(142_500));
    }

    #[test]
    fn the_reordering_window_ends_with_the_timeout_at_the_latest() {
        let mut timer = RetransmissionTimer::new();
        for (wait, expected) in [(10, 12), (1000, 240)] {
            timer.set_reordering(Duration::from_millis(wait), &rtt(), NOW);
            assert_eq!((timer.kind, timer.fire_time()), (Timer::Reordering, due(expected)), "{wait} ms");
        }
    }

    #[test]
    fn after_a_probe_the_timeout_goes_on_from_the_oldest_segment() {
        let sent = NOW.saturating_sub(Duration::from_millis(100));
        let mut timer = RetransmissionTimer::new();
        timer.set_rto(&rtt(), sent, NOW);
        assert_eq!((timer.kind, timer.fire_time()), (Timer::Rto, due(240)));
        for kind in [Timer::Tlp, Timer::Reordering] {
            timer.kind = kind;
            timer.set_rto(&rtt(), sent, NOW);
            assert_eq!(timer.fire_time(), due(140), "{kind:?}");
            timer.kind = kind;
            timer.set_rto(&rtt(), sent, NOW);
            timer.put_off(Duration::from_millis(3));
            assert_eq!(timer.fire_time(), due(143), "{kind:?}, pacing");
        }
    }

    #[test]
    fn a_probe_waits_two_round_trips_and_for_the_delayed_ack_of_a_lone_segment() {
        let mut timer = RetransmissionTimer::new();
        // 2 * 40 + 2 ms; one segment: 2 * 40 + 200 ms, but the timeout of 240 ms comes first
        for (out, expected) in [(2, 82), (1, 240)] {
            timer.set_probe(&rtt(), out, Duration::ZERO, || 200_000, NOW);
            assert_eq!((timer.kind, timer.fire_time()), (Timer::Tlp, due(expected)), "{out} out");
        }
        // what is left of the timeout: 240 - 200 ms
        timer.set_probe(&rtt(), 2, Duration::from_millis(200), || 200_000, NOW);
        assert_eq!(timer.fire_time(), due(40));
    }
}
