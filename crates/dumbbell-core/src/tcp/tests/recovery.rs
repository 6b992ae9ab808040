//! Losses in the middle of a flight: RACK, fast recovery, proportional rate reduction.

use super::*;
use crate::cc::conn::INFINITE_SSTHRESH;
use crate::tcp::sender::Timer;

#[test]
fn three_segments_above_a_hole_show_a_loss() {
    let mut story = Story::reno(10);
    story.advance(RTT);
    // limited transmit: one new segment for each that left
    assert_eq!(story.sack(0, &[(1, 2)]), [10]);
    assert_eq!(story.cwnd(), (10, INFINITE_SSTHRESH, CaState::Disorder));
    story.advance(1);
    assert_eq!(story.sack(0, &[(1, 3)]), [11]);
    story.advance(1);
    // in flight 12 - 3 - 1 = 8; PRR ceil(5 * 1 / 10) = 1: the retransmission
    assert_eq!(story.sack(0, &[(1, 4)]), [0]);
    assert_eq!(story.last[0].flags(), flag::RETRANSMISSION);
    assert_eq!(story.cwnd(), (9, 5, CaState::Recovery));
    assert_eq!((story.conn().high_seq, story.conn().lost_out, story.conn().retrans_out), (12, 1, 1));
    // 4 to 9: for d = 2..7 delivered ceil(d / 2) may be out: 0 1 0 and then 5 are in flight: nothing
    let mut sent = Vec::new();
    for end in 5..=10 {
        story.advance(1);
        sent.push(story.sack(0, &[(1, end)]).len());
    }
    assert_eq!(sent, [0, 1, 0, 1, 0, 0]);
    assert_eq!(story.conn().in_flight(), 5);
    // 10 and 11, sent at 80 and 81 ms, arrive before the retransmission; one new segment for each
    for end in [11, 12] {
        story.run_to(Instant::from_millis(109 + end));
        assert_eq!(story.sack(0, &[(1, end)]).len(), 1);
    }
    assert_eq!(story.conn().state, CaState::Recovery);
    // it fills the hole, and all that was out at the start is acknowledged: cwnd = ssthresh, 1 towards the next segment
    story.run_to(Instant::from_millis(122));
    story.ack(12);
    assert_eq!((story.cwnd(), story.conn().cwnd_cnt), ((5, 5, CaState::Open), 1));
    let stats = &story.sender.stats;
    assert_eq!((stats.retransmissions, stats.loss_reductions, stats.timeouts, stats.undone), (1, 1, 0, 0));
}

#[test]
fn one_segment_above_a_hole_waits_for_a_quarter_of_the_round_trip() {
    let mut story = Story::reno(10);
    story.advance(RTT);
    story.sack(0, &[(1, 2)]);
    // 40 / 4 = 10 ms, and 2 ticks
    let due = story.due(12);
    assert_eq!(story.sender.next_timer(), due);
    assert_eq!(story.conn().state, CaState::Disorder);
    let sent = story.fire();
    assert_eq!((story.now, sent[0]), (due, 0));
    assert_eq!((story.conn().ssthresh, story.conn().state, story.sender.stats.loss_reductions), (5, CaState::Recovery, 1));
    // two holes: PRR lets one go at a time, though the window has room for both
    let mut two = Story::reno(10);
    two.advance(RTT);
    two.sack(0, &[(2, 3)]);
    assert_eq!(two.fire(), [0]);
    assert_eq!((two.conn().lost_out, two.conn().retrans_out, two.conn().cwnd), (2, 1, 9));
    // the hole closes in time: nothing happened
    let mut lucky = Story::reno(10);
    lucky.advance(RTT);
    lucky.sack(0, &[(1, 2)]);
    lucky.advance(5);
    lucky.ack(2);
    assert_eq!((lucky.conn().state, lucky.sender.stats.retransmissions), (CaState::Open, 0));
    // the ACK delivered one segment; the one SACKed before does not count
    assert_eq!(lucky.conn().cwnd, 11);
}

#[test]
fn after_the_reordering_timer_the_timeout_goes_on_from_the_head() {
    let mut story = Story::reno(10);
    story.advance(RTT);
    story.sack(0, &[(1, 2)]);
    // pacing holds the retransmission
    story.sender.conn.paced = true;
    story.sender.pacer.next = story.sender.next_timer() + Duration::from_micros(500);
    assert!(story.fire().is_empty());
    assert_eq!(story.conn().state, CaState::Recovery);
    // the head was sent at 40 ms
    let left = Instant::from_millis(40 + 240) - story.now;
    assert_eq!((story.sender.timer.kind, story.sender.timer.fire_time()), (Timer::Rto, timer_wheel(story.now, left)));
}

#[test]
fn selective_acks_feed_hystart() {
    let mut story = Story::open("cubic", plain(40), Application::Bulk);
    story.advance(RTT);
    // the first round takes 40 ms, the second 60 and more, its ACKs far apart
    for seq in 1..=10 {
        story.ack(4 * seq);
    }
    story.advance(57);
    for una in 41..=48 {
        story.advance(3);
        story.ack(una);
    }
    assert_eq!(story.conn().ssthresh, INFINITE_SSTHRESH, "eight samples are to be the smallest RTT of the round");
    story.advance(3);
    story.sack(48, &[(49, 50)]);
    assert!(story.conn().ssthresh < INFINITE_SSTHRESH);
}

#[test]
fn recovery_needs_no_reordering_window() {
    let mut story = Story::reno(3);
    story.advance(RTT);
    assert_eq!(story.sack(0, &[(1, 2)]), [3]);
    story.advance(1);
    assert_eq!(story.sack(0, &[(1, 3)]), [4]);
    assert_eq!(story.fire(), [0]);
    let sent = story.now;
    // elsewhere half of the round trip would be waited for: 20 ms
    story.sender.reordering.steps = 2;
    story.run_to(Instant::from_millis(120));
    story.sack(0, &[(1, 4)]);
    // 0 arrives; 4 was sent at 81 ms, 12 ms or so before it
    assert!(sent - Duration::from_millis(81) < Instant::from_millis(20));
    story.run_to(sent + story.rtt);
    assert_eq!(story.sack(4, &[])[0], 4);
    assert_eq!((story.conn().state, story.sender.stats.loss_reductions), (CaState::Recovery, 1));
}

#[test]
fn the_timeout_restarts_while_segments_sent_before_the_head_arrive() {
    let (story, _) = recovering();
    // the last SACK came at 88 ms, of what was sent at 40 ms; the head was sent again at 82 ms
    let rto = u64::from(story.conn().rtt.rto_us());
    assert_eq!(
        (story.sender.timer.kind, story.sender.next_timer()),
        (Timer::Rto, timer_wheel(Instant::from_millis(88), Duration::from_micros(rto)))
    );
}

#[test]
fn a_host_with_offload_does_not_wait_for_bursts_in_recovery() {
    let mut story = Story::new("reno", HostParams { initial_window: 40, ..HostParams::default() }, Application::Bulk);
    story.rtt = Duration::from_millis(10);
    story.start();
    story.advance(10);
    story.syn_ack(0);
    story.advance(10);
    story.sack(0, &[(1, 4)]);
    // 35 ACKs, one every 0.4 ms: what PRR allows goes at once, though bursts would be of 4 and half a round trip is over
    for end in 5..40 {
        story.run_to(story.now + Duration::from_micros(400));
        story.sack(0, &[(1, end)]);
        assert!(story.conn().in_flight() >= story.conn().cwnd, "{end}: {:?}", story.conn());
    }
}

#[test]
fn duplicates_widen_the_reordering_window_only_where_there_was_reordering() {
    // Segment 0 is sent again at 80 ms and arrives twice, and recovery ends. The window is 1/4 of the smallest RTT, where there was
    // reordering 2/4, and never more than srtt.
    for (seen, width) in [(false, 10), (true, 20)] {
        let mut story = Story::reno(20);
        story.advance(RTT);
        story.sack(0, &[(1, 4)]);
        story.sender.reordering.seen = seen;
        story.advance(RTT);
        story.echo = Some(80);
        let high = story.conn().snd_nxt;
        story.dsack(high, (0, 1));
        assert_eq!(story.conn().state, CaState::Open);
        story.advance(RTT);
        story.sack(high, &[(high + 1, high + 2)]);
        assert_eq!(story.sender.next_timer(), story.due(width + 2), "seen {seen}");
        story.sender.reordering.steps = 100;
        story.sack(high, &[(high + 1, high + 3)]);
        assert_eq!(story.sender.next_timer(), story.due(40 + 2));
    }
}

#[test]
fn the_duplicate_of_a_probe_does_not_widen_the_reordering_window() {
    let mut story = Story::reno(10);
    story.window = 10;
    story.sender.window_end = 10;
    story.sender.reordering.seen = true;
    assert_eq!(story.fire(), [9]);
    story.advance(RTT);
    story.dsack(10, (9, 10));
    assert_eq!((story.sender.stats.probes, story.sender.reordering.steps), (1, 1));
}

#[test]
fn segments_that_arrive_late_show_reordering() {
    // SACKed below what was SACKed before: 9 - 2 = 7; acknowledged below it: 9 - 1 = 8. The highest is not late.
    let mut story = Story::reno(20);
    story.advance(RTT);
    story.sack(1, &[(7, 9)]);
    assert!(!story.sender.reordering.seen);
    story.sack(1, &[(2, 3), (7, 9)]);
    assert!(story.sender.reordering.seen && story.sender.reordering.is_substantial());
    let mut filled = Story::reno(20);
    filled.advance(RTT);
    filled.sack(0, &[(1, 3)]);
    // 0 arrives, and 3: the ACK covers all that was SACKed; only 0 was late, 4 - 0 = 4
    filled.ack(4);
    assert!(filled.sender.reordering.seen && filled.sender.reordering.is_substantial());
    // no window: a hole of 2 segments, which closes in order
    let mut plain = Story::reno(20);
    plain.advance(RTT);
    plain.sack(0, &[(1, 4)]);
    plain.advance(RTT);
    plain.echo = Some(80);
    plain.ack(4);
    assert!(!plain.sender.reordering.seen);
}

#[test]
fn a_partial_ack_of_an_original_shows_reordering() {
    // 0 and 4 were sent again; the ACK of 0 echoes a time before that
    let mut story = Story::reno(12);
    story.advance(RTT);
    story.sack(0, &[(1, 4), (5, 9)]);
    story.advance(5);
    story.echo = Some(40);
    story.sack(4, &[(5, 9)]);
    assert!(story.sender.reordering.seen && story.sender.reordering.is_substantial());
}

#[test]
fn the_window_grows_on_selective_acks_where_much_is_reordered() {
    for (distance, growth) in [(3, 0), (4, 1)] {
        let mut story = Story::reno(10);
        story.advance(RTT);
        story.sender.reordering.on_overtaken(0, distance);
        story.sack(0, &[(1, 2)]);
        assert_eq!(story.cwnd(), (10 + growth, INFINITE_SSTHRESH, CaState::Disorder), "distance {distance}");
    }
}

#[test]
fn a_timeout_with_three_segments_sacked_forgets_reordering() {
    for (sacked, seen) in [(2, true), (3, false)] {
        let mut story = Story::reno(10);
        story.sender.reordering.seen = true;
        story.advance(RTT);
        story.sack(0, &[(1, 1 + sacked)]);
        assert_eq!(story.conn().state, CaState::Disorder);
        let now = story.now;
        story.sender.timer.set(Timer::Rto, 1_000, now);
        story.fire();
        assert_eq!((story.conn().state, story.sender.reordering.seen), (CaState::Loss, seen), "{sacked} SACKed");
    }
}

/// Ten segments, the first lost, its retransmission sent at 82 ms; the others are SACKed a millisecond apart.
fn recovering() -> (Story, Vec<(u64, Instant)>) {
    let mut story = Story::reno(10);
    story.advance(RTT);
    let mut sent = Vec::new();
    for end in 2..=10 {
        for seq in story.sack(0, &[(1, end)]) {
            sent.push((seq, story.now));
        }
        story.advance(1);
    }
    (story, sent)
}

#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_after_it() {
    let (mut story, sent) = recovering();
    assert_eq!(sent.iter().map(|&(seq, _)| seq).collect::<Vec<_>>(), [10, 11, 0, 12, 13]);
    // 10 and 11 were sent before the retransmission and say nothing of it
    story.run_to(sent[1].1 + story.rtt);
    story.sack(0, &[(1, 12)]);
    assert_eq!(story.sender.stats.retransmissions, 1);
    // 12 was sent after it
    story.run_to(sent[3].1 + story.rtt);
    let again = story.sack(0, &[(1, 13)]);
    assert_eq!(again[0], 0);
    assert_eq!((story.sender.stats.retransmissions, story.sender.stats.loss_reductions), (2, 1));
    // and the timeout runs from it
    let rto = u64::from(story.conn().rtt.rto_us());
    assert_eq!(story.sender.next_timer(), timer_wheel(story.now, Duration::from_micros(rto)));
    assert_eq!((story.conn().lost_out, story.conn().retrans_out), (1, 1));
    story.advance(RTT);
    let all = story.conn().snd_nxt;
    story.ack(all);
    assert_eq!((story.conn().state, story.sender.stats.timeouts), (CaState::Open, 0));
}

#[test]
fn a_burst_of_losses_is_repaired_in_order_without_a_timeout() {
    // 200 segments from a window of 40, of which 5..25 are lost once
    let mut story = Story::new("reno", plain(40), Application::Size(200 * 1448));
    let host = HostParams { delayed_ack: false, sack_compression: false, ..HostParams::default() };
    let mut receiver = Receiver::new(7, Arc::new(host), FlowOptions::default());
    story.start();
    let mut resent = Vec::new();
    story.exchange(&mut receiver, Instant::from_secs(10), |packet| {
        if packet.has(flag::RETRANSMISSION) {
            resent.push(packet.tcp().seq());
        }
        packet.flags() & (flag::RETRANSMISSION | flag::NO_DATA) == 0 && (5..25).contains(&packet.tcp().seq())
    });
    assert_eq!(resent, (5..25).collect::<Vec<_>>(), "each once, in order");
    let stats = &story.sender.stats;
    assert_eq!((stats.retransmissions, stats.loss_reductions, stats.timeouts), (20, 1, 0));
    // half of the 45 that the window had grown to
    assert_eq!((story.conn().ssthresh, story.sender.phase), (22, Phase::Done));
    assert_eq!((receiver.rcv_nxt, receiver.stats.duplicates), (200, 0));
}

#[test]
fn prr_below_ssthresh_conserves_packets_or_catches_up() {
    // CUBIC, window 20, ssthresh 20 * 717 / 1024 = 14. Segment 0 is lost, 1..10 are SACKed one by one:
    //   delivered d = 1: the third SACK shows the loss with 3 delivered by it in all; it counts 1
    // due = ceil(0.7 d) in all for d = 1..7, of which 2 went out as limited transmit before (not counted):
    //   1 1 1 0 1 1 0 = 5 sent of 7 delivered; in flight 20 - 3 + 2 - 1 = 18 before, 18 - 6 + 5 - ... = 17 after
    // Then 10..18 are found lost at once by the SACK of 18: the pipe falls below ssthresh with 8 delivered, 5 sent.
    // RFC 6937 (no new cumulative ACK): conservation, 1 for this 1. The successor: 8 - 5 = 3.
    for (prr_bis, expected) in [(false, 1), (true, 3)] {
        let mut story = Story::open("cubic", HostParams { prr: prr(prr_bis), ..plain(20) }, Application::Bulk);
        story.advance(RTT);
        story.sack(0, &[(1, 2)]);
        story.sack(0, &[(1, 3)]);
        let mut sent = Vec::new();
        for end in 4..=10 {
            sent.push(story.sack(0, &[(1, end)]).len());
        }
        assert_eq!(sent, [1, 1, 1, 0, 1, 1, 0]);
        assert_eq!((story.conn().ssthresh, story.conn().in_flight()), (14, 17));
        let resent = story.sack(0, &[(1, 10), (18, 19)]);
        // 17 - 1 - 8 = 8 in flight
        assert_eq!((resent.len(), story.conn().cwnd), (expected, 8 + expected as u32), "bis {prr_bis}");
        assert_eq!(resent, (10..10 + expected as u64).collect::<Vec<_>>());
        // no new loss, but no cumulative progress either: one for one
        assert_eq!(story.sack(0, &[(1, 10), (18, 20)]).len(), 1, "bis {prr_bis}");
    }
}

#[test]
fn prr_bis_does_not_slow_start_on_an_ack_that_shows_new_losses() {
    // RFC 6937 as in Linux up to 5.14 looks only at the retransmission that arrived
    for (prr_bis, resent) in [(true, vec![3, 4]), (false, vec![3, 4, 5])] {
        let mut story = Story::open("cubic", HostParams { prr: prr(prr_bis), ..plain(20) }, Application::Bulk);
        story.advance(RTT);
        // 0..10 are lost: 20 - 3 - 10 = 7 in flight, ssthresh 14; 3 delivered
        assert_eq!(story.sack(0, &[(10, 13)]), [0, 1, 2]);
        story.advance(RTT);
        // the first retransmission and 19 arrive: 2 delivered, 13..19 are lost: 10 - 2 - 6 = 2 in flight, 2 more, or 3
        assert_eq!(story.sack(1, &[(10, 13), (19, 20)]), resent);
        assert_eq!((story.conn().lost_out, story.conn().in_flight()), (9 + 6, 2 + resent.len() as u32));
    }
}

#[test]
fn prr_grows_by_one_more_when_an_ack_advances_without_new_losses() {
    for prr_bis in [false, true] {
        let mut story = Story::open("cubic", HostParams { prr: prr(prr_bis), ..plain(13) }, Application::Bulk);
        story.advance(RTT);
        // 0..10 are lost at once: 13 - 3 - 10 = 0 in flight, ssthresh 13 * 717 / 1024 = 9; 3 delivered
        assert_eq!(story.sack(0, &[(10, 13)]), [0, 1, 2]);
        story.advance(RTT);
        // each retransmission that arrives: 1 delivered, and one more: slow start
        assert_eq!(story.sack(1, &[(10, 13)]), [3, 4]);
        assert_eq!(story.sack(2, &[(10, 13)]), [5, 6]);
        assert_eq!(story.sack(3, &[(10, 13)]), [7, 8]);
        story.advance(RTT);
        assert_eq!(story.sack(4, &[(10, 13)]), [9, 13]);
        assert_eq!(story.sack(5, &[(10, 13)]), [14, 15]);
        assert_eq!(story.sack(6, &[(10, 13)]), [16, 17]);
        assert_eq!((story.conn().cwnd, story.conn().in_flight()), (9, 9));
        // up to ssthresh and no further
        assert_eq!(story.sack(7, &[(10, 13)]), [18]);
        assert_eq!(story.conn().in_flight(), 9);
    }
}

#[test]
fn the_first_retransmission_goes_out_whatever_the_pipe() {
    // 10 - 3 SACKed - 2 lost = 5 = ssthresh: PRR alone would let nothing go
    let mut story = Story::reno(10);
    story.advance(RTT);
    assert_eq!(story.sack(0, &[(2, 5)]), [0]);
    assert_eq!(story.cwnd(), (6, 5, CaState::Recovery));
}

#[test]
fn old_and_impossible_acks_change_nothing() {
    let mut story = Story::reno(10);
    story.advance(RTT);
    story.ack(5);
    let before = format!("{:?}", story.conn());
    assert!(story.ack(3).is_empty() && story.ack(1 << 40).is_empty());
    assert!(story.answer(5, ack_flag::SYN_ACK, &[]).is_empty());
    assert_eq!(format!("{:?}", story.conn()), before);
    // an old ACK may still carry news
    story.sack(3, &[(7, 8)]);
    assert_eq!((story.conn().snd_una, story.conn().sacked_out), (5, 1));
}

#[test]
fn blocks_may_be_nonsense() {
    let mut story = Story::reno(10);
    story.advance(RTT);
    // reversed, empty, beyond what was sent, below what is acknowledged
    story.sack(2, &[(8, 4), (5, 5), (100, 200), (0, 1)]);
    assert_eq!((story.conn().sacked_out, story.conn().lost_out), (0, 0));
    // a DSACK flag without a block, and reversed
    story.answer(2, ack_flag::DSACK, &[]);
    story.sack(2, &[(3, 6)]);
    story.dsack(2, (2, 1));
    story.dsack(2, (u64::MAX, 2));
    assert_eq!(story.conn().state, CaState::Recovery);
}
