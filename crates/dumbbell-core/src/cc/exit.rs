//! Ends of slow start, or of BBR's STARTUP.

use crate::units::Instant;

/// Event that ended slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCause {
    /// Losses, found by acknowledgements.
    Loss,
    /// CE marks.
    Ecn,
    /// A retransmission timeout. Slow start begins again, up to a threshold.
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
    pub time: Instant,
    /// The window then, segments.
    pub cwnd: u32,
    /// Event that ended it.
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
