//! Requests to the kernel's routing socket (rtnetlink(7)), one at a time.

use netlink_packet_core::{NetlinkMessage, NetlinkPayload, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io;

/// A routing socket of the network namespace in which it was opened.
pub struct Netlink {
    socket: Socket,
}

impl Netlink {
    /// A new socket.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open() -> io::Result<Netlink> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink { socket })
    }

    /// Makes what must not be there yet.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn create(&mut self, message: RouteNetlinkMessage) -> io::Result<()> {
        self.request(message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Changes what is there.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn change(&mut self, message: RouteNetlinkMessage) -> io::Result<()> {
        self.request(message, 0)
    }

    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let (answer, _) = self.socket.recv_from_full()?;
        let junk = |error: netlink_packet_core::DecodeError| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(junk)?.payload {
            // an acknowledgement is an error without a code
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
            _ => Ok(()),
        }
    }
}
