//! Growth of the window, its validation, and what the application offers.

use super::*;
use crate::cc::conn::INFINITE_SSTHRESH;
use crate::packet::{flag, HEADERS};

/// Payload of a segment, bytes.
const MSS: u64 = 1448;

#[test]
fn slow_start_doubles_a_round_with_delayed_acks() {
    let mut story = Story::reno(10);
    let mut acked = 0;
    for cwnd in [20, 40, 80] {
        story.advance(RTT);
        while acked + 2 <= u64::from(cwnd - 10) {
            acked += 2;
            let sent = story.ack(acked).len();
            // 2 delivered: 2 replaced and 2 more; later the send buffer decides when
            assert!(sent == 4 || cwnd > 20, "{sent} for the ACK of {acked}");
        }
        assert_eq!(story.conn().cwnd, cwnd);
    }
}

#[test]
fn a_stretch_ack_counts_all_that_it_delivers() {
    let mut story = Story::reno(10);
    story.advance(RTT);
    // one ACK for all ten: 10 + 10
    assert_eq!(story.ack(10).len(), 20);
    assert_eq!(story.conn().cwnd, 20);
    // the SYN counts as one
    assert_eq!(story.conn().delivered, 11);
}

#[test]
fn congestion_avoidance_adds_one_a_round() {
    let mut story = Story::reno(10);
    story.sender.conn.ssthresh = 10;
    story.advance(RTT);
    for n in 1..=10 {
        story.ack(n);
    }
    assert_eq!(story.cwnd(), (11, 10, CaState::Open));
}

/// `hundredths` / 100 segments per round trip, in B/s.
fn rate(hundredths: u64) -> Application {
    Application::Rate(MSS * hundredths * 10 / RTT)
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    // 6.5 segments per round: at most 7 are out, and slow start may go to twice that
    let mut story = Story::open("reno", plain(10), rate(650));
    // what had gathered before the handshake was over went out at once
    story.flow(Instant::from_secs(1));
    story.sender.conn.cwnd = 10;
    story.flow(Instant::from_secs(2));
    assert_eq!(story.cwnd(), (14, INFINITE_SSTHRESH, CaState::Open));
    // 2.5 segments: 2 * 3 < 10
    let mut slow = Story::open("reno", plain(10), rate(250));
    slow.flow(Instant::from_secs(2));
    assert_eq!(slow.conn().cwnd, 10);
    // in congestion avoidance the window must have been full
    let mut avoiding = Story::new("reno", plain(10), rate(650));
    avoiding.sender.conn.ssthresh = 5;
    avoiding.connect();
    avoiding.flow(Instant::from_secs(1));
    let before = (avoiding.conn().cwnd, avoiding.conn().cwnd_cnt);
    avoiding.flow(Instant::from_secs(2));
    assert_eq!((avoiding.conn().cwnd, avoiding.conn().cwnd_cnt), before);
}

#[test]
fn an_application_of_constant_rate_offers_whole_segments_in_time() {
    // 20 segments per round trip of 40 ms: one every 2 ms; 20 were there when the connection opened
    let mut story = Story::open("reno", plain(100), rate(2000));
    let sent = story.flow(Instant::from_millis(439));
    let data: Vec<u64> = sent.iter().filter(|(_, packet)| !packet.has(flag::NO_DATA)).map(|(at, _)| at.0).collect();
    assert_eq!(data[..20], [40_000_000; 20]);
    for (n, at) in data.iter().enumerate().skip(20) {
        // segment n is complete (n + 1) * 2 ms after the start
        let due = (n as u64 + 1) * 2_000_000;
        assert!((due..=due + 1).contains(at), "segment {n} at {at}");
    }
    // 439 / 2 = 219.5
    assert_eq!(data.len(), 219);
}

#[test]
fn a_finite_transfer_ends_with_a_short_segment_and_its_ack() {
    // 3000 = 2 * 1448 + 104
    let mut story = Story::open("reno", plain(10), Application::Size(3000));
    let lengths: Vec<u16> = story.last[1..].iter().map(|packet| packet.len - HEADERS).collect();
    assert_eq!(lengths, [1448, 1448, 104]);
    assert_eq!(story.last[1..].iter().map(|packet| packet.has(flag::PSH)).collect::<Vec<_>>(), [false, false, true]);
    story.advance(RTT);
    story.ack(2);
    assert_eq!((story.sender.phase, story.sender.bytes_acked()), (Phase::Established, 2896));
    story.advance(1);
    story.ack(3);
    assert_eq!((story.sender.phase, story.sender.bytes_acked()), (Phase::Done, 3000));
    assert_eq!((story.sender.finished, story.sender.next_timer()), (Some(Instant::from_millis(81)), Instant::NEVER));
    // deaf from here on
    assert!(story.ece(3).is_empty());
    assert_eq!(story.sender.stats.ece_acks, 0);
}

#[test]
fn sizes_around_whole_segments() {
    for (size, lengths) in [(1, vec![1]), (1448, vec![1448]), (1449, vec![1448, 1]), (2896, vec![1448, 1448])] {
        let mut story = Story::open("reno", plain(10), Application::Size(size));
        assert_eq!(story.last[1..].iter().map(|packet| packet.len - HEADERS).collect::<Vec<_>>(), lengths);
        story.advance(RTT);
        story.ack(lengths.len() as u64);
        assert_eq!((story.sender.phase, story.sender.bytes_acked()), (Phase::Done, size));
    }
}

#[test]
fn a_short_last_segment_is_short_when_sent_again() {
    let mut story = Story::open("reno", plain(10), Application::Size(3000));
    assert_eq!(story.fire(), [2]);
    assert_eq!((story.last[0].len - HEADERS, story.last[0].flags()), (104, flag::RETRANSMISSION));
}

#[test]
fn stop_lets_what_is_in_flight_arrive() {
    let mut story = Story::reno(10);
    story.sender.stop(story.now);
    story.advance(RTT);
    assert_eq!(story.ack(5), [] as [u64; 0]);
    assert_eq!(story.sender.phase, Phase::Established);
    assert_eq!(story.ack(10), [] as [u64; 0]);
    assert_eq!((story.sender.phase, story.sender.bytes_acked()), (Phase::Done, 14_480));
    assert_eq!(story.sender.next_timer(), Instant::NEVER);
}

#[test]
fn stop_repairs_losses_first() {
    let mut story = Story::reno(10);
    story.sender.stop(story.now);
    story.advance(RTT);
    assert_eq!(story.sack(0, &[(1, 10)]), [0]);
    story.advance(RTT);
    story.ack(10);
    assert_eq!(story.sender.phase, Phase::Done);
}

#[test]
fn stop_between_writes_ends_at_once_and_before_the_handshake_sends_nothing() {
    let mut story = Story::open("reno", plain(10), Application::Rate(MSS));
    story.sender.stop(story.now);
    assert_eq!((story.sender.phase, story.sender.next_timer()), (Phase::Done, Instant::NEVER));

    let mut early = Story::new("reno", plain(10), Application::Bulk);
    early.start();
    early.sender.stop(early.now);
    early.advance(RTT);
    assert_eq!(early.syn_ack(0), [] as [u64; 0]);
    assert_eq!(early.sender.next_timer(), Instant::NEVER);
}

/// A segment a second, a window of `window` at the end of the first: what is left of it a second later.
fn silence(window: u32, host: HostParams) -> (u32, u32) {
    let mut story = Story::open("reno", host, Application::Rate(MSS));
    story.flow(Instant::from_millis(1500));
    story.sender.conn.cwnd = window;
    story.sender.conn.ssthresh = 20;
    story.flow(Instant::from_millis(2010));
    assert_eq!(story.sender.stats().sent, 2);
    (story.conn().cwnd, story.conn().ssthresh)
}

#[test]
fn a_window_halves_for_every_rto_of_idleness() {
    // RTO 240 ms: 1000 > 240: 20; 760: 10; 520: 5; 280: 2; 40 is less. ssthresh: 3/4 of 40
    assert_eq!(silence(40, plain(2)), (2, 30));
    // but not below the initial window: 20, 10
    assert_eq!(silence(40, plain(10)), (10, 30));
    // 25, 12, 6
    assert_eq!(silence(50, plain(10)), (10, 37));
    // 1000 > 600: 20; 400 is less. RTO 600 = 40 + 560
    assert_eq!(silence(40, HostParams { rto_min: Duration::from_millis(560), ..plain(2) }), (20, 30));
    // not idle longer than an RTO of 1040 ms
    assert_eq!(silence(40, HostParams { rto_min: Duration::from_secs(1), ..plain(2) }), (40, 20));
    assert_eq!(silence(40, HostParams { slow_start_after_idle: false, ..plain(2) }), (40, 20));
}

/// A window of 40 with bursts on a path of 1 ms, and nothing in flight any more.
fn idle_with_bursts() -> Story {
    let mut story = Story::new("reno", HostParams::default(), Application::Bulk);
    story.rtt = Duration::from_millis(1);
    story.start();
    story.advance(1);
    story.window = 10;
    story.syn_ack(0);
    story.advance(1);
    story.window = 20;
    story.ack(10);
    story.advance(1);
    story.window = 0;
    story.ack(30);
    assert_eq!((story.conn().cwnd, story.conn().packets_out()), (40, 0));
    story
}

#[test]
fn the_window_restarts_before_the_first_burst_is_sized() {
    let mut story = idle_with_bursts();
    story.advance(1000);
    story.window = 1000;
    // RTO 1 + 200 ms. Idle for 1000 ms: 799 beyond it, 20; 598 beyond the second, 10, the initial window
    assert_eq!(story.ack(30).len(), 10);
    assert_eq!((story.conn().cwnd, story.sender.last_sent), (10, story.now));
}

#[test]
fn idleness_begins_with_the_last_transmission_of_any_kind() {
    let mut story = Story::reno(20);
    story.window = 0;
    // the probe at 40 + 82 ms has nothing new to send: 19 again
    story.sender.window_end = 20;
    assert_eq!(story.fire(), [19]);
    let probed = story.now;
    story.advance(RTT);
    story.ack(20);
    // 302 ms after the handshake, 220 after the probe; RTO 240
    story.run_to(probed + Duration::from_millis(220));
    story.window = 1;
    assert_eq!((story.ack(20), story.conn().cwnd), (vec![20], 40));
}

#[test]
fn the_window_restarts_in_every_state() {
    let mut story = Story::reno(20);
    story.advance(RTT);
    // everything is acknowledged, so that the reduction to 10 is not over: 10 * 20 / 20 = 10 may go
    story.window = 0;
    story.sender.window_end = 20;
    story.ece(20);
    assert_eq!((story.cwnd(), story.conn().packets_out()), ((10, 10, CaState::Cwr), 0));
    story.sender.conn.cwnd = 40;
    story.advance(1000);
    story.window = 1;
    story.ack(20);
    // three times the RTO of 240 ms, to the initial window of 20; in a reduction the threshold stays
    assert_eq!(story.cwnd(), (20, 10, CaState::Cwr));
}
