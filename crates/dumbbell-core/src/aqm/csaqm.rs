//! CSAQM: core-stateless AQM. One queue, which knows nothing of flows: it marks the packets of the lowest value (`Packet::value`, set by
//! `value_marker` at the edge) while more bytes are queued than the target allows.
//!
//! Specification: Nádas et al. on per-packet values (ppv.elte.hu), as section III of Fejes, Gombos, Laki and Nádas, "On the
//! Incompatibility of Scalable Congestion Controls over the Internet" (2020), describes it. There is no public code. A histogram counts the queued bytes by value. Every `interval` it gives a congestion threshold
//! value (CTV): from the highest value down, bins are added up while they fit into rate times `target`, and the CTV is the lowest value
//! above the first bin that does not fit. Until the next update, packets that leave with a value below the CTV are marked CE, or dropped
//! if they are not ECN-capable. If all fits, the CTV is 0, and nothing is marked.
//!
//! So a bin that fits only in part is marked as a whole (the patent US 12,021,756 leaves it unmarked). A packet that is below the CTV is
//! counted until it leaves: while the queue is 25 % above its target, a fifth of what leaves is marked.
//!
//! A bin is 8 values: 1/256 octave, or 0.27 % of the rate. Packets that no edge valued are in the lowest bin. The value 65535 is never
//! below a CTV. The interval is 5 ms whatever the target is; updates begin with the run. VDQ-CSAQM, the variant with two queues, is not there: rates,
//! targets and scheduler of its virtual queues are not published.

use super::fifo::Fifo;
use super::{Aqm, Dequeue, QueueContext};
use crate::log::{At, DropReason, DropSite, Log, MarkReason};
use crate::packet::{Packet, MTU_FRAME};
use crate::param::ParamError;
use crate::units::{Duration, Instant, Rate};

/// Name in experiment files.
pub const NAME: &str = "csaqm";
/// One line.
pub const TITLE: &str = "core-stateless AQM: marks the packets of the lowest value, as many as are queued above the target";
/// Specification and deviations.
pub const SOURCE: &str = "per-packet values (ppv.elte.hu), as in section III of Fejes et al. 2020; no code is public";

crate::params! {
    /// Parameters of CSAQM.
    pub struct Params {
        /// Bytes of frames that fit, by default 1000 full frames of `hosts.mss`; tail drop beyond.
        limit: u64 = 1000 * MTU_FRAME as u64, unit "bytes", range 0_u64, 1_000_000_000_000_u64, frames 1000, source "the default is ours: that of bfifo";
        /// Delay that the unmarked packets may cause.
        target: Duration = Duration::from_millis(5), unit "", range Duration(0), Duration::from_secs(100), source "the default is ours; the paper has K times the base RTT, K = 0.05 to 2";
        /// Time between two updates of the threshold value.
        interval: Duration = Duration::from_millis(5), unit "", range Duration::from_micros(100), Duration::from_secs(10), source "section III of the paper: 5 ms";
    }
}

/// A bin is 2^3 values.
const BIN_SHIFT: u32 = 3;
/// All values.
const BINS: usize = 1 << (u16::BITS - BIN_SHIFT);

/// The bin of `value`.
#[inline]
fn bin(value: u16) -> usize {
    usize::from(value >> BIN_SHIFT)
}

/// Queued bytes by value.
#[derive(Clone, Debug)]
struct ValueHistogram(Box<[u64; BINS]>);

impl ValueHistogram {
    fn new() -> ValueHistogram {
        ValueHistogram(Box::new([0; BINS]))
    }

    #[inline]
    fn add(&mut self, packet: &Packet) {
        self.0[bin(packet.value)] += u64::from(packet.len);
    }

    #[inline]
    fn remove(&mut self, packet: &Packet) {
        self.0[bin(packet.value)] -= u64::from(packet.len);
    }

    /// The least value such that all bins from it on, together, are `room` bytes or less; the highest value if not even the highest bin is.
    fn threshold(&self, room: u64) -> u16 {
        let mut left = room;
        for (number, &bytes) in self.0.iter().enumerate().rev() {
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => return u16::try_from((number + 1) << BIN_SHIFT).unwrap_or(u16::MAX),
            }
        }
        0
    }
}

/// A queue with its parameters.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    rate: Rate,
    fifo: Fifo,
    histogram: ValueHistogram,
    /// Congestion threshold value.
    ctv: u16,
    next_update: Instant,
    updates: u64,
    /// Updates that found more than fits.
    updates_above: u64,
    /// Packets that left below the threshold value.
    below_ctv: u64,
}

impl State {
    /// An empty queue.
    pub fn new(params: Params, context: &QueueContext) -> State {
        State {
            rate: context.rate,
            fifo: Fifo::default(),
            histogram: ValueHistogram::new(),
            ctv: 0,
            next_update: context.now + params.interval,
            updates: 0,
            updates_above: 0,
            below_ctv: 0,
            params,
        }
    }

    /// Returns the bytes that the link sends within the target.
    fn room(&self) -> u64 {
        match self.rate {
            Rate::UNLIMITED => u64::MAX,
            rate => {
                let bytes = u128::from(rate.bits()) * u128::from(self.params.target.as_nanos()) / 8_000_000_000;
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        }
    }
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn changeable(&self) -> &'static [&'static str] {
        &["limit", "target", "interval"]
    }

    fn take_params(&mut self, fresh: State, _now: Instant) -> Result<(), ParamError> {
        self.params = fresh.params;
        Ok(())
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.fifo.bytes() + bytes <= self.params.limit
    }

    #[inline(always)]
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        if !self.has_room(u64::from(packet.len)) {
            log.on_drop(&packet, DropReason::Overflow, DropSite::Arrival, At::time(now));
            return;
        }
        self.histogram.add(&packet);
        self.fifo.accept(packet, now, log);
    }

    #[inline(always)]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        let at = At::time(now);
        while let Some(mut packet) = self.fifo.pop() {
            self.histogram.remove(&packet);
            let below = packet.value < self.ctv;
            self.below_ctv += u64::from(below);
            if !below || log.set_ce(&mut packet, MarkReason::Aqm, at) {
                log.on_dequeue(&packet, at);
                return Dequeue::Packet(packet);
            }
            log.on_drop(&packet, DropReason::Aqm, DropSite::Queue, at);
        }
        Dequeue::Empty
    }

    look_at_fifo!();

    fn next_timer(&self) -> Instant {
        self.next_update
    }

    fn on_timer<L: Log>(&mut self, now: Instant, _log: &mut L) {
        let room = self.room();
        let above = self.fifo.bytes() > room;
        self.ctv = if above { self.histogram.threshold(room) } else { 0 };
        self.updates += 1;
        self.updates_above += u64::from(above);
        self.next_update = now + self.params.interval;
    }

    fn set_rate(&mut self, rate: Rate, _now: Instant) {
        self.rate = rate;
    }

    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("ctv", f64::from(self.ctv));
    }

    fn counters(&self) -> Vec<(String, u64)> {
        [("below_ctv", self.below_ctv), ("updates", self.updates), ("updates_above", self.updates_above)]
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
    use crate::rng::{mix, Rng};

    /// At 10 Mbit/s, 10,000 B fit into the target.
    const TARGET: Duration = Duration::from_millis(8);

    fn state() -> State {
        State::new(Params { target: TARGET, limit: 1_000_000, ..Params::default() }, &context(10))
    }

    fn offer(state: &mut State, ecn: Ecn, values: impl IntoIterator<Item = u16>) {
        for (seq, value) in (0..).zip(values) {
            state.enqueue(Packet { len: 1000, value, ..packet(seq, ecn) }, Instant::ZERO, &mut ());
        }
    }

    /// Values of what leaves until the queue is empty, and whether each was marked.
    fn leave(state: &mut State, now: Instant, log: &mut Counters) -> Vec<(u16, bool)> {
        std::iter::from_fn(|| match state.dequeue(now, log) {
            Dequeue::Packet(packet) => Some((packet.value, packet.ecn() == Ecn::Ce)),
            _ => None,
        })
        .collect()
    }

    /// The threshold value with 1000 B of each of `values` in the queue.
    fn ctv(values: impl IntoIterator<Item = u16>) -> u16 {
        let mut state = state();
        offer(&mut state, Ecn::Ect0, values);
        state.on_timer(Instant::from_millis(5), &mut ());
        state.ctv
    }

    #[test]
    fn the_threshold_lies_above_the_first_bin_that_does_not_fit() {
        // 800, 1600, ... in bins 100, 200, ...: the ten highest are 10,000 B and fit exactly
        assert_eq!(ctv((1..=10).map(|n| 800 * n)), 0);
        assert_eq!(ctv((1..=11).map(|n| 800 * n)), 808);
        assert_eq!(ctv((1..=12).map(|n| 800 * n)), 1608);
        // two packets of bin 300 together do not fit beside nine of the highest values; one above them would
        assert_eq!(ctv([2400, 2407, 900].into_iter().chain([60_000; 9])), 2408);
        assert_eq!(ctv([2400, 2408, 900].into_iter().chain([60_000; 9])), 2408);
        // packets that no edge valued are first to be marked, those of the highest value never are
        assert_eq!(ctv([0; 11]), 8);
        assert_eq!(ctv([u16::MAX; 11]), u16::MAX);
        assert_eq!(ctv([0, 7, 8].into_iter().chain([u16::MAX; 9])), 8);
    }

    #[test]
    fn what_leaves_below_the_threshold_is_marked_or_dropped() {
        let values = [800, 9600, 1600, 2400, 3200, 4000, 4800, 5600, 6400, 7200, 8000, 8800];
        let below = |value: u16| value < 1608;
        for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::NotEct] {
            let (mut state, mut log) = (state(), Counters::default());
            offer(&mut state, ecn, values);
            state.on_timer(Instant::from_millis(5), &mut log);
            let left = leave(&mut state, Instant::from_millis(6), &mut log);
            let expected = values.map(|value| (value, below(value)));
            if ecn.is_capable() {
                assert_eq!(left, expected);
                assert_eq!((log.queue.ce_marks, log.queue.drops_aqm), (2, 0));
            } else {
                assert!(left.into_iter().eq(expected.into_iter().filter(|(_, marked)| !marked)));
                assert_eq!((log.queue.ce_marks, log.queue.drops_aqm), (0, 2));
            }
            assert_eq!(state.counters()[0], ("below_ctv".to_owned(), 2));
        }
    }

    #[test]
    fn the_threshold_itself_is_not_below() {
        let (mut state, mut log) = (state(), Counters::default());
        offer(&mut state, Ecn::Ect0, [8, 0, 7].into_iter().chain([u16::MAX; 9]));
        state.on_timer(Instant::from_millis(5), &mut log);
        assert_eq!(
            leave(&mut state, Instant::from_millis(6), &mut log)[..4],
            [(8, false), (0, true), (7, true), (u16::MAX, false)]
        );
    }

    #[test]
    fn the_threshold_holds_for_an_interval() {
        let (mut state, mut log) = (state(), Counters::default());
        offer(&mut state, Ecn::Ect0, [800; 20]);
        let mut next = |queue: &mut State, ms: u64| match queue.dequeue(Instant::from_millis(ms), &mut log) {
            Dequeue::Packet(packet) => packet.ecn() == Ecn::Ce,
            _ => panic!("there are packets"),
        };
        // nothing is marked before the first update
        assert!(!next(&mut state, 4));
        assert_eq!(state.next_timer(), Instant::from_millis(5));
        state.on_timer(Instant::from_millis(5), &mut ());
        // until the next one everything is, though from the ninth on 10,000 B or less are queued
        assert!((0..12).all(|_| next(&mut state, 9)));
        assert_eq!(state.next_timer(), Instant::from_millis(10));
        state.on_timer(Instant::from_millis(10), &mut ());
        assert!((0..7).all(|_| !next(&mut state, 11)));
        assert_eq!(state.counters().iter().map(|counter| counter.1).collect::<Vec<_>>(), [12, 2, 1]);
    }

    #[test]
    fn a_new_rate_counts_from_the_next_update() {
        let of = |bits: u64| {
            let mut state = state();
            offer(&mut state, Ecn::Ect0, (1..=12).map(|n| 800 * n));
            state.on_timer(Instant::from_millis(5), &mut ());
            state.set_rate(Rate(bits), Instant::from_millis(6));
            assert_eq!(state.ctv, 1608);
            state.on_timer(Instant::from_millis(10), &mut ());
            state.ctv
        };
        // 5000, 11,000 and 12,000 B fit
        assert_eq!([5_000_000, 11_000_000, 12_000_000].map(of), [5608, 808, 0]);
        assert_eq!(of(Rate::UNLIMITED.bits()), 0);
    }

    #[test]
    fn what_exceeds_the_limit_is_dropped_and_not_counted() {
        let mut state = State::new(Params { target: TARGET, limit: 11_999, ..Params::default() }, &context(10));
        let mut log = Counters::default();
        for seq in 0..13 {
            state.enqueue(Packet { len: 1000, value: 800, ..packet(seq, Ecn::Ect0) }, Instant::ZERO, &mut log);
        }
        assert_eq!((state.packets(), state.bytes(), log.queue.drops_overflow), (11, 11_000, 2));
        assert_eq!(state.histogram.0.iter().sum::<u64>(), 11_000);
        assert!(state.has_room(999) && !state.has_room(1000));
    }

    /// A random story with any values and codepoints, where packet `seq` is of flow `flow(seq)`: what left, and marked or not.
    fn story(flow: impl Fn(u64) -> u32) -> Vec<(u64, Ecn)> {
        let (mut state, mut rng, mut now) = (state(), Rng::stream(3, "test", 0), Instant::ZERO);
        let mut out = Vec::new();
        for seq in 0..20_000 {
            now += Duration(rng.draw_below(1_900_000));
            while state.next_timer() <= now {
                state.on_timer(state.next_timer(), &mut ());
            }
            let (ecn, len) = ([Ecn::NotEct, Ecn::Ect0][(mix(seq) % 2) as usize], 66 + rng.draw_below(1449) as u16);
            let one = Packet { len, value: rng.next_u32() as u16, flow: flow(seq), ..packet(seq, ecn) };
            state.enqueue(one, now, &mut ());
            if rng.draw_below(20) > 0 {
                if let Dequeue::Packet(packet) = state.dequeue(now, &mut ()) {
                    out.push((packet.number(), packet.ecn()));
                }
            }
            assert_eq!(state.histogram.0.iter().sum::<u64>(), state.bytes());
        }
        out
    }

    #[test]
    fn it_knows_nothing_of_flows() {
        // the same packets, as one flow, as a few, and each as a flow of its own
        let one = story(|_| 0);
        let marks = one.iter().filter(|(_, ecn)| *ecn == Ecn::Ce).count();
        assert!(marks > 100 && marks < 10_000 && one.len() < 19_900, "{marks} of {}", one.len());
        assert_eq!(one, story(|seq| mix(seq) as u32 % 7));
        assert_eq!(one, story(|seq| mix(seq) as u32));
        // what it keeps beside the packets is of one size: 8192 bins of 8 B
        assert_eq!(std::mem::size_of_val(&*state().histogram.0), 65_536);
    }
}
