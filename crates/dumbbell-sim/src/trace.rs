//! The trace of a flow's congestion control: a row whenever its state changes, and besides at most one per interval. Times are on the sender's clock.

use crate::columns::{self, TraceRow};
use crate::table::Table;
use dumbbell_core::cc::conn::CaState;
use dumbbell_core::tcp::sender::Sender;
use dumbbell_core::units::Time;

/// What counts as the state of a flow: a row is written when it changes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    name: &'static str,
    ca: CaState,
    full_bw_now: bool,
    full_bw_reached: bool,
    idle_restart: bool,
}

/// The last row of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    state: Option<State>,
    at: Time,
}

/// Rows so far.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    interval: Time,
    last: Vec<Last>,
    rows: Vec<TraceRow>,
}

impl Trace {
    /// Of `flows` flows, with at most a row an `interval` while the state is the same.
    pub fn new(interval: Time, flows: usize) -> Trace {
        Trace { interval, last: vec![Last::default(); flows], ..Trace::default() }
    }

    /// Something happened to flow `number`, at `now` on its clock. `backlog` says how many bytes are in the queue.
    pub fn look(&mut self, number: u32, sender: &Sender, now: Time, backlog: impl FnOnce() -> u64) {
        let model = sender.model();
        let known = model.unwrap_or_default();
        let state = State {
            name: known.state,
            ca: sender.conn.state(),
            full_bw_now: known.full_bw_now,
            full_bw_reached: known.full_bw_reached,
            idle_restart: known.idle_restart,
        };
        let last = &mut self.last[number as usize];
        if last.state == Some(state) && now < last.at.saturating_add(self.interval) {
            return;
        }
        *last = Last { state: Some(state), at: now };
        let conn = &sender.conn;
        self.rows.push(TraceRow {
            time: now,
            flow: number,
            model,
            ca_state: state.ca,
            pacing_rate: conn.pacing_rate,
            srtt_us: conn.rtt().srtt_us(),
            cwnd: conn.cwnd,
            in_flight: conn.in_flight(),
            delivered: conn.delivered(),
            delivered_ce: conn.delivered_ce(),
            lost: sender.lost(),
            stats: sender.stats,
            is_app_limited: sender.is_app_limited(),
            backlog_bytes: backlog(),
        });
    }

    /// The rows as a table.
    pub fn table(&self) -> Table {
        columns::Trace::table(&self.rows)
    }
}

#[cfg(test)]
mod tests {
    use crate::table::{Column, Table};
    use crate::Sim;
    use dumbbell_core::units::Time;
    use serde_json::json;

    fn traced(trace: Option<Time>) -> (Table, u64) {
        let config = json!({"duration": 2_000_000_000_u64, "bottleneck": {"aqm": {"name": "pfifo", "limit": 20}},
            "flows": [{"cc": {"name": "cubic"}, "base_rtt": 20_000_000}, {"cc": {"name": "reno"}, "start": {"min": 500_000_000, "max": 500_000_000}}],
            "udp": [{"rate": 100_000}], "record": {"trace": trace.map(|time| time.0)}});
        let outcome = Sim::new(&config).unwrap().finish().unwrap();
        (outcome.tables.trace, outcome.tables.flows.int("sent").unwrap()[0])
    }

    #[test]
    fn without_an_interval_there_is_no_trace_but_its_columns_are_there() {
        let (table, _) = traced(None);
        assert_eq!((table.height(), table.columns.len()), (0, crate::columns::Trace::specs().len()));
    }

    #[test]
    fn rows_are_an_interval_apart_or_the_state_changed() {
        let (table, sent) = traced(Some(Time::from_millis(100)));
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
        let (all, some) = (traced(Some(Time::ZERO)).0, traced(Some(Time::from_millis(1))).0);
        assert!(all.height() > some.height() && all.height() > 1000, "{} {}", all.height(), some.height());
    }
}
