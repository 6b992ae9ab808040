//! Packets as columns: one row for each record.

use crate::captured::record::{FrameHeaders, FrameOwner};
use crate::connection::{AckHeaders, Sent, TrackedFlow};
use crate::fate::{DropRecord, Fate, Marked};
use crate::frame::{tcp_flag, TcpSegment};
use dumbbell_core::log::{DropReason, DropSite, MarkReason};
use dumbbell_core::packet::{flag, Ecn};
use dumbbell_core::units::Instant;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Words by their numbers.
#[derive(Default)]
pub struct Words {
    /// By row; -1: none.
    pub codes: Vec<i32>,
    /// The words.
    pub words: Vec<String>,
    known: HashMap<String, i32>,
}

impl Words {
    fn push(&mut self, word: Option<&str>) {
        let Some(word) = word else { return self.codes.push(-1) };
        if let Some(&code) = self.known.get(word) {
            return self.codes.push(code);
        }
        let code = self.words.len() as i32;
        self.words.push(word.to_owned());
        self.known.insert(word.to_owned(), code);
        self.codes.push(code);
    }
}

/// The values of one column.
pub enum ColumnValues<'a> {
    /// Integers; `i64::MIN`: none.
    Whole(&'a [i64]),
    /// Real numbers; NaN: none.
    Real(&'a [f64]),
    /// Words.
    Text(&'a Words),
}

/// No value.
const NONE: i64 = i64::MIN;

/// All rows.
#[derive(Default)]
pub struct Columns {
    time_s: Vec<f64>,
    point: Words,
    flow: Vec<i64>,
    direction: Words,
    protocol: Words,
    length: Vec<i64>,
    payload: Vec<i64>,
    seq: Vec<i64>,
    ack: Vec<i64>,
    flags: Words,
    window: Vec<i64>,
    ecn: Words,
    tsval: Vec<i64>,
    tsecr: Vec<i64>,
    sack: Words,
    segment: Vec<i64>,
    retransmission: Vec<i64>,
    mark: Words,
    mark_reason: Words,
    mark_hop: Words,
    drop_reason: Words,
    drop_place: Words,
    drop_hop: Words,
    drop_s: Vec<f64>,
}

/// Where and when a frame was seen, and what became of it.
pub struct Sighting<'a> {
    pub time: Instant,
    pub point: &'a str,
    pub hops: &'a [String],
    pub fate: Option<&'a Fate>,
}

fn ecn(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::NotEct => "Not-ECT",
        Ecn::Ect1 => "ECT(1)",
        Ecn::Ect0 => "ECT(0)",
        Ecn::Ce => "CE",
    }
}

const FLAGS: [(u16, &str); 8] = [
    (tcp_flag::FIN, "FIN"),
    (tcp_flag::SYN, "SYN"),
    (tcp_flag::RST, "RST"),
    (tcp_flag::PSH, "PSH"),
    (tcp_flag::ACK, "ACK"),
    (tcp_flag::ECE, "ECE"),
    (tcp_flag::CWR, "CWR"),
    (tcp_flag::AE, "AE"),
];

impl Columns {
    /// A packet of the sender; of TCP with its headers.
    pub fn push_data(
        &mut self,
        seen: &Sighting<'_>,
        connection: &TrackedFlow,
        sent: &Sent,
        segment: Option<&TcpSegment>,
        payload: u16,
    ) {
        let packet = &sent.packet;
        self.common(seen, (connection.number, connection.is_tcp()), "data", (packet.len, payload), packet.ecn());
        self.transport(segment, connection.scale());
        self.segment.push(if packet.has(flag::SYN | flag::PURE_ACK) { NONE } else { packet.number() as i64 });
        self.retransmission.push(i64::from(packet.has(flag::RETRANSMISSION)));
    }

    /// Appends an acknowledgement, or an answer of UDP.
    pub fn push_ack(
        &mut self,
        seen: &Sighting<'_>,
        connection: &TrackedFlow,
        answered: &AckHeaders,
        segment: Option<&TcpSegment>,
        (len, payload): (u16, u16),
    ) {
        self.common(seen, (connection.number, connection.is_tcp()), "ack", (len, payload), answered.ecn);
        self.transport(segment, connection.scale());
        self.segment.push(NONE);
        self.retransmission.push(0);
    }

    /// A frame that a kernel sent, of a flow with this number, and what it says of TCP, with the scale of its window. What only a simulation knows is missing.
    pub fn push_captured(
        &mut self,
        seen: &Sighting<'_>,
        whose: FrameOwner,
        frame: &FrameHeaders,
        (says, scale): (&TcpSegment, u8),
        is_again: bool,
    ) {
        let direction = if whose.back { "ack" } else { "data" };
        let (number, says) = (whose.number, Some(says).filter(|_| frame.is_tcp));
        self.common(seen, (number, frame.is_tcp), direction, (frame.len(), frame.payload as u16), frame.ecn);
        self.transport(says, scale);
        if says.is_some() && !frame.is_stamped {
            for column in [&mut self.tsval, &mut self.tsecr] {
                column.pop();
                column.push(NONE);
            }
        }
        self.segment.push(NONE);
        self.retransmission.push(i64::from(is_again));
    }

    fn common(
        &mut self,
        seen: &Sighting<'_>,
        (number, is_tcp): (u32, bool),
        direction: &str,
        (len, payload): (u16, u16),
        field: Ecn,
    ) {
        self.time_s.push(seen.time.as_secs_f64());
        self.point.push(Some(seen.point));
        self.flow.push(i64::from(number));
        self.direction.push(Some(direction));
        self.protocol.push(Some(if is_tcp { "tcp" } else { "udp" }));
        self.length.push(i64::from(len));
        self.payload.push(i64::from(payload));
        self.ecn.push(Some(ecn(field)));
        let mark = seen.fate.and_then(|fate| fate.marks[0]);
        self.mark.push(mark.map(|Marked { mark, .. }| mark.phrase()));
        self.mark_reason.push(mark.and_then(|Marked { reason, .. }| reason.map(MarkReason::name)));
        self.mark_hop.push(mark.map(|Marked { hop, .. }| seen.hops[usize::from(hop)].as_str()));
        let dropped = seen.fate.and_then(|fate| fate.dropped);
        self.drop_reason.push(dropped.and_then(|DropRecord { reason, .. }| reason.map(DropReason::name)));
        self.drop_place.push(dropped.and_then(|DropRecord { place, .. }| place.map(DropSite::phrase)));
        self.drop_hop.push(dropped.map(|DropRecord { hop, .. }| seen.hops[usize::from(hop)].as_str()));
        self.drop_s.push(dropped.map_or(f64::NAN, |DropRecord { at, .. }| at.as_secs_f64()));
    }

    fn transport(&mut self, segment: Option<&TcpSegment>, scale: u8) {
        let Some(segment) = segment else {
            for column in [&mut self.seq, &mut self.ack, &mut self.window, &mut self.tsval, &mut self.tsecr] {
                column.push(NONE);
            }
            self.flags.push(None);
            self.sack.push(None);
            return;
        };
        let acknowledges = segment.flags & tcp_flag::ACK != 0;
        self.seq.push(segment.seq as i64);
        self.ack.push(if acknowledges { segment.ack as i64 } else { NONE });
        let scale = if segment.flags & tcp_flag::SYN != 0 { 0 } else { scale };
        self.window.push(i64::from(segment.window) << scale);
        self.tsval.push(i64::from(segment.tsval));
        self.tsecr.push(i64::from(segment.tsecr));
        let mut flags = String::new();
        for (_, name) in FLAGS.iter().filter(|(bit, _)| segment.flags & bit != 0) {
            let _ = write!(flags, "{}{name}", if flags.is_empty() { "" } else { " " });
        }
        self.flags.push(Some(&flags));
        if segment.sacks == 0 {
            return self.sack.push(None);
        }
        let mut sack = String::new();
        for (start, end) in &segment.sack[..segment.sacks] {
            let _ = write!(sack, "{}{start}-{end}", if sack.is_empty() { "" } else { " " });
        }
        self.sack.push(Some(&sack));
    }

    /// Names and values, in order.
    pub fn name_columns(&self) -> Vec<(&'static str, ColumnValues<'_>)> {
        use ColumnValues::{Real, Text, Whole};
        vec![
            ("time_s", Real(&self.time_s)),
            ("point", Text(&self.point)),
            ("flow", Whole(&self.flow)),
            ("direction", Text(&self.direction)),
            ("protocol", Text(&self.protocol)),
            ("length", Whole(&self.length)),
            ("payload", Whole(&self.payload)),
            ("seq", Whole(&self.seq)),
            ("ack", Whole(&self.ack)),
            ("flags", Text(&self.flags)),
            ("window", Whole(&self.window)),
            ("ecn", Text(&self.ecn)),
            ("tsval", Whole(&self.tsval)),
            ("tsecr", Whole(&self.tsecr)),
            ("sack", Text(&self.sack)),
            ("segment", Whole(&self.segment)),
            ("retransmission", Whole(&self.retransmission)),
            ("mark", Text(&self.mark)),
            ("mark_reason", Text(&self.mark_reason)),
            ("mark_hop", Text(&self.mark_hop)),
            ("drop_reason", Text(&self.drop_reason)),
            ("drop_place", Text(&self.drop_place)),
            ("drop_hop", Text(&self.drop_hop)),
            ("drop_s", Real(&self.drop_s)),
        ]
    }

    /// How many rows.
    pub fn height(&self) -> usize {
        self.time_s.len()
    }
}
