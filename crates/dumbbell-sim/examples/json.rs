//! Runs the canonical configuration on standard input and prints the columns of its flows as JSON.
use dumbbell_sim::table::Column;
use serde_json::{json, Map, Value};
use std::sync::atomic::{AtomicBool, AtomicU64};

fn main() {
    let config: Value = serde_json::from_reader(std::io::stdin()).expect("JSON on standard input");
    let outcome = match dumbbell_sim::run(&config, &AtomicBool::new(false), &AtomicU64::new(0)) {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    };
    let value = |column: &Column| match column {
        Column::U64(values) => json!(values),
        Column::F64(values) => json!(values),
        Column::Text(values) => json!(values),
    };
    let columns: Map<String, Value> =
        outcome.tables.flows.columns.iter().map(|(name, column)| (name.to_string(), value(column))).collect();
    println!("{}", Value::Object(columns));
}
