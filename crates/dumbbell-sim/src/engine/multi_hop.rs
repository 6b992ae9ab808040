//! A net of any number of hops, each with stages, queue, link and counters. Data pass the hops of their route, acknowledgements as packets
//! those of theirs, and both wait in the same queues.
//!
//! The propagation of a flow, its base RTT, lies in one piece in its line: down, between the last hop of the acknowledgements and the sender;
//! up, between the receiver and the first hop of the acknowledgements. A sender's clock runs ahead by half of it down, and a receiver's
//! behind by half of it up; nothing that either does depends on absolute time (see [`engine`](super)).

mod hop;
mod return_path;

use super::ack_log::QueuedAck;
use super::delay_lines::{BlockPool, DelayLine, DelayLines, ReturnPath};
use super::endpoint::{Arena, UnderWay};
use super::ingress::without_burst_marks;
use super::memory::SendMemory;
use super::topology::{Ingress, LoopState, Topology};
use crate::capacity;
use crate::config::{Class, Classes, Route, RunConfig};
use crate::hop_log::HopLog;
use crate::measure::Backlog;
use crate::min_tree::{MinList, MinTree};
use crate::RunError;
use dumbbell_core::aqm::{AnyAqm, Aqm, FlowKey};
use dumbbell_core::hint::{seldom, unlikely};
use dumbbell_core::histogram::Histogram;
use dumbbell_core::log::{DropReason, ListenLevel, Log};
use dumbbell_core::packet::{flag, Packet};
use dumbbell_core::path::{Path, Sink};
use dumbbell_core::record::{Counters, FlowCounters};
use dumbbell_core::tcp::{Ack, BackEcn};
use dumbbell_core::units::Time;
use hop::{agree, Hop, HopSink, END};
use std::collections::VecDeque;
use std::sync::Arc;

/// Entries of a hop among [`MultiHop::stages`].
const STAGES: usize = 3;

/// What a slot's endpoint passes.
#[derive(Clone)]
struct Member {
    route: Arc<Route>,
    line: u32,
    /// The first hop of its data.
    first: u16,
    /// The first hop of its acknowledgements.
    back: u16,
    back_ecn: BackEcn,
    /// Acknowledgements in hops.
    acks: u32,
}

/// What moves next in [`MultiHop`].
#[derive(Clone, Copy)]
pub enum NextMove {
    /// A packet leaves the link of this hop.
    Link(u32),
    /// The first acknowledgement of this line.
    Line(u32),
    /// This entry of [`MultiHop::stages`]; the last of them stands for acknowledgements that have come out of the last of their hops.
    Stage(u32),
}

/// Several hops, and the lines of acknowledgements.
pub struct MultiHop<L: Log = ()> {
    hops: Vec<Hop<L>>,
    /// When each link needs attention.
    links: MinList,
    /// When stages and propagation of each hop have something to do, and [`MultiHop::due`].
    stages: MinList,
    lines: DelayLines,
    members: Vec<Member>,
    /// Acknowledgements in hops: a packet's sequence number is its place.
    held: Vec<QueuedAck>,
    free: Vec<u64>,
    /// Acknowledgements that have reached their senders at this instant.
    due: VecDeque<(Ack, u32)>,
    memory: SendMemory,
    /// The earliest of [`Hop::aqm_at`].
    aqm_at: Time,
    /// Packets out of stages behind a link; its memory is kept.
    out: Vec<Packet>,
    log: HopLog,
}

impl<L: Log + Send + 'static> MultiHop<L> {
    /// The net of `config` with these queue disciplines, hop by hop; `listener` gives what listens at a hop.
    pub fn new(
        config: &RunConfig,
        classes: &Classes,
        lines: Vec<DelayLine>,
        aqms: Vec<AnyAqm>,
        mut listener: impl FnMut(&str) -> L,
    ) -> MultiHop<L> {
        let first = config.first_hop();
        let all = std::iter::once(&first).chain(&config.hops).zip(aqms).enumerate();
        let hops: Vec<_> =
            all.map(|(index, (hop, aqm))| Hop::new(config, classes, (index, hop), aqm, listener(&hop.name))).collect();
        let mut net = MultiHop {
            links: MinList::new(hops.len()),
            stages: MinList::new(STAGES * hops.len() + 1),
            lines: DelayLines { times: MinTree::new(lines.len()), all: lines, pool: BlockPool::default() },
            hops,
            members: Vec::new(),
            held: Vec::new(),
            free: Vec::new(),
            due: VecDeque::new(),
            memory: SendMemory::new(config.hosts.memory),
            aqm_at: Time::NEVER,
            out: Vec::new(),
            log: HopLog::default(),
        };
        (0..net.hops.len()).for_each(|hop| net.update_times(hop as u16));
        net
    }

    /// A packet comes to `hop`.
    #[inline(never)]
    fn enter(&mut self, hop: u16, packet: Packet, now: Time) {
        let number = usize::from(hop);
        let one = &mut self.hops[number];
        if !one.is_plain {
            return self.enter_by_stages(hop, packet, now);
        }
        one.bottleneck.arrive(packet, now);
        self.links.set(number, one.bottleneck.next);
        if !one.bottleneck.log.listener.lost.is_empty() {
            self.free_lost(number);
        }
    }

    /// The same where there is more than queue and link.
    #[inline(never)]
    fn enter_by_stages(&mut self, hop: u16, packet: Packet, now: Time) {
        self.lend(hop);
        let one = &mut self.hops[usize::from(hop)];
        match &mut one.shared {
            None => one.bottleneck.arrive(packet, now),
            Some(path) => path.push(without_burst_marks(packet), now, &mut one.bottleneck),
        }
        self.lend(hop);
        self.update_times(hop);
    }

    /// Something was put into `hop`, or its stages had something to do.
    #[inline(always)]
    fn update_times(&mut self, hop: u16) {
        let number = usize::from(hop);
        let one = &mut self.hops[number];
        self.links.set(number, one.bottleneck.next);
        let has_lost = !one.bottleneck.log.listener.lost.is_empty();
        if !one.is_plain {
            self.plan_hop(number);
        }
        if has_lost {
            self.free_lost(number);
        }
    }

    /// The queue discipline of hop `number` may want to be called at another time, and so may the stages ahead of it.
    fn plan_hop(&mut self, number: usize) {
        let one = &mut self.hops[number];
        if one.ticks {
            let aqm_at = one.bottleneck.aqm.next_timer();
            if aqm_at != one.aqm_at {
                one.aqm_at = aqm_at;
                self.aqm_at = self.hops.iter().map(|other| other.aqm_at).min().unwrap_or(Time::NEVER);
            }
        }
        if let Some(path) = &self.hops[number].shared {
            self.stages.set(STAGES * number, path.next_timer());
        }
    }

    /// A packet has left `hop`, its propagation included.
    #[inline(never)]
    fn go_on(&mut self, hop: u16, packet: Packet, now: Time, arena: &mut Arena) {
        let one = &mut self.hops[usize::from(hop)];
        one.left += 1;
        match one.next[packet.flow as usize] {
            END => self.end(&packet, now, arena),
            next => self.enter(next, packet, now),
        }
    }

    /// A packet has left the last hop of its route.
    #[inline(always)]
    fn end(&mut self, packet: &Packet, now: Time, arena: &mut Arena) {
        if packet.is_back() {
            self.end_of_ack(packet, now);
        } else {
            self.deliver(arena, packet, now);
        }
    }

    /// A packet goes to hop `next`. It crosses idle hops at once while nothing else happens before it has left them.
    #[inline(always)]
    fn go_far(&mut self, mut next: u16, packet: &mut Packet, moment: &mut LoopState, arena: &mut Arena) {
        // what this packet does may set timers: another one that leaves at the same instant does not go far
        let quiet = std::mem::replace(&mut moment.before, Time::ZERO);
        loop {
            if next == END {
                return self.end(packet, moment.now, arena);
            }
            let number = usize::from(next);
            let one = &mut self.hops[number];
            if !one.is_bare {
                return self.enter(next, *packet, moment.now);
            }
            let is_next = |at| at < quiet && at < self.links.min().0 && at < self.lines.times.min().0 && at < self.stages.min().0;
            let Some(left_at) = one.bottleneck.bypass(packet, moment.now, is_next) else {
                self.links.set(number, one.bottleneck.next);
                if !one.bottleneck.log.listener.lost.is_empty() {
                    self.free_lost(number);
                }
                return;
            };
            next = one.next[packet.flow as usize];
            moment.now = left_at;
            moment.events += 1;
        }
    }

    /// A packet leaves the stages behind the link of `hop`.
    #[inline(always)]
    fn propagate(&mut self, hop: u16, packet: Packet, now: Time, arena: &mut Arena) {
        let one = &self.hops[usize::from(hop)];
        if one.delay == Time::ZERO && !one.varies {
            self.go_on(hop, packet, now, arena);
        } else {
            self.wire(hop, packet, now);
        }
    }

    /// A packet begins its propagation behind `hop`.
    fn wire(&mut self, hop: u16, packet: Packet, now: Time) {
        let one = &mut self.hops[usize::from(hop)];
        let mut at = now + one.delay;
        if one.varies {
            // a delay that falls does not let a packet overtake the one in front
            let ahead = one.wire.back().map_or(Time::ZERO, |last| last.0);
            at = (at + one.bottleneck.delay(now)).max(ahead);
        }
        if one.wire.is_empty() {
            self.stages.set(STAGES * usize::from(hop) + 2, at);
        }
        one.wire.push_back((at, packet));
    }

    /// A packet leaves the link of `hop`, behind which there is something.
    #[inline(never)]
    fn leave(&mut self, hop: u16, packet: Packet, now: Time, arena: &mut Arena) {
        if self.hops[usize::from(hop)].behind.is_none() {
            return self.propagate(hop, packet, now, arena);
        }
        self.pass_behind(hop, now, arena, |path, out| path.push(without_burst_marks(packet), now, out));
    }

    /// Lets `act` do something to the stages behind the link of `hop`, and takes over what leaves them.
    #[inline(never)]
    fn pass_behind(&mut self, hop: u16, now: Time, arena: &mut Arena, act: impl FnOnce(&mut Path<Packet>, &mut HopSink<L>)) {
        let mut packets = std::mem::take(&mut self.out);
        let Hop { behind, bottleneck, .. } = &mut self.hops[usize::from(hop)];
        if let Some(path) = behind {
            act(path, &mut HopSink { packets: &mut packets, bottleneck });
            self.stages.set(STAGES * usize::from(hop) + 1, path.next_timer());
        }
        self.update_times(hop);
        for packet in packets.drain(..) {
            self.propagate(hop, packet, now, arena);
        }
        self.out = packets;
    }

    #[inline(always)]
    fn on_link(&mut self, hop: u16, moment: &mut LoopState, arena: &mut Arena) {
        let (number, now) = (usize::from(hop), moment.now);
        loop {
            let one = &mut self.hops[number];
            let left = one.bottleneck.advance(now);
            self.links.set(number, one.bottleneck.next);
            if unlikely(arena.is_crowded()) {
                if let Some(packet) = one.bottleneck.in_service() {
                    arena.prefetch_receiver(packet.flow);
                }
            }
            let is_bare = one.is_bare;
            let (again, has_lost) = (one.bottleneck.next <= now, !one.bottleneck.log.listener.lost.is_empty());
            if let Some(mut packet) = left {
                if packet.has(flag::MORE) && !one.bottleneck.burst_goes_on(&packet, now) {
                    packet.flags &= !flag::MORE;
                }
                if is_bare {
                    let next = one.next[packet.flow as usize];
                    self.go_far(next, &mut packet, moment, arena);
                } else {
                    self.leave(hop, packet, now, arena);
                }
            }
            if !is_bare {
                self.plan_hop(number);
            }
            if has_lost {
                seldom();
                self.free_lost(number);
            }
            if !again {
                return;
            }
            seldom();
        }
    }

    /// The first acknowledgement of those that have come out of the last of their hops.
    fn on_arrived(&mut self) -> Option<(Ack, u32)> {
        let first = self.due.pop_front();
        if self.due.is_empty() {
            self.stages.set(STAGES * self.hops.len(), Time::NEVER);
        }
        first
    }

    /// What is due of stages and propagation of a hop happens. Returns the sender that an acknowledgement has reached.
    #[inline(never)]
    fn on_stage(&mut self, index: usize, now: Time, arena: &mut Arena) -> Option<u32> {
        let (number, stage) = (index / STAGES, index % STAGES);
        if number == self.hops.len() {
            let (ack, blocks) = self.on_arrived()?;
            return Some(self.on_ack(&ack, blocks, now, arena));
        }
        let hop = number as u16;
        match stage {
            0 => {
                self.lend(hop);
                let Hop { shared, bottleneck, .. } = &mut self.hops[number];
                if let Some(path) = shared {
                    path.on_timer(now, bottleneck);
                }
                self.lend(hop);
                self.update_times(hop);
            }
            1 => self.pass_behind(hop, now, arena, |path, out| path.on_timer(now, out)),
            _ => {
                let wire = &mut self.hops[number].wire;
                let arrived = wire.pop_front();
                let next = wire.front().map_or(Time::NEVER, |head| head.0);
                self.stages.set(index, next);
                if let Some((_, packet)) = arrived {
                    self.go_on(hop, packet, now, arena);
                }
            }
        }
        None
    }

    /// What is due first when it is not later than the first stage or acknowledgement that has arrived.
    #[inline(never)]
    fn due_of_stages(&self) -> (Time, NextMove) {
        let ((at, stage), (link_at, link), (line_at, line)) = (self.stages.min(), self.links.min(), self.lines.times.min());
        if !self.due.is_empty() {
            (at, NextMove::Stage((STAGES * self.hops.len()) as u32))
        } else if link_at == at {
            (at, NextMove::Link(link as u32))
        } else if line_at == at {
            (at, NextMove::Line(line as u32))
        } else {
            (at, NextMove::Stage(stage as u32))
        }
    }
}

/// Stages of single endpoints lead to the first hop of their route.
impl<L: Log + Send + 'static> Sink<Packet> for MultiHop<L> {
    #[inline(always)]
    fn arrive(&mut self, packet: Packet, now: Time) {
        let hop = self.members[packet.flow as usize].first;
        let one = &mut self.hops[usize::from(hop)];
        if one.is_plain && one.bottleneck.is_busy(packet.flags) {
            // its link goes on as it was
            one.bottleneck.arrive_busy(packet, now);
            if !one.bottleneck.log.listener.lost.is_empty() {
                seldom();
                self.free_lost(usize::from(hop));
            }
        } else {
            self.enter(hop, packet, now);
        }
    }

    fn on_drop(&mut self, packet: Packet, reason: DropReason, now: Time) {
        let hop = self.members[packet.flow as usize].first;
        self.hops[usize::from(hop)].bottleneck.on_drop(packet, reason, now);
    }

    fn on_clear_ecn(&mut self, packet: &Packet, now: Time) {
        let hop = self.members[packet.flow as usize].first;
        self.hops[usize::from(hop)].bottleneck.log.on_clear_ecn(packet, now);
    }
}

impl<L: Log + Send + 'static> Ingress for MultiHop<L> {
    #[inline(always)]
    fn post(&mut self, packet: &Packet, now: Time) {
        if self.listener().listen_level() >= ListenLevel::Frames {
            self.listener().on_send(packet, now);
        }
    }

    fn memory(&self) -> &SendMemory {
        &self.memory
    }

    fn memory_mut(&mut self) -> &mut SendMemory {
        &mut self.memory
    }
}

impl<L: Log + Send + 'static> Topology for MultiHop<L> {
    type Listener = L;

    fn listener(&mut self) -> &mut L {
        // the first is the one called `bottleneck`
        &mut self.hops[0].bottleneck.log.listener.listener
    }

    type Way = MultiHop<L>;

    fn way(&mut self) -> &mut MultiHop<L> {
        self
    }

    fn lines(&self) -> &DelayLines {
        &self.lines
    }

    fn lines_mut(&mut self) -> &mut DelayLines {
        &mut self.lines
    }

    fn flow_starts(&mut self, slot: u32, route: &Arc<Route>, line: u32, key: &FlowKey, back_ecn: BackEcn, class: u16) {
        let index = slot as usize;
        if self.members.len() <= index {
            let nobody = Member { route: Arc::default(), line: 0, first: 0, back: END, back_ecn: BackEcn::NOT_ECT, acks: 0 };
            self.members.resize(index + 1, nobody);
            self.hops.iter_mut().for_each(|hop| hop.next.resize(index + 1, END));
        }
        let first_back = route.acks.first().copied().unwrap_or(END);
        self.members[index] =
            Member { route: Arc::clone(route), line, first: route.data[0], back: first_back, back_ecn, acks: 0 };
        // data go from the source to the destination, up the other way round; their acknowledgements come back
        let turned = FlowKey { src_host: key.dst_host, dst_host: key.src_host, ..*key };
        let (data, back) = if route.up { (turned, *key) } else { (*key, turned) };
        for (hops, own) in [(&route.data, data), (&route.acks, FlowKey { ports: back.ports ^ (1 << 31), ..back })] {
            for (place, &hop) in hops.iter().enumerate() {
                let hop = &mut self.hops[usize::from(hop)];
                hop.next[index] = hops.get(place + 1).copied().unwrap_or(END);
                hop.bottleneck.flow_starts(slot, &own, class);
            }
        }
    }

    fn forget(&mut self, slot: u32) {
        let Route { data, acks, .. } = &*Arc::clone(&self.members[slot as usize].route);
        for &hop in data.iter().chain(acks) {
            let hop = &mut self.hops[usize::from(hop)];
            let gone = hop.bottleneck.log.counters.flows.flow_counters(slot);
            hop.left -= if hop.is_bare { 0 } else { gone.departed - gone.lost_behind };
            hop.bottleneck.log.counters.flows.forget(slot);
        }
        self.memory.release(slot);
    }

    fn of_flow(&self, slot: u32) -> FlowCounters {
        let Some(member) = self.members.get(slot as usize) else { return FlowCounters::default() };
        let of = |&hop: &u16| self.hops[usize::from(hop)].bottleneck.log.counters.flows.flow_counters(slot);
        member.route.data.iter().map(of).reduce(|all, next| all.then(&next)).unwrap_or_default()
    }

    fn acks_held(&self, slot: u32) -> u64 {
        self.members.get(slot as usize).map_or(0, |member| u64::from(member.acks))
    }

    type Move = NextMove;

    #[inline(always)]
    fn next_due(&self) -> (Time, NextMove) {
        // at one instant a packet leaves before another arrives, as over one hop
        let (at, link) = self.links.min();
        let (line_at, line) = self.lines.times.min();
        if self.stages.min().0 <= at.min(line_at) {
            seldom();
            self.due_of_stages()
        } else if at <= line_at {
            (at, NextMove::Link(link as u32))
        } else {
            (line_at, NextMove::Line(line as u32))
        }
    }

    #[inline(always)]
    fn move_packets(&mut self, mut due: NextMove, moment: &mut LoopState, arena: &mut Arena) -> Option<u32> {
        let before = moment.before;
        loop {
            let at = moment.now;
            let reached = match due {
                NextMove::Link(hop) => {
                    self.on_link(hop as u16, moment, arena);
                    None
                }
                NextMove::Line(line) => self.on_line(line as usize, at, arena),
                NextMove::Stage(stage) => {
                    seldom();
                    self.on_stage(stage as usize, at, arena)
                }
            };
            let (next, next_due) = self.next_due();
            let quiet = before.min(arena.timers.min().0).min(self.aqm_at);
            if next > quiet || moment.watched || moment.events + 1 >= moment.most_events {
                return reached;
            }
            moment.events += 1;
            (moment.now, moment.before, due) = (next, quiet, next_due);
        }
    }

    fn plan(&mut self) {}

    fn aqm_at(&self) -> Time {
        self.aqm_at
    }

    fn on_aqm_timer(&mut self) {
        let at = self.aqm_at();
        if let Some(number) = self.hops.iter().position(|hop| hop.aqm_at == at) {
            self.hops[number].bottleneck.on_aqm_timer(at);
            self.update_times(number as u16);
        }
    }

    fn change_rate(&mut self, change: usize, config: &RunConfig, now: Time) {
        let change = config.rate_changes[change];
        self.hops[usize::from(change.hop)].bottleneck.set_rate(change.rate, now);
        self.update_times(change.hop);
    }

    fn settle(&mut self, now: Time) {
        self.hops.iter_mut().for_each(|hop| hop.bottleneck.settle(now));
    }

    fn check_links(&self, config: &RunConfig) -> Result<(), RunError> {
        let check = |(number, hop): (usize, &Hop<L>)| {
            let queue = &hop.bottleneck;
            capacity::check(config, number, config.run.duration, &queue.log.counters.queue, queue.link_use())
        };
        self.hops.iter().enumerate().try_for_each(check).map_err(RunError::Invariant)
    }

    fn counters(&self) -> &Counters {
        &self.hops[0].bottleneck.log.counters
    }

    fn counters_mut(&mut self) -> &mut Counters {
        &mut self.hops[0].bottleneck.log.counters
    }

    fn of_discipline(&self) -> Vec<(String, u64)> {
        self.hops[0].bottleneck.aqm.counters()
    }

    fn states(&self, tell: &mut dyn FnMut(&str, &'static str, f64)) {
        for hop in &self.hops {
            hop.bottleneck.aqm.state(&mut |name, value| tell(&hop.name, name, value));
        }
    }

    fn backlog(&self) -> Backlog {
        let aqm = &self.hops[0].bottleneck.aqm;
        Backlog { packets: aqm.packets() as u64, bytes: aqm.bytes() }
    }

    fn check(&self, found: UnderWay, staged: u64) -> Result<(), RunError> {
        self.hops.iter().try_for_each(Hop::check)?;
        let data = found.ahead + found.queued + found.behind;
        let acks: u64 = self.members.iter().map(|member| u64::from(member.acks)).sum();
        let inside: u64 = self.hops.iter().map(Hop::inside).sum();
        agree("all hops", data + acks, staged + inside)
    }

    fn begin(&mut self) {
        for hop in &mut self.hops {
            hop.bottleneck.log.counters.flows.sojourn.iter_mut().for_each(|of_class| *of_class = Histogram::default());
            hop.begun = hop.count_now();
        }
    }

    fn point(&mut self, now: Time) {
        for hop in &mut self.hops {
            let backlog = Backlog { packets: hop.bottleneck.aqm.packets() as u64, bytes: hop.bottleneck.aqm.bytes() };
            let counted = hop.count_now();
            self.log.point(now, &hop.name, backlog, counted.subtract(&hop.before));
            hop.before = counted;
        }
    }

    fn finish(&mut self, config: &RunConfig, classes: &[Class]) -> Option<HopLog> {
        let mut log = std::mem::take(&mut self.log);
        for (number, hop) in self.hops.iter().enumerate() {
            let sojourn = &hop.bottleneck.log.counters.flows.sojourn;
            let of_discipline = hop.bottleneck.aqm.counters().into_iter().collect();
            log.hop((number, &hop.name), hop.count_now().subtract(&hop.begun), sojourn, of_discipline, config);
        }
        log.longest(classes, |hop| &self.hops[usize::from(hop)].bottleneck.log.counters.flows.sojourn);
        Some(log)
    }
}
