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
mod lines;
mod setup;
mod ways;
pub mod web;

use crate::bottleneck::Bottleneck;
use crate::classes::Totals;
use crate::config::{Classes, RunConfig, UdpConfig};
use crate::measure::{Backlog, FlowResult, Measures, Seen};
use crate::min_tree::MinTree;
use crate::outcome::outcome;
use crate::short_flows::ShortFlow;
use crate::transit::Transit;
use crate::{EndpointView, Outcome, RunError, View};
use clock::{Clock, Due};
use dumbbell_core::aqm::Aqm;
use dumbbell_core::cc::{AnyCc, CcContext};
use dumbbell_core::histogram::CompactHistogram;
use dumbbell_core::log::Log;
use dumbbell_core::packet::{flag, Packet, HEADERS};
use dumbbell_core::param::ParamError;
use dumbbell_core::path::Path;
use dumbbell_core::rng::Rng;
use dumbbell_core::tcp::host::HostParams;
use dumbbell_core::tcp::sender::{Application, Phase};
use dumbbell_core::tcp::stats::ReceiverStats;
use dumbbell_core::tcp::Network;
use dumbbell_core::traffic::UdpSource;
use dumbbell_core::units::Time;
use endpoint::{Arena, Endpoint, Origin, Tcp, Transport, Udp, UnderWay};
use lines::{BlockPool, Line, Lines, NO_BLOCKS};
use setup::{application, base_rtts, build_path, build_stages, connection, line_of, listed_key};
use std::collections::VecDeque;
use std::sync::Arc;
use ways::{alone, Entrance, Exit, Memory, Port};
use web::WebProcess;

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
        let empty_line = |&delay: &Time| Line { delay, acks: VecDeque::new(), members: Vec::new(), over: false };
        let listed = config.flows.len() + config.udp.len();
        let mut engine = Engine {
            host: Arc::new(config.hosts.clone()),
            entrance: Entrance {
                shared: build_path(&config.path, config.run.seed, "shared path", 0)?,
                memory: Memory::new(config.hosts.memory),
                bottleneck: Bottleneck::new(aqm, classes.list.len(), &config.bottleneck, listener),
            },
            behind: build_path(&config.behind, config.run.seed, "path behind", 0)?,
            arena: Arena::new(listed),
            lines: Lines {
                all: base_rtts.iter().map(empty_line).collect(),
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
            let writes = flow.start.draw(seed, "start", index) + ahead;
            let start = params.connect.map_or(writes, |connect| connect + ahead);
            let stop = params.stop.map_or(Time::NEVER, |stop| stop.saturating_add(ahead));
            let ecn = params.ecn.unwrap_or(self.host.ecn);
            let line = line_of(&self.lines.all, params.base_rtt);
            let (host, class) = (&self.host, self.classes.of_flow[index]);
            let stages = build_stages(&flow.stages, seed, index)?;
            let slot = self.arena.add(|slot| {
                let mut tcp = connection(slot, cc, host, ecn, params.ecn_echo, application(flow, ahead, start..writes));
                tcp.sender.rtt_samples = Some(CompactHistogram::default());
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
                let (received, transit) = (ReceiverStats::default(), Transit::default());
                let transport = Transport::Udp(Box::new(Udp { source, received, transit, started: false, stopped: None }));
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
                self.arena.prefetch_sender(later.flow);
            }
            if let Some(tcp) = queue.front().and_then(|(_, next_ack, _)| self.arena.get(next_ack.flow).tcp()) {
                tcp.sender.prefetch();
            }
        }
        let Endpoint { transport, stages, .. } = self.arena.get_mut(ack.flow);
        let Transport::Tcp(tcp) = transport else { return };
        let mut port = Port { entrance: &mut self.entrance, path: &mut stages.data, now };
        if index == NO_BLOCKS {
            tcp.sender.on_ack(&ack, &[], now, &mut port);
        } else {
            tcp.sender.on_ack(&ack, self.lines.pool.get(index), now, &mut port);
            self.lines.pool.release(index);
        }
        let mut timer = tcp.sender.no_timer_before();
        if let Some(path) = &stages.data {
            timer = timer.min(path.next_timer());
        }
        if timer == Time::NEVER {
            // it may be over: its timer looks
            timer = now;
        }
        self.arena.timer_not_after(ack.flow, timer);
        self.plan_entrance();
        if self.measures.trace.is_some() {
            self.trace(ack.flow, now);
        }
    }

    /// Something happened to the flow in `slot`: its trace goes on.
    #[cold]
    #[inline(never)]
    fn trace(&mut self, slot: u32, now: Time) {
        let Engine { arena, measures, lines, entrance, config, .. } = self;
        let (Some(trace), Some(tcp)) = (&mut measures.trace, arena.get(slot).tcp()) else { return };
        if (slot as usize) < config.flows.len() {
            let ahead = Time(lines.all[arena.get(slot).line as usize].delay.0 / 2);
            trace.look(slot, &tcp.sender, now - ahead, || entrance.bottleneck.aqm.bytes());
        }
    }

    /// Stages ahead of the bottleneck may have got something to do.
    #[inline]
    fn plan_entrance(&mut self) {
        if let Some(shared) = &self.entrance.shared {
            self.lines.set_stage(false, shared.next_timer());
        }
    }

    /// Stages that all endpoints share have something to do.
    fn on_shared(&mut self, is_behind: bool, now: Time) {
        if !is_behind {
            let Entrance { shared, bottleneck, .. } = &mut self.entrance;
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
                path.push(alone(packet), now, &mut Exit { arena, lines, bottleneck: &mut entrance.bottleneck });
                lines.set_stage(true, path.next_timer());
            }
        }
    }

    /// A packet that is not the last of its burst leaves; if the rest does not follow, it is.
    #[cold]
    #[inline(never)]
    fn leave_in_burst(&mut self, mut packet: Packet, now: Time) {
        if !self.entrance.bottleneck.burst_goes_on(&packet, now) {
            packet.flags &= !flag::MORE;
        }
        self.leave(packet, now);
    }

    #[inline]
    fn on_link(&mut self, now: Time) {
        while self.entrance.bottleneck.next <= now {
            let left = self.entrance.bottleneck.advance(now);
            if self.arena.is_crowded() {
                if let Some(packet) = self.entrance.bottleneck.in_service() {
                    self.arena.prefetch_receiver(packet.flow);
                }
            }
            match left {
                Some(packet) if packet.has(flag::MORE) => self.leave_in_burst(packet, now),
                Some(packet) => self.leave(packet, now),
                None => {}
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
        if self.measures.trace.is_some() {
            self.trace(slot, now);
        }
        if origin != Origin::Listed && self.end_short_flow(slot, now)? {
            return Ok(());
        }
        let timer = self.arena.get(slot).next_timer();
        self.arena.timers.set(slot as usize, timer);
        if started && origin == Origin::Listed {
            let listed = self.arena.listed(self.config.flows.len());
            self.measures.flow_started(now, listed.filter(|one| one.tcp().is_some()).map(Endpoint::payload));
        }
        Ok(())
    }

    /// Gives the slot of a short flow free if nothing of it is left. Returns whether that was so.
    fn end_short_flow(&mut self, slot: u32, now: Time) -> Result<bool, RunError> {
        let counters = self.entrance.bottleneck.counters.flows.of(slot);
        let endpoint = self.arena.get_mut(slot);
        let (number, member) = (endpoint.line as usize, endpoint.member);
        if !endpoint.is_over(&counters, self.lines.all[number].delay, now) {
            return Ok(false);
        }
        let left = endpoint.check_conservation(&counters)?;
        if left != UnderWay::default() {
            return Err(RunError::Invariant(format!(
                "flow {}: it is over, and packets are under way: {left:?}",
                endpoint.number
            )));
        }
        if !self.lines.all[number].over {
            self.measure_short_flow(slot, now);
        }
        let line = &mut self.lines.all[number];
        line.members.swap_remove(member as usize);
        if let Some(&moved) = line.members.get(member as usize) {
            self.arena.get_mut(moved).member = member;
        }
        self.entrance.bottleneck.counters.flows.forget(slot);
        self.arena.remove(slot);
        self.entrance.memory.release(slot);
        Ok(true)
    }

    /// Takes the short flow in `slot` into what is measured.
    fn measure_short_flow(&mut self, slot: u32, now: Time) {
        let endpoint = self.arena.get(slot);
        let Origin::Web { size } = endpoint.origin else { return };
        let delay = self.lines.all[endpoint.line as usize].delay;
        if endpoint.start - Time(delay.0 / 2) < self.config.measured_from() {
            return;
        }
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
                let Bottleneck { aqm, counters, .. } = &self.entrance.bottleneck;
                let backlog = Backlog { packets: aqm.packets() as u64, bytes: aqm.bytes() };
                self.measures.point(now, listed.map(Seen::from), counters.queue, backlog);
                self.clock.took_point(now);
            }
            Due::End => {
                self.clock.set(Due::End, Time::NEVER);
                self.queue_over = true;
                let Bottleneck { aqm, counters, .. } = &self.entrance.bottleneck;
                self.measures.finish_queue(counters, aqm.counters());
            }
            Due::Arrival(process) => self.on_arrival(process, now)?,
            Due::Begin => {
                self.clock.set(Due::Begin, Time::NEVER);
                self.measures.begin_queue(&mut self.entrance.bottleneck.counters);
            }
        }
        Ok(())
    }

    /// Samples the endpoints of `line`; at the end of their measured time, takes their results.
    fn sample(&mut self, line: usize, now: Time) -> Result<(), RunError> {
        let listed = self.config.flows.len() + self.config.udp.len();
        let ahead = Time(self.lines.all[line].delay.0 / 2);
        let over = self.clock.sampled(line, ahead, now);
        let from = self.config.measured_from();
        let begins = from > Time::ZERO && now - ahead == from;
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
            if begins && endpoint.origin == Origin::Listed {
                let counters = self.entrance.bottleneck.counters.flows.of(slot);
                self.measures.begin_flow(endpoint.number, listed, FlowResult::new(endpoint, &counters, now), now);
                endpoint.forget_samples();
            }
            if !over {
                continue;
            }
            match endpoint.origin {
                Origin::Listed => {
                    let counters = self.entrance.bottleneck.counters.flows.of(slot);
                    let (rtt_samples, transit) = (endpoint.take_rtt_samples(), endpoint.take_transit());
                    let result = FlowResult { rtt_samples, transit, ..FlowResult::new(endpoint, &counters, now) };
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
        for (place, unaccounted, there) in [
            ("ahead of the queue", found.ahead, held.ahead),
            ("queue", found.queued, held.queued),
            ("behind the queue", found.behind, held.behind),
        ] {
            if unaccounted != there {
                return Err(RunError::Invariant(format!("{place}: arrived - gone is {unaccounted}, held are {there}")));
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
                // At one instant a packet leaves before another arrives. Ties are common, because ACKs are as far apart as the
                // departures that caused them. A real host takes a moment to answer, so that its packet arrives after the tie.
                if line_at < link_at {
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
        let view = |(_, endpoint): (u32, &Endpoint)| {
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
        let there = self.arena.iter().filter(|(_, one)| !matches!(one.transport, Transport::Vacant));
        View {
            now: self.now,
            events: self.events,
            queued_packets: self.entrance.bottleneck.aqm.packets() as u64,
            queued_bytes: self.entrance.bottleneck.aqm.bytes(),
            queue: self.entrance.bottleneck.counters.queue,
            endpoints: there.map(view).collect(),
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

/// Largest frame that a host setting gives.
pub(crate) fn frame(mss: u32) -> u32 {
    mss + u32::from(HEADERS)
}

#[cfg(test)]
mod tests;
