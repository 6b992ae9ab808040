//! Packet values from the edge to the bottleneck: shares of flows whose edge markers have weights.

use dumbbell_sim::{run, Outcome};
use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, AtomicU64};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// Flows of each class.
const FLOWS: usize = 3;

/// Three flows of each of two classes at 100 Mbit/s and a base RTT of 20 ms, through `aqm`; `path` is that of either class.
fn classes(controls: [&str; 2], aqm: Value, path: [Value; 2]) -> Outcome {
    let flow = |class: usize| {
        let cc = match controls[class] {
            "bbr2" => json!({"name": "bbr2", "ecn": true, "ecn_max_rtt": 0}),
            name => json!({"name": name}),
        };
        json!({"cc": cc, "base_rtt": 20 * MS, "count": FLOWS, "start": {"min": 0, "max": SECOND}, "path": path[class]})
    };
    let config = json!({"duration": 25 * SECOND, "seed": 1, "bottleneck": {"rate": 100_000_000, "aqm": aqm},
        "hosts": {"ecn": true, "send_buffer": 1 << 26, "receive_buffer": 1 << 26},
        "record": {"series": false, "from": 8 * SECOND}, "flows": [flow(0), flow(1)]});
    run(&config, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap_or_else(|error| panic!("{error}: {config}"))
}

/// The share of the first class in what is carried.
fn share(outcome: &Outcome) -> f64 {
    let goodput = outcome.tables.flows.real("goodput_mbit").expect("a column");
    goodput[..FLOWS].iter().sum::<f64>() / goodput.iter().sum::<f64>()
}

fn marker(weight: f64) -> Value {
    json!([{"name": "value_marker", "weight": weight}])
}

fn by_weight(controls: [&str; 2], weights: [f64; 2]) -> f64 {
    let aqm = json!({"name": "csaqm", "target": 20 * MS, "limit": 6_250_000});
    let outcome = classes(controls, aqm, weights.map(marker));
    let utilisation = outcome.summary["utilisation"].as_f64().expect("a number");
    assert!(utilisation > 0.95, "{controls:?} {weights:?}: {utilisation}");
    let sojourn = outcome.summary["sojourn_mean_ms"].as_f64().expect("a number");
    assert!((12.0..24.0).contains(&sojourn), "{controls:?} {weights:?}: {sojourn} ms");
    share(&outcome)
}

#[test]
fn shares_are_as_the_weights() {
    // points of the whole by which the share of the first class may be off, with weights 1:3 and 1:1. CUBIC goes down by 30 % at any mark, and
    // a class that answers marks by their share takes up what it leaves
    let mixes = [
        (["dctcp", "dctcp"], [0.05, 0.02]),
        (["bbr2", "bbr2"], [0.05, 0.05]),
        (["cubic", "cubic"], [0.05, 0.05]),
        (["dctcp", "bbr2"], [0.05, 0.05]),
        (["bbr2", "dctcp"], [0.05, 0.05]),
        (["cubic", "dctcp"], [0.08, 0.12]),
        (["cubic", "bbr2"], [0.08, 0.15]),
    ];
    let mut off = Vec::new();
    for (controls, tolerance) in mixes {
        for ((weights, expected), most) in [([1.0, 3.0], 0.25), ([2.0, 2.0], 0.5)].into_iter().zip(tolerance) {
            let found = by_weight(controls, weights);
            if (found - expected).abs() > most {
                off.push((controls, weights, found));
            }
        }
    }
    assert!(off.is_empty(), "{off:?}");
}

#[test]
fn without_values_the_congestion_controls_share_by_themselves() {
    // a step at 20 ms: it marks both alike, and CUBIC goes down by more than DCTCP
    let step = json!({"name": "red", "min": 250_000, "max": 250_000, "wlog": 0, "ecn": true, "limit": 6_250_000});
    let without = share(&classes(["cubic", "dctcp"], step, [json!([]), json!([])]));
    assert!(without < 0.35, "{without}");
    // packets that no edge valued are all marked while there is too much: the same
    let unvalued =
        classes(["cubic", "dctcp"], json!({"name": "csaqm", "target": 20 * MS, "limit": 6_250_000}), [json!([]), json!([])]);
    assert!(share(&unvalued) < 0.35, "{}", share(&unvalued));
    // and if only one class is valued, the other one is marked first
    let one = json!({"name": "csaqm", "target": 20 * MS, "limit": 6_250_000});
    let valued = share(&classes(["cubic", "dctcp"], one, [marker(1.0), json!([])]));
    assert!(valued > 0.9, "{valued}");
}
