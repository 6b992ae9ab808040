//! A viewer of video: assembles frames at the receiver, shows them in order, and counts late and missing frames and freezes.
//!
//! All times are on the clock of the sender.

use super::video::{FramePart, VideoFrame};
use crate::histogram::Histogram;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

crate::params! {
    /// Parameters of a viewer.
    pub struct ViewerParams {
        /// A frame that is shown later than this after its capture is late.
        late: Duration = Duration::from_millis(250), unit "", range Duration::from_millis(1), Duration::from_secs(60), source "draft-huitema-ccwg-c4-test-02: lateness from which on the second stream is cancelled";
        /// Time between two pictures from which on the video is frozen.
        freeze: Duration = Duration::from_millis(200), unit "", range Duration::from_millis(1), Duration::from_secs(60), source "ours: six frames of 30 per second";
    }
}

/// Counters of a viewer.
#[derive(Clone, Debug, Default)]
pub struct VideoQuality {
    /// Times from the capture of a frame to the arrival of its last byte, of all complete frames.
    pub delays: Histogram,
    /// Frames that were shown late.
    pub late: u64,
    /// Frames that were shown.
    pub shown: u64,
    /// Frames that were never shown: incomplete, or without a frame that they need.
    pub missing: u64,
    /// Times between two pictures that were longer than `freeze`, the time to the first picture and after the last one included.
    pub freezes: u64,
    /// Length of all freezes.
    pub frozen: Duration,
}

/// A frame that was sent and neither shown nor given up.
#[derive(Clone, Copy, Debug)]
struct PendingFrame {
    captured: Instant,
    missing: u32,
    is_predicted: bool,
}

/// Assembles frames at the receiver and shows them: a frame appears when it is complete and can be decoded, in order. A frame gives way to a later frame that needs no other.
#[derive(Clone, Debug)]
pub struct Viewer {
    params: ViewerParams,
    quality: VideoQuality,
    /// Frames from number `first` on.
    pending: VecDeque<PendingFrame>,
    first: u64,
    /// The first frame that counts.
    counts_from: u64,
    last_picture: Option<Instant>,
}

impl Viewer {
    /// A viewer without frames.
    pub fn new(params: ViewerParams) -> Viewer {
        let (quality, pending) = (VideoQuality::default(), VecDeque::new());
        Viewer { params, quality, pending, first: 0, counts_from: 0, last_picture: None }
    }

    /// The next frame, in order of numbers, is captured at the sender. The viewer cannot know this: its measurement can.
    pub fn expect(&mut self, frame: &VideoFrame) {
        self.last_picture.get_or_insert(frame.captured);
        let VideoFrame { captured, bytes: missing, is_predicted, .. } = *frame;
        self.pending.push_back(PendingFrame { captured, missing, is_predicted });
    }

    /// A part of a frame arrives. Each part comes once. Parts of frames that were given up change nothing.
    pub fn receive(&mut self, part: FramePart, now: Instant) {
        let Some(place) = part.frame.checked_sub(self.first).and_then(|place| usize::try_from(place).ok()) else { return };
        let Some(frame) = self.pending.get_mut(place) else { return };
        let is_predicted = frame.is_predicted;
        let is_complete = frame.missing == 0;
        frame.missing = frame.missing.saturating_sub(u32::from(part.bytes));
        if is_complete || frame.missing > 0 {
            return;
        }
        if part.frame >= self.counts_from {
            self.quality.delays.record(now.saturating_since(frame.captured));
        }
        if !is_predicted {
            // gives up all frames before one that needs none of them
            self.pending.drain(..place);
            self.quality.missing += part.frame.saturating_sub(self.first.max(self.counts_from));
            self.first = part.frame;
        }
        while let Some(next) = self.pending.front().filter(|next| next.missing == 0) {
            if self.first >= self.counts_from {
                self.quality.shown += 1;
                self.quality.late += u64::from(now.saturating_since(next.captured) > self.params.late);
            }
            self.pending.pop_front();
            self.first += 1;
            note_picture(&mut self.quality, &self.params, self.last_picture.replace(now), now);
        }
    }

    /// Discards the counters at `now`: only frames that are captured from now on count, and only what is left of a freeze.
    pub fn forget(&mut self, now: Instant) {
        self.quality = VideoQuality::default();
        self.counts_from = self.first + self.pending.len() as u64;
        self.last_picture = self.last_picture.map(|last| last.max(now));
    }

    /// Returns the counters at `now`. A frame that is not shown is missing if it would be late by now; of younger ones nothing is known. The picture that is seen
    /// now is the last one.
    pub fn assess(&self, now: Instant) -> VideoQuality {
        let mut quality = self.quality.clone();
        let is_over = |frame: &PendingFrame| now.saturating_since(frame.captured) > self.params.late;
        let counted = (self.first..).zip(&self.pending).filter(|(number, _)| *number >= self.counts_from);
        quality.missing += counted.filter(|(_, frame)| is_over(frame)).count() as u64;
        note_picture(&mut quality, &self.params, self.last_picture, now);
        quality
    }
}

/// A picture appears at `now`, or the video ends; `last` is the time of the one before.
fn note_picture(quality: &mut VideoQuality, params: &ViewerParams, last: Option<Instant>, now: Instant) {
    let gap = now.saturating_since(last.unwrap_or(now));
    if gap > params.freeze {
        quality.freezes += 1;
        quality.frozen += gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prop_assert_eq, proptest};

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn instant(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    /// A frame of groups of three.
    fn frame(number: u64, group: u64, bytes: u32, captured: Instant) -> VideoFrame {
        VideoFrame { number, group, bytes, captured, is_predicted: number % 3 != 0 }
    }

    /// A viewer of frames of 3,000 B in groups of three, captured each 100 ms; `arrivals` gives times at which parts of 1,500 B arrive.
    fn watch(frames: u64, arrivals: &[(u64, u64)], end: u64) -> VideoQuality {
        let mut viewer = Viewer::new(ViewerParams::default());
        let mut captured = 0;
        for &(time, number) in arrivals {
            while captured < frames && 100 * captured <= time {
                viewer.expect(&frame(captured, captured / 3, 3_000, instant(100 * captured)));
                captured += 1;
            }
            viewer.receive(FramePart { frame: number, bytes: 1_500 }, instant(time));
        }
        viewer.assess(instant(end))
    }

    #[test]
    fn a_frame_counts_from_its_capture_to_its_last_part() {
        let quality = watch(3, &[(20, 0), (40, 0), (120, 1), (180, 1), (220, 2), (500, 2)], 500);
        // 40, 80 and 300 ms; the last is late, and the picture stood still for 320 ms
        assert_eq!((quality.delays.total(), quality.delays.max(), quality.delays.mean()), (3, ms(300), 140e6));
        assert_eq!((quality.late, quality.shown, quality.missing, quality.freezes, quality.frozen), (1, 3, 0, 1, ms(320)));
    }

    #[test]
    fn a_lost_part_freezes_the_picture_until_the_next_group() {
        // frame 1 is never complete: frame 2 arrives and cannot be decoded. Frames 3 to 5 are shown from 340 ms on
        let parts = [(20, 0), (40, 0), (120, 1), (220, 2), (240, 2), (320, 3), (340, 3), (420, 4), (440, 4), (520, 5), (540, 5)];
        let quality = watch(6, &parts, 600);
        assert_eq!((quality.shown, quality.missing, quality.late, quality.delays.total()), (4, 2, 0, 5));
        assert_eq!((quality.freezes, quality.frozen), (1, ms(300)));
    }

    #[test]
    fn frames_that_overtake_wait_for_the_frames_that_they_need() {
        // frame 2 is complete at 240 ms, frame 1 at 250 ms: both appear then. Parts of complete, shown and unknown frames change nothing
        let quality = watch(3, &[(20, 0), (40, 0), (220, 1), (230, 2), (240, 2), (245, 2), (250, 1), (260, 1), (260, 9)], 300);
        assert_eq!(quality.delays.total(), 3);
        assert_eq!((quality.shown, quality.missing, quality.freezes, quality.frozen), (3, 0, 1, ms(210)));
    }

    #[test]
    fn a_video_that_never_appears_is_frozen_from_its_first_frame_on() {
        let quality = watch(30, &[(2_999, 0)], 3_000);
        assert_eq!(
            (quality.shown, quality.missing, quality.freezes, quality.frozen),
            (0, 28, 1, ms(3_000)),
            "of two nothing is known"
        );
        assert_eq!(Viewer::new(ViewerParams::default()).assess(instant(5_000)).freezes, 0);
    }

    #[test]
    fn frames_that_need_no_other_are_shown_without_those_that_lack() {
        let mut viewer = Viewer::new(ViewerParams::default());
        for n in 0..5 {
            viewer.expect(&VideoFrame { is_predicted: false, ..frame(n, n, 1_000, instant(100 * n)) });
            if n != 2 {
                viewer.receive(FramePart { frame: n, bytes: 1_000 }, instant(100 * n + 30));
            }
        }
        let quality = viewer.assess(instant(430));
        assert_eq!((quality.shown, quality.missing, quality.freezes), (4, 1, 0), "130 to 330 ms are not more than 200 ms");
    }

    #[test]
    fn a_frame_that_waits_for_the_one_before_it_is_late_when_it_is_shown() {
        // frame 1 is complete 300 ms after its capture, and frame 2, which was there after 40 ms, is shown with it
        let quality = watch(3, &[(20, 0), (40, 0), (220, 2), (240, 2), (300, 1), (400, 1)], 420);
        assert_eq!((quality.shown, quality.late, quality.delays.max()), (3, 1, ms(300)));
    }

    #[test]
    fn frames_from_before_the_measured_time_do_not_count() {
        let mut viewer = Viewer::new(ViewerParams::default());
        let all_of = |n: u64| FramePart { frame: n, bytes: 1_000 };
        for n in 0..6 {
            viewer.expect(&VideoFrame { is_predicted: false, ..frame(n, n, 1_000, instant(100 * n)) });
            if n == 3 {
                // frame 0 was shown, and 1 to 3 are under way
                viewer.forget(instant(350));
            }
            if n == 0 {
                viewer.receive(all_of(n), instant(30));
            }
        }
        // frame 3 gives up 1 and 2, which do not count either; the freeze since 350 ms does
        viewer.receive(all_of(3), instant(580));
        viewer.receive(all_of(5), instant(600));
        let quality = viewer.assess(instant(610));
        assert_eq!((quality.shown, quality.missing, quality.delays.total()), (1, 1, 1), "5 is shown and 4 given up");
        assert_eq!((quality.freezes, quality.frozen), (1, ms(230)));
    }

    proptest! {
        #[test]
        fn every_frame_is_shown_or_missing(parts in vec((0_u64..40, 0_u64..5_000), 0..200)) {
            let mut arrivals: Vec<(u64, u64)> = parts.into_iter().map(|(number, delay)| (100 * number + delay, number)).collect();
            arrivals.sort_unstable();
            arrivals.push((5_000_000, 0));
            let quality = watch(40, &arrivals, 6_000_000);
            prop_assert_eq!(quality.shown + quality.missing, 40);
        }
    }
}
