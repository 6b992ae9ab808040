//! One direction between two ends: a queue discipline and its link, then a line of the base RTT. Free of I/O.
//!
//! Frames come in with the time at which they arrived, and [`Direction::advance`] lets everything happen that was due since: as in the
//! simulator, an event happens at its own time, however late the caller is. So a late thread delays single frames, but not the link.

use crate::frame::{payload, write_ecn, ParsedFrame, Tuple};
use crate::frames::FrameBuffers;
use crate::trace::{TraceFile, TraceWriter};
use dumbbell_bottleneck::Bottleneck;
use dumbbell_core::aqm::{Aqm, AqmSpec};
use dumbbell_core::log::{At, DropReason, DropSite, Log, Mark, MarkReason};
use dumbbell_core::packet::{flag, Ecn, FlowKey, Packet};
use dumbbell_core::tcp::stats::ReceiverStats;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_measure::from_live::AckCounters;
use dumbbell_packets::QueueDecision;
use foldhash::{HashMap, HashMapExt};
use std::collections::VecDeque;

/// Hears which frames the queue dropped; [`Packet::seq`] is the number of the frame. Counts acknowledgements.
#[derive(Default)]
pub struct FrameLog {
    frames: Vec<(u32, DropReason, DropSite, Instant)>,
    /// Marks of frames that are queued, if anybody wants to know them.
    marks: Option<Vec<(u32, Mark, MarkReason)>>,
    /// Acknowledgements of the announced flow whose data go in the other direction.
    pub acks: AckCounters,
}

impl Log for FrameLog {
    #[inline]
    fn on_dequeue(&mut self, packet: &Packet, at: At) {
        self.acks.on_dequeue(packet, at);
    }

    #[inline]
    fn on_departure(&mut self, packet: &Packet, now: Instant) {
        self.acks.on_departure(packet, now);
    }

    #[inline]
    fn on_mark(&mut self, packet: &Packet, before: Ecn, mark: Mark, reason: MarkReason, _at: At) {
        if let Some(marks) = self.marks.as_mut().filter(|_| before != Ecn::Ce) {
            marks.push((packet.frame_slot(), mark, reason));
        }
    }

    fn on_drop(&mut self, packet: &Packet, reason: DropReason, place: DropSite, at: At) {
        self.frames.push((packet.frame_slot(), reason, place, at.now));
        self.acks.on_drop(packet, reason, place, at);
    }
}

/// A queue discipline and its link, which reports to [`FrameLog`].
pub type FrameQueue<A> = Bottleneck<A, FrameLog>;

/// How a direction treats the frames of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Treatment {
    /// Identity for queues that tell flows apart.
    pub key: FlowKey,
    /// Connection class.
    pub class: u16,
    /// Propagation in this direction, behind the queue.
    pub delay: Duration,
    /// They are acknowledgements: the data go in the other direction.
    pub back: bool,
}

/// A frame that is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When it should.
    pub due: Instant,
    /// Number of the frame: see [`Direction::bytes`].
    pub frame: u32,
}

/// All flows of one delay; their frames leave in the order in which they came.
struct DelayQueue {
    delay: Duration,
    waiting: VecDeque<Departure>,
}

/// Counters of a direction, frames. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionCounts {
    /// Arrived.
    pub arrived: u64,
    /// Arrived frames without IP: they are not queued.
    pub foreign: u64,
    /// Arrived frames that were too long, found no buffer, or belonged to one flow too many.
    pub refused: u64,
    /// Were dropped by the queue.
    pub dropped: u64,
    /// Left.
    pub left: u64,
}

/// A flow that was seen or announced.
#[derive(Clone, Copy, Debug)]
struct SeenFlow {
    tuple: Tuple,
    line: u32,
    back: bool,
    /// When its first frame arrived, and its last one so far.
    lifetime: [Instant; 2],
    arrived: u64,
    /// Counts of the frames that left the queue.
    received: ReceiverStats,
}

/// Most flows that are distinguished at a time: as many as a port has numbers.
const MOST_FLOWS: usize = 1 << 16;
/// Slots that are looked at for one that can be given to another flow.
const LOOKS: usize = 64;

/// One direction.
pub struct Direction<A: Aqm> {
    queue: Option<FrameQueue<A>>,
    flows: Vec<SeenFlow>,
    slots: HashMap<Tuple, u32>,
    /// Number of announced flows; their slots are never reused.
    announced: usize,
    hand: usize,
    /// Treatment of flows that were not announced, and the function that returns their class.
    others: Treatment,
    class_of: fn(&Tuple) -> u16,
    lines: Vec<DelayQueue>,
    frames: FrameBuffers,
    now: Instant,
    counts: DirectionCounts,
    trace: Option<Box<TraceWriter>>,
}

impl<A: Aqm> Direction<A> {
    /// A direction through `queue`, if there is one, for at most `most_frames` frames at a time. `others` is how flows are treated that
    /// nobody announced; their keys come from their headers.
    pub fn new(queue: Option<FrameQueue<A>>, others: Treatment, most_frames: usize) -> Direction<A> {
        Direction {
            queue,
            flows: Vec::new(),
            slots: HashMap::new(),
            announced: 0,
            hand: 0,
            others,
            class_of: |_| 0,
            lines: Vec::new(),
            frames: FrameBuffers::new(most_frames),
            now: Instant::ZERO,
            counts: DirectionCounts::default(),
            trace: None,
        }
    }

    /// Writes the frames of this direction to `trace`.
    pub fn with_trace(mut self, trace: TraceWriter) -> Direction<A> {
        if let Some(queue) = &mut self.queue {
            queue.log.listener.marks = Some(Vec::new());
        }
        self.trace = Some(Box::new(trace));
        self
    }

    /// Takes what writes its frames, if anything does.
    pub fn take_trace(&mut self) -> Option<Box<TraceWriter>> {
        self.trace.take()
    }

    /// Whether its frames are written.
    pub fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// A frame that departed is sent at `now`.
    pub fn sends(&mut self, frame: u32, now: Instant) {
        if let Some(trace) = &mut self.trace {
            trace.write_frame(TraceFile::Sent, now, self.frames.get(frame));
        }
    }

    /// Flows that nobody announces are of the class that `class_of` gives.
    pub fn with_classes(self, class_of: fn(&Tuple) -> u16) -> Direction<A> {
        Direction { class_of, ..self }
    }

    /// Frames of `tuple` are to be treated so. Flows have the slots 0, 1, ... in the order in which they are announced, before the first frame.
    pub fn announce(&mut self, tuple: Tuple, treatment: &Treatment) {
        let slot = self.flows.len() as u32;
        self.take_slot(slot, tuple, treatment);
        self.announced = self.flows.len();
    }

    fn take_slot(&mut self, slot: u32, tuple: Tuple, treatment: &Treatment) {
        let line = self.line(treatment.delay);
        let flow = SeenFlow {
            tuple,
            line,
            back: treatment.back,
            lifetime: [self.now; 2],
            arrived: 0,
            received: ReceiverStats::default(),
        };
        match self.flows.get_mut(slot as usize) {
            Some(place) => *place = flow,
            None => self.flows.push(flow),
        }
        self.slots.insert(tuple, slot);
        if let Some(queue) = &mut self.queue {
            queue.flow_starts(slot, &treatment.key, treatment.class);
        }
    }

    fn line(&mut self, delay: Duration) -> u32 {
        let known = self.lines.iter().position(|line| line.delay == delay);
        known.unwrap_or_else(|| {
            self.lines.push(DelayQueue { delay, waiting: VecDeque::new() });
            self.lines.len() - 1
        }) as u32
    }

    /// The slot of the flow with these headers, which may begin with them; `None` if there are too many flows.
    fn slot(&mut self, headers: &ParsedFrame) -> Option<u32> {
        if let Some(&slot) = self.slots.get(&headers.tuple) {
            return Some(slot);
        }
        let slot = if self.flows.len() < MOST_FLOWS { self.flows.len() as u32 } else { self.free_slot()? };
        let class = (self.class_of)(&headers.tuple);
        let treatment = Treatment { key: headers.tuple.key(headers.dscp), class, ..self.others };
        self.take_slot(slot, headers.tuple, &treatment);
        Some(slot)
    }

    /// A slot whose flow has nothing queued, taken from that flow.
    fn free_slot(&mut self) -> Option<u32> {
        let others = self.flows.len() - self.announced;
        for _ in 0..LOOKS.min(others) {
            self.hand = (self.hand + 1) % others;
            let slot = (self.announced + self.hand) as u32;
            let queued = self.queue.as_ref().map_or(0, |queue| queue.log.counters.flows.flow_counters(slot).count_queued());
            if queued == 0 {
                self.slots.remove(&self.flows[slot as usize].tuple);
                if let Some(queue) = &mut self.queue {
                    queue.log.counters.flows.forget(slot);
                }
                return Some(slot);
            }
        }
        None
    }

    /// A frame arrives at `at`, or, if that is before what has happened already, now. Time goes on to then.
    pub fn arrive(&mut self, frame: &[u8], at: Instant) {
        let at = at.max(self.now);
        // what is due at that instant comes after the frame, as in the simulator
        self.process_events(|time| time < at);
        self.now = at;
        self.counts.arrived += 1;
        if let Some(trace) = &mut self.trace {
            trace.write_frame(TraceFile::Arrived, at, frame);
        }
        let headers = ParsedFrame::read(frame);
        let slot = match &headers {
            Some(headers) => self.slot(headers),
            None => None,
        };
        if headers.is_none() {
            self.counts.foreign += 1;
        }
        let kept = if headers.is_some() && slot.is_none() { None } else { self.frames.keep(frame) };
        let Some(number) = kept else {
            self.counts.refused += 1;
            return;
        };
        match (slot, headers, &mut self.queue) {
            (Some(flow), Some(ParsedFrame { ecn, .. }), queue) => {
                let of_flow = &mut self.flows[flow as usize];
                of_flow.arrived += 1;
                of_flow.lifetime[1] = at;
                let Some(queue) = queue else { return self.enter_line(flow, number, at) };
                let flags = if of_flow.back { flag::BACK } else { 0 };
                let packet = Packet { flow, len: frame.len() as u16, ..Packet::new_frame_slot(number, ecn, flags) };
                queue.arrive(packet, at);
                self.forget_dropped();
            }
            _ => {
                let line = self.line(self.others.delay);
                self.enter(line, number, at);
            }
        }
    }

    fn enter_line(&mut self, flow: u32, frame: u32, at: Instant) {
        self.enter(self.flows[flow as usize].line, frame, at);
    }

    fn enter(&mut self, line: u32, frame: u32, at: Instant) {
        let line = &mut self.lines[line as usize];
        line.waiting.push_back(Departure { due: at + line.delay, frame });
    }

    fn forget_dropped(&mut self) {
        let Some(queue) = &mut self.queue else { return };
        let FrameLog { frames, marks, .. } = &mut queue.log.listener;
        self.counts.dropped += frames.len() as u64;
        for (frame, reason, place, at) in frames.drain(..) {
            if let (Some(trace), Some(marks)) = (&mut self.trace, marks.as_mut()) {
                marks.retain(|&(marked, ..)| marked != frame);
                trace.write_decision(at, self.frames.get(frame), QueueDecision::Dropped(reason, place));
            }
            self.frames.release(frame);
        }
    }

    /// Lets the queue do everything that it is to do at times that `is_due`.
    fn process_events(&mut self, is_due: impl Fn(Instant) -> bool) {
        while let Some(queue) = &mut self.queue {
            let (link, timer) = (queue.next, queue.aqm.next_timer());
            let now = link.min(timer);
            if now == Instant::NEVER || !is_due(now) {
                return;
            }
            if link > now {
                queue.on_aqm_timer(now);
            } else if let Some(packet) = queue.advance(now) {
                self.leave_queue(packet, now);
            }
            self.forget_dropped();
        }
    }

    fn leave_queue(&mut self, packet: Packet, now: Instant) {
        let frame = packet.frame_slot();
        let bytes = self.frames.get_mut(frame);
        write_ecn(bytes, packet.ecn());
        let received = &mut self.flows[packet.flow as usize].received;
        received.bytes += u64::from(payload(bytes));
        received.count(&packet);
        if let (Some(trace), Some(queue)) = (&mut self.trace, &mut self.queue) {
            let marks = queue.log.listener.marks.get_or_insert_default();
            while let Some(place) = marks.iter().position(|&(marked, ..)| marked == frame) {
                let (_, mark, reason) = marks.remove(place);
                trace.write_decision(now, bytes, QueueDecision::Marked(mark, reason));
            }
            trace.write_frame(TraceFile::Left, now, bytes);
        }
        self.enter_line(packet.flow, frame, now);
    }

    /// Lets everything happen that is due until `now`, that instant included.
    pub fn advance(&mut self, now: Instant) {
        self.process_events(|time| time <= now);
        self.now = self.now.max(now);
    }

    /// The time up to which everything has happened.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// When the queue has something to do next, or a frame is to leave; [`Instant::NEVER`] if nothing is there.
    pub fn next_wakeup(&self) -> Instant {
        let queue = self.queue.as_ref().map_or(Instant::NEVER, |queue| queue.next.min(queue.aqm.next_timer()));
        self.lines.iter().filter_map(|line| line.waiting.front()).fold(queue, |first, head| first.min(head.due))
    }

    /// The next frame that is to leave until `now`, the earliest first. Its bytes are there until [`Direction::release_frame`].
    pub fn depart(&mut self, now: Instant) -> Option<Departure> {
        let due = |line: &&mut DelayQueue| line.waiting.front().is_some_and(|head| head.due <= now);
        let first = self.lines.iter_mut().filter(due).min_by_key(|line| line.waiting.front().map(|head| head.due))?;
        self.counts.left += 1;
        first.waiting.pop_front()
    }

    /// The bytes of a frame that departs.
    pub fn bytes(&self, frame: u32) -> &[u8] {
        self.frames.get(frame)
    }

    /// A frame that departed has been sent.
    pub fn release_frame(&mut self, frame: u32) {
        self.frames.release(frame);
    }

    /// The queue, if there is one.
    pub fn queue(&self) -> Option<&FrameQueue<A>> {
        self.queue.as_ref()
    }

    /// Returns the queue for changes: of its rate, its counters.
    pub fn queue_mut(&mut self) -> Option<&mut FrameQueue<A>> {
        self.queue.as_mut()
    }

    /// Returns the counters.
    pub fn counts(&self) -> DirectionCounts {
        self.counts
    }

    /// Frames of the flow in `slot` that arrived.
    pub fn count_arrived(&self, slot: u32) -> u64 {
        self.flows.get(slot as usize).map_or(0, |flow| flow.arrived)
    }

    /// Returns the counts of what left the queue, for the flow in `slot`.
    pub fn receiver_stats(&self, slot: u32) -> ReceiverStats {
        self.flows.get(slot as usize).map_or_else(ReceiverStats::default, |flow| flow.received)
    }

    /// Returns for each slot in order the addresses and ports of its flow, and when the first and the last of its frames arrived.
    pub fn flows(&self) -> impl Iterator<Item = (Tuple, [Instant; 2])> + '_ {
        self.flows.iter().map(|flow| (flow.tuple, flow.lifetime))
    }

    /// Flows in slots that were announced.
    pub fn count_announced(&self) -> usize {
        self.announced
    }

    /// Every frame that arrived was refused, dropped, left or is still held, and each that is held has a buffer. Frames that departed
    /// must be [gone](Direction::release_frame).
    ///
    /// # Errors
    /// The sum that does not come out.
    pub fn check_conservation(&self) -> Result<(), String> {
        let DirectionCounts { arrived, refused, dropped, left, .. } = self.counts;
        let in_lines: usize = self.lines.iter().map(|line| line.waiting.len()).sum();
        let held = in_lines as u64 + self.queue.as_ref().map_or(0, FrameQueue::count_packets);
        let sums = [
            ("frames arrived = refused + dropped + left + held", arrived, refused + dropped + left + held),
            ("frames with a buffer = held", self.frames.count_used() as u64, held),
        ];
        match sums.iter().find(|(_, one, other)| one != other) {
            Some((what, one, other)) => Err(format!("{what}: {one} is not {other}")),
            None => self.check_flows(),
        }
    }

    fn check_flows(&self) -> Result<(), String> {
        let Some(queue) = &self.queue else { return Ok(()) };
        for (slot, flow) in (0..).zip(&self.flows) {
            let counters = queue.log.counters.flows.flow_counters(slot);
            if flow.arrived != counters.arrived || counters.count_finished() > counters.arrived {
                let [there, gone] = [counters.arrived, counters.count_finished()];
                return Err(format!("flow {slot}: of {} frames {there} were queued and {gone} are gone", flow.arrived));
            }
        }
        Ok(())
    }
}

/// Whether a queue discipline cannot be used on frames: it needs what no header carries.
pub fn needs_values(aqm: &AqmSpec) -> bool {
    matches!(aqm, AqmSpec::Csaqm(_))
}

#[cfg(test)]
mod tests;
