//! Room for the packets of many queues: one array, in which every queue is a chain.

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
}

impl Default for Store {
    fn default() -> Store {
        Store { stored: Vec::new(), unused: NONE }
    }
}

impl Store {
    /// Appends to `chain`.
    #[inline(always)]
    pub fn push(&mut self, chain: &mut Chain, packet: Packet) {
        let stored = Stored { packet, next: NONE };
        let mut place = self.unused;
        if place == NONE {
            place = self.stored.len() as u32;
            self.stored.push(stored);
        } else {
            self.unused = self.stored[place as usize].next;
            self.stored[place as usize] = stored;
        }
        match chain.tail {
            NONE => chain.head = place,
            tail => self.stored[tail as usize].next = place,
        }
        chain.tail = place;
    }

    /// Takes the head of `chain`.
    #[inline]
    pub fn pop(&mut self, chain: &mut Chain) -> Option<Packet> {
        let packet = *self.head(chain)?;
        self.discard(chain);
        Some(packet)
    }

    /// Takes the head of `chain` off, if there is one, without moving it.
    #[inline]
    pub fn discard(&mut self, chain: &mut Chain) {
        let place = chain.head;
        let Some(stored) = self.stored.get_mut(place as usize) else { return };
        chain.head = stored.next;
        if chain.head == NONE {
            chain.tail = NONE;
        }
        stored.next = self.unused;
        self.unused = place;
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
