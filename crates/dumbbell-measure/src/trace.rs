//! The trace of a flow's congestion control: a row whenever its state changes, and besides at most one per interval. Times are on the sender's clock.
//! A stack has no states that are known here: it has a row per interval of what it tells.

use crate::columns::{self, TraceRow};
use crate::table::{Table, UNTOLD};
use dumbbell_config::protocol::ProtocolStats;
use dumbbell_core::cc::conn::CaState;
use dumbbell_core::tcp::sender::Sender;
use dumbbell_core::tcp::stats::SenderStats;
use dumbbell_core::units::{Duration, Time};

/// State of a flow: a row is written when it changes.
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
    interval: Duration,
    last: Vec<Last>,
    rows: Vec<TraceRow>,
}

impl Trace {
    /// Returns a trace of `flows` flows, with at most one row per `interval` while the state is the same.
    pub fn new(interval: Duration, flows: usize) -> Trace {
        Trace { interval, last: vec![Last::default(); flows], ..Trace::default() }
    }

    /// Something happened to flow `number`, at `now` on its clock. `backlog` says how many bytes are in the queue.
    pub fn look(&mut self, number: u32, sender: &Sender, now: Time, backlog: impl FnOnce() -> u64) {
        let model = sender.model();
        let known = model.unwrap_or_default();
        let state = State {
            name: known.state,
            ca: sender.conn.state(),
            full_bw_now: known.full_bw_now == Some(true),
            full_bw_reached: known.full_bw_reached == Some(true),
            idle_restart: known.idle_restart == Some(true),
        };
        if !self.is_due(number, state, now) {
            return;
        }
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
            delivered: conn.delivered_segments(),
            delivered_ce: conn.delivered_ce(),
            lost: sender.count_lost(),
            stats: sender.stats(),
            is_app_limited: sender.is_app_limited(),
            backlog_bytes: backlog(),
        });
    }

    /// Something happened to flow `number`, whose transport is no TCP and has sent so many packets; as [`Trace::look`].
    pub fn look_told(&mut self, number: u32, told: &ProtocolStats, sent: u64, now: Time, backlog: impl FnOnce() -> u64) {
        let state = State { name: "", ca: CaState::Open, full_bw_now: false, full_bw_reached: false, idle_restart: false };
        if !self.is_due(number, state, now) {
            return;
        }
        let segments = |bytes: Option<u64>| u32::try_from(bytes.unwrap_or(0) / told.segment.max(1)).unwrap_or(u32::MAX);
        self.rows.push(TraceRow {
            time: now,
            flow: number,
            model: None,
            ca_state: CaState::Open,
            pacing_rate: told.pacing_rate.unwrap_or(u64::MAX),
            srtt_us: told.srtt.map_or(0, |srtt| u32::try_from(srtt.0 / 1000).unwrap_or(u32::MAX).max(1)),
            cwnd: segments(told.cwnd),
            in_flight: segments(told.in_flight),
            delivered: told.received / told.segment.max(1),
            delivered_ce: told.ce.unwrap_or(0),
            lost: told.lost.unwrap_or(UNTOLD),
            stats: SenderStats {
                sent,
                retransmissions: told.lost.unwrap_or(UNTOLD),
                timeouts: told.probes.unwrap_or(UNTOLD),
                loss_reductions: told.reductions.unwrap_or(UNTOLD),
                ..SenderStats::default()
            },
            is_app_limited: false,
            backlog_bytes: backlog(),
        });
    }

    /// Whether a row of flow `number` is due, which is in `state`. If so, it counts as written.
    fn is_due(&mut self, number: u32, state: State, now: Time) -> bool {
        let last = &mut self.last[number as usize];
        if last.state == Some(state) && now < last.at.saturating_add(self.interval) {
            return false;
        }
        *last = Last { state: Some(state), at: now };
        true
    }

    /// The rows as a table.
    pub fn table(&self) -> Table {
        columns::Trace::table(&self.rows)
    }
}
