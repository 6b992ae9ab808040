//! One hop: stages ahead of a bottleneck, the bottleneck, stages behind its link, and propagation.

use crate::Bottleneck;
use dumbbell_config::{HopConfig, RunConfig};
use dumbbell_core::aqm::Aqm;
use dumbbell_core::fork::{CannotFork, Fork, SharedCopies};
use dumbbell_core::log::{At, DropReason, DropSite, Log};
use dumbbell_core::packet::{flag, Packet};
use dumbbell_core::path::{Path, PathItem, Sink, StageSpec};
use dumbbell_core::rng::Rng;
use dumbbell_core::units::{Duration, Instant};
use std::collections::VecDeque;

/// The path of `stages`, which draws from stream `name` of `seed`, number `index`; `None` if there are no stages.
pub fn build_path<T: PathItem>(stages: &[StageSpec], seed: u64, name: &str, index: usize) -> Option<Box<Path<T>>> {
    (!stages.is_empty()).then(|| Box::new(Path::build(stages, Rng::stream(seed, name, index as u64))))
}

/// `packet` as one that counts by itself: stages of a path delay and drop single packets.
#[inline]
pub fn without_burst_marks(mut packet: Packet) -> Packet {
    packet.clear_flags(flag::MORE | flag::LAST);
    packet
}

/// The parts of a hop that have something to do at times of their own, in addition to the link. At one instant the link is first, and then these, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopPart {
    /// Stages ahead of the queue.
    Ahead,
    /// Stages behind the link.
    Behind,
    /// Propagation.
    Propagation,
}

impl HopPart {
    /// All of them, in order.
    pub const ALL: [HopPart; 3] = [HopPart::Ahead, HopPart::Behind, HopPart::Propagation];
}

/// Propagation, and the packets on their way with the times at which they arrive.
#[derive(Clone)]
struct PropagationDelay {
    delay: Duration,
    /// The link adds a delay to that, which changes.
    varies: bool,
    packets: VecDeque<(Instant, Packet)>,
}

/// Stages, queue, link and propagation. What happens to packets is reported to `L`.
pub struct Hop<A: Aqm, L: Log> {
    ahead: Option<Box<Path<Packet>>>,
    /// The queue and its link.
    pub bottleneck: Bottleneck<A, L>,
    behind: Option<Box<Path<Packet>>>,
    propagation: PropagationDelay,
    /// A packet that leaves the link leaves the hop.
    is_open: bool,
    /// Whether a packet that comes to the hop comes to the queue, without a stage ahead of it.
    is_bare: bool,
}

impl<A: Aqm, L: Log + Fork> Fork for Hop<A, L> {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        Ok(Hop {
            bottleneck: self.bottleneck.fork(shared)?,
            ahead: self.ahead.clone(),
            behind: self.behind.clone(),
            propagation: self.propagation.clone(),
            ..*self
        })
    }
}

impl<A: Aqm, L: Log> Hop<A, L> {
    /// Hop number `index` of `config` with this queue discipline and listener, for flows of `classes` connection classes.
    pub fn new(config: &RunConfig, (index, hop): (usize, &HopConfig), classes: usize, aqm: A, listener: L) -> Hop<A, L> {
        let behind = build_path(&hop.behind, config.run.seed, "path behind", index);
        let propagation = PropagationDelay { delay: hop.delay, varies: config.link_delays(index), packets: VecDeque::new() };
        let ahead = build_path(&hop.path, config.run.seed, "shared path", index);
        let is_open = behind.is_none() && propagation.delay == Duration::ZERO && !propagation.varies;
        Hop {
            is_open,
            is_bare: is_open && ahead.is_none(),
            ahead,
            bottleneck: Bottleneck::with_link(config.named_link(index), aqm, classes, &hop.params, listener),
            behind,
            propagation,
        }
    }

    /// Whether packets come to the queue as they come to the hop.
    #[inline(always)]
    pub fn is_direct(&self) -> bool {
        self.ahead.is_none()
    }

    /// Whether packets leave the hop as they leave the link.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether it has a queue and a link alone, and no part ever has something to do.
    #[inline(always)]
    pub fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// When this part has something to do.
    #[inline]
    pub fn part_time(&self, part: HopPart) -> Instant {
        let timer = |path: &Option<Box<Path<Packet>>>| path.as_ref().map_or(Instant::NEVER, |path| path.next_timer());
        match part {
            HopPart::Ahead => timer(&self.ahead),
            HopPart::Behind => timer(&self.behind),
            HopPart::Propagation => self.propagation.packets.front().map_or(Instant::NEVER, |first| first.0),
        }
    }

    /// [`Bottleneck::advance`]; a packet of a burst that does not go on is the last of it.
    #[inline(always)]
    pub fn advance(&mut self, now: Instant) -> Option<Packet> {
        match self.bottleneck.advance(now) {
            Some(packet) if packet.has(flag::MORE) => Some(self.end_burst(packet, now)),
            other => other,
        }
    }

    #[cold]
    #[inline(never)]
    fn end_burst(&self, mut packet: Packet, now: Instant) -> Packet {
        if !self.bottleneck.burst_goes_on(&packet, now) {
            packet.clear_flags(flag::MORE);
        }
        packet
    }

    /// A packet leaves the link. What leaves the hop goes to `out`, with the time and the listener. An [open hop](Hop::is_open) need not be asked.
    pub fn leave(&mut self, packet: Packet, now: Instant, out: &mut impl FnMut(&Packet, Instant, &mut L)) {
        let Hop { bottleneck, behind, propagation, .. } = self;
        let mut end = HopEnd { bottleneck, propagation, out };
        match behind {
            None => end.arrive(packet, now),
            Some(path) => path.push(without_burst_marks(packet), now, &mut end),
        }
    }

    /// The time of a part has come. What leaves the hop goes to `out`, with the time and the listener.
    pub fn on_part(&mut self, part: HopPart, now: Instant, out: &mut impl FnMut(&Packet, Instant, &mut L)) {
        let Hop { ahead, bottleneck, behind, propagation, .. } = self;
        match part {
            HopPart::Ahead => ahead.iter_mut().for_each(|path| path.on_timer(now, bottleneck)),
            HopPart::Behind => {
                let mut end = HopEnd { bottleneck, propagation, out };
                behind.iter_mut().for_each(|path| path.on_timer(now, &mut end));
            }
            HopPart::Propagation => {
                if let Some((_, packet)) = propagation.packets.pop_front() {
                    out(&packet, now, &mut bottleneck.log.listener);
                }
            }
        }
    }

    /// Stage number `stage` of those behind the link, or of those ahead of the queue, loses packets with this `probability` from now on. Returns whether it is one of
    /// independent loss.
    pub fn set_loss(&mut self, is_behind: bool, stage: usize, probability: f64) -> bool {
        let path = if is_behind { &mut self.behind } else { &mut self.ahead };
        path.as_mut().is_some_and(|path| path.set_loss(stage, probability))
    }

    /// Packets in the stages ahead of the queue.
    pub fn count_ahead(&self) -> u64 {
        self.ahead.as_ref().map_or(0, |path| path.count_items() as u64)
    }

    /// Packets behind the link.
    pub fn count_behind(&self) -> u64 {
        self.behind.as_ref().map_or(0, |path| path.count_items() as u64) + self.propagation.packets.len() as u64
    }
}

/// A packet comes to the hop.
impl<A: Aqm, L: Log> Sink<Packet> for Hop<A, L> {
    #[inline]
    fn arrive(&mut self, packet: Packet, now: Instant) {
        match &mut self.ahead {
            None => self.bottleneck.arrive(packet, now),
            Some(path) => path.push(without_burst_marks(packet), now, &mut self.bottleneck),
        }
    }

    fn on_drop(&mut self, packet: Packet, reason: DropReason, now: Instant) {
        self.bottleneck.on_drop(packet, reason, now);
    }

    fn on_clear_ecn(&mut self, packet: &Packet, now: Instant) {
        self.bottleneck.log.on_clear_ecn(packet, now);
    }
}

/// The end of the stages behind the link, where propagation begins.
struct HopEnd<'a, A: Aqm, L: Log, F> {
    bottleneck: &'a mut Bottleneck<A, L>,
    propagation: &'a mut PropagationDelay,
    out: &'a mut F,
}

impl<A: Aqm, L: Log, F: FnMut(&Packet, Instant, &mut L)> Sink<Packet> for HopEnd<'_, A, L, F> {
    #[inline]
    fn arrive(&mut self, packet: Packet, now: Instant) {
        let PropagationDelay { delay, varies, packets } = &mut *self.propagation;
        if *delay == Duration::ZERO && !*varies {
            return (self.out)(&packet, now, &mut self.bottleneck.log.listener);
        }
        let mut at = now + *delay;
        if *varies {
            // a delay that falls does not let a packet overtake the one in front
            let ahead = packets.back().map_or(Instant::ZERO, |last| last.0);
            at = (at + self.bottleneck.delay(now)).max(ahead);
        }
        packets.push_back((at, packet));
    }

    fn on_drop(&mut self, packet: Packet, reason: DropReason, now: Instant) {
        self.bottleneck.log.on_drop(&packet, reason, DropSite::Behind, At::time(now));
    }

    fn on_clear_ecn(&mut self, packet: &Packet, now: Instant) {
        self.bottleneck.log.on_clear_ecn(packet, now);
    }
}
