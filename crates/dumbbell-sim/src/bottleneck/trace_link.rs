//! A link that sends when its trace has an opportunity.
//!
//! The queue is asked at an opportunity, not before. A packet that does not fit into what is left of it leaves part by part, and has left
//! with its last byte; so long it is on the wire. Whatever is in the queue at the instant of an opportunity can use it, in whichever order
//! the events of this instant come. An opportunity that finds the queue empty, or a queue that shapes by itself and waits, is lost.

use super::{Bottleneck, Pace};
use dumbbell_core::aqm::{Aqm, Dequeue};
use dumbbell_core::log::Log;
use dumbbell_core::units::Time;

impl<A: Aqm, L: Log> Bottleneck<A, L> {
    /// Asks the queue if there is an opportunity at `now`, or plans to at the next one if it holds packets.
    pub(super) fn look_by_trace(&mut self, now: Time) {
        let Pace::Trace(opportunities) = &mut self.pace else { return };
        opportunities.skip_to(now);
        let at = opportunities.next();
        if at > now {
            // nobody asks an empty queue for a packet: mahimahi does not either
            self.next = if self.aqm.packets() == 0 { Time::NEVER } else { at };
            return;
        }
        self.next = match self.aqm.dequeue(now, &mut (&mut self.counters, &mut self.listener)) {
            Dequeue::Empty => Time::NEVER,
            Dequeue::Wait(until) => until,
            Dequeue::Packet(packet) => {
                self.in_service = Some(packet);
                opportunities.take(u64::from(packet.len))
            }
        };
    }
}

#[cfg(test)]
mod tests;
