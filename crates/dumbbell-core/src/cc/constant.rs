//! A constant window or a constant pacing rate, whatever happens: the instrument for characterising a queue discipline.
//!
//! The transport is that of every other control: losses are found and repaired, marks are echoed. Nothing of it changes the window or the
//! rate.

use super::conn::{CaEvent, CaState, Congestion, Conn};
use super::{CcContext, CongestionControl, Control, RateSample};
use crate::units::Rate;

/// Name in experiment files.
pub const NAME: &str = "constant";
/// One line.
pub const TITLE: &str = "A constant window or pacing rate, no reaction to loss or marks";
/// Specification and deviations.
pub const SOURCE: &str = "an instrument; no specification";

crate::params! {
    /// Parameters of the constant control.
    pub struct Params {
        /// Segments in flight; unset: 10, or as many as the buffers hold if `rate` is set.
        window: Option<u32> = None, unit "segments", range 1_u32, 1_000_000_000_u32, source "10: the initial window of RFC 6928";
        /// Pacing rate of the payload, retransmissions included; unset: segments leave as the window allows.
        rate: Option<Rate> = None, unit "", range Rate(1000), Rate(10_000_000_000_000), source "";
    }
}

/// Window if nothing is set: RFC 6928.
const INITIAL_WINDOW: u32 = 10;
/// Window that only the buffers limit, segments: twice this fits 32 bits.
const UNLIMITED: u32 = 1 << 30;
/// Pacing rate of a window, percent of what it needs, if the host paces every flow: sysctl `tcp_pacing_ca_ratio`.
const PACING_RATIO: u32 = 120;

/// State: the window and the rate that it holds.
#[derive(Clone, Debug)]
pub struct State {
    /// Segments.
    window: u32,
    /// Payload, bytes per second.
    rate: Option<u64>,
}

impl State {
    /// A control with `params`.
    pub fn new(params: Params, _context: &CcContext) -> State {
        let rate = params.rate.map(Rate::bytes);
        let window = params.window.unwrap_or(if rate.is_some() { UNLIMITED } else { INITIAL_WINDOW });
        State { window, rate }
    }

    fn hold(&self, conn: &mut Conn) {
        conn.cwnd = self.window.min(conn.cwnd_clamp);
        conn.pacing_rate = self.rate.unwrap_or_else(|| conn.window_rate(PACING_RATIO));
    }
}

impl CongestionControl for State {
    fn control(&self) -> Control {
        Control::Both
    }

    fn answers(&self, _cause: Congestion) -> bool {
        false
    }

    fn init(&mut self, conn: &mut Conn) {
        conn.paced |= self.rate.is_some();
        self.hold(conn);
    }

    fn ssthresh(&mut self, conn: &Conn, _cause: Congestion) -> u32 {
        conn.ssthresh
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn cong_control(&mut self, conn: &mut Conn, _sample: &RateSample) {
        self.hold(conn);
    }

    fn cwnd_event(&mut self, conn: &mut Conn, _event: CaEvent) {
        self.hold(conn);
    }

    fn set_state(&mut self, conn: &mut Conn, _state: CaState) {
        // a retransmission timeout has taken the window to one segment
        self.hold(conn);
    }

    fn undo_cwnd(&mut self, conn: &mut Conn) -> u32 {
        conn.cwnd
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::{conn, DrivenSender};
    use super::*;
    use crate::units::Duration;

    fn constant(params: Params) -> DrivenSender<State> {
        DrivenSender::new(State::new(params, &CcContext::default()), 10)
    }

    #[test]
    fn nothing_moves_the_window() {
        let mut sender = constant(Params { window: Some(7), ..Params::default() });
        assert_eq!(sender.conn.cwnd, 7);
        for cause in [Congestion::Ecn, Congestion::Loss, Congestion::Timeout] {
            sender.conn.prior_cwnd = sender.conn.cwnd;
            assert_eq!(sender.cc.ssthresh(&sender.conn, cause), sender.conn.ssthresh);
            sender.conn.cwnd = 1;
            sender.cc.set_state(&mut sender.conn, CaState::Loss);
            assert_eq!(sender.conn.cwnd, 7);
        }
        sender.ack_n(5, Duration::from_millis(40));
        sender.cc.cong_control(&mut sender.conn, &RateSample { ack_delivered: 5, ..RateSample::default() });
        assert_eq!((sender.conn.cwnd, sender.conn.paced), (7, false));
    }

    #[test]
    fn a_rate_is_paced_and_needs_no_window() {
        let sender = constant(Params { rate: Some(Rate::from_mbit(8)), ..Params::default() });
        assert!(sender.conn.paced && sender.conn.cwnd == UNLIMITED);
        assert_eq!(sender.conn.pacing_rate, 1_000_000);
        // both: a paced window
        let both = constant(Params { rate: Some(Rate::from_mbit(8)), window: Some(20) });
        assert_eq!((both.conn.cwnd, both.conn.pacing_rate), (20, 1_000_000));
    }

    #[test]
    fn without_either_the_window_is_10_up_to_the_clamp() {
        assert_eq!(constant(Params::default()).conn.cwnd, 10);
        let mut clamped = conn();
        clamped.cwnd_clamp = 4;
        State::new(Params::default(), &CcContext::default()).init(&mut clamped);
        assert_eq!(clamped.cwnd, 4);
    }
}
