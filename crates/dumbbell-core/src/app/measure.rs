//! Measures of applications, which become columns of table `apps`.

use crate::histogram::Histogram;
use crate::protocol::PacketFate;
use crate::units::Duration;

/// The kind of the values of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasureKind {
    /// Whole numbers.
    Count,
    /// Real numbers.
    Real,
    /// Real numbers that are read from a [`Histogram`].
    Binned,
    /// One of these words, by its place; none where the value is NaN.
    Word(&'static [&'static str]),
}

/// A measure of one or several applications, described as every column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Name of the column.
    pub name: &'static str,
    /// Unit; empty for ratios.
    pub unit: &'static str,
    /// In words, as on an axis.
    pub label: &'static str,
    /// Definition: whole sentences, with the formula and its source.
    pub doc: &'static [&'static str],
    /// Kind of its values.
    pub kind: MeasureKind,
}

/// Share of frames or updates that their receiver could not use in time.
pub(super) const LATE_SHARE: Measure = Measure {
    name: "late_share",
    unit: "",
    label: "share of late or lost frames",
    doc: &[
        "Frames of a call or a video, or updates of a game, that came too late to be used or never came, over all whose fate is known.",
    ],
    kind: MeasureKind::Real,
};

/// Frames or updates that came too late.
pub(super) const FRAMES_LATE: Measure = Measure {
    name: "frames_late",
    unit: "frames",
    label: "late frames",
    doc: &[
        "Frames or updates that came too late to be used.",
        "The playout buffer of a call discards a frame that comes after its playing, a video shows it more than late after its capture, and an update of a game takes longer than late.",
    ],
    kind: MeasureKind::Count,
};

/// Frames or updates that never came.
pub(super) const FRAMES_LOST: Measure = Measure {
    name: "frames_lost",
    unit: "frames",
    label: "lost frames",
    doc: &[
        "Frames or updates that never came.",
        "A frame of a video is lost if a part of it was, if a frame that it needs was, or if its sender discarded it.",
    ],
    kind: MeasureKind::Count,
};

/// Returns a quantile of `times`, s; NaN without times.
pub(super) fn quantile_s(times: &Histogram, share: f64) -> f64 {
    if times.total() > 0 {
        times.quantile(share).as_secs_f64()
    } else {
        f64::NAN
    }
}

/// Counts packets that arrive later than the receiver can use them.
#[derive(Clone, Copy, Debug)]
pub(super) struct LateCount {
    patience: Duration,
    late: u64,
}

impl LateCount {
    /// A packet is late if it takes longer than `patience`.
    pub fn new(patience: Duration) -> LateCount {
        LateCount { patience, late: 0 }
    }

    /// A packet has arrived after `delay`.
    pub fn record(&mut self, delay: Duration) {
        self.late += u64::from(delay > self.patience);
    }

    /// The packets so far do not count.
    pub fn forget(&mut self) {
        self.late = 0;
    }

    /// Returns [`LATE_SHARE`], [`FRAMES_LATE`] and [`FRAMES_LOST`]; the share is NaN if the fate of no packet is known.
    pub fn figures(&self, fate: PacketFate) -> [f64; 3] {
        [(self.late + fate.lost) as f64 / fate.known as f64, self.late as f64, fate.lost as f64]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_is_what_takes_longer_than_the_patience_or_never_comes() {
        let mut lateness = LateCount::new(Duration::from_millis(60));
        for ms in [59, 60, 61, 200] {
            lateness.record(Duration::from_millis(ms));
        }
        // 2 late and 1 lost of 5
        assert_eq!(lateness.figures(PacketFate { lost: 1, known: 5 }), [0.6, 2.0, 1.0]);
        lateness.forget();
        assert_eq!(lateness.figures(PacketFate { lost: 0, known: 4 }), [0.0; 3]);
        assert!(lateness.figures(PacketFate::default())[0].is_nan() && quantile_s(&Histogram::default(), 0.5).is_nan());
    }
}
