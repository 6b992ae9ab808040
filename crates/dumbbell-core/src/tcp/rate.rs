//! Delivery-rate samples, for controls that ask for them: Linux `tcp_rate.c`, draft-cheng-iccrg-delivery-rate-estimation.
//!
//! The record of a segment lies in a ring next to the scoreboard's. A segment here is one MSS, where Linux keeps a whole burst in
//! one `sk_buff`: all segments of a burst carry the same stamps, and the count in flight with all of the burst. So parts of a burst that
//! are acknowledged apart keep the count of the whole, which Linux's BBRv2 and v3 divide among them.

use super::scoreboard::{seg, Observer, Segment};
use crate::cc::conn::Conn;
use crate::cc::interface::{LossEvent, RateSample};
use crate::prefetch::prefetch;

/// Record of a segment since it was last sent, in a cache line of its own. Times are us.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct SentRecord {
    sent: u64,
    /// The connection's `first_sent` then.
    first_sent: u64,
    /// The connection's `delivered_at` then.
    delivered_at: u64,
    delivered: u64,
    delivered_ce: u64,
    lost: u64,
    in_flight: u32,
    /// Segments of its burst behind it.
    behind: u16,
    app_limited: bool,
}

/// The newest segment that the present ACK delivers.
#[derive(Clone, Copy, Debug)]
struct Newest {
    seq: u64,
    /// Sending time of its record.
    sent: u64,
    retransmitted: bool,
}

/// Linux `delivered_mstamp`, `first_tx_mstamp`, `app_limited`, `lost`, and what each `sk_buff` holds.
#[derive(Clone, Debug)]
pub(super) struct RateSampler {
    ring: Vec<SentRecord>,
    /// When something was last delivered, us.
    delivered_at: u64,
    /// When the newest delivered segment was sent, us.
    first_sent: u64,
    /// The application's pause is over when more than this has been delivered; 0: there is none.
    app_limited: u64,
    /// Loss marks so far.
    lost: u64,
    /// The segment that a tail-loss probe repeated was sent while the application was the limit. Linux `tlp_orig_data_app_limited`.
    pub probed_app_limited: bool,
    newest: Option<Newest>,
    /// Segments below this that were not sent since have no record, as `sk_buff`s without `tx.delivered_mstamp`: their control asked for no samples.
    recorded_from: u64,
    /// Loss marks that the control has not received yet.
    pub losses: Vec<LossEvent>,
    /// The last sample, if samples are asked for.
    kept: Option<Box<Option<RateSample>>>,
}

impl Observer for RateSampler {
    #[inline]
    fn on_delivered(&mut self, seq: u64, segment: &Segment) {
        let sent = self.record(seq).sent;
        let newer = self.newest.is_none_or(|newest| (sent, seq) > (newest.sent, newest.seq));
        if newer {
            let retransmitted = segment.flags & seg::EVER_RETRANS != 0;
            self.newest = Some(Newest { seq, sent, retransmitted });
        }
    }

    fn on_lost(&mut self, seq: u64, segment: &Segment) {
        self.lost += 1;
        let record = *self.record(seq);
        if self.lacks_record(seq, &record) {
            return;
        }
        self.losses.push(LossEvent {
            seq,
            tx_in_flight: record.in_flight - u32::from(record.behind),
            lost: (self.lost - record.lost) as u32,
            is_app_limited: record.app_limited,
            sent: segment.sent,
        });
    }
}

impl RateSampler {
    pub fn new() -> RateSampler {
        RateSampler {
            ring: vec![SentRecord::default(); 16],
            delivered_at: 0,
            first_sent: 0,
            app_limited: 0,
            lost: 0,
            probed_app_limited: false,
            recorded_from: 0,
            newest: None,
            losses: Vec::new(),
            kept: None,
        }
    }

    /// For a connection that has segments in flight, which were not recorded.
    pub fn begin_amid(conn: &Conn) -> RateSampler {
        let now = conn.now.as_micros();
        let most = (u64::from(conn.packets_out()) + 1).next_power_of_two().max(16);
        RateSampler {
            ring: vec![SentRecord::default(); most as usize],
            delivered_at: now,
            first_sent: now,
            recorded_from: conn.snd_nxt,
            ..RateSampler::new()
        }
    }

    /// Whether segment `seq` was sent before segments were recorded.
    #[inline]
    fn lacks_record(&self, seq: u64, record: &SentRecord) -> bool {
        seq < self.recorded_from && record.sent == 0
    }

    /// Keeps the sample of an ACK for [`RateSampler::take_kept`].
    #[inline]
    pub fn keep(&mut self, sample: &RateSample) {
        if let Some(kept) = &mut self.kept {
            **kept = Some(*sample);
        }
    }

    /// The last sample, once; from now on samples are kept.
    pub fn take_kept(&mut self) -> Option<RateSample> {
        self.kept.get_or_insert_default().take()
    }

    pub fn heap_bytes(&self) -> usize {
        self.ring.capacity() * std::mem::size_of::<SentRecord>() + self.losses.capacity() * std::mem::size_of::<LossEvent>()
    }

    fn record(&self, seq: u64) -> &SentRecord {
        &self.ring[seq as usize & (self.ring.len() - 1)]
    }

    /// Segment `seq` will be delivered soon.
    #[inline]
    pub fn prefetch(&self, seq: u64) {
        prefetch(self.record(seq));
    }

    /// A burst `seq..seq + segments` is sent, or sent again; `conn` is as before it. Linux `tcp_rate_skb_sent`.
    pub fn record_send(&mut self, conn: &Conn, seq: u64, segments: u32) {
        let now = conn.now.as_micros();
        if conn.packets_out() == 0 {
            self.first_sent = now;
            self.delivered_at = now;
        }
        while self.ring.len() as u64 <= seq + u64::from(segments) - conn.snd_una {
            self.grow(conn);
        }
        let record = SentRecord {
            sent: now,
            first_sent: self.first_sent,
            delivered_at: self.delivered_at,
            delivered: conn.delivered,
            delivered_ce: conn.delivered_ce,
            lost: self.lost,
            in_flight: conn.in_flight() + segments,
            behind: 0,
            app_limited: self.app_limited > 0,
        };
        let mask = self.ring.len() - 1;
        for (number, behind) in (seq..seq + u64::from(segments)).zip((0..segments as u16).rev()) {
            self.ring[number as usize & mask] = SentRecord { behind, ..record };
        }
    }

    #[cold]
    fn grow(&mut self, conn: &Conn) {
        let mut ring = vec![SentRecord::default(); 2 * self.ring.len()];
        let mask = ring.len() - 1;
        for seq in conn.snd_una..conn.snd_nxt {
            ring[seq as usize & mask] = *self.record(seq);
        }
        self.ring = ring;
    }

    /// Marks samples as limited until all that is in flight now is delivered: they do not show what the path carries.
    pub fn limit(&mut self, conn: &Conn) {
        self.app_limited = (conn.delivered + u64::from(conn.in_flight())).max(1);
    }

    /// Segment `seq` is about to be sent again as a tail-loss probe.
    pub fn note_probe(&mut self, seq: u64) {
        self.probed_app_limited = self.record(seq).app_limited;
    }

    /// Marks a pause of the application: `unsent` segments wait to be sent. Linux `tcp_rate_check_app_limited`.
    pub fn check_app_limited(&mut self, conn: &Conn, unsent: u64) {
        if unsent == 0 && conn.in_flight() < conn.cwnd && conn.lost_out <= conn.retrans_out {
            self.limit(conn);
        }
    }

    /// The application is the limit of what is sent now.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited > 0
    }

    /// Adds to `sample` what was measured, once per ACK, when its losses are known. Linux `tcp_rate_gen`.
    pub fn finish(&mut self, conn: &Conn, sample: &mut RateSample) {
        if self.app_limited > 0 && conn.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let now = conn.now.as_micros();
        if sample.ack_delivered > 0 {
            self.delivered_at = now;
        }
        let Some(Newest { seq, retransmitted, .. }) = self.newest.take() else { return };
        // nothing was sent since it was delivered
        let record = *self.record(seq);
        if self.lacks_record(seq, &record) {
            return;
        }
        self.first_sent = record.sent;
        let sending = record.sent - record.first_sent;
        let acknowledging = now - record.delivered_at;
        let interval = sending.max(acknowledging);
        sample.sample_delivered = Some((conn.delivered - record.delivered) as u32);
        sample.sample_marked = (conn.delivered_ce - record.delivered_ce) as u32;
        sample.sample_lost = (self.lost - record.lost) as u32;
        sample.prior_delivered = record.delivered;
        sample.prior_delivered_ce = record.delivered_ce;
        sample.tx_in_flight = record.in_flight;
        sample.is_app_limited = record.app_limited;
        sample.is_retrans = retransmitted;
        // shorter than the path: a retransmission that was acknowledged too early
        sample.interval_us = (interval >= u64::from(conn.rtt.min_us())).then_some(interval);
    }
}

#[cfg(test)]
mod tests {
    use super::super::scoreboard::{Delivered, Scoreboard};
    use super::*;
    use crate::cc::driver::conn;
    use crate::units::Instant;

    #[test]
    fn segments_that_left_before_a_control_asked_give_no_sample() {
        let mut flight = Flight::new();
        flight.send(20_001, 4);
        flight.conn.now = Instant::from_micros(30_000);
        flight.rate = RateSampler::begin_amid(&flight.conn);
        // two of the four, and a loss among them, which nobody hears of
        assert_eq!(flight.ack(40_002, 2, &[]).sample_delivered, None);
        flight.lose(2);
        assert!(flight.rate.losses.is_empty());
        // what is sent again is recorded, and so is what is new: the SYN and two segments had been delivered then
        flight.resend(45_000, 2);
        flight.send(45_000, 1);
        let sample = flight.ack(66_000, 5, &[]);
        // 6 are now, 66 - 40.002 ms after the delivery before
        assert_eq!((sample.sample_delivered, sample.interval_us), (Some(3), Some(25_998)));
    }

    /// A sender whose handshake took 20001 us: nothing is in flight, the SYN counts as delivered.
    struct Flight {
        conn: Conn,
        board: Scoreboard,
        rate: RateSampler,
    }

    impl Flight {
        fn new() -> Flight {
            let mut conn = Conn { snd_nxt: 0, delivered: 1, cwnd: 100, ..conn() };
            conn.rtt.sample_min(20_001, Instant::ZERO);
            Flight { conn, board: Scoreboard::default(), rate: RateSampler::new() }
        }

        /// A burst of `segments` at `us`.
        fn send(&mut self, us: u64, segments: u32) {
            self.conn.now = Instant::from_micros(us);
            self.rate.record_send(&self.conn, self.conn.snd_nxt, segments);
            for _ in 0..segments {
                self.board.push(self.conn.snd_nxt, self.conn.snd_una, self.conn.now, false);
                self.conn.snd_nxt += 1;
            }
        }

        fn resend(&mut self, us: u64, seq: u64) {
            self.conn.now = Instant::from_micros(us);
            self.rate.record_send(&self.conn, seq, 1);
            self.board.mark_retransmitted(&mut self.conn, seq, Instant::from_micros(us));
        }

        fn lose(&mut self, seq: u64) {
            self.board.mark_lost(&mut self.conn, seq, &mut self.rate);
        }

        /// An ACK of everything below `ack` and of the segments `sacked` at `us`, as the sender takes it.
        fn ack(&mut self, us: u64, ack: u64, sacked: &[(u64, u64)]) -> RateSample {
            self.conn.now = Instant::from_micros(us);
            let mut delivered = Delivered::default();
            self.board.sack(&mut self.conn, sacked, &mut delivered, &mut self.rate);
            if ack > self.conn.snd_una {
                self.board.acknowledge(&mut self.conn, ack, u32::MAX, &mut delivered, &mut self.rate);
            }
            self.conn.delivered += u64::from(delivered.segments);
            if let (false, Some(last)) = (delivered.retransmission_acked, delivered.last_acked.or(delivered.last_sacked)) {
                self.conn.rtt.sample_min((self.conn.now - last).as_micros() as u32, self.conn.now);
            }
            let mut sample = RateSample { ack_delivered: delivered.segments, ..RateSample::default() };
            self.rate.finish(&self.conn, &mut sample);
            sample
        }
    }

    /// Delivered, interval and `delivered` when the segment was sent.
    fn figures(sample: RateSample) -> (Option<u32>, Option<u64>, u64) {
        (sample.sample_delivered, sample.interval_us, sample.prior_delivered)
    }

    #[test]
    fn the_first_burst_is_measured_from_its_sending() {
        // sent into an empty network, both clocks begin at 0: sending takes 0 - 0, acknowledging 20001 - 0; 3 - 1 = 2 delivered
        let mut flight = Flight::new();
        flight.send(0, 2);
        assert_eq!(figures(flight.ack(20_001, 2, &[])), (Some(2), Some(20_001), 1));
        // a new smallest RTT is known before the sample is judged: valid
        let mut faster = Flight::new();
        faster.send(0, 2);
        assert_eq!(figures(faster.ack(19_990, 2, &[])), (Some(2), Some(19_990), 1));
    }

    #[test]
    fn the_interval_is_the_longer_of_sending_and_acknowledging() {
        // bursts of 2 every 2400 us, acknowledged every 2400 us from 20001 on. The 4th was sent when 1 was delivered, and nothing had been
        // since 0: sending 7200 - 0, acknowledging 27201 - 0; 9 - 1 = 8 delivered
        let mut flight = Flight::new();
        for n in 0..4 {
            flight.send(2_400 * n, 2);
        }
        let samples: Vec<RateSample> = (0..4).map(|n| flight.ack(20_001 + 2_400 * n, 2 * (n + 1), &[])).collect();
        assert_eq!(figures(samples[3]), (Some(8), Some(27_201), 1));
        // each with its whole burst: 2, 4, 6, 8 in flight
        assert_eq!(samples.iter().map(|sample| sample.tx_in_flight).collect::<Vec<_>>(), [2, 4, 6, 8]);
        // a compressed ACK: 4 sent over 40000 us after the ACK at 27201, all acknowledged at once: sending counts. The first of them restarts
        // both clocks, for the network was empty
        flight.send(40_000, 2);
        flight.send(80_000, 2);
        let sample = flight.ack(100_001, 12, &[]);
        assert_eq!(figures(sample), (Some(4), Some(60_001), 9));
        let mut early = Flight::new();
        early.send(0, 2);
        early.ack(20_001, 1, &[]);
        early.send(30_000, 1);
        // segment 1 (sent at 0) and 2 (at 30000) together at 51000: of the newer one sending is 30000 - 0, acknowledging 51000 - 20001
        assert_eq!(figures(early.ack(51_000, 3, &[])), (Some(2), Some(30_999), 2));
    }

    #[test]
    fn marks_are_those_since_the_segment_was_sent() {
        // 3 marks were known when the second burst left, 5 when it is acknowledged
        let mut flight = Flight::new();
        flight.send(0, 2);
        flight.conn.delivered_ce = 3;
        flight.send(2_400, 2);
        flight.conn.delivered_ce = 5;
        let [first, second] = [flight.ack(20_001, 2, &[]), flight.ack(22_401, 4, &[])];
        assert_eq!((first.prior_delivered_ce, first.sample_marked), (0, 5));
        assert_eq!((second.prior_delivered_ce, second.sample_marked), (3, 2));
    }

    #[test]
    fn a_retransmission_that_is_acknowledged_too_early_gives_no_rate() {
        // 0 and 1 of 6 seem lost; the originals are acknowledged soon after they were sent again
        let mut flight = Flight::new();
        flight.send(0, 6);
        assert_eq!(figures(flight.ack(20_001, 0, &[(2, 6)])), (Some(4), Some(20_001), 1));
        flight.lose(0);
        flight.lose(1);
        flight.resend(20_501, 0);
        // the newest delivered segment before it was sent at 0: sending took 20501 us, acknowledging 23501 - 20001
        assert_eq!(figures(flight.ack(23_501, 1, &[])), (Some(1), Some(20_501), 5));
        flight.resend(23_601, 1);
        // now it is the first retransmission: sending took 23601 - 20501 us, acknowledging 26501 - 23501, both less than the path
        let sample = flight.ack(26_501, 6, &[]);
        // 7 - 6 delivered; what is delivered and lost stays valid
        assert_eq!((figures(sample), sample.is_retrans, sample.sample_lost), ((Some(1), None, 6), true, 0));
    }

    #[test]
    fn an_ack_that_delivers_nothing_gives_no_sample() {
        let mut flight = Flight::new();
        flight.send(0, 4);
        flight.ack(20_001, 0, &[(2, 3)]);
        let again = flight.ack(20_100, 0, &[(2, 3)]);
        assert_eq!((figures(again), again.ack_delivered), ((None, None, 0), 0));
        // a segment that was SACKed gives none when it is acknowledged cumulatively: the sample is of segment 1
        let sample = flight.ack(21_000, 3, &[]);
        assert_eq!((figures(sample), sample.ack_delivered), ((Some(3), Some(21_000), 1), 2));
    }

    #[test]
    fn a_pause_of_the_application_ends_when_what_was_in_flight_is_delivered() {
        let mut flight = Flight::new();
        flight.conn.delivered = 20;
        flight.send(0, 10);
        flight.rate.check_app_limited(&flight.conn, 1);
        assert_eq!(flight.rate.app_limited, 0, "something waits to be sent");
        flight.rate.check_app_limited(&flight.conn, 0);
        // 20 + 10
        assert_eq!(flight.rate.app_limited, 30);
        flight.send(100, 2);
        // the ACK that brings `delivered` to 30 is not beyond it, the next one is
        assert!(!flight.ack(20_001, 10, &[]).is_app_limited && flight.rate.app_limited == 30);
        flight.send(20_002, 1);
        assert!(flight.ack(20_101, 11, &[]).is_app_limited && flight.rate.app_limited == 0);
        // what was sent in the pause is marked
        flight.send(20_200, 1);
        assert!(flight.ack(20_300, 12, &[]).is_app_limited);
        assert!(flight.ack(40_100, 13, &[]).is_app_limited);
        assert!(!flight.ack(40_300, 14, &[]).is_app_limited);
        // a full window, or losses to repair, are not the application's doing
        flight.conn.cwnd = 0;
        flight.rate.check_app_limited(&flight.conn, 0);
        flight.conn.cwnd = 10;
        flight.send(50_000, 2);
        flight.lose(14);
        flight.rate.check_app_limited(&flight.conn, 0);
        assert_eq!(flight.rate.app_limited, 0);
    }

    #[test]
    fn each_loss_mark_tells_what_was_in_flight_and_lost_since_the_segment_was_sent() {
        let mut flight = Flight::new();
        flight.send(0, 4);
        flight.send(100, 2);
        flight.lose(0);
        flight.lose(4);
        // once lost, a segment counts again only when its retransmission is lost
        flight.lose(0);
        flight.resend(30_000, 0);
        flight.lose(0);
        let losses: Vec<(u64, u32, u32)> =
            flight.rate.losses.iter().map(|loss| (loss.seq, loss.tx_in_flight, loss.lost)).collect();
        // the first of the first burst was alone, the first of the second the fifth; the retransmission made 6 - 2 + 1 = 5, after two losses
        assert_eq!(losses, [(0, 1, 1), (4, 5, 2), (0, 5, 1)]);
        let times: Vec<Instant> = flight.rate.losses.iter().map(|loss| loss.sent).collect();
        assert_eq!(times, [0, 100, 30_000].map(Instant::from_micros));
    }

    #[test]
    fn the_ring_grows_with_what_is_in_flight() {
        let mut flight = Flight::new();
        for n in 0..100 {
            flight.send(10 * n, 3);
        }
        // the last segment of the first burst, and one from the middle
        assert_eq!(flight.ack(20_001, 3, &[]).tx_in_flight, 3);
        assert_eq!(flight.ack(20_501, 153, &[]).tx_in_flight, 153);
    }
}
