//! Reads the headers of Ethernet frames, and writes the one field that a bottleneck changes: ECN.

use dumbbell_core::packet::{Ecn, FlowKey};

/// Ethernet header: two addresses and the type (IEEE 802.3 section 3.1.1).
const ETHERNET: usize = 14;
/// EtherType of IPv4 (RFC 894).
const IPV4: u16 = 0x0800;
/// EtherType of IPv6 (RFC 2464).
const IPV6: u16 = 0x86dd;
/// Protocol number of TCP (RFC 9293).
pub const TCP: u8 = 6;
/// Protocol number of UDP (RFC 768).
pub const UDP: u8 = 17;

/// Addresses, protocol and ports: what names a flow. IPv4 addresses are IPv4-mapped (RFC 4291 section 2.5.5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Source address.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
    /// Source port; 0 for protocols without ports and for fragments.
    pub src_port: u16,
    /// Destination port; likewise.
    pub dst_port: u16,
    /// Protocol, or the first next header of IPv6.
    pub protocol: u8,
}

impl Tuple {
    /// The flow in the opposite direction.
    pub fn reverse(&self) -> Tuple {
        Tuple { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port, protocol: self.protocol }
    }

    /// The identity for queues that distinguish flows. A host is known by 32 bits, which are folded for IPv6.
    pub fn key(&self, dscp: u8) -> FlowKey {
        let fold = |address: u128| (address ^ (address >> 32) ^ (address >> 64) ^ (address >> 96)) as u32;
        let ports = (u32::from(self.src_port) << 16 | u32::from(self.dst_port)) ^ u32::from(self.protocol).rotate_left(24);
        FlowKey { src_host: fold(self.src), dst_host: fold(self.dst), ports, dscp }
    }
}

/// The fields of a frame that a bottleneck reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedFrame {
    /// Addresses, protocol and ports.
    pub tuple: Tuple,
    /// ECN field.
    pub ecn: Ecn,
    /// Differentiated-services codepoint, 0..=63.
    pub dscp: u8,
}

fn ecn(bits: u8) -> Ecn {
    match bits & 0b11 {
        0b00 => Ecn::NotEct,
        0b01 => Ecn::Ect1,
        0b10 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Source and destination port at `at`, for protocols that have them.
fn ports(frame: &[u8], protocol: u8, at: usize) -> (u16, u16) {
    match (protocol, word(frame, at), word(frame, at + 2)) {
        (TCP | UDP, Some(src), Some(dst)) => (src, dst),
        _ => (0, 0),
    }
}

impl ParsedFrame {
    /// The headers of an Ethernet frame that carries IP; `None` for all others, and for those that are cut off.
    pub fn read(frame: &[u8]) -> Option<ParsedFrame> {
        let ip = frame.get(ETHERNET..)?;
        match word(frame, 12)? {
            IPV4 => {
                // RFC 791 section 3.1
                let header = usize::from(ip.first()? & 0xf) * 4;
                if ip[0] >> 4 != 4 || header < 20 || ip.len() < header {
                    return None;
                }
                let address = |at: usize| u32::from_be_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
                let mapped = |at: usize| 0xffff_0000_0000 | u128::from(address(at));
                // a fragment other than the first has no ports, and the first goes with the rest
                let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0;
                let (src_port, dst_port) = if fragment { (0, 0) } else { ports(ip, ip[9], header) };
                let tuple = Tuple { src: mapped(12), dst: mapped(16), src_port, dst_port, protocol: ip[9] };
                Some(ParsedFrame { tuple, ecn: ecn(ip[1]), dscp: ip[1] >> 2 })
            }
            IPV6 => {
                // RFC 8200 section 3
                if ip.len() < 40 || ip[0] >> 4 != 6 {
                    return None;
                }
                let address = |at: usize| ip[at..at + 16].iter().fold(0, |sum: u128, &byte| sum << 8 | u128::from(byte));
                let class = ip[0] << 4 | ip[1] >> 4;
                let (src_port, dst_port) = ports(ip, ip[6], 40);
                let tuple = Tuple { src: address(8), dst: address(24), src_port, dst_port, protocol: ip[6] };
                Some(ParsedFrame { tuple, ecn: ecn(class), dscp: class >> 2 })
            }
            _ => None,
        }
    }
}

/// Payload of TCP or UDP that a frame carries, bytes; 0 for all else, for IPv6 with extension headers, and for fragments but the first.
pub fn payload(frame: &[u8]) -> u32 {
    let Some(ip) = frame.get(ETHERNET..) else { return 0 };
    // where the transport's header is, and how long it and what follows are
    let (at, length, protocol) = match (word(frame, 12), word(ip, 2), word(ip, 4), word(ip, 6)) {
        (Some(IPV4), Some(total), _, Some(fragment)) if fragment & 0x1fff == 0 && ip.len() >= 20 && ip[0] & 0xf >= 5 => {
            let header = usize::from(ip[0] & 0xf) * 4;
            (header, usize::from(total).saturating_sub(header), ip[9])
        }
        (Some(IPV6), _, Some(length), Some(next)) => (40, usize::from(length), (next >> 8) as u8),
        _ => return 0,
    };
    let header = match (protocol, ip.get(at + 12)) {
        // data offset (RFC 9293 section 3.1)
        (TCP, Some(offset)) => usize::from(offset >> 4) * 4,
        (UDP, _) => 8,
        _ => return 0,
    };
    length.saturating_sub(header) as u32
}

/// Writes the ECN field of a frame that [`ParsedFrame::read`] has read, and brings the checksum of an IPv4 header up to date.
pub fn write_ecn(frame: &mut [u8], ecn: Ecn) {
    let is_ipv4 = word(frame, 12) == Some(IPV4);
    let Some(ip) = frame.get_mut(ETHERNET..) else { return };
    if is_ipv4 {
        let [Some(old), Some(checksum)] = [word(ip, 0), word(ip, 10)] else { return };
        let new = old & !0b11 | ecn as u16;
        if new == old {
            return;
        }
        ip[1] = new as u8;
        ip[10..12].copy_from_slice(&update_checksum(checksum, old, new).to_be_bytes());
    } else if let Some(byte) = ip.get_mut(1) {
        *byte = *byte & !0b0011_0000 | (ecn as u8) << 4;
    }
}

/// The Internet checksum of a header in which the word `old` became `new`: HC' = ~(~HC + ~m + m'), RFC 1624 equation 3.
pub fn update_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The checksum of a header, from nothing (RFC 1071).
    fn checksum(header: &[u8]) -> u16 {
        let words = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
        let sum: u32 = words.sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        !((folded & 0xffff) + (folded >> 16)) as u16
    }

    /// A TCP segment over IPv4 from 10.0.0.1 port `port` to 10.0.0.2 port 5001; `len` bytes in all.
    pub fn ipv4(port: u16, tos: u8, len: usize) -> Vec<u8> {
        let mut frame = vec![0; len];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14..34].copy_from_slice(&[0x45, tos, 0, 0, 0x12, 0x34, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame[36..38].copy_from_slice(&5001_u16.to_be_bytes());
        frame
    }

    fn ipv6(class: u8) -> Vec<u8> {
        let mut frame = vec![0; 14 + 40 + 8];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[14..22].copy_from_slice(&[0x60 | class >> 4, class << 4 | 0xa, 0xbc, 0xde, 0, 8, UDP, 64]);
        frame[22 + 15] = 1;
        frame[38 + 15] = 2;
        frame[54..58].copy_from_slice(&[0x04, 0xd2, 0x16, 0x2e]); // 1234, 5678
        frame
    }

    #[test]
    fn a_header_reckoned_by_hand_keeps_a_right_checksum() {
        // 4500 + 0034 + 1234 + 4000 + 4006 + 0a00 + 0001 + 0a00 + 0002 = eb71, whose complement is 148e
        let mut frame = ipv4(40_000, 0, 66);
        assert_eq!(&frame[24..26], [0x14, 0x8e], "{:02x?}", &frame[14..34]);
        // ECT(0) to CE: the word 4502 becomes 4503, one more, so that the checksum becomes one less
        let mut ect = ipv4(40_000, 0b10, 66);
        assert_eq!(&ect[24..26], [0x14, 0x8c]);
        write_ecn(&mut ect, Ecn::Ce);
        assert_eq!((ect[15], &ect[24..26]), (0b11, &[0x14, 0x8b][..]));
        // the rest is untouched, the checksum over the whole header is right
        assert_eq!(checksum(&ect[14..34]), 0);
        write_ecn(&mut frame, Ecn::NotEct);
        assert_eq!(frame, ipv4(40_000, 0, 66));
    }

    #[test]
    fn the_example_of_rfc_1624_section_4() {
        // HC = 0xDD2F, m = 0x5555, m' = 0x3285: HC' = 0x0000, where equation 2 of RFC 1141 gives 0xFFFF
        assert_eq!(update_checksum(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn ipv4_is_read() {
        let headers = ParsedFrame::read(&ipv4(40_000, 46 << 2 | 0b01, 66)).expect("IPv4");
        let (src, dst) = (0xffff_0a00_0001, 0xffff_0a00_0002);
        let tuple = Tuple { src, dst, src_port: 40_000, dst_port: 5001, protocol: TCP };
        assert_eq!(headers, ParsedFrame { tuple, ecn: Ecn::Ect1, dscp: 46 });
        assert_eq!(tuple.reverse().reverse(), tuple);
        assert_ne!(tuple.key(0), tuple.reverse().key(0));
    }

    #[test]
    fn ipv6_is_read_and_marked_without_a_checksum() {
        let mut frame = ipv6(10 << 2 | 0b10);
        let headers = ParsedFrame::read(&frame).expect("IPv6");
        let tuple = Tuple { src: 1, dst: 2, src_port: 1234, dst_port: 5678, protocol: UDP };
        assert_eq!(headers, ParsedFrame { tuple, ecn: Ecn::Ect0, dscp: 10 });
        write_ecn(&mut frame, Ecn::Ce);
        assert_eq!(frame, ipv6(10 << 2 | 0b11));
    }

    #[test]
    fn payload_is_what_follows_the_headers() {
        // 66 bytes in all, of which 14 + 20 are before TCP, whose header says 8 words: nothing; 100 more are payload
        for (len, expected) in [(66, 0), (166, 100)] {
            let mut frame = ipv4(40_000, 0, len);
            frame[46] = 8 << 4;
            assert_eq!(payload(&frame), expected);
            // the second fragment has no header, and what is padded to 60 bytes is not counted
            frame[20..22].copy_from_slice(&[0, 9]);
            assert_eq!(payload(&frame), 0);
        }
        let mut short = ipv4(40_000, 0, 66);
        short[16..18].copy_from_slice(&41_u16.to_be_bytes());
        short[46] = 5 << 4;
        assert_eq!(payload(&short), 1);
        // the header of IPv4 claims to be shorter than its fixed fields
        short[14] = 0x44;
        assert_eq!((payload(&short), ParsedFrame::read(&short)), (0, None));
        // a length of 8 is that of UDP's header
        let mut udp = ipv6(0);
        assert_eq!(payload(&udp), 0);
        udp[19] = 9;
        assert_eq!(payload(&udp), 1);
    }

    #[test]
    fn fragments_share_a_flow_without_ports() {
        for flags in [0x2000_u16, 0x00b9, 0x20b9] {
            let mut frame = ipv4(40_000, 0, 66);
            frame[20..22].copy_from_slice(&flags.to_be_bytes());
            let tuple = ParsedFrame::read(&frame).expect("IPv4").tuple;
            assert_eq!((tuple.src_port, tuple.dst_port), (0, 0), "{flags:#x}");
        }
    }

    proptest! {
        #[test]
        fn the_update_equals_the_sum_from_nothing(tos: u8, port: u16, len in 66_usize..1515, bits in 0_u8..4) {
            let mut frame = ipv4(port, tos, len);
            write_ecn(&mut frame, ecn(bits));
            prop_assert_eq!(frame, ipv4(port, tos & !3 | bits, len));
        }

        #[test]
        fn junk_is_read_without_a_panic(mut frame in prop::collection::vec(any::<u8>(), 0..80), kind in 0..3) {
            if let (Some(place), true) = (frame.get_mut(12..14), kind < 2) {
                place.copy_from_slice(&[IPV4, IPV6][kind as usize].to_be_bytes());
            }
            let headers = ParsedFrame::read(&frame);
            prop_assert!(payload(&frame) <= 65_535);
            write_ecn(&mut frame, Ecn::Ce);
            if headers.is_some() {
                prop_assert_eq!(ParsedFrame::read(&frame).map(|found| found.ecn), Some(Ecn::Ce));
            }
        }
    }
}
