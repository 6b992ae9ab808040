//! Short runs of many kinds, from which `make pgo` learns which way the engine's branches go: long flows over a step, CoDel and FQ-CoDel, few
//! and many, short flows, shaping, L4S and SCE, BBRv2 beside DCTCP, with controls of each family. What no run here passes, the compiler takes
//! for rare. Prints how many packets each had.
use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, AtomicU64};

const GBIT: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// A run of `millis`: (congestion control, how many flows), and short flows per second.
fn cell(rate: u64, base_rtt: u64, flows: &[(&str, usize)], web: f64, aqm: &Value, millis: u64) -> Value {
    let start = json!({"min": 0, "max": 50 * MS});
    let flow = |cc: &str| json!({"cc": {"name": cc}, "base_rtt": base_rtt, "start": start});
    let flows: Vec<Value> = flows.iter().flat_map(|&(cc, count)| vec![flow(cc); count]).collect();
    let size = json!({"pareto": 0.9, "min": 1000, "max": 1_000_000});
    let short = json!({"cc": {"name": "cubic"}, "base_rtt": base_rtt, "arrivals": {"per_second": web}, "size": size});
    json!({"duration": millis * MS, "seed": 1, "flows": flows, "web": if web > 0.0 { vec![short] } else { Vec::new() },
        "bottleneck": {"rate": rate, "aqm": aqm}, "record": {"series": false},
        "hosts": {"send_buffer": 1_u64 << 30, "receive_buffer": 1_u64 << 30}})
}

/// BBRv2 beside DCTCP at 1 Gbit/s, on the hosts of the study of their coexistence: 5 flows of each.
fn put_beside(aqm: &Value, marked: bool) -> Value {
    let mut config = cell(GBIT, 5 * MS, &[("bbr2", 5), ("dctcp", 5)], 0.0, aqm, 2000);
    config["hosts"]["profile"] = json!("linux-5.4");
    for flow in config["flows"].as_array_mut().expect("flows") {
        if marked {
            flow["path"] = json!([{"name": "value_marker", "weight": 1}]);
        }
        if flow["cc"]["name"] == "bbr2" {
            flow["cc"] = json!({"name": "bbr2", "ecn": true, "ecn_max_rtt": 0});
        }
    }
    config
}

/// A cell of the SCE draft: two flows through Cake.
fn draft() -> Value {
    let cake = json!({"name": "cake", "isolation": "triple-isolate", "diffserv": "diffserv3", "sce": "on"});
    let mut config = cell(GBIT / 10, 20 * MS, &[("reno-sce", 1), ("dctcp-sce", 1)], 0.0, &cake, 10_000);
    config["hosts"] = json!({"profile": "linux-5.1", "ecn": true, "sce_feedback": true});
    config
}

fn main() {
    let red = json!({"name": "red", "min": 156_250, "max": 156_250, "wlog": 0, "ecn": true, "limit": 62_500_000});
    let pi2 = json!({"name": "pi2", "target": 1_250_000, "delay": "sojourn", "tupdate": 10 * MS, "alpha": 5, "beta": 102, "limit": 41_281});
    let csaqm = json!({"name": "csaqm", "target": 1_250_000, "interval": 5 * MS, "limit": 62_500_000});
    let step = json!({"name": "step", "threshold": 850_000, "limit": 1_000_000});
    let codel = json!({"name": "codel", "ecn": true});
    let large = json!({"name": "fq_codel", "limit": 1_000_000, "memory_limit": 1_u64 << 34});
    let cells = [
        cell(GBIT, 5 * MS, &[("dctcp", 10)], 0.0, &step, 3000),
        cell(GBIT / 10, 20 * MS, &[("cubic", 2), ("reno", 1)], 0.0, &codel, 20_000),
        cell(10 * GBIT, 20 * MS, &[("cubic", 1000)], 0.0, &large, 250),
        cell(GBIT, 20 * MS, &[("cubic", 2)], 10_000.0, &codel, 3000),
        cell(10 * GBIT, 5 * MS, &[("bbr2", 10)], 0.0, &step, 350),
        cell(GBIT, 20 * MS, &[("cubic", 20)], 0.0, &json!({"name": "cake"}), 2000),
        cell(GBIT, 5 * MS, &[("prague", 5), ("cubic", 5)], 0.0, &json!({"name": "dualpi2"}), 2000),
        put_beside(&red, false),
        put_beside(&pi2, false),
        put_beside(&csaqm, true),
        draft(),
    ];
    for config in cells {
        let outcome = dumbbell_sim::run(&config, &AtomicBool::new(false), &AtomicU64::new(0)).expect("a valid run");
        println!("{} packets", outcome.summary["packets"]);
    }
}
