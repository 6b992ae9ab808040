//! Columns of results, each declared once: its name, unit, label, meaning, where its values come from and who measures it.
//!
//! Tables, digests, what an engine lacks, labels of plots and the reference all follow from these declarations.

mod apps;
mod classes;
mod flows;
mod hops;
mod runs;
mod series;
mod short_flows;
mod trace;

pub use self::apps::{AppLoads, AppLoadsRow, AppRow, Apps};
pub use self::classes::{ClassRow, Classes};
pub use self::flows::{Ends, EndsRow, FlowRow, Flows, Rtts};
pub use self::hops::{HopRow, HopSeries, HopSeriesRow, Hops};
pub use self::runs::{Delays, Punctuality, RunRow, Runs, SeenFlows, Timing, Unlisted, Waits};
pub use self::series::{QueueSeries, QueueSeriesRow, QueueStates, QueueStatesRow, Rtt, Series, SeriesRow, Sojourn, SojournBin};
pub use self::short_flows::{ShortFlows, ShortFlowsRow, Slowdowns};
pub use self::trace::{Trace, TraceRow};

use crate::table::{Column, ColumnName};
use dumbbell_core::histogram::{BINS, LEAST_BIN};
use serde_json::{json, Map, Value};
use std::iter;
use std::slice::Iter;

/// An engine that measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// The simulator.
    Sim,
    /// Linux in virtual machines, from captures.
    Linux,
    /// Kernel TCP through a bottleneck in real time.
    Live,
    /// `dumbbell shell`: programs behind a bottleneck in real time.
    Shell,
}

impl EngineKind {
    /// Returns the name of the engine.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Sim => "sim",
            EngineKind::Linux => "linux",
            EngineKind::Live => "live",
            EngineKind::Shell => "shell",
        }
    }
}

/// Every engine.
pub const ALL: &[EngineKind] = &[EngineKind::Sim, EngineKind::Linux, EngineKind::Live, EngineKind::Shell];
/// Engines that ask senders; a middlebox cannot.
pub const SENDERS: &[EngineKind] = &[EngineKind::Sim, EngineKind::Linux, EngineKind::Live];
/// Engines that know when each packet of UDP was sent.
pub const TIMED: &[EngineKind] = &[EngineKind::Sim, EngineKind::Linux];
/// Engines that run applications.
pub const USERS: &[EngineKind] = &[EngineKind::Sim, EngineKind::Linux];
/// The simulator alone.
pub const SIM: &[EngineKind] = &[EngineKind::Sim];
/// Engines that run in real time.
pub const REAL: &[EngineKind] = &[EngineKind::Live, EngineKind::Shell];

/// Sentences of several columns.
const IN_QUEUE: &str = "The time in queue is that from entering it until leaving it for the link.";
const FRAMES: &str = "Ethernet frames without FCS are counted.";
const LINE: &str = "Ethernet frames without FCS are counted, or what they take on the link with its link_layer.";
const AT_QUEUE: &str =
    "Counted until the run ends at the queue, as totals of table runs are; what senders count ends on their own clocks. Of several hops: at all of the flow's route, where table runs has the bottleneck.";
const MEASURED: &str = "A flow is measured from its start until it is complete, or else until the run ends.";
const TOGETHER: &str = "Counted over the time that all flows of [[flows]] have in common, common_s of table runs; without a value if there is none. Without [[flows]]: over the measured time.";
const SAMPLED: &str = "Sampled every 200 ms once it has an RTT, as ss shows it, and at the end of the measured time.";

/// The kind of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Integers.
    Count,
    /// Real numbers.
    Real,
    /// Words or JSON.
    Text,
}

impl Values {
    /// The word by which Python knows the kind.
    pub fn name(self) -> &'static str {
        match self {
            Values::Count => "count",
            Values::Real => "real",
            Values::Text => "text",
        }
    }
}

/// A column, described.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSpec {
    /// Name of the column.
    pub name: &'static str,
    /// Unit; empty for words, JSON, indexes and ratios.
    pub unit: &'static str,
    /// In words, as on an axis.
    pub label: &'static str,
    /// Parts of what exactly was measured; `{}` stands for `whose`.
    doc: &'static [&'static str],
    whose: &'static [&'static str],
    /// The kind of its values.
    pub values: Values,
    /// Whether values are read from a histogram.
    pub is_binned: bool,
    /// Whose results have it.
    pub engines: &'static [EngineKind],
    /// Whether the digest of a run covers it.
    ///
    /// A run that behaves as ever keeps its digest, so that results of any two engines can be compared by it. Measures that came later are
    /// therefore left out. P95 of the time in queue follows from the histogram, which the digest covers. One-way delays follow from
    /// the configuration and its random draws, which show in the rest of what is measured, unless UDP alone passes stages of a path that
    /// draw. The direction is part of the configuration. Slow start ends where windows and counters show it.
    pub in_digest: bool,
}

impl ColumnSpec {
    /// Returns the definition of the measure.
    pub fn doc(&self) -> String {
        let joined = |parts: &[&str]| parts.iter().map(|part| part.trim()).collect::<Vec<_>>().join(" ");
        let doc = joined(self.doc).replace("{}", &joined(self.whose));
        match self.least_bin() {
            Some(_) => {
                let least = if self.unit.is_empty() { "0.001024" } else { "1.024 us" };
                format!("{doc} Read from a histogram whose bins are {least} or 1/{BINS} of the value wide, whichever is wider.")
            }
            None => doc,
        }
    }

    /// The width of the narrowest bin of the histogram that values are read from, in their unit; a ratio is counted in thousandths.
    fn least_bin(&self) -> Option<f64> {
        let least = LEAST_BIN.0 as f64 / 1e6;
        self.is_binned.then_some(if self.unit == "s" { least / 1e3 } else { least })
    }

    /// As JSON, for other languages.
    pub fn to_json(&self) -> Value {
        let engines: Vec<&str> = self.engines.iter().map(|engine| engine.name()).collect();
        json!({
            "name": self.name, "unit": self.unit, "label": self.label, "doc": self.doc(), "least_bin": self.least_bin(),
            "engines": engines, "values": self.values.name(),
        })
    }

    /// Returns this column with the description and the engines of `whole`, of which it is a part.
    fn part_of(self, whole: &ColumnSpec) -> ColumnSpec {
        let engines = if whole.engines.len() < self.engines.len() { whole.engines } else { self.engines };
        ColumnSpec { whose: whole.doc, engines, in_digest: self.in_digest && whole.in_digest, ..self }
    }
}

/// A kind of values of a table: one column, or several that belong together.
pub trait ColumnKind {
    /// Value of a row.
    type Cell<'a>;

    /// The columns, as one was declared.
    fn specs(declared: ColumnSpec) -> Vec<ColumnSpec> {
        vec![declared]
    }
}

/// Kinds that tables have.
pub trait Cells: ColumnKind {
    /// Adds the columns of a kind, declared as `name`.
    fn add<'a>(name: &'static str, cells: impl Iterator<Item = Self::Cell<'a>>, to: &mut Vec<(ColumnName, Column)>);
}

/// Kinds that a run's summary has.
pub trait Figures: ColumnKind {
    /// Adds the figures of a kind, declared as `name`.
    fn add_figure(name: &'static str, cell: Self::Cell<'_>, to: &mut Map<String, Value>);
}

impl ColumnKind for u64 {
    type Cell<'a> = u64;

    fn specs(declared: ColumnSpec) -> Vec<ColumnSpec> {
        vec![ColumnSpec { values: Values::Count, ..declared }]
    }
}

impl Cells for u64 {
    fn add<'a>(name: &'static str, cells: impl Iterator<Item = Self::Cell<'a>>, to: &mut Vec<(ColumnName, Column)>) {
        to.push((name.into(), Column::U64(cells.collect())));
    }
}

impl ColumnKind for f64 {
    type Cell<'a> = f64;
}

impl Cells for f64 {
    fn add<'a>(name: &'static str, cells: impl Iterator<Item = Self::Cell<'a>>, to: &mut Vec<(ColumnName, Column)>) {
        to.push((name.into(), Column::F64(cells.collect())));
    }
}

impl ColumnKind for str {
    type Cell<'a> = &'a str;

    fn specs(declared: ColumnSpec) -> Vec<ColumnSpec> {
        vec![ColumnSpec { values: Values::Text, ..declared }]
    }
}

impl Cells for str {
    fn add<'a>(name: &'static str, cells: impl Iterator<Item = &'a str>, to: &mut Vec<(ColumnName, Column)>) {
        to.push((name.into(), Column::Text(cells.map(str::to_owned).collect())));
    }
}

/// Real numbers that are read from a histogram.
pub struct Binned;

impl ColumnKind for Binned {
    type Cell<'a> = f64;

    fn specs(declared: ColumnSpec) -> Vec<ColumnSpec> {
        vec![ColumnSpec { is_binned: true, ..declared }]
    }
}

impl Cells for Binned {
    fn add<'a>(name: &'static str, cells: impl Iterator<Item = Self::Cell<'a>>, to: &mut Vec<(ColumnName, Column)>) {
        f64::add(name, cells, to);
    }
}

impl Figures for Binned {
    fn add_figure(name: &'static str, cell: f64, to: &mut Map<String, Value>) {
        f64::add_figure(name, cell, to);
    }
}

impl ColumnKind for Option<f64> {
    type Cell<'a> = Option<f64>;
}

impl ColumnKind for Value {
    type Cell<'a> = Value;

    fn specs(declared: ColumnSpec) -> Vec<ColumnSpec> {
        vec![ColumnSpec { values: Values::Text, ..declared }]
    }
}

macro_rules! figures {
    ($($kind:ty),*) => {$(
        impl Figures for $kind {
            fn add_figure(name: &'static str, cell: $kind, to: &mut Map<String, Value>) {
                to.insert(name.to_owned(), json!(cell));
            }
        }
    )*};
}
figures!(u64, f64, Option<f64>, Value);

/// The words of a description, and `nothing` in a module for web pages, which makes tables and does not explain them.
#[inline(always)]
pub(crate) fn describe<T>(words: T, nothing: T) -> T {
    if cfg!(target_family = "wasm") {
        nothing
    } else {
        words
    }
}

// Values are found by pointers to functions, so that columns of one kind share the code that collects them: web pages load it.

/// Returns the value of every row of `rows`.
fn each<'a, R, T>(rows: &'a [R], of: fn(&'a R) -> T) -> iter::Map<Iter<'a, R>, fn(&'a R) -> T> {
    rows.iter().map(of)
}

/// Values of rows that are borrowed.
type BorrowedValues<'a, 'b, R, T> = iter::Map<iter::Copied<Iter<'b, &'a R>>, fn(&'a R) -> T>;

/// Returns the value of every row that is borrowed.
fn each_borrowed<'a, 'b, R, T>(rows: &'b [&'a R], of: fn(&'a R) -> T) -> BorrowedValues<'a, 'b, R, T> {
    rows.iter().copied().map(of)
}

/// Returns the value of a row.
fn one<'a, R, T>(row: &'a R, of: impl Fn(&'a R) -> T) -> T {
    of(row)
}

/// Declares columns, in order. `table NAME of ROW` makes columns of a table from its rows, `figures` the summary of a run, `part` what may stand
/// in both in the place of a column, with the words that stand for `{}` in its documentation as documentation. Of a column: documentation, name,
/// kind and value of a row; then, where it is not the default, `unit`, `label` (the name), `by` (`ALL` engines), and `digest false`: the
/// digest of a run does not cover it.
macro_rules! columns {
    (@or $default:expr) => { $default };
    (@or $default:expr, $given:expr) => { $given };
    (table $set:ident $row:ty { $($name:ident $kind:ty, $value:expr;)* }) => {
        impl $set {
            /// The columns of these rows.
            pub fn columns(rows: &[$row]) -> Vec<(crate::table::ColumnName, crate::table::Column)> {
                let mut all = Vec::with_capacity([$(stringify!($name)),*].len());
                $( <$kind as crate::columns::Cells>::add(stringify!($name), crate::columns::each(rows, $value), &mut all); )*
                all
            }

            /// The table of these rows.
            pub fn table(rows: &[$row]) -> crate::table::Table {
                crate::table::Table { columns: $set::columns(rows) }
            }
        }
    };
    (figures $set:ident $row:ty { $($name:ident $kind:ty, $value:expr;)* }) => {
        impl $set {
            /// Adds the figures.
            pub fn add_figure(row: &$row, all: &mut serde_json::Map<String, serde_json::Value>) {
                $( <$kind as crate::columns::Figures>::add_figure(stringify!($name), crate::columns::one(row, $value), all); )*
            }
        }
    };
    (part $set:ident $row:ty { $($name:ident $kind:ty, $value:expr;)* }) => {
        impl crate::columns::ColumnKind for $set {
            type Cell<'a> = &'a $row;

            fn specs(declared: crate::columns::ColumnSpec) -> Vec<crate::columns::ColumnSpec> {
                $set::specs().into_iter().map(|spec| spec.part_of(&declared)).collect()
            }
        }

        impl crate::columns::Cells for $set {
            fn add<'a>(
                _: &'static str,
                cells: impl Iterator<Item = &'a $row>,
                to: &mut Vec<(crate::table::ColumnName, crate::table::Column)>,
            ) {
                let rows: Vec<&$row> = cells.collect();
                $( <$kind as crate::columns::Cells>::add(stringify!($name), crate::columns::each_borrowed(&rows, $value), to); )*
            }
        }

        impl crate::columns::Figures for $set {
            fn add_figure(_: &'static str, cell: &$row, to: &mut serde_json::Map<String, serde_json::Value>) {
                $( <$kind as crate::columns::Figures>::add_figure(stringify!($name), crate::columns::one(cell, $value), to); )*
            }
        }
    };
    ($(#[doc = $about:expr])* pub $form:ident $set:ident of $row:ty {
        $($(#[doc = $doc:expr])* $name:ident: $kind:ty = $value:expr
            $(, unit $unit:literal)? $(, label $label:literal)? $(, by $by:expr)? $(, digest $digest:literal)?;)*
    }) => {
        $(#[doc = $about])*
        pub struct $set;

        impl $set {
            /// Every column, described, in order.
            pub fn specs() -> Vec<crate::columns::ColumnSpec> {
                let mut all = Vec::new();
                $( all.extend(<$kind as crate::columns::ColumnKind>::specs(crate::columns::ColumnSpec {
                    name: stringify!($name),
                    unit: crate::columns::describe(columns!(@or "" $(, $unit)?), ""),
                    label: crate::columns::describe(columns!(@or stringify!($name) $(, $label)?), ""),
                    doc: crate::columns::describe(&[$($doc),*], &[]),
                    whose: &[],
                    values: crate::columns::Values::Real,
                    is_binned: false,
                    engines: columns!(@or crate::columns::ALL $(, $by)?),
                    in_digest: columns!(@or true $(, $digest)?),
                })); )*
                all
            }
        }

        columns!($form $set $row { $($name $kind, $value;)* });
    };
}
use columns;

#[cfg(test)]
mod tests {
    use crate::outcome::Tables;

    #[test]
    fn every_column_has_a_name_of_its_own_words_and_an_engine() {
        for (table, about, columns) in Tables::specs() {
            assert!(!about.is_empty() && !columns.is_empty(), "{table}");
            for (place, column) in columns.iter().enumerate() {
                assert!(columns[..place].iter().all(|other| other.name != column.name), "{table}.{}: twice", column.name);
                let doc = column.doc();
                assert!(doc.ends_with('.') && !doc.contains("{}") && !doc.contains("  "), "{table}.{}: {doc}", column.name);
                assert!(!column.label.is_empty() && !column.engines.is_empty(), "{table}.{}", column.name);
            }
        }
    }
}
