//! CUBIC with HyStart as in Linux 6.12 (`net/ipv4/tcp_cubic.c`), in its integer arithmetic; HyStart also as up to 5.5.
//!
//! Specification: RFC 9438 for the window (names below are the RFC's), Ha and Rhee, "Taming the elephants: New TCP slow
//! start", Computer Networks 55 (2011) for HyStart. Where Linux differs from the RFC, this file does what Linux does:
//!
//! - C = 41 * 10 / 1024 = 0.4004 segments/s^3, beta = 717/1024 = 0.7002 (RFC: 0.4 and 0.7).
//! - Reductions start from cwnd, not from the data in flight, and are the same for ECN and loss.
//! - The target is the curve one smallest RTT ahead, not clamped to [cwnd, 1.5 cwnd]; instead at least two delivered
//!   segments are needed for each +1.
//! - The Reno-friendly estimate grows by 8/15 of a segment a round trip for ever; RFC 9438 section 4.3 makes that a whole
//!   segment once the estimate has reached the window of the last reduction.
//! - Before the first reduction, and after a timeout, the window grows by at least 5 % a round trip.
//! - While cwnd stays the same, the curve is looked up at most once in 32 ms.
//!
//! Deviations from Linux:
//!
//! - The cube root is exact (rounded down). Linux takes one Newton step from a table of 64 entries and multiplies by
//!   341/1024 for 1/3: its K is up to 0.4 % different, 0.1 % on average (test `k_differs_little_from_one_newton_step`).
//! - Linux's cube of the time overflows 64 bits 347 s away from K, when the curve is 16.7 million segments from the
//!   origin; here the time saturates there.
//! - `epoch_start` is an `Option`, so that an epoch may begin at time 0.

use super::{additive_increase, slow_start, CongestionControl};
use crate::tcp::conn::{CaEvent, CaState, Congestion, Conn};
use crate::units::Time;

/// Name in experiment files.
pub const NAME: &str = "cubic";
/// One line.
pub const TITLE: &str = "CUBIC with HyStart, as Linux: cubic growth around the last maximum, 0.7 on congestion";
/// Specification and deviations.
pub const SOURCE: &str = "RFC 9438; Ha and Rhee, Taming the elephants (2011); Linux 6.12 net/ipv4/tcp_cubic.c, whose integer \
    arithmetic is followed except for an exact cube root";

crate::choice! {
    /// Which HyStart.
    pub enum HystartForm {
        /// None: slow start ends with the first congestion signal.
        Off = "off",
        /// As in Linux up to 5.5: millisecond clock; the ACK train may last half the smallest RTT.
        Milliseconds = "5.5",
        /// As in Linux since 5.6: microsecond clock; the ACK train of a paced sender may last the smallest RTT.
        Microseconds = "5.6",
    }
}

crate::choice! {
    /// By what HyStart ends slow start.
    pub enum HystartDetect {
        /// By the length of the train of closely spaced ACKs.
        Train = "train",
        /// By a rise of the round-trip time.
        Delay = "delay",
        /// By whichever comes first.
        Both = "both",
    }
}

crate::params! {
    /// Parameters of CUBIC: the module parameters of Linux.
    pub struct Params {
        /// Window kept at a reduction. RFC 9438 section 4.6 has 0.7.
        beta: u32 = 717, unit "1/1024", range 1u32, 1023u32, source "Linux tcp_cubic.c beta";
        /// C, the speed of the cubic curve: 41 is 0.4004 segments/s^3. RFC 9438 section 4.1 has 0.4.
        bic_scale: u32 = 41, unit "10/1024 segments/s^3", range 1u32, 4096u32, source "Linux tcp_cubic.c bic_scale";
        /// Give up more when the window is cut before it has reached its last maximum (RFC 9438 section 4.7).
        fast_convergence: bool = true, unit "", source "Linux tcp_cubic.c fast_convergence";
        /// Never grow more slowly than an AIMD flow of the same beta (RFC 9438 section 4.3).
        tcp_friendliness: bool = true, unit "", source "Linux tcp_cubic.c tcp_friendliness";
        /// Which HyStart ends slow start early, named by the Linux version.
        hystart: HystartForm = HystartForm::Microseconds, unit "", source "Linux tcp_cubic.c hystart";
        /// What HyStart looks at.
        hystart_detect: HystartDetect = HystartDetect::Both, unit "", source "Linux tcp_cubic.c hystart_detect = 3";
        /// HyStart leaves windows smaller than this alone.
        hystart_low_window: u32 = 16, unit "segments", source "Linux tcp_cubic.c hystart_low_window";
        /// ACKs that are no further apart than this belong to one train.
        hystart_ack_delta: Time = Time::from_millis(2), unit "", range Time::ZERO, Time::from_secs(1),
            source "Linux tcp_cubic.c hystart_ack_delta_us = 2000";
    }
}

/// Jiffies a second: Linux `HZ`, as [`Conn::jiffies`] has it.
const HZ: u64 = 1000;
/// While cwnd stays the same, the curve is evaluated again only after more jiffies than this. Linux `bictcp_update`.
const UPDATE_INTERVAL: u64 = HZ / 32;
/// RTT samples are ignored for this many jiffies after an epoch has begun. Linux `cubictcp_acked`.
const SAMPLES_IGNORED: u64 = HZ;
/// Times on the curve are in 1/2^10 s. Linux `BICTCP_HZ`.
const CURVE_HZ_SHIFT: u32 = 10;
/// `beta` is in 1/1024. Linux `BICTCP_BETA_SCALE`.
const BETA_ONE: u64 = 1024;
/// Segments for each +1 when the window is above the curve, in windows. Linux `bictcp_update`.
const PLATEAU_WINDOWS: u32 = 100;
/// Most segments for each +1 while no maximum is known: 5 % a round trip. Linux `bictcp_update`.
const MAX_INTERVAL_UNKNOWN: u32 = 20;
/// Fewest segments for each +1: the window grows by at most half in a round trip. Linux `bictcp_update`.
const MIN_INTERVAL: u32 = 2;
/// RTT samples at the start of a round from which its delay is judged. Linux `HYSTART_MIN_SAMPLES`.
const HYSTART_MIN_SAMPLES: u32 = 8;
/// Least rise of the RTT that ends slow start, us. Linux `HYSTART_DELAY_MIN`.
const HYSTART_DELAY_MIN_US: u32 = 4_000;
/// Rise of the RTT that always ends slow start, us. Linux `HYSTART_DELAY_MAX`.
const HYSTART_DELAY_MAX_US: u32 = 16_000;
/// Longest allowance for the bursts of segmentation offload in an ACK train, us. Linux `hystart_ack_delay`.
const HYSTART_BURST_MAX_US: u64 = 1_000;
/// Bytes of the bursts allowed for: four segmentation-offload buffers of `sk_gso_max_size`. Linux `hystart_ack_delay`.
const HYSTART_BURST_BYTES: u64 = 4 * 65_536;
/// `delay_min` before the first sample.
const NO_DELAY: u32 = u32::MAX;

/// What `Params` come to, in the units of the arithmetic.
#[derive(Clone, Debug)]
struct Config {
    /// Window kept at a reduction, 1/1024.
    beta: u64,
    /// C in 1/1024 segments/s^3. Linux `cube_rtt_scale`.
    c_scaled: u64,
    /// 2^40 / `c_scaled`: cube of K, in (1/1024 s)^3, per segment. Linux `cube_factor`.
    cube_factor: u64,
    /// Longest distance from K on the curve whose cube times `c_scaled` fits 64 bits, 1/1024 s.
    max_offset: u64,
    /// Windows delivered for each +1 of the Reno-friendly estimate, 1/8. Linux `beta_scale`.
    reno_interval: u64,
    fast_convergence: bool,
    tcp_friendliness: bool,
    hystart: HystartForm,
    by_train: bool,
    by_delay: bool,
    low_window: u32,
    /// Longest gap within an ACK train, in the unit of `hystart`'s clock.
    ack_delta: u64,
}

/// The current round of slow start, as HyStart sees it; times in the unit of its clock.
#[derive(Clone, Debug)]
struct Round {
    start: u64,
    /// Last ACK of the train.
    last_ack: u64,
    /// The round ends when this segment is acknowledged.
    end_seq: u64,
    /// Smallest RTT of the round, in the unit of `delay_min`.
    curr_rtt: u32,
    sample_cnt: u32,
}

/// State of CUBIC. Times are jiffies (ms) except where said; windows are segments.
#[derive(Clone, Debug)]
pub struct State {
    config: Config,
    /// Segments delivered for each +1 of cwnd.
    interval: u32,
    /// W_max of the RFC before the present reduction, lowered by fast convergence; 0: not known. Linux `last_max_cwnd`.
    last_max: u32,
    /// cwnd when the curve was last evaluated.
    last_cwnd: u32,
    /// When the curve was last evaluated.
    last_time: u64,
    /// Height of the plateau of the curve.
    origin: u32,
    /// From the start of the epoch to the plateau, 1/1024 s.
    k: u64,
    /// Start of the present epoch of growth, if it has begun.
    epoch_start: Option<u64>,
    /// Smallest RTT: us, or 1/8 ms with HyStart "5.5"; [`NO_DELAY`] before the first.
    delay_min: u32,
    /// `delay_min` in jiffies: the curve is looked up so far ahead.
    lead: u64,
    /// Segments delivered in this epoch, not yet counted in `w_est`.
    ack_cnt: u64,
    /// Window that Reno would have. Linux `tcp_cwnd`.
    w_est: u32,
    /// HyStart has ended slow start.
    found: bool,
    round: Round,
}

/// Largest integer whose cube is at most `a`.
fn cube_root(a: u64) -> u64 {
    // 2^21 < cube root of 2^64 < 2^22
    (0..22).rev().fold(0, |root: u64, bit| {
        let longer = root | 1 << bit;
        if u128::from(longer).pow(3) <= u128::from(a) {
            longer
        } else {
            root
        }
    })
}

impl State {
    /// CUBIC with `params`.
    pub fn new(params: Params) -> State {
        let beta = u64::from(params.beta);
        let c_scaled = u64::from(params.bic_scale) * 10;
        let config = Config {
            beta,
            c_scaled,
            cube_factor: (1 << (10 + 3 * CURVE_HZ_SHIFT)) / c_scaled,
            max_offset: cube_root(u64::MAX / c_scaled),
            // alpha = 3 (1 - beta) / (1 + beta) segments a round trip (RFC 9438 section 4.3), inverted, in eighths
            reno_interval: 8 * (BETA_ONE + beta) / 3 / (BETA_ONE - beta),
            fast_convergence: params.fast_convergence,
            tcp_friendliness: params.tcp_friendliness,
            hystart: params.hystart,
            by_train: params.hystart_detect != HystartDetect::Delay,
            by_delay: params.hystart_detect != HystartDetect::Train,
            low_window: params.hystart_low_window,
            ack_delta: clock(params.hystart, params.hystart_ack_delta),
        };
        State {
            config,
            interval: 0,
            last_max: 0,
            last_cwnd: 0,
            last_time: 0,
            origin: 0,
            k: 0,
            epoch_start: None,
            delay_min: NO_DELAY,
            lead: 0,
            ack_cnt: 0,
            w_est: 0,
            found: false,
            round: Round { start: 0, last_ack: 0, end_seq: 0, curr_rtt: u32::MAX, sample_cnt: 0 },
        }
    }

    /// Forgets everything but the parameters. Linux `bictcp_reset`, then `bictcp_hystart_reset`.
    fn reset(&mut self, conn: &Conn) {
        self.interval = 0;
        self.last_max = 0;
        self.last_cwnd = 0;
        self.last_time = 0;
        self.origin = 0;
        self.k = 0;
        self.epoch_start = None;
        self.delay_min = NO_DELAY;
        self.lead = 0;
        self.ack_cnt = 0;
        self.w_est = 0;
        self.found = false;
        self.start_round(conn);
    }

    /// The curve at `t` (1/1024 s into the epoch): `origin` + C (t - K)^3. RFC 9438 section 4.2, figure 1.
    #[inline]
    fn w_cubic(&self, t: u64) -> u32 {
        let offset = t.abs_diff(self.k).min(self.config.max_offset);
        let delta = ((self.config.c_scaled * offset * offset * offset) >> (10 + 3 * CURVE_HZ_SHIFT)) as u32;
        if t < self.k {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        }
    }

    /// Begins an epoch of growth from `cwnd`. RFC 9438 section 4.2, figure 2.
    fn start_epoch(&mut self, now: u64, cwnd: u32, acked: u32) {
        self.epoch_start = Some(now);
        self.ack_cnt = u64::from(acked);
        self.w_est = cwnd;
        if self.last_max <= cwnd {
            self.k = 0;
            self.origin = cwnd;
        } else {
            self.k = cube_root(self.config.cube_factor.saturating_mul(u64::from(self.last_max - cwnd)));
            self.origin = self.last_max;
        }
    }

    /// Sets `interval` after `acked` segments were delivered. Linux `bictcp_update`.
    #[inline]
    fn update(&mut self, now: u64, cwnd: u32, acked: u32) {
        self.ack_cnt += u64::from(acked);
        if self.last_cwnd == cwnd && now.saturating_sub(self.last_time) <= UPDATE_INTERVAL {
            return;
        }
        if self.epoch_start.is_none() || now != self.last_time {
            self.last_cwnd = cwnd;
            self.last_time = now;
            if self.epoch_start.is_none() {
                self.start_epoch(now, cwnd, acked);
            }
            let elapsed = now.saturating_sub(self.epoch_start.unwrap_or(now)) + self.lead;
            let target = self.w_cubic((elapsed << CURVE_HZ_SHIFT) / HZ);
            self.interval = if target > cwnd { cwnd / (target - cwnd) } else { cwnd.saturating_mul(PLATEAU_WINDOWS) };
            if self.last_max == 0 {
                self.interval = self.interval.min(MAX_INTERVAL_UNKNOWN);
            }
        }
        if self.config.tcp_friendliness {
            self.follow_reno(cwnd);
        }
        self.interval = self.interval.max(MIN_INTERVAL);
    }

    /// Advances the window that Reno would have and keeps up with it. RFC 9438 section 4.3.
    #[inline]
    fn follow_reno(&mut self, cwnd: u32) {
        // a window of 1 with a small beta would give 0
        let delivered_per_step = ((u64::from(cwnd) * self.config.reno_interval) >> 3).max(1);
        if self.ack_cnt > delivered_per_step {
            let steps = (self.ack_cnt - 1) / delivered_per_step;
            self.ack_cnt -= steps * delivered_per_step;
            self.w_est = self.w_est.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
        }
        if self.w_est > cwnd {
            self.interval = self.interval.min(cwnd / (self.w_est - cwnd));
        }
    }

    /// Begins a round of HyStart. Linux `bictcp_hystart_reset`.
    fn start_round(&mut self, conn: &Conn) {
        let now = clock(self.config.hystart, conn.now);
        self.round = Round { start: now, last_ack: now, end_seq: conn.snd_nxt, curr_rtt: u32::MAX, sample_cnt: 0 };
    }

    /// Whether slow start is to end, by an RTT sample of `delay`. Linux `hystart_update`.
    fn hystart_finds(&mut self, conn: &Conn, delay: u32) -> bool {
        (self.config.by_train && self.train_is_long(conn)) || (self.config.by_delay && self.delay_has_risen(delay))
    }

    /// Whether the ACKs of a round, all closely spaced, fill the path.
    fn train_is_long(&mut self, conn: &Conn) -> bool {
        let now = clock(self.config.hystart, conn.now);
        if now.saturating_sub(self.round.last_ack) > self.config.ack_delta {
            return false;
        }
        self.round.last_ack = now;
        let threshold = match self.config.hystart {
            // delay_min is in 1/8 ms; half of it in ms
            HystartForm::Milliseconds => u64::from(self.delay_min >> 4),
            _ => {
                let whole = u64::from(self.delay_min) + burst_allowance_us(conn.pacing_rate);
                // ACKs of paced data are spread over the round by the sender itself, whatever the path
                whole >> u32::from(!conn.paced)
            }
        };
        now.saturating_sub(self.round.start) > threshold
    }

    /// Whether the smallest RTT of this round is above the smallest of the connection by more than an eighth.
    fn delay_has_risen(&mut self, delay: u32) -> bool {
        let still_sampling = self.round.sample_cnt < HYSTART_MIN_SAMPLES;
        if still_sampling || self.config.hystart == HystartForm::Microseconds {
            self.round.curr_rtt = self.round.curr_rtt.min(delay);
        }
        if still_sampling {
            self.round.sample_cnt += 1;
            return false;
        }
        let (least, most) = match self.config.hystart {
            HystartForm::Milliseconds => (HYSTART_DELAY_MIN_US * 8 / 1000, HYSTART_DELAY_MAX_US * 8 / 1000),
            _ => (HYSTART_DELAY_MIN_US, HYSTART_DELAY_MAX_US),
        };
        self.round.curr_rtt > self.delay_min.saturating_add((self.delay_min >> 3).clamp(least, most))
    }
}

/// `time` on the clock of HyStart: ms up to Linux 5.5, us since.
#[inline]
fn clock(form: HystartForm, time: Time) -> u64 {
    match form {
        HystartForm::Milliseconds => time.as_millis(),
        _ => time.as_micros(),
    }
}

/// Time for which segmentation offload may hold ACKs apart, us. Linux `hystart_ack_delay`.
#[inline]
fn burst_allowance_us(pacing_rate: u64) -> u64 {
    match pacing_rate {
        0 => 0,
        rate => (HYSTART_BURST_BYTES * 1_000_000 / rate).min(HYSTART_BURST_MAX_US),
    }
}

impl CongestionControl for State {
    fn init(&mut self, conn: &mut Conn) {
        self.reset(conn);
    }

    fn ssthresh(&mut self, conn: &Conn, _cause: Congestion) -> u32 {
        self.epoch_start = None;
        let cwnd = u64::from(conn.cwnd);
        self.last_max = if conn.cwnd < self.last_max && self.config.fast_convergence {
            (cwnd * (BETA_ONE + self.config.beta) / (2 * BETA_ONE)) as u32
        } else {
            conn.cwnd
        };
        ((cwnd * self.config.beta / BETA_ONE) as u32).max(2)
    }

    #[inline]
    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        if !conn.cwnd_limited() {
            return;
        }
        let mut left = acked;
        if conn.in_slow_start() {
            if self.config.hystart == HystartForm::Milliseconds && conn.snd_una > self.round.end_seq {
                self.start_round(conn);
            }
            left = slow_start(conn, acked);
            if left == 0 {
                return;
            }
        }
        self.update(conn.jiffies(), conn.cwnd, left);
        additive_increase(conn, self.interval, left);
    }

    #[inline]
    fn pkts_acked(&mut self, conn: &mut Conn, _pkts: u32, rtt_us: Option<u32>) {
        let Some(rtt_us) = rtt_us else { return };
        if self.epoch_start.is_some_and(|start| conn.jiffies().saturating_sub(start) < SAMPLES_IGNORED) {
            return;
        }
        let delay = match self.config.hystart {
            HystartForm::Milliseconds => ((u64::from(rtt_us) << 3) / 1000) as u32,
            _ => rtt_us,
        }
        .max(1);
        if delay < self.delay_min {
            self.delay_min = delay;
            self.lead = match self.config.hystart {
                HystartForm::Milliseconds => u64::from(delay >> 3),
                _ => u64::from(delay.div_ceil(1000)),
            };
        }
        if self.config.hystart == HystartForm::Off || self.found || !conn.in_slow_start() {
            return;
        }
        if self.config.hystart == HystartForm::Microseconds && conn.snd_una > self.round.end_seq {
            self.start_round(conn);
        }
        if conn.cwnd >= self.config.low_window && self.hystart_finds(conn, delay) {
            self.found = true;
            conn.ssthresh = conn.cwnd;
        }
    }

    fn cwnd_event(&mut self, conn: &mut Conn, event: CaEvent) {
        // an application's pause is no time for growth: it is taken out of the epoch (RFC 9438 section 4.2)
        if let (CaEvent::TxStart { idle }, Some(start)) = (event, self.epoch_start) {
            let now = conn.jiffies();
            let last_sent = conn.now.saturating_sub(idle).as_millis();
            self.epoch_start = Some((start + (now - last_sent)).min(now));
        }
    }

    fn set_state(&mut self, conn: &mut Conn, state: CaState) {
        if state == CaState::Loss {
            self.reset(conn);
        }
    }
}
