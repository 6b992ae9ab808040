//! Tells drops at a full queue from other drops, where captures ahead of the queue and behind it are all that is known.

use dumbbell_core::units::Instant;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// A packet that came to a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueuedPacket {
    /// When it came.
    pub came: Instant,
    /// When it was sent, or was dropped from the queue at the latest.
    pub left: Instant,
    /// Whether it was dropped, and not sent.
    pub is_dropped: bool,
}

/// The room of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueRoom {
    /// Packets that fit. `None` if that is unknown.
    pub limit: Option<u64>,
    /// Whether it drops packets that it has taken in, and not only packets that come.
    pub drops_queued: bool,
}

/// Returns for each packet, in the order in which they came, whether it was dropped because the queue was full as it came.
pub fn find_overflows(packets: &[QueuedPacket], room: &QueueRoom) -> Vec<bool> {
    let limit = room.limit.unwrap_or(u64::MAX);
    let mut queued = BinaryHeap::new();
    let find_room = |one: &QueuedPacket| {
        // at one instant a packet comes before another one leaves
        while queued.peek().is_some_and(|&Reverse(left)| left < one.came) {
            queued.pop();
        }
        let is_full = one.is_dropped && queued.len() as u64 >= limit;
        if !is_full && (room.drops_queued || !one.is_dropped) {
            queued.push(Reverse(one.left));
        }
        is_full
    };
    packets.iter().map(find_room).collect()
}

/// Drops up to `count` of the packets that never left, which `waiting` numbers: those that found no room, then the oldest. Returns their numbers.
pub fn drop_waiting(
    packets: &mut [QueuedPacket],
    waiting: impl Iterator<Item = usize>,
    count: u64,
    room: &QueueRoom,
) -> BTreeSet<usize> {
    let mut numbers: Vec<usize> = waiting.collect();
    if count == 0 {
        return BTreeSet::new();
    }
    numbers.iter().for_each(|&number| packets[number].is_dropped = true);
    let full = find_overflows(packets, room);
    numbers.sort_by_key(|&number| (!full[number], number));
    let dropped = numbers.len().min(usize::try_from(count).unwrap_or(usize::MAX));
    for &number in &numbers[..dropped] {
        packets[number].left = packets[number].came;
    }
    for &number in &numbers[dropped..] {
        packets[number].is_dropped = false;
    }
    numbers[..dropped].iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(limit: u64, drops_queued: bool) -> QueueRoom {
        QueueRoom { limit: Some(limit), drops_queued }
    }

    #[test]
    fn a_packet_that_was_dropped_found_the_queue_full_or_was_taken_in() {
        let packet = |(came, left, is_dropped)| QueuedPacket { came: Instant(came), left: Instant(left), is_dropped };
        let came = [
            ((10, 40, false), false),
            ((20, 60, false), false),
            // two wait, the second until 60; the first leaves after a packet that comes as it leaves
            ((30, 70, true), true),
            ((40, 70, true), true),
            // taken in, and dropped from the queue once another packet leaves at 95
            ((50, 95, true), false),
            ((60, 95, true), true),
            ((61, 95, false), false),
            ((95, 99, true), true),
            ((96, 99, true), false),
        ];
        let (packets, full): (Vec<_>, Vec<_>) = came.into_iter().map(|(one, full)| (packet(one), full)).unzip();
        assert_eq!(find_overflows(&packets, &room(2, true)), full);
        // if none is dropped from the queue, the one that came at 50 never waited
        let on_arrival = [false, false, true, true, false, false, false, false, false];
        assert_eq!(find_overflows(&packets, &room(2, false)), on_arrival);
    }

    #[test]
    fn flows_overtake_each_other_in_a_queue_with_one_limit() {
        let packet = |came, left, is_dropped| QueuedPacket { came: Instant(came), left: Instant(left), is_dropped };
        // the second leaves first
        let packets = [packet(10, 90, false), packet(20, 30, false), packet(40, 80, false), packet(50, 100, true)];
        assert_eq!(find_overflows(&packets, &room(2, true)), [false, false, false, true]);
        assert_eq!(find_overflows(&packets, &room(3, true)), [false; 4]);
    }
}
