//! The entry of the net, shared by all endpoints, and the sink behind the bottleneck.

use super::delay_lines::{DelayLines, ReturnPath, TappedLines};
use super::endpoint::Arena;
use super::memory::SendMemory;
use super::topology::Ingress;
use dumbbell_bottleneck::Bottleneck;
use dumbbell_core::aqm::Aqm;
use dumbbell_core::hint::seldom;
use dumbbell_core::log::{At, DropReason, DropSite, Log};
use dumbbell_core::observe::Tap;
use dumbbell_core::packet::{flag, Packet};
use dumbbell_core::path::{Path, Sink};
use dumbbell_core::tcp::Outlet;
use dumbbell_core::units::Time;

/// Stages that the packets of all endpoints pass, and the bottleneck behind them.
pub struct SharedIngress<A: Aqm, L: Tap> {
    /// Stages right ahead of the queue.
    pub shared: Option<Box<Path<Packet>>>,
    pub memory: SendMemory,
    pub bottleneck: Bottleneck<A, L>,
}

/// `packet` as one that counts by itself: stages of a path delay and drop single packets.
#[inline]
pub fn without_burst_marks(mut packet: Packet) -> Packet {
    packet.flags &= !(flag::MORE | flag::LAST);
    packet
}

/// The paths of single endpoints lead to what they share.
impl<A: Aqm, L: Tap> Sink<Packet> for SharedIngress<A, L> {
    #[inline]
    fn arrive(&mut self, packet: Packet, now: Time) {
        match &mut self.shared {
            None => self.bottleneck.arrive(packet, now),
            Some(shared) => shared.push(without_burst_marks(packet), now, &mut self.bottleneck),
        }
    }

    fn on_drop(&mut self, packet: Packet, reason: DropReason, now: Time) {
        self.bottleneck.on_drop(packet, reason, now);
    }

    fn on_clear_ecn(&mut self, packet: &Packet, now: Time) {
        self.bottleneck.log.on_clear_ecn(packet, now);
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
    fn send_anyhow(&mut self, a: u64, b: u64, c: u64, d: u64) {
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
        if self.path.is_none() && self.way.is_busy(packet.flags) {
            self.way.arrive_busy(packet, self.now);
        } else {
            seldom();
            let [a, b, c, d] = packet.to_words();
            self.send_anyhow(a, b, c, d);
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

/// The part behind the bottleneck: the receivers, and their acknowledgements on the way back.
pub struct BehindSink<'a, A: Aqm, L: Tap> {
    pub arena: &'a mut Arena,
    pub lines: &'a mut DelayLines,
    /// Hears of what is dropped.
    pub bottleneck: &'a mut Bottleneck<A, L>,
}

impl<A: Aqm, L: Tap> Sink<Packet> for BehindSink<'_, A, L> {
    #[inline]
    fn arrive(&mut self, packet: Packet, now: Time) {
        let listener = &mut self.bottleneck.log.listener;
        TappedLines { lines: &mut *self.lines, listener }.deliver(self.arena, &packet, now);
    }

    fn on_drop(&mut self, packet: Packet, reason: DropReason, now: Time) {
        self.bottleneck.log.on_drop(&packet, reason, DropSite::Behind, At::time(now));
    }

    fn on_clear_ecn(&mut self, packet: &Packet, now: Time) {
        self.bottleneck.log.on_clear_ecn(packet, now);
    }
}
