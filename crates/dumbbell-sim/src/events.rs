//! Events of packets at the hops of a run, kept until somebody takes them.

use dumbbell_core::fork::{CannotFork, SharedCopies};
use dumbbell_core::log::{At, DropReason, DropSite, Log, Mark, MarkReason};
use dumbbell_core::observe::{FlowStart, ListenLevel, Tap};
use dumbbell_core::packet::{Ecn, Packet};
use dumbbell_core::units::Instant;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An event of a packet at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEvent {
    /// When.
    pub time: Instant,
    /// Number of the hop, in the order of the configuration.
    pub hop: u16,
    /// Name of the event: `arrival`, `enqueue`, `mark`, `drop`, `dequeue` or `departure`.
    pub event: &'static str,
    /// Which mark or drop, and why; empty for others.
    pub kind: &'static str,
    /// Why it was marked or where it was dropped; empty for others.
    pub reason: &'static str,
    /// Number of the flow in the run.
    pub flow: u32,
    /// Number of the segment or datagram; of an acknowledgement that of its place.
    pub number: u64,
    /// Bytes of the frame.
    pub length: u16,
    /// Whether it is an acknowledgement on its way back.
    pub is_ack: bool,
}

#[derive(Clone, Default)]
struct Events {
    kept: Vec<PacketEvent>,
    /// Number of the flow in each slot.
    numbers: Vec<u32>,
}

/// Keeps events of packets: [`Builder::listener`](crate::Builder::listener) gets its [`EventRecorder::listener`].
#[derive(Clone, Default)]
pub struct EventRecorder {
    events: Arc<Mutex<Events>>,
    hops: Arc<Mutex<Vec<String>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EventRecorder {
    /// Returns the listener of the hop `name`.
    pub fn listener(&self, name: &str) -> EventListener {
        let mut hops = lock(&self.hops);
        hops.push(name.to_owned());
        EventListener { events: Arc::clone(&self.events), hop: (hops.len() - 1) as u16 }
    }

    /// Returns the names of the hops by their numbers.
    pub fn hops(&self) -> Vec<String> {
        lock(&self.hops).clone()
    }

    /// Returns the recorder of the copy of a run that [`Sim::fork_with`](crate::Sim::fork_with) has made with `shared`. It has the events that were not taken yet.
    #[must_use]
    pub fn fork(&self, shared: &mut SharedCopies) -> EventRecorder {
        EventRecorder { events: shared.share_locked(&self.events), hops: Arc::clone(&self.hops) }
    }

    /// Takes the events since the last call, in the order in which they happened.
    pub fn take(&self) -> Vec<PacketEvent> {
        std::mem::take(&mut lock(&self.events).kept)
    }
}

/// Listens to the packets of a hop.
pub struct EventListener {
    events: Arc<Mutex<Events>>,
    hop: u16,
}

impl EventListener {
    fn add(&self, packet: &Packet, time: Instant, event: &'static str, (kind, reason): (&'static str, &'static str)) {
        let mut events = lock(&self.events);
        let flow = events.numbers.get(packet.flow as usize).copied().unwrap_or(packet.flow);
        let (length, is_ack) = (packet.len, packet.is_back());
        let number = packet.number();
        events.kept.push(PacketEvent { time, hop: self.hop, event, kind, reason, flow, number, length, is_ack });
    }
}

impl Log for EventListener {
    fn on_arrival(&mut self, packet: &Packet, now: Instant) {
        self.add(packet, now, "arrival", ("", ""));
    }

    fn on_enqueue(&mut self, packet: &Packet, at: At) {
        self.add(packet, at.now, "enqueue", ("", ""));
    }

    fn on_dequeue(&mut self, packet: &Packet, at: At) {
        self.add(packet, at.now, "dequeue", ("", ""));
    }

    fn on_departure(&mut self, packet: &Packet, now: Instant) {
        self.add(packet, now, "departure", ("", ""));
    }

    fn on_mark(&mut self, packet: &Packet, _before: Ecn, mark: Mark, reason: MarkReason, at: At) {
        self.add(packet, at.now, "mark", (mark.name(), reason.name()));
    }

    fn on_drop(&mut self, packet: &Packet, reason: DropReason, place: DropSite, at: At) {
        self.add(packet, at.now, "drop", (reason.name(), place.phrase()));
    }
}

impl Tap for EventListener {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Box<dyn Tap + Send>, CannotFork> {
        Ok(Box::new(EventListener { events: shared.share_locked(&self.events), hop: self.hop }))
    }

    fn listen_level(&self) -> ListenLevel {
        ListenLevel::Frames
    }

    fn on_flow_start(&mut self, flow: u32, start: &FlowStart) {
        let mut events = lock(&self.events);
        let slot = flow as usize;
        if events.numbers.len() <= slot {
            events.numbers.resize(slot + 1, u32::MAX);
        }
        events.numbers[slot] = start.number;
    }
}
