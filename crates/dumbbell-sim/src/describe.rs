//! States and outcomes of runs as JSON, for programs in other languages.

use crate::table::{Column, Table};
use crate::{HopView, Outcome, Sim, View};
use serde_json::{json, Map, Value};

/// Returns `{summary, digest, tables}`; a table is its columns by name, and NaN is null.
pub fn describe_outcome(outcome: &Outcome) -> Value {
    let columns = |table: &Table| -> Value {
        let column = |column: &Column| match column {
            Column::U64(values) => json!(values),
            Column::F64(values) => json!(values),
            Column::Text(values) => json!(values),
        };
        table.columns.iter().map(|(name, values)| (name.to_string(), column(values))).collect::<Map<_, _>>().into()
    };
    let tables: Map<String, Value> =
        outcome.tables.named_tables().map(|(name, table)| (name.to_owned(), columns(table))).into_iter().collect();
    json!({"summary": outcome.summary, "digest": outcome.hash, "tables": tables})
}

/// Returns the present state of a run: time, the queue of the bottleneck with its counters and states, and `endpoints`.
pub fn describe_view(sim: &Sim) -> Value {
    let View { now, events, queued_packets, queued_bytes, queue, endpoints } = sim.view();
    let hops: Vec<HopView> = sim.view_hops();
    let states = hops.first().map_or(&[][..], |bottleneck| &bottleneck.states);
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|one| {
            json!({
                "number": one.number,
                "class": one.class,
                "payload": one.payload,
                "cwnd": one.sender.cwnd,
                "ssthresh": one.sender.ssthresh,
                "in_flight": one.sender.in_flight,
                "srtt_ms": f64::from(one.sender.srtt_us) / 1e3,
            })
        })
        .collect();
    json!({
        "time_ms": now.0 as f64 / 1e6,
        "events": events,
        "backlog_packets": queued_packets,
        "backlog_bytes": queued_bytes,
        "packets": queue.packets,
        "bytes": queue.bytes,
        "ce_marks": queue.ce_marks,
        "sce_marks": queue.sce_marks,
        "drops_overflow": queue.drops_overflow,
        "drops_aqm": queue.drops_aqm,
        "states": states.iter().map(|&(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>(),
        "endpoints": endpoints,
    })
}
