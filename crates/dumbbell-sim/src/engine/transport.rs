//! The transport of an endpoint: TCP, or any other protocol. The event loop and the nets know no more of either than this.

use super::datagram_flow::DatagramFlow;
use super::delay_lines::BlockPool;
use super::endpoint::Stages;
use super::tcp::Tcp;
use super::topology::Ingress;
use crate::flow::{FlowResult, Samples};
use crate::measure::SeriesView;
use crate::transit::Transit;
use dumbbell_core::hint::seldom;
use dumbbell_core::histogram::CompactHistogram;
use dumbbell_core::observe::{ProtocolKind, Reported, Tap};
use dumbbell_core::packet::Packet;
use dumbbell_core::tcp::stats::ReceiverStats;
use dumbbell_core::tcp::{Ack, BackEcn, Block, Outlet};
use dumbbell_core::units::Time;
use dumbbell_measure::together::FlowProgress;
use dumbbell_measure::trace::Trace;

/// The way back from a receiver, at one instant.
pub trait ReturnPort {
    /// SACK blocks under way.
    fn pool(&mut self) -> &mut BlockPool;

    /// Sends an acknowledgement or an answer, with the number of its SACK blocks.
    fn send(&mut self, ack: Ack, blocks: u32);
}

/// Both ends of one flow.
pub trait Connection {
    /// Returns whether the sender has started. Also true for an endpoint that will never start.
    fn has_begun(&self) -> bool;

    /// When it has something to do, of an endpoint that starts at `start`.
    fn next_timer(&self, start: Time) -> Time;

    /// Whatever is due at `now` happens at the sender; a `stop` that has come is taken. Returns whether it has just begun.
    fn on_timer(&mut self, start: Time, stop: &mut Time, now: Time, port: &mut impl Outlet) -> bool;

    /// Whatever is due at `now` happens at the receiver.
    fn on_receiver_timer(&mut self, _now: Time, _back: &mut impl ReturnPort) {}

    /// A packet reaches the receiver. Returns when that has something to do.
    fn on_packet(&mut self, packet: &Packet, now: Time, back: &mut impl ReturnPort) -> Time;

    /// Handles an answer that reaches the sender. Returns when that has something to do, at the latest, its `stages` included.
    fn on_back(&mut self, ack: &Ack, blocks: &[Block], stages: &mut Stages, now: Time, way: &mut impl Ingress) -> Time;

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
    fn finish_time(&self) -> Option<Time>;

    /// Returns the data that have arrived since its start.
    fn progress(&self) -> FlowProgress {
        FlowProgress { payload: self.payload(), frames: self.sent_and_received().1.frame_bytes, finished: self.finish_time() }
    }

    /// Returns whether its sender has nothing more to do.
    fn is_done(&self) -> bool {
        false
    }

    /// A receiver's timer is running.
    fn receiver_waits(&self) -> bool {
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
    fn sample(&self, _samples: &mut Samples, _now: Time) {}

    /// Discards the samples so far.
    fn forget_samples(&mut self);

    /// The RTT samples recorded so far; no more are recorded.
    fn take_rtt_samples(&mut self) -> Option<CompactHistogram>;

    /// Takes the one-way delays so far, if it measures them; later packets are not measured.
    fn take_transit(&mut self) -> Option<Box<Transit>> {
        None
    }

    /// Returns its measurements until `now`, the rest as in `common`.
    fn result(&self, common: FlowResult, now: Time) -> FlowResult;

    /// How it looks now.
    fn series_view(&self) -> SeriesView;

    /// Appends the state of the congestion control to `trace`; does nothing without one. `backlog` returns the bytes in the queue.
    fn trace(&self, _trace: &mut Trace, _slot: u32, _now: Time, _backlog: impl FnOnce() -> u64) {}

    /// Tells `listener` what is new of its control, if it has one; `said` is what was told before.
    fn report_changes(&mut self, _said: &mut Reported, _listener: &mut impl Tap, _slot: u32, _now: Time) {}

    /// Returns the protocol of its ends, and whether they agree on ECN.
    fn protocol(&self) -> ProtocolKind;

    /// Tells `listener` the payload of what has been sent since the last call, at this instant; not of zeros.
    fn report_payloads(&mut self, _listener: &mut dyn Tap) {}
}

/// Transport of an endpoint. TCP is not boxed: its state is needed for every packet.
// its tag in a place of its own, in front: it would find room where no packet comes otherwise, a cache line more for each
#[allow(clippy::large_enum_variant)]
#[repr(u8)]
pub enum Transport {
    Tcp(Tcp),
    /// Any other protocol, UDP for one.
    Datagrams(Box<DatagramFlow>),
}

/// Passes the calls of these methods on to what the endpoint speaks.
macro_rules! forward {
    ($me:ident: $( $(#[$how:meta])* fn $name:ident[$($this:tt)*]($($arg:ident: $type:ty),*) -> $out:ty; )*) => { $(
        $(#[$how])*
        fn $name($($this)*, $($arg: $type),*) -> $out {
            match $me {
                Transport::Tcp(one) => one.$name($($arg),*),
                Transport::Datagrams(one) => {
                    seldom();
                    one.$name($($arg),*)
                }
            }
        }
    )* };
}

impl Connection for Transport {
    forward! { self:
        #[inline] fn has_begun[&self]() -> bool;
        #[inline] fn next_timer[&self](start: Time) -> Time;
        #[inline] fn on_timer[&mut self](start: Time, stop: &mut Time, now: Time, port: &mut impl Outlet) -> bool;
        #[inline] fn on_receiver_timer[&mut self](now: Time, back: &mut impl ReturnPort) -> ();
        #[inline(always)] fn on_packet[&mut self](packet: &Packet, now: Time, back: &mut impl ReturnPort) -> Time;
        #[inline(always)] fn on_back[&mut self](ack: &Ack, blocks: &[Block], stages: &mut Stages, now: Time, way: &mut impl Ingress) -> Time;
        #[inline(always)] fn prefetch[&self]() -> ();
        #[inline(always)] fn prefetch_behind[&self]() -> ();
        fn back_ecn[&self]() -> BackEcn;
        fn payload[&self]() -> u64;
        fn sent_and_received[&self]() -> (u64, ReceiverStats);
        fn finish_time[&self]() -> Option<Time>;
        fn is_done[&self]() -> bool;
        fn receiver_waits[&self]() -> bool;
        fn check[&self]() -> Result<(), (&'static str, u64, u64)>;
        fn sample[&self](samples: &mut Samples, now: Time) -> ();
        fn forget_samples[&mut self]() -> ();
        fn take_rtt_samples[&mut self]() -> Option<CompactHistogram>;
        fn take_transit[&mut self]() -> Option<Box<Transit>>;
        fn result[&self](common: FlowResult, now: Time) -> FlowResult;
        fn series_view[&self]() -> SeriesView;
        fn trace[&self](trace: &mut Trace, slot: u32, now: Time, backlog: impl FnOnce() -> u64) -> ();
        fn report_changes[&mut self](said: &mut Reported, listener: &mut impl Tap, slot: u32, now: Time) -> ();
        fn protocol[&self]() -> ProtocolKind;
        #[inline] fn report_payloads[&mut self](listener: &mut dyn Tap) -> ();
    }
}
