//! What takes the place of the operating system's random numbers: a sequence that follows from a seed, one for each thread.
//!
//! Licence: MIT OR Apache-2.0.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Starts the sequence of this thread.
pub fn seed(seed: u64) {
    STATE.set(seed);
}

/// The next number of this thread: SplitMix64 (Steele, Lea, Flood 2014).
pub fn next() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    mixed(state)
}

/// The finaliser of SplitMix64.
pub fn mixed(state: u64) -> u64 {
    let first = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let second = (first ^ (first >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    second ^ (second >> 31)
}

/// Fills bytes with the next numbers.
pub fn fill(bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&next().to_le_bytes()[..chunk.len()]);
    }
}
