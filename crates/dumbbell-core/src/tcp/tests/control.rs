//! Controls that own window or rate: what the transport leaves to them, and what it does all the same.

use super::*;

/// The constant control with a window of 10, connected.
fn constant() -> Story {
    let config = json!({"name": "constant", "window": 10});
    let mut story = Story::with(&config, plain(2), Application::Bulk);
    story.connect();
    story
}

#[test]
fn a_mark_a_loss_and_a_timeout_leave_the_window_alone() {
    let mut story = constant();
    assert_eq!((story.conn().snd_nxt, story.conn().cwnd), (10, 10));
    story.advance(RTT);
    // ECE: CWR, once a window, but for 2 delivered 2 are sent
    assert_eq!(story.ece(2), [10, 11]);
    assert_eq!((story.conn().cwnd, story.conn().state), (10, CaState::Cwr));
    // 2 is lost: the retransmission and what the 3 delivered make room for
    assert_eq!(story.sack(2, &[(3, 6)]), [2, 12, 13, 14]);
    assert_eq!((story.conn().cwnd, story.conn().state), (10, CaState::Recovery));
    assert_eq!(story.conn().in_flight(), 10);
    // nothing comes back
    story.advance(5000);
    assert!(story.sender.stats.timeouts > 0);
    assert_eq!((story.conn().cwnd, story.conn().state), (10, CaState::Loss));
    // all arrives, and it goes on as before
    let all = story.conn().snd_nxt;
    assert_eq!(story.ack(all).len(), 10);
    assert_eq!(story.conn().cwnd, 10);
}

#[test]
fn an_idle_period_leaves_the_window_alone() {
    let config = json!({"name": "constant", "window": 10});
    let mut story = Story::with(&config, plain(2), Application::Rate(1448 / 4));
    story.connect();
    // one segment every 4 s, far beyond the RTO
    story.flow(Time::from_secs(20));
    assert_eq!((story.conn().cwnd, story.sender.stats.sent), (10, 4));
}

#[test]
fn the_sender_takes_a_rate_sample_for_each_ack_that_delivers() {
    let mut story = constant();
    story.sender.rate = Some(Box::new(super::super::rate::RateSampler::new()));
    // what is in flight was sent without stamps: let it be acknowledged
    story.advance(RTT);
    story.ack(10);
    story.advance(RTT);
    story.ack(12);
    // segment 11 left at 80 ms in one of ten bursts of one, when 1 + 10 were delivered; the ACK comes at 120 ms
    let sample = story.sender.last_sample.expect("a sample");
    assert_eq!((sample.delivered, sample.interval_us, sample.prior_delivered), (Some(2), Some(40_000), 11));
    assert_eq!((sample.newly_delivered, sample.prior_in_flight, sample.tx_in_flight, sample.rtt_us), (2, 10, 2, Some(40_000)));
    assert!(!sample.is_app_limited && !sample.is_retrans && !sample.ece);
    // a mark counts for all that its ACK delivers; three SACKed segments show a loss
    story.ece(14);
    let marked = story.sender.last_sample.expect("a sample");
    assert_eq!((marked.newly_marked, marked.delivered_ce, marked.ece), (2, 2, true));
    story.sack(14, &[(15, 18)]);
    let lossy = story.sender.last_sample.expect("a sample");
    assert_eq!((lossy.newly_lost, lossy.lost, lossy.newly_delivered), (1, 1, 3));
}
