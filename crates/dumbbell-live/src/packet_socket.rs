//! A port by a packet socket (packet(7)): a ring in shared memory to receive from, sendmmsg(2) to send.
//!
//! The ring is TPACKET_V2: a frame can be seen the moment it is there, without a system call. TPACKET_V3 hands over blocks of frames, after
//! a millisecond at the earliest if they are not full. In a ring to send from, frames are
//! shared with whoever receives them, so that when a place is free depends on the reader.
#![allow(unsafe_code)] // the ring is memory that is shared with the kernel, and structures of the kernel's are arguments

use crate::port::{FramePort, BATCH};
use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Room for a frame of an MTU of 1500 with the kernel's own header (52 B, then an address) before it.
const FRAME: usize = 2048;
/// Frames in the ring: 50 ms of full frames at 1 Gbit/s.
const FRAMES: usize = 4096;
/// Bytes that the kernel allocates in one piece.
const BLOCK: usize = 1 << 16;
/// Bytes on their way from here to the other end that the kernel holds for us at most.
const SEND_BUFFER: libc::c_int = 4 << 20;

/// Options of packet sockets that libc does not name (linux/if_packet.h).
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// A packet socket on one interface.
pub struct PacketSocket {
    socket: OwnedFd,
    ring: NonNull<c_void>,
    /// The frame that is taken next.
    head: usize,
    overrun: u64,
    outgoing: Box<Outgoing>,
}

/// Arguments of sendmmsg, kept so that not each call clears 2.5 KB.
struct Outgoing {
    parts: [libc::iovec; BATCH],
    messages: [libc::mmsghdr; BATCH],
}

// SAFETY: the ring is memory of this socket alone, which is read and written by `&mut self` only. The pointers of `outgoing` are followed
// by `send` only, which sets them before.
unsafe impl Send for PacketSocket {}

fn set<T>(socket: RawFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the size are those of `value`, which outlives the call; the kernel only reads.
    let done =
        unsafe { libc::setsockopt(socket, level, option, std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl PacketSocket {
    /// A socket on interface `index` of the network namespace of this thread.
    ///
    /// # Errors
    /// The kernel's error: no permission, or no such interface.
    pub fn open(index: u32) -> io::Result<PacketSocket> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // Protocol 0: nothing is received before the socket is bound to its interface.
        // SAFETY: no pointers; the result is checked before it is taken as a descriptor that nobody else owns.
        let socket = unsafe {
            let socket = libc::socket(libc::AF_PACKET, kind, 0);
            if socket < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(socket)
        };
        let fd = socket.as_raw_fd();
        let on: libc::c_int = 1;
        set(fd, libc::SOL_PACKET, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as libc::c_int))?;
        set(fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &on)?;
        // straight to the interface: there is no queue to be passed, and nobody else to listen
        set(fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &on)?;
        // beyond the limit for all where that is allowed
        if set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER).is_err() {
            set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &SEND_BUFFER)?;
        }
        let blocks = FRAMES * FRAME / BLOCK;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: FRAMES as u32,
        };
        set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let length = NonZeroUsize::new(FRAMES * FRAME).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at an address that the kernel chooses; `Drop` unmaps it, and nothing of it is borrowed for longer than a call.
        let ring = unsafe { mmap(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, &socket, 0)? };
        // SAFETY: all zero is a valid iovec and a valid mmsghdr: null pointers with lengths of 0.
        let outgoing = Box::new(Outgoing { parts: unsafe { zeroed() }, messages: unsafe { zeroed() } });
        let opened = PacketSocket { socket, ring, head: 0, overrun: 0, outgoing };
        opened.bind(index)?;
        Ok(opened)
    }

    fn bind(&self, index: u32) -> io::Result<()> {
        // SAFETY: all zero is a valid sockaddr_ll, a structure of integers.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as i32;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the pointer and the length are those of `address`, which the kernel only reads.
        if unsafe { libc::bind(self.socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    fn header(&self) -> NonNull<libc::tpacket2_hdr> {
        // SAFETY: `head` is below FRAMES, so that the result lies in the mapping of FRAMES * FRAME bytes.
        unsafe { self.ring.byte_add(self.head * FRAME) }.cast()
    }
}

impl FramePort for PacketSocket {
    fn receive(&mut self, most: usize, take: &mut dyn FnMut(&[u8], u64)) -> io::Result<usize> {
        for taken in 0..most {
            let header = self.header();
            // SAFETY: `header` is in the mapping and aligned to FRAME; the kernel writes the status, its first field, as a whole word, and
            // so do we, below.
            let status = unsafe { AtomicU32::from_ptr(header.as_ptr().cast()) };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return Ok(taken);
            }
            // SAFETY: with TP_STATUS_USER the frame is ours until the status is written back: the kernel has written the header, and does
            // not touch it or the frame meanwhile. Offset and length are held against the room of a frame, whatever they are.
            let (frame, seconds, nanoseconds) = unsafe {
                let tpacket2 = header.as_ref();
                let start = usize::from(tpacket2.tp_mac).min(FRAME);
                let length = (tpacket2.tp_snaplen as usize).min(FRAME - start);
                let bytes = std::slice::from_raw_parts(header.as_ptr().cast::<u8>().add(start), length);
                (bytes, tpacket2.tp_sec, tpacket2.tp_nsec)
            };
            take(frame, u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds));
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.head = (self.head + 1) % FRAMES;
        }
        Ok(most)
    }

    fn send(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        let count = frames.len().min(BATCH);
        let Outgoing { parts, messages } = &mut *self.outgoing;
        for ((frame, part), message) in frames.iter().zip(parts).zip(messages.iter_mut()) {
            *part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first `count` messages point to parts, and these to frames, all of which outlive the call. sendmmsg does not write into
        // what the parts point to. Of earlier calls nothing is left among them, and the kernel writes msg_len only.
        let sent =
            unsafe { libc::sendmmsg(self.socket.as_raw_fd(), messages.as_mut_ptr(), count as libc::c_uint, libc::MSG_DONTWAIT) };
        if sent >= 0 {
            return Ok(sent as usize);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => Ok(0),
            _ => Err(error),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn overrun(&mut self) -> io::Result<u64> {
        // SAFETY: all zero is a valid tpacket_stats, a structure of integers.
        let mut stats: libc::tpacket_stats = unsafe { zeroed() };
        let mut length = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: the pointers are to `stats` and to its length, so that the kernel writes no further.
        let done = unsafe {
            let place = std::ptr::from_mut(&mut stats).cast();
            libc::getsockopt(self.socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, place, &mut length)
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        // the kernel counts from zero again after each look
        self.overrun += u64::from(stats.tp_drops);
        Ok(self.overrun)
    }
}

impl Drop for PacketSocket {
    fn drop(&mut self) {
        // SAFETY: the mapping that `open` made, of which nothing is borrowed any more. There is nothing to do if it fails.
        let _ = unsafe { munmap(self.ring, FRAMES * FRAME) };
    }
}
