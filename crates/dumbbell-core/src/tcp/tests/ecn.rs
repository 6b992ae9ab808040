//! RFC 3168 at the sender: one reduction a window, CWR, PRR of the reduction.

use super::*;
use crate::packet::Ecn;

#[test]
fn ece_reduces_once_a_window_and_cwr_goes_with_the_next_new_segment() {
    let mut story = Story::reno(10);
    story.advance(RTT);
    // window 10 -> ssthresh 5. PRR: in flight 8; 5 * 2 / 10 = 1 segment for these 2
    assert_eq!(story.ece(2), [10]);
    assert_eq!(story.cwnd(), (9, 5, CaState::Cwr));
    assert_eq!((story.last[0].flags(), story.last[0].ecn()), (flag::CWR, Ecn::Ect0));
    assert_eq!((story.conn().high_seq, story.conn().prior_cwnd), (10, 10));
    // the receiver goes on echoing until it sees CWR: 7 and 6 left in flight, one more for each 2; then 5 are enough
    for (ack, sent) in [(4, 1), (6, 1), (8, 0)] {
        assert_eq!(story.ece(ack).len(), sent);
        assert!(story.last.iter().all(|packet| packet.flags() == 0));
    }
    assert_eq!((story.sender.stats.ecn_reductions, story.sender.stats.ece_acks), (1, 4));
    assert_eq!(story.cwnd(), (5, 5, CaState::Cwr));
}

#[test]
fn the_reduction_ends_strictly_beyond_high_seq() {
    let mut story = Story::reno(10);
    story.advance(RTT);
    story.ece(2);
    for ack in [4, 6, 8, 10] {
        story.ack(ack);
    }
    // everything that was out at the start is acknowledged, the segment with CWR (10) is not
    assert_eq!((story.conn().snd_una, story.conn().high_seq), (10, 10));
    assert_eq!(story.cwnd(), (5, 5, CaState::Cwr));
    story.advance(RTT);
    story.ack(11);
    // 5, and one segment towards 6
    assert_eq!((story.cwnd(), story.conn().cwnd_cnt), ((5, 5, CaState::Open), 1));
}

#[test]
fn ece_on_the_ack_that_ends_a_reduction_starts_the_next() {
    let mut story = Story::reno(20);
    story.advance(RTT);
    story.ece(2);
    for n in 2..=10 {
        story.ack(2 * n);
    }
    assert_eq!(story.cwnd(), (10, 10, CaState::Cwr));
    story.advance(RTT);
    story.ece(21);
    assert_eq!((story.conn().ssthresh, story.conn().state, story.conn().prior_cwnd), (5, CaState::Cwr, 10));
    assert_eq!(story.sender.stats.ecn_reductions, 2);
}

#[test]
fn growth_stops_while_the_window_is_reduced() {
    let mut story = Story::reno(10);
    story.advance(RTT);
    story.ece(10);
    // all delivered: PRR allows 5 * 10 / 10 = 5, in slow start it would have been 20
    assert_eq!(story.cwnd(), (5, 5, CaState::Cwr));
}

#[test]
fn retransmissions_are_not_ecn_capable_and_leave_cwr_to_new_data() {
    let mut story = Story::reno(10);
    story.advance(RTT);
    // 3 delivered: PRR allows ceil(5 * 3 / 10) = 2, the retransmission and the new segment that carries CWR
    assert_eq!(story.sack(0, &[(1, 4)]), [0, 10]);
    assert_eq!((story.last[0].ecn(), story.last[0].flags()), (Ecn::NotEct, flag::RETRANSMISSION));
    assert_eq!((story.last[1].ecn(), story.last[1].flags()), (Ecn::Ect0, flag::CWR));
}

#[test]
fn a_loss_during_a_reduction_by_ecn_reduces_no_further() {
    let mut story = Story::reno(20);
    story.advance(RTT);
    story.ece(2);
    story.sack(2, &[(3, 6)]);
    assert_eq!((story.conn().ssthresh, story.conn().state), (10, CaState::Recovery));
    assert_eq!((story.sender.stats.ecn_reductions, story.sender.stats.loss_reductions), (1, 0));
}

#[test]
fn prr_spreads_a_reduction_from_100_to_70_over_the_round() {
    // CUBIC: 100 * 717 / 1024 = 70. ACKs of 2; after the k-th, d = 2k are delivered and ceil(0.7 d) may have been sent:
    // window = 100 - 2k + ceil(1.4 k) while in flight exceeds 70, that is up to k = 47 (100 - 94 + 66 = 72);
    // then 70 in flight are enough: nothing for k = 48, packet conservation at 70 from there on.
    let mut story = Story::open("cubic", plain(100), Application::Bulk);
    story.advance(RTT);
    let mut windows = Vec::new();
    for k in 1..=50_u64 {
        let sent = if k == 1 { story.ece(2) } else { story.ack(2 * k) };
        windows.push(story.conn().cwnd);
        assert_eq!(story.conn().in_flight(), story.conn().cwnd, "ACK {k} sent {sent:?}");
    }
    assert_eq!(windows[..6], [100, 99, 99, 98, 97, 97]);
    for (k, &window) in (1_u32..).zip(&windows) {
        let expected = if k <= 47 { 100 - 2 * k + (14 * k).div_ceil(10) } else { 70 };
        assert_eq!(window, expected, "ACK {k}");
    }
    assert_eq!(story.cwnd(), (70, 70, CaState::Cwr));
    assert_eq!(story.sender.stats.ecn_reductions, 1);
}

#[test]
fn alpha_counts_the_ack_that_ends_its_window_since_6_12_117() {
    // The first ACK ends the empty window that the connection began with: alpha 1024 - 64 = 960. The next window ends with segment 20, and
    // of its 18 segments the last ACK alone brings marks: 960 - 60 + (2 << 6) / 18 = 907. Told of before, that ACK is of the window after
    // it: 960 - 60.
    for (early, alpha) in [(false, 907), (true, 900)] {
        let mut story = Story::open("dctcp", HostParams { early_ack_event: early, ..plain(20) }, Application::Bulk);
        story.advance(RTT);
        for ack in 1..=9 {
            story.ack(2 * ack);
        }
        story.ece(20);
        assert!(format!("{:?}", story.sender.cc).contains(&format!("alpha: {alpha},")), "{:?}", story.sender.cc);
    }
}

#[test]
fn accecn_counts_what_was_marked_and_reduces_once_a_window() {
    let mut story = Story::new("reno", plain(10), Application::Bulk);
    story.start();
    story.syn_ack(ack_flag::ECN_SETUP | ack_flag::ACCECN_SETUP | ack_flag::ACCECN_OPTION);
    story.advance(RTT);
    // 12 B of each segment are the option's
    assert_eq!((story.conn().mss, story.conn().headers), (1436, 78));
    let window = story.window.saturating_mul(story.conn().mss);
    for (ack, ce_count, delivered_ce) in [(2, 1, 1), (4, 1, 1), (6, 3, 3)] {
        let now = story.now;
        let ack =
            Ack { ack, flow: 7, window, flags: ack_flag::ace(5 + ce_count as u8), ce_bytes: ce_count * 1436, ..Ack::default() };
        story.sender.on_ack(&ack, &[], now, &mut story.wire);
        // of the two segments that the first ACK covers one was marked
        assert_eq!(story.conn().delivered_ce, delivered_ce);
    }
    assert_eq!((story.sender.stats.ecn_reductions, story.sender.stats.ece_acks), (1, 2));
    // no CWR: nothing is latched that it could end
    assert!(story.take().len() > 1 && story.last.iter().all(|packet| !packet.has(flag::CWR)));
}

#[test]
fn who_has_seen_no_option_on_the_syn_ack_sends_none() {
    let mut story = Story::new("reno", plain(10), Application::Bulk);
    story.start();
    story.syn_ack(ack_flag::ECN_SETUP | ack_flag::ACCECN_SETUP);
    assert_eq!((story.conn().mss, story.conn().headers), (1448, 66));
}

#[test]
fn a_late_ack_with_an_old_count_says_nothing() {
    let mut story = Story::new("reno", plain(10), Application::Bulk);
    story.start();
    story.syn_ack(ack_flag::ECN_SETUP | ack_flag::ACCECN_SETUP);
    story.advance(RTT);
    let window = story.window.saturating_mul(story.conn().mss);
    let mut heard = |ace, tsval| {
        let ack = Ack { ack: 2, flow: 7, tsval, window, flags: ack_flag::ace(ace), ..Ack::default() };
        story.sender.on_ack(&ack, &[], story.now, &mut story.wire);
        story.sender.conn.delivered_ce
    };
    // three marks at 100 ms. One mark, read after three, would be six more: modulo 8
    assert_eq!(heard(0, 100), 3);
    assert_eq!(heard(6, 90), 3);
    // a later one counts, though it acknowledges nothing
    assert_eq!(heard(1, 101), 4);
}

#[test]
fn segments_that_get_smaller_on_the_way_are_counted_and_sent_again_as_they_were() {
    let mut story = Story::reno(4);
    story.connect();
    story.advance(RTT);
    // 0 to 4 are full; what is sent from here on carries 1000 B
    story.sender.conn.mss = 1000;
    story.sender.note_size(1448);
    let lens = |told: &Story| told.last.iter().map(|packet| packet.len).collect::<Vec<_>>();
    assert_eq!(story.ack(2), [4, 5, 6, 7]);
    assert_eq!((lens(&story), story.sender.bytes_acked()), (vec![1066; 4], 2 * 1448));
    // 2 is lost
    story.advance(RTT);
    assert_eq!(story.sack(2, &[(3, 8)])[0], 2);
    assert_eq!((story.last[0].len, story.last[0].has(flag::RETRANSMISSION)), (1514, true));
    story.advance(RTT);
    story.ack(8);
    assert_eq!(story.sender.bytes_acked(), 4 * 1448 + 4 * 1000);
}

/// Reno with ABE, a window of 20 in flight, 2 of it acknowledged with ECE: 20 * 819 / 1024 = 15.
fn abe(immediate_ecn: bool) -> Story {
    let host = HostParams { ecn_reduction: reduction(immediate_ecn), ..plain(20) };
    let mut story = Story::with_config(&serde_json::json!({"name": "reno", "abe": true}), host, Application::Bulk);
    story.connect();
    story.advance(RTT);
    story.ece(2);
    assert_eq!((story.conn().ssthresh, story.conn().state), (15, CaState::Cwr));
    story
}

#[test]
fn abe_reduces_by_less_and_a_loss_in_the_same_window_takes_the_rest() {
    let mut story = abe(false);
    // Half of the 20 before the mark, not half of 15; it counts as a reduction of its own.
    story.sack(2, &[(3, 6)]);
    assert_eq!((story.conn().ssthresh, story.conn().state), (10, CaState::Recovery));
    assert_eq!((story.sender.stats.ecn_reductions, story.sender.stats.loss_reductions), (1, 1));
    // a timeout in the window of the mark likewise
    let mut late = abe(false);
    late.advance(1000);
    assert!(late.sender.stats.timeouts > 0 && late.conn().ssthresh == 10, "{:?}", late.conn());
}

#[test]
fn an_immediate_reduction_is_silent_until_enough_has_left() {
    let mut story = abe(true);
    // 18 in flight, window 15: the ACKs up to 5 send nothing, then one for one; CWR goes with the first new segment
    assert_eq!(story.cwnd(), (15, 15, CaState::Cwr));
    assert!(story.last.is_empty());
    assert!(story.ece(4).is_empty() && story.ece(5).is_empty());
    assert_eq!(story.ece(6), [20]);
    assert_eq!(story.last[0].flags(), flag::CWR);
    assert_eq!(story.ack(20).len(), 14);
    // no growth until the round is over
    assert_eq!(story.cwnd(), (15, 15, CaState::Cwr));
    story.ack(21);
    assert_eq!(story.cwnd(), (15, 15, CaState::Open));
}

#[test]
fn a_loss_after_an_immediate_reduction_is_repaired_by_prr() {
    let mut story = abe(true);
    // 4 of the 18 in flight are SACKed; threshold 10: PRR allows ceil(10 * 4 / 18) = 3, the retransmission first
    assert_eq!(story.sack(2, &[(3, 7)]), [2, 20, 21]);
    assert_eq!((story.conn().ssthresh, story.conn().state), (10, CaState::Recovery));
    // 18 - 4 SACKed - 1 lost + 3 sent = 16 in flight, which is the window
    assert_eq!((story.conn().in_flight(), story.conn().cwnd), (16, 16));
    // 4 more: ceil(10 * 8 / 18) = 5, of which 2 are left: 14
    assert_eq!(story.sack(2, &[(3, 11)]).len(), 2);
    assert_eq!((story.conn().in_flight(), story.conn().cwnd), (14, 14));
}
