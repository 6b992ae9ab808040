//! What a run measures, and the tables that come out of it.

use crate::bottleneck::Bottleneck;
use crate::config::RunConfig;
use crate::table::{Column, Table};
use crate::{Outcome, Tables};
use dumbbell_core::aqm::Aqm;
use dumbbell_core::record::{FlowCounters, Histogram, QueueCounters};
use dumbbell_core::tcp::receiver::{Receiver, ReceiverStats};
use dumbbell_core::tcp::sender::{Sender, SenderStats};
use dumbbell_core::units::Time;
use serde_json::json;
use std::collections::BTreeMap;

/// One flow at its end.
#[derive(Clone, Debug, Default)]
pub struct FlowResult {
    /// On the engine's clock.
    start: Time,
    end: Time,
    bytes_acked: u64,
    min_rtt_us: u32,
    completion: Option<Time>,
    sender: SenderStats,
    receiver: ReceiverStats,
    counters: FlowCounters,
}

impl FlowResult {
    /// What `sender` and `receiver` have counted between `start` and `end`.
    pub fn new(start: Time, end: Time, sender: &Sender, receiver: &Receiver, counters: &FlowCounters) -> FlowResult {
        FlowResult {
            start,
            end: sender.finished.unwrap_or(end),
            bytes_acked: sender.bytes_acked(),
            min_rtt_us: sender.conn.rtt.min_us(),
            completion: sender.finished.map(|finished| finished - sender.started),
            sender: sender.stats,
            receiver: receiver.stats,
            counters: *counters,
        }
    }

    fn seconds(&self) -> f64 {
        self.end.saturating_sub(self.start).as_secs_f64()
    }

    fn mbit(&self, bytes: u64) -> f64 {
        if self.seconds() > 0.0 {
            bytes as f64 * 8e-6 / self.seconds()
        } else {
            0.0
        }
    }
}

/// Sums of TCP_INFO samples of one flow.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    count: u64,
    srtt_us: u64,
    srtt_max_us: u32,
    cwnd: u64,
    cwnd_max: u32,
}

/// The queue at the end of the run.
#[derive(Clone, Debug, Default)]
struct QueueResult {
    /// Time in queue by connection class.
    sojourn: Vec<Histogram>,
    all: QueueCounters,
    /// Counters of the queue discipline itself and of its internal queues, by name.
    counters: BTreeMap<String, u64>,
}

impl QueueResult {
    /// Quantiles of the time in queue, one row a class, and its histogram, one row a class and bin.
    fn by_class(&self) -> (Table, Table) {
        let of_classes = || (0_u64..).zip(&self.sojourn);
        let quantile = |q: f64| Column::F64(of_classes().map(|(_, of_class)| ms(of_class.quantile(q))).collect());
        let classes = Table::new(vec![
            ("class", Column::U64(of_classes().map(|(class, _)| class).collect())),
            ("sojourn_p1_ms", quantile(0.01)),
            ("sojourn_p25_ms", quantile(0.25)),
            ("sojourn_p50_ms", quantile(0.5)),
            ("sojourn_p75_ms", quantile(0.75)),
            ("sojourn_p99_ms", quantile(0.99)),
            ("sojourn_p999_ms", quantile(0.999)),
            ("sojourn_max_ms", Column::F64(of_classes().map(|(_, of_class)| ms(of_class.max())).collect())),
        ]);
        let bins: Vec<_> = of_classes().flat_map(|(class, of_class)| of_class.buckets().map(move |bin| (class, bin))).collect();
        let histogram = Table::new(vec![
            ("class", Column::U64(bins.iter().map(|(class, _)| *class).collect())),
            ("from_ms", Column::F64(bins.iter().map(|(_, (from, _))| ms(*from)).collect())),
            ("packets", Column::U64(bins.iter().map(|(_, (_, count))| *count).collect())),
        ]);
        (classes, histogram)
    }
}

#[derive(Default)]
struct FlowSeries {
    time_s: Vec<f64>,
    flow: Vec<u64>,
    goodput_mbit: Vec<f64>,
    srtt_ms: Vec<f64>,
    cwnd: Vec<u64>,
    ssthresh: Vec<u64>,
    in_flight: Vec<u64>,
    retransmissions: Vec<u64>,
}

#[derive(Default)]
struct QueueSeries {
    time_s: Vec<f64>,
    backlog_packets: Vec<u64>,
    backlog_bytes: Vec<u64>,
    sojourn_mean_ms: Vec<f64>,
    throughput_mbit: Vec<f64>,
    ce_marks: Vec<u64>,
    sce_marks: Vec<u64>,
    drops: Vec<u64>,
}

/// Everything measured so far.
pub struct Measures {
    /// Flows that have not started yet.
    waiting: usize,
    samples: Vec<Samples>,
    results: Vec<FlowResult>,
    queue: QueueResult,
    interval: Time,
    acked_before: Vec<u64>,
    retransmitted_before: Vec<u64>,
    /// Counters of the queue at the last point.
    queue_before: QueueCounters,
    /// When the last flow started, and what each had had acknowledged by then.
    last_start: Option<(Time, Vec<u64>)>,
    /// From the start of the last flow until the shares of one interval were first fair.
    convergence: Option<Time>,
    /// From there until the shares of everything acknowledged since were first fair.
    convergence_cumulative: Option<Time>,
    flow_series: FlowSeries,
    queue_series: QueueSeries,
}

/// Shares with a Jain index of at least this count as fair: two flows within a factor of 1.6 (ABE, Khademi et al. 2017).
const FAIR: f64 = 0.95;

/// Jain's index of fairness, 1/n to 1; NaN if nothing was shared.
fn jain(shares: &[f64]) -> f64 {
    let total: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    if squares > 0.0 {
        total * total / (shares.len() as f64 * squares)
    } else {
        f64::NAN
    }
}

fn ms(time: Time) -> f64 {
    time.0 as f64 / 1e6
}

impl Measures {
    /// Nothing measured yet, for `flows` flows; series at `interval`, or none if that is zero.
    pub fn new(flows: usize, interval: Time) -> Measures {
        Measures {
            waiting: flows,
            samples: vec![Samples::default(); flows],
            results: vec![FlowResult::default(); flows],
            queue: QueueResult::default(),
            interval,
            acked_before: vec![0; flows],
            retransmitted_before: vec![0; flows],
            queue_before: QueueCounters::default(),
            last_start: None,
            convergence: None,
            convergence_cumulative: None,
            flow_series: FlowSeries::default(),
            queue_series: QueueSeries::default(),
        }
    }

    /// Takes a sample as `ss` would print it. A flow that has no RTT yet, or has ended, gives none.
    pub fn sample(&mut self, flow: usize, sender: &Sender, now: Time) {
        let srtt = sender.conn.rtt.srtt_us();
        if srtt == 0 || sender.finished.is_some_and(|finished| finished < now) {
            return;
        }
        let samples = &mut self.samples[flow];
        samples.count += 1;
        samples.srtt_us += u64::from(srtt);
        samples.srtt_max_us = samples.srtt_max_us.max(srtt);
        samples.cwnd += u64::from(sender.conn.cwnd);
        samples.cwnd_max = samples.cwnd_max.max(sender.conn.cwnd);
    }

    /// A flow started at `now`. From the start of the last one on, convergence is measured.
    pub fn flow_started<'a>(&mut self, now: Time, senders: impl Iterator<Item = &'a Sender>) {
        if self.waiting > 1 {
            self.waiting -= 1;
            return;
        }
        self.last_start = Some((now, senders.map(Sender::bytes_acked).collect()));
    }

    /// A point of the time series at `now`.
    pub fn point<'a, A: Aqm>(&mut self, now: Time, senders: impl Iterator<Item = &'a Sender>, bottleneck: &Bottleneck<A>) {
        let seconds = self.interval.as_secs_f64();
        let time_s = now.as_secs_f64();
        let series = &mut self.flow_series;
        let first = series.goodput_mbit.len();
        let mut since_entry = Vec::new();
        for (flow, sender) in senders.enumerate() {
            let acked = sender.bytes_acked();
            if let (Some((_, at_entry)), None) = (&self.last_start, self.convergence_cumulative) {
                since_entry.push((acked - at_entry[flow]) as f64);
            }
            let retransmitted = sender.stats.retransmissions;
            series.time_s.push(time_s);
            series.flow.push(flow as u64);
            series.goodput_mbit.push((acked - self.acked_before[flow]) as f64 * 8e-6 / seconds);
            series.srtt_ms.push(f64::from(sender.conn.rtt.srtt_us()) / 1e3);
            series.cwnd.push(u64::from(sender.conn.cwnd));
            series.ssthresh.push(u64::from(sender.conn.ssthresh));
            series.in_flight.push(u64::from(sender.conn.in_flight()));
            series.retransmissions.push(retransmitted - self.retransmitted_before[flow]);
            self.acked_before[flow] = acked;
            self.retransmitted_before[flow] = retransmitted;
        }
        let interval = &series.goodput_mbit[first..];
        if let (Some((entry, _)), true) = (&self.last_start, interval.len() > 1) {
            let since = now.saturating_sub(*entry);
            if self.convergence.is_none() && since >= self.interval && jain(interval) >= FAIR {
                self.convergence = Some(since);
            }
            if self.convergence_cumulative.is_none() && jain(&since_entry) >= FAIR {
                self.convergence_cumulative = Some(since);
            }
        }
        let counts = bottleneck.counters.queue;
        let before = std::mem::replace(&mut self.queue_before, counts);
        let since = |of: fn(&QueueCounters) -> u64| of(&counts) - of(&before);
        let (sojourn_ns, sent) = (since(|queue| queue.sojourn_ns), since(|queue| queue.sent));
        let queue_series = &mut self.queue_series;
        queue_series.time_s.push(time_s);
        queue_series.backlog_packets.push(bottleneck.aqm.packets() as u64);
        queue_series.backlog_bytes.push(bottleneck.aqm.bytes());
        queue_series.sojourn_mean_ms.push(if sent > 0 { sojourn_ns as f64 / sent as f64 / 1e6 } else { 0.0 });
        queue_series.throughput_mbit.push(since(|queue| queue.bytes) as f64 * 8e-6 / seconds);
        queue_series.ce_marks.push(since(|queue| queue.ce_marks));
        queue_series.sce_marks.push(since(|queue| queue.sce_marks));
        queue_series.drops.push(since(|queue| queue.drops_overflow + queue.drops_aqm));
    }

    /// The measured time of a flow is over.
    pub fn finish_flow(&mut self, flow: usize, result: FlowResult) {
        self.results[flow] = result;
    }

    /// The measured time of the queue is over.
    pub fn finish_queue<A: Aqm>(&mut self, bottleneck: &Bottleneck<A>) {
        let log = &bottleneck.counters;
        let internal = log.internal.iter().flat_map(|(name, of)| {
            let counts = [("packets", of.packets), ("ce_marks", of.ce_marks), ("sce_marks", of.sce_marks), ("drops", of.drops)];
            counts.map(|(what, count)| (format!("{name}_{what}"), count))
        });
        self.queue = QueueResult {
            sojourn: log.classes.sojourn.clone(),
            all: log.queue,
            counters: bottleneck.aqm.counters().into_iter().chain(internal).collect(),
        };
    }

    /// Bits that the bottleneck could have carried: rate integrated over the run.
    fn capacity_bits(config: &RunConfig) -> f64 {
        let (mut bits, mut since, mut rate) = (0.0, Time::ZERO, config.bottleneck.rate);
        for change in &config.rate_changes {
            let at = change.at.min(config.run.duration);
            bits += (at - since).as_secs_f64() * rate.bits() as f64;
            (since, rate) = (at, change.rate);
        }
        bits + (config.run.duration - since).as_secs_f64() * rate.bits() as f64
    }

    /// Tables and summary.
    pub fn outcome(self, config: &RunConfig, events: u64) -> Outcome {
        let flows = &self.results;
        let goodput: Vec<f64> = flows.iter().map(|flow| flow.mbit(flow.bytes_acked)).collect();
        let total: f64 = goodput.iter().sum();
        let jain = jain(&goodput);
        let mean = |sum: u64, count: u64, scale: f64| if count > 0 { sum as f64 / count as f64 / scale } else { f64::NAN };
        let duration = config.run.duration.as_secs_f64();
        let queue = &self.queue.all;
        let mut all = Histogram::default();
        self.queue.sojourn.iter().for_each(|of_class| all.merge(of_class));
        let quantile = |q: f64| ms(all.quantile(q));
        let drops = queue.drops_overflow + queue.drops_aqm;
        let offered = (queue.packets + drops).max(1) as f64;
        let summary = json!({
            "utilisation": queue.bytes as f64 * 8.0 / Self::capacity_bits(config),
            "throughput_mbit": queue.bytes as f64 * 8e-6 / duration,
            "goodput_total_mbit": total,
            "jain": if jain.is_nan() { None } else { Some(jain) },
            "convergence_s": self.convergence.map(Time::as_secs_f64),
            "convergence_cumulative_s": self.convergence_cumulative.map(Time::as_secs_f64),
            "packets": queue.packets,
            "backlog_mean_packets": all.mean() / 1e9 * queue.packets as f64 / duration,
            "sojourn_mean_ms": all.mean() / 1e6,
            "sojourn_p1_ms": quantile(0.01),
            "sojourn_p25_ms": quantile(0.25),
            "sojourn_p50_ms": quantile(0.5),
            "sojourn_p75_ms": quantile(0.75),
            "sojourn_p99_ms": quantile(0.99),
            "sojourn_p999_ms": quantile(0.999),
            "sojourn_max_ms": ms(all.max()),
            "ce_marks": queue.ce_marks,
            "sce_marks": queue.sce_marks,
            "drops_overflow": queue.drops_overflow,
            "drops_aqm": queue.drops_aqm,
            "mark_share": queue.ce_marks as f64 / queue.packets.max(1) as f64,
            "drop_share": drops as f64 / offered,
            "retransmissions": flows.iter().map(|flow| flow.sender.retransmissions).sum::<u64>(),
            "aqm_counters": self.queue.counters,
            "events": events,
        });

        let samples = &self.samples;
        let text = |f: &dyn Fn(usize) -> String| Column::Text((0..flows.len()).map(f).collect());
        let real = |f: &dyn Fn(usize) -> f64| Column::F64((0..flows.len()).map(f).collect());
        let int = |f: &dyn Fn(&FlowResult) -> u64| Column::U64(flows.iter().map(f).collect());
        let class_of = config.classes();
        let named = |i: usize| config.flows[i].cc.get("name").and_then(serde_json::Value::as_str).unwrap_or("").to_owned();
        let columns: Vec<(&str, Column)> = vec![
            ("flow", Column::U64((0..flows.len() as u64).collect())),
            ("class", Column::U64(class_of.iter().map(|&class| u64::from(class)).collect())),
            ("cc", text(&named)),
            ("base_rtt_ms", real(&|i| ms(config.flows[i].params.base_rtt))),
            ("start_s", real(&|i| flows[i].start.as_secs_f64() - config.flows[i].params.base_rtt.as_secs_f64() / 2.0)),
            ("goodput_mbit", real(&|i| goodput[i])),
            ("throughput_mbit", real(&|i| flows[i].mbit(flows[i].receiver.frame_bytes))),
            ("share", real(&|i| if total > 0.0 { goodput[i] / total } else { f64::NAN })),
            ("rtt_mean_ms", real(&|i| mean(samples[i].srtt_us, samples[i].count, 1e3))),
            ("rtt_max_ms", real(&|i| f64::from(samples[i].srtt_max_us) / 1e3)),
            (
                "rtt_min_ms",
                real(&|i| if flows[i].min_rtt_us == u32::MAX { f64::NAN } else { f64::from(flows[i].min_rtt_us) / 1e3 }),
            ),
            ("cwnd_mean", real(&|i| mean(samples[i].cwnd, samples[i].count, 1.0))),
            ("cwnd_max", Column::U64((0..flows.len()).map(|i| u64::from(samples[i].cwnd_max)).collect())),
            ("completion_s", real(&|i| flows[i].completion.map_or(f64::NAN, Time::as_secs_f64))),
            ("sent", int(&|flow| flow.sender.sent)),
            ("retransmissions", int(&|flow| flow.sender.retransmissions)),
            ("timeouts", int(&|flow| flow.sender.timeouts)),
            ("probes", int(&|flow| flow.sender.probes)),
            ("ecn_reductions", int(&|flow| flow.sender.ecn_reductions)),
            ("loss_reductions", int(&|flow| flow.sender.loss_reductions)),
            ("undone_reductions", int(&|flow| flow.sender.undone)),
            ("ce_received", int(&|flow| flow.receiver.ce)),
            ("sce_received", int(&|flow| flow.receiver.ect1)),
            ("acks", int(&|flow| flow.receiver.acks)),
            ("duplicates", int(&|flow| flow.receiver.duplicates)),
            ("packets", int(&|flow| flow.counters.departed)),
            ("sojourn_mean_ms", real(&|i| mean(flows[i].counters.sojourn_ns, flows[i].counters.departed, 1e6))),
            ("drops_overflow", int(&|flow| flow.counters.dropped_overflow)),
            ("drops_aqm", int(&|flow| flow.counters.dropped_aqm)),
        ];
        let flow_table = Table::new(columns);

        let series = self.flow_series;
        let flow_series = Table::new(vec![
            ("time_s", Column::F64(series.time_s)),
            ("flow", Column::U64(series.flow)),
            ("goodput_mbit", Column::F64(series.goodput_mbit)),
            ("srtt_ms", Column::F64(series.srtt_ms)),
            ("cwnd", Column::U64(series.cwnd)),
            ("ssthresh", Column::U64(series.ssthresh)),
            ("in_flight", Column::U64(series.in_flight)),
            ("retransmissions", Column::U64(series.retransmissions)),
        ]);
        let points = self.queue_series;
        let queue_series = Table::new(vec![
            ("time_s", Column::F64(points.time_s)),
            ("backlog_packets", Column::U64(points.backlog_packets)),
            ("backlog_bytes", Column::U64(points.backlog_bytes)),
            ("sojourn_mean_ms", Column::F64(points.sojourn_mean_ms)),
            ("throughput_mbit", Column::F64(points.throughput_mbit)),
            ("ce_marks", Column::U64(points.ce_marks)),
            ("sce_marks", Column::U64(points.sce_marks)),
            ("drops", Column::U64(points.drops)),
        ]);
        let (classes, sojourn) = self.queue.by_class();
        let tables = Tables { flows: flow_table, classes, series: flow_series, queue_series, sojourn };
        Outcome::new(summary, tables, config.bottleneck.rate.bits())
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
