//! The thread between two ports: takes frames in, lets both directions work, and sends what is due.

use crate::clock::{MonotonicClock, Stamps};
use crate::direction::{Departure, Direction};
use crate::lateness::Lateness;
use crate::port::{FramePort, BATCH};
use crate::priority::SpinGuard;
use dumbbell_core::aqm::Aqm;
use dumbbell_core::units::{Duration, Instant};
use nix::poll::{ppoll, PollFd, PollFlags};
use nix::sys::time::TimeSpec;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Frames that are taken from a port before due frames are sent again.
const TAKEN_AT_ONCE: usize = 64;
/// Longest sleep, after which the thread looks whether it shall end.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
/// Times that the kernel may refuse to take a frame, as it does if its memory for us is full, before the frame is given up.
const TRIES: u32 = 1000;
/// A round without work takes below 1 us, of which most are looks at the clock.
const LONGEST_IDLE: Duration = Duration::from_micros(20);
/// Bounds of [`WakeLead`]: what a sleep is shortened by at least and at most.
const SPIN: [Duration; 2] = [Duration::from_micros(20), Duration::from_micros(100)];

/// Looks at a run while it goes on, or steers it: series, changes of rate, a live view.
pub trait RunWatcher<A: Aqm> {
    /// When it is called next; [`Instant::NEVER`] for no more.
    fn next(&self) -> Instant;

    /// Handles the time `now`, for which it asked; all that was due until then has happened.
    fn on_time(&mut self, now: Instant, directions: &mut [Direction<A>; 2], lateness: &mut [Lateness; 2]);
}

/// Watches nothing.
impl<A: Aqm> RunWatcher<A> for () {
    fn next(&self) -> Instant {
        Instant::NEVER
    }

    fn on_time(&mut self, _now: Instant, _directions: &mut [Direction<A>; 2], _lateness: &mut [Lateness; 2]) {}
}

/// How long before its time a sleeper wants to be woken, so that it is there in time: somewhat longer than it overslept of late. The
/// rest of the time it spins.
#[derive(Clone, Copy, Debug)]
struct WakeLead(Duration);

impl WakeLead {
    /// Notes a round without a sleep: the estimate decays by 1 ns per round, since only sleeps bring new measurements. A round takes about 1 us.
    fn stayed_awake(&mut self) {
        self.0 = Duration(self.0 .0 - 1).max(SPIN[0]);
    }

    fn add_oversleep(&mut self, by: Duration) {
        // a late awakening counts at once, and is forgotten over some hundreds of timely ones
        let faded = self.0 .0 - self.0 .0 / 256;
        self.0 = Duration(faded.max(by.0 + by.0 / 4)).clamp(SPIN[0], SPIN[1]);
    }
}

/// Counters of the thread's work.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopCounters {
    /// Rounds of its loop.
    pub rounds: u64,
    /// Rounds in which it slept.
    pub sleeps: u64,
    /// Time of rounds in which there was nothing to do, without the sleeps: the thread spun. A round that took longer than
    /// `LONGEST_IDLE` was interrupted and does not count.
    pub idle: Duration,
    /// Tries to send after which the kernel had taken nothing.
    pub refused_sends: u64,
    /// Frames that were given up after many tries: they are lost.
    pub unsent: u64,
}

/// Two ports and what lies between them: frames of port 0 go through direction 0 to port 1, those of port 1 through direction 1 to port 0.
pub struct Forwarder<A: Aqm, P: FramePort> {
    /// Both interfaces.
    pub ports: [P; 2],
    /// The two directions between the ends.
    pub directions: [Direction<A>; 2],
    /// How late the frames of each direction were sent.
    pub lateness: [Lateness; 2],
    /// The thread's work so far.
    pub effort: LoopCounters,
    patience: WakeLead,
}

impl<A: Aqm, P: FramePort> Forwarder<A, P> {
    /// Nothing has been forwarded yet.
    pub fn new(ports: [P; 2], directions: [Direction<A>; 2]) -> Forwarder<A, P> {
        let lateness = Default::default();
        Forwarder { ports, directions, lateness, effort: LoopCounters::default(), patience: WakeLead(SPIN[0]) }
    }

    /// Forwards until one of `stops` is set.
    ///
    /// # Errors
    /// An interface is gone.
    pub fn run(&mut self, clock: &MonotonicClock, stops: &[&AtomicBool], watch: &mut impl RunWatcher<A>) -> io::Result<()> {
        let mut turns = SpinGuard::new(clock);
        // when the last round began, if it had nothing to do and did not sleep
        let mut spun_since = None;
        while !stops.iter().any(|stop| stop.load(Ordering::Relaxed)) {
            self.effort.rounds += 1;
            let began = clock.stamps();
            let spun = spun_since.map_or(Duration::ZERO, |since| began.now - since);
            if spun <= LONGEST_IDLE {
                self.effort.idle += spun;
            }
            turns.update(began.now);
            let is_idle = !self.round(clock, began, watch)? && !self.wait(clock, watch.next())?;
            spun_since = is_idle.then_some(began.now);
        }
        Ok(())
    }

    /// Takes in what has arrived and sends what is due, in a round that began at `began`. Returns whether there was anything.
    fn round(&mut self, clock: &MonotonicClock, began: Stamps, watch: &mut impl RunWatcher<A>) -> io::Result<bool> {
        let (mut busy, mut behind) = (false, [false; 2]);
        for ((port, direction), is_behind) in self.ports.iter_mut().zip(&mut self.directions).zip(&mut behind) {
            let taken = port.receive(TAKEN_AT_ONCE, &mut |frame, wall| direction.arrive(frame, began.time(wall)))?;
            (busy, *is_behind) = (busy | (taken > 0), taken == TAKEN_AT_ONCE);
        }
        let now = if busy { clock.now() } else { began.now };
        // Frames that are still in a ring arrived after those that were taken. Nothing may happen before they are in.
        let mut until = [now; 2];
        for (end, (direction, is_behind)) in until.iter_mut().zip(self.directions.iter().zip(behind)) {
            if is_behind {
                *end = direction.now();
            }
        }
        let both = until[0].min(until[1]);
        while watch.next() <= both {
            let at = watch.next();
            self.directions.iter_mut().for_each(|direction| direction.advance(at));
            watch.on_time(at, &mut self.directions, &mut self.lateness);
        }
        for (from, end) in until.into_iter().enumerate() {
            self.directions[from].advance(end);
            busy |= self.send_due(from, end, clock)?;
        }
        Ok(busy)
    }

    /// Sends what is due in direction `from` until `until`. Returns whether there was anything.
    fn send_due(&mut self, from: usize, until: Instant, clock: &MonotonicClock) -> io::Result<bool> {
        let (direction, port) = (&mut self.directions[from], &mut self.ports[1 - from]);
        let mut any = false;
        loop {
            let mut batch = [Departure { due: Instant::ZERO, frame: 0 }; BATCH];
            let mut count = 0;
            while count < BATCH {
                let Some(departure) = direction.depart(until) else { break };
                batch[count] = departure;
                count += 1;
            }
            if count == 0 {
                return Ok(any);
            }
            any = true;
            if direction.is_traced() {
                // ahead of the call: within it the other end may answer
                let now = clock.now();
                batch[..count].iter().for_each(|one| direction.sends(one.frame, now));
            }
            let mut frames: [&[u8]; BATCH] = [&[]; BATCH];
            for (place, departure) in frames.iter_mut().zip(&batch[..count]) {
                *place = direction.bytes(departure.frame);
            }
            let (mut sent, mut tries) = (0, 0);
            while sent < count && tries < TRIES {
                let more = port.send(&frames[sent..count])?;
                // when the call returns the other end has them: the kernel does its work within it
                let after = clock.now();
                batch[sent..sent + more].iter().for_each(|one| self.lateness[from].record(after.saturating_since(one.due)));
                tries += u32::from(more == 0);
                sent += more;
            }
            self.effort.refused_sends += u64::from(tries);
            self.effort.unsent += (count - sent) as u64;
            batch[..count].iter().for_each(|one| direction.release_frame(one.frame));
        }
    }

    /// Sleeps until a frame arrives or shortly before something is due. Returns whether it slept.
    fn wait(&mut self, clock: &MonotonicClock, watched: Instant) -> io::Result<bool> {
        let next = self.directions.iter().map(Direction::next_wakeup).fold(watched, Instant::min);
        let now = clock.now();
        let awake = next.saturating_sub(self.patience.0);
        if awake <= now {
            self.patience.stayed_awake();
            return Ok(false);
        }
        let target = awake.min(now + LONGEST_SLEEP);
        let sleep = target - now;
        let [first, second] = &self.ports;
        let mut polled = [PollFd::new(first.fd(), PollFlags::POLLIN), PollFd::new(second.fd(), PollFlags::POLLIN)];
        let woken =
            match ppoll(&mut polled, Some(TimeSpec::new((sleep.0 / 1_000_000_000) as _, (sleep.0 % 1_000_000_000) as _)), None) {
                Err(nix::errno::Errno::EINTR) => return Ok(true),
                other => other?,
            };
        self.effort.sleeps += 1;
        if woken == 0 {
            self.patience.add_oversleep(clock.now().saturating_since(target));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::Treatment;
    use crate::frame::tests::ipv4;
    use dumbbell_core::aqm::pfifo;
    use std::collections::VecDeque;
    use std::fs::File;
    use std::os::fd::{AsFd, BorrowedFd};

    /// Frames that have arrived at an interface, and when; nothing that is sent goes anywhere.
    struct Arrived(VecDeque<u64>, File);

    impl FramePort for Arrived {
        fn receive(&mut self, most: usize, take: &mut dyn FnMut(&[u8], u64)) -> io::Result<usize> {
            let taken = self.0.len().min(most);
            self.0.drain(..taken).for_each(|wall| take(&ipv4(40_000, 0, 66), wall));
            Ok(taken)
        }

        fn send(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
            Ok(frames.len())
        }

        fn fd(&self) -> BorrowedFd<'_> {
            self.1.as_fd()
        }

        fn overrun(&mut self) -> io::Result<u64> {
            Ok(0)
        }
    }

    #[test]
    fn after_a_stall_every_frame_counts_from_its_own_arrival() {
        let clock = MonotonicClock::start();
        std::thread::sleep(std::time::Duration::from_millis(30));
        // the first frame came 20 ms ago, and the others 10 us after each other
        let began = clock.stamps();
        let frames = 5 * TAKEN_AT_ONCE as u64;
        let walls = (0..frames).map(|number| began.wall - 20_000_000 + 10_000 * number).collect();
        let ports = [walls, VecDeque::new()].map(|walls| Arrived(walls, File::open("/dev/null").expect("a file")));
        let line =
            || Direction::<pfifo::State>::new(None, Treatment { delay: Duration::from_secs(3600), ..Treatment::default() }, 4096);
        let mut forwarder = Forwarder::new(ports, [line(), line()]);
        while forwarder.round(&clock, began, &mut ()).expect("no error") {}
        let due: Vec<Instant> =
            std::iter::from_fn(|| forwarder.directions[0].depart(Instant::from_secs(7200)).map(|one| one.due)).collect();
        let arrived = (0..frames).map(|number| began.now - Duration::from_millis(20) + Duration::from_micros(10 * number));
        assert_eq!(due, arrived.map(|at| at + Duration::from_secs(3600)).collect::<Vec<_>>());
    }

    #[test]
    fn patience_grows_at_once_and_shrinks_slowly() {
        let mut patience = WakeLead(SPIN[0]);
        patience.add_oversleep(Duration::from_micros(64));
        assert_eq!(patience.0, Duration::from_micros(80));
        patience.add_oversleep(Duration::ZERO);
        assert_eq!(patience.0, Duration(80_000 - 312));
        (0..1000).for_each(|_| patience.add_oversleep(Duration::ZERO));
        assert_eq!(patience.0, SPIN[0]);
        patience.add_oversleep(Duration::from_secs(1));
        assert_eq!(patience.0, SPIN[1]);
        // it must not spin for ever after one bad moment
        (0..80_000).for_each(|_| patience.stayed_awake());
        assert_eq!(patience.0, SPIN[0]);
    }
}
