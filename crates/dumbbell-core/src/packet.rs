//! Packets, as they cross the bottleneck.

use crate::units::{Duration, Time};

/// The two ECN bits of the IP header (RFC 3168 section 5); the discriminants are the bits on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not understand ECN: congestion is signalled by dropping.
    NotEct = 0b00,
    /// RFC 3168 and RFC 9331: ECN-capable, the same as ECT(0) or the L4S identifier; SCE drafts: "some congestion
    /// experienced", set by the network.
    Ect1 = 0b01,
    /// ECN-capable transport.
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// The codepoint whose bits are the last two of `bits`.
    #[inline]
    pub fn from_bits(bits: u8) -> Ecn {
        [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(bits & 0b11)]
    }

    /// ECT(0), ECT(1) or CE.
    #[inline]
    pub fn is_capable(self) -> bool {
        self != Ecn::NotEct
    }
}

/// Identity of a flow, for queues that tell flows apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowKey {
    /// Source host, any number that names it.
    pub src_host: u32,
    /// Destination host, any number that names it.
    pub dst_host: u32,
    /// Hash input for the 5-tuple: differs between flows.
    pub ports: u32,
    /// Differentiated-services codepoint, 0..=63.
    pub dscp: u8,
}

/// TCP flags and bookkeeping of a packet, as bits of [`Packet::flags`].
pub mod flag {
    /// Connection request; carries no data.
    pub const SYN: u8 = 1;
    /// Congestion window reduced: answers ECE (RFC 3168 section 6.1.2).
    pub const CWR: u8 = 1 << 1;
    /// A retransmission.
    pub const RETRANSMISSION: u8 = 1 << 2;
    /// Carries no data: the third packet of the handshake.
    pub const PURE_ACK: u8 = 1 << 3;
    /// Push: the last segment of an application's write.
    pub const PSH: u8 = 1 << 4;
    /// Carries no transport that listens: unresponsive UDP.
    pub const UDP: u8 = 1 << 5;
    /// The next packet belongs to the same burst, which queue and receiver take as one (segmentation offload on all hosts).
    pub const MORE: u8 = 1 << 6;
    /// The last packet of such a burst.
    pub const LAST: u8 = 1 << 7;
    /// Packets that are not TCP data.
    pub const NO_DATA: u8 = SYN | PURE_ACK | UDP;
    /// An acknowledgement on its way back through queues: no packet of the data direction has both bits.
    pub const BACK: u8 = PURE_ACK | PSH;
}

/// One frame in the data direction.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// When the bottleneck queue accepted it (set by the queue).
    pub enqueue_time: Time,
    /// Segment number within its flow, from 0; one number is one MSS.
    pub seq: u64,
    /// Index of its flow in the run.
    pub flow: u32,
    /// TCP timestamp of the sender, ms. Of UDP, see [`Packet::stamp`].
    pub tsval: u32,
    /// How much older than `tsval` the timestamp is that the packet echoes (TSecr, RFC 7323), ms; [`NO_TSECR`] if that or older, or
    /// if it echoes none. Of UDP, see [`Packet::stamp`].
    pub tsecr_age: u16,
    /// Packet value of core-stateless AQM; 0 if not marked at the edge.
    pub value: u16,
    /// Frame length on the wire without FCS, bytes.
    pub len: u16,
    /// ECN field.
    pub ecn: Ecn,
    /// Bits of [`flag`].
    pub flags: u8,
}

impl Packet {
    /// All zero, Not-ECT.
    pub const EMPTY: Packet = Packet {
        enqueue_time: Time::ZERO,
        seq: 0,
        flow: 0,
        tsval: 0,
        tsecr_age: 0,
        value: 0,
        len: 0,
        ecn: Ecn::NotEct,
        flags: 0,
    };

    /// As four words, which a call takes in registers. A packet that is given away by its address lies in memory on every other way through
    /// the same code, too, where the reads of whole words wait for the stores of single fields.
    #[inline(always)]
    pub fn to_words(self) -> [u64; 4] {
        let Packet { enqueue_time, seq, flow, tsval, tsecr_age, value, len, ecn, flags } = self;
        let low = u64::from(tsecr_age) | u64::from(value) << 16 | u64::from(len) << 32;
        let last = low | (ecn as u64) << 48 | u64::from(flags) << 56;
        [enqueue_time.0, seq, u64::from(flow) | u64::from(tsval) << 32, last]
    }

    /// The packet that was [`Packet::to_words`].
    #[inline]
    pub fn from_words([enqueue_time, seq, numbers, last]: [u64; 4]) -> Packet {
        Packet {
            enqueue_time: Time(enqueue_time),
            seq,
            flow: numbers as u32,
            tsval: (numbers >> 32) as u32,
            tsecr_age: last as u16,
            value: (last >> 16) as u16,
            len: (last >> 32) as u16,
            ecn: Ecn::from_bits((last >> 48) as u8),
            flags: (last >> 56) as u8,
        }
    }

    /// Whether [`flag`] bit `bit` is set.
    #[inline]
    pub fn has(&self, bit: u8) -> bool {
        self.flags & bit != 0
    }

    /// Whether it is an acknowledgement on its way back.
    #[inline]
    pub fn is_back(&self) -> bool {
        self.flags & flag::BACK == flag::BACK
    }

    /// Writes into a packet of UDP that it was sent at `time`, modulo 2^48 ns (78 h). UDP has no timestamps of its own: they
    /// lie where TCP has its timestamps, so that the packet does not become larger.
    #[inline]
    pub fn stamp(&mut self, time: Time) {
        self.tsval = time.0 as u32;
        self.tsecr_age = (time.0 >> 32) as u16;
    }

    /// How long ago a packet with a [`stamp`](Packet::stamp) was sent, modulo 2^48 ns.
    #[inline]
    pub fn age(&self, now: Time) -> Duration {
        let sent = u64::from(self.tsecr_age) << 32 | u64::from(self.tsval);
        Duration(now.0.wrapping_sub(sent) & ((1 << 48) - 1))
    }

    /// Sets CE if the packet is ECN-capable, as the Linux helper does: a packet that is CE already counts as marked.
    /// Returns whether it is now CE.
    #[inline]
    pub fn set_ce(&mut self) -> bool {
        if self.ecn.is_capable() {
            self.ecn = Ecn::Ce;
        }
        self.ecn == Ecn::Ce
    }
}

/// [`Packet::tsecr_age`] of a packet that echoes no timestamp.
pub const NO_TSECR: u16 = u16::MAX;
/// Ethernet header (14 B) + IPv4 (20 B) + TCP with timestamps (32 B): what a frame carries in addition to the payload.
pub const HEADERS: u16 = 66;
/// Ethernet header (14 B) + IPv4 (20 B) + UDP (8 B).
pub const UDP_HEADERS: u16 = 42;
/// MSS payload at an MTU of 1500 with TCP timestamps (1500 - 20 - 32).
pub const MSS: u16 = 1448;
/// A full frame without FCS: Linux's `psched_mtu` on Ethernet.
pub const MTU_FRAME: u16 = 1514;
/// A SYN or SYN-ACK frame: 14 + 20 + 40 B of TCP with MSS, SACK-permitted, timestamps, window scale.
pub const SYN_FRAME: u16 = 74;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_every_field() {
        let enqueue_time = Time(0x1122_3344_5566_7788);
        for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
            let packet = Packet {
                enqueue_time,
                seq: u64::MAX - 1,
                flow: 3,
                tsval: u32::MAX,
                tsecr_age: 5,
                value: 6,
                len: 7,
                ecn,
                flags: 0xa5,
            };
            assert_eq!(format!("{packet:?}"), format!("{:?}", Packet::from_words(packet.to_words())));
        }
    }

    #[test]
    fn a_packet_is_one_half_cache_line() {
        assert_eq!(std::mem::size_of::<Packet>(), 32);
        assert_eq!(MSS + HEADERS, MTU_FRAME);
    }

    #[test]
    fn a_stamp_says_how_long_ago_a_packet_was_sent() {
        for sent in [0, 1, (1 << 32) - 1, 1 << 32, (1 << 48) - 1, 1 << 48, 3 * (1 << 48) + 12_345] {
            for age in [0, 1, 20_000_000, 1 << 32, (1 << 48) - 1] {
                let mut packet = Packet::EMPTY;
                packet.stamp(Time(sent));
                assert_eq!(packet.age(Time(sent + age)), Duration(age), "sent at {sent}");
            }
        }
    }
}
