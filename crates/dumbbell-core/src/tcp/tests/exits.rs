//! Ends of slow start, and the events that a sender reports.

use super::*;
use crate::cc::exit::{ExitCause, SlowStartExit, SlowStartExits};
use crate::observe::{ControlEvent, Reported};

fn exit(ms: u64, cwnd: u32, cause: ExitCause) -> Option<SlowStartExit> {
    Some(SlowStartExit { time: Instant::from_millis(ms), cwnd, cause })
}

/// Returns the changes without rate samples.
fn report_changes(said: &mut Reported, story: &Story) -> Vec<ControlEvent> {
    let mut all = Vec::new();
    said.report_changes(story.conn(), "", false, |event| all.push(event));
    all
}

fn state(from: CaState, to: CaState) -> ControlEvent {
    ControlEvent::State { from, to }
}

#[test]
fn a_loss_ends_slow_start_once() {
    let mut story = Story::reno(10);
    let mut said = Reported::default();
    story.advance(RTT);
    assert_eq!((story.conn().exits, report_changes(&mut said, &story)), (SlowStartExits::default(), vec![]));
    // segment 0 is missing: one segment above it is Disorder, the third is Recovery, with ssthresh 10 / 2
    story.sack(0, &[(1, 2)]);
    assert_eq!(report_changes(&mut said, &story), [state(CaState::Open, CaState::Disorder)]);
    story.sack(0, &[(1, 4)]);
    let first = exit(2 * RTT, 10, ExitCause::Loss);
    assert_eq!(story.conn().exits, SlowStartExits { first, last: first });
    let expected = [ControlEvent::SlowStartExit(first.unwrap()), state(CaState::Disorder, CaState::Recovery)];
    assert_eq!(report_changes(&mut said, &story), expected);
    assert_eq!(report_changes(&mut said, &story), []);
    // the hole closes; congestion avoidance from then on has nothing to end
    story.advance(RTT);
    story.ack(story.conn().snd_nxt);
    assert_eq!(report_changes(&mut said, &story), [state(CaState::Recovery, CaState::Open)]);
    story.advance(RTT);
    story.ack(story.conn().snd_nxt);
    assert_eq!(story.conn().exits.last, first);
}

#[test]
fn a_mark_ends_slow_start() {
    let mut story = Story::open("reno", HostParams { ecn: true, ..plain(10) }, Application::Bulk);
    story.advance(RTT);
    story.ece(1);
    assert_eq!(story.conn().exits.first, exit(2 * RTT, 10, ExitCause::Ecn));
}

#[test]
fn a_timeout_ends_slow_start() {
    let mut story = Story::reno(10);
    let mut said = Reported::default();
    // a probe, then the timeout: nothing has come back
    for _ in 0..2 {
        story.fire();
    }
    assert_eq!(story.conn().state, CaState::Loss);
    let at = story.now.as_millis();
    assert_eq!(story.conn().exits.first, exit(at, 10, ExitCause::Timeout));
    assert_eq!(report_changes(&mut said, &story)[1], state(CaState::Open, CaState::Loss));
    // it begins again, up to a threshold of 5
    assert!(story.conn().in_slow_start() && story.conn().ssthresh == 5);
}

#[test]
fn rate_samples_are_kept_once_somebody_asks() {
    let mut story = Story::open("bbr3", plain(10), Application::Bulk);
    story.advance(RTT);
    story.ack(2);
    assert_eq!(story.sender.take_rate_sample(), None);
    story.advance(1);
    story.ack(3);
    // of segment 2: three segments in the 41 ms since it was sent
    let sample = story.sender.take_rate_sample().expect("a sample");
    assert_eq!((sample.ack_delivered, sample.sample_delivered, sample.interval_us), (1, Some(3), Some(41_000)));
    assert_eq!(story.sender.take_rate_sample(), None);
    let mut reno = Story::reno(10);
    reno.advance(RTT);
    reno.ack(2);
    assert_eq!((reno.sender.take_rate_sample(), reno.sender.take_rate_sample()), (None, None));
}
