//! Acknowledgements that pass hops as packets.

use super::lines::{BlockPool, NO_BLOCKS};
use crate::hop_log::AckCounters;
use dumbbell_core::log::{At, DropReason, DropSite, Log, Mark, MarkReason};
use dumbbell_core::packet::{Ecn, Packet};
use dumbbell_core::tcp::{Ack, Block};
use dumbbell_core::units::Time;

/// An acknowledgement in a hop, with the number of its SACK blocks.
#[derive(Clone, Copy, Default)]
pub struct QueuedAck {
    pub ack: Ack,
    pub blocks: u32,
}

/// Acknowledgements in hops by the sequence numbers of their packets, and SACK blocks.
#[derive(Default)]
pub struct AckContents {
    pub held: Vec<QueuedAck>,
    pub pool: BlockPool,
}

/// Listens for acknowledgements at a hop, and lets somebody else hear everything.
pub struct Acks<L: Log> {
    /// Numbers of those that were dropped: their places are free.
    pub lost: Vec<u64>,
    /// What they say, while something enters a queue that reads it.
    pub said: AckContents,
    /// How many there were.
    pub counters: AckCounters,
    pub listener: L,
}

impl<L: Log> Acks<L> {
    /// With nothing counted yet.
    pub fn new(listener: L) -> Acks<L> {
        Acks { lost: Vec::new(), said: AckContents::default(), counters: AckCounters::default(), listener }
    }
}

impl<L: Log> Log for Acks<L> {
    #[inline]
    fn arrived(&mut self, packet: &Packet, now: Time) {
        self.listener.arrived(packet, now);
    }

    #[inline]
    fn enqueued(&mut self, packet: &Packet, at: At) {
        self.listener.enqueued(packet, at);
    }

    #[inline]
    fn marked(&mut self, packet: &Packet, before: Ecn, mark: Mark, reason: MarkReason, at: At) {
        self.listener.marked(packet, before, mark, reason, at);
    }

    #[inline]
    fn sent(&mut self, packet: &Packet, at: At) {
        self.listener.sent(packet, at);
        self.counters.sent(packet, at);
    }

    #[inline]
    fn departed(&mut self, packet: &Packet, now: Time) {
        self.listener.departed(packet, now);
        self.counters.departed(packet, now);
    }

    #[inline]
    fn crossed(&mut self, packet: &Packet, now: Time, leaves: Time) {
        self.listener.crossed(packet, now, leaves);
        self.counters.crossed(packet, now, leaves);
    }

    fn erased(&mut self, packet: &Packet, now: Time) {
        self.listener.erased(packet, now);
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<(&Ack, &[Block])> {
        let QueuedAck { ack, blocks } = self.said.held.get(packet.seq as usize).filter(|_| packet.is_back())?;
        Some((ack, if *blocks == NO_BLOCKS { &[] } else { self.said.pool.get(*blocks) }))
    }

    fn dropped(&mut self, packet: &Packet, reason: DropReason, place: DropSite, at: At) {
        self.listener.dropped(packet, reason, place, at);
        self.counters.dropped(packet, reason, place, at);
        if packet.is_back() {
            self.lost.push(packet.seq);
        }
    }
}
