//! Tail drop by bytes: Linux `bfifo` (`net/sched/sch_fifo.c`).
//!
//! Accepts a packet iff it still fits into `limit` bytes; otherwise drops the arriving one. No ECN.

use super::fifo::Fifo;
use super::{Aqm, Dequeue, QueueContext, Verdict};
use crate::log::{At, Log};
use crate::packet::{Packet, MTU_FRAME};
use crate::param::ParamError;
use crate::units::Instant;

/// Name in experiment files.
pub const NAME: &str = "bfifo";
/// One line.
pub const TITLE: &str = "tail drop, limited in bytes";
/// Specification and deviations.
pub const SOURCE: &str = "Linux net/sched/sch_fifo.c; no deviation";

crate::params! {
    /// Parameters of tail drop by bytes.
    pub struct Params {
        /// Bytes of frames that fit; by default 1000 full frames of `hosts.mss`.
        limit: u64 = 1000 * MTU_FRAME as u64, unit "bytes", range 0_u64, 1_000_000_000_000_u64, frames 1000,
            source "default txqueuelen of an Ethernet device times psched_mtu, sch_fifo.c";
    }
}

/// A queue with its parameters.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    fifo: Fifo,
}

impl State {
    /// An empty queue.
    pub fn new(params: Params, _context: &QueueContext) -> State {
        State { params, fifo: Fifo::default() }
    }

    /// Whether a packet of `len` bytes that arrives at `now` fits.
    #[inline(always)]
    fn has_room_for(&mut self, len: u16, now: Instant) -> bool {
        self.fifo.waiting(now).1 + u64::from(len) <= self.params.limit
    }
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn changeable(&self) -> &'static [&'static str] {
        &["limit"]
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
        let fits = self.has_room_for(packet.len, now);
        self.fifo.accept_if(fits, packet, now, log);
    }

    #[inline(always)]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        let Some(packet) = self.fifo.pop() else { return Dequeue::Empty };
        log.on_dequeue(&packet, At::time(now));
        Dequeue::Packet(packet)
    }

    fn bypass_max_len(&self) -> u16 {
        u16::try_from(self.params.limit).unwrap_or(u16::MAX)
    }

    look_at_fifo!();
    foresee_fifo!();

    #[inline(always)]
    fn pass<L: Log>(&mut self, packet: &mut Packet, now: Instant, start: Instant, log: &mut L) -> Verdict {
        let fits = self.has_room_for(packet.len, now);
        self.fifo.pass_if(fits, packet, now, start, log)
    }

    #[inline(always)]
    fn dequeue_foreseen<L: Log>(&mut self, at: Instant, log: &mut L) -> Option<Dequeue> {
        Some(self.dequeue(at, log))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{context, packet};
    use super::*;
    use crate::packet::Ecn;
    use crate::record::Counters;

    fn offer(limit: u64, lengths: &[u16]) -> (State, Counters) {
        let (mut state, mut log) = (State::new(Params { limit }, &context(10)), Counters::default());
        for (seq, &len) in (0..).zip(lengths) {
            state.enqueue(Packet { len, ..packet(seq, Ecn::Ect0) }, Instant::ZERO, &mut log);
        }
        (state, log)
    }

    #[test]
    fn a_packet_that_fills_the_limit_exactly_is_accepted_and_the_next_is_not() {
        // 1514 + 1486 = 3000 B fits; one byte more does not.
        let (state, log) = offer(3000, &[1514, 1486, 1]);
        assert_eq!((state.packets(), state.bytes(), log.queue.drops_overflow), (2, 3000, 1));
    }

    #[test]
    fn a_small_packet_fits_where_a_large_one_did_not() {
        let (state, log) = offer(2000, &[1514, 1514, 400]);
        assert_eq!((state.packets(), state.bytes(), log.queue.drops_overflow), (2, 1914, 1));
    }

    #[test]
    fn a_limit_below_one_packet_drops_it_even_from_an_empty_queue() {
        let (state, log) = offer(1513, &[1514]);
        assert_eq!((state.packets(), log.flows.flow_counters(0).dropped_overflow), (0, 1));
    }

    #[test]
    fn the_default_holds_a_thousand_full_frames() {
        assert_eq!(Params::default().limit, 1_514_000);
    }
}
