//! Runs over links that the configuration names.

use dumbbell_core::link_trace::LinkTrace;
use dumbbell_core::param::ParamType;
use dumbbell_sim::{check, run, Outcome};
use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, AtomicU64};

const MS: u64 = 1_000_000;

fn must(config: &Value) -> Outcome {
    run(config, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap_or_else(|error| panic!("{error}: {config}"))
}

fn real(outcome: &Outcome, key: &str) -> f64 {
    outcome.summary[key].as_f64().expect("a number")
}

/// One CUBIC flow over a bottleneck with these keys, for 10 s.
fn config(mut bottleneck: Value) -> Value {
    bottleneck["aqm"] = json!({"name": "pfifo", "limit": 100_000});
    json!({"duration": 10_000 * MS, "seed": 1, "bottleneck": bottleneck, "record": {"interval": 100 * MS},
        "flows": [{"cc": {"name": "cubic"}, "base_rtt": 10 * MS}]})
}

#[test]
fn packets_stay_in_order_when_the_delay_falls() {
    // a frame a millisecond; 60 ms for half of a second, then none: all that is on its way arrives before what leaves then
    let text: String = (1..=1_000).map(|at| format!("{at} {}\n", if at <= 500 { 60 } else { 0 })).collect();
    let trace = LinkTrace::parse("falls", text.as_bytes()).expect("a trace").to_json();
    let mut falling = config(json!({"trace": trace}));
    falling["udp"] = json!([{"rate": 100_000, "size": 100}]);
    falling["hosts"] = json!({"receive_buffer": 200_000});
    let outcome = must(&falling);
    assert_eq!(outcome.tables.flows.int("retransmissions").expect("a column")[0], 0);
    // a packet each 8 ms alone: at once, 60 ms later, or, for a moment, with the one ahead
    falling["flows"] = json!([]);
    let alone = must(&falling);
    let delay = |key: &str| alone.tables.flows.real(key).expect("a column")[0];
    assert!(delay("delay_min_ms") < 1.1 && (60.0..61.1).contains(&delay("delay_max_ms")), "{}", delay("delay_max_ms"));
    assert!((30.0..34.0).contains(&delay("delay_mean_ms")), "{}", delay("delay_mean_ms"));
}

#[test]
fn utilisation_is_held_against_what_the_link_could_carry() {
    // 1.8 s of 2 s at 10 Mbit/s
    let outcome = must(&config(json!({"rate": 10_000_000, "link": {"name": "onoff"}})));
    assert!((real(&outcome, "capacity_mbit") - 9.0).abs() < 1e-9);
    assert!((0.97..=1.0).contains(&real(&outcome, "utilisation")), "{}", real(&outcome, "utilisation"));
    let series = outcome.tables.queue_series.real("capacity_mbit").expect("a column");
    assert_eq!((series[17], series[18], series[19], series[20]), (10.0, 0.0, 0.0, 10.0));
    // a satellite of half the rate at the least, three of them
    let leo = json!({"name": "leo", "interval": 4_000 * MS, "low_rate": 0.5});
    let of_leo = must(&config(json!({"rate": 10_000_000, "link": leo})));
    assert!((5.0..10.0).contains(&real(&of_leo, "capacity_mbit")));
    assert!((0.9..=1.0).contains(&real(&of_leo, "utilisation")), "{}", real(&of_leo, "utilisation"));
}

#[test]
fn links_of_hops_draw_their_own_numbers_and_those_of_the_seed() {
    let wifi = json!({"rate": 10_000_000, "link": {"name": "wifi", "jitter": 7 * MS}});
    let hash = |seed: u64| {
        let mut one = config(wifi.clone());
        one["seed"] = json!(seed);
        must(&one).hash
    };
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
    // UDP of a packet each 100 ms waits for a grant at either hop: if both drew the same, delays behind two were twice those behind one
    let mut two = config(wifi.clone());
    two["flows"] = json!([]);
    two["udp"] = json!([{"rate": 80_000, "size": 1000, "route": ["bottleneck", "second"]}]);
    two["hop"] = json!([{"name": "second", "rate": 10_000_000, "aqm": {"name": "pfifo"}, "link": wifi["link"]}]);
    let of = |one: &Value| {
        let outcome = must(one);
        ["delay_mean_ms", "delay_p95_ms"].map(|key| outcome.tables.flows.real(key).expect("a column")[0])
    };
    let both = of(&two);
    two["udp"][0]["route"] = json!(["bottleneck"]);
    let single = of(&two);
    assert!(both[0] > 1.1 * single[0] && (both[0] - 2.0 * single[0]).abs() > 0.05, "{both:?}, {single:?}");
}

#[test]
fn what_does_not_fit_together_is_refused_by_key() {
    let error = |bottleneck: Value| check(&config(bottleneck)).expect_err("a bad link").to_string();
    let cases = [
        (json!({"link": {"name": "wify"}}), "bottleneck.link.name: found \"wify\", allowed: serial, htb"),
        (json!({"link": "wifi"}), "bottleneck.link: found \"wifi\", allowed: a table"),
        (json!({"link": {"name": "leo", "low_rate": 0.0}}), "bottleneck.link.low_rate: found 0.0, allowed: 0.01 to 1.0"),
        (json!({"link": {"name": "wifi"}, "shaper": "htb"}), "bottleneck.link: found link and shaper, allowed: one of the two"),
        (json!({"link": {"name": "trace"}}), "bottleneck.link.file: found none, allowed: the file of a trace"),
        (json!({"link": {"name": "unshaped"}}), "bottleneck.link: found unshaped, allowed: a link with a rate"),
    ];
    for (bottleneck, expected) in cases {
        let found = error(bottleneck);
        assert!(found.starts_with(expected), "{found}");
    }
    let mut net = config(json!({}));
    net["hop"] = json!([{"name": "second", "aqm": {"name": "codel"}, "link": {"name": "docsis", "pipeline": 0}}]);
    let found = check(&net).expect_err("a bad link").to_string();
    assert!(found.starts_with("hop[0].link.pipeline: found 0, allowed: 1 to 16"), "{found}");
}
