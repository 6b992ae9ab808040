//! Runs the canonical configurations on standard input, one a line, and prints a digest of every column that each measured, one line of
//! JSON a run: what a change of the engine that should change nothing is held against.
use dumbbell_sim::table::{Column, Table};
use serde_json::{Map, Value};
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64};

fn digest(column: &Column) -> Value {
    let mut hasher = DefaultHasher::new();
    match column {
        Column::U64(values) => values.iter().for_each(|&value| hasher.write_u64(value)),
        Column::F64(values) => values.iter().for_each(|value| hasher.write_u64(value.to_bits())),
        Column::Text(values) => values.iter().for_each(|value| hasher.write(value.as_bytes())),
    }
    format!("{:016x}", hasher.finish()).into()
}

fn main() {
    for line in std::io::stdin().lines() {
        let config: Value = serde_json::from_str(&line.expect("text")).expect("JSON");
        let outcome = dumbbell_sim::run(&config, &AtomicBool::new(false), &AtomicU64::new(0)).expect("a run");
        let mut digests = Map::new();
        let summary = Table::row(&outcome.summary);
        let named = std::iter::once(("run", &summary)).chain(outcome.tables.named_tables());
        for (name, table) in named {
            let columns = table.columns.iter().filter(|(column, _)| column != "events");
            digests.extend(columns.map(|(column, values)| (format!("{name}.{column}"), digest(values))));
        }
        println!("{}", Value::Object(digests));
    }
}
