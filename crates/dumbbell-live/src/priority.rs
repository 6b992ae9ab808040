//! How much the system is asked to prefer the threads of a run.
#![allow(unsafe_code)] // three calls without a safe interface

/// Of senders and receivers: the lowest of the real-time priorities (sched(7)), above everything that has none.
pub const ENDS: libc::c_int = 1;
/// Of the thread that forwards.
pub const FORWARDER: libc::c_int = 2;

/// The thread that calls is to be woken to the nanosecond, and before others where that is allowed: by a real-time priority, since a nice
/// value counts only within a session or control group. Where there is one core only it would take that from the senders. Without
/// permission the thread goes on as it is: the lateness of a run shows what that costs.
pub fn raise(priority: libc::c_int) {
    let alone = std::thread::available_parallelism().map_or(1, usize::from) < 2;
    let wanted = libc::sched_param { sched_priority: priority };
    // SAFETY: all three concern the calling thread alone (sched_setscheduler(2), setpriority(2), prctl(2): 0 is the caller). They take
    // numbers, and a pointer to `wanted`, which is only read.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0, 0, 0);
        if alone || libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &wanted) < 0 {
            libc::setpriority(libc::PRIO_PROCESS, 0, -20);
        }
    }
}
