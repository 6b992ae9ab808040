//! Random loss and jitter between a sender and the bottleneck.

use dumbbell_core::packet::Packet;
use dumbbell_core::rng::Rng;
use dumbbell_core::units::Time;
use std::collections::VecDeque;

/// Random loss and jitter of one flow.
pub struct Noise {
    rng: Rng,
    loss: f64,
    jitter: Time,
    /// Packets lost.
    pub lost: u64,
    held: VecDeque<(Time, Packet)>,
}

impl Noise {
    /// With probability `loss` a packet is lost; others come up to `jitter` later, in order.
    pub fn new(loss: f64, jitter: Time, rng: Rng) -> Noise {
        Noise { rng, loss, jitter, lost: 0, held: VecDeque::new() }
    }

    /// Takes a packet; returns it if it passes at once.
    pub fn pass(&mut self, packet: Packet, now: Time) -> Option<Packet> {
        if self.loss > 0.0 && self.rng.next_f64() < self.loss {
            self.lost += 1;
            return None;
        }
        if self.jitter == Time::ZERO {
            return Some(packet);
        }
        let extra = Time(self.rng.below(self.jitter.0 + 1));
        let last = self.held.back().map_or(Time::ZERO, |held| held.0);
        self.held.push_back(((now + extra).max(last), packet));
        None
    }

    /// When the next held packet goes on.
    pub fn next_timer(&self) -> Time {
        self.held.front().map_or(Time::NEVER, |held| held.0)
    }

    /// The next held packet that is due.
    pub fn due(&mut self, now: Time) -> Option<Packet> {
        if self.next_timer() > now {
            return None;
        }
        self.held.pop_front().map(|held| held.1)
    }

    /// Packets held.
    pub fn held(&self) -> u64 {
        self.held.len() as u64
    }
}
