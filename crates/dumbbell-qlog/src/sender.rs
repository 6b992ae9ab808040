//! Writes the events and the state of a sender. Times are those of its clock.

use crate::record::{self, QlogRecord, Records};
use crate::Names;
use dumbbell_core::cc::conn::CaState;
use dumbbell_core::cc::exit::ExitCause;
use dumbbell_core::cc::Model;
use dumbbell_core::observe::SenderSnapshot;
use dumbbell_core::packet::{flag, Ecn, Packet, HEADERS, UDP_HEADERS};
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::sender::Sender;
use dumbbell_core::tcp::{ack_flag, Ack, Block};
use dumbbell_core::units::{Duration, Instant};
use std::collections::{HashMap, VecDeque};

/// Events of a sender.
#[derive(Clone, Copy)]
enum SenderEvent {
    PacketSent,
    PacketReceived,
    DatagramsSent,
    DatagramsReceived,
    PacketLost,
    Metrics,
    State,
}

impl Names {
    fn name_event(self, event: SenderEvent) -> &'static str {
        let (draft, before) = match event {
            SenderEvent::PacketSent => ("quic:packet_sent", "transport:packet_sent"),
            SenderEvent::PacketReceived => ("quic:packet_received", "transport:packet_received"),
            SenderEvent::DatagramsSent => ("quic:udp_datagrams_sent", "transport:datagrams_sent"),
            SenderEvent::DatagramsReceived => ("quic:udp_datagrams_received", "transport:datagrams_received"),
            SenderEvent::PacketLost => ("quic:packet_lost", "recovery:packet_lost"),
            SenderEvent::Metrics => ("quic:recovery_metrics_updated", "recovery:metrics_updated"),
            SenderEvent::State => ("quic:congestion_state_updated", "recovery:congestion_state_updated"),
        };
        match self {
            Names::Draft => draft,
            Names::V03 => before,
        }
    }
}

/// A segment that is not acknowledged cumulatively.
#[derive(Clone, Copy, Default)]
struct UnackedSegment {
    /// Packet number of its last transmission.
    number: u64,
    /// Whether the packet was written as lost.
    is_lost: bool,
    is_acked: bool,
}

/// An acknowledgement that has come since the last look.
struct ReceivedAck {
    kind: &'static str,
    number: u64,
    /// Packets that it acknowledges for the first time, or the largest so far.
    acked: Vec<u64>,
    reply: ReceiverReply,
    blocks: usize,
}

/// A metric: what it is to be written as.
#[derive(Clone, Copy, PartialEq)]
enum Metric {
    /// The value is not written.
    Unknown,
    /// The value is known to be unset.
    Unset,
    Whole(u64),
    Real(f64),
    Ms(Duration),
}

/// The qlog of one flow.
pub struct QlogFlow {
    pub records: Records,
    names: Names,
    /// When it is over, on its clock.
    end: Instant,
    /// By how much its clock is behind the engine's, and what that said at the last packet that was sent.
    behind: Duration,
    posted_at: Instant,
    /// Numbers of the next packets.
    next: u64,
    next_initial: u64,
    next_handshake: u64,
    next_received: u64,
    /// Segments from `first` on.
    segments: VecDeque<UnackedSegment>,
    first: u64,
    largest_acked: Option<u64>,
    /// Numbers of packets by what they carry, see [`payload_number`].
    numbers: HashMap<u64, u64>,
    heard: Vec<ReceivedAck>,
    posted: Vec<(Packet, u64)>,
    /// Segments that were sent again since the last look: what they were before.
    superseded: HashMap<u64, UnackedSegment>,
    lost: u64,
    trigger: Option<ExitCause>,
    state: (&'static str, &'static str),
    metrics: Vec<Metric>,
}

/// Returns a number that distinguishes the packets of a flow: segment and whether it was retransmitted, or a datagram.
fn payload_number(packet: &Packet) -> u64 {
    if packet.has(flag::UDP) {
        packet.udp().number()
    } else {
        packet.tcp().seq() << 1 | u64::from(packet.has(flag::RETRANSMISSION))
    }
}

impl QlogFlow {
    /// With nothing written yet; it is over at `end` on its clock.
    pub fn new(names: Names, records: Records, end: Instant) -> QlogFlow {
        QlogFlow {
            records,
            names,
            end,
            behind: Duration::ZERO,
            posted_at: Instant::ZERO,
            next: 0,
            next_initial: 0,
            next_handshake: 0,
            next_received: 0,
            segments: VecDeque::new(),
            first: 0,
            largest_acked: None,
            numbers: HashMap::new(),
            heard: Vec::new(),
            posted: Vec::new(),
            superseded: HashMap::new(),
            lost: 0,
            trigger: None,
            state: ("", ""),
            metrics: Vec::new(),
        }
    }

    /// The number of a packet on its way; none of those without data. Of a segment that was sent again more than once, the last transmission's.
    pub fn number_of(&self, packet: &Packet) -> Option<u64> {
        if packet.has(flag::SYN | flag::PURE_ACK | flag::BACK) {
            return None;
        }
        self.numbers.get(&payload_number(packet)).copied()
    }

    /// Slow start has ended: the next change of the state is because of that.
    pub fn left_slow_start(&mut self, cause: ExitCause) {
        self.trigger = Some(cause);
    }

    /// Whether what happens at `now` on the clock of the engine is no more part of its measured time.
    pub fn is_over(&self, now: Instant) -> bool {
        now > self.end.saturating_add(self.behind)
    }

    /// The sender sends a packet, at `now` on the clock of the engine.
    pub fn post(&mut self, packet: &Packet, now: Instant) {
        self.posted_at = now;
        let next = if packet.has(flag::SYN) {
            &mut self.next_initial
        } else if packet.has(flag::PURE_ACK) {
            &mut self.next_handshake
        } else {
            &mut self.next
        };
        let number = *next;
        *next += 1;
        self.posted.push((*packet, number));
        if packet.has(flag::SYN | flag::PURE_ACK) {
            return;
        }
        self.numbers.insert(payload_number(packet), number);
        if packet.has(flag::UDP) {
            return;
        }
        let seq = packet.tcp().seq();
        let Some(index) = seq.checked_sub(self.first).map(|index| index as usize) else { return };
        let sent = UnackedSegment { number, ..UnackedSegment::default() };
        if let Some(before) = self.segments.get_mut(index) {
            let before = std::mem::replace(before, sent);
            self.superseded.entry(seq).or_insert(before);
        } else {
            self.segments.resize(index, UnackedSegment::default());
            self.segments.push_back(sent);
        }
    }

    /// An acknowledgement or an answer reaches the sender.
    pub fn on_ack(&mut self, reply: &ReceiverReply, blocks: &[Block]) {
        let number = self.next_received;
        let mut heard = ReceivedAck { kind: "1RTT", number, acked: Vec::new(), reply: *reply, blocks: blocks.len() };
        if reply.is_syn_ack() {
            (heard.kind, heard.number, heard.acked) = ("initial", 0, vec![0]);
        } else {
            self.next_received += 1;
            heard.acked = reply.ack().map_or_else(Vec::new, |ack| self.newly_acked(ack, blocks));
        }
        self.heard.push(heard);
    }

    fn newly_acked(&mut self, ack: &Ack, blocks: &[Block]) -> Vec<u64> {
        let mut acked = Vec::new();
        for &(start, end) in blocks {
            let within = |seq: u64| (seq.saturating_sub(self.first) as usize).min(self.segments.len());
            for segment in self.segments.range_mut(within(start)..within(end).max(within(start))) {
                if !std::mem::replace(&mut segment.is_acked, true) {
                    acked.push(segment.number);
                }
            }
        }
        while self.first < ack.ack {
            self.first += 1;
            if let Some(segment) = self.segments.pop_front().filter(|segment| !segment.is_acked) {
                acked.push(segment.number);
            }
        }
        acked.sort_unstable();
        self.largest_acked = self.largest_acked.max(acked.last().copied());
        if acked.is_empty() {
            acked.extend(self.largest_acked);
        }
        acked
    }

    /// The sender has done all that an acknowledgement or a timer asked for, at `now` on its clock.
    pub fn record_snapshot(&mut self, snapshot: &SenderSnapshot, tcp: Option<&Sender>, now: Instant) {
        if !self.posted.is_empty() {
            self.behind = self.posted_at.saturating_since(now);
        }
        if now > self.end {
            self.heard.clear();
            self.posted.clear();
            return;
        }
        for heard in std::mem::take(&mut self.heard) {
            self.write_heard(&heard, now);
        }
        let lost = snapshot.lost.unwrap_or(0);
        if let (Some(sender), true) = (tcp, lost > self.lost) {
            self.write_lost(sender, now);
        }
        self.lost = lost;
        self.superseded.clear();
        if let Some(sender) = tcp {
            self.write_state(sender, now);
        }
        let headers = tcp.map_or(HEADERS, |sender| sender.conn.headers());
        let mut posted = std::mem::take(&mut self.posted);
        for (packet, number) in posted.drain(..) {
            self.write_sent(&packet, number, headers, now);
        }
        self.posted = posted;
        self.write_metrics(snapshot, tcp, now);
    }

    fn write_heard(&mut self, heard: &ReceivedAck, now: Instant) {
        let length = u64::from(heard.reply.frame(heard.blocks));
        if let Some(answer) = heard.reply.answer() {
            let payload = length.saturating_sub(u64::from(UDP_HEADERS));
            self.records.event(now, self.names.name_event(SenderEvent::DatagramsReceived), |data| {
                datagram(data, payload, answer.ecn, heard.number);
            });
            return;
        }
        let ack = heard.reply.tcp();
        self.records.event(now, self.names.name_event(SenderEvent::PacketReceived), |data| {
            header(data, heard.kind, heard.number);
            data.key("frames").json("[").object(|frame| {
                frame.key("frame_type").text("ack");
                if !heard.acked.is_empty() {
                    frame.key("acked_ranges").ranges(&heard.acked);
                }
            });
            data.json("]").key("raw").object(|raw| {
                raw.key("length").integer(length);
            });
            for (name, bit) in [("ece", ack_flag::ECE), ("esce", ack_flag::ESCE), ("dsack", ack_flag::DSACK)] {
                if ack.has(bit) {
                    data.key(name).yes();
                }
            }
            if ack.has(ack_flag::ACCECN_OPTION) {
                data.key("ce_bytes").integer(u64::from(ack.ce_bytes));
            }
        });
    }

    fn write_sent(&mut self, packet: &Packet, number: u64, headers: u16, now: Instant) {
        let length = u64::from(packet.len);
        if packet.has(flag::UDP) {
            let payload = length.saturating_sub(u64::from(UDP_HEADERS));
            self.records.event(now, self.names.name_event(SenderEvent::DatagramsSent), |data| {
                datagram(data, payload, packet.ecn(), number)
            });
            return;
        }
        let (kind, has_data) = match packet.flags() & (flag::SYN | flag::PURE_ACK) {
            flag::SYN => ("initial", false),
            0 => ("1RTT", true),
            _ => ("handshake", false),
        };
        self.records.event(now, self.names.name_event(SenderEvent::PacketSent), |data| {
            header(data, kind, number);
            data.key("raw").object(|raw| {
                raw.key("length").integer(length);
                if has_data {
                    raw.key("payload_length").integer(length.saturating_sub(u64::from(headers)));
                }
            });
            data.key("ecn").text(record::ecn(packet.ecn()));
            if has_data {
                data.key("segment").integer(packet.tcp().seq());
            }
            for (name, bit) in [("retransmission", flag::RETRANSMISSION), ("cwr", flag::CWR)] {
                if packet.has(bit) {
                    data.key(name).yes();
                }
            }
        });
    }

    /// Writes which transmissions are newly taken for lost. One that was sent again during the call is known by what it was before.
    fn write_lost(&mut self, sender: &Sender, now: Instant) {
        for (seq, again) in sender.lost_segments() {
            let Some(segment) = seq.checked_sub(self.first).and_then(|index| self.segments.get_mut(index as usize)) else {
                continue;
            };
            let lost = match self.superseded.get_mut(&seq) {
                Some(before) => before,
                None if again => continue,
                None => segment,
            };
            if std::mem::replace(&mut lost.is_lost, true) {
                continue;
            }
            let number = lost.number;
            self.records.event(now, self.names.name_event(SenderEvent::PacketLost), |data| {
                header(data, "1RTT", number);
                data.key("segment").integer(seq);
            });
        }
    }

    fn write_state(&mut self, sender: &Sender, now: Instant) {
        let conn = &sender.conn;
        let recovery = conn.state();
        let state = match (sender.model(), recovery) {
            (Some(model), _) => model.state,
            (None, CaState::Open | CaState::Disorder) if conn.in_slow_start() => "slow_start",
            (None, CaState::Open | CaState::Disorder) => "congestion_avoidance",
            (None, other) => other.name(),
        };
        let trigger = self.trigger.take();
        let found = (state, recovery.name());
        if self.state == found || state.is_empty() {
            return;
        }
        let (old, _) = std::mem::replace(&mut self.state, found);
        self.records.event(now, self.names.name_event(SenderEvent::State), |data| {
            if !old.is_empty() {
                data.key("old").text(old);
            }
            data.key("new").text(state);
            if let Some(cause) = trigger {
                data.key("trigger").text(cause.name());
            }
            data.key("recovery_state").text(found.1);
        });
    }

    /// Writes the metrics that have changed.
    fn write_metrics(&mut self, snapshot: &SenderSnapshot, tcp: Option<&Sender>, now: Instant) {
        let found = metrics(snapshot, tcp);
        self.metrics.resize(found.len(), Metric::Unknown);
        let is_new = |(&(_, value), &before): (&(&str, Metric), &Metric)| value != before && value != Metric::Unknown;
        if !found.iter().zip(&self.metrics).any(is_new) {
            return;
        }
        let before = &mut self.metrics;
        self.records.event(now, self.names.name_event(SenderEvent::Metrics), |data| {
            for ((name, value), known) in found.iter().zip(before) {
                if value == known {
                    continue;
                }
                match *value {
                    Metric::Unknown => continue,
                    Metric::Unset => data.key(name).null(),
                    Metric::Whole(number) => data.key(name).integer(number),
                    Metric::Real(number) => data.key(name).real(number),
                    Metric::Ms(time) => data.key(name).ms(time),
                };
                *known = *value;
            }
        });
    }
}

fn header(data: &mut QlogRecord, kind: &str, number: u64) {
    data.key("header").object(|header| {
        header.key("packet_type").text(kind).key("packet_number").integer(number);
    });
}

fn datagram(data: &mut QlogRecord, payload: u64, ecn: Ecn, id: u64) {
    data.key("count").integer(1).key("raw").json("[").object(|raw| {
        raw.key("length").integer(payload);
    });
    data.json("]").key("ecn").json("[").text(record::ecn(ecn)).json("]");
    data.key("datagram_ids").json("[").integer(id).json("]");
}

/// Returns the sender's state by names of qlog: the metrics of its schema in bytes, ms and bit/s, and for controls with a model the variables of the BBR draft.
fn metrics(snapshot: &SenderSnapshot, tcp: Option<&Sender>) -> Vec<(&'static str, Metric)> {
    let whole = |value: Option<u64>| value.map_or(Metric::Unknown, Metric::Whole);
    let ms = |time: Option<Duration>| time.map_or(Metric::Unknown, Metric::Ms);
    let SenderSnapshot { cwnd, ssthresh, in_flight, srtt, min_rtt, .. } = *snapshot;
    let model = tcp.and_then(Sender::model);
    let least = match &model {
        Some(model) => model.min_rtt_us.map(|us| Duration::from_micros(u64::from(us))),
        None => min_rtt,
    };
    let pacing_rate = tcp.map(|sender| sender.conn.pacing_rate).filter(|&rate| rate != u64::MAX);
    let mut found = vec![
        ("congestion_window", whole(cwnd)),
        ("bytes_in_flight", whole(in_flight)),
        ("ssthresh", whole(ssthresh)),
        ("smoothed_rtt", ms(srtt)),
        ("min_rtt", ms(least)),
        ("pacing_rate", whole(pacing_rate.map(|rate| rate.saturating_mul(8)))),
    ];
    match (model, tcp) {
        (Some(model), Some(sender)) => found.extend(of_model(&model, sender)),
        (_, Some(_)) => {}
        // which packets were lost is not reported
        (_, None) => found.push(("lost", whole(snapshot.lost))),
    }
    found
}

fn of_model(model: &Model, sender: &Sender) -> [(&'static str, Metric); 20] {
    let bits = |rate: u64| if rate == u64::MAX { Metric::Unknown } else { Metric::Whole(rate.saturating_mul(8)) };
    let set = |segments: Option<u32>| segments.map_or(Metric::Unset, |count| Metric::Whole(u64::from(count)));
    let flag = |is_so: Option<bool>| is_so.map_or(Metric::Unknown, |is_so| Metric::Whole(u64::from(is_so)));
    let count = |segments: u32| if segments == u32::MAX { Metric::Unknown } else { Metric::Whole(u64::from(segments)) };
    let gain = |gain: f64| if gain.is_nan() { Metric::Unknown } else { Metric::Real(gain) };
    let (conn, stats) = (&sender.conn, sender.stats());
    [
        ("bbr_max_bw", bits(model.max_bw)),
        ("bbr_bw", bits(model.bw)),
        ("bbr_bw_shortterm", model.bw_shortterm.map_or(Metric::Unset, bits)),
        ("bbr_inflight_shortterm", set(model.inflight_shortterm)),
        ("bbr_inflight_longterm", set(model.inflight_longterm)),
        ("bbr_inflight", count(model.inflight)),
        ("bbr_probe_up_step", set(model.probe_up_step)),
        ("bbr_pacing_gain", gain(model.pacing_gain)),
        ("bbr_cwnd_gain", gain(model.cwnd_gain)),
        ("bbr_round_count", if model.round == u64::MAX { Metric::Unknown } else { Metric::Whole(model.round) }),
        ("bbr_extra_acked", count(model.extra_acked)),
        ("bbr_full_bw_now", flag(model.full_bw_now)),
        ("bbr_full_bw_reached", flag(model.full_bw_reached)),
        ("bbr_idle_restart", flag(model.idle_restart)),
        ("delivered", Metric::Whole(conn.delivered_segments())),
        ("lost", Metric::Whole(sender.count_lost())),
        ("sent", Metric::Whole(stats.sent)),
        ("timeouts", Metric::Whole(stats.timeouts)),
        ("undone", Metric::Whole(stats.undone)),
        ("app_limited", flag(Some(sender.is_app_limited()))),
    ]
}
