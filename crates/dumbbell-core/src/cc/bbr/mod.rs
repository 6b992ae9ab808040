//! Common parts of BBRv1, v2 and v3 for Linux: fixed point, pacing, bursts and the measure of aggregated ACKs. [`probing`] has the parts that only v2 and v3 share.
//!
//! Units as in the kernel: rates are [`BbrRate`], gains are times 2^8, volumes in segments.

use super::conn::Conn;
use super::RateSample;
use crate::buffers::MAX_TCP_HEADER;

mod filter;
pub(in crate::cc) mod phase;
pub mod probing;
mod rate;

pub use filter::WindowedMax;
pub use rate::BbrRate;

/// log2 of [`UNIT`]. Linux `BBR_SCALE`.
pub const SCALE: u32 = 8;
/// A gain or share of one. Linux `BBR_UNIT`.
pub const UNIT: u32 = 1 << SCALE;
/// A bound that is not set.
pub const UNSET: u32 = u32::MAX;
/// Least window. Linux `bbr_cwnd_min_target`.
pub const MIN_CWND: u32 = 4;
/// RTT that the first pacing rate assumes if none was measured, us. Linux `bbr_init_pacing_rate_begin`.
const DEFAULT_RTT_US: u64 = 1000;
/// Bytes that a burst cannot have of the largest size: one, and the headers.
const BURST_MARGIN: u64 = MAX_TCP_HEADER as u64 + 1;
/// Largest burst that a device takes, bytes. Linux `GSO_LEGACY_MAX_SIZE`.
pub const GSO_LEGACY_MAX_SIZE: u64 = 65_536;
/// A burst is what the pacing rate sends in 1/1024 s. Linux `sk_pacing_shift`.
const PACING_SHIFT: u32 = 10;
/// On a short path it is larger: the addition halves for each 512 us of RTT. Linux `bbr_tso_rtt_shift`.
const TSO_RTT_SHIFT: u32 = 9;
/// Below this pacing rate v1 and v2 send single segments, bytes per second. Linux `bbr_min_tso_rate` = 1.2 Mbit/s.
const MIN_TSO_RATE: u64 = 150_000;

/// A gain or share of a configuration, in units of 1/256.
pub fn to_fixed(value: f64) -> u32 {
    (value * f64::from(UNIT)) as u32
}

/// `share` 256ths of `value`, rounded down.
pub fn scale_by_share(value: u32, share: u32) -> u32 {
    ((u64::from(value) * u64::from(share)) >> SCALE) as u32
}

/// Sets the pacing rate, and remembers whether an RTT was known when it first did.
#[derive(Clone, Copy, Debug)]
pub struct BbrPacing {
    /// Gain of STARTUP, with which the first rate is made.
    high_gain: u32,
    has_seen_rtt: bool,
}

impl BbrPacing {
    /// Before the connection is established.
    pub const fn before_connection(high_gain: u32) -> BbrPacing {
        BbrPacing { high_gain, has_seen_rtt: false }
    }

    /// The connection begins: the initial window in a round trip. Linux `bbr_init_pacing_rate_begin`.
    pub fn new(conn: &mut Conn, high_gain: u32) -> BbrPacing {
        let mut pacing = BbrPacing::before_connection(high_gain);
        pacing.begin(conn);
        conn.paced = true;
        pacing
    }

    fn begin(&mut self, conn: &mut Conn) {
        self.has_seen_rtt = conn.rtt.srtt_8us > 0;
        let rtt = if self.has_seen_rtt { u64::from(conn.rtt.srtt_8us >> 3).max(1) } else { DEFAULT_RTT_US };
        conn.pacing_rate = BbrRate::floor(conn.cwnd, rtt).pacing(self.high_gain, conn.mss);
    }

    /// `gain` times `bw`; before the pipe was `full` the rate only rises. Linux `bbr_set_pacing_rate`.
    pub fn set(&mut self, conn: &mut Conn, bw: BbrRate, gain: u32, full: bool) {
        let rate = bw.pacing(gain, conn.mss);
        if !self.has_seen_rtt && conn.rtt.srtt_8us > 0 {
            self.begin(conn);
        }
        if full || rate > conn.pacing_rate {
            conn.pacing_rate = rate;
        }
    }
}

/// How a version sizes its bursts.
#[derive(Clone, Copy, Debug)]
pub struct Bursts {
    /// Bytes that are added for a short path; halved for each 512 us of RTT.
    pub near: u64,
    /// Most bytes of what a burst may aim at, whatever the device takes.
    pub most: u64,
    /// Least segments; `None`: one below 1.2 Mbit/s, two from there on.
    pub least: Option<u32>,
}

impl Bursts {
    fn segments(&self, conn: &Conn, min_rtt_us: u32, most: u64) -> u32 {
        let mut bytes = conn.pacing_rate >> PACING_SHIFT;
        bytes = bytes.saturating_add(self.near.checked_shr(min_rtt_us >> TSO_RTT_SHIFT).unwrap_or(0));
        let least = self.least.unwrap_or(if conn.pacing_rate < MIN_TSO_RATE { 1 } else { 2 });
        (bytes.min(most - BURST_MARGIN) as u32 / conn.mss).max(least)
    }

    /// Segments of a burst, as the control wants it. Linux `bbr_tso_segs_goal`.
    pub fn goal(&self, conn: &Conn, min_rtt_us: u32) -> u32 {
        self.segments(conn, min_rtt_us, self.most)
    }

    /// Segments of a burst, as a device takes it. Linux `bbr_tso_segs`, which takes the margin off a size that is already without it
    /// (`sk_gso_max_size` since 5.19).
    pub fn burst_segments(&self, conn: &Conn, min_rtt_us: u32) -> u32 {
        self.segments(conn, min_rtt_us, GSO_LEGACY_MAX_SIZE - BURST_MARGIN)
    }
}

/// Segments of `in_flight` that will be in the network when the next burst may leave, and `rising`, the segments of that burst. Linux
/// `bbr_packets_in_net_at_edt`.
pub fn in_network(in_flight: u32, sample: &RateSample, bw: BbrRate, rising: Option<u32>) -> u32 {
    let leaving = bw.segments_in(sample.pacing_wait_us);
    u64::from(in_flight + rising.unwrap_or(0)).saturating_sub(leaving) as u32
}

/// Segments acknowledged beyond what the estimated rate explains: the receiver or the path aggregates ACKs. Linux
/// `bbr_update_ack_aggregation`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aggregation {
    /// Most in this and in the last window of rounds.
    extra: [u32; 2],
    slot: usize,
    /// Rounds of this window.
    rounds: u32,
    /// Segments acknowledged since `since_us`.
    acked: u32,
    since_us: u64,
}

/// Rounds of half of the window. Linux `bbr_extra_acked_win_rtts`.
pub const AGGREGATION_ROUNDS: u32 = 5;
/// Number of segments with which an epoch ends. Linux `bbr_ack_epoch_acked_reset_thresh`.
const EPOCH_SEGMENTS: u32 = 1 << 20;
/// Aggregation over more than this is not allowed for, us. Linux `bbr_extra_acked_max_us`.
const LONGEST_US: u64 = 100_000;

impl Aggregation {
    /// The connection begins, or sends again after a pause.
    pub fn restart(&mut self, now_us: u64) {
        self.acked = 0;
        self.since_us = now_us;
    }

    /// An ACK delivers `acked` segments; `window` rounds make half of the filter.
    pub fn update(&mut self, conn: &Conn, acked: u32, bw: BbrRate, round_start: bool, window: u32) {
        if round_start {
            self.rounds += 1;
            if self.rounds >= window {
                self.rounds = 0;
                self.slot ^= 1;
                self.extra[self.slot] = 0;
            }
        }
        let now_us = conn.now.as_micros();
        let mut expected = bw.segments_in(now_us - self.since_us);
        if u64::from(self.acked) <= expected || self.acked + acked >= EPOCH_SEGMENTS {
            self.restart(now_us);
            expected = 0;
        }
        self.acked = (self.acked + acked).min(EPOCH_SEGMENTS - 1);
        let extra = (u64::from(self.acked).saturating_sub(expected) as u32).min(conn.cwnd);
        self.extra[self.slot] = self.extra[self.slot].max(extra);
    }

    /// The largest of the filter.
    pub fn extra(&self) -> u32 {
        self.extra[0].max(self.extra[1])
    }

    /// Segments that the window gets on top of it. Linux `bbr_ack_aggregation_cwnd`.
    pub fn allowance(&self, bw: BbrRate) -> u32 {
        self.extra().min(bw.segments_in(LONGEST_US) as u32)
    }
}

#[cfg(test)]
mod tests;
