//! Observation of a run: frames at both ends of a flow, and the state of its sender.
//!
//! A [`Tap`] is a [`Log`] that sees the ends of flows in addition to the queues.

use crate::cc::conn::{CaState, Conn};
use crate::cc::exit::SlowStartExit;
use crate::cc::RateSample;
use crate::fork::{CannotFork, Fork, SharedCopies};
use crate::log::Log;
use crate::packet::{FlowKey, Packet};
use crate::reply::ReceiverReply;
use crate::tcp::sender::Sender;
use crate::tcp::{BackEcn, Block};
use crate::units::{Duration, Instant};

/// Events that a listener receives in addition to those of packets. Levels are cumulative: each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListenLevel {
    /// Nothing.
    Packets,
    /// Flows that begin, and every frame at both ends: what is sent and what arrives, with what it says.
    Frames,
    /// Events of senders, without rate samples.
    Controls,
    /// Rate samples.
    RateSamples,
    /// State of a sender after an acknowledgement or a timer.
    Snapshots,
}

/// A flow that begins: who it is, and what its ends are like.
#[derive(Clone, Copy, Debug)]
pub struct FlowStart {
    /// Number of the flow in the run.
    pub number: u32,
    /// By how much the clock of the engine is ahead of its sender's.
    pub ahead: Duration,
    /// By how much it is behind its receiver's.
    pub behind: Duration,
    /// Flow key; the source is the left host.
    pub key: FlowKey,
    /// Whether its data go up, from the right to the left.
    pub up: bool,
    /// Codepoints of what its receiver sends.
    pub back_ecn: BackEcn,
    /// Protocol of its ends.
    pub protocol: ProtocolKind,
}

/// Protocol of the two ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolKind {
    /// TCP: whether its sender asks for ECN, and whether it asks for counts of CE (RFC 9768).
    Tcp {
        /// Whether it asks for ECN.
        ecn: bool,
        /// Whether it asks for AccECN.
        accurate: bool,
    },
    /// UDP whose payload says nothing.
    Udp,
    /// A transport whose datagrams have bytes of their own.
    Datagrams,
}

/// State of a sender; values that it does not report are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderSnapshot {
    /// Congestion window, bytes.
    pub cwnd: Option<u64>,
    /// Slow-start threshold, bytes.
    pub ssthresh: Option<u64>,
    /// Bytes in flight.
    pub in_flight: Option<u64>,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// Smallest RTT.
    pub min_rtt: Option<Duration>,
    /// Packets that it took for lost so far.
    pub lost: Option<u64>,
}

/// An event reported by a sender. A value that changes several times within one ACK or timer is reported once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ControlEvent {
    /// The congestion machine changed its state.
    State {
        /// Before.
        from: CaState,
        /// Now.
        to: CaState,
    },
    /// The control changed its own state, as [`Model`](crate::cc::Model) names it; "" before the first.
    Phase {
        /// Before.
        from: &'static str,
        /// Now.
        to: &'static str,
    },
    /// Slow start ended. Its time is on the sender's clock, which may run ahead.
    SlowStartExit(SlowStartExit),
    /// An ACK gave the control this sample.
    RateSample(RateSample),
    /// The flow is over: it was stopped, or all that it had is acknowledged.
    Ended,
}

/// Last reported state of a sender, by which changes are found.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    state: CaState,
    phase: &'static str,
    exit: Option<SlowStartExit>,
    ended: bool,
}

impl Default for Reported {
    /// Nothing yet.
    fn default() -> Reported {
        Reported { state: CaState::Open, phase: "", exit: None, ended: false }
    }
}

impl Reported {
    /// Reports the changes of a connection whose control is in `phase` and which may have `ended`, in the order of events.
    pub fn report_changes(&mut self, conn: &Conn, phase: &'static str, ended: bool, mut tell: impl FnMut(ControlEvent)) {
        let before = std::mem::replace(self, Reported { state: conn.state, phase, exit: conn.exits.last, ended });
        if let Some(exit) = conn.exits.last.filter(|_| before.exit != conn.exits.last) {
            tell(ControlEvent::SlowStartExit(exit));
        }
        if before.state != conn.state {
            tell(ControlEvent::State { from: before.state, to: conn.state });
        }
        if before.phase != phase {
            tell(ControlEvent::Phase { from: before.phase, to: phase });
        }
        if ended && !before.ended {
            tell(ControlEvent::Ended);
        }
    }
}

/// Listens to flows and their senders, too. Every method does nothing unless it is implemented.
pub trait Tap: Log {
    /// Returns the events that it receives, constant throughout a run: senders report changes only to listeners that receive them.
    #[inline]
    fn listen_level(&self) -> ListenLevel {
        ListenLevel::Packets
    }

    /// The sender of `flow`, numbered as [`Packet::flow`], reports an event, at `now` on the clock of its host.
    #[inline]
    fn on_control_event(&mut self, _flow: u32, _event: &ControlEvent, _now: Instant) {}

    /// The slot `flow`, as [`Packet::flow`] has it, belongs to another flow from now on.
    #[inline]
    fn on_flow_start(&mut self, _flow: u32, _beginning: &FlowStart) {}

    /// A sender sends the packet into the net, at `now` on the clock of the engine. [`Tap::on_snapshot`] follows.
    #[inline]
    fn on_send(&mut self, _packet: &Packet, _now: Instant) {}

    /// The packet reaches its receiver, at `now` on the clock of the engine.
    #[inline]
    fn on_delivery(&mut self, _packet: &Packet, _now: Instant) {}

    /// A receiver sends an acknowledgement or an answer, with its SACK blocks, at `now` on the clock of the engine.
    #[inline]
    fn on_send_ack(&mut self, _reply: &ReceiverReply, _blocks: &[Block], _now: Instant) {}

    /// An acknowledgement or an answer enters hops as this packet, whose number is free again when it has left them or was dropped.
    #[inline]
    fn on_pack_ack(&mut self, _packet: &Packet, _reply: &ReceiverReply, _blocks: &[Block]) {}

    /// An acknowledgement, or an answer, reaches its sender, with its SACK blocks, at `now` on the clock of the engine. [`Tap::on_snapshot`] follows.
    #[inline]
    fn on_ack(&mut self, _reply: &ReceiverReply, _blocks: &[Block], _now: Instant) {}

    /// The payload of a datagram of `flow` that was sent at this instant: of the packet with this number, or of the answer with this value.
    #[inline]
    fn on_payload(&mut self, _flow: u32, _number: u64, _is_answer: bool, _bytes: &[u8]) {}

    /// Receives the state of the sender of `flow` after an acknowledgement or a timer, at `now` on the clock of its host: the time of all that was posted and
    /// acknowledged since the last call. `tcp` is the sender, if it is one of TCP.
    #[inline]
    fn on_snapshot(&mut self, _flow: u32, _snapshot: &SenderSnapshot, _tcp: Option<&Sender>, _now: Instant) {}

    /// Returns a copy that goes on as the original does; a type that is `Clone` writes [`fork_by_clone!(dyn Tap + Send)`](crate::fork_by_clone).
    ///
    /// # Errors
    /// It cannot be copied, which is the default.
    fn fork(&self, _shared: &mut SharedCopies) -> Result<Box<dyn Tap + Send>, CannotFork> {
        Err(CannotFork::default())
    }
}

impl Fork for Box<dyn Tap + Send> {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        (**self).fork(shared)
    }
}

impl Fork for () {
    fn fork(&self, _shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        Ok(())
    }
}

/// Listens to nothing.
impl Tap for () {
    crate::fork_by_clone!(dyn Tap + Send);
}

/// Implements [`Tap`] by passing each event on to several taps in order.
macro_rules! tap_to {
    ($self:ident => $($tap:expr),+) => {
        $crate::log_to! { @events $self [$($tap),+]
            on_control_event(flow: u32, event: &ControlEvent, now: Instant);
            on_send(packet: &Packet, now: Instant);
            on_flow_start(flow: u32, start: &FlowStart);
            on_delivery(packet: &Packet, now: Instant);
            on_send_ack(reply: &ReceiverReply, blocks: &[Block], now: Instant);
            on_pack_ack(packet: &Packet, reply: &ReceiverReply, blocks: &[Block]);
            on_ack(reply: &ReceiverReply, blocks: &[Block], now: Instant);
            on_payload(flow: u32, number: u64, is_answer: bool, bytes: &[u8]);
            on_snapshot(flow: u32, snapshot: &SenderSnapshot, tcp: Option<&Sender>, now: Instant);
        }
        #[inline(always)]
        fn listen_level(&$self) -> ListenLevel {
            ListenLevel::Packets$(.max($tap.listen_level()))+
        }
    };
}

impl<A: Tap, B: Tap> Tap for (A, B) {
    tap_to!(self => self.0, self.1);
}

impl<T: Tap + ?Sized> Tap for &mut T {
    tap_to!(self => (**self));
}

impl<T: Tap + ?Sized> Tap for Box<T> {
    tap_to!(self => (**self));
}
