//! Replies of receivers: acknowledgements of TCP, and answers of other protocols.

use crate::packet::Ecn;
use crate::tcp::{ack_flag, Ack, BackEcn};
use crate::units::Instant;

/// The answer of a receiver that does not speak TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramAnswer {
    /// Flow.
    pub flow: u32,
    /// When the sender sent the datagram that came last.
    pub sent: Instant,
    /// A number that the protocol understands.
    pub value: u64,
    /// Frame length on the wire without FCS, bytes.
    pub len: u16,
    /// ECN field.
    pub ecn: Ecn,
    /// The number of answers that the receiver has sent so far, this one included, modulo 65536.
    pub id: u16,
}

/// One frame on the way back from a receiver, an [`Ack`] or a [`DatagramAnswer`]; SACK blocks travel next to it.
// An answer lies in the fields of an `Ack` and has a flag that no `Ack` has. An enum of the two costs 0.7 % more instructions.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiverReply(Ack);

/// Marks an answer.
const ANSWER: u16 = 1 << 12;

impl From<Ack> for ReceiverReply {
    #[inline(always)]
    fn from(ack: Ack) -> ReceiverReply {
        debug_assert!(!ack.has(ANSWER));
        ReceiverReply(ack)
    }
}

impl From<DatagramAnswer> for ReceiverReply {
    #[inline]
    fn from(DatagramAnswer { flow, sent, value, len, ecn, id }: DatagramAnswer) -> ReceiverReply {
        let (tsecr, tsval) = (value as u32, (value >> 32) as u32);
        let (window, flags) = (u32::from(len), ANSWER | ecn as u16);
        ReceiverReply(Ack { ack: sent.0, flow, tsecr, tsval, window, flags, id, ..Ack::default() })
    }
}

impl ReceiverReply {
    /// Flow.
    #[inline(always)]
    pub fn flow(&self) -> u32 {
        self.0.flow
    }

    /// The part of the IP identification that counts replies, see [`Ack::id`].
    pub fn id(&self) -> u16 {
        self.0.id
    }

    /// The acknowledgement that reaches a TCP sender.
    #[inline(always)]
    pub fn tcp(&self) -> &Ack {
        debug_assert!(!self.0.has(ANSWER), "no acknowledgement: {self:?}");
        &self.0
    }

    /// The acknowledgement, if it is one.
    #[inline]
    pub fn ack(&self) -> Option<&Ack> {
        (!self.0.has(ANSWER)).then_some(&self.0)
    }

    /// The answer, if it is one.
    #[inline]
    pub fn answer(&self) -> Option<DatagramAnswer> {
        let Ack { ack, flow, tsecr, tsval, window, flags, id, .. } = self.0;
        let (value, ecn) = (u64::from(tsval) << 32 | u64::from(tsecr), Ecn::from_bits(flags as u8));
        self.0.has(ANSWER).then_some(DatagramAnswer { flow, sent: Instant(ack), value, len: window as u16, ecn, id })
    }

    /// Whether it answers a SYN.
    pub fn is_syn_ack(&self) -> bool {
        self.ack().is_some_and(|ack| ack.has(ack_flag::SYN_ACK))
    }

    /// Length of its frame with `blocks` SACK blocks, without FCS, bytes.
    pub fn frame(&self, blocks: usize) -> u16 {
        self.answer().map_or_else(|| self.0.frame(blocks), |answer| answer.len)
    }

    /// Codepoint with which it leaves a receiver whose acknowledgements have those of `back`. An answer has its own.
    pub fn codepoint(&self, back: &BackEcn) -> Ecn {
        self.answer().map_or_else(|| back.ack_codepoint(&self.0), |answer| answer.ecn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_keeps_every_field_and_is_no_acknowledgement() {
        for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
            let answer = DatagramAnswer { flow: 3, sent: Instant(u64::MAX - 7), value: u64::MAX - 1, len: u16::MAX, ecn, id: 9 };
            let reply = ReceiverReply::from(answer);
            assert_eq!((reply.answer(), reply.flow(), reply.id(), reply.frame(2)), (Some(answer), 3, 9, u16::MAX));
            assert!(reply.ack().is_none() && reply.codepoint(&BackEcn::NOT_ECT) == ecn);
        }
        let reply = ReceiverReply::from(Ack { flags: !ANSWER, ..Ack::default() });
        assert!(reply.answer().is_none() && reply.ack().is_some_and(|ack| ack.ace() == 7) && reply.is_syn_ack());
        assert_eq!(size_of::<ReceiverReply>(), 32);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no acknowledgement")]
    fn an_answer_does_not_reach_tcp() {
        let answer = DatagramAnswer { flow: 3, sent: Instant::ZERO, value: 1, len: 60, ecn: Ecn::NotEct, id: 1 };
        ReceiverReply::from(answer).tcp();
    }
}
