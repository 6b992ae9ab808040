//! Turns the events of a run into records at points, in order of time.

use crate::connection::{HostTraits, SendState, Sent, TrackedFlow};
use crate::fate::{DropRecord, Fates, Marked, OpenFates, TimeOrder};
use crate::write::{PacketSelection, PendingRecord, RecordKind, Writer, WrittenPackets};
use crate::{RECEIVER, SENDER};
use dumbbell_config::{FlowConfig, RunConfig};
use dumbbell_core::log::Mark;
use dumbbell_core::observe::{FlowStart, ProtocolKind};
use dumbbell_core::packet::{flag, Packet};
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::Block;
use dumbbell_core::units::{Duration, Instant};
use std::collections::BTreeMap;
use std::io;

/// Simulated time between two looks for records that can be written.
const SLICE: Duration = Duration::from_micros(500);
/// Most answers that may have been lost before the first that is under way.
const MOST_ANSWERS: usize = 4096;

/// An event from a listener.
pub enum LoggedEvent {
    Begins(u32, Box<FlowStart>),
    Posted(Packet),
    Delivered(Packet),
    Answered(ReceiverReply, BoxedBlocks),
    Packed(Packet, Box<ReceiverReply>, BoxedBlocks),
    Acknowledged(ReceiverReply, BoxedBlocks),
    /// Payload of the datagram of a flow with this number, or of an answer.
    Payload(u32, u64, bool, Box<[u8]>),
    /// At this point, ahead of a queue or not.
    Seen(Packet, u32, bool),
    /// The packet has left a hop.
    Left(Packet),
    Marked(Packet, Marked),
    Dropped(Packet, Box<DropRecord>),
    /// The ECN field of the packet is cleared on the path of this hop.
    Erased(Packet, u16),
}

/// SACK blocks; most acknowledgements have none.
pub type BoxedBlocks = Option<Box<[Block]>>;

/// Contents of a slot of the engine.
#[derive(Default)]
struct Slot {
    connection: Option<u32>,
    open: OpenFates,
    /// Answers of a transport with bytes of their own.
    answers: OpenFates,
}

/// An acknowledgement in hops, by its number there.
struct HeldAck {
    reply: ReceiverReply,
    blocks: Box<[Block]>,
    /// Counts of the receiver when the acknowledgement left.
    counts: [u32; 2],
    fate: Option<u32>,
}

/// The flows that are written.
#[derive(Default)]
struct Flows {
    connections: Vec<TrackedFlow>,
    slots: Vec<Slot>,
}

impl Flows {
    /// The slot and the connection in it with its number, if it is written.
    fn find_wanted(&mut self, slot: u32) -> Option<(&mut Slot, &mut TrackedFlow, u32)> {
        let slot = self.slots.get_mut(slot as usize)?;
        let index = slot.connection?;
        Some((slot, &mut self.connections[index as usize], index))
    }
}

pub struct State {
    hosts: HostTraits,
    /// Traits of the hosts of listed flows that have their own, by number.
    own_hosts: BTreeMap<u32, HostTraits>,
    asked: PacketSelection,
    sender: Option<u32>,
    receiver: Option<u32>,
    flows: Flows,
    held: Vec<Option<HeldAck>>,
    fates: Fates,
    /// Datagrams that were sent at this instant, by flow and number: one may have been dropped before its payload is known.
    fresh: (Instant, Vec<(u32, u64, u32)>),
    waiting: TimeOrder<PendingRecord>,
    writer: Writer,
    /// Clocks of senders are not further behind.
    most_ahead: Duration,
    next_look: Instant,
}

impl State {
    /// Returns the state for the hosts of a run; clocks of senders are at most `most_ahead` behind.
    pub fn new(config: &RunConfig, asked: PacketSelection, writer: Writer, most_ahead: Duration) -> State {
        let own = |(number, flow): (u32, &FlowConfig)| Some((number, HostTraits::new(&flow.params.own_host(&config.hosts)?)));
        let number = |name: &str| writer.points.iter().position(|known| known == name).map(|index| index as u32);
        State {
            hosts: HostTraits::new(&config.hosts),
            own_hosts: (0..).zip(&config.flows).filter_map(own).collect(),
            asked,
            sender: number(SENDER),
            receiver: number(RECEIVER),
            flows: Flows::default(),
            held: Vec::new(),
            fates: Fates::default(),
            fresh: (Instant::ZERO, Vec::new()),
            waiting: TimeOrder::new(),
            writer,
            most_ahead,
            next_look: Instant::ZERO,
        }
    }

    /// Something has happened at `now`.
    pub fn take(&mut self, now: Instant, event: LoggedEvent) {
        let some = |blocks: BoxedBlocks| blocks.unwrap_or_default();
        match event {
            LoggedEvent::Posted(packet) => self.post(&packet, now),
            LoggedEvent::Delivered(packet) => self.deliver(&packet, now),
            LoggedEvent::Answered(reply, blocks) => self.answer(&reply, &some(blocks), now),
            LoggedEvent::Acknowledged(reply, blocks) => self.on_ack(&reply, &some(blocks), now),
            LoggedEvent::Begins(flow, beginning) => self.begin(flow, &beginning),
            LoggedEvent::Packed(packet, reply, blocks) => self.pack(&packet, &reply, &some(blocks)),
            LoggedEvent::Payload(flow, number, is_answer, bytes) => self.give_payload(flow, number, is_answer, bytes),
            LoggedEvent::Seen(packet, point, is_new) => self.write_sighting(&packet, point, is_new, now),
            LoggedEvent::Left(packet) => self.settle_back(&packet),
            LoggedEvent::Marked(packet, marked) => self.mark(&packet, marked),
            LoggedEvent::Dropped(packet, dropped) => self.drop_packet(&packet, *dropped),
            LoggedEvent::Erased(packet, hop) => self.erase(&packet, hop),
        }
    }

    /// Writes what is left. Of packets that are still under way nobody knows what becomes of them.
    ///
    /// # Errors
    /// The first that there was while something was written.
    pub fn finish(mut self) -> io::Result<WrittenPackets> {
        while let Some((time, record)) = self.waiting.pop_if(|_, _| true) {
            self.write(time, &record);
        }
        Ok(WrittenPackets { count: self.writer.count, columns: self.writer.output.finish()? })
    }

    /// Notes what was seen, if it was at a time that is asked for.
    fn note(&mut self, time: Instant, record: PendingRecord, opens: bool) {
        if !opens && (time < self.asked.from || time > self.asked.until) {
            return;
        }
        if let Some((fate, _)) = record.fate {
            self.fates.add_reference(fate);
        }
        self.waiting.push(time, record);
    }

    /// Writes the records that no earlier one can precede any more, once the fate of their packets is known.
    fn write_settled(&mut self, now: Instant) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + SLICE;
        let before = now.saturating_sub(self.most_ahead);
        loop {
            let is_open = |record: &PendingRecord| record.fate.is_some_and(|(fate, waits)| waits && !self.fates.is_settled(fate));
            let Some((time, record)) = self.waiting.pop_if(|time, record| time < before && !is_open(record)) else { return };
            self.write(time, &record);
        }
    }

    fn write(&mut self, time: Instant, record: &PendingRecord) {
        let fate = record.fate.and_then(|(fate, _)| self.fates.get(fate));
        self.writer.write(time, record, &self.flows.connections[record.connection as usize], fate);
        if let Some((number, _)) = record.fate {
            self.fates.drop_reference(number);
        }
    }

    fn begin(&mut self, flow: u32, beginning: &FlowStart) {
        let index = flow as usize;
        let Flows { connections, slots } = &mut self.flows;
        if slots.len() <= index {
            slots.resize_with(index + 1, Slot::default);
        }
        let is_wanted = self.asked.flows.is_empty() || self.asked.flows.contains(&beginning.number);
        let slot = &mut slots[index];
        slot.open.drain().chain(slot.answers.drain()).for_each(|fate| self.fates.settle(fate));
        slot.connection = is_wanted.then_some(connections.len() as u32);
        if is_wanted {
            let hosts = self.own_hosts.get(&beginning.number).copied().unwrap_or(self.hosts);
            connections.push(TrackedFlow::new(beginning, hosts));
        }
    }

    fn post(&mut self, packet: &Packet, now: Instant) {
        let point = self.sender;
        let Some((slot, connection, index)) = self.flows.find_wanted(packet.flow) else { return };
        let is_first_syn = packet.has(flag::SYN) && connection.is_tcp() && connection.is_new();
        let (ahead, start) = (connection.ahead, connection.send(packet));
        let fate = self.fates.add(start);
        slot.open.add(packet.transmission(), fate);
        if connection.speaks == ProtocolKind::Datagrams {
            if self.fresh.0 != now {
                self.fresh.1.clear();
            }
            self.fresh.0 = now;
            self.fresh.1.push((packet.flow, packet.udp().number(), fate));
        }
        let record = |at, what| PendingRecord { point: at, connection: index, fate: None, what };
        if is_first_syn && self.hosts.receiver_opens() {
            let left = now.saturating_sub(ahead);
            for (one, time) in [(self.receiver, left.saturating_sub(ahead)), (point, left)] {
                if let Some(at) = one {
                    self.note(time, record(at, RecordKind::Opening(*packet)), true);
                }
            }
        }
        if let Some(point) = point {
            let fate = Some((fate, true));
            self.note(
                now.saturating_sub(ahead),
                PendingRecord { fate, ..record(point, RecordKind::Sent(Sent { packet: *packet, start })) },
                opens_connection(packet),
            );
        }
        self.write_settled(now);
    }

    fn deliver(&mut self, packet: &Packet, now: Instant) {
        let point = self.receiver;
        let Some((slot, connection, index)) = self.flows.find_wanted(packet.flow) else { return };
        connection.deliver(packet);
        let behind = connection.behind;
        let Some(fate) = slot.open.take(packet.transmission()) else { return };
        if let Some(point) = point {
            let sent = Sent { packet: *packet, start: self.fates.start(fate) };
            let record = PendingRecord { point, connection: index, fate: Some((fate, true)), what: RecordKind::Sent(sent) };
            self.note(now + behind, record, opens_connection(packet));
        }
        self.fates.settle(fate);
    }

    fn answer(&mut self, reply: &ReceiverReply, blocks: &[Block], now: Instant) {
        let point = self.receiver;
        let Some((slot, connection, index)) = self.flows.find_wanted(reply.flow()) else { return };
        let (answered, behind) = (connection.answer(reply, blocks), connection.behind);
        let mut fate = None;
        if let Some(answer) = reply.answer().filter(|_| connection.speaks == ProtocolKind::Datagrams) {
            let number = self.fates.add(SendState::default());
            slot.answers.add((answer.value, 0), number);
            if slot.answers.len() > MOST_ANSWERS {
                slot.answers.pop().into_iter().for_each(|lost| self.fates.settle(lost));
            }
            fate = Some((number, false));
        }
        if let Some(point) = point {
            let record = PendingRecord { point, connection: index, fate, what: RecordKind::Answered(answered) };
            self.note(now + behind, record, reply.is_syn_ack());
        }
    }

    fn on_ack(&mut self, reply: &ReceiverReply, blocks: &[Block], now: Instant) {
        let point = self.sender;
        let Some((slot, connection, index)) = self.flows.find_wanted(reply.flow()) else { return };
        let (answered, ahead) = (connection.receive_ack(reply, blocks), connection.ahead);
        let number = reply.answer().and_then(|answer| slot.answers.take((answer.value, 0)));
        if let Some(point) = point {
            let fate = number.map(|fate| (fate, false));
            let record = PendingRecord { point, connection: index, fate, what: RecordKind::Answered(answered) };
            self.note(now.saturating_sub(ahead), record, reply.is_syn_ack());
        }
        if let Some(number) = number {
            self.fates.settle(number);
        }
        self.write_settled(now);
    }

    fn give_payload(&mut self, flow: u32, number: u64, is_answer: bool, bytes: Box<[u8]>) {
        let fate = if is_answer {
            self.flows.find_wanted(flow).and_then(|(slot, _, _)| slot.answers.with_number(number))
        } else {
            let sent = self.fresh.1.iter().rev().find(|(of, other, _)| (*of, *other) == (flow, number));
            sent.map(|(_, _, fate)| *fate)
        };
        if let Some(fate) = fate {
            self.fates.get_mut(fate).payload = Some(bytes);
        }
    }

    /// A packet is seen at a hop.
    fn write_sighting(&mut self, packet: &Packet, point: u32, is_new: bool, now: Instant) {
        if packet.is_back() {
            return self.see_back(packet, point, is_new, now);
        }
        let Some((slot, _, index)) = self.flows.find_wanted(packet.flow) else { return };
        let key = packet.transmission();
        let Some(fate) = (if is_new { slot.open.find_new(key) } else { slot.open.find(key) }) else { return };
        let what = RecordKind::Sent(Sent { packet: *packet, start: self.fates.start(fate) });
        self.note(now, PendingRecord { point, connection: index, fate: Some((fate, true)), what }, opens_connection(packet));
    }

    fn see_back(&mut self, packet: &Packet, point: u32, is_new: bool, now: Instant) {
        let Some(Some(held)) = self.held.get_mut(packet.ack_slot() as usize) else { return };
        let Some(index) = self.flows.slots.get(packet.flow as usize).and_then(|slot| slot.connection) else { return };
        let mut answered = self.flows.connections[index as usize].ack_headers(&held.reply, &held.blocks, held.counts);
        answered.ecn = packet.ecn();
        let opens = held.reply.is_syn_ack();
        // what becomes of it at this hop
        let fate = is_new.then(|| self.fates.add(SendState::default()));
        held.fate = fate.or(held.fate);
        self.note(
            now,
            PendingRecord { point, connection: index, fate: fate.map(|fate| (fate, true)), what: RecordKind::Answered(answered) },
            opens,
        );
    }

    /// An acknowledgement has left a hop, or was dropped there.
    fn settle_back(&mut self, packet: &Packet) {
        let held = self.held.get_mut(packet.ack_slot() as usize).and_then(Option::as_mut);
        if let Some(fate) = held.and_then(|held| held.fate.take()) {
            self.fates.settle(fate);
        }
    }

    fn pack(&mut self, packet: &Packet, reply: &ReceiverReply, blocks: &[Block]) {
        let Some((_, connection, _)) = self.flows.find_wanted(reply.flow()) else { return };
        let counts = connection.counts(reply);
        let place = packet.ack_slot() as usize;
        if self.held.len() <= place {
            self.held.resize_with(place + 1, || None);
        }
        self.held[place] = Some(HeldAck { reply: *reply, blocks: blocks.into(), counts, fate: None });
    }

    fn mark(&mut self, packet: &Packet, marked: Marked) {
        if packet.is_back() {
            let Some(Some(held)) = self.held.get(packet.ack_slot() as usize) else { return };
            let (reply, fate) = (held.reply, held.fate);
            if let Some(ack) = reply.ack().filter(|_| marked.mark == Mark::Ce) {
                if let Some((_, connection, _)) = self.flows.find_wanted(ack.flow) {
                    connection.mark(ack);
                }
            }
            return fate.map_or((), |fate| self.fates.get_mut(fate).mark(marked));
        }
        if let Some(fate) = self.flows.find_wanted(packet.flow).and_then(|(slot, _, _)| slot.open.find(packet.transmission())) {
            self.fates.get_mut(fate).mark(marked);
        }
    }

    fn erase(&mut self, packet: &Packet, hop: u16) {
        if packet.is_back() {
            return;
        }
        if let Some(fate) = self.flows.find_wanted(packet.flow).and_then(|(slot, _, _)| slot.open.find(packet.transmission())) {
            self.fates.get_mut(fate).erased = Some(hop);
        }
    }

    fn drop_packet(&mut self, packet: &Packet, dropped: DropRecord) {
        if packet.is_back() {
            if let Some(fate) = self.held.get(packet.ack_slot() as usize).and_then(|held| held.as_ref()?.fate) {
                self.fates.get_mut(fate).dropped = Some(dropped);
            }
            self.settle_back(packet);
            return;
        }
        if let Some(fate) = self.flows.find_wanted(packet.flow).and_then(|(slot, _, _)| slot.open.take(packet.transmission())) {
            self.fates.get_mut(fate).dropped = Some(dropped);
            self.fates.settle(fate);
        }
    }
}

/// Whether it opens a connection.
fn opens_connection(packet: &Packet) -> bool {
    !packet.has(flag::UDP) && packet.has(flag::SYN | flag::PURE_ACK)
}
