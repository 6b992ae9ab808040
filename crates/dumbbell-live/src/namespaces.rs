//! Network namespaces that only this process holds: whatever ends the process takes them away, with all that is in them.
//!
//! A namespace has no name in the file system. It is an open file; threads enter it.
#![allow(unsafe_code)] // one ioctl, for which there is no safe interface

use crate::netlink::Netlink;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::sched::{setns, unshare, CloneFlags};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Why there is no network to work in.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Namespaces are not allowed.
    #[error("found no permission for network namespaces ({0}), allowed: root, or user namespaces (sysctl user.max_user_namespaces and user.max_net_namespaces above 0, kernel.apparmor_restrict_unprivileged_userns and a container's seccomp profile permitting)")]
    NotAllowed(io::Error),
    /// Something else failed.
    #[error("{what}: found {source}, allowed: a kernel with network namespaces, veth and packet sockets")]
    Failed {
        /// The action that failed.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Says what was to be done when an error came.
pub trait SetupContext<T> {
    /// The result, or [`SetupError::Failed`].
    ///
    /// # Errors
    /// The same, with `what`.
    fn context(self, what: &'static str) -> Result<T, SetupError>;
}

impl<T, E: Into<io::Error>> SetupContext<T> for Result<T, E> {
    fn context(self, what: &'static str) -> Result<T, SetupError> {
        self.map_err(|error| SetupError::Failed { what, source: error.into() })
    }
}

/// A network namespace.
pub struct Namespace(File);

impl Namespace {
    /// An empty one.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] where this needs more rights.
    pub fn new() -> io::Result<Namespace> {
        // in a thread of its own, so that the caller stays where it is
        let made = || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        };
        std::thread::spawn(made).join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())).map(Namespace)
    }

    /// Returns another handle of the same namespace.
    ///
    /// # Errors
    /// Too many open files.
    pub fn try_clone(&self) -> io::Result<Namespace> {
        self.0.try_clone().map(Namespace)
    }

    /// The calling thread goes there and stays there; sockets that it opens belong there for ever.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn enter(&self) -> io::Result<()> {
        Ok(setns(&self.0, CloneFlags::CLONE_NEWNET)?)
    }

    /// Runs `work` in a thread within the namespace, and returns its result.
    ///
    /// # Errors
    /// The error of `work`, or that of entering the namespace.
    pub fn run_inside<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                self.enter()?;
                work()
            });
            worker.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sees to it that this process may make network namespaces: nothing is done for root, others get a user namespace of their own, in which
/// they have the rights of root over nothing else. The process must have one thread only.
///
/// # Errors
/// [`SetupError::NotAllowed`] with what the kernel said.
pub fn gain_permission() -> Result<(), SetupError> {
    if Namespace::new().is_ok() {
        return Ok(());
    }
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let enter = || {
        unshare(CloneFlags::CLONE_NEWUSER)?;
        // user_namespaces(7): without CAP_SETGID the group is mapped only where setgroups is denied
        std::fs::write("/proc/self/setgroups", "deny")?;
        // the same numbers within: programs that are started there see themselves as they are, and lose the rights of root (capabilities(7))
        std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
        Namespace::new().map(drop)
    };
    enter().map_err(SetupError::NotAllowed)
}

/// Number of the interface in every namespace that has one towards the bottleneck, and of the first of the bottleneck's own.
pub const INTERFACE: u32 = 10;
/// Address of the left end.
pub const LEFT: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 1);
/// Address of the right end.
pub const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 2);
/// Another address of the right end. Connections from the left to there ask for ECN, connections to [`RIGHT`] do not.
pub const RIGHT_ECN: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 3);
/// The corresponding address of the left end, if connections from the right are asked for.
pub const LEFT_ECN: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 4);
/// Address by which the left end reaches the host's 127.0.0.1, where there is a way out of the right end.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 200, 1, 1);
/// Likewise the host's resolver, if that is one that only the host itself reaches.
pub const DNS: Ipv4Addr = Ipv4Addr::new(10, 200, 1, 2);
/// Length of the prefix of the ends' addresses.
const PREFIX: u8 = 24;

/// Two ends that see each other only through what moves frames between the two interfaces in the middle.
pub struct HostPair {
    /// Where [`LEFT`] is.
    pub left: Namespace,
    /// Where [`RIGHT`] and [`RIGHT_ECN`] are.
    pub right: Namespace,
    /// Where the frames pass: interface [`INTERFACE`] leads to the left, the one after it to the right.
    pub middle: Namespace,
}

impl HostPair {
    /// Makes everything.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn new() -> Result<HostPair, SetupError> {
        let made = || Namespace::new().context("a network namespace");
        let wire = HostPair { left: made()?, middle: made()?, right: made()? };
        for (place, end) in (0..).zip([&wire.left, &wire.right]) {
            wire.middle.run_inside(|| cable(INTERFACE + place, end)).context("a pair of veth interfaces")?;
            wire.middle.run_inside(|| prepare(INTERFACE + place)).context("an interface of the bottleneck")?;
        }
        wire.left.run_inside(|| end(0, &[LEFT], &[RIGHT, RIGHT_ECN])).context("the left end's interface")?;
        wire.right.run_inside(|| end(1, &[RIGHT, RIGHT_ECN], &[LEFT])).context("the right end's interface")?;
        Ok(wire)
    }

    /// Lets the right end connect to the left one, too, with ECN and without.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn both_ways(&self) -> Result<(), SetupError> {
        self.left.run_inside(|| own(LEFT_ECN)).context("the left end's second address")?;
        self.right.run_inside(|| other(0, LEFT_ECN)).context("the right end's way to it")
    }

    /// Makes all addresses those of the right end, and lets the left end reach them there; with `ecn` its connections ask for ECN.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn lead_everywhere(&self, ecn: bool) -> Result<(), SetupError> {
        let route = |header: RouteHeader, attributes: Vec<RouteAttribute>| {
            let mut route = RouteMessage::default();
            route.header = RouteHeader {
                address_family: AddressFamily::Inet,
                table: RouteHeader::RT_TABLE_MAIN,
                protocol: RouteProtocol::Static,
                ..header
            };
            route.attributes = attributes;
            Netlink::open()?.create(RouteNetlinkMessage::NewRoute(route))
        };
        let everything = || {
            let header = RouteHeader { scope: RouteScope::Host, kind: RouteType::Local, ..RouteHeader::default() };
            route(header, vec![RouteAttribute::Oif(1)])
        };
        self.right.run_inside(everything).context("the right end's routes")?;
        let to_the_right = || {
            let header = RouteHeader { scope: RouteScope::Universe, kind: RouteType::Unicast, ..RouteHeader::default() };
            let mut attributes = vec![RouteAttribute::Oif(INTERFACE), RouteAttribute::Gateway(RouteAddress::Inet(RIGHT))];
            if ecn {
                attributes.push(asks_for_ecn());
                Netlink::open()?.create(RouteNetlinkMessage::NewRoute(ecn_route(RIGHT)))?;
            }
            route(header, attributes)
        };
        self.left.run_inside(to_the_right).context("the left end's routes")?;
        for end in [&self.left, &self.right] {
            // conveniences, which a container may refuse: ports below 1024 and ping(8) without root (ip-sysctl.rst)
            let group = nix::unistd::getegid();
            let _ = end.run_inside(|| std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"));
            let _ = end.run_inside(|| std::fs::write("/proc/sys/net/ipv4/ping_group_range", format!("{group} {group}")));
        }
        Ok(())
    }

    /// Indices of the two interfaces in the middle.
    pub fn interfaces(&self) -> [u32; 2] {
        [INTERFACE, INTERFACE + 1]
    }
}

/// Hardware address of the end in `place`: locally administered (IEEE 802 section 8.4).
fn hardware_address(place: u32) -> Vec<u8> {
    vec![0x02, 0, 0, 0, 0, place as u8 + 1]
}

fn name(index: u32) -> String {
    format!("db{index}")
}

/// A veth pair between this namespace, where it gets number `index`, and `end`, where it gets [`INTERFACE`] and its hardware address.
fn cable(index: u32, end: &Namespace) -> io::Result<()> {
    let link = |number: u32, more: Vec<LinkAttribute>| {
        let mut made = LinkMessage::default();
        made.header.index = number;
        made.attributes = vec![LinkAttribute::IfName(name(number))];
        made.attributes.extend(more);
        made
    };
    let address = LinkAttribute::Address(hardware_address(index - INTERFACE));
    let peer = link(INTERFACE, vec![address, LinkAttribute::NetNsFd(end.as_fd().as_raw_fd())]);
    let kind = vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer)))];
    Netlink::open()?.create(RouteNetlinkMessage::NewLink(link(index, vec![LinkAttribute::LinkInfo(kind)])))
}

/// Switches off what interface `index` would do to frames, and IPv6, and then switches the interface on.
fn prepare(index: u32) -> io::Result<()> {
    offloads_off(index)?;
    set_up(index)
}

fn set_up(index: u32) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let mut link = LinkMessage::default();
    link.header.index = index;
    // without an address of its own IPv6 stays silent; a kernel without IPv6 refuses, which is as good
    let silent = vec![AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(In6AddrGenMode::None)])];
    let mut quiet = link.clone();
    quiet.attributes = vec![LinkAttribute::AfSpecUnspec(silent)];
    let _ = netlink.change(RouteNetlinkMessage::SetLink(quiet));
    (link.header.flags, link.header.change_mask) = (LinkFlags::Up, LinkFlags::Up);
    netlink.change(RouteNetlinkMessage::SetLink(link))
}

/// The interface of an end: its addresses, and where the others are, so that no ARP is needed.
fn end(place: u32, own: &[Ipv4Addr], others: &[Ipv4Addr]) -> io::Result<()> {
    prepare(INTERFACE)?;
    set_up(1)?;
    own.iter().try_for_each(|&one| self::own(one))?;
    others.iter().try_for_each(|&one| other(1 - place, one))
}

/// Gives the end in this namespace an address.
fn own(one: Ipv4Addr) -> io::Result<()> {
    let mut address = AddressMessage::default();
    address.header.family = AddressFamily::Inet;
    address.header.prefix_len = PREFIX;
    address.header.index = INTERFACE;
    address.attributes = vec![AddressAttribute::Local(IpAddr::V4(one)), AddressAttribute::Address(IpAddr::V4(one))];
    Netlink::open()?.create(RouteNetlinkMessage::NewAddress(address))
}

/// Tells the end in this namespace where an address of the end in `place` is.
fn other(place: u32, one: Ipv4Addr) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let mut neighbour = NeighbourMessage::default();
    neighbour.header.family = AddressFamily::Inet;
    neighbour.header.ifindex = INTERFACE;
    neighbour.header.state = NeighbourState::Permanent;
    let address = NeighbourAttribute::LinkLayerAddress(hardware_address(place));
    neighbour.attributes = vec![NeighbourAttribute::Destination(NeighbourAddress::Inet(one)), address];
    netlink.create(RouteNetlinkMessage::NewNeighbour(neighbour))?;
    if [RIGHT_ECN, LEFT_ECN].contains(&one) {
        netlink.create(RouteNetlinkMessage::NewRoute(ecn_route(one)))?;
    }
    Ok(())
}

/// A route that asks for ECN (`features ecn` of ip-route(8)): so it is a property of the flow, not of the namespace (tcp_ecn).
fn ecn_route(to: Ipv4Addr) -> RouteMessage {
    let mut route = RouteMessage::default();
    route.header = RouteHeader {
        address_family: AddressFamily::Inet,
        destination_prefix_length: 32,
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        scope: RouteScope::Link,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    route.attributes = vec![RouteAttribute::Destination(RouteAddress::Inet(to)), RouteAttribute::Oif(INTERFACE), asks_for_ecn()];
    route
}

/// RTAX_FEATURE_ECN (linux/rtnetlink.h).
fn asks_for_ecn() -> RouteAttribute {
    RouteAttribute::Metrics(vec![RouteMetric::Features(1)])
}

/// Commands of the ethtool ioctl (linux/ethtool.h): checksums of what is sent, scatter-gather follows; segmentation in and before the
/// interface; merging of what is received. Those that set are one above those that get.
const OFFLOADS: [u32; 4] = [0x17, 0x1f, 0x24, 0x2c];

/// Switches off everything that would make frames of interface `index` other than they would be on a wire, and reads it back.
fn offloads_off(index: u32) -> io::Result<()> {
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    // one can switch another, so all of them are set first
    for command in OFFLOADS.into_iter().chain(OFFLOADS.map(|set| set - 1)) {
        let mut value = Value { command, data: 0 };
        // SAFETY: all zero is a valid ifreq: a name and a union of integers and pointers.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name(index).bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut value).cast();
        // SAFETY: `request` and the value that it points to outlive the call; these commands read an ethtool_value, which `Value` is.
        if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) } < 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EOPNOTSUPP) {
                return Err(error);
            }
        } else if value.data != 0 {
            return Err(io::Error::other(format!("offload {command:#x} of {}: asked off, got on", name(index))));
        }
    }
    Ok(())
}

/// Joins the two interfaces of the middle by a bridge of the kernel's: what forwarding costs without us. To be called in the middle.
///
/// # Errors
/// The kernel's error.
pub fn bridge() -> io::Result<()> {
    const BRIDGE: u32 = INTERFACE + 2;
    let mut netlink = Netlink::open()?;
    let mut link = LinkMessage::default();
    link.header.index = BRIDGE;
    link.attributes = vec![LinkAttribute::IfName(name(BRIDGE)), LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)])];
    netlink.create(RouteNetlinkMessage::NewLink(link))?;
    for port in [INTERFACE, INTERFACE + 1] {
        let mut member = LinkMessage::default();
        member.header.index = port;
        member.attributes = vec![LinkAttribute::Controller(BRIDGE)];
        netlink.change(RouteNetlinkMessage::SetLink(member))?;
    }
    set_up(BRIDGE)
}
