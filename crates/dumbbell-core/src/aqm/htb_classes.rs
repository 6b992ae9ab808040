//! Classes of HTB below one rate: each has a rate of its own, and borrows what the others leave, up to its ceiling.
//!
//! Specification: Linux `net/sched/sch_htb.c`, tc-htb(8). The parent of the classes is the hop: its rate, with a bucket of one frame. Each class has two
//! buckets of time, for its rate and for its ceiling. A class whose ceiling's bucket is in debt may not send. One whose rate's bucket has none sends
//! by itself; the others with packets borrow from the parent, which lends only while no class with packets can send by itself. Among those
//! that send at the same level, the lowest `prio` goes first, and classes of one priority take turns by deficit round robin with `quantum` bytes (`htb_dequeue_tree`):
//! a class is served until its deficit of that level is below zero, then gets a quantum and waits for its next turn. What was borrowed
//! is charged to the ceiling alone (`htb_charge_class`).
//!
//! The class of a flow follows from its DSCP: `dscp2` to `dscp4` name those of classes 2 to 4, and class 1 has all others, as `default` of htb.
//!
//! Deviations: one level of classes, four at most; a class without packets does not lose its place in the round; no hysteresis (Linux's default), and
//! tokens to the nanosecond. Below each class is a FIFO or FQ-CoDel; all classes have the same parameters of these.

use super::child_log::ChildLog;
use super::fifo::Fifo;
use super::fq_codel;
use super::{Aqm, Dequeue, FlowKey, QueueContext};
use crate::choice;
use crate::link_layer::LinkLayer;
use crate::log::{At, DropReason, DropSite, Log};
use crate::packet::Packet;
use crate::param::ParamError;
use crate::slots::SlotTable;
use crate::units::{Duration, Instant, Rate};

/// Name in experiment files.
pub const NAME: &str = "htb_classes";
/// One line.
pub const TITLE: &str = "classes of HTB that borrow from each other, a queue in each";
/// Specification and deviations.
pub const SOURCE: &str = "Linux net/sched/sch_htb.c, tc-htb(8); one level of up to four classes below the rate of the hop, chosen by DSCP; compared with its rules by hand, not with a kernel";

choice! {
    /// Queue below a class.
    pub enum ClassQueue {
        /// Tail drop.
        Pfifo = "pfifo",
        /// FQ-CoDel.
        FqCodel = "fq_codel",
    }
}

crate::params! {
    /// Parameters of classes.
    pub struct Params {
        /// Rate that class 1 has for itself, which all packets belong to that no other class names; unset: that of the hop.
        rate1: Option<Rate> = None, unit "", range Rate(1000), Rate(10_000_000_000_000), source "tc-htb(8): rate";
        /// Rate up to which class 1 borrows; unset: its rate.
        ceil1: Option<Rate> = None, unit "", range Rate(1000), Rate(10_000_000_000_000), source "tc-htb(8): ceil, by default rate";
        /// Priority of class 1; the lowest goes first.
        prio1: u32 = 0, unit "priority", range 0_u32, 7_u32, source "tc-htb(8): prio 0 is the default; TC_HTB_NUMPRIO";
        /// Bytes of class 1 in a turn; unset: a tenth of the bytes of its rate in a second, from 1000 to 200,000.
        quantum1: Option<u32> = None, unit "bytes", range 1_000_u32, 1_000_000_u32, source "tc-htb(8): quantum; htb_change_class: r2q = 10";
        /// Queue below class 1.
        queue1: ClassQueue = ClassQueue::Pfifo, unit "", source "sch_htb.c: htb_change_class makes a pfifo";
        /// Rate of class 2; unset: there is no such class.
        rate2: Option<Rate> = None, unit "", range Rate(1000), Rate(10_000_000_000_000), source "tc-htb(8): rate";
        /// Rate up to which class 2 borrows; unset: its rate.
        ceil2: Option<Rate> = None, unit "", range Rate(1000), Rate(10_000_000_000_000), source "tc-htb(8): ceil, by default rate";
        /// Priority of class 2.
        prio2: u32 = 0, unit "priority", range 0_u32, 7_u32, source "tc-htb(8): prio 0 is the default; TC_HTB_NUMPRIO";
        /// Bytes of class 2 in a turn; unset: as of class 1.
        quantum2: Option<u32> = None, unit "bytes", range 1_000_u32, 1_000_000_u32, source "tc-htb(8): quantum; htb_change_class: r2q = 10";
        /// Queue below class 2.
        queue2: ClassQueue = ClassQueue::Pfifo, unit "", source "sch_htb.c: htb_change_class makes a pfifo";
        /// DSCP of the packets of class 2.
        dscp2: u8 = 46, unit "codepoint", range 0_u8, 63_u8, source "ours: EF, RFC 3246";
        /// Rate of class 3; unset: there is no such class.
        rate3: Option<Rate> = None, unit "", range Rate(1000), Rate(10_000_000_000_000), source "tc-htb(8): rate";
        /// Rate up to which class 3 borrows; unset: its rate.
        ceil3: Option<Rate> = None, unit "", range Rate(1000), Rate(10_000_000_000_000), source "tc-htb(8): ceil, by default rate";
        /// Priority of class 3.
        prio3: u32 = 0, unit "priority", range 0_u32, 7_u32, source "tc-htb(8): prio 0 is the default; TC_HTB_NUMPRIO";
        /// Bytes of class 3 in a turn; unset: as of class 1.
        quantum3: Option<u32> = None, unit "bytes", range 1_000_u32, 1_000_000_u32, source "tc-htb(8): quantum; htb_change_class: r2q = 10";
        /// Queue below class 3.
        queue3: ClassQueue = ClassQueue::Pfifo, unit "", source "sch_htb.c: htb_change_class makes a pfifo";
        /// DSCP of the packets of class 3.
        dscp3: u8 = 8, unit "codepoint", range 0_u8, 63_u8, source "ours: CS1, RFC 3662";
        /// Rate of class 4; unset: there is no such class.
        rate4: Option<Rate> = None, unit "", range Rate(1000), Rate(10_000_000_000_000), source "tc-htb(8): rate";
        /// Rate up to which class 4 borrows; unset: its rate.
        ceil4: Option<Rate> = None, unit "", range Rate(1000), Rate(10_000_000_000_000), source "tc-htb(8): ceil, by default rate";
        /// Priority of class 4.
        prio4: u32 = 0, unit "priority", range 0_u32, 7_u32, source "tc-htb(8): prio 0 is the default; TC_HTB_NUMPRIO";
        /// Bytes of class 4 in a turn; unset: as of class 1.
        quantum4: Option<u32> = None, unit "bytes", range 1_000_u32, 1_000_000_u32, source "tc-htb(8): quantum; htb_change_class: r2q = 10";
        /// Queue below class 4.
        queue4: ClassQueue = ClassQueue::Pfifo, unit "", source "sch_htb.c: htb_change_class makes a pfifo";
        /// DSCP of the packets of class 4.
        dscp4: u8 = 32, unit "codepoint", range 0_u8, 63_u8, source "ours: CS4, RFC 4594";
        /// Bucket of each rate and each ceiling.
        burst: u32 = 1600, unit "bytes", range 1_514_u32, 100_000_000_u32, source "tc-htb(8): burst and cburst; tc takes the mtu of 1600 and a tick";
        /// Packets that fit into the queue of each class; unset: 1000, and 10240 with fq_codel.
        limit: Option<u32> = None, unit "packets", range 1_u32, 100_000_000_u32, source "txqueuelen of an Ethernet device; tc-fq_codel(8)";
        /// Target of FQ-CoDel.
        target: Duration = Duration::from_millis(5), unit "", range Duration(0), Duration::from_secs(10), source "tc-fq_codel(8)";
        /// Interval of FQ-CoDel.
        interval: Duration = Duration::from_millis(100), unit "", range Duration::from_micros(2), Duration::from_secs(100), source "tc-fq_codel(8)";
        /// Quantum of the flows of FQ-CoDel; by default a full frame.
        flow_quantum: u32 = 1514, unit "bytes", range 256_u32, 1_048_576_u32, frames 1, source "tc-fq_codel(8): quantum";
        /// FQ-CoDel marks ECN-capable packets instead of dropping them.
        ecn: bool = true, unit "", source "tc-fq_codel(8): ecn is the default";
    } check Params::check
}

/// Keys of a class.
#[derive(Clone, Copy, Debug)]
struct ClassParams {
    rate: Option<Rate>,
    ceil: Option<Rate>,
    prio: u32,
    quantum: Option<u32>,
    queue: ClassQueue,
    dscp: Option<u8>,
}

impl Params {
    /// The classes that there may be; the first always is.
    fn classes(&self) -> [ClassParams; 4] {
        let of = |rate, ceil, prio, quantum, queue, dscp| ClassParams { rate, ceil, prio, quantum, queue, dscp };
        [
            of(self.rate1, self.ceil1, self.prio1, self.quantum1, self.queue1, None),
            of(self.rate2, self.ceil2, self.prio2, self.quantum2, self.queue2, Some(self.dscp2)),
            of(self.rate3, self.ceil3, self.prio3, self.quantum3, self.queue3, Some(self.dscp3)),
            of(self.rate4, self.ceil4, self.prio4, self.quantum4, self.queue4, Some(self.dscp4)),
        ]
    }

    /// Returns the classes that there are, with their numbers.
    fn list_classes(&self) -> impl Iterator<Item = (usize, ClassParams)> {
        self.classes().into_iter().enumerate().filter(|(number, one)| *number == 0 || one.rate.is_some())
    }

    fn check(&self) -> Result<(), ParamError> {
        let classes = self.classes();
        for (number, one) in (1..).zip(&classes) {
            let Some(ceil) = one.ceil else { continue };
            match one.rate {
                None => return Err(ParamError::new(format!("ceil{number}"), ceil, format!("none without rate{number}"))),
                Some(rate) if ceil < rate => {
                    return Err(ParamError::new(format!("ceil{number}"), ceil, format!("at least rate{number}, {rate}")));
                }
                Some(_) => {}
            }
        }
        let named: Vec<(usize, u8)> = (1..)
            .zip(&classes)
            .filter(|(_, one)| one.rate.is_some())
            .filter_map(|(number, one)| Some((number, one.dscp?)))
            .collect();
        for (place, (number, dscp)) in named.iter().enumerate() {
            if named[..place].iter().any(|(_, other)| other == dscp) {
                return Err(ParamError::new(format!("dscp{number}"), dscp, "a DSCP that no other class has"));
            }
        }
        Ok(())
    }
}

/// Longest debt of a bucket that is remembered.
const LONGEST_DEBT: i64 = 60_000_000_000; // sch_htb.c: cl->mbuffer, 60 s
/// Bounds of a quantum that follows from the rate.
const QUANTA: (u64, u64) = (1_000, 200_000); // sch_htb.c: htb_change_class
/// Divides the bytes of a second.
const RATE_TO_QUANTUM: u64 = 10; // tc-htb(8): r2q
/// Internal queues of a class in the numbers of logs.
const QUEUES: u32 = 1024; // tc-fq_codel(8): flows

/// The queue below a class.
#[derive(Clone, Debug)]
enum LeafQueue {
    Tail(Fifo, usize),
    Flows(Box<fq_codel::State>),
}

impl LeafQueue {
    fn packets(&self) -> usize {
        match self {
            LeafQueue::Tail(fifo, _) => fifo.len(),
            LeafQueue::Flows(flows) => flows.packets(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            LeafQueue::Tail(fifo, _) => fifo.bytes(),
            LeafQueue::Flows(flows) => flows.bytes(),
        }
    }
}

/// A class.
#[derive(Clone, Debug)]
struct Class {
    keys: ClassParams,
    rate: Rate,
    ceil: Rate,
    quantum: i64,
    /// Time that the buckets hold, ns: at most `full`; negative in debt.
    tokens: i64,
    ceil_tokens: i64,
    full: i64,
    ceil_full: i64,
    /// When the buckets were filled last.
    filled: Instant,
    /// Bytes that it may send in this turn, by itself and borrowing.
    deficit: [i64; 2],
    queue: LeafQueue,
    /// Packets that it sent by itself, and that it borrowed for.
    sent: [u64; 2],
}

/// Builds the queue below class `number`.
fn build_leaf(kind: ClassQueue, number: usize, params: &Params, context: &QueueContext) -> LeafQueue {
    match kind {
        ClassQueue::Pfifo => LeafQueue::Tail(Fifo::default(), params.limit.unwrap_or(1000) as usize),
        ClassQueue::FqCodel => {
            let default = fq_codel::Params::default();
            let own = fq_codel::Params {
                limit: params.limit.unwrap_or(default.limit),
                target: params.target,
                interval: params.interval,
                quantum: params.flow_quantum,
                ecn: params.ecn,
                ..default
            };
            // classes do not hash alike
            let seed = context.seed.wrapping_add(number as u64);
            LeafQueue::Flows(Box::new(fq_codel::State::new(own, &QueueContext { seed, ..*context })))
        }
    }
}

impl Class {
    fn new(keys: ClassParams, number: usize, params: &Params, context: &QueueContext) -> Class {
        let queue = build_leaf(keys.queue, number, params, context);
        let mut class = Class {
            keys,
            rate: Rate::UNLIMITED,
            ceil: Rate::UNLIMITED,
            quantum: 0,
            tokens: 0,
            ceil_tokens: 0,
            full: 0,
            ceil_full: 0,
            filled: Instant::ZERO,
            deficit: [0; 2],
            queue,
            sent: [0; 2],
        };
        class.set_rates(context.rate, params.burst);
        (class.tokens, class.ceil_tokens) = (class.full, class.ceil_full);
        class
    }

    /// Takes the rate of the hop, where the class has none.
    fn set_rates(&mut self, of_hop: Rate, burst: u32) {
        self.rate = self.keys.rate.unwrap_or(of_hop);
        self.ceil = self.keys.ceil.unwrap_or(self.rate);
        let of_rate = (self.rate.bytes() / RATE_TO_QUANTUM).clamp(QUANTA.0, QUANTA.1);
        self.quantum = self.keys.quantum.map_or(of_rate, u64::from) as i64;
        self.full = self.rate.serialise(u64::from(burst)).0 as i64;
        self.ceil_full = self.ceil.serialise(u64::from(burst)).0 as i64;
    }

    /// Lets the buckets fill until `now`.
    fn fill(&mut self, now: Instant) {
        let passed = (now.saturating_since(self.filled).0 as i64).clamp(0, LONGEST_DEBT);
        self.tokens = (self.tokens + passed).min(self.full);
        self.ceil_tokens = (self.ceil_tokens + passed).min(self.ceil_full);
        self.filled = now;
    }

    /// The level at which it may send: 0 by itself, 1 borrowing. None if its ceiling holds it.
    fn level(&self) -> Option<usize> {
        match (self.ceil_tokens >= 0, self.tokens >= 0) {
            (false, _) => None,
            (true, true) => Some(0),
            (true, false) => Some(1),
        }
    }

    /// Pays for `bytes` that it sent at `level`.
    fn charge(&mut self, bytes: u64, level: usize) {
        if level == 0 {
            self.tokens = (self.tokens - self.rate.serialise(bytes).0 as i64).max(1 - LONGEST_DEBT);
        }
        self.ceil_tokens = (self.ceil_tokens - self.ceil.serialise(bytes).0 as i64).max(1 - LONGEST_DEBT);
        self.sent[level] += 1;
    }
}

/// Classes with their queues.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    context: QueueContext,
    /// Rate of the hop.
    of_hop: Rate,
    layer: LinkLayer,
    classes: Vec<Class>,
    /// Class of each flow.
    of_flow: SlotTable<u8>,
    /// Class whose turn it is, by level.
    turns: [usize; 2],
    packets: usize,
    bytes: u64,
}

impl State {
    /// Classes without packets, whose buckets are full.
    pub fn new(params: Params, context: &QueueContext) -> State {
        State {
            layer: context.link_layer,
            classes: params.list_classes().map(|(number, one)| Class::new(one, number, &params, context)).collect(),
            of_hop: context.rate,
            context: *context,
            params,
            of_flow: SlotTable::default(),
            turns: [0; 2],
            packets: 0,
            bytes: 0,
        }
    }

    /// Returns the class that sends next and the level at which it does: the lowest level, then the lowest priority, then the next in turn.
    fn choose(&mut self, now: Instant) -> Option<(usize, usize)> {
        self.classes.iter_mut().for_each(|one| one.fill(now));
        let ready = |one: &Class| if one.queue.packets() > 0 { one.level() } else { None };
        let best = self.classes.iter().filter_map(|one| Some((ready(one)?, one.keys.prio))).min()?;
        let count = self.classes.len();
        let is_best = |index: &usize| (ready(&self.classes[*index]), self.classes[*index].keys.prio) == (Some(best.0), best.1);
        let chosen = (0..count).map(|step| (self.turns[best.0] + step) % count).find(is_best)?;
        self.turns[best.0] = chosen;
        Some((chosen, best.0))
    }

    /// Returns when the first class with packets is out of the debt of its ceiling.
    fn next_ready(&self, now: Instant) -> Instant {
        let debts = self.classes.iter().filter(|one| one.queue.packets() > 0).map(|one| -one.ceil_tokens);
        now + Duration(debts.min().unwrap_or(0).max(1) as u64)
    }
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn flow_starts(&mut self, flow: u32, key: &FlowKey) {
        let index = self.classes.iter().position(|one| one.keys.dscp == Some(key.dscp)).unwrap_or(0);
        *self.of_flow.entry(flow) = index as u8;
        if let LeafQueue::Flows(flows) = &mut self.classes[index].queue {
            flows.flow_starts(flow, key);
        }
    }

    #[inline]
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        let index = usize::from(self.of_flow[packet.flow]);
        let first = index as u32 * QUEUES;
        let queue = &mut self.classes[index].queue;
        let before = (queue.packets(), queue.bytes());
        match queue {
            LeafQueue::Tail(fifo, limit) if fifo.len() < *limit => fifo.accept_at(packet, At { now, queue: first }, log),
            LeafQueue::Tail(..) => log.on_drop(&packet, DropReason::Overflow, DropSite::Arrival, At { now, queue: first }),
            LeafQueue::Flows(flows) => flows.enqueue(packet, now, &mut ChildLog { log, first }),
        }
        self.packets = self.packets + queue.packets() - before.0;
        self.bytes = self.bytes + queue.bytes() - before.1;
    }

    #[inline]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        loop {
            if self.packets == 0 {
                return Dequeue::Empty;
            }
            let Some((index, level)) = self.choose(now) else { return Dequeue::Wait(self.next_ready(now)) };
            let first = index as u32 * QUEUES;
            let one = &mut self.classes[index];
            let before = (one.queue.packets(), one.queue.bytes());
            let next = match &mut one.queue {
                LeafQueue::Flows(flows) => flows.dequeue(now, &mut ChildLog { log, first }),
                LeafQueue::Tail(fifo, _) => match fifo.pop() {
                    None => Dequeue::Empty,
                    Some(packet) => {
                        log.on_dequeue(&packet, At { now, queue: first });
                        Dequeue::Packet(packet)
                    }
                },
            };
            self.packets -= before.0 - one.queue.packets();
            self.bytes -= before.1 - one.queue.bytes();
            let Dequeue::Packet(packet) = next else { continue };
            one.charge(u64::from(self.layer.wire_bytes(packet.len)), level);
            one.deficit[level] -= i64::from(packet.len);
            if one.deficit[level] < 0 {
                one.deficit[level] += one.quantum;
                self.turns[level] = (index + 1) % self.classes.len();
            }
            return Dequeue::Packet(packet);
        }
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn changeable(&self) -> &'static [&'static str] {
        &[
            "rate1",
            "ceil1",
            "prio1",
            "quantum1",
            "rate2",
            "ceil2",
            "prio2",
            "quantum2",
            "rate3",
            "ceil3",
            "prio3",
            "quantum3",
            "rate4",
            "ceil4",
            "prio4",
            "quantum4",
            "burst",
            "limit",
            "target",
            "interval",
            "flow_quantum",
            "ecn",
        ]
    }

    /// As `htb_change_class` of a class that is there, and the `change` of the queue below it: the time in its buckets stays, and so does its turn.
    fn take_params(&mut self, fresh: State, now: Instant) -> Result<(), ParamError> {
        let has_class = |params: &Params, number: usize| params.list_classes().any(|(other, _)| other == number);
        if let Some(number) = (0..4).find(|&number| has_class(&self.params, number) != has_class(&fresh.params, number)) {
            let found = if has_class(&fresh.params, number) { "a rate of a class that is not there" } else { "none" };
            return Err(ParamError::new(format!("rate{}", number + 1), found, "rates of the classes that the run has"));
        }
        self.params = fresh.params;
        for ((number, keys), one) in self.params.list_classes().zip(&mut self.classes) {
            one.keys = keys;
            one.set_rates(self.of_hop, self.params.burst);
            match (&mut one.queue, build_leaf(keys.queue, number, &self.params, &self.context)) {
                (LeafQueue::Tail(_, limit), LeafQueue::Tail(_, other)) => *limit = other,
                (LeafQueue::Flows(flows), LeafQueue::Flows(other)) => flows.take_params(*other, now)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn set_rate(&mut self, rate: Rate, now: Instant) {
        let burst = self.params.burst;
        self.of_hop = rate;
        for one in &mut self.classes {
            one.fill(now);
            one.set_rates(rate, burst);
        }
    }

    fn shapes(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let of = |(number, one): (usize, &Class)| {
            [(format!("class{}_own", number + 1), one.sent[0]), (format!("class{}_borrowed", number + 1), one.sent[1])]
        };
        self.classes.iter().enumerate().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::packet;
    use super::*;
    use crate::packet::Ecn;
    use crate::record::Counters;

    const MBIT: fn(u64) -> Rate = Rate::from_mbit;

    /// Classes behind a hop of 20 Mbit/s; flow 1 is of class 1, flow 2 of class 2, flow 3 of class 3.
    fn classes(params: Params) -> (State, Counters) {
        let mut state = State::new(params, &QueueContext::new(MBIT(20), 1));
        for (flow, dscp) in [(1, 0), (2, 46), (3, 8)] {
            state.flow_starts(flow, &FlowKey { src_host: 1, dst_host: 2, ports: flow, dscp });
        }
        (state, Counters::default())
    }

    /// Keeps a packet of 1000 B of each of the `flows` in the queue for a second, over a link of 20 Mbit/s; returns Mbit/s of flows 1 to 3.
    fn share(state: &mut State, log: &mut Counters, flows: &[u32]) -> [f64; 3] {
        let (mut now, mut sent, mut seq) = (Instant::ZERO, [0_u64; 3], 0);
        while now < Instant::from_secs(1) {
            for &flow in flows {
                while state.classes[usize::from(state.of_flow[flow])].queue.packets() < 20 {
                    state.enqueue(Packet { flow, len: 1000, ..packet(seq, Ecn::NotEct) }, now, log);
                    seq += 1;
                }
            }
            now = match state.dequeue(now, log) {
                // 1000 B at 20 Mbit/s
                Dequeue::Packet(gone) => {
                    sent[gone.flow as usize - 1] += 1;
                    now + Duration::from_micros(400)
                }
                Dequeue::Wait(time) => time,
                Dequeue::Empty => panic!("there are packets"),
            };
        }
        sent.map(|packets| packets as f64 * 0.008)
    }

    fn close(found: [f64; 3], expected: [f64; 3]) {
        assert!(found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 0.2), "{found:?}, not {expected:?}");
    }

    #[test]
    fn classes_have_their_rates_and_share_the_rest_by_quanta() {
        let both = Params {
            rate1: Some(MBIT(4)),
            ceil1: Some(MBIT(20)),
            rate2: Some(MBIT(8)),
            ceil2: Some(MBIT(20)),
            ..Params::default()
        };
        // 4 and 8 of 20 Mbit/s; the other 8 by the quanta of 50,000 and 100,000 bytes
        let of = |params, flows: &[u32]| {
            let (mut state, mut log) = classes(params);
            (share(&mut state, &mut log, flows), state.counters())
        };
        close(of(both.clone(), &[1, 2]).0, [4.0 + 8.0 / 3.0, 8.0 + 16.0 / 3.0, 0.0]);
        // equal quanta
        let equal = of(Params { quantum1: Some(3_000), quantum2: Some(3_000), ..both.clone() }, &[1, 2]);
        close(equal.0, [8.0, 12.0, 0.0]);
        let counted: Vec<u64> = equal.1.into_iter().map(|one| one.1).collect();
        // 500 and 1000 packets of 1000 B a second by themselves
        assert!((495..=505).contains(&counted[0]) && (495..=505).contains(&counted[1]), "{counted:?}");
        assert!((995..=1005).contains(&counted[2]) && (495..=505).contains(&counted[3]), "{counted:?}");
        // alone, a class gets its ceiling
        close(of(Params { ceil1: Some(MBIT(15)), ..both.clone() }, &[1]).0, [15.0, 0.0, 0.0]);
        // and without one its rate
        close(of(Params { ceil1: None, ..both }, &[1, 2]).0, [4.0, 16.0, 0.0]);
    }

    #[test]
    fn the_lowest_priority_borrows_first() {
        let params = Params {
            rate1: Some(MBIT(2)),
            ceil1: Some(MBIT(20)),
            prio1: 2,
            rate2: Some(MBIT(2)),
            ceil2: Some(MBIT(12)),
            prio2: 0,
            rate3: Some(MBIT(2)),
            ceil3: Some(MBIT(20)),
            prio3: 1,
            ..Params::default()
        };
        let (mut state, mut log) = classes(params.clone());
        // class 2 up to its ceiling, class 3 the rest above the 2 Mbit/s of class 1
        close(share(&mut state, &mut log, &[1, 2, 3]), [2.0, 12.0, 6.0]);
        let (mut other, mut other_log) = classes(params);
        close(share(&mut other, &mut other_log, &[1, 2]), [8.0, 12.0, 0.0]);
    }

    #[test]
    fn a_class_sends_a_quantum_in_its_turn() {
        let (mut state, mut log) =
            classes(Params { quantum1: Some(2_500), rate2: Some(MBIT(20)), quantum2: Some(1_000), ..Params::default() });
        for seq in 0..8 {
            for flow in [1, 2] {
                state.enqueue(Packet { flow, len: 1000, ..packet(seq, Ecn::NotEct) }, Instant::ZERO, &mut log);
            }
        }
        let mut order = Vec::new();
        for step in 0..9 {
            if let Dequeue::Packet(gone) = state.dequeue(Instant::from_millis(10 * step), &mut log) {
                order.push(gone.flow);
            }
        }
        // a deficit of 0: one packet, then 1500 and 0: two of class 1 to -500, two of class 2 to -1000 (0 is no debt), then 2000: three, and 0
        assert_eq!(order, [1, 2, 1, 1, 2, 1, 1, 1, 2]);
    }

    #[test]
    fn buckets_fill_and_owe() {
        let (mut state, mut log) = classes(Params { rate1: Some(MBIT(8)), burst: 2_000, ..Params::default() });
        for seq in 0..5 {
            state.enqueue(Packet { flow: 1, len: 1000, ..packet(seq, Ecn::NotEct) }, Instant::ZERO, &mut log);
        }
        // 1000 B are 1 ms; the bucket of 2 ms pays for two, and one more goes into debt
        for _ in 0..3 {
            assert!(matches!(state.dequeue(Instant::ZERO, &mut log), Dequeue::Packet(_)));
        }
        assert!(matches!(state.dequeue(Instant::ZERO, &mut log), Dequeue::Wait(Instant(1_000_000))));
        assert!(matches!(state.dequeue(Instant::from_millis(1), &mut log), Dequeue::Packet(_)));
        state.set_rate(MBIT(100), Instant::from_millis(1));
        assert!(matches!(state.dequeue(Instant::from_millis(1), &mut log), Dequeue::Wait(Instant(2_000_000))));
        assert_eq!((state.packets(), state.bytes(), log.queue.sent), (1, 1000, 4));
    }

    #[test]
    fn each_class_has_a_queue_of_its_own() {
        let (mut state, mut log) = classes(Params { rate2: Some(MBIT(1)), limit: Some(3), ..Params::default() });
        for seq in 0..5 {
            state.enqueue(Packet { flow: 1, ..packet(seq, Ecn::NotEct) }, Instant::ZERO, &mut log);
        }
        state.enqueue(Packet { flow: 2, ..packet(0, Ecn::NotEct) }, Instant::ZERO, &mut log);
        assert_eq!((state.packets(), log.queue.drops_overflow), (4, 2));
        let fair = Params { queue1: ClassQueue::FqCodel, limit: Some(3), ..Params::default() };
        let (mut other, mut other_log) = classes(fair);
        for seq in 0..5 {
            other.enqueue(Packet { flow: 1, ..packet(seq, Ecn::NotEct) }, Instant::ZERO, &mut other_log);
        }
        assert!(other.packets() <= 3 && other.packets() as u64 + other_log.queue.drops_overflow == 5);
    }

    #[test]
    fn buckets_keep_their_time_when_rates_change() {
        let at_8 = Params { rate1: Some(MBIT(8)), ..Params::default() };
        let (mut state, mut log) = classes(at_8.clone());
        let arrive = |to: &mut State, counted: &mut Counters, count: u64| {
            (0..count)
                .for_each(|seq| to.enqueue(Packet { flow: 1, len: 1000, ..packet(seq, Ecn::NotEct) }, Instant::ZERO, counted));
        };
        let change = |to: &mut State, params: Params| {
            to.take_params(State::new(params, &QueueContext::new(MBIT(20), 1)), Instant::from_micros(100))
        };
        arrive(&mut state, &mut log, 5);
        // 1600 us in the bucket, 1000 us a packet: two leave at once, and the class owes 400 us
        let mut left = Vec::new();
        let mut now = Instant::ZERO;
        while state.packets() > 0 {
            match state.dequeue(now, &mut log) {
                Dequeue::Packet(_) => left.push(now.as_micros()),
                Dequeue::Wait(time) => {
                    if now == Instant::ZERO {
                        // 2000 us a packet from now on; limits are for those that come
                        change(&mut state, Params { rate1: Some(MBIT(4)), limit: Some(4), ..at_8.clone() }).unwrap();
                        arrive(&mut state, &mut log, 3);
                    }
                    now = time;
                }
                Dequeue::Empty => break,
            }
        }
        assert_eq!(left, [0, 0, 400, 2_400, 4_400, 6_400]);
        assert_eq!(log.queue.drops_overflow, 2);
        for other in [Params { rate2: Some(MBIT(1)), ..at_8.clone() }, Params { rate3: Some(MBIT(1)), ..at_8.clone() }] {
            let refused = change(&mut state, other).unwrap_err().to_string();
            assert!(
                refused.ends_with("found a rate of a class that is not there, allowed: rates of the classes that the run has"),
                "{refused}"
            );
        }
        // without a rate of its own class 1 has that of the hop
        change(&mut state, Params { quantum1: Some(3_000), ..Params::default() }).unwrap();
        assert_eq!((state.classes[0].rate, state.classes[0].quantum), (MBIT(20), 3_000));
        let (mut two, _) = classes(Params { rate2: Some(MBIT(1)), ..at_8.clone() });
        assert_eq!(change(&mut two, at_8).unwrap_err().key, "rate2");
    }

    #[test]
    fn contradictions_are_refused() {
        let read = |value: serde_json::Value| Params::from_json(value.as_object().unwrap()).unwrap_err().to_string();
        assert_eq!(read(serde_json::json!({"ceil2": 2_000_000})), "ceil2: found 2Mbit, allowed: none without rate2");
        assert_eq!(
            read(serde_json::json!({"rate2": 3_000_000, "ceil2": 2_000_000})),
            "ceil2: found 2Mbit, allowed: at least rate2, 3Mbit"
        );
        assert_eq!(
            read(serde_json::json!({"rate2": 3_000_000, "rate3": 3_000_000, "dscp3": 46})),
            "dscp3: found 46, allowed: a DSCP that no other class has"
        );
    }
}
