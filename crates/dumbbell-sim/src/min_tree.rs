//! The earliest of many event sources.

use dumbbell_core::prefetch::prefetch;
use dumbbell_core::units::Instant;

/// A winner tree over `n` times: reading the earliest is O(1), setting one O(log n), nothing is ever allocated. Of equal
/// times the lowest index wins, so that the order of events does not depend on history.
#[derive(Clone, Debug)]
pub struct MinTree {
    /// Leaves start here; a power of two.
    base: usize,
    /// Node `k` holds the earliest source below it; node 1 is the root. They are `2 * base`.
    nodes: Vec<u128>,
    /// The root: most who read it read nothing else of the tree.
    least: (Instant, u32),
}

/// A time and the source that fires then, in one number: the smaller one is earlier, or the same time of the source with the lower index.
#[inline(always)]
fn pack_node(time: Instant, index: u32) -> u128 {
    u128::from(time.0) << 64 | u128::from(index)
}

#[inline(always)]
fn unpack_node(node: u128) -> (Instant, u32) {
    (Instant((node >> 64) as u64), node as u32)
}

impl MinTree {
    /// `n` sources, none of which will ever fire.
    pub fn new(n: usize) -> MinTree {
        let base = n.next_power_of_two().max(1);
        let mut nodes = vec![0; 2 * base];
        for (leaf, node) in nodes[base..].iter_mut().enumerate() {
            *node = pack_node(Instant::NEVER, leaf as u32);
        }
        for k in (1..base).rev() {
            nodes[k] = nodes[2 * k];
        }
        MinTree { base, nodes, least: (Instant::NEVER, 0) }
    }

    /// Room for `n` sources or more; those that are new never fire.
    pub fn grow(&mut self, n: usize) {
        if n <= self.base {
            return;
        }
        let mut larger = MinTree::new(n);
        for index in (0..self.base).filter(|&index| self.get(index) < Instant::NEVER) {
            larger.set(index, self.get(index));
        }
        *self = larger;
    }

    /// When source `index` fires.
    #[inline]
    pub fn get(&self, index: usize) -> Instant {
        unpack_node(self.nodes[self.base + index]).0
    }

    /// Prefetches the entry for [`MinTree::get`] of `index`.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        if let Some(node) = self.nodes.get(self.base + index) {
            prefetch(node);
        }
    }

    /// Source `index` fires at `time`.
    #[inline]
    pub fn set(&mut self, index: usize, time: Instant) {
        let nodes = &mut self.nodes[..];
        // no number below is larger: to cut them costs less than to check them
        let Some(most) = nodes.len().checked_sub(1) else { return };
        let mut k = self.base + index;
        let mut winner = pack_node(time, index as u32);
        nodes[k] = winner;
        while k > 1 {
            // its sibling is loaded without waiting for what was stored below it
            winner = winner.min(nodes[(k ^ 1) & most]);
            k /= 2;
            let parent = &mut nodes[k & most];
            if *parent == winner {
                return;
            }
            *parent = winner;
        }
        self.least = unpack_node(winner);
    }

    /// The earliest source and its time.
    #[inline]
    pub fn min(&self) -> (Instant, usize) {
        (self.least.0, self.least.1 as usize)
    }
}

/// The earliest of few event sources: a list that is looked through when another one may have become the earliest. Ties as in [`MinTree`].
#[derive(Clone, Debug)]
pub struct MinList {
    times: Vec<Instant>,
    least: (Instant, usize),
    /// None of the others fires before.
    others: Instant,
}

impl MinList {
    /// `n` sources, none of which will ever fire.
    pub fn new(n: usize) -> MinList {
        MinList { times: vec![Instant::NEVER; n], least: (Instant::NEVER, 0), others: Instant::NEVER }
    }

    /// Source `index` fires at `time`.
    #[inline(always)]
    pub fn set(&mut self, index: usize, time: Instant) {
        self.times[index] = time;
        if index == self.least.1 {
            self.least.0 = time;
            if time >= self.others {
                self.look_through();
            }
        } else if (time, index) < self.least {
            self.others = self.least.0;
            self.least = (time, index);
        } else {
            self.others = self.others.min(time);
        }
    }

    fn look_through(&mut self) {
        (self.least, self.others) = ((self.times[0], 0), Instant::NEVER);
        for (other, &at) in self.times.iter().enumerate().skip(1) {
            if at < self.least.0 {
                (self.others, self.least) = (self.least.0, (at, other));
            } else {
                self.others = self.others.min(at);
            }
        }
    }

    /// The earliest source and its time.
    #[inline(always)]
    pub fn min(&self) -> (Instant, usize) {
        self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_keeps_what_was_set() {
        let mut tree = MinTree::new(2);
        tree.set(0, Instant(5));
        tree.set(1, Instant(3));
        for n in [2, 3, 100] {
            tree.grow(n);
            assert_eq!((tree.min(), tree.get(0)), ((Instant(3), 1), Instant(5)));
        }
        tree.set(99, Instant(1));
        assert_eq!(tree.min(), (Instant(1), 99));
    }

    #[test]
    fn agrees_with_a_linear_scan() {
        for n in [1, 2, 3, 7, 64, 100] {
            let (mut tree, mut list) = (MinTree::new(n), MinList::new(n));
            let mut flat = vec![Instant::NEVER; n];
            for step in 0..2000_u64 {
                let random = dumbbell_core::rng::mix(step);
                let index = (random % n as u64) as usize;
                let time = if random & 0x800 == 0 { Instant::NEVER } else { Instant(random >> 56) };
                tree.set(index, time);
                list.set(index, time);
                flat[index] = time;
                let expected = flat.iter().enumerate().map(|(i, &t)| (t, i)).min().unwrap();
                assert_eq!((tree.min(), list.min()), (expected, expected));
                assert_eq!(tree.get(index), time);
            }
        }
    }
}
