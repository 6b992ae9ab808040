//! Tells drops on arrival at a full queue from other drops, where captures ahead of the queue and behind it are all that is known.

use dumbbell_core::units::Instant;
use std::collections::VecDeque;

/// A queue of packets that leave in the order in which they came, and are dropped on arrival if it is full.
#[derive(Clone, Debug)]
pub struct TailDropQueue {
    limit: u64,
    /// When each of the packets that were taken in left, sent or dropped: the oldest first.
    taken: VecDeque<Instant>,
}

impl TailDropQueue {
    /// An empty queue for so many packets.
    pub fn new(limit: u64) -> TailDropQueue {
        TailDropQueue { limit, taken: VecDeque::new() }
    }

    /// Takes the next packet that came. `left` is when it left, if it was taken in. Returns false if it may have been dropped (`dropped`), and finds the queue full.
    pub fn take(&mut self, came: Instant, left: Instant, dropped: bool) -> bool {
        // at one instant a packet comes first
        while self.taken.front().is_some_and(|&one| one < came) {
            self.taken.pop_front();
        }
        let is_full = self.taken.len() as u64 >= self.limit;
        if !(dropped && is_full) {
            self.taken.push_back(left);
        }
        !(dropped && is_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_was_dropped_found_the_queue_full_or_was_taken_in() {
        let mut queue = TailDropQueue::new(2);
        let mut take = |came, left, dropped| queue.take(Instant(came), Instant(left), dropped);
        assert!(take(10, 40, false));
        assert!(take(20, 60, false));
        // 1 and 2 wait
        assert!(!take(30, 70, true));
        // 1 leaves as it comes: that is after it
        assert!(!take(40, 70, true));
        // 2 waits; dropped from the head once 6 leaves
        assert!(take(50, 95, true));
        assert!(!take(60, 95, true));
        assert!(take(61, 95, false));
        assert!(!take(95, 99, true));
        assert!(take(96, 99, true));
    }
}
