//! Large tables in huge pages, for programs that make this their allocator: the bindings for Python and the benchmark do.
//!
//! With thousands of flows nearly every packet touches pages that the processor has no translation for, and finding one takes longer than
//! the memory itself. Where the system leaves the choice to programs (`/sys/kernel/mm/transparent_hugepage/enabled` is `madvise`, as most
//! distributions have it), a block has to be asked for. 10,000 flows over FQ-CoDel take a quarter less time so.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};

/// Size of a huge page of x86-64 and of arm64 with pages of 4 KiB, bytes.
const HUGE: usize = 2 << 20;

/// The allocator `A`, whose blocks of a huge page and more lie in huge pages as far as the system has them.
pub struct HugePages<A>(pub A);

/// Asks for huge pages for the part of a block of `len` bytes at `block` that they can hold.
#[cfg(target_os = "linux")]
fn ask(block: *mut u8, len: usize) {
    let skipped = block.align_offset(HUGE);
    let whole = len.saturating_sub(skipped) / HUGE * HUGE;
    if !block.is_null() && whole > 0 {
        // SAFETY: the range lies within a block of `len` bytes that the caller has just been given and that nobody else has, and begins
        // at a page. MADV_HUGEPAGE changes what backs the range and not what is in it (madvise(2)); if it fails, nothing has changed.
        unsafe { libc::madvise(block.add(skipped).cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn ask(_block: *mut u8, _len: usize) {}

// SAFETY: every block comes from `A` and goes back to it with the layout that it was allocated with; `ask` does not change a block.
unsafe impl<A: GlobalAlloc> GlobalAlloc for HugePages<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = self.0.alloc(layout);
        if layout.size() >= HUGE {
            ask(block, layout.size());
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = self.0.alloc_zeroed(layout);
        if layout.size() >= HUGE {
            ask(block, layout.size());
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let block = self.0.realloc(block, layout, size);
        if size >= HUGE {
            ask(block, size);
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.0.dealloc(block, layout);
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
                let block = allocator.alloc_zeroed(layout);
                assert!(std::slice::from_raw_parts(block, size).iter().all(|&byte| byte == 0), "{size}");
                allocator.dealloc(block, layout);
            }
        }
    }
}
