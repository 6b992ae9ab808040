//! Connection set-up: SYN, its retries, ECN negotiation, the initial window.

use super::*;
use crate::cc::conn::INFINITE_SSTHRESH;
use crate::packet::{Ecn, HEADERS, MTU_FRAME, SYN_FRAME};
use crate::tcp::host::Opener;

#[test]
fn syn_then_pure_ack_and_the_initial_window() {
    let mut story = Story::new("reno", plain(10), Application::Bulk);
    story.start();
    let syn = story.last[0];
    assert_eq!((story.last.len(), syn.flags(), syn.len, syn.ecn(), syn.flow), (1, flag::SYN, SYN_FRAME, Ecn::NotEct, 7));
    assert_eq!((story.sender.phase, story.sender.next_timer()), (Phase::SynSent, story.due(1000)));

    story.advance(RTT);
    assert_eq!(story.syn_ack(ack_flag::ECN_SETUP), (0..10).collect::<Vec<_>>());
    let ack = story.last[0];
    assert_eq!((ack.flags(), ack.len, ack.ecn()), (flag::PURE_ACK, HEADERS, Ecn::NotEct));
    for packet in &story.last[1..] {
        assert_eq!((packet.flags(), packet.len, packet.ecn(), packet.tcp().tsval()), (0, MTU_FRAME, Ecn::Ect0, 40));
    }
    // RTT sample of 40 ms: srtt 40 ms, variance 2 * 40 = 80 ms below the floor of 200 ms
    let rtt = &story.conn().rtt;
    assert_eq!((rtt.srtt_us(), rtt.min_us(), rtt.rto_us()), (40_000, 40_000, 240_000));
    assert_eq!((story.sender.phase, story.cwnd()), (Phase::Established, (10, INFINITE_SSTHRESH, CaState::Open)));
    assert_eq!((story.sender.stats().sent, story.sender.stats().sent_all()), (10, 12));
}

#[test]
fn where_the_receiver_opens_a_lost_syn_ack_costs_time_and_not_ecn() {
    for (opener, asks) in [(Opener::Sender, false), (Opener::Receiver, true)] {
        let host = HostParams { opener, ..plain(10) };
        let mut story = Story::new("dctcp", host.clone(), Application::Bulk);
        story.start();
        let mut receiver = Receiver::new(7, Arc::new(host), FlowOptions { ecn: true, echo: crate::cc::Echo::PerPacket });
        // the first is lost
        for seconds in [1, 2] {
            let due = story.due(if opener == Opener::Receiver { 1000 << (seconds - 1) } else { 1000 });
            story.fire();
            assert_eq!(story.now, due);
        }
        let answer = receiver.on_packet(&story.last[0], story.now).expect("an answer");
        assert_eq!(answer.has(ack_flag::ECN_SETUP), asks);
        story.advance(RTT);
        let sent = story.syn_ack(if asks { ack_flag::ECN_SETUP } else { 0 });
        assert_eq!(sent.len() as u32, story.conn().cwnd);
        let bare = story.last.iter().filter(|packet| packet.has(flag::PURE_ACK)).count();
        assert_eq!(bare, usize::from(opener == Opener::Sender));
        let last = story.last.last().expect("data");
        assert_eq!(last.ecn(), if asks { Ecn::Ect0 } else { Ecn::NotEct });
    }
}

/// Reno that has sent `syns` SYNs, the last just now.
fn after_syns(syns: u32) -> Story {
    let mut story = Story::new("reno", plain(10), Application::Bulk);
    story.now = Instant::from_micros(700);
    story.start();
    for _ in 1..syns {
        story.fire();
    }
    story
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second_at_first() {
    for (linear, intervals) in
        [(4, [1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 64, 120, 120]), (0, [1, 2, 4, 8, 16, 32, 64, 120, 120, 120, 120, 120, 120])]
    {
        let mut story = Story::new("reno", HostParams { syn_linear_timeouts: linear, ..plain(10) }, Application::Bulk);
        story.now = Instant::from_micros(700);
        story.start();
        for seconds in intervals {
            let due = story.due(seconds * 1000);
            story.fire();
            assert_eq!((story.last.len(), story.now), (1, due));
            assert!(story.last[0].has(flag::SYN));
        }
    }
}

#[test]
fn one_lost_syn_leaves_the_initial_window_and_gives_a_sample() {
    let mut story = after_syns(2);
    // the SYN-ACK echoes the second SYN
    story.echo = Some(story.now.as_millis() as u32);
    story.advance(RTT);
    assert_eq!(story.syn_ack(0), (0..10).collect::<Vec<_>>());
    let rtt = &story.conn().rtt;
    assert_eq!((rtt.srtt_us(), rtt.min_us(), rtt.rto_us(), story.sender.stats.timeouts), (40_000, 40_000, 240_000, 1));
    assert_eq!(story.cwnd(), (10, INFINITE_SSTHRESH, CaState::Open));
    // probe after 2 * 40 + 2 ms
    assert_eq!(story.sender.next_timer(), story.due(82));
}

#[test]
fn a_clock_that_has_not_moved_is_a_round_trip_of_1_ms() {
    let mut story = after_syns(2);
    story.echo = Some(story.now.as_millis() as u32);
    story.syn_ack(0);
    assert_eq!(story.conn().rtt.srtt_us(), 1_000);
}

#[test]
fn two_lost_syns_leave_one_segment_unless_the_first_was_only_late() {
    let mut story = after_syns(3);
    story.echo = Some(story.now.as_millis() as u32);
    story.advance(RTT);
    assert_eq!((story.syn_ack(0), story.conn().cwnd, story.conn().rtt.srtt_us()), (vec![0], 1, 40_000));

    // the first SYN left at 0.7 ms, whose timestamp is 0
    let mut late = after_syns(3);
    late.echo = Some(0);
    late.advance(RTT);
    let ms = late.now.as_millis() as u32;
    assert_eq!((late.syn_ack(0).len(), late.conn().cwnd, late.conn().rtt.srtt_us()), (10, 10, ms * 1000));
}

#[test]
fn a_syn_that_is_sent_again_asks_for_no_ecn() {
    let mut story = after_syns(1);
    let first = story.last[0];
    story.fire();
    let again = story.last[0];
    assert_eq!([first.flags(), again.flags()], [flag::SYN, flag::SYN | flag::RETRANSMISSION]);
    // the first one that arrives decides
    for (syns, ecn) in [([first, again], true), ([again, again], false), ([again, first], false)] {
        let mut receiver = Receiver::new(7, Arc::new(HostParams::default()), FlowOptions::default());
        for syn in syns {
            let answer = receiver.on_packet(&syn, story.now).expect("a SYN-ACK");
            assert_eq!(answer.has(ack_flag::ECN_SETUP), ecn, "{syns:?}");
        }
    }
}

#[test]
fn a_control_that_requires_ecn_is_reno_without_it() {
    let mut story = Story::new("dctcp", plain(10), Application::Bulk);
    story.start();
    story.advance(RTT);
    story.syn_ack(0);
    assert!(story.last.iter().all(|packet| packet.ecn() == Ecn::NotEct));
    assert_eq!(format!("{:?}", story.sender.cc), format!("{:?}", crate::cc::AnyCc::without_ecn()));
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
        assert!(story.last[1..].iter().all(|packet| packet.ecn() == codepoint), "host {host}, peer {peer}");
        // without agreement an ECE bit says nothing
        story.advance(RTT);
        story.ece(2);
        let agreed = u64::from(host && peer);
        assert_eq!((story.sender.stats.ecn_reductions, story.sender.stats.ece_acks), (agreed, agreed));
    }
}

#[test]
fn every_packet_of_a_control_that_requires_ecn_is_ecn_capable() {
    for (setup, codepoint) in [(ack_flag::ECN_SETUP, Ecn::Ect0), (0, Ecn::NotEct)] {
        let mut story = Story::new("dctcp", plain(10), Application::Bulk);
        story.start();
        assert_eq!(story.last[0].ecn(), Ecn::Ect0);
        // a SYN that is sent again as well
        story.fire();
        assert_eq!(story.last[0].ecn(), Ecn::Ect0);
        story.advance(RTT);
        story.syn_ack(setup);
        // the handshake's ACK and ten segments
        assert_eq!(story.last.iter().filter(|packet| packet.ecn() == codepoint).count(), 11);
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
    assert_eq!(story.last[0].tcp().tsecr(), None);
    // the SYN-ACK left at 20 ms and comes at 40 ms
    story.advance(RTT);
    story.syn_ack(0);
    assert!(story.last.iter().all(|packet| (packet.tcp().tsval(), packet.tcp().tsecr()) == (40, Some(20))));
    // an ACK that left at 60 ms comes at 80 ms
    story.advance(RTT);
    story.ack(2);
    assert!(story.last.iter().all(|packet| (packet.tcp().tsval(), packet.tcp().tsecr()) == (80, Some(60))));
    // the probe after 2 * 40 + 2 ms of silence still echoes it
    assert_eq!(story.fire().len(), 1);
    assert_eq!(story.last[0].tcp().tsecr(), Some(60));
}
