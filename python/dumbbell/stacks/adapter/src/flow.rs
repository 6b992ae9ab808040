//! A connection with both its ends, the client's application, which writes, and the server's, which reads.
//!
//! Licence: MIT OR Apache-2.0.

use std::ffi::{CStr, CString};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use proto::{
    ClientConfig, Connection, ConnectionId, ConnectionIdGenerator, Dir, Endpoint, EndpointConfig, Event, ServerConfig,
    StreamEvent, StreamId, TimeSource, VarInt,
};
use virtual_random::mixed;

use crate::controls;
use crate::crypto::{Handshakes, Sealer, Signer};
use crate::end::{End, Epoch};
use crate::interface::{FlowSetup, Side, Stack, Stats, Wire, NONE, ONE_WAY};
use crate::params::Values;
use crate::streams::EndStreams;
#[cfg(feature = "log")]
use crate::qlog;

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 50_000);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 443);
const CHUNK: usize = 1 << 20; // bytes that are written at once, at most

/// Zeros that all connections send: they are neither made nor copied.
pub fn zeros(bytes: u64) -> Bytes {
    static ZEROS: OnceLock<&'static [u8]> = OnceLock::new();
    let all: &'static [u8] = ZEROS.get_or_init(|| vec![0; CHUNK].leak());
    Bytes::from_static(&all[..usize::try_from(bytes).unwrap_or(CHUNK).min(CHUNK)])
}

/// Connection IDs of 8 bytes, the stack's own length, which follow from a seed.
struct Ids(u64);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ConnectionId::new(&mixed(self.0).to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The wall clock, which only the tokens for later connections read: it stands still.
struct StoppedClock;

impl TimeSource for StoppedClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

/// A stack may have it as a method of its own, which is then called; this stands in if it does not.
#[allow(dead_code)]
trait SmallestRtt {
    fn min_rtt(&self) -> Duration {
        Duration::MAX
    }
}
impl SmallestRtt for Connection {}

/// A connection and its applications.
pub struct Flow {
    client: End,
    server: End,
    config: Option<ClientConfig>,
    connected: bool,
    stream: Option<StreamId>,
    unwritten: u64,
    written: u64,
    /// Unsent bytes below which the application writes on. A stack looks a byte up among all writes that are not acknowledged, so
    /// that one large write is better than many small ones.
    refill: u64,
    ending: bool,
    received: u64,
    /// Of an application: the streams of both ends.
    streams: Option<Box<[EndStreams; 2]>>,
    closed: Option<CString>,
}

fn endpoint_config(seed: u64) -> EndpointConfig {
    let mut config = EndpointConfig::new(Arc::new(Signer));
    let mut bytes = [0; 32];
    for (n, chunk) in bytes.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&mixed(seed.wrapping_add(n as u64)).to_le_bytes());
    }
    config.rng_seed(Some(bytes));
    let ids = move || -> Box<dyn ConnectionIdGenerator> { Box::new(Ids(seed)) };
    #[cfg(feature = "ids_by_reference")]
    config.cid_generator(ids);
    #[cfg(not(feature = "ids_by_reference"))]
    config.cid_generator(Arc::new(ids));
    config
}

fn endpoint(config: EndpointConfig, server: Option<ServerConfig>, mtu_discovery: bool) -> Endpoint {
    let (config, server) = (Arc::new(config), server.map(Arc::new));
    #[cfg(feature = "ids_by_reference")]
    return Endpoint::new(config, server, mtu_discovery, None);
    #[cfg(not(feature = "ids_by_reference"))]
    return Endpoint::new(config, server, mtu_discovery);
}

impl Flow {
    /// Writes what the stack takes; returns whether that was anything.
    fn write_on(&mut self) -> bool {
        let Some((_, connection)) = self.client.connection.as_mut().filter(|_| self.connected) else {
            return false;
        };
        // Headers are rather taken for too small, and repetitions count as sent: there is more unsent than this. To take losses off
        // would be nearer, but too much at times, and then a stack would run out of data.
        let unsent = self.written.saturating_sub(self.client.sent);
        if unsent > self.refill {
            return false;
        }
        if self.stream.is_none() && (self.unwritten > 0 || self.ending) {
            self.stream = connection.streams().open(Dir::Uni);
        }
        let Some(id) = self.stream else {
            return false;
        };
        let (mut stream, before) = (connection.send_stream(id), self.written);
        while self.unwritten > 0 {
            let mut chunks = [zeros(self.unwritten)];
            #[cfg(feature = "quinn")]
            let written = stream.write_chunks(&mut chunks).map(|written| written.bytes);
            #[cfg(feature = "noq")]
            let written = stream.write_chunks(&mut &mut chunks[..]);
            match written {
                Ok(bytes) if bytes > 0 => {
                    self.written += bytes as u64;
                    if self.unwritten != NONE {
                        self.unwritten -= bytes as u64;
                    }
                }
                _ => return self.written > before, // blocked, until there is room
            }
        }
        if self.ending {
            let _ = stream.finish(); // fails on a stream that the peer has stopped, which has ended too
            self.ending = false;
            self.stream = None;
            return true;
        }
        self.written > before
    }

    fn drive_client(&mut self, now: u64, wire: &mut Wire) {
        let connected = &mut self.connected;
        self.client.advance(now, |_, event| *connected |= matches!(event, Event::Connected));
        self.write_on();
        self.client.transmit(now, wire);
        while self.write_on() {
            self.client.transmit(now, wire);
        }
        self.note_end();
    }

    fn drive_server(&mut self, now: u64, wire: &mut Wire) {
        let received = &mut self.received;
        self.server.advance(now, |connection, event| match event {
            Event::Stream(StreamEvent::Opened { .. }) => {
                while let Some(id) = connection.streams().accept(Dir::Uni) {
                    *received += read(connection, id);
                }
            }
            Event::Stream(StreamEvent::Readable { id }) => *received += read(connection, id),
            _ => {}
        });
        self.server.transmit(now, wire);
        self.note_end();
    }

    fn drive(&mut self, side: Side, now: u64, wire: &mut Wire) {
        match side {
            _ if self.streams.is_some() => self.drive_streams(side, now, wire),
            Side::Client => self.drive_client(now, wire),
            Side::Server => self.drive_server(now, wire),
        }
    }

    /// The end of `side` does what there is to do for its application.
    fn drive_streams(&mut self, side: Side, now: u64, wire: &mut Wire) {
        let Some(streams) = &mut self.streams else {
            return;
        };
        let (own, end) = match side {
            Side::Client => (&mut streams[0], &mut self.client),
            Side::Server => (&mut streams[1], &mut self.server),
        };
        end.advance(now, |connection, event| match event {
            Event::Connected => own.connected = true,
            Event::Stream(StreamEvent::Opened { dir }) => own.accept(connection, dir),
            Event::Stream(StreamEvent::Readable { id }) => own.read(connection, id),
            _ => {}
        });
        if end.lost.is_some() {
            own.forget();
        }
        loop {
            let wrote = end.connection.as_mut().is_some_and(|(_, connection)| own.write_on(side, connection));
            end.transmit(now, wire);
            if !wrote {
                break;
            }
        }
        self.connected = streams[0].connected;
        self.note_end();
    }

    /// The connection is closed when the client knows it, or when the server has told it in vain.
    fn note_end(&mut self) {
        if self.closed.is_some() {
            return;
        }
        let is_drained = self.server.connection.as_ref().is_none_or(|(_, connection)| connection.is_drained());
        let reason = match (&self.client.lost, &self.server.lost) {
            (Some(reason), _) => reason.clone(),
            (None, Some(reason)) if is_drained => format!("the server: {reason}"),
            _ => return,
        };
        let line = reason.replace(['\n', '\r', '\0'], " ");
        self.closed = Some(CString::new(line).unwrap_or_default());
    }
}

/// Reads what a stream has in order; returns how many bytes.
pub fn read(connection: &mut Connection, id: StreamId) -> u64 {
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else {
        return 0; // it has ended
    };
    let mut bytes = 0;
    while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
        bytes += chunk.bytes.len() as u64;
    }
    let _ = chunks.finalize(); // transmit() follows in any case
    bytes
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NONE)
}

impl Stack for Flow {
    fn new(setup: &FlowSetup, params: &[f64]) -> Option<Self> {
        let values = Values(params);
        let window = Some(values.whole("initial_window")).filter(|&bytes| bytes > 0);
        let seeds = [1, 2, 3, 4].map(|n: u64| mixed(setup.seed ^ mixed(n)));
        let transport = |seed| {
            let mut config = values.transport(setup.payload);
            config.congestion_controller_factory(controls::factory(setup.control, window, seed)?);
            Some(config)
        };
        let (epoch, burst, search) = (Epoch::new(), values.whole("max_datagrams") as usize, values.mtu_discovery());
        let mut client = ClientConfig::new(Arc::new(Handshakes));
        let of_client = transport(seeds[0])?;
        #[cfg(feature = "log")]
        let of_client = qlog::written(of_client, setup.number, epoch);
        client.transport_config(Arc::new(of_client));
        // a client's first destination is random, of 8 bytes or more: RFC 9000 section 7.2
        let first = ConnectionId::new(&[mixed(seeds[0]).to_be_bytes(), mixed(seeds[1]).to_be_bytes()].concat());
        client.initial_dst_cid_provider(Arc::new(move || first));
        let mut server = ServerConfig::new(Arc::new(Handshakes), Arc::new(Sealer));
        server.transport_config(Arc::new(transport(seeds[1])?));
        server.time_source(Arc::new(StoppedClock));
        let of_client = endpoint(endpoint_config(seeds[2]), None, search);
        let of_server = endpoint(endpoint_config(seeds[3]), Some(server), search);
        Some(Self {
            client: End::new(of_client, SERVER, epoch, setup.ecn, burst),
            server: End::new(of_server, CLIENT, epoch, setup.ecn, burst),
            config: Some(client),
            connected: false,
            stream: None,
            unwritten: 0,
            written: 0,
            refill: (values.whole("send_window") / 2).min(CHUNK as u64),
            ending: false,
            received: 0,
            streams: None,
            closed: None,
        })
    }

    fn start(&mut self, wire: &mut Wire, now: u64) {
        if let Some(config) = self.config.take() {
            self.client.connect(config, now);
            self.drive_client(now, wire);
        }
    }

    fn write(&mut self, wire: &mut Wire, bytes: u64, now: u64) {
        self.unwritten = self.unwritten.saturating_add(bytes);
        if self.closed.is_none() {
            self.drive_client(now, wire);
        }
    }

    fn finish(&mut self, wire: &mut Wire, end: bool, now: u64) {
        if self.closed.is_some() {
            return;
        }
        if end {
            self.ending = true;
        } else {
            (self.unwritten, self.ending) = (0, false);
            self.written = self.client.sent;
            if let (Some(id), Some((_, connection))) = (self.stream.take(), &mut self.client.connection) {
                let _ = connection.send_stream(id).reset(VarInt::from_u32(0)); // fails on one that has ended
            }
        }
        self.drive_client(now, wire);
    }

    fn datagram(&mut self, wire: &mut Wire, side: Side, payload: &[u8], ecn: u32, now: u64) {
        if self.closed.is_some() {
            return;
        }
        match side {
            Side::Client => self.client.receive(payload, ecn, now, wire),
            Side::Server => self.server.receive(payload, ecn, now, wire),
        }
        self.drive(side, now, wire);
    }

    fn wake(&self, side: Side) -> u64 {
        match side {
            _ if self.closed.is_some() => NONE,
            Side::Client => self.client.wake(),
            Side::Server => self.server.wake(),
        }
    }

    fn timer(&mut self, wire: &mut Wire, side: Side, now: u64) {
        if self.closed.is_none() {
            self.drive(side, now, wire);
        }
    }

    fn stats(&mut self) -> Stats {
        let mut stats = Stats { received: self.received, connected: self.connected.into(), ..Stats::UNKNOWN };
        let Some((_, connection)) = &mut self.client.connection else {
            return stats;
        };
        #[cfg(feature = "quinn")]
        let (metrics, counted) = (connection.congestion_state().metrics(), connection.stats());
        #[cfg(feature = "quinn")]
        let (path, bits) = (counted.path, 8); // of a pacing rate: quinn has bits per second
        #[cfg(feature = "noq")]
        let Some((metrics, counted)) = connection
            .congestion_state(proto::PathId::ZERO)
            .map(|control| control.metrics())
            .zip(connection.path_stats(proto::PathId::ZERO))
        else {
            return stats;
        };
        #[cfg(feature = "noq")]
        let (path, bits) = (counted, 1);
        stats.cwnd = path.cwnd;
        stats.ssthresh = metrics.ssthresh.unwrap_or(NONE);
        stats.pacing_rate = metrics.pacing_rate.map_or(NONE, |rate| rate / bits);
        if self.connected {
            stats.rtt = nanoseconds(path.rtt);
            stats.min_rtt = nanoseconds(connection.min_rtt());
        }
        stats.lost = path.lost_packets;
        stats.congestion_events = path.congestion_events;
        stats.acks = counted.frame_rx.acks;
        stats
    }

    fn closed(&self) -> Option<&CStr> {
        self.closed.as_deref()
    }

    const HAS_STREAMS: bool = true;

    fn stream_write(&mut self, wire: &mut Wire, side: Side, stream: u64, bytes: u64, last: bool, now: u64) {
        if self.closed.is_none() {
            self.streams.get_or_insert_with(Box::default)[side as usize].write(stream, bytes, last);
            self.drive(side, now, wire);
        }
    }

    fn stream_read(&mut self, side: Side) -> (u64, u64) {
        self.streams.as_mut().map_or((ONE_WAY, 0), |streams| streams[side as usize].take_read())
    }

    fn close(&mut self, wire: &mut Wire, now: u64) {
        if self.closed.is_none() {
            self.streams.get_or_insert_with(Box::default)[0].forget();
            self.client.close(now);
            self.drive(Side::Client, now, wire);
        }
    }

    fn lost(&mut self, side: Side) -> u64 {
        let end = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        let Some((_, connection)) = &mut end.connection else {
            return 0;
        };
        #[cfg(feature = "quinn")]
        return connection.stats().path.lost_packets;
        #[cfg(feature = "noq")]
        return connection.path_stats(proto::PathId::ZERO).map_or(NONE, |path| path.lost_packets);
    }
}
