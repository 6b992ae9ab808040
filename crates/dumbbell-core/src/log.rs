//! Events of a bottleneck, and who listens to them.
//!
//! Queue disciplines and bottlenecks report what happens to every packet to a [`Log`]. Counters, histograms and captures are
//! logs; a queue discipline knows none of them. Logs are generic parameters: an event without a listener costs nothing.

use crate::packet::{Ecn, Packet};
use crate::tcp::{Ack, Block};
use crate::units::Instant;

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
    /// Another queue discipline replaced the one in which the packet lay.
    Replaced,
}

impl DropReason {
    /// Returns its name in qlog and columns.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Overflow => "overflow",
            DropReason::Aqm => "aqm",
            DropReason::Loss => "loss",
            DropReason::Policer => "policer",
            DropReason::Filter => "filter",
            DropReason::Replaced => "replaced",
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
    /// Returns its name in qlog.
    pub const fn name(self) -> &'static str {
        match self {
            DropSite::Arrival => "arrival",
            DropSite::Queue => "queue",
            DropSite::Ahead => "ahead",
            DropSite::Behind => "behind",
        }
    }

    /// Returns its name in sentences and columns.
    pub const fn phrase(self) -> &'static str {
        match self {
            DropSite::Arrival => "on arrival",
            DropSite::Queue => "in the queue",
            DropSite::Ahead => "ahead of the queue",
            DropSite::Behind => "behind the link",
        }
    }
}

/// Kind of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Congestion experienced.
    Ce,
    /// Some congestion experienced: ECT(0) became ECT(1).
    Sce,
}

impl Mark {
    /// Returns its name in qlog.
    pub const fn name(self) -> &'static str {
        match self {
            Mark::Ce => "ce",
            Mark::Sce => "sce",
        }
    }

    /// Returns its name in sentences and columns.
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
    /// Returns its name in qlog and columns.
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
    pub now: Instant,
    /// Number of the internal queue: the flow queue of FQ disciplines, the tin of Cake, 0 where there is only one.
    pub queue: u32,
}

impl At {
    /// At `now`, in a discipline with one queue.
    #[inline]
    pub fn time(now: Instant) -> At {
        At { now, queue: 0 }
    }
}

/// The acknowledgements that wait in queues as packets.
pub trait AckLookup {
    /// The acknowledgement that travels as `packet`, and its SACK blocks. `None` for all other packets.
    fn find_ack(&self, packet: &Packet) -> Option<(&Ack, &[Block])>;
}

/// Listens to the events of a bottleneck. Every method does nothing unless it is implemented.
///
/// A packet that enters the bottleneck causes these events, in this order: [`Log::on_arrival`]; [`Log::on_mark`] at most once for each kind of mark, anywhere before
/// [`Log::on_dequeue`]; either [`Log::on_drop`] on arrival, or [`Log::on_enqueue`] and then `on_drop` from the queue or `on_dequeue` and [`Log::on_departure`]. On the path ahead of it
/// and behind it, it may be dropped, too. Queue disciplines report enqueueing, marks, drops and dequeueing, each at the moment when it happens.
pub trait Log {
    /// The packet reached the bottleneck.
    #[inline]
    fn on_arrival(&mut self, _packet: &Packet, _now: Instant) {}

    /// The queue accepted the packet.
    #[inline]
    fn on_enqueue(&mut self, _packet: &Packet, _at: At) {}

    /// The queue gave the packet to the link. It had been queued since [`Packet::enqueue_time`].
    #[inline]
    fn on_dequeue(&mut self, _packet: &Packet, _at: At) {}

    /// The last bit of the packet left the link.
    #[inline]
    fn on_departure(&mut self, _packet: &Packet, _now: Instant) {}

    /// A packet that arrived at its [`Packet::enqueue_time`] is enqueued, given to the link at `start`, and has left it at `leaves`: all of that is
    /// known when it arrives. A log that counts may count all of it at once.
    #[inline]
    fn on_pass(&mut self, packet: &Packet, start: Instant, leaves: Instant) {
        self.on_arrival(packet, packet.enqueue_time);
        self.on_enqueue(packet, At::time(packet.enqueue_time));
        self.on_dequeue(packet, At::time(start));
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
    fn on_clear_ecn(&mut self, _packet: &Packet, _now: Instant) {}

    /// The contents of the acknowledgements that wait in queues as packets, for filters, if this log knows them.
    #[inline]
    fn acks(&self) -> Option<&dyn AckLookup> {
        None
    }

    /// Sets CE on `packet` if it is ECN-capable, and reports the mark. Returns whether the packet is CE now.
    #[inline(always)]
    fn set_ce(&mut self, packet: &mut Packet, reason: MarkReason, at: At) -> bool {
        let before = packet.ecn();
        let marked = packet.set_ce();
        if marked {
            // a copy: one that is given away by its address lies in memory on every other way, too
            let copy = *packet;
            self.on_mark(&copy, before, Mark::Ce, reason, at);
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
            on_arrival(packet: &$crate::packet::Packet, now: $crate::units::Instant);
            on_enqueue(packet: &$crate::packet::Packet, at: $crate::log::At);
            on_dequeue(packet: &$crate::packet::Packet, at: $crate::log::At);
            on_departure(packet: &$crate::packet::Packet, now: $crate::units::Instant);
            on_pass(packet: &$crate::packet::Packet, start: $crate::units::Instant, leaves: $crate::units::Instant);
            on_mark(packet: &$crate::packet::Packet, before: $crate::packet::Ecn, mark: $crate::log::Mark, reason: $crate::log::MarkReason, at: $crate::log::At);
            on_drop(packet: &$crate::packet::Packet, reason: $crate::log::DropReason, site: $crate::log::DropSite, at: $crate::log::At);
            on_clear_ecn(packet: &$crate::packet::Packet, now: $crate::units::Instant);
        }
        #[inline]
        fn acks(&$self) -> Option<&dyn $crate::log::AckLookup> {
            None$(.or_else(|| $log.acks()))+
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

    /// Records the marks that are reported to it.
    #[derive(Default)]
    struct Marks(Vec<(Ecn, Mark, MarkReason, u32)>);

    impl Log for Marks {
        fn on_mark(&mut self, _packet: &Packet, before: Ecn, mark: Mark, reason: MarkReason, at: At) {
            self.0.push((before, mark, reason, at.queue));
        }
    }

    #[test]
    fn a_pair_passes_every_event_on() {
        // the default of a method that is missing in the list does nothing, and no compiler says so; that of `fork` refuses
        for (text, declares, passes) in [
            (include_str!("log.rs"), "pub trait Log {", "macro_rules! log_to {"),
            (include_str!("observe.rs"), "pub trait Tap: Log {", "macro_rules! tap_to {"),
        ] {
            let after = |from: &str| text.split(from).nth(1).and_then(|rest| rest.split("\n}\n").next()).expect("it is there");
            let (declared, passed) = (after(declares), after(passes));
            let names: Vec<&str> = declared.split("    fn ").skip(1).filter_map(|rest| rest.split('(').next()).collect();
            assert!(names.len() >= 10, "{names:?}");
            for name in names.into_iter().filter(|name| !["set_ce", "fork"].contains(name)) {
                assert!(passed.contains(&format!(" {name}(")), "{name}");
            }
        }
    }

    #[test]
    fn both_logs_of_a_pair_hear_of_a_mark() {
        let mut first = Marks::default();
        let mut pair = (&mut first, Marks::default());
        let at = At { now: Instant::ZERO, queue: 3 };
        let mut of = |ecn| {
            let mut one = packet(0, ecn);
            (pair.set_ce(&mut one, MarkReason::Step, at), one.ecn())
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
