//! Applications: what users run over the net, and what they measure. One application is one file. To add one: write the file, add one line
//! to `apps!` below.
//!
//! An application is both of its ends, a client and a server, as a state machine without I/O. One of [streams](StreamApp) writes bytes into
//! connections and is told when they have arrived, whatever the transport does in between. One of datagrams is a
//! [`Protocol`] for each way, and one of media a [`Protocol`] whose receiver reports to its sender.

pub mod measure;

use crate::fork::{CannotFork, Fork, SharedCopies};
use crate::param::{algorithm_specs, AlgorithmSpec, ParamError};
pub use crate::protocol::PacketFate;
use crate::protocol::Protocol;
use crate::rng::Rng;
use crate::units::{Duration, Instant};
pub use measure::{Measure, MeasureKind};
use serde_json::{Map, Value};

/// Which way data go between the ends of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamDirection {
    /// From the server to the client.
    Response,
    /// From the client to the server.
    Request,
}

impl StreamDirection {
    /// Both, in the order of [`StreamDirection::index`].
    pub const ALL: [StreamDirection; 2] = [StreamDirection::Response, StreamDirection::Request];

    /// Returns its place among both.
    pub fn index(self) -> usize {
        match self {
            StreamDirection::Response => 0,
            StreamDirection::Request => 1,
        }
    }
}

/// Traffic of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppKind {
    /// Streams; what its user waits for goes this way.
    Streams(StreamDirection),
    /// Datagrams, both ways.
    Datagrams,
    /// Datagrams to the client, and reports on them the other way.
    Media,
}

/// Something that the user waited for: a page, a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// When the user asked for it.
    pub start: Instant,
    /// Until all of it was there.
    pub time: Duration,
    /// Payload, bytes.
    pub bytes: u64,
}

/// Bytes of a connection that have arrived in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamArrival {
    /// Number of the connection, from 0.
    pub connection: usize,
    /// Which way they went.
    pub way: StreamDirection,
    /// How many that way since the start of the connection. Arrivals are reported at the ends of writes.
    pub bytes: u64,
}

/// A request or a response that has arrived as a stream of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeArrival {
    /// Number of the connection, from 0.
    pub connection: usize,
    /// Number of the exchange in its connection, from 0.
    pub exchange: u64,
    /// Which way it went.
    pub way: StreamDirection,
}

/// Where an application of streams puts what it does.
pub trait StreamOutlet {
    /// Writes `bytes` into a connection. If it is not open, the client opens it first: a handshake comes ahead.
    fn write(&mut self, connection: usize, way: StreamDirection, bytes: u64);

    /// Writes `bytes` of the exchange `exchange` of a connection, a request or its response, with nothing behind them. Exchanges count from 0, each way. A
    /// transport with streams gives each exchange a stream of its own; others write one behind the other.
    fn write_exchange(&mut self, connection: usize, _exchange: u64, way: StreamDirection, bytes: u64) {
        self.write(connection, way, bytes);
    }

    /// From now on the sending application of a connection, which is opened if it is not open, always has more to send this way. It keeps little of that unsent, and
    /// what it writes goes in between. Arrivals are those of writes, and their bytes do not contain the rest.
    fn fill(&mut self, connection: usize, way: StreamDirection);

    /// Closes a connection. What is not sent is discarded, and nothing more is reported of it. Its number then stands for a new connection.
    fn close(&mut self, connection: usize);

    /// Returns the payload that has arrived in order since the start of an open connection, bytes.
    fn count_received(&self, connection: usize, way: StreamDirection) -> u64;

    /// The user starts to wait for a [`Load`] now.
    fn begin_load(&mut self);

    /// All of it is there.
    fn finish_load(&mut self, load: Load);
}

/// An application of streams, both ends in one. Time never goes back between calls.
pub trait StreamApp: Send {
    /// How many connections it has for the whole run, from number 0 on. Others are there from when they are opened until they are closed.
    fn connections(&self) -> usize;

    /// The user starts at `now`. To do something at once, let [`StreamApp::next_timer`] be `now`.
    fn start(&mut self, now: Instant);

    /// Nothing new begins from now on; what has begun goes on.
    fn stop(&mut self, now: Instant);

    /// When [`StreamApp::on_timer`] is called next, [`Instant::NEVER`] for not at all. Asked after each other call.
    fn next_timer(&self) -> Instant;

    /// The time of [`StreamApp::next_timer`] has come. The next time is later.
    fn on_timer(&mut self, now: Instant, outlet: &mut dyn StreamOutlet);

    /// More bytes have arrived in order.
    fn on_arrival(&mut self, arrival: StreamArrival, now: Instant, outlet: &mut dyn StreamOutlet);

    /// All bytes of an exchange have arrived, over a transport with streams: exchanges may overtake each other. Whoever writes none hears of none.
    fn on_exchange(&mut self, _arrival: ExchangeArrival, _now: Instant, _outlet: &mut dyn StreamOutlet) {}

    /// The handshake of a connection was complete at the client at `at`, which may lie up to half of the base RTT in the past.
    fn on_connected(&mut self, _connection: usize, _at: Instant, _outlet: &mut dyn StreamOutlet) {}

    /// Discards the measurements before `now`.
    fn forget(&mut self, _now: Instant) {}

    /// Returns the values of its measures until `now`, in their order; NaN where there is none.
    fn figures(&mut self, _now: Instant) -> Vec<f64> {
        Vec::new()
    }

    /// Returns a copy that goes on as the original does; a type that is `Clone` writes [`fork_by_clone!(dyn StreamApp)`](crate::fork_by_clone).
    ///
    /// # Errors
    /// It cannot be copied, which is the default.
    fn fork(&self, _shared: &mut SharedCopies) -> Result<Box<dyn StreamApp>, CannotFork> {
        Err(CannotFork::default())
    }
}

impl Fork for Box<dyn StreamApp> {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        (**self).fork(shared)
    }
}

/// The run and the user that an application is built for.
#[derive(Clone, Copy, Debug)]
pub struct AppContext {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the application in the run.
    pub number: u64,
}

impl AppContext {
    /// Random numbers of the application for `what`.
    fn rng(&self, what: &str) -> Rng {
        Rng::stream(self.seed, what, self.number)
    }
}

/// An application that has not started.
pub enum AnyApp {
    /// An application of streams.
    Streams(Box<dyn StreamApp>),
    /// An application of datagrams, by [`StreamDirection::index`].
    Datagrams([Box<dyn Protocol>; 2]),
    /// An application of datagrams to the client, on which its receiver reports.
    Media(Box<dyn Protocol>),
}

/// Registers applications: `Variant: module` for every file that has `NAME`, `TITLE`, `SOURCE`, `KIND`, `MEASURES`, `Params`, `largest_frame` (of
/// its datagrams, bytes) and `build`, which makes an [`AnyApp`].
macro_rules! apps {
    ($($variant:ident : $module:ident),* $(,)?) => {
        $(pub mod $module;)*

        algorithm_specs! {
            /// A registered application with its parameters.
            AppSpec { $( $variant: $module ),* }
        }

        impl AppSpec {
            /// The application, for a user.
            pub fn build(&self, context: &AppContext) -> AnyApp {
                match self { $( AppSpec::$variant(params) => $module::build(params, context), )* }
            }

            /// Returns what it is made of.
            pub fn kind(&self) -> AppKind {
                match self { $( AppSpec::$variant(_) => $module::KIND, )* }
            }

            /// Returns whether each request is answered at once, over connections that last for the whole run: acknowledgements of requests then travel with the
            /// answers. Compared with Linux for pages alone.
            pub fn answers_at_once(&self) -> bool {
                matches!(self, AppSpec::Pages(_))
            }

            /// Returns whether it is of streams, which need a congestion control.
            pub fn has_streams(&self) -> bool {
                matches!(self.kind(), AppKind::Streams(_))
            }

            /// Returns whether a transport with streams can carry it. One that fills its connections measures how long what it writes in between waits behind the
            /// filler, which is a matter of how TCP sends.
            pub fn fits_streams(&self) -> bool {
                self.has_streams() && !matches!(self, AppSpec::Responsiveness(_))
            }

            /// Returns the length of its largest datagram with all headers, bytes; 0 of streams, whose segments follow from the hosts.
            pub fn largest_frame(&self) -> u16 {
                match self { $( AppSpec::$variant(params) => $module::largest_frame(params), )* }
            }

            /// Returns what it measures.
            pub fn measures(&self) -> &'static [Measure] {
                match self { $( AppSpec::$variant(_) => &$module::MEASURES, )* }
            }

            /// Names of the applications, and what each is made of.
            pub const KINDS: &'static [(&'static str, AppKind)] = &[ $( ($module::NAME, $module::KIND) ),* ];
        }

        /// Every measure of a registered application, once, in order.
        pub fn measures() -> Vec<&'static Measure> {
            let mut all: Vec<&'static Measure> = Vec::new();
            for measure in [ $( &$module::MEASURES[..] ),* ].into_iter().flatten() {
                if all.iter().all(|other| other.name != measure.name) {
                    all.push(measure);
                }
            }
            all
        }
    };
}

apps! {
    Pages: pages,
    Call: call,
    Game: game,
    Video: video,
    Autorate: autorate,
    Request: request,
    Onoff: onoff,
    Backup: backup,
    Dash: dash,
    Responsiveness: responsiveness,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Actions of an application at one instant.
    #[derive(Default)]
    pub struct Seen {
        pub writes: Vec<(usize, StreamDirection, u64)>,
        /// Exchanges of the writes that have one.
        pub exchanges: Vec<u64>,
        pub loads: Vec<Load>,
        pub begun: u32,
        pub filled: Vec<(usize, StreamDirection)>,
        pub closed: Vec<usize>,
        /// Returned for each connection.
        pub received: u64,
    }

    impl StreamOutlet for Seen {
        fn write(&mut self, connection: usize, way: StreamDirection, bytes: u64) {
            self.writes.push((connection, way, bytes));
        }

        fn write_exchange(&mut self, connection: usize, exchange: u64, way: StreamDirection, bytes: u64) {
            self.exchanges.push(exchange);
            self.write(connection, way, bytes);
        }

        fn fill(&mut self, connection: usize, way: StreamDirection) {
            self.filled.push((connection, way));
        }

        fn close(&mut self, connection: usize) {
            self.closed.push(connection);
        }

        fn count_received(&self, _connection: usize, _way: StreamDirection) -> u64 {
            self.received
        }

        fn begin_load(&mut self) {
            self.begun += 1;
        }

        fn finish_load(&mut self, load: Load) {
            self.loads.push(load);
        }
    }

    /// Bytes arrive at `at_ms`. Returns what the application does then.
    pub fn arrive(app: &mut dyn StreamApp, at_ms: u64, connection: usize, way: StreamDirection, bytes: u64) -> Seen {
        let mut seen = Seen::default();
        app.on_arrival(StreamArrival { connection, way, bytes }, Instant::from_millis(at_ms), &mut seen);
        seen
    }

    /// An exchange arrives at `at_ms`, over a transport with streams. Returns what the application does then.
    pub fn exchange(app: &mut dyn StreamApp, at_ms: u64, (connection, exchange): (usize, u64), way: StreamDirection) -> Seen {
        let mut seen = Seen::default();
        app.on_exchange(ExchangeArrival { connection, exchange, way }, Instant::from_millis(at_ms), &mut seen);
        seen
    }

    /// The timer of an application fires. Returns when, and what it does then.
    pub fn fire(app: &mut dyn StreamApp) -> (Instant, Seen) {
        let (now, mut seen) = (app.next_timer(), Seen::default());
        app.on_timer(now, &mut seen);
        (now, seen)
    }

    /// Builds an application of streams.
    pub fn build_streams(spec: &AppSpec, seed: u64) -> Box<dyn StreamApp> {
        match spec.build(&AppContext { seed, number: 0 }) {
            AnyApp::Streams(app) => app,
            _ => panic!("an application of streams"),
        }
    }

    #[test]
    fn measures_of_one_name_are_described_alike_and_all_are_described() {
        let known = measures();
        for &(name, _) in AppSpec::KINDS {
            let keys = serde_json::json!({"name": name});
            let spec = AppSpec::from_json(keys.as_object().expect("a table")).expect("an application");
            for measure in spec.measures() {
                let same = known.iter().find(|one| one.name == measure.name).expect("every measure is listed");
                assert_eq!(**same, *measure);
                assert!(
                    measure.doc.iter().all(|sentence| sentence.trim().ends_with('.')) && !measure.label.is_empty(),
                    "{measure:?}"
                );
            }
        }
    }

    #[test]
    fn an_application_is_found_by_its_name_and_says_whether_it_has_streams() {
        for &(name, kind) in AppSpec::KINDS {
            let keys = serde_json::json!({"name": name});
            let spec = AppSpec::from_json(keys.as_object().expect("a table")).expect("an application");
            let built = spec.build(&AppContext { seed: 1, number: 0 });
            assert_eq!((spec.kind(), matches!(built, AnyApp::Streams(_))), (kind, spec.has_streams()), "{name}");
        }
    }
}
