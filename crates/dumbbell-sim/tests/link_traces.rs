//! Whole runs over links that follow a trace: every registered queue discipline, measures of capacity, mistakes.

use dumbbell_core::link_trace::LinkTrace;
use dumbbell_core::param::ParamType;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_sim::{Outcome, Sim};
use proptest::prelude::*;
use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, AtomicU64};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn trace(text: &str) -> Value {
    LinkTrace::parse("test", text.as_bytes()).expect("a trace").to_json()
}

fn try_run(config: &Value) -> Result<Outcome, String> {
    dumbbell_sim::run(config, &AtomicBool::new(false), &AtomicU64::new(0)).map_err(|error| error.to_string())
}

fn must(config: &Value) -> Outcome {
    try_run(config).unwrap_or_else(|error| panic!("{error}: {config}"))
}

fn real(outcome: &Outcome, key: &str) -> f64 {
    outcome.summary[key].as_f64().unwrap_or(f64::NAN)
}

/// CUBIC over a link with the trace `text`.
fn config(seconds: u64, text: &str, aqm: Value) -> Value {
    json!({"duration": seconds * SECOND, "seed": 1, "bottleneck": {"trace": trace(text), "aqm": aqm},
        "flows": [{"cc": {"name": "cubic"}, "base_rtt": 20 * MS}], "record": {"interval": SECOND}})
}

#[test]
fn a_trace_of_one_line_measures_as_the_link_of_its_rate() {
    // "1": 12.112 Mbit/s; Cake shapes at that on the link and leaves it to the trace here
    for aqm in ["pfifo", "codel", "fq_codel", "pie", "dualpi2", "cake"] {
        let traced = must(&config(20, "1", json!({"name": aqm})));
        let mut constant = config(20, "1", json!({"name": aqm}));
        constant["bottleneck"] = json!({"rate": 12_112_000, "aqm": {"name": aqm}});
        let constant = must(&constant);
        let off = |key: &str| (real(&traced, key) - real(&constant, key)).abs();
        assert!(off("utilisation") < 0.02, "{aqm}: {} {}", traced.summary, constant.summary);
        assert!([&traced, &constant].iter().all(|one| (real(one, "capacity_mbit") - 12.112).abs() < 1e-9), "{aqm}");
        // a time in queue is longer by up to one opportunity
        let most = 1.5 + 0.1 * real(&constant, "sojourn_mean_ms");
        assert!(off("sojourn_mean_ms") < most, "{aqm}: {} {}", traced.summary, constant.summary);
    }
}

#[test]
fn what_is_measured_is_held_against_the_opportunities_of_that_time() {
    // 100 opportunities in the first second, 900 in the second; 12112 bit each
    let first = (1..=100).map(|n| n * 10);
    let second = (1..=900).map(|n| 1_000 + n * 10 / 9);
    let text: String = first.chain(second).map(|at| format!("{at}\n")).collect();
    let outcome = must(&config(4, &text, json!({"name": "pfifo", "limit": 200})));
    let capacity = outcome.tables.queue_series.real("capacity_mbit").expect("a column");
    let expected = [1.2112, 10.9008, 1.2112, 10.9008];
    assert!(capacity.iter().zip(expected).all(|(found, mbit)| (found - mbit).abs() < 1e-9), "{capacity:?}");
    assert!((real(&outcome, "capacity_mbit") - 6.056).abs() < 1e-9);
    let throughput = outcome.tables.queue_series.real("throughput_mbit").expect("a column");
    assert!(throughput.iter().zip(capacity).all(|(used, could)| used <= could), "{throughput:?} {capacity:?}");
    let used = real(&outcome, "throughput_mbit") / real(&outcome, "capacity_mbit");
    assert!((used - real(&outcome, "utilisation")).abs() < 1e-12 && used > 0.9, "{used}");
    let relative = outcome.tables.classes.real("relative_throughput").expect("a column")[0];
    assert!((relative - used).abs() < 0.01, "{relative} {used}");
    // counted from 1 s on: 900 + 100 + 900 opportunities in 3 s
    let mut later = config(4, &text, json!({"name": "pfifo", "limit": 200}));
    later["record"]["from"] = json!(SECOND);
    let later = must(&later);
    assert!((real(&later, "capacity_mbit") - 1900.0 * 0.012112 / 3.0).abs() < 1e-9, "{}", later.summary);
    assert!(real(&later, "utilisation") <= 1.0 && real(&later, "utilisation") > 0.95, "{}", later.summary);
}

#[test]
fn changes_of_rate_are_in_the_capacity_of_each_interval() {
    let mut config = config(3, "1", json!({"name": "pfifo"}));
    config["bottleneck"] =
        json!({"rate": 8_000_000, "aqm": {"name": "pfifo"}, "rate_changes": [{"at": 1_500 * MS, "rate": 2_000_000}]});
    assert_eq!(must(&config).tables.queue_series.real("capacity_mbit"), Some([8.0, 5.0, 2.0].as_slice()));
}

#[test]
fn a_run_without_an_opportunity_ends() {
    // the first is at 59 s; a rate of no more than 1 kbit/s would be refused
    let text = "59000\n".repeat(100);
    let outcome = must(&config(2, &text, json!({"name": "codel"})));
    assert_eq!((real(&outcome, "packets"), real(&outcome, "capacity_mbit")), (0.0, 0.0));
    assert_eq!(outcome.summary["utilisation"], Value::Null);
}

#[test]
fn every_mistake_is_named() {
    for (key, value, expected) in [
        ("rate", json!(10_000_000), "bottleneck.rate: found 10Mbit, allowed: the mean rate of the trace, 12112kbit"),
        ("shaper", json!("htb"), "bottleneck.trace: found set, and so is shaper or burst, allowed: without them"),
        ("burst", json!(3_000), "bottleneck.trace: found set, and so is shaper or burst, allowed: without them"),
        (
            "rate_changes",
            json!([{"at": 1, "rate": 10_000}]),
            "bottleneck.rate_changes: found changes of rate beside a trace, allowed: a trace without them",
        ),
        ("trace", json!("a.trace"), "bottleneck.trace: found \"a.trace\", allowed: {\"file\": name, \"schedule\": text}"),
    ] {
        let mut config = config(1, "1", json!({"name": "pfifo"}));
        config["bottleneck"][key] = value;
        assert_eq!(try_run(&config).map(|_| ()), Err(expected.to_owned()));
    }
    let mut config = config(1, "1", json!({"name": "pfifo"}));
    config["bottleneck"]["trace"] = json!({"file": "a", "schedule": "BB?"});
    let error = try_run(&config).expect_err("no schedule");
    assert!(error.starts_with("bottleneck.trace: found {\"file\":\"a\",\"schedule\":\"BB?\"}, allowed: "), "{error}");
    // written by hand, with the rate that it has
    config["bottleneck"]["trace"] = trace("1");
    config["bottleneck"]["rate"] = json!(12_112_000);
    assert_eq!(try_run(&config).map(|_| ()), Ok(()));
}

/// Times of a trace with stretches of nothing and many at once, up to a mean rate of some 10 Mbit/s.
fn times() -> impl Strategy<Value = String> {
    let gap = prop_oneof![4 => Just(0_u64), 6 => 1..3_u64, 2 => 3..30_u64, 1 => 30..400_u64];
    prop::collection::vec(gap, 2..60).prop_map(|gaps| {
        let mut at = 1;
        let mut text = String::from("0\n");
        for after in gaps {
            at += after;
            text += &format!("{at}\n");
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// Packets and bytes are conserved (the engine checks it), no more leaves than there are opportunities for, and a run in pieces is the same.
    #[test]
    fn every_queue_discipline_keeps_its_books_on_any_trace(
        text in times(), controls in prop::collection::vec(0..4_usize, 1..4), bursts in any::<bool>(), seed in 0..1_000_u64,
    ) {
        let controls: Vec<Value> = controls.iter().map(|&index| {
            let cc = ["cubic", "bbr1", "prague", "reno"][index];
            json!({"cc": {"name": cc}, "base_rtt": 10 * MS, "start": {"min": 0, "max": SECOND}})
        }).collect();
        for spec in dumbbell_core::aqm::specs() {
            let mut config = config(2, &text, json!({"name": spec.name}));
            config["seed"] = json!(seed);
            config["flows"] = json!(controls);
            config["udp"] = json!([{"rate": 1_000_000, "size": 200}]);
            config["web"] = json!([{"cc": {"name": "cubic"}, "arrivals": {"per_second": 10.0}, "base_rtt": 5 * MS}]);
            config["hosts"] = json!({"ecn": true, "offload": if bursts { "tso" } else { "none" }});
            config["record"] = json!({"interval": 100 * MS});
            let whole = must(&config);
            // what is partly sent at the end has not left, and what left in an interval may have begun before it
            let bytes = real(&whole, "throughput_mbit") * 2e6 / 8.0;
            let could = LinkTrace::from_json(&config["bottleneck"]["trace"]).expect("a trace").bytes_until(Instant::from_secs(2));
            prop_assert!(bytes <= could as f64 + 1e-3, "{}: {bytes} of {could}", spec.name);
            let mut pieces = Sim::new(&config).expect("a run");
            while !pieces.step(pieces.now() + Duration::from_millis(37)).expect("a step") {}
            prop_assert_eq!(pieces.finish().expect("an outcome").hash, whole.hash, "{}", spec.name);
        }
    }
}
