//! A table of scenarios, rounded: a change of it is a change of behaviour, to be read before it is accepted.

use serde_json::json;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// 20 Mbit/s, 40 ms, 20 s, one flow; ECN where the queue marks. To accept a change, paste what the failure prints.
const TABLE: &str = "\
cc     queue    goodput Mbit/s  RTT ms  marks  drops
reno   pfifo             18.98    78.5      0    173
reno   bfifo             18.21    48.1      0     61
reno   codel             16.20    42.8     17      0
reno   cake              16.07    42.9     16      0
reno   fq_codel          16.20    42.8     17      0
reno   pie               17.33    59.2     18    818
reno   fq_pie            16.79    62.0      0    995
reno   red               17.50    46.3    298      0
reno   step               1.04    49.9    207      0
cubic  pfifo             18.98    85.7      0     14
cubic  bfifo             18.91    52.7      0      9
cubic  codel             18.18    42.4     11      0
cubic  cake              18.08    42.6     11      0
cubic  fq_codel          18.18    42.4     11      0
cubic  pie               18.87    53.9      9      0
cubic  fq_pie            18.90    54.8      0     18
cubic  red               18.81    48.7     12      0
cubic  step               0.97    51.9     86      0
";

#[test]
fn scenarios_are_as_they_were() {
    let mut table = String::from("cc     queue    goodput Mbit/s  RTT ms  marks  drops\n");
    for cc in ["reno", "cubic"] {
        for aqm in [
            json!({"name": "pfifo", "limit": 100}),
            json!({"name": "bfifo", "limit": 50_000}),
            json!({"name": "codel", "ecn": true}),
            json!({"name": "cake"}),
            json!({"name": "fq_codel"}),
            json!({"name": "pie", "ecn": true}),
            json!({"name": "fq_pie"}),
            json!({"name": "red", "ecn": true}),
            json!({"name": "step"}),
        ] {
            let config = json!({"duration": 20_000_000_000_u64, "seed": 1,
                "bottleneck": {"rate": 20_000_000, "shaper": "htb", "aqm": aqm},
                "flows": [{"cc": {"name": cc}, "base_rtt": 40_000_000}], "record": {"series": false}});
            let outcome = dumbbell_sim::run(&config, &AtomicBool::new(false), &AtomicU64::new(0)).expect("a result");
            let real = |column: &str| outcome.tables.flows.real(column).expect("a column")[0];
            let count = |key: &str| outcome.summary[key].as_u64().expect("a count");
            let name = aqm["name"].as_str().expect("a name");
            writeln!(
                table,
                "{cc:<6} {name:<8} {:14.2} {:7.1} {:6} {:6}",
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
