//! A port by AF_XDP (Documentation/networking/af_xdp.rst of Linux) in copy mode, the only one that veth has.
//!
//! A program of five instructions in the kernel gives all frames of the interface to the socket. Nothing says when they arrived: the time
//! is that of the look into the ring. It needs CAP_BPF or root outside of user namespaces.

use dumbbell_live::port::{FramePort, BATCH};
use nix::sys::mman::{mmap, mmap_anonymous, MapFlags, ProtFlags};
use nix::time::{clock_gettime, ClockId};
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Frames that are received, as many as the ring of a packet socket has, and as many again to send.
const FRAMES: u32 = 4096;
const ROOM: usize = 2048;
const MEMORY: usize = 2 * FRAMES as usize * ROOM;

/// Where the program runs.
#[derive(Clone, Copy)]
pub enum Mode {
    /// Where frames enter the network stack (XDP_FLAGS_SKB_MODE, linux/if_link.h).
    Generic = 1 << 1,
    /// In the driver (XDP_FLAGS_DRV_MODE).
    Native = 1 << 2,
}

/// A ring of `T`, shared with the kernel. We and it each write one of the two counters.
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    entries: NonNull<T>,
}

impl<T: Copy> Ring<T> {
    fn counters(&self) -> (&AtomicU32, &AtomicU32) {
        // SAFETY: both lie in the mapping of the ring, which is never unmapped: the process of the bench ends soon.
        unsafe { (self.producer.as_ref(), self.consumer.as_ref()) }
    }

    /// Puts in what `entries` gives, of which there must not be more than room.
    fn put(&mut self, entries: impl Iterator<Item = T>) {
        let (producer, _) = self.counters();
        let mut at = producer.load(Ordering::Relaxed);
        for entry in entries {
            // SAFETY: the index is below FRAMES, the length of the ring, and the kernel does not look before the counter says so.
            unsafe { self.entries.as_ptr().add((at % FRAMES) as usize).write(entry) };
            at = at.wrapping_add(1);
        }
        producer.store(at, Ordering::Release);
    }

    /// The oldest entry.
    fn take(&mut self) -> Option<T> {
        let (producer, consumer) = self.counters();
        let at = consumer.load(Ordering::Relaxed);
        if producer.load(Ordering::Acquire) == at {
            return None;
        }
        // SAFETY: as in `put`; the kernel has written the entry and does not touch it before the counter says so.
        let entry = unsafe { self.entries.as_ptr().add((at % FRAMES) as usize).read() };
        consumer.store(at.wrapping_add(1), Ordering::Release);
        Some(entry)
    }
}

pub struct Xdp {
    socket: OwnedFd,
    memory: NonNull<u8>,
    fill: Ring<u64>,
    completion: Ring<u64>,
    rx: Ring<libc::xdp_desc>,
    tx: Ring<libc::xdp_desc>,
    /// Places of frames to send.
    free: Vec<u64>,
    /// The table that leads to the socket, the program, and what holds it at the interface.
    _program: [OwnedFd; 3],
}

// SAFETY: the memory is of this socket alone, and is read and written by `&mut self` only.
unsafe impl Send for Xdp {}

fn check_result(result: libc::c_long) -> io::Result<i32> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as i32)
}

/// bpf(2); `attributes` must be as linux/bpf.h has them for `command`.
unsafe fn bpf<T>(command: libc::c_int, mut attributes: T) -> io::Result<i32> {
    check_result(libc::syscall(libc::SYS_bpf, command, &mut attributes, size_of::<T>()))
}

/// Commands and types of linux/bpf.h.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// Loads the program, and fastens it to interface `index`, so that it gives all frames to `socket`.
fn fasten(socket: &OwnedFd, index: u32, mode: Mode) -> io::Result<[OwnedFd; 3]> {
    #[repr(C)]
    struct Update {
        map: u32,
        pad: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
    }
    // SAFETY: each structure begins as the kernel's does, which takes the rest as zero. What they point to outlives the calls.
    unsafe {
        let map = OwnedFd::from_raw_fd(bpf(MAP_CREATE, [MAP_TYPE_XSKMAP, 4, 4, 1, 0])?);
        let (key, value) = (0_u32, socket.as_raw_fd());
        let [key, value] = [std::ptr::from_ref(&key) as u64, std::ptr::from_ref(&value) as u64];
        bpf(MAP_UPDATE_ELEM, Update { map: map.as_raw_fd() as u32, pad: 0, key, value, flags: 0 })?;
        // an instruction: code, registers (source << 4 | destination), offset, number
        let instruction = |code: u8, registers: u8, offset: u16, number: u32| {
            u64::from(code) | u64::from(registers) << 8 | u64::from(offset) << 16 | u64::from(number) << 32
        };
        let instructions = [
            instruction(0x61, 0x12, 16, 0),                     // r2 = rx_queue_index of r1, a struct xdp_md
            instruction(0x18, 0x11, 0, map.as_raw_fd() as u32), // r1 = the map ...
            0,                                                  // ... of two words
            instruction(0xb7, 0x03, 0, 2),                      // r3 = XDP_PASS, if the map has no socket
            instruction(0x85, 0, 0, 51),                        // bpf_redirect_map(r1, r2, r3)
            instruction(0x95, 0, 0, 0),                         // return what it said
        ];
        let load = Load {
            kind: PROG_TYPE_XDP,
            count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: c"Dual MIT/GPL".as_ptr() as u64,
        };
        let program = OwnedFd::from_raw_fd(bpf(PROG_LOAD, load)?);
        let link = bpf(LINK_CREATE, [program.as_raw_fd() as u32, index, ATTACH_XDP, mode as u32])?;
        Ok([map, program, OwnedFd::from_raw_fd(link)])
    }
}

impl Xdp {
    /// A socket on interface `index` of the network namespace of this thread.
    pub fn open(index: u32, mode: Mode) -> io::Result<Xdp> {
        // SAFETY: no pointers; the result is checked before it is taken as a descriptor that nobody else owns.
        let socket = unsafe {
            OwnedFd::from_raw_fd(check_result(libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0).into())?)
        };
        let fd = socket.as_raw_fd();
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let length = |bytes| NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe { mmap_anonymous(None, length(MEMORY)?, access, MapFlags::MAP_PRIVATE | MapFlags::MAP_POPULATE)? }
            .cast::<u8>();
        // SAFETY: all zero are valid structures of integers. The pointers and sizes of options are those of variables that outlive the calls.
        let offsets = unsafe {
            let mut umem: libc::xdp_umem_reg = zeroed();
            (umem.addr, umem.len, umem.chunk_size) = (memory.as_ptr() as u64, MEMORY as u64, ROOM as u32);
            let size = size_of_val(&umem) as libc::socklen_t;
            check_result(libc::setsockopt(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, std::ptr::from_ref(&umem).cast(), size).into())?;
            for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING] {
                check_result(libc::setsockopt(fd, libc::SOL_XDP, ring, std::ptr::from_ref(&FRAMES).cast(), 4).into())?;
            }
            let mut offsets: libc::xdp_mmap_offsets = zeroed();
            let mut room = size_of_val(&offsets) as libc::socklen_t;
            let place = std::ptr::from_mut(&mut offsets).cast();
            check_result(libc::getsockopt(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, place, &mut room).into())?;
            offsets
        };
        fn ring<T>(socket: &OwnedFd, of: libc::xdp_ring_offset, page: i64) -> io::Result<Ring<T>> {
            let length =
                NonZeroUsize::new(of.desc as usize + FRAMES as usize * size_of::<T>()).ok_or(io::ErrorKind::InvalidInput)?;
            let (access, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE);
            // SAFETY: a new mapping at an address that the kernel chooses; the offsets are those of the kernel within it.
            unsafe {
                let start = mmap(None, length, access, flags, socket, page)?;
                let at = |offset: u64| start.byte_add(offset as usize);
                Ok(Ring { producer: at(of.producer).cast(), consumer: at(of.consumer).cast(), entries: at(of.desc).cast() })
            }
        }
        let mut fill = ring(&socket, offsets.fr, libc::XDP_UMEM_PGOFF_FILL_RING as i64)?;
        fill.put((0..u64::from(FRAMES)).map(|number| number * ROOM as u64));
        let completion = ring(&socket, offsets.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64)?;
        let rx = ring(&socket, offsets.rx, libc::XDP_PGOFF_RX_RING)?;
        let tx = ring(&socket, offsets.tx, libc::XDP_PGOFF_TX_RING)?;
        // SAFETY: all zero is a valid sockaddr_xdp, a structure of integers.
        let mut address: libc::sockaddr_xdp = unsafe { zeroed() };
        (address.sxdp_family, address.sxdp_flags, address.sxdp_ifindex) = (libc::AF_XDP as u16, libc::XDP_COPY, index);
        let size = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the pointer and the size are those of `address`, which the kernel only reads.
        unsafe { check_result(libc::bind(fd, std::ptr::from_ref(&address).cast(), size).into())? };
        let program = fasten(&socket, index, mode)?;
        let free = (u64::from(FRAMES)..2 * u64::from(FRAMES)).map(|number| number * ROOM as u64).collect();
        Ok(Xdp { socket, memory, fill, completion, rx, tx, free, _program: program })
    }
}

impl FramePort for Xdp {
    fn receive(&mut self, most: usize, take: &mut dyn FnMut(&[u8], u64)) -> io::Result<usize> {
        for taken in 0..most {
            let Some(entry) = self.rx.take() else { return Ok(taken) };
            let now = clock_gettime(ClockId::CLOCK_REALTIME)?;
            let (start, length) = ((entry.addr as usize).min(MEMORY), entry.len as usize);
            // SAFETY: the range is held to the mapping of MEMORY bytes; the kernel does not touch the frame before it is in `fill` again.
            let frame = unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(start), length.min(MEMORY - start)) };
            take(frame, now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64);
            // there is always room: `fill` has as many places as there are frames to receive
            self.fill.put(std::iter::once(entry.addr / ROOM as u64 * ROOM as u64));
        }
        Ok(most)
    }

    fn send(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        while let Some(place) = self.completion.take() {
            self.free.push(place);
        }
        let count = frames.len().min(BATCH).min(self.free.len());
        let places = self.free.split_off(self.free.len() - count);
        let entries = frames.iter().zip(places).map(|(frame, addr)| {
            let length = frame.len().min(ROOM);
            // SAFETY: a place begins ROOM bytes or more before the end of the mapping, and is ours until it is in `tx`.
            unsafe { self.memory.as_ptr().add(addr as usize).copy_from_nonoverlapping(frame.as_ptr(), length) };
            libc::xdp_desc { addr, len: length as u32, options: 0 }
        });
        self.tx.put(entries);
        // The kernel takes 32 frames a call. What it leaves in the ring goes with the next call.
        // SAFETY: there is nothing to read.
        let sent = unsafe { libc::sendto(self.socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EBUSY | libc::EINTR) => Ok(count),
            _ if sent < 0 => Err(error),
            _ => Ok(count),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn overrun(&mut self) -> io::Result<u64> {
        // SAFETY: all zero is a valid xdp_statistics, a structure of integers; the pointers are to it and its size.
        let mut statistics: libc::xdp_statistics = unsafe { zeroed() };
        let mut size = size_of_val(&statistics) as libc::socklen_t;
        let fd = self.socket.as_raw_fd();
        // SAFETY: as above.
        unsafe {
            check_result(
                libc::getsockopt(fd, libc::SOL_XDP, libc::XDP_STATISTICS, std::ptr::from_mut(&mut statistics).cast(), &mut size)
                    .into(),
            )?
        };
        Ok(statistics.rx_dropped + statistics.rx_ring_full)
    }
}
