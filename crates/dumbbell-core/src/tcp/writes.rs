//! Data that an application writes piece by piece, with times in between in which it has nothing to send.
//!
//! A write goes on in the last segment of the one before it while that is not sent (Linux `tcp_sendmsg_locked`, `tcp_skb_can_collapse_to`). Once it is sent,
//! though it is not full, the next write begins a segment of its own: applications that wait for answers turn Nagle's rule off (TCP_NODELAY).
//! So a segment that is not full is always the last one that can be sent.
//!
//! With a [filler](PieceWrites::fill) the application always has more to send, and all segments are full from then on. It keeps only [`UNSENT`] of that in the socket, so that a write which comes in
//! between is soon sent.

use crate::cc::conn::Conn;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// A filler keeps as much unsent as the connection sends in this time. draft-ietf-ippm-responsiveness-09 section 6.1.1: TCP_REPLENISH_TIME, or TCP_NOTSENT_LOWAT, of 5 ms.
const UNSENT: Duration = Duration::from_millis(5);
/// Segments that a filler keeps unsent at the least: what one ACK of two segments lets go.
const LEAST_UNSENT: u64 = 2;

/// Where a write ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WriteEnd {
    /// The segment after its last one.
    segment: u64,
    /// Bytes up to there since the start.
    bytes: u64,
}

/// A segment that is not full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShortSegment {
    seq: u64,
    payload: u32,
}

/// The writes of an application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PieceWrites {
    /// Writes to come: when, on the sender's clock, and how many bytes.
    planned: VecDeque<(Instant, u64)>,
    /// Bytes and segments so far.
    bytes: u64,
    segments: u64,
    /// Segments that are not full, ascending; those that are acknowledged are forgotten, and their sum of bytes that they lack is kept.
    short: VecDeque<ShortSegment>,
    lacking: u64,
    /// Ends of the writes that the receiver has not reported.
    ends: VecDeque<WriteEnd>,
    /// When the filler begins, if there will be one, and whether it has begun.
    fill_at: Option<Instant>,
    fills: bool,
}

impl PieceWrites {
    /// The application writes `bytes` at `at`, not before its earlier writes.
    pub(super) fn plan(&mut self, at: Instant, bytes: u64) {
        self.planned.push_back((at, bytes));
    }

    /// From `at` on the application always has more to send, in full segments.
    pub(super) fn fill(&mut self, at: Instant) {
        self.fill_at = Some(at);
    }

    /// The segment up to which it has offered data now, and when there will be more. Segments below `in_socket` are in the socket.
    pub(super) fn offer_until(&mut self, conn: &Conn, in_socket: u64) -> (u64, Instant) {
        if self.fill_at.is_some_and(|at| at <= conn.now) {
            self.fill_at = None;
            self.begin_filler(conn);
        }
        let (offered, next) = self.offer_writes(conn, in_socket);
        (offered, self.fill_at.map_or(next, |at| at.min(next)))
    }

    /// The filler goes on in the last segment if that is not sent.
    fn begin_filler(&mut self, conn: &Conn) {
        self.fills = true;
        if self.short.back().is_some_and(|last| last.seq >= conn.snd_nxt) {
            self.short.pop_back();
        }
    }

    fn offer_writes(&mut self, conn: &Conn, in_socket: u64) -> (u64, Instant) {
        while let Some(&(at, bytes)) = self.planned.front() {
            if at > conn.now {
                return (self.limit_offer(conn), at);
            }
            self.planned.pop_front();
            if self.fills {
                self.add_between(bytes, conn, in_socket);
            } else {
                self.add(bytes, conn);
            }
        }
        (self.limit_offer(conn), Instant::NEVER)
    }

    /// The segment up to which there are data, those of a filler included.
    fn limit_offer(&self, conn: &Conn) -> u64 {
        if !self.fills {
            return self.segments;
        }
        let srtt_us = u64::from(conn.rtt.srtt_us()).max(1);
        let unsent = u64::from(conn.cwnd) * UNSENT.as_micros() / srtt_us;
        self.segments.max(conn.snd_nxt + unsent.clamp(LEAST_UNSENT, u64::from(conn.cwnd).max(LEAST_UNSENT)))
    }

    /// A write behind what is in the socket, which the filler goes on behind.
    fn add_between(&mut self, bytes: u64, conn: &Conn, in_socket: u64) {
        self.bytes += bytes;
        self.segments = self.segments.max(in_socket) + bytes.div_ceil(u64::from(conn.mss));
        self.ends.push_back(WriteEnd { segment: self.segments, bytes: self.bytes });
    }

    fn add(&mut self, mut bytes: u64, conn: &Conn) {
        let mss = u64::from(conn.mss);
        while let Some(first) = self.short.front().filter(|first| first.seq < conn.snd_una) {
            self.lacking += mss - u64::from(first.payload);
            self.short.pop_front();
        }
        self.bytes += bytes;
        if let Some(last) = self.short.back_mut().filter(|last| last.seq >= conn.snd_nxt) {
            let more = bytes.min(mss - u64::from(last.payload));
            last.payload += more as u32;
            bytes -= more;
            if last.payload == conn.mss {
                self.short.pop_back();
            }
        }
        self.segments += bytes / mss;
        if bytes % mss > 0 {
            self.short.push_back(ShortSegment { seq: self.segments, payload: (bytes % mss) as u32 });
            self.segments += 1;
        }
        self.ends.push_back(WriteEnd { segment: self.segments, bytes: self.bytes });
    }

    /// Payload of segment `seq`, of `mss` if it is full.
    pub(super) fn payload_at(&self, seq: u64, mss: u32) -> u32 {
        let place = self.short.partition_point(|one| one.seq < seq);
        self.short.get(place).filter(|one| one.seq == seq).map_or(mss, |one| one.payload)
    }

    /// Payload of all segments below `una`.
    pub(super) fn payload_below(&self, una: u64, mss: u32) -> u64 {
        let short = self.short.iter().take_while(|one| one.seq < una);
        let lacking: u64 = short.map(|one| u64::from(mss - one.payload)).sum();
        una * u64::from(mss) - self.lacking - lacking
    }

    /// Takes the end of the oldest write, bytes since the start, if the receiver has all segments below `next` in order and so all of it.
    pub fn take_end(&mut self, next: u64) -> Option<u64> {
        let end = *self.ends.front().filter(|end| end.segment <= next)?;
        self.ends.pop_front();
        Some(end.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::driver::conn;

    /// Segments of 1000 B, of which `sent` are sent and `acked` acknowledged, at 10 ms.
    fn connection_at(sent: u64, acked: u64) -> Conn {
        Conn { mss: 1000, snd_nxt: sent, snd_una: acked, now: Instant::from_millis(10), ..conn() }
    }

    #[test]
    fn a_write_fills_up_the_last_segment_until_that_is_sent() {
        let mut writes = PieceWrites::default();
        let now = Instant::from_millis(10);
        writes.plan(now, 2_300);
        assert_eq!(writes.offer_until(&connection_at(0, 0), 0), (3, Instant::NEVER));
        assert_eq!([0, 1, 2].map(|seq| writes.payload_at(seq, 1000)), [1000, 1000, 300]);
        // 300 + 500: still one segment; 200 more fill it, and 400 are left
        writes.plan(now, 500);
        assert_eq!((writes.offer_until(&connection_at(2, 0), 0).0, writes.payload_at(2, 1000)), (3, 800));
        writes.plan(now, 600);
        assert_eq!(writes.offer_until(&connection_at(2, 0), 0).0, 4);
        assert_eq!([2, 3].map(|seq| writes.payload_at(seq, 1000)), [1000, 400]);
        // the last segment is sent: 50 B are a segment of their own
        writes.plan(now, 50);
        assert_eq!(writes.offer_until(&connection_at(4, 2), 0).0, 5);
        assert_eq!([3, 4].map(|seq| writes.payload_at(seq, 1000)), [400, 50]);
        // 2300 + 500 + 600 + 50 = 3450
        assert_eq!([3, 4, 5].map(|una| writes.payload_below(una, 1000)), [3000, 3400, 3450]);
        // what is acknowledged is forgotten, and still counted
        writes.plan(now, 1_000);
        assert_eq!((writes.offer_until(&connection_at(5, 5), 0).0, writes.short.len()), (6, 0));
        assert_eq!([5, 6].map(|una| writes.payload_below(una, 1000)), [3450, 4450]);
    }

    #[test]
    fn the_end_of_a_write_is_reported_when_all_before_it_is_there() {
        let mut writes = PieceWrites::default();
        for bytes in [400, 400, 1_200] {
            writes.plan(Instant::from_millis(10), bytes);
        }
        // 2000 B in two segments: 400 and 800 lie in the first
        assert_eq!(writes.offer_until(&connection_at(0, 0), 0).0, 2);
        assert_eq!(writes.take_end(0), None);
        assert_eq!([1; 3].map(|next| writes.take_end(next)), [Some(400), Some(800), None]);
        assert_eq!([2; 2].map(|next| writes.take_end(next)), [Some(2000), None]);
    }

    #[test]
    fn nothing_is_offered_before_its_time() {
        let mut writes = PieceWrites::default();
        writes.plan(Instant::from_millis(10), 10);
        writes.plan(Instant::from_millis(11), 10);
        assert_eq!(writes.offer_until(&connection_at(0, 0), 0), (1, Instant::from_millis(11)));
        assert_eq!(writes.offer_until(&Conn { now: Instant::from_millis(11), ..connection_at(1, 0) }, 0), (2, Instant::NEVER));
    }

    #[test]
    fn a_filler_has_full_segments_and_writes_go_in_between() {
        let mut writes = PieceWrites::default();
        let now = Instant::from_millis(10);
        writes.plan(now, 300);
        writes.offer_until(&connection_at(0, 0), 0);
        writes.fill(now);
        // what was written first lies in a segment that is full now. 10 segments in 20 ms: 5 ms are 2.5 segments
        writes.offer_until(&connection_at(0, 0), 0);
        let sending = |sent| Conn { cwnd: 10, rtt: estimate(20), ..connection_at(sent, 0) };
        assert_eq!((writes.payload_at(0, 1000), writes.offer_until(&sending(4), 6)), (1000, (6, Instant::NEVER)));
        assert_eq!(writes.take_end(1), Some(300));
        // 100 B behind the six segments of the socket, in a segment of their own with the rest of the filler
        writes.plan(now, 100);
        assert_eq!(writes.offer_until(&sending(4), 6).0, 7);
        assert_eq!([6, 7].map(|next| writes.take_end(next)), [None, Some(400)]);
        assert_eq!((writes.payload_below(7, 1000), writes.payload_at(6, 1000)), (7_000, 1000));
        // of a slow connection as much as an ACK lets go, and of a fast one no more than its window
        assert_eq!(writes.offer_until(&Conn { cwnd: 4, ..sending(100) }, 100).0, 102);
        assert_eq!(writes.offer_until(&Conn { rtt: estimate(1), ..sending(100) }, 100).0, 110);
    }

    #[test]
    fn a_filler_begins_behind_a_short_segment_that_was_sent() {
        let mut writes = PieceWrites::default();
        writes.plan(Instant::from_millis(10), 300);
        writes.offer_until(&connection_at(0, 0), 0);
        writes.fill(Instant::from_millis(12));
        assert_eq!(writes.offer_until(&connection_at(1, 0), 1), (1, Instant::from_millis(12)));
        assert_eq!(writes.offer_until(&Conn { now: Instant::from_millis(12), ..connection_at(1, 0) }, 1).1, Instant::NEVER);
        assert_eq!((writes.payload_at(0, 1000), writes.payload_below(3, 1000)), (300, 2_300));
    }

    /// An estimate of this round trip.
    fn estimate(ms: u32) -> crate::rtt::RttEstimator {
        let mut rtt = crate::rtt::RttEstimator::new(200_000);
        rtt.sample(ms * 1000, 0, 0);
        rtt
    }
}
