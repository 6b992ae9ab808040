//! Data that the application has written: socket buffers, the send buffer that limits them, and the last segments of writes.

use super::host::HostParams;
use super::writes::PieceWrites;
use super::Outlet;
use crate::buffers::{send_buffer_per_segment, tcp_overhead, SK_GSO_MAX_SIZE};
use crate::cc::conn::Conn;
use crate::hint::{seldom, unlikely};
use crate::prefetch::prefetch;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// The send buffer is made for this window at the least, segments (`tcp_sndbuf_expand`).
const LEAST_WINDOW: u32 = 10;
/// Memory of a socket buffer in addition to its payload, bytes.
const BUFFER_OVERHEAD: u64 = tcp_overhead(true) as u64;
/// Room that is first made for buffers behind the front one: a bulk sender has as many with a window of about 240 segments.
const FIRST_ROOM: usize = 16;
/// Largest burst, bytes.
pub(super) const GSO_MAX_SIZE: u64 = SK_GSO_MAX_SIZE as u64;

/// Data that the application offers.
#[derive(Clone, Debug, PartialEq)]
pub enum Application {
    /// Always more to send.
    Bulk,
    /// This many bytes, at once.
    Size(u64),
    /// Payload at this many bytes per second, for ever.
    Rate(u64),
    /// The application follows a plan over time.
    Planned(Box<AppPlan>),
    /// Data that the application writes piece by piece.
    Written(Box<PieceWrites>),
}

/// An application that offers as much as it can, from a time on a rate, and nothing while it pauses. Times are those of the sender's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct AppPlan {
    /// Bytes of payload per second, if it has a rate.
    pub rate: Option<u64>,
    /// When the rate begins.
    pub rate_from: Instant,
    /// When it pauses; [`Instant::NEVER`]: not at all.
    pub pause: Instant,
    /// When it goes on.
    pub resume: Instant,
    /// When the present time of constant rate began.
    since: Instant,
    /// Segments that were written by then.
    base: u64,
}

impl AppPlan {
    /// Payload at `rate` bytes per second from `rate_from` on, nothing from `pause` to `resume`.
    pub fn new(rate: Option<u64>, rate_from: Instant, pause: Instant, resume: Instant) -> AppPlan {
        AppPlan { rate, rate_from, pause, resume, since: Instant::NEVER, base: 0 }
    }

    /// The segment up to which it has offered data at `now`, when `written` are written, and when there will be more. What it did not write while the
    /// send buffer was full, before a pause or before the rate began, it does not make up for.
    fn offer_until(&mut self, started: Instant, now: Instant, written: u64, mss: u32) -> (u64, Instant) {
        if self.pause <= now && now < self.resume {
            return (written, self.resume);
        }
        let Some(rate) = self.rate.filter(|_| self.rate_from <= now) else { return (u64::MAX, Instant::NEVER) };
        let resumed = if self.resume <= now { self.resume } else { Instant::ZERO };
        let since = started.max(self.rate_from).max(resumed);
        if self.since != since {
            (self.since, self.base) = (since, written);
        }
        let offered = self.base + offered_at(rate, now - since, mss);
        if offered > written {
            return (offered, Instant::NEVER);
        }
        (offered, since.saturating_add(time_of(rate, written + 1 - self.base, mss)))
    }
}

/// Whole segments that an application of `bytes_per_second` offers in `elapsed`.
fn offered_at(bytes_per_second: u64, elapsed: Duration, mss: u32) -> u64 {
    (u128::from(elapsed.as_nanos()) * u128::from(bytes_per_second) / 1_000_000_000) as u64 / u64::from(mss)
}

/// After which time it has offered `segments`.
fn time_of(bytes_per_second: u64, segments: u64, mss: u32) -> Duration {
    let bytes = u128::from(segments) * u128::from(mss);
    let after = bytes * 1_000_000_000 / u128::from(bytes_per_second.max(1)) + 1;
    Duration(after.min(u128::from(u64::MAX / 2)) as u64)
}

/// Payloads of segments whose size changes on the way.
#[derive(Clone, Debug)]
pub(super) struct SegmentSizes {
    /// First segment of each size, ascending, and the size.
    changes: VecDeque<(u64, u32)>,
    /// Payload of all segments before the first of these.
    before: u64,
}

impl SegmentSizes {
    /// All segments so far, and those up to `first`, carry `payload` bytes.
    pub fn new(payload: u32) -> SegmentSizes {
        SegmentSizes { changes: VecDeque::from([(0, payload)]), before: 0 }
    }

    /// From segment `first` on they carry `payload` bytes; what is below `una` is done with.
    pub fn change(&mut self, first: u64, payload: u32, una: u64) {
        while self.changes.len() > 1 && self.changes[1].0 <= una {
            let (from, size) = self.changes[0];
            self.before += (self.changes[1].0 - from) * u64::from(size);
            self.changes.pop_front();
        }
        self.changes.push_back((first, payload));
    }

    /// Payload of segment `seq`.
    pub fn payload_at(&self, seq: u64) -> u32 {
        let after = self.changes.partition_point(|&(first, _)| first <= seq);
        self.changes[after.max(1) - 1].1
    }

    /// Payload of all segments below `una`.
    pub fn payload_below(&self, una: u64) -> u64 {
        let ends = self.changes.iter().skip(1).map(|&(first, _)| first).chain([u64::MAX]);
        let each = self.changes.iter().zip(ends);
        self.before + each.map(|(&(first, size), end)| una.min(end).saturating_sub(first) * u64::from(size)).sum::<u64>()
    }
}

/// Send buffer for so many windows of `cwnd` segments. Linux `tcp_sndbuf_expand`. It holds two segments at the least: Linux sends what is
/// less than one if nothing is in flight, and there are no such segments here.
fn send_buffer(windows: u8, cwnd: u32, host: &HostParams) -> u64 {
    let wanted = u64::from(windows) * u64::from(cwnd) * send_buffer_per_segment(host.mss);
    wanted.min(host.send_buffer).max(2 * (u64::from(host.mss) + BUFFER_OVERHEAD))
}

/// A socket buffer that is not entirely sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffer {
    /// Segments of it that are not sent: bursts are split off its front. At most [`GSO_MAX_SIZE`] over the least `mss`, 742.
    pub segments: u16,
    /// Whether its end carries PSH.
    pub push: bool,
}

/// Part of the buffer that a step of a write has filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// A part of a buffer: the write is over.
    InPart,
    /// A buffer that is pushed.
    Pushed,
    /// The next buffer to be sent.
    Front,
    /// One behind it.
    Behind,
}

/// The application and its socket's write queue.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct WriteQueue {
    pub app: Application,
    /// The application's next segment will be there at this time.
    pub wakes_at: Instant,
    /// Segment after the last one that the application has written in full.
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
    /// Bytes that are written of a segment which is not full: it is not sent (Nagle's rule).
    part: u16,
    /// Windows that the send buffer grows to hold.
    pub windows: u8,
    /// No new data from here on.
    pub stopped: bool,
    /// The buffers behind it, oldest first.
    pub behind: VecDeque<Buffer>,
    /// Segment after the last one that was marked to carry PSH.
    pushed: u64,
    /// When the application began.
    pub started: Instant,
}

impl WriteQueue {
    /// For a send buffer of `host` that grows to hold so many windows. Linux `tcp_init_buffer_space`.
    pub fn new(app: Application, windows: u8, host: &HostParams) -> WriteQueue {
        WriteQueue {
            app,
            started: Instant::ZERO,
            stopped: false,
            wakes_at: Instant::NEVER,
            written: 0,
            size: send_buffer(windows, LEAST_WINDOW, host),
            front: Buffer::default(),
            part: 0,
            windows,
            behind: VecDeque::new(),
            pushed: 0,
            max_window: 0,
            sized_for: LEAST_WINDOW,
        }
    }

    /// Becomes, before anything is written, a queue whose send buffer grows to hold so many windows.
    pub fn begin_with_windows(&mut self, windows: u8, host: &HostParams) {
        self.windows = windows;
        self.size = send_buffer(windows, LEAST_WINDOW, host);
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
            Application::Written(ref writes) => writes.payload_at(seq, mss),
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

    /// The segment up to which the application writes now, if it does, with `bursts` in flight: it is woken when a third of the send buffer
    /// is free. Linux `sk_stream_write_space`.
    #[inline(always)]
    pub fn next_write(&mut self, conn: &Conn, bursts: u32) -> Option<u64> {
        if unlikely(self.stopped) {
            return None;
        }
        let offered = match self.app {
            Application::Bulk => u64::MAX,
            Application::Size(_) => self.segments(conn.mss),
            _ => {
                seldom();
                self.offer_over_time(conn)
            }
        };
        (self.written < offered && 3 * self.memory(conn, bursts) <= 2 * self.size).then_some(offered)
    }

    /// Segments that an application of constant rate, or with a plan, has offered so far. Apart from the others, which then need no table of jumps.
    #[inline(never)]
    fn offer_over_time(&mut self, conn: &Conn) -> u64 {
        match self.app {
            Application::Rate(bytes_per_second) => self.offered_at_rate(bytes_per_second, conn),
            _ => self.offered_by_plan(conn),
        }
    }

    /// Segments that an application of constant rate has offered so far.
    fn offered_at_rate(&mut self, bytes_per_second: u64, conn: &Conn) -> u64 {
        let offered = offered_at(bytes_per_second, conn.now - self.started, conn.mss);
        if offered <= self.written {
            // wake up when the next full segment is there
            self.wakes_at = self.started.saturating_add(time_of(bytes_per_second, self.written + 1, conn.mss));
        }
        offered
    }

    /// Segments that an application that changes with time, or writes piece by piece, has offered so far.
    #[cold]
    #[inline(never)]
    fn offered_by_plan(&mut self, conn: &Conn) -> u64 {
        let (offered, next) = match &mut self.app {
            Application::Planned(plan) => plan.offer_until(self.started, conn.now, self.written, conn.mss),
            Application::Written(writes) => writes.offer_until(conn, self.written),
            _ => return self.written,
        };
        self.wakes_at = next;
        offered
    }

    /// Bytes of the send buffer that are taken. What is in flight takes the memory of its bursts, each in a buffer of its own.
    #[inline]
    pub fn memory(&self, conn: &Conn, bursts: u32) -> u64 {
        let front = self.front.segments > 0 || self.part > 0;
        let buffers = u64::from(bursts) + u64::from(front) + self.behind.len() as u64;
        (self.written - conn.snd_una) * u64::from(conn.mss) + u64::from(self.part) + buffers * BUFFER_OVERHEAD
    }

    /// One step of a write, of which `left` bytes are left, up to segment `offered`: it fills the last buffer up, whatever the memory, or a new
    /// one while there is some. The first step of a write takes off the PSH that the one before left in that buffer. Linux
    /// `tcp_sendmsg_locked`.
    pub fn fill(&mut self, offered: u64, first: bool, left: &mut u64, conn: &Conn, bursts: u32) -> Option<Filled> {
        if self.written >= offered || *left == 0 {
            return None;
        }
        let mss = u64::from(conn.mss);
        let part = u64::from(self.part);
        // one buffer: 64 KB, half of the largest window at the most (tcp_bound_to_half_wnd)
        let half_window = u64::from(self.max_window / 2);
        let unit = (GSO_MAX_SIZE.min(half_window) / mss).max(1) * mss;
        let filled = u64::from(self.last().segments) * mss + part;
        let mut free = if filled == 0 { 0 } else { unit.saturating_sub(filled) };
        if free == 0 {
            if self.memory(conn, bursts) >= self.size {
                return None;
            }
            if filled > 0 {
                self.add_buffer();
            }
            free = unit;
        }
        let more = free.min((offered - self.written).saturating_mul(mss) - part).min(*left);
        *left -= more;
        let segments = (part + more) / mss;
        self.part = ((part + more) % mss) as u16;
        self.written += segments;
        let last = self.last();
        last.segments += segments as u16;
        last.push &= !first;
        if more < free {
            return Some(Filled::InPart);
        }
        if (self.written - self.pushed) * mss > half_window {
            // half of the largest window since the last mark (forced_push)
            self.push();
            return Some(Filled::Pushed);
        }
        Some(if self.behind.is_empty() { Filled::Front } else { Filled::Behind })
    }

    /// Sets PSH on the data that were written last: the end of a write, until the next one goes on in the same buffer. Linux `tcp_mark_push`.
    pub fn push(&mut self) {
        self.last().push = true;
        self.pushed = self.written;
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

    /// The send buffer grows to two windows, or as many as the control wants, when the window is not used up, for whatever reason. Returns whether it did. Linux
    /// `tcp_new_space`, `tcp_should_expand_sndbuf`.
    #[inline]
    pub fn expand(&mut self, conn: &Conn, host: &HostParams, net: &impl Outlet) -> bool {
        if conn.cwnd <= self.sized_for || conn.in_flight() >= conn.cwnd || net.is_memory_short() {
            return false;
        }
        seldom();
        self.sized_for = conn.cwnd;
        let wanted = send_buffer(self.windows, conn.cwnd, host);
        let larger = wanted > self.size;
        self.size = self.size.max(wanted);
        larger
    }

    /// Segments that are left in the socket buffer of the next one to be sent.
    #[inline]
    pub fn left_in_buffer(&self) -> u64 {
        u64::from(self.front.segments)
    }

    /// Prefetches the queue, which will soon be asked for what may be sent.
    #[inline]
    pub fn prefetch(&self) {
        if let Some(last) = self.behind.back() {
            prefetch(last);
        }
    }

    /// Bytes of memory in addition to the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.behind.capacity() * std::mem::size_of::<Buffer>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::driver::conn;

    #[test]
    fn payloads_that_change_are_summed_up_exactly() {
        let mut sizes = SegmentSizes::new(1000);
        sizes.change(10, 500, 4);
        assert_eq!([9, 10, 99].map(|seq| sizes.payload_at(seq)), [1000, 500, 500]);
        assert_eq!([0, 4, 10, 12].map(|una| sizes.payload_below(una)), [0, 4_000, 10_000, 11_000]);
        // what is acknowledged is forgotten, and counted; a change at the same segment takes the place of the one before
        sizes.change(20, 100, 15);
        sizes.change(20, 200, 15);
        assert_eq!((sizes.payload_at(15), sizes.payload_at(20), sizes.changes.len()), (500, 200, 3));
        assert_eq!([15, 20, 21].map(|una| sizes.payload_below(una)), [12_500, 15_000, 15_200]);
    }

    /// `out` segments sent, of which `acked` are acknowledged.
    fn connection_at(out: u64, acked: u64) -> Conn {
        Conn { snd_nxt: out, snd_una: acked, ..conn() }
    }

    /// Returns the queue of an application that always has more, with the largest window that was offered.
    fn bulk(max_window: u32) -> WriteQueue {
        WriteQueue { max_window, ..WriteQueue::new(Application::Bulk, 2, &HostParams::default()) }
    }

    /// Segments of each buffer, and whether its end carries PSH.
    fn buffers(queue: &WriteQueue) -> Vec<(u16, bool)> {
        let all = std::iter::once(&queue.front).chain(&queue.behind);
        all.map(|buffer| (buffer.segments, buffer.push)).collect()
    }

    /// A write of `left` bytes from which nothing leaves meanwhile. Returns what its steps filled.
    fn write(queue: &mut WriteQueue, mut left: u64, conn: &Conn, bursts: u32) -> Vec<Filled> {
        let Some(offered) = queue.next_write(conn, bursts) else { return Vec::new() };
        let mut steps = Vec::new();
        while let Some(step) = queue.fill(offered, steps.is_empty(), &mut left, conn, bursts) {
            steps.push(step);
        }
        queue.push();
        steps
    }

    #[test]
    fn a_write_takes_a_new_buffer_while_there_is_memory() {
        let mut queue = bulk(1 << 20);
        // buffers of 65536 / 1448 = 45 segments, 45 * 1448 + 832 = 65992 B: one is more than the 46080 B
        assert_eq!(write(&mut queue, u64::MAX, &connection_at(0, 0), 0), [Filled::Front]);
        assert_eq!(buffers(&queue), [(45, true)]);
        // 45 * 1448 - 10 * 1448 + 6 * 832 = 55672 B are taken: a third of 65992 would have to be free, and of 83508 it is
        assert!(!queue.send(20));
        assert_eq!(queue.next_write(&connection_at(20, 10), 5), None);
        queue.size = 83_508;
        assert_eq!(queue.next_write(&connection_at(20, 10), 5), Some(u64::MAX));
        queue.size = 83_507;
        assert_eq!(queue.next_write(&connection_at(20, 10), 5), None);
    }

    #[test]
    fn what_leaves_makes_room_in_a_buffer_that_was_full() {
        let mut queue = bulk(65_160);
        // 32580 / 1448 = 22 segments. Linux 6.12 sends 10 of them in bursts of 2 while it writes, and has written 46336 B = 32 segments then
        let mut left = 128 << 10;
        assert_eq!(queue.fill(u64::MAX, true, &mut left, &connection_at(0, 0), 0), Some(Filled::Front));
        assert!(!queue.send(2));
        // 24 segments are more than half of the window: all that may be sent leaves
        assert_eq!(queue.fill(u64::MAX, false, &mut left, &connection_at(2, 0), 1), Some(Filled::Pushed));
        assert!(!queue.send(8));
        assert_eq!(queue.fill(u64::MAX, false, &mut left, &connection_at(10, 0), 5), Some(Filled::Front));
        assert_eq!(queue.fill(u64::MAX, false, &mut left, &connection_at(10, 0), 5), None);
        assert_eq!((queue.written, buffers(&queue), left), (32, vec![(22, true)], (128 << 10) - 46_336));
    }

    #[test]
    fn buffers_hold_half_of_the_largest_window_that_was_offered() {
        let mut queue = bulk(65_160);
        // 32580 / 1448 = 22 segments, 22 * 1448 + 832 = 32688 B: two of them reach 46080 B. The first is not more than half of the window,
        // the second is since the last mark
        assert_eq!(write(&mut queue, u64::MAX, &connection_at(0, 0), 0), [Filled::Front, Filled::Pushed]);
        assert_eq!(buffers(&queue), [(22, false), (22, true)]);
        assert!(!queue.send(10) && !queue.send(12) && !queue.send(21) && queue.send(1));
        // 81920 / 2 / 1448 = 28
        queue.max_window = 81_920;
        write(&mut queue, u64::MAX, &connection_at(44, 44), 0);
        assert_eq!(buffers(&queue), [(28, false), (28, true)]);
        // less than one segment: one each
        let mut tiny = bulk(2 * 1448 - 1);
        write(&mut tiny, 1448, &connection_at(0, 0), 0);
        assert_eq!(tiny.front.segments, 1);
    }

    #[test]
    fn a_write_fills_the_last_buffer_first_and_takes_its_push_off() {
        let mut queue = bulk(81_920);
        write(&mut queue, u64::MAX, &connection_at(0, 0), 0);
        assert_eq!(buffers(&queue), [(28, false), (28, true)]);
        // all but 20 are sent, in bursts of 4, and acknowledged but for the last of them: 24 * 1448 + 2 * 832 = 36416 B, not yet a third is free
        assert!(!queue.send(28) && !queue.send(8));
        assert_eq!(queue.next_write(&connection_at(36, 32), 1), None);
        // 20 * 1448 + 832 = 29792 B. The same buffer ends 8 later; with that it is 41376 B, so that there is room for one more
        write(&mut queue, u64::MAX, &connection_at(36, 36), 0);
        assert_eq!(buffers(&queue), [(28, false), (28, true)]);
        // the last buffer is filled whatever memory that takes: 10 * 1448 + 832 = 15312 B are used, 41376 B after that
        queue.size = 30_000;
        assert!(!queue.send(28) && !queue.send(18));
        write(&mut queue, u64::MAX, &connection_at(82, 82), 0);
        assert_eq!(buffers(&queue), [(28, true)]);
    }

    #[test]
    fn a_full_buffer_half_a_window_after_the_last_mark_carries_a_push() {
        let mut queue = bulk(81_920);
        queue.size = 200_000;
        // 28 segments are 40544 B, half of the window 40960: every second buffer, and the end
        let steps = write(&mut queue, u64::MAX, &connection_at(0, 0), 0);
        assert_eq!(steps, [Filled::Front, Filled::Pushed, Filled::Behind, Filled::Pushed, Filled::Behind]);
        assert_eq!(buffers(&queue), [(28, false), (28, true), (28, false), (28, true), (28, true)]);
        // a burst that goes on into the next buffer carries none
        assert!(!queue.send(28) && !queue.send(30) && queue.send(26 + 28));
    }

    #[test]
    fn a_write_may_end_within_a_segment_which_waits_for_the_next() {
        let mut queue = bulk(1 << 20);
        queue.size = 1 << 20;
        // 131072 B = 90 * 1448 + 752
        assert_eq!(write(&mut queue, 128 << 10, &connection_at(0, 0), 0), [Filled::Front, Filled::Behind, Filled::InPart]);
        assert_eq!((queue.written, queue.part, buffers(&queue)), (90, 752, vec![(45, false), (45, false), (0, true)]));
        assert_eq!(queue.memory(&connection_at(0, 0), 0), (128 << 10) + 3 * 832);
        // the next write goes on there: 262144 B = 181 * 1448 + 56
        assert_eq!(write(&mut queue, 128 << 10, &connection_at(0, 0), 0), [Filled::Behind, Filled::Behind, Filled::InPart]);
        assert_eq!((queue.written, queue.part), (181, 56));
        assert_eq!(buffers(&queue), [(45, false), (45, false), (45, false), (45, false), (1, true)]);
        // all that is full is sent: the front buffer has only a part
        assert!(!queue.send(90) && !queue.send(90) && queue.send(1));
        assert_eq!((queue.waiting(&connection_at(181, 181)), queue.memory(&connection_at(181, 181), 0)), (0, 56 + 832));
        assert_eq!(write(&mut queue, 1392, &connection_at(181, 181), 0), [Filled::InPart]);
        assert_eq!((queue.waiting(&connection_at(181, 181)), queue.part, buffers(&queue)), (1, 0, vec![(1, true)]));
    }

    #[test]
    fn the_last_segment_of_a_transfer_is_as_long_as_what_is_left() {
        let queue = WriteQueue::new(Application::Size(3 * 1448 + 1), 2, &HostParams::default());
        assert_eq!((queue.segments(1448), queue.payload(2, 1448), queue.payload(3, 1448)), (4, 1448, 1));
    }

    #[test]
    fn an_application_of_constant_rate_wakes_up_for_its_next_segment() {
        let mut queue = WriteQueue::new(Application::Rate(1_448_000), 2, &HostParams::default());
        // one segment a millisecond
        let conn = Conn { now: Instant::from_micros(2_500), ..connection_at(0, 0) };
        assert_eq!((queue.next_write(&conn, 0), queue.wakes_at), (Some(2), Instant::NEVER));
        write(&mut queue, u64::MAX, &conn, 0);
        assert_eq!((queue.written, queue.next_write(&conn, 0), queue.wakes_at), (2, None, Instant(3_000_001)));
    }

    #[test]
    fn a_planned_application_changes_its_rate_and_pauses() {
        let second = Instant::from_secs;
        // as fast as it can, from 2 s on 1000 B/s, nothing from 5 s to 7 s; it starts at 1 s, a segment has 100 B
        let mut plan = AppPlan::new(Some(1000), second(2), second(5), second(7));
        let mut offered = |ms: u64, written: u64| plan.offer_until(second(1), Instant::from_millis(ms), written, 100);
        assert_eq!(offered(1500, 40), (u64::MAX, Instant::NEVER));
        // the rate begins with what is written then: 10 segments per second
        assert_eq!(offered(2000, 50), (50, Instant(2_100_000_001)));
        assert_eq!(offered(2500, 50), (55, Instant::NEVER));
        assert_eq!(offered(2500, 55), (55, Instant(2_600_000_001)));
        assert_eq!(offered(5000, 70), (70, second(7)));
        assert_eq!(offered(6999, 70), (70, second(7)));
        // the pause is not made up for
        assert_eq!(offered(7000, 70), (70, Instant(7_100_000_001)));
        assert_eq!(offered(8000, 70), (80, Instant::NEVER));
        let mut bulk = AppPlan::new(None, Instant::ZERO, second(5), Instant::NEVER);
        assert_eq!(bulk.offer_until(second(1), second(4), 9, 100), (u64::MAX, Instant::NEVER));
        assert_eq!(bulk.offer_until(second(1), second(9), 9, 100), (9, Instant::NEVER));
    }

    struct Host {
        is_short: bool,
    }

    impl Outlet for Host {
        fn send(&mut self, _packet: crate::packet::Packet) {}

        fn is_memory_short(&self) -> bool {
            self.is_short
        }
    }

    #[test]
    fn the_buffer_of_a_window_follows_the_size_of_segments() {
        // twice ten segments, each in a power of two and a descriptor; tcp_wmem[2] cuts even that
        for (mss, send_buffer, size) in [
            (256, 4_194_304, 20 * 1280),
            (460, 4_194_304, 20 * 1280),
            (1448, 4_194_304, 20 * 2304),
            (4000, 4_194_304, 20 * 8448),
            (8934, 4_194_304, 20 * 16_640),
            (8934, 65_536, 65_536),
            (1448, 8_192, 8_192),
            (8934, 8_192, 2 * (8934 + 832)),
        ] {
            let host = HostParams { mss, send_buffer, ..HostParams::default() };
            let mut queue = WriteQueue::new(Application::Bulk, 2, &host);
            assert_eq!(queue.size, size, "{mss} B");
            let more = queue.expand(&Conn { cwnd: 20, ..conn() }, &host, &Host { is_short: false });
            assert_eq!((more, queue.size), (send_buffer > size, (2 * size).min(send_buffer).max(size)), "{mss} B");
        }
    }

    #[test]
    fn the_buffer_grows_to_two_windows_while_the_window_is_not_used_up() {
        let mut queue = WriteQueue::new(Application::Bulk, 2, &HostParams::default());
        let host = HostParams { send_buffer: 100_000, ..HostParams::default() };
        let conn = Conn { cwnd: 20, ..conn() };
        assert!(!queue.expand(&conn, &host, &Host { is_short: true }));
        let net = Host { is_short: false };
        assert!(queue.expand(&conn, &host, &net) && !queue.expand(&conn, &host, &net));
        assert_eq!(queue.size, 2 * 20 * 2304);
        assert!(queue.expand(&Conn { cwnd: 40, ..conn.clone() }, &host, &net));
        assert_eq!(queue.size, 100_000);
        assert!(!queue.expand(&Conn { cwnd: 10, ..conn }, &host, &net));
    }
}
