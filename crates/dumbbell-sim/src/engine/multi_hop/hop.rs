//! A hop among several: where its packets go next, and what it has counted.

use super::super::ack_log::Acks;
use super::super::endpoint::agree;
use super::super::topology::fork_hop;
use crate::config::{Classes, HopConfig, RunConfig};
use crate::hop_log::HopCounts;
use crate::RunError;
use dumbbell_bottleneck::Hop;
use dumbbell_core::aqm::{AnyAqm, Aqm, AqmSpec};
use dumbbell_core::fork::{CannotFork, Fork, SharedCopies};
use dumbbell_core::link::AnyLink;
use dumbbell_core::log::Log;
use dumbbell_core::param::ParamError;
use dumbbell_core::record::FlowCounters;
use dumbbell_core::units::Instant;

/// In [`RoutedHop::next`]: the packet is where it was sent. Among [`Member::back`](super::Member::back): acknowledgements pass no hop.
pub const END: u16 = u16::MAX;

/// A hop, which data pass as packets, and acknowledgements too.
pub struct RoutedHop<L: Log> {
    pub name: String,
    pub hop: Hop<AnyAqm, Acks<L>>,
    /// Where the packets of each slot go next.
    pub next: Vec<u16>,
    /// Whether its queue discipline has a clock of its own.
    pub ticks: bool,
    pub aqm_at: Instant,
    /// Whether its queue discipline reads acknowledgements.
    pub reads_acks: bool,
    /// There is nothing ahead of its queue, which is called for packets only.
    pub is_plain: bool,
    /// Whether there is nothing behind its link, either.
    pub is_bare: bool,
    /// Packets that went on, of the endpoints that are counted now; not of a bare hop, where none stays behind the link.
    pub left: u64,
    /// Counts when counting began, and at the last point of the time series.
    pub begun: HopCounts,
    pub before: HopCounts,
}

impl<L: Log + Fork> RoutedHop<L> {
    /// Returns a copy with everything in it.
    ///
    /// # Errors
    /// The queue discipline, `aqm`, or a listener cannot be copied.
    pub fn fork(&self, aqm: &AqmSpec, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        Ok(RoutedHop {
            name: self.name.clone(),
            hop: fork_hop(&self.hop, (&self.name, aqm), shared)?,
            next: self.next.clone(),
            ..*self
        })
    }
}

impl<L: Log> RoutedHop<L> {
    /// Hop number `index` of `config` with this queue discipline and listener.
    pub fn new(
        config: &RunConfig,
        classes: &Classes,
        (index, hop): (usize, &HopConfig),
        aqm: AnyAqm,
        listener: L,
    ) -> RoutedHop<L> {
        let (reads_acks, ticks) = (aqm.reads_acks(), aqm.next_timer() != Instant::NEVER);
        let name = hop.name.clone();
        let hop = Hop::new(config, (index, hop), classes.list.len(), aqm, Acks::new(listener));
        let is_plain = !reads_acks && !ticks && hop.is_direct();
        RoutedHop {
            name,
            reads_acks,
            ticks,
            is_plain,
            is_bare: is_plain && hop.is_open(),
            hop,
            next: Vec::new(),
            aqm_at: Instant::NEVER,
            left: 0,
            begun: HopCounts::default(),
            before: HopCounts::default(),
        }
    }

    /// Gives the parameters of `fresh` to its queue discipline.
    ///
    /// # Errors
    /// A value that it cannot take while it runs.
    pub fn take_params(&mut self, fresh: AnyAqm, now: Instant) -> Result<(), ParamError> {
        self.hop.bottleneck.take_params(fresh, now)?;
        self.reads_acks = self.hop.bottleneck.aqm.reads_acks();
        // a bare hop stays one: nothing waits behind its link
        self.is_plain = !self.reads_acks && !self.ticks && self.hop.is_direct();
        Ok(())
    }

    /// Puts `fresh` in the place of its queue discipline ([`Bottleneck::replace_queue`](dumbbell_bottleneck::Bottleneck::replace_queue)).
    pub fn replace_queue(&mut self, fresh: AnyAqm, link: Option<AnyLink>, now: Instant) {
        self.hop.bottleneck.replace_queue(fresh, link, now);
        let aqm = &self.hop.bottleneck.aqm;
        self.reads_acks = aqm.reads_acks();
        self.aqm_at = aqm.next_timer();
        self.ticks = self.aqm_at != Instant::NEVER;
        self.is_plain = !self.reads_acks && !self.ticks && self.hop.is_direct();
        let is_bare = self.is_plain && self.hop.is_open();
        if self.is_bare && !is_bare {
            // nothing lies behind its link: everything that has departed went on
            self.left = self.hop.bottleneck.log.counters.flows.iter().map(|of| of.departed - of.lost_behind).sum();
        }
        self.is_bare = is_bare;
    }

    pub fn count_now(&self) -> HopCounts {
        HopCounts::now(&self.hop.bottleneck.log.counters.queue, &self.hop.bottleneck.log.listener.counters)
    }

    /// Packets in the hop, stages and propagation included.
    pub fn inside(&self) -> u64 {
        self.hop.count_ahead() + self.hop.bottleneck.count_packets() + self.hop.count_behind()
    }

    /// Holds what it has counted against what it holds.
    ///
    /// # Errors
    /// A sum that does not come out.
    pub fn check(&self) -> Result<(), RunError> {
        let mut all = FlowCounters::default();
        for of in self.hop.bottleneck.log.counters.flows.iter() {
            all.arrived += of.arrived;
            all.departed += of.departed;
            all.dropped_aqm += of.dropped_aqm + of.dropped_overflow;
            all.lost_behind += of.lost_behind;
        }
        agree(&format!("queue of {}", self.name), all.count_queued(), self.hop.bottleneck.count_packets())?;
        let after = if self.is_bare { 0 } else { all.departed - all.lost_behind - self.left };
        agree(&format!("behind the queue of {}", self.name), after, self.hop.count_behind())
    }
}
