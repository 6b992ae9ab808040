//! The users of applications, and the endpoints through which they write and hear.
//!
//! A connection is two endpoints, one for each way, with its own acknowledgements and congestion control. It opens at the first write, by a [handshake](TcpWay). Those that a user has for the whole run are there from the start;
//! others get slots when they open, which are free again when they are closed and nothing is left of them. A
//! user of datagrams is one endpoint for each way. The state machine of an application runs on the time of the run: what a
//! receiver gets is reported when it is there, and a sender writes on its own clock, which runs [ahead](super). The timer of a user is
//! that of its first endpoint.

use super::app_stack::{StackConnection, StackConnections, StreamEvent};
use super::app_stream::{AppStream, TcpWay};
use super::connection::Connection;
use super::datagram_flow::DatagramFlow;
use super::delay_lines::{DelayLine, ReturnPath};
use super::endpoint::{Arena, Endpoint, Origin};
use super::setup::{app_key, build_stages, line_of};
use super::stack_way::StackWay;
use super::stream_place::StreamPlace;
use super::tcp::Tcp;
use super::topology::Topology;
use super::transport::Transport;
use super::Engine;
use crate::config::{AppConfig, Classes, Route, RunConfig};
use crate::extensions::CarrierSpec;
use crate::flow::{FlowResult, Samples};
use dumbbell_core::app::{
    AnyApp, AppContext, AppKind, ExchangeArrival, Load, StreamApp, StreamArrival, StreamDirection, StreamOutlet,
};
use dumbbell_core::cc::{AnyCc, CcContext};
use dumbbell_core::fork::{CannotFork, Fork, SharedCopies};
use dumbbell_core::packet::{FlowKey, UDP_HEADERS};
use dumbbell_core::protocol::{Protocol, ProtocolContext};
use dumbbell_core::stream_transport::StreamNumber;
use dumbbell_core::tcp::host::HostParams;
use dumbbell_core::tcp::sender::{Application, PieceWrites, Sender};
use dumbbell_core::units::{Duration, Instant};
use dumbbell_measure::apps::AppMeasures;
use std::sync::Arc;

/// A user of an application.
pub struct AppUser {
    /// Application of the user, if it has streams.
    streams: Option<StreamUser>,
    /// Slot of its first endpoint, whose timer is that of the user. With streams, it is the responses of the first connection.
    first: u32,
    /// When nothing new begins any more.
    stop: Instant,
}

/// An application of streams, and its connections.
struct StreamUser {
    streams: Box<dyn StreamApp>,
    /// Slots of open connections, responses and requests, by number.
    open: Vec<Option<[u32; 2]>>,
    /// Connections over a stack.
    stacks: StackConnections,
}

dumbbell_core::fork_fields! { AppUser { streams; first, stop } }
dumbbell_core::fork_fields! { StreamUser { streams, stacks; open } }

/// The parts of a run that endpoints of connections are made of.
struct StreamFactory<'a> {
    config: &'a RunConfig,
    classes: &'a Classes,
    host: &'a Arc<HostParams>,
    next_number: &'a mut u32,
}

impl StreamFactory<'_> {
    /// Adds both ways of a connection of user `app` that opens when something is written, and returns their slots.
    fn add_connection(&mut self, app: u32, connection: u32, is_temporary: bool, net: (&mut Arena, &mut [DelayLine])) -> [u32; 2] {
        let (arena, lines) = net;
        let pair = *self.next_number;
        StreamDirection::ALL.map(|way| {
            let place = StreamPlace { connection: Some(connection), way, pair, is_temporary };
            self.add_stream(app, place, arena, lines)
        })
    }

    /// Adds one way of a connection.
    fn add_stream(&mut self, app: u32, place: StreamPlace, arena: &mut Arena, lines: &mut [DelayLine]) -> u32 {
        let number = *self.next_number;
        *self.next_number = number.wrapping_add(1);
        let (one, seed) = (&self.config.apps[app as usize], self.config.run.seed);
        // the slots that others have left are those of temporary connections and short flows
        let reused = if place.is_temporary { arena.reuse() } else { None };
        let slot = reused.unwrap_or(arena.count_slots());
        let behind = if one.route(place.way).up { one.params.base_rtt / 2 } else { Duration::ZERO };
        let stream = match &one.cc {
            Some(CarrierSpec::Stack(_)) => AppStream::Stack(StackWay::new(slot, place, behind)),
            carrier => {
                let cc = match carrier {
                    Some(CarrierSpec::Tcp(cc)) => cc.build(&CcContext { seed, flow: u64::from(number) }),
                    _ => AnyCc::without_ecn(),
                };
                let ecn = one.params.ecn.unwrap_or(self.host.ecn);
                let written = Application::Written(Box::<PieceWrites>::default());
                let tcp = Tcp::new(slot, cc, self.host, (ecn, one.params.ecn_echo), written, false);
                AppStream::Tcp(TcpWay::new(tcp, place, behind))
            }
        };
        let transport = Transport::Stream(Box::new(stream));
        let endpoint =
            self.make_endpoint(one, app, place.way, (number, slot, lines), transport, (Instant::NEVER, Instant::NEVER));
        match reused {
            Some(free) => *arena.get_mut(free) = endpoint,
            None => {
                arena.add(|_| endpoint);
            }
        }
        slot
    }

    /// Makes endpoint `number` for a slot, one way of a user, which starts and stops at these times, and becomes a member of its line.
    fn make_endpoint(
        &self,
        one: &AppConfig,
        app: u32,
        way: StreamDirection,
        (number, slot, lines): (u32, u32, &mut [DelayLine]),
        transport: Transport,
        (start, stop): (Instant, Instant),
    ) -> Endpoint {
        let line = line_of(lines, one.params.base_rtt, one.route(way).up);
        let DelayLine { ahead, members, .. } = &mut lines[line as usize];
        let class = self.classes.of_app[app as usize][way.index()];
        let stages = build_stages(&one.stages[way.index()], self.config.run.seed, number as usize);
        let times = (start.saturating_add(*ahead), stop.saturating_add(*ahead));
        let member = members.len() as u32;
        members.push(slot);
        Endpoint { stages, member, ..Endpoint::new(transport, Origin::App { app }, number, class, line, times.0, times.1) }
    }
}

/// Where a user writes at one instant.
struct UserOutlet<'a> {
    factory: StreamFactory<'a>,
    arena: &'a mut Arena,
    lines: &'a mut [DelayLine],
    measures: &'a mut AppMeasures,
    app: u32,
    open: &'a mut Vec<Option<[u32; 2]>>,
    stacks: &'a mut StackConnections,
    now: Instant,
}

impl UserOutlet<'_> {
    /// Returns the slots of a connection, which opens if it has not.
    fn open_slots(&mut self, connection: usize) -> [u32; 2] {
        if self.open.len() <= connection {
            self.open.resize(connection + 1, None);
        }
        let UserOutlet { factory, arena, lines, app, open, .. } = self;
        let slots = *open[connection]
            .get_or_insert_with(|| factory.add_connection(*app, connection as u32, true, (&mut **arena, &mut **lines)));
        let has_handshake = self.tcp_way(slots[0]).is_some();
        let mut opens = false;
        for (slot, way) in slots.into_iter().zip(StreamDirection::ALL) {
            // the responses begin when the server has the handshake
            if self.arena.get(slot).start == Instant::NEVER && !(has_handshake && way == StreamDirection::Response) {
                self.start_sender(slot);
                opens = true;
            }
        }
        if opens {
            self.connect_stack(connection, slots);
        }
        slots
    }

    /// Lets the sender in `slot` begin now.
    fn start_sender(&mut self, slot: u32) {
        let at = self.sender_time(slot);
        self.arena.get_mut(slot).start = at;
        self.arena.timer_not_after(slot, at);
    }

    /// The requests in `slot` may have brought a handshake further, which the responses have not: the client has the SYN-ACK, or the server has the client's answer. Returns when the client had it, if that is new.
    fn take_handshake(&mut self, slot: u32, responses: u32) -> Option<Instant> {
        let ahead = self.lines[self.arena.get(slot).line as usize].ahead;
        let now = self.now;
        let way = self.tcp_way(slot)?;
        let (connected, accepted) = (way.take_connected(), way.take_accepted(now));
        if connected.is_some() {
            let rtt = way.tcp.sender.conn.rtt().srtt_us();
            let agrees_on_ecn = way.tcp.receiver.agrees_on_ecn();
            self.tcp_way(responses)?.connect(rtt, agrees_on_ecn, now);
        }
        if let Some(handshake) = accepted {
            self.tcp_way(responses)?.accept(handshake);
            self.start_sender(responses);
        }
        connected.map(|at| at - ahead)
    }

    /// The client of a connection that opens begins to connect, if it has a stack.
    fn connect_stack(&mut self, connection: usize, slots: [u32; 2]) {
        let StreamFactory { config, host, .. } = &self.factory;
        let one = &config.apps[self.app as usize];
        let Some(CarrierSpec::Stack(stack)) = &one.cc else { return };
        let context = ProtocolContext {
            seed: config.run.seed,
            number: u64::from(self.arena.get(slots[0]).number),
            payload: host.full_frame() - UDP_HEADERS,
            ecn: one.params.ecn.unwrap_or(host.ecn),
            size: None,
            app_rate: None,
        };
        let mut made = Box::new(StackConnection::new(stack.build(&context), slots));
        made.transport.connect(self.now);
        made.settle(self.arena, self.lines, self.now);
        self.stacks.add(connection, made);
    }

    /// Writes into a stream of a connection, which is open; returns false if it has no stack.
    fn write_to_stack(&mut self, connection: usize, way: StreamDirection, stream: StreamNumber, bytes: u64) -> bool {
        let Some(stack) = self.stacks.get_mut(connection) else { return false };
        stack.write(way, stream, bytes, self.now);
        stack.settle(self.arena, self.lines, self.now);
        true
    }

    /// Returns the time of now on the clock of the sender in `slot`.
    fn sender_time(&self, slot: u32) -> Instant {
        self.now.saturating_add(self.lines[self.arena.get(slot).line as usize].ahead)
    }

    /// Returns the way over TCP in `slot`, if it is one.
    fn tcp_way(&mut self, slot: u32) -> Option<&mut TcpWay> {
        match &mut self.arena.get_mut(slot).transport {
            Transport::Stream(stream) => match &mut **stream {
                AppStream::Tcp(way) => Some(way),
                AppStream::Stack(_) => None,
            },
            _ => None,
        }
    }

    /// Takes the oldest end of a write that has arrived at the endpoint in `slot`.
    fn take_arrival(&mut self, slot: u32) -> Option<u64> {
        let now = self.now;
        self.tcp_way(slot)?.take_arrival(now)
    }

    /// Lets the sender in `slot` do something now.
    fn call_sender(&mut self, slot: u32, act: impl FnOnce(&mut Sender, Instant)) {
        let at = self.sender_time(slot);
        if let Some(way) = self.tcp_way(slot) {
            act(&mut way.tcp.sender, at);
        }
        self.arena.timer_not_after(slot, at);
    }
}

impl StreamOutlet for UserOutlet<'_> {
    fn write(&mut self, connection: usize, way: StreamDirection, bytes: u64) {
        let slot = self.open_slots(connection)[way.index()];
        if !self.write_to_stack(connection, way, StreamNumber::OneWay, bytes) {
            self.call_sender(slot, |sender, at| sender.write_at(at, bytes));
        }
    }

    fn write_exchange(&mut self, connection: usize, exchange: u64, way: StreamDirection, bytes: u64) {
        self.open_slots(connection);
        if !self.write_to_stack(connection, way, StreamNumber::Exchange(exchange), bytes) {
            self.write(connection, way, bytes);
        }
    }

    fn fill(&mut self, connection: usize, way: StreamDirection) {
        let slot = self.open_slots(connection)[way.index()];
        self.call_sender(slot, Sender::fill_at);
    }

    fn close(&mut self, connection: usize) {
        let Some(slots) = self.open.get_mut(connection).and_then(Option::take) else { return };
        for slot in slots {
            let at = self.sender_time(slot);
            let endpoint = self.arena.get_mut(slot);
            endpoint.stop = at;
            if !endpoint.transport.has_begun() {
                endpoint.start = Instant::NEVER;
            }
            if let Transport::Stream(stream) = &mut endpoint.transport {
                stream.close();
            }
            self.arena.timer_not_after(slot, at);
        }
        self.stacks.close(connection, self.arena, self.lines, self.now);
    }

    fn count_received(&self, connection: usize, way: StreamDirection) -> u64 {
        match self.open.get(connection) {
            Some(Some(slots)) => match &self.arena.get(slots[way.index()]).transport {
                Transport::Stream(stream) => stream.count_received(),
                _ => 0,
            },
            _ => 0,
        }
    }

    fn begin_load(&mut self) {
        self.measures.begin_load(self.app, self.now);
    }

    fn finish_load(&mut self, load: Load) {
        self.measures.finish_load(self.app, load);
    }
}

impl<N: Topology> Engine<N> {
    /// Puts the endpoints of every user of an application into their slots.
    pub(super) fn list_apps(&mut self) {
        let config = Arc::clone(&self.config);
        let seed = config.run.seed;
        for (app, one) in config.apps.iter().enumerate() {
            let start = one.start.draw(seed, "app start", app);
            let stop = one.params.stop.unwrap_or(Instant::NEVER);
            self.measures.apps.users[app].start = start;
            let first = self.next_number;
            match one.spec.build(&AppContext { seed, number: app as u64 }) {
                AnyApp::Streams(mut streams) => {
                    let kept = streams.connections();
                    let mut open = Vec::with_capacity(kept);
                    // without any, one that stays closed has the timer of the user
                    for connection in 0..kept.max(1) {
                        let (mut factory, arena, lines) = self.stream_factory();
                        open.push(Some(factory.add_connection(app as u32, connection as u32, false, (arena, lines))));
                    }
                    open.truncate(kept);
                    streams.start(start);
                    let streams = Some(StreamUser { streams, open, stacks: StackConnections::default() });
                    self.apps.push(AppUser { streams, first, stop });
                    self.plan_user(app);
                }
                AnyApp::Datagrams(mut protocols) => {
                    let control = protocols[0].take_control();
                    self.add_datagrams(one, app, protocols, (start, stop));
                    if let Some(control) = control {
                        self.add_control(one, control, (start, stop));
                    }
                }
                AnyApp::Media(protocol) => {
                    let flow = DatagramFlow::new(self.next_number, protocol, false, one.params.base_rtt, None).with_reports();
                    let transport = Transport::Datagrams(Box::new(flow));
                    self.add_app_endpoint(one, app as u32, StreamDirection::Response, transport, (start, stop));
                    self.apps.push(AppUser { streams: None, first, stop: Instant::NEVER });
                }
            }
        }
    }

    /// Returns copies of the users.
    pub(super) fn copy_apps(&self, shared: &mut SharedCopies) -> Result<Vec<AppUser>, CannotFork> {
        let copy = |(app, user): (usize, &AppUser)| user.fork(shared).map_err(|refused| refused.name_part(|| self.name_app(app)));
        self.apps.iter().enumerate().map(copy).collect()
    }

    /// Names what a program may have brought along for user `app`.
    pub(super) fn name_app(&self, app: usize) -> String {
        let one = &self.config.apps[app];
        match &one.cc {
            Some(CarrierSpec::Stack(stack)) => format!("application {app} ({}): the endpoint {}", one.spec.name(), stack.name()),
            Some(CarrierSpec::Tcp(cc)) => {
                format!("application {app} ({}): the congestion control {}", one.spec.name(), cc.name())
            }
            None => format!("application {app} ({}): its congestion control", one.spec.name()),
        }
    }

    /// Adds both ways of an application of datagrams, which starts and stops at these times.
    fn add_datagrams(&mut self, one: &AppConfig, app: usize, protocols: [Box<dyn Protocol>; 2], times: (Instant, Instant)) {
        let first = self.next_number;
        for (way, protocol) in StreamDirection::ALL.into_iter().zip(protocols) {
            let flow = DatagramFlow::new(self.next_number, protocol, false, one.params.base_rtt, None);
            self.add_app_endpoint(one, app as u32, way, Transport::Datagrams(Box::new(flow)), times);
        }
        self.apps.push(AppUser { streams: None, first, stop: Instant::NEVER });
    }

    /// Adds one way of a user, which starts and stops at these times.
    fn add_app_endpoint(
        &mut self,
        one: &AppConfig,
        app: u32,
        way: StreamDirection,
        transport: Transport,
        times: (Instant, Instant),
    ) {
        let number = self.next_number;
        self.next_number += 1;
        let (factory, arena, lines) = self.stream_factory();
        let endpoint = factory.make_endpoint(one, app, way, (number, number, lines), transport, times);
        let slot = arena.add(|_| endpoint);
        self.plan_timer(slot);
    }

    /// Returns what makes endpoints of connections, with the places where they are added.
    fn stream_factory(&mut self) -> (StreamFactory<'_>, &mut Arena, &mut [DelayLine]) {
        let Engine { config, classes, host, next_number, arena, net, .. } = self;
        (StreamFactory { config, classes, host, next_number }, arena, &mut net.lines_mut().all)
    }

    /// Which way the endpoint in `slot` of user `app` sends.
    fn way_of(&self, app: u32, slot: u32) -> StreamDirection {
        match &self.arena.get(slot).transport {
            Transport::Stream(stream) => stream.place().way,
            _ => StreamDirection::ALL[((slot - self.apps[app as usize].first) % 2) as usize],
        }
    }

    /// Returns the route and the identity of the endpoint in `slot` of user `app`.
    pub(super) fn app_route_and_key(&self, app: u32, slot: u32) -> (Arc<Route>, FlowKey) {
        let (one, way) = (&self.config.apps[app as usize], self.way_of(app, slot));
        let pair = match &self.arena.get(slot).transport {
            Transport::Stream(stream) => stream.place().pair,
            _ => slot - way.index() as u32,
        };
        (Arc::clone(one.route(way)), app_key(one, pair, way))
    }

    /// The timer of the endpoint in `slot` has fired: user `app` hears what has arrived there, and does what is due.
    pub(super) fn serve_user(&mut self, app: u32, slot: u32, now: Instant) {
        let Transport::Stream(stream) = &self.arena.get(slot).transport else {
            self.arena.get_mut(slot).look_at = Instant::NEVER;
            return;
        };
        let StreamPlace { connection, way, .. } = *stream.place();
        if matches!(**stream, AppStream::Stack(_)) {
            self.report_stack_payloads(app, slot);
        }
        let Engine { apps, arena, net, measures, config, classes, host, next_number, .. } = self;
        let AppUser { streams: Some(StreamUser { streams, open, stacks }), first, stop } = &mut apps[app as usize] else {
            return;
        };
        if connection.is_none() && slot != *first {
            stacks.advance_closing(slot, arena, &net.lines().all, now);
            let endpoint = arena.get_mut(slot);
            if !endpoint.transport.is_done() {
                endpoint.look_at = Instant::NEVER;
            }
            return;
        }
        arena.get_mut(slot).look_at = Instant::NEVER;
        let factory = StreamFactory { config, classes, host, next_number };
        let lines = &mut net.lines_mut().all;
        let mut outlet = UserOutlet { factory, arena, lines, measures: &mut measures.apps, app, open, stacks, now };
        if let Some(number) = connection {
            outlet.stacks.advance(number as usize, outlet.arena, outlet.lines, now);
            while let Some(event) = outlet.stacks.take_event(number as usize) {
                match event {
                    StreamEvent::Bytes(from, bytes) => {
                        let arrival = StreamArrival { connection: number as usize, way: from, bytes };
                        streams.on_arrival(arrival, now, &mut outlet);
                    }
                    StreamEvent::Exchange(from, exchange) => {
                        let arrival = ExchangeArrival { connection: number as usize, exchange, way: from };
                        streams.on_exchange(arrival, now, &mut outlet);
                    }
                }
            }
            if let (StreamDirection::Request, Some(Some([responses, _]))) = (way, outlet.open.get(number as usize)) {
                let responses = *responses;
                if let Some(at) = outlet.take_handshake(slot, responses) {
                    streams.on_connected(number as usize, at, &mut outlet);
                }
            }
            while let Some(bytes) = outlet.take_arrival(slot) {
                streams.on_arrival(StreamArrival { connection: number as usize, way, bytes }, now, &mut outlet);
            }
        }
        if *stop <= now {
            *stop = Instant::NEVER;
            streams.stop(now);
        }
        if streams.next_timer() <= now {
            streams.on_timer(now, &mut outlet);
        }
        self.plan_user(app as usize);
    }

    /// Reports the payloads of the datagrams that the way of a stack in `slot` has sent at this instant, if a listener wants them.
    fn report_stack_payloads(&mut self, app: u32, slot: u32) {
        let Engine { apps, arena, net, .. } = self;
        let mut back = net.back();
        let Some((listener, _)) = back.frame_listener() else { return };
        let (Some(way), Some(StreamUser { stacks, .. })) = (arena.get_mut(slot).stack_way(), &apps[app as usize].streams) else {
            return;
        };
        let direction = way.place.way;
        let Some(stack) = stacks.find(slot) else { return };
        for number in way.take_fresh() {
            if let Some(bytes) = stack.transport.payload(direction, number) {
                listener.on_payload(slot, number, false, bytes);
            }
        }
    }

    /// User `app` is called when it next has something to do.
    fn plan_user(&mut self, app: usize) {
        let AppUser { streams: Some(StreamUser { streams, .. }), first, stop } = &self.apps[app] else { return };
        let (slot, time) = (*first, streams.next_timer().min(*stop));
        self.arena.get_mut(slot).look_at = time;
        self.plan_timer(slot);
    }

    /// The measured time begins `now`: what streams measured so far does not count.
    pub(super) fn begin_apps(&mut self, now: Instant) {
        self.apps.iter_mut().filter_map(|user| user.streams.as_mut()).for_each(|user| user.streams.forget(now));
    }

    /// The measured time of the endpoint in `slot` of a user begins.
    pub(super) fn begin_app_endpoint(&mut self, slot: u32, now: Instant) {
        let number = slot as usize - self.count_listed();
        let counters = self.net.of_flow(slot);
        let endpoint = self.arena.get_mut(slot);
        if matches!(endpoint.transport, Transport::Stream(_)) && !endpoint.transport.has_begun() {
            return;
        }
        self.measures.apps.begin_endpoint(number, endpoint.result(&counters, now), now);
        endpoint.samples = Samples::default();
        endpoint.transport.forget_samples();
        if let Transport::Datagrams(flow) = &mut endpoint.transport {
            flow.begin_figures(now);
        }
    }

    /// The measured time of the endpoint in `slot` of user `app` is over. One that never opened is not a member of its class.
    pub(super) fn finish_app_endpoint(&mut self, app: u32, slot: u32, now: Instant) {
        let way = self.way_of(app, slot);
        let number = slot as usize - self.count_listed();
        let counters = self.net.of_flow(slot);
        let Engine { arena, measures, .. } = self;
        let endpoint = arena.get_mut(slot);
        if !endpoint.transport.has_begun() {
            return;
        }
        let transit = endpoint.transport.take_transit();
        let result = FlowResult { transit, ..endpoint.result(&counters, now) };
        let transport = &endpoint.transport;
        let figures = |fate| match transport {
            Transport::Datagrams(flow) => flow.figures(fate, now),
            _ => Vec::new(),
        };
        let result = measures.apps.finish_endpoint((number, app, way), result, figures);
        measures.short_totals[usize::from(endpoint.class)].add(&result);
    }

    /// The endpoint in `slot` of a closed connection of user `app` is free from now on. What it counted in the measured time is kept.
    pub(super) fn free_app_endpoint(&mut self, app: u32, slot: u32, now: Instant) {
        let line = &self.net.lines().all[self.arena.get(slot).line as usize];
        if !line.over && now.saturating_sub(line.ahead) >= self.config.measured_from() {
            self.finish_app_endpoint(app, slot, now);
        }
        self.measures.apps.forget_endpoint(slot as usize - self.count_listed());
    }

    /// The run is over: takes what the applications of streams measured.
    pub(super) fn finish_apps(&mut self) {
        let end = self.config.end();
        for (app, user) in self.apps.iter_mut().enumerate() {
            if let (Some(user), AppKind::Streams(way)) = (&mut user.streams, self.config.apps[app].spec.kind()) {
                self.measures.apps.set_figures(app as u32, way, user.streams.figures(end));
            }
        }
    }
}
