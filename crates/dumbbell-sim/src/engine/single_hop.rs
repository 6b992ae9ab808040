//! A net of one hop, the fast path: nothing is decided for a packet that a run decides once, and acknowledgements never wait.

use super::delay_lines::{frame_listener, BlockPool, DelayLine, DelayLineTail, DelayLines, ReturnPath, TappedLines, NO_BLOCKS};
use super::endpoint::{Arena, Endpoint, UnderWay};
use super::ingress::{without_burst_marks, BehindSink, SharedIngress};
use super::memory::SendMemory;
use super::setup::build_path;
use super::topology::{Ingress, LoopState, Topology};
use super::transport::Connection;
use crate::capacity;
use crate::config::{Classes, Route, RunConfig, BOTTLENECK};
use crate::measure::Backlog;
use crate::min_tree::MinTree;
use crate::RunError;
use dumbbell_bottleneck::Bottleneck;
use dumbbell_core::aqm::{Aqm, FlowKey};
use dumbbell_core::hint::{likely, seldom, unlikely};
use dumbbell_core::log::{ListenLevel, Log};
use dumbbell_core::packet::{flag, Packet};
use dumbbell_core::path::Path;
use dumbbell_core::record::{Counters, FlowCounters};
use dumbbell_core::tcp::BackEcn;
use dumbbell_core::units::Time;
use std::sync::Arc;

/// So many acknowledgements ahead of its own, a sender is fetched: memory takes as long as half an acknowledgement, and a dozen lines are asked for.
const LOOK_AHEAD: usize = 4;

/// The bottleneck, stages ahead of it and behind it, and the lines of acknowledgements.
pub struct SingleHop<A: Aqm, L: Log = ()> {
    pub entrance: SharedIngress<A, L>,
    /// Stages that all packets pass behind the bottleneck.
    behind: Option<Box<Path<Packet>>>,
    pub lines: DelayLines,
}

impl<A: Aqm + Send, L: Log + Send> SingleHop<A, L> {
    /// The net of `config`, with nothing in it. Events at the bottleneck are reported to `listener` as well.
    pub fn new(config: &RunConfig, classes: &Classes, lines: Vec<DelayLine>, aqm: A, listener: L) -> SingleHop<A, L> {
        let stages = if config.has_shared_stages() { 2 } else { 0 };
        SingleHop {
            entrance: SharedIngress {
                shared: build_path(&config.path, config.run.seed, "shared path", 0),
                memory: SendMemory::new(config.hosts.memory),
                bottleneck: Bottleneck::with_link(config.named_link(0), aqm, classes.list.len(), &config.bottleneck, listener),
            },
            behind: build_path(&config.behind, config.run.seed, "path behind", 0),
            lines: DelayLines { times: MinTree::new(lines.len() + stages), all: lines, pool: BlockPool::default() },
        }
    }

    #[inline]
    fn on_ack(&mut self, line: usize, now: Time, arena: &mut Arena) -> Option<u32> {
        let queue = &mut self.lines.all[line].acks;
        let (_, ack, index) = queue.pop_front()?;
        let next = queue.front().map_or(Time::NEVER, |head| head.0);
        self.lines.times.set(line, next);
        if unlikely(arena.is_crowded()) {
            let Bottleneck { aqm, log, .. } = &self.entrance.bottleneck;
            if let Some((_, later, _)) = queue.get(LOOK_AHEAD) {
                arena.prefetch_sender(later.flow);
                log.counters.flows.prefetch(later.flow);
                aqm.prefetch(later.flow, false);
            }
            if let Some((_, soon, _)) = queue.get(1) {
                arena.get(soon.flow).transport.prefetch();
                aqm.prefetch(soon.flow, true);
            }
            if let Some((_, nearest, _)) = queue.front() {
                arena.get(nearest.flow).transport.prefetch_behind();
            }
        }
        let Endpoint { transport, stages, .. } = arena.get_mut(ack.flow);
        let blocks = if likely(index == NO_BLOCKS) { &[] } else { self.lines.pool.get(index) };
        let listener = &mut self.entrance.bottleneck.log.listener;
        if listener.listen_level() >= ListenLevel::Frames {
            listener.on_ack(&ack, blocks, now);
        }
        let timer = transport.on_back(&ack, blocks, stages, now, &mut self.entrance);
        arena.timer_not_after(ack.flow, timer);
        if unlikely(index != NO_BLOCKS) {
            self.lines.pool.release(index);
        }
        self.plan();
        Some(ack.flow)
    }

    /// Stages that all endpoints share have something to do.
    fn on_shared(&mut self, is_behind: bool, now: Time, arena: &mut Arena) {
        if !is_behind {
            let SharedIngress { shared, bottleneck, .. } = &mut self.entrance;
            if let Some(shared) = shared {
                shared.on_timer(now, bottleneck);
            }
            self.plan();
        } else {
            let SingleHop { lines, entrance, behind } = self;
            if let Some(path) = behind {
                path.on_timer(now, &mut BehindSink { arena, lines, bottleneck: &mut entrance.bottleneck });
                lines.set_stage(true, path.next_timer());
            }
        }
    }

    /// A packet leaves the bottleneck.
    #[inline(always)]
    fn leave(&mut self, packet: Packet, now: Time, arena: &mut Arena) {
        let SingleHop { lines, entrance, behind } = self;
        match behind {
            None => {
                let listener = &mut entrance.bottleneck.log.listener;
                TappedLines { lines, listener }.deliver(arena, &packet, now);
            }
            Some(path) => {
                seldom();
                path.push(
                    without_burst_marks(packet),
                    now,
                    &mut BehindSink { arena, lines, bottleneck: &mut entrance.bottleneck },
                );
                lines.set_stage(true, path.next_timer());
            }
        }
    }

    /// A packet that is not the last of its burst leaves; if the rest does not follow, it is.
    #[cold]
    #[inline(never)]
    fn leave_in_burst(&mut self, mut packet: Packet, now: Time, arena: &mut Arena) {
        if !self.entrance.bottleneck.burst_goes_on(&packet, now) {
            packet.flags &= !flag::MORE;
        }
        self.leave(packet, now, arena);
    }

    #[inline]
    fn on_link(&mut self, now: Time, arena: &mut Arena) {
        while self.entrance.bottleneck.next <= now {
            let left = self.entrance.bottleneck.advance(now);
            if unlikely(arena.is_crowded()) {
                let Bottleneck { aqm, log, .. } = &self.entrance.bottleneck;
                // where the queue does not tell who comes next, the packet on the wire has to do
                let soon = aqm.next_flow_hint().or_else(|| self.entrance.bottleneck.in_service().map(|packet| packet.flow));
                if let Some(flow) = soon {
                    log.counters.flows.prefetch(flow);
                    arena.prefetch_receiver(flow);
                }
            }
            match left {
                Some(packet) if packet.has(flag::MORE) => self.leave_in_burst(packet, now, arena),
                Some(packet) => self.leave(packet, now, arena),
                None => {}
            }
        }
    }
}

impl<A: Aqm, L: Log> Ingress for SharedIngress<A, L> {
    #[inline(always)]
    fn is_busy(&self, flags: u8) -> bool {
        likely(self.shared.is_none()) && self.bottleneck.is_busy(flags)
    }

    #[inline(always)]
    fn arrive_busy(&mut self, packet: Packet, now: Time) {
        self.bottleneck.arrive_busy(packet, now);
    }

    #[inline(always)]
    fn post(&mut self, packet: &Packet, now: Time) {
        let listener = &mut self.bottleneck.log.listener;
        if listener.listen_level() >= ListenLevel::Frames {
            listener.on_send(packet, now);
        }
    }

    #[inline]
    fn memory(&self) -> &SendMemory {
        &self.memory
    }

    #[inline]
    fn memory_mut(&mut self) -> &mut SendMemory {
        &mut self.memory
    }
}

impl<A: Aqm, L: Log> ReturnPath for SingleHop<A, L> {
    type Entry<'a>
        = DelayLineTail<'a>
    where
        Self: 'a;

    #[inline(always)]
    fn entry_of(&mut self, line: u32) -> DelayLineTail<'_> {
        self.lines.entry(line)
    }

    #[inline(always)]
    fn pool(&mut self) -> &mut BlockPool {
        &mut self.lines.pool
    }

    #[inline(always)]
    fn frame_listener(&mut self) -> Option<(&mut dyn Log, &BlockPool)> {
        frame_listener(&mut self.entrance.bottleneck.log.listener, &self.lines.pool)
    }
}

impl<A: Aqm + Send, L: Log + Send> Topology for SingleHop<A, L> {
    type Listener = L;

    #[inline]
    fn listener(&mut self) -> &mut L {
        &mut self.entrance.bottleneck.log.listener
    }

    type Way = SharedIngress<A, L>;

    #[inline]
    fn way(&mut self) -> &mut SharedIngress<A, L> {
        &mut self.entrance
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
        self.entrance.bottleneck.flow_starts(slot, key, class);
    }

    fn forget(&mut self, slot: u32) {
        self.entrance.bottleneck.log.counters.flows.forget(slot);
        self.entrance.memory.release(slot);
    }

    #[inline]
    fn of_flow(&self, slot: u32) -> FlowCounters {
        self.entrance.bottleneck.log.counters.flows.flow_counters(slot)
    }

    #[inline]
    fn prefetch_counters(&self, slot: u32) {
        self.entrance.bottleneck.log.counters.flows.prefetch_all(slot);
    }

    type Move = ();

    #[inline(always)]
    fn next_due(&self) -> (Time, ()) {
        (self.lines.times.min().0.min(self.entrance.bottleneck.next), ())
    }

    #[inline(always)]
    fn move_packets(&mut self, (): (), moment: &mut LoopState, arena: &mut Arena) -> Option<u32> {
        loop {
            let (line_at, line) = self.lines.times.min();
            let link_at = self.entrance.bottleneck.next;
            let mut reached = None;
            // At one instant a packet leaves before another arrives. Ties are common, because ACKs are as far apart as the
            // departures that caused them. A real host takes a moment to answer, so that its packet arrives after the tie.
            if line_at < link_at {
                match line.checked_sub(self.lines.all.len()) {
                    None => reached = self.on_ack(line, line_at, arena),
                    Some(stage) => self.on_shared(stage == 1, line_at, arena),
                }
            } else {
                self.on_link(link_at, arena);
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

    #[inline]
    fn plan(&mut self) {
        if let Some(shared) = &self.entrance.shared {
            seldom();
            self.lines.set_stage(false, shared.next_timer());
        }
    }

    #[inline(always)]
    fn aqm_at(&self) -> Time {
        self.entrance.bottleneck.aqm.next_timer()
    }

    fn on_aqm_timer(&mut self) {
        let at = self.aqm_at();
        self.entrance.bottleneck.on_aqm_timer(at);
    }

    fn change_rate(&mut self, change: usize, config: &RunConfig, now: Time) {
        self.entrance.bottleneck.set_rate(config.rate_changes[change].rate, now);
    }

    fn settle(&mut self, now: Time) {
        self.entrance.bottleneck.settle(now);
    }

    fn check_links(&self, config: &RunConfig) -> Result<(), RunError> {
        let queue = &self.entrance.bottleneck;
        capacity::check(config, 0, config.run.duration, &queue.log.counters.queue, queue.link_use()).map_err(RunError::Invariant)
    }

    fn counters(&self) -> &Counters {
        &self.entrance.bottleneck.log.counters
    }

    fn counters_mut(&mut self) -> &mut Counters {
        &mut self.entrance.bottleneck.log.counters
    }

    fn of_discipline(&self) -> Vec<(String, u64)> {
        self.entrance.bottleneck.aqm.counters()
    }

    fn states(&self, tell: &mut dyn FnMut(&str, &'static str, f64)) {
        self.entrance.bottleneck.aqm.state(&mut |name, value| tell(BOTTLENECK, name, value));
    }

    fn backlog(&self) -> Backlog {
        let aqm = &self.entrance.bottleneck.aqm;
        Backlog { packets: aqm.packets() as u64, bytes: aqm.bytes() }
    }

    fn check(&self, found: UnderWay, staged: u64) -> Result<(), RunError> {
        let held = |path: &Option<Box<Path<Packet>>>| path.as_ref().map_or(0, |path| path.count_items() as u64);
        let held_here = UnderWay {
            ahead: staged + held(&self.entrance.shared),
            queued: self.entrance.bottleneck.count_packets(),
            behind: held(&self.behind),
        };
        for (place, unaccounted, there) in [
            ("ahead of the queue", found.ahead, held_here.ahead),
            ("queue", found.queued, held_here.queued),
            ("behind the queue", found.behind, held_here.behind),
        ] {
            if unaccounted != there {
                return Err(RunError::Invariant(format!("{place}: arrived - gone is {unaccounted}, held are {there}")));
            }
        }
        Ok(())
    }
}
