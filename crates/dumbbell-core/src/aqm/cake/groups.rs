//! Groups of values that the walk and its chances handle at a time, and the vectors of every processor.

use wide::{i16x16, CmpGt, CmpLt};

/// Turns that are given at a time.
pub const GROUP: usize = 32;

/// Places in a group.
pub const PLACES: [i16; GROUP] = {
    let mut places = [0; GROUP];
    let mut place = 0;
    while place < GROUP {
        places[place] = place as i16;
        place += 1;
    }
    places
};

/// Operations on the values of a group.
pub trait Groups: Copy {
    /// [`GROUP`] values.
    type Values: Copy;

    /// From memory.
    fn load(self, values: &[i16; GROUP]) -> Self::Values;

    /// To memory.
    fn store(self, values: Self::Values, to: &mut [i16; GROUP]);

    /// The greater of two, each.
    fn greater(self, one: Self::Values, other: Self::Values) -> Self::Values;

    /// A bit for each value above 0.
    fn above_0(self, values: Self::Values) -> u32;

    /// Whether there is one above 0.
    fn any_above_0(self, values: Self::Values) -> bool;

    /// `deficits` after a turn with these chances.
    fn give(self, deficits: Self::Values, wholes: Self::Values, limits: Self::Values, chances: Self::Values) -> Self::Values;

    /// The first `count` of `of`, and then those of `others`.
    fn first(self, count: usize, of: Self::Values, others: Self::Values) -> Self::Values;

    /// The sum of numbers that are 2^15 too small, bit by bit; it is too small, too.
    fn sum(self, of: [Self::Values; 4]) -> Self::Values;
}

/// The group of `values` that begins at `from`.
#[inline(always)]
pub fn group(values: &[i16], from: usize) -> &[i16; GROUP] {
    values[from..from + GROUP].try_into().expect("a group")
}

/// With the vectors of every processor.
#[derive(Clone, Copy)]
pub struct Usual;

impl Groups for Usual {
    type Values = [i16x16; 2];

    #[inline(always)]
    fn load(self, values: &[i16; GROUP]) -> [i16x16; 2] {
        bytemuck::cast(*values)
    }

    #[inline(always)]
    fn store(self, values: [i16x16; 2], to: &mut [i16; GROUP]) {
        *to = bytemuck::cast(values);
    }

    #[inline(always)]
    fn greater(self, one: [i16x16; 2], other: [i16x16; 2]) -> [i16x16; 2] {
        std::array::from_fn(|half| one[half].max(other[half]))
    }

    #[inline(always)]
    fn above_0(self, values: [i16x16; 2]) -> u32 {
        let [low, high] = values.map(|half| half.cmp_gt(i16x16::ZERO).move_mask() as u32);
        low | high << 16
    }

    #[inline(always)]
    fn any_above_0(self, [low, high]: [i16x16; 2]) -> bool {
        low.max(high).cmp_gt(i16x16::ZERO).any()
    }

    #[inline(always)]
    fn give(self, deficits: [i16x16; 2], wholes: [i16x16; 2], limits: [i16x16; 2], chances: [i16x16; 2]) -> [i16x16; 2] {
        // who is above the limit has -1 in the comparison
        std::array::from_fn(|half| deficits[half] + wholes[half] - chances[half].cmp_gt(limits[half]))
    }

    #[inline(always)]
    fn first(self, count: usize, of: [i16x16; 2], others: [i16x16; 2]) -> [i16x16; 2] {
        let places = self.load(&PLACES);
        std::array::from_fn(|half| places[half].cmp_lt(i16x16::splat(count as i16)).blend(of[half], others[half]))
    }

    #[inline(always)]
    fn sum(self, [a, b, c, d]: [[i16x16; 2]; 4]) -> [i16x16; 2] {
        // four that are 2^15 too small have a sum that is not
        std::array::from_fn(|half| a[half] ^ b[half] ^ c[half] ^ d[half] ^ i16x16::splat(i16::MIN))
    }
}
