//! Derives the decisions of a queue from the packets that arrived at it and that left it.

use super::{wrong, CapturePoint, CapturedRun, FrameReader, Passing, QueueFates, Transmission};
use crate::fate::{DropRecord, Marked};
use dumbbell_core::log::{DropReason, DropSite as DropPlace, Mark};
use dumbbell_core::packet::Ecn;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_measure::from_capture::tail_drop::{drop_waiting, find_overflows, QueueRoom, QueuedPacket};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;

/// A queue that reports no decisions.
#[derive(Clone, Debug)]
pub struct InferredQueue {
    /// The file of what arrived.
    pub arrived: PathBuf,
    /// The file of what left the queue.
    pub left: PathBuf,
    /// How many records of the first one there have to be until the end of the run.
    pub count: u64,
    /// Whether the queue drops arriving packets rather than queued ones.
    pub drops_on_arrival: bool,
    /// Packets of different flows may overtake each other. Those of one flow never do.
    pub flow_queues: bool,
    /// Packets that fit: what is dropped while so many are queued did not fit. `None` if that is unknown.
    pub limit: Option<u64>,
    /// Drops that it has counted until the end of the run.
    pub drops: u64,
}

/// A packet that is queued, as far as is known.
struct WaitingPacket {
    /// Number in the order in which packets came.
    number: usize,
    of: Transmission,
    ecn: Ecn,
}

impl InferredQueue {
    /// Finds its marks and drops. What waits in one queue leaves in the order in which it came, so that those in between were dropped. What came after the last that left is still queued,
    /// unless the queue counts more drops than were found: those that found no room, then the oldest. `dumbbell_measure::from_capture` counts so, too.
    pub(super) fn infer_fates(&self, captured: &CapturedRun, hop: u16, end: Instant, fates: &mut QueueFates) -> io::Result<()> {
        let open = |path: &PathBuf| FrameReader::open(captured, path, CapturePoint::Into(hop), Duration::ZERO);
        let (mut arrivals, mut departures) = (open(&self.arrived)?, open(&self.left)?);
        let (mut arrived, mut left) = (arrivals.next()?, departures.next()?);
        let mut waiting: BTreeMap<u32, VecDeque<WaitingPacket>> = BTreeMap::new();
        let mut packets: Vec<QueuedPacket> = Vec::new();
        let (mut dropped, mut count): (Vec<(usize, Transmission)>, _) = (Vec::new(), 0);
        loop {
            match (&arrived, &left) {
                // at one instant a packet arrives first
                (Some(Passing { time, whose, frame, .. }), other) if other.as_ref().is_none_or(|one| *time <= one.time) => {
                    let queue = if self.flow_queues { whose.number } else { 0 };
                    let of = Transmission::from_frame(*whose, frame);
                    waiting.entry(queue).or_default().push_back(WaitingPacket { number: packets.len(), of, ecn: frame.ecn });
                    packets.push(QueuedPacket { came: *time, left: Instant::NEVER, is_dropped: false });
                    if *time <= end {
                        count = arrivals.records;
                    }
                    arrived = arrivals.next()?;
                }
                (_, Some(Passing { time, whose, frame, .. })) => {
                    let of = Transmission::from_frame(*whose, frame);
                    let queue = waiting.entry(if self.flow_queues { whose.number } else { 0 }).or_default();
                    loop {
                        let one = queue.pop_front().ok_or_else(|| {
                            wrong(format!("flow {}: a packet left the queue at {time} that had not arrived", whose.number))
                        })?;
                        packets[one.number].left = *time;
                        if one.of == of {
                            if frame.ecn == Ecn::Ce && one.ecn != Ecn::Ce {
                                fates.mark(of, Marked { hop, mark: Mark::Ce, reason: None });
                            }
                            break;
                        }
                        packets[one.number].is_dropped = true;
                        dropped.push((one.number, one.of));
                    }
                    left = departures.next()?;
                }
                (_, None) => break,
            }
        }
        if count != self.count {
            let text = format!("{count} records of what arrived at hop {hop}, and the run has {}", self.count);
            return Err(wrong(text));
        }
        let seen = dropped.iter().filter(|&&(number, _)| packets[number].left <= end).count() as u64;
        let rest = waiting.into_values().flatten().map(|one| (one.number, one.of));
        let rest: Vec<_> = rest.filter(|&(number, _)| packets[number].came <= end).collect();
        let numbers = drop_waiting(&mut packets, rest.iter().map(|one| one.0), self.drops.saturating_sub(seen), &self.room());
        dropped.extend(rest.into_iter().filter(|(number, _)| numbers.contains(number)));
        let full = find_overflows(&packets, &self.room());
        for (number, of) in dropped {
            let one = packets[number];
            let reason = self.limit.map(|_| if full[number] { DropReason::Overflow } else { DropReason::Aqm });
            let on_arrival = self.drops_on_arrival || full[number];
            let place = on_arrival.then_some(DropPlace::Arrival);
            fates.drop_packet(of, DropRecord { hop, reason, place, at: if on_arrival { one.came } else { one.left } });
        }
        Ok(())
    }

    fn room(&self) -> QueueRoom {
        QueueRoom { limit: self.limit, drops_queued: !self.drops_on_arrival }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CaptureRecord;
    use super::*;
    use crate::frame::{tcp_flag, Endpoints, Headers, TcpSegment, WireHeaders};
    use std::sync::atomic::{AtomicU32, Ordering};

    const STARTED: u64 = 1_000_000;

    /// A folder of files, which is removed in the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Folder {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let name = format!("dumbbell-queue-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).unwrap();
            Folder(path)
        }

        /// A file of data packets: when they passed, of which flow, which one, and with which codepoint.
        fn file(&self, name: &str, packets: &[(u64, u16, u16, Ecn)]) -> PathBuf {
            let records = packets.iter().flat_map(|&(time, flow, number, ecn)| {
                let ends = Endpoints { sender_port: 10_000 + flow, receiver_port: 16_384, ..Endpoints::default() };
                let segment = TcpSegment { seq: 1448 * u64::from(number), flags: tcp_flag::ACK, ..TcpSegment::default() };
                let headers = Headers::tcp(&ends, &segment, WireHeaders { len: 1514, ecn, id: number });
                let mut record = CaptureRecord::new(STARTED + time, headers.as_slice(), true, None);
                record.len = 1514;
                record.to_bytes()
            });
            let path = self.0.join(name);
            std::fs::write(&path, records.collect::<Vec<u8>>()).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn queue(folder: &Folder, arrived: &[(u64, u16, u16, Ecn)], left: &[(u64, u16, u16, Ecn)]) -> InferredQueue {
        let (count, arrived, left) = (arrived.len() as u64, folder.file("arrived", arrived), folder.file("left", left));
        InferredQueue { arrived, left, count, drops_on_arrival: false, flow_queues: false, limit: None, drops: 0 }
    }

    /// Numbers of packets with what became of them.
    fn find_drops(queue: &InferredQueue) -> io::Result<Vec<(u16, String)>> {
        let captured = CapturedRun {
            streams: Vec::new(),
            told: Vec::new(),
            started: STARTED,
            first_port: 10_000,
            receivers: None,
            mss: Some(1448),
            completes: true,
        };
        let mut fates = QueueFates::default();
        queue.infer_fates(&captured, 0, Instant(1000), &mut fates)?;
        let hops = ["bottleneck".to_owned()];
        let say = |(of, fate): (&Transmission, &crate::fate::Fate)| {
            let mut text = String::new();
            fate.comment(&hops, &mut text);
            assert!(!of.whose.back);
            (of.id, text)
        };
        let mut all: Vec<_> = fates.0.iter().map(say).collect();
        all.sort();
        Ok(all)
    }

    fn packet_at(time: u64, number: u16) -> (u64, u16, u16, Ecn) {
        (time, 0, number, Ecn::Ect0)
    }

    #[test]
    fn what_never_left_though_others_did_was_dropped() {
        let folder = Folder::new();
        // room for two: 1 and 2 wait when 3 comes, and nothing when 5 comes
        let arrived =
            [packet_at(10, 1), packet_at(20, 2), packet_at(30, 3), packet_at(50, 4), packet_at(80, 5), packet_at(90, 6)];
        let left = [packet_at(40, 1), packet_at(60, 2), packet_at(70, 4), packet_at(95, 6)];
        let mut one = InferredQueue { limit: Some(2), drops_on_arrival: true, ..queue(&folder, &arrived, &left) };
        let said = |number, text: &str| (number, text.to_owned());
        let expected = [
            said(3, "dropped at bottleneck (overflow, on arrival) at 0.000000030 s"),
            said(5, "dropped at bottleneck (aqm, on arrival) at 0.000000080 s"),
        ];
        assert_eq!(find_drops(&one).unwrap(), expected);
        // a queue that drops what it holds: without room on arrival, else that is known once another packet leaves
        one.drops_on_arrival = false;
        let when_known = [
            said(3, "dropped at bottleneck (overflow, on arrival) at 0.000000030 s"),
            said(5, "dropped at bottleneck (aqm) at 0.000000095 s"),
        ];
        assert_eq!(find_drops(&one).unwrap(), when_known);
        // with room for three, 3 waits behind 1 and 2
        one.limit = Some(3);
        assert_eq!(find_drops(&one).unwrap()[0].1, "dropped at bottleneck (aqm) at 0.000000070 s");
        // a reason that nobody knows is none
        one.limit = None;
        assert_eq!(find_drops(&one).unwrap()[0].1, "dropped at bottleneck at 0.000000070 s");
    }

    #[test]
    fn flows_with_queues_of_their_own_overtake_each_other() {
        let folder = Folder::new();
        let arrived = [(10, 0, 1, Ecn::Ect0), (20, 1, 2, Ecn::Ect0), (30, 0, 3, Ecn::NotEct)];
        let left = [(40, 1, 2, Ecn::Ce), (50, 0, 1, Ecn::Ect0), (60, 0, 3, Ecn::NotEct)];
        let mut one = InferredQueue { flow_queues: true, ..queue(&folder, &arrived, &left) };
        assert_eq!(find_drops(&one).unwrap(), [(2, "marked CE at bottleneck".to_owned())]);
        one.flow_queues = false;
        let error = find_drops(&one).unwrap_err();
        assert_eq!(error.to_string(), "flow 0: a packet left the queue at 50ns that had not arrived");
    }

    #[test]
    fn what_is_left_at_the_end_was_dropped_if_the_queue_says_so() {
        let folder = Folder::new();
        let arrived = [packet_at(10, 1), packet_at(20, 2), packet_at(30, 3), packet_at(2000, 4)];
        let mut one = InferredQueue { count: 3, ..queue(&folder, &arrived, &[packet_at(40, 1)]) };
        assert_eq!(find_drops(&one).unwrap(), []);
        one.drops = 1;
        assert_eq!(find_drops(&one).unwrap(), [(2, "dropped at bottleneck at 0.000000020 s".to_owned())]);
        // with room for two, 3 found none
        one.limit = Some(2);
        let expected = [(3, "dropped at bottleneck (overflow, on arrival) at 0.000000030 s".to_owned())];
        assert_eq!(find_drops(&one).unwrap(), expected);
        // 4 came after the run
        one.drops = 9;
        assert_eq!(find_drops(&one).unwrap().len(), 2);
    }

    #[test]
    fn a_capture_that_lacks_packets_is_refused() {
        let folder = Folder::new();
        let one = InferredQueue { count: 2, ..queue(&folder, &[packet_at(10, 1)], &[packet_at(40, 1)]) };
        let error = find_drops(&one).unwrap_err();
        assert_eq!(error.to_string(), "1 records of what arrived at hop 0, and the run has 2");
        assert!(find_drops(&InferredQueue { arrived: one.arrived.with_file_name("none"), ..one }).is_err());
    }
}
