//! Which round trips are recorded: all that the RTT estimator takes, and nothing else.

use super::*;
use crate::histogram::CompactHistogram;
use crate::rng::mix;

/// Not started yet; its samples are recorded.
fn recording(window: u32) -> Story {
    let mut story = Story::new("reno", plain(window), Application::Bulk);
    story.sender.rtt_samples = Some(CompactHistogram::default());
    story
}

/// P50, P95, P99 and the largest of what `story` recorded, and how many there are.
fn recorded_percentiles(story: &Story) -> (u64, Option<[Duration; 4]>) {
    let samples = story.sender.rtt_samples.as_ref().expect("they are recorded");
    (samples.total(), samples.quantiles([0.5, 0.95, 0.99, 1.0]))
}

/// Returns count and percentiles of these samples, ms.
fn percentiles(samples: &[u64]) -> (u64, Option<[Duration; 4]>) {
    let mut histogram: CompactHistogram = CompactHistogram::default();
    samples.iter().for_each(|&ms| histogram.record(Duration::from_millis(ms)));
    (histogram.total(), histogram.quantiles([0.5, 0.95, 0.99, 1.0]))
}

#[test]
fn every_kind_of_sample_is_recorded_once() {
    let mut story = recording(10);
    assert_eq!(recorded_percentiles(&story), (0, None));
    // the handshake
    story.connect();
    assert_eq!(recorded_percentiles(&story), percentiles(&[40]));
    story.advance(40);
    story.ack(1);
    assert_eq!(recorded_percentiles(&story), percentiles(&[40, 40]));
    // two segments at once: the sample is that of the older one, which left at 40 ms as well
    story.advance(10);
    story.ack(3);
    assert_eq!(recorded_percentiles(&story), percentiles(&[40, 40, 50]));
    // 3 is missing: the SACK gives one
    story.advance(10);
    story.sack(3, &[(4, 5)]);
    assert_eq!(recorded_percentiles(&story), percentiles(&[40, 40, 50, 60]));
    // the same again gives none
    story.sack(3, &[(4, 5)]);
    assert_eq!(recorded_percentiles(&story), percentiles(&[40, 40, 50, 60]));
    // three newer ones: 3 is lost, and sent again at 110 ms
    story.advance(10);
    assert!(story.sack(3, &[(4, 8)]).contains(&3));
    assert_eq!(recorded_percentiles(&story), percentiles(&[40, 40, 50, 60, 70]));
    // what was sent again gives one by its timestamp: the ACK echoes 110 ms
    story.advance(45);
    story.echo = Some(110);
    story.sack(4, &[(4, 8)]);
    assert_eq!(recorded_percentiles(&story), percentiles(&[40, 40, 50, 60, 70, 45]));
}

#[test]
fn percentiles_are_those_of_a_list_kept_beside() {
    let mut story = recording(1);
    // one segment at a time, so that each ACK answers what left with the one before it; the RTO is at least 200 ms, and nothing is sent
    // again
    story.window = 1;
    story.connect();
    let mut list = vec![Duration::from_millis(RTT)];
    for seq in 1..=1_000 {
        // a tail of up to 190 ms
        let (random, tail) = (mix(seq) % 20_000, mix(!seq) % 20);
        let rtt = Duration::from_micros(20_000 + random + if tail == 0 { random * 15 / 2 } else { 0 });
        story.run_to(story.now + rtt);
        assert_eq!(story.ack(seq), [seq]);
        list.push(rtt);
    }
    assert_eq!(story.sender.stats.retransmissions, 0);
    list.sort_unstable();
    let (total, found) = recorded_percentiles(&story);
    assert_eq!(total, 1_001);
    // ranks 0.5 * 1001, 0.95 * 1001 and 0.99 * 1001, rounded up
    let exactly = [501, 951, 991, 1_001].map(|rank: usize| list[rank - 1]);
    for (value, exact) in found.expect("samples").into_iter().zip(exactly) {
        assert!((value.0 as f64 / exact.0 as f64 - 1.0).abs() <= 1.0 / 128.0, "{value:?}, exactly {exact:?}");
    }
}

#[test]
fn nothing_is_recorded_unless_asked() {
    let mut story = Story::reno(10);
    story.advance(RTT);
    story.ack(2);
    assert!(story.sender.rtt_samples.is_none() && story.conn().rtt.srtt_us() > 0);
}
