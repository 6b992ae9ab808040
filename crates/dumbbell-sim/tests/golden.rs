//! A table of scenarios, rounded: a change of it is a change of behaviour, to be read before it is accepted.

use serde_json::json;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// 20 Mbit/s, 40 ms, 20 s, one flow; ECN where the queue marks. To accept a change, paste what the failure prints.
const TABLE: &str = "\
cc     queue  goodput Mbit/s  RTT ms  marks  drops
reno   pfifo           18.98    78.5      0    171
reno   bfifo           18.20    48.2      0     61
reno   codel           16.16    42.9     17      0
reno   cake            16.06    42.9     17      0
cubic  pfifo           18.98    85.9      0     13
cubic  bfifo           18.89    52.8      0      9
cubic  codel           18.17    42.3     11      0
cubic  cake            18.13    42.4     11      0
";

#[test]
fn scenarios_are_as_they_were() {
    let mut table = String::from("cc     queue  goodput Mbit/s  RTT ms  marks  drops\n");
    for cc in ["reno", "cubic"] {
        for aqm in [
            json!({"name": "pfifo", "limit": 100}),
            json!({"name": "bfifo", "limit": 50_000}),
            json!({"name": "codel", "ecn": true}),
            json!({"name": "cake"}),
        ] {
            let config = json!({"duration": 20_000_000_000_u64, "seed": 1,
                "bottleneck": {"rate": 20_000_000, "shaper": "htb", "aqm": aqm},
                "flows": [{"cc": {"name": cc}, "base_rtt": 40_000_000}], "record": {"series": false}});
            let outcome = dumbbell_sim::run(&config, &AtomicBool::new(false), &AtomicU64::new(0)).expect("a result");
            let real = |column: &str| outcome.flows.real(column).expect("a column")[0];
            let count = |key: &str| outcome.summary[key].as_u64().expect("a count");
            let name = aqm["name"].as_str().expect("a name");
            writeln!(
                table,
                "{cc:<6} {name:<6} {:14.2} {:7.1} {:6} {:6}",
                real("goodput_mbit"),
                real("rtt_mean_ms"),
                count("ce_marks"),
                count("drops_overflow") + count("drops_aqm")
            )
            .expect("a string takes all");
        }
    }
    assert!(table == TABLE, "now:\n{table}\nwas:\n{TABLE}");
}
