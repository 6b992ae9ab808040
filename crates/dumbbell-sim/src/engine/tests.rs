//! The order of events at one instant, and that a queue which loses or invents packets is found out.

mod accecn;
mod capture;
mod controls;
mod hops;

use super::delay_lines::ReturningAck;
use super::*;
use dumbbell_core::aqm::Dequeue;
use dumbbell_core::log::{At, Log};
use dumbbell_core::observe::ControlEvent;
use dumbbell_core::packet::Packet;
use dumbbell_core::packet::{flag, Ecn};
use dumbbell_core::tcp::sender::Phase;
use dumbbell_core::units::Rate;
use serde_json::{json, Value};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

/// A call of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Enqueue(u32),
    Dequeue(u32),
    Empty,
    Rate,
}

/// Fault of a faulty queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Lose,
    Invent,
    Mark,
    Miscount,
}

/// A queue that writes down what happens to it, or makes one mistake.
struct Recorder {
    calls: Arc<Mutex<Vec<(Instant, Call)>>>,
    packets: VecDeque<Packet>,
    shapes: bool,
    fault: Fault,
}

impl Recorder {
    fn note(&self, now: Instant, call: Call) {
        self.calls.lock().expect("one thread").push((now, call));
    }
}

impl Aqm for Recorder {
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, _log: &mut L) {
        self.note(now, Call::Enqueue(packet.flow));
        let mut packet = Packet { enqueue_time: now, ..packet };
        if packet.tcp().seq() == 5 && !packet.has(flag::RETRANSMISSION) {
            match self.fault {
                Fault::None | Fault::Miscount => {}
                Fault::Lose => return,
                Fault::Invent => self.packets.push_back(packet),
                Fault::Mark => packet.set_ecn(Ecn::Ce),
            }
        }
        self.packets.push_back(packet);
    }

    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        let packet = self.packets.pop_front();
        self.note(now, packet.map_or(Call::Empty, |gone| Call::Dequeue(gone.flow)));
        let Some(packet) = packet else { return Dequeue::Empty };
        log.on_dequeue(&packet, At::time(now));
        Dequeue::Packet(packet)
    }

    fn packets(&self) -> usize {
        self.packets.len() + usize::from(self.fault == Fault::Miscount)
    }

    fn bytes(&self) -> u64 {
        self.packets.iter().map(|packet| u64::from(packet.len)).sum()
    }

    fn set_rate(&mut self, _rate: Rate, now: Instant) {
        self.note(now, Call::Rate);
    }

    fn shapes(&self) -> bool {
        self.shapes
    }
}

/// Runs `flows` over a recording queue; `shapes`: through which everything passes at once. Returns its calls.
fn record(flows: Value, bottleneck: Value, shapes: bool, fault: Fault) -> (Result<Outcome, RunError>, Vec<(Instant, Call)>) {
    record_seeded(3, flows, bottleneck, shapes, fault)
}

fn record_seeded(
    seed: u64,
    flows: Value,
    bottleneck: Value,
    shapes: bool,
    fault: Fault,
) -> (Result<Outcome, RunError>, Vec<(Instant, Call)>) {
    let config = json!({"duration": 1_000_000_000, "seed": seed, "bottleneck": bottleneck, "flows": flows});
    let config = Arc::new(RunConfig::from_json(&config).expect("a valid configuration"));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let queue = Recorder { calls: Arc::clone(&calls), packets: VecDeque::new(), shapes, fault };
    let mut run: Box<dyn Run> = Box::new(Engine::<SingleHop<_, _, false>>::new(config, queue, ()));
    let outcome = run.advance(Instant::NEVER, u64::MAX).and_then(|standing| {
        assert_eq!(standing, RunState::Over);
        run.finish()
    });
    let calls = calls.lock().expect("one thread").clone();
    (outcome, calls)
}

const MS: u64 = 1_000_000;

/// A flow of 20 segments that starts at `start` ns, over a base RTT of `rtt_ms`.
fn flow(start: u64, rtt_ms: u64) -> Value {
    json!({"cc": {"name": "reno"}, "start": {"min": start, "max": start}, "base_rtt": rtt_ms * MS, "size": 28_960})
}

fn fifo() -> Value {
    json!({"aqm": {"name": "pfifo"}})
}

fn list_enqueued(calls: &[(Instant, Call)], at: u64) -> Vec<u32> {
    let flow = |&(time, call): &(Instant, Call)| match call {
        Call::Enqueue(flow) if time == Instant(at) => Some(flow),
        _ => None,
    };
    calls.iter().filter_map(flow).collect()
}

#[test]
fn timers_fire_by_flow() {
    let flows = json!([flow(0, 20), flow(0, 20), flow(0, 20)]);
    let (outcome, calls) = record(flows, fifo(), true, Fault::None);
    assert!(outcome.is_ok());
    // SYNs at 10 ms, half of the base RTT ahead
    assert_eq!(list_enqueued(&calls, 10 * MS), [0, 1, 2]);
}

#[test]
fn acknowledgements_come_by_base_rtt_whatever_the_flow() {
    // flow 0 (40 ms) sends its SYN at 20 ms, flow 1 (20 ms) at 30 + 10 ms; both SYN-ACKs arrive at 60 ms
    let (_, calls) = record(json!([flow(0, 40), flow(30 * MS, 20)]), fifo(), true, Fault::None);
    let order = list_enqueued(&calls, 60 * MS);
    // the handshake's last packet and ten segments each
    assert_eq!(order, [[1; 11], [0; 11]].concat());
}

#[test]
fn acknowledgements_come_before_timers() {
    // the SYN-ACK of flow 1 at 60 ms; flow 0 starts then
    let (_, calls) = record(json!([flow(50 * MS, 20), flow(0, 40)]), fifo(), true, Fault::None);
    assert_eq!(list_enqueued(&calls, 60 * MS), [vec![1; 11], vec![0]].concat());
}

#[test]
fn a_packet_held_by_jitter_arrives_at_its_own_time() {
    // 0 or 1 ns of jitter: with 0 flow 0's SYN is there before flow 1's, whose timer fires at the same instant; with 1 it is later
    let mut jittery = flow(0, 20);
    jittery["jitter"] = json!(1);
    let at = |ns: u64, flow: u32| (Instant(ns), Call::Enqueue(flow));
    let mut seen = [0; 2];
    for seed in 0..20 {
        let (_, calls) = record_seeded(seed, json!([jittery, flow(0, 20)]), fifo(), true, Fault::None);
        let first: Vec<(Instant, Call)> =
            calls.iter().filter(|(_, call)| matches!(call, Call::Enqueue(_))).take(2).copied().collect();
        let late = usize::from(first[0].1 == Call::Enqueue(1));
        let expected = [[at(10_000_000, 0), at(10_000_000, 1)], [at(10_000_000, 1), at(10_000_001, 0)]];
        assert_eq!(first, expected[late], "seed {seed}");
        seen[late] += 1;
    }
    assert!(seen[0] > 2 && seen[1] > 2, "{seen:?}");
}

#[test]
fn time_does_not_go_back_in_jitter() {
    let mut jittery = flow(0, 20);
    jittery["jitter"] = json!(15 * MS);
    let (outcome, calls) = record(json!([jittery]), fifo(), true, Fault::None);
    assert!(outcome.is_ok() && calls.len() > 40 && calls.is_sorted_by_key(|call| call.0));
}

#[test]
fn the_link_comes_before_timers() {
    // 74 B at 10 Mbit/s take 59.2 us; flow 1 starts when flow 0's SYN has left
    let (_, calls) = record(json!([flow(0, 20), flow(59_200, 20)]), fifo(), false, Fault::None);
    let at = Instant(10 * MS + 59_200);
    let then: Vec<Call> = calls.iter().filter(|(time, _)| *time == at).map(|&(_, call)| call).collect();
    assert_eq!(then, [Call::Empty, Call::Enqueue(1), Call::Dequeue(1)]);
}

#[test]
fn the_clock_comes_last() {
    let changes = json!({"aqm": {"name": "pfifo"}, "rate_changes": [{"at": 10 * MS, "rate": 5_000_000}]});
    let (_, calls) = record(json!([flow(0, 20)]), changes, false, Fault::None);
    let then: Vec<Call> = calls.iter().filter(|(time, _)| *time == Instant(10 * MS)).map(|&(_, call)| call).collect();
    assert_eq!(then, [Call::Enqueue(0), Call::Dequeue(0), Call::Rate]);
    // the SYN left at the old rate
    assert!(calls.contains(&(Instant(10 * MS + 59_200), Call::Empty)));
}

#[test]
fn a_queue_that_breaks_the_rules_is_found_out() {
    for (fault, message) in [
        (Fault::Lose, "invariant broken: queue: arrived - gone is 1, held are 0"),
        (Fault::Invent, "invariant broken: flow 0: departed + dropped at most arrived: 23 is not 22"),
        (Fault::Mark, "invariant broken: flow 0: CE marks = CE received + CE dropped + CE queued: 0 is not 1"),
        (Fault::Miscount, "invariant broken: queue: arrived - gone is 0, held are 1"),
    ] {
        match record(json!([flow(0, 20)]), fifo(), true, fault).0 {
            Err(error @ RunError::Invariant(_)) => assert_eq!(error.to_string(), message, "{fault:?}"),
            other => panic!("{fault:?}: {other:?}"),
        }
    }
    assert!(record(json!([flow(0, 20)]), fifo(), true, Fault::None).0.is_ok());
}

#[test]
fn a_slot_is_given_to_another_flow_when_no_acknowledgement_is_left() {
    // what is reordered is sent again without need, and acknowledged after the flow is over
    let reorder = json!([{"name": "reorder", "probability": 0.1, "delay": 30 * MS}]);
    let web = json!({"cc": {"name": "cubic"}, "base_rtt": 20 * MS, "arrivals": {"per_second": 200.0}, "size": {"fixed": 30_000}, "path": reorder,
        "ack_path": [{"name": "jitter", "max": 5 * MS}]});
    let config =
        json!({"duration": 3_000_000_000_u64, "bottleneck": {"rate": 100_000_000, "aqm": {"name": "pfifo"}}, "web": [web]});
    let config = Arc::new(RunConfig::from_json(&config).expect("a valid configuration"));
    let queue = Recorder { calls: Arc::default(), packets: VecDeque::new(), shapes: false, fault: Fault::None };
    let mut engine = Box::new(Engine::<SingleHop<_, _, false>>::new(config, queue, ()));
    let mut late = 0;
    while engine.advance(Instant::NEVER, 1).expect("no broken invariant") != RunState::Over {
        for line in &engine.net.lines.all {
            for ReturningAck { at, reply, .. } in line.acks.iter() {
                let endpoint = engine.arena.get(reply.flow());
                let tcp = endpoint.tcp().unwrap_or_else(|| panic!("at {}: an ACK for a free slot", engine.now));
                assert!(endpoint.start <= *at - line.delay, "at {}: an ACK for flow {}, of another", engine.now, endpoint.number);
                late += u64::from(tcp.sender.phase == Phase::Done);
            }
        }
    }
    let slots = engine.arena.iter().count();
    let outcome = engine.finish().expect("no broken invariant");
    assert!(late > 100 && outcome.tables.short_flows.height() > 5 * slots, "{late}, {slots}");
}

#[test]
fn cancelling_stops_a_long_run() {
    let config = json!({"duration": 60_000_000_000_u64, "bottleneck": {"rate": 100_000_000, "aqm": {"name": "pfifo"}},
        "flows": [{"cc": {"name": "reno"}}]});
    let progress = AtomicU64::new(0);
    let outcome = crate::run(&config, &AtomicBool::new(true), &progress);
    assert!(matches!(outcome, Err(RunError::Cancelled)));
    assert!(progress.load(Ordering::Relaxed) < 60_000_000_000);
}
