//! The ring of packets inside every single-queue discipline.

use super::Verdict;
use crate::hint::unlikely;
use crate::log::{At, DropReason, DropSite, Log};
use crate::packet::Packet;
use crate::ring::Ring;
use crate::units::Instant;

/// First in, first out; counts its bytes. Grows by doubling, never shrinks: no allocation in steady state.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    packets: Ring<Packet>,
    bytes: u64,
    ahead: Ahead,
}

/// Packets whose start on the link is known before it comes ([`Aqm::pass`](super::Aqm::pass)): until then they wait in the queue, though they do
/// not lie in it. A ring, of which the part is cut off that is over, when it is full or someone asks.
#[derive(Clone, Debug, Default)]
struct Ahead {
    /// When each starts, ascending, and the bytes of all packets before it. As many as a power of two, or none.
    starts: Vec<(Instant, u64)>,
    /// Numbers of the first packet that may wait, and of the next one.
    first: usize,
    next: usize,
    /// Bytes of all packets so far.
    bytes: u64,
    /// The latest time that is known to have come.
    now: Instant,
}

/// Packets that [`Ahead`] has room for at first.
const AHEAD_ROOM: usize = 256;

impl Ahead {
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.first == self.next
    }

    #[inline(always)]
    fn place(&self, number: usize) -> usize {
        number & self.starts.len().wrapping_sub(1)
    }

    /// Forgets those that have started by `now`. Returns the packets and bytes that are left.
    #[inline]
    fn advance(&mut self, now: Instant) -> (usize, u64) {
        let has_started = |ahead: &Ahead, number: usize| number < ahead.next && ahead.starts[ahead.place(number)].0 <= now;
        // few if someone asks for each packet, many if the ring was full
        for _ in 0..2 {
            self.first += usize::from(has_started(self, self.first));
        }
        if has_started(self, self.first) {
            let (mut from, mut to) = (self.first, self.next);
            while from < to {
                let middle = from + (to - from) / 2;
                if has_started(self, middle) {
                    from = middle + 1;
                } else {
                    to = middle;
                }
            }
            self.first = from;
        }
        let before = if self.is_empty() { self.bytes } else { self.starts[self.place(self.first)].1 };
        (self.next - self.first, self.bytes - before)
    }

    #[inline(always)]
    fn push(&mut self, len: u16, start: Instant) {
        if unlikely(self.next - self.first == self.starts.len()) {
            self.make_room();
        }
        let place = self.place(self.next);
        if let Some(entry) = self.starts.get_mut(place) {
            *entry = (start, self.bytes);
        }
        self.next += 1;
        self.bytes += u64::from(len);
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        let (waiting, _) = self.advance(self.now);
        if waiting < self.starts.len() / 2 {
            return;
        }
        let kept: Vec<(Instant, u64)> = (self.first..self.next).map(|number| self.starts[self.place(number)]).collect();
        let room = (2 * self.starts.len()).max(AHEAD_ROOM);
        self.starts = vec![(Instant::ZERO, 0); room];
        for (number, entry) in (self.first..).zip(kept) {
            let place = self.place(number);
            self.starts[place] = entry;
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
        if self.ahead.is_empty() {
            return (self.packets.len(), self.bytes);
        }
        self.ahead.now = now;
        let (packets, bytes) = self.ahead.advance(now);
        (self.packets.len() + packets, self.bytes + bytes)
    }

    /// Whether fewer than `limit` packets wait at `now`, when a packet arrives.
    #[inline(always)]
    pub fn has_place(&mut self, limit: usize, now: Instant) -> bool {
        // some of those may have started
        let most = self.packets.len() + (self.ahead.next - self.ahead.first);
        self.ahead.now = now;
        most < limit || self.waiting(now).0 < limit
    }

    /// A packet of `len` bytes that is not in the queue starts on the link at `start`, which may not have come.
    #[inline(always)]
    pub fn note_start(&mut self, len: u16, start: Instant) {
        self.ahead.push(len, start);
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
