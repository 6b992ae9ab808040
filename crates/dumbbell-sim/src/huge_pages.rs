//! Large tables in huge pages, for programs that make this their allocator: the bindings for Python and the benchmark do.
//!
//! With thousands of flows nearly every packet touches pages that the processor has no translation for, and finding one takes longer than
//! the memory itself. Where the system leaves the choice to programs (`/sys/kernel/mm/transparent_hugepage/enabled` is `madvise`, as most
//! distributions have it), a block has to be asked for.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};

/// Size of a huge page of x86-64 and of arm64 with pages of 4 KiB, bytes.
const HUGE: usize = 2 << 20;

/// The allocator `A`, whose blocks of a huge page and more lie in huge pages as far as the system has them.
pub struct HugePages<A>(pub A);

/// Asks for huge pages for what of the `len` bytes at `block` fills them.
#[cfg(target_os = "linux")]
fn ask(block: *mut u8, len: usize) {
    if !block.is_null() {
        // SAFETY: the range lies within a block of `len` bytes that has just been allocated and that nothing else owns, and begins at a
        // page. MADV_HUGEPAGE changes what backs the range and not what is in it (madvise(2)); if it fails, nothing has changed.
        unsafe { libc::madvise(block.cast(), len / HUGE * HUGE, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn ask(_block: *mut u8, _len: usize) {}

/// Returns the layout that `A` is asked for: blocks of a huge page and more begin at one. `None`: the block is smaller, or no such layout exists.
fn huge(layout: Layout) -> Option<Layout> {
    if layout.size() < HUGE {
        return None;
    }
    layout.align_to(HUGE).ok()
}

// SAFETY: a block of `A` has the layout that was asked for or that of `huge`, which is as large and aligned more strictly. Which one it is
// follows from the layout alone, so that it goes back to `A` with the layout that it came with. `ask` does not change a block.
unsafe impl<A: GlobalAlloc> GlobalAlloc for HugePages<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(huge) = huge(layout) else { return self.0.alloc(layout) };
        let block = self.0.alloc(huge);
        ask(block, huge.size());
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(huge) = huge(layout) else { return self.0.alloc_zeroed(layout) };
        // an allocator that clears a block itself, one that it has had before, would touch its small pages before anybody asks for large ones
        let block = self.0.alloc(huge);
        ask(block, huge.size());
        if !block.is_null() {
            std::ptr::write_bytes(block, 0, huge.size());
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let larger = Layout::from_size_align_unchecked(size, layout.align());
        if huge(layout).is_none() && huge(larger).is_none() {
            return self.0.realloc(block, layout, size);
        }
        // not moved page by page: they would stay small
        let moved = self.alloc(larger);
        if !moved.is_null() {
            std::ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
            self.dealloc(block, layout);
        }
        moved
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.0.dealloc(block, huge(layout).unwrap_or(layout));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn blocks_of_all_sizes_hold_what_is_written_to_them() {
        let allocator = HugePages(System);
        for size in [1, 4096, HUGE - 1, HUGE, 3 * HUGE + 5] {
            let layout = Layout::from_size_align(size, 16).expect("a layout");
            // SAFETY: sizes are not 0; each block is written to within its size, and given back once with its last layout.
            unsafe {
                let block = allocator.alloc(layout);
                block.write_bytes(7, size);
                let block = allocator.realloc(block, layout, 2 * size);
                let kept = std::slice::from_raw_parts(block, size);
                assert!(kept.iter().all(|&byte| byte == 7), "{size}");
                allocator.dealloc(block, Layout::from_size_align(2 * size, 16).expect("a layout"));
                let zeroed = allocator.alloc_zeroed(layout);
                assert!(std::slice::from_raw_parts(zeroed, size).iter().all(|&byte| byte == 0), "{size}");
                allocator.dealloc(zeroed, layout);
            }
        }
    }

    #[test]
    fn blocks_are_zero_also_where_another_one_was() {
        let allocator = HugePages(System);
        for size in [4096, HUGE, 3 * HUGE + 5] {
            let layout = Layout::from_size_align(size, 16).expect("a layout");
            for _ in 0..3 {
                // SAFETY: sizes are not 0; each block is written to within its size, and given back once with its layout.
                unsafe {
                    let block = allocator.alloc_zeroed(layout);
                    assert!(std::slice::from_raw_parts(block, size).iter().all(|&byte| byte == 0), "{size}");
                    block.write_bytes(7, size);
                    allocator.dealloc(block, layout);
                }
            }
        }
    }
}
