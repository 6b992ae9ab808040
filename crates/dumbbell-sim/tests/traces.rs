//! Traces of congestion controls.

use dumbbell_core::units::Instant;
use dumbbell_measure::columns;
use dumbbell_measure::table::{Column, Table};
use dumbbell_sim::Sim;
use serde_json::json;

fn run_traced(trace: Option<Instant>) -> (Table, u64) {
    let config = json!({"duration": 2_000_000_000_u64, "bottleneck": {"aqm": {"name": "pfifo", "limit": 20}},
        "flows": [{"cc": {"name": "cubic"}, "base_rtt": 20_000_000}, {"cc": {"name": "reno"}, "start": {"min": 500_000_000, "max": 500_000_000}}],
        "udp": [{"rate": 100_000}], "record": {"trace": trace.map(|time| time.0)}});
    let outcome = Sim::new(&config).unwrap().finish().unwrap();
    (outcome.tables.trace, outcome.tables.flows.int("sent").unwrap()[0])
}

#[test]
fn without_an_interval_there_is_no_trace_but_its_columns_are_there() {
    let (table, _) = run_traced(None);
    assert_eq!((table.height(), table.columns.len()), (0, columns::Trace::specs().len()));
}

#[test]
fn rows_are_an_interval_apart_or_the_state_changed() {
    let (table, sent) = run_traced(Some(Instant::from_millis(100)));
    let Column::Text(states) = &table.columns[3].1 else { panic!("ca_state is text") };
    assert!(["open", "disorder", "recovery"].iter().all(|state| states.iter().any(|found| found == state)), "{states:?}");
    let (times, flows) = (table.real("time_s").unwrap(), table.int("flow").unwrap());
    for flow in [0, 1] {
        let own: Vec<usize> = (0..table.height()).filter(|&row| flows[row] == flow).collect();
        assert!(own.len() > 15 && own.windows(2).all(|two| times[two[0]] <= times[two[1]]));
        for two in own.windows(2).filter(|two| states[two[0]] == states[two[1]]) {
            assert!(times[two[1]] - times[two[0]] > 0.0999, "flow {flow}: {} {}", times[two[0]], times[two[1]]);
        }
    }
    // the sender's own clock: the SYN leaves when the flow starts
    assert_eq!(times[flows.iter().position(|&flow| flow == 1).unwrap()], 0.5);
    let last = flows.iter().rposition(|&flow| flow == 0).unwrap();
    let counted = table.int("sent").unwrap()[last];
    assert!(counted > 500 && counted <= sent, "{counted} of {sent}");
}

#[test]
fn with_an_interval_of_zero_every_event_has_a_row() {
    let (all, some) = (run_traced(Some(Instant::ZERO)).0, run_traced(Some(Instant::from_millis(1))).0);
    assert!(all.height() > some.height() && all.height() > 1000, "{} {}", all.height(), some.height());
}

/// Rows are results: a shortcut of the engine that calls an endpoint at another time without effect would add rows or move them.
#[test]
fn the_rows_of_a_trace_are_as_they_were() {
    let (table, _) = run_traced(Some(Instant::ZERO));
    let nanoseconds: u64 = table.real("time_s").unwrap().iter().map(|time| (time * 1e9).round() as u64).sum();
    assert_eq!((table.height(), nanoseconds), (1273, 1_243_808_596_400));
}
