//! The handshake: the answer to a SYN, which is sent again until the client answers, and the packet that completes the connection.

use super::Receiver;
use crate::cc::Echo;
use crate::packet::{flag, Ecn, Packet, HEADERS};
use crate::tcp::ecn::{ACE_START, OPTION_BYTES};
use crate::tcp::host::Opener;
use crate::tcp::{ack_flag, Ack};
use crate::units::{Duration, Instant};

/// Longest round trip of a handshake, us: 268 s, so that everything made of it fits 32 bits.
const MAX_RTT_US: u64 = 1 << 28;
/// Time until a SYN-ACK is sent again; each time doubles it. Linux `TCP_TIMEOUT_INIT`, `tcp_reqsk_timeout`.
const SYN_ACK_TIMEOUT_MS: u16 = 1000;
/// Times that the timer sends a SYN-ACK again before the server forgets the SYN: sysctl `tcp_synack_retries`.
const SYN_ACK_RETRIES: u8 = 5;

/// A handshake at the server, which the client's answer has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerHandshake {
    /// Round-trip time, us.
    pub rtt_us: u32,
    /// The SYN-ACK was sent again more than once, and the first one was lost: the server begins with a window of one segment. Linux
    /// `tcp_create_openreq_child`, `tcp_init_transfer`, `tcp_try_undo_spurious_syn`.
    pub begins_with_one: bool,
}

impl Receiver {
    /// Takes a packet without data; returns the SYN-ACK if it is a SYN.
    #[cold]
    pub(super) fn on_handshake(&mut self, packet: &Packet, now: Instant) -> Option<Ack> {
        if packet.has(flag::SYN) {
            if self.syn_ack_at == Instant::NEVER {
                // a SYN that was sent again does not ask for ECN; later ones are answered as the first that came
                self.negotiate(!packet.has(flag::RETRANSMISSION), packet.ecn());
                self.syn_ack_at = now;
            } else {
                self.syn_ack_retries = self.syn_ack_retries.saturating_add(1);
            }
            self.ts_recent = packet.tcp().tsval();
            return Some(self.send_syn_ack(now));
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

    /// Agrees on ECN if it does and the peer `asks` for it, whose first packet has this codepoint.
    fn negotiate(&mut self, asks: bool, first: Ecn) {
        self.ecn_ok = self.accepts_ecn && asks;
        self.last_ecn = first;
        let option = if self.counts_ce() && self.host.accecn_option { OPTION_BYTES } else { 0 };
        self.headers = HEADERS + option;
    }

    /// Returns the SYN-ACK. A server sends it again if no answer has come in time.
    fn send_syn_ack(&mut self, now: Instant) -> Ack {
        if self.host.opener == Opener::Sender {
            // once sent it keeps its timeout, which only the timer doubles
            self.delack_ms = self.delack_ms.max(SYN_ACK_TIMEOUT_MS);
            self.delack_due = now + Duration::from_millis(u64::from(self.delack_ms));
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
        let (tsecr, tsval) = (self.ts_recent, now.as_millis() as u32);
        Ack { flow: self.flow, tsecr, tsval, window, flags, ..Ack::default() }
    }

    /// No answer to the SYN-ACK has come in time: returns another one, unless the server forgets the SYN. Linux `reqsk_timer_handler`.
    #[cold]
    pub(super) fn on_syn_ack_timer(&mut self, now: Instant) -> Option<Ack> {
        if self.delack_ms >= SYN_ACK_TIMEOUT_MS << SYN_ACK_RETRIES {
            self.forget_syn();
            return None;
        }
        self.syn_ack_retries = self.syn_ack_retries.saturating_add(1);
        self.delack_ms *= 2;
        Some(self.send_syn_ack(now))
    }

    /// Forgets a SYN that the server has answered: the next one is the first.
    fn forget_syn(&mut self) {
        self.syn_ack_at = Instant::NEVER;
        self.delack_due = Instant::NEVER;
        (self.syn_ack_retries, self.delack_ms) = (0, 0);
    }

    /// Sends no SYN-ACK again: the client has closed the connection before it was complete.
    pub fn abandon_handshake(&mut self) {
        if self.srtt_us == 0 {
            self.forget_syn();
        }
    }

    /// Completes the handshake with the first packet after the SYN-ACK: its ACK, or data if that was lost. Linux `tcp_check_req`,
    /// `tcp_synack_rtt_meas`.
    #[cold]
    pub(super) fn establish(&mut self, packet: &Packet, now: Instant) {
        let echoed = packet.tcp().tsecr();
        let rtt = if let Some(tsecr) = echoed.filter(|_| self.syn_ack_retries > 0) {
            // the echoed timestamp is that of the SYN-ACK that it answers, in whole ms
            u64::from((now.as_millis() as u32).wrapping_sub(tsecr).max(1)) * 1000
        } else {
            now.saturating_since(self.syn_ack_at).as_micros()
        };
        let timer_ran_out = self.delack_ms > SYN_ACK_TIMEOUT_MS;
        if !timer_ran_out || echoed == Some(self.syn_ack_at.as_millis() as u32) {
            self.syn_ack_retries = 0;
        }
        self.delack_due = Instant::NEVER;
        self.open(rtt, now);
    }

    /// The connection is there `now`, after a handshake of `rtt` us.
    fn open(&mut self, rtt: u64, now: Instant) {
        self.srtt_us = rtt.clamp(1, MAX_RTT_US) as u32;
        self.window.on_established(now);
    }

    /// Returns the handshake at the server, once it is complete.
    pub fn handshake(&self) -> Option<ServerHandshake> {
        (self.srtt_us != 0).then_some(ServerHandshake { rtt_us: self.srtt_us, begins_with_one: self.syn_ack_retries > 1 })
    }

    /// Returns whether it agrees on ECN with the peer, whose SYN has come.
    pub fn agrees_on_ecn(&self) -> bool {
        self.ecn_ok
    }

    /// Becomes the receiver of the client, which the other way of the connection has connected `now` after `rtt` us; the ends agree on ECN or not.
    /// Returns the answer to the SYN-ACK, which the sender of the server takes.
    pub fn connect(&mut self, rtt: u64, agrees_on_ecn: bool, now: Instant) -> Ack {
        self.negotiate(agrees_on_ecn, Ecn::NotEct);
        let answer = self.send_syn_ack(now);
        self.delack_due = Instant::NEVER;
        self.open(rtt, now);
        answer
    }
}
