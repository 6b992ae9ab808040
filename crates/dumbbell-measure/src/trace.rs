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
            stats: sender.stats(),
            is_app_limited: sender.is_app_limited(),
            backlog_bytes: backlog(),
        });
    }

    /// The rows as a table.
    pub fn table(&self) -> Table {
        columns::Trace::table(&self.rows)
    }
}
