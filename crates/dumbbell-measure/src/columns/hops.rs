//! Tables of several hops.

use super::{columns, Waits, IN_QUEUE, LINE};
use crate::capacity::utilisation;
use crate::hop_log::{Backlog, HopCounts};
use dumbbell_core::histogram::Histogram;
use dumbbell_core::units::Instant;

/// A hop at the end of the measured time.
#[derive(Clone)]
pub struct HopRow {
    /// Name of the hop.
    pub name: String,
    /// Counts of the hop.
    pub counted: HopCounts,
    /// Times in queue.
    pub sojourn: Histogram,
    /// Rate that the link could carry.
    pub capacity_mbit: f64,
    /// Counters of the queue discipline itself, JSON.
    pub of_discipline: String,
    /// The measured time, s.
    pub seconds: f64,
}

impl HopRow {
    fn throughput_mbit(&self) -> f64 {
        self.counted.queue.line_bytes() as f64 * 8e-6 / self.seconds
    }

    fn utilisation(&self) -> f64 {
        let used = self.throughput_mbit() / self.capacity_mbit;
        if used <= 1.0 {
            used
        } else {
            utilisation(&self.counted.queue, self.capacity_mbit * 1e6 * self.seconds)
        }
    }
}

columns! {
    /// Hops.
    pub table Hops of HopRow {
        /// Name of the hop: bottleneck, that of a [[hop]], or reverse.
        hop: str = |row| row.name.as_str();
        /// Frames that left the link in the whole run, divided by what it could carry, 0 to 1. A burst that a bucket lends counts as it is paid back.
        #[doc = LINE]
        utilisation: f64 = HopRow::utilisation;
        /// Frames that the link could carry in the whole run, divided by the duration: by its rate, changes included, by its trace, or by the link that is named,
        /// with what others take of that.
        #[doc = LINE]
        capacity_mbit: f64 = |row| row.capacity_mbit, unit "Mbit/s", label "capacity";
        /// Frames that left the link in the whole run, divided by its duration.
        #[doc = LINE]
        throughput_mbit: f64 = HopRow::throughput_mbit, unit "Mbit/s", label "throughput";
        /// Packets of all traffic that left the link in the whole run.
        packets: u64 = |row| row.counted.queue.packets, unit "packets";
        /// Acknowledgements that left the link; packets has them, too.
        ack_packets: u64 = |row| row.counted.acks.departed, unit "packets", label "ACKs";
        /// Mean number of packets in the queue over the run, by Little's law: time in queue times packets over duration.
        backlog_mean_packets: f64 = |row| row.sojourn.mean() / 1e9 * row.counted.queue.packets as f64 / row.seconds, unit "packets",
            label "backlog, mean";
        /// Mean time in queue of all packets of the whole run that the queue gave to the link.
        #[doc = IN_QUEUE]
        sojourn_mean_ms: f64 = |row| row.sojourn.mean() / 1e6, unit "ms", label "time in queue, mean";
        /// all packets
        sojourn: Waits = |row| &row.sojourn;
        /// Mean time in queue of acknowledgements; NaN where there were none.
        #[doc = IN_QUEUE]
        ack_sojourn_mean_ms: f64 = |row| row.counted.acks.sojourn_ns as f64 / row.counted.acks.sent as f64 / 1e6, unit "ms",
            label "time in queue of ACKs, mean";
        /// CE marks by the queue in the whole run; a packet that was CE already counts, as in Linux.
        ce_marks: u64 = |row| row.counted.queue.ce_marks, unit "packets", label "CE marks";
        /// SCE marks (ECT(1)) by the queue in the whole run.
        sce_marks: u64 = |row| row.counted.queue.sce_marks, unit "packets", label "SCE marks";
        /// Packets dropped because the queue was full.
        drops_overflow: u64 = |row| row.counted.queue.drops_overflow, unit "packets", label "drops, overflow";
        /// Packets dropped by the AQM, or in a queue discipline that another one replaced.
        drops_aqm: u64 = |row| row.counted.queue.drops_aqm, unit "packets", label "drops, AQM";
        /// Packets that the queue dropped in the whole run, for whatever reason.
        drops: u64 = |row| row.counted.drops(), unit "packets";
        /// Acknowledgements that the queue dropped; drops has them, too.
        ack_drops: u64 = |row| row.counted.acks.dropped, unit "packets", label "drops of ACKs";
        /// CE marks over packets that left the link.
        mark_share: f64 = |row| row.counted.queue.ce_marks as f64 / row.counted.queue.packets.max(1) as f64, label "share of CE marks";
        /// Drops by the queue over drops and packets that left the link.
        drop_share: f64 = |row| row.counted.drops() as f64 / (row.counted.queue.packets + row.counted.drops()).max(1) as f64,
            label "share of drops";
        /// JSON: counters that only some disciplines have, over the whole run, as in table runs.
        aqm_counters: str = |row| row.of_discipline.as_str(), label "counters of the queue discipline";
    }
}

/// A hop at a point of the time series.
#[derive(Clone)]
pub struct HopSeriesRow {
    /// The point.
    pub time: Instant,
    /// Name of the hop.
    pub hop: String,
    /// Backlog of the queue.
    pub backlog: Backlog,
    /// Counts of the interval before.
    pub since: HopCounts,
    /// Rate that the link could carry in the interval.
    pub capacity_mbit: f64,
    /// Length of the interval, s.
    pub seconds: f64,
}

columns! {
    /// Hops over time.
    pub table HopSeries of HopSeriesRow {
        /// End of the interval; record.interval is its length.
        time_s: f64 = |row| row.time.as_secs_f64(), unit "s", label "time";
        /// Name of the hop: bottleneck, that of a [[hop]], or reverse.
        hop: str = |row| row.hop.as_str();
        /// Packets in the queue at this time.
        backlog_packets: u64 = |row| row.backlog.packets, unit "packets", label "backlog";
        /// Bytes in the queue at this time.
        backlog_bytes: u64 = |row| row.backlog.bytes, unit "bytes", label "backlog";
        /// Mean time in queue of the packets that the queue gave to the link in the interval; 0 if there were none.
        sojourn_mean_ms: f64 = |row| match row.since.queue.sent {
            0 => 0.0,
            sent => row.since.queue.sojourn_ns as f64 / sent as f64 / 1e6,
        }, unit "ms", label "time in queue, mean";
        /// Frames that left the link in the interval, divided by its length.
        #[doc = LINE]
        throughput_mbit: f64 = |row| row.since.queue.line_bytes() as f64 * 8e-6 / row.seconds, unit "Mbit/s", label "throughput";
        /// Rate that the link could carry in the interval.
        #[doc = LINE]
        capacity_mbit: f64 = |row| row.capacity_mbit, unit "Mbit/s", label "capacity";
        /// Acknowledgements that left the link in the interval.
        ack_packets: u64 = |row| row.since.acks.departed, unit "packets", label "ACKs";
        /// CE marks by the queue in the interval.
        ce_marks: u64 = |row| row.since.queue.ce_marks, unit "packets", label "CE marks";
        /// SCE marks by the queue in the interval.
        sce_marks: u64 = |row| row.since.queue.sce_marks, unit "packets", label "SCE marks";
        /// Packets that the queue dropped in the interval, for whatever reason.
        drops: u64 = |row| row.since.drops(), unit "packets";
        /// Acknowledgements that the queue dropped in the interval.
        ack_drops: u64 = |row| row.since.acks.dropped, unit "packets", label "drops of ACKs";
        /// Packets that left the link in the interval, acknowledgements included.
        packets: u64 = |row| row.since.queue.packets, unit "packets", digest false;
    }
}
