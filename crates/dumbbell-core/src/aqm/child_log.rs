//! The log of a queue discipline inside another one, which has several of them: their internal queues get numbers of their own.

use crate::log::{AckLookup, At, DropReason, DropSite, Log, Mark, MarkReason};
use crate::packet::{Ecn, Packet};

/// Numbers the internal queues of a discipline from `first` on.
pub struct ChildLog<'a, L: Log> {
    /// Listener of the discipline around it.
    pub log: &'a mut L,
    /// Number of the first internal queue.
    pub first: u32,
}

impl<L: Log> ChildLog<'_, L> {
    fn renumber(&self, at: At) -> At {
        At { queue: self.first.wrapping_add(at.queue), ..at }
    }
}

impl<L: Log> Log for ChildLog<'_, L> {
    #[inline]
    fn on_enqueue(&mut self, packet: &Packet, at: At) {
        let own = self.renumber(at);
        self.log.on_enqueue(packet, own);
    }

    #[inline]
    fn on_dequeue(&mut self, packet: &Packet, at: At) {
        let own = self.renumber(at);
        self.log.on_dequeue(packet, own);
    }

    #[inline]
    fn on_mark(&mut self, packet: &Packet, before: Ecn, mark: Mark, reason: MarkReason, at: At) {
        let own = self.renumber(at);
        self.log.on_mark(packet, before, mark, reason, own);
    }

    #[inline]
    fn on_drop(&mut self, packet: &Packet, reason: DropReason, place: DropSite, at: At) {
        let own = self.renumber(at);
        self.log.on_drop(packet, reason, place, own);
    }

    fn acks(&self) -> Option<&dyn AckLookup> {
        self.log.acks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Instant;

    /// The numbers of internal queues, in the order of events.
    #[derive(Default)]
    struct Numbers(Vec<u32>);

    impl Log for Numbers {
        fn on_enqueue(&mut self, _packet: &Packet, at: At) {
            self.0.push(at.queue);
        }
        fn on_dequeue(&mut self, _packet: &Packet, at: At) {
            self.0.push(at.queue);
        }
        fn on_mark(&mut self, _packet: &Packet, _before: Ecn, _mark: Mark, _reason: MarkReason, at: At) {
            self.0.push(at.queue);
        }
        fn on_drop(&mut self, _packet: &Packet, _reason: DropReason, _place: DropSite, at: At) {
            self.0.push(at.queue);
        }
    }

    #[test]
    fn every_event_has_the_number_of_its_queue() {
        let (mut numbers, mut packet) = (Numbers::default(), Packet::new_tcp(0, Ecn::Ect0, 0));
        let mut log = ChildLog { log: &mut numbers, first: 512 };
        let at = At { now: Instant::ZERO, queue: 3 };
        log.on_enqueue(&packet, at);
        log.set_ce(&mut packet, MarkReason::Aqm, at);
        log.on_dequeue(&packet, at);
        log.on_drop(&packet, DropReason::Aqm, DropSite::Queue, at);
        assert_eq!(numbers.0, [515; 4]);
    }
}
