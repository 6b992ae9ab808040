//! Tail drop by packets: Linux `pfifo` (`net/sched/sch_fifo.c`).
//!
//! Accepts a packet iff fewer than `limit` are queued; otherwise drops the arriving one. No ECN.

use super::fifo::Fifo;
use super::{Aqm, Dequeue, QueueContext, Verdict};
use crate::log::{At, Log};
use crate::packet::Packet;
use crate::param::ParamError;
use crate::units::Instant;

/// Name in experiment files.
pub const NAME: &str = "pfifo";
/// One line.
pub const TITLE: &str = "tail drop, limited in packets";
/// Specification and deviations.
pub const SOURCE: &str = "Linux net/sched/sch_fifo.c; no deviation";

crate::params! {
    /// Parameters of tail drop by packets.
    pub struct Params {
        /// Packets that fit.
        limit: u32 = 1000, unit "packets", range 0_u32, 100_000_000_u32, source "default txqueuelen of an Ethernet device, sch_fifo.c";
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

    #[inline(always)]
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        let fits = self.fifo.has_place(self.params.limit as usize, now);
        self.fifo.accept_if(fits, packet, now, log);
    }

    #[inline(always)]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        let Some(packet) = self.fifo.pop() else { return Dequeue::Empty };
        log.on_dequeue(&packet, At::time(now));
        Dequeue::Packet(packet)
    }

    fn bypass_max_len(&self) -> u16 {
        if self.params.limit > 0 {
            u16::MAX
        } else {
            0
        }
    }

    look_at_fifo!();
    foresee_fifo!();

    #[inline(always)]
    fn pass<L: Log>(&mut self, packet: &mut Packet, now: Instant, start: Instant, log: &mut L) -> Verdict {
        let fits = self.fifo.has_place(self.params.limit as usize, now);
        self.fifo.pass_if(fits, packet, now, start, log)
    }

    #[inline(always)]
    fn dequeue_foreseen<L: Log>(&mut self, at: Instant, log: &mut L) -> Option<Dequeue> {
        Some(self.dequeue(at, log))
    }
}
