//! When frames leave and what is written into them, held against the simulator's bottleneck.

use super::*;
use crate::frame::tests::ipv4;
use dumbbell_config::{BottleneckParams, Shaper};
use dumbbell_core::aqm::{self, AnyAqm, QueueContext};
use dumbbell_core::log::{Mark, MarkReason};
use dumbbell_core::packet::Ecn;
use dumbbell_core::units::Rate;
use dumbbell_core::with_aqm;
use dumbbell_packets::CaptureRecord;
use serde_json::{json, Value};

/// Time of a full frame at 10 Mbit/s: 1514 * 8 / 10^7 s.
const FRAME: u64 = 1_211_200;

fn build_aqm(aqm: &Value) -> AnyAqm {
    let context = QueueContext::new(Rate::from_mbit(10), 1);
    aqm::build(aqm.as_object().expect("a table"), &context).expect("a queue discipline")
}

fn queue<A: Aqm, L: Log>(aqm: A, shaper: Shaper, listener: L) -> Bottleneck<A, L> {
    Bottleneck::new(aqm, 1, &BottleneckParams { rate: Rate::from_mbit(10), shaper, ..BottleneckParams::default() }, listener)
}

fn treatment(delay_ms: u64) -> Treatment {
    Treatment { delay: Duration::from_millis(delay_ms), ..Treatment::default() }
}

fn tuple(port: u16) -> Tuple {
    ParsedFrame::read(&ipv4(port, 0, 66)).expect("IPv4").tuple
}

/// Lets `direction` work until it is empty; due time, port and ECN of what leaves.
fn departures<A: Aqm>(direction: &mut Direction<A>) -> Vec<(u64, u16, Ecn)> {
    let mut left = Vec::new();
    while direction.next_wakeup() != Instant::NEVER {
        let now = direction.next_wakeup();
        direction.advance(now);
        while let Some(Departure { due, frame }) = direction.depart(now) {
            let headers = ParsedFrame::read(direction.bytes(frame)).expect("IPv4");
            left.push((due.0, headers.tuple.src_port, headers.ecn));
            direction.release_frame(frame);
        }
        // a discipline with a clock of its own has always something to do
        if direction.counts().arrived == direction.counts().left + direction.counts().dropped {
            break;
        }
    }
    left
}

fn fifo(delay_ms: u64) -> Direction<aqm::pfifo::State> {
    let AnyAqm::Pfifo(fifo) = build_aqm(&json!({"name": "pfifo", "limit": 3})) else { unreachable!() };
    Direction::new(Some(queue(fifo, Shaper::Link, FrameLog::default())), treatment(delay_ms), 1000)
}

#[test]
fn a_frame_leaves_after_its_time_on_the_link_and_the_delay() {
    let mut link = fifo(5);
    (0..3).for_each(|port| link.arrive(&ipv4(port, 0, 1514), Instant(1_000)));
    assert_eq!(link.next_wakeup(), Instant(1_000 + FRAME));
    let at = |n: u64| 1_000 + n * FRAME + 5_000_000;
    assert_eq!(departures(&mut link), [(at(1), 0, Ecn::NotEct), (at(2), 1, Ecn::NotEct), (at(3), 2, Ecn::NotEct)]);
    link.check_conservation().expect("conserved");
}

#[test]
fn a_late_caller_does_not_slow_the_link_down() {
    let mut link = fifo(0);
    (0..3).for_each(|port| link.arrive(&ipv4(port, 0, 1514), Instant::ZERO));
    // nobody looks for a second
    link.advance(Instant::from_secs(1));
    let due: Vec<u64> = std::iter::from_fn(|| link.depart(Instant::from_secs(1))).map(|one| one.due.0).collect();
    assert_eq!(due, [FRAME, 2 * FRAME, 3 * FRAME]);
    // a frame that arrived meanwhile, but is read only now, cannot have been queued before
    link.arrive(&ipv4(9, 0, 1514), Instant(5));
    assert_eq!(departures(&mut link), [(1_000_000_000 + FRAME, 9, Ecn::NotEct)]);
}

#[test]
fn flows_have_delays_of_their_own_and_leave_in_order_of_time() {
    let mut lines: Direction<aqm::pfifo::State> = Direction::new(None, treatment(0), 1000);
    lines.announce(tuple(1), &treatment(20));
    lines.announce(tuple(2), &treatment(5));
    for (port, at) in [(1, 0), (2, 16), (3, 18), (1, 19), (2, 1)] {
        lines.arrive(&ipv4(port, 0, 66), Instant::from_millis(at));
    }
    // the last came late: it enters when the one before it did
    let ms: Vec<(u64, u16)> = departures(&mut lines).iter().map(|&(due, port, _)| (due / 1_000_000, port)).collect();
    assert_eq!(ms, [(18, 3), (20, 1), (21, 2), (24, 2), (39, 1)]);
    assert_eq!([0, 1, 2].map(|slot| lines.count_arrived(slot)), [2, 2, 1]);
}

#[test]
fn what_overflows_gives_its_buffer_back() {
    let mut link = fifo(0);
    (0..10).for_each(|port| link.arrive(&ipv4(port, 0, 1514), Instant::ZERO));
    // one on the wire, three queued
    assert_eq!(link.counts(), DirectionCounts { arrived: 10, dropped: 6, ..DirectionCounts::default() });
    link.check_conservation().expect("conserved");
    assert_eq!(departures(&mut link).len(), 4);
    link.check_conservation().expect("conserved");
}

#[test]
fn frames_without_ip_pass_the_queue_by() {
    let mut link = fifo(2);
    link.arrive(&ipv4(1, 0, 1514), Instant::ZERO);
    link.arrive(&[0; 60], Instant::ZERO);
    link.arrive(&[0; 9000], Instant::ZERO);
    let now = Instant::from_secs(1);
    link.advance(now);
    let next = || link.depart(now).map(|one| (one.due.0, link.bytes(one.frame).len()));
    let left: Vec<(u64, usize)> = std::iter::from_fn(next).collect();
    assert_eq!(left, [(2_000_000, 60), (FRAME + 2_000_000, 1514)]);
    assert_eq!((link.counts().foreign, link.counts().refused), (2, 1));
}

#[test]
fn slots_of_flows_that_have_nothing_queued_are_given_away() {
    let mut lines: Direction<aqm::pfifo::State> = Direction::new(None, treatment(0), 1000);
    lines.announce(tuple(1), &treatment(1));
    for round in 0..3_u8 {
        for port in 0..=u16::MAX {
            let mut frame = ipv4(port, 0, 66);
            frame[29] = round; // another source
            lines.arrive(&frame, Instant::ZERO);
            lines.depart(Instant::from_secs(1)).map(|one| lines.release_frame(one.frame)).expect("it leaves");
        }
    }
    assert_eq!((lines.flows.len(), lines.slots.len(), lines.counts().refused), (MOST_FLOWS, MOST_FLOWS, 0));
    assert_eq!(lines.slots[&tuple(1)], 0);
}

/// The events at a bottleneck of the simulator, in order: departures, drops and marks, with the number of the packet.
#[derive(Default)]
struct Story(Vec<(u64, u64, &'static str)>);

impl Log for Story {
    fn on_departure(&mut self, packet: &Packet, now: Instant) {
        self.0.push((now.0, packet.number(), "left"));
    }
    fn on_drop(&mut self, packet: &Packet, _: DropReason, _: DropSite, at: At) {
        self.0.push((at.now.0, packet.number(), "dropped"));
    }
    fn on_mark(&mut self, packet: &Packet, before: Ecn, _: Mark, _: MarkReason, at: At) {
        if before != packet.ecn() {
            self.0.push((at.now.0, packet.number(), "marked"));
        }
    }
}

/// Arrivals that fill the queue and let it drain: (time, flow, ECN bits, length).
fn arrivals() -> Vec<(u64, u16, u8, usize)> {
    let mut random = dumbbell_core::rng::Rng::stream(7, "arrivals", 0);
    let mut now = 0;
    let arrival = |n: u64| {
        // 1.4 times the rate for two seconds, then 0.7 times
        now += random.draw_below(if n < 2_300 { 1_700_000 } else { 3_400_000 });
        let flow = random.draw_below(4) as u16;
        (now, flow, [0b10, 0b00, 0b01, 0b10][usize::from(flow)], if random.draw_below(5) == 0 { 200 } else { 1514 })
    };
    (0..4_000).map(arrival).collect()
}

fn run_simulated<A: Aqm>(aqm: A, shaper: Shaper) -> Vec<(u64, u64, &'static str)> {
    let mut link = queue(aqm, shaper, Story::default());
    (0..4).for_each(|flow| link.flow_starts(flow, &tuple(flow as u16).key(0), 0));
    let run = |one: &mut Bottleneck<A, Story>, until: u64| loop {
        let now = one.next.min(one.aqm.next_timer());
        if now.0 >= until {
            return;
        }
        if one.next == now {
            one.advance(now);
        } else {
            one.on_aqm_timer(now);
        }
    };
    for (seq, (at, flow, ecn, len)) in (0..).zip(arrivals()) {
        run(&mut link, at);
        let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(ecn)];
        link.arrive(Packet { flow: u32::from(flow), len: len as u16, ..Packet::new_tcp(seq, ecn, 0) }, Instant(at));
    }
    run(&mut link, 20_000_000_000);
    assert_eq!(link.count_packets(), 0, "everything left");
    link.log.listener.0
}

/// Runs the live direction on frames; the number of a packet is in the identification field, and a caller that comes every 700 us is late all the time.
fn run_live<A: Aqm>(aqm: A, shaper: Shaper) -> (Vec<(u64, u64)>, Vec<u64>, DirectionCounts) {
    let mut direction = Direction::new(Some(queue(aqm, shaper, FrameLog::default())), treatment(0), 10_000);
    let arrivals = arrivals();
    (0..4).for_each(|port| direction.announce(tuple(port), &Treatment { key: tuple(port).key(0), ..treatment(0) }));
    let (mut left, mut marked, mut next) = (Vec::new(), Vec::new(), 0);
    for now in (0..20_000_000_000).step_by(700_000) {
        while let Some(&(at, flow, ecn, len)) = arrivals.get(next).filter(|&&(at, ..)| at <= now) {
            let mut frame = ipv4(flow, ecn, len);
            frame[18..20].copy_from_slice(&(next as u16).to_be_bytes());
            direction.arrive(&frame, Instant(at));
            next += 1;
        }
        direction.advance(Instant(now));
        while let Some(Departure { due, frame }) = direction.depart(Instant(now)) {
            let bytes = direction.bytes(frame);
            let number = u64::from(u16::from_be_bytes([bytes[18], bytes[19]]));
            left.push((due.0, number));
            if ParsedFrame::read(bytes).is_some_and(|headers| headers.ecn == Ecn::Ce) {
                marked.push(number);
            }
            direction.release_frame(frame);
        }
        direction.check_conservation().expect("conserved");
    }
    (left, marked, direction.counts())
}

#[test]
fn every_queue_discipline_does_on_frames_what_it_does_in_the_simulator() {
    for spec in aqm::specs() {
        let table = json!({"name": spec.name});
        if needs_values(&AqmSpec::from_json(table.as_object().expect("a table")).expect("a queue discipline")) {
            continue;
        }
        for shaper in [Shaper::Link, Shaper::Htb] {
            let story = with_aqm!(build_aqm(&table), aqm => run_simulated(aqm, shaper));
            let (left, marked, counts) = with_aqm!(build_aqm(&table), aqm => run_live(aqm, shaper));
            let of =
                |what: &str| story.iter().filter(|event| event.2 == what).map(|event| (event.0, event.1)).collect::<Vec<_>>();
            assert_eq!(left, of("left"), "{}: departures", spec.name);
            let gone: Vec<u64> = of("left").iter().map(|event| event.1).collect();
            let mut expected: Vec<u64> = of("marked").iter().map(|event| event.1).filter(|seq| gone.contains(seq)).collect();
            let mut found = marked;
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{}: marks", spec.name);
            assert_eq!(counts.dropped, of("dropped").len() as u64, "{}: drops", spec.name);
        }
    }
}

#[test]
fn the_arrivals_make_most_disciplines_mark_or_drop() {
    let acts = |name: &str| {
        let story = with_aqm!(build_aqm(&json!({"name": name})), aqm => run_simulated(aqm, Shaper::Link));
        ["marked", "dropped"].map(|what| story.iter().any(|event| event.2 == what))
    };
    // a test in which nothing is marked or dropped would show little
    for name in ["codel", "fq_codel", "pie", "dualpi2", "step"] {
        assert!(acts(name).contains(&true), "{name}: {:?}", acts(name));
    }
}

#[test]
fn a_trace_has_what_came_what_went_and_what_the_queue_did() {
    let folder = std::env::temp_dir().join(format!("dumbbell-direction-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let step = build_aqm(&json!({"name": "step", "threshold": 2_000_000, "limit": 3}));
    let queue = queue(step, Shaper::Link, FrameLog::default());
    let mut direction = Direction::new(Some(queue), treatment(5), 1000).with_trace(TraceWriter::new(&folder, 0).expect("files"));
    // one on the link, three that wait, and one too many
    (0..5).for_each(|port| direction.arrive(&ipv4(port, 0b01, 1514), Instant(1_000)));
    while direction.counts().left < 4 {
        let now = direction.next_wakeup();
        direction.advance(now);
        while let Some(Departure { due, frame }) = direction.depart(now) {
            direction.sends(frame, due);
            direction.release_frame(frame);
        }
    }
    direction.take_trace().expect("a trace").finish().expect("files");
    let read = |kind: TraceFile| {
        let bytes = std::fs::read(folder.join(kind.name(0))).expect("a file");
        let mut from = &bytes[..];
        std::iter::from_fn(|| CaptureRecord::read(&mut from).expect("records"))
            .map(|one| (one.time, one.told))
            .collect::<Vec<_>>()
    };
    assert_eq!(read(TraceFile::Arrived), [(1_000, None); 5]);
    let left = [1, 2, 3, 4].map(|number| 1_000 + number * FRAME);
    assert_eq!(read(TraceFile::Left), left.map(|time| (time, None)));
    assert_eq!(read(TraceFile::Sent), left.map(|time| (time + 5_000_000, None)));
    let (dropped, marked) =
        (QueueDecision::Dropped(DropReason::Overflow, DropSite::Arrival), QueueDecision::Marked(Mark::Ce, MarkReason::Step));
    // 2 ms are over for the two that left the queue last
    assert_eq!(read(TraceFile::Told), [(1_000, Some(dropped)), (left[2], Some(marked)), (left[3], Some(marked))]);
    std::fs::remove_dir_all(&folder).expect("a folder");
}
