//! The coupled AQM: from p' to marks and drops.
//!
//! C is dropped or marked with p'^2, L is marked with k * p'. Beyond `l_drop` there is overload, and L is dropped as C is.

use super::controller::{Controller, MAX_PROB};
use super::versions::{Law, Marking, Mask, Overload, Setup};
use crate::log::{At, Log, MarkReason};
use crate::packet::Packet;
use crate::rng::Rng;
use crate::units::Duration;

/// Decision of the coupled AQM on a packet, which goes on unless `dropped`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoupledVerdict {
    /// Whether the packet is to be dropped.
    pub dropped: bool,
    /// Whether the packet was marked.
    pub marked: bool,
}

impl CoupledVerdict {
    const PASS: CoupledVerdict = CoupledVerdict { dropped: false, marked: false };
    const DROP: CoupledVerdict = CoupledVerdict { dropped: true, marked: false };

    fn mark(marked: bool) -> CoupledVerdict {
        CoupledVerdict { dropped: false, marked }
    }
}

/// Sums up probabilities: every time that the sum passes 1 is a hit (RFC 9332 appendix A, `recur`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Recur {
    count: f64,
}

impl Recur {
    /// Whether this packet is hit, of those that are with probability `p`.
    #[inline]
    pub fn hits(&mut self, p: f64) -> bool {
        //= RFC 9332, section A.1
        //# The recur() function at the end of Figure 4 is used, which is preferred over random marking because it avoids delay due to
        //# randomization when interpreting congestion signals, but it still desynchronizes the sawteeth of the flows.
        self.count += p.min(1.0);
        let hit = self.count > 1.0;
        if hit {
            self.count -= 1.0;
        }
        hit
    }
}

/// One source of decisions: chance, or a sum.
#[derive(Clone, Debug)]
struct Coin {
    rng: Rng,
    recur: Recur,
}

impl Coin {
    fn new(seed: u64, index: u64) -> Coin {
        Coin { rng: Rng::stream(seed, super::NAME, index), recur: Recur::default() }
    }

    /// Whether one of 2^32 equally likely numbers is below `limit`.
    #[inline]
    fn draw_below(&mut self, limit: u64) -> bool {
        u64::from(self.rng.next_u32()) < limit
    }

    /// Two of them.
    #[inline]
    fn both_below(&mut self, limit: u64) -> bool {
        self.draw_below(limit) && self.draw_below(limit)
    }

    #[inline]
    fn hits(&mut self, marking: Marking, p: f64) -> bool {
        match marking {
            Marking::Recur => self.recur.hits(p),
            Marking::Random => self.rng.next_f64() < p,
        }
    }
}

/// Controller, coins and what follows from the probability until the next update.
#[derive(Clone, Debug)]
pub struct Coupled {
    /// p'.
    pub controller: Controller,
    law: Law,
    marking: Marking,
    scal_mask: Mask,
    mark_mask: Mask,
    drops_in_overload: bool,
    l_drop: u64,
    min_backlog: u64,
    coupling_factor: u32,
    ramp_range: f64,
    /// Coins of classic packets, and of scalable ones: versions can be compared with the same chances.
    classic: Coin,
    scalable: Coin,
    /// Numbers below these are hits: of a coin of C, of one of L.
    below_classic: u64,
    below_scalable: u64,
    overload: bool,
}

impl Coupled {
    /// With a probability of 0.
    pub fn new(setup: &Setup, controller: Controller, seed: u64) -> Coupled {
        let mut coupled = Coupled {
            controller,
            law: setup.law,
            marking: setup.marking,
            scal_mask: setup.scal_mask,
            mark_mask: setup.mark_mask,
            drops_in_overload: setup.overload == Overload::Drop,
            l_drop: setup.l_drop,
            min_backlog: setup.min_backlog,
            coupling_factor: setup.coupling_factor,
            ramp_range: setup.step.range,
            classic: Coin::new(seed, 0),
            scalable: Coin::new(seed, 1),
            below_classic: 0,
            below_scalable: 0,
            overload: false,
        };
        coupled.prepare();
        coupled
    }

    /// Takes the parameters of `fresh`; what was computed stays.
    pub fn take_params(&mut self, fresh: Coupled) {
        let controller = self.controller.with_gains(fresh.controller);
        let Coupled { classic, scalable, overload, .. } = &*self;
        *self = Coupled { controller, classic: classic.clone(), scalable: scalable.clone(), overload: *overload, ..fresh };
        self.prepare();
    }

    /// The delay is `qdelay` at the time of an update.
    pub fn update(&mut self, qdelay: Duration) {
        self.controller.update(qdelay);
        self.prepare();
    }

    /// Computes the values that stay constant until the next update.
    fn prepare(&mut self) {
        let prob = u64::from(self.controller.prob());
        let scalable = prob * u64::from(self.coupling_factor);
        // since July 2019, a number that equals the probability is a hit as well (`dualpi2_roll`)
        let inclusive = u64::from(self.law == Law::Linux);
        self.below_classic = prob + inclusive;
        self.below_scalable = scalable + inclusive;
        self.overload = self.drops_in_overload && scalable > self.l_drop;
    }

    /// Probability of the ramp of RFC 9332, `beyond` its beginning.
    #[inline]
    pub fn ramp(&self, beyond: u64) -> f64 {
        match beyond {
            0 => 0.0,
            //= RFC 9332, section A.1
            //# The ramp rises linearly directly from 0 to 1, not to an intermediate value of p'_L as RED would, because there is no need to
            //# keep ECN-marking probability low.
            _ => (beyond as f64 / self.ramp_range).min(1.0),
        }
    }

    /// Decides on `packet` while `backlog` bytes are queued in addition; `native` is the probability of the ramp of L.
    #[inline]
    pub fn judge<L: Log>(&mut self, packet: &mut Packet, backlog: u64, native: f64, at: At, log: &mut L) -> CoupledVerdict {
        self.judge_by(self.law, packet, backlog, native, at, log)
    }

    /// Judges by a given law: where the caller's law is a constant, the compiler removes the other laws.
    #[inline(always)]
    pub fn judge_by<L: Log>(
        &mut self,
        law: Law,
        packet: &mut Packet,
        backlog: u64,
        native: f64,
        at: At,
        log: &mut L,
    ) -> CoupledVerdict {
        debug_assert_eq!(law, self.law);
        //= RFC 9332, section A.1
        //# Classic and coupled marking or dropping (i.e., based on p_C and p_CL from the PI controller) is not applied to a packet if the
        //# aggregate queue length in bytes is < 2 MTU (prior to enqueuing the packet or dequeuing it, depending on whether the AQM is
        //# configured to be applied at enqueue or dequeue)
        if backlog < self.min_backlog {
            return CoupledVerdict::PASS;
        }
        let scalable = self.scal_mask.has(packet.ecn());
        match law {
            Law::Linux if scalable => self.judge_scalable(packet, at, log),
            Law::TsFifo if scalable && !self.overload => {
                CoupledVerdict::mark(self.scalable.draw_below(self.below_scalable) && log.set_ce(packet, MarkReason::Coupled, at))
            }
            Law::TsFifo if scalable => match self.scalable.both_below(self.below_classic) {
                true => CoupledVerdict::DROP,
                false => CoupledVerdict::PASS,
            },
            Law::Linux | Law::TsFifo => match self.classic.both_below(self.below_classic) {
                true => self.signal_classic(packet, self.overload, at, log),
                false => CoupledVerdict::PASS,
            },
            Law::Rfc9332 => self.judge_rfc(packet, scalable, native, at, log),
        }
    }

    /// `must_drop` of Linux, for L.
    #[inline]
    fn judge_scalable<L: Log>(&mut self, packet: &mut Packet, at: At, log: &mut L) -> CoupledVerdict {
        let marks = match self.overload {
            false => self.scalable.draw_below(self.below_scalable),
            true if self.scalable.both_below(self.below_classic) => return CoupledVerdict::DROP,
            true => true,
        };
        CoupledVerdict::mark(marks && log.set_ce(packet, MarkReason::Coupled, at))
    }

    /// A classic packet is hit.
    fn signal_classic<L: Log>(&self, packet: &mut Packet, drop: bool, at: At, log: &mut L) -> CoupledVerdict {
        match !drop && self.mark_mask.has(packet.ecn()) && log.set_ce(packet, MarkReason::Aqm, at) {
            true => CoupledVerdict::mark(true),
            false => CoupledVerdict::DROP,
        }
    }

    /// RFC 9332 appendix A.
    fn judge_rfc<L: Log>(&mut self, packet: &mut Packet, scalable: bool, native: f64, at: At, log: &mut L) -> CoupledVerdict {
        let p = self.controller.probability();
        let (k, p_classic) = (f64::from(self.coupling_factor), p * p);
        let p_coupled = k * p;
        let p_max = self.l_drop as f64 / f64::from(MAX_PROB);
        //= RFC 9332, section A.2
        //# Above this point, the Classic drop probability is applied to both the L and C queues, irrespective of whether any packet is
        //# ECN-capable.
        let saturated = self.drops_in_overload && p_coupled >= p_max;
        if !scalable {
            if !self.classic.hits(self.marking, p_classic) {
                return CoupledVerdict::PASS;
            }
            return self.signal_classic(packet, saturated, at, log);
        }
        let (p_l, reason) = match saturated {
            //= RFC 9332, section A.1
            //# Line 6 calculates p_L as the maximum of the coupled L4S probability p_CL and the probability from the Native L4S AQM p'_L.
            false if native > p_coupled => (native, MarkReason::Ramp),
            true if self.scalable.hits(self.marking, p_classic) => return CoupledVerdict::DROP,
            _ => (p_coupled, MarkReason::Coupled),
        };
        CoupledVerdict::mark(self.scalable.hits(self.marking, p_l) && log.set_ce(packet, reason, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::dualpi2::Params;
    use crate::aqm::testing::context;
    use serde_json::json;

    #[test]
    fn a_number_that_equals_the_probability_is_a_hit_since_july_2019() {
        let of = |version: &str, prob: u32| {
            let params = Params::from_json(json!({"version": version}).as_object().unwrap()).unwrap();
            let (setup, mut controller, _) = params.setup(&context(10));
            controller.set(prob, Duration::ZERO);
            let coupled = Coupled::new(&setup, controller, 1);
            (coupled.below_classic, coupled.below_scalable, coupled.overload)
        };
        // rand <= p, so that 0 hits once in 2^32 and 2^32 - 1 always; rand < p before
        assert_eq!(of("linux-6.17", 0), (1, 1, false));
        assert_eq!(of("linux-6.17", 1000), (1001, 2001, false));
        assert_eq!(of("tsfifo", 1000), (1000, 2000, false));
        // overload: k p' above 2^32 - 1; before, above 100 times a hundredth of it, cut
        assert_eq!(of("linux-6.17", 0x7fff_ffff), (0x8000_0000, 0xffff_ffff, false));
        assert_eq!(of("linux-6.17", 0x8000_0000), (0x8000_0001, 0x1_0000_0001, true));
        assert!(!of("tsfifo", 2_147_483_600).2);
        assert!(of("tsfifo", 2_147_483_601).2);
    }
}
