//! One way of a connection of an application over a stack of its own: the endpoint of its datagrams, between the stack and the net.

use super::connection::Connection;
use super::port::{EndpointPort, Ingress, ReturnPort, Stages};
use super::stream_place::StreamPlace;
use crate::flow::{FlowResult, StackResult};
use crate::measure::SeriesView;
use dumbbell_core::histogram::CompactHistogram;
use dumbbell_core::observe::{ProtocolKind, SenderSnapshot};
use dumbbell_core::packet::{Packet, UDP_HEADERS};
use dumbbell_core::protocol::{Datagram, ProtocolStats};
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::stats::{ReceiverStats, SenderStats};
use dumbbell_core::tcp::{Block, Outlet};
use dumbbell_core::units::{Duration, Instant};
use std::collections::VecDeque;

/// Datagrams in order of the times at which something happens to them.
type TimedDatagrams = VecDeque<(Instant, Datagram)>;

/// One way of a connection: the endpoint of its datagrams.
#[derive(Clone)]
pub struct StackWay {
    pub place: StreamPlace,
    slot: u32,
    /// By how much the receiver's clock is behind: half of the base RTT if data are sent up.
    behind: Duration,
    begun: bool,
    /// Datagrams that the stack has sent and the net does not have, each with its time on the sender's clock.
    leaving: TimedDatagrams,
    /// Datagrams that the net has delivered and the stack does not have, each with the time at which it is there.
    arrived: TimedDatagrams,
    /// When the stack has something to do.
    wake: Instant,
    /// Nothing is left of the connection.
    over: bool,
    sent: u64,
    received: ReceiverStats,
    /// Payload that the receiving application has read, bytes.
    payload: u64,
    /// Packets that the sending end took for lost.
    lost: Option<u64>,
    /// Datagrams sent at this instant.
    fresh: Vec<u64>,
}

impl StackWay {
    /// A way that has not begun; its receiver's clock is `behind` that of the engine.
    pub fn new(slot: u32, place: StreamPlace, behind: Duration) -> StackWay {
        StackWay {
            place,
            slot,
            behind,
            begun: false,
            leaving: VecDeque::new(),
            arrived: VecDeque::new(),
            wake: Instant::NEVER,
            over: false,
            sent: 0,
            received: ReceiverStats::default(),
            payload: 0,
            lost: None,
            fresh: Vec::new(),
        }
    }

    /// The stack has sent `datagram`, which enters the net at `at` on the sender's clock.
    pub fn post(&mut self, datagram: Datagram, at: Instant) {
        self.leaving.push_back((at, datagram));
    }

    /// The receiving application has read `bytes` more, the sending end has taken `lost` packets for lost so far, and the stack has something to do at `wake`.
    pub fn settle(&mut self, bytes: u64, lost: Option<u64>, wake: Instant) {
        self.payload += bytes;
        self.lost = lost;
        self.wake = wake;
    }

    /// Takes the oldest datagram that is there at `now`.
    pub fn take_arrived(&mut self, now: Instant) -> Option<Datagram> {
        take_due(&mut self.arrived, now)
    }

    /// Nothing is left of the connection: what arrives is discarded.
    pub fn end(&mut self) {
        self.over = true;
        self.wake = Instant::NEVER;
        self.arrived.clear();
    }

    /// Returns the payload that has been read, bytes.
    pub fn count_received(&self) -> u64 {
        self.payload
    }

    /// Takes the numbers of the datagrams that were sent since the last call, at this instant.
    pub fn take_fresh(&mut self) -> std::vec::Drain<'_, u64> {
        self.fresh.drain(..)
    }

    /// When there is something to do.
    pub fn next(&self) -> Instant {
        let of = |queue: &TimedDatagrams| queue.front().map_or(Instant::NEVER, |&(at, _)| at);
        of(&self.leaving).min(of(&self.arrived)).min(self.wake)
    }
}

/// Takes the oldest datagram of a queue whose time has come.
fn take_due(queue: &mut TimedDatagrams, now: Instant) -> Option<Datagram> {
    let &(_, datagram) = queue.front().filter(|&&(at, _)| at <= now)?;
    queue.pop_front();
    Some(datagram)
}

impl Connection for StackWay {
    fn has_begun(&self) -> bool {
        self.begun
    }

    fn next_timer(&self, start: Instant) -> Instant {
        if self.begun {
            self.next()
        } else {
            self.next().min(start)
        }
    }

    fn on_timer(&mut self, start: Instant, stop: &mut Instant, stages: &mut Stages, now: Instant, way: impl Ingress) -> bool {
        let mut port = EndpointPort { way, end: None, path: &mut stages.data, now };
        let begins = !self.begun && start <= now;
        self.begun |= begins;
        if *stop <= now {
            *stop = Instant::NEVER;
        }
        self.fresh.clear();
        while let Some(Datagram { number, length, ecn }) = take_due(&mut self.leaving, now) {
            self.sent += 1;
            self.fresh.push(number);
            port.send(Packet { flow: self.slot, len: length, ..Packet::new_udp(number, ecn, now) });
        }
        begins
    }

    #[inline(never)]
    fn on_packet(&mut self, packet: &Packet, now: Instant, _back: &mut impl ReturnPort) -> Instant {
        self.received.count(packet);
        self.received.count_data(packet, UDP_HEADERS);
        if !self.over {
            let datagram = Datagram { number: packet.udp().number(), length: packet.len, ecn: packet.ecn() };
            self.arrived.push_back((now + self.behind, datagram));
        }
        self.next()
    }

    fn on_back(&mut self, _: &ReceiverReply, _: &[Block], _: &mut Stages, _: Instant, _: impl Ingress) -> Instant {
        self.next()
    }

    fn is_done(&self) -> bool {
        self.place.is_temporary && self.place.connection.is_none() && self.over && self.leaving.is_empty()
    }

    fn payload(&self) -> u64 {
        self.payload
    }

    fn sent_and_received(&self) -> (u64, ReceiverStats) {
        (self.sent, self.received)
    }

    fn finish_time(&self) -> Option<Instant> {
        None
    }

    fn receiver_waits(&self, _now: Instant) -> bool {
        !self.arrived.is_empty()
    }

    fn forget_samples(&mut self) {}

    fn take_rtt_samples(&mut self) -> Option<CompactHistogram> {
        None
    }

    fn result(&self, common: FlowResult, now: Instant) -> FlowResult {
        let sender = SenderSnapshot { lost: self.lost, ..SenderSnapshot::default() };
        let stats = ProtocolStats { received: self.payload, sender, ..ProtocolStats::default() };
        FlowResult {
            end: now,
            payload: self.payload,
            receiver: self.received,
            sender: SenderStats { sent: self.sent, ..SenderStats::default() },
            stack: Some(Box::new(StackResult { stats, closed: None })),
            ..common
        }
    }

    fn series_view(&self) -> SeriesView {
        SeriesView { payload: self.payload, sent: self.sent, ..SeriesView::default() }
    }

    fn protocol(&self) -> ProtocolKind {
        ProtocolKind::Datagrams
    }
}
