//! What a sender makes of congestion: the state machine of Linux's `tcp_fastretrans_alert`, proportional rate reduction,
//! RACK, tail-loss probes, retransmission timeouts, F-RTO and undo.

use super::conn::{CaEvent, CaState, Congestion, INFINITE_SSTHRESH};
use super::host::{EcnReduction, Prr};
use super::rtt::RTO_MAX_US;
use super::scoreboard::seg;
use super::sender::{AckFlags, Resend, Sender, Timer};
use super::{Ack, Block, Network};
use crate::units::Time;

/// Linux `tp->reordering`: duplicate acknowledgements that show a loss (RFC 5681's three).
const DUPTHRESH: u32 = 3;
/// Linux `TCP_TIMEOUT_MIN_US`: two ticks, the least that a timer is set for.
const TIMEOUT_MIN_US: u64 = 2_000;
/// Linux `TCP_RACK_RECOVERY_THRESH`: recoveries for which a wider reordering window is kept.
const REO_WND_PERSIST: u32 = 16;

impl Sender {
    /// An ACK that is not plain progress, or any ACK outside Open. Returns what to retransmit.
    pub(super) fn alert(&mut self, flags: &mut AckFlags, dupack: bool, ack: &Ack) -> Resend {
        if flags.ece {
            // RFC 3168: a window that ECN reduced is never restored
            self.prior_ssthresh = 0;
        }
        let una = self.conn.snd_una;
        match self.conn.state {
            CaState::Open => self.retrans_stamp = None,
            CaState::Cwr if una > self.conn.high_seq => {
                // strictly beyond: the CWR flag has reached the receiver
                self.end_reduction();
                self.set_state(CaState::Open);
            }
            CaState::Recovery if una >= self.conn.high_seq => {
                self.try_undo_recovery(ack);
                self.end_reduction();
            }
            _ => {}
        }
        match self.conn.state {
            CaState::Recovery => {
                if flags.una_advanced && self.try_undo_partial(ack) {
                    return Resend::Nothing;
                }
                if self.try_undo_dsack() {
                    self.try_to_open(flags);
                }
                self.look_for_losses(flags);
                if self.conn.state != CaState::Recovery {
                    if self.conn.lost_out == 0 {
                        return Resend::Nothing;
                    }
                    self.enter_recovery(flags.ece);
                }
            }
            CaState::Loss => {
                let resend = self.process_loss(flags, dupack, ack);
                self.look_for_losses(flags);
                if !(self.conn.state == CaState::Open || flags.lost_retransmission) {
                    return resend;
                }
                return self.recover_or_open(flags);
            }
            _ => {
                self.try_undo_dsack();
                self.look_for_losses(flags);
                return self.recover_or_open(flags);
            }
        }
        Resend::Lost
    }

    fn recover_or_open(&mut self, flags: &AckFlags) -> Resend {
        if self.conn.lost_out == 0 {
            self.try_to_open(flags);
            return Resend::Nothing;
        }
        self.enter_recovery(flags.ece);
        Resend::Lost
    }

    fn set_state(&mut self, state: CaState) {
        self.cc.set_state(&mut self.conn, state);
        self.conn.state = state;
    }

    fn in_reduction(&self) -> bool {
        matches!(self.conn.state, CaState::Cwr | CaState::Recovery)
    }

    /// Something of what is out was sent again. Linux `tcp_any_retrans_done`.
    fn any_retransmitted(&self) -> bool {
        let conn = &self.conn;
        conn.retrans_out > 0 || (conn.packets_out() > 0 && self.board.get(conn.snd_una).flags & seg::EVER_RETRANS != 0)
    }

    fn try_to_open(&mut self, flags: &AckFlags) {
        if !self.any_retransmitted() {
            self.retrans_stamp = None;
        }
        if flags.ece {
            self.enter_cwr();
        }
        if self.conn.state != CaState::Cwr {
            self.try_keep_open();
        }
    }

    fn try_keep_open(&mut self) {
        let disorder = self.conn.sacked_out + self.conn.lost_out > 0 || self.any_retransmitted();
        let state = if disorder { CaState::Disorder } else { CaState::Open };
        if self.conn.state != state {
            self.set_state(state);
            self.conn.high_seq = self.conn.snd_nxt;
        }
    }

    fn enter_cwr(&mut self) {
        self.prior_ssthresh = 0;
        if self.conn.state < CaState::Cwr {
            self.undo_marker = None;
            self.stats.ecn_reductions += 1;
            self.start_reduction(Congestion::Ecn);
            self.set_state(CaState::Cwr);
        }
    }

    fn enter_recovery(&mut self, ece: bool) {
        self.init_undo();
        if !self.in_reduction() {
            self.prior_ssthresh = if ece { 0 } else { self.current_ssthresh() };
            self.stats.loss_reductions += 1;
            self.start_reduction(Congestion::Loss);
        } else {
            self.complete_answer();
        }
        self.set_state(CaState::Recovery);
    }

    /// A loss in a window that was reduced because of ECN: what is missing of the full answer (RFC 8511 section 3.1). From here on PRR
    /// spreads what an immediate reduction has not taken.
    fn complete_answer(&mut self) {
        if self.conn.state != CaState::Cwr {
            return;
        }
        if let Some(ssthresh) = self.cc.loss_after_ecn(&self.conn) {
            self.stats.loss_reductions += u64::from(ssthresh < self.conn.ssthresh);
            self.conn.ssthresh = self.conn.ssthresh.min(ssthresh);
        }
        if self.host.ecn_reduction == EcnReduction::Immediate {
            // RFC 6937 section 3: RecoverFS
            self.conn.prior_cwnd = self.conn.packets_out();
            self.prr_delivered = 0;
            self.prr_out = 0;
        }
    }

    fn init_undo(&mut self) {
        self.undo_marker = Some(self.conn.snd_una);
        self.undo_retrans = (self.conn.retrans_out > 0).then_some(self.conn.retrans_out);
    }

    /// Threshold to restore: what was reached, if more than `ssthresh`. Linux `tcp_current_ssthresh`.
    fn current_ssthresh(&self) -> u32 {
        if self.in_reduction() {
            self.conn.ssthresh
        } else {
            self.conn.ssthresh.max((self.conn.cwnd >> 1) + (self.conn.cwnd >> 2))
        }
    }

    fn start_reduction(&mut self, cause: Congestion) {
        let conn = &mut self.conn;
        conn.high_seq = conn.snd_nxt;
        self.tlp_high_seq = None;
        conn.cwnd_cnt = 0;
        conn.prior_cwnd = conn.cwnd;
        self.prr_delivered = 0;
        self.prr_out = 0;
        conn.ssthresh = self.cc.ssthresh(conn, cause);
        if self.host.ecn_reduction == EcnReduction::Immediate && cause == Congestion::Ecn {
            conn.cwnd = conn.cwnd.min(conn.ssthresh);
        }
        self.cwr_queued = self.ecn_ok && !self.accurate;
    }

    fn end_reduction(&mut self) {
        let cwr = self.conn.state == CaState::Cwr;
        if self.conn.ssthresh < INFINITE_SSTHRESH && (cwr || self.undo_marker.is_some()) {
            self.conn.cwnd = self.conn.ssthresh;
        }
        self.cc.cwnd_event(&mut self.conn, CaEvent::CompleteCwr);
    }

    /// Sets the window after an ACK that delivered `delivered` segments and showed `lost` losses: proportional rate
    /// reduction during an episode, the congestion control's growth otherwise.
    pub(super) fn adjust_window(&mut self, delivered: u32, lost: u64, flags: &AckFlags) {
        if self.host.ecn_reduction == EcnReduction::Immediate && self.conn.state == CaState::Cwr {
            // the window is where it is to go: nothing is sent until as much has left the network
        } else if self.in_reduction() {
            self.reduce_window(delivered, lost > 0, flags);
        } else if flags.una_advanced {
            self.cc.cong_avoid(&mut self.conn, delivered);
        }
        self.update_pacing_rate();
    }

    /// RFC 6937 section 3, or its successor.
    fn reduce_window(&mut self, delivered: u32, newly_lost: bool, flags: &AckFlags) {
        let conn = &mut self.conn;
        if delivered == 0 || conn.prior_cwnd == 0 {
            return;
        }
        self.prr_delivered += delivered;
        let in_flight = i64::from(conn.in_flight());
        let room = i64::from(conn.ssthresh) - in_flight;
        let behind = i64::from(self.prr_delivered) - i64::from(self.prr_out);
        let mut send = if room < 0 {
            let due = (u64::from(conn.ssthresh) * u64::from(self.prr_delivered)).div_ceil(u64::from(conn.prior_cwnd));
            due as i64 - i64::from(self.prr_out)
        } else {
            let delivered = i64::from(delivered);
            let bound = if self.host.prr == Prr::Rfc6937bis {
                behind.max(delivered) + i64::from(flags.una_advanced && !newly_lost)
            } else if flags.retransmission_acked && !flags.lost_retransmission {
                behind.max(delivered) + 1
            } else {
                delivered
            };
            bound.min(room)
        };
        // the first retransmission goes out whatever the pipe
        send = send.max(i64::from(self.prr_out == 0));
        conn.cwnd = (in_flight + send).max(0) as u32;
    }

    // ---- undo -------------------------------------------------------------------------------------------------------

    /// Whether the ACK was caused by a packet sent before the first retransmission (Eifel, RFC 3522).
    fn packet_delayed(&self, ack: &Ack) -> bool {
        self.retrans_stamp.is_some_and(|stamp| ack.tsecr < stamp)
    }

    fn may_undo(&self, ack: &Ack) -> bool {
        self.undo_marker.is_some() && (self.undo_retrans == Some(0) || self.packet_delayed(ack))
    }

    fn undo_reduction(&mut self, unmark_losses: bool) {
        if unmark_losses {
            self.board.unmark_all(&mut self.conn);
        }
        if self.prior_ssthresh > 0 {
            self.conn.cwnd = self.cc.undo_cwnd(&self.conn);
            if self.prior_ssthresh > self.conn.ssthresh {
                self.conn.ssthresh = self.prior_ssthresh;
                self.cwr_queued = false;
            }
        }
        self.stats.undone += 1;
        self.undo_marker = None;
        self.board.rack.advanced = true;
    }

    fn try_undo_recovery(&mut self, ack: &Ack) {
        if self.may_undo(ack) {
            self.undo_reduction(false);
        } else if self.reo_wnd_persist > 0 {
            self.reo_wnd_persist -= 1;
        }
        self.set_state(CaState::Open);
    }

    fn try_undo_partial(&mut self, ack: &Ack) -> bool {
        if self.undo_marker.is_none() || !self.packet_delayed(ack) {
            return false;
        }
        if self.conn.retrans_out > 0 {
            return true;
        }
        self.retrans_stamp = None;
        self.undo_reduction(true);
        self.try_keep_open();
        false
    }

    fn try_undo_dsack(&mut self) -> bool {
        let undo = self.conn.state != CaState::Loss && self.undo_marker.is_some() && self.undo_retrans == Some(0);
        if undo {
            self.reo_wnd_persist = (self.reo_wnd_persist + 1).min(REO_WND_PERSIST);
            self.undo_reduction(false);
        }
        undo
    }

    fn try_undo_loss(&mut self, frto: bool, ack: &Ack) -> bool {
        if !frto && !self.may_undo(ack) {
            return false;
        }
        self.undo_reduction(true);
        self.retransmits = 0;
        self.set_state(CaState::Open);
        true
    }

    /// A duplicate arrived at the receiver: a retransmission was not needed (RFC 2883, RFC 3708).
    pub(super) fn take_dsack(&mut self, block: Block, prior_una: u64) {
        self.dsack_seen = true;
        let within = self.undo_marker.is_some_and(|marker| block.1 > marker && block.1 <= prior_una);
        if let (true, Some(left)) = (within, self.undo_retrans) {
            let segments = block.1.saturating_sub(block.0).min(u64::from(u32::MAX)) as u32;
            self.undo_retrans = Some(left.saturating_sub(segments));
        }
    }

    // ---- RACK -------------------------------------------------------------------------------------------------------

    /// RFC 8985 section 6.2 step 4: a round trip with a DSACK widens the reordering window.
    pub(super) fn update_reordering_window(&mut self) {
        if !self.dsack_seen || self.conn.delivered < self.reo_wnd_delivered {
            return;
        }
        self.dsack_seen = false;
        self.reo_wnd_steps = (self.reo_wnd_steps + 1).min(255);
        self.reo_wnd_persist = REO_WND_PERSIST;
        self.reo_wnd_delivered = self.conn.delivered + u64::from(self.conn.packets_out());
    }

    /// How much later than the newest delivered segment an older one may arrive. Reordering is never seen here (a
    /// dumbbell keeps order), so that three SACKed segments or running recovery need no window at all.
    fn reordering_window(&self) -> Time {
        if self.conn.state >= CaState::Recovery || self.conn.sacked_out >= DUPTHRESH {
            return Time::ZERO;
        }
        let min_rtt = u64::from(self.conn.rtt.min_us());
        let window = ((min_rtt >> 2) * u64::from(self.reo_wnd_steps)).min(u64::from(self.conn.rtt.srtt_us()));
        Time::from_micros(window)
    }

    fn look_for_losses(&mut self, flags: &mut AckFlags) {
        if self.conn.packets_out() == 0 || !self.board.rack.advanced {
            return;
        }
        self.board.rack.advanced = false;
        let (again, wait) = self.detect_losses();
        if again > 0 {
            flags.lost_retransmission = true;
        }
        if wait > Time::ZERO {
            self.set_timer(Timer::Reordering, wait.as_micros() + TIMEOUT_MIN_US);
            flags.set_timer = false;
        }
    }

    /// Returns (retransmissions lost, time to wait for the next verdict).
    fn detect_losses(&mut self) -> (u32, Time) {
        let window = self.reordering_window();
        let (lost, again, wait) = self.board.detect_loss(&mut self.conn, window);
        self.losses += u64::from(lost + again);
        (again, wait)
    }

    pub(super) fn on_reordering(&mut self, net: &mut impl Network) {
        self.set_timer_off();
        let in_flight = self.conn.in_flight();
        let before = self.losses;
        self.detect_losses();
        if self.conn.in_flight() != in_flight {
            if self.conn.state != CaState::Recovery {
                self.enter_recovery(false);
                self.reduce_window(1, self.losses > before, &AckFlags::default());
            }
            self.retransmit_lost(net);
        }
        if self.timer != Timer::Rto {
            self.arm_rto();
        }
    }

    // ---- timers -----------------------------------------------------------------------------------------------------

    fn rto_us(&self) -> u64 {
        (u64::from(self.conn.rtt.rto_us()) << self.backoff.min(16)).min(u64::from(RTO_MAX_US))
    }

    /// Time left until the oldest segment times out, us.
    fn rto_left_us(&self) -> u64 {
        let since = self.conn.now - self.board.get(self.conn.snd_una).sent;
        self.rto_us().saturating_sub(since.as_micros())
    }

    pub(super) fn arm_rto(&mut self) {
        if self.conn.packets_out() == 0 {
            self.set_timer_off();
            return;
        }
        let timeout = match self.timer {
            // these were set instead of the timeout, whose clock goes on from the oldest segment
            Timer::Tlp | Timer::Reordering => self.rto_left_us().max(1),
            _ => self.rto_us(),
        };
        self.set_timer(Timer::Rto, timeout);
    }

    /// After progress: probe or timeout. Linux `tcp_set_xmit_timer`.
    pub(super) fn arm_timer(&mut self) {
        if !self.arm_probe(true) {
            self.arm_rto();
        }
    }

    /// Sets the tail-loss probe (RFC 8985 section 7.2) if one is due. Returns whether it is.
    pub(super) fn arm_probe(&mut self, rto_restarts: bool) -> bool {
        let out = self.conn.packets_out();
        if out == 0 || !matches!(self.conn.state, CaState::Open | CaState::Cwr) {
            return false;
        }
        let mut timeout = match self.conn.rtt.srtt_us() {
            0 => u64::from(super::rtt::RTO_INIT_US),
            srtt => 2 * u64::from(srtt) + if out == 1 { u64::from(self.host.rto_min_us()) } else { TIMEOUT_MIN_US },
        };
        let rto = if rto_restarts { self.rto_us() } else { self.rto_left_us() };
        if rto > 0 {
            timeout = timeout.min(rto);
        }
        self.set_timer(Timer::Tlp, timeout);
        true
    }

    pub(super) fn on_probe(&mut self, net: &mut impl Network) {
        self.set_timer_off();
        if self.conn.packets_out() == 0 {
            return;
        }
        // a timeout that nothing was sent for goes on from the oldest segment
        self.timer = Timer::Tlp;
        if self.tlp_high_seq.is_none() {
            self.tlp_retrans = false;
            if !self.send_new(net, true) {
                self.tlp_retrans = true;
                self.probe_last(net);
            }
            self.stats.probes += 1;
            self.tlp_high_seq = Some(self.conn.snd_nxt);
            // after a probe it starts anew
            self.timer = Timer::Off;
        }
        self.arm_rto();
    }

    /// RFC 8985 section 7.4: was the probe needed?
    pub(super) fn end_probe(&mut self, ack: &Ack, high: u64, flags: &AckFlags) {
        if ack.ack < high {
            return;
        }
        if !self.tlp_retrans || flags.dsack {
            self.tlp_high_seq = None;
        } else if ack.ack > high {
            // the probe repaired a loss that nothing else would have shown
            self.stats.loss_reductions += 1;
            self.start_reduction(Congestion::Loss);
            self.set_state(CaState::Cwr);
            self.end_reduction();
            self.try_keep_open();
        } else if !flags.una_advanced && !flags.data_sacked {
            self.tlp_high_seq = None;
        }
    }

    pub(super) fn on_rto(&mut self, net: &mut impl Network) {
        self.set_timer_off();
        if self.conn.packets_out() == 0 {
            return;
        }
        self.stats.timeouts += 1;
        self.enter_loss();
        self.retransmits += 1;
        let head = self.conn.snd_una;
        self.retransmit(head, net);
        self.backoff += 1;
        self.set_timer(Timer::Rto, self.rto_us());
    }

    fn enter_loss(&mut self) {
        let new_recovery = self.conn.state < CaState::Recovery;
        // recently sent segments are not lost yet: only the head, and what RACK's time has run out for
        let rack_rtt = self.board.rack.rtt;
        for seq in self.conn.snd_una..self.conn.snd_nxt {
            if seq == self.conn.snd_una || self.conn.now - self.board.get(seq).sent >= rack_rtt {
                self.losses += 1;
                self.board.mark_lost(&mut self.conn, seq);
            }
        }
        let state = self.conn.state;
        if state <= CaState::Disorder
            || self.conn.high_seq <= self.conn.snd_una
            || (state == CaState::Loss && self.retransmits == 0)
        {
            self.prior_ssthresh = self.current_ssthresh();
            self.conn.prior_cwnd = self.conn.cwnd;
            self.conn.ssthresh = self.cc.ssthresh(&self.conn, Congestion::Timeout);
            self.cc.cwnd_event(&mut self.conn, CaEvent::Loss);
            self.init_undo();
        } else {
            self.complete_answer();
        }
        self.conn.cwnd = self.conn.in_flight() + 1;
        self.conn.cwnd_cnt = 0;
        self.set_state(CaState::Loss);
        self.conn.high_seq = self.conn.snd_nxt;
        self.tlp_high_seq = None;
        self.cwr_queued = self.ecn_ok && !self.accurate;
        self.frto_active = self.host.frto && (new_recovery || self.retransmits > 0);
    }

    /// An ACK in Loss: F-RTO (RFC 5682 section 3.1), then conventional recovery.
    fn process_loss(&mut self, flags: &AckFlags, dupack: bool, ack: &Ack) -> Resend {
        let recovered = self.conn.snd_una >= self.conn.high_seq;
        if flags.una_advanced && self.try_undo_loss(false, ack) {
            return Resend::Nothing;
        }
        if self.frto_active {
            if flags.original_sacked && self.try_undo_loss(true, ack) {
                return Resend::Nothing;
            }
            if self.conn.snd_nxt > self.conn.high_seq {
                if flags.data_sacked || dupack {
                    self.frto_active = false;
                }
            } else if flags.una_advanced && !recovered {
                self.conn.high_seq = self.conn.snd_nxt;
                if self.may_send_new() {
                    return Resend::New;
                }
                self.frto_active = false;
            }
        }
        if recovered {
            self.try_undo_recovery(ack);
            return Resend::Nothing;
        }
        Resend::Lost
    }

    /// Sends what an ACK asked for. Linux `tcp_xmit_recovery`.
    pub(super) fn resend(&mut self, resend: Resend, net: &mut impl Network) {
        match resend {
            Resend::Nothing => return,
            Resend::New => {
                self.send_new(net, false);
                if self.conn.snd_nxt > self.conn.high_seq {
                    return;
                }
                self.frto_active = false;
            }
            Resend::Lost => {}
        }
        self.retransmit_lost(net);
    }
}
