//! A user of an application of streams: its connections of TCP.

use super::plan::UserPlan;
use super::report::Report;
use super::{Part, Surface, Token, FIRST_PORT};
use crate::tcp_info::TcpInfo;
use dumbbell_core::app::{Load, StreamApp, StreamArrival, StreamDirection, StreamOutlet};
use dumbbell_core::units::Instant;
use dumbbell_measure::from_capture::sampled;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::SocketAddrV4;
use std::os::fd::AsFd;

/// Bytes per write to a socket at the most: what fits is taken at once.
const WRITE: usize = 1 << 20;
static ZEROS: [u8; WRITE] = [0; WRITE];

/// Bytes that go one way.
#[derive(Default)]
struct StreamWay {
    /// Bytes that the application has written, and of these the ones that the socket has not taken.
    written: u64,
    unsent: u64,
    /// Bytes that have arrived.
    received: u64,
    /// Where the writes end that the application does not know to have arrived.
    ends: VecDeque<u64>,
}

/// A connection; sockets and what they send by [`StreamDirection::index`].
struct Connection {
    /// Number of its responses in the run; that of its requests follows.
    number: u32,
    listener: Socket,
    sockets: [Option<Socket>; 2],
    connected: [bool; 2],
    ways: [StreamWay; 2],
}

/// A user.
pub struct StreamUser {
    app: usize,
    machine: Box<dyn StreamApp>,
    /// Which way it is measured.
    way: StreamDirection,
    plan: UserPlan,
    stop: Instant,
    connections: Vec<Connection>,
    /// Writes that the application has asked for at this instant.
    writes: Vec<(usize, StreamDirection, u64)>,
    /// The application has asked for a connection that is filled or closed, which there is not.
    lacks: bool,
}

/// Collects what an application does at one instant.
struct UserOutlet<'a> {
    app: usize,
    now: Instant,
    writes: &'a mut Vec<(usize, StreamDirection, u64)>,
    lacks: &'a mut bool,
    report: &'a mut Report,
}

impl StreamOutlet for UserOutlet<'_> {
    fn write(&mut self, connection: usize, way: StreamDirection, bytes: u64) {
        self.writes.push((connection, way, bytes));
    }

    fn fill(&mut self, _connection: usize, _way: StreamDirection) {
        *self.lacks = true;
    }

    fn close(&mut self, _connection: usize) {
        *self.lacks = true;
    }

    fn count_received(&self, _connection: usize, _way: StreamDirection) -> u64 {
        0
    }

    fn begin_load(&mut self) {
        self.report.begin_load(self.app, self.now);
    }

    fn finish_load(&mut self, load: Load) {
        self.report.finish_load(self.app, load);
    }
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

impl StreamUser {
    /// A user whose servers wait for its connections.
    pub fn open(
        app: usize,
        (mut machine, way): (Box<dyn StreamApp>, StreamDirection),
        plan: &UserPlan,
        (start, stop): (Instant, Instant),
        surface: &mut Surface,
    ) -> io::Result<StreamUser> {
        let server = &plan.hosts[StreamDirection::Response.index()];
        let mut connections = Vec::new();
        for connection in 0..machine.connections() {
            surface.enter(&server.space)?;
            let number = plan.number + 2 * connection as u32;
            let port = u16::try_from(FIRST_PORT + number).map_err(io::Error::other)?;
            let listener = make_socket(plan)?;
            listener.bind(&SocketAddrV4::new(server.address, port).into())?;
            listener.listen(1)?;
            let token = Token { user: app, connection, part: Part::Listener };
            surface.epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, token.to_data()))?;
            connections.push(Connection {
                number,
                listener,
                sockets: [None, None],
                connected: [false; 2],
                ways: Default::default(),
            });
        }
        machine.start(start);
        Ok(StreamUser { app, machine, way, plan: plan.clone(), stop, connections, writes: Vec::new(), lacks: false })
    }

    /// When it next has something to do.
    pub fn next(&self) -> Instant {
        self.machine.next_timer().min(self.stop)
    }

    /// Discards the measurements so far.
    pub fn forget(&mut self, now: Instant) {
        self.machine.forget(now);
    }

    /// Reports what the application measured.
    pub fn report_figures(&mut self, now: Instant, report: &mut Report) {
        report.figures(self.app, self.way, &self.machine.figures(now));
    }

    /// Reports the state of both ends of all connections that are open.
    pub fn sample(&self, flags: u32, time: Instant, report: &mut Report) -> io::Result<()> {
        for connection in self.connections.iter().filter(|one| one.sockets[StreamDirection::Request.index()].is_some()) {
            for way in StreamDirection::ALL {
                let number = connection.number + way.index() as u32;
                match &connection.sockets[way.index()] {
                    Some(socket) => {
                        let sample = TcpInfo::read(socket.as_fd())?.sample(time, true);
                        report.sample(number, flags, time, Some(&sample));
                    }
                    None => report.sample(number, flags, time, None),
                }
            }
        }
        Ok(())
    }

    /// The time of [`StreamUser::next`] has come.
    pub fn serve(&mut self, now: Instant, surface: &mut Surface) -> io::Result<()> {
        if self.stop <= now {
            self.stop = Instant::NEVER;
            self.machine.stop(now);
        }
        if self.machine.next_timer() <= now {
            let StreamUser { app, machine, writes, lacks, .. } = self;
            machine.on_timer(now, &mut UserOutlet { app: *app, now, writes, lacks, report: &mut surface.report });
        }
        self.write(now, surface)
    }

    /// Something happened to a socket of a connection.
    pub fn handle(
        &mut self,
        (connection, part): (usize, Part),
        events: EpollFlags,
        now: Instant,
        surface: &mut Surface,
    ) -> io::Result<()> {
        let way = match part {
            Part::Listener => return self.accept(connection, now, surface),
            Part::End(way) => way,
        };
        let one = &mut self.connections[connection];
        let Some(socket) = &one.sockets[way.index()] else { return Ok(()) };
        if events.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP) {
            let error = socket.take_error()?.unwrap_or_else(|| ErrorKind::ConnectionAborted.into());
            return Err(io::Error::new(error.kind(), format!("app[{}]: connection {connection}: {error}", self.app)));
        }
        if events.contains(EpollFlags::EPOLLOUT) {
            one.connected[way.index()] = true;
            one.flush(way)?;
        }
        if events.contains(EpollFlags::EPOLLIN) {
            self.receive(connection, way, now, surface)?;
        }
        Ok(())
    }

    fn accept(&mut self, connection: usize, now: Instant, surface: &mut Surface) -> io::Result<()> {
        let way = StreamDirection::Response;
        let one = &mut self.connections[connection];
        let socket = match one.listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        socket.set_nonblocking(true)?;
        set_up(&socket, &self.plan)?;
        watch(&socket, Token { user: self.app, connection, part: Part::End(way) }, surface)?;
        one.sockets[way.index()] = Some(socket);
        one.connected[way.index()] = true;
        one.flush(way)?;
        self.receive(connection, way, now, surface)
    }

    /// Takes all that the socket that sends `end` has, and tells the application.
    fn receive(&mut self, connection: usize, end: StreamDirection, now: Instant, surface: &mut Surface) -> io::Result<()> {
        let way = match end {
            StreamDirection::Response => StreamDirection::Request,
            StreamDirection::Request => StreamDirection::Response,
        };
        let one = &mut self.connections[connection];
        if let Some(socket) = &one.sockets[end.index()] {
            one.ways[way.index()].received += take_all(socket, &mut surface.room)?;
        }
        loop {
            let StreamWay { received, ends, .. } = &mut self.connections[connection].ways[way.index()];
            let Some(bytes) = ends.front().copied().filter(|place| *place <= *received) else { break };
            ends.pop_front();
            let StreamUser { app, machine, writes, lacks, .. } = self;
            let outlet = &mut UserOutlet { app: *app, now, writes, lacks, report: &mut surface.report };
            machine.on_arrival(StreamArrival { connection, way, bytes }, now, outlet);
        }
        self.write(now, surface)
    }

    /// Writes what the application has asked for.
    fn write(&mut self, now: Instant, surface: &mut Surface) -> io::Result<()> {
        if self.lacks {
            return Err(io::Error::other(format!(
                "app[{}]: its connections are filled or closed, which does not run here",
                self.app
            )));
        }
        for (connection, way, bytes) in std::mem::take(&mut self.writes) {
            self.connect(connection, now, surface)?;
            let one = &mut self.connections[connection];
            let own = &mut one.ways[way.index()];
            own.written += bytes;
            own.unsent += bytes;
            own.ends.push_back(own.written);
            one.flush(way)?;
        }
        Ok(())
    }

    /// The client opens a connection, if it has not.
    fn connect(&mut self, connection: usize, now: Instant, surface: &mut Surface) -> io::Result<()> {
        let way = StreamDirection::Request;
        let one = &mut self.connections[connection];
        if one.sockets[way.index()].is_some() {
            return Ok(());
        }
        for each in StreamDirection::ALL {
            surface.report.sample(one.number + each.index() as u32, sampled::START, now, None);
        }
        let [server, client] = &self.plan.hosts;
        surface.enter(&client.space)?;
        let socket = make_socket(&self.plan)?;
        socket.bind(&SocketAddrV4::new(client.address, self.plan.client_port).into())?;
        let target = SocketAddrV4::new(server.address, (FIRST_PORT + one.number) as u16);
        match socket.connect(&target.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        watch(&socket, Token { user: self.app, connection, part: Part::End(way) }, surface)?;
        one.sockets[way.index()] = Some(socket);
        Ok(())
    }
}

/// Events of a socket come once for each change.
fn watch(socket: &Socket, token: Token, surface: &Surface) -> io::Result<()> {
    let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
    Ok(surface.epoll.add(socket, EpollEvent::new(flags, token.to_data()))?)
}

/// Takes all that a socket has received, and returns how many bytes that are.
fn take_all(socket: &Socket, room: &mut [MaybeUninit<u8>]) -> io::Result<u64> {
    let mut all = 0;
    loop {
        // TCP throws away what is received with MSG_TRUNC, without copying it (tcp(7))
        match socket.recv_with_flags(room, libc::MSG_TRUNC) {
            Ok(0) => return Ok(all),
            Ok(bytes) => all += bytes as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(all),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl Connection {
    /// Gives the socket as much of what goes this way as it takes.
    fn flush(&mut self, way: StreamDirection) -> io::Result<()> {
        let (Some(socket), true) = (&self.sockets[way.index()], self.connected[way.index()]) else { return Ok(()) };
        let own = &mut self.ways[way.index()];
        while own.unsent > 0 {
            let part = &ZEROS[..usize::try_from(own.unsent).unwrap_or(WRITE).min(WRITE)];
            match socket.send_with_flags(part, libc::MSG_NOSIGNAL) {
                Ok(bytes) => own.unsent -= bytes as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
