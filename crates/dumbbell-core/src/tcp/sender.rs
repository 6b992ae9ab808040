//! The sending end: connection set-up, acknowledgements in, timers. What follows from them is in
//! [`recovery`](super::recovery) (loss, ECN, PRR, undo) and [`output`](super::output) (what may be sent when).
//!
//! Order of work for each ACK as in Linux `tcp_ack`: SACK, cumulative clean-up and RTT, congestion control's `in_ack_event` (first of all
//! before 6.12.117), tail-loss probe, congestion machine, timers, window, retransmissions, new data.

use super::ecn::{AckEcho, DeliveryProgress, SenderEcn, OPTION_BYTES};
use super::host::{HostParams, Opener, Pacing};
use super::known::{self, with_known, Anything, Known};
use super::pacer::{window_rate, Pacer};
use super::probe::Probe;
use super::prr::Reduction;
use super::rate::RateSampler;
use super::receiver::ServerHandshake;
use super::reordering::Reordering;
use super::scoreboard::{seg, Delivered, Observer as _, PlainRow, Scoreboard};
use super::stats::SenderStats;
use super::timer::RetransmissionTimer;
pub use super::timer::Timer;
use super::undo::Undo;
pub use super::write_queue::{AppPlan, Application};
use super::write_queue::{SegmentSizes, WriteQueue};
pub use super::writes::PieceWrites;
use super::{ack_flag, Ack, Block, FlowOptions, Outlet};
use crate::cc::conn::{CaState, Conn, INFINITE_SSTHRESH};
use crate::cc::{self, AckEvent, AnyCc, CongestionControl, Control, RateSample};
use crate::hint::{seldom, unlikely};
use crate::histogram::CompactHistogram;
use crate::packet::{flag, Ecn, Packet, Timestamps, SYN_FRAME};
use crate::prefetch::{prefetch, prefetch_part};
use crate::rtt::{RttEstimator, RTO_INIT_US, RTO_MAX_US};
use crate::units::{Duration, Instant, Rate};
use std::sync::Arc;

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

/// A sending TCP. What most ACKs touch lies in one piece, here and in its parts, with what they seldom touch around it: with thousands of
/// senders they do not stay in the cache, and [`Sender::HOT`] bytes of each, from [`Sender::HOT_AT`] on, are fetched ahead.
#[derive(Debug)]
#[repr(C)]
pub struct Sender {
    // seldom needed
    /// When the connection began to send (its SYN).
    pub started: Instant,
    syn_retries: u32,
    /// A timeout may turn out to be spurious (RFC 5682).
    pub(super) frto_active: bool,
    /// Counters but for `sent`, which follows from others: [`Sender::stats`].
    pub(crate) stats: SenderStats,
    pub(super) reduction: Reduction,
    pub(super) undo: Undo,

    /// State that the congestion control sees.
    pub conn: Conn,
    pub(super) host: Arc<HostParams>,
    /// Rate samples, for a congestion control that asks for them.
    pub(super) rate: Option<Box<RateSampler>>,
    /// Index in the run.
    pub(super) flow: u32,
    /// Window that the last ACK offered, bytes, and whole segments.
    peer_window: u32,
    peer_segments: u32,
    /// Timestamp of the newest ACK, which data echoes, ms; there is one once the connection is established.
    ts_recent: u32,
    pub(super) ecn: SenderEcn,
    /// Where the connection stands.
    pub phase: Phase,
    /// Code for a usual host is right for [`Sender::host`].
    pub(super) is_usual: bool,
    /// The part that the congestion control decides.
    pub(super) control: Control,
    pub(super) timer: RetransmissionTimer,
    pub(super) pacer: Pacer,
    pub(super) probe: Probe,
    /// Segment after the last one that the receiver's window allows.
    pub(super) window_end: u64,
    /// When data last left, sent again or not; at first the handshake's ACK.
    pub(super) last_sent: Instant,
    /// Segments of the last largest burst, and the bytes from which on it is as many.
    pub(super) last_burst: (u32, u32),
    /// When this segment is acknowledged, it is decided again whether the window is in full use.
    pub(super) cwnd_usage_seq: u64,
    pub(super) queue: WriteQueue,
    pub(super) reordering: Reordering,
    /// Segments in flight.
    pub(super) board: Scoreboard,
    /// Every sample that the RTT estimator took, if they are to be recorded.
    pub rtt_samples: Option<CompactHistogram>,
    /// Congestion control.
    pub cc: AnyCc,

    // seldom needed
    /// When everything was acknowledged.
    pub finished: Option<Instant>,
    /// Payloads of segments, if the congestion control has changed them.
    pub(super) sizes: Option<Box<SegmentSizes>>,
    /// Loss marks so far, retransmissions that were lost again included.
    pub(super) losses: u64,
    #[cfg(test)]
    pub(super) last_sample: Option<RateSample>,
}

crate::fork_fields! {
    Sender {
        cc;
        started, syn_retries, frto_active, stats, reduction, undo, conn, host, rate, flow, peer_window, peer_segments, ts_recent, ecn,
        phase, is_usual, control, timer, pacer, probe, window_end, last_sent, last_burst, cwnd_usage_seq, queue, reordering, board,
        rtt_samples, finished, sizes, losses, #[cfg(test)] last_sample
    }
}

/// Microseconds of `time`, as far as they fit.
fn micros(time: Duration) -> u32 {
    time.as_micros().min(u64::from(u32::MAX)) as u32
}

/// A connection to `host` that has not begun.
fn first_conn(host: &HostParams, app: &Application) -> Conn {
    Conn {
        cwnd: host.initial_window,
        ssthresh: host.initial_ssthresh.unwrap_or(INFINITE_SSTHRESH),
        rtt: RttEstimator::new(host.rto_min_us()),
        pacing_rate: u64::MAX,
        paced: host.pacing == Pacing::Fq,
        mss: host.mss,
        // transfers of a size and applications of a rate count whole segments
        least_mss: if *app == Application::Bulk { 1 } else { host.mss },
        ..Conn::new()
    }
}

/// Classification of an ACK, as Linux's `FLAG_*`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckFlags {
    pub ece: bool,
    pub una_advanced: bool,
    pub dupack: bool,
    pub window_update: bool,
    pub data_sacked: bool,
    pub dsack: bool,
    pub dsack_of_probe: bool,
    pub set_timer: bool,
    pub lost_retransmission: bool,
    pub retransmission_acked: bool,
    pub original_sacked: bool,
}

/// Effects of an ACK, on which the rest of its handling depends.
struct AckProgress {
    /// Segments that it delivers.
    segments: u32,
    echo: AckEcho,
    /// RTT of the newest segment that it delivers and that was sent once, us.
    rtt_us: Option<u32>,
    /// `snd_una`, and the segment after the highest one SACKed, before it.
    prior_una: u64,
    prior_highest: u64,
    prior_in_flight: u32,
}

/// Kind of data to send after an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resend {
    Nothing,
    Lost,
    New,
}

impl Sender {
    /// Where what most ACKs touch begins, bytes from the start.
    pub const HOT_AT: usize = std::mem::offset_of!(Sender, conn) + Conn::HOT_AT;
    /// How many bytes that is.
    pub const HOT: usize = std::mem::offset_of!(Sender, cc) + cc::CACHED - Sender::HOT_AT;

    /// Where that begins which ACKs with ECE and those in an episode of congestion touch as well; it ends with [`Sender::conn`].
    const REDUCTION_AT: usize = std::mem::offset_of!(Sender, stats) + SenderStats::OF_ECN_AT;

    first_values! {
        Sender(flow: u32, cc: AnyCc, host: Arc<HostParams>; options: FlowOptions, app: Application);
        /// A sender for flow `flow` that has not started.
        pub fn new;
        fn renew_in_place;
        cleared { board: Scoreboard::default() }
        set {
            conn: first_conn(&host, &app),
            is_usual: known::is_usual(&host),
            queue: WriteQueue::new(app, cc.buffered_windows(), &host),
            ecn: SenderEcn::new(options.ecn, cc.ecn()),
            control: cc.control(),
            rate: cc.rate_samples().then(|| Box::new(RateSampler::new())),
            #[cfg(test)]
            last_sample: None,
            stats: SenderStats::default(),
            rtt_samples: None,
            phase: Phase::Idle,
            started: Instant::ZERO,
            finished: None,
            syn_retries: 0,
            sizes: None,
            ts_recent: 0,
            pacer: Pacer::new(),
            window_end: 0,
            peer_window: 0,
            peer_segments: 0,
            last_sent: Instant::ZERO,
            cwnd_usage_seq: 0,
            last_burst: (0, u32::MAX),
            timer: RetransmissionTimer::new(),
            reduction: Reduction::default(),
            undo: Undo::default(),
            probe: Probe::default(),
            reordering: Reordering::new(),
            frto_active: false,
            losses: 0,
        }
    }

    /// Becomes what [`Sender::new`] makes for the same flow and host, in place: short flows have no time to ask for memory, to count references
    /// and to move a kilobyte.
    pub fn renew(&mut self, cc: AnyCc, options: FlowOptions, app: Application) {
        self.cc = cc;
        self.renew_in_place(options, app);
    }

    /// Opens the connection: sends a SYN.
    pub fn start(&mut self, now: Instant, net: &mut impl Outlet) {
        self.begin(now);
        self.phase = Phase::SynSent;
        self.send_syn(net);
    }

    /// Begins as the server of a connection whose other way has carried the handshake, which the client's `answer` completed.
    pub fn accept(&mut self, handshake: ServerHandshake, answer: &Ack, now: Instant, net: &mut impl Outlet) {
        self.begin(now);
        self.open(answer, handshake.rtt_us, handshake.begins_with_one);
        self.push::<Anything>(net);
    }

    /// The connection begins.
    fn begin(&mut self, now: Instant) {
        self.conn.now = now;
        self.started = now;
        self.queue.started = now;
    }

    /// The connection is closed before it began.
    pub fn abandon(&mut self) {
        self.finish();
    }

    /// The application, which writes piece by piece, writes `bytes` at `at`, not before its earlier writes. They are sent by [`Sender::on_timer`].
    pub fn write_at(&mut self, at: Instant, bytes: u64) {
        if let Application::Written(writes) = &mut self.queue.app {
            writes.plan(at, bytes);
            self.queue.wakes_at = self.queue.wakes_at.min(at);
        }
    }

    /// From `at` on the application, which writes piece by piece, always has more to send in addition. That begins at [`Sender::on_timer`].
    pub fn fill_at(&mut self, at: Instant) {
        if let Application::Written(writes) = &mut self.queue.app {
            writes.fill(at);
            self.queue.wakes_at = self.queue.wakes_at.min(at);
        }
    }

    /// Lets an agent set window and pacing rate. What the connection may send then leaves at `at`, by [`Sender::on_timer`]. Returns whether the control is
    /// [`external`](cc::external).
    pub fn steer(&mut self, window: Option<u32>, rate: Option<Rate>, at: Instant) -> bool {
        let AnyCc::External(control) = &mut self.cc else { return false };
        control.steer(&mut self.conn, window, rate);
        if self.phase == Phase::Established && !self.queue.stopped {
            self.queue.wakes_at = self.queue.wakes_at.min(at);
        }
        true
    }

    /// Returns the writes of an application that writes piece by piece.
    pub fn writes_mut(&mut self) -> Option<&mut PieceWrites> {
        match &mut self.queue.app {
            Application::Written(writes) => Some(writes),
            _ => None,
        }
    }

    /// Sends no new data from now on.
    pub fn stop(&mut self, now: Instant) {
        self.conn.now = now;
        self.queue.stopped = true;
        self.queue.wakes_at = Instant::NEVER;
        if self.phase == Phase::Established && self.conn.snd_una == self.conn.snd_nxt {
            self.finish();
        }
    }

    /// Counters.
    pub fn stats(&self) -> SenderStats {
        // a data packet is a segment that is new, or is sent again
        SenderStats { sent: self.conn.snd_nxt + self.stats.retransmissions, ..self.stats }
    }

    /// Payload acknowledged so far, bytes.
    pub fn bytes_acked(&self) -> u64 {
        self.count_payload_below(self.conn.snd_una)
    }

    /// Payload of the segments below `una`, which is not less than what is acknowledged, bytes.
    pub fn count_payload_below(&self, una: u64) -> u64 {
        let full = self.sizes.as_ref().map_or(una * u64::from(self.conn.mss), |sizes| sizes.payload_below(una));
        match self.queue.app {
            Application::Size(size) => full.min(size),
            Application::Written(ref writes) => writes.payload_below(una, self.conn.mss),
            _ => full,
        }
    }

    /// An ACK will come soon, and this is in the cache already: asks for what it points to.
    #[inline]
    pub fn prefetch(&self) {
        self.board.prefetch(self.conn.snd_una);
        self.queue.prefetch();
        if let Some(samples) = &self.rtt_samples {
            samples.prefetch();
        }
        if let Some(rate) = &self.rate {
            prefetch(&**rate);
        }
        if self.ecn.agreed || self.conn.state != CaState::Open {
            prefetch_part(self, Sender::REDUCTION_AT, std::mem::offset_of!(Sender, conn) - Sender::REDUCTION_AT);
        }
        self.cc.prefetch();
    }

    /// Prefetches the memory that the first prefetch has made reachable, some time later.
    #[inline]
    pub fn prefetch_behind(&self) {
        if let Some(rate) = &self.rate {
            rate.prefetch(self.conn.snd_una);
        }
    }

    /// When [`Sender::on_timer`] wants to be called.
    #[inline]
    pub fn next_timer(&self) -> Instant {
        let other = self.pacer.timer().min(self.queue.wakes_at);
        // seldom the later one: most timers of a paced sender are its pacer's
        if other <= self.timer.not_before() {
            other
        } else {
            other.min(self.timer.fire_time())
        }
    }

    /// A time at or before [`Sender::next_timer`], which costs less.
    #[inline]
    pub fn no_timer_before(&self) -> Instant {
        self.timer.not_before().min(self.pacer.timer()).min(self.queue.wakes_at)
    }

    /// Bytes of memory in addition to the struct itself.
    pub fn heap_bytes(&self) -> usize {
        let samples = self.rtt_samples.as_ref().map_or(0, CompactHistogram::heap_bytes);
        self.board.heap_bytes() + self.queue.heap_bytes() + self.rate.as_ref().map_or(0, |rate| rate.heap_bytes()) + samples
    }

    /// From now on, ACKs are taken by the code for any control and host, for tests.
    #[doc(hidden)]
    pub fn use_general_code(&mut self) {
        self.is_usual = false;
    }

    /// Segments that the scoreboard says are SACKed, lost and retransmitted, counted again, for tests.
    #[doc(hidden)]
    pub fn recount(&self) -> (u32, u32, u32) {
        let segments = || (self.conn.snd_una..self.conn.snd_nxt).map(|seq| self.board.get(seq).flags);
        let count = |bit: u8| segments().filter(|flags| flags & bit != 0).count() as u32;
        (count(seg::SACKED), count(seg::LOST), count(seg::RETRANS))
    }

    /// Whether losses would be found where [`Scoreboard::is_nothing_late`] says that there are none: for tests.
    #[doc(hidden)]
    pub fn overlooks_losses(&self) -> bool {
        let (mut board, mut conn) = (self.board.clone(), self.conn.clone());
        let window = self.reordering.window(&conn);
        board.is_nothing_late(&conn) && board.detect_loss(&mut conn, window, &mut ()) != (0, 0, Duration::ZERO)
    }

    /// A SYN, or a SYN-ACK if the receiver opens: a frame of the same size.
    fn send_syn(&mut self, net: &mut impl Outlet) {
        let active = self.host.opener == Opener::Sender;
        let linear = if active { self.host.syn_linear_timeouts } else { 0 };
        let doublings = self.syn_retries.saturating_sub(linear);
        let timeout = (u64::from(RTO_INIT_US) << doublings.min(7)).min(u64::from(RTO_MAX_US));
        self.timer.set(Timer::Rto, timeout, self.conn.now);
        // RFC 3168 section 6.1.1.1, Linux tcp_ecn_clear_syn: a SYN that is sent again does not ask for ECN
        let again = if active && self.syn_retries > 0 { flag::RETRANSMISSION } else { 0 };
        // a SYN has no AccECN option; a SYN-ACK has (RFC 9768 section 3.2.3.2.1)
        let option = if !active && self.ecn.asks_for_counts() && self.host.accecn_option { OPTION_BYTES } else { 0 };
        self.send_bare(SYN_FRAME + option, flag::SYN | again, self.ecn.of_syn(), net);
    }

    /// Sends a packet without data.
    fn send_bare(&mut self, len: u16, flags: u16, ecn: Ecn, net: &mut impl Outlet) {
        self.stats.bare += 1;
        net.send(Packet { len, ..self.new_packet(0, ecn, flags) });
    }

    /// A packet with this flow's number and the timestamps of now.
    #[inline]
    pub(super) fn new_packet(&self, seq: u64, ecn: Ecn, flags: u16) -> Packet {
        Packet { flow: self.flow, ..Packet::new_tcp(seq, ecn, flags).with_timestamps(self.timestamps()) }
    }

    /// The timestamps of now.
    #[inline]
    pub(super) fn timestamps(&self) -> Timestamps {
        Timestamps::new(self.conn.now.as_millis() as u32, self.has_answer().then_some(self.ts_recent))
    }

    /// The peer has answered, so that there is a timestamp to echo.
    #[inline]
    fn has_answer(&self) -> bool {
        !matches!(self.phase, Phase::Idle | Phase::SynSent)
    }

    /// The SYN-ACK has come.
    fn establish(&mut self, ack: &Ack, net: &mut impl Outlet) {
        let mut rtt = micros(self.conn.now - self.started);
        let mut begins_with_one = false;
        if self.syn_retries > 0 {
            // the echoed timestamp is that of the SYN that is answered (RFC 7323 section 4.1), in whole ms
            rtt = (self.conn.now.as_millis() as u32).wrapping_sub(ack.tsecr).max(1).saturating_mul(1000);
            // Linux tcp_init_transfer, tcp_try_undo_spurious_syn: the initial window shrinks if more than one SYN was sent again, and the
            // first one was not just late (RFC 6298 section 5.7 and RFC 5681 section 3.1)
            begins_with_one = self.syn_retries > 1 && ack.tsecr != self.started.as_millis() as u32;
        }
        self.open(ack, rtt, begins_with_one);
        if self.host.opener == Opener::Sender {
            self.send_bare(self.conn.headers, flag::PURE_ACK, self.ecn.of_other(), net);
        }
        self.push::<Anything>(net);
    }

    /// The connection is there, after a handshake of `rtt` us; the other end's first packet was `ack`.
    fn open(&mut self, ack: &Ack, rtt: u32, begins_with_one: bool) {
        self.phase = Phase::Established;
        self.ts_recent = ack.tsval;
        self.timer.stop();
        self.ecn.negotiate(ack);
        if self.ecn.is_required_but_refused() {
            self.cc = AnyCc::without_ecn();
            self.control = self.cc.control();
            self.rate = None;
        }
        if self.ecn.accurate && ack.has(ack_flag::ACCECN_OPTION) {
            self.conn.mss -= u32::from(OPTION_BYTES);
            self.conn.headers += OPTION_BYTES;
        }
        self.sample_rtt(rtt);
        if begins_with_one {
            self.conn.cwnd = 1;
        }
        self.timer.backoff = 0;
        self.last_sent = self.conn.now;
        self.on_window_offer(ack.window);
        self.window_end = u64::from(self.peer_segments);
        // the SYN counts as delivered
        self.conn.delivered = 1;
        self.cc.init(&mut self.conn);
        self.on_window_offer(ack.window);
        if self.control == Control::Window {
            self.conn.pacing_rate = window_rate::<Anything>(&self.conn, &self.host);
        }
    }

    /// The receiver offers a window of `bytes`.
    fn on_window_offer(&mut self, bytes: u32) {
        self.peer_window = bytes;
        self.queue.max_window = self.queue.max_window.max(bytes);
        self.count_in_segments();
    }

    /// The receiver's window or the payload of segments is another one: what is kept as a count of segments.
    fn count_in_segments(&mut self) {
        self.peer_segments = self.peer_window / self.conn.mss;
        self.last_burst = (0, u32::MAX);
    }

    fn sample_rtt(&mut self, rtt_us: u32) {
        self.conn.rtt.sample_min(rtt_us.max(1), self.conn.now);
        self.estimate_rtt(rtt_us);
    }

    /// Every sample of the smoothed RTT passes here.
    #[inline(always)]
    fn estimate_rtt(&mut self, rtt_us: u32) {
        self.conn.rtt.sample(rtt_us, self.conn.snd_una, self.conn.snd_nxt);
        self.timer.backoff = 0;
        if let Some(samples) = &mut self.rtt_samples {
            samples.record(Duration::from_micros(u64::from(rtt_us)));
        } else {
            seldom();
        }
    }

    /// Round trip by the timestamp that `ack` echoes, us: in whole ms, at least 1. Linux `tcp_rtt_tsopt_us`.
    #[cold]
    #[inline(never)]
    fn rtt_by_timestamp(&self, ack: &Ack) -> Option<u32> {
        let ms = (self.conn.now.as_millis() as u32).wrapping_sub(ack.tsecr);
        (ms < i32::MAX as u32 / 1000).then(|| ms.max(1) * 1000)
    }

    /// Takes an acknowledgement with its SACK blocks.
    #[inline(always)]
    pub fn on_ack(&mut self, ack: &Ack, blocks: &[Block], now: Instant, net: &mut impl Outlet) {
        self.conn.now = now;
        with_known!(self, Found => self.take_ack::<Found>(ack, blocks, net));
    }

    #[inline(never)]
    fn take_ack<K: Known>(&mut self, ack: &Ack, blocks: &[Block], net: &mut impl Outlet) {
        let una = self.conn.snd_una;
        let advances = una < ack.ack && ack.ack <= self.conn.snd_nxt && self.board.highest_sacked <= una;
        let is_open = self.phase == Phase::Established && !ack.has(ack_flag::SYN_ACK);
        let row = if advances && is_open && blocks.is_empty() { self.board.plain_row(una, ack.ack) } else { None };
        match row {
            Some(row) => self.take_row::<K>(ack, &row, net),
            None => {
                seldom();
                self.take_other(ack, blocks, net);
            }
        }
    }

    /// Takes the usual ACK: what it acknowledges was sent once, and nothing was SACKed.
    #[inline(always)]
    fn take_row<K: Known>(&mut self, ack: &Ack, row: &PlainRow, net: &mut impl Outlet) {
        let prior_una = self.conn.snd_una;
        let prior_in_flight = self.count_prior::<K>();
        let advanced = ack.ack - prior_una;
        let segments = advanced as u32;
        let mut flags = AckFlags { ece: self.ecn.ece(ack), una_advanced: true, ..AckFlags::default() };
        let newer = self.take_timestamp(ack);
        self.take_window(ack);
        self.timer.timeouts = 0;
        if K::RATE_SAMPLES {
            self.check_app_limited();
        }
        let early = K::early_ack_event(&self.host);
        if early {
            self.report_ack_early(ack, advanced, flags.ece);
        }
        if let Some(rate) = self.rate.as_deref_mut().filter(|_| K::RATE_SAMPLES) {
            for seq in prior_una..ack.ack {
                rate.on_delivered(seq, &self.board.get(seq));
            }
        }
        self.board.acknowledge_row(&mut self.conn, ack.ack, row);
        let echo = self.read_echo(ack, segments, newer, &mut flags);
        self.count_delivered(segments, echo);
        flags.original_sacked = prior_una < self.conn.high_seq;
        let rtt_us = Some(self.take_rtt_of_row::<K>(row, segments, &mut flags));
        self.reordering.update(&self.conn, || Some(row.last));
        if !early {
            self.report_ack::<K>(ack, advanced, echo);
        }
        let progress = AckProgress { segments, echo, rtt_us, prior_una, prior_highest: prior_una, prior_in_flight };
        self.finish_ack::<K>(ack, progress, flags, net);
    }

    /// Takes any other ACK.
    #[inline(never)]
    fn take_other(&mut self, ack: &Ack, blocks: &[Block], net: &mut impl Outlet) {
        let syn = ack.has(ack_flag::SYN_ACK);
        if syn || self.phase != Phase::Established {
            if syn && self.phase == Phase::SynSent {
                self.establish(ack, net);
            }
            return;
        }
        if ack.ack > self.conn.snd_nxt {
            return;
        }
        let newer = self.take_timestamp(ack);
        let mut flags = AckFlags { ece: self.ecn.ece(ack), ..AckFlags::default() };
        let prior_una = self.conn.snd_una;
        let prior_packets = self.conn.packets_out();
        let prior_in_flight = self.count_prior::<Anything>();
        if ack.ack < prior_una && blocks.is_empty() {
            return;
        }
        if ack.ack >= prior_una {
            flags.window_update = ack.window > self.peer_window && ack.ack == prior_una;
            self.take_window(ack);
        }
        let advanced = ack.ack.saturating_sub(prior_una);
        // `snd_una` counts bytes in Linux, and moves within a segment too; that delivers nothing (`tcp_clean_rtx_queue`)
        if advanced > 0 || (ack.has(ack_flag::PART) && ack.ack == prior_una) {
            flags.una_advanced = true;
            self.timer.timeouts = 0;
        }
        self.check_app_limited();
        if self.host.early_ack_event {
            self.report_ack_early(ack, advanced, flags.ece);
        }
        let prior_highest = self.board.highest_sacked;
        let mut delivered = Delivered::default();
        let sacks = match blocks.split_first() {
            Some((&duplicate, rest)) if ack.has(ack_flag::DSACK) => {
                delivered.segments = self.take_dsack(duplicate, rest, ack.ack, &mut flags);
                rest
            }
            _ => blocks,
        };
        self.take_sacks(sacks, &mut delivered, &mut flags);
        if prior_packets == 0 {
            let echo = self.read_echo(ack, delivered.segments, newer, &mut flags);
            self.take_late_news(&mut flags, ack, advanced, echo, delivered.segments);
            self.push::<Anything>(net);
            return;
        }
        if advanced > 0 {
            match self.rate.as_deref_mut() {
                None => self.board.acknowledge(&mut self.conn, ack.ack, ack.tsecr, &mut delivered, &mut ()),
                Some(rate) => self.board.acknowledge(&mut self.conn, ack.ack, ack.tsecr, &mut delivered, rate),
            }
        }
        let segments = delivered.segments;
        let echo = self.read_echo(ack, segments, newer, &mut flags);
        self.count_delivered(segments, echo);
        flags.original_sacked = delivered.original_sacked;
        flags.retransmission_acked = delivered.retransmission_acked;
        let rtt_us = self.take_rtt(&delivered, ack, &mut flags);
        self.reordering.update(&self.conn, || {
            let any = delivered.acked > 0 || delivered.data_sacked;
            // of a retransmission no time is kept: it is the newest
            any.then(|| delivered.last_acked.max(delivered.last_sacked).unwrap_or(self.board.rack.sent))
        });
        if !self.host.early_ack_event {
            self.report_ack::<Anything>(ack, advanced, echo);
        }
        let progress = AckProgress { segments, echo, rtt_us, prior_una, prior_highest, prior_in_flight };
        self.finish_ack::<Anything>(ack, progress, flags, net);
    }

    /// In flight before an ACK does anything. Few controls need it, and it takes three additions for each ACK.
    #[inline(always)]
    fn count_prior<K: Known>(&self) -> u32 {
        if K::control(self.control) == Control::Both {
            self.conn.in_flight()
        } else {
            0
        }
    }

    /// Takes the timestamp of an ACK. Returns whether it is newer than the one before, where that matters.
    #[inline(always)]
    fn take_timestamp(&mut self, ack: &Ack) -> bool {
        let newer = self.ecn.accurate && ack.tsval > self.ts_recent;
        self.ts_recent = ack.tsval;
        newer
    }

    /// Takes the window that an ACK offers which is not older than another.
    #[inline(always)]
    fn take_window(&mut self, ack: &Ack) {
        if unlikely(ack.window != self.peer_window) {
            self.on_window_offer(ack.window);
        }
        self.window_end = self.window_end.max(ack.ack + u64::from(self.peer_segments));
    }

    /// Does what follows from an ACK: the congestion machine, timers, the window, and what may be sent.
    #[inline(always)]
    fn finish_ack<K: Known>(&mut self, ack: &Ack, progress: AckProgress, mut flags: AckFlags, net: &mut impl Outlet) {
        let AckProgress { segments, echo, rtt_us, prior_una, prior_highest, prior_in_flight } = progress;
        let acks_probe = unlikely(self.probe.is_open()) && self.end_probe(ack, &flags);
        let (mut resend, mut newly_lost) = (Resend::Nothing, 0);
        if !flags.una_advanced || flags.data_sacked || flags.ece || flags.dsack || self.conn.state != CaState::Open {
            if let Some(low) = self.board.lowest_plain(prior_una..prior_highest.min(self.conn.snd_una)) {
                // a hole below what was SACKed before closed without a retransmission
                self.reordering.on_overtaken(low, self.board.highest_sacked);
            }
            // a copy, so that the flags of most ACKs need no memory
            let mut seen = flags;
            seen.dupack = !flags.una_advanced && !flags.dsack && !flags.window_update;
            let lost_before = self.losses;
            resend = self.alert(&mut seen, prior_una, ack);
            newly_lost = self.losses - lost_before;
            (flags.set_timer, flags.lost_retransmission) = (seen.set_timer, seen.lost_retransmission);
        }
        // what is sent sets the timer again: then it need not be set before
        let timer_waits = resend == Resend::Nothing && self.may_probe();
        if flags.set_timer && !timer_waits {
            self.arm_timer();
        }
        if K::control(self.control) == Control::Both {
            self.let_control_decide::<K>(RateSample {
                ack_delivered: segments,
                ack_marked: echo.count_marked(segments),
                ack_lost: newly_lost as u32,
                prior_in_flight,
                pacing_wait_us: self.pacer.next.saturating_since(self.conn.now).as_micros(),
                acks_probe,
                rtt_us,
                ece: flags.ece,
                ..RateSample::default()
            });
        } else {
            self.adjust_window::<K>(segments, newly_lost, &flags);
        }
        self.resend(resend, net);
        if self.all_acknowledged() {
            self.finish();
            return;
        }
        let sent = self.push::<K>(net);
        if flags.set_timer && timer_waits && !sent {
            self.arm_timer();
        }
    }

    /// Takes the SACK blocks of an ACK, if it has any.
    #[inline(never)]
    fn take_sacks(&mut self, sacks: &[Block], delivered: &mut Delivered, flags: &mut AckFlags) {
        if sacks.is_empty() {
            return;
        }
        let late = match self.rate.as_deref_mut() {
            None => self.board.sack(&mut self.conn, sacks, delivered, &mut ()),
            Some(rate) => self.board.sack(&mut self.conn, sacks, delivered, rate),
        };
        flags.data_sacked = delivered.data_sacked;
        self.note_late(late);
    }

    /// An ACK delivered `segments`, and echoed some marks.
    #[inline(always)]
    fn count_delivered(&mut self, segments: u32, echo: AckEcho) {
        self.conn.delivered += u64::from(segments);
        self.conn.delivered_ce += u64::from(echo.count_marked(segments));
    }

    /// An ACK while nothing was in flight: at most it reports a duplicate, or the echo of what is long acknowledged. Linux `tcp_ack`, label
    /// `no_queue`.
    #[cold]
    #[inline(never)]
    fn take_late_news(&mut self, flags: &mut AckFlags, ack: &Ack, advanced: u64, echo: AckEcho, delivered: u32) {
        self.count_delivered(delivered, echo);
        if !self.host.early_ack_event {
            self.report_ack::<Anything>(ack, advanced, echo);
        }
        if flags.dsack {
            self.alert(flags, self.conn.snd_una, ack);
        }
        if self.probe.is_open() {
            self.end_probe(ack, flags);
        }
    }

    #[inline(always)]
    fn report_ack<K: Known>(&mut self, ack: &Ack, advanced: u64, echo: AckEcho) {
        // `snd_una` after an ACK that does not advance is the old one
        let una = ack.ack.max(self.conn.snd_una);
        let one_way_ms = ack.tsval.wrapping_sub(ack.tsecr) as i32;
        let event = AckEvent { ece: echo.ece, esce: ack.has(ack_flag::ESCE), advanced, una, new_ce: echo.new_ce, one_way_ms };
        K::cc_mut(&mut self.cc).in_ack_event(&mut self.conn, &event);
    }

    /// Reads the echo before it is known what the ACK delivers: a count of CE is read by its three bits alone.
    #[cold]
    #[inline(never)]
    fn report_ack_early(&mut self, ack: &Ack, advanced: u64, ece: bool) {
        let new_ce = self.ecn.accurate.then(|| self.ecn.by_field(ack, self.conn.delivered_ce));
        self.report_ack::<Anything>(ack, advanced, AckEcho { ece: ece || new_ce.is_some_and(|new| new > 0), new_ce });
    }

    /// Returns the ECN echo of an ACK that delivers `segments`. A count says nothing on an ACK that brings nothing new, nor a `newer` timestamp: it may be
    /// late.
    #[inline]
    fn read_echo(&mut self, ack: &Ack, segments: u32, newer: bool, flags: &mut AckFlags) -> AckEcho {
        let new_ce = self.ecn.accurate.then(|| {
            let progress = DeliveryProgress { segments, payload: self.conn.mss, delivered_ce: self.conn.delivered_ce };
            let new = if segments > 0 || newer { self.ecn.count(ack, progress) } else { 0 };
            flags.ece = new > 0;
            new
        });
        if flags.ece {
            self.stats.ece_acks += 1;
        }
        AckEcho { ece: flags.ece, new_ce }
    }

    /// Marks a pause of the application, for controls that ask for rate samples.
    #[inline]
    pub(super) fn check_app_limited(&mut self) {
        if let Some(rate) = &mut self.rate {
            rate.check_app_limited(&self.conn, self.queue.waiting(&self.conn));
        }
    }

    /// The congestion control sets window and pacing rate. Linux `tcp_rate_gen`, `tcp_cong_control`.
    fn let_control_decide<K: Known>(&mut self, mut sample: RateSample) {
        if let Some(rate) = self.rate.as_mut().filter(|_| K::RATE_SAMPLES) {
            rate.finish(&self.conn, &mut sample);
            rate.keep(&sample);
        }
        #[cfg(test)]
        {
            self.last_sample = Some(sample);
        }
        let mss = self.conn.mss;
        K::cc_mut(&mut self.cc).cong_control(&mut self.conn, &sample);
        if std::mem::take(&mut self.conn.holds_back) {
            if let Some(rate) = &mut self.rate {
                rate.limit(&self.conn);
            }
        }
        if self.conn.mss != mss {
            self.note_size(mss);
        }
    }

    /// From here on segments carry another payload than `before`.
    #[cold]
    pub(super) fn note_size(&mut self, before: u32) {
        let sizes = self.sizes.get_or_insert_with(|| Box::new(SegmentSizes::new(before)));
        sizes.change(self.conn.snd_nxt, self.conn.mss, self.conn.snd_una);
        self.count_in_segments();
    }

    /// Takes the RTT samples of an ACK for `segments` that were sent once; returns that of the newest, us.
    #[inline(always)]
    fn take_rtt_of_row<K: Known>(&mut self, row: &PlainRow, segments: u32, flags: &mut AckFlags) -> u32 {
        let now = self.conn.now;
        let oldest = micros(now - row.first);
        let newest = if row.last == row.first { oldest } else { micros(now - row.last) };
        self.conn.rtt.sample_min(newest.max(1), now);
        self.estimate_rtt(oldest);
        flags.set_timer = true;
        K::cc_mut(&mut self.cc).pkts_acked(&mut self.conn, segments, Some(newest));
        newest
    }

    /// Takes the RTT samples of any other ACK; returns that of the newest segment. Linux `tcp_clean_rtx_queue`, `tcp_ack_update_rtt`.
    #[inline(never)]
    fn take_rtt(&mut self, delivered: &Delivered, ack: &Ack, flags: &mut AckFlags) -> Option<u32> {
        let now = self.conn.now;
        let since = |sent: Instant| micros(now - sent);
        let (mut sample, mut newest) = (None, None);
        if !delivered.retransmission_acked {
            sample = delivered.first_acked.map(since);
            newest = delivered.last_acked.map(since);
        }
        if let (Some(first), Some(last)) = (delivered.first_sacked, delivered.last_sacked) {
            sample = sample.or(Some(since(first)));
            newest = Some(since(last));
        }
        if sample.is_none() && delivered.acked > 0 {
            // only segments that were sent again, or SACKed before: the timestamp shows which transmission arrived
            sample = self.rtt_by_timestamp(ack);
            newest = sample;
        }
        if let Some(newest) = newest {
            self.conn.rtt.sample_min(newest.max(1), now);
        }
        if let Some(sample) = sample {
            self.estimate_rtt(sample);
        }
        if delivered.acked > 0 {
            flags.set_timer = true;
        } else if let (Some(sacked), true) = (delivered.first_sacked, self.conn.packets_out() > 0) {
            // a SACK of something sent after the head was last sent must not put off the timeout
            flags.set_timer = sacked < self.board.get(self.conn.snd_una).sent;
        }
        self.cc.pkts_acked(&mut self.conn, delivered.acked, newest);
        newest
    }

    /// Everything that the application wanted to send has arrived.
    fn all_acknowledged(&self) -> bool {
        unlikely(self.conn.snd_una == self.conn.snd_nxt)
            && (self.queue.stopped || self.conn.snd_una >= self.queue.segments(self.conn.mss))
    }

    fn finish(&mut self) {
        self.phase = Phase::Done;
        self.finished = Some(self.conn.now);
        self.timer.stop();
        self.pacer.release();
        self.queue.wakes_at = Instant::NEVER;
    }

    /// A time given by [`Sender::next_timer`] has come.
    pub fn on_timer(&mut self, now: Instant, net: &mut impl Outlet) {
        self.conn.now = now;
        if self.timer.not_before() <= now && self.timer.fire_time() <= now {
            match (self.phase, self.timer.kind) {
                (Phase::SynSent, _) => {
                    self.syn_retries += 1;
                    self.stats.timeouts += 1;
                    self.send_syn(net);
                }
                (_, Timer::Rto) => self.on_rto(net),
                (_, Timer::Tlp) => self.on_probe(net),
                (_, Timer::Reordering) => self.on_reordering(net),
                (_, Timer::Off) => self.timer.stop(),
            }
        }
        if self.queue.wakes_at <= now {
            self.queue.wakes_at = Instant::NEVER;
            with_known!(self, Found => self.push::<Found>(net));
        }
        if self.pacer.timer() <= now {
            self.pacer.release();
            if self.conn.lost_out > self.conn.retrans_out {
                self.retransmit_lost(net);
            }
            with_known!(self, Found => self.push::<Found>(net));
        }
    }
}
