//! An endpoint of one's own: a datagram, its answer, the next datagram.

use dumbbell_core::packet::Ecn;
use dumbbell_core::param::ParamError;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_sim::protocol::{Answer, Datagram, DatagramOutlet, Protocol, ProtocolContext};
use dumbbell_sim::{Outcome, RunError, Sim};
use serde_json::{json, Map, Value};

/// Both ends.
struct StopAndWait {
    length: u16,
    number: u64,
    next: Instant,
}

impl StopAndWait {
    fn read(keys: &Map<String, Value>) -> Result<u16, ParamError> {
        let length = keys.get("length").and_then(Value::as_u64).and_then(|length| length.try_into().ok());
        length.ok_or_else(|| ParamError::new("length", "none", "bytes of a frame"))
    }

    fn new(length: u16, _context: &ProtocolContext) -> StopAndWait {
        StopAndWait { length, number: 0, next: Instant::NEVER }
    }
}

impl Protocol for StopAndWait {
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
        self.next = Instant::NEVER;
        net.send(Datagram { number: self.number, length: self.length, ecn: Ecn::NotEct });
    }

    fn on_datagram(&mut self, datagram: &Datagram, _now: Instant) -> Option<Answer> {
        Some(Answer { value: datagram.number, length: 64, ecn: Ecn::NotEct })
    }

    fn on_answer(&mut self, answer: &Answer, _rtt: Duration, now: Instant) {
        self.number = answer.value + 1;
        self.next = now;
    }
}

/// Ten seconds of it over 1 Mbit/s and 40 ms.
pub fn run() -> Result<Outcome, RunError> {
    let config = json!({
        "duration": 10_000_000_000_u64, "bottleneck": {"rate": 1_000_000, "aqm": {"name": "codel"}},
        "udp": [{"protocol": {"name": "stop-and-wait", "length": 1250}, "base_rtt": 40_000_000, "echo": true}],
    });
    Sim::builder(&config).endpoint("stop-and-wait", StopAndWait::read, StopAndWait::new).build()?.finish()
}

#[allow(dead_code)] // of the test that runs this
fn main() {
    match run() {
        Ok(outcome) => println!("{}", outcome.summary),
        Err(error) => eprintln!("{error}"),
    }
}
