//! Packets that are delivered when they are sent, because the queue's verdict is known then, give the results of those that wait for their turn: the same random
//! configurations, both ways.

use dumbbell_core::cc;
use dumbbell_core::rng::Rng;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_sim::{Outcome, Sim, View};
use serde_json::{json, Value};

const MS: u64 = 1_000_000;
const MBIT: u64 = 1_000_000;

/// Draws one of `list`.
fn one<'a, T>(rng: &mut Rng, list: &'a [T]) -> &'a T {
    &list[rng.draw_below(list.len() as u64) as usize]
}

/// Draws whether, with odds of one in `of`.
fn rarely(rng: &mut Rng, of: u64) -> bool {
    rng.draw_below(of) == 0
}

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

fn configuration(rng: &mut Rng) -> Value {
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

fn run(config: &Value, ahead: bool) -> Outcome {
    let sim = Sim::builder(config).delivers_ahead(ahead).build().unwrap_or_else(|error| panic!("{error}\n{config}"));
    sim.finish().unwrap_or_else(|error| panic!("{error}, ahead: {ahead}\n{config}"))
}

/// Everything that was measured, without the count of events.
fn format_measures(outcome: &Outcome) -> String {
    let mut summary = outcome.summary.clone();
    summary["events"] = Value::Null;
    format!("{} {summary} {:?}", outcome.hash, outcome.tables)
}

#[test]
fn packets_that_are_delivered_ahead_of_their_time_change_nothing() {
    let cases: u64 = std::env::var("DUMBBELL_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let first: u64 = std::env::var("DUMBBELL_FIRST_CASE").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut fewer = 0;
    for number in first..first + cases {
        let config = configuration(&mut Rng::stream(number, "ahead", 0));
        let [usual, ahead] = [false, true].map(|ahead| run(&config, ahead));
        assert!(format_measures(&usual) == format_measures(&ahead), "case {number} differs:\n{config}");
        let [many, few] = [&usual, &ahead].map(|outcome| outcome.summary["events"].as_u64().expect("a count"));
        fewer += u64::from(few < many * 9 / 10);
    }
    assert!(fewer >= cases / 2, "only {fewer} of {cases} runs delivered packets ahead of their time");
}

#[test]
fn such_a_run_can_be_paused_at_any_time() {
    for number in 0..20 {
        let config = configuration(&mut Rng::stream(number, "ahead", 0));
        let [mut usual, mut ahead] =
            [false, true].map(|ahead| Sim::builder(&config).delivers_ahead(ahead).build().expect("a run"));
        let mut rng = Rng::stream(number, "pauses", 0);
        let mut until = Instant::ZERO;
        loop {
            let over = [&mut usual, &mut ahead].map(|sim| sim.step(until).expect("no invariant is broken"));
            assert_eq!(over[0], over[1], "{config}");
            let [first, second] = [&usual, &ahead].map(|sim| View { now: until, events: 0, ..sim.view() });
            assert!(first == second, "case {number}, at {until}: {first:?} {second:?} {config}");
            if over[0] {
                break;
            }
            let longest = *one(&mut rng, &[1, MS, 100 * MS]);
            until += Duration(1 + rng.draw_below(longest));
        }
        let [usual, ahead] = [usual, ahead].map(|sim| format_measures(&sim.finish().expect("a run")));
        assert!(usual == ahead, "{config}");
    }
}
