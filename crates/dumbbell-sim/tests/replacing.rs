//! Another queue discipline or congestion control in the middle of a run: packets that are dropped, what goes on, what is refused.

mod drawn;

use drawn::{format_measures, MS};
use dumbbell_core::units::{Duration, Instant};
use dumbbell_core::{aqm, cc};
use dumbbell_sim::events::EventRecorder;
use dumbbell_sim::{run, ControlView, Sim};
use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, AtomicU64};

const MBIT: u64 = 1_000_000;

fn build(config: &Value) -> Sim {
    Sim::builder(config).changeable().build().unwrap_or_else(|error| panic!("{error}\n{config}"))
}

fn set(sim: &mut Sim, key: &str, value: &Value) {
    sim.set(key, value).unwrap_or_else(|error| panic!("{error}"));
}

fn refuse(sim: &mut Sim, key: &str, value: &Value) -> String {
    let before = sim.view();
    let refused = sim.set(key, value).expect_err(key);
    assert!(refused.key == key && sim.view() == before);
    refused.to_string()
}

fn step(sim: &mut Sim, by: u64) {
    let until = sim.now() + Duration(by);
    sim.step(until).expect("no invariant is broken");
}

/// A window of 100 segments, 10 Mbit/s and a base RTT of 20 ms: a frame of 1514 B takes 1.2112 ms, so that 16.5 are on their way and the rest is queued.
fn full_queue(aqm: &Value) -> Value {
    json!({"duration": 2_000 * MS, "bottleneck": {"rate": 10 * MBIT, "aqm": aqm}, "hosts": {"delayed_ack": false},
        "flows": [{"cc": {"name": "constant", "window": 100}, "base_rtt": 20 * MS}]})
}

/// Steps to the next departure; returns when it was.
fn step_to_departure(sim: &mut Sim) -> Instant {
    let departed = sim.view().queue.packets;
    while sim.view().queue.packets == departed {
        step(sim, 100);
    }
    sim.now()
}

#[test]
fn packets_of_the_old_queue_are_dropped_and_the_one_on_the_wire_goes_on() {
    for old in ["pfifo", "fq_codel", "cake", "dualpi2", "mac80211", "htb_classes", "fq"] {
        let mut sim = build(&full_queue(&json!({"name": old})));
        sim.step(Instant(500 * MS)).expect("a step");
        let before = sim.view();
        assert!((50..100).contains(&before.queued_packets), "{old}: {before:?}");
        let mut unchanged = sim.fork().expect("a copy");
        set(&mut sim, "bottleneck.aqm", &json!({"name": "codel"}));
        let after = sim.view();
        assert_eq!((after.queued_packets, after.queued_bytes), (0, 0));
        assert_eq!(after.queue.drops_aqm - before.queue.drops_aqm, before.queued_packets, "{old}");
        assert_eq!((after.queue.drops_overflow, after.queue.ce_marks), (before.queue.drops_overflow, before.queue.ce_marks));
        assert_eq!((sim.config().aqm.name(), after.queue.sent), ("codel", before.queue.sent));
        if !["cake", "mac80211", "htb_classes"].contains(&old) {
            // a serial link has one frame of it to send, at the time at which it would have left
            assert_eq!(step_to_departure(&mut sim), step_to_departure(&mut unchanged), "{old}");
        }
        // each acknowledgement that is on its way, one in 1.2112 ms, lets one packet out, which finds the link idle
        step(&mut sim, 15 * MS);
        let is_lossless = before.queue.drops_aqm + before.queue.drops_overflow == 0;
        assert!(!is_lossless || sim.view().queued_packets <= 1, "{old}: {:?}", sim.view());
        assert!(is_lossless || old != "pfifo");
        sim.finish().unwrap_or_else(|error| panic!("{old}: {error}"));
    }
}

#[test]
fn events_name_the_reason_and_each_packet_once() {
    let recorder = EventRecorder::default();
    let listens = recorder.clone();
    let config = full_queue(&json!({"name": "fq_codel", "ce_threshold": MS}));
    let mut sim = Sim::builder(&config).changeable().listener(move |hop| listens.listener(hop)).build().expect("a run");
    sim.step(Instant(500 * MS)).expect("a step");
    recorder.take();
    let queued = sim.view().queued_packets;
    set(&mut sim, "bottleneck.aqm", &json!({"name": "cake"}));
    let events = recorder.take();
    assert_eq!(events.len() as u64, queued);
    let mut numbers: Vec<u64> = events.iter().map(|one| one.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len() as u64, queued);
    let told = |one: &dumbbell_sim::events::PacketEvent| (one.event, one.kind, one.reason, one.time);
    assert!(
        events.iter().all(|one| told(one) == ("drop", "replaced", "in the queue", Instant(500 * MS))),
        "{:?}",
        told(&events[0])
    );
}

fn two_flows(aqm: &str) -> Value {
    let flow = |name: &str| json!({"cc": {"name": name}, "base_rtt": 20 * MS});
    json!({"duration": 1_500 * MS, "bottleneck": {"rate": 10 * MBIT, "aqm": {"name": aqm}}, "flows": [flow("cubic"), flow("bbr3")],
        "record": {"interval": 100 * MS}, "hosts": {"ecn": true}})
}

fn measure(config: &Value) -> String {
    let outcome = run(config, &AtomicBool::new(false), &AtomicU64::new(0));
    format_measures(&outcome.unwrap_or_else(|error| panic!("{error}\n{config}")))
}

#[test]
fn a_queue_that_is_replaced_before_the_start_is_that_of_a_file() {
    for name in aqm::specs().iter().map(|spec| spec.name) {
        let other = if name == "pie" { "cake" } else { "pie" };
        let mut sim = build(&two_flows(other));
        set(&mut sim, "bottleneck.aqm", &json!({"name": name}));
        assert!(format_measures(&sim.finish().expect("a run")) == measure(&two_flows(name)), "{name}");
    }
}

/// Measures without the digest, in which the name of the control is, and with one name of a control.
fn without_names(text: &str, name: &str) -> String {
    text.split_once(' ').expect("a digest").1.replace(&format!("\"{name}\""), "\"cubic\"")
}

#[test]
fn a_control_that_is_chosen_before_the_flow_begins_is_that_of_a_file() {
    for name in cc::specs().iter().map(|spec| spec.name).filter(|name| *name != "external") {
        let config = |control: &str| {
            let mut config = two_flows("fq_codel");
            config["flows"][0]["cc"] = json!({"name": control});
            config["flows"][1]["base_rtt"] = json!(30 * MS);
            config["reverse"] = json!({"rate": 10 * MBIT, "aqm": {"name": "codel"}});
            config
        };
        let mut sim = build(&config("cubic"));
        set(&mut sim, "flows[0].cc", &json!({"name": name}));
        let changed = without_names(&format_measures(&sim.finish().expect("a run")), name);
        assert!(changed == without_names(&measure(&config(name)), name), "{name}");
    }
}

#[test]
fn the_same_kind_of_queue_takes_parameters_and_keeps_its_packets() {
    let mut sim = build(&full_queue(&json!({"name": "pfifo", "limit": 1_000})));
    sim.step(Instant(500 * MS)).expect("a step");
    let before = sim.view();
    set(&mut sim, "bottleneck.aqm", &json!({"name": "pfifo", "limit": 50}));
    assert!(sim.view() == before && sim.config().aqm.values()["limit"] == 50);
    set(&mut sim, "bottleneck.aqm", &json!({"name": "pfifo"}));
    assert!(sim.view() == before && sim.config().aqm.values()["limit"] == 50);
    let mut other = build(&two_flows("fq_codel"));
    let said = refuse(&mut other, "bottleneck.aqm", &json!({"name": "fq_codel", "flows": 7}));
    assert!(said.contains("a parameter that fq_codel cannot change while it runs"), "{said}");
}

/// UDP of twice the rate of the link, in frames of 1514 B.
fn flood(aqm: &str) -> Value {
    json!({"duration": 2_000 * MS, "bottleneck": {"rate": 10 * MBIT, "aqm": {"name": aqm}}, "udp": [{"rate": 20 * MBIT, "size": 1_514}]})
}

#[test]
fn a_link_is_full_and_no_more_whatever_shapes() {
    let mut sim = build(&flood("pfifo"));
    let names = ["cake", "pfifo", "cake", "fq_codel", "codel"];
    for number in 0..40 {
        step(&mut sim, 40 * MS + 123_457);
        set(&mut sim, "bottleneck.aqm", &json!({"name": names[number % names.len()]}));
    }
    sim.step(Instant(2_000 * MS)).expect("a step");
    // 2 s at 10 Mbit/s are 1651.25 frames; a change costs two frames at most: one until the next arrives, one that a bucket has lent
    let departed = sim.view().queue.packets;
    assert!((1_571..=1_651).contains(&departed), "{departed}");
    sim.finish().expect("the link has carried no more than it can");
}

#[test]
fn a_new_queue_has_the_present_rate() {
    for name in ["cake", "fq_codel"] {
        let mut sim = build(&flood("pfifo"));
        sim.step(Instant(500 * MS)).expect("a step");
        set(&mut sim, "bottleneck.rate", &json!(2 * MBIT));
        set(&mut sim, "bottleneck.aqm", &json!({"name": name}));
        sim.step(Instant(600 * MS)).expect("a step");
        let before = sim.view().queue.packets;
        sim.step(Instant(1_600 * MS)).expect("a step");
        // a second at 2 Mbit/s: 165.1 frames of 1514 B
        let departed = sim.view().queue.packets - before;
        assert!((165..=166).contains(&departed), "{name}: {departed}");
    }
}

#[test]
fn clocks_of_a_new_queue_begin_when_it_does() {
    // PIE has half a second until its first update, DualPI2 its interval of 16 ms
    for (name, first) in [("pie", 500), ("fq_pie", 500), ("dualpi2", 16)] {
        let mut sim = build(&full_queue(&json!({"name": "pfifo"})));
        sim.step(Instant(700 * MS)).expect("a step");
        set(&mut sim, "bottleneck.aqm", &json!({"name": name}));
        let p = |one: &Sim| one.view_hops()[0].states.iter().find(|state| state.0 == "p").expect("a probability").1;
        sim.step(Instant((700 + first) * MS - 1)).expect("a step");
        assert_eq!(p(&sim), 0.0, "{name}");
        sim.step(Instant((700 + first + 700) * MS)).expect("a step");
        assert!(p(&sim) > 0.0, "{name}");
    }
}

/// A flow of a wide link, which never loses: a base RTT of 100 ms.
fn wide(cc: &Value, ecn: bool) -> Value {
    json!({"duration": 3_000 * MS, "bottleneck": {"rate": 1_000 * MBIT, "aqm": {"name": "pfifo", "limit": 10_000}}, "flows": [{"cc": cc, "base_rtt": 100 * MS}],
        "hosts": {"delayed_ack": false, "ecn": ecn}})
}

fn control(sim: &Sim) -> ControlView {
    sim.view_controls().remove(0)
}

#[test]
fn window_and_threshold_stay_with_another_control() {
    let mut sim = build(&wide(&json!({"name": "constant", "window": 20}), false));
    // acknowledgements come in bursts of 20, each 100 ms, at 1050 ms and so on
    sim.step(Instant(1_000 * MS)).expect("a step");
    let before = sim.view().endpoints[0].sender;
    set(&mut sim, "flows[0].cc", &json!({"name": "reno"}));
    assert!(sim.view().endpoints[0].sender == before && before.cwnd == 20);
    // below a threshold that no reduction has set, each of the 20 acknowledgements of a round adds a segment: 40, 80
    step(&mut sim, 101 * MS);
    assert_eq!(sim.view().endpoints[0].sender.cwnd, 40);
    step(&mut sim, 101 * MS);
    assert_eq!(sim.view().endpoints[0].sender.cwnd, 80);
    // the other way round, the window is what the control holds at once
    set(&mut sim, "flows[0].cc", &json!({"name": "constant", "window": 7}));
    assert_eq!(sim.view().endpoints[0].sender.cwnd, 7);
    // the same control changes nothing
    set(&mut sim, "flows[0].cc", &json!({"name": "constant", "window": 7}));
    let ended = sim.finish().expect("no invariant is broken");
    assert!(format_measures(&ended).contains("constant"));
}

#[test]
fn pacing_stays_as_linux_leaves_it() {
    // BBR asks for pacing and never takes that back; prague_release does
    for (name, stays) in [("bbr1", true), ("bbr3", true), ("bbr-draft", true), ("prague", false)] {
        let mut sim = build(&wide(&json!({"name": name}), true));
        sim.step(Instant(1_000 * MS)).expect("a step");
        assert!(control(&sim).pacing_rate.is_some(), "{name}");
        set(&mut sim, "flows[0].cc", &json!({"name": "cubic"}));
        assert_eq!(control(&sim).pacing_rate.is_some(), stays, "{name}");
        let delivered = sim.view().endpoints[0].payload;
        step(&mut sim, 500 * MS);
        assert!(sim.view().endpoints[0].payload > delivered, "{name}");
        sim.finish().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_model_begins_with_the_segments_that_are_sent_under_it() {
    for name in ["bbr1", "bbr2", "bbr3", "bbr-draft"] {
        let mut sim = build(&full_queue(&json!({"name": "pfifo"})));
        sim.step(Instant(500 * MS)).expect("a step");
        set(&mut sim, "flows[0].cc", &json!({"name": name}));
        let max_bw = |one: &Sim| control(one).model.expect("a model").max_bw;
        // 100 segments of 1.2112 ms are in flight: the first that leaves under the new control is acknowledged 121.12 ms later
        step(&mut sim, 120 * MS);
        assert_eq!(max_bw(&sim), 0, "{name}");
        step(&mut sim, 200 * MS);
        // the payload of 10 Mbit/s: 1448 B in 1.2112 ms
        let share = max_bw(&sim) as f64 / (1_448.0 / 1.211_2e-3);
        assert!((0.9..1.2).contains(&share), "{name}: {share}");
        step(&mut sim, 1_000 * MS);
        // another model of the same connection has samples at once, because the stamps of segments are there
        set(&mut sim, "flows[0].cc", &json!({"name": if name == "bbr1" { "bbr3" } else { "bbr1" }}));
        step(&mut sim, 10 * MS);
        assert!(max_bw(&sim) > 0, "{name}");
        sim.finish().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn every_control_takes_over_from_every_other() {
    let names: Vec<&str> = cc::specs().iter().map(|spec| spec.name).filter(|name| *name != "external").collect();
    for offload in ["none", "gso"] {
        for &first in &names {
            // with accurate counts any control goes on; who has no answer to marks does not agree to any
            let mut config = two_flows("pie");
            config["flows"][0] = json!({"cc": {"name": first}, "base_rtt": 5 * MS, "ecn_echo": "accecn"});
            config["hosts"]["offload"] = json!(offload);
            config["duration"] = json!(4_000 * MS);
            let mut sim = build(&config);
            step(&mut sim, 100 * MS);
            for &next in &names {
                step(&mut sim, 61_234_567);
                let refused = sim.set("flows[0].cc", &json!({"name": next})).err().map(|error| error.to_string());
                assert!(
                    refused.is_none_or(|text| ["constant", "bbr-draft"].contains(&first) && text.contains("not agreed to ECN")),
                    "{first} {next}"
                );
            }
            let before = sim.view().endpoints[0].payload;
            // a timeout may come before what lay in front of a hole is acknowledged
            step(&mut sim, 2_000 * MS);
            assert!(
                sim.view().endpoints[0].payload > before,
                "{first} {offload} {:?} {:?}",
                sim.view().endpoints[0],
                control(&sim)
            );
            sim.finish().unwrap_or_else(|error| panic!("{first} {offload}: {error}"));
        }
    }
}

#[test]
fn what_cannot_be_replaced_is_refused_by_name() {
    let mut config = two_flows("fq_codel");
    config["hosts"]["ecn"] = json!(false);
    config["flows"][1] = json!({"cc": {"name": "external"}});
    config["flows"].as_array_mut().expect("a list").push(json!({"cc": {"name": "cubic"}, "size": 1_000}));
    config["udp"] = json!([{"rate": MBIT}]);
    let mut sim = build(&config);
    sim.step(Instant(10 * MS)).expect("a step");
    let early = refuse(&mut sim, "flows[0].cc", &json!({"name": "reno"}));
    assert!(early.contains("reno for flow 0, whose handshake is on its way"), "{early}");
    sim.step(Instant(500 * MS)).expect("a step");
    for (key, value, wanted) in [
        ("flows[0].cc", json!({"name": "dctcp"}), "dctcp for flow 0, whose ends have not agreed to ECN"),
        ("flows[0].cc", json!({"name": "external"}), "external in the place of cubic for flow 0"),
        ("flows[1].cc", json!({"name": "cubic"}), "cubic in the place of external for flow 1"),
        ("flows[2].cc", json!({"name": "reno"}), "reno for flow 2, which is over"),
        ("flows[3].cc", json!({"name": "reno"}), "flow 3, which is UDP"),
        ("flows[0].cc", json!({"name": "renno"}), "renno"),
        ("flows[0].cc", json!({"name": "mine", "plugin": "0123"}), "a registered congestion control"),
        ("flows[0].cc", json!("reno"), "reno"),
        ("bottleneck.aqm", json!({"name": "mine", "plugin": "0123"}), "a registered queue discipline"),
        ("bottleneck.aqm", json!({"name": "codell"}), "codell"),
        ("bottleneck.aqm", json!({"name": "codel", "target": -1}), "-1"),
        ("bottleneck.aqm", json!(7), "7"),
        ("hop[0].aqm", json!({"name": "codel"}), "a hop that the run does not have"),
    ] {
        let said = refuse(&mut sim, key, &value);
        assert!(said.contains(wanted), "{said}");
    }
    let mut classic = build(&two_flows("codel"));
    classic.step(Instant(500 * MS)).expect("a step");
    let classically = refuse(&mut classic, "flows[0].cc", &json!({"name": "prague"}));
    assert!(classically.contains("prague for flow 0, whose receiver does not count CE (AccECN)"), "{classically}");
    set(&mut classic, "flows[0].cc", &json!({"name": "dctcp"}));
    let mut shaped = two_flows("cake");
    shaped["bottleneck"]["link"] = json!({"name": "unshaped"});
    let of_link = refuse(&mut build(&shaped), "bottleneck.aqm", &json!({"name": "codel"}));
    assert!(of_link.contains("found unshaped, allowed: a link with a rate"), "{of_link}");
}

#[test]
fn acknowledgements_that_lay_in_a_queue_are_counted_too() {
    let mut config = two_flows("codel");
    config["reverse"] = json!({"rate": 40_000, "aqm": {"name": "pfifo"}});
    let mut sim = build(&config);
    sim.step(Instant(600 * MS)).expect("a step");
    let hop = |one: &Sim| one.view_hops().remove(1);
    let before = hop(&sim);
    assert!(before.packets > 10, "{before:?}");
    // the next three have a clock, a shaper, and a filter of acknowledgements
    for (name, filter) in [("pie", None), ("cake", Some("aggressive")), ("pfifo", None)] {
        let (queued, dropped) = (hop(&sim).packets, hop(&sim).counters.drops_aqm);
        let mut aqm = json!({"name": name});
        if let Some(filter) = filter {
            aqm["ack_filter"] = json!(filter);
        }
        set(&mut sim, "reverse.aqm", &aqm);
        assert_eq!((hop(&sim).packets, hop(&sim).counters.drops_aqm), (0, dropped + queued), "{name}");
        step(&mut sim, 250 * MS);
    }
    sim.finish().expect("no invariant is broken");
}
