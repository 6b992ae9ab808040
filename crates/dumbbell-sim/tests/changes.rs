//! Changes of a run while it is on its way: what a file can say as well gives the same bits, the rest is computed by hand, and what cannot change is refused.

mod drawn;

use drawn::{count_cases, format_measures, net, one, rarely, MS};
use dumbbell_core::param::ParamError;
use dumbbell_core::rng::Rng;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_core::{aqm, cc};
use dumbbell_sim::{run, Sim};
use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, AtomicU64};

const MBIT: u64 = 1_000_000;

fn build(config: &Value) -> Sim {
    Sim::builder(config).changeable().build().unwrap_or_else(|error| panic!("{error}\n{config}"))
}

/// The measures of a run that is changed at these times, ns.
fn measure_changed(config: &Value, changes: &[(u64, &str, Value)]) -> String {
    let mut sim = build(config);
    for (at, key, value) in changes {
        sim.step(Instant(*at)).expect("no invariant is broken");
        sim.set(key, value).unwrap_or_else(|error| panic!("{error}\n{config}"));
    }
    format_measures(&sim.finish().unwrap_or_else(|error| panic!("{error}\n{config}")))
}

fn measure(config: &Value) -> String {
    let outcome = run(config, &AtomicBool::new(false), &AtomicU64::new(0));
    format_measures(&outcome.unwrap_or_else(|error| panic!("{error}\n{config}")))
}

fn two_flows(aqm: &str) -> Value {
    let flow = |name: &str| json!({"cc": {"name": name}, "base_rtt": 20 * MS});
    json!({"duration": 3_000 * MS, "bottleneck": {"rate": 10 * MBIT, "aqm": {"name": aqm}}, "flows": [flow("cubic"), flow("bbr3")],
        "record": {"interval": 100 * MS}})
}

#[test]
fn a_run_that_may_be_changed_and_is_not_measures_the_same() {
    for number in 0..10 {
        let config = net(number);
        assert!(measure_changed(&config, &[]) == measure(&config), "{config}");
    }
    assert!(measure_changed(&two_flows("codel"), &[]) == measure(&two_flows("codel")));
}

#[test]
fn a_change_of_rate_is_that_of_a_file() {
    let (first, second) = (700_000_123, 1_500_000_457);
    for aqm in ["codel", "pie", "cake", "fq_codel", "dualpi2", "docsis_pie"] {
        let mut file = two_flows(aqm);
        file["bottleneck"]["rate_changes"] = json!([{"at": first, "rate": 3 * MBIT}, {"at": second, "rate": 40 * MBIT}]);
        let changes = [(first, "bottleneck.rate", json!(3 * MBIT)), (second, "bottleneck.rate", json!(40 * MBIT))];
        assert!(measure_changed(&two_flows(aqm), &changes) == measure(&file), "{aqm}");
        // the file has the later one
        let mut later = two_flows(aqm);
        later["bottleneck"]["rate_changes"] = json!([{"at": second, "rate": 40 * MBIT}]);
        assert!(measure_changed(&later, &changes[..1]) == measure(&file), "{aqm}");
    }
    // of another hop
    let with_hop = |changes: Value| {
        let mut config = two_flows("codel");
        config["hop"] = json!([{"name": "second", "rate": 8 * MBIT, "aqm": {"name": "pfifo"}, "rate_changes": changes}]);
        config["reverse"] = json!({"rate": MBIT, "aqm": {"name": "pfifo"}});
        for flow in 0..2 {
            config["flows"][flow]["route"] = json!(["bottleneck", "second"]);
            config["flows"][flow]["ack_route"] = json!(["reverse"]);
        }
        config
    };
    let file = with_hop(json!([{"at": first, "rate": 2 * MBIT}]));
    let (plain, rate) = (with_hop(json!([])), json!(2 * MBIT));
    assert!(measure_changed(&plain, &[(first, "hop[0].rate", rate.clone())]) == measure(&file));
    assert!(measure_changed(&plain, &[(first, "reverse.rate", json!(2_000))]) != measure(&file));
}

#[test]
fn a_start_and_a_stop_are_those_of_a_file() {
    let (start, stop) = (600_000_321, 2_000_000_789);
    let mut file = two_flows("codel");
    file["flows"][1]["start"] = json!({"min": start, "max": start});
    let mut late = two_flows("codel");
    late["flows"][1]["start"] = json!({"min": 2_900 * MS, "max": 2_900 * MS});
    assert!(measure_changed(&late, &[(start, "flows[1].start", Value::Null)]) == measure(&file));
    assert!(measure_changed(&late, &[(0, "flows[1].start", json!(start))]) == measure(&file));
    let mut stopped = two_flows("codel");
    stopped["flows"][0]["stop"] = json!(stop);
    assert!(measure_changed(&two_flows("codel"), &[(stop, "flows[0].stop", Value::Null)]) == measure(&stopped));
    assert!(measure_changed(&two_flows("codel"), &[(start, "flows[0].stop", json!(stop))]) == measure(&stopped));
    let udp = |ends: Value| json!([{"rate": MBIT, "size": 1000, "stop": ends}]);
    let (mut plain, mut ended) = (two_flows("codel"), two_flows("codel"));
    (plain["udp"], ended["udp"]) = (udp(Value::Null), udp(json!(stop)));
    assert!(measure_changed(&plain, &[(stop, "flows[2].stop", Value::Null)]) == measure(&ended));
}

/// Payload of one segment, bytes.
const MSS: u64 = 1_448;

fn count_acked(sim: &Sim) -> u64 {
    sim.view().endpoints[0].payload / MSS
}

/// When the next segment will be acknowledged, ns: copies of the run tell.
fn time_of_next_ack(sim: &Sim) -> u64 {
    let acked = count_acked(sim);
    let (mut before, mut after) = (sim.now().0, sim.now().0 + 200 * MS);
    while after - before > 1 {
        let middle = u64::midpoint(before, after);
        let mut copy = sim.fork().expect("a copy");
        copy.step(Instant(middle)).expect("a step");
        *(if count_acked(&copy) > acked { &mut after } else { &mut before }) = middle;
    }
    after
}

#[test]
fn another_base_rtt_takes_the_acknowledgements_on_their_way_along() {
    // one segment of 1514 B in flight at 100 Mbit/s: 121.12 us on the link and 20 ms of propagation for each
    let config = json!({"duration": 4_000 * MS, "bottleneck": {"rate": 100 * MBIT, "aqm": {"name": "pfifo"}},
        "flows": [{"cc": {"name": "constant", "window": 1}, "base_rtt": 20 * MS}], "hosts": {"delayed_ack": false}});
    let mut sim = build(&config);
    sim.step(Instant(1_000 * MS)).expect("a step");
    let first = time_of_next_ack(&sim);
    let mut unchanged = sim.fork().expect("a copy");
    unchanged.step(Instant(first)).expect("a step");
    assert_eq!(time_of_next_ack(&unchanged), first + 20_121_120);
    // the one on its way comes 30 ms later than it would have come; after it, one comes each 50.12112 ms
    sim.set("flows[0].base_rtt", &json!(50 * MS)).expect("a change");
    for number in 0..10 {
        let expected = first + 30 * MS + number * 50_121_120;
        assert_eq!(time_of_next_ack(&sim), expected);
        sim.step(Instant(expected)).expect("a step");
    }
    // 10 ms after the last one came, the base RTT becomes 1 ms: the next one, sent 9.87888 ms ago, comes at once, and then one each 1.12112 ms
    let now = sim.now() + Duration(10 * MS);
    sim.step(now).expect("a step");
    sim.set("flows[0].base_rtt", &json!(MS)).expect("a change");
    let before = count_acked(&sim);
    sim.step(now).expect("a step");
    assert_eq!(count_acked(&sim), before + 1);
    for number in 1..10 {
        assert_eq!(time_of_next_ack(&sim), now.0 + number * 1_121_120);
        sim.step(Instant(now.0 + number * 1_121_120)).expect("a step");
    }
    sim.finish().expect("no invariant is broken");
}

#[test]
fn a_queue_keeps_its_packets_when_its_limit_falls() {
    let config = json!({"duration": 2_000 * MS, "bottleneck": {"rate": 10 * MBIT, "aqm": {"name": "pfifo", "limit": 1_000}},
        "flows": [{"cc": {"name": "constant", "window": 100}, "base_rtt": 20 * MS}]});
    let mut sim = build(&config);
    sim.step(Instant(500 * MS)).expect("a step");
    // 100 segments, of which 10 Mbit/s x 20 ms / 1514 B = 16.5 are on the way
    let full = sim.view().queued_packets;
    assert!((80..100).contains(&full), "{full}");
    sim.set("bottleneck.aqm.limit", &json!(10)).expect("a change");
    assert_eq!(sim.view().queued_packets, full);
    sim.step(Instant(1_500 * MS)).expect("a step");
    let view = sim.view();
    assert!(view.queued_packets <= 10 && view.queue.drops_overflow > 0, "{view:?}");
    // the rest of its parameters stays as the first change left them
    let mut two = build(&two_flows("codel"));
    two.set("bottleneck.aqm.target", &json!(MS)).expect("a change");
    two.set("bottleneck.aqm.limit", &json!(50)).expect("a change");
    let values = two.config().aqm.values();
    assert_eq!((&values["target"], &values["limit"]), (&json!(MS), &json!(50)));
    let mut file = two_flows("codel");
    file["bottleneck"]["aqm"] = json!({"name": "codel", "target": MS, "limit": 50});
    assert!(format_measures(&two.finish().expect("a run")) == measure(&file));
}

#[test]
fn parameters_that_were_set_before_the_start_are_those_of_a_file() {
    let cases = [
        ("bfifo", "limit", json!(20_000)),
        ("step", "threshold", json!(3 * MS)),
        ("fq_codel", "quantum", json!(4_542)),
        ("fq_codel", "target", json!(MS)),
        ("pie", "target", json!(4 * MS)),
        ("fq_pie", "target", json!(4 * MS)),
        ("pi2", "target", json!(4 * MS)),
        ("red", "probability", json!(0.5)),
        ("dualpi2", "target", json!(4 * MS)),
        ("dualpi2", "coupling_factor", json!(4)),
        ("docsis_pie", "target", json!(4 * MS)),
        ("csaqm", "target", json!(MS)),
        ("fq", "flow_limit", json!(10)),
        ("cake", "rtt", json!(20 * MS)),
        ("cake", "bandwidth", json!(7 * MBIT)),
        ("cake", "overhead", json!(60)),
        ("cake", "memlimit", json!(30_000)),
        ("mac80211", "target", json!(4 * MS)),
        ("mac80211", "overhead", json!(MS)),
        ("htb_classes", "rate1", json!(5 * MBIT)),
        ("htb_classes", "limit", json!(10)),
    ];
    for (aqm, param, value) in cases {
        let mut plain = two_flows(aqm);
        plain["hosts"] = json!({"ecn": true});
        let mut file = plain.clone();
        file["bottleneck"]["aqm"][param] = value.clone();
        assert!(measure(&file) != measure(&plain), "{aqm}.{param} has no effect");
        let key = format!("bottleneck.aqm.{param}");
        assert!(measure_changed(&plain, &[(0, &key, value)]) == measure(&file), "{aqm}.{param}");
    }
}

#[test]
fn a_stage_of_loss_takes_another_probability() {
    let mut config = two_flows("codel");
    config["bottleneck"]["path"] = json!([{"name": "jitter"}, {"name": "loss", "probability": 0.0}]);
    config["flows"][0]["ack_path"] = json!([{"name": "loss", "probability": 0.0}]);
    let mut sim = build(&config);
    sim.step(Instant(1_000 * MS)).expect("a step");
    assert!(sim.view().endpoints.iter().all(|one| one.payload > 0));
    sim.set("bottleneck.path[1].probability", &json!(1.0)).expect("a change");
    sim.step(Instant(1_100 * MS)).expect("a step");
    let arrived = sim.view().queue.packets;
    sim.step(Instant(2_000 * MS)).expect("a step");
    assert_eq!(sim.view().queue.packets, arrived);
    sim.set("bottleneck.path[1].probability", &json!(0.0)).expect("a change");
    sim.set("flows[0].ack_path[0].probability", &json!(1.0)).expect("a change");
    let payload = sim.view().endpoints[0].payload;
    sim.step(Instant(2_900 * MS)).expect("a step");
    assert_eq!(sim.view().endpoints[0].payload, payload);
    sim.finish().expect("no invariant is broken");
}

#[test]
fn a_window_that_an_agent_holds_is_that_of_the_constant_control() {
    let config = |name: &str, more: Value| {
        let mut cc = more;
        cc["name"] = json!(name);
        json!({"duration": 3_000 * MS, "bottleneck": {"rate": 10 * MBIT, "aqm": {"name": "pie"}}, "flows": [
            {"cc": cc, "base_rtt": 20 * MS}, {"cc": {"name": "cubic"}, "base_rtt": 30 * MS}]})
    };
    // without the digest, in which the name of the control is
    let without = |text: &str| text.split_once(' ').expect("a digest").1.replace("external", "constant");
    let constant = without(&measure(&config("constant", json!({"window": 30}))));
    let set = |given: &Value, key: &str, value: Value| without(&measure_changed(given, &[(0, key, value)]));
    assert!(set(&config("external", json!({})), "flows[0].cwnd", json!(30)) == constant);
    // what nobody sets is what the file says, in any run
    assert!(without(&measure(&config("external", json!({"window": 30})))) == constant);
    let paced = without(&measure(&config("constant", json!({"window": 30, "rate": 4 * MBIT}))));
    assert!(set(&config("external", json!({"window": 30})), "flows[0].pacing_rate", json!(4 * MBIT)) == paced);
    // later, the window opens and what it allows leaves at once
    let mut sim = build(&config("external", json!({"window": 2})));
    sim.step(Instant(1_000 * MS)).expect("a step");
    sim.set("flows[0].cwnd", &json!(40)).expect("a change");
    sim.step(Instant(1_000 * MS)).expect("a step");
    assert_eq!(sim.view().endpoints[0].sender.in_flight, 40);
}

#[test]
fn what_cannot_change_is_refused_by_key() {
    let mut config = two_flows("cake");
    config["udp"] = json!([{"rate": MBIT}]);
    config["flows"][1]["start"] = json!({"min": 2_000 * MS, "max": 2_000 * MS});
    let mut sim = build(&config);
    sim.step(Instant(1_000 * MS)).expect("a step");
    let mut refuse = |key: &str, value: Value| -> String {
        let before = sim.view();
        let refused: ParamError = sim.set(key, &value).expect_err(key);
        assert_eq!(refused.key, key);
        assert!(sim.view() == before);
        refused.to_string()
    };
    for (key, value, wanted) in [
        (
            "bottleneck.aqm.isolation",
            json!("hosts"),
            "a parameter that cake cannot change while it runs, allowed: bandwidth, rtt,",
        ),
        ("bottleneck.aqm.bandwidth", json!(0), "found no limit, allowed: a rate"),
        ("bottleneck.rate", json!(1), "1"),
        ("bottleneck.delay", json!(1), "a key that cannot change"),
        ("reverse.rate", json!(MBIT), "allowed: bottleneck"),
        ("hop[0].rate", json!(MBIT), "a hop that the run does not have"),
        ("flows[3].stop", Value::Null, "found 3, allowed: 0 to 2"),
        ("flows[0].start", Value::Null, "flow 0, which has begun"),
        ("flows[1].stop", Value::Null, "flow 1, which has not begun"),
        ("flows[0].stop", json!(MS), "1s or later"),
        ("flows[0].base_rtt", json!(-1), "-1"),
        ("flows[2].base_rtt", json!(MS), "flow 2, which is not TCP"),
        ("flows[0].cwnd", json!(10), "flow 0 with the control cubic"),
        ("flows[0].path[0].probability", json!(0.5), "a stage that is not there"),
        ("flows[*].stop", Value::Null, "a key that cannot change"),
        ("", Value::Null, "a key that cannot change"),
    ] {
        let said = refuse(key, value);
        assert!(said.contains(wanted), "{said}");
    }
    let mut plain = Sim::new(&two_flows("codel")).expect("a run");
    assert!(plain.set("bottleneck.rate", &json!(MBIT)).expect_err("a refusal").to_string().contains("Builder::changeable"));
    let mut over = build(&two_flows("codel"));
    over.step(Instant::NEVER).expect("a run");
    assert!(over.set("bottleneck.rate", &json!(MBIT)).expect_err("a refusal").to_string().contains("a run that is over"));
}

/// A parameter of a queue discipline of several parts, with a value that matters.
fn draw_param(rng: &mut Rng, aqm: &str) -> Option<(&'static str, Value)> {
    let rate = json!(*one(rng, &[200_000, 2 * MBIT, 9 * MBIT, 60 * MBIT]));
    let time = json!(100_000 + rng.draw_below(60 * MS));
    let cake = [
        ("bandwidth", rate.clone()),
        ("rtt", time.clone()),
        ("overhead", json!(rng.draw_below(120))),
        ("mpu", json!(rng.draw_below(200))),
        ("framing", json!(one(rng, &["none", "atm", "ptm"]))),
        ("memlimit", json!(4_000 + rng.draw_below(300_000))),
        ("ingress", json!(rarely(rng, 2))),
        ("ack_filter", json!(one(rng, &["off", "on", "aggressive"]))),
        ("sce", json!(one(rng, &["off", "on"]))),
    ];
    let classes = [
        ("rate1", rate.clone()),
        ("prio1", json!(rng.draw_below(8))),
        ("quantum1", json!(1_000 + rng.draw_below(50_000))),
        ("burst", json!(1_600 + rng.draw_below(50_000))),
        ("limit", json!(1 + rng.draw_below(100))),
        ("rate2", rate.clone()),
    ];
    let stations = [
        ("slow_from", json!(rng.draw_below(20))),
        ("slow_rate", rate),
        ("weight", json!(1_000 + rng.draw_below(4 * MS))),
        ("frames", json!(1 + rng.draw_below(64))),
        ("longest", json!(1_000 + rng.draw_below(8 * MS))),
        ("overhead", json!(1_000 + rng.draw_below(MS))),
        ("limit", json!(1 + rng.draw_below(100))),
        ("target", time),
    ];
    Some(match aqm {
        "cake" => one(rng, &cake).clone(),
        "htb_classes" => one(rng, &classes).clone(),
        "mac80211" => one(rng, &stations).clone(),
        _ => return None,
    })
}

/// A change that may be refused.
fn draw_change(rng: &mut Rng, config: &Value) -> (String, Value) {
    let hops = config["hop"].as_array().map_or(0, Vec::len) as u64;
    let hop = match rng.draw_below(2 + hops) {
        0 => "bottleneck".to_owned(),
        1 => "reverse".to_owned(),
        other => format!("hop[{}]", other - 2),
    };
    let flow = rng.draw_below(8);
    if rarely(rng, 3) {
        let section = match hop.as_str() {
            "bottleneck" | "reverse" => &config[hop.as_str()],
            _ => &config["hop"][hop.trim_start_matches("hop[").trim_end_matches(']').parse::<usize>().unwrap_or(0)],
        };
        let drawn = draw_param(rng, section["aqm"]["name"].as_str().unwrap_or(""));
        if let Some((param, value)) = drawn {
            return (format!("{hop}.aqm.{param}"), value);
        }
    }
    match rng.draw_below(11) {
        0 => (format!("{hop}.rate"), json!(*one(rng, &[100_000, MBIT, 7 * MBIT, 300 * MBIT]))),
        1 => (format!("{hop}.aqm.limit"), json!(1 + rng.draw_below(300))),
        2 => (format!("{hop}.aqm.target"), json!(1_000 + rng.draw_below(30 * MS))),
        3 => (format!("{hop}.path[0].probability"), json!(rng.next_f64() / 10.0)),
        4 => (format!("flows[{flow}].start"), Value::Null),
        5 => (format!("flows[{flow}].stop"), Value::Null),
        6 => (format!("flows[{flow}].cwnd"), json!(1 + rng.draw_below(100))),
        7 | 8 => (format!("{hop}.aqm"), json!({"name": one(rng, &aqm::specs()).name})),
        9 => (format!("flows[{flow}].cc"), json!({"name": one(rng, &cc::specs()).name})),
        _ => (format!("flows[{flow}].base_rtt"), json!(*one(rng, &[0, 1, 3 * MS, 10 * MS, 55 * MS]))),
    }
}

#[test]
fn changes_of_random_nets_break_no_invariant_and_are_those_of_a_copy() {
    let cases = count_cases();
    let mut made = 0;
    for number in 0..cases {
        let (config, mut rng) = (net(number), Rng::stream(number, "changes", 0));
        let (mut sim, mut changes) = (build(&config), Vec::new());
        for _ in 0..2 + rng.draw_below(8) {
            let until = sim.now() + Duration(rng.draw_below(300 * MS));
            sim.step(until).unwrap_or_else(|error| panic!("{error}\n{config}"));
            let mut copy = sim.fork().expect("a copy");
            let (key, value) = draw_change(&mut rng, &config);
            assert_eq!(copy.set(&key, &value), sim.set(&key, &value));
            made += 1;
            changes.push((until, key, value));
            if rarely(&mut rng, 2) {
                sim = copy;
            }
        }
        let ended = sim.finish().unwrap_or_else(|error| panic!("{error}\n{changes:?}\n{config}"));
        let mut again = build(&config);
        for (until, key, value) in &changes {
            again.step(*until).expect("no invariant is broken");
            let _ = again.set(key, value);
        }
        assert!(format_measures(&again.finish().expect("a run")) == format_measures(&ended), "{changes:?}\n{config}");
    }
    assert!(made > 3 * cases);
}
