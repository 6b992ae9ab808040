//! A user of an application of streams: its connections of TCP.

use super::connection::{Received, StreamConnection};
use super::plan::UserPlan;
use super::report::Report;
use super::{Part, Surface};
use dumbbell_core::app::{Load, StreamApp, StreamArrival, StreamDirection, StreamOutlet};
use dumbbell_core::units::Instant;
use nix::sys::epoll::EpollFlags;
use std::io::{self, ErrorKind};

/// A user.
pub struct StreamUser {
    app: usize,
    machine: Box<dyn StreamApp>,
    /// Which way it is measured.
    way: StreamDirection,
    plan: UserPlan,
    stop: Instant,
    /// All that there ever were.
    connections: Vec<StreamConnection>,
    /// Places in `connections` of those that are open, or are there for the whole run, by their numbers in the application.
    open: Vec<Option<usize>>,
    /// Actions of the application at this instant.
    actions: Vec<Action>,
}

/// An action of an application: on which connection, and which way.
enum Action {
    Write(usize, StreamDirection, u64),
    Fill(usize, StreamDirection),
    Close(usize),
}

/// Collects what an application does at one instant.
struct UserOutlet<'a> {
    app: usize,
    now: Instant,
    actions: &'a mut Vec<Action>,
    connections: &'a [StreamConnection],
    open: &'a [Option<usize>],
    report: &'a mut Report,
}

impl StreamOutlet for UserOutlet<'_> {
    fn write(&mut self, connection: usize, way: StreamDirection, bytes: u64) {
        self.actions.push(Action::Write(connection, way, bytes));
    }

    fn fill(&mut self, connection: usize, way: StreamDirection) {
        self.actions.push(Action::Fill(connection, way));
    }

    fn close(&mut self, connection: usize) {
        self.actions.push(Action::Close(connection));
    }

    fn count_received(&self, connection: usize, way: StreamDirection) -> u64 {
        let place = self.open.get(connection).copied().flatten();
        place.map_or(0, |place| self.connections[place].count_received(way))
    }

    fn begin_load(&mut self) {
        self.report.begin_load(self.app, self.now);
    }

    fn finish_load(&mut self, load: Load) {
        self.report.finish_load(self.app, load);
    }
}

impl StreamUser {
    /// A user whose servers wait for the connections that it has for the whole run.
    pub fn open(
        app: usize,
        (mut machine, way): (Box<dyn StreamApp>, StreamDirection),
        plan: &UserPlan,
        (start, stop): (Instant, Instant),
        surface: &mut Surface,
    ) -> io::Result<StreamUser> {
        let kept = machine.connections();
        let make = |place: usize| StreamConnection::listen((app, place), (place, plan.number + 2 * place as u32), plan, surface);
        let connections = (0..kept).map(make).collect::<io::Result<Vec<_>>>()?;
        machine.start(start);
        let open = (0..kept).map(Some).collect();
        Ok(StreamUser { app, machine, way, plan: plan.clone(), stop, connections, open, actions: Vec::new() })
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

    /// Reports the state of both ends of all connections that have begun.
    pub fn sample(&self, flags: u32, time: Instant, report: &mut Report) -> io::Result<()> {
        self.connections.iter().try_for_each(|connection| connection.sample(flags, time, report))
    }

    /// Lets the application act.
    fn call(&mut self, now: Instant, surface: &mut Surface, act: impl FnOnce(&mut dyn StreamApp, &mut dyn StreamOutlet)) {
        let StreamUser { app, machine, actions, connections, open, .. } = self;
        act(&mut **machine, &mut UserOutlet { app: *app, now, actions, connections, open, report: &mut surface.report });
    }

    /// The time of [`StreamUser::next`] has come.
    pub fn serve(&mut self, now: Instant, surface: &mut Surface) -> io::Result<()> {
        if self.stop <= now {
            self.stop = Instant::NEVER;
            self.machine.stop(now);
        }
        if self.machine.next_timer() <= now {
            self.call(now, surface, |machine, outlet| machine.on_timer(now, outlet));
        }
        self.carry_out(now, surface)
    }

    /// Something happened to a socket of the connection at `place`.
    pub fn handle(
        &mut self,
        (place, part): (usize, Part),
        events: EpollFlags,
        now: Instant,
        surface: &mut Surface,
    ) -> io::Result<()> {
        let connection = &mut self.connections[place];
        let way = match part {
            Part::Listener => {
                if connection.accept((self.app, place), &self.plan, surface)? {
                    self.receive(place, StreamDirection::Response, now, surface)?;
                }
                return self.carry_out(now, surface);
            }
            Part::End(way) => way,
        };
        if events.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP) {
            let Some(error) = connection.take_error(way)? else { return Ok(()) };
            if connection.is_open {
                let number = connection.number_of_user;
                return Err(io::Error::new(error.kind(), format!("app[{}]: connection {number}: {error}", self.app)));
            }
            return connection.end(way, now, &mut surface.report);
        }
        if events.contains(EpollFlags::EPOLLOUT) && connection.continue_sending(way)? {
            let number = connection.number_of_user;
            if way == StreamDirection::Request && connection.is_open {
                self.call(now, surface, |machine, outlet| machine.on_connected(number, now, outlet));
            }
        }
        if events.contains(EpollFlags::EPOLLIN) {
            self.receive(place, way, now, surface)?;
        }
        self.carry_out(now, surface)
    }

    /// Takes all that the socket has that sends `end`, of the connection at `place`, and tells the application.
    fn receive(&mut self, place: usize, end: StreamDirection, now: Instant, surface: &mut Surface) -> io::Result<()> {
        let Received { way, is_over } = self.connections[place].receive(end, &mut surface.room)?;
        while self.connections[place].is_open {
            let Some(bytes) = self.connections[place].take_arrival(way) else { break };
            let connection = self.connections[place].number_of_user;
            self.call(now, surface, |machine, outlet| {
                machine.on_arrival(StreamArrival { connection, way, bytes }, now, outlet);
            });
            self.carry_out(now, surface)?;
        }
        if !is_over {
            return Ok(());
        }
        if self.connections[place].is_open {
            let number = self.connections[place].number_of_user;
            let error = format!("app[{}]: connection {number}: the other end closed it", self.app);
            return Err(io::Error::new(ErrorKind::ConnectionAborted, error));
        }
        self.connections[place].end(end, now, &mut surface.report)
    }

    /// Does what the application has asked for.
    fn carry_out(&mut self, now: Instant, surface: &mut Surface) -> io::Result<()> {
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Write(connection, way, bytes) => self.connect(connection, now, surface)?.write(way, bytes)?,
                Action::Fill(connection, way) => self.connect(connection, now, surface)?.fill(way)?,
                Action::Close(connection) => {
                    if let Some(place) = self.open.get_mut(connection).and_then(Option::take) {
                        self.connections[place].close(now, &mut surface.report)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns connection `number` of the application, which the client opens if it has not.
    fn connect(&mut self, number: usize, now: Instant, surface: &mut Surface) -> io::Result<&mut StreamConnection> {
        if self.open.len() <= number {
            self.open.resize(number + 1, None);
        }
        let place = match self.open[number] {
            Some(place) => place,
            None => {
                let place = self.connections.len();
                let of_run = surface.take_number()?;
                self.connections.push(StreamConnection::listen((self.app, place), (number, of_run), &self.plan, surface)?);
                surface.report.open(self.app, of_run, number);
                self.open[number] = Some(place);
                place
            }
        };
        let connection = &mut self.connections[place];
        connection.connect((self.app, place), &self.plan, now, surface)?;
        Ok(connection)
    }
}
