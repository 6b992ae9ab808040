//! Tables with one entry per flow.

/// One entry per [`Packet::flow`](crate::packet::Packet::flow), a slot that is reused when its flow is over. The table grows with
/// the largest slot that was used, by a quarter at a time: with many flows, unused room counts.
#[derive(Clone, Debug, Default)]
pub struct SlotTable<T> {
    entries: Vec<T>,
}

impl<T: Default> SlotTable<T> {
    /// The entry of `slot`, if the table has grown so far.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&T> {
        self.entries.get(slot as usize)
    }

    /// The entry of `slot`.
    #[inline]
    pub fn entry(&mut self, slot: u32) -> &mut T {
        let index = slot as usize;
        // one test on the usual way: what `grow` returns needs none
        if index < self.entries.len() {
            return &mut self.entries[index];
        }
        self.grow(slot)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, slot: u32) -> &mut T {
        let wanted = slot as usize + 1;
        if wanted > self.entries.capacity() {
            let room = wanted.max(self.entries.len() + self.entries.len() / 4);
            self.entries.reserve_exact(room - self.entries.len());
        }
        self.entries.resize_with(wanted, T::default);
        &mut self.entries[slot as usize]
    }

    /// Every entry, by slot.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter()
    }
}

impl<T> std::ops::Index<u32> for SlotTable<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: u32) -> &T {
        &self.entries[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_grows_to_the_slot_that_is_asked_for() {
        let mut table = SlotTable::<u8>::default();
        *table.entry(9) = 7;
        assert_eq!((table.get(8), table[9], table.get(10)), (Some(&0), 7, None));
        (10..1000).for_each(|slot| *table.entry(slot) = 1);
        assert_eq!(table.iter().count(), 1000);
        assert!(table.entries.capacity() <= 1250);
    }
}
