//! How much the system is asked to prefer the threads of a run, and on which cores.
#![allow(unsafe_code)] // three calls without a safe interface

use crate::clock::MonotonicClock;
use dumbbell_core::units::{Duration, Instant};
use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::Pid;

/// Priority of senders and receivers: the lowest real-time priority (sched(7)), above all threads without one.
pub const ENDS: libc::c_int = 1;
/// Priority of the thread that forwards.
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

/// For a thread that the forwarder's has begun, which inherits its core, but not its priority: it keeps to all others.
pub fn leave_core() {
    let here = cores();
    let mut elsewhere = CpuSet::new();
    for core in (0..CpuSet::count()).filter(|core| !here.contains(core)) {
        let _ = elsewhere.set(core);
    }
    // of cores that are not there or not ours the kernel takes no notice; it refuses if none is left
    let _ = sched_setaffinity(Pid::from_raw(0), &elsewhere);
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
    // refused to a process that leads a session already, and to one that leads only a group: then the session is others', too
    let _ = nix::unistd::setsid();
    if nix::unistd::getsid(None) == Ok(nix::unistd::getpid()) {
        let _ = std::fs::write("/proc/self/autogroup", "-20");
    }
}

/// Cores do not sleep as long as this lives, if that is allowed, as it is to root: an idle core waits in a loop for what is to be done. To
/// wake one up takes some ten microseconds, on a virtual machine up to milliseconds, and whoever wakes it up waits for part of that
/// (Documentation/power/pm_qos_interface.rst of Linux: the latency that is allowed, 32 bits, holds while the file is open).
pub struct Awake(#[allow(dead_code)] Option<std::fs::File>);

impl Awake {
    /// From now on.
    pub fn keep() -> Awake {
        let ask = || {
            let mut file = std::fs::OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
            std::io::Write::write_all(&mut file, &0_i32.to_ne_bytes())?;
            Ok::<_, std::io::Error>(file)
        };
        Awake(ask().ok())
    }
}

/// How long a turn of [`SpinGuard`] is: the period in which the kernel counts real-time threads (sched(7), sched_rt_period_us).
const TURN: Duration = Duration::from_millis(1000);
/// When in its turn the thread steps back.
const STEP_BACK: Duration = Duration::from_millis(920);
/// CPU time up to there that makes it do so.
const MOST: Duration = Duration::from_millis(800);

/// Keeps a thread that spins from being stopped. The kernel stops real-time threads that take more than 950 ms of a second, for the rest of
/// that second: 50 ms, in which every frame is late (sched(7), sched_rt_runtime_us). So a thread that does not sleep steps back to the
/// ordinary policy for 80 ms of each second: on an idle core that costs nothing, and on others some milliseconds at a time.
#[derive(Debug)]
pub struct SpinGuard {
    priority: libc::c_int,
    turn: SpinTurn,
}

impl SpinGuard {
    /// For the calling thread, from now on. It does nothing for a thread without a real-time priority.
    pub fn new(clock: &MonotonicClock) -> SpinGuard {
        // SAFETY: it takes a number (sched_getscheduler(2): 0 is the caller).
        let policy = unsafe { libc::sched_getscheduler(0) };
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the pointer is to `parameters`, which outlives the call (sched_getparam(2): 0 is the caller).
        unsafe { libc::sched_getparam(0, &mut parameters) };
        let mut turn = SpinTurn::default();
        turn.begin(clock.now(), cpu_time());
        if policy < 0 || policy & !libc::SCHED_RESET_ON_FORK != libc::SCHED_FIFO {
            turn.next = Instant::NEVER;
        }
        SpinGuard { priority: parameters.sched_priority, turn }
    }

    /// To be called often, with the time that it is.
    #[inline]
    pub fn update(&mut self, now: Instant) {
        if now >= self.turn.next {
            let priority = if self.turn.steps_back(now, cpu_time()) { 0 } else { self.priority };
            set_real_time(priority);
        }
    }
}

/// One turn: real time at first, and no more after [`STEP_BACK`] if the thread has not slept.
#[derive(Debug, Default)]
struct SpinTurn {
    began: Instant,
    /// CPU time of the thread at that moment.
    computed: Duration,
    /// When there is something to decide.
    next: Instant,
}

impl SpinTurn {
    fn begin(&mut self, now: Instant, computed: Duration) {
        *self = SpinTurn { began: now, computed, next: now + STEP_BACK };
    }

    /// Decides whether the thread steps back, and returns that; `computed` is its CPU time so far.
    fn steps_back(&mut self, now: Instant, computed: Duration) -> bool {
        let over = self.began + TURN;
        if now < over && computed.saturating_sub(self.computed) >= MOST {
            self.next = over;
            return true;
        }
        self.begin(now, computed);
        false
    }
}

/// CPU time of the calling thread.
fn cpu_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(Duration::ZERO, |time| Duration(std::time::Duration::from(time).as_nanos() as u64))
}

/// How long the calling thread has waited for a core on average each time that it had something to do, while others had it
/// (/proc/PID/schedstat of proc(5): ns on the core, ns waiting for it, times on it); `None` where the kernel does not count that.
pub fn mean_core_wait() -> Option<Duration> {
    mean_wait(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

fn mean_wait(schedstat: &str) -> Option<Duration> {
    let mut numbers = schedstat.split_whitespace().skip(1).map(str::parse::<u64>);
    let (waited, times) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(Duration(waited.checked_div(times)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_sleep_steps_back_once_a_turn() {
        let mut turn = SpinTurn::default();
        turn.begin(Instant::from_millis(100), Duration::from_millis(10));
        assert_eq!(turn.next, Instant::from_millis(1020));
        // 910 ms of CPU time: back until the turn is over, then a new one
        assert!(turn.steps_back(Instant::from_millis(1020), Duration::from_millis(920)));
        assert_eq!(turn.next, Instant::from_millis(1100));
        assert!(!turn.steps_back(Instant::from_millis(1101), Duration::from_millis(990)));
        assert_eq!(turn.next, Instant::from_millis(2021));
        // 700 ms: it slept enough
        assert!(!turn.steps_back(Instant::from_millis(2021), Duration::from_millis(1690)));
        assert_eq!(turn.next, Instant::from_millis(2941));
        // after a stop of its own the turn is over anyhow
        assert!(!turn.steps_back(Instant::from_millis(3100), Duration::from_millis(2690)));
    }

    #[test]
    fn a_thread_of_the_forwarder_goes_to_another_core() {
        let all = cores();
        let after = |begin: fn()| {
            std::thread::spawn(move || {
                begin();
                std::thread::spawn(|| {
                    leave_core();
                    cores()
                })
                .join()
            })
            .join()
            .and_then(|found| found)
            .expect("no panic")
        };
        if let Some((_, others)) = all.split_last().filter(|_| all.len() > 1) {
            assert_eq!(after(|| pin(FORWARDER, &cores())), others);
            assert_eq!(after(|| pin(ENDS, &cores())), all[all.len() - 1..]);
        }
        // with no other core it stays where it is
        assert_eq!(after(|| ()), all);
    }

    #[test]
    fn what_the_kernel_counts_of_waiting() {
        assert_eq!(mean_wait("3146326244 298723793 114704\n"), Some(Duration(2604)));
        assert_eq!((mean_wait("1 2 0\n"), mean_wait("0 0"), mean_wait("")), (None, None, None));
    }
}
