//! A connection of TCP between the client and the server of a user, both ends of it.

use super::plan::UserPlan;
use super::report::Report;
use super::{Part, Surface, Token, FIRST_PORT};
use crate::tcp_info::TcpInfo;
use dumbbell_core::app::StreamDirection;
use dumbbell_core::units::Instant;
use dumbbell_measure::from_capture::sampled;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::SocketAddrV4;
use std::os::fd::AsFd;
use std::time::Duration as StdDuration;

/// Bytes per write to a socket at the most: what fits is taken at once.
const WRITE: usize = 1 << 20;
static ZEROS: [u8; WRITE] = [0; WRITE];
/// A filler keeps as much unsent as the connection sends in this time, ms. draft-ietf-ippm-responsiveness-09 section 6.1.1: TCP_REPLENISH_TIME, or TCP_NOTSENT_LOWAT, of 5 ms.
const UNSENT_MS: u64 = 5;
/// Segments that a filler keeps unsent at the least, as in the simulator.
const LEAST_UNSENT: u64 = 2;

/// Where a write ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WriteEnd {
    /// Place in the stream, which a filler may have filled in between.
    place: u64,
    /// Bytes of writes up to there.
    bytes: u64,
}

/// Bytes that go one way.
#[derive(Default)]
struct StreamWay {
    /// Bytes of writes, and of these the ones that the socket has not taken.
    written: u64,
    unsent: u64,
    /// Bytes that the socket has taken.
    taken: u64,
    /// Whether there is always more to send.
    fills: bool,
    /// Bytes that have arrived.
    received: u64,
    /// Ends of the writes that the application does not know to have arrived.
    ends: VecDeque<WriteEnd>,
}

/// Result of a look at a socket that receives.
pub struct Received {
    /// Which way its bytes went.
    pub way: StreamDirection,
    /// Whether the other end has closed the connection.
    pub is_over: bool,
}

/// A connection; sockets and what they send by [`StreamDirection::index`].
pub struct StreamConnection {
    /// Number in the application.
    pub number_of_user: usize,
    /// Whether the application has not closed it.
    pub is_open: bool,
    /// Number of its responses in the run; that of its requests follows.
    number: u32,
    listener: Option<Socket>,
    sockets: [Option<Socket>; 2],
    connected: [bool; 2],
    /// Whether an end was closed.
    ended: [bool; 2],
    ways: [StreamWay; 2],
}

/// A socket of a user: with its congestion control and type of service, and without Nagle's rule.
fn make_socket(plan: &UserPlan) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    set_up(&socket, plan)?;
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn set_up(socket: &Socket, plan: &UserPlan) -> io::Result<()> {
    let cc = plan.cc.as_deref().unwrap_or("cubic");
    socket.set_tcp_congestion(cc.as_bytes())?;
    let got = socket.tcp_congestion()?;
    if got.split(|&byte| byte == 0).next() != Some(cc.as_bytes()) {
        return Err(io::Error::other(format!("app.cc: asked {cc}, got {}", String::from_utf8_lossy(&got))));
    }
    socket.set_tos_v4(plan.tos)?;
    let tos = socket.tos_v4()?;
    if tos != plan.tos {
        return Err(io::Error::other(format!("app.dscp: asked the type of service {}, got {tos}", plan.tos)));
    }
    socket.set_tcp_nodelay(true)
}

/// Events of a socket come once for each change.
fn watch(socket: &Socket, token: Token, surface: &Surface) -> io::Result<()> {
    let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
    Ok(surface.epoll.add(socket, EpollEvent::new(flags, token.to_data()))?)
}

/// Takes all that a socket has received. Returns how many bytes that are, and whether the other end sends no more.
fn take_all(socket: &Socket, room: &mut [MaybeUninit<u8>]) -> io::Result<(u64, bool)> {
    let mut all = 0;
    loop {
        // TCP throws away what is received with MSG_TRUNC, without copying it (tcp(7))
        match socket.recv_with_flags(room, libc::MSG_TRUNC) {
            Ok(0) => return Ok((all, true)),
            Ok(bytes) => all += bytes as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok((all, false)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok((all, true)),
            Err(error) => return Err(error),
        }
    }
}

impl StreamConnection {
    /// A connection whose server waits for the client; `app` and `place` are what its events say, `number_of_user` and `number` its numbers in the application and in the run.
    pub fn listen(
        (app, place): (usize, usize),
        (number_of_user, number): (usize, u32),
        plan: &UserPlan,
        surface: &mut Surface,
    ) -> io::Result<StreamConnection> {
        let server = &plan.hosts[StreamDirection::Response.index()];
        surface.enter(&server.space)?;
        let port = u16::try_from(FIRST_PORT + number).map_err(io::Error::other)?;
        let listener = make_socket(plan)?;
        listener.bind(&SocketAddrV4::new(server.address, port).into())?;
        listener.listen(1)?;
        let token = Token { user: app, connection: place, part: Part::Listener };
        surface.epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, token.to_data()))?;
        Ok(StreamConnection {
            number_of_user,
            is_open: true,
            number,
            listener: Some(listener),
            sockets: [None, None],
            connected: [false; 2],
            ended: [false; 2],
            ways: Default::default(),
        })
    }

    /// The client opens the connection, if it has not.
    pub fn connect(
        &mut self,
        (app, place): (usize, usize),
        plan: &UserPlan,
        now: Instant,
        surface: &mut Surface,
    ) -> io::Result<()> {
        let way = StreamDirection::Request;
        if self.sockets[way.index()].is_some() {
            return Ok(());
        }
        for each in StreamDirection::ALL {
            surface.report.sample(self.number + each.index() as u32, sampled::START, now, None);
        }
        let [server, client] = &plan.hosts;
        surface.enter(&client.space)?;
        let socket = make_socket(plan)?;
        socket.bind(&SocketAddrV4::new(client.address, plan.client_port).into())?;
        let target = SocketAddrV4::new(server.address, (FIRST_PORT + self.number) as u16);
        match socket.connect(&target.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        watch(&socket, Token { user: app, connection: place, part: Part::End(way) }, surface)?;
        self.sockets[way.index()] = Some(socket);
        Ok(())
    }

    /// The server accepts the client, if it is there. Returns whether it is.
    pub fn accept(&mut self, (app, place): (usize, usize), plan: &UserPlan, surface: &Surface) -> io::Result<bool> {
        let way = StreamDirection::Response;
        let Some(listener) = &self.listener else { return Ok(false) };
        let socket = match listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        socket.set_nonblocking(true)?;
        set_up(&socket, plan)?;
        watch(&socket, Token { user: app, connection: place, part: Part::End(way) }, surface)?;
        self.sockets[way.index()] = Some(socket);
        self.connected[way.index()] = true;
        self.flush(way)?;
        Ok(true)
    }

    /// The socket that sends this way can be written to, and what waits is written. Returns whether the connection has come about with that.
    pub fn continue_sending(&mut self, way: StreamDirection) -> io::Result<bool> {
        let Some(socket) = &self.sockets[way.index()] else { return Ok(false) };
        // events of one look at all sockets may be older than this socket
        let is_new = !self.connected[way.index()] && socket.peer_addr().is_ok();
        self.connected[way.index()] |= is_new;
        self.flush(way)?;
        Ok(is_new)
    }

    /// Returns the error of the socket that sends this way, if there is such a socket.
    pub fn take_error(&self, way: StreamDirection) -> io::Result<Option<io::Error>> {
        let Some(socket) = &self.sockets[way.index()] else { return Ok(None) };
        Ok(Some(socket.take_error()?.unwrap_or_else(|| ErrorKind::ConnectionAborted.into())))
    }

    /// Takes all that has arrived at the socket that sends `end`.
    pub fn receive(&mut self, end: StreamDirection, room: &mut [MaybeUninit<u8>]) -> io::Result<Received> {
        let way = match end {
            StreamDirection::Response => StreamDirection::Request,
            StreamDirection::Request => StreamDirection::Response,
        };
        let Some(socket) = &self.sockets[end.index()] else { return Ok(Received { way, is_over: false }) };
        let (bytes, is_over) = take_all(socket, room)?;
        self.ways[way.index()].received += bytes;
        Ok(Received { way, is_over })
    }

    /// Takes the oldest end of a write that has arrived, as bytes of writes.
    pub fn take_arrival(&mut self, way: StreamDirection) -> Option<u64> {
        let StreamWay { received, ends, .. } = &mut self.ways[way.index()];
        let end = ends.front().copied().filter(|end| end.place <= *received)?;
        ends.pop_front();
        Some(end.bytes)
    }

    /// Returns the payload that has arrived, bytes.
    pub fn count_received(&self, way: StreamDirection) -> u64 {
        self.ways[way.index()].received
    }

    /// Writes `bytes`.
    pub fn write(&mut self, way: StreamDirection, bytes: u64) -> io::Result<()> {
        self.ways[way.index()].write(bytes);
        self.flush(way)
    }

    /// There is always more to send this way from now on.
    pub fn fill(&mut self, way: StreamDirection) -> io::Result<()> {
        self.ways[way.index()].fills = true;
        self.flush(way)
    }

    /// The application closes it: the client does, and the server when it learns of that. What no socket has taken is discarded.
    pub fn close(&mut self, now: Instant, report: &mut Report) -> io::Result<()> {
        let is_filled = self.ways[StreamDirection::Request.index()].fills;
        self.is_open = false;
        self.listener = None;
        for own in &mut self.ways {
            *own = StreamWay { received: own.received, ..StreamWay::default() };
        }
        if let (true, Some(socket)) = (is_filled, &self.sockets[StreamDirection::Request.index()]) {
            // what is in the socket is discarded as well
            socket.set_linger(Some(StdDuration::ZERO))?;
        }
        self.end(StreamDirection::Request, now, report)?;
        if self.sockets[StreamDirection::Response.index()].is_none() {
            self.end(StreamDirection::Response, now, report)?;
        }
        Ok(())
    }

    /// Closes the end that sends this way, with a last report of it.
    pub fn end(&mut self, way: StreamDirection, now: Instant, report: &mut Report) -> io::Result<()> {
        if !self.ended[way.index()] {
            self.report_end(way, sampled::END | sampled::COMPLETE, now, report)?;
            self.ended[way.index()] = true;
            self.sockets[way.index()] = None;
        }
        Ok(())
    }

    fn report_end(&self, way: StreamDirection, flags: u32, time: Instant, report: &mut Report) -> io::Result<()> {
        let sample = match &self.sockets[way.index()] {
            Some(socket) => Some(TcpInfo::read(socket.as_fd())?.sample(time, true)),
            None => None,
        };
        report.sample(self.number + way.index() as u32, flags, time, sample.as_ref());
        Ok(())
    }

    /// Reports the state of both ends, if it has begun and they are there.
    pub fn sample(&self, flags: u32, time: Instant, report: &mut Report) -> io::Result<()> {
        let has_begun = self.sockets[StreamDirection::Request.index()].is_some();
        let mut ends = StreamDirection::ALL.into_iter().filter(|way| !self.ended[way.index()]);
        if has_begun || !self.is_open {
            return ends.try_for_each(|way| self.report_end(way, flags, time, report));
        }
        Ok(())
    }

    /// Gives the socket as much of what goes this way as it takes.
    fn flush(&mut self, way: StreamDirection) -> io::Result<()> {
        let (Some(socket), true) = (&self.sockets[way.index()], self.connected[way.index()]) else { return Ok(()) };
        let own = &mut self.ways[way.index()];
        let mut piece = 0;
        if own.fills {
            let info = TcpInfo::read(socket.as_fd())?;
            socket.set_tcp_notsent_lowat(info.find_unsent(UNSENT_MS, LEAST_UNSENT))?;
            piece = LEAST_UNSENT * info.segment();
        }
        while own.unsent > 0 || piece > 0 {
            let (most, flags) = if own.unsent > 0 { (own.unsent, 0) } else { (piece, libc::MSG_EOR) };
            let part = &ZEROS[..usize::try_from(most).unwrap_or(WRITE).min(WRITE)];
            // Linux looks at what is unsent only where a new buffer begins, which may be 64 kB further on: the end of a record ends a buffer (tcp_sendmsg_locked)
            match socket.send_with_flags(part, libc::MSG_NOSIGNAL | flags) {
                Ok(bytes) => own.take(bytes as u64),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // the other end is gone, which a closed connection hears of by itself
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl StreamWay {
    fn write(&mut self, bytes: u64) {
        self.written += bytes;
        self.unsent += bytes;
        self.ends.push_back(WriteEnd { place: self.taken + self.unsent, bytes: self.written });
    }

    /// The socket has taken `bytes`: of writes, and if none are left, of what fills.
    fn take(&mut self, bytes: u64) {
        self.taken += bytes;
        self.unsent -= bytes.min(self.unsent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_end_behind_what_fills_the_stream_in_between() {
        let mut way = StreamWay::default();
        way.write(400);
        way.write(100);
        way.take(450);
        way.take(50);
        way.fills = true;
        way.take(10_000);
        way.write(200);
        // nothing of the filler is in the socket ahead of it that was not taken
        assert!(way.ends.iter().map(|end| (end.place, end.bytes)).eq([(400, 400), (500, 500), (10_700, 700)]));
        way.take(200);
        assert_eq!((way.unsent, way.taken), (0, 10_700));
    }
}
