//! FQ-PIE: a PIE for every flow queue, served by deficit round robin with new flows first.
//!
//! Specification: Linux `net/sched/sch_fq_pie.c` (6.18), tc-fq_pie(8). The parts are [`super::drr`] and [`super::pie`].
//!
//! Deviations: `memory_limit` is left out, since Linux only counts what is beyond it; all queues are updated at once, where Linux
//! takes 2048 of them at a time; hashing as in FQ-CoDel.

use super::drr::FlowQueues;
use super::pie::{self, Pie, Vars, Version};
use super::{Aqm, Dequeue, FlowKey, QueueContext};
use crate::log::{At, DropReason, Log, Place};
use crate::packet::Packet;
use crate::rng::Rng;
use crate::units::Time;

/// Name in experiment files.
pub const NAME: &str = "fq_pie";
/// One line.
pub const TITLE: &str = "flow queues by deficit round robin, PIE in each";
/// Specification and deviations.
pub const SOURCE: &str = "Linux 6.18 sch_fq_pie.c, tc-fq_pie(8); no memory_limit";

crate::params! {
    /// Parameters of FQ-PIE.
    pub struct Params {
        /// Packets that fit into all queues together; tail drop beyond.
        limit: u32 = 10_240, unit "packets", range 1_u32, 100_000_000_u32, source "tc-fq_pie(8)";
        /// Queues that flows are hashed to.
        flows: u32 = 1024, unit "queues", range 1_u32, 65_536_u32, source "tc-fq_pie(8)";
        /// Bytes that a flow sends per turn.
        quantum: u32 = 1514, unit "bytes", range 256_u32, 1_048_576_u32, source "one full frame; tc-fq_pie(8)";
        /// Delay to hold.
        target: Time = Time::from_millis(15), unit "", range Time::from_micros(1), Time::from_secs(10), source "tc-fq_pie(8)";
        /// Time between two updates of the probabilities.
        tupdate: Time = Time::from_millis(15), unit "", range Time::from_millis(1), Time::from_secs(10), source "tc-fq_pie(8)";
        /// Gain on the distance from target.
        alpha: u32 = 2, unit "1/16 Hz", range 0_u32, 32_u32, source "RFC 8033 section 4.2: 0.125; tc-fq_pie(8)";
        /// Gain on the change of delay.
        beta: u32 = 20, unit "1/16 Hz", range 0_u32, 32_u32, source "RFC 8033 section 4.2: 1.25; tc-fq_pie(8)";
        /// Mark ECN-capable packets instead of dropping them, as long as the probability is at most `ecn_prob`.
        ecn: bool = false, unit "", source "tc-fq_pie(8): noecn is the default";
        /// Largest probability at which ECN-capable packets are marked; above, they are dropped.
        ecn_prob: u32 = 10, unit "percent", range 0_u32, 100_u32, source "tc-fq_pie(8)";
        /// Probability in proportion to the packet's size.
        bytemode: bool = false, unit "", source "tc-fq_pie(8): nobytemode is the default";
        /// Delay from backlog and departure rate of the flow instead of time stamps.
        dq_rate_estimator: bool = false, unit "", source "tc-fq_pie(8): no_dq_rate_estimator is the default";
    }
}

/// Flow queues with their parameters.
#[derive(Clone, Debug)]
pub struct State {
    limit: usize,
    pie: Pie,
    vars: Vec<Vars>,
    queues: FlowQueues,
    rng: Rng,
    next_update: Time,
}

impl State {
    /// Empty queues.
    pub fn new(params: Params, context: &QueueContext) -> State {
        let queues = FlowQueues::new(params.flows, params.quantum, context.seed, "fq_pie hash");
        let pie = Pie::new(&pie::Params {
            version: Version::Linux,
            limit: params.limit,
            target: Some(params.target),
            tupdate: Some(params.tupdate),
            alpha: params.alpha,
            beta: params.beta,
            ecn: params.ecn,
            ecn_prob: params.ecn_prob,
            bytemode: params.bytemode,
            dq_rate_estimator: params.dq_rate_estimator,
        });
        State {
            limit: params.limit as usize,
            vars: Vec::new(),
            queues,
            rng: Rng::stream(context.seed, NAME, 0),
            next_update: pie.first_update(context.seed),
            pie,
        }
    }
}

impl Aqm for State {
    fn flow_starts(&mut self, flow: u32, key: &FlowKey) {
        self.queues.flow_starts(flow, key);
        self.vars.resize_with(self.queues.len(), || self.pie.vars());
    }

    #[inline(always)]
    fn enqueue<L: Log>(&mut self, mut packet: Packet, now: Time, log: &mut L) {
        let index = self.queues.of_flow(packet.flow);
        let at = At { now, queue: index as u32 };
        let vars = &mut self.vars[index];
        if self.queues.packets() >= self.limit {
            self.pie.overflow(vars);
            log.dropped(&packet, DropReason::Overflow, Place::Arrival, at);
        } else if self.pie.admit(vars, &mut packet, self.queues.backlog(index), &mut self.rng, at, log) {
            self.queues.push(index, packet, now, log);
        } else {
            log.dropped(&packet, DropReason::Aqm, Place::Arrival, at);
        }
    }

    #[inline]
    fn dequeue<L: Log>(&mut self, now: Time, log: &mut L) -> Dequeue {
        while let Some(index) = self.queues.turn() {
            if let Some(packet) = self.queues.take(index) {
                self.queues.sent(index, packet.len);
                self.pie.departed(&mut self.vars[index], &packet, self.queues.backlog(index), now);
                log.sent(&packet, At { now, queue: index as u32 });
                return Dequeue::Packet(packet);
            }
            self.queues.went_empty(index);
        }
        Dequeue::Empty
    }

    #[inline]
    fn coming(&self) -> Option<u32> {
        self.queues.coming()
    }

    #[inline]
    fn prefetch(&self, flow: u32, near: bool) {
        self.queues.prefetch(flow, near);
    }

    fn packets(&self) -> usize {
        self.queues.packets()
    }

    fn bytes(&self) -> u64 {
        self.queues.bytes()
    }

    fn next_timer(&self) -> Time {
        self.next_update
    }

    fn on_timer<L: Log>(&mut self, now: Time, _log: &mut L) {
        for (index, vars) in self.vars.iter_mut().enumerate() {
            self.pie.update(vars, self.queues.backlog(index));
        }
        self.next_update = now + self.pie.tupdate;
    }

    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("p", self.vars.iter().map(|vars| vars.prob).max().unwrap_or(0) as f64 / pie::ONE as f64);
    }

    fn counters(&self) -> Vec<(String, u64)> {
        vec![("new_flows".into(), self.queues.new_flows)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{context, packet, start_flows};
    use super::*;
    use crate::packet::Ecn;
    use crate::record::Counters;

    #[test]
    fn only_the_flow_that_queues_is_signalled() {
        let mut state = State::new(Params { ecn: true, ..Params::default() }, &context(10));
        start_flows(&mut state, 2);
        let mut log = Counters::default();
        // at 10 Mbit/s, flow 0 sends 1 % too much for 30 s, flow 1 a packet every 100 ms
        let (mut seq, mut next_timer) = (0, state.next_timer());
        for step in 0..25_000_u64 {
            let now = Time(step * 1_211_200);
            while next_timer <= now {
                state.on_timer(next_timer, &mut log);
                next_timer = state.next_timer();
            }
            for _ in 0..1 + u64::from(step % 100 == 0) {
                state.enqueue(packet(seq, Ecn::Ect0), now, &mut log);
                seq += 1;
            }
            if step % 83 == 0 {
                state.enqueue(Packet { flow: 1, ..packet(step, Ecn::Ect0) }, now, &mut log);
            }
            let _ = state.dequeue(now, &mut log);
        }
        assert!(log.flows.of(0).ce + log.flows.of(0).dropped_aqm > 100, "{:?}", log.flows.of(0));
        assert_eq!((log.flows.of(1).ce, log.flows.of(1).dropped_aqm), (0, 0));
    }
}
