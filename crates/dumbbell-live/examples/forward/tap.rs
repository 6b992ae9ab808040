//! A port by a TAP device (Documentation/networking/tuntap.rst of Linux), which is the interface of the end itself: there is no veth.
//!
//! A frame takes a system call of its own, in and out. Nothing says when it arrived: the time is that of the read.

use dumbbell_live::namespaces::INTERFACE;
use dumbbell_live::port::FramePort;
use nix::time::{clock_gettime, ClockId};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Frames that the device holds for us, as many as the ring of a packet socket has: 500 if nobody asks.
const FRAMES: libc::c_int = 4096;

pub struct Tap(File);

fn check_result(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl Tap {
    /// Makes the interface of the end whose namespace the thread is in.
    pub fn open() -> io::Result<Tap> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        // nothing but the load is to be on the wire; a kernel without IPv6 has no such file
        let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
        // SAFETY: all zero is a valid ifreq: a name and a union of integers and pointers.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(format!("db{INTERFACE}").bytes()) {
            *to = from as libc::c_char;
        }
        let (index, ask) = (INTERFACE, socket.as_raw_fd());
        // SAFETY: the calls read an int or `request`, both of which outlive them; each sets the member of the union that it needs.
        unsafe {
            check_result(libc::ioctl(file.as_raw_fd(), libc::TUNSETIFINDEX, &index))?;
            request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
            check_result(libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request))?;
            request.ifr_ifru.ifru_metric = FRAMES;
            check_result(libc::ioctl(ask, libc::SIOCSIFTXQLEN as _, &mut request))?;
            request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
            check_result(libc::ioctl(ask, libc::SIOCSIFFLAGS as _, &mut request))?;
        }
        Ok(Tap(file))
    }
}

impl FramePort for Tap {
    fn receive(&mut self, most: usize, take: &mut dyn FnMut(&[u8], u64)) -> io::Result<usize> {
        let mut frame = [0; 2048];
        for taken in 0..most {
            match self.0.read(&mut frame) {
                Ok(length) => {
                    let now = clock_gettime(ClockId::CLOCK_REALTIME)?;
                    take(&frame[..length], now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(taken),
                Err(error) => return Err(error),
            }
        }
        Ok(most)
    }

    fn send(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        for (sent, frame) in frames.iter().enumerate() {
            match self.0.write(frame) {
                Ok(_) => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(sent),
                Err(error) => return Err(error),
            }
        }
        Ok(frames.len())
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Not known here: a frame that finds no room is refused to the sender.
    fn overrun(&mut self) -> io::Result<u64> {
        Ok(0)
    }
}
