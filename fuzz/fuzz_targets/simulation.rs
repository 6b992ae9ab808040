//! Whole runs of any algorithms with any parameters: every invariant that the engine checks holds, and equal
//! configurations give equal results.

#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use dumbbell_fuzz::run;
use dumbbell_sim::RunError;
use libfuzzer_sys::{fuzz_target, Corpus};
use serde_json::Value;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Most packets through the bottleneck, about: some milliseconds of work.
const MOST_PACKETS: u64 = 20_000;
/// Most simulated time: what happens at fixed intervals is work too.
const MOST_TIME: u64 = 60_000_000_000;

/// A run, shown as the JSON that `examples/json.rs` of dumbbell-sim takes.
struct Simulation {
    config: Value,
    twice: bool,
}

impl<'a> Arbitrary<'a> for Simulation {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Simulation> {
        let twice = u.ratio(1_u8, 16)?;
        Ok(Simulation { config: run(u)?, twice })
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.config)
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Whether the run is short enough, reckoned from what it may at most send.
fn is_short(config: &Value) -> bool {
    let flows = config["flows"].as_array().expect("flows");
    let longest = flows.iter().map(|flow| number(&flow["base_rtt"])).max().unwrap_or(0);
    let time = number(&config["duration"]) + longest / 2;
    let bottleneck = &config["bottleneck"];
    let changes = bottleneck["rate_changes"].as_array().map_or(&[][..], Vec::as_slice);
    let rate = changes.iter().chain([bottleneck]).map(|holder| number(&holder["rate"])).max().unwrap_or(0);
    // Cake's own shaper may be faster than the link below it, which it then replaces; 0 is as fast as packets come
    let shaped = bottleneck["aqm"]["name"] == "cake";
    let rate = if shaped { rate.max(number(&bottleneck["aqm"]["bandwidth"])) } else { rate };
    let unlimited = shaped && bottleneck["aqm"]["bandwidth"] == 0;
    let frame = config["hosts"]["mss"].as_u64().unwrap_or(1448) + 66;
    let packets = u128::from(rate) * u128::from(time) / 1_000_000_000 / u128::from(8 * frame);
    let bursts = flows.len() as u64 * config["hosts"]["initial_window"].as_u64().unwrap_or(10);
    !unlimited && time <= MOST_TIME && packets + u128::from(bursts) <= u128::from(MOST_PACKETS)
}

fn outcome(config: &Value) -> Option<String> {
    match dumbbell_sim::run(config, &AtomicBool::new(false), &AtomicU64::new(0)) {
        Ok(outcome) => Some(outcome.hash),
        Err(RunError::Config(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

fuzz_target!(|simulation: Simulation| -> Corpus {
    if !is_short(&simulation.config) {
        return Corpus::Reject;
    }
    let hash = outcome(&simulation.config);
    if simulation.twice {
        assert_eq!(hash, outcome(&simulation.config), "equal configurations, different results");
    }
    Corpus::Keep
});
