//! Queue disciplines: the trait and the registry.
//!
//! One algorithm is one file. To add one: write the file, add one line to `aqms!` below.

pub mod drr;
pub mod fifo;
pub mod store;

use crate::packet::Packet;
use crate::param::{AlgorithmSpec, ParamError};
use crate::record::QueueLog;
use crate::units::{Rate, Time};
use serde_json::{Map, Value};

/// What a queue answers when the link asks for a packet.
#[derive(Clone, Copy, Debug)]
pub enum Dequeue {
    /// Send this one.
    Packet(Packet),
    /// Nothing is queued.
    Empty,
    /// Packets are queued but the discipline's own shaper holds them: ask again at this time (later than `now`).
    Wait(Time),
}

/// Who a flow is, for queues that tell flows apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowKey {
    /// Source host, any number that names it.
    pub src_host: u32,
    /// Destination host, any number that names it.
    pub dst_host: u32,
    /// Hash input for the 5-tuple: differs between flows.
    pub ports: u32,
    /// Differentiated-services codepoint, 0..=63.
    pub dscp: u8,
}

/// What surrounds a queue: given at construction.
#[derive(Clone, Debug)]
pub struct Surroundings<'a> {
    /// Rate of the bottleneck.
    pub rate: Rate,
    /// Flows that will pass, indexed as [`Packet::flow`].
    pub flows: &'a [FlowKey],
    /// Seed of the run; a queue draws from streams named after itself.
    pub seed: u64,
}

/// A queue discipline in front of a link.
///
/// Time never goes back between calls. A queue reports each drop and each mark to `log` exactly once, at the moment when
/// it happens; it must neither create nor lose packets otherwise.
pub trait Aqm {
    /// Takes `packet` in (setting its `enqueue_time`) or drops it, or drops others to make room.
    fn enqueue(&mut self, packet: Packet, now: Time, log: &mut QueueLog);

    /// The next packet to send.
    fn dequeue(&mut self, now: Time, log: &mut QueueLog) -> Dequeue;

    /// Packets queued.
    fn packets(&self) -> usize;

    /// Bytes queued.
    fn bytes(&self) -> u64;

    /// When [`Aqm::on_timer`] wants to be called next; [`Time::NEVER`] for queues without a clock of their own.
    fn next_timer(&self) -> Time {
        Time::NEVER
    }

    /// The time given by [`Aqm::next_timer`] has come.
    fn on_timer(&mut self, _now: Time, _log: &mut QueueLog) {}

    /// The bottleneck's rate changes to `rate`.
    fn set_rate(&mut self, _rate: Rate, _now: Time) {}

    /// What the discipline counts beside [`QueueLog`], packets, by name.
    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// Whether the discipline shapes by itself, so that the link below it must not.
    fn shapes(&self) -> bool {
        false
    }
}

/// Registers queue disciplines: `Variant: module` for every file that has `Params`, `State` (which implements [`Aqm`]),
/// `NAME`, `TITLE` and `SOURCE`.
macro_rules! aqms {
    ($($variant:ident : $module:ident),* $(,)?) => {
        $(pub mod $module;)*

        /// Any registered queue discipline, built; match on it once and run generic code on what is inside.
        #[allow(clippy::large_enum_variant)]
        pub enum AnyAqm { $(
            #[doc = concat!("See [`", stringify!($module), "`].")]
            $variant($module::State),
        )* }

        /// Every registered queue discipline, described.
        pub fn specs() -> Vec<AlgorithmSpec> {
            vec![ $( AlgorithmSpec { name: $module::NAME, title: $module::TITLE, source: $module::SOURCE, params: $module::Params::specs() } ),* ]
        }

        /// Builds the queue discipline that `config` names in its key `name`, with its other keys as parameters.
        ///
        /// # Errors
        /// An unknown name, key or value.
        pub fn build(config: &Map<String, Value>, surroundings: &Surroundings) -> Result<AnyAqm, ParamError> {
            let name = config.get("name").and_then(Value::as_str).unwrap_or("");
            match name {
                $( $module::NAME => Ok(AnyAqm::$variant($module::State::new($module::Params::from_json(config)?, surroundings))), )*
                _ => Err(ParamError::new("name", format!("{name:?}"), [$($module::NAME),*].join(", "))),
            }
        }

        /// Runs `$body` with `$aqm` bound to the concrete queue inside: one dispatch a run, none a packet.
        #[macro_export]
        macro_rules! with_aqm {
            ($any:expr, $aqm:ident => $body:expr) => {
                match $any { $( $crate::aqm::AnyAqm::$variant($aqm) => $body, )* }
            };
        }
    };
}

aqms! {
    Pfifo: pfifo,
    Bfifo: bfifo,
    Red: red,
    Step: step,
    Codel: codel,
    FqCodel: fq_codel,
    Pie: pie,
    FqPie: fq_pie,
    Cake: cake,
}

#[cfg(test)]
pub(crate) mod testing {
    //! What the tests of queue disciplines share.

    use super::{FlowKey, Surroundings};
    use crate::packet::{Ecn, Packet, MTU_FRAME};
    use crate::units::{Rate, Time};

    /// A full frame of flow 0.
    pub fn packet(seq: u64, ecn: Ecn) -> Packet {
        Packet { enqueue_time: Time::ZERO, seq, flow: 0, tsval: 0, tsecr_age: 0, value: 0, len: MTU_FRAME, ecn, flags: 0 }
    }

    /// One flow over a bottleneck of `mbit` Mbit/s.
    pub fn surroundings(mbit: u64) -> Surroundings<'static> {
        const ONE: FlowKey = FlowKey { src_host: 1, dst_host: 2, ports: 3, dscp: 0 };
        Surroundings { rate: Rate::from_mbit(mbit), flows: &[ONE], seed: 1 }
    }
}
