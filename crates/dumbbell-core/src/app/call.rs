//! A call: frames of audio at equal distances, both ways, whatever the net does to them. Each receiver has a playout buffer, and the E-model rates what it plays.

use super::measure::{Measure, MeasureKind, FRAMES_LATE, FRAMES_LOST, LATE_SHARE};
use super::{AnyApp, AppContext, AppKind};
use crate::media::e_model::{rate_call, RatedCodec};
use crate::media::playout::{self, PlayoutBuffer, PlayoutFate, PlayoutMode};
use crate::packet::{Ecn, UDP_HEADERS};
use crate::params;
use crate::protocol::PacketFate;
use crate::protocol::{Answer, Datagram, DatagramOutlet, Protocol};
use crate::traffic::Codepoint;
use crate::units::{Duration, Instant};

/// Name in configurations.
pub const NAME: &str = "call";
/// Title of the application.
pub const TITLE: &str = "An audio call, frames of equal size at equal distances both ways";
/// Where it comes from.
pub const SOURCE: &str =
    "test specifications of C4 (github.com/private-octopus/c4, sim_specs), audio: 80 B each 20 ms; RFC 3550, RFC 3551; rated by ITU-T G.107";
/// Kind of its traffic.
pub const KIND: AppKind = AppKind::Datagrams;

/// Bytes of the RTP header. RFC 3550, section 5.1.
const RTP_HEADER: u16 = 12;

params! {
    /// Parameters of a call.
    pub struct Params {
        /// Audio in a frame; 12 B of RTP and 42 B of UDP, IP and Ethernet are added.
        payload: u16 = 80, unit "bytes", range 1_u16, 1_400_u16, source "C4, sim_specs: datagrams of 80 B";
        /// Time between two frames.
        interval: Duration = Duration::from_millis(20), unit "", range Duration::from_millis(1), Duration::from_secs(10), source "C4, sim_specs: 50 datagrams a second; RFC 3551 section 4.2: 20 ms by default";
        /// A fixed buffer plays each frame this long after it was sent. A frame that takes longer one way, or is lost, comes too late to be played.
        playout: Duration = Duration::from_millis(150), unit "", range Duration(0), Duration::from_secs(60), source "ITU-T G.114: up to 150 ms one way, most applications are not affected";
        /// Kind of the playout buffer. An adaptive one follows the delays: it plays a frame when 95 % of the frames of the last 2 s would have come, and 10 ms later.
        buffer: PlayoutMode = PlayoutMode::Fixed, unit "", source "the default is ours";
        /// Codec whose values mos is computed with. Payload and interval do not follow from it.
        codec: RatedCodec = RatedCodec::G711Concealed, unit "", source "ITU-T G.113 (11/2007) appendix I; the default is ours";
        /// ECN field of the frames.
        marking: Codepoint = Codepoint::NotEct, unit "", source "RFC 3168 section 5";
    }
}

/// Measures of each way, in addition to the delays and losses of its packets.
pub static MEASURES: [Measure; 6] = [
    LATE_SHARE,
    FRAMES_LATE,
    FRAMES_LOST,
    Measure {
        name: "buffer_ms",
        unit: "ms",
        label: "wait in the playout buffer, mean",
        doc: &["Mean time that frames of a call waited in the playout buffer, of those that were played."],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "mouth_to_ear_ms",
        unit: "ms",
        label: "delay from mouth to ear, mean",
        doc: &[
            "Mean time from the first sound of a frame until it was played, of the frames that were: one interval, the delay of the frame, and its wait in the playout buffer.",
            "The look-ahead of the codec and the devices at both ends would be added.",
        ],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "mos",
        unit: "",
        label: "MOS of the call",
        doc: &[
            "Mean opinion score of the call this way, 1 to 4.5, by the E-model (ITU-T G.107) from the mean delay from mouth to ear, the share of frames that were late or lost, and the length of their runs, with the values of codec and default values for all else.",
            "From 4.34 on, users are very satisfied; below 3.1, nearly all are dissatisfied (G.107, annex B).",
            "Beyond delays of 500 ms and losses of 20 % the model is extrapolated. 1 if no frame was played.",
        ],
        kind: MeasureKind::Real,
    },
];

/// Both ends of one way of a call.
#[derive(Clone)]
struct AudioStream {
    interval: Duration,
    length: u16,
    ecn: Ecn,
    codec: RatedCodec,
    started: Instant,
    sent: u64,
    next: Instant,
    buffer: PlayoutBuffer,
    /// The first frame that counts, and the frames that came late since it was sent.
    first: u64,
    late: u64,
}

/// Length of a frame with all headers, bytes.
pub fn largest_frame(params: &Params) -> u16 {
    params.payload + RTP_HEADER + UDP_HEADERS
}

/// Builds both ways of the call of a user.
pub fn build(params: &Params, _context: &AppContext) -> AnyApp {
    let buffer = playout::Params { mode: params.buffer, delay: params.playout, ..playout::Params::default() };
    let stream = || -> Box<dyn Protocol> {
        Box::new(AudioStream {
            interval: params.interval,
            length: largest_frame(params),
            ecn: params.marking.into(),
            codec: params.codec,
            started: Instant::ZERO,
            sent: 0,
            next: Instant::NEVER,
            buffer: PlayoutBuffer::new(buffer.clone()),
            first: 0,
            late: 0,
        })
    };
    AnyApp::Datagrams([stream(), stream()])
}

impl Protocol for AudioStream {
    crate::fork_by_clone!(dyn Protocol);

    fn start(&mut self, now: Instant) {
        (self.started, self.next) = (now, now);
    }

    fn stop(&mut self, _now: Instant) {
        self.next = Instant::NEVER;
    }

    fn next_timer(&self) -> Instant {
        self.next
    }

    fn on_timer(&mut self, _now: Instant, net: &mut dyn DatagramOutlet) {
        net.send(Datagram { number: self.sent, length: self.length, ecn: self.ecn });
        self.sent += 1;
        self.next = self.next.saturating_add(self.interval);
    }

    fn on_datagram(&mut self, _datagram: &Datagram, _now: Instant) -> Option<Answer> {
        None
    }

    fn on_answer(&mut self, _answer: &Answer, _rtt: Duration, _now: Instant) {}

    fn on_delay(&mut self, datagram: &Datagram, delay: Duration, _now: Instant) {
        let sent = self.started.saturating_add(Duration(self.interval.0.saturating_mul(datagram.number)));
        let fate = self.buffer.receive(datagram.number, sent, sent.saturating_add(delay));
        self.late += u64::from(!matches!(fate, PlayoutFate::Played(_)));
    }

    fn forget(&mut self, _now: Instant) {
        (self.first, self.late) = (self.sent, 0);
        self.buffer.forget_before(self.first);
    }

    fn figures(&self, fate: PacketFate, _now: Instant) -> Vec<f64> {
        let late_share = (self.late + fate.lost) as f64 / fate.known as f64;
        let counts = self.buffer.counts();
        let of_played = |time: Duration| if counts.played > 0 { time.as_secs_f64() * 1e3 } else { f64::NAN };
        let mouth_to_ear = self.interval.saturating_add(counts.compute_delay());
        let losses = self.buffer.count_losses(fate.known.min(self.sent - self.first));
        let mos = match (losses.packets, counts.played) {
            (0, _) => f64::NAN,
            (_, 0) => 1.0,
            _ => rate_call(self.codec.values(), mouth_to_ear, &losses).mos,
        };
        let (waited, heard) = (of_played(counts.compute_added_delay()), of_played(mouth_to_ear));
        vec![late_share, self.late as f64, fate.lost as f64, waited, heard, mos]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sent(Vec<Datagram>);

    impl DatagramOutlet for Sent {
        fn send(&mut self, datagram: Datagram) {
            self.0.push(datagram);
        }
    }

    fn ways(params: &Params) -> [Box<dyn Protocol>; 2] {
        let AnyApp::Datagrams(ways) = build(params, &AppContext { seed: 1, number: 0 }) else {
            panic!("a call is made of datagrams")
        };
        ways
    }

    /// Plays a call whose frames take these times, ms, `None` if they are lost. Returns its figures.
    fn play(params: &Params, delays: &[Option<u64>]) -> Vec<f64> {
        let [mut way, _] = ways(params);
        let mut sent = Sent(Vec::new());
        way.start(Instant::from_millis(5));
        let mut lost = 0;
        for delay in delays {
            let now = way.next_timer();
            way.on_timer(now, &mut sent);
            match delay {
                // the receiver's clock lacks the propagation
                Some(ms) => way.on_delay(&sent.0[sent.0.len() - 1], Duration::from_millis(*ms), now),
                None => lost += 1,
            }
        }
        way.figures(PacketFate { lost, known: delays.len() as u64 }, Instant::from_secs(9))
    }

    #[test]
    fn frames_are_as_far_apart_as_asked_for_and_stop_when_asked_to() {
        let params = Params { interval: Duration::from_millis(20), ..Params::default() };
        let [mut down, up] = ways(&params);
        assert_eq!(up.next_timer(), Instant::NEVER);
        let mut sent = Sent(Vec::new());
        down.start(Instant::from_millis(7));
        let mut times = Vec::new();
        while down.next_timer() < Instant::from_millis(70) {
            let now = down.next_timer();
            times.push(now);
            down.on_timer(now, &mut sent);
        }
        assert_eq!(times, [7, 27, 47, 67].map(Instant::from_millis));
        // 80 B, 12 B of RTP, 8 B of UDP, 20 B of IP, 14 B of Ethernet
        assert!(sent.0.iter().map(|one| (one.number, one.length)).eq([(0, 134), (1, 134), (2, 134), (3, 134)]));
        down.stop(Instant::from_millis(70));
        assert_eq!(down.next_timer(), Instant::NEVER);
    }

    #[test]
    fn a_call_is_rated_by_what_its_buffer_plays() {
        let perfect = play(&Params::default(), &[Some(30); 100]);
        // 20 ms of sound, and playing 150 ms after it was sent; the wait is 120 ms
        assert_eq!(perfect[..5], [0.0, 0.0, 0.0, 120.0, 170.0]);
        // one frame late and one lost among 100: 2 % of losses, in two runs
        let mut delays = [Some(30); 100];
        (delays[10], delays[50]) = (Some(151), None);
        let worse = play(&Params::default(), &delays);
        assert_eq!(worse[..5], [0.02, 1.0, 1.0, 120.0, 170.0]);
        let runs = crate::media::playout::LossRuns { packets: 100, lost: 2, runs: 2 };
        let expected = rate_call(RatedCodec::G711Concealed.values(), Duration::from_millis(170), &runs).mos;
        assert!(worse[5] == expected && perfect[5] > expected + 0.1, "{worse:?} {perfect:?}");
        // without concealment the same losses cost more
        assert!(play(&Params { codec: RatedCodec::G711, ..Params::default() }, &delays)[5] < expected - 0.5);
    }

    #[test]
    fn an_adaptive_buffer_waits_for_what_the_net_does() {
        let adaptive = Params { buffer: PlayoutMode::Adaptive, ..Params::default() };
        let slow = play(&adaptive, &[Some(300); 200]);
        // nothing varies: all frames wait for 10 ms; a fixed buffer of 150 ms plays none
        assert_eq!(slow[..5], [0.0, 0.0, 0.0, 10.0, 330.0]);
        assert!((2.5..3.7).contains(&slow[5]), "{slow:?}");
        let fixed = play(&Params::default(), &[Some(300); 200]);
        assert!(fixed[0] == 1.0 && fixed[3].is_nan() && fixed[4].is_nan() && fixed[5] == 1.0, "{fixed:?}");
    }

    #[test]
    fn a_buffer_without_delay_plays_nothing_and_scores_1() {
        let figures = play(&Params { playout: Duration::ZERO, ..Params::default() }, &[Some(30); 100]);
        assert!(figures[..3] == [1.0, 100.0, 0.0] && figures[5] == 1.0, "{figures:?}");
    }

    #[test]
    fn nothing_is_known_of_a_call_without_frames_and_frames_before_the_measured_time_do_not_count() {
        assert!(play(&Params::default(), &[]).iter().skip(3).all(|figure| figure.is_nan()));
        let [mut way, _] = ways(&Params::default());
        let mut sent = Sent(Vec::new());
        way.start(Instant::ZERO);
        for number in 0..10 {
            way.on_timer(Instant::from_millis(20 * number), &mut sent);
        }
        // the first five come late, and those of the measured time in time
        (0..5).for_each(|n| way.on_delay(&sent.0[n], Duration::from_millis(400), Instant::ZERO));
        way.forget(Instant::from_millis(200));
        for number in 10..20 {
            way.on_timer(Instant::from_millis(20 * number), &mut sent);
            way.on_delay(&sent.0[number as usize], Duration::from_millis(40), Instant::ZERO);
        }
        let figures = way.figures(PacketFate { lost: 0, known: 10 }, Instant::from_secs(1));
        assert!(figures[..5] == [0.0, 0.0, 0.0, 110.0, 170.0] && figures[5] > 4.0, "{figures:?}");
    }
}
