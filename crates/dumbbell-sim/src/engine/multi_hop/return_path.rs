//! The way back: acknowledgements in their lines, and as packets in the hops.

use super::super::ack_log::{AckContents, QueuedAck};
use super::super::connection::Connection;
use super::super::delay_lines::{frame_listener, DelayLine, ReturnPath, ReturningAck};
use super::super::endpoint::{Arena, Endpoint};
use super::super::port::{BlockPool, NO_BLOCKS};
use super::super::topology::Topology;
use super::hop::END;
use super::{MultiHop, STAGES};
use dumbbell_core::as_dyn;
use dumbbell_core::hint::seldom;
use dumbbell_core::observe::{ListenLevel, Tap};
use dumbbell_core::packet::Packet;
use dumbbell_core::reply::{DatagramAnswer, ReceiverReply};
use dumbbell_core::tcp::Block;
use dumbbell_core::units::Instant;

impl<L: Tap + Send + 'static> MultiHop<L> {
    /// Gives what acknowledgements say to the queue of `hop`, if it reads that, or takes it back.
    #[inline]
    pub(super) fn lend(&mut self, hop: u16) {
        let one = &mut self.hops[usize::from(hop)];
        if one.reads_acks {
            let AckContents { held, pool } = &mut one.hop.bottleneck.log.listener.said;
            std::mem::swap(held, &mut self.held);
            std::mem::swap(pool, &mut self.lines.pool);
        }
    }

    /// The queue of hop `number` has dropped acknowledgements.
    #[cold]
    #[inline(never)]
    pub(super) fn free_lost(&mut self, number: usize) {
        let mut lost = std::mem::take(&mut self.hops[number].hop.bottleneck.log.listener.lost);
        for place in lost.drain(..) {
            let QueuedAck { blocks, .. } = self.release(place);
            if blocks != NO_BLOCKS {
                self.lines.pool.release(blocks);
            }
        }
        self.hops[number].hop.bottleneck.log.listener.lost = lost;
    }

    /// An acknowledgement enters the hops as a packet.
    pub(super) fn send_back(&mut self, reply: ReceiverReply, blocks: u32, now: Instant) {
        let count = if blocks == NO_BLOCKS { 0 } else { self.lines.pool.get(blocks).len() };
        let member = &mut self.members[reply.flow() as usize];
        member.acks += 1;
        if let Some(ack) = reply.ack() {
            member.back_ecn.negotiate(ack);
        }
        let (hop, ecn) = (member.back, reply.codepoint(&member.back_ecn));
        let queued = QueuedAck { reply, blocks };
        let place = match self.free.pop() {
            Some(place) => {
                self.held[place as usize] = queued;
                place
            }
            None => {
                self.held.push(queued);
                self.held.len() as u64 - 1
            }
        };
        let packet = Packet { flow: reply.flow(), len: reply.frame(count), ..Packet::new_ack_slot(place, ecn) };
        if let Some((listener, pool)) = self.back().frame_listener() {
            listener.on_pack_ack(&packet, &reply, pool.blocks_or_none(blocks));
        }
        self.enter(hop, packet, now);
    }

    /// An acknowledgement is in no hop any more.
    #[inline(always)]
    pub(super) fn release(&mut self, place: u64) -> QueuedAck {
        let held = self.held[place as usize];
        self.members[held.reply.flow() as usize].acks -= 1;
        self.free.push(place);
        held
    }

    /// An acknowledgement has left the last hop of its route as this `packet`.
    #[inline(never)]
    pub(super) fn end_of_ack(&mut self, packet: &Packet, now: Instant) {
        let QueuedAck { mut reply, blocks } = self.release(packet.ack_slot());
        if let Some(answer) = reply.answer() {
            reply = DatagramAnswer { ecn: packet.ecn(), ..answer }.into();
        }
        let line = self.members[reply.flow() as usize].line;
        if self.lines.all[line as usize].up {
            self.due.push_back((reply, blocks));
            self.stages.set(STAGES * self.hops.len(), now);
        } else {
            self.lines.push(line, reply, blocks, now);
        }
    }

    /// The first acknowledgement of `line` has come. Returns its sender if it has reached it, and not the first of its hops.
    #[inline(always)]
    pub(super) fn on_line(&mut self, line: usize, now: Instant, arena: &mut Arena) -> Option<u32> {
        let DelayLine { acks, up, .. } = &mut self.lines.all[line];
        let ReturningAck { reply, blocks, .. } = acks.pop_front()?;
        let next = acks.front().map_or(Instant::NEVER, |head| head.at);
        let up = *up;
        self.lines.times.set(line, next);
        if up && self.members[reply.flow() as usize].back != END {
            self.send_back(reply, blocks, now);
            return None;
        }
        Some(self.on_ack(&reply, blocks, now, arena))
    }

    /// An acknowledgement reaches its sender.
    #[inline(always)]
    pub(super) fn on_ack(&mut self, reply: &ReceiverReply, blocks: u32, now: Instant, arena: &mut Arena) -> u32 {
        let Endpoint { transport, stages, .. } = arena.get_mut(reply.flow());
        // nothing that a sender does puts SACK blocks on their way
        let pool = (blocks != NO_BLOCKS).then(|| std::mem::take(&mut self.lines.pool));
        let sacked: &[Block] = pool.as_ref().map_or(&[], |pool| pool.get(blocks));
        if self.listener().listen_level() >= ListenLevel::Frames {
            self.listener().on_ack(reply, sacked, now);
        }
        let timer = transport.on_back(reply, sacked, stages, now, as_dyn!(&mut *self, super::super::port::Ingress));
        if let Some(pool) = pool {
            seldom();
            self.lines.pool = pool;
            self.lines.pool.release(blocks);
        }
        arena.plan_after_answer(reply.flow(), timer, now);
        reply.flow()
    }
}

impl<L: Tap + Send + 'static> ReturnPath for &mut MultiHop<L> {
    #[inline(always)]
    fn push_ack(&mut self, line: u32, reply: ReceiverReply, blocks: u32, now: Instant, _by_timer: bool) {
        if self.members[reply.flow() as usize].back == END || self.lines.all[line as usize].up {
            self.lines.push(line, reply, blocks, now);
        } else {
            self.send_back(reply, blocks, now);
        }
    }

    fn pool(&mut self) -> &mut BlockPool {
        &mut self.lines.pool
    }

    #[inline(always)]
    fn frame_listener(&mut self) -> Option<(&mut dyn Tap, &BlockPool)> {
        // the first is the one called `bottleneck`
        frame_listener(&mut self.hops[0].hop.bottleneck.log.listener.listener, &self.lines.pool)
    }
}
