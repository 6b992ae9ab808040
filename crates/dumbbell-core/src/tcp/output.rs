//! What may be sent when: windows, pacing, bursts of segmentation offload, retransmissions.

use super::conn::{CaEvent, CaState};
use super::host::Offload;
use super::sender::{Application, Phase, Sender, Timer};
use super::Network;
use crate::packet::{flag, Ecn, Packet, HEADERS};
use crate::units::Time;

/// Linux `sk_pacing_shift`: a burst is what the pacing rate sends in 1/1024 s.
const PACING_SHIFT: u32 = 10;
/// Linux `GSO_LEGACY_MAX_SIZE`, bytes.
const GSO_MAX_SIZE: u64 = 65_536;
/// Sysctl `tcp_min_tso_segs`.
const MIN_TSO_SEGS: u32 = 2;
/// Memory of a segment by which the send buffer grows with the window (Linux `tcp_sndbuf_expand`: 1460 B of payload,
/// headers and bookkeeping, rounded up to 2048, and an `sk_buff`), bytes; read off `ss -m`.
const BUFFER_PER_SEGMENT: u64 = 2304;
/// Memory of a socket buffer beside its payload, bytes; read off `ss -m`.
const BUFFER_OVERHEAD: u64 = 832;
/// Sysctl `tcp_tso_rtt_log`: bursts double for every 512 us that the path is shorter.
const TSO_RTT_LOG: u32 = 9;
/// Sysctl `tcp_tso_win_divisor`: a third of the window is worth sending.
const TSO_WIN_DIVISOR: u32 = 3;
/// The first segments are never paced (Linux `tcp_update_skb_after_send`, after sch_fq).
const UNPACED_SEGMENTS: u64 = 10;

impl Sender {
    /// Segments in all that the application will want to send.
    pub(super) fn app_segments(&self) -> u64 {
        match self.app {
            Application::Size(size) => size.div_ceil(u64::from(self.host.mss)),
            _ => u64::MAX,
        }
    }

    /// Segments that the application has written and that were never sent.
    fn unsent(&mut self) -> u64 {
        if self.stopped {
            return 0;
        }
        let offered = match self.app {
            Application::Bulk => u64::MAX,
            Application::Size(_) => self.app_segments(),
            Application::Rate(bytes_per_second) => self.offered_at_rate(bytes_per_second),
        };
        self.write(offered);
        self.written - self.conn.snd_nxt
    }

    /// Segments that an application of constant rate has offered so far.
    fn offered_at_rate(&mut self, bytes_per_second: u64) -> u64 {
        let elapsed = u128::from((self.conn.now - self.started).as_nanos());
        let offered = (elapsed * u128::from(bytes_per_second) / 1_000_000_000) as u64 / u64::from(self.conn.mss);
        if offered <= self.conn.snd_nxt {
            // wake up when the next full segment is there
            let bytes = u128::from(self.conn.snd_nxt + 1) * u128::from(self.conn.mss);
            let at = bytes * 1_000_000_000 / u128::from(bytes_per_second.max(1)) + 1;
            self.app_until = self.started.saturating_add(Time(at.min(u128::from(u64::MAX / 2)) as u64));
        }
        offered
    }

    /// The application writes up to segment `offered`, in socket buffers, while the send buffer has room: it is woken when
    /// a third is free, and fills it. The last segment of each write carries PSH. Linux `tcp_sendmsg_locked`,
    /// `sk_stream_write_space`, `tcp_new_space`.
    #[inline]
    fn write(&mut self, offered: u64) {
        if self.written >= offered {
            return;
        }
        let mss = u64::from(self.conn.mss);
        // one socket buffer: 64 KB, half of the receiver's window at the most (tcp_bound_to_half_wnd)
        let half_window = (self.window_end - self.conn.snd_una) / 2;
        let unit = (GSO_MAX_SIZE / mss).min(half_window).max(1);
        // a burst is sent in one buffer: its header is shared by its segments
        let in_flight = u64::from(self.conn.packets_out()) * (mss + BUFFER_OVERHEAD / u64::from(MIN_TSO_SEGS));
        let unsent = (self.written - self.conn.snd_nxt) * (mss + BUFFER_OVERHEAD / unit);
        let mut used = in_flight + unsent;
        if 3 * used > 2 * self.send_buffer {
            return;
        }
        let start = self.written;
        if unit != self.buffers.1 {
            self.buffers = (start, unit);
        }
        while used < self.send_buffer && self.written < offered {
            let more = unit.min(offered - self.written);
            self.written += more;
            used += more * (mss + BUFFER_OVERHEAD / unit);
        }
        if self.written > start {
            self.pushes.rotate_left(1);
            self.pushes[3] = self.written - 1;
        }
    }

    /// Something new is there to send, and the receiver has room.
    pub(super) fn may_send_new(&mut self) -> bool {
        self.unsent() > 0 && self.conn.snd_nxt < self.window_end
    }

    /// Sends what may be sent. Linux `tcp_data_snd_check`.
    #[inline]
    pub(super) fn push(&mut self, net: &mut impl Network) {
        if self.phase == Phase::Established {
            self.send_new(net, false);
            if self.expand_send_buffer() {
                self.send_new(net, false);
            }
        }
    }

    /// The send buffer grows to two windows when the window is not used up, for whatever reason. Returns whether it did. Linux
    /// `tcp_new_space`, `tcp_should_expand_sndbuf`.
    #[inline]
    fn expand_send_buffer(&mut self) -> bool {
        if self.conn.in_flight() >= self.conn.cwnd {
            return false;
        }
        let wanted = (2 * u64::from(self.conn.cwnd.max(10)) * BUFFER_PER_SEGMENT).min(self.host.send_buffer);
        let larger = wanted > self.send_buffer;
        self.send_buffer = self.send_buffer.max(wanted);
        larger
    }

    /// Sends new segments as windows and pacing allow; `probe` sends one whatever the congestion window. Returns
    /// whether anything was sent. Linux `tcp_write_xmit`.
    pub(super) fn send_new(&mut self, net: &mut impl Network, probe: bool) -> bool {
        let mut unsent = self.unsent();
        let max_burst = if self.host.offload == Offload::Tso { self.burst_limit() } else { 1 };
        let may_defer = max_burst > 1 && !probe && self.conn.state < CaState::Recovery;
        let mut limited = false;
        let mut sent = 0;
        while unsent > 0 {
            if self.pacing_holds() {
                break;
            }
            let in_flight = self.conn.in_flight();
            let quota = match self.conn.cwnd.saturating_sub(in_flight) {
                0 if probe => 1,
                0 => break,
                room => room.min((self.conn.cwnd >> 1).max(1)),
            };
            let window = self.window_end.saturating_sub(self.conn.snd_nxt);
            if window == 0 {
                break;
            }
            if may_defer && unsent > 1 && self.should_defer(unsent, window, max_burst, &mut limited) {
                break;
            }
            let most = u64::from(quota.min(max_burst));
            let burst = if probe { 1 } else { most.min(unsent).min(window) };
            self.send_burst(burst as u32, net);
            unsent -= burst;
            sent += burst as u32;
            if probe {
                break;
            }
        }
        if unsent == 0 && matches!(self.app, Application::Rate(_)) {
            // all that was there is sent: wake up for what comes next
            self.unsent();
        }
        limited |= self.conn.in_flight() >= self.conn.cwnd;
        if sent > 0 || limited {
            self.validate_window(limited);
        }
        if sent == 0 {
            return false;
        }
        if matches!(self.conn.state, CaState::Cwr | CaState::Recovery) {
            self.prr_out += sent;
        }
        if !probe {
            self.arm_probe(false);
        }
        true
    }

    /// Segments that are left in the socket buffer of the next one to be sent. A burst goes on into the next buffer, as in
    /// Linux since 6.10 (`tcp_grow_skb`); older kernels end it there.
    #[inline]
    fn left_in_buffer(&self) -> u64 {
        let (start, unit) = self.buffers;
        let next = self.conn.snd_nxt;
        if next >= start {
            unit - (next - start) % unit
        } else {
            (start - next - 1) % unit + 1
        }
    }

    /// Segments of the largest burst. Linux `tcp_tso_autosize`.
    fn burst_limit(&self) -> u32 {
        let mss = u64::from(self.conn.mss);
        let mut bytes = self.conn.pacing_rate >> PACING_SHIFT;
        let shift = self.conn.rtt.min_us() >> TSO_RTT_LOG;
        if self.host.tso_rtt && shift < 32 {
            bytes = bytes.saturating_add(GSO_MAX_SIZE >> shift);
        }
        ((bytes.min(GSO_MAX_SIZE) / mss) as u32).max(MIN_TSO_SEGS)
    }

    /// Whether to wait for a larger burst. Linux `tcp_tso_should_defer`.
    fn should_defer(&self, unsent: u64, window: u64, max_burst: u32, limited: &mut bool) -> bool {
        let conn = &self.conn;
        if conn.now.saturating_sub(self.last_sent) > Time::from_millis(1) {
            // who has not written for 1 ms must not wait
            return false;
        }
        let by_cwnd = u64::from(conn.cwnd - conn.in_flight());
        let limit = by_cwnd.min(window);
        if limit >= u64::from(max_burst) {
            return false;
        }
        let buffer = self.left_in_buffer();
        if unsent > buffer && limit >= buffer {
            // nothing more will come into this buffer
            return false;
        }
        let chunk = u64::from(conn.cwnd).min(self.window_end - conn.snd_una) * u64::from(conn.mss) / u64::from(TSO_WIN_DIVISOR);
        if limit * u64::from(conn.mss) >= chunk || conn.packets_out() == 0 {
            return false;
        }
        // the next ACK will come too late to wait for it
        let srtt = Time(u64::from(conn.rtt.srtt_8us) * 125);
        let mut patience = Time(srtt.0 / 2);
        if self.host.tso_defer_near {
            patience = patience.min(Time::from_millis(1));
        }
        if self.board.get(conn.snd_una).sent + srtt > conn.now + patience {
            return false;
        }
        if by_cwnd < window && by_cwnd <= unsent.min(buffer) {
            *limited = true;
        }
        true
    }

    fn send_burst(&mut self, segments: u32, net: &mut impl Network) {
        let now = self.conn.now;
        if self.conn.packets_out() == 0 {
            self.leave_idle();
        }
        let arm = self.conn.packets_out() == 0 || self.timer == Timer::Tlp;
        let stamped = self.stamped();
        let last = self.app_segments().wrapping_sub(1);
        for index in 1..=segments {
            let seq = self.conn.snd_nxt;
            self.board.push(seq, self.conn.snd_una, now);
            self.conn.snd_nxt += 1;
            // Linux since 5.5 pushes every burst, and leaves single segments to delayed acknowledgement
            let end_of_burst = segments > 1 && index == segments && self.host.push_bursts;
            let mut flags = if end_of_burst || self.pushes.contains(&seq) { flag::PSH } else { 0 };
            let mut payload = self.host.mss;
            if let (Application::Size(size), true) = (self.app, seq == last) {
                flags |= flag::PSH;
                payload = (size - seq * u64::from(self.host.mss)) as u32;
            }
            let mut ecn = Ecn::NotEct;
            if self.ecn_ok {
                ecn = self.ect;
                if self.cwr_queued {
                    flags |= flag::CWR;
                    self.cwr_queued = false;
                }
            }
            self.stats.sent += 1;
            self.stats.sent_all += 1;
            let len = payload as u16 + HEADERS;
            net.send(Packet { seq, len, ecn, flags, ..stamped });
        }
        self.pace(u64::from(segments));
        self.last_sent = now;
        if arm {
            self.arm_rto();
        }
    }

    /// First transmission after everything was acknowledged.
    fn leave_idle(&mut self) {
        let idle = self.conn.now.saturating_sub(self.last_sent);
        if self.conn.snd_nxt == 0 {
            return;
        }
        let rto = Time::from_micros(u64::from(self.conn.rtt.rto_us()));
        if self.host.slow_start_after_idle && idle > rto && self.conn.state == CaState::Open {
            self.restart_window(idle, rto);
        }
        self.cc.cwnd_event(&mut self.conn, CaEvent::TxStart { idle });
    }

    /// RFC 2861 as in Linux `tcp_cwnd_restart`: halve for every RTO of idleness, not below the initial window.
    fn restart_window(&mut self, idle: Time, rto: Time) {
        let conn = &mut self.conn;
        let restart = self.host.initial_window.min(conn.cwnd);
        conn.ssthresh = conn.ssthresh.max((conn.cwnd >> 1) + (conn.cwnd >> 2));
        let mut cwnd = conn.cwnd;
        let mut left = idle;
        while left > rto && cwnd > restart {
            left -= rto;
            cwnd >>= 1;
        }
        conn.cwnd = cwnd.max(restart);
        self.cc.cwnd_event(&mut self.conn, CaEvent::CwndRestart);
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
    pub(super) fn retransmit_lost(&mut self, net: &mut impl Network) {
        let mut head_sent = false;
        while self.conn.retrans_out < self.conn.lost_out && self.conn.in_flight() < self.conn.cwnd {
            if self.pacing_holds() {
                break;
            }
            let Some(seq) = self.board.next_retransmission(&self.conn) else { break };
            self.retransmit(seq, net);
            if matches!(self.conn.state, CaState::Cwr | CaState::Recovery) {
                self.prr_out += 1;
            }
            head_sent |= seq == self.conn.snd_una && self.timer != Timer::Reordering;
        }
        if head_sent {
            self.timer = Timer::Rto;
            self.arm_rto();
        }
    }

    /// Sends segment `seq` again: it is thought lost, or timed out. Linux `tcp_retransmit_skb`.
    pub(super) fn retransmit(&mut self, seq: u64, net: &mut impl Network) {
        let now = self.conn.now;
        self.board.retransmitted(&mut self.conn, seq, now);
        self.retrans_stamp.get_or_insert(now.as_millis() as u32);
        self.undo_retrans = Some(self.undo_retrans.unwrap_or(0) + 1);
        self.send_again(seq, net);
    }

    /// Sends the last segment again as a tail-loss probe: the first transmission is not thought lost.
    pub(super) fn probe_last(&mut self, net: &mut impl Network) {
        let seq = self.conn.snd_nxt - 1;
        self.board.probed(seq, self.conn.now);
        self.send_again(seq, net);
    }

    /// Linux `__tcp_retransmit_skb`.
    fn send_again(&mut self, seq: u64, net: &mut impl Network) {
        self.stats.sent += 1;
        self.stats.sent_all += 1;
        self.stats.retransmissions += 1;
        let mut payload = u64::from(self.host.mss);
        if let Application::Size(size) = self.app {
            payload = payload.min(size - seq * payload);
        }
        // RFC 3168 section 6.1.5: retransmissions are not ECN-capable, unless the congestion control needs it
        let ecn = if self.ecn_ok && self.cc.needs_ecn() { self.ect } else { Ecn::NotEct };
        let len = payload as u16 + HEADERS;
        let flags = flag::RETRANSMISSION;
        net.send(Packet { seq, len, ecn, flags, ..self.stamped() });
        self.pace(1);
    }

    /// Whether pacing holds the next transmission; if so, the timer of [`Sender::next_timer`] is set.
    #[inline]
    fn pacing_holds(&mut self) -> bool {
        self.pacing_blocked = self.conn.paced && self.pacing_until > self.conn.now;
        self.pacing_blocked
    }

    /// Charges a transmission to the pacing clock. Linux `tcp_update_skb_after_send`.
    #[inline]
    fn pace(&mut self, segments: u64) {
        if !self.conn.paced {
            return;
        }
        let before = self.pacing_until;
        self.pacing_until = before.max(self.conn.now);
        let rate = self.conn.pacing_rate;
        if rate == 0 || rate == u64::MAX || self.conn.snd_nxt < UNPACED_SEGMENTS {
            return;
        }
        let len = segments * u64::from(self.host.mss) * 1_000_000_000 / rate;
        // time lost to a late wake-up is given back, up to half of the interval
        let credit = (self.pacing_until - before).0.min(len / 2);
        self.pacing_until += Time(len - credit);
    }

    /// Linux `tcp_update_pacing_rate`.
    #[inline]
    pub(super) fn update_pacing_rate(&mut self) {
        let conn = &mut self.conn;
        let srtt = u64::from(conn.rtt.srtt_8us);
        if srtt == 0 {
            return;
        }
        let slow_start = conn.cwnd < conn.ssthresh / 2;
        let ratio = if slow_start { self.host.pacing_ss_ratio } else { self.host.pacing_ca_ratio };
        let window = u64::from(conn.cwnd.max(conn.packets_out()));
        // mss * window / (srtt_8us / 8e6) * ratio / 100; beyond 64 bits only for windows that no network holds
        let (bytes, scale) = (u64::from(conn.mss) * window, u64::from(ratio) * 80_000);
        conn.pacing_rate = match bytes.checked_mul(scale) {
            Some(product) => product / srtt,
            None => (u128::from(bytes) * u128::from(scale) / u128::from(srtt)).min(u128::from(u64::MAX)) as u64,
        };
    }
}
