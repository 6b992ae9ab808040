//! The event loop.
//!
//! Event sources are few: the link, one line of acknowledgements a base RTT, one timer an endpoint (the earliest of all that
//! the endpoint waits for, moved lazily), stages that all endpoints share, and a clock for samples, series, changes of rate and
//! arrivals. At one instant their order is: the link, acknowledgements (by line), shared stages, timers (by slot), clock.
//!
//! Half of the base RTT lies ahead of the queue in a real dumbbell. Nothing that a sender does depends on absolute time,
//! so the engine lets each sender's clock run ahead by that half: what a sender sends is in the queue at once, and its
//! acknowledgements take the whole base RTT to come back. Starts, stops and samples of the flow are shifted alike.

mod ack_log;
mod ahead;
mod app_stack;
mod app_stream;
mod apps;
mod changes;
mod clock;
mod connection;
mod datagram_flow;
mod delay_lines;
pub mod endpoint;
mod memory;
mod multi_hop;
mod port;
mod setup;
mod shapers;
mod single_hop;
mod stack_way;
mod stream_place;
mod tcp;
mod topology;
mod transport;
pub mod udp;
mod windows;

use crate::agents::FlowObservation;
use crate::change::Change;
use crate::classes::Totals;
use crate::config::web::WebProcess;
use crate::config::{Classes, RunConfig, UdpConfig};
use crate::extensions::TransportSpec;
use crate::flow::{FlowCounts, FlowResult, Samples};
use crate::measure::{Measures, SeriesView};
use crate::outcome::outcome;
use crate::short_flows::ShortFlow;
use crate::{ControlView, EndpointView, HopView, Outcome, RunError, View};
use apps::AppUser;
use clock::{Clock, NextEvent};
use connection::Connection;
use datagram_flow::DatagramFlow;
use delay_lines::{AckEntry, DelayLine, ReceiverPort, ReturnPath};
use dumbbell_bottleneck::Bottleneck;
use dumbbell_core::aqm::{AnyAqm, Aqm};
use dumbbell_core::as_dyn;
use dumbbell_core::cc::CcContext;
use dumbbell_core::fork::{CannotFork, Fork, SharedCopies};
use dumbbell_core::observe::{FlowStart, ListenLevel, Reported, Tap};
use dumbbell_core::packet::{FlowKey, UDP_HEADERS};
use dumbbell_core::param::ParamError;
use dumbbell_core::protocol::{Protocol, ProtocolContext};
use dumbbell_core::tcp::host::HostParams;
use dumbbell_core::tcp::sender::Application;
use dumbbell_core::tcp::BackEcn;
use dumbbell_core::units::{Duration, Instant};
use endpoint::{Arena, Endpoint, Origin, UnderWay};
use multi_hop::MultiHop;
use setup::{application, build_stages, line_of, lines, listed_key};
use shapers::RunningControl;
use single_hop::SingleHop;
use std::sync::Arc;
use tcp::Tcp;
use topology::{backlog, ForkNet, LoopState, Topology};
use transport::Transport;
use udp::Udp;
use windows::Limits;
pub use windows::{Threads, Windows};

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Everything until the time that was asked for has happened.
    Paused,
    /// As many events have happened as were allowed.
    Busy,
    /// An acknowledgement has reached a sender with the control `external`.
    Acked,
    /// The run is over.
    Over,
}

/// A run on its way, whatever its queue discipline is.
pub trait Run: Send {
    /// Lets everything happen until `until`, that instant included, but not more than `events` events.
    ///
    /// # Errors
    /// A broken invariant.
    fn advance(&mut self, until: Instant, events: u64) -> Result<RunState, RunError>;

    /// Time of the last event.
    fn time(&self) -> Instant;

    /// Number of events so far.
    fn count_events(&self) -> u64;

    /// Returns the present state.
    fn view(&self) -> View;

    /// Returns each hop as it is now.
    fn view_hops(&self) -> Vec<HopView>;

    /// Returns the congestion control of each TCP connection as it is now.
    fn view_controls(&self) -> Vec<ControlView>;

    /// Returns its configuration, with the changes so far.
    fn config(&self) -> &RunConfig;

    /// From now on it can be changed. It must not have begun, and delivers packets when they leave, on one thread.
    fn allow_changes(&mut self);

    /// Changes it at `now`, up to which everything has happened.
    ///
    /// # Errors
    /// A change that this run cannot make.
    fn change(&mut self, change: &Change, now: Instant) -> Result<(), ParamError>;

    /// Whether [`Run::advance`] pauses at acknowledgements that reach senders with the control `external`.
    fn stop_at_acks(&mut self, stops: bool);

    /// Whether an acknowledgement has reached flow number `flow`, with the control `external`, since its agent was told.
    fn has_acks(&self, flow: usize) -> bool;

    /// Takes what the agent of listed flow number `flow` is told, if its control is `external`.
    fn observe(&mut self, flow: usize) -> Option<FlowObservation>;

    /// Returns a copy that goes on as this run does, to the same bits.
    ///
    /// # Errors
    /// A part that cannot be copied.
    fn fork(&self, shared: &mut SharedCopies) -> Result<Box<dyn Run>, CannotFork>;

    /// Returns the measurements; the run must be over.
    ///
    /// # Errors
    /// A broken invariant.
    fn finish(self: Box<Self>) -> Result<Outcome, RunError>;
}

/// A process of short flows, and what its flows have in common.
#[derive(Clone)]
struct Web {
    process: WebProcess,
    class: u16,
    /// Line of their acknowledgements.
    line: u32,
}

/// One simulation.
pub struct Engine<N: Topology> {
    config: Arc<RunConfig>,
    classes: Classes,
    host: Arc<HostParams>,
    net: N,
    arena: Arena,
    clock: Clock,
    webs: Vec<Web>,
    /// By number.
    apps: Vec<AppUser>,
    /// Programs that set rates of shapers.
    controls: Vec<RunningControl>,
    /// Number of the next endpoint.
    next_number: u32,
    measures: Measures,
    now: Instant,
    events: u64,
    /// Lines whose endpoints are still measured.
    lines_left: usize,
    queue_over: bool,
    /// By slot, the last reported state of its sender, and its number; empty unless a listener receives events of controls.
    said: Vec<(u32, Reported)>,
    /// If several threads can run it.
    windows: Option<Box<Windows>>,
    /// Whether it was built to be changed while it runs.
    is_changeable: bool,
    /// The loop pauses when an acknowledgement has reached a sender with the control `external`.
    stops_at_acks: bool,
}

/// A run of `config` over the hop called `bottleneck` with this queue discipline and listener.
pub fn over_tapped_bottleneck<L: Tap + Fork + Send + 'static>(config: Arc<RunConfig>, aqm: AnyAqm, listener: L) -> Box<dyn Run> {
    Box::new(Engine::<SingleHop<AnyAqm, L, false>>::new(config, aqm, listener))
}

/// A run of `config` over the hop called `bottleneck` with this queue discipline, which reports to no listener. Packets are [delivered](ahead) as they are sent, where that
/// is known, unless `ahead` is false or several threads run it.
pub fn over_bottleneck<A: Aqm + Send + 'static>(config: Arc<RunConfig>, aqm: A, ahead: bool, threads: Threads) -> Box<dyn Run> {
    if windows::are_useful(&config, threads) {
        return Box::new(Engine::<SingleHop<A, (), false>>::new(config, aqm, ()).on_threads(threads));
    }
    if A::FORESEES && ahead && ahead::may_deliver_ahead(&config) {
        return Box::new(Engine::<SingleHop<A, (), true>>::new(config, aqm, ()));
    }
    Box::new(Engine::<SingleHop<A, (), false>>::new(config, aqm, ()))
}

impl<A: Aqm + Send + 'static, L: Tap + Send, const AHEAD: bool> Engine<SingleHop<A, L, AHEAD>> {
    /// A run of `config` that has not begun, over `aqm`. Events at the bottleneck are reported to `listener` as well. `AHEAD`: packets are [delivered](ahead) as they are sent, where
    /// that is known.
    pub fn new(config: Arc<RunConfig>, aqm: A, listener: L) -> Self {
        let classes = config.classes();
        let net = SingleHop::new(&config, &classes, lines(&config), aqm, listener);
        Engine::with_link(net, config, classes)
    }
}

impl<L: Tap + Send + 'static> Engine<MultiHop<L>> {
    /// A run over the hops of `config`, with these queue disciplines; `listener` makes the listener of a hop.
    pub fn over_hops(config: Arc<RunConfig>, aqms: Vec<AnyAqm>, listener: impl FnMut(&str) -> L) -> Self {
        let classes = config.classes();
        let net = MultiHop::new(&config, &classes, lines(&config), aqms, listener);
        Engine::with_link(net, config, classes)
    }
}

impl<N: Topology> Engine<N> {
    /// A run of `config` over `net`.
    fn with_link(net: N, config: Arc<RunConfig>, classes: Classes) -> Engine<N> {
        let listed = config.flows.len() + config.udp.len();
        let aheads: Vec<Duration> = net.lines().all.iter().map(|line| line.ahead).collect();
        let mut engine = Engine {
            host: Arc::new(config.hosts.clone()),
            net,
            arena: Arena::new(listed),
            clock: Clock::new(&config, &aheads),
            webs: Vec::with_capacity(config.web.len()),
            apps: Vec::with_capacity(config.apps.len()),
            controls: Vec::new(),
            next_number: listed as u32,
            measures: Measures::new(&config, classes.list.len()),
            now: Instant::ZERO,
            events: 0,
            lines_left: aheads.len(),
            queue_over: false,
            said: Vec::new(),
            windows: None,
            is_changeable: false,
            stops_at_acks: false,
            classes,
            config,
        };
        engine.list_flows();
        engine.list_udp();
        engine.list_apps();
        for (index, web) in engine.config.web.iter().enumerate() {
            let line = line_of(&engine.net.lines().all, web.params.base_rtt, web.route.up);
            let (process, first) = WebProcess::new(&engine.config, web, index);
            engine.webs.push(Web { process, class: engine.classes.of_web[index], line });
            engine.clock.set(NextEvent::Arrival(index), first);
        }
        engine
    }

    /// Names the part of an endpoint that a program may have brought along, with its place in the run.
    fn name_ends(&self, endpoint: &Endpoint) -> String {
        let (number, flows) = (endpoint.number as usize, &self.config.flows);
        match (endpoint.origin, flows.get(number)) {
            (Origin::App { app }, _) => self.name_app(app as usize),
            (Origin::Listed, Some(flow)) => match &*flow.transport {
                TransportSpec::Tcp(cc) => format!("flow {number}: the congestion control {}", cc.name()),
                TransportSpec::Stack(stack) => format!("flow {number}: the endpoint {}", stack.name()),
            },
            (Origin::Listed, None) => {
                let name = self.config.udp.get(number - flows.len()).and_then(|udp| udp.protocol.as_ref());
                format!("flow {number}: the endpoint {}", name.map_or("udp", |protocol| protocol.name()))
            }
            _ => format!("flow {number}: the congestion control"),
        }
    }

    /// Returns the run on `threads`, for which windows are useful.
    fn on_threads(mut self, threads: Threads) -> Engine<N> {
        if self.net.serial_queue().is_some() {
            self.windows = Some(Box::new(Windows::new(&self.config, &mut self.arena, threads)));
        }
        self
    }

    /// Lets everything happen in windows until the next event of the clock, that included, the next start of a flow, or `until`. `None` if that must happen in
    /// the event loop.
    fn advance_windows(&mut self, until: Instant) -> Result<Option<RunState>, RunError> {
        if !windows::ARE_COMPILED {
            return Ok(None);
        }
        let Engine { windows: Some(windows), arena, net, clock, now, .. } = self else { return Ok(None) };
        let before_start = windows.next_start(*now).saturating_sub(Duration(1));
        if !windows.is_split() {
            if !windows.should_split(*now, until.min(before_start)) {
                return Ok(None);
            }
            windows.split_flows(arena, net.lines_mut());
        } else if before_start <= *now {
            windows.unite_flows(arena, net.lines_mut());
            return Ok(None);
        }
        let tick_at = clock.next();
        let end = until.min(before_start).min(tick_at).max(*now);
        let Some(queue) = net.serial_queue() else { return Ok(None) };
        windows.run(arena, queue, *now, Limits { until: end, timers_before: tick_at });
        *now = end;
        self.events += 1;
        if end < tick_at {
            return Ok(Some(if end >= until { RunState::Paused } else { RunState::Busy }));
        }
        while self.clock.next() == end {
            self.tick(end)?;
            if self.queue_over && self.lines_left == 0 {
                return Ok(Some(RunState::Over));
            }
        }
        Ok(Some(RunState::Busy))
    }

    /// Puts every flow of `[[flows]]` into its slot.
    fn list_flows(&mut self) {
        let config = Arc::clone(&self.config);
        let (seed, payload) = (config.run.seed, self.host.full_frame() - UDP_HEADERS);
        let mut last_own: Option<Arc<HostParams>> = None;
        for (index, flow) in config.flows.iter().enumerate() {
            let params = &flow.params;
            // flows in a row with equal hosts of their own share them
            if let Some(own) = params.own_host(&self.host) {
                last_own = last_own.filter(|last| **last == own).or_else(|| Some(Arc::new(own)));
            } else {
                last_own = None;
            }
            let line = line_of(&self.net.lines().all, params.base_rtt, flow.route.up);
            let ahead = self.net.lines().all[line as usize].ahead;
            let writes = flow.start.draw(seed, "start", index) + ahead;
            let start = params.connect.map_or(writes, |connect| connect + ahead);
            let stop = params.stop.map_or(Instant::NEVER, |stop| stop.saturating_add(ahead));
            let ecn = params.ecn.unwrap_or(self.host.ecn);
            let (host, class) = (last_own.as_ref().unwrap_or(&self.host), self.classes.of_flow[index]);
            let stages = build_stages(&flow.stages, seed, index);
            let slot = self.arena.add(|slot| {
                let transport = match &*flow.transport {
                    TransportSpec::Tcp(cc) => {
                        let cc = cc.build(&CcContext { seed, flow: index as u64 });
                        let app = application(flow, ahead, start..writes);
                        let mut tcp = Tcp::new(slot, cc, host, (ecn, params.ecn_echo), app, true);
                        if let Some(kind) = params.misbehaves {
                            tcp.receiver.misbehave(kind);
                        }
                        Transport::Tcp(tcp)
                    }
                    TransportSpec::Stack(stack) => {
                        let (size, app_rate) = (params.size, params.app_rate);
                        let protocol = stack.build(&ProtocolContext { seed, number: index as u64, payload, ecn, size, app_rate });
                        Transport::Datagrams(Box::new(DatagramFlow::new(slot, protocol, true, params.base_rtt, size)))
                    }
                };
                let endpoint = Endpoint::new(transport, Origin::Listed, index as u32, class, line, start, stop);
                Endpoint { stages, ..endpoint }
            });
            self.join(slot);
            self.plan_timer(slot);
        }
        self.clock.set_starts(self.arena.iter_listed(config.flows.len()).map(|flow| flow.start));
    }

    /// Puts every source of UDP into its slot.
    fn list_udp(&mut self) {
        let config = Arc::clone(&self.config);
        let (seed, payload) = (config.run.seed, self.host.full_frame() - UDP_HEADERS);
        for (index, udp) in config.udp.iter().enumerate() {
            let UdpConfig { start, params, stages, .. } = udp;
            let number = (config.flows.len() + index) as u32;
            let (base_rtt, up) = udp.line();
            let (class, line) = (self.classes.of_udp[index], line_of(&self.net.lines().all, base_rtt, up));
            let ahead = self.net.lines().all[line as usize].ahead;
            let start = start.draw(seed, "udp start", index).saturating_add(ahead);
            let protocol: Box<dyn Protocol> = match &udp.protocol {
                Some(protocol) => protocol.build(&ProtocolContext {
                    seed,
                    number: u64::from(number),
                    payload,
                    ecn: false,
                    size: None,
                    app_rate: None,
                }),
                None => Box::new(Udp::new(params, seed, index as u64)),
            };
            let stages = build_stages(stages, seed, number as usize);
            let slot = self.arena.add(|slot| {
                let transport =
                    Transport::Datagrams(Box::new(DatagramFlow::new(slot, protocol, params.echo, params.base_rtt, None)));
                let stop = params.stop.map_or(Instant::NEVER, |stop| stop.saturating_add(ahead));
                Endpoint { stages, ..Endpoint::new(transport, Origin::Listed, number, class, line, start, stop) }
            });
            self.join(slot);
            self.plan_timer(slot);
        }
    }

    /// The endpoint in `slot` becomes a member of its line.
    fn join(&mut self, slot: u32) {
        let endpoint = self.arena.get_mut(slot);
        let members = &mut self.net.lines_mut().all[endpoint.line as usize].members;
        endpoint.member = members.len() as u32;
        members.push(slot);
    }

    /// The endpoint in `slot` is called when it next has something to do.
    fn plan_timer(&mut self, slot: u32) {
        let timer = self.arena.get(slot).next_timer();
        self.arena.timers.set(slot as usize, timer);
    }

    /// Something happened to the flow in `slot`: its trace goes on.
    #[cold]
    #[inline(never)]
    fn trace(&mut self, slot: u32, now: Instant) {
        let Engine { arena, measures, net, config, .. } = self;
        let (Some(trace), Endpoint { transport, line, .. }) = (&mut measures.trace, arena.get(slot)) else { return };
        if (slot as usize) < config.flows.len() {
            let ahead = net.lines().all[*line as usize].ahead;
            transport.trace(trace, slot, now - ahead, || net.bottleneck().aqm.bytes());
        }
    }

    /// Reports changes of the sender in `slot` to the listener.
    #[cold]
    #[inline(never)]
    fn report_sender(&mut self, slot: u32, now: Instant) {
        let Endpoint { number, line, transport, .. } = self.arena.get_mut(slot);
        let time = now - self.net.lines().all[*line as usize].ahead;
        let index = slot as usize;
        if self.said.len() <= index {
            self.said.resize(index + 1, (u32::MAX, Reported::default()));
        }
        let (last, said) = &mut self.said[index];
        if *last != *number {
            // the slot of a flow that is over
            (*last, *said) = (*number, Reported::default());
        }
        transport.report_changes(said, self.net.listener(), slot, time);
    }

    /// Tells the net of the listed endpoint or that of an application in `slot`, which starts now.
    #[inline(never)]
    fn announce(&mut self, slot: u32) {
        let Endpoint { transport, number, origin, class, line, .. } = self.arena.get(slot);
        let (number, class, line, back) = (*number, *class, *line, transport.back_ecn());
        let index = number as usize;
        let (route, key) = match (*origin, self.config.flows.get(index)) {
            (Origin::App { app }, _) => self.app_route_and_key(app, slot),
            (_, Some(flow)) => (Arc::clone(&flow.route), listed_key(&self.config, number)),
            (_, None) => {
                let udp = &self.config.udp[index - self.config.flows.len()];
                (Arc::clone(&udp.route), listed_key(&self.config, number))
            }
        };
        self.net.flow_starts(slot, &route, line, &key, back, class);
        report_flow_start(&mut self.net, slot, (number, line), key, back, transport);
    }

    /// How many flows and sources of UDP are listed.
    fn count_listed(&self) -> usize {
        self.config.flows.len() + self.config.udp.len()
    }

    fn on_timer(&mut self, slot: u32, now: Instant) -> Result<(), RunError> {
        if self.arena.is_crowded() {
            // all at once, not one after the other
            let transport = &self.arena.get(slot).transport;
            transport.prefetch();
            transport.prefetch_behind();
        }
        let endpoint = self.arena.get_mut(slot);
        let (line, origin) = (endpoint.line, endpoint.origin);
        if let Some(path) = &mut endpoint.stages.data {
            if path.next_timer() <= now {
                path.on_timer(now, &mut self.net.way(line));
            }
        }
        if let Some(path) = &mut endpoint.stages.acks {
            if path.next_timer() <= now {
                path.on_timer(now, &mut AckEntry { back: &mut self.net.back(), line });
            }
        }
        if !endpoint.transport.has_begun() && endpoint.start <= now && matches!(origin, Origin::Listed | Origin::App { .. }) {
            self.announce(slot);
        }
        let Endpoint { transport, stages, start, stop, .. } = self.arena.get_mut(slot);
        let started = transport.on_timer(*start, stop, stages, now, as_dyn!(self.net.way(line), port::Ingress));
        transport.on_receiver_timer(
            now,
            &mut as_dyn!(ReceiverPort { back: &mut self.net.back(), stages, line, now }, port::ReturnPort),
        );
        if let Some((listener, _)) = self.net.back().frame_listener() {
            transport.report_payloads(listener);
        }
        self.net.plan();
        if self.measures.trace.is_some() {
            self.trace(slot, now);
        }
        if self.net.listener().listen_level() >= ListenLevel::Controls {
            self.report_sender(slot, now);
        }
        match origin {
            Origin::Listed => {}
            Origin::App { app } => {
                self.serve_user(app, slot, now);
                if self.arena.get(slot).transport.is_done() && self.end_short_flow(slot, now)? {
                    return Ok(());
                }
            }
            Origin::Web { .. } | Origin::Vacant => {
                if self.end_short_flow(slot, now)? {
                    return Ok(());
                }
            }
        }
        self.plan_timer(slot);
        if self.arena.is_crowded() {
            let listed = self.config.flows.len() + self.config.udp.len();
            if let Some(short) = self.arena.prefetch_next_timer(listed) {
                self.net.prefetch_counters(short);
            }
        }
        if started && (slot as usize) < self.config.flows.len() {
            let listed = self.arena.iter_listed(self.config.flows.len() + self.config.udp.len());
            self.measures.together.start_flow(now, listed.map(|one| one.transport.progress()));
            self.plan_look();
        }
        Ok(())
    }

    /// Gives the slot of a short flow, or of a closed connection, free if nothing of it is left. Returns whether that was so.
    fn end_short_flow(&mut self, slot: u32, now: Instant) -> Result<bool, RunError> {
        let endpoint = self.arena.get_mut(slot);
        if !endpoint.transport.is_done() {
            endpoint.look_at = Instant::NEVER;
            return Ok(false);
        }
        if now < endpoint.look_at && endpoint.look_at != Instant::NEVER {
            // a timer that was set and is no more
            return Ok(false);
        }
        endpoint.look_at = Instant::NEVER;
        let (counters, acks) = (self.net.of_flow(slot), self.net.acks_held(slot));
        let (number, member) = (endpoint.line as usize, endpoint.member);
        if !endpoint.is_over(&counters, acks, self.net.lines().all[number].delay, now) {
            return Ok(false);
        }
        let left = endpoint.check_conservation(&counters)?;
        if left != UnderWay::default() {
            return Err(RunError::Invariant(format!(
                "flow {}: it is over, and packets are under way: {left:?}",
                endpoint.number
            )));
        }
        match self.arena.get(slot).origin {
            Origin::App { app } => self.free_app_endpoint(app, slot, now),
            _ if self.net.lines().all[number].over => {}
            _ => self.measure_short_flow(slot, now),
        }
        let line = &mut self.net.lines_mut().all[number];
        line.members.swap_remove(member as usize);
        if let Some(&moved) = line.members.get(member as usize) {
            self.arena.get_mut(moved).member = member;
        }
        // the net does not know a connection that was closed before it began
        if self.arena.get(slot).transport.has_begun() {
            self.net.forget(slot);
        }
        self.arena.remove(slot);
        Ok(true)
    }

    /// Takes the short flow in `slot` into what is measured.
    fn measure_short_flow(&mut self, slot: u32, now: Instant) {
        let endpoint = self.arena.get(slot);
        let Origin::Web { size } = endpoint.origin else { return };
        let DelayLine { delay, ahead, .. } = self.net.lines().all[endpoint.line as usize];
        if endpoint.start - ahead < self.config.measured_from() {
            return;
        }
        let result = endpoint.result(&self.net.of_flow(slot), now);
        self.measures.short_flows.add(ShortFlow {
            number: endpoint.number,
            class: endpoint.class,
            size,
            start: endpoint.start - ahead,
            completion: result.completion,
            base_rtt: delay,
        });
        let totals: &mut Totals = &mut self.measures.short_totals[usize::from(endpoint.class)];
        totals.add(&result);
    }

    /// A short flow of process `index` arrives.
    fn on_arrival(&mut self, index: usize, now: Instant) -> Result<(), RunError> {
        let Engine { config, webs, clock, next_number, host, arena, net, .. } = self;
        let web = &config.web[index];
        let Web { process, class, line } = &mut webs[index];
        let (class, line) = (*class, *line);
        let size = process.size();
        clock.set(NextEvent::Arrival(index), process.next_arrival(now));
        let number = *next_number;
        *next_number = number.checked_add(1).ok_or_else(|| RunError::Invariant("more than 2^32 flows in a run".into()))?;
        let params = &web.params;
        let cc = web.cc.build(&CcContext { seed: config.run.seed, flow: u64::from(number) });
        let ecn = params.ecn.unwrap_or(host.ecn);
        let stages = build_stages(&web.stages, config.run.seed, number as usize);
        let (origin, ecn_and_echo, app) = (Origin::Web { size }, (ecn, params.ecn_echo), Application::Size(size));
        let slot = match arena.reuse() {
            None => arena.add(|slot| {
                let tcp = Tcp::new(slot, cc, host, ecn_and_echo, app, false);
                Endpoint::new(Transport::Tcp(tcp), origin, number, class, line, now, Instant::NEVER)
            }),
            Some(slot) => {
                let endpoint = arena.get_mut(slot);
                endpoint.renew(origin, number, class, line, now);
                match &mut endpoint.transport {
                    Transport::Tcp(tcp) => tcp.renew(cc, ecn_and_echo, app),
                    other => *other = Transport::Tcp(Tcp::new(slot, cc, host, ecn_and_echo, app, false)),
                }
                slot
            }
        };
        arena.get_mut(slot).stages = stages;
        let transport = &arena.get(slot).transport;
        let (back, key) = (transport.back_ecn(), process.key(number));
        net.flow_starts(slot, &web.route, line, &key, back, class);
        report_flow_start(net, slot, (number, line), key, back, transport);
        self.join(slot);
        self.on_timer(slot, now)
    }

    /// Handles the events that are due at the clock's time. Within the event loop, it would take registers from the packets.
    #[inline(never)]
    fn tick(&mut self, now: Instant) -> Result<(), RunError> {
        match self.clock.due() {
            NextEvent::Rate => {
                let change = self.clock.take_change(&self.config);
                self.net.change_rate(change, &self.config, now);
            }
            NextEvent::Sample(line) => self.sample(line, now)?,
            NextEvent::Series => {
                self.net.settle(now);
                let listed = self.arena.iter_listed(self.config.flows.len() + self.config.udp.len());
                let net = &self.net;
                let Bottleneck { aqm, log, .. } = net.bottleneck();
                let views = (0..)
                    .zip(listed)
                    .map(|(slot, one)| SeriesView { dropped: net.of_flow(slot).count_dropped(), ..one.transport.series_view() });
                self.measures.point(now, views, log.counters.queue, backlog(aqm));
                self.net.point(now);
                if !self.config.states.is_empty() {
                    let (wanted, series) = (&self.config.states, &mut self.measures.states);
                    self.net.states(&mut |hop, name, value| {
                        if wanted.contains(&name) {
                            series.add(now, hop, name, value);
                        }
                    });
                }
                self.clock.took_point(now);
            }
            NextEvent::Look => {
                let listed = self.arena.iter_listed(self.config.flows.len() + self.config.udp.len());
                self.measures.together.update(now, listed.map(|one| one.transport.progress()));
                self.plan_look();
            }
            NextEvent::End => {
                self.clock.set(NextEvent::End, Instant::NEVER);
                self.queue_over = true;
                self.net.settle(now);
                let flows = self.on_way();
                let Bottleneck { aqm, log, .. } = self.net.bottleneck();
                self.measures.finish_queue(&log.counters, aqm.counters(), flows);
                self.measures.hops = self.net.finish(&self.config, &self.classes.list);
            }
            NextEvent::Arrival(process) => self.on_arrival(process, now)?,
            NextEvent::Begin => {
                self.clock.set(NextEvent::Begin, Instant::NEVER);
                self.net.settle(now);
                self.net.begin();
                let flows = self.on_way();
                self.measures.begin_queue(&mut self.net.bottleneck_mut().log.counters, flows);
                self.begin_apps(now);
            }
            NextEvent::Control => self.control_shapers(now),
        }
        Ok(())
    }

    /// The next look at what the flows get in the time that they have in common.
    fn plan_look(&mut self) {
        let next = self.measures.together.next();
        self.clock.set(NextEvent::Look, if next > self.config.end() { Instant::NEVER } else { next });
    }

    /// Returns the counts of the listed endpoints on their path.
    fn on_way(&self) -> Vec<FlowCounts> {
        let listed = self.arena.iter_listed(self.config.flows.len() + self.config.udp.len());
        let counted = |(slot, one): (u32, &Endpoint)| FlowCounts {
            counters: self.net.of_flow(slot),
            received: one.transport.sent_and_received().1,
        };
        (0..).zip(listed).map(counted).collect()
    }

    /// Samples the endpoints of `line`; at the end of their measured time, takes their results.
    fn sample(&mut self, line: usize, now: Instant) -> Result<(), RunError> {
        let listed = self.config.flows.len() + self.config.udp.len();
        let ahead = self.net.lines().all[line].ahead;
        let over = self.clock.plan_sample(line, ahead, now);
        let from = self.config.measured_from();
        let begins = from > Instant::ZERO && now - ahead == from;
        self.net.lines_mut().all[line].over = over;
        self.lines_left -= usize::from(over);
        for index in 0..self.net.lines().all[line].members.len() {
            let slot = self.net.lines().all[line].members[index];
            let endpoint = self.arena.get_mut(slot);
            endpoint.check_state()?;
            let Endpoint { transport, samples, .. } = endpoint;
            transport.sample(samples, now);
            if let (true, Origin::App { .. }) = (begins, endpoint.origin) {
                self.begin_app_endpoint(slot, now);
                continue;
            }
            if begins && endpoint.origin == Origin::Listed {
                let counters = self.net.of_flow(slot);
                self.measures.begin_flow(endpoint.number, listed, endpoint.result(&counters, now), now);
                endpoint.samples = Samples::default();
                endpoint.transport.forget_samples();
            }
            if !over {
                continue;
            }
            match endpoint.origin {
                Origin::Listed => {
                    let counters = self.net.of_flow(slot);
                    let (rtt_samples, transit) = (endpoint.transport.take_rtt_samples(), endpoint.transport.take_transit());
                    let result = FlowResult { rtt_samples, transit, ..endpoint.result(&counters, now) };
                    self.measures.finish_flow(endpoint.number, listed, result);
                }
                Origin::App { app } => self.finish_app_endpoint(app, slot, now),
                Origin::Web { .. } => self.measure_short_flow(slot, now),
                // no member of a line
                Origin::Vacant => {}
            }
        }
        Ok(())
    }

    /// Packets sent = delivered + dropped + still in flight, and marks at the queue = marks at the receivers, per endpoint and in all.
    fn check_conservation(&self) -> Result<(), RunError> {
        let (mut found, mut staged) = (UnderWay::default(), 0);
        for (slot, endpoint) in self.arena.iter() {
            found += endpoint.check_conservation(&self.net.of_flow(slot))?;
            staged += endpoint.stages.data.as_ref().map_or(0, |path| path.count_items() as u64);
        }
        self.net.check_links(&self.config)?;
        self.net.check(found, staged)
    }
}

impl<N: ForkNet> Engine<N> {
    /// Returns a copy of the run. The parts that refuse to be copied are asked by [`Fork`].
    fn copy(&self, shared: &mut SharedCopies) -> Result<Engine<N>, CannotFork> {
        Ok(Engine {
            config: Arc::clone(&self.config),
            classes: self.classes.clone(),
            host: Arc::clone(&self.host),
            net: self.net.fork_net(&self.config, shared)?,
            arena: self.arena.fork(shared, |endpoint| self.name_ends(endpoint))?,
            clock: self.clock.clone(),
            webs: self.webs.clone(),
            apps: self.copy_apps(shared)?,
            controls: self.controls.fork(shared)?,
            measures: self.measures.clone(),
            said: self.said.clone(),
            windows: self.windows.clone(),
            ..*self
        })
    }
}

impl<N: ForkNet + 'static> Run for Engine<N> {
    fn advance(&mut self, until: Instant, events: u64) -> Result<RunState, RunError> {
        if let Some(standing) = self.advance_windows(until)? {
            return Ok(standing);
        }
        let events = self.windows.as_ref().map_or(events, |windows| events.min(windows.loop_events()));
        let watched =
            self.measures.trace.is_some() || self.stops_at_acks || self.net.listener().listen_level() >= ListenLevel::Controls;
        let mut moment = LoopState { now: self.now, before: until, events: 0, most_events: events, watched };
        let mut standing = RunState::Busy;
        while moment.events < events {
            let (packets_at, due) = self.net.next_due();
            let (timer_at, slot) = self.arena.timers.min();
            let aqm_at = self.net.aqm_at();
            let clock_at = self.clock.next().min(aqm_at);
            self.net.set_horizon(self.clock.horizon(moment.now).min(until));
            if packets_at <= timer_at && packets_at <= clock_at {
                if packets_at > until {
                    standing = RunState::Paused;
                    break;
                }
                moment.now = packets_at;
                moment.before = timer_at.min(clock_at).min(until);
                let reached = self.net.move_packets(due, &mut moment, &mut self.arena);
                if let (true, Some(sender)) = (watched, reached) {
                    if self.net.listener().listen_level() >= ListenLevel::Controls {
                        self.report_sender(sender, moment.now);
                    }
                    if self.measures.trace.is_some() {
                        self.trace(sender, moment.now);
                    }
                    if self.stops_at_acks && self.is_acked(sender) {
                        moment.events += 1;
                        standing = RunState::Acked;
                        break;
                    }
                }
            } else if timer_at.min(clock_at) > until {
                standing = RunState::Paused;
                break;
            } else if timer_at <= clock_at {
                moment.now = timer_at;
                self.on_timer(slot as u32, timer_at)?;
            } else if aqm_at < self.clock.next() {
                moment.now = aqm_at;
                self.net.on_aqm_timer();
            } else {
                moment.now = clock_at;
                self.tick(clock_at)?;
                if self.queue_over && self.lines_left == 0 {
                    moment.events += 1;
                    standing = RunState::Over;
                    break;
                }
            }
            moment.events += 1;
        }
        self.now = moment.now;
        self.events += moment.events;
        Ok(standing)
    }

    fn time(&self) -> Instant {
        self.now
    }

    fn count_events(&self) -> u64 {
        self.events
    }

    fn config(&self) -> &RunConfig {
        &self.config
    }

    fn allow_changes(&mut self) {
        self.is_changeable = true;
        self.measures.together.expect_ends();
    }

    fn change(&mut self, change: &Change, now: Instant) -> Result<(), ParamError> {
        self.make_change(change, now)
    }

    fn stop_at_acks(&mut self, stops: bool) {
        self.stops_at_acks = stops;
    }

    fn has_acks(&self, flow: usize) -> bool {
        self.is_acked(flow as u32)
    }

    fn observe(&mut self, flow: usize) -> Option<FlowObservation> {
        self.observe_flow(flow)
    }

    fn view_hops(&self) -> Vec<HopView> {
        Engine::view_hops(self)
    }

    fn view_controls(&self) -> Vec<ControlView> {
        Engine::view_controls(self)
    }

    fn view(&self) -> View {
        let view = |(_, endpoint): (u32, &Endpoint)| {
            let SeriesView { payload, sender, .. } = endpoint.transport.series_view();
            EndpointView { number: endpoint.number, class: endpoint.class, payload, sender: sender.unwrap_or_default() }
        };
        let there = self.arena.iter().filter(|(_, one)| !one.is_vacant());
        let Bottleneck { aqm, log, .. } = self.net.bottleneck();
        View {
            now: self.now,
            events: self.events,
            queued_packets: aqm.packets() as u64,
            queued_bytes: aqm.bytes(),
            queue: log.counters.queue,
            endpoints: there.map(view).collect(),
        }
    }

    fn fork(&self, shared: &mut SharedCopies) -> Result<Box<dyn Run>, CannotFork> {
        Ok(Box::new(self.copy(shared)?))
    }

    fn finish(mut self: Box<Self>) -> Result<Outcome, RunError> {
        self.check_conservation()?;
        self.finish_apps();
        let Engine { config, classes, measures, events, arena, net, .. } = *self;
        // not in memory together with the tables
        drop((arena, net));
        Ok(outcome(measures, &config, &classes, events))
    }
}

/// Reports to the listener for frames that the slot belongs to this flow of this line.
#[inline]
fn report_flow_start<N: Topology>(
    net: &mut N,
    slot: u32,
    (number, line): (u32, u32),
    key: FlowKey,
    back_ecn: BackEcn,
    ends: &Transport,
) {
    if net.listener().listen_level() < ListenLevel::Frames {
        return;
    }
    let DelayLine { delay, up, ahead, .. } = net.lines().all[line as usize];
    let behind = if up { delay / 2 } else { Duration::ZERO };
    let beginning = FlowStart { number, ahead, behind, key, up, back_ecn, protocol: ends.protocol() };
    net.listener().on_flow_start(slot, &beginning);
}

#[cfg(test)]
mod tests;
