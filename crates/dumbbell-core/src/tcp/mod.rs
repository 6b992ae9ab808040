//! Transport as Linux does it, sans-IO: sender and receiver apart.
//!
//! Sequence numbers count segments of one MSS from 0; SYN and FIN take none. What Linux does and this does not: SACK
//! reneging, MTU probing, PLB and fast open are left out, and what is out of order does not shrink the receiver's window: it only keeps it from
//! growing.
//! `tcp_cwnd_application_limited` is left out, too: it shrinks the window of a sender that had no ACK for an RTO while
//! something was out and then writes, which is the moment before its timeout; steady sending never gets there.
//! A SYN is repeated until it is answered, at last every two minutes; Linux gives up after 10 retries (131 s; before 6.5 after 6, 127 s).

/// Writes two functions from one list of first values: one makes the struct, the other gives its fields the same values in place. The latter keeps the
/// fields in parentheses ahead of `;`, which values may read, and the memory of those that are `cleared`.
macro_rules! first_values {
    (
        $type:ident($($kept:ident: $kept_type:ty),*; $($given:ident: $given_type:ty),*);
        $(#[$new_doc:meta])* $new_visible:vis fn $new:ident;
        $(#[$renew_doc:meta])* $renew_visible:vis fn $renew:ident;
        cleared { $($cleared:ident: $empty:expr),* }
        set { $($(#[$cfg:meta])* $field:ident: $value:expr,)* }
    ) => {
        $(#[$new_doc])*
        $new_visible fn $new($($kept: $kept_type,)* $($given: $given_type),*) -> $type {
            $type { $($(#[$cfg])* $field: $value,)* $($cleared: $empty,)* $($kept),* }
        }

        $(#[$renew_doc])*
        #[allow(unused_variables, clippy::needless_borrow)] // the values are those of a function that owns what they read
        $renew_visible fn $renew(&mut self, $($given: $given_type),*) {
            let $type { $($kept,)* $($cleared,)* $($(#[$cfg])* $field,)* } = self;
            $($cleared.clear();)*
            $($(#[$cfg])* { *$field = $value; })*
        }
    };
}

mod ecn;
pub mod host;
mod known;
mod look;
pub mod output;
mod pacer;
mod probe;
mod prr;
mod rate;
pub mod receiver;
pub mod recovery;
mod reordering;
mod replace;
pub mod scoreboard;
pub mod sender;
pub mod stats;
#[cfg(test)]
mod tests;
mod timer;
mod undo;
pub mod window;
mod write_queue;
mod writes;

use crate::cc::Echo;
use crate::packet::{flag, Packet, HEADERS, SYN_FRAME};
pub use ecn::BackEcn;

/// Settings of one flow for both ends, in addition to the switches of their hosts.
#[derive(Clone, Copy, Debug)]
pub struct FlowOptions {
    /// Ask for and agree to ECN.
    pub ecn: bool,
    /// How the receiver echoes CE.
    pub echo: Echo,
}

impl Default for FlowOptions {
    /// With ECN, echoed until CWR.
    fn default() -> FlowOptions {
        FlowOptions { ecn: true, echo: Echo::UntilCwr }
    }
}

/// Segments `start..end`.
pub type Block = (u64, u64);

/// Flags of an [`Ack`].
pub mod ack_flag {
    /// ECN-Echo.
    pub const ECE: u16 = 1;
    /// SCE's echo, the bit that was NS.
    pub const ESCE: u16 = 1 << 1;
    /// Answers a SYN; carries no acknowledgement of data.
    pub const SYN_ACK: u16 = 1 << 2;
    /// The first block given with it reports a duplicate (RFC 2883).
    pub const DSACK: u16 = 1 << 3;
    /// On a SYN-ACK: the peer agrees to ECN.
    pub const ECN_SETUP: u16 = 1 << 4;
    /// On a SYN-ACK: and it counts CE (RFC 9768) instead of echoing ECE.
    pub const ACCECN_SETUP: u16 = 1 << 5;
    /// The segment has the AccECN option: [`Ack::ce_bytes`](super::Ack::ce_bytes) counts.
    pub const ACCECN_OPTION: u16 = 1 << 6;
    /// The ACK is for a part of segment [`Ack::ack`](super::Ack::ack), which is not complete yet.
    pub const PART: u16 = 1 << 7;
    /// Where the ACE field begins (RFC 9768 section 3.2.2), which has three bits.
    pub(super) const ACE: u32 = 13;

    /// The ACE field with the last three bits of `count`: 5 plus the CE packets received.
    #[inline]
    pub fn ace(count: u8) -> u16 {
        u16::from(count) << ACE
    }
}

/// One frame in the acknowledgement direction; SACK blocks travel next to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ack {
    /// Next segment that the receiver expects.
    pub ack: u64,
    /// Flow.
    pub flow: u32,
    /// Echo of the timestamp of the packet that caused it, ms (RFC 7323).
    pub tsecr: u32,
    /// The receiver's clock when the ACK left, ms.
    pub tsval: u32,
    /// Window offered beyond `ack`, bytes.
    pub window: u32,
    /// Payload received with CE so far, bytes: field `r.ceb` of the AccECN option (RFC 9768 section 3.2.3), of which the wire has 24 bits. The
    /// option's other two counters say nothing here, where no path changes codepoints.
    pub ce_bytes: u32,
    /// Bits of [`ack_flag`], and the ACE field.
    pub flags: u16,
    /// How many acknowledgements of data its receiver has sent so far, this one included: the identification of its IP packet counts them
    /// (Linux `inet_id`).
    pub id: u16,
}

impl Ack {
    /// Length of its frame with `blocks` SACK blocks, without FCS, bytes: what Linux sends. The options of a SYN-ACK are MSS, SACK permitted, time
    /// stamps and window scale; blocks take 4 B and 8 B each (RFC 2018), the AccECN option has room beside one of them, and without its last counter beside two (RFC 9768).
    pub fn frame(&self, blocks: usize) -> u16 {
        let headers = if self.has(ack_flag::SYN_ACK) { SYN_FRAME } else { HEADERS };
        let sack = if blocks > 0 { 4 + 8 * blocks as u16 } else { 0 };
        let counts = match blocks {
            _ if !self.has(ack_flag::ACCECN_OPTION) => 0,
            0 | 1 => ecn::OPTION_BYTES,
            2 => ecn::SHORT_OPTION_BYTES,
            _ => 0,
        };
        headers + sack + counts
    }

    /// ACE field.
    #[inline]
    pub fn ace(&self) -> u8 {
        (self.flags >> ack_flag::ACE) as u8
    }

    /// Whether [`ack_flag`] bit `bit` is set.
    #[inline]
    pub fn has(&self, bit: u16) -> bool {
        self.flags & bit != 0
    }
}

/// Segments that follow each other and leave at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// The next one.
    next: Packet,
    /// Segment after the last one.
    end: u64,
    /// Flags of those between the first and the last one.
    flags: u16,
    /// Flags and length of the last one.
    last_flags: u16,
    last_len: u16,
}

impl Burst {
    /// Nothing but `packet`.
    #[inline(always)]
    pub fn of_one(packet: Packet) -> Burst {
        Burst { next: packet, end: packet.number() + 1, flags: 0, last_flags: 0, last_len: packet.len }
    }

    /// Returns the next packet, if one is left.
    #[inline(always)]
    pub fn head(&self) -> Option<Packet> {
        let (mut packet, number) = (self.next, self.next.number());
        if number + 1 >= self.end {
            if number >= self.end {
                return None;
            }
            packet.clear_flags(flag::MORE);
            packet.add_flags(self.last_flags);
            packet.len = self.last_len;
        }
        Some(packet)
    }

    /// The next packet is on its way.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.next = self.next.next_segment(self.flags);
    }
}

/// Outlet through which a sender sends.
pub trait Outlet {
    /// Takes `packet` at the current time.
    fn send(&mut self, packet: Packet);

    /// Takes the packets of `burst` at the current time.
    #[inline(always)]
    fn send_burst(&mut self, mut burst: Burst) {
        while let Some(packet) = burst.head() {
            self.send(packet);
            burst.advance();
        }
    }

    /// Whether it wants to know what send buffers hold.
    #[inline]
    fn counts_memory(&self) -> bool {
        false
    }

    /// The send buffer of `flow` holds this number of bytes.
    fn set_send_buffer(&mut self, _flow: u32, _bytes: u64) {}

    /// Whether the send buffers of all flows hold so much that none may grow.
    fn is_memory_short(&self) -> bool {
        false
    }
}
