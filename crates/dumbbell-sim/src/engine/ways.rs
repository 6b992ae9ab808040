//! The ways into the bottleneck and out of it.

use super::endpoint::Arena;
use super::lines::{DelayLines, ReturnPath, TappedLines};
use super::net::Ingress;
use crate::bottleneck::Bottleneck;
use dumbbell_core::aqm::Aqm;
use dumbbell_core::hint::seldom;
use dumbbell_core::log::{At, DropReason, DropSite, Log};
use dumbbell_core::packet::{flag, Packet};
use dumbbell_core::path::{Path, Sink};
use dumbbell_core::tcp::Outlet;
use dumbbell_core::units::Time;

/// A processor keeps changes of the total to itself until they are so many bytes. Linux `SK_MEMORY_PCPU_RESERVE`, since 6.0.
const MEMORY_RESERVE: i64 = 1 << 20;
/// A write takes memory in pieces of so many bytes at the most. Linux `SKB_FRAG_PAGE_ORDER`.
const MEMORY_TAKEN: i64 = 32_768;
/// And it is given back by socket buffers of so many at the most.
const MEMORY_FREED: i64 = 65_536;

/// What the send buffers of all endpoints hold, where that is limited. The kernel's total changes in steps: what one processor takes or gives back counts once it is
/// [`MEMORY_RESERVE`]. Linux `sk_memory_allocated_add`, `tcp_should_expand_sndbuf`.
pub struct SendMemory {
    limit: u64,
    /// As the kernel counts it.
    total: i64,
    /// What it does not count yet.
    reserve: i64,
    /// Of every slot.
    by_slot: Vec<u64>,
}

impl SendMemory {
    pub fn new(limit: Option<u64>) -> SendMemory {
        SendMemory { limit: limit.unwrap_or(u64::MAX), total: 0, reserve: 0, by_slot: Vec::new() }
    }

    /// No send buffer may grow.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.total > 0 && self.total as u64 >= self.limit
    }

    /// The endpoint in `slot` is gone.
    #[inline]
    pub fn release(&mut self, slot: u32) {
        if self.limit != u64::MAX {
            self.set(slot, 0);
        }
    }

    /// The endpoint in `slot` holds `bytes`.
    #[cold]
    pub fn set(&mut self, slot: u32, bytes: u64) {
        let slot = slot as usize;
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, 0);
        }
        let mut change = bytes as i64 - std::mem::replace(&mut self.by_slot[slot], bytes) as i64;
        while change != 0 {
            let part = change.clamp(-MEMORY_FREED, MEMORY_TAKEN);
            change -= part;
            self.reserve += part;
            if self.reserve.abs() >= MEMORY_RESERVE {
                self.total += std::mem::take(&mut self.reserve);
            }
        }
    }
}

/// Stages that the packets of all endpoints pass, and the bottleneck behind them.
pub struct SharedIngress<A: Aqm, L: Log> {
    /// Stages right ahead of the queue.
    pub shared: Option<Box<Path<Packet>>>,
    pub memory: SendMemory,
    pub bottleneck: Bottleneck<A, L>,
}

/// `packet` as one that counts by itself: stages of a path delay and drop single packets.
#[inline]
pub fn without_burst_marks(mut packet: Packet) -> Packet {
    packet.flags &= !(flag::MORE | flag::LAST);
    packet
}

/// The paths of single endpoints lead to what they share.
impl<A: Aqm, L: Log> Sink<Packet> for SharedIngress<A, L> {
    #[inline]
    fn arrive(&mut self, packet: Packet, now: Time) {
        match &mut self.shared {
            None => self.bottleneck.arrive(packet, now),
            Some(shared) => shared.push(without_burst_marks(packet), now, &mut self.bottleneck),
        }
    }

    fn on_drop(&mut self, packet: Packet, reason: DropReason, now: Time) {
        self.bottleneck.on_drop(packet, reason, now);
    }

    fn on_clear_ecn(&mut self, packet: &Packet, now: Time) {
        self.bottleneck.log.on_clear_ecn(packet, now);
    }
}

/// An endpoint's way into the net at one instant.
pub struct EndpointPort<'a, W: Ingress> {
    pub way: &'a mut W,
    pub path: &'a mut Option<Box<Path<Packet>>>,
    pub now: Time,
}

impl<W: Ingress> EndpointPort<'_, W> {
    /// Sends the packet of these words on any way.
    #[inline(never)]
    fn send_anyhow(&mut self, a: u64, b: u64, c: u64, d: u64) {
        let packet = Packet::from_words([a, b, c, d]);
        match self.path {
            None => self.way.arrive(packet, self.now),
            Some(path) => path.push(without_burst_marks(packet), self.now, self.way),
        }
    }
}

impl<W: Ingress> Outlet for EndpointPort<'_, W> {
    #[inline(always)]
    fn send(&mut self, packet: Packet) {
        self.way.post(&packet, self.now);
        if self.path.is_none() && self.way.is_busy(packet.flags) {
            self.way.arrive_busy(packet, self.now);
        } else {
            seldom();
            let [a, b, c, d] = packet.to_words();
            self.send_anyhow(a, b, c, d);
        }
    }

    #[inline]
    fn counts_memory(&self) -> bool {
        self.way.memory().limit != u64::MAX
    }

    fn set_send_buffer(&mut self, flow: u32, bytes: u64) {
        self.way.memory_mut().set(flow, bytes);
    }

    #[inline]
    fn is_memory_short(&self) -> bool {
        self.way.memory().is_short()
    }
}

/// What lies behind the bottleneck: the receivers, and their acknowledgements on the way back.
pub struct BehindSink<'a, A: Aqm, L: Log> {
    pub arena: &'a mut Arena,
    pub lines: &'a mut DelayLines,
    /// Hears of what is dropped.
    pub bottleneck: &'a mut Bottleneck<A, L>,
}

impl<A: Aqm, L: Log> Sink<Packet> for BehindSink<'_, A, L> {
    #[inline]
    fn arrive(&mut self, packet: Packet, now: Time) {
        let listener = &mut self.bottleneck.log.listener;
        TappedLines { lines: &mut *self.lines, listener }.deliver(self.arena, &packet, now);
    }

    fn on_drop(&mut self, packet: Packet, reason: DropReason, now: Time) {
        self.bottleneck.log.on_drop(&packet, reason, DropSite::Behind, At::time(now));
    }

    fn on_clear_ecn(&mut self, packet: &Packet, now: Time) {
        self.bottleneck.log.on_clear_ecn(packet, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_in_steps_of_what_a_processor_keeps() {
        let mib = |count: u64| count << 20;
        let mut memory = SendMemory::new(Some(mib(3)));
        let mut after = |slot, bytes| {
            memory.set(slot, bytes);
            (memory.total as u64, memory.is_short())
        };
        // less than a MiB does not count yet
        assert_eq!(after(0, mib(1) - 1), (0, false));
        // in pieces of 32 KiB: 1 MiB - 1 + 32 KiB, and after 32 more of them 1 MiB; the other 467,233 B do not count
        assert_eq!(after(0, mib(2) + 500_000), (mib(2) + 32_767, false));
        // 18 pieces more: 467,233 + 589,824
        assert_eq!(after(1, mib(1) - 1), (mib(2) + 32_767 + 1_057_057, true));
        // it is not short any more when a whole MiB has been given back
        assert!(after(0, mib(2) + 100_000).1 && !after(0, mib(1)).1);
        memory.release(0);
        memory.release(1);
        assert!(memory.total + memory.reserve == 0 && !memory.is_short());
    }
}
