//! Flow isolation: which queue a packet joins, which host a queue belongs to, and the lists that queues are served from.
//!
//! Queues are found by an 8-way set-associative hash over 1024 queues per tin. Only queues that were used exist in memory, as
//! slots of one table: the structure is built in microseconds and a run touches the cache lines of its active flows only.

use super::cobalt::Cobalt;
use super::diffserv::Diffserv;
use super::turns::{self, TurnGains, TurnRing};
use crate::aqm::store::{Chain, Store};
use crate::packet::FlowKey;
use crate::rng::{mix, Rng};
use crate::slots::SlotTable;

crate::choice! {
    /// Between what the capacity is shared.
    pub enum Isolation {
        /// One queue per tin.
        FlowBlind = "flowblind",
        /// Source hosts.
        SrcHost = "srchost",
        /// Destination hosts.
        DstHost = "dsthost",
        /// Pairs of source and destination host.
        Hosts = "hosts",
        /// Flows (5-tuples).
        Flows = "flows",
        /// Source hosts first, then their flows.
        DualSrcHost = "dual-srchost",
        /// Destination hosts first, then their flows.
        DualDstHost = "dual-dsthost",
        /// Source and destination hosts first, then their flows.
        TripleIsolate = "triple-isolate",
    }
}

impl Isolation {
    /// Whether source hosts get equal shares.
    fn fair_to_sources(self) -> bool {
        matches!(self, Isolation::DualSrcHost | Isolation::TripleIsolate)
    }

    /// Whether destination hosts get equal shares.
    fn fair_to_destinations(self) -> bool {
        matches!(self, Isolation::DualDstHost | Isolation::TripleIsolate)
    }
}

/// Queues in a tin (`CAKE_QUEUES`, sch_cake.c).
const QUEUES: usize = 1024;
/// Queues that a hash value may go to (`CAKE_SET_WAYS`, sch_cake.c).
const WAYS: usize = 8;

/// State of a flow queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowState {
    /// On no list.
    #[default]
    None,
    /// Has not used up its first quantum.
    Sparse,
    /// Used up its first quantum and was then empty: waits in the old list, still counted as sparse.
    SparseWait,
    /// Uses up its quanta.
    Bulk,
    /// Empty; COBALT is not at rest yet.
    Decaying,
}

/// A flow queue: one cache line.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub struct FlowQueue {
    /// AQM of the flow.
    pub cobalt: Cobalt,
    tag: u32,
    /// Packets of the flow.
    pub packets: Chain,
    /// Bytes that it may still send in this turn. While the flow is in [`FlowTable::turns`], the current value is there.
    pub deficit: i32,
    next: u16,
    previous: u16,
    /// Where it stands.
    pub state: FlowState,
    /// Tin of the flow.
    pub tin: u8,
}

/// A list of flow queues, linked through [`FlowQueue`]. Slot 0 is nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowList {
    head: u16,
    tail: u16,
}

impl FlowList {
    /// The first, 0 if there is none.
    #[inline]
    pub fn first(&self) -> u16 {
        self.head
    }

    /// Appends `slot`.
    #[inline]
    pub fn push(&mut self, flows: &mut [FlowQueue], slot: u16) {
        flows[slot as usize].previous = self.tail;
        flows[slot as usize].next = 0;
        match self.tail {
            0 => self.head = slot,
            tail => flows[tail as usize].next = slot,
        }
        self.tail = slot;
    }

    /// Takes out `slot`, which must be in this list.
    #[inline]
    pub fn remove(&mut self, flows: &mut [FlowQueue], slot: u16) {
        let FlowQueue { next, previous, .. } = flows[slot as usize];
        match previous {
            0 => self.head = next,
            _ => flows[previous as usize].next = next,
        }
        match next {
            0 => self.tail = previous,
            _ => flows[next as usize].previous = previous,
        }
    }
}

/// The hashes of a flow, its tin, and the slot of the queue where it was found last (0: none).
#[derive(Clone, Copy, Debug, Default)]
struct Identity {
    flow_hash: u32,
    src_hash: u32,
    dst_hash: u32,
    tin: u8,
    slot: u16,
}

/// The hosts on one side: how many bulk flows each has.
#[derive(Clone, Debug)]
struct BulkHosts {
    tags: Vec<u32>,
    bulk_flows: Vec<u16>,
}

impl BulkHosts {
    fn new(tins: usize) -> BulkHosts {
        let size = tins * QUEUES;
        BulkHosts { tags: vec![0; size], bulk_flows: vec![0; size] }
    }

    /// The entry for the host with `hash`: its own, or one without bulk flows, or the one that its hash says.
    ///
    /// A host whose flows are all sparse still does not hold its entry: another may take it, and both then share it for as long
    /// as these flows last. So it is in Linux: of 20 hosts that start together, two on one side share in one run of six.
    fn find(&mut self, tin: u8, hash: u32) -> u16 {
        let (set, way) = set_and_way(tin, hash);
        let entries = || (0..WAYS).map(|i| set + (way + i) % WAYS);
        let free = || entries().find(|&entry| self.bulk_flows[entry] == 0);
        let entry = entries().find(|&entry| self.tags[entry] == hash).or_else(free).unwrap_or(set + way);
        self.tags[entry] = hash;
        entry as u16
    }
}

/// First index of the set of `hash` in `tin`, and the way to begin with.
#[inline]
fn set_and_way(tin: u8, hash: u32) -> (usize, usize) {
    let index = hash as usize % QUEUES;
    (tin as usize * QUEUES + index - index % WAYS, index % WAYS)
}

/// The hosts between which the mode shares.
#[derive(Clone, Debug)]
struct Loads {
    sources: Option<BulkHosts>,
    destinations: Option<BulkHosts>,
}

impl Loads {
    /// Whether a flow's turns depend on its hosts.
    fn count(&self) -> bool {
        self.sources.is_some() || self.destinations.is_some()
    }

    /// Calls `change` with the number of bulk flows of each host that counts.
    #[inline]
    fn change_counts(&mut self, hosts: Pair, change: impl Fn(&mut u16)) {
        if let Some(sources) = &mut self.sources {
            change(&mut sources.bulk_flows[hosts.source as usize]);
        }
        if let Some(destinations) = &mut self.destinations {
            change(&mut destinations.bulk_flows[hosts.destination as usize]);
        }
    }

    /// Bytes for one turn of a flow between `hosts` in units of 2^-16.
    #[inline]
    fn gain(&self, hosts: Pair, quantum: u32) -> u32 {
        let of_source = self.sources.as_ref().map_or(1, |sources| sources.bulk_flows[hosts.source as usize]);
        let of_destination =
            self.destinations.as_ref().map_or(1, |destinations| destinations.bulk_flows[hosts.destination as usize]);
        match of_source.max(of_destination) {
            // Almost always: spares the division.
            0 | 1 => quantum * 65535,
            load => quantum * (65535 / u32::from(load)),
        }
    }
}

/// The hosts of a flow, as entries of [`BulkHosts`]; 0 on a side that does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pair {
    source: u16,
    destination: u16,
}

/// Between what hosts the flows of a tin are.
#[derive(Clone, Copy, Debug)]
enum Between {
    /// There were no flows.
    Nobody,
    /// All flows had these.
    Two(Pair),
    /// There were others.
    Many,
}

impl Between {
    /// There is a flow between `hosts`.
    fn with_flow(self, hosts: Pair) -> Between {
        match self {
            Between::Nobody => Between::Two(hosts),
            Between::Two(same) if same == hosts => self,
            _ => Between::Many,
        }
    }
}

/// Bytes that a turn gives to flows of a tin. Caches the value of the last pair of hosts.
struct HostGains<'a> {
    hosts: &'a [Pair],
    loads: &'a Loads,
    quantum: u32,
    are_equal: bool,
    last: Option<(Pair, u32)>,
}

impl TurnGains for HostGains<'_> {
    #[inline]
    fn turn_gain(&mut self, slot: u16) -> u32 {
        let hosts = self.hosts[slot as usize];
        match self.last {
            Some((last, gain)) if last == hosts => gain,
            _ => {
                let gain = self.loads.gain(hosts, self.quantum);
                self.last = Some((hosts, gain));
                gain
            }
        }
    }

    #[inline]
    fn are_equal(&self) -> bool {
        self.are_equal
    }
}

/// All flow queues of all tins.
#[derive(Clone, Debug)]
pub struct FlowTable {
    /// By [`Packet::flow`](crate::packet::Packet::flow).
    identities: SlotTable<Identity>,
    isolation: Isolation,
    diffserv: Diffserv,
    perturbation: u64,
    /// Slot of every queue of every tin; 0 if never used.
    queues: Vec<u16>,
    /// Flow queues by slot.
    pub flows: Vec<FlowQueue>,
    /// Bytes by slot; apart from the flows so that the longest is found fast.
    pub backlogs: Vec<u32>,
    /// Hosts by slot; apart from the flows so that they stay in the cache when the gains of all turns change.
    hosts: Vec<Pair>,
    /// Values between turns, one for each tin.
    between: Vec<Between>,
    /// Flows that used up a quantum (Linux's list of old flows), of every tin.
    pub turns: Vec<TurnRing>,
    loads: Loads,
    rng: Rng,
}

impl FlowTable {
    /// An empty table of a run with `seed`, which decides what collides.
    pub fn new(isolation: Isolation, diffserv: Diffserv, tins: usize, seed: u64) -> FlowTable {
        let mut rng = Rng::stream(seed, "cake quantum", 0);
        FlowTable {
            identities: SlotTable::default(),
            isolation,
            diffserv,
            perturbation: Rng::stream(seed, "cake hash", 0).next_u64(),
            queues: vec![0; tins * QUEUES],
            flows: vec![FlowQueue::default()],
            backlogs: vec![0],
            hosts: vec![Pair::default()],
            between: vec![Between::Nobody; tins],
            turns: (0..tins).map(|_| TurnRing::new(&mut rng)).collect(),
            loads: Loads {
                sources: isolation.fair_to_sources().then(|| BulkHosts::new(tins)),
                destinations: isolation.fair_to_destinations().then(|| BulkHosts::new(tins)),
            },
            rng,
        }
    }

    /// From now on, packets of `flow` belong to the flow with `key`.
    pub fn flow_starts(&mut self, flow: u32, key: &FlowKey) {
        let hash = |input: u64| mix(input ^ self.perturbation);
        let src_hash = hash(u64::from(key.src_host)) as u32;
        let dst_hash = hash(1 << 32 | u64::from(key.dst_host)) as u32;
        let flow_hash = match self.isolation {
            Isolation::FlowBlind => 0,
            Isolation::SrcHost => src_hash,
            Isolation::DstHost => dst_hash,
            Isolation::Hosts => src_hash ^ dst_hash,
            _ => hash(hash(u64::from(key.src_host) << 32 | u64::from(key.dst_host)) ^ u64::from(key.ports)) as u32,
        };
        *self.identities.entry(flow) = Identity { flow_hash, src_hash, dst_hash, tin: self.diffserv.tin(key.dscp), slot: 0 };
    }

    /// Slot of the queue for a packet of `flow`.
    #[inline]
    pub fn slot(&mut self, flow: u32) -> u16 {
        let Identity { flow_hash, slot, .. } = self.identities[flow];
        let last = &self.flows[slot as usize];
        // A tag is in its set once at most: the queue that still has it, and is in use, is the one that a search would find.
        if last.tag == flow_hash && last.state != FlowState::None {
            slot
        } else {
            self.search(flow)
        }
    }

    #[cold]
    #[inline(never)]
    fn search(&mut self, flow: u32) -> u16 {
        let Identity { flow_hash, src_hash, dst_hash, tin, .. } = self.identities[flow];
        let (set, way) = set_and_way(tin, flow_hash);
        let queues = || (0..WAYS).map(|i| set + (way + i) % WAYS);
        let of = |queue: usize| &self.flows[self.queues[queue] as usize];
        let same = queues().find(|&queue| self.queues[queue] != 0 && of(queue).tag == flow_hash);
        let unused = || queues().find(|&queue| of(queue).state == FlowState::None);
        let queue = same.or_else(unused).unwrap_or(set + way);
        if self.queues[queue] == 0 {
            self.queues[queue] = self.flows.len() as u16;
            self.flows.push(FlowQueue { tin, ..FlowQueue::default() });
            self.backlogs.push(0);
            self.hosts.push(Pair::default());
        }
        let slot = self.queues[queue];
        let active_same = same.is_some() && self.flows[slot as usize].state != FlowState::None;
        self.flows[slot as usize].tag = flow_hash;
        self.identities.entry(flow).slot = slot;
        if !active_same {
            // A flow that collides takes over the queue, with the packets of another flow in it.
            let (bulk, before) = (self.flows[slot as usize].state == FlowState::Bulk, self.hosts[slot as usize]);
            if bulk {
                self.loads.change_counts(before, |bulk_flows| *bulk_flows -= 1);
            }
            let hosts = Pair {
                source: self.loads.sources.as_mut().map_or(0, |sources| sources.find(tin, src_hash)),
                destination: self.loads.destinations.as_mut().map_or(0, |destinations| destinations.find(tin, dst_hash)),
            };
            self.hosts[slot as usize] = hosts;
            self.between[tin as usize] = self.between[tin as usize].with_flow(hosts);
            if bulk {
                self.loads.change_counts(hosts, |bulk_flows| *bulk_flows += 1);
            }
            // mostly of the same two hosts as the flow before: then all have the load that they had
            if hosts != before {
                self.forget_gains(tin);
            }
        }
        slot
    }

    /// The hosts of `slot` have one more bulk flow.
    #[inline]
    pub fn join_bulk(&mut self, slot: u16) {
        self.loads.change_counts(self.hosts[slot as usize], |bulk_flows| *bulk_flows += 1);
        self.forget_gains(self.flows[slot as usize].tin);
    }

    /// The hosts of `slot` have one bulk flow less.
    #[inline]
    pub fn leave_bulk(&mut self, slot: u16) {
        self.loads.change_counts(self.hosts[slot as usize], |bulk_flows| *bulk_flows -= 1);
        self.forget_gains(self.flows[slot as usize].tin);
    }

    /// Hosts of flows of `tin` have changed, or how many bulk flows they have.
    #[inline]
    fn forget_gains(&mut self, tin: u8) {
        if self.loads.count() {
            self.turns[tin as usize].forget_gains();
        }
    }

    /// Bytes for one turn of `slot`: the quantum divided by the bulk flows of its busier host, rounded by chance so that
    /// shares below one byte are right on average.
    #[inline]
    pub fn quantum(&mut self, slot: u16, quantum: u32) -> i32 {
        turns::round_gain(self.loads.gain(self.hosts[slot as usize], quantum), &mut self.rng)
    }

    /// Gives a turn to `slot`, which is on no list, and puts it behind all others that get turns.
    #[inline]
    pub fn give_first_turn(&mut self, slot: u16, quantum: u32) {
        let flow = &self.flows[slot as usize];
        let gain = self.loads.gain(self.hosts[slot as usize], quantum);
        self.turns[flow.tin as usize].push(slot, flow.deficit + turns::round_gain(gain, &mut self.rng), gain);
    }

    /// Gives turns to the flows of `tin` that used up a quantum, until the first may send; returns it. There must be one.
    ///
    /// Prefetches the first packet of the flow from `store` while turns are given.
    #[inline(always)]
    pub fn next_in_turn(&mut self, tin: usize, quantum: u32, store: &Store) -> u16 {
        let FlowTable { turns, hosts, loads, between, flows, .. } = self;
        let gains = || {
            let are_equal = !matches!(between[tin], Between::Many);
            HostGains { hosts, loads, quantum, are_equal, last: None }
        };
        turns[tin].next(gains, |slot| store.prefetch(&flows[slot as usize].packets))
    }

    /// Whether every host is counted as often as it has bulk flows.
    #[cfg(test)]
    pub fn hosts_are_counted_right(&self) -> bool {
        let right = |counted: &Option<BulkHosts>, of: fn(&Pair) -> u16| {
            let Some(counted) = counted else { return true };
            let mut counts = vec![0; counted.bulk_flows.len()];
            let bulk = self.flows.iter().zip(&self.hosts).filter(|(flow, _)| flow.state == FlowState::Bulk);
            bulk.for_each(|(_, hosts)| counts[of(hosts) as usize] += 1);
            counts == counted.bulk_flows
        };
        right(&self.loads.sources, |hosts| hosts.source) && right(&self.loads.destinations, |hosts| hosts.destination)
    }

    /// The slot with the most bytes; the first of several.
    pub fn longest(&self) -> u16 {
        let most = self.backlogs.iter().copied().max().unwrap_or(0);
        self.backlogs.iter().position(|&bytes| bytes == most).unwrap_or(0) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(n: u32) -> Vec<FlowKey> {
        (0..n).map(|i| FlowKey { src_host: i / 4, dst_host: i % 4, ports: i, dscp: 0 }).collect()
    }

    fn start_flows(mut table: FlowTable, keys: &[FlowKey]) -> FlowTable {
        (0..).zip(keys).for_each(|(flow, key)| table.flow_starts(flow, key));
        table
    }

    fn table(isolation: Isolation, n: u32, seed: u64) -> FlowTable {
        start_flows(FlowTable::new(isolation, Diffserv::BestEffort, 1, seed), &keys(n))
    }

    /// Number of queues that `n` flows, all active, occupy.
    fn count_occupied(isolation: Isolation, n: u32, seed: u64) -> usize {
        let mut table = table(isolation, n, seed);
        let mut slots: Vec<u16> = (0..n)
            .map(|flow| {
                let slot = table.slot(flow);
                table.flows[slot as usize].state = FlowState::Sparse;
                slot
            })
            .collect();
        slots.sort_unstable();
        slots.dedup();
        slots.len()
    }

    #[test]
    fn a_flow_is_one_cache_line() {
        assert_eq!(std::mem::size_of::<FlowQueue>(), 64);
    }

    #[test]
    fn modes_tell_apart_what_they_say() {
        // 16 flows: 4 sources, each to the 4 destinations
        let counts = [
            (Isolation::FlowBlind, 1),
            (Isolation::SrcHost, 4),
            (Isolation::DstHost, 4),
            (Isolation::Hosts, 16),
            (Isolation::Flows, 16),
            (Isolation::DualSrcHost, 16),
            (Isolation::DualDstHost, 16),
            (Isolation::TripleIsolate, 16),
        ];
        for (isolation, queues) in counts {
            assert_eq!(count_occupied(isolation, 16, 1), queues, "{isolation:?}");
        }
    }

    #[test]
    fn eight_ways_keep_half_a_table_of_flows_apart() {
        // Without ways, 512 flows in 1024 queues would occupy 1024 (1 - (1 - 1/1024)^512) = 403. With 8 ways a flow collides only if
        // the other 511 put 8 into its set of 128: Poisson with mean 4, P(>= 8) = 5 %; the flows beyond the eighth collide, 0.6 %.
        for seed in 0..20 {
            let queues = count_occupied(Isolation::Flows, 512, seed);
            assert!((490..=512).contains(&queues), "seed {seed}: {queues}");
        }
        let differs = (0..20).map(|seed| count_occupied(Isolation::Flows, 512, seed)).collect::<std::collections::HashSet<_>>();
        assert!(differs.len() > 1, "collisions depend on the seed");
    }

    #[test]
    fn all_queues_fill_up_and_a_flow_finds_its_queue_again() {
        let mut table = table(Isolation::Flows, 100_000, 3);
        for flow in 0..100_000 {
            let slot = table.slot(flow);
            table.flows[slot as usize].state = FlowState::Sparse;
            assert_eq!(table.slot(flow), slot);
        }
        assert_eq!(table.flows.len(), 1 + QUEUES);
    }

    #[test]
    fn an_idle_queue_keeps_its_flow_until_another_needs_it() {
        let mut table = table(Isolation::Flows, 2, 1);
        let slot = table.slot(0);
        table.flows[slot as usize].state = FlowState::Bulk;
        table.flows[slot as usize].state = FlowState::None;
        table.slot(1);
        assert_eq!(table.slot(0), slot);
    }

    #[test]
    fn quantum_is_shared_by_the_flows_of_a_host_and_exact_on_average() {
        let mut table = table(Isolation::DualSrcHost, 8, 1);
        let slots: Vec<u16> = (0..8).map(|flow| table.slot(flow)).collect();
        // flows 0..3 are of host 0; 3 of them and 1 of host 1 become bulk
        for &slot in [&slots[0], &slots[1], &slots[2], &slots[4]] {
            table.flows[slot as usize].state = FlowState::Bulk;
            table.join_bulk(slot);
        }
        let mut mean = |slot| (0..20_000).map(|_| f64::from(table.quantum(slot, 300))).sum::<f64>() / 20_000.0;
        // 300 * floor(65535 / 3) / 65536 = 99.998; the standard error is below 0.005
        assert!((mean(slots[0]) - 100.0).abs() < 0.03);
        assert!((mean(slots[4]) - 300.0).abs() < 0.03);
        table.leave_bulk(slots[1]);
        table.leave_bulk(slots[2]);
        assert!(table.quantum(slots[0], 300) >= 299);
    }

    #[test]
    fn a_list_keeps_order_under_removal() {
        let mut flows = vec![FlowQueue::default(); 5];
        let mut list = FlowList::default();
        (1..=4).for_each(|slot| list.push(&mut flows, slot));
        list.remove(&mut flows, 3);
        list.remove(&mut flows, 1);
        list.push(&mut flows, 1);
        let mut order = Vec::new();
        while list.first() != 0 {
            order.push(list.first());
            list.remove(&mut flows, list.first());
        }
        assert_eq!(order, [2, 4, 1]);
        assert_eq!(list.tail, 0);
    }

    #[test]
    fn a_host_keeps_its_entry_while_it_has_bulk_flows() {
        // three hosts whose hashes say entry 5 of 1024
        let (a, b, c) = (5, 5 + 1024, 5 + 2048);
        let mut hosts = BulkHosts::new(1);
        assert_eq!(hosts.find(0, a), 5);
        hosts.bulk_flows[5] = 1;
        assert_eq!((hosts.find(0, a), hosts.find(0, b)), (5, 6));
        hosts.bulk_flows[6] = 1;
        hosts.bulk_flows[5] = 0;
        assert_eq!(hosts.find(0, c), 5, "the first host gave it up");
        hosts.bulk_flows[5] = 1;
        assert_eq!((hosts.find(0, a), hosts.find(0, b)), (7, 6));
        hosts.bulk_flows[..8].fill(1);
        assert_eq!(hosts.find(0, 5 + 4096), 5, "none is free: shared");
    }

    #[test]
    fn a_flow_that_comes_back_looks_for_its_host_again() {
        // Two sources with the same entry, as the first flows of 2000 hosts surely have
        let keys: Vec<FlowKey> = (0..2000).map(|i| FlowKey { src_host: i, dst_host: 0, ports: i, dscp: 0 }).collect();
        let mut table = start_flows(FlowTable::new(Isolation::DualSrcHost, Diffserv::BestEffort, 1, 1), &keys);
        let entry = |flow: u32| table.identities[flow].src_hash as usize % QUEUES;
        let other = (1..2000).find(|&flow| entry(flow) == entry(0)).expect("2000 hosts, 1024 entries");
        let first = table.slot(0) as usize;
        let second = table.slot(other);
        assert_eq!(table.hosts[first].source, table.hosts[second as usize].source, "neither is bulk: shared");
        table.flows[second as usize].state = FlowState::Bulk;
        table.join_bulk(second);
        // The first flow's queue is not in use (None), so that its next packet searches
        assert_eq!(table.slot(0) as usize, first);
        assert_ne!(table.hosts[first].source, table.hosts[second as usize].source);
    }
}
