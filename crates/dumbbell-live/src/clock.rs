//! The real clock of a run.

use dumbbell_core::units::{Duration, Instant};
use nix::sys::time::TimeSpec;
use nix::time::{clock_gettime, clock_nanosleep, ClockId, ClockNanosleepFlags};
use std::io;

fn nanoseconds(clock: ClockId) -> u64 {
    // these clocks exist on every Linux, and are after 1970
    clock_gettime(clock).map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Time since the start of a run, by the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    started: u64,
}

impl MonotonicClock {
    /// A run that starts now.
    pub fn start() -> MonotonicClock {
        MonotonicClock { started: nanoseconds(ClockId::CLOCK_MONOTONIC) }
    }

    /// A run that starts when the clock of the system is at `time`, ns.
    pub fn started_at(time: u64) -> MonotonicClock {
        MonotonicClock { started: time }
    }

    /// Returns at the start, or at once if that is over.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait_for_start(&self) -> io::Result<()> {
        let start = TimeSpec::from_duration(std::time::Duration::from_nanos(self.started));
        loop {
            match clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &start) {
                Err(nix::errno::Errno::EINTR) => {}
                other => return other.map(|_| ()).map_err(io::Error::from),
            }
        }
    }

    /// The time since the start; zero before it.
    pub fn now(&self) -> Instant {
        Instant(nanoseconds(ClockId::CLOCK_MONOTONIC).saturating_sub(self.started))
    }

    /// How wall-clock times are turned into times of the run, as the two clocks stand now.
    pub fn stamps(&self) -> Stamps {
        Stamps { now: self.now(), wall: nanoseconds(ClockId::CLOCK_REALTIME) }
    }
}

/// The clock of the run and the wall clock at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    /// By the clock of the run.
    pub now: Instant,
    /// By that of the wall, ns since 1970.
    pub wall: u64,
}

impl Stamps {
    /// The time of the run at `wall`, ns since 1970, of something that has happened: never later than the moment of these stamps.
    pub fn time(&self, wall: u64) -> Instant {
        self.now.saturating_sub(Duration(self.wall.saturating_sub(wall)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_as_long_ago_on_both_clocks() {
        let stamps = Stamps { now: Instant(500), wall: 10_000 };
        let of = |wall| stamps.time(wall);
        // 100 ns ago; in the future, after a step of the wall clock; before the start
        assert_eq!((of(9_900), of(10_700), of(9)), (Instant(400), Instant(500), Instant::ZERO));
    }
}
