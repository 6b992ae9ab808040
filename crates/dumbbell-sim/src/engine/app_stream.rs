//! One way of a connection of an application: TCP and what the application is told of it, or the datagrams of a [stack](super::stack_way).

use super::connection::Connection;
use super::port::{Ingress, ReturnPort, Stages};
use super::stack_way::StackWay;
use super::stream_place::StreamPlace;
use super::tcp::Tcp;
use crate::flow::{FlowResult, Samples};
use crate::measure::SeriesView;
use dumbbell_core::app::StreamDirection;
use dumbbell_core::fork::{CannotFork, Fork, SharedCopies};
use dumbbell_core::histogram::CompactHistogram;
use dumbbell_core::observe::{ProtocolKind, Reported, Tap};
use dumbbell_core::packet::Packet;
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::receiver::ServerHandshake;
use dumbbell_core::tcp::sender::Phase;
use dumbbell_core::tcp::stats::ReceiverStats;
use dumbbell_core::tcp::{Ack, BackEcn, Block};
use dumbbell_core::units::{Duration, Instant};
use std::collections::VecDeque;

/// TCP one way, and the ends of writes that have arrived.
///
/// The handshake of a connection is that of the requests: SYN, SYN-ACK, and the client's answer to that. The way of the responses has none. Its receiver is connected when the SYN-ACK reaches the client, and its
/// sender begins when the client's answer reaches the server.
pub struct TcpWay {
    pub tcp: Tcp,
    pub place: StreamPlace,
    /// By how much the receiver's clock is behind: half of the base RTT if data are sent up.
    behind: Duration,
    /// Ends of writes that the receiver has and the application does not know of: when it does, and bytes since the start.
    arrived: VecDeque<(Instant, u64)>,
    /// When the handshake was complete at the client, which the application does not know, and whether it was.
    connected_at: Option<Instant>,
    is_connected: bool,
    /// When it was complete at the server, which does not know yet, and whether it was.
    accepted_at: Option<Instant>,
    is_accepted: bool,
    /// The client's answer to the SYN-ACK, and the handshake at the server, which the way of the responses keeps until it begins.
    answer: Option<Ack>,
    handshake: Option<ServerHandshake>,
    /// The connection was closed before this way began.
    never_began: bool,
}

dumbbell_core::fork_fields! { TcpWay { tcp; place, behind, arrived, connected_at, is_connected, accepted_at, is_accepted, answer, handshake, never_began } }

impl TcpWay {
    /// A connection that has not begun; its receiver's clock is `behind` that of the engine.
    pub fn new(tcp: Tcp, place: StreamPlace, behind: Duration) -> TcpWay {
        TcpWay {
            tcp,
            place,
            behind,
            arrived: VecDeque::new(),
            connected_at: None,
            is_connected: false,
            accepted_at: None,
            is_accepted: false,
            answer: None,
            handshake: None,
            never_began: false,
        }
    }

    /// Takes the oldest end of a write that has arrived by `now`, bytes since the start.
    pub fn take_arrival(&mut self, now: Instant) -> Option<u64> {
        let (at, bytes) = *self.arrived.front()?;
        if at > now {
            return None;
        }
        self.arrived.pop_front();
        Some(bytes)
    }

    /// When the next end of a write has arrived, or the server has the client's answer to its SYN-ACK.
    fn next_arrival(&self) -> Instant {
        let arrived = self.arrived.front().map_or(Instant::NEVER, |&(at, _)| at);
        arrived.min(self.accepted_at.unwrap_or(Instant::NEVER))
    }

    /// Connects the receiver of the responses: the client has the SYN-ACK `now`, `rtt` us after its SYN.
    pub fn connect(&mut self, rtt: u32, agrees_on_ecn: bool, now: Instant) {
        let at = now.saturating_sub(self.behind);
        self.answer = Some(self.tcp.receiver.connect(u64::from(rtt), agrees_on_ecn, at));
    }

    /// Takes the handshake that the way of the requests carried, if the server has the client's answer by `now`.
    pub fn take_accepted(&mut self, now: Instant) -> Option<ServerHandshake> {
        self.accepted_at.filter(|&at| at <= now)?;
        self.accepted_at = None;
        self.tcp.receiver.handshake()
    }

    /// Accepts the connection for the way of the responses: the server has the client's answer, and begins when it next has something to do.
    pub fn accept(&mut self, handshake: ServerHandshake) {
        self.handshake = Some(handshake);
    }

    /// Takes the time, on the sender's clock, at which the handshake was complete at the client.
    pub fn take_connected(&mut self) -> Option<Instant> {
        self.connected_at.take()
    }

    /// The application has closed the connection.
    pub fn close(&mut self) {
        self.place.connection = None;
        self.arrived.clear();
        (self.connected_at, self.accepted_at) = (None, None);
        self.tcp.receiver.abandon_handshake();
        if self.place.way == StreamDirection::Response && !self.tcp.has_begun() {
            self.never_began = true;
            self.tcp.sender.abandon();
        }
    }

    /// Returns the payload that the receiver has in order, bytes.
    pub fn count_received(&self) -> u64 {
        self.tcp.sender.count_payload_below(self.tcp.receiver.rcv_nxt)
    }
}

/// Lets `$forward` define the methods that TCP and a stack have without anything of the application in them.
macro_rules! forward_all {
    ($forward:ident) => {
        $forward! { self:
            fn on_receiver_timer[&mut self](now: Instant, back: &mut impl ReturnPort) -> ();
            fn prefetch[&self]() -> ();
            fn prefetch_behind[&self]() -> ();
            fn back_ecn[&self]() -> BackEcn;
            fn payload[&self]() -> u64;
            fn sent_and_received[&self]() -> (u64, ReceiverStats);
            fn finish_time[&self]() -> Option<Instant>;
            fn receiver_waits[&self](now: Instant) -> bool;
            fn check[&self]() -> Result<(), (&'static str, u64, u64)>;
            fn sample[&self](samples: &mut Samples, now: Instant) -> ();
            fn forget_samples[&mut self]() -> ();
            fn take_rtt_samples[&mut self]() -> Option<CompactHistogram>;
            fn result[&self](common: FlowResult, now: Instant) -> FlowResult;
            fn series_view[&self]() -> SeriesView;
            fn report_changes[&mut self](said: &mut Reported, listener: &mut impl Tap, slot: u32, now: Instant) -> ();
            fn protocol[&self]() -> ProtocolKind;
        }
    };
}

/// Passes the calls of these methods on to TCP.
macro_rules! forward_to_tcp {
    ($me:ident: $( fn $name:ident[$($this:tt)*]($($arg:ident: $type:ty),*) -> $out:ty; )*) => { $(
        fn $name($($this)*, $($arg: $type),*) -> $out {
            $me.tcp.$name($($arg),*)
        }
    )* };
}

impl Connection for TcpWay {
    fn next_timer(&self, start: Instant) -> Instant {
        self.tcp.next_timer(start).min(self.next_arrival())
    }

    fn on_timer(&mut self, start: Instant, stop: &mut Instant, stages: &mut Stages, now: Instant, way: impl Ingress) -> bool {
        if self.handshake.is_none() || now < start {
            return self.tcp.on_timer(start, stop, stages, now, way);
        }
        let (sender, mut port) = self.tcp.port(stages, now, way);
        if let (Some(handshake), Some(answer)) = (self.handshake.take(), self.answer.take()) {
            sender.accept(handshake, &answer, now, &mut port);
        }
        // whatever else is due makes its timer fire again
        true
    }

    #[inline(never)]
    fn on_packet(&mut self, packet: &Packet, now: Instant, back: &mut impl ReturnPort) -> Instant {
        let timer = self.tcp.on_packet(packet, now, back);
        if self.place.connection.is_none() {
            self.tcp.receiver.abandon_handshake();
            return timer;
        }
        if !self.is_accepted && self.place.way == StreamDirection::Request && self.tcp.receiver.handshake().is_some() {
            self.is_accepted = true;
            self.accepted_at = Some(now + self.behind);
        }
        let next = self.tcp.receiver.rcv_nxt;
        while let Some(bytes) = self.tcp.sender.writes_mut().and_then(|writes| writes.take_end(next)) {
            self.arrived.push_back((now + self.behind, bytes));
        }
        timer.min(self.next_arrival())
    }

    #[inline(never)]
    fn on_back(
        &mut self,
        reply: &ReceiverReply,
        blocks: &[Block],
        stages: &mut Stages,
        now: Instant,
        way: impl Ingress,
    ) -> Instant {
        let timer = self.tcp.on_back(reply, blocks, stages, now, way);
        if !self.is_connected && self.tcp.sender.phase == Phase::Established {
            self.is_connected = true;
            if self.place.connection.is_none() {
                // it was closed during the handshake: nothing was sent that an ACK could end it with
                self.tcp.sender.stop(now);
                return now;
            }
            if self.place.way == StreamDirection::Request {
                self.connected_at = Some(now);
                return now;
            }
        }
        timer
    }

    fn has_begun(&self) -> bool {
        self.tcp.has_begun() && !self.never_began
    }

    fn is_done(&self) -> bool {
        self.place.is_temporary && self.place.connection.is_none() && self.tcp.is_done()
    }

    forward_all!(forward_to_tcp);
}

/// One way of a connection of an application.
// TCP is the larger one, and the usual one
#[allow(clippy::large_enum_variant)]
pub enum AppStream {
    Tcp(TcpWay),
    Stack(StackWay),
}

impl Fork for AppStream {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        Ok(match self {
            AppStream::Tcp(way) => AppStream::Tcp(way.fork(shared)?),
            AppStream::Stack(way) => AppStream::Stack(way.clone()),
        })
    }
}

impl AppStream {
    /// Returns its place.
    pub fn place(&self) -> &StreamPlace {
        match self {
            AppStream::Tcp(way) => &way.place,
            AppStream::Stack(way) => &way.place,
        }
    }

    /// The application has closed the connection.
    pub fn close(&mut self) {
        match self {
            AppStream::Tcp(way) => way.close(),
            AppStream::Stack(way) => way.place.connection = None,
        }
    }

    /// Returns the payload that the receiver has, bytes.
    pub fn count_received(&self) -> u64 {
        match self {
            AppStream::Tcp(way) => way.count_received(),
            AppStream::Stack(way) => way.count_received(),
        }
    }
}

/// Passes the calls of these methods on to what carries the stream.
// none is inlined: callers that also serve plain TCP, which is most of them, would become too large to be inlined themselves
macro_rules! forward_to_way {
    ($me:ident: $( fn $name:ident[$($this:tt)*]($($arg:ident: $type:ty),*) -> $out:ty; )*) => { $(
        #[inline(never)]
        fn $name($($this)*, $($arg: $type),*) -> $out {
            match $me {
                AppStream::Tcp(way) => way.$name($($arg),*),
                AppStream::Stack(way) => way.$name($($arg),*),
            }
        }
    )* };
}

impl Connection for AppStream {
    forward_all!(forward_to_way);
    forward_to_way! { self:
        fn has_begun[&self]() -> bool;
        fn on_timer[&mut self](start: Instant, stop: &mut Instant, stages: &mut Stages, now: Instant, way: impl Ingress) -> bool;
        fn next_timer[&self](start: Instant) -> Instant;
        fn on_packet[&mut self](packet: &Packet, now: Instant, back: &mut impl ReturnPort) -> Instant;
        fn on_back[&mut self](reply: &ReceiverReply, blocks: &[Block], stages: &mut Stages, now: Instant, way: impl Ingress) -> Instant;
        fn is_done[&self]() -> bool;
    }
}
