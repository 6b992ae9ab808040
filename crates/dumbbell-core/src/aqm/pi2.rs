//! PI2: PIE's controller, made linear, and its output squared for classic congestion controls; one queue.
//!
//! Specification: De Schepper, Bondarenko, Tsang, Briscoe, "PI2: A Linearized AQM for both Classic and Scalable TCP" (CoNEXT 2016), as
//! its code for Linux 3.16 has it (olgabo/dualpi2 `sch_pi2/sch_pi2.c`), in its integers: delays in ticks of 64 ns, probabilities in
//! 1/2^32. The probability that is kept is the scalable one, k * p':
//!
//! - packets that `scal_mask` selects are marked with it;
//! - others that are ECN-capable are marked, and the rest is dropped, if two numbers are below p'.
//!
//! Both happen at enqueue, and nothing does below two full frames of backlog. The delay is backlog / departure rate (`delay = "rate"`,
//! measured over 10000 B). Of PIE's heuristics only the decay when idle is there, by 2 % and in 32 bits: above 1/98, 98 times the
//! probability does not fit, and what is left of it is less than 1 %. Likewise a backlog of 2^24 B and more is cut to its lowest 24 bits. An
//! overload saturates both: 100 % and 1/k^2.
//!
//! The queue with two queues of the same code is `dualpi2` with `version = "tsfifo"`.
//!
//! Deviations: the queue is older than the run, so that the first update comes at a random moment within `tupdate`, and updates come
//! exactly that often (30 ms are whole ticks at `HZ` = 1000; kernels before 4.8 add nothing). `delay = "sojourn"` is ours: how long the head
//! has waited, as the dual-queue versions have it.

use super::departure_rate::{Departures, Estimator, RATE_SHIFT};
use super::dualpi2::controller::{pi_step, MAX_PROB};
use super::dualpi2::versions::Mask;
use super::fifo::Fifo;
use super::{Aqm, Dequeue, QueueContext};
use crate::log::{At, DropReason, DropSite, Log, MarkReason};
use crate::packet::Packet;
use crate::param::ParamError;
use crate::rng::Rng;
use crate::units::{Duration, Instant};

/// Name in experiment files.
pub const NAME: &str = "pi2";
/// One line.
pub const TITLE: &str = "linear PI controller: scalable flows get its probability, classic ones the square";
/// Specification and deviations.
pub const SOURCE: &str = "CoNEXT 2016; olgabo/dualpi2 sch_pi2.c (Linux 3.16), single queue; first update within tupdate";

crate::choice! {
    /// Where the delay is from.
    pub enum Delay {
        /// Backlog and departure rate.
        Rate = "rate",
        /// How long the head has waited.
        Sojourn = "sojourn",
    }
}

crate::params! {
    /// Parameters of PI2.
    pub struct Params {
        /// Packets that fit; tail drop beyond.
        limit: u32 = 1000, unit "packets", range 0_u32, 100_000_000_u32, source "pi2_params_init, sch_pi2.c";
        /// Delay to hold.
        target: Duration = Duration::from_millis(20), unit "", range Duration::from_micros(1), Duration::from_secs(10), source "pi2_params_init, sch_pi2.c";
        /// Time between two updates of the probability.
        tupdate: Duration = Duration::from_millis(30), unit "", range Duration::from_micros(100), Duration::from_secs(10), source "pi2_params_init, sch_pi2.c";
        /// Gain on the distance from target, of k * p'.
        alpha: u32 = 10, unit "1/16 Hz", range 0_u32, 1000_u32, source "pi2_params_init, sch_pi2.c: 0.625 Hz";
        /// Gain on the change of delay, of k * p'.
        beta: u32 = 100, unit "1/16 Hz", range 0_u32, 1000_u32, source "pi2_params_init, sch_pi2.c: 6.25 Hz";
        /// Coupling factor k: the scalable probability is k p', the classic one p'^2.
        k: u32 = 2, unit "ratio", range 1_u32, 255_u32, source "pi2_params_init, sch_pi2.c";
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = true, unit "", source "pi2_params_init, sch_pi2.c: ecn 1";
        /// Codepoints that are marked with k * p'.
        scal_mask: Mask = Mask::AnyEct, unit "", source "pi2_params_init, sch_pi2.c: ecn_scal 3";
        /// Probability in proportion to the packet's size.
        bytemode: bool = false, unit "", source "pi2_params_init, sch_pi2.c";
        /// Where the delay is from.
        delay: Delay = Delay::Rate, unit "", source "calculate_probability, sch_pi2.c; sojourn: ours";
    }
}

/// Ticks of Linux's packet scheduler are 64 ns (`PSCHED_SHIFT`, pkt_sched.h).
const TICK_SHIFT: u32 = 6;
/// `MAX_PROB` per tick of a second (`MAX_PROB / PSCHED_TICKS_PER_SEC`).
const PROB_PER_TICK: u32 = MAX_PROB / (1_000_000_000 >> TICK_SHIFT);
/// `QUEUE_THRESHOLD` of sch_pi2.c, and the weight of 1/8.
const ESTIMATOR: Estimator = Estimator { threshold: 10_000, weight_shift: 3 };

/// A queue with its parameters.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    full_frame: u16,
    /// In ticks.
    target: i64,
    alpha: i64,
    beta: i64,
    fifo: Fifo,
    departures: Departures,
    /// k * p', in [`MAX_PROB`]s.
    prob: u32,
    /// In ticks.
    qdelay: i64,
    classic: Rng,
    scalable: Rng,
    packets_in: u64,
    ecn_mark: u64,
    maxq: u64,
    next_update: Instant,
}

impl State {
    /// An empty queue.
    pub fn new(params: Params, context: &QueueContext) -> State {
        let [alpha, beta] = [params.alpha, params.beta].map(|gain| i64::from((gain * PROB_PER_TICK) >> 4));
        State {
            full_frame: context.full_frame,
            target: (params.target.0 >> TICK_SHIFT) as i64,
            alpha,
            beta,
            fifo: Fifo::default(),
            departures: Departures::default(),
            prob: 0,
            qdelay: 0,
            classic: Rng::stream(context.seed, NAME, 0),
            scalable: Rng::stream(context.seed, NAME, 1),
            packets_in: 0,
            ecn_mark: 0,
            maxq: 0,
            next_update: context.first_tick("pi2 phase", params.tupdate, params.tupdate),
            params,
        }
    }

    /// Whether `packet`, which arrives, is to be dropped; otherwise with its mark, if it gets one. `drop_early` of sch_pi2.c.
    // compiled into `enqueue`, or the packet would go through memory
    #[inline(always)]
    fn drops<L: Log>(&mut self, packet: &mut Packet, at: At, log: &mut L) -> bool {
        if self.fifo.bytes() < 2 * u64::from(self.full_frame) {
            return false;
        }
        let mut prob = self.prob;
        if self.params.bytemode && packet.len <= self.full_frame {
            prob = prob / u32::from(self.full_frame) * u32::from(packet.len);
        }
        let marked = if self.params.ecn && self.params.scal_mask.has(packet.ecn()) {
            self.scalable.next_u32() < prob && log.set_ce(packet, MarkReason::Coupled, at)
        } else {
            let p = prob / self.params.k;
            if self.classic.next_u32() >= p || self.classic.next_u32() >= p {
                return false;
            }
            if !(self.params.ecn && log.set_ce(packet, MarkReason::Aqm, at)) {
                return true;
            }
            true
        };
        self.ecn_mark += u64::from(marked);
        false
    }

    /// `calculate_probability` of sch_pi2.c, at `now`.
    fn update(&mut self, now: Instant) {
        let old = self.qdelay;
        let backlog = self.fifo.bytes();
        self.qdelay = match self.params.delay {
            Delay::Rate => {
                let scaled = u64::from((backlog as u32).wrapping_shl(RATE_SHIFT));
                scaled.checked_div(self.departures.rate).unwrap_or(0) as i64
            }
            Delay::Sojourn => self.fifo.head().map_or(0, |head| ((now - head.enqueue_time).0 >> TICK_SHIFT) as i64),
        };
        let delta = (self.qdelay - self.target) * self.alpha + (self.qdelay - old) * self.beta;
        self.prob = pi_step(self.prob, delta);
        // a delay of 0 with packets queued only says that there was nothing to measure
        let known = self.qdelay > 0 || backlog == 0;
        if self.qdelay == 0 && old == 0 && known {
            self.prob = self.prob.wrapping_mul(98) / 100;
        }
    }
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn changeable(&self) -> &'static [&'static str] {
        &["limit", "target", "tupdate", "alpha", "beta", "k", "ecn"]
    }

    fn take_params(&mut self, fresh: State, _now: Instant) -> Result<(), ParamError> {
        let State { params, target, alpha, beta, .. } = fresh;
        (self.params, self.target, self.alpha, self.beta) = (params, target, alpha, beta);
        Ok(())
    }

    #[inline(always)]
    fn enqueue<L: Log>(&mut self, mut packet: Packet, now: Instant, log: &mut L) {
        let at = At::time(now);
        if self.fifo.len() >= self.params.limit as usize {
            log.on_drop(&packet, DropReason::Overflow, DropSite::Arrival, at);
            return;
        }
        if self.drops(&mut packet, at, log) {
            log.on_drop(&packet, DropReason::Aqm, DropSite::Arrival, at);
            return;
        }
        self.packets_in += 1;
        self.maxq = self.maxq.max(self.fifo.len() as u64);
        self.fifo.accept(packet, now, log);
    }

    #[inline(always)]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        let Some(packet) = self.fifo.pop() else { return Dequeue::Empty };
        if self.params.delay == Delay::Rate {
            self.departures.on_departure(&ESTIMATOR, packet.len, self.fifo.bytes(), now.0 >> TICK_SHIFT);
        }
        log.on_dequeue(&packet, At::time(now));
        Dequeue::Packet(packet)
    }

    look_at_fifo!(hint);

    fn next_timer(&self) -> Instant {
        self.next_update
    }

    fn on_timer<L: Log>(&mut self, now: Instant, _log: &mut L) {
        self.update(now);
        self.next_update = now + self.params.tupdate;
    }

    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("p", f64::from(self.prob) / f64::from(MAX_PROB) / f64::from(self.params.k));
        tell("qdelay_ms", (self.qdelay << TICK_SHIFT) as f64 / 1e6);
    }

    fn counters(&self) -> Vec<(String, u64)> {
        [("packets_in", self.packets_in), ("ecn_mark", self.ecn_mark), ("maxq", self.maxq)]
            .map(|(name, count)| (name.to_string(), count))
            .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{context, packet};
    use super::*;
    use crate::packet::Ecn;
    use crate::record::Counters;

    fn share(prob: u32) -> f64 {
        f64::from(prob) / f64::from(MAX_PROB)
    }

    fn ticks(ms: u64) -> i64 {
        (Instant::from_millis(ms).0 >> TICK_SHIFT) as i64
    }

    /// One update: probability before, delay and last delay in ms; the probability after.
    fn update_prob(params: Params, prob: f64, delay: u64, old: u64) -> f64 {
        let mut state = State::new(params, &context(10));
        state.prob = (prob * f64::from(MAX_PROB)) as u32;
        state.qdelay = ticks(old);
        if delay > 0 {
            // exact in ticks, where backlog by rate is not
            state.fifo.push(packet(0, Ecn::NotEct));
            state.params.delay = Delay::Sojourn;
        }
        state.update(Instant::from_millis(delay));
        share(state.prob)
    }

    #[test]
    fn updates_as_the_code_computes_them() {
        // alpha 10 (2^32 - 1) / 15625000 / 16 = 171, beta 1712 per tick; target 20 ms = 312500 ticks
        for (prob, q, old, expected) in
            [(0.0, 20, 0, 0.124564), (0.0, 25, 20, 0.034252), (0.1, 10, 20, 0.031497), (0.1, 30, 30, 0.106221), (0.1, 0, 20, 0.0)]
        {
            let got = update_prob(Params::default(), prob, q, old);
            assert!((got - expected).abs() < 1e-6, "{prob} {q} {old}: {got}, not {expected}");
        }
        assert_eq!(update_prob(Params::default(), 0.99, 200, 0), 1.0);
    }

    #[test]
    fn idle_probabilities_decay_in_32_bits() {
        // nothing queued twice: - 171 * 312500 ticks = - 0.012442, then times 98 modulo 2^32, divided by 100
        let idle = |prob: f64| (prob * f64::from(MAX_PROB)) as u32 - 171 * 312_500;
        assert_eq!(update_prob(Params::default(), 0.021, 0, 0), share(idle(0.021) * 98 / 100));
        // what is above 1/98 does not fit
        assert!(idle(0.0325).checked_mul(98).is_none());
        let cut = update_prob(Params::default(), 0.0325, 0, 0);
        assert_eq!(cut, share((u64::from(idle(0.0325)) * 98 % (1 << 32)) as u32 / 100));
        assert!(cut < 0.01);
    }

    /// Marks and drops of 4000 packets that arrive at a queue of three.
    fn verdicts(params: Params, ecn: Ecn, prob: f64) -> (u64, u64) {
        let mut state = State::new(params, &context(10));
        let mut log = Counters::default();
        (0..3).for_each(|seq| state.fifo.push(packet(seq, Ecn::NotEct)));
        state.prob = (prob * f64::from(MAX_PROB)) as u32;
        for seq in 0..4000 {
            let before = state.packets();
            state.enqueue(packet(seq, ecn), Instant::ZERO, &mut log);
            if state.packets() > before {
                state.fifo.pop();
            }
        }
        (log.queue.ce_marks, log.queue.drops_aqm)
    }

    /// Whether `count` of 4000 is what probability `p` gives: within five standard deviations.
    fn matches_probability(count: u64, p: f64) -> bool {
        (count as f64 - 4000.0 * p).abs() <= 5.0 * (4000.0 * p * (1.0 - p)).sqrt() + 1e-9
    }

    #[test]
    fn scalable_packets_get_the_probability_and_classic_ones_the_square_of_its_half() {
        let of = |params: &Params, ecn, prob| verdicts(params.clone(), ecn, prob);
        let marked = |(marks, drops), p| matches_probability(marks, p) && drops == 0;
        let dropped = |(marks, drops), p| matches_probability(drops, p) && marks == 0;
        let all = Params::default();
        assert!(dropped(of(&all, Ecn::NotEct, 0.4), 0.04));
        assert!(marked(of(&all, Ecn::Ect0, 0.4), 0.4) && marked(of(&all, Ecn::Ect1, 0.4), 0.4));
        let l4s = Params { scal_mask: Mask::L4sEct, ..Params::default() };
        assert!(marked(of(&l4s, Ecn::Ect0, 0.4), 0.04) && marked(of(&l4s, Ecn::Ect1, 0.4), 0.4));
        assert!(dropped(of(&Params { ecn: false, ..Params::default() }, Ecn::Ect0, 0.4), 0.04));
        // saturated: all, and a quarter
        assert!(dropped(of(&all, Ecn::NotEct, 1.0), 0.25) && of(&all, Ecn::Ect0, 1.0) == (4000, 0));
        assert!(dropped(of(&Params { k: 4, ..Params::default() }, Ecn::NotEct, 1.0), 1.0 / 16.0));
    }

    #[test]
    fn small_packets_get_less_in_bytemode() {
        let mut state = State::new(Params { bytemode: true, ..Params::default() }, &context(10));
        let mut log = Counters::default();
        (0..8).for_each(|seq| state.fifo.push(packet(seq, Ecn::NotEct)));
        state.prob = MAX_PROB;
        for seq in 0..4000 {
            state.enqueue(Packet { len: 757, ..packet(seq, Ecn::Ect1) }, Instant::ZERO, &mut log);
            state.fifo.pop();
        }
        assert!(matches_probability(log.queue.ce_marks, 0.5), "{}", log.queue.ce_marks);
    }

    #[test]
    fn nothing_is_dropped_below_two_full_frames() {
        let drops = |lens: [u16; 2]| {
            let mut state = State::new(Params { ecn: false, k: 1, ..Params::default() }, &context(10));
            let mut log = Counters::default();
            lens.into_iter().for_each(|len| state.fifo.push(Packet { len, ..packet(0, Ecn::NotEct) }));
            state.prob = MAX_PROB;
            state.enqueue(packet(9, Ecn::NotEct), Instant::ZERO, &mut log);
            log.queue.drops_aqm
        };
        assert_eq!([drops([1514, 1513]), drops([1514, 1514])], [0, 1]);
    }

    #[test]
    fn the_delay_is_backlog_by_departure_rate() {
        let mut state = State::new(Params::default(), &context(10));
        let mut log = Counters::default();
        (0..40).for_each(|seq| state.enqueue(packet(seq, Ecn::NotEct), Instant::ZERO, &mut log));
        // one frame every 1.2112 ms = 18925 ticks: 7 * 1514 B in six gaps
        for n in 1..=7 {
            assert_eq!(state.departures.rate, 0);
            let _ = state.dequeue(Instant(1_211_200 * n), &mut log);
        }
        assert_eq!(state.departures.rate, 7 * 1514 * 256 / (6 * 18_925));
        state.on_timer(Instant::from_millis(15), &mut log);
        assert_eq!(state.qdelay, 33 * 1514 * 256 / 23);
        // 24 bits of the backlog: 11082 frames are 16778148 B, 932 more than 2^24
        (0..11_049).for_each(|seq| state.fifo.push(packet(seq, Ecn::NotEct)));
        state.update(Instant::from_millis(30));
        assert_eq!(state.qdelay, 932 * 256 / 23);
    }

    #[test]
    fn updates_come_every_period_the_first_within_one() {
        let mut state = State::new(Params::default(), &context(10));
        let first = state.next_timer();
        assert!(first > Instant::ZERO && first <= Instant::from_millis(30));
        state.on_timer(first, &mut Counters::default());
        assert_eq!(state.next_timer(), first + Duration::from_millis(30));
    }
}
