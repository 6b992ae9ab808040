//! Connection set-up: SYN, its retries, ECN negotiation, the initial window.

use super::*;
use crate::cc::conn::INFINITE_SSTHRESH;
use crate::packet::{Ecn, Timestamps, HEADERS, MTU_FRAME, SYN_FRAME};
use crate::tcp::host::Opener;
use crate::tcp::receiver::ServerHandshake;

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

/// A server that has answered the first SYN of a client at `now`, and that SYN.
fn server_with_a_syn(now: Instant) -> (Receiver, Packet) {
    let mut receiver = Receiver::new(7, Arc::new(plain(10)), FlowOptions { ecn: false, echo: crate::cc::Echo::UntilCwr });
    let syn = after_syns(1).last[0];
    assert!(receiver.on_packet(&syn, now).is_some_and(|answer| answer.has(ack_flag::SYN_ACK)));
    (receiver, syn)
}

#[test]
fn a_server_sends_its_syn_ack_again_after_1_2_4_8_and_16_s() {
    let start = Instant::from_millis(20);
    let (mut receiver, syn) = server_with_a_syn(start);
    let mut now = start;
    for seconds in [1, 2, 4, 8, 16] {
        let due = timer_wheel(now, Duration::from_secs(seconds));
        assert_eq!((receiver.next_timer(), receiver.on_timer(due - Duration(1)).is_some()), (due, false));
        now = due;
        assert!(receiver.on_timer(now).is_some_and(|answer| answer.has(ack_flag::SYN_ACK)), "{seconds} s");
    }
    // the sixth time it forgets the SYN
    now = timer_wheel(now, Duration::from_secs(32));
    assert_eq!((receiver.next_timer(), receiver.on_timer(now).is_some()), (now, false));
    assert_eq!(receiver.next_timer(), Instant::NEVER);
    // and the next one is the first
    assert!(receiver.on_packet(&syn, now).is_some());
    assert_eq!(receiver.next_timer(), timer_wheel(now, Duration::from_secs(1)));
}

#[test]
fn a_syn_that_comes_again_is_answered_and_sets_the_timer_of_the_syn_ack_again() {
    let start = Instant::from_millis(20);
    let (mut receiver, syn) = server_with_a_syn(start);
    let later = start + Duration::from_millis(900);
    assert!(receiver.on_packet(&syn, later).is_some());
    let due = timer_wheel(later, Duration::from_secs(1));
    assert_eq!(receiver.next_timer(), due);
    // one that comes after the timer waits twice as long: the timer has run out once
    assert!(receiver.on_timer(due).is_some());
    assert!(receiver.on_packet(&syn, due).is_some());
    assert_eq!(receiver.next_timer(), timer_wheel(due, Duration::from_secs(2)));
}

#[test]
fn the_answer_to_a_syn_ack_stops_its_timer_and_gives_the_servers_round_trip() {
    let (ack, ms) = (
        |tsecr: u64| {
            Packet::new_tcp(0, Ecn::NotEct, flag::PURE_ACK).with_timestamps(Timestamps::new(tsecr as u32, Some(tsecr as u32)))
        },
        Duration::from_millis,
    );
    let start = Instant::from_micros(20_300);
    // the first one was answered: the clock counts microseconds
    let (mut receiver, _) = server_with_a_syn(start);
    assert_eq!(receiver.handshake(), None);
    receiver.on_packet(&ack(20), start + ms(40));
    assert_eq!(receiver.handshake(), Some(ServerHandshake { rtt_us: 40_000, begins_with_one: false }));
    assert_eq!(receiver.next_timer(), Instant::NEVER);
    // The timer and a SYN sent it again, and the client answers the last one: the timestamps count, and the window is one segment
    let (mut lossy, syn) = server_with_a_syn(start);
    let second = lossy.next_timer();
    lossy.on_timer(second);
    lossy.on_packet(&syn, second + ms(20));
    let mut late = lossy.clone();
    lossy.on_packet(&ack((second + ms(20)).as_millis()), second + ms(60));
    assert_eq!(lossy.handshake(), Some(ServerHandshake { rtt_us: 40_000, begins_with_one: true }));
    // if it answers the first one, that was only late
    late.on_packet(&ack(20), second + ms(60));
    let rtt_us = 1_000 * ((second + ms(60)).as_millis() - 20) as u32;
    assert_eq!(late.handshake(), Some(ServerHandshake { rtt_us, begins_with_one: false }));
    // SYNs that came again alone are no reason: none of the server's own timers ran out
    let (mut impatient, again) = server_with_a_syn(start);
    for step in 1..3 {
        impatient.on_packet(&again, start + ms(300 * step));
    }
    impatient.on_packet(&ack((start + ms(600)).as_millis()), start + ms(640));
    assert_eq!(impatient.handshake(), Some(ServerHandshake { rtt_us: 40_000, begins_with_one: false }));
}

#[test]
fn a_server_whose_handshake_the_other_way_carried_begins_without_a_packet() {
    for begins_with_one in [false, true] {
        let mut client = Receiver::new(7, Arc::new(plain(10)), FlowOptions { ecn: true, echo: crate::cc::Echo::UntilCwr });
        let answer = client.connect(40_000, true, Instant::from_millis(40));
        assert_eq!(client.next_timer(), Instant::NEVER);
        let mut story = Story::new("reno", plain(10), Application::Bulk);
        story.now = Instant::from_millis(60);
        let mut wire = Wire::default();
        story.sender.accept(ServerHandshake { rtt_us: 40_000, begins_with_one }, &answer, story.now, &mut wire);
        // data alone, which may carry ECT
        let segments = if begins_with_one { 1 } else { 10 };
        assert_eq!((story.sender.phase, wire.0.len()), (Phase::Established, segments));
        assert!(wire.0.iter().all(|packet| packet.ecn() == Ecn::Ect0 && packet.len == MTU_FRAME));
        assert_eq!((story.conn().rtt.srtt_us(), story.sender.stats().bare), (40_000, 0));
    }
}
