//! Flow queues served by deficit round robin, new flows first: the scheduler of FQ-CoDel and FQ-PIE.
//!
//! Specification: RFC 8290 sections 4.1 and 4.2, as in Linux `net/sched/sch_fq_codel.c` (6.18). A flow that has been idle is new
//! and is served before the others until it has sent a quantum; then it is old. Flows are hashed to queues, and those that collide
//! share one. A queue exists in memory from the first flow on that is hashed to it; queues are numbered in this order.

use super::store::{Chain, Store};
use super::{FlowKey, QueueContext};
use crate::buffers::truesize;
use crate::log::{At, Log};
use crate::packet::Packet;
use crate::prefetch::prefetch;
use crate::rng::{mix, Rng};
use crate::slots::SlotTable;
use crate::units::Instant;

/// No queue: end of a list, or a bucket that no flow was hashed to.
const NOBODY: u32 = u32::MAX;

/// One queue: a cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct DrrQueue {
    packets: Chain,
    /// Bytes queued.
    backlog: u64,
    /// Bytes that it may send before its turn is over.
    deficit: i64,
    /// The one behind it in its list.
    next: u32,
    /// Whether the queue is in a list.
    listed: bool,
}

/// Queues in order, linked through [`DrrQueue::next`]: appended at the tail, taken from the head.
#[derive(Clone, Copy, Debug)]
struct QueueList {
    head: u32,
    tail: u32,
}

impl QueueList {
    const EMPTY: QueueList = QueueList { head: NOBODY, tail: NOBODY };

    #[inline]
    fn push(&mut self, queues: &mut [DrrQueue], index: u32) {
        queues[index as usize].next = NOBODY;
        match self.tail {
            NOBODY => self.head = index,
            tail => queues[tail as usize].next = index,
        }
        self.tail = index;
    }

    #[inline]
    fn pop(&mut self, queues: &[DrrQueue]) {
        self.head = queues[self.head as usize].next;
        if self.head == NOBODY {
            self.tail = NOBODY;
        }
    }
}

/// The queues, their lists and their packets.
#[derive(Clone, Debug)]
pub struct FlowQueues {
    /// Queue of every flow.
    of_flow: SlotTable<u32>,
    queues: Vec<DrrQueue>,
    /// Queue of every bucket.
    of_bucket: Vec<u32>,
    /// Bucket of every queue.
    buckets: Vec<u32>,
    perturbation: u64,
    store: Store,
    new: QueueList,
    old: QueueList,
    quantum: i64,
    packets: usize,
    bytes: u64,
    memory: u64,
    /// See [`QueueContext::small_heads`].
    small_heads: bool,
    /// How often a flow became new.
    pub new_flows: u64,
}

impl FlowQueues {
    /// Flows are hashed to `buckets` queues, with a perturbation from the stream `name` of a run; `quantum` bytes per turn.
    pub fn new(buckets: u32, quantum: u32, context: &QueueContext, name: &str) -> FlowQueues {
        FlowQueues {
            of_flow: SlotTable::default(),
            queues: Vec::new(),
            of_bucket: vec![NOBODY; buckets as usize],
            buckets: Vec::new(),
            perturbation: Rng::stream(context.seed, name, 0).next_u64(),
            store: Store::default(),
            new: QueueList::EMPTY,
            old: QueueList::EMPTY,
            quantum: i64::from(quantum),
            packets: 0,
            bytes: 0,
            memory: 0,
            small_heads: context.small_heads,
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

    /// From now on, the packets of `flow` join the queue of its hash, which may be a queue that did not exist before.
    pub fn flow_starts(&mut self, flow: u32, key: &FlowKey) {
        let bucket = self.bucket(key);
        let queue = &mut self.of_bucket[bucket as usize];
        if *queue == NOBODY {
            *queue = self.queues.len() as u32;
            self.queues.push(DrrQueue { packets: Chain::default(), backlog: 0, deficit: 0, next: NOBODY, listed: false });
            self.buckets.push(bucket);
        }
        *self.of_flow.entry(flow) = *queue;
    }

    /// The bucket of queue `index`.
    pub fn bucket_of(&self, index: usize) -> u32 {
        self.buckets[index]
    }

    /// How many queues there are; they are numbered from 0.
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Queue of a flow, which has started.
    #[inline]
    pub fn of_flow(&self, flow: u32) -> usize {
        self.of_flow[flow] as usize
    }

    /// Packets in all queues.
    #[inline]
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Bytes in all queues.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Memory that Linux accounts for the packets, bytes.
    #[inline]
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Bytes in queue `index`.
    #[inline]
    pub fn backlog(&self, index: usize) -> u64 {
        self.queues[index].backlog
    }

    /// Stamps `packet` with the time, appends it to queue `index` and reports it. A queue that was in no list becomes new.
    // what goes through memory as two halves and comes back as a whole waits for it: a packet should stay in registers
    #[inline(always)]
    pub fn push<L: Log>(&mut self, index: usize, mut packet: Packet, now: Instant, log: &mut L) {
        packet.enqueue_time = now;
        log.on_enqueue(&packet, At { now, queue: index as u32 });
        let queue = &mut self.queues[index];
        queue.backlog += u64::from(packet.len);
        self.packets += 1;
        self.bytes += u64::from(packet.len);
        self.memory += u64::from(truesize(&packet, self.small_heads));
        self.store.push(&mut queue.packets, packet);
        if !queue.listed {
            queue.listed = true;
            queue.deficit = self.quantum;
            self.new_flows += 1;
            self.new.push(&mut self.queues, index as u32);
        }
    }

    /// Takes the head of queue `index`; nothing is charged for it.
    #[inline]
    pub fn take(&mut self, index: usize) -> Option<Packet> {
        let packet = *self.store.head(&self.queues[index].packets)?;
        self.discard(index);
        Some(packet)
    }

    /// The head of queue `index`, to be changed where it is; its length must stay.
    #[inline]
    pub fn head_mut(&mut self, index: usize) -> Option<&mut Packet> {
        self.store.head_mut(&self.queues[index].packets)
    }

    /// Takes the head of queue `index` off, if there is one, without moving it; nothing is charged for it.
    #[inline]
    pub fn discard(&mut self, index: usize) {
        let queue = &mut self.queues[index];
        let Some(head) = self.store.head(&queue.packets) else { return };
        let (len, memory) = (head.len, truesize(head, self.small_heads));
        self.store.discard(&mut queue.packets);
        queue.backlog -= u64::from(len);
        self.packets -= 1;
        self.bytes -= u64::from(len);
        self.memory -= u64::from(memory);
    }

    /// The queue that is to send next; on the way, turns are over and begin. `None` if all lists are empty.
    #[inline]
    pub fn turn(&mut self) -> Option<usize> {
        loop {
            let from_new = self.new.head != NOBODY;
            let index = if from_new { self.new.head } else { self.old.head };
            if index == NOBODY {
                return None;
            }
            let queue = &mut self.queues[index as usize];
            if queue.deficit > 0 {
                return Some(index as usize);
            }
            queue.deficit += self.quantum;
            self.leave_head(from_new);
            self.old.push(&mut self.queues, index);
        }
    }

    /// Queue `index`, whose turn it is, has sent `len` bytes. Returns one whose turn comes soon, so that others ask memory for what they know of it.
    #[inline]
    pub fn charge_sent(&mut self, index: usize, len: u16) -> usize {
        self.queues[index].deficit -= i64::from(len);
        // the next one's packet may have been pushed out of the cache by those of thousands of others
        let behind = |ahead: usize| self.queues.get(ahead).map_or(usize::MAX, |queue| queue.next as usize);
        let number = behind(behind(behind(behind(index))));
        if let Some(soon) = self.queues.get(number) {
            self.store.prefetch(&soon.packets);
            if let Some(later) = self.queues.get(soon.next as usize) {
                prefetch(later);
            }
        }
        number
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

    /// The flow of the packet that most likely leaves next.
    #[inline]
    pub fn next_flow_hint(&self) -> Option<u32> {
        let head = if self.new.head != NOBODY { self.new.head } else { self.old.head };
        let first = self.queues.get(head as usize)?;
        let queue = if first.deficit > 0 { first } else { self.queues.get(first.next as usize)? };
        self.store.head(&queue.packets).map(|packet| packet.flow)
    }

    /// Queue `index`, whose turn it is, had nothing to send: it leaves. A new one waits behind the old ones first, if there are any,
    /// so that it does not become new again at once (RFC 8290 section 4.2).
    #[inline]
    pub fn went_empty(&mut self, index: usize) {
        let from_new = self.new.head == index as u32;
        self.leave_head(from_new);
        if from_new && self.old.head != NOBODY {
            self.old.push(&mut self.queues, index as u32);
        } else {
            self.queues[index].listed = false;
        }
    }

    #[inline]
    fn leave_head(&mut self, from_new: bool) {
        let list = if from_new { &mut self.new } else { &mut self.old };
        list.pop(&self.queues);
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
    fn hash_flows(flows: u32, buckets: u32, seed: u64) -> FlowQueues {
        let mut queues = FlowQueues::new(buckets, 1514, &QueueContext::new(Rate::UNLIMITED, seed), "test");
        (0..flows).for_each(|ports| queues.flow_starts(ports, &FlowKey { src_host: 1, dst_host: 2, ports, dscp: 0 }));
        queues
    }

    /// Queues of `flows` flows that do not collide.
    fn queues(flows: u32) -> FlowQueues {
        let queues = hash_flows(flows, 65_536, 1);
        assert_eq!(queues.len(), flows as usize);
        queues
    }

    fn frame(len: u16) -> Packet {
        Packet { len, ..packet(0, Ecn::Ect0) }
    }

    /// Sends until the lists are empty; the queue of every packet in order.
    fn drain(queues: &mut FlowQueues) -> Vec<usize> {
        let mut order = Vec::new();
        while let Some(index) = queues.turn() {
            match queues.take(index) {
                Some(packet) => {
                    queues.charge_sent(index, packet.len);
                    order.push(index);
                }
                None => queues.went_empty(index),
            }
        }
        order
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
                match queues.take(index) {
                    Some(packet) => {
                        queues.charge_sent(index, packet.len);
                        sent.push(index);
                    }
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
        queues.flow_starts(0, &FlowKey { src_host: 1, dst_host: 2, ports: 1, dscp: 0 });
        assert_eq!((queues.of_flow(0), queues.len()), (second, 2));
        queues.flow_starts(7, &FlowKey { src_host: 1, dst_host: 2, ports: 0, dscp: 0 });
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
