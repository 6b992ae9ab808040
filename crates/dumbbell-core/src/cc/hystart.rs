//! HyStart: slow start ends before it overflows the queue, by the length of a train of ACKs or a rise of the RTT. As in Linux's
//! `tcp_cubic.c`; Ha and Rhee, "Taming the elephants: New TCP slow start", Computer Networks 55 (2011).
//!
//! The form "5.6" is that of 6.12: a round ends with any ACK beyond its data. From 5.6 until commit 4e1fddc98d25 ("tcp_cubic:
//! fix spurious Hystart ACK train detections for not-cwnd-limited flows") only ACKs that let the window grow ended it, and
//! until a fix of 2024 only windows of at least `low_window` had rounds.

use super::conn::Conn;
use super::exit::ExitCause;
use crate::buffers::SK_GSO_MAX_SIZE;
use crate::units::{Duration, Instant};

/// A way to end slow start before the first loss or mark, for any control that begins with slow start.
pub trait EarlyExit {
    /// The connection begins, or begins again after a timeout.
    fn reset(&mut self, conn: &Conn);

    /// The window is about to grow in slow start.
    fn before_growth(&mut self, _conn: &Conn) {}

    /// An RTT sample of at least 1 us came, in slow start or not. If slow start ends at the present window, returns why.
    fn check_sample(&mut self, conn: &Conn, rtt_us: u32) -> Option<ExitCause>;
}

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

/// RTT samples at the start of a round from which its delay is judged. Linux `HYSTART_MIN_SAMPLES`.
const HYSTART_MIN_SAMPLES: u32 = 8;
/// Least rise of the RTT that ends slow start, us. Linux `HYSTART_DELAY_MIN`.
const HYSTART_DELAY_MIN_US: u32 = 4_000;
/// Rise of the RTT that always ends slow start, us. Linux `HYSTART_DELAY_MAX`.
const HYSTART_DELAY_MAX_US: u32 = 16_000;
/// Longest allowance for the bursts of segmentation offload in an ACK train, us. Linux `hystart_ack_delay`.
const HYSTART_BURST_MAX_US: u64 = 1_000;
/// Bytes of the bursts allowed for: four segmentation-offload buffers of `sk_gso_max_size`. Linux `hystart_ack_delay`.
const HYSTART_BURST_BYTES: u64 = 4 * SK_GSO_MAX_SIZE as u64;
/// `delay_min` before the first sample.
const NO_DELAY: u32 = u32::MAX;

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

/// State of HyStart.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Hystart {
    /// Smallest RTT: us, or 1/8 ms with the form "5.5".
    delay_min: u32,
    form: HystartForm,
    /// Whether it has ended slow start.
    pub(super) found: bool,
    by_train: bool,
    by_delay: bool,
    low_window: u32,
    /// Longest gap within an ACK train, in the unit of `form`'s clock.
    ack_delta: u64,
    round: Round,
}

impl EarlyExit for Hystart {
    fn reset(&mut self, conn: &Conn) {
        self.delay_min = NO_DELAY;
        self.found = false;
        self.start_round(conn);
    }

    #[inline]
    fn before_growth(&mut self, conn: &Conn) {
        if self.form == HystartForm::Milliseconds && conn.snd_una > self.round.end_seq {
            self.start_round(conn);
        }
    }

    #[inline]
    fn check_sample(&mut self, conn: &Conn, rtt_us: u32) -> Option<ExitCause> {
        let delay = match self.form {
            HystartForm::Milliseconds => (((u64::from(rtt_us) << 3) / 1000) as u32).max(1),
            _ => rtt_us,
        };
        self.delay_min = self.delay_min.min(delay);
        if self.form == HystartForm::Off || self.found || !conn.in_slow_start() {
            return None;
        }
        if self.form == HystartForm::Microseconds && conn.snd_una > self.round.end_seq {
            self.start_round(conn);
        }
        if conn.cwnd < self.low_window {
            return None;
        }
        let cause = self.finds(conn, delay);
        self.found = cause.is_some();
        cause
    }
}

impl Hystart {
    /// HyStart of `form` that looks at `detect` in windows of at least `low_window` segments; ACKs no further apart than `ack_delta` are
    /// one train.
    pub fn new(form: HystartForm, detect: HystartDetect, low_window: u32, ack_delta: Duration) -> Hystart {
        Hystart {
            form,
            by_train: detect != HystartDetect::Delay,
            by_delay: detect != HystartDetect::Train,
            found: false,
            low_window,
            ack_delta: clock(form, Instant::ZERO + ack_delta),
            delay_min: NO_DELAY,
            round: Round { start: 0, last_ack: 0, end_seq: 0, curr_rtt: u32::MAX, sample_cnt: 0 },
        }
    }

    /// Begins a round of HyStart. Linux `bictcp_hystart_reset`.
    fn start_round(&mut self, conn: &Conn) {
        let now = clock(self.form, conn.now);
        self.round = Round { start: now, last_ack: now, end_seq: conn.snd_nxt, curr_rtt: u32::MAX, sample_cnt: 0 };
    }

    /// By what slow start is to end, if it is, at an RTT sample of `delay`. Linux `hystart_update`.
    fn finds(&mut self, conn: &Conn, delay: u32) -> Option<ExitCause> {
        if self.by_train && self.train_is_long(conn) {
            return Some(ExitCause::Train);
        }
        (self.by_delay && self.delay_has_risen(delay)).then_some(ExitCause::Delay)
    }

    /// Whether the ACKs of a round, all closely spaced, fill the path.
    fn train_is_long(&mut self, conn: &Conn) -> bool {
        let now = clock(self.form, conn.now);
        if now.saturating_sub(self.round.last_ack) > self.ack_delta {
            return false;
        }
        self.round.last_ack = now;
        let threshold = match self.form {
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
        if still_sampling || self.form == HystartForm::Microseconds {
            self.round.curr_rtt = self.round.curr_rtt.min(delay);
        }
        if still_sampling {
            self.round.sample_cnt += 1;
            return false;
        }
        let (least, most) = match self.form {
            HystartForm::Milliseconds => (HYSTART_DELAY_MIN_US * 8 / 1000, HYSTART_DELAY_MAX_US * 8 / 1000),
            _ => (HYSTART_DELAY_MIN_US, HYSTART_DELAY_MAX_US),
        };
        self.round.curr_rtt > self.delay_min.saturating_add((self.delay_min >> 3).clamp(least, most))
    }
}

/// `time` on the clock of HyStart: ms up to Linux 5.5, us since.
#[inline]
fn clock(form: HystartForm, time: Instant) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::super::cubic::{Params, State};
    use super::super::driver::DrivenSender;
    use super::super::CcContext;
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn cubic(edit: impl FnOnce(&mut Params)) -> State {
        let mut params = Params::default();
        edit(&mut params);
        State::new(params, &CcContext::default())
    }

    /// A sender with the HyStart of `form` by `detect`, whose smallest RTT is `rtt`, at the start of a round of 100 segments.
    fn hystart(form: HystartForm, detect: HystartDetect, rtt: Duration) -> DrivenSender<State> {
        let mut sender = DrivenSender::new(
            cubic(|p| {
                p.hystart = form;
                p.hystart_detect = detect;
            }),
            99,
        );
        sender.advance(ms(1_000));
        sender.ack_n(99, rtt);
        // beyond the end of the first round, which was segment 99
        sender.conn.cwnd = 100;
        sender.ack_n(1, rtt);
        sender.conn.cwnd = 100;
        sender
    }

    #[test]
    fn delay_threshold_is_an_eighth_between_4_and_16_ms() {
        for (rtt, rise) in [(10, 4), (40, 5), (80, 10), (160, 16)] {
            for (form, step) in [(HystartForm::Microseconds, 1), (HystartForm::Milliseconds, 125)] {
                let at = |extra: u64| {
                    let mut sender = hystart(form, HystartDetect::Delay, ms(rtt));
                    // the sample that began the round was a low one: begin another
                    sender.cc.exit.start_round(&sender.conn);
                    let sample = ms(rtt + rise) + Duration::from_micros(extra);
                    for _ in 0..8 {
                        sender.ack_n(1, sample);
                        assert!(!sender.cc.exit.found);
                    }
                    sender.ack_n(1, sample);
                    let cause = sender.conn.exits.last.map(|exit| exit.cause);
                    assert_eq!(cause, sender.cc.exit.found.then_some(ExitCause::Delay));
                    sender.cc.exit.found
                };
                assert!(!at(0), "{form:?} {rtt} ms");
                assert!(at(step), "{form:?} {rtt} ms");
            }
        }
    }

    #[test]
    fn one_low_sample_after_the_eighth_still_counts_in_the_new_form() {
        for (form, found) in [(HystartForm::Microseconds, false), (HystartForm::Milliseconds, true)] {
            let mut sender = hystart(form, HystartDetect::Delay, ms(40));
            sender.cc.exit.start_round(&sender.conn);
            for _ in 0..8 {
                sender.ack_n(1, ms(60));
            }
            sender.ack_n(1, ms(40));
            assert_eq!(sender.cc.exit.found, found);
        }
    }

    /// ms from the start of a round to the end of slow start, if the path of 40 ms delivers a segment every ms.
    fn train(form: HystartForm, edit: impl FnOnce(&mut Conn)) -> Option<u64> {
        let mut sender = hystart(form, HystartDetect::Train, ms(40));
        edit(&mut sender.conn);
        let start = Instant(match form {
            HystartForm::Milliseconds => sender.cc.exit.round.start * 1_000_000,
            _ => sender.cc.exit.round.start * 1_000,
        });
        for _ in 0..90 {
            sender.advance(ms(1));
            sender.ack_n(1, ms(40));
            if sender.cc.exit.found {
                // slow start ends without a cut
                assert_eq!(sender.conn.ssthresh, sender.conn.cwnd);
                assert_eq!(sender.conn.exits.last.map(|exit| exit.cause), Some(ExitCause::Train));
                return Some((sender.conn.now - start).as_millis());
            }
        }
        None
    }

    #[test]
    fn a_train_longer_than_half_the_smallest_rtt_ends_slow_start() {
        // more than 40 / 2 = 20 ms
        assert_eq!(train(HystartForm::Milliseconds, |_| ()), Some(21));
        assert_eq!(train(HystartForm::Microseconds, |_| ()), Some(21));
        // bursts: (40 + min(1, 262144 B / 12.5 MB/s = 21)) / 2 = 20.5 ms
        assert_eq!(train(HystartForm::Microseconds, |c| c.pacing_rate = 12_500_000), Some(21));
    }

    #[test]
    fn a_paced_train_must_be_longer_than_the_smallest_rtt() {
        assert_eq!(train(HystartForm::Milliseconds, |c| c.paced = true), Some(21));
        assert_eq!(train(HystartForm::Microseconds, |c| c.paced = true), Some(41));
        // with 1 ms for bursts: more than 41 ms
        let paced = |c: &mut Conn| (c.paced, c.pacing_rate) = (true, 12_500_000);
        assert_eq!(train(HystartForm::Microseconds, paced), Some(42));
    }

    #[test]
    fn burst_allowance_is_four_buffers_at_the_pacing_rate() {
        // 4 * 65343 B at 1 GB/s
        assert_eq!(burst_allowance_us(1_000_000_000), 261);
        assert_eq!((burst_allowance_us(1), burst_allowance_us(0), burst_allowance_us(u64::MAX)), (1_000, 0, 0));
    }

    #[test]
    fn a_gap_of_more_than_2_ms_ends_the_train_for_the_round() {
        for (gap_us, found) in [(2_000, true), (2_001, false)] {
            let mut sender = hystart(HystartForm::Microseconds, HystartDetect::Train, ms(40));
            for n in 0..60 {
                sender.advance(if n == 10 { Duration::from_micros(gap_us) } else { ms(1) });
                sender.ack_n(1, ms(40));
            }
            assert_eq!(sender.cc.exit.found, found, "{gap_us} us");
        }
    }

    #[test]
    fn small_windows_are_left_alone() {
        for (cwnd, found) in [(15, false), (16, true)] {
            let mut sender = hystart(HystartForm::Microseconds, HystartDetect::Both, ms(40));
            for _ in 0..20 {
                sender.conn.cwnd = cwnd;
                sender.ack_n(1, ms(80));
            }
            // the low sample that began the round keeps it quiet; in the next round there is none
            sender.ack_n(200, ms(80));
            for _ in 0..20 {
                sender.conn.cwnd = cwnd;
                sender.ack_n(1, ms(80));
            }
            assert_eq!(sender.cc.exit.found, found, "cwnd {cwnd}");
        }
    }
}
