//! Records of frames that a kernel sent: what `trace.c` of the engine Linux and the live engine write while a run goes on.

use crate::frame::{complete, tcp_flag, TcpSegment};
use dumbbell_core::log::{DropReason, DropSite, Mark, MarkReason};
use dumbbell_core::packet::Ecn;
use std::io::{self, ErrorKind, Read};

/// Whose a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameOwner {
    /// Number of the flow.
    pub number: u32,
    /// Whether it goes from the receiver of data to their sender.
    pub back: bool,
}

/// Bytes of a record.
pub const RECORD: usize = 112;
/// Bytes of a frame that a record has room for: headers of Ethernet and IPv4, and the longest of TCP, take 94.
pub const SNAP: usize = 96;

const ETHERNET: usize = 14;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Bytes of the number with which the payload of a datagram begins.
const NUMBER: usize = 4;
/// Fewest words of 32 bits in an IPv4 header (RFC 791 section 3.1).
const SHORTEST_IHL: u8 = 5;
/// Largest payload of a burst that crosses a host as one packet, bytes: GSO_MAX_SIZE, 8 times 65,535 (include/linux/netdevice.h).
const LARGEST_BURST: u32 = 8 * 65_535;

/// Decision of a queue on a frame, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueDecision {
    /// The queue marked the frame.
    Marked(Mark, MarkReason),
    /// The queue dropped the frame.
    Dropped(DropReason, DropSite),
}

const MARKS: [MarkReason; 4] = [MarkReason::Aqm, MarkReason::Step, MarkReason::Coupled, MarkReason::Ramp];
const DROPS: [DropReason; 6] =
    [DropReason::Overflow, DropReason::Aqm, DropReason::Loss, DropReason::Policer, DropReason::Filter, DropReason::Replaced];
const PLACES: [DropSite; 4] = [DropSite::Arrival, DropSite::Queue, DropSite::Ahead, DropSite::Behind];

/// The number of a value, from 0.
fn number<T: PartialEq>(all: &[T], one: T) -> u8 {
    all.iter().position(|known| *known == one).unwrap_or(0) as u8
}

impl QueueDecision {
    /// Returns the number of the decision, from 1 on, and of the reason.
    fn to_bytes(self) -> [u8; 2] {
        match self {
            QueueDecision::Marked(mark, reason) => [1 + u8::from(mark == Mark::Sce), number(&MARKS, reason)],
            QueueDecision::Dropped(reason, place) => [3 + number(&PLACES, place), number(&DROPS, reason)],
        }
    }

    fn from_bytes([what, reason]: [u8; 2]) -> Option<QueueDecision> {
        match what {
            0 => None,
            1 | 2 => {
                let mark = if what == 1 { Mark::Ce } else { Mark::Sce };
                MARKS.get(usize::from(reason)).map(|&reason| QueueDecision::Marked(mark, reason))
            }
            _ => {
                let place = PLACES.get(usize::from(what - 3))?;
                DROPS.get(usize::from(reason)).map(|&reason| QueueDecision::Dropped(reason, *place))
            }
        }
    }
}

/// A frame, as far as it was kept.
#[derive(Clone, Copy)]
pub struct CaptureRecord {
    /// On the clock of whoever captured it, ns.
    pub time: u64,
    /// Without FCS, bytes; of a burst that crossed the host as one, more than a frame has.
    pub len: u32,
    /// Whether the frame left the interface; otherwise it came in.
    pub outgoing: bool,
    /// Decision of a queue on the frame, if the record contains one.
    pub told: Option<QueueDecision>,
    kept: u8,
    bytes: [u8; SNAP],
}

impl CaptureRecord {
    /// Returns the record of a frame, with its first bytes.
    pub fn new(time: u64, frame: &[u8], outgoing: bool, told: Option<QueueDecision>) -> CaptureRecord {
        let kept = frame.len().min(SNAP);
        let mut bytes = [0; SNAP];
        bytes[..kept].copy_from_slice(&frame[..kept]);
        CaptureRecord { time, len: frame.len() as u32, outgoing, told, kept: kept as u8, bytes }
    }

    /// As it stands in a file.
    pub fn to_bytes(&self) -> [u8; RECORD] {
        let mut all = [0; RECORD];
        all[..8].copy_from_slice(&self.time.to_le_bytes());
        all[8..12].copy_from_slice(&self.len.to_le_bytes());
        let [what, reason] = self.told.map_or([0; 2], QueueDecision::to_bytes);
        all[12..16].copy_from_slice(&[self.kept, u8::from(self.outgoing), what, reason]);
        all[16..].copy_from_slice(&self.bytes);
        all
    }

    /// The next one of a file; `None` at its end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(from: &mut impl Read) -> io::Result<Option<CaptureRecord>> {
        let mut all = [0; RECORD];
        match from.read_exact(&mut all) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let mut bytes = [0; SNAP];
        bytes.copy_from_slice(&all[16..]);
        let mut time = [0; 8];
        time.copy_from_slice(&all[..8]);
        let len = u32::from_le_bytes([all[8], all[9], all[10], all[11]]);
        let kept = all[12].min(SNAP as u8);
        let told = QueueDecision::from_bytes([all[14], all[15]]);
        Ok(Some(CaptureRecord { time: u64::from_le_bytes(time), len, outgoing: all[13] != 0, told, kept, bytes }))
    }

    /// The frames in it, none if it is not a whole IPv4 packet of TCP or UDP. A burst is as many as it has segments of `mss` bytes, if there are any. With
    /// `completes`, checksums are those of a payload of zeros: the kernel had left them to the hardware.
    pub fn frames(&self, mss: Option<u32>, completes: bool) -> Vec<FrameHeaders> {
        let Some(whole) = FrameHeaders::read(&self.bytes[..usize::from(self.kept)], self.len) else { return Vec::new() };
        let step = mss.filter(|_| whole.is_tcp).unwrap_or(u32::MAX).max(1);
        let count = whole.payload.div_ceil(step).max(1);
        let mut all: Vec<FrameHeaders> = (0..count).map(|number| whole.part(number, count, step)).collect();
        // the length of an IP packet has 16 bits
        all.retain(|frame| frame.headers as u64 + u64::from(frame.payload) <= u64::from(u16::MAX));
        if completes {
            all.iter_mut().for_each(FrameHeaders::complete);
        }
        all
    }
}

/// Headers of an IPv4 packet with TCP or UDP in an Ethernet frame, as they were sent, and what they say.
#[derive(Clone, Copy)]
pub struct FrameHeaders {
    bytes: [u8; SNAP],
    /// Bytes of Ethernet, IPv4, and TCP or UDP.
    headers: usize,
    /// How many of `bytes` there are: headers, and of UDP the number of the datagram.
    kept: usize,
    transport: usize,
    /// Whether it is TCP; otherwise it is UDP.
    pub is_tcp: bool,
    /// Bytes behind the headers.
    pub payload: u32,
    /// Identification of the IP packet.
    pub id: u16,
    /// ECN field.
    pub ecn: Ecn,
    /// Ports of source and destination.
    pub ports: [u16; 2],
    /// Fields of TCP, with numbers as on the wire; for UDP, the sequence number is the first four bytes of the payload.
    pub says: TcpSegment,
    /// The scale of windows that a SYN offers.
    pub scale: Option<u8>,
    /// Whether it has time stamps.
    pub is_stamped: bool,
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl FrameHeaders {
    /// Reads the first bytes of a frame of `len` bytes.
    fn read(kept: &[u8], len: u32) -> Option<FrameHeaders> {
        let ip = kept.get(ETHERNET..).filter(|ip| ip.len() >= 20)?;
        // fragments have no headers of their own
        if half(kept, 12) != 0x0800 || ip[0] >> 4 != 4 || ip[0] & 0xf < SHORTEST_IHL || half(ip, 6) & 0x3fff != 0 {
            return None;
        }
        let (transport, protocol) = (ETHERNET + usize::from(ip[0] & 0xf) * 4, ip[9]);
        let of_transport = kept.get(transport..).filter(|found| found.len() >= 8)?;
        let length = match protocol {
            TCP => usize::from(of_transport.get(12)? >> 4) * 4,
            UDP => 8,
            _ => return None,
        };
        let headers = transport + length;
        if headers > kept.len() || (protocol == TCP && length < 20) {
            return None;
        }
        let payload = len.checked_sub(headers as u32).filter(|payload| *payload <= LARGEST_BURST)?;
        let most = headers + if protocol == UDP { NUMBER } else { 0 };
        let own = &kept[..most.min(kept.len()).min(len as usize)];
        let mut bytes = [0; SNAP];
        bytes[..own.len()].copy_from_slice(own);
        let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(ip[1] & 3)];
        let mut frame = FrameHeaders {
            bytes,
            headers,
            kept: own.len(),
            transport,
            is_tcp: protocol == TCP,
            payload,
            id: half(ip, 4),
            ecn,
            ports: [half(of_transport, 0), half(of_transport, 2)],
            says: TcpSegment::default(),
            scale: None,
            is_stamped: false,
        };
        if protocol == TCP {
            frame.read_tcp();
        } else if let Some(number) = of_transport.get(8..12) {
            frame.says.seq = u64::from(u32::from_le_bytes([number[0], number[1], number[2], number[3]]));
        }
        Some(frame)
    }

    fn read_tcp(&mut self) {
        let tcp = &self.bytes[self.transport..self.headers];
        let says = &mut self.says;
        (says.seq, says.ack) = (u64::from(word(tcp, 4)), u64::from(word(tcp, 8)));
        (says.flags, says.window) = (half(tcp, 12) & 0x1ff, half(tcp, 14));
        let mut options = &tcp[20..];
        while let [kind, rest @ ..] = options {
            let length = match (kind, rest.first()) {
                (0, _) => return,
                (1, _) => 1,
                (_, Some(&length)) if length >= 2 && usize::from(length) <= options.len() => usize::from(length),
                // not an option
                _ => return,
            };
            match (kind, &options[..length]) {
                (3, [_, _, scale]) => self.scale = Some(*scale),
                (5, [_, _, blocks @ ..]) => {
                    // a second option of this kind replaces the first
                    says.sacks = 0;
                    for (place, block) in says.sack.iter_mut().zip(blocks.chunks_exact(8)) {
                        *place = (u64::from(word(block, 0)), u64::from(word(block, 4)));
                        says.sacks += 1;
                    }
                }
                (8, stamps) if length == 10 => {
                    (says.tsval, says.tsecr) = (word(stamps, 2), word(stamps, 6));
                    self.is_stamped = true;
                }
                _ => {}
            }
            options = &options[length..];
        }
    }

    /// Length of the frame without FCS, bytes.
    pub fn len(&self) -> u16 {
        (self.payload as usize + self.headers) as u16
    }

    /// Segment `number` of `count` in a burst, as the kernel cuts it (tcp_gso_segment): the first keeps CWR, the last PSH and FIN.
    fn part(&self, number: u32, count: u32, step: u32) -> FrameHeaders {
        let mut part = *self;
        if count == 1 {
            return part;
        }
        part.payload = step.min(self.payload - number * step);
        part.id = self.id.wrapping_add(number as u16);
        let seq = (self.says.seq as u32).wrapping_add(number * step);
        let mut left_out = if number > 0 { tcp_flag::CWR } else { 0 };
        if number + 1 < count {
            left_out |= tcp_flag::PSH | tcp_flag::FIN;
        }
        (part.says.seq, part.says.flags) = (u64::from(seq), self.says.flags & !left_out);
        let length = part.len().saturating_sub(ETHERNET as u16);
        part.bytes[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&length.to_be_bytes());
        part.bytes[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&part.id.to_be_bytes());
        part.bytes[self.transport + 4..self.transport + 8].copy_from_slice(&seq.to_be_bytes());
        part.bytes[self.transport + 13] &= !left_out as u8;
        part
    }

    fn complete(&mut self) {
        let len = self.len();
        complete(&mut self.bytes[..self.kept], self.transport, len);
    }

    /// The headers, and of UDP the number of the datagram.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.kept]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Endpoints, Headers, WireHeaders};

    const ENDS: Endpoints = Endpoints {
        sender: 0x0a01_0001,
        receiver: 0x0a02_0001,
        up: false,
        sender_port: 10_003,
        receiver_port: 16_384,
        dscp: 0,
        first: [100, 200],
    };

    fn record(segment: &TcpSegment, len: u16, payload: u32) -> CaptureRecord {
        let headers = Headers::tcp(&ENDS, segment, WireHeaders { len, ecn: Ecn::Ect0, id: 65_535 });
        CaptureRecord { len: headers.as_slice().len() as u32 + payload, ..CaptureRecord::new(7, headers.as_slice(), true, None) }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let segment = TcpSegment { flags: tcp_flag::ACK, tsval: 5, tsecr: 6, ..TcpSegment::default() };
        let one = record(&segment, 66, 0);
        let mut file: &[u8] = &[one.to_bytes(), one.to_bytes()].concat();
        for _ in 0..2 {
            let found = CaptureRecord::read(&mut file).unwrap().unwrap();
            assert_eq!((found.time, found.len, found.outgoing, found.kept), (7, 66, true, 66));
            assert_eq!(found.bytes, one.bytes);
        }
        assert!(CaptureRecord::read(&mut file).unwrap().is_none());
    }

    #[test]
    fn frames_with_impossible_headers_are_refused() {
        let segment = TcpSegment { flags: tcp_flag::ACK, tsval: 5, tsecr: 6, ..TcpSegment::default() };
        let whole = record(&segment, 66, 0);
        assert_eq!(whole.frames(None, true).len(), 1);
        // a header of IPv4 that is shorter than its fixed fields: the transport would begin inside it
        for words in 0..SHORTEST_IHL {
            let mut short = whole;
            short.bytes[ETHERNET] = 0x40 | words;
            short.bytes[ETHERNET + 9] = UDP;
            assert!(short.frames(None, true).is_empty(), "{words} words");
        }
        // a burst longer than any that a kernel builds would be cut into millions of segments
        for (payload, count) in [(LARGEST_BURST, LARGEST_BURST), (LARGEST_BURST + 1, 0), (u32::MAX - 66, 0)] {
            assert_eq!(
                CaptureRecord { len: 66 + payload, ..whole }.frames(Some(1), false).len(),
                count as usize,
                "{payload} bytes"
            );
        }
    }

    #[test]
    fn a_second_option_of_sack_blocks_replaces_the_first() {
        let sack = [(3001, 4001), (5001, 6001), (0, 0)];
        let segment = TcpSegment { flags: tcp_flag::ACK, sack, sacks: 2, ..TcpSegment::default() };
        let mut twice = record(&segment, 86, 0);
        // the option of two blocks (18 bytes) as four of no blocks and one of one
        let at = ETHERNET + 20 + 20 + 14;
        let one = [5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        twice.bytes[at..at + 18].copy_from_slice(&[&one[..], &[5, 2, 5, 2, 1, 1, 0, 0]].concat());
        assert_eq!(twice.frames(None, false)[0].says.sacks, 0);
        twice.bytes[at..at + 18].copy_from_slice(&[&[5, 2, 5, 2, 1, 1, 1, 1][..], &one].concat());
        let [frame] = twice.frames(None, false)[..] else { panic!("one frame") };
        assert_eq!((frame.says.sacks, frame.says.sack[0]), (1, (1, 2)));
    }

    #[test]
    fn what_a_queue_did_is_read_as_it_was_written() {
        let marks =
            MARKS.iter().flat_map(|&reason| [QueueDecision::Marked(Mark::Ce, reason), QueueDecision::Marked(Mark::Sce, reason)]);
        let drops = DROPS.iter().flat_map(|&reason| PLACES.map(|place| QueueDecision::Dropped(reason, place)));
        for told in marks.chain(drops).map(Some).chain([None]) {
            let one = CaptureRecord::new(1, &[1; 66], false, told).to_bytes();
            assert_eq!(CaptureRecord::read(&mut &one[..]).unwrap().unwrap().told, told);
        }
    }

    #[test]
    fn what_a_segment_says_is_read_from_its_bytes() {
        let sack = [(3001, 4001), (5001, 6001), (0, 0)];
        let segment = TcpSegment {
            back: true,
            seq: 1,
            ack: 1001,
            flags: tcp_flag::ACK | tcp_flag::ECE,
            window: 77,
            tsval: 5,
            tsecr: 6,
            sack,
            sacks: 2,
            ..TcpSegment::default()
        };
        let [frame] = record(&segment, 86, 0).frames(None, false)[..] else { panic!("one frame") };
        // from first numbers of 200 and 100
        let says = frame.says;
        assert_eq!((says.seq, says.ack, says.flags, says.window), (201, 1101, tcp_flag::ACK | tcp_flag::ECE, 77));
        assert_eq!((says.tsval, says.tsecr, frame.is_stamped), (5, 6, true));
        assert_eq!((says.sacks, says.sack[..2].to_vec()), (2, vec![(3101, 4101), (5101, 6101)]));
        assert_eq!((frame.ports, frame.id, frame.ecn, frame.len()), ([16_384, 10_003], 65_535, Ecn::Ect0, 86));
        let opening = TcpSegment { flags: tcp_flag::SYN, opening: Some((1460, 9)), ..TcpSegment::default() };
        assert_eq!(record(&opening, 74, 0).frames(None, false)[0].scale, Some(9));
    }

    #[test]
    fn a_burst_is_as_many_frames_as_it_would_be_on_a_wire() {
        let flags = tcp_flag::ACK | tcp_flag::PSH | tcp_flag::CWR;
        let segment = TcpSegment { seq: 1, ack: 1, flags, ..TcpSegment::default() };
        let burst = record(&segment, 66, 2 * 1448 + 100);
        let frames = burst.frames(Some(1448), true);
        let found: Vec<_> = frames.iter().map(|one| (one.says.seq, one.id, one.len(), one.says.flags)).collect();
        let (first, next, last) = (tcp_flag::ACK | tcp_flag::CWR, tcp_flag::ACK, tcp_flag::ACK | tcp_flag::PSH);
        assert_eq!(found, [(101, 65_535, 1514, first), (1549, 0, 1514, next), (2997, 1, 166, last)]);
        // each is the frame that would have been built so, sums and all
        for (number, one) in frames.iter().enumerate() {
            let alone = TcpSegment { seq: 1 + 1448 * number as u64, flags: one.says.flags, ..segment };
            let built = Headers::tcp(&ENDS, &alone, WireHeaders { len: one.len(), ecn: Ecn::Ect0, id: one.id });
            assert_eq!(one.bytes(), built.as_slice());
        }
    }

    #[test]
    fn datagrams_keep_their_number() {
        let (wire, number) = (WireHeaders { len: 300, ecn: Ecn::NotEct, id: 3 }, [7, 1, 0, 0]);
        let built = Headers::udp(&ENDS, false, wire, &number);
        for behind in [&number[..], &[7, 1, 0, 0, 5, 5], &[7, 1]] {
            let bytes = [built.as_slice(), behind].concat();
            let record = CaptureRecord { len: 300, ..CaptureRecord::new(7, &bytes, true, None) };
            // with the sum of a payload that has it, and zeros behind it
            let [frame] = record.frames(None, true)[..] else { panic!("one frame") };
            assert_eq!((frame.len(), frame.payload, frame.bytes().len()), (300, 258, 42 + behind.len().min(4)));
            assert_eq!(frame.bytes() == [built.as_slice(), &number].concat(), behind.len() >= 4);
        }
    }

    #[test]
    fn what_is_no_packet_of_tcp_or_udp_has_no_frames() {
        for length in 0..SNAP {
            assert!(CaptureRecord::new(0, &vec![0x45; length], true, None).frames(Some(1), true).is_empty());
        }
        let segment = TcpSegment { flags: tcp_flag::ACK, ..TcpSegment::default() };
        let mut fragment = record(&segment, 66, 0);
        fragment.bytes[20] = 0x20;
        assert!(fragment.frames(None, true).is_empty());
    }
}
