//! A connection with both its ends, the client's application, which writes, and the server's, which reads.
//!
//! Licence: MIT OR Apache-2.0.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Instant;

use boring::asn1::Asn1Time;
use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::pkey::{PKey, Private};
use boring::rsa::Rsa;
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::X509;
use quiche::{Connection, ConnectionId, RecvInfo, Shutdown};

use crate::interface::{FlowSetup, Side, Stack, Stats, Wire, NONE};
use crate::params;
use crate::system;

const STREAM: u64 = 2; // the client's first unidirectional stream: RFC 9000 section 2.1
const LARGEST: usize = 65_527; // bytes of UDP payload
const NOT_ECT: u32 = 0; // quiche does not send ECN
static ZEROS: [u8; 65_536] = [0; 65_536];

/// A key, in DER, and its certificate.
type Identity = (Vec<u8>, X509);

/// The server's key and certificate: one for the process, from a seed of its own. With RSA, signatures are equally long.
fn identity() -> Option<&'static Identity> {
    static MADE: OnceLock<Option<Identity>> = OnceLock::new();
    let make = || -> Result<Identity, ErrorStack> {
        let key: PKey<Private> = PKey::from_rsa(Rsa::generate(2048)?)?;
        let mut certificate = X509::builder()?;
        certificate.set_version(2)?;
        certificate.set_pubkey(&key)?;
        certificate.set_not_before(Asn1Time::from_unix(0)?.as_ref())?;
        certificate.set_not_after(Asn1Time::from_unix(4_000_000_000)?.as_ref())?;
        certificate.sign(&key, MessageDigest::sha256())?;
        Ok((key.private_key_to_der()?, certificate.build()))
    };
    MADE.get_or_init(|| {
        system::enter(0, 0);
        make().ok()
    })
    .as_ref()
}

fn tls() -> Option<SslContextBuilder> {
    let (key, certificate) = identity()?;
    let mut tls = SslContextBuilder::new(SslMethod::tls()).ok()?;
    // a key of its own: one that is shared draws random numbers at its first use alone
    tls.set_private_key(PKey::private_key_from_der(key).ok()?.as_ref()).ok()?;
    tls.set_certificate(certificate).ok()?;
    Some(tls)
}

/// A client or a server.
struct End {
    connection: Option<Connection>,
    config: quiche::Config,
    address: SocketAddr,
    /// Datagrams that wait for the time that pacing gives them.
    paced: VecDeque<(u64, Vec<u8>)>,
    wake: u64,
}

impl End {
    /// Sends what may be sent now, and notes when to go on.
    fn transmit(&mut self, now: u64, epoch: Instant, wire: &mut Wire, buffer: &mut [u8]) {
        let Some(connection) = &mut self.connection else { return };
        let time = |at: Instant| u64::try_from(at.saturating_duration_since(epoch).as_nanos()).unwrap_or(NONE);
        loop {
            while self.paced.front().is_some_and(|(at, _)| *at <= now) {
                if let Some((_, datagram)) = self.paced.pop_front() {
                    wire.send(&datagram, NOT_ECT);
                }
            }
            if !self.paced.is_empty() {
                break;
            }
            let Ok((length, info)) = connection.send(buffer) else { break };
            self.paced.push_back((time(info.at), buffer[..length].to_vec()));
        }
        let timeout = connection.timeout_instant().map_or(NONE, time);
        self.wake = self.paced.front().map_or(NONE, |(at, _)| *at).min(timeout);
    }

    /// Why it was closed.
    fn reason(&self) -> Option<String> {
        let connection = self.connection.as_ref()?;
        if !connection.is_closed() && !connection.is_draining() {
            return None;
        }
        let told = |who: &str, error: &quiche::ConnectionError| {
            let (code, text) = (error.error_code, String::from_utf8_lossy(&error.reason));
            format!("{who}: error {code:#x} {text}").trim_end().to_owned()
        };
        let (local, peer) = (connection.local_error(), connection.peer_error());
        Some(match (local, peer) {
            (Some(error), _) => told("this end", error),
            (None, Some(error)) => told("the other end", error),
            (None, None) if connection.is_timed_out() => "timed out".to_owned(),
            (None, None) => "no error".to_owned(),
        })
    }
}

/// A connection and its applications.
pub struct Flow {
    ends: [End; 2],
    /// What a datagram is written to, or read from; kept, since to clear one for every datagram costs as much as the rest.
    buffer: Box<[u8]>,
    /// Of the random numbers.
    state: u64,
    now: u64,
    epoch: Instant,
    unwritten: u64,
    ending: bool,
    written: bool,
    received: u64,
    connected: bool,
    closed: Option<CString>,
}

impl Flow {
    /// Does something at a time, with the clock and the random numbers of this connection, and then what follows for that end.
    fn act(&mut self, side: Side, now: u64, wire: &mut Wire, act: impl FnOnce(&mut Self)) {
        if self.closed.is_some() {
            return;
        }
        self.now = now;
        system::enter(now, self.state);
        act(self);
        loop {
            let wrote = match side {
                Side::Client => self.write_on(),
                Side::Server => self.read(),
            };
            self.ends[side as usize].transmit(now, self.epoch, wire, &mut self.buffer);
            if !wrote {
                break;
            }
        }
        self.note_end();
        self.state = system::state();
    }

    /// Writes what the stream takes; returns whether that was anything.
    fn write_on(&mut self) -> bool {
        let Some(connection) = &mut self.ends[Side::Client as usize].connection else { return false };
        self.connected |= connection.is_established();
        if !self.connected || self.written {
            return false;
        }
        let mut wrote = false;
        while self.unwritten > 0 {
            let most = usize::try_from(self.unwritten).unwrap_or(usize::MAX).min(ZEROS.len());
            let Ok(bytes @ 1..) = connection.stream_send(STREAM, &ZEROS[..most], false) else {
                return wrote; // until there is room
            };
            wrote = true;
            if self.unwritten != NONE {
                self.unwritten -= bytes as u64;
            }
        }
        if self.ending {
            self.written = connection.stream_send(STREAM, &[], true).is_ok();
            wrote |= self.written;
        }
        wrote
    }

    /// Reads everything; nothing is written because of it.
    fn read(&mut self) -> bool {
        let Some(connection) = &mut self.ends[Side::Server as usize].connection else { return false };
        for id in connection.readable() {
            while let Ok((bytes, _)) = connection.stream_recv(id, &mut self.buffer) {
                self.received += bytes as u64;
            }
        }
        false
    }

    /// The connection is closed when the client knows it, or when the server has told it in vain.
    fn note_end(&mut self) {
        let [client, server] = &self.ends;
        let is_over = server.connection.as_ref().is_some_and(Connection::is_closed);
        let of_server = || server.reason().filter(|_| is_over).map(|reason| format!("at the server: {reason}"));
        if let Some(reason) = client.reason().or_else(of_server) {
            self.closed = Some(CString::new(reason.replace(['\n', '\r', '\0'], " ")).unwrap_or_default());
        }
    }
}

impl Stack for Flow {
    fn new(setup: &FlowSetup, values: &[f64]) -> Option<Self> {
        identity()?;
        system::enter(0, setup.seed);
        let end = |last| {
            Some(End {
                connection: None,
                config: params::config(tls()?, setup.control, values, setup.payload)?,
                address: SocketAddr::from(([10, 0, 0, last], 443)),
                paced: VecDeque::new(),
                wake: NONE,
            })
        };
        Some(Self {
            ends: [end(1)?, end(2)?],
            buffer: vec![0; LARGEST].into_boxed_slice(),
            state: setup.seed,
            now: 0,
            epoch: Instant::now(),
            unwritten: 0,
            ending: false,
            written: false,
            received: 0,
            connected: false,
            closed: None,
        })
    }

    fn start(&mut self, wire: &mut Wire, now: u64) {
        self.act(Side::Client, now, wire, |flow| {
            let [client, server] = &mut flow.ends;
            let id = random_id();
            let id = ConnectionId::from_ref(&id);
            client.connection = quiche::connect(Some("server"), &id, client.address, server.address, &mut client.config).ok();
        });
    }

    fn write(&mut self, wire: &mut Wire, bytes: u64, now: u64) {
        self.act(Side::Client, now, wire, |flow| flow.unwritten = flow.unwritten.saturating_add(bytes));
    }

    fn finish(&mut self, wire: &mut Wire, end: bool, now: u64) {
        self.act(Side::Client, now, wire, |flow| {
            flow.ending = true;
            if !end {
                (flow.unwritten, flow.written) = (0, true);
                if let Some(connection) = &mut flow.ends[Side::Client as usize].connection {
                    let _ = connection.stream_shutdown(STREAM, Shutdown::Write, 0); // fails on one that has not begun
                }
            }
        });
    }

    fn datagram(&mut self, wire: &mut Wire, side: Side, payload: &[u8], _ecn: u32, now: u64) {
        self.act(side, now, wire, |flow| {
            let from = flow.ends[1 - side as usize].address;
            let end = &mut flow.ends[side as usize];
            if end.connection.is_none() && side == Side::Server {
                let id = random_id();
                end.connection = quiche::accept(&ConnectionId::from_ref(&id), None, end.address, from, &mut end.config).ok();
            }
            if let Some(connection) = &mut end.connection {
                let Some(copy) = flow.buffer.get_mut(..payload.len()) else { return }; // it is decrypted in place
                copy.copy_from_slice(payload);
                let _ = connection.recv(copy, RecvInfo { from, to: end.address }); // what fails is told by local_error()
            }
        });
    }

    fn wake(&self, side: Side) -> u64 {
        if self.closed.is_some() {
            NONE
        } else {
            self.ends[side as usize].wake
        }
    }

    fn timer(&mut self, wire: &mut Wire, side: Side, now: u64) {
        self.act(side, now, wire, |flow| {
            if let Some(connection) = &mut flow.ends[side as usize].connection {
                if connection.timeout_instant().is_some_and(|at| at <= Instant::now()) {
                    connection.on_timeout();
                }
            }
        });
    }

    fn stats(&mut self) -> Stats {
        let mut stats = Stats { received: self.received, connected: self.connected.into(), ..Stats::UNKNOWN };
        let connection = self.ends[Side::Client as usize].connection.as_ref();
        let Some(path) = connection.and_then(|connection| connection.path_stats().next()) else {
            return stats;
        };
        stats.cwnd = path.cwnd as u64;
        if let Some(smallest) = path.min_rtt {
            stats.rtt = u64::try_from(path.rtt.as_nanos()).unwrap_or(NONE);
            stats.min_rtt = u64::try_from(smallest.as_nanos()).unwrap_or(NONE);
        }
        stats.lost = path.lost as u64;
        stats.timeouts = path.total_pto_count as u64;
        stats
    }

    fn closed(&self) -> Option<&CStr> {
        self.closed.as_deref()
    }
}

fn random_id() -> [u8; 16] {
    let mut id = [0; 16];
    system::fill(&mut id);
    id
}
