//! Every mistake in a configuration is answered with its key, what was found, and what is allowed.

use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, AtomicU64};

fn valid() -> Value {
    json!({
        "duration": 1_000_000, "seed": 1,
        "bottleneck": {"rate": 10_000_000, "shaper": "link", "aqm": {"name": "pfifo", "limit": 10}, "rate_changes": []},
        "hosts": {"ecn": true}, "record": {"series": true},
        "flows": [{"cc": {"name": "reno"}, "base_rtt": 1_000_000}, {"cc": {"name": "cubic"}, "start": {"min": 0, "max": 0}}],
    })
}

fn error(config: &Value) -> String {
    match dumbbell_sim::run(config, &AtomicBool::new(false), &AtomicU64::new(0)) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

/// The message for the valid configuration with `value` at `pointer`.
fn broken(pointer: &str, value: Value) -> String {
    let mut config = valid();
    let (parent, key) = pointer.rsplit_once('/').expect("a path");
    config.pointer_mut(parent).expect("a section that is there")[key] = value;
    error(&config)
}

#[test]
fn the_configuration_that_the_others_are_made_of_is_valid() {
    assert_eq!(error(&valid()), "");
}

#[test]
fn every_mistake_is_named() {
    let cases: Vec<(&str, Value, &str)> = vec![
        ("/duration", json!(0), "duration: found 0, allowed: 1 to 86400000000000"),
        ("/duration", json!("1s"), "duration: found \"1s\", allowed: a time (integer nanoseconds)"),
        ("/duration", json!(-1), "duration: found -1, allowed: a time (integer nanoseconds)"),
        ("/seed", json!(1.5), "seed: found 1.5, allowed: an integer from 0 to 18446744073709551615"),
        (
            "/durations",
            json!(1),
            "durations: found this key, allowed: bottleneck, hop, reverse, hosts, flows, web, udp, app, record, duration, seed",
        ),
        ("/bottleneck/rate", json!(999), "bottleneck.rate: found 999, allowed: 1000 to 10000000000000"),
        ("/bottleneck/rate", Value::Null, "bottleneck.rate: found null, allowed: a rate (integer bit/s)"),
        ("/bottleneck/shaper", json!("tbf"), "bottleneck.shaper: found \"tbf\", allowed: link, htb"),
        ("/bottleneck/burst", json!(100), "bottleneck.burst: found 100, allowed: 1514 to 100000000"),
        ("/bottleneck/limit", json!(100), "bottleneck.limit: found this key, allowed: rate, shaper, burst"),
        ("/bottleneck", json!([]), "bottleneck: found [], allowed: a table"),
        ("/bottleneck/aqm", json!("codel"), "bottleneck.aqm: found \"codel\", allowed: a table"),
        ("/bottleneck/aqm/limit", json!(-1), "bottleneck.aqm.limit: found -1, allowed: an integer from 0 to 4294967295"),
        ("/bottleneck/aqm/target", json!(1), "bottleneck.aqm.target: found this key, allowed: limit"),
        (
            "/bottleneck/rate_changes",
            json!({}),
            "bottleneck.rate_changes.every: found null, allowed: a time (integer nanoseconds)",
        ),
        (
            "/bottleneck/rate_changes",
            json!([{"at": 1, "rate": 5}]),
            "bottleneck.rate_changes.rate: found 5bit, allowed: 1kbit to 10000Gbit",
        ),
        (
            "/bottleneck/rate_changes",
            json!([{"rate": 5000}]),
            "bottleneck.rate_changes.at: found null, allowed: a time (integer nanoseconds)",
        ),
        (
            "/bottleneck/rate_changes",
            json!([{"at": 1, "rate": 5000, "to": 1}]),
            "bottleneck.rate_changes.to: found this key, allowed: at, rate",
        ),
        ("/hosts", json!(1), "hosts: found 1, allowed: a table"),
        ("/hosts/mss", json!(10), "hosts.mss: found 10, allowed: 88 to 8948"),
        ("/hosts/mss", json!(1 << 20), "hosts.mss: found 1048576, allowed: 88 to 8948"),
        ("/hosts/ecn", json!("yes"), "hosts.ecn: found \"yes\", allowed: true or false"),
        ("/hosts/offload", json!("gro"), "hosts.offload: found \"gro\", allowed: none, tso"),
        ("/hosts/initial_window", json!(0), "hosts.initial_window: found 0, allowed: 1 to 10000"),
        ("/hosts/pacing_ca_ratio", json!(5), "hosts.pacing_ca_ratio: found 5, allowed: 10 to 1000"),
        ("/flows", json!([]), "flows: found nothing that sends, allowed: one entry or more in flows, web, udp or app"),
        ("/flows", Value::Null, "flows: found nothing that sends, allowed: one entry or more in flows, web, udp or app"),
        ("/flows", json!({}), "flows: found {}, allowed: a list"),
        ("/flows/1/cc", json!({"name": "cubit"}), "flows[1].cc.name: found \"cubit\", allowed: reno, cubic"),
        ("/flows/0/cc", json!({}), "flows[0].cc.name: found \"\""),
        ("/flows/1/base_rtt", json!(60_000_000_001_u64), "flows[1].base_rtt: found 60000000001, allowed: 0 to 60000000000"),
        ("/flows/1/size", json!(0), "flows[1].size: found 0, allowed: 1 to 1152921504606846976"),
        ("/flows/1/app_rate", json!(1), "flows[1].app_rate: found 1, allowed: 1000 to 10000000000000"),
        ("/flows/1/app_rate_from", json!(7), "flows[1].app_rate_from: found 7ns, allowed: 0s without app_rate"),
        ("/flows/1/app_resume", json!(7), "flows[1].app_resume: found 7ns, allowed: none without app_pause"),
        ("/flows/1/connect", json!(7), "flows[1].connect: found 7ns, allowed: up to start, 0s"),
        ("/flows/1/loss", json!(1.01), "flows[1].loss: found 1.01, allowed: 0.0 to 1.0"),
        ("/flows/1/loss", json!(-0.1), "flows[1].loss: found -0.1, allowed: 0.0 to 1.0"),
        ("/flows/1/dscp", json!(64), "flows[1].dscp: found 64, allowed: 0 to 63"),
        ("/flows/1/start", json!(5), "flows[1].start: found 5, allowed: {min, max}"),
        (
            "/flows/1/start",
            json!({"min": 2, "max": 1}),
            "flows[1].start: found {\"min\":2,\"max\":1}, allowed: min <= max, within a day",
        ),
        ("/flows/1/start", json!({"min": 0}), "flows[1].start: found {\"min\":0}, allowed: min <= max, within a day"),
        ("/flows/1/start", json!({"from": 0}), "flows[1].start.from: found this key, allowed: min, max"),
        ("/flows/1/rtt", json!(1), "flows[1].rtt: found this key"),
        ("/flows/1/count", json!(0), "flows[1].count: found 0, allowed: 1 or more"),
        ("/flows/1/count", json!(-1), "flows[1].count: found -1, allowed: an integer from 0 to 18446744073709551615"),
        ("/flows/1/count", json!(1_000_000), "flows: found 1000001 of them, allowed: at most 1000000"),
        ("/flows/1/count", json!(u64::MAX), "flows: found 18446744073709551615 of them, allowed: at most 1000000"),
        ("/web", json!([{"cc": {"name": "cubit"}}]), "web[0].cc.name: found \"cubit\", allowed: reno, cubic"),
        ("/web", json!([{"cc": {"name": "reno"}, "arrivals": 3}]), "web[0].arrivals: found 3, allowed: {\"per_second\": N}"),
        (
            "/web",
            json!([{"cc": {"name": "reno"}, "size": {"fixed": 0}}]),
            "web[0].size: found {\"fixed\":0}, allowed: {\"fixed\": bytes}",
        ),
        ("/web", json!([{"cc": {"name": "reno"}, "count": 2}]), "web[0].count: found this key"),
        ("/udp", json!([{"rate": 1}]), "udp[0].rate: found 1, allowed: 1000 to 10000000000000"),
        ("/udp", json!([{"ecn": "ce"}]), "udp[0].ecn: found \"ce\", allowed: not-ect, ect0, ect1"),
        ("/udp", json!([{"count": 1_000_001}]), "udp: found 1000001 of them, allowed: at most 999998"),
        ("/record/interval", json!(1), "record.interval: found 1, allowed: 1000000 to 86400000000000"),
        ("/record/every", json!(1), "record.every: found this key, allowed: from, series, interval, trace, short_flows"),
    ];
    for (pointer, value, expected) in cases {
        let found = broken(pointer, value.clone());
        // lists of names may grow
        assert!(found.starts_with(expected), "{pointer} = {value}\n found:    {found}\n expected: {expected}");
    }
}

#[test]
fn values_of_a_wrong_kind_in_the_record_section_are_mistakes() {
    for (pointer, value) in [("/record/series", json!("no")), ("/record/interval", json!("1s")), ("/record", json!([]))] {
        let found = broken(pointer, value);
        assert!(found.contains(": found ") && found.starts_with(&pointer[1..].replace('/', ".")), "{pointer}: {found:?}");
    }
}

#[test]
fn counting_must_begin_before_the_end() {
    let duration = valid()["duration"].as_u64().unwrap();
    let found = broken("/record/from", json!(duration));
    assert!(found.starts_with("record.from: found ") && found.contains("less than the duration"), "{found}");
}

#[test]
fn what_is_not_a_table_is_refused_whole() {
    for config in [Value::Null, json!([]), json!("run"), json!(1)] {
        assert!(error(&config).contains("allowed: a table"), "{config}");
    }
    assert_eq!(error(&json!({})), "bottleneck: found null, allowed: a table");
}

#[test]
fn unknown_names_list_the_known_ones() {
    let aqm = broken("/bottleneck/aqm", json!({"name": "red-ish"}));
    assert!(aqm.starts_with("bottleneck.aqm.name: found") && aqm.contains("pfifo, bfifo, red"), "{aqm}");
    let cc = broken("/flows/0/cc", json!({"name": "renos"}));
    assert!(cc.starts_with("flows[0].cc.name: found") && cc.contains("reno, cubic"), "{cc}");
}
