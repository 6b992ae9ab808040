//! Acknowledgements that pass hops as packets.

use super::port::{BlockPool, NO_BLOCKS};
use crate::hop_log::AckCounters;
use dumbbell_core::fork::{CannotFork, Fork, SharedCopies};
use dumbbell_core::log::{AckLookup, At, DropReason, DropSite, Log, Mark, MarkReason};
use dumbbell_core::packet::{Ecn, Packet};
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::{Ack, Block};
use dumbbell_core::units::Instant;

/// An acknowledgement in a hop, with the number of its SACK blocks.
#[derive(Clone, Copy)]
pub struct QueuedAck {
    pub reply: ReceiverReply,
    pub blocks: u32,
}

/// Acknowledgements in hops by the sequence numbers of their packets, and SACK blocks.
#[derive(Clone, Default)]
pub struct AckContents {
    pub held: Vec<QueuedAck>,
    pub pool: BlockPool,
}

impl AckLookup for AckContents {
    fn find_ack(&self, packet: &Packet) -> Option<(&Ack, &[Block])> {
        let QueuedAck { reply, blocks } = packet.is_back().then(|| self.held.get(packet.ack_slot() as usize)).flatten()?;
        Some((reply.ack()?, if *blocks == NO_BLOCKS { &[] } else { self.pool.get(*blocks) }))
    }
}

/// A log for hops that carry ACKs: notes dropped ACKs, and forwards all events to `listener`.
pub struct Acks<L: Log> {
    /// Numbers of the dropped ACKs, whose places are free.
    pub lost: Vec<u64>,
    /// Contents of the queued ACKs, filled only while a packet enters a queue that reads ACKs.
    pub said: AckContents,
    /// Counters of the ACKs at this hop.
    pub counters: AckCounters,
    pub listener: L,
}

impl<L: Log> Acks<L> {
    /// With nothing counted yet.
    pub fn new(listener: L) -> Acks<L> {
        Acks { lost: Vec::new(), said: AckContents::default(), counters: AckCounters::default(), listener }
    }
}

impl<L: Log + Fork> Fork for Acks<L> {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        let listener = self.listener.fork(shared)?;
        Ok(Acks { lost: self.lost.clone(), said: self.said.clone(), counters: self.counters, listener })
    }
}

impl<L: Log> Log for Acks<L> {
    #[inline]
    fn on_arrival(&mut self, packet: &Packet, now: Instant) {
        self.listener.on_arrival(packet, now);
    }

    #[inline]
    fn on_enqueue(&mut self, packet: &Packet, at: At) {
        self.listener.on_enqueue(packet, at);
    }

    #[inline]
    fn on_mark(&mut self, packet: &Packet, before: Ecn, mark: Mark, reason: MarkReason, at: At) {
        self.listener.on_mark(packet, before, mark, reason, at);
    }

    #[inline]
    fn on_dequeue(&mut self, packet: &Packet, at: At) {
        self.listener.on_dequeue(packet, at);
        self.counters.on_dequeue(packet, at);
    }

    #[inline]
    fn on_departure(&mut self, packet: &Packet, now: Instant) {
        self.listener.on_departure(packet, now);
        self.counters.on_departure(packet, now);
    }

    #[inline]
    fn on_pass(&mut self, packet: &Packet, start: Instant, leaves: Instant) {
        self.listener.on_pass(packet, start, leaves);
        self.counters.on_pass(packet, start, leaves);
    }

    fn on_clear_ecn(&mut self, packet: &Packet, now: Instant) {
        self.listener.on_clear_ecn(packet, now);
    }

    fn acks(&self) -> Option<&dyn AckLookup> {
        Some(&self.said)
    }

    fn on_drop(&mut self, packet: &Packet, reason: DropReason, place: DropSite, at: At) {
        self.listener.on_drop(packet, reason, place, at);
        self.counters.on_drop(packet, reason, place, at);
        if packet.is_back() {
            self.lost.push(packet.ack_slot());
        }
    }
}
