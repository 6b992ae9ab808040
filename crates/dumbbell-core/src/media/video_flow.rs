//! Both ends of a video over datagrams: an encoder, the sender's queue of frames, a congestion control or none, and a viewer.

use super::control::{MediaArrival, MediaControl, MediaPacket};
use super::video::{FixedSource, FramePart, FrameSpacing, StatisticalSource, UnsentFrames, VideoFrame};
use super::viewer::{VideoQuality, Viewer, ViewerParams};
use crate::fork::{CannotFork, Fork, SharedCopies};
use crate::packet::{Ecn, UDP_HEADERS};
use crate::protocol::{Answer, AnswerOutlet, Datagram, DatagramOutlet, PacketFate, Protocol};
use crate::units::{Duration, Instant, Rate};
use std::collections::VecDeque;

/// Bytes of the RTP header. RFC 3550, section 5.1.
const RTP_HEADER: u16 = 12;
/// Bytes of all headers of a datagram.
pub const HEADERS: u16 = RTP_HEADER + UDP_HEADERS;
/// No packet is under way for longer: what is older was lost.
const LONGEST_WAY: Duration = Duration::from_secs(60);

/// An encoder.
#[derive(Clone, Debug)]
pub enum VideoSource {
    /// Frames of constant sizes.
    Fixed(FixedSource),
    /// The model of RFC 8593.
    Statistical(StatisticalSource),
}

impl VideoSource {
    fn restart(&mut self, now: Instant) {
        match self {
            VideoSource::Fixed(source) => source.restart(now),
            VideoSource::Statistical(source) => source.restart(now),
        }
    }

    fn next_capture(&self) -> Instant {
        match self {
            VideoSource::Fixed(source) => source.next_capture(),
            VideoSource::Statistical(source) => source.next_capture(),
        }
    }

    fn capture(&mut self) -> VideoFrame {
        match self {
            VideoSource::Fixed(source) => source.capture(),
            VideoSource::Statistical(source) => source.capture(),
        }
    }

    /// A congestion control requests a rate. Frames of constant sizes stay as they are.
    fn request(&mut self, rate: Rate, now: Instant) {
        if let VideoSource::Statistical(source) = self {
            source.request(rate, now);
        }
    }
}

/// How a video is sent and seen.
#[derive(Clone, Debug)]
pub struct VideoOptions {
    /// Most bytes of a frame in a packet, 1 or more.
    pub payload: u16,
    /// Times at which the packets of a frame are sent, without a congestion control.
    pub spacing: FrameSpacing,
    /// A group of frames is cancelled whose first unsent frame waits for longer.
    pub cancel: Option<Duration>,
    /// ECN field of the packets.
    pub ecn: Ecn,
    /// The viewer.
    pub viewer: ViewerParams,
}

/// A packet that was sent, and whether it may still arrive.
#[derive(Clone, Copy, Debug)]
struct SentPacket {
    sent: Instant,
    part: FramePart,
    is_under_way: bool,
}

/// A video, both ends of it.
pub struct VideoFlow {
    source: VideoSource,
    control: Option<Box<dyn MediaControl>>,
    options: VideoOptions,
    unsent: UnsentFrames,
    /// Time between packets of the last frame, without a congestion control.
    gap: Duration,
    next_send: Instant,
    is_active: bool,
    stopped: Option<Instant>,
    /// Packets from number `first` on.
    in_flight: VecDeque<SentPacket>,
    first: u64,
    /// Delay of the packet that arrives.
    delay: Duration,
    next_report: Instant,
    viewer: Viewer,
    /// Since when frames count, bytes of frames that were captured since then, and groups that were cancelled before.
    counts_from: Instant,
    captured: u64,
    cancelled_before: u64,
}

impl VideoFlow {
    /// A video that has not started.
    pub fn new(source: VideoSource, control: Option<Box<dyn MediaControl>>, options: VideoOptions) -> VideoFlow {
        VideoFlow {
            source,
            control,
            unsent: UnsentFrames::new(options.cancel),
            viewer: Viewer::new(options.viewer.clone()),
            options,
            gap: Duration::ZERO,
            next_send: Instant::ZERO,
            is_active: false,
            stopped: None,
            in_flight: VecDeque::new(),
            first: 0,
            delay: Duration::ZERO,
            next_report: Instant::NEVER,
            counts_from: Instant::ZERO,
            captured: 0,
            cancelled_before: 0,
        }
    }

    /// Returns what the viewer sees until `now`.
    pub fn assess(&self, now: Instant) -> VideoQuality {
        self.viewer.assess(self.stopped.map_or(now, |stopped| stopped.min(now)))
    }

    /// Whether a packet waits that the congestion control lets go.
    fn can_send(&self) -> bool {
        let waiting = self.unsent.bytes().min(u64::from(self.options.payload)) as u32;
        waiting > 0 && self.control.as_ref().is_none_or(|control| control.may_send(waiting))
    }

    fn capture(&mut self, now: Instant) {
        if let Some(control) = &self.control {
            self.source.request(control.encoder_rate(self.unsent.bytes()), now);
        }
        let frame = self.source.capture();
        self.viewer.expect(&frame);
        self.captured += u64::from(frame.bytes);
        if self.control.is_none() {
            let parts = u64::from(frame.bytes.div_ceil(u32::from(self.options.payload))).max(1);
            self.gap = match self.options.spacing {
                FrameSpacing::AtOnce => Duration::ZERO,
                FrameSpacing::Paced => (self.source.next_capture() - frame.captured) / parts,
            };
            if self.unsent.bytes() == 0 {
                self.next_send = now;
            }
        }
        self.unsent.push(frame);
    }

    fn send(&mut self, now: Instant, net: &mut dyn DatagramOutlet) {
        let rate = self.control.as_ref().map(|control| control.pacing_rate(self.unsent.bytes()));
        let Some(part) = self.unsent.take(self.options.payload, now) else { return };
        while self.in_flight.front().is_some_and(|old| !old.is_under_way || now.saturating_since(old.sent) > LONGEST_WAY) {
            self.in_flight.pop_front();
            self.first += 1;
        }
        let number = self.first + self.in_flight.len() as u64;
        self.in_flight.push_back(SentPacket { sent: now, part, is_under_way: true });
        net.send(Datagram { number, length: part.bytes + HEADERS, ecn: self.options.ecn });
        let gap = rate.map_or(self.gap, |rate| rate.serialise(u64::from(part.bytes)));
        self.next_send = now.saturating_add(gap);
        if let Some(control) = &mut self.control {
            control.on_send(&MediaPacket { number, bytes: u32::from(part.bytes), sent: now });
        }
    }
}

crate::fork_fields! {
    VideoFlow {
        control;
        source, options, unsent, gap, next_send, is_active, stopped, in_flight, first, delay, next_report, viewer, counts_from,
        captured, cancelled_before
    }
}

impl Protocol for VideoFlow {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Box<dyn Protocol>, CannotFork> {
        Ok(Box::new(Fork::fork(self, shared)?))
    }

    fn start(&mut self, now: Instant) {
        self.is_active = true;
        self.counts_from = now;
        self.source.restart(now);
        if let Some(control) = &mut self.control {
            control.start(now);
        }
    }

    fn stop(&mut self, now: Instant) {
        self.is_active = false;
        self.stopped = Some(now);
        self.next_report = Instant::NEVER;
    }

    fn next_timer(&self) -> Instant {
        if !self.is_active {
            return Instant::NEVER;
        }
        let next_send = if self.can_send() { self.next_send } else { Instant::NEVER };
        let control = self.control.as_ref().map_or(Instant::NEVER, |control| control.next_timer());
        next_send.min(self.source.next_capture()).min(control)
    }

    fn on_timer(&mut self, now: Instant, net: &mut dyn DatagramOutlet) {
        if let Some(control) = self.control.as_mut().filter(|control| control.next_timer() <= now) {
            control.on_timer(now);
        }
        if self.source.next_capture() <= now {
            self.capture(now);
        }
        if self.next_send <= now && self.can_send() {
            self.send(now, net);
        }
    }

    fn on_delay(&mut self, _datagram: &Datagram, delay: Duration, _now: Instant) {
        self.delay = delay;
    }

    fn on_datagram(&mut self, datagram: &Datagram, now: Instant) -> Option<Answer> {
        let place = datagram.number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok())?;
        let known = self.in_flight.get_mut(place).filter(|one| one.is_under_way)?;
        known.is_under_way = false;
        let SentPacket { sent, part, .. } = *known;
        self.viewer.receive(part, sent.saturating_add(self.delay));
        if let Some(control) = &mut self.control {
            let packet = MediaPacket { number: datagram.number, bytes: u32::from(part.bytes), sent };
            control.on_arrival(&MediaArrival { packet, delay: self.delay, at: now, ecn: datagram.ecn });
            if self.next_report == Instant::NEVER && self.is_active {
                self.next_report = now.saturating_add(control.report_interval());
            }
        }
        None
    }

    fn receiver_timer(&self) -> Instant {
        self.next_report
    }

    fn on_receiver_timer(&mut self, now: Instant, back: &mut dyn AnswerOutlet) {
        let Some(control) = &mut self.control else { return };
        let report = control.report(now);
        back.answer(Answer { value: report.value, length: report.length, ecn: Ecn::NotEct });
        self.next_report = now.saturating_add(control.report_interval());
    }

    fn on_answer(&mut self, answer: &Answer, rtt: Duration, now: Instant) {
        if let Some(control) = &mut self.control {
            control.on_report(answer.value, rtt, now);
        }
    }

    fn forget(&mut self, now: Instant) {
        self.viewer.forget(now);
        (self.counts_from, self.captured, self.cancelled_before) = (now, 0, self.unsent.cancelled_groups());
    }

    /// Share of late and lost frames, late ones, lost ones, freezes, their length in s, cancelled groups, rate of the encoder in Mbit/s, and mean, P95 and maximum of the delay of frames in ms.
    fn figures(&self, _fate: PacketFate, now: Instant) -> Vec<f64> {
        let VideoQuality { delays, late, shown, missing, freezes, frozen } = self.assess(now);
        let seconds = self.stopped.map_or(now, |stopped| stopped.min(now)).saturating_since(self.counts_from).as_secs_f64();
        let of_complete = |ms: f64| if delays.total() > 0 { ms } else { f64::NAN };
        let to_ms = |time: Duration| time.as_secs_f64() * 1e3;
        vec![
            (late + missing) as f64 / (shown + missing) as f64,
            late as f64,
            missing as f64,
            freezes as f64,
            frozen.as_secs_f64(),
            (self.unsent.cancelled_groups() - self.cancelled_before) as f64,
            self.captured as f64 * 8e-6 / seconds,
            of_complete(delays.mean() / 1e6),
            of_complete(to_ms(delays.quantile(0.95))),
            of_complete(to_ms(delays.max())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::nada::{self, Nada};
    use super::super::video::{FixedParams, StatisticalParams};
    use super::*;
    use crate::rng::Rng;

    fn instant(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    #[derive(Default)]
    struct Sent {
        all: Vec<(Instant, Datagram)>,
        now: Instant,
    }

    impl DatagramOutlet for Sent {
        fn send(&mut self, datagram: Datagram) {
            self.all.push((self.now, datagram));
        }
    }

    fn options() -> VideoOptions {
        let viewer = ViewerParams::default();
        VideoOptions { payload: 1_200, spacing: FrameSpacing::AtOnce, cancel: None, ecn: Ecn::NotEct, viewer }
    }

    fn fixed_source() -> VideoSource {
        VideoSource::Fixed(FixedSource::new(FixedParams::default(), Instant::ZERO))
    }

    /// Runs a sender until `end`.
    fn run(flow: &mut VideoFlow, end: Instant) -> Vec<(Instant, Datagram)> {
        let mut sent = Sent::default();
        while flow.next_timer() < end {
            sent.now = flow.next_timer();
            flow.on_timer(sent.now, &mut sent);
        }
        sent.all
    }

    #[test]
    fn parts_are_sent_at_once_or_over_the_interval() {
        for (spacing, gap) in [(FrameSpacing::AtOnce, 0), (FrameSpacing::Paced, 1_041_666)] {
            let mut flow = VideoFlow::new(fixed_source(), None, VideoOptions { spacing, ..options() });
            assert_eq!(flow.next_timer(), Instant::NEVER);
            flow.start(instant(5));
            let sent = run(&mut flow, Instant(38_333_333));
            // 31 parts of 1,200 B and one of 300 B, each with 54 B of headers; 33,333,333 ns / 32 = 1,041,666 ns
            let expected = (0..32).map(|n| (Instant(5_000_000 + n * gap), n, if n < 31 { 1_254 } else { 354 }));
            assert!(sent.iter().map(|(at, one)| (*at, one.number, one.length)).eq(expected));
            assert_eq!(flow.next_timer(), Instant(38_333_333));
            flow.stop(instant(40));
            assert_eq!((flow.next_timer(), flow.receiver_timer()), (Instant::NEVER, Instant::NEVER));
        }
    }

    #[test]
    fn nada_paces_at_its_sending_rate() {
        let video =
            StatisticalParams { target: Rate(150_000), size_scale: 0.0, interval_scale: 0.0, ..StatisticalParams::default() };
        let source = VideoSource::Statistical(StatisticalSource::new(video, Instant::ZERO, Rng::stream(1, "video", 0)));
        let control: Box<dyn MediaControl> = Box::new(Nada::new(&nada::Params::default()));
        let mut flow = VideoFlow::new(source, Some(control), VideoOptions { payload: 1_000, ecn: Ecn::Ect0, ..options() });
        flow.start(instant(5));
        let sent = run(&mut flow, instant(1_005));
        let (first, datagram) = sent[0];
        // 1,000 B of a frame, 12 B of RTP, 42 B of UDP, IP and Ethernet
        assert_eq!((first, datagram), (instant(5), Datagram { number: 0, length: 1_054, ecn: Ecn::Ect0 }));
        // 150 kbit/s, and 5 % more while the large frame waits: 8,000 bit / 157.5 kbit/s = 50.79 ms
        assert_eq!((sent[1].0 - first).as_micros(), 50_793);
        let bytes: u64 = sent.iter().map(|(_, one)| u64::from(one.length - HEADERS)).sum();
        assert!((18_750..=20_900).contains(&bytes), "{bytes}");
    }

    /// A frame each 100 ms, of 2,400 B in two packets, in groups of two.
    fn two_packets() -> VideoSource {
        let params = FixedParams { frame_rate: 10, group: 2, intra: 2_400, predicted: 2_400 };
        VideoSource::Fixed(FixedSource::new(params, Instant::ZERO))
    }

    /// Delivers `sent` with these delays in ms, 0 for lost packets, and returns the figures at `end` ms.
    fn deliver(flow: &mut VideoFlow, sent: &[(Instant, Datagram)], delays: &[u64], end: u64) -> Vec<f64> {
        let mut arrivals: Vec<(Instant, usize)> =
            (0..sent.len()).map(|n| (sent[n].0 + Duration::from_millis(delays[n]), n)).collect();
        arrivals.sort_unstable();
        for (_, n) in arrivals.into_iter().filter(|&(_, n)| delays[n] > 0) {
            flow.on_delay(&sent[n].1, Duration::from_millis(delays[n]), Instant::ZERO);
            // the receiver's clock is anywhere
            flow.on_datagram(&sent[n].1, Instant::ZERO);
        }
        flow.figures(PacketFate::default(), instant(end))
    }

    #[test]
    fn the_viewer_is_told_of_late_and_lost_frames() {
        let mut flow = VideoFlow::new(two_packets(), None, options());
        flow.start(Instant::ZERO);
        let sent = run(&mut flow, instant(600));
        assert_eq!(sent.len(), 12);
        // frame 1 loses a part; frames 2 and 3 come 300 ms after their capture; 4 and 5 in time, one overtaking the other
        let figures = deliver(&mut flow, &sent, &[10, 20, 20, 0, 300, 300, 300, 300, 150, 160, 30, 40], 1_000);
        // Frame 2 appears at 500 ms without 1. Frame 4, which needs no other, is there at 560 ms, ahead of 3, and appears with 5
        assert_eq!(figures[..3], [3.0 / 6.0, 1.0, 2.0], "{figures:?}");
        // from 20 ms to 500 ms, and from 560 ms to the end
        assert_eq!((figures[3], (figures[4] * 1e3).round()), (2.0, 480.0 + 440.0));
        // 6 * 2,400 B in 1 s
        assert!((figures[6] - 0.1152).abs() < 1e-9 && figures[5] == 0.0);
        // (20 + 300 + 160 + 40) / 4
        assert!((figures[7] - 130.0).abs() < 1e-9 && figures[9] == 300.0, "{figures:?}");
    }

    #[test]
    fn groups_whose_frames_wait_too_long_are_cancelled() {
        /// 80 kbit/s, of which each packet of 1,200 B takes 120 ms.
        struct Slow;

        impl MediaControl for Slow {
            fn encoder_rate(&self, _buffered: u64) -> Rate {
                Rate(80_000)
            }

            fn pacing_rate(&self, _buffered: u64) -> Rate {
                Rate(80_000)
            }

            fn on_arrival(&mut self, _arrival: &MediaArrival) {}

            fn report_interval(&self) -> Duration {
                Duration::from_secs(1)
            }

            fn report(&mut self, _now: Instant) -> super::super::control::MediaReport {
                super::super::control::MediaReport { value: 0, length: 100 }
            }

            fn on_report(&mut self, _value: u64, _rtt: Duration, _now: Instant) {}
        }

        let cancel = Some(Duration::from_millis(250));
        let mut flow = VideoFlow::new(two_packets(), Some(Box::new(Slow)), VideoOptions { cancel, ..options() });
        flow.start(Instant::ZERO);
        let sent = run(&mut flow, instant(1_000));
        // 192 kbit/s are captured and 80 kbit/s sent: a packet each 120 ms
        assert!(sent.iter().map(|(at, _)| at.0 / 1_000_000).eq((0..9).map(|n| 120 * n)), "{sent:?}");
        let delays = vec![10; sent.len()];
        let figures = deliver(&mut flow, &sent, &delays, 1_000);
        // The second packet of frame 1 has waited for 260 ms at 360 ms, that of 2 for 280 ms at 480 ms, of 5 for 340 ms at 840 ms, and of 6 for 360 ms at 960 ms: the
        // rests of their groups, frames 1, 2 and 3, 5, 6 and 7, are cancelled
        assert_eq!((figures[5], flow.unsent.cancelled_frames()), (4.0, 6), "{figures:?}");
        flow.forget(instant(1_000));
        assert_eq!(flow.figures(PacketFate::default(), instant(2_000))[5], 0.0);
    }
}
