//! One end of a connection: an endpoint of the stack with a single connection, driven without sockets and without a clock.
//!
//! Licence: MIT OR Apache-2.0.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, Event, Incoming, Transmit, VarInt,
};

use crate::interface::{Wire, NONE};

/// Bytes of a packet of stream data that are no data, at least: a short header with an ID of 8 bytes and a packet number of 2
/// (RFC 9000 section 17.3), a tag of 16, a stream frame with an offset of 4.
const LEAST_OVERHEAD: u64 = 1 + 8 + 2 + 16 + 6;
const RECEIVE_BUFFER: usize = 1 << 16; // bytes; datagrams share it, as those of one receive call do

/// Virtual time for a stack: an instant that is the time 0.
#[derive(Clone, Copy)]
pub struct Epoch(Instant);

impl Epoch {
    /// Now, whenever that is: only differences count.
    pub fn new() -> Self {
        Self(Instant::now())
    }

    /// The instant of a time.
    pub fn instant(self, now: u64) -> Instant {
        self.0 + Duration::from_nanos(now)
    }

    fn time(self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.0).as_nanos()).unwrap_or(NONE)
    }
}

/// One end.
pub struct End {
    endpoint: Endpoint,
    /// Its connection, once there is one.
    pub connection: Option<(ConnectionHandle, Connection)>,
    /// Why it was lost.
    pub lost: Option<String>,
    /// Bytes that it has sent, without the smallest headers that a packet of stream data has.
    pub sent: u64,
    peer: SocketAddr,
    epoch: Epoch,
    ecn: bool,
    burst: usize,
    incoming: BytesMut,
    outgoing: Vec<u8>,
    wake: u64,
}

impl End {
    /// An end that speaks with `peer` and sends at most `burst` datagrams at once.
    pub fn new(endpoint: Endpoint, peer: SocketAddr, epoch: Epoch, ecn: bool, burst: usize) -> Self {
        Self {
            endpoint,
            connection: None,
            lost: None,
            sent: 0,
            peer,
            epoch,
            ecn,
            burst,
            incoming: BytesMut::new(),
            outgoing: Vec::with_capacity(RECEIVE_BUFFER),
            wake: NONE,
        }
    }

    /// When its next timer is due, as the stack says it.
    pub fn wake(&self) -> u64 {
        self.wake
    }

    /// Begins to connect.
    pub fn connect(&mut self, config: ClientConfig, now: u64) {
        match self.endpoint.connect(self.epoch.instant(now), config, self.peer, "server") {
            Ok(made) => self.connection = Some(made),
            Err(error) => self.lost = Some(error.to_string()),
        }
    }

    /// Takes in a datagram.
    pub fn receive(&mut self, payload: &[u8], ecn: u32, now: u64, wire: &mut Wire) {
        if self.incoming.capacity() < payload.len() {
            self.incoming.reserve(RECEIVE_BUFFER.max(payload.len()));
        }
        self.incoming.extend_from_slice(payload);
        let data = self.incoming.split();
        let ecn = if self.ecn { EcnCodepoint::from_bits(ecn as u8) } else { None };
        self.outgoing.clear();
        let (instant, out) = (self.epoch.instant(now), &mut self.outgoing);
        #[cfg(feature = "quinn")]
        let event = self.endpoint.handle(instant, self.peer, None, ecn, data, out);
        #[cfg(feature = "noq")]
        let event = self.endpoint.handle(instant, proto::FourTuple::new(self.peer, None), ecn, data, out);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => match &mut self.connection {
                Some((own, connection)) if *own == handle => connection.handle_event(event),
                _ => {}
            },
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(incoming, instant, wire),
            Some(DatagramEvent::Response(transmit)) => self.send(&transmit, wire),
            None => {}
        }
    }

    fn accept(&mut self, incoming: Incoming, now: Instant, wire: &mut Wire) {
        if self.connection.is_some() {
            self.endpoint.ignore(incoming);
            return;
        }
        match self.endpoint.accept(incoming, now, &mut self.outgoing, None) {
            Ok(made) => self.connection = Some(made),
            Err(error) => {
                self.lost = Some(error.cause.to_string());
                if let Some(transmit) = &error.response {
                    self.send(transmit, wire);
                }
            }
        }
    }

    /// Runs the timers that are due, and calls `told` for each event.
    pub fn advance(&mut self, now: u64, mut told: impl FnMut(&mut Connection, Event)) {
        let Some((handle, connection)) = &mut self.connection else {
            return;
        };
        let instant = self.epoch.instant(now);
        if connection.poll_timeout().is_some_and(|time| time <= instant) {
            connection.handle_timeout(instant);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
        while let Some(event) = connection.poll() {
            if let Event::ConnectionLost { reason } = &event {
                self.lost.get_or_insert_with(|| reason.to_string());
            }
            told(connection, event);
        }
    }

    /// Closes the connection.
    pub fn close(&mut self, now: u64) {
        if let Some((_, connection)) = &mut self.connection {
            connection.close(self.epoch.instant(now), VarInt::from_u32(0), Bytes::new());
        }
    }

    /// Sends what there is to be sent, and learns when the next timer is due.
    pub fn transmit(&mut self, now: u64, wire: &mut Wire) {
        let instant = self.epoch.instant(now);
        #[cfg(feature = "quinn")]
        let burst = self.burst;
        #[cfg(feature = "noq")]
        let burst = std::num::NonZeroUsize::new(self.burst).unwrap_or(std::num::NonZeroUsize::MIN);
        loop {
            self.outgoing.clear();
            let Some((_, connection)) = &mut self.connection else {
                return;
            };
            let Some(transmit) = connection.poll_transmit(instant, burst, &mut self.outgoing) else {
                self.wake = connection.poll_timeout().map_or(NONE, |time| self.epoch.time(time));
                return;
            };
            self.send(&transmit, wire);
        }
    }

    fn send(&mut self, transmit: &Transmit, wire: &mut Wire) {
        let ecn = transmit.ecn.filter(|_| self.ecn).map_or(0, |codepoint| codepoint as u32);
        let data = &self.outgoing[..transmit.size];
        for datagram in data.chunks(transmit.segment_size.unwrap_or(transmit.size).max(1)) {
            self.sent += (datagram.len() as u64).saturating_sub(LEAST_OVERHEAD);
            wire.send(datagram, ecn);
        }
    }
}
