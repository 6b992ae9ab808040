//! Frames as bytes: Ethernet, IPv4, TCP with its options, UDP. Checksums are those of the whole frame, whose payload is zeros unless it is given.

use dumbbell_core::packet::{Ecn, HEADERS};

/// Bits of the TCP header's flags (RFC 9293 section 3.1, RFC 9768 section 3.1).
pub mod tcp_flag {
    /// No more data.
    pub const FIN: u16 = 1;
    /// Synchronise.
    pub const SYN: u16 = 1 << 1;
    /// Reset.
    pub const RST: u16 = 1 << 2;
    /// Push.
    pub const PSH: u16 = 1 << 3;
    /// Acknowledgement.
    pub const ACK: u16 = 1 << 4;
    /// ECN-Echo.
    pub const ECE: u16 = 1 << 6;
    /// Congestion window reduced.
    pub const CWR: u16 = 1 << 7;
    /// Accurate ECN; SCE's echo. It was NS.
    pub const AE: u16 = 1 << 8;
    /// The ACE field, as a number of three bits: AE, CWR, ECE.
    pub fn ace(field: u8) -> u16 {
        u16::from(field & 7) << 6
    }
}

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes of an IPv4 header without options.
const IPV4: usize = 20;
/// Bytes of a TCP header without options.
const TCP: usize = 20;
/// Bytes of a UDP header.
const UDP: usize = 8;
/// The most that headers take: 40 B of TCP's options.
pub const MOST: usize = ETHERNET + IPV4 + TCP + 40;

/// Kinds of TCP options.
mod kind {
    pub const NOP: u8 = 1;
    pub const MSS: u8 = 2;
    pub const SCALE: u8 = 3;
    pub const SACK_PERMITTED: u8 = 4;
    pub const SACK: u8 = 5;
    pub const TIMESTAMPS: u8 = 8;
    /// RFC 9768 section 3.2.3: the counter of ECT(1) comes first. Linux sends no other.
    pub const ACCECN: u8 = 174;
}

/// Addresses and ports of the sender and the receiver of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Endpoints {
    /// Address of the sender of data.
    pub sender: u32,
    /// Address of the receiver.
    pub receiver: u32,
    /// The sender is on the right.
    pub up: bool,
    /// Port of the sender.
    pub sender_port: u16,
    /// Port of the receiver.
    pub receiver_port: u16,
    /// Differentiated-services codepoint.
    pub dscp: u8,
    /// First sequence numbers, of the sender and of the receiver.
    pub first: [u32; 2],
}

/// The counters of the AccECN option, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccEcnCounts {
    /// ECT(0), from 1 on.
    pub ect0: u32,
    /// CE.
    pub ce: u32,
    /// ECT(1), from 1 on.
    pub ect1: u32,
}

impl AccEcnCounts {
    /// Counters before any payload was received: RFC 9768 section 3.2.1.
    pub const NONE: AccEcnCounts = AccEcnCounts { ect0: 1, ce: 0, ect1: 1 };
}

/// A segment of TCP. Sequence numbers are relative to the first of their side: SYN has 0, data begin with 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpSegment {
    /// Whether it goes from the receiver of data to their sender.
    pub back: bool,
    /// Sequence number of its first byte.
    pub seq: u64,
    /// Acknowledgement number, if it acknowledges anything.
    pub ack: u64,
    /// Bits of [`tcp_flag`].
    pub flags: u16,
    /// As it stands in the header, scaled.
    pub window: u16,
    /// Time stamps, ms.
    pub tsval: u32,
    /// Echoed time stamp, ms.
    pub tsecr: u32,
    /// MSS and window scale of a segment of the handshake.
    pub opening: Option<(u16, u8)>,
    /// SACK blocks, and how many they are.
    pub sack: [(u64, u64); 3],
    /// How many of them.
    pub sacks: usize,
    /// AccECN's option.
    pub counts: Option<AccEcnCounts>,
    /// Whether it is padded with NOPs to the options' length of a segment of the handshake.
    pub is_padded: bool,
}

/// Fields of the frame and of the IP header around a transport header.
#[derive(Clone, Copy, Debug)]
pub struct WireHeaders {
    /// Length of the frame without FCS, bytes.
    pub len: u16,
    /// ECN field.
    pub ecn: Ecn,
    /// Identification of the IP packet.
    pub id: u16,
}

/// Where an Ethernet header says to whom, from whom, and that IPv4 follows: from the left to the right, and back.
const ETHERNETS: [[u8; ETHERNET]; 2] = [[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]];

/// Headers, as far as they have been written. All but Ethernet's are words of 32 bits.
pub struct Headers {
    bytes: [u8; MOST],
    len: usize,
    /// Checksum of the words of transport and of the pseudo header.
    sum: u64,
}

impl Headers {
    #[inline(always)]
    fn put(&mut self, word: u32) {
        self.bytes[self.len..self.len + 4].copy_from_slice(&word.to_be_bytes());
        self.len += 4;
        self.sum += u64::from(word);
    }

    /// The headers.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Ethernet and IPv4 of a packet with this protocol; the sum is that of the pseudo header (RFC 9293 section 3.1).
    #[inline(always)]
    fn new(ends: &Endpoints, back: bool, wire: WireHeaders, protocol: u8) -> Headers {
        let mut headers = Headers { bytes: [0; MOST], len: ETHERNET, sum: 0 };
        headers.bytes[..ETHERNET].copy_from_slice(&ETHERNETS[usize::from(back != ends.up)]);
        let length = u32::from(wire.len).saturating_sub(ETHERNET as u32);
        let [from, to] = if back { [ends.receiver, ends.sender] } else { [ends.sender, ends.receiver] };
        let field = u32::from(ends.dscp << 2 | wire.ecn as u8);
        headers.put(0x4500_0000 | field << 16 | length);
        // do not fragment
        headers.put(u32::from(wire.id) << 16 | 0x4000);
        // 64 hops
        let protocol = u32::from(protocol);
        let hops = 0x4000_0000 | protocol << 16;
        let addresses = u64::from(from) + u64::from(to);
        headers.put(hops | u32::from(!fold_sum(headers.sum + u64::from(hops) + addresses)));
        headers.put(from);
        headers.put(to);
        headers.sum = addresses + u64::from(protocol + length.saturating_sub(IPV4 as u32));
        headers
    }

    /// A segment of TCP, with a payload of zeros.
    pub fn tcp(ends: &Endpoints, segment: &TcpSegment, wire: WireHeaders) -> Headers {
        let mut headers = Headers::new(ends, segment.back, wire, 6);
        let [mut from, mut to] = [ends.sender_port, ends.receiver_port];
        let [mut own, mut peer] = ends.first;
        if segment.back {
            (from, to, own, peer) = (to, from, peer, own);
        }
        let acknowledges = segment.flags & tcp_flag::ACK != 0;
        let words = u32::from(segment.headers() - (ETHERNET + IPV4) as u16) / 4;
        headers.put(u32::from(from) << 16 | u32::from(to));
        headers.put(own.wrapping_add(segment.seq as u32));
        headers.put(if acknowledges { peer.wrapping_add(segment.ack as u32) } else { 0 });
        headers.put(words << 28 | u32::from(segment.flags) << 16 | u32::from(segment.window));
        headers.put(0);
        headers.put_options(segment, peer);
        let sum = !fold_sum(headers.sum);
        let at = ETHERNET + IPV4 + 16;
        headers.bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        headers
    }

    /// TCP's options in the order of Linux (`tcp_options_write`): MSS, time stamps with SACK permitted, AccECN, window scale, SACK. `peer` is the first
    /// sequence number of what SACK blocks count.
    #[inline(always)]
    fn put_options(&mut self, segment: &TcpSegment, peer: u32) {
        let TcpSegment { tsval, tsecr, .. } = *segment;
        if let Some((mss, scale)) = segment.opening {
            self.put(word([kind::MSS, 4, 0, 0]) | u32::from(mss));
            self.put(word([kind::SACK_PERMITTED, 2, kind::TIMESTAMPS, 10]));
            self.put(tsval);
            self.put(tsecr);
            self.put_counts(segment);
            self.put(word([kind::NOP, kind::SCALE, 3, scale]));
            return;
        }
        self.put(word([kind::NOP, kind::NOP, kind::TIMESTAMPS, 10]));
        self.put(tsval);
        self.put(tsecr);
        if segment.is_padded {
            self.put(word([kind::NOP; 4]));
            self.put(word([kind::NOP; 4]));
        }
        self.put_counts(segment);
        if segment.sacks > 0 {
            self.put(word([kind::NOP, kind::NOP, kind::SACK, 2 + 8 * segment.sacks as u8]));
            for (start, end) in &segment.sack[..segment.sacks] {
                self.put(peer.wrapping_add(*start as u32));
                self.put(peer.wrapping_add(*end as u32));
            }
        }
    }

    /// The AccECN option, if there is one. Beside two SACK blocks it has two counters, of 24 bits each.
    #[inline(always)]
    fn put_counts(&mut self, segment: &TcpSegment) {
        let Some(AccEcnCounts { ect0, ce, ect1 }) = segment.counts else { return };
        let has_last = segment.sacks < 2;
        let length = if has_last { 11 } else { 8 };
        self.put(word([kind::ACCECN, length, 0, 0]) | (ect1 << 8) >> 16);
        self.put(ect1 << 24 | ce & 0x00ff_ffff);
        if has_last {
            self.put(ect0 << 8 | u32::from(kind::NOP));
        }
    }

    /// A datagram of UDP with this payload; what the frame has beyond it is zeros.
    pub fn udp(ends: &Endpoints, back: bool, wire: WireHeaders, payload: &[u8]) -> Headers {
        let mut headers = Headers::new(ends, back, wire, 17);
        let [from, to] = if back { [ends.receiver_port, ends.sender_port] } else { [ends.sender_port, ends.receiver_port] };
        headers.put(u32::from(from) << 16 | u32::from(to));
        headers.put(u32::from(wire.len.saturating_sub((ETHERNET + IPV4) as u16)) << 16);
        // a sum of 0 would say that there is none (RFC 768)
        let sum = match !fold_sum(headers.sum + sum(payload)) {
            0 => u16::MAX,
            sum => sum,
        };
        let at = ETHERNET + IPV4 + UDP - 2;
        headers.bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        headers
    }
}

/// Four bytes as they follow each other.
const fn word(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes)
}

/// Gives the headers of a frame of `len` bytes the sums that they have with a payload of zeros; those of TCP or UDP begin at `transport`.
pub fn complete(headers: &mut [u8], transport: usize, len: u16) {
    let protocol = headers[ETHERNET + 9];
    let at = if protocol == 6 { transport + 16 } else { transport + UDP - 2 };
    headers[ETHERNET + 10..ETHERNET + 12].fill(0);
    let of_ip = !fold_sum(sum(&headers[ETHERNET..transport]));
    headers[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&of_ip.to_be_bytes());
    headers[at..at + 2].fill(0);
    let pseudo = sum(&headers[ETHERNET + 12..ETHERNET + 20]) + u64::from(protocol) + u64::from(len) - transport as u64;
    let found = match !fold_sum(pseudo + sum(&headers[transport..])) {
        // of UDP it would say that there is none (RFC 768)
        0 if protocol != 6 => u16::MAX,
        found => found,
    };
    headers[at..at + 2].copy_from_slice(&found.to_be_bytes());
}

impl TcpSegment {
    /// Bytes of Ethernet, IP and TCP.
    pub fn headers(&self) -> u16 {
        let opening = if self.opening.is_some() || self.is_padded { 8 } else { 0 };
        let sack = if self.sacks > 0 { 4 + 8 * self.sacks as u16 } else { 0 };
        let counts = match (self.counts, self.sacks) {
            (None, _) => 0,
            (Some(_), 0 | 1) => 12,
            (Some(_), _) => 8,
        };
        HEADERS + opening + sack + counts
    }
}

/// The one's complement sum of 16-bit words (RFC 1071), of which words of 32 bits are added, which come to the same when they are folded.
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4);
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    u64::from(word(last)) + words.map(|four| u64::from(word([four[0], four[1], four[2], four[3]]))).sum::<u64>()
}

fn fold_sum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: Endpoints = Endpoints {
        sender: 0x0a00_0001,
        receiver: 0x0a80_0001,
        up: false,
        sender_port: 50_000,
        receiver_port: 9,
        dscp: 0,
        first: [u32::MAX - 9, 1000],
    };

    fn wire(len: u16) -> WireHeaders {
        WireHeaders { len, ecn: Ecn::Ect1, id: 7 }
    }

    /// Sums over a whole packet with its pseudo header come to all ones (RFC 1071).
    fn sums(headers: &Headers, wire: WireHeaders, protocol: u8, payload: &[u8]) -> (u16, u16) {
        let bytes = headers.as_slice();
        let length = u64::from(wire.len) - 34;
        let pseudo = sum(&bytes[26..34]) + u64::from(protocol) + length;
        (fold_sum(sum(&bytes[14..34])), fold_sum(pseudo + sum(&bytes[34..]) + sum(payload)))
    }

    #[test]
    fn the_example_of_rfc_1071() {
        // section 3: 00 01 f2 03 f4 f5 f6 f7 sums to 2ddf0, folded ddf2
        assert_eq!(fold_sum(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        assert_eq!(fold_sum(sum(&[1, 2, 3])), 0x0102 + 0x0300);
    }

    #[test]
    fn a_segment_of_tcp_has_the_headers_of_linux() {
        let flags = tcp_flag::ACK | tcp_flag::PSH;
        let segment = TcpSegment { seq: 1449, ack: 1, flags, window: 502, tsval: 0x0102_0304, tsecr: 5, ..TcpSegment::default() };
        let headers = Headers::tcp(&ENDS, &segment, wire(1514));
        let bytes = headers.as_slice();
        assert_eq!((bytes.len(), segment.headers()), (66, 66));
        assert_eq!(bytes[..14], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        // 1500 B, ECT(1), the identification, DF
        assert_eq!(bytes[14..23], [0x45, 1, 0x05, 0xdc, 0, 7, 0x40, 0, 64]);
        // 2^32 - 10 + 1449 wraps to 1439, and 1000 + 1
        assert_eq!(bytes[34..50], [0xc3, 0x50, 0, 9, 0, 0, 0x05, 0x9f, 0, 0, 0x03, 0xe9, 0x80, 0x18, 1, 246]);
        assert_eq!(bytes[54..], [1, 1, 8, 10, 1, 2, 3, 4, 0, 0, 0, 5]);
        assert_eq!(sums(&headers, wire(1514), 6, &[]), (0xffff, 0xffff));
    }

    #[test]
    fn options_take_the_bytes_that_rfcs_give_them() {
        let opening = TcpSegment { flags: tcp_flag::SYN, opening: Some((1460, 7)), tsval: 9, ..TcpSegment::default() };
        let headers = Headers::tcp(&ENDS, &opening, wire(74));
        assert_eq!(headers.as_slice()[54..], [2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7]);
        assert_eq!((opening.headers(), sums(&headers, wire(74), 6, &[])), (74, (0xffff, 0xffff)));
        let counts = AccEcnCounts { ect0: 1, ce: 0x0100_0203, ect1: 1449 };
        // on a SYN-ACK behind the time stamps, ahead of the scale
        let agrees = TcpSegment { counts: Some(AccEcnCounts::NONE), back: true, ..opening };
        let answer = Headers::tcp(&ENDS, &agrees, wire(86));
        assert_eq!(answer.as_slice()[70..], [174, 11, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 3, 3, 7]);
        assert_eq!((agrees.headers(), sums(&answer, wire(86), 6, &[])), (86, (0xffff, 0xffff)));
        let mut segment = TcpSegment { back: true, flags: tcp_flag::ACK, ack: 1, counts: Some(counts), ..TcpSegment::default() };
        let of = |one: &TcpSegment| Headers::tcp(&ENDS, one, wire(one.headers())).as_slice()[66..].to_vec();
        // of the counter of CE, 24 bits
        assert_eq!(of(&segment), [174, 11, 0, 0x05, 0xa9, 0, 0x02, 0x03, 0, 0, 1, 1]);
        segment.sack = [(2897, 4345), (20, 30), (40, 50)];
        for (sacks, length) in [(1, 66 + 12 + 12), (2, 66 + 20 + 8)] {
            segment.sacks = sacks;
            let made = Headers::tcp(&ENDS, &segment, wire(segment.headers()));
            assert_eq!((segment.headers(), made.as_slice().len()), (length, usize::from(length)));
            assert_eq!(sums(&made, wire(length), 6, &[]), (0xffff, 0xffff));
        }
        // without the last counter beside two blocks, which count from the sender's first number: 2^32 - 10 + 2897 = 2887
        assert_eq!(of(&segment)[..16], [174, 8, 0, 0x05, 0xa9, 0, 0x02, 0x03, 1, 1, 5, 18, 0, 0, 0x0b, 0x47]);
        // three blocks leave no room
        (segment.sacks, segment.counts) = (3, None);
        assert_eq!((segment.headers(), of(&segment).len()), (66 + 28, 28));
    }

    #[test]
    fn a_datagram_has_its_payload_in_its_sum() {
        let payload = [1, 2, 3, 4, 5];
        let headers = Headers::udp(&ENDS, true, wire(47), &payload);
        assert_eq!(headers.as_slice()[34..40], [0, 9, 0xc3, 0x50, 0, 13]);
        assert_eq!(sums(&headers, wire(47), 17, &payload), (0xffff, 0xffff));
    }
}
