//! Tables as Arrow's C stream interface hands them over (<https://arrow.apache.org/docs/format/CStreamInterface.html>).
//!
//! DuckDB, polars and pyarrow read them without a copy. To start, a sweep waits for no import of pyarrow, which takes as long as 500 short runs.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, DictionaryArray, PrimitiveArray, RecordBatch, RecordBatchIterator};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use dumbbell_sim::table::UNREPORTED;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// An error of Arrow's as Python has it.
pub fn as_error(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Words as numbers of the same size.
fn numbers<T: ArrowPrimitiveType>(words: Vec<u64>, valid: Option<NullBuffer>) -> ArrayRef {
    let len = words.len();
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::new(Buffer::from_vec(words), 0, len), valid))
}

/// Integers, of which the least is none.
pub fn integers_or_none(values: &[i64]) -> ArrayRef {
    Arc::new(PrimitiveArray::<Int64Type>::from_iter(values.iter().map(|&value| (value != i64::MIN).then_some(value))))
}

/// Texts by their numbers in `texts`; a negative number is none.
///
/// # Errors
/// A number beyond them.
pub fn coded_or_none(codes: &[i32], texts: ArrayRef) -> Result<ArrayRef, ArrowError> {
    let keys = PrimitiveArray::<Int32Type>::from_iter(codes.iter().map(|&code| (code >= 0).then_some(code)));
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, texts)?))
}

/// Integers; a count that is not reported is missing.
pub fn integers(words: Vec<u64>) -> ArrayRef {
    let valid = words.contains(&UNREPORTED).then(|| NullBuffer::from_iter(words.iter().map(|&word| word != UNREPORTED)));
    numbers::<Int64Type>(words, valid)
}

/// Real numbers by their bits; `without_nan`: what is no number is missing.
pub fn reals(words: Vec<u64>, without_nan: bool) -> ArrayRef {
    let valid = || NullBuffer::from_iter(words.iter().map(|&word| !f64::from_bits(word).is_nan()));
    let valid = without_nan.then(valid).filter(|valid| valid.null_count() > 0);
    numbers::<Float64Type>(words, valid)
}

/// Texts by their numbers in `texts`.
///
/// # Errors
/// A number beyond them.
pub fn encode_texts(codes: Vec<i32>, texts: ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(codes.into(), texts)?))
}

/// Rows of a table.
#[pyclass(frozen)]
pub struct Rows(RecordBatch);

impl Rows {
    /// Builds a table of these columns, which are equally long.
    ///
    /// # Errors
    /// They are not.
    pub fn new(columns: Vec<(&str, ArrayRef)>) -> Result<Rows, ArrowError> {
        let fields: Vec<_> = columns.iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), true)).collect();
        let values = columns.into_iter().map(|(_, values)| values).collect();
        Ok(Rows(RecordBatch::try_new(Arc::new(Schema::new(fields)), values)?))
    }
}

#[pymethods]
impl Rows {
    /// How many.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    /// The names of the columns, with their SQL types.
    #[getter]
    fn kinds(&self) -> Vec<(String, &'static str)> {
        let kind = |field: &Arc<Field>| match field.data_type() {
            DataType::Int64 => "BIGINT",
            DataType::Float64 => "DOUBLE",
            _ => "VARCHAR",
        };
        self.0.schema().fields().iter().map(|field| (field.name().clone(), kind(field))).collect()
    }

    /// The rows as a stream of one batch.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // a consumer casts what it wants otherwise
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }
}
