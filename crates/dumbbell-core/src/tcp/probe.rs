//! The episode of a tail-loss probe: was the probe needed? (RFC 8985 section 7.4; Linux `tcp_process_tlp_ack`.)

use super::Block;

/// Outcome of the probe by an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeVerdict {
    /// Nothing yet, or there is no probe.
    Open,
    /// Nothing was lost.
    Needless,
    /// The ACK is of the probe, or of the segment that the probe repeats: the next one decides.
    Ambiguous,
    /// The probe repaired a loss that nothing else would have shown.
    RepairedLoss,
}

/// A probe that is not yet classified.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    /// Twice `snd_nxt` after it was sent, and one more if it was a retransmission; 0: there is none.
    sent: u64,
}

impl Probe {
    /// A probe is sent, after which `snd_nxt` is `high_seq`.
    pub fn on_probe_sent(&mut self, high_seq: u64, retransmission: bool) {
        *self = Probe { sent: high_seq << 1 | u64::from(retransmission) };
    }

    /// The episode ends without a verdict.
    #[inline]
    pub fn forget(&mut self) {
        self.sent = 0;
    }

    /// A probe waits for its verdict.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.sent > 0
    }

    /// A segment that was sent again waits for its verdict.
    pub fn is_retransmission(&self) -> bool {
        self.sent & 1 > 0
    }

    /// Whether a duplicate of `block` is one of the probe.
    pub fn ends_at(&self, block: Block) -> bool {
        self.is_open() && self.sent >> 1 == block.1 && block.0 + 1 == block.1
    }

    /// The verdict of an ACK up to `ack`, which is a `duplicate` if it brought nothing new. [`ProbeVerdict::RepairedLoss`] leaves the
    /// episode open: the reduction that follows ends it.
    pub fn judge(&mut self, ack: u64, dsack: bool, duplicate: bool) -> ProbeVerdict {
        let high_seq = self.sent >> 1;
        if !self.is_open() || ack < high_seq {
            return ProbeVerdict::Open;
        }
        if !self.is_retransmission() || dsack {
            self.forget();
            return ProbeVerdict::Needless;
        }
        if ack > high_seq {
            return ProbeVerdict::RepairedLoss;
        }
        if duplicate {
            self.forget();
            return ProbeVerdict::Needless;
        }
        ProbeVerdict::Ambiguous
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_retransmission_without_dsack_that_is_passed_repaired_a_loss() {
        // (retransmission, ack, dsack, duplicate) against a probe after which snd_nxt is 10
        for (retransmission, ack, dsack, duplicate, verdict, open) in [
            (true, 9, false, false, ProbeVerdict::Open, true),
            (true, 10, false, false, ProbeVerdict::Ambiguous, true),
            (true, 10, false, true, ProbeVerdict::Needless, false),
            (true, 10, true, true, ProbeVerdict::Needless, false),
            (true, 11, false, false, ProbeVerdict::RepairedLoss, true),
            (true, 11, true, false, ProbeVerdict::Needless, false),
            (false, 10, false, false, ProbeVerdict::Needless, false),
        ] {
            let mut probe = Probe::default();
            probe.on_probe_sent(10, retransmission);
            assert_eq!((probe.judge(ack, dsack, duplicate), probe.is_open()), (verdict, open), "ack {ack}");
        }
    }
}
