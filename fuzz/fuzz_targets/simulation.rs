//! Whole runs of any algorithms with any parameters: every invariant that the engine checks holds, and equal
//! configurations give equal results, in one piece or in several, and in each way in which the engine can compute them.

#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use dumbbell_core::units::Duration;
use dumbbell_fuzz::run;
use dumbbell_sim::{RunError, Sim};
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

/// The entries of list `key`.
fn entries<'a>(config: &'a Value, key: &str) -> &'a [Value] {
    config[key].as_array().map_or(&[], Vec::as_slice)
}

/// Packets, about: those of a link of `rate` for `time` with frames of `frame` bytes.
fn packets(rate: u64, time: u64, frame: u64) -> u128 {
    u128::from(rate) * u128::from(time) / 1_000_000_000 / u128::from(8 * frame)
}

/// When the run is over: the measured time of a flow ends half of its base RTT after the run's.
fn end(config: &Value) -> u64 {
    let connections = entries(config, "flows").iter().chain(entries(config, "web"));
    let longest = connections.map(|flow| number(&flow["base_rtt"])).max().unwrap_or(0);
    number(&config["duration"]) + longest / 2
}

/// Whether the run is short enough, reckoned from what it may at most send.
fn is_short(config: &Value) -> bool {
    let time = end(config);
    let bottleneck = &config["bottleneck"];
    // a link lets no more leave than its rate, whatever its queue is told to shape to
    let hops = entries(config, "hop").iter().chain([bottleneck, &config["reverse"]]);
    let fastest = |hop: &Value| {
        let rates = entries(hop, "rate_changes").iter().chain([hop]).map(|holder| number(&holder["rate"]));
        rates.max().unwrap_or(0)
    };
    let rate = hops.map(fastest).fold(0, u64::saturating_add);
    let frame = config["hosts"]["mss"].as_u64().unwrap_or(1448) + 66;
    let first_burst = config["hosts"]["initial_window"].as_u64().unwrap_or(10);
    // what does not get through is sent all the same
    let udp = entries(config, "udp").iter().map(|udp| {
        let size = udp["size"].as_u64().unwrap_or(1514);
        packets(number(&udp["rate"]), time, size) * u128::from(udp["count"].as_u64().unwrap_or(1))
    });
    let arrivals = entries(config, "web").iter().map(|web| {
        let per_mbit = web["arrivals"]["per_mbit"].as_f64().or(web["arrivals"].is_null().then_some(2.5)).unwrap_or(0.0);
        let per_second = web["arrivals"]["per_second"].as_f64().unwrap_or(0.0);
        let flows = (per_second + per_mbit * number(&bottleneck["rate"]) as f64 / 1e6) * time as f64 / 1e9;
        // SYN, its repetitions, first window
        (flows * (first_burst + 10) as f64) as u128
    });
    let bursts = u128::from(entries(config, "flows").len() as u64 * first_burst);
    let all = packets(rate, time, frame) + udp.sum::<u128>() + arrivals.sum::<u128>() + bursts;
    time <= MOST_TIME && all <= u128::from(MOST_PACKETS)
}

fn outcome(config: &Value) -> Option<String> {
    match dumbbell_sim::run(config, &AtomicBool::new(false), &AtomicU64::new(0)) {
        Ok(outcome) => Some(outcome.hash),
        Err(RunError::Config(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// The hash of the run in pieces.
fn in_pieces(config: &Value) -> Option<String> {
    let mut sim = Sim::new(config).ok()?;
    let piece = Duration(end(config) / 7 + 1);
    while !sim.step(sim.now() + piece).unwrap_or_else(|error| panic!("{error}")) {
        sim.view();
    }
    Some(sim.finish().unwrap_or_else(|error| panic!("{error}")).hash)
}

/// The hash of the run with packets delivered when they leave the link, and with windows of time on two threads, as far as it can use them.
fn in_other_modes(config: &Value) -> Option<[String; 2]> {
    let finish = |sim: Sim| sim.finish().unwrap_or_else(|error| panic!("{error}")).hash;
    let at_departure = Sim::builder(config).delivers_ahead(false).build().ok()?;
    let in_windows = Sim::builder(config).threads(2).always_windows().build().ok()?;
    Some([at_departure, in_windows].map(finish))
}

fuzz_target!(|simulation: Simulation| -> Corpus {
    if !is_short(&simulation.config) {
        return Corpus::Reject;
    }
    let hash = outcome(&simulation.config);
    if simulation.twice {
        assert_eq!(hash, in_pieces(&simulation.config), "equal configurations, different results");
        let others = in_other_modes(&simulation.config);
        assert_eq!(hash.map(|hash| [hash.clone(), hash]), others, "equal configurations, different results in another mode");
    }
    Corpus::Keep
});
