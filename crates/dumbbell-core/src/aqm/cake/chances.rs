//! Random bits for the turns of flows, 16 for each.
//!
//! They are those of the generator (13, 17, 5) of Marsaglia, "Xorshift RNGs" (J. Stat. Softw. 8(14), 2003), one of whose numbers serves two
//! turns. Its steps wait for each other, so the numbers are not made by them: what is linear over bits obeys every multiple of its
//! characteristic polynomial, and one of these has five terms. So each number is the sum of four earlier ones, none of them recent.

use super::groups::{group, Groups, Usual, GROUP};
use crate::rng::Rng;
use wide::i16x8;

/// Turns of a block: what one step of four generators serves.
pub const BLOCK: usize = 8;
/// `x^682 + x^375 + x^241 + x^123 + 1` is a multiple of the characteristic polynomial of the generator, whose degree is 32.
const LAG: usize = 682;
const TAPS: [usize; 3] = [123, 241, 375];

/// Blocks that the generators make at a time until there are [`LAG`], so that a short run makes no more than it needs: a divisor of it, and a group or more.
const FIRST: usize = 31;

/// Most numbers that may remain when more are drawn: fewer than one request takes.
const LEFT: usize = GROUP - BLOCK;

const _: () = assert!(LAG % FIRST == 0 && FIRST * BLOCK >= GROUP);

/// Bits for blocks of turns.
#[derive(Clone, Debug)]
pub struct Chances {
    /// Room for what was left over, and the bits of [`LAG`] blocks; each turn's less 2^15.
    bits: Box<[i16]>,
    /// For how many turns they have been given, or never were.
    given: usize,
    /// How many have been made. Once all have, they are made of each other.
    made: usize,
    /// The generators of the first ones.
    four: [u32; 4],
}

/// The number of a turn, less 2^15: vectors compare numbers with a sign only.
fn centre_bits(bits: u32) -> i16 {
    (bits as u16 ^ 0x8000) as i16
}

/// From what chance on a turn that gives `gain`, in units of 2^-16 bytes, gives one byte more than the whole ones.
///
/// The sum of the gain and of 16 random bits is cut to whole bytes.
#[inline]
pub fn least_below(gain: u32) -> i16 {
    centre_bits(0xffff - (gain & 0xffff))
}

impl Chances {
    /// Four generators with seeds from `rng`.
    pub fn new(rng: &mut Rng) -> Chances {
        // a generator is never 0 unless it begins so
        let four = std::array::from_fn(|_| rng.next_u32() | 1);
        Chances { bits: vec![0; LEFT + LAG * BLOCK].into_boxed_slice(), given: LEFT, made: LEFT, four }
    }

    /// Makes some of the first ones by the steps of the generators.
    #[cold]
    #[inline(never)]
    fn make_first(&mut self) {
        let Chances { bits, made, four, .. } = self;
        for block in bits[*made..][..FIRST * BLOCK].chunks_exact_mut(BLOCK) {
            for state in &mut *four {
                *state ^= *state << 13;
                *state ^= *state >> 17;
                *state ^= *state << 5;
            }
            // upper halves are for the first four turns of a block, lower halves for the others
            for (turn, state) in four.iter().enumerate() {
                block[turn] = centre_bits(state >> 16);
                block[turn + 4] = centre_bits(state & 0xffff);
            }
        }
        *made += FIRST * BLOCK;
    }

    /// The bits of the next turns, as many as there are before more must be made: whole blocks.
    #[inline(always)]
    pub fn upcoming_bits(&self) -> &[i16] {
        &self.bits[self.given..self.made]
    }

    /// Consumes the bits of this many turns: whole blocks.
    #[inline(always)]
    pub fn pass(&mut self, turns: usize) {
        self.given += turns;
    }

    /// The bits of the next block.
    #[inline(always)]
    pub fn step(&mut self) -> [i16; BLOCK] {
        if self.upcoming_bits().is_empty() {
            self.refill(Usual);
        }
        self.given += BLOCK;
        self.bits[self.given - BLOCK..self.given].try_into().expect("a block")
    }

    /// Makes as many as there is room for. No more than `LEFT` may be left.
    #[inline(always)]
    pub fn refill(&mut self, groups: impl Groups) {
        if self.made < self.bits.len() {
            return self.make_first();
        }
        let left = self.upcoming_bits().len();
        self.bits.copy_within(self.given.., LEFT - left);
        self.given = LEFT - left;
        let ring: &mut [i16; LAG * BLOCK] = (&mut self.bits[LEFT..]).try_into().expect("it never changes its size");
        // up to each of these, one tap more is found at the start of the ring, where the new ones are
        let [first, second, third] = TAPS.map(|tap| LAG - tap);
        sum::<0>(groups, ring, third);
        sum::<1>(groups, ring, second);
        sum::<2>(groups, ring, first);
        sum::<3>(groups, ring, LAG);
    }
}

/// Makes the numbers of the blocks up to `until`, for which the last `WRAPPED` taps lie beyond the end of the ring.
#[inline(always)]
fn sum<const WRAPPED: usize>(groups: impl Groups, ring: &mut [i16; LAG * BLOCK], until: usize) {
    let from = [0, LAG - TAPS[2], LAG - TAPS[1], LAG - TAPS[0]][WRAPPED] * BLOCK;
    let back: [usize; 3] = std::array::from_fn(|tap| if tap + WRAPPED >= 3 { LAG } else { 0 });
    let terms = |place: usize| {
        [
            place,
            place + TAPS[0] * BLOCK - back[0] * BLOCK,
            place + TAPS[1] * BLOCK - back[1] * BLOCK,
            place + TAPS[2] * BLOCK - back[2] * BLOCK,
        ]
    };
    // whole groups, and then the rest
    let rest = from + (until * BLOCK - from) / GROUP * GROUP;
    for place in (from..rest).step_by(GROUP) {
        let sum = groups.sum(terms(place).map(|at| groups.load(group(ring, at))));
        groups.store(sum, (&mut ring[place..place + GROUP]).try_into().expect("a group"));
    }
    for place in (rest..until * BLOCK).step_by(BLOCK) {
        let block = |at: usize| i16x8::new(ring[at..at + BLOCK].try_into().expect("a block"));
        // the sum of four numbers that are 2^15 too small is not too small
        let sum = terms(place).into_iter().fold(i16x8::splat(i16::MIN), |sum, at| sum ^ block(at));
        ring[place..place + BLOCK].copy_from_slice(&sum.to_array());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_generator_step_by_step() {
        let rng = || Rng::stream(1, "test", 0);
        let (mut chances, mut seeds) = (Chances::new(&mut rng()), rng());
        let mut four: [u32; 4] = std::array::from_fn(|_| seeds.next_u32() | 1);
        for _ in 0..20_000 {
            for state in &mut four {
                *state ^= *state << 13;
                *state ^= *state >> 17;
                *state ^= *state << 5;
            }
            let expected: [u32; BLOCK] =
                std::array::from_fn(|turn| if turn < 4 { four[turn] >> 16 } else { four[turn - 4] & 0xffff });
            assert_eq!(chances.step().map(|bits| u32::from(bits as u16 ^ 0x8000)), expected);
        }
    }

    #[test]
    fn what_is_left_over_comes_before_what_is_made() {
        let rng = || Rng::stream(2, "test", 0);
        let (mut one, mut other) = (Chances::new(&mut rng()), Chances::new(&mut rng()));
        for blocks in [1, 2, 3, 4].into_iter().cycle().take(5000) {
            if other.upcoming_bits().len() < GROUP {
                other.refill(Usual);
            }
            for block in 0..blocks {
                assert_eq!(one.step(), other.upcoming_bits()[block * BLOCK..][..BLOCK]);
            }
            other.pass(blocks * BLOCK);
        }
    }

    #[test]
    fn one_byte_more_is_given_where_the_sum_carries() {
        for gain in [0, 1, 0x7fff, 0x8000, 0x1_8001, 0xffff, 0x20_0000, 0x5ea_fa16] {
            for bits in (0..0x1_0000_u32).step_by(97).chain([0xffff]) {
                let carries = (gain + bits) >> 16 > gain >> 16;
                assert_eq!(centre_bits(bits) > least_below(gain), carries, "{gain:x} {bits:x}");
            }
        }
    }
}
