//! Table `trace`: what congestion controls believe.

use super::columns;
use crate::flow::SenderState;
use dumbbell_core::cc::conn::CaState;
use dumbbell_core::cc::Model;
use dumbbell_core::tcp::stats::SenderStats;
use dumbbell_core::units::Instant;

const NO_MODEL: &str = "NaN for a control without a model.";
const ZERO: &str = "0 for a control without a model.";

/// A flow's sender at some time.
#[derive(Clone, Copy, Debug)]
pub struct TraceRow {
    /// On its clock.
    pub time: Instant,
    /// Number of the flow.
    pub flow: u32,
    /// The congestion control's model of the path, if it has one.
    pub model: Option<Model>,
    /// State of loss recovery.
    pub ca_state: CaState,
    /// Bytes per second; the largest number before it is set.
    pub pacing_rate: u64,
    /// Smoothed RTT and window, and the sender's estimate of segments in flight.
    pub sender: SenderState,
    /// Segments so far, as the next two.
    pub delivered: u64,
    /// By ACKs that echo CE.
    pub delivered_ce: u64,
    /// Marked lost.
    pub lost: u64,
    /// Counters of the sender.
    pub stats: SenderStats,
    /// Whether the application limits what is sent.
    pub is_app_limited: bool,
    /// Bytes in the queue.
    pub backlog_bytes: u64,
}

impl TraceRow {
    fn model_or_default(&self) -> Model {
        self.model.unwrap_or_default()
    }

    fn real(&self, of: impl Fn(&Model) -> f64) -> f64 {
        self.model.as_ref().map_or(f64::NAN, of)
    }

    /// A count or a flag; 0 if it is not reported.
    fn count<T: Into<u64>>(&self, of: impl Fn(&Model) -> Option<T>) -> u64 {
        self.model.as_ref().and_then(of).map_or(0, Into::into)
    }

    fn set<T: Into<f64>>(&self, of: impl Fn(&Model) -> Option<T>) -> f64 {
        self.real(|model| of(model).map_or(f64::NAN, Into::into))
    }
}

/// Bytes per second as Mbit/s.
fn mbit(bytes: u64) -> f64 {
    bytes as f64 * 8e-6
}

/// Converts a rate to Mbit/s; the largest number means that it is not known.
fn known_mbit(bytes: u64) -> f64 {
    match bytes {
        u64::MAX => f64::NAN,
        known => mbit(known),
    }
}

columns! {
    /// States of congestion controls.
    pub table Trace of TraceRow {
        /// Time on the sender's clock; record.trace says how far rows are apart.
        time_s: f64 = |row| row.time.as_secs_f64(), unit "s", label "time";
        /// Number of the flow, as in table flows.
        flow: u64 = |row| u64::from(row.flow);
        /// State of the congestion control; of a plugin the names that it tells. Of BBR: startup, drain, probe_down, probe_cruise, probe_refill, probe_up or probe_rtt. BBRv1 goes up at a
        /// pacing gain above one, down below one, and cruises at one. Empty for a control without a model of its path.
        state: str = |row| row.model_or_default().state;
        /// State of the loss and congestion machine of the transport: open, disorder, cwr, recovery or loss. Of a stack always open.
        ca_state: str = |row| row.ca_state.name(), label "state of loss recovery";
        /// Largest delivery rate of the control's filter; payload.
        #[doc = NO_MODEL]
        max_bw_mbit: f64 = |row| row.real(|model| known_mbit(model.max_bw)), unit "Mbit/s", label "bandwidth, maximum";
        /// Rate that pacing and window follow: the maximum within its bounds; payload.
        #[doc = NO_MODEL]
        bw_mbit: f64 = |row| row.real(|model| known_mbit(model.bw)), unit "Mbit/s", label "bandwidth";
        /// Short-term bound of the rate; payload. NaN while it is not set.
        bw_shortterm_mbit: f64 = |row| row.set(|model| model.bw_shortterm.map(mbit)), unit "Mbit/s", label "bandwidth, short-term bound";
        /// Short-term bound of what is in flight. NaN while it is not set.
        inflight_shortterm: f64 = |row| row.set(|model| model.inflight_shortterm), unit "segments",
            label "segments in flight, short-term bound";
        /// Long-term bound of what is in flight. NaN while it is not set.
        inflight_longterm: f64 = |row| row.set(|model| model.inflight_longterm), unit "segments",
            label "segments in flight, long-term bound";
        /// bw times min_rtt, with what the control adds for bursts and as a floor.
        #[doc = NO_MODEL]
        inflight_bdp: f64 = |row| row.set(|model| Some(model.inflight).filter(|&known| known != u32::MAX)), unit "segments", label "segments in flight, estimated BDP";
        /// Smallest RTT of the control's filter.
        #[doc = NO_MODEL]
        min_rtt_ms: f64 = |row| row.set(|model| model.min_rtt_us.map(|us| f64::from(us) / 1e3)), unit "ms", label "RTT, minimum";
        /// By how much inflight_longterm rises in a round while it is probed. NaN otherwise.
        probe_up_step: f64 = |row| row.set(|model| model.probe_up_step), unit "segments", label "step of the long-term bound";
        /// Gain of the pacing rate over the rate.
        #[doc = NO_MODEL]
        pacing_gain: f64 = |row| row.real(|model| model.pacing_gain), label "pacing gain";
        /// Gain of the window over the estimated BDP.
        #[doc = NO_MODEL]
        cwnd_gain: f64 = |row| row.real(|model| model.cwnd_gain), label "window gain";
        /// Average share of marked segments that the control keeps.
        #[doc = NO_MODEL]
        ecn_alpha: f64 = |row| row.set(|model| model.ecn_alpha), label "share of CE marks, average";
        /// Pacing rate; payload. NaN before it is set.
        pacing_rate_mbit: f64 = |row| known_mbit(row.pacing_rate), unit "Mbit/s", label "pacing rate";
        /// Smoothed RTT. NaN before the first sample.
        srtt_ms: f64 = |row| match row.sender.srtt_us {
            0 => f64::NAN,
            us => f64::from(us) / 1e3,
        }, unit "ms", label "smoothed RTT";
        /// Round trips so far, as the control counts them.
        #[doc = ZERO]
        round: u64 = |row| row.count(|model| Some(model.round).filter(|&known| known != u64::MAX));
        /// Aggregation that the window allows for.
        #[doc = ZERO]
        extra_acked: u64 = |row| row.count(|model| Some(model.extra_acked).filter(|&known| known != u32::MAX)), unit "segments", label "aggregation of ACKs";
        /// 1 if the rate grows no more in this search.
        #[doc = ZERO]
        full_bw_now: u64 = |row| row.count(|model| model.full_bw_now), label "bandwidth is full now";
        /// 1 if it was so once: startup is over.
        #[doc = ZERO]
        full_bw_reached: u64 = |row| row.count(|model| model.full_bw_reached), label "bandwidth was full";
        /// 1 while the connection restarts after idleness.
        #[doc = ZERO]
        idle_restart: u64 = |row| row.count(|model| model.idle_restart), label "restart from idleness";
        /// Congestion window.
        cwnd: u64 = |row| u64::from(row.sender.cwnd), unit "segments", label "congestion window";
        /// Sender's estimate of segments in flight.
        in_flight: u64 = |row| u64::from(row.sender.in_flight), unit "segments", label "segments in flight";
        /// Delivered so far; the SYN counts as one. Of a stack, payload that its receiver's application has.
        delivered: u64 = |row| row.delivered, unit "segments", label "segments delivered";
        /// Segments among these that were delivered by ACKs that echo CE.
        delivered_ce: u64 = |row| row.delivered_ce, unit "segments", label "segments with CE";
        /// Marked lost so far; a retransmission that is lost again counts again.
        lost: u64 = |row| row.lost, unit "segments", label "segments lost";
        /// Data packets sent so far, retransmissions included.
        sent: u64 = |row| row.stats.sent, unit "packets", label "packets sent";
        /// Data packets sent again so far.
        retransmissions: u64 = |row| row.stats.retransmissions, unit "packets";
        /// Retransmission timeouts so far.
        timeouts: u64 = |row| row.stats.timeouts;
        /// Window reductions because of ECN so far, as in table flows.
        ecn_reductions: u64 = |row| row.stats.ecn_reductions, label "reductions, ECN", digest false;
        /// Window reductions because of loss so far, as in table flows.
        loss_reductions: u64 = |row| row.stats.loss_reductions, label "reductions, loss", digest false;
        /// Reductions so far that turned out to be spurious and were undone.
        undone: u64 = |row| row.stats.undone, label "reductions undone";
        /// 1 if what is sent now is limited by the application. Controls without rate samples: 1 if nothing waits to be sent.
        app_limited: u64 = |row| u64::from(row.is_app_limited), label "application-limited";
        /// Bytes in the queue when what the flow sends now gets there, half a base RTT later.
        backlog_bytes: u64 = |row| row.backlog_bytes, unit "bytes", label "backlog";
    }
}
