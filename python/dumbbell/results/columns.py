"""Every column of the results: unit, words for an axis, and what exactly was measured."""

import math
from dataclasses import dataclass

# the engine's histograms (`crates/dumbbell-core/src/histogram.rs`): bins for every doubling, and the width of the
# narrowest, in ms or as a ratio
BINS, LEAST_BIN = 64, 0.001024


@dataclass(frozen=True)
class Column:
    """One column of a table; `unit` is empty for words, JSON, indexes and ratios.

    `least_bin` is set where values are read from a histogram: the width of its narrowest bin.
    """

    name: str
    unit: str
    label: str
    doc: str
    least_bin: float | None = None

    def resolution(self, value: float | None) -> float | None:
        """Return the width of the histogram's bin at `value`; None of a column whose values are exact."""
        if self.least_bin is None or value is None or not math.isfinite(value):
            return None
        doublings = math.frexp(value / self.least_bin)[1] - 1
        return self.least_bin * 2.0 ** max(0, doublings - int(math.log2(BINS)))


def _quantile(name: str, unit: str, label: str, doc: str) -> Column:
    """Return a column whose values are read from a histogram of times or ratios."""
    least, text = {
        "ms": (LEAST_BIN, "1.024 us"),
        "s": (LEAST_BIN / 1000, "1.024 us"),
        "": (LEAST_BIN, f"{LEAST_BIN:g}"),
    }[unit]
    bins = f"Read from a histogram whose bins are {text} or 1/64 of the value wide, whichever is wider."
    return Column(name, unit, label, f"{doc} {bins}", least)


_IN_QUEUE = "from entering the queue until leaving it for the link"
_MEASURED = "A flow is measured from its start until it is complete, or else until the run ends."
_SAMPLED = "Sampled every 200 ms once it has an RTT, as ss shows it, and at the end of the measured time."
_NO_MODEL = "Empty for a control without a model of its path."
_NAN = "NaN for a control without a model."
_ZERO = "0 for a control without a model."
_RTT_SAMPLES = "Over every RTT sample that the sender took."
_ONE_WAY = (
    "From sending until the last bit arrives at the receiver: path, queue and link. UDP has no propagation of its own. "
    "NaN without UDP. Not of live runs and dumbbell shell, which do not know when a packet was sent."
)
_JITTER = (
    "RFC 3550, section 6.4.1: J += (|D| - J) / 16, where D is the difference between the one-way delays of two packets "
    "that arrive one after the other; J is 0 at the start. NaN without two packets of UDP."
)
_FRAMES = "Ethernet frames without FCS are counted."


def _sojourn(packets: str, rule: str) -> list[Column]:
    """Return mean, quantiles and maximum of the time in queue of `packets`; `rule` says what the mean is over."""
    columns = [
        Column("sojourn_mean_ms", "ms", "time in queue, mean", f"Mean time in queue of {packets}, {_IN_QUEUE}. {rule}")
    ]
    for name, share in (("p1", 1), ("p25", 25), ("p50", 50), ("p75", 75), ("p95", 95), ("p99", 99), ("p999", 99.9)):
        doc = f"Time in queue that {share:g} % of {packets} did not exceed."
        columns.append(_quantile(f"sojourn_{name}_ms", "ms", f"time in queue, P{share:g}", doc))
    doc = f"Longest time in queue of {packets}; exact."
    return [*columns, Column("sojourn_max_ms", "ms", "time in queue, maximum", doc)]


def _rtt(whose: str) -> list[Column]:
    return [
        _quantile(
            f"rtt_p{share}_ms",
            "ms",
            f"RTT, P{share}",
            f"RTT that {share} % of the samples of {whose} did not exceed. {_RTT_SAMPLES} NaN for UDP without echo.",
        )
        for share in (50, 95, 99)
    ]


def _delay(packets: str, jitter: str) -> list[Column]:
    """Return one-way delay and mean jitter of `packets`; `jitter` says whose jitter the mean is of."""
    one_way = "one-way delay of UDP"
    quantiles = [
        _quantile(
            f"delay_p{share}_ms",
            "ms",
            f"{one_way}, P{share}",
            f"One-way delay that {share} % of {packets} did not exceed, of those that arrived. {_ONE_WAY}",
        )
        for share in (95, 99)
    ]
    return [
        Column("delay_mean_ms", "ms", f"{one_way}, mean", f"Mean one-way delay of {packets} that arrived. {_ONE_WAY}"),
        Column("delay_min_ms", "ms", f"{one_way}, minimum", f"Smallest one-way delay of {packets}; exact. {_ONE_WAY}"),
        *quantiles,
        Column("delay_max_ms", "ms", f"{one_way}, maximum", f"Largest one-way delay of {packets}; exact. {_ONE_WAY}"),
        Column(
            "jitter_mean_ms",
            "ms",
            "jitter of UDP, mean",
            f"Mean over {packets} that arrived of the jitter after each, {jitter}. {_JITTER}",
        ),
    ]


_KEY = Column("key", "", "run", "Key of the run, as in table runs: it joins the tables.")
_CLASS = Column("class", "", "class", "Number of the class of traffic in its run, as in table classes.")

_LATE = "How late frames left against their schedule, in that direction whose P99 is the larger. Live runs only."
_LIVE = [
    _quantile("lateness_p50_ms", "ms", "lateness, P50", f"Median. {_LATE}"),
    _quantile("lateness_p99_ms", "ms", "lateness, P99", f"What 99 % of the frames did not exceed. {_LATE}"),
    Column("lateness_max_ms", "ms", "lateness, maximum", f"Maximum. {_LATE}"),
    Column(
        "lateness_allowed_ms",
        "ms",
        "lateness allowed",
        "P99 of the lateness up to which the run is valid: a tenth of the smallest of base RTT, target of the queue "
        "discipline and ten packet times. Live runs only.",
    ),
    Column(
        "ends_waited_ms",
        "ms",
        "wait of the ends for a core",
        "How long senders or receivers, those that waited longer, waited on average for a core when they had something "
        "to do; null where the kernel does not count it. Live runs only.",
    ),
    Column(
        "frames_lost",
        "frames",
        "frames lost outside the queue",
        "Frames that found no room in a ring or buffer of the engine. Live runs only.",
    ),
    Column(
        "valid",
        "",
        "valid",
        "1 if P99 of the lateness and wait of the ends were allowed and no frame was lost outside the queue, else 0: "
        "then the run says little. Live runs only.",
    ),
    Column("forwarder", "", "forwarder", "JSON: what the forwarding thread did. Live runs only."),
    Column("flows_seen", "", "flows seen", "JSON: how many flows were seen, by protocol. dumbbell shell only."),
]

_RUNS = [
    Column("key", "", "run", "Hash of configuration, seed and engine version: equal runs have equal keys."),
    Column("experiment", "", "experiment", "Name of the experiment: that of its file, without the ending."),
    Column("title", "", "title", "Title of the experiment."),
    Column("seed", "", "seed", "Seed of every random stream of the run."),
    Column("number", "", "run", "Number of the run in its sweep, from 0: the order of files and matrices."),
    Column("matrix", "", "matrix", "JSON: the keys of the matrix and what each was in this run, as text."),
    Column(
        "config",
        "",
        "configuration",
        "JSON: all that the engine was given, in ns, bit/s and bytes, no key missing.",
    ),
    Column("engine_version", "", "engine", "Version of the engine and a hash of its sources."),
    Column("kernel", "", "kernel", "JSON: kernel, patches and tools, of a run on Linux."),
    Column(
        "given", "", "given", "JSON: keys that the experiment sets, of a run on Linux; others are the kernel's own."
    ),
    Column("wall_s", "s", "time of computation", "Seconds that one core took for the run."),
    Column(
        "hash",
        "",
        "hash",
        "Digest of what was measured, but not of the seed: equal for equal results. Measures that came later (P95 of "
        "the time in queue, one-way delay and jitter of UDP) are left out, so that it can be compared between engines.",
    ),
    Column(
        "cell",
        "",
        "cell",
        "Hash of the configuration without seed and engine version: equal in the runs of one cell of the matrix "
        "with several seeds, or by several engines.",
    ),
    Column(
        "utilisation",
        "",
        "utilisation",
        "Bits that left the link over what it could carry in the whole run, by its rate, changes included, or by its "
        "trace, 0 to 1.",
    ),
    Column(
        "capacity_mbit",
        "Mbit/s",
        "capacity",
        f"What the link could carry in the whole run, by its rate or its trace, over the duration. {_FRAMES}",
    ),
    Column(
        "throughput_mbit", "Mbit/s", "throughput", f"What left the link in the whole run over its duration. {_FRAMES}"
    ),
    Column(
        "goodput_total_mbit",
        "Mbit/s",
        "goodput, sum of flows",
        "Sum of the goodputs of flows and UDP, each over its own lifetime: with late starts it can exceed the rate. "
        "Without short flows. What the link carried is throughput_mbit.",
    ),
    Column(
        "jain",
        "",
        "Jain's index",
        "Jain's index of fairness of the goodput of all flows, 1/n to 1; UDP and short flows do not count.",
    ),
    Column(
        "convergence_s",
        "s",
        "time to convergence",
        "From the start of the last flow until Jain's index of the goodput in one interval of the series was first "
        "0.95 or more; null if it never was.",
    ),
    Column(
        "convergence_cumulative_s",
        "s",
        "time to convergence, cumulative",
        "The same for everything that was acknowledged since the last flow started.",
    ),
    Column("packets", "packets", "packets", "Packets of all traffic that left the link in the whole run."),
    Column(
        "backlog_mean_packets",
        "packets",
        "backlog, mean",
        "Mean number of packets in the queue over the run, by Little's law: time in queue times packets over duration.",
    ),
    *_sojourn("all packets", "Over all packets of the whole run that the queue gave to the link."),
    *_delay("all packets of UDP", "that of its own flow"),
    Column(
        "ce_marks",
        "packets",
        "CE marks",
        "CE marks by the queue in the whole run; a packet that was CE already counts, as in Linux.",
    ),
    Column("sce_marks", "packets", "SCE marks", "SCE marks (ECT(1)) by the queue in the whole run."),
    Column("drops", "packets", "drops", "Packets that the queue dropped in the whole run, for whatever reason."),
    Column("drops_overflow", "packets", "drops, overflow", "Packets dropped because the queue was full."),
    Column("drops_aqm", "packets", "drops, AQM", "Packets dropped by the AQM."),
    Column("mark_share", "", "share of CE marks", "CE marks over packets that left the link."),
    Column("drop_share", "", "share of drops", "Drops by the queue over drops and packets that left the link."),
    Column(
        "retransmissions",
        "packets",
        "retransmissions",
        "Data packets that all flows sent again in their measured time; without short flows.",
    ),
    Column("short_flows", "flows", "short flows", "How many short flows of [[web]] began."),
    Column(
        "short_flows_kept",
        "flows",
        "short flows kept",
        "How many of them are in table short_flows: all, or an even sample of record.short_flows of them.",
    ),
    Column(
        "aqm_counters",
        "",
        "counters of the queue discipline",
        "JSON: counters that only some disciplines have, over the whole run. fq_codel and fq_pie: new_flows (flow "
        "queues that became active); red: marked_by_chance and marked_by_force; dualpi2: packets_in_l, packets_in_c, "
        "ecn_mark and step_marks (a packet that both parts mark counts in both), maxq (most packets that one found); "
        "pi2: packets_in, ecn_mark, maxq; csaqm: below_ctv (packets that left below the threshold value), updates and "
        "updates_above (those that found more than the target); every internal queue (tin0, tin1, ... "
        "of cake, l and c of dualpi2): NAME_packets, NAME_ce_marks, NAME_sce_marks and NAME_drops.",
    ),
    Column("events", "events", "events", "Events that the engine handled: a measure of its work."),
    *_LIVE,
    Column(
        "rate_ratio",
        "",
        "ratio of rates",
        "throughput_mbit of the first class of flows over that of the second; null unless there are two.",
    ),
    Column(
        "window_ratio",
        "",
        "ratio of windows",
        "window_kb of the first class of flows over that of the second; null unless there are two.",
    ),
]

_DIRECTION = Column("direction", "", "direction", "Which way the data went: down or up.")
_FLOWS = [
    _KEY,
    Column("flow", "", "flow", "Number in the run, in the order of the file: flows from 0, then UDP."),
    _CLASS,
    Column("cc", "", "congestion control", 'Congestion control; "udp" for UDP, "ping" for UDP that is echoed.'),
    _DIRECTION,
    Column("base_rtt_ms", "ms", "base RTT", "Propagation, both directions together; 0 for UDP without echo."),
    Column("start_s", "s", "start", "When the flow began to send."),
    Column(
        "goodput_mbit",
        "Mbit/s",
        "goodput",
        "Payload that was acknowledged (UDP: received; dumbbell shell: that left the link) over the measured time. "
        f"{_MEASURED}",
    ),
    Column(
        "throughput_mbit",
        "Mbit/s",
        "throughput",
        f"Frames that reached the receiver over the measured time, retransmissions included. {_FRAMES} {_MEASURED}",
    ),
    Column("share", "", "share", "Goodput over the goodput of all flows and UDP of the run."),
    Column("rtt_mean_ms", "ms", "mean RTT", f"Mean of the smoothed RTT. {_SAMPLED} NaN for UDP without echo."),
    Column("rtt_max_ms", "ms", "RTT, maximum", f"Largest smoothed RTT. {_SAMPLED}"),
    Column("rtt_min_ms", "ms", "RTT, minimum", "Smallest RTT that the sender measured, not smoothed."),
    *_rtt("the flow"),
    Column("cwnd_mean", "segments", "congestion window, mean", f"Mean of the congestion window. {_SAMPLED}"),
    Column("cwnd_max", "segments", "congestion window, maximum", f"Largest congestion window. {_SAMPLED}"),
    Column(
        "completion_s",
        "s",
        "completion time",
        "From the first packet, the SYN, until everything was acknowledged; NaN for a flow that did not end.",
    ),
    Column(
        "slow_start_exit",
        "",
        "end of slow start",
        "What ended slow start first: `loss`, `ecn`, `timeout`, `sce`, `threshold` (`hosts.initial_ssthresh`), "
        "HyStart's `delay` or `train`; of BBR's STARTUP `plateau` (the rate grew no more), `loss` or `ecn`. "
        "Empty before it ended, for UDP, and on other engines than the simulator. An end that was undone counts.",
    ),
    Column(
        "slow_start_exit_s",
        "s",
        "end of slow start, time",
        "From the SYN until slow start first ended; NaN if it did not.",
    ),
    Column("sent", "packets", "packets sent", "Data packets that the sender sent, retransmissions included."),
    Column("retransmissions", "packets", "retransmissions", "Data packets that the sender sent again."),
    Column("timeouts", "", "retransmission timeouts", "Retransmission timeouts of the sender."),
    Column("probes", "", "tail-loss probes", "Tail-loss probes that the sender sent."),
    Column("ecn_reductions", "", "reductions, ECN", "How often the sender reduced its window because of ECN."),
    Column("loss_reductions", "", "reductions, loss", "How often the sender reduced its window because of loss."),
    Column("undone_reductions", "", "reductions undone", "Reductions that the sender found spurious and took back."),
    Column("ce_received", "packets", "CE received", "Packets that reached the receiver with CE."),
    Column("sce_received", "packets", "SCE received", "Packets that reached the receiver with ECT(1), which is SCE."),
    Column("acks", "packets", "ACKs", "ACKs that the receiver sent; of UDP with echo, answers."),
    Column("answers", "packets", "answers", "Of UDP with echo: packets whose answer came back; 0 of others."),
    Column("duplicates", "packets", "duplicates", "Data packets that reached the receiver and had arrived before."),
    Column(
        "packets", "packets", "packets", "Packets of the flow that left the link in its measured time, SYNs included."
    ),
    Column(
        "sojourn_mean_ms",
        "ms",
        "time in queue, mean",
        f"Mean time in queue of the packets of the flow, {_IN_QUEUE}; NaN if none left it.",
    ),
    *_delay("the packets of the flow", "as its receiver computes it"),
    Column("jitter_ms", "ms", "jitter of UDP", f"Jitter after the last packet of the flow. {_JITTER}"),
    Column("ce_marks", "packets", "CE marks", "Packets of the flow that the queue turned into CE."),
    Column("sce_marks", "packets", "SCE marks", "Packets of the flow that the queue turned into SCE (ECT(1))."),
    Column("drops", "packets", "drops", "Packets of the flow that the queue dropped, for whatever reason."),
    Column("drops_overflow", "packets", "drops, overflow", "Packets of the flow dropped because the queue was full."),
    Column("drops_aqm", "packets", "drops, AQM", "Packets of the flow dropped by the AQM."),
    Column("source", "", "source", "Address and port that the flow came from. dumbbell shell only."),
    Column("destination", "", "destination", "Address and port that it went to. dumbbell shell only."),
]

_CLASSES = [
    _KEY,
    Column(
        "class",
        "",
        "class",
        "Number of the class in its run. Flows are one class if congestion control, base RTT, ECN, direction and "
        "routes are equal; each [[web]] is one; UDP is one if rate, size, ECN field, DSCP and route are equal.",
    ),
    Column("kind", "", "kind", "flows, web or udp."),
    Column("cc", "", "congestion control", 'Congestion control of the members; "udp" for UDP, "ping" with echo.'),
    _DIRECTION,
    Column("base_rtt_ms", "ms", "base RTT", "Propagation of the members, both directions together; 0 for UDP."),
    Column(
        "flows", "flows", "members", "How many flows or sources of UDP are members; of web, short flows that began."
    ),
    Column(
        "throughput_mbit",
        "Mbit/s",
        "throughput",
        f"Mean over the members of frames received over each one's measured time. {_FRAMES} {_MEASURED}",
    ),
    Column(
        "goodput_mbit",
        "Mbit/s",
        "goodput",
        f"Mean over the members of payload acknowledged (UDP: received) over each one's measured time. {_MEASURED}",
    ),
    Column(
        "total_throughput_mbit",
        "Mbit/s",
        "throughput, total",
        f"Frames that all members together received, over the duration of the run. {_FRAMES}",
    ),
    Column(
        "rtt_mean_ms",
        "ms",
        "mean RTT",
        f"Mean over the members of each one's mean smoothed RTT; members without an RTT do not count. {_SAMPLED}",
    ),
    *_rtt("all members"),
    *_sojourn("the packets of the class", "Over the packets of all members."),
    *_delay("the packets of the class", "that of its own flow"),
    Column(
        "mark_share", "", "share of CE marks", "Packets received with CE over packets that left the link, of the class."
    ),
    Column(
        "drop_share", "", "share of drops", "Drops by the queue over drops and packets of the class that left the link."
    ),
    Column(
        "relative_throughput",
        "",
        "throughput over fair share",
        "throughput_mbit over the rate divided by the number of all flows; only for flows. A trace has the rate of "
        "its capacity in the whole run.",
    ),
    Column(
        "window_kb",
        "kB",
        "window",
        "throughput_mbit times base RTT plus mean time in queue: what a member has in flight; only for flows.",
    ),
    Column(
        "normalised_window",
        "",
        "window over fair window",
        "window_kb over the window that, equal for all flows, would fill the link; only for flows.",
    ),
]

_SERIES = [
    _KEY,
    Column("time_s", "s", "time", "End of the interval; record.interval is its length."),
    Column("flow", "", "flow", "Number of the flow or source of UDP, as in table flows."),
    Column(
        "goodput_mbit",
        "Mbit/s",
        "goodput",
        "Payload that was acknowledged (UDP: received; dumbbell shell: that left the link) in the interval over its "
        "length.",
    ),
    Column("srtt_ms", "ms", "smoothed RTT", "Smoothed RTT of the sender at this time; 0 before the first sample."),
    Column("cwnd", "segments", "congestion window", "Congestion window at this time."),
    Column("ssthresh", "segments", "slow-start threshold", "Slow-start threshold at this time."),
    Column("in_flight", "segments", "segments in flight", "What the sender takes to be in flight at this time."),
    Column("retransmissions", "packets", "retransmissions", "Data packets sent again in the interval."),
]

_QUEUE_SERIES = [
    _KEY,
    Column("time_s", "s", "time", "End of the interval; record.interval is its length."),
    Column("backlog_packets", "packets", "backlog", "Packets in the queue at this time."),
    Column("backlog_bytes", "bytes", "backlog", "Bytes in the queue at this time."),
    Column(
        "sojourn_mean_ms",
        "ms",
        "time in queue, mean",
        "Mean time in queue of the packets that the queue gave to the link in the interval; 0 if there were none.",
    ),
    Column("throughput_mbit", "Mbit/s", "throughput", f"What left the link in the interval over its length. {_FRAMES}"),
    Column("capacity_mbit", "Mbit/s", "capacity", f"What the link could carry in the interval. {_FRAMES}"),
    Column("ce_marks", "packets", "CE marks", "CE marks by the queue in the interval."),
    Column("sce_marks", "packets", "SCE marks", "SCE marks by the queue in the interval."),
    Column("drops", "packets", "drops", "Packets that the queue dropped in the interval, for whatever reason."),
]

_SOJOURN = [
    _KEY,
    _CLASS,
    Column(
        "from_ms",
        "ms",
        "time in queue",
        f"Lower end of a bin of the histogram of the time in queue, {_IN_QUEUE}. Bins without packets are left out.",
    ),
    Column("packets", "packets", "packets", "Packets of the class in the bin, over the whole run."),
]

_RTT = [
    _KEY,
    _CLASS,
    Column(
        "from_ms",
        "ms",
        "RTT",
        "Lower end of a bin of the histogram of the RTT samples of [[flows]]. Bins without samples are left out.",
    ),
    Column("samples", "samples", "samples", "RTT samples that all flows of the class took, in the bin."),
]

_HOP = Column("hop", "", "hop", "Name of the hop: bottleneck, that of a [[hop]], or reverse.")
_OF_HOPS = (
    *("utilisation", "capacity_mbit", "throughput_mbit", "packets", "backlog_mean_packets", "ce_marks", "sce_marks"),
    *("drops_overflow", "drops_aqm", "drops", "mark_share", "drop_share", "aqm_counters"),
)
_HOPS = [
    _KEY,
    _HOP,
    *(one for one in _RUNS if one.name in _OF_HOPS or one.name.startswith("sojourn_")),
    Column("ack_packets", "packets", "ACKs", "Acknowledgements that left the link; packets has them, too."),
    Column(
        "ack_sojourn_mean_ms",
        "ms",
        "time in queue of ACKs, mean",
        f"Mean time in queue of acknowledgements, {_IN_QUEUE}. NaN where there were none.",
    ),
    Column("ack_drops", "packets", "drops of ACKs", "Acknowledgements that the queue dropped; drops has them, too."),
]
_HOP_SERIES = [
    _KEY,
    _QUEUE_SERIES[1],
    _HOP,
    *_QUEUE_SERIES[2:],
    Column("ack_packets", "packets", "ACKs", "Acknowledgements that left the link in the interval."),
    Column("ack_drops", "packets", "drops of ACKs", "Acknowledgements that the queue dropped in the interval."),
]

_QUEUE_STATES = [
    _KEY,
    Column("time_s", "s", "time", "Point of the time series; record.interval is the time from one to the next."),
    _HOP,
    Column("state", "", "state", "What of the queue discipline's state: one of those that record.queue names."),
    Column("value", "", "value", "Its value then. Of which unit it is says dumbbell describe record."),
]

_SHORT_FLOWS = [
    _KEY,
    Column("flow", "", "flow", "Number in the run: those of [[flows]] and [[udp]] come first."),
    _CLASS,
    Column("size_bytes", "bytes", "size", "Payload of the flow."),
    Column("start_s", "s", "start", "When its SYN was sent."),
    Column(
        "completion_s",
        "s",
        "completion time",
        "From its SYN until everything was acknowledged; NaN if the run ended before.",
    ),
    Column(
        "slowdown",
        "",
        "slow-down",
        "Completion time over size/rate + base RTT, what the payload takes on an empty link in one round trip.",
    ),
]

_SLOWDOWNS = [
    _KEY,
    _CLASS,
    Column("from_bytes", "bytes", "size, from", "Lower end of the range of sizes, which belongs to it."),
    Column("to_bytes", "bytes", "size, to", "Upper end of the range of sizes, which does not belong to it."),
    Column("flows", "flows", "short flows", "Short flows of the class and these sizes that began: all, not a sample."),
    Column("finished", "flows", "short flows finished", "How many of them were complete before the run ended."),
    Column("completion_mean_s", "s", "completion time, mean", "Mean completion time of those that finished."),
    *(
        _quantile(
            f"completion_p{share}_s",
            "s",
            f"completion time, P{share}",
            f"Completion time that {share} % of those that finished did not exceed.",
        )
        for share in (50, 95, 99)
    ),
    Column("slowdown_mean", "", "slow-down, mean", "Mean of completion time over size/rate + base RTT."),
    *(
        _quantile(
            f"slowdown_p{share}",
            "",
            f"slow-down, P{share}",
            f"Completion time over size/rate + base RTT that {share} % of those that finished did not exceed.",
        )
        for share in (50, 95, 99)
    ),
]

_TRACE = [
    _KEY,
    Column("time_s", "s", "time", "Time on the sender's clock; record.trace says how far rows are apart."),
    Column("flow", "", "flow", "Number of the flow, as in table flows."),
    Column(
        "state",
        "",
        "state",
        "State of the congestion control: startup, drain, probe_down, probe_cruise, probe_refill, probe_up or "
        "probe_rtt. "
        f"BBRv1 goes up at a pacing gain above one, down below one, and cruises at one. {_NO_MODEL}",
    ),
    Column(
        "ca_state",
        "",
        "state of loss recovery",
        "State of the loss and congestion machine of the transport: open, disorder, cwr, recovery or loss.",
    ),
    Column(
        "max_bw_mbit", "Mbit/s", "bandwidth, maximum", f"Largest delivery rate of the control's filter; payload. {_NAN}"
    ),
    Column(
        "bw_mbit",
        "Mbit/s",
        "bandwidth",
        f"Rate that pacing and window follow: the maximum within its bounds; payload. {_NAN}",
    ),
    Column(
        "bw_shortterm_mbit",
        "Mbit/s",
        "bandwidth, short-term bound",
        "Short-term bound of the rate; payload. NaN while it is not set.",
    ),
    Column(
        "inflight_shortterm",
        "segments",
        "segments in flight, short-term bound",
        "Short-term bound of what is in flight. NaN while it is not set.",
    ),
    Column(
        "inflight_longterm",
        "segments",
        "segments in flight, long-term bound",
        "Long-term bound of what is in flight. NaN while it is not set.",
    ),
    Column(
        "inflight_bdp",
        "segments",
        "segments in flight, estimated BDP",
        f"bw times min_rtt, with what the control adds for bursts and as a floor. {_NAN}",
    ),
    Column("min_rtt_ms", "ms", "RTT, minimum", f"Smallest RTT of the control's filter. {_NAN}"),
    Column(
        "probe_up_step",
        "segments",
        "step of the long-term bound",
        "By how much inflight_longterm rises in a round while it is probed. NaN otherwise.",
    ),
    Column("pacing_gain", "", "pacing gain", f"Gain of the pacing rate over the rate. {_NAN}"),
    Column("cwnd_gain", "", "window gain", f"Gain of the window over the estimated BDP. {_NAN}"),
    Column(
        "ecn_alpha",
        "",
        "share of CE marks, average",
        f"Average share of marked segments that the control keeps. {_NAN}",
    ),
    Column("pacing_rate_mbit", "Mbit/s", "pacing rate", "Pacing rate; payload. NaN before it is set."),
    Column("srtt_ms", "ms", "smoothed RTT", "Smoothed RTT. NaN before the first sample."),
    Column("round", "", "round", f"Round trips so far, as the control counts them. {_ZERO}"),
    Column("extra_acked", "segments", "aggregation of ACKs", f"Aggregation that the window allows for. {_ZERO}"),
    Column("full_bw_now", "", "bandwidth is full now", f"1 if the rate grows no more in this search. {_ZERO}"),
    Column("full_bw_reached", "", "bandwidth was full", f"1 if it was so once: startup is over. {_ZERO}"),
    Column("idle_restart", "", "restart from idleness", f"1 while the connection restarts after idleness. {_ZERO}"),
    Column("cwnd", "segments", "congestion window", "Congestion window."),
    Column("in_flight", "segments", "segments in flight", "What the sender takes to be in flight."),
    Column("delivered", "segments", "segments delivered", "Delivered so far; the SYN counts as one."),
    Column("delivered_ce", "segments", "segments with CE", "Of those, by ACKs that echo CE."),
    Column(
        "lost", "segments", "segments lost", "Marked lost so far; a retransmission that is lost again counts again."
    ),
    Column("sent", "packets", "packets sent", "Data packets sent so far, retransmissions included."),
    Column("retransmissions", "packets", "retransmissions", "Data packets sent again so far."),
    Column("timeouts", "", "timeouts", "Retransmission timeouts so far."),
    Column("undone", "", "reductions undone", "Reductions so far that turned out to be spurious and were undone."),
    Column(
        "app_limited",
        "",
        "application-limited",
        "1 if what is sent now is limited by the application. Controls without rate samples: 1 if nothing "
        "waits to be sent.",
    ),
    Column(
        "backlog_bytes",
        "bytes",
        "backlog",
        "Bytes in the queue when what the flow sends now gets there, half a base RTT later.",
    ),
]

_TABLES = {
    "runs": _RUNS,
    "flows": _FLOWS,
    "classes": _CLASSES,
    "series": _SERIES,
    "queue_series": _QUEUE_SERIES,
    "sojourn": _SOJOURN,
    "rtt": _RTT,
    "short_flows": _SHORT_FLOWS,
    "slowdowns": _SLOWDOWNS,
    "trace": _TRACE,
    "hops": _HOPS,
    "hop_series": _HOP_SERIES,
    "queue_states": _QUEUE_STATES,
}
# table → its columns, in the order in which they are described
COLUMNS: dict[str, dict[str, Column]] = {
    table: {column.name: column for column in columns} for table, columns in _TABLES.items()
}


def find(name: str) -> list[tuple[str, Column]]:
    """Return every column called `name`, with its table."""
    return [(table, columns[name]) for table, columns in COLUMNS.items() if name in columns]


def axis_label(name: str, table: str | None = None) -> str:
    """Return a column in words with its unit, `goodput, Mbit/s`; of `table`, or of the first table that has it.

    A name that is not a column is returned as it is.
    """
    found = [column for owner, column in find(name) if table in (None, owner)] or [c for _, c in find(name)]
    if not found:
        return name
    label, unit = found[0].label, found[0].unit
    return f"{label}, {unit}" if unit and not {unit, unit.removesuffix("s")} & set(label.split()) else label
