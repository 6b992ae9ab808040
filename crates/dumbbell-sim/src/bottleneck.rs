//! The bottleneck: a queue discipline in front of a link or a token bucket.

use crate::config::Shaper;
use dumbbell_core::aqm::{Aqm, Dequeue};
use dumbbell_core::packet::Packet;
use dumbbell_core::record::{Histogram, QueueLog};
use dumbbell_core::units::{Rate, Time};

/// A token bucket as Linux HTB keeps it: tokens are nanoseconds of transmission; a packet may leave while there is no
/// debt, and then runs into debt, so that two may follow each other after an idle time.
#[derive(Clone, Debug)]
struct Bucket {
    tokens: i64,
    depth: i64,
    filled_at: Time,
}

impl Bucket {
    /// Debt left at `now`, as time to wait.
    fn debt(&mut self, now: Time) -> Time {
        let gained = (now - self.filled_at).0.min(i64::MAX as u64 / 2) as i64;
        self.tokens = (self.tokens + gained).min(self.depth);
        self.filled_at = now;
        Time((-self.tokens).max(0) as u64)
    }
}

enum Pace {
    Serial,
    Bucket(Bucket),
    /// The queue discipline shapes by itself.
    Immediate,
}

/// Queue, link and what is counted there.
pub struct Bottleneck<A: Aqm> {
    /// Queue discipline.
    pub aqm: A,
    /// Per-flow and per-queue counters.
    pub log: QueueLog,
    /// Time in queue of each packet that left it, data or other, by connection class.
    pub sojourn: Vec<Histogram>,
    /// Connection class of each flow.
    class_of: Vec<u16>,
    /// The same since the last point of the time series: sum in ns and count.
    pub recent_sojourn: (u64, u64),
    /// Bytes that left.
    pub bytes: u64,
    /// Packets that left.
    pub packets: u64,
    /// Packet on the wire.
    in_service: Option<Packet>,
    /// When the link needs attention.
    pub next: Time,
    pace: Pace,
    rate: Rate,
    burst: u32,
}

impl<A: Aqm> Bottleneck<A> {
    /// An idle bottleneck for flows of the connection classes `class_of`.
    pub fn new(aqm: A, class_of: Vec<u16>, rate: Rate, shaper: Shaper, burst: u32) -> Bottleneck<A> {
        let pace = match shaper {
            _ if aqm.shapes() => Pace::Immediate,
            Shaper::Link => Pace::Serial,
            Shaper::Htb => {
                let depth = rate.serialise(u64::from(burst)).0 as i64;
                Pace::Bucket(Bucket { tokens: depth, depth, filled_at: Time::ZERO })
            }
        };
        Bottleneck {
            aqm,
            log: QueueLog::new(class_of.len()),
            sojourn: vec![Histogram::default(); class_of.iter().max().map_or(1, |&last| usize::from(last) + 1)],
            class_of,
            recent_sojourn: (0, 0),
            bytes: 0,
            packets: 0,
            in_service: None,
            next: Time::NEVER,
            pace,
            rate,
            burst,
        }
    }

    /// A packet reaches the queue.
    #[inline]
    pub fn arrive(&mut self, packet: Packet, now: Time) {
        self.log.flows[packet.flow as usize].arrived += 1;
        self.aqm.enqueue(packet, now, &mut self.log);
        if self.next == Time::NEVER {
            self.serve(now);
        }
    }

    /// The link has time for the next packet, if there is one.
    #[inline]
    fn serve(&mut self, now: Time) {
        if let Pace::Bucket(bucket) = &mut self.pace {
            let debt = bucket.debt(now);
            if self.aqm.packets() == 0 {
                // sch_htb takes a class without packets out of its rounds: the queue is not asked, and does not learn that it is empty
                self.next = Time::NEVER;
                return;
            }
            if debt > Time::ZERO {
                self.next = now + debt;
                return;
            }
        }
        match self.aqm.dequeue(now, &mut self.log) {
            Dequeue::Empty => self.next = Time::NEVER,
            Dequeue::Wait(until) => self.next = until,
            Dequeue::Packet(packet) => {
                let sojourn = now - packet.enqueue_time;
                self.sojourn[usize::from(self.class_of[packet.flow as usize])].record(sojourn);
                self.recent_sojourn.0 += sojourn.0;
                self.recent_sojourn.1 += 1;
                self.log.flows[packet.flow as usize].sojourn_ns += sojourn.0;
                let wire = self.rate.serialise(u64::from(packet.len));
                self.next = match &mut self.pace {
                    Pace::Serial => now + wire,
                    Pace::Immediate => now,
                    Pace::Bucket(bucket) => {
                        bucket.tokens -= wire.0 as i64;
                        now
                    }
                };
                self.in_service = Some(packet);
            }
        }
    }

    /// [`Bottleneck::next`] has come. Returns the packet that leaves, if one does; call again while it does.
    #[inline]
    pub fn advance(&mut self, now: Time) -> Option<Packet> {
        let packet = self.in_service.take();
        if let Some(packet) = packet {
            self.bytes += u64::from(packet.len);
            self.packets += 1;
            self.log.flows[packet.flow as usize].departed += 1;
        }
        self.serve(now);
        packet
    }

    /// The packet on the wire.
    #[inline]
    pub fn in_service(&self) -> Option<&Packet> {
        self.in_service.as_ref()
    }

    /// Packets in the queue and on the wire.
    pub fn held(&self) -> u64 {
        self.aqm.packets() as u64 + u64::from(self.in_service.is_some())
    }

    /// The rate changes; what is on the wire goes on at the old one.
    pub fn set_rate(&mut self, rate: Rate, now: Time) {
        self.rate = rate;
        if let Pace::Bucket(bucket) = &mut self.pace {
            bucket.debt(now);
            bucket.depth = rate.serialise(u64::from(self.burst)).0 as i64;
        }
        self.aqm.set_rate(rate, now);
        if self.in_service.is_none() && self.next != Time::NEVER {
            self.serve(now);
        }
    }
}

#[cfg(test)]
mod tests;
