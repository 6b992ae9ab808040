//! A hop of a net: stages, queue, link, what lies behind it, and what it has counted.

use super::super::ack_log::Acks;
use super::super::setup::build_path;
use crate::config::{Classes, HopConfig, RunConfig};
use crate::hop_log::HopCounts;
use crate::RunError;
use dumbbell_bottleneck::Bottleneck;
use dumbbell_core::aqm::{AnyAqm, Aqm};
use dumbbell_core::log::{At, DropReason, DropSite, Log};
use dumbbell_core::packet::Packet;
use dumbbell_core::path::{Path, Sink};
use dumbbell_core::record::FlowCounters;
use dumbbell_core::units::Time;
use std::collections::VecDeque;

/// In [`Hop::next`]: the packet is where it was sent. Among [`Member::back`](super::Member::back): acknowledgements pass no hop.
pub const END: u16 = u16::MAX;

fn held_in(path: &Option<Box<Path<Packet>>>) -> u64 {
    path.as_ref().map_or(0, |path| path.count_items() as u64)
}

/// What is not accounted for is there.
///
/// # Errors
/// It is not.
pub fn agree(place: &str, unaccounted: u64, there: u64) -> Result<(), RunError> {
    if unaccounted == there {
        return Ok(());
    }
    Err(RunError::Invariant(format!("{place}: arrived - gone is {unaccounted}, held are {there}")))
}

/// One hop.
pub struct Hop<L: Log> {
    pub name: String,
    /// Stages right ahead of the queue.
    pub shared: Option<Box<Path<Packet>>>,
    pub bottleneck: Bottleneck<AnyAqm, Acks<L>>,
    /// Stages behind the link.
    pub behind: Option<Box<Path<Packet>>>,
    /// Propagation behind that, and what is on it.
    pub delay: Time,
    /// The link adds a delay to that, which changes.
    pub varies: bool,
    pub wire: VecDeque<(Time, Packet)>,
    /// Where the packets of each slot go next.
    pub next: Vec<u16>,
    /// Its queue discipline has a clock of its own, and when it wants to be called.
    pub ticks: bool,
    pub aqm_at: Time,
    /// Its queue discipline reads acknowledgements.
    pub reads_acks: bool,
    /// There is nothing ahead of its queue, which is called for packets only.
    pub is_plain: bool,
    /// And there is nothing behind its link.
    pub is_bare: bool,
    /// Packets that went on, of the endpoints that are counted now; not of a bare hop, where none stays behind the link.
    pub left: u64,
    /// What it had counted when counting began, and at the last point of the time series.
    pub begun: HopCounts,
    pub before: HopCounts,
}

impl<L: Log> Hop<L> {
    /// Hop number `index` of `config` with this queue discipline and listener.
    pub fn new(config: &RunConfig, classes: &Classes, (index, hop): (usize, &HopConfig), aqm: AnyAqm, listener: L) -> Hop<L> {
        let shared = build_path(&hop.path, config.run.seed, "shared path", index);
        let (behind, varies) = (build_path(&hop.behind, config.run.seed, "path behind", index), config.link_delays(index));
        let (reads_acks, ticks) = (aqm.reads_acks(), aqm.next_timer() != Time::NEVER);
        let is_plain = !reads_acks && !ticks && shared.is_none();
        Hop {
            name: hop.name.clone(),
            reads_acks,
            ticks,
            is_plain,
            shared,
            bottleneck: Bottleneck::with_link(
                config.named_link(index),
                aqm,
                classes.list.len(),
                &hop.params,
                Acks::new(listener),
            ),
            is_bare: is_plain && behind.is_none() && hop.delay == Time::ZERO && !varies,
            behind,
            delay: hop.delay,
            varies,
            wire: VecDeque::new(),
            next: Vec::new(),
            aqm_at: Time::NEVER,
            left: 0,
            begun: HopCounts::default(),
            before: HopCounts::default(),
        }
    }

    pub fn count_now(&self) -> HopCounts {
        HopCounts::now(&self.bottleneck.log.counters.queue, &self.bottleneck.log.listener.counters)
    }

    /// Packets in the hop, stages and propagation included.
    pub fn inside(&self) -> u64 {
        held_in(&self.shared) + self.bottleneck.count_packets() + held_in(&self.behind) + self.wire.len() as u64
    }

    /// Holds what it has counted against what it holds.
    ///
    /// # Errors
    /// A sum that does not come out.
    pub fn check(&self) -> Result<(), RunError> {
        let mut all = FlowCounters::default();
        for of in self.bottleneck.log.counters.flows.iter() {
            all.arrived += of.arrived;
            all.departed += of.departed;
            all.dropped_aqm += of.dropped_aqm + of.dropped_overflow;
            all.lost_behind += of.lost_behind;
        }
        agree(&format!("queue of {}", self.name), all.count_queued(), self.bottleneck.count_packets())?;
        let after = if self.is_bare { 0 } else { all.departed - all.lost_behind - self.left };
        agree(&format!("behind the queue of {}", self.name), after, held_in(&self.behind) + self.wire.len() as u64)
    }
}

/// The end of the stages behind a link.
pub struct HopSink<'a, L: Log> {
    pub packets: &'a mut Vec<Packet>,
    pub bottleneck: &'a mut Bottleneck<AnyAqm, Acks<L>>,
}

impl<L: Log> Sink<Packet> for HopSink<'_, L> {
    fn arrive(&mut self, packet: Packet, _now: Time) {
        self.packets.push(packet);
    }

    fn on_drop(&mut self, packet: Packet, reason: DropReason, now: Time) {
        self.bottleneck.log.on_drop(&packet, reason, DropSite::Behind, At::time(now));
    }

    fn on_clear_ecn(&mut self, packet: &Packet, now: Time) {
        self.bottleneck.log.on_clear_ecn(packet, now);
    }
}
