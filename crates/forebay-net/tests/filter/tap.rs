//! A packet socket with a filter, to see which frames the kernel accepts.
#![allow(unsafe_code)]

use forebay_net::filter::bpf::Program;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub struct Tap(File);

impl Tap {
    /// Receives every frame of an interface, in both directions, that the program accepts.
    pub fn open(interface: &str, program: Option<&Program>) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: touches no memory of ours. Protocol 0: nothing arrives before it is bound.
        let raw = done(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the descriptor was just created and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        if let Some(program) = program {
            let instructions = program.instructions();
            let program = libc::sock_fprog {
                len: instructions.len() as u16,
                filter: instructions.as_ptr().cast_mut().cast(),
            };
            let len = size_of_val(&program) as u32;
            let from = (&raw const program).cast();
            let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
            // SAFETY: the kernel copies `program` and the instructions it points to, which have the
            // layout of `sock_filter` and live until it returns.
            done(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, from, len) })?;
        }
        let name = std::ffi::CString::new(interface).expect("no NUL in a name");
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            // SAFETY: reads the name, which lives until the call returns.
            sll_ifindex: unsafe { libc::if_nametoindex(name.as_ptr()) } as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let len = size_of_val(&address) as u32;
        // SAFETY: the kernel reads `len` bytes of `address`.
        done(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(Tap(File::from(fd)))
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Reads all frames that have arrived.
    pub fn drain(&self, into: &mut Vec<Vec<u8>>) {
        let mut frame = [0; 4096];
        loop {
            match (&self.0).read(&mut frame) {
                Ok(len) => into.push(frame[..len].to_vec()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("reading from a packet socket: {error}"),
            }
        }
    }
}

fn done(result: i32) -> io::Result<i32> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}
