//! TCP Prague, as its Linux modules: DCTCP's response at any RTT, in fractions of a segment, paced.
//!
//! Specification: module 0.7 (minuscat/rpi-6.18.y `net/ipv4/tcp_prague.c`, 330b511a) and, as `version = "0.6"`, that of the 5.10 line
//! (ij1/linux-accecn, 06e9a045), in their integer arithmetic; draft-briscoe-iccrg-prague-congestion-control. Names here are the
//! module's, but for `window` (`frac_cwnd`), `carry` (`cwnd_cnt`) and `rate` (`rate_bytes`).
//!
//! - The window is a fraction: 2^20 is one segment. `cwnd` follows it, rounded up, by one segment an ACK, and slow start ends when it steps down.
//! - Only unmarked segments grow it, in every state of the congestion machine: there is no PRR.
//! - alpha, the share of marked segments, moves by 1/16 per round. Entering CWR cuts alpha/2 of the window. Loss halves it.
//! - After `rtt_transition` rounds outside slow start the increase is that of a flow with a round trip of `rtt_target`, and both alpha's round and
//!   the time from cut to cut are `rtt_target` at the least.
//! - It paces at the rate of its window, wherever that is, and asks for bursts of 1/4096 s.
//! - At four segments and below (0.7) it is controlled by its rate instead of its window.
//! - Below two segments a `rtt_target` (0.7, about 1 Mbit/s) it makes them smaller, so that there are two.
//!
//! Version 0.6 differs: its window is `cwnd` and a carry, so that cuts and increases are shares of whole segments and the window never
//! falls below two; it paces by the larger of `cwnd` and what is in flight; alpha starts at 1 and has 20 bits; the transition takes 500
//! rounds; the round trip is counted in units of 128 us; there is no rate mode; bursts have two segments at the least (`tcp_min_tso_segs`); a
//! peer that echoes ECE as RFC 3168 will do.
//!
//! Version 0.5 (L4STeam/linux b256daed, of the 5.4 line) differs from 0.6: its window grows even if it is not the limit, as long as the
//! application has more to send (taken as always so here); its behaviour never becomes independent of the round trip (`prague_rtt_scaling`
//! = 0), which is `rtt_transition` at its largest value here; a burst may be one segment; there is no fallback to RFC 3168 feedback.
//!
//! Not modelled: detection of classic queues (`prague_ecn_fallback` of 0.5 and 0.6, off by default); the other text with version 0.6 (L4STeam/linux 02573a21), which leaves its window behind in slow start.

use super::conn::{CaEvent, CaState, Congestion, Conn};
use super::exit::ExitCause;
use super::{CcContext, CongestionControl, Control, Echo, EcnUse, RateSample};
use crate::packet::Ecn;
use crate::units::{Duration, Instant};

/// Name in experiment files.
pub const NAME: &str = "prague";
/// One line.
pub const TITLE: &str = "TCP Prague, as its Linux modules: scalable, paced, independent of the RTT below 25 ms";
/// Specification and deviations.
pub const SOURCE: &str =
    "tcp_prague.c 0.7 (minuscat/rpi-6.18.y 330b511a), 0.6 (ij1/linux-accecn 06e9a045), 0.5 (L4STeam/linux b256daed); \
    draft-briscoe-iccrg-prague-congestion-control";

crate::versions! {
    /// Which module.
    pub enum PragueVersion sets Params = { Params::default() } {
        /// 0.7, for Linux 6.12 and 6.18.
        V07 = "0.7" {},
        /// 0.6, of the 5.10 kernel with which DualPI2's authors measured in 2021.
        V06 = "0.6" { first_mark: FirstMark::Alpha, rtt_transition: 500, mode: PragueMode::Window, min_burst: 2 },
        /// 0.5, of the 5.4 kernel with which heistp/l4s-tests measured in 2020.
        V05 = "0.5" { first_mark: FirstMark::Alpha, rtt_transition: NEVER, mode: PragueMode::Window },
    }
}

crate::choice! {
    /// Reaction to the first mark.
    pub enum FirstMark {
        /// alpha starts at 0, and the first mark halves the window.
        Halves = "halves",
        /// alpha starts at 1.
        Alpha = "alpha",
    }
}

crate::choice! {
    /// Quantity that is controlled.
    pub enum PragueMode {
        /// The window.
        Window = "window",
        /// The rate.
        Rate = "rate",
        /// The window, and the rate while the window is small.
        Switch = "switch",
    }
}

crate::params! {
    /// Parameters of Prague.
    pub struct Params {
        /// Which module; sets what is not given.
        version: PragueVersion = PragueVersion::V07, unit "", source "MODULE_VERSION of tcp_prague.c";
        /// Reaction to the first mark.
        first_mark: FirstMark = FirstMark::Halves, unit "", source "prague_alpha_mode = 0; alpha of 0.6 starts at 1";
        /// Rounds outside slow start before the increase no longer depends on the round trip.
        rtt_transition: u32 = 4, unit "rounds", range 0u32, NEVER, source "prague_rtt_transition = 4; 0.6: 500; 0.5: never, as prague_rtt_scaling = 0";
        /// Round trip as which shorter ones count.
        rtt_target: Duration = Duration::from_millis(25), unit "", range Duration::from_micros(1), Duration::from_secs(1), source "prague_rtt_target = 25000 us";
        /// Quantity that is controlled.
        mode: PragueMode = PragueMode::Switch, unit "", source "prague_cwnd_mode = 2; 0.6 has the window only";
        /// The rate is controlled while the window is at most so large.
        rate_below: u32 = 6000, unit "bytes", range 0u32, 1_000_000_000u32, source "prague_cwnd_transit = 4 segments of 1500 B";
        /// A burst is what is sent in this fraction of a second.
        burst_shift: u32 = 12, unit "-log2 s", range 0u32, 31u32, source "prague_burst_shift = 12";
        /// Least burst that segmentation offload is given.
        min_burst: u32 = 1, unit "segments", range 1u32, 64u32, source "tcp_prague.c; 0.6: sysctl tcp_min_tso_segs = 2";
    } over PragueVersion;
}

/// More rounds than a run has: 0.5 never becomes independent of the round trip.
const NEVER: u32 = 1_000_000;
/// One segment of [`State::window`]. Linux `ONE_CWND`.
const SEGMENT: u64 = 1 << 20;
/// alpha moves by 1/16. Linux `PRAGUE_SHIFT_G`.
const SHIFT_G: u32 = 4;
/// Least `cwnd`. Linux `MIN_CWND_RTT`, `MIN_CWND_VIRT`.
const MIN_CWND: u32 = 2;
/// Least rate, bytes per second. Linux `MINIMUM_RATE`.
const MIN_RATE: u64 = 12_500;
/// Where the module counts 1/8 us, a second: 8 * 10^6.
const SECOND_8US: u64 = 8_000_000;
/// Approximation of a second where the code divides by shifting. Linux `RTT2SEC_SHIFT`.
const SECOND_SHIFT: u32 = 23;
/// Round trips above 100 ms are never shortened. Linux `MAX_SCALED_RTT`.
const SCALED_MAX_8US: u32 = 800_000;
/// Shift of the slow average of the round trip. Linux `HSRTT_SHIFT`.
const SLOW_RTT_SHIFT: u32 = 7;
/// In rate mode the pacing rate is 4/128 above and below by turns. Linux `RATE_OFFSET`.
const WOBBLE: u64 = 4;
/// See [`WOBBLE`]. Linux `OFFSET_UNIT`.
const WOBBLE_SHIFT: u32 = 7;
/// IP packet by which the increase is scaled, bytes. Linux `MTU_SYS`.
const FULL_MTU: u64 = 1500;
/// Least IP packet, bytes: an MSS of 150 with headers. Linux `MIN_MSS`.
const LEAST_MTU: u32 = 202;
/// Bytes of the Ethernet header.
const ETHERNET: u16 = 14;
/// Unit of the round trip in 0.6, log2 of 1/8 us: 128 us.
const COARSE_SHIFT: u32 = 10;

/// State of Prague.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    /// Window, 1/2^20 segments. Linux `frac_cwnd`; not used by 0.6.
    window: u64,
    /// Change that `cwnd` still has to make, 1/2^20 segments. Linux `cwnd_cnt` of 0.6.
    carry: i64,
    /// The carry before the last loss.
    loss_carry: i64,
    /// 16 alpha, in units of [`State::alpha_one`]. Linux `upscaled_alpha`.
    upscaled_alpha: u64,
    /// Rate in IP packets, bytes per second. Linux `rate_bytes`.
    rate: u64,
    /// Rate of one segment over the smoothed round trip, bytes per second; 0 before the first sample.
    segment_rate: u64,
    /// Increase for a window without marks, 1/2^20 segments. Linux `ai_ack_increase`.
    increase: u64,
    /// Slow average of the round trip, 1/8 us times 128. Linux `hsrtt_us`.
    slow_rtt: u64,
    /// When alpha last moved; at first when the connection began.
    alpha_stamp: Instant,
    /// When the window was last cut for a mark.
    cwr_stamp: Option<Instant>,
    /// The round ends when this segment is acknowledged.
    next_seq: u64,
    /// Delivered before this round.
    old_delivered: u64,
    /// Segments among these with CE.
    old_delivered_ce: u64,
    /// Rate before the last loss.
    loss_rate: u64,
    /// Rounds outside slow start.
    round: u32,
    /// `cwnd` before the last loss.
    loss_cwnd: u32,
    /// Segments of the largest burst.
    max_burst: u32,
    /// Bytes of an IP packet. Linux `mss_cache` and headers.
    mtu: u32,
    /// MTU at the start.
    full_mtu: u32,
    /// There was a mark.
    saw_ce: bool,
    /// A loss is being recovered from.
    in_loss: bool,
    /// The rate is controlled.
    rate_mode: bool,
}

impl State {
    /// Prague with `params`.
    pub fn new(params: Params, _context: &CcContext) -> State {
        State {
            window: 0,
            carry: 0,
            loss_carry: 0,
            upscaled_alpha: 0,
            rate: MIN_RATE,
            segment_rate: 0,
            increase: SEGMENT,
            slow_rtt: 0,
            alpha_stamp: Instant::ZERO,
            cwr_stamp: None,
            next_seq: 0,
            old_delivered: 0,
            old_delivered_ce: 0,
            loss_rate: 0,
            round: 0,
            loss_cwnd: 0,
            max_burst: params.min_burst,
            mtu: 0,
            full_mtu: 0,
            saw_ce: false,
            in_loss: false,
            rate_mode: params.mode == PragueMode::Rate,
            params,
        }
    }

    /// Returns whether this is a version of the line of 0.6, whose window is `cwnd` and a carry.
    fn old(&self) -> bool {
        self.params.version != PragueVersion::V07
    }

    /// Whether the window may grow. 0.5 asks for the window to be the limit only where it does not pace itself, since pacing hides the limit.
    fn may_grow(&self, conn: &Conn) -> bool {
        self.params.version == PragueVersion::V05 || conn.cwnd_limited()
    }

    /// log2 of alpha = 1. Linux `PRAGUE_ALPHA_BITS`.
    fn alpha_bits(&self) -> u32 {
        if self.old() {
            20
        } else {
            24
        }
    }

    fn target_8us(&self) -> u32 {
        (self.params.rtt_target.as_micros() * 8) as u32
    }

    /// Whether it behaves like a flow with a round trip of `rtt_target`. Linux `prague_is_rtt_indep`.
    fn is_rtt_independent(&self, conn: &Conn) -> bool {
        !conn.in_slow_start() && self.round >= self.params.rtt_transition
    }

    /// In rate mode, and past the start.
    fn controls_rate(&self, conn: &Conn) -> bool {
        self.rate_mode && self.is_rtt_independent(conn)
    }

    /// Round trip or segments have changed: recomputes the rate of one segment, the only division per ACK.
    #[inline]
    fn measure_segment(&mut self, conn: &Conn) {
        self.segment_rate = (SECOND_8US * u64::from(self.mtu)).checked_div(u64::from(conn.rtt.srtt_8us)).unwrap_or(0);
    }

    /// The rate of `window` over the smoothed round trip. Linux `prague_frac_cwnd_to_pacing_rate`.
    #[inline]
    fn to_rate(&self, window: u64) -> u64 {
        times_shifted(self.segment_rate, window, 20).max(MIN_RATE)
    }

    /// The window of `rate` over the slow average of the round trip. Linux `prague_pacing_rate_to_frac_cwnd`, which takes 2^23 for 8 * 10^6.
    fn to_window(&self, rate: u64, conn: &Conn) -> u64 {
        let rtt = match self.slow_rtt >> SLOW_RTT_SHIFT {
            0 => u64::from(conn.rtt.srtt_8us),
            rtt => rtt,
        };
        times_shifted(rate, rtt, 3).div_ceil(u64::from(self.mtu))
    }

    /// Increase for a window without marks. Linux `prague_ai_ack_increase`, scaling by rate: (srtt / target)^2.
    fn update_increase(&mut self, conn: &Conn) {
        let (srtt, target) = (conn.rtt.srtt_8us, self.target_8us());
        let unscaled = self.round < self.params.rtt_transition || srtt == 0 || srtt > SCALED_MAX_8US;
        self.increase = if self.old() {
            let (srtt, target) = (u64::from(srtt >> COARSE_SHIFT), u64::from(target >> COARSE_SHIFT));
            if unscaled || srtt >= target {
                SEGMENT
            } else {
                (srtt * srtt * SEGMENT + target * target / 2) / (target * target)
            }
        } else if unscaled || srtt >= target {
            SEGMENT
        } else {
            let (srtt, square) = (u64::from(srtt), u64::from(target) * u64::from(target));
            ((srtt << 20) * srtt + square / 2) / square
        };
    }

    /// A round of data begins. Linux `prague_new_round`.
    fn begin_round(&mut self, conn: &Conn) {
        self.next_seq = conn.snd_nxt;
        self.old_delivered = conn.delivered;
        self.old_delivered_ce = conn.delivered_ce;
        if !conn.in_slow_start() {
            self.round = self.round.saturating_add(1);
        }
        self.update_increase(conn);
    }

    /// Moves alpha if a round is over. Linux `prague_update_alpha`.
    fn end_round(&mut self, conn: &mut Conn) {
        if conn.snd_una < self.next_seq {
            return;
        }
        if self.is_rtt_independent(conn) && conn.now.saturating_since(self.alpha_stamp) < self.params.rtt_target {
            return;
        }
        if self.saw_ce {
            let marked = conn.delivered_ce - self.old_delivered_ce;
            let share = (marked << self.alpha_bits()) / (conn.delivered - self.old_delivered).max(1);
            let most = 1 << (self.alpha_bits() + SHIFT_G);
            self.upscaled_alpha = (self.upscaled_alpha - (self.upscaled_alpha >> SHIFT_G) + share).min(most);
            self.alpha_stamp = conn.now;
            if self.is_rtt_independent(conn) && !self.in_loss && !self.old() {
                self.fit_segments(conn);
            }
        }
        self.slow_rtt = self.slow_rtt - (self.slow_rtt >> SLOW_RTT_SHIFT) + u64::from(conn.rtt.srtt_8us);
        self.begin_round(conn);
    }

    /// Segments are as large as leaves two of them in a virtual round trip. Linux `prague_pacing_rate_to_max_mtu`.
    fn fit_segments(&mut self, conn: &mut Conn) {
        let (srtt, target) = (u64::from(conn.rtt.srtt_8us), u64::from(self.target_8us()));
        let bytes = if self.rate_mode {
            times_shifted(self.rate, target.max(srtt), SECOND_SHIFT)
        } else {
            let window = if srtt > 0 && srtt < target { self.window.saturating_mul(target) / srtt } else { self.window };
            times_shifted(window, u64::from(self.mtu), 20)
        };
        let least = LEAST_MTU.max(conn.least_mss + u32::from(conn.headers - ETHERNET)).min(self.full_mtu);
        let mtu = (bytes.div_ceil(2).min(u64::from(u32::MAX)) as u32).clamp(least, self.full_mtu);
        if mtu == self.mtu {
            return;
        }
        let old = u64::from(std::mem::replace(&mut self.mtu, mtu));
        self.measure_segment(conn);
        conn.mss = mtu - u32::from(conn.headers - ETHERNET);
        self.window = self.window.saturating_mul(old) / u64::from(mtu);
        let cwnd = self.target(conn);
        if cwnd != conn.cwnd {
            conn.cwnd = cwnd;
            conn.ssthresh = (u64::from(conn.ssthresh) * old / u64::from(mtu)).min(u64::from(u32::MAX)) as u32;
        }
    }

    /// The window in whole segments.
    fn target(&self, conn: &Conn) -> u32 {
        (self.window.div_ceil(SEGMENT).min(u64::from(u32::MAX)) as u32).max(MIN_CWND).min(conn.cwnd_clamp)
    }

    /// The window falls by alpha/2, at most once in `rtt_target`. Linux `prague_enter_cwr`.
    fn cut_for_mark(&mut self, conn: &Conn) {
        let independent = self.is_rtt_independent(conn);
        let since = self.cwr_stamp.map(|stamp| conn.now - stamp);
        if independent && since.is_some_and(|since| since < self.params.rtt_target) {
            return;
        }
        self.cwr_stamp = Some(conn.now);
        self.measure_segment(conn);
        let alpha = self.upscaled_alpha >> SHIFT_G;
        let half = 1_u128 << self.alpha_bits();
        let cut = |window: u64| ((u128::from(alpha) * u128::from(window) + half) >> (self.alpha_bits() + 1)) as u64;
        if self.old() {
            self.carry -= cut(u64::from(conn.cwnd) * SEGMENT) as i64;
        } else if self.rate_mode && independent {
            self.rate = (self.rate - times_shifted(self.rate, alpha, self.alpha_bits() + 1)).max(MIN_RATE);
            self.window = self.to_window(self.rate, conn);
        } else {
            self.window -= cut(self.window);
            self.rate = self.to_rate(self.window);
        }
    }

    /// The window is halved. Linux `prague_enter_loss`.
    fn cut_for_loss(&mut self, conn: &Conn) {
        self.measure_segment(conn);
        (self.loss_cwnd, self.loss_rate, self.loss_carry) = (conn.cwnd, self.rate, self.carry);
        if self.old() {
            self.carry -= (i64::from(conn.cwnd) << 19) + (self.carry >> 1);
            self.update_increase(conn);
        } else if self.controls_rate(conn) {
            self.rate -= self.rate >> 1;
            self.window = self.to_window(self.rate, conn);
        } else {
            self.window -= self.window >> 1;
            self.rate = self.to_rate(self.window);
        }
        self.in_loss = true;
    }

    /// Updates the window by an ACK. Linux `prague_update_cwnd`.
    fn update_window(&mut self, conn: &mut Conn, sample: &RateSample) {
        let mut unmarked = i64::from(sample.ack_delivered);
        if sample.ack_marked > 0 {
            if !self.saw_ce && self.params.first_mark == FirstMark::Halves {
                self.window = (self.window + 1) >> 1;
            }
            self.saw_ce = true;
            unmarked -= i64::from(sample.ack_marked);
        }
        if unmarked > 0 && !self.in_loss && self.may_grow(conn) {
            let mut acked = unmarked as u32;
            if conn.in_slow_start() {
                acked = super::slow_start(conn, acked);
                self.window = u64::from(conn.cwnd) * SEGMENT;
                if acked == 0 {
                    self.update_increase(conn);
                    return;
                }
            }
            self.grow(u64::from(acked), conn);
        }
        self.follow(conn);
    }

    /// Additive increase for `acked` unmarked segments.
    fn grow(&mut self, acked: u64, conn: &Conn) {
        let mtu = u64::from(self.mtu);
        if self.old() {
            let cwnd = u64::from(conn.cwnd.max(1));
            self.carry += acked.max((acked * self.increase + cwnd / 2) / cwnd) as i64;
            return;
        }
        if self.controls_rate(conn) {
            let virtual_rtt = u64::from(self.target_8us().max(conn.rtt.srtt_8us));
            let window =
                (u128::from(self.rate) * u128::from(virtual_rtt)).div_ceil(u128::from(mtu << SECOND_SHIFT)).max(1) as u64;
            let increase = ((acked * FULL_MTU) << SECOND_SHIFT) / virtual_rtt;
            self.rate += (increase + window / 2) / window;
            self.window = (self.window + acked).max(self.to_window(self.rate, conn));
            return;
        }
        let window = self.window.max(1);
        let increase = ((acked * self.increase) << 20).saturating_add(window / 2) / window;
        // of full segments, as most are, that is no division
        self.window += acked.max(if mtu == FULL_MTU { increase } else { increase * FULL_MTU / mtu });
        self.rate = (self.rate + acked).max(self.to_rate(self.window));
    }

    /// `cwnd` moves towards the window by one segment. A step down ends slow start.
    fn follow(&mut self, conn: &mut Conn) {
        if self.old() {
            return self.follow_carry(conn);
        }
        let target = self.target(conn);
        match conn.cwnd.cmp(&target) {
            std::cmp::Ordering::Greater => {
                conn.cwnd -= 1;
                conn.set_ssthresh(conn.cwnd, self.name_cut(conn));
            }
            std::cmp::Ordering::Less => conn.cwnd += 1,
            std::cmp::Ordering::Equal => return,
        }
        self.update_increase(conn);
    }

    /// Returns the cause of a window that falls: a mark, unless a loss has halved it in this episode.
    fn name_cut(&self, conn: &Conn) -> ExitCause {
        match conn.state {
            CaState::Loss => ExitCause::Timeout,
            _ if self.in_loss => ExitCause::Loss,
            _ => ExitCause::Ecn,
        }
    }

    /// Moves `cwnd` by the whole segments of the carry, in 0.6.
    fn follow_carry(&mut self, conn: &mut Conn) {
        let segment = SEGMENT as i64;
        if self.carry <= -segment {
            self.carry += segment;
            if conn.cwnd <= MIN_CWND {
                self.carry = 0;
            }
            conn.cwnd = (conn.cwnd - 1).max(MIN_CWND);
            conn.set_ssthresh(conn.cwnd, self.name_cut(conn));
        } else if self.carry >= segment {
            self.carry -= segment;
            conn.cwnd = (conn.cwnd + 1).min(conn.cwnd_clamp);
        } else {
            return;
        }
        self.update_increase(conn);
    }

    /// Pacing rate and largest burst. Linux `prague_update_pacing_rate`.
    fn update_pacing(&mut self, conn: &mut Conn) {
        let mut rate = if self.controls_rate(conn) {
            let offset = self.rate.saturating_mul(WOBBLE) >> WOBBLE_SHIFT;
            // the first half of a virtual round trip faster, then slower
            let half = Duration::from_micros(u64::from(self.target_8us().max(conn.rtt.srtt_8us)) >> 4);
            if conn.now.saturating_since(self.alpha_stamp) < half {
                self.rate.saturating_add(offset)
            } else {
                self.rate - offset
            }
        } else {
            let window = if self.old() { u64::from(conn.cwnd) } else { self.window / SEGMENT };
            self.rate = self.to_rate(window.max(u64::from(conn.in_flight())) * SEGMENT);
            self.rate
        };
        if conn.cwnd < conn.ssthresh / 2 {
            rate <<= 1;
        }
        conn.pacing_rate = rate;
        // the same as shifting the quotient, and faster: processors divide small numbers in less time
        let burst = (rate >> self.params.burst_shift) / u64::from(self.mtu);
        self.max_burst = self.params.min_burst.max(burst.min(u64::from(u32::MAX)) as u32);
    }

    /// Chooses between window and rate for the next ACK. Linux `prague_cong_control`.
    fn switch_mode(&mut self, conn: &Conn) {
        if self.old() {
            return;
        }
        let small = u64::from(conn.cwnd) * u64::from(self.mtu) <= u64::from(self.params.rate_below);
        match self.params.mode {
            PragueMode::Switch => self.rate_mode = self.saw_ce && small,
            PragueMode::Window | PragueMode::Rate => {}
        }
        if self.rate_mode {
            self.window = self.to_window(self.rate, conn);
        } else {
            self.rate = self.to_rate(self.window);
        }
    }
}

/// `a * b >> shift`; more than 64 bits are all that fit.
fn times_shifted(a: u64, b: u64, shift: u32) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)) >> shift).unwrap_or(u64::MAX)
}

impl CongestionControl for State {
    fn control(&self) -> Control {
        Control::Both
    }

    fn ecn(&self) -> EcnUse {
        EcnUse {
            required: true,
            codepoint: Ecn::Ect1,
            echo: Echo::Accurate,
            only_accurate: self.params.version != PragueVersion::V06,
            ..EcnUse::default()
        }
    }

    fn init(&mut self, conn: &mut Conn) {
        self.mtu = conn.mss + u32::from(conn.headers - ETHERNET);
        self.full_mtu = self.mtu;
        self.measure_segment(conn);
        self.window = u64::from(conn.cwnd) * SEGMENT;
        self.upscaled_alpha = match self.params.first_mark {
            FirstMark::Halves => 0,
            FirstMark::Alpha => 1 << (self.alpha_bits() + SHIFT_G),
        };
        self.alpha_stamp = conn.now;
        self.saw_ce = conn.delivered_ce > 0;
        self.slow_rtt = u64::from(conn.rtt.srtt_8us.max(8)) << SLOW_RTT_SHIFT;
        conn.paced = true;
        self.update_pacing(conn);
        self.begin_round(conn);
    }

    /// Unlike BBR's, its pacing ends with it: Linux `prague_release`. A threshold that its large segments have rounded down to 0 would close the window of another control.
    fn release(&mut self, conn: &mut Conn) {
        conn.paced = false;
        conn.ssthresh = conn.ssthresh.max(MIN_CWND);
    }

    /// The slow-start threshold stays; what falls is the window.
    fn ssthresh(&mut self, conn: &Conn, cause: Congestion) -> u32 {
        if cause == Congestion::Ecn {
            self.cut_for_mark(conn);
        }
        conn.ssthresh
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn cong_control(&mut self, conn: &mut Conn, sample: &RateSample) {
        self.measure_segment(conn);
        self.update_window(conn, sample);
        self.end_round(conn);
        self.update_pacing(conn);
        self.switch_mode(conn);
    }

    fn max_burst(&self, _conn: &Conn) -> Option<u32> {
        Some(self.max_burst)
    }

    fn cwnd_event(&mut self, conn: &mut Conn, event: CaEvent) {
        if event == CaEvent::Loss {
            self.cut_for_loss(conn);
        }
    }

    fn set_state(&mut self, conn: &mut Conn, state: CaState) {
        match state {
            CaState::Recovery if conn.state != CaState::Recovery => self.cut_for_loss(conn),
            CaState::Open => self.in_loss = false,
            _ => {}
        }
    }

    fn undo_cwnd(&mut self, conn: &mut Conn) -> u32 {
        if self.old() {
            self.carry += self.carry - self.loss_carry;
        } else {
            self.in_loss = false;
            self.rate = self.rate.max(self.loss_rate);
            self.window = self.to_window(self.rate, conn);
        }
        conn.cwnd.max(self.loss_cwnd)
    }
}

#[cfg(test)]
mod tests;
