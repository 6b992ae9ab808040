//! The event loop.
//!
//! Event sources are few: the link, one line of acknowledgements a base RTT, one timer a flow (the earliest of all that
//! the flow waits for, moved lazily), and a clock for samples, series and changes of rate. At one instant their order is:
//! acknowledgements (by line), arrivals held up by jitter (by flow), the link, timers (by flow), clock.
//!
//! Half of the base RTT lies ahead of the queue in a real dumbbell. Nothing that a sender does depends on absolute time,
//! so the engine lets each sender's clock run ahead by that half: what a sender sends is in the queue at once, and its
//! acknowledgements take the whole base RTT to come back. Starts, stops and samples of the flow are shifted alike.

use crate::bottleneck::Bottleneck;
use crate::config::{EcnEcho, FlowConfig, RunConfig};
use crate::measure::{FlowResult, Measures};
use crate::min_tree::MinTree;
use crate::{Outcome, RunError};
use dumbbell_core::aqm::{Aqm, FlowKey};
use dumbbell_core::cc::AnyCc;
use dumbbell_core::packet::{Packet, HEADERS};
use dumbbell_core::prefetch::prefetch;
use dumbbell_core::rng::Rng;
use dumbbell_core::tcp::receiver::{Blocks, Echo, Receiver};
use dumbbell_core::tcp::sender::{Application, Phase, Sender};
use dumbbell_core::tcp::{Ack, FlowOptions, Network};
use dumbbell_core::units::Time;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// `ss` and Flent poll TCP_INFO at this interval.
const SAMPLE_INTERVAL: Time = Time::from_millis(200);
/// Events between two looks at the cancel flag.
const CANCEL_CHECK: u64 = 1 << 14;
/// With more flows than these, what the next events need is fetched ahead.
const CROWD: usize = 200;
/// No SACK blocks.
const NO_BLOCKS: u32 = u32::MAX;

/// Acknowledgements on their way back: all of one base RTT, in order.
struct AckLine {
    delay: Time,
    acks: VecDeque<(Time, Ack, u32)>,
}

/// Random loss and jitter ahead of the bottleneck.
struct Noise {
    rng: Rng,
    loss: f64,
    jitter: Time,
    lost: u64,
    held: VecDeque<(Time, Packet)>,
}

/// SACK blocks on their way back; most ACKs have none.
#[derive(Default)]
struct BlockPool {
    blocks: Vec<Blocks>,
    free: Vec<u32>,
}

impl BlockPool {
    fn put(&mut self, blocks: Blocks) -> u32 {
        if let Some(index) = self.free.pop() {
            self.blocks[index as usize] = blocks;
            return index;
        }
        self.blocks.push(blocks);
        (self.blocks.len() - 1) as u32
    }

    fn take(&mut self, index: u32) -> Blocks {
        self.free.push(index);
        self.blocks[index as usize]
    }
}

struct Flow {
    sender: Sender,
    receiver: Receiver,
    line: u32,
    /// Start and stop on the engine's clock.
    start: Time,
    stop: Time,
}

impl Flow {
    fn next_timer(&self) -> Time {
        let start = if self.sender.phase == Phase::Idle { self.start } else { Time::NEVER };
        start.min(self.stop).min(self.sender.next_timer()).min(self.receiver.next_timer())
    }
}

/// A sender's way to the bottleneck at one instant.
struct Port<'a, A: Aqm> {
    bottleneck: &'a mut Bottleneck<A>,
    noise: &'a mut [Option<Box<Noise>>],
    lines: &'a mut MinTree,
    line_count: usize,
    now: Time,
}

impl<A: Aqm> Network for Port<'_, A> {
    #[inline]
    fn send(&mut self, packet: Packet) {
        if !self.noise.is_empty() {
            if let Some(noise) = &mut self.noise[packet.flow as usize] {
                if noise.loss > 0.0 && noise.rng.next_f64() < noise.loss {
                    noise.lost += 1;
                    return;
                }
                if noise.jitter > Time::ZERO {
                    let extra = Time(noise.rng.below(noise.jitter.0 + 1));
                    let last = noise.held.back().map_or(Time::ZERO, |held| held.0);
                    let at = (self.now + extra).max(last);
                    if noise.held.is_empty() {
                        self.lines.set(self.line_count + packet.flow as usize, at);
                    }
                    noise.held.push_back((at, packet));
                    return;
                }
            }
        }
        self.bottleneck.arrive(packet, self.now);
    }
}

/// One simulation.
struct Sim<A: Aqm> {
    bottleneck: Bottleneck<A>,
    flows: Vec<Flow>,
    ack_lines: Vec<AckLine>,
    /// Earliest event of each ACK line, then of each flow's held packets.
    lines: MinTree,
    timers: MinTree,
    noise: Vec<Option<Box<Noise>>>,
    pool: BlockPool,
    measures: Measures,
    /// So many flows that their state does not stay in the cache.
    crowded: bool,
}

impl<A: Aqm> Sim<A> {
    #[inline]
    fn on_ack(&mut self, line: usize, now: Time) {
        let queue = &mut self.ack_lines[line].acks;
        let Some((_, ack, index)) = queue.pop_front() else { return };
        let next = queue.front().map_or(Time::NEVER, |head| head.0);
        self.lines.set(line, next);
        let id = ack.flow as usize;
        if self.crowded {
            if let Some((_, later, _)) = queue.get(2) {
                prefetch(&self.flows[later.flow as usize].sender);
            }
            if let Some((_, next_ack, _)) = queue.front() {
                self.flows[next_ack.flow as usize].sender.prefetch();
            }
        }
        let flow = &mut self.flows[id];
        let mut port = Port {
            bottleneck: &mut self.bottleneck,
            noise: &mut self.noise,
            lines: &mut self.lines,
            line_count: self.ack_lines.len(),
            now,
        };
        if index == NO_BLOCKS {
            flow.sender.on_ack(&ack, &[], now, &mut port);
        } else {
            let blocks = self.pool.take(index);
            flow.sender.on_ack(&ack, blocks.as_slice(), now, &mut port);
        }
        let timer = flow.sender.next_timer();
        if timer < self.timers.get(id) {
            self.timers.set(id, timer);
        }
    }

    #[inline]
    fn on_link(&mut self, now: Time) {
        while self.bottleneck.next <= now {
            let left = self.bottleneck.advance(now);
            if self.crowded {
                if let Some(packet) = self.bottleneck.in_service() {
                    prefetch(&self.flows[packet.flow as usize].receiver);
                }
            }
            if let Some(packet) = left {
                self.deliver(&packet, now);
            }
        }
    }

    #[inline]
    fn deliver(&mut self, packet: &Packet, now: Time) {
        let id = packet.flow as usize;
        let flow = &mut self.flows[id];
        let ack = flow.receiver.on_packet(packet, now);
        if let Some(early) = flow.receiver.take_early() {
            self.push_ack(id, early, NO_BLOCKS, now);
        }
        if let Some(ack) = ack {
            self.send_ack(id, ack, now);
        }
        let timer = self.flows[id].receiver.next_timer();
        if timer < self.timers.get(id) {
            self.timers.set(id, timer);
        }
    }

    #[inline]
    fn send_ack(&mut self, id: usize, ack: Ack, now: Time) {
        let flow = &mut self.flows[id];
        let index = if flow.receiver.has_blocks() { self.pool.put(flow.receiver.blocks()) } else { NO_BLOCKS };
        self.push_ack(id, ack, index, now);
    }

    #[inline]
    fn push_ack(&mut self, id: usize, ack: Ack, index: u32, now: Time) {
        let number = self.flows[id].line as usize;
        let line = &mut self.ack_lines[number];
        let at = now + line.delay;
        if line.acks.is_empty() {
            self.lines.set(number, at);
        }
        line.acks.push_back((at, ack, index));
    }

    fn on_held(&mut self, id: usize, now: Time) {
        let Some(noise) = &mut self.noise[id] else { return };
        let Some((_, packet)) = noise.held.pop_front() else { return };
        let next = noise.held.front().map_or(Time::NEVER, |held| held.0);
        self.lines.set(self.ack_lines.len() + id, next);
        self.bottleneck.arrive(packet, now);
    }

    fn on_timer(&mut self, id: usize, now: Time) {
        let line_count = self.ack_lines.len();
        let mut started = false;
        let flow = &mut self.flows[id];
        let mut port = Port { bottleneck: &mut self.bottleneck, noise: &mut self.noise, lines: &mut self.lines, line_count, now };
        if flow.sender.phase == Phase::Idle && flow.start <= now {
            flow.sender.start(now, &mut port);
            started = true;
        }
        if flow.stop <= now {
            flow.stop = Time::NEVER;
            flow.sender.stop(now);
        }
        if flow.sender.next_timer() <= now {
            flow.sender.on_timer(now, &mut port);
        }
        if let Some(ack) = flow.receiver.on_timer(now) {
            self.send_ack(id, ack, now);
        }
        self.timers.set(id, self.flows[id].next_timer());
        if started {
            self.measures.flow_started(now, self.flows.iter().map(|one| &one.sender));
        }
    }

    /// Packets sent = delivered + dropped + still in flight, and marks at the queue = marks at the receivers, per flow.
    fn check_conservation(&self) -> Result<(), RunError> {
        let mut held = 0;
        for (id, flow) in self.flows.iter().enumerate() {
            let log = &self.bottleneck.log.flows[id];
            let noise = self.noise.get(id).and_then(Option::as_deref);
            let before = noise.map_or(0, |n| n.lost + n.held.len() as u64);
            let fail =
                |what: &str, left: u64, right: u64| Err(RunError::Invariant(format!("flow {id}: {what}: {left} is not {right}")));
            if flow.sender.stats.sent_all != before + log.arrived {
                return fail(
                    "sent = lost ahead of the queue + arrived at the queue",
                    flow.sender.stats.sent_all,
                    before + log.arrived,
                );
            }
            let gone = log.departed + log.dropped_overflow + log.dropped_aqm;
            if gone > log.arrived {
                return fail("departed + dropped at most arrived", gone, log.arrived);
            }
            held += log.arrived - gone;
            if log.departed != flow.receiver.stats.arrived {
                return fail("departed = received", log.departed, flow.receiver.stats.arrived);
            }
            let marked = flow.receiver.stats.ce + log.ce_dropped;
            if marked > log.ce || log.ce - marked > log.arrived - gone {
                return fail("CE marks = CE received + CE dropped + CE queued", log.ce, marked);
            }
            // Only ECT(0) becomes SCE: a flow with SCE marks does not send ECT(1) itself.
            let some = flow.receiver.stats.ect1 + log.sce_dropped;
            if log.sce > 0 && (some > log.sce || log.sce - some > log.arrived - gone) {
                return fail("SCE marks = SCE received + SCE dropped + SCE queued", log.sce, some);
            }
            let conn = &flow.sender.conn;
            if conn.cwnd == 0 || conn.snd_una > conn.snd_nxt || flow.receiver.rcv_nxt > conn.snd_nxt {
                return fail("window at least 1 and sequence numbers in order", conn.snd_una, conn.snd_nxt);
            }
        }
        if held != self.bottleneck.held() {
            return Err(RunError::Invariant(format!(
                "queue: arrived - departed - dropped is {held}, queued are {}",
                self.bottleneck.held()
            )));
        }
        Ok(())
    }
}

fn application(flow: &FlowConfig) -> Application {
    match (flow.params.size, flow.params.app_rate) {
        (Some(size), _) => Application::Size(size),
        (None, Some(rate)) => Application::Rate(rate.bytes()),
        (None, None) => Application::Bulk,
    }
}

/// Identity of each flow for queues that tell flows apart.
pub fn flow_keys(config: &RunConfig) -> Vec<FlowKey> {
    let key = |(index, flow): (usize, &FlowConfig)| FlowKey {
        src_host: flow.params.src_host,
        dst_host: flow.params.dst_host,
        ports: index as u32,
        dscp: flow.params.dscp,
    };
    config.flows.iter().enumerate().map(key).collect()
}

/// Runs `config` over `aqm`.
pub(crate) fn simulate<A: Aqm>(
    config: &RunConfig,
    controls: Vec<AnyCc>,
    aqm: A,
    cancel: &AtomicBool,
    progress: &AtomicU64,
) -> Result<Outcome, RunError> {
    let seed = config.run.seed;
    let count = config.flows.len();
    let duration = config.run.duration;

    let mut delays: Vec<Time> = config.flows.iter().map(|flow| flow.params.base_rtt).collect();
    delays.sort_unstable();
    delays.dedup();
    let noisy = config.flows.iter().any(|flow| flow.params.loss > 0.0 || flow.params.jitter > Time::ZERO);
    let host = Arc::new(config.hosts.clone());
    let mut flows = Vec::with_capacity(count);
    let mut noise = Vec::new();
    for (index, (flow, cc)) in config.flows.iter().zip(controls).enumerate() {
        let params = &flow.params;
        let ahead = Time(params.base_rtt.0 / 2);
        let spread = (flow.start.max - flow.start.min).0;
        let start = flow.start.min + Time(Rng::stream(seed, "start", index as u64).below(spread + 1));
        let echo = match params.ecn_echo {
            EcnEcho::Auto => cc.ecn().echo,
            EcnEcho::Classic => Echo::UntilCwr,
            EcnEcho::Dctcp => Echo::PerPacket,
            EcnEcho::AccEcn => Echo::Accurate,
        };
        let ecn = params.ecn.unwrap_or(host.ecn) || cc.ecn().required;
        let options = FlowOptions { ecn, echo };
        let line = delays.partition_point(|&delay| delay < params.base_rtt) as u32;
        flows.push(Flow {
            sender: Sender::new(index as u32, cc, host.clone(), options, application(flow)),
            receiver: Receiver::new(index as u32, host.clone(), options),
            line,
            start: start + ahead,
            stop: params.stop.map_or(Time::NEVER, |stop| stop.saturating_add(ahead)),
        });
        if noisy {
            let active = params.loss > 0.0 || params.jitter > Time::ZERO;
            let rng = Rng::stream(seed, "path", index as u64);
            let state = Noise { rng, loss: params.loss, jitter: params.jitter, lost: 0, held: VecDeque::new() };
            noise.push(active.then(|| Box::new(state)));
        }
    }
    let mut timers = MinTree::new(count);
    for (index, flow) in flows.iter().enumerate() {
        timers.set(index, flow.next_timer());
    }
    let lines = MinTree::new(delays.len() + if noisy { count } else { 0 });
    let ack_lines: Vec<AckLine> = delays.iter().map(|&delay| AckLine { delay, acks: VecDeque::new() }).collect();
    let line_count = ack_lines.len();
    let params = &config.bottleneck;
    let bottleneck = Bottleneck::new(aqm, config.classes(), params.rate, params.shaper, params.burst);
    let mut clock = Clock::new(config, &delays);
    let mut sim = Sim {
        bottleneck,
        flows,
        ack_lines,
        lines,
        timers,
        noise,
        pool: BlockPool::default(),
        measures: Measures::new(count, config.series_interval),
        crowded: count > CROWD,
    };

    let mut events = 0_u64;
    loop {
        let (line_at, line) = sim.lines.min();
        let (timer_at, id) = sim.timers.min();
        let link_at = sim.bottleneck.next;
        let packets_at = line_at.min(link_at);
        let clock_at = clock.next.min(sim.bottleneck.aqm.next_timer());
        if packets_at <= timer_at && packets_at <= clock_at {
            if packets_at == Time::NEVER {
                break;
            }
            if line_at <= link_at {
                if line < line_count {
                    sim.on_ack(line, line_at);
                } else {
                    sim.on_held(line - line_count, line_at);
                }
            } else {
                sim.on_link(link_at);
            }
        } else if timer_at <= clock_at {
            sim.on_timer(id, timer_at);
        } else if sim.bottleneck.aqm.next_timer() < clock.next {
            let at = sim.bottleneck.aqm.next_timer();
            sim.bottleneck.aqm.on_timer(at, &mut sim.bottleneck.log);
        } else if clock.tick(&mut sim, config, duration)? {
            break;
        }
        events += 1;
        if events % CANCEL_CHECK == 0 {
            if cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled);
            }
            progress.store(line_at.min(link_at).min(clock_at).min(duration).0, Ordering::Relaxed);
        }
    }
    sim.check_conservation()?;
    progress.store(duration.0, Ordering::Relaxed);
    // not in memory together with the tables
    drop(sim.flows);
    Ok(sim.measures.outcome(config, events))
}

/// What happens at given times: samples and end of the flows of each base RTT, points of the series, changes of rate,
/// end of the queue's measurement.
struct Clock {
    next: Time,
    /// Per base RTT: (half of it, next sample, line).
    samples: Vec<(Time, Time)>,
    series: Time,
    change: usize,
    queue_done: bool,
    flows_left: usize,
}

impl Clock {
    fn new(config: &RunConfig, delays: &[Time]) -> Clock {
        let samples =
            delays.iter().map(|delay| (Time(delay.0 / 2), SAMPLE_INTERVAL.min(config.run.duration) + Time(delay.0 / 2)));
        let recorded = config.series_interval > Time::ZERO && config.series_interval <= config.run.duration;
        let series = if recorded { config.series_interval } else { Time::NEVER };
        let mut clock = Clock {
            next: Time::ZERO,
            samples: samples.collect(),
            series,
            change: 0,
            queue_done: false,
            flows_left: delays.len(),
        };
        clock.plan(config);
        clock
    }

    fn change_at(&self, config: &RunConfig) -> Time {
        config.rate_changes.get(self.change).map_or(Time::NEVER, |change| change.at)
    }

    fn plan(&mut self, config: &RunConfig) {
        let end = if self.queue_done { Time::NEVER } else { config.run.duration };
        let sample = self.samples.iter().map(|&(_, at)| at).min().unwrap_or(Time::NEVER);
        self.next = sample.min(self.series).min(self.change_at(config)).min(end);
    }

    /// Handles everything due at `self.next`. Returns whether the run is over.
    fn tick<A: Aqm>(&mut self, sim: &mut Sim<A>, config: &RunConfig, duration: Time) -> Result<bool, RunError> {
        let now = self.next;
        while self.change_at(config) <= now {
            sim.bottleneck.set_rate(config.rate_changes[self.change].rate, now);
            self.change += 1;
        }
        for (line, (ahead, at)) in self.samples.iter_mut().enumerate() {
            if *at > now {
                continue;
            }
            let own_time = now - *ahead;
            let over = own_time >= duration;
            for (id, flow) in sim.flows.iter_mut().enumerate().filter(|(_, flow)| flow.line as usize == line) {
                if flow.sender.conn.cwnd == 0 {
                    return Err(RunError::Invariant(format!("flow {id}: cwnd is 0 at {now}")));
                }
                sim.measures.sample(id, &flow.sender, now);
                if over {
                    let result = FlowResult::new(flow.start, now, &flow.sender, &flow.receiver, &sim.bottleneck.log.flows[id]);
                    sim.measures.finish_flow(id, result);
                }
            }
            *at = if over { Time::NEVER } else { (*at + SAMPLE_INTERVAL).min(duration + *ahead) };
            self.flows_left -= usize::from(over);
        }
        if self.series <= now {
            let flows = sim.flows.iter().map(|flow| &flow.sender);
            sim.measures.point(now, flows, &mut sim.bottleneck);
            self.series = if now + config.series_interval > duration { Time::NEVER } else { now + config.series_interval };
        }
        if now >= duration && !self.queue_done {
            self.queue_done = true;
            sim.measures.finish_queue(&sim.bottleneck);
        }
        self.plan(config);
        Ok(self.queue_done && self.flows_left == 0)
    }
}

/// Largest frame that a host setting gives.
pub(crate) fn frame(mss: u32) -> u32 {
    mss + u32::from(HEADERS)
}

#[cfg(test)]
mod tests;
