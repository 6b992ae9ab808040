//! What both ends of a flow put into headers, from what the simulator moves.

use crate::frame::{tcp_flag, Counts, Ends, Segment};
use dumbbell_core::log::{Beginning, Speech};
use dumbbell_core::packet::{flag, Ecn, Packet, HEADERS, NO_TSECR};
use dumbbell_core::tcp::host::{HostParams, Opener};
use dumbbell_core::tcp::window::scale;
use dumbbell_core::tcp::{ack_flag, Ack, Block};
use dumbbell_core::units::Time;
use std::collections::VecDeque;

/// Bytes that time stamps take of a segment's largest payload.
const STAMPS: u16 = 12;
/// Window that the sender of data offers, which receives none: Linux's first one with an MSS of 1460, bytes.
const SENDERS_WINDOW: u16 = 64_240;
/// Ports of senders: none of these has a protocol that Wireshark takes for granted.
const FIRST_PORT: u32 = 50_000;
const PORTS: u32 = 4_000;
/// Port of receivers: discard (RFC 863). They do nothing else with what they get.
const DISCARD: u16 = 9;
/// Port of receivers of a transport over UDP.
const QUIC: u16 = 443;

/// What the hosts of a run are like.
#[derive(Clone, Copy, Debug)]
pub struct Hosts {
    mss: u16,
    scale: u8,
    opener: Opener,
    accecn_option: bool,
}

impl Hosts {
    pub fn new(host: &HostParams) -> Hosts {
        let HostParams { mss, receive_buffer, opener, accecn_option, .. } = *host;
        Hosts { mss: mss as u16 + STAMPS, scale: scale(receive_buffer), opener, accecn_option }
    }

    /// The receiver of data sends the SYN.
    pub fn receiver_opens(&self) -> bool {
        self.opener == Opener::Receiver
    }
}

/// Segments in a row that are equally long.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Number of the first, and bytes ahead of it.
    seq: u64,
    offset: u64,
    size: u16,
}

/// One flow.
pub struct Connection {
    /// Its number in the run.
    pub number: u32,
    /// By how much the clock of the engine is ahead of its sender's, and behind its receiver's.
    pub ahead: Time,
    pub behind: Time,
    pub speaks: Speech,
    pub ends: Ends,
    hosts: Hosts,
    /// Codepoint of what its receiver sends.
    pub back_ecn: Ecn,
    rows: Vec<Row>,
    /// Number of the next new segment, and bytes ahead of it.
    next: (u64, u64),
    /// Both ends count CE: the receiver says so, and the sender has heard it.
    receiver_counts: bool,
    sender_counts: bool,
    /// ECN fields of the SYN and of the SYN-ACK, as they arrived.
    syn_ecn: Ecn,
    syn_ack_ecn: Ecn,
    /// Payload that came with ECT(0) and with ECT(1), bytes.
    received: [u32; 2],
    counted: VecDeque<Counted>,
    /// Time stamp of the newest acknowledgement that the sender has heard.
    heard: u32,
    /// Identification of the next packet of the sender.
    id: u16,
    /// Acknowledgements that queues have marked, by number and time stamp.
    marked: Vec<(u64, u32)>,
}

/// What a packet of the sender has from its start on, and does not say by itself everywhere on its way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    /// Identification of its IP packet.
    pub id: u16,
    /// It left with ECT(1).
    pub is_ect1: bool,
    /// Time stamp that it echoes.
    pub tsecr: u32,
}

/// A packet of the sender, as its headers need it.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub packet: Packet,
    pub start: Start,
}

/// What the receiver sends, as its headers need it.
#[derive(Clone, Debug)]
pub struct Answered {
    pub ack: Ack,
    pub blocks: Option<Box<[Block]>>,
    pub ecn: Ecn,
    counts: [u32; 2],
    syn_ecn: Ecn,
}

/// An acknowledgement with AccECN's option that is under way, and what its receiver had counted when it left.
struct Counted {
    ack: u64,
    tsval: u32,
    ce_bytes: u32,
    counts: [u32; 2],
    is_in_hops: bool,
}

impl Counted {
    fn is(&self, ack: &Ack) -> bool {
        (self.ack, self.tsval, self.ce_bytes) == (ack.ack, ack.tsval, ack.ce_bytes)
    }
}

/// An acknowledgement is not overtaken by so many others: those that are further ahead of one that arrives were lost.
const OVERTAKEN: usize = 64;

/// The ACE field of a handshake, which says what ECN field came (RFC 9768 section 3.1.2, table 3).
fn ace_of(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    }
}

impl Connection {
    pub fn new(beginning: &Beginning, hosts: Hosts) -> Connection {
        let Beginning { number, ahead, behind, key, back_ecn, speaks } = *beginning;
        // 10.0.0.0/9 and 10.128.0.0/9: the lower bits name the host, those above distinguish flows that share a port
        let sender = (10 << 24) | (((number / PORTS) & 0x7ff) << 12) | (key.src_host & 0xfff);
        let receiver = (10 << 24) | (1 << 23) | (key.dst_host & 0x7f_ffff);
        // any numbers, which are not those of the flow before
        let first =
            [number.wrapping_mul(0x9e37_79b9).wrapping_add(1), number.wrapping_mul(0x85eb_ca6b).wrapping_add(0x4000_0001)];
        let receiver_port = if speaks == Speech::Datagrams { QUIC } else { DISCARD };
        let sender_port = (FIRST_PORT + number % PORTS) as u16;
        Connection {
            number,
            ahead,
            behind,
            speaks,
            ends: Ends { sender, receiver, sender_port, receiver_port, dscp: key.dscp, first },
            hosts,
            back_ecn,
            rows: Vec::new(),
            next: (0, 0),
            receiver_counts: false,
            sender_counts: false,
            syn_ecn: Ecn::NotEct,
            syn_ack_ecn: Ecn::NotEct,
            received: [0; 2],
            counted: VecDeque::new(),
            heard: 0,
            id: 0,
            marked: Vec::new(),
        }
    }

    /// Whether it is TCP.
    pub fn is_tcp(&self) -> bool {
        matches!(self.speaks, Speech::Tcp { .. })
    }

    /// Nothing has been sent yet.
    pub fn is_new(&self) -> bool {
        self.id == 0 && self.next.0 == 0
    }

    /// Bytes ahead of segment `seq`.
    pub fn offset(&self, seq: u64) -> u64 {
        let row = self.rows.iter().rev().find(|row| row.seq <= seq);
        row.map_or(0, |row| row.offset + (seq - row.seq) * u64::from(row.size))
    }

    /// Bytes of headers of a segment of data.
    fn headers(&self) -> u16 {
        HEADERS + if self.has_option() { STAMPS } else { 0 }
    }

    fn has_option(&self) -> bool {
        self.sender_counts && self.hosts.accecn_option
    }

    /// The sender sends this packet.
    pub fn send(&mut self, packet: &Packet) -> Start {
        self.id = self.id.wrapping_add(1);
        if self.is_tcp() && !packet.has(flag::NO_DATA) && packet.seq >= self.next.0 {
            let size = packet.len.saturating_sub(self.headers());
            let offset = self.next.1 + (packet.seq - self.next.0) * u64::from(size);
            if self.rows.last().is_none_or(|row| row.size != size) {
                self.rows.push(Row { seq: packet.seq, offset, size });
            }
            self.next = (packet.seq + 1, offset + u64::from(size));
        }
        let tsecr = match packet.tsecr_age {
            NO_TSECR => self.heard,
            age => packet.tsval.wrapping_sub(u32::from(age)),
        };
        Start { id: self.id, is_ect1: packet.ecn == Ecn::Ect1, tsecr }
    }

    /// A packet reaches the receiver.
    pub fn deliver(&mut self, packet: &Packet) {
        if packet.has(flag::SYN) {
            self.syn_ecn = packet.ecn;
        } else if self.receiver_counts && !packet.has(flag::NO_DATA) {
            let payload = u32::from(packet.len.saturating_sub(self.headers()));
            match packet.ecn {
                Ecn::Ect0 => self.received[0] = self.received[0].wrapping_add(payload),
                Ecn::Ect1 => self.received[1] = self.received[1].wrapping_add(payload),
                _ => {}
            }
        }
    }

    /// The receiver sends this.
    pub fn answer(&mut self, ack: &Ack, blocks: &[Block]) -> Answered {
        if ack.has(ack_flag::SYN_ACK) {
            self.receiver_counts = ack.has(ack_flag::ACCECN_SETUP);
        }
        if self.receiver_counts && ack.has(ack_flag::ACCECN_OPTION) {
            let Ack { ack, tsval, ce_bytes, .. } = *ack;
            self.counted.push_back(Counted { ack, tsval, ce_bytes, counts: self.received, is_in_hops: false });
        }
        self.answered(ack, blocks, self.received)
    }

    /// This enters hops; what its receiver had counted when it left.
    pub fn enter(&mut self, ack: &Ack) -> [u32; 2] {
        if !ack.has(ack_flag::ACCECN_OPTION) {
            return self.received;
        }
        // of those that look alike the first that has not entered
        let Some(first) = self.counted.iter_mut().find(|one| one.is(ack) && !one.is_in_hops) else { return self.received };
        first.is_in_hops = true;
        first.counts
    }

    /// The same somewhere on its way, with these counts.
    pub fn answered(&self, ack: &Ack, blocks: &[Block], counts: [u32; 2]) -> Answered {
        let ecn = if ack.has(ack_flag::ECHO) { Ecn::from_bits(ack.flags) } else { self.back_ecn };
        let blocks = (!blocks.is_empty()).then(|| blocks.into());
        Answered { ack: *ack, blocks, ecn, counts, syn_ecn: self.syn_ecn }
    }

    /// A queue has marked an acknowledgement.
    pub fn mark(&mut self, ack: &Ack) {
        self.marked.push((ack.ack, ack.tsval));
    }

    /// What the receiver sent reaches the sender.
    pub fn hear(&mut self, ack: &Ack, blocks: &[Block]) -> Answered {
        let mut counts = self.received;
        let mut waiting = self.counted.iter();
        if let Some(index) = ack.has(ack_flag::ACCECN_OPTION).then(|| waiting.position(|one| one.is(ack))).flatten() {
            counts = self.counted.remove(index).map_or(counts, |one| one.counts);
            self.counted.drain(..index.saturating_sub(OVERTAKEN));
        }
        let mut answered = self.answered(ack, blocks, counts);
        if let Some(index) = self.marked.iter().position(|marked| *marked == (ack.ack, ack.tsval)) {
            self.marked.remove(index);
            answered.ecn = Ecn::Ce;
        }
        if ack.has(ack_flag::ECHO) {
            return answered;
        }
        if ack.has(ack_flag::SYN_ACK) && !self.sender_counts {
            let asks = self.speaks == Speech::Tcp { ecn: true, accurate: true };
            self.sender_counts = asks && ack.has(ack_flag::ECN_SETUP) && ack.has(ack_flag::ACCECN_SETUP);
            self.syn_ack_ecn = answered.ecn;
        }
        self.heard = ack.tsval;
        answered
    }

    /// The flags of a SYN that asks for ECN.
    fn asks(&self) -> u16 {
        match self.speaks {
            Speech::Tcp { ecn: true, accurate: true } => tcp_flag::ace(0b111),
            Speech::Tcp { ecn: true, .. } => tcp_flag::ECE | tcp_flag::CWR,
            _ => 0,
        }
    }

    fn opening(&self) -> Option<(u16, u8)> {
        Some((self.hosts.mss, self.hosts.scale))
    }

    /// The SYN of a receiver that opens, which the simulator does not move: it came when this answer to it left.
    pub fn syn_of_receiver(&self, answer: &Packet) -> Segment {
        let (flags, opening) = (tcp_flag::SYN | self.asks(), self.opening());
        Segment { back: true, flags, window: SENDERS_WINDOW, tsval: answer.tsval, opening, ..Segment::default() }
    }

    /// The headers of a packet of the sender.
    pub fn segment(&self, sent: &Sent) -> Segment {
        let Sent { packet, start: Start { tsecr, is_ect1, .. } } = sent;
        let window = SENDERS_WINDOW >> self.hosts.scale;
        let of_all = Segment { ack: 1, flags: tcp_flag::ACK, window, tsval: packet.tsval, tsecr: *tsecr, ..Segment::default() };
        if packet.has(flag::SYN) {
            let of_all = Segment { window: SENDERS_WINDOW, opening: self.opening(), ..of_all };
            if self.hosts.receiver_opens() {
                // it answers a SYN that came without ECT
                let agrees = match self.speaks {
                    Speech::Tcp { ecn: true, accurate: true } => tcp_flag::ace(ace_of(Ecn::NotEct)),
                    Speech::Tcp { ecn: true, .. } => tcp_flag::ECE,
                    _ => 0,
                };
                return Segment { flags: tcp_flag::SYN | tcp_flag::ACK | agrees, tsecr: packet.tsval, ..of_all };
            }
            let asks = if packet.has(flag::RETRANSMISSION) { 0 } else { self.asks() };
            return Segment { flags: tcp_flag::SYN | asks, ack: 0, tsecr: 0, ..of_all };
        }
        let first = packet.has(flag::PURE_ACK);
        let ace = match (self.sender_counts, first) {
            (false, _) => 0,
            (true, true) => tcp_flag::ace(ace_of(self.syn_ack_ecn)),
            // 5: no acknowledgement has come with CE, as the simulator has it
            (true, false) => tcp_flag::ace(5),
        };
        // no payload has come
        let counts = Counts { ect0: 1, ce: 0, ect1: 1, ect1_first: *is_ect1 };
        let counts = self.has_option().then_some(counts);
        if first {
            return Segment { seq: 1, flags: of_all.flags | ace, counts, ..of_all };
        }
        let push = if packet.has(flag::PSH) { tcp_flag::PSH } else { 0 };
        let reduced = if packet.has(flag::CWR) && !self.sender_counts { tcp_flag::CWR } else { 0 };
        Segment { seq: 1 + self.offset(packet.seq), flags: of_all.flags | ace | push | reduced, counts, ..of_all }
    }

    /// The headers of what the receiver of TCP sends.
    pub fn answer_segment(&self, answered: &Answered) -> Segment {
        let Answered { ack, blocks, counts: [ect0, ect1], syn_ecn, .. } = answered;
        let opens = self.hosts.receiver_opens();
        let (tsval, tsecr) = (ack.tsval, ack.tsecr);
        let of_all = Segment { back: true, seq: 1, ack: 1, flags: tcp_flag::ACK, tsval, tsecr, ..Segment::default() };
        let window = (ack.window >> self.hosts.scale).min(u32::from(u16::MAX)) as u16;
        if ack.has(ack_flag::SYN_ACK) {
            let counts = ack.has(ack_flag::ACCECN_SETUP);
            if opens {
                // the last packet of its handshake
                let ace = if counts { tcp_flag::ace(ace_of(*syn_ecn)) } else { 0 };
                return Segment { flags: of_all.flags | ace, window, is_padded: true, ..of_all };
            }
            let agrees = match (ack.has(ack_flag::ECN_SETUP), counts) {
                (true, true) => tcp_flag::ace(ace_of(*syn_ecn)),
                (true, false) => tcp_flag::ECE,
                _ => 0,
            };
            let unscaled = ack.window.min(u32::from(u16::MAX)) as u16;
            let flags = tcp_flag::SYN | tcp_flag::ACK | agrees;
            return Segment { seq: 0, flags, window: unscaled, opening: self.opening(), ..of_all };
        }
        let mut segment = Segment { ack: 1 + self.offset(ack.ack), window, ..of_all };
        for (place, (start, end)) in segment.sack.iter_mut().zip(blocks.iter().flat_map(|blocks| blocks.iter())) {
            *place = (1 + self.offset(*start), 1 + self.offset(*end));
            segment.sacks += 1;
        }
        if self.receiver_counts {
            segment.flags |= tcp_flag::ace(ack.ace);
            let counts = Counts { ect0: 1 + ect0, ce: ack.ce_bytes, ect1: 1 + ect1, ect1_first: ect1 > ect0 };
            segment.counts = (ack.has(ack_flag::ACCECN_OPTION) && segment.sacks < 3).then_some(counts);
        } else {
            let ece = if ack.has(ack_flag::ECE) { tcp_flag::ECE } else { 0 };
            segment.flags |= ece | if ack.has(ack_flag::ESCE) { tcp_flag::AE } else { 0 };
        }
        segment
    }

    /// Scale of the windows that the receiver offers.
    pub fn scale(&self) -> u8 {
        self.hosts.scale
    }
}
