//! The versions as data, and what follows from a version and the keys that override it.

use super::controller::{quantise_hertz, Arithmetic, Controller, PiGains, GAIN_SCALE, MAX_PROB};
use super::scheduler::{Scheduler, SchedulerKind, Weights};
use super::Params;
use crate::aqm::QueueContext;
use crate::hint::unlikely;
use crate::packet::Ecn;
use crate::param::ParamError;
use crate::units::{Duration, Rate};
use std::collections::VecDeque;

crate::versions! {
    /// Whose DualPI2: what the other parameters are if they are not set.
    pub enum DualPi2Version sets Defaults = { LINUX_6_17 } {
        /// Linux since 6.17.
        Linux617 = "linux-6.17" {},
        /// The module for Linux 5.10 of the L4S team (L4STeam/l4sdemo @cf6fa35, 5.10/sch_dualpi2), with which DualPI2 was evaluated in 2021: the step wants
        /// more than one packet ahead; no memory limit.
        Linux510 = "linux-5.10" { memory: false, min_qlen_step: 2 },
        /// The time-shifted FIFO of 2016 to June 2019 (olgaalb/sch_dualpi2, `dualpi2_params_init` of L4STeam/l4sdemo @fa337a5), as the comparison of
        /// schedulers of July 2019 set it: the step wants a packet behind.
        TsFifo = "tsfifo" {
            memory: false,
            target_ms: 20,
            tupdate_ms: 32,
            alpha: 80.0 / GAIN_SCALE,
            beta: 800.0 / GAIN_SCALE,
            arithmetic: Arithmetic::PerNs,
            step_unit: 1024,
            min_qlen_step: 1,
            step_count: StepCount::Dequeue,
            ecn_mask: Mask::AnyEct,
            scheduler: SchedulerKind::TimeShift,
            law: Law::TsFifo,
        },
        /// Packets in turns, same comparison (DUALPI2WRR; L4STeam/l4sdemo @11b1ae1).
        Wrr = "wrr" like TsFifo { scheduler: SchedulerKind::WrrPackets, wrr_ratio: 16 },
        /// Bytes in turns, same comparison (DUALPI2WRRB; L4STeam/l4sdemo @fc0f216, sch_dualpi2_dev): 9 % for C; the step wants two packets behind.
        Wrrb = "wrrb" like TsFifo { scheduler: SchedulerKind::WrrBytes, classic_protection: 9, min_qlen_step: 2 },
        /// Commit of the refactoring branch, 2019: the first to preserve the sign. What of this is inferred: see the module's documentation.
        C4e82fd8 = "4e82fd8" {
            limit: Some(40_000),
            memory: false,
            arithmetic: Arithmetic::Linux127Terms,
            step_unit: 1000,
            min_qlen_step: 1,
            ecn_mask: Mask::AnyEct,
        },
        /// Commit of the refactoring branch, 2019: the first to reset statistics.
        Cbd8653 = "cbd8653" like C4e82fd8 {},
        /// Commit of the refactoring branch, 2019: without that reset.
        C0952823 = "0952823" like C4e82fd8 {},
        /// RFC 9332, appendix A. It leaves the scheduler open: that of Linux.
        Rfc9332 = "rfc9332" {
            limit: None,
            memory: false,
            tupdate_ms: 15,
            alpha: 0.15,
            beta: 3.0,
            arithmetic: Arithmetic::Real,
            step_us: 800,
            min_qlen_step: 1,
            step_count: StepCount::Dequeue,
            min_frames: 0,
            law: Law::Rfc9332,
        },
    }
}

crate::choice! {
    /// Which codepoints an ECN mask matches. It is a test of bits, so that CE is in both.
    pub enum Mask {
        /// None.
        NoEct = "no_ect",
        /// ECT(1) and CE.
        L4sEct = "l4s_ect",
        /// ECT(0), ECT(1) and CE.
        AnyEct = "any_ect",
    }
}

impl Mask {
    /// Whether `ecn` is in it.
    #[inline]
    pub fn has(self, ecn: Ecn) -> bool {
        let bits = match self {
            Mask::NoEct => 0b00,
            Mask::L4sEct => 0b01,
            Mask::AnyEct => 0b11,
        };
        ecn as u8 & bits != 0
    }
}

crate::choice! {
    /// Reaction when the coupled probability of L exceeds `l_drop`.
    pub enum Overload {
        /// Packets of L are dropped as well, with the probability of C.
        Drop = "drop",
        /// The probability is not let beyond: both queues grow up to `limit`.
        Overflow = "overflow",
    }
}

crate::choice! {
    /// When the coupled AQM decides on a packet.
    pub enum Decision {
        /// As it leaves.
        Dequeue = "dequeue",
        /// As it arrives.
        Enqueue = "enqueue",
    }
}

crate::choice! {
    /// When the queue of L is counted for `min_qlen_step`.
    pub enum StepCount {
        /// As the packet arrives: those ahead of it.
        Enqueue = "enqueue",
        /// As the packet leaves: those behind it.
        Dequeue = "dequeue",
    }
}

crate::choice! {
    /// How marks and drops follow from the probability.
    pub enum Law {
        /// Linux since July 2019: a coupled coin, then the step; in overload L is dropped by the square of the probability or marked.
        Linux = "linux",
        /// The time-shifted FIFO of 2016 to 2019: in overload nothing is marked, in neither queue.
        TsFifo = "tsfifo",
        /// RFC 9332: L is marked by the larger of the coupled probability and that of a ramp.
        Rfc9332 = "rfc9332",
    }
}

crate::choice! {
    /// How a probability becomes a decision under the law of RFC 9332.
    pub enum Marking {
        /// Sums probabilities up; every whole number is a hit.
        Recur = "recur",
        /// By chance.
        Random = "random",
    }
}

/// Values that a version sets: those of unset parameters, and those that no parameter sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    /// Packets; `None`: [`LIMIT_TIME`] of the rate.
    limit: Option<u32>,
    /// Whether memory is limited if nobody says how much.
    memory: bool,
    target_ms: u64,
    tupdate_ms: u64,
    /// Hz.
    alpha: f64,
    /// Hz.
    beta: f64,
    arithmetic: Arithmetic,
    step_us: u64,
    /// Unit in which the step counts time, ns; time is cut to whole ones.
    step_unit: u64,
    min_qlen_step: u32,
    step_count: StepCount,
    ecn_mask: Mask,
    /// Full frames of `min_backlog`.
    min_frames: u32,
    scheduler: SchedulerKind,
    classic_protection: u32,
    wrr_ratio: u32,
    law: Law,
}

/// `dualpi2_reset_default`, Linux 6.18 sch_dualpi2.c. No packets are needed for the step.
const LINUX_6_17: Defaults = Defaults {
    limit: Some(10_000),
    memory: true,
    target_ms: 15,
    tupdate_ms: 16,
    alpha: 41.0 / GAIN_SCALE,
    beta: 819.0 / GAIN_SCALE,
    arithmetic: Arithmetic::Linux,
    step_us: 1000,
    step_unit: 1,
    min_qlen_step: 0,
    step_count: StepCount::Enqueue,
    ecn_mask: Mask::L4sEct,
    min_frames: 2,
    scheduler: SchedulerKind::Credit,
    classic_protection: 10,
    wrr_ratio: 0,
    law: Law::Linux,
};

/// Buffer of RFC 9332 (appendix A).
const LIMIT_TIME: Duration = Duration::from_millis(250);

/// When L is marked because of its own queue.
#[derive(Clone, Copy, Debug)]
pub struct StepThreshold {
    /// Above this, ns or packets, packets are marked.
    pub threshold: u64,
    /// Whether the threshold is in packets.
    pub packets: bool,
    /// Packets of L that must be there; 0: none.
    pub min_qlen: u32,
    /// When they are counted.
    pub count: StepCount,
    /// From the threshold up to certainty, for the law of RFC 9332, in its unit.
    pub range: f64,
}

impl StepThreshold {
    /// Whether packets are counted as they arrive.
    #[inline]
    pub fn counts_at_enqueue(&self) -> bool {
        self.count == StepCount::Enqueue && self.min_qlen > 0
    }

    /// How far the head of L is beyond the threshold, ns or packets; 0: it is not, or the step does not apply. It has waited for `sojourn` and
    /// leaves `behind` packets; `counted` are the answers of arrival, if they count.
    #[inline(always)]
    pub fn excess_over_step(&self, behind: u64, sojourn: Duration, counted: &mut VecDeque<bool>) -> u64 {
        let applies = if unlikely(self.min_qlen > 0) {
            match self.count {
                StepCount::Enqueue => counted.pop_front().unwrap_or(false),
                StepCount::Dequeue => behind >= u64::from(self.min_qlen),
            }
        } else {
            true
        };
        match (applies, self.packets) {
            (false, _) => 0,
            (true, true) => behind.saturating_sub(self.threshold),
            (true, false) => sojourn.0.saturating_sub(self.threshold),
        }
    }
}

/// A version with its keys: what the packets meet.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Packets that fit.
    pub limit: usize,
    /// Bytes that fit, the next full frame included.
    pub limit_bytes: u64,
    /// Time of the rate that `limit_bytes` follows.
    limit_time: Option<Duration>,
    /// Memory that fits (`truesize`).
    pub memlimit: u64,
    /// Time between two updates.
    pub tupdate: Duration,
    /// Ratio of the probabilities of L and p'.
    pub coupling_factor: u32,
    /// The step, or ramp, of L.
    pub step: StepThreshold,
    /// ECN codepoints that go to L.
    pub queue_mask: Mask,
    /// ECN codepoints that are marked in proportion to p'.
    pub scal_mask: Mask,
    /// Other ECN codepoints that are marked instead of dropped.
    pub mark_mask: Mask,
    /// Whether L drops in overload.
    pub overload: Overload,
    /// Above this coupled probability is overload, in [`MAX_PROB`]s.
    pub l_drop: u64,
    /// When the coupled AQM decides.
    pub decision: Decision,
    /// Backlog below which it does nothing.
    pub min_backlog: u64,
    /// How marks and drops follow from the probability.
    pub law: Law,
    /// Law of marks and drops for RFC 9332.
    pub marking: Marking,
    /// A full frame of the device, bytes.
    pub full_frame: u16,
}

/// Values that `max_rtt` and `typical_rtt` stand for (`dualpi2_parse_opt`, tc/q_dualpi2.c), times in whole us.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FromRtt {
    target: Duration,
    tupdate: Duration,
    alpha: f64,
    beta: f64,
}

impl FromRtt {
    fn from_params(params: &Params) -> Option<FromRtt> {
        let us = |time: Option<Duration>| time.map(Duration::as_micros);
        let (max, typical) = match (us(params.max_rtt), us(params.typical_rtt)) {
            (None, None) => return None,
            (Some(max), typical) => (max, typical.unwrap_or((max / 6).max(1))),
            (None, Some(typical)) => (6 * typical, typical),
        };
        let tupdate = typical.min(max / 3).max(1);
        Some(FromRtt {
            target: Duration::from_micros(typical),
            tupdate: Duration::from_micros(tupdate),
            alpha: tupdate as f64 / (max as f64 * max as f64) * 1e6 * 0.1,
            beta: 0.3 / max as f64 * 1e6,
        })
    }
}

impl Params {
    /// Refuses values that contradict each other.
    pub(super) fn check(params: &Params) -> Result<(), ParamError> {
        let error = |key: &str, found: String, allowed: &str| Err(ParamError::new(key, found, allowed));
        let defaults = params.version.sets();
        if params.step_thresh.is_some() && params.step_packets.is_some() {
            return error(
                "step_packets",
                "set, and so is step_thresh".into(),
                "the only one of the two: the step is in time or in packets",
            );
        }
        if let Some(derived) = FromRtt::from_params(params) {
            let explicit = [
                ("target", params.target.is_some()),
                ("tupdate", params.tupdate.is_some()),
                ("alpha", params.alpha.is_some()),
                ("beta", params.beta.is_some()),
            ];
            if let Some((key, _)) = explicit.into_iter().find(|(_, set)| *set) {
                let allowed = "left out: max_rtt and typical_rtt set target, tupdate, alpha and beta";
                return error(key, "set, and so is max_rtt or typical_rtt".into(), allowed);
            }
            if params.max_rtt.zip(params.typical_rtt).is_some_and(|(max, typical)| typical > max) {
                return error("typical_rtt", format!("{:?}", params.typical_rtt), "at most max_rtt");
            }
            if quantise_hertz(derived.alpha).min(quantise_hertz(derived.beta)) == 0 {
                let key = if params.max_rtt.is_some() { "max_rtt" } else { "typical_rtt" };
                return error(
                    key,
                    "gains below 1/256 Hz".into(),
                    "shorter round trips, so that alpha = 0.1 * tupdate / max_rtt^2 is not cut to 0",
                );
            }
        }
        let law = params.law.unwrap_or(defaults.law);
        if law == Law::Rfc9332 && params.drop == Decision::Enqueue {
            return error("drop", "\"enqueue\" with the law of RFC 9332".into(), "dequeue: its ramp needs the time in queue");
        }
        if law != Law::Rfc9332 && (params.marking.is_some() || params.ramp_range.is_some()) {
            let key = if params.marking.is_some() { "marking" } else { "ramp_range" };
            return error(key, "set with another law".into(), "left out, unless law = \"rfc9332\"");
        }
        if params.overload == Overload::Overflow && params.l_drop.is_some() {
            return error("l_drop", "set with overload = \"overflow\"".into(), "left out, unless overload = \"drop\"");
        }
        Ok(())
    }

    /// Builds the parts of the queue from the parameters.
    pub(super) fn setup(&self, context: &QueueContext) -> (Setup, Controller, Scheduler) {
        let defaults = self.version.sets();
        let derived = FromRtt::from_params(self);
        let law = self.law.unwrap_or(defaults.law);
        let coupling_factor = self.coupling_factor;
        let limit = self.limit.or(defaults.limit);
        let memlimit = match (self.memlimit, limit, defaults.memory) {
            (Some(bytes), ..) => bytes,
            (None, Some(packets), true) => u64::from(packets) * 2 * u64::from(context.full_frame),
            (None, ..) => u64::MAX,
        };
        let l_drop = self.l_drop.unwrap_or(100.0);
        let l_drop = match law {
            // `l_drop_percent * (MAX_PROB / 100)`
            Law::TsFifo => (l_drop * f64::from(MAX_PROB / 100)) as u64,
            Law::Linux | Law::Rfc9332 => (l_drop / 100.0 * f64::from(MAX_PROB)) as u64,
        };
        let thresh = self.step_thresh.unwrap_or(Duration::from_micros(defaults.step_us));
        let threshold = match (self.step_packets, defaults.step_unit) {
            (Some(packets), _) => u64::from(packets),
            (None, 1) => thresh.0,
            // the last ns that, cut to whole units, is not above the threshold, whose number of us is read as one of units
            (None, unit) => (thresh.as_micros() + 1) * unit - 1,
        };
        let range = match self.step_packets {
            Some(_) => 0.0,
            None => self.ramp_range.unwrap_or(Duration::from_micros(400)).0 as f64,
        };
        let ecn_mask = self.ecn_mask.unwrap_or(defaults.ecn_mask);
        let target = self.target.or(derived.map(|d| d.target)).unwrap_or(Duration::from_millis(defaults.target_ms));
        let mut setup = Setup {
            limit: limit.map_or(usize::MAX, |packets| packets as usize),
            limit_bytes: u64::MAX,
            limit_time: limit.is_none().then_some(LIMIT_TIME),
            memlimit,
            tupdate: self.tupdate.or(derived.map(|d| d.tupdate)).unwrap_or(Duration::from_millis(defaults.tupdate_ms)),
            coupling_factor,
            step: StepThreshold {
                threshold,
                packets: self.step_packets.is_some(),
                min_qlen: self.min_qlen_step.unwrap_or(defaults.min_qlen_step),
                count: self.step_count.unwrap_or(defaults.step_count),
                range,
            },
            queue_mask: self.queue_mask.unwrap_or(ecn_mask),
            scal_mask: self.scal_mask.unwrap_or(ecn_mask),
            mark_mask: self.mark_mask,
            overload: self.overload,
            l_drop,
            decision: self.drop,
            min_backlog: u64::from(self.min_backlog.unwrap_or(defaults.min_frames * u32::from(context.full_frame))),
            law,
            marking: self.marking.unwrap_or(Marking::Recur),
            full_frame: context.full_frame,
        };
        setup.set_rate(context.rate);
        let controller = Controller::new(PiGains {
            arithmetic: self.arithmetic.unwrap_or(defaults.arithmetic),
            target,
            alpha: self.alpha.or(derived.map(|d| d.alpha)).unwrap_or(defaults.alpha),
            beta: self.beta.or(derived.map(|d| d.beta)).unwrap_or(defaults.beta),
            cap: if self.overload == Overload::Overflow { MAX_PROB / coupling_factor } else { MAX_PROB },
        });
        let weights = Weights {
            classic_protection: self.classic_protection.unwrap_or(defaults.classic_protection),
            t_shift: self.t_shift,
            t_speed: self.t_speed,
            wrr_ratio: self.wrr_ratio.unwrap_or(defaults.wrr_ratio),
        };
        (setup, controller, Scheduler::new(self.scheduler.unwrap_or(defaults.scheduler), &weights, context.full_frame))
    }
}

impl Setup {
    /// The rate is `rate`: RFC 9332 sizes the buffer for the largest.
    pub fn set_rate(&mut self, rate: Rate) {
        if let Some(time) = self.limit_time {
            let bytes = match rate.bits() {
                0 => u64::MAX,
                bits => (u128::from(bits) * u128::from(time.0) / 8_000_000_000).max(2 * u128::from(self.full_frame)) as u64,
            };
            self.limit_bytes = if self.limit_bytes == u64::MAX { bytes } else { bytes.max(self.limit_bytes) };
        }
    }
}
