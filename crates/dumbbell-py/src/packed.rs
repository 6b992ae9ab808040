//! Outcomes of runs, in few pieces until they are put into tables.
//!
//! A short run has some 300 columns with a value or two each. Thousands of runs wait to be stored, and another thread frees them: one allocation
//! per column and name would take as long as the run.

use crate::arrow::{as_error, encode_texts, integers, reals, Rows};
use arrow_array::{ArrayRef, StringArray};
use dumbbell_sim::table::{self, Table, UNREPORTED};
use dumbbell_sim::Outcome;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use serde::{Deserialize, Serialize};
use serde_json::{json, Map, Value};
use std::iter::{once, repeat_n};
use std::sync::{Arc, Mutex, PoisonError};

/// Values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum PackedKind {
    U64,
    /// Real numbers; NaN where there is no value.
    F64,
    Text,
    /// Lists, objects and truth values as text.
    Json,
}

/// Every table, `runs` first: its name, and the name and kind of each column.
type Layout = Vec<(String, Vec<(String, PackedKind)>)>;

/// The layout of the last run: the next one mostly has the same.
static LAST: Mutex<Option<Arc<Layout>>> = Mutex::new(None);

/// Outcome of one run.
#[derive(Clone)]
pub struct PackedRun {
    layout: Arc<Layout>,
    /// Rows of every table.
    heights: Vec<usize>,
    /// The values, column after column; of a text its length.
    words: Vec<u64>,
    /// The texts, one after the other.
    text: String,
}

impl PackedRun {
    /// Packs figures and tables.
    pub fn new(outcome: &Outcome) -> PackedRun {
        let mut packed = PackedRun { layout: layout(outcome), heights: vec![1], words: Vec::new(), text: String::new() };
        for figure in outcome.summary.as_object().into_iter().flat_map(Map::values) {
            match figure {
                Value::Null => packed.words.push(f64::NAN.to_bits()),
                Value::Number(number) => {
                    packed.words.push(number.as_u64().unwrap_or_else(|| number.as_f64().unwrap_or(f64::NAN).to_bits()));
                }
                Value::String(text) => packed.put(text),
                other => packed.put(&other.to_string()),
            }
        }
        packed.put(&outcome.hash);
        for (_, table) in outcome.tables.named_tables() {
            packed.heights.push(table.height());
            for (_, column) in &table.columns {
                match column {
                    table::Column::U64(values) => packed.words.extend_from_slice(values),
                    table::Column::F64(values) => packed.words.extend(values.iter().map(|value| value.to_bits())),
                    table::Column::Text(values) => values.iter().for_each(|value| packed.put(value)),
                }
            }
        }
        packed.words.shrink_to_fit();
        packed.text.shrink_to_fit();
        packed
    }

    fn put(&mut self, text: &str) {
        self.words.push(text.len() as u64);
        self.text.push_str(text);
    }

    /// The row of table `runs`: figures of the queue and across flows, and the digest, `hash`.
    pub fn row(&self) -> Map<String, Value> {
        let mut texts = self.text.as_str();
        let value = |((name, kind), &word): (&(String, PackedKind), &u64)| {
            let mut text = || {
                let (own, rest) = texts.split_at(word as usize);
                texts = rest;
                own
            };
            let value = match kind {
                PackedKind::U64 => json!(Some(word).filter(|&word| word != UNREPORTED)),
                PackedKind::F64 => json!(f64::from_bits(word)),
                PackedKind::Text => json!(text()),
                PackedKind::Json => serde_json::from_str(text()).unwrap_or_default(),
            };
            (name.clone(), value)
        };
        self.layout[0].1.iter().zip(&self.words).map(value).collect()
    }

    /// Everything, for `from_bytes` of the same version of the engine.
    pub fn to_bytes(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_stdvec(&(&*self.layout, &self.heights, &self.words, &self.text))
    }

    /// Restores the run on which `to_bytes` was called.
    pub fn from_bytes(data: &[u8]) -> Result<PackedRun, postcard::Error> {
        let (layout, heights, words, text): (Layout, _, _, _) = postcard::from_bytes(data)?;
        Ok(PackedRun { layout: last_or(|last| *last == layout, || layout.clone()), heights, words, text })
    }
}

/// The layout of what a run measured.
fn layout(outcome: &Outcome) -> Arc<Layout> {
    let figures = || {
        let figures = outcome.summary.as_object().into_iter().flatten();
        figures.map(|(name, value)| (name.as_str(), of_figure(value))).chain([("hash", PackedKind::Text)])
    };
    let tables = outcome.tables.named_tables();
    let is_known = |last: &Layout| {
        let same = |known: &[(String, PackedKind)], found: &mut dyn Iterator<Item = (&str, PackedKind)>| {
            known.iter().all(|(name, kind)| found.next() == Some((name.as_str(), *kind))) && found.next().is_none()
        };
        last.len() == tables.len() + 1
            && same(&last[0].1, &mut figures())
            && last[1..].iter().zip(&tables).all(|(known, (name, table))| known.0 == *name && same(&known.1, &mut columns(table)))
    };
    last_or(is_known, || {
        let owned = |(name, kind): (&str, PackedKind)| (name.to_owned(), kind);
        let runs = ("runs".to_owned(), figures().map(owned).collect());
        let others = tables.iter().map(|(name, table)| ((*name).to_owned(), columns(table).map(owned).collect()));
        once(runs).chain(others).collect()
    })
}

/// The last layout, if it is the one that is wanted, or else another, which is the last from now on.
fn last_or(is_wanted: impl FnOnce(&Layout) -> bool, other: impl FnOnce() -> Layout) -> Arc<Layout> {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match last.as_ref().filter(|last| is_wanted(last)) {
        Some(last) => last.clone(),
        None => last.insert(Arc::new(other())).clone(),
    }
}

fn columns(table: &Table) -> impl Iterator<Item = (&str, PackedKind)> {
    let kind = |column: &table::Column| match column {
        table::Column::U64(_) => PackedKind::U64,
        table::Column::F64(_) => PackedKind::F64,
        table::Column::Text(_) => PackedKind::Text,
    };
    table.columns.iter().map(move |(name, column)| (name.as_ref(), kind(column)))
}

fn of_figure(value: &Value) -> PackedKind {
    match value {
        Value::Number(number) if number.is_u64() => PackedKind::U64,
        Value::Number(_) | Value::Null => PackedKind::F64,
        Value::String(_) => PackedKind::Text,
        _ => PackedKind::Json,
    }
}

/// Descriptions of runs, one value for each.
#[derive(FromPyObject)]
pub enum Described {
    Numbers(Vec<u64>),
    Reals(Vec<f64>),
    Texts(Vec<Option<PyBackedStr>>),
}

/// Gathers the outcomes of `runs`, table by table, of those tables that are wanted; None if they have not all the same columns.
///
/// Table `runs` has what `described` says of them, too, and every table their `key`, the first of it.
pub fn join(
    runs: &[&PackedRun],
    described: &[(String, Described)],
    is_wanted: impl Fn(&String) -> bool,
) -> PyResult<Option<Vec<(String, Rows)>>> {
    let Some(layout) = runs.first().map(|run| &run.layout) else { return Ok(Some(Vec::new())) };
    if runs.iter().any(|run| !Arc::ptr_eq(&run.layout, layout) && run.layout != *layout) {
        return Ok(None);
    }
    let key = match described.first() {
        Some((name, Described::Texts(keys))) if name == "key" => Some(texts(keys)),
        _ => None,
    };
    let mut words: Vec<&[u64]> = runs.iter().map(|run| run.words.as_slice()).collect();
    let mut left: Vec<&str> = runs.iter().map(|run| run.text.as_str()).collect();
    let mut tables = Vec::new();
    for (number, (table, declared)) in layout.iter().enumerate() {
        let of_runs = number == 0;
        let heights: Vec<usize> = runs.iter().map(|run| run.heights[number]).collect();
        if !is_wanted(table) {
            pass_over(declared, &heights, &mut words, &mut left);
            continue;
        }
        let mut columns = Vec::new();
        if let Some(keys) = &key {
            let of_run = (0..).zip(&heights).flat_map(|(run, &height)| repeat_n(run, height)).collect();
            columns.push(("key", encode_texts(of_run, keys.clone()).map_err(as_error)?));
        }
        for (name, kind) in declared {
            let own = words.iter_mut().zip(&heights).map(|(of_run, &height)| first(of_run, height));
            let values: ArrayRef = match kind {
                PackedKind::U64 => integers(own.collect::<Vec<_>>().concat()),
                PackedKind::F64 => reals(own.collect::<Vec<_>>().concat(), of_runs),
                PackedKind::Text | PackedKind::Json => {
                    let mut each = Vec::new();
                    for (lengths, text) in own.zip(&mut left) {
                        for &length in lengths {
                            let (value, rest) = text.split_at(length as usize);
                            *text = rest;
                            each.push(value);
                        }
                    }
                    Arc::new(StringArray::from(each))
                }
            };
            columns.push((name, values));
        }
        if of_runs {
            columns.extend(described.iter().skip(key.iter().len()).map(|(name, values)| (name.as_str(), values.column())));
        }
        tables.push((table.clone(), Rows::new(columns).map_err(as_error)?));
    }
    Ok(Some(tables))
}

fn texts(values: &[Option<PyBackedStr>]) -> ArrayRef {
    Arc::new(StringArray::from_iter(values.iter().map(Option::as_deref)))
}

impl Described {
    fn column(&self) -> ArrayRef {
        match self {
            Described::Numbers(values) => integers(values.clone()),
            Described::Reals(values) => reals(values.iter().map(|value| value.to_bits()).collect(), true),
            Described::Texts(values) => texts(values),
        }
    }
}

/// Takes the values of a table away: `words` of each run, and its text.
fn pass_over(declared: &[(String, PackedKind)], heights: &[usize], words: &mut [&[u64]], left: &mut [&str]) {
    for (_, kind) in declared {
        for ((of_run, text), &height) in words.iter_mut().zip(&mut *left).zip(heights) {
            let own = first(of_run, height);
            if matches!(kind, PackedKind::Text | PackedKind::Json) {
                *text = &text[own.iter().sum::<u64>() as usize..];
            }
        }
    }
}

/// Takes the first `count` of `left` away.
fn first<'a>(left: &mut &'a [u64], count: usize) -> &'a [u64] {
    let (own, rest) = left.split_at(count);
    *left = rest;
    own
}
