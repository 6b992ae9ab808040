//! The text of a bottleneck in somebody's own test is accepted or refused with a line; an accepted one carries packets.

#![no_main]

use dumbbell_net::{Config, Ecn, Frame};
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

const TRACE: &[u8] = b"1\n2\n5\n";

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let config = match Config::parse_with(text, |_| Ok(TRACE.to_vec())) {
        Ok(config) => config,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let mut net = config.build::<u32>().expect("a text that was accepted");
    for number in 0..32 {
        let now = Duration::from_millis(u64::from(number));
        net.push(now, Frame::udp(1472).ecn(Ecn::Ect0).flow(number % 3), number);
        while net.pop(now).is_some() {}
    }
    for _ in 0..1000 {
        let Some(now) = net.next() else { break };
        net.pop(now);
    }
    let all = net.counters();
    assert_eq!(all.pushed, all.popped + all.dropped_overflow + all.dropped_aqm + all.lost + all.held, "{text}: {all:?}");
});
