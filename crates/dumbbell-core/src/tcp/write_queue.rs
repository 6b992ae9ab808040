//! What the application has written: socket buffers, the send buffer that limits them, and the last segments of writes.

use super::host::HostParams;
use crate::cc::conn::Conn;
use crate::units::Time;

/// Send buffer of a new connection, bytes: Linux `tcp_sndbuf_expand` with a window of 10 and 2304 B a segment.
const INITIAL_SEND_BUFFER: u64 = 2 * 10 * 2304;
/// Memory of a segment by which the send buffer grows with the window (Linux `tcp_sndbuf_expand`: 1460 B of payload,
/// headers and bookkeeping, rounded up to 2048, and an `sk_buff`), bytes; read off `ss -m`.
const BUFFER_PER_SEGMENT: u64 = 2304;
/// Memory of a socket buffer beside its payload, bytes; read off `ss -m`.
const BUFFER_OVERHEAD: u64 = 832;
/// Linux `GSO_LEGACY_MAX_SIZE`, bytes.
pub(super) const GSO_MAX_SIZE: u64 = 65_536;
/// Sysctl `tcp_min_tso_segs`.
pub(super) const MIN_TSO_SEGS: u32 = 2;

/// What the application offers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Application {
    /// Always more to send.
    Bulk,
    /// This many bytes, at once.
    Size(u64),
    /// Payload at this many bytes per second, for ever.
    Rate(u64),
}

/// Socket buffers of one size, one after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffers {
    /// Where one of them begins.
    pub start: u64,
    /// Segments in each.
    segments: u64,
}

/// The application and its socket's write queue.
#[derive(Clone, Debug)]
pub(super) struct WriteQueue {
    pub app: Application,
    /// When the application began.
    pub started: Time,
    /// No new data from here on.
    pub stopped: bool,
    /// The application's next segment will be there at this time.
    pub wakes_at: Time,
    /// Segment after the last one that the application has written.
    pub written: u64,
    /// Send buffer, bytes.
    pub size: u64,
    /// Last segments of the newest writes, which carry PSH.
    pushes: [u64; 4],
    pub buffers: Buffers,
}

impl WriteQueue {
    pub fn new(app: Application) -> WriteQueue {
        WriteQueue {
            app,
            started: Time::ZERO,
            stopped: false,
            wakes_at: Time::NEVER,
            written: 0,
            size: INITIAL_SEND_BUFFER,
            pushes: [u64::MAX; 4],
            buffers: Buffers { start: 0, segments: 1 },
        }
    }

    /// Segments in all that the application will want to send.
    #[inline]
    pub fn segments(&self, mss: u32) -> u64 {
        match self.app {
            Application::Size(size) => size.div_ceil(u64::from(mss)),
            _ => u64::MAX,
        }
    }

    /// Payload of segment `seq`, bytes: the last one of a transfer may be shorter than `mss`.
    #[inline]
    pub fn payload(&self, seq: u64, mss: u32) -> u32 {
        match self.app {
            Application::Size(size) => u64::from(mss).min(size - seq * u64::from(mss)) as u32,
            _ => mss,
        }
    }

    /// Whether segment `seq` is the last one of a write, or of all.
    #[inline]
    pub fn is_pushed(&self, seq: u64, mss: u32) -> bool {
        self.pushes.contains(&seq) || seq == self.segments(mss).wrapping_sub(1)
    }

    /// Segments that wait to be sent, without asking the application for more.
    pub fn waiting(&self, conn: &Conn) -> u64 {
        if self.stopped {
            return 0;
        }
        self.written - conn.snd_nxt
    }

    /// Segments that the application has written and that were never sent. `window_end` is the end of the receiver's window.
    pub fn unsent(&mut self, conn: &Conn, window_end: u64) -> u64 {
        if self.stopped {
            return 0;
        }
        let offered = match self.app {
            Application::Bulk => u64::MAX,
            Application::Size(_) => self.segments(conn.mss),
            Application::Rate(bytes_per_second) => self.offered_at_rate(bytes_per_second, conn),
        };
        self.write(offered, conn, window_end);
        self.written - conn.snd_nxt
    }

    /// Segments that an application of constant rate has offered so far.
    fn offered_at_rate(&mut self, bytes_per_second: u64, conn: &Conn) -> u64 {
        let elapsed = u128::from((conn.now - self.started).as_nanos());
        let offered = (elapsed * u128::from(bytes_per_second) / 1_000_000_000) as u64 / u64::from(conn.mss);
        if offered <= conn.snd_nxt {
            // wake up when the next full segment is there
            let bytes = u128::from(conn.snd_nxt + 1) * u128::from(conn.mss);
            let at = bytes * 1_000_000_000 / u128::from(bytes_per_second.max(1)) + 1;
            self.wakes_at = self.started.saturating_add(Time(at.min(u128::from(u64::MAX / 2)) as u64));
        }
        offered
    }

    /// The application writes up to segment `offered`, in socket buffers, while the send buffer has room: it is woken when
    /// a third is free, and fills it. The last segment of each write carries PSH. Linux `tcp_sendmsg_locked`,
    /// `sk_stream_write_space`, `tcp_new_space`.
    #[inline]
    fn write(&mut self, offered: u64, conn: &Conn, window_end: u64) {
        if self.written >= offered {
            return;
        }
        let mss = u64::from(conn.mss);
        // one socket buffer: 64 KB, half of the receiver's window at the most (tcp_bound_to_half_wnd)
        let half_window = (window_end - conn.snd_una) / 2;
        let unit = (GSO_MAX_SIZE / mss).min(half_window).max(1);
        // a burst is sent in one buffer: its header is shared by its segments
        let in_flight = u64::from(conn.packets_out()) * (mss + BUFFER_OVERHEAD / u64::from(MIN_TSO_SEGS));
        let unsent = (self.written - conn.snd_nxt) * (mss + BUFFER_OVERHEAD / unit);
        let mut used = in_flight + unsent;
        if 3 * used > 2 * self.size {
            return;
        }
        let start = self.written;
        if unit != self.buffers.segments {
            self.buffers = Buffers { start, segments: unit };
        }
        while used < self.size && self.written < offered {
            let more = unit.min(offered - self.written);
            self.written += more;
            used += more * (mss + BUFFER_OVERHEAD / unit);
        }
        if self.written > start {
            self.pushes.rotate_left(1);
            self.pushes[3] = self.written - 1;
        }
    }

    /// The send buffer grows to two windows when the window is not used up, for whatever reason. Returns whether it did. Linux
    /// `tcp_new_space`, `tcp_should_expand_sndbuf`.
    #[inline]
    pub fn expand(&mut self, conn: &Conn, host: &HostParams) -> bool {
        if conn.in_flight() >= conn.cwnd {
            return false;
        }
        let wanted = (2 * u64::from(conn.cwnd.max(10)) * BUFFER_PER_SEGMENT).min(host.send_buffer);
        let larger = wanted > self.size;
        self.size = self.size.max(wanted);
        larger
    }

    /// Segments that are left in the socket buffer of the next one to be sent. A burst goes on into the next buffer, as in
    /// Linux since 6.10 (`tcp_grow_skb`); older kernels end it there.
    #[inline]
    pub fn left_in_buffer(&self, next: u64) -> u64 {
        let Buffers { start, segments } = self.buffers;
        if next >= start {
            segments - (next - start) % segments
        } else {
            (start - next - 1) % segments + 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::testing::conn;

    /// Nothing sent, nothing in flight.
    fn fresh() -> Conn {
        Conn { snd_nxt: 0, ..conn() }
    }

    #[test]
    fn a_write_fills_the_buffer_and_ends_with_a_push() {
        let mut queue = WriteQueue::new(Application::Bulk);
        // buffers of 65536 / 1448 = 45 segments of 1448 + 832 / 45 = 1466 B: one is more than the 46080 B
        assert_eq!(queue.unsent(&fresh(), 1_000), 45);
        assert!(queue.is_pushed(44, 1448) && !queue.is_pushed(43, 1448));
        // a third is not free: no more
        let conn = Conn { snd_nxt: 20, snd_una: 10, ..conn() };
        assert_eq!(queue.unsent(&conn, 1_000), 25);
    }

    #[test]
    fn buffers_hold_half_of_the_receivers_window() {
        let mut queue = WriteQueue::new(Application::Bulk);
        // 8 / 2 = 4 segments of 1448 + 208 B: 7 of them reach 46080 B
        assert_eq!(queue.unsent(&fresh(), 8), 28);
        assert_eq!([0, 1, 3, 4, 27].map(|next| queue.left_in_buffer(next)), [4, 3, 1, 4, 1]);
    }

    #[test]
    fn the_last_segment_of_a_transfer_is_as_long_as_what_is_left() {
        let queue = WriteQueue::new(Application::Size(3 * 1448 + 1));
        assert_eq!((queue.segments(1448), queue.payload(2, 1448), queue.payload(3, 1448)), (4, 1448, 1));
        assert!(queue.is_pushed(3, 1448) && !queue.is_pushed(2, 1448));
    }

    #[test]
    fn an_application_of_constant_rate_wakes_up_for_its_next_segment() {
        let mut queue = WriteQueue::new(Application::Rate(1_448_000));
        // one segment a millisecond
        let conn = Conn { now: Time::from_micros(2_500), snd_nxt: 0, ..conn() };
        assert_eq!(queue.unsent(&conn, 1_000), 2);
        assert_eq!(queue.unsent(&Conn { snd_nxt: 2, ..conn }, 1_000), 0);
        assert_eq!(queue.wakes_at, Time(3_000_001));
    }

    #[test]
    fn the_buffer_grows_to_two_windows_while_the_window_is_not_used_up() {
        let mut queue = WriteQueue::new(Application::Bulk);
        let host = HostParams { send_buffer: 100_000, ..HostParams::default() };
        let conn = Conn { cwnd: 20, ..conn() };
        assert!(queue.expand(&conn, &host) && !queue.expand(&conn, &host));
        assert_eq!(queue.size, 2 * 20 * 2304);
        assert!(queue.expand(&Conn { cwnd: 40, ..conn.clone() }, &host));
        assert_eq!(queue.size, 100_000);
        assert!(!queue.expand(&Conn { cwnd: 10, ..conn }, &host));
    }
}
