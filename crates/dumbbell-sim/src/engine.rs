//! The event loop.
//!
//! Event sources are few: the link, one line of acknowledgements a base RTT, one timer an endpoint (the earliest of all that
//! the endpoint waits for, moved lazily), stages that all endpoints share, and a clock for samples, series, changes of rate and
//! arrivals. At one instant their order is: acknowledgements (by line), shared stages, the link, timers (by slot), clock.
//!
//! Half of the base RTT lies ahead of the queue in a real dumbbell. Nothing that a sender does depends on absolute time,
//! so the engine lets each sender's clock run ahead by that half: what a sender sends is in the queue at once, and its
//! acknowledgements take the whole base RTT to come back. Starts, stops and samples of the flow are shifted alike.

mod clock;
pub mod endpoint;
mod web;

use crate::bottleneck::Bottleneck;
use crate::classes::Totals;
use crate::config::{Classes, EcnEcho, FlowConfig, RunConfig, StageConfig, UdpConfig};
use crate::measure::{FlowResult, Measures};
use crate::min_tree::MinTree;
use crate::outcome::outcome;
use crate::short_flows::ShortFlow;
use crate::{EndpointView, Outcome, RunError, View};
use clock::{Clock, Due};
use dumbbell_core::aqm::{Aqm, FlowKey};
use dumbbell_core::cc::{AnyCc, CcContext, Echo};
use dumbbell_core::log::{At, DropReason, Log, Place};
use dumbbell_core::packet::{Packet, HEADERS};
use dumbbell_core::param::ParamError;
use dumbbell_core::path::{self, End, Path};
use dumbbell_core::prefetch::prefetch;
use dumbbell_core::rng::Rng;
use dumbbell_core::tcp::host::HostParams;
use dumbbell_core::tcp::receiver::{Blocks, Receiver, ReceiverStats};
use dumbbell_core::tcp::sender::{Application, Phase, Sender};
use dumbbell_core::tcp::{Ack, FlowOptions, Network};
use dumbbell_core::traffic::UdpSource;
use dumbbell_core::units::Time;
use endpoint::{Arena, Endpoint, Origin, Stages, Tcp, Transport, Udp, UnderWay};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use web::WebProcess;

/// No SACK blocks.
const NO_BLOCKS: u32 = u32::MAX;

/// All endpoints of one base RTT, and their acknowledgements on the way back, in order.
struct Line {
    delay: Time,
    acks: VecDeque<(Time, Ack, u32)>,
    /// Slots of the endpoints.
    members: Vec<u32>,
    /// The measured time of its endpoints is over.
    over: bool,
}

/// SACK blocks on their way back; most ACKs have none.
#[derive(Default)]
struct BlockPool {
    blocks: Vec<Blocks>,
    free: Vec<u32>,
}

impl BlockPool {
    fn put(&mut self, blocks: Blocks) -> u32 {
        if let Some(index) = self.free.pop() {
            self.blocks[index as usize] = blocks;
            return index;
        }
        self.blocks.push(blocks);
        (self.blocks.len() - 1) as u32
    }

    fn take(&mut self, index: u32) -> Blocks {
        self.free.push(index);
        self.blocks[index as usize]
    }
}

/// Stages that the packets of all endpoints pass, and the bottleneck behind them.
struct Entrance<A: Aqm, L: Log> {
    /// Stages right ahead of the queue.
    shared: Option<Box<Path<Packet>>>,
    bottleneck: Bottleneck<A, L>,
}

/// The paths of single endpoints lead to what they share.
impl<A: Aqm, L: Log> End<Packet> for Entrance<A, L> {
    #[inline]
    fn arrive(&mut self, packet: Packet, now: Time) {
        match &mut self.shared {
            None => self.bottleneck.arrive(packet, now),
            Some(shared) => shared.push(packet, now, &mut self.bottleneck),
        }
    }

    fn dropped(&mut self, packet: Packet, reason: DropReason, now: Time) {
        self.bottleneck.dropped(packet, reason, now);
    }
}

/// An endpoint's way to the bottleneck at one instant.
struct Port<'a, A: Aqm, L: Log> {
    entrance: &'a mut Entrance<A, L>,
    path: &'a mut Option<Box<Path<Packet>>>,
    now: Time,
}

impl<A: Aqm, L: Log> Network for Port<'_, A, L> {
    #[inline]
    fn send(&mut self, packet: Packet) {
        match self.path {
            None => self.entrance.arrive(packet, self.now),
            Some(path) => path.push(packet, self.now, self.entrance),
        }
    }
}

/// What lies behind the bottleneck: the receivers, and their acknowledgements on the way back.
struct Exit<'a, A: Aqm, L: Log> {
    arena: &'a mut Arena,
    lines: &'a mut Lines,
    /// Hears of what is dropped.
    bottleneck: &'a mut Bottleneck<A, L>,
}

impl<A: Aqm, L: Log> End<Packet> for Exit<'_, A, L> {
    #[inline]
    fn arrive(&mut self, packet: Packet, now: Time) {
        self.lines.deliver(self.arena, &packet, now);
    }

    fn dropped(&mut self, packet: Packet, reason: DropReason, now: Time) {
        let Bottleneck { counters, listener, .. } = &mut *self.bottleneck;
        (counters, listener).dropped(&packet, reason, Place::Behind, At::time(now));
    }
}

/// The lines of acknowledgements.
struct Lines {
    all: Vec<Line>,
    /// Earliest acknowledgement of each line, then the stages that all endpoints share: ahead of the bottleneck, and behind it.
    times: MinTree,
    pool: BlockPool,
}

/// An acknowledgement enters its line.
struct LineEntry<'a> {
    line: &'a mut Line,
    times: &'a mut MinTree,
    pool: &'a mut BlockPool,
    number: usize,
}

impl End<(Ack, u32)> for LineEntry<'_> {
    #[inline(always)]
    fn arrive(&mut self, (ack, blocks): (Ack, u32), now: Time) {
        let at = now + self.line.delay;
        if self.line.acks.is_empty() {
            self.times.set(self.number, at);
        }
        self.line.acks.push_back((at, ack, blocks));
    }

    fn dropped(&mut self, (_, blocks): (Ack, u32), _reason: DropReason, _now: Time) {
        if blocks != NO_BLOCKS {
            self.pool.take(blocks);
        }
    }
}

impl Lines {
    #[inline(always)]
    fn entry(&mut self, number: u32) -> LineEntry<'_> {
        let number = number as usize;
        LineEntry { line: &mut self.all[number], times: &mut self.times, pool: &mut self.pool, number }
    }

    /// Stages ahead of the bottleneck or behind it have something to do at `time`.
    fn set_stage(&mut self, behind: bool, time: Time) {
        let index = self.all.len() + usize::from(behind);
        self.times.set(index, time);
    }

    /// A packet reaches its receiver.
    #[inline(always)]
    fn deliver(&mut self, arena: &mut Arena, packet: &Packet, now: Time) {
        let slot = packet.flow;
        let endpoint = arena.get_mut(slot);
        let line = endpoint.line;
        let receiver = match &mut endpoint.transport {
            Transport::Tcp(tcp) => &mut tcp.receiver,
            Transport::Udp(udp) => return udp.on_packet(packet),
            Transport::Vacant => return,
        };
        let ack = receiver.on_packet(packet, now);
        let early = receiver.take_early();
        let mut timer = receiver.next_timer();
        let mut blocks = NO_BLOCKS;
        if ack.is_some() && receiver.has_blocks() {
            blocks = self.pool.put(receiver.blocks());
        }
        if let Some(early) = early {
            timer = timer.min(self.acknowledge(&mut endpoint.stages, line, early, NO_BLOCKS, now));
        }
        if let Some(ack) = ack {
            timer = timer.min(self.acknowledge(&mut endpoint.stages, line, ack, blocks, now));
        }
        arena.timer_not_after(slot, timer);
    }

    /// A receiver sends `ack`. Returns when the stages that it passes have something to do.
    #[inline(always)]
    fn acknowledge(&mut self, stages: &mut Stages, line: u32, ack: Ack, blocks: u32, now: Time) -> Time {
        match &mut stages.acks {
            None => {
                self.entry(line).arrive((ack, blocks), now);
                Time::NEVER
            }
            Some(path) => {
                path.push((ack, blocks), now, &mut self.entry(line));
                path.next_timer()
            }
        }
    }
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Everything until the time that was asked for has happened.
    Paused,
    /// As many events have happened as were allowed.
    Busy,
    /// The run is over.
    Over,
}

/// A run on its way, whatever its queue discipline is.
pub trait Run: Send {
    /// Lets everything happen until `until`, that instant included, but not more than `events` events.
    ///
    /// # Errors
    /// A broken invariant.
    fn advance(&mut self, until: Time, events: u64) -> Result<Standing, RunError>;

    /// Time of the last event.
    fn time(&self) -> Time;

    /// What there is to see now.
    fn view(&self) -> View;

    /// What was measured; the run must be over.
    ///
    /// # Errors
    /// A broken invariant.
    fn finish(self: Box<Self>) -> Result<Outcome, RunError>;
}

/// One simulation.
pub struct Engine<A: Aqm, L: Log = ()> {
    config: Arc<RunConfig>,
    classes: Classes,
    host: Arc<HostParams>,
    entrance: Entrance<A, L>,
    /// Stages that all packets pass behind the bottleneck.
    behind: Option<Box<Path<Packet>>>,
    arena: Arena,
    lines: Lines,
    clock: Clock,
    webs: Vec<WebProcess>,
    /// Number of the next short flow.
    next_number: u32,
    measures: Measures,
    now: Time,
    events: u64,
    /// Lines whose endpoints are still measured.
    lines_left: usize,
    queue_over: bool,
}

impl<A: Aqm, L: Log> Engine<A, L> {
    /// A run of `config` that has not begun, with the `controls` of its flows, over `aqm`. Events at the bottleneck are
    /// reported to `listener` as well.
    ///
    /// # Errors
    /// A stage that cannot be built.
    pub fn new(config: Arc<RunConfig>, controls: Vec<AnyCc>, aqm: A, listener: L) -> Result<Engine<A, L>, ParamError> {
        let classes = config.classes();
        let base_rtts = base_rtts(&config);
        let clock = Clock::new(&config, &base_rtts);
        let line = |&delay: &Time| Line { delay, acks: VecDeque::new(), members: Vec::new(), over: false };
        let params = &config.bottleneck;
        let listed = config.flows.len() + config.udp.len();
        let mut engine = Engine {
            host: Arc::new(config.hosts.clone()),
            entrance: Entrance {
                shared: build_path(&config.path, config.run.seed, "shared path", 0)?,
                bottleneck: Bottleneck::new(aqm, classes.list.len(), params.rate, params.shaper, params.burst, listener),
            },
            behind: build_path(&config.behind, config.run.seed, "path behind", 0)?,
            arena: Arena::new(listed),
            lines: Lines {
                all: base_rtts.iter().map(line).collect(),
                times: MinTree::new(base_rtts.len() + if config.has_shared_stages() { 2 } else { 0 }),
                pool: BlockPool::default(),
            },
            clock,
            webs: Vec::with_capacity(config.web.len()),
            next_number: listed as u32,
            measures: Measures::new(&config, classes.list.len()),
            now: Time::ZERO,
            events: 0,
            lines_left: base_rtts.len(),
            queue_over: false,
            classes,
            config,
        };
        engine.list_flows(controls)?;
        engine.list_udp()?;
        for (index, web) in engine.config.web.iter().enumerate() {
            let line = line_of(&engine.lines.all, web.params.base_rtt);
            let (process, first) = WebProcess::new(&engine.config, web, index, engine.classes.of_web[index], line);
            engine.webs.push(process);
            engine.clock.set(Due::Arrival(index), first);
        }
        Ok(engine)
    }

    /// Puts every flow of `[[flows]]` into its slot.
    fn list_flows(&mut self, controls: Vec<AnyCc>) -> Result<(), ParamError> {
        let config = Arc::clone(&self.config);
        let seed = config.run.seed;
        for (index, (flow, cc)) in config.flows.iter().zip(controls).enumerate() {
            let params = &flow.params;
            let ahead = Time(params.base_rtt.0 / 2);
            let start = flow.start.draw(seed, "start", index) + ahead;
            let stop = params.stop.map_or(Time::NEVER, |stop| stop.saturating_add(ahead));
            let ecn = params.ecn.unwrap_or(self.host.ecn);
            let line = line_of(&self.lines.all, params.base_rtt);
            let (host, class) = (&self.host, self.classes.of_flow[index]);
            let stages = build_stages(&flow.stages, seed, index)?;
            let slot = self.arena.add(|slot| {
                let tcp = connection(slot, cc, host, ecn, params.ecn_echo, application(flow));
                let endpoint = Endpoint::new(Transport::Tcp(tcp), Origin::Listed, index as u32, class, line, start, stop);
                Endpoint { stages, ..endpoint }
            });
            self.join(slot);
        }
        Ok(())
    }

    /// Puts every source of UDP into its slot.
    fn list_udp(&mut self) -> Result<(), ParamError> {
        let config = Arc::clone(&self.config);
        let seed = config.run.seed;
        for (index, UdpConfig { start, params, stages }) in config.udp.iter().enumerate() {
            let number = (config.flows.len() + index) as u32;
            let (class, line) = (self.classes.of_udp[index], line_of(&self.lines.all, Time::ZERO));
            let start = start.draw(seed, "udp start", index);
            let rng = Rng::stream(seed, "udp", index as u64);
            let stages = build_stages(stages, seed, number as usize)?;
            let slot = self.arena.add(|slot| {
                let source = UdpSource::new(slot, params.rate, params.size, params.ecn.into(), params.spacing, rng);
                let transport =
                    Transport::Udp(Box::new(Udp { source, received: ReceiverStats::default(), started: false, stopped: None }));
                let stop = params.stop.unwrap_or(Time::NEVER);
                Endpoint { stages, ..Endpoint::new(transport, Origin::Listed, number, class, line, start, stop) }
            });
            self.join(slot);
        }
        Ok(())
    }

    /// The endpoint in `slot` becomes a member of its line.
    fn join(&mut self, slot: u32) {
        let endpoint = self.arena.get_mut(slot);
        let members = &mut self.lines.all[endpoint.line as usize].members;
        endpoint.member = members.len() as u32;
        members.push(slot);
        let timer = endpoint.next_timer();
        self.arena.timers.set(slot as usize, timer);
    }

    #[inline]
    fn on_ack(&mut self, line: usize, now: Time) {
        let queue = &mut self.lines.all[line].acks;
        let Some((_, ack, index)) = queue.pop_front() else { return };
        let next = queue.front().map_or(Time::NEVER, |head| head.0);
        self.lines.times.set(line, next);
        if self.arena.is_crowded() {
            if let Some((_, later, _)) = queue.get(2) {
                if let Some(tcp) = self.arena.get(later.flow).tcp() {
                    prefetch(&tcp.sender);
                }
            }
            if let Some(tcp) = queue.front().and_then(|(_, ack, _)| self.arena.get(ack.flow).tcp()) {
                tcp.sender.prefetch();
            }
        }
        let Endpoint { transport, stages, .. } = self.arena.get_mut(ack.flow);
        let Transport::Tcp(tcp) = transport else { return };
        let mut port = Port { entrance: &mut self.entrance, path: &mut stages.data, now };
        if index == NO_BLOCKS {
            tcp.sender.on_ack(&ack, &[], now, &mut port);
        } else {
            let blocks = self.lines.pool.take(index);
            tcp.sender.on_ack(&ack, blocks.as_slice(), now, &mut port);
        }
        let mut timer = tcp.sender.no_timer_before();
        if let Some(path) = &stages.data {
            timer = timer.min(path.next_timer());
        }
        self.arena.timer_not_after(ack.flow, timer);
        self.plan_entrance();
    }

    /// Stages ahead of the bottleneck may have got something to do.
    #[inline]
    fn plan_entrance(&mut self) {
        if let Some(shared) = &self.entrance.shared {
            self.lines.set_stage(false, shared.next_timer());
        }
    }

    /// Stages that all endpoints share have something to do.
    fn on_shared(&mut self, behind: bool, now: Time) {
        if !behind {
            let Entrance { shared, bottleneck } = &mut self.entrance;
            if let Some(shared) = shared {
                shared.on_timer(now, bottleneck);
            }
            self.plan_entrance();
        } else {
            let Engine { arena, lines, entrance, behind, .. } = self;
            if let Some(path) = behind {
                path.on_timer(now, &mut Exit { arena, lines, bottleneck: &mut entrance.bottleneck });
                lines.set_stage(true, path.next_timer());
            }
        }
    }

    /// A packet leaves the bottleneck.
    #[inline(always)]
    fn leave(&mut self, packet: Packet, now: Time) {
        let Engine { arena, lines, entrance, behind, .. } = self;
        match behind {
            None => lines.deliver(arena, &packet, now),
            Some(path) => {
                path.push(packet, now, &mut Exit { arena, lines, bottleneck: &mut entrance.bottleneck });
                lines.set_stage(true, path.next_timer());
            }
        }
    }

    #[inline]
    fn on_link(&mut self, now: Time) {
        while self.entrance.bottleneck.next <= now {
            let left = self.entrance.bottleneck.advance(now);
            if self.arena.is_crowded() {
                if let Some(tcp) = self.entrance.bottleneck.in_service().and_then(|packet| self.arena.get(packet.flow).tcp()) {
                    prefetch(&tcp.receiver);
                }
            }
            if let Some(packet) = left {
                self.leave(packet, now);
            }
        }
    }

    fn on_timer(&mut self, slot: u32, now: Time) -> Result<(), RunError> {
        let endpoint = self.arena.get_mut(slot);
        let (line, origin, class) = (endpoint.line, endpoint.origin, endpoint.class);
        if let Some(path) = &mut endpoint.stages.data {
            if path.next_timer() <= now {
                path.on_timer(now, &mut self.entrance);
            }
        }
        if let Some(path) = &mut endpoint.stages.acks {
            if path.next_timer() <= now {
                path.on_timer(now, &mut self.lines.entry(line));
            }
        }
        let mut started = false;
        let Endpoint { transport, stages, start, stop, number, .. } = endpoint;
        let mut port = Port { entrance: &mut self.entrance, path: &mut stages.data, now };
        match transport {
            Transport::Tcp(tcp) => {
                if tcp.sender.phase == Phase::Idle && *start <= now {
                    started = true;
                    if origin == Origin::Listed {
                        port.entrance.bottleneck.flow_starts(slot, &listed_key(&self.config, *number), class);
                    }
                    tcp.sender.start(now, &mut port);
                }
                if *stop <= now {
                    *stop = Time::NEVER;
                    tcp.sender.stop(now);
                }
                if tcp.sender.next_timer() <= now {
                    tcp.sender.on_timer(now, &mut port);
                }
                if let Some(ack) = tcp.receiver.on_timer(now) {
                    let receiver = &mut tcp.receiver;
                    let blocks = if receiver.has_blocks() { self.lines.pool.put(receiver.blocks()) } else { NO_BLOCKS };
                    self.lines.acknowledge(stages, line, ack, blocks, now);
                }
            }
            Transport::Udp(udp) => {
                if !udp.started && *start <= now {
                    udp.started = true;
                    port.entrance.bottleneck.flow_starts(slot, &listed_key(&self.config, *number), class);
                    udp.source.start(now);
                }
                if *stop <= now {
                    udp.source.stop();
                    udp.started = true;
                    udp.stopped = Some(now);
                    *stop = Time::NEVER;
                }
                while udp.source.next <= now {
                    let packet = udp.source.send();
                    port.send(packet);
                }
            }
            Transport::Vacant => {}
        }
        self.plan_entrance();
        if origin != Origin::Listed && self.end_short_flow(slot, now)? {
            return Ok(());
        }
        let timer = self.arena.get(slot).next_timer();
        self.arena.timers.set(slot as usize, timer);
        if started && origin == Origin::Listed {
            let listed = self.arena.listed(self.config.flows.len());
            self.measures.flow_started(now, listed);
        }
        Ok(())
    }

    /// Gives the slot of a short flow free if nothing of it is left. Returns whether that was so.
    fn end_short_flow(&mut self, slot: u32, now: Time) -> Result<bool, RunError> {
        let counters = self.entrance.bottleneck.counters.flows.of(slot);
        let endpoint = self.arena.get_mut(slot);
        let line = &mut self.lines.all[endpoint.line as usize];
        if !endpoint.is_over(&counters, line.delay, now) {
            return Ok(false);
        }
        let left = endpoint.check_conservation(&counters)?;
        if left != UnderWay::default() {
            return Err(RunError::Invariant(format!(
                "flow {}: it is over, and packets are under way: {left:?}",
                endpoint.number
            )));
        }
        let (member, measured) = (endpoint.member, !line.over);
        if measured {
            self.measure_short_flow(slot, now);
        }
        let line = &mut self.lines.all[self.arena.get(slot).line as usize];
        line.members.swap_remove(member as usize);
        if let Some(&moved) = line.members.get(member as usize) {
            self.arena.get_mut(moved).member = member;
        }
        self.entrance.bottleneck.counters.flows.take(slot);
        self.arena.remove(slot);
        Ok(true)
    }

    /// Takes the short flow in `slot` into what is measured.
    fn measure_short_flow(&mut self, slot: u32, now: Time) {
        let endpoint = self.arena.get(slot);
        let Origin::Web { size } = endpoint.origin else { return };
        let delay = self.lines.all[endpoint.line as usize].delay;
        let result = FlowResult::new(endpoint, &self.entrance.bottleneck.counters.flows.of(slot), now);
        self.measures.short_flows.add(ShortFlow {
            number: endpoint.number,
            class: endpoint.class,
            size,
            start: endpoint.start - Time(delay.0 / 2),
            completion: result.completion,
            base_rtt: delay,
        });
        let totals: &mut Totals = &mut self.measures.short_totals[usize::from(endpoint.class)];
        totals.add(&result);
    }

    /// A short flow of process `index` arrives.
    fn on_arrival(&mut self, index: usize, now: Time) -> Result<(), RunError> {
        let config = Arc::clone(&self.config);
        let process = &mut self.webs[index];
        let size = process.size();
        self.clock.set(Due::Arrival(index), process.after(now));
        let number = self.next_number;
        self.next_number = number.checked_add(1).ok_or_else(|| RunError::Invariant("more than 2^32 flows in a run".into()))?;
        let web = &config.web[index];
        let params = &web.params;
        let cc = web.cc.build(&CcContext { seed: config.run.seed, flow: u64::from(number) });
        let ecn = params.ecn.unwrap_or(self.host.ecn);
        let (class, line, host) = (process.class, process.line, &self.host);
        let stages = build_stages(&web.stages, config.run.seed, number as usize)?;
        let slot = self.arena.add(|slot| {
            let tcp = connection(slot, cc, host, ecn, params.ecn_echo, Application::Size(size));
            let endpoint = Endpoint::new(Transport::Tcp(tcp), Origin::Web { size }, number, class, line, now, Time::NEVER);
            Endpoint { stages, ..endpoint }
        });
        self.entrance.bottleneck.flow_starts(slot, &process.key(number), class);
        self.join(slot);
        self.on_timer(slot, now)
    }

    /// What is due at the clock's time.
    fn tick(&mut self, now: Time) -> Result<(), RunError> {
        match self.clock.due() {
            Due::Rate => {
                let change = self.clock.take_change(&self.config);
                self.entrance.bottleneck.set_rate(self.config.rate_changes[change].rate, now);
            }
            Due::Sample(line) => self.sample(line, now)?,
            Due::Series => {
                let listed = self.arena.listed(self.config.flows.len() + self.config.udp.len());
                self.measures.point(now, listed, &self.entrance.bottleneck);
                self.clock.took_point(now);
            }
            Due::End => {
                self.clock.set(Due::End, Time::NEVER);
                self.queue_over = true;
                self.measures.finish_queue(&self.entrance.bottleneck);
            }
            Due::Arrival(process) => self.on_arrival(process, now)?,
        }
        Ok(())
    }

    /// Samples the endpoints of `line`; at the end of their measured time, takes their results.
    fn sample(&mut self, line: usize, now: Time) -> Result<(), RunError> {
        let listed = self.config.flows.len() + self.config.udp.len();
        let over = self.clock.sampled(line, Time(self.lines.all[line].delay.0 / 2), now);
        self.lines.all[line].over = over;
        self.lines_left -= usize::from(over);
        for index in 0..self.lines.all[line].members.len() {
            let slot = self.lines.all[line].members[index];
            let endpoint = self.arena.get_mut(slot);
            if let Transport::Tcp(Tcp { sender, .. }) = &endpoint.transport {
                if sender.conn.cwnd == 0 {
                    return Err(RunError::Invariant(format!("flow {}: cwnd is 0 at {now}", endpoint.number)));
                }
                if sender.finished.is_none_or(|finished| finished >= now) {
                    endpoint.samples.take(sender);
                }
            }
            if !over {
                continue;
            }
            match endpoint.origin {
                Origin::Listed => {
                    let result = FlowResult::new(endpoint, &self.entrance.bottleneck.counters.flows.of(slot), now);
                    self.measures.finish_flow(endpoint.number, listed, result);
                }
                Origin::Web { .. } => self.measure_short_flow(slot, now),
            }
        }
        Ok(())
    }

    /// Packets sent = delivered + dropped + still in flight, and marks at the queue = marks at the receivers, per endpoint and in all.
    fn check_conservation(&self) -> Result<(), RunError> {
        let (mut found, mut held) = (UnderWay::default(), UnderWay::default());
        for (slot, endpoint) in self.arena.iter() {
            found += endpoint.check_conservation(&self.entrance.bottleneck.counters.flows.of(slot))?;
            held.ahead += endpoint.stages.data.as_ref().map_or(0, |path| path.held() as u64);
        }
        held.ahead += self.entrance.shared.as_ref().map_or(0, |path| path.held() as u64);
        held.behind = self.behind.as_ref().map_or(0, |path| path.held() as u64);
        held.queued = self.entrance.bottleneck.held();
        for (place, found, held) in [
            ("ahead of the queue", found.ahead, held.ahead),
            ("queue", found.queued, held.queued),
            ("behind the queue", found.behind, held.behind),
        ] {
            if found != held {
                return Err(RunError::Invariant(format!("{place}: arrived - gone is {found}, held are {held}")));
            }
        }
        Ok(())
    }
}

impl<A: Aqm + Send, L: Log + Send> Run for Engine<A, L> {
    fn advance(&mut self, until: Time, events: u64) -> Result<Standing, RunError> {
        let mut now = self.now;
        let mut done = 0;
        let mut standing = Standing::Busy;
        while done < events {
            let (line_at, line) = self.lines.times.min();
            let (timer_at, slot) = self.arena.timers.min();
            let link_at = self.entrance.bottleneck.next;
            let packets_at = line_at.min(link_at);
            let aqm_at = self.entrance.bottleneck.aqm.next_timer();
            let clock_at = self.clock.next().min(aqm_at);
            if packets_at <= timer_at && packets_at <= clock_at {
                if packets_at > until {
                    standing = Standing::Paused;
                    break;
                }
                now = packets_at;
                if line_at <= link_at {
                    match line.checked_sub(self.lines.all.len()) {
                        None => self.on_ack(line, line_at),
                        Some(stage) => self.on_shared(stage == 1, line_at),
                    }
                } else {
                    self.on_link(link_at);
                }
            } else if timer_at.min(clock_at) > until {
                standing = Standing::Paused;
                break;
            } else if timer_at <= clock_at {
                now = timer_at;
                self.on_timer(slot as u32, timer_at)?;
            } else if aqm_at < self.clock.next() {
                now = aqm_at;
                self.entrance.bottleneck.on_aqm_timer(aqm_at);
            } else {
                now = clock_at;
                self.tick(clock_at)?;
                if self.queue_over && self.lines_left == 0 {
                    done += 1;
                    standing = Standing::Over;
                    break;
                }
            }
            done += 1;
        }
        self.now = now;
        self.events += done;
        Ok(standing)
    }

    fn time(&self) -> Time {
        self.now
    }

    fn view(&self) -> View {
        let endpoint = |(_, endpoint): (u32, &Endpoint)| {
            let sender = endpoint.tcp().map(|tcp| &tcp.sender);
            let conn = sender.map(|sender| &sender.conn);
            EndpointView {
                number: endpoint.number,
                class: endpoint.class,
                payload: endpoint.payload(),
                cwnd: conn.map_or(0, |conn| conn.cwnd),
                ssthresh: conn.map_or(0, |conn| conn.ssthresh),
                in_flight: conn.map_or(0, |conn| conn.in_flight()),
                srtt_us: conn.map_or(0, |conn| conn.rtt.srtt_us()),
            }
        };
        let there = self.arena.iter().filter(|(_, endpoint)| !matches!(endpoint.transport, Transport::Vacant));
        View {
            now: self.now,
            events: self.events,
            queued_packets: self.entrance.bottleneck.aqm.packets() as u64,
            queued_bytes: self.entrance.bottleneck.aqm.bytes(),
            queue: self.entrance.bottleneck.counters.queue,
            endpoints: there.map(endpoint).collect(),
        }
    }

    fn finish(self: Box<Self>) -> Result<Outcome, RunError> {
        self.check_conservation()?;
        let Engine { config, classes, measures, events, arena, entrance, .. } = *self;
        // not in memory together with the tables
        drop((arena, entrance));
        Ok(outcome(measures, &config, &classes, events))
    }
}

/// The path of `stages`, which draws from stream `name` of `seed`, number `index`; `None` if there are no stages.
fn build_path<T: path::Carried>(
    stages: &[Map<String, Value>],
    seed: u64,
    name: &str,
    index: usize,
) -> Result<Option<Box<Path<T>>>, ParamError> {
    if stages.is_empty() {
        return Ok(None);
    }
    path::build(stages, Rng::stream(seed, name, index as u64)).map(|path| Some(Box::new(path)))
}

/// What the packets of endpoint `number` pass by themselves.
fn build_stages(stages: &StageConfig, seed: u64, number: usize) -> Result<Stages, ParamError> {
    let data = build_path(&stages.path, seed, "path", number)?;
    let acks = build_path(&stages.ack_path, seed, "ack path", number)?;
    Ok(Stages { data, acks })
}

/// The base RTTs of a run, ascending.
fn base_rtts(config: &RunConfig) -> Vec<Time> {
    let flows = config.flows.iter().map(|flow| flow.params.base_rtt);
    let web = config.web.iter().map(|web| web.params.base_rtt);
    // UDP has no acknowledgements: its measured time is that of the queue
    let udp = config.udp.iter().map(|_| Time::ZERO);
    let mut all: Vec<Time> = flows.chain(web).chain(udp).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The line of a base RTT.
fn line_of(lines: &[Line], base_rtt: Time) -> u32 {
    lines.partition_point(|line| line.delay < base_rtt) as u32
}

/// Both ends of a connection for `slot`.
fn connection(slot: u32, cc: AnyCc, host: &Arc<HostParams>, ecn: bool, echo: EcnEcho, app: Application) -> Tcp {
    let echo = match echo {
        EcnEcho::Auto => cc.ecn().echo,
        EcnEcho::Classic => Echo::UntilCwr,
        EcnEcho::Dctcp => Echo::PerPacket,
        EcnEcho::AccEcn => Echo::Accurate,
    };
    let options = FlowOptions { ecn: ecn || cc.ecn().required, echo };
    let sender = Sender::new(slot, cc, Arc::clone(host), options, app);
    Tcp { sender, receiver: Receiver::new(slot, Arc::clone(host), options) }
}

fn application(flow: &FlowConfig) -> Application {
    match (flow.params.size, flow.params.app_rate) {
        (Some(size), _) => Application::Size(size),
        (None, Some(rate)) => Application::Rate(rate.bytes()),
        (None, None) => Application::Bulk,
    }
}

/// Identity of a listed flow or source of UDP, for queues that tell flows apart.
fn listed_key(config: &RunConfig, number: u32) -> FlowKey {
    let index = number as usize;
    match config.flows.get(index) {
        Some(FlowConfig { params, .. }) => {
            FlowKey { src_host: params.src_host, dst_host: params.dst_host, ports: number, dscp: params.dscp }
        }
        None => {
            let params = &config.udp[index - config.flows.len()].params;
            FlowKey { src_host: params.src_host, dst_host: params.dst_host, ports: number, dscp: params.dscp }
        }
    }
}

/// Largest frame that a host setting gives.
pub(crate) fn frame(mss: u32) -> u32 {
    mss + u32::from(HEADERS)
}

#[cfg(test)]
mod tests;
