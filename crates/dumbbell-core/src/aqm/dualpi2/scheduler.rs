//! Which of the two queues is served next.
//!
//! | scheduler | L is served ahead of C | from |
//! |---|---|---|
//! | `credit` | while the credit is not positive; L earns `classic_protection` per byte, C pays the rest of 100 | Linux 6.17, since 17 July 2019 |
//! | `time-shift` | unless the head of C is older than that of L by more than `t_shift` | PI2 of 2016 to June 2019 |
//! | `wrr-packets` | for `wrr_ratio` packets in a row | L4STeam/l4sdemo @11b1ae1, 2 July 2019 |
//! | `wrr-bytes` | while the credit is not positive; it moves even if nothing waits in the other queue | @fc0f216, 20 July 2019 |
//! | `wrr-bytes-turns` | for a turn of bytes, which starts again whenever L is alone or empty | @fc0f216, `WRR_OPT3` |

use crate::packet::Packet;
use crate::units::{Duration, Instant};

crate::choice! {
    /// Which of the two queues is served next.
    pub enum SchedulerKind {
        /// Weighted round robin by bytes, with credit for C.
        Credit = "credit",
        /// The longer delay, with a head start for L.
        TimeShift = "time-shift",
        /// Weighted round robin by packets.
        WrrPackets = "wrr-packets",
        /// Weighted round robin by bytes, as in the development version of July 2019.
        WrrBytes = "wrr-bytes",
        /// Weighted round robin by bytes, in turns.
        WrrBytesTurns = "wrr-bytes-turns",
    }
}

/// One of the two queues; the value is its number in [`At::queue`](crate::log::At::queue).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DualQueue {
    /// Low latency.
    L = 0,
    /// Classic.
    C = 1,
}

/// Decision of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerTurn {
    /// Whose head is taken.
    pub queue: DualQueue,
    /// Change of the credit if the packet is sent rather than dropped.
    change: i64,
}

impl SchedulerTurn {
    /// A turn of `queue` that changes no credit.
    #[inline]
    pub fn at_once(queue: DualQueue) -> SchedulerTurn {
        SchedulerTurn { queue, change: 0 }
    }
}

/// A scheduler with its memory.
#[derive(Clone, Copy, Debug)]
pub enum Scheduler {
    /// See [`SchedulerKind::Credit`].
    Credit {
        /// Credit that a byte of L earns, and that a byte of C pays.
        weights: (i64, i64),
        /// Credit after both queues were empty.
        init: i64,
        /// Positive: C is next.
        credit: i64,
    },
    /// See [`SchedulerKind::TimeShift`]; C also waits for `ratio` packets of L, if that is not 0.
    TimeShift {
        /// Head start of L.
        shift: Duration,
        /// The delay of L counts 2 to this power.
        speed: u32,
        /// Packets of L at least between two of C.
        ratio: u32,
        /// Packets of L since one of C.
        in_row: u32,
    },
    /// See [`SchedulerKind::WrrPackets`].
    WrrPackets {
        /// Packets of L between two of C.
        ratio: u32,
        /// Packets of L since one of C.
        in_row: u32,
    },
    /// See [`SchedulerKind::WrrBytes`].
    WrrBytes {
        /// Bytes of L for each byte of C.
        weight: i64,
        /// Credit after both queues were empty.
        init: i64,
        /// Positive: C is next.
        credit: i64,
    },
    /// See [`SchedulerKind::WrrBytesTurns`].
    WrrBytesTurns {
        /// Bytes of L in a turn.
        level: i64,
        /// Bytes of L in this turn.
        credit: i64,
    },
}

/// Parameters from which the schedulers are built.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// Share of C, per cent.
    pub classic_protection: u32,
    /// Head start of L.
    pub t_shift: Duration,
    /// The delay of L counts 2 to this power.
    pub t_speed: u32,
    /// Packets of L between two of C.
    pub wrr_ratio: u32,
}

impl Scheduler {
    /// A scheduler that has served nothing yet.
    pub fn new(kind: SchedulerKind, weights: &Weights, full_frame: u16) -> Scheduler {
        let mtu = i64::from(full_frame);
        let share = i64::from(weights.classic_protection);
        // the integer division is that of the module: 9 % is a ratio of 10
        let weight = 100 / share.max(1) - 1;
        match kind {
            SchedulerKind::Credit => {
                let init = mtu * (share - (100 - share));
                Scheduler::Credit { weights: (share, 100 - share), init, credit: init }
            }
            SchedulerKind::TimeShift => {
                Scheduler::TimeShift { shift: weights.t_shift, speed: weights.t_speed, ratio: weights.wrr_ratio, in_row: 0 }
            }
            SchedulerKind::WrrPackets => Scheduler::WrrPackets { ratio: weights.wrr_ratio, in_row: 0 },
            SchedulerKind::WrrBytes => Scheduler::WrrBytes { weight, init: mtu * (1 - weight), credit: mtu * (1 - weight) },
            SchedulerKind::WrrBytesTurns => Scheduler::WrrBytesTurns { level: mtu * weight, credit: mtu * weight },
        }
    }

    /// Whose turn it is, from the heads of both queues; `None` if both are empty.
    #[inline]
    pub fn next(&mut self, head_l: Option<&Packet>, head_c: Option<&Packet>, now: Instant) -> Option<SchedulerTurn> {
        let at_once = |queue| Some(SchedulerTurn::at_once(queue));
        let len = |packet: &Packet| i64::from(packet.len);
        match (self, head_l, head_c) {
            (Scheduler::Credit { init, credit, .. }, None, None) => {
                //= RFC 9332, section A.1
                //# The WRR credit is reset in favour of the L queue when the link is idle.
                *credit = *init;
                None
            }
            (Scheduler::Credit { .. }, Some(_), None) => at_once(DualQueue::L),
            (Scheduler::Credit { .. }, None, Some(_)) => at_once(DualQueue::C),
            (Scheduler::Credit { weights, credit, .. }, Some(l), Some(c)) => Some(match *credit <= 0 {
                true => SchedulerTurn { queue: DualQueue::L, change: weights.0 * len(l) },
                false => SchedulerTurn { queue: DualQueue::C, change: -weights.1 * len(c) },
            }),
            (Scheduler::TimeShift { in_row, .. } | Scheduler::WrrPackets { in_row, .. }, None, c) => {
                *in_row = 0;
                c.and_then(|_| at_once(DualQueue::C))
            }
            (Scheduler::TimeShift { shift, speed, ratio, in_row }, Some(l), c) => {
                //= RFC 9332, section A.2
                //# It works by selecting the head packet that has waited the longest, biased against the Classic traffic by a time-shift of
                //# tshift.
                let first = c.is_none_or(|c| {
                    let [delay_l, delay_c] = [l, c].map(|head| now.saturating_since(head.enqueue_time));
                    let counted = Duration(delay_l.0.saturating_mul(1 << *speed));
                    *in_row < *ratio || shift.saturating_add(counted) >= delay_c
                });
                *in_row = if first { in_row.saturating_add(1) } else { 0 };
                at_once(if first { DualQueue::L } else { DualQueue::C })
            }
            (Scheduler::WrrPackets { ratio, in_row }, Some(_), c) => {
                let first = c.is_none() || *in_row < *ratio;
                *in_row = if first { in_row.saturating_add(1) } else { 0 };
                at_once(if first { DualQueue::L } else { DualQueue::C })
            }
            (Scheduler::WrrBytes { init, credit, .. }, None, None) => {
                *credit = *init;
                None
            }
            (Scheduler::WrrBytes { weight, credit, .. }, l, c) => at_once(match (*credit <= 0, l, c) {
                (true, Some(l), _) => {
                    *credit += len(l);
                    DualQueue::L
                }
                (true, None, _) => DualQueue::C,
                (false, _, Some(c)) => {
                    *credit -= len(c) * *weight;
                    DualQueue::C
                }
                (false, ..) => DualQueue::L,
            }),
            (Scheduler::WrrBytesTurns { level, credit }, l, c) => {
                let queue = match (l, c) {
                    (Some(l), Some(_)) if *credit < *level => {
                        *credit += len(l);
                        return at_once(DualQueue::L);
                    }
                    (Some(_), None) => Some(DualQueue::L),
                    (_, Some(_)) => Some(DualQueue::C),
                    (None, None) => None,
                };
                *credit = 0;
                queue.and_then(at_once)
            }
        }
    }

    /// The packet of `turn` is sent.
    #[inline]
    pub fn charge_turn(&mut self, turn: SchedulerTurn) {
        if let Scheduler::Credit { credit, .. } = self {
            *credit += turn.change;
        }
    }

    /// Credit of C, in units of the scheduler; 0 for schedulers without.
    pub fn credit(&self) -> i64 {
        match self {
            Scheduler::Credit { credit, .. } | Scheduler::WrrBytes { credit, .. } | Scheduler::WrrBytesTurns { credit, .. } => {
                *credit
            }
            Scheduler::TimeShift { .. } | Scheduler::WrrPackets { .. } => 0,
        }
    }
}
