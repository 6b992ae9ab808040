//! The queue in a window: what all shards have sent, merged in order, goes through it.

use super::{Departed, Sent};
use dumbbell_bottleneck::Bottleneck;
use dumbbell_core::aqm::Aqm;
use dumbbell_core::hint::{likely, unlikely};
use dumbbell_core::log::Log;
use dumbbell_core::packet::Packet;
use dumbbell_core::prefetch::prefetch;
use dumbbell_core::units::Instant;

/// Number of packets of a list by which it is prefetched.
const LIST_AHEAD: usize = 32;
/// Numbers of packets by which the queue of its flow is prefetched, and the packet in front of it there.
const FLOW_AHEAD: usize = 6;
const TAIL_AHEAD: usize = 2;

/// After everything.
const END: u128 = u128::MAX;

/// Merges lists that are in order: a winner tree over their heads.
struct Merge<'a> {
    lists: Vec<&'a [Sent]>,
    /// Leaves start at `base`, a power of two; node `k` holds the earliest head below it, and its list.
    nodes: Vec<(u128, u32)>,
    base: usize,
}

/// Time and order of a packet in one number.
#[inline(always)]
fn key(sent: &Sent) -> u128 {
    u128::from(sent.packet.enqueue_time.0) << 64 | u128::from(sent.order)
}

impl<'a> Merge<'a> {
    fn new(lists: Vec<&'a [Sent]>) -> Merge<'a> {
        let base = lists.len().next_power_of_two();
        let mut nodes = vec![(END, 0); 2 * base];
        for (index, list) in lists.iter().enumerate() {
            nodes[base + index] = (list.first().map_or(END, key), index as u32);
        }
        for k in (1..base).rev() {
            nodes[k] = nodes[2 * k].min(nodes[2 * k + 1]);
        }
        Merge { lists, nodes, base }
    }

    /// Time and order of the next packet; [`END`] if there is none.
    #[inline(always)]
    fn next(&self) -> u128 {
        self.nodes[1].0
    }

    /// Takes the packets of the next event.
    #[inline(always)]
    fn take(&mut self) -> &'a [Sent] {
        let (least, list) = self.nodes[1];
        let rest = self.lists[list as usize];
        let count = 1 + rest[1..].iter().take_while(|sent| key(sent) == least).count();
        let (taken, rest) = rest.split_at(count);
        self.lists[list as usize] = rest;
        let mut winner = (rest.first().map_or(END, key), list);
        let mut k = self.base + list as usize;
        self.nodes[k] = winner;
        while k > 1 {
            winner = winner.min(self.nodes[k ^ 1]);
            k /= 2;
            self.nodes[k] = winner;
        }
        taken
    }

    /// The packet that is `ahead` places behind the head of the list that was the last to be taken from.
    #[inline(always)]
    fn later(&self, taken: &Sent, shift: u32, ahead: usize) -> Option<&'a Sent> {
        self.lists[(taken.packet.flow >> shift) as usize].get(ahead)
    }
}

/// Until when the queue runs.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Everything until then happens, that instant included.
    pub until: Instant,
    /// The queue discipline's own clock stops before.
    pub timers_before: Instant,
}

/// Where packets go that leave the link: each list belongs to the shard of `1 << shift` slots.
pub struct DepartedLists<'a> {
    pub lists: &'a mut [Vec<Departed>],
    pub shift: u32,
}

/// Lets the queue and its link run, to which `lists` have been sent. With `crowded`, what the next packets need is prefetched.
pub fn run_queue<A: Aqm, L: Log>(
    queue: &mut Bottleneck<A, L>,
    lists: Vec<&[Sent]>,
    Limits { until, timers_before }: Limits,
    out: &mut DepartedLists<'_>,
    crowded: bool,
) {
    let mut arriving = Merge::new(lists);
    loop {
        let arrives_at = Instant((arriving.next() >> 64) as u64);
        let (link_at, aqm_at) = (queue.next, queue.aqm.next_timer());
        if link_at <= arrives_at && link_at <= aqm_at {
            if unlikely(link_at > until) {
                return;
            }
            if let Some(mut packet) = queue.advance(link_at) {
                packet.enqueue_time = link_at;
                out.lists[(packet.flow >> out.shift) as usize].push(packet);
            }
            if crowded {
                let soon = queue.aqm.next_flow_hint().or_else(|| queue.in_service().map(|packet| packet.flow));
                if let Some(flow) = soon {
                    queue.log.counters.flows.prefetch(flow);
                }
            }
        } else if arrives_at <= aqm_at {
            if unlikely(arrives_at == Instant::NEVER) {
                return;
            }
            let taken = arriving.take();
            for Sent { packet, .. } in taken {
                // in registers: what is read from memory soon after it was written waits for all that was written before, such as lists that were in other caches
                let [_, b, c, d] = packet.to_words();
                if likely(queue.is_busy(packet.flags())) {
                    queue.arrive_busy(Packet::from_words([0, b, c, d]), arrives_at);
                } else {
                    arrive_at_idle(queue, [0, b, c, d], arrives_at);
                }
            }
            if crowded {
                // there are too many lists for the processor to see that each is read in order
                if let Some(far) = arriving.later(&taken[0], out.shift, LIST_AHEAD) {
                    prefetch(far);
                }
                if let Some(later) = arriving.later(&taken[0], out.shift, FLOW_AHEAD) {
                    queue.aqm.prefetch(later.packet.flow, false);
                    queue.log.counters.flows.prefetch(later.packet.flow);
                }
                if let Some(soon) = arriving.later(&taken[0], out.shift, TAIL_AHEAD) {
                    queue.aqm.prefetch(soon.packet.flow, true);
                }
            }
        } else {
            if aqm_at > until || aqm_at >= timers_before {
                return;
            }
            queue.on_aqm_timer(aqm_at);
        }
    }
}

/// The packet of these words reaches the queue.
#[inline(never)]
fn arrive_at_idle<A: Aqm, L: Log>(queue: &mut Bottleneck<A, L>, words: [u64; 4], now: Instant) {
    queue.arrive(Packet::from_words(words), now);
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbbell_core::rng::mix;

    #[test]
    fn lists_are_merged_by_time_and_order_and_bursts_stay_together() {
        for count in [1, 2, 3, 5, 8] {
            let mut lists = vec![Vec::new(); count];
            for step in 0..400_u64 {
                let random = mix(step);
                let list = (random % count as u64) as usize;
                let packet = Packet { enqueue_time: Instant(step / 7), ..Packet::EMPTY };
                let sent = Sent { order: list as u64 * 1_000 + step, packet };
                // one event sends one to three packets
                (0..=random >> 62).for_each(|_| lists[list].push(sent));
            }
            let mut expected: Vec<u128> = lists.iter().flatten().map(key).collect();
            expected.sort_unstable();
            let mut merge = Merge::new(lists.iter().map(Vec::as_slice).collect());
            let mut found = Vec::new();
            while merge.next() != END {
                let (next, taken) = (merge.next(), merge.take());
                assert!(taken.iter().all(|sent| key(sent) == next) && merge.next() != next);
                found.extend(taken.iter().map(key));
            }
            assert_eq!(found, expected);
        }
    }
}
