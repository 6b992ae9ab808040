//! Connections of an application over a stack of its own: both ends, and what is to arrive in their streams.
//!
//! A connection runs on the time of the run, as the application does. Its two ways are endpoints of datagrams. Each has the clocks of its line: what an end sends enters the
//! net when the sender's clock, which runs [ahead](super), says so, and reaches the other end when it is there, half of a base RTT after the net has
//! delivered it if data are sent up.

use super::delay_lines::DelayLine;
use super::endpoint::Arena;
use dumbbell_core::app::StreamDirection;
use dumbbell_core::stream_transport::{StreamNumber, StreamProgress, StreamTransport};
use dumbbell_core::units::Instant;
use std::collections::{BTreeMap, VecDeque};

/// Something that has arrived in a connection, as its application understands it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The end of a write into the lasting stream of a way: bytes since its start.
    Bytes(StreamDirection, u64),
    /// All of an exchange, this way.
    Exchange(StreamDirection, u64),
}

/// Bytes of one way that were written, by stream, and how many of them have arrived.
#[derive(Clone, Debug, Default)]
struct WrittenStreams {
    /// Ends of the writes into the lasting stream that have not arrived, bytes since its start.
    ends: VecDeque<u64>,
    written: u64,
    arrived: u64,
    /// Bytes of exchanges that have not arrived.
    exchanges: BTreeMap<u64, u64>,
}

/// Both ends of a connection, and what is to arrive in its streams.
pub struct StackConnection {
    pub transport: Box<dyn StreamTransport>,
    /// Slots of its ways, by [`StreamDirection::index`].
    pub slots: [u32; 2],
    written: [WrittenStreams; 2],
    /// Bytes that were read and are not counted, by [`StreamDirection::index`].
    read: [u64; 2],
    events: VecDeque<StreamEvent>,
}

dumbbell_core::fork_fields! { StackConnection { transport; slots, written, read, events } }

impl StackConnection {
    /// A connection with nothing in it, whose client has not begun to connect.
    pub fn new(transport: Box<dyn StreamTransport>, slots: [u32; 2]) -> StackConnection {
        StackConnection { transport, slots, written: Default::default(), read: [0; 2], events: VecDeque::new() }
    }

    /// The application writes `bytes` into a stream. An exchange ends with them.
    pub fn write(&mut self, way: StreamDirection, stream: StreamNumber, bytes: u64, now: Instant) {
        let written = &mut self.written[way.index()];
        let is_last = match stream {
            StreamNumber::OneWay => {
                written.written += bytes;
                written.ends.push_back(written.written);
                false
            }
            StreamNumber::Exchange(number) => {
                written.exchanges.insert(number, bytes);
                true
            }
        };
        self.transport.write(way, stream, bytes, is_last, now);
    }

    /// Takes what the stack has read.
    fn read(&mut self) {
        for way in StreamDirection::ALL {
            while let Some(progress) = self.transport.take_progress(way) {
                self.note(way, progress);
            }
        }
    }

    /// Bytes were read from a stream.
    fn note(&mut self, way: StreamDirection, StreamProgress { stream, bytes }: StreamProgress) {
        let StackConnection { written, events, read, .. } = self;
        let written = &mut written[way.index()];
        read[way.index()] += bytes;
        match stream {
            StreamNumber::OneWay => {
                written.arrived += bytes;
                while let Some(&end) = written.ends.front().filter(|&&end| end <= written.arrived) {
                    written.ends.pop_front();
                    events.push_back(StreamEvent::Bytes(way, end));
                }
            }
            StreamNumber::Exchange(number) => {
                let Some(missing) = written.exchanges.get_mut(&number) else { return };
                *missing = missing.saturating_sub(bytes);
                if *missing == 0 {
                    written.exchanges.remove(&number);
                    events.push_back(StreamEvent::Exchange(way, number));
                }
            }
        }
    }

    /// Lets what is due at `now` happen: datagrams that are there, and timers.
    fn advance(&mut self, arena: &mut Arena, lines: &[DelayLine], now: Instant) {
        for way in StreamDirection::ALL {
            let slot = self.slots[way.index()];
            while let Some(datagram) = arena.get_mut(slot).stack_way().and_then(|own| own.take_arrived(now)) {
                self.transport.receive(way, &datagram, now);
                self.read();
            }
        }
        for _ in 0..CALLS {
            if self.transport.next_timer() > now {
                break;
            }
            self.transport.on_timer(now);
            self.read();
        }
        self.settle(arena, lines, now);
    }

    /// Sends what the ends have sent on its way, counts what they have read, and tells their endpoints when there is something to do.
    pub fn settle(&mut self, arena: &mut Arena, lines: &[DelayLine], now: Instant) {
        self.read();
        for way in StreamDirection::ALL {
            let (slot, read) = (self.slots[way.index()], std::mem::take(&mut self.read[way.index()]));
            let endpoint = arena.get_mut(slot);
            let at = now.saturating_add(lines[endpoint.line as usize].ahead);
            let Some(own) = endpoint.stack_way() else { continue };
            self.transport.take_sent(way, &mut |datagram| own.post(datagram, at));
            let is_first = way == StreamDirection::Response;
            let wake = if is_first { self.transport.next_timer() } else { Instant::NEVER };
            own.settle(read, self.transport.count_lost(way), wake);
            let next = own.next();
            arena.timer_not_after(slot, next);
        }
    }
}

/// Calls of timers at one instant before other events have their turn.
const CALLS: u32 = 10_000;

/// The connections of a user over a stack.
#[derive(Default)]
pub struct StackConnections {
    /// By number of the connection; `None` if it is not open.
    open: Vec<Option<Box<StackConnection>>>,
    /// Connections that the application has closed and of which something is left.
    closing: Vec<StackConnection>,
}

dumbbell_core::fork_fields! { StackConnections { open, closing; } }

impl StackConnections {
    /// Returns the open connection of this number.
    pub fn get_mut(&mut self, number: usize) -> Option<&mut StackConnection> {
        self.open.get_mut(number)?.as_deref_mut()
    }

    /// Returns the connection whose way is in `slot`.
    pub fn find(&self, slot: u32) -> Option<&StackConnection> {
        let mut all = self.open.iter().flatten().map(Box::as_ref).chain(&self.closing);
        all.find(|one| one.slots.contains(&slot))
    }

    /// A connection opens, with this number.
    pub fn add(&mut self, number: usize, made: Box<StackConnection>) {
        if self.open.len() <= number {
            self.open.resize_with(number + 1, || None);
        }
        self.open[number] = Some(made);
    }

    /// Lets what is due at `now` happen in the open connection of this number.
    pub fn advance(&mut self, number: usize, arena: &mut Arena, lines: &[DelayLine], now: Instant) {
        if let Some(one) = self.get_mut(number) {
            one.advance(arena, lines, now);
        }
    }

    /// Takes the oldest event of the open connection of this number that the application does not know of.
    pub fn take_event(&mut self, number: usize) -> Option<StreamEvent> {
        self.get_mut(number)?.events.pop_front()
    }

    /// The application has closed a connection.
    pub fn close(&mut self, number: usize, arena: &mut Arena, lines: &[DelayLine], now: Instant) {
        let Some(mut one) = self.open.get_mut(number).and_then(Option::take) else { return };
        one.transport.close(now);
        one.settle(arena, lines, now);
        self.closing.push(*one);
    }

    /// Lets what is due at `now` happen in the closed connection whose way is in `slot`. One without timers is over.
    pub fn advance_closing(&mut self, slot: u32, arena: &mut Arena, lines: &[DelayLine], now: Instant) {
        let Some(place) = self.closing.iter().position(|one| one.slots.contains(&slot)) else { return };
        let one = &mut self.closing[place];
        one.advance(arena, lines, now);
        if one.transport.next_timer() != Instant::NEVER {
            return;
        }
        for ended in self.closing.swap_remove(place).slots {
            if let Some(way) = arena.get_mut(ended).stack_way() {
                way.end();
            }
            arena.timer_not_after(ended, now);
        }
    }
}
