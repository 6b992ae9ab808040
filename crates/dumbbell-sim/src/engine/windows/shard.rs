//! A shard: the endpoints of neighbouring slots, with their acknowledgements and timers. Its senders and receivers run apart from each other and from those of
//! other shards.

use super::{Departed, Sent};
use crate::engine::connection::Connection;
use crate::engine::delay_lines::{DelayLines, ReceiverPort, ReturnPath, ReturningAck};
use crate::engine::endpoint::Endpoint;
use crate::engine::memory::SendMemory;
use crate::engine::port::{BlockPool, Ingress, NO_BLOCKS};
use crate::min_tree::MinTree;
use dumbbell_core::hint::{likely, seldom, unlikely};
use dumbbell_core::log::DropReason;
use dumbbell_core::observe::Tap;
use dumbbell_core::packet::Packet;
use dumbbell_core::path::Sink;
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::units::{Duration, Instant};
use std::collections::VecDeque;

/// Marks the order of a timer, in a tie of receivers and in [`Sent::order`].
const TIMER_TIE: u32 = 1 << 31;
const TIMER_ORDER: u64 = 1 << 63;

/// Number of acknowledgements or packets by which an endpoint is prefetched ahead of its own.
const LOOK_AHEAD: usize = 4;

/// An acknowledgement on its way back.
#[derive(Clone)]
struct AckInFlight {
    at: Instant,
    reply: ReceiverReply,
    blocks: u32,
    /// Place among those of the line that were sent at the same time: first that of a packet, which is the only one that leaves at this time, then those of timers by slot.
    tie: u32,
}

/// The acknowledgements of one line, in order.
#[derive(Clone)]
struct ShardLine {
    delay: Duration,
    acks: VecDeque<AckInFlight>,
}

/// The acknowledgements of a shard on their way back.
#[derive(Clone)]
struct ShardLines {
    all: Vec<ShardLine>,
    /// The earliest of each line.
    times: MinTree,
    pool: BlockPool,
    /// [`AckInFlight::tie`] of what receivers send now.
    tie: u32,
}

/// Acknowledgements and timers of the endpoints from slot `first` on.
#[derive(Clone)]
pub struct Shard {
    first: u32,
    lines: ShardLines,
    sender_timers: MinTree,
    receiver_timers: MinTree,
    /// The endpoints of the run do not stay in the cache.
    crowded: bool,
}

/// When the sender of an endpoint has something to do; the start of one that has not begun is not counted.
fn sender_timer(endpoint: &Endpoint) -> Instant {
    endpoint.transport.sender_timer().min(endpoint.stop)
}

impl Shard {
    /// The shard of `endpoints`, whose slots begin at `first`, without acknowledgements.
    pub fn new(first: u32, endpoints: &[Endpoint], lines: &DelayLines, crowded: bool) -> Shard {
        let mut shard = Shard {
            first,
            lines: ShardLines {
                all: lines.all.iter().map(|line| ShardLine { delay: line.delay, acks: VecDeque::new() }).collect(),
                times: MinTree::new(lines.all.len()),
                pool: BlockPool::default(),
                tie: 0,
            },
            sender_timers: MinTree::new(endpoints.len()),
            receiver_timers: MinTree::new(endpoints.len()),
            crowded,
        };
        for (index, endpoint) in endpoints.iter().enumerate() {
            shard.sender_timers.set(index, sender_timer(endpoint));
            shard.receiver_timers.set(index, endpoint.transport.receiver_timer());
        }
        shard
    }

    /// Takes an acknowledgement out of the line `line` of the whole run, behind those that it has of it. `tie` is its place among those of the same time.
    pub fn take_ack(&mut self, line: usize, ack: ReturningAck, tie: u32, pool: &mut BlockPool) {
        let ReturningAck { at, reply, blocks, .. } = ack;
        let blocks = pool.hand_over(blocks, &mut self.lines.pool);
        self.lines.push(line, AckInFlight { at, reply, blocks, tie });
    }

    /// Gives away all acknowledgements of line `line`, in order, with their places among those of the same time; SACK blocks go to `pool`.
    pub fn give_acks<'a>(
        &'a mut self,
        line: usize,
        pool: &'a mut BlockPool,
    ) -> impl Iterator<Item = ((Instant, u32), ReceiverReply, u32)> + 'a {
        let own = &mut self.lines.pool;
        self.lines.all[line].acks.drain(..).map(|one| ((one.at, one.tie), one.reply, own.hand_over(one.blocks, pool)))
    }

    /// Lets everything happen at senders until `until`, that instant included: they send to `out`.
    pub fn run_senders(&mut self, endpoints: &mut [Endpoint], until: Instant, out: &mut Vec<Sent>) {
        let mut out = SendLog { out, order: 0, memory: SendMemory::new(None) };
        loop {
            let (ack_at, line) = self.lines.times.min();
            let (timer_at, index) = self.sender_timers.min();
            if ack_at.min(timer_at) > until {
                return;
            }
            if likely(ack_at <= timer_at) {
                self.on_ack(line, ack_at, endpoints, &mut out);
            } else {
                self.on_sender_timer(index, timer_at, endpoints, &mut out);
            }
        }
    }

    #[inline(always)]
    fn on_ack(&mut self, line: usize, now: Instant, endpoints: &mut [Endpoint], out: &mut SendLog<'_>) {
        let queue = &mut self.lines.all[line].acks;
        let Some(AckInFlight { reply, blocks, tie, .. }) = queue.pop_front() else { return };
        let next = queue.front().map_or(Instant::NEVER, |head| head.at);
        self.lines.times.set(line, next);
        let place = |flow: u32| (flow - self.first) as usize;
        if self.crowded {
            if let Some(later) = queue.get(LOOK_AHEAD) {
                self.sender_timers.prefetch(place(later.reply.flow()));
                endpoints[place(later.reply.flow())].prefetch_sender();
            }
            if let Some(soon) = queue.get(1) {
                endpoints[place(soon.reply.flow())].transport.prefetch();
            }
            if let Some(nearest) = queue.front() {
                endpoints[place(nearest.reply.flow())].transport.prefetch_behind();
            }
        }
        let index = place(reply.flow());
        let Endpoint { transport, stages, .. } = &mut endpoints[index];
        out.order = (line as u64) << 32 | u64::from(tie);
        let sacked = if likely(blocks == NO_BLOCKS) { &[] } else { self.lines.pool.get(blocks) };
        let timer = transport.on_back(&reply, sacked, stages, now, out);
        set_not_after(&mut self.sender_timers, index, timer);
        if unlikely(blocks != NO_BLOCKS) {
            self.lines.pool.release(blocks);
        }
    }

    #[inline(never)]
    fn on_sender_timer(&mut self, index: usize, now: Instant, endpoints: &mut [Endpoint], out: &mut SendLog<'_>) {
        out.order = TIMER_ORDER | (u64::from(self.first) + index as u64);
        let Endpoint { transport, stages, stop, .. } = &mut endpoints[index];
        transport.on_timer(Instant::NEVER, stop, stages, now, out);
        self.sender_timers.set(index, sender_timer(&endpoints[index]));
    }

    /// Lets everything happen at receivers until `until`, that instant included, where `arriving` leave the link.
    pub fn run_receivers(&mut self, endpoints: &mut [Endpoint], arriving: &[Departed], until: Instant) {
        for (number, packet) in arriving.iter().enumerate() {
            let now = packet.enqueue_time;
            while self.receiver_timers.min().0 < now {
                self.on_receiver_timer(endpoints);
            }
            if self.crowded {
                if let Some(later) = arriving.get(number + LOOK_AHEAD) {
                    let place = (later.flow - self.first) as usize;
                    self.receiver_timers.prefetch(place);
                    endpoints[place].prefetch_receiver();
                }
            }
            let index = (packet.flow - self.first) as usize;
            let Endpoint { transport, stages, line, .. } = &mut endpoints[index];
            let line = *line;
            self.lines.tie = 0;
            let back = &mut self.lines;
            let timer = transport.on_packet(packet, now, &mut ReceiverPort { back, stages, line, now });
            set_not_after(&mut self.receiver_timers, index, timer);
        }
        while self.receiver_timers.min().0 <= until {
            self.on_receiver_timer(endpoints);
        }
    }

    #[inline(never)]
    fn on_receiver_timer(&mut self, endpoints: &mut [Endpoint]) {
        let (now, index) = self.receiver_timers.min();
        let Endpoint { transport, stages, line, .. } = &mut endpoints[index];
        let line = *line;
        self.lines.tie = TIMER_TIE | (self.first + index as u32);
        transport.on_receiver_timer(now, &mut ReceiverPort { back: &mut self.lines, stages, line, now });
        self.receiver_timers.set(index, transport.receiver_timer());
    }
}

/// The timer `index` fires at `time` at the latest.
#[inline(always)]
fn set_not_after(timers: &mut MinTree, index: usize, time: Instant) {
    if time < timers.get(index) {
        seldom();
        timers.set(index, time);
    }
}

impl ShardLines {
    #[inline(always)]
    fn push(&mut self, line: usize, ack: AckInFlight) {
        let queue = &mut self.all[line].acks;
        if unlikely(queue.is_empty()) {
            self.times.set(line, ack.at);
        }
        queue.push_back(ack);
    }
}

impl ReturnPath for ShardLines {
    #[inline(always)]
    fn push_ack(&mut self, line: u32, reply: ReceiverReply, blocks: u32, now: Instant, _by_timer: bool) {
        let line = line as usize;
        let at = now + self.all[line].delay;
        self.push(line, AckInFlight { at, reply, blocks, tie: self.tie });
    }

    #[inline(always)]
    fn pool(&mut self) -> &mut BlockPool {
        &mut self.pool
    }

    #[inline(always)]
    fn frame_listener(&mut self) -> Option<(&mut dyn Tap, &BlockPool)> {
        None
    }
}

/// Where the senders of a shard send: nothing happens to a packet yet.
struct SendLog<'a> {
    out: &'a mut Vec<Sent>,
    /// [`Sent::order`] of the present event.
    order: u64,
    memory: SendMemory,
}

impl Sink<Packet> for SendLog<'_> {
    #[inline(always)]
    fn arrive(&mut self, packet: Packet, now: Instant) {
        self.out.push(Sent { order: self.order, packet: Packet { enqueue_time: now, ..packet } });
    }

    fn on_drop(&mut self, _packet: Packet, _reason: DropReason, _now: Instant) {}

    fn on_clear_ecn(&mut self, _packet: &Packet, _now: Instant) {}
}

impl Ingress for SendLog<'_> {
    #[inline(always)]
    fn post(&mut self, _packet: &Packet, _now: Instant) {}

    #[inline]
    fn memory(&self) -> &SendMemory {
        &self.memory
    }

    #[inline]
    fn memory_mut(&mut self) -> &mut SendMemory {
        &mut self.memory
    }
}
