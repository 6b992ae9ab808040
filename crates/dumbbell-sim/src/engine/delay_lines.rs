//! The lines of acknowledgements, one a base RTT, and what happens to a packet when it reaches its receiver.

use super::connection::Connection;
use super::endpoint::{Arena, Endpoint};
use super::port::{BlockPool, ReturnPort, Stages, NO_BLOCKS};
use super::transport::Transport;
use crate::min_tree::MinTree;
use dumbbell_core::as_dyn;
use dumbbell_core::hint::{likely, seldom, unlikely};
use dumbbell_core::log::DropReason;
use dumbbell_core::observe::{ListenLevel, Tap};
use dumbbell_core::packet::Packet;
use dumbbell_core::path::Sink;
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::ring::Ring;
use dumbbell_core::units::{Duration, Instant};

/// All endpoints of one base RTT and direction, and their acknowledgements on the way back, in order.
#[derive(Clone)]
pub struct DelayLine {
    pub delay: Duration,
    /// Whether its data are sent up.
    pub up: bool,
    /// By how much the clocks of its senders run ahead of the engine's.
    pub ahead: Duration,
    pub acks: Ring<ReturningAck>,
    /// Slots of the endpoints.
    pub members: Vec<u32>,
    /// The measured time of its endpoints is over.
    pub over: bool,
    /// Whether it was added for endpoints whose base RTT changed; their clocks run ahead as they did before.
    pub is_added: bool,
}

/// An acknowledgement in a line.
#[derive(Clone, Copy)]
pub struct ReturningAck {
    /// When it reaches its sender.
    pub at: Instant,
    pub reply: ReceiverReply,
    /// Number of its SACK blocks.
    pub blocks: u32,
    /// Place among those that left at the same instant: 0 if a packet caused it, which comes before timers, else one more than the slot.
    order: u32,
}

/// The lines of acknowledgements.
#[derive(Clone)]
pub struct DelayLines {
    pub all: Vec<DelayLine>,
    /// Earliest acknowledgement of each line, then, over one hop that has them, its parts with times of their own.
    pub times: MinTree,
    pub pool: BlockPool,
    /// Entries of [`DelayLines::times`] behind those of the lines.
    others: usize,
}

impl DelayLines {
    /// Lines without acknowledgements, and `others` entries for other times.
    pub fn new(all: Vec<DelayLine>, others: usize) -> DelayLines {
        DelayLines { times: MinTree::new(all.len() + others), all, pool: BlockPool::default(), others }
    }

    /// An acknowledgement enters the line `number`.
    #[inline(always)]
    pub fn push(&mut self, number: u32, reply: ReceiverReply, blocks: u32, now: Instant) {
        let at = now + self.all[number as usize].delay;
        self.append(number, reply, blocks, at);
    }

    /// An acknowledgement that arrives at `at` is the last one in line `number`.
    #[inline(always)]
    pub fn append(&mut self, number: u32, reply: ReceiverReply, blocks: u32, at: Instant) {
        let number = number as usize;
        let line = &mut self.all[number];
        if unlikely(line.acks.is_empty()) {
            self.times.set(number, at);
        }
        line.acks.push_back(ReturningAck { at, reply, blocks, order: 0 });
    }

    /// An acknowledgement enters the line `number` at `now`, where others that leave later may have entered it already. One that a timer causes gets its place
    /// by its slot, as the event loop takes timers of one instant.
    #[inline(always)]
    pub fn insert(&mut self, number: u32, reply: ReceiverReply, blocks: u32, now: Instant, by_timer: bool) {
        let line = &mut self.all[number as usize];
        let at = now + line.delay;
        let order = if by_timer { reply.flow() + 1 } else { 0 };
        let ack = ReturningAck { at, reply, blocks, order };
        match line.acks.back() {
            Some(last) if likely(last.at < at) => line.acks.push_back(ack),
            _ => self.insert_in_order(number as usize, ack),
        }
    }

    #[inline(never)]
    fn insert_in_order(&mut self, number: usize, ack: ReturningAck) {
        let (at, order, acks) = (ack.at, ack.order, &mut self.all[number].acks);
        let index = acks.partition_point(|one| (one.at, one.order) <= (at, order));
        acks.insert(index, ack);
        if index == 0 {
            self.times.set(number, at);
        }
    }

    /// Adds a line behind the others. Returns its number.
    pub fn add_line(&mut self, line: DelayLine) -> u32 {
        let number = self.all.len();
        let mut times = MinTree::new(number + 1 + self.others);
        for index in 0..number + self.others {
            times.set(if index < number { index } else { index + 1 }, self.times.get(index));
        }
        self.times = times;
        self.all.push(line);
        number as u32
    }

    /// Moves the acknowledgements of the endpoint in `slot` that are on their way from one line to another. They arrive as if the delay of that line had been theirs
    /// since they were sent, but not before `now`, and in the same order.
    pub fn move_acks(&mut self, slot: u32, from: u32, to: u32, now: Instant) {
        let (old, new) = (self.all[from as usize].delay, self.all[to as usize].delay);
        let (moved, stay): (Vec<_>, Vec<_>) = self.all[from as usize].acks.drain().partition(|ack| ack.reply.flow() == slot);
        stay.into_iter().for_each(|ack| self.all[from as usize].acks.push_back(ack));
        let mut there: Vec<_> = self.all[to as usize].acks.drain().collect();
        // at one instant those that the line had come first
        there.extend(moved.into_iter().map(|ack| ReturningAck { at: ((ack.at - old) + new).max(now), ..ack }));
        there.sort_by_key(|ack| ack.at);
        there.into_iter().for_each(|ack| self.all[to as usize].acks.push_back(ack));
        for number in [from, to].map(|line| line as usize) {
            let first = self.all[number].acks.front().map_or(Instant::NEVER, |ack| ack.at);
            self.times.set(number, first);
        }
    }

    /// Sets the time of entry `index` behind the lines to `time`.
    pub fn set_other(&mut self, index: usize, time: Instant) {
        self.times.set(self.all.len() + index, time);
    }
}

/// Where receivers send their acknowledgements.
pub trait ReturnPath {
    /// Whether packets may be delivered ahead of their time.
    const AHEAD: bool = false;

    /// An acknowledgement begins its way in line `line`, caused by a packet or by a timer.
    fn push_ack(&mut self, line: u32, reply: ReceiverReply, blocks: u32, now: Instant, by_timer: bool);

    /// SACK blocks under way.
    fn pool(&mut self) -> &mut BlockPool;

    /// Returns the listener for frames at the receivers, if there is one, and the SACK blocks in flight.
    fn frame_listener(&mut self) -> Option<(&mut dyn Tap, &BlockPool)>;

    /// A receiver sends `reply`.
    #[inline(always)]
    fn acknowledge(
        &mut self,
        stages: &mut Stages,
        line: u32,
        (reply, blocks): (ReceiverReply, u32),
        now: Instant,
        by_timer: bool,
    ) {
        if let Some((listener, pool)) = self.frame_listener() {
            listener.on_send_ack(&reply, pool.blocks_or_none(blocks), now);
        }
        match &mut stages.acks {
            None => self.push_ack(line, reply, blocks, now, by_timer),
            Some(path) => {
                seldom();
                path.push((reply, blocks), now, &mut AckEntry { back: self, line });
            }
        }
    }

    /// A packet reaches its receiver.
    #[inline(always)]
    fn deliver(&mut self, arena: &mut Arena, packet: &Packet, now: Instant) {
        let slot = packet.flow;
        if let Some((listener, _)) = self.frame_listener() {
            listener.on_delivery(packet, now);
        }
        let Endpoint { transport, stages, line, .. } = arena.get_mut(slot);
        let (back, line) = (self, *line);
        // each has its own way back: that of datagrams, which libraries see, has to lie in memory
        let mut timer = match transport {
            Transport::Tcp(tcp) => tcp.on_packet(
                packet,
                now,
                &mut as_dyn!(ReceiverPort { back: &mut *back, stages: &mut *stages, line, now }, ReturnPort),
            ),
            Transport::Datagrams(flow) => {
                seldom();
                flow.on_packet(
                    packet,
                    now,
                    &mut as_dyn!(ReceiverPort { back: &mut *back, stages: &mut *stages, line, now }, ReturnPort),
                )
            }
            Transport::Stream(stream) => {
                seldom();
                stream.on_packet(
                    packet,
                    now,
                    &mut as_dyn!(ReceiverPort { back: &mut *back, stages: &mut *stages, line, now }, ReturnPort),
                )
            }
        };
        if let Some(path) = &stages.acks {
            seldom();
            timer = timer.min(path.next_timer());
        }
        if let Some((listener, _)) = back.frame_listener() {
            transport.report_payloads(listener);
        }
        arena.timer_not_after(slot, timer);
    }
}

/// The end of the stages of acknowledgements, where they begin their way in a line.
pub struct AckEntry<'a, B: ReturnPath + ?Sized> {
    pub back: &'a mut B,
    pub line: u32,
}

impl<B: ReturnPath + ?Sized> Sink<(ReceiverReply, u32)> for AckEntry<'_, B> {
    #[inline(always)]
    fn arrive(&mut self, (reply, blocks): (ReceiverReply, u32), now: Instant) {
        self.back.push_ack(self.line, reply, blocks, now, false);
    }

    fn on_drop(&mut self, (_, blocks): (ReceiverReply, u32), _reason: DropReason, _now: Instant) {
        if blocks != NO_BLOCKS {
            self.back.pool().release(blocks);
        }
    }
}

/// A receiver's outlet at one instant: answers enter its delay line, or the stages ahead of it.
pub struct ReceiverPort<'a, B: ReturnPath + ?Sized> {
    pub back: &'a mut B,
    pub stages: &'a mut Stages,
    pub line: u32,
    pub now: Instant,
}

impl<B: ReturnPath + ?Sized> ReturnPort for ReceiverPort<'_, B> {
    #[inline(always)]
    fn pool(&mut self) -> &mut BlockPool {
        self.back.pool()
    }

    #[inline(always)]
    fn send(&mut self, reply: ReceiverReply, blocks: u32) {
        self.back.acknowledge(self.stages, self.line, (reply, blocks), self.now, false);
    }

    fn is_ahead(&self) -> bool {
        B::AHEAD
    }

    fn send_by_timer(&mut self, reply: ReceiverReply, blocks: u32, due: Instant) {
        self.back.acknowledge(self.stages, self.line, (reply, blocks), due, true);
    }
}

/// The lines of acknowledgements, and who listens at the only hop. `AHEAD`: packets may be delivered ahead of their time.
pub struct TappedLines<'a, L: Tap, const AHEAD: bool> {
    pub lines: &'a mut DelayLines,
    pub listener: &'a mut L,
}

impl<L: Tap, const AHEAD: bool> ReturnPath for TappedLines<'_, L, AHEAD> {
    const AHEAD: bool = AHEAD;

    #[inline(always)]
    fn push_ack(&mut self, line: u32, reply: ReceiverReply, blocks: u32, now: Instant, by_timer: bool) {
        if AHEAD {
            self.lines.insert(line, reply, blocks, now, by_timer);
        } else {
            self.lines.push(line, reply, blocks, now);
        }
    }

    #[inline(always)]
    fn pool(&mut self) -> &mut BlockPool {
        &mut self.lines.pool
    }

    #[inline(always)]
    fn frame_listener(&mut self) -> Option<(&mut dyn Tap, &BlockPool)> {
        frame_listener(self.listener, &self.lines.pool)
    }
}

/// The listener, if it wants to hear of frames, and SACK blocks.
#[inline(always)]
pub fn frame_listener<'a, L: Tap>(listener: &'a mut L, pool: &'a BlockPool) -> Option<(&'a mut dyn Tap, &'a BlockPool)> {
    if listener.listen_level() >= ListenLevel::Frames {
        Some((listener, pool))
    } else {
        None
    }
}
