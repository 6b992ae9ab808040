//! Ports of an endpoint: where its sender sends into the net, where its receiver sends back, and the stages that its packets pass alone.

use super::memory::SendMemory;
use dumbbell_bottleneck::without_burst_marks;
use dumbbell_core::hint::{likely, seldom, unlikely};
use dumbbell_core::packet::Packet;
use dumbbell_core::path::{Path, Sink};
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::receiver::{Receiver, SackBlocks};
use dumbbell_core::tcp::{Ack, Block, Burst, Outlet};
use dumbbell_core::units::Instant;

/// The receiving end of a connection whose packets may reach it ahead of their time.
pub struct ReceivingEnd<'a> {
    pub receiver: &'a mut Receiver,
    /// When the last packet that was delivered ahead of its time arrives.
    pub last_arrival: &'a mut Instant,
}

impl ReceivingEnd<'_> {
    /// A packet arrives at `at`, which may not have come. The receiver's timers that fire before are due.
    #[inline(always)]
    pub fn receive(&mut self, packet: &Packet, at: Instant, back: &mut impl ReturnPort) {
        if unlikely(self.receiver.no_timer_before() < at) {
            let due = self.receiver.next_timer();
            if due < at {
                on_receiver_timer(self.receiver, due, back);
            }
        }
        *self.last_arrival = at;
        receive(self.receiver, packet, at, back);
    }
}

/// A timer of `receiver` fires at `due`.
#[inline(never)]
pub fn on_receiver_timer(receiver: &mut Receiver, due: Instant, back: &mut impl ReturnPort) {
    if let Some(ack) = receiver.on_timer(due) {
        let blocks = if receiver.has_blocks() { back.pool().put(receiver.blocks()) } else { NO_BLOCKS };
        back.send_by_timer(ack.into(), blocks, due);
    }
}

/// A packet reaches `receiver`, which sends `back`.
#[inline(always)]
pub fn receive(receiver: &mut Receiver, packet: &Packet, now: Instant, back: &mut impl ReturnPort) {
    if likely(receiver.expects(packet, now)) {
        if let Some(ack) = receiver.take_expected(packet, now) {
            back.send(ack.into(), NO_BLOCKS);
        }
    } else {
        // a copy: one that is given away by its address lies in memory on the usual way, too
        let copy = *packet;
        receive_other(receiver, &copy, now, back);
    }
}

/// A packet that is not expected reaches `receiver`, which sends `back`.
#[inline(never)]
fn receive_other(receiver: &mut Receiver, packet: &Packet, now: Instant, back: &mut impl ReturnPort) {
    let ack = receiver.take_any(packet, now);
    let early = receiver.take_early();
    let mut blocks = NO_BLOCKS;
    if ack.is_some() && receiver.has_blocks() {
        seldom();
        blocks = back.pool().put(receiver.blocks());
    }
    if let Some((early, reported)) = early {
        seldom();
        for number in 0..=receiver.take_copies() {
            let own = if reported.as_slice().is_empty() { NO_BLOCKS } else { back.pool().put(reported) };
            back.send(Ack { id: early.id.wrapping_add(number), ..early }.into(), own);
        }
    }
    if let Some(ack) = ack {
        back.send(ack.into(), blocks);
    }
}

/// The way of what is sent into the net.
pub trait Ingress: Sink<Packet> {
    /// Whether [`Ingress::deliver_ahead`] delivers packets.
    #[inline(always)]
    fn delivers(&self) -> bool {
        false
    }

    /// Delivers packets of `burst` to the end `to` as they are sent at `now`, as far as it is known when they arrive there. Returns the rest.
    #[inline(always)]
    fn deliver_ahead(&mut self, burst: Burst, _to: &mut ReceivingEnd, _now: Instant) -> Burst {
        burst
    }

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

impl<W: Ingress + ?Sized> Ingress for &mut W {
    #[inline(always)]
    fn delivers(&self) -> bool {
        (**self).delivers()
    }

    #[inline(always)]
    fn deliver_ahead(&mut self, burst: Burst, to: &mut ReceivingEnd, now: Instant) -> Burst {
        (**self).deliver_ahead(burst, to, now)
    }

    #[inline(always)]
    fn is_busy(&self, flags: u16) -> bool {
        (**self).is_busy(flags)
    }

    #[inline(always)]
    fn arrive_busy(&mut self, packet: Packet, now: Instant) {
        (**self).arrive_busy(packet, now);
    }

    #[inline(always)]
    fn post(&mut self, packet: &Packet, now: Instant) {
        (**self).post(packet, now);
    }

    fn memory(&self) -> &SendMemory {
        (**self).memory()
    }

    fn memory_mut(&mut self) -> &mut SendMemory {
        (**self).memory_mut()
    }
}

/// Acknowledgements under way: each with the number of its SACK blocks.
pub type AckPath = Path<(ReceiverReply, u32)>;

/// Stages that the packets of an endpoint pass alone.
#[derive(Clone, Default)]
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
    pub way: W,
    /// The other end, if it is TCP.
    pub end: Option<ReceivingEnd<'a>>,
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
            Some(path) => path.push(without_burst_marks(packet), self.now, &mut self.way),
        }
    }

    /// Sends a packet that reaches its receiver when it leaves the net.
    #[inline(always)]
    fn send_at_departure(&mut self, packet: Packet) {
        self.way.post(&packet, self.now);
        if self.path.is_none() && self.way.is_busy(packet.flags()) {
            self.way.arrive_busy(packet, self.now);
        } else {
            seldom();
            let [a, b, c, d] = packet.to_words();
            self.send_through_stages(a, b, c, d);
        }
    }
}

impl<W: Ingress> Outlet for EndpointPort<'_, W> {
    #[inline]
    fn send(&mut self, packet: Packet) {
        self.send_burst(Burst::of_one(packet));
    }

    #[inline(always)]
    fn send_burst(&mut self, mut burst: Burst) {
        if self.way.delivers() {
            if let Some(end) = &mut self.end {
                burst = self.way.deliver_ahead(burst, end, self.now);
            }
        }
        while let Some(packet) = burst.head() {
            self.send_at_departure(packet);
            burst.advance();
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
#[derive(Clone, Default)]
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

    /// Takes the SACK blocks with this number out.
    pub fn take(&mut self, index: u32) -> SackBlocks {
        self.release(index);
        self.blocks[index as usize]
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
        other.put(self.take(index))
    }
}

/// The way back from a receiver, at one instant.
pub trait ReturnPort {
    /// SACK blocks under way.
    fn pool(&mut self) -> &mut BlockPool;

    /// Sends an acknowledgement or an answer, with the number of its SACK blocks.
    fn send(&mut self, reply: ReceiverReply, blocks: u32);

    /// Whether packets may reach the receiver ahead of their time.
    fn is_ahead(&self) -> bool {
        false
    }

    /// Sends an acknowledgement that a timer causes, which fires at `due`.
    fn send_by_timer(&mut self, reply: ReceiverReply, blocks: u32, due: Instant);
}

#[cfg(target_family = "wasm")]
impl<R: ReturnPort + ?Sized> ReturnPort for &mut R {
    fn pool(&mut self) -> &mut BlockPool {
        (**self).pool()
    }

    fn send(&mut self, reply: ReceiverReply, blocks: u32) {
        (**self).send(reply, blocks);
    }

    fn is_ahead(&self) -> bool {
        (**self).is_ahead()
    }

    fn send_by_timer(&mut self, reply: ReceiverReply, blocks: u32, due: Instant) {
        (**self).send_by_timer(reply, blocks, due);
    }
}
