//! Runs the canonical configurations on standard input, one a line, and prints the digest of each: to hold two versions of the engine
//! against each other.
use std::io::BufRead as _;
use std::sync::atomic::{AtomicBool, AtomicU64};

fn main() {
    for line in std::io::stdin().lock().lines() {
        let config = serde_json::from_str(&line.expect("text on standard input")).expect("JSON, one configuration a line");
        match dumbbell_sim::run(&config, &AtomicBool::new(false), &AtomicU64::new(0)) {
            Ok(outcome) => println!("{}", outcome.hash),
            Err(error) => println!("{error}"),
        }
    }
}
