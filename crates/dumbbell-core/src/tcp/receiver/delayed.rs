//! When data are acknowledged: delayed ACKs with a quick-ack start, and the compression of SACKs.

use super::{Receiver, NONE_EXPECTED};
use crate::hint::{likely, unlikely};
use crate::tcp::host::HostParams;
use crate::tcp::Ack;
use crate::units::{timer_wheel, Duration, Instant};

/// Linux `TCP_ATO_MIN`, `TCP_DELACK_MIN`: 40 ms.
pub(super) const ATO_MIN_MS: u32 = 40;
/// Linux `HZ / 2`: the longest delay of an ACK between distant segments.
const ATO_LIMIT_MS: u32 = 500;
/// Linux `TCP_DELACK_MAX`: 200 ms.
const DELACK_MAX_MS: u16 = 200;
/// Linux `TCP_TIMEOUT_MIN`.
const TIMEOUT_MIN_MS: u64 = 2;
/// Linux `TCP_MAX_QUICKACKS`.
pub(super) const MAX_QUICKACKS: u8 = 16;
/// Number of immediate ACKs if the window is smaller than two segments (Linux `tcp_incr_quickack`).
const LEAST_QUICKACKS: u32 = 2;
/// Duplicate acknowledgements that are never held back (Linux `TCP_FASTRETRANS_THRESH`).
const UNCOMPRESSED_DUPACKS: u32 = 3;
/// Sysctl `tcp_comp_sack_nr`.
const COMPRESSED_ACKS: u8 = 44;
/// Sysctl `tcp_comp_sack_delay_ns`.
const COMPRESSION_DELAY: Duration = Duration::from_millis(1);
/// The ACKs that are held back leave after this fraction of the round trip, if that is shorter (`__tcp_ack_snd_check`).
const COMPRESSION_SHARE: u64 = 20;

/// Returns the longest delay of an ACK.
pub(super) fn delay_max_ms(host: &HostParams) -> u16 {
    let before_rto = host.rto_min.as_millis().saturating_sub(1).max(TIMEOUT_MIN_MS);
    if host.ack_delay_bound {
        before_rto.min(u64::from(DELACK_MAX_MS)) as u16
    } else {
        DELACK_MAX_MS
    }
}

impl Receiver {
    /// Feeds the estimator of delayed ACKs with data in order. Linux `tcp_event_data_recv`.
    pub(super) fn note_arrival(&mut self, now: Instant) {
        if self.ato_ms == 0 {
            self.raise_quick(MAX_QUICKACKS);
            self.ato_ms = ATO_MIN_MS;
        } else {
            let gap = (now.as_millis() - self.last_data.as_millis()).min(1 << 30) as u32;
            if gap <= ATO_MIN_MS / 2 {
                self.ato_ms = (self.ato_ms >> 1) + ATO_MIN_MS / 2;
            } else if gap < self.ato_ms {
                self.ato_ms = ((self.ato_ms >> 1) + gap).min(self.ato_max_ms());
            } else if gap > self.rto_ms() {
                self.raise_quick(MAX_QUICKACKS);
            }
        }
    }

    /// Returns the receiver's own RTO in whole jiffies. It comes from the round trip of the handshake, whose variance is half of it and counts four
    /// times.
    fn rto_ms(&self) -> u32 {
        (self.srtt_us + (2 * self.srtt_us).max(self.host.rto_min_us())).div_ceil(1000)
    }

    /// Returns the largest estimate of the time between segments.
    fn ato_max_ms(&self) -> u32 {
        let rto = self.rto_ms();
        if self.host.ack_delay_bound {
            rto.min(u32::from(DELACK_MAX_MS))
        } else {
            rto
        }
    }

    /// Allows as many immediate ACKs as acknowledge the window, `most` at the most. Linux `tcp_incr_quickack`.
    pub(super) fn raise_quick(&mut self, most: u8) {
        let count = match self.advertised / (2 * self.host.mss) {
            0 => LEAST_QUICKACKS,
            whole => whole,
        };
        self.quick = self.quick.max(count.min(u32::from(most)) as u8);
    }

    pub(super) fn enter_quickack(&mut self, most: u8) {
        self.raise_quick(most);
        self.ato_ms = ATO_MIN_MS;
    }

    /// Returns the ACK that leaves now; without one, a timer or the next data in order cause it. The decision is made when a packet is taken (Linux
    /// `__tcp_ack_snd_check`), and again when the application has read (`__tcp_cleanup_rbuf`). The segment that arrived is `alone` in the buffer or not.
    #[inline(always)]
    pub(super) fn check_ack(&mut self, now: Instant, alone: bool) -> Option<Ack> {
        let two_segments = self.rcv_nxt - self.acked > 1;
        let at_once = (two_segments && self.offers_as_much(alone)) || self.quick > 0 || self.ack_now || !self.host.delayed_ack;
        if at_once || !self.holds_back(now) {
            return Some(self.acknowledge(now, false, alone));
        }
        if unlikely(two_segments || self.is_pushed) {
            return Some(self.acknowledge(now, true, alone));
        }
        None
    }

    /// Returns whether an ACK that no packet needs at once is held back.
    #[inline(never)]
    fn holds_back(&mut self, now: Instant) -> bool {
        if likely(!self.has_gaps) {
            return self.delay_ack(now);
        }
        if !self.host.sack_compression || self.compressed >= COMPRESSED_ACKS {
            return false;
        }
        if self.compressed_nxt != self.rcv_nxt {
            self.compressed_nxt = self.rcv_nxt;
            self.dup_acks = 0;
        }
        if self.dup_acks < UNCOMPRESSED_DUPACKS {
            self.dup_acks += 1;
            return false;
        }
        self.compressed += 1;
        if self.compressed_at == Instant::NEVER {
            // a soft timer runs at the end of its slack, unless another one of the host runs in between
            let rtt = Duration::from_micros(u64::from(self.window.rtt_us().min(self.srtt_us.max(1))));
            self.compressed_at = now + COMPRESSION_DELAY.min(rtt / COMPRESSION_SHARE) + self.host.sack_compression_slack;
        }
        true
    }

    /// When the delayed ACK that is pending fires. Most are never asked for it, so that the wheel rounds only then.
    pub(super) fn delack_at(&self) -> Instant {
        if self.delack_due == Instant::NEVER {
            return Instant::NEVER;
        }
        let delay = Duration::from_millis(u64::from(self.delack_ms));
        timer_wheel(self.delack_due - delay, delay)
    }

    /// Sets the timer for an ACK that is held back; returns false if it would be due too soon. Linux `tcp_send_delayed_ack`.
    #[inline(always)]
    pub(super) fn delay_ack(&mut self, now: Instant) -> bool {
        let mut ato = self.ato_ms;
        if unlikely(ato > ATO_MIN_MS) {
            let mut limit = ATO_LIMIT_MS;
            if self.srtt_us > 0 {
                limit = limit.min(self.srtt_us.div_ceil(1000).max(ATO_MIN_MS));
            }
            ato = ato.min(limit);
        }
        let delay = ato.min(u32::from(self.delay_max_ms)) as u16;
        if unlikely(self.delack_due != Instant::NEVER) {
            let left = self.delack_jiffies_left(now);
            if left <= i64::from(ato >> 2) {
                return false;
            }
            if left <= i64::from(delay) {
                return true;
            }
        }
        self.delack_ms = delay;
        self.delack_due = now + Duration::from_millis(u64::from(delay));
        true
    }

    /// Returns the jiffies from `now` to the one that the pending ACK was set to.
    #[inline(never)]
    fn delack_jiffies_left(&self, now: Instant) -> i64 {
        // a delay of whole jiffies
        self.delack_due.as_millis() as i64 - now.as_millis() as i64
    }

    /// Returns the ACK that was held back until the time that [`Receiver::next_timer`] gave, or the SYN-ACK that is sent again.
    pub fn on_timer(&mut self, now: Instant) -> Option<Ack> {
        if self.next_timer() > now {
            return None;
        }
        if unlikely(self.srtt_us == 0) {
            return self.on_syn_ack_timer(now);
        }
        self.expected_marks = NONE_EXPECTED;
        if self.delack_at() <= now {
            // the timer ran out: the peer is slower than thought (Linux tcp_delack_timer_handler)
            self.ato_ms = (self.ato_ms << 1).min(self.ato_max_ms());
        }
        Some(self.acknowledge(now, true, self.holds_one()))
    }
}
