//! Both ends of a flow without TCP: any [`Protocol`], and what is measured of it. Its receiver measures one-way delays, and its sender, if there are
//! answers, RTTs. A transport also reports its own state.

use super::connection::Connection;
use super::port::{EndpointPort, Ingress, ReturnPort, Stages, NO_BLOCKS};
use crate::flow::{whole_micros, FlowResult, Samples, SenderState, StackResult};
use crate::measure::{AnswerCounts, SeriesView};
use crate::transit::{patience, Transit};
use dumbbell_core::app::PacketFate;
use dumbbell_core::histogram::CompactHistogram;
use dumbbell_core::observe::{ListenLevel, ProtocolKind, Reported, Tap};
use dumbbell_core::packet::{Packet, UDP_HEADERS};
use dumbbell_core::protocol::{Answer, AnswerOutlet, Datagram, DatagramOutlet, Protocol};
use dumbbell_core::reply::{DatagramAnswer, ReceiverReply};
use dumbbell_core::tcp::stats::{ReceiverStats, SenderStats};
use dumbbell_core::tcp::{Block, Outlet};
use dumbbell_core::units::{Duration, Instant};
use dumbbell_measure::trace::Trace;
use std::collections::VecDeque;

/// Answers that have come back.
#[derive(Clone)]
pub struct Answers {
    /// RTTs of the answers; none are recorded after the end of the measured time.
    pub rtts: Option<CompactHistogram>,
    pub samples: Samples,
    pub least_us: u32,
    /// All since the start.
    pub all: AnswerCounts,
    /// The largest RTT since the start.
    most: Option<Duration>,
    /// Packets up to the last that was answered, and when each of the later ones was sent, by number; not of a transport.
    due: u64,
    awaited: VecDeque<(u64, Instant)>,
}

impl Answers {
    /// An answer to packet `number` has come after `rtt`.
    fn take(&mut self, number: u64, rtt: Duration) {
        self.most = self.most.max(Some(rtt));
        while self.awaited.front().is_some_and(|&(earlier, _)| earlier <= number) {
            self.awaited.pop_front();
            self.due += 1;
        }
    }

    /// Packets that were answered, or whose answer is overdue at `now`.
    fn due(&self, now: Instant) -> u64 {
        let patience = patience(self.most);
        self.due + self.awaited.partition_point(|&(_, sent)| sent.saturating_add(patience) <= now) as u64
    }
}

impl Default for Answers {
    fn default() -> Answers {
        Answers {
            rtts: Some(CompactHistogram::default()),
            samples: Samples::default(),
            least_us: u32::MAX,
            all: AnswerCounts::default(),
            most: None,
            due: 0,
            awaited: VecDeque::new(),
        }
    }
}

/// Both ends of a [`Protocol`].
pub struct DatagramFlow {
    protocol: Box<dyn Protocol>,
    /// Whether it is a transport, which reports its state.
    is_transport: bool,
    /// Whether each answer is to one packet, whose number it has.
    is_echo: bool,
    slot: u32,
    /// Packets sent.
    pub sent: u64,
    pub received: ReceiverStats,
    pub transit: Transit,
    pub begun: bool,
    /// When it was stopped.
    pub stopped: Option<Instant>,
    /// If it may answer.
    pub answers: Option<Box<Answers>>,
    /// Propagation to the receiver, which no hop has.
    half_rtt: Duration,
    /// When the datagram left that came last.
    left: Instant,
    /// When it began, how much its application sends, and when all of that had arrived.
    started: Instant,
    size: Option<u64>,
    complete: Option<Instant>,
    /// When it was closed before its end.
    closed: Option<Instant>,
    /// Datagrams that a transport has sent at this instant: number, and whether it is an answer.
    fresh: Vec<(u64, bool)>,
}

dumbbell_core::fork_fields! {
    DatagramFlow {
        protocol;
        is_transport, is_echo, slot, sent, received, transit, begun, stopped, answers, half_rtt, left, started, size, complete, closed,
        fresh
    }
}

/// Makes packets of datagrams.
struct DatagramPort<'a, N: Outlet> {
    port: &'a mut N,
    slot: u32,
    now: Instant,
    sent: &'a mut u64,
    fresh: Option<&'a mut Vec<(u64, bool)>>,
    /// Packets whose answer is awaited.
    awaited: Option<&'a mut VecDeque<(u64, Instant)>>,
}

impl<N: Outlet> DatagramOutlet for DatagramPort<'_, N> {
    fn send(&mut self, Datagram { number, length, ecn }: Datagram) {
        *self.sent += 1;
        if let Some(fresh) = &mut self.fresh {
            fresh.push((number, false));
        }
        if let Some(awaited) = &mut self.awaited {
            awaited.push_back((number, self.now));
        }
        self.port.send(Packet { flow: self.slot, len: length, ..Packet::new_udp(number, ecn, self.now) });
    }
}

/// Makes answers of what a receiver sends back.
struct AnswerPort<'a, B: ReturnPort> {
    back: &'a mut B,
    slot: u32,
    left: Instant,
    acks: &'a mut u64,
    fresh: Option<&'a mut Vec<(u64, bool)>>,
}

impl<B: ReturnPort> AnswerOutlet for AnswerPort<'_, B> {
    fn answer(&mut self, Answer { value, length: len, ecn }: Answer) {
        *self.acks += 1;
        if let Some(fresh) = &mut self.fresh {
            fresh.push((value, true));
        }
        let id = *self.acks as u16;
        self.back.send(DatagramAnswer { flow: self.slot, sent: self.left, value, len, ecn, id }.into(), NO_BLOCKS);
    }
}

/// Answers of who may not give any.
struct NoAnswers;

impl AnswerOutlet for NoAnswers {
    fn answer(&mut self, _answer: Answer) {}
}

/// Calls of a timer at one instant before other events have their turn: a protocol that is always due does not stop the engine.
const CALLS: u32 = 10_000;

impl DatagramFlow {
    /// `protocol` in `slot`, which has not begun.
    pub fn new(slot: u32, protocol: Box<dyn Protocol>, answers: bool, base_rtt: Duration, size: Option<u64>) -> DatagramFlow {
        let is_transport = protocol.stats().is_some();
        DatagramFlow {
            is_transport,
            is_echo: !is_transport,
            protocol,
            slot,
            sent: 0,
            received: ReceiverStats::default(),
            transit: Transit::default(),
            begun: false,
            stopped: None,
            answers: answers.then(Box::default),
            half_rtt: base_rtt / 2,
            left: Instant::ZERO,
            started: Instant::ZERO,
            size,
            complete: None,
            closed: None,
            fresh: Vec::new(),
        }
    }

    /// Lets the receiver report to the sender: an answer is not to one packet.
    pub fn with_reports(self) -> DatagramFlow {
        DatagramFlow { is_echo: false, answers: Some(Box::default()), ..self }
    }

    /// Returns the values of the measures of an application until `now`, whose packets had this `fate`.
    pub fn figures(&self, fate: PacketFate, now: Instant) -> Vec<f64> {
        self.protocol.figures(fate, now)
    }

    /// The measured time of an application begins.
    pub fn begin_figures(&mut self, now: Instant) {
        self.protocol.forget(now);
    }

    /// When either end has something to do.
    fn timer(&self) -> Instant {
        self.protocol.next_timer().min(self.protocol.receiver_timer())
    }

    /// Notes the time if everything has arrived, or the connection was closed.
    fn note_end(&mut self, now: Instant) {
        if self.complete.is_none() && self.size.is_some_and(|size| self.payload() >= size) {
            self.complete = Some(now);
        }
        if self.closed.is_none() && self.protocol.close_reason().is_some() {
            self.closed = Some(now);
        }
    }

    /// A packet arrives. Never inlined: the way of TCP's packets stays as short as it was.
    #[inline(never)]
    fn arrive(&mut self, packet: &Packet, now: Instant, back: &mut impl ReturnPort) {
        self.fresh.clear();
        self.received.count(packet);
        self.received.data += 1;
        self.received.bytes += u64::from(packet.len.saturating_sub(UDP_HEADERS));
        let age = packet.udp().age(now);
        let delay = age + self.half_rtt;
        self.transit.record_delay(delay);
        self.left = Instant(now.0.wrapping_sub(age.0));
        let datagram = Datagram { number: packet.udp().number(), length: packet.len, ecn: packet.ecn() };
        self.protocol.on_delay(&datagram, delay, now);
        if self.answers.is_some() {
            let DatagramFlow { slot, left, .. } = *self;
            let fresh = self.is_transport.then_some(&mut self.fresh);
            let acks = &mut self.received.acks;
            self.protocol.receive(&datagram, now, &mut AnswerPort { back, slot, left, acks, fresh });
        } else {
            self.protocol.receive(&datagram, now, &mut NoAnswers);
        }
        self.note_end(now);
    }
}

impl Connection for DatagramFlow {
    fn has_begun(&self) -> bool {
        self.begun
    }

    fn next_timer(&self, start: Instant) -> Instant {
        if self.begun {
            self.timer()
        } else {
            start
        }
    }

    fn on_timer(&mut self, start: Instant, stop: &mut Instant, stages: &mut Stages, now: Instant, way: impl Ingress) -> bool {
        let port = &mut EndpointPort { way, end: None, path: &mut stages.data, now };
        self.fresh.clear();
        let begins = !self.begun && start <= now;
        if begins {
            self.begun = true;
            self.started = now;
            self.protocol.start(now);
        }
        if *stop <= now {
            self.protocol.stop(now);
            self.begun = true;
            self.stopped = Some(now);
            *stop = Instant::NEVER;
        }
        for _ in 0..CALLS {
            if !self.begun || self.protocol.next_timer() > now {
                break;
            }
            let fresh = self.is_transport.then_some(&mut self.fresh);
            let answers = self.answers.as_deref_mut().filter(|_| self.is_echo);
            let awaited = answers.map(|answers| &mut answers.awaited);
            self.protocol.on_timer(now, &mut DatagramPort { port, slot: self.slot, now, sent: &mut self.sent, fresh, awaited });
        }
        self.note_end(now);
        begins
    }

    fn on_receiver_timer(&mut self, now: Instant, back: &mut impl ReturnPort) {
        for _ in 0..CALLS {
            if !self.begun || self.protocol.receiver_timer() > now {
                break;
            }
            let DatagramFlow { slot, left, .. } = *self;
            let fresh = self.is_transport.then_some(&mut self.fresh);
            let acks = &mut self.received.acks;
            self.protocol.on_receiver_timer(now, &mut AnswerPort { back, slot, left, acks, fresh });
        }
    }

    #[inline]
    fn on_packet(&mut self, packet: &Packet, now: Instant, back: &mut impl ReturnPort) -> Instant {
        self.arrive(packet, now, back);
        self.timer()
    }

    #[cold]
    #[inline(never)]
    fn on_back(
        &mut self,
        reply: &ReceiverReply,
        _blocks: &[Block],
        _stages: &mut Stages,
        now: Instant,
        _way: impl Ingress,
    ) -> Instant {
        let Some(DatagramAnswer { sent, value, len: length, ecn, .. }) = reply.answer() else { return self.timer() };
        let rtt = Duration(now.0.wrapping_sub(sent.0));
        if let Some(answers) = self.answers.as_deref_mut() {
            answers.take(value, rtt);
            let Answers { rtts, samples, least_us, all, .. } = answers;
            let micros = whole_micros(rtt);
            // a transport is asked for its state instead
            if !self.is_transport {
                samples.add(&SenderState { srtt_us: micros, ..SenderState::default() });
            }
            *least_us = micros.min(*least_us);
            all.add(micros);
            if let Some(rtts) = rtts {
                rtts.record(rtt);
            }
        }
        self.protocol.on_answer(&Answer { value, length, ecn }, rtt, now);
        self.note_end(now);
        self.timer()
    }

    fn payload(&self) -> u64 {
        self.protocol.stats().map_or(self.received.bytes, |stats| stats.received)
    }

    fn sample(&self, samples: &mut Samples, _now: Instant) {
        if let Some(stats) = self.protocol.stats() {
            samples.add(&SenderState::from(&stats));
        }
    }

    fn sent_and_received(&self) -> (u64, ReceiverStats) {
        (self.sent, self.received)
    }

    fn finish_time(&self) -> Option<Instant> {
        self.complete
    }

    fn report_changes(&mut self, _said: &mut Reported, listener: &mut impl Tap, slot: u32, now: Instant) {
        if listener.listen_level() < ListenLevel::Snapshots {
            return;
        }
        let stats = self.protocol.stats().unwrap_or_default();
        listener.on_snapshot(slot, &stats.sender, None, now);
    }

    fn protocol(&self) -> ProtocolKind {
        if self.is_transport {
            ProtocolKind::Datagrams
        } else {
            ProtocolKind::Udp
        }
    }

    fn report_payloads(&mut self, listener: &mut dyn Tap) {
        for (number, is_answer) in self.fresh.drain(..) {
            if let Some(bytes) = self.protocol.payload(number, is_answer) {
                listener.on_payload(self.slot, number, is_answer, bytes);
            }
        }
    }

    fn take_rtt_samples(&mut self) -> Option<CompactHistogram> {
        self.answers.as_mut()?.rtts.take()
    }

    fn take_transit(&mut self) -> Option<Box<Transit>> {
        Some(Box::new(std::mem::take(&mut self.transit)))
    }

    fn result(&self, common: FlowResult, now: Instant) -> FlowResult {
        let answers = self.answers.as_ref();
        let sender = SenderStats { sent: self.sent, ..SenderStats::default() };
        let end = self.stopped.unwrap_or(now);
        let common = FlowResult { end, payload: self.payload(), receiver: self.received, ..common };
        let Some(stats) = self.protocol.stats() else {
            let samples = answers.map_or(Samples::default(), |answers| answers.samples);
            let due = answers.filter(|_| self.is_echo).map(|answers| answers.due(now));
            return FlowResult {
                due,
                samples,
                min_rtt_us: answers.map_or(u32::MAX, |answers| answers.least_us),
                sender,
                ..common
            };
        };
        let closed = self.closed.and_then(|at| self.protocol.close_reason().map(|why| (why.to_owned(), at - self.started)));
        FlowResult {
            // as of TCP: measured until everything has arrived, not until its stop
            end: self.complete.unwrap_or(now),
            min_rtt_us: stats.sender.min_rtt.map_or(u32::MAX, whole_micros),
            completion: self.complete.map(|at| at + self.half_rtt - self.started),
            sender,
            stack: Some(Box::new(StackResult { stats, closed })),
            ..common
        }
    }

    fn trace(&self, trace: &mut Trace, slot: u32, now: Instant, backlog: impl FnOnce() -> u64) {
        if let Some(stats) = self.protocol.stats().filter(|_| self.begun) {
            trace.record_stack(slot, &stats, self.sent, now, backlog);
        }
    }

    fn series_view(&self) -> SeriesView {
        SeriesView {
            payload: self.payload(),
            sender: self.protocol.stats().as_ref().map(SenderState::from),
            answered: self.answers.as_ref().map_or_else(AnswerCounts::default, |one| one.all),
            sent: self.sent,
            ..SeriesView::default()
        }
    }

    fn forget_samples(&mut self) {
        self.transit.forget();
        if let Some(answers) = &mut self.answers {
            (answers.samples, answers.rtts) = (Samples::default(), Some(CompactHistogram::default()));
        }
    }
}
