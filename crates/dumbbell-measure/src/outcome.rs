//! The outcome of a run: tables, figures, and a digest of both.

use crate::classes::{self, Totals};
use crate::columns::{self, describe, ColumnSpec, EngineKind, FlowRow, Punctuality, RunRow, Runs, SeenFlows, SojournBin, Timing};
use crate::flow::FlowResult;
use crate::hop_log::HopLog;
use crate::measure::Measures;
use crate::statistics::{jain, ms};
use crate::table::{Column, Table, UNREPORTED};
use crate::together::Common;
use crate::trace::Trace;
use crate::transit;
use dumbbell_config::{Classes, RunConfig};
use dumbbell_core::histogram::{Histogram, BINS, LEAST_BIN};
use dumbbell_core::record::QueueCounters;
use dumbbell_core::rng::mix;
use dumbbell_core::units::{Duration, Instant};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{json, Map, Value};
use std::sync::OnceLock;

/// A table: its name, what has a row in it, and its columns.
type TableSpec = (&'static str, &'static str, Vec<ColumnSpec>);

/// Declares the tables of a run, each with the sets of its columns.
macro_rules! tables {
    ($(#[doc = $about:literal] $name:ident: $($set:ident),+;)*) => {
        /// Measurements of a run as columns.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub struct Tables { $( #[doc = $about] pub $name: Table, )* }

        impl Tables {
            /// How many there are.
            const COUNT: usize = [$(stringify!($name)),*].len();

            /// Every table with its name in the store, in order.
            pub fn named_tables(&self) -> [(&'static str, &Table); Tables::COUNT] {
                [$( (stringify!($name), &self.$name) ),*]
            }

            fn named_mut(&mut self) -> [(&'static str, &mut Table); Tables::COUNT] {
                [$( (stringify!($name), &mut self.$name) ),*]
            }

            /// Every table, `runs` first: its name, what has a row in it, and its columns, described, in order.
            pub fn specs() -> &'static [TableSpec] {
                // a short run takes no longer than describing them
                static ALL: OnceLock<Vec<TableSpec>> = OnceLock::new();
                ALL.get_or_init(|| {
                    let runs = [Runs::specs(), SeenFlows::specs(), Punctuality::specs()].concat();
                    let mut all = vec![("runs", describe("One row per run.", ""), runs)];
                    $( all.push((stringify!($name), describe($about.trim_ascii(), ""), [$(columns::$set::specs()),+].concat())); )*
                    all
                })
            }
        }
    };
}

tables! {
    /// One row per flow or source of UDP of a run.
    flows: Flows, Ends;
    /// One row per class of traffic of a run.
    classes: Classes;
    /// One row per flow and interval of a run.
    series: Series;
    /// One row per interval of a run: the queue.
    queue_series: QueueSeries;
    /// One row per class and bin of a run's histogram of the time in queue.
    sojourn: Sojourn;
    /// One row per class and bin of a run's histogram of round-trip times.
    rtt: Rtt;
    /// One row per short flow of a run.
    short_flows: ShortFlows;
    /// One row per class and range of sizes of a run's short flows.
    slowdowns: Slowdowns;
    /// One row per flow and change of state, or interval, of a run: what its congestion control believes.
    trace: Trace;
    /// One row per hop of a run with several; none of a run with one, of which table runs has the figures.
    hops: Hops;
    /// One row per hop and interval of a run with several hops.
    hop_series: HopSeries;
    /// One row per interval, hop and state that record.queue names.
    queue_states: QueueStates;
    /// One row per user of an application of a run; of applications of datagrams, one for each way.
    apps: Apps;
    /// One row per page, transfer or other load of a run's applications that was complete.
    app_loads: AppLoads;
}

impl Tables {
    /// Every table and column, described, and the bins of histograms that values are read from: their number in a doubling of the value, and
    /// the width of the narrowest, ms.
    pub fn describe_tables() -> Value {
        let of_table = |(name, about, columns): &TableSpec| {
            json!([name, about, columns.iter().map(ColumnSpec::to_json).collect::<Vec<_>>()])
        };
        let tables: Vec<Value> = Tables::specs().iter().map(of_table).collect();
        json!({"tables": tables, "bins": BINS, "least_bin_ms": ms(LEAST_BIN)})
    }
}

/// Measurements of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Figures of the queue and across flows.
    pub summary: Value,
    /// Everything else.
    pub tables: Tables,
    /// Digest of what was measured: equal for equal results.
    pub hash: String,
}

impl Outcome {
    /// Takes the digest of what was measured.
    pub fn new(summary: Map<String, Value>, tables: Tables) -> Outcome {
        let mut digest = Digest::default();
        let specs = Tables::specs();
        let beside = |columns: &[ColumnSpec]| -> Vec<&'static str> {
            columns.iter().filter(|column| !column.in_digest).map(|column| column.name).collect()
        };
        let covered = CoveredFigures { figures: &summary, left_out: &beside(&specs[0].2) };
        digest.bytes(serde_json::to_string(&covered).unwrap_or_default().as_bytes());
        for ((of, table), (_, _, columns)) in tables.named_tables().into_iter().zip(&specs[1..]) {
            // what is recorded by wish says nothing else of the run
            if of == "queue_states" || ((of.starts_with("hop") || of.starts_with("app")) && table.height() == 0) {
                continue;
            }
            let left_out = beside(columns);
            for (name, column) in table.columns.iter().filter(|(name, _)| !left_out.contains(&name.as_ref())) {
                digest.column(name, column);
            }
        }
        Outcome { summary: Value::Object(summary), tables, hash: digest.hex() }
    }

    /// Leaves out what `engine`, which carried the run out, does not measure.
    pub fn keep_columns_of(&mut self, engine: EngineKind) {
        let specs = Tables::specs();
        let has =
            |columns: &[ColumnSpec], name: &str| columns.iter().all(|one| one.name != name || one.engines.contains(&engine));
        if let Some(figures) = self.summary.as_object_mut() {
            figures.retain(|name, _| has(&specs[0].2, name));
        }
        for ((_, table), (_, _, columns)) in self.tables.named_mut().into_iter().zip(&specs[1..]) {
            table.columns.retain(|(name, _)| has(columns, name));
        }
    }

    /// Replaces the values of columns of counts, which nobody could measure in this run, by [`UNREPORTED`] in all tables.
    pub fn clear_counts(&mut self, names: &[&str]) {
        for (name, value) in self.summary.as_object_mut().into_iter().flatten() {
            if names.contains(&name.as_str()) {
                *value = UNREPORTED.into();
            }
        }
        for (_, table) in self.tables.named_mut() {
            for (name, column) in &mut table.columns {
                if let (true, Column::U64(values)) = (names.contains(&name.as_ref()), column) {
                    values.fill(UNREPORTED);
                }
            }
        }
    }

    /// Adds how well a run in real time kept its schedule.
    pub fn add_timing(&mut self, timing: &Timing) {
        if let Some(figures) = self.summary.as_object_mut() {
            Punctuality::add_figure(timing, figures);
        }
    }
}

/// The figures of a run that its digest covers: an object of JSON.
struct CoveredFigures<'a> {
    figures: &'a Map<String, Value>,
    left_out: &'a [&'static str],
}

impl Serialize for CoveredFigures<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.figures.iter().filter(|(name, _)| !self.left_out.contains(&name.as_str())))
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

    fn column(&mut self, name: &str, column: &Column) {
        self.bytes(name.as_bytes());
        match column {
            Column::U64(values) => values.iter().for_each(|&value| self.word(value)),
            Column::F64(values) => values.iter().for_each(|value| self.word(value.to_bits())),
            Column::Text(values) => values.iter().for_each(|value| self.bytes(value.as_bytes())),
        }
    }

    fn hex(&self) -> String {
        format!("{:016x}{:016x}", self.0[0], self.0[1])
    }
}

/// Histograms, one for each class in order, as rows of class and bin that is not empty.
fn bins_by_class<B: Iterator<Item = (Duration, u64)>>(of_classes: impl Iterator<Item = B>) -> Vec<SojournBin> {
    let of_class = |(class, bins): (u64, B)| bins.map(move |(from, count)| SojournBin { class, from, count });
    (0..).zip(of_classes).flat_map(of_class).collect()
}

/// Figures of the queue and across flows. `common` is the time that flows have in common.
fn summary(
    measures: &Measures,
    config: &RunConfig,
    common: Option<&Common>,
    ratios: [Option<f64>; 2],
    events: u64,
) -> Map<String, Value> {
    let mut sojourn = Histogram::default();
    measures.queue.sojourn.iter().for_each(|of_class| sojourn.merge(of_class));
    let mut delays = transit::Delays::default();
    measures.results.iter().filter_map(|flow| flow.transit.as_ref()).for_each(|transit| delays.merge(&transit.delays));
    let mut fate = transit::UdpFate::default();
    measures.results.iter().for_each(|flow| fate.merge(flow.fate()));
    let run = RunRow {
        queue: &measures.queue.all,
        of_discipline: &measures.queue.counters,
        sojourn,
        seconds: config.measured_time().as_secs_f64(),
        capacity: config.capacity_bits(config.measured_from(), config.end()) - measures.queue.all.lost_bytes as f64 * 8.0,
        goodput_mbit: measures.results.iter().map(FlowResult::goodput_mbit).sum::<f64>(),
        jain: common.map_or(f64::NAN, |common| jain(&common.payload[..config.flows.len()])),
        common_s: common.filter(|_| !config.flows.is_empty()).map(|common| common.seconds),
        convergence: measures.together.convergence,
        convergence_cumulative: measures.together.convergence_cumulative,
        // the sum of what one flow does not tell is not known
        retransmissions: measures.results.iter().fold(0, |sum: u64, flow| sum.saturating_add(flow.retransmissions())),
        short_flows: [measures.short_flows.seen, measures.short_flows.count_kept()],
        events,
        fate,
        delays_ms: delays.figures_ms(),
        ratios,
    };
    let mut figures = Map::new();
    Runs::add_figure(&run, &mut figures);
    figures
}

/// One row per listed flow or source of UDP.
fn flows_table(results: &[FlowResult], config: &RunConfig, classes: &Classes, common: Option<&Common>) -> Table {
    let class_of = classes.of_flow.iter().chain(&classes.of_udp);
    let shares = common.map(Common::shares).unwrap_or_default();
    let rows = results.iter().zip(class_of).enumerate().map(|(number, (result, &class))| {
        let udp = || &config.udp[number - config.flows.len()];
        let flow = config.flows.get(number);
        let base_rtt = flow.map_or_else(|| udp().params.base_rtt, |flow| flow.params.base_rtt);
        let route = &classes.list[usize::from(class)].route;
        // the clock of those that send down runs ahead
        let ahead = if route.up { 0.0 } else { base_rtt.as_secs_f64() / 2.0 };
        FlowRow {
            number: number as u64,
            class,
            cc: flow.map_or_else(|| udp().name(), |flow| flow.transport.name()),
            direction: route.direction(),
            base_rtt,
            start_s: result.start.as_secs_f64() - ahead,
            goodput_common_mbit: common.map_or(f64::NAN, |common| common.goodput_mbit(number)),
            share: shares.get(number).copied().unwrap_or(f64::NAN),
            rtt_ms: result.rtt_percentiles_ms(),
            delays_ms: result.transit.as_ref().map_or([f64::NAN; 6], |transit| transit.delays.figures_ms()),
            result,
        }
    });
    columns::Flows::table(&rows.collect::<Vec<_>>())
}

/// Returns the rate that the link of each hop can carry, bit/s of frames: without the link layer's additions and without the share that others took.
fn link_rates(config: &RunConfig, first: &QueueCounters, hops: &HopLog) -> Vec<f64> {
    let seconds = config.measured_time().as_secs_f64();
    let of_frames = |(number, rate): (usize, f64)| {
        let counted = hops.queue_counters(number).unwrap_or(first);
        let share = if counted.link_layer_bytes == 0 { 1.0 } else { counted.bytes as f64 / counted.line_bytes() as f64 };
        (rate - counted.lost_bytes as f64 * 8.0 / seconds) * share
    };
    config.link_rates().into_iter().enumerate().map(of_frames).collect()
}

/// Tables and summary of what `measures` holds after `events` events.
pub fn outcome(mut measures: Measures, config: &RunConfig, classes: &Classes, events: u64) -> Outcome {
    measures.settle();
    let common = measures.together.common(&measures.results, &measures.begun);
    let flows = flows_table(&measures.results, config, classes, common.as_ref());
    let mut totals: Vec<Totals> = std::mem::take(&mut measures.short_totals);
    for (result, &class) in measures.results.iter().zip(classes.of_flow.iter().chain(&classes.of_udp)) {
        totals[usize::from(class)].add(result);
    }
    let mut hop_log = measures.hops.take().unwrap_or_default();
    let of_classes = if hop_log.sojourn.is_empty() { &measures.queue.sojourn } else { &hop_log.sojourn };
    let sojourn = columns::Sojourn::table(&bins_by_class(of_classes.iter().map(Histogram::buckets)));
    let class_rows = classes::table(
        &classes.list,
        &totals,
        of_classes,
        &link_rates(config, &measures.queue.all, &hop_log),
        config.measured_time(),
    );
    let ratios = classes::ratios(classes, &totals, common.as_ref());
    let summary = summary(&measures, config, common.as_ref(), ratios, events);
    measures.results = Vec::new();
    // a point stands for the interval before it
    let interval = config.series_interval().unwrap_or(Duration::ZERO);
    for (point, row) in (0..).zip(&mut measures.queue_series) {
        let from = Instant(point * interval.0);
        row.capacity_mbit += config.capacity_bits(from, from + interval) * 1e-6 / interval.as_secs_f64();
    }
    let trace = measures.trace.map_or_else(|| Trace::default().table(), |trace| trace.table());
    let tables = Tables {
        flows,
        classes: class_rows,
        series: columns::Series::table(&measures.flow_series),
        queue_series: columns::QueueSeries::table(&measures.queue_series),
        sojourn,
        rtt: columns::Rtt::table(&bins_by_class(totals.iter().map(|of_class| of_class.rtt_samples().buckets()))),
        short_flows: measures.short_flows.flows_table(),
        slowdowns: measures.short_flows.sizes_table(),
        trace,
        hops: hop_log.table(),
        hop_series: hop_log.series(config),
        queue_states: columns::QueueStates::table(&measures.states.0),
        apps: measures.apps.table(config, classes),
        app_loads: measures.apps.loads_table(config, classes),
    };
    Outcome::new(summary, tables)
}
