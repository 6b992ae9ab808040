//! A transport in eighty lines, sans-IO, to have something to test: numbered packets, an acknowledgement for each, a window that grows by one packet per
//! round trip and is halved by loss or CE.

// each example uses its part
#![allow(dead_code)]

use dumbbell_net::Ecn;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Bytes of a datagram.
const SIZE: usize = 1200;
/// Packets acknowledged after one that show that it is lost.
const REORDERING: u64 = 3;
/// Time after which an unacknowledged datagram is lost.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Sends packets until enough of them have arrived.
pub struct Sender {
    wanted: u64,
    window: f64,
    next: u64,
    in_flight: BTreeMap<u64, Duration>,
    /// The window is halved once for all that was sent before this packet.
    recovers_at: u64,
    /// Packets that have arrived.
    pub arrived: u64,
    /// Packets that were taken for lost.
    pub lost: u64,
    /// Packets that arrived with CE.
    pub marked: u64,
    /// RTT of the last acknowledgement.
    pub rtt: Duration,
}

impl Sender {
    /// One that has `wanted` packets to send.
    pub fn new(wanted: u64) -> Sender {
        let (in_flight, rtt) = (BTreeMap::new(), Duration::ZERO);
        Sender { wanted, window: 10.0, next: 0, in_flight, recovers_at: 0, arrived: 0, lost: 0, marked: 0, rtt }
    }

    /// Everything has arrived.
    pub fn is_done(&self) -> bool {
        self.arrived >= self.wanted
    }

    /// A datagram to send at `now`.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<(Vec<u8>, Ecn)> {
        let in_flight = self.in_flight.len() as u64;
        if in_flight as f64 >= self.window || self.arrived + in_flight >= self.wanted {
            return None;
        }
        self.in_flight.insert(self.next, now);
        let mut datagram = self.next.to_be_bytes().to_vec();
        datagram.resize(SIZE, 0);
        self.next += 1;
        Some((datagram, Ecn::Ect0))
    }

    /// When to call [`Sender::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.in_flight.values().min().map(|&sent| sent + TIMEOUT)
    }

    /// The time of [`Sender::poll_timeout`] has come.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.lose(|_, sent| sent + TIMEOUT <= now);
    }

    /// An acknowledgement arrives.
    pub fn handle(&mut self, now: Duration, datagram: &[u8]) {
        let (Some(number), Some(&marked)) = (number(datagram), datagram.get(8)) else { return };
        let Some(sent) = self.in_flight.remove(&number) else { return };
        self.rtt = now - sent;
        self.arrived += 1;
        if marked > 0 {
            self.marked += 1;
            self.reduce(number);
        } else {
            self.window += 1.0 / self.window;
        }
        self.lose(|older, _| older + REORDERING <= number);
    }

    fn lose(&mut self, is_lost: impl Fn(u64, Duration) -> bool) {
        let gone: Vec<u64> = self.in_flight.iter().filter(|(&one, &sent)| is_lost(one, sent)).map(|(&one, _)| one).collect();
        for number in gone {
            self.in_flight.remove(&number);
            self.lost += 1;
            self.reduce(number);
        }
    }

    fn reduce(&mut self, number: u64) {
        if number >= self.recovers_at {
            self.window = (self.window / 2.0).max(2.0);
            self.recovers_at = self.next;
        }
    }
}

/// Acknowledges each packet, and says whether it had CE.
#[derive(Default)]
pub struct Receiver {
    acknowledgements: VecDeque<Vec<u8>>,
}

impl Receiver {
    /// A datagram arrives.
    pub fn handle(&mut self, datagram: &[u8], ecn: Ecn) {
        let Some(number) = number(datagram) else { return };
        let mut answer = number.to_be_bytes().to_vec();
        answer.push(u8::from(ecn == Ecn::Ce));
        self.acknowledgements.push_back(answer);
    }

    /// A datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.acknowledgements.pop_front()
    }
}

fn number(datagram: &[u8]) -> Option<u64> {
    datagram.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}
