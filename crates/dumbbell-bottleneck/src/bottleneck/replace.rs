//! Another queue discipline in the place of the present one, as `tc qdisc replace` puts it there.
//!
//! The new one begins without packets and knows the flows. Linux frees the packets of the old one and stops its timers (`qdisc_graft`, `__qdisc_destroy`, `qdisc_reset`); what the
//! device or a class of HTB has taken from it goes on. Here they are reported as drops with a reason of their own.

use super::Bottleneck;
use dumbbell_core::aqm::{Aqm, Dequeue};
use dumbbell_core::link::AnyLink;
use dumbbell_core::log::{AckLookup, At, DropReason, DropSite, Log, Mark, MarkReason};
use dumbbell_core::packet::{Ecn, Packet};
use dumbbell_core::record::InternalLog;
use dumbbell_core::units::Instant;
use std::mem::discriminant;

/// Reports every packet that comes out of a queue discipline as dropped at `now`, without the marks that it sets on the way out.
struct Purge<'a> {
    log: &'a mut dyn Log,
    now: Instant,
    /// The packet that the discipline has just marked, by flow and number, and its codepoint before that.
    unmarked: Option<((u32, u64), Ecn)>,
}

/// Flow and number of a packet.
fn identity(packet: &Packet) -> (u32, u64) {
    (packet.flow, packet.number())
}

impl Purge<'_> {
    fn drop_packet(&mut self, packet: &Packet, at: At) {
        let mut packet = *packet;
        match self.unmarked {
            Some((marked, before)) if marked == identity(&packet) => packet.set_ecn(before),
            _ => {}
        }
        self.unmarked = None;
        self.log.on_drop(&packet, DropReason::Replaced, DropSite::Queue, At { now: self.now, ..at });
    }
}

impl Log for Purge<'_> {
    fn on_dequeue(&mut self, packet: &Packet, at: At) {
        self.drop_packet(packet, at);
    }

    fn on_drop(&mut self, packet: &Packet, _reason: DropReason, _place: DropSite, at: At) {
        self.drop_packet(packet, at);
    }

    fn on_mark(&mut self, packet: &Packet, before: Ecn, _mark: Mark, _reason: MarkReason, _at: At) {
        self.unmarked.get_or_insert((identity(packet), before));
    }

    fn acks(&self) -> Option<&dyn AckLookup> {
        self.log.acks()
    }
}

/// Takes all packets out of a queue discipline that is given up. It is asked at the times that its shaper names, which need not have come.
fn purge<A: Aqm>(mut aqm: A, now: Instant, log: &mut dyn Log) {
    let mut purge = Purge { log, now, unmarked: None };
    let mut at = now;
    while aqm.packets() > 0 {
        match aqm.dequeue(at, &mut purge) {
            Dequeue::Packet(_) => {}
            Dequeue::Wait(until) if at < until && until < Instant::NEVER => at = until,
            // one of a program that keeps its packets: they are missed when packets are counted
            Dequeue::Wait(_) | Dequeue::Empty => return,
        }
    }
}

impl<A: Aqm, L: Log> Bottleneck<A, L> {
    /// Puts `fresh`, which was just built for the present rate, in the place of the queue discipline, whose packets are dropped. The packet on the wire goes on. `link` takes the place of
    /// the link if it is of another kind.
    #[cold]
    #[inline(never)]
    pub fn replace_queue(&mut self, fresh: A, link: Option<AnyLink>, now: Instant) {
        let old = std::mem::replace(&mut self.aqm, fresh);
        purge(old, now, &mut self.log);
        self.log.counters.internal = InternalLog::new(self.aqm.internal_queues());
        for (slot, key) in (0..).zip(self.keys.iter()) {
            if let Some(key) = key {
                self.aqm.flow_starts(slot, key);
            }
        }
        self.passes = self.aqm.bypass_max_len();
        (self.passing, self.drains, self.leaving) = (false, false, false);
        let mut paid_at = now;
        if let Some(mut other) = link.filter(|other| discriminant(other) != discriminant(&self.link)) {
            // what the old link has yet to carry, or has lent, the new one carries first
            paid_at = other.take(self.link.unsent(now), now);
            self.link = other;
        }
        if self.in_service.is_some() {
            return;
        }
        if paid_at > now {
            self.next = paid_at;
        } else if self.next != Instant::NEVER {
            self.serve(now);
        }
    }
}
