//! The examples run, and what they say is so.

#![allow(clippy::duplicate_mod, reason = "each example has its transport, as a program of its own has")]

use std::time::Duration;

#[path = "../examples/first.rs"]
mod first;
#[path = "../examples/node.rs"]
mod node;
#[path = "../examples/pair.rs"]
mod pair;
#[path = "../examples/task.rs"]
mod task;

#[test]
fn the_first_test_sees_each_mark_and_loses_nothing() {
    let (arrived, marked, counters) = first::run().expect("a bottleneck");
    assert_eq!((arrived, counters.count_dropped()), (2222, 0), "CoDel marks and does not drop");
    assert!(marked > 1 && marked == counters.ce_marks, "{marked}, {counters:?}");
}

#[test]
fn a_pair_in_lock_step_fills_the_link_and_is_marked() {
    let (time, counters) = pair::run().expect("a bottleneck");
    // 5000 frames of 1242 B at 10 Mbit/s take 4.968 s
    assert!((4968..5400).contains(&time.as_millis()), "{time:?}");
    assert_eq!((counters.popped, counters.departed_bytes), (5000, 5000 * 1242));
    assert!(counters.ce_marks > 5 && counters.mean_sojourn() < Duration::from_millis(25), "{counters:?}");
}

#[test]
fn a_ring_of_nodes_loses_what_the_queue_drops() {
    let (time, dropped) = node::run().expect("a bottleneck");
    assert!(dropped > 0 && time < Duration::from_secs(4), "{time:?}, {dropped}");
}

#[test]
fn tasks_in_virtual_time_wait_for_the_net() {
    let (time, rtt) = task::run().expect("a bottleneck");
    assert!(time > Duration::from_millis(900) && rtt > Duration::from_millis(10), "{time:?}, {rtt:?}");
    assert_eq!(task::run().expect("a bottleneck"), (time, rtt), "equal seeds, equal times");
}
