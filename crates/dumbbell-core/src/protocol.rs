//! Interface of senders other than TCP: datagrams in, datagrams and answers out, the next wake-up. The engine measures.
//!
//! UDP (`engine/udp.rs` of the simulator) is one; a program adds others by `Builder::endpoint` there, and stacks of QUIC come from libraries.

use crate::fork::{CannotFork, Fork, SharedCopies};
use crate::observe::SenderSnapshot;
use crate::packet::Ecn;
use crate::units::{Duration, Instant, Rate};

/// A packet on its way to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Whatever the sender numbers it with.
    pub number: u64,
    /// Bytes of the frame, headers included.
    pub length: u16,
    /// ECN field: what the sender gives it, and at the receiver what the net made of it.
    pub ecn: Ecn,
}

/// Answer that the receiver sends back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whatever it says.
    pub value: u64,
    /// Bytes of its frame, headers included.
    pub length: u16,
    /// ECN field: what the receiver gives it, and at the sender what the net made of it.
    pub ecn: Ecn,
}

/// Where a sender puts its datagrams.
pub trait DatagramOutlet {
    /// Sends it now.
    fn send(&mut self, datagram: Datagram);
}

/// Where a receiver puts its answers.
pub trait AnswerOutlet {
    /// Sends it now.
    fn answer(&mut self, answer: Answer);
}

/// Counters and state that a protocol reports. Counts only grow; values that it does not report are `None` or 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtocolStats {
    /// Payload that the receiver's application has, in order, bytes.
    pub received: u64,
    /// State of the sender.
    pub sender: SenderSnapshot,
    /// Pacing rate, bytes per second.
    pub pacing_rate: Option<u64>,
    /// Bytes of a datagram that carries as much as one can: windows are shown in these.
    pub segment: u64,
    /// Retransmissions of data that had arrived.
    pub spurious: Option<u64>,
    /// Reductions of the window.
    pub loss_reductions: Option<u64>,
    /// Probe timeouts.
    pub probes: Option<u64>,
    /// CE marks that the receiver reported.
    pub ce: Option<u64>,
}

/// Packets of an application whose fate is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketFate {
    /// Lost on the way.
    pub lost: u64,
    /// These and all that arrived.
    pub known: u64,
}

/// The part of an application that sets rates of shapers, on a clock of its own.
pub trait ShaperControl: Send {
    /// Time from one call of [`ShaperControl::control`] to the next.
    fn interval(&self) -> Duration;

    /// Returns the rates that the shapers have from `now` on, those of responses and of requests; that of a way without a shaper is ignored. `propagation` is that
    /// of one way, and `carried` the bytes that each shaper has let leave so far.
    fn control(&mut self, now: Instant, propagation: Duration, carried: [u64; 2]) -> [Rate; 2];

    /// Returns a copy that goes on as the original does; a type that is `Clone` writes [`fork_by_clone!(dyn ShaperControl)`](crate::fork_by_clone).
    ///
    /// # Errors
    /// It cannot be copied, which is the default.
    fn fork(&self, _shared: &mut SharedCopies) -> Result<Box<dyn ShaperControl>, CannotFork> {
        Err(CannotFork::default())
    }
}

impl Fork for Box<dyn ShaperControl> {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        (**self).fork(shared)
    }
}

/// Both ends of a protocol, sender and receiver of one flow. Time never goes back between calls. What is random must come from the seed of
/// its [`ProtocolContext`].
pub trait Protocol: Send {
    /// Starts the flow. To send at once, let [`Protocol::next_timer`] be `now`.
    fn start(&mut self, now: Instant);

    /// Stops the flow: it sends nothing from now on.
    fn stop(&mut self, now: Instant);

    /// When [`Protocol::on_timer`] is called next, [`Instant::NEVER`] for not at all. Asked after each other call.
    fn next_timer(&self) -> Instant;

    /// The time of [`Protocol::next_timer`] has come: the place to send. The next time is later, sooner or later.
    fn on_timer(&mut self, now: Instant, net: &mut dyn DatagramOutlet);

    /// A datagram reaches the receiver, which may answer it. Answers need `echo` in the configuration.
    fn on_datagram(&mut self, datagram: &Datagram, now: Instant) -> Option<Answer>;

    /// An answer reaches the sender, `rtt` after the last datagram left that had come when it was sent.
    fn on_answer(&mut self, answer: &Answer, rtt: Duration, now: Instant);

    /// [`Protocol::on_datagram`] for receivers that send more than one answer, or none of the kind.
    fn receive(&mut self, datagram: &Datagram, now: Instant, back: &mut dyn AnswerOutlet) {
        if let Some(answer) = self.on_datagram(datagram, now) {
            back.answer(answer);
        }
    }

    /// When [`Protocol::on_receiver_timer`] is called next; [`Instant::NEVER`] for receivers that only answer.
    fn receiver_timer(&self) -> Instant {
        Instant::NEVER
    }

    /// The time of [`Protocol::receiver_timer`] has come.
    fn on_receiver_timer(&mut self, _now: Instant, _back: &mut dyn AnswerOutlet) {}

    /// Returns its counters and state, if it is a transport.
    fn stats(&self) -> Option<ProtocolStats> {
        None
    }

    /// The payload of the datagram with this number, or of the answer with this value, which is under way; `None`: zeros.
    fn payload(&self, _number: u64, _is_answer: bool) -> Option<&[u8]> {
        None
    }

    /// A datagram has reached the receiver `delay` after it was sent, propagation included; called ahead of [`Protocol::receive`].
    fn on_delay(&mut self, _datagram: &Datagram, _delay: Duration, _now: Instant) {}

    /// The measured time of an application begins: discards what its receiver measured so far.
    fn forget(&mut self, _now: Instant) {}

    /// Returns the values of the measures of an application until `now`, in their order; NaN where there is none. `fate` counts the packets.
    fn figures(&self, _fate: PacketFate, _now: Instant) -> Vec<f64> {
        Vec::new()
    }

    /// Gives away the part that sets rates of shapers, if it is an application with one: once, from its responses.
    fn take_control(&mut self) -> Option<Box<dyn ShaperControl>> {
        None
    }

    /// Why it closed the connection before its end, in one line.
    fn close_reason(&self) -> Option<&str> {
        None
    }

    /// Returns a copy that goes on as the original does; a type that is `Clone` writes [`fork_by_clone!(dyn Protocol)`](crate::fork_by_clone).
    ///
    /// # Errors
    /// It cannot be copied, which is the default.
    fn fork(&self, _shared: &mut SharedCopies) -> Result<Box<dyn Protocol>, CannotFork> {
        Err(CannotFork::default())
    }
}

impl Fork for Box<dyn Protocol> {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        (**self).fork(shared)
    }
}

/// Which flow a protocol is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolContext {
    /// Seed of the run.
    pub seed: u64,
    /// Number in the run: `[[flows]]` come first, then `[[udp]]`.
    pub number: u64,
    /// Largest payload of a datagram, bytes: what a full frame of the hosts has room for.
    pub payload: u16,
    /// The hosts let it use ECN.
    pub ecn: bool,
    /// Payload that its application sends, bytes; `None`: without end.
    pub size: Option<u64>,
    /// How fast the application writes; `None`: as fast as it can.
    pub app_rate: Option<Rate>,
}
