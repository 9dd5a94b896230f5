//! What the target checks, through libpcap's interface as C programs use it: any bytes are a file or an error; its packets can be read,
//! and a copy of them is read again as the same packets.

#![allow(unsafe_code)]

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr::{null, null_mut},
};

/// `struct pcap_pkthdr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
struct Header {
    time: [i64; 2],
    caplen: u32,
    len: u32,
}

#[repr(C)]
struct Program {
    len: c_uint,
    instructions: *mut c_void,
}

unsafe extern "C" {
    fn fmemopen(bytes: *mut c_void, len: usize, mode: *const c_char) -> *mut c_void;
    fn open_memstream(bytes: *mut *mut u8, len: *mut usize) -> *mut c_void;
    fn fclose(file: *mut c_void) -> c_int;
    fn free(memory: *mut c_void);
    fn pcap_fopen_offline(file: *mut c_void, errors: *mut c_char) -> *mut c_void;
    fn pcap_next_ex(handle: *mut c_void, header: *mut *const Header, data: *mut *const u8)
    -> c_int;
    fn pcap_compile(
        handle: *mut c_void,
        program: *mut Program,
        text: *const c_char,
        optimize: c_int,
        mask: u32,
    ) -> c_int;
    fn pcap_setfilter(handle: *mut c_void, program: *const Program) -> c_int;
    fn pcap_freecode(program: *mut Program);
    fn pcap_dump_fopen(handle: *mut c_void, file: *mut c_void) -> *mut c_void;
    fn pcap_dump(dumper: *mut c_void, header: *const Header, data: *const u8);
    fn pcap_dump_close(dumper: *mut c_void);
    fn pcap_geterr(handle: *mut c_void) -> *const c_char;
    fn pcap_close(handle: *mut c_void);
}

pub fn check(bytes: &[u8]) {
    let (mut copied, mut len) = (null_mut(), 0);
    let packets = read(bytes, None, &mut |handle| {
        // SAFETY: the library stores a pointer and a length there when the stream is written to.
        let copy = unsafe { open_memstream(&raw mut copied, &raw mut len) };
        // SAFETY: both are open. The dumper closes the stream.
        unsafe { pcap_dump_fopen(handle, copy) }
    });
    let Some(packets) = packets else { return };
    // SAFETY: the stream was closed, so its bytes are there until they are freed.
    let copy = unsafe { std::slice::from_raw_parts(copied, len) }.to_vec();
    // SAFETY: as above, and nothing uses them any more.
    unsafe { free(copied.cast()) };
    let again = read(&copy, None, &mut |_| null_mut()).expect("a copy is a file");
    // A classic file that ends in zeros has no packets there.
    let is_zeros = |packet: &(Header, Vec<u8>)| packet.0.time == [0, 0] && packet.0.len == 0;
    let zeros = packets.iter().rev().take_while(|it| is_zeros(it)).count();
    let in_file = |packet: &(Header, Vec<u8>)| {
        let mut packet = packet.clone();
        packet.0.time[0] &= 0xffff_ffff;
        packet
    };
    let differs = |(a, b): &(_, _)| a != b;
    let found = packets
        .iter()
        .map(in_file)
        .zip(again.iter().map(in_file))
        .find(differs);
    assert_eq!(found, None);
    assert!((packets.len() - zeros..=packets.len()).contains(&again.len()));
    let longer = |packet: &&(Header, Vec<u8>)| packet.0.len > 60;
    let filtered = read(bytes, Some(c"greater 61"), &mut |_| null_mut()).expect("it was a file");
    assert_eq!(filtered.len(), packets.iter().filter(longer).count());
}

/// The packets before the end or an error, also written by what `dump` opens. `None`: it is not a file.
fn read(
    bytes: &[u8],
    filter: Option<&CStr>,
    dump: &mut dyn FnMut(*mut c_void) -> *mut c_void,
) -> Option<Vec<(Header, Vec<u8>)>> {
    let mut errors = [0; 256];
    let mut bytes = bytes.to_vec();
    bytes.reserve(1); // No stream has an address that is not one.
    // SAFETY: the stream reads these bytes, and is closed before they are dropped.
    let file = unsafe { fmemopen(bytes.as_mut_ptr().cast(), bytes.len().max(1), c"r".as_ptr()) };
    // SAFETY: the stream is open, and the buffer has the size that the library expects.
    let handle = unsafe { pcap_fopen_offline(file, errors.as_mut_ptr()) };
    if handle.is_null() {
        assert_ne!(errors[0], 0, "an error has a text");
        // SAFETY: the stream stays ours if this fails.
        unsafe { fclose(file) };
        return None;
    }
    if let Some(text) = filter {
        let mut program = Program {
            len: 0,
            instructions: null_mut(),
        };
        // SAFETY: all are valid during the call.
        let compiled = unsafe { pcap_compile(handle, &raw mut program, text.as_ptr(), 1, 0) };
        assert_eq!(compiled, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { pcap_setfilter(handle, &raw const program) }, 0);
        // SAFETY: the program comes from the library.
        unsafe { pcap_freecode(&raw mut program) };
    }
    let dumper = dump(handle);
    let mut packets = Vec::new();
    let (mut header, mut data) = (null(), null());
    let returned = loop {
        // SAFETY: the library stores two pointers there.
        let returned = unsafe { pcap_next_ex(handle, &raw mut header, &raw mut data) };
        if returned != 1 {
            break returned;
        }
        // SAFETY: the packet is valid until the next call.
        let found = unsafe { *header };
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(data, found.caplen as usize) };
        packets.push((found, bytes.to_vec()));
        if !dumper.is_null() {
            // SAFETY: the dumper is open.
            unsafe { pcap_dump(dumper, header, data) };
        }
    };
    // SAFETY: the handle is open.
    let error = unsafe { pcap_geterr(handle) };
    // SAFETY: the text ends with a zero.
    let error = unsafe { CStr::from_ptr(error) };
    assert!(returned == -2 || returned == -1 && !error.is_empty());
    if !dumper.is_null() {
        // SAFETY: the dumper is open, and not used any more.
        unsafe { pcap_dump_close(dumper) };
    }
    // SAFETY: the handle is open, and not used any more.
    unsafe { pcap_close(handle) };
    Some(packets)
}
