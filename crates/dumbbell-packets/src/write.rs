//! Records as what is written of them.

use crate::columns::{Columns, Sighting};
use crate::connection::{AckHeaders, Sent, TrackedFlow};
use crate::fate::Fate;
use crate::frame::{Headers, TcpSegment, WireHeaders};
use crate::pcapng::Pcapng;
use dumbbell_core::log::ProtocolKind;
use dumbbell_core::packet::{Packet, SYN_FRAME, UDP_HEADERS};
use dumbbell_core::units::Time;
use std::io;

/// A packet at a point.
pub enum What {
    Sent(Sent),
    Answered(AckHeaders),
    /// The SYN of a receiver that opens, which this packet answers.
    Opening(Packet),
}

/// Something seen at a point, which waits to be written.
pub struct PendingRecord {
    pub point: u32,
    pub connection: u32,
    /// Number of the fate of its packet, if it has one, and whether that must be settled before.
    pub fate: Option<(u32, bool)>,
    pub what: What,
}

/// Where records go.
pub enum Output {
    /// A file, and how many bytes it keeps of each frame: 0 for all; `None` for headers, and payload that is not zeros.
    Pcapng(Pcapng, Option<u32>),
    Columns(Box<Columns>),
}

impl Output {
    /// Writes what is left; the rows, if they go into columns.
    pub fn finish(self) -> io::Result<Option<Columns>> {
        match self {
            Output::Pcapng(mut file, _) => file.finish().map(|()| None),
            Output::Columns(columns) => Ok(Some(*columns)),
        }
    }
}

/// The comment of a SYN that was not simulated.
const NOT_SIMULATED: &str = "not simulated: it stands here for its options";

/// Frames of one point.
pub struct Writer {
    pub output: Output,
    /// Names of points and hops.
    pub points: Vec<String>,
    pub hops: Vec<String>,
    pub count: u64,
    comment: String,
}

impl Writer {
    pub fn new(output: Output, points: Vec<String>, hops: Vec<String>) -> Writer {
        Writer { output, points, hops, count: 0, comment: String::new() }
    }

    /// Writes a record of this connection.
    pub fn write(&mut self, time: Time, record: &PendingRecord, connection: &TrackedFlow, fate: Option<&Fate>) {
        self.count += 1;
        let point = record.point;
        let (segment, wire) = match &record.what {
            What::Sent(sent) => {
                let Packet { len, ecn, .. } = sent.packet;
                let segment = connection.is_tcp().then(|| connection.segment(sent));
                (segment, WireHeaders { len, ecn, id: sent.start.id })
            }
            What::Answered(answered) => {
                let AckHeaders { ack, blocks, ecn, .. } = answered;
                let segment = connection.is_tcp().then(|| connection.answer_segment(answered));
                let len = ack.frame(blocks.as_ref().map_or(0, |blocks| blocks.len()));
                (segment, WireHeaders { len, ecn: *ecn, id: connection.id_of(ack) })
            }
            What::Opening(answer) => (
                Some(connection.syn_of_receiver(answer)),
                WireHeaders { len: SYN_FRAME, ecn: answer.ecn, id: connection.id_of_syn() },
            ),
        };
        let headers = segment.as_ref().map_or(UDP_HEADERS, TcpSegment::headers);
        let payload = wire.len.saturating_sub(headers);
        match &mut self.output {
            Output::Columns(columns) => {
                let seen = Sighting { time, point: &self.points[point as usize], hops: &self.hops, fate };
                match &record.what {
                    What::Sent(sent) => columns.push_data(&seen, connection, sent, segment.as_ref(), payload),
                    What::Answered(answered) => {
                        columns.push_ack(&seen, connection, answered, segment.as_ref(), (wire.len, payload));
                    }
                    // no packet of the run
                    What::Opening(_) => self.count -= 1,
                }
            }
            Output::Pcapng(file, snap) => {
                // of UDP, as programs that measure with it have it: which datagram it is, or answers
                let number = match &record.what {
                    What::Sent(sent) => sent.packet.seq as u32,
                    What::Answered(answered) => answered.ack.tsecr,
                    What::Opening(_) => 0,
                };
                let number = number.to_be_bytes();
                let room = if connection.speaks == ProtocolKind::Udp { usize::from(payload) } else { 0 };
                let own = &number[..number.len().min(room)];
                let bytes = fate.and_then(|fate| fate.payload.as_deref()).unwrap_or(own);
                let back = !matches!(record.what, What::Sent(_));
                let built = match &segment {
                    Some(segment) => Headers::tcp(&connection.ends, segment, wire),
                    None => Headers::udp(&connection.ends, back, wire, bytes),
                };
                self.comment.clear();
                if let What::Opening(_) = record.what {
                    self.comment.push_str(NOT_SIMULATED);
                } else if let Some(fate) = fate {
                    fate.comment(&self.hops, &mut self.comment);
                }
                let len = usize::from(wire.len);
                let kept = match *snap {
                    None => built.as_slice().len() + bytes.len(),
                    Some(0) => len,
                    Some(most) => most as usize,
                };
                file.packet(point, time, (built.as_slice(), bytes), (kept.min(len), wire.len), &self.comment);
            }
        }
    }
}
