//! Reaction of a sender to congestion: the state machine of Linux's `tcp_fastretrans_alert`, proportional rate reduction,
//! RACK, tail-loss probes, retransmission timeouts, F-RTO and undo.

use super::host::EcnReduction;
use super::known::{Anything, Known};
use super::output::Push;
use super::pacer::window_rate;
use super::probe::ProbeVerdict;
use super::prr::PrrProgress;
use super::reordering::DUPTHRESH;
use super::scoreboard::seg;
use super::sender::{AckFlags, Resend, Sender, Timer};
use super::{Ack, Block, Outlet};
use crate::cc::conn::{CaEvent, CaState, Congestion, INFINITE_SSTHRESH};
use crate::cc::exit::ExitCause;
use crate::cc::{CongestionControl, Control};
use crate::hint::{likely, seldom};
use crate::units::{Duration, Instant};

impl Sender {
    /// An ACK that is not plain progress, or any ACK outside Open. `prior_una` is `snd_una` before it. Returns what to
    /// retransmit.
    pub(super) fn alert(&mut self, flags: &mut AckFlags, prior_una: u64, ack: &Ack) -> Resend {
        if flags.ece {
            // RFC 3168: a window that ECN reduced is never restored
            self.undo.prior_ssthresh = 0;
        }
        let una = self.conn.snd_una;
        match self.conn.state {
            CaState::Open => self.undo.first_retransmission = None,
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
                if flags.una_advanced && self.try_undo_partial(prior_una, ack) {
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
                let resend = self.process_loss(flags, ack);
                self.look_for_losses(flags);
                if !(self.conn.state == CaState::Open || flags.lost_retransmission) {
                    return resend;
                }
                return self.recover_or_open(flags);
            }
            _ => return self.recover_or_open(flags),
        }
        Resend::Lost
    }

    /// Outside Recovery and Loss, and after Loss that just ended or whose retransmission was lost.
    #[inline(always)]
    fn recover_or_open(&mut self, flags: &mut AckFlags) -> Resend {
        if self.conn.state <= CaState::Disorder {
            self.try_undo_dsack();
        }
        self.look_for_losses(flags);
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

    /// Nothing of what is out was sent again: the next retransmission is the first. Linux `tcp_retrans_stamp_cleanup`.
    fn forget_first_retransmission(&mut self) {
        if !self.any_retransmitted() {
            self.undo.first_retransmission = None;
        }
    }

    #[inline(always)]
    fn try_to_open(&mut self, flags: &AckFlags) {
        self.forget_first_retransmission();
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
        self.undo.prior_ssthresh = 0;
        if self.conn.state < CaState::Cwr {
            self.undo.marker = None;
            self.stats.ecn_reductions += u64::from(self.cc.answers(Congestion::Ecn));
            self.start_reduction(Congestion::Ecn);
            self.set_state(CaState::Cwr);
        }
    }

    fn enter_recovery(&mut self, ece: bool) {
        self.forget_first_retransmission();
        self.begin_undo();
        if !self.in_reduction() {
            self.undo.prior_ssthresh = if ece { 0 } else { self.current_ssthresh() };
            self.stats.loss_reductions += u64::from(self.cc.answers(Congestion::Loss));
            self.start_reduction(Congestion::Loss);
        } else {
            let ignored = self.conn.state == CaState::Cwr && !self.cc.answers(Congestion::Ecn);
            self.stats.loss_reductions += u64::from(ignored && self.cc.answers(Congestion::Loss));
            self.reduce_rest_for_loss();
        }
        self.set_state(CaState::Recovery);
    }

    /// A loss in a window that ECN reduced already: makes the rest of the reduction (RFC 8511 section 3.1). From here on PRR spreads
    /// what an immediate reduction has not taken.
    fn reduce_rest_for_loss(&mut self) {
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
            self.reduction.start();
        }
    }

    /// Threshold to restore: what was reached, if more than `ssthresh`. Linux `tcp_current_ssthresh`.
    pub(super) fn current_ssthresh(&self) -> u32 {
        if self.in_reduction() {
            self.conn.ssthresh
        } else {
            self.conn.ssthresh.max((self.conn.cwnd >> 1) + (self.conn.cwnd >> 2))
        }
    }

    fn start_reduction(&mut self, cause: Congestion) {
        let conn = &mut self.conn;
        conn.high_seq = conn.snd_nxt;
        self.probe.forget();
        conn.cwnd_cnt = 0;
        conn.prior_cwnd = conn.cwnd;
        self.reduction.start();
        let ssthresh = self.cc.ssthresh(conn, cause);
        conn.set_ssthresh(ssthresh, cause.into());
        let immediate = self.host.ecn_reduction == EcnReduction::Immediate && self.control != Control::Both;
        if immediate && cause == Congestion::Ecn {
            conn.cwnd = conn.cwnd.min(conn.ssthresh);
        }
        self.ecn.queue_cwr();
    }

    fn end_reduction(&mut self) {
        if self.control == Control::Both {
            return;
        }
        let cwr = self.conn.state == CaState::Cwr;
        if self.conn.ssthresh < INFINITE_SSTHRESH && (cwr || self.undo.marker.is_some()) {
            self.conn.cwnd = self.conn.ssthresh;
        }
        self.cc.cwnd_event(&mut self.conn, CaEvent::CompleteCwr);
    }

    /// Sets the window after an ACK that delivered `delivered` segments and showed `lost` losses: proportional rate
    /// reduction during an episode, the congestion control's growth otherwise.
    #[inline(always)]
    pub(super) fn adjust_window<K: Known>(&mut self, delivered: u32, lost: u64, flags: &AckFlags) {
        if !self.in_reduction() {
            if flags.una_advanced || (flags.data_sacked && self.reordering.is_substantial()) {
                K::cc_mut(&mut self.cc).cong_avoid(&mut self.conn, delivered);
            }
        } else if K::ecn_reduction(&self.host) == EcnReduction::Immediate && self.conn.state == CaState::Cwr {
            // the window is where it is to go: nothing is sent until as much has left the network
        } else {
            self.reduce_window::<K>(PrrProgress {
                delivered,
                newly_lost: lost > 0,
                una_advanced: flags.una_advanced,
                retransmission_arrived: flags.retransmission_acked && !flags.lost_retransmission,
            });
        }
        if K::control(self.control) == Control::Window {
            self.conn.pacing_rate = window_rate::<K>(&self.conn, &self.host);
        }
    }

    fn reduce_window<K: Known>(&mut self, progress: PrrProgress) {
        if let Some(window) = self.reduction.window(&self.conn, K::prr(&self.host), progress) {
            self.conn.cwnd = window;
        }
    }

    // ---- undo -------------------------------------------------------------------------------------------------------

    /// An episode begins that may be undone; a probe that waits for its verdict is a retransmission in flight. Linux `tcp_init_undo`.
    fn begin_undo(&mut self) {
        let resent = self.conn.retrans_out + u32::from(self.probe.is_retransmission());
        self.undo.begin(self.conn.snd_una, resent);
    }

    fn undo_reduction(&mut self, unmark_losses: bool) {
        if unmark_losses {
            self.board.unmark_all(&mut self.conn);
        }
        if self.undo.prior_ssthresh > 0 {
            self.conn.cwnd = self.cc.undo_cwnd(&mut self.conn);
            if self.undo.prior_ssthresh > self.conn.ssthresh {
                self.conn.ssthresh = self.undo.prior_ssthresh;
                self.ecn.cancel_cwr();
            }
        }
        self.stats.undone += 1;
        self.undo.marker = None;
        self.board.rack.advanced = true;
    }

    fn try_undo_recovery(&mut self, ack: &Ack) {
        if self.undo.is_due(ack.tsecr) {
            self.undo_reduction(false);
        } else {
            self.reordering.on_recovery_end();
        }
        self.set_state(CaState::Open);
    }

    fn try_undo_partial(&mut self, prior_una: u64, ack: &Ack) -> bool {
        if self.undo.marker.is_none() || !self.undo.caused_by_original(ack.tsecr) {
            return false;
        }
        // the hole closed by what was late, not by a retransmission
        self.reordering.on_overtaken(prior_una, self.board.highest_sacked);
        if self.conn.retrans_out > 0 {
            return true;
        }
        self.forget_first_retransmission();
        self.undo_reduction(true);
        self.try_keep_open();
        false
    }

    fn try_undo_dsack(&mut self) -> bool {
        let undo = self.undo.all_needless();
        if undo {
            self.reordering.on_undo();
            self.undo_reduction(false);
        }
        undo
    }

    fn try_undo_loss(&mut self, frto: bool, ack: &Ack) -> bool {
        if !frto && !self.undo.is_due(ack.tsecr) {
            return false;
        }
        self.undo_reduction(true);
        self.timer.timeouts = 0;
        self.set_state(CaState::Open);
        true
    }

    /// A duplicate arrived at the receiver: a retransmission was not needed (RFC 2883, RFC 3708). Beyond `ack` the first of `sacks` must
    /// contain it. Returns how many segments were delivered again. Linux `tcp_check_dsack`.
    #[cold]
    pub(super) fn take_dsack(&mut self, block: Block, sacks: &[Block], ack: u64, flags: &mut AckFlags) -> u32 {
        let within = |&(start, end): &Block| start <= block.0 && block.1 <= end;
        if block.0 >= ack && !sacks.first().is_some_and(within) {
            return 0;
        }
        let of_probe = self.probe.ends_at(block);
        let segments = self.reordering.take_dsack(block, of_probe, self.stats.retransmissions);
        if segments > 0 {
            flags.dsack = true;
            flags.dsack_of_probe = of_probe;
            self.undo.take_dsack(block, self.conn.snd_una);
            self.take_duplicates_in_flight(block);
        }
        segments
    }

    /// Notes that the unacknowledged part of `block` arrived out of order, and twice. Linux `tcp_sacktag_one`.
    fn take_duplicates_in_flight(&mut self, block: Block) {
        let mut late = None;
        for seq in block.0.max(self.conn.snd_una)..block.1.min(self.conn.snd_nxt) {
            let before = self.board.take_duplicate(&mut self.conn, seq);
            if before & seg::EVER_RETRANS != 0 {
                self.undo.take_duplicate(seq);
                late = late.or((before & seg::SACKED != 0).then_some(seq));
            }
        }
        self.note_late(late);
    }

    /// A SACK shows that segment `late` was overtaken; after a timeout that nothing can undo that says nothing.
    pub(super) fn note_late(&mut self, late: Option<u64>) {
        if let (Some(low), true) = (late, self.conn.state != CaState::Loss || self.undo.marker.is_some()) {
            self.reordering.on_overtaken(low, self.board.highest_sacked);
        }
    }

    // ---- RACK -------------------------------------------------------------------------------------------------------

    fn look_for_losses(&mut self, flags: &mut AckFlags) {
        if self.conn.packets_out() == 0 || !self.board.rack.advanced {
            return;
        }
        self.board.rack.advanced = false;
        let (again, wait) = self.detect_losses();
        if again > 0 {
            flags.lost_retransmission = true;
        }
        if wait > Duration::ZERO {
            self.timer.set_reordering(wait, &self.conn.rtt, self.conn.now);
            flags.set_timer = false;
        }
    }

    /// Returns (retransmissions lost, time to wait for the next verdict).
    #[inline(always)]
    fn detect_losses(&mut self) -> (u32, Duration) {
        if likely(self.board.is_nothing_late(&self.conn)) {
            return (0, Duration::ZERO);
        }
        self.mark_losses()
    }

    /// [`Sender::detect_losses`] where something may be late.
    #[inline(never)]
    fn mark_losses(&mut self) -> (u32, Duration) {
        let window = self.reordering.window(&self.conn);
        let (lost, again, wait) = match self.rate.as_deref_mut() {
            None => self.board.detect_loss(&mut self.conn, window, &mut ()),
            Some(rate) => self.board.detect_loss(&mut self.conn, window, rate),
        };
        self.losses += u64::from(lost + again);
        self.report_losses();
        (again, wait)
    }

    /// Tells a control that wants to know of every loss mark.
    fn report_losses(&mut self) {
        let Some(rate) = &mut self.rate else { return };
        for loss in rate.losses.drain(..) {
            self.cc.on_loss(&mut self.conn, &loss);
        }
    }

    pub(super) fn on_reordering(&mut self, net: &mut impl Outlet) {
        // a timeout that no retransmission restarts goes on from the oldest segment
        self.timer.disarm();
        let in_flight = self.conn.in_flight();
        let before = self.losses;
        self.detect_losses();
        if self.conn.in_flight() != in_flight {
            if self.conn.state != CaState::Recovery {
                self.enter_recovery(false);
                if self.control != Control::Both {
                    self.reduce_window::<Anything>(PrrProgress {
                        delivered: 1,
                        newly_lost: self.losses > before,
                        ..PrrProgress::default()
                    });
                }
            }
            self.retransmit_lost(net);
        }
        if self.timer.kind != Timer::Rto {
            self.arm_rto();
        }
    }

    // ---- timers -----------------------------------------------------------------------------------------------------

    /// When the oldest segment in flight was last sent.
    #[inline]
    fn oldest_sent(&self) -> Instant {
        self.board.get(self.conn.snd_una).sent
    }

    #[inline]
    fn put_off_for_pacing(&mut self) {
        if let Some(delay) = self.pacer.delay(self.conn.now) {
            self.timer.put_off(delay);
        }
    }

    pub(super) fn arm_rto(&mut self) {
        if self.conn.packets_out() == 0 {
            self.timer.stop();
            return;
        }
        let sent = self.oldest_sent();
        let now = self.conn.now;
        self.timer.set_rto(&self.conn.rtt, sent, now);
        self.put_off_for_pacing();
    }

    /// After progress: probe or timeout. Linux `tcp_set_xmit_timer`.
    #[inline(always)]
    pub(super) fn arm_timer(&mut self) {
        if self.conn.packets_out() > 0 && self.may_probe() {
            self.arm_probe(true);
        } else {
            self.arm_rto();
        }
    }

    /// Whether what is in flight is probed for.
    #[inline]
    pub(super) fn may_probe(&self) -> bool {
        matches!(self.conn.state, CaState::Open | CaState::Cwr)
    }

    /// Sets the tail-loss probe (RFC 8985 section 7.2) for what is in flight.
    #[inline(always)]
    pub(super) fn arm_probe(&mut self, rto_restarts: bool) {
        let used = if rto_restarts { Duration::ZERO } else { self.conn.now - self.oldest_sent() };
        let (conn, host) = (&self.conn, &self.host);
        self.timer.set_probe(&conn.rtt, conn.packets_out(), used, || host.rto_min_us(), conn.now);
        self.put_off_for_pacing();
    }

    pub(super) fn on_probe(&mut self, net: &mut impl Outlet) {
        self.timer.stop();
        if self.conn.packets_out() == 0 {
            return;
        }
        // a timeout that nothing was sent for goes on from the oldest segment
        self.timer.kind = Timer::Tlp;
        if !self.probe.is_open() {
            let new = self.may_send_new();
            if !new {
                self.probe_last(net);
            } else if !self.send_new::<Anything>(net, Push::Probe) {
                // pacing holds it: nothing is sent, and there is no probe
                return self.arm_rto();
            }
            self.stats.probes += 1;
            self.probe.on_probe_sent(self.conn.snd_nxt, !new);
            // after a probe it starts again
            self.timer.kind = Timer::Off;
        }
        self.arm_rto();
    }

    /// RFC 8985 section 7.4: was the probe needed? Returns whether the ACK may be of the probe, which is not known yet.
    pub(super) fn end_probe(&mut self, ack: &Ack, flags: &AckFlags) -> bool {
        let duplicate = !flags.una_advanced && !flags.data_sacked && !flags.window_update;
        let verdict = self.probe.judge(ack.ack, flags.dsack_of_probe, duplicate);
        match verdict {
            ProbeVerdict::RepairedLoss => {
                let app_limited = self.rate.as_ref().is_some_and(|rate| rate.probed_app_limited);
                self.cc.cwnd_event(&mut self.conn, CaEvent::ProbeRepairedLoss { app_limited });
                self.stats.loss_reductions += u64::from(self.cc.answers(Congestion::Loss));
                self.start_reduction(Congestion::Loss);
                self.set_state(CaState::Cwr);
                self.end_reduction();
                self.try_keep_open();
            }
            ProbeVerdict::Ambiguous | ProbeVerdict::Open | ProbeVerdict::Needless => {}
        }
        verdict == ProbeVerdict::Ambiguous
    }

    pub(super) fn on_rto(&mut self, net: &mut impl Outlet) {
        self.timer.stop();
        if self.conn.packets_out() == 0 {
            return;
        }
        self.stats.timeouts += 1;
        self.enter_loss();
        self.timer.timeouts += 1;
        let head = self.conn.snd_una;
        self.retransmit(head, net);
        self.timer.backoff += 1;
        self.timer.set(Timer::Rto, self.timer.rto_us(&self.conn.rtt), self.conn.now);
    }

    fn enter_loss(&mut self) {
        let new_recovery = self.conn.state < CaState::Recovery;
        // recently sent segments are not lost yet: only the head, and what RACK's time has run out for
        let rack_rtt = self.board.rack.rtt;
        for seq in self.conn.snd_una..self.conn.snd_nxt {
            if seq == self.conn.snd_una || self.conn.now - self.board.get(seq).sent >= rack_rtt {
                let newly = match self.rate.as_deref_mut() {
                    None => self.board.mark_lost(&mut self.conn, seq, &mut ()),
                    Some(rate) => self.board.mark_lost(&mut self.conn, seq, rate),
                };
                self.losses += u64::from(newly);
            }
        }
        self.report_losses();
        let state = self.conn.state;
        if state <= CaState::Disorder && self.conn.sacked_out >= u32::from(DUPTHRESH) {
            self.reordering.was_overestimated();
        }
        if state <= CaState::Disorder
            || self.conn.high_seq <= self.conn.snd_una
            || (state == CaState::Loss && self.timer.timeouts == 0)
        {
            self.undo.prior_ssthresh = self.current_ssthresh();
            self.conn.prior_cwnd = self.conn.cwnd;
            let ssthresh = self.cc.ssthresh(&self.conn, Congestion::Timeout);
            self.conn.set_ssthresh(ssthresh, ExitCause::Timeout);
            self.cc.cwnd_event(&mut self.conn, CaEvent::Loss);
            self.begin_undo();
        } else {
            self.reduce_rest_for_loss();
        }
        self.conn.cwnd = self.conn.in_flight() + 1;
        self.conn.cwnd_cnt = 0;
        self.set_state(CaState::Loss);
        self.conn.high_seq = self.conn.snd_nxt;
        self.probe.forget();
        self.ecn.queue_cwr();
        self.frto_active = self.host.frto && (new_recovery || self.timer.timeouts > 0);
    }

    /// An ACK in Loss: F-RTO (RFC 5682 section 3.1), then conventional recovery.
    fn process_loss(&mut self, flags: &AckFlags, ack: &Ack) -> Resend {
        let recovered = self.conn.snd_una >= self.conn.high_seq;
        if flags.una_advanced && self.try_undo_loss(false, ack) {
            return Resend::Nothing;
        }
        if self.frto_active {
            if flags.original_sacked && self.try_undo_loss(true, ack) {
                return Resend::Nothing;
            }
            if self.conn.snd_nxt > self.conn.high_seq {
                if flags.data_sacked || flags.dupack {
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
    pub(super) fn resend(&mut self, resend: Resend, net: &mut impl Outlet) {
        if resend == Resend::Nothing {
            return;
        }
        seldom();
        match resend {
            Resend::New => {
                self.send_new::<Anything>(net, Push::All);
                if self.conn.snd_nxt > self.conn.high_seq {
                    return;
                }
                self.frto_active = false;
            }
            Resend::Lost | Resend::Nothing => {}
        }
        if self.conn.lost_out > self.conn.retrans_out {
            self.retransmit_lost(net);
        }
    }
}
