//! Deficit round robin of the flows that have used up a quantum: whose turn it is, and what each turn gives.
//!
//! A flow whose host has many bulk flows gets few bytes per turn, so that a packet takes as many turns as there are flows: a turn
//! must cost next to nothing. So the flows of Linux's list `old_flows` stand in arrays that are a circle, where only the place
//! whose turn it is moves, and turns are given to several at a time. What a turn gives is Linux's: the same sum, with 16 random
//! bits of its own for every turn.

use super::chances::{least_below, Chances, BLOCK};
use super::walk::{Circle, Vectors, BEYOND};
use crate::rng::Rng;
use wide::{i16x8, CmpEq, CmpGt, CmpLt};

/// Places in a block.
const PLACES: i16x8 = i16x8::new([0, 1, 2, 3, 4, 5, 6, 7]);
/// Deficit of a vacant place, which never sends. It gains nothing and has slot 0.
const VACANT: i16 = i16::MIN;
/// No chance is more than this: whoever has it gains no byte beyond the whole ones.
const NEVER: i16 = i16::MAX;

/// Whole bytes of a gain in units of 2^-16, rounded by chance.
#[inline]
pub fn round_gain(gain: u32, rng: &mut Rng) -> i32 {
    ((gain + (rng.next_u32() >> 16)) >> 16) as i32
}

/// A deficit as it is kept. No frame is longer than 9014 B, which take at most 193 cells of ATM, 10229 B.
#[inline]
fn pack_deficit(deficit: i32) -> i16 {
    debug_assert!(deficit.abs() <= i32::from(i16::MAX));
    deficit.clamp(i32::from(VACANT) + 1, i32::from(i16::MAX)) as i16
}

/// Bytes that turns give to slots.
pub trait TurnGains {
    /// Returns what a turn gives to `slot`, in units of 2^-16 bytes: not 0, and less than 2^31.
    fn turn_gain(&mut self, slot: u16) -> u32;
    /// Whether all slots gain the same.
    fn are_equal(&self) -> bool;
}

/// Flows in a circle, by slot (not 0), with what they may send.
#[derive(Clone, Debug)]
pub struct TurnRing {
    // The places, and behind them [`BEYOND`] that stay vacant.
    slots: Vec<u16>,
    deficits: Vec<i16>,
    /// Whole bytes that a turn gives.
    wholes: Vec<i16>,
    /// A chance above this gives one byte more.
    limits: Vec<i16>,
    /// Number of places.
    places: usize,
    /// Number of flows in them.
    flows: usize,
    /// Whose turn it is; what stands just before is the end of the queue.
    head: usize,
    /// How many places from `head` on may have a gain that is out of date.
    stale: usize,
    chances: Chances,
    /// Vectors with which turns are given.
    vectors: Vectors,
}

/// A block of `values`, which are as many as it takes.
#[inline(always)]
fn vector(values: &[i16]) -> i16x8 {
    i16x8::new(values.try_into().expect("a block"))
}

/// Returns the bytes that turns with these chances give.
#[inline(always)]
fn draw_gains(wholes: i16x8, limits: i16x8, chances: i16x8) -> i16x8 {
    // who is above the limit has -1 in the comparison
    wholes - chances.cmp_gt(limits)
}

/// Gives turns to the places of a block up to the first one that may send. Returns how many it gave.
#[inline(always)]
fn give_block(deficits: &mut [i16], wholes: &[i16], limits: &[i16], chances: [i16; BLOCK]) -> usize {
    let before = vector(deficits);
    let mut gained = draw_gains(vector(wholes), vector(limits), i16x8::new(chances));
    let may_send = before.cmp_gt(i16x8::ZERO).move_mask();
    let mut turns = BLOCK;
    if may_send != 0 {
        turns = may_send.trailing_zeros() as usize;
        gained &= PLACES.cmp_lt(i16x8::splat(turns as i16));
    }
    deficits.copy_from_slice(&(before + gained).to_array());
    turns
}

impl TurnRing {
    /// Nobody is waiting.
    pub fn new(rng: &mut Rng) -> TurnRing {
        let chances = Chances::new(rng);
        let mut turns = TurnRing {
            slots: Vec::new(),
            deficits: Vec::new(),
            wholes: Vec::new(),
            limits: Vec::new(),
            places: 0,
            flows: 0,
            head: 0,
            stale: 0,
            chances,
            vectors: Vectors::widest(),
        };
        turns.resize(BEYOND);
        turns
    }

    /// Whether no flow is waiting for a turn.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.flows == 0
    }

    /// Appends a flow that may send `deficit` bytes.
    pub fn push(&mut self, slot: u16, deficit: i32, gain: u32) {
        // The slots between the new flow's place, just before the head, and the nearest vacant place make room.
        let vacant = |there: &u16| *there == 0;
        let place = if let Some(from) = self.slots[..self.head].iter().rposition(vacant) {
            self.shift(from + 1..self.head, from);
            self.head - 1
        } else if let Some(to) = self.slots[self.head..self.places].iter().position(vacant) {
            let head = self.head;
            self.shift(head..head + to, head + 1);
            self.head += 1;
            head
        } else {
            self.rearrange();
            self.head - 1
        };
        self.slots[place] = slot;
        self.deficits[place] = pack_deficit(deficit);
        self.set_gain(place, gain);
        self.flows += 1;
    }

    /// Takes the first flow out: the one that [`TurnRing::next`] returned. Returns the bytes that it may still send.
    #[inline]
    pub fn pop(&mut self) -> i32 {
        let deficit = self.deficits[self.head];
        self.vacate(self.head..self.head + 1);
        self.flows -= 1;
        self.head += 1;
        if 3 * self.flows < self.places && self.places > BLOCK {
            self.rearrange();
        }
        deficit.into()
    }

    /// The first flow, which [`TurnRing::next`] returned, has sent `bytes`.
    #[inline]
    pub fn charge(&mut self, bytes: i32) {
        self.deficits[self.head] = pack_deficit(i32::from(self.deficits[self.head]) - bytes);
    }

    /// Gains must be asked for again.
    #[inline]
    pub fn forget_gains(&mut self) {
        // once round, and what a last block may have given beyond the last place
        self.stale = self.places + BLOCK;
    }

    /// Gives turns until the first flow may send; returns it, and calls `soon` with it as early as it is known. There must be one.
    #[inline(always)]
    pub fn next<G: TurnGains>(&mut self, gains: impl FnOnce() -> G, soon: impl FnMut(u16)) -> u16 {
        if self.deficits[self.head] <= 0 {
            match self.flows {
                1 => self.give_to_one(gains()),
                _ => self.give(gains(), soon),
            }
        }
        self.slots[self.head]
    }

    /// Gives turns until the first of several flows may send.
    #[inline(never)]
    fn give(&mut self, mut gains: impl TurnGains, mut soon: impl FnMut(u16)) {
        if self.stale > 0 && gains.are_equal() {
            let of = self.slots.iter().copied().find(|&slot| slot != 0);
            self.set_all_gains(gains.turn_gain(of.expect("there are several flows")));
        }
        if self.stale > 0 && self.give_stale(&mut gains) {
            return;
        }
        let TurnRing { slots, deficits, wholes, limits, places, chances, .. } = self;
        let circle = Circle { deficits, wholes, limits, places: *places };
        self.head = self.vectors.walk(circle, self.head, chances, |place| soon(slots[place]));
    }

    /// Gives turns until the first flow may send or no gain is out of date. Returns whether one may send.
    #[inline(never)]
    fn give_stale(&mut self, gains: &mut impl TurnGains) -> bool {
        while self.stale > 0 {
            if self.head >= self.places {
                self.head = 0;
            }
            let block = self.head..self.head + BLOCK;
            for place in block.clone().take(self.stale) {
                let slot = self.slots[place];
                if slot != 0 {
                    self.set_gain(place, gains.turn_gain(slot));
                }
            }
            let chances = self.chances.step();
            let (wholes, limits) = (&self.wholes[block.clone()], &self.limits[block.clone()]);
            let turns = give_block(&mut self.deficits[block], wholes, limits, chances);
            self.head += turns;
            self.stale = self.stale.saturating_sub(turns);
            if turns < BLOCK {
                return true;
            }
        }
        false
    }

    /// Gives turns to the only flow until it may send.
    #[inline(never)]
    fn give_to_one(&mut self, mut gains: impl TurnGains) {
        if self.slots[self.head] == 0 {
            self.head = self.slots.iter().position(|&slot| slot != 0).unwrap_or(0);
        }
        if self.stale > 0 {
            // there is no other
            self.set_gain(self.head, gains.turn_gain(self.slots[self.head]));
            self.stale = 0;
        }
        let [whole, limit] = [self.wholes[self.head], self.limits[self.head]];
        let deficit = &mut self.deficits[self.head];
        while *deficit <= 0 {
            for chance in self.chances.step() {
                *deficit += whole + i16::from(chance > limit);
                if *deficit > 0 {
                    return;
                }
            }
        }
    }

    /// A turn gives `gain` to every flow.
    #[inline(never)]
    fn set_all_gains(&mut self, gain: u32) {
        let (whole, limit) = (i16x8::splat((gain >> 16) as i16), i16x8::splat(least_below(gain)));
        let gains = self.wholes.chunks_exact_mut(BLOCK).zip(self.limits.chunks_exact_mut(BLOCK));
        for (slots, (wholes, limits)) in self.slots.chunks_exact(BLOCK).zip(gains) {
            let slots: &[i16] = bytemuck::cast_slice(slots);
            let vacant = vector(slots).cmp_eq(i16x8::ZERO);
            wholes.copy_from_slice(&vacant.blend(i16x8::ZERO, whole).to_array());
            limits.copy_from_slice(&vacant.blend(i16x8::splat(NEVER), limit).to_array());
        }
        self.stale = 0;
    }

    /// A turn gives `gain` to the flow at `place`.
    #[inline]
    fn set_gain(&mut self, place: usize, gain: u32) {
        self.wholes[place] = (gain >> 16) as i16;
        self.limits[place] = least_below(gain);
    }

    /// Moves `from` so that it begins at `to`.
    #[inline]
    fn shift(&mut self, from: std::ops::Range<usize>, to: usize) {
        self.slots.copy_within(from.clone(), to);
        for values in [&mut self.deficits, &mut self.wholes, &mut self.limits] {
            values.copy_within(from.clone(), to);
        }
    }

    /// Nobody is at `places`.
    #[inline]
    fn vacate(&mut self, places: std::ops::Range<usize>) {
        self.slots[places.clone()].fill(0);
        self.deficits[places.clone()].fill(VACANT);
        self.wholes[places.clone()].fill(0);
        self.limits[places].fill(NEVER);
    }

    /// There are `size` places, with those behind the circle.
    fn resize(&mut self, size: usize) {
        self.slots.resize(size, 0);
        self.deficits.resize(size, VACANT);
        self.wholes.resize(size, 0);
        self.limits.resize(size, NEVER);
    }

    /// Makes the circle as large as its flows need, with at least one vacant place just before the head.
    #[cold]
    #[inline(never)]
    fn rearrange(&mut self) {
        let from = self.head.min(self.places);
        self.slots[..self.places].rotate_left(from);
        for values in [&mut self.deficits, &mut self.wholes, &mut self.limits] {
            values[..self.places].rotate_left(from);
        }
        let mut flows = 0;
        for place in 0..self.places {
            if self.slots[place] != 0 {
                self.shift(place..place + 1, flows);
                flows += 1;
            }
        }
        // an eighth of the places is vacant
        self.places = (flows + flows / 8 + 1).next_multiple_of(BLOCK);
        self.head = self.places - flows;
        self.resize(self.places + BEYOND);
        self.shift(0..flows, self.head);
        self.vacate(0..self.head);
        self.vacate(self.places..self.places + BEYOND);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn rng() -> Rng {
        Rng::stream(1, "test", 0)
    }

    /// Gains from a function; `.1`: whether they are all the same.
    struct Say<F>(F, bool);

    impl<F: Fn(u16) -> u32> TurnGains for Say<F> {
        fn turn_gain(&mut self, slot: u16) -> u32 {
            self.0(slot)
        }
        fn are_equal(&self) -> bool {
            self.1
        }
    }

    /// Deficits and head after turns have been given one by one, each with the bits that are its own.
    fn one_by_one(turns: &TurnRing, draw: &mut impl FnMut() -> [u32; BLOCK], gain: impl Fn(u16) -> u32) -> (Vec<i16>, usize) {
        let (mut deficits, mut head) = (turns.deficits.clone(), turns.head);
        let turn = |deficit: &mut i16, slot: u16, bits: u32| *deficit += ((gain(slot) + bits) >> 16) as i16;
        if turns.flows == 1 && deficits[head] <= 0 {
            head = turns.slots.iter().position(|&slot| slot != 0).unwrap();
            while deficits[head] <= 0 {
                for bits in draw() {
                    if deficits[head] <= 0 {
                        turn(&mut deficits[head], turns.slots[head], bits);
                    }
                }
            }
            return (deficits, head);
        }
        let mut may_send = deficits[head] > 0;
        while !may_send {
            head = if head >= turns.places { 0 } else { head };
            for bits in draw() {
                may_send |= deficits[head] > 0;
                if !may_send {
                    if turns.slots[head] != 0 {
                        turn(&mut deficits[head], turns.slots[head], bits);
                    }
                    head += 1;
                }
            }
        }
        (deficits, head)
    }

    #[test]
    fn turns_given_many_at_a_time_are_those_given_one_by_one() {
        // with all vectors that this processor has
        Vectors::list_available().into_iter().for_each(turns_are_those_given_one_by_one);
    }

    fn turns_are_those_given_one_by_one(vectors: Vectors) {
        let mut seeds = rng();
        let mut four: [u32; 4] = std::array::from_fn(|_| seeds.next_u32() | 1);
        let mut draw = || {
            for state in &mut four {
                *state ^= *state << 13;
                *state ^= *state >> 17;
                *state ^= *state << 5;
            }
            std::array::from_fn(|turn| if turn < 4 { four[turn] >> 16 } else { four[turn - 4] & 0xffff })
        };
        let mut random = Rng::stream(9, "test", 0);
        let mut turns = TurnRing { vectors, ..TurnRing::new(&mut rng()) };
        let mut coming = VecDeque::from_iter(1..800_u16);
        let (mut gains, mut equal, mut sent, mut told) = (vec![1 << 16; 800], true, [0, 0], 0);
        for step in 0..20_000_u64 {
            // many flows, few, one, many
            let wanted = [799, 20, 1, 400][step as usize / 5000];
            let most = if step % 1000 < 500 { 3 << 16 } else { 1500 << 16 };
            match random.draw_below(30) {
                0 | 1 if turns.flows < wanted => {
                    if let Some(slot) = coming.pop_front() {
                        turns.push(slot, random.draw_below(2000) as i32 - 1500, gains[slot as usize]);
                    }
                }
                2 if random.draw_below(4) == 0 => {
                    equal = random.draw_below(2) == 0;
                    let same = 1 + random.draw_below(most) as u32;
                    gains.iter_mut().for_each(|gain| *gain = if equal { same } else { 1 + random.draw_below(most) as u32 });
                    turns.forget_gains();
                }
                _ if turns.flows > 0 => {
                    let before = turns.clone();
                    let gain = |slot: u16| gains[slot as usize];
                    let mut soon = None;
                    let slot = turns.next(|| Say(gain, equal), |slot| soon = Some(slot));
                    assert!(soon.is_none_or(|soon| soon == slot), "{step}");
                    told += usize::from(soon.is_some());
                    let (deficits, head) = one_by_one(&before, &mut draw, gain);
                    assert_eq!((turns.head, turns.slots[head]), (head, slot), "{step}");
                    assert_eq!(turns.deficits, deficits, "{step}");
                    sent[usize::from(equal)] += 1;
                    if random.draw_below(40) == 0 || turns.flows > wanted {
                        turns.pop();
                        coming.push_back(slot);
                    } else {
                        turns.charge(1 + random.draw_below(1514) as i32);
                    }
                }
                _ => {}
            }
        }
        assert!(sent[0] > 4000 && sent[1] > 4000 && told > 4000, "{sent:?} {told}");
    }

    #[test]
    fn turns_are_those_of_a_list_that_is_gone_through_one_by_one() {
        // Gains of whole bytes leave nothing to chance: order and deficits must be those of the plain algorithm, while flows
        // come, go and send, and while gains change.
        let mut random = Rng::stream(5, "test", 0);
        let (mut turns, mut list) = (TurnRing::new(&mut rng()), VecDeque::new());
        let (mut gains, mut coming, mut sent) = (vec![0_u32; 300], VecDeque::from_iter(1..300_u16), 0);
        gains.iter_mut().for_each(|gain| *gain = 1 + random.draw_below(40) as u32);
        for step in 0..30_000 {
            // up to 299 flows at first, then few
            let wanted = if step < 20_000 { 299 } else { 20 };
            match random.draw_below(20) {
                0 if list.len() < wanted => {
                    if let Some(slot) = coming.pop_front() {
                        let deficit = random.draw_below(2000) as i32 - 1500;
                        turns.push(slot, deficit, gains[slot as usize] << 16);
                        list.push_back((slot, deficit));
                    }
                }
                1 => {
                    gains.iter_mut().for_each(|gain| *gain = 1 + random.draw_below(40) as u32);
                    turns.forget_gains();
                }
                _ if !list.is_empty() => {
                    while list[0].1 <= 0 {
                        let (slot, deficit) = list.pop_front().unwrap();
                        list.push_back((slot, deficit + gains[slot as usize] as i32));
                    }
                    assert_eq!(turns.next(|| Say(|slot| gains[slot as usize] << 16, false), |_| {}), list[0].0);
                    if random.draw_below(50) == 0 || list.len() > wanted {
                        let (slot, deficit) = list.pop_front().unwrap();
                        assert_eq!(turns.pop(), deficit);
                        coming.push_back(slot);
                    } else {
                        let bytes = 1 + random.draw_below(1514) as i32;
                        turns.charge(bytes);
                        list[0].1 -= bytes;
                        sent += 1;
                    }
                }
                _ => {}
            }
            assert_eq!(turns.is_empty(), list.is_empty());
        }
        assert!(sent > 20_000);
    }

    #[test]
    fn parts_of_a_byte_are_given_by_chance_to_each_turn_on_its_own() {
        // 10 flows get 15.1 bytes per turn, 0.1 being 6554 / 65536 = 0.100006: after 1000 turns from -30000 on, each has
        // 15000 + X, X binomial with mean 100.006 and variance 100.006 * 0.899994 = 90.0.
        let mut random = rng();
        let mut extra = Vec::new();
        for _ in 0..400 {
            let mut turns = TurnRing::new(&mut random);
            (1..=10).for_each(|slot| turns.push(slot, -30_000, (15 << 16) + 6554));
            // two blocks have room for the ten, and for six that are vacant
            assert_eq!(turns.places, 2 * BLOCK);
            for _ in 0..1000 {
                for block in [0..BLOCK, BLOCK..2 * BLOCK] {
                    let (wholes, limits) = (&turns.wholes[block.clone()], &turns.limits[block.clone()]);
                    assert_eq!(give_block(&mut turns.deficits[block], wholes, limits, turns.chances.step()), BLOCK);
                }
            }
            let present = turns.slots.iter().zip(&turns.deficits).filter(|(&slot, _)| slot != 0);
            extra.extend(present.map(|(_, deficit)| f64::from(i32::from(*deficit) + 30_000 - 15_000)));
        }
        let n = extra.len() as f64;
        assert_eq!(n, 4000.0);
        let mean = extra.iter().sum::<f64>() / n;
        let variance = extra.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        // standard errors: sqrt(90 / 4000) = 0.15 and 90 sqrt(2 / 4000) = 2.0
        assert!((mean - 100.006).abs() < 0.6 && (variance - 90.0).abs() < 8.0, "{mean} {variance}");
        // flows of one story do not depend on each other: the sums of 10 have 10 times the variance, +- 900 sqrt(2 / 400) = 64
        let sums: Vec<f64> = extra.chunks(10).map(|ten| ten.iter().sum::<f64>() - 10.0 * mean).collect();
        let of_sums = sums.iter().map(|x| x * x).sum::<f64>() / sums.len() as f64;
        assert!((of_sums - 900.0).abs() < 260.0, "{of_sums}");
    }

    #[test]
    fn one_flow_gets_turn_after_turn() {
        let mut turns = TurnRing::new(&mut rng());
        turns.push(7, -1000, 300 << 16);
        assert_eq!(turns.next(|| Say(|_| 1 << 16, true), |_| {}), 7);
        // -1000 + 4 * 300
        assert_eq!(turns.pop(), 200);
        assert!(turns.is_empty());
    }

    #[test]
    fn a_gain_below_a_byte_is_enough() {
        let mut turns = TurnRing::new(&mut rng());
        turns.push(1, 0, 1);
        turns.push(2, -1, 0x8000);
        assert_eq!(turns.next(|| Say(|_| 1, false), |_| {}), 2);
    }
}
