//! TCP as an endpoint: a sender and a receiver, and what is measured of them.

use super::connection::Connection;
use super::port::{on_receiver_timer, receive, EndpointPort, Ingress, ReceivingEnd, ReturnPort, Stages};
use crate::flow::{FlowResult, Samples, SenderState};
use crate::measure::SeriesView;
use dumbbell_config::EcnEcho;
use dumbbell_core::cc::conn::INFINITE_SSTHRESH;
use dumbbell_core::cc::{AnyCc, CongestionControl, Echo};
use dumbbell_core::hint::seldom;
use dumbbell_core::histogram::CompactHistogram;
use dumbbell_core::observe::{ControlEvent, ListenLevel, ProtocolKind, Reported, SenderSnapshot, Tap};
use dumbbell_core::packet::Packet;
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::host::HostParams;
use dumbbell_core::tcp::receiver::Receiver;
use dumbbell_core::tcp::sender::{Application, Phase, Sender};
use dumbbell_core::tcp::stats::ReceiverStats;
use dumbbell_core::tcp::{BackEcn, Block, FlowOptions};
use dumbbell_core::units::{Duration, Instant};
use dumbbell_measure::trace::Trace;
use std::sync::Arc;

/// Both ends of a TCP connection, with the receiver right behind the head of its [`Endpoint`](super::endpoint::Endpoint).
#[repr(C)]
pub struct Tcp {
    pub receiver: Receiver,
    /// When the last packet that was delivered ahead of its time arrives.
    pub(super) last_arrival: Instant,
    /// With it what an ACK needs of the sender begins at a cache line.
    pub(super) space: [u64; 1],
    pub sender: Sender,
}

dumbbell_core::fork_fields! { Tcp { sender; receiver, last_arrival, space } }

impl Tcp {
    /// A connection in `slot`. It keeps its RTT samples if it `records` them.
    pub fn new(
        slot: u32,
        cc: AnyCc,
        host: &Arc<HostParams>,
        (ecn, echo): (bool, EcnEcho),
        app: Application,
        records: bool,
    ) -> Tcp {
        let options = options(&cc, ecn, echo);
        let mut sender = Sender::new(slot, cc, Arc::clone(host), options, app);
        sender.rtt_samples = records.then(CompactHistogram::default);
        Tcp { sender, space: [0; 1], last_arrival: Instant::ZERO, receiver: Receiver::new(slot, Arc::clone(host), options) }
    }

    /// Becomes what [`Tcp::new`] makes in the same slot between the same hosts, without RTT samples.
    pub fn renew(&mut self, cc: AnyCc, (ecn, echo): (bool, EcnEcho), app: Application) {
        let options = options(&cc, ecn, echo);
        self.sender.renew(cc, options, app);
        self.receiver.renew(options);
        self.last_arrival = Instant::ZERO;
    }

    /// Gives the connection another control at `now`. Before it begins it is as if it had been built with it, and `ecn` and `echo` are what [`Tcp::new`] takes.
    ///
    /// # Errors
    /// Says of the connection why it cannot have it; nothing has changed then.
    #[cold]
    pub fn replace_control(&mut self, cc: AnyCc, (ecn, echo): (bool, EcnEcho), now: Instant) -> Result<(), &'static str> {
        if self.sender.phase != Phase::Idle {
            return self.sender.replace_control(cc, now);
        }
        let options = options(&cc, ecn, echo);
        self.sender.choose_control(cc, options);
        self.receiver.set_options(options);
        Ok(())
    }

    /// The sender, and its way to the net and to the receiver.
    #[inline(always)]
    pub(super) fn port<'a, W: Ingress>(
        &'a mut self,
        stages: &'a mut Stages,
        now: Instant,
        way: W,
    ) -> (&'a mut Sender, EndpointPort<'a, W>) {
        let Tcp { receiver, last_arrival, sender, .. } = self;
        let end = Some(ReceivingEnd { receiver, last_arrival });
        (sender, EndpointPort { way, end, path: &mut stages.data, now })
    }
}

/// Returns the options that a connection under `cc` negotiates; `ecn` says whether its host asks for ECN.
fn options(cc: &AnyCc, ecn: bool, echo: EcnEcho) -> FlowOptions {
    let echo = match echo {
        EcnEcho::Auto => cc.ecn().echo,
        EcnEcho::Classic => Echo::UntilCwr,
        EcnEcho::Dctcp => Echo::PerPacket,
        EcnEcho::AccEcn => Echo::Accurate,
    };
    FlowOptions { ecn: ecn || cc.ecn().required, echo }
}

/// Returns the state of a sender, in bytes.
fn snapshot(sender: &Sender) -> SenderSnapshot {
    let conn = &sender.conn;
    let bytes = |segments: u32| u64::from(segments) * u64::from(conn.mss);
    let rtt = |us: u32| Some(us).filter(|&us| us != 0 && us != u32::MAX).map(|us| Duration::from_micros(u64::from(us)));
    SenderSnapshot {
        cwnd: Some(bytes(conn.cwnd)),
        ssthresh: Some(conn.ssthresh).filter(|&segments| segments != INFINITE_SSTHRESH).map(bytes),
        in_flight: Some(bytes(conn.in_flight())),
        srtt: rtt(conn.rtt().srtt_us()),
        min_rtt: rtt(conn.rtt().min_us()),
        lost: Some(sender.count_lost()),
    }
}

impl Connection for Tcp {
    #[inline]
    fn has_begun(&self) -> bool {
        self.sender.phase != Phase::Idle
    }

    #[inline]
    fn next_timer(&self, start: Instant) -> Instant {
        let begins = if self.sender.phase == Phase::Idle { start } else { Instant::NEVER };
        let other = begins.min(self.sender.next_timer());
        if other <= self.receiver.no_timer_before() {
            other
        } else {
            other.min(self.receiver.next_timer())
        }
    }

    #[inline]
    fn sender_timer(&self) -> Instant {
        self.sender.next_timer()
    }

    #[inline]
    fn receiver_timer(&self) -> Instant {
        self.receiver.next_timer()
    }

    #[inline]
    fn on_timer(&mut self, start: Instant, stop: &mut Instant, stages: &mut Stages, now: Instant, way: impl Ingress) -> bool {
        let begins = self.sender.phase == Phase::Idle && start <= now;
        let (sender, mut port) = self.port(stages, now, way);
        if begins {
            sender.start(now, &mut port);
        }
        if *stop <= now {
            *stop = Instant::NEVER;
            sender.stop(now);
        }
        if sender.next_timer() <= now {
            sender.on_timer(now, &mut port);
        }
        begins
    }

    #[inline]
    fn on_receiver_timer(&mut self, now: Instant, back: &mut impl ReturnPort) {
        if self.receiver.no_timer_before() <= now && self.receiver.next_timer() <= now {
            on_receiver_timer(&mut self.receiver, now, back);
        }
    }

    #[inline(always)]
    fn on_packet(&mut self, packet: &Packet, now: Instant, back: &mut impl ReturnPort) -> Instant {
        if back.is_ahead() {
            ReceivingEnd { receiver: &mut self.receiver, last_arrival: &mut self.last_arrival }.receive(packet, now, back);
            return self.receiver.no_timer_before();
        }
        receive(&mut self.receiver, packet, now, back);
        // traces get a row whenever a timer is due: none may be due early
        self.receiver.next_timer()
    }

    #[inline(always)]
    fn on_back(
        &mut self,
        reply: &ReceiverReply,
        blocks: &[Block],
        stages: &mut Stages,
        now: Instant,
        way: impl Ingress,
    ) -> Instant {
        let delivers = way.delivers();
        let (sender, mut port) = self.port(stages, now, way);
        sender.on_ack(reply.tcp(), blocks, now, &mut port);
        let mut timer = self.sender.no_timer_before();
        if let Some(path) = &stages.data {
            seldom();
            timer = timer.min(path.next_timer());
        }
        // it may be over: its timer looks
        if timer == Instant::NEVER {
            return now;
        }
        if delivers {
            timer = timer.min(self.receiver.no_timer_before());
        }
        timer
    }

    #[inline(always)]
    fn prefetch(&self) {
        self.sender.prefetch();
    }

    #[inline(always)]
    fn prefetch_behind(&self) {
        self.sender.prefetch_behind();
    }

    fn back_ecn(&self) -> BackEcn {
        self.sender.back_ecn(self.receiver.is_accurate())
    }

    fn payload(&self) -> u64 {
        self.sender.bytes_acked()
    }

    fn sent_and_received(&self) -> (u64, ReceiverStats) {
        (self.sender.stats().sent_all(), self.receiver.stats)
    }

    fn finish_time(&self) -> Option<Instant> {
        self.sender.finished
    }

    fn is_done(&self) -> bool {
        self.sender.phase == Phase::Done
    }

    fn receiver_waits(&self, now: Instant) -> bool {
        self.receiver.next_timer() != Instant::NEVER || self.last_arrival > now
    }

    fn check(&self) -> Result<(), (&'static str, u64, u64)> {
        let conn = &self.sender.conn;
        if conn.cwnd == 0 || conn.snd_una() > conn.snd_nxt() || self.receiver.rcv_nxt > conn.snd_nxt() {
            return Err(("window at least 1 and sequence numbers in order", conn.snd_una(), conn.snd_nxt()));
        }
        Ok(())
    }

    fn sample(&self, samples: &mut Samples, now: Instant) {
        if self.sender.finished.is_none_or(|finished| finished >= now) {
            samples.add(&SenderState::from(&self.sender));
        }
    }

    fn forget_samples(&mut self) {
        if let Some(samples) = &mut self.sender.rtt_samples {
            *samples = CompactHistogram::default();
        }
    }

    fn take_rtt_samples(&mut self) -> Option<CompactHistogram> {
        self.sender.rtt_samples.take()
    }

    fn result(&self, common: FlowResult, now: Instant) -> FlowResult {
        let sender = &self.sender;
        let mut samples = common.samples;
        if samples.count == 0 {
            // over before the first sample was due: its last estimate stands for it
            samples.add(&SenderState::from(sender));
        }
        FlowResult {
            end: sender.finished.unwrap_or(now),
            payload: sender.bytes_acked(),
            min_rtt_us: sender.conn.rtt().min_us(),
            completion: sender.finished.map(|finished| finished - sender.started),
            slow_start_exit: sender.conn.exits().first.map(|exit| (exit.cause, exit.time.saturating_since(sender.started))),
            samples,
            sender: sender.stats(),
            receiver: self.receiver.stats,
            ..common
        }
    }

    fn series_view(&self) -> SeriesView {
        SeriesView {
            payload: self.payload(),
            sender: Some(SenderState::from(&self.sender)),
            sent: self.sender.stats().sent,
            ..SeriesView::default()
        }
    }

    fn protocol(&self) -> ProtocolKind {
        ProtocolKind::Tcp { ecn: self.sender.asks_for_ecn(), accurate: self.receiver.is_accurate() }
    }

    fn trace(&self, trace: &mut Trace, slot: u32, now: Instant, backlog: impl FnOnce() -> u64) {
        trace.record_sender(slot, &self.sender, now, backlog);
    }

    fn report_changes(&mut self, said: &mut Reported, listener: &mut impl Tap, slot: u32, now: Instant) {
        let sender = &mut self.sender;
        if listener.listen_level() >= ListenLevel::RateSamples {
            if let Some(sample) = sender.take_rate_sample() {
                listener.on_control_event(slot, &ControlEvent::RateSample(sample), now);
            }
        }
        let phase = sender.model().map_or("", |model| model.state);
        said.report_changes(&sender.conn, phase, sender.phase == Phase::Done, |event| {
            listener.on_control_event(slot, &event, now)
        });
        if listener.listen_level() >= ListenLevel::Snapshots {
            listener.on_snapshot(slot, &snapshot(sender), Some(sender), now);
        }
    }
}
