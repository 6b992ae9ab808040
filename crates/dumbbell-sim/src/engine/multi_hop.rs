//! A net of any number of hops, each with stages, queue, link and counters. Data pass the hops of their route, acknowledgements as packets
//! those of theirs, and both wait in the same queues.
//!
//! The propagation of a flow, its base RTT, lies in one piece in its line: down, between the last hop of the acknowledgements and the sender;
//! up, between the receiver and the first hop of the acknowledgements. A sender's clock runs ahead by half of it down, and a receiver's
//! behind by half of it up; nothing that either does depends on absolute time (see [`engine`](super)).
//!
//! Data whose route has no hop, which applications send up without `[reverse]`, reach their receiver at once.

mod hop;
mod return_path;

use super::ack_log::{Acks, QueuedAck};
use super::delay_lines::{DelayLine, DelayLines, ReturnPath};
use super::endpoint::{agree, Arena, UnderWay};
use super::memory::SendMemory;
use super::port::Ingress;
use super::topology::{backlog, ForkNet, LoopState, Topology};
use crate::capacity;
use crate::config::{Class, Classes, Route, RunConfig};
use crate::hop_log::{Backlog, HopLog};
use crate::min_tree::MinList;
use crate::RunError;
use dumbbell_bottleneck::{Bottleneck, Hop, HopPart};
use dumbbell_core::aqm::{AnyAqm, Aqm};
use dumbbell_core::fork::{CannotFork, Fork, SharedCopies};
use dumbbell_core::hint::{seldom, unlikely};
use dumbbell_core::histogram::Histogram;
use dumbbell_core::link::AnyLink;
use dumbbell_core::log::DropReason;
use dumbbell_core::observe::{ListenLevel, Tap};
use dumbbell_core::packet::{FlowKey, Packet};
use dumbbell_core::param::ParamError;
use dumbbell_core::path::Sink;
use dumbbell_core::record::{FlowCounters, QueueCounters};
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::BackEcn;
use dumbbell_core::units::{Instant, Rate};
use hop::{RoutedHop, END};
use std::collections::VecDeque;
use std::sync::Arc;

/// Entries of a hop among [`MultiHop::stages`].
const STAGES: usize = HopPart::ALL.len();

/// Path of the endpoint of a slot.
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
    /// Counters of data that pass no hop.
    direct: Option<Box<FlowCounters>>,
}

/// The part of a [`MultiHop`] that moves next.
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
pub struct MultiHop<L: Tap = ()> {
    hops: Vec<RoutedHop<L>>,
    /// When each link needs attention.
    links: MinList,
    /// When stages and propagation of each hop have something to do, [`MultiHop::due`], and [`MultiHop::direct`].
    stages: MinList,
    lines: DelayLines,
    members: Vec<Member>,
    /// Acknowledgements in hops: a packet's sequence number is its place.
    held: Vec<QueuedAck>,
    free: Vec<u64>,
    /// Acknowledgements that have reached their senders at this instant.
    due: VecDeque<(ReceiverReply, u32)>,
    /// Data that pass no hop and reach their receivers at this instant.
    direct: VecDeque<Packet>,
    memory: SendMemory,
    /// The earliest of [`RoutedHop::aqm_at`].
    aqm_at: Instant,
    /// Packets that have left a hop; its memory is kept.
    out: Vec<Packet>,
    log: HopLog,
}

impl<L: Tap + Fork + Send + 'static> ForkNet for MultiHop<L> {
    fn fork_net(&self, config: &RunConfig, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        let aqms = std::iter::once(&config.aqm).chain(config.hops.iter().map(|hop| &hop.aqm));
        let hops = self.hops.iter().zip(aqms).map(|(one, aqm)| one.fork(aqm, shared)).collect::<Result<_, _>>()?;
        Ok(MultiHop {
            hops,
            links: self.links.clone(),
            stages: self.stages.clone(),
            lines: self.lines.clone(),
            members: self.members.clone(),
            held: self.held.clone(),
            free: self.free.clone(),
            due: self.due.clone(),
            direct: self.direct.clone(),
            memory: self.memory.clone(),
            aqm_at: self.aqm_at,
            out: Vec::new(),
            log: self.log.clone(),
        })
    }
}

impl<L: Tap + Send + 'static> MultiHop<L> {
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
            all.map(|(index, (hop, aqm))| RoutedHop::new(config, classes, (index, hop), aqm, listener(&hop.name))).collect();
        let mut net = MultiHop {
            links: MinList::new(hops.len()),
            stages: MinList::new(STAGES * hops.len() + 2),
            lines: DelayLines::new(lines, 0),
            hops,
            members: Vec::new(),
            held: Vec::new(),
            free: Vec::new(),
            due: VecDeque::new(),
            direct: VecDeque::new(),
            memory: SendMemory::new(config.hosts.memory),
            aqm_at: Instant::NEVER,
            out: Vec::new(),
            log: HopLog::default(),
        };
        (0..net.hops.len()).for_each(|hop| net.update_times(hop as u16));
        net
    }

    /// A packet comes to `hop`.
    #[inline(never)]
    fn enter(&mut self, hop: u16, packet: Packet, now: Instant) {
        let number = usize::from(hop);
        let one = &mut self.hops[number];
        if !one.is_plain {
            return self.enter_by_stages(hop, packet, now);
        }
        one.hop.bottleneck.arrive(packet, now);
        self.links.set(number, one.hop.bottleneck.next);
        if !one.hop.bottleneck.log.listener.lost.is_empty() {
            self.free_lost(number);
        }
    }

    /// Sends a packet to a hop that has more than queue and link.
    #[inline(never)]
    fn enter_by_stages(&mut self, hop: u16, packet: Packet, now: Instant) {
        self.lend(hop);
        self.hops[usize::from(hop)].hop.arrive(packet, now);
        self.lend(hop);
        self.update_times(hop);
    }

    /// Something was put into `hop`, or its stages had something to do.
    #[inline(always)]
    fn update_times(&mut self, hop: u16) {
        let number = usize::from(hop);
        let one = &mut self.hops[number];
        self.links.set(number, one.hop.bottleneck.next);
        let has_lost = !one.hop.bottleneck.log.listener.lost.is_empty();
        if !one.is_bare {
            self.plan_hop(number);
        }
        if has_lost {
            self.free_lost(number);
        }
    }

    /// The queue discipline of hop `number` may want to be called at another time, and so may its parts.
    fn plan_hop(&mut self, number: usize) {
        let one = &mut self.hops[number];
        if one.ticks {
            let aqm_at = one.hop.bottleneck.aqm.next_timer();
            if aqm_at != one.aqm_at {
                one.aqm_at = aqm_at;
                self.aqm_at = self.hops.iter().map(|other| other.aqm_at).min().unwrap_or(Instant::NEVER);
            }
        }
        let hop = &self.hops[number].hop;
        if !hop.is_bare() {
            for (index, part) in HopPart::ALL.into_iter().enumerate() {
                self.stages.set(STAGES * number + index, hop.part_time(part));
            }
        }
    }

    /// A packet has left `hop`, its propagation included.
    #[inline(never)]
    fn go_on(&mut self, hop: u16, packet: Packet, now: Instant, arena: &mut Arena) {
        let one = &mut self.hops[usize::from(hop)];
        one.left += 1;
        match one.next[packet.flow as usize] {
            END => self.end(&packet, now, arena),
            next => self.enter(next, packet, now),
        }
    }

    /// A packet has left the last hop of its route.
    #[inline(always)]
    fn end(&mut self, packet: &Packet, now: Instant, arena: &mut Arena) {
        if packet.is_back() {
            self.end_of_ack(packet, now);
        } else {
            self.back().deliver(arena, packet, now);
        }
    }

    /// A packet goes to hop `next`. It crosses idle hops at once while nothing else happens before it has left them.
    #[inline(always)]
    fn cross_idle_hops(&mut self, mut next: u16, packet: &mut Packet, moment: &mut LoopState, arena: &mut Arena) {
        // what this packet does may set timers: another one that leaves at the same instant does not go far
        let quiet = std::mem::replace(&mut moment.before, Instant::ZERO);
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
            let Some(left_at) = one.hop.bottleneck.bypass(packet, moment.now, is_next) else {
                self.links.set(number, one.hop.bottleneck.next);
                if !one.hop.bottleneck.log.listener.lost.is_empty() {
                    self.free_lost(number);
                }
                return;
            };
            next = one.next[packet.flow as usize];
            moment.now = left_at;
            moment.events += 1;
        }
    }

    /// A packet leaves the link of `hop`, behind which there may be something.
    #[inline(never)]
    fn leave(&mut self, hop: u16, packet: Packet, now: Instant, arena: &mut Arena) {
        if self.hops[usize::from(hop)].hop.is_open() {
            return self.go_on(hop, packet, now, arena);
        }
        self.pass(hop, now, arena, |one, out| one.leave(packet, now, &mut |left, _, _| out.push(*left)));
    }

    /// Lets `act` do something to `hop`, and takes over what leaves it.
    #[inline(never)]
    fn pass(&mut self, hop: u16, now: Instant, arena: &mut Arena, act: impl FnOnce(&mut Hop<AnyAqm, Acks<L>>, &mut Vec<Packet>)) {
        let mut packets = std::mem::take(&mut self.out);
        self.lend(hop);
        act(&mut self.hops[usize::from(hop)].hop, &mut packets);
        self.lend(hop);
        self.update_times(hop);
        for packet in packets.drain(..) {
            self.go_on(hop, packet, now, arena);
        }
        self.out = packets;
    }

    #[inline(always)]
    fn on_link(&mut self, hop: u16, moment: &mut LoopState, arena: &mut Arena) {
        let (number, now) = (usize::from(hop), moment.now);
        loop {
            let one = &mut self.hops[number];
            let left = one.hop.advance(now);
            self.links.set(number, one.hop.bottleneck.next);
            if unlikely(arena.is_crowded()) {
                if let Some(packet) = one.hop.bottleneck.in_service() {
                    arena.prefetch_receiver(packet.flow);
                }
            }
            let is_bare = one.is_bare;
            let (again, has_lost) = (one.hop.bottleneck.next <= now, !one.hop.bottleneck.log.listener.lost.is_empty());
            if let Some(mut packet) = left {
                if is_bare {
                    let next = one.next[packet.flow as usize];
                    self.cross_idle_hops(next, &mut packet, moment, arena);
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
    fn on_arrived(&mut self) -> Option<(ReceiverReply, u32)> {
        let first = self.due.pop_front();
        if self.due.is_empty() {
            self.stages.set(STAGES * self.hops.len(), Instant::NEVER);
        }
        first
    }

    /// The entry of [`MultiHop::direct`] among [`MultiHop::stages`].
    fn direct_entry(&self) -> usize {
        STAGES * self.hops.len() + 1
    }

    /// A packet whose route has no hop is sent.
    #[cold]
    #[inline(never)]
    fn enter_directly(&mut self, packet: Packet, now: Instant) {
        if let Some(counters) = &mut self.members[packet.flow as usize].direct {
            counters.arrived += 1;
        }
        self.direct.push_back(packet);
        self.stages.set(self.direct_entry(), now);
    }

    /// The first packet of those whose route has no hop reaches its receiver.
    fn on_direct(&mut self, now: Instant, arena: &mut Arena) {
        let Some(packet) = self.direct.pop_front() else { return };
        if self.direct.is_empty() {
            self.stages.set(self.direct_entry(), Instant::NEVER);
        }
        if let Some(counters) = &mut self.members[packet.flow as usize].direct {
            counters.departed += 1;
        }
        self.back().deliver(arena, &packet, now);
    }

    /// Moves what is due in stages and propagation of a hop. Returns the sender that an acknowledgement has reached.
    #[inline(never)]
    fn on_stage(&mut self, index: usize, now: Instant, arena: &mut Arena) -> Option<u32> {
        let (number, part) = (index / STAGES, HopPart::ALL[index % STAGES]);
        if index == self.direct_entry() {
            self.on_direct(now, arena);
            return None;
        }
        if number == self.hops.len() {
            let (reply, blocks) = self.on_arrived()?;
            return Some(self.on_ack(&reply, blocks, now, arena));
        }
        self.pass(number as u16, now, arena, |hop, out| hop.on_part(part, now, &mut |left, _, _| out.push(*left)));
        None
    }

    /// Returns the move that is due first, if it is not later than the first stage or acknowledgement that has arrived.
    #[inline(never)]
    fn due_of_stages(&self) -> (Instant, NextMove) {
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
impl<L: Tap + Send + 'static> Sink<Packet> for MultiHop<L> {
    #[inline(always)]
    fn arrive(&mut self, packet: Packet, now: Instant) {
        let hop = self.members[packet.flow as usize].first;
        let Some(one) = self.hops.get_mut(usize::from(hop)) else { return self.enter_directly(packet, now) };
        if one.is_plain && one.hop.bottleneck.is_busy(packet.flags()) {
            // its link goes on as it was
            one.hop.bottleneck.arrive_busy(packet, now);
            if !one.hop.bottleneck.log.listener.lost.is_empty() {
                seldom();
                self.free_lost(usize::from(hop));
            }
        } else {
            self.enter(hop, packet, now);
        }
    }

    fn on_drop(&mut self, packet: Packet, reason: DropReason, now: Instant) {
        let member = &mut self.members[packet.flow as usize];
        match &mut member.direct {
            Some(counters) => counters.lost_ahead += 1,
            None => self.hops[usize::from(member.first)].hop.on_drop(packet, reason, now),
        }
    }

    fn on_clear_ecn(&mut self, packet: &Packet, now: Instant) {
        let hop = self.members[packet.flow as usize].first;
        if let Some(one) = self.hops.get_mut(usize::from(hop)) {
            one.hop.on_clear_ecn(packet, now);
        }
    }
}

impl<L: Tap + Send + 'static> Ingress for MultiHop<L> {
    #[inline(always)]
    fn post(&mut self, packet: &Packet, now: Instant) {
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

impl<L: Tap + Send + 'static> Topology for MultiHop<L> {
    type Listener = L;

    fn listener(&mut self) -> &mut L {
        // the first is the one called `bottleneck`
        &mut self.hops[0].hop.bottleneck.log.listener.listener
    }

    type Back<'a> = &'a mut MultiHop<L>;

    fn back(&mut self) -> &mut MultiHop<L> {
        self
    }

    type Way<'a> = &'a mut MultiHop<L>;

    fn way(&mut self, _line: u32) -> &mut MultiHop<L> {
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
            let nobody =
                Member { route: Arc::default(), line: 0, first: 0, back: END, back_ecn: BackEcn::NOT_ECT, acks: 0, direct: None };
            self.members.resize(index + 1, nobody);
            self.hops.iter_mut().for_each(|hop| hop.next.resize(index + 1, END));
        }
        let first_back = route.acks.first().copied().unwrap_or(END);
        let first = route.data.first().copied().unwrap_or(END);
        let direct = route.data.is_empty().then(Box::default);
        self.members[index] = Member { route: Arc::clone(route), line, first, back: first_back, back_ecn, acks: 0, direct };
        // data go from the source to the destination, up the other way round; their acknowledgements come back
        let turned = FlowKey { src_host: key.dst_host, dst_host: key.src_host, ..*key };
        let (data, back) = if route.up { (turned, *key) } else { (*key, turned) };
        for (hops, own) in [(&route.data, data), (&route.acks, FlowKey { ports: back.ports ^ (1 << 31), ..back })] {
            for (place, &hop) in hops.iter().enumerate() {
                let one = &mut self.hops[usize::from(hop)];
                one.next[index] = hops.get(place + 1).copied().unwrap_or(END);
                one.hop.bottleneck.flow_starts(slot, &own, class);
            }
        }
    }

    fn forget(&mut self, slot: u32) {
        let Route { data, acks, .. } = &*Arc::clone(&self.members[slot as usize].route);
        for &hop in data.iter().chain(acks) {
            let one = &mut self.hops[usize::from(hop)];
            let gone = one.hop.bottleneck.log.counters.flows.flow_counters(slot);
            one.left -= if one.is_bare { 0 } else { gone.departed - gone.lost_behind };
            one.hop.bottleneck.log.counters.flows.forget(slot);
        }
        self.memory.release(slot);
    }

    fn of_flow(&self, slot: u32) -> FlowCounters {
        let Some(member) = self.members.get(slot as usize) else { return FlowCounters::default() };
        if let Some(counters) = &member.direct {
            return **counters;
        }
        let of = |&hop: &u16| self.hops[usize::from(hop)].hop.bottleneck.log.counters.flows.flow_counters(slot);
        member.route.data.iter().map(of).reduce(|all, next| all.then(&next)).unwrap_or_default()
    }

    fn acks_held(&self, slot: u32) -> u64 {
        self.members.get(slot as usize).map_or(0, |member| u64::from(member.acks))
    }

    type Move = NextMove;

    #[inline(always)]
    fn next_due(&self) -> (Instant, NextMove) {
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

    fn aqm_at(&self) -> Instant {
        self.aqm_at
    }

    fn on_aqm_timer(&mut self) {
        let at = self.aqm_at();
        if let Some(number) = self.hops.iter().position(|hop| hop.aqm_at == at) {
            self.hops[number].hop.bottleneck.on_aqm_timer(at);
            self.update_times(number as u16);
        }
    }

    fn change_rate(&mut self, change: usize, config: &RunConfig, now: Instant) {
        let change = config.rate_changes[change];
        self.hops[usize::from(change.hop)].hop.bottleneck.set_rate(change.rate, now);
        self.update_times(change.hop);
    }

    fn take_params(&mut self, hop: usize, fresh: AnyAqm, now: Instant) -> Result<(), ParamError> {
        self.hops[hop].take_params(fresh, now)
    }

    fn set_loss(&mut self, hop: usize, is_behind: bool, stage: usize, probability: f64) -> bool {
        self.hops[hop].hop.set_loss(is_behind, stage, probability)
    }

    fn set_line(&mut self, slot: u32, line: u32) {
        if let Some(member) = self.members.get_mut(slot as usize) {
            member.line = line;
        }
    }

    fn replace_queue(&mut self, hop: usize, fresh: AnyAqm, link: Option<AnyLink>, now: Instant) {
        self.hops[hop].replace_queue(fresh, link, now);
        self.aqm_at = self.hops.iter().map(|one| one.aqm_at).min().unwrap_or(Instant::NEVER);
        self.update_times(hop as u16);
    }

    fn set_shaper(&mut self, hop: usize, rate: Rate, now: Instant) {
        self.hops[hop].hop.bottleneck.set_shaper(rate, now);
        self.update_times(hop as u16);
    }

    fn taken_bytes(&self, hop: usize) -> u64 {
        self.hops[hop].hop.bottleneck.taken_bytes()
    }

    fn settle(&mut self, now: Instant) {
        self.hops.iter_mut().for_each(|one| one.hop.bottleneck.settle(now));
    }

    fn check_links(&self, config: &RunConfig) -> Result<(), RunError> {
        let check = |(number, one): (usize, &RoutedHop<L>)| {
            let queue = &one.hop.bottleneck;
            capacity::check(config, number, config.end(), &queue.log.counters.queue, queue.link_use())
        };
        self.hops.iter().enumerate().try_for_each(check).map_err(RunError::Invariant)
    }

    type Queue = AnyAqm;
    type Tap = Acks<L>;

    fn bottleneck(&self) -> &Bottleneck<AnyAqm, Acks<L>> {
        &self.hops[0].hop.bottleneck
    }

    fn bottleneck_mut(&mut self) -> &mut Bottleneck<AnyAqm, Acks<L>> {
        &mut self.hops[0].hop.bottleneck
    }

    fn hops(&self, tell: &mut dyn FnMut(&str, Backlog, &QueueCounters)) {
        for one in &self.hops {
            let Bottleneck { aqm, log, .. } = &one.hop.bottleneck;
            tell(&one.name, backlog(aqm), &log.counters.queue);
        }
    }

    fn states(&self, tell: &mut dyn FnMut(&str, &'static str, f64)) {
        for one in &self.hops {
            one.hop.bottleneck.aqm.state(&mut |name, value| tell(&one.name, name, value));
        }
    }

    fn check(&self, found: UnderWay, staged: u64) -> Result<(), RunError> {
        self.hops.iter().try_for_each(RoutedHop::check)?;
        let data = found.ahead + found.queued + found.behind;
        let acks: u64 = self.members.iter().map(|member| u64::from(member.acks)).sum();
        let inside: u64 = self.hops.iter().map(RoutedHop::inside).sum::<u64>() + self.direct.len() as u64;
        agree("all hops", data + acks, staged + inside)
    }

    fn begin(&mut self) {
        for one in &mut self.hops {
            one.hop.bottleneck.log.counters.flows.sojourn.iter_mut().for_each(|of_class| *of_class = Histogram::default());
            one.begun = one.count_now();
        }
    }

    fn point(&mut self, now: Instant) {
        for one in &mut self.hops {
            let (queued, counted) = (backlog(&one.hop.bottleneck.aqm), one.count_now());
            self.log.point(now, &one.name, queued, counted.subtract(&one.before));
            one.before = counted;
        }
    }

    fn finish(&mut self, config: &RunConfig, classes: &[Class]) -> Option<HopLog> {
        let mut log = std::mem::take(&mut self.log);
        for (number, one) in self.hops.iter().enumerate() {
            let sojourn = &one.hop.bottleneck.log.counters.flows.sojourn;
            let of_discipline = one.hop.bottleneck.aqm.counters().into_iter().collect();
            log.hop((number, &one.name), one.count_now().subtract(&one.begun), sojourn, of_discipline, config);
        }
        log.longest(classes, |hop| &self.hops[usize::from(hop)].hop.bottleneck.log.counters.flows.sojourn);
        Some(log)
    }
}
