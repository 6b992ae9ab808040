//! The way out of the far end: whatever the left end connects to is opened there the moment before, and carried on from the host's network.
//!
//! In the far namespace every address is its own. The [`RelayPort`] sees each frame that goes there; if one opens a connection to an address
//! and port that nobody has asked for yet, a socket is opened for it before the frame is sent. What it accepts is connected to the real
//! address by a thread in the namespace in which the process began. So TCP on both sides is the kernel's, no right over the host's
//! network is needed, and nothing there is changed.

use crate::frame::{TCP, UDP};
use crate::namespaces::{DNS, HOST, LEFT, RIGHT, RIGHT_ECN};
use crate::port::FramePort;
use crate::priority;
use socket2::{Domain, SockRef, Socket, Type};
use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Largest number of addresses and ports that one session opens; connections to further ones fail.
const MOST_DOORS: usize = 4096;
/// How long a connection attempt to the real address may take: as long as a SYN is sent again with Linux's tcp_syn_retries of 4.
const PATIENCE: Duration = Duration::from_secs(31);
/// A UDP flow is forgotten once its client has been silent for so long: RFC 4787 section 4.3 asks for 2 minutes at least, but for well-known ports, such as
/// that of DNS, where each question is a flow.
const IDLE: [Duration; 2] = [Duration::from_secs(120), Duration::from_secs(10)];
/// Bytes of a stream that are copied at a time: as many as a pipe holds (pipe(7)).
const CHUNK: usize = 1 << 16;
/// Connections that may wait to be accepted: Linux's net.core.somaxconn.
const BACKLOG: i32 = 4096;
/// Largest datagram.
const DATAGRAM: usize = 1 << 16;

/// A task for the threads in the host's network.
enum RelayTask {
    /// Carry a connection to there.
    Connect(TcpStream, SocketAddrV4),
    /// Open a socket that sends datagrams there; what comes back goes through the door to the client.
    Associate { to: SocketAddrV4, door: UdpSocket, client: SocketAddr, opened: Sender<io::Result<Arc<UdpSocket>>> },
}

/// Does errands in the namespace of the thread that started it.
#[derive(Clone)]
pub struct Outside(Sender<RelayTask>);

impl Outside {
    /// Starts the thread that takes errands; each is done in a thread of its own. `resolver` is what [`DNS`] stands for.
    pub fn start(resolver: Option<Ipv4Addr>) -> Outside {
        let (sender, errands): (_, Receiver<RelayTask>) = channel();
        thread::spawn(move || {
            for errand in errands {
                thread::spawn(move || match errand {
                    RelayTask::Connect(near, to) => connect(&near, real(to, resolver)),
                    RelayTask::Associate { to, door, client, opened } => associate(real(to, resolver), &door, client, &opened),
                });
            }
        });
        Outside(sender)
    }
}

/// Returns the address in the host's network that an address of the far end stands for.
fn real(to: SocketAddrV4, resolver: Option<Ipv4Addr>) -> SocketAddrV4 {
    let address = match (*to.ip(), resolver) {
        (HOST, _) => Ipv4Addr::LOCALHOST,
        (DNS, Some(address)) => address,
        (other, _) => other,
    };
    SocketAddrV4::new(address, to.port())
}

/// Copies until the end of `from`.
fn copy(mut from: &TcpStream, mut into: &TcpStream) -> io::Result<()> {
    let mut room = vec![0; CHUNK];
    loop {
        match from.read(&mut room) {
            Ok(0) => return Ok(()),
            Ok(length) => into.write_all(&room[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Carries both directions of a connection until both have ended. If there is no way to the other side, the near one is reset.
fn connect(near: &TcpStream, to: SocketAddrV4) {
    let reset = || {
        let _ = SockRef::from(near).set_linger(Some(Duration::ZERO));
    };
    let Ok(far) = TcpStream::connect_timeout(&to.into(), PATIENCE) else { return reset() };
    for stream in [near, &far] {
        // what one side sends at once the other does, too
        let _ = stream.set_nodelay(true);
    }
    let carry = |from: &TcpStream, into: &TcpStream| {
        if copy(from, into).is_err() {
            reset();
            let _ = from.shutdown(Shutdown::Both);
        }
        let _ = into.shutdown(Shutdown::Write);
    };
    thread::scope(|scope| {
        scope.spawn(|| carry(near, &far));
        carry(&far, near);
    });
}

fn idle(to: SocketAddrV4) -> Duration {
    IDLE[usize::from(to.port() < 1024)]
}

/// Hands back a socket that sends `to` there, and returns answers to the client until the door has forgotten it.
fn associate(to: SocketAddrV4, door: &UdpSocket, client: SocketAddr, opened: &Sender<io::Result<Arc<UdpSocket>>>) {
    let open = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(to)?;
        socket.set_read_timeout(Some(idle(to)))?;
        Ok(Arc::new(socket))
    };
    let socket = match open() {
        Ok(socket) if opened.send(Ok(Arc::clone(&socket))).is_ok() => socket,
        Ok(_) => return,
        Err(error) => {
            let _ = opened.send(Err(error));
            return;
        }
    };
    let mut room = vec![0; DATAGRAM];
    loop {
        match socket.recv(&mut room) {
            Ok(length) => {
                let _ = door.send_to(&room[..length], client);
            }
            // nobody listens there (yet)
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            // silent for long, but the door sends still
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Arc::strong_count(&socket) > 1 => {}
            Err(_) => return,
        }
    }
}

fn bind(kind: Type, at: SocketAddrV4) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, kind, None)?;
    socket.bind(&at.into())?;
    Ok(socket)
}

fn open_tcp(at: SocketAddrV4, outside: Sender<RelayTask>) -> io::Result<()> {
    let socket = bind(Type::STREAM, at)?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from(socket);
    thread::spawn(move || {
        priority::leave_core();
        for stream in listener.incoming().flatten() {
            if outside.send(RelayTask::Connect(stream, at)).is_err() {
                return;
            }
        }
    });
    Ok(())
}

fn open_udp(at: SocketAddrV4, outside: Sender<RelayTask>) -> io::Result<()> {
    let door = UdpSocket::from(bind(Type::DGRAM, at)?);
    thread::spawn(move || -> io::Result<()> {
        priority::leave_core();
        let mut room = vec![0; DATAGRAM];
        let mut clients: HashMap<SocketAddr, (Arc<UdpSocket>, Instant)> = HashMap::new();
        loop {
            let (length, client) = door.recv_from(&mut room)?;
            if let Some((socket, last)) = clients.get_mut(&client).filter(|(_, last)| last.elapsed() < idle(at)) {
                let _ = socket.send(&room[..length]);
                *last = Instant::now();
                continue;
            }
            clients.retain(|_, (_, last)| last.elapsed() < idle(at));
            let (opened, answer) = channel();
            let errand = RelayTask::Associate { to: at, door: door.try_clone()?, client, opened };
            outside.send(errand).map_err(|_| io::ErrorKind::BrokenPipe)?;
            if let Ok(Ok(socket)) = answer.recv() {
                let _ = socket.send(&room[..length]);
                clients.insert(client, (socket, Instant::now()));
            }
        }
    });
    Ok(())
}

/// The port towards the far end, which opens what frames ask for; without an [`Outside`] it is the port alone.
pub struct RelayPort<P> {
    port: P,
    outside: Option<Outside>,
    known: HashSet<(u8, SocketAddrV4)>,
}

impl<P: FramePort> RelayPort<P> {
    /// The thread that sends through it must be in the far namespace.
    pub fn new(port: P, outside: Option<Outside>) -> RelayPort<P> {
        RelayPort { port, outside, known: HashSet::new() }
    }

    fn open(&mut self, frame: &[u8]) {
        let Some(Outside(outside)) = &self.outside else { return };
        let Some((protocol, to)) = opening_flow(frame) else { return };
        if self.known.len() >= MOST_DOORS || !self.known.insert((protocol, to)) {
            return;
        }
        // a program at the far end may have it already
        let _ = if protocol == TCP { open_tcp(to, outside.clone()) } else { open_udp(to, outside.clone()) };
    }
}

impl<P: FramePort> FramePort for RelayPort<P> {
    fn receive(&mut self, most: usize, take: &mut dyn FnMut(&[u8], u64)) -> io::Result<usize> {
        self.port.receive(most, take)
    }

    fn send(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        if self.outside.is_some() {
            frames.iter().for_each(|frame| self.open(frame));
        }
        self.port.send(frames)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.port.fd()
    }

    fn overrun(&mut self) -> io::Result<u64> {
        self.port.overrun()
    }
}

/// Protocol and destination of a frame that may open a connection out of the far end: a SYN, or any datagram.
fn opening_flow(frame: &[u8]) -> Option<(u8, SocketAddrV4)> {
    let ip = frame.get(14..)?;
    let is_first = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x1fff == 0;
    if frame[12..14] != [0x08, 0x00] || ip.len() < 20 || !is_first {
        return None;
    }
    let transport = ip.get(usize::from(ip[0] & 0xf) * 4..)?;
    let to = Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]);
    // SYN without ACK (RFC 9293 section 3.1)
    let may_open = ip[9] == UDP || (ip[9] == TCP && transport.get(13)? & 0x12 == 0x02);
    let goes_out = ![LEFT, RIGHT, RIGHT_ECN].contains(&to) && !to.is_multicast() && !to.is_broadcast() && !to.is_unspecified();
    (may_open && goes_out).then_some((ip[9], SocketAddrV4::new(to, u16::from_be_bytes([*transport.get(2)?, *transport.get(3)?]))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::ipv4;

    fn frame(to: Ipv4Addr, protocol: u8, flags: u8) -> Vec<u8> {
        let mut frame = ipv4(40_000, 0, 66);
        frame[23] = protocol;
        frame[30..34].copy_from_slice(&to.octets());
        frame[47] = flags;
        frame
    }

    #[test]
    fn a_syn_or_a_datagram_to_the_outside_opens() {
        let out = Ipv4Addr::new(192, 0, 2, 1);
        let to = SocketAddrV4::new(out, 5001);
        assert_eq!(opening_flow(&frame(out, TCP, 0x02)), Some((TCP, to)));
        // ECN-setup SYN; SYN-ACK; ACK; the far end itself; neither TCP nor UDP; many receivers
        assert_eq!(opening_flow(&frame(out, TCP, 0xc2)), Some((TCP, to)));
        assert_eq!(opening_flow(&frame(out, UDP, 0)), Some((UDP, to)));
        let none = [(out, TCP, 0x12), (out, TCP, 0x10), (RIGHT, TCP, 2), (out, 1, 2), (Ipv4Addr::new(224, 0, 0, 251), UDP, 0)];
        assert!(none.into_iter().all(|(address, protocol, flags)| opening_flow(&frame(address, protocol, flags)).is_none()));
        let mut fragment = frame(out, UDP, 0);
        fragment[21] = 9;
        assert_eq!(opening_flow(&fragment), None);
        // cut off anywhere
        let whole = frame(out, TCP, 2);
        assert!((0..48).all(|length| opening_flow(&whole[..length]).is_none()));
    }

    #[test]
    fn addresses_of_the_far_end_stand_for_others() {
        let of = |address| *real(SocketAddrV4::new(address, 53), Some(Ipv4Addr::new(127, 0, 0, 53))).ip();
        assert_eq!(of(HOST), Ipv4Addr::LOCALHOST);
        assert_eq!(of(DNS), Ipv4Addr::new(127, 0, 0, 53));
        assert_eq!(of(Ipv4Addr::new(192, 0, 2, 7)), Ipv4Addr::new(192, 0, 2, 7));
    }

    /// A pair of connected sockets.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let one = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        (one, listener.accept().expect("a connection").0)
    }

    #[test]
    fn a_connection_is_carried_both_ways_and_ends_half_by_half() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let Ok(SocketAddr::V4(to)) = server.local_addr() else { unreachable!() };
        let (mut client, near) = pair();
        let carrying = thread::spawn(move || connect(&near, to));
        let (mut served, _) = server.accept().expect("a connection");
        client.write_all(b"question").expect("room");
        client.shutdown(Shutdown::Write).expect("open");
        let (mut question, mut answer) = (String::new(), String::new());
        served.read_to_string(&mut question).expect("text");
        served.write_all(b"answer").expect("room");
        drop(served);
        client.read_to_string(&mut answer).expect("text");
        assert_eq!((question.as_str(), answer.as_str()), ("question", "answer"));
        carrying.join().expect("no panic");
    }

    #[test]
    fn where_nobody_listens_the_connection_is_reset() {
        let unused = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port").local_addr().expect("an address");
        let SocketAddr::V4(to) = unused else { unreachable!() };
        let (mut client, near) = pair();
        connect(&near, to);
        drop(near);
        let error = client.read(&mut [0]).expect_err("a reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
}
