//! A net of one hop, the fast path: nothing is decided for a packet that a run decides once, and acknowledgements never wait.

use super::connection::Connection;
use super::delay_lines::{DelayLine, DelayLines, ReturnPath, ReturningAck, TappedLines};
use super::endpoint::{agree, Arena, Endpoint, UnderWay};
use super::memory::SendMemory;
use super::port::{BlockPool, Ingress, ReceivingEnd, ReturnPort, NO_BLOCKS};
use super::topology::{backlog, fork_hop, ForkNet, LoopState, Topology};
use crate::capacity;
use crate::config::{Classes, Route, RunConfig, BOTTLENECK};
use crate::hop_log::Backlog;
use crate::RunError;
use dumbbell_bottleneck::{Bottleneck, Hop, HopPart, Passage};
use dumbbell_core::aqm::{AnyAqm, Aqm};
use dumbbell_core::as_dyn;
use dumbbell_core::fork::{CannotFork, Fork, SharedCopies};
use dumbbell_core::hint::{likely, unlikely};
use dumbbell_core::link::AnyLink;
use dumbbell_core::log::{DropReason, Log};
use dumbbell_core::observe::{ListenLevel, Tap};
use dumbbell_core::packet::{FlowKey, Packet};
use dumbbell_core::param::ParamError;
use dumbbell_core::path::Sink;
use dumbbell_core::record::{FlowCounters, QueueCounters};
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::receiver::SackBlocks;
use dumbbell_core::tcp::{BackEcn, Burst};
use dumbbell_core::units::{Instant, Rate};
use std::any::Any;
use std::sync::Arc;

/// Number of acknowledgements by which a sender is prefetched ahead of its own: memory takes as long as half an acknowledgement, and a dozen lines are requested.
const LOOK_AHEAD: usize = 4;

/// The bottleneck, stages ahead of it and behind it, and the lines of acknowledgements. `AHEAD`: a packet whose fate is known when it is sent is
/// [delivered](super::ahead) then.
pub struct SingleHop<A: Aqm, L: Tap, const AHEAD: bool> {
    pub entrance: SharedIngress<A, L>,
    pub lines: DelayLines,
    /// Nothing looks at receivers or counters before.
    horizon: Instant,
}

/// Returns the queue discipline as the type of the net: a run that can be changed has one for any.
fn take_as<A: 'static>(aqm: AnyAqm) -> Option<A> {
    let any: Box<dyn Any> = Box::new(aqm);
    any.downcast::<A>().ok().map(|own| *own)
}

/// Returns what happens to packets that leave the hop: they reach their receivers.
fn deliveries<'a, L: Tap>(lines: &'a mut DelayLines, arena: &'a mut Arena) -> impl FnMut(&Packet, Instant, &mut L) + 'a {
    move |packet, now, listener| TappedLines::<L, false> { lines: &mut *lines, listener }.deliver(arena, packet, now)
}

impl<A: Aqm + Send + 'static, L: Tap + Fork + Send, const AHEAD: bool> ForkNet for SingleHop<A, L, AHEAD> {
    fn fork_net(&self, config: &RunConfig, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        let hop = fork_hop(&self.entrance.hop, (BOTTLENECK, &config.aqm), shared)?;
        let entrance = SharedIngress { hop, memory: self.entrance.memory.clone() };
        Ok(SingleHop { entrance, lines: self.lines.clone(), horizon: self.horizon })
    }
}

impl<A: Aqm + Send + 'static, L: Tap + Send, const AHEAD: bool> SingleHop<A, L, AHEAD> {
    /// The net of `config`, with nothing in it. Events at the bottleneck are reported to `listener` as well.
    pub fn new(config: &RunConfig, classes: &Classes, lines: Vec<DelayLine>, aqm: A, listener: L) -> Self {
        let hop = Hop::new(config, (0, &config.first_hop()), classes.list.len(), aqm, listener);
        let parts = if hop.is_bare() { 0 } else { HopPart::ALL.len() };
        SingleHop {
            entrance: SharedIngress { hop, memory: SendMemory::new(config.hosts.memory) },
            lines: DelayLines::new(lines, parts),
            horizon: Instant::ZERO,
        }
    }

    #[inline]
    fn on_ack(&mut self, line: usize, now: Instant, arena: &mut Arena) -> Option<u32> {
        let queue = &mut self.lines.all[line].acks;
        let ReturningAck { reply, blocks, .. } = queue.pop_front()?;
        let next = queue.front().map_or(Instant::NEVER, |head| head.at);
        self.lines.times.set(line, next);
        if unlikely(arena.is_crowded()) {
            let Bottleneck { aqm, log, .. } = &self.entrance.hop.bottleneck;
            if queue.len() > LOOK_AHEAD {
                let (nearest, soon, later) = (queue[0].reply.flow(), queue[1].reply.flow(), queue[LOOK_AHEAD].reply.flow());
                arena.prefetch_sender(later);
                if AHEAD {
                    arena.prefetch_receiver(later);
                }
                log.counters.flows.prefetch(later);
                aqm.prefetch(later, false);
                arena.get(soon).transport.prefetch();
                aqm.prefetch(soon, true);
                arena.get(nearest).transport.prefetch_behind();
            }
        }
        let Endpoint { transport, stages, .. } = arena.get_mut(reply.flow());
        // what the sender sends may put others on their way
        let sacked = unlikely(blocks != NO_BLOCKS).then(|| self.lines.pool.take(blocks));
        let sacked = sacked.as_ref().map_or(&[][..], SackBlocks::as_slice);
        let listener = &mut self.entrance.hop.bottleneck.log.listener;
        if listener.listen_level() >= ListenLevel::Frames {
            listener.on_ack(&reply, sacked, now);
        }
        let way = as_dyn!(
            HopIngress::<A, L, AHEAD> {
                shared: &mut self.entrance,
                lines: &mut self.lines,
                line: line as u32,
                horizon: self.horizon,
            },
            Ingress
        );
        let timer = transport.on_back(&reply, sacked, stages, now, way);
        arena.plan_after_answer(reply.flow(), timer, now);
        self.plan();
        Some(reply.flow())
    }

    /// Stages that all endpoints share have something to do.
    fn on_part(&mut self, part: HopPart, now: Instant, arena: &mut Arena) {
        let SingleHop { lines, entrance, .. } = self;
        entrance.hop.on_part(part, now, &mut deliveries(lines, arena));
        self.plan_parts();
    }

    /// Parts of the hop may have something to do at another time.
    #[inline(never)]
    fn plan_parts(&mut self) {
        for (number, part) in HopPart::ALL.into_iter().enumerate() {
            self.lines.set_other(number, self.entrance.hop.part_time(part));
        }
    }

    /// A packet leaves the bottleneck, behind which there are stages.
    #[inline(never)]
    fn leave_by_parts(&mut self, packet: Packet, now: Instant, arena: &mut Arena) {
        let SingleHop { lines, entrance, .. } = self;
        entrance.hop.leave(packet, now, &mut deliveries(lines, arena));
        self.plan_parts();
    }

    /// Moves packets over the link as far ahead of their time as their fate is known.
    #[inline(always)]
    fn run_ahead(&mut self, arena: &mut Arena) {
        let bottleneck = &mut self.entrance.hop.bottleneck;
        if bottleneck.next == Instant::NEVER {
            return;
        }
        let horizon = self.horizon.min(bottleneck.aqm.next_timer());
        while let Some((at, packet)) = bottleneck.advance_ahead(horizon) {
            let (lines, listener) = (&mut self.lines, &mut bottleneck.log.listener);
            TappedLines::<L, AHEAD> { lines, listener }.deliver(arena, &packet, at);
        }
    }

    #[inline]
    fn on_link(&mut self, now: Instant, arena: &mut Arena) {
        while self.entrance.hop.bottleneck.next <= now {
            let left = self.entrance.hop.advance(now);
            if unlikely(arena.is_crowded()) {
                let bottleneck = &self.entrance.hop.bottleneck;
                // where the queue does not tell who comes next, the packet on the wire has to do
                let soon = bottleneck.aqm.next_flow_hint().or_else(|| bottleneck.in_service().map(|packet| packet.flow));
                if let Some(flow) = soon {
                    bottleneck.log.counters.flows.prefetch(flow);
                    arena.prefetch_receiver(flow);
                }
            }
            match left {
                Some(packet) if likely(self.entrance.hop.is_open()) => self.back().deliver(arena, &packet, now),
                Some(packet) => self.leave_by_parts(packet, now, arena),
                None => {}
            }
        }
    }
}

/// The hop, which all endpoints share, and what their send buffers hold.
pub struct SharedIngress<A: Aqm, L: Tap> {
    pub hop: Hop<A, L>,
    pub memory: SendMemory,
}

/// The way into the hop of the senders of one line.
pub struct HopIngress<'a, A: Aqm, L: Tap, const AHEAD: bool> {
    shared: &'a mut SharedIngress<A, L>,
    lines: &'a mut DelayLines,
    line: u32,
    horizon: Instant,
}

/// The paths of single endpoints lead to what they share.
impl<A: Aqm, L: Tap, const AHEAD: bool> Sink<Packet> for HopIngress<'_, A, L, AHEAD> {
    #[inline]
    fn arrive(&mut self, packet: Packet, now: Instant) {
        if AHEAD {
            self.shared.hop.bottleneck.arrive_behind_passed(packet, now);
        } else {
            self.shared.hop.arrive(packet, now);
        }
    }

    fn on_drop(&mut self, packet: Packet, reason: DropReason, now: Instant) {
        self.shared.hop.on_drop(packet, reason, now);
    }

    fn on_clear_ecn(&mut self, packet: &Packet, now: Instant) {
        self.shared.hop.on_clear_ecn(packet, now);
    }
}

impl<A: Aqm, L: Tap, const AHEAD: bool> Ingress for HopIngress<'_, A, L, AHEAD> {
    #[inline(always)]
    fn delivers(&self) -> bool {
        AHEAD
    }

    #[inline(always)]
    fn deliver_ahead(&mut self, burst: Burst, to: &mut ReceivingEnd, now: Instant) -> Burst {
        let bottleneck = &mut self.shared.hop.bottleneck;
        if !bottleneck.lets_pass() {
            return burst;
        }
        deliver_burst(bottleneck, self.horizon, burst, to, (self.lines, self.line), now)
    }

    #[inline(always)]
    fn is_busy(&self, flags: u16) -> bool {
        let hop = &self.shared.hop;
        let is_direct = if AHEAD { !hop.bottleneck.is_drained() } else { likely(hop.is_direct()) };
        is_direct && hop.bottleneck.is_busy(flags)
    }

    #[inline(always)]
    fn arrive_busy(&mut self, packet: Packet, now: Instant) {
        self.shared.hop.bottleneck.arrive_busy(packet, now);
    }

    #[inline(always)]
    fn post(&mut self, packet: &Packet, now: Instant) {
        let listener = &mut self.shared.hop.bottleneck.log.listener;
        if listener.listen_level() >= ListenLevel::Frames {
            listener.on_send(packet, now);
        }
    }

    #[inline]
    fn memory(&self) -> &SendMemory {
        &self.shared.memory
    }

    #[inline]
    fn memory_mut(&mut self) -> &mut SendMemory {
        &mut self.shared.memory
    }
}

/// [`Ingress::deliver_ahead`] over `bottleneck`, in front of which nothing waits; acknowledgements enter `line` of `lines`.
#[inline(always)]
fn deliver_burst<A: Aqm, L: Log>(
    bottleneck: &mut Bottleneck<A, L>,
    horizon: Instant,
    mut burst: Burst,
    to: &mut ReceivingEnd,
    (lines, line): (&mut DelayLines, u32),
    now: Instant,
) -> Burst {
    let horizon = horizon.min(bottleneck.aqm.next_timer());
    while let Some(mut packet) = burst.head() {
        match bottleneck.pass(&mut packet, now, horizon) {
            Passage::Left(at) => to.receive(&packet, at, &mut EarlyReturn { lines, line, at }),
            Passage::Dropped => {}
            Passage::Waits => break,
        }
        burst.advance();
    }
    burst
}

/// The way back from a receiver that a packet reaches ahead of its time, at `at`.
struct EarlyReturn<'a> {
    lines: &'a mut DelayLines,
    line: u32,
    at: Instant,
}

impl ReturnPort for EarlyReturn<'_> {
    #[inline(always)]
    fn pool(&mut self) -> &mut BlockPool {
        &mut self.lines.pool
    }

    #[inline(always)]
    fn send(&mut self, reply: ReceiverReply, blocks: u32) {
        self.lines.insert(self.line, reply, blocks, self.at, false);
    }

    fn send_by_timer(&mut self, reply: ReceiverReply, blocks: u32, due: Instant) {
        self.lines.insert(self.line, reply, blocks, due, true);
    }
}

impl<A: Aqm + Send + 'static, L: Tap + Send, const AHEAD: bool> Topology for SingleHop<A, L, AHEAD> {
    type Listener = L;

    #[inline]
    fn listener(&mut self) -> &mut L {
        &mut self.entrance.hop.bottleneck.log.listener
    }

    type Way<'a>
        = HopIngress<'a, A, L, AHEAD>
    where
        Self: 'a;

    #[inline]
    fn way(&mut self, line: u32) -> HopIngress<'_, A, L, AHEAD> {
        let SingleHop { entrance: shared, lines, horizon } = self;
        HopIngress { shared, lines, line, horizon: *horizon }
    }

    #[inline]
    fn set_horizon(&mut self, horizon: Instant) {
        self.horizon = horizon;
    }

    type Back<'a>
        = TappedLines<'a, L, AHEAD>
    where
        Self: 'a;

    #[inline(always)]
    fn back(&mut self) -> TappedLines<'_, L, AHEAD> {
        TappedLines { lines: &mut self.lines, listener: &mut self.entrance.hop.bottleneck.log.listener }
    }

    #[inline]
    fn lines(&self) -> &DelayLines {
        &self.lines
    }

    #[inline]
    fn lines_mut(&mut self) -> &mut DelayLines {
        &mut self.lines
    }

    fn flow_starts(&mut self, slot: u32, _: &Arc<Route>, _: u32, key: &FlowKey, _: BackEcn, class: u16) {
        self.entrance.hop.bottleneck.flow_starts(slot, key, class);
    }

    fn forget(&mut self, slot: u32) {
        self.entrance.hop.bottleneck.log.counters.flows.forget(slot);
        self.entrance.memory.release(slot);
    }

    #[inline]
    fn of_flow(&self, slot: u32) -> FlowCounters {
        self.entrance.hop.bottleneck.log.counters.flows.flow_counters(slot)
    }

    #[inline]
    fn prefetch_counters(&self, slot: u32) {
        self.entrance.hop.bottleneck.log.counters.flows.prefetch_all(slot);
    }

    type Move = ();

    #[inline(always)]
    fn next_due(&self) -> (Instant, ()) {
        (self.lines.times.min().0.min(self.entrance.hop.bottleneck.next), ())
    }

    #[inline(always)]
    fn move_packets(&mut self, (): (), moment: &mut LoopState, arena: &mut Arena) -> Option<u32> {
        loop {
            let (line_at, line) = self.lines.times.min();
            let link_at = self.entrance.hop.bottleneck.next;
            let mut reached = None;
            // At one instant a packet leaves before another arrives. Ties are common, because ACKs are as far apart as the
            // departures that caused them. A real host takes a moment to answer, so that its packet arrives after the tie.
            if line_at < link_at {
                match line.checked_sub(self.lines.all.len()) {
                    None => reached = self.on_ack(line, line_at, arena),
                    Some(part) => self.on_part(HopPart::ALL[part], line_at, arena),
                }
            } else {
                self.on_link(link_at, arena);
            }
            if AHEAD {
                self.run_ahead(arena);
            }
            let (next, ()) = self.next_due();
            let goes_on = next <= moment.before && next <= arena.timers.min().0 && next <= self.aqm_at();
            if !goes_on || moment.watched || moment.events + 1 >= moment.most_events {
                return reached;
            }
            moment.events += 1;
            moment.now = next;
        }
    }

    #[inline(always)]
    fn plan(&mut self) {
        if unlikely(!self.entrance.hop.is_bare()) {
            self.plan_parts();
        }
    }

    #[inline(always)]
    fn aqm_at(&self) -> Instant {
        self.entrance.hop.bottleneck.aqm.next_timer()
    }

    fn on_aqm_timer(&mut self) {
        let at = self.aqm_at();
        self.entrance.hop.bottleneck.on_aqm_timer(at);
    }

    fn change_rate(&mut self, change: usize, config: &RunConfig, now: Instant) {
        self.entrance.hop.bottleneck.set_rate(config.rate_changes[change].rate, now);
    }

    fn take_params(&mut self, _hop: usize, fresh: AnyAqm, now: Instant) -> Result<(), ParamError> {
        match take_as::<A>(fresh) {
            Some(own) => self.entrance.hop.bottleneck.take_params(own, now),
            None => Ok(()),
        }
    }

    fn replace_queue(&mut self, _hop: usize, fresh: AnyAqm, link: Option<AnyLink>, now: Instant) {
        if let Some(own) = take_as::<A>(fresh) {
            self.entrance.hop.bottleneck.replace_queue(own, link, now);
        }
    }

    fn set_loss(&mut self, _hop: usize, is_behind: bool, stage: usize, probability: f64) -> bool {
        self.entrance.hop.set_loss(is_behind, stage, probability)
    }

    fn set_shaper(&mut self, _hop: usize, rate: Rate, now: Instant) {
        self.entrance.hop.bottleneck.set_shaper(rate, now);
    }

    fn taken_bytes(&self, _hop: usize) -> u64 {
        self.entrance.hop.bottleneck.taken_bytes()
    }

    fn settle(&mut self, now: Instant) {
        self.entrance.hop.bottleneck.settle(now);
    }

    fn check_links(&self, config: &RunConfig) -> Result<(), RunError> {
        let queue = &self.entrance.hop.bottleneck;
        capacity::check(config, 0, config.end(), &queue.log.counters.queue, queue.link_use()).map_err(RunError::Invariant)
    }

    type Queue = A;
    type Tap = L;

    fn bottleneck(&self) -> &Bottleneck<A, L> {
        &self.entrance.hop.bottleneck
    }

    fn bottleneck_mut(&mut self) -> &mut Bottleneck<A, L> {
        &mut self.entrance.hop.bottleneck
    }

    fn serial_queue(&mut self) -> Option<&mut Bottleneck<A, L>> {
        let hop = &mut self.entrance.hop;
        (hop.is_bare() && hop.bottleneck.is_serial()).then_some(&mut hop.bottleneck)
    }

    fn hops(&self, tell: &mut dyn FnMut(&str, Backlog, &QueueCounters)) {
        let Bottleneck { aqm, log, .. } = &self.entrance.hop.bottleneck;
        tell(BOTTLENECK, backlog(aqm), &log.counters.queue);
    }

    fn states(&self, tell: &mut dyn FnMut(&str, &'static str, f64)) {
        self.entrance.hop.bottleneck.aqm.state(&mut |name, value| tell(BOTTLENECK, name, value));
    }

    fn check(&self, found: UnderWay, staged: u64) -> Result<(), RunError> {
        let hop = &self.entrance.hop;
        agree("ahead of the queue", found.ahead, staged + hop.count_ahead())?;
        agree("queue", found.queued, hop.bottleneck.count_packets())?;
        agree("behind the queue", found.behind, hop.count_behind())
    }
}
