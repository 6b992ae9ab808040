//! Events of packets at a queue, derived from captures ahead of it and behind it.

use super::records::{frames, CapturedFrame};
use super::tail_drop::{drop_waiting, find_overflows, QueueRoom, QueuedPacket};
use super::{CaptureError, HopCaptures};
use dumbbell_config::{RunConfig, Shaper};
use dumbbell_core::aqm::AqmSpec;
use dumbbell_core::log::DropReason;
use dumbbell_core::packet::Ecn;
use dumbbell_core::units::{Duration, Instant, Rate};
use std::collections::VecDeque;

/// An event of a packet at the queue.
#[derive(Clone, Copy, Debug)]
pub enum QueueEvent {
    Arrived,
    Dropped(DropReason),
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
    let mut waiting: Vec<VecDeque<(usize, CapturedFrame)>> =
        vec![VecDeque::new(); if captured.flow_queues { senders } else { 1 }];
    let arrived = frames(captured.arrived, started)?;
    let sent = frames(captured.sent, started)?;
    let mut all = Vec::with_capacity(2 * arrived.len());
    let mut packets: Vec<QueuedPacket> = Vec::with_capacity(arrived.len());
    for frame in &arrived {
        if frame.flow as usize >= senders {
            return Err(stranger(frame));
        }
        waiting[queue_of(frame)].push_back((packets.len(), *frame));
        packets.push(QueuedPacket { came: frame.time, left: Instant::NEVER, is_dropped: false });
        all.push((frame.time, QueueEvent::Arrived, *frame));
    }
    let mut free = Instant::ZERO;
    for frame in sent {
        if frame.flow as usize >= senders {
            return Err(stranger(&frame));
        }
        let queue = &mut waiting[queue_of(&frame)];
        loop {
            match queue.pop_front() {
                Some((number, one)) if (one.flow, one.id, one.seq) == (frame.flow, frame.id, frame.seq) => {
                    if frame.ecn == Ecn::Ce && one.ecn != Ecn::Ce {
                        let at = if captured.signals_on_arrival { one.time } else { frame.time };
                        all.push((at, QueueEvent::Marked(one.ecn), frame));
                    }
                    packets[number].left = frame.time;
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
                Some((number, one)) if one.time <= frame.time => {
                    packets[number] = QueuedPacket { left: frame.time, is_dropped: true, ..packets[number] };
                }
                _ => {
                    let found = format!("flow {}: a packet left the queue at {} that had not arrived", frame.flow, frame.time);
                    return Err(CaptureError::Capture(found));
                }
            }
        }
    }
    let over = config.end();
    let seen = packets.iter().filter(|one| one.is_dropped && one.left <= over).count() as u64;
    let told = captured.counters.get("drops").copied().unwrap_or(0);
    let rest = waiting.into_iter().flatten().filter(|(_, frame)| frame.time <= over).map(|(number, _)| number);
    let room = QueueRoom { limit: captured.limit, drops_queued: !captured.signals_on_arrival };
    // of what never left, so many as the queue says that it dropped besides
    drop_waiting(&mut packets, rest, told.saturating_sub(seen), &room);
    let full = find_overflows(&packets, &room);
    for ((one, found_full), frame) in packets.iter().zip(full).zip(arrived).filter(|((one, _), _)| one.is_dropped) {
        let reason = if found_full { DropReason::Overflow } else { DropReason::Aqm };
        all.push((
            if found_full || captured.signals_on_arrival { one.came } else { one.left },
            QueueEvent::Dropped(reason),
            frame,
        ));
    }
    // stable: at one instant a packet arrives, then it is dropped or sent
    all.sort_by_key(|&(time, ..)| time);
    Ok(all)
}
