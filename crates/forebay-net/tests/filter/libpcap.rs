//! Calls libpcap, the library with which tcpdump compiles and runs filters. A process of tcpdump for each of the thousands of
//! expressions would take longer than all else here.
#![allow(unsafe_code)]

use crate::corpus::Packet;
use forebay_net::filter::bpf::{Instruction, Program};
use libc::{c_char, c_int, c_uint, c_void};
use std::{
    ffi::{CStr, CString},
    mem::MaybeUninit,
    ptr,
    sync::OnceLock,
};

/// `pcap_t`.
type Handle = *mut c_void;

/// `struct bpf_program`.
#[repr(C)]
struct Compiled {
    len: c_uint,
    instructions: *mut Instruction,
}

/// `struct pcap_pkthdr`.
#[repr(C)]
struct Header {
    time: libc::timeval,
    captured: u32,
    wire_len: u32,
}

/// The functions that are called here, each as pcap(3PCAP) declares it.
struct Library {
    open_offline: unsafe extern "C" fn(*const c_char, *mut c_char) -> Handle,
    create: unsafe extern "C" fn(*const c_char, *mut c_char) -> Handle,
    activate: unsafe extern "C" fn(Handle) -> c_int,
    close: unsafe extern "C" fn(Handle),
    geterr: unsafe extern "C" fn(Handle) -> *const c_char,
    compile: unsafe extern "C" fn(Handle, *mut Compiled, *const c_char, c_int, u32) -> c_int,
    freecode: unsafe extern "C" fn(*mut Compiled),
    offline_filter: unsafe extern "C" fn(*const Compiled, *const Header, *const u8) -> c_int,
}

impl Library {
    /// The library; `None` if it is not installed.
    fn get() -> Option<&'static Library> {
        static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
        LIBRARY.get_or_init(Library::load).as_ref()
    }

    #[allow(clippy::missing_transmute_annotations)] // the fields have the types
    fn load() -> Option<Library> {
        let open = |name: &CStr| {
            // SAFETY: reads the name. Loading libpcap runs nothing that depends on this process.
            unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }
        };
        let library = [c"libpcap.so.0.8", c"libpcap.so.1"].map(open);
        let library = library.into_iter().find(|library| !library.is_null())?;
        let symbol = |name: &CStr| {
            // SAFETY: the library is never unloaded.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            assert!(!symbol.is_null(), "libpcap has no {name:?}");
            symbol
        };
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the function of that name, of the type that its manual page declares.
                unsafe { std::mem::transmute::<*mut c_void, _>(symbol($name)) }
            };
        }
        Some(Library {
            open_offline: function!(c"pcap_open_offline"),
            create: function!(c"pcap_create"),
            activate: function!(c"pcap_activate"),
            close: function!(c"pcap_close"),
            geterr: function!(c"pcap_geterr"),
            compile: function!(c"pcap_compile"),
            freecode: function!(c"pcap_freecode"),
            offline_filter: function!(c"pcap_offline_filter"),
        })
    }
}

pub fn is_installed() -> bool {
    Library::get().is_some()
}

/// A capture file or an interface, for which expressions are compiled as by tcpdump.
pub struct Source {
    library: &'static Library,
    handle: Handle,
}

impl Source {
    fn open(name: &str, open: impl FnOnce(&Library, *const c_char, *mut c_char) -> Handle) -> Self {
        let library = Library::get().expect("libpcap");
        let name = CString::new(name).unwrap();
        let mut error = [0; 256]; // PCAP_ERRBUF_SIZE
        let handle = open(library, name.as_ptr(), error.as_mut_ptr());
        assert!(!handle.is_null(), "libpcap opens {name:?}");
        Source { library, handle }
    }

    /// As `tcpdump -r`.
    pub fn file(path: &str) -> Self {
        Source::open(path, |library, path, error| {
            // SAFETY: reads the path, and writes at most 256 bytes of an error.
            unsafe { (library.open_offline)(path, error) }
        })
    }

    /// As `tcpdump -i`, on an interface without an address.
    pub fn interface(name: &str) -> Self {
        let source = Source::open(name, |library, name, error| {
            // SAFETY: reads the name, and writes at most 256 bytes of an error.
            unsafe { (library.create)(name, error) }
        });
        // SAFETY: the handle is open.
        let activated = unsafe { (source.library.activate)(source.handle) };
        assert_eq!(activated, 0, "{name}: {}", source.error());
        source
    }

    fn error(&self) -> String {
        // SAFETY: the handle is open.
        let text = unsafe { (self.library.geterr)(self.handle) };
        // SAFETY: the text is in the handle, and ends with a zero.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }

    /// Compiles an expression, or returns libpcap's error.
    pub fn compile(&self, expression: &str, optimize: bool) -> Result<Filter, String> {
        let expression = CString::new(expression).unwrap();
        let mut compiled = MaybeUninit::<Compiled>::uninit();
        // SAFETY: the handle is open, and this thread is the only one that uses it. Reads the expression.
        let done = unsafe {
            let (into, text) = (compiled.as_mut_ptr(), expression.as_ptr());
            (self.library.compile)(self.handle, into, text, c_int::from(optimize), 0)
        };
        if done != 0 {
            return Err(self.error());
        }
        Ok(Filter {
            library: self.library,
            // SAFETY: libpcap has filled it.
            compiled: unsafe { compiled.assume_init() },
        })
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: the handle is open. Programs do not depend on it.
        unsafe { (self.library.close)(self.handle) };
    }
}

/// A program of libpcap.
pub struct Filter {
    library: &'static Library,
    compiled: Compiled,
}

impl Filter {
    /// The program, for our machine.
    pub fn program(&self) -> Program {
        let (from, len) = (self.compiled.instructions, self.compiled.len as usize);
        // SAFETY: libpcap's memory, freed when this is dropped. An instruction has the same layout there.
        let instructions = unsafe { std::slice::from_raw_parts(from, len) };
        Program::new(instructions.to_vec()).expect("a program that libpcap compiled")
    }

    /// Whether libpcap accepts the packet.
    pub fn keeps(&self, packet: &Packet) -> bool {
        let header = Header {
            time: libc::timeval {
                tv_sec: 0,
                tv_usec: 0,
            },
            captured: packet.data.len() as u32,
            wire_len: packet.wire_len,
        };
        let (program, header) = (&raw const self.compiled, ptr::from_ref(&header));
        // SAFETY: reads the program, the header, and as many bytes of data as it says.
        unsafe { (self.library.offline_filter)(program, header, packet.data.as_ptr()) != 0 }
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // SAFETY: libpcap allocated it, and nothing else frees it.
        unsafe { (self.library.freecode)(&mut self.compiled) };
    }
}
