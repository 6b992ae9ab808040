//! TCP flows of the kernel between the two ends: senders in one thread, receivers in another.

use crate::clock::MonotonicClock;
use crate::frame::{Tuple, TCP};
use crate::namespaces::{LEFT, LEFT_ECN, RIGHT, RIGHT_ECN};
use crate::tcp_info::TcpInfo;
use dumbbell_config::SAMPLE_INTERVAL;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_measure::from_live::{LiveFlow, TcpSample};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Port of the first sender; the others follow.
const FIRST_PORT: u16 = 10_000;
/// Port of the receivers of the first congestion control; the others follow.
const RECEIVER_PORT: u16 = 5_001;
/// Most flows of a run: two threads serve them all.
pub const MOST_FLOWS: usize = 1_000;
/// Bytes per write to a socket, as in iperf3.
const WRITE: usize = 128 << 10;
/// Unsent bytes in a socket whose flow stops before the run is over: what is in it then still leaves.
const UNSENT: u32 = 16 << 10;
/// How often a flow that has written all is asked whether it has arrived.
const LOOK: Duration = Duration::from_millis(1);
/// Bytes per read of a receiver; the kernel discards them.
const READ: usize = 1 << 20;

/// A flow to be carried out.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// The kernel's name of the congestion control.
    pub cc: String,
    /// When it connects.
    pub start: Instant,
    /// Nothing new is written from then on.
    pub stop: Option<Instant>,
    /// Payload, bytes; as much as it can if unset.
    pub size: Option<u64>,
    /// Whether it asks for ECN.
    pub ecn: bool,
    /// Differentiated-services codepoint.
    pub dscp: u8,
    /// Whether the flow sends from the right to the left.
    pub up: bool,
}

/// All flows of a run.
pub struct Plans {
    plans: Vec<FlowPlan>,
    /// Congestion controls; the receivers of each have a port of their own, since some answer in their own way (DCTCP).
    ccs: Vec<String>,
}

/// The error of a kernel that uses another value than the one set.
fn unlike(key: &str, asked: impl std::fmt::Display, got: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("the kernel has not what it was told: {key}: asked {asked}, got {got}"))
}

/// Chooses the congestion control of a socket, and reads it back.
fn choose(socket: &Socket, cc: &str) -> io::Result<()> {
    socket.set_tcp_congestion(cc.as_bytes())?;
    let told = socket.tcp_congestion()?;
    let got = String::from_utf8_lossy(&told);
    let got = got.trim_end_matches('\0');
    if got == cc {
        return Ok(());
    }
    Err(unlike("flows.cc", cc, got))
}

impl Plans {
    /// At most [`MOST_FLOWS`] of them.
    pub fn new(plans: Vec<FlowPlan>) -> Plans {
        let mut ccs: Vec<String> = Vec::new();
        plans.iter().for_each(|plan| {
            if !ccs.contains(&plan.cc) {
                ccs.push(plan.cc.clone());
            }
        });
        Plans { plans, ccs }
    }

    fn receiver(&self, plan: &FlowPlan) -> SocketAddrV4 {
        let number = self.ccs.iter().position(|cc| *cc == plan.cc).unwrap_or(0);
        let [plain, ecn] = if plan.up { [LEFT, LEFT_ECN] } else { [RIGHT, RIGHT_ECN] };
        SocketAddrV4::new(if plan.ecn { ecn } else { plain }, RECEIVER_PORT + number as u16)
    }

    fn sender(&self, number: usize) -> SocketAddrV4 {
        SocketAddrV4::new(if self.plans[number].up { RIGHT } else { LEFT }, FIRST_PORT + number as u16)
    }

    /// Whether any flow sends up, or down.
    pub fn has_direction(&self, up: bool) -> bool {
        self.plans.iter().any(|plan| plan.up == up)
    }

    /// Returns addresses and ports of the flows on the wire, in order.
    pub fn tuples(&self) -> impl Iterator<Item = Tuple> + '_ {
        self.plans.iter().enumerate().map(|(number, plan)| {
            let (from, to) = (self.sender(number), self.receiver(plan));
            let mapped = |address: &Ipv4Addr| u128::from(address.to_ipv6_mapped());
            Tuple { src: mapped(from.ip()), dst: mapped(to.ip()), src_port: from.port(), dst_port: to.port(), protocol: TCP }
        })
    }

    /// Opens what the flows connect to; to be called in the namespace of the receivers.
    ///
    /// # Errors
    /// A congestion control that the kernel does not have, among others.
    pub fn listen(&self) -> io::Result<Receivers> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let mut sockets = Vec::new();
        for (number, cc) in self.ccs.iter().enumerate() {
            let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
            choose(&socket, cc)?;
            let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, RECEIVER_PORT + number as u16);
            socket.bind(&any.into())?;
            socket.listen(MOST_FLOWS as i32)?;
            epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, sockets.len() as u64))?;
            sockets.push(socket);
        }
        Ok(Receivers { listeners: sockets.len(), sockets, epoll })
    }

    /// Carries out all flows that send `up`, or all others, until `end`, or until `stop` is set; to be called in the namespace of their senders.
    /// `series` is the interval of the time series, for samples at its points. The others have nothing in what is returned.
    ///
    /// # Errors
    /// A flow could not be opened.
    pub fn send(
        &self,
        up: bool,
        clock: &MonotonicClock,
        (end, series): (Instant, Option<Duration>),
        stop: &AtomicBool,
    ) -> io::Result<Vec<LiveFlow>> {
        let mut senders = Senders {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            senders: self.plans.iter().map(|_| TrafficSender::default()).collect(),
            flows: vec![LiveFlow::default(); self.plans.len()],
            plans: self,
            up,
        };
        senders.run(clock, end, series, stop)?;
        Ok(senders.flows)
    }
}

/// Takes whatever comes.
pub struct Receivers {
    epoll: Epoll,
    listeners: usize,
    sockets: Vec<Socket>,
}

impl Receivers {
    /// Receives until `stop` is set.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); 64];
        let mut room = vec![MaybeUninit::uninit(); READ];
        while !stop.load(Ordering::Relaxed) {
            let count = wait(&self.epoll, &mut events, 20)?;
            for event in &events[..count] {
                let number = event.data() as usize;
                if number < self.listeners {
                    self.accept(number)?;
                } else {
                    // TCP throws away what is received with MSG_TRUNC, without copying it (tcp(7))
                    match self.sockets[number].recv_with_flags(&mut room, libc::MSG_TRUNC) {
                        Ok(1..) => {}
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        // over, or reset
                        _ => self.epoll.delete(&self.sockets[number])?,
                    }
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize) -> io::Result<()> {
        match self.sockets[listener].accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(true)?;
                self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, self.sockets.len() as u64))?;
                self.sockets.push(socket);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Waits for events for at most `ms`; an interrupted wait has none.
fn wait(epoll: &Epoll, events: &mut [EpollEvent], ms: u16) -> io::Result<usize> {
    match epoll.wait(events, EpollTimeout::from(ms)) {
        Err(nix::errno::Errno::EINTR) => Ok(0),
        other => Ok(other?),
    }
}

#[derive(Default)]
struct TrafficSender {
    socket: Option<Socket>,
    written: u64,
    /// Nothing will be written any more.
    is_silent: bool,
}

struct Senders<'a> {
    epoll: Epoll,
    senders: Vec<TrafficSender>,
    flows: Vec<LiveFlow>,
    plans: &'a Plans,
    /// Which of the plans are ours.
    up: bool,
}

impl Senders<'_> {
    fn run(&mut self, clock: &MonotonicClock, end: Instant, series: Option<Duration>, stop: &AtomicBool) -> io::Result<()> {
        let payload = vec![0; WRITE];
        let mut events = [EpollEvent::empty(); 64];
        let (mut regular, mut point) =
            (Instant::ZERO + SAMPLE_INTERVAL, series.map_or(Instant::NEVER, |first| Instant::ZERO + first));
        while !stop.load(Ordering::Relaxed) {
            let now = clock.now();
            if regular.min(point) <= now {
                // samples of the last instant of the run count, too
                let at = regular.min(point).min(end);
                self.sample(at, regular <= now);
                if regular <= now {
                    regular += SAMPLE_INTERVAL;
                }
                if point <= now {
                    point += series.unwrap_or(Duration::MAX);
                }
                continue;
            }
            if now >= end {
                self.sample(end, false);
                return Ok(());
            }
            let next = self.start_and_stop(now)?.min(regular).min(point).min(end);
            // rounded up, so that it does not turn on the spot
            let ms = next.saturating_since(now).0.div_ceil(1_000_000).min(20) as u16;
            let count = wait(&self.epoll, &mut events, ms)?;
            for event in &events[..count] {
                self.write(event.data() as usize, &payload)?;
            }
        }
        Ok(())
    }

    /// Starts and stops what is to, and sees what is over. Returns when there is something to do next.
    fn start_and_stop(&mut self, now: Instant) -> io::Result<Instant> {
        let mut next = Instant::NEVER;
        for number in 0..self.senders.len() {
            let plan = &self.plans.plans[number];
            if plan.up != self.up {
                continue;
            }
            let stop = plan.stop.unwrap_or(Instant::NEVER);
            let sender = &mut self.senders[number];
            if self.flows[number].start.is_none() {
                if plan.start.max(now) >= stop {
                    continue;
                }
                if plan.start <= now {
                    self.open(number)?;
                    self.flows[number].start = Some(now);
                } else {
                    next = next.min(plan.start);
                }
                next = next.min(stop);
                continue;
            }
            if let (Some(socket), false) = (&sender.socket, sender.is_silent) {
                if stop <= now {
                    sender.is_silent = true;
                    self.epoll.delete(socket)?;
                } else {
                    next = next.min(stop);
                }
            }
            if let (Some(size), true, Some(socket)) = (plan.size, sender.is_silent, &sender.socket) {
                if self.flows[number].finished.is_none() {
                    let info = TcpInfo::read(socket.as_fd())?;
                    if info.acked_payload() >= size {
                        self.flows[number].finished = Some(now);
                        self.flows[number].samples.push(info.sample(now, false));
                        sender.socket = None;
                    } else {
                        next = next.min(now + LOOK);
                    }
                }
            }
        }
        Ok(next)
    }

    fn open(&mut self, number: usize) -> io::Result<()> {
        let plan = &self.plans.plans[number];
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        choose(&socket, &plan.cc)?;
        let tos = u32::from(plan.dscp) << 2;
        socket.set_tos_v4(tos)?;
        match socket.tos_v4()? {
            got if got == tos => {}
            got => return Err(unlike("flows.dscp", plan.dscp, got >> 2)),
        }
        if plan.stop.is_some() {
            socket.set_tcp_notsent_lowat(UNSENT)?;
        }
        socket.bind(&self.plans.sender(number).into())?;
        match socket.connect(&self.plans.receiver(plan).into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLOUT, number as u64))?;
        self.senders[number].socket = Some(socket);
        Ok(())
    }

    /// The socket of a flow has room.
    fn write(&mut self, number: usize, payload: &[u8]) -> io::Result<()> {
        let sender = &mut self.senders[number];
        let Some(socket) = &mut sender.socket else { return Ok(()) };
        let left = self.plans.plans[number].size.map_or(u64::MAX, |size| size - sender.written);
        let part = &payload[..payload.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        match socket.write(part) {
            Ok(written) => sender.written += written as u64,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        if self.plans.plans[number].size == Some(sender.written) {
            sender.is_silent = true;
            self.epoll.delete(&*socket)?;
        }
        Ok(())
    }

    fn sample(&mut self, time: Instant, is_regular: bool) {
        for (sender, flow) in self.senders.iter().zip(&mut self.flows) {
            let said = sender.socket.as_ref().and_then(|socket| TcpInfo::read(socket.as_fd()).ok());
            match (said, flow.samples.last()) {
                (Some(info), _) => flow.samples.push(info.sample(time, is_regular)),
                // over: it stays as it was, but is not looked at by ss any more
                (None, Some(&last)) if flow.finished.is_none() => {
                    flow.samples.push(TcpSample { time, is_regular: false, ..last })
                }
                _ => {}
            }
        }
    }
}
