//! DualPI2: two queues, one of low latency (L) and a classic one (C), whose AQMs are coupled.
//!
//! Specification: RFC 9332; Linux 6.18 `net/sched/sch_dualpi2.c` (upstream since 6.17), tc-dualpi2(8); for older versions the modules of
//! L4STeam/l4sdemo, with the commit where it matters. Cut along its parts: [`controller`] (p' from the delay), [`scheduler`] (which queue
//! is served), [`coupled`] (from p' to marks and drops), [`versions`] (whose DualPI2: the default of every parameter).
//!
//! `version` says what the other parameters are if they are not set:
//!
//! | | linux-6.17 | linux-5.10 | tsfifo | wrr | wrrb | 4e82fd8, cbd8653, 0952823 | rfc9332 |
//! |---|---|---|---|---|---|---|---|
//! | limit | 10000, and 2 * 1514 B of memory for each | 10000 | 10000 | 10000 | 10000 | 40000 | 250 ms of the rate, bytes |
//! | target, tupdate, ms | 15, 16 | 15, 16 | 20, 32 | 20, 32 | 20, 32 | 15, 16 | 15, 15 |
//! | alpha, beta, Hz | 0.16, 3.2 | 0.16, 3.2 | 0.3125, 3.125, cut to 0.233, 2.79 | = | = | 0.08, 1.6 after the division by 127 | 0.15, 3 |
//! | scheduler | credit, 10 % for C | = | 40 ms of time shift | 16 packets of L for one of C | 10 bytes of L for one of C | credit, 10 % | credit, 10 % |
//! | step of L | > 1 ms | > 1 ms and two packets ahead on arrival | > 1.024 ms and a packet behind | = | two packets behind | > 1.000 ms and a packet ahead | ramp from 0.8 to 1.2 ms, a packet behind |
//! | L4S | ECT(1), CE | ECT(1), CE | any ECT | any ECT | any ECT | any ECT | ECT(1), CE |
//! | decisions | coins | coins | coins | coins | coins | coins | sums |
//!
//! Known facts about the older versions, and inferences:
//! - `tsfifo`, `wrr`, `wrrb` are what the comparison of the three schedulers of July 2019 (L4STeam) says: time shift 40 ms, target 20 ms, drop on
//!   overload, `dc_ecn` and `dc_dualq`, "the 1 packet threshold" everywhere, other parameters by default. Inferred: the gains are those of the
//!   modules that count time in ns, `wrr_ratio` was 0 for `tsfifo`. The `l_drop` of `wrrb` was not scaled if not set (100 of 2^32), so that overload
//!   was nearly always; `l_drop = 0` does the same. Here it is 100 %.
//! - `4e82fd8` ("introduced preserving the sign in alpha/beta computations"), `cbd8653` ("introduced proper statistics reset") and `0952823`
//!   ("without statistics reset") are commits of a branch that is not public; known are these words and the parameters, of which alpha 0.156250
//!   and beta 3.195312 are what tc shows of the default 41/256 and 819/256. Inferred: the rest is that of L4STeam/l4sdemo of 25 July 2019 (@78e4d99), which
//!   first has both changes: each term as a signed number, divided by 127. Before, each was shifted down by 6 bits (`arithmetic =
//!   "linux-shift-terms"`), which keeps the sign as well, but not the gain. The step wants one packet ahead, as there; from 29 July on (@e73a31c) it wanted two: `min_qlen_step = 2`.
//!   Resetting the qdisc set p', the last delay, credit and counters to 0 in the ones, and none of these in the others. A run begins
//!   with a new qdisc, so that the three do not differ here; what a later experiment inherited there is not modelled.
//!
//! Deviations: there are no filters, so that class and codepoint agree and LLLL does not exist; packets are single frames, so that
//! `split_gso` has no meaning and is left out. The queue is older than the run: the first update comes at a random moment within `tupdate`.
//! Timers are exact: Linux since 5.x has a high-resolution timer, and 16 and 32 ms are whole ticks of the older kernels (`HZ` = 250).
//! RFC 9332 leaves the scheduler open: that of Linux. A probability of RFC 9332 that is larger than 1 counts as 1 where probabilities are summed up. Not modelled: the
//! coupling of Low-Latency DOCSIS.
//!
//! A packet that the coupled AQM and the step both mark is one event, but counts twice in `ecn_mark`, as in Linux.

pub mod controller;
pub mod coupled;
pub mod scheduler;
pub mod versions;

use super::fifo::Fifo;
use super::{Aqm, Dequeue, QueueContext};
use crate::buffers::truesize;
use crate::hint::{seldom, unlikely};
use crate::log::{At, DropReason, DropSite, Log, MarkReason};
use crate::packet::{Ecn, Packet};
use crate::param::ParamError;
use crate::units::{Duration, Instant, Rate};
use controller::Arithmetic;
use coupled::Coupled;
use scheduler::{DualQueue, Scheduler, SchedulerKind, SchedulerTurn};
use std::collections::VecDeque;
use versions::{Decision, DualPi2Version, Law, Marking, Mask, Overload, Setup, StepCount};

/// Name in experiment files.
pub const NAME: &str = "dualpi2";
/// One line.
pub const TITLE: &str = "dual-queue coupled PI2: low latency beside classic traffic";
/// Specification and deviations.
pub const SOURCE: &str =
    "RFC 9332; Linux 6.18 sch_dualpi2.c, tc-dualpi2(8); L4STeam/l4sdemo of 2019 to 2022; no filters, no split_gso; first update within tupdate";

crate::params! {
    /// Parameters of DualPI2.
    pub struct Params {
        /// Whose DualPI2: the parameters that are not set are as there.
        version: DualPi2Version = DualPi2Version::Linux617, unit "", source "sch_dualpi2.c of Linux 6.18; table in aqm/dualpi2/mod.rs";
        /// Packets that fit in both queues together; unset: 10000, of the refactoring commits 40000, of RFC 9332 250 ms of the rate.
        limit: Option<u32> = None, unit "packets", range 1_u32, 100_000_000_u32, source "dualpi2_reset_default; RFC 9332 appendix A";
        /// Memory for packets; unset: two full frames for each packet of `limit`, and none with older versions.
        memlimit: Option<u64> = None, unit "bytes", range 1_u64, 1_000_000_000_000_u64, source "get_memory_limit, sch_dualpi2.c";
        /// Delay to hold; unset: 15 ms, and 20 ms with tsfifo, wrr and wrrb.
        target: Option<Duration> = None, unit "", range Duration::from_micros(1), Duration::from_secs(10), source "RFC 9332 appendix A; dualpi2_reset_default; l4sdemo @5b0a7f3";
        /// Time between two updates of the probability; unset: 16 ms, with tsfifo, wrr and wrrb 32 ms, with RFC 9332 15 ms.
        tupdate: Option<Duration> = None, unit "", range Duration::from_micros(100), Duration::from_secs(10), source "dualpi2_reset_default; RFC 9332 appendix A";
        /// Gain on the distance from target, cut to 1/256 Hz; unset: 41/256, with tsfifo, wrr and wrrb 80/256, with RFC 9332 0.15.
        alpha: Option<f64> = None, unit "Hz", range 1.0 / 256.0, 65_535.0, source "dualpi2_reset_default; RFC 9332 appendix A; l4sdemo @5b0a7f3";
        /// Gain on the change of delay, cut to 1/256 Hz; unset: 819/256, with tsfifo, wrr and wrrb 800/256, with RFC 9332 3.
        beta: Option<f64> = None, unit "Hz", range 1.0 / 256.0, 65_535.0, source "dualpi2_reset_default; RFC 9332 appendix A; l4sdemo @5b0a7f3";
        /// Largest round-trip time: sets target, tupdate, alpha and beta, which must then not be set.
        max_rtt: Option<Duration> = None, unit "", range Duration::from_millis(1), Duration::from_secs(100), source "tc-dualpi2(8): max_rtt";
        /// Typical round-trip time, the target; unset: a sixth of `max_rtt`.
        typical_rtt: Option<Duration> = None, unit "", range Duration::from_micros(200), Duration::from_secs(100), source "tc-dualpi2(8): typical_rtt";
        /// Ratio of the probabilities of L and p'; C has the square of p'.
        coupling_factor: u32 = 2, unit "ratio", range 1_u32, 255_u32, source "RFC 9332 appendix A; dualpi2_reset_default";
        /// Packets of L that were queued for longer are marked; unset: 1 ms. With RFC 9332, where the ramp begins: 800 us.
        step_thresh: Option<Duration> = None, unit "", range Duration(0), Duration::from_secs(10), source "dualpi2_reset_default; RFC 9332 appendix A";
        /// Threshold of the step in packets that remain in L, instead of time.
        step_packets: Option<u32> = None, unit "packets", range 0_u32, 100_000_000_u32, source "tc-dualpi2(8): step_thresh";
        /// Packets of L that must be there for the step; unset: as `version` has it, 0 to 2.
        min_qlen_step: Option<u32> = None, unit "packets", range 0_u32, 100_000_000_u32, source "tc-dualpi2(8); l4sdemo @cf6fa35, @11b1ae1, @fc0f216; RFC 9332 appendix A Th_len";
        /// When these packets are counted: ahead of one that arrives, or behind one that leaves; unset: as `version` has it.
        step_count: Option<StepCount> = None, unit "", source "apply_step of Linux 6.18 and l4sdemo @cf6fa35; dualpi2_qdisc_dequeue of @11b1ae1";
        /// From the threshold on, time until the probability of the ramp of RFC 9332 is 1; unset: 400 us.
        ramp_range: Option<Duration> = None, unit "", range Duration(0), Duration::from_secs(10), source "RFC 9332 appendix A";
        /// Codepoints that are L4S; unset: l4s_ect, and any_ect with the versions of 2019.
        ecn_mask: Option<Mask> = None, unit "", source "tc-dualpi2(8): l4s_ect is the default, any_ect; dc_dualq with dc_ecn before";
        /// Codepoints that go to L; unset: `ecn_mask`.
        queue_mask: Option<Mask> = None, unit "", source "tc/q_dualpi2.c of 2019: no_dualq, l4s_dualq, dc_dualq";
        /// Codepoints that are marked with k * p', and not its square; unset: `ecn_mask`.
        scal_mask: Option<Mask> = None, unit "", source "tc/q_dualpi2.c of 2019: classic_ecn, l4s_ecn, dc_ecn";
        /// Codepoints that are marked with the square of p', and not dropped, if they are not in `scal_mask`.
        mark_mask: Mask = Mask::AnyEct, unit "", source "tc/q_dualpi2.c of 2019: no_ecn";
        /// Reaction when the coupled probability of L exceeds `l_drop`.
        overload: Overload = Overload::Drop, unit "", source "tc-dualpi2(8): drop_on_overload is the default, overflow; c_limit before";
        /// Coupled probability of L beyond which there is overload; unset: 100.
        l_drop: Option<f64> = None, unit "percent", range 0.0, 100.0, source "tc/q_dualpi2.c of 2019: l_drop; 100 % since";
        /// When the coupled AQM decides.
        drop: Decision = Decision::Dequeue, unit "", source "tc-dualpi2(8): drop_dequeue is the default, drop_enqueue";
        /// Queued bytes below which the coupled AQM does nothing; unset: two full frames, and 0 with RFC 9332.
        min_backlog: Option<u32> = None, unit "bytes", range 0_u32, 1_000_000_000_u32, source "must_drop, sch_dualpi2.c";
        /// Which queue is served next; unset: as `version` has it.
        scheduler: Option<SchedulerKind> = None, unit "", source "table in aqm/dualpi2/scheduler.rs";
        /// Share of C with the schedulers credit and wrr-bytes; unset: 10, and 9 with wrrb.
        classic_protection: Option<u32> = None, unit "percent", range 0_u32, 100_u32, source "tc-dualpi2(8): classic_protection; dequeue_ratio of l4sdemo @fc0f216";
        /// Head start of L with the scheduler time-shift.
        t_shift: Duration = Duration::from_millis(40), unit "", range Duration(0), Duration::from_secs(100), source "tc/q_dualpi2.c of 2019: t_shift; dualpi2_params_init";
        /// With the scheduler time-shift, the delay of L counts 2 to this power.
        t_speed: u32 = 0, unit "power of two", range 0_u32, 31_u32, source "tc/q_dualpi2.c of 2019: t_speed";
        /// Packets of L for each one of C with wrr-packets, at least as many with time-shift; unset: 16 with wrr, otherwise 0.
        wrr_ratio: Option<u32> = None, unit "packets", range 0_u32, 1_000_000_u32, source "tc/q_dualpi2.c of 2019: wrr_ratio";
        /// How marks and drops follow from the probability; unset: as `version` has it.
        law: Option<Law> = None, unit "", source "must_drop of Linux 6.18, should_drop of l4sdemo @11b1ae1; RFC 9332 appendix A";
        /// How the controller computes; unset: as `version` has it.
        arithmetic: Option<Arithmetic> = None, unit "", source "calculate_probability of Linux 6.18 and l4sdemo @90db729, @78e4d99, @7ab1096, @11b1ae1";
        /// How a probability becomes a decision under the law of RFC 9332; unset: recur.
        marking: Option<Marking> = None, unit "", source "RFC 9332 appendix A recur()";
    } check Params::check
}

/// Counters of the queue, packets (`tc_dualpi2_xstats`).
#[derive(Clone, Copy, Debug, Default)]
struct Statistics {
    packets_in_l: u64,
    packets_in_c: u64,
    ecn_mark: u64,
    step_marks: u64,
    maxq: u64,
}

/// Both queues with their parameters.
#[derive(Clone, Debug)]
pub struct State {
    setup: Setup,
    coupled: Coupled,
    scheduler: Scheduler,
    l: Fifo,
    c: Fifo,
    /// For every packet of L, whether enough were ahead of it for the step; empty if all are.
    step_applies: VecDeque<bool>,
    /// Linux's `truesize` of all packets.
    memory: u64,
    small_heads: bool,
    statistics: Statistics,
    next_update: Instant,
}

impl State {
    /// Two empty queues.
    pub fn new(params: Params, context: &QueueContext) -> State {
        let (setup, controller, scheduler) = params.setup(context);
        State {
            setup,
            coupled: Coupled::new(&setup, controller, context.seed),
            scheduler,
            l: Fifo::default(),
            c: Fifo::default(),
            step_applies: VecDeque::new(),
            memory: 0,
            small_heads: context.small_heads,
            statistics: Statistics::default(),
            next_update: context.first_tick("dualpi2 phase", setup.tupdate, setup.tupdate),
        }
    }

    /// The next packet. `LINUX`: by the law of Linux, which decides at dequeue. That is the usual one, and has code of its own.
    #[inline(always)]
    fn take<L: Log, const LINUX: bool>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        let law = if LINUX { Law::Linux } else { self.setup.law };
        let at_dequeue = LINUX || self.setup.decision == Decision::Dequeue;
        let ramp = law == Law::Rfc9332;
        // a packet is judged where it lies and moved once, to the link: moves in parts are slow
        loop {
            let turn = match (&self.scheduler, self.l.is_empty(), self.c.is_empty()) {
                (Scheduler::Credit { .. }, false, true) => SchedulerTurn::at_once(DualQueue::L),
                _ => match self.scheduler.next(self.l.head(), self.c.head(), now) {
                    Some(turn) => turn,
                    None => return Dequeue::Empty,
                },
            };
            let at = At { now, queue: turn.queue as u32 };
            let backlog = self.bytes();
            let fifo = if turn.queue == DualQueue::L { &mut self.l } else { &mut self.c };
            let behind = fifo.len() as u64 - 1;
            let Some(packet) = fifo.head_mut() else { return Dequeue::Empty };
            let (len, sojourn) = (packet.len, now - packet.enqueue_time);
            let memory = truesize(packet, self.small_heads);
            let beyond = match turn.queue {
                DualQueue::L => self.setup.step.excess_over_step(behind, sojourn, &mut self.step_applies),
                DualQueue::C => 0,
            };
            self.memory -= u64::from(memory);
            // a mark is reported once: of those of arrival, CE is what is left
            let mut marked = !at_dequeue && packet.ecn() == Ecn::Ce;
            if at_dequeue {
                let native = if ramp { self.coupled.ramp(beyond) } else { 0.0 };
                let verdict = self.coupled.judge_by(law, packet, backlog - u64::from(len), native, at, log);
                if verdict.dropped {
                    seldom();
                    log.on_drop(packet, DropReason::Aqm, DropSite::Queue, at);
                    fifo.discard(len);
                    continue;
                }
                marked = verdict.marked;
                self.statistics.ecn_mark += u64::from(marked);
            }
            if beyond > 0 && !ramp && !(law == Law::TsFifo && packet.ecn() == Ecn::Ce) {
                // what is in L is ECN-capable
                let stepped = marked || log.set_ce(packet, MarkReason::Step, at);
                self.statistics.step_marks += u64::from(stepped);
                self.statistics.ecn_mark += u64::from(stepped);
            }
            self.scheduler.charge_turn(turn);
            log.on_dequeue(packet, at);
            let sent = *packet;
            fifo.discard(len);
            return Dequeue::Packet(sent);
        }
    }

    /// Longest time that the head of a queue has waited.
    fn head_delay(&self, now: Instant) -> Duration {
        let delay = |fifo: &Fifo| fifo.head().map_or(Duration::ZERO, |head| now - head.enqueue_time);
        //= RFC 9332, section A.2
        //# Instead, line 2a of the full PI-update function (Figure 8) ensures that the Base PI AQM in line 3 is driven by whichever of the two
        //# queue delays is greater, but line 3 still always uses the same Classic target (default 15 ms).
        delay(&self.l).max(delay(&self.c))
    }
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn changeable(&self) -> &'static [&'static str] {
        &["limit", "memlimit", "target", "tupdate", "alpha", "beta", "coupling_factor", "step_thresh", "l_drop"]
    }

    fn take_params(&mut self, fresh: State, _now: Instant) -> Result<(), ParamError> {
        self.setup = fresh.setup;
        self.coupled.take_params(fresh.coupled);
        Ok(())
    }

    #[inline]
    fn enqueue<L: Log>(&mut self, mut packet: Packet, now: Instant, log: &mut L) {
        let queue = if self.setup.queue_mask.has(packet.ecn()) { DualQueue::L } else { DualQueue::C };
        let at = At { now, queue: queue as u32 };
        let (packets, bytes) = (self.packets(), self.bytes());
        let memory = self.memory + u64::from(truesize(&packet, self.small_heads));
        let setup = &self.setup;
        //= RFC 9332, section A.1
        //# In order to avoid any bias against larger packets, 1 MTU of space is always allowed, and the limit is deliberately tested before
        //# enqueue.
        let full =
            packets >= setup.limit || memory > setup.memlimit || bytes + u64::from(self.setup.full_frame) > setup.limit_bytes;
        if unlikely(full) {
            log.on_drop(&packet, DropReason::Overflow, DropSite::Arrival, at);
            return;
        }
        if unlikely(setup.decision == Decision::Enqueue) {
            let verdict = self.coupled.judge(&mut packet, bytes, 0.0, at, log);
            self.statistics.ecn_mark += u64::from(verdict.marked);
            if verdict.dropped {
                log.on_drop(&packet, DropReason::Aqm, DropSite::Arrival, at);
                return;
            }
        }
        self.memory = memory;
        self.statistics.maxq = self.statistics.maxq.max(packets as u64);
        match queue {
            DualQueue::L => {
                if self.setup.step.counts_at_enqueue() {
                    self.step_applies.push_back(self.l.len() >= self.setup.step.min_qlen as usize);
                }
                self.statistics.packets_in_l += 1;
                self.l.accept_at(packet, at, log);
            }
            DualQueue::C => {
                self.statistics.packets_in_c += 1;
                self.c.accept_at(packet, at, log);
            }
        }
    }

    #[inline(always)]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        match (self.setup.law, self.setup.decision) {
            (Law::Linux, Decision::Dequeue) => self.take::<L, true>(now, log),
            _ => self.take::<L, false>(now, log),
        }
    }

    #[inline]
    fn packets(&self) -> usize {
        self.l.len() + self.c.len()
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.l.bytes() + self.c.bytes()
    }

    fn next_timer(&self) -> Instant {
        self.next_update
    }

    fn on_timer<L: Log>(&mut self, now: Instant, _log: &mut L) {
        self.coupled.update(self.head_delay(now));
        self.next_update = now + self.setup.tupdate;
    }

    fn set_rate(&mut self, rate: Rate, _now: Instant) {
        self.setup.set_rate(rate);
    }

    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        self.coupled.controller.state(tell);
        if let Scheduler::Credit { credit, .. } = self.scheduler {
            tell("credit", credit as f64);
        }
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let Statistics { packets_in_l, packets_in_c, ecn_mark, step_marks, maxq } = self.statistics;
        let named = [
            ("packets_in_l", packets_in_l),
            ("packets_in_c", packets_in_c),
            ("ecn_mark", ecn_mark),
            ("step_marks", step_marks),
            ("maxq", maxq),
        ];
        named.map(|(name, count)| (name.to_string(), count)).to_vec()
    }

    fn internal_queues(&self) -> Vec<String> {
        ["l", "c"].map(String::from).to_vec()
    }
}

#[cfg(test)]
mod tests;
