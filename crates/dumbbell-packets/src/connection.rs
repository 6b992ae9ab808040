//! Builds the headers of both ends of a flow from the packets of the simulator.

use crate::frame::{tcp_flag, AccEcnCounts, Endpoints, TcpSegment};
use dumbbell_core::observe::{FlowStart, ProtocolKind};
use dumbbell_core::packet::{flag, Ecn, Packet, HEADERS, SYN_FRAME};
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::host::{HostParams, Opener};
use dumbbell_core::tcp::window::{first, scale};
use dumbbell_core::tcp::{ack_flag, Ack, BackEcn, Block};
use dumbbell_core::units::Duration;
use std::collections::VecDeque;

/// Bytes that time stamps take of a segment's largest payload.
const STAMPS: u16 = 12;
/// Ports of senders: none of these has a protocol that Wireshark takes for granted.
const FIRST_PORT: u32 = 50_000;
const PORTS: u32 = 4_000;
/// Port of receivers: discard (RFC 863). They do nothing else with what they get.
const DISCARD: u16 = 9;
/// Port of receivers of a transport over UDP.
const QUIC: u16 = 443;

/// Traits of the hosts of a run.
#[derive(Clone, Copy, Debug)]
pub struct HostTraits {
    mss: u16,
    scale: u8,
    opener: Opener,
    accecn_option: bool,
    windows: FirstWindows,
}

/// First windows, bytes. Who answers a SYN knows that segments have time stamps.
#[derive(Clone, Copy, Debug)]
struct FirstWindows {
    of_syn: u32,
    of_syn_ack: u32,
}

impl HostTraits {
    pub fn new(host: &HostParams) -> HostTraits {
        let HostParams { mss, receive_buffer, opener, accecn_option, .. } = *host;
        let full = mss as u16 + STAMPS;
        let windows = FirstWindows { of_syn: first(full), of_syn_ack: first(mss as u16) };
        HostTraits { mss: full, scale: scale(receive_buffer), opener, accecn_option, windows }
    }

    /// The receiver of data sends the SYN.
    pub fn receiver_opens(&self) -> bool {
        self.opener == Opener::Receiver
    }

    /// A window as headers have it: rounded up to the scale, as Linux `__tcp_select_window` does.
    fn scale_window(&self, window: u32) -> u16 {
        u16::try_from(window.div_ceil(1 << self.scale)).unwrap_or(u16::MAX)
    }
}

/// Segments in a row that are equally long.
#[derive(Clone, Copy, Debug)]
struct EqualSegments {
    /// Number of the first, and bytes ahead of it.
    seq: u64,
    offset: u64,
    size: u16,
}

/// One flow.
pub struct TrackedFlow {
    /// Number of the flow in the run.
    pub number: u32,
    /// By how much the clock of the engine is ahead of its sender's, and behind its receiver's.
    pub ahead: Duration,
    pub behind: Duration,
    pub speaks: ProtocolKind,
    pub ends: Endpoints,
    hosts: HostTraits,
    /// Codepoints of what its receiver sends.
    pub back_ecn: BackEcn,
    rows: Vec<EqualSegments>,
    /// Number of the next new segment, and bytes ahead of it.
    next: (u64, u64),
    /// Both ends count CE: the receiver said so in a packet that has reached the sender.
    receiver_counts: bool,
    sender_counts: bool,
    /// Codepoint with which the sender left its part of the handshake: a receiver that opens has sent its SYN with the same.
    first_ecn: Ecn,
    /// ECN fields of the SYN and of the SYN-ACK, as they arrived.
    syn_ecn: Ecn,
    syn_ack_ecn: Ecn,
    /// Payload that came with ECT(0) and with ECT(1), bytes.
    received: [u32; 2],
    counted: VecDeque<CountedAck>,
    /// Time stamp of the newest acknowledgement that has reached the sender.
    heard: u32,
    /// Packets that the sender has sent, modulo 65536.
    sent: u16,
    /// Identifications from which the two ends count their IP packets.
    ids: [u16; 2],
    /// Acknowledgements that queues have marked, by what they acknowledge and number.
    marked: Vec<(u64, u16)>,
}

/// Header fields that a packet of the sender has from its start, and that it does not carry all along its path.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendState {
    /// Identification of its IP packet.
    pub id: u16,
    /// Time stamp that it echoes.
    pub tsecr: u32,
}

/// A packet of the sender, as its headers need it.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub packet: Packet,
    pub start: SendState,
}

/// Header fields of the receiver's packets.
#[derive(Clone, Debug)]
pub struct AckHeaders {
    pub reply: ReceiverReply,
    pub blocks: Option<Box<[Block]>>,
    pub ecn: Ecn,
    counts: [u32; 2],
    syn_ecn: Ecn,
}

/// An acknowledgement with AccECN's option that is under way, and what its receiver had counted when it left.
struct CountedAck {
    id: u16,
    counts: [u32; 2],
}

/// An acknowledgement is not overtaken by so many others: those that are further ahead of one that arrives were lost.
const OVERTAKEN: usize = 64;

/// A window as a SYN has it, which knows no scale.
fn syn_window(window: u32) -> u16 {
    u16::try_from(window).unwrap_or(u16::MAX)
}

/// The ACE field of a handshake, which says what ECN field came (RFC 9768 section 3.1.2, table 3).
fn ace_of(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    }
}

impl TrackedFlow {
    pub fn new(beginning: &FlowStart, hosts: HostTraits) -> TrackedFlow {
        let FlowStart { number, ahead, behind, key, up, back_ecn, protocol: speaks } = *beginning;
        // 10.0.0.0/9 on the left, 10.128.0.0/9 on the right: the lower bits name the host, those above distinguish flows that share a port
        let left = (10 << 24) | (((number / PORTS) & 0x7ff) << 12) | (key.src_host & 0xfff);
        let right = (10 << 24) | (1 << 23) | (key.dst_host & 0x7f_ffff);
        let (sender, receiver) = if up { (right, left) } else { (left, right) };
        // any numbers, which are not those of the flow before
        let first =
            [number.wrapping_mul(0x9e37_79b9).wrapping_add(1), number.wrapping_mul(0x85eb_ca6b).wrapping_add(0x4000_0001)];
        let ids = [0x9e37_79b9, 0x85eb_ca6b].map(|factor: u32| (number.wrapping_add(1).wrapping_mul(factor) >> 16) as u16);
        let receiver_port = if speaks == ProtocolKind::Datagrams { QUIC } else { DISCARD };
        let sender_port = (FIRST_PORT + number % PORTS) as u16;
        TrackedFlow {
            number,
            ahead,
            behind,
            speaks,
            ends: Endpoints { sender, receiver, up, sender_port, receiver_port, dscp: key.dscp, first },
            hosts,
            back_ecn,
            rows: Vec::new(),
            next: (0, 0),
            receiver_counts: false,
            sender_counts: false,
            first_ecn: Ecn::NotEct,
            syn_ecn: Ecn::NotEct,
            syn_ack_ecn: Ecn::NotEct,
            received: [0; 2],
            counted: VecDeque::new(),
            heard: 0,
            sent: 0,
            ids,
            marked: Vec::new(),
        }
    }

    /// Whether it is TCP.
    pub fn is_tcp(&self) -> bool {
        matches!(self.speaks, ProtocolKind::Tcp { .. })
    }

    /// Nothing has been sent yet.
    pub fn is_new(&self) -> bool {
        self.sent == 0 && self.next.0 == 0
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
    pub fn send(&mut self, packet: &Packet) -> SendState {
        // that of a SYN-ACK, as of its receiver's
        let answers = packet.has(flag::SYN) && self.hosts.receiver_opens();
        if packet.has(flag::SYN) {
            self.first_ecn = packet.ecn();
        }
        let id = if answers { 0 } else { self.ids[0].wrapping_add(self.sent) };
        self.sent = self.sent.wrapping_add(1);
        if !self.is_tcp() {
            return SendState { id, tsecr: self.heard };
        }
        let seq = packet.tcp().seq();
        if !packet.has(flag::NO_DATA) && seq >= self.next.0 {
            let size = packet.len.saturating_sub(self.headers());
            let offset = self.next.1 + (seq - self.next.0) * u64::from(size);
            if self.rows.last().is_none_or(|row| row.size != size) {
                self.rows.push(EqualSegments { seq, offset, size });
            }
            self.next = (seq + 1, offset + u64::from(size));
        }
        SendState { id, tsecr: packet.tcp().tsecr().unwrap_or(self.heard) }
    }

    /// A packet reaches the receiver.
    pub fn deliver(&mut self, packet: &Packet) {
        if packet.has(flag::SYN) {
            self.syn_ecn = packet.ecn();
        } else if self.receiver_counts && !packet.has(flag::NO_DATA) {
            let payload = u32::from(packet.len.saturating_sub(self.headers()));
            match packet.ecn() {
                Ecn::Ect0 => self.received[0] = self.received[0].wrapping_add(payload),
                Ecn::Ect1 => self.received[1] = self.received[1].wrapping_add(payload),
                _ => {}
            }
        }
    }

    /// The receiver sends this.
    pub fn answer(&mut self, reply: &ReceiverReply, blocks: &[Block]) -> AckHeaders {
        if let Some(ack) = reply.ack() {
            if ack.has(ack_flag::SYN_ACK) {
                self.receiver_counts = ack.has(ack_flag::ACCECN_SETUP);
                self.back_ecn.negotiate(ack);
            }
            if self.receiver_counts && ack.has(ack_flag::ACCECN_OPTION) {
                self.counted.push_back(CountedAck { id: ack.id, counts: self.received });
            }
        }
        self.ack_headers(reply, blocks, self.received)
    }

    /// Returns the counts of the receiver when `reply` left.
    pub fn counts(&self, reply: &ReceiverReply) -> [u32; 2] {
        let ack = reply.ack().filter(|ack| ack.has(ack_flag::ACCECN_OPTION));
        let found = ack.and_then(|ack| self.counted.iter().find(|one| one.id == ack.id));
        found.map_or(self.received, |one| one.counts)
    }

    /// Identification of the IP packet of what the receiver sends. A SYN-ACK belongs to no socket yet, and has none (Linux `ip_build_and_send_pkt`).
    pub fn id_of(&self, reply: &ReceiverReply) -> u16 {
        if reply.is_syn_ack() && !self.hosts.receiver_opens() {
            return 0;
        }
        self.ids[1].wrapping_add(reply.id())
    }

    /// Returns the IP identification of the receiver's SYN, which comes ahead of all others.
    pub fn id_of_syn(&self) -> u16 {
        self.ids[1].wrapping_sub(1)
    }

    /// Returns the headers of an acknowledgement somewhere on its path, with these counts.
    pub fn ack_headers(&self, reply: &ReceiverReply, blocks: &[Block], counts: [u32; 2]) -> AckHeaders {
        let ecn = reply.codepoint(&self.back_ecn);
        let blocks = (!blocks.is_empty()).then(|| blocks.into());
        AckHeaders { reply: *reply, blocks, ecn, counts, syn_ecn: self.syn_ecn }
    }

    /// A queue has marked an acknowledgement.
    pub fn mark(&mut self, ack: &Ack) {
        self.marked.push((ack.ack, ack.id));
    }

    /// Handles an acknowledgement that reaches the sender, and returns its headers.
    pub fn receive_ack(&mut self, reply: &ReceiverReply, blocks: &[Block]) -> AckHeaders {
        let Some(ack) = reply.ack() else { return self.ack_headers(reply, blocks, self.received) };
        let mut counts = self.received;
        let mut waiting = self.counted.iter();
        if let Some(index) = ack.has(ack_flag::ACCECN_OPTION).then(|| waiting.position(|one| one.id == ack.id)).flatten() {
            counts = self.counted.remove(index).map_or(counts, |one| one.counts);
            self.counted.drain(..index.saturating_sub(OVERTAKEN));
        }
        let mut answered = self.ack_headers(reply, blocks, counts);
        if let Some(index) = self.marked.iter().position(|marked| *marked == (ack.ack, ack.id)) {
            self.marked.remove(index);
            answered.ecn = Ecn::Ce;
        }
        if ack.has(ack_flag::SYN_ACK) && !self.sender_counts {
            let asks = self.speaks == ProtocolKind::Tcp { ecn: true, accurate: true };
            self.sender_counts = asks && ack.has(ack_flag::ECN_SETUP) && ack.has(ack_flag::ACCECN_SETUP);
            self.syn_ack_ecn = answered.ecn;
        }
        self.heard = ack.tsval;
        answered
    }

    /// The flags of a SYN that asks for ECN.
    fn ecn_request(&self) -> u16 {
        match self.speaks {
            ProtocolKind::Tcp { ecn: true, accurate: true } => tcp_flag::ace(0b111),
            ProtocolKind::Tcp { ecn: true, .. } => tcp_flag::ECE | tcp_flag::CWR,
            _ => 0,
        }
    }

    fn opening(&self) -> Option<(u16, u8)> {
        Some((self.hosts.mss, self.hosts.scale))
    }

    /// The SYN of a receiver that opens, which the simulator does not move: it came when this answer to it left.
    pub fn syn_of_receiver(&self, answer: &Packet) -> TcpSegment {
        let (flags, opening) = (tcp_flag::SYN | self.ecn_request(), self.opening());
        let window = syn_window(self.hosts.windows.of_syn);
        TcpSegment { back: true, flags, window, tsval: answer.tcp().tsval(), opening, ..TcpSegment::default() }
    }

    /// The headers of a packet of the sender.
    pub fn segment(&self, sent: &Sent) -> TcpSegment {
        let Sent { packet, start: SendState { tsecr, .. } } = sent;
        // it receives no data, and its window stays
        let FirstWindows { of_syn, of_syn_ack } = self.hosts.windows;
        let offered = if self.hosts.receiver_opens() { of_syn_ack } else { of_syn };
        let window = self.hosts.scale_window(offered);
        let tsval = packet.tcp().tsval();
        let of_all = TcpSegment { ack: 1, flags: tcp_flag::ACK, window, tsval, tsecr: *tsecr, ..TcpSegment::default() };
        if packet.has(flag::SYN) {
            let of_all = TcpSegment { window: syn_window(offered), opening: self.opening(), ..of_all };
            if self.hosts.receiver_opens() {
                // it answers a SYN that no queue has marked
                let agrees = match self.speaks {
                    ProtocolKind::Tcp { ecn: true, accurate: true } => tcp_flag::ace(ace_of(self.first_ecn)),
                    ProtocolKind::Tcp { ecn: true, .. } => tcp_flag::ECE,
                    _ => 0,
                };
                let counts = (packet.len > SYN_FRAME).then_some(AccEcnCounts::NONE);
                return TcpSegment { flags: tcp_flag::SYN | tcp_flag::ACK | agrees, tsecr: tsval, counts, ..of_all };
            }
            let asks = if packet.has(flag::RETRANSMISSION) { 0 } else { self.ecn_request() };
            return TcpSegment { flags: tcp_flag::SYN | asks, ack: 0, tsecr: 0, ..of_all };
        }
        let first = packet.has(flag::PURE_ACK);
        let ace = match (self.sender_counts, first) {
            (false, _) => 0,
            (true, true) => tcp_flag::ace(ace_of(self.syn_ack_ecn)),
            // 5: no acknowledgement has come with CE, as the simulator has it
            (true, false) => tcp_flag::ace(5),
        };
        // no payload has come
        let counts = self.has_option().then_some(AccEcnCounts::NONE);
        if first {
            return TcpSegment { seq: 1, flags: of_all.flags | ace, counts, ..of_all };
        }
        let push = if packet.has(flag::PSH) { tcp_flag::PSH } else { 0 };
        let reduced = if packet.has(flag::CWR) && !self.sender_counts { tcp_flag::CWR } else { 0 };
        TcpSegment { seq: 1 + self.offset(packet.tcp().seq()), flags: of_all.flags | ace | push | reduced, counts, ..of_all }
    }

    /// The headers of what the receiver of TCP sends.
    pub fn answer_segment(&self, answered: &AckHeaders, ack: &Ack) -> TcpSegment {
        let AckHeaders { blocks, counts: [ect0, ect1], syn_ecn, .. } = answered;
        let opens = self.hosts.receiver_opens();
        let (tsval, tsecr) = (ack.tsval, ack.tsecr);
        let of_all = TcpSegment { back: true, seq: 1, ack: 1, flags: tcp_flag::ACK, tsval, tsecr, ..TcpSegment::default() };
        let window = (ack.window >> self.hosts.scale).min(u32::from(u16::MAX)) as u16;
        if ack.has(ack_flag::SYN_ACK) {
            let is_accurate = ack.has(ack_flag::ACCECN_SETUP);
            let counts = ack.has(ack_flag::ACCECN_OPTION).then_some(AccEcnCounts::NONE);
            let of_all = TcpSegment { counts, ..of_all };
            if opens {
                // the last packet of its handshake; its window is that of its SYN
                let ace = if is_accurate { tcp_flag::ace(ace_of(*syn_ecn)) } else { 0 };
                let of_syn = self.hosts.scale_window(ack.window.min(self.hosts.windows.of_syn));
                return TcpSegment { flags: of_all.flags | ace, window: of_syn, is_padded: true, ..of_all };
            }
            let agrees = match (ack.has(ack_flag::ECN_SETUP), is_accurate) {
                (true, true) => tcp_flag::ace(ace_of(*syn_ecn)),
                (true, false) => tcp_flag::ECE,
                _ => 0,
            };
            let flags = tcp_flag::SYN | tcp_flag::ACK | agrees;
            return TcpSegment { seq: 0, flags, window: syn_window(ack.window), opening: self.opening(), ..of_all };
        }
        let mut segment = TcpSegment { ack: 1 + self.offset(ack.ack), window, ..of_all };
        for (place, (start, end)) in segment.sack.iter_mut().zip(blocks.iter().flat_map(|blocks| blocks.iter())) {
            *place = (1 + self.offset(*start), 1 + self.offset(*end));
            segment.sacks += 1;
        }
        if self.receiver_counts {
            segment.flags |= tcp_flag::ace(ack.ace());
            let counts = AccEcnCounts { ect0: 1 + ect0, ce: ack.ce_bytes, ect1: 1 + ect1 };
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
