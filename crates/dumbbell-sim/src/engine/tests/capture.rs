//! Events that a simulation reports at its queue, taken for a capture, give the tables of that simulation.

use crate::config::RunConfig;
use crate::engine::{Engine, Run, RunState, SingleHop};
use crate::table::{Column, ColumnName, Table, UNREPORTED};
use crate::{Outcome, Tables};
use dumbbell_bottleneck::queue_disciplines;
use dumbbell_config::schedule::Schedule;
use dumbbell_core::log::{At, Log};
use dumbbell_core::observe::Tap;
use dumbbell_core::packet::{Ecn, Packet, Timestamps};
use dumbbell_core::units::Instant;
use dumbbell_measure::from_capture::{measure, sampled, Capture, HopCaptures, PACKET_BYTES, POLL_NS, SAMPLE_BYTES};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Writes down what crosses the queue as a capture does.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<(Vec<u8>, Vec<u8>)>>);

fn record(packet: &Packet, now: Instant) -> [u8; PACKET_BYTES] {
    let (number, stamp) = packet.transmission();
    let mut bytes = [0; PACKET_BYTES];
    bytes[..8].copy_from_slice(&(now.0 + 7).to_le_bytes());
    bytes[8..12].copy_from_slice(&packet.flow.to_le_bytes());
    bytes[12..16].copy_from_slice(&(number as u32).to_le_bytes());
    bytes[16..20].copy_from_slice(&u32::from(packet.len).to_le_bytes());
    // the last packet of a handshake and the first data have one number, and may leave in one millisecond
    bytes[24..26].copy_from_slice(&(stamp as u16).wrapping_add(packet.len).to_le_bytes());
    bytes[28] = packet.ecn() as u8;
    bytes
}

impl Log for Written {
    fn on_arrival(&mut self, packet: &Packet, now: Instant) {
        self.0.lock().expect("not poisoned").0.extend(record(packet, now));
    }

    fn on_dequeue(&mut self, packet: &Packet, at: At) {
        self.0.lock().expect("not poisoned").1.extend(record(packet, at.now));
    }
}

impl Tap for Written {}

fn sample(time: Instant, flow: u32, flags: u32, view: Option<&crate::EndpointView>) -> [u8; SAMPLE_BYTES] {
    let mut bytes = [0; SAMPLE_BYTES];
    let mut put = |at: usize, word: u32| bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    put(8, flow);
    put(12, flags);
    if let Some(view) = view {
        put(16, view.sender.srtt_us);
        put(24, view.sender.cwnd);
        put(28, view.sender.ssthresh);
        put(32, view.payload as u32);
        put(40, view.sender.in_flight);
    }
    bytes[..8].copy_from_slice(&time.0.to_le_bytes());
    bytes
}

/// A run of `config`, simulated, and the same from what was seen of it from outside.
fn run_both_ways(config: &Value) -> (Outcome, Outcome) {
    let parsed = Arc::new(RunConfig::from_json(config).expect("a configuration"));
    let ahead = parsed.flows[0].params.base_rtt / 2;
    let mut aqms = queue_disciplines(&parsed).expect("queues");
    let capture = Written::default();
    let mut run: Box<dyn Run> = dumbbell_core::with_aqm!(aqms.remove(0), aqm =>
        Box::new(Engine::<SingleHop<_, _, false>>::new(Arc::clone(&parsed), aqm, Box::new(capture.clone()) as crate::Listener)));
    let schedule = Schedule::new(&parsed);
    let mut samples: Vec<u8> = Vec::new();
    for (flow, &start) in (0..).zip(schedule.flows.iter().chain(&schedule.udp)) {
        samples.extend(sample(start, flow, sampled::START, None));
    }
    let mut standing = RunState::Paused;
    for poll in 1.. {
        let at = Instant(poll * POLL_NS);
        while standing == RunState::Busy || (standing == RunState::Paused && run.time() < at + ahead) {
            standing = run.advance(at + ahead, u64::MAX).expect("no broken invariant");
            if standing == RunState::Paused {
                break;
            }
        }
        let ends = if at == parsed.end() { sampled::END } else { 0 };
        for view in run.view().endpoints.iter().filter(|view| (view.number as usize) < parsed.flows.len()) {
            samples.extend(sample(at, view.number, sampled::POLL | ends, Some(view)));
        }
        if at == parsed.end() {
            break;
        }
    }
    while standing != RunState::Over {
        standing = run.advance(Instant::NEVER, u64::MAX).expect("no broken invariant");
    }
    let simulated = run.finish().expect("no broken invariant");
    let (arrived, sent) = std::mem::take(&mut *capture.0.lock().expect("not poisoned"));
    let signals_on_arrival = ["pie", "fq_pie", "pfifo"].contains(&parsed.aqm.name());
    let flow_queues = ["fq_pie", "dualpi2"].contains(&parsed.aqm.name());
    let limit = parsed.aqm.values().get("limit").and_then(Value::as_u64).unwrap_or(1000);
    let (arrived, sent, samples) = (&arrived[..], &sent[..], &samples[..]);
    let hop = HopCaptures { arrived, sent, signals_on_arrival, flow_queues, limit: Some(limit), ..HopCaptures::default() };
    let captured = Capture { hops: vec![hop], samples, started: 7, ..Capture::default() };
    (simulated, measure(config, &captured).expect("observations"))
}

/// With a seed in which a packet leaves behind each one that is dropped: a capture takes the others for waiting.
fn config(aqm: Value, base_rtt_ms: u64, shaper: &str) -> Value {
    let rtt = base_rtt_ms * 1_000_000;
    let start = json!({"min": 0, "max": 1_500_000_000});
    json!({"duration": 8_000_000_000_u64, "seed": 4,
        "bottleneck": {"rate": 10_000_000, "shaper": shaper, "aqm": aqm}, "hosts": {"ecn": true},
        "flows": [{"cc": {"name": "reno"}, "base_rtt": rtt, "count": 2, "start": start},
            {"cc": {"name": "cubic"}, "base_rtt": rtt, "ecn": false}],
        "udp": [{"rate": 1_000_000, "size": 600, "ecn": "ect1", "start": {"min": 500_000_000, "max": 500_000_000}}],
        "record": {"from": 2_000_000_000}})
}

fn list_differences(table: &str, simulated: &Table, captured: &Table, but: &[&str]) -> Vec<String> {
    let of = |name: &str| captured.columns.iter().find(|(other, _)| other == name).map(|(_, column)| column);
    let same = |one: &Column, other: &Column| match (one, other) {
        (Column::F64(one), Column::F64(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(a, b)| (a - b).abs() <= 1e-9 * a.abs() || (a.is_nan() && b.is_nan()))
        }
        (one, other) => one == other,
    };
    let differs = |(name, column): &&(ColumnName, Column)| {
        !but.contains(&name.as_ref()) && !of(name).is_some_and(|other| same(column, other))
    };
    let text = |(name, column): &(ColumnName, Column)| format!("{table}.{name}: {column:?}, captured {:?}", of(name));
    simulated.columns.iter().filter(differs).map(text).collect()
}

/// Columns that the view of a simulation does not show, or that captures do not measure.
const NOT_COMPARED: [&str; 22] = [
    "rtt_min_ms",
    "rtt_p50_ms",
    "rtt_p95_ms",
    "rtt_p99_ms",
    "sent",
    "retransmissions",
    "duplicates",
    "timeouts",
    "probes",
    "ecn_reductions",
    "loss_reductions",
    "undone_reductions",
    "slow_start_exit",
    "slow_start_exit_s",
    "closed",
    "closed_s",
    "spurious",
    "ce_reported",
    "acks",
    "sce_received",
    "aqm_counters",
    "events",
];

fn check(config: &Value, but: &[&str]) {
    let (simulated, captured) = run_both_ways(config);
    let but: Vec<&str> = NOT_COMPARED.iter().chain(but).copied().collect();
    let mut all = list_differences("runs", &Table::row(&simulated.summary), &Table::row(&captured.summary), &but);
    for ((name, one), (_, other)) in simulated.tables.named_tables().iter().zip(captured.tables.named_tables()) {
        let is_left_out = matches!(*name, "rtt" | "apps" | "app_loads") || *name == "series" && but.contains(&"series");
        if !is_left_out {
            all.extend(list_differences(name, one, other, &but));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    let drops = simulated.summary["drops"].as_u64().expect("a count");
    assert!(drops > 0, "a run without drops shows little");
}

#[test]
fn a_capture_of_a_simulation_gives_its_tables() {
    // CoDel drops from the queue, PIE on arrival; without propagation even the points of the senders' series fall together
    check(&config(json!({"name": "codel", "ecn": true}), 0, "htb"), &[]);
    let shifted = ["series"];
    check(&config(json!({"name": "codel", "ecn": true}), 20, "htb"), &shifted);
    // what finds no room is dropped on arrival, and not as the next packet leaves
    for limit in [20, 30, 50] {
        check(&config(json!({"name": "codel", "ecn": true, "limit": limit}), 20, "htb"), &shifted);
    }
    check(&config(json!({"name": "pie", "limit": 20}), 20, "htb"), &shifted);
    check(&config(json!({"name": "fq_pie", "limit": 20}), 20, "htb"), &shifted);
    check(&config(json!({"name": "dualpi2", "limit": 20}), 20, "htb"), &shifted);
    // a packet that PIE marked and that is still queued at the end was not seen to be marked
    let marked_and_queued = ["series", "ce_marks", "mark_share"];
    check(&config(json!({"name": "pie", "ecn": true}), 20, "link"), &marked_and_queued);
    check(&config(json!({"name": "pfifo", "limit": 40}), 20, "htb"), &shifted);
}

#[test]
fn packets_that_never_left_were_dropped_if_the_queue_says_so() {
    // three of flow 0 arrive in the first three seconds and none leaves; the queue dropped two of them
    let arrived: Vec<u8> =
        (1..=3).flat_map(|second| record(&Packet { len: 74, ..Packet::EMPTY }, Instant::from_secs(second))).collect();
    let found = |drops: u64| {
        let counters = BTreeMap::from([("drops".to_owned(), drops)]);
        let hop = HopCaptures { arrived: &arrived, flow_queues: true, limit: Some(100), counters, ..HopCaptures::default() };
        let captured = Capture { hops: vec![hop], ..Capture::default() };
        let config =
            json!({"duration": 5_000_000_000_u64, "bottleneck": {"aqm": {"name": "codel"}}, "flows": [{"cc": {"name": "reno"}}]});
        let outcome = measure(&config, &captured).expect("observations");
        let queued = outcome.tables.queue_series.int("backlog_packets").expect("a column").to_vec();
        (outcome.summary["drops_aqm"].as_u64(), queued)
    };
    assert_eq!(found(0), (Some(0), vec![0, 1, 2, 3, 3]));
    assert_eq!(found(2), (Some(2), vec![0, 0, 0, 1, 1]));
}

#[test]
fn two_frames_that_leave_a_bucket_at_once_go_one_by_one_over_the_link() {
    // 1250 B at 10 Mbit/s: 1 ms. The first two arrive and leave together, the third after both are gone
    let at = [10, 10, 20].map(Instant::from_millis);
    let packet = |seq| Packet { len: 1250, ..Packet::new_tcp(seq, Ecn::NotEct, 0) };
    let records: Vec<u8> = (0..).zip(at).flat_map(|(seq, now)| record(&packet(seq), now)).collect();
    let delays = |shaper: &str| {
        let bottleneck = json!({"rate": 10_000_000, "shaper": shaper, "aqm": {"name": "pfifo"}});
        let config = json!({"duration": 1_000_000_000_u64, "bottleneck": bottleneck, "udp": [{"size": 1250}]});
        let hop = HopCaptures { arrived: &records, sent: &records, limit: Some(100), ..HopCaptures::default() };
        let captured = Capture { hops: vec![hop], started: 7, ..Capture::default() };
        let found = measure(&config, &captured).expect("observations").tables.flows;
        ["delay_min_ms", "delay_max_ms", "delay_mean_ms", "jitter_ms"].map(|name| found.real(name).expect("a column")[0])
    };
    // |D| is 1 ms twice: J = 1/16, then 1/16 + 15/256
    assert_eq!(delays("link"), [1.0, 2.0, 4.0 / 3.0, 0.121_093_75]);
    assert_eq!(delays("htb"), [0.0; 4]);
}

#[test]
fn what_does_not_fit_together_is_an_error() {
    let config = config(json!({"name": "codel"}), 20, "htb");
    let sent = record(&Packet { flow: 1, ..Packet::EMPTY }, Instant(5));
    let of = |captured: Capture| measure(&config, &captured).expect_err("an error").to_string();
    let one = |hop: HopCaptures| of(Capture { hops: vec![hop], ..Capture::default() });
    let ghost = one(HopCaptures { sent: &sent, ..HopCaptures::default() });
    assert_eq!(ghost, "capture: flow 1: a packet left the queue at 12ns that had not arrived");
    let stranger = record(&Packet { flow: 4, ..Packet::EMPTY }, Instant(5));
    assert_eq!(one(HopCaptures { arrived: &stranger, ..HopCaptures::default() }), "capture: a packet of flow 4, of 4");
    let other = sample(Instant(1), 9, 0, None);
    assert_eq!(
        of(Capture { hops: vec![HopCaptures::default()], samples: &other, ..Capture::default() }),
        "capture: a sample of flow 9, of 4"
    );
}

/// A frame of `flow` in a capture, which goes back to its sender.
fn back(flow: u32, id: u16, len: u16, ms: u64) -> [u8; PACKET_BYTES] {
    let mut bytes = record(
        &Packet { flow, len, ..Packet::EMPTY.with_timestamps(Timestamps::new(id.into(), None)) },
        Instant::from_millis(ms),
    );
    bytes[29] = 1;
    bytes
}

#[test]
fn hops_are_counted_one_by_one_and_flows_along_their_routes() {
    let hop = |name: &str, delay: u64| json!({"name": name, "rate": 10_000_000, "shaper": "htb", "aqm": {"name": "pfifo"}, "delay": delay});
    let mut way_back = hop("", 0);
    way_back.as_object_mut().expect("a hop").remove("name");
    let route = json!(["second", "bottleneck"]);
    let config = json!({"duration": 1_000_000_000_u64, "bottleneck": {"rate": 10_000_000, "shaper": "htb", "aqm": {"name": "pfifo"}},
        "hop": [hop("second", 3_000_000)], "reverse": way_back,
        "udp": [{"size": 500, "route": route, "echo": true, "base_rtt": 20_000_000}, {"size": 800, "direction": "up"}]});
    let packet = |flow, seq, len| Packet { flow, len, ..Packet::new_tcp(seq, Ecn::NotEct, 0) };
    let at = |seq, ms| record(&packet(0, seq, 500), Instant::from_millis(ms));
    // of three packets of flow 0 the second hop, which is the first that they pass, drops the second; they wait there for 2 ms and then for 5 and 8 ms
    let of_second = [[at(0, 100), at(1, 200), at(2, 300)].concat(), [at(0, 102), at(2, 302)].concat()];
    let second = HopCaptures {
        arrived: &of_second[0],
        sent: &of_second[1],
        signals_on_arrival: true,
        limit: Some(0),
        ..HopCaptures::default()
    };
    let of_first = [[at(0, 105), at(2, 305)].concat(), [at(0, 110), at(2, 313)].concat()];
    let bottleneck = HopCaptures { arrived: &of_first[0], sent: &of_first[1], limit: Some(10), ..HopCaptures::default() };
    // an answer and a packet of flow 1; another answer is dropped by an AQM
    let up = record(&packet(1, 0, 800), Instant::from_millis(112));
    let of_reverse = [
        [back(0, 7, 500, 111), up, back(0, 8, 500, 314)].concat(),
        [back(0, 7, 500, 115), record(&packet(1, 0, 800), Instant::from_millis(116))].concat(),
    ];
    let counters = BTreeMap::from([("drops".to_owned(), 1)]);
    let reverse =
        HopCaptures { arrived: &of_reverse[0], sent: &of_reverse[1], limit: Some(10), counters, ..HopCaptures::default() };
    let mut samples: Vec<u8> = (0..2).flat_map(|flow| sample(Instant::from_millis(90), flow, sampled::START, None)).collect();
    let mut answer = sample(Instant::from_millis(125), 0, sampled::ANSWER, None);
    answer[16..20].copy_from_slice(&35_000_u32.to_le_bytes());
    answer[32..40].copy_from_slice(&35_000_000_u64.to_le_bytes());
    samples.extend(answer);
    let captured = Capture { hops: vec![bottleneck, second, reverse], samples: &samples, started: 7, ..Capture::default() };
    let mut unknown = captured.clone();
    unknown.hops[1].limit = None;
    let Outcome { summary, tables, .. } = measure(&config, &unknown).expect("observations");
    assert_eq!(summary["drops_aqm"], json!(UNREPORTED));
    assert_eq!(tables.hops.int("drops_overflow"), Some(&[UNREPORTED; 3][..]));
    assert_eq!(tables.hops.int("drops"), Some(&[0, 1, 1][..]));
    let Tables { flows, hops, hop_series, .. } = measure(&config, &captured).expect("observations").tables;
    assert_eq!(hops.int("packets"), Some(&[2, 2, 2][..]));
    assert_eq!(hops.int("ack_packets"), Some(&[0, 0, 1][..]));
    assert_eq!(hops.int("drops_overflow"), Some(&[0, 1, 0][..]));
    assert_eq!((hops.int("drops_aqm"), hops.int("ack_drops")), (Some(&[0, 0, 1][..]), Some(&[0, 0, 1][..])));
    assert_eq!(hops.real("sojourn_mean_ms"), Some(&[6.5, 2.0, 4.0][..]));
    assert_eq!(hops.real("ack_sojourn_mean_ms").map(|waits| waits[2]), Some(4.0));
    assert_eq!(hop_series.int("backlog_packets"), Some(&[0, 0, 0][..]));
    // flow 0: from the second hop to the bottleneck, and half of its base RTT in front of both; flow 1 up, over [reverse]
    assert_eq!((flows.int("packets"), flows.int("drops")), (Some(&[2, 1][..]), Some(&[1, 0][..])));
    assert_eq!(flows.real("delay_min_ms"), Some(&[20.0, 4.0][..]));
    assert_eq!(flows.real("delay_max_ms"), Some(&[23.0, 4.0][..]));
    // the packet that a queue dropped is lost, and the one whose answer was
    assert_eq!(flows.real("loss_share"), Some(&[2.0 / 3.0, 0.0][..]));
    assert_eq!((flows.int("answers"), flows.real("rtt_min_ms").map(|all| all[0])), (Some(&[1, 0][..]), Some(35.0)));
    assert_eq!(flows.real("rtt_p50_ms").map(|all| (all[0] - 35.0).abs() < 0.5), Some(true));
    assert!(flows.real("start_s").expect("starts").iter().all(|start| (start - 0.09).abs() < 1e-12));
    let few = Capture { hops: vec![HopCaptures::default()], ..Capture::default() };
    assert_eq!(measure(&config, &few).expect_err("an error").to_string(), "capture: 1 hops were captured, and the run has 3");
}
