//! Users of applications over sockets of a kernel, with both ends in this process: the state machines of the simulator, in a guest whose clock is
//! virtual.
//!
//! A connection is one of TCP, which carries both ways; datagrams of both ways have one pair of sockets. What the user waited for, and each
//! datagram that arrived, goes into records that `dumbbell_measure::from_capture` reads.

mod connection;
mod datagrams;
mod plan;
mod report;
mod streams;

pub use self::plan::{Host, Plan, UserPlan};

use self::datagrams::DatagramUser;
use self::report::Report;
use self::streams::StreamUser;
use crate::clock::MonotonicClock;
use dumbbell_config::schedule::Schedule;
use dumbbell_config::{RunConfig, SAMPLE_INTERVAL};
use dumbbell_core::app::{AnyApp, AppContext, AppKind, StreamDirection};
use dumbbell_core::units::Instant;
use dumbbell_measure::from_capture::sampled;
use nix::sched::{setns, CloneFlags};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration as StdDuration;

/// Port of the first sender of a guest; a server's port is this and the number of its responses.
const FIRST_PORT: u32 = 10_000;
/// Bytes per read; the kernel discards them.
const READ: usize = 1 << 20;
/// Data of an event of the timer.
const TIMER: u64 = u64::MAX;
/// Sockets of a connection, in what an event carries.
const PARTS: u64 = 4;

/// A user, by what its application is made of.
enum User {
    Streams(StreamUser),
    Datagrams(DatagramUser),
}

/// A part of a connection that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token {
    user: usize,
    connection: usize,
    part: Part,
}

/// A socket of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The end that sends this way.
    End(StreamDirection),
    /// The socket at which the server waits.
    Listener,
}

/// Most connections of a user: each has its own ports.
const MOST_CONNECTIONS: u64 = 1 << 20;

impl Token {
    fn to_data(self) -> u64 {
        let part = match self.part {
            Part::End(way) => way.index() as u64,
            Part::Listener => 2,
        };
        (self.user as u64 * MOST_CONNECTIONS + self.connection as u64) * PARTS + part
    }

    fn from_data(data: u64) -> Token {
        let (pair, part) = (data / PARTS, data % PARTS);
        let part = match part {
            2 => Part::Listener,
            way => Part::End(StreamDirection::ALL[way as usize & 1]),
        };
        Token { user: (pair / MOST_CONNECTIONS) as usize, connection: (pair % MOST_CONNECTIONS) as usize, part }
    }
}

/// Sockets, and what is reported of them.
struct Surface {
    epoll: Epoll,
    report: Report,
    entered: String,
    /// Room for what is read and not looked at.
    room: Vec<MaybeUninit<u8>>,
    /// Number of the responses of the next connection that is not there for the whole run, and the first that is too large.
    next_number: u32,
    numbers_end: u32,
}

impl Surface {
    /// Returns the number in the run of the responses of a new connection.
    fn take_number(&mut self) -> io::Result<u32> {
        let number = self.next_number;
        if number + 1 >= self.numbers_end {
            let most = self.numbers_end / 2;
            return Err(io::Error::other(format!(
                "app: more than {most} connections in one run, each of which has its own port: use a shorter run, or the simulator"
            )));
        }
        self.next_number += 2;
        Ok(number)
    }

    /// Sockets are made in the namespace `space` from now on.
    fn enter(&mut self, space: &str) -> io::Result<()> {
        if self.entered != space {
            let file = File::open(format!("/run/netns/{space}"))?;
            setns(file, CloneFlags::CLONE_NEWNET)?;
            space.clone_into(&mut self.entered);
        }
        Ok(())
    }
}

/// All users of a run.
struct Users {
    users: Vec<User>,
    surface: Surface,
    clock: MonotonicClock,
    timer: TimerFd,
    started: u64,
    /// When each user has something to do, and the same by time.
    due: Vec<Instant>,
    agenda: BTreeSet<(Instant, usize)>,
}

impl Users {
    fn new(config: &RunConfig, guest: &Plan, started: u64) -> io::Result<Users> {
        let plans = &guest.users[..];
        let schedule = Schedule::new(config);
        let listed = schedule.flows.len() + schedule.udp.len() + schedule.app_endpoints().len() + schedule.web.len();
        let mut surface = Surface {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            report: Report::default(),
            entered: String::new(),
            room: vec![MaybeUninit::uninit(); READ],
            // behind everything whose number is known ahead
            next_number: listed as u32,
            numbers_end: u32::from(guest.receivers).saturating_sub(FIRST_PORT),
        };
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        surface.epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        let seed = config.run.seed;
        let first = plans.first().map_or(0, |plan| plan.number);
        let mut users = Vec::new();
        for (app, (one, plan)) in config.apps.iter().zip(plans).enumerate() {
            let start = one.start.draw(seed, "app start", app);
            let endpoint = plan.number - first;
            users.push(match one.spec.build(&AppContext { seed, number: app as u64 }) {
                AnyApp::Streams(machine) => {
                    let AppKind::Streams(way) = one.spec.kind() else { continue };
                    let stop = one.params.stop.unwrap_or(Instant::NEVER);
                    User::Streams(StreamUser::open(app, (machine, way), plan, (start, stop), &mut surface)?)
                }
                AnyApp::Datagrams(mut ways) => {
                    if ways[0].take_control().is_some() {
                        return Err(io::Error::other(format!("app[{app}]: {} does not run here", one.spec.name())));
                    }
                    let times = (start, config);
                    User::Datagrams(DatagramUser::open((app, endpoint), ways.into(), (plan, one), times, &mut surface)?)
                }
                AnyApp::Media(way) => {
                    let times = (start, config);
                    User::Datagrams(DatagramUser::open((app, endpoint), vec![way], (plan, one), times, &mut surface)?)
                }
            });
        }
        let due = vec![Instant::NEVER; users.len()];
        let clock = MonotonicClock::started_at(started);
        let mut all = Users { users, surface, clock, timer, started, due, agenda: BTreeSet::new() };
        (0..all.users.len()).for_each(|user| all.plan(user));
        Ok(all)
    }

    /// User `user` is served when it next has something to do.
    fn plan(&mut self, user: usize) {
        let next = match &self.users[user] {
            User::Streams(one) => one.next(),
            User::Datagrams(one) => one.next(),
        };
        let before = std::mem::replace(&mut self.due[user], next);
        if before != next {
            self.agenda.remove(&(before, user));
            if next != Instant::NEVER {
                self.agenda.insert((next, user));
            }
        }
    }

    fn sample(&mut self, flags: u32, time: Instant) -> io::Result<()> {
        for user in &self.users {
            match user {
                User::Streams(one) => one.sample(flags, time, &mut self.surface.report)?,
                User::Datagrams(one) => one.sample(flags, time, &mut self.surface.report),
            }
        }
        Ok(())
    }

    /// The measured time of streams begins.
    fn forget(&mut self, now: Instant) {
        for user in &mut self.users {
            if let User::Streams(one) = user {
                one.forget(now);
            }
        }
    }

    /// The run is over: what applications of streams measured.
    fn report_figures(&mut self, now: Instant) {
        for user in &mut self.users {
            if let User::Streams(one) = user {
                one.report_figures(now, &mut self.surface.report);
            }
        }
    }

    fn carry_out(&mut self, config: &RunConfig, tail: Instant) -> io::Result<()> {
        let (from, end) = (config.measured_from(), config.end());
        let mut poll = Instant::ZERO + SAMPLE_INTERVAL;
        let mut is_over = false;
        let mut events = [EpollEvent::empty(); 256];
        self.clock.wait_for_start()?;
        loop {
            let now = self.clock.now();
            if !is_over && now >= poll.min(end) {
                let due = poll.min(end);
                is_over = due == end;
                self.sample(if is_over { sampled::POLL | sampled::END } else { sampled::POLL }, due)?;
                if due == from {
                    self.forget(due);
                }
                if is_over {
                    self.report_figures(due);
                }
                poll += SAMPLE_INTERVAL;
                continue;
            }
            if now >= tail {
                return Ok(());
            }
            while let Some(&(at, user)) = self.agenda.first() {
                if at > now {
                    break;
                }
                self.agenda.pop_first();
                self.due[user] = Instant::NEVER;
                match &mut self.users[user] {
                    User::Streams(one) => one.serve(now, &mut self.surface)?,
                    User::Datagrams(one) => one.serve(now, &mut self.surface)?,
                }
                self.plan(user);
                if self.due[user] <= now {
                    break; // others have their turn
                }
            }
            let next = self.agenda.first().map_or(Instant::NEVER, |&(at, _)| at);
            let next = next.min(if is_over { tail } else { poll.min(end) });
            if next <= now {
                continue;
            }
            let at = StdDuration::from_nanos(self.started.saturating_add(next.0));
            self.timer.set(Expiration::OneShot(TimeSpec::from_duration(at)), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
            let count = match self.surface.epoll.wait(&mut events, EpollTimeout::NONE) {
                Err(nix::errno::Errno::EINTR) => 0,
                other => other?,
            };
            for event in &events[..count] {
                self.handle(event)?;
            }
        }
    }

    fn handle(&mut self, event: &EpollEvent) -> io::Result<()> {
        if event.data() == TIMER {
            return match self.timer.wait() {
                Ok(()) | Err(nix::errno::Errno::EAGAIN) => Ok(()),
                Err(error) => Err(error.into()),
            };
        }
        let Token { user, connection, part } = Token::from_data(event.data());
        let now = self.clock.now();
        match (&mut self.users[user], part) {
            (User::Streams(one), part) => one.handle((connection, part), event.events(), now, &mut self.surface)?,
            (User::Datagrams(one), Part::End(way)) => one.receive(way, now, &mut self.surface)?,
            (User::Datagrams(_), Part::Listener) => {}
        }
        self.plan(user);
        Ok(())
    }
}

/// Carries out the applications of the run in `folder`, whose clock of the system was `started` at its start, ns: the file `plan` has the network, and
/// `config` the canonical configuration. Returns at the end of the run, with its samples in `samples.apps` and its records in `apps`.
///
/// # Errors
/// A file that cannot be read, and whatever the kernel refuses.
pub fn run(folder: &Path, started: u64) -> io::Result<()> {
    let config = serde_json::from_slice(&fs::read(folder.join("config"))?)?;
    let config = RunConfig::from_json(&config).map_err(io::Error::other)?;
    let plan = Plan::parse(&fs::read_to_string(folder.join("plan"))?)?;
    if plan.users.len() != config.apps.len() {
        return Err(io::Error::other(format!("plan: {} users of applications, of {}", plan.users.len(), config.apps.len())));
    }
    let mut users = Users::new(&config, &plan, started)?;
    users.carry_out(&config, config.end() + plan.tail)?;
    fs::write(folder.join("samples.apps"), &users.surface.report.samples)?;
    fs::write(folder.join("apps"), &users.surface.report.records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_event_carries_says_which_socket_it_is_about() {
        for user in [0, 7, 9_999] {
            for connection in [0, 1, 99] {
                for part in [Part::Listener, Part::End(StreamDirection::Response), Part::End(StreamDirection::Request)] {
                    let token = Token { user, connection, part };
                    assert_eq!(Token::from_data(token.to_data()), token);
                    assert_ne!(token.to_data(), TIMER);
                }
            }
        }
    }
}
