//! Where the keys and values of a TOML file stand, counted in characters as Python does.

use pyo3::prelude::*;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// One step of a path.
#[derive(Clone, IntoPyObject)]
pub enum PathStep {
    /// The name of a key.
    Key(String),
    /// The index of an element of an array.
    Index(usize),
}

/// A path, the characters of its key and those of its value.
type KeyPlace = (Vec<PathStep>, (usize, usize), (usize, usize));

/// Returns the places of all keys, tables and elements of arrays; none if the text is not TOML.
///
/// A table with a header has the last key of the header as its value, an element of an array its value as its key.
#[pyfunction]
pub fn toml_places(text: &str) -> Vec<KeyPlace> {
    let mut places = Vec::new();
    if let Ok(table) = DeTable::parse(text) {
        collect_table(text, &[], table.get_ref(), &mut places);
    }
    let mut bytes: Vec<&mut usize> =
        places.iter_mut().flat_map(|(_, key, value)| [&mut key.0, &mut key.1, &mut value.0, &mut value.1]).collect();
    bytes.sort_by_key(|at| **at);
    let (mut from, mut characters) = (0, 0);
    for at in bytes {
        characters += text[from..*at].chars().count();
        from = std::mem::replace(at, characters);
    }
    places
}

fn collect_table(text: &str, path: &[PathStep], table: &DeTable<'_>, places: &mut Vec<KeyPlace>) {
    for (key, value) in table.iter() {
        let path = [path, &[PathStep::Key(key.get_ref().to_string())]].concat();
        let (name, span) = (key.span(), value.span());
        let has_header = span.start < name.start;
        let own = if span.start <= name.start { name.clone() } else { span };
        places.push((path.clone(), (name.start, name.end), (own.start, own.end)));
        collect_inside(text, &path, value.get_ref(), has_header, places);
    }
}

fn collect_inside(text: &str, path: &[PathStep], value: &DeValue<'_>, has_header: bool, places: &mut Vec<KeyPlace>) {
    match value {
        DeValue::Table(table) => collect_table(text, path, table, places),
        DeValue::Array(array) => {
            for (index, element) in array.iter().enumerate() {
                let mut span = element.span();
                if let Some(key) = has_header.then(|| last_key(&text[span.clone()])).flatten() {
                    span = span.start + key.start..span.start + key.end;
                }
                let path = [path, &[PathStep::Index(index)]].concat();
                places.push((path.clone(), (span.start, span.end), (span.start, span.end)));
                collect_inside(text, &path, element.get_ref(), false, places);
            }
        }
        _ => {}
    }
}

/// Returns where the last key of a header such as `[[flows.web]]` stands in it.
fn last_key(header: &str) -> Option<Range<usize>> {
    let document = DeTable::parse(header).ok()?;
    let (mut table, mut found) = (document.get_ref(), None);
    while let Some((key, value)) = table.iter().next() {
        found = Some(key.span());
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    found
}
