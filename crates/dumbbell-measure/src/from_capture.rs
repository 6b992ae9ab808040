//! Runs that another engine carried out: what was captured on both sides of each queue, and what the senders said of
//! themselves, becomes the tables that a simulation gives, by the same code.
//!
//! Times count from the start of the run, on one clock. What the simulator knows and a capture does not is left out of the
//! tables ([`columns`](crate::columns) says what), or has no value: samples of the RTT estimator.

mod apps;
mod events;
mod records;
pub mod tail_drop;

pub use self::apps::{told, APP_BYTES};

use self::apps::CapturedApps;
use self::events::{events, QueueEvent};
pub use self::records::{sampled, PACKET_BYTES, SAMPLE_BYTES};
use self::records::{CapturedFrame, CapturedSample, UNKNOWN};
use crate::capacity;
use crate::classes::Totals;
use crate::columns::EngineKind;
use crate::flow::FlowCounts as OnWay;
use crate::flow::{FlowResult, SenderState};
use crate::hop_log::{AckCounters, Backlog, HopCounts, HopLog};
use crate::measure::{AnswerCounts, Measures, SeriesView};
use crate::outcome::outcome;
use crate::short_flows::ShortFlow;
use crate::together::{FlowProgress, LOOK};
use crate::transit::{patience, Transit};
use crate::Outcome;
use dumbbell_config::schedule::{AppEndpoint, Schedule};
use dumbbell_config::{Classes, Route, RunConfig, BOTTLENECK, SAMPLE_INTERVAL};
use dumbbell_core::histogram::{CompactHistogram, Histogram};
use dumbbell_core::link::{htb, Link, LinkContext};
use dumbbell_core::link_layer::LinkLayer;
use dumbbell_core::log::{At, DropSite, Log, Mark, MarkReason};
use dumbbell_core::packet::{flag, Packet, UDP_HEADERS};
use dumbbell_core::param::ParamError;
use dumbbell_core::record::{Counters, FlowCounters, FlowLog, LinkUse};
use dumbbell_core::tcp::stats::{ReceiverStats, SenderStats};
use dumbbell_core::units::{Duration, Instant, Rate};
use serde_json::Value;
use std::collections::BTreeMap;

/// Why captures gave no result.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ParamError),
    /// The captures of a run contradict each other.
    #[error("capture: {0}")]
    Capture(String),
}

/// Captures at the queue of a hop.
#[derive(Clone, Debug, Default)]
pub struct HopCaptures<'a> {
    /// Packets that reached the queue, in order: records of [`PACKET_BYTES`].
    pub arrived: &'a [u8],
    /// Packets that left the queue, in order.
    pub sent: &'a [u8],
    /// Whether the queue discipline drops and marks packets as they arrive, and not as they leave.
    pub signals_on_arrival: bool,
    /// Whether packets of different flows may overtake each other in the queue. Those of one flow never do.
    pub flow_queues: bool,
    /// Packets that fit into the queue: what comes while so many are queued is dropped. `None` if that is unknown.
    pub limit: Option<u64>,
    /// Counters of the queue discipline itself at the end of the run, by name. `drops` helps to find drops.
    pub counters: BTreeMap<String, u64>,
}

/// Captures of a run.
#[derive(Clone, Debug, Default)]
pub struct Capture<'a> {
    /// The bottleneck, then the other hops in the order of [`RunConfig::hops`].
    pub hops: Vec<HopCaptures<'a>>,
    /// Reports of senders in order of time: records of [`SAMPLE_BYTES`].
    pub samples: &'a [u8],
    /// Reports of applications in order of time: records of [`APP_BYTES`].
    pub apps: &'a [u8],
    /// Clock of the captures at the start of the run, ns.
    pub started: u64,
}

/// An event between the packets. At one instant, events have the order of the simulator's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CaptureEvent {
    Started(u32),
    /// Counting begins of a flow, or is over.
    Flow {
        flow: u32,
        over: bool,
    },
    Point,
    Look,
    QueueOver,
    QueueBegins,
}

/// The link of a hop, as far as captures show it: the token bucket that it stands at, or that stands in front of it.
struct SeenLink<'a> {
    layer: LinkLayer,
    bucket: htb::State,
    /// Most bytes that the bucket lends: it is asked for another burst of a sender while it has no debt.
    most_debt: u64,
    /// Bytes on the link that left the queue.
    taken: u64,
    /// Value of `taken` when it was last settled.
    settled: u64,
    /// Changes of its rate that are still to come.
    changes: std::iter::Peekable<Box<dyn Iterator<Item = (Instant, Rate)> + 'a>>,
}

/// The largest burst that a sender's segmentation offload makes, bytes.
const LARGEST_BURST: u64 = 65_536;

impl SeenLink<'_> {
    fn new(config: &RunConfig, hop: usize) -> SeenLink<'_> {
        let params = config.hop_params(hop);
        let changes = config.rate_changes.iter().filter(move |change| usize::from(change.hop) == hop);
        let changes: Box<dyn Iterator<Item = (Instant, Rate)>> = Box::new(changes.map(|change| (change.at, change.rate)));
        SeenLink {
            layer: params.layer(),
            bucket: htb::State::new(
                htb::Params { burst: params.burst },
                &LinkContext { rate: params.rate, seed: 0, run_seed: 0 },
            ),
            most_debt: u64::from(params.burst) + 2 * LARGEST_BURST,
            taken: 0,
            settled: 0,
            changes: changes.peekable(),
        }
    }

    fn go_to(&mut self, now: Instant) {
        while let Some((at, rate)) = self.changes.next_if(|&(at, _)| at <= now) {
            self.bucket.set_rate(rate, at);
        }
        self.bucket.debt(now);
    }

    fn take(&mut self, len: u16, now: Instant) {
        self.go_to(now);
        let bytes = u64::from(self.layer.wire_bytes(len));
        self.bucket.take(bytes, now);
        self.taken += bytes;
    }

    /// Bytes that it has carried.
    fn carried_bytes(&mut self, now: Instant) -> i64 {
        self.go_to(now);
        self.settled = self.taken;
        self.taken as i64 - self.bucket.unsent(now).min(self.most_debt) as i64
    }
}

/// A hop while its events are counted.
struct CaptureHop<'a> {
    name: &'a str,
    counters: Counters,
    acks: AckCounters,
    held: Backlog,
    /// Propagation behind its link.
    delay: Duration,
    /// Counters of the queue discipline itself.
    discipline: &'a BTreeMap<String, u64>,
    link: SeenLink<'a>,
    /// Counts when counting began, and at the last point of the time series.
    begun: HopCounts,
    before: HopCounts,
}

impl CaptureHop<'_> {
    fn count_now(&self) -> HopCounts {
        HopCounts::now(&self.counters.queue, &self.acks)
    }

    fn count(&mut self, time: Instant, event: QueueEvent, frame: &CapturedFrame) {
        let flags = if frame.back { flag::BACK } else { 0 };
        let packet = Packet { flow: frame.flow, len: frame.len, ..Packet::new_frame_slot(0, frame.ecn, flags) };
        let bytes = u64::from(frame.len);
        let log = &mut (&mut self.counters, &mut self.acks);
        if matches!(event, QueueEvent::Dropped(_) | QueueEvent::Sent(_)) {
            self.held = Backlog { packets: self.held.packets - 1, bytes: self.held.bytes - bytes };
        }
        match event {
            QueueEvent::Arrived => {
                log.on_arrival(&packet, time);
                self.held = Backlog { packets: self.held.packets + 1, bytes: self.held.bytes + bytes };
            }
            QueueEvent::Dropped(reason) => log.on_drop(&packet, reason, DropSite::Queue, At::time(time)),
            QueueEvent::Marked(before) => log.on_mark(&packet, before, Mark::Ce, MarkReason::Aqm, At::time(time)),
            QueueEvent::Sent(since) => {
                log.on_dequeue(&Packet { enqueue_time: since, ..packet }, At::time(time));
                self.link.take(frame.len, time);
            }
            QueueEvent::Departed { .. } => {
                log.on_departure(&packet, time);
                self.counters.queue.link_layer_bytes += i64::from(self.link.layer.wire_bytes(frame.len)) - bytes as i64;
            }
        }
    }

    /// Brings what the link has carried up to `now`.
    fn settle(&mut self, now: Instant) {
        let queue = &mut self.counters.queue;
        queue.carried_bytes = queue.carried_bytes.max(self.link.carried_bytes(now));
    }
}

/// A run while its events are counted.
struct Replay<'a> {
    config: &'a RunConfig,
    classes: &'a Classes,
    schedule: &'a Schedule,
    samples: Vec<Vec<CapturedSample>>,
    /// Answers of each flow up to the last point, and the number of samples that contain them.
    answered: Vec<(usize, AnswerCounts)>,
    hops: Vec<CaptureHop<'a>>,
    received: Vec<ReceiverStats>,
    /// One-way delays of each source of UDP.
    transits: Vec<Transit>,
    /// When the packets of UDP that is answered reached their first queue, by source.
    asked: Vec<Vec<Instant>>,
    /// Reports of applications.
    apps: CapturedApps,
    /// When packets of UDP that pass several hops reached the first one, by flow, number and identification.
    born: BTreeMap<(u32, u32, u16), Instant>,
    measures: Measures,
    hop_log: HopLog,
}

impl Replay<'_> {
    fn count_listed(&self) -> usize {
        self.config.flows.len() + self.config.udp.len()
    }

    /// The number of the first short flow.
    fn first_short(&self) -> usize {
        self.count_listed() + self.apps.kept
    }

    /// Class, base RTT and route of flow `number`.
    fn flow_path(&self, number: usize) -> (u16, Duration, &Route) {
        let flows = self.config.flows.len();
        if let Some(flow) = self.config.flows.get(number) {
            return (self.classes.of_flow[number], flow.params.base_rtt, &flow.route);
        }
        if let Some(udp) = self.config.udp.get(number - flows) {
            return (self.classes.of_udp[number - flows], udp.line().0, &udp.route);
        }
        if let Some(endpoint) = self.app_endpoint(number) {
            let AppEndpoint { app, way, .. } = self.apps.endpoints[endpoint];
            let one = &self.config.apps[app as usize];
            return (self.classes.of_app[app as usize][way.index()], one.params.base_rtt, one.route(way));
        }
        let process = self.schedule.web[number - self.first_short()].process;
        let web = &self.config.web[process];
        (self.classes.of_web[process], web.params.base_rtt, &web.route)
    }

    /// How far the clock of the sender of flow `number` is ahead of the queues'.
    fn clock_lead(&self, number: usize) -> Duration {
        match self.flow_path(number) {
            (_, _, Route { up: true, .. }) => Duration::ZERO,
            (_, base_rtt, _) => base_rtt / 2,
        }
    }

    /// Returns the counters of the data of flow `number` along their route.
    fn of_flow(&self, number: usize) -> FlowCounters {
        let (_, _, route) = self.flow_path(number);
        let of = |&hop: &u16| self.hops[usize::from(hop)].counters.flows.flow_counters(number as u32);
        route.data.iter().map(of).reduce(|all, next| all.then(&next)).unwrap_or_default()
    }

    /// Returns the counts of the listed flows on their path.
    fn on_way(&self) -> Vec<OnWay> {
        (0..self.count_listed()).map(|number| OnWay { counters: self.of_flow(number), received: self.received[number] }).collect()
    }

    fn count(&mut self, time: Instant, event: QueueEvent, hop: u16, frame: &CapturedFrame) {
        self.hops[usize::from(hop)].count(time, event, frame);
        if frame.back {
            return;
        }
        let number = frame.flow as usize;
        let (_, base_rtt, route) = self.flow_path(number);
        let (first, last) = (route.data.first() == Some(&hop), route.data.last() == Some(&hop));
        let udp = number.checked_sub(self.config.flows.len()).filter(|&udp| udp < self.transits.len());
        let name = (frame.flow, frame.seq, frame.id);
        if let (QueueEvent::Arrived, true, Some(udp)) = (event, first, udp) {
            if self.config.udp[udp].params.echo {
                self.asked[udp].push(time);
            }
        }
        match event {
            QueueEvent::Arrived if first && !last && udp.is_some() => {
                self.born.insert(name, time);
            }
            QueueEvent::Dropped(_) if udp.is_some() => {
                self.born.remove(&name);
            }
            QueueEvent::Departed { since, delay } if last => {
                let received = &mut self.received[number];
                received.count(&Packet { flow: frame.flow, len: frame.len, ..Packet::new_frame_slot(0, frame.ecn, 0) });
                if let Some(transit) = udp.and_then(|udp| self.transits.get_mut(udp)) {
                    received.bytes += u64::from(frame.len.saturating_sub(UDP_HEADERS));
                    let earlier = self.born.remove(&name).map_or(Duration::ZERO, |born| since.saturating_since(born));
                    let behind = self.hops[usize::from(hop)].delay + base_rtt / 2;
                    transit.record_delay(earlier + delay + behind);
                }
            }
            _ => {}
        }
    }

    /// The last sample of a flow that was taken by `time`.
    fn last(&self, number: usize, time: Instant) -> Option<&CapturedSample> {
        let of_flow = &self.samples[number];
        of_flow[..of_flow.partition_point(|one| one.time <= time)].last()
    }

    fn first_flagged(&self, number: usize, flag: u32) -> Option<&CapturedSample> {
        self.samples[number].iter().find(|one| one.flags & flag != 0)
    }

    fn payload(&self, number: usize, time: Instant) -> u64 {
        if number < self.config.flows.len() {
            self.last(number, time).map_or(0, |one| one.bytes_acked)
        } else {
            self.received[number].bytes
        }
    }

    /// Returns the data of the listed flows that have arrived by `now`.
    fn flow_progress(&self, now: Instant) -> Vec<FlowProgress> {
        let of = |number: usize| {
            let finished = self.first_flagged(number, sampled::COMPLETE).map(|one| one.time + self.clock_lead(number));
            let frames = self.received[number].frame_bytes;
            FlowProgress { payload: self.payload(number, now), frames, finished: finished.filter(|&at| at <= now) }
        };
        (0..self.count_listed()).map(of).collect()
    }

    fn series_view(&mut self, number: usize, time: Instant) -> SeriesView {
        let last = self.last(number, time);
        let is_tcp = number < self.config.flows.len();
        let sender = is_tcp.then(|| last.map_or_else(SenderState::default, |one| one.sender));
        let payload = self.payload(number, time);
        let (counted, answered) = &mut self.answered[number];
        for one in self.samples[number][*counted..].iter().take_while(|one| one.time <= time) {
            *counted += 1;
            if one.flags & sampled::ANSWER != 0 {
                answered.add(one.sender.srtt_us);
            }
        }
        let answered = *answered;
        let counters = self.of_flow(number);
        let sent = if is_tcp { self.last(number, time).map_or(0, |one| u64::from(one.sent)) } else { counters.arrived };
        SeriesView { payload, sender, answered, sent, dropped: counters.count_dropped() }
    }

    /// Returns the result of flow `number` when its sender gave `sample`; on the queue's clock that is `now`.
    fn result(&self, number: usize, sample: Option<&CapturedSample>, now: Instant) -> FlowResult {
        let ahead = self.clock_lead(number);
        let start = self.first_flagged(number, sampled::START).map_or(now, |one| one.time + ahead);
        let counters = self.of_flow(number);
        let received = self.received[number];
        let common = FlowResult { start, end: now, min_rtt_us: u32::MAX, counters, receiver: received, ..FlowResult::default() };
        if let Some(transit) = number.checked_sub(self.config.flows.len()).and_then(|udp| self.transits.get(udp)) {
            let transit = Some(Box::new(transit.clone()));
            let end = self.first_flagged(number, sampled::END).map_or(now, |one| (one.time + ahead).min(now));
            let sender = SenderStats { sent: counters.arrived, ..SenderStats::default() };
            return FlowResult { end, payload: received.bytes, sender, transit, ..self.add_answer_rtts(number, common, now) };
        }
        let Some(sample) = sample else { return common };
        let mut samples = crate::flow::Samples::default();
        let from = self.config.measured_from();
        for one in self.samples[number].iter().filter(|one| one.flags & sampled::POLL != 0 && one.time > from) {
            samples.add(&one.sender);
        }
        if samples.count == 0 {
            samples.add(&sample.sender);
        }
        let over = sample.flags & sampled::COMPLETE != 0;
        FlowResult {
            end: if over { sample.time + ahead } else { now },
            payload: sample.bytes_acked,
            min_rtt_us: if sample.sender.srtt_us == 0 { u32::MAX } else { sample.min_rtt_us },
            completion: over.then(|| sample.time + ahead - start),
            samples,
            sender: SenderStats {
                sent: u64::from(sample.sent),
                retransmissions: sample.sender.retransmissions,
                timeouts: u64::from(if sample.timeouts == UNKNOWN { 0 } else { sample.timeouts }),
                ..SenderStats::default()
            },
            receiver: ReceiverStats { duplicates: u64::from(sample.duplicates), ..received },
            ..common
        }
    }

    /// Adds the RTTs of answers by `now` to a result, if UDP is answered.
    fn add_answer_rtts(&self, number: usize, common: FlowResult, now: Instant) -> FlowResult {
        if !self.config.udp[number - self.config.flows.len()].params.echo {
            return common;
        }
        let (from, mut found) = (self.config.measured_from(), common);
        let mut rtts = CompactHistogram::default();
        let (mut last_answered, mut most) = (Instant::ZERO, None);
        let ahead = self.clock_lead(number);
        for one in self.samples[number].iter().filter(|one| one.flags & sampled::ANSWER != 0) {
            found.min_rtt_us = found.min_rtt_us.min(one.sender.srtt_us);
            let rtt = Duration(one.bytes_acked);
            if one.time + ahead <= now {
                most = most.max(Some(rtt));
                // a millisecond for what a guest takes to send; pings are further apart
                last_answered = last_answered.max((one.time + ahead).saturating_sub(rtt) + Duration::from_millis(1));
            }
            if one.time > from {
                found.samples.add(&SenderState { srtt_us: one.sender.srtt_us, ..SenderState::default() });
                rtts.record(rtt);
            }
        }
        let due_by = last_answered.max(now.saturating_sub(patience(most)));
        let asked = &self.asked[number - self.config.flows.len()];
        let due = asked.partition_point(|&at| at <= due_by) as u64;
        FlowResult { rtt_samples: Some(rtts), due: Some(due), ..found }
    }

    fn begin_flow(&mut self, flow: u32, now: Instant) {
        let (number, listed) = (flow as usize, self.count_listed());
        let before = self.result(number, self.last(number, self.config.measured_from()), now);
        self.measures.begin_flow(flow, listed, before, now);
        if let Some(transit) = number.checked_sub(self.config.flows.len()).and_then(|udp| self.transits.get_mut(udp)) {
            transit.forget();
        }
    }

    fn finish_flow(&mut self, flow: u32, now: Instant) {
        let (number, listed) = (flow as usize, self.count_listed());
        let result = self.result(number, self.first_flagged(number, sampled::END), now);
        if number < listed {
            self.measures.finish_flow(flow, listed, result);
        } else {
            self.finish_short_flow(number, &result);
        }
    }

    fn handle_event(&mut self, due: CaptureEvent, now: Instant) {
        let listed = self.count_listed();
        match due {
            CaptureEvent::Started(_) => {
                let arrived = self.flow_progress(now);
                self.measures.together.start_flow(now, arrived.into_iter());
            }
            CaptureEvent::Look => {
                if self.measures.together.next() == now {
                    let arrived = self.flow_progress(now);
                    self.measures.together.update(now, arrived.into_iter());
                }
            }
            CaptureEvent::Flow { flow, over } => match self.app_endpoint(flow as usize) {
                Some(endpoint) if over => self.finish_app((flow as usize, endpoint), now),
                Some(endpoint) => self.begin_app((flow as usize, endpoint), now),
                None if over => self.finish_flow(flow, now),
                None => self.begin_flow(flow, now),
            },
            CaptureEvent::Point => {
                self.hops.iter_mut().for_each(|hop| hop.settle(now));
                let seen: Vec<SeriesView> = (0..listed).map(|number| self.series_view(number, now)).collect();
                let CaptureHop { counters, held, .. } = &self.hops[0];
                self.measures.point(now, seen.into_iter(), counters.queue, *held);
                for hop in &mut self.hops {
                    let counted = hop.count_now();
                    self.hop_log.point(now, hop.name, hop.held, counted.subtract(&hop.before));
                    hop.before = counted;
                }
            }
            CaptureEvent::QueueOver => {
                self.hops.iter_mut().for_each(|hop| hop.settle(now));
                let flows = self.on_way();
                let CaptureHop { counters, discipline, .. } = &self.hops[0];
                self.measures.finish_queue(counters, (*discipline).clone(), flows);
                if !self.config.is_one_hop() {
                    self.measures.hops = Some(self.finish_hops());
                }
            }
            CaptureEvent::QueueBegins => {
                self.hops.iter_mut().for_each(|hop| hop.settle(now));
                let flows = self.on_way();
                self.measures.begin_queue(&mut self.hops[0].counters, flows);
                for hop in &mut self.hops {
                    hop.counters.flows.sojourn.iter_mut().for_each(|of_class| *of_class = Histogram::default());
                    hop.begun = hop.count_now();
                }
            }
        }
    }

    fn finish_hops(&mut self) -> HopLog {
        let mut log = std::mem::take(&mut self.hop_log);
        for (number, hop) in self.hops.iter().enumerate() {
            let sojourn = &hop.counters.flows.sojourn;
            log.hop((number, hop.name), hop.count_now().subtract(&hop.begun), sojourn, hop.discipline.clone(), self.config);
        }
        log.longest(&self.classes.list, |hop| &self.hops[usize::from(hop)].counters.flows.sojourn);
        log
    }

    fn finish_short_flow(&mut self, number: usize, result: &FlowResult) {
        let ((class, base_rtt, _), ahead) = (self.flow_path(number), self.clock_lead(number));
        let start = result.start - ahead;
        if start < self.config.measured_from() || self.first_flagged(number, sampled::START).is_none() {
            return;
        }
        let size = self.schedule.web[number - self.first_short()].size;
        let completion = result.completion;
        self.measures.short_flows.add(ShortFlow { number: number as u32, class, size, start, completion, base_rtt });
        let totals: &mut Totals = &mut self.measures.short_totals[usize::from(class)];
        totals.add(result);
    }

    /// Everything that is due, in order.
    fn agenda(&self) -> Vec<(Instant, CaptureEvent)> {
        let (from, end) = (self.config.measured_from(), self.config.end());
        let mut agenda = vec![(end, CaptureEvent::QueueOver)];
        if from > Instant::ZERO {
            agenda.push((from, CaptureEvent::QueueBegins));
        }
        for flow in 0..self.samples.len() as u32 {
            let ahead = self.clock_lead(flow as usize);
            if let (Some(start), true) =
                (self.first_flagged(flow as usize, sampled::START), (flow as usize) < self.config.flows.len())
            {
                agenda.push((start.time + ahead, CaptureEvent::Started(flow)));
            }
            let is_short = flow as usize >= self.first_short() && self.app_endpoint(flow as usize).is_none();
            if from > Instant::ZERO && !is_short {
                agenda.push((from + ahead, CaptureEvent::Flow { flow, over: false }));
            }
            agenda.push((end + ahead, CaptureEvent::Flow { flow, over: true }));
        }
        if let Some(interval) = self.config.series_interval() {
            agenda.extend((1..=end.0 / interval.0).map(|point| (Instant::ZERO + interval * point, CaptureEvent::Point)));
        }
        let starts =
            (0..self.config.flows.len()).map(|flow| Some(self.first_flagged(flow, sampled::START)?.time + self.clock_lead(flow)));
        if let Some(last) = starts.max().flatten() {
            agenda.extend((1..=end.saturating_since(last).0 / LOOK.0).map(|look| (last + LOOK * look, CaptureEvent::Look)));
        }
        agenda.sort_unstable();
        agenda
    }
}

/// The tables of a run of `config` from what was `captured` of it.
///
/// # Errors
/// A configuration that cannot be used, or captures that do not fit together.
pub fn measure(config: &Value, captured: &Capture) -> Result<Outcome, CaptureError> {
    let config = RunConfig::from_json(config)?;
    if captured.hops.len() != config.hops.len() + 1 {
        let found = format!("{} hops were captured, and the run has {}", captured.hops.len(), config.hops.len() + 1);
        return Err(CaptureError::Capture(found));
    }
    for hop in 0..=config.hops.len() {
        if let Some((key, found)) = config.simulated_link(hop) {
            return Err(ParamError::new(format!("{}.{key}", config.hop_name(hop)), found, "shaper, in what is captured").into());
        }
    }
    let (classes, schedule) = (config.classes(), Schedule::new(&config));
    let apps = CapturedApps::read(&config, &schedule, captured.apps)?;
    let of_apps = config.flows.len() + config.udp.len();
    let senders = of_apps + apps.endpoints.len() + schedule.web.len();
    let mut samples: Vec<Vec<CapturedSample>> = vec![Vec::new(); senders];
    for record in captured.samples.chunks_exact(SAMPLE_BYTES) {
        let sample = CapturedSample::read(record);
        let of_flow = samples.get_mut(sample.flow as usize);
        of_flow.ok_or_else(|| CaptureError::Capture(format!("a sample of flow {}, of {senders}", sample.flow)))?.push(sample);
    }
    let mut all = Vec::new();
    for (number, hop) in captured.hops.iter().enumerate() {
        let found = events(hop, captured.started, (number, &config), senders)?;
        let assign = |frame| apps.assign(of_apps as u32, frame);
        all.extend(found.into_iter().map(|(time, event, frame)| (time, event, number as u16, assign(frame))));
    }
    if captured.hops.len() > 1 {
        all.sort_by_key(|&(time, ..)| time);
    }
    let names = std::iter::once((BOTTLENECK, config.delay)).chain(config.hops.iter().map(|hop| (&hop.name[..], hop.delay)));
    let hops = names.zip(&captured.hops).enumerate().map(|(number, ((name, delay), captured))| CaptureHop {
        name,
        counters: Counters { flows: FlowLog::new(classes.list.len()), ..Counters::default() },
        acks: AckCounters::default(),
        held: Backlog::default(),
        delay,
        discipline: &captured.counters,
        link: SeenLink::new(&config, number),
        begun: HopCounts::default(),
        before: HopCounts::default(),
    });
    let measures = Measures::new(&config, classes.list.len());
    let timed_out = samples.iter().flatten().all(|one| one.timeouts != UNKNOWN);
    let mut replay = Replay {
        config: &config,
        classes: &classes,
        schedule: &schedule,
        answered: vec![(0, AnswerCounts::default()); samples.len()],
        samples,
        hops: hops.collect(),
        received: vec![ReceiverStats::default(); senders],
        transits: vec![Transit::default(); config.udp.len()],
        asked: vec![Vec::new(); config.udp.len()],
        apps,
        born: BTreeMap::new(),
        measures,
        hop_log: HopLog::default(),
    };
    for number in 0..senders {
        let (class, _, _) = replay.flow_path(number);
        replay.hops.iter_mut().for_each(|hop| hop.counters.flows.flow_starts(number as u32, class));
    }
    let mut packets = all.iter().peekable();
    for (at, due) in replay.agenda() {
        while let Some((time, event, hop, frame)) = packets.next_if(|(time, ..)| *time <= at) {
            replay.count(*time, *event, *hop, frame);
        }
        replay.handle_event(due, at);
    }
    replay.apps.finish(&config, &schedule, &mut replay.measures);
    for (number, hop) in replay.hops.iter().enumerate() {
        // the kernel counts times of packets in whole nanoseconds, so that each may leave one too early (psched_l2t_ns, sch_generic.h)
        let early = hop.link.bucket.bytes_in(Duration(hop.counters.queue.packets)) + hop.link.bucket.most_unsent();
        let given = LinkUse { bytes: hop.link.settled, ahead: early };
        capacity::check(&config, number, config.end(), &hop.counters.queue, given).map_err(CaptureError::Capture)?;
    }
    let mut found = outcome(replay.measures, &config, &classes, all.len() as u64);
    found.keep_columns_of(EngineKind::Linux);
    if !timed_out {
        found.tables.flows.remove("timeouts");
    }
    if captured.hops.iter().any(|hop| hop.limit.is_none()) {
        found.clear_counts(&["drops_overflow", "drops_aqm"]);
    }
    Ok(found)
}

/// Senders are sampled this often, ns.
pub const POLL_NS: u64 = SAMPLE_INTERVAL.0;
