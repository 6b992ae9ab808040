//! Tables as Arrow's C stream interface hands them over (<https://arrow.apache.org/docs/format/CStreamInterface.html>).
//!
//! DuckDB, polars and pyarrow read them without a copy. To start, a sweep waits for no import of pyarrow, which takes as long as 500 short runs.
#![allow(unsafe_code)] // the interface is structures of C

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// Texts one after the other, and where each begins; one more for the end of the last.
#[derive(Default)]
pub struct Texts {
    pub begins: Vec<i32>,
    pub text: String,
}

/// The values of a column.
pub enum Values {
    I64(Vec<u64>),
    /// The bits of real numbers.
    F64(Vec<u64>),
    Text(Texts),
    /// Texts by their numbers.
    Coded(Vec<i32>, Arc<Texts>),
}

/// A column; where a bit of `valid` is unset it has no value.
pub struct Column {
    pub name: CString,
    pub values: Values,
    pub valid: Option<Vec<u8>>,
}

impl Column {
    fn format(&self) -> &'static CStr {
        match self.values {
            Values::I64(_) => c"l",
            Values::F64(_) => c"g",
            Values::Text(_) => c"u",
            Values::Coded(..) => c"i",
        }
    }
}

/// Rows of a table.
#[pyclass(frozen)]
pub struct Rows {
    pub height: usize,
    pub columns: Arc<Vec<Column>>,
}

#[pymethods]
impl Rows {
    /// How many.
    #[getter]
    fn num_rows(&self) -> usize {
        self.height
    }

    /// The names of the columns, with their SQL types.
    #[getter]
    fn kinds(&self) -> Vec<(&str, &'static str)> {
        let kind = |column: &Column| match column.values {
            Values::I64(_) => "BIGINT",
            Values::F64(_) => "DOUBLE",
            Values::Text(_) | Values::Coded(..) => "VARCHAR",
        };
        self.columns.iter().map(|column| (column.name.to_str().unwrap_or_default(), kind(column))).collect()
    }

    /// The rows as a stream of one batch.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // a consumer casts what it wants otherwise
        let rows = Box::new(Left { height: self.height, columns: self.columns.clone(), is_over: false });
        let stream = Stream {
            get_schema: Some(get_schema),
            get_next: Some(get_next),
            get_last_error: Some(get_last_error),
            release: Some(release_stream),
            private: Box::into_raw(rows).cast(),
        };
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// What is left of a stream.
struct Left {
    height: usize,
    columns: Arc<Vec<Column>>,
    is_over: bool,
}

#[repr(C)]
struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private: *mut c_void,
}

// SAFETY: `private` is a Box of what may go to other threads, and Python's lock keeps two from using it at once.
unsafe impl Send for Stream {}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: nobody has taken the stream over, or `release` would be unset.
            unsafe { release(self) };
        }
    }
}

#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private: *mut c_void,
}

#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private: *mut c_void,
}

const NULLABLE: i64 = 2;

/// What a schema or an array points to, itself and the columns; each part of it may be taken over and released alone.
struct Kept<T> {
    _columns: Arc<Vec<Column>>,
    children: Vec<*mut T>,
    dictionary: *mut T,
    buffers: Vec<*const c_void>,
}

impl<T> Kept<T> {
    fn new(columns: &Arc<Vec<Column>>, children: Vec<T>, dictionary: Option<T>, buffers: Vec<*const c_void>) -> Box<Kept<T>> {
        let dictionary = dictionary.map_or(null_mut(), |one| Box::into_raw(Box::new(one)));
        let children = children.into_iter().map(|one| Box::into_raw(Box::new(one))).collect();
        Box::new(Kept { _columns: columns.clone(), children, dictionary, buffers })
    }

    /// Frees all of it.
    ///
    /// # Safety
    ///
    /// `kept` is of `new`, and its parts have been released.
    unsafe fn free(kept: *mut c_void) {
        // SAFETY: so the caller says.
        let kept = unsafe { Box::from_raw(kept.cast::<Kept<T>>()) };
        for part in kept.children.into_iter().chain([kept.dictionary]).filter(|part| !part.is_null()) {
            // SAFETY: `new` made it.
            drop(unsafe { Box::from_raw(part) });
        }
    }
}

/// Declares how a structure is released: parts that nobody has taken over, then what it points to.
macro_rules! release {
    ($name:ident $of:ty) => {
        unsafe extern "C" fn $name(one: *mut $of) {
            // SAFETY: a consumer releases what it has been given, once, and this made it.
            unsafe {
                let parts = std::slice::from_raw_parts((*one).children, usize::try_from((*one).n_children).unwrap_or(0));
                for &part in parts.iter().chain([&(*one).dictionary]).filter(|part| !part.is_null()) {
                    if let Some(release) = (*part).release {
                        release(part);
                    }
                }
                Kept::<$of>::free((*one).private);
                (*one).release = None;
            }
        }
    };
}
release!(release_schema Schema);
release!(release_array Array);

fn schema(
    columns: &Arc<Vec<Column>>,
    format: &'static CStr,
    name: &CStr,
    children: Vec<Schema>,
    dictionary: Option<Schema>,
) -> Schema {
    let mut kept = Kept::new(columns, children, dictionary, Vec::new());
    Schema {
        format: format.as_ptr(),
        name: name.as_ptr(),
        metadata: null(),
        flags: NULLABLE,
        n_children: kept.children.len() as i64,
        children: kept.children.as_mut_ptr(),
        dictionary: kept.dictionary,
        release: Some(release_schema),
        private: Box::into_raw(kept).cast(),
    }
}

fn array(
    columns: &Arc<Vec<Column>>,
    length: usize,
    buffers: Vec<*const c_void>,
    children: Vec<Array>,
    dictionary: Option<Array>,
) -> Array {
    let mut kept = Kept::new(columns, children, dictionary, buffers);
    Array {
        length: length as i64,
        null_count: if kept.buffers[0].is_null() { 0 } else { -1 },
        offset: 0,
        n_buffers: kept.buffers.len() as i64,
        n_children: kept.children.len() as i64,
        buffers: kept.buffers.as_mut_ptr(),
        children: kept.children.as_mut_ptr(),
        dictionary: kept.dictionary,
        release: Some(release_array),
        private: Box::into_raw(kept).cast(),
    }
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: the stream is of `__arrow_c_stream__`, and a consumer gives room for a schema.
    unsafe {
        let columns = &(*(*stream).private.cast::<Left>()).columns;
        let of_column = |column: &Column| {
            let coded = matches!(column.values, Values::Coded(..));
            let dictionary = coded.then(|| schema(columns, c"u", c"", Vec::new(), None));
            schema(columns, column.format(), &column.name, Vec::new(), dictionary)
        };
        out.write(schema(columns, c"+s", c"", columns.iter().map(of_column).collect(), None));
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: as above.
    unsafe {
        let left = &mut *(*stream).private.cast::<Left>();
        if left.is_over {
            (*out).release = None;
            return 0;
        }
        left.is_over = true;
        let columns = &left.columns;
        let of_texts = |texts: &Texts| [texts.begins.as_ptr().cast(), texts.text.as_ptr().cast()];
        let of_column = |column: &Column| {
            let mut buffers: Vec<*const c_void> = vec![column.valid.as_ref().map_or(null(), |bits| bits.as_ptr().cast())];
            let mut dictionary = None;
            match &column.values {
                Values::I64(words) | Values::F64(words) => buffers.push(words.as_ptr().cast()),
                Values::Text(texts) => buffers.extend(of_texts(texts)),
                Values::Coded(codes, texts) => {
                    buffers.push(codes.as_ptr().cast());
                    let own = std::iter::once(null()).chain(of_texts(texts)).collect();
                    dictionary = Some(array(columns, texts.begins.len() - 1, own, Vec::new(), None));
                }
            }
            array(columns, left.height, buffers, Vec::new(), dictionary)
        };
        out.write(array(columns, left.height, vec![null()], columns.iter().map(of_column).collect(), None));
    }
    0
}

unsafe extern "C" fn get_last_error(_: *mut Stream) -> *const c_char {
    null()
}

unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: as above; it is released once.
    unsafe {
        drop(Box::from_raw((*stream).private.cast::<Left>()));
        (*stream).release = None;
    }
}
