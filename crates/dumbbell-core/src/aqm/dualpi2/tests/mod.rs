//! Tests of DualPI2 by its parts; here what they share, the keys and the versions.

mod controller;
mod coupled;
mod rfc9332;
mod scheduler;

use super::controller::MAX_PROB;
use super::*;
use crate::aqm::testing::{context, packet};
use crate::param::ParamError;
use crate::record::{Counters, InternalLog};
use serde_json::{json, Value};

fn try_params(config: Value) -> Result<Params, ParamError> {
    Params::from_json(config.as_object().unwrap())
}

fn params(config: Value) -> Params {
    try_params(config).unwrap()
}

fn queue(config: Value) -> State {
    State::new(params(config), &context(10))
}

const MS: u64 = 1_000_000;

/// `count` full frames for each of two queues at 0; ECT(1) goes to L.
fn fill_queues(config: Value, count: u64) -> (State, Counters) {
    let mut state = queue(config);
    let mut log = Counters { internal: InternalLog::new(state.internal_queues()), ..Counters::default() };
    for seq in 0..count {
        state.enqueue(packet(2 * seq, Ecn::Ect1), Instant::ZERO, &mut log);
        state.enqueue(packet(2 * seq + 1, Ecn::NotEct), Instant::ZERO, &mut log);
    }
    (state, log)
}

/// Serves `count` packets at `now`, and returns their queues: "LLC".
fn serve_order(state: &mut State, count: usize, now: Instant, log: &mut Counters) -> String {
    (0..count)
        .map(|_| match state.dequeue(now, log) {
            Dequeue::Packet(packet) if packet.number() % 2 == 0 => 'L',
            Dequeue::Packet(_) => 'C',
            _ => '-',
        })
        .collect()
}

#[test]
fn what_contradicts_is_refused_in_words() {
    let refused = |config: Value| try_params(config).unwrap_err().to_string();
    for key in ["target", "tupdate", "alpha", "beta"] {
        let value = if key.len() < 6 && key != "target" { json!(1.0) } else { json!(15 * MS) };
        let error = refused(json!({"max_rtt": 100 * MS, key: value}));
        assert!(error.starts_with(&format!("{key}: found set, and so is max_rtt")), "{error}");
    }
    assert!(refused(json!({"step_thresh": MS, "step_packets": 3})).starts_with("step_packets:"));
    assert!(refused(json!({"max_rtt": 10 * MS, "typical_rtt": 20 * MS})).starts_with("typical_rtt:"));
    assert!(refused(json!({"max_rtt": 50_000 * MS})).contains("1/256 Hz"));
    assert!(refused(json!({"version": "rfc9332", "drop": "enqueue"})).starts_with("drop:"));
    assert!(refused(json!({"marking": "random"})).starts_with("marking:"));
    assert!(refused(json!({"ramp_range": MS})).starts_with("ramp_range:"));
    assert!(refused(json!({"overload": "overflow", "l_drop": 50.0})).starts_with("l_drop:"));
    assert!(try_params(json!({"version": "rfc9332", "marking": "random", "ramp_range": MS})).is_ok());
}

/// Everything that happens to a mixed load of 20 Mbit/s over 10 Mbit/s for two seconds.
fn story(config: Value) -> Vec<(u64, Ecn, Instant)> {
    let mut state = queue(config);
    let mut log = Counters::default();
    let mut sent = Vec::new();
    for seq in 0..4000_u64 {
        let now = Instant::from_micros(500 * seq);
        while state.next_timer() <= now {
            let timer = state.next_timer();
            state.on_timer(timer, &mut log);
        }
        let ecn = [Ecn::Ect1, Ecn::NotEct, Ecn::Ect0][(seq % 3) as usize];
        state.enqueue(packet(seq, ecn), now, &mut log);
        if seq % 2 == 0 {
            if let Dequeue::Packet(packet) = state.dequeue(now, &mut log) {
                sent.push((packet.number(), packet.ecn(), now));
            }
        }
    }
    sent
}

#[test]
fn a_version_is_nothing_but_the_default_of_its_keys() {
    let upstream = || json!({"version": "linux-6.17"});
    assert_eq!(story(json!({"version": "linux-5.10", "min_qlen_step": 0})), story(upstream()));
    let wrr = json!({"version": "tsfifo", "scheduler": "wrr-packets", "wrr_ratio": 16});
    assert_eq!(story(wrr), story(json!({"version": "wrr"})));
    let keys = json!({
        "version": "tsfifo", "target": 15 * MS, "tupdate": 16 * MS, "alpha": 41.0 / 256.0, "beta": 819.0 / 256.0, "arithmetic": "linux",
        "law": "linux", "min_qlen_step": 0, "ecn_mask": "l4s_ect", "scheduler": "credit", "step_thresh": 999_000,
    });
    // what is left is the clock of the step, which no key sets: 999 units of 1024 ns are 1.024 ms less 1 ns
    let late = json!({"version": "linux-6.17", "step_thresh": 1000 * 1024 - 1});
    assert_eq!(story(keys), story(late));
    for version in ["cbd8653", "0952823"] {
        assert_eq!(story(json!({"version": version})), story(json!({"version": "4e82fd8"})));
    }
    for version in ["linux-5.10", "tsfifo", "wrr", "wrrb", "4e82fd8", "rfc9332"] {
        assert_ne!(story(json!({"version": version})), story(upstream()), "{version}");
    }
}
