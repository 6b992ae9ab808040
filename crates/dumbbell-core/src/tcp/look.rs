//! State of a sender that traces show in addition to its [`Conn`](crate::cc::conn::Conn) and its counters.

use super::ecn::BackEcn;
use super::host::Opener;
use super::scoreboard::seg;
use super::sender::Sender;
use crate::cc::{CongestionControl, Model, RateSample};

impl Sender {
    /// Returns the congestion control's model of the path, if it has one.
    pub fn model(&self) -> Option<Model> {
        self.cc.model(&self.conn)
    }

    /// The rate sample of the last ACK that gave one, once. Samples are kept from the first call on.
    pub fn take_rate_sample(&mut self) -> Option<RateSample> {
        self.rate.as_mut().and_then(|rate| rate.take_kept())
    }

    /// Returns whether its SYN asks for ECN.
    pub fn asks_for_ecn(&self) -> bool {
        self.ecn.asks_for_ecn()
    }

    /// Codepoints of what its receiver sends, which counts CE if `counts`.
    pub fn back_ecn(&self, counts: bool) -> BackEcn {
        let back = self.ecn.back(counts);
        match self.host.opener {
            Opener::Sender => back,
            // it does not answer the handshake with a SYN-ACK, but with an acknowledgement
            Opener::Receiver => BackEcn { syn_ack: back.acks, ..back },
        }
    }

    /// Segments that were ever marked lost; one whose retransmission was lost again counts again.
    pub fn count_lost(&self) -> u64 {
        self.losses
    }

    /// Segments that it takes for lost now, and whether it has sent each of them again since.
    pub fn lost_segments(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        let segments = (self.conn.snd_una..self.conn.snd_nxt).map(|seq| (seq, self.board.get(seq).flags));
        segments.filter(|(_, flags)| flags & seg::LOST != 0).map(|(seq, flags)| (seq, flags & seg::RETRANS != 0))
    }

    /// The application is the limit: what is sent now gives samples of its rate, not of the path's. Controls without rate samples are asked whether
    /// anything waits to be sent.
    pub fn is_app_limited(&self) -> bool {
        match &self.rate {
            Some(rate) => rate.is_app_limited(),
            None => self.queue.waiting(&self.conn) == 0,
        }
    }
}
