//! PIE: drops or marks at enqueue with a probability that a PI controller sets, from the delay, every `tupdate`.
//!
//! Specification: RFC 8033, and what Linux made of it (`include/net/pie.h`, `net/sched/sch_pie.c`), in its integers: delays in
//! ticks of 64 ns (`PSCHED_SHIFT`), probabilities in 1/2^56 ("linux", since 5.5) or 1/2^32 ("linux-4"). The versions differ so:
//!
//! | | linux | linux-4 | rfc8033 |
//! |---|---|---|---|
//! | target, tupdate | 15 ms, 15 ms | 20 ms, 30 ms | 15 ms, 15 ms |
//! | delay | sojourn of the last departure, or backlog / departure rate | backlog / departure rate | as linux |
//! | steps of the gains | 0.0001 % ... 10 % | 1 %, 10 % | 0.0001 % ... 10 % |
//! | coin | from 0.85 expected drops on, certain at 8.5 | plain | as linux |
//! | burst allowance | 150 ms of dequeuing | 100 ms of dequeuing | 150 ms of updates |
//! | delay above 250 ms | +2 % | +2 % | |
//! | idle | p falls by 1/64 | p * 98/100 | p * 0.98 |
//! | largest p | none (64 bits of 1/2^56) | 1 | 1 |
//!
//! Linux's timer wheel fires after `tupdate` and a millisecond (16 ms measured for 15), later if `tupdate` is 63 ms or more; so do its versions
//! here (`units::timer_wheel`).
//!
//! Deviations: the queue has been idle for long when the run begins, so that the first update comes at a random moment within `tupdate`
//! and not, as after the creation of a Linux qdisc, after 500 ms. `rfc8033` leaves out the optional inactive state (section 5.3); its gains are those of
//! `alpha` and `beta`, the RFC's by default. Linux multiplies in `bytemode` by size / MTU for sizes up to a full frame only; so do all
//! versions here.
//!
//! [`Pie`] (constants) and [`PieVars`] (state of one queue) are apart from [`State`], so that FQ-PIE shares them.

use super::departure_rate::{Departures, Estimator, RATE_SHIFT};
use super::fifo::Fifo;
use super::{Aqm, Dequeue, QueueContext};
use crate::log::{At, DropReason, DropSite, Log, MarkReason};
use crate::packet::Packet;
use crate::param::ParamError;
use crate::rng::Rng;
use crate::units::{timer_wheel, Duration, Instant};

/// Name in experiment files.
pub const NAME: &str = "pie";
/// One line.
pub const TITLE: &str = "proportional integral controller enhanced: random drops or marks that hold a target delay";
/// Specification and deviations.
pub const SOURCE: &str = "RFC 8033; Linux 6.18 pie.h, sch_pie.c and sch_pie.c of 4.x; first update within tupdate";

crate::versions! {
    /// Whose PIE.
    pub enum PieVersion sets Constants = { LINUX } {
        /// Linux since 5.5.
        Linux = "linux" {},
        /// Linux 3.14 to 4.20.
        Linux4 = "linux-4" {
            target: Duration::from_millis(20),
            tupdate: Duration::from_millis(30),
            percent: (MAX_PROB_4 as u64 / 100) << SHIFT_4,
            burst: MAX_BURST_4,
            always_estimates: true,
        },
        /// RFC 8033, real-valued.
        Rfc8033 = "rfc8033" { tick_shift: 0, on_timer_wheel: false, weight_shift: 2 },
    }
}

/// Values that a version sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constants {
    /// If it is not set.
    target: Duration,
    /// If it is not set.
    tupdate: Duration,
    /// log2 of a tick, ns.
    tick_shift: u32,
    /// Whether updates wait for Linux's timer wheel.
    on_timer_wheel: bool,
    /// A probability of 1 %, in [`ONE`]s.
    percent: u64,
    /// Burst allowance.
    burst: Duration,
    /// Whether delays never come from time stamps.
    always_estimates: bool,
    /// Weight of the last departure rate, -log2: 1/8 in Linux; DQ_THRESHOLD / 2^16 = 1/4 in the RFC.
    weight_shift: u32,
}

/// `pie_params_init` and `pie_vars_init`, pie.h.
const LINUX: Constants = Constants {
    target: Duration::from_millis(15),
    tupdate: Duration::from_millis(15),
    tick_shift: TICK_SHIFT,
    on_timer_wheel: true,
    percent: MAX_PROB / 100,
    burst: MAX_BURST,
    always_estimates: false,
    weight_shift: 3,
};

crate::params! {
    /// Parameters of PIE.
    pub struct Params {
        /// Whose PIE.
        version: PieVersion = PieVersion::Linux, unit "", source "sch_pie.c of Linux 6.18";
        /// Packets that fit; tail drop beyond.
        limit: u32 = 1000, unit "packets", range 0_u32, 100_000_000_u32, source "tc-pie(8)";
        /// Delay to hold; unset: 15 ms, or 20 ms with linux-4.
        target: Option<Duration> = None, unit "", range Duration::from_micros(1), Duration::from_secs(10),
            source "RFC 8033 section 4.2 QDELAY_REF; pie_params_init, pie.h; Linux 4: 20 ms";
        /// Time between two updates of the probability; unset: 15 ms, or 30 ms with linux-4.
        tupdate: Option<Duration> = None, unit "", range Duration::from_millis(1), Duration::from_secs(10),
            source "RFC 8033 section 4.2 T_UPDATE; pie_params_init, pie.h; Linux 4: 30 ms";
        /// Gain on the distance from target.
        alpha: u32 = 2, unit "1/16 Hz", range 0_u32, 32_u32, source "RFC 8033 section 4.2: 0.125; tc-pie(8)";
        /// Gain on the change of delay.
        beta: u32 = 20, unit "1/16 Hz", range 0_u32, 32_u32, source "RFC 8033 section 4.2: 1.25; tc-pie(8)";
        /// Mark ECN-capable packets instead of dropping them, as long as the probability is at most `ecn_prob`.
        ecn: bool = false, unit "", source "tc-pie(8): noecn is the default";
        /// Largest probability at which ECN-capable packets are marked; above, they are dropped.
        ecn_prob: u32 = 10, unit "percent", range 0_u32, 100_u32, source "RFC 8033 section 5.1 mark_ecnth; MAX_PROB / 10, sch_pie.c";
        /// Probability in proportion to the packet's size.
        bytemode: bool = false, unit "", source "tc-pie(8): nobytemode is the default";
        /// Delay from backlog and departure rate instead of time stamps; linux-4 knows nothing else.
        dq_rate_estimator: bool = false, unit "", source "tc-pie(8): no_dq_rate_estimator is the default; RFC 8033 section 5.2";
    }
}

/// A probability of 1: `MAX_PROB` of Linux (`pie.h`) plus one; every version keeps its probability in this unit.
pub const ONE: u64 = 1 << 56;
/// `MAX_PROB` as Linux has it.
const MAX_PROB: u64 = ONE - 1;
/// `MAX_PROB` of Linux 4.
const MAX_PROB_4: u32 = u32::MAX;
/// From 1/2^32 to 1/2^56.
const SHIFT_4: u32 = 24;
/// Ticks of Linux's packet scheduler are 64 ns (`PSCHED_SHIFT`, pkt_sched.h).
const TICK_SHIFT: u32 = 6;
/// Ticks per second (`PSCHED_TICKS_PER_SEC`).
const TICKS_PER_SEC: u64 = 1_000_000_000 >> TICK_SHIFT;
/// Least number of bytes over which the departure rate is measured (`QUEUE_THRESHOLD`, pie.h; RFC 8033 section 5.2 DQ_THRESHOLD).
const DQ_THRESHOLD: u64 = 16_384;
/// Burst allowance (RFC 8033 section 4.2 MAX_BURST; `pie_vars_init`, pie.h).
const MAX_BURST: Duration = Duration::from_millis(150);
/// Burst allowance of Linux 4 (`pie_vars_init`, sch_pie.c).
const MAX_BURST_4: Duration = Duration::from_millis(100);
/// Above this delay the probability rises faster (`pie_calculate_probability`).
const HIGH_DELAY: Duration = Duration::from_millis(250);

/// Constants of PIE.
#[derive(Clone, Debug)]
pub struct Pie {
    version: PieVersion,
    tick_shift: u32,
    /// In ticks.
    target: u64,
    alpha: u32,
    beta: u32,
    /// Time between two updates.
    pub tupdate: Duration,
    /// Burst allowance, in ticks.
    burst: u64,
    ecn: bool,
    /// Largest probability at which packets are marked, in [`ONE`]s.
    ecn_limit: u64,
    bytemode: bool,
    /// A full frame: Linux `psched_mtu`, bytes.
    full_frame: u16,
    /// How the departure rate is measured; `None`: delays come from time stamps.
    estimator: Option<Estimator>,
}

/// State of PIE for one queue; times in ticks.
#[derive(Clone, Debug)]
pub struct PieVars {
    /// Drop probability, in [`ONE`]s.
    pub prob: u64,
    /// Drops expected since the last one, in [`ONE`]s.
    accu_prob: u64,
    qdelay: u64,
    qdelay_old: u64,
    /// Remaining burst allowance.
    burst_time: u64,
    /// Last departure.
    dq_tstamp: Option<u64>,
    departures: Departures,
}

/// From the start of a queue to its first update: `HZ / 2` in `pie_init` of sch_pie.c.
const FIRST_UPDATE: Duration = Duration::from_millis(500);

impl Pie {
    /// PIE with `params` on a device whose full frames have this number of bytes.
    pub fn new(params: &Params, full_frame: u16) -> Pie {
        let set = params.version.sets();
        let tupdate = params.tupdate.unwrap_or(set.tupdate);
        Pie {
            version: params.version,
            tick_shift: set.tick_shift,
            target: params.target.unwrap_or(set.target).0 >> set.tick_shift,
            alpha: params.alpha,
            beta: params.beta,
            tupdate: if set.on_timer_wheel { timer_wheel(Instant::ZERO, tupdate) - Instant::ZERO } else { tupdate },
            burst: set.burst.0 >> set.tick_shift,
            ecn: params.ecn,
            ecn_limit: set.percent * u64::from(params.ecn_prob),
            bytemode: params.bytemode,
            full_frame,
            estimator: (params.dq_rate_estimator || set.always_estimates)
                .then_some(Estimator { threshold: DQ_THRESHOLD, weight_shift: set.weight_shift }),
        }
    }

    /// Time of the first update of a queue that is built for `context`.
    pub fn first_update(&self, context: &QueueContext) -> Instant {
        let first = if self.version == PieVersion::Rfc8033 { self.tupdate } else { FIRST_UPDATE };
        context.first_tick("pie phase", self.tupdate, first)
    }

    /// State of an idle queue.
    pub fn vars(&self) -> PieVars {
        PieVars {
            prob: 0,
            accu_prob: 0,
            qdelay: 0,
            qdelay_old: 0,
            burst_time: self.burst,
            dq_tstamp: None,
            departures: Departures::default(),
        }
    }

    /// Whether `packet`, arriving at `backlog` bytes, may join: with its mark, if it gets one. Otherwise it is to be dropped.
    #[inline]
    pub fn admit<L: Log>(
        &self,
        vars: &mut PieVars,
        packet: &mut Packet,
        backlog: u64,
        rng: &mut Rng,
        at: At,
        log: &mut L,
    ) -> bool {
        if !self.drop_early(vars, packet.len, backlog, rng) {
            return true;
        }
        let marked = self.ecn && vars.prob <= self.ecn_limit && log.set_ce(packet, MarkReason::Aqm, at);
        if !marked {
            vars.accu_prob = 0;
        }
        marked
    }

    /// A packet was dropped because the queue is full.
    #[inline]
    pub fn overflow(&self, vars: &mut PieVars) {
        vars.accu_prob = 0;
    }

    /// Linux `pie_drop_early`; RFC 8033 section 4.1 and appendix A.
    #[inline]
    fn drop_early(&self, vars: &mut PieVars, len: u16, backlog: u64, rng: &mut Rng) -> bool {
        let rfc = self.version == PieVersion::Rfc8033;
        let delay = if rfc { vars.qdelay_old } else { vars.qdelay };
        let enough = match rfc {
            true => backlog > 2 * u64::from(self.full_frame),
            false => backlog >= 2 * u64::from(self.full_frame),
        };
        if vars.burst_time > 0 || (delay < self.target / 2 && vars.prob < ONE / 5) || !enough {
            return false;
        }
        let mut prob = vars.prob;
        if self.bytemode && len <= self.full_frame {
            prob = prob / u64::from(self.full_frame) * u64::from(len);
        }
        if self.version == PieVersion::Linux4 {
            return u64::from(rng.next_u32()) << SHIFT_4 < prob;
        }
        // RFC 8033 section 5.4: no two drops right after each other, none too late
        vars.accu_prob = if prob == 0 { 0 } else { vars.accu_prob.saturating_add(prob) };
        if vars.accu_prob < MAX_PROB / 100 * 85 {
            return false;
        }
        let hit = vars.accu_prob >= MAX_PROB / 2 * 17 || rng.next_u64() >> 8 < prob;
        if hit && (rfc || vars.accu_prob < MAX_PROB / 2 * 17) {
            vars.accu_prob = 0;
        }
        hit
    }

    /// `packet` departs and leaves `backlog` bytes behind. Linux `pie_process_dequeue`; RFC 8033 section 5.2.
    #[inline]
    pub fn on_departure(&self, vars: &mut PieVars, packet: &Packet, backlog: u64, now: Instant) {
        let now = now.0 >> self.tick_shift;
        let mut passed = 0;
        if let Some(estimator) = &self.estimator {
            match vars.departures.on_departure(estimator, packet.len, backlog, now) {
                Some(measured) => passed = measured,
                None => return,
            }
        } else {
            vars.qdelay = if backlog == 0 { 0 } else { now - (packet.enqueue_time.0 >> self.tick_shift) };
            if let Some(before) = vars.dq_tstamp.replace(now) {
                passed = now - before;
            }
        }
        if self.version != PieVersion::Rfc8033 {
            vars.burst_time = vars.burst_time.saturating_sub(passed);
        }
    }

    /// The time of an update has come, at `backlog` bytes. Linux `pie_calculate_probability`; RFC 8033 section 4.2.
    pub fn update(&self, vars: &mut PieVars, backlog: u64) {
        let before = if self.estimator.is_some() { vars.qdelay } else { vars.qdelay_old };
        if self.estimator.is_some() {
            vars.qdelay_old = vars.qdelay;
            vars.qdelay = (backlog << RATE_SHIFT).checked_div(vars.departures.rate).unwrap_or(0);
        }
        // a delay of 0 with packets queued only says that there was nothing to measure
        let known = vars.qdelay > 0 || backlog == 0;
        match self.version {
            PieVersion::Linux => self.update_linux(vars, before, known),
            PieVersion::Linux4 => self.update_linux_4(vars, before, known),
            PieVersion::Rfc8033 => return self.update_rfc(vars, before),
        }
        let calm = vars.qdelay < self.target / 2 && vars.qdelay_old < self.target / 2;
        if calm && vars.prob == 0 && (self.estimator.is_none() || vars.departures.rate > 0) {
            *vars = PieVars { qdelay: vars.qdelay, qdelay_old: vars.qdelay_old, ..self.vars() };
        }
        if self.estimator.is_none() {
            vars.qdelay_old = vars.qdelay;
        }
    }

    fn update_linux(&self, vars: &mut PieVars, before: u64, known: bool) {
        let mut gains = [self.alpha, self.beta].map(|gain| (u64::from(gain) * (MAX_PROB / TICKS_PER_SEC)) >> 4);
        if vars.prob < MAX_PROB / 10 {
            gains = gains.map(|gain| gain >> 1);
            let mut power = 100;
            while vars.prob < MAX_PROB / power && power <= 1_000_000 {
                gains = gains.map(|gain| gain >> 2);
                power *= 10;
            }
        }
        // modulo 2^64, read as signed, as in Linux
        let [alpha, beta] = gains;
        let from_target = vars.qdelay.wrapping_sub(self.target);
        let change = vars.qdelay.wrapping_sub(before);
        let mut delta = alpha.wrapping_mul(from_target).wrapping_add(beta.wrapping_mul(change)) as i64;
        let two_percent = (MAX_PROB / 50) as i64;
        if delta > two_percent && vars.prob >= MAX_PROB / 10 {
            delta = (MAX_PROB / 100 * 2) as i64;
        }
        if vars.qdelay > HIGH_DELAY.0 >> self.tick_shift {
            delta = delta.wrapping_add(two_percent);
        }
        // Linux detects it by the wrap of the 64 bits, so that 1 is no limit
        vars.prob = match vars.prob.checked_add_signed(delta) {
            Some(prob) => prob,
            None if delta > 0 => MAX_PROB,
            None => 0,
        };
        if vars.qdelay == 0 && before == 0 && known {
            vars.prob -= vars.prob / 64;
        }
    }

    fn update_linux_4(&self, vars: &mut PieVars, before: u64, mut known: bool) {
        let old = (vars.prob >> SHIFT_4) as u32;
        let shift = match old {
            _ if old < MAX_PROB_4 / 100 => 7,
            _ if old < MAX_PROB_4 / 10 => 5,
            _ => 4,
        };
        let [alpha, beta] = [self.alpha, self.beta].map(|gain| u64::from(gain * (MAX_PROB_4 / TICKS_PER_SEC as u32)) >> shift);
        // 32 bits of a sum modulo 2^64, read as signed
        let mut delta = alpha.wrapping_mul(vars.qdelay.wrapping_sub(self.target)) as i32;
        delta = delta.wrapping_add(beta.wrapping_mul(vars.qdelay.wrapping_sub(before)) as i32);
        let two_percent = (MAX_PROB_4 / 50) as i32;
        if delta > two_percent && old >= MAX_PROB_4 / 10 {
            delta = (MAX_PROB_4 / 100 * 2) as i32;
        }
        if vars.qdelay > HIGH_DELAY.0 >> self.tick_shift {
            delta = delta.wrapping_add(two_percent);
        }
        let mut prob = match old.checked_add_signed(delta) {
            Some(prob) => prob,
            None if delta > 0 => {
                known = false;
                MAX_PROB_4
            }
            None => 0,
        };
        if vars.qdelay == 0 && before == 0 && known {
            prob = (u64::from(prob) * 98 / 100) as u32;
        }
        vars.prob = u64::from(prob) << SHIFT_4;
    }

    fn update_rfc(&self, vars: &mut PieVars, before: u64) {
        let seconds = |ticks: u64| ticks as f64 / 1e9;
        let delay = seconds(vars.qdelay);
        let mut prob = vars.prob as f64 / ONE as f64;
        let mut delta = f64::from(self.alpha) / 16.0 * (delay - seconds(self.target))
            + f64::from(self.beta) / 16.0 * (delay - seconds(before));
        delta /= match prob {
            p if p < 0.000_001 => 2048.0,
            p if p < 0.000_01 => 512.0,
            p if p < 0.000_1 => 128.0,
            p if p < 0.001 => 32.0,
            p if p < 0.01 => 8.0,
            p if p < 0.1 => 2.0,
            _ => 1.0,
        };
        if prob >= 0.1 {
            delta = delta.min(0.02);
        }
        prob += delta;
        if vars.qdelay == 0 && before == 0 {
            prob *= 0.98;
        }
        prob = prob.clamp(0.0, 1.0);
        vars.prob = (prob * ONE as f64) as u64;
        vars.burst_time = vars.burst_time.saturating_sub(self.tupdate.0);
        if prob == 0.0 && vars.qdelay < self.target / 2 && before < self.target / 2 {
            vars.burst_time = MAX_BURST.0;
        }
        vars.qdelay_old = vars.qdelay;
    }
}

/// A queue with its parameters.
#[derive(Clone, Debug)]
pub struct State {
    limit: usize,
    pie: Pie,
    vars: PieVars,
    fifo: Fifo,
    rng: Rng,
    next_update: Instant,
}

impl State {
    /// An empty queue.
    pub fn new(params: Params, context: &QueueContext) -> State {
        let pie = Pie::new(&params, context.full_frame);
        State {
            limit: params.limit as usize,
            vars: pie.vars(),
            fifo: Fifo::default(),
            rng: Rng::stream(context.seed, NAME, 0),
            next_update: pie.first_update(context),
            pie,
        }
    }
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn changeable(&self) -> &'static [&'static str] {
        &["limit", "target", "tupdate", "alpha", "beta", "ecn", "ecn_prob"]
    }

    fn take_params(&mut self, fresh: State, _now: Instant) -> Result<(), ParamError> {
        (self.limit, self.pie) = (fresh.limit, fresh.pie);
        Ok(())
    }

    #[inline(always)]
    fn enqueue<L: Log>(&mut self, mut packet: Packet, now: Instant, log: &mut L) {
        let at = At::time(now);
        if self.fifo.len() >= self.limit {
            self.pie.overflow(&mut self.vars);
            log.on_drop(&packet, DropReason::Overflow, DropSite::Arrival, at);
            return;
        }
        if !self.pie.admit(&mut self.vars, &mut packet, self.fifo.bytes(), &mut self.rng, at, log) {
            log.on_drop(&packet, DropReason::Aqm, DropSite::Arrival, at);
            return;
        }
        self.fifo.accept(packet, now, log);
    }

    #[inline(always)]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        let Some(packet) = self.fifo.pop() else { return Dequeue::Empty };
        self.pie.on_departure(&mut self.vars, &packet, self.fifo.bytes(), now);
        log.on_dequeue(&packet, At::time(now));
        Dequeue::Packet(packet)
    }

    look_at_fifo!(hint);

    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("p", self.vars.prob as f64 / ONE as f64);
        let ms = |ticks: u64| (ticks << self.pie.tick_shift) as f64 / 1e6;
        tell("qdelay_ms", ms(self.vars.qdelay));
        tell("burst_ms", ms(self.vars.burst_time));
    }

    fn next_timer(&self) -> Instant {
        self.next_update
    }

    fn on_timer<L: Log>(&mut self, now: Instant, _log: &mut L) {
        self.pie.update(&mut self.vars, self.fifo.bytes());
        self.next_update = now + self.pie.tupdate;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{context, packet};
    use super::*;
    use crate::packet::Ecn;
    use crate::record::Counters;

    fn pie(version: PieVersion) -> Pie {
        Pie::new(&Params { version, ecn: true, ..Params::default() }, 1514)
    }

    #[test]
    fn updates_come_as_the_timer_wheel_has_them_the_first_within_a_period() {
        // 15 and 30 ms and a tick; the RFC's 15 ms are its own
        for (version, ms) in [(PieVersion::Linux, 16), (PieVersion::Linux4, 31), (PieVersion::Rfc8033, 15)] {
            let pie = pie(version);
            assert_eq!(pie.tupdate, Duration::from_millis(ms));
            let firsts: Vec<Instant> = (0..100).map(|seed| pie.first_update(&QueueContext { seed, ..context(10) })).collect();
            assert!(firsts.iter().all(|&first| first > Instant::ZERO && first <= Instant::ZERO + pie.tupdate));
            // 100 uniform moments: the least and the greatest are within a tenth of the ends, but for 0.9^100 = 3e-5
            assert!(
                firsts.iter().min().unwrap().0 < pie.tupdate.0 / 10 && firsts.iter().max().unwrap().0 > pie.tupdate.0 / 10 * 9
            );
        }
    }

    fn share(prob: u64) -> f64 {
        prob as f64 / ONE as f64
    }

    /// One update with time stamps: probability before, delay and old delay in ms; the probability after.
    fn update_prob(pie: &Pie, prob: f64, delay: u64, old: u64) -> f64 {
        let ticks = |ms| Instant::from_millis(ms).0 >> pie.tick_shift;
        let mut vars = PieVars { prob: (prob * ONE as f64) as u64, qdelay: ticks(delay), qdelay_old: ticks(old), ..pie.vars() };
        if pie.estimator.is_some() {
            // backlog that takes `delay` at one byte a tick
            vars.qdelay = ticks(old);
            vars.departures.rate = 1 << RATE_SHIFT;
        }
        pie.update(&mut vars, ticks(delay));
        share(vars.prob)
    }

    #[test]
    fn updates_as_linux_computes_them() {
        // alpha 0.125, beta 1.25: (0.125 (q - 0.015) + 1.25 (q - q_old)) / divisor, cap of 2 % from 10 % on, 2 % more above 250 ms
        for (prob, q, old, expected) in [
            (0.0, 20, 0, 1.2512e-5),
            (0.0, 20, 20, 3.052e-7),
            (1.0e-4, 20, 20, 1.19531e-4),
            (1.0e-3, 20, 20, 1.078125e-3),
            (1.0e-2, 20, 20, 1.03125e-2),
            (0.1000001, 20, 20, 0.1006251),
            (0.1000001, 30, 0, 0.1200001),
            (0.1000001, 300, 0, 0.1400001),
            (0.05, 0, 0, 0.0482959),
        ] {
            let got = update_prob(&pie(PieVersion::Linux), prob, q, old);
            assert!((got / expected - 1.0).abs() < 2e-4, "{prob} {q} {old}: {got}, not {expected}");
        }
    }

    #[test]
    fn updates_as_the_rfc_defines_them() {
        for (prob, q, old, expected) in [
            // (0.125 * 0.005 + 1.25 * 0.02) / 2048
            (0.0, 20, 0, 1.251_221e-5),
            (1.001e-4, 20, 20, 1.196_312_5e-4),
            (0.1, 20, 20, 0.100_625),
            (0.1, 30, 0, 0.12),
            // no term for long delays
            (0.1, 300, 0, 0.12),
            // (0.05 - 0.125 * 0.015 / 2) * 0.98
            (0.05, 0, 0, 0.048_081_25),
            (0.999, 300, 0, 1.0),
        ] {
            let got = update_prob(&pie(PieVersion::Rfc8033), prob, q, old);
            assert!((got / expected - 1.0).abs() < 1e-6, "{prob} {q} {old}: {got}, not {expected}");
        }
    }

    #[test]
    fn updates_as_linux_4_computes_them() {
        // MAX_PROB / ticks a second = 274; alpha 2 * 274 >> 7, 5, 4 = 4, 17, 34; beta 20 * 274 >> 7, 5, 4 = 42, 171, 342.
        // A millisecond is 15625 ticks; target 20 ms.
        let step = |alpha: f64, ms: f64, beta: f64, change: f64| (alpha * ms + beta * change) * 15625.0 / 4294967296.0;
        for (prob, q, old, expected) in [
            (0.0, 30, 20, step(4.0, 10.0, 42.0, 10.0)),
            (0.02, 30, 30, 0.02 + step(17.0, 10.0, 171.0, 0.0)),
            (0.2, 25, 20, 0.2 + step(34.0, 5.0, 342.0, 5.0)),
            (0.2, 100, 0, 0.22),
            (0.2, 300, 300, 0.24),
            (0.0005, 10, 20, 0.0),
            (0.05, 0, 0, (0.05 - step(17.0, 20.0, 0.0, 0.0)) * 0.98),
        ] {
            let got = update_prob(&pie(PieVersion::Linux4), prob, q, old);
            assert!((got - expected).abs() < 1e-6, "{prob} {q} {old}: {got}, not {expected}");
        }
    }

    #[test]
    fn a_constant_delay_of_20_ms_reaches_ten_percent_in_seven_seconds() {
        let pie = pie(PieVersion::Linux);
        let mut vars = PieVars { qdelay: Duration::from_millis(20).0 >> TICK_SHIFT, ..pie.vars() };
        let mut reached = Vec::new();
        for period in 1..=500 {
            pie.update(&mut vars, 10_000);
            let limit = [0.001, 0.01, 0.1][reached.len().min(2)];
            if reached.len() < 3 && share(vars.prob) >= limit {
                reached.push(period);
            }
        }
        assert_eq!(reached, [66, 181, 469]);
    }

    #[test]
    fn the_probability_of_linux_has_no_upper_limit_and_that_of_the_rfc_has() {
        let grow = |version| {
            let pie = pie(version);
            let mut vars = PieVars { qdelay: Duration::from_secs(1).0 >> pie.tick_shift, ..pie.vars() };
            (0..200).for_each(|_| pie.update(&mut vars, 10_000));
            share(vars.prob)
        };
        // 2 % and 2 % for long delays, every update
        assert!(grow(PieVersion::Linux) > 7.0);
        assert_eq!(grow(PieVersion::Rfc8033), 1.0);
    }

    /// A queue with probability `prob`, past its burst allowance, with a delay of 20 ms.
    fn busy(params: Params, prob: f64) -> (State, Counters) {
        let mut state = State::new(params, &context(10));
        let delay = Instant::from_millis(20).0 >> state.pie.tick_shift;
        state.vars =
            PieVars { prob: (prob * ONE as f64) as u64, qdelay: delay, qdelay_old: delay, burst_time: 0, ..state.pie.vars() };
        // three packets without a decision
        (0..3).for_each(|seq| state.fifo.push(packet(seq, Ecn::Ect0)));
        (state, Counters::default())
    }

    #[test]
    fn drops_are_spread_between_085_and_85_expected_ones() {
        // p = 0.01: no drop among the first 84 packets, certainly one among the next 766
        let (mut state, mut log) = busy(Params::default(), 0.01);
        let (mut last, mut gaps) = (0, Vec::new());
        for seq in 1..=200_000 {
            let before = log.queue.drops_aqm;
            state.enqueue(packet(seq, Ecn::NotEct), Instant::ZERO, &mut log);
            if log.queue.drops_aqm > before {
                gaps.push(seq - last);
                last = seq;
            } else {
                state.fifo.pop();
            }
        }
        assert!(gaps.iter().all(|gap| (85..=851).contains(gap)), "{gaps:?}");
        // 84 packets, then geometric with mean 100
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((mean - 184.0).abs() < 10.0, "{mean}");
    }

    #[test]
    fn coins_of_linux_4_are_plain() {
        let (mut state, mut log) = busy(Params { version: PieVersion::Linux4, ..Params::default() }, 0.01);
        for seq in 0..200_000 {
            state.enqueue(packet(seq, Ecn::NotEct), Instant::ZERO, &mut log);
            if state.packets() > 3 {
                state.fifo.pop();
            }
        }
        // 2000 expected, standard deviation 44
        assert!((1850..2150).contains(&log.queue.drops_aqm), "{}", log.queue.drops_aqm);
    }

    #[test]
    fn ecn_marks_up_to_ten_percent_and_drops_above() {
        for (prob, ecn, marks) in
            [(0.0999, Ecn::Ect0, true), (0.1001, Ecn::Ect0, false), (0.0999, Ecn::NotEct, false), (0.0999, Ecn::Ce, true)]
        {
            let (mut state, mut log) = busy(Params { ecn: true, ..Params::default() }, prob);
            state.vars.accu_prob = MAX_PROB / 2 * 17;
            state.enqueue(packet(9, ecn), Instant::ZERO, &mut log);
            assert_eq!((log.queue.ce_marks, log.queue.drops_aqm), (u64::from(marks), u64::from(!marks)), "{prob} {ecn:?}");
        }
    }

    #[test]
    fn what_is_never_dropped() {
        let certain = |change: &dyn Fn(&mut State)| {
            let (mut state, mut log) = busy(Params::default(), 0.15);
            state.vars.accu_prob = MAX_PROB / 2 * 17;
            change(&mut state);
            state.enqueue(packet(9, Ecn::NotEct), Instant::ZERO, &mut log);
            log.queue.drops_aqm == 1
        };
        assert!(certain(&|_| {}));
        assert!(!certain(&|state| state.vars.burst_time = 1), "burst allowance");
        // less than 7.5 ms and less than 20 %
        assert!(!certain(&|state| state.vars.qdelay = 117_186), "half of the target");
        assert!(certain(&|state| state.vars.qdelay = 117_187));
        assert!(certain(&|state| {
            state.vars.qdelay = 0;
            state.vars.prob = ONE / 5;
        }));
        // 3028 B are needed
        assert!(
            !certain(&|state| {
                let _ = state.fifo.pop().and_then(|_| state.fifo.pop());
            }),
            "two packets"
        );
        assert!(certain(&|state| {
            let _ = state.fifo.pop();
        }));
    }

    #[test]
    fn the_burst_allowance_is_used_up_by_dequeuing_and_comes_back_when_idle() {
        let (mut state, mut log) = busy(Params::default(), 0.0);
        state.vars = state.pie.vars();
        for seq in 0..20 {
            state.enqueue(packet(seq, Ecn::Ect0), Instant::ZERO, &mut log);
        }
        let left = |queue: &State| queue.vars.burst_time << TICK_SHIFT;
        let _ = state.dequeue(Instant::from_millis(10), &mut log);
        assert_eq!(left(&state), 150_000_000);
        let _ = state.dequeue(Instant::from_millis(50), &mut log);
        assert_eq!(left(&state), 110_000_000);
        assert_eq!(state.vars.qdelay << TICK_SHIFT, 50_000_000);
        // an update with a long delay leaves it alone; two with none give it back once the probability is 0
        state.on_timer(Instant::from_millis(60), &mut log);
        assert_eq!(left(&state), 110_000_000);
        while matches!(state.dequeue(Instant::from_millis(61), &mut log), Dequeue::Packet(_)) {}
        assert_eq!(state.vars.qdelay, 0);
        for update in 0..3000 {
            state.on_timer(Instant::from_millis(75 + 15 * update), &mut log);
        }
        assert_eq!(left(&state), 150_000_000);
    }

    #[test]
    fn the_departure_rate_is_measured_over_16_kb() {
        let params = Params { dq_rate_estimator: true, ..Params::default() };
        let mut state = State::new(params, &context(10));
        let mut log = Counters::default();
        (0..40).for_each(|seq| state.enqueue(packet(seq, Ecn::Ect0), Instant::ZERO, &mut log));
        // one frame every 1.2112 ms = 18925 ticks
        for n in 1..=11 {
            assert_eq!(state.vars.departures.rate, 0);
            let _ = state.dequeue(Instant(1_211_200 * n), &mut log);
        }
        // begins with the first departure, 11 * 1514 = 16654 >= 16384 B in ten gaps of 18925 ticks: 16654 * 256 / 189250
        assert_eq!(state.vars.departures.rate, 22);
        state.on_timer(Instant::from_millis(15), &mut log);
        // 29 * 1514 * 256 / 22 ticks of 64 ns
        assert_eq!(state.vars.qdelay, 29 * 1514 * 256 / 22);
    }
}
