//! What the application has written: socket buffers, the send buffer that limits them, and the last segments of writes.

use super::host::HostParams;
use crate::cc::conn::Conn;
use crate::units::Time;
use std::collections::VecDeque;

/// The send buffer is made for this window at the least, segments (`tcp_sndbuf_expand`).
const LEAST_WINDOW: u32 = 10;
/// Send buffer of a new connection, bytes.
const INITIAL_SEND_BUFFER: u64 = 2 * LEAST_WINDOW as u64 * BUFFER_PER_SEGMENT;
/// Memory of a segment by which the send buffer grows with the window (Linux `tcp_sndbuf_expand`: 1460 B of payload,
/// headers and bookkeeping, rounded up to 2048, and an `sk_buff`), bytes; read off `ss -m`.
const BUFFER_PER_SEGMENT: u64 = 2304;
/// Memory of a socket buffer beside its payload, bytes; read off `ss -m`.
const BUFFER_OVERHEAD: u64 = 832;
/// Room that is first made for buffers behind the front one: a bulk sender has as many with a window of about 240 segments.
const FIRST_ROOM: usize = 16;
/// Linux `GSO_LEGACY_MAX_SIZE`, bytes.
pub(super) const GSO_MAX_SIZE: u64 = 65_536;

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

/// A socket buffer that is not entirely sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffer {
    /// Segments of it that are not sent: bursts are split off its front. At most [`GSO_MAX_SIZE`] over the least `mss`, 744.
    pub segments: u16,
    /// Its end carries PSH.
    pub push: bool,
}

/// The application and its socket's write queue.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct WriteQueue {
    pub app: Application,
    /// The application's next segment will be there at this time.
    pub wakes_at: Time,
    /// Segment after the last one that the application has written.
    pub written: u64,
    /// Send buffer, bytes.
    pub size: u64,
    /// Largest window that the receiver ever offered, bytes.
    pub max_window: u32,
    /// Congestion window that the send buffer is made for.
    sized_for: u32,
    /// The oldest buffer with something to send; without segments, nothing is left. It is not among the others because every burst needs it,
    /// and their memory is seldom in the cache.
    pub front: Buffer,
    /// No new data from here on.
    pub stopped: bool,
    /// The buffers behind it, oldest first.
    pub behind: VecDeque<Buffer>,
    /// Segment after the last one that was marked to carry PSH.
    pushed: u64,
    /// When the application began.
    pub started: Time,
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
            front: Buffer::default(),
            behind: VecDeque::new(),
            pushed: 0,
            max_window: 0,
            sized_for: LEAST_WINDOW,
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

    /// The next `segments` leave in one burst. Returns whether it ends a buffer that carries PSH: PSH is a buffer's, so that a burst which
    /// goes on into the next buffer has none in its middle.
    #[inline]
    pub fn send(&mut self, mut segments: u32) -> bool {
        while self.front.segments > 0 {
            let left = u32::from(self.front.segments);
            if segments < left {
                self.front.segments -= segments as u16;
                break;
            }
            segments -= left;
            let push = self.front.push;
            self.front = self.behind.pop_front().unwrap_or_default();
            if segments == 0 {
                return push;
            }
        }
        false
    }

    /// Segments that wait to be sent, without asking the application for more.
    pub fn waiting(&self, conn: &Conn) -> u64 {
        if self.stopped {
            return 0;
        }
        self.written - conn.snd_nxt
    }

    /// Segments that the application has written and that were never sent, when `bursts` are in flight.
    pub fn unsent(&mut self, conn: &Conn, bursts: u32) -> u64 {
        if self.stopped {
            return 0;
        }
        let offered = match self.app {
            Application::Bulk => u64::MAX,
            Application::Size(_) => self.segments(conn.mss),
            Application::Rate(bytes_per_second) => self.offered_at_rate(bytes_per_second, conn),
        };
        self.write(offered, conn, bursts);
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

    /// The application writes up to segment `offered` while the send buffer has room: it is woken when a third is free, and fills it.
    /// What is in flight takes the memory of its bursts, each in a buffer of its own. Linux `sk_stream_write_space`, `tcp_new_space`.
    #[inline]
    fn write(&mut self, offered: u64, conn: &Conn, bursts: u32) {
        if self.written >= offered {
            return;
        }
        let buffers = u64::from(bursts) + u64::from(self.front.segments > 0) + self.behind.len() as u64;
        let used = (self.written - conn.snd_una) * u64::from(conn.mss) + buffers * BUFFER_OVERHEAD;
        if 3 * used <= 2 * self.size {
            self.fill(offered, used, u64::from(conn.mss));
        }
    }

    /// One write, in socket buffers, with `used` bytes of memory taken before: it fills the last buffer first, whatever the memory, and takes
    /// a new one while there is some. The end of the write carries PSH, until the next one goes on in the same buffer; so does
    /// each full buffer half of the largest window after the last mark. Linux `tcp_sendmsg_locked`, `forced_push`.
    fn fill(&mut self, offered: u64, mut used: u64, mss: u64) {
        // one buffer: 64 KB, half of the largest window at the most (tcp_bound_to_half_wnd)
        let half_window = u64::from(self.max_window / 2);
        let unit = (GSO_MAX_SIZE.min(half_window) / mss).max(1);
        let start = self.written;
        while self.written < offered {
            let filled = u64::from(self.last().segments);
            let mut free = if filled == 0 { 0 } else { unit.saturating_sub(filled) };
            if free == 0 {
                if used >= self.size {
                    break;
                }
                if filled > 0 {
                    self.add_buffer();
                }
                used += BUFFER_OVERHEAD;
                free = unit;
            }
            let more = free.min(offered - self.written);
            let first = self.written == start;
            self.written += more;
            used += more * mss;
            let due = (self.written - self.pushed) * mss > half_window;
            let last = self.last();
            last.segments += more as u16;
            last.push = due || (last.push && !first);
            if due {
                self.pushed = self.written;
            }
        }
        if self.written > start {
            self.last().push = true;
            self.pushed = self.written;
        }
    }

    /// The newest buffer; without segments, there is none.
    #[inline]
    fn last(&mut self) -> &mut Buffer {
        self.behind.back_mut().unwrap_or(&mut self.front)
    }

    #[cold]
    fn add_buffer(&mut self) {
        if self.behind.capacity() == 0 {
            self.behind.reserve(FIRST_ROOM);
        }
        self.behind.push_back(Buffer::default());
    }

    /// The send buffer grows to two windows when the window is not used up, for whatever reason. Returns whether it did. Linux
    /// `tcp_new_space`, `tcp_should_expand_sndbuf`.
    #[inline]
    pub fn expand(&mut self, conn: &Conn, host: &HostParams) -> bool {
        if conn.cwnd <= self.sized_for || conn.in_flight() >= conn.cwnd {
            return false;
        }
        self.sized_for = conn.cwnd;
        let wanted = (2 * u64::from(conn.cwnd) * BUFFER_PER_SEGMENT).min(host.send_buffer);
        let larger = wanted > self.size;
        self.size = self.size.max(wanted);
        larger
    }

    /// Segments that are left in the socket buffer of the next one to be sent.
    #[inline]
    pub fn left_in_buffer(&self) -> u64 {
        u64::from(self.front.segments)
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.behind.capacity() * std::mem::size_of::<Buffer>()
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

    /// Of an application that always has more, with the largest window that was offered.
    fn bulk(max_window: u32) -> WriteQueue {
        WriteQueue { max_window, ..WriteQueue::new(Application::Bulk) }
    }

    /// Segments of each buffer, and whether its end carries PSH.
    fn buffers(queue: &WriteQueue) -> Vec<(u16, bool)> {
        let all = std::iter::once(&queue.front).chain(&queue.behind);
        all.map(|buffer| (buffer.segments, buffer.push)).collect()
    }

    #[test]
    fn a_write_fills_the_send_buffer_and_ends_with_a_push() {
        let mut queue = bulk(1 << 20);
        // buffers of 65536 / 1448 = 45 segments, 45 * 1448 + 832 = 65992 B: one is more than the 46080 B
        assert_eq!(queue.unsent(&fresh(), 0), 45);
        assert_eq!(buffers(&queue), [(45, true)]);
        // a third is not free: no more
        assert!(!queue.send(20));
        let conn = Conn { snd_nxt: 20, snd_una: 10, ..conn() };
        assert_eq!(queue.unsent(&conn, 5), 25);
    }

    #[test]
    fn buffers_hold_half_of_the_largest_window_that_was_offered() {
        let mut queue = bulk(65_160);
        // 32580 / 1448 = 22 segments, 22 * 1448 + 832 = 32688 B: two of them reach 46080 B. Not even the first is more than half of the
        // window, so that only the end of the write carries PSH
        assert_eq!(queue.unsent(&fresh(), 0), 44);
        assert_eq!(buffers(&queue), [(22, false), (22, true)]);
        assert!(!queue.send(10) && !queue.send(12) && !queue.send(21) && queue.send(1));
        // 81920 / 2 / 1448 = 28
        queue.max_window = 81_920;
        assert_eq!(queue.unsent(&Conn { snd_nxt: 44, snd_una: 44, ..conn() }, 0), 56);
        assert_eq!(buffers(&queue), [(28, false), (28, true)]);
        // less than one segment: one each
        let mut tiny = bulk(2 * 1448 - 1);
        tiny.unsent(&fresh(), 0);
        assert_eq!(tiny.front.segments, 1);
    }

    #[test]
    fn a_write_fills_the_last_buffer_first_and_takes_its_push_off() {
        let mut queue = bulk(81_920);
        queue.unsent(&fresh(), 0);
        assert_eq!(buffers(&queue), [(28, false), (28, true)]);
        // all but 20 are sent, in bursts of 4, and acknowledged but for the last of them
        assert!(!queue.send(28) && !queue.send(8));
        // 24 * 1448 + 2 * 832 = 36416 B: not yet a third is free
        assert_eq!(queue.unsent(&Conn { snd_nxt: 36, snd_una: 32, ..conn() }, 1), 20);
        // 20 * 1448 + 832 = 29792 B. The same buffer ends 8 later; with that it is 41376 B, so that there is room for one more
        assert_eq!(queue.unsent(&Conn { snd_nxt: 36, snd_una: 36, ..conn() }, 0), 56);
        assert_eq!(buffers(&queue), [(28, false), (28, true)]);
        // the last buffer is filled whatever memory that takes: 10 * 1448 + 832 = 15312 B are used, 41376 B after that
        queue.size = 30_000;
        assert!(!queue.send(28) && !queue.send(18));
        assert_eq!(queue.unsent(&Conn { snd_nxt: 82, snd_una: 82, ..conn() }, 0), 28);
        assert_eq!(buffers(&queue), [(28, true)]);
    }

    #[test]
    fn a_full_buffer_half_a_window_after_the_last_mark_carries_a_push() {
        let mut queue = bulk(81_920);
        queue.size = 200_000;
        // 28 segments are 40544 B, half of the window 40960: every second buffer, and the end
        assert_eq!(queue.unsent(&fresh(), 0), 5 * 28);
        assert_eq!(buffers(&queue), [(28, false), (28, true), (28, false), (28, true), (28, true)]);
        // a burst that goes on into the next buffer carries none
        assert!(!queue.send(28) && !queue.send(30) && queue.send(26 + 28));
    }

    #[test]
    fn the_last_segment_of_a_transfer_is_as_long_as_what_is_left() {
        let queue = WriteQueue::new(Application::Size(3 * 1448 + 1));
        assert_eq!((queue.segments(1448), queue.payload(2, 1448), queue.payload(3, 1448)), (4, 1448, 1));
    }

    #[test]
    fn an_application_of_constant_rate_wakes_up_for_its_next_segment() {
        let mut queue = WriteQueue::new(Application::Rate(1_448_000));
        // one segment a millisecond
        let conn = Conn { now: Time::from_micros(2_500), snd_nxt: 0, ..conn() };
        assert_eq!(queue.unsent(&conn, 0), 2);
        assert_eq!(queue.unsent(&Conn { snd_nxt: 2, ..conn }, 0), 0);
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
