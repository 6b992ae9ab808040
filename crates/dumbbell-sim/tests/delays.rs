//! One-way delay and jitter of UDP, where they are known exactly.

use dumbbell_sim::table::Table;
use dumbbell_sim::{run, Outcome};
use proptest::prelude::*;
use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, AtomicU64};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

const DELAYS: [&str; 5] = ["delay_mean_ms", "delay_min_ms", "delay_p95_ms", "delay_p99_ms", "delay_max_ms"];
const JITTERS: [&str; 2] = ["jitter_mean_ms", "jitter_ms"];

/// A run of `seconds` over 10 Mbit/s, where a frame of 1514 B takes 1.2112 ms, with what `parts` adds.
fn must(seconds: u64, shaper: &str, parts: Value) -> Outcome {
    let bottleneck = json!({"rate": 10_000_000, "shaper": shaper, "aqm": {"name": "pfifo", "limit": 100}});
    let mut config = json!({"duration": seconds * SECOND, "seed": 1, "bottleneck": bottleneck});
    for (key, value) in parts.as_object().expect("a table") {
        config[key] = value.clone();
    }
    run(&config, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap_or_else(|error| panic!("{error}: {config}"))
}

fn udp(rate: u64, size: u64) -> Value {
    json!({"rate": rate, "size": size, "start": {"min": 0, "max": 0}})
}

fn reals<'a>(table: &'a Table, column: &str) -> &'a [f64] {
    table.real(column).unwrap_or_else(|| panic!("no column {column}"))
}

fn read_values(table: &Table, columns: &[&str], row: usize) -> Vec<f64> {
    columns.iter().map(|column| reals(table, column)[row]).collect()
}

#[test]
fn constant_udp_on_an_idle_link_takes_the_time_of_its_frame() {
    // 10 s: longer than the 2^32 ns that one word of a packet's time of sending holds
    for (shaper, expected) in [("link", 1.2112), ("htb", 0.0)] {
        let found = must(10, shaper, json!({"udp": [udp(1_000_000, 1514)]}));
        let runs = Table::row(&found.summary);
        for table in [&found.tables.flows, &found.tables.classes, &runs] {
            assert_eq!(read_values(table, &DELAYS, 0), [expected; 5], "{shaper}");
            assert_eq!(reals(table, "jitter_mean_ms"), [0.0], "{shaper}");
        }
        assert_eq!(reals(&found.tables.flows, "jitter_ms"), [0.0]);
    }
}

/// Returns for each flow of a run the packets that were sent, answered and dropped, and the share that was lost.
fn fates(found: &Outcome) -> Vec<([u64; 3], f64)> {
    let flows = &found.tables.flows;
    let count = |column: &str, row: usize| flows.int(column).unwrap_or_else(|| panic!("no column {column}"))[row];
    let lost = reals(flows, "loss_share");
    (0..lost.len()).map(|row| (["sent", "answers", "drops"].map(|column| count(column, row)), lost[row])).collect()
}

#[test]
fn what_is_lost_of_udp_is_known_and_what_is_under_way_is_not_lost() {
    let ping = |gap_ms: u64, rtt_ms: u64, path: Value| json!({"rate": 100 * 8 * 1000 / gap_ms, "size": 100, "echo": true, "base_rtt": rtt_ms * MS, "path": path, "start": {"min": 0, "max": 0}});
    // for 5 s the queue is full, and drops packets of both; after that the last pings are answered, and none is under way
    let mut flood = udp(12_000_000, 1514);
    flood["stop"] = json!(5 * SECOND);
    let full = must(10, "link", json!({"udp": [flood, ping(95, 20, json!([]))]}));
    let [([_, _, dropped], lost), ([sent, answers, dropped_pings], lost_pings)] = fates(&full)[..] else { panic!("two flows") };
    let packets = full.tables.flows.int("packets").expect("a column")[0];
    assert!(dropped > 500 && dropped_pings > 2 && answers == sent - dropped_pings, "{dropped} {sent} {answers} {dropped_pings}");
    assert_eq!((lost, lost_pings), (dropped as f64 / (dropped + packets) as f64, dropped_pings as f64 / sent as f64));
    let runs = Table::row(&full.summary);
    assert_eq!(reals(&runs, "loss_share"), [(dropped + dropped_pings) as f64 / (dropped + packets + sent) as f64]);
    assert_eq!(reals(&full.tables.classes, "loss_share"), [lost, lost_pings]);
    // with an RTT of a second, a hundred are under way at the end, also when counting begins
    for from in [0, 3 * SECOND] {
        let far = must(10, "link", json!({"udp": [ping(10, 1000, json!([]))], "record": {"from": from}}));
        let [([_, came, 0], of_far)] = fates(&far)[..] else { panic!("{:?}", fates(&far)) };
        assert!(of_far == 0.0 && (600..=900).contains(&came), "{from}: {of_far} {came}");
    }
    // of a path that loses everything, each packet is lost a second after it left
    let none = must(10, "link", json!({"udp": [ping(100, 20, json!([{"name": "loss", "probability": 1.0}]))]}));
    assert_eq!(fates(&none), [([101, 0, 0], 1.0)]);
    // flows of TCP have none
    let tcp = must(2, "link", json!({"flows": [{"cc": {"name": "reno"}}]}));
    assert!(reals(&tcp.tables.flows, "loss_share")[0].is_nan() && tcp.summary["loss_share"].is_null());
}

#[test]
fn every_other_packet_that_waits_for_one_frame_makes_jitter_of_one_frame() {
    // The other source sends half as often. Its packet, of 250 B and so of 0.2 ms, comes first at that instant: the delays of 1514 B alternate
    // between 1.4112 and 1.2112 ms, |D| is always 0.2 ms, and J = 0.2 (1 - (15/16)^n) after n differences.
    let found = must(10, "link", json!({"udp": [udp(250_000, 250), udp(3_028_000, 1514)]}));
    let flows = &found.tables.flows;
    // gaps of 8 and 4 ms, and the last packet arrives before 10 s: those sent at 0, 4, ..., 9996 ms
    assert_eq!(flows.int("packets"), Some(&[1250, 2500][..]));
    assert_eq!(read_values(flows, &DELAYS[1..], 0), [0.2; 4]);
    let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value}, not {expected}");
    close(reals(flows, "delay_mean_ms")[1], 1.3112);
    assert_eq!((reals(flows, "delay_min_ms")[1], reals(flows, "delay_max_ms")[1]), (1.2112, 1.4112));
    // the upper half of the packets: to half a bin of 1/64
    for name in ["delay_p95_ms", "delay_p99_ms"] {
        assert!((reals(flows, name)[1] / 1.4112 - 1.0).abs() < 1.0 / 128.0);
    }
    close(reals(flows, "jitter_ms")[1], 0.2);
    // the sum of 1 - q^n from 1 to 2499 is 2499 - 15 (1 - q^2499), where q = 15/16
    close(reals(flows, "jitter_mean_ms")[1], 0.2 * (2499.0 - 15.0) / 2499.0);
    // two sources of different rates are two classes, and the run has all packets of both
    assert_eq!(reals(&found.tables.classes, "delay_max_ms"), [0.2, 1.4112]);
    close(found.summary["delay_mean_ms"].as_f64().expect("a number"), (1250.0 * 0.2 + 2500.0 * 1.3112) / 3750.0);
    assert_eq!(found.summary["delay_min_ms"], json!(0.2));
}

#[test]
fn what_came_before_counting_began_does_not_count() {
    // until 1 s the link gets three times what it carries, and 100 packets wait; from 2 s on one source is left
    let mut burst = udp(30_000_000, 1514);
    burst["stop"] = json!(SECOND);
    let senders = json!([udp(1_000_000, 1514), burst]);
    let whole = must(4, "link", json!({"udp": senders}));
    let later = must(4, "link", json!({"udp": senders, "record": {"from": 2 * SECOND}}));
    assert!(reals(&whole.tables.flows, "delay_max_ms")[0] > 100.0);
    assert_eq!(read_values(&later.tables.flows, &DELAYS, 0), [1.2112; 5]);
    // the jitter of a receiver that was there all the time is not quite gone 84 packets later: (15/16)^84 is 0.4 %
    let jitter = reals(&later.tables.flows, "jitter_ms")[0];
    assert!(jitter > 0.0 && jitter < 0.001, "{jitter}");
    // nothing of the other one arrived since
    assert!(read_values(&later.tables.flows, &[&DELAYS[..], &JITTERS].concat(), 1).iter().all(|value| value.is_nan()));
}

#[test]
fn time_on_the_path_counts_and_tcp_has_no_delay() {
    let path = json!([{"name": "batch", "interval": 50 * MS}]);
    let mut held = udp(312_500, 1250);
    held["path"] = path;
    let found = must(10, "link", json!({"udp": [held], "flows": [{"cc": {"name": "reno"}, "base_rtt": 20 * MS, "size": 1000}]}));
    let flows = &found.tables.flows;
    assert!(read_values(flows, &[&DELAYS[..], &JITTERS].concat(), 0).iter().all(|value| value.is_nan()));
    // one every 32 ms, held until the end of its batch
    let [least, most] = [reals(flows, "delay_min_ms")[1], reals(flows, "delay_max_ms")[1]];
    assert!(least >= 1.0 && most > 25.0 && most <= 51.0, "{least} to {most} ms");
    let nan = &found.tables.classes;
    assert!(reals(nan, "delay_mean_ms")[0].is_nan() && reals(nan, "delay_mean_ms")[1] > 1.0);
    let none = must(1, "link", json!({"flows": [{"cc": {"name": "reno"}}]}));
    assert!(none.summary["delay_mean_ms"].is_null() && none.summary["jitter_mean_ms"].is_null());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever else is sent: figures are in order, no delay is below the time of a frame, and P95 of the time in queue is between its neighbours.
    #[test]
    fn figures_are_in_order(
        aqm in prop::sample::select(vec!["pfifo", "codel", "fq_codel", "pie", "red", "cake", "fq_pie", "bfifo"]),
        mbit in 1..30_u64, kbit in 50..20_000_u64, size in 60..1515_u64, poisson in any::<bool>(), tcp in any::<bool>(), from in 0..3_u64
    ) {
        let mut one = udp(kbit * 1000, size);
        if poisson {
            one["spacing"] = json!("poisson");
        }
        let flows = if tcp { json!([{"cc": {"name": "cubic"}, "base_rtt": 20 * MS}]) } else { json!([]) };
        let bottleneck = json!({"rate": mbit * 1_000_000, "aqm": {"name": aqm}});
        let found = must(2, "link", json!({"bottleneck": bottleneck, "udp": [one, udp(1_000_000, 1514)], "flows": flows,
            "record": {"from": from * 200 * MS}}));
        let first = usize::from(tcp);
        let runs = Table::row(&found.summary);
        let rows = [(&found.tables.flows, first), (&found.tables.flows, first + 1), (&found.tables.classes, first), (&runs, 0)];
        for (table, row) in rows {
            let [mean, least, p95, p99, most] = read_values(table, &DELAYS, row)[..] else { unreachable!("five columns") };
            if most.is_nan() {
                prop_assert!(mean.is_nan() && least.is_nan() && p95.is_nan() && p99.is_nan());
                continue;
            }
            prop_assert!(least <= mean && mean <= most && least <= p95 && p95 <= p99 && p99 <= most);
            // cake shapes, and has no link behind it
            prop_assert!(least >= if aqm == "cake" { 0.0 } else { 60.0 * 8e-3 / mbit as f64 - 1e-6 }, "{least}");
            let jitter = reals(table, "jitter_mean_ms")[row];
            // the estimate goes on from packets that came before those that count
            let widest = if from == 0 { most - least + 1e-9 } else { f64::INFINITY };
            prop_assert!(jitter.is_nan() || (0.0..=widest).contains(&jitter), "{jitter} {least} {most}");
        }
        for table in [&found.tables.classes, &runs] {
            let names = ["sojourn_p75_ms", "sojourn_p95_ms", "sojourn_p99_ms", "sojourn_max_ms"];
            let columns = names.map(|name| reals(table, name).to_vec());
            for row in 0..columns[0].len() {
                prop_assert!(columns.windows(2).all(|two| two[0][row] <= two[1][row]), "{columns:?}");
            }
        }
    }
}
