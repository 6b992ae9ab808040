//! Packets, as they cross the bottleneck.

use crate::units::{Duration, Instant};

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
    #[inline(always)]
    pub fn from_bits(bits: u8) -> Ecn {
        match bits & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
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

/// Flags and bookkeeping of a packet. The last two bits are those of the ECN field, so that one word holds both.
pub mod flag {
    /// Connection request; carries no data.
    pub const SYN: u16 = 1 << 2;
    /// Congestion window reduced: answers ECE (RFC 3168 section 6.1.2).
    pub const CWR: u16 = 1 << 3;
    /// A retransmission.
    pub const RETRANSMISSION: u16 = 1 << 4;
    /// Carries no data: the third packet of the handshake.
    pub const PURE_ACK: u16 = 1 << 5;
    /// Push: the last segment of an application's write.
    pub const PSH: u16 = 1 << 6;
    /// A datagram of UDP.
    pub const UDP: u16 = 1 << 7;
    /// The next packet belongs to the same burst, which queue and receiver take as one (segmentation offload on all hosts).
    pub const MORE: u16 = 1 << 8;
    /// The last packet of such a burst.
    pub const LAST: u16 = 1 << 9;
    /// An acknowledgement on its way back.
    pub const BACK: u16 = 1 << 10;
    /// A frame from outside the engine, whose bytes lie in a slot.
    pub const FRAME: u16 = 1 << 11;
    /// Packets that are not TCP data.
    pub const NO_DATA: u16 = SYN | PURE_ACK | UDP | BACK;
    /// Packets without TCP headers of the sender that could be read.
    pub const NO_TCP: u16 = UDP | BACK | FRAME;
    /// The bits of the ECN field.
    pub(super) const ECN: u16 = 0b11;
}

/// A value whose meaning depends on the kind of its packet: the views of [`Packet`] read it.
#[derive(Clone, Copy, Debug)]
pub struct ByKind<T>(T);

/// The ECN field and the bits of [`flag`].
#[derive(Clone, Copy, Debug)]
pub struct Marks(u16);

/// The two timestamps of a TCP segment (RFC 7323), ms.
#[derive(Clone, Copy, Debug)]
pub struct Timestamps {
    tsval: u32,
    /// How much older than `tsval` the echoed timestamp is; [`NO_TSECR`] if that or older, or if the segment echoes none.
    tsecr_age: u16,
}

impl Timestamps {
    /// The sender's clock, and the timestamp that the segment echoes.
    #[inline(always)]
    pub fn new(tsval: u32, tsecr: Option<u32>) -> Timestamps {
        let age = tsecr.map_or(u32::MAX, |tsecr| tsval.wrapping_sub(tsecr));
        Timestamps { tsval, tsecr_age: age.min(u32::from(NO_TSECR)) as u16 }
    }
}

/// One frame at a queue. A constructor `new_…` makes one of each kind, and the view of that kind reads what only this kind has: [`Packet::tcp`],
/// [`Packet::udp`], [`Packet::ack_slot`], [`Packet::frame_slot`].
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// When the bottleneck queue accepted it (set by the queue).
    pub enqueue_time: Instant,
    /// TCP: segment number. UDP: number of the datagram. Others: slot of the contents.
    pub number: ByKind<u64>,
    /// Index of its flow in the run.
    pub flow: u32,
    /// TCP: [`Timestamps`]. UDP: low bits of the sending time.
    pub stamp: ByKind<u32>,
    /// TCP: [`Timestamps`]. UDP: high bits of the sending time.
    pub stamp_rest: ByKind<u16>,
    /// Packet value of core-stateless AQM; 0 if not marked at the edge.
    pub value: u16,
    /// Frame length on the wire without FCS, bytes.
    pub len: u16,
    /// ECN field and flags.
    pub marks: Marks,
}

impl Packet {
    /// All zero, Not-ECT.
    pub const EMPTY: Packet = Packet {
        enqueue_time: Instant::ZERO,
        number: ByKind(0),
        flow: 0,
        stamp: ByKind(0),
        stamp_rest: ByKind(0),
        value: 0,
        len: 0,
        marks: Marks(0),
    };

    #[inline(always)]
    fn new(number: u64, ecn: Ecn, flags: u16) -> Packet {
        Packet { number: ByKind(number), marks: Marks(ecn as u16 | flags), ..Packet::EMPTY }
    }

    /// A packet of a TCP sender: segment `seq`, from 0; one number is one MSS.
    #[inline(always)]
    pub fn new_tcp(seq: u64, ecn: Ecn, flags: u16) -> Packet {
        debug_assert_eq!(flags & (flag::NO_TCP | flag::ECN), 0);
        Packet::new(seq, ecn, flags)
    }

    /// Returns the next segment, with these `flags` instead.
    #[inline(always)]
    pub fn next_segment(self, flags: u16) -> Packet {
        Packet { number: ByKind(self.number.0 + 1), marks: Marks(self.marks.0 & flag::ECN | flags), ..self }
    }

    /// Returns this packet of TCP with these timestamps.
    #[inline(always)]
    pub fn with_timestamps(self, Timestamps { tsval, tsecr_age }: Timestamps) -> Packet {
        debug_assert!(!self.has(flag::NO_TCP));
        Packet { stamp: ByKind(tsval), stamp_rest: ByKind(tsecr_age), ..self }
    }

    /// Datagram `number` of UDP, sent at `sent`. UDP has no timestamps of its own: the sending time, modulo 2^48 ns (78 h), lies
    /// where TCP has its timestamps, so that the packet does not become larger.
    #[inline(always)]
    pub fn new_udp(number: u64, ecn: Ecn, sent: Instant) -> Packet {
        let (stamp, stamp_rest) = (ByKind(sent.0 as u32), ByKind((sent.0 >> 32) as u16));
        Packet { stamp, stamp_rest, ..Packet::new(number, ecn, flag::UDP) }
    }

    /// An acknowledgement on its way back through queues, whose contents lie in `slot`.
    #[inline]
    pub fn new_ack_slot(slot: u64, ecn: Ecn) -> Packet {
        Packet::new(slot, ecn, flag::BACK)
    }

    /// A frame from outside, whose bytes lie in `slot`; `flags` tell queues what it is, if that is known.
    #[inline]
    pub fn new_frame_slot(slot: u32, ecn: Ecn, flags: u16) -> Packet {
        Packet::new(u64::from(slot), ecn, flag::FRAME | flags)
    }

    /// As four words, which a call takes in registers. A packet that is given away by its address lies in memory on every other way through
    /// the same code, too, where the reads of whole words wait for the stores of single fields.
    #[inline(always)]
    pub fn to_words(self) -> [u64; 4] {
        let Packet { enqueue_time, number, flow, stamp, stamp_rest, value, len, marks } = self;
        let last = u64::from(stamp_rest.0) | u64::from(value) << 16 | u64::from(len) << 32 | u64::from(marks.0) << 48;
        [enqueue_time.0, number.0, u64::from(flow) | u64::from(stamp.0) << 32, last]
    }

    /// The packet that was [`Packet::to_words`].
    #[inline]
    pub fn from_words([enqueue_time, number, numbers, last]: [u64; 4]) -> Packet {
        Packet {
            enqueue_time: Instant(enqueue_time),
            number: ByKind(number),
            flow: numbers as u32,
            stamp: ByKind((numbers >> 32) as u32),
            stamp_rest: ByKind(last as u16),
            value: (last >> 16) as u16,
            len: (last >> 32) as u16,
            marks: Marks((last >> 48) as u16),
        }
    }

    /// Whether one of the [`flag`] bits `bits` is set.
    #[inline(always)]
    pub fn has(&self, bits: u16) -> bool {
        self.marks.0 & bits != 0
    }

    /// Bits of [`flag`].
    #[inline(always)]
    pub fn flags(&self) -> u16 {
        self.marks.0 & !flag::ECN
    }

    /// ECN field and bits of [`flag`].
    #[inline(always)]
    pub fn marks(&self) -> u16 {
        self.marks.0
    }

    /// Sets the bits `flags`.
    #[inline(always)]
    pub fn add_flags(&mut self, flags: u16) {
        self.marks.0 |= flags;
    }

    /// Clears the bits `flags`.
    #[inline(always)]
    pub fn clear_flags(&mut self, flags: u16) {
        self.marks.0 &= !flags;
    }

    /// ECN field.
    #[inline(always)]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.marks.0 as u8)
    }

    /// Changes the ECN field.
    #[inline(always)]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.marks.0 = self.marks.0 & !flag::ECN | ecn as u16;
    }

    /// Whether it is an acknowledgement on its way back.
    #[inline(always)]
    pub fn is_back(&self) -> bool {
        self.has(flag::BACK)
    }

    /// A number that distinguishes the packets of one kind and flow, whatever the kind: a TCP sender repeats it in retransmissions.
    #[inline(always)]
    pub fn number(&self) -> u64 {
        self.number.0
    }

    /// Number and time stamp, which distinguish the transmissions of a flow.
    #[inline]
    pub fn transmission(&self) -> (u64, u32) {
        (self.number.0, self.stamp.0)
    }

    /// Reads it as a packet of a TCP sender.
    #[inline(always)]
    pub fn tcp(&self) -> TcpView<'_> {
        debug_assert!(!self.has(flag::NO_TCP), "no packet of TCP: {self:?}");
        TcpView(self)
    }

    /// Reads it as a datagram of UDP.
    #[inline(always)]
    pub fn udp(&self) -> UdpView<'_> {
        debug_assert_eq!(self.flags() & flag::NO_TCP, flag::UDP, "no datagram: {self:?}");
        UdpView(self)
    }

    /// The slot of an acknowledgement on its way back.
    #[inline(always)]
    pub fn ack_slot(&self) -> u64 {
        debug_assert_eq!(self.flags() & flag::NO_TCP, flag::BACK, "no acknowledgement: {self:?}");
        self.number.0
    }

    /// The slot of a frame from outside.
    #[inline(always)]
    pub fn frame_slot(&self) -> u32 {
        debug_assert!(self.has(flag::FRAME), "no frame from outside: {self:?}");
        self.number.0 as u32
    }

    /// Sets CE if the packet is ECN-capable, as the Linux helper does: a packet that is CE already counts as marked.
    /// Returns whether it is now CE.
    #[inline]
    pub fn set_ce(&mut self) -> bool {
        let is_capable = self.ecn().is_capable();
        if is_capable {
            self.set_ecn(Ecn::Ce);
        }
        is_capable
    }
}

/// A packet of a TCP sender.
#[derive(Clone, Copy, Debug)]
pub struct TcpView<'a>(&'a Packet);

impl TcpView<'_> {
    /// Segment number within its flow, from 0; one number is one MSS.
    #[inline(always)]
    pub fn seq(self) -> u64 {
        self.0.number.0
    }

    /// TCP timestamp of the sender, ms.
    #[inline(always)]
    pub fn tsval(self) -> u32 {
        self.0.stamp.0
    }

    /// The timestamp that the packet echoes (TSecr, RFC 7323), ms; `None` if it echoes none, or one that is more than a minute old.
    #[inline(always)]
    pub fn tsecr(self) -> Option<u32> {
        let age = self.0.stamp_rest.0;
        (age != NO_TSECR).then(|| self.tsval().wrapping_sub(u32::from(age)))
    }
}

/// A datagram of UDP.
#[derive(Clone, Copy, Debug)]
pub struct UdpView<'a>(&'a Packet);

impl UdpView<'_> {
    /// Number of the datagram within its flow.
    #[inline(always)]
    pub fn number(self) -> u64 {
        self.0.number.0
    }

    /// How long ago it was sent, modulo 2^48 ns.
    #[inline]
    pub fn age(self, now: Instant) -> Duration {
        let sent = u64::from(self.0.stamp_rest.0) << 32 | u64::from(self.0.stamp.0);
        Duration(now.0.wrapping_sub(sent) & ((1 << 48) - 1))
    }
}

/// [`Timestamps::tsecr_age`] of a packet that echoes no timestamp.
const NO_TSECR: u16 = u16::MAX;
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
        for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
            let packet = Packet {
                enqueue_time: Instant(0x1122_3344_5566_7788),
                flow: 3,
                value: 6,
                len: 7,
                ..Packet::new_tcp(u64::MAX - 1, ecn, flag::LAST | flag::PSH | flag::SYN)
                    .with_timestamps(Timestamps::new(u32::MAX, Some(u32::MAX - 5)))
            };
            assert_eq!(format!("{packet:?}"), format!("{:?}", Packet::from_words(packet.to_words())));
            assert_eq!((packet.ecn(), packet.flags()), (ecn, flag::LAST | flag::PSH | flag::SYN));
        }
    }

    #[test]
    fn flags_and_codepoint_do_not_touch_each_other() {
        let all = flag::NO_TCP | flag::NO_DATA | flag::CWR | flag::RETRANSMISSION | flag::PSH | flag::MORE | flag::LAST;
        assert_eq!((all & flag::ECN, all.count_ones()), (0, 10));
        let mut packet = Packet::new_tcp(0, Ecn::Ect1, 0);
        packet.add_flags(all);
        assert_eq!((packet.ecn(), packet.flags()), (Ecn::Ect1, all));
        assert!(packet.set_ce());
        packet.clear_flags(all & !flag::CWR);
        assert_eq!((packet.ecn(), packet.flags()), (Ecn::Ce, flag::CWR));
        packet.set_ecn(Ecn::NotEct);
        assert!(!packet.set_ce() && packet.flags() == flag::CWR);
    }

    #[test]
    fn an_old_echo_is_none() {
        let echo = |tsecr| Packet::EMPTY.with_timestamps(Timestamps::new(100_000, tsecr)).tcp().tsecr();
        assert_eq!([None, Some(100_000 - 65_535), Some(34_466), Some(7)].map(echo), [None, None, Some(34_466), None]);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no packet of TCP")]
    fn a_view_refuses_another_kind() {
        Packet::new_ack_slot(3, Ecn::NotEct).tcp();
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
                let packet = Packet::new_udp(0, Ecn::NotEct, Instant(sent));
                assert_eq!(packet.udp().age(Instant(sent + age)), Duration(age), "sent at {sent}");
            }
        }
    }
}
