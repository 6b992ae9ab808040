//! Asking memory ahead of time for what is known to be needed soon.

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Asks for the cache lines of `what`; changes nothing else. Worth it only where thousands of flows do not fit into the cache.
#[inline(always)]
pub fn prefetch<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        let start = std::ptr::from_ref(what).cast::<i8>();
        for line in (0..size_of::<T>()).step_by(LINE) {
            // SAFETY: PREFETCHT0 is a hint. It does not fault and does not change what a program can see, whatever its address is (Intel
            // SDM volume 2, PREFETCHh); the address, which lies in `what` anyway, is computed without undefined behaviour.
            #[allow(unsafe_code)]
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}
