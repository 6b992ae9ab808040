//! Applications of streams over links where every time follows from rate, sizes and delays, and over nets that they have to adapt to.

use dumbbell_measure::table::Column;
use dumbbell_sim::{Outcome, Sim};
use serde_json::{json, Value};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn run(config: &Value) -> Outcome {
    Sim::new(config)
        .unwrap_or_else(|error| panic!("{error}: {config}"))
        .finish()
        .unwrap_or_else(|error| panic!("{error}: {config}"))
}

/// Values of a column of the only user.
fn real(outcome: &Outcome, column: &str) -> f64 {
    outcome.tables.apps.real(column).unwrap_or_else(|| panic!("{column}: no such column"))[0]
}

fn count(outcome: &Outcome, column: &str) -> u64 {
    outcome.tables.apps.int(column).unwrap_or_else(|| panic!("{column}: no such column"))[0]
}

fn word(outcome: &Outcome, column: &str) -> String {
    match outcome.tables.apps.columns.iter().find(|(name, _)| name == column) {
        Some((_, Column::Text(words))) => words[0].clone(),
        other => panic!("{column}: {other:?}"),
    }
}

/// Load times in order, us.
fn loads_us(outcome: &Outcome) -> Vec<u64> {
    let times = outcome.tables.app_loads.real("load_s").expect("a column");
    times.iter().map(|time| (time * 1e6).round() as u64).collect()
}

/// A user of `kind` over a FIFO of 8 Mbit/s down, at a base RTT of 20 ms; up there is no link.
fn user(kind: Value, seconds: u64) -> Value {
    json!({
        "duration": seconds * SECOND, "bottleneck": {"rate": 8_000_000, "aqm": {"name": "pfifo"}},
        "app": [{"kind": kind, "cc": {"name": "reno"}, "base_rtt": 20 * MS}],
    })
}

/// 10,000 B are six segments of 1448 B and one of 1312 B: 6 * 1514 + 1378 = 10,462 B, at 1 B/us 10,462 us.
const WIRE_OF_10_KB: u64 = 10_462;
/// A handshake, and what goes down ahead of the response: the SYN-ACK, 74 B, and the ACK of the request, 66 B.
const HANDSHAKE: u64 = 20_000 + 74 + 66;

#[test]
fn a_response_takes_a_round_trip_and_its_time_on_the_wire() {
    let kept = run(&user(json!({"name": "request", "size": {"fixed": 10_000}}), 2));
    let loads = loads_us(&kept);
    assert_eq!((loads[0], &loads[1..4]), (HANDSHAKE + 20_000 + WIRE_OF_10_KB, &[20_000 + WIRE_OF_10_KB; 3][..]));
    // 2 s hold the first and (2,000,000 - 50,602) / 30,462 = 63.996 others
    assert_eq!((count(&kept, "loads"), count(&kept, "loads_begun")), (64, 65));
    let mean = (50_602.0 + 63.0 * 30_462.0) / 64.0;
    assert!((real(&kept, "load_mean_s") * 1e6 - mean).abs() < 0.01);
    // with a connection for each, every one has a handshake
    let fresh = run(&user(json!({"name": "request", "size": {"fixed": 10_000}, "fresh": true}), 2));
    let times = loads_us(&fresh);
    assert!(times.len() == 39 && times.iter().all(|&time| time == HANDSHAKE + 20_000 + WIRE_OF_10_KB), "{times:?}");
    // A time to think puts them further apart, and an idle receiver acknowledges the request at once: 150,602 + 5 * 130,528 us are 803,242
    let mut config = user(json!({"name": "request", "size": {"fixed": 10_000}, "think": 100 * MS}), 2);
    let starts = run(&config).tables.app_loads.real("start_s").expect("a column").to_vec();
    assert!((starts[6] - 0.803242).abs() < 1e-9, "{starts:?}");
    // Up at 8 us/B: a request of 400 B takes 3728 us, behind the ACK of the last segment, 528 us. That of 1000 B, 1066 B with headers, takes 8528
    config["reverse"] = json!({"rate": 1_000_000, "aqm": {"name": "pfifo"}});
    config["app"][0]["kind"] =
        json!({"name": "request", "size": {"fixed": 10_000}, "request": {"fixed": 1_000}, "think": 5 * MS});
    // the ACKs of the response are gone after the time to think
    let long = loads_us(&run(&config));
    assert_eq!(long[1..4], [20_000 + WIRE_OF_10_KB + 66 + 8_528; 3], "{long:?}");
}

#[test]
fn a_response_that_goes_up_takes_as_long() {
    let mut config = user(json!({"name": "request", "size": {"fixed": 10_000}, "fresh": true}), 2);
    config["reverse"] = json!({"rate": 8_000_000, "aqm": {"name": "pfifo"}});
    config["bottleneck"]["rate"] = json!(1_000_000_000);
    config["app"][0]["direction"] = json!("up");
    let up = loads_us(&run(&config));
    // requests and SYNs go down at 1 Gbit/s: less than 10 us
    let alone = 40_000 + WIRE_OF_10_KB;
    assert!(up.len() == 39 && up.iter().all(|time| (alone + 66..alone + 2 * 74 + 66 + 20).contains(time)), "{up:?}");
}

#[test]
fn the_counts_of_closed_connections_stay_in_the_results() {
    let fresh = run(&user(json!({"name": "request", "size": {"fixed": 10_000}, "fresh": true}), 2));
    // seven segments each, of 39 that were there, and of one that was not
    let sent = count(&fresh, "sent");
    assert!((39 * 7..=40 * 7).contains(&sent), "{sent}");
    let mut config = user(json!({"name": "request", "size": {"fixed": 10_000}, "fresh": true}), 2);
    config["record"] = json!({"from": SECOND});
    let half = run(&config);
    // 19 loads begin and end in the second second
    assert_eq!(count(&half, "loads"), 19);
    let payload = real(&half, "goodput_mbit") * 1e6 / 8.0;
    assert!((payload - 197_000.0).abs() < 8_000.0, "{payload}");
    // the slots of closed connections are used again in the same order
    assert_eq!(run(&config).hash, half.hash);
}

#[test]
fn a_burst_of_one_file_takes_as_long_as_a_request_over_a_new_connection() {
    let kind = json!({"name": "onoff", "connections": 1, "smallest": 10_000, "largest": 10_000, "idle": 200 * MS});
    let bursts = run(&user(kind.clone(), 10));
    let loads = loads_us(&bursts);
    assert!(loads.len() > 20 && loads.iter().all(|&time| time == HANDSHAKE + 20_000 + WIRE_OF_10_KB), "{loads:?}");
    // it begins with a time off
    let mut off = user(kind, 10);
    off["app"][0]["kind"]["begins_off"] = json!(true);
    let start = run(&off).tables.app_loads.real("start_s").expect("a column")[0];
    assert!(start > 0.0, "{start}");
    // RFC 8868: 30 files of 40 kB in the mean take 1.2 MB, at least 1.2 s at 8 Mbit/s
    let many = run(&user(json!({"name": "onoff"}), 60));
    let (time, file) = (real(&many, "load_mean_s"), real(&many, "file_p50_s"));
    assert!((1.2..1.8).contains(&time) && file > 0.1 && file < time, "{time} {file}");
}

#[test]
fn a_lost_syn_ack_costs_a_second_and_the_initial_window() {
    // UDP at 20 times the rate of the link fills its ten packets until 1.5 s. A connection opens at 0.5003 s, and its SYN-ACK is dropped
    let mut config = user(json!({"name": "request", "size": {"fixed": 10_000}, "fresh": true}), 3);
    config["bottleneck"]["aqm"]["limit"] = json!(10);
    config["app"][0]["start"] = json!({"min": 500_300_000, "max": 500_300_000});
    config["udp"] = json!([{"rate": 160_000_000, "size": 1_000, "stop": 1_500 * MS}]);
    let loads = loads_us(&run(&config));
    // The client sends its SYN again after 1 s on a wheel of 64 ms, at 1.536 s, and so does the server its SYN-ACK, 10 ms later, when that SYN arrives. With two that were sent again it begins with one segment:
    // 7 take round trips of 1, 2 and 4 segments, where 10 take one. In the last round trip 3 * 1514 + 1378 B go over the wire, and each of the others adds its first segment
    let again = 1_536_000 - 500_300 + HANDSHAKE;
    let data = 3 * 20_000 + 2 * 1_514 + 3 * 1_514 + 1_378;
    assert_eq!(loads[0], again + data);
    // the next connection finds an empty queue
    assert_eq!(loads[1], HANDSHAKE + 20_000 + WIRE_OF_10_KB);
}

#[test]
fn a_backup_goes_at_its_rate_or_at_that_of_the_network() {
    // 10,000 B at 4 Mbit/s take 20 ms: the last of five pieces is written at 80 ms, and arrives half a round trip and its time on the wire later
    let kind = json!({"name": "backup", "rate": 4_000_000, "piece": 10_000, "size": 50_000});
    let one = run(&user(kind, 2));
    assert_eq!(loads_us(&one), [80_000 + 10_000 + WIRE_OF_10_KB]);
    assert!((real(&one, "rate_mbit") - 0.4 / 0.100_462).abs() < 1e-6);
    // without an end 4 Mbit/s; and at 20 Mbit/s what the link carries, 1448 of 1514 B
    let steady = real(&run(&user(json!({"name": "backup", "rate": 4_000_000}), 20)), "rate_mbit");
    let limited = real(&run(&user(json!({"name": "backup", "rate": 20_000_000}), 20)), "rate_mbit");
    assert!((steady / 4.0 - 1.0).abs() < 0.02 && (limited / (8.0 * 1448.0 / 1514.0) - 1.0).abs() < 0.03, "{steady} {limited}");
    // while the link is slow for 10 of 20 s it carries 1 Mbit/s, and what was not sent then is not made up for
    let mut slow = user(json!({"name": "backup", "rate": 4_000_000, "ahead": 200_000}), 20);
    slow["bottleneck"]["rate_changes"] = json!([{"at": 5 * SECOND, "rate": 1_000_000}, {"at": 15 * SECOND, "rate": 8_000_000}]);
    let rate = real(&run(&slow), "rate_mbit");
    assert!((2.2..2.7).contains(&rate), "{rate}");
}

#[test]
fn a_segment_takes_a_round_trip_and_its_time_on_the_wire() {
    // 100 ms of 0.3 Mbit/s are 3750 B: two segments of 1448 B and one of 854 B, 2 * 1514 + 920 = 3948 B
    let kind = json!({"name": "dash", "segment": 100 * MS, "level": 0, "buffer": 300 * MS});
    let outcome = run(&user(kind, 10));
    let loads = loads_us(&outcome);
    assert_eq!((loads[0], &loads[1..3]), (HANDSHAKE + 20_000 + 3_948, &[23_948; 2][..]));
    // it starts with two
    assert!((real(&outcome, "startup_s") * 1e6 - (HANDSHAKE + 40_000 + 2 * 3_948) as f64).abs() < 0.5);
    assert_eq!((count(&outcome, "switches"), count(&outcome, "stalls")), (0, 0));
    // one segment in 100 ms from then on, and at most three more in the buffer
    assert!((100..=103).contains(&count(&outcome, "loads")) && (real(&outcome, "bitrate_mbit") - 0.3).abs() < 1e-9);
}

#[test]
fn a_player_that_does_not_adapt_stalls_where_one_that_does_plays_on() {
    let watch = |level: Value| {
        let mut config = user(json!({"name": "dash", "level": level}), 240);
        config["bottleneck"]["rate_changes"] =
            json!([{"at": 60 * SECOND, "rate": 500_000}, {"at": 180 * SECOND, "rate": 8_000_000}]);
        run(&config)
    };
    let (adaptive, fixed) = (watch(Value::Null), watch(json!(4)));
    assert!(count(&adaptive, "switches") >= 3 && count(&fixed, "switches") == 0);
    // 120 s at 0.5 Mbit/s hold 21 s of 2.85 Mbit/s, and the buffer has at most 30 s: 69 of 240 s stall
    assert!(real(&fixed, "stalled_share") > 0.28 && real(&adaptive, "stalled_share") < 0.05, "{:?}", adaptive.tables.apps);
    assert!(real(&adaptive, "bitrate_mbit") < 4.3 && count(&adaptive, "stalls") <= 1 && count(&fixed, "stalls") >= 3);
}

/// A test of responsiveness over `aqm` at 20 Mbit/s and 20 ms, with one connection of the load whose window is 100 segments: 151 ms at the least.
fn rpm(aqm: &str, more: Value) -> Outcome {
    let mut kind = json!({"name": "responsiveness", "interval": SECOND, "idle": SECOND, "most": 1, "limit": 20 * SECOND});
    for (key, value) in more.as_object().expect("a table") {
        kind[key] = value.clone();
    }
    let config = json!({
        "duration": 25 * SECOND, "bottleneck": {"rate": 8_000_000, "aqm": {"name": aqm}},
        "app": [{"kind": kind, "cc": {"name": "constant", "window": 100}, "base_rtt": 20 * MS}],
    });
    run(&config)
}

#[test]
fn the_responsiveness_of_a_fifo_is_that_of_its_queue() {
    let outcome = rpm("pfifo", json!({}));
    // a window of 100 segments of 1514 us each: a round trip of 151.4 ms, which each part of a foreign probe takes once
    let (foreign, loaded) = (real(&outcome, "rpm_foreign"), real(&outcome, "rpm_loaded"));
    assert!((foreign / (60.0 / 0.1514) - 1.0).abs() < 0.03, "{foreign}");
    // a self probe also waits for what the sender has not sent, 5 ms or two segments, and for the rest of its own segment
    assert!((60.0 / 0.162..60.0 / 0.1514).contains(&loaded), "{loaded}");
    assert!((real(&outcome, "rpm") - (foreign + loaded) / 2.0).abs() < 1e-6);
    // the load has what probes leave: 5 % at the most
    let share = real(&outcome, "capacity_mbit") / (8.0 * 1448.0 / 1514.0);
    assert!((0.94..1.0).contains(&share), "{share}");
    // the SYN-ACK of 74 B alone; then 151.4 ms: an increase of 131 ms, grade C
    assert!((real(&outcome, "idle_latency_ms") - 20.074).abs() < 1e-6, "{}", real(&outcome, "idle_latency_ms"));
    assert!((real(&outcome, "latency_increase_ms") - 131.3).abs() < 3.0);
    assert_eq!((word(&outcome, "bufferbloat_grade"), word(&outcome, "rpm_confidence")), ("C".to_owned(), "high".to_owned()));
    // four intervals until the goodput is stable, and four until the responsiveness is: nine seconds with the idle one
    assert_eq!(loads_us(&outcome), [9_000_000]);
}

#[test]
fn flow_queues_keep_new_connections_responsive_but_not_those_of_the_load() {
    let outcome = rpm("fq_codel", json!({}));
    let (foreign, loaded) = (real(&outcome, "rpm_foreign"), real(&outcome, "rpm_loaded"));
    assert!(foreign > 60.0 / 0.03 && loaded < foreign / 2.0, "{foreign} {loaded}");
    assert!(["A+", "A"].contains(&word(&outcome, "bufferbloat_grade").as_str()));
}

#[test]
fn a_test_may_load_both_ways_and_end_unstable() {
    let mut kind =
        json!({"name": "responsiveness", "interval": SECOND, "idle": SECOND, "most": 2, "limit": 3 * SECOND, "both": true});
    let with = |own: &Value| {
        let config = json!({
            "duration": 10 * SECOND, "bottleneck": {"rate": 8_000_000, "aqm": {"name": "pfifo"}},
            "reverse": {"rate": 2_000_000, "aqm": {"name": "pfifo"}},
            "app": [{"kind": own, "cc": {"name": "cubic"}, "base_rtt": 20 * MS}],
        });
        run(&config)
    };
    let both = with(&kind);
    assert_eq!((word(&both, "rpm_confidence"), loads_us(&both)), ("low".to_owned(), vec![4_000_000]));
    kind["both"] = json!(false);
    let one = with(&kind);
    // up, ACKs and requests wait behind the other load
    assert!(real(&both, "rpm") < 0.7 * real(&one, "rpm"), "{} {}", real(&both, "rpm"), real(&one, "rpm"));
    // the run is over before the test: what it has by then
    kind["limit"] = json!(60 * SECOND);
    let cut = with(&kind);
    assert!(count(&cut, "loads") == 0 && real(&cut, "rpm") > 0.0);
}

#[test]
fn equal_seeds_give_equal_bits_with_connections_that_come_and_go() {
    for kind in [
        json!({"name": "onoff", "idle": 100 * MS}),
        json!({"name": "request", "fresh": true, "think": 3 * MS, "times": "exponential"}),
    ] {
        let mut config = user(kind, 5);
        config["app"][0]["count"] = json!(2);
        config["web"] = json!([{"cc": {"name": "cubic"}, "arrivals": {"per_second": 50.0}, "size": {"fixed": 5_000}}]);
        let (one, other) = (run(&config), run(&config));
        assert_eq!(one.hash, other.hash);
        config["seed"] = json!(2);
        assert_ne!(run(&config).hash, one.hash);
    }
}
