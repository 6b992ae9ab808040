//! The window that a receiver offers: it grows with every segment towards what the buffer allows, and the buffer grows with what
//! arrives in a round trip. Linux `tcp_grow_window`, `tcp_rcv_space_adjust`, `tcp_rcv_rtt_update`.
//!
//! The application has read what came before the next segment arrives, so that the window never closes.

use super::host::HostParams;
use crate::buffers::{tcp_overhead, MAX_TCP_HEADER};
use crate::hint::{seldom, unlikely};
use crate::packet::Packet;
use crate::units::{Duration, Instant};

/// Receive buffer of a new connection: sysctl `tcp_rmem[1]`, which a smaller largest one, `tcp_rmem[2]`, does not cut, bytes.
const INITIAL_BUFFER: u64 = 131_072;
/// Window that half of the first buffer allows: how much a connection expects of its buffer before its first segment has shown how
/// much of one is payload, bytes.
const INITIAL_SPACE: u64 = 65_536;
/// Memory of one segment in the receive queue beside its payload, bytes: `sk_buff`, shared information and head; read off
/// `ss -m`. From it and the initial window follow the 23 immediate ACKs with which a connection begins.
const SEGMENT_OVERHEAD: u64 = tcp_overhead(true) as u64;
/// Memory that older kernels account for a segment in addition to its payload when they enlarge the buffer: headers, `sk_buff` and shared
/// information (`SKB_TRUESIZE(MAX_TCP_HEADER)`), bytes.
const OLDER_OVERHEAD: u64 = MAX_TCP_HEADER as u64 + 576;
/// They add this until half of the memory holds the payload (`tcp_rcv_space_adjust`), bytes.
const OLDER_STEP: u64 = 128;
/// Segments that the first round trip is measured against at most: the initial window of senders (`TCP_INIT_CWND` in `tcp_init_buffer_space`).
const FIRST_ROUND: u64 = 10;
/// Largest buffer that scales are made for, even if the host's is smaller: sysctl `net.core.rmem_max`, bytes.
const LARGEST_SET_BUFFER: u64 = 212_992;
/// Linux `TCP_MAX_WSCALE`.
const MAX_SCALE: u32 = 14;

/// Window of a connection's first segment: the space of a first buffer in whole segments of `mss` bytes, as far as a header without a scale can
/// say so. Linux `tcp_select_initial_window`, `tcp_make_synack`.
pub fn first(mss: u16) -> u32 {
    (INITIAL_SPACE as u32 / u32::from(mss) * u32::from(mss)).min(u32::from(u16::MAX))
}

/// The window of one connection, bytes. What most packets touch comes first ([`Window::HOT`]).
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Window {
    /// Round-trip time, 1/8 us; 0: not known.
    rtt_8us: u32,
    /// Timestamp that gave the last sample, ms.
    rtt_tsecr: u32,
    /// Window field of an ACK while the buffer holds nothing but the arriving segment: it changes seldom.
    header: u32,
    /// Largest segment that arrives: that of the path less timestamps, in both directions the same.
    mss: u32,
    /// Offered window before it is rounded to the scale.
    offered: u64,
    /// How far the window may grow while nothing but the segment that arrives is in the buffer.
    limit: u64,
    /// Segment that ends the window being measured.
    measured_to: u64,
    /// When the present round trip is over; never, while it is not known how long one is.
    round_end: Instant,
    /// A difference of 0 ms between timestamps says nothing of the round trip.
    skips_zero: bool,
    /// The window that is offered counts in units of 2 to the power of this.
    scale: u8,
    /// The window is the share of the buffer that is payload, and not half of it.
    by_payload: bool,
    /// Window that 256 bytes of memory allow: the share of a segment's memory that is payload (the measured `scaling_ratio`), or half
    /// (`tcp_adv_win_scale` = 1).
    ratio: u8,
    /// `rcv_nxt` when the present round trip began.
    round_seq: u64,
    /// When that was.
    round_at: Instant,
    /// Bytes that arrived in the last round trip.
    last_round: u64,
    /// When the first segment of the window being measured came.
    measured_from: Instant,
    buffer: u64,
    /// Window that the whole buffer allows (`window_clamp`).
    clamp: u64,
    /// Largest buffer.
    most: u64,
}

/// The scale of a host's windows: its largest buffer, or what an application may ask for, in 16 bits (`tcp_select_initial_window`).
pub fn scale(largest_buffer: u64) -> u8 {
    largest_buffer.max(LARGEST_SET_BUFFER).ilog2().saturating_sub(15).min(MAX_SCALE) as u8
}

/// Payload of 256 bytes of the memory of full segments of `mss` bytes.
fn payload_ratio(mss: u32) -> u8 {
    let mss = u64::from(mss);
    (mss * 256 / (mss + SEGMENT_OVERHEAD)) as u8
}

impl Window {
    /// Bytes from the start that most packets touch.
    pub const HOT: usize = std::mem::offset_of!(Window, skips_zero);

    /// Returns the window of a new connection with the segments and buffers of `host`.
    pub fn new(host: &HostParams) -> Window {
        let (mss, most) = (host.mss, host.receive_buffer);
        let mut window = Window {
            mss,
            by_payload: host.window_by_payload,
            ratio: if host.window_by_payload { payload_ratio(mss) } else { 128 },
            skips_zero: host.receiver_rtt_not_zero,
            scale: scale(most),
            most,
            buffer: INITIAL_BUFFER,
            clamp: 0,
            limit: 0,
            offered: 0,
            header: 0,
            rtt_8us: 0,
            rtt_tsecr: 0,
            measured_to: 0,
            measured_from: Instant::NEVER,
            last_round: 0,
            round_seq: 0,
            round_at: Instant::ZERO,
            round_end: Instant::NEVER,
        };
        // one segment is held in reserve (tcp_init_buffer_space); by halves that is already all
        let all_but_one = INITIAL_SPACE - u64::from(mss);
        window.clamp = if window.by_payload { window.window_for(window.buffer) } else { all_but_one };
        window.limit = window.room(window.memory(1, 1));
        window.last_round = all_but_one.min(FIRST_ROUND * u64::from(mss));
        window.offer(all_but_one);
        window
    }

    /// Window that a buffer of `bytes` allows. Linux `tcp_win_from_space`.
    fn window_for(&self, bytes: u64) -> u64 {
        bytes * u64::from(self.ratio) / 256
    }

    /// Buffer that a window of `bytes` needs.
    fn buffer_for(&self, bytes: u64) -> u64 {
        if self.by_payload {
            return bytes.saturating_mul(256) / u64::from(self.ratio);
        }
        let mss = u64::from(self.mss);
        let least = mss + OLDER_OVERHEAD;
        let memory = least + (2 * mss).saturating_sub(least).next_multiple_of(OLDER_STEP);
        (bytes / mss).saturating_mul(memory)
    }

    /// Memory of `segments` in so many socket buffers, bytes. What joins a buffer leaves its own `sk_buff` and head behind
    /// (`skb_try_coalesce`).
    pub fn memory(&self, buffers: u64, segments: u64) -> u64 {
        buffers * SEGMENT_OVERHEAD + segments * u64::from(self.mss)
    }

    /// How far the window may grow while `memory` bytes of the buffer are in use. Linux `tcp_space`, and the clamp.
    fn room(&self, memory: u64) -> u64 {
        self.window_for(self.buffer.saturating_sub(memory)).min(self.clamp)
    }

    /// Window that the whole buffer allows.
    pub fn clamp(&self) -> u64 {
        self.clamp
    }

    /// The window that may be offered while `memory` bytes of the buffer are in use, and whether that is more than half of it.
    /// Linux `__tcp_select_window`.
    pub fn select(&self, memory: u64) -> (u32, bool) {
        if self.limit < u64::from(self.mss) {
            // the smallest buffers hold no segment and its overhead, but senders have no smaller ones
            return (self.round(u64::from(self.mss)), false);
        }
        let free = self.window_for(self.buffer.saturating_sub(memory));
        let is_crowded = free < self.clamp / 2;
        if is_crowded && free < (self.window_for(self.buffer) / 16).max(u64::from(self.mss)) {
            return (0, true);
        }
        (self.round(free.min(self.offered)), is_crowded)
    }

    /// `bytes` rounded up to what the header can say.
    pub fn round(&self, bytes: u64) -> u32 {
        let unit = (1_u64 << self.scale) - 1;
        ((bytes + unit) & !unit).min(u64::from(u32::MAX)) as u32
    }

    /// Returns the window that a SYN-ACK offers: it has no scale, and counts whole segments. Linux `tcp_select_initial_window`.
    pub fn offered_first(&self) -> u32 {
        first(self.mss as u16)
    }

    /// Returns the offered window, rounded up to what the header can express.
    #[inline]
    pub fn offered_window(&self) -> u32 {
        self.header
    }

    /// From now on `bytes` are offered (`rcv_ssthresh`), as far as the buffer allows: of segments that are less than half payload, it does not
    /// hold even the first window. Linux `__tcp_select_window`.
    fn offer(&mut self, bytes: u64) {
        self.offered = bytes;
        self.header = self.round(bytes.min(self.limit));
    }

    /// Round-trip time as the receiver estimates it, us; 0: not known.
    #[inline]
    pub fn rtt_us(&self) -> u32 {
        self.rtt_8us >> 3
    }

    /// The handshake is over at `now`: the first round trip begins.
    pub fn on_established(&mut self, now: Instant) {
        self.begin_round(now);
    }

    /// A round trip begins at `now`.
    fn begin_round(&mut self, now: Instant) {
        self.round_at = now;
        self.expect_round_end();
    }

    /// The present round trip, or its estimate, is another one.
    #[inline]
    fn expect_round_end(&mut self) {
        let rtt = Duration::from_micros(u64::from(self.rtt_us()));
        self.round_end = if self.rtt_8us == 0 { Instant::NEVER } else { self.round_at.saturating_add(rtt) };
    }

    /// Whether a segment that arrives may make the window grow.
    #[inline]
    pub fn may_grow(&self) -> bool {
        self.offered < self.limit
    }

    /// A segment arrived: the offered window grows by two, as far as the buffer allows with `memory` bytes of it in use. Returns whether it did:
    /// each step is acknowledged at once. Linux `tcp_grow_window`.
    #[inline(never)]
    pub fn grow(&mut self, memory: u64) -> bool {
        let limit = self.room(memory);
        let grows = self.offered < limit;
        if grows {
            self.offer((self.offered + 2 * u64::from(self.mss)).min(limit));
        }
        grows
    }

    /// Round-trip time from the timestamp that `packet` echoes (RFC 7323 section 4.1), which is that of the last ACK that reached its
    /// sender. The first sample for each timestamp counts. Ticks of 1 ms. Linux `tcp_rcv_rtt_measure_ts`.
    #[inline]
    pub fn on_data(&mut self, packet: &Packet, now: Instant) {
        let Some(tsecr) = packet.tcp().tsecr().filter(|tsecr| *tsecr != self.rtt_tsecr) else { return };
        seldom();
        self.rtt_tsecr = tsecr;
        let elapsed = (now.as_millis() as u32).wrapping_sub(tsecr).min(1 << 18);
        if elapsed == 0 && self.skips_zero {
            return;
        }
        let sample = elapsed.max(1) * 1000;
        if self.rtt_8us == 0 || sample << 3 < self.rtt_8us {
            self.rtt_8us = sample << 3;
        } else {
            // larger ones move the estimate by an eighth
            self.rtt_8us += sample - (self.rtt_8us >> 3);
        }
        self.expect_round_end();
    }

    /// A segment arrived in order, and `rcv_nxt` is the next. A whole window takes a round trip at the least: that can only lower the
    /// estimate. Linux `tcp_rcv_rtt_measure`.
    #[inline(always)]
    pub fn in_order(&mut self, rcv_nxt: u64, now: Instant) {
        if unlikely(self.is_full(rcv_nxt)) {
            self.measure_window(rcv_nxt, now);
        }
    }

    /// Whether all of the window being measured has come when segment `rcv_nxt` is the next.
    #[inline(always)]
    pub fn is_full(&self, rcv_nxt: u64) -> bool {
        rcv_nxt >= self.measured_to
    }

    /// The window that was measured is complete; the next one begins.
    #[inline(never)]
    fn measure_window(&mut self, rcv_nxt: u64, now: Instant) {
        let mut window = self.offered_window();
        if self.measured_from == Instant::NEVER {
            window = self.offered_first();
        } else {
            let sample = (now - self.measured_from).as_micros().clamp(1, 1 << 28) as u32;
            if self.rtt_8us == 0 || sample << 3 < self.rtt_8us {
                self.rtt_8us = sample << 3;
                self.expect_round_end();
            }
        }
        self.measured_to = rcv_nxt + u64::from(window.div_ceil(self.mss));
        self.measured_from = now;
    }

    /// The application reads what has come up to `rcv_nxt`, at `now`; the first buffer of it ends before `first_end`. Dynamic right-sizing: once
    /// per round trip, room for twice what arrived and for its growth. Linux `tcp_rcv_space_adjust`.
    #[inline(always)]
    pub fn read(&mut self, first_end: u64, rcv_nxt: u64, now: Instant) {
        if unlikely(self.is_round_over(now)) {
            self.end_round(first_end, rcv_nxt, now);
        }
    }

    /// Whether the present round trip is over at `now`.
    #[inline(always)]
    pub fn is_round_over(&self, now: Instant) -> bool {
        now >= self.round_end
    }

    /// A round trip is over. It ends with the first buffer that is read, and what waits behind that is taken off: it counts for the next one.
    #[inline(never)]
    fn end_round(&mut self, first_end: u64, rcv_nxt: u64, now: Instant) {
        let mss = u64::from(self.mss);
        let arrived = (first_end - self.round_seq).saturating_sub(rcv_nxt - first_end) * mss;
        if arrived > self.last_round {
            let window = 2 * arrived + 16 * mss;
            let growth = window * (arrived - self.last_round) / self.last_round;
            let buffer = self.buffer_for(window + 2 * growth).min(self.most);
            if buffer > self.buffer {
                self.buffer = buffer;
                self.clamp = self.window_for(buffer);
                self.limit = self.room(self.memory(1, 1));
                self.offer(self.offered);
            }
            self.last_round = arrived;
        }
        self.round_seq = first_end;
        self.begin_round(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::testing::packet;
    use crate::packet::{Ecn, Timestamps};

    fn of_buffer(bytes: u64) -> Window {
        Window::new(&HostParams { receive_buffer: bytes, ..HostParams::default() })
    }

    /// A packet that answers an ACK of `age` ms before.
    fn answer(sent: u32, age: u32) -> Packet {
        packet(0, Ecn::NotEct).with_timestamps(Timestamps::new(sent, Some(sent - age)))
    }

    #[test]
    fn the_round_trip_falls_at_once_and_rises_by_an_eighth() {
        let mut window = of_buffer(6_291_456);
        let mut rtts = Vec::new();
        // (sent at, arrives at): samples 50, 66, again the timestamp of 66 (passed over), 58, 50 ms
        for (sent, now) in [(100, 100), (150, 166), (150, 167), (200, 208), (250, 250)] {
            window.on_data(&answer(sent, 50), Instant::from_millis(now));
            rtts.push(window.rtt_us());
        }
        // 50, 50 + 16 / 8 = 52, 52, 52 + 6 / 8 = 52.75, and back to 50
        assert_eq!(rtts, [50_000, 52_000, 52_000, 52_750, 50_000]);
        // it rises though nothing passes between the two, so that the application cannot have read the first
        window.on_data(&answer(300, 50), Instant::from_millis(308));
        window.on_data(&answer(301, 50), Instant::from_millis(308));
        // 50 + 8 / 8 = 51, 51 + 6 / 8 = 51.75
        assert_eq!(window.rtt_us(), 51_750);
    }

    #[test]
    fn timestamps_of_the_same_millisecond_give_no_round_trip_since_linux_6_12() {
        for (receiver_rtt_not_zero, rtt) in [(true, 0), (false, 1000)] {
            let mut window = Window::new(&HostParams { receiver_rtt_not_zero, ..HostParams::default() });
            window.on_data(&answer(7, 0), Instant::from_micros(7_900));
            assert_eq!(window.rtt_us(), rtt);
        }
    }

    #[test]
    fn a_whole_window_takes_a_round_trip_at_the_least() {
        let mut window = of_buffer(33_554_432);
        // the SYN-ACK offered 65160 B, 45 segments: measured from the first, which makes 1 the next expected, to the 46th
        for n in 1..=45 {
            window.in_order(n, Instant::from_millis(100 + n));
        }
        assert_eq!((window.rtt_us(), window.measured_to), (0, 46));
        window.in_order(46, Instant::from_millis(146));
        assert_eq!(window.rtt_us(), 45_000);
        // 64088 B are offered as 63 KB, 44.6 segments
        assert_eq!((window.measured_to, window.measured_from), (46 + 45, Instant::from_millis(146)));
        // it takes longer: the estimate stays. It is faster: it falls
        window.in_order(91, Instant::from_millis(246));
        assert_eq!(window.rtt_us(), 45_000);
        window.in_order(136, Instant::from_millis(256));
        assert_eq!(window.rtt_us(), 10_000);
        // timestamps say 50 ms: up by an eighth
        window.on_data(&answer(257, 50), Instant::from_millis(257));
        assert_eq!(window.rtt_us(), 15_000);
    }

    #[test]
    fn what_is_read_counts_for_the_round_trip_in_which_it_came() {
        let mut window = of_buffer(6_291_456);
        window.on_established(Instant::from_millis(100));
        window.on_data(&answer(100, 50), Instant::from_millis(100));
        window.read(1, 1, Instant::from_millis(100));
        // a round trip of 50 ms ends with the first segment read at 150 ms
        window.read(10, 10, Instant::from_micros(149_999));
        assert_eq!((window.round_seq, window.last_round), (0, 10 * 1448));
        window.read(11, 11, Instant::from_millis(150));
        assert_eq!((window.round_seq, window.last_round, window.round_at), (11, 11 * 1448, Instant::from_millis(150)));
        window.read(12, 12, Instant::from_millis(150));
        assert_eq!(window.round_seq, 11);
    }

    #[test]
    fn what_a_hole_held_back_counts_for_the_next_round_trip() {
        let mut window = of_buffer(6_291_456);
        window.on_established(Instant::from_millis(100));
        window.on_data(&answer(100, 50), Instant::from_millis(100));
        // segment 20 fills a hole behind which 40 have come: the first buffer ends with it, 40 wait: 21 - 40 is less than 10
        let buffer = window.buffer;
        window.read(21, 61, Instant::from_millis(150));
        assert_eq!((window.round_seq, window.last_round, window.buffer), (21, 10 * 1448, buffer));
        // they count for the round trip that begins with them: 40 + 9
        window.read(70, 70, Instant::from_millis(200));
        assert_eq!((window.round_seq, window.last_round), (70, 49 * 1448));
        // of 60 segments with 5 behind them 55 count
        window.read(130, 135, Instant::from_millis(250));
        assert_eq!((window.round_seq, window.last_round), (130, 55 * 1448));
    }

    #[test]
    fn an_ack_offers_what_is_left_of_the_buffer() {
        let mut window = of_buffer(6_291_456);
        // with nothing in the buffer the window may grow up to the clamp, 131072 * 162 / 256 = 82944, but with a segment only to 81501
        while window.grow(0) {}
        assert_eq!((window.offered, window.select(0), window.offered_window()), (82_944, (82_944, false), 81_536));
        // 20 segments in two buffers: (131072 - 2 * 832 - 20 * 1448) * 162 / 256 = 63564; in 20 buffers 54087
        assert_eq!(window.select(window.memory(2, 20)), (63_616, false));
        assert_eq!(window.select(window.memory(20, 20)), (54_144, false));
        // less than half of it, less than a sixteenth of it
        assert_eq!(window.select(80_000), (32_384, true));
        assert_eq!(window.select(125_000), (0, true));
    }

    #[test]
    fn windows_are_offered_in_units_of_the_scale_that_the_largest_buffer_needs() {
        // 32 MB = 2^25: 10 bits beyond 15; 6 MB is more than 2^22: 7; rmem_max, 212992 B, is more than 2^17: never below 2
        for (buffer, first, offered) in [(33_554_432, 65_160, 63 * 1024), (6_291_456, 65_160, 64_128), (40_000, 65_160, 64_088)] {
            let window = of_buffer(buffer);
            assert_eq!((window.offered_first(), window.offered_window()), (first, offered), "{buffer}");
        }
    }

    fn of_mss(mss: u32) -> Window {
        Window::new(&HostParams { mss, ..HostParams::default() })
    }

    #[test]
    fn the_first_windows_are_whole_segments_of_half_of_128_kib_and_one_less() {
        // tcp_select_initial_window: 65536 in whole segments, at most 65535; tcp_init_buffer_space: 65536 - mss, in units of 128 B, but not
        // more than (131072 - mss - 832) * (256 mss / (mss + 832)) / 256 B hold: of 256 B 129984 * 60 / 256, of 460 B 129780 * 91 / 256.
        // The first round is min(65536 - mss, 10 mss)
        for (mss, first_window, next, first_round) in [
            (256, 65_535, 30_465_u32.next_multiple_of(128), 2_560),
            (460, 65_320, 46_132_u32.next_multiple_of(128), 4_600),
            (1448, 65_160, 64_128, 14_480),
            (4000, 64_000, 61_536_u32.next_multiple_of(128), 40_000),
            (8934, 62_538, 56_602_u32.next_multiple_of(128), 56_602),
        ] {
            let window = of_mss(mss);
            let found = (window.offered_first(), window.offered_window(), window.last_round);
            assert_eq!(found, (first_window, next, first_round), "{mss} B");
        }
    }

    #[test]
    fn a_smaller_largest_buffer_does_not_cut_the_first_one() {
        let mut window = of_buffer(65_536);
        // tcp_rmem[1] = 131072: 64088 B as ever, up to (131072 - 2280) * 162 / 256; and that is all, whatever arrives
        assert_eq!((window.buffer, window.offered, window.limit), (131_072, 64_088, 81_501));
        window.on_established(Instant::from_millis(100));
        window.on_data(&answer(150, 50), Instant::from_millis(150));
        window.read(40, 40, Instant::from_millis(150));
        assert_eq!((window.buffer, window.limit), (131_072, 81_501));
    }

    #[test]
    fn a_larger_buffer_takes_away_what_held_the_first_window_back() {
        let mut window = of_mss(256);
        window.on_established(Instant::from_millis(100));
        window.on_data(&answer(150, 50), Instant::from_millis(150));
        window.read(100, 100, Instant::from_millis(150));
        // 25600 B came, 2560 were expected: 51200 + 4096 = 55296, and twice 9 * 55296 more; a buffer of 256 / 60 of it
        assert_eq!((window.last_round, window.buffer), (25_600, 1_050_624 * 256 / 60));
        // rcv_ssthresh was 65536 - 256 all the time
        assert_eq!(window.offered_window(), 65_280);
    }

    #[test]
    fn what_lies_out_of_order_leaves_less_room_to_grow() {
        let mut window = of_buffer(6_291_456);
        // (131072 - 21 * 2280) * 162 / 256 = 52646 B: less than is offered
        assert!(window.may_grow() && !window.grow(window.memory(21, 21)));
        // (131072 - 14 * 2280) * 162 / 256 = 62744; - 13 * 2280: 64187 B, 99 more than the 64088
        assert!(!window.grow(window.memory(14, 14)) && window.grow(window.memory(13, 13)));
        assert_eq!((window.offered, window.grow(window.memory(13, 13))), (64_187, false));
        assert!(window.grow(window.memory(1, 1)));
        assert_eq!(window.offered, 64_187 + 2_896);
    }

    #[test]
    fn half_of_the_buffer_is_offered_before_linux_6_6() {
        let mut window = Window::new(&HostParams { window_by_payload: false, ..HostParams::default() });
        // half of 128 KB less one segment, and no more until the buffer grows: no step is acknowledged at once
        assert_eq!((window.offered, window.may_grow()), (65_536 - 1448, false));
        window.on_established(Instant::from_millis(100));
        window.on_data(&answer(150, 50), Instant::from_millis(150));
        window.read(40, 40, Instant::from_millis(150));
        // 40 segments came, 10 were expected: a window of 2 * 40 + 16 = 96, and twice 3 * 96 more: 672 segments; each takes 1448 + 896 B,
        // and 5 * 128 more until half of it holds 1448 B
        assert_eq!(window.buffer, 672 * 2984);
        // half of what one segment leaves
        assert_eq!(window.limit, (672 * 2984 - 2280) / 2);
        assert!(window.grow(window.memory(1, 1)));
        assert_eq!(window.offered, 64_088 + 2 * 1448);
    }
}
