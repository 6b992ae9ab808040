//! @NAME@: first in, first out; above a threshold it marks packets, or drops those that cannot be marked.

mod dumbbell;

use dumbbell::{export_queue, Host, Kind, Link, Packet, Param, Queue};

#[derive(Clone)]
struct Step {
    limit: u64,
    threshold: u64,
}

impl Queue for Step {
    const NAME: &'static str = "@NAME@";
    const TITLE: &'static str = "A step threshold";
    const SOURCE: &'static str = "its author";
    const PARAMS: &'static [Param] = &[
        Param { name: "limit", kind: Kind::Int, value: 1000.0, min: 1.0, max: 1e6, unit: "packets", doc: "Packets that the queue holds." },
        Param { name: "threshold", kind: Kind::Size, value: 30000.0, min: 0.0, max: 1e9, unit: "", doc: "Marks, or drops, above this." },
    ];

    fn new(_link: &Link, params: &[f64]) -> Step {
        Step { limit: params[0] as u64, threshold: params[1] as u64 }
    }

    fn enqueue(&mut self, host: &mut Host, packet: &Packet, _now: u64) {
        let is_full = host.packets(0) >= self.limit;
        if is_full || (host.bytes(0) > self.threshold && !host.mark(packet.id)) {
            host.drop(packet.id);
        } else {
            host.push(0, packet.id);
        }
    }

    fn dequeue(&mut self, host: &mut Host, _now: u64) -> Option<u64> {
        host.first(0).map(|packet| packet.id)
    }

    fn copy(&self) -> Option<Step> {
        Some(self.clone())
    }
}

export_queue!(Step);
