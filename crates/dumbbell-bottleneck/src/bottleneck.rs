//! The bottleneck: a queue discipline in front of a link or a token bucket.

use dumbbell_config::BottleneckParams;
use dumbbell_core::aqm::{Aqm, Dequeue, Verdict};
use dumbbell_core::fork::{CannotFork, Fork, SharedCopies};
use dumbbell_core::hint::{likely, seldom, unlikely};
use dumbbell_core::link::{AnyLink, Link, QueueContent};
use dumbbell_core::link_layer::LinkLayer;
use dumbbell_core::log::{At, DropReason, DropSite, Log};
use dumbbell_core::log_to;
use dumbbell_core::packet::{flag, FlowKey, Packet};
use dumbbell_core::param::ParamError;
use dumbbell_core::path::Sink;
use dumbbell_core::record::{Counters, FlowLog, InternalLog, LinkUse};
use dumbbell_core::slots::SlotTable;
use dumbbell_core::units::{Duration, Instant, Rate};
use std::collections::VecDeque;

mod replace;

/// Bytes that a frame of `len` takes on the link.
#[inline(always)]
fn on_link(layer: &Option<LinkLayer>, len: u16) -> u64 {
    let Some(layer) = layer else { return u64::from(len) };
    seldom();
    u64::from(layer.wire_bytes(len))
}

/// [`Aqm::dequeue`], compiled once more for token buckets only.
#[inline(never)]
fn ask<A: Aqm, L: Log>(aqm: &mut A, now: Instant, log: &mut L) -> Dequeue {
    aqm.dequeue(now, log)
}

/// [`Link::wait`] of the links that are not asked for every packet of most runs.
#[inline(never)]
fn wait(link: &mut AnyLink, waiting: QueueContent, now: Instant) -> Option<Instant> {
    link.wait(waiting, now)
}

/// [`Link::take`] of the same.
#[inline(never)]
fn take(link: &mut AnyLink, bytes: u64, now: Instant) -> Instant {
    link.take(bytes, now)
}

/// Fate of a packet that may [pass](Bottleneck::pass).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Leaves the link at this time.
    Left(Instant),
    /// Dropped by the queue.
    Dropped,
    /// Has to [take its place in the queue](Bottleneck::arrive_behind_passed).
    Waits,
}

/// Listeners for events of packets.
pub struct Listeners<L: Log> {
    /// Counters of the queue, flows, internal queues and connection classes.
    pub counters: Counters,
    /// Listens as well.
    pub listener: L,
}

impl<L: Log> Log for Listeners<L> {
    log_to!(self => self.counters, self.listener);
}

/// Queue, link and what is counted there. What happens to packets is also reported to `L`.
pub struct Bottleneck<A: Aqm, L: Log = ()> {
    /// Queue discipline.
    pub aqm: A,
    /// Listeners for events here.
    pub log: Listeners<L>,
    /// Packet on the wire.
    in_service: Option<Packet>,
    /// Packets that leave a token bucket behind it at the same instant.
    following: VecDeque<Packet>,
    /// When the link needs attention.
    pub next: Instant,
    /// When the link has sent all packets that passed ahead of their time.
    free_at: Instant,
    /// At [`Bottleneck::next`] nothing happens but that the queue is asked, and no packet lies in it.
    drains: bool,
    link: AnyLink,
    /// Link layer, if frames take more on the link than themselves.
    layer: Option<LinkLayer>,
    /// A burst that counts as one packet, as far as it has come.
    coming: Vec<Packet>,
    /// The rest of the burst in front leaves without waiting.
    leaving: bool,
    /// Frames of up to this number of bytes that find queue and link idle need not enter the queue ([`Aqm::bypass_max_len`]).
    passes: u16,
    /// The packet on the wire was one of them: if nothing has come meanwhile, the queue need not be asked again.
    passing: bool,
    /// The link has a pace of its own, which a queue that shapes leaves to it.
    is_paced: bool,
    /// Bytes on the link that it was given.
    taken: u64,
    /// Value of `taken` when it was last settled.
    settled: u64,
    /// Keys of the flows by slot, for a queue discipline that takes the place of this one.
    keys: SlotTable<Option<FlowKey>>,
}

impl<L: Log + Fork> Fork for Listeners<L> {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        let listener = self.listener.fork(shared).map_err(|refused| refused.name_part(|| "a listener".to_owned()))?;
        Ok(Listeners { counters: self.counters.clone(), listener })
    }
}

impl<A: Aqm, L: Log + Fork> Fork for Bottleneck<A, L> {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        Ok(Bottleneck {
            aqm: self.aqm.fork(shared)?,
            log: self.log.fork(shared)?,
            following: self.following.clone(),
            link: self.link.clone(),
            coming: self.coming.clone(),
            keys: self.keys.clone(),
            ..*self
        })
    }
}

impl<A: Aqm, L: Log> Bottleneck<A, L> {
    /// An idle bottleneck for flows of `classes` connection classes, over the link that `params` describe.
    pub fn new(aqm: A, classes: usize, params: &BottleneckParams, listener: L) -> Bottleneck<A, L> {
        Bottleneck::with_link(None, aqm, classes, params, listener)
    }

    /// Builds the bottleneck over the link `named`, if there is one.
    pub fn with_link(named: Option<AnyLink>, aqm: A, classes: usize, params: &BottleneckParams, listener: L) -> Bottleneck<A, L> {
        let is_paced = params.trace.is_some() || named.as_ref().is_some_and(|link| !matches!(link, AnyLink::Unshaped(_)));
        let link = named.unwrap_or_else(|| params.link(aqm.shapes()));
        let counters =
            Counters { internal: InternalLog::new(aqm.internal_queues()), flows: FlowLog::new(classes), ..Counters::default() };
        Bottleneck {
            passes: aqm.bypass_max_len(),
            aqm,
            log: Listeners { counters, listener },
            in_service: None,
            following: VecDeque::new(),
            next: Instant::NEVER,
            free_at: Instant::ZERO,
            drains: false,
            link,
            layer: Some(params.layer()).filter(|layer| *layer != LinkLayer::RAW),
            coming: Vec::new(),
            leaving: false,
            passing: false,
            is_paced,
            taken: 0,
            settled: 0,
            keys: SlotTable::default(),
        }
    }

    /// From now on, packets of slot `flow` belong to the flow with `key`, which is of connection class `class`.
    pub fn flow_starts(&mut self, flow: u32, key: &FlowKey, class: u16) {
        self.aqm.flow_starts(flow, key);
        *self.keys.entry(flow) = Some(*key);
        self.log.counters.flows.flow_starts(flow, class);
    }

    /// A packet reaches the queue.
    #[inline(never)]
    pub fn arrive(&mut self, mut packet: Packet, now: Instant) {
        self.bypass(&mut packet, now, |_| false);
    }

    /// A packet with `flags` that comes now has nothing to do but to enter the queue, as most have.
    #[inline(always)]
    pub fn is_busy(&self, flags: u16) -> bool {
        self.next != Instant::NEVER && flags & (flag::MORE | flag::LAST) == 0 && !matches!(self.link, AnyLink::Htb(_))
    }

    /// Whether the link is busy with packets that have passed, and none is in the queue.
    #[inline(always)]
    pub fn is_drained(&self) -> bool {
        self.drains
    }

    /// Whether no packet is in the queue, so that a packet may [pass](Bottleneck::pass).
    #[inline(always)]
    pub fn lets_pass(&self) -> bool {
        self.next == Instant::NEVER || self.drains
    }

    /// Does the same as [`Bottleneck::arrive`], if it [is busy](Bottleneck::is_busy). It is compiled into the loops of senders.
    #[inline(always)]
    pub fn arrive_busy(&mut self, packet: Packet, now: Instant) {
        self.log.on_arrival(&packet, now);
        self.aqm.enqueue(packet, now, &mut self.log);
    }

    /// Takes a packet as [`Bottleneck::arrive`] does. One that finds queue and link idle leaves at once, if its departure `is_next` of all events: returns when it left.
    #[inline(always)]
    pub fn bypass(&mut self, packet: &mut Packet, now: Instant, is_next: impl FnOnce(Instant) -> bool) -> Option<Instant> {
        // a packet whose rest was dropped on the way ends the burst that came before it
        if packet.has(flag::MORE | flag::LAST) || !self.coming.is_empty() {
            self.collect(*packet, now);
        } else {
            if let (Instant::NEVER, AnyLink::Serial(link), true) = (self.next, &mut self.link, packet.len <= self.passes) {
                debug_assert_eq!(self.aqm.packets(), 0);
                let bytes = on_link(&self.layer, packet.len);
                let leaves = link.take(bytes, now);
                self.taken += bytes;
                packet.enqueue_time = now;
                if is_next(leaves) {
                    self.log.on_pass(packet, now, leaves);
                    self.count_link_layer(packet.len);
                    return Some(leaves);
                }
                self.log.on_arrival(packet, now);
                self.log.on_enqueue(packet, At::time(now));
                self.log.on_dequeue(packet, At::time(now));
                (self.next, self.in_service, self.passing) = (leaves, Some(*packet), true);
                return None;
            }
            self.log.on_arrival(packet, now);
            self.aqm.enqueue(*packet, now, &mut self.log);
        }
        if self.next == Instant::NEVER {
            self.serve(now);
        } else if self.in_service.is_some() {
            self.follow(now);
        }
        None
    }

    /// Judges `packet` as it arrives, if no packet is in the queue and this one leaves the link before `horizon` in any case. All of its events happen now then. On
    /// a link that is not serial, it waits.
    #[inline(always)]
    pub fn pass(&mut self, packet: &mut Packet, now: Instant, horizon: Instant) -> Passage {
        if !self.lets_pass() {
            return Passage::Waits;
        }
        let AnyLink::Serial(link) = &mut self.link else { return Passage::Waits };
        let bytes = on_link(&self.layer, packet.len);
        let start = self.free_at.max(now);
        if unlikely(start + link.longest(bytes) >= horizon) {
            return Passage::Waits;
        }
        packet.enqueue_time = now;
        match self.aqm.pass(packet, now, start, &mut self.log) {
            Verdict::Sent => {}
            Verdict::Unknown => {
                seldom();
                return Passage::Waits;
            }
            Verdict::Dropped => {
                seldom();
                self.log.on_arrival(packet, now);
                if !self.drains {
                    self.serve(now);
                }
                return Passage::Dropped;
            }
        }
        let leaves = link.take(bytes, start);
        self.taken += bytes;
        self.free_at = leaves;
        // a discipline that wants to be asked when nothing is left in it is asked then
        self.drains = packet.len > self.passes;
        self.next = if self.drains { leaves } else { Instant::NEVER };
        self.log.on_pass(packet, start, leaves);
        if unlikely(bytes != u64::from(packet.len)) {
            self.count_link_layer(packet.len);
        }
        Passage::Left(leaves)
    }

    /// Takes a packet that does not [pass](Bottleneck::pass) where others may have.
    #[inline(never)]
    pub fn arrive_behind_passed(&mut self, packet: Packet, now: Instant) {
        if self.next == Instant::NEVER && self.free_at > now {
            self.next = self.free_at;
        }
        self.drains = false;
        if self.is_busy(packet.flags()) {
            self.arrive_busy(packet, now);
        } else {
            self.arrive(packet, now);
        }
    }

    /// Does what happens at [`Bottleneck::next`] before that has come, if it is before `horizon` and does not depend on what arrives until then. Returns
    /// when a packet leaves, and the packet; call again while it does.
    #[inline(always)]
    pub fn advance_ahead(&mut self, horizon: Instant) -> Option<(Instant, Packet)> {
        while self.next < horizon && !self.drains {
            let at = self.next;
            if let Some(packet) = self.in_service.take() {
                seldom();
                self.passing = false;
                self.log.on_departure(&packet, at);
                self.count_link_layer(packet.len);
                return Some((at, packet));
            }
            let is_empty = self.aqm.packets() == 0;
            let next = if is_empty { Dequeue::Empty } else { self.aqm.dequeue_foreseen(at, &mut self.log)? };
            let (Dequeue::Packet(packet), AnyLink::Serial(link)) = (next, &mut self.link) else {
                // the queue is asked when that time has come, unless a packet arrives before
                (self.free_at, self.drains) = (at, true);
                return None;
            };
            let bytes = on_link(&self.layer, packet.len);
            let leaves = link.take(bytes, at);
            self.next = leaves;
            self.taken += bytes;
            self.aqm.note_start(packet.len, at);
            if likely(leaves < horizon) {
                // it need not lie on the wire
                self.log.on_departure(&packet, leaves);
                self.count_link_layer(packet.len);
                return Some((leaves, packet));
            }
            self.in_service = Some(packet);
        }
        None
    }

    /// Packets leave a token bucket as they arrive while it has tokens, and never count as queued: Linux runs a queue discipline after each
    /// packet that it takes (`__dev_xmit_skb`). One that leaves at this instant is in service already.
    #[inline]
    fn follow(&mut self, now: Instant) {
        let AnyLink::Htb(bucket) = &mut self.link else { return };
        while (self.leaving || bucket.debt(now) == Duration::ZERO) && self.aqm.packets() > 0 {
            let Dequeue::Packet(packet) = ask(&mut self.aqm, now, &mut self.log) else { return };
            let bytes = on_link(&self.layer, packet.len);
            bucket.take(bytes, now);
            self.taken += bytes;
            self.leaving = packet.has(flag::MORE);
            self.following.push_back(packet);
        }
    }

    /// A packet of a burst that counts as one packet; with the last of them it is in the queue, or dropped.
    #[inline(never)]
    fn collect(&mut self, packet: Packet, now: Instant) {
        self.coming.push(packet);
        if packet.has(flag::MORE) {
            return;
        }
        let log = &mut self.log;
        let fits = self.aqm.has_room(self.coming.iter().map(|part| u64::from(part.len)).sum());
        for part in self.coming.drain(..) {
            log.on_arrival(&part, now);
            if fits {
                self.aqm.enqueue(part, now, log);
            } else {
                log.on_drop(&part, DropReason::Overflow, DropSite::Arrival, At::time(now));
            }
        }
    }

    /// The link has time for the next packet, if there is one.
    #[inline(always)]
    fn serve(&mut self, now: Instant) {
        if unlikely(self.passing) {
            self.passing = false;
            if self.aqm.packets() == 0 {
                self.next = Instant::NEVER;
                return;
            }
        }
        match self.aqm.earliest_packet(now) {
            Some(until) if matches!(self.link, AnyLink::Unshaped(_)) => self.next = until,
            _ => self.look_for_packet(now),
        }
    }

    /// Asks the queue, if the link may send.
    #[inline(always)]
    fn look_for_packet(&mut self, now: Instant) {
        match &mut self.link {
            AnyLink::Serial(_) => {}
            AnyLink::Unshaped(bucket) => {
                let debt = bucket.debt(now);
                if debt > Duration::ZERO {
                    self.next = if self.aqm.packets() == 0 { Instant::NEVER } else { now + debt };
                    return;
                }
            }
            AnyLink::Htb(bucket) => {
                let debt = bucket.debt(now);
                if self.aqm.packets() == 0 {
                    // sch_htb takes a class without packets out of its rounds: the queue is not asked, and does not learn that it is empty
                    self.next = Instant::NEVER;
                    return;
                }
                if debt > Duration::ZERO && !self.leaving {
                    self.next = now + debt;
                    return;
                }
            }
            link => {
                let waiting = QueueContent { packets: self.aqm.packets(), bytes: self.aqm.bytes() };
                if let Some(until) = wait(link, waiting, now) {
                    self.next = until;
                    return;
                }
            }
        }
        // looked at where it is: a packet that is taken apart and put together again waits for its own writing
        match &self.aqm.dequeue(now, &mut self.log) {
            Dequeue::Empty => {
                seldom();
                self.next = Instant::NEVER;
            }
            Dequeue::Wait(until) => self.next = *until,
            Dequeue::Packet(packet) => {
                let bytes = on_link(&self.layer, packet.len);
                self.next = match &mut self.link {
                    AnyLink::Serial(link) => link.take(bytes, now),
                    AnyLink::Unshaped(bucket) => bucket.take(bytes, now),
                    AnyLink::Htb(bucket) => {
                        self.leaving = packet.has(flag::MORE);
                        bucket.take(bytes, now)
                    }
                    link => take(link, bytes, now),
                };
                self.taken += bytes;
                self.in_service = Some(*packet);
            }
        }
    }

    /// A packet of `len` bytes has left; what it took on the link beyond that is counted.
    #[inline(always)]
    fn count_link_layer(&mut self, len: u16) {
        if let Some(layer) = &self.layer {
            seldom();
            self.log.counters.queue.link_layer_bytes += i64::from(layer.wire_bytes(len)) - i64::from(len);
        }
    }

    /// Returns what the link was given until it was last settled.
    pub fn link_use(&self) -> LinkUse {
        LinkUse { bytes: self.settled, ahead: self.link.most_unsent() }
    }

    /// Brings up to `now` what is counted of the link: what it has carried, to the byte, and could not carry.
    pub fn settle(&mut self, now: Instant) {
        let queue = &mut self.log.counters.queue;
        // a change of the rate changes the time that a bucket's debt stands for
        queue.carried_bytes = queue.carried_bytes.max(self.taken as i64 - self.link.unsent(now) as i64);
        queue.lost_bytes = self.link.capacity_deficit(now);
        self.settled = self.taken;
    }

    /// How much longer a packet takes that leaves the link at `now`.
    pub fn delay(&mut self, now: Instant) -> Duration {
        self.link.delay(now)
    }

    /// [`Bottleneck::next`] has come. Returns the packet that leaves, if one does; call again while it does.
    #[inline(always)]
    pub fn advance(&mut self, now: Instant) -> Option<Packet> {
        self.drains = false;
        let packet = self.in_service.take();
        if let Some(packet) = &packet {
            self.log.on_departure(packet, now);
            self.count_link_layer(packet.len);
        }
        match self.following.pop_front() {
            Some(next) => self.in_service = Some(next),
            None => self.serve(now),
        }
        packet
    }

    /// Returns whether the next packet of the burst of `packet`, which has just left, leaves at the same instant. It does not if it was lost, or on a serial link.
    #[cold]
    #[inline(never)]
    pub fn burst_goes_on(&self, packet: &Packet, now: Instant) -> bool {
        let follows = |next: &Packet| self.next == now && next.flow == packet.flow && next.number() == packet.number() + 1;
        self.in_service.as_ref().is_some_and(follows)
    }

    /// The time of [`Aqm::next_timer`] has come.
    pub fn on_aqm_timer(&mut self, now: Instant) {
        self.aqm.on_timer(now, &mut self.log);
    }

    /// Returns whether the link sends one packet after the other, bit by bit.
    pub fn is_serial(&self) -> bool {
        matches!(self.link, AnyLink::Serial(_))
    }

    /// The packet on the wire.
    #[inline]
    pub fn in_service(&self) -> Option<&Packet> {
        self.in_service.as_ref()
    }

    /// Packets in the queue and on the wire.
    pub fn count_packets(&self) -> u64 {
        self.aqm.packets() as u64 + u64::from(self.in_service.is_some()) + self.following.len() as u64
    }

    /// Bytes on the link of all packets that have left the queue.
    pub fn taken_bytes(&self) -> u64 {
        self.taken
    }

    /// A program sets the rate of the queue's own shaper.
    pub fn set_shaper(&mut self, rate: Rate, now: Instant) {
        self.aqm.set_shaper(rate, now);
        if self.in_service.is_none() && self.next != Instant::NEVER {
            self.serve(now);
        }
    }

    /// The queue discipline takes the parameters of `fresh`, which was just built ([`Aqm::take_params`]).
    ///
    /// # Errors
    /// A value that it cannot take while it runs.
    pub fn take_params(&mut self, fresh: A, now: Instant) -> Result<(), ParamError> {
        self.aqm.take_params(fresh, now)?;
        self.passes = self.aqm.bypass_max_len();
        Ok(())
    }

    /// The rate changes; what is on the wire goes on at the old one.
    pub fn set_rate(&mut self, rate: Rate, now: Instant) {
        self.link.set_rate(rate, now);
        self.aqm.set_rate(rate, now);
        if self.is_paced && self.aqm.shapes() {
            self.aqm.set_rate(Rate::UNLIMITED, now);
        }
        if self.in_service.is_none() && self.next != Instant::NEVER {
            self.serve(now);
        }
    }
}

/// A path leads to the queue.
impl<A: Aqm, L: Log> Sink<Packet> for Bottleneck<A, L> {
    fn arrive(&mut self, packet: Packet, now: Instant) {
        Bottleneck::arrive(self, packet, now);
    }

    fn on_drop(&mut self, packet: Packet, reason: DropReason, now: Instant) {
        self.log.on_drop(&packet, reason, DropSite::Ahead, At::time(now));
    }

    fn on_clear_ecn(&mut self, packet: &Packet, now: Instant) {
        self.log.on_clear_ecn(packet, now);
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod trace_tests;
