//! Endpoints send through the bottleneck and receive behind it: a TCP connection, or anything else. Each has a slot in the
//! [`Arena`], which is used again when nothing of it is left anywhere.

use super::app_stream::AppStream;
use super::connection::Connection;
use super::port::Stages;
use super::stack_way::StackWay;
use super::tcp::Tcp;
use super::transport::Transport;
use crate::flow::{FlowResult, Samples};
use crate::min_tree::MinTree;
use crate::RunError;
use dumbbell_core::fork::{CannotFork, Fork, SharedCopies};
use dumbbell_core::hint::{seldom, unlikely};
use dumbbell_core::prefetch::prefetch_part;
use dumbbell_core::record::FlowCounters;
use dumbbell_core::tcp::receiver::Receiver;
use dumbbell_core::tcp::sender::Sender;
use dumbbell_core::units::{Duration, Instant};
use std::mem::offset_of;

/// Where an endpoint comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `[[flows]]` or `[[udp]]`: it has a row of its own in the results, and its slot for the whole run.
    Listed,
    /// User `app` of `[[app]]`: a connection or datagrams, one way. It has its slot for the whole run, or until the connection is over.
    App {
        /// Number of the user.
        app: u32,
    },
    /// A process of `[[web]]`: it comes and goes.
    Web {
        /// Payload, bytes.
        size: u64,
    },
    /// A process of `[[web]]` or a connection, and it is over: the slot is free, and what lies in it is used again.
    Vacant,
}

/// One endpoint. In memory, what every packet needs lies in one piece, and what is needed at start and end around it: with thousands of
/// endpoints each cache line counts.
#[repr(C, align(64))]
pub struct Endpoint {
    pub origin: Origin,
    /// Number in the run: flows, then UDP, then short flows as they arrive.
    pub number: u32,
    /// Class of traffic.
    pub class: u16,
    /// Start and stop on the engine's clock.
    pub start: Instant,
    pub stop: Instant,
    /// Time from which on no packet of a short flow that is over was under way to the receiver.
    pub quiet_since: Option<Instant>,
    /// Time to check whether the slot of a short flow that is over can be freed.
    pub look_at: Instant,
    pub stages: Stages,
    /// Line of acknowledgements, and the place among its members.
    pub line: u32,
    pub member: u32,
    pub transport: Transport,
    pub samples: Samples,
}

dumbbell_core::fork_fields! {
    Endpoint { transport; origin, number, class, start, stop, quiet_since, look_at, stages, line, member, samples }
}

/// Checks that as many packets are `there` as are unaccounted for.
///
/// # Errors
/// The numbers differ.
pub fn agree(place: &str, unaccounted: u64, there: u64) -> Result<(), RunError> {
    if unaccounted == there {
        return Ok(());
    }
    Err(RunError::Invariant(format!("{place}: arrived - gone is {unaccounted}, held are {there}")))
}

/// Packets of an endpoint that are on their way to the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// Held by stages ahead of the bottleneck.
    pub ahead: u64,
    /// In the queue and on the wire.
    pub queued: u64,
    /// Held by stages behind the bottleneck.
    pub behind: u64,
}

impl std::ops::AddAssign for UnderWay {
    fn add_assign(&mut self, other: UnderWay) {
        self.ahead += other.ahead;
        self.queued += other.queued;
        self.behind += other.behind;
    }
}

/// Least time between two looks whether something is left of a flow that is over: with a base RTT of 0, a late packet spends longer than
/// that in the queue.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

impl Endpoint {
    /// An endpoint in line `line` that starts and stops at these times of the engine's clock, without stages.
    pub fn new(
        transport: Transport,
        origin: Origin,
        number: u32,
        class: u16,
        line: u32,
        start: Instant,
        stop: Instant,
    ) -> Endpoint {
        let (samples, look_at) = (Samples::default(), Instant::NEVER);
        Endpoint {
            transport,
            origin,
            number,
            class,
            line,
            member: 0,
            start,
            stop,
            quiet_since: None,
            look_at,
            samples,
            stages: Stages::default(),
        }
    }

    /// Becomes what [`Endpoint::new`] makes of another short flow; its transport is renewed already.
    pub fn renew(&mut self, origin: Origin, number: u32, class: u16, line: u32, start: Instant) {
        let Endpoint {
            stages: _,
            line: own_line,
            member: _,
            transport: _,
            origin: own_origin,
            number: own_number,
            class: own_class,
            start: own_start,
            stop,
            quiet_since,
            look_at,
            samples,
        } = self;
        (*own_origin, *own_number, *own_class, *own_line, *own_start) = (origin, number, class, line, start);
        (*stop, *quiet_since, *look_at, *samples) = (Instant::NEVER, None, Instant::NEVER, Samples::default());
    }

    /// The sender will be needed soon.
    #[inline]
    pub fn prefetch_sender(&self) {
        prefetch_part(self, HEAD_AT, 1);
        prefetch_part(self, SENDER_AT + Sender::HOT_AT, Sender::HOT);
    }

    /// The receiver will be needed soon.
    #[inline]
    pub fn prefetch_receiver(&self) {
        prefetch_part(self, HEAD_AT, RECEIVER_AT + Receiver::HOT - HEAD_AT);
    }

    /// The slot is free.
    pub fn is_vacant(&self) -> bool {
        self.origin == Origin::Vacant
    }

    /// Returns the way of a stack that carries an application, if it is one.
    pub fn stack_way(&mut self) -> Option<&mut StackWay> {
        match &mut self.transport {
            Transport::Stream(stream) => match &mut **stream {
                AppStream::Stack(way) => Some(way),
                AppStream::Tcp(_) => None,
            },
            _ => None,
        }
    }

    /// The TCP connection, if it is one.
    #[cfg(test)]
    pub fn tcp(&self) -> Option<&Tcp> {
        match &self.transport {
            Transport::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }

    /// The next time at which the endpoint itself has something to do.
    #[inline]
    pub fn next_timer(&self) -> Instant {
        let own = self.transport.next_timer(self.start);
        own.min(self.stop).min(self.stages.next_timer()).min(self.look_at)
    }

    /// Returns the result of the endpoint and of the queue's `counters` for it until `now`.
    pub fn result(&self, counters: &FlowCounters, now: Instant) -> FlowResult {
        let common = FlowResult {
            start: self.start,
            end: now,
            min_rtt_us: u32::MAX,
            counters: *counters,
            samples: self.samples,
            ..FlowResult::default()
        };
        self.transport.result(common, now)
    }

    /// Whether nothing is left of a short flow whose connection is closed: no packet is on its way, and a base RTT has gone by since, in
    /// which the last acknowledgement arrived; `acks_held` are in queues. If not, plans when to look again.
    pub fn is_over(&mut self, counters: &FlowCounters, acks_held: u64, base_rtt: Duration, now: Instant) -> bool {
        let (sent, received) = self.transport.sent_and_received();
        let all_there = sent == received.arrived + counters.count_lost();
        let quiet = all_there && !self.transport.receiver_waits(now) && acks_held == 0 && self.held_acks() == 0;
        self.quiet_since = if quiet { self.quiet_since.or(Some(now)) } else { None };
        let since = self.quiet_since.unwrap_or(now);
        // an acknowledgement that left at that instant is delivered first
        let free_at = since.saturating_add(base_rtt).saturating_add(Duration(1));
        let over = quiet && free_at <= now;
        if !over {
            self.look_at = if quiet { free_at } else { free_at.max(now + LOOK_INTERVAL) };
        }
        over
    }

    /// Acknowledgements that stages hold.
    fn held_acks(&self) -> usize {
        self.stages.acks.as_ref().map_or(0, |path| path.count_items())
    }

    fn broken(&self, (what, left, right): (&str, u64, u64)) -> RunError {
        RunError::Invariant(format!("flow {}: {what}: {left} is not {right}", self.number))
    }

    /// Holds the state of its ends against what must hold at any time.
    ///
    /// # Errors
    /// The part of the state that is wrong.
    pub fn check_state(&self) -> Result<(), RunError> {
        self.transport.check().map_err(|broken| self.broken(broken))
    }

    /// Packets sent = delivered + dropped + still under way, and marks at the queue = marks at the receiver. Returns what is under way.
    ///
    /// # Errors
    /// The sum that does not come out.
    pub fn check_conservation(&self, counters: &FlowCounters) -> Result<UnderWay, RunError> {
        // before it begins, what was counted is of whoever had the slot
        if self.is_vacant() || !self.transport.has_begun() {
            return Ok(UnderWay::default());
        }
        let (sent, received) = self.transport.sent_and_received();
        let fail = |what, left, right| Err(self.broken((what, left, right)));
        let before = counters.lost_ahead + counters.arrived;
        if before > sent {
            return fail("lost ahead of the queue + arrived at the queue at most sent", before, sent);
        }
        let gone = counters.count_finished();
        if gone > counters.arrived {
            return fail("departed + dropped at most arrived", gone, counters.arrived);
        }
        let queued = counters.count_queued();
        let after = counters.lost_behind + received.arrived;
        if after > counters.departed {
            return fail("lost behind the queue + received at most departed", after, counters.departed);
        }
        // what was lost behind a queue may have been marked
        let unseen = queued + counters.lost_between + (counters.departed - received.arrived);
        let marked = received.ce + counters.ce_dropped;
        if marked > counters.ce || counters.ce - marked > unseen {
            return fail("CE marks = CE received + CE dropped + CE queued", counters.ce, marked);
        }
        // Only ECT(0) becomes SCE: a flow with SCE marks does not send ECT(1) itself.
        let some = received.ect1 + counters.sce_dropped;
        if counters.sce > 0 && (some > counters.sce || counters.sce - some > unseen) {
            return fail("SCE marks = SCE received + SCE dropped + SCE queued", counters.sce, some);
        }
        self.check_state()?;
        Ok(UnderWay { ahead: sent - before, queued, behind: counters.departed - after })
    }
}

/// With more endpoints than these, their state does not stay in the cache, and what the next events need is fetched ahead.
const CROWD: usize = 200;

/// All endpoints, by slot, and the earliest timer of each.
pub struct Arena {
    endpoints: Vec<Endpoint>,
    pub timers: MinTree,
    free: Vec<u32>,
}

/// Where sender and receiver of a TCP connection lie in an endpoint, bytes from its start: to fetch them ahead without a look at what it is.
const SENDER_AT: usize = TCP_AT + offset_of!(Tcp, sender);
const RECEIVER_AT: usize = TCP_AT + offset_of!(Tcp, receiver);
/// Where the connection lies: behind the tag of its [`Transport`].
const TCP_AT: usize = offset_of!(Endpoint, transport) + align_of::<Tcp>();
/// Where what every packet needs of the endpoint itself begins; the receiver follows it.
const HEAD_AT: usize = offset_of!(Endpoint, stages);

impl Arena {
    /// No endpoints yet, room for `capacity`.
    pub fn new(capacity: usize) -> Arena {
        Arena { endpoints: Vec::with_capacity(capacity), timers: MinTree::new(capacity), free: Vec::new() }
    }

    /// Returns a copy with all endpoints. `name` names an endpoint that refuses.
    ///
    /// # Errors
    /// An endpoint that cannot be copied.
    pub fn fork(&self, shared: &mut SharedCopies, name: impl Fn(&Endpoint) -> String) -> Result<Arena, CannotFork> {
        let copies = self.endpoints.iter().map(|one| one.fork(shared).map_err(|refused| refused.name_part(|| name(one))));
        let mut endpoints = Vec::with_capacity(self.endpoints.capacity());
        for copy in copies {
            endpoints.push(copy?);
        }
        Ok(Arena { endpoints, timers: self.timers.clone(), free: self.free.clone() })
    }

    /// Returns the number of slots, free ones included.
    pub fn count_slots(&self) -> u32 {
        self.endpoints.len() as u32
    }

    /// A slot that was given free, if there is one.
    pub fn reuse(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Puts what `make` makes of a slot that is new into it.
    pub fn add(&mut self, make: impl FnOnce(u32) -> Endpoint) -> u32 {
        let slot = self.endpoints.len() as u32;
        self.endpoints.push(make(slot));
        self.timers.grow(self.endpoints.len());
        slot
    }

    /// Gives slot `slot` free.
    pub fn remove(&mut self, slot: u32) {
        let endpoint = self.get_mut(slot);
        endpoint.origin = Origin::Vacant;
        endpoint.stages = Stages::default();
        self.timers.set(slot as usize, Instant::NEVER);
        self.free.push(slot);
    }

    /// Endpoint in slot `slot`.
    #[inline]
    pub fn get(&self, slot: u32) -> &Endpoint {
        &self.endpoints[slot as usize]
    }

    /// Endpoint in slot `slot`.
    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> &mut Endpoint {
        &mut self.endpoints[slot as usize]
    }

    /// All endpoints, free slots too.
    pub fn all_mut(&mut self) -> &mut [Endpoint] {
        &mut self.endpoints
    }

    /// Slots and endpoints, free slots too.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Endpoint)> {
        (0..).zip(&self.endpoints)
    }

    /// The first `count` endpoints, those of the flows and sources of UDP that are listed.
    pub fn iter_listed(&self, count: usize) -> impl Iterator<Item = &Endpoint> {
        self.endpoints[..count].iter()
    }

    /// Returns whether there are so many endpoints that their state does not stay in the cache.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.endpoints.len() > CROWD
    }

    /// The sender in `slot` will be needed soon.
    #[inline]
    pub fn prefetch_sender(&self, slot: u32) {
        self.timers.prefetch(slot as usize);
        self.get(slot).prefetch_sender();
    }

    /// The receiver in `slot` will be needed soon.
    #[inline]
    pub fn prefetch_receiver(&self, slot: u32) {
        self.timers.prefetch(slot as usize);
        self.get(slot).prefetch_receiver();
    }

    /// The endpoint whose timer is the next will be needed: all of it if it is a short flow, which begins or ends with that or has lost something,
    /// else the sender. `listed` endpoints come before short flows. Returns the slot of a short flow.
    #[inline]
    pub fn prefetch_next_timer(&self, listed: usize) -> Option<u32> {
        let slot = self.timers.min().1 as u32;
        if (slot as usize) < listed {
            self.prefetch_sender(slot);
            return None;
        }
        prefetch_part(self.get(slot), 0, size_of::<Endpoint>());
        Some(slot)
    }

    /// An answer has reached the sender in `slot` at `now`, which has something to do at `time` at the latest. If that is now, a short flow may be over.
    #[inline]
    pub fn plan_after_answer(&mut self, slot: u32, time: Instant, now: Instant) {
        if unlikely(time <= now) {
            let endpoint = self.get_mut(slot);
            if endpoint.origin != Origin::Listed {
                endpoint.look_at = now;
            }
        }
        self.timer_not_after(slot, time);
    }

    /// The timer of `slot` fires at `time` at the latest.
    #[inline]
    pub fn timer_not_after(&mut self, slot: u32, time: Instant) {
        if time < self.timers.get(slot as usize) {
            seldom();
            self.timers.set(slot as usize, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbbell_core::cc::AnyCc;
    use dumbbell_core::tcp::host::HostParams;
    use dumbbell_core::tcp::sender::Application;
    use dumbbell_core::tcp::FlowOptions;
    use std::sync::Arc;

    #[test]
    fn sender_and_receiver_lie_where_they_are_fetched() {
        let host = Arc::new(HostParams::default());
        let options = FlowOptions::default();
        let cc = AnyCc::without_ecn();
        let tcp = Tcp {
            space: [0; 1],
            last_arrival: Instant::ZERO,
            sender: Sender::new(0, cc, Arc::clone(&host), options, Application::Bulk),
            receiver: Receiver::new(0, host, options),
        };
        let endpoint = Endpoint::new(Transport::Tcp(tcp), Origin::Listed, 0, 0, 0, Instant::ZERO, Instant::NEVER);
        let start = std::ptr::from_ref(&endpoint).addr();
        let Some(Tcp { sender, receiver, .. }) = endpoint.tcp() else { panic!("it is TCP") };
        let places = (std::ptr::from_ref(sender).addr() - start, std::ptr::from_ref(receiver).addr() - start);
        assert_eq!(places, (SENDER_AT, RECEIVER_AT));
    }

    /// With thousands of flows each cache line of an endpoint counts: who needs more of them should know, and measure case f of `make bench`.
    #[test]
    fn an_endpoint_is_small_and_its_usual_packet_and_ack_take_few_cache_lines() {
        const LINE: usize = 64;
        let size = size_of::<Endpoint>();
        assert!(size <= 1536, "an endpoint takes {size} bytes");
        let lines = |from: usize, to: usize| to.div_ceil(LINE) - from / LINE;
        let receiver = lines(HEAD_AT, RECEIVER_AT + Receiver::HOT);
        let sender = lines(SENDER_AT + Sender::HOT_AT, SENDER_AT + Sender::HOT_AT + Sender::HOT);
        assert!(receiver <= 4 && sender <= 10, "{receiver} lines for a packet, {sender} for an ACK");
        let begin = (HEAD_AT % LINE, (SENDER_AT + Sender::HOT_AT) % LINE);
        assert_eq!(begin, (0, 0), "they begin at a cache line");
    }
}
