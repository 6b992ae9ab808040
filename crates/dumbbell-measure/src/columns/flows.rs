//! Table `flows`.

use super::runs::{JITTER, LOST};
use super::{columns, Binned, Delays, EngineKind, AT_QUEUE, FRAMES, IN_QUEUE, MEASURED, SAMPLED, SENDERS, SIM, TIMED, TOGETHER};
use crate::flow::FlowResult;
use crate::statistics::{mean, ms};
use dumbbell_core::units::Duration;

columns! {
    /// Percentiles of RTT samples.
    pub part Rtts of [f64; 3] {
        /// RTT that 50 % of the samples of {} did not exceed. Over every RTT sample that the sender took. NaN for UDP without echo.
        rtt_p50_ms: Binned = |samples| samples[0], unit "ms", label "RTT, P50";
        /// RTT that 95 % of the samples of {} did not exceed. Over every RTT sample that the sender took. NaN for UDP without echo.
        rtt_p95_ms: Binned = |samples| samples[1], unit "ms", label "RTT, P95";
        /// RTT that 99 % of the samples of {} did not exceed. Over every RTT sample that the sender took. NaN for UDP without echo.
        rtt_p99_ms: Binned = |samples| samples[2], unit "ms", label "RTT, P99";
    }
}

/// A listed flow or source of UDP.
pub struct FlowRow<'a> {
    /// Number in the run.
    pub number: u64,
    /// Number of the class of the flow.
    pub class: u16,
    /// Name of its congestion control.
    pub cc: &'a str,
    /// Which way its data go.
    pub direction: &'static str,
    /// Propagation, both ways.
    pub base_rtt: Duration,
    /// On its own clock.
    pub start_s: f64,
    /// Payload over the time that flows have in common.
    pub goodput_common_mbit: f64,
    /// Share of the payload of all flows in that time.
    pub share: f64,
    /// Percentiles of its RTT samples.
    pub rtt_ms: [f64; 3],
    /// One-way delays and jitter.
    pub delays_ms: [f64; 6],
    /// Results of the flow.
    pub result: &'a FlowResult,
}

columns! {
    /// Flows and UDP.
    pub table Flows of FlowRow<'_> {
        /// Number in the run, in the order of the file: flows from 0, then UDP.
        flow: u64 = |row| row.number;
        /// Number of the class of traffic in its run, as in table classes.
        class: u64 = |row| u64::from(row.class);
        /// Congestion control; "udp" for UDP, "ping" for UDP that is echoed.
        cc: str = |row| row.cc, label "congestion control";
        /// Which way the data went: down or up.
        direction: str = |row| row.direction, digest false;
        /// Propagation, both directions together; 0 for UDP without echo.
        base_rtt_ms: f64 = |row| ms(row.base_rtt), unit "ms", label "base RTT";
        /// When the flow began to send.
        start_s: f64 = |row| row.start_s, unit "s", label "start";
        /// Payload that was acknowledged (UDP: received; dumbbell shell: that left the link) over the measured time.
        #[doc = MEASURED]
        goodput_mbit: f64 = |row| row.result.goodput_mbit(), unit "Mbit/s", label "goodput";
        /// Payload that was acknowledged (UDP: received).
        #[doc = TOGETHER]
        goodput_common_mbit: f64 = |row| row.goodput_common_mbit, unit "Mbit/s", label "goodput in common time", digest false;
        /// Frames that reached the receiver over the measured time, retransmissions included.
        #[doc = FRAMES]
        #[doc = MEASURED]
        throughput_mbit: f64 = |row| row.result.throughput_mbit(), unit "Mbit/s", label "throughput";
        /// Payload acknowledged (UDP: received) over that of all flows and UDP of the run.
        #[doc = TOGETHER]
        share: f64 = |row| row.share, label "share of goodput in common time";
        /// Mean of the smoothed RTT.
        #[doc = SAMPLED]
        /// For UDP with echo, the mean over all answers, not smoothed; NaN for UDP without echo.
        rtt_mean_ms: f64 = |row| row.result.rtt_mean_ms(), unit "ms", label "mean RTT", by SENDERS;
        /// Largest smoothed RTT; single RTTs can be larger, as rtt_p95_ms and rtt_p99_ms may show.
        #[doc = SAMPLED]
        /// For UDP with echo, the maximum over all answers, not smoothed.
        rtt_max_ms: f64 = |row| f64::from(row.result.samples.srtt_max_us) / 1e3, unit "ms", label "smoothed RTT, maximum", by SENDERS;
        /// Smallest RTT that the sender measured, not smoothed.
        rtt_min_ms: f64 = |row| match row.result.min_rtt_us {
            u32::MAX => f64::NAN,
            us => f64::from(us) / 1e3,
        }, unit "ms", label "RTT, minimum", by SENDERS;
        /// the flow
        rtt: Rtts = |row| &row.rtt_ms, by SENDERS;
        /// Mean of the congestion window.
        #[doc = SAMPLED]
        cwnd_mean: f64 = |row| match row.result.samples {
            of if of.cwnd_max == 0 => f64::NAN,
            of => mean(of.cwnd, of.count, 1.0),
        }, unit "segments", label "congestion window, mean", by SENDERS;
        /// Largest congestion window.
        #[doc = SAMPLED]
        cwnd_max: u64 = |row| u64::from(row.result.samples.cwnd_max), unit "segments", label "congestion window, maximum", by SENDERS;
        /// From the first packet, the SYN, until everything was acknowledged; NaN for a flow that did not end.
        completion_s: f64 = |row| row.result.completion.map_or(f64::NAN, Duration::as_secs_f64), unit "s", label "completion time",
            by SENDERS;
        /// Data packets that the sender sent, retransmissions included.
        sent: u64 = |row| row.result.sender.sent, unit "packets", label "packets sent", by SENDERS;
        /// Data packets that the sender sent again. Of a QUIC stack: packets that it took for lost; missing if it does not tell.
        retransmissions: u64 = |row| row.result.retransmissions(), unit "packets", by SENDERS;
        /// Retransmission timeouts of the sender. Not where the kernel does not count them.
        timeouts: u64 = |row| row.result.sender.timeouts, label "retransmission timeouts", by SENDERS;
        /// Tail-loss probes that the sender sent. Of a QUIC stack: probe timeouts; missing if it does not tell.
        probes: u64 = |row| row.result.sender_count(row.result.sender.probes, |of| of.probes), label "tail-loss probes", by SIM;
        /// How often the sender reduced its window because of ECN. Of BBR: episodes of marks that its model answers, so none without `ecn`.
        ecn_reductions: u64 = |row| row.result.sender.ecn_reductions, label "reductions, ECN", by SIM;
        /// How often the sender reduced its window because of loss, timeouts not included. Of BBR: episodes of loss recovery.
        /// For a QUIC stack, its congestion events, ECN included; missing if it does not report them.
        loss_reductions: u64 = |row| row.result.sender_count(row.result.sender.loss_reductions, |of| of.loss_reductions), label "reductions, loss", by SIM;
        /// Reductions that the sender found spurious and took back.
        undone_reductions: u64 = |row| row.result.sender.undone, label "reductions undone", by SIM;
        /// Packets that reached the receiver with CE.
        #[doc = AT_QUEUE]
        ce_received: u64 = |row| row.result.receiver.ce, unit "packets", label "CE received";
        /// Packets that reached the receiver with ECT(1), which is SCE.
        #[doc = AT_QUEUE]
        sce_received: u64 = |row| row.result.receiver.ect1, unit "packets", label "SCE received",
            by &[EngineKind::Sim, EngineKind::Live, EngineKind::Shell];
        /// ACKs that the receiver sent; of UDP with echo, answers.
        acks: u64 = |row| row.result.receiver.acks, unit "packets", label "ACKs", by &[EngineKind::Sim, EngineKind::Live];
        /// Data packets that reached the receiver and had arrived before.
        duplicates: u64 = |row| row.result.receiver.duplicates, unit "packets", by TIMED;
        /// Packets whose answer came back, for UDP with echo; 0 for others.
        answers: u64 = |row| match row.result.samples {
            of if of.cwnd_max == 0 => of.count,
            _ => 0,
        }, unit "packets", digest false;
        /// Packets of the flow that left the link, SYNs included.
        #[doc = AT_QUEUE]
        packets: u64 = |row| row.result.counters.departed, unit "packets";
        /// Mean time in queue of the packets of the flow; NaN if none left it.
        #[doc = IN_QUEUE]
        sojourn_mean_ms: f64 = |row| row.result.sojourn_mean_ms(), unit "ms", label "time in queue, mean";
        /// Packets of the flow dropped because the queue was full.
        drops_overflow: u64 = |row| row.result.counters.dropped_overflow, unit "packets", label "drops, overflow";
        /// Packets of the flow dropped by the AQM, or in a queue discipline that another one replaced.
        drops_aqm: u64 = |row| row.result.counters.dropped_aqm, unit "packets", label "drops, AQM";
        /// Packets of the flow that the queue dropped, for whatever reason.
        #[doc = AT_QUEUE]
        drops: u64 = |row| row.result.drops(), unit "packets";
        /// Packets of the flow that the queue turned into CE. ce_marks of table runs counts those too that were CE already.
        #[doc = AT_QUEUE]
        ce_marks: u64 = |row| row.result.counters.ce, unit "packets", label "CE marks";
        /// Packets of the flow that the queue turned into SCE (ECT(1)).
        #[doc = AT_QUEUE]
        sce_marks: u64 = |row| row.result.counters.sce, unit "packets", label "SCE marks";
        /// Jitter after the last packet of the flow.
        #[doc = JITTER]
        jitter_ms: f64 = |row| row.result.transit.as_ref().map_or(f64::NAN, |transit| transit.jitter_ms()), unit "ms",
            label "jitter of UDP", by TIMED, digest false;
        /// the packets of the flow
        delays: Delays = |row| &row.delays_ms, by TIMED, digest false;
        /// Share of the packets of a source of UDP that were lost on the way, of those whose fate is known.
        #[doc = LOST]
        loss_share: f64 = |row| row.result.fate().share(), label "share of lost packets of UDP", by TIMED, digest false;
        /// Event that ended slow start first: `loss`, `ecn`, `timeout`, `sce`, `threshold` (`hosts.initial_ssthresh`), HyStart's `delay` or `train`; of
        /// BBR's STARTUP `plateau` (the rate grew no more), `loss` or `ecn`. Empty before it ended, for UDP, and on other engines than the
        /// simulator. An end that was undone counts.
        slow_start_exit: str = |row| row.result.slow_start_exit.map_or("", |(cause, _)| cause.name()), label "end of slow start",
            digest false;
        /// From the SYN until slow start first ended; NaN if it did not.
        slow_start_exit_s: f64 = |row| row.result.slow_start_exit.map_or(f64::NAN, |(_, time)| time.as_secs_f64()), unit "s",
            label "end of slow start, time", digest false;
        /// Why a QUIC stack closed the connection before its end, in its own words; empty if it did not, and for others.
        closed: str = |row| row.result.close_reason().map_or("", |(why, _)| why), label "why it was closed", by SIM, digest false;
        /// From its start until the connection was closed before its end; NaN if it was not.
        closed_s: f64 = |row| row.result.close_reason().map_or(f64::NAN, |(_, at)| at.as_secs_f64()), unit "s",
            label "time until it was closed", by SIM, digest false;
        /// Packets that a QUIC stack took for lost and that had arrived; NaN if it does not tell, and for others.
        spurious: f64 = |row| row.result.stack_count(|of| of.spurious), unit "packets", label "spurious losses", by SIM, digest false;
        /// CE marks that the receiver of a QUIC stack reported; NaN if it does not tell, and for others.
        ce_reported: f64 = |row| row.result.stack_count(|of| of.ce), unit "packets", label "CE reported", by SIM, digest false;
    }
}

/// A flow that nobody listed.
pub struct EndsRow<'a> {
    /// Address and port of the sender.
    pub source: &'a str,
    /// Address and port of the receiver.
    pub destination: &'a str,
}

columns! {
    /// Where flows go that nobody listed.
    pub table Ends of EndsRow<'_> {
        /// Address and port that the flow came from.
        source: str = |row| row.source, by &[EngineKind::Shell];
        /// Address and port that it went to.
        destination: str = |row| row.destination, by &[EngineKind::Shell];
    }
}
