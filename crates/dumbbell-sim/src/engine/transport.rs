//! The transport of an endpoint: TCP, or any other protocol.

use super::app_stream::AppStream;
use super::connection::Connection;
use super::datagram_flow::DatagramFlow;
use super::port::{Ingress, ReturnPort, Stages};
use super::tcp::Tcp;
use crate::flow::{FlowResult, Samples};
use crate::measure::SeriesView;
use crate::transit::Transit;
use dumbbell_core::fork::{CannotFork, Fork, SharedCopies};
use dumbbell_core::hint::seldom;
use dumbbell_core::histogram::CompactHistogram;
use dumbbell_core::observe::{ProtocolKind, Reported, Tap};
use dumbbell_core::packet::Packet;
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::stats::ReceiverStats;
use dumbbell_core::tcp::{BackEcn, Block};
use dumbbell_core::units::Instant;
use dumbbell_measure::trace::Trace;

/// Transport of an endpoint. TCP is not boxed: its state is needed for every packet.
// its tag in a place of its own, in front: it would find room where no packet comes otherwise, a cache line more for each
#[allow(clippy::large_enum_variant)]
#[repr(u8)]
pub enum Transport {
    Tcp(Tcp),
    /// Any other protocol, UDP for one.
    Datagrams(Box<DatagramFlow>),
    /// One way of a connection of an application.
    Stream(Box<AppStream>),
}

impl Fork for Transport {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        Ok(match self {
            Transport::Tcp(tcp) => Transport::Tcp(tcp.fork(shared)?),
            Transport::Datagrams(flow) => Transport::Datagrams(flow.fork(shared)?),
            Transport::Stream(stream) => Transport::Stream(stream.fork(shared)?),
        })
    }
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
                Transport::Stream(one) => {
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
        #[inline] fn next_timer[&self](start: Instant) -> Instant;
        #[inline] fn sender_timer[&self]() -> Instant;
        #[inline] fn receiver_timer[&self]() -> Instant;
        #[inline] fn on_timer[&mut self](start: Instant, stop: &mut Instant, stages: &mut Stages, now: Instant, way: impl Ingress) -> bool;
        #[inline] fn on_receiver_timer[&mut self](now: Instant, back: &mut impl ReturnPort) -> ();
        #[inline(always)] fn on_packet[&mut self](packet: &Packet, now: Instant, back: &mut impl ReturnPort) -> Instant;
        #[inline(always)] fn on_back[&mut self](reply: &ReceiverReply, blocks: &[Block], stages: &mut Stages, now: Instant, way: impl Ingress) -> Instant;
        #[inline(always)] fn prefetch[&self]() -> ();
        #[inline(always)] fn prefetch_behind[&self]() -> ();
        fn back_ecn[&self]() -> BackEcn;
        fn payload[&self]() -> u64;
        #[inline] fn sent_and_received[&self]() -> (u64, ReceiverStats);
        fn finish_time[&self]() -> Option<Instant>;
        #[inline] fn is_done[&self]() -> bool;
        #[inline] fn receiver_waits[&self](now: Instant) -> bool;
        #[inline] fn check[&self]() -> Result<(), (&'static str, u64, u64)>;
        fn sample[&self](samples: &mut Samples, now: Instant) -> ();
        fn forget_samples[&mut self]() -> ();
        fn take_rtt_samples[&mut self]() -> Option<CompactHistogram>;
        fn take_transit[&mut self]() -> Option<Box<Transit>>;
        fn result[&self](common: FlowResult, now: Instant) -> FlowResult;
        fn series_view[&self]() -> SeriesView;
        fn trace[&self](trace: &mut Trace, slot: u32, now: Instant, backlog: impl FnOnce() -> u64) -> ();
        fn report_changes[&mut self](said: &mut Reported, listener: &mut impl Tap, slot: u32, now: Instant) -> ();
        fn protocol[&self]() -> ProtocolKind;
        #[inline] fn report_payloads[&mut self](listener: &mut dyn Tap) -> ();
    }
}
