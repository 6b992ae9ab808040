//! The end of a flight is lost: tail-loss probe, retransmission timeout, F-RTO.

use super::*;
use crate::tcp::scoreboard::seg;
use crate::tcp::sender::Timer;

/// Ten segments out, a window offered for no more, the first eight acknowledged at 80 ms.
fn tail() -> Story {
    let mut story = Story::new("reno", plain(10), Application::Bulk);
    story.window = 10;
    story.connect();
    story.advance(RTT);
    story.window = 2;
    story.ack(8);
    story
}

#[test]
fn a_probe_is_sent_after_two_srtt_and_two_ticks() {
    let mut story = tail();
    // 2 * 40 + 2
    assert_eq!((story.sender.next_timer(), story.sender.timer.kind), (story.due(82), Timer::Tlp));
    assert_eq!(story.fire(), [9]);
    assert_eq!((story.last[0].flags(), story.sender.stats.probes), (flag::RETRANSMISSION, 1));
    // the timeout starts again with the probe: 240 ms
    assert_eq!((story.sender.next_timer(), story.sender.timer.kind), (story.due(240), Timer::Rto));
}

#[test]
fn a_lone_segment_gets_the_receivers_delayed_ack_as_allowance() {
    let mut story = tail();
    story.window = 1;
    story.ack(9);
    // 2 * 40 + 200 = 280 is more than the RTO of 40 + 200: that is the limit
    assert_eq!((story.sender.next_timer(), story.sender.timer.kind), (story.due(240), Timer::Tlp));
    // on a path of 300 ms: rttvar 600 ms, 2 * 300 + 200 = 800 < 900
    let mut far = Story::new("reno", plain(1), Application::Bulk);
    far.rtt = Duration::from_millis(300);
    far.connect();
    assert_eq!((far.sender.next_timer(), far.sender.timer.kind), (far.due(800), Timer::Tlp));
}

#[test]
fn a_probe_that_pacing_holds_is_not_sent() {
    let mut story = Story::reno(10);
    story.sender.conn.paced = true;
    story.sender.pacer.next = story.sender.next_timer() + Duration::from_micros(500);
    assert_eq!(story.fire(), [] as [u64; 0]);
    assert_eq!((story.sender.stats.probes, story.sender.probe.is_open()), (0, false));
    // the timeout goes on from the oldest segment, which left at 40 ms; less than 1 ms of pacing is nothing
    let left = Instant::from_millis(40 + 240) - story.now;
    assert_eq!((story.sender.timer.kind, story.sender.timer.fire_time()), (Timer::Rto, timer_wheel(story.now, left)));
}

#[test]
fn what_pacing_holds_puts_off_probe_and_timeout() {
    let mut story = Story::new("reno", plain(10), Application::Bulk);
    story.sender.conn.paced = true;
    story.connect();
    // 0 to 8 are free; 9 is followed by 1448 B at 2 * 10 * 1448 B in 40 ms: 2 ms
    assert_eq!(story.sender.pacer.next, story.now + Duration::from_millis(2));
    assert_eq!((story.sender.timer.kind, story.sender.timer.fire_time()), (Timer::Tlp, story.due(82 + 2)));
    // of 3.9 ms three are whole
    story.sender.pacer.next = story.now + Duration::from_micros(3_900);
    story.sender.arm_rto();
    assert_eq!((story.sender.timer.kind, story.sender.timer.fire_time()), (Timer::Rto, story.due(240 + 3)));
    // a timeout starts the next one without it
    story.run_to(story.now + Duration::from_millis(200));
    let timeouts = story.sender.stats.timeouts;
    story.fire();
    assert_eq!(story.sender.stats.timeouts, timeouts + 1);
    assert_eq!(story.sender.timer.fire_time(), story.due(480));
}

#[test]
fn a_probe_is_a_burst_if_the_window_has_room() {
    // 0 to 9 out, and a window that has since grown by 5; 2 * 10 * 1448 B in 40 ms are bursts of the least size, 2
    let mut story = Story::open("reno", HostParams::default(), Application::Bulk);
    story.sender.conn.cwnd = 15;
    assert_eq!(story.fire(), [10, 11]);
    assert_eq!(story.sender.stats.probes, 1);
    // nothing goes after it, and the timeout is set
    assert_eq!(story.sender.timer.kind, Timer::Rto);
}

#[test]
fn new_data_is_the_better_probe() {
    let mut story = Story::reno(10);
    assert_eq!(story.sender.next_timer(), story.due(82));
    // the window is full; one goes beyond it
    assert_eq!(story.fire(), [10]);
    assert_eq!((story.conn().in_flight(), story.conn().cwnd), (11, 10));
    assert_eq!((story.sender.stats.probes, story.sender.stats.retransmissions), (1, 0));
    // its ACK ends the episode without a reduction
    story.advance(RTT);
    story.ack(11);
    assert_eq!((story.sender.probe.is_open(), story.sender.stats.loss_reductions), (false, 0));
    // a probe for each flight, not one after the other
    let mut silent = Story::reno(10);
    silent.fire();
    silent.fire();
    assert_eq!((silent.sender.stats.probes, silent.sender.stats.timeouts), (1, 1));
}

#[test]
fn a_probe_that_was_not_needed_costs_nothing() {
    let mut story = tail();
    story.fire();
    story.advance(RTT);
    story.window = 100;
    // both arrived: the ACK of the original was lost, that of the probe reports the duplicate
    story.dsack(10, (9, 10));
    assert_eq!((story.sender.probe.is_open(), story.sender.stats.loss_reductions), (false, 0));
    // in slow start, for two segments and the duplicate
    assert_eq!((story.conn().cwnd, story.conn().state), (18 + 2 + 1, CaState::Open));
}

#[test]
fn a_duplicate_ends_the_episode_with_nothing_in_flight() {
    let mut story = tail();
    story.fire();
    story.advance(RTT);
    // both originals, and nothing may follow: the probe waits for its verdict
    story.window = 0;
    story.ack(10);
    assert!(story.conn().packets_out() == 0 && story.sender.probe.is_open());
    story.dsack(10, (9, 10));
    assert!(!story.sender.probe.is_open());
    // so that new data does not show a loss
    story.window = 100;
    story.ack(10);
    story.advance(RTT);
    story.ack(11);
    assert_eq!(story.sender.stats.loss_reductions, 0);
}

#[test]
fn a_larger_window_does_not_end_the_episode_of_a_probe() {
    let mut story = tail();
    story.fire();
    story.advance(RTT);
    story.window = 0;
    story.ack(10);
    story.window = 1;
    story.ack(10);
    assert!(story.sender.probe.is_open());
    story.ack(10);
    assert!(!story.sender.probe.is_open());
}

#[test]
fn one_probe_at_a_time() {
    let mut story = Story::reno(10);
    assert_eq!(story.fire(), [10]);
    // old news restarts the clock; the probe is still out
    story.advance(1);
    story.ack(1);
    assert_eq!(story.sender.timer.kind, Timer::Tlp);
    let head = story.sender.board.get(1).sent;
    assert!(story.fire().is_empty());
    assert_eq!((story.sender.stats.probes, story.sender.timer.kind), (1, Timer::Rto));
    // nothing was sent: the timeout counts from the oldest segment
    let left = u64::from(story.conn().rtt.rto_us()).saturating_sub((story.now - head).as_micros()).max(1);
    assert_eq!(story.sender.next_timer(), timer_wheel(story.now, Duration::from_micros(left)));
}

#[test]
fn a_duplicate_ack_after_a_probe_leaves_a_doubt() {
    let mut story = tail();
    story.window = 1;
    story.ack(9);
    story.fire();
    // what is out was sent twice: not Open (Linux tcp_any_retrans_done)
    story.ack(9);
    assert_eq!(story.conn().state, CaState::Disorder);
    story.advance(RTT);
    story.ack(10);
    assert_eq!(story.conn().state, CaState::Open);
}

#[test]
fn a_probe_that_repaired_a_loss_reduces_once() {
    let mut story = tail();
    story.window = 1;
    story.ack(9);
    story.fire();
    story.advance(RTT);
    story.window = 100;
    // nothing shows yet whether the original arrived
    assert!(!story.ack(10).is_empty());
    assert_eq!(story.sender.stats.loss_reductions, 0);
    let before = story.conn().cwnd;
    story.advance(RTT);
    // something sent after the probe arrives, and no duplicate was reported: it was a loss
    story.ack(11);
    assert_eq!((story.sender.stats.loss_reductions, story.sender.probe.is_open()), (1, false));
    assert_eq!(story.cwnd(), (before / 2, before / 2, CaState::Open));
    story.ack(12);
    assert_eq!(story.sender.stats.loss_reductions, 1);
}

#[test]
fn a_probe_shows_the_losses_before_it() {
    let mut story = tail();
    story.fire();
    story.advance(RTT);
    // 9 arrived, sent long after 8: 8 is lost (RACK), without a timeout
    assert_eq!(story.sack(8, &[(9, 10)]), [8]);
    assert_eq!((story.conn().state, story.sender.stats.timeouts), (CaState::Recovery, 0));
}

#[test]
fn probes_come_back_after_a_recovery() {
    let mut story = Story::reno(10);
    story.advance(RTT);
    story.sack(0, &[(1, 4)]);
    story.advance(RTT);
    let high = story.conn().high_seq;
    story.ack(high);
    // ssthresh 5, and 7 delivered: 6. Nothing is left of the episode: Linux's tcp_try_keep_open looks for losses and
    // retransmissions only
    assert_eq!(story.cwnd(), (6, 5, CaState::Open));
    assert_eq!(story.sender.timer.kind, Timer::Tlp);
}

#[test]
fn timeouts_back_off_and_leave_one_segment() {
    let mut story = Story::reno(10);
    // a probe, and 240 ms after it
    story.fire();
    let due = story.due(240);
    assert_eq!(story.fire(), [0]);
    assert_eq!(story.now, due);
    // cwnd = in flight + 1 = 1; ssthresh half of 10
    assert_eq!(story.cwnd(), (1, 5, CaState::Loss));
    assert_eq!((story.conn().lost_out, story.conn().high_seq), (11, 11));
    for timeout in [480, 960, 1920, 3840] {
        assert_eq!(story.sender.next_timer(), story.due(timeout));
        assert_eq!(story.fire(), [0]);
        // later timeouts of the same flight are no new congestion
        assert_eq!(story.cwnd(), (1, 5, CaState::Loss));
    }
    assert_eq!((story.sender.stats.timeouts, story.sender.stats.loss_reductions), (5, 0));
    // an RTT sample ends the back-off: the timestamp echoed is that of the last retransmission, 40 ms
    story.echo = Some(story.now.as_millis() as u32);
    story.advance(RTT);
    let sent = story.ack(1);
    assert!(!sent.is_empty());
    assert_eq!((story.sender.timer.backoff, story.sender.next_timer()), (0, story.due(240)));
}

/// After a timeout segment 0 is acknowledged, 60 ms after it was sent again; the ACK echoes a time `echoed` ms after that.
fn acknowledged_after_a_timeout(echoed: u32) -> Story {
    let mut story = Story::reno(10);
    story.fire();
    story.fire();
    story.echo = Some(story.now.as_millis() as u32 + echoed);
    story.advance(60);
    story.ack(1);
    story
}

#[test]
fn the_timestamp_gives_the_round_trip_of_a_retransmission() {
    // srtt 40 + (60 - 40) / 8 = 42.5 ms; the deviation, 20 ms, is what it was: RTO 242.5 ms, in whole ms 243
    let exact = acknowledged_after_a_timeout(0);
    let rtt = &exact.conn().rtt;
    assert_eq!((rtt.srtt_us(), exact.sender.timer.backoff, rtt.min_us()), (42_500, 0, 40_000));
    assert_eq!((exact.sender.timer.kind, exact.sender.next_timer()), (Timer::Rto, exact.due(243)));
    // no time at all is 1 ms: srtt 40 - 39 / 8
    let none = acknowledged_after_a_timeout(60);
    let least = &none.conn().rtt;
    assert_eq!((least.srtt_us(), none.sender.timer.backoff, least.min_us()), (35_125, 0, 1_000));
    // later than now: no sample
    let ahead = acknowledged_after_a_timeout(1 << 30);
    assert_eq!((ahead.conn().rtt.srtt_us(), ahead.sender.timer.backoff), (40_000, 1));
}

#[test]
fn a_sack_of_a_retransmission_gives_no_round_trip() {
    let mut story = Story::reno(10);
    story.fire();
    story.fire();
    story.advance(60);
    story.sack(0, &[(0, 1)]);
    assert_eq!((story.conn().rtt.srtt_us(), story.sender.timer.backoff), (40_000, 1));
}

#[test]
fn only_what_timed_out_is_lost() {
    // 2..10 were sent at 40 ms, 10..14 at 80 ms; a round trip is 40 ms
    let mut story = Story::reno(10);
    story.advance(RTT);
    story.ack(2);
    // a timeout at 100 ms, earlier than any real one
    let now = story.now;
    story.sender.timer.set(Timer::Rto, 19_000, now);
    assert_eq!(story.sender.next_timer(), Instant::from_millis(100));
    assert_eq!(story.fire(), [2]);
    for seq in 2..14 {
        let lost = story.sender.board.get(seq).flags & seg::LOST != 0;
        assert_eq!(lost, seq < 10, "segment {seq}");
    }
    // the four recent ones are in flight, and the head that is sent again
    assert_eq!((story.conn().cwnd, story.conn().in_flight()), (5, 5));
}

/// The path stalls: probe at 122 ms or so, timeout 240 ms later, nothing lost. 11 segments out.
fn stall_path(host: HostParams) -> Story {
    let mut story = Story::open("reno", host, Application::Bulk);
    story.fire();
    story.fire();
    assert_eq!(story.cwnd(), (1, 5, CaState::Loss));
    story.advance(RTT);
    story
}

#[test]
fn frto_finds_a_spurious_timeout_by_the_acks_of_originals() {
    let mut story = stall_path(plain(10));
    // the first two originals; 1 was never sent again: the timeout was spurious (RFC 5682 section 3.1 step 3.b)
    story.echo = Some(1 << 30);
    story.ack(2);
    // 10 restored, and two more in slow start
    assert_eq!(story.cwnd(), (12, crate::cc::conn::INFINITE_SSTHRESH, CaState::Open));
    assert_eq!((story.conn().lost_out, story.sender.stats.undone, story.sender.stats.retransmissions), (0, 1, 1));
}

#[test]
fn without_frto_the_same_acks_go_on_retransmitting() {
    let mut story = stall_path(HostParams { frto: false, ..plain(10) });
    story.echo = Some(1 << 30);
    // window 1 + 2
    assert_eq!(story.ack(2), [2, 3, 4]);
    assert_eq!(story.cwnd(), (3, 5, CaState::Loss));
    assert_eq!(story.sender.stats.undone, 0);
    // 0 was sent twice: no RTT sample, of 1 neither (Karn), and the timestamp lies ahead
    assert_eq!((story.conn().rtt.srtt_us(), story.sender.timer.backoff), (40_000, 1));
}

#[test]
fn a_real_timeout_tries_new_data_then_retransmits_in_slow_start() {
    let mut story = stall_path(plain(10));
    story.echo = Some((story.now - story.rtt).as_millis() as u32);
    // the retransmission arrived: window 2; F-RTO sends new data instead of what may still come (step 2.b)
    assert_eq!(story.ack(1), [11, 12]);
    assert_eq!(story.cwnd(), (2, 5, CaState::Loss));
    story.advance(RTT);
    // its SACK proves the loss (step 3.a): conventional recovery; both delivered, two sent
    let sent = story.sack(1, &[(11, 13)]);
    assert_eq!(sent, [1, 2]);
    // a sample of what was sent once ends the back-off
    assert_eq!((story.sender.timer.backoff, story.sender.frto_active), (0, false));
    // a late original does not make the timeout spurious any more
    // it shows reordering by 13 - 5 segments, with which the window grows on selective ACKs, too
    assert_eq!((story.sack(1, &[(5, 6), (11, 13)]), story.sender.stats.undone), (vec![3], 0));
    story.advance(RTT);
    // each ACK of one retransmission brings two more, up to ssthresh 5 segments
    assert_eq!(story.sack(2, &[(5, 6), (11, 13)]), [4, 6]);
    assert_eq!(story.sack(3, &[(5, 6), (11, 13)]), [7, 8]);
    assert_eq!(story.cwnd(), (5, 5, CaState::Loss));
    story.advance(RTT);
    story.sack(7, &[(11, 13)]);
    story.advance(RTT);
    story.ack(13);
    assert_eq!((story.conn().state, story.sender.stats.timeouts, story.sender.stats.undone), (CaState::Open, 1, 0));
}

#[test]
fn frto_ends_with_a_duplicate_ack_after_new_data() {
    let mut story = stall_path(plain(10));
    story.echo = Some(1 << 30);
    assert_eq!(story.ack(1), [11, 12]);
    assert!(story.sender.frto_active);
    // a larger window is no duplicate
    story.window += 1;
    story.ack(1);
    assert!(story.sender.frto_active);
    story.ack(1);
    assert!(!story.sender.frto_active);
}

#[test]
fn a_timeout_after_progress_is_new_congestion() {
    let mut story = stall_path(plain(10));
    story.echo = Some(1 << 30);
    story.ack(1);
    assert_eq!(story.cwnd(), (2, 5, CaState::Loss));
    while story.sender.stats.timeouts < 2 {
        story.fire();
    }
    // half of 2, at least 2
    assert_eq!((story.conn().ssthresh, story.conn().prior_cwnd), (2, 2));
}

#[test]
fn what_was_sent_after_the_head_does_not_put_off_its_timeout() {
    let mut story = stall_path(plain(10));
    story.echo = Some(1 << 30);
    assert_eq!(story.ack(1), [11, 12]);
    let due = story.sender.next_timer();
    // 11 and 12 arrive; the head, 1, was last sent long before them. No room to send it again
    story.advance(RTT);
    story.sender.conn.cwnd = 1;
    assert!(story.sack(1, &[(11, 12)]).is_empty());
    assert_eq!((story.sender.next_timer(), story.sender.timer.backoff), (due, 0));
}
