//! The listener. Events go in batches to a thread of its own: a run continues while its packets are written.

use crate::fate::{DropRecord, Marked};
use crate::state::{BoxedBlocks, LoggedEvent, State};
use crate::write::{PacketSelection, Writer, WrittenPackets};
use crate::{CaptureWriter, OUT, RECEIVER};
use dumbbell_config::{RunConfig, UdpConfig};
use dumbbell_core::log::{At, DropReason, DropSite, Log, Mark, MarkReason};
use dumbbell_core::observe::{FlowStart, ListenLevel, Tap};
use dumbbell_core::packet::{Ecn, Packet};
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::{ack_flag, Block};
use dumbbell_core::units::{Duration, Instant};
use std::io;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Events of a batch: some hundred kilobytes, which stay in a cache.
const BATCH: usize = 4096;
/// Most batches that may wait.
const BATCHES: usize = 8;

type Batch = Vec<(Instant, LoggedEvent)>;

/// Events that have not been handed to the writer yet.
struct RecordedEvent {
    events: Batch,
    full: Option<SyncSender<Batch>>,
    /// Memory that comes back.
    empty: Receiver<Batch>,
    writer: JoinHandle<io::Result<WrittenPackets>>,
}

impl RecordedEvent {
    #[inline(always)]
    fn push(&mut self, now: Instant, event: LoggedEvent) {
        self.events.push((now, event));
        if self.events.len() >= BATCH {
            self.hand_over();
        }
    }

    #[cold]
    fn hand_over(&mut self) {
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
        let events = std::mem::replace(&mut self.events, next);
        if let Some(full) = &self.full {
            // the receiving thread lives until `finish`, unless it panicked, which `finish` returns
            let _ = full.send(events);
        }
    }
}

/// Where the listeners of a run leave what they hear.
type Shared = Arc<Mutex<Option<RecordedEvent>>>;

/// Writes the packets of a run.
#[derive(Clone)]
pub struct PacketRecorder {
    heard: Shared,
    /// Names of points and hops.
    points: Arc<[String]>,
    hops: Arc<[String]>,
}

impl PacketRecorder {
    /// Returns a recorder for a run of `config`, which writes a file by `program` with this comment, or columns.
    ///
    /// # Errors
    /// A point that the run has not.
    pub fn new(
        config: &RunConfig,
        asked: PacketSelection,
        file: Option<(CaptureWriter, &str, &str)>,
    ) -> Result<PacketRecorder, String> {
        let (names, hops) = asked.names(config)?;
        let output = asked.output(&names, file);
        let flows = config.flows.iter().map(|flow| flow.params.base_rtt);
        let web = config.web.iter().map(|web| web.params.base_rtt);
        let apps = config.apps.iter().map(|app| app.params.base_rtt);
        let rtts = flows.chain(web).chain(config.udp.iter().map(UdpConfig::line).map(|(rtt, _)| rtt)).chain(apps);
        // a SYN of a receiver that opens left half a round trip before its answer
        let most_ahead = rtts.max().unwrap_or(Duration::ZERO);
        let (points, all_hops) = (Arc::from(names.as_slice()), Arc::from(hops.as_slice()));
        let state = State::new(config, asked, Writer::new(output, names, hops), most_ahead);
        let (full, batches) = sync_channel::<Batch>(BATCHES);
        let (give_back, empty) = sync_channel(BATCHES + 1);
        let writer = std::thread::spawn(move || {
            let mut state = state;
            for mut batch in batches {
                for (now, event) in batch.drain(..) {
                    state.take(now, event);
                }
                // nobody takes it back at the end
                let _ = give_back.try_send(batch);
            }
            state.finish()
        });
        let heard = RecordedEvent { events: Vec::with_capacity(BATCH), full: Some(full), empty, writer };
        Ok(PacketRecorder { heard: Arc::new(Mutex::new(Some(heard))), points, hops: all_hops })
    }

    /// Returns the listener of a hop; to be called once for each.
    pub fn listener(&self, hop: &str) -> PacketListener {
        let number = |name: &str| self.points.iter().position(|known| known == name).map(|index| index as u32);
        let index = self.hops.iter().position(|known| known == hop).unwrap_or(0) as u16;
        let (into, out) = (number(hop), number(&format!("{hop}{OUT}")));
        // nobody else needs it meanwhile
        let own = if self.hops.len() == 1 { lock(&self.heard).take() } else { None };
        PacketListener { into, out, hop: index, hears_receivers: number(RECEIVER).is_some(), own, heard: Arc::clone(&self.heard) }
    }

    /// Writes what is left. Of packets that are still under way nobody knows what becomes of them.
    ///
    /// # Errors
    /// The first that there was while something was written.
    pub fn finish(&self) -> io::Result<WrittenPackets> {
        let Some(mut heard) = lock(&self.heard).take() else {
            return Err(io::Error::other("it was finished before, or a listener is left"));
        };
        heard.hand_over();
        heard.full = None;
        heard.writer.join().unwrap_or_else(|_| Err(io::Error::other("who writes panicked")))
    }
}

fn lock(heard: &Mutex<Option<RecordedEvent>>) -> MutexGuard<'_, Option<RecordedEvent>> {
    // a panic elsewhere leaves events that are whole
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn some(blocks: &[Block]) -> BoxedBlocks {
    (!blocks.is_empty()).then(|| blocks.into())
}

/// Listens at a hop.
pub struct PacketListener {
    /// Events of the only listener: a lock for each event would cost as much as the rest of its work.
    own: Option<RecordedEvent>,
    heard: Shared,
    hop: u16,
    /// The points ahead of its queue and behind its link.
    into: Option<u32>,
    out: Option<u32>,
    /// Whether packets of receivers are recorded where they leave.
    hears_receivers: bool,
}

impl Drop for PacketListener {
    fn drop(&mut self) {
        if let Some(own) = self.own.take() {
            *lock(&self.heard) = Some(own);
        }
    }
}

impl PacketListener {
    #[inline(always)]
    fn push_event(&mut self, now: Instant, event: LoggedEvent) {
        match &mut self.own {
            Some(own) => own.push(now, event),
            None => self.hear_among_others(now, event),
        }
    }

    #[inline(never)]
    fn hear_among_others(&self, now: Instant, event: LoggedEvent) {
        if let Some(heard) = lock(&self.heard).as_mut() {
            heard.push(now, event);
        }
    }
}

impl Log for PacketListener {
    fn on_arrival(&mut self, packet: &Packet, now: Instant) {
        if let Some(point) = self.into {
            self.push_event(now, LoggedEvent::Seen(*packet, point, true));
        }
    }

    fn on_departure(&mut self, packet: &Packet, now: Instant) {
        if let Some(point) = self.out {
            self.push_event(now, LoggedEvent::Seen(*packet, point, false));
        }
        if self.into.is_some() && packet.is_back() {
            self.push_event(now, LoggedEvent::Left(*packet));
        }
    }

    fn on_mark(&mut self, packet: &Packet, before: Ecn, mark: Mark, reason: MarkReason, at: At) {
        if before != Ecn::Ce {
            self.push_event(at.now, LoggedEvent::Marked(*packet, Marked { hop: self.hop, mark, reason: Some(reason) }));
        }
    }

    fn on_drop(&mut self, packet: &Packet, reason: DropReason, place: DropSite, at: At) {
        let dropped = DropRecord { hop: self.hop, reason: Some(reason), place: Some(place), at: at.now };
        self.push_event(at.now, LoggedEvent::Dropped(*packet, Box::new(dropped)));
    }

    fn on_clear_ecn(&mut self, packet: &Packet, now: Instant) {
        self.push_event(now, LoggedEvent::Erased(*packet, self.hop));
    }
}

impl Tap for PacketListener {
    fn listen_level(&self) -> ListenLevel {
        ListenLevel::Frames
    }

    fn on_flow_start(&mut self, flow: u32, beginning: &FlowStart) {
        self.push_event(Instant::ZERO, LoggedEvent::Begins(flow, Box::new(*beginning)));
    }

    fn on_send(&mut self, packet: &Packet, now: Instant) {
        self.push_event(now, LoggedEvent::Posted(*packet));
    }

    fn on_delivery(&mut self, packet: &Packet, now: Instant) {
        self.push_event(now, LoggedEvent::Delivered(*packet));
    }

    fn on_send_ack(&mut self, reply: &ReceiverReply, blocks: &[Block], now: Instant) {
        // others are of no account before they reach their sender
        let is_plain = reply.ack().is_some_and(|ack| !ack.has(ack_flag::SYN_ACK | ack_flag::ACCECN_OPTION));
        if !self.hears_receivers && is_plain {
            return;
        }
        self.push_event(now, LoggedEvent::Answered(*reply, some(blocks)));
    }

    fn on_pack_ack(&mut self, packet: &Packet, reply: &ReceiverReply, blocks: &[Block]) {
        self.push_event(Instant::ZERO, LoggedEvent::Packed(*packet, Box::new(*reply), some(blocks)));
    }

    fn on_ack(&mut self, reply: &ReceiverReply, blocks: &[Block], now: Instant) {
        self.push_event(now, LoggedEvent::Acknowledged(*reply, some(blocks)));
    }

    fn on_payload(&mut self, flow: u32, number: u64, is_answer: bool, bytes: &[u8]) {
        self.push_event(Instant::ZERO, LoggedEvent::Payload(flow, number, is_answer, bytes.into()));
    }
}
