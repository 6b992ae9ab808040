//! A user of an application of datagrams: two sockets, over which both ways go. A video has data one way, and reports on them the other.

use super::plan::UserPlan;
use super::report::{ecn_bits, Report};
use super::{Part, Surface, Token, FIRST_PORT};
use dumbbell_config::{AppConfig, RunConfig};
use dumbbell_core::app::{PacketFate, StreamDirection};
use dumbbell_core::packet::{Ecn, UDP_HEADERS};
use dumbbell_core::protocol::{Answer, AnswerOutlet, Datagram, DatagramOutlet, Protocol};
use dumbbell_core::units::{Duration, Instant};
use dumbbell_measure::flow::whole_micros;
use dumbbell_measure::from_capture::sampled;
use dumbbell_measure::from_live::{SenderState, TcpSample};
use nix::cmsg_space;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use nix::sys::socket::{recvmsg, ControlMessageOwned, MsgFlags};
use socket2::{Domain, Protocol as SocketProtocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddrV4;
use std::os::fd::AsRawFd;

/// Number of a packet, by which captures know it again, and whether it is an answer: the first bytes of its payload. What it says besides is known here.
const HEAD: usize = 5;
/// Largest payload of UDP over IPv4.
const MOST: usize = 65_507;
static ZEROS: [u8; MOST] = [0; MOST];
/// Calls of a timer at one instant before others have their turn.
const CALLS: u32 = 10_000;

/// Something under way: its number on the wire, and what it says.
struct UnderWay<T> {
    number: u32,
    what: T,
    /// When the datagram left, or of an answer, when the last datagram left that had come before it.
    left: Instant,
}

/// Both ends of one way.
struct DatagramWay {
    protocol: Box<dyn Protocol>,
    sent: u64,
    answered: u64,
    received_bytes: u64,
    under_way: VecDeque<UnderWay<Datagram>>,
    answers: VecDeque<UnderWay<Answer>>,
    fate: PacketFate,
    /// When the datagram left that came last.
    left: Instant,
}

impl DatagramWay {
    fn new(protocol: Box<dyn Protocol>) -> DatagramWay {
        DatagramWay {
            protocol,
            sent: 0,
            answered: 0,
            received_bytes: 0,
            under_way: VecDeque::new(),
            answers: VecDeque::new(),
            fate: PacketFate::default(),
            left: Instant::ZERO,
        }
    }
}

/// A user; sockets and ways by [`StreamDirection::index`] of what they send.
pub struct DatagramUser {
    app: usize,
    endpoint: u32,
    number: u32,
    tos: u32,
    /// Type of service that each socket has now.
    now_tos: [u32; 2],
    sockets: [Socket; 2],
    /// Without requests of media, whose receiver only answers.
    ways: Vec<DatagramWay>,
    start: Instant,
    stop: Instant,
    has_begun: bool,
    /// When receivers begin to measure, and when what they measured is reported.
    forgets: Instant,
    reports: Instant,
    /// How much later that is than on the clocks of senders: what was sent until then has as long to arrive as without a queue.
    behind: Duration,
}

/// Collects what is sent at one instant.
#[derive(Default)]
struct Outgoing {
    datagrams: Vec<Datagram>,
    answers: Vec<Answer>,
}

impl DatagramOutlet for Outgoing {
    fn send(&mut self, datagram: Datagram) {
        self.datagrams.push(datagram);
    }
}

impl AnswerOutlet for Outgoing {
    fn answer(&mut self, answer: Answer) {
        self.answers.push(answer);
    }
}

/// The other end than the one that sends this way.
fn other(way: StreamDirection) -> StreamDirection {
    match way {
        StreamDirection::Response => StreamDirection::Request,
        StreamDirection::Request => StreamDirection::Response,
    }
}

impl DatagramUser {
    /// A user with its two sockets.
    pub fn open(
        (app, endpoint): (usize, u32),
        ways: Vec<Box<dyn Protocol>>,
        (plan, one): (&UserPlan, &AppConfig),
        (start, config): (Instant, &RunConfig),
        surface: &mut Surface,
    ) -> io::Result<DatagramUser> {
        let port = u16::try_from(FIRST_PORT + plan.number).map_err(io::Error::other)?;
        let [server, client] = &plan.hosts;
        let addresses = [SocketAddrV4::new(server.address, port), SocketAddrV4::new(client.address, plan.client_port)];
        let mut open = |way: StreamDirection| -> io::Result<Socket> {
            surface.enter(&plan.hosts[way.index()].space)?;
            let socket = Socket::new(Domain::IPV4, Type::DGRAM.nonblocking(), Some(SocketProtocol::UDP))?;
            socket.set_reuse_address(true)?;
            socket.set_tos_v4(plan.tos)?;
            socket.set_recv_tos_v4(true)?;
            socket.bind(&addresses[way.index()].into())?;
            socket.connect(&addresses[other(way).index()].into())?;
            let token = Token { user: app, connection: 0, part: Part::End(way) };
            surface.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, token.to_data()))?;
            Ok(socket)
        };
        let sockets = [open(StreamDirection::Response)?, open(StreamDirection::Request)?];
        let half = one.params.base_rtt / 2;
        let from = config.measured_from();
        Ok(DatagramUser {
            app,
            endpoint,
            number: plan.number,
            tos: plan.tos,
            now_tos: [plan.tos; 2],
            sockets,
            ways: ways.into_iter().map(DatagramWay::new).collect(),
            start,
            stop: one.params.stop.unwrap_or(Instant::NEVER),
            has_begun: false,
            forgets: if from > Instant::ZERO { from + half } else { Instant::NEVER },
            reports: config.end() + half,
            behind: half,
        })
    }

    /// When it next has something to do.
    pub fn next(&self) -> Instant {
        let timers = self.ways.iter().map(|way| way.protocol.next_timer().min(way.protocol.receiver_timer()));
        let first = if self.has_begun { timers.min().unwrap_or(Instant::NEVER) } else { self.start };
        first.min(self.stop).min(self.forgets).min(self.reports)
    }

    /// Reports how much was sent and received each way.
    pub fn sample(&self, flags: u32, time: Instant, report: &mut Report) {
        if !self.has_begun {
            return;
        }
        for (own, way) in self.ways.iter().zip(StreamDirection::ALL) {
            let sample = TcpSample { payload: own.received_bytes, sent: own.sent, timeouts: Some(0), ..TcpSample::default() };
            report.sample(self.number + way.index() as u32, flags, time, Some(&sample));
        }
    }

    /// The time of [`DatagramUser::next`] has come.
    pub fn serve(&mut self, now: Instant, surface: &mut Surface) -> io::Result<()> {
        if self.forgets <= now {
            self.forgets = Instant::NEVER;
            for own in &mut self.ways {
                own.protocol.forget(now - self.behind);
                own.fate = PacketFate::default();
            }
        }
        if self.reports <= now {
            self.reports = Instant::NEVER;
            for (own, way) in self.ways.iter().zip(StreamDirection::ALL) {
                surface.report.figures(self.app, way, &own.protocol.figures(own.fate, now - self.behind));
            }
        }
        if !self.has_begun && self.start <= now {
            self.has_begun = true;
            for (own, way) in self.ways.iter_mut().zip(StreamDirection::ALL) {
                surface.report.sample(self.number + way.index() as u32, sampled::START, now, None);
                own.protocol.start(self.start);
            }
        }
        if self.stop <= now {
            self.stop = Instant::NEVER;
            self.has_begun = true;
            self.ways.iter_mut().for_each(|own| own.protocol.stop(now));
        }
        if !self.has_begun {
            return Ok(());
        }
        StreamDirection::ALL.into_iter().take(self.ways.len()).try_for_each(|way| self.fire(way, now))
    }

    /// Calls the timers of one way that are due.
    fn fire(&mut self, way: StreamDirection, now: Instant) -> io::Result<()> {
        for _ in 0..CALLS {
            let protocol = &mut self.ways[way.index()].protocol;
            let mut outgoing = Outgoing::default();
            if protocol.next_timer() <= now {
                protocol.on_timer(now, &mut outgoing);
            } else if protocol.receiver_timer() <= now {
                protocol.on_receiver_timer(now, &mut outgoing);
            } else {
                break;
            }
            self.send(way, outgoing, now)?;
        }
        Ok(())
    }

    /// Sends datagrams this way, and answers to those that came.
    fn send(&mut self, way: StreamDirection, outgoing: Outgoing, now: Instant) -> io::Result<()> {
        for datagram in outgoing.datagrams {
            let own = &mut self.ways[way.index()];
            let number = own.sent as u32;
            own.sent += 1;
            own.under_way.push_back(UnderWay { number, what: datagram, left: now });
            self.transmit(way, number, false, (datagram.length, datagram.ecn))?;
        }
        for answer in outgoing.answers {
            let own = &mut self.ways[way.index()];
            let number = own.answered as u32;
            own.answered += 1;
            own.answers.push_back(UnderWay { number, what: answer, left: own.left });
            self.transmit(other(way), number, true, (answer.length, answer.ecn))?;
        }
        Ok(())
    }

    /// Sends a packet of `length` bytes with all headers over the socket that sends this way.
    fn transmit(&mut self, way: StreamDirection, number: u32, answers: bool, (length, ecn): (u16, Ecn)) -> io::Result<()> {
        let payload = usize::from(length.saturating_sub(UDP_HEADERS));
        if payload < HEAD {
            let least = HEAD + usize::from(UDP_HEADERS);
            return Err(io::Error::other(format!(
                "app[{}]: a packet of {length} B with its headers, of {least} B at least",
                self.app
            )));
        }
        let socket = &self.sockets[way.index()];
        let tos = self.tos | ecn_bits(ecn);
        if self.now_tos[way.index()] != tos {
            socket.set_tos_v4(tos)?;
            self.now_tos[way.index()] = tos;
        }
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&number.to_le_bytes());
        head[4] = u8::from(answers);
        let parts = [io::IoSlice::new(&head), io::IoSlice::new(&ZEROS[..payload - HEAD])];
        match socket.send_vectored(&parts) {
            // what does not fit is lost, as any packet may be
            Err(error) if error.kind() != ErrorKind::WouldBlock && error.raw_os_error() != Some(libc::ENOBUFS) => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes all that the socket has received that sends `end`.
    pub fn receive(&mut self, end: StreamDirection, now: Instant, surface: &mut Surface) -> io::Result<()> {
        let mut head = [0; HEAD];
        loop {
            let mut control = cmsg_space!(u8);
            let mut parts = [IoSliceMut::new(&mut head)];
            let flags = MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT;
            let found = recvmsg::<()>(self.sockets[end.index()].as_raw_fd(), &mut parts, Some(&mut control[..]), flags);
            let tos = match found {
                Ok(message) => message.cmsgs()?.find_map(|one| match one {
                    ControlMessageOwned::Ipv4Tos(tos) => Some(tos),
                    _ => None,
                }),
                Err(nix::errno::Errno::EAGAIN) => return Ok(()),
                // ICMP says that a socket is not there, which it is from before the start to the end
                Err(error) => return Err(error.into()),
            };
            let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(tos.unwrap_or(0) & 3)];
            let number = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            if head[4] == 0 {
                self.arrive(other(end), number, ecn, now, surface)?;
            } else {
                self.take_answer(end, number, ecn, now, &mut surface.report)?;
            }
        }
    }

    /// Datagram `number` has arrived that was sent this way.
    fn arrive(&mut self, way: StreamDirection, number: u32, ecn: Ecn, now: Instant, surface: &mut Surface) -> io::Result<()> {
        let Some(own) = self.ways.get_mut(way.index()) else { return Ok(()) };
        // packets of one pair of sockets never overtake each other, so that those in between are lost
        let Some(UnderWay { what, left, .. }) = take_number(&mut own.under_way, number, |_| {
            own.fate.lost += 1;
            own.fate.known += 1;
        }) else {
            return Ok(());
        };
        own.fate.known += 1;
        own.left = left;
        own.received_bytes += u64::from(what.length.saturating_sub(UDP_HEADERS));
        let (delay, datagram) = (now - left, Datagram { ecn, ..what });
        surface.report.arrive(self.endpoint + way.index() as u32, now, delay, (what.length, ecn));
        own.protocol.on_delay(&datagram, delay, now);
        let mut outgoing = Outgoing::default();
        own.protocol.receive(&datagram, now, &mut outgoing);
        self.send(way, outgoing, now)
    }

    /// Answer `number` has come back to the sender of this way.
    fn take_answer(&mut self, way: StreamDirection, number: u32, ecn: Ecn, now: Instant, report: &mut Report) -> io::Result<()> {
        let Some(own) = self.ways.get_mut(way.index()) else { return Ok(()) };
        let Some(UnderWay { what, left, .. }) = take_number(&mut own.answers, number, |_| {}) else { return Ok(()) };
        let rtt = now - left;
        let sender = SenderState { srtt_us: whole_micros(rtt), ..SenderState::default() };
        let sample = TcpSample { sender, payload: rtt.0, sent: own.sent, timeouts: Some(0), ..TcpSample::default() };
        report.sample(self.number + way.index() as u32, sampled::ANSWER, now, Some(&sample));
        own.protocol.on_answer(&Answer { ecn, ..what }, rtt, now);
        self.fire(way, now)
    }
}

/// Takes what has this number; `lost` is called for each that was ahead of it. `None` if there is none of it.
fn take_number<T>(all: &mut VecDeque<UnderWay<T>>, number: u32, mut lost: impl FnMut(UnderWay<T>)) -> Option<UnderWay<T>> {
    let place = all.iter().position(|one| one.number == number)?;
    all.drain(..place).for_each(&mut lost);
    all.pop_front()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_ahead_of_a_packet_that_came_is_lost() {
        let mut all: VecDeque<UnderWay<u8>> =
            (0..5).map(|number| UnderWay { number, what: number as u8, left: Instant::ZERO }).collect();
        let mut lost = Vec::new();
        let mut take = |number: u32| {
            let found = take_number(&mut all, number, |one| lost.push(one.what));
            (found.map(|one| one.what), std::mem::take(&mut lost))
        };
        assert_eq!(take(0), (Some(0), vec![]));
        assert_eq!(take(3), (Some(3), vec![1, 2]));
        assert_eq!(take(2), (None, vec![]));
        assert_eq!(take(4), (Some(4), vec![]));
    }
}
