//! Measures the cost of a queue discipline: ns for a packet through it, us to build it.
//!
//! `cargo run --release -p dumbbell-core --example aqm_cost`

use dumbbell_core::aqm::{build, Aqm, Dequeue, QueueContext};
use dumbbell_core::packet::{Ecn, FlowKey, Packet, MTU_FRAME};
use dumbbell_core::record::Counters;
use dumbbell_core::units::{Instant, Rate};
use dumbbell_core::with_aqm;
use serde_json::json;
use std::hint::black_box;
use std::time;

const RATE: Rate = Rate::from_mbit(1000);
const PACKETS: u64 = 3_000_000;
/// Packets that stand in the queue.
const DEPTH: u64 = 200;

/// Sends [`PACKETS`] of `flows` flows in turn through a queue that holds [`DEPTH`], at exactly the rate of the bottleneck.
#[inline(never)]
fn drive(mut aqm: impl Aqm, flows: u32, log: &mut Counters) -> u64 {
    (0..flows).for_each(|i| aqm.flow_starts(i, &FlowKey { src_host: i, dst_host: i, ports: i, dscp: 0 }));
    let gap = RATE.serialise(u64::from(MTU_FRAME)).0;
    let (mut sent, mut flow) = (0, 0);
    for seq in 0..PACKETS {
        let now = Instant(seq * gap);
        flow = if flow + 1 < flows { flow + 1 } else { 0 };
        let packet = Packet { enqueue_time: now, flow, len: MTU_FRAME, ..Packet::new_tcp(seq, Ecn::Ect0, 0) };
        aqm.enqueue(packet, now, log);
        if aqm.next_timer() <= now {
            aqm.on_timer(now, log);
        }
        if seq >= DEPTH {
            if let Dequeue::Packet(head) = aqm.dequeue(now, log) {
                sent += u64::from(black_box(head).len);
            }
        }
    }
    sent
}

fn main() {
    for config in [
        json!({"name": "pfifo"}),
        json!({"name": "bfifo"}),
        json!({"name": "codel", "ecn": true}),
        json!({"name": "codel", "ecn": true, "control_law": "rfc8289"}),
        json!({"name": "pie", "ecn": true}),
        json!({"name": "pi2"}),
        json!({"name": "dualpi2", "ecn_mask": "any_ect"}),
        json!({"name": "dualpi2"}),
        json!({"name": "dualpi2", "version": "linux-5.10", "ecn_mask": "any_ect"}),
        json!({"name": "dualpi2", "version": "tsfifo"}),
        json!({"name": "dualpi2", "version": "rfc9332", "ecn_mask": "any_ect"}),
        json!({"name": "cake", "diffserv": "besteffort", "isolation": "flowblind"}),
        json!({"name": "cake", "diffserv": "besteffort", "isolation": "flows"}),
        json!({"name": "cake"}),
        json!({"name": "cake", "bandwidth": 0}),
        json!({"name": "cake", "memlimit": 400_000}),
    ] {
        for flows in [1, 20, 1000] {
            let context = QueueContext::new(RATE, 1);
            let config_map = config.as_object().expect("an object");
            let make = || build(config_map, &context).expect("a valid configuration");
            let start = time::Instant::now();
            for _ in 0..100 {
                black_box(make());
            }
            let build_us = start.elapsed().as_secs_f64() * 1e6 / 100.0;
            let mut log = Counters::default();
            let begin = time::Instant::now();
            let sent = with_aqm!(make(), aqm => drive(aqm, flows, &mut log));
            let ns = begin.elapsed().as_secs_f64() * 1e9 / PACKETS as f64;
            let share = sent as f64 / (PACKETS * u64::from(MTU_FRAME)) as f64;
            println!(
                "{config}: {flows} flows: {ns:.1} ns a packet, {build_us:.1} us to build, {share:.3} sent, {} marks, {} drops",
                log.queue.ce_marks,
                log.queue.drops_aqm + log.queue.drops_overflow,
            );
        }
    }
}
