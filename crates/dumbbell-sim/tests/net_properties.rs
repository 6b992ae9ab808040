//! Random nets: hops, routes, both directions, every queue, link, stage, control and application. The engine holds its books against each other in each run.

mod drawn;

use drawn::{net, MS};
use dumbbell_core::units::Duration;
use dumbbell_sim::{run, Sim};
use proptest::prelude::*;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// How many nets are drawn; `PROPTEST_CASES` says more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Packets and marks are conserved on every hop and of every flow, nothing is left of what is over, and a run in pieces has the same bits.
    #[test]
    fn any_net_keeps_its_books(seed in any::<u64>(), pieces in prop::collection::vec(1..300_u64, 0..4)) {
        let config = net(seed);
        let whole = run(&config, &AtomicBool::new(false), &AtomicU64::new(0));
        let whole = whole.unwrap_or_else(|error| panic!("{error}: {config}"));
        let mut sim = Sim::new(&config).expect("a run");
        for piece in pieces {
            sim.step(sim.now() + Duration::from_millis(piece)).unwrap_or_else(|error| panic!("{error}: {config}"));
        }
        prop_assert_eq!(sim.finish().expect("a run").hash, whole.hash);
    }
}

/// Found by drawing: CSAQM drops the rest of a burst that its Wi-Fi link sends in one grant, and the next hop counts bursts as one packet.
#[test]
fn a_burst_that_loses_its_rest_between_two_hops_stays_in_the_books() {
    let slow = |aqm: &str, shaper: &str| json!({"rate": 20_000_000, "aqm": {"name": aqm}, "shaper": shaper});
    let config = json!({"duration": 813 * MS, "seed": 17_929_799_770_921_014_362_u64, "bottleneck": slow("fq_pie", "htb"),
        "hop": [{"name": "h0", "rate": 100_000_000, "aqm": {"name": "pfifo"}, "shaper": "link"},
            {"name": "h1", "rate": 20_000_000, "aqm": {"name": "csaqm"}, "link": {"name": "wifi", "jitter": 12 * MS, "frames": 29}}],
        "reverse": slow("codel", "htb"), "hosts": {"ecn": true, "offload": "gso"},
        "flows": [{"cc": {"name": "bbr3"}, "count": 2, "start": {"min": 0, "max": 400 * MS}, "direction": "down",
            "route": ["h1", "h0"], "ack_route": [], "base_rtt": MS}]});
    run(&config, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap_or_else(|error| panic!("{error}"));
}
