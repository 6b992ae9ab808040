//! Columns of results.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// A count that is not reported, as in a column of integers: it is missing in results.
pub const UNREPORTED: u64 = u64::MAX;

/// One column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Column {
    /// Integers; [`UNREPORTED`] where there is no value.
    U64(Vec<u64>),
    /// Real numbers; NaN where there is no value.
    F64(Vec<f64>),
    /// Words.
    Text(Vec<String>),
}

impl Column {
    /// How many values.
    pub fn len(&self) -> usize {
        match self {
            Column::U64(values) => values.len(),
            Column::F64(values) => values.len(),
            Column::Text(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One value of JSON: null is NaN, lists and objects are text.
    fn one(value: &Value) -> Column {
        match value {
            Value::Null => Column::F64(vec![f64::NAN]),
            Value::Number(number) => match number.as_u64() {
                Some(whole) => Column::U64(vec![whole]),
                None => Column::F64(vec![number.as_f64().unwrap_or(f64::NAN)]),
            },
            Value::String(text) => Column::Text(vec![text.clone()]),
            other => Column::Text(vec![other.to_string()]),
        }
    }
}

/// The name of a column: declared here, or by a queue discipline or a program. A short run has some 300, which take no memory of their own.
pub type ColumnName = Cow<'static, str>;

/// Named columns of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Name and values, in order.
    pub columns: Vec<(ColumnName, Column)>,
}

impl Table {
    /// From names and values.
    pub fn new(columns: Vec<(&'static str, Column)>) -> Table {
        Table { columns: columns.into_iter().map(|(name, column)| (name.into(), column)).collect() }
    }

    /// The fields of an object as a table of one row: null is NaN, lists and objects are JSON.
    pub fn row(object: &Value) -> Table {
        let fields = object.as_object().into_iter().flatten();
        Table { columns: fields.map(|(name, value)| (name.clone().into(), Column::one(value))).collect() }
    }

    /// Removes column `name`.
    pub fn remove(&mut self, name: &str) {
        self.columns.retain(|(known, _)| known != name);
    }

    /// How many rows.
    pub fn height(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// The rows of all `tables`, one after the other; None if they have not all the same columns.
    pub fn join<'a>(tables: impl IntoIterator<Item = &'a Table>) -> Option<Table> {
        let mut tables = tables.into_iter();
        let mut all = tables.next().cloned().unwrap_or_default();
        for table in tables {
            if table.columns.len() != all.columns.len() {
                return None;
            }
            for ((name, rows), (other, more)) in all.columns.iter_mut().zip(&table.columns) {
                match (rows, more) {
                    _ if name != other => return None,
                    (Column::U64(rows), Column::U64(more)) => rows.extend_from_slice(more),
                    (Column::F64(rows), Column::F64(more)) => rows.extend_from_slice(more),
                    (Column::Text(rows), Column::Text(more)) => rows.extend_from_slice(more),
                    _ => return None,
                }
            }
        }
        Some(all)
    }

    /// The values of real column `name`, if there is such a column.
    pub fn real(&self, name: &str) -> Option<&[f64]> {
        self.columns.iter().find_map(|(n, column)| match column {
            Column::F64(values) if n == name => Some(values.as_slice()),
            _ => None,
        })
    }

    /// Column `name`, if there is such a column.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find_map(|(known, column)| (known == name).then_some(column))
    }

    /// The values of integer column `name`, if there is such a column.
    pub fn int(&self, name: &str) -> Option<&[u64]> {
        self.columns.iter().find_map(|(n, column)| match column {
            Column::U64(values) if n == name => Some(values.as_slice()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, Table};
    use serde_json::json;

    #[test]
    fn rows_are_joined_in_order_and_only_if_the_columns_are_the_same() {
        let table = |n: u64| Table::row(&json!({"n": n, "x": 0.5, "none": null, "list": [1, 2], "word": "w"}));
        let all = Table::join([&table(3), &table(4)]).expect("the same columns");
        assert_eq!((all.height(), all.int("n")), (2, Some(&[3, 4][..])));
        assert_eq!(all.columns[3].1, Column::Text(vec!["[1,2]".into(), "[1,2]".into()]));
        assert!(all.real("none").is_some_and(|values| values.iter().all(|value| value.is_nan())));
        assert_eq!(Table::join([]), Some(Table::default()));
        for other in [json!({"n": 1}), json!({"n": 1.5, "x": 0.5, "none": null, "list": [], "word": "w"})] {
            assert_eq!(Table::join([&table(3), &Table::row(&other)]), None, "{other}");
        }
    }
}
