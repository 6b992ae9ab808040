//! The trace of a flow's congestion control: a row whenever its state changes, and besides at most one per interval. Times are on the sender's clock.
//! A stack reports no states: it has one row per interval.

use crate::columns::{self, TraceRow};
use crate::flow::SenderState;
use crate::table::{Table, UNREPORTED};
use dumbbell_core::cc::conn::CaState;
use dumbbell_core::cc::Model;
use dumbbell_core::protocol::ProtocolStats;
use dumbbell_core::tcp::sender::Sender;
use dumbbell_core::tcp::stats::SenderStats;
use dumbbell_core::units::{Duration, Instant};

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
struct LastRow {
    state: Option<State>,
    at: Instant,
}

/// Rows so far.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    interval: Duration,
    last: Vec<LastRow>,
    rows: Vec<TraceRow>,
}

impl Trace {
    /// Returns a trace of `flows` flows, with at most one row per `interval` while the state is the same.
    pub fn new(interval: Duration, flows: usize) -> Trace {
        Trace { interval, last: vec![LastRow::default(); flows], ..Trace::default() }
    }

    /// Something happened to flow `number`, at `now` on its clock. `backlog` says how many bytes are in the queue.
    pub fn record_sender(&mut self, number: u32, sender: &Sender, now: Instant, backlog: impl FnOnce() -> u64) {
        let (model, conn) = (sender.model(), &sender.conn);
        if !self.is_due(number, model.as_ref(), conn.state(), now) {
            return;
        }
        self.rows.push(TraceRow {
            time: now,
            flow: number,
            model,
            ca_state: conn.state(),
            pacing_rate: conn.pacing_rate,
            sender: SenderState::from(sender),
            delivered: conn.delivered_segments(),
            delivered_ce: conn.delivered_ce(),
            lost: sender.count_lost(),
            stats: sender.stats(),
            is_app_limited: sender.is_app_limited(),
            backlog_bytes: backlog(),
        });
    }

    /// Does the same as [`Trace::record_sender`] for a flow whose transport is no TCP, reports `stats` and has `sent` packets.
    pub fn record_stack(&mut self, number: u32, stats: &ProtocolStats, sent: u64, now: Instant, backlog: impl FnOnce() -> u64) {
        if !self.is_due(number, None, CaState::Open, now) {
            return;
        }
        let sender = SenderState::from(stats);
        self.rows.push(TraceRow {
            time: now,
            flow: number,
            model: None,
            ca_state: CaState::Open,
            pacing_rate: stats.pacing_rate.unwrap_or(u64::MAX),
            sender,
            delivered: stats.received / stats.segment.max(1),
            delivered_ce: stats.ce.unwrap_or(0),
            lost: sender.retransmissions,
            stats: SenderStats {
                sent,
                retransmissions: sender.retransmissions,
                timeouts: stats.probes.unwrap_or(UNREPORTED),
                loss_reductions: stats.loss_reductions.unwrap_or(UNREPORTED),
                ..SenderStats::default()
            },
            is_app_limited: false,
            backlog_bytes: backlog(),
        });
    }

    /// Returns whether a row of flow `number` is due, whose control has this model, if it has one. If so, it counts as written.
    fn is_due(&mut self, number: u32, model: Option<&Model>, ca: CaState, now: Instant) -> bool {
        let is_set = |flag: fn(&Model) -> Option<bool>| model.and_then(flag) == Some(true);
        let state = State {
            name: model.map_or("", |one| one.state),
            ca,
            full_bw_now: is_set(|one| one.full_bw_now),
            full_bw_reached: is_set(|one| one.full_bw_reached),
            idle_restart: is_set(|one| one.idle_restart),
        };
        let last = &mut self.last[number as usize];
        if last.state == Some(state) && now < last.at.saturating_add(self.interval) {
            return false;
        }
        *last = LastRow { state: Some(state), at: now };
        true
    }

    /// The rows as a table.
    pub fn table(&self) -> Table {
        columns::Trace::table(&self.rows)
    }
}
