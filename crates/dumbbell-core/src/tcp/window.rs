//! The window that a receiver offers: it grows with every segment towards what the buffer allows, and the buffer grows with what
//! arrives in a round trip. Linux `tcp_grow_window`, `tcp_rcv_space_adjust`, `tcp_rcv_rtt_update`.
//!
//! The application reads when the host has taken all that came at one instant, so that the window never closes.

use crate::packet::{Packet, NO_TSECR};
use crate::units::Time;

/// Receive buffer of a new connection: sysctl `tcp_rmem[1]`, bytes.
const INITIAL_BUFFER: u64 = 131_072;
/// Window of a SYN-ACK and where its growth starts, bytes: half of the initial buffer in whole segments, less one
/// segment's reserve. Read off Linux 6.12 (`ss -m` and the windows of its first ACKs), as is the next.
const INITIAL_WINDOW: u64 = 64_088;
/// Memory of one segment in the receive queue beside its payload, bytes: `sk_buff`, shared information and head. From
/// both follow the 23 immediate ACKs with which a connection begins.
const SEGMENT_OVERHEAD: u64 = 832;
/// Largest segment of the path in the other direction: the step of window growth, bytes.
const ADVERTISED_MSS: u64 = 1460;
/// Segments that the first round trip is measured against: the initial window of senders (`tcp_init_buffer_space`).
const FIRST_ROUND: u64 = 10;

/// Window that a buffer of `buffer` bytes allows: the share of a segment's memory that is payload. Linux
/// `tcp_win_from_space` with the measured `scaling_ratio`, in 1/256.
fn window_of(buffer: u64, mss: u32) -> u64 {
    let mss = u64::from(mss);
    buffer * (mss * 256 / (mss + SEGMENT_OVERHEAD)) / 256
}

/// The window of one connection, bytes.
#[derive(Clone, Debug)]
pub struct Window {
    mss: u32,
    /// Largest buffer.
    most: u64,
    buffer: u64,
    /// How far the window may grow.
    clamp: u64,
    /// What is offered.
    offered: u64,
    /// Round-trip time as timestamps show it, 1/8 us; 0: not known.
    rtt_8us: u32,
    /// Timestamp that gave the last sample, ms.
    rtt_tsecr: u32,
    /// When the last data came.
    arrived_at: Time,
    /// Segments that arrived in the last round trip.
    last_round: u64,
    round_seq: u64,
    round_at: Time,
}

impl Window {
    /// Of a new connection with segments of `mss` bytes, with a buffer that may grow to `most`.
    pub fn new(mss: u32, most: u64) -> Window {
        let buffer = INITIAL_BUFFER.min(most);
        Window {
            mss,
            most,
            buffer,
            clamp: window_of(buffer, mss),
            // a full segment at the least: the sender has no smaller ones
            offered: INITIAL_WINDOW.min(window_of(most, mss)).max(u64::from(mss)),
            rtt_8us: 0,
            rtt_tsecr: 0,
            arrived_at: Time::ZERO,
            last_round: FIRST_ROUND,
            round_seq: 0,
            round_at: Time::ZERO,
        }
    }

    /// What is offered, as it fits into a header.
    #[inline]
    pub fn offered(&self) -> u32 {
        self.offered.min(u64::from(u32::MAX)) as u32
    }

    /// Round-trip time as the receiver estimates it, us; 0: not known.
    #[inline]
    pub fn rtt_us(&self) -> u32 {
        self.rtt_8us >> 3
    }

    /// The handshake is over at `now`: the first round trip begins.
    pub fn established(&mut self, now: Time) {
        self.round_at = now;
    }

    /// Data arrives; before it, everything up to `rcv_nxt` had come in order.
    #[inline]
    pub fn on_data(&mut self, packet: &Packet, rcv_nxt: u64, now: Time) {
        let all_read = self.arrived_at < now;
        if all_read {
            self.tune(rcv_nxt, self.arrived_at);
            self.arrived_at = now;
        }
        self.measure_rtt(packet, all_read, now);
    }

    /// The offered window grows by two segments for one that arrived, while the buffer allows more. Returns whether it did: each step
    /// is acknowledged at once. Linux `tcp_grow_window`.
    #[inline]
    pub fn grow(&mut self) -> bool {
        let grows = self.offered < self.clamp;
        if grows {
            self.offered = (self.offered + 2 * ADVERTISED_MSS).min(self.clamp);
        }
        grows
    }

    /// Round-trip time from the timestamp that `packet` echoes (RFC 7323 section 4.1), which is that of the last ACK that reached its
    /// sender. The first sample for each timestamp counts. A smaller one is taken as it is, a larger one moves the estimate by an eighth,
    /// but not while the application has not read what came before (windows of Linux 6.12 in slow start; docs/validation.md). Ticks of
    /// 1 ms. Linux `tcp_rcv_rtt_measure_ts`.
    #[inline]
    fn measure_rtt(&mut self, packet: &Packet, all_read: bool, now: Time) {
        let tsecr = packet.tsval.wrapping_sub(u32::from(packet.tsecr_age));
        if packet.tsecr_age == NO_TSECR || (tsecr == self.rtt_tsecr && self.rtt_8us > 0) {
            return;
        }
        self.rtt_tsecr = tsecr;
        let sample = (now.as_millis() as u32).wrapping_sub(tsecr).clamp(1, 1 << 18) * 1000;
        if self.rtt_8us == 0 || sample << 3 < self.rtt_8us {
            self.rtt_8us = sample << 3;
        } else if all_read {
            self.rtt_8us += sample - (self.rtt_8us >> 3);
        }
    }

    /// Dynamic right-sizing: once a round trip, room for twice what arrived and for its growth. Linux
    /// `tcp_rcv_space_adjust`.
    #[inline]
    fn tune(&mut self, rcv_nxt: u64, now: Time) {
        if self.rtt_8us == 0 || now.saturating_sub(self.round_at).as_micros() < u64::from(self.rtt_us()) {
            return;
        }
        let arrived = rcv_nxt - self.round_seq;
        if arrived > self.last_round {
            let mss = u64::from(self.mss);
            let window = 2 * arrived * mss + 16 * ADVERTISED_MSS;
            let growth = window * (arrived - self.last_round) / self.last_round;
            let wanted = (window + 2 * growth).saturating_mul(mss + SEGMENT_OVERHEAD) / mss;
            let buffer = wanted.min(self.most);
            if buffer > self.buffer {
                self.buffer = buffer;
                self.clamp = window_of(buffer, self.mss);
            }
            self.last_round = arrived;
        }
        self.round_seq = rcv_nxt;
        self.round_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::testing::packet;
    use crate::packet::Ecn;

    #[test]
    fn the_round_trip_falls_at_once_and_rises_by_an_eighth() {
        let mut window = Window::new(1448, 6_291_456);
        let mut rtts = Vec::new();
        // (sent at, arrives at): samples 50, 66, again the timestamp of 66 (passed over), 58, 50 ms
        for (seq, (sent, now)) in [(100, 100), (150, 166), (150, 167), (200, 208), (250, 250)].into_iter().enumerate() {
            // the ACK that it answers left 50 ms before
            let data = Packet { tsval: sent, tsecr_age: 50, ..packet(seq as u64, Ecn::NotEct) };
            window.on_data(&data, seq as u64, Time::from_millis(now));
            rtts.push(window.rtt_us());
        }
        // 50, 50 + 16 / 8 = 52, 52, 52 + 6 / 8 = 52.75, and back to 50
        assert_eq!(rtts, [50_000, 52_000, 52_000, 52_750, 50_000]);
    }

    #[test]
    fn packets_of_one_instant_are_read_together() {
        let mut window = Window::new(1448, 6_291_456);
        window.established(Time::from_millis(100));
        let data = |sent| Packet { tsval: sent, tsecr_age: 50, ..packet(0, Ecn::NotEct) };
        window.on_data(&data(100), 0, Time::from_millis(100));
        // two at 150 ms: both belong to the round trip that ends there, which the next packet finds
        window.on_data(&data(150), 10, Time::from_millis(150));
        window.on_data(&data(150), 11, Time::from_millis(150));
        assert_eq!((window.round_seq, window.last_round), (0, 10));
        window.on_data(&data(151), 12, Time::from_millis(151));
        assert_eq!((window.round_seq, window.last_round, window.round_at), (12, 12, Time::from_millis(150)));
    }
}
