//! Story tests of the transport: a sender whose peer, path and clock are played by the test.
//!
//! Every timeout and window expected is derived by hand beside it; what the kernel's clock makes of a timeout is
//! [`timer_wheel`]'s and tested there. Unless a test says otherwise the path takes 40 ms both ways
//! and the handshake is over at 40 ms, so that the RTO is 40 + 200 = 240 ms.

mod control;
mod ecn;
mod exits;
mod handshake;
mod misbehaviour;
mod output;
mod receiver;
mod recovery;
mod renewal;
mod rtt_samples;
mod scoreboard;
mod tail;
mod undo;
mod window;

use super::host::{EcnReduction, HostParams, Offload, Pacing, Prr};
use super::receiver::Receiver;
use super::sender::{Application, Phase, Sender};
use super::{ack_flag, Ack, Block, FlowOptions, Outlet};
use crate::cc::conn::{CaState, Conn};
use crate::packet::{flag, Packet};
use crate::units::{timer_wheel, Duration, Instant};
use serde_json::{json, Value};
use std::collections::VecDeque;
use std::sync::Arc;

/// Round trip of the path of most stories, ms.
const RTT: u64 = 40;

/// Packets that were sent.
#[derive(Default)]
struct Wire(Vec<Packet>);

impl Outlet for Wire {
    fn send(&mut self, packet: Packet) {
        self.0.push(packet);
    }
}

/// A host that sends segment by segment, with an initial window of `window`.
fn plain(window: u32) -> HostParams {
    HostParams { ecn: true, initial_window: window, offload: Offload::None, ..HostParams::default() }
}

fn prr(bis: bool) -> Prr {
    if bis {
        Prr::Rfc6937bis
    } else {
        Prr::Rfc6937
    }
}

fn reduction(immediate: bool) -> EcnReduction {
    if immediate {
        EcnReduction::Immediate
    } else {
        EcnReduction::Prr
    }
}

/// A sender and its story so far.
struct Story {
    sender: Sender,
    wire: Wire,
    now: Instant,
    rtt: Duration,
    /// Packets that the last step sent.
    last: Vec<Packet>,
    /// Timestamp that the next ACKs echo; `None`: that of a packet that was sent a round trip ago.
    echo: Option<u32>,
    /// Window that the next ACKs offer, segments.
    window: u32,
    /// ACKs on their way back to [`Story::flow`].
    acks: VecDeque<(Instant, u64)>,
}

impl Story {
    /// Not started yet.
    fn new(name: &str, host: HostParams, app: Application) -> Story {
        Story::with_config(&json!({"name": name}), host, app)
    }

    /// Not started yet, with a congestion control of other than default parameters.
    fn with_config(config: &Value, host: HostParams, app: Application) -> Story {
        let cc = crate::cc::build(config.as_object().expect("a table"), &crate::cc::CcContext::default())
            .expect("a registered congestion control");
        let options = FlowOptions { ecn: host.ecn, ..FlowOptions::default() };
        Story {
            sender: Sender::new(7, cc, Arc::new(host), options, app),
            wire: Wire::default(),
            now: Instant::ZERO,
            rtt: Duration::from_millis(RTT),
            last: Vec::new(),
            echo: None,
            window: 1 << 20,
            acks: VecDeque::new(),
        }
    }

    /// Connected at 40 ms; the initial window is on its way.
    fn open(cc: &str, host: HostParams, app: Application) -> Story {
        let mut story = Story::new(cc, host, app);
        story.connect();
        story
    }

    /// Reno with endless data and an initial window of `window`, segment by segment.
    fn reno(window: u32) -> Story {
        Story::open("reno", plain(window), Application::Bulk)
    }

    fn connect(&mut self) {
        self.start();
        self.advance(self.rtt.as_millis());
        self.syn_ack(ack_flag::ECN_SETUP);
    }

    fn start(&mut self) {
        self.sender.start(self.now, &mut self.wire);
        self.take();
    }

    fn conn(&self) -> &Conn {
        &self.sender.conn
    }

    /// Congestion window, threshold, state.
    fn cwnd(&self) -> (u32, u32, CaState) {
        (self.conn().cwnd, self.conn().ssthresh, self.conn().state)
    }

    /// When a kernel timer of `ms`, set now, fires.
    fn due(&self, ms: u64) -> Instant {
        timer_wheel(self.now, Duration::from_millis(ms))
    }

    /// Sequence numbers of the data that the last step sent.
    fn take(&mut self) -> Vec<u64> {
        self.last = std::mem::take(&mut self.wire.0);
        self.check();
        self.last.iter().filter(|packet| !packet.has(flag::NO_DATA)).map(|packet| packet.tcp().seq()).collect()
    }

    /// Checks what must hold after every step.
    fn check(&self) {
        let conn = self.conn();
        assert_eq!(self.sender.recount(), (conn.sacked_out, conn.lost_out, conn.retrans_out), "scoreboard and counters");
        let gone = conn.sacked_out + conn.lost_out;
        assert!(gone <= conn.packets_out() + conn.retrans_out && conn.cwnd >= 1 && conn.snd_una <= conn.snd_nxt, "{conn:?}");
    }

    /// Lets `ms` pass; timers run. Returns what they sent.
    fn advance(&mut self, ms: u64) -> Vec<u64> {
        self.run_to(self.now + Duration::from_millis(ms))
    }

    /// Lets time pass until `end`, with the timers on the way.
    fn run_to(&mut self, end: Instant) -> Vec<u64> {
        let mut rounds = 0;
        while self.sender.next_timer() <= end {
            self.now = self.sender.next_timer().max(self.now);
            self.sender.on_timer(self.now, &mut self.wire);
            rounds += 1;
            assert!(rounds < 100_000, "a timer that does not move: {:?}", self.sender);
        }
        self.now = end;
        self.take()
    }

    /// Goes on to the next timer and fires it. Returns what that sent.
    fn fire(&mut self) -> Vec<u64> {
        self.run_to(self.sender.next_timer())
    }

    /// An ACK of any kind arrives. Returns the data segments sent for it.
    fn answer(&mut self, ack: u64, flags: u16, blocks: &[Block]) -> Vec<u64> {
        let sent = self.now.saturating_sub(self.rtt).as_millis() as u32;
        let window = self.window.saturating_mul(self.conn().mss);
        let ack = Ack { ack, flow: 7, tsecr: self.echo.unwrap_or(sent), tsval: self.acked_at(), window, flags, ..Ack::default() };
        self.sender.on_ack(&ack, blocks, self.now, &mut self.wire);
        self.take()
    }

    /// The peer's clock when an ACK left that arrives now, ms: half a round trip ago.
    fn acked_at(&self) -> u32 {
        self.now.saturating_sub(self.rtt / 2).as_millis() as u32
    }

    fn syn_ack(&mut self, setup: u16) -> Vec<u64> {
        self.answer(0, ack_flag::SYN_ACK | setup, &[])
    }

    fn ack(&mut self, ack: u64) -> Vec<u64> {
        self.answer(ack, 0, &[])
    }

    fn ece(&mut self, ack: u64) -> Vec<u64> {
        self.answer(ack, ack_flag::ECE, &[])
    }

    fn sack(&mut self, ack: u64, blocks: &[Block]) -> Vec<u64> {
        self.answer(ack, 0, blocks)
    }

    fn dsack(&mut self, ack: u64, duplicate: Block) -> Vec<u64> {
        self.answer(ack, ack_flag::DSACK, &[duplicate])
    }

    /// A path to `receiver` that passes a packet every 0.1 ms and loses those that `lost` says, until `end` or until
    /// everything has arrived.
    fn exchange(&mut self, receiver: &mut Receiver, end: Instant, mut lost: impl FnMut(&mut Packet) -> bool) {
        let mut acks: VecDeque<(Instant, Ack, Vec<Block>)> = VecDeque::new();
        let one_way = self.rtt / 2;
        let mut packets: VecDeque<(Instant, Packet)> = VecDeque::new();
        let mut free = Instant::ZERO;
        loop {
            for packet in self.last.drain(..) {
                free = (free + Duration::from_micros(100)).max(self.now + one_way);
                packets.push_back((free, packet));
            }
            let packet_at = packets.front().map_or(Instant::NEVER, |packet| packet.0);
            let ack_at = acks.front().map_or(Instant::NEVER, |ack| ack.0);
            let at = packet_at.min(ack_at).min(self.sender.next_timer()).min(receiver.next_timer());
            if at > end || self.sender.phase == Phase::Done {
                return;
            }
            self.now = at;
            if packet_at <= at {
                let (_, mut packet) = packets.pop_front().expect("a packet is due");
                if lost(&mut packet) {
                    continue;
                }
                let ack = receiver.on_packet(&packet, at);
                if let Some((early, blocks)) = receiver.take_early() {
                    acks.push_back((at + one_way, early, blocks.as_slice().to_vec()));
                }
                if let Some(ack) = ack {
                    acks.push_back((at + one_way, ack, receiver.blocks().as_slice().to_vec()));
                }
            } else if ack_at <= at {
                let (_, ack, blocks) = acks.pop_front().expect("an ACK is due");
                self.sender.on_ack(&ack, &blocks, at, &mut self.wire);
            } else if receiver.next_timer() <= at {
                let ack = receiver.on_timer(at);
                acks.extend(ack.map(|ack| (at + one_way, ack, receiver.blocks().as_slice().to_vec())));
            } else {
                self.sender.on_timer(at, &mut self.wire);
            }
            self.take();
        }
    }

    /// A path that loses nothing, acknowledging every segment a round trip after it was sent, until `end`. Returns every
    /// packet with the time when it was sent; `last` is taken as sent now.
    fn flow(&mut self, end: Instant) -> Vec<(Instant, Packet)> {
        let mut sent: Vec<(Instant, Packet)> = self.last.drain(..).map(|packet| (self.now, packet)).collect();
        let mut seen = 0;
        loop {
            for &(at, packet) in sent[seen..].iter().filter(|(_, packet)| !packet.has(flag::NO_DATA)) {
                self.acks.push_back((at + self.rtt, packet.tcp().seq() + 1));
            }
            seen = sent.len();
            let ack_at = self.acks.front().map_or(Instant::NEVER, |ack| ack.0);
            let at = ack_at.min(self.sender.next_timer());
            if at > end || self.sender.phase == Phase::Done {
                self.now = self.now.max(end);
                self.last.clear();
                return sent;
            }
            self.now = at;
            if ack_at <= at {
                let (_, ack) = self.acks.pop_front().expect("an ACK is due");
                self.ack(ack);
            } else {
                self.sender.on_timer(at, &mut self.wire);
                self.take();
            }
            sent.extend(self.last.iter().map(|&packet| (at, packet)));
        }
    }
}
