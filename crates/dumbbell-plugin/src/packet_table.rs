//! Keeps the packets of a queue discipline that handles numbers only, so that it can neither invent nor lose one.

use dumbbell_config::extensions::PluginFault;
use dumbbell_core::aqm::Dequeue;
use dumbbell_core::fork::SharedCopies;
use dumbbell_core::log::{At, DropReason, DropSite, Log, MarkReason};
use dumbbell_core::packet::Packet;
use dumbbell_core::units::Instant;
use std::collections::VecDeque;

/// Lists have numbers below this.
pub const MAX_LISTS: u32 = 1 << 16;

/// A packet, and where it is.
#[derive(Clone)]
struct Entry {
    packet: Packet,
    /// Number of the packet, 0 if the place is free.
    id: u64,
    list: Option<u32>,
}

/// Packets in one list.
#[derive(Clone, Default)]
struct PacketList {
    ids: VecDeque<u64>,
    bytes: u64,
}

/// The packets of one queue discipline.
pub struct PacketTable {
    name: String,
    fault: PluginFault,
    entries: Vec<Entry>,
    free: Vec<u32>,
    lists: Vec<PacketList>,
    packets: usize,
    bytes: u64,
    /// Numbers so far: the upper half of each.
    given: u64,
    /// The packet that arrives now; no log has an event of it yet.
    arriving: u64,
    /// [`PacketTable::wait`] was called.
    until: Option<Instant>,
}

impl PacketTable {
    /// Nothing, for the discipline `name`, whose mistakes are reported to `fault`.
    pub fn new(name: &str, fault: PluginFault) -> PacketTable {
        PacketTable {
            name: name.to_owned(),
            fault,
            entries: Vec::new(),
            free: Vec::new(),
            lists: Vec::new(),
            packets: 0,
            bytes: 0,
            given: 0,
            arriving: 0,
            until: None,
        }
    }

    /// Returns a copy for the copy of the discipline.
    #[must_use]
    pub fn fork(&self, shared: &mut SharedCopies) -> PacketTable {
        PacketTable {
            name: self.name.clone(),
            fault: self.fault.fork(shared),
            entries: self.entries.clone(),
            free: self.free.clone(),
            lists: self.lists.clone(),
            ..*self
        }
    }

    /// The discipline did what it must not.
    pub fn wrong(&self, what: impl FnOnce() -> String) {
        self.fault.report(|| format!("queue {}: {}", self.name, what()));
    }

    /// Packets in the queue.
    pub fn count_queued(&self) -> usize {
        self.packets
    }

    /// Returns the bytes of these packets.
    pub fn held_bytes(&self) -> u64 {
        self.bytes
    }

    fn entry(&self, id: u64) -> Option<&Entry> {
        self.entries.get((id & 0xffff_ffff) as usize).filter(|entry| id != 0 && entry.id == id)
    }

    fn find_entry(&mut self, id: u64, doing: &str) -> Option<&mut Entry> {
        if self.entry(id).is_none() {
            self.wrong(|| format!("{doing} packet {id}, which is not in the queue"));
            return None;
        }
        self.entries.get_mut((id & 0xffff_ffff) as usize)
    }

    /// A packet, if it is there.
    pub fn packet(&self, id: u64) -> Option<&Packet> {
        self.entry(id).map(|entry| &entry.packet)
    }

    /// `packet` arrives: its number.
    pub fn arrive(&mut self, mut packet: Packet, now: Instant) -> u64 {
        packet.enqueue_time = now;
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { packet, id: 0, list: None });
            self.entries.len() as u32 - 1
        });
        self.given += 1;
        let id = self.given << 32 | u64::from(place);
        self.packets += 1;
        self.bytes += u64::from(packet.len);
        self.entries[place as usize] = Entry { packet, id, list: None };
        self.arriving = id;
        id
    }

    /// The discipline has seen the packet that arrived: if it was not dropped, it is in the queue.
    pub fn settle(&mut self, now: Instant, log: &mut (impl Log + ?Sized)) {
        let id = std::mem::take(&mut self.arriving);
        if let Some(packet) = self.packet(id) {
            log.on_enqueue(packet, At::time(now));
        }
    }

    /// Sets CE; whether it has it.
    pub fn mark(&mut self, id: u64, now: Instant, log: &mut dyn Log) -> bool {
        self.find_entry(id, "marked").is_some_and(|entry| log.set_ce(&mut entry.packet, MarkReason::Aqm, At::time(now)))
    }

    /// Drops a packet: the one that arrives, which counts as overflow, or one in the queue, which counts as the AQM's.
    pub fn drop(&mut self, id: u64, now: Instant, log: &mut dyn Log) {
        let is_arriving = id == self.arriving;
        let Some(packet) = self.take(id, "dropped") else { return };
        let (place, reason) =
            if is_arriving { (DropSite::Arrival, DropReason::Overflow) } else { (DropSite::Queue, DropReason::Aqm) };
        log.on_drop(&packet, reason, place, At::time(now));
    }

    /// Puts a packet at the end of a list.
    pub fn push(&mut self, list: u32, id: u64) {
        if list >= MAX_LISTS {
            return self.wrong(|| format!("list {list}; allowed: 0 to {}", MAX_LISTS - 1));
        }
        let Some(entry) = self.find_entry(id, "pushed") else { return };
        if entry.list.is_some() {
            return self.wrong(|| format!("pushed packet {id}, which is in a list already"));
        }
        entry.list = Some(list);
        let length = u64::from(entry.packet.len);
        if self.lists.len() <= list as usize {
            self.lists.resize_with(list as usize + 1, PacketList::default);
        }
        let list = &mut self.lists[list as usize];
        list.ids.push_back(id);
        list.bytes += length;
    }

    /// Number of the first packet of a list.
    pub fn first(&self, list: u32) -> Option<u64> {
        self.lists.get(list as usize)?.ids.front().copied()
    }

    /// Number of the last packet of a list.
    pub fn last(&self, list: u32) -> Option<u64> {
        self.lists.get(list as usize)?.ids.back().copied()
    }

    /// Packets and bytes of a list.
    pub fn in_list(&self, list: u32) -> (u64, u64) {
        self.lists.get(list as usize).map_or((0, 0), |list| (list.ids.len() as u64, list.bytes))
    }

    /// The discipline sends nothing before `time`.
    pub fn wait(&mut self, time: Instant) {
        self.until = Some(time);
    }

    /// Turns the number `id` that dequeue() returned, 0 for none, into an answer of the queue.
    pub fn leave(&mut self, id: u64, now: Instant, log: &mut (impl Log + ?Sized)) -> Dequeue {
        let until = self.until.take();
        if id != 0 {
            return self.take(id, "dequeue() returned").map_or(Dequeue::Empty, |packet| {
                log.on_dequeue(&packet, At::time(now));
                Dequeue::Packet(packet)
            });
        }
        match until {
            Some(time) if time > now => return Dequeue::Wait(time),
            Some(time) => self.wrong(|| format!("wait() until {time} at {now}; allowed: a later time")),
            None if self.packets > 0 => {
                self.wrong(|| format!("dequeue() returned no packet, and {} are queued", self.packets));
            }
            None => {}
        }
        Dequeue::Empty
    }

    /// timer() was called at `now`, and is wanted at `next`.
    pub fn check_timer(&self, next: Instant, now: Instant) {
        if next <= now {
            self.wrong(|| format!("timer_at() is {next} after timer() at {now}; allowed: a later time"));
        }
    }

    /// A packet leaves its list and the table.
    fn take(&mut self, id: u64, doing: &str) -> Option<Packet> {
        let entry = self.find_entry(id, doing)?;
        let (packet, list) = (entry.packet, entry.list.take());
        entry.id = 0;
        self.free.push((id & 0xffff_ffff) as u32);
        self.packets -= 1;
        self.bytes -= u64::from(packet.len);
        if let Some(list) = list {
            let PacketList { ids, bytes } = &mut self.lists[list as usize];
            *bytes -= u64::from(packet.len);
            if ids.front() == Some(&id) {
                ids.pop_front();
            } else if ids.back() == Some(&id) {
                ids.pop_back();
            } else {
                ids.retain(|&other| other != id);
            }
        }
        Some(packet)
    }
}
