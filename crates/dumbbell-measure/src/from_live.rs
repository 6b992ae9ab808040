//! Runs on the real clock: what the bottleneck, and a queue on the way back, counted and what the senders said of themselves becomes the tables that a simulation
//! gives, by the same code.
//!
//! Values that the simulator knows and a sender's TCP_INFO lacks are left out of the tables ([`columns`](crate::columns) lists them), or have no
//! value: samples of the RTT estimator. Such a run has no UDP, and so no column of its one-way delay.

use crate::columns::EngineKind;
pub use crate::flow::{FlowCounts, SenderState};
use crate::flow::{FlowResult, Samples};
pub use crate::hop_log::AckCounters;
use crate::hop_log::{Backlog, HopCounts as AtHop, HopLog};
use crate::measure::{Measures, SeriesView};
use crate::outcome::outcome;
use crate::together::FlowProgress;
use crate::Outcome;
use dumbbell_config::{Classes, FlowConfig, RunConfig, BOTTLENECK};
use dumbbell_core::histogram::Histogram;
use dumbbell_core::record::{Counters, QueueCounters};
use dumbbell_core::tcp::stats::SenderStats;
use dumbbell_core::units::{Duration, Instant};
use std::sync::Arc;

/// State that a TCP sender reports (TCP_INFO, linux/tcp.h).
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpSample {
    /// When, since the start of the run.
    pub time: Instant,
    /// Whether it is one of those every 200 ms, whose mean counts.
    pub is_regular: bool,
    /// Round-trip time, window and retransmissions.
    pub sender: SenderState,
    /// Smallest RTT, us; the largest number before the first.
    pub min_rtt_us: u32,
    /// Payload that was acknowledged, bytes.
    pub payload: u64,
    /// Data segments sent, retransmissions included.
    pub sent: u64,
    /// Retransmission timeouts; none where the kernel does not count them.
    pub timeouts: Option<u64>,
}

/// A flow of `[[flows]]`, as its sender saw it.
#[derive(Clone, Debug, Default)]
pub struct LiveFlow {
    /// When it connected; none if it never did.
    pub start: Option<Instant>,
    /// When all of its payload had been acknowledged.
    pub finished: Option<Instant>,
    /// In order of time.
    pub samples: Vec<TcpSample>,
}

impl LiveFlow {
    /// The last sample until `time`.
    fn sample_at(&self, time: Instant) -> Option<&TcpSample> {
        let later = self.samples.partition_point(|sample| sample.time <= time);
        self.samples[..later].last()
    }

    fn payload(&self, time: Instant) -> u64 {
        self.sample_at(time).map_or(0, |sample| sample.payload)
    }
}

/// A hop at some time of a run.
pub struct LiveHop<'a> {
    /// Counters of the queue.
    pub counters: &'a mut Counters,
    /// Counters of acknowledgements.
    pub acks: &'a AckCounters,
    /// Packets that are queued.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Counters that the queue discipline itself keeps, by name; asked for at the end only.
    pub of_discipline: Vec<(String, u64)>,
}

impl LiveHop<'_> {
    fn count_now(&self) -> AtHop {
        AtHop::now(&self.counters.queue, self.acks)
    }
}

/// A point of the time series.
struct Point {
    time: Instant,
    counters: QueueCounters,
    backlog: Backlog,
}

fn name_of(config: &RunConfig, hop: usize) -> &str {
    hop.checked_sub(1).map_or(BOTTLENECK, |other| &config.hops[other].name)
}

/// Takes down what hops count while a run goes on.
pub struct LiveRecorder {
    config: Arc<RunConfig>,
    classes: Classes,
    measures: Measures,
    points: Vec<Point>,
    hop_log: HopLog,
    /// Counts of each hop when counting began, and at the last point of the time series.
    hops_begun: Vec<AtHop>,
    hops_before: Vec<AtHop>,
    begun: Vec<FlowCounts>,
    ended: Vec<FlowCounts>,
    /// Frames of each flow that had reached the receiver, at looks every [`LOOK`](crate::together::LOOK).
    looks: Vec<(Instant, Vec<u64>)>,
}

impl LiveRecorder {
    /// Returns a recorder for a run of `config`.
    pub fn new(config: Arc<RunConfig>) -> LiveRecorder {
        let classes = config.classes();
        let measures = Measures::new(&config, classes.list.len());
        let hops = vec![AtHop::default(); config.hops.len() + 1];
        let (points, hop_log, begun, ended, looks) = Default::default();
        LiveRecorder {
            config,
            classes,
            measures,
            points,
            hop_log,
            hops_begun: hops.clone(),
            hops_before: hops,
            begun,
            ended,
            looks,
        }
    }

    /// The connection classes of the run.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Counting begins: what the `hops`, the bottleneck and then the others, hold until now does not count. `flows` are those of the listed flows.
    pub fn begin(&mut self, hops: &mut [LiveHop], flows: Vec<FlowCounts>) {
        if let Some(first) = hops.first_mut() {
            self.measures.begin_queue(first.counters, flows.clone());
        }
        for (hop, begun) in hops.iter_mut().zip(&mut self.hops_begun) {
            hop.counters.flows.sojourn.iter_mut().for_each(|of_class| *of_class = Histogram::default());
            *begun = hop.count_now();
        }
        self.begun = flows;
    }

    /// A point of the time series at `time`, with what is queued then.
    pub fn point(&mut self, time: Instant, hops: &[LiveHop]) {
        let backlog = |hop: &LiveHop| Backlog { packets: hop.packets, bytes: hop.bytes };
        if let Some(first) = hops.first() {
            self.points.push(Point { time, counters: first.counters.queue, backlog: backlog(first) });
        }
        for (number, hop) in hops.iter().enumerate() {
            let counted = hop.count_now();
            let before = std::mem::replace(&mut self.hops_before[number], counted);
            self.hop_log.point(time, name_of(&self.config, number), backlog(hop), counted.subtract(&before));
        }
    }

    /// Records the counts of the flows at `time`, every [`LOOK`](crate::together::LOOK) from the start of the run.
    pub fn record_counts(&mut self, time: Instant, flows: &[FlowCounts]) {
        self.looks.push((time, flows.iter().map(|flow| flow.received.frame_bytes).collect()));
    }

    /// Frames of flow `number` that had reached the receiver at `time`, bytes; between two looks they count as spread evenly.
    fn frames(&self, number: usize, now: Instant) -> u64 {
        let later = self.looks.partition_point(|(time, _)| *time <= now);
        let (before, from) =
            later.checked_sub(1).map_or((Instant::ZERO, 0), |last| (self.looks[last].0, self.looks[last].1[number]));
        let Some((after, to)) = self.looks.get(later) else { return from };
        let part = (now - before).as_secs_f64() / (*after - before).as_secs_f64();
        from + (to[number].saturating_sub(from) as f64 * part) as u64
    }

    /// Follows what the flows get in the time that they have in common.
    fn follow(&mut self, flows: &[LiveFlow]) {
        let mut starts: Vec<Instant> = flows.iter().filter_map(|flow| flow.start).collect();
        starts.sort_unstable();
        let arrived = |recorder: &LiveRecorder, now: Instant| -> Vec<FlowProgress> {
            let of = |(number, flow): (usize, &LiveFlow)| FlowProgress {
                payload: flow.payload(now),
                frames: recorder.frames(number, now),
                finished: flow.finished.filter(|&at| at <= now),
            };
            flows.iter().enumerate().map(of).collect()
        };
        for start in starts {
            let seen = arrived(self, start);
            self.measures.together.start_flow(start, seen.into_iter());
        }
        while self.measures.together.next() <= self.config.end() {
            let now = self.measures.together.next();
            let seen = arrived(self, now);
            self.measures.together.update(now, seen.into_iter());
        }
    }

    /// The run is over.
    pub fn end(&mut self, hops: &[LiveHop], flows: Vec<FlowCounts>) {
        self.ended.clone_from(&flows);
        let Some(first) = hops.first() else { return };
        self.measures.finish_queue(first.counters, first.of_discipline.clone(), flows);
        if self.config.is_one_hop() {
            return;
        }
        let mut log = std::mem::take(&mut self.hop_log);
        for (number, hop) in hops.iter().enumerate() {
            let of_discipline = hop.of_discipline.iter().cloned().collect();
            let counted = hop.count_now().subtract(&self.hops_begun[number]);
            log.hop((number, name_of(&self.config, number)), counted, &hop.counters.flows.sojourn, of_discipline, &self.config);
        }
        log.longest(&self.classes.list, |hop| &hops[usize::from(hop)].counters.flows.sojourn);
        self.measures.hops = Some(log);
    }

    /// Returns the outcome after `events` events, with the reports of the senders of the listed `flows`.
    pub fn finish(mut self, flows: &[LiveFlow], events: u64) -> Outcome {
        let (from, end) = (self.config.measured_from(), self.config.end());
        self.follow(flows);
        std::mem::take(&mut self.points).iter().for_each(|point| self.take(point, flows));
        for (number, flow) in flows.iter().enumerate() {
            let FlowConfig { params, route, .. } = &self.config.flows[number];
            let ahead = if route.up { Duration::ZERO } else { params.base_rtt / 2 };
            if from > Instant::ZERO {
                let before = result(flow, self.begun.get(number), Instant::ZERO, from, ahead);
                self.measures.begin_flow(number as u32, flows.len(), before, from + ahead);
            }
            let result = result(flow, self.ended.get(number), from, end, ahead);
            self.measures.finish_flow(number as u32, flows.len(), result);
        }
        let mut found = outcome(self.measures, &self.config, &self.classes, events);
        let timed_out = flows.iter().flat_map(|flow| &flow.samples).all(|sample| sample.timeouts.is_some());
        found.keep_columns_of(EngineKind::Live);
        if !timed_out {
            found.tables.flows.remove("timeouts");
        }
        found
    }

    fn take(&mut self, point: &Point, flows: &[LiveFlow]) {
        let seen = flows.iter().map(|flow| {
            let sender = flow.sample_at(point.time).map_or_else(SenderState::default, |sample| sample.sender);
            SeriesView { payload: flow.payload(point.time), sender: Some(sender), ..SeriesView::default() }
        });
        self.measures.point(point.time, seen, point.counters, point.backlog);
    }
}

/// Returns the result of a flow at `now`, where the samples that count are those after `from`. Times of results are on the clock of the
/// simulator's queue, which is `ahead` of the senders'.
fn result(flow: &LiveFlow, counted: Option<&FlowCounts>, from: Instant, now: Instant, ahead: Duration) -> FlowResult {
    let FlowCounts { counters, received } = counted.copied().unwrap_or_default();
    let start = flow.start.unwrap_or(now).min(now);
    let common = FlowResult {
        start: start + ahead,
        end: now + ahead,
        min_rtt_us: u32::MAX,
        counters,
        receiver: received,
        ..FlowResult::default()
    };
    let Some(last) = flow.sample_at(now) else { return common };
    let mut samples = Samples::default();
    for sample in flow.samples.iter().filter(|one| one.is_regular && one.time > from && one.time <= now) {
        samples.add(&sample.sender);
    }
    if samples.count == 0 {
        samples.add(&last.sender);
    }
    let finished = flow.finished.filter(|&finished| finished <= now);
    FlowResult {
        end: finished.unwrap_or(now) + ahead,
        payload: last.payload,
        min_rtt_us: if last.sender.srtt_us == 0 { u32::MAX } else { last.min_rtt_us },
        completion: finished.map(|finished| finished - start),
        samples,
        sender: SenderStats {
            sent: last.sent,
            retransmissions: last.sender.retransmissions,
            timeouts: last.timeouts.unwrap_or(0),
            ..SenderStats::default()
        },
        ..common
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;
    use dumbbell_core::record::FlowCounters;
    use dumbbell_core::tcp::stats::ReceiverStats;
    use serde_json::json;

    fn sample(ms: u64, payload: u64, srtt_us: u32, is_regular: bool) -> TcpSample {
        let time = Instant::from_millis(ms);
        let (sent, timeouts) = (payload / 1448, Some(2));
        let sender = SenderState { srtt_us, cwnd: 10, ..SenderState::default() };
        TcpSample { time, is_regular, sender, min_rtt_us: 20_000, payload, sent, timeouts }
    }

    #[test]
    fn goodput_rtt_and_series_are_those_reckoned_by_hand() {
        let config = json!({"duration": 2_000_000_000_u64,
            "bottleneck": {"rate": 10_000_000, "aqm": {"name": "codel"}},
            "flows": [{"cc": {"name": "cubic"}, "base_rtt": 20_000_000, "start": {"min": 0, "max": 0}, "count": 1}]});
        let config = Arc::new(RunConfig::from_json(&config).expect("a configuration"));
        let mut recorder = LiveRecorder::new(Arc::clone(&config));
        let of = |packets| QueueCounters { packets, bytes: packets * 1514, ..QueueCounters::default() };
        let acks = AckCounters::default();
        for (second, packets, queued) in [(1, 100, 3), (2, 300, 0)] {
            let counters = &mut Counters { queue: of(packets), ..Counters::default() };
            let of_discipline = Vec::new();
            let hop = LiveHop { counters, acks: &acks, packets: queued, bytes: queued * 1514, of_discipline };
            recorder.point(Instant::from_secs(second), &[hop]);
        }
        let counted = FlowCounts {
            counters: FlowCounters { arrived: 300, departed: 300, ..FlowCounters::default() },
            received: ReceiverStats { frame_bytes: 300 * 1514, ..ReceiverStats::default() },
        };
        let counters = &mut Counters { queue: of(300), ..Counters::default() };
        let of_discipline = vec![("new_flows".into(), 7)];
        recorder.end(&[LiveHop { counters, acks: &acks, packets: 0, bytes: 0, of_discipline }], vec![counted]);
        let flow = LiveFlow {
            start: Some(Instant::ZERO),
            finished: None,
            samples: vec![
                sample(200, 10_000, 30_000, true),
                sample(1000, 100_000, 40_000, true),
                sample(2000, 400_000, 99_000, false),
            ],
        };
        let found = recorder.finish(&[flow], 600);
        let row = |name: &str| found.tables.flows.real(name).expect("a column")[0];
        assert_eq!(found.tables.flows.int("timeouts"), Some(&[2][..]));
        // 400 kB in 2 s; the mean of 30 and 40 ms: the last sample is none of those every 200 ms
        assert!((row("goodput_mbit") - 1.6).abs() < 1e-12);
        assert_eq!((row("rtt_mean_ms"), row("start_s")), (35.0, 0.0));
        assert_eq!(row("throughput_mbit"), 300.0 * 1514.0 * 8e-6 / 2.0);
        let series = found.tables.series.real("goodput_mbit").expect("a column");
        assert!(series.iter().zip([0.8, 2.4]).all(|(real, expected)| (real - expected).abs() < 1e-12), "{series:?}");
        assert_eq!(found.tables.queue_series.int("backlog_packets"), Some(&[3, 0][..]));
        assert_eq!(found.summary["utilisation"].as_f64(), Some(300.0 * 1514.0 * 8.0 / 2e7));
        assert_eq!(found.summary["aqm_counters"]["new_flows"], json!(7));
        assert!(["probes", "ecn_reductions", "duplicates"].iter().all(|name| found.tables.flows.column(name).is_none()));
        for table in [&found.tables.flows, &found.tables.classes, &Table::row(&found.summary)] {
            assert!(table.columns.len() > 10);
            assert!(
                table.columns.iter().all(|(name, _)| !name.starts_with("delay_") && !name.starts_with("jitter_")),
                "{table:?}"
            );
        }
    }

    #[test]
    fn a_kernel_that_counts_no_timeouts_has_no_column_of_them() {
        let config = json!({"duration": 1_000_000_000_u64,
            "bottleneck": {"rate": 10_000_000, "aqm": {"name": "codel"}},
            "flows": [{"cc": {"name": "cubic"}, "base_rtt": 20_000_000, "start": {"min": 0, "max": 0}, "count": 1}]});
        let mut recorder = LiveRecorder::new(Arc::new(RunConfig::from_json(&config).expect("a configuration")));
        let (counters, acks) = (&mut Counters::default(), &AckCounters::default());
        recorder.end(&[LiveHop { counters, acks, packets: 0, bytes: 0, of_discipline: Vec::new() }], vec![FlowCounts::default()]);
        let samples = vec![TcpSample { timeouts: None, ..sample(200, 10_000, 30_000, true) }, sample(400, 20_000, 30_000, true)];
        let found = recorder.finish(&[LiveFlow { start: Some(Instant::ZERO), finished: None, samples }], 0);
        assert_eq!(found.tables.flows.int("timeouts"), None);
        assert!(found.tables.flows.int("retransmissions").is_some());
    }

    #[test]
    fn what_came_before_counting_began_does_not_count() {
        let flow = LiveFlow {
            start: Some(Instant::ZERO),
            finished: Some(Instant::from_millis(1500)),
            samples: vec![
                sample(200, 10_000, 30_000, true),
                sample(1000, 50_000, 50_000, true),
                sample(1500, 60_000, 50_000, false),
            ],
        };
        let ahead = Duration::from_millis(10);
        let end = result(&flow, None, Instant::from_millis(400), Instant::from_secs(2), ahead);
        assert_eq!((end.samples.count, end.samples.srtt_us, end.payload), (1, 50_000, 60_000));
        assert_eq!((end.completion, end.end), (Some(Duration::from_millis(1500)), Instant::from_millis(1510)));
        let begin = result(&flow, None, Instant::ZERO, Instant::from_millis(400), ahead);
        assert_eq!((begin.samples.count, begin.payload, begin.completion), (1, 10_000, None));
    }
}
