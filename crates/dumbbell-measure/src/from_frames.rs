//! Traffic that no configuration lists, as one direction of a bottleneck saw it: what programs sent through it becomes the tables of a run.
//!
//! A middlebox knows frames, payload, marks, drops and times in queue. What only a sender knows has no column.

use crate::columns::{Ends, EndsRow, EngineKind, SeenFlows, SeriesRow, Unlisted};
use crate::flow::FlowResult;
use crate::from_live::FlowCounts;
use crate::hop_log::Backlog;
use crate::measure::Measures;
use crate::outcome::outcome;
use crate::Outcome;
use dumbbell_config::extensions::TransportSpec;
use dumbbell_config::{Class, ClassKind, Classes, FlowConfig, FlowParams, Route, RunConfig, StartRange};
use dumbbell_core::cc::{AnyCc, CcContext, CcSpec, DynCc};
use dumbbell_core::param::Factory;
use dumbbell_core::record::{Counters, QueueCounters};
use dumbbell_core::units::{Duration, Instant};
use serde_json::{json, Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// Kinds of traffic, each a class of its own; a flow is of one of them, by number.
pub const KINDS: [&str; 3] = ["tcp", "udp", "other"];

/// Most rows of the series of flows: 100 flows for 3 h at one point per second. The series of the queue goes on.
const MOST_ROWS: usize = 1_000_000;

/// A flow in one direction.
#[derive(Clone, Debug)]
pub struct FrameFlow {
    /// Slot of the flow while the run lasted.
    pub slot: u32,
    /// Index in [`KINDS`].
    pub kind: u16,
    /// Address and port of the sender.
    pub source: String,
    /// Address and port of the receiver.
    pub destination: String,
    /// When its first frame arrived at the queue.
    pub start: Instant,
    /// When its last frame arrived there.
    pub end: Instant,
    /// Counts of the flow.
    pub counted: FlowCounts,
}

/// Takes down what one direction of a bottleneck counts while programs send.
pub struct FrameRecorder {
    config: RunConfig,
    base_rtt: Duration,
    route: Arc<Route>,
    measures: Measures,
    /// Payload of each slot at the last point.
    before: HashMap<u32, u64>,
}

impl FrameRecorder {
    /// For a run over the bottleneck of `config` on a path of `base_rtt`, with frames that go `up` or down; the traffic in `config` does not
    /// matter.
    pub fn new(config: &RunConfig, base_rtt: Duration, up: bool) -> FrameRecorder {
        let mut config = config.clone();
        config.flows.clear();
        config.web.clear();
        config.udp.clear();
        config.record.from = Instant::ZERO;
        config.record.trace = None;
        let measures = Measures::new(&config, KINDS.len());
        let route = Arc::new(Route { up, ..Route::default() });
        FrameRecorder { config, base_rtt, route, measures, before: HashMap::new() }
    }

    /// A point of the time series at `time`: what is queued then, and slot and payload so far, bytes, of each flow.
    pub fn point(
        &mut self,
        time: Instant,
        counters: QueueCounters,
        [queued_packets, queued_bytes]: [u64; 2],
        flows: impl Iterator<Item = (u32, u64)>,
    ) {
        let backlog = Backlog { packets: queued_packets, bytes: queued_bytes };
        self.measures.point(time, std::iter::empty(), counters, backlog);
        let seconds = self.config.record.interval.as_secs_f64();
        let series = &mut self.measures.flow_series;
        for (slot, payload) in flows {
            // a slot that was given to another flow counts from zero
            let more = payload.saturating_sub(self.before.insert(slot, payload).unwrap_or(0));
            if more > 0 && series.len() < MOST_ROWS {
                let goodput_mbit = more as f64 * 8e-6 / seconds;
                let (time_s, flow) = (time.as_secs_f64(), u64::from(slot));
                let (cwnd, ssthresh, in_flight, retransmissions, sent, drops) = Default::default();
                let (srtt_ms, rtt_ms) = (f64::NAN, f64::NAN);
                series.push(SeriesRow {
                    time_s,
                    flow,
                    goodput_mbit,
                    srtt_ms,
                    cwnd,
                    ssthresh,
                    in_flight,
                    retransmissions,
                    rtt_ms,
                    sent,
                    drops,
                });
            }
        }
    }

    /// The tables of a run of `duration` in which `flows` were seen; `of_discipline` are the counters that the queue discipline itself
    /// keeps, by name, and `events` the frames that were handled.
    pub fn finish(
        mut self,
        duration: Duration,
        mut flows: Vec<FrameFlow>,
        counters: &Counters,
        of_discipline: Vec<(String, u64)>,
        events: u64,
    ) -> Outcome {
        flows.sort_by_key(|flow| (flow.kind, flow.start, flow.slot));
        let classes = self.configure(duration.max(Duration(1)), &flows);
        self.measures.finish_queue(counters, of_discipline, flows.iter().map(|flow| flow.counted).collect());
        // kinds of which there is no flow are no classes
        let mut kinds = 0_u16..;
        self.measures.queue.sojourn.retain(|_| kinds.next().is_some_and(|kind| flows.iter().any(|flow| flow.kind == kind)));
        self.measures.short_totals.truncate(classes.list.len());
        for (place, flow) in (0..).zip(&flows) {
            let ahead = if self.route.up { Duration::ZERO } else { self.base_rtt / 2 };
            let result = FlowResult {
                start: flow.start + ahead,
                end: flow.end + ahead,
                payload: flow.counted.received.bytes,
                min_rtt_us: u32::MAX,
                receiver: flow.counted.received,
                counters: flow.counted.counters,
                ..FlowResult::default()
            };
            self.measures.finish_flow(place, flows.len(), result);
        }
        self.number_series(&flows);
        let mut found = outcome(self.measures, &self.config, &classes, events);
        let seen: Map<String, Value> = classes
            .list
            .iter()
            .zip(0_u16..)
            .map(|(class, number)| (class.cc.clone(), json!(classes.of_flow.iter().filter(|&&of| of == number).count())))
            .collect();
        found.keep_columns_of(EngineKind::Shell);
        if let Some(figures) = found.summary.as_object_mut() {
            SeenFlows::add_figure(&Unlisted { flows: Value::Object(seen) }, figures);
        }
        let ends = flows.iter().map(|flow| EndsRow { source: &flow.source, destination: &flow.destination });
        found.tables.flows.columns.extend(Ends::columns(&ends.collect::<Vec<_>>()));
        found
    }

    /// Makes the configuration list what was seen; returns its classes.
    fn configure(&mut self, duration: Duration, flows: &[FrameFlow]) -> Classes {
        let mut classes = Classes::default();
        self.config.run.duration = duration;
        for (kind, name) in (0_u16..).zip(KINDS) {
            let of_kind = flows.iter().filter(|flow| flow.kind == kind).count();
            if of_kind == 0 {
                continue;
            }
            // frames do not tell how their sender controls congestion: it has the name of its kind
            let keys = Map::from_iter([("name".to_owned(), json!(name))]);
            let cc = Factory::new(&keys, |_: &CcContext| DynCc(Box::new(AnyCc::without_ecn())));
            let transport = Arc::new(TransportSpec::Tcp(CcSpec::Dyn(cc)));
            let params = FlowParams { base_rtt: self.base_rtt, ..FlowParams::default() };
            let start = StartRange { min: Instant::ZERO, max: Instant::ZERO };
            let one = FlowConfig { transport, start, stages: Arc::default(), route: Arc::clone(&self.route), params };
            self.config.flows.extend(std::iter::repeat_n(one, of_kind));
            classes.of_flow.extend(std::iter::repeat_n(classes.list.len() as u16, of_kind));
            classes.list.push(Class {
                kind: ClassKind::Flows,
                cc: name.to_owned(),
                base_rtt: self.base_rtt,
                route: Arc::clone(&self.route),
            });
        }
        classes
    }

    /// Gives the rows of the series the numbers of their flows.
    fn number_series(&mut self, flows: &[FrameFlow]) {
        let numbers: HashMap<u32, u64> = flows.iter().zip(0..).map(|(flow, number)| (flow.slot, number)).collect();
        for row in &mut self.measures.flow_series {
            row.flow = u32::try_from(row.flow).ok().and_then(|slot| numbers.get(&slot)).copied().unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Column, Table};
    use dumbbell_core::record::FlowCounters;
    use dumbbell_core::tcp::stats::ReceiverStats;

    fn flow(slot: u32, kind: u16, seconds: [u64; 2], packets: u64) -> FrameFlow {
        let counters = FlowCounters { arrived: packets, departed: packets, ..FlowCounters::default() };
        let received = ReceiverStats { frame_bytes: packets * 1514, bytes: packets * 1448, ..ReceiverStats::default() };
        let [start, end] = seconds.map(Instant::from_secs);
        FrameFlow {
            slot,
            kind,
            source: format!("a:{slot}"),
            destination: "b:80".into(),
            start,
            end,
            counted: FlowCounts { counters, received },
        }
    }

    #[test]
    fn flows_come_by_kind_and_count_over_their_own_lifetime() {
        let config = json!({"duration": 1, "bottleneck": {"rate": 10_000_000, "aqm": {"name": "codel"}},
            "flows": [{"cc": {"name": "cubic"}, "start": {"min": 0, "max": 0}, "count": 1}]});
        let config = RunConfig::from_json(&config).expect("a configuration");
        let mut recorder = FrameRecorder::new(&config, Duration::from_millis(20), false);
        let of = |packets| QueueCounters { packets, bytes: packets * 1514, ..QueueCounters::default() };
        recorder.point(Instant::from_secs(1), of(100), [3, 4542], [(0, 0), (1, 1_000_000)].into_iter());
        recorder.point(Instant::from_secs(2), of(300), [0, 0], [(0, 250_000), (1, 1_000_000)].into_iter());
        let counters = Counters { queue: of(300), flows: dumbbell_core::record::FlowLog::new(3), ..Counters::default() };
        // an "other" first, then TCP: kinds come in their order, and there is no UDP
        let flows = vec![flow(0, 2, [1, 2], 100), flow(1, 0, [0, 4], 200)];
        let found = recorder.finish(Duration::from_secs(4), flows, &counters, Vec::new(), 300);
        let text = |name: &str| found.tables.flows.columns.iter().find(|(column, _)| column == name).expect("a column").1.clone();
        assert_eq!(text("cc"), Column::Text(vec!["tcp".into(), "other".into()]));
        assert_eq!(text("source"), Column::Text(vec!["a:1".into(), "a:0".into()]));
        // 200 * 1448 B in 4 s, 100 * 1448 B in 1 s
        let near = |name: &str, expected: [f64; 2]| {
            let values = found.tables.flows.real(name).expect("a column");
            assert!(values.iter().zip(expected).all(|(value, wanted)| (value - wanted).abs() < 1e-12), "{name}: {values:?}");
        };
        near("goodput_mbit", [0.5792, 1.1584]);
        near("start_s", [0.0, 1.0]);
        assert_eq!(found.summary["flows_seen"], json!({"tcp": 1, "other": 1}));
        assert_eq!(found.summary["utilisation"].as_f64(), Some(300.0 * 1514.0 * 8.0 / 4e7));
        // only flows that moved have a row: the TCP flow, which is flow 0, then the other
        assert_eq!(found.tables.series.int("flow"), Some(&[0, 1][..]));
        assert_eq!(found.tables.series.real("goodput_mbit"), Some(&[8.0, 2.0][..]));
        assert_eq!(found.tables.classes.height(), 2);
        assert!(["rtt_mean_ms", "cwnd_max", "sent"].iter().all(|name| found.tables.flows.column(name).is_none()));
        assert!(["jain", "convergence_s", "window_ratio"].iter().all(|name| found.summary.get(*name).is_none()));
        for table in [&found.tables.flows, &found.tables.classes, &Table::row(&found.summary)] {
            assert!(
                table.columns.iter().all(|(name, _)| !name.starts_with("delay_") && !name.starts_with("jitter_")),
                "{table:?}"
            );
        }
    }
}
