//! Asking memory ahead of time for what is known to be needed soon.

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Asks for the cache lines of `what`; changes nothing else. Worth it only where thousands of flows do not fit into the cache.
#[inline(always)]
pub fn prefetch<T>(what: &T) {
    prefetch_part(what, 0, size_of::<T>());
}

/// Asks for the cache lines of the `len` bytes of `whole` that begin `offset` bytes behind its start, without looking at `whole`.
#[inline(always)]
pub fn prefetch_part<T>(whole: &T, offset: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        let start = std::ptr::from_ref(whole).cast::<i8>().wrapping_add(offset);
        for line in (0..len).step_by(LINE) {
            // SAFETY: PREFETCHT0 is a hint. It does not fault and does not change what a program can see, whatever its address is (Intel
            // SDM volume 2, PREFETCHh); the address is computed without undefined behaviour (`wrapping_add`) and never dereferenced.
            #[allow(unsafe_code)]
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (whole, offset, len);
}
