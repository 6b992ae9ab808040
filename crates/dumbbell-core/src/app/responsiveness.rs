//! A test of the responsiveness under working conditions, in round trips per minute: [`crate::responsiveness`] decides, and this is its client and its server.
//!
//! Before the load, probes measure the latency of the idle path. Then connections of the load are added, while pairs of probes are sent: a foreign probe opens a connection, does the handshake of
//! TLS 1.3, of one round trip, and requests a byte; a self probe requests a byte over a connection of the load, chosen at random. The load goes in the `direction` of the entry, or in both.
//!
//! Readings of the draft where it leaves room. Until the first interval has said what the capacity is, pairs of probes are 100 ms apart, and a foreign probe waits for the one before. Connections of the load do no
//! handshake of TLS, which is not measured of them. Messages have fixed sizes whose sums are the draft's estimates of what probes exchange. The bufferbloat grade compares the
//! handshakes of TCP of foreign probes in the last intervals with those of the idle path.

use super::measure::{Measure, MeasureKind};
use super::{AnyApp, AppContext, AppKind, Load, StreamApp, StreamArrival, StreamDirection, StreamOutlet};
use crate::bufferbloat::Grade;
use crate::param::ParamError;
use crate::params;
use crate::responsiveness::{
    self as rpm, compute_trimmed_mean, Confidence, ProbeTimes, ResponsivenessTest, TestResult, TestStep,
};
use crate::rng::Rng;
use crate::units::{Duration, Instant, Rate};
use std::collections::VecDeque;

/// Name in configurations.
pub const NAME: &str = "responsiveness";
/// Title of the application.
pub const TITLE: &str = "A test of the responsiveness under working conditions, in round trips per minute (RPM)";
/// Where it comes from.
pub const SOURCE: &str = "draft-ietf-ippm-responsiveness-09; grade of bufferbloat: dslreports.com/faq/17930";
/// Kind of its traffic: the load goes to the client.
pub const KIND: AppKind = AppKind::Streams(StreamDirection::Response);

params! {
    /// Parameters of a test.
    pub struct Params {
        /// Intervals of a moving average (MAD).
        averaged: u32 = 4, unit "intervals", range 1_u32, 100_u32, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Interval at which stability is evaluated (ID).
        interval: Duration = Duration::from_secs(5), unit "", range Duration::from_millis(100), Duration::from_secs(60), source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Share of the samples that a trimmed mean keeps (TMP).
        kept: f64 = 0.95, unit "", range 0.01, 1.0, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Standard deviation of the last averages up to which they are stable, relative to the current one (SDT).
        tolerance: f64 = 0.05, unit "", range 0.0, 1.0, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Connections of the load at the start (INP).
        initial: u32 = 1, unit "connections", range 1_u32, 1_000_u32, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Connections of the load that each interval adds (INC).
        added: u32 = 1, unit "connections", range 0_u32, 1_000_u32, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Most connections of the load (MNP).
        most: u32 = 16, unit "connections", range 1_u32, 1_000_u32, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Probes of each kind per second, at most (MPS).
        probes: f64 = 100.0, unit "probes/s", range 0.01, 10_000.0, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Share of the capacity that probes may take (PTC).
        probe_share: f64 = 0.05, unit "", range 0.0001, 1.0, source "draft-ietf-ippm-responsiveness-09 section 5.2";
        /// Foreign probes do a handshake of TLS.
        tls: bool = true, unit "", source "draft-ietf-ippm-responsiveness-09 section 5.3.1";
        /// The load goes both ways at once, with as many connections each.
        both: bool = false, unit "", source "draft-ietf-ippm-responsiveness-09 section 5.1.2";
        /// Time before the load, in which the latency of the idle path is measured.
        idle: Duration = Duration::from_secs(2), unit "", range Duration(0), Duration::from_secs(600), source "ours; draft-ietf-ippm-responsiveness-09 section 6.2: idle latency, at the beginning";
        /// The test ends this long after its load began, stable or not.
        limit: Duration = Duration::from_secs(60), unit "", range Duration::from_millis(100), Duration::from_secs(86_400), source "ours; draft-ietf-ippm-responsiveness-09 section 4 leaves it to the implementation";
    }
    check check
}

fn check(params: &Params) -> Result<(), ParamError> {
    if params.most < params.initial {
        return Err(ParamError::new("most", params.most, format!("at least initial, {}", params.initial)));
    }
    Ok(())
}

/// Returns the parameters of the algorithm.
fn algorithm(params: &Params) -> rpm::Params {
    let Params { averaged, interval, kept, tolerance, initial, added, most, probes, probe_share, .. } = *params;
    rpm::Params { averaged, interval, kept, tolerance, initial, added, most, probes, probe_share }
}

/// Payload of a request, of a response with one byte of content, and of the messages of a handshake of TLS. With headers, a foreign probe exchanges about 5000 B, and a self
/// probe less than 1000 B: draft-ietf-ippm-responsiveness-09 section 5.3.
const REQUEST: u64 = 400;
const RESPONSE: u64 = 200;
const CLIENT_HELLO: u64 = 500;
const SERVER_HELLO: u64 = 3_000;

/// Time between pairs of probes while the capacity is not known.
const FIRST_PACE: Duration = Duration::from_millis(100);
/// Foreign probes that are open at the same time, at most.
const MOST_OPEN: usize = 1_000;

/// Words for a [`Confidence`].
const CONFIDENCES: [&str; 3] = ["low", "medium", "high"];
/// Words for a [`Grade`].
const GRADES: [&str; 6] = ["A+", "A", "B", "C", "D", "F"];

const ENDED: &str = "A test that ended before the measured time has no value.";

/// Measures in addition to the load time, which is that of the test.
pub static MEASURES: [Measure; 8] = [
    Measure {
        name: "rpm",
        unit: "1/min",
        label: "responsiveness, round trips per minute",
        doc: &[
            "Mean of rpm_foreign and rpm_loaded over the last intervals (averaged), draft-ietf-ippm-responsiveness-09 section 5.3.1: the result of the test, or what it had when it, or the run, was over.",
            ENDED,
        ],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "rpm_foreign",
        unit: "1/min",
        label: "responsiveness on new connections",
        doc: &["60 s over the mean of the trimmed means of the handshakes of TCP and TLS, and of the requests, of foreign probes.", ENDED],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "rpm_loaded",
        unit: "1/min",
        label: "responsiveness on connections of the load",
        doc: &["60 s over the trimmed mean of the requests of self probes.", ENDED],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "rpm_confidence",
        unit: "",
        label: "confidence in the responsiveness",
        doc: &[
            "high if it was stable, medium if it was not but there were enough intervals for an average, else low: draft-ietf-ippm-responsiveness-09 section 5.4.1.",
            ENDED,
        ],
        kind: MeasureKind::Word(&CONFIDENCES),
    },
    Measure {
        name: "capacity_mbit",
        unit: "Mbit/s",
        label: "capacity by a test of responsiveness",
        doc: &["Moving average of the payload that the load transferred, both ways together.", ENDED],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "idle_latency_ms",
        unit: "ms",
        label: "latency of the idle path",
        doc: &["Mean time of the handshakes of TCP before the load. Other traffic of the run is not idle.", ENDED],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "latency_increase_ms",
        unit: "ms",
        label: "increase of the latency under load",
        doc: &["Mean time of the handshakes of TCP of foreign probes in the last intervals (averaged), less idle_latency_ms; at least 0.", ENDED],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "bufferbloat_grade",
        unit: "",
        label: "bufferbloat grade",
        doc: &[
            "Grade of latency_increase_ms: A+ below 5 ms, A below 30, B below 60, C below 200, D below 400, else F; dslreports.com/faq/17930.",
            ENDED,
        ],
        kind: MeasureKind::Word(&GRADES),
    },
];

/// The part that a foreign probe waits for, since when.
#[derive(Clone, Copy, Debug)]
enum ForeignStep {
    /// The handshake of TCP.
    Tcp(Instant),
    /// The handshake of TLS.
    Tls(Instant),
    /// The response.
    Http(Instant),
}

/// A connection of the load.
#[derive(Clone, Debug)]
struct LoadConnection {
    /// Which way the load goes.
    way: StreamDirection,
    /// Whether the server has the request for it.
    is_loaded: bool,
    /// When the self probes were sent that have no response.
    awaited: VecDeque<Instant>,
    /// Payload of the load that had arrived at the end of the last interval.
    counted: u64,
}

/// How far a test is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Before its start, or over.
    Silent,
    /// Probes measure the idle path.
    Idle,
    /// The load is there.
    Loaded,
}

/// The client and the server.
#[derive(Clone)]
struct Tester {
    params: Params,
    test: ResponsivenessTest,
    rng: Rng,
    stage: Stage,
    start: Instant,
    loads: Vec<LoadConnection>,
    /// By number of the connection, less [`Tester::first_foreign`].
    foreign: Vec<Option<ForeignStep>>,
    free: Vec<usize>,
    /// When the next probe is sent, and whether it is a foreign one.
    next_probe: Instant,
    foreign_next: bool,
    /// Time between two pairs of probes.
    pace: Duration,
    /// Whether the capacity is known.
    has_capacity: bool,
    next_interval: Instant,
    deadline: Instant,
    /// Times of the probes of the current interval.
    times: ProbeTimes,
    /// Handshakes of TCP before the load.
    idle: Vec<Duration>,
    /// Handshakes of TCP of the last intervals.
    recent: VecDeque<Vec<Duration>>,
    transferred: u64,
    result: Option<TestResult>,
    is_forgotten: bool,
}

/// Streams have segments of the hosts.
pub fn largest_frame(_params: &Params) -> u16 {
    0
}

/// Builds a test.
pub fn build(params: &Params, context: &AppContext) -> AnyApp {
    AnyApp::Streams(Box::new(Tester {
        test: ResponsivenessTest::new(algorithm(params)),
        rng: context.rng("self probes"),
        params: params.clone(),
        stage: Stage::Silent,
        start: Instant::NEVER,
        loads: Vec::new(),
        foreign: Vec::new(),
        free: Vec::new(),
        next_probe: Instant::NEVER,
        foreign_next: true,
        pace: FIRST_PACE,
        has_capacity: false,
        next_interval: Instant::NEVER,
        deadline: Instant::NEVER,
        times: ProbeTimes::default(),
        idle: Vec::new(),
        recent: VecDeque::new(),
        transferred: 0,
        result: None,
        is_forgotten: false,
    }))
}

impl Tester {
    /// Number of the first connection of a foreign probe: those of the load come before.
    fn first_foreign(&self) -> usize {
        2 * self.params.most as usize
    }

    fn begin_load(&mut self, now: Instant, outlet: &mut dyn StreamOutlet) {
        self.stage = Stage::Loaded;
        self.times = ProbeTimes::default();
        self.next_interval = now.saturating_add(self.params.interval);
        self.deadline = self.deadline.min(now.saturating_add(self.params.limit));
        self.add_loads(outlet);
    }

    /// Opens connections of the load until there are as many as the test wants.
    fn add_loads(&mut self, outlet: &mut dyn StreamOutlet) {
        let ways = if self.params.both { &StreamDirection::ALL[..] } else { &StreamDirection::ALL[..1] };
        while self.loads.len() < self.test.connections() as usize * ways.len() {
            let (number, way) = (self.loads.len(), ways[self.loads.len() % ways.len()]);
            self.loads.push(LoadConnection { way, is_loaded: false, awaited: VecDeque::new(), counted: 0 });
            outlet.write(number, StreamDirection::Request, REQUEST);
            if way == StreamDirection::Request {
                outlet.fill(number, way);
            }
        }
    }

    /// The next probe is due.
    fn send_probe(&mut self, now: Instant, outlet: &mut dyn StreamOutlet) {
        let is_foreign = self.foreign_next;
        self.next_probe = now.saturating_add(self.pace / 2);
        self.foreign_next = !is_foreign;
        if is_foreign {
            self.send_foreign_probe(now, outlet);
        } else {
            self.send_self_probe(now, outlet);
        }
    }

    fn send_foreign_probe(&mut self, now: Instant, outlet: &mut dyn StreamOutlet) {
        let most = if self.has_capacity { MOST_OPEN } else { 1 };
        if self.foreign.len() - self.free.len() >= most {
            return;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.foreign.push(None);
            self.foreign.len() - 1
        });
        self.foreign[place] = Some(ForeignStep::Tcp(now));
        let number = self.first_foreign() + place;
        outlet.write(number, StreamDirection::Request, if self.params.tls { CLIENT_HELLO } else { REQUEST });
    }

    fn send_self_probe(&mut self, now: Instant, outlet: &mut dyn StreamOutlet) {
        let loaded = self.loads.iter().filter(|load| load.is_loaded).count() as u64;
        if loaded == 0 {
            return;
        }
        let chosen = self.rng.draw_below(loaded) as usize;
        let Some((number, load)) = self.loads.iter_mut().enumerate().filter(|(_, load)| load.is_loaded).nth(chosen) else {
            return;
        };
        load.awaited.push_back(now);
        outlet.write(number, StreamDirection::Request, REQUEST);
    }

    fn end_interval(&mut self, now: Instant, outlet: &mut dyn StreamOutlet) {
        self.next_interval = now.saturating_add(self.params.interval);
        let mut bytes = 0;
        for (number, load) in self.loads.iter_mut().enumerate() {
            let counted = outlet.count_received(number, load.way);
            bytes += counted.saturating_sub(load.counted);
            load.counted = counted;
        }
        self.transferred += bytes;
        let times = std::mem::take(&mut self.times);
        self.recent.push_back(times.tcp_foreign.clone());
        if self.recent.len() > self.params.averaged as usize {
            self.recent.pop_front();
        }
        let rate = bytes as f64 * 8.0 / self.params.interval.as_secs_f64();
        self.has_capacity = true;
        self.pace = self.test.probe_interval(Rate(rate as u64));
        self.next_probe = self.next_probe.min(now.saturating_add(self.pace / 2));
        match self.test.on_interval(bytes, times) {
            TestStep::Continue { .. } => self.add_loads(outlet),
            TestStep::Finish(result) => self.finish(result, now, outlet),
        }
    }

    /// The test is over.
    fn finish(&mut self, result: TestResult, now: Instant, outlet: &mut dyn StreamOutlet) {
        let open = self.foreign.iter().enumerate().filter(|(_, step)| step.is_some());
        let foreign = open.map(|(place, _)| self.first_foreign() + place);
        (0..self.loads.len()).chain(foreign).for_each(|number| outlet.close(number));
        self.loads.clear();
        self.foreign.clear();
        self.free.clear();
        self.stage = Stage::Silent;
        self.result = Some(result);
        outlet.finish_load(Load { start: self.start, time: now - self.start, bytes: self.transferred });
    }

    /// The server has `bytes` of the requests of a connection.
    fn answer(&mut self, number: usize, bytes: u64, outlet: &mut dyn StreamOutlet) {
        let response = match self.loads.get_mut(number) {
            Some(load) if !load.is_loaded => {
                load.is_loaded = true;
                if load.way == StreamDirection::Response {
                    outlet.fill(number, load.way);
                }
                return;
            }
            None if self.params.tls && bytes == CLIENT_HELLO => SERVER_HELLO,
            _ => RESPONSE,
        };
        outlet.write(number, StreamDirection::Response, response);
    }

    /// The client has `bytes` of the responses of a foreign probe.
    fn receive(&mut self, place: usize, bytes: u64, now: Instant, outlet: &mut dyn StreamOutlet) {
        let Some(step) = self.foreign.get_mut(place) else { return };
        let number = 2 * self.params.most as usize + place;
        match *step {
            Some(ForeignStep::Tls(since)) if bytes == SERVER_HELLO => {
                self.times.tls_foreign.push(now.saturating_since(since));
                *step = Some(ForeignStep::Http(now));
                outlet.write(number, StreamDirection::Request, REQUEST);
            }
            Some(ForeignStep::Http(since)) => {
                *step = None;
                self.free.push(place);
                outlet.close(number);
                self.times.http_foreign.push(now.saturating_since(since));
            }
            _ => {}
        }
    }

    fn is_over(&self) -> bool {
        self.result.is_some()
    }
}

impl StreamApp for Tester {
    crate::fork_by_clone!(dyn StreamApp);

    fn connections(&self) -> usize {
        0
    }

    fn start(&mut self, now: Instant) {
        (self.start, self.next_probe) = (now, now);
    }

    fn stop(&mut self, now: Instant) {
        if self.stage == Stage::Silent {
            self.next_probe = Instant::NEVER;
        } else {
            self.deadline = self.deadline.min(now);
        }
    }

    fn next_timer(&self) -> Instant {
        if self.is_over() {
            return Instant::NEVER;
        }
        self.next_probe.min(self.next_interval).min(self.deadline)
    }

    fn on_timer(&mut self, now: Instant, outlet: &mut dyn StreamOutlet) {
        if self.stage == Stage::Silent {
            outlet.begin_load();
            self.stage = Stage::Idle;
            self.next_interval = now.saturating_add(self.params.idle);
        }
        if self.next_interval <= now {
            if self.stage == Stage::Idle {
                self.begin_load(now, outlet);
            } else {
                self.end_interval(now, outlet);
            }
        }
        if self.deadline <= now && !self.is_over() {
            self.finish(self.test.stop(), now, outlet);
        }
        if self.next_probe <= now && !self.is_over() {
            self.send_probe(now, outlet);
        }
    }

    fn on_connected(&mut self, connection: usize, at: Instant, _outlet: &mut dyn StreamOutlet) {
        let Some(place) = connection.checked_sub(self.first_foreign()) else { return };
        let Some(step) = self.foreign.get_mut(place) else { return };
        let Some(ForeignStep::Tcp(since)) = *step else { return };
        let time = at.saturating_since(since);
        *step = Some(if self.params.tls { ForeignStep::Tls(at) } else { ForeignStep::Http(at) });
        if self.stage == Stage::Idle {
            self.idle.push(time);
        }
        self.times.tcp_foreign.push(time);
    }

    fn on_arrival(
        &mut self,
        StreamArrival { connection, way, bytes }: StreamArrival,
        now: Instant,
        outlet: &mut dyn StreamOutlet,
    ) {
        match (way, connection.checked_sub(self.first_foreign())) {
            (StreamDirection::Request, _) => self.answer(connection, bytes, outlet),
            (StreamDirection::Response, Some(place)) => self.receive(place, bytes, now, outlet),
            (StreamDirection::Response, None) => {
                let since = self.loads.get_mut(connection).and_then(|load| load.awaited.pop_front());
                self.times.http_loaded.extend(since.map(|since| now.saturating_since(since)));
            }
        }
    }

    fn forget(&mut self, _now: Instant) {
        self.is_forgotten = self.is_over();
    }

    fn figures(&mut self, _now: Instant) -> Vec<f64> {
        if self.is_forgotten || self.start == Instant::NEVER {
            return vec![f64::NAN; MEASURES.len()];
        }
        let result = self.result.unwrap_or_else(|| self.test.stop());
        let loaded: Vec<Duration> = self.recent.iter().flatten().copied().collect();
        let (idle, loaded) = (compute_trimmed_mean(&self.idle, 1.0), compute_trimmed_mean(&loaded, 1.0));
        let increase = idle.zip(loaded).map(|(idle, loaded)| (loaded - idle).max(0.0));
        let grade = increase.map(|seconds| Grade::of_increase(Duration((seconds * 1e9) as u64)));
        let ms = |seconds: Option<f64>| seconds.map_or(f64::NAN, |seconds| seconds * 1e3);
        let of = |get: fn(&rpm::Responsiveness) -> f64| result.responsiveness.as_ref().map_or(f64::NAN, get);
        let confidence = match result.confidence {
            Confidence::Low => 0.0,
            Confidence::Medium => 1.0,
            Confidence::High => 2.0,
        };
        vec![
            of(rpm::Responsiveness::mean),
            of(|one| one.foreign),
            of(|one| one.loaded),
            confidence,
            if self.recent.is_empty() { f64::NAN } else { result.goodput / 1e6 },
            ms(idle),
            ms(increase),
            grade.map_or(f64::NAN, |grade| f64::from(grade as u8)),
        ]
    }
}

#[cfg(test)]
mod tests;
