//! The short way of the usual packet comes to what the general way comes to.

use super::*;
use crate::packet::{Timestamps, MTU_FRAME};
use crate::rng::mix;

/// A random choice in `0..below`.
fn choose(state: &mut u64, below: u64) -> u64 {
    *state = mix(*state);
    *state % below
}

fn packet(seq: u64, ecn: Ecn, flags: u16, now: Instant) -> Packet {
    let tsval = now.as_millis() as u32;
    let timestamps = Timestamps::new(tsval, Some(tsval - 20));
    Packet { flow: 7, len: MTU_FRAME, ..Packet::new_tcp(seq, ecn, flags).with_timestamps(timestamps) }
}

/// One story, played to a receiver as it is and to one that takes no short way. Returns how many packets were expected.
fn compare(seed: u64, echo: Echo, host: &Arc<HostParams>, ecn: bool) -> u32 {
    let mut short = Receiver::new(7, Arc::clone(host), FlowOptions { ecn, echo });
    let mut long = short.clone();
    let (mut state, mut now, mut next) = (seed, Instant::from_millis(100), 0);
    for flags in [flag::SYN, flag::PURE_ACK] {
        let bare = packet(0, Ecn::NotEct, flags, now);
        assert_eq!(short.on_packet(&bare, now).is_some(), long.on_unusual(&bare, now).is_some());
        now += Duration::from_millis(20);
    }
    let mut codepoint = Ecn::Ect0;
    let mut expected = 0;
    for step in 0..1500 {
        // in turns nearly any packet, and packets that are mostly as the one before
        let rate = if step / 100 % 2 == 0 { 1 } else { 20 };
        now += Duration(choose(&mut state, 400_000) * choose(&mut state, 200) / rate);
        if short.next_timer() <= now {
            let due = short.next_timer();
            assert_eq!(format!("{:?}", short.on_timer(due)), format!("{:?}", long.on_timer(due)), "seed {seed}, step {step}");
        }
        if choose(&mut state, 5 * rate) == 0 {
            codepoint = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][choose(&mut state, 4) as usize];
        }
        let flags = [0, 0, 0, flag::PSH, flag::CWR, flag::MORE][choose(&mut state, 6) as usize];
        let flags = if choose(&mut state, rate) == 0 { flags } else { flags & flag::PSH };
        // mostly the next one; at times one behind a gap, or one that has come already
        let seq = match choose(&mut state, 12 * rate) {
            0 => next + choose(&mut state, 3),
            1 => next - choose(&mut state, next.min(3) + 1),
            _ => next,
        };
        let packet = packet(seq, codepoint, flags, now);
        long.ecn_settled = 0;
        expected += u32::from(short.clone().expects(&packet, now));
        let answers = [short.on_packet(&packet, now), long.on_unusual(&packet, now)].map(|ack| format!("{ack:?}"));
        assert_eq!(answers[0], answers[1], "seed {seed}, step {step}: {packet:?}");
        let early = [short.take_early(), long.take_early()].map(|early| format!("{early:?}"));
        assert_eq!(early[0], early[1], "seed {seed}, step {step}");
        if short.has_blocks() {
            assert_eq!(short.blocks().as_slice(), long.blocks().as_slice());
        }
        next = short.rcv_nxt;
        (long.ecn_settled, long.expected_marks) = (short.ecn_settled, short.expected_marks);
        assert_eq!(format!("{short:?}"), format!("{long:?}"), "seed {seed}, step {step}: {packet:?}");
    }
    assert!(next > 750, "most packets came in order");
    expected
}

#[test]
fn the_usual_packet_takes_a_short_way_to_the_same() {
    let mut expected = 0;
    for sce_feedback in [false, true] {
        for echo in [Echo::UntilCwr, Echo::PerPacket, Echo::Accurate] {
            let host = Arc::new(HostParams { sce_feedback, ..HostParams::default() });
            for seed in 0..12 {
                expected += compare(seed, echo, &host, seed % 4 > 0);
            }
        }
    }
    assert!(expected > 2_000, "{expected} packets were expected, of 108,000");
}
