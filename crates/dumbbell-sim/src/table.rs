//! Columns of results.

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Integers.
    U64(Vec<u64>),
    /// Real numbers; NaN where there is no value.
    F64(Vec<f64>),
    /// Words.
    Text(Vec<String>),
}

/// Named columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Name and values, in order.
    pub columns: Vec<(String, Column)>,
}

impl Table {
    /// From names and values.
    pub fn new(columns: Vec<(&str, Column)>) -> Table {
        Table { columns: columns.into_iter().map(|(name, column)| (name.to_owned(), column)).collect() }
    }

    /// The values of real column `name`, if there is such a column.
    pub fn real(&self, name: &str) -> Option<&[f64]> {
        self.columns.iter().find_map(|(n, column)| match column {
            Column::F64(values) if n == name => Some(values.as_slice()),
            _ => None,
        })
    }

    /// The values of integer column `name`, if there is such a column.
    pub fn int(&self, name: &str) -> Option<&[u64]> {
        self.columns.iter().find_map(|(n, column)| match column {
            Column::U64(values) if n == name => Some(values.as_slice()),
            _ => None,
        })
    }
}
