//! Queue disciplines: the trait and the registry.
//!
//! One algorithm is one file. To add one: write the file, add one line to `all_aqms!` below.

pub mod child_log;
pub mod departure_rate;
pub mod drr;
#[macro_use]
mod dyn_aqm;
pub mod fifo;
pub mod store;

use crate::fork::{CannotFork, SharedCopies};
use crate::link_layer::LinkLayer;
use crate::log::Log;
use crate::packet::{FlowKey, Packet, MTU_FRAME};
use crate::param::{algorithm_specs, AlgorithmSpec, Factory, ParamError};
use crate::rng::Rng;
use crate::units::{Duration, Instant, Rate};
pub use dyn_aqm::DynAqm;
use serde_json::{Map, Value};

/// Answer of a queue when the link asks for a packet.
// The discriminant is kept outside the packet: with a niche inside `Packet`, the packet would be stored in parts, and a load of the whole would wait.
#[repr(u64)]
#[derive(Clone, Copy, Debug)]
pub enum Dequeue {
    /// Send this one.
    Packet(Packet),
    /// Nothing is queued.
    Empty,
    /// Packets are queued but the discipline's own shaper holds them: ask again at this time (later than `now`).
    Wait(Instant),
}

/// Fate of a packet that is judged when it arrives ([`Aqm::pass`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Sent.
    Sent,
    /// Dropped on arrival.
    Dropped,
    /// Depends on what arrives later. Nothing has changed, and the packet has to be enqueued.
    Unknown,
}

/// Link and host for which a queue discipline is built.
#[derive(Clone, Copy, Debug)]
pub struct QueueContext {
    /// Rate of the bottleneck.
    pub rate: Rate,
    /// Seed of the run; a queue draws from streams named after itself.
    pub seed: u64,
    /// Cost of frames on the link, for disciplines that shape.
    pub link_layer: LinkLayer,
    /// A full frame of the device, bytes: Linux `psched_mtu`.
    pub full_frame: u16,
    /// Small buffers come from a cache of their own ([`crate::buffers`]).
    pub small_heads: bool,
    /// When it is built: before the run, at 0, or in the place of another one.
    pub now: Instant,
}

impl QueueContext {
    /// For a link on which frames cost what they are, with an MTU of 1500, and buffers as Linux 6.12 has them.
    pub fn new(rate: Rate, seed: u64) -> QueueContext {
        QueueContext { rate, seed, link_layer: LinkLayer::RAW, full_frame: MTU_FRAME, small_heads: true, now: Instant::ZERO }
    }

    /// Returns when a clock that ticks every `interval` ticks for the first time. A discipline that is built before the run is older than the run, so that it may be at any time within `interval`,
    /// drawn from the stream `phase`; one that is built while the run goes on starts its clock, which ticks after `first`.
    pub fn first_tick(&self, phase: &str, interval: Duration, first: Duration) -> Instant {
        if self.now == Instant::ZERO {
            return Instant(1 + Rng::stream(self.seed, phase, 0).draw_below(interval.0));
        }
        self.now + first
    }
}

/// A queue discipline in front of a link.
///
/// Time never goes back between calls. A queue reports to `log` what happens to each packet, exactly once and at the moment when it
/// happens (see [`Log`]). It must neither create nor lose packets otherwise.
pub trait Aqm {
    /// From now on, packets with [`Packet::flow`] `flow` belong to the flow with `key`. Called before the first of them arrives. The
    /// number may have belonged to another flow before, of which nothing is queued any more.
    fn flow_starts(&mut self, _flow: u32, _key: &FlowKey) {}

    /// Whether a burst of this number of bytes that counts as one packet fits into the queue; it is offered packet by packet then, and dropped otherwise.
    fn has_room(&self, _bytes: u64) -> bool {
        true
    }

    /// Takes `packet` in (setting its `enqueue_time`) or drops it, or drops others to make room. Implementations should be inlined into the loops of senders:
    /// a packet that is written to memory field by field and read there as a whole waits until all that was written before has left the core.
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L);

    /// Until when [`Aqm::dequeue`] certainly returns nothing, and changes nothing. `None`: ask it. For disciplines that shape, which often
    /// have no packet to give.
    #[inline]
    fn earliest_packet(&self, _now: Instant) -> Option<Instant> {
        None
    }

    /// The next packet to send.
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue;

    /// The flow of the packet that most likely leaves next, if that is easily known: with thousands of flows, the memory that its receiver needs is fetched
    /// ahead.
    #[inline]
    fn next_flow_hint(&self) -> Option<u32> {
        None
    }

    /// A packet of `flow` will probably come soon, or, if it is `near`, very soon: what it needs of a table of many queues is fetched ahead.
    #[inline]
    fn prefetch(&self, _flow: u32, _near: bool) {}

    /// Frames of up to this number of bytes pass: the queue need not be called for a frame that comes to an idle link, where the last call of
    /// [`Aqm::dequeue`] returned [`Dequeue::Empty`] or the last packet passed. `enqueue` and `dequeue` would report it as enqueued and sent and
    /// leave everything else as it was, and one more call of `dequeue` would change nothing and find nothing. So a queue that never has
    /// anything in it costs little. The same throughout a run; 0 if none passes.
    fn bypass_max_len(&self) -> u16 {
        0
    }

    /// Whether [`Aqm::pass`] judges packets: a discipline with one queue, in which the fate of a packet seldom depends on what arrives later.
    const FORESEES: bool = false;

    /// Judges `packet`, which arrives at `now` at a queue in which no packet lies, and will be the next that the link takes, at `start`. Does what
    /// `enqueue` at `now` and `dequeue` at `start` would do, reports only a mark or a drop on arrival, and counts the packet as queued until
    /// `start` if that is later. [`Packet::enqueue_time`] is set.
    #[inline(always)]
    fn pass<L: Log>(&mut self, _packet: &mut Packet, _now: Instant, _start: Instant, _log: &mut L) -> Verdict {
        Verdict::Unknown
    }

    /// Does what `dequeue` does at `at`, which has not come, if that is the same whatever arrives until then; otherwise nothing changes.
    #[inline(always)]
    fn dequeue_foreseen<L: Log>(&mut self, _at: Instant, _log: &mut L) -> Option<Dequeue> {
        None
    }

    /// The packet of `len` bytes that was dequeued ahead of its time counts as queued until `start`.
    #[inline(always)]
    fn note_start(&mut self, _len: u16, _start: Instant) {}

    /// Packets queued.
    fn packets(&self) -> usize;

    /// Bytes queued.
    fn bytes(&self) -> u64;

    /// When [`Aqm::on_timer`] wants to be called next; [`Instant::NEVER`] for queues without a clock of their own.
    fn next_timer(&self) -> Instant {
        Instant::NEVER
    }

    /// The time given by [`Aqm::next_timer`] has come.
    fn on_timer<L: Log>(&mut self, _now: Instant, _log: &mut L) {}

    /// The bottleneck's rate changes to `rate`.
    fn set_rate(&mut self, _rate: Rate, _now: Instant) {}

    /// A program sets the rate of the discipline's own shaper, if it has one that it does not take from the bottleneck.
    fn set_shaper(&mut self, _rate: Rate, _now: Instant) {}

    /// Reports the current state of the discipline, name and value, for time series ([`STATES`] describes them).
    fn state(&self, _tell: &mut dyn FnMut(&'static str, f64)) {}

    /// Returns the discipline's own counters by name, packets.
    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// Names of its internal queues, if they are few, always the same and worth statistics of their own. Their numbers in
    /// [`At::queue`](crate::log::At::queue) count from 0.
    fn internal_queues(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the discipline shapes by itself, so that the link below it must not.
    fn shapes(&self) -> bool {
        false
    }

    /// Names of the parameters that may change while it runs ([`Aqm::take_params`]).
    fn changeable(&self) -> &'static [&'static str] {
        &[]
    }

    /// Takes the parameters of `fresh`, a discipline of the same kind that was just built, which differ in [changeable](Aqm::changeable) ones alone. The packets stay, above a
    /// smaller limit too, and so does everything that was measured.
    ///
    /// # Errors
    /// A value that only a discipline without packets can have; nothing has changed then.
    fn take_params(&mut self, _fresh: Self, _now: Instant) -> Result<(), ParamError>
    where
        Self: Sized,
    {
        Ok(())
    }

    /// Returns a copy with all packets, which goes on as the original does. A discipline that is `Clone` writes [`fork_by_clone!()`](crate::fork_by_clone).
    ///
    /// # Errors
    /// It cannot be copied, which is the default.
    fn fork(&self, _shared: &mut SharedCopies) -> Result<Self, CannotFork>
    where
        Self: Sized,
    {
        Err(CannotFork::default())
    }

    /// Whether it asks its log what acknowledgements say ([`Log::acks`]).
    fn reads_acks(&self) -> bool {
        false
    }
}

/// The methods of [`Aqm`] that look at the only queue of a discipline, `self.fifo`; with `hint`, the flow at its head is the next.
macro_rules! look_at_fifo {
    () => {
        fn packets(&self) -> usize {
            self.fifo.len()
        }

        fn bytes(&self) -> u64 {
            self.fifo.bytes()
        }
    };
    (hint) => {
        look_at_fifo!();

        #[inline]
        fn next_flow_hint(&self) -> Option<u32> {
            self.fifo.head().map(|packet| packet.flow)
        }
    };
}

/// The methods of [`Aqm`] by which a discipline judges packets when they arrive. Its queue is `self.fifo`.
macro_rules! foresee_fifo {
    () => {
        const FORESEES: bool = true;

        #[inline(always)]
        fn note_start(&mut self, len: u16, start: Instant) {
            self.fifo.note_start(len, start);
        }
    };
}

/// The methods of [`Aqm`] that look at the flow queues of a discipline, `self.queues`.
macro_rules! look_at_queues {
    () => {
        #[inline]
        fn prefetch(&self, flow: u32, near: bool) {
            self.queues.prefetch(flow, near);
        }

        fn packets(&self) -> usize {
            self.queues.packets()
        }

        fn bytes(&self) -> u64 {
            self.queues.bytes()
        }
    };
}

/// Values that [`Aqm::state`] may return: name, unit and meaning.
pub const STATES: [(&str, &str, &str); 11] = [
    ("p", "", "probability of the control law: PIE's of a drop (above 1 in overload, as in Linux; of 1024 bytes in DOCSIS-PIE), p' of PI2 and DualPI2, the largest of all queues of FQ-PIE"),
    ("qdelay_ms", "ms", "delay of the queue as PIE, PI2 and DualPI2 measured it last"),
    ("burst_ms", "ms", "what is left of PIE's burst allowance"),
    ("count", "", "CoDel's count of signals, that of RED's packets since a mark; of disciplines with several queues the largest"),
    ("dropping", "queues", "queues in CoDel's state of dropping, or marking"),
    ("blue", "", "largest drop probability of Cake's BLUE"),
    ("credit", "bytes", "DualPI2's credit, positive if C is next"),
    ("average_bytes", "bytes", "RED's average of the queue"),
    ("max_p", "", "RED's probability at max"),
    ("ctv", "", "CSAQM's congestion threshold value"),
    ("shaper_mbit", "Mbit/s", "rate of Cake's shaper; 0 without one"),
];

/// Registers queue disciplines: `Variant: module` for every file that has `Params`, `State` (which implements [`Aqm`]),
/// `NAME`, `TITLE` and `SOURCE`.
macro_rules! aqms {
    ($($variant:ident : $module:ident),* $(,)?) => {
        $(pub mod $module;)*

        /// Any queue discipline, built; match on it once and run generic code on what is inside.
        // its tag in a place of its own: a dispatch reads it as it is
        #[repr(u8)]
        #[allow(clippy::large_enum_variant)]
        pub enum AnyAqm {
            $(
                #[doc = concat!("See [`", stringify!($module), "`].")]
                $variant($module::State),
            )*
            /// One that this crate does not know.
            Dyn(DynAqm),
        }

        algorithm_specs! {
            /// A queue discipline with its parameters, which builds any number of queues.
            AqmSpec { $($variant: $module),* } Dyn Factory<QueueContext, DynAqm>
        }

        impl AqmSpec {
            /// Builds the queue discipline for the queue of `context`.
            pub fn build(&self, context: &QueueContext) -> AnyAqm {
                match self {
                    $( AqmSpec::$variant(params) => AnyAqm::$variant($module::State::new(params.clone(), context)), )*
                    AqmSpec::Dyn(factory) => AnyAqm::Dyn(factory.build(context)),
                }
            }
        }

        impl AnyAqm {
            fn fork_any(&self, shared: &mut SharedCopies) -> Result<AnyAqm, CannotFork> {
                match self {
                    $( AnyAqm::$variant(aqm) => Aqm::fork(aqm, shared).map(AnyAqm::$variant), )*
                    AnyAqm::Dyn(aqm) => aqm.fork(shared).map(AnyAqm::Dyn),
                }
            }

            fn take_params_of(&mut self, fresh: AnyAqm, now: Instant) -> Result<(), ParamError> {
                match (self, fresh) {
                    $( (AnyAqm::$variant(aqm), AnyAqm::$variant(fresh)) => aqm.take_params(fresh, now), )*
                    _ => Ok(()),
                }
            }
        }

        /// Runs `$body` with `$aqm` bound to the concrete queue inside: one dispatch per run, none per packet.
        #[macro_export]
        macro_rules! with_aqm {
            ($any:expr, $aqm:ident => $body:expr) => {
                match $any {
                    $( $crate::aqm::AnyAqm::$variant($aqm) => $body, )*
                    $crate::aqm::AnyAqm::Dyn($aqm) => $body,
                }
            };
        }
    };
}

/// The queue disciplines, in the order of lists, with those that a feature has.
macro_rules! all_aqms {
    ($($of_feature:tt)*) => {
        aqms! {
            Pfifo: pfifo,
            Bfifo: bfifo,
            Red: red,
            Step: step,
            Codel: codel,
            FqCodel: fq_codel,
            Pie: pie,
            FqPie: fq_pie,
            Pi2: pi2,
            DualPi2: dualpi2,
            $($of_feature)*
            Csaqm: csaqm,
            DocsisPie: docsis_pie,
            Mac80211: mac80211,
            HtbClasses: htb_classes,
            Fq: fq,
        }
    };
}

#[cfg(feature = "cake")]
all_aqms! { Cake: cake, }
#[cfg(not(feature = "cake"))]
all_aqms! {}

/// Builds the queue discipline that `config` names in its key `name`, with its other keys as parameters.
///
/// # Errors
/// An unknown name, key or value.
pub fn build(config: &Map<String, Value>, context: &QueueContext) -> Result<AnyAqm, ParamError> {
    AqmSpec::from_json(config).map(|spec| spec.build(context))
}

/// [`Aqm::dequeue`] as a function of its own: all disciplines in one function would share its registers, and the short ones pay for the long ones.
#[inline(never)]
fn ask<A: Aqm, L: Log>(aqm: &mut A, now: Instant, log: &mut L) -> Dequeue {
    aqm.dequeue(now, log)
}

/// Calls [`Aqm::enqueue`] without inlining it.
#[inline(never)]
fn put<A: Aqm, L: Log>(aqm: &mut A, packet: Packet, now: Instant, log: &mut L) {
    aqm.enqueue(packet, now, log);
}

macro_rules! call_any {
    (look { $($look:ident($($arg:ident: $type:ty),*) -> $out:ty;)* } change { $($change:ident($($to:ident: $what:ty),*);)* }) => {
        $( #[inline] fn $look(&self, $($arg: $type),*) -> $out { with_aqm!(self, aqm => aqm.$look($($arg),*)) } )*
        $( fn $change(&mut self, $($to: $what),*) { with_aqm!(self, aqm => aqm.$change($($to),*)); } )*
    };
}

/// A queue that is chosen at run time: one dispatch per call.
impl Aqm for AnyAqm {
    plain_methods!(call_any);
    #[inline(always)]
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        with_aqm!(self, aqm => put(aqm, packet, now, &mut crate::as_dyn!(*log, Log)));
    }
    #[inline(always)]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        with_aqm!(self, aqm => ask(aqm, now, &mut crate::as_dyn!(*log, Log)))
    }
    fn on_timer<L: Log>(&mut self, now: Instant, log: &mut L) {
        with_aqm!(self, aqm => aqm.on_timer(now, &mut crate::as_dyn!(*log, Log)));
    }
    fn fork(&self, shared: &mut SharedCopies) -> Result<AnyAqm, CannotFork> {
        self.fork_any(shared)
    }
    fn take_params(&mut self, fresh: AnyAqm, now: Instant) -> Result<(), ParamError> {
        self.take_params_of(fresh, now)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Helpers that the tests of queue disciplines share.

    use super::{Aqm, FlowKey, QueueContext};
    use crate::packet::{Ecn, Packet, MTU_FRAME};
    use crate::units::Rate;

    /// A full frame of flow 0.
    pub fn packet(seq: u64, ecn: Ecn) -> Packet {
        Packet { len: MTU_FRAME, ..Packet::new_tcp(seq, ecn, 0) }
    }

    /// A bottleneck of `mbit` Mbit/s.
    pub fn context(mbit: u64) -> QueueContext {
        QueueContext::new(Rate::from_mbit(mbit), 1)
    }

    /// `flows` flows between the same two hosts start.
    pub fn start_flows(aqm: &mut impl Aqm, flows: u32) {
        (0..flows).for_each(|ports| aqm.flow_starts(ports, &FlowKey { src_host: 1, dst_host: 2, ports, dscp: 0 }));
    }
}
