//! The users of applications, and the endpoints through which they write and hear.
//!
//! A connection is two endpoints, one for each way, with its own handshake, acknowledgements and congestion control. Both open at the first write. A
//! user of datagrams is one endpoint for each way. The state machine of an application runs on the time of the run: what a
//! receiver gets is reported when it is there, and a sender writes on its own clock, which runs [ahead](super). The timer of a user is
//! that of its first endpoint.

use super::app_stream::AppStream;
use super::connection::Connection;
use super::datagram_flow::DatagramFlow;
use super::delay_lines::DelayLine;
use super::endpoint::{Arena, Endpoint, Origin};
use super::setup::{app_key, build_stages, line_of};
use super::tcp::Tcp;
use super::topology::Topology;
use super::transport::Transport;
use super::Engine;
use crate::config::{AppConfig, Route};
use crate::flow::{FlowResult, Samples};
use dumbbell_core::app::{AnyApp, AppContext, AppKind, Load, StreamApp, StreamArrival, StreamDirection, StreamOutlet};
use dumbbell_core::cc::CcContext;
use dumbbell_core::packet::FlowKey;
use dumbbell_core::protocol::Protocol;
use dumbbell_core::tcp::sender::{Application, PieceWrites};
use dumbbell_core::units::{Duration, Instant};
use dumbbell_measure::apps::AppMeasures;
use std::sync::Arc;

/// A user of an application.
pub struct AppUser {
    /// Application of the user, if it has streams.
    streams: Option<Box<dyn StreamApp>>,
    /// Slot of its first endpoint: the responses of connection 0. Then come its requests, and the other connections.
    first: u32,
    /// When nothing new begins any more.
    stop: Instant,
}

/// Where a user writes at one instant.
struct UserOutlet<'a> {
    arena: &'a mut Arena,
    lines: &'a [DelayLine],
    measures: &'a mut AppMeasures,
    app: u32,
    first: u32,
    now: Instant,
}

impl UserOutlet<'_> {
    /// The connection of `slot` opens, if it has not.
    fn open(&mut self, slot: u32) {
        let endpoint = self.arena.get_mut(slot);
        if endpoint.start == Instant::NEVER {
            endpoint.start = self.now.saturating_add(self.lines[endpoint.line as usize].ahead);
            let start = endpoint.start;
            self.arena.timer_not_after(slot, start);
        }
    }
}

impl StreamOutlet for UserOutlet<'_> {
    fn write(&mut self, connection: usize, way: StreamDirection, bytes: u64) {
        let pair = self.first + 2 * connection as u32;
        StreamDirection::ALL.iter().for_each(|each| self.open(pair + each.index() as u32));
        let slot = pair + way.index() as u32;
        let endpoint = self.arena.get_mut(slot);
        let at = self.now.saturating_add(self.lines[endpoint.line as usize].ahead);
        if let Transport::Stream(stream) = &mut endpoint.transport {
            stream.tcp.sender.write_at(at, bytes);
        }
        self.arena.timer_not_after(slot, at);
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
                    for _ in 0..streams.connections() {
                        for way in StreamDirection::ALL {
                            self.add_stream(one, app as u32, way);
                        }
                    }
                    streams.start(start);
                    self.apps.push(AppUser { streams: Some(streams), first, stop });
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

    /// Adds both ways of an application of datagrams, which starts and stops at these times.
    fn add_datagrams(&mut self, one: &AppConfig, app: usize, protocols: [Box<dyn Protocol>; 2], times: (Instant, Instant)) {
        let first = self.next_number;
        for (way, protocol) in StreamDirection::ALL.into_iter().zip(protocols) {
            let flow = DatagramFlow::new(self.next_number, protocol, false, one.params.base_rtt, None);
            self.add_app_endpoint(one, app as u32, way, Transport::Datagrams(Box::new(flow)), times);
        }
        self.apps.push(AppUser { streams: None, first, stop: Instant::NEVER });
    }

    /// Adds one way of a connection that opens when something is written.
    fn add_stream(&mut self, one: &AppConfig, app: u32, way: StreamDirection) {
        let Some(cc) = &one.cc else { return };
        let slot = self.next_number;
        let cc = cc.build(&CcContext { seed: self.config.run.seed, flow: u64::from(slot) });
        let ecn = one.params.ecn.unwrap_or(self.host.ecn);
        let written = Application::Written(Box::<PieceWrites>::default());
        let tcp = Tcp::new(slot, cc, &self.host, (ecn, one.params.ecn_echo), written, false);
        let behind = if one.route(way).up { one.params.base_rtt / 2 } else { Duration::ZERO };
        let transport = Transport::Stream(Box::new(AppStream::new(tcp, behind)));
        self.add_app_endpoint(one, app, way, transport, (Instant::NEVER, Instant::NEVER));
    }

    /// Adds one way of a user, which starts and stops at these times.
    fn add_app_endpoint(
        &mut self,
        one: &AppConfig,
        app: u32,
        way: StreamDirection,
        transport: Transport,
        (start, stop): (Instant, Instant),
    ) {
        let number = self.next_number;
        self.next_number += 1;
        let line = line_of(&self.net.lines().all, one.params.base_rtt, one.route(way).up);
        let ahead = self.net.lines().all[line as usize].ahead;
        let class = self.classes.of_app[app as usize][way.index()];
        let stages = build_stages(&one.stages[way.index()], self.config.run.seed, number as usize);
        let times = (start.saturating_add(ahead), stop.saturating_add(ahead));
        let slot = self.arena.add(|_| {
            let endpoint = Endpoint::new(transport, Origin::App { app }, number, class, line, times.0, times.1);
            Endpoint { stages, ..endpoint }
        });
        self.join(slot);
        self.plan_timer(slot);
    }

    /// Which way the endpoint in `slot` of user `app` sends.
    fn way_of(&self, app: u32, slot: u32) -> StreamDirection {
        StreamDirection::ALL[((slot - self.apps[app as usize].first) % 2) as usize]
    }

    /// Returns the route and the identity of the endpoint in `slot` of user `app`.
    pub(super) fn app_route_and_key(&self, app: u32, slot: u32) -> (Arc<Route>, FlowKey) {
        let (one, way) = (&self.config.apps[app as usize], self.way_of(app, slot));
        (Arc::clone(one.route(way)), app_key(one, slot - way.index() as u32, way))
    }

    /// The timer of the endpoint in `slot` has fired: user `app` hears what has arrived there, and does what is due.
    pub(super) fn serve_user(&mut self, app: u32, slot: u32, now: Instant) {
        let way = self.way_of(app, slot);
        let Engine { apps, arena, net, measures, .. } = self;
        arena.get_mut(slot).look_at = Instant::NEVER;
        let AppUser { streams: Some(streams), first, stop } = &mut apps[app as usize] else { return };
        let connection = ((slot - *first) / 2) as usize;
        let lines = &net.lines().all;
        let mut outlet = UserOutlet { arena, lines, measures: &mut measures.apps, app, first: *first, now };
        while let Some(bytes) = take_arrival(outlet.arena.get_mut(slot), now) {
            streams.on_arrival(StreamArrival { connection, way, bytes }, now, &mut outlet);
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

    /// User `app` is called when it next has something to do.
    fn plan_user(&mut self, app: usize) {
        let AppUser { streams: Some(streams), first, stop } = &self.apps[app] else { return };
        let (slot, time) = (*first, streams.next_timer().min(*stop));
        self.arena.get_mut(slot).look_at = time;
        self.plan_timer(slot);
    }

    /// The measured time begins: what streams measured so far does not count.
    pub(super) fn begin_apps(&mut self) {
        self.apps.iter_mut().filter_map(|user| user.streams.as_mut()).for_each(|streams| streams.forget());
    }

    /// The measured time of the endpoint in `slot` of a user begins.
    pub(super) fn begin_app_endpoint(&mut self, slot: u32, now: Instant) {
        let number = slot as usize - self.count_listed();
        let counters = self.net.of_flow(slot);
        let endpoint = self.arena.get_mut(slot);
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

    /// The run is over: takes what the applications of streams measured.
    pub(super) fn finish_apps(&mut self) {
        for (app, user) in self.apps.iter().enumerate() {
            if let (Some(streams), AppKind::Streams(way)) = (&user.streams, self.config.apps[app].spec.kind()) {
                self.measures.apps.set_figures(app as u32, way, streams.figures());
            }
        }
    }
}

/// Takes the oldest end of a write that has arrived at `endpoint` by `now`.
fn take_arrival(endpoint: &mut Endpoint, now: Instant) -> Option<u64> {
    match &mut endpoint.transport {
        Transport::Stream(stream) => stream.take_arrival(now),
        _ => None,
    }
}
