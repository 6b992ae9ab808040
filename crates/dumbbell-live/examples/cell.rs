//! Runs one cell in real time: `cell CONFIG.json` prints the summary, and goodput and RTT of every flow.

use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: cell CONFIG.json")?;
    let config = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    dumbbell_live::namespaces::gain_permission()?;
    let found = dumbbell_live::run::run(&config, &Arc::default(), &Arc::default(), None)?;
    println!("{:#}", found.summary);
    for name in ["goodput_mbit", "rtt_mean_ms", "rtt_min_ms", "sojourn_mean_ms"] {
        println!("{name}: {:?}", found.tables.flows.real(name));
    }
    Ok(())
}
