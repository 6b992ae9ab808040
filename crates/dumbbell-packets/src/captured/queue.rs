//! What a queue did, found out from what arrived at it and what left it.

use super::{wrong, Captured, Fates, Frames, Passing, Place, Transmission};
use crate::fate::{Dropped, Marked};
use dumbbell_core::log::{DropReason, Mark, Place as DropPlace};
use dumbbell_core::packet::Ecn;
use dumbbell_core::units::Time;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::PathBuf;

/// A queue whose decisions nobody told.
#[derive(Clone, Debug)]
pub struct Queue {
    /// The file of what arrived.
    pub arrived: PathBuf,
    /// The file of what left the queue.
    pub left: PathBuf,
    /// How many records of the first one there have to be until the end of the run.
    pub count: u64,
    /// It drops what arrives, not what it holds.
    pub drops_on_arrival: bool,
    /// Packets of different flows may overtake each other. Those of one flow never do.
    pub flow_queues: bool,
    /// Packets that fit: what is dropped while so many are queued did not fit. `None`: nobody can tell.
    pub limit: Option<u64>,
    /// Drops that it has counted until the end of the run.
    pub drops: u64,
}

/// A packet that is queued, as far as is known.
struct Waiting {
    of: Transmission,
    time: Time,
    ecn: Ecn,
    /// Packets that had arrived before and not left, dropped or not.
    ahead: u64,
}

/// A drop, with how many packets were queued then.
struct Found {
    of: Transmission,
    at: Time,
    queued: u64,
}

impl Queue {
    /// Finds its marks and drops. What waits in one queue leaves in the order in which it came, so that those in between were dropped. What came after the last that left is still queued,
    /// unless the queue counts more drops than were found: `dumbbell_measure::from_capture` counts so, too.
    pub(super) fn look(&self, captured: &Captured, hop: u16, duration: Time, fates: &mut Fates) -> io::Result<()> {
        let open = |path: &PathBuf| Frames::open(captured, path, Place::Into(hop), Time::ZERO);
        let (mut arrivals, mut departures) = (open(&self.arrived)?, open(&self.left)?);
        let (mut arrived, mut left) = (arrivals.next()?, departures.next()?);
        let mut waiting: HashMap<u32, VecDeque<Waiting>> = HashMap::new();
        let (mut found, mut queued, mut count) = (Vec::new(), 0, 0);
        loop {
            match (&arrived, &left) {
                // at one instant a packet arrives first
                (Some(Passing { time, whose, frame, .. }), other) if other.as_ref().is_none_or(|one| *time <= one.time) => {
                    let queue = if self.flow_queues { whose.number } else { 0 };
                    let of = Transmission::of(*whose, frame);
                    waiting.entry(queue).or_default().push_back(Waiting { of, time: *time, ecn: frame.ecn, ahead: queued });
                    queued += 1;
                    if *time <= duration {
                        count = arrivals.records;
                    }
                    arrived = arrivals.next()?;
                }
                (_, Some(Passing { time, whose, frame, .. })) => {
                    let of = Transmission::of(*whose, frame);
                    let queue = waiting.entry(if self.flow_queues { whose.number } else { 0 }).or_default();
                    loop {
                        let one = queue.pop_front().ok_or_else(|| {
                            wrong(format!("flow {}: a packet left the queue at {time} that had not arrived", whose.number))
                        })?;
                        queued -= 1;
                        if one.of == of {
                            if frame.ecn == Ecn::Ce && one.ecn != Ecn::Ce {
                                fates.mark(of, Marked { hop, mark: Mark::Ce, reason: None });
                            }
                            break;
                        }
                        found.push(self.dropped(one, *time, queued));
                    }
                    left = departures.next()?;
                }
                (_, None) => break,
            }
        }
        if count != self.count {
            let text = format!("{count} records of what arrived at hop {hop}, and the run has {}", self.count);
            return Err(wrong(text));
        }
        let seen = found.iter().filter(|one| one.at <= duration).count() as u64;
        let mut rest: Vec<Waiting> = waiting.into_values().flatten().filter(|one| one.time <= duration).collect();
        rest.sort_by_key(|one| one.time);
        let more = usize::try_from(self.drops.saturating_sub(seen)).unwrap_or(usize::MAX);
        found.extend(rest.into_iter().take(more).map(|one| Found { of: one.of, at: one.time, queued: one.ahead }));
        if self.drops_on_arrival {
            // of those that had not left, these had not been taken in
            found.sort_by_key(|one| one.at);
            (0..).zip(&mut found).for_each(|(before, one)| one.queued = one.queued.saturating_sub(before));
        }
        for Found { of, at, queued: held } in found {
            let reason = self.limit.map(|limit| if held >= limit { DropReason::Overflow } else { DropReason::Aqm });
            let place = self.drops_on_arrival.then_some(DropPlace::Arrival);
            fates.drop_packet(of, Dropped { hop, reason, place, at });
        }
        Ok(())
    }

    /// The packet was dropped, of which that is known once another one left at `now`; `queued` are left.
    fn dropped(&self, one: Waiting, now: Time, queued: u64) -> Found {
        if self.drops_on_arrival {
            return Found { of: one.of, at: one.time, queued: one.ahead };
        }
        Found { of: one.of, at: now, queued }
    }
}
