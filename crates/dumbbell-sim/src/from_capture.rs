//! Runs that another engine carried out: what was captured on both sides of the queue, and what the senders said of
//! themselves, becomes the tables that a simulation gives, by the same code.
//!
//! Times count from the start of the run, on one clock. What the simulator knows and a capture does not is left out of the
//! tables ([`LEFT_OUT`]), or has no value: samples of the RTT estimator.

use crate::classes::Totals;
use crate::config::{Classes, RunConfig, Shaper, SAMPLE_INTERVAL};
use crate::measure::{Backlog, FlowResult, Measures, Seen, SeenTcp};
use crate::outcome::outcome;
use crate::schedule::Schedule;
use crate::short_flows::ShortFlow;
use crate::transit::Transit;
use crate::{Outcome, RunError};
use dumbbell_core::log::{At, DropReason, Log, Mark, MarkReason, Place};
use dumbbell_core::packet::{Ecn, Packet, UDP_HEADERS};
use dumbbell_core::param::ParamError;
use dumbbell_core::record::{Counters, FlowLog};
use dumbbell_core::tcp::stats::{ReceiverStats, SenderStats};
use dumbbell_core::units::Time;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

/// Columns of `flows` that a run on another engine does not have.
pub const LEFT_OUT: [&str; 6] = ["probes", "ecn_reductions", "loss_reductions", "undone_reductions", "acks", "sce_received"];

/// What was captured of a run.
#[derive(Clone, Debug, Default)]
pub struct Capture<'a> {
    /// Packets that reached the queue, in order: records of [`PACKET_BYTES`].
    pub arrived: &'a [u8],
    /// Packets that left the queue, in order.
    pub sent: &'a [u8],
    /// What senders said of themselves, in order of time: records of [`SAMPLE_BYTES`].
    pub samples: &'a [u8],
    /// Clock of the captures at the start of the run, ns.
    pub started: u64,
    /// Whether the queue discipline drops and marks packets as they arrive, and not as they leave.
    pub signals_on_arrival: bool,
    /// Whether packets of different flows may overtake each other in the queue. Those of one flow never do.
    pub flow_queues: bool,
    /// Packets that fit into the queue: what is dropped while so many are queued did not fit.
    pub limit: u64,
    /// Counters of the queue discipline itself at the end of the run, by name. `drops` helps to find drops.
    pub counters: BTreeMap<String, u64>,
}

/// Length of a packet's record.
pub const PACKET_BYTES: usize = 32;
/// Length of a sample's record.
pub const SAMPLE_BYTES: usize = 64;

/// Bits of a sample's flags.
mod sampled {
    /// The SYN, or the first packet of UDP, left.
    pub const START: u32 = 1;
    /// One of the samples every 200 ms.
    pub const POLL: u32 = 2;
    /// The flow's measured time is over.
    pub const END: u32 = 8;
    /// It is over because everything was acknowledged.
    pub const COMPLETE: u32 = 16;
}

/// A `timeouts` of a kernel that does not count them.
const UNKNOWN: u32 = u32::MAX;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// A frame, or one segment of a burst that crossed the host as one.
#[derive(Clone, Copy, Debug)]
struct Frame {
    time: Time,
    flow: u32,
    seq: u32,
    id: u16,
    len: u16,
    ecn: Ecn,
}

/// The frames in a capture; a record of a burst (gso_size > 0) is as many frames.
fn frames(records: &[u8], started: u64) -> Result<Vec<Frame>, RunError> {
    let mut all = Vec::with_capacity(records.len() / PACKET_BYTES);
    for record in records.chunks_exact(PACKET_BYTES) {
        let (whole, payload, gso) = (word(record, 16), word(record, 20), u32::from(half(record, 26)));
        let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(record[28] & 3)];
        let time = Time(long(record, 0).saturating_sub(started));
        let (flow, seq, id) = (word(record, 8), word(record, 12), half(record, 24));
        let headers = whole.saturating_sub(payload);
        let step = if gso > 0 && payload > gso { gso } else { payload };
        let mut offset = 0;
        for number in 0.. {
            let part = step.min(payload - offset);
            let len = u16::try_from(headers + part)
                .map_err(|_| RunError::Capture(format!("flow {flow}: a frame of {} bytes", headers + part)))?;
            all.push(Frame { time, flow, seq: seq.wrapping_add(offset), id: id.wrapping_add(number), len, ecn });
            offset += part;
            if offset >= payload {
                break;
            }
        }
    }
    Ok(all)
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    time: Time,
    flow: u32,
    flags: u32,
    rtt_us: u32,
    min_rtt_us: u32,
    cwnd: u32,
    ssthresh: u32,
    bytes_acked: u64,
    in_flight: u32,
    retransmissions: u32,
    sent: u32,
    timeouts: u32,
    duplicates: u32,
}

impl Sample {
    fn read(record: &[u8]) -> Sample {
        Sample {
            time: Time(long(record, 0)),
            flow: word(record, 8),
            flags: word(record, 12),
            rtt_us: word(record, 16),
            min_rtt_us: word(record, 20),
            cwnd: word(record, 24),
            ssthresh: word(record, 28),
            bytes_acked: long(record, 32),
            in_flight: word(record, 40),
            retransmissions: word(record, 44),
            sent: word(record, 48),
            timeouts: word(record, 52),
            duplicates: word(record, 56),
        }
    }
}

/// What happened to a packet at the queue.
#[derive(Clone, Copy, Debug)]
enum Event {
    Arrived,
    Dropped,
    /// It had this codepoint before it was CE.
    Marked(Ecn),
    /// It had arrived then.
    Sent(Time),
    /// It left the link, so long after it had arrived at the queue.
    Departed {
        delay: Time,
    },
}

/// Everything that happened at the queue, in order of time: packets that arrived are found again among those that left. What waits in one
/// queue leaves in the order in which it came, so that those in between were dropped. What came after the last that left is still queued, unless
/// the queue discipline counts more drops than were found.
fn events(captured: &Capture, config: &RunConfig, senders: usize, serial: bool) -> Result<Vec<(Time, Event, Frame)>, RunError> {
    let stranger = |frame: &Frame| RunError::Capture(format!("a packet of flow {}, of {senders}", frame.flow));
    let queue_of = |frame: &Frame| if captured.flow_queues { frame.flow as usize } else { 0 };
    let mut waiting: Vec<VecDeque<Frame>> = vec![VecDeque::new(); if captured.flow_queues { senders } else { 1 }];
    let arrived = frames(captured.arrived, captured.started)?;
    let sent = frames(captured.sent, captured.started)?;
    let mut all = Vec::with_capacity(2 * arrived.len());
    for frame in arrived {
        if frame.flow as usize >= senders {
            return Err(stranger(&frame));
        }
        waiting[queue_of(&frame)].push_back(frame);
        all.push((frame.time, Event::Arrived, frame));
    }
    let mut free = Time::ZERO;
    for frame in sent {
        if frame.flow as usize >= senders {
            return Err(stranger(&frame));
        }
        let queue = &mut waiting[queue_of(&frame)];
        loop {
            match queue.pop_front() {
                Some(one) if (one.flow, one.id, one.seq) == (frame.flow, frame.id, frame.seq) => {
                    if frame.ecn == Ecn::Ce && one.ecn != Ecn::Ce {
                        let at = if captured.signals_on_arrival { one.time } else { frame.time };
                        all.push((at, Event::Marked(one.ecn), frame));
                    }
                    all.push((frame.time, Event::Sent(one.time), frame));
                    let change = config.rate_changes.iter().rev().find(|change| change.at <= frame.time);
                    let rate = change.map_or(config.bottleneck.rate, |change| change.rate);
                    let wire = if serial { rate.serialise(u64::from(frame.len)) } else { Time::ZERO };
                    // A token bucket with a burst of one frame may let two frames out at once; the link behind it sends one by one. Only
                    // delays are told apart that finely: what is counted departs as if the link had been free.
                    free = free.max(frame.time) + wire;
                    let delay = free.saturating_sub(one.time);
                    all.push((frame.time + wire, Event::Departed { delay }, frame));
                    break;
                }
                Some(one) if one.time <= frame.time => {
                    let at = if captured.signals_on_arrival { one.time } else { frame.time };
                    all.push((at, Event::Dropped, one));
                }
                _ => {
                    let found = format!("flow {}: a packet left the queue at {} that had not arrived", frame.flow, frame.time);
                    return Err(RunError::Capture(found));
                }
            }
        }
    }
    // of what never left, so many as the queue says that it dropped besides: the oldest
    let over = config.run.duration;
    let seen = all.iter().filter(|&&(time, event, _)| matches!(event, Event::Dropped) && time <= over).count() as u64;
    let told = captured.counters.get("drops").copied().unwrap_or(0);
    let mut left: Vec<Frame> = waiting.into_iter().flatten().filter(|frame| frame.time <= over).collect();
    left.sort_by_key(|frame| frame.time);
    let dropped = usize::try_from(told.saturating_sub(seen)).unwrap_or(usize::MAX);
    all.extend(left.into_iter().take(dropped).map(|frame| (frame.time, Event::Dropped, frame)));
    // stable: at one instant a packet arrives, then it is dropped or sent
    all.sort_by_key(|&(time, ..)| time);
    Ok(all)
}

/// What is due between the packets, in the order of one instant as in the simulator's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Started(u32),
    /// Counting begins of a flow, or is over.
    Flow {
        flow: u32,
        over: bool,
    },
    Point,
    QueueOver,
    QueueBegins,
}

/// A run while its events are counted.
struct Replay<'a> {
    config: &'a RunConfig,
    classes: &'a Classes,
    schedule: &'a Schedule,
    samples: Vec<Vec<Sample>>,
    counters: Counters,
    received: Vec<ReceiverStats>,
    /// Of each source of UDP.
    transits: Vec<Transit>,
    held: Backlog,
    measures: Measures,
    limit: u64,
}

impl Replay<'_> {
    fn listed(&self) -> usize {
        self.config.flows.len() + self.config.udp.len()
    }

    /// Class and half of the base RTT, by which a sender's clock is ahead of the queue's, of flow `number`.
    fn of(&self, number: usize) -> (u16, Time) {
        let flows = self.config.flows.len();
        if let Some(flow) = self.config.flows.get(number) {
            return (self.classes.of_flow[number], Time(flow.params.base_rtt.0 / 2));
        }
        if let Some(&class) = self.classes.of_udp.get(number - flows) {
            return (class, Time::ZERO);
        }
        let process = self.schedule.web[number - self.listed()].process;
        (self.classes.of_web[process], Time(self.config.web[process].params.base_rtt.0 / 2))
    }

    fn count(&mut self, time: Time, event: Event, frame: &Frame) {
        let udp = (frame.flow as usize).checked_sub(self.config.flows.len());
        let packet = Packet { flow: frame.flow, len: frame.len, ecn: frame.ecn, ..Packet::EMPTY };
        let log = &mut self.counters;
        let bytes = u64::from(frame.len);
        match event {
            Event::Arrived => {
                log.arrived(&packet, time);
                self.held = Backlog { packets: self.held.packets + 1, bytes: self.held.bytes + bytes };
            }
            Event::Dropped => {
                self.held = Backlog { packets: self.held.packets - 1, bytes: self.held.bytes - bytes };
                let full = self.held.packets >= self.limit;
                let reason = if full { DropReason::Overflow } else { DropReason::Aqm };
                log.dropped(&packet, reason, Place::Queue, At::time(time));
            }
            Event::Marked(before) => log.marked(&packet, before, Mark::Ce, MarkReason::Aqm, At::time(time)),
            Event::Sent(since) => {
                self.held = Backlog { packets: self.held.packets - 1, bytes: self.held.bytes - bytes };
                log.sent(&Packet { enqueue_time: since, ..packet }, At::time(time));
            }
            Event::Departed { delay } => {
                log.departed(&packet, time);
                let received = &mut self.received[frame.flow as usize];
                received.count(&packet);
                if let Some(transit) = udp.and_then(|number| self.transits.get_mut(number)) {
                    received.bytes += u64::from(frame.len.saturating_sub(UDP_HEADERS));
                    // between a sender of UDP and the queue there is nothing
                    transit.arrived(delay);
                }
            }
        }
    }

    /// The last sample of a flow that was taken by `time`.
    fn last(&self, number: usize, time: Time) -> Option<&Sample> {
        let of_flow = &self.samples[number];
        of_flow[..of_flow.partition_point(|one| one.time <= time)].last()
    }

    fn flagged(&self, number: usize, flag: u32) -> Option<&Sample> {
        self.samples[number].iter().find(|one| one.flags & flag != 0)
    }

    fn payload(&self, number: usize, time: Time) -> u64 {
        if number < self.config.flows.len() {
            self.last(number, time).map_or(0, |one| one.bytes_acked)
        } else {
            self.received[number].bytes
        }
    }

    fn seen(&self, number: usize, time: Time) -> Seen {
        let last = self.last(number, time);
        let of_tcp = || {
            last.map_or_else(SeenTcp::default, |one| SeenTcp {
                srtt_us: one.rtt_us,
                cwnd: one.cwnd,
                ssthresh: one.ssthresh,
                in_flight: one.in_flight,
                retransmissions: u64::from(one.retransmissions),
            })
        };
        let tcp = (number < self.config.flows.len()).then(of_tcp);
        Seen { payload: self.payload(number, time), tcp }
    }

    /// What was counted of flow `number` when its sender gave `sample`; on the queue's clock that is `now`.
    fn result(&self, number: usize, sample: Option<&Sample>, now: Time) -> FlowResult {
        let (_, ahead) = self.of(number);
        let start = self.flagged(number, sampled::START).map_or(now, |one| one.time + ahead);
        let counters = self.counters.flows.of(number as u32);
        let received = self.received[number];
        let common = FlowResult { start, end: now, min_rtt_us: u32::MAX, counters, receiver: received, ..FlowResult::default() };
        if let Some(transit) = number.checked_sub(self.config.flows.len()).and_then(|udp| self.transits.get(udp)) {
            let transit = Some(Box::new(transit.clone()));
            let end = self.flagged(number, sampled::END).map_or(now, |one| one.time.min(now));
            let sender = SenderStats { sent: counters.arrived, ..SenderStats::default() };
            return FlowResult { end, payload: received.bytes, sender, transit, ..common };
        }
        let Some(sample) = sample else { return common };
        let mut samples = crate::measure::Samples::default();
        let from = self.config.measured_from();
        for one in self.samples[number].iter().filter(|one| one.flags & sampled::POLL != 0 && one.time > from) {
            samples.add(one.rtt_us, one.cwnd);
        }
        if samples.count == 0 {
            samples.add(sample.rtt_us, sample.cwnd);
        }
        let over = sample.flags & sampled::COMPLETE != 0;
        FlowResult {
            end: if over { sample.time + ahead } else { now },
            payload: sample.bytes_acked,
            min_rtt_us: if sample.rtt_us == 0 { u32::MAX } else { sample.min_rtt_us },
            completion: over.then(|| sample.time + ahead - start),
            samples,
            sender: SenderStats {
                sent: u64::from(sample.sent),
                retransmissions: u64::from(sample.retransmissions),
                timeouts: u64::from(if sample.timeouts == UNKNOWN { 0 } else { sample.timeouts }),
                ..SenderStats::default()
            },
            receiver: ReceiverStats { duplicates: u64::from(sample.duplicates), ..received },
            ..common
        }
    }

    fn happens(&mut self, due: Due, now: Time, discipline: &BTreeMap<String, u64>) {
        let listed = self.listed();
        match due {
            Due::Started(_) => {
                let payloads: Vec<u64> = (0..self.config.flows.len()).map(|number| self.payload(number, now)).collect();
                self.measures.flow_started(now, payloads.into_iter());
            }
            Due::Flow { flow, over: false } => {
                let before = self.result(flow as usize, self.last(flow as usize, self.config.measured_from()), now);
                self.measures.begin_flow(flow, listed, before, now);
                if let Some(transit) =
                    (flow as usize).checked_sub(self.config.flows.len()).and_then(|udp| self.transits.get_mut(udp))
                {
                    transit.forget();
                }
            }
            Due::Flow { flow, over: true } => {
                let number = flow as usize;
                let result = self.result(number, self.flagged(number, sampled::END), now);
                if number < listed {
                    self.measures.finish_flow(flow, listed, result);
                } else {
                    self.finish_short_flow(number, &result);
                }
            }
            Due::Point => {
                let seen: Vec<Seen> = (0..listed).map(|number| self.seen(number, now)).collect();
                self.measures.point(now, seen.into_iter(), self.counters.queue, self.held);
            }
            Due::QueueOver => self.measures.finish_queue(&self.counters, discipline.clone()),
            Due::QueueBegins => self.measures.begin_queue(&mut self.counters),
        }
    }

    fn finish_short_flow(&mut self, number: usize, result: &FlowResult) {
        let (class, ahead) = self.of(number);
        let start = result.start - ahead;
        if start < self.config.measured_from() || self.flagged(number, sampled::START).is_none() {
            return;
        }
        let size = self.schedule.web[number - self.listed()].size;
        let completion = result.completion;
        self.measures.short_flows.add(ShortFlow {
            number: number as u32,
            class,
            size,
            start,
            completion,
            base_rtt: ahead + ahead,
        });
        let totals: &mut Totals = &mut self.measures.short_totals[usize::from(class)];
        totals.add(result);
    }

    /// Everything that is due, in order.
    fn agenda(&self) -> Vec<(Time, Due)> {
        let (from, duration) = (self.config.measured_from(), self.config.run.duration);
        let mut agenda = vec![(duration, Due::QueueOver)];
        if from > Time::ZERO {
            agenda.push((from, Due::QueueBegins));
        }
        for flow in 0..self.samples.len() as u32 {
            let (_, ahead) = self.of(flow as usize);
            if let (Some(start), true) = (self.flagged(flow as usize, sampled::START), (flow as usize) < self.config.flows.len())
            {
                agenda.push((start.time + ahead, Due::Started(flow)));
            }
            if from > Time::ZERO && (flow as usize) < self.listed() {
                agenda.push((from + ahead, Due::Flow { flow, over: false }));
            }
            agenda.push((duration + ahead, Due::Flow { flow, over: true }));
        }
        if let Some(interval) = self.config.series_interval() {
            agenda.extend((1..=duration.0 / interval.0).map(|point| (Time(point * interval.0), Due::Point)));
        }
        agenda.sort_unstable();
        agenda
    }
}

/// The tables of a run of `config` from what was `captured` of it.
///
/// # Errors
/// A configuration that cannot be used, or captures that do not fit together.
pub fn measure(config: &Value, captured: &Capture) -> Result<Outcome, RunError> {
    let config = RunConfig::from_json(config)?;
    if let Some((key, found)) = config.simulated_link(0) {
        return Err(ParamError::new(format!("bottleneck.{key}"), found, "shaper, in what is captured").into());
    }
    if !config.is_one_hop() {
        return Err(ParamError::new("hop", "several hops, or routes", "one hop in what is captured").into());
    }
    let (classes, schedule) = (config.classes(), Schedule::new(&config));
    let senders = config.flows.len() + config.udp.len() + schedule.web.len();
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); senders];
    for record in captured.samples.chunks_exact(SAMPLE_BYTES) {
        let sample = Sample::read(record);
        let of_flow = samples.get_mut(sample.flow as usize);
        of_flow.ok_or_else(|| RunError::Capture(format!("a sample of flow {}, of {senders}", sample.flow)))?.push(sample);
    }
    let shapes = config.aqm.get("name").and_then(Value::as_str) == Some("cake");
    let serial = config.bottleneck.shaper == Shaper::Link && !shapes;
    let events = events(captured, &config, senders, serial)?;
    let counters = Counters { flows: FlowLog::new(classes.list.len()), ..Counters::default() };
    let measures = Measures::new(&config, classes.list.len());
    let timed_out = samples.iter().flatten().all(|one| one.timeouts != UNKNOWN);
    let mut replay = Replay {
        config: &config,
        classes: &classes,
        schedule: &schedule,
        samples,
        counters,
        received: vec![ReceiverStats::default(); senders],
        transits: vec![Transit::default(); config.udp.len()],
        held: Backlog::default(),
        measures,
        limit: captured.limit,
    };
    for number in 0..senders {
        let (class, _) = replay.of(number);
        replay.counters.flows.flow_starts(number as u32, class);
    }
    let mut packets = events.iter().peekable();
    for (at, due) in replay.agenda() {
        while let Some((time, event, frame)) = packets.next_if(|(time, ..)| *time <= at) {
            replay.count(*time, *event, frame);
        }
        replay.happens(due, at, &captured.counters);
    }
    let mut found = outcome(replay.measures, &config, &classes, events.len() as u64);
    let left_out = |name: &str| LEFT_OUT.contains(&name) || (name == "timeouts" && !timed_out);
    found.tables.flows.columns.retain(|(name, _)| !left_out(name));
    Ok(found)
}

/// Senders are sampled this often, ns.
pub const POLL_NS: u64 = SAMPLE_INTERVAL.0;

#[cfg(test)]
mod tests;
