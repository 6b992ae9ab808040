//! Both ends of one flow: the event loop and the nets know no more of TCP, or of any other protocol, than this.

use super::port::{Ingress, ReturnPort, Stages};
use crate::flow::{FlowResult, Samples};
use crate::measure::SeriesView;
use crate::transit::Transit;
use dumbbell_core::histogram::CompactHistogram;
use dumbbell_core::observe::{ProtocolKind, Reported, Tap};
use dumbbell_core::packet::Packet;
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::stats::ReceiverStats;
use dumbbell_core::tcp::{BackEcn, Block};
use dumbbell_core::units::Instant;
use dumbbell_measure::together::FlowProgress;
use dumbbell_measure::trace::Trace;

/// Both ends of one flow.
pub trait Connection {
    /// Returns whether the sender has started. Also true for an endpoint that will never start.
    fn has_begun(&self) -> bool;

    /// When it has something to do, of an endpoint that starts at `start`.
    fn next_timer(&self, start: Instant) -> Instant;

    /// When its sender has something to do, once it has begun.
    fn sender_timer(&self) -> Instant {
        Instant::NEVER
    }

    /// When its receiver has something to do.
    fn receiver_timer(&self) -> Instant {
        Instant::NEVER
    }

    /// Whatever is due at `now` happens at the sender; a `stop` that has come is taken. Returns whether it has just begun.
    fn on_timer(&mut self, start: Instant, stop: &mut Instant, stages: &mut Stages, now: Instant, way: impl Ingress) -> bool;

    /// Whatever is due at `now` happens at the receiver.
    fn on_receiver_timer(&mut self, _now: Instant, _back: &mut impl ReturnPort) {}

    /// A packet reaches the receiver. Returns when that has something to do.
    fn on_packet(&mut self, packet: &Packet, now: Instant, back: &mut impl ReturnPort) -> Instant;

    /// Handles an answer that reaches the sender. Returns when that has something to do, at the latest, its `stages` included.
    fn on_back(
        &mut self,
        reply: &ReceiverReply,
        blocks: &[Block],
        stages: &mut Stages,
        now: Instant,
        way: impl Ingress,
    ) -> Instant;

    /// Prefetches the sender, which an answer will soon reach.
    fn prefetch(&self) {}

    /// Prefetches the memory that the first prefetch has made reachable, some time later.
    fn prefetch_behind(&self) {}

    /// Codepoints of what the receiver sends.
    fn back_ecn(&self) -> BackEcn {
        BackEcn::NOT_ECT
    }

    /// Payload that has arrived, bytes: acknowledged for TCP, received for others.
    fn payload(&self) -> u64;

    /// Packets that the sender has sent, and what the receiver has counted.
    fn sent_and_received(&self) -> (u64, ReceiverStats);

    /// When the last byte of what its application sends was acknowledged, if it was.
    fn finish_time(&self) -> Option<Instant>;

    /// Returns the data that have arrived since its start.
    fn progress(&self) -> FlowProgress {
        FlowProgress { payload: self.payload(), frames: self.sent_and_received().1.frame_bytes, finished: self.finish_time() }
    }

    /// Returns whether its sender has nothing more to do.
    fn is_done(&self) -> bool {
        false
    }

    /// A receiver's timer is running at `now`, or a packet that was delivered ahead of its time arrives later.
    fn receiver_waits(&self, _now: Instant) -> bool {
        false
    }

    /// Checks what must hold of its state at any time.
    ///
    /// # Errors
    /// The part of the state that is wrong, with its two numbers.
    fn check(&self) -> Result<(), (&'static str, u64, u64)> {
        Ok(())
    }

    /// Takes a sample at `now`.
    fn sample(&self, _samples: &mut Samples, _now: Instant) {}

    /// Discards the samples so far.
    fn forget_samples(&mut self);

    /// The RTT samples recorded so far; no more are recorded.
    fn take_rtt_samples(&mut self) -> Option<CompactHistogram>;

    /// Takes the one-way delays so far, if it measures them; later packets are not measured.
    fn take_transit(&mut self) -> Option<Box<Transit>> {
        None
    }

    /// Returns its measurements until `now`, the rest as in `common`.
    fn result(&self, common: FlowResult, now: Instant) -> FlowResult;

    /// How it looks now.
    fn series_view(&self) -> SeriesView;

    /// Appends the state of the congestion control to `trace`; does nothing without one. `backlog` returns the bytes in the queue.
    fn trace(&self, _trace: &mut Trace, _slot: u32, _now: Instant, _backlog: impl FnOnce() -> u64) {}

    /// Reports to `listener` what has changed in the congestion control, if there is one, since the last report, `said`.
    fn report_changes(&mut self, _said: &mut Reported, _listener: &mut impl Tap, _slot: u32, _now: Instant) {}

    /// Returns the protocol of its ends, and whether they agree on ECN.
    fn protocol(&self) -> ProtocolKind;

    /// Reports to `listener` the payload of the datagrams sent since the last call, at this instant; not of zeros.
    fn report_payloads(&mut self, _listener: &mut dyn Tap) {}
}
