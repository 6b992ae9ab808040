//! Runs as qlog: what senders do and believe, and what queues do with packets.
//!
//! A [`QlogRecorder`] gives a listener for each hop of a run, which writes records of JSON text sequences (RFC 7464) as things happen: a file for each flow, of
//! its sender, and one of the network. Events of senders are those of draft-ietf-quic-qlog-quic-events-13; events of queues are our own, in the
//! namespace `dumbbell`. A sender of TCP is written as if each transmission of a segment were a packet of QUIC with a number of its own. Headers are the caller's.

mod network;
mod record;
mod sender;

use dumbbell_core::log::{At, DropReason, DropSite, Log, Mark, MarkReason};
use dumbbell_core::observe::{ControlEvent, ListenLevel, SenderSnapshot, Tap};
use dumbbell_core::packet::{Ecn, Packet};
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::sender::Sender;
use dumbbell_core::tcp::Block;
use dumbbell_core::units::Instant;
use network::{HopBacklog, NetworkFile};
use record::Records;
use sender::QlogFlow;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where records go.
pub type QlogWriter = Box<dyn Write + Send>;

/// The names of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// As in draft-ietf-quic-qlog-quic-events-13.
    Draft,
    /// As in qlog 0.3 (draft-ietf-quic-qlog-quic-events-01), which qvis reads.
    V03,
}

/// All that is written of a run.
struct QlogFiles {
    /// By slot of the engine.
    flows: Vec<Option<QlogFlow>>,
    network: Option<NetworkFile>,
}

impl QlogFiles {
    fn flow(&mut self, slot: u32) -> Option<&mut QlogFlow> {
        self.flows.get_mut(slot as usize)?.as_mut()
    }
}

/// Writes a run as qlog.
#[derive(Clone)]
pub struct QlogRecorder {
    files: Arc<Mutex<QlogFiles>>,
}

impl QlogRecorder {
    /// Records the senders of these flows, numbered as in `[[flows]]`, and their packets at queues, until the clock of each sender reaches `end`, the duration
    /// of the run.
    pub fn new(names: Names, senders: Vec<(u32, QlogWriter)>, network: Option<QlogWriter>, end: Instant) -> QlogRecorder {
        let mut flows: Vec<Option<QlogFlow>> = Vec::new();
        for (number, sink) in senders {
            let index = number as usize;
            flows.resize_with(flows.len().max(index + 1), || None);
            flows[index] = Some(QlogFlow::new(names, Records::new(sink), end));
        }
        let network = network.map(|sink| NetworkFile::new(Records::new(sink)));
        QlogRecorder { files: Arc::new(Mutex::new(QlogFiles { flows, network })) }
    }

    /// Returns a listener for the queue of `hop`.
    pub fn listener(&self, hop: &str) -> QlogListener {
        QlogListener { recorder: self.clone(), queue: HopBacklog::new(hop) }
    }

    /// Writes what is left. Returns how many records there are.
    ///
    /// # Errors
    /// The first that there was while something was written.
    pub fn finish(&self) -> io::Result<u64> {
        let mut files = self.files();
        let QlogFiles { flows, network } = &mut *files;
        let of_flows = flows.iter_mut().flatten().map(|flow| flow.records.finish());
        of_flows.chain(network.iter_mut().map(|network| network.records.finish())).sum()
    }

    fn files(&self) -> MutexGuard<'_, QlogFiles> {
        // a panic elsewhere leaves records that are whole
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens at a hop.
pub struct QlogListener {
    recorder: QlogRecorder,
    queue: HopBacklog,
}

impl QlogListener {
    /// The queue has done something with a packet of a flow that is written.
    fn queue_did(&mut self, packet: &Packet, at: At, name: &'static str, more: impl FnOnce(&mut record::QlogRecord)) {
        let mut files = self.recorder.files();
        let QlogFiles { flows, network } = &mut *files;
        let (Some(network), Some(Some(flow))) = (network, flows.get(packet.flow as usize)) else { return };
        if flow.is_over(at.now) {
            return;
        }
        network.write(&self.queue, flow.number_of(packet), packet, at, name, more);
    }
}

impl Log for QlogListener {
    fn on_enqueue(&mut self, packet: &Packet, at: At) {
        self.queue.add(packet);
        self.queue_did(packet, at, "dumbbell:packet_enqueued", |_| {});
    }

    fn on_dequeue(&mut self, packet: &Packet, at: At) {
        self.queue.remove(packet);
        self.queue_did(packet, at, "dumbbell:packet_dequeued", |data| {
            data.key("sojourn").ms(at.now.saturating_since(packet.enqueue_time));
        });
    }

    fn on_mark(&mut self, packet: &Packet, before: Ecn, mark: Mark, reason: MarkReason, at: At) {
        self.queue_did(packet, at, "dumbbell:packet_marked", |data| {
            data.key("old_ecn").text(record::ecn(before)).key("mark").text(mark.name());
            data.key("reason").text(reason.name());
        });
    }

    fn on_drop(&mut self, packet: &Packet, reason: DropReason, place: DropSite, at: At) {
        if place == DropSite::Queue {
            self.queue.remove(packet);
        }
        self.queue_did(packet, at, "dumbbell:packet_dropped", |data| {
            data.key("reason").text(reason.name()).key("place").text(place.name());
        });
    }
}

impl Tap for QlogListener {
    fn listen_level(&self) -> ListenLevel {
        ListenLevel::Snapshots
    }

    fn on_control_event(&mut self, flow: u32, event: &ControlEvent, _now: Instant) {
        if let (ControlEvent::SlowStartExit(exit), Some(flow)) = (event, self.recorder.files().flow(flow)) {
            flow.left_slow_start(exit.cause);
        }
    }

    fn on_send(&mut self, packet: &Packet, now: Instant) {
        if let Some(flow) = self.recorder.files().flow(packet.flow) {
            flow.post(packet, now);
        }
    }

    fn on_ack(&mut self, reply: &ReceiverReply, blocks: &[Block], _now: Instant) {
        if let Some(flow) = self.recorder.files().flow(reply.flow()) {
            flow.on_ack(reply, blocks);
        }
    }

    fn on_snapshot(&mut self, flow: u32, snapshot: &SenderSnapshot, tcp: Option<&Sender>, now: Instant) {
        if let Some(flow) = self.recorder.files().flow(flow) {
            flow.record_snapshot(snapshot, tcp, now);
        }
    }
}
