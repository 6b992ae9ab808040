//! Which records are written, where they go, and what is written of them.

use crate::columns::{Columns, Sighting};
use crate::connection::{AckHeaders, Sent, TrackedFlow};
use crate::fate::Fate;
use crate::frame::{Headers, TcpSegment, WireHeaders};
use crate::pcapng::Pcapng;
use crate::{points, CaptureWriter, OUT, RECEIVER, SENDER};
use dumbbell_config::RunConfig;
use dumbbell_core::observe::ProtocolKind;
use dumbbell_core::packet::{Packet, SYN_FRAME, UDP_HEADERS};
use dumbbell_core::units::Instant;
use std::io;

/// A packet at a point.
pub enum RecordKind {
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
    pub what: RecordKind,
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

/// Options: which packets of a run are written, and where.
#[derive(Clone, Debug, Default)]
pub struct PacketSelection {
    /// The points, of [`points`]; none: the senders' alone.
    pub points: Vec<String>,
    /// Numbers of flows; none: all.
    pub flows: Vec<u32>,
    /// From when, and until when. Handshakes are written whenever they are: they have the scale of windows.
    pub from: Instant,
    /// Until then; [`Instant::NEVER`]: all.
    pub until: Instant,
    /// Bytes of each frame, 0: all; `None`: headers, and payload that is not zeros.
    pub snap: Option<u32>,
}

impl PacketSelection {
    /// Names of the points that are asked for, and of all hops.
    pub(crate) fn names(&self, config: &RunConfig) -> Result<(Vec<String>, Vec<String>), String> {
        let hops: Vec<String> = (0..=config.hops.len()).map(|hop| config.hop_name(hop).to_owned()).collect();
        let known = points(hops.iter().map(String::as_str));
        if let Some(unknown) = self.points.iter().find(|point| !known.contains(point)) {
            return Err(format!("{unknown}: no point, allowed: {}", known.join(", ")));
        }
        let is_asked = |point: &&String| if self.points.is_empty() { *point == SENDER } else { self.points.contains(point) };
        Ok((known.iter().filter(is_asked).cloned().collect(), hops))
    }

    /// Where records at these points go: into a file that was made by a program and has a comment, or into columns.
    pub(crate) fn output(&self, names: &[String], file: Option<(CaptureWriter, &str, &str)>) -> Output {
        let Some((sink, program, comment)) = file else { return Output::Columns(Box::default()) };
        let interfaces: Vec<_> = names.iter().map(|name| (name.clone(), describe_interface(name))).collect();
        Output::Pcapng(Pcapng::new(sink, program, comment, &interfaces, self.snap.unwrap_or(0)), self.snap)
    }
}

/// Summary of what was written.
pub struct WrittenPackets {
    /// How many records.
    pub count: u64,
    /// The rows, if no file was asked for.
    pub columns: Option<Columns>,
}

/// Returns the description of an interface.
fn describe_interface(point: &str) -> String {
    match point.strip_suffix(OUT) {
        _ if point == SENDER => "hosts that send data: what they send and what they receive".to_owned(),
        _ if point == RECEIVER => "hosts that receive data: what they receive and what they send".to_owned(),
        Some(hop) => format!("what leaves the link of {hop}"),
        None => format!("what arrives at the queue of {point}"),
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
    pub fn write(&mut self, time: Instant, record: &PendingRecord, connection: &TrackedFlow, fate: Option<&Fate>) {
        self.count += 1;
        let point = record.point;
        let (segment, wire) = match &record.what {
            RecordKind::Sent(sent) => {
                let (len, ecn) = (sent.packet.len, sent.packet.ecn());
                let segment = connection.is_tcp().then(|| connection.segment(sent));
                (segment, WireHeaders { len, ecn, id: sent.start.id })
            }
            RecordKind::Answered(answered) => {
                let AckHeaders { reply, blocks, ecn, .. } = answered;
                let segment = reply.ack().map(|ack| connection.answer_segment(answered, ack));
                let len = reply.frame(blocks.as_ref().map_or(0, |blocks| blocks.len()));
                (segment, WireHeaders { len, ecn: *ecn, id: connection.id_of(reply) })
            }
            RecordKind::Opening(answer) => (
                Some(connection.syn_of_receiver(answer)),
                WireHeaders { len: SYN_FRAME, ecn: answer.ecn(), id: connection.id_of_syn() },
            ),
        };
        let headers = segment.as_ref().map_or(UDP_HEADERS, TcpSegment::headers);
        let payload = wire.len.saturating_sub(headers);
        match &mut self.output {
            Output::Columns(columns) => {
                let seen = Sighting { time, point: &self.points[point as usize], hops: &self.hops, fate };
                match &record.what {
                    RecordKind::Sent(sent) => columns.push_data(&seen, connection, sent, segment.as_ref(), payload),
                    RecordKind::Answered(answered) => {
                        columns.push_ack(&seen, connection, answered, segment.as_ref(), (wire.len, payload));
                    }
                    // no packet of the run
                    RecordKind::Opening(_) => self.count -= 1,
                }
            }
            Output::Pcapng(file, snap) => {
                // of UDP, as programs that measure with it have it: which datagram it is, or answers
                let number = match &record.what {
                    RecordKind::Sent(sent) => sent.packet.number() as u32,
                    RecordKind::Answered(answered) => answered.reply.answer().map_or(0, |answer| answer.value as u32),
                    RecordKind::Opening(_) => 0,
                };
                let number = number.to_be_bytes();
                let room = if connection.speaks == ProtocolKind::Udp { usize::from(payload) } else { 0 };
                let own = &number[..number.len().min(room)];
                let bytes = fate.and_then(|fate| fate.payload.as_deref()).unwrap_or(own);
                let back = !matches!(record.what, RecordKind::Sent(_));
                let built = match &segment {
                    Some(segment) => Headers::tcp(&connection.ends, segment, wire),
                    None => Headers::udp(&connection.ends, back, wire, bytes),
                };
                self.comment.clear();
                if let RecordKind::Opening(_) = record.what {
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
