use super::*;

fn pattern(config: Value, count: usize) -> String {
    let (mut state, mut log) = fill_queues(config, 100);
    serve_order(&mut state, count, Instant::ZERO, &mut log)
}

#[test]
fn credit_serves_both_queues_by_their_weights() {
    assert_eq!(pattern(json!({}), 20), "LLLLLLLLLCLLLLLLLLLC");
    assert_eq!(pattern(json!({"classic_protection": 25}), 8), "LLLCLLLC");
    assert_eq!(pattern(json!({"classic_protection": 50}), 6), "LCLCLC");
    assert_eq!(pattern(json!({"classic_protection": 5}), 40), format!("{0}C{0}C", "L".repeat(19)));
    assert_eq!(pattern(json!({"classic_protection": 0}), 110), "L".repeat(100) + &"C".repeat(10));
    assert_eq!(pattern(json!({"classic_protection": 100}), 3), "CCC");
}

#[test]
fn credit_moves_by_bytes_while_both_wait() {
    let (mut state, mut log) = fill_queues(json!({}), 10);
    assert_eq!(state.scheduler.credit(), -121_120);
    let mut credits = Vec::new();
    for _ in 0..10 {
        let _ = state.dequeue(Instant::ZERO, &mut log);
        credits.push(state.scheduler.credit());
    }
    // each L: + 10 * 1514; the tenth is C: - 90 * 1514
    let expected = [-105_980, -90_840, -75_700, -60_560, -45_420, -30_280, -15_140, 0, 15_140, -121_120];
    assert_eq!(credits, expected);
    // an ACK of 78 B: + 780
    let mut small = queue(json!({}));
    small.enqueue(Packet { len: 78, ..packet(0, Ecn::Ect1) }, Instant::ZERO, &mut log);
    small.enqueue(packet(1, Ecn::NotEct), Instant::ZERO, &mut log);
    let _ = small.dequeue(Instant::ZERO, &mut log);
    assert_eq!(small.scheduler.credit(), -121_120 + 780);
    // alone, C costs nothing; what finds both empty resets
    let _ = small.dequeue(Instant::ZERO, &mut log);
    assert_eq!(small.scheduler.credit(), -121_120 + 780);
    assert!(matches!(small.dequeue(Instant::ZERO, &mut log), Dequeue::Empty));
    assert_eq!(small.scheduler.credit(), -121_120);
}

#[test]
fn packets_that_the_aqm_drops_do_not_cost_credit() {
    let (mut state, mut log) = fill_queues(json!({}), 30);
    state.coupled.controller.set(MAX_PROB, Duration::ZERO);
    state.coupled.update(Duration::from_millis(15));
    // everything is dropped by p'^2 = 1 down to the backlog of two frames
    let _ = state.dequeue(Instant::ZERO, &mut log);
    assert!(log.queue.drops_aqm > 40);
    assert_eq!(state.scheduler.credit() + 121_120, 0, "the one that was sent was alone");
}

#[test]
fn time_shift_serves_the_longer_wait_with_a_head_start_for_l() {
    let choice = |config: Value, age_l: u64, age_c: u64| {
        let mut state = queue(config);
        let now = Instant::from_millis(100);
        let mut log = Counters::default();
        let mut ages = [(0, Ecn::Ect1, age_l), (1, Ecn::NotEct, age_c)];
        ages.sort_by_key(|(_, _, age)| std::cmp::Reverse(*age));
        for (seq, ecn, age) in ages {
            state.enqueue(packet(seq, ecn), now - Duration(age), &mut log);
        }
        serve_order(&mut state, 1, now, &mut log)
    };
    let ts = || json!({"version": "tsfifo"});
    assert_eq!(choice(ts(), MS, 41 * MS), "L");
    assert_eq!(choice(ts(), MS, 41 * MS + 1), "C");
    let fast = || json!({"version": "tsfifo", "t_speed": 1});
    assert_eq!(choice(fast(), MS, 42 * MS), "L");
    assert_eq!(choice(fast(), MS, 42 * MS + 1), "C");
    let near = || json!({"version": "tsfifo", "t_shift": 30 * MS});
    assert_eq!(choice(near(), MS, 31 * MS + 1), "C");
    // with a ratio, C also waits for so many of L
    let (mut young, mut log) = fill_queues(json!({"version": "tsfifo", "wrr_ratio": 3}), 10);
    assert_eq!(serve_order(&mut young, 8, Instant::from_millis(1), &mut log), "LLLLLLLL");
    let mut old = queue(json!({"version": "tsfifo", "wrr_ratio": 3, "t_shift": 0, "min_backlog": 1_000_000_000}));
    (0..8).for_each(|seq| old.enqueue(packet(2 * seq + 1, Ecn::NotEct), Instant::ZERO, &mut log));
    (0..8).for_each(|seq| old.enqueue(packet(2 * seq, Ecn::Ect1), Instant::from_millis(1), &mut log));
    assert_eq!(serve_order(&mut old, 9, Instant::from_millis(2), &mut log), "LLLCLLLCL");
}

#[test]
fn packets_are_served_in_a_ratio() {
    assert_eq!(pattern(json!({"version": "wrr"}), 34), format!("{0}C{0}C", "L".repeat(16)));
    assert_eq!(pattern(json!({"scheduler": "wrr-packets", "wrr_ratio": 2}), 7), "LLCLLCL");
    // it counts L while C is empty: what comes to C then is served at once
    let mut state = queue(json!({"version": "wrr"}));
    let mut log = Counters::default();
    (0..20).for_each(|seq| state.enqueue(packet(2 * seq, Ecn::Ect1), Instant::ZERO, &mut log));
    assert_eq!(serve_order(&mut state, 17, Instant::ZERO, &mut log), "L".repeat(17));
    state.enqueue(packet(1, Ecn::NotEct), Instant::ZERO, &mut log);
    assert_eq!(serve_order(&mut state, 3, Instant::ZERO, &mut log), "CLL");
}

#[test]
fn bytes_are_served_in_a_ratio() {
    // credit -13626 at first, one frame of L at a time: ten until it is positive, then - 1514 * 10
    assert_eq!(pattern(json!({"version": "wrrb"}), 22), format!("{0}C{0}C", "L".repeat(10)));
    // L alone drives the credit above 0, and it stays there
    let mut state = queue(json!({"version": "wrrb"}));
    let mut log = Counters::default();
    (0..30).for_each(|seq| state.enqueue(packet(2 * seq, Ecn::Ect1), Instant::ZERO, &mut log));
    assert_eq!(serve_order(&mut state, 20, Instant::ZERO, &mut log), "L".repeat(20));
    assert_eq!(state.scheduler.credit(), 1514);
    state.enqueue(packet(1, Ecn::NotEct), Instant::ZERO, &mut log);
    assert_eq!(serve_order(&mut state, 2, Instant::ZERO, &mut log), "CL");
    while !matches!(state.dequeue(Instant::ZERO, &mut log), Dequeue::Empty) {}
    assert_eq!(state.scheduler.credit(), -13_626);
    // in turns: C first, since the first turn is over
    let turns = json!({"version": "wrrb", "scheduler": "wrr-bytes-turns"});
    assert_eq!(pattern(turns, 23), format!("C{0}C{0}C", "L".repeat(10)));
}
