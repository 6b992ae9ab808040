//! Linux `fq` as a queue at a bottleneck: a FIFO for each flow, and deficit round robin with new flows first.
//!
//! Specification: Linux `net/sched/sch_fq.c`, tc-fq(8). Each flow has a queue of its own, without hashing: sockets are told apart. A flow that
//! comes back after `refill_delay` has at least a quantum; a new one has `initial_quantum`. A new flow that is served and empty joins the old ones
//! once, if there are any, so that it does not stay ahead of them.
//!
//! Deviations: packets leave as fast as the link takes them; pacing, for which `fq` is made, belongs to senders (`hosts.pacing`). No bands of
//! priorities (Linux 6.7) and no queue for control packets; flows are not forgotten by a garbage collection.

use super::fifo::Fifo;
use super::{Aqm, Dequeue, FlowKey, QueueContext};
use crate::log::{At, DropReason, DropSite, Log, MarkReason};
use crate::packet::Packet;
use crate::param::ParamError;
use crate::slots::SlotTable;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// Name in experiment files.
pub const NAME: &str = "fq";
/// One line.
pub const TITLE: &str = "a FIFO for each flow, by deficit round robin: fq of Linux at a bottleneck";
/// Specification and deviations.
pub const SOURCE: &str = "Linux net/sched/sch_fq.c, tc-fq(8); without pacing, bands and garbage collection; compared with its rules by hand, not with a kernel";

crate::params! {
    /// Parameters of fq.
    pub struct Params {
        /// Packets that fit into all queues together.
        limit: u32 = 10_000, unit "packets", range 1_u32, 100_000_000_u32, source "tc-fq(8): limit";
        /// Packets that fit into the queue of a flow.
        flow_limit: u32 = 100, unit "packets", range 1_u32, 100_000_000_u32, source "tc-fq(8): flow_limit";
        /// Bytes of a flow in a turn; by default two full frames.
        quantum: u32 = 3028, unit "bytes", range 1_u32, 1_048_576_u32, frames 2, source "tc-fq(8): quantum; fq_init: 2 * psched_mtu";
        /// Bytes that a new flow may send at first; by default ten full frames.
        initial_quantum: u32 = 15_140, unit "bytes", range 1_u32, 10_485_760_u32, frames 10, source "tc-fq(8): initial_quantum; fq_init: 10 * psched_mtu";
        /// After this time without packets a flow has at least a quantum.
        refill_delay: Duration = Duration::from_millis(40), unit "", range Duration(0), Duration::from_secs(100), source "tc-fq(8): refill_delay";
        /// Marks every ECN-capable packet with a longer sojourn time; unset: off.
        ce_threshold: Option<Duration> = None, unit "", range Duration(0), Duration::from_secs(100), source "tc-fq(8): ce_threshold, disabled by default";
    }
}

/// The queue of a flow.
#[derive(Clone, Debug, Default)]
struct FlowQueue {
    fifo: Fifo,
    /// Bytes that it may send.
    credit: i64,
    is_listed: bool,
    /// When it left the lists.
    left: Instant,
}

/// Flow queues with their parameters.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    flows: SlotTable<FlowQueue>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
    bytes: u64,
    /// Drops at the limit of a flow.
    flow_drops: u64,
}

impl State {
    /// Empty queues.
    pub fn new(params: Params, _context: &QueueContext) -> State {
        State {
            params,
            flows: SlotTable::default(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
            flow_drops: 0,
        }
    }
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn changeable(&self) -> &'static [&'static str] {
        &["limit", "flow_limit", "quantum", "initial_quantum", "refill_delay", "ce_threshold"]
    }

    fn take_params(&mut self, fresh: State, _now: Instant) -> Result<(), ParamError> {
        self.params = fresh.params;
        Ok(())
    }

    fn flow_starts(&mut self, flow: u32, _key: &FlowKey) {
        let credit = i64::from(self.params.initial_quantum);
        *self.flows.entry(flow) = FlowQueue { credit, left: Instant::ZERO, ..FlowQueue::default() };
        // one that was over may still be in a list
        self.new.retain(|&listed| listed != flow);
        self.old.retain(|&listed| listed != flow);
    }

    #[inline]
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        let own = self.flows.entry(packet.flow);
        let at = At { now, queue: packet.flow };
        let is_over = own.fifo.len() >= self.params.flow_limit as usize;
        if is_over || self.packets >= self.params.limit as usize {
            self.flow_drops += u64::from(is_over && self.packets < self.params.limit as usize);
            log.on_drop(&packet, DropReason::Overflow, DropSite::Arrival, at);
            return;
        }
        if !own.is_listed {
            own.is_listed = true;
            if now.saturating_since(own.left) > self.params.refill_delay {
                own.credit = own.credit.max(i64::from(self.params.quantum));
            }
            self.new.push_back(packet.flow);
        }
        self.packets += 1;
        self.bytes += u64::from(packet.len);
        own.fifo.accept_at(packet, at, log);
    }

    #[inline]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let Some(&flow) = list.front() else { return Dequeue::Empty };
            let own = self.flows.entry(flow);
            if own.credit <= 0 {
                own.credit += i64::from(self.params.quantum);
                list.pop_front();
                self.old.push_back(flow);
                continue;
            }
            let Some(mut packet) = own.fifo.pop() else {
                list.pop_front();
                if is_new && !self.old.is_empty() {
                    self.old.push_back(flow);
                } else {
                    own.is_listed = false;
                    own.left = now;
                }
                continue;
            };
            own.credit -= i64::from(packet.len);
            self.packets -= 1;
            self.bytes -= u64::from(packet.len);
            let at = At { now, queue: flow };
            if self.params.ce_threshold.is_some_and(|threshold| now - packet.enqueue_time > threshold) {
                log.set_ce(&mut packet, MarkReason::Step, at);
            }
            log.on_dequeue(&packet, at);
            return Dequeue::Packet(packet);
        }
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn counters(&self) -> Vec<(String, u64)> {
        vec![("flow_limit_drops".into(), self.flow_drops)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{context, packet, start_flows};
    use super::*;
    use crate::packet::Ecn;
    use crate::record::Counters;

    fn queues(params: Params) -> (State, Counters) {
        let mut state = State::new(params, &context(10));
        start_flows(&mut state, 4);
        (state, Counters::default())
    }

    fn arrive(state: &mut State, log: &mut Counters, flow: u32, count: u64, now: Instant) {
        (0..count).for_each(|seq| state.enqueue(Packet { flow, len: 1000, ..packet(seq, Ecn::Ect0) }, now, log));
    }

    fn order(state: &mut State, log: &mut Counters, count: usize, now: Instant) -> Vec<u32> {
        let mut next = || match state.dequeue(now, log) {
            Dequeue::Packet(packet) => packet.flow,
            other => panic!("{other:?}"),
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_new_flow_sends_its_initial_quantum_and_then_takes_turns() {
        let (mut state, mut log) = queues(Params { quantum: 2_000, initial_quantum: 4_500, ..Params::default() });
        arrive(&mut state, &mut log, 0, 12, Instant::ZERO);
        arrive(&mut state, &mut log, 1, 12, Instant::ZERO);
        // 4500 B are five packets of 1000 B, to -500; then 1500 are two, to -500, and so on
        assert_eq!(order(&mut state, &mut log, 16, Instant::ZERO), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0]);
        // a third one goes ahead of both
        arrive(&mut state, &mut log, 2, 2, Instant::ZERO);
        assert_eq!(order(&mut state, &mut log, 4, Instant::ZERO), [2, 2, 1, 1]);
        assert_eq!((state.packets(), state.bytes()), (6, 6_000));
    }

    #[test]
    fn a_flow_that_comes_back_has_a_quantum_after_the_refill_delay() {
        let (mut state, mut log) = queues(Params { quantum: 3_000, initial_quantum: 1_000, ..Params::default() });
        arrive(&mut state, &mut log, 0, 1, Instant::ZERO);
        assert_eq!(order(&mut state, &mut log, 1, Instant::ZERO), [0]);
        // no credit is left; the queue is found empty
        assert!(matches!(state.dequeue(Instant::ZERO, &mut log), Dequeue::Empty));
        // 3000 B were given when it was looked at, and stay
        assert_eq!(state.flows[0].credit, 3_000);
        state.flows.entry(0).credit = -500;
        arrive(&mut state, &mut log, 0, 1, Instant::from_millis(40));
        assert_eq!(state.flows[0].credit, -500);
        assert_eq!(order(&mut state, &mut log, 1, Instant::from_millis(40)), [0]);
        assert!(matches!(state.dequeue(Instant::from_millis(40), &mut log), Dequeue::Empty));
        state.flows.entry(0).credit = -500;
        arrive(&mut state, &mut log, 0, 1, Instant::from_millis(81));
        assert_eq!(state.flows[0].credit, 3_000);
    }

    #[test]
    fn limits_are_of_a_flow_and_of_all() {
        let (mut state, mut log) = queues(Params { limit: 5, flow_limit: 3, ..Params::default() });
        arrive(&mut state, &mut log, 0, 4, Instant::ZERO);
        assert_eq!((state.packets(), log.queue.drops_overflow, state.counters()[0].1), (3, 1, 1));
        arrive(&mut state, &mut log, 1, 3, Instant::ZERO);
        assert_eq!((state.packets(), log.queue.drops_overflow, state.counters()[0].1), (5, 2, 1));
    }

    #[test]
    fn a_packet_that_waited_longer_than_the_threshold_is_marked() {
        let (mut state, mut log) = queues(Params { ce_threshold: Some(Duration::from_millis(5)), ..Params::default() });
        arrive(&mut state, &mut log, 0, 2, Instant::ZERO);
        order(&mut state, &mut log, 1, Instant::from_millis(5));
        assert_eq!(log.queue.ce_marks, 0);
        order(&mut state, &mut log, 1, Instant(5_000_001));
        assert_eq!(log.queue.ce_marks, 1);
    }
}
