//! Which way the branches of every packet go.

/// Says that the branch in which it stands is seldom taken. The compiler then lays the code for what usually happens in one piece: a packet
/// takes three times as many jumps otherwise, and they cost more than the instructions between them.
#[cold]
#[inline(never)]
pub const fn seldom() {}

/// `condition`, which is seldom true.
#[inline(always)]
pub const fn unlikely(condition: bool) -> bool {
    if condition {
        seldom();
    }
    condition
}

/// `condition`, which is usually true.
#[inline(always)]
pub const fn likely(condition: bool) -> bool {
    if !condition {
        seldom();
    }
    condition
}
