//! TCP_INFO of a socket (tcp(7), `struct tcp_info` of linux/tcp.h).
#![allow(unsafe_code)] // one getsockopt, for which there is no safe interface

use dumbbell_core::units::Instant;
use dumbbell_measure::from_live::{SenderState, TcpSample};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Room for the structure: 248 bytes in Linux 6.12, and it has only ever grown.
const ROOM: usize = 512;

/// Where tcpi_total_rto is, which is there since Linux 6.7.
const TIMEOUTS: usize = 240;

/// The structure as the kernel gives it: fields are at fixed places, and those that it does not have yet are zero.
pub struct TcpInfo {
    bytes: [u8; ROOM],
    /// Bytes that the kernel filled in.
    length: usize,
}

impl TcpInfo {
    /// Reads the state of a socket.
    ///
    /// # Errors
    /// The socket is not a TCP socket.
    pub fn read(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
        let mut bytes = [0_u8; ROOM];
        let mut length = ROOM as libc::socklen_t;
        // SAFETY: the pointers are to `bytes` and to their number, so that the kernel writes no further.
        let done = unsafe {
            libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, bytes.as_mut_ptr().cast(), &mut length)
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(TcpInfo { bytes, length: length as usize })
    }

    fn half(&self, at: usize) -> u16 {
        u16::from_ne_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes([self.bytes[at], self.bytes[at + 1], self.bytes[at + 2], self.bytes[at + 3]])
    }

    fn long(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_ne_bytes(bytes)
    }

    /// Payload that was acknowledged, bytes: tcpi_bytes_acked, which counts the SYN as one.
    pub fn acked_payload(&self) -> u64 {
        self.long(120).saturating_sub(1)
    }

    /// Payload of a full segment, bytes: tcpi_snd_mss.
    pub fn segment(&self) -> u64 {
        u64::from(self.word(16))
    }

    /// Payload of the segments that the connection sends in `ms`, of `least` segments at the least and a window at the most, bytes.
    pub fn find_unsent(&self, ms: u64, least: u64) -> u32 {
        let [srtt_us, cwnd] = [68, 80].map(|at| u64::from(self.word(at)));
        let segments = (cwnd * ms * 1_000 / srtt_us.max(1)).clamp(least, cwnd.max(least));
        u32::try_from(segments * self.segment()).unwrap_or(u32::MAX)
    }

    /// Returns the sample that the results keep, taken at `time`.
    pub fn sample(&self, time: Instant, is_regular: bool) -> TcpSample {
        let [unacked, sacked, lost, retrans] = [24, 28, 32, 36].map(|at| self.word(at));
        TcpSample {
            time,
            is_regular,
            sender: SenderState {
                srtt_us: self.word(68),
                cwnd: self.word(80),
                ssthresh: self.word(76),
                // tcp_packets_in_flight
                in_flight: (unacked + retrans).saturating_sub(sacked + lost),
                retransmissions: u64::from(self.word(100)),
            },
            min_rtt_us: self.word(148),
            payload: self.acked_payload(),
            sent: u64::from(self.word(156)),
            timeouts: (self.length >= TIMEOUTS + 2).then(|| u64::from(self.half(TIMEOUTS))),
        }
    }
}
