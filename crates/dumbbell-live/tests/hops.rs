//! Tests the hops of runs on the real clock: the bottleneck, and with `--engine live` a queue on the way back.

use serde_json::{json, Value};

fn run(with: &[(&str, Value)]) -> Value {
    let flow = json!({"cc": {"name": "cubic"}});
    let mut run = json!({"duration": 1_000_000_000, "bottleneck": {"aqm": {"name": "codel"}}, "flows": [flow]});
    for (pointer, value) in with {
        let (place, key) = pointer.rsplit_once('/').expect("a pointer");
        run.pointer_mut(place).expect("a place")[key] = value.clone();
    }
    run
}

/// The key that `--engine live` refuses; `None` if it refuses none, or only the congestion control, which this machine may lack.
fn refused_key(with: &[(&str, Value)]) -> Option<String> {
    dumbbell_live::run::check(&run(with)).err().map(|error| error.key).filter(|key| key != "flows[0].cc")
}

#[test]
fn both_directions_are_taken_and_other_hops_refused_by_name() {
    let codel = json!({"aqm": {"name": "codel"}});
    let cake = json!({"aqm": {"name": "cake", "ack_filter": "on"}});
    let reverse = || ("/reverse", codel.clone());
    let up = ("/flows/0/direction", json!("up"));
    assert_eq!(refused_key(&[reverse()]), None);
    assert_eq!(refused_key(&[reverse(), up]), None);
    let cases = [
        (vec![("/hop", json!([{"name": "second", "aqm": {"name": "codel"}}]))], "hop"),
        (vec![("/bottleneck/delay", json!(1_000_000))], "bottleneck.delay"),
        (vec![reverse(), ("/reverse/delay", json!(1_000_000))], "reverse.delay"),
        (vec![reverse(), ("/flows/0/ack_route", json!([]))], "flows[0].ack_route"),
        (vec![reverse(), ("/flows/0/route", json!(["reverse"])), ("/flows/0/ack_route", json!([]))], "flows[0].route"),
        (vec![("/reverse", cake)], "reverse.aqm.ack_filter"),
        (vec![("/reverse", json!({"aqm": {"name": "csaqm"}}))], "reverse.aqm"),
        (vec![reverse(), ("/reverse/path", json!([{"name": "loss"}]))], "reverse.path"),
    ];
    for (with, key) in cases {
        assert_eq!(refused_key(&with).as_deref(), Some(key), "{with:?}");
    }
}

#[test]
fn a_shell_is_told_of_one_hop_for_each_direction() {
    let codel = json!({"aqm": {"name": "codel"}});
    let hops = dumbbell_live::shell::check(&run(&[("/reverse", codel)])).expect_err("two hops").to_string();
    assert!(hops.starts_with("hop: found several hops, or routes, allowed: one hop"), "{hops}");
    let filter = json!({"name": "cake", "ack_filter": "aggressive"});
    let filtered = dumbbell_live::shell::check(&run(&[("/bottleneck/aqm", filter)])).expect_err("a filter");
    assert_eq!(filtered.key, "bottleneck.aqm.ack_filter");
    assert!(dumbbell_live::shell::check(&run(&[])).is_ok());
}
