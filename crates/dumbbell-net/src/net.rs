//! Queue, link and propagation of a bottleneck, driven from outside.

use crate::frame::{Arrival, Frame, NetCounters};
use dumbbell_bottleneck::{Hop, HopPart};
use dumbbell_config::{RateChange, RunConfig};
use dumbbell_core::aqm::{AnyAqm, Aqm};
use dumbbell_core::log::{At, DropReason, DropSite, Log};
use dumbbell_core::packet::{flag, FlowKey, Packet};
use dumbbell_core::path::Sink;
use dumbbell_core::record::FlowCounters;
use dumbbell_core::units::{self, Instant};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::Duration;

/// The last time that there is, 146 years: delays behind it still fit.
const LAST: u64 = 1 << 62;

/// A time of the caller.
pub fn nanoseconds(time: Duration) -> units::Duration {
    units::Duration(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(LAST))
}

/// Hears which packets are dropped; the [frame slot](Packet::frame_slot) is the place of the payload.
#[derive(Default)]
struct Lost {
    places: Vec<u32>,
    /// By stages.
    on_paths: u64,
}

impl Log for Lost {
    fn on_drop(&mut self, packet: &Packet, _reason: DropReason, place: DropSite, _at: At) {
        self.places.push(packet.frame_slot());
        self.on_paths += u64::from(matches!(place, DropSite::Ahead | DropSite::Behind));
    }
}

/// The next step.
#[derive(Clone, Copy)]
enum NextStep {
    /// The link needs attention.
    Link,
    /// Another part of the hop does.
    Part(HopPart),
    /// The rate changes.
    Change,
    /// The queue discipline's clock.
    Timer,
}

/// One direction of a bottleneck: stages, queue discipline, link and propagation, with the packets in it. Each carries a payload `T`, which the net
/// does not look at.
///
/// The net does no I/O and has no clock: the caller says what time it is. Time is a [`Duration`] since any instant, [`Config::start`](crate::Config::start) at the
/// earliest; it does not go back, and an earlier one counts as that of the last event. Equal calls give equal answers.
///
/// Events happen at their own time however late the caller is, and in the order of the simulator: at one instant, packets move, then those
/// that are pushed arrive, then the rate changes and queue disciplines have their clock. Packets of one flow that are pushed in a row at one instant
/// are a burst: nothing happens between them.
///
/// ```
/// use dumbbell_net::{Ecn, Frame, Net};
/// use std::time::Duration;
///
/// let mut net = Net::new(r#"rate = "10Mbit"
///     aqm = "fq_codel"
///     delay = "10ms""#)?;
/// net.push(Duration::ZERO, Frame::udp(1472).ecn(Ecn::Ect0), b"hello".to_vec());
/// // 1514 B at 10 Mbit/s are 1.2112 ms
/// assert_eq!(net.next(), Some(Duration::from_nanos(1_211_200)));
/// assert!(net.pop(Duration::from_millis(2)).is_none());
/// let wake = net.next().expect("a packet on its way");
/// assert_eq!(net.pop(wake).map(|packet| packet.payload), Some(b"hello".to_vec()));
/// # Ok::<(), dumbbell_net::Error>(())
/// ```
pub struct Net<T = Vec<u8>> {
    start: units::Duration,
    /// Time of the last event.
    now: Instant,
    hop: Hop<AnyAqm, Lost>,
    /// Packets that have come out.
    out: VecDeque<(Instant, Packet)>,
    changes: VecDeque<RateChange>,
    /// Numbers of the flows that have been seen, by slot.
    flows: Vec<u32>,
    slots: HashMap<u32, u32>,
    payloads: Vec<Option<T>>,
    free: Vec<u32>,
    pushed: u64,
    popped: u64,
    /// When the last packet was pushed and the slot of its flow, if nothing was popped since.
    burst: Option<(Instant, u32)>,
}

impl<T> fmt::Debug for Net<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Net").field("now", &self.now).field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl<T> Net<T> {
    /// The bottleneck of a run with this queue discipline.
    pub(crate) fn from_run(run: &RunConfig, queue: AnyAqm, start: units::Duration) -> Net<T> {
        Net {
            start,
            now: Instant::ZERO,
            hop: Hop::new(run, (0, &run.first_hop()), 1, queue, Lost::default()),
            out: VecDeque::new(),
            changes: run.rate_changes.iter().copied().collect(),
            flows: Vec::new(),
            slots: HashMap::new(),
            payloads: Vec::new(),
            free: Vec::new(),
            pushed: 0,
            popped: 0,
            burst: None,
        }
    }

    /// A packet comes to the bottleneck at `now`. Returns whether it was taken in. One that was may still be dropped later: most AQMs decide
    /// when a packet leaves the queue.
    pub fn push(&mut self, now: Duration, frame: Frame, payload: T) -> bool {
        let (at, slot) = (self.clock(now), self.slot(frame.flow));
        // a sender sends what it has at one instant before anything else happens
        if self.burst != Some((at, slot)) {
            self.process_events(at, |_| true);
            (self.now, self.burst) = (at, Some((at, slot)));
        }
        let place = self.keep(payload);
        let len = Frame::new(frame.len).len;
        let packet = Packet { flow: slot, len, ..Packet::new_frame_slot(place, frame.ecn, flag::UDP) };
        self.pushed += 1;
        self.hop.arrive(packet, at);
        self.forget_lost();
        self.payloads[place as usize].is_some()
    }

    /// The next packet that has come out at the far end by `now`, queue, link and propagation included. Packets come in the order in which they came out.
    pub fn pop(&mut self, now: Duration) -> Option<Arrival<T>> {
        let until = self.clock(now);
        self.burst = None;
        // an empty net has its clocks when the next packet comes
        self.process_events(until, Net::is_moving);
        self.out.front().filter(|(at, _)| *at <= until)?;
        let (at, packet) = self.out.pop_front()?;
        self.popped += 1;
        let payload = self.take(packet.frame_slot())?;
        let flow = self.flows[packet.flow as usize];
        Some(Arrival { at: self.to_caller_time(at), frame: Frame { len: packet.len, ecn: packet.ecn(), flow }, payload })
    }

    /// When to call [`Net::pop`] next: something moves then, and it may return a packet. `None` if nothing is in the net. It is not later than
    /// the next packet comes out; a call at another time does no harm.
    pub fn next(&self) -> Option<Duration> {
        if let Some((at, _)) = self.out.front() {
            return Some(self.to_caller_time(*at));
        }
        // what a changed rate sets free leaves when the instant of the change is over
        let change = self.changes.front().map_or(Instant::NEVER, |change| change.at.saturating_add(units::Duration(1)));
        let at = self.next_move().0.min(change);
        (self.is_moving() && at != Instant::NEVER).then(|| self.to_caller_time(at))
    }

    /// Packets of `flow` have these hosts, ports and codepoint for queues that look at them, from now on. A flow that is not announced is one between hosts 1 and
    /// 2, with its number for ports and codepoint 0, as in experiments. Announce a flow while nothing of it is queued.
    pub fn announce(&mut self, flow: u32, key: &FlowKey) {
        match self.slots.get(&flow) {
            Some(&slot) => self.hop.bottleneck.flow_starts(slot, key, 0),
            None => {
                self.begin(flow, key);
            }
        }
    }

    /// Returns counts of the events so far, and of the packets in the net.
    pub fn counters(&self) -> NetCounters {
        let queue = &self.hop.bottleneck.log.counters.queue;
        NetCounters {
            pushed: self.pushed,
            popped: self.popped,
            departed: queue.packets,
            departed_bytes: queue.bytes,
            dropped_overflow: queue.drops_overflow,
            dropped_aqm: queue.drops_aqm,
            lost: self.hop.bottleneck.log.listener.on_paths,
            ce_marks: queue.ce_marks,
            sce_marks: queue.sce_marks,
            sent: queue.sent,
            sojourn_ns: queue.sojourn_ns,
            queued: self.hop.bottleneck.aqm.packets() as u64,
            queued_bytes: self.hop.bottleneck.aqm.bytes(),
            held: self.count_packets() as u64,
        }
    }

    /// Returns the counts of `flow` at queue and link, packets; zero for a flow that was not seen. Its `lost_ahead` and `lost_behind` are those of stages.
    pub fn of_flow(&self, flow: u32) -> FlowCounters {
        self.slots.get(&flow).map_or(FlowCounters::default(), |&slot| self.hop.bottleneck.log.counters.flows.flow_counters(slot))
    }

    /// The time in the queue below which a `share` (0 to 1) of all packets lay that the queue has sent, to about 1 %; 0 without any.
    pub fn sojourn(&self, share: f64) -> Duration {
        let all = &self.hop.bottleneck.log.counters.flows.sojourn[0];
        Duration::from_nanos(if all.total() == 0 { 0 } else { all.quantile(share.clamp(0.0, 1.0)).0 })
    }

    fn count_packets(&self) -> usize {
        self.payloads.len() - self.free.len()
    }

    /// Something is in the net that has not come out.
    fn is_moving(&self) -> bool {
        self.count_packets() > self.out.len()
    }

    /// A time of the caller on the net's clock.
    fn clock(&self, time: Duration) -> Instant {
        (Instant::ZERO + nanoseconds(time)).saturating_sub(self.start).max(self.now)
    }

    fn to_caller_time(&self, time: Instant) -> Duration {
        Duration::from_nanos(time.saturating_add(self.start).0)
    }

    fn slot(&mut self, flow: u32) -> u32 {
        match self.slots.get(&flow) {
            Some(&slot) => slot,
            None => self.begin(flow, &FlowKey { src_host: 1, dst_host: 2, ports: flow, dscp: 0 }),
        }
    }

    fn begin(&mut self, number: u32, key: &FlowKey) -> u32 {
        let slot = self.flows.len() as u32;
        self.flows.push(number);
        self.slots.insert(number, slot);
        self.hop.bottleneck.flow_starts(slot, key, 0);
        slot
    }

    fn keep(&mut self, payload: T) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.payloads[place as usize] = Some(payload);
                place
            }
            None => {
                self.payloads.push(Some(payload));
                self.payloads.len() as u32 - 1
            }
        }
    }

    fn take(&mut self, place: u32) -> Option<T> {
        self.free.push(place);
        self.payloads[place as usize].take()
    }

    fn forget_lost(&mut self) {
        while let Some(place) = self.hop.bottleneck.log.listener.places.pop() {
            self.take(place);
        }
    }

    /// Returns the next step that moves packets, and its time. At one instant the link comes first, as in the simulator.
    fn next_move(&self) -> (Instant, NextStep) {
        let parts = HopPart::ALL.map(|part| (self.hop.part_time(part), NextStep::Part(part)));
        let link = (self.hop.bottleneck.next, NextStep::Link);
        parts.into_iter().fold(link, |first, one| if one.0 < first.0 { one } else { first })
    }

    /// Clocks: changes of rate, then that of the queue discipline.
    fn next_tick(&self) -> (Instant, NextStep) {
        let (change, timer) =
            (self.changes.front().map_or(Instant::NEVER, |change| change.at), self.hop.bottleneck.aqm.next_timer());
        if timer < change {
            (timer, NextStep::Timer)
        } else {
            (change, NextStep::Change)
        }
    }

    /// Lets packets move until `until`, that instant included, and clocks tick before it, `while_so`. What is pushed at `until` comes between the two.
    fn process_events(&mut self, until: Instant, while_so: impl Fn(&Net<T>) -> bool) {
        while while_so(self) {
            let (moves, ticks) = (self.next_move(), self.next_tick());
            let (at, due) = if moves.0 <= ticks.0 { moves } else { ticks };
            let is_over = if moves.0 <= ticks.0 { at > until } else { at >= until };
            if is_over || at == Instant::NEVER {
                return;
            }
            self.now = at;
            let Net { hop, out, .. } = self;
            let mut out = |packet: &Packet, left: Instant, _: &mut Lost| out.push_back((left, *packet));
            match due {
                NextStep::Link => {
                    if let Some(packet) = hop.advance(at) {
                        hop.leave(packet, at, &mut out);
                    }
                }
                NextStep::Part(part) => hop.on_part(part, at, &mut out),
                NextStep::Change => {
                    if let Some(change) = self.changes.pop_front() {
                        self.hop.bottleneck.set_rate(change.rate, at);
                    }
                }
                NextStep::Timer => self.hop.bottleneck.on_aqm_timer(at),
            }
            self.forget_lost();
        }
    }
}
