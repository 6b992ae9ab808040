//! The streams of a stack, for applications.

use super::PluginStack;
use crate::abi;
use dumbbell_core::app::StreamDirection;
use dumbbell_core::fork::{CannotFork, SharedCopies};
use dumbbell_core::protocol::{Datagram, Protocol};
use dumbbell_core::stream_transport::{StreamNumber, StreamProgress, StreamTransport};
use dumbbell_core::units::Instant;

/// Returns the end that sends this way.
fn sender(way: StreamDirection) -> u32 {
    match way {
        StreamDirection::Request => abi::CLIENT,
        StreamDirection::Response => abi::SERVER,
    }
}

/// Returns the end that receives this way.
fn receiver(way: StreamDirection) -> u32 {
    match way {
        StreamDirection::Request => abi::SERVER,
        StreamDirection::Response => abi::CLIENT,
    }
}

impl StreamTransport for PluginStack {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Box<dyn StreamTransport>, CannotFork> {
        Ok(Box::new(self.copy(shared)?))
    }

    fn connect(&mut self, now: Instant) {
        self.start_client(now);
    }

    fn write(&mut self, way: StreamDirection, stream: StreamNumber, bytes: u64, is_last: bool, now: Instant) {
        let (side, last) = (sender(way), u32::from(is_last));
        let stream = match stream {
            StreamNumber::OneWay => abi::ONE_WAY,
            StreamNumber::Exchange(number) => number,
        };
        *self.unread.entry((receiver(way), stream)).or_default() += bytes;
        self.call(side, now, |functions, this, wire| {
            if let Some(write) = functions.stream_write {
                // SAFETY: `this` lives, and `wire` is valid for the call
                unsafe { write(this, wire, side, stream, bytes, last, now.0) }
            }
        });
    }

    fn close(&mut self, now: Instant) {
        self.call(abi::CLIENT, now, |functions, this, wire| {
            if let Some(close) = functions.close {
                // SAFETY: `this` lives, and `wire` is valid for the call
                unsafe { close(this, wire, now.0) }
            }
        });
    }

    fn receive(&mut self, way: StreamDirection, datagram: &Datagram, now: Instant) {
        self.deliver(receiver(way), datagram.number, datagram.ecn, now);
    }

    fn next_timer(&self) -> Instant {
        self.wake(abi::CLIENT).min(self.wake(abi::SERVER))
    }

    fn on_timer(&mut self, now: Instant) {
        self.timer(abi::CLIENT, now);
        self.timer(abi::SERVER, now);
    }

    fn take_sent(&mut self, way: StreamDirection, to: &mut dyn FnMut(Datagram)) {
        match way {
            StreamDirection::Request => self.out.drain(..).for_each(to),
            StreamDirection::Response => self.back.drain(..).for_each(to),
        }
    }

    fn take_progress(&mut self, way: StreamDirection) -> Option<StreamProgress> {
        let read = self.functions.stream_read.filter(|_| !self.this.is_null() && self.fault.message().is_none())?;
        let (side, mut number) = (receiver(way), abi::ONE_WAY);
        // SAFETY: `this` lives, and `number` is valid for the call
        let bytes = unsafe { read(self.this, side, &raw mut number) };
        if bytes == 0 {
            return None;
        }
        let unread = self.unread.get(&(side, number)).copied().unwrap_or(0);
        match unread.checked_sub(bytes) {
            None => {
                self.wrong(|| {
                    format!("stream_read() of side {side} is {bytes} bytes of stream {number}; allowed: up to {unread}, which were written")
                });
                return None;
            }
            Some(0) => drop(self.unread.remove(&(side, number))),
            Some(left) => drop(self.unread.insert((side, number), left)),
        }
        let stream = if number == abi::ONE_WAY { StreamNumber::OneWay } else { StreamNumber::Exchange(number) };
        Some(StreamProgress { stream, bytes })
    }

    fn payload(&self, way: StreamDirection, number: u64) -> Option<&[u8]> {
        Protocol::payload(self, number, way == StreamDirection::Response)
    }

    fn count_lost(&self, way: StreamDirection) -> Option<u64> {
        let lost = self.functions.lost.filter(|_| !self.this.is_null())?;
        // SAFETY: `this` lives
        Some(unsafe { lost(self.this, sender(way)) }).filter(|&lost| lost != u64::MAX)
    }
}
