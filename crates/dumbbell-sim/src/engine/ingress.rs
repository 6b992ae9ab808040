//! The entry of the net, shared by all endpoints.

use super::memory::SendMemory;
use super::topology::Ingress;
use dumbbell_bottleneck::{without_burst_marks, Hop};
use dumbbell_core::aqm::Aqm;
use dumbbell_core::hint::seldom;
use dumbbell_core::log::DropReason;
use dumbbell_core::observe::Tap;
use dumbbell_core::packet::Packet;
use dumbbell_core::path::{Path, Sink};
use dumbbell_core::tcp::Outlet;
use dumbbell_core::units::Time;

/// The hop, which all endpoints share, and what their send buffers hold.
pub struct SharedIngress<A: Aqm, L: Tap> {
    pub hop: Hop<A, L>,
    pub memory: SendMemory,
}

/// The paths of single endpoints lead to what they share.
impl<A: Aqm, L: Tap> Sink<Packet> for SharedIngress<A, L> {
    #[inline]
    fn arrive(&mut self, packet: Packet, now: Time) {
        self.hop.arrive(packet, now);
    }

    fn on_drop(&mut self, packet: Packet, reason: DropReason, now: Time) {
        self.hop.on_drop(packet, reason, now);
    }

    fn on_clear_ecn(&mut self, packet: &Packet, now: Time) {
        self.hop.on_clear_ecn(packet, now);
    }
}

/// An endpoint's way into the net at one instant.
pub struct EndpointPort<'a, W: Ingress> {
    pub way: &'a mut W,
    pub path: &'a mut Option<Box<Path<Packet>>>,
    pub now: Time,
}

impl<W: Ingress> EndpointPort<'_, W> {
    /// Sends the packet of these words on any way.
    #[inline(never)]
    fn send_through_stages(&mut self, a: u64, b: u64, c: u64, d: u64) {
        let packet = Packet::from_words([a, b, c, d]);
        match self.path {
            None => self.way.arrive(packet, self.now),
            Some(path) => path.push(without_burst_marks(packet), self.now, self.way),
        }
    }
}

impl<W: Ingress> Outlet for EndpointPort<'_, W> {
    #[inline(always)]
    fn send(&mut self, packet: Packet) {
        self.way.post(&packet, self.now);
        if self.path.is_none() && self.way.is_busy(packet.flags()) {
            self.way.arrive_busy(packet, self.now);
        } else {
            seldom();
            let [a, b, c, d] = packet.to_words();
            self.send_through_stages(a, b, c, d);
        }
    }

    #[inline]
    fn counts_memory(&self) -> bool {
        self.way.memory().is_limited()
    }

    fn set_send_buffer(&mut self, flow: u32, bytes: u64) {
        self.way.memory_mut().set(flow, bytes);
    }

    #[inline]
    fn is_memory_short(&self) -> bool {
        self.way.memory().is_short()
    }
}
