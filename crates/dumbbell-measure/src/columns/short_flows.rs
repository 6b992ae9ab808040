//! Tables of short flows.

use super::{columns, Binned};
use crate::short_flows::{FlowBinRow, ShortFlow};
use dumbbell_core::units::Duration;

/// A short flow.
pub struct ShortFlowsRow<'a> {
    /// The flow.
    pub flow: &'a ShortFlow,
    /// Completion over that on an empty link; NaN if it did not end.
    pub slowdown: f64,
}

columns! {
    /// Short flows one by one.
    pub table ShortFlows of ShortFlowsRow<'_> {
        /// Number in the run: those of [[flows]], [[udp]] and [[app]] come first.
        flow: u64 = |row| u64::from(row.flow.number);
        /// Number of the class of traffic in its run, as in table classes.
        class: u64 = |row| u64::from(row.flow.class);
        /// Payload of the flow.
        size_bytes: u64 = |row| row.flow.size, unit "bytes", label "size";
        /// When its SYN was sent.
        start_s: f64 = |row| row.flow.start.as_secs_f64(), unit "s", label "start";
        /// From its SYN until everything was acknowledged; NaN if the run ended before.
        completion_s: f64 = |row| row.flow.completion.map_or(f64::NAN, Duration::as_secs_f64), unit "s", label "completion time";
        /// Completion time over size/rate + base RTT, what the payload takes on an empty link in one round trip.
        slowdown: f64 = |row| row.slowdown, label "slow-down";
    }
}

columns! {
    /// Short flows by class and size.
    pub table Slowdowns of FlowBinRow<'_> {
        /// Number of the class of traffic in its run, as in table classes.
        class: u64 = |row| u64::from(row.class);
        /// Lower end of the range of sizes, which belongs to it.
        from_bytes: u64 = |row| row.from, unit "bytes", label "size, from";
        /// Upper end of the range of sizes, which does not belong to it.
        to_bytes: u64 = |row| row.to, unit "bytes", label "size, to";
        /// Short flows of the class and these sizes that began: all, not a sample.
        flows: u64 = |row| row.bin.started, unit "flows", label "short flows";
        /// How many of them were complete before the run ended.
        finished: u64 = |row| row.bin.slowdown.total(), unit "flows", label "short flows finished";
        /// Mean completion time of those that finished.
        completion_mean_s: f64 = |row| row.of_finished(|bin| bin.completion.mean() / 1e9), unit "s", label "completion time, mean";
        /// Completion time that 50 % of those that finished did not exceed.
        completion_p50_s: Binned = |row| row.completion(0.5), unit "s", label "completion time, P50";
        /// Completion time that 95 % of those that finished did not exceed.
        completion_p95_s: Binned = |row| row.completion(0.95), unit "s", label "completion time, P95";
        /// Completion time that 99 % of those that finished did not exceed.
        completion_p99_s: Binned = |row| row.completion(0.99), unit "s", label "completion time, P99";
        /// Mean of completion time over size/rate + base RTT.
        slowdown_mean: f64 = |row| row.of_finished(|bin| bin.slowdown_sum / bin.slowdown.total() as f64), label "slow-down, mean";
        /// Completion time over size/rate + base RTT that 50 % of those that finished did not exceed.
        slowdown_p50: Binned = |row| row.slowdown(0.5), label "slow-down, P50";
        /// Completion time over size/rate + base RTT that 95 % of those that finished did not exceed.
        slowdown_p95: Binned = |row| row.slowdown(0.95), label "slow-down, P95";
        /// Completion time over size/rate + base RTT that 99 % of those that finished did not exceed.
        slowdown_p99: Binned = |row| row.slowdown(0.99), label "slow-down, P99";
    }
}
