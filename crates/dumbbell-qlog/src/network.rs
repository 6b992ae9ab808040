//! Writes the events of queues. Times are those at the queue.

use crate::record::{self, QlogRecord, Records};
use dumbbell_core::log::At;
use dumbbell_core::packet::{flag, Packet};

/// The backlog in the queue of a hop, over all flows.
pub struct HopBacklog {
    /// Name of the hop as JSON: it comes from outside.
    hop: String,
    packets: u64,
    bytes: u64,
}

impl HopBacklog {
    /// Returns an empty backlog of `hop`.
    pub fn new(hop: &str) -> HopBacklog {
        HopBacklog { hop: serde_json::Value::from(hop).to_string(), packets: 0, bytes: 0 }
    }

    /// A packet enters.
    pub fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.len);
    }

    /// A packet leaves.
    pub fn remove(&mut self, packet: &Packet) {
        self.packets = self.packets.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(u64::from(packet.len));
    }
}

/// The file of the network.
pub struct NetworkFile {
    pub records: Records,
}

impl NetworkFile {
    /// With nothing in it yet.
    pub fn new(records: Records) -> NetworkFile {
        NetworkFile { records }
    }

    /// A queue has done something with a packet, which has this number at its sender, if it has one.
    pub fn write(
        &mut self,
        queue: &HopBacklog,
        number: Option<u64>,
        packet: &Packet,
        at: At,
        name: &str,
        more: impl FnOnce(&mut QlogRecord),
    ) {
        self.records.event(at.now, name, |data| {
            data.key("hop").json(&queue.hop).key("flow").integer(u64::from(packet.flow));
            if let Some(number) = number {
                data.key(if packet.has(flag::UDP) { "datagram_id" } else { "packet_number" }).integer(number);
            }
            if packet.is_back() {
                data.key("acknowledgement").yes();
            } else if !packet.has(flag::NO_DATA) {
                data.key("segment").integer(packet.tcp().seq());
                if packet.has(flag::RETRANSMISSION) {
                    data.key("retransmission").yes();
                }
            }
            data.key("length").integer(u64::from(packet.len)).key("ecn").text(record::ecn(packet.ecn()));
            if at.queue > 0 {
                data.key("queue").integer(u64::from(at.queue));
            }
            more(data);
            data.key("queue_packets").integer(queue.packets).key("queue_bytes").integer(queue.bytes);
        });
    }
}
