//! The streams of an application: what each end has to write, and what it has read.
//!
//! Licence: MIT OR Apache-2.0.

use std::collections::BTreeMap;

use proto::{Connection, Dir, StreamId};

use crate::flow::{read, zeros};
use crate::interface::{Side, ONE_WAY};

/// What an application has still to write on a stream, bytes, and whether nothing follows.
#[derive(Clone, Copy, Default)]
struct Unwritten {
    bytes: u64,
    last: bool,
}

/// The streams of one end.
#[derive(Default)]
pub struct EndStreams {
    /// By number of the stream.
    unwritten: BTreeMap<u64, Unwritten>,
    /// Its own stream, once it is open.
    one_way: Option<StreamId>,
    /// How many of those that go both ways the client has opened.
    opened: u64,
    /// Bytes that were read and of which nobody knows, by number of the stream.
    read: BTreeMap<u64, u64>,
    /// The handshake is over at this end.
    pub connected: bool,
}

impl EndStreams {
    /// The application has so many bytes more for a stream.
    pub fn write(&mut self, stream: u64, bytes: u64, last: bool) {
        let one = self.unwritten.entry(stream).or_default();
        one.bytes = one.bytes.saturating_add(bytes);
        one.last |= last;
    }

    /// What is not written is forgotten.
    pub fn forget(&mut self) {
        self.unwritten.clear();
    }

    /// Takes a stream of which bytes were read, and how many; 0 if there is none.
    pub fn take_read(&mut self) -> (u64, u64) {
        self.read.pop_first().unwrap_or((ONE_WAY, 0))
    }

    /// Reads what a stream has in order.
    pub fn read(&mut self, connection: &mut Connection, id: StreamId) {
        let bytes = read(connection, id);
        if bytes > 0 {
            let number = if id.dir() == Dir::Bi { id.index() } else { ONE_WAY };
            *self.read.entry(number).or_default() += bytes;
        }
    }

    /// Reads the streams that the other end has opened.
    pub fn accept(&mut self, connection: &mut Connection, dir: Dir) {
        while let Some(id) = connection.streams().accept(dir) {
            self.read(connection, id);
        }
    }

    /// Writes what the stack takes; returns whether that was anything.
    pub fn write_on(&mut self, side: Side, connection: &mut Connection) -> bool {
        if !self.connected {
            return false;
        }
        let mut wrote = false;
        let mut done = Vec::new();
        for (&number, left) in &mut self.unwritten {
            let id = match number {
                ONE_WAY => {
                    self.one_way = self.one_way.or_else(|| connection.streams().open(Dir::Uni));
                    self.one_way
                }
                _ if side == Side::Client && number >= self.opened => {
                    let made = connection.streams().open(Dir::Bi);
                    self.opened += u64::from(made.is_some());
                    made
                }
                _ => Some(StreamId::new(proto::Side::Client, Dir::Bi, number)),
            };
            let Some(id) = id else {
                continue; // the other end does not allow it yet
            };
            let mut stream = connection.send_stream(id);
            while left.bytes > 0 {
                let mut chunks = [zeros(left.bytes)];
                #[cfg(feature = "quinn")]
                let written = stream.write_chunks(&mut chunks).map(|written| written.bytes);
                #[cfg(feature = "noq")]
                let written = stream.write_chunks(&mut &mut chunks[..]);
                match written {
                    Ok(bytes) if bytes > 0 => {
                        wrote = true;
                        left.bytes -= bytes as u64;
                    }
                    _ => break, // blocked, until there is room
                }
            }
            if left.bytes == 0 {
                if left.last {
                    let _ = stream.finish(); // fails on a stream that the peer has stopped, which has ended too
                    wrote = true;
                }
                done.push(number);
            }
        }
        for number in done {
            self.unwritten.remove(&number);
        }
        wrote
    }
}
