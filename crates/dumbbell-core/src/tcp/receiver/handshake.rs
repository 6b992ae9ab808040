//! The handshake: the answer to a SYN, and the packet that completes the connection.

use super::Receiver;
use crate::cc::Echo;
use crate::packet::{flag, Packet, HEADERS};
use crate::tcp::ecn::{ACE_START, OPTION_BYTES};
use crate::tcp::{ack_flag, Ack};
use crate::units::Instant;

/// Longest round trip of a handshake, us: 268 s, so that everything made of it fits 32 bits.
const MAX_RTT_US: u64 = 1 << 28;

impl Receiver {
    /// Takes a packet without data; returns the SYN-ACK if it is a SYN.
    #[cold]
    pub(super) fn on_handshake(&mut self, packet: &Packet, now: Instant) -> Option<Ack> {
        if packet.has(flag::SYN) {
            if self.syn_ack_at == Instant::NEVER {
                // a SYN that was sent again does not ask for ECN; later ones are answered as the first that came
                self.ecn_ok = self.accepts_ecn && !packet.has(flag::RETRANSMISSION);
                self.last_ecn = packet.ecn();
                if self.counts_ce() && self.host.accecn_option {
                    self.headers += OPTION_BYTES;
                }
                self.syn_ack_at = now;
            } else {
                self.syn_ack_repeated = true;
            }
            let setup = match (self.ecn_ok, self.echo) {
                (false, _) => 0,
                (true, Echo::Accurate) => ack_flag::ECN_SETUP | ack_flag::ACCECN_SETUP,
                (true, _) => ack_flag::ECN_SETUP,
            };
            // RFC 9768 section 3.2.3.2.1; also when it is sent again, as in Linux 6.18 (tcp_synack_options)
            let option = if self.headers > HEADERS { ack_flag::ACCECN_OPTION } else { 0 };
            let window = self.window.offered_first();
            self.advertised = window;
            let flags = ack_flag::SYN_ACK | setup | option | ack_flag::ace(ACE_START);
            let (tsecr, tsval) = (packet.tcp().tsval(), now.as_millis() as u32);
            return Some(Ack { flow: self.flow, tsecr, tsval, window, flags, ..Ack::default() });
        }
        if packet.has(flag::PURE_ACK) {
            if self.srtt_us == 0 {
                self.establish(packet, now);
            }
            if self.counts_ce() {
                self.count_ce(packet);
            }
        }
        None
    }

    /// Completes the handshake with the first packet after the SYN-ACK: its ACK, or data if that was lost. Linux `tcp_check_req`,
    /// `tcp_synack_rtt_meas`.
    #[cold]
    pub(super) fn establish(&mut self, packet: &Packet, now: Instant) {
        let rtt = if let Some(tsecr) = packet.tcp().tsecr().filter(|_| self.syn_ack_repeated) {
            // the echoed timestamp is that of the SYN-ACK that it answers, in whole ms
            u64::from((now.as_millis() as u32).wrapping_sub(tsecr).max(1)) * 1000
        } else {
            now.saturating_since(self.syn_ack_at).as_micros()
        };
        self.srtt_us = rtt.clamp(1, MAX_RTT_US) as u32;
        self.window.on_established(now);
    }
}
