//! The border to C: what crosses it is checked, copied or converted here, so that other files need no `unsafe` for it.
//!
//! The program promises what `pcap/pcap.h` asks for: pointers are null or valid, texts end with a zero, and lengths are right.

#![allow(unsafe_code)]

use crate::abi::{ERRBUF_SIZE, Handler, PacketHeader};
use forebay_net::filter::bpf::Instruction;
use std::{
    ffi::{CStr, CString, c_char, c_int, c_uchar, c_void},
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    panic::{self, AssertUnwindSafe},
    ptr::null_mut,
    sync::{
        Once,
        atomic::{AtomicPtr, AtomicU8, Ordering::Relaxed},
    },
};

unsafe extern "C" {
    fn secure_getenv(name: *const c_char) -> *const c_char;
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Defines exported functions: after the signature, what each returns if its body panics.
macro_rules! exports {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $returned:ty)? = $failed:expr; $body:block)*) => {$(
        $(#[$meta])*
        #[allow(unsafe_code)] // The names are libpcap's, and no other library's.
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) $(-> $returned)? {
            $crate::border::guarded($failed, move || $body)
        }
    )*};
}
pub(crate) use exports;

/// `PTHREAD_CANCEL_DISABLE` of `pthread.h`.
const CANCEL_DISABLE: c_int = 1;

/// Runs the body of an exported function. A panic ends here, and prints nothing in a release. If the program cancels the thread
/// meanwhile, that waits until the call has ended: the thread would otherwise end among frames that own something, which aborts the
/// process.
pub fn guarded<T>(failed: T, body: impl FnOnce() -> T) -> T {
    let mut before = 0;
    // SAFETY: stores the state of this thread there. A signal handler may do it, too.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
    let result = caught(failed, body);
    // SAFETY: as above; the state is one that the thread had.
    unsafe { pthread_setcancelstate(before, null_mut()) };
    result
}

/// As [`guarded`], for a body that calls nothing of the program and does not panic: while there is one thread, nothing cancels it.
#[inline]
pub fn guarded_if_cancelled<T>(failed: T, body: impl FnOnce() -> T) -> T {
    match has_one_thread() {
        true => body(),
        false => guarded(failed, body),
    }
}

/// Runs `body`. A panic ends here.
pub fn caught<T>(failed: T, body: impl FnOnce() -> T) -> T {
    static QUIET: Once = Once::new();
    // The standard library is linked into this one, so its hook is not the program's. In tests and when fuzzed, it is.
    if cfg!(not(debug_assertions)) {
        QUIET.call_once(|| panic::set_hook(Box::new(|_| {})));
    }
    panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or(failed)
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

/// Ends this thread if the program has cancelled it. No frame between the program's and this one may own anything or catch panics.
pub extern "C-unwind" fn end_if_cancelled() {
    // SAFETY: accesses no memory of ours.
    unsafe { pthread_testcancel() };
}

/// A text of the program. `None`: a null pointer.
pub fn text<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the program owns the text, which ends with a zero and outlives the call.
    Some(unsafe { CStr::from_ptr(pointer) })
}

/// Bytes or structures of the program. `None`: a null pointer, unless none are there.
pub fn items<'a, T>(pointer: *const T, len: usize) -> Option<&'a [T]> {
    if len == 0 {
        return Some(&[]);
    }
    if pointer.is_null() || len > isize::MAX as usize / size_of::<T>().max(1) {
        return None;
    }
    // SAFETY: the program owns `len` items there, which outlive the call.
    Some(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// A copy of one item of the program.
pub fn item<T: Copy>(pointer: *const T, at: usize) -> Option<T> {
    let pointer = pointer.wrapping_add(at);
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the program has an item there: a structure that it passed, or an instruction that its filter leads to.
    Some(unsafe { pointer.read() })
}

/// Stores a result where the program wants it; nowhere, if that is a null pointer.
pub fn put<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: the program owns room for a value there, which may be uninitialized, so it is not dropped.
        unsafe { pointer.write(value) };
    }
}

/// Text of the error for a null pointer where a result is to be stored that the program releases.
pub const NO_PLACE: &str = "A null pointer was supplied for the result";

/// Stores as much of a value as the program has room for, in bytes.
pub fn put_prefix<T: Copy>(pointer: *mut T, value: T, room: usize) {
    if !pointer.is_null() {
        let (from, len) = ((&raw const value).cast::<u8>(), room.min(size_of::<T>()));
        // SAFETY: the program owns `room` bytes there, and the value has `len`.
        unsafe { pointer.cast::<u8>().copy_from_nonoverlapping(from, len) };
    }
}

/// Writes a message into a buffer of `ERRBUF_SIZE` bytes, cut to fit. Nothing after it is written: some programs have less room.
pub fn message(buffer: *mut c_char, text: &str) {
    if !buffer.is_null() {
        let filled = terminated(text);
        let len = filled.iter().take_while(|&&byte| byte != 0).count() + 1;
        // SAFETY: the program owns `ERRBUF_SIZE` bytes there, by the contract of every function with such a buffer.
        unsafe { buffer.copy_from_nonoverlapping(filled.as_ptr(), len) };
    }
}

/// A message at a fixed address, which other threads may read while it changes.
pub struct ErrorText([AtomicU8; ERRBUF_SIZE]);

impl Default for ErrorText {
    fn default() -> ErrorText {
        ErrorText([const { AtomicU8::new(0) }; ERRBUF_SIZE])
    }
}

impl ErrorText {
    pub fn set(&self, text: &str) {
        for (to, from) in self.0.iter().zip(terminated(text)) {
            to.store(from as u8, Relaxed);
        }
    }

    /// For the program, which only reads it.
    pub fn as_ptr(&self) -> *mut c_char {
        self.0.as_ptr().cast::<c_char>().cast_mut()
    }
}

/// A number of this thread, also in a signal handler. Never 0.
pub fn this_thread() -> usize {
    // SAFETY: it only reads a register.
    unsafe { libc::pthread_self() as usize }
}

/// Whether this process has only this thread, and has had no other at this time. `false`: it may have others.
#[inline]
pub fn has_one_thread() -> bool {
    let flag = ONE_THREAD.load(Relaxed);
    // SAFETY: null, or a byte of C's library, which it only changes while there is one thread.
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

/// A byte of C's library (glibc 2.32): not 0 before the first other thread begins. Null: there is none, or nothing has looked for it.
static ONE_THREAD: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Has [`has_one_thread`] know it. Not for signal handlers.
pub fn look_for_threads() {
    if ONE_THREAD.load(Relaxed).is_null() {
        // SAFETY: the name ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
        ONE_THREAD.store(found.cast(), Relaxed);
    }
}

/// A message as C reads it, cut at a character to fit.
pub fn terminated(text: &str) -> [c_char; ERRBUF_SIZE] {
    let mut end = text.len().min(ERRBUF_SIZE - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut filled = [0; ERRBUF_SIZE];
    let bytes = text.as_bytes()[..end].iter().take_while(|&&byte| byte != 0);
    for (to, &from) in filled.iter_mut().zip(bytes) {
        *to = from as c_char;
    }
    filled
}

/// Copies items into memory that the program releases with `free`, or through [`release`]. Null: there is no memory.
pub fn allocated<T: Copy>(items: &[T]) -> *mut T {
    let bytes = size_of_val(items).max(1);
    // SAFETY: any size may be asked for.
    let memory = unsafe { libc::malloc(bytes) }.cast::<T>();
    if !memory.is_null() {
        // SAFETY: the new memory has room for the items, and is aligned for any of C's types.
        unsafe { memory.copy_from_nonoverlapping(items.as_ptr(), items.len()) };
    }
    memory
}

/// Copies a text into memory as [`allocated`] does.
pub fn allocated_text(text: &CStr) -> *mut c_char {
    allocated(text.to_bytes_with_nul()).cast()
}

/// Releases what [`allocated`] returned.
pub fn release<T>(pointer: *mut T) {
    // SAFETY: null, or memory of `malloc` that the program gives back.
    unsafe { libc::free(pointer.cast::<c_void>()) };
}

/// Hands a packet to the program's function.
pub fn call(
    handler: Handler,
    user: *mut c_uchar,
    header: *const PacketHeader,
    data: *const c_uchar,
) {
    if let Some(handler) = handler {
        // SAFETY: it is the program's function, and the packet stays valid until the program asks for another one.
        unsafe { handler(user, header, data) };
    }
}

/// A text without zeros inside, for C.
pub fn c_text(text: impl Into<Vec<u8>>) -> CString {
    let mut bytes: Vec<u8> = text.into();
    bytes.retain(|&byte| byte != 0);
    CString::new(bytes).unwrap_or_default()
}

/// Has the kernel apply this program to what a packet socket receives from now on.
pub fn attach(socket: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let Ok(len) = u16::try_from(program.len()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let described = libc::sock_fprog {
        len,
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: the kernel copies `len` instructions, which have the layout of `sock_filter`, during the call.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const described).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    match failed {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A socket that sends on this interface, and receives nothing.
pub fn packet_socket(interface: &str) -> io::Result<OwnedFd> {
    let name = c_text(interface);
    // SAFETY: accesses no memory.
    let opened = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was opened above, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(opened) };
    // SAFETY: an address of zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    // SAFETY: the name ends with a zero.
    address.sll_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) } as c_int;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address has this length.
    match unsafe { libc::bind(opened, (&raw const address).cast(), len) } {
        0 => Ok(socket),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A variable of the environment, unless the program has more rights than its user.
pub fn environment(name: &CStr) -> Option<CString> {
    // SAFETY: the name ends with a zero.
    let value = unsafe { secure_getenv(name.as_ptr()) };
    text(value).map(CStr::to_owned)
}

/// Has these functions called when the process forks: before, in the parent after it, and in the child.
pub fn at_fork(before: extern "C" fn(), after: extern "C" fn(), in_child: extern "C" fn()) {
    // SAFETY: the functions exist until this library is unloaded, which also removes them. They do not unwind.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
}

/// Runs `body` with all signals blocked; a thread that it starts inherits that.
pub fn without_signals<T>(body: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut earlier = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: it stores a set there.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the first set was stored above; the earlier one is stored now.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), earlier.as_mut_ptr()) };
    let _earlier = SignalMask(earlier);
    body()
}

/// The signals that a thread had blocked, and has again when this is dropped.
struct SignalMask(MaybeUninit<libc::sigset_t>);

impl Drop for SignalMask {
    fn drop(&mut self) {
        // SAFETY: the set was stored before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, self.0.as_ptr(), null_mut()) };
    }
}
