//! Counters of both ends.

use crate::packet::{Ecn, Packet};

/// Counters of the sender. They only grow. The last two are touched more often than the others.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct SenderStats {
    /// Data packets sent, retransmissions included.
    pub sent: u64,
    /// Packets without data sent: SYNs, the handshake's last.
    pub bare: u64,
    /// Retransmissions.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail-loss probes.
    pub probes: u64,
    /// Window reductions because of loss.
    pub loss_reductions: u64,
    /// Reductions that were undone.
    pub undone: u64,
    /// Window reductions because of ECN.
    pub ecn_reductions: u64,
    /// ACKs with ECE.
    pub ece_acks: u64,
}

crate::counted_after!(SenderStats: sent, bare, ece_acks, retransmissions, timeouts, probes, ecn_reductions, loss_reductions, undone);

impl SenderStats {
    /// Where the counters of ECN begin, bytes from the start.
    pub(super) const OF_ECN_AT: usize = std::mem::offset_of!(SenderStats, ecn_reductions);

    /// Packets sent in all.
    pub fn sent_all(&self) -> u64 {
        self.sent + self.bare
    }
}

/// Counters of the receiver, packets. They only grow. Few packets touch those that come first.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ReceiverStats {
    /// Arrived with CE.
    pub ce: u64,
    /// Arrived with ECT(1).
    pub ect1: u64,
    /// Data that had arrived before.
    pub duplicates: u64,
    /// Packets that arrived, of any kind.
    pub arrived: u64,
    /// Data packets that arrived, duplicates included.
    pub data: u64,
    /// Frames received, bytes.
    pub frame_bytes: u64,
    /// ACKs sent.
    pub acks: u64,
    /// Payload received, duplicates included, bytes.
    pub bytes: u64,
}

crate::counted_after!(ReceiverStats: arrived, data, frame_bytes, acks, bytes, ce, ect1, duplicates);

impl ReceiverStats {
    /// Counts a packet that arrived, of any kind.
    #[inline]
    pub fn count(&mut self, packet: &Packet) {
        self.arrived += 1;
        self.frame_bytes += u64::from(packet.len);
        match packet.ecn() {
            Ecn::NotEct | Ecn::Ect0 => {}
            Ecn::Ect1 => self.ect1 += 1,
            Ecn::Ce => self.ce += 1,
        }
    }

    /// Counts a packet of data with `headers` bytes of headers.
    #[inline]
    pub fn count_data(&mut self, packet: &Packet, headers: u16) {
        self.data += 1;
        self.bytes += u64::from(packet.len.saturating_sub(headers));
    }
}
