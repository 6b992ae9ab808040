//! One cell from the command line: `cell CC RATE_MBIT RTT_MS AQM_JSON SECONDS ECN SHAPER [FLOWS]`.
use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let aqm: Value = serde_json::from_str(&args[4]).expect("aqm");
    let flows: usize = args.get(8).map_or(1, |n| n.parse().unwrap());
    let cc: Value = if args[1].starts_with('{') { serde_json::from_str(&args[1]).expect("cc") } else { json!({"name": args[1]}) };
    let flow = json!({"cc": cc, "base_rtt": (args[3].parse::<f64>().unwrap() * 1e6) as u64});
    let config = json!({"duration": (args[5].parse::<f64>().unwrap() * 1e9) as u64, "seed": 1,
        "bottleneck": {"rate": (args[2].parse::<f64>().unwrap() * 1e6) as u64, "shaper": args[7], "aqm": aqm},
        "hosts": {"ecn": args[6] == "1", "send_buffer": 1u64 << 30, "receive_buffer": 1u64 << 30}, "flows": vec![flow; flows], "record": {"interval": 200_000_000}});
    let mut config = config;
    if let Ok(hosts) = std::env::var("HOSTS") {
        for (key, value) in serde_json::from_str::<Value>(&hosts).expect("HOSTS").as_object().unwrap() {
            config["hosts"][key] = value.clone();
        }
    }
    let began = Instant::now();
    let outcome = dumbbell_sim::run(&config, &AtomicBool::new(false), &AtomicU64::new(0)).expect("run");
    if std::env::var("TRACE").is_ok() {
        let (rtt, good) = (outcome.tables.series.real("srtt_ms").unwrap(), outcome.tables.series.real("goodput_mbit").unwrap());
        let (time, cwnd) = (outcome.tables.series.real("time_s").unwrap(), outcome.tables.series.int("cwnd").unwrap());
        for i in 0..rtt.len() {
            println!("{:.1} {:.3} {} {:.3}", time[i], rtt[i], cwnd[i], good[i]);
        }
        return;
    }
    let wall = began.elapsed().as_secs_f64();
    println!("{:#}", outcome.summary);
    for (name, column) in &outcome.tables.flows.columns {
        println!("{name} {column:?}");
    }
    let packets = outcome.summary["packets"].as_u64().unwrap() as f64;
    println!("wall {wall:.3} s, {:.2} M packets/s, {}", packets / wall / 1e6, outcome.hash);
}
