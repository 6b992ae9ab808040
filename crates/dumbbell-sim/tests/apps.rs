//! Applications over empty links, where every time follows from rate, sizes and delays; and the rules of their keys.

use dumbbell_config::RunConfig;
use dumbbell_sim::{Outcome, Sim};
use serde_json::{json, Value};

const MS: u64 = 1_000_000;

fn run(config: &Value) -> Outcome {
    Sim::new(config).expect("a configuration").finish().expect("a run")
}

fn real(outcome: &Outcome, column: &str) -> Vec<f64> {
    outcome.tables.apps.real(column).unwrap_or_else(|| panic!("{column}: no such column")).to_vec()
}

fn count(outcome: &Outcome, column: &str) -> Vec<u64> {
    outcome.tables.apps.int(column).unwrap_or_else(|| panic!("{column}: no such column")).to_vec()
}

/// Load times in order, us.
fn loads_us(outcome: &Outcome) -> Vec<u64> {
    let times = outcome.tables.app_loads.real("load_s").expect("a column");
    times.iter().map(|time| (time * 1e6).round() as u64).collect()
}

/// Pages over a link of 8 Mbit/s down, and with `reverse` of 1 Mbit/s up, at a base RTT of 20 ms.
fn pages(kind: Value, reverse: bool) -> Value {
    let mut kind = kind;
    kind["name"] = json!("pages");
    let mut config = json!({
        "duration": 1_000 * MS, "bottleneck": {"rate": 8_000_000, "aqm": {"name": "pfifo"}},
        "app": [{"kind": kind, "cc": {"name": "reno"}, "base_rtt": 20 * MS}],
    });
    if reverse {
        config["reverse"] = json!({"rate": 1_000_000, "aqm": {"name": "pfifo"}});
    }
    config
}

#[test]
fn a_page_of_one_object_takes_a_round_trip_and_its_time_on_the_wire() {
    let kind = json!({"objects": 1, "size": {"fixed": 10_000}, "connections": 1});
    // 10,000 B are six segments of 1448 B and one of 1312 B: 6 * 1514 + 1378 = 10,462 B, at 1 B/us 10,462 us; and 20 ms. The first page begins with a
    // handshake, 20 ms. The acknowledgements of requests travel with the response
    let outcome = run(&pages(kind.clone(), false));
    let loads = loads_us(&outcome);
    assert_eq!((loads[0], &loads[1..4]), (40_000 + 10_462, &[30_462; 3][..]));
    // up at 8 us/B: the request of 466 B takes 3728 us, and ahead of it the ACK of the last segment 528 us; at first a SYN (592 us) and the
    // ACK of the SYN-ACK (528 us) instead
    let with_requests = loads_us(&run(&pages(kind, true)));
    assert_eq!(with_requests[0], 40_000 + 10_462 + 3_728 + 592 + 528);
    assert_eq!(with_requests[1..4], [30_462 + 3_728 + 528; 3]);
    assert_eq!(count(&outcome, "loads")[0], outcome.tables.app_loads.height() as u64);
    let goodput = real(&outcome, "goodput_mbit")[0];
    // every 30.462 ms one page of 10,000 B; only the first and the last page differ
    assert!((goodput / (0.08 / 0.030462) - 1.0).abs() < 0.05, "{goodput}");
}

#[test]
fn objects_come_after_the_page_over_all_connections_at_once() {
    // Four objects of one segment of 1000 B, 1066 B on the wire: the page itself, and the others over two connections. Each round is a round trip
    // and 1066 us, twice that where two connections answer at once
    let kind = json!({"objects": 4, "size": {"fixed": 1_000}, "connections": 2});
    let loads = loads_us(&run(&pages(kind, false)));
    // from the second page on all connections are open. Page, two objects, one object: the second of the two requests goes as the first of them is answered
    assert!(loads[1] >= 3 * 20_000 + 3 * 1_066 && loads[1] <= 3 * 20_000 + 4 * 1_066, "{loads:?}");
    // with all objects at once over one connection there are two rounds: the page, and three objects, 3000 B in two segments of 1514 and one of 170
    let at_once = json!({"objects": 4, "size": {"fixed": 1_000}, "connections": 1, "multiplexed": true});
    let rounds = loads_us(&run(&pages(at_once, false)));
    let wire = 1_066 + 2 * 1_514 + 170;
    assert_eq!(rounds[1], 40_000 + wire, "{rounds:?}");
}

#[test]
fn frames_of_a_call_take_their_time_on_the_wire_and_half_of_the_base_rtt() {
    let mut config = json!({
        "duration": 1_990 * MS, "bottleneck": {"rate": 1_000_000, "aqm": {"name": "pfifo"}},
        "reverse": {"rate": 500_000, "aqm": {"name": "pfifo"}},
        "app": [{"kind": {"name": "call", "playout": 17 * MS}, "base_rtt": 30 * MS}],
    });
    let outcome = run(&config);
    // 80 + 12 + 8 + 20 + 14 = 134 B at 1 Mbit/s are 1072 us, at 0.5 Mbit/s 2144 us: up a frame takes longer than 17 ms, down none
    for (column, expected) in
        [("delay_mean_ms", [16.072, 17.144]), ("delay_max_ms", [16.072, 17.144]), ("late_share", [0.0, 1.0])]
    {
        assert_eq!(real(&outcome, column), expected, "{column}");
    }
    assert_eq!((count(&outcome, "sent"), real(&outcome, "jitter_ms")), (vec![100, 100], vec![0.0, 0.0]));
    // down, a frame is heard 17 ms after it was sent, and holds the sound of 20 ms; up none is heard
    assert_eq!((real(&outcome, "mouth_to_ear_ms")[0], real(&outcome, "buffer_ms")[0]), (37.0, 0.928));
    let mos = real(&outcome, "mos");
    assert!(format!("{:.2}", mos[0]) == "4.39" && mos[1] == 1.0, "{mos:?}");
    // without a link up, only propagation is left there
    config.as_object_mut().expect("a table").remove("reverse");
    assert_eq!(real(&run(&config), "delay_max_ms"), [16.072, 15.0]);
}

#[test]
fn a_user_starts_and_stops_when_told_to_and_the_measured_time_is_what_counts() {
    let mut config = pages(json!({"objects": 1, "size": {"fixed": 10_000}, "connections": 1}), false);
    config["app"][0]["start"] = json!({"min": 100 * MS, "max": 100 * MS});
    config["app"][0]["stop"] = json!(200 * MS);
    let outcome = run(&config);
    // 100 + 50.462 + 2 * 30.462 = 211.4 ms: the third page begins before 200 ms and is the last
    assert_eq!(
        (count(&outcome, "loads_begun"), count(&outcome, "loads"), real(&outcome, "start_s")),
        (vec![3], vec![3], vec![0.1])
    );
    config["record"] = json!({"from": 200 * MS});
    let later = run(&config);
    assert_eq!((count(&later, "loads_begun"), count(&later, "loads")), (vec![0], vec![0]));
    assert!(real(&later, "load_mean_s")[0].is_nan() && later.tables.app_loads.height() == 0);
}

#[test]
fn equal_configurations_give_equal_bits_and_users_differ() {
    let mut config = pages(json!({"think": 20 * MS}), true);
    config["app"][0]["count"] = json!(2);
    let (one, other) = (run(&config), run(&config));
    assert_eq!(one.hash, other.hash);
    let loads = real(&one, "load_mean_s");
    assert!(loads.len() == 2 && loads[0] != loads[1], "{loads:?}");
    config["seed"] = json!(2);
    assert_ne!(run(&config).hash, one.hash);
}

#[test]
fn wrong_keys_are_refused_with_what_is_allowed() {
    let with = |app: Value| json!({"bottleneck": {"aqm": {"name": "pfifo"}}, "app": [app]});
    for (app, part) in [
        (
            json!({"kind": {"name": "call"}, "cc": {"name": "cubic"}}),
            "app[0].cc: found a value, allowed: none: call sends datagrams",
        ),
        (json!({"kind": {"name": "call"}, "ecn": true}), "app[0].ecn: found a value, allowed: none: call sends datagrams"),
        (json!({"kind": {"name": "pages"}}), "app[0].cc"),
        (
            json!({"kind": {"name": "page"}, "cc": {"name": "cubic"}}),
            "app[0].kind.name: found \"page\", allowed: pages, call, game, video",
        ),
        (
            json!({"kind": {"name": "pages", "objects": 0}, "cc": {"name": "cubic"}}),
            "app[0].kind.objects: found 0, allowed: 1 to 10000",
        ),
        (json!({"kind": {"name": "pages"}, "cc": {"name": "cubic"}, "direction": "up"}), "app[0].route: found no hop"),
    ] {
        let error = RunConfig::from_json(&with(app)).expect_err("an error").to_string();
        assert!(error.contains(part), "{error}");
    }
    let mut small = with(json!({"kind": {"name": "call", "payload": 200}}));
    small["hosts"] = json!({"mss": 88});
    let error = RunConfig::from_json(&small).expect_err("an error").to_string();
    assert!(error.contains("app[0].kind: found datagrams of 254 B with their headers, allowed: at most 154 B"), "{error}");
}
