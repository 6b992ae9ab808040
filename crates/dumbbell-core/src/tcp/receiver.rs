//! The receiving end: cumulative and selective acknowledgement, delayed ACKs with quick-ack start, the echo of ECN.
//!
//! The application reads at once. A packet causes one ACK at the most, and one more for
//! what came before it where the echo of a mark changes ([`Receiver::take_early`]).

mod delayed;
mod echo;
mod handshake;
mod misbehaviour;
mod reading;
mod sack;
#[cfg(test)]
mod short_way;

use super::ecn::ACE_START;
use super::host::HostParams;
use super::stats::ReceiverStats;
use super::window::Window;
use super::{ack_flag, Ack, Block, FlowOptions};
pub use crate::cc::Echo;
use crate::hint::{likely, seldom, unlikely};
use crate::packet::{flag, Ecn, Packet, HEADERS};
use crate::units::{Duration, Instant};
use delayed::{ATO_MIN_MS, MAX_QUICKACKS};
pub use handshake::ServerHandshake;
pub use misbehaviour::Misbehaviour;
use misbehaviour::Misconduct;
use reading::Unread;
pub use sack::SackBlocks;
use sack::{SegmentBuffer, MAX_BLOCKS};
use std::collections::VecDeque;
use std::sync::Arc;

/// No marks that a packet has, without PSH.
const NONE_EXPECTED: u16 = u16::MAX;
/// Segments that are closer than this leave the estimate of delayed ACKs where it is, if it is [`ATO_MIN_MS`].
const SAME_ATO: Duration = Duration::from_millis(ATO_MIN_MS as u64 / 2);
/// Immediate ACKs after a first CE or a non-ECT packet on an ECN connection (Linux `tcp_ecn_check_ce`).
const ECN_QUICKACKS: u8 = 2;
/// Number of CE packets that are acknowledged at once, since more could wrap the ACE field. Linux `TCP_ACCECN_ACE_MAX_DELTA`.
//= draft-ietf-tcpm-accurate-ecn-34, section 3.2.2.5.1
//# In either case, 'n' MUST be no greater than 7.
const MANY_CE: u8 = 6;
/// A receiving TCP. What most packets touch lies in one piece, [`Receiver::HOT`] bytes from the start but for a few counters, as in
/// [`Sender`](super::sender::Sender).
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Receiver {
    /// Counters.
    pub stats: ReceiverStats,
    host: Arc<HostParams>,
    flow: u32,
    /// Timestamp to echo, ms (RFC 7323 section 4.3).
    ts_recent: u32,
    /// Next segment expected.
    pub rcv_nxt: u64,
    /// `rcv_nxt` as last acknowledged.
    acked: u64,
    /// `rcv_nxt` before the last packet.
    prior_rcv_nxt: u64,
    /// When the last segment in order came.
    last_data: Instant,
    /// When the delayed ACK that is pending, or until the connection is there the next SYN-ACK, is due, before the timer wheel rounds that up
    /// ([`Receiver::delack_at`]).
    delack_due: Instant,
    /// When the acknowledgements that SACK compression holds back are due.
    compressed_at: Instant,
    ato_ms: u32,
    /// Delay of the last delayed ACK, or SYN-ACK, that was set.
    delack_ms: u16,
    /// Marks of an [expected](Receiver::expects) packet, without PSH; [`NONE_EXPECTED`] if no packet is expected.
    expected_marks: u16,
    /// Round-trip time of the handshake; 0: it is not complete.
    pub(super) srtt_us: u32,
    /// Window of the last ACK, bytes.
    advertised: u32,
    /// CE packets so far, since the connection is there.
    ce_count: u32,
    /// Payload that came with CE, bytes.
    ce_bytes: u32,
    /// CE packets since the last ACK.
    ce_pending: u8,
    /// Codepoint of the last packet.
    last_ecn: Ecn,
    /// Bytes of a frame in addition to the payload.
    headers: u16,
    /// Longest delay of an ACK.
    delay_max_ms: u16,
    /// Acknowledgements that SACK compression holds back.
    compressed: u8,
    /// Acknowledgements that are still sent at once.
    quick: u8,
    /// Agrees to ECN.
    accepts_ecn: bool,
    echo: Echo,
    /// ECN was negotiated.
    ecn_ok: bool,
    ecn_seen: bool,
    /// ECE is on: until CWR comes, or as long as packets come with CE.
    demand_cwr: bool,
    /// Codepoints that change nothing: [`Receiver::settled_codepoints`].
    ecn_settled: u8,
    /// The last packet came with CE.
    ce_state: bool,
    /// The last packet came with SCE.
    sce_state: bool,
    /// The next ACK carries ESCE.
    esce_queued: bool,
    ack_now: bool,
    /// How often the SYN-ACK was sent again. Once the connection is there, 0 if that does not [matter](ServerHandshake::begins_with_one) to the server.
    syn_ack_retries: u8,
    /// The application acknowledges what it reads.
    is_pushed: bool,
    /// [`Receiver::early`] holds an ACK that goes ahead of the next one.
    early_waits: bool,
    /// [`Receiver::out_of_order`] is not empty.
    has_gaps: bool,
    /// [`Receiver::unread`] is not empty, or the receiver misbehaves.
    has_unread: bool,
    /// [`Receiver::dsack`] is there.
    has_dsack: bool,
    window: Window,

    // seldom needed
    /// The duplicate that the next ACK reports.
    dsack: Block,
    /// Segments that arrived out of order: the range of each socket buffer, ascending and disjoint.
    out_of_order: VecDeque<Block>,
    /// Segments in `out_of_order`.
    held: u32,
    unread: Unread,
    /// Blocks of `out_of_order` in the order of reporting: most recently changed first (RFC 2018 section 4).
    recent: Vec<Block>,
    /// The last ACK that went ahead; its memory is kept.
    early: Option<Box<(Ack, SackBlocks)>>,
    dup_acks: u32,
    compressed_nxt: u64,
    /// When the first SYN was answered.
    syn_ack_at: Instant,
    misconduct: Option<Box<Misconduct>>,
}

impl Receiver {
    /// Bytes from the start that most packets touch.
    pub const HOT: usize = std::mem::offset_of!(Receiver, window) + Window::HOT;

    first_values! {
        Receiver(flow: u32, host: Arc<HostParams>; options: FlowOptions);
        /// A listening receiver for flow `flow`.
        pub fn new;
        /// Becomes what [`Receiver::new`] makes for the same flow and host, in place.
        pub fn renew;
        cleared { out_of_order: VecDeque::new(), recent: Vec::new() }
        set {
            stats: ReceiverStats::default(),
            accepts_ecn: options.ecn,
            echo: options.echo,
            ecn_ok: false,
            rcv_nxt: 0,
            acked: 0,
            unread: Unread::default(),
            advertised: 0,
            held: 0,
            dsack: (0, 0),
            has_dsack: false,
            has_gaps: false,
            has_unread: false,
            ts_recent: 0,
            ecn_seen: false,
            demand_cwr: false,
            ce_state: false,
            ce_count: 0,
            ce_bytes: 0,
            ce_pending: 0,
            last_ecn: Ecn::NotEct,
            headers: HEADERS,
            sce_state: false,
            esce_queued: false,
            prior_rcv_nxt: 0,
            early: None,
            early_waits: false,
            quick: 0,
            ato_ms: 0,
            delay_max_ms: delayed::delay_max_ms(&host),
            last_data: Instant::ZERO,
            ecn_settled: 0,
            ack_now: false,
            is_pushed: false,
            delack_due: Instant::NEVER,
            delack_ms: 0,
            expected_marks: NONE_EXPECTED,
            srtt_us: 0,
            syn_ack_at: Instant::NEVER,
            syn_ack_retries: 0,
            window: Window::new(&host),
            dup_acks: 0,
            compressed: 0,
            compressed_nxt: 0,
            compressed_at: Instant::NEVER,
            misconduct: None,
        }
    }

    /// Returns when [`Receiver::on_timer`] is due.
    #[inline]
    pub fn next_timer(&self) -> Instant {
        self.delack_at().min(self.compressed_at)
    }

    /// Returns a time at or before [`Receiver::next_timer`], which costs less.
    #[inline(always)]
    pub fn no_timer_before(&self) -> Instant {
        self.delack_due.min(self.compressed_at)
    }

    /// Returns whether the receiver counts CE (RFC 9768), if ECN is agreed to.
    pub fn is_accurate(&self) -> bool {
        self.echo == Echo::Accurate
    }

    /// Negotiates by these options, before the connection begins.
    #[cold]
    pub fn set_options(&mut self, options: FlowOptions) {
        self.accepts_ecn = options.ecn;
        self.echo = options.echo;
    }

    /// Bytes of memory in addition to the struct itself.
    pub fn heap_bytes(&self) -> usize {
        (self.out_of_order.capacity() + self.recent.capacity()) * std::mem::size_of::<Block>()
    }

    /// Takes a packet; returns the ACK that it causes at once, if any. SACK blocks of it are given by
    /// [`Receiver::blocks`].
    #[inline]
    pub fn on_packet(&mut self, packet: &Packet, now: Instant) -> Option<Ack> {
        if self.expects(packet, now) {
            self.take_expected(packet, now)
        } else {
            self.take_any(packet, now)
        }
    }

    /// Whether `packet` is what most are: the next segment after another one that changed nothing and asked for nothing. Then [`Receiver::take_expected`] does
    /// the same as [`Receiver::take_any`].
    #[inline(always)]
    pub fn expects(&mut self, packet: &Packet, now: Instant) -> bool {
        let seq = packet.number();
        if packet.marks() & !flag::PSH != self.expected_marks || seq != self.rcv_nxt {
            return false;
        }
        self.window.on_data(packet, now);
        !self.window.is_full(seq + 1) && !self.window.is_round_over(now) && now - self.last_data < SAME_ATO
    }

    /// Takes a packet that [is expected](Receiver::expects): every second one is acknowledged, and the end of a write. The ACK has no SACK blocks, and no other goes
    /// ahead of it.
    #[inline(always)]
    pub fn take_expected(&mut self, packet: &Packet, now: Instant) -> Option<Ack> {
        self.stats.count(packet);
        self.stats.count_data(packet, self.headers);
        let seq = self.rcv_nxt;
        (self.rcv_nxt, self.prior_rcv_nxt, self.last_data) = (seq + 1, seq + 1, now);
        self.queue_esce(packet);
        if seq == self.acked {
            self.ts_recent = packet.tcp().tsval();
            let is_pushed = packet.has(flag::PSH) && self.is_write_end(packet);
            if likely(self.delay_ack(now)) {
                if likely(!is_pushed) {
                    return None;
                }
                let ack = self.acknowledge(now, true, true);
                if unlikely(!self.offers_as_much(true)) {
                    self.expected_marks = NONE_EXPECTED;
                }
                return Some(ack);
            }
        }
        self.stats.acks += 1;
        self.delack_due = Instant::NEVER;
        let flags = self.echo_flags();
        Some(self.ack_with(flags, self.window.offered_window(), now))
    }

    /// The packet that was taken was a usual one, with these `marks`: notes whether those behind it are expected.
    #[inline(always)]
    fn note_expected(&mut self, marks: u16) {
        let asks = self.quick > 0 || self.ack_now || self.is_pushed || self.has_dsack;
        if asks || self.window.may_grow() || self.ato_ms != ATO_MIN_MS || self.compressed_at != Instant::NEVER {
            return;
        }
        let is_settled = self.ecn_settled & (1 << (marks & 0b11)) != 0;
        if is_settled && self.host.delayed_ack && self.offers_as_much(true) {
            self.expected_marks = marks & !flag::PSH;
        }
    }

    /// Takes any packet, as [`Receiver::on_packet`] does.
    #[inline(always)]
    pub fn take_any(&mut self, packet: &Packet, now: Instant) -> Option<Ack> {
        self.expected_marks = NONE_EXPECTED;
        let in_order = packet.flags() & !flag::PSH == 0 && packet.tcp().seq() == self.rcv_nxt && !self.has_gaps;
        if unlikely(!in_order || self.srtt_us == 0 || self.has_unread) {
            return self.on_unusual(packet, now);
        }
        // the usual packet: data, the next that is expected, and nothing else is missing or waits to be read
        self.stats.count(packet);
        self.stats.count_data(packet, self.headers);
        self.window.on_data(packet, now);
        if packet.tcp().seq() == self.acked {
            self.ts_recent = packet.tcp().tsval();
        }
        let grows = self.window.may_grow();
        self.take_in_order(now);
        self.observe_ecn(packet, now);
        if unlikely(grows) && self.window.grow(self.window.memory(1, 1)) {
            self.quick |= 1;
        }
        if unlikely(packet.has(flag::PSH)) {
            self.heed_push(packet);
        }
        let ack = self.check_ack(now, true);
        self.window.read(self.rcv_nxt, self.rcv_nxt, now);
        self.note_expected(packet.marks());
        ack
    }

    /// Takes a packet that is not the usual one.
    #[inline(never)]
    fn on_unusual(&mut self, packet: &Packet, now: Instant) -> Option<Ack> {
        self.stats.count(packet);
        if self.misconduct.is_some() {
            return self.take_falsely(packet, now);
        }
        self.take_unusual(packet, now)
    }

    /// Takes a packet that is counted already, and not the usual one.
    #[inline]
    fn take_unusual(&mut self, packet: &Packet, now: Instant) -> Option<Ack> {
        if packet.has(flag::NO_DATA) {
            return self.on_handshake(packet, now);
        }
        if self.srtt_us == 0 {
            self.establish(packet, now);
        }
        self.window.on_data(packet, now);
        self.on_data(packet, now);
        if packet.has(flag::MORE) {
            // the rest of its burst comes at this instant
            return None;
        }
        let ack = self.check_ack(now, self.holds_one()).map(|ack| self.update_window(ack, now));
        self.read(now);
        ack
    }

    #[inline]
    fn on_data(&mut self, packet: &Packet, now: Instant) {
        let seq = packet.tcp().seq();
        self.stats.count_data(packet, self.headers);
        if packet.has(flag::CWR) && self.echo != Echo::Accurate {
            // RFC 3168 section 6.1.3: the echo stops; the sender's window may be tiny, so acknowledge at once
            self.demand_cwr = false;
            self.ecn_settled = 0;
            self.ack_now = true;
        }
        if seq <= self.acked {
            self.ts_recent = packet.tcp().tsval();
        }
        if seq < self.rcv_nxt {
            if self.counts_ce() {
                self.count_ce(packet);
            }
            return self.on_duplicate(seq);
        }
        let in_order = seq == self.rcv_nxt;
        if in_order {
            self.take_in_order(now);
            self.unread.append(1, self.rcv_nxt);
            self.has_unread = true;
        }
        self.observe_ecn(packet, now);
        let before = self.memory();
        let kept = if in_order { SegmentBuffer::Joined } else { self.keep_out_of_order(seq, now) };
        // the memory of a new buffer counts once it lies among the others (`skb_set_owner_r` behind `tcp_grow_window`)
        let memory = if kept == SegmentBuffer::Apart { before } else { self.memory() };
        if kept != SegmentBuffer::Known && self.window.grow(memory) {
            self.quick |= 1;
        }
        if in_order && self.has_gaps {
            self.fill_gap();
        }
        if in_order && !self.has_gaps && packet.has(flag::PSH) {
            self.heed_push(packet);
        }
    }

    /// Notes the end of a write, which the application reads while the peer may wait. The application reads no data out of order, and a read does
    /// not empty the buffer while such data are left. Linux `tcp_cleanup_rbuf`.
    #[inline(always)]
    fn heed_push(&mut self, packet: &Packet) {
        self.is_pushed |= self.is_write_end(packet);
    }

    /// Whether a packet with PSH ends a write, as far as the application is concerned.
    #[inline(always)]
    fn is_write_end(&self, packet: &Packet) -> bool {
        self.host.ack_push || packet.len < self.host.mss as u16 + HEADERS
    }

    /// Takes the next segment that is expected.
    #[inline(always)]
    fn take_in_order(&mut self, now: Instant) {
        self.rcv_nxt += 1;
        self.window.in_order(self.rcv_nxt, now);
        // within 20 ms the estimator stays where it is, if it is there already
        if self.ato_ms != ATO_MIN_MS || now - self.last_data >= SAME_ATO {
            seldom();
            self.note_arrival(now);
        }
        self.last_data = now;
    }

    fn on_duplicate(&mut self, seq: u64) {
        self.stats.duplicates += 1;
        self.report_duplicate(seq);
        self.enter_quickack(MAX_QUICKACKS);
        self.ack_now = true;
    }

    /// Sends an ACK for all packets before the last one ahead of the next ACK. For the rule of every second segment it acknowledges everything, and
    /// it leaves timer and immediate ACKs alone, as Linux `__tcp_send_ack` does.
    fn acknowledge_early(&mut self, now: Instant) {
        self.stats.acks += 1;
        // compression ends even here (`tcp_event_ack_sent`)
        self.compressed = 0;
        self.compressed_at = Instant::NEVER;
        let ack = Ack { ack: self.prior_rcv_nxt, ..self.ack(now, false, self.holds_one()) };
        self.send_early(ack);
    }

    /// Puts `ack` ahead of the next ACK, with the present SACK blocks.
    fn send_early(&mut self, ack: Ack) {
        let early = (ack, self.blocks());
        match &mut self.early {
            Some(place) => **place = early,
            None => self.early = Some(Box::new(early)),
        }
        self.early_waits = true;
    }

    /// Returns the ACK that has to go ahead of the one that [`Receiver::on_packet`] returned, with its SACK blocks.
    #[inline]
    pub fn take_early(&mut self) -> Option<(Ack, SackBlocks)> {
        // seldom: without the test the whole of it is copied for every packet
        if !std::mem::take(&mut self.early_waits) {
            return None;
        }
        seldom();
        self.early.as_deref().copied()
    }

    /// Acknowledges everything that has arrived, before the application reads it or after.
    #[inline(always)]
    fn acknowledge(&mut self, now: Instant, is_read: bool, alone: bool) -> Ack {
        self.stats.acks += 1;
        if unlikely(self.quick > 0) {
            self.quick -= 1;
            if self.quick == 0 {
                self.ato_ms = ATO_MIN_MS; // tcp_dec_quickack_mode
            }
        }
        (self.ack_now, self.is_pushed) = (false, false);
        self.delack_due = Instant::NEVER;
        self.compressed = 0;
        self.compressed_at = Instant::NEVER;
        self.ack(now, is_read, alone)
    }

    /// Returns the flags that tell what came: CE, SCE, a duplicate.
    #[inline(always)]
    fn echo_flags(&mut self) -> u16 {
        if likely(!(self.demand_cwr | self.esce_queued | self.has_dsack)) {
            0
        } else {
            self.take_echo()
        }
    }

    /// [`Receiver::echo_flags`], if there are any.
    #[inline]
    fn take_echo(&mut self) -> u16 {
        let ece = if self.ecn_ok && self.demand_cwr { ack_flag::ECE } else { 0 };
        let esce = if std::mem::take(&mut self.esce_queued) { ack_flag::ESCE } else { 0 };
        let dsack = if self.has_dsack { ack_flag::DSACK } else { 0 };
        ece | esce | dsack
    }

    /// Returns an ACK with echo and window.
    #[inline]
    fn ack(&mut self, now: Instant, is_read: bool, alone: bool) -> Ack {
        let flags = self.echo_flags();
        let window = self.window.offered_window();
        let usual = window >= self.advertised && !is_read && alone;
        let window = if likely(usual) { window } else { self.select_window(is_read) };
        self.ack_with(flags, window, now)
    }

    /// Returns an ACK with these flags and this window.
    #[inline(always)]
    fn ack_with(&mut self, flags: u16, window: u32, now: Instant) -> Ack {
        self.acked = self.rcv_nxt;
        self.advertised = window;
        let (flow, tsecr) = (self.flow, self.ts_recent);
        let tsval = now.as_millis() as u32;
        let id = self.stats.acks as u16;
        let mut ack = Ack { ack: self.rcv_nxt, flow, tsecr, tsval, window, ce_bytes: 0, flags, id };
        if self.echo == Echo::Accurate {
            self.add_counts(&mut ack);
        }
        ack
    }

    /// Adds the ACE field, and the option unless three SACK blocks leave no room for it.
    #[inline]
    fn add_counts(&mut self, ack: &mut Ack) {
        ack.flags |= ack_flag::ace((self.ce_count as u8).wrapping_add(ACE_START));
        self.ce_pending = 0;
        if self.headers > HEADERS && self.recent.len() + usize::from(ack.has(ack_flag::DSACK)) < MAX_BLOCKS {
            ack.ce_bytes = self.ce_bytes;
            ack.flags |= ack_flag::ACCECN_OPTION;
        }
    }
}
