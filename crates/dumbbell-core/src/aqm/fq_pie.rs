//! FQ-PIE: a PIE for every flow queue, served by deficit round robin with new flows first.
//!
//! Specification: Linux `net/sched/sch_fq_pie.c` (6.18), tc-fq_pie(8). The parts are [`super::drr`] and [`super::pie`].
//!
//! If there are more than 2048 queues, 2048 are updated at a time, a millisecond apart (`fq_pie_timer`, Linux since 6.6 and in stable kernels since then).
//!
//! Deviations: `memory_limit` is left out, since Linux only counts what is beyond it; hashing as in FQ-CoDel.

use super::drr::FlowQueues;
use super::pie::{self, Pie, PieVars, PieVersion};
use super::{Aqm, Dequeue, FlowKey, QueueContext};
use crate::log::{At, DropReason, DropSite, Log};
use crate::packet::Packet;
use crate::param::ParamError;
use crate::rng::Rng;
use crate::units::{timer_wheel, Duration, Instant};

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
        /// Bytes that a flow sends per turn; by default one full frame of `hosts.mss`.
        quantum: u32 = 1514, unit "bytes", range 256_u32, 1_048_576_u32, frames 1, source "psched_mtu in fq_pie_init; tc-fq_pie(8)";
        /// Delay to hold.
        target: Duration = Duration::from_millis(15), unit "", range Duration::from_micros(1), Duration::from_secs(10), source "tc-fq_pie(8)";
        /// Time between two updates of the probabilities.
        tupdate: Duration = Duration::from_millis(15), unit "", range Duration::from_millis(1), Duration::from_secs(10), source "tc-fq_pie(8)";
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

/// Queues that are updated at a time (`fq_pie_timer`).
const BATCH: u32 = 2048;

/// Flow queues with their parameters.
#[derive(Clone, Debug)]
pub struct State {
    limit: usize,
    pie: Pie,
    queues: FlowQueues<PieVars>,
    rng: Rng,
    next_update: Instant,
    /// Queues that exist, by the batch that updates them.
    batches: Vec<Vec<u32>>,
    /// Number of the next one.
    batch: usize,
}

impl State {
    /// Empty queues.
    pub fn new(params: Params, context: &QueueContext) -> State {
        let queues = FlowQueues::new(params.flows, params.quantum, context, "fq_pie hash");
        let pie = Pie::new(
            &pie::Params {
                version: PieVersion::Linux,
                limit: params.limit,
                target: Some(params.target),
                tupdate: Some(params.tupdate),
                alpha: params.alpha,
                beta: params.beta,
                ecn: params.ecn,
                ecn_prob: params.ecn_prob,
                bytemode: params.bytemode,
                dq_rate_estimator: params.dq_rate_estimator,
            },
            context.full_frame,
        );
        State {
            limit: params.limit as usize,
            queues,
            rng: Rng::stream(context.seed, NAME, 0),
            next_update: pie.first_update(context),
            pie,
            batches: vec![Vec::new(); params.flows.div_ceil(BATCH) as usize],
            batch: 0,
        }
    }
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn changeable(&self) -> &'static [&'static str] {
        &["limit", "quantum", "target", "tupdate", "alpha", "beta", "ecn", "ecn_prob"]
    }

    fn take_params(&mut self, fresh: State, _now: Instant) -> Result<(), ParamError> {
        self.queues.take_quantum(&fresh.queues);
        (self.limit, self.pie) = (fresh.limit, fresh.pie);
        Ok(())
    }

    fn flow_starts(&mut self, flow: u32, key: &FlowKey) {
        if let Some(index) = self.queues.flow_starts(flow, key, self.pie.vars()) {
            self.batches[(self.queues.bucket_of(index) / BATCH) as usize].push(index);
        }
    }

    #[inline(always)]
    fn enqueue<L: Log>(&mut self, mut packet: Packet, now: Instant, log: &mut L) {
        let index = self.queues.of_flow(packet.flow);
        let at = At { now, queue: index as u32 };
        let is_full = self.queues.packets() >= self.limit;
        let (backlog, vars) = self.queues.backlog_and_vars(index);
        if is_full {
            self.pie.overflow(vars);
            log.on_drop(&packet, DropReason::Overflow, DropSite::Arrival, at);
        } else if self.pie.admit(vars, &mut packet, backlog, &mut self.rng, at, log) {
            self.queues.push(index, packet, now, log);
        } else {
            log.on_drop(&packet, DropReason::Aqm, DropSite::Arrival, at);
        }
    }

    #[inline]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        while let Some(index) = self.queues.turn() {
            let (mut queue, vars) = self.queues.queue_and_vars(index);
            if let Some(packet) = queue.send() {
                self.pie.on_departure(vars, &packet, queue.backlog(), now);
                self.queues.prefetch_next();
                log.on_dequeue(&packet, At { now, queue: index as u32 });
                return Dequeue::Packet(packet);
            }
            self.queues.went_empty(index);
        }
        Dequeue::Empty
    }

    look_at_queues!();

    fn next_timer(&self) -> Instant {
        self.next_update
    }

    fn on_timer<L: Log>(&mut self, now: Instant, _log: &mut L) {
        for &index in &self.batches[self.batch] {
            let (backlog, vars) = self.queues.backlog_and_vars(index as usize);
            self.pie.update(vars, backlog);
        }
        self.batch += 1;
        let mut wait = timer_wheel(Instant::ZERO, Duration::ZERO) - Instant::ZERO;
        if self.batch == self.batches.len() {
            (self.batch, wait) = (0, self.pie.tupdate);
        }
        self.next_update = now + wait;
    }

    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("p", self.queues.iter_vars().map(|vars| vars.prob).max().unwrap_or(0) as f64 / pie::ONE as f64);
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
    fn of_many_queues_2048_are_updated_at_a_time() {
        // ceil(queues / 2048) times, a millisecond apart, then after tupdate: 15 ms, and one of the timer wheel
        for (flows, gaps) in [(2048, vec![16, 16]), (2049, vec![1, 16, 1, 16]), (8192, vec![1, 1, 1, 16, 1])] {
            let mut state = State::new(Params { flows, ..Params::default() }, &context(10));
            start_flows(&mut state, 3);
            let mut seen = Vec::new();
            for _ in 0..gaps.len() {
                let now = state.next_timer();
                state.on_timer(now, &mut Counters::default());
                seen.push((state.next_timer() - now).as_millis());
            }
            assert_eq!(seen, gaps, "{flows} queues");
        }
    }

    #[test]
    fn a_queue_is_updated_in_the_batch_of_its_bucket() {
        let mut state = State::new(Params { flows: 65_536, ..Params::default() }, &context(10));
        start_flows(&mut state, 40);
        for (batch, members) in state.batches.iter().enumerate() {
            for &index in members {
                assert_eq!(state.queues.bucket_of(index) as usize / 2048, batch);
            }
        }
        assert_eq!(state.batches.iter().map(Vec::len).sum::<usize>(), state.queues.len());
        // in every queue the first of two packets has waited for 200 ms: each learns of it when its batch is updated, and not earlier
        let mut log = Counters::default();
        (0..80).for_each(|n| state.enqueue(Packet { flow: n % 40, ..packet(0, Ecn::NotEct) }, Instant::ZERO, &mut log));
        (0..state.queues.len())
            .for_each(|_| assert!(matches!(state.dequeue(Instant::from_millis(200), &mut log), Dequeue::Packet(_))));
        for updated in 0..=32 {
            for index in 0..state.queues.len() {
                let has_learnt = state.queues.backlog_and_vars(index).1.prob > 0;
                assert_eq!(has_learnt, state.queues.bucket_of(index as u32) < 2048 * updated);
            }
            state.on_timer(Instant::ZERO, &mut log);
        }
    }

    #[test]
    fn only_the_flow_that_queues_is_signalled() {
        let mut state = State::new(Params { ecn: true, ..Params::default() }, &context(10));
        start_flows(&mut state, 2);
        let mut log = Counters::default();
        // at 10 Mbit/s, flow 0 sends 1 % too much for 30 s, flow 1 a packet every 100 ms
        let (mut seq, mut next_timer) = (0, state.next_timer());
        for step in 0..25_000_u64 {
            let now = Instant(step * 1_211_200);
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
        assert!(log.flows.flow_counters(0).ce + log.flows.flow_counters(0).dropped_aqm > 100, "{:?}", log.flows.flow_counters(0));
        assert_eq!((log.flows.flow_counters(1).ce, log.flows.flow_counters(1).dropped_aqm), (0, 0));
    }
}
