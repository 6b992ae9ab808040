//! Frames that kernels sent, from files that an engine wrote while a run went on: merged, sorted by flow, and written as packets of a simulation are.
//!
//! Headers are those that were sent. What a queue did with a packet is known of its whole journey, so that it is looked for before anything is written.

mod queue;
pub(crate) mod record;

pub use self::queue::InferredQueue;
pub use self::record::{CaptureRecord, FrameHeaders, QueueDecision, RECORD};

use self::record::FrameOwner;
use crate::columns::Sighting;
use crate::fate::{DropRecord, Fate, Marked};
use crate::frame::{tcp_flag, TcpSegment};
use crate::write::{Output, PacketSelection, WrittenPackets};
use crate::{CaptureWriter, OUT, RECEIVER, SENDER};
use dumbbell_config::schedule::Schedule;
use dumbbell_config::RunConfig;
use dumbbell_core::app::StreamDirection;
use dumbbell_core::units::{Duration, Instant};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{self, BufReader, ErrorKind};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Where frames of a file were captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapturePoint {
    /// The hosts that send down and receive what is sent up.
    Left,
    /// The others.
    Right,
    /// Ahead of the queue of a hop.
    Into(u16),
    /// Behind the link of a hop.
    Out(u16),
}

/// A file of records in order of time.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Where they were captured.
    pub place: CapturePoint,
    /// The file.
    pub path: PathBuf,
    /// By how much they passed the place earlier than their records say.
    pub earlier: Duration,
}

/// Captures of a run.
pub struct CapturedRun {
    /// All files.
    pub streams: Vec<Stream>,
    /// Files with the events that the queues of hops reported.
    pub told: Vec<(u16, PathBuf)>,
    /// Clock of the records at the start of the run, ns.
    pub started: u64,
    /// Port of the sender of flow 0; the others follow.
    pub first_port: u16,
    /// Ports of receivers; without them all that leaves the left is data, all that leaves the right is not, and hops see data only.
    pub receivers: Option<RangeInclusive<u16>>,
    /// Payload of segments in bursts that cross hosts as one.
    pub mss: Option<u32>,
    /// Sums of TCP and UDP are still to be computed, of payloads that are zeros.
    pub completes: bool,
}

/// One transmission, wherever it is seen. Numbers are those of the headers; identifications alone are used again after 65536 packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Transmission {
    whose: FrameOwner,
    seq: u32,
    ack: u32,
    tsval: u32,
    id: u16,
}

impl Transmission {
    fn from_frame(whose: FrameOwner, frame: &FrameHeaders) -> Transmission {
        let TcpSegment { seq, ack, tsval, .. } = frame.says;
        Transmission { whose, seq: seq as u32, ack: ack as u32, tsval, id: frame.id }
    }
}

/// Fates of packets that were marked or dropped.
#[derive(Default)]
struct QueueFates(HashMap<Transmission, Fate>);

impl QueueFates {
    fn mark(&mut self, of: Transmission, marked: Marked) {
        self.0.entry(of).or_default().mark(marked);
    }

    fn drop_packet(&mut self, of: Transmission, dropped: DropRecord) {
        self.0.entry(of).or_default().dropped = Some(dropped);
    }
}

impl QueueFates {
    /// Takes the events that a queue reported.
    fn read_decisions(&mut self, mut frames: FrameReader<'_>, hop: u16) -> io::Result<()> {
        while let Some(Passing { time: at, whose, frame, .. }) = frames.next()? {
            let of = Transmission::from_frame(whose, &frame);
            match frames.told {
                Some(QueueDecision::Marked(mark, reason)) => self.mark(of, Marked { hop, mark, reason: Some(reason) }),
                Some(QueueDecision::Dropped(reason, place)) => {
                    self.drop_packet(of, DropRecord { hop, reason: Some(reason), place: Some(place), at });
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// Returns the error of captures that contradict each other.
fn wrong(text: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}

/// A frame that passes a place.
struct Passing {
    time: Instant,
    outgoing: bool,
    whose: FrameOwner,
    frame: FrameHeaders,
}

/// The frames of a file, in order.
struct FrameReader<'a> {
    captured: &'a CapturedRun,
    place: CapturePoint,
    earlier: Duration,
    from: BufReader<File>,
    burst: VecDeque<Passing>,
    /// Records that had frames of the run's.
    records: u64,
    /// Queue decision in the last record.
    told: Option<QueueDecision>,
}

impl<'a> FrameReader<'a> {
    fn open(captured: &'a CapturedRun, path: &Path, place: CapturePoint, earlier: Duration) -> io::Result<FrameReader<'a>> {
        let from = BufReader::with_capacity(1 << 18, File::open(path)?);
        Ok(FrameReader { captured, place, earlier, from, burst: VecDeque::new(), records: 0, told: None })
    }

    /// The next frame of the run.
    fn next(&mut self) -> io::Result<Option<Passing>> {
        while self.burst.is_empty() {
            let Some(record) = CaptureRecord::read(&mut self.from)? else { return Ok(None) };
            let time = Instant(record.time.saturating_sub(self.captured.started)).saturating_sub(self.earlier);
            for frame in record.frames(self.captured.mss, self.captured.completes) {
                if let Some(whose) = self.captured.find_flow(&frame, self.place, record.outgoing) {
                    self.burst.push_back(Passing { time, outgoing: record.outgoing, whose, frame });
                }
            }
            self.records += u64::from(!self.burst.is_empty());
            self.told = record.told;
        }
        Ok(self.burst.pop_front())
    }
}

impl CapturedRun {
    fn find_flow(&self, frame: &FrameHeaders, place: CapturePoint, outgoing: bool) -> Option<FrameOwner> {
        let [source, target] = frame.ports;
        let back = match (&self.receivers, place) {
            (Some(ports), _) => ports.contains(&source),
            (None, CapturePoint::Left) => !outgoing,
            (None, CapturePoint::Right) => outgoing,
            (None, _) => false,
        };
        let sender = if back { target } else { source };
        Some(FrameOwner { number: u32::from(sender.checked_sub(self.first_port)?), back })
    }

    /// Writes the packets of a run of `config`: into a file that was made by a program and has a comment, or as columns. `queues` are those of the hops, if they reported nothing.
    ///
    /// # Errors
    /// A file cannot be read or written; [`ErrorKind::InvalidData`]: files do not fit together, or a point that the run has not.
    pub fn write(
        &self,
        config: &RunConfig,
        asked: PacketSelection,
        queues: &[InferredQueue],
        file: Option<(CaptureWriter, &str, &str)>,
    ) -> io::Result<WrittenPackets> {
        let (points, hops) = asked.names(config).map_err(wrong)?;
        let mut fates = QueueFates::default();
        for (hop, queue) in (0..).zip(queues) {
            queue.infer_fates(self, hop, config.end(), &mut fates)?;
        }
        for (hop, path) in &self.told {
            fates.read_decisions(FrameReader::open(self, path, CapturePoint::Into(*hop), Duration::ZERO)?, *hop)?;
        }
        let output = asked.output(&points, file);
        let writing = Writing {
            directions: Directions::new(config),
            end: config.end(),
            asked,
            points,
            hops,
            fates,
            output,
            connections: HashMap::new(),
            sent_again: HashSet::new(),
            comment: String::new(),
            count: 0,
        };
        writing.merge_files(self)
    }
}

/// Which flows send up.
struct Directions {
    listed: Vec<bool>,
    web: Vec<bool>,
    /// Both ways of a connection of an application have the number of its responses.
    apps: Vec<bool>,
    /// Whether connections that opened during the run send up, if all of them send the same way.
    others: Option<bool>,
}

impl Directions {
    fn new(config: &RunConfig) -> Directions {
        let listed = config.flows.iter().map(|flow| flow.route.up).chain(config.udp.iter().map(|udp| udp.route.up));
        let schedule = Schedule::new(config);
        let web = schedule.web.iter().map(|one| config.web[one.process].route.up);
        let ends = schedule.app_endpoints();
        let apps = ends.iter().map(|end| config.apps[end.app as usize].route(StreamDirection::Response).up);
        let opening = config.apps.iter().zip(&schedule.apps).filter(|(_, user)| user.connections == 0);
        let mut all = opening.map(|(app, _)| app.route(StreamDirection::Response).up);
        let others = all.next().filter(|&first| all.all(|up| up == first));
        Directions { listed: listed.collect(), web: web.collect(), apps: apps.collect(), others }
    }

    /// `None` if there is no such flow.
    fn goes_up(&self, number: u32) -> Option<bool> {
        let mut place = number as usize;
        for kind in [&self.listed, &self.apps, &self.web] {
            match kind.get(place) {
                Some(&up) => return Some(up),
                None => place -= kind.len(),
            }
        }
        self.others
    }
}

/// State of the two ends of a connection: of the sender, and of the receiver.
#[derive(Default)]
struct CapturedConnection {
    /// First sequence numbers.
    first: [u32; 2],
    /// The highest so far, from the first.
    highest: [u64; 2],
    /// Scales of the windows that they offer.
    scale: [u8; 2],
    /// The end of what was sent.
    sent: u64,
}

impl CapturedConnection {
    /// A number of this side as bytes from its first one.
    fn unwrap_number(&mut self, side: usize, number: u64) -> u64 {
        let highest = self.highest[side];
        let from_first = (number as u32).wrapping_sub(self.first[side]);
        let found = highest.saturating_add_signed(i64::from(from_first.wrapping_sub(highest as u32) as i32));
        self.highest[side] = highest.max(found);
        found
    }

    /// Reads a segment, with numbers in bytes from the start, and the scale of its window.
    fn read_segment(&mut self, whose: FrameOwner, frame: &FrameHeaders) -> (TcpSegment, u8) {
        let (own, peer) = if whose.back { (1, 0) } else { (0, 1) };
        let mut says = frame.says;
        if says.flags & tcp_flag::SYN != 0 {
            (self.first[own], self.highest[own], self.scale[own]) = (says.seq as u32, 0, frame.scale.unwrap_or(0));
        }
        says.seq = self.unwrap_number(own, says.seq);
        if says.flags & tcp_flag::ACK == 0 {
            return (says, self.scale[own]);
        }
        says.ack = self.unwrap_number(peer, says.ack);
        for (start, end) in &mut says.sack[..says.sacks] {
            (*start, *end) = (self.unwrap_number(peer, *start), self.unwrap_number(peer, *end));
        }
        (says, self.scale[own])
    }
}

/// A run while its packets are written.
struct Writing {
    directions: Directions,
    end: Instant,
    asked: PacketSelection,
    points: Vec<String>,
    hops: Vec<String>,
    fates: QueueFates,
    output: Output,
    connections: HashMap<u32, CapturedConnection>,
    /// Transmissions of what had been sent before.
    sent_again: HashSet<Transmission>,
    comment: String,
    count: u64,
}

impl Writing {
    /// Merges all files.
    fn merge_files(mut self, captured: &CapturedRun) -> io::Result<WrittenPackets> {
        let open = |stream: &Stream| FrameReader::open(captured, &stream.path, stream.place, stream.earlier);
        let mut streams = captured.streams.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let mut heads = streams.iter_mut().map(FrameReader::next).collect::<io::Result<Vec<_>>>()?;
        loop {
            // at one instant what leaves a host comes first, and what reaches one last
            let order = |(index, head): (usize, &Option<Passing>)| {
                let Passing { time, outgoing, .. } = head.as_ref()?;
                let rank = match streams[index].place {
                    CapturePoint::Into(_) | CapturePoint::Out(_) => 1,
                    _ => 2 * u8::from(!outgoing),
                };
                Some((*time, rank, index))
            };
            let Some((time, _, index)) = heads.iter().enumerate().filter_map(order).min() else { break };
            // what leaves later belongs to no measure of the run
            if time > self.end {
                break;
            }
            let next = streams[index].next()?;
            if let Some(passing) = std::mem::replace(&mut heads[index], next) {
                self.write_passing(streams[index].place, &passing)?;
            }
        }
        Ok(WrittenPackets { count: self.count, columns: self.output.finish()? })
    }

    fn write_passing(&mut self, place: CapturePoint, passing: &Passing) -> io::Result<()> {
        let Passing { time, whose, ref frame, .. } = *passing;
        let up = self.directions.goes_up(whose.number);
        let up = up.ok_or_else(|| {
            wrong(format!("a packet of flow {}, which the run has not, or which may send up or down", whose.number))
        })?;
        let point = match place {
            CapturePoint::Into(hop) => self.hops[usize::from(hop)].clone(),
            CapturePoint::Out(hop) => format!("{}{OUT}", self.hops[usize::from(hop)]),
            CapturePoint::Left if up => RECEIVER.to_owned(),
            CapturePoint::Right if !up => RECEIVER.to_owned(),
            _ => SENDER.to_owned(),
        };
        let connection = self.connections.entry(whose.number).or_default();
        let (says, scale) = connection.read_segment(whose, frame);
        let transmission = Transmission::from_frame(whose, frame);
        if point == SENDER && frame.is_tcp && !whose.back && frame.payload > 0 {
            if says.seq < connection.sent {
                self.sent_again.insert(transmission);
            }
            connection.sent = connection.sent.max(says.seq + u64::from(frame.payload));
        }
        // a sender of data acknowledges nothing but the handshake
        let opens = frame.is_tcp && frame.payload == 0 && (says.flags & tcp_flag::SYN != 0 || !whose.back);
        let is_in_time = time >= self.asked.from && time <= self.asked.until;
        let is_wanted = self.asked.flows.is_empty() || self.asked.flows.contains(&whose.number);
        let Some(number) = self.points.iter().position(|known| *known == point) else { return Ok(()) };
        if !is_wanted || !(is_in_time || opens) {
            return Ok(());
        }
        self.count += 1;
        let fate = self.fates.0.get(&transmission);
        match &mut self.output {
            Output::Columns(columns) => {
                let seen = Sighting { time, point: &point, hops: &self.hops, fate };
                columns.push_captured(&seen, whose, frame, (&says, scale), self.sent_again.contains(&transmission));
            }
            Output::Pcapng(file, snap) => {
                self.comment.clear();
                if let Some(fate) = fate {
                    fate.comment(&self.hops, &mut self.comment);
                }
                let len = frame.len();
                let kept = match *snap {
                    None => frame.bytes().len(),
                    Some(0) => usize::from(len),
                    Some(most) => most as usize,
                };
                file.packet(number as u32, time, (frame.bytes(), &[]), (kept.min(usize::from(len)), len), &self.comment);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_where_32_bits_end() {
        let mut connection = CapturedConnection { first: [u32::MAX - 1000, 7], ..CapturedConnection::default() };
        let wrapped = |bytes: u64| u64::from((u64::from(u32::MAX - 1000) + bytes) as u32);
        for bytes in [0, 1, 900, 1100, 4_000_000_000, 3_999_999_000, 8_000_000_000, 5_900_000_000] {
            // no step is as long as 2^31
            let middle = connection.highest[0].midpoint(bytes);
            connection.unwrap_number(0, wrapped(middle));
            assert_eq!(connection.unwrap_number(0, wrapped(bytes)), bytes);
        }
        assert_eq!(connection.unwrap_number(1, 8), 1);
    }
}
