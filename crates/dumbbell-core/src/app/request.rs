//! A client that sends one request after the other, each when it has the response to the one before and has thought.
//!
//! All requests go over one connection that persists, or each over a new one: then a response time contains a handshake, and a slow start
//! from the initial window. The server answers at once.

use super::measure::Measure;
use super::{AnyApp, AppContext, AppKind, ExchangeArrival, Load, StreamApp, StreamArrival, StreamDirection, StreamOutlet};
use crate::params;
use crate::rng::Rng;
use crate::traffic::{exponential_gap, FlowSizes, SizeSource, Times};
use crate::units::{Duration, Instant};

/// Name in configurations.
pub const NAME: &str = "request";
/// Title of the application.
pub const TITLE: &str = "A client that sends one request after the other, and gets a response to each";
/// Where it comes from.
pub const SOURCE: &str = "a closed loop, as a call of a remote procedure; ours";
/// Kind of its traffic: responses go to the client.
pub const KIND: AppKind = AppKind::Streams(StreamDirection::Response);

params! {
    /// Parameters of requests.
    pub struct Params {
        /// Payload of a request: a size, { pareto = SHAPE, min = SIZE, max = SIZE }, or { csv = FILE } with a size in bytes and a weight per line.
        request: FlowSizes = FlowSizes::Fixed(400), unit "", source "a request of HTTP with its headers";
        /// Payload of a response, likewise.
        size: FlowSizes = FlowSizes::Fixed(10_000), unit "", source "ours";
        /// Time from a response until the next request.
        think: Duration = Duration::ZERO, unit "", range Duration(0), Duration::from_secs(86_400), source "ours: the next request follows at once";
        /// How long these times are: always `think`, or exponential with that mean.
        times: Times = Times::Fixed, unit "", source "ours";
        /// Each request has a new connection, which is closed behind the response.
        fresh: bool = false, unit "", source "ours";
    }
}

/// Measures in addition to the response times, which are load times.
pub static MEASURES: [Measure; 0] = [];

/// The number of the connection.
const CONNECTION: usize = 0;

/// The client and the server.
#[derive(Clone)]
struct Client {
    params: Params,
    requests: SizeSource,
    responses: SizeSource,
    size_rng: Rng,
    think_rng: Rng,
    /// Bytes written into the connection, each way, by [`StreamDirection::index`].
    written: [u64; 2],
    /// Number of the current exchange in the connection.
    exchange: u64,
    /// When the current request was sent, and the size of its response.
    awaited: Option<(Instant, u64)>,
    /// When the next request is sent.
    next: Instant,
    stopped: bool,
}

/// Streams have segments of the hosts.
pub fn largest_frame(_params: &Params) -> u16 {
    0
}

/// Builds the requests of a user.
pub fn build(params: &Params, context: &AppContext) -> AnyApp {
    AnyApp::Streams(Box::new(Client {
        requests: params.request.source(),
        responses: params.size.source(),
        size_rng: context.rng("request sizes"),
        think_rng: context.rng("request thinking"),
        params: params.clone(),
        written: [0; 2],
        exchange: 0,
        awaited: None,
        next: Instant::NEVER,
        stopped: false,
    }))
}

impl Client {
    fn write(&mut self, way: StreamDirection, bytes: u64, outlet: &mut dyn StreamOutlet) {
        self.written[way.index()] += bytes;
        outlet.write_exchange(CONNECTION, self.exchange, way, bytes);
    }

    /// All of a request or a response is there.
    fn go_on(&mut self, way: StreamDirection, now: Instant, outlet: &mut dyn StreamOutlet) {
        match (way, self.awaited) {
            (StreamDirection::Request, Some((_, size))) => self.write(StreamDirection::Response, size, outlet),
            (StreamDirection::Response, _) => self.finish(now, outlet),
            (StreamDirection::Request, None) => {}
        }
    }

    /// The client has the whole response.
    fn finish(&mut self, now: Instant, outlet: &mut dyn StreamOutlet) {
        let Some((start, bytes)) = self.awaited.take() else { return };
        outlet.finish_load(Load { start, time: now - start, bytes });
        self.exchange += 1;
        if self.params.fresh {
            outlet.close(CONNECTION);
            (self.written, self.exchange) = ([0; 2], 0);
        }
        if !self.stopped {
            let think = match self.params.times {
                Times::Fixed => self.params.think,
                Times::Exponential => exponential_gap(self.params.think, &mut self.think_rng),
            };
            self.next = now.saturating_add(think);
        }
    }
}

impl StreamApp for Client {
    crate::fork_by_clone!(dyn StreamApp);

    fn connections(&self) -> usize {
        usize::from(!self.params.fresh)
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
        let request = self.requests.draw(&mut self.size_rng);
        self.awaited = Some((now, self.responses.draw(&mut self.size_rng)));
        outlet.begin_load();
        self.write(StreamDirection::Request, request, outlet);
    }

    fn on_arrival(&mut self, arrival: StreamArrival, now: Instant, outlet: &mut dyn StreamOutlet) {
        if arrival.bytes < self.written[arrival.way.index()] {
            return;
        }
        self.go_on(arrival.way, now, outlet);
    }

    fn on_exchange(&mut self, arrival: ExchangeArrival, now: Instant, outlet: &mut dyn StreamOutlet) {
        if arrival.exchange == self.exchange {
            self.go_on(arrival.way, now, outlet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{arrive, build_streams, exchange, fire};
    use super::super::AppSpec;
    use super::*;

    fn client(params: Params) -> Box<dyn StreamApp> {
        build_streams(&AppSpec::Request(params), 1)
    }

    #[test]
    fn a_request_follows_the_response_to_the_one_before_and_a_time_to_think() {
        let params = Params { size: FlowSizes::Fixed(5_000), think: Duration::from_millis(30), ..Params::default() };
        let mut app = client(params);
        app.start(Instant::from_millis(7));
        let (first, seen) = fire(&mut *app);
        assert_eq!((first, seen.begun, app.next_timer()), (Instant::from_millis(7), 1, Instant::NEVER));
        assert_eq!(seen.writes, [(0, StreamDirection::Request, 400)]);
        assert_eq!(arrive(&mut *app, 17, 0, StreamDirection::Request, 400).writes, [(0, StreamDirection::Response, 5_000)]);
        let last = arrive(&mut *app, 32, 0, StreamDirection::Response, 5_000);
        assert_eq!(last.loads, [Load { start: first, time: Duration::from_millis(25), bytes: 5_000 }]);
        assert!(last.closed.is_empty() && last.writes.is_empty());
        assert_eq!((app.next_timer(), app.connections()), (Instant::from_millis(62), 1));
        // over the same connection, whose bytes go on
        assert_eq!(fire(&mut *app).1.writes, [(0, StreamDirection::Request, 400)]);
        assert!(arrive(&mut *app, 70, 0, StreamDirection::Request, 799).writes.is_empty());
        assert_eq!(arrive(&mut *app, 72, 0, StreamDirection::Request, 800).writes.len(), 1);
        // what has begun goes on, and nothing new begins
        app.stop(Instant::from_millis(75));
        assert_eq!(arrive(&mut *app, 80, 0, StreamDirection::Response, 10_000).loads.len(), 1);
        assert_eq!(app.next_timer(), Instant::NEVER);
    }

    #[test]
    fn a_fresh_connection_is_closed_behind_the_response_and_counts_from_0() {
        let mut app = client(Params { fresh: true, ..Params::default() });
        assert_eq!(app.connections(), 0);
        app.start(Instant::ZERO);
        for round in 0..2 {
            assert_eq!(fire(&mut *app).1.writes, [(0, StreamDirection::Request, 400)]);
            arrive(&mut *app, 10 * round + 1, 0, StreamDirection::Request, 400);
            assert_eq!(arrive(&mut *app, 10 * round + 10, 0, StreamDirection::Response, 10_000).closed, [0]);
        }
    }

    #[test]
    fn each_request_is_an_exchange_that_counts_from_0_in_a_new_connection() {
        let (request, response) = (StreamDirection::Request, StreamDirection::Response);
        for (fresh, numbers) in [(false, [0, 1, 2]), (true, [0, 0, 0])] {
            let mut app = client(Params { fresh, ..Params::default() });
            app.start(Instant::ZERO);
            for (round, number) in (0..).zip(numbers) {
                assert_eq!(fire(&mut *app).1.exchanges, [number]);
                assert_eq!(exchange(&mut *app, 10 * round + 4, (0, number), request).exchanges, [number]);
                // one of before is none of now
                assert!(exchange(&mut *app, 10 * round + 5, (0, number + 1), response).loads.is_empty());
                assert_eq!(exchange(&mut *app, 10 * round + 9, (0, number), response).loads.len(), 1);
            }
        }
    }

    #[test]
    fn drawn_times_to_think_have_the_mean() {
        let params = Params { think: Duration::from_secs(2), times: Times::Exponential, ..Params::default() };
        let mut app = client(params);
        app.start(Instant::ZERO);
        let (mut total, count) = (0.0, 10_000);
        for round in 1..=count {
            let (now, _) = fire(&mut *app);
            let at = now.as_millis() + 1;
            arrive(&mut *app, at, 0, StreamDirection::Request, 400 * round);
            arrive(&mut *app, at, 0, StreamDirection::Response, 10_000 * round);
            total += (app.next_timer() - Instant::from_millis(at)).as_secs_f64();
        }
        // standard deviation of the mean: 2 s / sqrt(10,000) = 0.02 s
        assert!((total / count as f64 - 2.0).abs() < 0.1, "{total}");
    }
}
