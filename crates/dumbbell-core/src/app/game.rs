//! A game: the client sends its player's input, and the server the state of the world, each at its own rate, whatever the net does to them.

use super::measure::{LateCount, Measure, FRAMES_LATE, FRAMES_LOST, LATE_SHARE};
use super::{AnyApp, AppContext, AppKind};
use crate::packet::{Ecn, UDP_HEADERS};
use crate::params;
use crate::protocol::{Answer, Datagram, DatagramOutlet, PacketFate, Protocol};
use crate::traffic::Codepoint;
use crate::units::{Duration, Instant};

/// Name in configurations.
pub const NAME: &str = "game";
/// Title of the application.
pub const TITLE: &str = "A game, small packets both ways at the rates of client and server";
/// Where it comes from.
pub const SOURCE: &str = "Valve Developer Community, Source Multiplayer Networking; Armitage 2000, Snapshot of Quake II Ethernet frame sizes (gja.space4me.com/things/quake2-pktsize-040600.html)";
/// Kind of its traffic.
pub const KIND: AppKind = AppKind::Datagrams;

params! {
    /// Parameters of a game.
    pub struct Params {
        /// Packets that the client sends per second, each with the input of its player.
        client_rate: u32 = 30, unit "packets/s", range 1_u32, 10_000_u32, source "Source Multiplayer Networking: usually 20 to 30 packets per second";
        /// Updates that the server sends to the client per second.
        server_rate: u32 = 20, unit "packets/s", range 1_u32, 10_000_u32, source "Source Multiplayer Networking: usually 20 to 30 packets per second";
        /// Payload of a packet of the client; 42 B of UDP, IP and Ethernet are added.
        client_payload: u16 = 40, unit "bytes", range 1_u16, 1_400_u16, source "Armitage 2000: frames of Quake II of 68 to 88 B from the client";
        /// Payload of an update of the server.
        server_payload: u16 = 120, unit "bytes", range 1_u16, 1_400_u16, source "Armitage 2000: most frames of Quake II of 80 to 240 B from the server";
        /// An update that takes longer one way is late.
        late: Duration = Duration::from_millis(50), unit "", range Duration(0), Duration::from_secs(60), source "ours: half of a round trip of 100 ms";
        /// ECN field of the packets.
        marking: Codepoint = Codepoint::NotEct, unit "", source "RFC 3168 section 5";
    }
}

/// Measures of each way, in addition to the delays and losses of its packets.
pub static MEASURES: [Measure; 3] = [LATE_SHARE, FRAMES_LATE, FRAMES_LOST];

/// Both ends of one way of a game.
#[derive(Clone)]
struct UpdateStream {
    rate: u32,
    length: u16,
    ecn: Ecn,
    started: Instant,
    sent: u64,
    next: Instant,
    lateness: LateCount,
}

/// Length of the larger packets with all headers, bytes.
pub fn largest_frame(params: &Params) -> u16 {
    params.client_payload.max(params.server_payload) + UDP_HEADERS
}

/// Builds both ways of the game of a user.
pub fn build(params: &Params, _context: &AppContext) -> AnyApp {
    let stream = |rate: u32, payload: u16| -> Box<dyn Protocol> {
        Box::new(UpdateStream {
            rate,
            length: payload + UDP_HEADERS,
            ecn: params.marking.into(),
            started: Instant::ZERO,
            sent: 0,
            next: Instant::NEVER,
            lateness: LateCount::new(params.late),
        })
    };
    AnyApp::Datagrams([stream(params.server_rate, params.server_payload), stream(params.client_rate, params.client_payload)])
}

impl Protocol for UpdateStream {
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
        // the n-th follows the first by n / rate exactly, rounded down to the nanosecond
        let elapsed = u128::from(self.sent) * 1_000_000_000 / u128::from(self.rate);
        self.next = self.started.saturating_add(Duration(u64::try_from(elapsed).unwrap_or(u64::MAX)));
    }

    fn on_datagram(&mut self, _datagram: &Datagram, _now: Instant) -> Option<Answer> {
        None
    }

    fn on_answer(&mut self, _answer: &Answer, _rtt: Duration, _now: Instant) {}

    fn on_delay(&mut self, _datagram: &Datagram, delay: Duration, _now: Instant) {
        self.lateness.record(delay);
    }

    fn forget(&mut self, _now: Instant) {
        self.lateness.forget();
    }

    fn figures(&self, fate: PacketFate, _now: Instant) -> Vec<f64> {
        self.lateness.figures(fate).to_vec()
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

    fn send(way: &mut dyn Protocol, end: Instant) -> (Vec<u64>, Sent) {
        let (mut times, mut sent) = (Vec::new(), Sent(Vec::new()));
        while way.next_timer() < end {
            let now = way.next_timer();
            times.push(now.0);
            way.on_timer(now, &mut sent);
        }
        (times, sent)
    }

    #[test]
    fn client_and_server_send_at_their_rates_without_drift() {
        let AnyApp::Datagrams([mut server, mut client]) = build(&Params::default(), &AppContext { seed: 1, number: 0 }) else {
            panic!("a game is made of datagrams")
        };
        server.start(Instant::from_millis(5));
        client.start(Instant::from_millis(5));
        let (times, sent) = send(&mut *server, Instant::from_millis(205));
        assert_eq!((times, sent.0[0].length), ([5, 55, 105, 155].map(|ms| ms * 1_000_000).to_vec(), 162));
        let (inputs, packets) = send(&mut *client, Instant::from_millis(1_005));
        // 1/30 s, 2/30 s, 3/30 s exactly
        assert_eq!((inputs.len(), &inputs[..4]), (30, &[5_000_000, 38_333_333, 71_666_666, 105_000_000][..]));
        assert_eq!((packets.0[0].length, packets.0[29].number), (82, 29));
        client.stop(Instant::from_millis(1_005));
        assert_eq!(client.next_timer(), Instant::NEVER);
    }

    #[test]
    fn an_update_is_late_after_the_time_that_was_set() {
        let params = Params { late: Duration::from_millis(40), ..Params::default() };
        let AnyApp::Datagrams([mut server, _]) = build(&params, &AppContext { seed: 1, number: 0 }) else {
            panic!("a game is made of datagrams")
        };
        let datagram = Datagram { number: 0, length: 162, ecn: Ecn::NotEct };
        for ms in [39, 40, 41] {
            server.on_delay(&datagram, Duration::from_millis(ms), Instant::ZERO);
        }
        assert_eq!(server.figures(PacketFate { lost: 1, known: 4 }, Instant::ZERO), [0.5, 1.0, 1.0]);
        server.forget(Instant::ZERO);
        assert_eq!(server.figures(PacketFate { lost: 0, known: 4 }, Instant::ZERO), [0.0; 3]);
    }
}
