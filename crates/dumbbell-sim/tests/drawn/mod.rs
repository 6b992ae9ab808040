//! Configurations that tests draw: nets of several hops, and bottlenecks whose packets are delivered as they are sent; and copies of their runs.
// each test uses some
#![allow(dead_code)]

use dumbbell_core::link_trace::LinkTrace;
use dumbbell_core::param::ParamType;
use dumbbell_core::rng::Rng;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_core::{app, aqm, cc, link};
use dumbbell_sim::{Outcome, Sim};
use serde_json::{json, Value};

/// A millisecond, ns.
pub const MS: u64 = 1_000_000;

/// Draws one of `list`.
pub fn one<'a, T>(rng: &mut Rng, list: &'a [T]) -> &'a T {
    &list[rng.draw_below(list.len() as u64) as usize]
}

/// Draws whether, with odds of one in `of`.
pub fn rarely(rng: &mut Rng, of: u64) -> bool {
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
pub fn net(seed: u64) -> Value {
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

const MBIT: u64 = 1_000_000;

/// A queue discipline that judges packets when they arrive, with limits that matter and limits that do not.
fn queue(rng: &mut Rng) -> Value {
    let limit = *one(rng, &[0, 1, 2, 5, 20, 100, 1_000, 1_000_000]);
    let ecn = !rarely(rng, 3);
    match rng.draw_below(7) {
        0 => json!({"name": "pfifo", "limit": limit}),
        1 => json!({"name": "bfifo", "limit": limit * 1_514 - limit / 2}),
        2 | 3 => json!({"name": "step", "limit": limit, "threshold": one(rng, &[0, MS / 10, MS, 5 * MS]),
            "not_ect": one(rng, &["pass", "drop"])}),
        4 | 5 => {
            let mut codel = json!({"name": "codel", "limit": limit, "ecn": ecn, "target": one(rng, &[MS / 2, MS, 5 * MS]),
                "interval": one(rng, &[10 * MS, 100 * MS]), "control_law": one(rng, &["linux", "rfc8289"])});
            if rarely(rng, 3) {
                codel["ce_threshold"] = json!(one(rng, &[MS / 5, MS, 10 * MS]));
            }
            codel
        }
        _ => {
            json!({"name": "red", "limit": 400_000, "min": 30_000, "max": *one(rng, &[30_000, 90_000]), "avpkt": 1_500, "burst": 40,
            "probability": 0.1, "ecn": ecn, "adaptive": rarely(rng, 2), "harddrop": rarely(rng, 3), "nodrop": ecn && rarely(rng, 3)})
        }
    }
}

/// A bottleneck whose queue discipline judges packets when they arrive.
pub fn bottleneck(rng: &mut Rng) -> Value {
    let controls: Vec<&str> = cc::specs().iter().map(|spec| spec.name).collect();
    let known = ["cubic", "reno", "dctcp", "prague", "bbr1", "bbr2", "bbr3"];
    let millis = 200 + rng.draw_below(3_000);
    let rate = *one(rng, &[1, 5, 10, 100, 100, 1_000, 10_000]) * MBIT + rng.draw_below(2) * rng.draw_below(MBIT);
    // about as many packets whatever the rate
    let millis = millis.min(60_000 * MBIT / rate + 100);
    let rtts = [if rarely(rng, 20) { 0 } else { 1 }, MS / 10, MS, 5 * MS, 20 * MS, 20 * MS, 80 * MS];
    let common = *one(rng, &rtts);
    // with many flows of a small window, timers of receivers fire at one instant
    let most = if rarely(rng, 8) { 60 } else { 12 };
    let count = 1 + rng.draw_below(most);
    let flows: Vec<Value> = (0..count)
        .map(|_| {
            let name = if rarely(rng, 4) { *one(rng, &controls) } else { *one(rng, &known) };
            let rtt = if rarely(rng, 3) { *one(rng, &rtts) } else { common };
            let first = if rarely(rng, 2) { 0 } else { rng.draw_below(millis) * MS };
            let mut flow = json!({"cc": {"name": name}, "base_rtt": rtt, "start": {"min": first, "max": first}});
            if rarely(rng, 5) {
                flow["stop"] = json!(first + (1 + rng.draw_below(millis)) * MS);
            }
            if rarely(rng, 5) {
                flow["size"] = json!(1 + rng.draw_below(3_000_000));
            } else if rarely(rng, 8) {
                flow["app_rate"] = json!(MBIT / 2 + rng.draw_below(rate / 2));
            }
            if rarely(rng, 4) {
                flow["ecn"] = json!(rarely(rng, 2));
            }
            flow
        })
        .collect();
    let mut config = json!({"duration": millis * MS, "seed": rng.draw_below(1_000), "flows": flows,
        "bottleneck": {"rate": rate, "aqm": queue(rng)},
        "hosts": {"ecn": !rarely(rng, 3), "offload": one(rng, &["tso", "tso", "none"]), "delayed_ack": !rarely(rng, 5),
            "sack_compression": !rarely(rng, 4), "pacing": one(rng, &["cc", "cc", "fq"])},
        "record": {"series": !rarely(rng, 3)}});
    if rarely(rng, 3) {
        let sizes = [json!({"fixed": 1}), json!({"fixed": 30_000}), json!({"pareto": 0.9, "min": 1000, "max": 1_000_000})];
        config["web"] = json!([{"cc": {"name": one(rng, &known)}, "base_rtt": common, "arrivals": {"per_second": 1.0 + rng.draw_below(2_000) as f64},
            "size": one(rng, &sizes)}]);
    }
    if rarely(rng, 3) {
        let echo = rarely(rng, 2);
        config["udp"] = json!([{"rate": rate / (2 + rng.draw_below(20)) + 1_000, "size": 100 + rng.draw_below(1_400), "echo": echo,
            "base_rtt": if echo { common } else { 0 }, "spacing": one(rng, &["constant", "poisson"])}]);
    }
    if rarely(rng, 3) {
        let changes = (1..=2)
            .map(|at| json!({"at": at * millis / 3 * MS, "rate": one(rng, &[rate / 2 + 1_000, rate * 2, rate / 10 + 1_000])}));
        config["bottleneck"]["rate_changes"] = changes.collect();
    }
    if rarely(rng, 4) && millis > 900 {
        config["record"]["from"] = json!(200 * MS);
    }
    if rarely(rng, 6) {
        config["bottleneck"]["overhead"] = json!(18);
    }
    config
}

/// Everything that was measured, without the count of events.
pub fn format_measures(outcome: &Outcome) -> String {
    let mut summary = outcome.summary.clone();
    summary["events"] = Value::Null;
    format!("{} {summary} {:?}", outcome.hash, outcome.tables)
}

fn step(sim: &mut Sim, until: Instant, config: &Value) -> bool {
    sim.step(until).unwrap_or_else(|error| panic!("{error}\n{config}"))
}

fn finish(sim: Sim, config: &Value) -> String {
    format_measures(&sim.finish().unwrap_or_else(|error| panic!("{error}\n{config}")))
}

/// Copies the run that `build` makes at random times, and copies a copy again: all of them end as a run does that was never copied.
pub fn compare_copies(config: &Value, rng: &mut Rng, build: impl Fn(&Value) -> Sim) {
    let expected = finish(build(config), config);
    let mut sim = build(config);
    let mut copies = Vec::new();
    let millis = config["duration"].as_u64().expect("a time") / MS;
    for _ in 0..1 + rng.draw_below(3) {
        let until = sim.now() + Duration(rng.draw_below(millis * MS / 2));
        step(&mut sim, until, config);
        let copy = sim.fork().unwrap_or_else(|refused| panic!("{refused}\n{config}"));
        assert!(copy.view() == sim.view(), "{config}");
        // restored twice, with steps in between
        let mut other = copy.fork().expect("a copy of a copy");
        step(&mut other, until + Duration(rng.draw_below(200 * MS)), config);
        assert!(copy.view() == sim.view(), "the copy moved: {config}");
        copies.extend([other, copy]);
        if rarely(rng, 3) {
            // the original need not last as long as its copies
            sim = copies[one(rng, &[0, copies.len() - 1]).to_owned()].fork().expect("a copy");
        }
    }
    copies.push(sim);
    for (number, copy) in copies.into_iter().enumerate() {
        assert!(finish(copy, config) == expected, "copy {number} parts from the run:\n{config}");
    }
}

/// How many configurations of each kind are drawn; `DUMBBELL_CASES` says more.
pub fn count_cases() -> u64 {
    std::env::var("DUMBBELL_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}
