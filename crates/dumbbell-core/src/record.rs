//! Counters of a bottleneck: logs of its events, per queue, per flow and class, and per internal queue.

use crate::hint::seldom;
use crate::histogram::Histogram;
use crate::log::{At, DropReason, DropSite, Log, Mark, MarkReason};
use crate::log_to;
use crate::packet::{Ecn, Packet};
use crate::prefetch::{prefetch, prefetch_part};
use crate::slots::SlotTable;
use crate::units::Instant;

/// Gives counters that only grow a method for what was counted since an earlier copy of them: `counted_after!(Name: every, field)`.
#[macro_export]
macro_rules! counted_after {
    ($name:ident: $($field:ident),+ $(,)?) => {
        impl $name {
            /// Returns the counts since `before`.
            pub fn subtract(&self, before: &$name) -> $name {
                $name { $($field: self.$field - before.$field,)+ }
            }
        }
    };
}

/// Counters of one flow at the bottleneck, packets. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounters {
    /// Reached the bottleneck.
    pub arrived: u64,
    /// Left the link towards the receiver.
    pub departed: u64,
    /// Time that packets spent in the queue, of those that it sent, ns.
    pub sojourn_ns: u64,
    /// Dropped by the queue because it was full.
    pub dropped_overflow: u64,
    /// Dropped by the AQM, by a filter, or because another queue discipline replaced the one in which they lay.
    pub dropped_aqm: u64,
    /// Packets that the queue turned into CE.
    pub ce: u64,
    /// Packets that the queue turned into SCE.
    pub sce: u64,
    /// Packets that were CE when they were dropped, or when a router cleared their codepoint.
    pub ce_dropped: u64,
    /// Packets that the queue turned into SCE and dropped afterwards, or a router cleared.
    ///
    /// This looks at the codepoint only. It is exact as long as a flow sends one of ECT(0) and ECT(1) and not both, as every
    /// transport does.
    pub sce_dropped: u64,
    /// Lost on the path ahead of the bottleneck.
    pub lost_ahead: u64,
    /// Lost on the path behind the bottleneck.
    pub lost_behind: u64,
    /// Lost on the paths from one hop to the next, with several hops.
    pub lost_between: u64,
}

crate::counted_after!(FlowCounters: arrived, departed, sojourn_ns, dropped_overflow, dropped_aqm, ce, sce, ce_dropped, sce_dropped, lost_ahead, lost_behind, lost_between);

impl FlowCounters {
    /// Packets that left the bottleneck or were dropped there.
    pub fn count_finished(&self) -> u64 {
        self.departed + self.dropped_overflow + self.dropped_aqm + self.lost_between
    }

    /// The counters of hops one after the other as those of one: what arrives at the first and departs from the last.
    pub fn then(self, next: &FlowCounters) -> FlowCounters {
        FlowCounters {
            arrived: self.arrived,
            departed: next.departed,
            sojourn_ns: self.sojourn_ns + next.sojourn_ns,
            dropped_overflow: self.dropped_overflow + next.dropped_overflow,
            dropped_aqm: self.dropped_aqm + next.dropped_aqm,
            ce: self.ce + next.ce,
            sce: self.sce + next.sce,
            ce_dropped: self.ce_dropped + next.ce_dropped,
            sce_dropped: self.sce_dropped + next.sce_dropped,
            lost_ahead: self.lost_ahead,
            lost_behind: next.lost_behind,
            lost_between: self.lost_between + self.lost_behind + next.lost_ahead,
        }
    }

    /// Packets that queues dropped.
    pub fn count_dropped(&self) -> u64 {
        self.dropped_overflow + self.dropped_aqm
    }

    /// Packets that were dropped anywhere between sender and receiver.
    pub fn count_lost(&self) -> u64 {
        self.lost_ahead + self.dropped_overflow + self.dropped_aqm + self.lost_between + self.lost_behind
    }

    /// Packets in the queue and on the wire.
    pub fn count_queued(&self) -> u64 {
        self.arrived.saturating_sub(self.count_finished())
    }
}

/// Counters that every packet of a flow changes: half a cache line, since with thousands of flows each line counts.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Passed {
    arrived: u64,
    departed: u64,
    sojourn_ns: u64,
    class: u16,
}

/// Marks and drops of a flow, as in [`FlowCounters`].
#[derive(Clone, Copy, Debug, Default)]
struct Signals {
    dropped_overflow: u64,
    dropped_aqm: u64,
    ce: u64,
    sce: u64,
    ce_dropped: u64,
    sce_dropped: u64,
    lost_ahead: u64,
    lost_behind: u64,
}

impl Signals {
    /// `packet` goes, or its codepoint.
    #[inline]
    fn loses_mark(&mut self, packet: &Packet) {
        self.ce_dropped += u64::from(packet.ecn() == Ecn::Ce);
        // Only what was ECT(0) becomes SCE: a flow that sends ECT(1) itself has no SCE marks, one that has them sends ECT(0).
        self.sce_dropped += u64::from(packet.ecn() == Ecn::Ect1 && self.sce > 0);
    }
}

/// Counts per flow, and the time in queue of each packet that the queue sent, by class of its flow.
#[derive(Clone, Debug, Default)]
pub struct FlowLog {
    passed: SlotTable<Passed>,
    signals: SlotTable<Signals>,
    /// Time in queue per class.
    pub sojourn: Vec<Histogram>,
}

impl FlowLog {
    /// For flows of `classes` classes.
    pub fn new(classes: usize) -> FlowLog {
        FlowLog { sojourn: vec![Histogram::default(); classes], ..FlowLog::default() }
    }

    /// From now on, the flow in `slot` belongs to `class`.
    pub fn flow_starts(&mut self, slot: u32, class: u16) {
        self.passed.entry(slot).class = class;
    }

    /// A packet of the flow in `slot` will soon be counted.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        if let Some(passed) = self.passed.get(slot) {
            prefetch(passed);
        }
    }

    /// Counters of the flow in `slot`; zero if it has sent nothing.
    pub fn flow_counters(&self, slot: u32) -> FlowCounters {
        let Passed { arrived, departed, sojourn_ns, .. } = self.passed.get(slot).copied().unwrap_or_default();
        let Signals { dropped_overflow, dropped_aqm, ce, sce, ce_dropped, sce_dropped, lost_ahead, lost_behind } =
            self.signals.get(slot).copied().unwrap_or_default();
        FlowCounters {
            arrived,
            departed,
            sojourn_ns,
            dropped_overflow,
            dropped_aqm,
            ce,
            sce,
            ce_dropped,
            sce_dropped,
            lost_ahead,
            lost_behind,
            lost_between: 0,
        }
    }

    /// All counters of the flow in `slot` will be needed soon.
    #[inline]
    pub fn prefetch_all(&self, slot: u32) {
        if let (Some(passed), Some(signals)) = (self.passed.get(slot), self.signals.get(slot)) {
            prefetch_part(passed, 0, size_of::<Passed>());
            prefetch_part(signals, 0, size_of::<Signals>());
        }
    }

    /// Counts from zero on: the slot is given to another flow.
    pub fn forget(&mut self, slot: u32) {
        *self.passed.entry(slot) = Passed::default();
        *self.signals.entry(slot) = Signals::default();
    }

    /// Counters of every slot.
    pub fn iter(&self) -> impl Iterator<Item = FlowCounters> + '_ {
        (0..).zip(self.passed.iter()).map(|(slot, _)| self.flow_counters(slot))
    }
}

impl Log for FlowLog {
    #[inline(always)]
    fn on_arrival(&mut self, packet: &Packet, _now: Instant) {
        self.passed.entry(packet.flow).arrived += 1;
    }

    #[inline(always)]
    fn on_dequeue(&mut self, packet: &Packet, at: At) {
        let sojourn = at.now - packet.enqueue_time;
        let flow = self.passed.entry(packet.flow);
        flow.sojourn_ns += sojourn.0;
        match self.sojourn.get_mut(usize::from(flow.class)) {
            Some(of_class) => of_class.record(sojourn),
            None => seldom(),
        }
    }

    #[inline(always)]
    fn on_departure(&mut self, packet: &Packet, _now: Instant) {
        self.passed.entry(packet.flow).departed += 1;
    }

    #[inline(always)]
    fn on_pass(&mut self, packet: &Packet, start: Instant, _leaves: Instant) {
        let sojourn = start - packet.enqueue_time;
        let flow = self.passed.entry(packet.flow);
        flow.arrived += 1;
        flow.departed += 1;
        flow.sojourn_ns += sojourn.0;
        match self.sojourn.get_mut(usize::from(flow.class)) {
            Some(of_class) => of_class.record(sojourn),
            None => seldom(),
        }
    }

    /// A packet that a queue turned into SCE does not become CE in the same queue: one that sets SCE sets CE first, judges a packet once
    /// and when it leaves. So SCE marks are conserved: set = received + dropped + queued.
    #[inline]
    fn on_mark(&mut self, packet: &Packet, before: Ecn, mark: Mark, _reason: MarkReason, _at: At) {
        let flow = self.signals.entry(packet.flow);
        match mark {
            Mark::Ce => flow.ce += u64::from(before != Ecn::Ce),
            Mark::Sce => flow.sce += 1,
        }
    }

    #[inline]
    fn on_drop(&mut self, packet: &Packet, reason: DropReason, place: DropSite, _at: At) {
        let flow = self.signals.entry(packet.flow);
        match place {
            DropSite::Ahead => return flow.lost_ahead += 1,
            DropSite::Behind => return flow.lost_behind += 1,
            DropSite::Arrival | DropSite::Queue => {}
        }
        flow.loses_mark(packet);
        match reason {
            DropReason::Overflow => flow.dropped_overflow += 1,
            _ => flow.dropped_aqm += 1,
        }
    }

    fn on_clear_ecn(&mut self, packet: &Packet, _now: Instant) {
        self.signals.entry(packet.flow).loses_mark(packet);
    }
}

/// Counters of the whole bottleneck. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets that the queue gave to the link.
    pub sent: u64,
    /// Time that these spent in the queue, ns.
    pub sojourn_ns: u64,
    /// Packets that left the link.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Bytes that these took on the link beyond that, for headers and cells of the link layer; negative where its headers are shorter.
    pub link_layer_bytes: i64,
    /// Bytes that the link has carried, parts of packets included, when this was last settled.
    pub carried_bytes: i64,
    /// Bytes that the link could carry less than its rate says, when this was last settled.
    pub lost_bytes: i64,
    /// CE marks, including those set on packets that were CE already, as Linux counts them.
    pub ce_marks: u64,
    /// SCE marks.
    pub sce_marks: u64,
    /// Drops because the queue was full.
    pub drops_overflow: u64,
    /// Drops by the AQM, by a filter, and of what lay in a queue discipline that another one replaced.
    pub drops_aqm: u64,
}

crate::counted_after!(QueueCounters: sent, sojourn_ns, packets, bytes, link_layer_bytes, carried_bytes, lost_bytes, ce_marks, sce_marks, drops_overflow, drops_aqm);

impl QueueCounters {
    /// Bytes that the packets that left took on the link.
    pub fn line_bytes(&self) -> i64 {
        self.bytes as i64 + self.link_layer_bytes
    }
}

impl Log for QueueCounters {
    #[inline(always)]
    fn on_dequeue(&mut self, packet: &Packet, at: At) {
        self.sent += 1;
        self.sojourn_ns += (at.now - packet.enqueue_time).0;
    }

    #[inline(always)]
    fn on_departure(&mut self, packet: &Packet, _now: Instant) {
        self.packets += 1;
        self.bytes += u64::from(packet.len);
    }

    #[inline(always)]
    fn on_pass(&mut self, packet: &Packet, start: Instant, leaves: Instant) {
        self.sent += 1;
        self.sojourn_ns += (start - packet.enqueue_time).0;
        self.on_departure(packet, leaves);
    }

    #[inline]
    fn on_mark(&mut self, _packet: &Packet, _before: Ecn, mark: Mark, _reason: MarkReason, _at: At) {
        match mark {
            Mark::Ce => self.ce_marks += 1,
            Mark::Sce => self.sce_marks += 1,
        }
    }

    #[inline]
    fn on_drop(&mut self, _packet: &Packet, reason: DropReason, place: DropSite, _at: At) {
        match (place, reason) {
            (DropSite::Ahead | DropSite::Behind, _) => {}
            (_, DropReason::Overflow) => self.drops_overflow += 1,
            _ => self.drops_aqm += 1,
        }
    }
}

/// Bytes that a link was given until it was last settled.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkUse {
    /// Bytes on the link of all packets that the queue gave it.
    pub bytes: u64,
    /// Most bytes of these that it may owe, beyond one packet.
    pub ahead: u64,
}

/// Counters of one internal queue, packets. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InternalCounters {
    /// Given to the link.
    pub packets: u64,
    /// Time that these spent in the queue, ns.
    pub sojourn_ns: u64,
    /// CE marks.
    pub ce_marks: u64,
    /// SCE marks.
    pub sce_marks: u64,
    /// Drops.
    pub drops: u64,
}

/// Counts per internal queue, for disciplines that name them ([`Aqm::internal_queues`](crate::aqm::Aqm::internal_queues)).
#[derive(Clone, Debug, Default)]
pub struct InternalLog {
    names: Vec<String>,
    queues: Vec<InternalCounters>,
}

impl InternalLog {
    /// Counters for internal queues with these names.
    pub fn new(names: Vec<String>) -> InternalLog {
        InternalLog { queues: vec![InternalCounters::default(); names.len()], names }
    }

    /// Name and counters of each internal queue.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &InternalCounters)> {
        self.names.iter().map(String::as_str).zip(&self.queues)
    }

    #[inline]
    fn count(&mut self, at: At, count: impl FnOnce(&mut InternalCounters)) {
        if let Some(queue) = self.queues.get_mut(at.queue as usize) {
            count(queue);
        }
    }
}

impl Log for InternalLog {
    #[inline(always)]
    fn on_dequeue(&mut self, packet: &Packet, at: At) {
        self.count(at, |queue| {
            queue.packets += 1;
            queue.sojourn_ns += (at.now - packet.enqueue_time).0;
        });
    }

    #[inline(always)]
    fn on_pass(&mut self, packet: &Packet, start: Instant, _leaves: Instant) {
        self.count(At::time(start), |queue| {
            queue.packets += 1;
            queue.sojourn_ns += (start - packet.enqueue_time).0;
        });
    }

    #[inline]
    fn on_mark(&mut self, _packet: &Packet, _before: Ecn, mark: Mark, _reason: MarkReason, at: At) {
        self.count(at, |queue| match mark {
            Mark::Ce => queue.ce_marks += 1,
            Mark::Sce => queue.sce_marks += 1,
        });
    }

    #[inline]
    fn on_drop(&mut self, _packet: &Packet, _reason: DropReason, place: DropSite, at: At) {
        if matches!(place, DropSite::Arrival | DropSite::Queue) {
            self.count(at, |queue| queue.drops += 1);
        }
    }
}

/// Everything that is counted at a bottleneck.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// All packets together.
    pub queue: QueueCounters,
    /// Per flow and class.
    pub flows: FlowLog,
    /// Per internal queue.
    pub internal: InternalLog,
}

impl Log for Counters {
    log_to!(self => self.queue, self.flows, self.internal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::testing::packet;

    #[test]
    fn only_what_the_queue_marked_is_counted_as_dropped_sce() {
        let mut log = FlowLog::default();
        let of_flow = |flow, ecn| Packet { flow, ..packet(0, ecn) };
        let at = At::time(Instant::ZERO);
        // Flow 0 sends ECT(0) and is marked once; flow 1 sends ECT(1).
        log.on_mark(&of_flow(0, Ecn::Ect1), Ecn::Ect0, Mark::Sce, MarkReason::Ramp, at);
        for (flow, ecn) in [(0, Ecn::Ect0), (0, Ecn::Ect1), (0, Ecn::Ce), (0, Ecn::NotEct), (1, Ecn::Ect1)] {
            log.on_drop(&of_flow(flow, ecn), DropReason::Aqm, DropSite::Queue, at);
        }
        assert_eq!((log.flow_counters(0).sce, log.flow_counters(0).sce_dropped, log.flow_counters(0).ce_dropped), (1, 1, 1));
        assert_eq!((log.flow_counters(1).sce, log.flow_counters(1).sce_dropped), (0, 0));
    }

    #[test]
    fn a_slot_that_is_given_away_counts_from_zero() {
        let mut log = FlowLog::default();
        assert_eq!(log.flow_counters(7), FlowCounters::default());
        let packet = Packet { flow: 7, ..packet(0, Ecn::Ect0) };
        log.on_arrival(&packet, Instant::ZERO);
        log.on_drop(&packet, DropReason::Aqm, DropSite::Queue, At::time(Instant::ZERO));
        assert_eq!((log.flow_counters(7).arrived, log.flow_counters(7).dropped_aqm, log.flow_counters(8).arrived), (1, 1, 0));
        log.forget(7);
        assert_eq!(log.flow_counters(7), FlowCounters::default());
    }

    #[test]
    fn each_class_and_each_internal_queue_has_its_own_statistics() {
        let mut log = Counters {
            internal: InternalLog::new(vec!["classic".into(), "l4s".into()]),
            flows: FlowLog::new(2),
            ..Counters::default()
        };
        log.flows.flow_starts(5, 1);
        let packet = Packet { flow: 5, ..packet(0, Ecn::Ect1) };
        log.on_dequeue(&packet, At { now: Instant(3_000), queue: 1 });
        log.on_drop(&packet, DropReason::Loss, DropSite::Ahead, At::time(Instant::ZERO));
        let one = InternalCounters { packets: 1, sojourn_ns: 3_000, ..InternalCounters::default() };
        assert_eq!(log.internal.iter().collect::<Vec<_>>(), [("classic", &InternalCounters::default()), ("l4s", &one)]);
        assert_eq!([0, 1].map(|class: usize| log.flows.sojourn[class].total()), [0, 1]);
        // what is lost on the path never was at the bottleneck
        assert_eq!((log.queue.sent, log.queue.sojourn_ns, log.queue.drops_aqm), (1, 3_000, 0));
        assert_eq!((log.flows.flow_counters(5).lost_ahead, log.flows.flow_counters(5).dropped_aqm), (1, 0));
    }
}
