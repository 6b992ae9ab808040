//! Frames for the ends: where they come from, and how many came out.

use super::cpu_seconds;
use dumbbell_live::clock::MonotonicClock;
use dumbbell_live::frame::update_checksum;
use dumbbell_live::namespaces::{Namespace, INTERFACE};
use dumbbell_live::port::BATCH;
use dumbbell_live::priority::{self, SpinGuard};
use std::io;
use std::mem::{size_of_val, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// How long frames come in, s.
pub const SECONDS: u64 = 2;
/// Between two bursts of a paced load, long enough for a thread to sleep: 8 full frames in each direction at 1 Gbit/s.
const PAUSE: Duration = Duration::from_micros(100);

/// The offered load.
#[derive(Clone, Copy)]
pub struct Load {
    pub name: &'static str,
    /// Bytes of a frame.
    pub length: usize,
    /// From both ends, or from the left one.
    pub both: bool,
    /// Frames per second from each end; as many as one core gives if there is none.
    pub rate: Option<u64>,
}

/// Counters of the load that was offered.
pub struct Offered {
    /// Frames.
    pub frames: u64,
    /// CPU time of the thread that sent them, s.
    pub computed: f64,
    /// Longest time between two of its bursts, s.
    pub longest_pause: f64,
}

/// A frame of UDP over IPv4 to a hardware address that nobody has, so that the other end throws it away at once.
fn frame(length: usize) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[..6].copy_from_slice(&[0x02, 0, 0, 0, 0, 9]);
    frame[6..12].copy_from_slice(&[0x02, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 200, 0, 1, 10, 200, 0, 2]);
    frame[16..18].copy_from_slice(&((length - 14) as u16).to_be_bytes());
    // a bridge that asks the packet filter looks at the checksum
    let words: Vec<u16> = frame[14..34].chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    let checksum = words.into_iter().fold(0xffff, |sum, word| update_checksum(sum, 0, word));
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// A packet socket that only sends: what comes out at its end costs nothing more for its sake.
struct Source(OwnedFd);

impl Source {
    fn open() -> io::Result<Source> {
        // SAFETY: no pointers; the result is checked before it is taken as a descriptor that nobody else owns.
        let socket = unsafe {
            let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0);
            if socket < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(socket)
        };
        let on: libc::c_int = 1;
        // SAFETY: all zero is a valid sockaddr_ll, a structure of integers; protocol 0 receives nothing (packet(7)).
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = INTERFACE as i32;
        // SAFETY: the pointers and sizes are those of `on` and `address`, which outlive the calls; the kernel only reads.
        let failed = unsafe {
            let size = |value: usize| value as libc::socklen_t;
            let fd = socket.as_raw_fd();
            let one = std::ptr::from_ref(&on).cast();
            libc::setsockopt(fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, one, size(size_of_val(&on))) < 0
                || libc::bind(fd, std::ptr::from_ref(&address).cast(), size(size_of_val(&address))) < 0
        };
        if failed {
            return Err(io::Error::last_os_error());
        }
        Ok(Source(socket))
    }

    /// Sends `frame` up to `count` times, at most [`BATCH`]. Returns how often.
    fn send(&self, frame: &[u8], count: usize) -> io::Result<usize> {
        let mut part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        // SAFETY: all zero is a valid mmsghdr: null pointers with lengths of 0.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        for message in &mut messages {
            message.msg_hdr.msg_iov = &mut part;
            message.msg_hdr.msg_iovlen = 1;
        }
        let count = count.min(BATCH) as libc::c_uint;
        // SAFETY: the messages point to `part`, and it to `frame`, which outlive the call and are only read.
        let sent = unsafe { libc::sendmmsg(self.0.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
        if sent >= 0 {
            return Ok(sent as usize);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => Ok(0),
            _ => Err(error),
        }
    }
}

/// Sends `load` into the ends' interfaces for [`SECONDS`], as the senders of a run would: at their priority, on their core.
pub fn offer(ends: [&Namespace; 2], load: &Load) -> io::Result<Offered> {
    let work = || {
        let mut sources = Vec::new();
        for end in &ends[..1 + usize::from(load.both)] {
            sources.push((end.run_inside(Source::open)?, 0));
        }
        priority::raise(priority::ENDS);
        let frame = frame(load.length);
        let (clock, before) = (MonotonicClock::start(), cpu_seconds());
        let mut turns = SpinGuard::new(&clock);
        let (mut last, mut longest) = (clock.now(), 0);
        loop {
            let now = clock.now();
            turns.update(now);
            longest = longest.max(now.0 - last.0);
            last = now;
            let due = |rate: u64| rate * now.0.min(SECONDS * 1_000_000_000) / 1_000_000_000;
            let wanted = |sent: u64| load.rate.map_or(BATCH as u64, |rate| due(rate).saturating_sub(sent));
            for (source, sent) in &mut sources {
                *sent += source.send(&frame, wanted(*sent) as usize)? as u64;
            }
            let is_over = now.0 >= SECONDS * 1_000_000_000;
            let owed = load.rate.is_some() && sources.iter().any(|(_, sent)| wanted(*sent) > 0);
            // what an interface refuses for long is lost
            if is_over && (!owed || now.0 >= (SECONDS * 1000 + 100) * 1_000_000) {
                break;
            }
            if load.rate.is_some() && !owed {
                std::thread::sleep(PAUSE);
            }
        }
        let sent = sources.iter().map(|(_, sent)| sent).sum();
        let frames = load.rate.map_or(sent, |rate| rate * SECONDS * sources.len() as u64);
        Ok(Offered { frames, computed: cpu_seconds() - before, longest_pause: longest as f64 / 1e9 })
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("load".to_owned()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("a panic")))
    })
}

/// Frames that the interfaces of the ends have received.
pub fn count_received(ends: [&Namespace; 2]) -> io::Result<u64> {
    let of = |end: &Namespace| {
        end.run_inside(|| {
            let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
            let line = text.lines().find(|line| line.trim_start().starts_with(&format!("db{INTERFACE}:")));
            Ok(line.and_then(|line| line.split_whitespace().nth(2)).and_then(|word| word.parse().ok()).unwrap_or(0))
        })
    };
    Ok(of(ends[0])? + of(ends[1])?)
}
