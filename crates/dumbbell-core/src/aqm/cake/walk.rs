//! The walk around the circle of flows: turns that are given to many places at a time.
//!
//! The walk is written once, and compiled for the vectors that every processor has and for those of AVX2, which the processor is asked for when a
//! simulation begins. What it gives is the same.
//!
//! A turn makes the flow able to send that it is given to, and the walk comes to that flow again once around. So the first of those that may
//! send now is where a walk ends: it is looked for first, and can be asked for while the turns are given.

use super::chances::{Chances, BLOCK};
use super::groups::{group, Groups, Usual, GROUP};
use crate::hint::unlikely;

/// Vacant places behind the circle: what is looked at and given at a time may reach beyond its end.
pub const BEYOND: usize = 2 * GROUP;
/// The circle that is walked around, and [`BEYOND`] vacant places behind it.
pub struct Circle<'a> {
    /// Bytes that the flow at each place may send.
    pub deficits: &'a mut [i16],
    /// Whole bytes that a turn gives.
    pub wholes: &'a [i16],
    /// A chance above this gives one byte more.
    pub limits: &'a [i16],
    /// Number of places.
    pub places: usize,
}

/// The vectors to walk with.
#[derive(Clone, Copy, Debug)]
pub enum Vectors {
    /// Vectors of every processor that this is compiled for.
    Usual,
    /// Twice as wide.
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::HasAvx2),
}

impl Vectors {
    /// The widest that this processor has.
    pub fn widest() -> Vectors {
        #[cfg(target_arch = "x86_64")]
        if let Some(found) = avx2::HasAvx2::ask() {
            return Vectors::Avx2(found);
        }
        Vectors::Usual
    }

    /// All that this processor has.
    #[cfg(test)]
    pub fn list_available() -> Vec<Vectors> {
        match Vectors::widest() {
            Vectors::Usual => vec![Vectors::Usual],
            #[cfg(target_arch = "x86_64")]
            widest @ Vectors::Avx2(_) => vec![Vectors::Usual, widest],
        }
    }

    /// Gives turns from the place `head` on until a flow may send, and returns its place; `soon` is called with it as early as it is known.
    /// There must be such a flow.
    #[inline(always)]
    pub fn walk(self, circle: Circle, head: usize, chances: &mut Chances, soon: impl FnMut(usize)) -> usize {
        match self {
            Vectors::Usual => walk_as_usual(circle, head, chances, soon),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2(found) => found.walk(circle, head, chances, soon),
        }
    }
}

/// [`Vectors::walk`].
#[inline(always)]
fn walk(groups: impl Groups, circle: Circle, mut head: usize, chances: &mut Chances, mut soon: impl FnMut(usize)) -> usize {
    let Circle { deficits, wholes, limits, places } = circle;
    let size = places + BEYOND;
    let (deficits, wholes, limits) = (&mut deficits[..size], &wholes[..size], &limits[..size]);
    loop {
        if head >= places {
            head = 0;
        }
        let end = next_above_0(groups, deficits, head).min(places);
        if end < places {
            soon(end);
        }
        // all but the last turns, which are fewer than a group
        let mut from = head;
        let last = loop {
            if unlikely(chances.upcoming_bits().len() < GROUP) {
                chances.refill(groups);
            }
            let ahead = chances.upcoming_bits();
            let whole = (end - from).min(ahead.len()) / GROUP * GROUP;
            give(groups, &mut deficits[from..][..whole], &wholes[from..][..whole], &limits[from..][..whole], &ahead[..whole]);
            chances.pass(whole);
            from += whole;
            if end - from < GROUP && chances.upcoming_bits().len() >= GROUP {
                break end - from;
            }
        };
        let before = groups.load(group(deficits, from));
        let [of_wholes, of_limits, of_chances] =
            [(wholes, from), (limits, from), (chances.upcoming_bits(), 0)].map(|(values, from)| groups.load(group(values, from)));
        let after = groups.give(before, of_wholes, of_limits, of_chances);
        let to = (&mut deficits[from..from + GROUP]).try_into().expect("a group");
        groups.store(groups.first(last, after, before), to);
        head = end;
        // the rest of a block has had its bits, too, and so has the block in which one may send
        if end < places {
            chances.pass(last / BLOCK * BLOCK + BLOCK);
            return head;
        }
        chances.pass(last.next_multiple_of(BLOCK));
    }
}

/// The first place from `head` on with a deficit above 0, or one behind the last.
#[inline(always)]
fn next_above_0(groups: impl Groups, deficits: &[i16], head: usize) -> usize {
    let mut from = head;
    for two in deficits[head..].chunks_exact(2 * GROUP) {
        let [low, high] = [0, GROUP].map(|half| groups.load(group(two, half)));
        if groups.any_above_0(groups.greater(low, high)) {
            let [low, high] = [low, high].map(|values| u64::from(groups.above_0(values)));
            return from + (low | high << GROUP).trailing_zeros() as usize;
        }
        from += 2 * GROUP;
    }
    // what is left of them lies beyond the circle
    deficits.len()
}

/// Gives turns to whole groups; all have the same number of values.
#[inline(always)]
fn give(groups: impl Groups, deficits: &mut [i16], wholes: &[i16], limits: &[i16], chances: &[i16]) {
    let of_turns = wholes.chunks_exact(GROUP).zip(limits.chunks_exact(GROUP)).zip(chances.chunks_exact(GROUP));
    for (some, ((of_wholes, of_limits), of_chances)) in deficits.chunks_exact_mut(GROUP).zip(of_turns) {
        let some: &mut [i16; GROUP] = some.try_into().expect("a group");
        let before = groups.load(some);
        let [whole, limit, chance] = [of_wholes, of_limits, of_chances].map(|values| groups.load(group(values, 0)));
        groups.store(groups.give(before, whole, limit, chance), some);
    }
}

/// With the vectors of every processor; not inlined, for one copy.
#[inline(never)]
fn walk_as_usual(circle: Circle, head: usize, chances: &mut Chances, soon: impl FnMut(usize)) -> usize {
    walk(Usual, circle, head, chances, soon)
}

/// Vectors of AVX2. What its functions do: Intel Intrinsics Guide, by their names.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2 {
    use super::{Chances, Circle, Groups, GROUP};
    use crate::aqm::cake::groups::PLACES;
    use std::arch::x86_64::*;

    /// Says that this processor has AVX2: there is one only where it was asked.
    #[derive(Clone, Copy, Debug)]
    pub struct HasAvx2(());

    impl HasAvx2 {
        /// Asks the processor.
        pub fn ask() -> Option<HasAvx2> {
            std::arch::is_x86_feature_detected!("avx2").then_some(HasAvx2(()))
        }

        /// [`super::Vectors::walk`].
        #[inline(always)]
        pub fn walk(self, circle: Circle, head: usize, chances: &mut Chances, soon: impl FnMut(usize)) -> usize {
            // SAFETY: it needs AVX2 and nothing else; the processor has that, says `self`.
            unsafe { walk(self, circle, head, chances, soon) }
        }
    }

    /// To be called only where there is AVX2.
    #[target_feature(enable = "avx2")]
    #[inline(never)]
    unsafe fn walk(found: HasAvx2, circle: Circle, head: usize, chances: &mut Chances, soon: impl FnMut(usize)) -> usize {
        super::walk(found, circle, head, chances, soon)
    }

    impl Groups for HasAvx2 {
        type Values = [__m256i; 2];

        #[inline(always)]
        fn load(self, values: &[i16; GROUP]) -> [__m256i; 2] {
            bytemuck::cast(*values)
        }

        #[inline(always)]
        fn store(self, values: [__m256i; 2], to: &mut [i16; GROUP]) {
            *to = bytemuck::cast(values);
        }

        #[inline(always)]
        fn greater(self, one: [__m256i; 2], other: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: it needs AVX2 and nothing else; the processor has that, says `self`.
            std::array::from_fn(|half| unsafe { _mm256_max_epi16(one[half], other[half]) })
        }

        #[inline(always)]
        fn above_0(self, [low, high]: [__m256i; 2]) -> u32 {
            // SAFETY: it needs AVX2 and nothing else; the processor has that, says `self`.
            unsafe {
                let zero = _mm256_setzero_si256();
                let above = _mm256_packs_epi16(_mm256_cmpgt_epi16(low, zero), _mm256_cmpgt_epi16(high, zero));
                // quarters are packed in the order 0, 2, 1, 3
                _mm256_movemask_epi8(_mm256_permute4x64_epi64::<0b11_01_10_00>(above)) as u32
            }
        }

        #[inline(always)]
        fn any_above_0(self, [low, high]: [__m256i; 2]) -> bool {
            // SAFETY: it needs AVX2 and nothing else; the processor has that, says `self`.
            unsafe { _mm256_movemask_epi8(_mm256_cmpgt_epi16(_mm256_max_epi16(low, high), _mm256_setzero_si256())) != 0 }
        }

        #[inline(always)]
        fn give(self, deficits: [__m256i; 2], wholes: [__m256i; 2], limits: [__m256i; 2], chances: [__m256i; 2]) -> [__m256i; 2] {
            std::array::from_fn(|half| {
                // SAFETY: it needs AVX2 and nothing else; the processor has that, says `self`.
                unsafe {
                    let whole = _mm256_add_epi16(deficits[half], wholes[half]);
                    // who is above the limit has -1 in the comparison
                    _mm256_sub_epi16(whole, _mm256_cmpgt_epi16(chances[half], limits[half]))
                }
            })
        }

        #[inline(always)]
        fn first(self, count: usize, of: [__m256i; 2], others: [__m256i; 2]) -> [__m256i; 2] {
            let places = self.load(&PLACES);
            std::array::from_fn(|half| {
                // SAFETY: it needs AVX2 and nothing else; the processor has that, says `self`.
                unsafe {
                    let is_first = _mm256_cmpgt_epi16(_mm256_set1_epi16(count as i16), places[half]);
                    _mm256_blendv_epi8(others[half], of[half], is_first)
                }
            })
        }

        #[inline(always)]
        fn sum(self, of: [[__m256i; 2]; 4]) -> [__m256i; 2] {
            std::array::from_fn(|half| {
                // SAFETY: it needs AVX2 and nothing else; the processor has that, says `self`.
                unsafe { of.into_iter().fold(_mm256_set1_epi16(i16::MIN), |sum, each| _mm256_xor_si256(sum, each[half])) }
            })
        }
    }
}
