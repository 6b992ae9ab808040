//! LEDBAT++: background traffic that keeps its queueing delay at a target by round-trip times, and lets the queue drain now and then so that
//! flows agree on the base delay.
//!
//! Specification: draft-irtf-iccrg-ledbat-plus-plus-06. It differs from [LEDBAT](super::ledbat) in five points:
//!
//! - Delays are round-trip times, so that a queue on the way back counts as well (section 4.5); the target is 60 ms.
//! - The gain is 1/min(16, ceil(2 target / base delay)): the window grows more slowly on short paths (section 4.2).
//! - Slow start grows by the gain per segment acknowledged, from 2 segments. The first one also ends when the queueing delay exceeds 3/4 of the target (section 4.1).
//! - The increase does not depend on the delay, while the decrease multiplies: above the target the window moves by
//!   gain - `decrease` W (queueing delay / target - 1) in a round trip, at most by -W/2 (section 4.3).
//! - Slowdowns: the window goes to 2 segments, stays there for 2 round trips, and returns by slow start to where it was. The first
//!   begins 2 round trips after the first slow start, each other one 9 durations of the one before after its end (section 4.4).
//!
//! Choices that the draft leaves open, and the congestion machine:
//!
//! - Round trips of slowdowns are counted by packets: one has passed when everything that was in flight at its start is acknowledged.
//! - The change of a round trip is spread over its acknowledgements, by the share of the window that each acknowledges.
//! - A window that was not used does not grow (Linux `tcp_cwnd_validate`).
//! - The congestion machine is Linux's: PRR carries reductions out, and delays do not move the window meanwhile. No slowdown begins in
//!   an episode. A loss at the bottom of a slowdown was sent before it: it halves the window to return to.

use super::background::{halve, QueueingDelay, WindowFraction, MIN_CWND};
use super::conn::{CaState, Congestion, Conn};
use super::exit::ExitCause;
use super::{CcContext, CongestionControl};
use crate::units::{Duration, Instant};

/// Name in experiment files.
pub const NAME: &str = "ledbat-pp";
/// One line.
pub const TITLE: &str = "LEDBAT++: background traffic with periodic slowdowns, by round-trip times";
/// Specification and deviations.
pub const SOURCE: &str = "draft-irtf-iccrg-ledbat-plus-plus-06; the congestion machine of Linux";

crate::params! {
    /// Parameters of LEDBAT++.
    pub struct Params {
        /// Queueing delay that it keeps to.
        target: Duration = Duration::from_millis(60), unit "", range Duration::from_millis(1), Duration::from_secs(10), source "draft section 4.5: 60 ms";
        /// Largest divisor of the gain, which is 1/min(`gain_divisor`, ceil(2 target / base delay)).
        gain_divisor: u32 = 16, unit "", range 1_u32, 1000_u32, source "draft section 4.2: 16";
        /// Share of the window by which a round trip lowers it for each target above the target, `Constant`.
        decrease: f64 = 1.0, unit "window", range 0.01, 100.0, source "draft section 4.3: 1";
        /// Time from the end of a slowdown to the next one, in durations of the slowdown.
        slowdown_interval: u32 = 9, unit "slowdowns", range 1_u32, 1000_u32, source "draft section 4.4: 9, so that slowdowns take a tenth of the time";
        /// Minutes whose smallest delays give the base delay.
        base_history: u32 = 10, unit "minutes", range 1_u32, 1000_u32, source "RFC 6817 section 2.5: 10";
        /// Samples whose smallest is the current delay; those older than a round trip do not count.
        filter: u32 = 4, unit "samples", range 1_u32, 1000_u32, source "RFC 6817, CURRENT_FILTER: at least 4 samples in each RTT";
    }
}

/// Share of the target above which the first slow start ends. Draft section 4.1.
const SLOW_START_EXIT: f64 = 0.75;
/// Round trips from the end of the first slow start to the first slowdown. Draft section 4.4.
const ROUNDS_BEFORE_SLOWDOWN: u32 = 2;
/// Round trips that the window stays at [`MIN_CWND`]. Draft section 4.4.
const ROUNDS_AT_BOTTOM: u32 = 2;
/// Largest share of the window that a round trip takes because of delay. Draft section 4.3.
const LARGEST_DECREASE: f64 = 0.5;

/// Round trips, counted by packets.
#[derive(Clone, Copy, Debug)]
struct RoundTrips {
    /// Round trips that have not passed yet.
    left: u32,
    /// Segment at which the current one ends.
    end: u64,
}

impl RoundTrips {
    fn start(count: u32, conn: &Conn) -> RoundTrips {
        RoundTrips { left: count, end: conn.snd_nxt }
    }

    /// Takes an ACK. Returns whether all have passed.
    fn advance(&mut self, conn: &Conn) -> bool {
        if self.left > 0 && conn.snd_una >= self.end {
            *self = RoundTrips::start(self.left - 1, conn);
        }
        self.left == 0
    }
}

/// Place in the cycle of slowdowns.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The first slow start.
    SlowStart,
    /// Between the first slow start and the first slowdown.
    BeforeSlowdown(RoundTrips),
    /// At the bottom of a slowdown.
    Bottom { since: Instant, round_trips: RoundTrips, target: ReturnWindow },
    /// Slow start back from the bottom.
    Return { since: Instant },
    /// Until the next slowdown.
    Steady { until: Instant },
}

/// Window that a slowdown returns to, segments.
#[derive(Clone, Copy, Debug)]
struct ReturnWindow {
    now: u32,
    /// The window before the last loss at the bottom.
    before_loss: u32,
}

/// State of LEDBAT++.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    target_us: f64,
    phase: Phase,
    delay: QueueingDelay,
    fraction: WindowFraction,
}

impl State {
    /// LEDBAT++ with `params`.
    pub fn new(params: Params, _context: &CcContext) -> State {
        let target_us = params.target.as_micros() as f64;
        let delay = QueueingDelay::new(params.base_history, params.filter);
        State { params, target_us, phase: Phase::SlowStart, delay, fraction: WindowFraction::default() }
    }

    /// Segments that a round trip adds, and a segment acknowledged in slow start. Draft section 4.2.
    fn gain(&self) -> f64 {
        let base_us = self.delay.base_us().unwrap_or(0).max(1) as f64;
        1.0 / (2.0 * self.target_us / base_us).ceil().min(f64::from(self.params.gain_divisor))
    }

    /// Segments that a round trip adds to a window of `cwnd` at a queueing delay of `queue` targets. Draft section 4.3.
    fn change_of_round_trip(&self, cwnd: f64, queue: f64) -> f64 {
        if queue <= 1.0 {
            return self.gain();
        }
        (self.gain() - self.params.decrease * cwnd * (queue - 1.0)).max(-LARGEST_DECREASE * cwnd)
    }

    /// Goes to the next phase if the present one is over.
    fn change_phase(&mut self, conn: &mut Conn) {
        let begins_slowdown = match &mut self.phase {
            Phase::SlowStart => {
                if !conn.in_slow_start() {
                    self.phase = Phase::BeforeSlowdown(RoundTrips::start(ROUNDS_BEFORE_SLOWDOWN, conn));
                }
                false
            }
            Phase::BeforeSlowdown(round_trips) => round_trips.advance(conn),
            Phase::Bottom { since, round_trips, target } => {
                if round_trips.advance(conn) {
                    conn.ssthresh = target.now;
                    self.phase = Phase::Return { since: *since };
                }
                false
            }
            Phase::Return { since } => {
                if !conn.in_slow_start() {
                    let duration = conn.now.saturating_since(*since);
                    let wait = Duration(duration.0.saturating_mul(u64::from(self.params.slowdown_interval)));
                    self.phase = Phase::Steady { until: conn.now.saturating_add(wait) };
                }
                false
            }
            Phase::Steady { until } => conn.now >= *until,
        };
        if begins_slowdown && !conn.in_slow_start() && conn.state == CaState::Open {
            let round_trips = RoundTrips::start(ROUNDS_AT_BOTTOM, conn);
            let target = ReturnWindow { now: conn.cwnd, before_loss: conn.cwnd };
            self.phase = Phase::Bottom { since: conn.now, round_trips, target };
            conn.ssthresh = conn.cwnd;
            conn.cwnd = conn.cwnd.min(MIN_CWND);
            self.fraction.reset();
        }
    }
}

impl CongestionControl for State {
    fn init(&mut self, conn: &mut Conn) {
        conn.cwnd = conn.cwnd.min(MIN_CWND);
    }

    fn ssthresh(&mut self, conn: &Conn, _cause: Congestion) -> u32 {
        self.fraction.reset();
        if let Phase::Bottom { target, .. } = &mut self.phase {
            *target = ReturnWindow { now: halve(target.now), before_loss: target.now };
        }
        halve(conn.cwnd)
    }

    fn pkts_acked(&mut self, conn: &mut Conn, _pkts: u32, rtt_us: Option<u32>) {
        if let Some(rtt_us) = rtt_us {
            self.delay.add_sample(i64::from(rtt_us), conn.now);
        }
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        self.change_phase(conn);
        let queue = self.delay.estimate_us(conn) as f64 / self.target_us;
        let limited = conn.cwnd_limited();
        if let Phase::Bottom { .. } = self.phase {
            conn.cwnd = conn.cwnd.min(MIN_CWND);
        } else if conn.in_slow_start() {
            if matches!(self.phase, Phase::SlowStart) && queue > SLOW_START_EXIT {
                conn.set_ssthresh(conn.cwnd.max(MIN_CWND), ExitCause::Delay);
            } else if limited {
                let ssthresh = conn.ssthresh;
                self.fraction.move_window(conn, self.gain() * f64::from(acked), ssthresh);
                if !conn.in_slow_start() {
                    conn.leave_slow_start(ExitCause::Threshold);
                }
            }
        } else {
            let change = self.change_of_round_trip(f64::from(conn.cwnd), queue);
            if change < 0.0 || limited {
                self.fraction.move_window(conn, change * f64::from(acked) / f64::from(conn.cwnd), u32::MAX);
            }
            // a window that fell because of delay is no slow start
            conn.ssthresh = conn.ssthresh.min(conn.cwnd.max(MIN_CWND));
        }
    }

    fn undo_cwnd(&mut self, conn: &mut Conn) -> u32 {
        if let Phase::Bottom { target, .. } = &mut self.phase {
            target.now = target.before_loss;
        }
        conn.cwnd.max(conn.prior_cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::{conn, DrivenSender};
    use super::*;

    const BASE: Duration = Duration::from_millis(20);

    fn ledbat_pp(base_ms: i64) -> State {
        let mut cc = State::new(Params { filter: 1, ..Params::default() }, &CcContext::default());
        cc.delay.add_sample(base_ms * 1000, Instant::ZERO);
        cc
    }

    /// Established with a window of `cwnd` on a path without a queue, whose first slow start ends there.
    fn sender(cwnd: u32) -> DrivenSender<State> {
        let mut sender = DrivenSender::new(ledbat_pp(20), 10);
        assert_eq!(sender.conn.cwnd, 2);
        let (snd_nxt, max_packets_out) = (u64::from(cwnd), cwnd);
        sender.conn = Conn { cwnd, ssthresh: cwnd, snd_nxt, max_packets_out, ..sender.conn };
        sender
    }

    /// A round trip of `rtt`: everything in flight is acknowledged, segment by segment.
    fn pass_round_trip(sender: &mut DrivenSender<State>, rtt: Duration) {
        sender.advance(rtt);
        for _ in 0..sender.conn.packets_out() {
            sender.ack_n(1, rtt);
        }
    }

    #[test]
    fn the_gain_follows_the_base_delay() {
        // 2 * 60/base, rounded up, at most 16
        for (base_ms, divisor) in [(1, 16.0), (7, 16.0), (8, 15.0), (20, 6.0), (23, 6.0), (110, 2.0), (120, 1.0), (600, 1.0)] {
            assert_eq!(ledbat_pp(base_ms).gain(), 1.0 / divisor, "{base_ms} ms");
        }
        assert_eq!(State::new(Params::default(), &CcContext::default()).gain(), 1.0 / 16.0);
    }

    #[test]
    fn the_increase_is_constant_and_the_decrease_multiplies_up_to_half() {
        let cc = ledbat_pp(20);
        // 1/6 - 100 (q - 1), at least -100/2
        for (queue, change) in
            [(0.0, 1.0 / 6.0), (1.0, 1.0 / 6.0), (1.25, 1.0 / 6.0 - 25.0), (1.5, 1.0 / 6.0 - 50.0), (3.0, -50.0)]
        {
            let found = cc.change_of_round_trip(100.0, queue);
            assert!((found - f64::max(change, -50.0)).abs() < 1e-12, "{queue}: {found}");
        }
    }

    #[test]
    fn slow_start_grows_by_the_gain_for_each_segment() {
        let mut sender = DrivenSender::new(ledbat_pp(20), 10);
        // 12 * 1/6 = 2
        (0..12).for_each(|_| sender.ack_n(1, BASE));
        assert!((3..=4).contains(&sender.conn.cwnd), "{}", sender.conn.cwnd);
        (0..60).for_each(|_| sender.ack_n(1, BASE));
        assert!((13..=14).contains(&sender.conn.cwnd), "{}", sender.conn.cwnd);
        assert!(sender.conn.in_slow_start());
    }

    #[test]
    fn the_first_slow_start_ends_at_three_quarters_of_the_target_and_a_later_one_does_not() {
        let (at, above) = (BASE + Duration::from_millis(45), BASE + Duration::from_micros(45_001));
        let mut sender = DrivenSender::new(ledbat_pp(20), 10);
        sender.ack_n(1, at);
        assert!(sender.conn.in_slow_start());
        sender.ack_n(1, above);
        assert!(!sender.conn.in_slow_start());
        assert_eq!(sender.conn.exits.first.map(|exit| exit.cause), Some(ExitCause::Delay));
        sender.cc.phase = Phase::Return { since: Instant::ZERO };
        sender.conn.ssthresh = 100;
        sender.ack_n(1, above);
        assert!(sender.conn.in_slow_start());
    }

    #[test]
    fn the_first_slowdown_begins_two_round_trips_after_the_first_slow_start() {
        let mut sender = sender(32);
        pass_round_trip(&mut sender, BASE);
        assert!(matches!(sender.cc.phase, Phase::BeforeSlowdown(_)) && sender.conn.cwnd == 32, "{:?}", sender.cc.phase);
        pass_round_trip(&mut sender, BASE);
        assert!(matches!(sender.cc.phase, Phase::Bottom { .. }), "{:?}", sender.cc.phase);
        assert_eq!((sender.conn.cwnd, sender.conn.ssthresh), (2, 32));
    }

    #[test]
    fn a_slowdown_goes_to_two_for_two_round_trips_and_returns_to_the_window_before() {
        let mut sender = sender(32);
        sender.cc.phase = Phase::Steady { until: Instant::ZERO };
        sender.ack_n(1, BASE);
        let start = sender.conn.now;
        // what was in flight, then two segments
        for in_flight in [31, 2] {
            assert!(matches!(sender.cc.phase, Phase::Bottom { .. }));
            assert_eq!((sender.conn.cwnd, sender.conn.ssthresh, sender.conn.packets_out()), (2, 32, in_flight));
            pass_round_trip(&mut sender, BASE);
        }
        while sender.conn.in_slow_start() {
            assert!(matches!(sender.cc.phase, Phase::Return { .. }));
            pass_round_trip(&mut sender, BASE);
        }
        assert_eq!((sender.conn.cwnd, sender.conn.ssthresh), (32, 32));
        // the next one begins nine durations after the end
        sender.ack_n(1, BASE);
        let Phase::Steady { until } = sender.cc.phase else { panic!("{:?}", sender.cc.phase) };
        assert_eq!(until - sender.conn.now, (sender.conn.now - start) * 9);
        sender.advance((sender.conn.now - start) * 9);
        sender.ack_n(1, BASE);
        assert!(matches!(sender.cc.phase, Phase::Bottom { .. }));
    }

    #[test]
    fn no_slowdown_begins_in_an_episode_or_in_slow_start() {
        for (state, ssthresh, begins) in [(CaState::Open, 32, true), (CaState::Loss, 32, false), (CaState::Open, 64, false)] {
            let mut sender = sender(32);
            sender.cc.phase = Phase::Steady { until: Instant::ZERO };
            (sender.conn.state, sender.conn.ssthresh) = (state, ssthresh);
            sender.ack_n(1, BASE);
            assert_eq!(matches!(sender.cc.phase, Phase::Bottom { .. }), begins, "{state:?} {ssthresh}");
        }
    }

    #[test]
    fn a_loss_at_the_bottom_halves_the_window_to_return_to() {
        let mut sender = sender(32);
        sender.cc.phase = Phase::Steady { until: Instant::ZERO };
        sender.ack_n(1, BASE);
        sender.congestion(Congestion::Loss);
        let return_window = |cc: &State| match cc.phase {
            Phase::Bottom { target, .. } => target.now,
            _ => panic!("{:?}", cc.phase),
        };
        assert_eq!((sender.conn.cwnd, return_window(&sender.cc)), (2, 16));
        sender.cc.undo_cwnd(&mut sender.conn);
        assert_eq!(return_window(&sender.cc), 32);
    }

    #[test]
    fn losses_and_marks_halve() {
        for cause in [Congestion::Loss, Congestion::Ecn] {
            let mut sender = sender(41);
            sender.congestion(cause);
            assert_eq!((sender.conn.cwnd, sender.conn.ssthresh), (20, 20));
        }
        assert_eq!(ledbat_pp(20).ssthresh(&Conn { cwnd: 3, ..conn() }, Congestion::Timeout), 2);
    }

    #[test]
    fn a_window_that_was_not_used_only_shrinks() {
        let mut sender = sender(40);
        sender.conn.is_cwnd_limited = false;
        sender.cc.phase = Phase::Steady { until: Instant::NEVER };
        (0..40).for_each(|_| sender.ack_n(10, BASE));
        assert_eq!(sender.conn.cwnd, 40);
        // (1/6 - 40 * (1.5 - 1)) * 10/40 = -4.96
        sender.ack_n(10, BASE + Duration::from_millis(90));
        assert_eq!(sender.conn.cwnd, 36);
    }
}
