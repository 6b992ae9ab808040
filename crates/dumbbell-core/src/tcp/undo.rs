//! Detects spurious reductions: the first transmissions arrived after all (Eifel, RFC 3522; DSACK, RFC 3708).

use super::Block;

/// Linux `undo_marker`, `undo_retrans`, `retrans_stamp`, `prior_ssthresh`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// `snd_una` when the episode began; `None`: nothing to undo.
    pub marker: Option<u64>,
    /// Retransmissions of the episode that no DSACK has called needless yet.
    retransmissions: Option<u32>,
    /// Timestamp of the episode's first retransmission, ms.
    pub first_retransmission: Option<u32>,
    /// `ssthresh` before the episode; 0: the reduction stays, because ECN asked for it.
    pub prior_ssthresh: u32,
}

impl Undo {
    /// An episode begins at `snd_una`, with `retrans_out` retransmissions of an earlier one in flight.
    pub fn begin(&mut self, snd_una: u64, retrans_out: u32) {
        self.marker = Some(snd_una);
        self.retransmissions = (retrans_out > 0).then_some(retrans_out);
    }

    /// A segment is sent again at `now_ms`.
    pub fn on_retransmit(&mut self, now_ms: u32) {
        self.first_retransmission.get_or_insert(now_ms);
        self.retransmissions = Some(self.retransmissions.unwrap_or(0) + 1);
    }

    /// Whether an ACK that echoes `tsecr` was caused by a packet sent before the first retransmission, which may not have left yet.
    /// Linux `tcp_packet_delayed`.
    pub fn caused_by_original(&self, tsecr: u32) -> bool {
        self.first_retransmission.is_none_or(|stamp| tsecr < stamp)
    }

    /// Whether DSACKs called every retransmission of the episode needless.
    pub fn all_needless(&self) -> bool {
        self.marker.is_some() && self.retransmissions == Some(0)
    }

    /// Whether an ACK that echoes `tsecr` shows that the episode was spurious. Linux `tcp_may_undo`.
    pub fn is_due(&self, tsecr: u32) -> bool {
        self.marker.is_some() && (self.retransmissions == Some(0) || self.caused_by_original(tsecr))
    }

    /// The receiver has segment `seq` out of order, and had it already when it was sent again.
    pub fn take_duplicate(&mut self, seq: u64) {
        if let (Some(left), true) = (self.retransmissions, self.marker.is_some_and(|marker| seq >= marker)) {
            self.retransmissions = Some(left.saturating_sub(1));
        }
    }

    /// The receiver had `block` already; `prior_una` is `snd_una` before this ACK.
    pub fn take_dsack(&mut self, block: Block, prior_una: u64) {
        let within = self.marker.is_some_and(|marker| block.1 > marker && block.1 <= prior_una);
        if let (true, Some(left)) = (within, self.retransmissions) {
            let segments = block.1.saturating_sub(block.0).min(u64::from(u32::MAX)) as u32;
            self.retransmissions = Some(left.saturating_sub(segments));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_retransmission_needs_its_dsack() {
        let mut undo = Undo::default();
        undo.begin(10, 0);
        undo.on_retransmit(500);
        undo.on_retransmit(510);
        undo.take_dsack((10, 11), 20);
        assert!(!undo.all_needless());
        // below the marker, and beyond what was acknowledged: of another episode
        undo.take_dsack((8, 9), 20);
        undo.take_dsack((30, 31), 20);
        assert!(!undo.all_needless());
        undo.take_dsack((11, 12), 20);
        assert!(undo.all_needless() && undo.is_due(u32::MAX));
    }

    #[test]
    fn an_echo_from_before_the_first_retransmission_is_enough() {
        let mut undo = Undo::default();
        undo.on_retransmit(500);
        // no episode
        assert!(!undo.is_due(400));
        undo.begin(10, 1);
        assert!(undo.is_due(499) && !undo.is_due(500));
        // nothing was sent again yet
        undo.first_retransmission = None;
        assert!(undo.is_due(600));
    }
}
