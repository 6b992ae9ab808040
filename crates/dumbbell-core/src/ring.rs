//! A queue of small values in a ring whose length is a power of two.
//!
//! A place in it is a number and a mask, where the standard library's ring, of any length, compares and chooses: a few instructions for each packet and each
//! acknowledgement.

use std::ops::{Index, IndexMut};

/// Places that a ring has at first.
const FIRST_ROOM: usize = 16;

/// First in, first out. Grows by doubling, never shrinks: no allocation in steady state.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    /// As many as a power of two, or none.
    places: Vec<T>,
    /// Numbers of the first value, and of the next one to come.
    first: usize,
    next: usize,
}

impl<T> Default for Ring<T> {
    fn default() -> Ring<T> {
        Ring { places: Vec::new(), first: 0, next: 0 }
    }
}

impl<T: Copy> Ring<T> {
    /// Number of values.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.next.wrapping_sub(self.first)
    }

    /// No values.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.first == self.next
    }

    /// Where value `number` lies.
    #[inline(always)]
    fn place(&self, number: usize) -> usize {
        number & self.places.len().wrapping_sub(1)
    }

    /// The oldest value.
    #[inline(always)]
    pub fn front(&self) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        self.places.get(self.place(self.first))
    }

    /// The oldest value, to be changed.
    #[inline(always)]
    pub fn front_mut(&mut self) -> Option<&mut T> {
        if self.is_empty() {
            return None;
        }
        let place = self.place(self.first);
        self.places.get_mut(place)
    }

    /// The newest value.
    #[inline(always)]
    pub fn back(&self) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        self.places.get(self.place(self.next.wrapping_sub(1)))
    }

    /// Appends `value`.
    #[inline(always)]
    pub fn push_back(&mut self, value: T) {
        if self.len() == self.places.len() {
            self.grow(value);
        }
        let place = self.place(self.next);
        if let Some(free) = self.places.get_mut(place) {
            *free = value;
        }
        self.next = self.next.wrapping_add(1);
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, any: T) {
        let mut places = vec![any; (2 * self.places.len()).max(FIRST_ROOM)];
        for (place, value) in places.iter_mut().zip(self.iter()) {
            *place = *value;
        }
        (self.first, self.next) = (0, self.len());
        self.places = places;
    }

    /// Takes the oldest value.
    #[inline(always)]
    pub fn pop_front(&mut self) -> Option<T> {
        let value = *self.front()?;
        self.first = self.first.wrapping_add(1);
        Some(value)
    }

    /// Puts `value` ahead of value `index`, counted from the oldest.
    pub fn insert(&mut self, index: usize, value: T) {
        self.push_back(value);
        for later in (index + 1..self.len()).rev() {
            self[later] = self[later - 1];
        }
        self[index] = value;
    }

    /// Number of values ahead of the first one that is not `before`, where those that are come first.
    pub fn partition_point(&self, mut before: impl FnMut(&T) -> bool) -> usize {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from + (to - from) / 2;
            if before(&self[middle]) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    /// All values, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len()).map(|index| &self[index])
    }

    /// Takes all values, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.pop_front())
    }
}

/// By place in the order of age, from the oldest.
impl<T: Copy> Index<usize> for Ring<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: usize) -> &T {
        debug_assert!(index < self.len());
        &self.places[self.place(self.first.wrapping_add(index))]
    }
}

impl<T: Copy> IndexMut<usize> for Ring<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut T {
        debug_assert!(index < self.len());
        let place = self.place(self.first.wrapping_add(index));
        &mut self.places[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::mix;
    use std::collections::VecDeque;

    #[test]
    fn a_ring_does_what_the_standard_library_does() {
        let (mut ring, mut model) = (Ring::default(), VecDeque::new());
        let mut state = 1;
        for step in 0..20_000_u64 {
            state = mix(state);
            // more comes than goes at first, then it is the other way round
            match (state >> 8) % if step < 10_000 { 5 } else { 3 } {
                0 | 1 => assert_eq!(ring.pop_front(), model.pop_front()),
                2 => {
                    let index = (state >> 32) as usize % (model.len() + 1);
                    ring.insert(index, step);
                    model.insert(index, step);
                }
                _ => {
                    ring.push_back(step);
                    model.push_back(step);
                }
            }
            assert_eq!((ring.len(), ring.is_empty()), (model.len(), model.is_empty()));
            assert_eq!((ring.front(), ring.back()), (model.front(), model.back()));
            assert_eq!(ring.front_mut(), model.front_mut());
        }
        assert!(ring.iter().eq(model.iter()));
        assert!((0..ring.len()).all(|index| ring[index] == model[index]));
        let all: Vec<u64> = ring.drain().collect();
        assert_eq!((all.into(), ring.is_empty()), (model, true));
    }

    #[test]
    fn the_first_value_that_is_not_before_is_found() {
        let mut ring = Ring::default();
        for value in 0..30 {
            ring.push_back(value);
            ring.pop_front().filter(|_| value < 20).into_iter().for_each(|value| ring.push_back(value));
        }
        let sorted: Vec<i32> = ring.iter().copied().collect();
        for limit in [-1, 0, 19, 29, 30] {
            assert_eq!(ring.partition_point(|&value| value < limit), sorted.partition_point(|&value| value < limit));
        }
    }
}
