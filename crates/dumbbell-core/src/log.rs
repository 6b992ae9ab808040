//! Events of a bottleneck, and who listens to them.
//!
//! Queue disciplines and bottlenecks report what happens to every packet to a [`Log`]. Counters, histograms and captures are
//! logs; a queue discipline knows none of them. Logs are generic parameters: an event that nobody listens to costs nothing.

use crate::aqm::FlowKey;
use crate::cc::exit::ControlEvent;
use crate::packet::{Ecn, Packet};
use crate::tcp::sender::Sender;
use crate::tcp::{Ack, BackEcn, Block};
use crate::units::Time;

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The queue was full.
    Overflow,
    /// The AQM decided to.
    Aqm,
    /// Random loss on the path.
    Loss,
    /// A policer: the packet did not conform to its rate.
    Policer,
    /// A filter: a newer acknowledgement says all that it said.
    Filter,
}

impl DropReason {
    /// Its name, as qlog and columns have it.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Overflow => "overflow",
            DropReason::Aqm => "aqm",
            DropReason::Loss => "loss",
            DropReason::Policer => "policer",
            DropReason::Filter => "filter",
        }
    }
}

/// Where a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropSite {
    /// On arrival at the queue: no [`Log::on_enqueue`] came before.
    Arrival,
    /// In the queue: it had been enqueued.
    Queue,
    /// On the path ahead of the bottleneck: no [`Log::on_arrival`] came before.
    Ahead,
    /// On the path behind the bottleneck: it had departed.
    Behind,
}

impl DropSite {
    /// Its name, as qlog has it.
    pub const fn name(self) -> &'static str {
        match self {
            DropSite::Arrival => "arrival",
            DropSite::Queue => "queue",
            DropSite::Ahead => "ahead",
            DropSite::Behind => "behind",
        }
    }

    /// The same in a sentence, and in columns.
    pub const fn phrase(self) -> &'static str {
        match self {
            DropSite::Arrival => "on arrival",
            DropSite::Queue => "in the queue",
            DropSite::Ahead => "ahead of the queue",
            DropSite::Behind => "behind the link",
        }
    }
}

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Congestion experienced.
    Ce,
    /// Some congestion experienced: ECT(0) became ECT(1).
    Sce,
}

impl Mark {
    /// Its name, as qlog has it.
    pub const fn name(self) -> &'static str {
        match self {
            Mark::Ce => "ce",
            Mark::Sce => "sce",
        }
    }

    /// The same in a sentence, and in columns.
    pub const fn phrase(self) -> &'static str {
        match self {
            Mark::Ce => "CE",
            Mark::Sce => "SCE",
        }
    }
}

/// Why a packet was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkReason {
    /// The control law of the AQM.
    Aqm,
    /// The packet waited, or the queue grew, beyond a fixed threshold.
    Step,
    /// The probability is coupled to that of another internal queue (RFC 9332).
    Coupled,
    /// A probability that rises with the delay, as that of SCE marks.
    Ramp,
}

impl MarkReason {
    /// Its name, as qlog and columns have it.
    pub const fn name(self) -> &'static str {
        match self {
            MarkReason::Aqm => "aqm",
            MarkReason::Step => "step",
            MarkReason::Coupled => "coupled",
            MarkReason::Ramp => "ramp",
        }
    }
}

/// When an event happened, and in which internal queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The time.
    pub now: Time,
    /// Number of the internal queue: the flow queue of FQ disciplines, the tin of Cake, 0 where there is only one.
    pub queue: u32,
}

impl At {
    /// At `now`, in a discipline with one queue.
    #[inline]
    pub fn time(now: Time) -> At {
        At { now, queue: 0 }
    }
}

/// What a listener wants to hear in addition to what happens to packets. Each wants what is before it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListenLevel {
    /// Nothing.
    Packets,
    /// Flows that begin, and every frame at both ends: what is sent and what arrives, with what it says.
    Frames,
    /// What senders tell, without rate samples.
    Controls,
    /// Rate samples.
    RateSamples,
    /// What a sender believes after an acknowledgement or a timer.
    Snapshots,
}

/// A flow that begins: who it is, and what its ends are like.
#[derive(Clone, Copy, Debug)]
pub struct FlowStart {
    /// Its number in the run.
    pub number: u32,
    /// By how much the clock of the engine is ahead of its sender's.
    pub ahead: Time,
    /// By how much it is behind its receiver's.
    pub behind: Time,
    /// Who is on the left, as source, and who on the right.
    pub key: FlowKey,
    /// Its data go up, from the right to the left.
    pub up: bool,
    /// Codepoints of what its receiver sends.
    pub back_ecn: BackEcn,
    /// What its ends speak.
    pub protocol: ProtocolKind,
}

/// What the two ends of a flow speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolKind {
    /// TCP: whether its sender asks for ECN, and whether it asks for counts of CE (RFC 9768).
    Tcp {
        /// It asks for ECN.
        ecn: bool,
        /// It asks for AccECN.
        accurate: bool,
    },
    /// UDP whose payload says nothing.
    Udp,
    /// A transport whose datagrams have bytes of their own.
    Datagrams,
}

/// What a sender believes; what it does not tell is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderSnapshot<'a> {
    /// Congestion window, bytes.
    pub cwnd: Option<u64>,
    /// Slow-start threshold, bytes.
    pub ssthresh: Option<u64>,
    /// Bytes in flight.
    pub in_flight: Option<u64>,
    /// Smoothed RTT.
    pub srtt: Option<Time>,
    /// Smallest RTT.
    pub min_rtt: Option<Time>,
    /// Packets that it took for lost so far.
    pub lost: Option<u64>,
    /// All the rest, of TCP.
    pub tcp: Option<&'a Sender>,
}

/// Listens to the events of a bottleneck. Every method does nothing unless it is implemented.
///
/// A packet that enters the bottleneck causes these events, in this order: [`Log::on_arrival`]; [`Log::on_mark`] at most once for each kind of mark, anywhere before
/// [`Log::on_dequeue`]; either [`Log::on_drop`] on arrival, or [`Log::on_enqueue`] and then `on_drop` from the queue or `on_dequeue` and [`Log::on_departure`]. On the path ahead of it
/// and behind it, it may be dropped, too. Queue disciplines report enqueueing, marks, drops and dequeueing, each at the moment when it happens.
pub trait Log {
    /// The packet reached the bottleneck.
    #[inline]
    fn on_arrival(&mut self, _packet: &Packet, _now: Time) {}

    /// The queue accepted the packet.
    #[inline]
    fn on_enqueue(&mut self, _packet: &Packet, _at: At) {}

    /// The queue gave the packet to the link. It had been queued since [`Packet::enqueue_time`].
    #[inline]
    fn on_dequeue(&mut self, _packet: &Packet, _at: At) {}

    /// The last bit of the packet left the link.
    #[inline]
    fn on_departure(&mut self, _packet: &Packet, _now: Time) {}

    /// A packet for which queue and link are idle arrives at `now`, is enqueued, sent at once and has left the link at `leaves`, and nothing else
    /// happens meanwhile. Who counts may do all of it in one.
    #[inline]
    fn on_bypass(&mut self, packet: &Packet, now: Time, leaves: Time) {
        self.on_arrival(packet, now);
        self.on_enqueue(packet, At::time(now));
        self.on_dequeue(packet, At::time(now));
        self.on_departure(packet, leaves);
    }

    /// The queue marked the packet, which had the codepoint `before`. `before` is CE if the mark changed nothing.
    #[inline]
    fn on_mark(&mut self, _packet: &Packet, _before: Ecn, _mark: Mark, _reason: MarkReason, _at: At) {}

    /// The packet was dropped.
    #[inline]
    fn on_drop(&mut self, _packet: &Packet, _reason: DropReason, _place: DropSite, _at: At) {}

    /// A router on the path, and not the queue, is about to clear the codepoint of the packet.
    #[inline]
    fn on_clear_ecn(&mut self, _packet: &Packet, _now: Time) {}

    /// What it wants to hear. The same throughout a run: senders are asked what is new only for listeners that want it.
    #[inline]
    fn listen_level(&self) -> ListenLevel {
        ListenLevel::Packets
    }

    /// The sender of `flow`, numbered as [`Packet::flow`], tells something, at `now` on the clock of its host.
    #[inline]
    fn on_control_event(&mut self, _flow: u32, _event: &ControlEvent, _now: Time) {}

    /// The slot `flow`, as [`Packet::flow`] has it, belongs to another flow from now on.
    #[inline]
    fn on_flow_start(&mut self, _flow: u32, _beginning: &FlowStart) {}

    /// A sender sends the packet into the net, at `now` on the clock of the engine. [`Log::on_snapshot`] follows.
    #[inline]
    fn on_send(&mut self, _packet: &Packet, _now: Time) {}

    /// The packet reaches its receiver, at `now` on the clock of the engine.
    #[inline]
    fn on_delivery(&mut self, _packet: &Packet, _now: Time) {}

    /// A receiver sends an acknowledgement or an answer, with its SACK blocks, at `now` on the clock of the engine.
    #[inline]
    fn on_send_ack(&mut self, _ack: &Ack, _blocks: &[Block], _now: Time) {}

    /// An acknowledgement or an answer enters hops as this packet, whose number is free again when it has left them or was dropped.
    #[inline]
    fn on_pack_ack(&mut self, _packet: &Packet, _ack: &Ack, _blocks: &[Block]) {}

    /// An acknowledgement, or an answer, reaches its sender, with its SACK blocks, at `now` on the clock of the engine. [`Log::on_snapshot`] follows.
    #[inline]
    fn on_ack(&mut self, _ack: &Ack, _blocks: &[Block], _now: Time) {}

    /// The payload of a datagram of `flow` that was sent at this instant: of the packet with this number, or of the answer with this value.
    #[inline]
    fn on_payload(&mut self, _flow: u32, _number: u64, _is_answer: bool, _bytes: &[u8]) {}

    /// What the sender of `flow` believes after an acknowledgement or a timer, at `now` on the clock of its host: the time of all that was posted and
    /// acknowledged since the last call.
    #[inline]
    fn on_snapshot(&mut self, _flow: u32, _belief: &SenderSnapshot<'_>, _now: Time) {}

    /// What an acknowledgement that waits in a queue as a packet says, for filters: itself, and its SACK blocks. `None` of all other packets,
    /// and of a listener that does not know.
    #[inline]
    fn find_ack(&self, _packet: &Packet) -> Option<(&Ack, &[Block])> {
        None
    }

    /// Sets CE on `packet` if it is ECN-capable, and reports the mark. Returns whether the packet is CE now.
    #[inline]
    fn set_ce(&mut self, packet: &mut Packet, reason: MarkReason, at: At) -> bool {
        let before = packet.ecn;
        let marked = packet.set_ce();
        if marked {
            self.on_mark(packet, before, Mark::Ce, reason, at);
        }
        marked
    }
}

/// Listens to nothing.
impl Log for () {}

/// Implements [`Log`] by passing each event on to several logs in order: `log_to!(self => self.first, self.second)`.
#[macro_export]
macro_rules! log_to {
    ($self:ident => $($log:expr),+ $(,)?) => {
        $crate::log_to! { @events $self [$($log),+]
            on_arrival(packet: &$crate::packet::Packet, now: $crate::units::Time);
            on_enqueue(packet: &$crate::packet::Packet, at: $crate::log::At);
            on_dequeue(packet: &$crate::packet::Packet, at: $crate::log::At);
            on_departure(packet: &$crate::packet::Packet, now: $crate::units::Time);
            on_bypass(packet: &$crate::packet::Packet, now: $crate::units::Time, leaves: $crate::units::Time);
            on_mark(packet: &$crate::packet::Packet, before: $crate::packet::Ecn, mark: $crate::log::Mark, reason: $crate::log::MarkReason, at: $crate::log::At);
            on_drop(packet: &$crate::packet::Packet, reason: $crate::log::DropReason, site: $crate::log::DropSite, at: $crate::log::At);
            on_clear_ecn(packet: &$crate::packet::Packet, now: $crate::units::Time);
            on_control_event(flow: u32, event: &$crate::cc::exit::ControlEvent, now: $crate::units::Time);
            on_send(packet: &$crate::packet::Packet, now: $crate::units::Time);
            on_flow_start(flow: u32, start: &$crate::log::FlowStart);
            on_delivery(packet: &$crate::packet::Packet, now: $crate::units::Time);
            on_send_ack(ack: &$crate::tcp::Ack, blocks: &[$crate::tcp::Block], now: $crate::units::Time);
            on_pack_ack(packet: &$crate::packet::Packet, ack: &$crate::tcp::Ack, blocks: &[$crate::tcp::Block]);
            on_ack(ack: &$crate::tcp::Ack, blocks: &[$crate::tcp::Block], now: $crate::units::Time);
            on_payload(flow: u32, number: u64, is_answer: bool, bytes: &[u8]);
            on_snapshot(flow: u32, snapshot: &$crate::log::SenderSnapshot<'_>, now: $crate::units::Time);
        }
        #[inline(always)]
        fn listen_level(&$self) -> $crate::log::ListenLevel {
            $crate::log::ListenLevel::Packets$(.max($log.listen_level()))+
        }
        #[inline]
        fn find_ack(&$self, packet: &$crate::packet::Packet) -> Option<(&$crate::tcp::Ack, &[$crate::tcp::Block])> {
            None$(.or_else(|| $log.find_ack(packet)))+
        }
    };
    (@events $self:ident $logs:tt $($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        #[inline(always)]
        fn $name(&mut $self, $($arg: $type),*) {
            $crate::log_to!(@call $logs $name ($($arg),*));
        }
    )* };
    (@call [$($log:expr),+] $name:ident $args:tt) => { $( $log.$name $args; )+ };
}

impl<A: Log, B: Log> Log for (A, B) {
    log_to!(self => self.0, self.1);
}

impl<L: Log + ?Sized> Log for &mut L {
    log_to!(self => (**self));
}

impl<L: Log + ?Sized> Log for Box<L> {
    log_to!(self => (**self));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::testing::packet;

    /// Writes down the marks that it hears of.
    #[derive(Default)]
    struct Marks(Vec<(Ecn, Mark, MarkReason, u32)>);

    impl Log for Marks {
        fn on_mark(&mut self, _packet: &Packet, before: Ecn, mark: Mark, reason: MarkReason, at: At) {
            self.0.push((before, mark, reason, at.queue));
        }
    }

    #[test]
    fn a_pair_passes_every_event_on() {
        // the default of a method that is missing in the list does nothing, and no compiler says so
        let text = include_str!("log.rs");
        let after = |from: &str| text.split(from).nth(1).and_then(|rest| rest.split("\n}\n").next()).expect("it is there");
        let (declared, passed) = (after("pub trait Log {"), after("macro_rules! log_to {"));
        let names: Vec<&str> = declared.split("    fn ").skip(1).filter_map(|rest| rest.split('(').next()).collect();
        assert!(names.len() > 15, "{names:?}");
        for name in names.into_iter().filter(|&name| name != "set_ce") {
            assert!(passed.contains(&format!(" {name}(")), "{name}");
        }
    }

    #[test]
    fn both_logs_of_a_pair_hear_of_a_mark() {
        let mut first = Marks::default();
        let mut pair = (&mut first, Marks::default());
        let at = At { now: Time::ZERO, queue: 3 };
        let mut of = |ecn| {
            let mut one = packet(0, ecn);
            (pair.set_ce(&mut one, MarkReason::Step, at), one.ecn)
        };
        assert_eq!(of(Ecn::Ect0), (true, Ecn::Ce));
        assert_eq!(of(Ecn::Ce), (true, Ecn::Ce));
        // not capable: no mark, and no event
        assert_eq!(of(Ecn::NotEct), (false, Ecn::NotEct));
        let heard = vec![(Ecn::Ect0, Mark::Ce, MarkReason::Step, 3), (Ecn::Ce, Mark::Ce, MarkReason::Step, 3)];
        assert_eq!(pair.1 .0, heard);
        assert_eq!(first.0, heard);
    }
}
