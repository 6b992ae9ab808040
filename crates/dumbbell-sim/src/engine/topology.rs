//! The net between senders and receivers: [one hop](super::single_hop), or [several](super::multi_hop).

use super::delay_lines::{DelayLines, ReturnPath};
use super::endpoint::{Arena, UnderWay};
use super::port::Ingress;
use crate::config::{Class, Route, RunConfig};
use crate::hop_log::Backlog;
use crate::hop_log::HopLog;
use crate::RunError;
use dumbbell_bottleneck::{Bottleneck, Hop};
use dumbbell_core::aqm::{AnyAqm, Aqm, AqmSpec};
use dumbbell_core::fork::{CannotFork, Fork, SharedCopies};
use dumbbell_core::link::AnyLink;
use dumbbell_core::log::Log;
use dumbbell_core::observe::Tap;
use dumbbell_core::packet::FlowKey;
use dumbbell_core::param::ParamError;
use dumbbell_core::record::{FlowCounters, QueueCounters};
use dumbbell_core::tcp::BackEcn;
use dumbbell_core::units::{Instant, Rate};
use std::sync::Arc;

/// Where the event loop stands.
pub struct LoopState {
    /// Time of the event that happens now.
    pub now: Instant,
    /// Before this time nothing happens but in the net.
    pub before: Instant,
    /// Events so far, and when the loop pauses.
    pub events: u64,
    pub most_events: u64,
    /// The loop looks at each sender that an acknowledgement has reached.
    pub watched: bool,
}

/// Returns the present backlog.
pub fn backlog(aqm: &impl Aqm) -> Backlog {
    Backlog { packets: aqm.packets() as u64, bytes: aqm.bytes() }
}

/// A net that can be copied with everything in it, unless a queue discipline or a listener refuses.
pub trait ForkNet: Topology + Sized {
    /// Returns a copy; `config` is that of the run.
    ///
    /// # Errors
    /// A part that cannot be copied.
    fn fork_net(&self, config: &RunConfig, shared: &mut SharedCopies) -> Result<Self, CannotFork>;
}

/// Returns the copy of a hop, or names the part that refuses, a queue discipline if it has no name yet.
pub fn fork_hop<A: Aqm, L: Log + Fork>(
    hop: &Hop<A, L>,
    (name, aqm): (&str, &AqmSpec),
    shared: &mut SharedCopies,
) -> Result<Hop<A, L>, CannotFork> {
    hop.fork(shared).map_err(|refused| {
        let refused = refused.name_part(|| format!("the queue discipline {}", aqm.name()));
        CannotFork { part: format!("hop {name}: {}", refused.part), ..refused }
    })
}

/// A net that carries packets to receivers and acknowledgements back.
pub trait Topology: Send {
    /// Type of the listener.
    type Listener: Tap;
    /// Returns the listener.
    fn listener(&mut self) -> &mut Self::Listener;

    /// Where senders send.
    type Way<'a>: Ingress
    where
        Self: 'a;
    /// Where the senders of line `line` send.
    fn way(&mut self, line: u32) -> Self::Way<'_>;

    /// Nothing looks at receivers or counters before `horizon`: packets that arrive before may be delivered ahead of their time.
    fn set_horizon(&mut self, _horizon: Instant) {}

    /// Where receivers send their acknowledgements.
    type Back<'a>: ReturnPath
    where
        Self: 'a;
    /// Where receivers send their acknowledgements.
    fn back(&mut self) -> Self::Back<'_>;

    /// The lines of acknowledgements.
    fn lines(&self) -> &DelayLines;

    /// The lines of acknowledgements.
    fn lines_mut(&mut self) -> &mut DelayLines;

    /// From now on slot `slot` belongs to an endpoint of this route, line, identity and class, whose receiver sends with the codepoints `back`.
    fn flow_starts(&mut self, slot: u32, route: &Arc<Route>, line: u32, key: &FlowKey, back: BackEcn, class: u16);

    /// Nothing is left of the endpoint in `slot`.
    fn forget(&mut self, slot: u32);

    /// Returns the counts of the endpoint in `slot`, over all hops that its data pass.
    fn of_flow(&self, slot: u32) -> FlowCounters;

    /// Prefetches the counts of the endpoint in `slot`.
    fn prefetch_counters(&self, _slot: u32) {}

    /// Acknowledgements of the endpoint in `slot` that are under way where no line holds them.
    fn acks_held(&self, _slot: u32) -> u64 {
        0
    }

    /// The part of the net that moves next.
    type Move: Copy;

    /// When a packet or an acknowledgement moves next, and which.
    fn next_due(&self) -> (Instant, Self::Move);

    /// Carries out the move of [`Topology::next_due`], and perhaps the one right after it. Returns the slot of the sender that it reached, if it was
    /// an acknowledgement.
    fn move_packets(&mut self, due: Self::Move, moment: &mut LoopState, arena: &mut Arena) -> Option<u32>;

    /// Something was sent: stages may have got something to do.
    fn plan(&mut self);

    /// When a queue discipline wants to be called.
    fn aqm_at(&self) -> Instant;

    /// Calls the queue discipline whose time has come.
    fn on_aqm_timer(&mut self);

    /// Change `change` of the configuration's rates is due.
    fn change_rate(&mut self, change: usize, config: &RunConfig, now: Instant);

    /// The queue discipline of hop `hop`, 0 is the bottleneck, takes the parameters of `fresh`.
    fn take_params(&mut self, hop: usize, fresh: AnyAqm, now: Instant) -> Result<(), ParamError>;

    /// `fresh` takes the place of the queue discipline of hop `hop`, and `link` that of a link of another kind
    /// ([`Bottleneck::replace_queue`]).
    fn replace_queue(&mut self, hop: usize, fresh: AnyAqm, link: Option<AnyLink>, now: Instant);

    /// A stage of hop `hop` loses packets with this `probability` from now on ([`Hop::set_loss`]).
    fn set_loss(&mut self, hop: usize, is_behind: bool, stage: usize, probability: f64) -> bool;

    /// The endpoint in `slot` belongs to line `line` from now on.
    fn set_line(&mut self, _slot: u32, _line: u32) {}

    /// A program sets the rate of the shaper of hop `hop`, 0 is the bottleneck.
    fn set_shaper(&mut self, hop: usize, rate: Rate, now: Instant);

    /// Bytes that have left the queue of hop `hop` so far, 0 is the bottleneck.
    fn taken_bytes(&self, hop: usize) -> u64;

    /// The queue discipline of the hop called `bottleneck`.
    type Queue: Aqm;
    /// The listener there.
    type Tap: Log;
    /// The queue and link of the hop called `bottleneck`.
    fn bottleneck(&self) -> &Bottleneck<Self::Queue, Self::Tap>;
    /// Returns the queue and link of the hop called `bottleneck` for changes.
    fn bottleneck_mut(&mut self) -> &mut Bottleneck<Self::Queue, Self::Tap>;

    /// Returns queue and link, if the net has nothing else that packets pass on their way, and they are sent one after the other.
    fn serial_queue(&mut self) -> Option<&mut Bottleneck<Self::Queue, Self::Tap>> {
        None
    }

    /// Reports the backlog and the counters of each hop: its name, and these.
    fn hops(&self, tell: &mut dyn FnMut(&str, Backlog, &QueueCounters));

    /// Reports the current state of each queue discipline: name of the hop, name and value.
    fn states(&self, tell: &mut dyn FnMut(&str, &'static str, f64));

    /// Holds against each other what the counters `found` under way, what the endpoints' own stages hold, `staged`, and what the net holds.
    ///
    /// # Errors
    /// A sum that does not come out.
    fn check(&self, found: UnderWay, staged: u64) -> Result<(), RunError>;

    /// Brings the counters of the links up to `now`.
    fn settle(&mut self, now: Instant);

    /// No link has carried more than it can.
    ///
    /// # Errors
    /// One that has.
    fn check_links(&self, config: &RunConfig) -> Result<(), RunError>;

    /// The measured time of the queues begins.
    fn begin(&mut self) {}

    /// A point of the time series is due.
    fn point(&mut self, _now: Instant) {}

    /// The measured time of the queues is over. Returns what was measured of each hop, if there are several.
    fn finish(&mut self, _config: &RunConfig, _classes: &[Class]) -> Option<HopLog> {
        None
    }
}
