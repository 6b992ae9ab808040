//! 5G slots and HARQ: packets leave at the end of their slot, and those of a block that was not decoded wait for its retransmissions.
//!
//! Time is divided into slots. The packets of a slot are one transport block. A block that is not decoded is sent again one round trip of HARQ
//! later, until it is decoded or the retransmissions are used up; then its packets are lost. Packets stay in order: those of later blocks, which
//! were decoded meanwhile, wait for it, as the reordering of RLC and PDCP lets them.
//!
//! Put it behind a link (`behind`) whose rate is that of the cell for this user. Deviations: retransmissions take no capacity from later blocks, so that the
//! rate is the net rate; each transmission fails with the same probability, though receivers combine them; no slot is reserved for the other direction
//! (TDD), and uplinks need no grant (stage `batch`, or the link `docsis`, model grants); RLC does not retransmit.

use super::{Downstream, PathItem, Stage};
use crate::log::DropReason;
use crate::rng::Rng;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// Name in experiment files.
pub const NAME: &str = "harq";
/// One line.
pub const TITLE: &str = "slots of 5G, and retransmissions of blocks that were not decoded";
/// Specification and deviations.
pub const SOURCE: &str = "3GPP TS 38.211 (slots), TS 38.321 (HARQ processes), TS 38.323 (order); retransmissions take no capacity; not compared with a measurement";

crate::params! {
    /// Parameters of slots and HARQ.
    pub struct Params {
        /// Length of a slot.
        slot: Duration = Duration::from_micros(500), unit "", range Duration::from_micros(10), Duration::from_secs(1), source "3GPP TS 38.211 section 4.3: 14 symbols, 0.5 ms at a subcarrier spacing of 30 kHz";
        /// Time from a transmission of a block to its retransmission.
        round_trip: Duration = Duration::from_millis(4), unit "", range Duration::from_micros(10), Duration::from_secs(10), source "ranbits.com, module 8.4: a turnaround of 4 to 8 ms";
        /// Probability that a transmission is not decoded.
        error_rate: f64 = 0.1, unit "probability", range 0.0, 1.0, source "3GPP TS 38.214 section 5.2.2.1: the reported quality is that of an error probability of 0.1";
        /// Most retransmissions of a block.
        retries: u32 = 4, unit "transmissions", range 0_u32, 100_u32, source "ranbits.com, module 8.4: after 4 retransmissions RLC has to repeat";
    }
}

/// Delays packets.
#[derive(Clone, Debug)]
pub struct State<T> {
    params: Params,
    /// Begin of the first whole slot.
    phase: Instant,
    /// Number of the slot of the last packet, and when its block is decoded; `None` if it never is.
    block: Option<(u64, Option<Instant>)>,
    /// Items and when they go on.
    held: VecDeque<(Instant, T)>,
}

impl<T> State<T> {
    /// With `params`; the phase is drawn from `rng`.
    pub fn new(params: Params, rng: &mut Rng) -> State<T> {
        let phase = Instant(rng.draw_below(params.slot.0));
        State { params, phase, block: None, held: VecDeque::new() }
    }

    /// Number of the slot at `now`, which is 0 before the first whole one, and its end.
    fn slot_at(&self, now: Instant) -> (u64, Instant) {
        let number = now.0.checked_sub(self.phase.0).map_or(0, |since| since / self.params.slot.0 + 1);
        (number, self.phase + self.params.slot * number)
    }

    /// Draws when the block that is sent until `end` is decoded.
    fn draw(&self, end: Instant, rng: &mut Rng) -> Option<Instant> {
        let decoded = (0..=self.params.retries).find(|_| rng.next_f64() >= self.params.error_rate)?;
        Some(end.saturating_add(self.params.round_trip * u64::from(decoded)))
    }
}

impl<T: PathItem> Stage<T> for State<T> {
    fn push(&mut self, item: T, now: Instant, way: &mut Downstream<T>) {
        let (number, end) = self.slot_at(now);
        let decoded = match self.block {
            Some((last, decoded)) if last == number => decoded,
            _ => self.draw(end, way.rng),
        };
        self.block = Some((number, decoded));
        match decoded {
            None => way.drop(item, DropReason::Loss, now),
            Some(at) => {
                let last = self.held.back().map_or(Instant::ZERO, |held| held.0);
                self.held.push_back((at.max(last), item));
            }
        }
    }

    fn next_timer(&self) -> Instant {
        self.held.front().map_or(Instant::NEVER, |held| held.0)
    }

    fn on_timer(&mut self, now: Instant, way: &mut Downstream<T>) {
        while self.held.front().is_some_and(|held| held.0 <= now) {
            if let Some((_, item)) = self.held.pop_front() {
                way.pass(item, now);
            }
        }
    }

    fn count_items(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drive, path};
    use super::super::AnyStage;
    use super::*;

    fn stage<T>(params: Params, phase: u64) -> State<T> {
        State { params, phase: Instant::from_micros(phase), block: None, held: VecDeque::new() }
    }

    #[test]
    fn packets_leave_at_the_end_of_their_slot() {
        let params = Params { error_rate: 0.0, ..Params::default() };
        // slots end at 200, 700, 1200 us; a packet at the end of a slot is in the next one
        let times = [0, 199, 200, 300, 699, 1_100].map(Instant::from_micros);
        let seen = drive(&mut path(AnyStage::Harq(stage(params, 200))), times);
        let left: Vec<u64> = seen.arrived.iter().map(|one| one.0 .0 / 1000).collect();
        assert_eq!(left, [200, 200, 700, 700, 700, 1_200]);
    }

    #[test]
    fn blocks_fail_and_come_again_as_often_as_the_error_rate_says() {
        let params = Params { error_rate: 0.25, retries: 2, ..Params::default() };
        // one packet in each slot, 20 ms apart, so that none waits for another
        let sent = |number: u64| Instant::from_micros(100 + 20_000 * number);
        let seen = drive(&mut path(AnyStage::Harq(stage(params, 0))), (0..40_000).map(sent));
        let mut waits = [0.0; 3];
        for &(time, number) in &seen.arrived {
            // 0.4 ms to the end of the slot, and 4 ms for each retransmission
            let extra = (time - sent(number)).0 - 400_000;
            assert_eq!(extra % 4_000_000, 0);
            waits[(extra / 4_000_000) as usize] += 1.0 / 40_000.0;
        }
        // 0.75, 0.1875, 0.0469; deviation of the first sqrt(0.75 * 0.25 / 40000) = 0.0022
        for (found, expected) in waits.into_iter().zip([0.75_f64, 0.187_5, 0.046_875]) {
            assert!((found - expected).abs() < 0.009, "{waits:?}");
        }
        // 0.25^3 are lost
        assert!((1.0 - seen.arrived.len() as f64 / 40_000.0 - 0.015_625).abs() < 0.003);
    }

    #[test]
    fn later_blocks_wait_for_one_that_was_not_decoded() {
        let params = Params { error_rate: 0.5, retries: 100, ..Params::default() };
        let seen =
            drive(&mut path(AnyStage::Harq(stage(params, 0))), (0..20_000).map(|number| Instant::from_micros(100 * number)));
        assert!(seen.arrived.iter().map(|one| one.1).eq(0..20_000));
        assert!(seen.arrived.windows(2).all(|two| two[0].0 <= two[1].0));
        // packets of one slot leave together
        let ends = |first: usize| seen.arrived[first..first + 5].iter().map(|one| one.0).collect::<Vec<_>>();
        assert!((0..4_000).all(|slot| ends(5 * slot).iter().all(|time| *time == seen.arrived[5 * slot].0)));
    }

    #[test]
    fn without_a_chance_all_is_lost() {
        let params = Params { error_rate: 1.0, ..Params::default() };
        let seen = drive(&mut path(AnyStage::Harq(stage(params, 0))), (0..10).map(Instant::from_millis));
        assert!(seen.arrived.is_empty());
    }
}
