//! Interface of transports that carry several streams in one connection, both ways, as QUIC does. They carry [applications](crate::app).
//!
//! A transport is both ends of one connection, without I/O and without a clock: whoever runs it moves its datagrams, calls its timers, writes into its
//! streams and learns what has arrived in them.

use crate::app::StreamDirection;
use crate::fork::{CannotFork, Fork, SharedCopies};
use crate::protocol::Datagram;
use crate::units::Instant;

/// A stream of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamNumber {
    /// The stream of the sending end alone, which lasts as long as the connection.
    OneWay,
    /// One that the client opens and that goes both ways; they count from 0.
    Exchange(u64),
}

/// Payload of a stream that the application of an end has read, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamProgress {
    /// Which stream.
    pub stream: StreamNumber,
    /// How many bytes more.
    pub bytes: u64,
}

/// Both ends of a connection with streams. Time never goes back between calls. What goes the way [`StreamDirection::Request`] is sent by the client, and
/// what goes the way [`StreamDirection::Response`] by the server.
pub trait StreamTransport: Send {
    /// The client begins to connect.
    fn connect(&mut self, now: Instant);

    /// The application of the end that sends this way has `bytes` more for a stream, and, with `is_last`, nothing behind them. What is written before the handshake is
    /// over waits for it.
    fn write(&mut self, way: StreamDirection, stream: StreamNumber, bytes: u64, is_last: bool, now: Instant);

    /// The client closes the connection: what is not sent is forgotten. Datagrams and timers go on until there are no more timers.
    fn close(&mut self, now: Instant);

    /// A datagram that was sent this way has arrived, with the ECN field that the net gave it.
    fn receive(&mut self, way: StreamDirection, datagram: &Datagram, now: Instant);

    /// When [`StreamTransport::on_timer`] is called next, [`Instant::NEVER`] for not at all. Asked after each other call.
    fn next_timer(&self) -> Instant;

    /// The time of [`StreamTransport::next_timer`] has come. The next time is later, sooner or later.
    fn on_timer(&mut self, now: Instant);

    /// Gives `to` the datagrams that an end has sent this way since the last call, in order.
    fn take_sent(&mut self, way: StreamDirection, to: &mut dyn FnMut(Datagram));

    /// Takes what was read of a stream that goes this way since the last call; the next one if there are several.
    fn take_progress(&mut self, way: StreamDirection) -> Option<StreamProgress>;

    /// Returns the payload of a datagram that is under way.
    fn payload(&self, way: StreamDirection, number: u64) -> Option<&[u8]>;

    /// Returns how many packets that it sent this way it took for lost, if it says so.
    fn count_lost(&self, way: StreamDirection) -> Option<u64>;

    /// Returns a copy that goes on as the original does; a type that is `Clone` writes [`fork_by_clone!(dyn StreamTransport)`](crate::fork_by_clone).
    ///
    /// # Errors
    /// It cannot be copied, which is the default.
    fn fork(&self, _shared: &mut SharedCopies) -> Result<Box<dyn StreamTransport>, CannotFork> {
        Err(CannotFork::default())
    }
}

impl Fork for Box<dyn StreamTransport> {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        (**self).fork(shared)
    }
}
