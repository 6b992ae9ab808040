//! Ports of an endpoint: where its sender sends into the net, where its receiver sends back, and the stages that its packets pass alone.

use super::memory::SendMemory;
use dumbbell_bottleneck::without_burst_marks;
use dumbbell_core::hint::seldom;
use dumbbell_core::packet::Packet;
use dumbbell_core::path::{Path, Sink};
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::receiver::SackBlocks;
use dumbbell_core::tcp::{Block, Outlet};
use dumbbell_core::units::Instant;

/// The way of what is sent into the net.
pub trait Ingress: Sink<Packet> {
    /// For a packet with `flags`, [`Ingress::arrive_busy`] does the same as [`Sink::arrive`].
    #[inline(always)]
    fn is_busy(&self, _flags: u16) -> bool {
        true
    }

    /// Does the same as [`Sink::arrive`] for such a packet. With one hop, where most packets find the queue busy, it is compiled into senders.
    #[inline(always)]
    fn arrive_busy(&mut self, packet: Packet, now: Instant) {
        self.arrive(packet, now);
    }

    /// A sender sends this packet; the listener, if there is one, is notified.
    fn post(&mut self, packet: &Packet, now: Instant);

    /// Returns the memory of the send buffers.
    fn memory(&self) -> &SendMemory;

    /// Returns the memory of the send buffers.
    fn memory_mut(&mut self) -> &mut SendMemory;
}

/// Acknowledgements under way: each with the number of its SACK blocks.
pub type AckPath = Path<(ReceiverReply, u32)>;

/// Stages that the packets of an endpoint pass alone.
#[derive(Default)]
pub struct Stages {
    /// Between the sender and the bottleneck.
    pub data: Option<Box<Path<Packet>>>,
    /// Between the receiver and the line of acknowledgements.
    pub acks: Option<Box<AckPath>>,
}

impl Stages {
    /// Returns when one of them has something to do next.
    #[inline]
    pub fn next_timer(&self) -> Instant {
        let data = self.data.as_ref().map_or(Instant::NEVER, |path| path.next_timer());
        data.min(self.acks.as_ref().map_or(Instant::NEVER, |path| path.next_timer()))
    }
}

/// An endpoint's way into the net at one instant.
pub struct EndpointPort<'a, W: Ingress> {
    pub way: &'a mut W,
    pub path: &'a mut Option<Box<Path<Packet>>>,
    pub now: Instant,
}

impl<W: Ingress> EndpointPort<'_, W> {
    /// Sends the packet of these words on any way.
    #[inline(never)]
    fn send_through_stages(&mut self, a: u64, b: u64, c: u64, d: u64) {
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
        if self.path.is_none() && self.way.is_busy(packet.flags()) {
            self.way.arrive_busy(packet, self.now);
        } else {
            seldom();
            let [a, b, c, d] = packet.to_words();
            self.send_through_stages(a, b, c, d);
        }
    }

    #[inline]
    fn counts_memory(&self) -> bool {
        self.way.memory().is_limited()
    }

    fn set_send_buffer(&mut self, flow: u32, bytes: u64) {
        self.way.memory_mut().set(flow, bytes);
    }

    #[inline]
    fn is_memory_short(&self) -> bool {
        self.way.memory().is_short()
    }
}

/// No SACK blocks.
pub const NO_BLOCKS: u32 = u32::MAX;

/// SACK blocks on their way back; most ACKs have none.
#[derive(Default)]
pub struct BlockPool {
    blocks: Vec<SackBlocks>,
    free: Vec<u32>,
}

impl BlockPool {
    pub fn put(&mut self, blocks: SackBlocks) -> u32 {
        if let Some(index) = self.free.pop() {
            self.blocks[index as usize] = blocks;
            return index;
        }
        self.blocks.push(blocks);
        (self.blocks.len() - 1) as u32
    }

    pub fn get(&self, index: u32) -> &[Block] {
        self.blocks[index as usize].as_slice()
    }

    /// Returns the SACK blocks with this number, or none.
    pub fn blocks_or_none(&self, index: u32) -> &[Block] {
        if index == NO_BLOCKS {
            &[]
        } else {
            self.get(index)
        }
    }

    pub fn release(&mut self, index: u32) {
        self.free.push(index);
    }

    /// The SACK blocks with this number, if there are any, go to another pool. Returns their number there.
    pub fn hand_over(&mut self, index: u32, other: &mut BlockPool) -> u32 {
        if index == NO_BLOCKS {
            return NO_BLOCKS;
        }
        self.release(index);
        other.put(self.blocks[index as usize])
    }
}

/// The way back from a receiver, at one instant.
pub trait ReturnPort {
    /// SACK blocks under way.
    fn pool(&mut self) -> &mut BlockPool;

    /// Sends an acknowledgement or an answer, with the number of its SACK blocks.
    fn send(&mut self, reply: ReceiverReply, blocks: u32);
}
