//! No link carries more than it can, whatever queue stands at it and however that shapes.

use dumbbell_core::link_trace::LinkTrace;
use dumbbell_core::param::ParamType;
use dumbbell_core::rng::Rng;
use dumbbell_core::{aqm, link};
use dumbbell_sim::{run, Outcome};
use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, AtomicU64};

const MS: u64 = 1_000_000;
const MBIT: u64 = 1_000_000;

fn must(config: &Value) -> Outcome {
    run(config, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap_or_else(|error| panic!("{error}: {config}"))
}

fn real(outcome: &Outcome, key: &str) -> f64 {
    outcome.summary[key].as_f64().expect("a number")
}

/// Links with times that matter in short runs.
fn links() -> Vec<Value> {
    let trace = LinkTrace::parse("test", b"1\n4\n4\n9\n60\n").expect("a trace").to_json();
    let of = |name: &str| match name {
        "trace" => json!({"name": name, "file": trace}),
        "onoff" => json!({"name": name, "on": 70 * MS, "off": 30 * MS}),
        "leo" => json!({"name": name, "interval": 1_000 * MS}),
        "wifi" => json!({"name": name, "jitter": 7 * MS}),
        "cellular" => json!({"name": name, "motion": 1.0, "request": 10 * MS}),
        _ => json!({"name": name}),
    };
    link::specs().iter().map(|spec| of(spec.name)).collect()
}

/// Every way to set up a hop: by `shaper`, by `trace`, and over every link.
fn setups() -> Vec<Value> {
    let trace = LinkTrace::parse("test", b"1\n4\n4\n9\n60\n").expect("a trace").to_json();
    let mut all = vec![json!({}), json!({"shaper": "htb"}), json!({"shaper": "htb", "burst": 30_000}), json!({"trace": trace})];
    all.extend(links().into_iter().map(|link| json!({"link": link})));
    all
}

/// Every queue, and Cake with rates and overheads that are not those of its link.
fn queues() -> Vec<Value> {
    let mut all: Vec<Value> = aqm::specs().iter().map(|spec| json!({"name": spec.name})).collect();
    for bandwidth in [0, MBIT, 4 * MBIT, 50 * MBIT] {
        all.push(json!({"name": "cake", "bandwidth": bandwidth}));
    }
    all.push(json!({"name": "cake", "overhead": 0}));
    all.push(json!({"name": "cake", "bandwidth": 50 * MBIT, "ingress": true}));
    all.push(json!({"name": "cake", "overhead": 0, "framing": "ptm", "bandwidth": 5 * MBIT}));
    all
}

/// More comes than the link carries, in frames of two lengths, and TCP besides. The engine checks the same of each run.
#[test]
fn every_queue_over_every_link_uses_at_most_all_of_it() {
    let mut runs = 0;
    for (number, aqm) in queues().into_iter().enumerate() {
        for (place, mut hop) in setups().into_iter().enumerate() {
            if hop["link"]["name"] == "unshaped" && (aqm["name"] != "cake" || aqm["bandwidth"] == 0) {
                continue;
            }
            let rng = &mut Rng::stream(number as u64, "capacity", place as u64);
            hop["aqm"] = aqm.clone();
            if hop["trace"].is_null() && hop["link"]["name"] != "trace" {
                // rates at which times are whole nanoseconds, and others
                let rates = [5 * MBIT, 3 * MBIT, 4_999_999, 12 * MBIT];
                hop["rate"] = json!(rates[rng.draw_below(4) as usize]);
                if rng.draw_below(3) == 0 {
                    hop["rate_changes"] = json!([{"at": 200 * MS, "rate": 2 * MBIT}, {"at": 500 * MS, "rate": 7 * MBIT}]);
                }
            }
            if rng.draw_below(2) == 0 {
                hop["link_layer"] = json!(["pppoe-llcsnap", "pppoe-ptm", "ethernet", "ipoa-vcmux"][rng.draw_below(4) as usize]);
            }
            let config = json!({"duration": 700 * MS, "seed": rng.next_u32(), "bottleneck": hop, "flows": [{"cc": {"name": "cubic"}}],
                "udp": [{"rate": 12 * MBIT}, {"rate": 3 * MBIT, "size": 100}],
                "record": {"from": 200 * MS * rng.draw_below(3), "interval": 100 * MS}});
            let outcome = must(&config);
            let used = real(&outcome, "utilisation");
            assert!((0.0..=1.0).contains(&used), "{used}: {config}");
            // what leaves is not more than a burst of 30 kB and frames ahead of it
            let (left, could) = (real(&outcome, "throughput_mbit"), real(&outcome, "capacity_mbit"));
            assert!(left <= could + 0.8, "{left} of {could}: {config}");
            runs += 1;
        }
    }
    assert!(runs > 200, "{runs}");
}

/// One CUBIC flow over 20 Mbit/s and 20 ms, 5 s.
fn flow(bottleneck: Value) -> Outcome {
    let mut bottleneck = bottleneck;
    bottleneck["rate"] = json!(20 * MBIT);
    must(&json!({"duration": 5_000 * MS, "seed": 1, "bottleneck": bottleneck, "hosts": {"ecn": true},
        "flows": [{"cc": {"name": "cubic"}, "base_rtt": 20 * MS}]}))
}

#[test]
fn a_shaper_above_its_link_is_limited_by_the_link() {
    let with = |bandwidth: Value| flow(json!({"aqm": {"name": "cake", "bandwidth": bandwidth}}));
    // without a rate of its own, and at or above the rate of the link: the link limits, and the queue is where it was
    let (own, double) = (with(json!(null)), with(json!(40 * MBIT)));
    for (outcome, name) in [(&own, "own"), (&double, "double"), (&with(json!(21 * MBIT)), "21 Mbit/s")] {
        assert!((0.93..=1.0).contains(&real(outcome, "utilisation")), "{name}: {}", outcome.summary);
        assert!((1.0..7.0).contains(&real(outcome, "sojourn_mean_ms")), "{name}: {}", outcome.summary);
    }
    // below it, the shaper limits
    let below = with(json!(16 * MBIT));
    assert!((0.75..=0.8).contains(&real(&below, "utilisation")), "{}", below.summary);
    // a change of the rate below the shaper's
    let mut falls = json!({"duration": 4_000 * MS, "seed": 1, "flows": [{"cc": {"name": "cubic"}, "base_rtt": 20 * MS}],
        "bottleneck": {"rate": 10 * MBIT, "aqm": {"name": "cake", "bandwidth": 9_500_000}, "rate_changes": [{"at": 2_000 * MS, "rate": 5 * MBIT}]}});
    let outcome = must(&falls);
    let throughput = outcome.tables.queue_series.real("throughput_mbit").expect("a column");
    assert!(throughput[1] > 9.0 && throughput[3] <= 5.02, "{throughput:?}");
    // Cake that leaves the pace to a link with its own goes on doing so
    falls["bottleneck"] = json!({"rate": 10 * MBIT, "aqm": {"name": "cake"}, "link": {"name": "serial"},
        "rate_changes": [{"at": 1_000 * MS, "rate": 9 * MBIT}, {"at": 2_000 * MS, "rate": 5 * MBIT}]});
    let paced = must(&falls);
    let unshaped = json!({"name": "cake", "bandwidth": 0});
    falls["bottleneck"]["aqm"] = unshaped;
    assert_eq!(paced.hash, must(&falls).hash);
}

#[test]
fn cells_and_headers_count_and_full_is_full() {
    // ATM: 1514 B are 33 cells of 53 B, 1749 B
    let outcome = flow(json!({"link_layer": "pppoe-llcsnap", "aqm": {"name": "pfifo", "limit": 200}}));
    assert!(real(&outcome, "utilisation") > 0.98 && real(&outcome, "capacity_mbit") == 20.0, "{}", outcome.summary);
    let frames = outcome.tables.classes.real("total_throughput_mbit").expect("a column")[0];
    let cells = real(&outcome, "throughput_mbit");
    assert!((cells / frames - 1749.0 / 1514.0).abs() < 0.01, "{cells} {frames}");
    let series = outcome.tables.queue_series.real("throughput_mbit").expect("a column");
    assert!(series[3] > 19.9 && series[3] <= 20.02, "{series:?}");
    // a share of all that frames can have
    let share = outcome.tables.classes.real("relative_throughput").expect("a column")[0];
    assert!((0.98..=1.001).contains(&share), "{share}");
    // an overhead that is too small lets the link limit, one that is too large wastes some of it
    let used = |aqm: Value| real(&flow(json!({"link_layer": "pppoe-llcsnap", "aqm": aqm})), "utilisation");
    assert!((0.93..=1.0).contains(&used(json!({"name": "cake", "overhead": 0}))));
    assert!((0.93..=1.0).contains(&used(json!({"name": "cake"}))));
    assert!((0.90..0.97).contains(&used(json!({"name": "cake", "overhead": 64}))));
}

#[test]
fn a_bucket_alone_takes_its_burst() {
    // Cake above its link, through a bucket of 100 frames: they leave at once after an idle time
    let burst = |bytes: u64| {
        let config = json!({"duration": 1_000 * MS, "seed": 1, "udp": [{"rate": 30 * MBIT, "start": {"min": 100 * MS, "max": 100 * MS}}],
            "bottleneck": {"rate": 20 * MBIT, "shaper": "htb", "burst": bytes, "aqm": {"name": "cake", "bandwidth": 1_000 * MBIT}},
            "record": {"interval": 10 * MS}});
        must(&config).tables.queue_series.real("throughput_mbit").expect("a column")[10..13].to_vec()
    };
    assert!(burst(1_514).iter().all(|&mbit| mbit < 23.0), "{:?}", burst(1_514));
    assert!(burst(151_400).iter().all(|&mbit| mbit > 29.0), "{:?}", burst(151_400));
}

#[test]
fn a_burst_without_its_bucket_is_refused() {
    let config = json!({"duration": MS, "bottleneck": {"burst": 3_000, "aqm": {"name": "codel"}}, "udp": [{}]});
    let error = dumbbell_sim::check(&config).expect_err("no bucket").to_string();
    assert_eq!(error, "bottleneck.burst: found 3000, allowed: 1514 without shaper = \"htb\"");
}
