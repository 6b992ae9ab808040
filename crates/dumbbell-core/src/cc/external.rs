//! A window and a pacing rate that an agent outside sets, while the run is on its way: for learning, and for controls that are tried out step by step.
//!
//! The transport is that of every other control: losses are found and repaired, marks are echoed. Between two actions the window stays as the last one set it. If
//! nobody acts, as in `dumbbell run`, it stays as it was at first, and the control is [`constant`](super::constant).
//!
//! With `recovery`, losses and CE marks bound the window without an action: from the begin of an episode of congestion until its end it is at most half of what it was,
//! and after a retransmission timeout one segment, from which it grows by the segments delivered up to that half (RFC 5681 section 3.1). The agent's window is valid
//! again when the episode is over.

use super::conn::{CaEvent, CaState, Congestion, Conn};
use super::{CcContext, CongestionControl, Control, Echo, EcnUse, RateSample};
use crate::packet::Ecn;
use crate::units::Rate;

/// Name in experiment files.
pub const NAME: &str = "external";
/// One line.
pub const TITLE: &str = "Window and pacing rate that an agent sets";
/// Specification and deviations.
pub const SOURCE: &str = "an instrument; no specification";

crate::params! {
    /// Parameters of the external control.
    pub struct Params {
        /// Segments in flight until the first action.
        window: u32 = 10, unit "segments", range 1_u32, 1_000_000_000_u32, source "RFC 6928: the initial window";
        /// Pacing rate of the payload until the first action, retransmissions included; unset: segments leave as the window allows.
        rate: Option<Rate> = None, unit "", range Rate(1000), Rate(10_000_000_000_000), source "";
        /// Losses and CE marks halve the window until the episode of congestion is over, whatever the agent has set.
        recovery: bool = false, unit "", source "RFC 5681 section 3.1 for the half; without it, only the agent answers congestion";
        /// Packets carry ECT(1), and marks come back counted (AccECN), as L4S asks of a scalable control; if the receiver has no AccECN, Reno takes the agent's place.
        l4s: bool = false, unit "", source "RFC 9331 sections 4.1 and 4.2; without it, ECN is that of the host, ECT(0)";
    }
}

/// Pacing rate of a window, percent of what it needs, if the host paces every flow: sysctl `tcp_pacing_ca_ratio`.
const PACING_RATIO: u32 = 120;
/// Least window of an episode, segments: RFC 5681 section 3.1.
const LEAST_HALF: u32 = 2;

/// RTTs of the ACKs since they were last taken, us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckRtts {
    /// ACKs.
    pub acks: u32,
    /// ACKs with an RTT.
    pub samples: u32,
    /// Sum of the RTTs.
    pub sum_us: u64,
    /// The smallest.
    pub min_us: u32,
    /// The latest.
    pub last_us: u32,
}

impl AckRtts {
    fn add(&mut self, rtt_us: Option<u32>) {
        self.acks += 1;
        let Some(rtt) = rtt_us else { return };
        self.min_us = if self.samples == 0 { rtt } else { self.min_us.min(rtt) };
        self.samples += 1;
        self.sum_us += u64::from(rtt);
        self.last_us = rtt;
    }
}

/// State: what the agent has set, and what it is told.
#[derive(Clone, Debug)]
pub struct State {
    /// Segments.
    window: u32,
    /// Payload, bytes per second.
    rate: Option<u64>,
    recovery: bool,
    l4s: bool,
    /// Largest window of the present episode.
    bound: u32,
    rtts: AckRtts,
}

impl State {
    /// A control with `params`.
    pub fn new(params: Params, _context: &CcContext) -> State {
        let rate = params.rate.map(Rate::bytes);
        let Params { window, recovery, l4s, .. } = params;
        State { window, rate, recovery, l4s, bound: u32::MAX, rtts: AckRtts::default() }
    }

    /// The agent sets the window, segments, or the pacing rate of the payload, or both. What is `None` stays.
    pub fn steer(&mut self, conn: &mut Conn, window: Option<u32>, rate: Option<Rate>) {
        self.window = window.map_or(self.window, |segments| segments.max(1));
        self.rate = rate.map(Rate::bytes).or(self.rate);
        self.hold(conn);
    }

    /// Returns the window that the agent has set, segments.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Whether an ACK has come since the RTTs were taken.
    pub fn has_acks(&self) -> bool {
        self.rtts.acks > 0
    }

    /// Takes the RTTs since the last call.
    pub fn take_rtts(&mut self) -> AckRtts {
        std::mem::take(&mut self.rtts)
    }

    fn hold(&self, conn: &mut Conn) {
        conn.paced |= self.rate.is_some();
        let window = if conn.state() == CaState::Loss && self.recovery { conn.cwnd } else { self.window };
        conn.cwnd = window.min(self.bound).min(conn.cwnd_clamp);
        conn.pacing_rate = self.rate.unwrap_or_else(|| conn.window_rate(PACING_RATIO));
    }
}

impl CongestionControl for State {
    fn control(&self) -> Control {
        Control::Both
    }

    fn ecn(&self) -> EcnUse {
        if !self.l4s {
            return EcnUse::default();
        }
        EcnUse { required: true, only_accurate: true, codepoint: Ecn::Ect1, echo: Echo::Accurate, ..EcnUse::default() }
    }

    fn answers(&self, _cause: Congestion) -> bool {
        self.recovery
    }

    fn init(&mut self, conn: &mut Conn) {
        self.hold(conn);
    }

    fn ssthresh(&mut self, conn: &Conn, _cause: Congestion) -> u32 {
        if !self.recovery {
            return conn.ssthresh;
        }
        self.bound = (conn.cwnd / 2).max(LEAST_HALF);
        self.bound
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn cong_control(&mut self, conn: &mut Conn, sample: &RateSample) {
        self.rtts.add(sample.rtt_us);
        match conn.state() {
            CaState::Loss => conn.cwnd = conn.cwnd.saturating_add(sample.ack_delivered),
            CaState::Cwr | CaState::Recovery => {}
            CaState::Open | CaState::Disorder => self.bound = u32::MAX,
        }
        self.hold(conn);
    }

    fn cwnd_event(&mut self, conn: &mut Conn, _event: CaEvent) {
        self.hold(conn);
    }

    fn set_state(&mut self, conn: &mut Conn, state: CaState) {
        // without recovery, a retransmission timeout, which has taken the window to one segment, changes nothing
        if state != CaState::Loss || !self.recovery {
            self.hold(conn);
        }
    }

    fn undo_cwnd(&mut self, conn: &mut Conn) -> u32 {
        self.bound = u32::MAX;
        if self.recovery {
            self.window.min(conn.cwnd_clamp)
        } else {
            conn.cwnd
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::DrivenSender;
    use super::*;
    use crate::units::Duration;

    fn external(params: Params) -> DrivenSender<State> {
        DrivenSender::new(State::new(params, &CcContext::default()), 10)
    }

    fn sample(ack_delivered: u32, rtt_us: Option<u32>) -> RateSample {
        RateSample { ack_delivered, rtt_us, ..RateSample::default() }
    }

    #[test]
    fn the_window_is_that_of_the_last_action() {
        let mut sender = external(Params::default());
        assert_eq!((sender.conn.cwnd, sender.conn.paced), (10, false));
        sender.cc.steer(&mut sender.conn, Some(25), None);
        sender.ack_n(5, Duration::from_millis(40));
        sender.cc.cong_control(&mut sender.conn, &sample(5, None));
        assert_eq!((sender.conn.cwnd, sender.conn.paced), (25, false));
        // 8 Mbit/s = 10^6 bytes per second, and the window stays
        sender.cc.steer(&mut sender.conn, None, Some(Rate::from_mbit(8)));
        assert_eq!((sender.conn.cwnd, sender.conn.paced, sender.conn.pacing_rate), (25, true, 1_000_000));
        // a window has one segment at least
        sender.cc.steer(&mut sender.conn, Some(0), None);
        assert_eq!(sender.conn.cwnd, 1);
    }

    #[test]
    fn congestion_changes_nothing_unless_recovery_bounds_it() {
        let mut free = external(Params { window: 20, ..Params::default() });
        assert_eq!(free.cc.ssthresh(&free.conn, Congestion::Loss), free.conn.ssthresh);
        free.cc.set_state(&mut free.conn, CaState::Recovery);
        assert!(free.conn.cwnd == 20 && !free.cc.answers(Congestion::Loss));
        let mut bound = external(Params { window: 20, recovery: true, ..Params::default() });
        assert_eq!(bound.cc.ssthresh(&bound.conn, Congestion::Loss), 10);
        bound.conn.state = CaState::Recovery;
        bound.cc.cong_control(&mut bound.conn, &sample(3, None));
        assert_eq!(bound.conn.cwnd, 10);
        // an action during the episode waits for its end
        bound.cc.steer(&mut bound.conn, Some(40), None);
        assert_eq!(bound.conn.cwnd, 10);
        bound.conn.state = CaState::Open;
        bound.cc.cong_control(&mut bound.conn, &sample(1, None));
        assert_eq!(bound.conn.cwnd, 40);
    }

    #[test]
    fn after_a_timeout_the_window_grows_from_one_by_what_is_delivered_up_to_half() {
        let mut sender = external(Params { window: 12, recovery: true, ..Params::default() });
        assert_eq!(sender.cc.ssthresh(&sender.conn, Congestion::Timeout), 6);
        sender.conn.state = CaState::Loss;
        sender.conn.cwnd = 1;
        // 1 + 2, 3 + 2, and 5 + 2 is more than 12 / 2
        let windows = [2, 2, 2].map(|delivered| {
            sender.cc.cong_control(&mut sender.conn, &sample(delivered, None));
            sender.conn.cwnd
        });
        assert_eq!(windows, [3, 5, 6]);
    }

    #[test]
    fn only_an_agent_of_l4s_asks_for_ect1_and_counted_marks() {
        assert_eq!(external(Params::default()).cc.ecn(), EcnUse::default());
        let ecn = external(Params { l4s: true, ..Params::default() }).cc.ecn();
        assert_eq!((ecn.codepoint, ecn.echo, ecn.only_accurate), (Ecn::Ect1, Echo::Accurate, true));
    }

    #[test]
    fn rtts_are_those_since_they_were_last_taken() {
        let mut sender = external(Params::default());
        for rtt in [Some(40_000), None, Some(60_000), Some(50_000)] {
            sender.cc.cong_control(&mut sender.conn, &sample(1, rtt));
        }
        let expected = AckRtts { acks: 4, samples: 3, sum_us: 150_000, min_us: 40_000, last_us: 50_000 };
        assert!(sender.cc.has_acks());
        assert_eq!(sender.cc.take_rtts(), expected);
        assert!(!sender.cc.has_acks());
        sender.cc.cong_control(&mut sender.conn, &sample(1, Some(70_000)));
        assert_eq!(sender.cc.take_rtts().min_us, 70_000);
    }
}
