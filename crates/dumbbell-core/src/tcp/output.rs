//! Decides what may be sent when: windows, pacing, bursts of segmentation offload, retransmissions.

use super::host::{Offload, Writes};
use super::known::{Anything, Known};
use super::sender::{Phase, Sender, Timer};
use super::write_queue::{Filled, GSO_MAX_SIZE};
use super::{Burst, Outlet};
use crate::cc::conn::{CaEvent, CaState};
use crate::cc::{CongestionControl, Control};
use crate::packet::{flag, Packet};
use crate::units::Duration;

/// Linux `sk_pacing_shift`: a burst is what the pacing rate sends in 1/1024 s.
const PACING_SHIFT: u32 = 10;
/// Sysctl `tcp_tso_rtt_log`: bursts double for every 512 us that the path is shorter.
const TSO_RTT_LOG: u32 = 9;
/// Sysctl `tcp_tso_win_divisor`: a third of the window is worth sending.
const TSO_WIN_DIVISOR: u64 = 3;

/// A write of an application that polls, bytes: iperf3's block (`DEFAULT_TCP_BLKSIZE`).
const POLLING_WRITE: u64 = 128 * 1024;

/// How much new data to send at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Push {
    /// All that windows and pacing allow.
    All,
    /// One burst, without waiting for a larger one.
    One,
    /// New data as a probe: one segment even if the congestion window is full.
    Probe,
}

impl Sender {
    /// Something new is there to send, and the receiver has room.
    pub(super) fn may_send_new(&self) -> bool {
        self.queue.waiting(&self.conn) > 0 && self.conn.snd_nxt < self.window_end
    }

    /// Sends what may be sent, and lets the application write if there is room. Returns whether anything was sent. Linux
    /// `tcp_data_snd_check`.
    #[inline(always)]
    pub(super) fn push<K: Known>(&mut self, net: &mut impl Outlet) -> bool {
        if self.phase != Phase::Established {
            return false;
        }
        if net.counts_memory() {
            self.report_memory(net);
        }
        let sent = self.queue.waiting(&self.conn) > 0 && self.send_new::<K>(net, Push::All);
        self.queue.expand(&self.conn, &self.host, net);
        match self.queue.next_write(&self.conn, self.board.bursts) {
            Some(offered) => self.write(offered, net) || sent,
            None => sent,
        }
    }

    /// The application writes up to segment `offered`, as far as memory allows.
    #[inline(never)]
    fn write(&mut self, mut offered: u64, net: &mut impl Outlet) -> bool {
        let mut sent = false;
        loop {
            let mut left = match self.host.writes {
                Writes::Polling => POLLING_WRITE,
                Writes::Blocking => u64::MAX,
            };
            sent |= self.write_once(offered, &mut left, net);
            match self.queue.next_write(&self.conn, self.board.bursts) {
                Some(more) if left == 0 => offered = more,
                _ => break,
            }
        }
        sent
    }

    #[cold]
    #[inline(never)]
    fn report_memory(&self, net: &mut impl Outlet) {
        net.set_send_buffer(self.flow, self.queue.memory(&self.conn, self.board.bursts));
    }

    /// One write of `left` bytes. Data leaves meanwhile: when a buffer is full, all that may be sent if it is pushed, one burst if it is the
    /// next to be sent. What leaves makes room in a buffer that was full. Linux `tcp_sendmsg_locked`.
    fn write_once(&mut self, offered: u64, left: &mut u64, net: &mut impl Outlet) -> bool {
        self.check_app_limited();
        let mut sent = false;
        let mut first = true;
        while let Some(filled) = self.queue.fill(offered, first, left, &self.conn, self.board.bursts) {
            first = false;
            if net.counts_memory() {
                self.report_memory(net);
            }
            match filled {
                Filled::Pushed => sent |= self.send_new::<Anything>(net, Push::All),
                Filled::Front => sent |= self.send_new::<Anything>(net, Push::One),
                Filled::InPart | Filled::Behind => {}
            }
        }
        if !first {
            self.queue.push();
            sent |= self.send_new::<Anything>(net, Push::All);
        }
        sent
    }

    /// Sends new segments as windows and pacing allow, and `extent`. Returns whether anything was sent. Linux `tcp_write_xmit`.
    pub(super) fn send_new<K: Known>(&mut self, net: &mut impl Outlet, extent: Push) -> bool {
        let probe = extent == Push::Probe;
        let mut unsent = self.queue.waiting(&self.conn);
        let max_burst = if K::offload(&self.host) != Offload::None { self.burst_limit::<K>() } else { 1 };
        let may_defer = max_burst > 1 && extent == Push::All && self.conn.state < CaState::Recovery;
        let probe_follows = !probe && self.may_probe();
        let mut in_flight = self.conn.in_flight();
        let mut limited = false;
        let mut sent = 0;
        while unsent > 0 {
            if self.pacer.holds(&self.conn) {
                break;
            }
            let window = self.window_end.saturating_sub(self.conn.snd_nxt);
            if window == 0 {
                break;
            }
            if self.conn.packets_out() == 0 {
                // this burst is not deferred, and the window that sizes it may shrink here
                self.leave_idle();
            }
            let room = self.conn.cwnd.saturating_sub(in_flight);
            let quota = match room {
                0 if probe => 1,
                0 => break,
                room => room.min((self.conn.cwnd >> 1).max(1)),
            };
            if may_defer && unsent > 1 && self.should_defer::<K>(unsent, u64::from(room), window, max_burst, &mut limited) {
                break;
            }
            let mut burst = u64::from(quota.min(max_burst)).min(unsent).min(window);
            if !K::burst_across_buffers(&self.host) {
                burst = burst.min(self.queue.left_in_buffer());
            }
            self.send_burst::<K>(burst as u32, probe_follows, net);
            in_flight += burst as u32;
            if K::expand_between_bursts(&self.host) {
                self.queue.expand(&self.conn, &self.host, net);
            }
            unsent -= burst;
            sent += burst as u32;
            if extent != Push::All {
                break;
            }
        }
        limited |= in_flight >= self.conn.cwnd;
        if sent > 0 || limited {
            self.validate_window(limited);
        }
        if sent == 0 {
            return false;
        }
        if matches!(self.conn.state, CaState::Cwr | CaState::Recovery) {
            self.reduction.count_sent(sent);
        }
        if probe_follows {
            self.arm_probe(false);
        }
        true
    }

    /// Segments of the largest burst. Linux `tcp_tso_autosize`.
    #[inline(always)]
    fn burst_limit<K: Known>(&mut self) -> u32 {
        let mss = u64::from(self.conn.mss);
        if K::control(self.control) != Control::Window {
            if let Some(segments) = K::cc(&self.cc).max_burst(&self.conn) {
                return segments.min((GSO_MAX_SIZE / mss) as u32).max(1);
            }
        }
        let mut bytes = self.conn.pacing_rate >> PACING_SHIFT;
        let shift = self.conn.rtt.min_us() >> TSO_RTT_LOG;
        if K::tso_rtt(&self.host) && shift < 32 {
            bytes = bytes.saturating_add(GSO_MAX_SIZE >> shift);
        }
        let bytes = bytes.min(GSO_MAX_SIZE) as u32;
        // mostly as many as last time: a quotient costs more than the rest
        let (_, from) = self.last_burst;
        if bytes.wrapping_sub(from) >= self.conn.mss {
            let segments = bytes / self.conn.mss;
            self.last_burst = (segments, segments * self.conn.mss);
        }
        self.last_burst.0.max(K::cc(&self.cc).min_burst(&self.conn))
    }

    /// Whether to wait for a larger burst than the congestion window, of which `by_cwnd` are left, or the receiver's allow. Linux
    /// `tcp_tso_should_defer`.
    fn should_defer<K: Known>(&self, unsent: u64, by_cwnd: u64, window: u64, max_burst: u32, limited: &mut bool) -> bool {
        let conn = &self.conn;
        // the pacing clock (Linux tcp_wstamp_ns) is ahead of the last transmission of what is paced
        if conn.now.saturating_since(self.last_sent.max(self.pacer.next)) > Duration::from_millis(1) {
            // who has not written for 1 ms must not wait
            return false;
        }
        let limit = by_cwnd.min(window);
        if limit >= u64::from(max_burst) {
            return false;
        }
        let buffer = self.queue.left_in_buffer();
        if unsent > buffer && limit >= buffer {
            // nothing more will come into this buffer
            return false;
        }
        // limit >= window / 3 in bytes, without a quotient
        let whole = u64::from(conn.cwnd).min(self.window_end - conn.snd_una);
        let lacks = whole.saturating_sub(TSO_WIN_DIVISOR * limit) * u64::from(conn.mss);
        if lacks < TSO_WIN_DIVISOR || conn.packets_out() == 0 {
            return false;
        }
        // the next ACK will come too late to wait for it
        let srtt = Duration(u64::from(conn.rtt.srtt_8us) * 125);
        let mut patience = srtt / 2;
        if K::tso_defer_near(&self.host) {
            patience = patience.min(Duration::from_millis(1));
        }
        if self.board.get(conn.snd_una).sent + srtt > conn.now + patience {
            return false;
        }
        if by_cwnd < window && by_cwnd <= unsent.min(buffer) {
            *limited = true;
        }
        true
    }

    /// Sends a burst of new segments. If the probe's timer is set after it anyway, the timeout need not be.
    fn send_burst<K: Known>(&mut self, segments: u32, probe_follows: bool, net: &mut impl Outlet) {
        let now = self.conn.now;
        if let Some(rate) = self.rate.as_mut().filter(|_| K::RATE_SAMPLES) {
            rate.record_send(&self.conn, self.conn.snd_nxt, segments);
        }
        let arm = !probe_follows && (self.conn.packets_out() == 0 || self.timer.kind == Timer::Tlp);
        // Linux since 5.5 pushes every burst, and leaves single segments to delayed acknowledgement
        let push = self.queue.send(segments) || (segments > 1 && K::push_bursts(&self.host));
        let (una, first) = (self.conn.snd_una, self.conn.snd_nxt);
        let end = first + u64::from(segments);
        let (more, last) = if K::offload(&self.host) == Offload::Gso && segments > 1 { (flag::MORE, flag::LAST) } else { (0, 0) };
        self.board.push_burst(first, end, una, now);
        // all but the last are full, and only the first tells of a reduction
        let (ecn, cwr) = self.ecn.stamp();
        let len = self.conn.mss as u16 + self.conn.headers;
        let last_len = self.queue.payload(end - 1, self.conn.mss) as u16 + self.conn.headers;
        net.send_burst(Burst {
            next: Packet { len, ..self.new_packet(first, ecn, cwr | more) },
            end,
            flags: more,
            last_flags: last | if push { flag::PSH } else { 0 },
            last_len,
        });
        self.conn.snd_nxt = end;
        self.pacer.charge(&self.conn, u64::from(segments));
        self.last_sent = now;
        if arm {
            self.arm_rto();
        }
    }

    /// First transmission after everything was acknowledged, before its burst is sized.
    #[cold]
    fn leave_idle(&mut self) {
        if self.conn.snd_nxt == 0 {
            return;
        }
        if self.host.slow_start_after_idle && self.control != Control::Both {
            // Linux tcp_slow_start_after_idle_check: whatever the state, in whole ms, and with the back-off
            let idle = self.conn.now.as_millis() - self.last_sent.as_millis();
            let rto = self.timer.rto_us(&self.conn.rtt).div_ceil(1000);
            if idle > rto {
                self.restart_window(idle, rto);
            }
        }
        let idle = self.conn.now.saturating_since(self.last_sent);
        let app_limited = self.rate.as_ref().is_some_and(|rate| rate.is_app_limited());
        self.cc.cwnd_event(&mut self.conn, CaEvent::TxStart { idle, app_limited });
    }

    /// RFC 2861 as in Linux `tcp_cwnd_restart`: halve for every RTO of idleness, not below the initial window. Times in ms.
    fn restart_window(&mut self, idle: u64, rto: u64) {
        self.cc.cwnd_event(&mut self.conn, CaEvent::CwndRestart);
        self.conn.ssthresh = self.current_ssthresh();
        let conn = &mut self.conn;
        let restart = self.host.initial_window.min(conn.cwnd);
        let mut cwnd = conn.cwnd;
        let mut left = idle;
        while left > rto && cwnd > restart {
            left -= rto;
            cwnd >>= 1;
        }
        conn.cwnd = cwnd.max(restart);
        self.cwnd_usage_seq = self.conn.snd_nxt;
    }

    /// Remembers how far the window was used. Linux `tcp_cwnd_validate`.
    #[inline]
    fn validate_window(&mut self, limited: bool) {
        let conn = &mut self.conn;
        let out = conn.packets_out();
        if conn.snd_una >= self.cwnd_usage_seq || limited || (!conn.is_cwnd_limited && out > conn.max_packets_out) {
            conn.is_cwnd_limited = limited;
            conn.max_packets_out = out;
            self.cwnd_usage_seq = conn.snd_nxt;
        }
    }

    /// Sends again what is lost, as far as the window allows. Linux `tcp_xmit_retransmit_queue`.
    pub(super) fn retransmit_lost(&mut self, net: &mut impl Outlet) {
        let mut head_sent = false;
        while self.conn.retrans_out < self.conn.lost_out && self.conn.in_flight() < self.conn.cwnd {
            if self.pacer.holds(&self.conn) {
                break;
            }
            let Some(seq) = self.board.next_retransmission(&self.conn) else { break };
            self.retransmit(seq, net);
            if matches!(self.conn.state, CaState::Cwr | CaState::Recovery) {
                self.reduction.count_sent(1);
            }
            head_sent |= seq == self.conn.snd_una && self.timer.kind != Timer::Reordering;
        }
        if head_sent {
            self.timer.kind = Timer::Rto;
            self.arm_rto();
        }
    }

    /// Sends segment `seq` again: it is thought lost, or timed out. Linux `tcp_retransmit_skb`.
    pub(super) fn retransmit(&mut self, seq: u64, net: &mut impl Outlet) {
        let now = self.conn.now;
        self.note_sent_again(seq);
        self.board.mark_retransmitted(&mut self.conn, seq, now);
        self.undo.on_retransmit(now.as_millis() as u32);
        self.send_again(seq, net);
    }

    /// Sends the last segment again as a tail-loss probe: the first transmission is not thought lost.
    pub(super) fn probe_last(&mut self, net: &mut impl Outlet) {
        let seq = self.conn.snd_nxt - 1;
        if let Some(rate) = &mut self.rate {
            rate.note_probe(seq);
        }
        self.note_sent_again(seq);
        self.board.mark_probed(seq, self.conn.now);
        self.send_again(seq, net);
    }

    fn note_sent_again(&mut self, seq: u64) {
        if let Some(rate) = &mut self.rate {
            rate.record_send(&self.conn, seq, 1);
        }
    }

    /// Linux `__tcp_retransmit_skb`.
    fn send_again(&mut self, seq: u64, net: &mut impl Outlet) {
        self.stats.retransmissions += 1;
        self.last_sent = self.conn.now;
        let ecn = self.ecn.of_other();
        let mss = self.sizes.as_ref().map_or(self.conn.mss, |sizes| sizes.payload_at(seq));
        let len = self.queue.payload(seq, mss) as u16 + self.conn.headers;
        net.send(Packet { len, ..self.new_packet(seq, ecn, flag::RETRANSMISSION) });
        self.pacer.charge(&self.conn, 1);
    }
}
