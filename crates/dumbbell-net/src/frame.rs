//! Frames that go into a net and come out of it, and its counters.

use dumbbell_core::packet::{Ecn, UDP_HEADERS};
use std::time::Duration;

/// An Ethernet header: no frame is shorter.
const LEAST: u16 = 14;

/// Properties of a packet that queue and link see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Length on the wire: Ethernet header, without FCS, bytes. Rates count these, as in experiments.
    pub len: u16,
    /// ECN field of the IP header (RFC 3168 section 5).
    pub ecn: Ecn,
    /// Number of its flow, any: queues that isolate flows take those with different numbers for different 5-tuples.
    pub flow: u32,
}

impl Frame {
    /// A frame of `len` bytes, at least the 14 of an Ethernet header; Not-ECT, of flow 0.
    pub fn new(len: u16) -> Frame {
        Frame { len: len.max(LEAST), ecn: Ecn::NotEct, flow: 0 }
    }

    /// The frame of a UDP datagram with `payload` bytes: 42 more for Ethernet, IPv4 and UDP, and 65,535 at most.
    pub fn udp(payload: usize) -> Frame {
        Frame::new(u16::try_from(payload.saturating_add(usize::from(UDP_HEADERS))).unwrap_or(u16::MAX))
    }

    /// Returns the frame with this ECN field.
    #[must_use]
    pub fn ecn(self, ecn: Ecn) -> Frame {
        Frame { ecn, ..self }
    }

    /// Returns the frame as one of this flow.
    #[must_use]
    pub fn flow(self, flow: u32) -> Frame {
        Frame { flow, ..self }
    }
}

/// A packet that has come out at the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<T> {
    /// When it did, on the caller's clock, exact to the nanosecond.
    pub at: Duration,
    /// Frame, with the ECN field that the net made of it.
    pub frame: Frame,
    /// Payload that was pushed with it.
    pub payload: T,
}

/// Counters of a net, and its contents. `pushed = popped + dropped_overflow + dropped_aqm + lost + held` at all times.
///
/// The C interface has the same structure, `dumbbell_net_counters`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NetCounters {
    /// Packets pushed.
    pub pushed: u64,
    /// Packets popped.
    pub popped: u64,
    /// Packets that left the link.
    pub departed: u64,
    /// Bytes of these frames, without FCS.
    pub departed_bytes: u64,
    /// Packets that were dropped because the queue was full.
    pub dropped_overflow: u64,
    /// Packets that the AQM dropped.
    pub dropped_aqm: u64,
    /// Packets that stages of `path` and `behind` lost.
    pub lost: u64,
    /// CE marks, including those set on packets that were CE already, as Linux counts them.
    pub ce_marks: u64,
    /// SCE marks.
    pub sce_marks: u64,
    /// Packets that the queue gave to the link.
    pub sent: u64,
    /// Time that these spent in the queue, all together, ns.
    pub sojourn_ns: u64,
    /// Packets in the queue now.
    pub queued: u64,
    /// Bytes of these frames.
    pub queued_bytes: u64,
    /// Packets anywhere in the net now, those included that have come out and were not popped.
    pub held: u64,
}

impl NetCounters {
    /// Packets that did not and will not come out.
    pub fn count_dropped(&self) -> u64 {
        self.dropped_overflow + self.dropped_aqm + self.lost
    }

    /// Mean time in the queue; 0 if nothing was sent.
    pub fn mean_sojourn(&self) -> Duration {
        Duration::from_nanos(self.sojourn_ns.checked_div(self.sent).unwrap_or(0))
    }
}
