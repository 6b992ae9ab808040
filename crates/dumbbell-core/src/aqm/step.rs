//! A step in time: marks every packet that has been queued for longer than a threshold.
//!
//! Specification: the `ce_threshold` of Linux's CoDel by itself (`include/net/codel_impl.h` of 6.18: at dequeue, strictly longer), in
//! nanoseconds. Since nothing controls those that cannot be marked, they may be dropped instead (`not_ect`). A step in bytes, on the
//! arriving packet, is `red` with equal thresholds.

use super::fifo::Fifo;
use super::{Aqm, Dequeue, QueueContext, Verdict};
use crate::hint::seldom;
use crate::log::{At, DropReason, DropSite, Log, MarkReason};
use crate::packet::{Ecn, Packet};
use crate::param::ParamError;
use crate::units::{Duration, Instant};

/// Name in experiment files.
pub const NAME: &str = "step";
/// One line.
pub const TITLE: &str = "step in time: marks what was queued for longer than a threshold";
/// Specification and deviations.
pub const SOURCE: &str = "ce_threshold of Linux 6.18 codel_impl.h, alone, in ns; may drop what is not ECN-capable";

crate::choice! {
    /// Treatment of packets above the threshold that are not ECN-capable.
    pub enum NotEct {
        /// They are sent.
        Pass = "pass",
        /// They are dropped.
        Drop = "drop",
    }
}

crate::params! {
    /// Parameters of the step.
    pub struct Params {
        /// Packets that fit; tail drop beyond.
        limit: u32 = 1000, unit "packets", range 0_u32, 100_000_000_u32, source "DEFAULT_CODEL_LIMIT, sch_codel.c";
        /// Packets that were queued for longer are marked.
        threshold: Duration = Duration::from_millis(1), unit "", range Duration(0), Duration::from_secs(100), source "RFC 9332 appendix A: 1 ms";
        /// Treatment of packets that are not ECN-capable.
        not_ect: NotEct = NotEct::Pass, unit "", source "codel_impl.h: ce_threshold passes them";
    }
}

/// A queue with its parameters.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    fifo: Fifo,
}

impl State {
    /// An empty queue.
    pub fn new(params: Params, _context: &QueueContext) -> State {
        State { params, fifo: Fifo::default() }
    }

    /// Whether `packet` is dropped above the threshold.
    #[inline]
    fn drops(&self, packet: &Packet) -> bool {
        self.params.not_ect != NotEct::Pass && packet.ecn() == Ecn::NotEct
    }
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn changeable(&self) -> &'static [&'static str] {
        &["limit", "threshold", "not_ect"]
    }

    fn take_params(&mut self, fresh: State, _now: Instant) -> Result<(), ParamError> {
        self.params = fresh.params;
        Ok(())
    }

    #[inline(always)]
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        let fits = self.fifo.has_place(self.params.limit as usize, now);
        self.fifo.accept_if(fits, packet, now, log);
    }

    #[inline(always)]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        let at = At::time(now);
        while let Some(mut packet) = self.fifo.pop() {
            let above = now - packet.enqueue_time > self.params.threshold;
            if above {
                seldom();
                if !log.set_ce(&mut packet, MarkReason::Step, at) && self.params.not_ect != NotEct::Pass {
                    log.on_drop(&packet, DropReason::Aqm, DropSite::Queue, at);
                    continue;
                }
            }
            log.on_dequeue(&packet, at);
            return Dequeue::Packet(packet);
        }
        Dequeue::Empty
    }

    fn bypass_max_len(&self) -> u16 {
        if self.params.limit > 0 {
            u16::MAX
        } else {
            0
        }
    }

    look_at_fifo!(hint);
    foresee_fifo!();

    #[inline(always)]
    fn pass<L: Log>(&mut self, packet: &mut Packet, now: Instant, start: Instant, log: &mut L) -> Verdict {
        let fits = self.fifo.has_place(self.params.limit as usize, now);
        if fits && start - now > self.params.threshold {
            seldom();
            if self.drops(packet) {
                return Verdict::Unknown;
            }
            log.set_ce(packet, MarkReason::Step, At::time(start));
        }
        self.fifo.pass_if(fits, packet, now, start, log)
    }

    #[inline(always)]
    fn dequeue_foreseen<L: Log>(&mut self, at: Instant, log: &mut L) -> Option<Dequeue> {
        let is_sent = |head: &Packet| at - head.enqueue_time <= self.params.threshold || !self.drops(head);
        if self.fifo.head().is_some_and(is_sent) {
            Some(self.dequeue(at, log))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{context, packet};
    use super::*;
    use crate::packet::Ecn;
    use crate::record::Counters;

    /// Marks and drops of one packet of `ecn` that leaves after `ns`.
    fn verdict(not_ect: NotEct, ecn: Ecn, ns: u64) -> (u64, u64) {
        let mut state = State::new(Params { not_ect, ..Params::default() }, &context(10));
        let mut log = Counters::default();
        state.enqueue(packet(0, ecn), Instant::ZERO, &mut log);
        let _ = state.dequeue(Instant(ns), &mut log);
        assert_eq!(state.packets(), 0);
        (log.queue.ce_marks, log.queue.drops_aqm)
    }

    #[test]
    fn marks_strictly_above_the_threshold() {
        assert_eq!(verdict(NotEct::Pass, Ecn::Ect0, 1_000_000), (0, 0));
        assert_eq!(verdict(NotEct::Pass, Ecn::Ect0, 1_000_001), (1, 0));
        assert_eq!(verdict(NotEct::Pass, Ecn::Ect1, 1_000_001), (1, 0));
    }

    #[test]
    fn what_is_not_capable_passes_or_is_dropped() {
        assert_eq!(verdict(NotEct::Pass, Ecn::NotEct, 2_000_000), (0, 0));
        assert_eq!(verdict(NotEct::Drop, Ecn::NotEct, 2_000_000), (0, 1));
        assert_eq!(verdict(NotEct::Drop, Ecn::NotEct, 1_000_000), (0, 0));
    }
}
