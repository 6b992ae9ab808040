//! Deficit round robin of the flows that have used up a quantum: whose turn it is, and what each turn gives.
//!
//! A flow whose host has many bulk flows gets few bytes a turn, so that a packet takes as many turns as there are flows: a turn
//! must cost next to nothing. So the flows of Linux's list `old_flows` stand in arrays, in order, and turns are given to several
//! at a time, from the front to the back of the arrays. What a turn gives is Linux's: the same sum, with 16 random bits of its
//! own for every turn. In a block, one random number of 64 bits serves four turns.

use crate::rng::Rng;

/// Turns that are given at a time.
const BLOCK: usize = 8;
/// Half of them.
const HALF: usize = BLOCK / 2;

/// Whole bytes of a gain in units of 2^-16, rounded by chance.
#[inline]
pub fn rounded(gain: u32, rng: &mut Rng) -> i32 {
    ((gain + (rng.next_u32() >> 16)) >> 16) as i32
}

/// Queue of flows, by slot, with what they may send. Everything lies at `head..tail` of the arrays.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    slots: Vec<u16>,
    deficits: Vec<i32>,
    gains: Vec<u32>,
    head: usize,
    tail: usize,
    /// How many flows at the front have a gain that is out of date.
    stale: usize,
}

impl Turns {
    /// Whether nobody is waiting for a turn.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Appends a flow that may send `deficit` bytes.
    #[inline]
    pub fn push(&mut self, slot: u16, deficit: i32, gain: u32) {
        self.make_room();
        self.slots[self.tail] = slot;
        self.deficits[self.tail] = deficit;
        self.gains[self.tail] = gain;
        self.tail += 1;
    }

    /// Takes the first flow out. There must be one. Returns the bytes that it may still send.
    #[inline]
    pub fn pop(&mut self) -> i32 {
        let deficit = self.deficits[self.head];
        self.head += 1;
        self.stale = self.stale.saturating_sub(1);
        deficit
    }

    /// The first flow has sent `bytes`.
    #[inline]
    pub fn charge(&mut self, bytes: i32) {
        self.deficits[self.head] -= bytes;
    }

    /// Gains must be asked for again.
    #[inline]
    pub fn forget_gains(&mut self) {
        self.stale = self.tail - self.head;
    }

    /// Gives turns until the first flow may send; returns it. There must be one.
    ///
    /// `gain` says what a turn gives to a slot, in units of 2^-16 bytes, not 0.
    #[inline]
    pub fn next(&mut self, rng: &mut Rng, gain: impl Fn(u16) -> u32) -> u16 {
        while self.deficits[self.head] <= 0 {
            self.give(rng, &gain);
            if self.tail - self.head >= BLOCK && [0, HALF, BLOCK - 1].iter().all(|place| self.deficits[self.head + place] <= 0) {
                // Three of the next block may not send: all of it is worth a try.
                self.give_blocks(rng, &gain);
            }
        }
        self.slots[self.head]
    }

    /// Gives a turn to the first flow and moves it to the back.
    #[inline]
    fn give(&mut self, rng: &mut Rng, gain: &impl Fn(u16) -> u32) {
        let slot = self.slots[self.head];
        let gained = if self.stale > 0 { gain(slot) } else { self.gains[self.head] };
        let deficit = self.deficits[self.head] + rounded(gained, rng);
        if self.tail - self.head == 1 {
            // alone: front and back are the same
            self.deficits[self.head] = deficit;
        } else {
            self.pop();
            self.push(slot, deficit, gained);
        }
    }

    /// Gives turns to blocks, as long as none in the first one may send.
    #[inline(never)]
    fn give_blocks(&mut self, rng: &mut Rng, gain: &impl Fn(u16) -> u32) {
        while self.give_block(rng, gain) {}
    }

    /// Gives turns to the first [`BLOCK`] flows and moves them to the back. Returns whether it did: none of them may send.
    #[inline]
    fn give_block(&mut self, rng: &mut Rng, gain: &impl Fn(u16) -> u32) -> bool {
        if self.tail - self.head < BLOCK {
            return false;
        }
        self.make_room();
        let (head, tail) = (self.head, self.tail);
        let (mut slots, mut deficits, mut gains) = ([0; BLOCK], [0; BLOCK], [0; BLOCK]);
        deficits.copy_from_slice(&self.deficits[head..head + BLOCK]);
        if deficits.iter().fold(false, |some, &deficit| some | (deficit > 0)) {
            return false;
        }
        if self.stale > 0 {
            self.refresh(gain);
        }
        gains.copy_from_slice(&self.gains[head..head + BLOCK]);
        slots.copy_from_slice(&self.slots[head..head + BLOCK]);
        // 16 bits for each turn: lower halves of the words for the first half of the block, upper ones for the second.
        let mut words = [0; HALF];
        for two in words.chunks_exact_mut(2) {
            let draw = rng.next_u64();
            two[0] = draw as u32;
            two[1] = (draw >> 32) as u32;
        }
        for (place, word) in words.into_iter().enumerate() {
            deficits[place] += ((gains[place] + (word & 0xffff)) >> 16) as i32;
            deficits[HALF + place] += ((gains[HALF + place] + (word >> 16)) >> 16) as i32;
        }
        self.deficits[tail..tail + BLOCK].copy_from_slice(&deficits);
        self.gains[tail..tail + BLOCK].copy_from_slice(&gains);
        self.slots[tail..tail + BLOCK].copy_from_slice(&slots);
        self.head = head + BLOCK;
        self.tail = tail + BLOCK;
        true
    }

    /// Asks for the gains of the first block that are out of date.
    #[inline(never)]
    fn refresh(&mut self, gain: &impl Fn(u16) -> u32) {
        let stale = self.stale.min(BLOCK);
        let first = self.head..self.head + stale;
        for (current, &slot) in self.gains[first.clone()].iter_mut().zip(&self.slots[first]) {
            *current = gain(slot);
        }
        self.stale -= stale;
    }

    /// Makes sure that a block fits behind the tail.
    #[inline]
    fn make_room(&mut self) {
        if self.tail + BLOCK > self.deficits.len() {
            self.move_to_front();
        }
    }

    /// Moves everything to the front of the arrays, which are at least twice as long: at most one move a turn.
    #[cold]
    fn move_to_front(&mut self) {
        let flows = self.tail - self.head;
        let (least, comfortable) = (2 * flows + BLOCK, 3 * flows + 4 * BLOCK);
        if self.deficits.len() < least {
            self.slots.resize(comfortable, 0);
            self.deficits.resize(comfortable, 0);
            self.gains.resize(comfortable, 0);
        }
        self.slots.copy_within(self.head..self.tail, 0);
        self.deficits.copy_within(self.head..self.tail, 0);
        self.gains.copy_within(self.head..self.tail, 0);
        (self.head, self.tail) = (0, flows);
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
        let (mut turns, mut list) = (Turns::default(), VecDeque::new());
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
                    assert_eq!(turns.next(&mut rng(), |slot| gains[slot as usize] << 16), list[0].0);
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
        // 10 flows get 15.1 bytes a turn, 0.1 being 6554 / 65536 = 0.100006: after 1000 turns from -100000 on, each has
        // 15000 + X, X binomial with mean 100.006 and variance 100.006 * 0.899994 = 90.0.
        let mut random = rng();
        let mut extra = Vec::new();
        for _ in 0..400 {
            let mut turns = Turns::default();
            (1..=10).for_each(|slot| turns.push(slot, -100_000, (15 << 16) + 6554));
            // 104 turns one by one and 9896 in blocks of 8: 1000 for each flow
            (0..104).for_each(|_| turns.give(&mut random, &|_| 0));
            (0..1237).for_each(|_| assert!(turns.give_block(&mut random, &|_| 0)));
            extra.extend((0..10).map(|_| f64::from(turns.pop() + 100_000 - 15_000)));
        }
        let n = extra.len() as f64;
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
        let mut turns = Turns::default();
        turns.push(7, -1000, 300 << 16);
        assert_eq!(turns.next(&mut rng(), |_| 1 << 16), 7);
        // -1000 + 4 * 300
        assert_eq!(turns.pop(), 200);
        assert!(turns.is_empty());
    }

    #[test]
    fn a_gain_below_a_byte_is_enough() {
        let mut turns = Turns::default();
        turns.push(1, 0, 1);
        turns.push(2, -1, 0x8000);
        assert_eq!(turns.next(&mut rng(), |_| 1), 2);
    }
}
