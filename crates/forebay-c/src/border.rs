//! The border to C: what crosses it is checked, copied or converted here. A panic stops here.
//!
//! The program promises what `forebay.h` asks for: pointers are null or valid, texts end with a zero, and lengths are right.

#![allow(unsafe_code)]

use crate::failure::{Failure, Result, remember};
use forebay::error::Code;
use std::{
    any::Any,
    ffi::{CStr, OsStr, c_char, c_int},
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    panic::{self, AssertUnwindSafe},
    path::Path,
    ptr::null_mut,
    sync::Once,
    time::Duration,
};

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of `pthread.h`.
const CANCEL_DISABLE: c_int = 1;

/// What an exported function returns: its value, or the number of the error.
pub trait Answer {
    fn error(code: Code) -> Self;
}

macro_rules! answers {
    ($($number:ty),*) => {$(impl Answer for $number {
        fn error(code: Code) -> Self {
            code as $number
        }
    })*};
}
answers!(i32, i64, isize);

/// Runs the body of an exported function. A panic ends here, and prints nothing in a release. A thread that the program cancels meanwhile
/// ends after the call.
pub fn answer<T: Answer>(body: impl FnOnce() -> Result<T>) -> T {
    let _uncancelled = Uncancelled::new();
    caught(body).unwrap_or_else(|failure| {
        let code = failure.code;
        remember(failure);
        T::error(code)
    })
}

/// As [`answer`], for a function that returns 0 once it is done.
pub fn done(body: impl FnOnce() -> Result<()>) -> c_int {
    answer(|| body().map(|()| 0))
}

/// Makes a panic an error. It must not meet an exception of the program, which would end the process here.
pub fn caught<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    static QUIET: Once = Once::new();
    // The standard library is linked into this one, so its hook is not the program's. In tests it is.
    if cfg!(not(debug_assertions)) {
        QUIET.call_once(|| panic::set_hook(Box::new(|_| {})));
    }
    panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = text_of(&*panic);
        std::mem::forget(panic); // Its drop could panic, too.
        Err(Failure::new(Code::Panic, text))
    })
}

/// While it exists, a cancellation of this thread waits: the thread would otherwise end among frames that own something, which aborts the
/// process.
pub struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    pub fn new() -> Uncancelled {
        let mut before = 0;
        // SAFETY: stores the state of this thread there.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
        Uncancelled { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the state is one that the thread had; null stores nothing.
        unsafe { pthread_setcancelstate(self.before, null_mut()) };
    }
}

/// Runs what a signal handler may call: it keeps nothing of the thread's, and `errno` as it was.
pub fn keeping_errno<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: it answers for each thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: this thread's number is there.
    let before = unsafe { errno.read() };
    let answer = body();
    // SAFETY: as above.
    unsafe { errno.write(before) };
    answer
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a defect of forebay: {}", text.unwrap_or("a panic"))
}

fn null(name: &str) -> Failure {
    Failure::invalid(format!("`{name}` is a null pointer"))
}

/// A text of the program.
pub fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: the program owns the text, which ends with a zero and outlives the call.
    let text = unsafe { CStr::from_ptr(pointer) };
    let not_utf8 = |_| Failure::invalid(format!("`{name}` is not UTF-8"));
    text.to_str().map_err(not_utf8)
}

/// A path of the program: any bytes.
pub fn path<'a>(pointer: *const c_char, name: &str) -> Result<&'a Path> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: the program owns the path, which ends with a zero and outlives the call.
    let path = unsafe { CStr::from_ptr(pointer) };
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

fn check<T>(pointer: *const T, len: usize, name: &str) -> Result<()> {
    if pointer.is_null() {
        return Err(null(name));
    }
    if len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::invalid(format!("{len} in `{name}` are too many")));
    }
    Ok(())
}

/// Bytes or structures of the program. The pointer may be null if there are none.
pub fn items<'a, T>(pointer: *const T, len: usize, name: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    check(pointer, len, name)?;
    // SAFETY: the program owns `len` items there, which outlive the call.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// Bytes or structures of the program that the call fills.
pub fn items_mut<'a, T>(pointer: *mut T, len: usize, name: &str) -> Result<&'a mut [T]> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(pointer, len, name)?;
    // SAFETY: the program owns `len` items there, which nothing else uses during the call. They are numbers and pointers, for which the
    // header asks that they are initialized, or bytes, which are only written.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, len) })
}

/// A place of the program for a result.
#[derive(Debug)]
pub struct Place<T>(*mut T);

impl<T> Place<T> {
    pub fn new(pointer: *mut T, name: &str) -> Result<Place<T>> {
        check(pointer, 1, name)?;
        Ok(Place(pointer))
    }

    /// A place that the program may leave out.
    pub fn optional(pointer: *mut T) -> Option<Place<T>> {
        (!pointer.is_null()).then_some(Place(pointer))
    }

    pub fn put(&self, value: T) {
        // SAFETY: the program owns room for a value there, which may be uninitialized, so it is not dropped.
        unsafe { self.0.write(value) };
    }
}

/// A structure whose first field is its size, as the program has compiled it.
///
/// # Safety
/// It is `repr(C)`, its first field is a `usize`, and any bytes are valid in all others.
pub unsafe trait Versioned: Copy {
    /// The sizes that it has had, of all versions of the interface, in bytes.
    const SIZES: &'static [usize];
    /// The last one is that of this version.
    const LAST: () = assert!(Self::SIZES[Self::SIZES.len() - 1] == size_of::<Self>());

    /// A field that is zero in this version.
    fn reserved(&self) -> u32 {
        0
    }
}

/// What the program has in such a structure, and zeros in the fields that it does not know. Null: zeros in all.
pub fn options<T: Versioned>(pointer: *const T) -> Result<T> {
    let mut options = std::mem::MaybeUninit::<T>::zeroed();
    if !pointer.is_null() {
        let size = declared_size(pointer)?;
        let known = size.min(size_of::<T>());
        let (from, to) = (pointer.cast::<u8>(), options.as_mut_ptr().cast::<u8>());
        // SAFETY: the program owns `size` bytes there, and a `T` has room for them.
        unsafe { to.copy_from_nonoverlapping(from, known) };
        let more = items(from.wrapping_add(known), size - known, "options")?;
        if more.iter().any(|&byte| byte != 0) {
            return Err(unknown());
        }
    }
    // SAFETY: `T` is valid with any bytes, which its trait promises.
    let options = unsafe { options.assume_init() };
    match options.reserved() {
        0 => Ok(options),
        _ => Err(unknown()),
    }
}

fn unknown() -> Failure {
    Failure::new(
        Code::Unsupported,
        "the structure has options that this version does not know",
    )
}

/// Stores as much of such a structure as the program knows, and zeros in what only the program knows; its size stays.
pub fn put_versioned<T: Versioned>(pointer: *mut T, value: T, name: &str) -> Result<()> {
    check(pointer, 1, name)?;
    let size = declared_size(pointer)?;
    let known = size.min(size_of::<T>()) - size_of::<usize>();
    let from = (&raw const value)
        .cast::<u8>()
        .wrapping_add(size_of::<usize>());
    let to = pointer.cast::<u8>().wrapping_add(size_of::<usize>());
    // SAFETY: the program owns the bytes of its size there, and the value has as many after its first field.
    unsafe { to.copy_from_nonoverlapping(from, known) };
    let rest = size - size_of::<usize>() - known;
    // SAFETY: the program owns the bytes up to its size.
    unsafe { to.wrapping_add(known).write_bytes(0, rest) };
    Ok(())
}

/// Refuses such a structure of a wrong size before a call changes anything. Null is right: the program does not want it.
pub fn check_size<T: Versioned>(pointer: *const T) -> Result<()> {
    match pointer.is_null() {
        true => Ok(()),
        false => declared_size(pointer).map(|_| ()),
    }
}

fn declared_size<T: Versioned>(pointer: *const T) -> Result<usize> {
    let () = T::LAST;
    // SAFETY: the structure begins with its size.
    let size = unsafe { pointer.cast::<usize>().read() };
    // Larger ones are of later versions; none of them is this large.
    if T::SIZES.contains(&size) || (size > size_of::<T>() && size <= 4096) {
        return Ok(size);
    }
    Err(Failure::invalid(format!(
        "the structure's `size` is {size}: set it to sizeof the structure, which has {} bytes",
        size_of::<T>()
    )))
}

/// A time limit in nanoseconds; negative: none.
pub fn limit(timeout_ns: i64) -> Option<Duration> {
    u64::try_from(timeout_ns).ok().map(Duration::from_nanos)
}

/// A duplicate of a descriptor of the program.
pub fn descriptor(number: c_int) -> Result<OwnedFd> {
    if number < 0 {
        return Err(Failure::invalid("the descriptor is negative"));
    }
    // SAFETY: `fcntl` answers for any number.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: it was made above, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// The number of a descriptor, for the program to wait on.
pub fn number(fd: BorrowedFd<'_>) -> c_int {
    fd.as_raw_fd()
}
