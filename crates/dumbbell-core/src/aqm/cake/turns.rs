//! Deficit round robin of the flows that have used up a quantum: whose turn it is, and what each turn gives.
//!
//! A flow whose host has many bulk flows gets few bytes per turn, so that a packet takes as many turns as there are flows: a turn
//! must cost next to nothing. So the flows of Linux's list `old_flows` stand in arrays that are a circle, where only the place
//! whose turn it is moves, and turns are given to several at a time. What a turn gives is Linux's: the same sum, with 16 random
//! bits of its own for every turn.

use crate::rng::Rng;
use bytemuck::cast;
use wide::{i32x4, u32x4, CmpGt, CmpLt};

/// Turns that are given at a time.
const BLOCK: usize = 8;
/// What a processor does at once, half of them.
const HALF: usize = BLOCK / 2;
/// Places in a block.
const PLACES: [i32x4; 2] = [i32x4::new([0, 1, 2, 3]), i32x4::new([4, 5, 6, 7])];
/// What a vacant place may send: never anything. It gains nothing and has slot 0.
const VACANT: i32 = i32::MIN / 2;

/// Whole bytes of a gain in units of 2^-16, rounded by chance.
#[inline]
pub fn rounded(gain: u32, rng: &mut Rng) -> i32 {
    ((gain + (rng.next_u32() >> 16)) >> 16) as i32
}

/// 16 random bits for each turn of a block: the generator (13, 17, 5) of Marsaglia, "Xorshift RNGs" (J. Stat. Softw. 8(14), 2003),
/// once for two turns.
#[derive(Clone, Copy, Debug)]
struct Chances(u32x4);

impl Chances {
    fn new(rng: &mut Rng) -> Chances {
        // a generator is never 0 unless it begins so
        Chances(u32x4::new(std::array::from_fn(|_| rng.next_u32() | 1)))
    }

    /// Makes the bits of the next block: upper halves are for its first four turns, lower halves for the others.
    #[inline(always)]
    fn step(&mut self) -> u32x4 {
        self.0 ^= self.0 << 13_u32;
        self.0 ^= self.0 >> 17_u32;
        self.0 ^= self.0 << 5_u32;
        self.0
    }

    /// Whole bytes of the gains, rounded by chance.
    #[inline(always)]
    fn draw(&mut self, gains: [u32x4; 2]) -> [i32x4; 2] {
        let bits = self.step();
        let chances = [bits >> 16_u32, bits & u32x4::splat(0xffff)];
        std::array::from_fn(|half| cast::<u32x4, i32x4>((gains[half] + chances[half]) >> 16_u32))
    }
}

/// Flows in a circle, by slot (not 0), with what they may send.
#[derive(Clone, Debug)]
pub struct Turns {
    // The places, and behind them a block that stays vacant.
    slots: Vec<u16>,
    deficits: Vec<i32>,
    gains: Vec<u32>,
    /// Number of places.
    places: usize,
    /// Number of flows in them.
    flows: usize,
    /// Whose turn it is; what stands just before is the end of the queue.
    head: usize,
    /// How many places from `head` on may have a gain that is out of date.
    stale: usize,
    chances: Chances,
}

impl Turns {
    /// Nobody is waiting.
    pub fn new(rng: &mut Rng) -> Turns {
        let (slots, deficits, gains) = (vec![0; BLOCK], vec![VACANT; BLOCK], vec![0; BLOCK]);
        Turns { slots, deficits, gains, places: 0, flows: 0, head: 0, stale: 0, chances: Chances::new(rng) }
    }

    /// Whether nobody is waiting for a turn.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.flows == 0
    }

    /// Appends a flow that may send `deficit` bytes.
    pub fn push(&mut self, slot: u16, deficit: i32, gain: u32) {
        // Those between the new flow's place, just before the head, and the nearest vacant place make room.
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
        self.deficits[place] = deficit;
        self.gains[place] = gain;
        self.flows += 1;
    }

    /// Takes the first flow out: the one that [`Turns::next`] returned. Returns the bytes that it may still send.
    #[inline]
    pub fn pop(&mut self) -> i32 {
        let deficit = std::mem::replace(&mut self.deficits[self.head], VACANT);
        self.slots[self.head] = 0;
        self.gains[self.head] = 0;
        self.flows -= 1;
        self.head += 1;
        if 3 * self.flows < self.places && self.places > BLOCK {
            self.rearrange();
        }
        deficit
    }

    /// The first flow, which [`Turns::next`] returned, has sent `bytes`.
    #[inline]
    pub fn charge(&mut self, bytes: i32) {
        self.deficits[self.head] -= bytes;
    }

    /// Gains must be asked for again.
    #[inline]
    pub fn forget_gains(&mut self) {
        // once round, and what a last block may have given beyond the last place
        self.stale = self.places + BLOCK;
    }

    /// Gives turns until the first flow may send; returns it. There must be one.
    ///
    /// `gain` says what a turn gives to a slot, in units of 2^-16 bytes, not 0.
    #[inline]
    pub fn next(&mut self, gain: impl Fn(u16) -> u32) -> u16 {
        if self.deficits[self.head] <= 0 {
            match self.flows {
                1 => self.give_to_one(&gain),
                _ => self.give(&gain),
            }
        }
        self.slots[self.head]
    }

    /// Gives turns until the first of several flows may send.
    #[inline(never)]
    fn give(&mut self, gain: &impl Fn(u16) -> u32) {
        // in registers: blocks are so short that memory would hold them up
        let (mut head, mut chances) = (self.head, self.chances);
        loop {
            if head >= self.places {
                head = 0;
            }
            if self.stale > 0 {
                self.refresh(head, gain);
            }
            let turns = self.give_block(head, &mut chances);
            head += turns;
            if turns < BLOCK {
                if self.stale > 0 {
                    // it was counted down by a block
                    self.stale += BLOCK - turns;
                }
                break;
            }
        }
        (self.head, self.chances) = (head, chances);
    }

    /// Gives turns to the [`BLOCK`] places from `head` on, up to the first one that may send. Returns how many it gave.
    #[inline(always)]
    fn give_block(&mut self, head: usize, chances: &mut Chances) -> usize {
        let block = head..head + BLOCK;
        let deficits: &mut [[i32; HALF]; 2] =
            bytemuck::cast_slice_mut(&mut self.deficits[block.clone()]).try_into().expect("a block");
        let gains: &[[u32; HALF]; 2] = bytemuck::cast_slice(&self.gains[block]).try_into().expect("a block");
        let before = deficits.map(i32x4::new);
        let gained = chances.draw(gains.map(u32x4::new));
        let may_send = before.map(|half| half.cmp_gt(i32x4::ZERO));
        if (may_send[0] | may_send[1]).any() {
            let turns = (may_send[0].move_mask() | may_send[1].move_mask() << HALF).trailing_zeros();
            for half in 0..2 {
                let has_turn = PLACES[half].cmp_lt(i32x4::splat(turns as i32));
                deficits[half] = (before[half] + (gained[half] & has_turn)).to_array();
            }
            turns as usize
        } else {
            for half in 0..2 {
                deficits[half] = (before[half] + gained[half]).to_array();
            }
            BLOCK
        }
    }

    /// Gives turns to the only flow until it may send.
    #[inline(never)]
    fn give_to_one(&mut self, gain: &impl Fn(u16) -> u32) {
        if self.slots[self.head] == 0 {
            self.head = self.slots.iter().position(|&slot| slot != 0).unwrap_or(0);
        }
        if self.stale > 0 {
            // there is no other
            self.gains[self.head] = gain(self.slots[self.head]);
            self.stale = 0;
        }
        let each = self.gains[self.head];
        let deficit = &mut self.deficits[self.head];
        while *deficit <= 0 {
            let bits = self.chances.step().to_array();
            for turn in 0..BLOCK {
                let chance = if turn < HALF { bits[turn] >> 16 } else { bits[turn - HALF] & 0xffff };
                *deficit += ((each + chance) >> 16) as i32;
                if *deficit > 0 {
                    return;
                }
            }
        }
    }

    /// Asks for the gains of the block from `head` on that are out of date.
    #[inline(never)]
    fn refresh(&mut self, head: usize, gain: &impl Fn(u16) -> u32) {
        let block = head..head + BLOCK;
        for (current, &slot) in self.gains[block.clone()].iter_mut().zip(&self.slots[block]).take(self.stale) {
            *current = if slot == 0 { 0 } else { gain(slot) };
        }
        self.stale = self.stale.saturating_sub(BLOCK);
    }

    /// Moves `from` so that it begins at `to`.
    #[inline]
    fn shift(&mut self, from: std::ops::Range<usize>, to: usize) {
        self.slots.copy_within(from.clone(), to);
        self.deficits.copy_within(from.clone(), to);
        self.gains.copy_within(from, to);
    }

    /// Makes the circle as large as its flows need, with at least one vacant place just before the head.
    #[cold]
    #[inline(never)]
    fn rearrange(&mut self) {
        let from = self.head.min(self.places);
        self.slots[..self.places].rotate_left(from);
        self.deficits[..self.places].rotate_left(from);
        self.gains[..self.places].rotate_left(from);
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
        self.slots.resize(self.places + BLOCK, 0);
        self.deficits.resize(self.places + BLOCK, VACANT);
        self.gains.resize(self.places + BLOCK, 0);
        self.shift(0..flows, self.head);
        for vacant in [0..self.head, self.places..self.places + BLOCK] {
            self.slots[vacant.clone()].fill(0);
            self.deficits[vacant.clone()].fill(VACANT);
            self.gains[vacant].fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn rng() -> Rng {
        Rng::stream(1, "test", 0)
    }

    #[test]
    fn turns_are_those_of_a_list_that_is_gone_through_one_by_one() {
        // Gains of whole bytes leave nothing to chance: order and deficits must be those of the plain algorithm, while flows
        // come, go and send, and while gains change.
        let mut random = Rng::stream(5, "test", 0);
        let (mut turns, mut list) = (Turns::new(&mut rng()), VecDeque::new());
        let (mut gains, mut coming, mut sent) = (vec![0_u32; 300], VecDeque::from_iter(1..300_u16), 0);
        gains.iter_mut().for_each(|gain| *gain = 1 + random.below(40) as u32);
        for step in 0..30_000 {
            // up to 299 flows at first, then few
            let wanted = if step < 20_000 { 299 } else { 20 };
            match random.below(20) {
                0 if list.len() < wanted => {
                    if let Some(slot) = coming.pop_front() {
                        let deficit = random.below(2000) as i32 - 1500;
                        turns.push(slot, deficit, gains[slot as usize] << 16);
                        list.push_back((slot, deficit));
                    }
                }
                1 => {
                    gains.iter_mut().for_each(|gain| *gain = 1 + random.below(40) as u32);
                    turns.forget_gains();
                }
                _ if !list.is_empty() => {
                    while list[0].1 <= 0 {
                        let (slot, deficit) = list.pop_front().unwrap();
                        list.push_back((slot, deficit + gains[slot as usize] as i32));
                    }
                    assert_eq!(turns.next(|slot| gains[slot as usize] << 16), list[0].0);
                    if random.below(50) == 0 || list.len() > wanted {
                        let (slot, deficit) = list.pop_front().unwrap();
                        assert_eq!(turns.pop(), deficit);
                        coming.push_back(slot);
                    } else {
                        let bytes = 1 + random.below(1514) as i32;
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
        // 10 flows get 15.1 bytes per turn, 0.1 being 6554 / 65536 = 0.100006: after 1000 turns from -100000 on, each has
        // 15000 + X, X binomial with mean 100.006 and variance 100.006 * 0.899994 = 90.0.
        let mut random = rng();
        let mut extra = Vec::new();
        for _ in 0..400 {
            let mut turns = Turns::new(&mut random);
            (1..=10).for_each(|slot| turns.push(slot, -100_000, (15 << 16) + 6554));
            // two blocks have room for the ten, and for six that are vacant
            assert_eq!(turns.places, 2 * BLOCK);
            let mut chances = turns.chances;
            for _ in 0..1000 {
                assert_eq!([0, BLOCK].map(|head| turns.give_block(head, &mut chances)), [BLOCK; 2]);
            }
            let present = turns.slots.iter().zip(&turns.deficits).filter(|(&slot, _)| slot != 0);
            extra.extend(present.map(|(_, deficit)| f64::from(deficit + 100_000 - 15_000)));
        }
        let n = extra.len() as f64;
        assert_eq!(n, 4000.0);
        let mean = extra.iter().sum::<f64>() / n;
        let variance = extra.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        // standard errors: sqrt(90 / 4000) = 0.15 and 90 sqrt(2 / 4000) = 2.0
        assert!((mean - 100.006).abs() < 0.6 && (variance - 90.0).abs() < 8.0, "{mean} {variance}");
        // flows of one story do not depend on each other: the sums of 10 have 10 times the variance, +- 900 sqrt(2 / 400) = 64
        let sums: Vec<f64> = extra.chunks(10).map(|ten| ten.iter().sum::<f64>() - 10.0 * mean).collect();
        let of_sums = sums.iter().map(|x| x * x).sum::<f64>() / sums.len() as f64;
        assert!((of_sums - 900.0).abs() < 260.0, "{of_sums}");
    }

    #[test]
    fn one_flow_gets_turn_after_turn() {
        let mut turns = Turns::new(&mut rng());
        turns.push(7, -1000, 300 << 16);
        assert_eq!(turns.next(|_| 1 << 16), 7);
        // -1000 + 4 * 300
        assert_eq!(turns.pop(), 200);
        assert!(turns.is_empty());
    }

    #[test]
    fn a_gain_below_a_byte_is_enough() {
        let mut turns = Turns::new(&mut rng());
        turns.push(1, 0, 1);
        turns.push(2, -1, 0x8000);
        assert_eq!(turns.next(|_| 1), 2);
    }
}
