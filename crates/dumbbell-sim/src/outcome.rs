//! What a run measured: the tables of a run that is over, figures, and a digest of both.

use crate::classes::{self, Totals};
use crate::config::{cc_name, Classes, RunConfig};
use crate::measure::{jain, mean, ms, FlowResult, Measures};
use crate::table::{Column, Table};
use crate::trace::Trace;
use crate::transit::{self, Delays, DELAYS, JITTER};
use dumbbell_core::cc::exit::ExitCause;
use dumbbell_core::histogram::Histogram;
use dumbbell_core::rng::mix;
use dumbbell_core::units::Time;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

/// What a run measured, as columns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tables {
    /// One row per flow or source of UDP that is listed.
    pub flows: Table,
    /// One row per class of traffic.
    pub classes: Table,
    /// One row per listed flow and interval.
    pub series: Table,
    /// One row per interval.
    pub queue_series: Table,
    /// Histogram of the time in queue, one row per class and bin.
    pub sojourn: Table,
    /// Histogram of the RTT samples of listed TCP flows, one row per class and bin.
    pub rtt: Table,
    /// One row per short flow.
    pub short_flows: Table,
    /// Short flows by class and size.
    pub slowdowns: Table,
    /// What the congestion controls of the listed flows believed, if it was recorded.
    pub trace: Table,
    /// One row per hop, of several.
    pub hops: Table,
    /// One row per point and hop, of several.
    pub hop_series: Table,
    /// One row per point, hop and recorded part of its queue discipline's state.
    pub queue_states: Table,
}

impl Tables {
    /// Every table with its name in the store, in order.
    pub fn named(&self) -> [(&'static str, &Table); 12] {
        let Tables {
            flows,
            classes,
            series,
            queue_series,
            sojourn,
            rtt,
            short_flows,
            slowdowns,
            trace,
            hops,
            hop_series,
            queue_states,
        } = self;
        [
            ("flows", flows),
            ("classes", classes),
            ("series", series),
            ("queue_series", queue_series),
            ("sojourn", sojourn),
            ("rtt", rtt),
            ("short_flows", short_flows),
            ("slowdowns", slowdowns),
            ("trace", trace),
            ("hops", hops),
            ("hop_series", hop_series),
            ("queue_states", queue_states),
        ]
    }
}

/// What a run measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Figures of the queue and across flows.
    pub summary: Value,
    /// Everything else.
    pub tables: Tables,
    /// Digest of what was measured: equal for equal results.
    pub hash: String,
}

/// Columns of flows: what ended slow start first, and when.
const EXIT: &str = "slow_start_exit";
const EXIT_TIME: &str = "slow_start_exit_s";

/// Whether the digest leaves a figure of a run or column of a table out.
///
/// A run that behaves as ever keeps its digest, so that results of any two engines can be compared by it. Measures that came later are
/// therefore left out. P95 of the time in queue follows from the histogram, which the digest covers. One-way delays follow from
/// the configuration and its random draws, which show in the rest of what is measured, unless UDP alone passes stages of a path that draw.
/// The direction is part of the configuration. Slow start ends where windows and counters show it.
fn is_beside_digest(name: &str) -> bool {
    matches!(name, "sojourn_p95_ms" | "direction" | "answers" | EXIT | EXIT_TIME) || transit::is_of_transit(name)
}

impl Outcome {
    pub(crate) fn new(summary: Value, tables: Tables) -> Outcome {
        let mut digest = Digest::default();
        let mut covered = summary.clone();
        if let Some(figures) = covered.as_object_mut() {
            figures.retain(|name, _| !is_beside_digest(name));
        }
        digest.bytes(covered.to_string().as_bytes());
        // what is recorded by wish says nothing else of the run
        let is_beside = |name: &str, table: &Table| name == "queue_states" || (name.starts_with("hop") && table.height() == 0);
        let others = tables.named().into_iter().filter(|(name, table)| !is_beside(name, table));
        others.for_each(|(_, table)| digest.table(table));
        Outcome { summary, tables, hash: digest.hex() }
    }
}

/// 128 bits over what a run measured; not against an adversary.
struct Digest([u64; 2]);

impl Default for Digest {
    fn default() -> Digest {
        Digest([mix(1), mix(2)])
    }
}

impl Digest {
    fn word(&mut self, word: u64) {
        self.0 = [mix(self.0[0] ^ word), mix(self.0[1].rotate_left(23) ^ word)];
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn table(&mut self, table: &Table) {
        for (name, column) in table.columns.iter().filter(|(name, _)| !is_beside_digest(name)) {
            self.bytes(name.as_bytes());
            match column {
                Column::U64(values) => values.iter().for_each(|&value| self.word(value)),
                Column::F64(values) => values.iter().for_each(|value| self.word(value.to_bits())),
                Column::Text(values) => values.iter().for_each(|value| self.bytes(value.as_bytes())),
            }
        }
    }

    fn hex(&self) -> String {
        format!("{:016x}{:016x}", self.0[0], self.0[1])
    }
}

/// Quantiles of the time in queue, one row per class, and its histogram, one row per class and bin.
fn sojourn_by_class(sojourn: &[Histogram]) -> (Table, Table) {
    let of_classes = || (0_u64..).zip(sojourn);
    let quantile = |q: f64| Column::F64(of_classes().map(|(_, of_class)| ms(of_class.quantile(q))).collect());
    let quantiles = Table::new(vec![
        ("class", Column::U64(of_classes().map(|(class, _)| class).collect())),
        ("sojourn_p1_ms", quantile(0.01)),
        ("sojourn_p25_ms", quantile(0.25)),
        ("sojourn_p50_ms", quantile(0.5)),
        ("sojourn_p75_ms", quantile(0.75)),
        ("sojourn_p95_ms", quantile(0.95)),
        ("sojourn_p99_ms", quantile(0.99)),
        ("sojourn_p999_ms", quantile(0.999)),
        ("sojourn_max_ms", Column::F64(of_classes().map(|(_, of_class)| ms(of_class.max())).collect())),
    ]);
    (quantiles, bins_by_class(sojourn.iter().map(Histogram::buckets), "packets"))
}

/// Histograms, one for each class in order, with one row per class and bin that is not empty; `counted` is what is in a bin.
fn bins_by_class<B: Iterator<Item = (Time, u64)>>(of_classes: impl Iterator<Item = B>, counted: &str) -> Table {
    let bins: Vec<_> = (0_u64..).zip(of_classes).flat_map(|(class, bins)| bins.map(move |bin| (class, bin))).collect();
    Table::new(vec![
        ("class", Column::U64(bins.iter().map(|(class, _)| *class).collect())),
        ("from_ms", Column::F64(bins.iter().map(|(_, (from, _))| ms(*from)).collect())),
        (counted, Column::U64(bins.iter().map(|(_, (_, count))| *count).collect())),
    ])
}

/// Figures of the queue and across flows.
fn summary(measures: &Measures, config: &RunConfig, goodput: &[f64], events: u64) -> Value {
    let queue = &measures.queue.all;
    let duration = config.measured().as_secs_f64();
    let capacity = config.capacity_bits(config.measured_from(), config.run.duration);
    let jain = jain(&goodput[..config.flows.len()]);
    let mut all = Histogram::default();
    measures.queue.sojourn.iter().for_each(|of_class| all.merge(of_class));
    let quantile = |q: f64| ms(all.quantile(q));
    let mut delays = Delays::default();
    measures.results.iter().filter_map(|flow| flow.transit.as_ref()).for_each(|transit| delays.merge(&transit.delays));
    let drops = queue.drops_overflow + queue.drops_aqm;
    let offered = (queue.packets + drops).max(1) as f64;
    let mut summary = json!({
        "utilisation": queue.bytes as f64 * 8.0 / capacity,
        "capacity_mbit": capacity * 1e-6 / duration,
        "throughput_mbit": queue.bytes as f64 * 8e-6 / duration,
        "goodput_total_mbit": goodput.iter().sum::<f64>(),
        "jain": if jain.is_nan() { None } else { Some(jain) },
        "convergence_s": measures.convergence.map(Time::as_secs_f64),
        "convergence_cumulative_s": measures.convergence_cumulative.map(Time::as_secs_f64),
        "packets": queue.packets,
        "backlog_mean_packets": all.mean() / 1e9 * queue.packets as f64 / duration,
        "sojourn_mean_ms": all.mean() / 1e6,
        "sojourn_p1_ms": quantile(0.01),
        "sojourn_p25_ms": quantile(0.25),
        "sojourn_p50_ms": quantile(0.5),
        "sojourn_p75_ms": quantile(0.75),
        "sojourn_p95_ms": quantile(0.95),
        "sojourn_p99_ms": quantile(0.99),
        "sojourn_p999_ms": quantile(0.999),
        "sojourn_max_ms": ms(all.max()),
        "ce_marks": queue.ce_marks,
        "sce_marks": queue.sce_marks,
        "drops_overflow": queue.drops_overflow,
        "drops_aqm": queue.drops_aqm,
        "drops": drops,
        "mark_share": queue.ce_marks as f64 / queue.packets.max(1) as f64,
        "drop_share": drops as f64 / offered,
        "retransmissions": measures.results.iter().map(|flow| flow.sender.retransmissions).sum::<u64>(),
        "short_flows": measures.short_flows.seen,
        "short_flows_kept": measures.short_flows.kept(),
        "aqm_counters": measures.queue.counters,
        "events": events,
    });
    for (name, value) in DELAYS.into_iter().zip(delays.figures_ms()) {
        summary[name] = json!(value);
    }
    summary
}

/// One row per listed flow or source of UDP.
fn flows_table(results: &[FlowResult], config: &RunConfig, classes: &Classes, goodput: &[f64]) -> Table {
    let total: f64 = goodput.iter().sum();
    let count = results.len();
    let class_of: Vec<u16> = classes.of_flow.iter().chain(&classes.of_udp).copied().collect();
    let udp = |i: usize| &config.udp[i - config.flows.len()];
    let base_rtt = |i: usize| config.flows.get(i).map_or_else(|| udp(i).params.base_rtt, |flow| flow.params.base_rtt);
    let direction = |i: usize| classes.list[usize::from(class_of[i])].route.direction().to_owned();
    let cc = |i: usize| config.flows.get(i).map_or_else(|| udp(i).name(), |flow| cc_name(&flow.cc)).to_owned();
    // the clock of those that send down runs ahead
    let ahead = |i: usize| if classes.list[usize::from(class_of[i])].route.up { 0.0 } else { base_rtt(i).as_secs_f64() / 2.0 };
    let real = |of: &dyn Fn(&FlowResult) -> f64| Column::F64(results.iter().map(of).collect());
    let real_at = |of: &dyn Fn(usize) -> f64| Column::F64((0..count).map(of).collect());
    let int = |of: &dyn Fn(&FlowResult) -> u64| Column::U64(results.iter().map(of).collect());
    let percentiles: Vec<[f64; 3]> = results.iter().map(FlowResult::rtt_percentiles_ms).collect();
    let mut table = Table::new(vec![
        ("flow", Column::U64((0..count as u64).collect())),
        ("class", Column::U64(class_of.iter().map(|&class| u64::from(class)).collect())),
        ("cc", Column::Text((0..count).map(cc).collect())),
        ("direction", Column::Text((0..count).map(direction).collect())),
        ("base_rtt_ms", real_at(&|i| ms(base_rtt(i)))),
        ("start_s", real_at(&|i| results[i].start.as_secs_f64() - ahead(i))),
        ("goodput_mbit", Column::F64(goodput.to_vec())),
        ("throughput_mbit", real(&FlowResult::throughput_mbit)),
        ("share", real_at(&|i| if total > 0.0 { goodput[i] / total } else { f64::NAN })),
        ("rtt_mean_ms", real(&FlowResult::rtt_mean_ms)),
        ("rtt_max_ms", real(&|flow| f64::from(flow.samples.srtt_max_us) / 1e3)),
        ("rtt_min_ms", real(&|flow| if flow.min_rtt_us == u32::MAX { f64::NAN } else { f64::from(flow.min_rtt_us) / 1e3 })),
        ("rtt_p50_ms", real_at(&|i| percentiles[i][0])),
        ("rtt_p95_ms", real_at(&|i| percentiles[i][1])),
        ("rtt_p99_ms", real_at(&|i| percentiles[i][2])),
        (
            "cwnd_mean",
            real(&|flow| match flow.samples.cwnd_max {
                0 => f64::NAN,
                _ => mean(flow.samples.cwnd, flow.samples.count, 1.0),
            }),
        ),
        ("cwnd_max", int(&|flow| u64::from(flow.samples.cwnd_max))),
        ("completion_s", real(&|flow| flow.completion.map_or(f64::NAN, Time::as_secs_f64))),
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
        ("answers", int(&|flow| if flow.samples.cwnd_max == 0 { flow.samples.count } else { 0 })),
        ("packets", int(&|flow| flow.counters.departed)),
        ("sojourn_mean_ms", real(&FlowResult::sojourn_mean_ms)),
        ("drops_overflow", int(&|flow| flow.counters.dropped_overflow)),
        ("drops_aqm", int(&|flow| flow.counters.dropped_aqm)),
        ("drops", int(&FlowResult::drops)),
        ("ce_marks", int(&|flow| flow.counters.ce)),
        ("sce_marks", int(&|flow| flow.counters.sce)),
        (JITTER, real(&|flow| flow.transit.as_ref().map_or(f64::NAN, |transit| transit.jitter_ms()))),
    ]);
    let delays = results.iter().map(|flow| flow.transit.as_ref().map(|transit| &transit.delays));
    table.columns.extend(transit::columns(delays));
    let exits = results.iter().map(|flow| flow.slow_start_exit);
    let cause = |exit: Option<(ExitCause, Time)>| exit.map_or("", |(cause, _)| cause.name()).to_owned();
    table.columns.push((EXIT.to_owned(), Column::Text(exits.clone().map(cause).collect())));
    let time = |exit: Option<(ExitCause, Time)>| exit.map_or(f64::NAN, |(_, time)| time.as_secs_f64());
    table.columns.push((EXIT_TIME.to_owned(), Column::F64(exits.map(time).collect())));
    table
}

/// Tables and summary of what `measures` holds after `events` events.
pub fn outcome(mut measures: Measures, config: &RunConfig, classes: &Classes, events: u64) -> Outcome {
    let results = std::mem::take(&mut measures.results);
    let goodput: Vec<f64> = results.iter().map(FlowResult::goodput_mbit).collect();
    let flows = flows_table(&results, config, classes, &goodput);
    let mut totals: Vec<Totals> = std::mem::take(&mut measures.short_totals);
    for (result, &class) in results.iter().zip(classes.of_flow.iter().chain(&classes.of_udp)) {
        totals[usize::from(class)].add(result);
    }
    measures.results = results;
    let mut summary = summary(&measures, config, &goodput, events);
    measures.results = Vec::new();
    let hop_log = measures.hops.take().unwrap_or_default();
    let (hops, hop_series) =
        (hop_log.table(config.measured()), hop_log.series(config.series_interval().unwrap_or(Time::ZERO), config));

    let series = measures.flow_series;
    let series = Table::new(vec![
        ("time_s", Column::F64(series.time_s)),
        ("flow", Column::U64(series.flow)),
        ("goodput_mbit", Column::F64(series.goodput_mbit)),
        ("srtt_ms", Column::F64(series.srtt_ms)),
        ("cwnd", Column::U64(series.cwnd)),
        ("ssthresh", Column::U64(series.ssthresh)),
        ("in_flight", Column::U64(series.in_flight)),
        ("retransmissions", Column::U64(series.retransmissions)),
    ]);
    let states = measures.states;
    let queue_states = Table::new(vec![
        ("time_s", Column::F64(states.time_s)),
        ("hop", Column::Text(states.hop)),
        ("state", Column::Text(states.state)),
        ("value", Column::F64(states.value)),
    ]);
    let points = measures.queue_series;
    // a point stands for the interval before it
    let interval = config.series_interval().unwrap_or(Time::ZERO);
    let mbit = |point: u64| {
        let from = Time(point * interval.0);
        config.capacity_bits(from, from + interval) * 1e-6 / interval.as_secs_f64()
    };
    let capacity_mbit = (0..points.time_s.len() as u64).map(mbit).collect();
    let queue_series = Table::new(vec![
        ("time_s", Column::F64(points.time_s)),
        ("backlog_packets", Column::U64(points.backlog_packets)),
        ("backlog_bytes", Column::U64(points.backlog_bytes)),
        ("sojourn_mean_ms", Column::F64(points.sojourn_mean_ms)),
        ("throughput_mbit", Column::F64(points.throughput_mbit)),
        ("capacity_mbit", Column::F64(capacity_mbit)),
        ("ce_marks", Column::U64(points.ce_marks)),
        ("sce_marks", Column::U64(points.sce_marks)),
        ("drops", Column::U64(points.drops)),
    ]);
    let of_classes = if hop_log.sojourn.is_empty() { &measures.queue.sojourn } else { &hop_log.sojourn };
    let (of_queue, sojourn) = sojourn_by_class(of_classes);
    let class_rows = classes::table(&classes.list, &totals, of_queue, &config.link_rates(), config.measured());
    for (name, ratio) in classes::ratios(&classes.list, &class_rows) {
        summary[name] = ratio;
    }
    let rtt = bins_by_class(totals.iter().map(|of_class| of_class.rtt_samples().buckets()), "samples");
    let (short_flows, slowdowns) = (measures.short_flows.flows_table(), measures.short_flows.sizes_table());
    let trace = measures.trace.map_or_else(|| Trace::default().table(), |trace| trace.table());
    let tables = Tables {
        flows,
        classes: class_rows,
        series,
        queue_series,
        sojourn,
        rtt,
        short_flows,
        slowdowns,
        trace,
        hops,
        hop_series,
        queue_states,
    };
    Outcome::new(summary, tables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sim;
    use serde_json::json;

    #[test]
    fn measures_that_came_later_are_beside_the_digest_and_no_others() {
        let config = json!({"duration": 1_000_000_000, "bottleneck": {"aqm": {"name": "codel"}}, "udp": [{}]});
        let outcome = Sim::new(&config).and_then(|sim| sim.finish().map_err(|error| panic!("{error}"))).expect("a run");
        let again = |summary: &Value, tables: &Tables| Outcome::new(summary.clone(), tables.clone()).hash;
        let names: Vec<String> = outcome.summary.as_object().expect("an object").keys().cloned().collect();
        let later = |name: &str| {
            name.starts_with("delay_")
                || name.starts_with("jitter_")
                || ["sojourn_p95_ms", "direction", "answers", "slow_start_exit", "slow_start_exit_s"].contains(&name)
        };
        assert_eq!(names.iter().filter(|name| later(name)).count(), 7);
        for name in &names {
            let mut changed = outcome.summary.clone();
            changed[name] = json!("changed");
            assert_eq!(again(&changed, &outcome.tables) == outcome.hash, later(name), "{name}");
        }
        for of_flows in [true, false] {
            let columns = if of_flows { &outcome.tables.flows.columns } else { &outcome.tables.classes.columns };
            assert_eq!(columns.iter().filter(|(name, _)| later(name)).count(), if of_flows { 11 } else { 8 });
            for (number, (name, _)) in columns.iter().enumerate() {
                let mut changed = outcome.tables.clone();
                let table = if of_flows { &mut changed.flows } else { &mut changed.classes };
                table.columns[number].1 = Column::Text(vec!["changed".to_owned()]);
                assert_eq!(again(&outcome.summary, &changed) == outcome.hash, later(name), "{name}");
            }
        }
    }
}
