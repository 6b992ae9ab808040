//! Data packets through the bottleneck per CPU second, on one core; `make bench`.
//!
//! Every case is run a few times and its fastest run printed, with the ratio to a bare loop that only moves packets
//! through a ring and counts them, so that figures of different machines can be held against each other.

use cpu_time::ProcessTime;
use serde_json::{json, Value};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64};

const REPEATS: usize = 5;

/// Name, rate in bit/s, base RTT in ns, flows, congestion control, queue, simulated seconds.
fn cases() -> Vec<(&'static str, u64, u64, usize, &'static str, Value, u64)> {
    let codel = || json!({"name": "codel", "ecn": true});
    vec![
        ("10-cubic-1gbit-5ms-codel", 1_000_000_000, 5_000_000, 10, "cubic", codel(), 20),
        ("2-cubic-100mbit-20ms-codel", 100_000_000, 20_000_000, 2, "cubic", codel(), 100),
        ("1-reno-10mbit-80ms-codel", 10_000_000, 80_000_000, 1, "reno", codel(), 1000),
        ("100-cubic-10gbit-20ms-pfifo", 10_000_000_000, 20_000_000, 100, "cubic", json!({"name": "pfifo", "limit": 10_000}), 2),
        ("100-cubic-1gbit-20ms-cake", 1_000_000_000, 20_000_000, 100, "cubic", json!({"name": "cake"}), 10),
    ]
}

fn packets_per_cpu_second(config: &Value) -> f64 {
    let mut best = 0.0_f64;
    for _ in 0..REPEATS {
        let began = ProcessTime::now();
        let outcome = dumbbell_sim::run(config, &AtomicBool::new(false), &AtomicU64::new(0)).expect("a valid case");
        let packets = outcome.summary["packets"].as_u64().expect("packets") as f64;
        best = best.max(packets / began.elapsed().as_secs_f64());
    }
    best
}

/// Packets per CPU second of a ring of 100 packets of 32 bytes, one in and one out.
fn bare_loop() -> f64 {
    const PACKETS: u64 = 50_000_000;
    let mut best = 0.0_f64;
    for _ in 0..REPEATS {
        let mut ring: VecDeque<[u64; 4]> = (0..100).map(|n| [n; 4]).collect();
        let began = ProcessTime::now();
        let mut sum = 0_u64;
        for n in 0..PACKETS {
            ring.push_back(std::hint::black_box([n; 4]));
            sum = sum.wrapping_add(ring.pop_front().map_or(0, |packet| packet[1]));
        }
        std::hint::black_box(sum);
        best = best.max(PACKETS as f64 / began.elapsed().as_secs_f64());
    }
    best
}

fn main() {
    let bare = bare_loop();
    println!("case=bare-ring packets_per_cpu_second={bare:.3e}");
    for (name, rate, base_rtt, flows, cc, aqm, seconds) in cases() {
        let flow = json!({"cc": {"name": cc}, "base_rtt": base_rtt, "start": {"min": 0, "max": 100_000_000}});
        let config = json!({"duration": seconds * 1_000_000_000, "seed": 1, "bottleneck": {"rate": rate, "aqm": aqm},
            "hosts": {"send_buffer": 1_u64 << 30, "receive_buffer": 1_u64 << 30}, "flows": vec![flow; flows]});
        let speed = packets_per_cpu_second(&config);
        println!("case={name} packets_per_cpu_second={speed:.3e} of_bare={:.4}", speed / bare);
    }
}
