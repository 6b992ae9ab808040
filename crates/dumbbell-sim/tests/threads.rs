//! A run on several threads has the results of the event loop, whatever the number of threads is.

use dumbbell_core::rng::Rng;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_core::{aqm, cc};
use dumbbell_sim::{Builder, Outcome, Sim};
use serde_json::{json, Value};

const MS: u64 = 1_000_000;

/// Draws one of `list`.
fn one<'a, T>(rng: &mut Rng, list: &'a [T]) -> &'a T {
    &list[rng.draw_below(list.len() as u64) as usize]
}

/// Draws whether, with odds of one in `of`.
fn rarely(rng: &mut Rng, of: u64) -> bool {
    rng.draw_below(of) == 0
}

/// Flows that start, stop and end, over one queue and a serial link. Many of their times are equal.
fn drawn_config(seed: u64) -> Value {
    let rng = &mut Rng::stream(seed, "threads", 0);
    // Cake shapes by itself
    let names: Vec<&str> = aqm::specs().iter().map(|spec| spec.name).filter(|&name| name != "cake").collect();
    let mut queue = json!({"name": one(rng, &names)});
    if ["pfifo", "fq_codel", "step", "codel"].contains(&queue["name"].as_str().expect("a name")) && rarely(rng, 2) {
        queue["limit"] = json!(3 + rng.draw_below(200));
    }
    let rate = *one(rng, &[1_000_000_u64, 8_000_000, 12_000_000, 100_000_000, 300_000_000]);
    let rtts: Vec<u64> = (0..1 + rng.draw_below(3)).map(|_| *one(rng, &[1, 4, 10, 40]) * MS).collect();
    let controls: Vec<&str> = (0..1 + rng.draw_below(3)).map(|_| one(rng, &cc::specs()).name).collect();
    let grid = *one(rng, &[1, MS, 50 * MS]);
    let mut flows = Vec::new();
    for _ in 0..1 + rng.draw_below(24) {
        let start = rng.draw_below(200 * MS / grid + 1) * grid;
        let mut flow =
            json!({"cc": {"name": one(rng, &controls)}, "base_rtt": one(rng, &rtts), "start": {"min": start, "max": start}});
        match rng.draw_below(6) {
            0 => flow["size"] = json!(1 + rng.draw_below(400_000)),
            1 => flow["stop"] = json!(start + 1 + rng.draw_below(300 * MS / grid + 1) * grid),
            2 => flow["app_rate"] = json!(rate / (2 + rng.draw_below(20))),
            _ => {}
        }
        flows.push(flow);
    }
    let mut config = json!({"duration": 300 * MS + rng.draw_below(500) * MS, "seed": seed, "flows": flows,
        "bottleneck": {"rate": rate, "aqm": queue},
        "hosts": {"ecn": rarely(rng, 2), "offload": one(rng, &["none", "tso"]), "sce_feedback": rarely(rng, 2)},
        "record": {"series": rarely(rng, 2), "interval": one(rng, &[10, 100]) * MS}});
    if rarely(rng, 4) {
        let other = *one(rng, &[2_000_000_u64, 50_000_000]);
        config["bottleneck"]["rate_changes"] = json!([{"at": (100 + rng.draw_below(200)) * MS, "rate": other}]);
    }
    if rarely(rng, 4) {
        config["record"]["from"] = json!(200 * MS);
    }
    config
}

fn build<'a>(config: &'a Value, how: impl FnOnce(Builder<'a>) -> Builder<'a>) -> Sim {
    how(Sim::builder(config)).build().unwrap_or_else(|error| panic!("{error}: {config}"))
}

/// Everything that was measured. The event loop counts its turns, windows do not have the same.
fn format_measures(outcome: &Outcome) -> String {
    let mut summary = outcome.summary.clone();
    summary["events"] = Value::Null;
    let tables = outcome.tables.named_tables().map(|(name, table)| format!("{name}: {table:?}"));
    format!("{} {summary}\n{}", outcome.hash, tables.join("\n"))
}

/// Runs `config` in the event loop and in windows; all results must be equal. Returns whether it did run in windows.
fn compare(config: &Value, threads: &[usize]) -> bool {
    let usual = build(config, |builder| builder).finish().unwrap_or_else(|error| panic!("{error}: {config}"));
    let mut differ = false;
    for &count in threads {
        let sim = build(config, |builder| builder.threads(count).always_windows());
        let outcome = sim.finish().unwrap_or_else(|error| panic!("{error}: {config}"));
        differ |= outcome.summary["events"] != usual.summary["events"];
        assert!(format_measures(&usual) == format_measures(&outcome), "{count} threads, config {config}");
    }
    differ
}

#[test]
fn windows_give_the_results_of_the_event_loop() {
    let count = std::env::var("DUMBBELL_CASES").map_or(40, |count| count.parse().expect("a number"));
    let from = std::env::var("DUMBBELL_FIRST_CASE").map_or(0, |first| first.parse().expect("a number"));
    let used = (from..from + count).filter(|&seed| compare(&drawn_config(seed), &[1, 2, 3])).count() as u64;
    // in the others no time is long enough without starts of flows or times of the queue
    assert!(used * 10 >= count * 7, "{used} of {count} ran in windows");
}

#[test]
fn a_run_in_windows_can_be_paused_at_any_time() {
    for seed in 0..8 {
        let config = drawn_config(1_000 + seed);
        let usual = format_measures(&build(&config, |builder| builder).finish().expect("a run"));
        let mut sim = build(&config, |builder| builder.threads(2).always_windows());
        let rng = &mut Rng::stream(seed, "pauses", 0);
        let mut until = Instant::ZERO;
        let mut seen = 0;
        while !sim.step(until).expect("no invariant is broken") {
            assert_eq!(sim.now(), until);
            seen += sim.view().endpoints.len();
            let longest = *one(rng, &[1, MS, 100 * MS]);
            until += Duration(1 + rng.draw_below(longest));
        }
        assert!(seen > 0 && format_measures(&sim.finish().expect("a run")) == usual, "{config}");
    }
}
