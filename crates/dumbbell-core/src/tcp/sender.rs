//! The sending end: connection set-up, acknowledgements in, timers. What follows from them is in
//! [`recovery`](super::recovery) (loss, ECN, PRR, undo) and [`output`](super::output) (what may be sent when).
//!
//! Order of work for each ACK as in Linux `tcp_ack`: congestion control's `in_ack_event`, SACK, cumulative clean-up and
//! RTT, tail-loss probe, congestion machine, timers, window, retransmissions, new data.

use super::conn::{CaState, Conn, INFINITE_SSTHRESH};
use super::host::{HostParams, Pacing};
use super::rtt::{RttEstimator, RTO_INIT_US, RTO_MAX_US};
use super::scoreboard::{seg, Delivered, Scoreboard};
use super::{ack_flag, Ack, Block, FlowOptions, Network};
use crate::cc::{AckEvent, AnyCc};
use crate::packet::{flag, Ecn, Packet, HEADERS, NO_TSECR, SYN_FRAME};
use crate::units::{timer_wheel, Time};
use std::sync::Arc;

/// Send buffer of a new connection, bytes: Linux `tcp_sndbuf_expand` with a window of 10 and 2304 B a segment.
const INITIAL_SEND_BUFFER: u64 = 2 * 10 * 2304;

/// What the application offers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Application {
    /// Always more to send.
    Bulk,
    /// This many bytes, at once.
    Size(u64),
    /// Payload at this many bytes per second, for ever.
    Rate(u64),
}

/// Where the connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not started.
    Idle,
    /// SYN sent.
    SynSent,
    /// Data flows.
    Established,
    /// Everything is acknowledged, or the flow was stopped and is silent.
    Done,
}

/// What the retransmission timer is set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Nothing.
    Off,
    /// Retransmission timeout.
    Rto,
    /// Tail-loss probe.
    Tlp,
    /// RACK's reordering window.
    Reordering,
}

/// Counters of the sender. They only grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderStats {
    /// Data packets sent, retransmissions included.
    pub sent: u64,
    /// Packets sent in all: data, SYNs, the handshake's last.
    pub sent_all: u64,
    /// Retransmissions.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail-loss probes.
    pub probes: u64,
    /// Window reductions because of ECN.
    pub ecn_reductions: u64,
    /// Window reductions because of loss.
    pub loss_reductions: u64,
    /// Reductions that were undone.
    pub undone: u64,
    /// ACKs with ECE.
    pub ece_acks: u64,
}

/// A sending TCP.
#[derive(Clone, Debug)]
pub struct Sender {
    /// What the congestion control sees.
    pub conn: Conn,
    /// Segments in flight.
    pub(super) board: Scoreboard,
    /// Congestion control.
    pub cc: AnyCc,
    /// Counters.
    pub stats: SenderStats,
    pub(super) host: Arc<HostParams>,
    pub(super) app: Application,
    /// Asks for ECN.
    wants_ecn: bool,
    /// Index in the run.
    pub(super) flow: u32,
    /// Where the connection stands.
    pub phase: Phase,
    /// ECN was negotiated.
    pub(super) ecn_ok: bool,
    /// Timestamp of the newest ACK, which data echoes, ms.
    ts_recent: Option<u32>,
    /// The next new segment carries CWR.
    pub(super) cwr_queued: bool,
    /// The receiver counts CE (AccECN), as far as `ce_seen`.
    pub(super) accurate: bool,
    ce_seen: u32,
    /// Codepoint of new data.
    pub(super) ect: Ecn,
    /// When the connection began to send (its SYN).
    pub started: Time,
    /// When everything was acknowledged.
    pub finished: Option<Time>,
    /// No new data from here on.
    pub(super) stopped: bool,
    syn_retries: u32,

    // output
    pub(super) cwnd_usage_seq: u64,
    pub(super) last_sent: Time,
    /// Earliest time of the next paced transmission.
    pub(super) pacing_until: Time,
    /// A transmission waits for `pacing_until`.
    pub(super) pacing_blocked: bool,
    /// Segment after the last one that the receiver's window allows.
    pub(super) window_end: u64,
    /// Segment after the last one that the application has written.
    pub(super) written: u64,
    /// Send buffer, bytes.
    pub(super) send_buffer: u64,
    /// Last segments of writes that are not sent yet carry PSH.
    pub(super) pushes: [u64; 4],
    /// Socket buffers that hold what was written: where one begins, and segments in each.
    pub(super) buffers: (u64, u64),
    /// The application's next segment will be there at this time.
    pub(super) app_until: Time,

    // timers
    pub(super) timer: Timer,
    pub(super) timer_at: Time,
    pub(super) backoff: u32,
    pub(super) retransmits: u32,

    // recovery
    pub(super) prr_delivered: u32,
    pub(super) prr_out: u32,
    pub(super) prior_ssthresh: u32,
    pub(super) undo_marker: Option<u64>,
    pub(super) undo_retrans: Option<u32>,
    /// Timestamp of the first retransmission of the episode, ms.
    pub(super) retrans_stamp: Option<u32>,
    pub(super) tlp_high_seq: Option<u64>,
    pub(super) tlp_retrans: bool,
    pub(super) frto_active: bool,
    pub(super) reo_wnd_steps: u32,
    pub(super) reo_wnd_persist: u32,
    pub(super) reo_wnd_delivered: u64,
    pub(super) dsack_seen: bool,
    /// Loss marks so far, retransmissions that were lost again included.
    pub(super) losses: u64,
}

/// Microseconds of `time`, as far as they fit.
fn micros(time: Time) -> u32 {
    time.as_micros().min(u64::from(u32::MAX)) as u32
}

/// What an ACK turned out to be; as Linux's `FLAG_*`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckFlags {
    pub ece: bool,
    pub una_advanced: bool,
    pub data_sacked: bool,
    pub dsack: bool,
    pub set_timer: bool,
    pub lost_retransmission: bool,
    pub retransmission_acked: bool,
    pub original_sacked: bool,
}

/// What to send after an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resend {
    Nothing,
    Lost,
    New,
}

impl Sender {
    /// A sender for flow `flow` that has not started.
    pub fn new(flow: u32, cc: AnyCc, host: Arc<HostParams>, options: FlowOptions, app: Application) -> Sender {
        let conn = Conn {
            now: Time::ZERO,
            cwnd: host.initial_window,
            cwnd_cnt: 0,
            ssthresh: host.initial_ssthresh.unwrap_or(INFINITE_SSTHRESH),
            prior_cwnd: 0,
            cwnd_clamp: u32::MAX,
            snd_una: 0,
            snd_nxt: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            delivered: 0,
            delivered_ce: 0,
            state: CaState::Open,
            high_seq: 0,
            is_cwnd_limited: false,
            max_packets_out: 0,
            rtt: RttEstimator::new(host.rto_min_us()),
            pacing_rate: u64::MAX,
            paced: host.pacing == Pacing::Fq,
            mss: host.mss,
        };
        Sender {
            wants_ecn: options.ecn || cc.needs_ecn(),
            conn,
            board: Scoreboard::default(),
            cc,
            stats: SenderStats::default(),
            host,
            app,
            flow,
            phase: Phase::Idle,
            ecn_ok: false,
            ts_recent: None,
            cwr_queued: false,
            accurate: false,
            ce_seen: 0,
            ect: Ecn::Ect0,
            started: Time::ZERO,
            finished: None,
            stopped: false,
            syn_retries: 0,
            cwnd_usage_seq: 0,
            last_sent: Time::ZERO,
            pacing_until: Time::ZERO,
            pacing_blocked: false,
            window_end: 0,
            written: 0,
            send_buffer: INITIAL_SEND_BUFFER,
            pushes: [u64::MAX; 4],
            buffers: (0, 1),
            app_until: Time::NEVER,
            timer: Timer::Off,
            timer_at: Time::NEVER,
            backoff: 0,
            retransmits: 0,
            prr_delivered: 0,
            prr_out: 0,
            prior_ssthresh: 0,
            undo_marker: None,
            undo_retrans: None,
            retrans_stamp: None,
            tlp_high_seq: None,
            tlp_retrans: false,
            frto_active: false,
            reo_wnd_steps: 1,
            reo_wnd_persist: 0,
            reo_wnd_delivered: 0,
            dsack_seen: false,
            losses: 0,
        }
    }

    /// Opens the connection: sends a SYN.
    pub fn start(&mut self, now: Time, net: &mut impl Network) {
        self.conn.now = now;
        self.started = now;
        self.phase = Phase::SynSent;
        self.send_syn(net);
    }

    /// Sends no new data from now on.
    pub fn stop(&mut self, now: Time) {
        self.conn.now = now;
        self.stopped = true;
        self.app_until = Time::NEVER;
        if self.phase == Phase::Established && self.conn.snd_una == self.conn.snd_nxt {
            self.finish();
        }
    }

    /// Payload acknowledged so far, bytes.
    pub fn bytes_acked(&self) -> u64 {
        let full = self.conn.snd_una * u64::from(self.host.mss);
        match self.app {
            Application::Size(size) => full.min(size),
            _ => full,
        }
    }

    /// An ACK will come soon, and this is in the cache already: asks for what it points to.
    #[inline]
    pub fn prefetch(&self) {
        self.board.prefetch(self.conn.snd_una);
    }

    /// When [`Sender::on_timer`] wants to be called.
    #[inline]
    pub fn next_timer(&self) -> Time {
        let pacing = if self.pacing_blocked { self.pacing_until } else { Time::NEVER };
        self.timer_at.min(pacing).min(self.app_until)
    }

    /// Bytes of memory beside the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.board.heap_bytes()
    }

    /// Segments that the scoreboard says are SACKed, lost and retransmitted, counted anew: for tests.
    #[doc(hidden)]
    pub fn recount(&self) -> (u32, u32, u32) {
        let segments = || (self.conn.snd_una..self.conn.snd_nxt).map(|seq| self.board.get(seq).flags);
        let count = |bit: u8| segments().filter(|flags| flags & bit != 0).count() as u32;
        (count(seg::SACKED), count(seg::LOST), count(seg::RETRANS))
    }

    fn send_syn(&mut self, net: &mut impl Network) {
        let timeout = (u64::from(RTO_INIT_US) << self.syn_retries.min(7)).min(u64::from(RTO_MAX_US));
        self.set_timer(Timer::Rto, timeout);
        self.send_bare(SYN_FRAME, flag::SYN, net);
    }

    /// Sends a packet without data.
    fn send_bare(&mut self, len: u16, flags: u8, net: &mut impl Network) {
        self.stats.sent_all += 1;
        net.send(Packet { len, ecn: Ecn::NotEct, flags, ..self.stamped() });
    }

    /// A packet with this flow's number and the timestamps of now.
    #[inline]
    pub(super) fn stamped(&self) -> Packet {
        let tsval = self.conn.now.as_millis() as u32;
        let age = self.ts_recent.map_or(u32::MAX, |echoed| tsval.wrapping_sub(echoed));
        let tsecr_age = age.min(u32::from(NO_TSECR)) as u16;
        Packet {
            enqueue_time: Time::ZERO,
            seq: 0,
            flow: self.flow,
            tsval,
            tsecr_age,
            value: 0,
            len: 0,
            ecn: Ecn::NotEct,
            flags: 0,
        }
    }

    fn establish(&mut self, ack: &Ack, net: &mut impl Network) {
        self.phase = Phase::Established;
        self.ts_recent = Some(ack.tsval);
        self.set_timer_off();
        self.ecn_ok = self.wants_ecn && ack.has(ack_flag::ECN_SETUP);
        self.accurate = self.ecn_ok && ack.has(ack_flag::ACCECN_SETUP);
        if self.syn_retries == 0 {
            let rtt = micros(self.conn.now - self.started);
            self.sample_rtt(rtt);
        } else {
            // RFC 6298 section 5.7 and RFC 5681 section 3.1: a lost SYN leaves a window of one segment
            self.conn.cwnd = 1;
        }
        self.backoff = 0;
        self.last_sent = self.conn.now;
        self.window_end = u64::from(ack.window / self.conn.mss);
        self.cc.init(&mut self.conn);
        self.update_pacing_rate();
        self.send_bare(HEADERS, flag::PURE_ACK, net);
        self.push(net);
    }

    pub(super) fn sample_rtt(&mut self, rtt_us: u32) {
        self.conn.rtt.sample_min(rtt_us.max(1), self.conn.now);
        self.conn.rtt.sample(rtt_us, self.conn.snd_una, self.conn.snd_nxt);
        self.backoff = 0;
    }

    /// Takes an acknowledgement with its SACK blocks.
    pub fn on_ack(&mut self, ack: &Ack, blocks: &[Block], now: Time, net: &mut impl Network) {
        self.conn.now = now;
        match self.phase {
            Phase::SynSent if ack.has(ack_flag::SYN_ACK) => return self.establish(ack, net),
            Phase::Established if !ack.has(ack_flag::SYN_ACK) => {}
            _ => return,
        }
        if ack.ack > self.conn.snd_nxt {
            return;
        }
        self.ts_recent = Some(ack.tsval);
        let mut flags = AckFlags { ece: self.ecn_ok && ack.has(ack_flag::ECE), ..AckFlags::default() };
        let new_ce = ack.ce_count.saturating_sub(self.ce_seen);
        if self.accurate {
            self.ce_seen += new_ce;
            flags.ece = new_ce > 0;
        }
        self.stats.ece_acks += u64::from(flags.ece);
        let prior_una = self.conn.snd_una;
        let prior_packets = self.conn.packets_out();
        if ack.ack < prior_una && blocks.is_empty() {
            return;
        }
        if ack.ack >= prior_una {
            self.window_end = self.window_end.max(ack.ack + u64::from(ack.window / self.conn.mss));
        }
        let advanced = ack.ack.saturating_sub(prior_una);
        if advanced > 0 {
            flags.una_advanced = true;
            self.retransmits = 0;
        }
        self.cc.in_ack_event(&mut self.conn, &AckEvent { ece: flags.ece, esce: ack.has(ack_flag::ESCE), advanced });

        let mut delivered = Delivered::default();
        let sacks = match blocks.split_first() {
            Some((&duplicate, rest)) if ack.has(ack_flag::DSACK) => {
                flags.dsack = true;
                self.take_dsack(duplicate, prior_una);
                rest
            }
            _ => blocks,
        };
        if !sacks.is_empty() {
            self.board.sack(&mut self.conn, sacks, &mut delivered);
            flags.data_sacked = delivered.data_sacked;
        }
        if prior_packets == 0 {
            // nothing in flight: at most the echo of what is long acknowledged
            return self.push(net);
        }
        if advanced > 0 {
            self.board.acknowledge(&mut self.conn, ack.ack, &mut delivered);
        }
        self.conn.delivered += u64::from(delivered.segments);
        if self.accurate {
            self.conn.delivered_ce += u64::from(new_ce);
        } else if flags.ece {
            self.conn.delivered_ce += u64::from(delivered.segments);
        }
        flags.original_sacked = delivered.original_sacked;
        flags.retransmission_acked = delivered.retransmission_acked;
        self.take_rtt(&delivered, &mut flags);

        self.update_reordering_window();
        if let Some(high) = self.tlp_high_seq {
            self.end_probe(ack, high, &flags);
        }
        let lost_before = self.losses;
        let mut resend = Resend::Nothing;
        if !flags.una_advanced || flags.data_sacked || flags.ece || flags.dsack || self.conn.state != CaState::Open {
            let dupack = !flags.una_advanced && !flags.dsack;
            resend = self.alert(&mut flags, dupack, ack);
        }
        if flags.set_timer {
            self.arm_timer();
        }
        self.adjust_window(delivered.segments, self.losses - lost_before, &flags);
        self.resend(resend, net);
        if self.all_acknowledged() {
            self.finish();
            return;
        }
        self.push(net);
    }

    /// Takes the RTT samples of an ACK. Linux `tcp_clean_rtx_queue`, `tcp_ack_update_rtt`.
    fn take_rtt(&mut self, delivered: &Delivered, flags: &mut AckFlags) {
        let now = self.conn.now;
        let since = |sent: Time| micros(now - sent);
        let (mut sample, mut newest) = (None, None);
        if !delivered.retransmission_acked {
            sample = delivered.first_acked.map(since);
            newest = delivered.last_acked.map(since);
        }
        if let (Some(first), Some(last)) = (delivered.first_sacked, delivered.last_sacked) {
            sample = sample.or(Some(since(first)));
            newest = Some(since(last));
        }
        if let Some(newest) = newest {
            self.conn.rtt.sample_min(newest.max(1), now);
        }
        if let Some(sample) = sample {
            self.conn.rtt.sample(sample, self.conn.snd_una, self.conn.snd_nxt);
            self.backoff = 0;
        }
        if delivered.acked > 0 {
            flags.set_timer = true;
        } else if let (Some(sacked), true) = (delivered.first_sacked, self.conn.packets_out() > 0) {
            // a SACK of something sent after the head was last sent must not put off the timeout
            flags.set_timer = sacked < self.board.get(self.conn.snd_una).sent;
        }
        if delivered.acked > 0 {
            self.cc.pkts_acked(&mut self.conn, delivered.acked, newest);
        }
    }

    /// Everything that the application wanted to send has arrived.
    fn all_acknowledged(&self) -> bool {
        self.conn.snd_una == self.conn.snd_nxt && (self.stopped || self.conn.snd_una >= self.app_segments())
    }

    fn finish(&mut self) {
        self.phase = Phase::Done;
        self.finished = Some(self.conn.now);
        self.set_timer_off();
        self.pacing_blocked = false;
        self.app_until = Time::NEVER;
    }

    pub(super) fn set_timer(&mut self, timer: Timer, timeout_us: u64) {
        self.timer = timer;
        self.timer_at = timer_wheel(self.conn.now, Time::from_micros(timeout_us));
    }

    pub(super) fn set_timer_off(&mut self) {
        self.timer = Timer::Off;
        self.timer_at = Time::NEVER;
    }

    /// A time given by [`Sender::next_timer`] has come.
    pub fn on_timer(&mut self, now: Time, net: &mut impl Network) {
        self.conn.now = now;
        if self.timer_at <= now {
            match (self.phase, self.timer) {
                (Phase::SynSent, _) => {
                    self.syn_retries += 1;
                    self.stats.timeouts += 1;
                    self.send_syn(net);
                }
                (_, Timer::Rto) => self.on_rto(net),
                (_, Timer::Tlp) => self.on_probe(net),
                (_, Timer::Reordering) => self.on_reordering(net),
                (_, Timer::Off) => self.timer_at = Time::NEVER,
            }
        }
        if self.app_until <= now {
            self.app_until = Time::NEVER;
            self.push(net);
        }
        if self.pacing_blocked && self.pacing_until <= now {
            self.pacing_blocked = false;
            if self.conn.lost_out > self.conn.retrans_out {
                self.retransmit_lost(net);
            }
            self.push(net);
        }
    }
}
