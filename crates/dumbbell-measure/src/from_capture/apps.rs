//! Applications in a guest: what their users waited for, and which datagrams arrived.

use super::records::{long, word, CapturedFrame};
use super::{sampled, CaptureError, CapturedSample, Replay};
use crate::flow::FlowResult;
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
    /// Both ways of all connections, by number behind all flows.
    pub endpoints: Vec<AppEndpoint>,
    arrivals: Vec<Arrivals>,
    begun: Vec<(u32, Instant)>,
    loads: Vec<(u32, Load)>,
    /// Values of measures by user and way.
    figures: Vec<[Vec<f64>; 2]>,
    /// Whether users have streams.
    streams: Vec<bool>,
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
            endpoints,
            figures: vec![Default::default(); users],
            streams: config.apps.iter().map(|app| app.spec.has_streams()).collect(),
            ..CapturedApps::default()
        };
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
                _ => return Err(stranger()),
            }
        }
        Ok(found)
    }

    /// Whether an endpoint sends datagrams.
    pub fn has_datagrams(&self, endpoint: usize) -> bool {
        !self.streams[self.endpoints[endpoint].app as usize]
    }

    /// A frame of a connection, with the number `first` of its responses, as one of the endpoint that sent it: both ways of a connection have the same
    /// ports. A segment of one way acknowledges the other, so that one without data belongs to the other way.
    pub fn assign(&self, first: u32, frame: CapturedFrame) -> CapturedFrame {
        let Some(endpoint) = frame.flow.checked_sub(first).filter(|&number| (number as usize) < self.endpoints.len()) else {
            return frame;
        };
        let sent_by = endpoint + u32::from(frame.back);
        let carries = self.has_datagrams(endpoint as usize) || frame.payload > 0;
        let whose = if carries { sent_by } else { endpoint + u32::from(!frame.back) };
        CapturedFrame { flow: first + whose, back: !carries, ..frame }
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
    pub fn arrived(&self, endpoint: usize) -> (&Transit, ReceiverStats) {
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
    /// The first number of an endpoint of an application: they come behind all flows.
    fn first_app(&self) -> usize {
        self.count_listed() + self.schedule.web.len()
    }

    /// The place of flow `number` among the endpoints of applications, if it is one.
    pub(super) fn app_endpoint(&self, number: usize) -> Option<usize> {
        number.checked_sub(self.first_app())
    }

    /// The result of an endpoint of an application, which is flow `number`, as [`Replay::result`].
    fn app_result(&mut self, number: usize, sample: Option<&CapturedSample>, now: Instant) -> FlowResult {
        let (ahead, passes_hops) = (self.clock_lead(number), !self.flow_path(number).2.data.is_empty());
        let (at, base_rtt) = (now.saturating_sub(ahead), self.flow_path(number).1);
        let endpoint = number - self.first_app();
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
        let (transit, receiver) = self.apps.arrived(endpoint);
        let counters = if passes_hops {
            self.of_flow(number)
        } else {
            FlowCounters { arrived: sent, departed: receiver.arrived, ..FlowCounters::default() }
        };
        FlowResult {
            start: self.first_flagged(number, sampled::START).map_or(now, |one| one.time + ahead),
            end: now,
            min_rtt_us: u32::MAX,
            payload: receiver.bytes,
            sender: SenderStats { sent, ..SenderStats::default() },
            transit: Some(Box::new(transit.clone())),
            receiver,
            counters,
            ..FlowResult::default()
        }
    }

    /// The measured time of an endpoint of an application, which is flow `number`, is over.
    pub(super) fn finish_app(&mut self, number: usize, now: Instant) {
        if self.first_flagged(number, sampled::START).is_none() {
            return;
        }
        let sample = self.first_flagged(number, sampled::END).copied();
        let endpoint = number - self.first_app();
        let result = self.app_result(number, sample.as_ref(), now);
        let (class, ..) = self.flow_path(number);
        let AppEndpoint { app, way, .. } = self.apps.endpoints[endpoint];
        let figures = self.apps.figures(app, way);
        let result = self.measures.apps.finish_endpoint((endpoint, app, way), result, |_| figures);
        self.measures.short_totals[usize::from(class)].add(&result);
    }

    /// The measured time of an endpoint of an application, which is flow `number`, begins.
    pub(super) fn begin_app(&mut self, number: usize, now: Instant) {
        let endpoint = number - self.first_app();
        let sample = self.last(number, self.config.measured_from()).copied();
        let before = self.app_result(number, sample.as_ref(), now);
        self.measures.apps.begin_endpoint(endpoint, before, now);
        self.apps.forget_delays(endpoint);
    }
}
