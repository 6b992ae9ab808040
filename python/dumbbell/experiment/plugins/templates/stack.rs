//! @NAME@: a window that grows by one packet per round trip and is halved when a packet is missing. The client numbers its packets; the
//! server answers each with the number that it expects. Put your own stack in its place: both ends of one connection, driven by datagrams
//! and timers.

#[allow(dead_code)]
mod dumbbell;

use dumbbell::{describe, Description, FlowSetup, Kind, Param, Plugin, Side, Stack, Stats, Wire, NONE};
use std::ffi::CStr;

const PAYLOAD: u64 = 1200;
const NOT_ECT: u32 = 0;
static PARAMS: [Param; 1] = [Param {
    name: "initial",
    kind: Kind::Int,
    value: 10.0,
    min: 1.0,
    max: 1000.0,
    unit: "packets",
    doc: "initial window",
}];

/// Both ends of a connection: the client, with its window in 1/4096 packets, and what the server has.
#[derive(Clone, Default)]
struct Window {
    size: u64,
    next: u64,
    acked: u64,
    window: u64,
    srtt: u64,
    rto_at: u64,
    lost: u64,
    reductions: u64,
    halved_at: u64,
    held: bool,
    ended: bool,
    expected: u64,
    received: u64,
}

impl Window {
    /// Full packets, and at the end what is left.
    fn packets(&self) -> u64 {
        match self.size {
            NONE => NONE,
            size => (size + if self.ended { PAYLOAD - 1 } else { 0 }) / PAYLOAD,
        }
    }

    fn fill(&mut self, wire: &mut Wire, now: u64) {
        let mut bytes = [0; PAYLOAD as usize + 16];
        while self.next < self.packets() && self.next - self.acked < self.window / 4096 {
            let left = if self.size == NONE { PAYLOAD } else { self.size - self.next * PAYLOAD };
            bytes[..8].copy_from_slice(&self.next.to_ne_bytes());
            bytes[8..16].copy_from_slice(&now.to_ne_bytes());
            wire.send(&bytes[..left.min(PAYLOAD) as usize + 16], NOT_ECT);
            self.next += 1;
        }
        self.rto_at = if self.next > self.acked { now + 300_000_000 + 2 * self.srtt } else { NONE };
    }

    /// Sends again, from the missing packet on.
    fn again(&mut self, wire: &mut Wire, now: u64) {
        self.lost += self.next - self.acked;
        self.next = self.acked;
        self.halved_at = now;
        if !self.held {
            self.reductions += 1;
            self.window = (self.window / 2).max(8192);
        }
        self.fill(wire, now);
    }
}

fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_ne_bytes(word)
}

impl Stack for Window {
    fn new(setup: &FlowSetup, params: &[f64]) -> Option<Window> {
        Some(Window { window: params[0] as u64 * 4096, held: setup.control == "fixed", rto_at: NONE, ..Window::default() })
    }

    fn start(&mut self, _wire: &mut Wire, _now: u64) {}

    fn write(&mut self, wire: &mut Wire, bytes: u64, now: u64) {
        self.size = if bytes == NONE { NONE } else { self.size + bytes };
        self.fill(wire, now);
    }

    fn finish(&mut self, wire: &mut Wire, end: bool, now: u64) {
        if !end {
            self.size = self.next * PAYLOAD;
        }
        self.ended = true;
        self.fill(wire, now);
    }

    fn datagram(&mut self, wire: &mut Wire, side: Side, payload: &[u8], _ecn: u32, now: u64) {
        let (packet, stamp) = (number(payload), number(&payload[8..]));
        if side == Side::Server {
            if packet == self.expected {
                self.expected += 1;
                self.received += payload.len() as u64 - 16;
            }
            let answer = [self.expected.to_ne_bytes(), stamp.to_ne_bytes()].concat();
            wire.send(&answer, NOT_ECT);
            return;
        }
        let rtt = now - stamp;
        self.srtt = if self.srtt > 0 { (7 * self.srtt + rtt) / 8 } else { rtt };
        if packet > self.acked {
            if !self.held {
                self.window += 4096 * 4096 * (packet - self.acked) / self.window;
            }
            self.acked = packet;
            self.next = self.next.max(packet);
        } else if packet < self.next && stamp > self.halved_at {
            // a later packet came first: the one in front of it is lost
            self.again(wire, now);
            return;
        }
        self.fill(wire, now);
    }

    fn wake(&self, side: Side) -> u64 {
        if side == Side::Client {
            self.rto_at
        } else {
            NONE
        }
    }

    fn timer(&mut self, wire: &mut Wire, _side: Side, now: u64) {
        self.again(wire, now);
    }

    fn stats(&mut self) -> Stats {
        Stats {
            received: self.received,
            cwnd: self.window * PAYLOAD / 4096,
            in_flight: (self.next - self.acked) * PAYLOAD,
            rtt: if self.srtt > 0 { self.srtt } else { NONE },
            lost: self.lost,
            congestion_events: self.reductions,
            // what is not told is missing in results
            ..Stats::UNKNOWN
        }
    }

    fn closed(&self) -> Option<&CStr> {
        None
    }

    fn copy(&self) -> Option<Window> {
        Some(self.clone())
    }
}

#[no_mangle]
pub extern "C" fn dumbbell_describe() -> *const Plugin {
    describe::<Window, { PARAMS.len() }>(Description {
        name: "@NAME@",
        title: "A window and nothing else",
        source: "its author",
        controls: vec!["aimd".to_owned(), "fixed".to_owned()],
        params: &PARAMS,
    })
}
