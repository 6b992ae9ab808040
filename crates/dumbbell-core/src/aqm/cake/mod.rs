//! CAKE: a shaper without bursts over priority tins, fair queueing of hosts and flows, and COBALT in every flow queue.
//!
//! Specification: Linux `net/sched/sch_cake.c` (6.18), tc-cake(8); Høiland-Jørgensen, Täht, Morton, "Piece of CAKE" (LANMAN
//! 2018); for SCE, `sch_cake.c` of github.com/chromi/sce. Cut along its parts: [`shaper`], [`tins`], [`diffserv`], [`isolation`], [`turns`],
//! [`walk`], [`groups`], [`chances`], [`cobalt`], [`sce`], [`ack_filter`].
//!
//! Deviations: no `nat`, `autorate-ingress`, filters or negative overhead, and no `wash`, since nothing reads the
//! codepoint behind the bottleneck; packets are single frames, so that `split-gso` has no meaning. The longest queue is found by
//! a scan over the queues in use instead of a heap; among equally long ones it takes the first. `interval` is 64 bits wide
//! inside the control law, where Linux cuts it to 4.3 s. A COBALT mark on a packet that BLUE drops is not counted, as in Linux.

pub mod ack_filter;
pub mod chances;
pub mod cobalt;
pub mod diffserv;
pub mod groups;
pub mod isolation;
pub mod sce;
pub mod shaper;
pub mod tins;
pub mod turns;
pub mod walk;

use super::store::Store;
use super::{Aqm, Dequeue, FlowKey, QueueContext};
use crate::link_layer::{Framing, LinkLayer};
use crate::log::{At, DropReason, DropSite, Log, Mark, MarkReason};
use crate::packet::{Ecn, Packet};
use crate::param::ParamError;
use crate::units::{Duration, Instant, Rate};
use ack_filter::AckFilter;
use cobalt::Coins;
use diffserv::Diffserv;
use isolation::{FlowState, FlowTable, Isolation};
use shaper::{bytes_per_second, CakeShaper};
use tins::{Tin, DECAYING, NEW, OLD};

/// Name in experiment files.
pub const NAME: &str = "cake";
/// One line.
pub const TITLE: &str = "common applications kept enhanced: shaper, tins, flow isolation and COBALT";
/// Specification and deviations.
pub const SOURCE: &str = "Linux 6.18 sch_cake.c, tc-cake(8); no nat, wash, autorate-ingress, split-gso, negative overhead";

crate::params! {
    /// Parameters of CAKE.
    pub struct Params {
        /// Rate of the shaper; 0: unlimited; unset: the bottleneck's rate, with its changes.
        bandwidth: Option<Rate> = None, unit "", range Rate(0), Rate(1_000_000_000_000), source "tc-cake(8): bandwidth";
        /// Priority tins.
        diffserv: Diffserv = Diffserv::Diffserv3, unit "", source "tc-cake(8): diffserv3 is the default";
        /// Between what the capacity is shared.
        isolation: Isolation = Isolation::TripleIsolate, unit "", source "tc-cake(8): triple-isolate is the default";
        /// Round-trip time to be expected: the interval; target is a twentieth of it.
        rtt: Duration = Duration::from_millis(100), unit "", range Duration::from_micros(1), Duration::from_secs(1000),
            source "tc-cake(8): internet (100 ms) is the default; 5 % of it as target";
        /// Bytes on the link in front of the IP packet, instead of the Ethernet header; unset: as the hop has it.
        overhead: Option<u16> = None, unit "bytes", range 0_u16, 256_u16, source "tc-cake(8): raw is the default";
        /// Smallest packet on the link, overhead included; unset: as the hop has it.
        mpu: Option<u16> = None, unit "bytes", range 0_u16, 256_u16, source "tc-cake(8): mpu";
        /// Cells or code blocks of the link; unset: as the hop has it.
        framing: Option<Framing> = None, unit "", source "tc-cake(8): noatm is the default";
        /// Memory for packets; unset: four times rate times rtt, at least 4 MiB, at most 10240 full frames.
        memlimit: Option<u32> = None, unit "bytes", range 1_u32, u32::MAX, source "tc-cake(8): memlimit; cake_reconfigure, sch_cake.c";
        /// Shapes traffic that has already passed the bottleneck: charges dropped packets, raises the target for many flows.
        ingress: bool = false, unit "", source "tc-cake(8): egress is the default";
        /// Drops acknowledgements in a queue that one behind them makes superfluous.
        ack_filter: AckFilter = AckFilter::Off, unit "", source "tc-cake(8): no-ack-filter is the default";
        /// Marks some congestion (SCE): ECT(0) becomes ECT(1) with a probability that rises with the delay.
        sce: sce::SceMode = sce::SceMode::Off, unit "", source "tc-cake of github.com/chromi/iproute2-sce: no-sce, sce, sce-single, sce-thresh; \
            off without the attribute (sch_cake.c of chromi/sce)";
        /// With `sce` = "thresh": one packet in so many is marked at target, all of them at twice the target.
        sce_thresh: u16 = 8, unit "packets", range 1_u16, 1024_u16,
            source "tc-cake of github.com/chromi/iproute2-sce: sce-thresh, 1 to 1024; there is no default, 8 is ours";
    }
}

impl Params {
    fn sce_setting(&self) -> sce::SceSetting {
        sce::SceSetting { mode: self.sce, thresh: self.sce_thresh }
    }
}

/// Least memory for packets if nothing else is configured (`cake_reconfigure`, sch_cake.c).
const MIN_BUFFER: u64 = 4 << 20;
/// Packets that fit in the default memory (`sch->limit`, sch_cake.c), as full frames.
const PACKET_LIMIT: u64 = 10240;
/// Bytes of memory for packets at a shaper rate.
fn buffer_limit(params: &Params, bytes_per_second: u64, full_frame: u16) -> u64 {
    if let Some(memlimit) = params.memlimit {
        return u64::from(memlimit);
    }
    let by_rate = match bytes_per_second {
        0 => u64::MAX,
        rate => ((4 * u128::from(rate) * u128::from(params.rtt.0) / 1_000_000_000) as u64).max(MIN_BUFFER),
    };
    by_rate.min(PACKET_LIMIT * u64::from(full_frame))
}

/// CAKE with its queues.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    layer: LinkLayer,
    /// Layers before the last changes of overhead, mpu or framing, in order, each with the time of the change that ended it.
    earlier_layers: Vec<(Instant, LinkLayer)>,
    /// The time of the last of these changes.
    layer_since: Instant,
    full_frame: u16,
    /// Rate of the link, which is that of the shaper if no `bandwidth` is set.
    link_rate: Rate,
    shaped: bool,
    shaper: CakeShaper,
    tins: Vec<Tin>,
    current_tin: usize,
    table: FlowTable,
    store: Store,
    memory_limit: u64,
    coins: Coins,
    /// Acknowledgements that the filter dropped.
    filtered: u64,
}

impl State {
    /// An empty CAKE.
    pub fn new(params: Params, context: &QueueContext) -> State {
        let rate = bytes_per_second(params.bandwidth.unwrap_or(context.rate));
        let new_tin = |(tin_rate, quantum)| Tin::new(tin_rate, quantum, context.full_frame, params.rtt, params.sce_setting());
        let tins: Vec<Tin> = params.diffserv.shares(rate).into_iter().map(new_tin).collect();
        let table = FlowTable::new(params.isolation, params.diffserv, tins.len(), context.seed);
        State {
            layer: context.link_layer.with_overrides(params.overhead, params.mpu, params.framing),
            earlier_layers: Vec::new(),
            layer_since: Instant::ZERO,
            full_frame: context.full_frame,
            link_rate: context.rate,
            shaped: rate > 0,
            shaper: CakeShaper::new(rate),
            tins,
            current_tin: 0,
            table,
            store: Store::new(context.small_heads),
            memory_limit: buffer_limit(&params, rate, context.full_frame),
            coins: Coins::new(context.seed),
            filtered: 0,
            params,
        }
    }

    /// Stores `packet` at the tail of queue `slot`.
    #[inline(always)]
    fn put(&mut self, slot: u16, packet: Packet) {
        self.table.backlogs[slot as usize] += u32::from(packet.len);
        let flow = &mut self.table.flows[slot as usize];
        self.store.push(&mut flow.packets, packet);
        self.tins[flow.tin as usize].packets += 1;
    }

    /// An acknowledgement has come to the tail of queue `slot`: it may make an older one superfluous.
    #[cold]
    fn filter<L: Log>(&mut self, slot: u16, tin: usize, now: Instant, log: &mut L) {
        let Some(acks) = log.acks() else { return };
        let flow = &mut self.table.flows[slot as usize];
        let Some(packet) = ack_filter::filter(self.params.ack_filter, &mut self.store, &mut flow.packets, acks) else {
            return;
        };
        self.table.backlogs[slot as usize] -= u32::from(packet.len);
        self.tins[tin].packets -= 1;
        self.filtered += 1;
        if self.params.ingress {
            self.charge(tin, &packet, now, true);
        }
        log.on_drop(&packet, DropReason::Filter, DropSite::Queue, At { now, queue: tin as u32 });
    }

    /// Takes the head of queue `slot`.
    fn take(&mut self, slot: u16) -> Option<Packet> {
        let flow = &mut self.table.flows[slot as usize];
        let packet = self.store.pop(&mut flow.packets)?;
        self.table.backlogs[slot as usize] -= u32::from(packet.len);
        self.tins[flow.tin as usize].packets -= 1;
        Some(packet)
    }

    /// Bytes of a packet on the link, by the layer that was set when it came (`cake_enqueue`: `adjusted_len`).
    #[inline(always)]
    fn wire_bytes(&self, packet: &Packet) -> u32 {
        if packet.enqueue_time > self.layer_since {
            self.layer.wire_bytes(packet.len)
        } else {
            self.earlier_wire_bytes(packet)
        }
    }

    #[cold]
    #[inline(never)]
    fn earlier_wire_bytes(&self, packet: &Packet) -> u32 {
        let found = self.earlier_layers.iter().find(|(until, _)| packet.enqueue_time <= *until);
        found.map_or(self.layer, |(_, layer)| *layer).wire_bytes(packet.len)
    }

    /// Charges a packet to the clocks; returns the bytes charged.
    #[inline]
    fn charge(&mut self, tin: usize, packet: &Packet, now: Instant, dropped: bool) -> i32 {
        let bytes = self.wire_bytes(packet);
        if self.shaped {
            self.tins[tin].charge(bytes, now);
            self.shaper.charge(bytes, dropped);
        }
        bytes as i32
    }

    /// Charges a packet of queue `slot`, which is the first of `list`, to the clocks and to the turns of its flow and tin.
    #[inline(always)]
    fn charge_turn(&mut self, slot: u16, tin: usize, list: usize, packet: &Packet, now: Instant, dropped: bool) {
        let bytes = self.charge(tin, packet, now, dropped);
        match list {
            OLD => self.table.turns[tin].charge(bytes),
            _ => self.table.flows[slot as usize].deficit -= bytes,
        }
        if !self.shaped {
            self.tins[tin].deficit -= bytes;
        }
    }

    /// Drops the head of the longest queue: the memory is full.
    #[cold]
    fn drop_from_longest<L: Log>(&mut self, now: Instant, log: &mut L) {
        let slot = self.table.longest();
        let Some(packet) = self.take(slot) else { return };
        let flow = &mut self.table.flows[slot as usize];
        let tin = flow.tin as usize;
        flow.cobalt.queue_full(&self.tins[tin].thresholds, now);
        if self.params.ingress {
            self.charge(tin, &packet, now, true);
        }
        log.on_drop(&packet, DropReason::Overflow, DropSite::Queue, At { now, queue: tin as u32 });
    }

    /// Takes queue `slot` of `tin` out of `list`; from [`OLD`] only the first can be taken.
    #[inline(always)]
    fn remove(&mut self, tin: usize, slot: u16, list: usize) {
        match list {
            OLD => self.table.flows[slot as usize].deficit = self.table.turns[tin].pop(),
            _ => self.tins[tin].lists[list].remove(&mut self.table.flows, slot),
        }
    }

    /// The new flow `slot` has used up its first turn: from now on it gets turns behind all others.
    #[inline]
    fn join_turns(&mut self, tin: usize, slot: u16, list: usize) {
        let flow = &mut self.table.flows[slot as usize];
        if flow.state == FlowState::Sparse {
            if flow.packets.is_empty() {
                // The flow goes through the bulk rotation for its deficit, but does not count as bulk until it has packets again.
                flow.state = FlowState::SparseWait;
            } else {
                self.become_bulk(tin, slot);
            }
        }
        self.tins[tin].lists[list].remove(&mut self.table.flows, slot);
        self.table.give_first_turn(slot, self.tins[tin].flow_quantum);
    }

    /// From sparse to bulk.
    #[inline]
    fn become_bulk(&mut self, tin: usize, slot: u16) {
        self.table.flows[slot as usize].state = FlowState::Bulk;
        self.tins[tin].sparse_flows -= 1;
        self.tins[tin].bulk_flows += 1;
        self.table.join_bulk(slot);
    }

    /// A flow was served and had no packets: it leaves, at once or when its COBALT is at rest.
    fn retire(&mut self, tin: usize, slot: u16, list: usize, now: Instant) {
        let flow = &mut self.table.flows[slot as usize];
        flow.cobalt.queue_empty(&self.tins[tin].thresholds, now);
        let state = flow.state;
        if flow.cobalt.is_at_rest(now) {
            flow.state = FlowState::None;
            self.remove(tin, slot, list);
        } else {
            flow.state = FlowState::Decaying;
            self.remove(tin, slot, list);
            self.tins[tin].lists[DECAYING].push(&mut self.table.flows, slot);
        }
        match state {
            FlowState::Sparse | FlowState::SparseWait => self.tins[tin].sparse_flows -= 1,
            FlowState::Bulk => {
                self.tins[tin].bulk_flows -= 1;
                self.table.leave_bulk(slot);
            }
            FlowState::Decaying | FlowState::None => {}
        }
    }

    /// The shaper has another rate from now on.
    fn reshape(&mut self, rate: Rate, now: Instant) {
        if !self.shaped {
            // The clocks stood still without a shaper: the time since gives no credit.
            self.shaper.wake(now);
        }
        self.configure(bytes_per_second(rate));
    }

    /// Computes what follows from the parameters and the rate of the shaper, bytes per second (`cake_reconfigure`).
    fn configure(&mut self, rate: u64) {
        self.shaped = rate > 0;
        self.shaper.set_rate(rate);
        for (tin, (tin_rate, _)) in self.tins.iter_mut().zip(self.params.diffserv.shares(rate)) {
            tin.set_rate(tin_rate, self.full_frame, self.params.rtt, self.params.sce_setting());
        }
        for turns in &mut self.table.turns {
            turns.forget_gains();
        }
        self.memory_limit = buffer_limit(&self.params, rate, self.full_frame);
    }
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn flow_starts(&mut self, flow: u32, key: &FlowKey) {
        self.table.flow_starts(flow, key);
    }

    #[inline]
    fn enqueue<L: Log>(&mut self, mut packet: Packet, now: Instant, log: &mut L) {
        let slot = self.table.slot(packet.flow);
        let tin = self.table.flows[slot as usize].tin as usize;
        if self.tins[tin].packets == 0 {
            self.tins[tin].next = self.tins[tin].next.max(now);
            if self.store.packets() == 0 {
                self.shaper.wake(now);
            }
        }
        packet.enqueue_time = now;
        log.on_enqueue(&packet, At { now, queue: tin as u32 });
        self.put(slot, packet);
        if self.params.ack_filter != AckFilter::Off && packet.is_back() {
            self.filter(slot, tin, now, log);
        }
        let state = self.table.flows[slot as usize].state;
        match state {
            FlowState::None | FlowState::Decaying => {
                if state == FlowState::Decaying {
                    self.tins[tin].lists[DECAYING].remove(&mut self.table.flows, slot);
                }
                self.tins[tin].lists[NEW].push(&mut self.table.flows, slot);
                self.tins[tin].sparse_flows += 1;
                let quantum = self.table.quantum(slot, self.tins[tin].flow_quantum);
                let flow = &mut self.table.flows[slot as usize];
                flow.state = FlowState::Sparse;
                flow.deficit = quantum;
            }
            FlowState::SparseWait => self.become_bulk(tin, slot),
            FlowState::Sparse | FlowState::Bulk => {}
        }
        while self.store.memory() > self.memory_limit {
            self.drop_from_longest(now, log);
        }
    }

    #[inline]
    fn earliest_packet(&self, now: Instant) -> Option<Instant> {
        if self.store.packets() == 0 {
            return Some(Instant::NEVER);
        }
        let ready_at = self.shaper.ready_at();
        (self.shaped && ready_at > now).then_some(ready_at)
    }

    #[inline]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        let mut look_at_decaying = true;
        'tin: loop {
            if self.store.packets() == 0 {
                return Dequeue::Empty;
            }
            let tin = if self.shaped {
                let ready_at = self.shaper.ready_at();
                if ready_at > now {
                    return Dequeue::Wait(ready_at);
                }
                tins::by_schedule(&self.tins, now)
            } else {
                self.current_tin = tins::by_turns(&mut self.tins, self.current_tin);
                self.current_tin
            };
            let at = At { now, queue: tin as u32 };
            'flow: loop {
                // One of the flows that decay is looked at in every call, so that they do leave.
                let Tin { lists, flow_quantum, .. } = self.tins[tin];
                let [new, decaying] = lists.map(|list| list.first());
                let (list, slot) = if decaying != 0 && look_at_decaying {
                    (DECAYING, decaying)
                } else if new != 0 {
                    (NEW, new)
                } else if !self.table.turns[tin].is_empty() {
                    (OLD, self.table.next_in_turn(tin, flow_quantum, &self.store))
                } else if decaying != 0 {
                    (DECAYING, decaying)
                } else {
                    continue 'tin;
                };
                look_at_decaying = false;
                if list != OLD && self.table.flows[slot as usize].deficit <= 0 {
                    self.join_turns(tin, slot, list);
                    continue 'flow;
                }
                // parts of self one by one: so each is looked up once a packet
                let flow = &mut self.table.flows[slot as usize];
                let Tin { thresholds, bulk_flows, packets, .. } = &mut self.tins[tin];
                let bulk_flows = if self.params.ingress { *bulk_flows } else { 0 };
                while let Some(mut packet) = self.store.pop(&mut flow.packets) {
                    *packets -= 1;
                    self.table.backlogs[slot as usize] -= u32::from(packet.len);
                    let sojourn = now - packet.enqueue_time;
                    let verdict =
                        flow.cobalt.judge(thresholds, now, sojourn, packet.ecn().is_capable(), bulk_flows, &mut self.coins);
                    // The last packet of a flow may be marked, but is never dropped.
                    if verdict.drop && !flow.packets.is_empty() {
                        log.on_drop(&packet, DropReason::Aqm, DropSite::Queue, at);
                        if self.params.ingress {
                            self.charge_turn(slot, tin, list, &packet, now, true);
                            continue 'flow;
                        }
                        continue;
                    }
                    if verdict.mark {
                        log.set_ce(&mut packet, MarkReason::Aqm, at);
                    }
                    if verdict.sce && sce::set_sce(&mut packet) {
                        log.on_mark(&packet, Ecn::Ect0, Mark::Sce, MarkReason::Ramp, at);
                    }
                    log.on_dequeue(&packet, at);
                    self.charge_turn(slot, tin, list, &packet, now, false);
                    return Dequeue::Packet(packet);
                }
                self.retire(tin, slot, list, now);
                continue 'tin;
            }
        }
    }

    fn packets(&self) -> usize {
        self.store.packets()
    }

    fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    fn changeable(&self) -> &'static [&'static str] {
        &["bandwidth", "rtt", "overhead", "mpu", "framing", "memlimit", "ingress", "ack_filter", "sce", "sce_thresh"]
    }

    /// As `cake_change`: clocks, packets and the states of flows stay; packets in the queue keep the bytes that they had when they came.
    fn take_params(&mut self, fresh: State, now: Instant) -> Result<(), ParamError> {
        let rate = bytes_per_second(fresh.params.bandwidth.unwrap_or(self.link_rate));
        if self.shaped && rate == 0 {
            return Err(ParamError::new("bandwidth", "no limit", "a rate: what shapes cannot stop while it runs"));
        }
        if fresh.layer != self.layer {
            if self.store.packets() == 0 {
                self.earlier_layers.clear();
            }
            self.earlier_layers.push((now, self.layer));
            (self.layer_since, self.layer) = (now, fresh.layer);
        }
        self.params = fresh.params;
        self.configure(rate);
        Ok(())
    }

    fn set_rate(&mut self, rate: Rate, now: Instant) {
        self.link_rate = rate;
        if self.params.bandwidth.is_none() {
            self.reshape(rate, now);
        }
    }

    fn set_shaper(&mut self, rate: Rate, now: Instant) {
        if self.params.bandwidth.is_some() {
            self.reshape(rate, now);
        }
    }

    fn shapes(&self) -> bool {
        self.shaped
    }

    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        let flows = || self.table.flows.iter().map(|flow| &flow.cobalt);
        tell("count", f64::from(flows().map(|cobalt| cobalt.count).max().unwrap_or(0)));
        tell("dropping", flows().filter(|cobalt| cobalt.is_dropping()).count() as f64);
        tell("shaper_mbit", if self.shaped { self.shaper.bytes_per_second() * 8e-6 } else { 0.0 });
        tell("blue", f64::from(flows().map(|cobalt| cobalt.p_drop).max().unwrap_or(0)) / 4_294_967_296.0);
    }

    fn reads_acks(&self) -> bool {
        self.params.ack_filter != AckFilter::Off
    }

    fn counters(&self) -> Vec<(String, u64)> {
        match self.params.ack_filter {
            AckFilter::Off if self.filtered == 0 => Vec::new(),
            _ => vec![("ack_drops".to_owned(), self.filtered)],
        }
    }

    fn internal_queues(&self) -> Vec<String> {
        (0..self.tins.len()).map(|tin| format!("tin{tin}")).collect()
    }
}

#[cfg(test)]
mod tests;
