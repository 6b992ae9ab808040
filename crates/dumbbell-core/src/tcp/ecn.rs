//! The sender's half of ECN: what was negotiated, what ACKs echo, which codepoint packets carry (RFC 3168, RFC 9768).

use super::{ack_flag, Ack};
use crate::cc::EcnUse;
use crate::packet::{flag, Ecn};

/// Linux `ecn_flags`, as far as a sender has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct SenderEcn {
    /// ECN is asked for.
    wanted: bool,
    /// Both ends agreed.
    pub agreed: bool,
    /// The receiver counts CE (AccECN).
    accurate: bool,
    /// The next new segment carries CWR.
    pub cwr_queued: bool,
    /// What the congestion control asks for.
    asked: EcnUse,
    /// The receiver's count of CE, as far as it is known.
    ce_seen: u32,
}

/// What an ACK echoes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EcnEcho {
    /// There was CE.
    pub ece: bool,
    /// CE packets that an AccECN receiver newly counted; `None` without AccECN.
    pub new_ce: Option<u32>,
}

impl SenderEcn {
    /// The host wants ECN, or the congestion control requires it.
    pub fn new(wanted: bool, asked: EcnUse) -> SenderEcn {
        let wanted = wanted || asked.required;
        SenderEcn { wanted, agreed: false, accurate: false, cwr_queued: false, asked, ce_seen: 0 }
    }

    /// A SYN-ACK has come.
    pub fn negotiate(&mut self, syn_ack: &Ack) {
        self.agreed = self.wanted && syn_ack.has(ack_flag::ECN_SETUP);
        self.accurate = self.agreed && syn_ack.has(ack_flag::ACCECN_SETUP);
    }

    /// The congestion control requires ECN, and the peer did not agree to it.
    pub fn refused(&self) -> bool {
        self.asked.required && !self.agreed
    }

    /// Reads the echo of an ACK.
    #[inline]
    pub fn read(&mut self, ack: &Ack) -> EcnEcho {
        if self.accurate {
            let new_ce = ack.ce_count.saturating_sub(self.ce_seen);
            self.ce_seen += new_ce;
            return EcnEcho { ece: new_ce > 0, new_ce: Some(new_ce) };
        }
        EcnEcho { ece: self.agreed && ack.has(ack_flag::ECE), new_ce: None }
    }

    /// The window was reduced: the receiver is to know, if it waits for that.
    pub fn queue_cwr(&mut self) {
        self.cwr_queued = self.agreed && !self.accurate;
    }

    /// The reduction was undone.
    pub fn cancel_cwr(&mut self) {
        self.cwr_queued = false;
    }

    /// Codepoint and flags of the next new segment.
    #[inline]
    pub fn stamp(&mut self) -> (Ecn, u8) {
        if !self.agreed {
            return (Ecn::NotEct, 0);
        }
        let cwr = std::mem::take(&mut self.cwr_queued);
        (self.asked.codepoint, if cwr { flag::CWR } else { 0 })
    }

    /// Codepoint of a SYN: not ECN-capable (RFC 3168 section 6.1.1), unless the congestion control requires ECN. Linux
    /// `tcp_ecn_send_syn`.
    pub fn of_syn(&self) -> Ecn {
        if self.asked.required {
            self.asked.codepoint
        } else {
            Ecn::NotEct
        }
    }

    /// Codepoint of what is not new data, retransmissions and pure ACKs: not ECN-capable (RFC 3168 sections 6.1.4 and 6.1.5), unless the
    /// congestion control requires ECN. Linux `tcp_ecn_send`.
    #[inline]
    pub fn of_other(&self) -> Ecn {
        if self.agreed && self.asked.required {
            self.asked.codepoint
        } else {
            Ecn::NotEct
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreed(setup: u8) -> SenderEcn {
        let mut ecn = SenderEcn::new(true, EcnUse::default());
        ecn.negotiate(&Ack { flags: ack_flag::SYN_ACK | setup, ..Ack::default() });
        ecn
    }

    #[test]
    fn cwr_goes_once_with_new_data() {
        let mut ecn = agreed(ack_flag::ECN_SETUP);
        ecn.queue_cwr();
        assert_eq!([ecn.stamp(), ecn.stamp()], [(Ecn::Ect0, flag::CWR), (Ecn::Ect0, 0)]);
        ecn.queue_cwr();
        ecn.cancel_cwr();
        assert_eq!(ecn.stamp(), (Ecn::Ect0, 0));
        assert_eq!((ecn.of_syn(), ecn.of_other()), (Ecn::NotEct, Ecn::NotEct));
        // a control that requires ECN, with the codepoint of L4S
        let mut scalable = SenderEcn::new(false, EcnUse { required: true, codepoint: Ecn::Ect1, ..EcnUse::default() });
        assert_eq!((scalable.of_syn(), scalable.of_other()), (Ecn::Ect1, Ecn::NotEct));
        scalable.negotiate(&Ack { flags: ack_flag::ECN_SETUP, ..Ack::default() });
        assert_eq!((scalable.stamp(), scalable.of_other()), ((Ecn::Ect1, 0), Ecn::Ect1));
    }

    #[test]
    fn a_count_of_ce_is_read_once_and_never_answered_by_cwr() {
        let mut ecn = agreed(ack_flag::ECN_SETUP | ack_flag::ACCECN_SETUP);
        let counted = [3, 3, 5, 4].map(|ce_count| ecn.read(&Ack { ce_count, flags: ack_flag::ECE, ..Ack::default() }).new_ce);
        assert_eq!(counted, [Some(3), Some(0), Some(2), Some(0)]);
        ecn.queue_cwr();
        assert_eq!(ecn.stamp(), (Ecn::Ect0, 0));
    }

    #[test]
    fn without_agreement_nothing_is_read_or_stamped() {
        let mut ecn = agreed(0);
        ecn.queue_cwr();
        assert!(!ecn.read(&Ack { flags: ack_flag::ECE, ..Ack::default() }).ece);
        assert_eq!(ecn.stamp(), (Ecn::NotEct, 0));
    }
}
