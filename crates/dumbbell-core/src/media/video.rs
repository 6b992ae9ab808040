//! Video: sources of frames, and the sender's queue of frames. [`viewer`](super::viewer) measures what is seen of them.
//!
//! Two sources. The fixed one has groups of frames of constant size, with the sizes of the tests for C4 (draft-huitema-ccwg-c4-test-02, and the specifications of its simulations): an intra
//! frame, then predicted frames, each of which needs all frames before it in its group. The statistical one is the model of RFC 8593, section 5, an encoder that follows a target rate. Its frames
//! do not need each other, as the RFC has no model of concealment.

use crate::real;
use crate::rng::Rng;
use crate::units::{Duration, Instant, Rate};
use std::collections::VecDeque;

/// A frame that a camera captured and an encoder encoded, both at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoFrame {
    /// Number from 0.
    pub number: u64,
    /// Group of frames, from 0.
    pub group: u64,
    /// Encoded size, bytes.
    pub bytes: u32,
    /// Time of capture.
    pub captured: Instant,
    /// Whether the frame can only be decoded after the frame before it.
    pub is_predicted: bool,
}

crate::choice! {
    /// Times at which the parts of a frame are sent.
    pub enum FrameSpacing {
        /// All at the capture of the frame.
        AtOnce = "at-once",
        /// Spread evenly over the time to the next frame.
        Paced = "paced",
    }
}

crate::params! {
    /// Parameters of the fixed source.
    pub struct FixedParams {
        /// Frames per second.
        frame_rate: u32 = 30, unit "frames/s", range 1_u32, 1_000_u32, source "draft-huitema-ccwg-c4-test-02";
        /// Frames of a group, the intra frame included.
        group: u32 = 30, unit "frames", range 1_u32, 1_000_000_u32, source "draft-huitema-ccwg-c4-test-02";
        /// Size of the first frame of a group.
        intra: u32 = 37_500, unit "bytes", range 1_u32, 100_000_000_u32, source "draft-huitema-ccwg-c4-test-02, smaller stream";
        /// Size of the others.
        predicted: u32 = 3_750, unit "bytes", range 1_u32, 100_000_000_u32, source "draft-huitema-ccwg-c4-test-02, smaller stream";
    }
}

/// Source of frames of constant sizes.
#[derive(Clone, Debug)]
pub struct FixedSource {
    params: FixedParams,
    started: Instant,
    next: u64,
}

impl FixedSource {
    /// A source whose first frame is captured at `start`.
    pub fn new(params: FixedParams, start: Instant) -> FixedSource {
        FixedSource { params, started: start, next: 0 }
    }

    /// Captures the next frame at `now`, and the others after it.
    pub fn restart(&mut self, now: Instant) {
        (self.started, self.next) = (now, 0);
    }

    /// Returns when the next frame is captured. The n-th frame follows the first by n / `frame_rate` exactly, rounded down to the nanosecond.
    pub fn next_capture(&self) -> Instant {
        let elapsed = u128::from(self.next) * 1_000_000_000 / u128::from(self.params.frame_rate);
        self.started.saturating_add(Duration(u64::try_from(elapsed).unwrap_or(u64::MAX)))
    }

    /// Returns the frame that is captured at [`FixedSource::next_capture`].
    pub fn capture(&mut self) -> VideoFrame {
        let FixedParams { group, intra, predicted, .. } = self.params;
        let is_predicted = self.next % u64::from(group) != 0;
        let frame = VideoFrame {
            number: self.next,
            group: self.next / u64::from(group),
            bytes: if is_predicted { predicted } else { intra },
            captured: self.next_capture(),
            is_predicted,
        };
        self.next += 1;
        frame
    }
}

crate::params! {
    /// Parameters of the statistical source.
    pub struct StatisticalParams {
        /// Target rate until a congestion control requests another (R_v).
        target: Rate = Rate(1_000_000), unit "", range Rate(1_000), Rate(1_000_000_000), source "RFC 8593 figure 2, example value";
        /// Frames per second (FPS).
        frame_rate: f64 = 30.0, unit "frames/s", range 1.0, 1_000.0, source "RFC 8593 figure 2, example value";
        /// Least time between two changes of the target that the encoder follows (tau_v).
        reaction: Duration = Duration::from_millis(200), unit "", range Duration::ZERO, Duration::from_secs(10), source "RFC 8593 figure 2, example value";
        /// Frames of a transient, the large one included (K_d).
        burst_frames: u32 = 8, unit "frames", range 2_u32, 1_000_u32, source "RFC 8593 figure 2, example value";
        /// Size of the large frame that begins a transient (K_B).
        burst_size: u32 = 13_500, unit "bytes", range 1_u32, 100_000_000_u32, source "RFC 8593 figure 2, example value: 720p, 30 frames per second, H.264";
        /// Scale of the Laplacian distribution of (t - t0) / t0, the deviation of intervals (SCALE_t).
        interval_scale: f64 = 0.15, unit "", range 0.0, 1.0, source "RFC 8593 figure 2, example value";
        /// Scale of the Laplacian distribution of (B - B0) / B0, the deviation of sizes (SCALE_B).
        size_scale: f64 = 0.15, unit "", range 0.0, 1.0, source "RFC 8593 figure 2, example value";
        /// Lowest rate of the encoder (R_min).
        least: Rate = Rate(150_000), unit "", range Rate(1_000), Rate(1_000_000_000), source "RFC 8593 figure 2, example value";
        /// Highest rate of the encoder (R_max).
        most: Rate = Rate(1_500_000), unit "", range Rate(1_000), Rate(1_000_000_000), source "RFC 8593 figure 2, example value";
        /// Relative change of the target from which on a transient begins. The RFC says "abrupt changes" without a number.
        abrupt: f64 = 0.5, unit "", range 0.0, 1_000.0, source "cisco/syncodecs, the authors' implementation: big change ratio of its statistical codec";
        /// Least size of a frame of a transient, relative to B0. It takes effect where the large frame alone exceeds what the target has room for, below 0.51 Mbit/s with the other
        /// defaults: the mean rate of the transient is above the target then. The RFC has no rule for this.
        transient_floor: f64 = 0.2, unit "", range 0.0, 1.0, source "cisco/syncodecs, the authors' implementation";
    }
}

/// The encoder of RFC 8593, section 5.
#[derive(Clone, Debug)]
pub struct StatisticalSource {
    params: StatisticalParams,
    rng: Rng,
    /// Rate that the encoder has now, bit/s.
    rate: f64,
    /// Requests are ignored until then.
    ignores_until: Instant,
    /// Frames of the transient that are still to come.
    transient: u32,
    next_capture: Instant,
    number: u64,
}

impl StatisticalSource {
    /// A source whose first frame is captured at `start`. It begins with a transient: its first frame is large.
    pub fn new(params: StatisticalParams, start: Instant, rng: Rng) -> StatisticalSource {
        let transient = params.burst_frames;
        let mut source =
            StatisticalSource { rng, rate: 0.0, ignores_until: Instant::ZERO, transient, next_capture: start, number: 0, params };
        source.rate = source.clip(source.params.target);
        source
    }

    /// Captures the next frame at `now` instead of the time that it was planned for.
    pub fn restart(&mut self, now: Instant) {
        self.next_capture = now;
    }

    /// Returns when the next frame is captured.
    pub fn next_capture(&self) -> Instant {
        self.next_capture
    }

    /// Rate of the encoder: the last target that it followed.
    pub fn rate(&self) -> Rate {
        Rate(self.rate as u64)
    }

    /// A congestion control requests `target`. The encoder ignores the request if its last change is less than `reaction` ago. Returns whether the encoder follows.
    pub fn request(&mut self, target: Rate, now: Instant) -> bool {
        let target = self.clip(target);
        if now < self.ignores_until || target == self.rate {
            return false;
        }
        if (target - self.rate).abs() > self.params.abrupt * self.rate {
            self.transient = self.params.burst_frames;
        }
        self.rate = target;
        self.ignores_until = now.saturating_add(self.params.reaction);
        true
    }

    /// Returns the frame that is captured at [`StatisticalSource::next_capture`].
    pub fn capture(&mut self) -> VideoFrame {
        let StatisticalParams { frame_rate, burst_frames, burst_size, interval_scale, size_scale, transient_floor, .. } =
            self.params;
        let mean = self.rate / 8.0 / frame_rate;
        let mut size = mean;
        if self.transient == burst_frames {
            size = f64::from(burst_size);
        } else if self.transient > 0 {
            // the mean of all frames of the transient is B0
            let rest = f64::from(burst_frames) * mean - f64::from(burst_size);
            size = (rest / f64::from(burst_frames - 1)).max(transient_floor * mean);
        }
        self.transient = self.transient.saturating_sub(1);
        let bytes = (size * (1.0 + self.draw_laplacian(size_scale))).max(1.0) as u32;
        let captured = self.next_capture;
        // a deviation below -1, with a probability of 0.0006, means at once
        let interval = (1.0 + self.draw_laplacian(interval_scale)).max(0.0) / frame_rate;
        self.next_capture = captured.saturating_add(Duration((interval * 1e9) as u64));
        let frame = VideoFrame { number: self.number, group: self.number, bytes, captured, is_predicted: false };
        self.number += 1;
        frame
    }

    fn clip(&self, target: Rate) -> f64 {
        let StatisticalParams { least, most, .. } = self.params;
        target.bits().min(most.bits()).max(least.bits()) as f64
    }

    /// Draws from the Laplacian distribution with mean 0: the mean of its absolute value is `scale`.
    fn draw_laplacian(&mut self, scale: f64) -> f64 {
        let u = self.rng.next_f64() - 0.5;
        // from 2^-53 on, so that the logarithm is finite
        let magnitude = -scale * real::ln((1.0 - 2.0 * u.abs()).max(f64::EPSILON / 2.0));
        magnitude.copysign(u)
    }
}

/// A part of a frame that fits a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePart {
    /// Number of the frame.
    pub frame: u64,
    /// Payload, bytes.
    pub bytes: u16,
}

/// The sender's frames that are not sent yet: an encoder puts frames in, a pacer or a transport takes parts of them.
#[derive(Clone, Debug, Default)]
pub struct UnsentFrames {
    frames: VecDeque<VideoFrame>,
    /// Bytes of the first frame that were taken.
    taken: u32,
    bytes: u64,
    patience: Option<Duration>,
    /// Group of which nothing more is sent.
    cancelled: Option<u64>,
    cancelled_groups: u64,
    cancelled_frames: u64,
}

impl UnsentFrames {
    /// An empty queue. If a frame is not sent completely within `patience` after its capture, the rest of it and of its group is cancelled: the second stream of the tests for C4, with 250 ms.
    pub fn new(patience: Option<Duration>) -> UnsentFrames {
        UnsentFrames { patience, ..UnsentFrames::default() }
    }

    /// Adds a frame.
    pub fn push(&mut self, frame: VideoFrame) {
        if self.cancelled == Some(frame.group) {
            self.cancelled_frames += 1;
            return;
        }
        self.bytes += u64::from(frame.bytes);
        self.frames.push_back(frame);
    }

    /// Takes up to `most` bytes of the first frame.
    pub fn take(&mut self, most: u16, now: Instant) -> Option<FramePart> {
        self.cancel_late_groups(now);
        let first = self.frames.front()?;
        let left = first.bytes - self.taken;
        let part = FramePart { frame: first.number, bytes: u16::try_from(left).unwrap_or(u16::MAX).min(most) };
        if u32::from(part.bytes) == left {
            self.frames.pop_front();
            self.taken = 0;
        } else {
            self.taken += u32::from(part.bytes);
        }
        self.bytes -= u64::from(part.bytes);
        Some(part)
    }

    /// Bytes in the queue.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Groups of which a frame was cancelled.
    pub fn cancelled_groups(&self) -> u64 {
        self.cancelled_groups
    }

    /// Frames that were cancelled, whole or in part.
    pub fn cancelled_frames(&self) -> u64 {
        self.cancelled_frames
    }

    fn cancel_late_groups(&mut self, now: Instant) {
        let Some(patience) = self.patience else { return };
        while let Some(&first) = self.frames.front() {
            if now.saturating_since(first.captured) <= patience {
                return;
            }
            while self.frames.front().is_some_and(|frame| frame.group == first.group) {
                self.bytes -= self.frames.pop_front().map_or(0, |frame| u64::from(frame.bytes - self.taken));
                self.taken = 0;
                self.cancelled_frames += 1;
            }
            self.cancelled = Some(first.group);
            self.cancelled_groups += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn instant(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    // ---- sources

    #[test]
    fn a_group_of_the_fixed_source_has_one_large_frame() {
        let mut source = FixedSource::new(FixedParams::default(), instant(1_000));
        let frames: Vec<VideoFrame> = (0..60).map(|_| source.capture()).collect();
        // 37,500 + 29 * 3,750 = 146,250 B per second: 1.17 Mbit/s
        assert_eq!(frames[..30].iter().map(|frame| frame.bytes).sum::<u32>(), 146_250);
        assert!((0..60).all(|n| frames[n].is_predicted == (n % 30 != 0) && frames[n].group == n as u64 / 30));
        assert_eq!((frames[30].captured, frames[31].captured), (instant(2_000), Instant(2_033_333_333)));
    }

    fn statistical(set: impl FnOnce(&mut StatisticalParams)) -> StatisticalSource {
        let mut params = StatisticalParams::default();
        set(&mut params);
        StatisticalSource::new(params, Instant::ZERO, Rng::stream(1, "video", 0))
    }

    #[test]
    fn the_parameters_are_those_of_rfc_8593() {
        let params = StatisticalParams::default();
        assert_eq!((params.target, params.frame_rate, params.reaction), (Rate(1_000_000), 30.0, ms(200)));
        assert_eq!((params.burst_frames, params.burst_size), (8, 13_500));
        assert_eq!((params.interval_scale, params.size_scale), (0.15, 0.15));
        assert_eq!((params.least, params.most), (Rate(150_000), Rate(1_500_000)));
    }

    #[test]
    fn intervals_and_sizes_deviate_as_laplace_says() {
        let mut source = statistical(|_| ());
        (0..8).for_each(|_| {
            source.capture();
        });
        let begin = source.next_capture();
        let frames: Vec<VideoFrame> = (0..100_000).map(|_| source.capture()).collect();
        // t0 = 33.3 ms and B0 = 4.17 kB; a standard deviation of 0.15 * sqrt(2) = 0.21 makes means of 100,000 exact to 0.0007
        let mean_interval = (source.next_capture() - begin).as_secs_f64() / 1e5;
        assert!((mean_interval * 30.0 - 1.0).abs() < 0.003, "{mean_interval}");
        let mean_size = frames.iter().map(|frame| f64::from(frame.bytes)).sum::<f64>() / 1e5;
        assert!((mean_size / 4_166.7 - 1.0).abs() < 0.003, "{mean_size}");
        // the mean of the absolute deviation is the scale; half of all deviations are below 0.15 ln 2 = 0.104
        let deviations: Vec<f64> = frames.iter().map(|frame| (f64::from(frame.bytes) / 4_166.7 - 1.0).abs()).collect();
        assert!((deviations.iter().sum::<f64>() / 1e5 - 0.15).abs() < 0.002);
        let below = deviations.iter().filter(|deviation| **deviation < 0.104).count() as f64 / 1e5;
        assert!((below - 0.5).abs() < 0.01, "{below}");
        let intervals = frames.windows(2).map(|two| ((two[1].captured - two[0].captured).as_secs_f64() * 30.0 - 1.0).abs());
        assert!((intervals.sum::<f64>() / 1e5 - 0.15).abs() < 0.002);
    }

    #[test]
    fn a_transient_begins_with_a_large_frame_and_keeps_the_mean() {
        let mut source = statistical(|params| (params.size_scale, params.interval_scale) = (0.0, 0.0));
        let sizes: Vec<u32> = (0..10).map(|_| source.capture().bytes).collect();
        // (8 * 4166.7 - 13,500) / 7 = 2833.3 seven times, then 4166.7
        assert_eq!(sizes, [[13_500, 2_833, 2_833, 2_833, 2_833].as_slice(), &[2_833, 2_833, 2_833, 4_166, 4_166]].concat());
        // from 1 Mbit/s to 1.5 is no more than half: no transient. 1.5 Mbit/s / 8 / 30 = 6250 B
        assert!(source.request(Rate(1_500_000), instant(400)));
        assert_eq!(source.capture().bytes, 6_250);
        // to 150 kbit/s, 625 B: 8 of them have no room for the large frame, so the others are 0.2 of them
        assert!(source.request(Rate(10_000), instant(600)));
        assert_eq!((source.rate(), source.capture().bytes, source.capture().bytes), (Rate(150_000), 13_500, 125));
    }

    #[test]
    fn the_encoder_ignores_requests_until_its_reaction_time_has_passed() {
        let mut source = statistical(|_| ());
        assert!(source.request(Rate(500_000), instant(100)));
        assert!(!source.request(Rate(600_000), instant(299)));
        assert_eq!(source.rate(), Rate(500_000));
        assert!(source.request(Rate(9_000_000), instant(300)));
        assert_eq!(source.rate(), Rate(1_500_000));
        // a request without a change does not restart the time
        assert!(!source.request(Rate(1_500_000), instant(500)) && source.request(Rate(1_000_000), instant(501)));
    }

    // ---- the sender's queue

    fn frame(number: u64, group: u64, bytes: u32, captured: Instant) -> VideoFrame {
        VideoFrame { number, group, bytes, captured, is_predicted: number % 3 != 0 }
    }

    #[test]
    fn a_group_is_cancelled_once_a_frame_of_it_waits_too_long() {
        let mut queue = UnsentFrames::new(Some(ms(250)));
        (0..6).for_each(|n| queue.push(frame(n, n / 3, 1_500, instant(100 * n))));
        assert_eq!(queue.bytes(), 9_000);
        let part = |frame, bytes| Some(FramePart { frame, bytes });
        assert_eq!(
            (queue.take(1_000, instant(0)), queue.take(1_000, instant(250)), queue.bytes()),
            (part(0, 1_000), part(0, 500), 7_500)
        );
        // frame 1, captured at 100 ms, is 251 ms old: the group ends, and its late frame too
        assert_eq!(queue.take(1_000, instant(351)), part(3, 1_000));
        assert_eq!((queue.cancelled_groups(), queue.cancelled_frames(), queue.bytes()), (1, 2, 3_500));
        // the rest of frame 3 is cancelled with its group, and so are later frames of it
        assert_eq!(queue.take(1_000, instant(551)), None);
        queue.push(VideoFrame { group: 1, ..frame(6, 1, 1_500, instant(600)) });
        queue.push(frame(7, 2, 400, instant(700)));
        assert_eq!((queue.cancelled_groups(), queue.cancelled_frames()), (2, 6));
        assert_eq!((queue.take(1_000, instant(700)), queue.take(1_000, instant(700)), queue.bytes()), (part(7, 400), None, 0));
        // without patience everything is sent
        let mut patient = UnsentFrames::new(None);
        patient.push(frame(0, 0, 100, instant(0)));
        assert_eq!(patient.take(1_000, instant(1_000_000)), part(0, 100));
    }
}
