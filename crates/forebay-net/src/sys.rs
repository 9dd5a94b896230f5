//! The system calls of the crate that need unsafe code, as thin wrappers without policy. The only other one is `bpf(2)`, which
//! `af_xdp` calls itself.
//!
//! The functions access only the descriptors and mappings that they are given. Their callers are `link` (netlink, drivers),
//! `af_packet` and `af_xdp` (sockets and rings), `share` (which user connects), `serve` (netlink), `repair` (other writers of a file)
//! and `file` (the page cache).
#![allow(unsafe_code)]
// Without live capture only the functions for files have a caller.
#![cfg_attr(not(feature = "live"), allow(dead_code))]

use rustix::net::{self, AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

/// Converts the C convention of "-1 and errno" to a result.
fn check(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer)
    }
}

/// Opens a socket, closed on exec. A packet socket of protocol 0 receives nothing until it is bound.
pub(crate) fn socket(
    domain: AddressFamily,
    kind: SocketType,
    protocol: Option<Protocol>,
) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(net::socket_with(domain, kind, flags, protocol)?)
}

/// Sets a socket option to the bytes of `value`.
pub(crate) fn set_option<T: Copy>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let bytes = ptr::from_ref(value).cast();
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes at `bytes`, which is all of `value`, borrowed for the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, bytes, len) })?;
    Ok(())
}

/// Types for which any bytes that the kernel writes are a valid value.
///
/// # Safety
/// Every bit pattern must be valid, as it is for integers and structures of integers.
pub(crate) unsafe trait AnyBits: Copy {}

// SAFETY: an integer.
unsafe impl AnyBits for libc::c_int {}
// SAFETY: three unsigned integers.
unsafe impl AnyBits for libc::tpacket_stats_v3 {}

// SAFETY: three integers.
unsafe impl AnyBits for libc::ucred {}
// SAFETY: three unsigned integers.
unsafe impl AnyBits for libc::xdp_desc {}
// SAFETY: an integer.
unsafe impl AnyBits for u64 {}

/// The process at the other end of a connected Unix socket; for the side that connected, the process that listens.
pub(crate) fn peer(socket: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let unknown = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    get_option(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, unknown)
}

/// The supplementary groups of that process, as they were when it connected.
pub(crate) fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    const SO_PEERGROUPS: libc::c_int = 59; // asm-generic/socket.h, Linux 4.13
    const NGROUPS_MAX: usize = 65_536; // linux/limits.h
    let mut groups = vec![0_u32; NGROUPS_MAX];
    let mut len = size_of_val(&groups[..]) as libc::socklen_t;
    let (fd, bytes) = (socket.as_raw_fd(), groups.as_mut_ptr().cast());
    // SAFETY: the kernel writes at most `len` bytes to `groups`, which has that many and is only used here.
    check(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, SO_PEERGROUPS, bytes, &mut len) })?;
    groups.truncate(len as usize / size_of::<u32>());
    Ok(groups)
}

/// Whether other processes may send descriptors through this Unix socket, or to connections that it accepts later.
///
/// # Errors
/// The kernel is older than Linux 6.16: descriptors cannot be refused.
pub(crate) fn accept_descriptors(socket: BorrowedFd<'_>, accepts: bool) -> io::Result<()> {
    const SO_PASSRIGHTS: libc::c_int = 83; // asm-generic/socket.h, Linux 6.16
    let accepts = libc::c_int::from(accepts);
    set_option(socket, libc::SOL_SOCKET, SO_PASSRIGHTS, &accepts)
}

/// Reads a socket option into `value`. If the kernel's answer is shorter, the rest of `value` is unchanged.
pub(crate) fn get_option<T: AnyBits>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    mut value: T,
) -> io::Result<T> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let bytes = ptr::from_mut(&mut value).cast();
    // SAFETY: the kernel writes at most `len` bytes into `value`, which only we use; every bit pattern is a valid T (AnyBits).
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, bytes, &mut len) })?;
    Ok(value)
}

/// Binds a packet socket to an interface for one protocol number, given in host order.
pub(crate) fn bind_link(fd: BorrowedFd<'_>, protocol: u16, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes at `address`, which lives until the call returns.
    check(unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(&address).cast(), len) })?;
    Ok(())
}

/// Pages of this part of a file that are in the page cache (cachestat(2), since Linux 6.5). `None`: the kernel does not answer.
pub(crate) fn cached_pages(file: BorrowedFd<'_>, begin: u64, len: u64) -> Option<u64> {
    /// The same on all architectures that have this call; not in the libc crate for every target.
    const SYS_CACHESTAT: libc::c_long = 451;
    let range = [begin, len];
    // Pages that are cached, dirty, being written, evicted, and recently evicted (linux/mman.h).
    let mut counts = [0_u64; 5];
    let (fd, flags) = (file.as_raw_fd(), 0_u32);
    // SAFETY: the kernel reads two integers at `range` and writes five at `counts`. Both live until the call returns.
    let answer = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            fd,
            range.as_ptr(),
            counts.as_mut_ptr(),
            flags,
        )
    };
    (answer == 0).then_some(counts[0])
}

/// A question about an interface whose answer has at most [`ETHTOOL_WORDS`] words (linux/ethtool.h).
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Ethtool {
    Settings = 0x01,
    Driver = 0x03,
    RingSizes = 0x10,
    Features = 0x3a,
    Channels = 0x3c,
    TimeStamps = 0x41,
}

/// Words of the longest answer, that of `ETHTOOL_GDRVINFO` with 49, and some to spare.
pub(crate) const ETHTOOL_WORDS: usize = 64;
/// Blocks of 32 features that `ETHTOOL_GFEATURES` may answer with, of 4 words each, after 2 words.
const FEATURE_BLOCKS: u32 = 8;
/// Bytes of the name of a feature (`ETH_GSTRING_LEN`).
pub(crate) const FEATURE_NAME_BYTES: usize = 32;

/// Asks the driver of an interface. The first word of the answer is the question.
pub(crate) fn ethtool(
    fd: BorrowedFd<'_>,
    name: &str,
    question: Ethtool,
) -> io::Result<[u32; ETHTOOL_WORDS]> {
    let mut answer = [0; ETHTOOL_WORDS];
    answer[0] = question as u32;
    if matches!(question, Ethtool::Features) {
        answer[1] = FEATURE_BLOCKS;
    }
    // SAFETY: the answer to each question of the enum has at most ETHTOOL_WORDS words; features, at most the blocks asked for.
    unsafe { ethtool_call(fd, name, &mut answer) }?;
    Ok(answer)
}

/// The names of all features that the kernel knows, [`FEATURE_NAME_BYTES`] bytes each.
pub(crate) fn ethtool_feature_names(fd: BorrowedFd<'_>, name: &str) -> io::Result<Vec<u8>> {
    const GET_STRINGS: u32 = 0x1b;
    const GET_STRING_COUNTS: u32 = 0x37;
    const FEATURES: u32 = 4;
    // The question, a reserved word, a set of bits in 64 bits, and for each bit a count.
    let mut counts = [0; ETHTOOL_WORDS];
    counts[0] = GET_STRING_COUNTS;
    let wanted = (1_u64 << FEATURES).to_ne_bytes();
    for (word, bytes) in counts[2..4].iter_mut().zip(wanted.chunks_exact(4)) {
        *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    // SAFETY: one count was asked for, so the answer has 5 words.
    unsafe { ethtool_call(fd, name, &mut counts) }?;
    let count = counts[4] as usize;
    if count == 0 || counts[2..4] == [0; 2] {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut answer = vec![0; 3 + count * FEATURE_NAME_BYTES / size_of::<u32>()];
    (answer[0], answer[1], answer[2]) = (GET_STRINGS, FEATURES, counts[4]);
    // SAFETY: the kernel writes 3 words and all names of features. Their number, which it just answered, is a constant of the
    // kernel (NETDEV_FEATURE_COUNT), the same for every interface.
    unsafe { ethtool_call(fd, name, &mut answer) }?;
    let words = answer[3..].iter();
    Ok(words.flat_map(|word| word.to_ne_bytes()).collect())
}

/// Whether the hardware is set to stamp every received frame (linux/net_tstamp.h).
pub(crate) fn stamps_all(fd: BorrowedFd<'_>, name: &str) -> io::Result<bool> {
    const SIOCGHWTSTAMP: libc::Ioctl = 0x89b1;
    const FILTER_ALL: u32 = 1;
    // Flags, what is stamped when it is sent, and when it is received.
    let mut config = [0; 3];
    // SAFETY: the kernel writes a `struct hwtstamp_config`, which has three words.
    unsafe { interface_call(fd, SIOCGHWTSTAMP, name, &mut config) }?;
    Ok(config[2] == FILTER_ALL)
}

/// # Safety
/// `answer` must be at least as long as the structure of the question, its first word, with all that follows it.
unsafe fn ethtool_call(fd: BorrowedFd<'_>, name: &str, answer: &mut [u32]) -> io::Result<()> {
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    // SAFETY: as the caller guarantees.
    unsafe { interface_call(fd, SIOCETHTOOL, name, answer) }
}

/// Asks about an interface.
///
/// # Safety
/// `answer` must be at least as long as what the kernel writes to it for this request.
unsafe fn interface_call(
    fd: BorrowedFd<'_>,
    question: libc::Ioctl,
    name: &str,
    answer: &mut [u32],
) -> io::Result<()> {
    let mut request = interface_request(name);
    request.ifr_ifru.ifru_data = answer.as_mut_ptr().cast();
    // SAFETY: the kernel writes its structure to `answer`, which is long enough, as the caller guarantees, and borrowed until the
    // call returns.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), question, &mut request) })?;
    Ok(())
}

/// The flags of an interface, such as `IFF_RUNNING`.
pub(crate) fn interface_flags(fd: BorrowedFd<'_>, name: &str) -> io::Result<libc::c_int> {
    const SIOCGIFFLAGS: libc::Ioctl = 0x8913;
    let mut request = interface_request(name);
    // SAFETY: the kernel writes the flags into the request.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), SIOCGIFFLAGS, &mut request) })?;
    // SAFETY: the call succeeded, so the flags are set. Any bits are valid.
    Ok(unsafe { request.ifr_ifru.ifru_flags }.into())
}

fn interface_request(name: &str) -> libc::ifreq {
    // SAFETY: all fields are integers or a pointer, for which zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// The message headers for sending up to a fixed number of frames with one call.
#[derive(Debug)]
pub(crate) struct Messages {
    parts: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
}

// SAFETY: the pointers inside are set anew for each call of `send` and not used outside of it.
unsafe impl Send for Messages {}

impl Messages {
    /// Headers for up to `max` frames a call.
    pub(crate) fn new(max: usize) -> Self {
        let part = libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        // SAFETY: all fields are integers or pointers, for which zero is a valid value.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Messages {
            parts: vec![part; max].into(),
            headers: vec![header; max].into(),
        }
    }

    /// Sends these frames in order, as many as fit into one call, and returns how many the kernel took. Never waits.
    /// [`len_of`](Messages::len_of) has their lengths until the next call.
    ///
    /// # Errors
    /// The first frame's. An error of a later frame appears when that one is the first.
    pub(crate) fn send<'a>(
        &mut self,
        fd: BorrowedFd<'_>,
        frames: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<usize> {
        let mut count = 0;
        let places = self.parts.iter_mut().zip(self.headers.iter_mut());
        for (frame, (part, header)) in frames.zip(places) {
            part.iov_base = frame.as_ptr().cast_mut().cast();
            part.iov_len = frame.len();
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        if count == 1 {
            // `send` takes less time than `sendmmsg`, which copies the header and reports the length.
            let part = &self.parts[0];
            // SAFETY: the kernel reads the bytes of the one frame, which is borrowed for 'a.
            let sent = unsafe {
                libc::send(
                    fd.as_raw_fd(),
                    part.iov_base,
                    part.iov_len,
                    libc::MSG_DONTWAIT,
                )
            };
            return match sent < 0 {
                true => Err(io::Error::last_os_error()),
                false => Ok(1),
            };
        }
        let headers = self.headers.as_mut_ptr();
        // SAFETY: the kernel reads `count` headers, which the loop has set, the part of each, and its frame, and writes `msg_len`
        // of each header. Headers and parts are ours, and the frames are borrowed for 'a, which outlives this call.
        let sent = check(unsafe {
            libc::sendmmsg(fd.as_raw_fd(), headers, count, libc::MSG_DONTWAIT as _)
        })?;
        Ok(sent as usize)
    }

    /// The length of this frame of the last call.
    pub(crate) fn len_of(&self, frame: usize) -> usize {
        self.parts[frame].iov_len
    }
}

/// Asks for a send buffer of this size. The kernel may give less.
pub(crate) fn set_send_buffer(fd: BorrowedFd<'_>, bytes: libc::c_int) {
    let set = |option| set_option(fd, libc::SOL_SOCKET, option, &bytes);
    // Without CAP_NET_ADMIN the limit net.core.wmem_max applies. A smaller buffer only makes smaller bursts.
    let _ = set(libc::SO_SNDBUFFORCE).or_else(|_| set(libc::SO_SNDBUF));
}

/// Asks the kernel to send the frames in a socket's transmit ring. Never waits.
pub(crate) fn send_ring(fd: BorrowedFd<'_>) -> io::Result<()> {
    net::send(fd, &[], SendFlags::DONTWAIT)?;
    Ok(())
}

/// Receives one message and returns its true length. A length above the buffer's means that the message was truncated.
pub(crate) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (_, len) = net::recv(fd, buffer, RecvFlags::TRUNC)?;
    Ok(len)
}

/// Like [`receive`], but never waits: without a message it returns `WouldBlock`.
pub(crate) fn receive_now(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (_, len) = net::recv(fd, buffer, RecvFlags::TRUNC | RecvFlags::DONTWAIT)?;
    Ok(len)
}

/// Whether another descriptor has this file open for writing. The kernel grants a read lease only on a file that is not open for
/// writing.
///
/// # Errors
/// As `fcntl(2)` for `F_SETLEASE`: the file belongs to another user, or its file system does not support leases.
pub(crate) fn has_writers(fd: BorrowedFd<'_>) -> io::Result<bool> {
    // As in `keep_others_out`. SAFETY: passes no memory to the kernel.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), F_SETSIG, libc::SIGURG) })?;
    // SAFETY: as above.
    match check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) }) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
        Err(error) => return Err(error),
    }
    // SAFETY: as above; releases the lease that was just taken, on the same descriptor.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    Ok(false)
}

/// Takes a write lease on a file that only this descriptor has open. From then on the kernel makes every other `open` wait until
/// the descriptor is closed, for at most `/proc/sys/fs/lease-break-time`.
///
/// # Errors
/// As `fcntl(2)` for `F_SETLEASE`; `WouldBlock`: another descriptor has the file open.
pub(crate) fn keep_others_out(fd: BorrowedFd<'_>) -> io::Result<()> {
    // The kernel announces an `open` with a signal. The default is SIGIO, which would end the process; SIGURG is ignored by
    // default. SAFETY: passes no memory to the kernel.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), F_SETSIG, libc::SIGURG) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) })?;
    Ok(())
}

/// The command that selects the signal for lease breaks (linux/fcntl.h, include/uapi/asm-generic/fcntl.h).
const F_SETSIG: libc::c_int = 10;

const WRITABLE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// A shared mapping; unmapped when dropped. Readable, and writable unless it was made by [`Mapping::read_only`].
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is an address range of the process and not bound to the thread that created it; `&Mapping` gives access
// only to its address.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a descriptor: the rings of a packet socket, whose pages the kernel maps at once (packet_mmap).
    pub(crate) fn of(fd: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        Self::map(fd.as_raw_fd(), WRITABLE, libc::MAP_SHARED, len, 0)
    }

    /// Maps `len` bytes of a descriptor from this offset, which the kernel maps at once, and which cannot be written to.
    pub(crate) fn read_only(fd: BorrowedFd<'_>, len: usize, offset: u64) -> io::Result<Self> {
        Self::map(
            fd.as_raw_fd(),
            libc::PROT_READ,
            libc::MAP_SHARED,
            len,
            offset,
        )
    }

    /// Maps `len` bytes of a descriptor from this offset, and faults them in: a ring of an AF_XDP socket.
    pub(crate) fn at(fd: BorrowedFd<'_>, len: usize, offset: u64) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Self::map(fd.as_raw_fd(), WRITABLE, flags, len, offset)
    }

    /// Zeroed memory with the shape of a ring, for tests without a socket.
    #[cfg(test)]
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        Self::map(-1, WRITABLE, libc::MAP_SHARED | libc::MAP_ANONYMOUS, len, 0)
    }

    fn map(
        fd: libc::c_int,
        access: libc::c_int,
        flags: libc::c_int,
        len: usize,
        offset: u64,
    ) -> io::Result<Self> {
        let offset = libc::off64_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: without a requested address the kernel chooses a free range, so no existing mapping is replaced.
        let base = unsafe { libc::mmap64(ptr::null_mut(), len, access, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base =
            NonNull::new(base.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Mapping { base, len })
    }

    /// The first byte, page-aligned.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes mapped.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` returned. All code with pointers into it borrows or owns this mapping, so none is
        // in use any more. The only possible failure is a bad argument.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
