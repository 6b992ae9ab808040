//! Tables of applications.

use super::runs::{JITTER, ONE_WAY};
use super::{columns, Binned, Cells, ColumnKind, ColumnSpec, Delays, Values, USERS};
use crate::apps::{UserResult, WayResult};
use crate::statistics::ms;
use crate::table::{Column, ColumnName, UNREPORTED};
use dumbbell_config::AppConfig;
use dumbbell_core::app::{measures, Load, Measure, MeasureKind, StreamDirection};

/// A user of an application, or one way of its datagrams.
pub struct AppRow<'a> {
    /// Number of the user in the run.
    pub number: u64,
    /// Application and parameters.
    pub app: &'a AppConfig,
    /// Number of the class of traffic.
    pub class: u16,
    /// Which way it is measured.
    pub way: StreamDirection,
    /// The user.
    pub user: &'a UserResult,
    /// Results of this way.
    pub result: &'a WayResult,
    /// One-way delays and the mean of the jitter of datagrams.
    pub delays_ms: [f64; 6],
    /// How long it was measured.
    pub seconds: f64,
}

impl AppRow<'_> {
    /// A value of streams; `none` for datagrams.
    fn of_streams<T>(&self, value: T, none: T) -> T {
        if self.app.spec.has_streams() {
            value
        } else {
            none
        }
    }

    /// Returns the value of a measure; NaN if the application has none.
    fn figure(&self, name: &str) -> f64 {
        let place = self.app.spec.measures().iter().position(|measure| measure.name == name);
        place.and_then(|place| self.result.figures.get(place)).copied().unwrap_or(f64::NAN)
    }
}

/// Measures that the digest of a run covers: those of the first applications. Packets, delays and losses, which it covers, decide the others.
const IN_DIGEST: [&str; 3] = ["object_p50_s", "object_p95_s", "late_share"];

/// One column for each measure of a registered application.
pub struct AppFigures;

impl ColumnKind for AppFigures {
    type Cell<'a> = &'a AppRow<'a>;

    fn specs(declared: ColumnSpec) -> Vec<ColumnSpec> {
        let of_measure = |&Measure { name, unit, label, doc, kind }: &Measure| ColumnSpec {
            name,
            unit,
            label,
            doc,
            values: match kind {
                MeasureKind::Count => Values::Count,
                MeasureKind::Word(_) => Values::Text,
                MeasureKind::Real | MeasureKind::Binned => Values::Real,
            },
            is_binned: kind == MeasureKind::Binned,
            in_digest: declared.in_digest && IN_DIGEST.contains(&name),
            ..declared
        };
        measures().into_iter().map(of_measure).collect()
    }
}

impl Cells for AppFigures {
    fn add<'a>(_: &'static str, cells: impl Iterator<Item = &'a AppRow<'a>>, to: &mut Vec<(ColumnName, Column)>) {
        let rows: Vec<&AppRow> = cells.collect();
        for &Measure { name, kind, .. } in measures() {
            let values = rows.iter().map(|row| row.figure(name));
            let column = match kind {
                MeasureKind::Count => {
                    Column::U64(values.map(|value| if value.is_nan() { UNREPORTED } else { value as u64 }).collect())
                }
                MeasureKind::Word(words) => {
                    let word = |value: f64| if value.is_nan() { "" } else { words.get(value as usize).copied().unwrap_or("") };
                    Column::Text(values.map(|value| word(value).to_owned()).collect())
                }
                MeasureKind::Real | MeasureKind::Binned => Column::F64(values.collect()),
            };
            to.push((name.into(), column));
        }
    }
}

const LOADS: &str =
    "Of those that began in the measured time and were complete by its end; one that takes longer than the run lasts is missing.";

columns! {
    /// Users of applications.
    pub table Apps of AppRow<'_> {
        /// Number of the user in its run, in the order of the file.
        app: u64 = |row| row.number, by USERS;
        /// The application.
        name: str = |row| row.app.spec.name(), label "application", by USERS;
        /// Number of the class of traffic in its run, as in table classes.
        class: u64 = |row| u64::from(row.class), by USERS;
        /// Congestion control of its streams; "udp" for datagrams.
        cc: str = |row| row.app.cc.as_ref().map_or("udp", |cc| cc.name()), label "congestion control", by USERS;
        /// Which way the data went that are measured: down or up.
        direction: str = |row| row.app.route(row.way).direction(), by USERS;
        /// Propagation, both directions together.
        base_rtt_ms: f64 = |row| ms(row.app.params.base_rtt), unit "ms", label "base RTT", by USERS;
        /// When the user started.
        start_s: f64 = |row| row.user.start.as_secs_f64(), unit "s", label "start", by USERS;
        /// Payload of all connections that was acknowledged (of datagrams: received) over the time from the start of the user, or the start of the measured
        /// time if that is later, until the run ends.
        goodput_mbit: f64 = |row| row.result.payload as f64 * 8e-6 / row.seconds, unit "Mbit/s", label "goodput", by USERS;
        /// Loads, such as pages, that the user began to wait for in the measured time; missing for datagrams.
        loads_begun: u64 = |row| row.of_streams(row.user.loads.begun, UNREPORTED), unit "loads", label "loads begun", by USERS;
        /// Loads, such as pages, that were complete; missing for datagrams.
        #[doc = LOADS]
        loads: u64 = |row| row.of_streams(row.user.loads.times.total(), UNREPORTED), unit "loads", label "loads complete", by USERS;
        /// Mean time from the request of a load, such as a page, until all of it was there.
        #[doc = LOADS]
        load_mean_s: f64 = |row| row.user.loads.mean_s(), unit "s", label "load time, mean", by USERS;
        /// Time from the request of a load, such as a page, until all of it was there that 50 % of the loads did not exceed.
        #[doc = LOADS]
        load_p50_s: Binned = |row| row.user.loads.quantile_s(0.5), unit "s", label "load time, P50", by USERS;
        /// Time from the request of a load, such as a page, until all of it was there that 95 % of the loads did not exceed.
        #[doc = LOADS]
        load_p95_s: Binned = |row| row.user.loads.quantile_s(0.95), unit "s", label "load time, P95", by USERS;
        /// Time from the request of a load, such as a page, until all of it was there that 99 % of the loads did not exceed.
        #[doc = LOADS]
        load_p99_s: Binned = |row| row.user.loads.quantile_s(0.99), unit "s", label "load time, P99", by USERS;
        /// Data packets that were sent this way, retransmissions included.
        sent: u64 = |row| row.result.sent, unit "packets", label "packets sent", by USERS;
        /// Data packets that were sent again; missing for datagrams.
        retransmissions: u64 = |row| row.of_streams(row.result.retransmissions, UNREPORTED), unit "packets", by USERS;
        /// Datagrams that were lost over all whose fate is known; NaN for streams.
        loss_share: f64 = |row| row.result.fate.share(), label "share of lost datagrams", by USERS;
        /// One-way delay that 50 % of the datagrams did not exceed, of those that arrived; NaN for streams.
        #[doc = ONE_WAY]
        delay_p50_ms: Binned = |row| row.result.delays.median_ms(), unit "ms", label "one-way delay of UDP, P50", by USERS;
        /// the datagrams of an application
        delays: Delays = |row| &row.delays_ms, by USERS;
        /// Jitter after the last datagram.
        #[doc = JITTER]
        jitter_ms: f64 = |row| row.of_streams(f64::NAN, row.result.jitter_ms), unit "ms", label "jitter", by USERS;
        /// Measures of single applications.
        figures: AppFigures = |row| row, by USERS;
    }
}

/// A load that was complete.
pub struct AppLoadsRow {
    /// Number of its user in the run.
    pub app: u32,
    /// Number of the class of traffic.
    pub class: u16,
    /// The load.
    pub load: Load,
}

columns! {
    /// Loads of applications one by one.
    pub table AppLoads of AppLoadsRow {
        /// Number of the user in its run, as in table apps.
        app: u64 = |row| u64::from(row.app), by USERS;
        /// Number of the class of traffic in its run, as in table classes.
        class: u64 = |row| u64::from(row.class), by USERS;
        /// When it was requested.
        start_s: f64 = |row| row.load.start.as_secs_f64(), unit "s", label "start", by USERS;
        /// From its request until all of it was there.
        load_s: f64 = |row| row.load.time.as_secs_f64(), unit "s", label "load time", by USERS;
        /// Payload.
        size_bytes: u64 = |row| row.load.bytes, unit "bytes", label "size", by USERS;
    }
}
