//! The ring of packets inside every single-queue discipline.

use super::Verdict;
use crate::hint::unlikely;
use crate::log::{At, DropReason, DropSite, Log};
use crate::packet::Packet;
use crate::units::Instant;
use std::collections::VecDeque;

/// First in, first out; counts its bytes. Grows by doubling, never shrinks: no allocation in steady state.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    packets: VecDeque<Packet>,
    bytes: u64,
    ahead: Ahead,
}

/// Packets whose start on the link is known before it comes ([`Aqm::pass`](super::Aqm::pass)): until then they wait in the queue, though they do
/// not lie in it.
#[derive(Clone, Debug, Default)]
struct Ahead {
    /// When each starts, ascending, and its bytes.
    starts: VecDeque<(Instant, u16)>,
    bytes: u64,
}

impl Ahead {
    /// Forgets those that have started by `now`.
    #[inline(always)]
    fn advance(&mut self, now: Instant) {
        while let Some(&(start, len)) = self.starts.front() {
            if start > now {
                break;
            }
            self.bytes -= u64::from(len);
            self.starts.pop_front();
        }
    }
}

impl Fifo {
    /// Stamps `packet` with the time, appends and reports it.
    #[inline]
    pub fn accept<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        self.accept_at(packet, At::time(now), log);
    }

    /// Accepts `packet` if it `fits`, and drops it otherwise.
    #[inline(always)]
    pub fn accept_if<L: Log>(&mut self, fits: bool, packet: Packet, now: Instant, log: &mut L) {
        if fits {
            self.accept(packet, now, log);
        } else {
            log.on_drop(&packet, DropReason::Overflow, DropSite::Arrival, At::time(now));
        }
    }

    /// Stamps `packet` with the time, appends and reports it, in a discipline of several queues.
    #[inline]
    pub fn accept_at<L: Log>(&mut self, mut packet: Packet, at: At, log: &mut L) {
        packet.enqueue_time = at.now;
        log.on_enqueue(&packet, at);
        self.push(packet);
    }

    /// Judges a packet that starts on the link at `start`: it is sent if it `fits`, and dropped otherwise.
    #[inline(always)]
    pub fn pass_if<L: Log>(&mut self, fits: bool, packet: &Packet, now: Instant, start: Instant, log: &mut L) -> Verdict {
        if unlikely(!fits) {
            log.on_drop(packet, DropReason::Overflow, DropSite::Arrival, At::time(now));
            return Verdict::Dropped;
        }
        if start > now {
            self.note_start(packet.len, start);
        }
        Verdict::Sent
    }

    /// Packets and bytes that wait at `now`, when a packet arrives: those in the queue, and those whose later start is known already.
    #[inline(always)]
    pub fn waiting(&mut self, now: Instant) -> (usize, u64) {
        if self.ahead.starts.is_empty() {
            return (self.packets.len(), self.bytes);
        }
        self.ahead.advance(now);
        (self.packets.len() + self.ahead.starts.len(), self.bytes + self.ahead.bytes)
    }

    /// A packet of `len` bytes that is not in the queue starts on the link at `start`, which may not have come.
    #[inline(always)]
    pub fn note_start(&mut self, len: u16, start: Instant) {
        self.ahead.bytes += u64::from(len);
        self.ahead.starts.push_back((start, len));
    }

    /// Appends.
    #[inline]
    pub fn push(&mut self, packet: Packet) {
        self.bytes += u64::from(packet.len);
        self.packets.push_back(packet);
    }

    /// Takes the head.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.len);
        Some(packet)
    }

    /// The head.
    #[inline]
    pub fn head(&self) -> Option<&Packet> {
        self.packets.front()
    }

    /// Takes the head off, whose length is `len`, without moving it.
    #[inline]
    pub fn discard(&mut self, len: u16) {
        debug_assert_eq!(self.packets.front().map(|packet| packet.len), Some(len));
        self.bytes -= u64::from(len);
        self.packets.pop_front();
    }

    /// The head, to be changed where it is; its length must stay.
    #[inline]
    pub fn head_mut(&mut self) -> Option<&mut Packet> {
        self.packets.front_mut()
    }

    /// Packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// No packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
