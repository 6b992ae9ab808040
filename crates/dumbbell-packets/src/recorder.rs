//! Who listens, and what it notes.

use crate::columns::Columns;
use crate::connection::{Connection, Hosts};
use crate::fate::{Dropped, Fates, Marked, OpenFates, Waiting};
use crate::pcapng::Pcapng;
use crate::write::{Output, Record, What, Writer};
use crate::{points, Sink, OUT, RECEIVER, SENDER};
use dumbbell_config::{RunConfig, UdpConfig};
use dumbbell_core::log::{At, Beginning, DropReason, Hears, Log, Mark, MarkReason, Place, Speech};
use dumbbell_core::packet::{flag, Ecn, Packet};
use dumbbell_core::tcp::{ack_flag, Ack, Block};
use dumbbell_core::units::Time;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Simulated time between two looks for records that can be written.
const SLICE: Time = Time::from_micros(500);
/// So many answers may have been lost before the first that is under way.
const MOST_ANSWERS: usize = 4096;

/// What is to be written of a run.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The points, of [`points`]; none: the senders' alone.
    pub points: Vec<String>,
    /// Numbers of flows; none: all.
    pub flows: Vec<u32>,
    /// From when, and until when. Handshakes are written whenever they are: they have the scale of windows.
    pub from: Time,
    /// Until then; [`Time::NEVER`]: all.
    pub until: Time,
    /// Bytes of each frame, 0: all; `None`: headers, and payload that is not zeros.
    pub snap: Option<u32>,
}

/// What was written.
pub struct Written {
    /// How many records.
    pub count: u64,
    /// The rows, if no file was asked for.
    pub columns: Option<Columns>,
}

/// What is in a slot of the engine.
#[derive(Default)]
struct Slot {
    connection: Option<u32>,
    open: OpenFates,
    /// Answers of a transport with bytes of their own.
    answers: OpenFates,
}

/// An acknowledgement in hops, by its number there.
struct Held {
    ack: Ack,
    blocks: Box<[Block]>,
    fate: Option<u32>,
}

/// The flows that are written.
#[derive(Default)]
struct Flows {
    connections: Vec<Connection>,
    slots: Vec<Slot>,
}

impl Flows {
    /// The slot and the connection in it with its number, if it is written.
    fn wanted(&mut self, slot: u32) -> Option<(&mut Slot, &mut Connection, u32)> {
        let slot = self.slots.get_mut(slot as usize)?;
        let index = slot.connection?;
        Some((slot, &mut self.connections[index as usize], index))
    }
}

struct State {
    hosts: Hosts,
    asked: Asked,
    sender: Option<u32>,
    receiver: Option<u32>,
    /// Some hop is a point.
    has_hops: bool,
    flows: Flows,
    held: Vec<Option<Held>>,
    fates: Fates,
    waiting: Waiting<Record>,
    writer: Writer,
    /// Clocks of senders are not further behind.
    most_ahead: Time,
    next_look: Time,
}

/// Writes the packets of a run.
#[derive(Clone)]
pub struct Recorder {
    state: Arc<Mutex<State>>,
}

impl Recorder {
    /// Of a run of `config`: into a file that was made by `program` and has this comment, or as columns.
    ///
    /// # Errors
    /// A point that the run has not.
    pub fn new(config: &RunConfig, asked: Asked, file: Option<(Sink, &str, &str)>) -> Result<Recorder, String> {
        let hops: Vec<String> = (0..=config.hops.len()).map(|hop| config.hop_name(hop).to_owned()).collect();
        let known = points(hops.iter().map(String::as_str));
        if let Some(unknown) = asked.points.iter().find(|point| !known.contains(point)) {
            return Err(format!("{unknown}: no point, allowed: {}", known.join(", ")));
        }
        let is_asked = |point: &&String| if asked.points.is_empty() { *point == SENDER } else { asked.points.contains(point) };
        let names: Vec<String> = known.iter().filter(is_asked).cloned().collect();
        let output = match file {
            None => Output::Columns(Columns::default()),
            Some((sink, program, comment)) => {
                let interfaces: Vec<_> = names.iter().map(|name| (name.clone(), described(name))).collect();
                Output::Pcapng(Pcapng::new(sink, program, comment, &interfaces, asked.snap.unwrap_or(0)), asked.snap)
            }
        };
        let flows = config.flows.iter().map(|flow| flow.params.base_rtt);
        let web = config.web.iter().map(|web| web.params.base_rtt);
        let rtts = flows.chain(web).chain(config.udp.iter().map(UdpConfig::line).map(|(rtt, _)| rtt));
        // a SYN of a receiver that opens left half a round trip before its answer
        let most_ahead = rtts.max().unwrap_or(Time::ZERO);
        let number = |name: &str| names.iter().position(|known| known == name).map(|index| index as u32);
        let (sender, receiver) = (number(SENDER), number(RECEIVER));
        let has_hops = names.iter().any(|name| name != SENDER && name != RECEIVER);
        let state = State {
            hosts: Hosts::new(&config.hosts),
            asked,
            sender,
            receiver,
            has_hops,
            flows: Flows::default(),
            held: Vec::new(),
            fates: Fates::default(),
            waiting: Waiting::new(),
            writer: Writer::new(output, names, hops),
            most_ahead,
            next_look: Time::ZERO,
        };
        Ok(Recorder { state: Arc::new(Mutex::new(state)) })
    }

    /// What listens at a hop.
    pub fn listener(&self, hop: &str) -> Listener {
        let state = self.state();
        let number = |name: &str| state.writer.points.iter().position(|known| known == name).map(|index| index as u32);
        let index = state.writer.hops.iter().position(|known| known == hop).unwrap_or(0) as u16;
        Listener { into: number(hop), out: number(&format!("{hop}{OUT}")), hop: index, recorder: self.clone() }
    }

    /// Writes what is left. Of packets that are still under way nobody knows what becomes of them.
    ///
    /// # Errors
    /// The first that there was while something was written.
    pub fn finish(&self) -> io::Result<Written> {
        let mut state = self.state();
        while let Some((time, record)) = state.waiting.pop() {
            state.write(time, &record);
        }
        let count = state.writer.count;
        let columns = match &mut state.writer.output {
            Output::Pcapng(file, _) => {
                file.finish()?;
                None
            }
            Output::Columns(columns) => Some(std::mem::take(columns)),
        };
        Ok(Written { count, columns })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // a panic elsewhere leaves records that are whole
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an interface is.
fn described(point: &str) -> String {
    match point.strip_suffix(OUT) {
        _ if point == SENDER => "hosts that send data: what they send and what they receive".to_owned(),
        _ if point == RECEIVER => "hosts that receive data: what they receive and what they send".to_owned(),
        Some(hop) => format!("what leaves the link of {hop}"),
        None => format!("what arrives at the queue of {point}"),
    }
}

impl State {
    /// Notes what was seen, if it was at a time that is asked for.
    fn note(&mut self, time: Time, record: Record, opens: bool) {
        if !opens && (time < self.asked.from || time > self.asked.until) {
            return;
        }
        if let Some((fate, _)) = record.fate {
            self.fates.get_mut(fate).records += 1;
        }
        self.waiting.push(time, record);
    }

    /// Writes records that nothing can come before, and of whose packets it is known what became of them.
    fn look(&mut self, now: Time) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + SLICE;
        let before = now.saturating_sub(self.most_ahead);
        while let Some((time, record)) = self.waiting.first() {
            let is_open = record.fate.is_some_and(|(fate, waits)| waits && !self.fates.get(fate).is_settled);
            if time >= before || is_open {
                return;
            }
            if let Some((_, first)) = self.waiting.pop() {
                self.write(time, &first);
            }
        }
    }

    fn write(&mut self, time: Time, record: &Record) {
        let fate = record.fate.map(|(fate, _)| self.fates.get(fate));
        self.writer.write(time, record, &self.flows.connections[record.connection as usize], fate);
        if let Some((fate, _)) = record.fate {
            self.fates.written(fate);
        }
    }

    fn begin(&mut self, flow: u32, beginning: &Beginning) {
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
            connections.push(Connection::new(beginning, self.hosts));
        }
    }

    fn post(&mut self, packet: &Packet, now: Time) {
        let point = self.sender;
        let Some((slot, connection, index)) = self.flows.wanted(packet.flow) else { return };
        let is_first_syn = packet.has(flag::SYN) && connection.is_tcp() && connection.is_new();
        let (ahead, (sent, id)) = (connection.ahead, connection.send(packet));
        let fate = self.fates.add(id);
        slot.open.add(packet, fate);
        let record = |point, what| Record { point, connection: index, fate: None, what };
        if is_first_syn && self.hosts.receiver_opens() {
            let left = now.saturating_sub(ahead);
            for (point, time) in [(self.receiver, left.saturating_sub(ahead)), (point, left)] {
                if let Some(point) = point {
                    self.note(time, record(point, What::Opening(*packet)), true);
                }
            }
        }
        if let Some(point) = point {
            let fate = Some((fate, true));
            self.note(now.saturating_sub(ahead), Record { fate, ..record(point, What::Sent(sent)) }, opens(packet));
        }
        self.look(now);
    }

    fn deliver(&mut self, packet: &Packet, now: Time) {
        let point = self.receiver;
        let Some((slot, connection, index)) = self.flows.wanted(packet.flow) else { return };
        connection.deliver(packet);
        let (sent, behind) = (connection.sent(packet), connection.behind);
        let Some(fate) = slot.open.take(packet) else { return };
        if let Some(point) = point {
            let record = Record { point, connection: index, fate: Some((fate, true)), what: What::Sent(sent) };
            self.note(now + behind, record, opens(packet));
        }
        self.fates.settle(fate);
    }

    fn answer(&mut self, ack: &Ack, blocks: &[Block], now: Time) {
        let point = self.receiver;
        let Some((slot, connection, index)) = self.flows.wanted(ack.flow) else { return };
        let (answered, behind) = (connection.answer(ack, blocks), connection.behind);
        let mut fate = None;
        if connection.speaks == Speech::Datagrams {
            let number = self.fates.add(0);
            slot.answers.add(&number_of_answer(ack), number);
            if slot.answers.len() > MOST_ANSWERS {
                slot.answers.pop().into_iter().for_each(|lost| self.fates.settle(lost));
            }
            fate = Some((number, false));
        }
        if let Some(point) = point {
            let record = Record { point, connection: index, fate, what: What::Answered(answered) };
            self.note(now + behind, record, ack.has(ack_flag::SYN_ACK));
        }
    }

    fn hear(&mut self, ack: &Ack, blocks: &[Block], now: Time) {
        let point = self.sender;
        let Some((slot, connection, index)) = self.flows.wanted(ack.flow) else { return };
        let (answered, ahead) = (connection.hear(ack, blocks), connection.ahead);
        let number = slot.answers.take(&number_of_answer(ack));
        if let Some(point) = point {
            let fate = number.map(|fate| (fate, false));
            let record = Record { point, connection: index, fate, what: What::Answered(answered) };
            self.note(now.saturating_sub(ahead), record, ack.has(ack_flag::SYN_ACK));
        }
        if let Some(number) = number {
            self.fates.settle(number);
        }
        self.look(now);
    }

    fn give_payload(&mut self, flow: u32, number: u64, is_answer: bool, bytes: &[u8]) {
        let Some((slot, _, _)) = self.flows.wanted(flow) else { return };
        let open = if is_answer { &slot.answers } else { &slot.open };
        if let Some(fate) = open.with_number(number) {
            self.fates.get_mut(fate).payload = Some(bytes.into());
        }
    }

    /// A packet is seen at a hop.
    fn see(&mut self, packet: &Packet, point: u32, is_new: bool, now: Time) {
        if packet.is_back() {
            return self.see_back(packet, point, is_new, now);
        }
        let Some((slot, connection, index)) = self.flows.wanted(packet.flow) else { return };
        let what = What::Sent(connection.sent(packet));
        let Some(fate) = (if is_new { slot.open.of_new(packet) } else { slot.open.of(packet) }) else { return };
        self.note(now, Record { point, connection: index, fate: Some((fate, true)), what }, opens(packet));
    }

    fn see_back(&mut self, packet: &Packet, point: u32, is_new: bool, now: Time) {
        let Some(Some(held)) = self.held.get_mut(packet.seq as usize) else { return };
        let Some(index) = self.flows.slots.get(packet.flow as usize).and_then(|slot| slot.connection) else { return };
        let mut answered = self.flows.connections[index as usize].answered(&held.ack, &held.blocks);
        answered.ecn = packet.ecn;
        let opens = held.ack.has(ack_flag::SYN_ACK);
        // what becomes of it at this hop
        let fate = is_new.then(|| self.fates.add(0));
        held.fate = fate.or(held.fate);
        self.note(now, Record { point, connection: index, fate: fate.map(|fate| (fate, true)), what: What::Answered(answered) }, opens);
    }

    /// An acknowledgement has left a hop, or was dropped there.
    fn settle_back(&mut self, packet: &Packet) {
        if let Some(fate) = self.held.get_mut(packet.seq as usize).and_then(Option::as_mut).and_then(|held| held.fate.take()) {
            self.fates.settle(fate);
        }
    }

    fn pack(&mut self, packet: &Packet, ack: &Ack, blocks: &[Block]) {
        if self.flows.wanted(ack.flow).is_none() {
            return;
        }
        let place = packet.seq as usize;
        if self.held.len() <= place {
            self.held.resize_with(place + 1, || None);
        }
        self.held[place] = Some(Held { ack: *ack, blocks: blocks.into(), fate: None });
    }

    fn mark(&mut self, packet: &Packet, marked: Marked) {
        if packet.is_back() {
            let Some(Some(held)) = self.held.get(packet.seq as usize) else { return };
            let (ack, fate) = (held.ack, held.fate);
            if let Some((_, connection, _)) = self.flows.wanted(ack.flow) {
                if marked.mark == Mark::Ce && !ack.has(ack_flag::ECHO) {
                    connection.mark(&ack);
                }
            }
            return fate.map_or((), |fate| self.fates.get_mut(fate).mark(marked));
        }
        if let Some(fate) = self.flows.wanted(packet.flow).and_then(|(slot, _, _)| slot.open.of(packet)) {
            self.fates.get_mut(fate).mark(marked);
        }
    }

    fn drop_packet(&mut self, packet: &Packet, dropped: Dropped) {
        if packet.is_back() {
            if let Some(fate) = self.held.get(packet.seq as usize).and_then(|held| held.as_ref()?.fate) {
                self.fates.get_mut(fate).dropped = Some(dropped);
            }
            self.settle_back(packet);
            return;
        }
        if let Some(fate) = self.flows.wanted(packet.flow).and_then(|(slot, _, _)| slot.open.take(packet)) {
            self.fates.get_mut(fate).dropped = Some(dropped);
            self.fates.settle(fate);
        }
    }
}

/// Whether it opens a connection.
fn opens(packet: &Packet) -> bool {
    !packet.has(flag::UDP) && packet.has(flag::SYN | flag::PURE_ACK)
}

/// An answer with bytes of its own as a packet with its number.
fn number_of_answer(ack: &Ack) -> Packet {
    Packet { seq: u64::from(ack.tsval) << 32 | u64::from(ack.tsecr), ..Packet::EMPTY }
}

/// Listens at a hop.
pub struct Listener {
    recorder: Recorder,
    hop: u16,
    /// The points ahead of its queue and behind its link.
    into: Option<u32>,
    out: Option<u32>,
}

impl Log for Listener {
    fn hears(&self) -> Hears {
        Hears::Frames
    }

    fn arrived(&mut self, packet: &Packet, now: Time) {
        if let Some(point) = self.into {
            self.recorder.state().see(packet, point, true, now);
        }
    }

    fn departed(&mut self, packet: &Packet, now: Time) {
        if self.out.is_none() && (self.into.is_none() || !packet.is_back()) {
            return;
        }
        let mut state = self.recorder.state();
        if let Some(point) = self.out {
            state.see(packet, point, false, now);
        }
        if packet.is_back() {
            state.settle_back(packet);
        }
    }

    fn marked(&mut self, packet: &Packet, before: Ecn, mark: Mark, reason: MarkReason, _at: At) {
        if before != Ecn::Ce {
            self.recorder.state().mark(packet, Marked { hop: self.hop, mark, reason });
        }
    }

    fn dropped(&mut self, packet: &Packet, reason: DropReason, place: Place, at: At) {
        self.recorder.state().drop_packet(packet, Dropped { hop: self.hop, reason, place, at: at.now });
    }

    fn begins(&mut self, flow: u32, beginning: &Beginning) {
        self.recorder.state().begin(flow, beginning);
    }

    fn posted(&mut self, packet: &Packet, now: Time) {
        self.recorder.state().post(packet, now);
    }

    fn delivered(&mut self, packet: &Packet, now: Time) {
        self.recorder.state().deliver(packet, now);
    }

    fn answered(&mut self, ack: &Ack, blocks: &[Block], now: Time) {
        self.recorder.state().answer(ack, blocks, now);
    }

    fn packed(&mut self, packet: &Packet, ack: &Ack, blocks: &[Block]) {
        let mut state = self.recorder.state();
        if state.has_hops || state.sender.is_some() {
            state.pack(packet, ack, blocks);
        }
    }

    fn acknowledged(&mut self, ack: &Ack, blocks: &[Block], now: Time) {
        self.recorder.state().hear(ack, blocks, now);
    }

    fn payload(&mut self, flow: u32, number: u64, is_answer: bool, bytes: &[u8]) {
        self.recorder.state().give_payload(flow, number, is_answer, bytes);
    }
}
