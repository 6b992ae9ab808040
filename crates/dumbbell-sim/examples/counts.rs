//! Runs the configuration on standard input and prints, as JSON, the packets of the run, its events, and the sum over its flows of every count.
use dumbbell_sim::huge_pages::HugePages;
use dumbbell_sim::table::Column;
use serde_json::{json, Map, Value};
use std::alloc::System;
use std::sync::atomic::{AtomicBool, AtomicU64};

// as in the extension for Python, which the ladder runs
#[global_allocator]
static ALLOCATOR: HugePages<System> = HugePages(System);

fn main() {
    let text = std::io::read_to_string(std::io::stdin()).expect("text on standard input");
    let config: Value = serde_json::from_str(&text).expect("JSON");
    let outcome = dumbbell_sim::run(&config, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(2);
    });
    let mut sums = Map::new();
    for (name, column) in &outcome.tables.flows.columns {
        if let Column::U64(values) = column {
            sums.insert(name.to_string(), json!(values.iter().map(|&value| u128::from(value) as f64).sum::<f64>()));
        }
    }
    println!("{}", json!({"summary": outcome.summary, "flows": sums}));
}
