//! From the text of a `[bottleneck]` to the canonical JSON that `dumbbell-config` reads: times in ns, rates in bit/s, sizes in bytes. Names,
//! kinds, units and ranges of keys come from the registry; what keys mean together is checked there.

use crate::error::Error;
use crate::units::Quantity;
use dumbbell_config::BottleneckParams;
use dumbbell_core::link_trace::LinkTrace;
use dumbbell_core::param::{check_keys, compare, AlgorithmSpec, ParamError, ParamKind, ParamSpec, ParamType};
use dumbbell_core::units::{Duration, Rate};
use dumbbell_core::{aqm, link, path};
use serde_json::{json, Map, Value};
use std::cmp::Ordering;
use std::path::Path;
use toml::de::{DeTable, DeValue};
use toml::Spanned;

/// Reads the file that a key names.
pub type FileReader<'a> = dyn FnMut(&str) -> Result<Vec<u8>, String> + 'a;

/// A section with the text that it stands in, for lines.
pub struct Section<'a> {
    text: &'a str,
    table: DeTable<'a>,
}

impl<'a> Section<'a> {
    /// Reads `text`: the keys of a bottleneck, or nothing but a table `[bottleneck]` with them.
    ///
    /// # Errors
    /// The text is not TOML.
    pub fn read(text: &'a str) -> Result<Section<'a>, Error> {
        let syntax = |error: toml::de::Error| {
            let at = error.span().map_or(0, |span| span.start);
            Error::Syntax { line: line_of(text, at), message: error.message().replace('\n', ", ") }
        };
        let mut table = DeTable::parse(text).map_err(syntax)?.into_inner();
        let is_whole = table.len() == 1 && table.get(dumbbell_config::BOTTLENECK).is_some_and(|one| one.get_ref().is_table());
        if is_whole {
            if let Some(DeValue::Table(inner)) = table.remove(dumbbell_config::BOTTLENECK).map(Spanned::into_inner) {
                table = inner;
            }
        }
        Ok(Section { text, table })
    }

    /// Returns the section as canonical JSON. `files` reads traces.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn canonical(&self, files: &mut FileReader) -> Result<Map<String, Value>, Error> {
        bottleneck(&table(&self.table), files).map_err(|error| self.locate(error))
    }

    /// `error` with the line of its key.
    pub fn locate(&self, error: ParamError) -> Error {
        let mut at = 0;
        let mut inside = Some(&self.table);
        for step in error.key.split('.') {
            let (name, place) = step.split_once('[').unwrap_or((step, ""));
            let Some((key, value)) = inside.and_then(|table| table.get_key_value(name)) else { break };
            at = key.span().start;
            let value = match (value.get_ref(), place.trim_end_matches(']').parse::<usize>()) {
                (DeValue::Array(entries), Ok(index)) => entries.get(index).inspect(|entry| at = entry.span().start),
                _ => Some(value),
            };
            inside = value.and_then(|value| value.get_ref().as_table());
        }
        Error::in_line(line_of(self.text, at), error)
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

fn table(table: &DeTable) -> Map<String, Value> {
    table.iter().map(|(key, value)| (key.get_ref().to_string(), json_of(value.get_ref()))).collect()
}

/// A value of TOML. What JSON does not have becomes a string, which no key takes.
fn json_of(value: &DeValue) -> Value {
    match value {
        DeValue::String(text) => json!(text),
        DeValue::Integer(number) => {
            let (digits, radix) = (number.as_str(), number.radix());
            let unsigned = u64::from_str_radix(digits, radix).map(Value::from);
            unsigned.or_else(|_| i64::from_str_radix(digits, radix).map(Value::from)).unwrap_or_else(|_| json!(digits))
        }
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(real) if real.is_finite() => json!(real),
            _ => json!(number.as_str()),
        },
        DeValue::Boolean(truth) => json!(truth),
        DeValue::Datetime(date) => json!(date.to_string()),
        DeValue::Array(entries) => entries.iter().map(|entry| json_of(entry.get_ref())).collect(),
        DeValue::Table(inner) => Value::Object(table(inner)),
    }
}

/// Keys of a bottleneck that its parameters do not describe.
const OTHERS: [&str; 6] = ["aqm", "link", "rate_changes", "path", "behind", "delay"];

fn bottleneck(given: &Map<String, Value>, files: &mut FileReader) -> Result<Map<String, Value>, ParamError> {
    let specs = BottleneckParams::specs();
    check_keys(given, &specs, &OTHERS)?;
    let mut found = parameters(given, &specs, files)?;
    let queues = aqm::specs();
    let queue = given.get("aqm").ok_or_else(|| ParamError::new("aqm", "nothing", names(&queues)))?;
    found.insert("aqm".into(), algorithm("aqm", queue, &queues, files)?);
    if let Some(link) = given.get("link").filter(|link| *link != "none") {
        found.insert("link".into(), algorithm("link", link, &link::specs(), files)?);
    }
    for key in ["path", "behind"] {
        let stages = list(given, key)?.iter().enumerate();
        let read = stages.map(|(index, stage)| algorithm(&format!("{key}[{index}]"), stage, &path::specs(), files));
        found.insert(key.into(), read.collect::<Result<_, _>>()?);
    }
    let changes = list(given, "rate_changes")?.iter().enumerate();
    let read = changes.map(|(index, change)| rate_change(change).map_err(|e| e.prefix_key(&format!("rate_changes[{index}]"))));
    found.insert("rate_changes".into(), read.collect::<Result<_, _>>()?);
    if let Some(delay) = given.get("delay") {
        found.insert("delay".into(), quantity("delay", Quantity::Time, delay)?);
    }
    Ok(found)
}

fn list<'a>(given: &'a Map<String, Value>, key: &str) -> Result<&'a [Value], ParamError> {
    match given.get(key) {
        None => Ok(&[]),
        Some(Value::Array(entries)) => Ok(entries),
        Some(other) => Err(ParamError::new(key, other, "a list")),
    }
}

fn quantity(key: &str, kind: Quantity, value: &Value) -> Result<Value, ParamError> {
    kind.parse(value).map(Value::from).map_err(|allowed| ParamError::new(key, value, allowed))
}

fn rate_change(change: &Value) -> Result<Value, ParamError> {
    let given = change.as_object().ok_or_else(|| ParamError::new("at", change, "a table with at and rate"))?;
    check_keys(given, &[], &["at", "rate"])?;
    let of = |key: &str, kind| quantity(key, kind, given.get(key).unwrap_or(&Value::Null));
    Ok(json!({"at": of("at", Quantity::Time)?, "rate": of("rate", Quantity::Rate)?}))
}

fn names(known: &[AlgorithmSpec]) -> String {
    known.iter().map(|one| one.name).collect::<Vec<_>>().join(", ")
}

/// An algorithm by its name, or a table with its name and parameters.
fn algorithm(key: &str, value: &Value, known: &[AlgorithmSpec], files: &mut FileReader) -> Result<Value, ParamError> {
    let (name, given) = match value {
        Value::Object(given) => (given.get("name").unwrap_or(&Value::Null), given.clone()),
        name => (name, Map::new()),
    };
    let Some(spec) = known.iter().find(|spec| name == spec.name) else {
        return Err(ParamError::new(key, name, names(known)));
    };
    let within = |error: ParamError| error.prefix_key(key);
    check_keys(&given, &spec.params, &["name"]).map_err(within)?;
    let mut found = parameters(&given, &spec.params, files).map_err(within)?;
    found.insert("name".into(), name.clone());
    Ok(Value::Object(found))
}

/// Returns the keys of `given` that `specs` describe, in canonical form.
fn parameters(given: &Map<String, Value>, specs: &[ParamSpec], files: &mut FileReader) -> Result<Map<String, Value>, ParamError> {
    let mut found = Map::new();
    for spec in specs {
        if let Some(value) = given.get(spec.name) {
            found.insert(spec.name.into(), parameter(spec, value, files)?);
        }
    }
    Ok(found)
}

/// The value of one key, canonical and within its range.
fn parameter(spec: &ParamSpec, value: &Value, files: &mut FileReader) -> Result<Value, ParamError> {
    let is_word = matches!(&spec.kind, ParamKind::Choice(words) if words.contains(&"none"));
    if spec.optional && value == "none" && !is_word {
        return Ok(Value::Null);
    }
    let canonical = match (&spec.kind, quantity_of(spec)) {
        (ParamKind::LinkTrace, _) => return trace(spec.name, value, files),
        // words, numbers and truth are read where the section is
        (_, None) => value.clone(),
        (_, Some(kind)) => quantity(spec.name, kind, value)?,
    };
    let beyond = |bound: &Value, side| compare(&canonical, bound) == Some(side);
    if beyond(&spec.min, Ordering::Less) || beyond(&spec.max, Ordering::Greater) {
        let [low, high] = [&spec.min, &spec.max].map(|bound| format_bound(spec, bound));
        return Err(ParamError::new(spec.name, value, format!("{low} to {high}")));
    }
    Ok(canonical)
}

/// Returns the quantity in whose units the values of this parameter are.
fn quantity_of(spec: &ParamSpec) -> Option<Quantity> {
    match spec.kind {
        ParamKind::Time => Some(Quantity::Time),
        ParamKind::Rate => Some(Quantity::Rate),
        ParamKind::Int if spec.unit == "bytes" => Some(Quantity::Size),
        _ => None,
    }
}

/// A canonical number as a text would spell it.
fn format_bound(spec: &ParamSpec, bound: &Value) -> String {
    match (quantity_of(spec), bound.as_u64()) {
        (Some(Quantity::Time), Some(ns)) => Duration(ns).to_string(),
        (Some(Quantity::Rate), Some(bits)) => Rate(bits).to_string(),
        (Some(Quantity::Size), Some(bytes)) => format!("{bytes}B"),
        _ => bound.to_string(),
    }
}

/// The trace in the file that `value` names.
fn trace(key: &str, value: &Value, files: &mut FileReader) -> Result<Value, ParamError> {
    let allowed = "the name of a file in mahimahi's format: a time in whole milliseconds per line";
    let name = value.as_str().ok_or_else(|| ParamError::new(key, value, allowed))?;
    let content = files(name).map_err(|reason| ParamError::new(key, format!("{name}: {reason}"), allowed))?;
    let stem = Path::new(name).file_stem().map_or_else(|| name.into(), |stem| stem.to_string_lossy());
    let trace = LinkTrace::parse(&stem, &content).map_err(|bad| ParamError::new(key, bad.found, bad.allowed))?;
    Ok(trace.to_json())
}
