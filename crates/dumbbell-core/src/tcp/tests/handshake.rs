//! Connection set-up: SYN, its retries, ECN negotiation, the initial window.

use super::*;
use crate::cc::conn::INFINITE_SSTHRESH;
use crate::packet::{Ecn, HEADERS, MTU_FRAME, SYN_FRAME};

#[test]
fn syn_then_pure_ack_and_the_initial_window() {
    let mut story = Story::new("reno", plain(10), Application::Bulk);
    story.start();
    let syn = story.last[0];
    assert_eq!((story.last.len(), syn.flags, syn.len, syn.ecn, syn.flow), (1, flag::SYN, SYN_FRAME, Ecn::NotEct, 7));
    assert_eq!((story.sender.phase, story.sender.next_timer()), (Phase::SynSent, story.due(1000)));

    story.advance(RTT);
    assert_eq!(story.syn_ack(ack_flag::ECN_SETUP), (0..10).collect::<Vec<_>>());
    let ack = story.last[0];
    assert_eq!((ack.flags, ack.len, ack.ecn), (flag::PURE_ACK, HEADERS, Ecn::NotEct));
    for packet in &story.last[1..] {
        assert_eq!((packet.flags, packet.len, packet.ecn, packet.tsval), (0, MTU_FRAME, Ecn::Ect0, 40));
    }
    // RTT sample of 40 ms: srtt 40 ms, variance 2 * 40 = 80 ms below the floor of 200 ms
    let rtt = &story.conn().rtt;
    assert_eq!((rtt.srtt_us(), rtt.min_us(), rtt.rto_us()), (40_000, 40_000, 240_000));
    assert_eq!((story.sender.phase, story.cwnd()), (Phase::Established, (10, INFINITE_SSTHRESH, CaState::Open)));
    assert_eq!((story.sender.stats.sent, story.sender.stats.sent_all), (10, 12));
}

#[test]
fn a_lost_syn_is_sent_again_after_1_2_and_4_s() {
    let mut story = Story::new("reno", plain(10), Application::Bulk);
    story.now = Time::from_micros(700);
    story.start();
    for seconds in [1, 2, 4] {
        let due = story.due(seconds * 1000);
        story.fire();
        assert_eq!((story.last.len(), story.now), (1, due));
        assert!(story.last[0].has(flag::SYN));
    }
    // RFC 6298 section 5.7: one segment; no RTT sample, for the SYN-ACK may answer any of the SYNs (Karn)
    story.advance(RTT);
    assert_eq!(story.syn_ack(0), [0]);
    assert_eq!((story.conn().cwnd, story.conn().rtt.srtt_us(), story.sender.stats.timeouts), (1, 0, 3));
    // no srtt yet: probe or timeout after the initial RTO of 1 s
    assert_eq!(story.sender.next_timer(), story.due(1000));
    // the first RTT sample comes with the first ACK, and slow start takes 1 to 2
    story.advance(RTT);
    assert_eq!(story.ack(1), [1, 2]);
    assert_eq!((story.conn().cwnd, story.conn().rtt.srtt_us()), (2, 40_000));
}

#[test]
fn syn_timeouts_double_up_to_two_minutes() {
    let mut story = Story::new("reno", plain(10), Application::Bulk);
    story.start();
    for seconds in [1, 2, 4, 8, 16, 32, 64, 120, 120, 120] {
        let due = story.due(seconds * 1000);
        story.fire();
        assert_eq!(story.now, due);
    }
}

#[test]
fn ecn_needs_both_ends() {
    for (host, peer, codepoint) in
        [(true, true, Ecn::Ect0), (true, false, Ecn::NotEct), (false, true, Ecn::NotEct), (false, false, Ecn::NotEct)]
    {
        let mut story = Story::new("reno", HostParams { ecn: host, ..plain(10) }, Application::Bulk);
        story.start();
        story.advance(RTT);
        story.syn_ack(if peer { ack_flag::ECN_SETUP } else { 0 });
        assert!(story.last[1..].iter().all(|packet| packet.ecn == codepoint), "host {host}, peer {peer}");
        // without agreement an ECE bit says nothing
        story.advance(RTT);
        story.ece(2);
        let agreed = u64::from(host && peer);
        assert_eq!((story.sender.stats.ecn_reductions, story.sender.stats.ece_acks), (agreed, agreed));
    }
}

#[test]
fn only_a_syn_ack_opens_and_only_once() {
    let mut story = Story::new("reno", plain(10), Application::Bulk);
    assert_eq!(story.syn_ack(0), [] as [u64; 0]);
    story.start();
    story.advance(RTT);
    assert_eq!(story.ack(0), [] as [u64; 0]);
    assert_eq!(story.sender.phase, Phase::SynSent);
    assert_eq!(story.syn_ack(0).len(), 10);
    assert!(story.syn_ack(0).is_empty() && story.last.is_empty());
}

#[test]
fn the_peers_window_limits_the_first_flight() {
    let mut story = Story::new("reno", plain(10), Application::Bulk);
    story.window = 3;
    story.start();
    story.advance(RTT);
    assert_eq!(story.syn_ack(0), [0, 1, 2]);
    // 1 acknowledged, window 3 beyond it: 3 more than 1 is 4
    story.advance(RTT);
    assert_eq!(story.ack(1), [3]);
    // an older, smaller window does not take back what was offered
    story.window = 1;
    assert_eq!(story.ack(2), [] as [u64; 0]);
    assert_eq!(story.sender.window_end, 4);
}

#[test]
fn packets_echo_the_timestamp_of_the_newest_ack() {
    let mut story = Story::new("reno", plain(10), Application::Bulk);
    story.start();
    assert_eq!(story.last[0].tsecr_age, crate::packet::NO_TSECR);
    // the SYN-ACK left at 20 ms and comes at 40 ms
    story.advance(RTT);
    story.syn_ack(0);
    assert!(story.last.iter().all(|packet| (packet.tsval, packet.tsecr_age) == (40, 20)));
    // an ACK that left at 60 ms comes at 80 ms
    story.advance(RTT);
    story.ack(2);
    assert!(story.last.iter().all(|packet| (packet.tsval, packet.tsecr_age) == (80, 20)));
    // the probe after 2 * 40 + 2 ms of silence still echoes it
    assert_eq!(story.fire().len(), 1);
    let probe = story.last[0];
    assert_eq!(u64::from(probe.tsval) - u64::from(probe.tsecr_age), 60);
}
