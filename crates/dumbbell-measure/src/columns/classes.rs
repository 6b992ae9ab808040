//! Table `classes`.

use super::runs::LOST;
use super::{columns, Delays, Rtts, Waits, FRAMES, IN_QUEUE, MEASURED, SAMPLED, SENDERS, TIMED};
use crate::classes::Totals;
use crate::statistics::ms;
use dumbbell_config::Class;
use dumbbell_core::histogram::Histogram;

/// A class of traffic.
pub struct ClassRow<'a> {
    /// Number in the run.
    pub number: u64,
    /// The class that the members have in common.
    pub class: &'a Class,
    /// Sums over them.
    pub totals: &'a Totals,
    /// The measured time of the run, s.
    pub seconds: f64,
    /// Throughput, Mbit/s, and window, kB, that are fair; only of flows.
    pub fair: Option<(f64, f64)>,
    /// Percentiles of the RTT samples of all members.
    pub rtt_ms: [f64; 3],
    /// Times in queue.
    pub sojourn: &'a Histogram,
    /// One-way delays and jitter of UDP.
    pub delays_ms: [f64; 6],
}

impl ClassRow<'_> {
    fn of_flows(&self, value: impl Fn(f64, f64) -> f64) -> f64 {
        self.fair.map_or(f64::NAN, |(mbit, kb)| value(mbit, kb))
    }
}

columns! {
    /// Results of the members of a class together.
    pub table Classes of ClassRow<'_> {
        /// Number of the class in its run. Flows are one class if congestion control, base RTT, ECN, direction and routes are equal; each [[web]]
        /// is one; UDP is one if rate, size, ECN field, DSCP and route are equal; users of [[app]] are one for each way if application, congestion
        /// control, base RTT, ECN and routes are equal.
        class: u64 = |row| row.number;
        /// flows, web, udp or app.
        kind: str = |row| row.class.kind.name();
        /// Congestion control of the members; "udp" for UDP, "ping" with echo; of applications "pages over cubic" or "call".
        cc: str = |row| row.class.cc.as_str(), label "congestion control";
        /// Which way the data went: down or up.
        direction: str = |row| row.class.route.direction(), digest false;
        /// Propagation of the members, both directions together; 0 for UDP.
        base_rtt_ms: f64 = |row| ms(row.class.base_rtt), unit "ms", label "base RTT";
        /// How many flows or sources of UDP are members; of web, short flows that began; of app, connections that opened, or users of datagrams.
        flows: u64 = |row| row.totals.members as u64, unit "flows", label "members";
        /// Mean over the members of frames received over each one's measured time.
        #[doc = FRAMES]
        #[doc = MEASURED]
        throughput_mbit: f64 = |row| row.totals.throughput_mbit / row.totals.members, unit "Mbit/s", label "throughput";
        /// Mean over the members of payload acknowledged (UDP: received) over each one's measured time.
        #[doc = MEASURED]
        goodput_mbit: f64 = |row| row.totals.goodput_mbit / row.totals.members, unit "Mbit/s", label "goodput";
        /// Frames that all members together received, over the duration of the run.
        #[doc = FRAMES]
        total_throughput_mbit: f64 = |row| row.totals.frame_bytes * 8e-6 / row.seconds, unit "Mbit/s", label "throughput, total";
        /// Mean over the members of each one's mean smoothed RTT; members without an RTT do not count.
        #[doc = SAMPLED]
        rtt_mean_ms: f64 = |row| row.totals.rtt_ms / row.totals.with_rtt, unit "ms", label "mean RTT", by SENDERS;
        /// all members
        rtt: Rtts = |row| &row.rtt_ms, by SENDERS;
        /// Mean time in queue of the packets of all members.
        #[doc = IN_QUEUE]
        sojourn_mean_ms: f64 = |row| row.totals.waited_ms / row.totals.packets, unit "ms", label "time in queue, mean";
        /// Packets received with CE over packets that left the link, of the class.
        mark_share: f64 = |row| row.totals.ce / row.totals.packets, label "share of CE marks";
        /// Drops by the queue over drops and packets of the class that left the link.
        drop_share: f64 = |row| row.totals.drops / (row.totals.drops + row.totals.packets), label "share of drops";
        /// throughput_mbit over the rate divided by the number of all flows; only for flows. A trace has the rate of its capacity in the whole
        /// run. Of several hops, rate and number are those of the hop of the class's route at which the quotient is smallest.
        relative_throughput: f64 = |row| row.of_flows(|fair, _| row.totals.throughput_mbit / row.totals.members / fair),
            label "throughput over fair share", by SENDERS;
        /// throughput_mbit times base RTT plus mean time in queue: what a member has in flight; only for flows.
        window_kb: f64 = |row| row.of_flows(|_, _| row.totals.window_kb(row.class)), unit "kB", label "window", by SENDERS;
        /// window_kb over the window that, equal for all flows, would fill the link; only for flows.
        normalised_window: f64 = |row| row.of_flows(|_, fair| row.totals.window_kb(row.class) / fair), label "window over fair window",
            by SENDERS;
        /// the packets of the class
        sojourn: Waits = |row| row.sojourn;
        /// the packets of the class
        delays: Delays = |row| &row.delays_ms, by TIMED, digest false;
        /// Share of the packets of UDP of the class that were lost on the way, of those whose fate is known.
        #[doc = LOST]
        loss_share: f64 = |row| row.totals.fate.share(), label "share of lost packets of UDP", by TIMED, digest false;
    }
}
