//! Random nets: hops, routes, both directions, every queue, link, stage, control and application. The engine holds its books against each other in each run.

use dumbbell_core::link_trace::LinkTrace;
use dumbbell_core::param::ParamType;
use dumbbell_core::rng::Rng;
use dumbbell_core::units::Duration;
use dumbbell_core::{app, aqm, cc, link};
use dumbbell_sim::{run, Sim};
use proptest::prelude::*;
use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, AtomicU64};

const MS: u64 = 1_000_000;

/// Draws one of `list`.
fn one<'a, T>(rng: &mut Rng, list: &'a [T]) -> &'a T {
    &list[rng.draw_below(list.len() as u64) as usize]
}

/// Draws whether, with odds of one in `of`.
fn rarely(rng: &mut Rng, of: u64) -> bool {
    rng.draw_below(of) == 0
}

/// Stages of packets, or those that acknowledgements pass as well.
fn stages(rng: &mut Rng, of_packets: bool) -> Value {
    if !rarely(rng, 3) {
        return json!([]);
    }
    let known = [
        json!({"name": "jitter", "max": 3 * MS}),
        json!({"name": "loss", "probability": 0.02}),
        json!({"name": "reorder", "probability": 0.05, "delay": 2 * MS}),
        json!({"name": "bleach", "probability": 0.3}),
    ];
    json!([one(rng, if of_packets { &known } else { &known[..3] }).clone()])
}

/// A link with times that matter in short runs; one without a rate for a queue that `shapes` only.
fn link(rng: &mut Rng, shapes: bool) -> Value {
    let names: Vec<&str> = link::specs().iter().map(|spec| spec.name).filter(|name| shapes || *name != "unshaped").collect();
    let name = *one(rng, &names);
    match name {
        "trace" => {
            let text = *one(rng, &["1\n4\n90\n", "1 20\n4 3.5\n90 40\n"]);
            json!({"name": name, "file": LinkTrace::parse("test", text.as_bytes()).expect("a trace").to_json()})
        }
        "wifi" => json!({"name": name, "jitter": *one(rng, &[1, 7, 12]) * MS, "frames": 1 + rng.draw_below(64)}),
        "onoff" => json!({"name": name, "on": (1 + rng.draw_below(300)) * MS, "off": rng.draw_below(300) * MS,
            "times": one(rng, &["fixed", "exponential"])}),
        "leo" => {
            json!({"name": name, "interval": 1_000 * MS, "outage": rng.draw_below(400) * MS, "delay_max": (8 + rng.draw_below(40)) * MS})
        }
        "cellular" => json!({"name": name, "low_rate": 0.01 + 0.99 * rng.next_f64(), "motion": rng.next_f64(),
            "request": rng.draw_below(3) * 5 * MS, "grant": rng.draw_below(10) * MS}),
        "docsis" => json!({"name": name, "interval": (1 + rng.draw_below(4)) * MS, "pipeline": 1 + rng.draw_below(5)}),
        _ => json!({"name": name}),
    }
}

fn hop(rng: &mut Rng) -> Value {
    let queues = aqm::specs();
    let mut aqm = json!({"name": one(rng, &queues).name});
    if aqm["name"] == "pfifo" || aqm["name"] == "fq_codel" {
        aqm["limit"] = json!(1 + rng.draw_below(200));
    }
    if aqm["name"] == "cake" {
        aqm["ack_filter"] = json!(one(rng, &["off", "on", "aggressive"]));
        if rarely(rng, 2) {
            // above and below the rate of its link
            aqm["bandwidth"] = json!(*one(rng, &[50_000_u64, 2_000_000, 500_000_000]));
        }
    }
    let rate = *one(rng, &[100_000_u64, 1_000_000, 5_000_000, 20_000_000, 100_000_000]);
    let mut hop = json!({"rate": rate, "aqm": aqm, "shaper": one(rng, &["link", "htb"]), "path": stages(rng, true), "behind": stages(rng, true)});
    if rarely(rng, 2) {
        hop.as_object_mut().expect("a table").remove("shaper");
        hop["link"] = link(rng, hop["aqm"]["name"] == "cake");
        if hop["link"]["name"] == "trace" {
            hop.as_object_mut().expect("a table").remove("rate");
        }
    }
    if rarely(rng, 2) {
        hop["delay"] = json!(rng.draw_below(20 * MS));
    }
    if rarely(rng, 3) {
        hop["link_layer"] = json!(one(rng, &["ethernet", "docsis", "pppoe-ptm", "pppoe-llcsnap"]));
    }
    if rarely(rng, 4) && hop["link"]["name"] != "trace" {
        hop["rate_changes"] = json!([{"at": 300 * MS, "rate": 1_000_000}]);
    }
    hop
}

/// Some of the hops in any order, at least `least`; takes them out of `free`.
fn route(rng: &mut Rng, free: &mut Vec<String>, least: usize) -> Vec<String> {
    let count = least + rng.draw_below((free.len() - least + 1) as u64) as usize;
    (0..count).map(|_| free.swap_remove(rng.draw_below(free.len() as u64) as usize)).collect()
}

/// Routes, stages and the like of what sends, over the hops `names`.
fn sender(rng: &mut Rng, names: &[String], entry: &mut Value, has_acks: bool) {
    let mut free = names.to_vec();
    entry["direction"] = json!(one(rng, &["down", "up"]));
    entry["route"] = json!(route(rng, &mut free, 1));
    entry["ack_route"] = json!(if has_acks { route(rng, &mut free, 0) } else { Vec::new() });
    entry["path"] = stages(rng, true);
    if has_acks {
        entry["cc"] = json!({"name": one(rng, &cc::specs()).name});
        entry["ack_path"] = stages(rng, false);
        entry["base_rtt"] = json!(*one(rng, &[0, 1, 10, 80]) * MS);
    }
}

/// A net, drawn from `seed`.
fn net(seed: u64) -> Value {
    let rng = &mut Rng::stream(seed, "net", 0);
    let mut names = vec!["bottleneck".to_owned()];
    let mut config = json!({"duration": 700 * MS + rng.draw_below(800) * MS, "seed": seed, "bottleneck": hop(rng), "hop": [],
        "hosts": {"ecn": rarely(rng, 2), "offload": one(rng, &["none", "tso", "gso"])}, "record": {"interval": 100 * MS}});
    let others = rng.draw_below(4);
    for number in 0..others {
        let mut other = hop(rng);
        other["name"] = json!(format!("h{number}"));
        names.push(format!("h{number}"));
        config["hop"].as_array_mut().expect("a list").push(other);
    }
    if others == 0 || rarely(rng, 2) {
        config["reverse"] = hop(rng);
        names.push("reverse".to_owned());
    }
    for (section, most) in [("flows", 5), ("web", 2), ("udp", 2)] {
        let count = rng.draw_below(most) + u64::from(section == "flows");
        let mut entries = Vec::new();
        for _ in 0..count {
            let mut entry = match section {
                "flows" if rarely(rng, 3) => {
                    json!({"size": 1000 + rng.draw_below(300_000), "start": {"min": 0, "max": 400 * MS}})
                }
                "flows" => json!({"start": {"min": 0, "max": 400 * MS}, "count": 1 + rng.draw_below(3)}),
                "web" => json!({"arrivals": {"per_second": 40.0}, "size": {"pareto": 1.1, "min": 500, "max": 100_000}}),
                _ => json!({"rate": 500_000, "size": 200 + rng.draw_below(1000)}),
            };
            let is_ping = section == "udp" && rarely(rng, 2);
            sender(rng, &names, &mut entry, section != "udp" || is_ping);
            if is_ping {
                entry["echo"] = json!(true);
                entry.as_object_mut().expect("a table").remove("cc");
            }
            entries.push(entry);
        }
        config[section] = json!(entries);
    }
    let users = rng.draw_below(3);
    config["app"] = (0..users).map(|_| user(rng, &names)).collect();
    config
}

/// Parameters of an application that make it do much in a short run; others are as they are by default.
fn busy_params(rng: &mut Rng, spec: &str) -> Value {
    let size = 1 + rng.draw_below(100_000);
    match spec {
        "pages" => json!({"objects": 1 + rng.draw_below(8), "connections": 1 + rng.draw_below(4), "multiplexed": rarely(rng, 2)}),
        "request" => json!({"size": {"fixed": size}, "fresh": rarely(rng, 2), "think": rng.draw_below(40 * MS),
            "times": one(rng, &["fixed", "exponential"]), "request": {"pareto": 1.2, "min": 1, "max": 20_000}}),
        "onoff" => {
            json!({"connections": 1 + rng.draw_below(12), "smallest": 1, "largest": size, "idle": rng.draw_below(100 * MS),
            "begins_off": rarely(rng, 2), "persistent": rarely(rng, 2)})
        }
        "backup" => json!({"rate": 100_000 << rng.draw_below(8), "piece": size, "ahead": 1 + rng.draw_below(500_000),
            "size": if rarely(rng, 2) { json!(size * 7) } else { Value::Null }}),
        "dash" => {
            json!({"segment": (100 + rng.draw_below(200)) * MS, "buffer": 1_000 * MS, "ladder": one(rng, &["pensieve", "pitree"]),
            "level": if rarely(rng, 3) { json!(rng.draw_below(6)) } else { Value::Null }})
        }
        "responsiveness" => json!({"interval": 100 * MS, "idle": rng.draw_below(200 * MS), "averaged": 1 + rng.draw_below(3),
            "initial": 1 + rng.draw_below(3), "probes": 200.0, "probe_share": 0.5, "tls": rarely(rng, 2), "both": rarely(rng, 2),
            "limit": (100 + rng.draw_below(1_000)) * MS}),
        "video" => json!({"source": "statistical", "control": "nada"}),
        _ => json!({}),
    }
}

/// A user of an application, over the hops `names`.
fn user(rng: &mut Rng, names: &[String]) -> Value {
    // a program that sets the rate of a shaper needs one: tests/autorate.rs
    let users: Vec<&str> = app::specs().iter().map(|spec| spec.name).filter(|&name| name != "autorate").collect();
    let spec = *one(rng, &users);
    let is_up = names.contains(&"reverse".to_owned()) && rarely(rng, 3);
    let mut own = if rarely(rng, 4) { json!({}) } else { busy_params(rng, spec) };
    own["name"] = json!(spec);
    let mut entry = json!({
        "kind": own, "base_rtt": *one(rng, &[0, 1, 10, 80]) * MS, "start": {"min": 0, "max": 400 * MS},
        "count": 1 + rng.draw_below(2), "direction": if is_up { "up" } else { "down" }, "path": stages(rng, true),
        "ack_path": stages(rng, false),
    });
    if app::AppSpec::KINDS.iter().any(|&(name, of)| name == spec && matches!(of, app::AppKind::Streams(_))) {
        entry["cc"] = json!({"name": one(rng, &cc::specs()).name});
    }
    if rarely(rng, 2) {
        entry["route"] = json!([one(rng, names)]);
        entry["ack_route"] = json!([]);
    }
    if rarely(rng, 3) {
        entry["stop"] = json!(rng.draw_below(1_000) * MS);
    }
    entry
}

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
