//! The trace of a flow's congestion control: a row whenever its state changes, and besides at most one per interval. Times are on the sender's clock.

use crate::table::{Column, Table};
use dumbbell_core::cc::conn::CaState;
use dumbbell_core::cc::Model;
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
    time_s: Vec<f64>,
    flow: Vec<u64>,
    state: Vec<String>,
    ca_state: Vec<String>,
    /// In the order of [`REALS`].
    reals: [Vec<f64>; REALS.len()],
    /// In the order of [`COUNTS`].
    counts: [Vec<u64>; COUNTS.len()],
}

/// Real columns; NaN where there is no value.
const REALS: [&str; 13] = [
    "max_bw_mbit",
    "bw_mbit",
    "bw_shortterm_mbit",
    "inflight_shortterm",
    "inflight_longterm",
    "inflight_bdp",
    "min_rtt_ms",
    "probe_up_step",
    "pacing_gain",
    "cwnd_gain",
    "ecn_alpha",
    "pacing_rate_mbit",
    "srtt_ms",
];

/// Integer columns.
const COUNTS: [&str; 16] = [
    "round",
    "extra_acked",
    "full_bw_now",
    "full_bw_reached",
    "idle_restart",
    "cwnd",
    "in_flight",
    "delivered",
    "delivered_ce",
    "lost",
    "sent",
    "retransmissions",
    "timeouts",
    "undone",
    "app_limited",
    "backlog_bytes",
];

/// Bytes per second as Mbit/s.
fn mbit(bytes: u64) -> f64 {
    bytes as f64 * 8e-6
}

fn or_nan(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
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
        self.time_s.push(now.as_secs_f64());
        self.flow.push(u64::from(number));
        self.state.push(known.state.to_owned());
        self.ca_state.push(state.ca.name().to_owned());
        for (column, value) in self.reals.iter_mut().zip(reals(model.as_ref(), sender)) {
            column.push(value);
        }
        let (conn, stats) = (&sender.conn, &sender.stats);
        let counts = [
            known.round,
            u64::from(known.extra_acked),
            u64::from(known.full_bw_now),
            u64::from(known.full_bw_reached),
            u64::from(known.idle_restart),
            u64::from(conn.cwnd),
            u64::from(conn.in_flight()),
            conn.delivered(),
            conn.delivered_ce(),
            sender.lost(),
            stats.sent,
            stats.retransmissions,
            stats.timeouts,
            stats.undone,
            u64::from(sender.is_app_limited()),
            backlog(),
        ];
        for (column, value) in self.counts.iter_mut().zip(counts) {
            column.push(value);
        }
    }

    /// The rows as a table.
    pub fn table(self) -> Table {
        let mut columns = vec![
            ("time_s", Column::F64(self.time_s)),
            ("flow", Column::U64(self.flow)),
            ("state", Column::Text(self.state)),
            ("ca_state", Column::Text(self.ca_state)),
        ];
        columns.extend(REALS.into_iter().zip(self.reals.into_iter().map(Column::F64)));
        columns.extend(COUNTS.into_iter().zip(self.counts.into_iter().map(Column::U64)));
        Table::new(columns)
    }
}

/// The values of [`REALS`].
fn reals(model: Option<&Model>, sender: &Sender) -> [f64; REALS.len()] {
    let paced = sender.conn.pacing_rate;
    let pacing_rate = if paced == u64::MAX { f64::NAN } else { mbit(paced) };
    let srtt_us = sender.conn.rtt().srtt_us();
    let srtt_ms = if srtt_us == 0 { f64::NAN } else { f64::from(srtt_us) / 1e3 };
    let Some(model) = model else {
        let mut none = [f64::NAN; REALS.len()];
        none[REALS.len() - 2..].copy_from_slice(&[pacing_rate, srtt_ms]);
        return none;
    };
    [
        mbit(model.max_bw),
        mbit(model.bw),
        or_nan(model.bw_shortterm.map(mbit)),
        or_nan(model.inflight_shortterm.map(f64::from)),
        or_nan(model.inflight_longterm.map(f64::from)),
        f64::from(model.inflight),
        or_nan(model.min_rtt_us.map(|us| f64::from(us) / 1e3)),
        or_nan(model.probe_up_step.map(f64::from)),
        model.pacing_gain,
        model.cwnd_gain,
        or_nan(model.ecn_alpha),
        pacing_rate,
        srtt_ms,
    ]
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
        assert_eq!((table.height(), table.columns.len()), (0, super::REALS.len() + super::COUNTS.len() + 4));
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
