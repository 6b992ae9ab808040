//! The memory of send buffers, where it is limited.

/// Bytes that a CPU accumulates before it adds them to the shared total. Linux `SK_MEMORY_PCPU_RESERVE`, since 6.0.
const MEMORY_RESERVE: i64 = 1 << 20;
/// Largest piece of memory that a write takes, bytes. Linux `SKB_FRAG_PAGE_ORDER`.
const MEMORY_TAKEN: i64 = 32_768;
/// Largest piece of memory that socket buffers give back, bytes.
const MEMORY_FREED: i64 = 65_536;

/// Bytes in the send buffers of all endpoints, where they are limited. The kernel's total changes in steps: what one processor takes or gives back counts once it is
/// [`MEMORY_RESERVE`]. Linux `sk_memory_allocated_add`, `tcp_should_expand_sndbuf`.
#[derive(Clone)]
pub struct SendMemory {
    limit: u64,
    /// The shared total, bytes, as the kernel counts it.
    total: i64,
    /// Changes that the shared total does not have yet, bytes.
    reserve: i64,
    /// Bytes in the send buffer of each slot.
    by_slot: Vec<u64>,
}

impl SendMemory {
    pub fn new(limit: Option<u64>) -> SendMemory {
        SendMemory { limit: limit.unwrap_or(u64::MAX), total: 0, reserve: 0, by_slot: Vec::new() }
    }

    /// Whether there is a limit: the total is counted only then.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.limit != u64::MAX
    }

    /// No send buffer may grow.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.total > 0 && self.total as u64 >= self.limit
    }

    /// The endpoint in `slot` is gone.
    #[inline]
    pub fn release(&mut self, slot: u32) {
        if self.is_limited() {
            self.set(slot, 0);
        }
    }

    /// The endpoint in `slot` holds `bytes`.
    #[cold]
    pub fn set(&mut self, slot: u32, bytes: u64) {
        let slot = slot as usize;
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, 0);
        }
        let mut change = bytes as i64 - std::mem::replace(&mut self.by_slot[slot], bytes) as i64;
        while change != 0 {
            let part = change.clamp(-MEMORY_FREED, MEMORY_TAKEN);
            change -= part;
            self.reserve += part;
            if self.reserve.abs() >= MEMORY_RESERVE {
                self.total += std::mem::take(&mut self.reserve);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_in_steps_of_what_a_processor_keeps() {
        let mib = |count: u64| count << 20;
        let mut memory = SendMemory::new(Some(mib(3)));
        let mut after = |slot, bytes| {
            memory.set(slot, bytes);
            (memory.total as u64, memory.is_short())
        };
        // less than a MiB does not count yet
        assert_eq!(after(0, mib(1) - 1), (0, false));
        // in pieces of 32 KiB: 1 MiB - 1 + 32 KiB, and after 32 more of them 1 MiB; the other 467,233 B do not count
        assert_eq!(after(0, mib(2) + 500_000), (mib(2) + 32_767, false));
        // 18 pieces more: 467,233 + 589,824
        assert_eq!(after(1, mib(1) - 1), (mib(2) + 32_767 + 1_057_057, true));
        // it is not short any more when a whole MiB has been given back
        assert!(after(0, mib(2) + 100_000).1 && !after(0, mib(1)).1);
        memory.release(0);
        memory.release(1);
        assert!(memory.total + memory.reserve == 0 && !memory.is_short());
    }
}
