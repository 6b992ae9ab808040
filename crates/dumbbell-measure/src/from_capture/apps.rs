//! Applications in a guest: what their users waited for, and which datagrams arrived.

use super::records::{long, word, CapturedFrame};
use super::{sampled, CaptureError, CapturedSample, Replay};
use crate::flow::{FlowResult, Samples, SenderState};
use crate::measure::Measures;
use crate::transit::Transit;
use dumbbell_config::schedule::{AppEndpoint, Schedule};
use dumbbell_config::RunConfig;
use dumbbell_core::app::{AppKind, Load, StreamDirection};
use dumbbell_core::packet::{Ecn, Packet, HEADERS, UDP_HEADERS};
use dumbbell_core::record::FlowCounters;
use dumbbell_core::tcp::stats::{ReceiverStats, SenderStats};
use dumbbell_core::units::{Duration, Instant};

/// Length of a record.
pub const APP_BYTES: usize = 40;

/// The kinds of records, in the first of two words; the second says whose the record is. Four numbers of 64 bits follow.
pub mod told {
    /// User: starts to wait for a load. When.
    pub const BEGUN: u32 = 1;
    /// User: has all of a load. When it was requested, after which time it was there, bytes.
    pub const LOAD: u32 = 2;
    /// Endpoint: a datagram arrived. When, after which delay, bytes of its frame, ECN field.
    pub const ARRIVAL: u32 = 3;
    /// User: the value of a measure. Which way, its place among the measures of the application, its bits.
    pub const FIGURE: u32 = 4;
    /// User: opens a connection that is not there for the whole run. The number of its responses in the run, and its number among those of the user.
    pub const OPENED: u32 = 5;
}

/// A datagram that arrived.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Instant,
    delay: Duration,
    frame: u16,
    ecn: Ecn,
}

/// Datagrams of one endpoint, up to the last that was counted.
#[derive(Clone, Debug, Default)]
struct Arrivals {
    all: Vec<Arrival>,
    counted: usize,
    transit: Transit,
    received: ReceiverStats,
}

/// Everything that the applications of a run reported.
#[derive(Clone, Debug, Default)]
pub struct CapturedApps {
    /// Both ways of all connections: those of the whole run, then the others in the order in which they opened.
    pub endpoints: Vec<AppEndpoint>,
    /// How many of them there are for the whole run. Their numbers come behind those of listed flows, those of the others behind those of short flows.
    pub kept: usize,
    /// Number of short flows.
    short: usize,
    arrivals: Vec<Arrivals>,
    begun: Vec<(u32, Instant)>,
    loads: Vec<(u32, Load)>,
    /// Values of measures by user and way.
    figures: Vec<[Vec<f64>; 2]>,
    /// Applications of users, by what they are made of.
    kinds: Vec<AppKind>,
}

impl CapturedApps {
    /// Reads records of [`APP_BYTES`].
    ///
    /// # Errors
    /// Records of users or endpoints that the run has not.
    pub fn read(config: &RunConfig, schedule: &Schedule, records: &[u8]) -> Result<CapturedApps, CaptureError> {
        let endpoints = schedule.app_endpoints();
        let users = config.apps.len();
        let mut found = CapturedApps {
            arrivals: vec![Arrivals::default(); endpoints.len()],
            kept: endpoints.len(),
            short: schedule.web.len(),
            endpoints,
            figures: vec![Default::default(); users],
            kinds: config.apps.iter().map(|app| app.spec.kind()).collect(),
            ..CapturedApps::default()
        };
        let listed = config.flows.len() + config.udp.len();
        for record in records.chunks_exact(APP_BYTES) {
            let (kind, whose) = (word(record, 0), word(record, 4));
            let [first, second, third, fourth] = [8, 16, 24, 32].map(|at| long(record, at));
            let stranger = || CaptureError::Capture(format!("a record {kind} of application {whose}, of {users}"));
            match kind {
                told::BEGUN if (whose as usize) < users => found.begun.push((whose, Instant(first))),
                told::LOAD if (whose as usize) < users => {
                    found.loads.push((whose, Load { start: Instant(first), time: Duration(second), bytes: third }));
                }
                told::ARRIVAL => {
                    let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][(fourth & 3) as usize];
                    let arrival = Arrival { at: Instant(first), delay: Duration(second), frame: third as u16, ecn };
                    found.arrivals.get_mut(whose as usize).ok_or_else(stranger)?.all.push(arrival);
                }
                told::FIGURE if (whose as usize) < users && first < 2 => {
                    let of_way = &mut found.figures[whose as usize][first as usize];
                    let place = second as usize;
                    if place >= config.apps[whose as usize].spec.measures().len() {
                        return Err(stranger());
                    }
                    of_way.resize(of_way.len().max(place + 1), f64::NAN);
                    of_way[place] = f64::from_bits(third);
                }
                told::OPENED if (whose as usize) < users && first == (listed + found.short + found.endpoints.len()) as u64 => {
                    let connection = u32::try_from(second).map_err(|_| stranger())?;
                    found.endpoints.extend(StreamDirection::ALL.map(|way| AppEndpoint { app: whose, connection, way }));
                }
                _ => return Err(stranger()),
            }
        }
        Ok(found)
    }

    /// The place among the endpoints of the one with this number behind listed flows, if it has one.
    pub fn find_endpoint(&self, number: usize) -> Option<usize> {
        if number < self.kept {
            return Some(number);
        }
        let place = number.checked_sub(self.short)?;
        (self.kept..self.endpoints.len()).contains(&place).then_some(place)
    }

    fn kind(&self, endpoint: usize) -> AppKind {
        self.kinds[self.endpoints[endpoint].app as usize]
    }

    /// Whether an endpoint sends datagrams.
    pub fn has_datagrams(&self, endpoint: usize) -> bool {
        !matches!(self.kind(endpoint), AppKind::Streams(_))
    }

    /// A frame of a connection, with the number `first` of its responses, as one of the endpoint that sent it: both ways of a connection have the same
    /// ports. A segment of one way acknowledges the other, so that one without data belongs to the other way. Reports on media are answers.
    pub fn assign(&self, first: u32, frame: CapturedFrame) -> CapturedFrame {
        let Some(endpoint) = frame.flow.checked_sub(first).and_then(|number| self.find_endpoint(number as usize)) else {
            return frame;
        };
        let carries = match self.kind(endpoint) {
            AppKind::Media => return frame,
            AppKind::Datagrams => true,
            AppKind::Streams(_) => frame.payload > 0,
        };
        CapturedFrame { flow: frame.flow + u32::from(frame.back == carries), back: !carries, ..frame }
    }

    /// Counts the datagrams of an endpoint that had arrived by `until`.
    pub fn count_arrivals(&mut self, endpoint: usize, until: Instant) {
        let Arrivals { all, counted, transit, received } = &mut self.arrivals[endpoint];
        while let Some(&Arrival { delay, frame, ecn, .. }) = all.get(*counted).filter(|one| one.at <= until) {
            *counted += 1;
            transit.record_delay(delay);
            received.count(&Packet { len: frame, ..Packet::new_frame_slot(0, ecn, 0) });
            received.data += 1;
            received.bytes += u64::from(frame.saturating_sub(UDP_HEADERS));
        }
    }

    /// The delays of the datagrams of an endpoint so far do not count.
    pub fn forget_delays(&mut self, endpoint: usize) {
        self.arrivals[endpoint].transit.forget();
    }

    /// The delays of the datagrams of an endpoint, and the counts of its receiver.
    pub fn count_received(&self, endpoint: usize) -> (&Transit, ReceiverStats) {
        (&self.arrivals[endpoint].transit, self.arrivals[endpoint].received)
    }

    /// Values of the measures of a user, one way.
    pub fn figures(&self, app: u32, way: StreamDirection) -> Vec<f64> {
        self.figures[app as usize][way.index()].clone()
    }

    /// Hands over what users waited for, and when they started.
    pub fn finish(&self, config: &RunConfig, schedule: &Schedule, measures: &mut Measures) {
        for (user, arrival) in measures.apps.users.iter_mut().zip(&schedule.apps) {
            user.start = arrival.at;
        }
        self.begun.iter().for_each(|&(app, at)| measures.apps.begin_load(app, at));
        self.loads.iter().for_each(|&(app, load)| measures.apps.finish_load(app, load));
        for (app, one) in (0..).zip(&config.apps) {
            if let AppKind::Streams(way) = one.spec.kind() {
                measures.apps.set_figures(app, way, self.figures(app, way));
            }
        }
    }
}

impl Replay<'_> {
    /// The place of flow `number` among the endpoints of applications, if it is one.
    pub(super) fn app_endpoint(&self, number: usize) -> Option<usize> {
        self.apps.find_endpoint(number.checked_sub(self.count_listed())?)
    }

    /// The result of endpoint `endpoint` of applications, which is flow `number`, as [`Replay::result`].
    fn app_result(&mut self, (number, endpoint): (usize, usize), sample: Option<&CapturedSample>, now: Instant) -> FlowResult {
        let (ahead, passes_hops) = (self.clock_lead(number), !self.flow_path(number).2.data.is_empty());
        let (at, base_rtt) = (now.saturating_sub(ahead), self.flow_path(number).1);
        let sent = sample.map_or(0, |one| u64::from(one.sent));
        if !self.apps.has_datagrams(endpoint) {
            let result = self.result(number, sample, now);
            if passes_hops {
                return result;
            }
            // without a hop nothing is captured, and nothing is lost
            let counters = FlowCounters { arrived: sent, departed: sent, ..FlowCounters::default() };
            let frame_bytes = result.payload + sent * u64::from(HEADERS);
            let receiver = ReceiverStats { arrived: sent, data: sent, bytes: result.payload, frame_bytes, ..result.receiver };
            return FlowResult { counters, receiver, ..result };
        }
        // what was sent until then has as long to arrive as without a queue
        self.apps.count_arrivals(endpoint, at + base_rtt / 2);
        let (transit, receiver) = self.apps.count_received(endpoint);
        let counters = if passes_hops {
            self.of_flow(number)
        } else {
            FlowCounters { arrived: sent, departed: receiver.arrived, ..FlowCounters::default() }
        };
        let (mut samples, mut min_rtt_us) = (Samples::default(), u32::MAX);
        let answers = self.samples[number].iter().filter(|one| one.flags & sampled::ANSWER != 0);
        for one in answers.take_while(|one| one.time + ahead <= now) {
            min_rtt_us = min_rtt_us.min(one.sender.srtt_us);
            if one.time > self.config.measured_from() {
                samples.add(&SenderState { srtt_us: one.sender.srtt_us, ..SenderState::default() });
            }
        }
        FlowResult {
            start: self.first_flagged(number, sampled::START).map_or(now, |one| one.time + ahead),
            end: now,
            min_rtt_us,
            samples,
            payload: receiver.bytes,
            sender: SenderStats { sent, ..SenderStats::default() },
            transit: Some(Box::new(transit.clone())),
            receiver,
            counters,
            ..FlowResult::default()
        }
    }

    /// Whether flow `number`, a connection, was closed before the measured time.
    fn closed_early(&self, number: usize) -> bool {
        let closed = self.first_flagged(number, sampled::COMPLETE);
        closed.is_some_and(|one| one.time < self.config.measured_from())
    }

    /// The measured time of endpoint `endpoint` of applications, which is flow `number`, is over.
    pub(super) fn finish_app(&mut self, (number, endpoint): (usize, usize), now: Instant) {
        if self.first_flagged(number, sampled::START).is_none() || self.closed_early(number) {
            return;
        }
        let sample = self.first_flagged(number, sampled::END).copied();
        let result = self.app_result((number, endpoint), sample.as_ref(), now);
        let (class, ..) = self.flow_path(number);
        let AppEndpoint { app, way, .. } = self.apps.endpoints[endpoint];
        let figures = self.apps.figures(app, way);
        let result = self.measures.apps.finish_endpoint((endpoint, app, way), result, |_| figures);
        self.measures.short_totals[usize::from(class)].add(&result);
    }

    /// The measured time of endpoint `endpoint` of applications, which is flow `number`, begins.
    pub(super) fn begin_app(&mut self, (number, endpoint): (usize, usize), now: Instant) {
        let from = self.config.measured_from();
        let is_kept = endpoint < self.apps.kept;
        // a connection that opens later, or is closed, has nothing to leave out
        let is_open = self.first_flagged(number, sampled::START).is_some_and(|one| one.time <= from);
        if !is_kept && (!is_open || self.closed_early(number)) {
            return;
        }
        let sample = self.last(number, from).copied();
        let before = self.app_result((number, endpoint), sample.as_ref(), now);
        self.measures.apps.begin_endpoint(endpoint, before, now);
        if is_kept {
            self.apps.forget_delays(endpoint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{measure, Capture, HopCaptures};
    use super::*;
    use serde_json::{json, Value};

    fn record(kind: u32, whose: u32, numbers: [u64; 4]) -> Vec<u8> {
        let head = [kind, whose].into_iter().flat_map(u32::to_le_bytes);
        head.chain(numbers.into_iter().flat_map(u64::to_le_bytes)).collect()
    }

    fn sample(time_ms: u64, number: u32, flags: u32, (acked, sent): (u64, u32)) -> Vec<u8> {
        let mut words: Vec<u8> = (time_ms * 1_000_000).to_le_bytes().to_vec();
        [number, flags, 0, 0, 0, 0].iter().for_each(|word| words.extend(word.to_le_bytes()));
        words.extend(acked.to_le_bytes());
        [0, 0, sent, 0, 0, 0].iter().for_each(|word: &u32| words.extend(word.to_le_bytes()));
        words
    }

    fn config(app: &Value, from_ms: u64) -> Value {
        json!({
            "duration": 1_000_000_000_u64, "bottleneck": {"aqm": {"name": "pfifo"}}, "app": [app],
            "record": {"from": from_ms * 1_000_000},
        })
    }

    fn frame(flow: u32, back: bool, payload: u32) -> CapturedFrame {
        let len = 66 + payload as u16;
        CapturedFrame { time: Instant::ZERO, flow, seq: 0, id: 0, len, ecn: Ecn::NotEct, back, payload }
    }

    fn read_none(app: &Value) -> CapturedApps {
        let config = RunConfig::from_json(&config(app, 0)).expect("a configuration");
        CapturedApps::read(&config, &Schedule::new(&config), &[]).expect("no records")
    }

    #[test]
    fn a_segment_belongs_to_the_way_of_its_data_and_acknowledges_the_other() {
        let apps = read_none(&json!({"kind": {"name": "pages"}, "cc": {"name": "cubic"}}));
        let assigned = |flow, back, payload| {
            let found = apps.assign(3, frame(flow, back, payload));
            (found.flow, found.back)
        };
        // the responses of the second connection are flow 5, its requests flow 6
        assert_eq!([assigned(5, false, 1448), assigned(5, true, 400)], [(5, false), (6, false)]);
        assert_eq!([assigned(5, true, 0), assigned(5, false, 0)], [(5, true), (6, true)]);
        // others than those of applications stay
        assert_eq!([assigned(2, true, 0), assigned(15, false, 0)], [(2, true), (15, false)]);
    }

    #[test]
    fn datagrams_without_payload_of_tcp_are_data_both_ways() {
        let apps = read_none(&json!({"kind": {"name": "call"}}));
        let assigned = |back| apps.assign(0, frame(0, back, 0));
        assert_eq!((assigned(false).flow, assigned(false).back), (0, false));
        assert_eq!((assigned(true).flow, assigned(true).back), (1, false));
    }

    #[test]
    fn a_video_has_data_one_way_and_its_reports_are_answers() {
        let apps = read_none(&json!({"kind": {"name": "video", "control": "nada"}}));
        let assigned = |back| apps.assign(0, frame(0, back, 0));
        assert_eq!([false, true].map(|back| (assigned(back).flow, assigned(back).back)), [(0, false), (0, true)]);
    }

    #[test]
    fn connections_that_open_during_the_run_have_the_numbers_behind_short_flows() {
        let app = json!({"kind": {"name": "request", "fresh": true}, "cc": {"name": "cubic"}});
        let web = json!([{"cc": {"name": "cubic"}, "arrivals": {"per_second": 20.0}, "size": {"fixed": 20_000}}]);
        let mut table = config(&app, 500);
        table["web"] = web;
        let parsed = RunConfig::from_json(&table).expect("a configuration");
        let schedule = Schedule::new(&parsed);
        let first = schedule.web.len() as u32;
        assert!(first > 0);
        let opened =
            [record(told::OPENED, 0, [u64::from(first), 0, 0, 0]), record(told::OPENED, 0, [u64::from(first) + 2, 0, 0, 0])];
        let apps = CapturedApps::read(&parsed, &schedule, &opened.concat()).expect("two connections");
        let found = |number: usize| apps.find_endpoint(number).map(|place| apps.endpoints[place].way);
        let ends = [StreamDirection::Response, StreamDirection::Request].map(Some);
        assert_eq!((found(0), found(first as usize - 1), found(first as usize + 4)), (None, None, None));
        assert_eq!([0, 1, 2, 3].map(|place| found(first as usize + place)), [ends[0], ends[1], ends[0], ends[1]]);
        let request = apps.assign(0, frame(first + 2, true, 400));
        assert_eq!((request.flow, request.back), (first + 3, false));
        let wrong = record(told::OPENED, 0, [u64::from(first) + 1, 0, 0, 0]);
        assert!(CapturedApps::read(&parsed, &schedule, &wrong).is_err());
    }

    #[test]
    fn what_closed_connections_counted_in_the_measured_time_is_kept() {
        // closed ahead of the measured time, across its start, within it, and never
        let whose: Vec<u8> = (0..4).flat_map(|pair| record(told::OPENED, 0, [2 * pair, 0, 0, 0])).collect();
        let closed = sampled::END | sampled::COMPLETE;
        let samples = [
            sample(100, 0, sampled::START, (0, 0)),
            sample(200, 0, closed, (1_000, 1)),
            sample(300, 2, sampled::START, (0, 0)),
            sample(400, 2, sampled::POLL, (10_000, 10)),
            sample(700, 2, closed, (30_000, 30)),
            sample(700, 4, sampled::START, (0, 0)),
            sample(900, 4, closed, (50_000, 50)),
            sample(900, 6, sampled::START, (0, 0)),
            sample(1000, 6, sampled::POLL | sampled::END, (7_000, 7)),
        ];
        let captured = Capture {
            hops: vec![HopCaptures { limit: Some(100), ..HopCaptures::default() }],
            samples: &samples.concat(),
            apps: &whose,
            started: 0,
        };
        let app = json!({"kind": {"name": "request", "fresh": true}, "cc": {"name": "cubic"}});
        let found = measure(&config(&app, 400), &captured).expect("a result");
        // 20 of the second's segments, 50 of the third's, and 7 of the last's
        assert_eq!(found.tables.apps.int("sent"), Some(&[77][..]));
        let goodput = found.tables.apps.real("goodput_mbit").expect("a column")[0];
        assert!((goodput - 77_000.0 * 8e-6 / 0.6).abs() < 1e-9, "{goodput}");
    }

    #[test]
    fn delays_count_in_the_measured_time_and_lost_ones_by_captures() {
        // base RTT 20 ms: what was sent by 400 ms and arrived by 410 ms came before the measured time
        let arrival = |at_ms: u64, delay_ms: u64| record(told::ARRIVAL, 1, [at_ms * 1_000_000, delay_ms * 1_000_000, 142, 0]);
        let mut apps = [arrival(410, 10), arrival(411, 20), arrival(1009, 40), arrival(1011, 80)].concat();
        apps.extend(record(told::FIGURE, 0, [1, 0, 0.25_f64.to_bits(), 0]));
        let samples = [
            sample(0, 1, sampled::START, (0, 0)),
            sample(400, 1, sampled::POLL, (100, 1)),
            sample(1000, 1, sampled::POLL | sampled::END, (200, 3)),
        ];
        let captured = Capture {
            hops: vec![HopCaptures { limit: Some(100), ..HopCaptures::default() }],
            samples: &samples.concat(),
            apps: &apps,
            started: 0,
        };
        let found = measure(&config(&json!({"kind": {"name": "call"}}), 400), &captured).expect("a result");
        let table = found.tables.apps;
        let real = |name: &str| table.real(name).expect("a column")[1];
        // 20 and 40 ms; two datagrams of 100 B in 0.6 s
        assert_eq!((real("delay_mean_ms"), real("delay_max_ms"), real("late_share")), (30.0, 40.0, 0.25));
        assert!((real("goodput_mbit") - 2.0 * 800e-6 / 0.6).abs() < 1e-12);
        assert_eq!((table.int("sent").expect("a column")[1], real("loss_share")), (2, 0.0));
    }

    #[test]
    fn loads_and_figures_of_streams_reach_their_tables() {
        let apps = [
            record(told::BEGUN, 0, [100_000_000, 0, 0, 0]),
            record(told::LOAD, 0, [100_000_000, 50_000_000, 9_000, 0]),
            record(told::BEGUN, 0, [950_000_000, 0, 0, 0]),
            record(told::FIGURE, 0, [0, 1, 0.5_f64.to_bits(), 0]),
        ];
        let samples = [
            sample(100, 0, sampled::START, (0, 0)),
            sample(100, 1, sampled::START, (0, 0)),
            sample(1000, 0, sampled::END, (9_000, 7)),
            sample(1000, 1, sampled::END, (400, 1)),
        ];
        let captured = Capture {
            hops: vec![HopCaptures { limit: Some(100), ..HopCaptures::default() }],
            samples: &samples.concat(),
            apps: &apps.concat(),
            started: 0,
        };
        let found =
            measure(&config(&json!({"kind": {"name": "pages"}, "cc": {"name": "cubic"}}), 0), &captured).expect("a result");
        let (table, loads) = (found.tables.apps, found.tables.app_loads);
        assert_eq!(
            [table.int("loads_begun"), table.int("loads"), table.int("sent")],
            [Some(&[2][..]), Some(&[1][..]), Some(&[7][..])]
        );
        assert_eq!((loads.real("load_s"), loads.int("size_bytes")), (Some(&[0.05][..]), Some(&[9_000][..])));
        let figures = [table.real("object_p50_s"), table.real("object_p95_s")].map(|column| column.expect("a column")[0]);
        assert!(figures[0].is_nan() && figures[1] == 0.5);
        assert!((table.real("goodput_mbit").expect("a column")[0] - 0.072).abs() < 1e-12);
    }

    #[test]
    fn records_of_what_the_run_has_not_are_errors() {
        let config = RunConfig::from_json(&config(&json!({"kind": {"name": "call"}}), 0)).expect("a configuration");
        let schedule = Schedule::new(&config);
        let wrong = [
            record(told::BEGUN, 1, [0; 4]),
            record(told::ARRIVAL, 2, [0; 4]),
            record(told::FIGURE, 0, [2, 0, 0, 0]),
            record(told::FIGURE, 0, [0, 99, 0, 0]),
            record(9, 0, [0; 4]),
        ];
        for records in wrong {
            let error = CapturedApps::read(&config, &schedule, &records).expect_err("a stranger");
            assert!(error.to_string().contains("of application"), "{error}");
        }
    }
}
