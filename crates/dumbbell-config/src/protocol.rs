//! What sends through the net and is no TCP: datagrams in, datagrams and answers out, the next wake-up. The engine measures.
//!
//! UDP (`engine/udp.rs` of the simulator) is one; a program adds others by `Builder::endpoint` there.

use dumbbell_core::packet::Ecn;
use dumbbell_core::units::Time;

/// A packet on its way to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Whatever the sender numbers it with.
    pub number: u64,
    /// Bytes of the frame, headers included.
    pub length: u16,
    /// ECN field: what the sender gives it, and at the receiver what the net made of it.
    pub ecn: Ecn,
}

/// What the receiver answers to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whatever it says.
    pub value: u64,
    /// Bytes of its frame, headers included.
    pub length: u16,
}

/// Where a sender puts its datagrams.
pub trait Outlet {
    /// Sends it now.
    fn send(&mut self, datagram: Datagram);
}

/// Both ends of a protocol, sender and receiver of one flow. Time never goes back between calls. What is random must come from the seed of
/// its [`ProtocolContext`].
pub trait Protocol: Send {
    /// It begins. To send at once, let [`Protocol::next_timer`] be `now`.
    fn start(&mut self, now: Time);

    /// It sends nothing from now on.
    fn stop(&mut self, now: Time);

    /// When [`Protocol::on_timer`] is called next, [`Time::NEVER`] for not at all. Asked after each other call.
    fn next_timer(&self) -> Time;

    /// The time of [`Protocol::next_timer`] has come: the place to send. The next time is later, sooner or later.
    fn on_timer(&mut self, now: Time, net: &mut dyn Outlet);

    /// A datagram reaches the receiver. Answers need `echo` in the configuration.
    fn on_datagram(&mut self, datagram: &Datagram, now: Time) -> Option<Answer>;

    /// An answer reaches the sender, `rtt` after the datagram left that it answers.
    fn on_answer(&mut self, answer: &Answer, rtt: Time, now: Time);
}

/// Which flow a protocol is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolContext {
    /// Seed of the run.
    pub seed: u64,
    /// Number among what `[[udp]]` lists.
    pub number: u64,
}
