//! Reductions that turn out to be spurious.

use super::*;
use crate::cc::conn::INFINITE_SSTHRESH;

/// Segment 0 is late, not lost: sent again at 80 ms, window 10 halved. `ece`: the ACK that showed it carried ECE.
fn spurious(ece: bool) -> Story {
    let mut story = Story::reno(10);
    story.advance(RTT);
    story.answer(0, if ece { ack_flag::ECE } else { 0 }, &[(1, 4)]);
    assert_eq!((story.conn().ssthresh, story.conn().state), (5, CaState::Recovery));
    story.advance(5);
    story
}

#[test]
fn a_duplicate_report_for_every_retransmission_undoes() {
    let mut story = spurious(false);
    // timestamps that do not help
    story.echo = Some(1 << 30);
    story.ack(4);
    assert_eq!(story.conn().state, CaState::Recovery);
    // the retransmission arrived, too
    story.dsack(4, (0, 1));
    assert_eq!((story.conn().cwnd, story.conn().ssthresh), (10, INFINITE_SSTHRESH));
    assert_eq!((story.sender.stats.undone, story.conn().state), (1, CaState::Open));
    assert!(!story.sender.ecn.cwr_queued, "nothing was reduced");
}

#[test]
fn a_duplicate_counts_as_delivered() {
    let mut story = spurious(false);
    story.echo = Some(40);
    let high = story.conn().snd_nxt;
    story.ack(high);
    assert_eq!((story.sender.stats.undone, story.conn().ssthresh), (1, INFINITE_SSTHRESH));
    let (cwnd, delivered) = (story.conn().cwnd, story.conn().delivered);
    story.advance(RTT);
    // slow start: one new segment, and the retransmission
    story.dsack(high + 1, (0, 1));
    assert_eq!((story.conn().cwnd - cwnd, story.conn().delivered - delivered), (2, 2));
}

#[test]
fn a_duplicate_report_after_recovery_still_undoes() {
    let mut story = spurious(false);
    story.echo = Some(1 << 30);
    let high = story.conn().high_seq;
    story.ack(high);
    assert_eq!(story.conn().state, CaState::Open);
    assert!(story.conn().cwnd < 10);
    story.dsack(high, (0, 1));
    assert_eq!((story.conn().cwnd, story.conn().ssthresh, story.sender.stats.undone), (10, INFINITE_SSTHRESH, 1));
    // once
    story.dsack(high, (0, 1));
    assert_eq!(story.sender.stats.undone, 1);
}

#[test]
fn a_duplicate_report_with_nothing_in_flight_undoes() {
    let mut story = spurious(false);
    story.echo = Some(1 << 30);
    // the window closes
    story.sender.window_end = story.conn().snd_nxt;
    story.window = 0;
    let high = story.conn().snd_nxt;
    story.ack(high);
    assert_eq!((story.conn().packets_out(), story.sender.stats.undone), (0, 0));
    story.dsack(high, (0, 1));
    assert_eq!((story.conn().ssthresh, story.sender.stats.undone), (INFINITE_SSTHRESH, 1));
    assert!(story.conn().cwnd >= 10);
}

#[test]
fn a_duplicate_of_something_older_does_not_undo() {
    // the episode begins at segment 2: before it, beyond what is acknowledged, nonsense, more than was sent again; and it
    for (block, undone) in [((0, 1), 0), ((1, 2), 0), ((6, 7), 0), ((9, 3), 0), ((1, 3), 0), ((2, 3), 1)] {
        let mut story = Story::reno(12);
        story.advance(RTT);
        story.ack(2);
        story.sack(2, &[(3, 6)]);
        story.advance(5);
        story.echo = Some(1 << 30);
        story.ack(6);
        story.dsack(6, block);
        assert_eq!(story.sender.stats.undone, undone, "{block:?}");
        assert_eq!(story.conn().state == CaState::Recovery, undone == 0, "{block:?}");
    }
}

#[test]
fn a_reduction_that_is_undone_before_new_data_went_out_leaves_no_cwr() {
    let mut story = Story::reno(10);
    story.advance(RTT);
    for end in 2..=4 {
        story.sack(0, &[(1, end)]);
    }
    assert!(story.sender.ecn.cwr_queued && story.conn().state == CaState::Recovery);
    story.advance(5);
    story.echo = Some(40);
    let sent = story.sack(4, &[]);
    assert_eq!((story.sender.stats.undone, story.conn().state), (1, CaState::Open));
    assert!(!sent.is_empty() && story.last.iter().all(|packet| packet.flags() == 0), "{:?}", story.last);
}

#[test]
fn an_older_timestamp_undoes_at_the_end_of_recovery() {
    // Eifel (RFC 3522): the ACK echoes 40 ms, the retransmission was sent at 80 ms
    let mut story = spurious(false);
    story.echo = Some(40);
    let high = story.conn().high_seq;
    story.ack(high);
    assert_eq!(story.sender.stats.undone, 1);
    assert_eq!((story.conn().state, story.conn().ssthresh), (CaState::Open, INFINITE_SSTHRESH));
    assert!(story.conn().cwnd >= 10);
    // the timestamp of the retransmission itself does not
    let mut real = spurious(false);
    real.echo = Some(80);
    real.ack(high);
    assert_eq!((real.sender.stats.undone, real.conn().ssthresh), (0, 5));
}

#[test]
fn an_ack_before_anything_was_sent_again_undoes() {
    // pacing holds the retransmission; the hole closes meanwhile
    let mut story = Story::reno(10);
    story.advance(RTT);
    story.sender.conn.paced = true;
    story.sender.pacer.next = story.now + Duration::from_millis(20);
    assert!(story.sack(0, &[(1, 4)]).is_empty());
    assert_eq!((story.conn().state, story.sender.undo.first_retransmission), (CaState::Recovery, None));
    story.advance(5);
    story.echo = Some(1 << 30);
    story.ack(4);
    assert_eq!((story.conn().state, story.conn().ssthresh, story.sender.stats.undone), (CaState::Open, INFINITE_SSTHRESH, 1));
}

#[test]
fn the_stamp_of_the_first_retransmission_lasts_while_one_may_be_out() {
    // 8 and 9 are out, and a stamp from before: it goes when recovery begins, unless the head is the probe of 9
    for (ack, stamp) in [(8, 85), (9, 20)] {
        let mut story = Story::reno(10);
        story.window = 10;
        story.sender.window_end = 10;
        story.advance(RTT);
        story.ack(8);
        story.sender.undo.first_retransmission = Some(20);
        story.sender.conn.state = CaState::Disorder;
        if ack == 9 {
            let now = story.now;
            story.sender.board.mark_probed(9, now);
            story.ack(9);
        }
        story.window = 100;
        story.advance(5);
        assert_eq!(story.conn().snd_una, ack);
        story.sender.board.mark_lost(&mut story.sender.conn, ack, &mut ());
        story.sack(ack, &[]);
        assert_eq!((story.conn().state, story.sender.undo.first_retransmission), (CaState::Recovery, Some(stamp)), "ack {ack}");
    }
}

#[test]
fn an_older_timestamp_on_a_partial_ack_holds_back_and_then_undoes() {
    // two holes, 0 and 4, both only late
    let mut story = Story::reno(12);
    story.advance(RTT);
    let sent = story.sack(0, &[(1, 4), (5, 9)]);
    assert_eq!(sent[..2], [0, 4]);
    story.advance(5);
    story.echo = Some(40);
    // the first arrives; a retransmission is still out: nothing more is thought lost, nothing undone yet
    story.sack(4, &[(5, 9)]);
    assert_eq!((story.conn().state, story.conn().retrans_out, story.sender.stats.undone), (CaState::Recovery, 1, 0));
    story.sack(9, &[]);
    // none is out any more
    assert_eq!((story.conn().state, story.conn().lost_out, story.sender.stats.undone), (CaState::Open, 0, 1));
    assert_eq!(story.conn().ssthresh, INFINITE_SSTHRESH);
    assert!(story.conn().cwnd >= 12);
}

#[test]
fn a_reduction_with_ece_is_never_undone() {
    for late in [false, true] {
        // ECE on the ACK that showed the loss, or on one during recovery
        let mut story = spurious(!late);
        story.echo = Some(1 << 30);
        story.answer(4, if late { ack_flag::ECE } else { 0 }, &[]);
        story.dsack(4, (0, 1));
        assert_eq!((story.conn().ssthresh, story.sender.undo.prior_ssthresh), (5, 0), "late {late}");
        assert!(story.conn().cwnd < 10, "late {late}: {}", story.conn().cwnd);
    }
    // nor a reduction by ECN alone
    let mut story = Story::reno(10);
    story.advance(RTT);
    story.ece(2);
    story.dsack(4, (0, 1));
    assert_eq!((story.conn().ssthresh, story.sender.stats.undone), (5, 0));
}

#[test]
fn the_duplicate_of_a_probe_does_not_undo_a_timeout() {
    // 8 and 9 out; a probe of 9, and a timeout, which sends 8 again: two retransmissions
    let mut story = Story::new("reno", plain(10), Application::Bulk);
    story.window = 10;
    story.connect();
    story.advance(RTT);
    story.window = 2;
    story.ack(8);
    assert_eq!((story.fire(), story.fire()), (vec![9], vec![8]));
    story.advance(RTT);
    story.window = 100;
    story.echo = Some(1 << 30);
    story.ack(10);
    // the duplicate of 9 says nothing of 8
    story.dsack(10, (9, 10));
    assert_eq!(story.sender.stats.undone, 0);
    story.dsack(10, (8, 9));
    assert_eq!(story.sender.stats.undone, 1);
}

#[test]
fn a_duplicate_that_lies_out_of_order_undoes() {
    // 0 and 1 are late and were sent again; 1 arrives twice while 0 is missing. The block around the duplicate vouches for it
    for (within, undone) in [((1, 20), 1), ((2, 20), 0)] {
        let mut story = Story::reno(20);
        story.advance(RTT);
        assert_eq!(story.sack(0, &[(2, 20)])[..2], [0, 1]);
        story.advance(5);
        story.echo = Some(1 << 30);
        story.sack(0, &[(1, 20)]);
        story.answer(0, ack_flag::DSACK, &[(1, 2), within]);
        assert_eq!(story.conn().retrans_out, 1, "{within:?}");
        story.ack(20);
        story.dsack(20, (0, 1));
        assert_eq!(story.sender.stats.undone, undone, "{within:?}");
    }
}

#[test]
fn an_older_timestamp_undoes_a_timeout() {
    let mut story = Story::reno(10);
    story.fire();
    story.fire();
    assert_eq!(story.cwnd(), (1, 5, CaState::Loss));
    story.advance(1);
    // the first original: 40 ms, long before the retransmission; 1 acknowledged in slow start
    story.echo = Some(40);
    story.ack(1);
    assert_eq!(story.cwnd(), (11, INFINITE_SSTHRESH, CaState::Open));
    assert_eq!((story.conn().lost_out, story.sender.timer.timeouts, story.sender.stats.undone), (0, 0, 1));
}
