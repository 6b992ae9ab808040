//! Measurements of a run in progress; [`outcome`](crate::outcome) makes tables of them.

use crate::columns::{QueueSeriesRow, QueueStatesRow, SeriesRow};
use crate::hop_log::HopLog;
use crate::short_flows::ShortFlows;
use crate::table::UNTOLD;
use crate::together::Together;
use crate::trace::Trace;
use crate::transit::{Transit, UdpFate};
use dumbbell_config::RunConfig;
use dumbbell_core::cc::exit::ExitCause;
use dumbbell_core::histogram::{CompactHistogram, Count, Histogram};
use dumbbell_core::record::{Counters, FlowCounters, QueueCounters};
use dumbbell_core::tcp::sender::Sender;
use dumbbell_core::tcp::stats::{ReceiverStats, SenderStats};
use dumbbell_core::units::Time;
use std::collections::BTreeMap;

/// Sums of TCP_INFO samples of one flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Samples {
    /// How many.
    pub count: u64,
    /// Smoothed RTTs.
    pub srtt_us: u64,
    /// Windows, segments.
    pub cwnd: u64,
    /// Largest smoothed RTT.
    pub srtt_max_us: u32,
    /// Largest window, segments.
    pub cwnd_max: u32,
}

impl Samples {
    /// Takes a sample as `ss` would print it. A flow that has no RTT yet gives none.
    pub fn take(&mut self, sender: &Sender) {
        self.add(sender.conn.rtt().srtt_us(), sender.conn.cwnd);
    }

    /// Takes a sample: smoothed RTT in us, 0 for none, and window in segments.
    pub fn add(&mut self, srtt: u32, cwnd: u32) {
        if srtt == 0 {
            return;
        }
        self.count += 1;
        self.srtt_us += u64::from(srtt);
        self.srtt_max_us = self.srtt_max_us.max(srtt);
        self.cwnd += u64::from(cwnd);
        self.cwnd_max = self.cwnd_max.max(cwnd);
    }
}

/// Extra results of flows of QUIC stacks.
#[derive(Clone, Debug, Default)]
pub struct OfStack {
    /// Packets that it took for lost, if it tells.
    pub lost: Option<u64>,
    /// Probe timeouts, if it tells.
    pub probes: Option<u64>,
    /// Reductions of its window, if it tells.
    pub reductions: Option<u64>,
    /// Packets that it took for lost and that had arrived, if it tells.
    pub spurious: Option<u64>,
    /// CE marks that the receiver reported, if it tells.
    pub ce: Option<u64>,
    /// Why it was closed before its end, and when, from its start.
    pub closed: Option<(String, Time)>,
}

/// Counts of a flow on its path: in the queue, and behind it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowCounts {
    /// By the queue.
    pub counters: FlowCounters,
    /// Counts of the frames that left the link, and of the acknowledgements.
    pub received: ReceiverStats,
}

/// One flow at the end of its measured time.
#[derive(Clone, Debug, Default)]
pub struct FlowResult {
    /// On the engine's clock.
    pub start: Time,
    /// When counting began, if that is after the start.
    pub since: Time,
    /// When counting ended.
    pub end: Time,
    /// Payload that arrived: acknowledged for TCP, received for UDP; bytes.
    pub payload: u64,
    /// Smallest RTT; the largest number if there is none.
    pub min_rtt_us: u32,
    /// From its first packet until everything was acknowledged.
    pub completion: Option<Time>,
    /// The first end of slow start, and its time since the SYN.
    pub slow_start_exit: Option<(ExitCause, Time)>,
    /// Samples of TCP_INFO.
    pub samples: Samples,
    /// Every sample of the RTT estimator; of listed TCP flows only.
    pub rtt_samples: Option<CompactHistogram>,
    /// One-way delays, for UDP.
    pub transit: Option<Box<Transit>>,
    /// Packets that were answered, or whose answer is overdue, for UDP with echo.
    pub due: Option<u64>,
    /// Extra results, for a QUIC stack.
    pub stack: Option<Box<OfStack>>,
    /// Counters of the sender.
    pub sender: SenderStats,
    /// Counters of the receiver.
    pub receiver: ReceiverStats,
    /// Counters of the flow at the queue.
    pub counters: FlowCounters,
}

impl FlowResult {
    /// Returns a count that a QUIC stack may report; NaN if it does not report it, or for other flows.
    pub fn stack_count(&self, count: impl Fn(&OfStack) -> Option<u64>) -> f64 {
        self.stack.as_deref().and_then(count).map_or(f64::NAN, |count| count as f64)
    }

    /// A count of the sender: of a stack what it tells, [`UNTOLD`] if it does not.
    pub fn sender_count(&self, of_sender: u64, of_stack: impl Fn(&OfStack) -> Option<u64>) -> u64 {
        self.stack.as_deref().map_or(of_sender, |stack| of_stack(stack).unwrap_or(UNTOLD))
    }

    /// Packets that its sender sent again, or, of a stack, took for lost.
    pub fn retransmissions(&self) -> u64 {
        self.sender_count(self.sender.retransmissions, |of| of.lost)
    }

    /// Why a stack closed it before its end, and when, from its start.
    pub fn close_reason(&self) -> Option<(&str, Time)> {
        self.stack.as_ref()?.closed.as_ref().map(|(why, at)| (why.as_str(), *at))
    }

    /// How long it was measured.
    pub(crate) fn seconds(&self) -> f64 {
        self.end.saturating_sub(self.start.max(self.since)).as_secs_f64()
    }

    /// Returns the counts since `before`, when counting began.
    fn subtract(self, before: &FlowResult) -> FlowResult {
        FlowResult {
            since: before.since,
            payload: self.payload - before.payload,
            due: self.due.map(|due| due - before.due.unwrap_or(0)),
            sender: self.sender.subtract(&before.sender),
            receiver: self.receiver.subtract(&before.receiver),
            counters: self.counters.subtract(&before.counters),
            stack: self.stack.map(|of| {
                let earlier = before.stack.as_deref().cloned().unwrap_or_default();
                let since = |now: Option<u64>, then: Option<u64>| now.map(|now| now - then.unwrap_or(0));
                Box::new(OfStack {
                    lost: since(of.lost, earlier.lost),
                    probes: since(of.probes, earlier.probes),
                    reductions: since(of.reductions, earlier.reductions),
                    spurious: since(of.spurious, earlier.spurious),
                    ce: since(of.ce, earlier.ce),
                    ..*of
                })
            }),
            ..self
        }
    }

    fn mbit(&self, bytes: u64) -> f64 {
        if self.seconds() > 0.0 {
            bytes as f64 * 8e-6 / self.seconds()
        } else {
            0.0
        }
    }

    /// Payload over its lifetime, Mbit/s.
    pub fn goodput_mbit(&self) -> f64 {
        self.mbit(self.payload)
    }

    /// Frames over its lifetime, Mbit/s.
    pub fn throughput_mbit(&self) -> f64 {
        self.mbit(self.receiver.frame_bytes)
    }

    /// Mean of the samples of the smoothed RTT, ms; NaN if there are none.
    pub fn rtt_mean_ms(&self) -> f64 {
        mean(self.samples.srtt_us, self.samples.count, 1e3)
    }

    /// P50, P95 and P99 of all RTT samples, ms; NaN if there are none.
    pub fn rtt_percentiles_ms(&self) -> [f64; 3] {
        self.rtt_samples.as_ref().map_or([f64::NAN; 3], rtt_percentiles_ms)
    }

    /// Packets of UDP that were lost; of others nothing is known.
    pub fn fate(&self) -> UdpFate {
        let (counters, answers) = (&self.counters, self.samples.count);
        match (self.due, &self.transit) {
            (Some(due), _) => UdpFate { lost: due.saturating_sub(answers), known: due.max(answers) },
            (None, Some(_)) => {
                let lost = counters.count_lost();
                UdpFate { lost, known: lost + counters.departed - counters.lost_behind }
            }
            (None, None) => UdpFate::default(),
        }
    }

    /// Drops by the queue, packets.
    pub fn drops(&self) -> u64 {
        self.counters.dropped_overflow + self.counters.dropped_aqm
    }

    /// Mean time in queue, ms; NaN if no packet left the queue.
    pub fn sojourn_mean_ms(&self) -> f64 {
        mean(self.counters.sojourn_ns, self.counters.departed, 1e6)
    }
}

/// Mean of `count` values with this `sum`, in units of `scale`; NaN if there are none.
pub fn mean(sum: u64, count: u64, scale: f64) -> f64 {
    if count > 0 {
        sum as f64 / count as f64 / scale
    } else {
        f64::NAN
    }
}

/// P50, P95 and P99, ms; NaN if there are no samples.
pub fn rtt_percentiles_ms<C: Count>(samples: &CompactHistogram<C>) -> [f64; 3] {
    samples.quantiles([0.5, 0.95, 0.99]).map_or([f64::NAN; 3], |found| found.map(ms))
}

/// Time in ms.
pub fn ms(time: Time) -> f64 {
    time.0 as f64 / 1e6
}

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
#[derive(Default)]
pub struct StateSeries(pub Vec<QueueStatesRow>);

impl StateSeries {
    /// At `now` the discipline of `hop` had this value of `name`.
    pub fn add(&mut self, now: Time, hop: &str, name: &'static str, value: f64) {
        self.0.push(QueueStatesRow { time: now, hop: hop.to_owned(), state: name, value });
    }
}

/// State of a listed endpoint for the time series.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeriesView {
    /// Payload that has arrived: acknowledged for TCP, received for UDP; bytes.
    pub payload: u64,
    /// The rest, of TCP.
    pub tcp: Option<SeenTcp>,
    /// Answers that have come back, of UDP.
    pub answered: AnswerCounts,
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

/// State of a TCP sender for the time series.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeenTcp {
    /// Smoothed RTT; 0 before the first sample.
    pub srtt_us: u32,
    /// Segments.
    pub cwnd: u32,
    /// Segments.
    pub ssthresh: u32,
    /// Segments.
    pub in_flight: u32,
    /// Since the start; [`UNTOLD`] if nobody tells.
    pub retransmissions: u64,
}

/// Backlog of a queue at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backlog {
    /// How many packets.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
}

/// Values of a listed flow at the last point of the series.
#[derive(Clone, Copy, Default)]
struct Before {
    payload: u64,
    retransmissions: u64,
    answered: AnswerCounts,
}

/// Everything measured so far.
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
    /// Short flows, summed by class.
    pub short_totals: Vec<crate::classes::Totals>,
    interval: Time,
    before: Vec<Before>,
    /// Counters of the queue at the last point.
    queue_before: QueueCounters,
    /// The time that the flows have in common.
    pub together: Together,
    /// The time series of the listed flows.
    pub flow_series: Vec<SeriesRow>,
    /// The time series of the queue.
    pub queue_series: Vec<QueueSeriesRow>,
    /// States of queue disciplines.
    pub states: StateSeries,
    /// States of the congestion controls of the listed flows, if they are recorded.
    pub trace: Option<Box<Trace>>,
}

/// Jain's index of fairness, 1/n to 1; NaN if nothing was shared.
pub fn jain(shares: &[f64]) -> f64 {
    let total: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    if squares > 0.0 {
        total * total / (shares.len() as f64 * squares)
    } else {
        f64::NAN
    }
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
            short_totals: vec![crate::classes::Totals::default(); classes],
            interval: interval.unwrap_or(Time::ZERO),
            before: vec![Before::default(); if interval.is_some() { listed } else { 0 }],
            queue_before: QueueCounters::default(),
            together: Together::new(config),
            flow_series: Vec::new(),
            queue_series: Vec::new(),
            states: StateSeries::default(),
            trace: config.record.trace.map(|apart| Box::new(Trace::new(apart, config.flows.len()))),
        }
    }

    /// A point of the time series at `now`, over the listed endpoints in order.
    pub fn point(&mut self, now: Time, listed: impl Iterator<Item = SeriesView>, counts: QueueCounters, backlog: Backlog) {
        let seconds = self.interval.as_secs_f64();
        let time_s = now.as_secs_f64();
        let series = &mut self.flow_series;
        for (number, SeriesView { payload, tcp, answered }) in listed.enumerate() {
            let retransmissions = tcp.map_or(0, |tcp| tcp.retransmissions);
            let before = &mut self.before[number];
            let SeenTcp { srtt_us, cwnd, ssthresh, in_flight, .. } = tcp.unwrap_or_default();
            series.push(SeriesRow {
                time_s,
                flow: number as u64,
                goodput_mbit: (payload - before.payload) as f64 * 8e-6 / seconds,
                srtt_ms: if tcp.is_some() { f64::from(srtt_us) / 1e3 } else { f64::NAN },
                cwnd,
                ssthresh,
                in_flight,
                retransmissions: match retransmissions {
                    UNTOLD => UNTOLD,
                    told => told.saturating_sub(before.retransmissions),
                },
                rtt_ms: answered.mean_ms_since(before.answered),
            });
            *before = Before { payload, retransmissions, answered };
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
        });
    }

    /// The measured time of listed endpoint `number`, of `listed` in all, begins `now`, and `before` is what it has counted.
    pub fn begin_flow(&mut self, number: u32, listed: usize, before: FlowResult, now: Time) {
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

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn jain_of_known_shares() {
        // {2, 1}: 9 / (2 * 5); {3, 1}: 16 / (2 * 10); {4, 1}: 25 / (2 * 17); {10, 1}: 121 / (2 * 101); {1, 1, 1, 0}: 9 / (4 * 3)
        let known = [(vec![2.0, 1.0], 0.9), (vec![3.0, 1.0], 0.8), (vec![4.0, 1.0], 0.7353), (vec![10.0, 1.0], 0.5990)];
        for (shares, expected) in known {
            assert!((jain(&shares) - expected).abs() < 5e-5, "{shares:?}: {}", jain(&shares));
        }
        assert_eq!(jain(&[1.0, 1.0, 1.0, 0.0]), 0.75);
        assert_eq!(jain(&[5.0; 7]), 1.0);
        assert!(jain(&[0.0, 0.0]).is_nan());
    }
}
