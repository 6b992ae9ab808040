//! Table `runs`: figures of the queue and across flows.

use super::{columns, Binned, IN_QUEUE, LINE, REAL, SENDERS, TIMED, TOGETHER};
use crate::capacity::utilisation;
use crate::statistics::ms;
use crate::transit::UdpFate;
use dumbbell_core::histogram::Histogram;
use dumbbell_core::record::QueueCounters;
use dumbbell_core::units::Duration;
use serde_json::{json, Value};
use std::collections::BTreeMap;

pub(super) const ONE_WAY: &str = "From sending until the last bit arrives at the receiver: path, queue and link. Datagrams of applications also have half of their base RTT; UDP has no propagation of its own. NaN without datagrams.";
pub(super) const JITTER: &str = "RFC 3550, section 6.4.1: J += (|D| - J) / 16, where D is the difference between the one-way delays of two packets that arrive one after the other; J is 0 at the start. NaN without two packets of UDP.";

columns! {
    /// Quantiles of the time in queue.
    pub part Waits of Histogram {
        /// Time in queue that 1 % of {} did not exceed.
        sojourn_p1_ms: Binned = |all| ms(all.quantile(0.01)), unit "ms", label "time in queue, P1";
        /// Time in queue that 25 % of {} did not exceed.
        sojourn_p25_ms: Binned = |all| ms(all.quantile(0.25)), unit "ms", label "time in queue, P25";
        /// Time in queue that 50 % of {} did not exceed.
        sojourn_p50_ms: Binned = |all| ms(all.quantile(0.5)), unit "ms", label "time in queue, P50";
        /// Time in queue that 75 % of {} did not exceed.
        sojourn_p75_ms: Binned = |all| ms(all.quantile(0.75)), unit "ms", label "time in queue, P75";
        /// Time in queue that 95 % of {} did not exceed.
        sojourn_p95_ms: Binned = |all| ms(all.quantile(0.95)), unit "ms", label "time in queue, P95", digest false;
        /// Time in queue that 99 % of {} did not exceed.
        sojourn_p99_ms: Binned = |all| ms(all.quantile(0.99)), unit "ms", label "time in queue, P99";
        /// Time in queue that 99.9 % of {} did not exceed.
        sojourn_p999_ms: Binned = |all| ms(all.quantile(0.999)), unit "ms", label "time in queue, P99.9";
        /// Longest time in queue of {}; exact.
        sojourn_max_ms: f64 = |all| ms(all.max()), unit "ms", label "time in queue, maximum";
    }
}

pub(super) const LOST: &str = "Of a ping, whose packets are answered, lost is also one whose answer did not come: a later one did, or it took more than three times the largest RTT so far (1 s if there was none). NaN without UDP.";

columns! {
    /// One-way delays of UDP and the mean of its jitter, from [`Delays::figures_ms`](crate::transit::Delays::figures_ms).
    pub part Delays of [f64; 6] {
        /// Mean one-way delay of {} that arrived.
        #[doc = ONE_WAY]
        delay_mean_ms: f64 = |figures| figures[0], unit "ms", label "one-way delay of UDP, mean";
        /// Smallest one-way delay of {}; exact.
        #[doc = ONE_WAY]
        delay_min_ms: f64 = |figures| figures[1], unit "ms", label "one-way delay of UDP, minimum";
        /// One-way delay that 95 % of {} did not exceed, of those that arrived.
        #[doc = ONE_WAY]
        delay_p95_ms: Binned = |figures| figures[2], unit "ms", label "one-way delay of UDP, P95";
        /// One-way delay that 99 % of {} did not exceed, of those that arrived.
        #[doc = ONE_WAY]
        delay_p99_ms: Binned = |figures| figures[3], unit "ms", label "one-way delay of UDP, P99";
        /// Largest one-way delay of {}; exact.
        #[doc = ONE_WAY]
        delay_max_ms: f64 = |figures| figures[4], unit "ms", label "one-way delay of UDP, maximum";
        /// Mean over {} that arrived of the jitter after each, that of its own flow.
        #[doc = JITTER]
        jitter_mean_ms: f64 = |figures| figures[5], unit "ms", label "jitter of UDP, mean";
    }
}

/// The queue and all flows of a run.
pub struct RunRow<'a> {
    /// Counters of the queue.
    pub queue: &'a QueueCounters,
    /// Counters of the queue discipline, by name.
    pub of_discipline: &'a BTreeMap<String, u64>,
    /// Times in queue of all packets.
    pub sojourn: Histogram,
    /// The measured time, s.
    pub seconds: f64,
    /// Bits that the link could carry in the measured time.
    pub capacity: f64,
    /// Sum of the goodputs.
    pub goodput_mbit: f64,
    /// Jain's index; NaN if nothing was shared.
    pub jain: f64,
    /// How long flows were there together, s.
    pub common_s: Option<f64>,
    /// From the start of the last flow until shares were fair and stayed so.
    pub convergence: Option<Duration>,
    /// Time until the shares of everything that arrived since were first fair.
    pub convergence_cumulative: Option<Duration>,
    /// Retransmissions of all flows.
    pub retransmissions: u64,
    /// Short flows that began, and those kept one by one.
    pub short_flows: [u64; 2],
    /// Events that were handled.
    pub events: u64,
    /// Packets of UDP that were lost.
    pub fate: UdpFate,
    /// One-way delays and jitter of UDP.
    pub delays_ms: [f64; 6],
    /// Ratios of rate and window of the first class of flows to the second.
    pub ratios: [Option<f64>; 2],
}

impl RunRow<'_> {
    fn drops(&self) -> u64 {
        self.queue.drops_overflow + self.queue.drops_aqm
    }
}

columns! {
    /// Figures of a run.
    pub figures Runs of RunRow<'_> {
        /// Frames that left the link in the whole run, divided by what it could carry, 0 to 1. A burst that a bucket lends counts as it is paid back.
        #[doc = LINE]
        utilisation: f64 = |run| utilisation(run.queue, run.capacity);
        /// Frames that the link could carry in the whole run, divided by the duration: by its rate, changes included, by its trace, or by the link that is named,
        /// with what others take of that.
        #[doc = LINE]
        capacity_mbit: f64 = |run| run.capacity * 1e-6 / run.seconds, unit "Mbit/s", label "capacity";
        /// Frames that left the link in the whole run, divided by its duration.
        #[doc = LINE]
        throughput_mbit: f64 = |run| run.queue.line_bytes() as f64 * 8e-6 / run.seconds, unit "Mbit/s", label "throughput";
        /// Sum of the goodputs of flows and UDP, each over its own lifetime: with late starts it can exceed the rate. Without short flows. What
        /// the link carried is throughput_mbit.
        goodput_total_mbit: f64 = |run| run.goodput_mbit, unit "Mbit/s",
            label "goodput, sum of flows, each over its own time";
        /// Jain's index of fairness of the goodput of all flows, 1/n to 1; UDP and short flows do not count.
        #[doc = TOGETHER]
        jain: Option<f64> = |run| (!run.jain.is_nan()).then_some(run.jain), label "Jain's index", by SENDERS;
        /// How long all flows of [[flows]] were there together: from the start of the last one, or from record.from if that is later, until the
        /// first ended or the run was over; null if one ended before another began.
        common_s: Option<f64> = |run| run.common_s, unit "s", label "time that flows have in common", by SENDERS, digest false;
        /// From the start of the last flow until flows share fairly and go on to do so: until the start of the first 5 s in which Jain's index
        /// of the frames that reached the receivers is 0.95 or more in every window of 1 s. Windows begin every 100 ms, whatever
        /// record.interval is. Null if that did not happen before the first flow ended or the run was over: later than common_s - 5 s, or never.
        convergence_s: Option<f64> = |run| run.convergence.map(Duration::as_secs_f64), unit "s",
            label "time to convergence (1-s windows, fair for 5 s)", by SENDERS;
        /// From the start of the last flow until Jain's index of all frames that reached the receivers since then was first 0.95 or more, looked
        /// at every 100 ms; null if it was not before the first flow ended or the run was over.
        convergence_cumulative_s: Option<f64> = |run| run.convergence_cumulative.map(Duration::as_secs_f64), unit "s",
            label "time to convergence, cumulative", by SENDERS;
        /// Packets of all traffic that left the link in the whole run.
        packets: u64 = |run| run.queue.packets, unit "packets";
        /// Mean number of packets in the queue over the run, by Little's law: time in queue times packets over duration.
        backlog_mean_packets: f64 = |run| run.sojourn.mean() / 1e9 * run.queue.packets as f64 / run.seconds, unit "packets",
            label "backlog, mean";
        /// Mean time in queue of all packets of the whole run that the queue gave to the link.
        #[doc = IN_QUEUE]
        sojourn_mean_ms: f64 = |run| run.sojourn.mean() / 1e6, unit "ms", label "time in queue, mean";
        /// all packets
        sojourn: Waits = |run| &run.sojourn;
        /// CE marks by the queue in the whole run; a packet that was CE already counts, as in Linux.
        ce_marks: u64 = |run| run.queue.ce_marks, unit "packets", label "CE marks";
        /// SCE marks (ECT(1)) by the queue in the whole run.
        sce_marks: u64 = |run| run.queue.sce_marks, unit "packets", label "SCE marks";
        /// Packets dropped because the queue was full.
        drops_overflow: u64 = |run| run.queue.drops_overflow, unit "packets", label "drops, overflow";
        /// Packets dropped by the AQM, or in a queue discipline that another one replaced.
        drops_aqm: u64 = |run| run.queue.drops_aqm, unit "packets", label "drops, AQM";
        /// Packets that the queue dropped in the whole run, for whatever reason.
        drops: u64 = RunRow::drops, unit "packets";
        /// CE marks over packets that left the link.
        mark_share: f64 = |run| run.queue.ce_marks as f64 / run.queue.packets.max(1) as f64, label "share of CE marks";
        /// Drops by the queue over drops and packets that left the link.
        drop_share: f64 = |run| run.drops() as f64 / (run.queue.packets + run.drops()).max(1) as f64, label "share of drops";
        /// Data packets that all flows sent again in their measured time; without short flows.
        retransmissions: u64 = |run| run.retransmissions, unit "packets", by SENDERS;
        /// How many short flows of [[web]] began.
        short_flows: u64 = |run| run.short_flows[0], unit "flows", label "short flows";
        /// How many of them are in table short_flows: all, or an even sample of record.short_flows of them.
        short_flows_kept: u64 = |run| run.short_flows[1], unit "flows", label "short flows kept";
        /// JSON: counters that only some disciplines have, over the whole run. fq_codel and fq_pie: new_flows (flow queues that became active);
        /// red: marked_by_chance and marked_by_force; dualpi2: packets_in_l, packets_in_c, ecn_mark and step_marks (a packet that both parts mark
        /// counts in both), maxq (most packets that one found); pi2: packets_in, ecn_mark, maxq; csaqm: below_ctv (packets that left below the
        /// threshold value), updates and updates_above (those that found more than the target); every internal queue (tin0, tin1, ... of cake, l
        /// and c of dualpi2): NAME_packets, NAME_ce_marks, NAME_sce_marks and NAME_drops.
        aqm_counters: Value = |run| json!(run.of_discipline), label "counters of the queue discipline";
        /// Events that the engine handled: a measure of its work.
        events: u64 = |run| run.events, unit "events", digest false;
        /// all packets of UDP
        delays: Delays = |run| &run.delays_ms, by TIMED, digest false;
        /// Share of the packets of all UDP that were lost on the way, of those whose fate is known.
        #[doc = LOST]
        loss_share: f64 = |run| run.fate.share(), label "share of lost packets of UDP", by TIMED, digest false;
        /// Mean throughput of the members of the first class of flows over that of the second; null unless there are two.
        #[doc = TOGETHER]
        rate_ratio: Option<f64> = |run| run.ratios[0], label "ratio of rates", by SENDERS;
        /// rate_ratio times the ratio of base RTT plus mean time in queue of the two classes; null unless there are two.
        window_ratio: Option<f64> = |run| run.ratios[1], label "ratio of windows", by SENDERS;
    }
}

/// Flows that nobody listed.
pub struct Unlisted {
    /// How many, by protocol.
    pub flows: Value,
}

columns! {
    /// Flows that `dumbbell shell` saw.
    pub figures SeenFlows of Unlisted {
        /// JSON: how many flows were seen, by protocol.
        flows_seen: Value = |seen| seen.flows.clone(), label "flows seen", by &[super::EngineKind::Shell];
    }
}

const LATE: &str = "How late frames left against their schedule, in that direction whose P99 is the larger.";

columns! {
    /// How well a run in real time kept its schedule.
    pub figures Punctuality of Timing {
        /// Median.
        #[doc = LATE]
        lateness_p50_ms: Binned = |kept| ms(kept.late[0]), unit "ms", label "lateness, P50", by REAL;
        /// 99th percentile over frames.
        #[doc = LATE]
        lateness_p99_ms: Binned = |kept| ms(kept.late[1]), unit "ms", label "lateness, P99", by REAL;
        /// Maximum.
        #[doc = LATE]
        lateness_max_ms: f64 = |kept| ms(kept.late[2]), unit "ms", label "lateness, maximum", by REAL;
        /// P99 of the lateness up to which the run is valid: a tenth of the smallest of base RTT, target of the queue discipline and ten packet
        /// times.
        lateness_allowed_ms: f64 = |kept| ms(kept.allowed), unit "ms", label "lateness allowed", by REAL;
        /// How long senders or receivers, those that waited longer, waited on average for a core when they had something to do; null where the
        /// kernel does not count it.
        ends_waited_ms: Option<f64> = |kept| kept.waited.map(ms), unit "ms", label "wait of the ends for a core", by REAL;
        /// Frames that found no room in a ring or buffer of the engine.
        frames_lost: u64 = |kept| kept.lost, unit "frames", label "frames lost outside the queue", by REAL;
        /// 1 if P99 of the lateness and wait of the ends were allowed and no frame was lost outside the queue, else 0: then the run says little.
        valid: u64 = |kept| u64::from(kept.late[1].max(kept.waited.unwrap_or_default()) <= kept.allowed && kept.lost == 0), by REAL;
        /// JSON: what the forwarding thread did.
        forwarder: Value = |kept| kept.forwarder.clone(), by REAL;
    }
}

/// A run in real time against its schedule.
pub struct Timing {
    /// P50, P99 and largest lateness of frames.
    pub late: [Duration; 3],
    /// The P99 that is allowed.
    pub allowed: Duration,
    /// Mean time that the ends waited for a core, if it is known.
    pub waited: Option<Duration>,
    /// Frames lost outside the queue.
    pub lost: u64,
    /// Counters of the forwarding thread.
    pub forwarder: Value,
}
