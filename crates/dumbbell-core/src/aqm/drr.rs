//! Flow queues served by deficit round robin, new flows first: the scheduler of FQ-CoDel and FQ-PIE.
//!
//! Specification: RFC 8290 sections 4.1 and 4.2, as in Linux `net/sched/sch_fq_codel.c` (6.18). A flow that has been idle is new
//! and is served before the others until it has sent a quantum; then it is old. Flows are hashed to queues, and those that collide
//! share one. A queue exists in memory from the first flow on that is hashed to it; queues are numbered in this order.

use super::store::{Chain, Store};
use super::{FlowKey, QueueContext};
use crate::log::{At, Log};
use crate::packet::Packet;
use crate::prefetch::prefetch;
use crate::rng::{mix, Rng};
use crate::slots::SlotTable;
use crate::units::Instant;

/// No queue: a bucket that no flow was hashed to.
const NOBODY: u32 = u32::MAX;
/// The number of queues that are prefetched together.
const GROUP: usize = 4;

/// Queues in order: appended at the tail, taken from the head. A ring with room for all queues, each of which is in one list at most once.
#[derive(Clone, Debug, Default)]
struct QueueList {
    /// A power of two of places.
    ring: Vec<u32>,
    /// Queues that were ever taken, and appended; both wrap.
    head: u32,
    tail: u32,
}

impl QueueList {
    /// Makes room for this number of queues.
    fn reserve(&mut self, queues: usize) {
        if queues > self.ring.len() {
            let queued: Vec<u32> = (0..self.len()).map(|ahead| self.ring[self.place(self.head.wrapping_add(ahead))]).collect();
            (self.head, self.tail) = (0, queued.len() as u32);
            self.ring = queued;
            self.ring.resize(queues.next_power_of_two(), NOBODY);
        }
    }

    #[inline(always)]
    fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    #[inline(always)]
    fn place(&self, number: u32) -> usize {
        number as usize & (self.ring.len() - 1)
    }

    /// The head.
    #[inline(always)]
    fn first(&self) -> u32 {
        self.ring[self.place(self.head)]
    }

    #[inline(always)]
    fn push(&mut self, index: u32) {
        let place = self.place(self.tail);
        self.ring[place] = index;
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline(always)]
    fn pop(&mut self) {
        self.head = self.head.wrapping_add(1);
    }

    /// The head, `index`, goes to the tail. Returns the new one.
    #[inline(always)]
    fn rotate(&mut self, index: u32) -> u32 {
        self.push(index);
        self.pop();
        self.first()
    }

    /// Once in [`GROUP`] queues, a group that comes soon, and the one behind it. Not at the end of the ring, where nothing is lost by that.
    #[inline(always)]
    fn groups_ahead(&self) -> Option<(&[u32], &[u32])> {
        if self.head % GROUP as u32 != 0 || self.len() as usize <= 4 * GROUP {
            return None;
        }
        let ahead = self.ring.get(self.place(self.head) + 2 * GROUP..)?.get(..2 * GROUP)?;
        Some(ahead.split_at(GROUP))
    }
}

/// One queue with the state of its AQM: a cache line, if that takes half of it.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct DrrQueue<V> {
    packets: Chain,
    /// Bytes queued.
    backlog: u64,
    /// Bytes that it may send before its turn is over.
    deficit: i32,
    /// Whether the queue is in a list.
    listed: bool,
    vars: V,
}

/// The packets of one queue.
pub struct QueuedFlow<'a> {
    packets: &'a mut Chain,
    backlog: &'a mut u64,
    deficit: &'a mut i32,
    store: &'a mut Store,
}

impl QueuedFlow<'_> {
    /// The head, to be changed where it is; its length must stay.
    #[inline(always)]
    pub fn head_mut(&mut self) -> Option<&mut Packet> {
        self.store.head_mut(self.packets)
    }

    /// Takes the head; nothing is charged for it.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Packet> {
        let packet = self.store.pop(self.packets)?;
        *self.backlog -= u64::from(packet.len);
        Some(packet)
    }

    /// Takes the head and charges it to the turn of the queue.
    #[inline(always)]
    pub fn send(&mut self) -> Option<Packet> {
        let packet = self.pop()?;
        *self.deficit -= i32::from(packet.len);
        Some(packet)
    }

    /// Bytes queued.
    #[inline(always)]
    pub fn backlog(&self) -> u64 {
        *self.backlog
    }

    /// Bytes in all queues.
    #[inline(always)]
    pub fn all_bytes(&self) -> u64 {
        self.store.bytes()
    }
}

/// The queues, each with the state `V` of its AQM, their lists and their packets.
#[derive(Clone, Debug)]
pub struct FlowQueues<V> {
    /// Queue of every flow.
    of_flow: SlotTable<u32>,
    queues: Vec<DrrQueue<V>>,
    /// Queue of every bucket.
    of_bucket: Vec<u32>,
    /// Bucket of every queue.
    buckets: Vec<u32>,
    perturbation: u64,
    store: Store,
    /// Queues in the order of their turns.
    new: QueueList,
    old: QueueList,
    quantum: i32,
    /// How often a flow became new.
    pub new_flows: u64,
}

impl<V> FlowQueues<V> {
    /// Takes the quantum of `other`, from the next turn of each queue on.
    pub fn take_quantum(&mut self, other: &FlowQueues<V>) {
        self.quantum = other.quantum;
    }

    /// Flows are hashed to `buckets` queues, with a perturbation from the stream `name` of a run; `quantum` bytes per turn.
    pub fn new(buckets: u32, quantum: u32, context: &QueueContext, name: &str) -> FlowQueues<V> {
        FlowQueues {
            of_flow: SlotTable::default(),
            queues: Vec::new(),
            of_bucket: vec![NOBODY; buckets as usize],
            buckets: Vec::new(),
            perturbation: Rng::stream(context.seed, name, 0).next_u64(),
            store: Store::new(context.small_heads),
            new: QueueList::default(),
            old: QueueList::default(),
            quantum: quantum as i32,
            new_flows: 0,
        }
    }

    /// The bucket that a flow is hashed to.
    fn bucket(&self, key: &FlowKey) -> u32 {
        let hosts = u64::from(key.src_host) << 32 | u64::from(key.dst_host);
        let hash = mix(mix(hosts ^ self.perturbation) ^ u64::from(key.ports)) as u32;
        // scaled, not modulo: Linux `reciprocal_scale`
        ((u64::from(hash) * self.of_bucket.len() as u64) >> 32) as u32
    }

    /// From now on, the packets of `flow` join the queue of its hash. Returns the number of the queue if it did not exist before; the state of its AQM
    /// is `vars` then.
    pub fn flow_starts(&mut self, flow: u32, key: &FlowKey, vars: V) -> Option<u32> {
        let bucket = self.bucket(key);
        let queue = &mut self.of_bucket[bucket as usize];
        let is_new = *queue == NOBODY;
        if is_new {
            *queue = self.queues.len() as u32;
            self.queues.push(DrrQueue { packets: Chain::default(), backlog: 0, deficit: 0, listed: false, vars });
            self.buckets.push(bucket);
            // nothing is allocated when a queue joins a list
            self.new.reserve(self.queues.len());
            self.old.reserve(self.queues.len());
        }
        *self.of_flow.entry(flow) = *queue;
        is_new.then_some(*queue)
    }

    /// The bucket of queue `index`.
    pub fn bucket_of(&self, index: u32) -> u32 {
        self.buckets[index as usize]
    }

    /// How many queues there are; they are numbered from 0.
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.store.packets() == 0
    }

    /// Queue of a flow, which has started.
    #[inline]
    pub fn of_flow(&self, flow: u32) -> usize {
        self.of_flow[flow] as usize
    }

    /// Packets in all queues.
    #[inline]
    pub fn packets(&self) -> usize {
        self.store.packets()
    }

    /// Bytes in all queues.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// Memory that Linux accounts for the packets, bytes.
    #[inline]
    pub fn memory(&self) -> u64 {
        self.store.memory()
    }

    /// Bytes in queue `index`, and the state of its AQM.
    #[inline]
    pub fn backlog_and_vars(&mut self, index: usize) -> (u64, &mut V) {
        let DrrQueue { backlog, vars, .. } = &mut self.queues[index];
        (*backlog, vars)
    }

    /// The states of all AQMs.
    pub fn iter_vars(&self) -> impl Iterator<Item = &V> {
        self.queues.iter().map(|queue| &queue.vars)
    }

    /// The packets of queue `index`, and the state of its AQM.
    #[inline(always)]
    pub fn queue_and_vars(&mut self, index: usize) -> (QueuedFlow<'_>, &mut V) {
        let DrrQueue { packets, backlog, deficit, vars, .. } = &mut self.queues[index];
        (QueuedFlow { packets, backlog, deficit, store: &mut self.store }, vars)
    }

    /// Stamps `packet` with the time, appends it to queue `index` and reports it. A queue that was in no list becomes new.
    // what goes through memory as two halves and comes back as a whole waits for it: a packet should stay in registers
    #[inline(always)]
    pub fn push<L: Log>(&mut self, index: usize, mut packet: Packet, now: Instant, log: &mut L) {
        packet.enqueue_time = now;
        log.on_enqueue(&packet, At { now, queue: index as u32 });
        let queue = &mut self.queues[index];
        queue.backlog += u64::from(packet.len);
        self.store.push(&mut queue.packets, packet);
        if !queue.listed {
            queue.listed = true;
            queue.deficit = self.quantum;
            self.new_flows += 1;
            self.new.push(index as u32);
        }
    }

    /// Takes the head of queue `index`; nothing is charged for it.
    #[inline]
    pub fn take(&mut self, index: usize) -> Option<Packet> {
        self.queue_and_vars(index).0.pop()
    }

    /// The queue that is to send next; on the way, turns are over and begin. `None` if all lists are empty.
    #[inline(always)]
    pub fn turn(&mut self) -> Option<usize> {
        if !self.new.is_empty() {
            if let Some(index) = self.turn_of_new() {
                return Some(index);
            }
        }
        if self.old.is_empty() {
            return None;
        }
        let mut index = self.old.first();
        loop {
            let queue = &mut self.queues[index as usize];
            if queue.deficit > 0 {
                return Some(index as usize);
            }
            queue.deficit += self.quantum;
            index = self.old.rotate(index);
        }
    }

    /// The first new queue that may send; those before it become old.
    #[inline(never)]
    fn turn_of_new(&mut self) -> Option<usize> {
        while !self.new.is_empty() {
            let index = self.new.first();
            let queue = &mut self.queues[index as usize];
            if queue.deficit > 0 {
                return Some(index as usize);
            }
            queue.deficit += self.quantum;
            self.new.pop();
            self.old.push(index);
        }
        None
    }

    /// Prefetches the next queues and their first packets: with thousands of queues, they are no longer in the cache.
    #[inline(always)]
    pub fn prefetch_next(&self) {
        if let Some((soon, later)) = self.old.groups_ahead() {
            for &queue in soon {
                self.store.prefetch(&self.queues[queue as usize].packets);
            }
            for &queue in later {
                prefetch(&self.queues[queue as usize]);
            }
        }
    }

    /// A packet of `flow` will soon be pushed: asks for its queue, or, if it is `near`, for the packet in front of it.
    #[inline]
    pub fn prefetch(&self, flow: u32, near: bool) {
        let Some(queue) = self.of_flow.get(flow).and_then(|&index| self.queues.get(index as usize)) else { return };
        if near {
            self.store.prefetch_tail(&queue.packets);
        } else {
            prefetch(queue);
        }
    }

    /// Queue `index`, whose turn it is, had nothing to send: it leaves. A new one waits behind the old ones first, if there are any,
    /// so that it does not become new again at once (RFC 8290 section 4.2).
    #[inline]
    pub fn went_empty(&mut self, index: usize) {
        let is_new = !self.new.is_empty();
        if is_new {
            self.new.pop();
        } else {
            self.old.pop();
        }
        if is_new && !self.old.is_empty() {
            self.old.push(index as u32);
        } else {
            self.queues[index].listed = false;
        }
    }

    /// The queue with the most bytes; of several, the one of the lowest bucket, as Linux finds it in its scan. There must be a queue.
    pub fn longest(&self) -> usize {
        let mut longest = 0;
        for index in 1..self.queues.len() {
            let [most, other] = [longest, index].map(|queue| self.queues[queue].backlog);
            if other > most || (other == most && self.buckets[index] < self.buckets[longest]) {
                longest = index;
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::testing::packet;
    use crate::packet::Ecn;
    use crate::units::Rate;

    /// `flows` flows hashed to `buckets` queues.
    fn hash_flows(flows: u32, buckets: u32, seed: u64) -> FlowQueues<()> {
        let mut queues = FlowQueues::new(buckets, 1514, &QueueContext::new(Rate::UNLIMITED, seed), "test");
        for ports in 0..flows {
            queues.flow_starts(ports, &FlowKey { src_host: 1, dst_host: 2, ports, dscp: 0 }, ());
        }
        queues
    }

    /// Queues of `flows` flows that do not collide.
    fn queues(flows: u32) -> FlowQueues<()> {
        let queues = hash_flows(flows, 65_536, 1);
        assert_eq!(queues.len(), flows as usize);
        queues
    }

    fn frame(len: u16) -> Packet {
        Packet { len, ..packet(0, Ecn::Ect0) }
    }

    /// Sends until the lists are empty; the queue of every packet in order.
    fn drain(queues: &mut FlowQueues<()>) -> Vec<usize> {
        let mut order = Vec::new();
        while let Some(index) = queues.turn() {
            match queues.queue_and_vars(index).0.send() {
                Some(_) => order.push(index),
                None => queues.went_empty(index),
            }
        }
        order
    }

    #[test]
    fn a_list_keeps_its_order_when_it_grows_and_wraps() {
        let mut list = QueueList { head: u32::MAX - 2, tail: u32::MAX - 2, ..QueueList::default() };
        list.reserve(3);
        (0..3).for_each(|index| list.push(index));
        assert_eq!([list.rotate(0), list.rotate(1)], [1, 2]);
        list.reserve(6);
        (3..6).for_each(|index| list.push(index));
        let order = std::iter::from_fn(|| (!list.is_empty()).then(|| list.first()).inspect(|_| list.pop()));
        assert_eq!(order.collect::<Vec<_>>(), [2, 0, 1, 3, 4, 5]);
    }

    #[test]
    fn a_full_packet_uses_up_a_turn() {
        let mut queues = queues(2);
        for index in [0, 0, 0, 1, 1, 1] {
            queues.push(index, frame(1514), Instant::ZERO, &mut ());
        }
        // deficit 1514 - 1514 = 0: the turn is over after one packet
        assert_eq!(drain(&mut queues), [0, 1, 0, 1, 0, 1]);
        assert_eq!((queues.packets(), queues.bytes(), queues.memory(), queues.new_flows), (0, 0, 0, 2));
    }

    #[test]
    fn sixteen_small_packets_fit_into_a_turn() {
        let mut queues = queues(2);
        (0..20).for_each(|_| queues.push(0, frame(100), Instant::ZERO, &mut ()));
        queues.push(1, frame(1514), Instant::ZERO, &mut ());
        let order = drain(&mut queues);
        // 15 * 100 = 1500 < 1514: the 16th goes, and leaves -86
        assert_eq!(order[..17], [vec![0; 16], vec![1]].concat());
        assert_eq!(order.len(), 21);
    }

    #[test]
    fn a_sparse_flow_overtakes_and_is_not_new_twice_in_a_row() {
        let mut queues = queues(2);
        (0..5).for_each(|_| queues.push(0, frame(1514), Instant::ZERO, &mut ()));
        let mut sent = Vec::new();
        for step in 0..4 {
            if step < 3 {
                // a packet whenever the last one has left
                queues.push(1, frame(100), Instant::ZERO, &mut ());
            }
            for _ in 0..2 {
                let index = queues.turn().unwrap();
                match queues.queue_and_vars(index).0.send() {
                    Some(_) => sent.push(index),
                    None => queues.went_empty(index),
                }
            }
        }
        // Flow 0 is first in the list of new flows. Its second packet comes from the old ones, behind flow 1; flow 1 is found
        // empty and waits behind flow 0 for one pass, in which its next packet is that of an old flow.
        assert_eq!(sent, [0, 1, 1, 0, 1, 0]);
        assert_eq!(queues.new_flows, 2);
    }

    #[test]
    fn flows_share_a_queue_if_there_are_fewer_queues() {
        let queues = hash_flows(40, 8, 3);
        assert!(queues.len() <= 8 && queues.len() > 4);
        assert!((0..40).all(|flow| queues.of_flow(flow) < queues.len()));
    }

    #[test]
    fn a_slot_that_is_used_again_joins_the_queue_of_its_new_flow() {
        let mut queues = queues(2);
        let [first, second] = [0, 1].map(|flow| queues.of_flow(flow));
        queues.flow_starts(0, &FlowKey { src_host: 1, dst_host: 2, ports: 1, dscp: 0 }, ());
        assert_eq!((queues.of_flow(0), queues.len()), (second, 2));
        queues.flow_starts(7, &FlowKey { src_host: 1, dst_host: 2, ports: 0, dscp: 0 }, ());
        assert_eq!((queues.of_flow(7), queues.len()), (first, 2));
    }

    #[test]
    fn the_longest_is_the_one_with_most_bytes_and_of_those_the_lowest_bucket() {
        let mut queues = queues(6);
        for (queue, frames, len) in [(0, 9, 100), (1, 1, 1000), (2, 1, 1000), (3, 1, 1000), (4, 1, 1000), (5, 1, 1000)] {
            (0..frames).for_each(|_| queues.push(queue, frame(len), Instant::ZERO, &mut ()));
        }
        let lowest = (1..6).min_by_key(|&queue| queues.buckets[queue]);
        assert_ne!(lowest, Some(1), "the order of buckets differs from that of the flows, or the test says nothing");
        assert_eq!(Some(queues.longest()), lowest);
        queues.push(0, frame(101), Instant::ZERO, &mut ());
        assert_eq!(queues.longest(), 0);
    }
}
