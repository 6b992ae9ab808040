//! The echo of ECN: what the codepoint of a packet changes at the receiver.

use super::{Receiver, ECN_QUICKACKS, MANY_CE};
use crate::cc::Echo;
use crate::hint::seldom;
use crate::packet::{flag, Ecn, Packet};
use crate::units::Instant;

impl Receiver {
    /// Whether AccECN was negotiated.
    pub(super) fn counts_ce(&self) -> bool {
        self.ecn_ok && self.echo == Echo::Accurate
    }

    /// Counts what came with CE; a packet whose codepoint is not that of the one before is acknowledged at once (RFC 9768 section 3.2.2.5.1).
    /// Linux `tcp_ecn_received_counters`.
    #[inline]
    pub(super) fn count_ce(&mut self, packet: &Packet) {
        if packet.ecn() == Ecn::Ce {
            //= draft-ietf-tcpm-accurate-ecn-34, section 3.2
            //# The Data Receiver MUST increment the CE packet counter (r.cep), for every Acceptable packet that it receives with the CE code
            //# point in the IP ECN field, including CE marked control packets and retransmissions but excluding CE on SYN packets (SYN=1;
            //# ACK=0).
            self.ce_count = self.ce_count.wrapping_add(1);
            self.ce_bytes = self.ce_bytes.wrapping_add(u32::from(packet.len.saturating_sub(self.headers)));
            self.ce_pending = self.ce_pending.saturating_add(1);
        }
        let data = !packet.has(flag::PURE_ACK);
        //= draft-ietf-tcpm-accurate-ecn-34, section 3.2.2.5.1
        //# An AccECN Data Receiver SHOULD emit an ACK whenever a data packet marked CE arrives after the previous packet was not CE.
        self.ack_now |= data && (packet.ecn() != self.last_ecn || self.ce_pending >= MANY_CE);
        self.last_ecn = packet.ecn();
        self.ecn_settled = 0;
    }

    /// The codepoint of a data packet that is no duplicate. Most are as the one before, and change nothing.
    #[inline(always)]
    pub(super) fn observe_ecn(&mut self, packet: &Packet, now: Instant) {
        if self.ecn_settled & (1 << packet.ecn() as u8) == 0 {
            seldom();
            self.update_ece(packet, now);
            self.ecn_settled = self.settled_codepoints();
        }
        self.queue_esce(packet);
        self.prior_rcv_nxt = self.rcv_nxt;
    }

    /// Each packet with SCE asks for an echo, also where nothing else changes.
    #[inline(always)]
    pub(super) fn queue_esce(&mut self, packet: &Packet) {
        if self.sce_state {
            self.esce_queued |= packet.ecn() == Ecn::Ect1;
        }
    }

    /// Codepoints, as bits, with which the next packet changes nothing in [`Receiver::update_ece`] except the echo of SCE.
    fn settled_codepoints(&self) -> u8 {
        let bit = |ecn: Ecn| 1_u8 << ecn as u8;
        if !self.ecn_ok {
            return u8::MAX;
        }
        let by_sce = match (self.host.sce_feedback, self.sce_state) {
            (false, _) => u8::MAX,
            (true, false) => !bit(Ecn::Ect1),
            (true, true) => bit(Ecn::Ce) | bit(Ecn::Ect1),
        };
        by_sce
            & match (self.echo, self.demand_cwr) {
                (Echo::Accurate, _) if self.last_ecn != Ecn::Ce && self.ce_pending < MANY_CE => bit(self.last_ecn),
                (Echo::UntilCwr, true) if self.ecn_seen => bit(Ecn::Ect0) | bit(Ecn::Ect1) | bit(Ecn::Ce),
                (Echo::PerPacket, true) if self.ecn_seen && self.ce_state => bit(Ecn::Ce),
                (Echo::UntilCwr | Echo::PerPacket, false) if self.ecn_seen && !self.ce_state => bit(Ecn::Ect0) | bit(Ecn::Ect1),
                _ => 0,
            }
    }

    /// RFC 3168 section 6.1.3 as in Linux `tcp_ecn_check_ce`: CE is echoed until CWR.
    #[inline(never)]
    fn update_ece(&mut self, packet: &Packet, now: Instant) {
        let ecn = packet.ecn();
        if !self.ecn_ok {
            return;
        }
        if self.host.sce_feedback && ecn != Ecn::Ce {
            self.echo_sce(ecn == Ecn::Ect1, now);
        }
        // where ECT(1) is SCE it says nothing of CE, and DCTCP's echo keeps its state: so the receiver of the SCE draft, or the
        // RTT of its DCTCP flows could not be above that of their competitors in the same queue (docs/lab-book.md)
        let says_ce = ecn != Ecn::NotEct && !(self.host.sce_feedback && ecn == Ecn::Ect1);
        if self.echo == Echo::PerPacket && says_ce {
            self.echo_each(ecn == Ecn::Ce, now);
        }
        if self.echo == Echo::Accurate {
            return self.count_ce(packet);
        }
        match ecn {
            Ecn::NotEct => {
                if self.ecn_seen {
                    // most likely a retransmission
                    self.enter_quickack(ECN_QUICKACKS);
                }
            }
            Ecn::Ce => {
                if !self.demand_cwr {
                    self.enter_quickack(ECN_QUICKACKS);
                    self.demand_cwr = true;
                }
                self.ecn_seen = true;
            }
            Ecn::Ect0 | Ecn::Ect1 => self.ecn_seen = true,
        }
    }

    /// DCTCP's echo (RFC 8257 section 3.2; Linux `dctcp_ece_ack_update` since 4.18).
    #[inline]
    fn echo_each(&mut self, ce: bool, now: Instant) {
        if ce != self.ce_state {
            if self.delack_due != Instant::NEVER {
                self.acknowledge_early(now);
            }
            self.ack_now |= self.host.ack_ce_change;
        }
        self.ce_state = ce;
        self.demand_cwr = ce;
    }

    /// SCE's echo, "immediate on change": what is held back is acknowledged before the echo changes, so that each ACK covers a
    /// run of one kind; the packet that changed it is acknowledged by the one quick ACK that the change is worth. Without that
    /// one (both are on record, and the draft's tables tell them apart: docs/lab-book.md) a window of two segments
    /// would wait for the delayed-ACK timer at every change.
    #[inline]
    fn echo_sce(&mut self, sce: bool, now: Instant) {
        if sce != self.sce_state && self.delack_due != Instant::NEVER {
            self.acknowledge_early(now);
            self.raise_quick(1);
        }
        self.sce_state = sce;
        self.esce_queued = sce;
    }
}
