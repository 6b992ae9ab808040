//! TCP as an endpoint: a sender and a receiver, and what is measured of them.

use super::connection::Connection;
use super::port::{EndpointPort, Ingress, ReturnPort, Stages, NO_BLOCKS};
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
use dumbbell_core::tcp::{BackEcn, Block, FlowOptions, Outlet};
use dumbbell_core::units::{Duration, Instant};
use dumbbell_measure::trace::Trace;
use std::sync::Arc;

/// Both ends of a TCP connection, with the receiver right behind the head of its [`Endpoint`](super::endpoint::Endpoint).
#[repr(C)]
pub struct Tcp {
    pub receiver: Receiver,
    /// With it what an ACK needs of the sender begins at a cache line.
    pub(super) space: [u64; 4],
    pub sender: Sender,
}

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
        Tcp { sender, space: [0; 4], receiver: Receiver::new(slot, Arc::clone(host), options) }
    }

    /// Becomes what [`Tcp::new`] makes in the same slot between the same hosts, without RTT samples.
    pub fn renew(&mut self, cc: AnyCc, (ecn, echo): (bool, EcnEcho), app: Application) {
        let options = options(&cc, ecn, echo);
        self.sender.renew(cc, options, app);
        self.receiver.renew(options);
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
        begins.min(self.sender.next_timer()).min(self.receiver.next_timer())
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
    fn on_timer(&mut self, start: Instant, stop: &mut Instant, now: Instant, port: &mut impl Outlet) -> bool {
        let begins = self.sender.phase == Phase::Idle && start <= now;
        if begins {
            self.sender.start(now, port);
        }
        if *stop <= now {
            *stop = Instant::NEVER;
            self.sender.stop(now);
        }
        if self.sender.next_timer() <= now {
            self.sender.on_timer(now, port);
        }
        begins
    }

    #[inline]
    fn on_receiver_timer(&mut self, now: Instant, back: &mut impl ReturnPort) {
        let receiver = &mut self.receiver;
        if let Some(ack) = receiver.on_timer(now) {
            let blocks = if receiver.has_blocks() { back.pool().put(receiver.blocks()) } else { NO_BLOCKS };
            back.send(ack.into(), blocks);
        }
    }

    #[inline(always)]
    fn on_packet(&mut self, packet: &Packet, now: Instant, back: &mut impl ReturnPort) -> Instant {
        let receiver = &mut self.receiver;
        let ack = receiver.on_packet(packet, now);
        let early = receiver.take_early();
        let timer = receiver.next_timer();
        let mut blocks = NO_BLOCKS;
        if ack.is_some() && receiver.has_blocks() {
            seldom();
            blocks = back.pool().put(receiver.blocks());
        }
        if let Some((early, reported)) = early {
            seldom();
            let reported = if reported.as_slice().is_empty() { NO_BLOCKS } else { back.pool().put(reported) };
            back.send(early.into(), reported);
        }
        if let Some(ack) = ack {
            back.send(ack.into(), blocks);
        }
        timer
    }

    #[inline(always)]
    fn on_back(
        &mut self,
        reply: &ReceiverReply,
        blocks: &[Block],
        stages: &mut Stages,
        now: Instant,
        way: &mut impl Ingress,
    ) -> Instant {
        self.sender.on_ack(reply.tcp(), blocks, now, &mut EndpointPort { way, path: &mut stages.data, now });
        let mut timer = self.sender.no_timer_before();
        if let Some(path) = &stages.data {
            seldom();
            timer = timer.min(path.next_timer());
        }
        // it may be over: its timer looks
        if timer == Instant::NEVER {
            now
        } else {
            timer
        }
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

    fn receiver_waits(&self) -> bool {
        self.receiver.next_timer() != Instant::NEVER
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
        SeriesView { payload: self.payload(), sender: Some(SenderState::from(&self.sender)), ..SeriesView::default() }
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
