//! Data that wait for the application, the memory that they take, and the window that the rest of the buffer allows.
//!
//! The application runs once a packet has been taken, and reads buffer by buffer. So the ACK of a packet is sent before that is read, and offers
//! what is left of the buffer then.

use super::Receiver;
use crate::hint::likely;
use crate::tcp::Ack;
use crate::units::Instant;

/// Fragments of one socket buffer (Linux `MAX_SKB_FRAGS`). A segment is one, and joins the buffer before it while that has fewer
/// (`tcp_try_coalesce`).
pub(super) const MOST_FRAGMENTS: u64 = 17;

/// Data that have arrived in order and have not been read. They come from the packet that is being taken; between packets there are none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unread {
    /// Where its first buffer ends.
    first_end: u64,
    pub(super) segments: u32,
    buffers: u16,
    /// Fragments in the last buffer.
    tail: u16,
}

impl Unread {
    /// Appends a buffer with `segments`, which end before `end`.
    pub(super) fn append(&mut self, segments: u64, end: u64) {
        self.segments += segments as u32;
        if self.buffers > 0 && u64::from(self.tail) + segments <= MOST_FRAGMENTS {
            self.tail += segments as u16;
        } else {
            self.buffers = self.buffers.saturating_add(1);
            self.tail = segments as u16;
        }
        if self.buffers == 1 {
            self.first_end = end;
        }
    }
}

impl Receiver {
    /// Lets the application read all data that wait for it. Linux `tcp_recvmsg_locked`.
    pub(super) fn read(&mut self, now: Instant) {
        if self.unread.segments > 0 {
            self.has_unread = false;
            self.window.read(self.unread.first_end, self.rcv_nxt, now);
            self.unread = Unread::default();
        }
    }

    /// Returns the memory of data that wait for the application or lie out of order, bytes.
    pub(super) fn memory(&self) -> u64 {
        let buffers = u64::from(self.unread.buffers) + self.out_of_order.len() as u64;
        self.window.memory(buffers, u64::from(self.unread.segments + self.held))
    }

    /// Returns the memory in use when an ACK leaves; with `is_read`, once the application has read. The short way of the usual packet writes nothing into
    /// [`Receiver::unread`].
    fn memory_at_ack(&self, is_read: bool) -> u64 {
        if is_read {
            self.window.memory(self.out_of_order.len() as u64, u64::from(self.held))
        } else if self.holds_one() {
            self.window.memory(1, 1)
        } else {
            self.memory()
        }
    }

    /// Returns whether the segment that arrives is alone in the buffer.
    #[inline(always)]
    pub(super) fn holds_one(&self) -> bool {
        !self.has_gaps && (!self.has_unread || self.unread.segments <= 1)
    }

    /// Returns whether an ACK would offer as much as the last one did, with the segment that arrives `alone` in the buffer or not. If not, the ACK of
    /// every second segment waits until the application has read.
    #[inline(always)]
    pub(super) fn offers_as_much(&self, alone: bool) -> bool {
        if likely(alone) {
            return self.window.offered_window() >= self.advertised;
        }
        self.window.select(self.memory()).0 >= self.advertised
    }

    /// Returns the window of an ACK that is not the usual one. The end of the window never moves back. Linux `tcp_select_window`.
    #[inline(never)]
    pub(super) fn select_window(&mut self, is_read: bool) -> u32 {
        let (window, is_crowded) = self.window.select(self.memory_at_ack(is_read));
        if is_crowded {
            self.quick = 0;
        }
        window.max(self.window.round(self.window_left()))
    }

    /// Returns how much of the window of the last ACK is left, bytes. Linux `tcp_receive_window`.
    fn window_left(&self) -> u64 {
        u64::from(self.advertised).saturating_sub((self.rcv_nxt - self.acked) * u64::from(self.host.mss))
    }

    /// Sends `ack`, lets the application read, and sends another one if the window has become twice as large. Returns the last one.
    /// Linux `__tcp_cleanup_rbuf`.
    pub(super) fn update_window(&mut self, ack: Ack, now: Instant) -> Ack {
        let left = self.window_left();
        if self.unread.segments <= 1 || 2 * left > self.window.clamp() {
            return ack;
        }
        let (window, _) = self.window.select(self.memory_at_ack(true));
        if window == 0 || u64::from(window) < 2 * left {
            return ack;
        }
        self.send_early(ack);
        self.read(now);
        self.stats.acks += 1;
        self.ack(now, true, self.holds_one())
    }
}
