//! Clients that download some small files at once, are idle, and do so again: the short TCP flows of RFC 8868.
//!
//! A user is one such flow. While it is on, it fetches a burst of files, each over a connection of its own; all start at once. When it has all of them, it is off for an exponential time. The
//! server answers at once.
//!
//! Reading of the RFC where it leaves room: each burst opens new connections, unless they persist. RFC 8867 section 5.7 has ten such flows, of which two begin on and eight off: two entries of the
//! experiment file. With one connection, a flow fetches one file at a time, as cisco/ns3-rmcat reads the RFC.

use super::measure::{quantile_s, Measure, MeasureKind};
use super::{AnyApp, AppContext, AppKind, ExchangeArrival, Load, StreamApp, StreamArrival, StreamDirection, StreamOutlet};
use crate::histogram::Histogram;
use crate::param::ParamError;
use crate::params;
use crate::rng::Rng;
use crate::traffic::exponential_gap;
use crate::units::{Duration, Instant};

/// Name in configurations.
pub const NAME: &str = "onoff";
/// Title of the application.
pub const TITLE: &str = "A client that fetches small files over many connections at once, and is idle in between";
/// Where it comes from.
pub const SOURCE: &str = "RFC 8868, section 5.1: short TCP flows";
/// Kind of its traffic: files go to the client.
pub const KIND: AppKind = AppKind::Streams(StreamDirection::Response);

params! {
    /// Parameters of a client that is on and off.
    pub struct Params {
        /// Connections that start at once, each of which fetches one file.
        connections: u32 = 30, unit "connections", range 1_u32, 1_000_u32, source "RFC 8868 section 5.1: 30 connections";
        /// Smallest file: sizes are distributed evenly.
        smallest: u64 = 30_000, unit "bytes", range 1_u64, 1_u64 << 40, source "RFC 8868 section 5.1: 30 KB";
        /// Largest file.
        largest: u64 = 50_000, unit "bytes", range 1_u64, 1_u64 << 40, source "RFC 8868 section 5.1: 50 KB";
        /// Mean time from the end of a burst until the next; exponential.
        idle: Duration = Duration::from_secs(10), unit "", range Duration(0), Duration::from_secs(86_400), source "RFC 8868 section 5.1: exponential, mean of 10 s";
        /// The client begins off, with such a time, instead of on.
        begins_off: bool = false, unit "", source "RFC 8868 section 5.1: some start on, others off";
        /// Connections persist, instead of being opened for each burst.
        persistent: bool = false, unit "", source "ours: the RFC starts connections";
        /// Payload of a request.
        request: u32 = 400, unit "bytes", range 1_u32, 1_000_000_u32, source "a request of HTTP with its headers";
    }
    check check
}

fn check(params: &Params) -> Result<(), ParamError> {
    if params.largest < params.smallest {
        return Err(ParamError::new("largest", params.largest, format!("at least smallest, {}", params.smallest)));
    }
    Ok(())
}

/// Measures in addition to the load times, which are those of bursts.
pub static MEASURES: [Measure; 2] = [
    Measure {
        name: "file_p50_s",
        unit: "s",
        label: "time of a file, P50",
        doc: &["Time from the request of a file, the handshake of a new connection included, until all of it was there that 50 % of the files did not exceed."],
        kind: MeasureKind::Binned,
    },
    Measure {
        name: "file_p95_s",
        unit: "s",
        label: "time of a file, P95",
        doc: &["Time from the request of a file, the handshake of a new connection included, until all of it was there that 95 % of the files did not exceed."],
        kind: MeasureKind::Binned,
    },
];

/// One connection, at both ends.
#[derive(Clone, Copy, Default)]
struct Connection {
    /// Size of the file.
    size: u64,
    /// Bytes written so far.
    requests: u64,
    responses: u64,
    /// Number of the exchange that fetches the file.
    exchange: u64,
}

/// The burst that is being fetched.
#[derive(Clone)]
struct BurstOfFiles {
    start: Instant,
    missing: u32,
    bytes: u64,
}

/// The client and the server.
#[derive(Clone)]
struct Fetcher {
    params: Params,
    size_rng: Rng,
    idle_rng: Rng,
    connections: Vec<Connection>,
    burst: Option<BurstOfFiles>,
    /// When the next burst begins.
    next: Instant,
    stopped: bool,
    files: Histogram,
}

/// Streams have segments of the hosts.
pub fn largest_frame(_params: &Params) -> u16 {
    0
}

/// Builds a client.
pub fn build(params: &Params, context: &AppContext) -> AnyApp {
    AnyApp::Streams(Box::new(Fetcher {
        size_rng: context.rng("on and off sizes"),
        idle_rng: context.rng("on and off times"),
        connections: vec![Connection::default(); params.connections as usize],
        params: params.clone(),
        burst: None,
        next: Instant::NEVER,
        stopped: false,
        files: Histogram::default(),
    }))
}

impl Fetcher {
    fn draw_idle(&mut self) -> Duration {
        exponential_gap(self.params.idle, &mut self.idle_rng)
    }

    /// The server has the request of a connection.
    fn answer(&mut self, number: usize, outlet: &mut dyn StreamOutlet) {
        let connection = &mut self.connections[number];
        connection.responses += connection.size;
        outlet.write_exchange(number, connection.exchange, StreamDirection::Response, connection.size);
    }

    /// The client has the whole file of a connection.
    fn finish_file(&mut self, number: usize, now: Instant, outlet: &mut dyn StreamOutlet) {
        let Some(burst) = &mut self.burst else { return };
        self.files.record(now - burst.start);
        burst.missing -= 1;
        self.connections[number].exchange += 1;
        if !self.params.persistent {
            outlet.close(number);
            self.connections[number] = Connection::default();
        }
        if burst.missing > 0 {
            return;
        }
        outlet.finish_load(Load { start: burst.start, time: now - burst.start, bytes: burst.bytes });
        self.burst = None;
        if !self.stopped {
            self.next = now.saturating_add(self.draw_idle());
        }
    }
}

impl StreamApp for Fetcher {
    crate::fork_by_clone!(dyn StreamApp);

    fn connections(&self) -> usize {
        if self.params.persistent {
            self.connections.len()
        } else {
            0
        }
    }

    fn start(&mut self, now: Instant) {
        self.next = if self.params.begins_off { now.saturating_add(self.draw_idle()) } else { now };
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
        outlet.begin_load();
        let mut burst = BurstOfFiles { start: now, missing: self.params.connections, bytes: 0 };
        for (number, connection) in self.connections.iter_mut().enumerate() {
            let range = self.params.largest - self.params.smallest + 1;
            connection.size = self.params.smallest + self.size_rng.draw_below(range);
            connection.requests += u64::from(self.params.request);
            burst.bytes += connection.size;
            outlet.write_exchange(number, connection.exchange, StreamDirection::Request, u64::from(self.params.request));
        }
        self.burst = Some(burst);
    }

    fn on_arrival(
        &mut self,
        StreamArrival { connection: number, way, bytes }: StreamArrival,
        now: Instant,
        outlet: &mut dyn StreamOutlet,
    ) {
        let connection = &mut self.connections[number];
        match way {
            StreamDirection::Request if bytes == connection.requests => self.answer(number, outlet),
            StreamDirection::Response if bytes == connection.responses => self.finish_file(number, now, outlet),
            _ => {}
        }
    }

    fn on_exchange(
        &mut self,
        ExchangeArrival { connection: number, exchange, way }: ExchangeArrival,
        now: Instant,
        outlet: &mut dyn StreamOutlet,
    ) {
        match way {
            _ if exchange != self.connections[number].exchange => {}
            StreamDirection::Request => self.answer(number, outlet),
            StreamDirection::Response => self.finish_file(number, now, outlet),
        }
    }

    fn forget(&mut self, _now: Instant) {
        self.files = Histogram::default();
    }

    fn figures(&mut self, _now: Instant) -> Vec<f64> {
        vec![quantile_s(&self.files, 0.5), quantile_s(&self.files, 0.95)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{arrive, build_streams, fire};
    use super::super::AppSpec;
    use super::*;

    fn client(params: Params) -> Box<dyn StreamApp> {
        build_streams(&AppSpec::Onoff(params), 3)
    }

    #[test]
    fn all_files_of_a_burst_are_requested_at_once_and_the_last_one_ends_it() {
        let mut app = client(Params { connections: 2, smallest: 1_000, largest: 1_000, ..Params::default() });
        app.start(Instant::from_millis(5));
        let (_, seen) = fire(&mut *app);
        assert_eq!((seen.begun, app.connections()), (1, 0));
        assert_eq!(seen.writes, [(0, StreamDirection::Request, 400), (1, StreamDirection::Request, 400)]);
        assert_eq!(arrive(&mut *app, 10, 1, StreamDirection::Request, 400).writes, [(1, StreamDirection::Response, 1_000)]);
        let one = arrive(&mut *app, 20, 1, StreamDirection::Response, 1_000);
        assert_eq!((one.closed, one.loads.len(), app.next_timer()), (vec![1], 0, Instant::NEVER));
        arrive(&mut *app, 21, 0, StreamDirection::Request, 400);
        let last = arrive(&mut *app, 31, 0, StreamDirection::Response, 1_000);
        let load = Load { start: Instant::from_millis(5), time: Duration::from_millis(26), bytes: 2_000 };
        assert_eq!((last.closed, last.loads), (vec![0], vec![load]));
        assert!(app.next_timer() > Instant::from_millis(31));
        // one file took 15 ms, the other 26
        let figures = app.figures(Instant::from_millis(40));
        assert!((figures[0] - 0.015).abs() < 0.001 && (figures[1] - 0.026).abs() < 0.001, "{figures:?}");
        app.stop(Instant::from_millis(40));
        app.forget(Instant::from_millis(40));
        assert!(app.next_timer() == Instant::NEVER && app.figures(Instant::from_millis(40))[0].is_nan());
    }

    #[test]
    fn sizes_are_even_and_times_off_exponential() {
        let mut app = client(Params { begins_off: true, ..Params::default() });
        app.start(Instant::ZERO);
        let (mut off, mut sizes, mut last) = (0.0, Vec::new(), Instant::ZERO);
        for _ in 0..1_000 {
            let (now, seen) = fire(&mut *app);
            off += (now - last).as_secs_f64();
            assert_eq!(seen.writes.len(), 30);
            let end = now.as_millis() + 1;
            for number in 0..30 {
                let response = arrive(&mut *app, end, number, StreamDirection::Request, 400).writes[0];
                sizes.push(response.2);
                arrive(&mut *app, end, number, StreamDirection::Response, response.2);
            }
            last = Instant::from_millis(end);
        }
        // mean of 1000 exponential times: 10 s, standard deviation 10 / sqrt(1000) = 0.32 s
        assert!((off / 1_000.0 - 10.0).abs() < 1.3, "{off}");
        // 30,000 sizes: mean 40,000 B, standard deviation 20,000 / sqrt(12 * 30,000) = 33 B
        let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        assert!((mean - 40_000.0).abs() < 140.0, "{mean}");
        let (least, most) = (sizes.iter().min(), sizes.iter().max());
        assert!(
            least.is_some_and(|size| (30_000..30_010).contains(size))
                && most.is_some_and(|size| (49_990..=50_000).contains(size))
        );
    }

    #[test]
    fn persistent_connections_stay_open_and_count_on() {
        let mut app = client(Params {
            connections: 1,
            smallest: 500,
            largest: 500,
            persistent: true,
            idle: Duration::ZERO,
            ..Params::default()
        });
        assert_eq!(app.connections(), 1);
        app.start(Instant::ZERO);
        for burst in 1..=2 {
            fire(&mut *app);
            assert!(arrive(&mut *app, 10 * burst, 0, StreamDirection::Request, 400 * burst - 1).writes.is_empty());
            arrive(&mut *app, 10 * burst, 0, StreamDirection::Request, 400 * burst);
            let last = arrive(&mut *app, 10 * burst, 0, StreamDirection::Response, 500 * burst);
            assert_eq!((last.closed.len(), last.loads.len()), (0, 1));
        }
    }

    #[test]
    fn a_range_of_sizes_that_is_none_is_refused() {
        let refused = Params::from_json(serde_json::json!({"smallest": 60_000}).as_object().expect("a table"));
        assert_eq!(refused.expect_err("an error").to_string(), "largest: found 50000, allowed: at least smallest, 60000");
    }
}
