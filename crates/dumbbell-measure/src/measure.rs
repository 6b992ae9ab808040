//! Measurements of a run in progress; [`outcome`](crate::outcome) makes tables of them.

use crate::apps::AppMeasures;
use crate::columns::{QueueSeriesRow, QueueStatesRow, SeriesRow};
use crate::flow::{FlowCounts, FlowResult, SenderState};
use crate::hop_log::{Backlog, HopLog};
use crate::short_flows::ShortFlows;
use crate::table::UNREPORTED;
use crate::together::CommonTime;
use crate::trace::Trace;
use dumbbell_config::RunConfig;
use dumbbell_core::histogram::Histogram;
use dumbbell_core::record::{Counters, QueueCounters};
use dumbbell_core::units::{Duration, Instant};
use std::collections::BTreeMap;

/// The queue at the end of the run.
#[derive(Clone, Debug, Default)]
pub struct QueueResult {
    /// Time in queue by class.
    pub sojourn: Vec<Histogram>,
    /// Counters of all packets.
    pub all: QueueCounters,
    /// Counters of the queue discipline itself and of its internal queues, by name.
    pub counters: BTreeMap<String, u64>,
}

/// States of queue disciplines, point by point.
#[derive(Clone, Default)]
pub struct StateSeries(pub Vec<QueueStatesRow>);

impl StateSeries {
    /// At `now` the discipline of `hop` had this value of `name`.
    pub fn add(&mut self, now: Instant, hop: &str, name: &'static str, value: f64) {
        self.0.push(QueueStatesRow { time: now, hop: hop.to_owned(), state: name, value });
    }
}

/// State of a listed endpoint for the time series.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeriesView {
    /// Payload that has arrived: acknowledged for TCP, received for UDP; bytes.
    pub payload: u64,
    /// State of the sender, of TCP or a stack.
    pub sender: Option<SenderState>,
    /// Answers that have come back, of UDP.
    pub answered: AnswerCounts,
    /// Packets with data that its sender has sent.
    pub sent: u64,
    /// Packets of it that queues have dropped.
    pub dropped: u64,
}

/// Answers since the start of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerCounts {
    /// How many.
    pub count: u64,
    /// Sum of the RTTs.
    pub total_us: u64,
}

impl AnswerCounts {
    /// One more.
    pub fn add(&mut self, rtt_us: u32) {
        self.count += 1;
        self.total_us += u64::from(rtt_us);
    }

    /// The mean RTT of those after the ones `before`, ms; NaN of none.
    fn mean_ms_since(&self, before: AnswerCounts) -> f64 {
        (self.total_us - before.total_us) as f64 / (self.count - before.count) as f64 / 1e3
    }
}

/// Values of a listed flow at the last point of the series.
#[derive(Clone, Copy, Default)]
struct Before {
    payload: u64,
    retransmissions: u64,
    answered: AnswerCounts,
    sent: u64,
    dropped: u64,
}

/// Everything measured so far.
#[derive(Clone)]
pub struct Measures {
    /// Results of listed endpoints, by number; empty until the first measured time is over.
    pub results: Vec<FlowResult>,
    /// Results of listed endpoints when counting began; empty if that was at the start.
    pub(crate) begun: Vec<FlowResult>,
    queue_begun: QueueCounters,
    /// Counts of listed endpoints on their path when the measured time of the queue began, and when it was over.
    on_way: [Vec<FlowCounts>; 2],
    /// The queue at the end of the run.
    pub queue: QueueResult,
    /// Measurements at each hop, if there are several.
    pub hops: Option<HopLog>,
    /// Short flows one by one.
    pub short_flows: ShortFlows,
    /// Users of applications.
    pub apps: AppMeasures,
    /// Short flows and connections of applications, summed by class.
    pub short_totals: Vec<crate::classes::Totals>,
    interval: Duration,
    before: Vec<Before>,
    /// Counters of the queue at the last point.
    queue_before: QueueCounters,
    /// The time that the flows have in common.
    pub together: CommonTime,
    /// The time series of the listed flows.
    pub flow_series: Vec<SeriesRow>,
    /// The time series of the queue.
    pub queue_series: Vec<QueueSeriesRow>,
    /// States of queue disciplines.
    pub states: StateSeries,
    /// States of the congestion controls of the listed flows, if they are recorded.
    pub trace: Option<Box<Trace>>,
}

impl Measures {
    /// Nothing measured yet of a run of `config` with `classes` classes.
    pub fn new(config: &RunConfig, classes: usize) -> Measures {
        let interval = config.series_interval();
        let listed = config.flows.len() + config.udp.len();
        Measures {
            results: Vec::new(),
            begun: Vec::new(),
            queue_begun: QueueCounters::default(),
            on_way: Default::default(),
            queue: QueueResult::default(),
            hops: None,
            short_flows: ShortFlows::new(config.bottleneck.rate, config.record.short_flows as usize, config.run.seed),
            apps: AppMeasures::new(config),
            short_totals: vec![crate::classes::Totals::default(); classes],
            interval: interval.unwrap_or(Duration::ZERO),
            before: vec![Before::default(); if interval.is_some() { listed } else { 0 }],
            queue_before: QueueCounters::default(),
            together: CommonTime::new(config),
            flow_series: Vec::new(),
            queue_series: Vec::new(),
            states: StateSeries::default(),
            trace: config.record.trace.map(|apart| Box::new(Trace::new(apart, config.flows.len()))),
        }
    }

    /// A point of the time series at `now`, over the listed endpoints in order.
    pub fn point(&mut self, now: Instant, listed: impl Iterator<Item = SeriesView>, counts: QueueCounters, backlog: Backlog) {
        let seconds = self.interval.as_secs_f64();
        let time_s = now.as_secs_f64();
        let series = &mut self.flow_series;
        for (number, SeriesView { payload, sender, answered, sent, dropped }) in listed.enumerate() {
            let before = &mut self.before[number];
            let SenderState { srtt_us, cwnd, ssthresh, in_flight, retransmissions } = sender.unwrap_or_default();
            series.push(SeriesRow {
                time_s,
                flow: number as u64,
                goodput_mbit: (payload - before.payload) as f64 * 8e-6 / seconds,
                srtt_ms: if sender.is_some() { f64::from(srtt_us) / 1e3 } else { f64::NAN },
                cwnd,
                ssthresh,
                in_flight,
                retransmissions: match retransmissions {
                    UNREPORTED => UNREPORTED,
                    told => told.saturating_sub(before.retransmissions),
                },
                rtt_ms: answered.mean_ms_since(before.answered),
                sent: sent.saturating_sub(before.sent),
                drops: dropped - before.dropped,
            });
            *before = Before { payload, retransmissions, answered, sent, dropped };
        }
        let before = std::mem::replace(&mut self.queue_before, counts);
        let queue = counts.subtract(&before);
        let QueueCounters { sojourn_ns, sent, .. } = queue;
        self.queue_series.push(QueueSeriesRow {
            time_s,
            backlog_packets: backlog.packets,
            backlog_bytes: backlog.bytes,
            sojourn_mean_ms: if sent > 0 { sojourn_ns as f64 / sent as f64 / 1e6 } else { 0.0 },
            throughput_mbit: queue.line_bytes() as f64 * 8e-6 / seconds,
            // what its rate says is added at the end of the run
            capacity_mbit: queue.lost_bytes as f64 * -8e-6 / seconds,
            ce_marks: queue.ce_marks,
            sce_marks: queue.sce_marks,
            drops: queue.drops_overflow + queue.drops_aqm,
            packets: queue.packets,
        });
    }

    /// The measured time of listed endpoint `number`, of `listed` in all, begins `now`, and `before` is what it has counted.
    pub fn begin_flow(&mut self, number: u32, listed: usize, before: FlowResult, now: Instant) {
        self.begun.resize(listed, FlowResult::default());
        self.begun[number as usize] = FlowResult { since: now, ..before };
    }

    /// The measured time of the queue begins. `flows` are the listed endpoints.
    pub fn begin_queue(&mut self, counters: &mut Counters, flows: Vec<FlowCounts>) {
        self.on_way[0] = flows;
        self.queue_begun = counters.queue;
        counters.flows.sojourn.iter_mut().for_each(|of_class| *of_class = Histogram::default());
    }

    /// The measured time of listed endpoint `number`, of `listed` in all, is over.
    pub fn finish_flow(&mut self, number: u32, listed: usize, result: FlowResult) {
        self.results.resize(listed, FlowResult::default());
        self.results[number as usize] = match self.begun.get(number as usize) {
            Some(before) => result.subtract(before),
            None => result,
        };
    }

    /// The measured time of the queue is over. `of_discipline` are the counters that the queue discipline itself keeps, by name; `flows` are the
    /// listed endpoints.
    pub fn finish_queue(
        &mut self,
        log: &Counters,
        of_discipline: impl IntoIterator<Item = (String, u64)>,
        flows: Vec<FlowCounts>,
    ) {
        self.on_way[1] = flows;
        let internal = log.internal.iter().flat_map(|(name, of)| {
            let counts = [("packets", of.packets), ("ce_marks", of.ce_marks), ("sce_marks", of.sce_marks), ("drops", of.drops)];
            counts.map(|(what, count)| (format!("{name}_{what}"), count))
        });
        self.queue = QueueResult {
            sojourn: log.flows.sojourn.clone(),
            all: log.queue.subtract(&self.queue_begun),
            counters: of_discipline.into_iter().chain(internal).collect(),
        };
    }

    /// Everything is measured. What queues did with the packets of a flow is counted as the queue's own totals are, until the run is over at the
    /// queue; the clock of a sender ends half a base RTT later.
    pub(crate) fn settle(&mut self) {
        let [begun, over] = std::mem::take(&mut self.on_way);
        for (number, (result, end)) in self.results.iter_mut().zip(over).enumerate() {
            let before = begun.get(number).copied().unwrap_or_default();
            result.counters = end.counters.subtract(&before.counters);
            let received = end.received.subtract(&before.received);
            (result.receiver.ce, result.receiver.ect1) = (received.ce, received.ect1);
        }
    }
}
