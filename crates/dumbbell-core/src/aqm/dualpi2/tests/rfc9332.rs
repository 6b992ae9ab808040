use super::*;
use crate::aqm::dualpi2::coupled::Recur;

#[test]
fn sums_of_probabilities_hit_when_they_pass_a_whole_number() {
    let hits = |p: f64, count: usize| {
        let mut recur = Recur::default();
        (0..count).map(|_| if recur.hits(p) { 'x' } else { '.' }).collect::<String>()
    };
    // 1.0 is not beyond 1: the fifth of a quarter each, then every fourth
    assert_eq!(hits(0.25, 14), "....x...x...x.");
    // 1.125, 1.25, 1.375
    assert_eq!(hits(0.375, 9), "..x..x..x");
    assert_eq!(hits(0.0, 5), ".....");
    assert_eq!(hits(1.0, 4), ".xxx");
    assert_eq!(hits(2.0, 4), ".xxx", "no more than one is owed");
}

/// A queue of RFC 9332 with p' = `p`.
fn rfc(mut config: Value, p: f64) -> State {
    config["version"] = json!("rfc9332");
    let mut state = queue(config);
    let target = state.coupled.controller.target();
    state.coupled.controller.set((p * f64::from(MAX_PROB)) as u32, target);
    state.coupled.update(target);
    state
}

/// Marks and drops of 1000 packets of L of which each has waited for `us` and leaves another behind.
fn count_signals(mut state: State, us: u64) -> (u64, u64) {
    let mut log = Counters::default();
    state.enqueue(packet(0, Ecn::Ect1), Instant::ZERO, &mut log);
    for seq in 1..=1000 {
        let now = Instant::from_micros(us * seq);
        state.enqueue(packet(seq, Ecn::Ect1), now, &mut log);
        let _ = state.dequeue(now, &mut log);
    }
    (log.queue.ce_marks, log.queue.drops_aqm)
}

#[test]
fn the_ramp_of_the_rfc_rises_from_800_to_1200_us() {
    let of = |us| count_signals(rfc(json!({}), 0.0), us).0;
    assert_eq!([of(800), of(900), of(1000), of(1100)], [0, 249, 499, 749]);
    assert_eq!([of(1200), of(5000)], [999, 999]);
    // nothing remains behind: no native marks
    let mut state = rfc(json!({}), 0.0);
    let mut log = Counters::default();
    for seq in 0..100 {
        state.enqueue(packet(seq, Ecn::Ect1), Instant::from_millis(5 * seq), &mut log);
        let _ = state.dequeue(Instant::from_millis(5 * seq + 4), &mut log);
    }
    assert_eq!(log.queue.ce_marks, 0);
    // a ramp without width is a step
    assert_eq!(count_signals(rfc(json!({"ramp_range": 0}), 0.0), 801).0, 999);
    assert_eq!(count_signals(rfc(json!({"ramp_range": 0}), 0.0), 800).0, 0);
    // by chance, as many
    let (marks, _) = count_signals(rfc(json!({"marking": "random"}), 0.0), 1000);
    assert!((marks as f64 - 500.0).abs() < 5.0 * 250.0_f64.sqrt(), "{marks}");
}

#[test]
fn l_gets_the_larger_of_ramp_and_coupled_probability() {
    // k p' = 0.2: the ramp counts from 0.5 on, and is not added
    assert_eq!(count_signals(rfc(json!({}), 0.1), 500).0, 199);
    assert_eq!(count_signals(rfc(json!({}), 0.1), 840).0, 199, "a ramp of 0.1");
    assert_eq!(count_signals(rfc(json!({}), 0.1), 1000).0, 499);
}

#[test]
fn at_saturation_the_rfc_drops_from_both_queues() {
    // k p' = 1: L drops a quarter and marks the rest; without, it marks
    let (marks, drops) = count_signals(rfc(json!({}), 0.51), 100);
    assert!((drops as f64 - 260.0).abs() < 3.0, "{drops}");
    assert!((999..=1001).contains(&(marks + drops)), "{marks} {drops}");
    assert_eq!(count_signals(rfc(json!({}), 0.49), 100).1, 0);
    // C is marked by the square below, and dropped from 1 / k^2 on
    let classic = |p| {
        let mut state = rfc(json!({}), p);
        let mut log = Counters::default();
        for seq in 0..1000 {
            state.enqueue(packet(seq, Ecn::Ect0), Instant::ZERO, &mut log);
            let _ = state.dequeue(Instant::ZERO, &mut log);
        }
        (log.queue.ce_marks, log.queue.drops_aqm)
    };
    assert_eq!(classic(0.41), (168, 0));
    assert_eq!(classic(0.61), (0, 372));
}
