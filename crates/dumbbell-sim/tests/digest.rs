//! Tests the parts of a run that its digest covers.

use dumbbell_measure::table::Column;
use dumbbell_sim::{Outcome, Sim, Tables};
use serde_json::{json, Value};

#[test]
fn measures_that_came_later_are_beside_the_digest_and_no_others() {
    let config = json!({"duration": 1_000_000_000, "bottleneck": {"aqm": {"name": "codel"}}, "udp": [{}]});
    let outcome = Sim::new(&config).and_then(|sim| sim.finish().map_err(|error| panic!("{error}"))).expect("a run");
    let again =
        |summary: &Value, tables: &Tables| Outcome::new(summary.as_object().expect("an object").clone(), tables.clone()).hash;
    let names: Vec<String> = outcome.summary.as_object().expect("an object").keys().cloned().collect();
    let later = |name: &str| {
        name.starts_with("delay_")
            || name.starts_with("jitter_")
            || [
                "sojourn_p95_ms",
                "direction",
                "answers",
                "slow_start_exit",
                "slow_start_exit_s",
                "closed",
                "closed_s",
                "spurious",
                "ce_reported",
                "common_s",
                "goodput_common_mbit",
                "loss_share",
                "events",
            ]
            .contains(&name)
    };
    assert_eq!(names.iter().filter(|name| later(name)).count(), 10);
    for name in &names {
        let mut changed = outcome.summary.clone();
        changed[name] = json!("changed");
        assert_eq!(again(&changed, &outcome.tables) == outcome.hash, later(name), "{name}");
    }
    for of_flows in [true, false] {
        let columns = if of_flows { &outcome.tables.flows.columns } else { &outcome.tables.classes.columns };
        assert_eq!(columns.iter().filter(|(name, _)| later(name)).count(), if of_flows { 17 } else { 9 });
        for (number, (name, _)) in columns.iter().enumerate() {
            let mut changed = outcome.tables.clone();
            let table = if of_flows { &mut changed.flows } else { &mut changed.classes };
            table.columns[number].1 = Column::Text(vec!["changed".to_owned()]);
            assert_eq!(again(&outcome.summary, &changed) == outcome.hash, later(name), "{name}");
        }
    }
}
