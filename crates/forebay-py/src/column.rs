//! One column of a burst as an object with Python's buffer protocol. Everything that Python makes of it keeps the memory alive.
#![allow(unsafe_code)]

use arrow_buffer::Buffer;
use pyo3::{ffi, prelude::*, sync::PyOnceLock, types::PyMemoryView};
use std::ffi::c_int;

/// Bytes that never change, and that other objects may share.
#[pyclass(frozen, module = "forebay")]
pub struct Column(Buffer);

#[pymethods]
impl Column {
    unsafe fn __getbuffer__(
        this: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes: &[u8] = &this.get().0;
        let (first, len) = (bytes.as_ptr().cast_mut().cast(), bytes.len() as isize);
        // SAFETY: `view` is Python's, to be filled. The bytes stay where they are while `this` lives, which the view then refers to, since
        // an Arrow buffer never moves or changes. The view is read-only.
        let done = unsafe { ffi::PyBuffer_FillInfo(view, this.as_ptr(), first, len, 1, flags) };
        match done {
            0 => Ok(()),
            _ => Err(PyErr::fetch(this.py())),
        }
    }
}

/// A read-only view of `column`, whose elements have this format of Python's module `struct`.
pub fn view<'py>(py: Python<'py>, column: &Buffer, format: &str) -> PyResult<Bound<'py, PyAny>> {
    let column = Bound::new(py, Column(column.clone()))?;
    let bytes = PyMemoryView::from(column.as_any())?;
    match format {
        "B" => Ok(bytes.into_any()),
        _ => bytes.call_method1("cast", (format,)),
    }
}

/// The same as an array of numpy, if that is installed.
pub fn array<'py>(py: Python<'py>, column: &Buffer, format: &str) -> PyResult<Bound<'py, PyAny>> {
    static AS_ARRAY: PyOnceLock<Option<Py<PyAny>>> = PyOnceLock::new();
    let view = view(py, column, format)?;
    let as_array = AS_ARRAY.get_or_init(py, || {
        let numpy = py.import("numpy").ok()?;
        numpy.getattr("asarray").ok().map(Bound::unbind)
    });
    match as_array {
        Some(as_array) => as_array.bind(py).call1((view,)),
        None => Ok(view),
    }
}
