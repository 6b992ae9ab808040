//! CoDel: drops or marks at dequeue once the sojourn time has stayed above `target` for an `interval`.
//!
//! Specification: RFC 8289 as Linux computes it (`include/net/codel_impl.h`, `net/sched/sch_codel.c` of 6.18): a clock of
//! 1024-ns ticks, 1/sqrt(count) in 16 bits with one Newton step for every change of count, at most one mark for a packet
//! that leaves. `control_law = "rfc8289"` takes the RFC's pseudocode (section 5) instead: nanoseconds, the exact
//! square root, and `now >= first_above_time` where Linux has `>`.
//!
//! Deviations: ticks are 64 bits wide, so that states older than 36 minutes do not wrap; a packet that both the control law
//! and `ce_threshold` mark is reported once. The RFC leaves ECN to the implementation: marks are scheduled as in Linux.
//!
//! [`Codel`] (constants) and [`CodelVars`] (state of one queue) are apart from [`State`], so that disciplines that run CoDel on
//! many queues share them.

use super::fifo::Fifo;
use super::{Aqm, Dequeue, QueueContext, Verdict};
use crate::hint::seldom;
use crate::log::{At, DropReason, DropSite, Log, MarkReason};
use crate::packet::{Ecn, Packet};
use crate::param::ParamError;
use crate::units::{Duration, Instant};

/// Name in experiment files.
pub const NAME: &str = "codel";
/// One line.
pub const TITLE: &str = "controlled delay: one queue";
/// Specification and deviations.
pub const SOURCE: &str = "RFC 8289 as in Linux 6.18 codel_impl.h, sch_codel.c; or the RFC's pseudocode; 64-bit clock";

crate::choice! {
    /// How 1/sqrt(count) and time are computed.
    pub enum ControlLaw {
        /// Linux: Q0.16, one Newton step for every change of count, 1024-ns ticks.
        Linux = "linux",
        /// RFC 8289: exact, nanoseconds.
        Rfc8289 = "rfc8289",
    }
}

crate::choice! {
    /// Which packets `ce_threshold` marks.
    pub enum CeSelector {
        /// Every ECN-capable packet.
        All = "all",
        /// ECT(1), the identifier of L4S (RFC 9331): Linux `ce_threshold_selector 0x1/0x3`.
        Ect1 = "ect1",
    }
}

impl CeSelector {
    #[inline]
    fn selects(self, packet: &Packet) -> bool {
        self == CeSelector::All || packet.ecn() == Ecn::Ect1
    }
}

crate::params! {
    /// Parameters of CoDel.
    pub struct Params {
        /// Packets that fit; tail drop beyond.
        limit: u32 = 1000, unit "packets", range 0_u32, 100_000_000_u32, source "DEFAULT_CODEL_LIMIT, sch_codel.c";
        /// Acceptable standing delay.
        target: Duration = Duration::from_millis(5), unit "", range Duration(0), Duration::from_secs(10), source "RFC 8289 section 4; tc-codel(8)";
        /// Time above target before the first signal; in the order of a worst-case RTT.
        interval: Duration = Duration::from_millis(100), unit "", range Duration::from_micros(2), Duration::from_secs(100),
            source "RFC 8289 section 4; tc-codel(8)";
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = false, unit "", source "tc-codel(8): noecn is the default";
        /// Marks every packet with a longer sojourn time; unset: off.
        ce_threshold: Option<Duration> = None, unit "", range Duration(0), Duration::from_secs(100), source "tc-codel(8): disabled by default";
        /// Which packets `ce_threshold` marks.
        ce_threshold_selector: CeSelector = CeSelector::All, unit "", source "tc-fq_codel(8): ce_threshold_selector";
        /// How the control law is computed.
        control_law: ControlLaw = ControlLaw::Linux, unit "", source "Linux codel_impl.h; RFC 8289 section 5";
    }
}

/// Nanoseconds of a Linux CoDel tick, as a power of two (`CODEL_SHIFT`, `include/net/codel.h`).
const LINUX_TICK_SHIFT: u32 = 10;
/// A queue that comes back within this many intervals resumes its drop rate (RFC 8289 section 5, `16 * INTERVAL`).
const REENTRY_INTERVALS: i64 = 16;

/// Where CoDel takes packets from: one queue, and the backlog that its guard looks at.
pub trait Source {
    /// The head.
    fn head(&mut self) -> Option<&mut Packet>;
    /// Takes the head off, whose length is `len`.
    fn discard(&mut self, len: u16);
    /// Bytes queued, with those of the head; the backlog of the whole discipline where there are many queues (`sch_fq_codel.c`).
    fn backlog(&self) -> u64;
    /// Number of the queue in events.
    fn number(&self) -> u32 {
        0
    }
}

impl Source for Fifo {
    #[inline]
    fn head(&mut self) -> Option<&mut Packet> {
        self.head_mut()
    }
    #[inline]
    fn discard(&mut self, len: u16) {
        Fifo::discard(self, len);
    }
    #[inline]
    fn backlog(&self) -> u64 {
        self.bytes()
    }
}

/// Constants of the control law, in ticks of its clock.
#[derive(Clone, Debug)]
pub struct Codel {
    law: ControlLaw,
    tick_shift: u32,
    target: u64,
    interval: u64,
    ce_threshold: u64,
    ce_selector: CeSelector,
    ecn: bool,
    /// So few bytes left behind are never signalled. Linux `codel_params.mtu`.
    full_frame: u64,
    /// A queue that is found empty keeps `first_above_time`.
    stale_when_empty: bool,
}

/// State of the control law for one queue. Zero is its state before the first packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct CodelVars {
    first_above_time: u64,
    drop_next: u64,
    /// Signals since entering the dropping state; public because batch drops of FQ-CoDel add to it.
    pub count: u32,
    lastcount: u32,
    rec_inv_sqrt: u16,
    dropping: bool,
}

impl CodelVars {
    /// Whether the law is in its state of dropping.
    pub fn is_dropping(&self) -> bool {
        self.dropping
    }
}

impl Codel {
    /// The control law with these constants, without a `ce_threshold`.
    pub fn new(law: ControlLaw, target: Duration, interval: Duration, ecn: bool, full_frame: u16) -> Codel {
        let tick_shift = match law {
            ControlLaw::Linux => LINUX_TICK_SHIFT,
            ControlLaw::Rfc8289 => 0,
        };
        let ticks = |time: Duration| time.0 >> tick_shift;
        let (target, interval) = (ticks(target), ticks(interval));
        Codel {
            law,
            tick_shift,
            target,
            interval,
            ce_threshold: u64::MAX,
            ce_selector: CeSelector::All,
            ecn,
            full_frame: u64::from(full_frame),
            stale_when_empty: false,
        }
    }

    /// Marks the packets that `selector` selects if their sojourn time is above `ce_threshold`; `None` is off.
    pub fn with_ce_threshold(self, ce_threshold: Option<Duration>, ce_selector: CeSelector) -> Codel {
        let ce_threshold = ce_threshold.map_or(u64::MAX, |time| time.0 >> self.tick_shift);
        Codel { ce_threshold, ce_selector, ..self }
    }

    /// Sets whether a queue that is found empty keeps `first_above_time`: the next packet that waits for longer
    /// than `target` is signalled at once if the interval has passed by then. So it was in Linux until the fix "net_sched: codel: fix
    /// stale state for empty flows in fq_codel" of March 2026, which stable kernels have as well (6.1.192, 6.12.117). A discipline with
    /// one queue does not differ, since taking its last packet leaves no backlog and clears `first_above_time`.
    pub fn with_stale_when_empty(self, stale: bool) -> Codel {
        Codel { stale_when_empty: stale, ..self }
    }

    /// Drops from the head of `source` and marks the head, as CoDel decides. Returns whether a packet is left: the head is to be sent. It moves once, as a
    /// whole, when it is sent. Drops and marks are reported, [`Log::on_dequeue`] is left to the caller.
    #[inline(always)]
    pub fn judge<S: Source, L: Log>(&self, vars: &mut CodelVars, source: &mut S, now: Instant, log: &mut L) -> bool {
        let at = At { now, queue: source.number() };
        let tick = now.0 >> self.tick_shift;
        if source.head().is_none() {
            vars.dropping = false;
            if !self.stale_when_empty {
                vars.first_above_time = 0;
            }
            return false;
        }
        let (above, mut sojourn) = self.should_drop(vars, source, tick);
        let mut marked = false;
        if above && (!vars.dropping || tick >= vars.drop_next) {
            seldom();
            (sojourn, marked) = self.signal(vars, source, tick, sojourn, at, log);
            if source.head().is_none() {
                return false;
            }
        } else {
            vars.dropping &= above;
        }
        if sojourn > self.ce_threshold && !marked {
            if let Some(head) = source.head().filter(|head| self.ce_selector.selects(head)) {
                log.set_ce(head, MarkReason::Step, at);
            }
        }
        true
    }

    /// A signal is due, as the head of `source` has waited for `sojourn`: drops or marks. Returns the sojourn time of the head that is left, and whether it was
    /// marked.
    #[inline(never)]
    fn signal<S: Source, L: Log>(
        &self,
        vars: &mut CodelVars,
        source: &mut S,
        tick: u64,
        mut sojourn: u64,
        at: At,
        log: &mut L,
    ) -> (u64, bool) {
        if vars.dropping {
            while vars.dropping && tick >= vars.drop_next {
                self.set_count(vars, vars.count.wrapping_add(1));
                if self.mark(source, at, log) {
                    // One signal for each packet that leaves: a mark ends the round even if the next one is due.
                    vars.drop_next = self.control_law(vars, vars.drop_next);
                    return (sojourn, true);
                }
                drop_head(source, at, log);
                (vars.dropping, sojourn) = self.should_drop(vars, source, tick);
                if vars.dropping {
                    vars.drop_next = self.control_law(vars, vars.drop_next);
                }
            }
            return (sojourn, false);
        }
        let marked = self.mark(source, at, log);
        if !marked {
            drop_head(source, at, log);
            // The answer does not matter (RFC 8289 section 5), what it does to first_above_time and the sojourn time does.
            (_, sojourn) = self.should_drop(vars, source, tick);
        }
        vars.dropping = true;
        // If the queue was controlled a short while ago, its drop rate then is a good start now. A queue that never was has 0 as `drop_next`, which
        // is long ago for a kernel, whatever the time of the run; FQ-CoDel may have raised `count` even so.
        let delta = vars.count.wrapping_sub(vars.lastcount);
        let since = tick.wrapping_sub(vars.drop_next) as i64;
        if vars.lastcount > 0 && delta > 1 && since < REENTRY_INTERVALS * self.interval as i64 {
            self.set_count(vars, delta);
        } else {
            vars.count = 1;
            vars.rec_inv_sqrt = u16::MAX;
        }
        vars.lastcount = vars.count;
        vars.drop_next = self.control_law(vars, tick);
        (sojourn, marked)
    }

    /// Judges `packet` as [`Codel::judge`] does at `start`, if it will have waited for less than the target then; otherwise nothing changes. Returns whether
    /// it was judged: its fate does not depend on the backlog.
    #[inline(always)]
    fn judge_below_target<L: Log>(&self, vars: &mut CodelVars, packet: &mut Packet, start: Instant, log: &mut L) -> bool {
        let sojourn = (start.0 >> self.tick_shift) - (packet.enqueue_time.0 >> self.tick_shift);
        if sojourn >= self.target {
            return false;
        }
        (vars.first_above_time, vars.dropping) = (0, false);
        if sojourn > self.ce_threshold && self.ce_selector.selects(packet) {
            log.set_ce(packet, MarkReason::Step, At::time(start));
        }
        true
    }

    /// Whether [`Codel::judge`] at `at` sends `head` whatever arrives until then behind a queue of `backlog` bytes, which `head` is in.
    #[inline]
    fn is_foreseen(&self, vars: &CodelVars, head: &Packet, backlog: u64, at: Instant) -> bool {
        let tick = at.0 >> self.tick_shift;
        if tick - (head.enqueue_time.0 >> self.tick_shift) < self.target {
            return true;
        }
        // what arrives only adds to the backlog, and a mark is the only signal; how many drops there are depends on the backlog behind them
        let signal_at = if vars.dropping { vars.drop_next } else { vars.first_above_time };
        let may_signal = signal_at != 0 && tick >= signal_at;
        backlog > self.full_frame + u64::from(head.len) && (!may_signal || (self.ecn && head.ecn() != Ecn::NotEct))
    }

    /// Whether the sojourn time has been above target for an interval, as of the head of `source`, and that time.
    #[inline(always)]
    fn should_drop(&self, vars: &mut CodelVars, source: &mut impl Source, tick: u64) -> (bool, u64) {
        let Some(&mut Packet { enqueue_time, len, .. }) = source.head() else {
            vars.first_above_time = 0;
            return (false, 0);
        };
        let sojourn = tick - (enqueue_time.0 >> self.tick_shift);
        if sojourn < self.target || source.backlog() <= self.full_frame + u64::from(len) {
            vars.first_above_time = 0;
            return (false, sojourn);
        }
        if vars.first_above_time == 0 {
            vars.first_above_time = tick + self.interval;
            return (false, sojourn);
        }
        let above = match self.law {
            ControlLaw::Linux => tick > vars.first_above_time,
            ControlLaw::Rfc8289 => tick >= vars.first_above_time,
        };
        (above, sojourn)
    }

    #[inline]
    fn mark<L: Log>(&self, source: &mut impl Source, at: At, log: &mut L) -> bool {
        self.ecn && source.head().is_some_and(|head| log.set_ce(head, MarkReason::Aqm, at))
    }

    #[inline]
    fn set_count(&self, vars: &mut CodelVars, count: u32) {
        vars.count = count;
        if self.law == ControlLaw::Linux {
            vars.rec_inv_sqrt = newton_step(vars.rec_inv_sqrt, count);
        }
    }

    /// When the next signal is due after one at `from`: `from + interval / sqrt(count)`.
    #[inline]
    fn control_law(&self, vars: &CodelVars, from: u64) -> u64 {
        from + match self.law {
            ControlLaw::Linux => (self.interval * u64::from(vars.rec_inv_sqrt)) >> 16,
            ControlLaw::Rfc8289 => (self.interval as f64 / f64::from(vars.count.max(1)).sqrt()) as u64,
        }
    }
}

/// The head of `source` is dropped.
#[inline]
fn drop_head<L: Log>(source: &mut impl Source, at: At, log: &mut L) {
    let Some(head) = source.head() else { return };
    log.on_drop(head, DropReason::Aqm, DropSite::Queue, at);
    let len = head.len;
    source.discard(len);
}

/// One step of Newton's method for 1/sqrt(count), x' = x/2 (3 - count x^2), in Q0.32 and cut to Q0.16 as Linux stores it.
///
/// From far above the solution 3 - count x^2 becomes negative and wraps, as it does in Linux.
fn newton_step(rec_inv_sqrt: u16, count: u32) -> u16 {
    let x = u64::from(rec_inv_sqrt) << 16;
    let square = (x * x) >> 32;
    // Two bits are given up before the product and one bit is the division by 2: 64 bits are enough.
    let factor = (3_u64 << 32).wrapping_sub(u64::from(count).wrapping_mul(square)) >> 2;
    ((factor.wrapping_mul(x) >> 31) >> 16) as u16
}

/// A queue with its parameters.
#[derive(Clone, Debug)]
pub struct State {
    limit: usize,
    codel: Codel,
    vars: CodelVars,
    fifo: Fifo,
}

impl State {
    /// An empty queue.
    pub fn new(params: Params, context: &QueueContext) -> State {
        let codel = Codel::new(params.control_law, params.target, params.interval, params.ecn, context.full_frame)
            .with_ce_threshold(params.ce_threshold, params.ce_threshold_selector);
        State { limit: params.limit as usize, codel, vars: CodelVars::default(), fifo: Fifo::default() }
    }
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn changeable(&self) -> &'static [&'static str] {
        &["limit", "target", "interval", "ecn", "ce_threshold"]
    }

    fn take_params(&mut self, fresh: State, _now: Instant) -> Result<(), ParamError> {
        (self.limit, self.codel) = (fresh.limit, fresh.codel);
        Ok(())
    }

    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("count", f64::from(self.vars.count));
        tell("dropping", f64::from(u8::from(self.vars.dropping)));
    }

    #[inline(always)]
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        let fits = self.fifo.has_place(self.limit, now);
        self.fifo.accept_if(fits, packet, now, log);
    }

    #[inline(always)]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        let is_left = self.codel.judge(&mut self.vars, &mut self.fifo, now, log);
        let (true, Some(head)) = (is_left, self.fifo.head()) else { return Dequeue::Empty };
        log.on_dequeue(head, At::time(now));
        let (packet, len) = (Dequeue::Packet(*head), head.len);
        self.fifo.discard(len);
        packet
    }

    /// The law knows that the queue is empty: it does not drop, and a packet that does not wait is not above the target.
    fn bypass_max_len(&self) -> u16 {
        if self.limit > 0 {
            u16::MAX
        } else {
            0
        }
    }

    look_at_fifo!(hint);
    foresee_fifo!();

    #[inline(always)]
    fn pass<L: Log>(&mut self, packet: &mut Packet, now: Instant, start: Instant, log: &mut L) -> Verdict {
        let fits = self.fifo.has_place(self.limit, now);
        if fits && !self.codel.judge_below_target(&mut self.vars, packet, start, log) {
            return Verdict::Unknown;
        }
        self.fifo.pass_if(fits, packet, now, start, log)
    }

    #[inline(always)]
    fn dequeue_foreseen<L: Log>(&mut self, at: Instant, log: &mut L) -> Option<Dequeue> {
        let head = self.fifo.head()?;
        if self.codel.is_foreseen(&self.vars, head, self.fifo.bytes(), at) {
            Some(self.dequeue(at, log))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{context, packet};
    use super::*;
    use crate::record::Counters;

    const TICK: u64 = 1 << LINUX_TICK_SHIFT;

    fn ticks_to_ms(ticks: u64) -> f64 {
        (ticks * TICK) as f64 / 1e6
    }

    fn state(params: Params) -> (State, Counters) {
        (State::new(params, &context(100)), Counters::default())
    }

    fn linux() -> Codel {
        Codel::new(ControlLaw::Linux, Duration::from_millis(5), Duration::from_millis(100), true, 1514)
    }

    fn rfc() -> Codel {
        Codel::new(ControlLaw::Rfc8289, Duration::from_millis(5), Duration::from_millis(100), true, 1514)
    }

    #[test]
    fn constants_in_ticks() {
        // 5 ms / 1024 ns = 4882.8, 100 ms / 1024 ns = 97656.25, both truncated
        assert_eq!((linux().target, linux().interval), (4882, 97656));
        assert_eq!((rfc().target, rfc().interval), (5_000_000, 100_000_000));
    }

    /// Drop times for counts 1, 2, ...; entry at time 0.
    fn schedule(codel: &Codel, counts: u32) -> Vec<(u16, u64)> {
        let mut vars = CodelVars { count: 1, rec_inv_sqrt: u16::MAX, ..CodelVars::default() };
        let mut time = codel.control_law(&vars, 0);
        let mut out = vec![(vars.rec_inv_sqrt, time)];
        for count in 2..=counts {
            codel.set_count(&mut vars, count);
            time = codel.control_law(&vars, time);
            out.push((vars.rec_inv_sqrt, time));
        }
        out
    }

    #[test]
    fn gaps_as_linux_computes_them() {
        // Newton from 1 -> 2: x = 65535/65536, x' = x/2 (3 - 2x^2) = 0.50002: 32769, although 1/sqrt(2) is 0.70711.
        // Gap n = 97656 ticks * rec / 65536; the time is the sum of the gaps.
        let schedule = schedule(&linux(), 16);
        for (count, rec, gap_ms, time_ms) in [
            (1, 65535, 99.998, 99.998),
            (2, 32769, 50.001, 149.999),
            (3, 36864, 56.249, 206.248),
            (4, 31968, 48.778, 255.026),
            (5, 28935, 44.151, 299.177),
            (8, 23037, 35.151, 412.251),
            (16, 16360, 24.963, 640.869),
        ] {
            let (got_rec, got_time) = schedule[count - 1];
            let previous = if count == 1 { 0 } else { schedule[count - 2].1 };
            assert_eq!(got_rec, rec, "count {count}");
            assert!(
                (ticks_to_ms(got_time - previous) - gap_ms).abs() < 0.0006,
                "count {count}: {}",
                ticks_to_ms(got_time - previous)
            );
            assert!((ticks_to_ms(got_time) - time_ms).abs() < 0.0006, "count {count}: {}", ticks_to_ms(got_time));
        }
        assert_eq!(schedule[0].1, 97654); // 97656 * 65535 / 65536 = 97654.5
    }

    /// One queue of several: the others hold 10 kB.
    #[derive(Default)]
    struct OneOfSeveral(Fifo);

    impl Source for OneOfSeveral {
        fn head(&mut self) -> Option<&mut Packet> {
            self.0.head_mut()
        }
        fn discard(&mut self, len: u16) {
            self.0.discard(len);
        }
        fn backlog(&self) -> u64 {
            self.0.bytes() + 10_000
        }
    }

    #[test]
    fn old_kernels_signal_a_sparse_flow_that_waits_twice_with_a_pause_between() {
        // The first packet waits for 10 ms: first_above_time is 110 ms. Then the queue is found empty. The second one waits from
        // 200 ms on. If that is for 6 ms, old kernels find it above target and 206 > 110; new ones begin an interval. A packet that
        // waits for 4 ms < target ends the episode in both.
        let marked = |stale, waits: &[u64]| {
            let codel = linux().with_stale_when_empty(stale);
            let (mut vars, mut source, mut log) = (CodelVars::default(), OneOfSeveral::default(), Counters::default());
            let mut marks = Vec::new();
            for (start, &wait) in [0, 200, 400].into_iter().zip(waits) {
                let [arrival, departure] = [start, start + wait].map(Instant::from_millis);
                source.0.accept(packet(start, Ecn::Ect0), arrival, &mut log);
                let before = log.queue.ce_marks;
                assert!(codel.judge(&mut vars, &mut source, departure, &mut log));
                source.0.pop();
                assert!(!codel.judge(&mut vars, &mut source, departure, &mut log));
                marks.push(log.queue.ce_marks - before);
            }
            marks
        };
        assert_eq!(marked(true, &[10, 6]), [0, 1]);
        assert_eq!(marked(false, &[10, 6]), [0, 0]);
        assert_eq!(marked(true, &[10, 4, 6]), [0, 0, 0]);
    }

    #[test]
    fn gaps_as_the_rfc_defines_them() {
        let schedule = schedule(&rfc(), 16);
        for (count, time_ms) in [(1, 100.0), (2, 170.711), (3, 228.446), (4, 278.446), (5, 323.167), (8, 437.144), (16, 666.399)]
        {
            let got = schedule[count - 1].1 as f64 / 1e6;
            assert!((got - time_ms).abs() < 0.0006, "count {count}: {got}");
        }
    }

    #[test]
    fn newton_steps_converge_to_the_square_root() {
        let mut rec = u16::MAX;
        for count in 2..5000_u32 {
            rec = newton_step(rec, count);
            // 16 bits: the truncation of 1/65536 weighs sqrt(count)/65536 relative to 1/sqrt(count), and the step follows 1/sqrt
            // from above with an error that falls as 1/count.
            let exact = 65536.0 / f64::from(count).sqrt();
            if count >= 4 {
                assert!((f64::from(rec) / exact - 1.0).abs() < 0.03, "count {count}: {rec} {exact}");
            }
        }
    }

    #[test]
    fn reentry_resumes_the_count_within_16_intervals() {
        // Above target for more than an interval, entering with the given history at `after` ticks past drop_next.
        let enter = |count, lastcount, after: u64| {
            let drop_next = 1_000_000;
            let tick = drop_next + after;
            let (mut state, mut log) = state(Params { ecn: true, ..Params::default() });
            for seq in 0..3 {
                state.fifo.push(packet(seq, Ecn::Ect0));
            }
            state.vars =
                CodelVars { first_above_time: tick - 1, drop_next, count, lastcount, rec_inv_sqrt: 20_000, dropping: false };
            assert!(state.codel.judge(&mut state.vars, &mut state.fifo, Instant(tick * TICK), &mut log));
            assert_eq!((state.fifo.head().unwrap().ecn(), log.queue.ce_marks), (Ecn::Ce, 1));
            assert_eq!(state.vars.lastcount, state.vars.count);
            (state.vars.count, state.vars.rec_inv_sqrt)
        };
        // 16 * 97656 ticks = 1562496: one tick less resumes
        let resumed = newton_step(20_000, 9);
        assert_eq!(enter(10, 1, 100), (9, resumed));
        assert_eq!(enter(10, 1, 1_562_495), (9, resumed));
        assert_eq!(enter(10, 1, 1_562_496), (1, u16::MAX));
        // 2 - 1 = 1 is not more than 1
        assert_eq!(enter(2, 1, 100), (1, u16::MAX));
    }

    #[test]
    fn nothing_is_dropped_if_one_mtu_is_left_behind_the_packet() {
        for (left, drops) in [(1514_u16, 0), (1515, 1)] {
            let (mut state, mut log) = state(Params::default());
            state.fifo.push(packet(0, Ecn::NotEct));
            state.fifo.push(Packet { len: left, ..packet(1, Ecn::NotEct) });
            state.vars.first_above_time = 1;
            let Dequeue::Packet(sent) = state.dequeue(Instant::from_millis(500), &mut log) else { panic!("a packet is queued") };
            assert_eq!((log.queue.drops_aqm, sent.number()), (drops, drops), "{left} B left");
        }
    }

    /// Times (ms) at which packets leave marked: one arrives and one leaves every ms, 10 ms apart.
    fn mark_times(params: Params, until_ms: u64) -> Vec<u64> {
        let (mut state, mut log) = state(params);
        let mut times = Vec::new();
        for ms in 0..until_ms {
            let now = Instant::from_millis(ms);
            state.enqueue(packet(ms, Ecn::Ect0), now, &mut log);
            if ms >= 10 {
                let Dequeue::Packet(sent) = state.dequeue(now, &mut log) else { panic!("a packet is queued") };
                assert_eq!(sent.enqueue_time, Instant::from_millis(ms - 10));
                if sent.ecn() == Ecn::Ce {
                    times.push(ms);
                }
            }
        }
        assert_eq!((log.queue.ce_marks, log.queue.drops_aqm), (times.len() as u64, 0));
        times
    }

    #[test]
    fn a_standing_queue_is_marked_on_the_schedule_of_the_law() {
        // Packets leave from 10 ms on with a sojourn of 10 ms. First above at 10 ms, so due at 110 ms.
        // RFC: >= 110 -> 110; then 110 + {100, 170.71, 228.45, 278.45}, at the next departure.
        let ecn = Params { ecn: true, ..Params::default() };
        assert_eq!(mark_times(Params { control_law: ControlLaw::Rfc8289, ..ecn.clone() }, 400), [110, 210, 281, 339, 389]);
        // Linux: 97656.25 ticks are cut to 97656, 10 ms is tick 9765, 110 ms is tick 107421 = 9765 + 97656, not later: 111.
        // Then tick(111) = 108398 = 110.9996 ms + {99.998, 149.999, 206.248, 255.026} = {210.998, 260.999, 317.248, 366.026}.
        assert_eq!(mark_times(ecn, 400), [111, 211, 261, 318, 367]);
    }

    #[test]
    fn several_overdue_marks_leave_one_by_one_but_drops_at_once() {
        let overdue = |ecn| {
            let (mut state, mut log) = state(Params { ecn: true, ..Params::default() });
            for seq in 0..20 {
                state.fifo.push(packet(seq, ecn));
            }
            // 300 ms behind schedule at count 2
            state.vars =
                CodelVars { first_above_time: 1, drop_next: 1000, count: 2, lastcount: 1, rec_inv_sqrt: 32769, dropping: true };
            let _ = state.dequeue(Instant((1000 + 292_968) * TICK), &mut log);
            (log.queue.ce_marks, log.queue.drops_aqm)
        };
        assert_eq!(overdue(Ecn::Ect1), (1, 0));
        // Counts 3, 4, ... at 0 and then 56.2, 105.0, 149.2, ... ms after drop_next: gaps of 100/sqrt(3..9) sum to 294.1 ms, and
        // the drop at the end of the gap of count 9 is the eighth.
        assert_eq!(overdue(Ecn::NotEct), (0, 8));
    }

    #[test]
    fn ce_threshold_marks_without_ecn_and_without_waiting_but_counts_once() {
        let threshold = Params { ce_threshold: Some(Duration::from_millis(1)), ..Params::default() };
        let (mut state, mut log) = state(threshold);
        for (seq, ecn) in [(0, Ecn::Ect0), (1, Ecn::NotEct), (2, Ecn::Ect1)] {
            state.enqueue(packet(seq, ecn), Instant::ZERO, &mut log);
        }
        // strictly more: 1 ms is 976 ticks on both sides
        let Dequeue::Packet(first) = state.dequeue(Instant::from_millis(1), &mut log) else { panic!() };
        let Dequeue::Packet(second) = state.dequeue(Instant::from_millis(2), &mut log) else { panic!() };
        let Dequeue::Packet(third) = state.dequeue(Instant::from_millis(2), &mut log) else { panic!() };
        assert_eq!((first.ecn(), second.ecn(), third.ecn()), (Ecn::Ect0, Ecn::NotEct, Ecn::Ce));
        assert_eq!((log.queue.ce_marks, log.queue.drops_aqm), (1, 0));
        assert!(matches!(state.dequeue(Instant::from_millis(3), &mut log), Dequeue::Empty));
    }

    #[test]
    fn an_overload_is_drained_by_a_rising_drop_rate_and_the_state_is_left_below_target() {
        // 1100 packets/s in, 1000 out: the drops must grow to 100/s, that is, count to (0.1 s * 100/s)^2 = 100, and the delay
        // must come back below target. Sum of 1/sqrt(k) up to 100 is 18.6: within 1.9 s of the first drop.
        let (mut state, mut log) = state(Params::default());
        let (mut next_in, mut seq, mut longest, mut last) = (0, 0, 0, u64::MAX);
        for ms in 0..6000_u64 {
            while next_in <= ms * 1_000_000 {
                state.enqueue(packet(seq, Ecn::NotEct), Instant(next_in), &mut log);
                next_in += 1_000_000_000 / 1100;
                seq += 1;
            }
            if let Dequeue::Packet(sent) = state.dequeue(Instant::from_millis(ms), &mut log) {
                last = (Instant::from_millis(ms) - sent.enqueue_time).as_millis();
                longest = longest.max(last);
            }
        }
        assert!(longest > 50 && last < 30, "longest {longest} ms, last {last} ms");
        assert!(log.queue.drops_aqm > 300 && log.queue.drops_overflow == 0, "{log:?}");
    }

    #[test]
    fn a_sojourn_of_target_starts_the_interval_and_an_empty_queue_ends_it() {
        let (mut state, mut log) = state(Params { control_law: ControlLaw::Rfc8289, ..Params::default() });
        for seq in 0..4 {
            state.enqueue(packet(seq, Ecn::NotEct), Instant::ZERO, &mut log);
        }
        let _ = state.dequeue(Instant(4_999_999), &mut log);
        assert_eq!(state.vars.first_above_time, 0);
        // RFC 8289 section 5: only a sojourn time below target ends it
        let _ = state.dequeue(Instant(5_000_000), &mut log);
        assert_eq!(state.vars.first_above_time, 105_000_000);
        let _ = (state.fifo.pop(), state.fifo.pop());
        assert!(matches!(state.dequeue(Instant::from_millis(6), &mut log), Dequeue::Empty));
        assert_eq!(state.vars.first_above_time, 0);
    }
}
