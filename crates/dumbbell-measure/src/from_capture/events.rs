//! Events of packets at a queue, derived from captures ahead of it and behind it.

use super::records::{frames, CapturedFrame};
use super::tail_drop::TailDropQueue;
use super::{CaptureError, HopCaptures};
use dumbbell_config::{RunConfig, Shaper};
use dumbbell_core::aqm::AqmSpec;
use dumbbell_core::packet::Ecn;
use dumbbell_core::units::{Duration, Instant, Rate};
use std::collections::VecDeque;

/// An event of a packet at the queue.
#[derive(Clone, Copy, Debug)]
pub enum QueueEvent {
    Arrived,
    Dropped,
    /// The packet was marked CE; this was its codepoint before.
    Marked(Ecn),
    /// The packet was sent on; it had arrived at this time.
    Sent(Instant),
    /// The packet left the link, this long after it had arrived at the queue.
    Departed {
        /// When it had arrived at the queue.
        since: Instant,
        /// How long after that.
        delay: Duration,
    },
}

/// Everything that happened at the queue of hop `hop`, in order of time: packets that arrived are found again among those that left. What waits in
/// one queue leaves in the order in which it came, so that those in between were dropped: as they arrived, if the queue discipline signals then or the
/// queue was full, else as the next one left. What came after the last that left is still queued, unless the queue discipline counts more drops than
/// were found.
pub fn events(
    captured: &HopCaptures,
    started: u64,
    (hop, config): (usize, &RunConfig),
    senders: usize,
) -> Result<Vec<(Instant, QueueEvent, CapturedFrame)>, CaptureError> {
    let (link, aqm) = hop.checked_sub(1).map_or((&config.bottleneck, &config.aqm), |other| {
        let other = &config.hops[other];
        (&other.params, &other.aqm)
    });
    let shapes = matches!(aqm, AqmSpec::Cake(params) if params.bandwidth != Some(Rate(0)));
    let serial = link.shaper == Shaper::Link && !shapes;
    let stranger = |frame: &CapturedFrame| CaptureError::Capture(format!("a packet of flow {}, of {senders}", frame.flow));
    let queue_of = |frame: &CapturedFrame| if captured.flow_queues { frame.flow as usize } else { 0 };
    let mut waiting: Vec<VecDeque<CapturedFrame>> = vec![VecDeque::new(); if captured.flow_queues { senders } else { 1 }];
    let arrived = frames(captured.arrived, started)?;
    let sent = frames(captured.sent, started)?;
    let mut all = Vec::with_capacity(2 * arrived.len());
    for frame in arrived {
        if frame.flow as usize >= senders {
            return Err(stranger(&frame));
        }
        waiting[queue_of(&frame)].push_back(frame);
        all.push((frame.time, QueueEvent::Arrived, frame));
    }
    let mut free = Instant::ZERO;
    let mut room = (!captured.signals_on_arrival && !captured.flow_queues).then(|| TailDropQueue::new(captured.limit));
    let mut find_room = |came, left, dropped| room.as_mut().is_none_or(|queue| queue.take(came, left, dropped));
    for frame in sent {
        if frame.flow as usize >= senders {
            return Err(stranger(&frame));
        }
        let queue = &mut waiting[queue_of(&frame)];
        loop {
            match queue.pop_front() {
                Some(one) if (one.flow, one.id, one.seq) == (frame.flow, frame.id, frame.seq) => {
                    if frame.ecn == Ecn::Ce && one.ecn != Ecn::Ce {
                        let at = if captured.signals_on_arrival { one.time } else { frame.time };
                        all.push((at, QueueEvent::Marked(one.ecn), frame));
                    }
                    find_room(one.time, frame.time, false);
                    all.push((frame.time, QueueEvent::Sent(one.time), frame));
                    let mut changes = config.rate_changes.iter().rev();
                    let change = changes.find(|change| usize::from(change.hop) == hop && change.at <= frame.time);
                    let rate = change.map_or(link.rate, |change| change.rate);
                    let wire = if serial { rate.serialise(u64::from(frame.len)) } else { Duration::ZERO };
                    // A token bucket with a burst of one frame may let two frames out at once; the link behind it sends one by one. Only
                    // delays are resolved that finely: a counted frame departs as if the link had been free.
                    free = free.max(frame.time) + wire;
                    let delay = free.saturating_since(one.time);
                    all.push((frame.time + wire, QueueEvent::Departed { since: one.time, delay }, frame));
                    break;
                }
                Some(one) if one.time <= frame.time => {
                    let on_arrival = captured.signals_on_arrival || !find_room(one.time, frame.time, true);
                    all.push((if on_arrival { one.time } else { frame.time }, QueueEvent::Dropped, one));
                }
                _ => {
                    let found = format!("flow {}: a packet left the queue at {} that had not arrived", frame.flow, frame.time);
                    return Err(CaptureError::Capture(found));
                }
            }
        }
    }
    // of what never left, so many as the queue says that it dropped besides: those that found no room, then the oldest
    let over = config.end();
    let seen = all.iter().filter(|&&(time, event, _)| matches!(event, QueueEvent::Dropped) && time <= over).count() as u64;
    let told = captured.counters.get("drops").copied().unwrap_or(0);
    let mut left: Vec<CapturedFrame> = waiting.into_iter().flatten().filter(|frame| frame.time <= over).collect();
    left.sort_by_cached_key(|frame| (find_room(frame.time, over, true), frame.time));
    let dropped = usize::try_from(told.saturating_sub(seen)).unwrap_or(usize::MAX);
    all.extend(left.into_iter().take(dropped).map(|frame| (frame.time, QueueEvent::Dropped, frame)));
    // stable: at one instant a packet arrives, then it is dropped or sent
    all.sort_by_key(|&(time, ..)| time);
    Ok(all)
}
