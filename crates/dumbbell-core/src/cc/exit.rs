//! Ends of slow start, or of BBR's STARTUP, and what else a congestion control tells a [`Log`](crate::log::Log).

use super::conn::{CaState, Conn};
use super::RateSample;
use crate::units::Time;

/// What ended slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCause {
    /// Losses, found by acknowledgements.
    Loss,
    /// CE marks.
    Ecn,
    /// A retransmission timeout. Slow start begins anew, up to a threshold.
    Timeout,
    /// SCE marks.
    Sce,
    /// The window reached the threshold.
    Threshold,
    /// The round-trip time rose: HyStart.
    Delay,
    /// The train of closely spaced ACKs was long: HyStart.
    Train,
    /// The rate grew no more: BBR.
    Plateau,
}

impl ExitCause {
    /// As it stands in results.
    pub fn name(self) -> &'static str {
        match self {
            ExitCause::Loss => "loss",
            ExitCause::Ecn => "ecn",
            ExitCause::Timeout => "timeout",
            ExitCause::Sce => "sce",
            ExitCause::Threshold => "threshold",
            ExitCause::Delay => "delay",
            ExitCause::Train => "train",
            ExitCause::Plateau => "plateau",
        }
    }
}

/// An end of slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowStartExit {
    /// When, on the sender's clock.
    pub time: Time,
    /// The window then, segments.
    pub cwnd: u32,
    /// What ended it.
    pub cause: ExitCause,
}

/// The ends of slow start of a connection, without those between the first and the last. One that was undone counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowStartExits {
    /// The first one.
    pub first: Option<SlowStartExit>,
    /// The last one.
    pub last: Option<SlowStartExit>,
}

impl Conn {
    /// Slow start ends now. Controls without a threshold say it by themselves, the others by [`Conn::set_ssthresh`].
    #[cold]
    #[inline(never)]
    pub fn leave_slow_start(&mut self, cause: ExitCause) {
        let exit = Some(SlowStartExit { time: self.now, cwnd: self.cwnd, cause });
        self.exits = SlowStartExits { first: self.exits.first.or(exit), last: exit };
    }

    /// Sets the slow-start threshold. If that takes the connection out of slow start, `cause` is what ended it.
    #[inline]
    pub fn set_ssthresh(&mut self, ssthresh: u32, cause: ExitCause) {
        let was_in = self.in_slow_start();
        self.ssthresh = ssthresh;
        if was_in && !self.in_slow_start() {
            self.leave_slow_start(cause);
        }
    }
}

/// Something that a sender tells. What changes several times within one ACK or timer is told once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ControlEvent {
    /// The congestion machine changed its state.
    State {
        /// Before.
        from: CaState,
        /// Now.
        to: CaState,
    },
    /// The control changed its own state, as [`Model`](super::Model) names it; "" before the first.
    Phase {
        /// Before.
        from: &'static str,
        /// Now.
        to: &'static str,
    },
    /// Slow start ended. Its time is on the sender's clock, which may run ahead.
    SlowStartExit(SlowStartExit),
    /// An ACK gave the control this sample.
    RateSample(RateSample),
    /// The flow is over: it was stopped, or all that it had is acknowledged.
    Ended,
}

/// What a sender said last, by which it is seen what is new.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    state: CaState,
    phase: &'static str,
    exit: Option<SlowStartExit>,
    ended: bool,
}

impl Default for Reported {
    /// Nothing yet.
    fn default() -> Reported {
        Reported { state: CaState::Open, phase: "", exit: None, ended: false }
    }
}

impl Reported {
    /// Tells what is new of a connection whose control is in `phase` and which may have `ended`, in the order of events.
    pub fn report_changes(&mut self, conn: &Conn, phase: &'static str, ended: bool, mut tell: impl FnMut(ControlEvent)) {
        let before = std::mem::replace(self, Reported { state: conn.state, phase, exit: conn.exits.last, ended });
        if let Some(exit) = conn.exits.last.filter(|_| before.exit != conn.exits.last) {
            tell(ControlEvent::SlowStartExit(exit));
        }
        if before.state != conn.state {
            tell(ControlEvent::State { from: before.state, to: conn.state });
        }
        if before.phase != phase {
            tell(ControlEvent::Phase { from: before.phase, to: phase });
        }
        if ended && !before.ended {
            tell(ControlEvent::Ended);
        }
    }
}
