//! Packets that are delivered when they are sent, because the queue's verdict is known then, give the results of those that wait for their turn: the same random
//! configurations, both ways.

mod drawn;

use drawn::{bottleneck, format_measures, one, MS};
use dumbbell_core::rng::Rng;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_sim::{Outcome, Sim, View};
use serde_json::Value;

fn run(config: &Value, ahead: bool) -> Outcome {
    let sim = Sim::builder(config).delivers_ahead(ahead).build().unwrap_or_else(|error| panic!("{error}\n{config}"));
    sim.finish().unwrap_or_else(|error| panic!("{error}, ahead: {ahead}\n{config}"))
}

#[test]
fn packets_that_are_delivered_ahead_of_their_time_change_nothing() {
    let cases: u64 = std::env::var("DUMBBELL_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let first: u64 = std::env::var("DUMBBELL_FIRST_CASE").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut fewer = 0;
    for number in first..first + cases {
        let config = bottleneck(&mut Rng::stream(number, "ahead", 0));
        let [usual, ahead] = [false, true].map(|ahead| run(&config, ahead));
        assert!(format_measures(&usual) == format_measures(&ahead), "case {number} differs:\n{config}");
        let [many, few] = [&usual, &ahead].map(|outcome| outcome.summary["events"].as_u64().expect("a count"));
        fewer += u64::from(few < many * 9 / 10);
    }
    assert!(fewer >= cases / 2, "only {fewer} of {cases} runs delivered packets ahead of their time");
}

#[test]
fn such_a_run_can_be_paused_at_any_time() {
    for number in 0..20 {
        let config = bottleneck(&mut Rng::stream(number, "ahead", 0));
        let [mut usual, mut ahead] =
            [false, true].map(|ahead| Sim::builder(&config).delivers_ahead(ahead).build().expect("a run"));
        let mut rng = Rng::stream(number, "pauses", 0);
        let mut until = Instant::ZERO;
        loop {
            let over = [&mut usual, &mut ahead].map(|sim| sim.step(until).expect("no invariant is broken"));
            assert_eq!(over[0], over[1], "{config}");
            let [first, second] = [&usual, &ahead].map(|sim| View { now: until, events: 0, ..sim.view() });
            assert!(first == second, "case {number}, at {until}: {first:?} {second:?} {config}");
            if over[0] {
                break;
            }
            let longest = *one(&mut rng, &[1, MS, 100 * MS]);
            until += Duration(1 + rng.draw_below(longest));
        }
        let [usual, ahead] = [usual, ahead].map(|sim| format_measures(&sim.finish().expect("a run")));
        assert!(usual == ahead, "{config}");
    }
}
