//! Short flows that come and go, UDP, and runs that are paused.

use dumbbell_core::units::{Duration, Instant};
use dumbbell_sim::table::Table;
use dumbbell_sim::{run, Outcome, Sim};
use proptest::prelude::*;
use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, AtomicU64};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn must(config: &Value) -> Outcome {
    run(config, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap_or_else(|error| panic!("{error}: {config}"))
}

fn reals<'a>(table: &'a Table, column: &str) -> &'a [f64] {
    table.real(column).unwrap_or_else(|| panic!("no column {column}"))
}

fn ints<'a>(table: &'a Table, column: &str) -> &'a [u64] {
    table.int(column).unwrap_or_else(|| panic!("no column {column}"))
}

fn web(cc: &str, per_second: f64, size: Value) -> Value {
    json!({"cc": {"name": cc}, "base_rtt": 10 * MS, "arrivals": {"per_second": per_second}, "size": size})
}

/// A minute at 40 Mbit/s over `aqm`, with what `parts` adds.
fn config(seconds: u64, aqm: &Value, parts: Value) -> Value {
    let mut config = json!({"duration": seconds * SECOND, "seed": 1, "bottleneck": {"rate": 40_000_000, "aqm": aqm}});
    for (key, value) in parts.as_object().expect("a table") {
        config[key] = value.clone();
    }
    config
}

#[test]
fn short_flows_alone_take_what_theory_says() {
    // One flow now and then on an empty link. 10 segments of 1448 B go out when the SYN-ACK is back: a SYN of 74 B (14.8 us), 10 ms,
    // a bare ACK of 66 B (13.2 us) and ten frames of 1514 B (302.8 us each), 10 ms for the last ACK: 23.056 ms.
    let outcome = must(&config(20, &json!({"name": "pfifo"}), json!({"web": [web("reno", 2.0, json!({"fixed": 14_480}))]})));
    let flows = &outcome.tables.short_flows;
    // 40 expected; 7 is more than one standard deviation
    assert!((20..60).contains(&flows.height()), "{}", flows.height());
    let alone = reals(flows, "completion_s").iter().filter(|&&time| (time - 0.023_056).abs() < 1e-9).count();
    assert!(alone > flows.height() * 8 / 10, "{alone} of {}: {:?}", flows.height(), reals(flows, "completion_s"));
    // 14480 B at 40 Mbit/s take 2.896 ms, with 10 ms of propagation 12.896 ms: 23.056 is 1.7878 times that
    assert!(reals(flows, "slowdown").iter().any(|&slowdown| (slowdown - 1.787_841).abs() < 1e-5));
    assert_eq!(
        (ints(&outcome.tables.slowdowns, "from_bytes"), ints(&outcome.tables.slowdowns, "to_bytes")),
        (&[10_000][..], &[20_000][..])
    );
    // shorter than 200 ms, each of them, and the class has an RTT all the same
    assert!((10.0..12.0).contains(&reals(&outcome.tables.classes, "rtt_mean_ms")[0]));
}

#[test]
fn web_load_beside_long_flows_counts_every_flow_once() {
    let parts = json!({
        "flows": [{"cc": {"name": "cubic"}, "base_rtt": 10 * MS}],
        "web": [web("cubic", 100.0, json!({"pareto": 0.9, "min": 1000, "max": 1_000_000})), web("reno", 50.0, json!({"fixed": 3000}))],
    });
    for aqm in
        [json!({"name": "codel", "ecn": true}), json!({"name": "fq_codel"}), json!({"name": "cake"}), json!({"name": "pie"})]
    {
        let outcome = must(&config(20, &aqm, parts.clone()));
        let (flows, classes) = (&outcome.tables.short_flows, &outcome.tables.classes);
        let count = |class: u64| ints(flows, "class").iter().filter(|&&c| c == class).count() as u64;
        assert_eq!(ints(classes, "flows"), [1, count(1), count(2)], "{aqm}");
        // 2000 and 1000 expected; four standard deviations
        assert!(count(1).abs_diff(2000) < 180 && count(2).abs_diff(1000) < 130, "{aqm}: {} {}", count(1), count(2));
        let numbers = ints(flows, "flow");
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]) && numbers[0] == 1, "numbers without gaps");
        let sizes = &outcome.tables.slowdowns;
        assert_eq!(ints(sizes, "flows").iter().sum::<u64>(), flows.height() as u64);
        // all but those of the last moments are over, none faster than a round trip for the handshake and one for the data
        let open = reals(flows, "completion_s").iter().filter(|time| time.is_nan()).count();
        assert!(open < 60, "{aqm}: {open} did not end");
        assert!(reals(flows, "completion_s").iter().all(|time| time.is_nan() || *time >= 0.02), "{aqm}");
        assert_eq!(outcome.summary["short_flows"], json!(flows.height()));
        let utilisation = outcome.summary["utilisation"].as_f64().expect("a number");
        assert!(utilisation > 0.9, "{aqm}: {utilisation}");
    }
}

#[test]
fn more_short_flows_than_are_kept_are_sampled_and_the_summary_says_so() {
    let parts = json!({"web": [web("reno", 200.0, json!({"fixed": 3000}))], "record": {"short_flows": 100}});
    let outcome = must(&config(10, &json!({"name": "pfifo"}), parts));
    let seen = outcome.summary["short_flows"].as_u64().expect("a count");
    assert!(seen > 1800 && outcome.summary["short_flows_kept"] == json!(100), "{seen}");
    assert_eq!(outcome.tables.short_flows.height(), 100);
    assert_eq!(ints(&outcome.tables.slowdowns, "flows"), [seen]);
}

#[test]
fn web_stops_when_told() {
    let mut short = web("reno", 100.0, json!({"fixed": 3000}));
    short["start"] = json!({"min": 2 * SECOND, "max": 2 * SECOND});
    short["stop"] = json!(4 * SECOND);
    let outcome = must(&config(10, &json!({"name": "pfifo"}), json!({"web": [short]})));
    let starts = reals(&outcome.tables.short_flows, "start_s");
    assert!(starts.len() > 100 && starts.iter().all(|start| (2.0..4.0).contains(start)));
    assert!(reals(&outcome.tables.short_flows, "completion_s").iter().all(|time| time.is_finite()));
    // start and stop are times of the senders, half of the base RTT away from the queue; the last tenth of a second has 10 arrivals
    let mut far = web("reno", 100.0, json!({"fixed": 3000}));
    far["base_rtt"] = json!(2 * SECOND);
    far["start"] = json!({"min": 2 * SECOND, "max": 2 * SECOND});
    far["stop"] = json!(4 * SECOND);
    let late = must(&config(15, &json!({"name": "pfifo"}), json!({"web": [far]})));
    let begun = reals(&late.tables.short_flows, "start_s");
    assert!(begun.iter().all(|start| (2.0..4.0).contains(start)), "{begun:?}");
    assert!(begun.iter().any(|start| *start < 2.1) && begun.iter().any(|start| *start > 3.9), "{begun:?}");
}

#[test]
fn a_short_flow_that_does_not_end_is_not_finished() {
    // 10 MB at 1 Mbit/s take 80 s
    let mut config = config(5, &json!({"name": "pfifo"}), json!({"web": [web("cubic", 2.0, json!({"fixed": 10_000_000}))]}));
    config["bottleneck"]["rate"] = json!(1_000_000);
    let outcome = must(&config);
    let (flows, sizes) = (&outcome.tables.short_flows, &outcome.tables.slowdowns);
    assert!(
        flows.height() > 2 && reals(flows, "completion_s").iter().chain(reals(flows, "slowdown")).all(|value| value.is_nan())
    );
    assert_eq!((ints(sizes, "flows"), ints(sizes, "finished")), (&[flows.height() as u64][..], &[0][..]));
    assert!(reals(sizes, "completion_mean_s")[0].is_nan() && reals(sizes, "slowdown_p99")[0].is_nan());
    // they count in their class with what they got
    let goodput = outcome.summary["goodput_total_mbit"].as_f64().expect("a number");
    assert_eq!((goodput, ints(&outcome.tables.classes, "flows")[0]), (0.0, flows.height() as u64));
}

#[test]
fn a_short_flow_that_is_over_is_not_looked_at_all_the_time() {
    // 28 Mbit/s offered to 6.5: with a base RTT of 0 nothing but the queue says how long a late packet takes
    let mut short = web("dctcp", 70.0, json!({"fixed": 50_000}));
    short["base_rtt"] = json!(0);
    let mut config = config(1, &json!({"name": "pfifo"}), json!({"web": [short]}));
    config["bottleneck"]["rate"] = json!(6_500_000);
    let outcome = must(&config);
    let [events, packets] = ["events", "packets"].map(|key| outcome.summary[key].as_u64().expect("a count"));
    // the link, the ACK, and now and then a timer
    assert!(packets > 500 && events < 10 * packets, "{events} events, {packets} packets");
}

#[test]
fn a_step_ends_with_what_happens_at_its_last_instant() {
    // a SYN of 74 B is in the queue at 10 ms and takes 59.2 us at 10 Mbit/s; its answer is there 20 ms later, and ten segments leave
    let flow = json!({"cc": {"name": "reno"}, "base_rtt": 20 * MS});
    let mut config = config(1, &json!({"name": "pfifo"}), json!({"flows": [flow]}));
    config["bottleneck"]["rate"] = json!(10_000_000);
    let mut sim = Sim::new(&config).expect("a run");
    let mut at = |nanos: u64| {
        sim.step(Instant(nanos)).expect("no broken invariant");
        let view = sim.view();
        (view.queue.sent, view.queue.packets, view.endpoints[0].sender.in_flight)
    };
    assert_eq!([at(10 * MS - 1), at(10 * MS)], [(0, 0, 0), (1, 0, 0)]);
    assert_eq!([at(10 * MS + 59_199), at(10 * MS + 59_200)], [(1, 0, 0), (1, 1, 0)]);
    // the ACK of the handshake is on the wire
    assert_eq!([at(30 * MS + 59_199), at(30 * MS + 59_200)], [(1, 1, 0), (2, 1, 10)]);
}

#[test]
fn udp_at_twice_the_rate_of_the_link_leaves_little_to_tcp() {
    for (aqm, least) in
        [(json!({"name": "pfifo"}), 0.0), (json!({"name": "codel", "ecn": true}), 0.0), (json!({"name": "fq_codel"}), 0.45)]
    {
        let parts = json!({
            "flows": [{"cc": {"name": "cubic"}, "base_rtt": 10 * MS}],
            "udp": [{"rate": 80_000_000, "ecn": "ect1", "start": {"min": SECOND, "max": SECOND}}],
        });
        let outcome = must(&config(20, &aqm, parts));
        let flows = &outcome.tables.flows;
        let (share, sent) = (reals(flows, "share"), ints(flows, "sent"));
        assert!((share.iter().sum::<f64>() - 1.0).abs() < 1e-9 && share[0] >= least && share[0] < 0.6, "{aqm}: {share:?}");
        // 19 s * 80 Mbit/s / 12112 bit
        assert!(sent[1].abs_diff(125_495) <= 1, "{}", sent[1]);
        assert!(reals(flows, "rtt_mean_ms")[1].is_nan() && reals(flows, "goodput_mbit")[1] > 15.0);
        // as fast as the link for the 19 s that it sent, and not averaged over 20 s: at most 40 * 1472 / 1514
        assert!(reals(flows, "goodput_mbit")[1] <= 38.9);
    }
}

#[test]
fn udp_below_the_rate_of_the_link_arrives_whole() {
    for spacing in ["constant", "poisson"] {
        let source = json!({"rate": 10_000_000, "size": 1512, "spacing": spacing, "stop": 5 * SECOND});
        let outcome = must(&config(10, &json!({"name": "pfifo"}), json!({"udp": [source]})));
        let flows = &outcome.tables.flows;
        assert_eq!((ints(flows, "sent"), ints(flows, "drops_overflow")), (ints(flows, "packets"), &[0][..]));
        let throughput = reals(flows, "throughput_mbit")[0];
        // 4133 packets: 1.6 % is one standard deviation of a Poisson process
        assert!((throughput / 10.0 - 1.0).abs() < if spacing == "constant" { 0.001 } else { 0.06 }, "{spacing}: {throughput}");
        let utilisation = outcome.summary["utilisation"].as_f64().expect("a number");
        assert!((utilisation - throughput / 80.0).abs() < 0.001, "{utilisation}");
    }
}

#[test]
fn slots_are_used_again() {
    // about 1000 flows, a handful at a time
    let parts = json!({"web": [web("cubic", 100.0, json!({"fixed": 3000}))]});
    let mut sim = Sim::new(&config(10, &json!({"name": "cake"}), parts)).expect("a run");
    let mut most = 0;
    while !sim.step(sim.now() + Duration::from_millis(50)).expect("no broken invariant") {
        most = most.max(sim.view().endpoints.len());
    }
    let outcome = sim.finish().expect("no broken invariant");
    assert!(outcome.tables.short_flows.height() > 850 && (2..80).contains(&most), "{most} at a time");
}

/// A small run of anything.
fn any_config() -> impl Strategy<Value = Value> {
    let aqms = ["pfifo", "codel", "fq_codel", "pie", "red", "cake", "step", "fq_pie", "bfifo"];
    let controls = ["reno", "cubic", "dctcp"];
    let flow = (prop::sample::select(controls.to_vec()), 0..60_u64, 0..500_u64, prop::option::of(1_u64..200_000), any::<bool>());
    let flows = prop::collection::vec(flow, 0..4);
    let parts = (flows, any::<bool>(), any::<bool>());
    (prop::sample::select(aqms.to_vec()), 1..40_u64, any::<u16>(), parts).prop_map(|(aqm, mbit, seed, (drawn, short, udp))| {
        let listed = |(cc, rtt, start, size, noisy): (&str, u64, u64, Option<u64>, bool)| {
            let (loss, jitter) = if noisy { (0.01, 3 * MS) } else { (0.0, 0) };
            json!({"cc": {"name": cc}, "base_rtt": rtt * MS, "start": {"min": 0, "max": start * MS}, "size": size, "loss": loss, "jitter": jitter})
        };
        let mut config = json!({"duration": 1500 * MS, "seed": seed, "bottleneck": {"rate": mbit * 1_000_000, "aqm": {"name": aqm}},
            "flows": drawn.into_iter().map(listed).collect::<Vec<_>>(), "record": {"interval": 100 * MS}});
        if short || config["flows"] == json!([]) {
            config["web"] = json!([web("cubic", 30.0, json!({"pareto": 0.9, "min": 1000, "max": 1_000_000}))]);
        }
        if udp {
            config["udp"] = json!([{"rate": mbit * 500_000, "spacing": "poisson", "ecn": "ect0"}]);
        }
        config
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A run that is paused at any times and looked into has the results of the run in one piece.
    #[test]
    fn a_paused_run_gives_the_same_bits(config in any_config(), steps in prop::collection::vec(0..200_000_000_u64, 0..60)) {
        let whole = must(&config);
        let mut sim = Sim::new(&config).expect("a run");
        for step in steps {
            let until = sim.now() + Duration(step);
            let over = sim.step(until).expect("no broken invariant");
            let view = sim.view();
            prop_assert!(view.now <= until || over);
        }
        let pieces = sim.finish().expect("no broken invariant");
        prop_assert_eq!(whole.hash, pieces.hash);
    }
}

#[test]
fn stages_on_every_way_lose_no_packet_silently() {
    // every kind of stage, on the way of one flow, of its acknowledgements, of all packets, and behind the bottleneck
    let flow =
        |path: Value, ack_path: Value| json!({"cc": {"name": "cubic"}, "base_rtt": 20 * MS, "path": path, "ack_path": ack_path});
    let batch = json!([{"name": "batch", "interval": 2 * MS}]);
    let parts = json!({
        "flows": [
            flow(json!([{"name": "reorder", "probability": 0.01, "delay": MS}]), json!([])),
            flow(json!([{"name": "burst_loss"}]), batch.clone()),
            flow(json!([{"name": "jitter", "max": 2 * MS}]), json!([{"name": "loss", "probability": 0.2}, {"name": "jitter"}])),
        ],
        "web": [{"cc": {"name": "reno"}, "base_rtt": 10 * MS, "arrivals": {"per_second": 30.0}, "size": {"fixed": 20_000}, "path": [{"name": "loss"}]}],
        "udp": [{"rate": 2_000_000, "path": batch.clone()}],
    });
    let mut config = config(10, &json!({"name": "fq_codel"}), parts);
    config["bottleneck"]["path"] = json!([{"name": "policer", "rate": 30_000_000, "burst": 30_000}]);
    config["bottleneck"]["behind"] =
        json!([{"name": "batch", "interval": 500_000}, {"name": "loss", "probability": 0.001}, {"name": "gro"}]);
    let outcome = must(&config);
    let goodput: f64 = reals(&outcome.tables.flows, "goodput_mbit").iter().sum();
    assert!((10.0..30.0).contains(&goodput), "{goodput}");
    let retransmissions = ints(&outcome.tables.flows, "retransmissions");
    assert!(retransmissions[..3].iter().all(|&count| count > 0), "{retransmissions:?}");
    assert!(outcome.tables.short_flows.height() > 200);
}

#[test]
fn batches_of_acknowledgements_are_released_together() {
    // 10 Mbit/s: 826 packets per second, acknowledged by twos. With grants every 20 ms ACKs reach the sender at 50 moments a second, so
    // that of steps of 1 ms no more than one in 20 moves its window.
    let busy_steps = |ack_path: Value| {
        let flow = json!({"cc": {"name": "reno"}, "base_rtt": 20 * MS, "ack_path": ack_path});
        let mut config = config(10, &json!({"name": "pfifo", "limit": 100}), json!({"flows": [flow]}));
        config["bottleneck"]["rate"] = json!(10_000_000);
        let mut sim = Sim::new(&config).expect("a run");
        let (mut payload, mut busy) = (0, Vec::new());
        while !sim.step(sim.now() + Duration::from_millis(1)).expect("no broken invariant") {
            let now = sim.view().endpoints[0].payload;
            if now > payload && sim.now() > Instant::from_secs(5) {
                busy.push(sim.now().as_millis());
            }
            payload = now;
        }
        let outcome = sim.finish().expect("no broken invariant");
        (busy, reals(&outcome.tables.flows, "rtt_min_ms")[0], ints(&outcome.tables.flows, "acks")[0])
    };
    let (plain, rtt, acks) = busy_steps(json!([]));
    assert!(plain.len() > 1800 && rtt < 21.3, "{} {rtt}", plain.len());
    let (batched, slower, as_many) = busy_steps(json!([{"name": "batch", "interval": 20 * MS}]));
    assert!(batched.windows(2).all(|pair| (pair[1] - pair[0]) % 20 == 0), "{batched:?}");
    assert!((200..=251).contains(&batched.len()) && slower >= rtt, "{} {slower}", batched.len());
    assert!(as_many.abs_diff(acks) < acks / 10, "{as_many} {acks}");
}

#[test]
fn what_receive_offload_merges_is_acknowledged_at_once_and_whole() {
    // 100 Mbit/s: 8257 packets per second, acknowledged by twos, or by what 2 ms bring: 16 or 17, fewer at the end of a write
    let acks = |behind: Value| {
        let flow = json!({"cc": {"name": "reno"}, "base_rtt": 20 * MS});
        let mut config = config(10, &json!({"name": "pfifo", "limit": 1000}), json!({"flows": [flow]}));
        config["bottleneck"]["rate"] = json!(100_000_000);
        config["bottleneck"]["behind"] = behind;
        config["hosts"] = json!({"push_bursts": false});
        let outcome = must(&config);
        let received = reals(&outcome.tables.flows, "goodput_mbit")[0] * 1e7 / (8.0 * 1448.0);
        (received, received / ints(&outcome.tables.flows, "acks")[0] as f64)
    };
    let (whole, plain) = acks(json!([]));
    let (merged, by_offload) = acks(json!([{"name": "gro", "interval": 2 * MS}]));
    assert!((1.7..2.01).contains(&plain), "{plain}");
    assert!((15.0..17.0).contains(&by_offload), "{by_offload}");
    assert!((merged / whole - 1.0).abs() < 0.02, "{merged} {whole}");
}
