//! A link that sends when its trace has an opportunity.
//!
//! The queue is asked at an opportunity, not before. A packet that does not fit into what is left of it leaves part by part, and has left
//! with its last byte; so long it is on the wire. Whatever is in the queue at the instant of an opportunity can use it, in whichever order
//! the events of this instant come. An opportunity that finds the queue empty, or a queue that shapes by itself and waits, is lost.

use dumbbell_core::link_trace::Opportunities;
use dumbbell_core::units::Time;

/// `None` if the queue, which holds `packets`, may be asked at `now`; else when the link looks at it again.
#[inline(never)]
pub fn wait(link: &mut Opportunities, packets: usize, now: Time) -> Option<Time> {
    link.skip_to(now);
    match link.next() {
        at if at <= now => None,
        // nobody asks an empty queue for a packet: mahimahi does not either
        _ if packets == 0 => Some(Time::NEVER),
        at => Some(at),
    }
}

#[cfg(test)]
mod tests;
