//! Controls that own window or rate: what the transport leaves to them, and what it does all the same.

use super::*;

/// The constant control with a window of 10, connected.
fn constant() -> Story {
    let config = json!({"name": "constant", "window": 10});
    let mut story = Story::with_config(&config, plain(2), Application::Bulk);
    story.connect();
    story
}

#[test]
fn a_mark_a_loss_and_a_timeout_leave_the_window_alone() {
    let mut story = constant();
    assert_eq!((story.conn().snd_nxt, story.conn().cwnd), (10, 10));
    story.advance(RTT);
    // ECE: CWR, once per window, but for 2 delivered 2 are sent
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
    let mut story = Story::with_config(&config, plain(2), Application::Rate(1448 / 4));
    story.connect();
    // one segment every 4 s, far beyond the RTO
    story.flow(Instant::from_secs(20));
    assert_eq!((story.conn().cwnd, story.sender.stats().sent), (10, 4));
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
    assert_eq!((sample.sample_delivered, sample.interval_us, sample.prior_delivered), (Some(2), Some(40_000), 11));
    assert_eq!((sample.ack_delivered, sample.prior_in_flight, sample.tx_in_flight, sample.rtt_us), (2, 10, 2, Some(40_000)));
    assert!(!sample.is_app_limited && !sample.is_retrans && !sample.ece);
    // a mark counts for all that its ACK delivers; three SACKed segments show a loss
    story.ece(14);
    let marked = story.sender.last_sample.expect("a sample");
    assert_eq!((marked.ack_marked, marked.sample_marked, marked.ece), (2, 2, true));
    story.sack(14, &[(15, 18)]);
    let lossy = story.sender.last_sample.expect("a sample");
    assert_eq!((lossy.ack_lost, lossy.sample_lost, lossy.ack_delivered), (1, 1, 3));
}

/// The control that follows the delivery rate.
fn following(story: &Story) -> &crate::cc::follow::State {
    match &story.sender.cc {
        crate::cc::AnyCc::Follow(state) => state,
        other => panic!("another control: {other:?}"),
    }
}

#[test]
fn a_control_hears_that_a_probe_repaired_a_loss_and_of_the_doubt_before() {
    let mut story = Story::new("follow", plain(10), Application::Bulk);
    story.window = 10;
    story.connect();
    story.advance(RTT);
    story.window = 1;
    story.ack(9);
    assert_eq!(story.fire(), [9]);
    story.advance(RTT);
    story.window = 100;
    story.ack(10);
    let doubt = story.sender.last_sample.expect("a sample");
    assert_eq!((doubt.acks_probe, following(&story).repaired), (true, 0));
    story.advance(RTT);
    story.ack(11);
    let clear = story.sender.last_sample.expect("a sample");
    assert_eq!((clear.acks_probe, following(&story).repaired), (false, 1));
}

#[test]
fn a_control_hears_whether_the_application_paused_before_it_sends_again() {
    // a segment every 100 ms: each is sent into an empty network, and the application is the limit
    let mut story = Story::open("follow", plain(10), Application::Rate(14_480));
    story.flow(Instant::from_secs(1));
    let restarts = &following(&story).restarts;
    assert!(restarts.len() >= 8 && restarts.iter().all(|&limited| limited), "{restarts:?}");
    // endless data that a window of ten holds back
    let mut bulk = Story::new("follow", plain(10), Application::Bulk);
    bulk.window = 10;
    bulk.connect();
    bulk.advance(RTT);
    bulk.ack(10);
    assert_eq!(following(&bulk).restarts, [false]);
}

#[test]
fn samples_of_a_control_that_holds_back_say_so() {
    let mut story = Story::open("follow", plain(10), Application::Bulk);
    // the first flight is the application's: there was nothing to send before it. Then one in the middle of a long one
    for _ in 0..3 {
        story.advance(RTT);
        story.ack(story.conn().snd_nxt);
    }
    story.advance(RTT);
    let una = story.conn().snd_una;
    story.sender.conn.holds_back = true;
    story.ack(una + 2);
    assert!(!story.conn().holds_back && story.sender.rate.as_ref().is_some_and(|rate| rate.is_app_limited()));
    assert!(!story.sender.last_sample.expect("a sample").is_app_limited, "it was sent before");
    let mark = story.conn().snd_nxt;
    story.advance(RTT);
    story.ack(mark);
    story.advance(RTT);
    story.ack(mark + 1);
    assert!(story.sender.last_sample.expect("a sample").is_app_limited);
}

#[test]
fn ecn_on_every_packet_once_it_is_agreed() {
    for (ecn, codepoint) in [(true, crate::packet::Ecn::Ect0), (false, crate::packet::Ecn::NotEct)] {
        let mut story = Story::with_config(&json!({"name": "bbr2", "ecn": ecn}), plain(10), Application::Bulk);
        story.start();
        assert_eq!(story.last[0].ecn(), crate::packet::Ecn::NotEct, "a SYN is not ECN-capable");
        story.advance(RTT);
        story.syn_ack(ack_flag::ECN_SETUP);
        assert_eq!(story.last[0].ecn(), codepoint, "the last packet of the handshake");
        assert!(story.last[1..].iter().all(|packet| packet.ecn() == crate::packet::Ecn::Ect0));
        story.advance(RTT);
        story.sack(0, &[(1, 5)]);
        let again = story.last.iter().find(|packet| packet.has(flag::RETRANSMISSION)).expect("segment 0 is lost");
        assert_eq!(again.ecn(), codepoint);
    }
}

#[test]
fn the_send_buffer_of_bbr_holds_three_windows() {
    for (name, windows) in [("bbr1", 3), ("bbr2", 3), ("bbr3", 3), ("cubic", 2)] {
        assert_eq!(Story::new(name, plain(10), Application::Bulk).sender.queue.windows, windows, "{name}");
    }
}
