//! A net of hops: the same as the fast path where there is one hop, and what can be reckoned by hand where there are several.

use super::*;
use crate::table::Column;
use dumbbell_bottleneck::queue_disciplines;
use dumbbell_core::aqm::specs;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn parse_config(config: &Value) -> Arc<RunConfig> {
    Arc::new(RunConfig::from_json(config).expect("a valid configuration"))
}

fn finish_run(mut engine: Box<dyn Run>) -> Outcome {
    while engine.advance(Instant::NEVER, u64::MAX).expect("no broken invariant") != RunState::Over {}
    engine.finish().expect("no broken invariant")
}

/// A run over hops, also if there is only one.
fn over_hops(config: &Value) -> Outcome {
    let config = parse_config(config);
    let aqms = queue_disciplines(&config).expect("queues");
    finish_run(Box::new(Engine::over_hops(config, aqms, |_| ())))
}

fn over_one(config: &Value) -> Outcome {
    let config = parse_config(config);
    assert!(config.is_one_hop());
    let mut aqms = queue_disciplines(&config).expect("queues");
    dumbbell_core::with_aqm!(aqms.remove(0), aqm => {
        finish_run(Box::new(Engine::<SingleHop<_, _, false>>::new(config, aqm, ())))
    })
}

/// The row of a hop.
fn hop(outcome: &Outcome, name: &str) -> Value {
    let rows = &outcome.tables.hops;
    let Some(Column::Text(names)) = rows.column("hop") else { panic!("no names of hops") };
    let place = names.iter().position(|known| known == name).expect("a hop of this name");
    let value = |column: &Column| match column {
        Column::U64(values) => json!(values[place]),
        Column::F64(values) => json!(values[place]),
        Column::Text(values) => json!(values[place]),
    };
    Value::Object(rows.columns.iter().map(|(key, column)| (key.to_string(), value(column))).collect())
}

#[test]
fn one_hop_is_to_the_bit_what_the_fast_path_makes_of_it() {
    let stages = json!([{"name": "jitter", "max": 2 * MS}, {"name": "loss", "probability": 0.001}]);
    let mut configs = Vec::new();
    for aqm in specs() {
        for shaper in ["link", "htb"] {
            configs.push(
                json!({"duration": 3 * SECOND, "bottleneck": {"rate": 20_000_000, "shaper": shaper, "aqm": {"name": aqm.name},
                "rate_changes": [{"at": SECOND, "rate": 5_000_000}]},
                "flows": [{"cc": {"name": "cubic"}, "base_rtt": 20 * MS}, {"cc": {"name": "bbr2"}, "base_rtt": 20 * MS},
                    {"cc": {"name": "prague"}, "base_rtt": 50 * MS, "start": {"min": 0, "max": 300 * MS}, "path": stages}],
                "web": [{"cc": {"name": "reno"}, "base_rtt": 10 * MS, "arrivals": {"per_second": 30.0}, "size": {"fixed": 30_000},
                    "ack_path": [{"name": "jitter", "max": MS}]}],
                "udp": [{"rate": 2_000_000, "stop": 2 * SECOND}], "record": {"from": SECOND, "trace": 100 * MS}}),
            );
        }
    }
    let shared = json!([{"name": "reorder", "probability": 0.02, "delay": 2 * MS}]);
    let mut staged = configs[0].clone();
    staged["bottleneck"]["path"] = stages.clone();
    staged["bottleneck"]["behind"] = shared;
    configs.push(staged);
    let mut bursts = configs[0].clone();
    bursts["hosts"] = json!({"offload": "gso"});
    configs.push(bursts);
    for config in configs {
        let (general, fast) = (over_hops(&config), over_one(&config));
        assert_eq!((general.tables.hops.height(), fast.tables.hops.height()), (1, 0));
        assert_eq!(general.summary, fast.summary, "{config}");
        for ((name, table), (_, expected)) in general.tables.named_tables().iter().zip(fast.tables.named_tables()) {
            if name.starts_with("hop") {
                continue;
            }
            assert!(format!("{table:?}") == format!("{expected:?}"), "{name} of {config}");
        }
    }
}

/// One flow down over a link that is never full, whose ACKs wait behind another.
#[test]
fn acknowledgements_take_the_time_of_their_frames() {
    // 66 B at 66 kbit/s take 8 ms
    let config = json!({"duration": 2 * SECOND, "bottleneck": {"rate": 100_000_000, "aqm": {"name": "pfifo"}},
        "reverse": {"rate": 66_000, "aqm": {"name": "pfifo"}},
        "flows": [{"cc": {"name": "constant", "window": 1}, "base_rtt": 20 * MS}], "hosts": {"delayed_ack": false}});
    let outcome = finish_run(crate::Sim::new(&config).expect("a valid configuration").run);
    let rtt = outcome.tables.flows.real("rtt_min_ms").expect("a column")[0];
    // 20 ms, 1514 B at 100 Mbit/s, 66 B at 66 kbit/s
    assert!((rtt - 28.121).abs() < 0.01, "{rtt}");
    let (first, back) = (hop(&outcome, "bottleneck"), hop(&outcome, "reverse"));
    // a SYN, the end of its handshake and data, against a SYN-ACK and ACKs
    let (sent, acked) = (first["packets"].as_u64().expect("a count"), back["packets"].as_u64().expect("a count"));
    assert!(sent - acked <= 2 && acked > 60, "{sent}, {acked}");
}

/// Up, the propagation lies elsewhere, and everything else is the same.
#[test]
fn a_flow_up_is_one_down_in_a_mirror() {
    let hop = |rate: u64| json!({"rate": rate, "aqm": {"name": "codel", "ecn": true}});
    let down = json!({"duration": 5 * SECOND, "bottleneck": hop(10_000_000), "reverse": hop(1_000_000),
        "flows": [{"cc": {"name": "cubic"}, "base_rtt": 20 * MS}]});
    let up = json!({"duration": 5 * SECOND, "bottleneck": hop(1_000_000), "reverse": hop(10_000_000),
        "flows": [{"cc": {"name": "cubic"}, "base_rtt": 20 * MS, "direction": "up"}]});
    let [down, up] = [down, up].map(|config| finish_run(crate::Sim::new(&config).expect("a valid configuration").run));
    let of = |outcome: &Outcome, name: &str| outcome.tables.flows.real(name).expect("a column")[0];
    for name in ["goodput_mbit", "rtt_mean_ms", "rtt_min_ms"] {
        let (down, up) = (of(&down, name), of(&up, name));
        // samples are taken on the sender's clock, which is half a base RTT away
        assert!((down - up).abs() < 0.005 * down, "{name}: {down}, {up}");
    }
}

#[test]
fn a_flow_over_two_hops_has_the_rate_of_the_slower_one() {
    let config = |slow: usize| {
        let rate = |hop: usize| if hop == slow { 5_000_000 } else { 10_000_000 };
        json!({"duration": 10 * SECOND, "bottleneck": {"rate": rate(0), "aqm": {"name": "codel"}, "delay": 5 * MS},
            "hop": [{"name": "second", "rate": rate(1), "aqm": {"name": "codel"}}],
            "flows": [{"cc": {"name": "cubic"}, "base_rtt": 20 * MS, "route": ["bottleneck", "second"]}]})
    };
    for slow in [0, 1] {
        let outcome = finish_run(crate::Sim::new(&config(slow)).expect("a valid configuration").run);
        let flows = &outcome.tables.flows;
        let goodput = flows.real("goodput_mbit").expect("a column")[0];
        // of 5 Mbit/s, 1448 of 1514 B
        assert!((4.5..4.79).contains(&goodput), "{slow}: {goodput}");
        let waits = ["bottleneck", "second"].map(|name| hop(&outcome, name)["sojourn_mean_ms"].as_f64().expect("a figure"));
        assert!(waits[slow] > 5.0 * waits[1 - slow], "{slow}: {waits:?}");
        let shortest = flows.real("rtt_min_ms").expect("a column")[0];
        // with 5 ms of propagation between the hops
        assert!((25.0..32.0).contains(&shortest), "{slow}: {shortest}");
        let sojourn = flows.real("sojourn_mean_ms").expect("a column")[0];
        assert!((sojourn - waits[0] - waits[1]).abs() < 0.5, "{sojourn}, {waits:?}");
    }
}

#[test]
fn lost_acknowledgements_leave_nothing_behind() {
    // more ACKs than the way back takes: most are dropped
    let config = json!({"duration": 5 * SECOND, "bottleneck": {"rate": 100_000_000, "aqm": {"name": "fq_codel"}},
        "reverse": {"rate": 500_000, "aqm": {"name": "pfifo", "limit": 20}},
        "flows": [{"cc": {"name": "cubic"}, "count": 3}, {"cc": {"name": "cubic"}, "count": 2, "direction": "up"}],
        "web": [{"cc": {"name": "reno"}, "arrivals": {"per_second": 50.0}, "size": {"fixed": 20_000}}]});
    let outcome = finish_run(crate::Sim::new(&config).expect("a valid configuration").run);
    let back = hop(&outcome, "reverse");
    assert!(back["drops_overflow"].as_u64() > Some(500), "{back}");
    assert!(outcome.tables.short_flows.height() > 50);
}

#[test]
fn routes_that_cannot_be_are_refused_with_their_keys() {
    let base = json!({"duration": SECOND, "bottleneck": {"aqm": {"name": "codel"}}, "flows": [{"cc": {"name": "reno"}}]});
    let refused = |key: &str, value: Value| {
        let mut config = base.clone();
        *config.pointer_mut("/flows/0").expect("a flow") = {
            let mut flow = base["flows"][0].clone();
            flow[key] = value;
            flow
        };
        crate::check(&config).expect_err("a wrong key").to_string()
    };
    assert!(refused("direction", json!("up")).contains("flows[0].route: found no hop"), "{}", refused("direction", json!("up")));
    for (key, value, said) in [
        ("direction", json!("left"), "down or up"),
        ("route", json!(["nowhere"]), "bottleneck"),
        ("route", json!(["bottleneck", "bottleneck"]), "each hop once"),
        ("ack_route", json!(["bottleneck"]), "hops that are not in route"),
    ] {
        let error = refused(key, value);
        assert!(error.contains(&format!("flows[0].{key}")) && error.contains(said), "{error}");
    }
    let mut twice = base.clone();
    twice["hop"] = json!([{"name": "bottleneck", "aqm": {"name": "codel"}}]);
    assert!(crate::check(&twice).expect_err("a name that is taken").to_string().contains("hop[0].name"));
}
