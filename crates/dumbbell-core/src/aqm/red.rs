//! RED: drops or marks the arriving packet by the average queue: never below `min`, with a rising probability up to `max`, always
//! above. With `min` = `max` it is a step in bytes.
//!
//! Specification: Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM ToN 1(4), 1993 (sections
//! 4, 7 and 11), as in Linux `include/net/red.h`, `net/sched/sch_red.c` (6.18), in its integers, with the parameters that tc makes
//! of its arguments (tc-red(8), iproute2 `tc_red.c`). `adaptive` is Floyd, Gummadi and Shenker, "Adaptive RED" (2001).
//!
//! tc computes the table for idle times in ticks of 64 ns, and the kernel reads it in microseconds: the average decays in 15.6 us of
//! idleness as far as it was meant to in one. So it does here.
//!
//! `wlog` = 0, the queue at this instant, is what DCTCP asks for (RFC 8257 section 3.1); tc cannot set it, and its least is 1.
//!
//! Deviations: Linux divides random numbers by a reciprocal; here it is a division. A `limit` below a packet drops it; Linux too.

use super::fifo::Fifo;
use super::{Aqm, Dequeue, QueueContext, Verdict};
use crate::log::{At, DropReason, DropSite, Log, MarkReason};
use crate::packet::Packet;
use crate::param::ParamError;
use crate::real;
use crate::rng::Rng;
use crate::units::{Duration, Instant, Rate};

/// Name in experiment files.
pub const NAME: &str = "red";
/// One line.
pub const TITLE: &str = "random early detection: marks or drops by the average queue; a step where min = max";
/// Specification and deviations.
pub const SOURCE: &str = "Floyd and Jacobson 1993 as in Linux 6.18 red.h, sch_red.c; parameters as tc-red(8)";

crate::params! {
    /// Parameters of RED: the arguments of tc.
    pub struct Params {
        /// Bytes that fit; tail drop beyond.
        limit: u32 = 400_000, unit "bytes", range 1_u32, u32::MAX, source "tc-red(8): its example; there is no default";
        /// Average queue at which marking begins; unset: a third of `max`.
        min: Option<u32> = None, unit "bytes", range 1_u32, 1_u32 << 30, source "tc-red(8)";
        /// Average queue at which all are marked; unset: three times `min`, or a quarter of `limit`.
        max: Option<u32> = None, unit "bytes", range 1_u32, 1_u32 << 30, source "tc-red(8)";
        /// Packet size for the computation of burst and idle times.
        avpkt: u32 = 1000, unit "bytes", range 64_u32, 65_535_u32, source "tc-red(8): 1000 is a good value";
        /// Packets that may arrive at once before the average follows; unset: (2 min + max) / (3 avpkt).
        burst: Option<u32> = None, unit "packets", range 1_u32, 1_000_000_u32, source "tc-red(8)";
        /// Averaging as a power of two, instead of what follows from `burst`: the average moves by 1/2^wlog of the distance.
        wlog: Option<u32> = None, unit "power of two", range 0_u32, 31_u32, source "Wlog of red.h; tc derives it from burst, and never 0";
        /// Probability at `max`.
        probability: f64 = 0.02, unit "probability", range 0.0, 1.0, source "tc-red(8)";
        /// Rate for the computation of idle times.
        bandwidth: Rate = Rate::from_mbit(10), unit "", range Rate(1000), Rate(10_000_000_000_000), source "tc-red(8)";
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = false, unit "", source "tc-red(8)";
        /// With `ecn`: drop above `max` all the same.
        harddrop: bool = false, unit "", source "tc-red(8)";
        /// With `ecn`: queue what cannot be marked instead of dropping it.
        nodrop: bool = false, unit "", source "tc-red(8)";
        /// Let `probability` follow the average, between 1 % and 50 %.
        adaptive: bool = false, unit "", source "tc-red(8); Adaptive RED section 3";
    } check Params::check
}

/// Probability of 1, as tc gives it: 1/2^32.
const ONE: f64 = 4_294_967_296.0;
/// Largest averaging that tc looks for (`tc_red_eval_ewma`).
const WLOG_MAX: u32 = 31;
/// Entries of the table of idle times (`RED_STAB_SIZE`, red.h).
const STAB_SIZE: usize = 256;
/// tc counts 15.625 ticks of 64 ns in a microsecond.
const TICKS_PER_MICROSECOND: f64 = 15.625;
/// Time between two looks of adaptive RED (`HZ / 2`, sch_red.c).
const ADAPT_INTERVAL: Duration = Duration::from_millis(500);
/// Least probability at `max` of adaptive RED, and its largest step up: 1 % (`MAX_P_MIN`, red.h).
const MAX_P_MIN: u32 = u32::MAX / 100;
/// Largest probability at `max` of adaptive RED (`MAX_P_MAX`, red.h).
const MAX_P_MAX: u32 = u32::MAX / 100 * 50;

impl Params {
    /// Thresholds, bytes.
    fn thresholds(&self) -> (u32, u32) {
        let max = self.max.unwrap_or_else(|| self.min.map_or(self.limit / 4, |min| min.saturating_mul(3)));
        (self.min.unwrap_or(max / 3), max)
    }

    /// Averaging: the least power of two at which `burst` packets take the average from 0 to less than `min` (Floyd and Jacobson
    /// section 4.1; `tc_red_eval_ewma`). `None` if there is none.
    fn averaging(&self) -> Option<u32> {
        if self.wlog.is_some() {
            return self.wlog;
        }
        let (min, max) = self.thresholds();
        let derived = ((2 * u64::from(min) + u64::from(max)) / (3 * u64::from(self.avpkt))) as u32;
        let burst = f64::from(self.burst.unwrap_or(derived));
        let room = burst + 1.0 - f64::from(min) / f64::from(self.avpkt);
        let reaches = |wlog: &u32| {
            let weight = weight(*wlog);
            room <= (1.0 - real::pow(1.0 - weight, burst)) / weight
        };
        if room < 1.0 {
            return None;
        }
        (1..=WLOG_MAX).find(reaches)
    }

    fn check(&self) -> Result<(), ParamError> {
        let (min, max) = self.thresholds();
        if max < min {
            return Err(ParamError::new("max", max, format!("min ({min}) or more")));
        }
        if self.averaging().is_none() {
            let least = u64::from(min).div_ceil(u64::from(self.avpkt));
            let found = self.burst.map_or("unset".to_owned(), |burst| burst.to_string());
            return Err(ParamError::new(
                "burst",
                found,
                format!("{least} or more with min {min} and avpkt {}; or set wlog", self.avpkt),
            ));
        }
        Ok(())
    }
}

/// Decay of the average over idle times, as a table of shifts (Floyd and Jacobson section 11; `tc_red_eval_idle_damping`).
#[derive(Clone, Debug)]
struct IdleTable {
    /// By how many bits the average falls, for an idle time in cells.
    shifts: [u8; STAB_SIZE],
    /// A cell is 2^cell microseconds.
    cell: u32,
}

/// Returns the weight of a packet in the average: exactly 2 to the power of -`wlog`.
fn weight(wlog: u32) -> f64 {
    1.0 / (1_u64 << wlog) as f64
}

impl IdleTable {
    fn new(wlog: u32, avpkt: u32, bandwidth: Rate) -> IdleTable {
        // what one packet does to the average, as bits, spread over the time that it takes; without averaging it is all gone at once
        let ticks = 1e6 * f64::from(avpkt) / (bandwidth.bits() as f64 / 8.0) * TICKS_PER_MICROSECOND;
        let per_tick = match wlog {
            0 => return IdleTable { shifts: [31; STAB_SIZE], cell: 0 },
            _ => -real::ln_1p(-weight(wlog)) / ticks.max(1.0).floor(),
        };
        let longest = 31.0 / per_tick;
        let cell = (0..31).find(|&cell| longest / f64::from(1_u32 << cell) < 512.0).unwrap_or(31);
        let mut shifts = [31; STAB_SIZE];
        for (index, shift) in shifts.iter_mut().enumerate().take(STAB_SIZE - 1) {
            *shift = (((index as u64) << cell) as f64 * per_tick).min(31.0) as u8;
        }
        IdleTable { shifts, cell }
    }

    /// The average after `idle` (`red_calc_qavg_from_idle_time`).
    fn decay(&self, average: u64, idle: Duration) -> u64 {
        let most = (STAB_SIZE as u64 - 1) << self.cell;
        let micros = idle.as_micros().min(most);
        match self.shifts[(micros >> self.cell) as usize] {
            // within the first cells the logarithm is nearly linear
            0 => average - ((average.saturating_mul(micros)) >> self.cell).min(average >> 1),
            shift => average >> shift,
        }
    }
}

/// A queue with its parameters.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    min: u64,
    max: u64,
    wlog: u32,
    idle: IdleTable,
    /// Probability at `max`, 1/2^32.
    max_p: u32,
    /// Largest value of `threshold`: 2^32 / (`max_p` / (`max` - `min`)).
    range: u64,
    fifo: Fifo,
    rng: Rng,
    /// Average queue, bytes times 2^wlog.
    average: u64,
    /// Packets since the last mark while the average is between the thresholds; -1 before the first.
    count: i64,
    /// Value that `count` times the distance from `min` must reach.
    threshold: u64,
    /// When the queue was found empty.
    idle_since: Option<Instant>,
    next_adapt: Instant,
    marked_by_chance: u64,
    marked_by_force: u64,
}

/// Decision on an arriving packet by the average.
#[derive(Clone, Copy, PartialEq)]
enum Action {
    Pass,
    ByChance,
    ByForce,
}

impl State {
    /// An empty queue.
    pub fn new(params: Params, context: &QueueContext) -> State {
        let (min, max) = params.thresholds();
        let wlog = params.averaging().unwrap_or(1);
        let max_p = (params.probability * ONE).min(f64::from(u32::MAX)) as u32;
        let mut state = State {
            min: u64::from(min),
            max: u64::from(max),
            wlog,
            idle: IdleTable::new(wlog, params.avpkt, params.bandwidth),
            max_p,
            range: 0,
            fifo: Fifo::default(),
            rng: Rng::stream(context.seed, NAME, 0),
            average: 0,
            count: -1,
            threshold: 0,
            idle_since: Some(context.now),
            next_adapt: if params.adaptive { context.now + ADAPT_INTERVAL } else { Instant::NEVER },
            marked_by_chance: 0,
            marked_by_force: 0,
            params,
        };
        state.set_range();
        state
    }

    /// Bytes between the thresholds, at least 1 (`qth_delta`).
    fn distance(&self) -> u64 {
        (self.max - self.min).max(1)
    }

    /// Follows `max_p` (`red_set_parms`).
    fn set_range(&mut self) {
        let slope = (u64::from(self.max_p) / self.distance()).max(1);
        self.range = (1_u64 << 32) / slope;
    }

    /// The average with the queue as a packet finds it (`red_calc_qavg`).
    #[inline]
    fn average(&mut self, now: Instant) {
        match self.idle_since.take() {
            Some(since) => self.average = self.idle.decay(self.average, now.saturating_since(since)),
            None => self.average = (self.average + self.fifo.waiting(now).1) - (self.average >> self.wlog),
        }
    }

    /// `red_action`: marks are spread evenly, by comparing the count since the last one with a random number.
    #[inline]
    fn judge(&mut self) -> Action {
        if self.average < self.min << self.wlog {
            self.count = -1;
            return Action::Pass;
        }
        if self.average >= self.max << self.wlog {
            self.count = -1;
            return Action::ByForce;
        }
        self.count += 1;
        if self.count == 0 {
            self.threshold = self.rng.draw_below(self.range);
            return Action::Pass;
        }
        let above = (self.average - (self.min << self.wlog)) >> self.wlog;
        if above.saturating_mul(self.count as u64) < self.threshold {
            return Action::Pass;
        }
        self.count = 0;
        self.threshold = self.rng.draw_below(self.range);
        Action::ByChance
    }

    /// Averages the queue and judges `packet`, which arrives: returns false if it was dropped.
    #[inline(always)]
    fn admit<L: Log>(&mut self, packet: &mut Packet, now: Instant, log: &mut L) -> bool {
        self.average(now);
        let action = self.judge();
        let is_admitted = action == Action::Pass || self.spare(action, packet, now, log);
        if !is_admitted {
            log.on_drop(packet, DropReason::Aqm, DropSite::Arrival, At::time(now));
        }
        is_admitted
    }

    #[inline(always)]
    fn has_room_for(&mut self, packet: &Packet, now: Instant) -> bool {
        self.fifo.waiting(now).1 + u64::from(packet.len) <= u64::from(self.params.limit)
    }

    /// Whether the packet may be queued after all, marked or not.
    #[inline]
    fn spare<L: Log>(&mut self, action: Action, packet: &mut Packet, now: Instant, log: &mut L) -> bool {
        if !self.params.ecn || (action == Action::ByForce && self.params.harddrop) {
            return false;
        }
        if log.set_ce(packet, MarkReason::Aqm, At::time(now)) {
            match action {
                Action::ByForce => self.marked_by_force += 1,
                _ => self.marked_by_chance += 1,
            }
            return true;
        }
        self.params.nodrop
    }
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn changeable(&self) -> &'static [&'static str] {
        &["limit", "min", "max", "probability", "ecn", "harddrop", "nodrop"]
    }

    fn take_params(&mut self, fresh: State, _now: Instant) -> Result<(), ParamError> {
        let State { params, min, max, wlog, idle, max_p, .. } = fresh;
        // the average is kept in units of its weight
        self.average = (self.average >> self.wlog) << wlog;
        (self.params, self.min, self.max, self.wlog, self.idle, self.max_p) = (params, min, max, wlog, idle, max_p);
        self.set_range();
        Ok(())
    }

    #[inline(always)]
    fn enqueue<L: Log>(&mut self, mut packet: Packet, now: Instant, log: &mut L) {
        if self.admit(&mut packet, now, log) {
            let fits = self.has_room_for(&packet, now);
            self.fifo.accept_if(fits, packet, now, log);
        }
    }

    #[inline(always)]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        match self.fifo.pop() {
            Some(packet) => {
                log.on_dequeue(&packet, At::time(now));
                Dequeue::Packet(packet)
            }
            None => {
                self.idle_since = self.idle_since.or(Some(now));
                Dequeue::Empty
            }
        }
    }

    look_at_fifo!(hint);
    foresee_fifo!();

    #[inline(always)]
    fn pass<L: Log>(&mut self, packet: &mut Packet, now: Instant, start: Instant, log: &mut L) -> Verdict {
        if !self.admit(packet, now, log) {
            return Verdict::Dropped;
        }
        let fits = self.has_room_for(packet, now);
        self.fifo.pass_if(fits, packet, now, start, log)
    }

    #[inline(always)]
    fn dequeue_foreseen<L: Log>(&mut self, at: Instant, log: &mut L) -> Option<Dequeue> {
        Some(self.dequeue(at, log))
    }

    fn next_timer(&self) -> Instant {
        self.next_adapt
    }

    /// Adaptive RED: additive increase, multiplicative decrease of the probability, so that the average stays in the middle fifth
    /// between the thresholds (`red_adaptative_algo`).
    fn on_timer<L: Log>(&mut self, now: Instant, _log: &mut L) {
        let scaled = self.idle_since.map_or(self.average, |since| self.idle.decay(self.average, now.saturating_since(since)));
        let average = scaled >> self.wlog;
        let fifth = self.distance() / 5;
        if average > self.min + 3 * fifth && self.max_p <= MAX_P_MAX {
            self.max_p += MAX_P_MIN.min(self.max_p / 4);
        } else if average < self.min + 2 * fifth && self.max_p >= MAX_P_MIN {
            self.max_p = self.max_p / 10 * 9;
        }
        self.set_range();
        self.next_adapt = now + ADAPT_INTERVAL;
    }

    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("average_bytes", (self.average >> self.wlog) as f64);
        tell("count", self.count.max(0) as f64);
        tell("max_p", f64::from(self.max_p) / 4_294_967_296.0);
    }

    fn counters(&self) -> Vec<(String, u64)> {
        vec![("marked_by_chance".into(), self.marked_by_chance), ("marked_by_force".into(), self.marked_by_force)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{context, packet};
    use super::*;
    use crate::packet::Ecn;
    use crate::record::Counters;

    fn state(params: Params) -> (State, Counters) {
        params.check().unwrap();
        (State::new(params, &context(10)), Counters::default())
    }

    fn thresholds(min: u32, max: u32) -> Params {
        Params { min: Some(min), max: Some(max), ..Params::default() }
    }

    #[test]
    fn averaging_as_tc_derives_it() {
        let averaging = |min, burst| Params { burst: Some(burst), avpkt: 1500, ..thresholds(min, 90_000) }.averaging();
        // 41 - 20 = 21: (1 - (15/16)^40) 16 = 14.8, (1 - (31/32)^40) 32 = 23.0
        assert_eq!(averaging(30_000, 40), Some(5));
        // 21 - 20 = 1 <= 2 (1 - 2^-20): the least that tc can do
        assert_eq!(averaging(30_000, 20), Some(1));
        // 20 - 20 = 0 < 1: tc refuses
        assert_eq!(averaging(30_000, 19), None);
        // burst (2 * 33333 + 100000) / 3000 = 55; 56 - 33.3 = 22.7; wlog 4: 15.5, 5: 26.4
        assert_eq!(Params::default().averaging(), Some(5));
    }

    #[test]
    fn errors_say_what_would_do() {
        let error = |params: Params| params.check().unwrap_err().to_string();
        assert_eq!(error(thresholds(30_000, 20_000)), "max: found 20000, allowed: min (30000) or more");
        let small = Params { burst: Some(10), ..thresholds(30_000, 90_000) };
        assert_eq!(error(small), "burst: found 10, allowed: 30 or more with min 30000 and avpkt 1000; or set wlog");
    }

    #[test]
    fn a_step_marks_what_finds_that_many_bytes() {
        let step = Params { wlog: Some(0), ecn: true, ..thresholds(30_000, 30_000) };
        for (bytes, marks) in [(29_999, 0), (30_000, 1)] {
            let (mut state, mut log) = state(step.clone());
            // the queue has been busy
            state.idle_since = None;
            state.fifo.push(Packet { len: 30_000.min(bytes) as u16, ..packet(0, Ecn::Ect0) });
            state.enqueue(packet(1, Ecn::Ect0), Instant::ZERO, &mut log);
            assert_eq!(log.queue.ce_marks, marks, "{bytes}");
        }
    }

    #[test]
    fn the_average_follows_as_linux_scales_it() {
        // wlog 1: average' = average / 2 + queue, twice the average of the field
        let (mut state, mut log) = state(Params { wlog: Some(1), ..thresholds(30_000, 90_000) });
        let mut expected = 0;
        for seq in 0..10 {
            state.enqueue(packet(seq, Ecn::Ect0), Instant::ZERO, &mut log);
            // the first comes to an idle queue: the average of 0 decays
            expected = if seq == 0 { 0 } else { expected - expected / 2 + seq * 1514 };
            assert_eq!(state.average, expected);
        }
    }

    #[test]
    fn chance_marks_are_spread_evenly() {
        // held at 60000 B, halfway: 0.02 / 2 = 0.01. The gap is uniform: 1 + a number up to 2 / 0.02 = 100 ... so that every
        // second of 2/0.02 packets is the mean: X >= threshold / 30000, threshold up to 2^32 / (0.02 * 2^32 / 60000) = 3e6.
        let (mut state, mut log) = state(Params { wlog: Some(0), ecn: true, ..thresholds(30_000, 90_000) });
        (0..40).for_each(|seq| state.fifo.push(Packet { len: 1500, ..packet(seq, Ecn::Ect0) }));
        (state.idle_since, state.average) = (None, 60_000);
        let (mut gaps, mut last) = (Vec::new(), 0);
        for seq in 1..200_000 {
            let before = log.queue.ce_marks;
            state.enqueue(Packet { len: 1500, ..packet(seq, Ecn::Ect0) }, Instant::ZERO, &mut log);
            state.fifo.pop();
            if log.queue.ce_marks > before {
                gaps.push(seq - last);
                last = seq;
            }
        }
        assert_eq!((log.queue.ce_marks, log.queue.drops_aqm), (gaps.len() as u64, 0));
        assert_eq!(state.marked_by_chance, log.queue.ce_marks);
        let mean = gaps[1..].iter().sum::<u64>() as f64 / (gaps.len() - 1) as f64;
        assert!(gaps[1..].iter().all(|gap| (1..=101).contains(gap)));
        // uniform on 1..=100 after the first count
        assert!((mean - 50.5).abs() < 2.0, "{mean}");
    }

    #[test]
    fn what_happens_above_max() {
        for (ecn, harddrop, nodrop, codepoint, verdict) in [
            (false, false, false, Ecn::Ect0, "drop"),
            (true, false, false, Ecn::Ect0, "mark"),
            (true, false, false, Ecn::NotEct, "drop"),
            (true, true, false, Ecn::Ect0, "drop"),
            (true, false, true, Ecn::NotEct, "queue"),
        ] {
            let (mut state, mut log) = state(Params { ecn, harddrop, nodrop, ..thresholds(3000, 9000) });
            state.idle_since = None;
            state.average = 1 << 30;
            state.enqueue(packet(0, codepoint), Instant::ZERO, &mut log);
            let got = match (log.queue.ce_marks, log.queue.drops_aqm, state.packets()) {
                (1, 0, 1) => "mark",
                (0, 1, 0) => "drop",
                (0, 0, 1) => "queue",
                other => panic!("{other:?}"),
            };
            assert_eq!(got, verdict);
        }
    }

    #[test]
    fn idle_times_let_the_average_decay() {
        // 1500 B at 10 Mbit/s are 1200 us = 18750 ticks; wlog 5: -ln(1 - 1/32) / 18750 = 1.693e-6 a tick; 31 of them are 18.3e6,
        // less than 512 cells of 2^16.
        let table = IdleTable::new(5, 1500, Rate::from_mbit(10));
        assert_eq!((table.cell, table.shifts[0], table.shifts[255]), (16, 0, 31));
        // 10 * 65536 * 1.693e-6 = 1.109
        assert_eq!((table.shifts[9], table.shifts[10], table.shifts[20]), (0, 1, 2));
        // half a cell: 1 - 0.5 of it, but never by more than half
        assert_eq!(table.decay(1000, Duration::from_micros(32_768)), 500);
        assert_eq!(table.decay(1000, Duration::from_micros(10 * 65_536)), 500);
        assert_eq!(table.decay(1000, Duration::from_secs(100)), 0);
        // without averaging nothing is left after the least idleness
        assert_eq!(IdleTable::new(0, 1500, Rate::from_mbit(10)).decay(1000, Duration::ZERO), 0);
    }

    #[test]
    fn adaptive_red_steps_by_a_quarter_and_by_a_tenth() {
        let (mut state, mut log) = state(Params { adaptive: true, wlog: Some(0), ..thresholds(30_000, 90_000) });
        state.idle_since = None;
        let share = |queue: &State| f64::from(queue.max_p) / ONE;
        // 0.02: + min(0.01, 0.005)
        state.average = 66_001;
        state.on_timer(Instant::from_millis(500), &mut log);
        assert!((share(&state) - 0.025).abs() < 1e-6);
        // in the middle fifth nothing happens
        state.average = 60_000;
        state.on_timer(Instant::from_secs(1), &mut log);
        assert!((share(&state) - 0.025).abs() < 1e-6);
        state.average = 53_999;
        state.on_timer(Instant::from_millis(1500), &mut log);
        assert!((share(&state) - 0.0225).abs() < 1e-6);
    }
}
