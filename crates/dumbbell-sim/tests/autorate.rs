//! A program that lets the rate of Cake follow the capacity of a line behind it.

use dumbbell_sim::{Outcome, Sim};
use serde_json::{json, Value};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const MBIT: u64 = 1_000_000;

fn run(config: &Value) -> Outcome {
    Sim::new(config).expect("a configuration").finish().expect("a run")
}

/// A router with Cake in front of a modem of 20 Mbit/s, which drops to 8 for ten of thirty seconds, with an upload of CUBIC over both.
fn config(kind: Option<Value>, seed: u64) -> Value {
    let route = json!(["bottleneck", "modem"]);
    let mut config = json!({
        "duration": 30 * SECOND, "seed": seed,
        "bottleneck": {"rate": 1_000 * MBIT, "aqm": {"name": "cake", "bandwidth": 15 * MBIT}},
        "hop": [{"name": "modem", "rate": 20 * MBIT, "aqm": {"name": "pfifo", "limit": 300},
            "rate_changes": [{"at": 10 * SECOND, "rate": 8 * MBIT}, {"at": 20 * SECOND, "rate": 20 * MBIT}]}],
        "flows": [{"cc": {"name": "cubic"}, "base_rtt": 40 * MS, "route": route}],
        "udp": [{"rate": 100_000, "size": 200, "route": route}],
        "record": {"interval": 100 * MS, "queue": ["shaper_mbit"]},
    });
    if let Some(kind) = kind {
        config["app"] = json!([{"kind": kind, "base_rtt": 40 * MS, "route": route, "ack_route": []}]);
    }
    config
}

fn autorate() -> Value {
    json!({"name": "autorate", "down_min": 5 * MBIT, "down_base": 15 * MBIT, "down_max": 30 * MBIT})
}

/// Rates of the shaper between two times, Mbit/s.
fn shaper(config: &Value, from: f64, until: f64) -> Vec<f64> {
    let states = run(config).tables.queue_states;
    let times = states.real("time_s").expect("times");
    let values = states.real("value").expect("values");
    times.iter().zip(values).filter(|(time, _)| (from..until).contains(*time)).map(|(_, value)| *value).collect()
}

#[test]
fn the_shaper_follows_the_line_down_and_up() {
    let config = config(Some(autorate()), 1);
    let mean = |from, until| {
        let rates = shaper(&config, from, until);
        rates.iter().sum::<f64>() / rates.len() as f64
    };
    let (first, slow, last) = (mean(5.0, 10.0), mean(13.0, 20.0), mean(25.0, 30.0));
    // with room it rises from the base of 15, above the line of 20 until delays are raised; on 8 it is cut again and again
    assert!(first > 15.0 && (5.0..first / 2.0).contains(&slow) && last > 2.0 * slow, "{first} {slow} {last}");
    assert!(shaper(&config, 0.0, 30.0).iter().all(|rate| (4.999..=30.001).contains(rate)));
}

#[test]
fn a_call_waits_less_than_behind_a_fixed_shaper_above_the_line() {
    let delay = |kind| run(&config(kind, 1)).tables.flows.real("delay_p99_ms").expect("a column")[1];
    let (fixed, following) = (delay(None), delay(Some(autorate())));
    assert!(following < fixed / 2.0, "{following} of {fixed} ms");
}

#[test]
fn the_program_measures_what_it_did_and_a_run_repeats() {
    let outcome = run(&config(Some(autorate()), 2));
    let apps = &outcome.tables.apps;
    let [rates, raised] = ["shaper_mbit", "raised_share"].map(|name| apps.real(name).expect("a column"));
    // down has a shaper; up has none, so that its rate is what the program would set
    assert!((8.0..20.0).contains(&rates[0]) && (0.01..0.6).contains(&raised[0]) && raised[1] == 0.0, "{rates:?} {raised:?}");
    assert_eq!(run(&config(Some(autorate()), 2)).hash, outcome.hash);
}

#[test]
fn a_program_without_a_shaper_is_refused() {
    let mut config = config(Some(autorate()), 1);
    config["bottleneck"]["aqm"] = json!({"name": "cake"});
    let error = Sim::new(&config).err().expect("an error").to_string();
    assert!(error.contains("app[0].kind: found autorate, and no hop of its routes shapes"), "{error}");
}
