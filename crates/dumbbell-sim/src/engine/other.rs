//! An endpoint that is no TCP: any [`Protocol`], and what is measured of it. Its receiver measures one-way delays, and its sender, if there are
//! answers, RTTs.

use super::endpoint::Stages;
use super::lines::NO_BLOCKS;
use super::net::Way;
use super::transport::{Ends, WayBack};
use crate::measure::{FlowResult, Samples, Seen};
use crate::protocol::{Answer, Datagram, Outlet, Protocol};
use crate::transit::Transit;
use dumbbell_core::histogram::CompactHistogram;
use dumbbell_core::packet::{flag, Packet, UDP_HEADERS};
use dumbbell_core::tcp::stats::{ReceiverStats, SenderStats};
use dumbbell_core::tcp::{ack_flag, Ack, Block, Network};
use dumbbell_core::units::Time;

/// Answers that have come back.
pub struct Answers {
    /// Their RTTs; none are recorded after the end of the measured time.
    pub rtts: Option<CompactHistogram>,
    pub samples: Samples,
    pub least_us: u32,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers { rtts: Some(CompactHistogram::default()), samples: Samples::default(), least_us: u32::MAX }
    }
}

/// A protocol's two ends.
pub struct Other {
    protocol: Box<dyn Protocol>,
    slot: u32,
    /// Packets sent.
    pub sent: u64,
    pub received: ReceiverStats,
    pub transit: Transit,
    pub begun: bool,
    /// When it was stopped.
    pub stopped: Option<Time>,
    /// If it may answer.
    pub answers: Option<Box<Answers>>,
    /// Propagation to the receiver, which no hop has.
    half_rtt: Time,
}

/// Makes packets of datagrams.
struct Sending<'a, N: Network> {
    port: &'a mut N,
    packet: Packet,
    sent: &'a mut u64,
}

impl<N: Network> Outlet for Sending<'_, N> {
    fn send(&mut self, Datagram { number, length, ecn }: Datagram) {
        *self.sent += 1;
        self.port.send(Packet { seq: number, len: length, ecn, ..self.packet });
    }
}

/// Calls of a timer at one instant before other events have their turn: a protocol that is always due does not stop the engine.
const CALLS: u32 = 10_000;

impl Other {
    /// `protocol` in `slot`, which has not begun.
    pub fn new(slot: u32, protocol: Box<dyn Protocol>, answers: bool, base_rtt: Time) -> Other {
        Other {
            protocol,
            slot,
            sent: 0,
            received: ReceiverStats::default(),
            transit: Transit::default(),
            begun: false,
            stopped: None,
            answers: answers.then(Box::default),
            half_rtt: Time(base_rtt.0 / 2),
        }
    }

    /// A packet arrives; returns the answer to it, if it gets one. Never inlined: the way of TCP's packets stays as short as it was.
    #[inline(never)]
    fn answer(&mut self, packet: &Packet, now: Time) -> Option<Ack> {
        self.received.count(packet);
        self.received.data += 1;
        self.received.bytes += u64::from(packet.len.saturating_sub(UDP_HEADERS));
        let age = packet.age(now);
        self.transit.arrived(age + self.half_rtt);
        let datagram = Datagram { number: packet.seq, length: packet.len, ecn: packet.ecn };
        let Answer { value, length } = self.protocol.on_datagram(&datagram, now).filter(|_| self.answers.is_some())?;
        self.received.acks += 1;
        let (ack, window, flags) = (now.0.wrapping_sub(age.0), u32::from(length), ack_flag::ECHO);
        Some(Ack { flow: packet.flow, ack, window, flags, tsecr: value as u32, tsval: (value >> 32) as u32, ..Ack::default() })
    }
}

impl Ends for Other {
    fn has_begun(&self) -> bool {
        self.begun
    }

    fn next_timer(&self, start: Time) -> Time {
        if self.begun {
            self.protocol.next_timer()
        } else {
            start
        }
    }

    fn on_timer(&mut self, start: Time, stop: &mut Time, now: Time, port: &mut impl Network) -> bool {
        let begins = !self.begun && start <= now;
        if begins {
            self.begun = true;
            self.protocol.start(now);
        }
        if *stop <= now {
            self.protocol.stop(now);
            self.begun = true;
            self.stopped = Some(now);
            *stop = Time::NEVER;
        }
        let mut packet = Packet { flow: self.slot, flags: flag::UDP, ..Packet::EMPTY };
        packet.stamp(now);
        for _ in 0..CALLS {
            if !self.begun || self.protocol.next_timer() > now {
                break;
            }
            self.protocol.on_timer(now, &mut Sending { port, packet, sent: &mut self.sent });
        }
        begins
    }

    #[inline]
    fn on_packet(&mut self, packet: &Packet, now: Time, back: &mut impl WayBack) -> Time {
        if let Some(answer) = self.answer(packet, now) {
            back.send(answer, NO_BLOCKS);
        }
        Time::NEVER
    }

    #[cold]
    #[inline(never)]
    fn on_back(&mut self, answer: &Ack, _blocks: &[Block], _stages: &mut Stages, now: Time, _way: &mut impl Way) -> Time {
        let rtt = Time(now.0.wrapping_sub(answer.ack));
        if let Some(Answers { rtts, samples, least_us }) = self.answers.as_deref_mut() {
            let micros = u32::try_from(rtt.0 / 1000).unwrap_or(u32::MAX).max(1);
            samples.add(micros, 0);
            *least_us = micros.min(*least_us);
            if let Some(rtts) = rtts {
                rtts.record(rtt);
            }
        }
        let value = u64::from(answer.tsval) << 32 | u64::from(answer.tsecr);
        self.protocol.on_answer(&Answer { value, length: answer.window as u16 }, rtt, now);
        self.protocol.next_timer()
    }

    fn payload(&self) -> u64 {
        self.received.bytes
    }

    fn counted(&self) -> (u64, ReceiverStats) {
        (self.sent, self.received)
    }

    fn take_rtt_samples(&mut self) -> Option<CompactHistogram> {
        self.answers.as_mut()?.rtts.take()
    }

    fn take_transit(&mut self) -> Option<Box<Transit>> {
        Some(Box::new(std::mem::take(&mut self.transit)))
    }

    fn result(&self, common: FlowResult, now: Time) -> FlowResult {
        FlowResult {
            samples: self.answers.as_ref().map_or(Samples::default(), |answers| answers.samples),
            min_rtt_us: self.answers.as_ref().map_or(u32::MAX, |answers| answers.least_us),
            end: self.stopped.unwrap_or(now),
            payload: self.received.bytes,
            sender: SenderStats { sent: self.sent, ..SenderStats::default() },
            receiver: self.received,
            ..common
        }
    }

    fn seen(&self) -> Seen {
        Seen { payload: self.received.bytes, tcp: None }
    }

    fn forget_samples(&mut self) {
        self.transit.forget();
        if let Some(answers) = &mut self.answers {
            (answers.samples, answers.rtts) = (Samples::default(), Some(CompactHistogram::default()));
        }
    }
}
