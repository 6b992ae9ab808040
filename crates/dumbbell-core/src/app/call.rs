//! A call: frames of audio at equal distances, both ways, whatever the net does to them.

use super::measure::{LateCount, Measure, MeasureKind};
use super::{AnyApp, AppContext, AppKind};
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
    "test specifications of C4 (github.com/private-octopus/c4, sim_specs), audio: 80 B each 20 ms; RFC 3550, RFC 3551";
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
        /// A frame that takes longer than this one way, or is lost, comes too late to be played.
        playout: Duration = Duration::from_millis(150), unit "", range Duration(0), Duration::from_secs(60), source "ITU-T G.114: up to 150 ms one way, most applications are not affected";
        /// ECN field of the frames.
        marking: Codepoint = Codepoint::NotEct, unit "", source "RFC 3168 section 5";
    }
}

/// Measures of each way, in addition to the delays and losses of its packets.
pub const MEASURES: [Measure; 1] = [Measure {
    name: "late_share",
    unit: "",
    label: "share of late or lost frames",
    doc: &["Frames that took longer than playout one way, and frames that were lost, over all whose fate is known."],
    kind: MeasureKind::Real,
}];

/// Both ends of one way of a call.
struct AudioStream {
    interval: Duration,
    length: u16,
    ecn: Ecn,
    sent: u64,
    next: Instant,
    lateness: LateCount,
}

/// Length of a frame with all headers, bytes.
pub fn largest_frame(params: &Params) -> u16 {
    params.payload + RTP_HEADER + UDP_HEADERS
}

/// Builds both ways of the call of a user.
pub fn build(params: &Params, _context: &AppContext) -> AnyApp {
    let stream = || -> Box<dyn Protocol> {
        Box::new(AudioStream {
            interval: params.interval,
            length: largest_frame(params),
            ecn: params.marking.into(),
            sent: 0,
            next: Instant::NEVER,
            lateness: LateCount::new(params.playout),
        })
    };
    AnyApp::Datagrams([stream(), stream()])
}

impl Protocol for AudioStream {
    fn start(&mut self, now: Instant) {
        self.next = now;
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

    fn on_delay(&mut self, _datagram: &Datagram, delay: Duration, _now: Instant) {
        self.lateness.record(delay);
    }

    fn forget(&mut self) {
        self.lateness.forget();
    }

    fn figures(&self, fate: PacketFate) -> Vec<f64> {
        vec![self.lateness.share(fate)]
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

    #[test]
    fn frames_are_as_far_apart_as_asked_for_and_stop_when_asked_to() {
        let params = Params { interval: Duration::from_millis(20), ..Params::default() };
        let AnyApp::Datagrams([mut down, up]) = build(&params, &AppContext { seed: 1, number: 0 }) else {
            panic!("a call is made of datagrams")
        };
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
}
