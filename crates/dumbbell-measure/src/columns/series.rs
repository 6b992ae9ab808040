//! Tables over time, and histograms.

use super::{columns, IN_QUEUE, LINE, SENDERS, TIMED};
use crate::statistics::ms;
use dumbbell_core::units::{Duration, Instant};

/// A listed flow at a point of the time series.
#[derive(Clone, Debug)]
pub struct SeriesRow {
    /// The point.
    pub time_s: f64,
    /// Number of the flow.
    pub flow: u64,
    /// In the interval before.
    pub goodput_mbit: f64,
    /// NaN for UDP.
    pub srtt_ms: f64,
    /// Segments; this and what follows is 0 for UDP.
    pub cwnd: u32,
    /// Segments.
    pub ssthresh: u32,
    /// Segments.
    pub in_flight: u32,
    /// In the interval before.
    pub retransmissions: u64,
    /// Mean of the answers in the interval before; NaN of none.
    pub rtt_ms: f64,
    /// Packets with data that the sender sent in the interval before.
    pub sent: u64,
    /// Packets of the flow that queues dropped in the interval before.
    pub drops: u64,
}

columns! {
    /// Flows over time.
    pub table Series of SeriesRow {
        /// End of the interval; record.interval is its length.
        time_s: f64 = |row| row.time_s, unit "s", label "time";
        /// Number of the flow or source of UDP, as in table flows.
        flow: u64 = |row| row.flow;
        /// Payload that was acknowledged (UDP: received; dumbbell shell: that left the link) in the interval over its length.
        goodput_mbit: f64 = |row| row.goodput_mbit, unit "Mbit/s", label "goodput";
        /// Smoothed RTT of the sender at this time; 0 before the first sample.
        srtt_ms: f64 = |row| row.srtt_ms, unit "ms", label "smoothed RTT", by SENDERS;
        /// Congestion window at this time.
        cwnd: u64 = |row| u64::from(row.cwnd), unit "segments", label "congestion window", by SENDERS;
        /// Slow-start threshold at this time.
        ssthresh: u64 = |row| u64::from(row.ssthresh), unit "segments", label "slow-start threshold", by SENDERS;
        /// Sender's estimate of segments in flight at this time.
        in_flight: u64 = |row| u64::from(row.in_flight), unit "segments", label "segments in flight", by SENDERS;
        /// Data packets sent again in the interval.
        retransmissions: u64 = |row| row.retransmissions, unit "packets", by SENDERS;
        /// Mean RTT of the answers to UDP with echo (pings), and of datagrams of QUIC stacks, that came back in the interval; NaN if none did, and of TCP.
        rtt_ms: f64 = |row| row.rtt_ms, unit "ms", label "RTT of answers, mean", by TIMED, digest false;
        /// Packets with data that the sender sent in the interval, retransmissions included.
        sent: u64 = |row| row.sent, unit "packets", label "packets sent", by TIMED, digest false;
        /// Packets of the flow that the queue dropped in the interval, for whatever reason; with several hops, those on its route.
        drops: u64 = |row| row.drops, unit "packets", by TIMED, digest false;
    }
}

/// The queue at a point of the time series.
#[derive(Clone, Debug)]
pub struct QueueSeriesRow {
    /// The point.
    pub time_s: f64,
    /// Queued.
    pub backlog_packets: u64,
    /// Queued.
    pub backlog_bytes: u64,
    /// In the interval before, as all that follows.
    pub sojourn_mean_ms: f64,
    /// Rate of frames that left the link.
    pub throughput_mbit: f64,
    /// Rate that the link could carry.
    pub capacity_mbit: f64,
    /// CE marks.
    pub ce_marks: u64,
    /// SCE marks.
    pub sce_marks: u64,
    /// Drops for whatever reason.
    pub drops: u64,
    /// Packets that left the link.
    pub packets: u64,
}

columns! {
    /// The queue over time.
    pub table QueueSeries of QueueSeriesRow {
        /// End of the interval; record.interval is its length.
        time_s: f64 = |row| row.time_s, unit "s", label "time";
        /// Packets in the queue at this time.
        backlog_packets: u64 = |row| row.backlog_packets, unit "packets", label "backlog";
        /// Bytes in the queue at this time.
        backlog_bytes: u64 = |row| row.backlog_bytes, unit "bytes", label "backlog";
        /// Mean time in queue of the packets that the queue gave to the link in the interval; 0 if there were none.
        sojourn_mean_ms: f64 = |row| row.sojourn_mean_ms, unit "ms", label "time in queue, mean";
        /// Frames that left the link in the interval, divided by its length.
        #[doc = LINE]
        throughput_mbit: f64 = |row| row.throughput_mbit, unit "Mbit/s", label "throughput";
        /// Rate that the link could carry in the interval.
        #[doc = LINE]
        capacity_mbit: f64 = |row| row.capacity_mbit, unit "Mbit/s", label "capacity";
        /// CE marks by the queue in the interval.
        ce_marks: u64 = |row| row.ce_marks, unit "packets", label "CE marks";
        /// SCE marks by the queue in the interval.
        sce_marks: u64 = |row| row.sce_marks, unit "packets", label "SCE marks";
        /// Packets that the queue dropped in the interval, for whatever reason.
        drops: u64 = |row| row.drops, unit "packets";
        /// Packets that left the link in the interval.
        packets: u64 = |row| row.packets, unit "packets", digest false;
    }
}

/// A part of a queue discipline's state at a point of the time series.
#[derive(Clone, Debug)]
pub struct QueueStatesRow {
    /// The point.
    pub time: Instant,
    /// Name of the hop.
    pub hop: String,
    /// Name of the part.
    pub state: &'static str,
    /// Value of the state.
    pub value: f64,
}

columns! {
    /// States of queue disciplines.
    pub table QueueStates of QueueStatesRow {
        /// Point of the time series; record.interval is the time from one to the next.
        time_s: f64 = |row| row.time.as_secs_f64(), unit "s", label "time";
        /// Name of the hop: bottleneck, that of a [[hop]], or reverse.
        hop: str = |row| row.hop.as_str();
        /// Name of a state of the queue discipline: one of those that record.queue names.
        state: str = |row| row.state;
        /// Value of the state at this time, in the unit that dumbbell describe record names.
        value: f64 = |row| row.value;
    }
}

/// A bin of a class's histogram of times in queue.
pub struct SojournBin {
    /// Number of the class.
    pub class: u64,
    /// Lower end.
    pub from: Duration,
    /// Packets, or samples.
    pub count: u64,
}

columns! {
    /// Times in queue.
    pub table Sojourn of SojournBin {
        /// Number of the class of traffic in its run, as in table classes.
        class: u64 = |bin| bin.class;
        /// Lower end of a bin of the histogram of the time in queue. Bins without packets are left out.
        #[doc = IN_QUEUE]
        from_ms: f64 = |bin| ms(bin.from), unit "ms", label "time in queue";
        /// Packets of the class in the bin, over the whole run.
        packets: u64 = |bin| bin.count, unit "packets";
    }
}

columns! {
    /// Samples of the RTT.
    pub table Rtt of SojournBin {
        /// Number of the class of traffic in its run, as in table classes.
        class: u64 = |bin| bin.class;
        /// Lower end of a bin of the histogram of the RTT samples of [[flows]]. Bins without samples are left out.
        from_ms: f64 = |bin| ms(bin.from), unit "ms", label "RTT";
        /// RTT samples that all flows of the class took, in the bin.
        samples: u64 = |bin| bin.count, unit "samples";
    }
}
