//! The clock and the random numbers of this library. quiche reads both by itself; the linker leads its calls here (`--wrap`, build.rs).
//!
//! Licence: MIT OR Apache-2.0.

use std::cell::Cell;
use std::ffi::{c_int, c_long};

const SECOND: u64 = 1_000_000_000; // ns

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// From now on it is `now` on this thread, and random numbers follow from `state`.
pub fn enter(now: u64, state: u64) {
    NOW.set(now);
    STATE.set(state);
}

/// What random numbers follow from after those that were drawn.
pub fn state() -> u64 {
    STATE.get()
}

/// SplitMix64 (Steele, Lea, Flood 2014).
fn next() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let first = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let second = (first ^ (first >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    second ^ (second >> 31)
}

/// Fills bytes with random numbers.
pub fn fill(bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&next().to_le_bytes()[..chunk.len()]);
    }
}

/// `struct timespec` of 64-bit Linux.
#[repr(C)]
pub struct Timespec {
    seconds: i64,
    nanoseconds: c_long,
}

/// Every clock of this library: virtual time, which begins at a second.
///
/// # Safety
///
/// As for clock_gettime(2).
#[no_mangle]
pub unsafe extern "C" fn __wrap_clock_gettime(_clock: c_int, to: *mut Timespec) -> c_int {
    let now = NOW.get() + SECOND;
    let time = Timespec { seconds: (now / SECOND) as i64, nanoseconds: (now % SECOND) as c_long };
    // SAFETY: the caller gives the place for it
    unsafe { to.write(time) };
    0
}

/// Zeros: what asks for these, such as a hash table, does so once in a process, and not once in a connection.
///
/// # Safety
///
/// As for getrandom(2).
#[no_mangle]
pub unsafe extern "C" fn __wrap_getrandom(to: *mut u8, length: usize, _flags: u32) -> isize {
    // SAFETY: the caller gives the place for so many bytes
    unsafe { to.write_bytes(0, length) };
    length as isize
}

/// # Safety
///
/// As for RAND_bytes of BoringSSL.
#[no_mangle]
pub unsafe extern "C" fn __wrap_RAND_bytes(to: *mut u8, length: usize) -> c_int {
    if length > 0 {
        // SAFETY: the caller gives the place for so many bytes
        fill(unsafe { std::slice::from_raw_parts_mut(to, length) });
    }
    1
}
