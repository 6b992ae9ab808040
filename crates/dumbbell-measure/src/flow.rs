//! Measurements of one flow.

use crate::statistics::{mean, rtt_percentiles_ms};
use crate::table::UNREPORTED;
use crate::transit::{Transit, UdpFate};
use dumbbell_core::cc::exit::ExitCause;
use dumbbell_core::histogram::CompactHistogram;
use dumbbell_core::observe::SenderSnapshot;
use dumbbell_core::protocol::ProtocolStats;
use dumbbell_core::record::FlowCounters;
use dumbbell_core::tcp::sender::Sender;
use dumbbell_core::tcp::stats::{ReceiverStats, SenderStats};
use dumbbell_core::units::{Duration, Instant};

/// State of a TCP sender, or of a stack that reports as much (TCP_INFO, linux/tcp.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderState {
    /// Smoothed RTT, us; 0 before the first sample.
    pub srtt_us: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments.
    pub ssthresh: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Retransmissions since the start; [`UNREPORTED`] if the sender does not report them.
    pub retransmissions: u64,
}

impl From<&Sender> for SenderState {
    fn from(sender: &Sender) -> SenderState {
        let conn = &sender.conn;
        SenderState {
            srtt_us: conn.rtt().srtt_us(),
            cwnd: conn.cwnd,
            ssthresh: conn.ssthresh,
            in_flight: conn.in_flight(),
            retransmissions: sender.stats().retransmissions,
        }
    }
}

/// Bytes become segments of [`ProtocolStats::segment`]; packets that the sender took for lost count as retransmissions.
impl From<&ProtocolStats> for SenderState {
    fn from(stats: &ProtocolStats) -> SenderState {
        let segments = |bytes: Option<u64>| u32::try_from(bytes.unwrap_or(0) / stats.segment.max(1)).unwrap_or(u32::MAX);
        let SenderSnapshot { srtt, cwnd, ssthresh, in_flight, lost, .. } = stats.sender;
        SenderState {
            srtt_us: srtt.map_or(0, whole_micros),
            cwnd: segments(cwnd),
            ssthresh: segments(ssthresh),
            in_flight: segments(in_flight),
            retransmissions: lost.unwrap_or(UNREPORTED),
        }
    }
}

/// Returns a time in whole us, at least one.
pub fn whole_micros(time: Duration) -> u32 {
    u32::try_from(time.0 / 1000).unwrap_or(u32::MAX).max(1)
}

/// Sums of TCP_INFO samples of one flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Samples {
    /// How many.
    pub count: u64,
    /// Smoothed RTTs.
    pub srtt_us: u64,
    /// Windows, segments.
    pub cwnd: u64,
    /// Largest smoothed RTT.
    pub srtt_max_us: u32,
    /// Largest window, segments.
    pub cwnd_max: u32,
}

impl Samples {
    /// Takes a sample as `ss` would print it. A flow that has no RTT yet gives none.
    pub fn add(&mut self, sender: &SenderState) {
        if sender.srtt_us == 0 {
            return;
        }
        self.count += 1;
        self.srtt_us += u64::from(sender.srtt_us);
        self.srtt_max_us = self.srtt_max_us.max(sender.srtt_us);
        self.cwnd += u64::from(sender.cwnd);
        self.cwnd_max = self.cwnd_max.max(sender.cwnd);
    }
}

/// Extra results of flows of QUIC stacks.
#[derive(Clone, Debug, Default)]
pub struct StackResult {
    /// Counts that the stack reports, and the state of its sender.
    pub stats: ProtocolStats,
    /// Why it was closed before its end, and when, from its start.
    pub closed: Option<(String, Duration)>,
}

/// Counts of a flow on its path: in the queue, and behind it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowCounts {
    /// By the queue.
    pub counters: FlowCounters,
    /// Counts of the frames that left the link, and of the acknowledgements.
    pub received: ReceiverStats,
}

/// One flow at the end of its measured time.
#[derive(Clone, Debug, Default)]
pub struct FlowResult {
    /// On the engine's clock.
    pub start: Instant,
    /// When counting began, if that is after the start.
    pub since: Instant,
    /// When counting ended.
    pub end: Instant,
    /// Payload that arrived: acknowledged for TCP, received for UDP; bytes.
    pub payload: u64,
    /// Smallest RTT; the largest number if there is none.
    pub min_rtt_us: u32,
    /// From its first packet until everything was acknowledged.
    pub completion: Option<Duration>,
    /// The first end of slow start, and its time since the SYN.
    pub slow_start_exit: Option<(ExitCause, Duration)>,
    /// Samples of TCP_INFO.
    pub samples: Samples,
    /// Every sample of the RTT estimator; of listed TCP flows only.
    pub rtt_samples: Option<CompactHistogram>,
    /// One-way delays, for UDP.
    pub transit: Option<Box<Transit>>,
    /// Packets that were answered, or whose answer is overdue, for UDP with echo.
    pub due: Option<u64>,
    /// Extra results, for a QUIC stack.
    pub stack: Option<Box<StackResult>>,
    /// Counters of the sender.
    pub sender: SenderStats,
    /// Counters of the receiver.
    pub receiver: ReceiverStats,
    /// Counters of the flow at the queue.
    pub counters: FlowCounters,
}

impl FlowResult {
    /// Returns a count that a QUIC stack may report; NaN if it does not report it, or for other flows.
    pub fn stack_count(&self, count: impl Fn(&ProtocolStats) -> Option<u64>) -> f64 {
        self.stack.as_deref().and_then(|stack| count(&stack.stats)).map_or(f64::NAN, |count| count as f64)
    }

    /// Returns a count of the sender; for a stack the count that it reports, [`UNREPORTED`] if it does not.
    pub fn sender_count(&self, of_sender: u64, of_stack: impl Fn(&ProtocolStats) -> Option<u64>) -> u64 {
        self.stack.as_deref().map_or(of_sender, |stack| of_stack(&stack.stats).unwrap_or(UNREPORTED))
    }

    /// Packets that its sender sent again, or, of a stack, took for lost.
    pub fn retransmissions(&self) -> u64 {
        self.sender_count(self.sender.retransmissions, |of| of.sender.lost)
    }

    /// Why a stack closed it before its end, and when, from its start.
    pub fn close_reason(&self) -> Option<(&str, Duration)> {
        self.stack.as_ref()?.closed.as_ref().map(|(why, at)| (why.as_str(), *at))
    }

    /// How long it was measured.
    pub(crate) fn seconds(&self) -> f64 {
        self.end.saturating_since(self.start.max(self.since)).as_secs_f64()
    }

    /// Returns the counts since `before`, when counting began.
    pub(crate) fn subtract(self, before: &FlowResult) -> FlowResult {
        FlowResult {
            since: before.since,
            payload: self.payload - before.payload,
            due: self.due.map(|due| due - before.due.unwrap_or(0)),
            sender: self.sender.subtract(&before.sender),
            receiver: self.receiver.subtract(&before.receiver),
            counters: self.counters.subtract(&before.counters),
            stack: self.stack.map(|of| {
                let earlier = before.stack.as_deref().map_or_else(ProtocolStats::default, |stack| stack.stats);
                let since = |now: Option<u64>, then: Option<u64>| now.map(|now| now - then.unwrap_or(0));
                let stats = ProtocolStats {
                    sender: SenderSnapshot { lost: since(of.stats.sender.lost, earlier.sender.lost), ..of.stats.sender },
                    probes: since(of.stats.probes, earlier.probes),
                    loss_reductions: since(of.stats.loss_reductions, earlier.loss_reductions),
                    spurious: since(of.stats.spurious, earlier.spurious),
                    ce: since(of.stats.ce, earlier.ce),
                    ..of.stats
                };
                Box::new(StackResult { stats, ..*of })
            }),
            ..self
        }
    }

    fn mbit(&self, bytes: u64) -> f64 {
        if self.seconds() > 0.0 {
            bytes as f64 * 8e-6 / self.seconds()
        } else {
            0.0
        }
    }

    /// Payload over its lifetime, Mbit/s.
    pub fn goodput_mbit(&self) -> f64 {
        self.mbit(self.payload)
    }

    /// Frames over its lifetime, Mbit/s.
    pub fn throughput_mbit(&self) -> f64 {
        self.mbit(self.receiver.frame_bytes)
    }

    /// Mean of the samples of the smoothed RTT, ms; NaN if there are none.
    pub fn rtt_mean_ms(&self) -> f64 {
        mean(self.samples.srtt_us, self.samples.count, 1e3)
    }

    /// P50, P95 and P99 of all RTT samples, ms; NaN if there are none.
    pub fn rtt_percentiles_ms(&self) -> [f64; 3] {
        self.rtt_samples.as_ref().map_or([f64::NAN; 3], rtt_percentiles_ms)
    }

    /// Packets of UDP that were lost; of others nothing is known.
    pub fn fate(&self) -> UdpFate {
        let (counters, answers) = (&self.counters, self.samples.count);
        match (self.due, &self.transit) {
            (Some(due), _) => UdpFate { lost: due.saturating_sub(answers), known: due.max(answers) },
            (None, Some(_)) => {
                let lost = counters.count_lost();
                UdpFate { lost, known: lost + counters.departed - counters.lost_behind }
            }
            (None, None) => UdpFate::default(),
        }
    }

    /// Drops by the queue, packets.
    pub fn drops(&self) -> u64 {
        self.counters.count_dropped()
    }

    /// Mean time in queue, ms; NaN if no packet left the queue.
    pub fn sojourn_mean_ms(&self) -> f64 {
        mean(self.counters.sojourn_ns, self.counters.departed, 1e6)
    }
}
