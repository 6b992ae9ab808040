//! A user who loads one web page after the other over connections that persist.
//!
//! The first object of a page, the page itself, is requested alone. When all of it is there, the others are, over all connections: each
//! connection carries one request at a time, or with `multiplexed` all of its requests at once, which the server answers in turn. When all
//! objects are there, the page is loaded, and the user thinks before the next one. The server answers at once.

use super::measure::{quantile_s, Measure, MeasureKind};
use super::{AnyApp, AppContext, AppKind, ExchangeArrival, Load, StreamApp, StreamArrival, StreamDirection, StreamOutlet};
use crate::histogram::Histogram;
use crate::params;
use crate::rng::Rng;
use crate::traffic::{exponential_gap, FlowSizes, SizeSource};
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// Name in configurations.
pub const NAME: &str = "pages";
/// Title of the application.
pub const TITLE: &str = "A user who loads one web page after the other over connections that persist";
/// Where it comes from.
pub const SOURCE: &str = "RFC 7928, section 7.2";
/// Kind of its traffic: pages go to the client.
pub const KIND: AppKind = AppKind::Streams(StreamDirection::Response);

params! {
    /// Parameters of pages.
    pub struct Params {
        /// Objects of a page, the page itself among them.
        objects: u32 = 50, unit "objects", range 1_u32, 10_000_u32, source "RFC 7928 section 7.2: 50 objects or more";
        /// Payload of each object: a size, { pareto = SHAPE, min = SIZE, max = SIZE }, or { csv = FILE } with a size in bytes and a weight per line.
        size: FlowSizes = FlowSizes::Pareto { shape: 0.9, min: 1_000, max: 100_000 }, unit "", source "RFC 7928 section 7.2: 1 kB or more; the shape is that of De Schepper et al. 2015";
        /// Connections over which objects are requested.
        connections: u32 = 6, unit "connections", range 1_u32, 100_u32, source "RFC 7928 section 7.2: 6 parallel connections";
        /// All objects of a connection are requested at once, and sent one after the other. With one connection, as a server of HTTP/2 does
        /// that does not interleave.
        multiplexed: bool = false, unit "", source "RFC 9113 section 5";
        /// Payload of a request.
        request: u32 = 400, unit "bytes", range 1_u32, 1_000_000_u32, source "a request of HTTP with its headers";
        /// Mean time from the end of a page until the next is requested; exponential.
        think: Duration = Duration::ZERO, unit "", range Duration(0), Duration::from_secs(86_400), source "RFC 7928 section 7.2: the next page follows the one before";
    }
}

/// Measures in addition to the load times of pages.
pub static MEASURES: [Measure; 2] = [
    Measure {
        name: "object_p50_s",
        unit: "s",
        label: "time of an object, P50",
        doc: &["Time from the request of an object until all of it was there that 50 % of the objects did not exceed."],
        kind: MeasureKind::Binned,
    },
    Measure {
        name: "object_p95_s",
        unit: "s",
        label: "time of an object, P95",
        doc: &["Time from the request of an object until all of it was there that 95 % of the objects did not exceed."],
        kind: MeasureKind::Binned,
    },
];

/// One connection, at both ends.
#[derive(Clone, Default)]
struct Connection {
    /// Objects that are requested and not there.
    awaited: VecDeque<AwaitedObject>,
    /// Exchanges whose requests the server does not have, and sizes of their objects.
    requested: VecDeque<(u64, u64)>,
    /// Exchanges so far.
    exchanges: u64,
    /// Bytes written so far, and those of requests that the server has answered.
    responses: u64,
    answered: u64,
    requests: u64,
}

/// An object that is requested and not there.
#[derive(Clone)]
struct AwaitedObject {
    exchange: u64,
    since: Instant,
    /// Up to which byte of the responses it reaches, if they come one behind the other.
    end: u64,
}

/// The page that is being loaded.
#[derive(Clone)]
struct Page {
    start: Instant,
    /// Objects that are not requested, and that are not there.
    unrequested: u32,
    missing: u32,
    bytes: u64,
}

/// The user, the browser and the server.
#[derive(Clone)]
struct Browser {
    params: Params,
    sizes: SizeSource,
    size_rng: Rng,
    think_rng: Rng,
    connections: Vec<Connection>,
    page: Option<Page>,
    /// When the next page is requested.
    next: Instant,
    stopped: bool,
    objects: Histogram,
}

/// Streams have segments of the hosts.
pub fn largest_frame(_params: &Params) -> u16 {
    0
}

/// Builds the pages of a user.
pub fn build(params: &Params, context: &AppContext) -> AnyApp {
    AnyApp::Streams(Box::new(Browser {
        sizes: params.size.source(),
        size_rng: context.rng("page sizes"),
        think_rng: context.rng("page thinking"),
        connections: (0..params.connections).map(|_| Connection::default()).collect(),
        params: params.clone(),
        page: None,
        next: Instant::NEVER,
        stopped: false,
        objects: Histogram::default(),
    }))
}

impl Browser {
    /// Requests an object over connection `number`.
    fn request(&mut self, number: usize, now: Instant, outlet: &mut dyn StreamOutlet) {
        let Some(page) = &mut self.page else { return };
        let size = self.sizes.draw(&mut self.size_rng);
        page.unrequested -= 1;
        page.bytes += size;
        let connection = &mut self.connections[number];
        let exchange = connection.exchanges;
        connection.exchanges += 1;
        connection.requested.push_back((exchange, size));
        connection.responses += size;
        connection.awaited.push_back(AwaitedObject { exchange, since: now, end: connection.responses });
        connection.requests += u64::from(self.params.request);
        outlet.write_exchange(number, exchange, StreamDirection::Request, u64::from(self.params.request));
    }

    /// Requests what may be requested once the page itself is there: one object over each connection without a request, or all of them.
    fn request_others(&mut self, now: Instant, outlet: &mut dyn StreamOutlet) {
        let unrequested = |browser: &Browser| browser.page.as_ref().map_or(0, |page| page.unrequested);
        loop {
            let before = unrequested(self);
            for number in 0..self.connections.len() {
                let may_request = self.params.multiplexed || self.connections[number].awaited.is_empty();
                if may_request && unrequested(self) > 0 {
                    self.request(number, now, outlet);
                }
            }
            if unrequested(self) == before || !self.params.multiplexed {
                return;
            }
        }
    }

    /// The server has all requests of connection `number` up to this byte, and answers those that are new.
    fn answer(&mut self, number: usize, bytes: u64, outlet: &mut dyn StreamOutlet) {
        let length = u64::from(self.params.request);
        let connection = &mut self.connections[number];
        while connection.answered + length <= bytes {
            let Some((exchange, size)) = connection.requested.pop_front() else { return };
            connection.answered += length;
            outlet.write_exchange(number, exchange, StreamDirection::Response, size);
        }
    }

    /// The server has the request of an exchange, and answers it.
    fn answer_exchange(&mut self, number: usize, exchange: u64, outlet: &mut dyn StreamOutlet) {
        let requested = &mut self.connections[number].requested;
        let place = requested.iter().position(|&(one, _)| one == exchange);
        if let Some((_, size)) = place.and_then(|place| requested.remove(place)) {
            outlet.write_exchange(number, exchange, StreamDirection::Response, size);
        }
    }

    /// The client has all responses of connection `number` up to this byte.
    fn receive(&mut self, number: usize, bytes: u64, now: Instant, outlet: &mut dyn StreamOutlet) {
        while self.connections[number].awaited.front().is_some_and(|object| object.end <= bytes) {
            self.take_object(number, 0, now);
        }
        self.go_on(now, outlet);
    }

    /// The client has the response of an exchange.
    fn receive_exchange(&mut self, number: usize, exchange: u64, now: Instant, outlet: &mut dyn StreamOutlet) {
        let place = self.connections[number].awaited.iter().position(|object| object.exchange == exchange);
        if let Some(place) = place {
            self.take_object(number, place, now);
            self.go_on(now, outlet);
        }
    }

    /// The object at `place` of those that connection `number` awaits is there.
    fn take_object(&mut self, number: usize, place: usize, now: Instant) {
        let (Some(object), Some(page)) = (self.connections[number].awaited.remove(place), &mut self.page) else { return };
        self.objects.record(now - object.since);
        page.missing -= 1;
    }

    /// Objects have arrived: requests what may be requested, or ends the page.
    fn go_on(&mut self, now: Instant, outlet: &mut dyn StreamOutlet) {
        let Some(page) = &self.page else { return };
        if page.missing > 0 {
            return self.request_others(now, outlet);
        }
        outlet.finish_load(Load { start: page.start, time: now - page.start, bytes: page.bytes });
        self.page = None;
        if !self.stopped {
            let think = exponential_gap(self.params.think, &mut self.think_rng);
            self.next = now.saturating_add(think);
        }
    }
}

impl StreamApp for Browser {
    crate::fork_by_clone!(dyn StreamApp);

    fn connections(&self) -> usize {
        self.connections.len()
    }

    fn start(&mut self, now: Instant) {
        self.next = now;
    }

    fn stop(&mut self, _now: Instant) {
        self.stopped = true;
        self.next = Instant::NEVER;
    }

    fn next_timer(&self) -> Instant {
        self.next
    }

    fn on_timer(&mut self, now: Instant, outlet: &mut dyn StreamOutlet) {
        self.next = Instant::NEVER;
        let objects = self.params.objects;
        self.page = Some(Page { start: now, unrequested: objects, missing: objects, bytes: 0 });
        outlet.begin_load();
        self.request(0, now, outlet);
    }

    fn on_arrival(
        &mut self,
        StreamArrival { connection, way, bytes }: StreamArrival,
        now: Instant,
        outlet: &mut dyn StreamOutlet,
    ) {
        match way {
            StreamDirection::Request => self.answer(connection, bytes, outlet),
            StreamDirection::Response => self.receive(connection, bytes, now, outlet),
        }
    }

    fn on_exchange(
        &mut self,
        ExchangeArrival { connection, exchange, way }: ExchangeArrival,
        now: Instant,
        outlet: &mut dyn StreamOutlet,
    ) {
        match way {
            StreamDirection::Request => self.answer_exchange(connection, exchange, outlet),
            StreamDirection::Response => self.receive_exchange(connection, exchange, now, outlet),
        }
    }

    fn forget(&mut self, _now: Instant) {
        self.objects = Histogram::default();
    }

    fn figures(&mut self, _now: Instant) -> Vec<f64> {
        vec![quantile_s(&self.objects, 0.5), quantile_s(&self.objects, 0.95)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{arrive, exchange, Seen};
    use super::*;

    fn browser(params: Params) -> Box<dyn StreamApp> {
        match build(&params, &AppContext { seed: 1, number: 0 }) {
            AnyApp::Streams(app) => app,
            _ => panic!("pages are streams"),
        }
    }

    const SIZE: u64 = 3_000;

    fn params(objects: u32, connections: u32, multiplexed: bool) -> Params {
        Params { objects, connections, multiplexed, size: FlowSizes::Fixed(SIZE), ..Params::default() }
    }

    #[test]
    fn the_page_comes_alone_and_its_objects_over_all_connections_after_it() {
        let mut app = browser(params(4, 2, false));
        app.start(Instant::from_millis(5));
        assert_eq!((app.next_timer(), app.connections()), (Instant::from_millis(5), 2));
        let mut first = Seen::default();
        app.on_timer(Instant::from_millis(5), &mut first);
        assert_eq!((first.writes, first.begun), (vec![(0, StreamDirection::Request, 400)], 1));
        assert_eq!(arrive(&mut *app, 10, 0, StreamDirection::Request, 400).writes, [(0, StreamDirection::Response, SIZE)]);
        // three objects are left for two connections
        let others = arrive(&mut *app, 15, 0, StreamDirection::Response, SIZE);
        assert_eq!(others.writes, [(0, StreamDirection::Request, 400), (1, StreamDirection::Request, 400)]);
        assert_eq!(arrive(&mut *app, 20, 1, StreamDirection::Request, 400).writes, [(1, StreamDirection::Response, SIZE)]);
        assert_eq!(arrive(&mut *app, 25, 1, StreamDirection::Response, SIZE).writes, [(1, StreamDirection::Request, 400)]);
        assert_eq!(arrive(&mut *app, 26, 0, StreamDirection::Request, 800).writes, [(0, StreamDirection::Response, SIZE)]);
        assert!(arrive(&mut *app, 30, 0, StreamDirection::Response, 2 * SIZE).writes.is_empty());
        assert_eq!(arrive(&mut *app, 31, 1, StreamDirection::Request, 800).writes, [(1, StreamDirection::Response, SIZE)]);
        let last = arrive(&mut *app, 35, 1, StreamDirection::Response, 2 * SIZE);
        let load = Load { start: Instant::from_millis(5), time: Duration::from_millis(30), bytes: 4 * SIZE };
        assert_eq!((last.writes.len(), last.loads), (0, vec![load]));
        // without a time to think the next page follows at once; after a stop none does
        assert_eq!(app.next_timer(), Instant::from_millis(35));
        app.stop(Instant::from_millis(35));
        assert_eq!(app.next_timer(), Instant::NEVER);
    }

    #[test]
    fn a_multiplexed_connection_carries_all_requests_at_once() {
        let mut app = browser(params(4, 1, true));
        app.start(Instant::ZERO);
        app.on_timer(Instant::ZERO, &mut Seen::default());
        arrive(&mut *app, 10, 0, StreamDirection::Request, 400);
        assert_eq!(arrive(&mut *app, 20, 0, StreamDirection::Response, SIZE).writes, vec![(0, StreamDirection::Request, 400); 3]);
        // the server answers what is complete, in turn
        assert_eq!(
            arrive(&mut *app, 30, 0, StreamDirection::Request, 1200).writes,
            vec![(0, StreamDirection::Response, SIZE); 2]
        );
        assert_eq!(arrive(&mut *app, 31, 0, StreamDirection::Request, 1600).writes, vec![(0, StreamDirection::Response, SIZE)]);
        assert!(arrive(&mut *app, 40, 0, StreamDirection::Response, 3 * SIZE).loads.is_empty());
        assert_eq!(arrive(&mut *app, 41, 0, StreamDirection::Response, 4 * SIZE).loads.len(), 1);
    }

    #[test]
    fn objects_that_are_streams_may_overtake_each_other() {
        let (request, response) = (StreamDirection::Request, StreamDirection::Response);
        let mut app = browser(params(4, 1, true));
        app.start(Instant::ZERO);
        app.on_timer(Instant::ZERO, &mut Seen::default());
        assert_eq!(exchange(&mut *app, 10, (0, 0), request).exchanges, [0]);
        assert_eq!(exchange(&mut *app, 20, (0, 0), response).exchanges, [1, 2, 3]);
        // the server answers what it has, once
        for number in [3, 1, 2] {
            let seen = exchange(&mut *app, 30, (0, number), request);
            assert_eq!((seen.exchanges, seen.writes), (vec![number], vec![(0, response, SIZE)]));
        }
        assert!(exchange(&mut *app, 31, (0, 3), request).writes.is_empty());
        assert!(exchange(&mut *app, 40, (0, 2), response).loads.is_empty());
        assert!(exchange(&mut *app, 41, (0, 2), response).loads.is_empty());
        exchange(&mut *app, 90, (0, 3), response);
        let last = exchange(&mut *app, 100, (0, 1), response);
        assert_eq!(last.loads, [Load { start: Instant::ZERO, time: Duration::from_millis(100), bytes: 4 * SIZE }]);
        // they took 20, 20, 70 and 80 ms
        let figures = app.figures(Instant::from_millis(100));
        assert!((figures[0] - 0.02).abs() < 0.001 && (figures[1] - 0.08).abs() < 0.002, "{figures:?}");
    }

    #[test]
    fn users_think_for_an_exponential_time() {
        let think = Duration::from_secs(2);
        let mut app = browser(Params { think, ..params(1, 1, false) });
        app.start(Instant::ZERO);
        let (mut now, mut total) = (Instant::ZERO, 0.0);
        for page in 1..=10_000 {
            app.on_timer(now, &mut Seen::default());
            app.on_arrival(
                StreamArrival { connection: 0, way: StreamDirection::Request, bytes: 400 * page },
                now,
                &mut Seen::default(),
            );
            app.on_arrival(
                StreamArrival { connection: 0, way: StreamDirection::Response, bytes: SIZE * page },
                now,
                &mut Seen::default(),
            );
            total += (app.next_timer() - now).as_secs_f64();
            now = app.next_timer();
        }
        // the mean of 10,000 exponential times: 2 s, standard deviation 2 / sqrt(10000) = 0.02 s
        assert!((total / 10_000.0 - 2.0).abs() < 0.1, "{total}");
        // the objects took no time: the middle of the first bin at the most
        assert!(app.figures(now).iter().all(|&time| time < 1e-6), "{:?}", app.figures(now));
        app.forget(now);
        assert!(app.figures(now)[0].is_nan());
    }
}
