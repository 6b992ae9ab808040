//! Receivers that misbehave, to show what a sender does with acknowledgements that are not true.
//!
//! S. Savage, N. Cardwell, D. Wetherall, T. Anderson, "TCP Congestion Control with a Misbehaving Receiver", CCR 1999: optimistic ACKs and ACK division.
//! RFC 3540 section 1: receivers that conceal marks. RFC 9743 section 7.6 asks what a congestion control does about them.
//!
//! A receiver that misbehaves takes no packet on the short way of the usual one. Its [`Receiver::has_unread`] stays set for that.

use super::Receiver;
use crate::packet::{Ecn, Packet};
use crate::tcp::{ack_flag, Ack};
use crate::units::{Duration, Instant};

crate::choice! {
    /// How a receiver misbehaves.
    pub enum Misbehaviour {
        /// Acknowledges segments that have not arrived yet: half of those that arrive in a round trip. Never asks for what was lost.
        Optimistic = "optimistic",
        /// Acknowledges each segment in ten parts.
        Divides = "divides",
        /// Reports no CE mark.
        Conceals = "conceals",
    }
}

/// ACKs for one segment. Savage et al. section 3.1 leave the number open; the value is ours.
const PARTS: u16 = 10;

/// Memory of a receiver that misbehaves.
#[derive(Clone, Debug)]
pub(super) struct Misconduct {
    kind: Misbehaviour,
    /// ACKs like the one that goes ahead which follow it.
    copies: u16,
    /// The last codepoint without CE, which stands for CE.
    codepoint: Ecn,
    /// Segments beyond those that have arrived which are acknowledged, and the most that may be.
    ahead: (u64, u64),
    /// When the present round trip ends, and how many segments have arrived in it.
    round: (Instant, u64),
    /// The highest acknowledgement so far.
    highest: u64,
}

impl Receiver {
    /// From the first packet on the receiver misbehaves.
    pub fn misbehave(&mut self, kind: Misbehaviour) {
        let (copies, codepoint, round) = (0, Ecn::Ect0, (Instant::ZERO, 0));
        self.misconduct = Some(Box::new(Misconduct { kind, copies, codepoint, ahead: (0, 0), round, highest: 0 }));
    }

    /// Returns how many more ACKs like the one of [`Receiver::take_early`] there are.
    pub fn take_copies(&mut self) -> u16 {
        self.misconduct.as_mut().map_or(0, |conduct| std::mem::take(&mut conduct.copies))
    }

    /// Handles a packet, which is counted already, according to the misbehaviour.
    #[inline(never)]
    pub(super) fn take_falsely(&mut self, packet: &Packet, now: Instant) -> Option<Ack> {
        let Some(mut conduct) = self.misconduct.take() else { return self.take_unusual(packet, now) };
        let ack = match conduct.kind {
            Misbehaviour::Conceals => self.take_unusual(&conduct.conceal(packet), now),
            Misbehaviour::Divides => self.take_divided(packet, &mut conduct, now),
            Misbehaviour::Optimistic => self.take_optimistically(packet, &mut conduct, now),
        };
        self.misconduct = Some(conduct);
        self.has_unread = true;
        ack
    }

    /// Acknowledges a segment in order in [`PARTS`] parts; all but the last of them are no whole segment.
    fn take_divided(&mut self, packet: &Packet, conduct: &mut Misconduct, now: Instant) -> Option<Ack> {
        let before = self.rcv_nxt;
        self.ack_now = true;
        let ack = self.take_unusual(packet, now)?;
        if self.rcv_nxt > before && !self.early_waits {
            self.stats.acks += u64::from(PARTS - 1);
            self.send_early(Ack { ack: before, flags: ack.flags | ack_flag::PART, ..ack });
            conduct.copies = PARTS - 2;
            return Some(Ack { id: ack.id.wrapping_add(PARTS - 1), ..ack });
        }
        Some(ack)
    }

    /// Takes a segment as if all before it had arrived, and acknowledges more than has. A segment that comes again says that the sender waits: then no more
    /// than what has arrived is acknowledged, and the guess begins from 0.
    fn take_optimistically(&mut self, packet: &Packet, conduct: &mut Misconduct, now: Instant) -> Option<Ack> {
        let has_data = !packet.has(crate::packet::flag::NO_DATA);
        let seq = packet.tcp().seq();
        if has_data {
            if seq < self.rcv_nxt {
                conduct.ahead.0 = 0;
                conduct.highest = 0;
            } else {
                self.rcv_nxt = seq;
                conduct.guess(now, Duration::from_micros(u64::from(self.srtt_us)));
            }
        }
        let ack = self.take_unusual(packet, now)?;
        if has_data {
            conduct.highest = conduct.highest.max(ack.ack + conduct.ahead.0);
            return Some(Ack { ack: conduct.highest, ..ack });
        }
        Some(ack)
    }
}

impl Misconduct {
    /// Returns `packet` without CE.
    fn conceal(&mut self, packet: &Packet) -> Packet {
        if packet.ecn() != Ecn::Ce {
            if packet.ecn() != Ecn::NotEct {
                self.codepoint = packet.ecn();
            }
            return *packet;
        }
        let mut seen = *packet;
        seen.set_ecn(self.codepoint);
        seen
    }

    /// A segment has arrived at `now`: one more may be acknowledged, up to half of those that arrived in the last whole round trip of `rtt`.
    fn guess(&mut self, now: Instant, rtt: Duration) {
        let (end, count) = &mut self.round;
        *count += 1;
        if now >= *end {
            self.ahead.1 = if *end == Instant::ZERO { 0 } else { *count / 2 };
            (*end, *count) = (now + rtt, 0);
        }
        self.ahead.0 = (self.ahead.0 + 1).min(self.ahead.1);
    }
}
