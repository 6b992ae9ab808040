//! How much the system is asked to prefer the threads of a run, and on which cores.
#![allow(unsafe_code)] // three calls without a safe interface

use crate::clock::Clock;
use dumbbell_core::units::Time;
use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::Pid;
use std::time::Duration;

/// Of senders and receivers: the lowest of the real-time priorities (sched(7)), above everything that has none.
pub const ENDS: libc::c_int = 1;
/// Of the thread that forwards.
pub const FORWARDER: libc::c_int = 2;

/// Cores that this process may use, in order.
fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|&core| allowed.is_set(core).unwrap_or(false)).collect()
}

/// The calling thread stays on the last of `cores` if `priority` is that of the forwarder, else on the others; the first core is the one
/// that most systems give interrupts to. Without this the thread that spins is moved about by those that it wakes up.
fn pin(priority: libc::c_int, cores: &[usize]) {
    let Some((last, others)) = cores.split_last() else { return };
    let mine = if priority == FORWARDER { std::slice::from_ref(last) } else { others };
    let mut set = CpuSet::new();
    if mine.iter().all(|&core| set.set(core).is_ok()) {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}

/// Asks for `priority`, a real-time one; 0 is for none. Returns whether that was allowed.
fn set_real_time(priority: libc::c_int) -> bool {
    let (policy, wanted) = if priority > 0 { (libc::SCHED_FIFO, priority) } else { (libc::SCHED_OTHER, 0) };
    let wanted = libc::sched_param { sched_priority: wanted };
    // SAFETY: it concerns the calling thread alone (sched_setscheduler(2): 0 is the caller). `wanted` is only read.
    unsafe { libc::sched_setscheduler(0, policy | libc::SCHED_RESET_ON_FORK, &wanted) >= 0 }
}

/// The thread that calls is to be woken to the nanosecond, and before others where that is allowed: by a real-time priority, since a nice
/// value counts only within a session or control group. Where there is one core only it would take that from the senders. Without
/// permission the thread goes on as it is: the lateness of a run shows what that costs.
pub fn raise(priority: libc::c_int) {
    // SAFETY: it concerns the calling thread alone (prctl(2)) and takes numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0, 0, 0) };
    let cores = cores();
    let is_alone = cores.len() > 1;
    if is_alone {
        pin(priority, &cores);
    }
    if !is_alone || !set_real_time(priority) {
        // SAFETY: it concerns the calling thread alone (setpriority(2): 0 is the caller) and takes numbers.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    }
}

/// The process is to have a session of its own, and that the largest share of the cores that a session can have (sched(7), autogroup):
/// what counts as long as its threads have no real-time priority. Where sessions have no shares, or without permission, nothing changes.
pub fn own_session() {
    if nix::unistd::setsid().is_ok() {
        let _ = std::fs::write("/proc/self/autogroup", "-20");
    }
}

/// How long a turn of [`Turns`] is: the period in which the kernel counts real-time threads (sched(7), sched_rt_period_us).
const TURN: Time = Time::from_millis(1000);
/// When in its turn the thread steps back.
const STEP_BACK: Time = Time::from_millis(920);
/// CPU time up to there that makes it do so.
const MOST: Duration = Duration::from_millis(800);

/// Keeps a thread that spins from being stopped. The kernel stops real-time threads that take more than 950 ms of a second, for the rest of
/// that second: 50 ms, in which every frame is late (sched(7), sched_rt_runtime_us). So a thread that does not sleep steps back to the
/// ordinary policy for 80 ms of each second: on an idle core that costs nothing, and on others some milliseconds at a time.
#[derive(Debug)]
pub struct Turns {
    priority: libc::c_int,
    began: Time,
    /// CPU time of the thread at that moment.
    computed: Duration,
    next: Time,
    is_back: bool,
}

impl Turns {
    /// For the calling thread, from now on. It does nothing for a thread without a real-time priority.
    pub fn new(clock: &Clock) -> Turns {
        // SAFETY: it takes a number (sched_getscheduler(2): 0 is the caller).
        let policy = unsafe { libc::sched_getscheduler(0) };
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the pointer is to `parameters`, which outlives the call (sched_getparam(2): 0 is the caller).
        unsafe { libc::sched_getparam(0, &mut parameters) };
        let now = clock.now();
        let is_real_time = policy >= 0 && policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO;
        let next = if is_real_time { now + STEP_BACK } else { Time::NEVER };
        Turns { priority: parameters.sched_priority, began: now, computed: computed(), next, is_back: false }
    }

    /// To be called often, with the time that it is.
    #[inline]
    pub fn look(&mut self, now: Time) {
        if now >= self.next {
            self.turn(now);
        }
    }

    fn turn(&mut self, now: Time) {
        let over = self.began + TURN;
        if now < over && computed().saturating_sub(self.computed) >= MOST {
            self.is_back = set_real_time(0);
            self.next = over;
            return;
        }
        if self.is_back {
            self.is_back = !set_real_time(self.priority);
        }
        (self.began, self.computed, self.next) = (now, computed(), now + STEP_BACK);
    }
}

/// CPU time of the calling thread.
fn computed() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
