//! Room for the packets of many queues: one array, in which every queue is a chain, and what all of them take.

use crate::buffers::truesize;
use crate::packet::Packet;
use crate::prefetch::prefetch;

/// End of a chain.
const NONE: u32 = u32::MAX;
/// A packet and the one behind it in its queue, or in the list of unused places.
#[derive(Clone, Debug)]
struct Stored {
    packet: Packet,
    next: u32,
}

/// The packets of one queue, as places in a [`Store`].
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    head: u32,
    tail: u32,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain { head: NONE, tail: NONE }
    }
}

impl Chain {
    /// No packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// The places. Grows by doubling, never shrinks, uses the place that was left last first: no allocation in steady state.
#[derive(Clone, Debug)]
pub struct Store {
    stored: Vec<Stored>,
    unused: u32,
    packets: usize,
    bytes: u64,
    memory: u64,
    /// See [`QueueContext::small_heads`](super::QueueContext::small_heads).
    small_heads: bool,
}

impl Store {
    /// Holds nothing.
    pub fn new(small_heads: bool) -> Store {
        Store { stored: Vec::new(), unused: NONE, packets: 0, bytes: 0, memory: 0, small_heads }
    }

    /// Packets in all queues.
    #[inline]
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Bytes in all queues.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Memory that Linux accounts for the packets, bytes.
    #[inline]
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Appends to `chain`.
    #[inline(always)]
    pub fn push(&mut self, chain: &mut Chain, packet: Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.len);
        self.memory += u64::from(truesize(&packet, self.small_heads));
        let mut place = self.unused;
        // `NONE` is a place that is never there
        if let Some(stored) = self.stored.get_mut(place as usize) {
            self.unused = stored.next;
            *stored = Stored { packet, next: NONE };
        } else {
            place = self.stored.len() as u32;
            self.stored.push(Stored { packet, next: NONE });
        }
        match self.stored.get_mut(chain.tail as usize) {
            Some(tail) => tail.next = place,
            None => chain.head = place,
        }
        chain.tail = place;
    }

    /// Takes the head of `chain`.
    #[inline(always)]
    pub fn pop(&mut self, chain: &mut Chain) -> Option<Packet> {
        let place = chain.head;
        let stored = self.stored.get_mut(place as usize)?;
        let packet = stored.packet;
        chain.head = stored.next;
        if chain.head == NONE {
            chain.tail = NONE;
        }
        stored.next = self.unused;
        self.unused = place;
        self.subtract(&packet);
        Some(packet)
    }

    /// `packet` has left.
    #[inline(always)]
    fn subtract(&mut self, packet: &Packet) {
        self.packets -= 1;
        self.bytes -= u64::from(packet.len);
        self.memory -= u64::from(truesize(packet, self.small_heads));
    }

    /// The head of `chain`, to be changed where it is.
    #[inline]
    pub fn head_mut(&mut self, chain: &Chain) -> Option<&mut Packet> {
        self.stored.get_mut(chain.head as usize).map(|stored| &mut stored.packet)
    }

    /// The head of `chain`.
    #[inline]
    pub fn head(&self, chain: &Chain) -> Option<&Packet> {
        self.stored.get(chain.head as usize).map(|stored| &stored.packet)
    }

    /// The tail of `chain`.
    pub fn last(&self, chain: &Chain) -> Option<&Packet> {
        self.stored.get(chain.tail as usize).map(|stored| &stored.packet)
    }

    /// Places and packets of `chain`, from its head on.
    pub fn entries(&self, chain: &Chain) -> impl Iterator<Item = (u32, &Packet)> {
        let mut place = chain.head;
        std::iter::from_fn(move || {
            let stored = self.stored.get(place as usize)?;
            let here = std::mem::replace(&mut place, stored.next);
            Some((here, &stored.packet))
        })
    }

    /// Takes the packet behind the place `before` out of `chain`; the head with `None`.
    pub fn take_behind(&mut self, chain: &mut Chain, before: Option<u32>) -> Option<Packet> {
        let Some(before) = before else { return self.pop(chain) };
        let place = self.stored.get(before as usize)?.next;
        let stored = self.stored.get_mut(place as usize)?;
        let (packet, next) = (stored.packet, std::mem::replace(&mut stored.next, self.unused));
        self.unused = place;
        self.stored[before as usize].next = next;
        if next == NONE {
            chain.tail = before;
        }
        self.subtract(&packet);
        Some(packet)
    }

    /// The head of `chain` will be taken soon.
    #[inline]
    pub fn prefetch(&self, chain: &Chain) {
        if let Some(stored) = self.stored.get(chain.head as usize) {
            prefetch(stored);
            // its end may lie in the next cache line
            prefetch(&stored.next);
        }
    }

    /// A packet will soon be appended to `chain`.
    #[inline]
    pub fn prefetch_tail(&self, chain: &Chain) {
        if let Some(stored) = self.stored.get(chain.tail as usize) {
            prefetch(&stored.next);
        }
    }

    /// Places, used or not.
    pub fn places(&self) -> usize {
        self.stored.len()
    }
}
