//! State of every segment in flight: when it was last sent, whether it was selectively acknowledged,
//! thought lost, sent again. A ring indexed by segment number; selective acknowledgement, loss marking by time (RACK,
//! RFC 8985) and the choice of what to retransmit work on it.

use super::Block;
use crate::cc::conn::Conn;
use crate::prefetch::prefetch;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;
use std::ops::Range;

/// Bits of [`Segment::flags`], as Linux's `TCPCB_*`.
pub mod seg {
    /// Selectively acknowledged.
    pub const SACKED: u8 = 1;
    /// Thought lost.
    pub const LOST: u8 = 1 << 1;
    /// A retransmission of it is thought to be in flight.
    pub const RETRANS: u8 = 1 << 2;
    /// Was retransmitted at some time.
    pub const EVER_RETRANS: u8 = 1 << 3;
}

/// One segment in flight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    /// Last transmission.
    pub sent: Instant,
    /// Bits of [`seg`].
    pub flags: u8,
    /// Whether the segment is the last one of a burst.
    pub ends_burst: bool,
}

/// A [`Segment`] in 8 bytes: its time, of which 2^56 ns (2 years) fit, then [`ENDS_BURST`] and its flags. With thousands of flows these
/// are most of what lies in memory.
#[derive(Clone, Copy, Debug, Default)]
struct PackedSegment(u64);

/// Bit of a [`PackedSegment`] for [`Segment::ends_burst`].
const ENDS_BURST: u64 = 1 << 4;
/// Bits of a packed segment that hold [`seg`].
const FLAGS: u64 = ENDS_BURST - 1;

impl PackedSegment {
    #[inline(always)]
    fn new(segment: Segment) -> PackedSegment {
        debug_assert!(segment.sent.0 < 1 << 56);
        let ends = if segment.ends_burst { ENDS_BURST } else { 0 };
        PackedSegment(segment.sent.0 << 8 | ends | u64::from(segment.flags))
    }

    #[inline(always)]
    fn segment(self) -> Segment {
        Segment { sent: Instant(self.0 >> 8), flags: (self.0 & FLAGS) as u8, ends_burst: self.0 & ENDS_BURST != 0 }
    }
}

/// Segments that an ACK delivered, gathered while the scoreboard is updated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivered {
    /// Segments newly delivered, cumulatively or selectively.
    pub segments: u32,
    /// Segments cumulatively acknowledged by this ACK.
    pub acked: u32,
    /// First transmission time of the oldest newly acknowledged segment that was never retransmitted.
    pub first_acked: Option<Instant>,
    /// First transmission time of the newest one of these.
    pub last_acked: Option<Instant>,
    /// The oldest newly SACKed one, and the newest.
    pub first_sacked: Option<Instant>,
    /// The newest newly SACKed one.
    pub last_sacked: Option<Instant>,
    /// A segment was SACKed.
    pub data_sacked: bool,
    /// A retransmitted segment was cumulatively acknowledged.
    pub retransmission_acked: bool,
    /// A segment below `high_seq` that was never retransmitted was (S)ACKed: its first transmission arrived.
    pub original_sacked: bool,
}

/// Segments that an ACK acknowledges and that were each sent once, without any other state.
#[derive(Clone, Copy, Debug)]
pub struct PlainRow {
    /// How many of them end a burst.
    bursts: u32,
    /// When the first one was sent.
    pub first: Instant,
    /// When the last one was sent.
    pub last: Instant,
}

/// Sees what becomes of segments. `()` sees nothing and costs nothing.
pub trait Observer {
    /// Segment `seq` is newly delivered.
    fn on_delivered(&mut self, seq: u64, segment: &Segment);
    /// Segment `seq`, or its retransmission, is newly thought lost.
    fn on_lost(&mut self, seq: u64, segment: &Segment);
}

impl Observer for () {
    #[inline(always)]
    fn on_delivered(&mut self, _seq: u64, _segment: &Segment) {}
    #[inline(always)]
    fn on_lost(&mut self, _seq: u64, _segment: &Segment) {}
}

/// State of RACK: the most recently sent segment that was delivered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rack {
    /// When it was sent.
    pub sent: Instant,
    /// Number of the segment + 1.
    pub end_seq: u64,
    /// Round-trip time of the segment.
    pub rtt: Duration,
    /// Whether it changed since the last search for losses.
    pub advanced: bool,
}

impl Rack {
    /// A segment is newly delivered: the one before `end_seq`, sent at `sent`, `rtt` ago.
    #[inline(always)]
    fn newest(&mut self, sent: Instant, end_seq: u64, rtt: Duration) {
        self.advanced = true;
        self.rtt = rtt;
        if (sent, end_seq) > (self.sent, self.end_seq) {
            (self.sent, self.end_seq) = (sent, end_seq);
        }
    }
}

/// State that only flows with losses or SACK need. Most flows of a crowd have neither, and each byte of a flow counts: it is made when it is first
/// needed, and kept.
#[derive(Clone, Debug, Default)]
struct Repairs {
    /// Blocks of the last ACK with SACK: what they cover is known.
    known: [Block; 4],
    /// Retransmissions and probes in order of time, as (sent, segment); stale ones are skipped.
    retransmissions: VecDeque<(Instant, u64)>,
}

/// The ring.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Scoreboard {
    /// By the last bits of the segment number: its length is a power of two.
    ring: Box<[PackedSegment]>,
    /// Every segment below was delivered, marked lost or retransmitted at some time: RACK looks from here.
    rack_scan_from: u64,
    /// No segment below is lost and not yet retransmitted.
    pub retransmit_hint: u64,
    /// Segment after the highest one SACKed.
    pub highest_sacked: u64,
    /// Newest delivered segment.
    pub rack: Rack,
    repairs: Option<Box<Repairs>>,
    /// Bursts whose last segment is not acknowledged.
    pub bursts: u32,
}

impl Default for Scoreboard {
    fn default() -> Scoreboard {
        Scoreboard {
            ring: Box::new([PackedSegment::default()]),
            bursts: 0,
            rack_scan_from: 0,
            retransmit_hint: 0,
            repairs: None,
            highest_sacked: 0,
            rack: Rack::default(),
        }
    }
}

impl Scoreboard {
    /// Nothing is in flight. The memory stays: a segment is written before it is read.
    pub fn clear(&mut self) {
        let Scoreboard { ring: _, rack_scan_from, retransmit_hint, highest_sacked, rack, repairs, bursts } = self;
        (*bursts, *rack_scan_from, *retransmit_hint, *highest_sacked) = (0, 0, 0, 0);
        *rack = Rack::default();
        if let Some(repairs) = repairs {
            let Repairs { known, retransmissions } = &mut **repairs;
            *known = Default::default();
            retransmissions.clear();
        }
    }

    /// Returns the scoreboard without spare memory.
    #[cfg(test)]
    pub(super) fn without_memory(&self) -> Scoreboard {
        let used = |repairs: &Repairs| repairs.known != <[Block; 4]>::default() || !repairs.retransmissions.is_empty();
        let repairs = self.repairs.clone().filter(|repairs| used(repairs));
        Scoreboard { ring: Box::default(), repairs, ..self.clone() }
    }

    /// Bytes of memory in addition to the struct itself.
    pub fn heap_bytes(&self) -> usize {
        let repairs = self.repairs.as_ref().map_or(0, |repairs| size_of::<Repairs>() + repairs.retransmissions.capacity() * 16);
        size_of_val(&*self.ring) + repairs
    }

    /// Where segment `seq` is in the ring.
    #[inline(always)]
    fn place(&self, seq: u64) -> usize {
        seq as usize & (self.ring.len() - 1)
    }

    /// Segment `seq` will be looked at soon.
    #[inline]
    pub fn prefetch(&self, seq: u64) {
        prefetch(&self.ring[self.place(seq)]);
    }

    /// Segment `seq`, which must be in flight.
    #[inline(always)]
    pub fn get(&self, seq: u64) -> Segment {
        self.ring[self.place(seq)].segment()
    }

    #[inline(always)]
    fn set(&mut self, seq: u64, segment: Segment) {
        self.ring[self.place(seq)] = PackedSegment::new(segment);
    }

    #[inline(always)]
    fn set_flags(&mut self, seq: u64, flags: u8) {
        let packed = &mut self.ring[self.place(seq)];
        packed.0 = packed.0 & !FLAGS | u64::from(flags);
    }

    /// The segments `first..end` are sent for the first time, in one burst; `una` is the oldest in flight.
    #[inline(always)]
    pub fn push_burst(&mut self, first: u64, end: u64, una: u64, now: Instant) {
        while end - una > self.ring.len() as u64 {
            self.grow(una, first);
        }
        let last = end - 1;
        for seq in first..last {
            self.set(seq, Segment { sent: now, flags: 0, ends_burst: false });
        }
        self.set(last, Segment { sent: now, flags: 0, ends_burst: true });
        self.bursts += 1;
    }

    /// Segment `seq` is sent for the first time, at the end of a burst or within one.
    #[cfg(test)]
    pub fn push(&mut self, seq: u64, una: u64, now: Instant, ends_burst: bool) {
        self.push_burst(seq, seq + 1, una, now);
        self.set(seq, Segment { sent: now, flags: 0, ends_burst });
        self.bursts -= u32::from(!ends_burst);
    }

    #[cold]
    fn grow(&mut self, una: u64, end: u64) {
        let mut ring = vec![PackedSegment::default(); (2 * self.ring.len()).max(16)].into_boxed_slice();
        for seq in una..end {
            ring[seq as usize & (ring.len() - 1)] = self.ring[self.place(seq)];
        }
        self.ring = ring;
    }

    /// Segment `seq` is sent again.
    pub fn mark_retransmitted(&mut self, conn: &mut Conn, seq: u64, now: Instant) {
        let before = self.get(seq);
        conn.retrans_out += u32::from(before.flags & seg::RETRANS == 0);
        self.set(seq, Segment { sent: now, flags: before.flags | seg::RETRANS | seg::EVER_RETRANS, ..before });
        self.repairs.get_or_insert_default().retransmissions.push_back((now, seq));
    }

    /// Segment `seq` is sent again though it is not thought lost: no retransmission to wait for.
    pub fn mark_probed(&mut self, seq: u64, now: Instant) {
        let before = self.get(seq);
        self.set(seq, Segment { sent: now, flags: before.flags | seg::EVER_RETRANS, ..before });
        self.repairs.get_or_insert_default().retransmissions.push_back((now, seq));
    }

    /// Takes the cumulative acknowledgement of `conn.snd_una..ack`, and moves `snd_una` there. A packet sent at `tsecr`, ms, caused it.
    #[inline]
    pub fn acknowledge(
        &mut self,
        conn: &mut Conn,
        ack: u64,
        tsecr: u32,
        delivered: &mut Delivered,
        observer: &mut impl Observer,
    ) {
        for seq in conn.snd_una..ack {
            let segment = self.get(seq);
            self.bursts -= u32::from(segment.ends_burst);
            if segment.flags & seg::EVER_RETRANS != 0 {
                if segment.flags & seg::RETRANS != 0 {
                    conn.retrans_out -= 1;
                }
                delivered.retransmission_acked = true;
            } else if segment.flags & seg::SACKED == 0 {
                delivered.first_acked.get_or_insert(segment.sent);
                delivered.last_acked = Some(segment.sent);
                delivered.original_sacked |= seq < conn.high_seq;
            }
            if segment.flags & seg::SACKED != 0 {
                conn.sacked_out -= 1;
            } else {
                delivered.segments += 1;
                // an original that was late shows nothing of what was sent since. Linux tcp_skb_spurious_retrans
                if segment.flags & seg::EVER_RETRANS == 0 || u64::from(tsecr) >= segment.sent.as_millis() {
                    self.advance_rack(conn, seq, segment);
                }
                observer.on_delivered(seq, &segment);
            }
            if segment.flags & seg::LOST != 0 {
                conn.lost_out -= 1;
            }
        }
        delivered.acked = (ack - conn.snd_una) as u32;
        self.move_to(conn, ack);
    }

    /// Looks at the segments `una..ack` (`ack` above `una`), if each was sent once and has no other state.
    #[inline(always)]
    pub fn plain_row(&self, una: u64, ack: u64) -> Option<PlainRow> {
        let (PackedSegment(first), PackedSegment(last)) = (self.ring[self.place(una)], self.ring[self.place(ack - 1)]);
        let (mut all, mut bursts) = (first | last, (last / ENDS_BURST) & 1);
        for seq in una..ack - 1 {
            let PackedSegment(segment) = self.ring[self.place(seq)];
            all |= segment;
            bursts += (segment / ENDS_BURST) & 1;
        }
        let sent = |segment: u64| PackedSegment(segment).segment().sent;
        (all & FLAGS == 0).then_some(PlainRow { bursts: bursts as u32, first: sent(first), last: sent(last) })
    }

    /// [`Scoreboard::acknowledge`] for such a row.
    #[inline(always)]
    pub fn acknowledge_row(&mut self, conn: &mut Conn, ack: u64, row: &PlainRow) {
        self.bursts -= row.bursts;
        self.rack.newest(row.last, ack, conn.now - row.last);
        self.move_to(conn, ack);
    }

    /// Everything below `ack` is acknowledged.
    #[inline(always)]
    fn move_to(&mut self, conn: &mut Conn, ack: u64) {
        conn.snd_una = ack;
        self.rack_scan_from = self.rack_scan_from.max(ack);
        self.retransmit_hint = self.retransmit_hint.max(ack);
        self.highest_sacked = self.highest_sacked.max(ack);
    }

    /// Takes selective acknowledgements. Blocks outside `snd_una..snd_nxt` are cut to it. Returns the lowest segment that shows
    /// reordering: never retransmitted, and SACKed after one above it.
    pub fn sack(
        &mut self,
        conn: &mut Conn,
        blocks: &[Block],
        delivered: &mut Delivered,
        observer: &mut impl Observer,
    ) -> Option<u64> {
        let mut late = None;
        let known = self.repairs.as_ref().map_or_else(Default::default, |repairs| repairs.known);
        let mut kept: [Block; 4] = std::array::from_fn(|index| blocks.get(index).copied().unwrap_or_default());
        // in order of segments, whichever is the newest: the last one walked gives the RTT
        let sorted = &mut kept[..blocks.len().min(4)];
        sorted.sort_unstable();
        for &(start, end) in &*sorted {
            let end = end.min(conn.snd_nxt);
            let mut seq = start.max(conn.snd_una);
            while seq < end {
                let segment = self.get(seq);
                if segment.flags & seg::SACKED != 0 {
                    // the last ACK's blocks are all marked: step over them at once
                    let block = known.iter().find(|&&(s, e)| s <= seq && seq < e);
                    seq = block.map_or(seq + 1, |&(_, known_end)| known_end);
                    continue;
                }
                if seq < self.highest_sacked && segment.flags & seg::EVER_RETRANS == 0 {
                    late = Some(late.map_or(seq, |lowest: u64| lowest.min(seq)));
                }
                self.sack_one(conn, seq, segment, delivered, observer);
                seq += 1;
            }
            if start < end {
                self.highest_sacked = self.highest_sacked.max(end);
            }
        }
        self.repairs.get_or_insert_default().known = kept;
        late
    }

    /// The lowest segment of `range` that was neither retransmitted nor SACKed when it was acknowledged. Nothing must have been sent
    /// since.
    pub fn lowest_plain(&self, mut range: Range<u64>) -> Option<u64> {
        range.find(|&seq| self.get(seq).flags & (seg::SACKED | seg::EVER_RETRANS) == 0)
    }

    /// Segment `seq`, which was not SACKed before, is.
    #[inline(always)]
    fn sack_one(&mut self, conn: &mut Conn, seq: u64, segment: Segment, delivered: &mut Delivered, observer: &mut impl Observer) {
        self.advance_rack(conn, seq, segment);
        let mut flags = segment.flags;
        if flags & seg::RETRANS != 0 {
            // the retransmission is what arrived, or it is not needed any more
            if flags & seg::LOST != 0 {
                flags &= !(seg::LOST | seg::RETRANS);
                conn.lost_out -= 1;
                conn.retrans_out -= 1;
            }
        } else {
            if flags & seg::EVER_RETRANS == 0 {
                delivered.original_sacked |= seq < conn.high_seq;
                delivered.first_sacked.get_or_insert(segment.sent);
                delivered.last_sacked = Some(segment.sent);
            }
            if flags & seg::LOST != 0 {
                flags &= !seg::LOST;
                conn.lost_out -= 1;
            }
        }
        self.set_flags(seq, flags | seg::SACKED);
        observer.on_delivered(seq, &segment);
        conn.sacked_out += 1;
        delivered.segments += 1;
        delivered.data_sacked = true;
    }

    /// Segment `seq` arrived twice: no retransmission of it is waited for. Returns its flags from before.
    pub fn take_duplicate(&mut self, conn: &mut Conn, seq: u64) -> u8 {
        let before = self.get(seq).flags;
        self.set_flags(seq, before & !seg::RETRANS);
        conn.retrans_out -= u32::from(before & seg::RETRANS != 0);
        before
    }

    /// RFC 8985 section 6.2 step 2; Linux `tcp_rack_advance`.
    #[inline]
    fn advance_rack(&mut self, conn: &Conn, seq: u64, segment: Segment) {
        let rtt = conn.now - segment.sent;
        if segment.flags & seg::EVER_RETRANS != 0 && rtt.as_micros() < u64::from(conn.rtt.min_us()) {
            // faster than the path: the first transmission arrived, not this one
            return;
        }
        self.rack.newest(segment.sent, seq + 1, rtt);
    }

    /// Whether [`Scoreboard::detect_loss`] has nothing to look at: what it would begin with was sent after the newest delivered segment.
    #[inline]
    pub fn is_nothing_late(&self, conn: &Conn) -> bool {
        let rack = &self.rack;
        let seq = self.rack_scan_from.max(conn.snd_una);
        let is_newer = |segment: Segment| {
            segment.flags & (seg::SACKED | seg::LOST | seg::EVER_RETRANS) == 0
                && (rack.sent, rack.end_seq) <= (segment.sent, seq + 1)
        };
        (seq >= conn.snd_nxt || is_newer(self.get(seq))) && self.retransmission(0).is_none_or(|(sent, _)| sent > rack.sent)
    }

    /// Marks lost what was sent so long before the newest delivered segment that it should have arrived: its round-trip
    /// time plus `reo_wnd` is over. Returns (newly lost, retransmissions lost, time until the next would be).
    pub fn detect_loss(&mut self, conn: &mut Conn, reo_wnd: Duration, observer: &mut impl Observer) -> (u32, u32, Duration) {
        let (mut lost, mut lost_again, mut wait) = (0, 0, Duration::ZERO);
        let rack = self.rack;
        let due = rack.rtt + reo_wnd;
        let mut passed = true;
        let mut seq = self.rack_scan_from.max(conn.snd_una);
        while seq < conn.snd_nxt {
            let segment = self.get(seq);
            if segment.flags & (seg::SACKED | seg::LOST | seg::EVER_RETRANS) == 0 {
                if (rack.sent, rack.end_seq) <= (segment.sent, seq + 1) {
                    break;
                }
                let waited = conn.now - segment.sent;
                if waited >= due {
                    self.mark_lost(conn, seq, observer);
                    lost += 1;
                } else {
                    wait = wait.max(due - waited);
                    passed = false;
                }
            }
            seq += 1;
            if passed {
                self.rack_scan_from = seq;
            }
        }
        // they are in order of time: if the oldest is newer than what was delivered last, nothing shows of any
        if self.retransmission(0).is_none_or(|(sent, _)| sent > rack.sent) {
            return (lost, 0, wait);
        }
        self.forget_stale(conn);
        for index in 0.. {
            let Some((sent, again)) = self.retransmission(index) else { break };
            if sent > rack.sent {
                break;
            }
            if !self.is_current(conn, sent, again) {
                continue;
            }
            if (rack.sent, rack.end_seq) <= (sent, again + 1) {
                break;
            }
            let waited = conn.now - sent;
            if waited >= due {
                // or a probe, which is lost for the first time
                let retransmitted = self.get(again).flags & seg::RETRANS != 0;
                self.mark_lost(conn, again, observer);
                lost_again += u32::from(retransmitted);
                lost += u32::from(!retransmitted);
            } else {
                wait = wait.max(due - waited);
            }
        }
        if lost + lost_again > 0 {
            self.forget_stale(conn);
        }
        (lost, lost_again, wait)
    }

    /// Forgets the oldest retransmissions and probes that nothing depends on any more.
    #[inline]
    fn forget_stale(&mut self, conn: &Conn) {
        while self.retransmission(0).is_some_and(|(sent, again)| !self.is_current(conn, sent, again)) {
            if let Some(repairs) = &mut self.repairs {
                repairs.retransmissions.pop_front();
            }
        }
    }

    /// Number `index` of the remembered retransmissions and probes, as (sent, segment), the oldest first.
    #[inline]
    fn retransmission(&self, index: usize) -> Option<(Instant, u64)> {
        self.repairs.as_ref()?.retransmissions.get(index).copied()
    }

    /// Whether a remembered retransmission or probe is still the last one of its segment, and in flight.
    fn is_current(&self, conn: &Conn, sent: Instant, seq: u64) -> bool {
        seq >= conn.snd_una && {
            let segment = self.get(seq);
            segment.sent == sent && segment.flags & seg::SACKED == 0 && segment.flags & (seg::LOST | seg::RETRANS) != seg::LOST
        }
    }

    /// Segment `seq` is thought lost, or its retransmission is. Returns whether it was not before.
    pub fn mark_lost(&mut self, conn: &mut Conn, seq: u64, observer: &mut impl Observer) -> bool {
        let flags = self.get(seq).flags;
        if flags & seg::SACKED != 0 {
            return false;
        }
        conn.lost_out += u32::from(flags & seg::LOST == 0);
        conn.retrans_out -= u32::from(flags & seg::RETRANS != 0);
        self.set_flags(seq, (flags | seg::LOST) & !seg::RETRANS);
        let newly = flags & (seg::LOST | seg::RETRANS) != seg::LOST;
        if newly {
            observer.on_lost(seq, &self.get(seq));
        }
        self.retransmit_hint = self.retransmit_hint.min(seq);
        newly
    }

    /// Takes back every loss mark: the losses were spurious.
    pub fn unmark_all(&mut self, conn: &mut Conn) {
        for seq in conn.snd_una..conn.snd_nxt {
            self.set_flags(seq, self.get(seq).flags & !seg::LOST);
        }
        conn.lost_out = 0;
        // what was unmarked and never sent again is RACK's to look at once more
        self.rack_scan_from = conn.snd_una;
    }

    /// The next segment to retransmit: lost, and not retransmitted since.
    pub fn next_retransmission(&mut self, conn: &Conn) -> Option<u64> {
        let mut seq = self.retransmit_hint.max(conn.snd_una);
        while seq < conn.snd_nxt && self.get(seq).flags & (seg::LOST | seg::RETRANS | seg::SACKED) != seg::LOST {
            seq += 1;
        }
        self.retransmit_hint = seq;
        (seq < conn.snd_nxt).then_some(seq)
    }
}
