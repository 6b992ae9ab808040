//! Columns of results.

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Integers.
    U64(Vec<u64>),
    /// Real numbers.
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
