use super::*;

/// Marks of what leaves L as the first of `count` frames, all of which arrived at 0, after `ns`.
fn steps(config: Value, count: u64, ns: u64) -> u64 {
    let mut state = queue(config);
    let mut log = Counters::default();
    (0..count).for_each(|seq| state.enqueue(packet(2 * seq, Ecn::Ect1), Instant::ZERO, &mut log));
    let _ = state.dequeue(Instant(ns), &mut log);
    log.queue.ce_marks
}

#[test]
fn the_step_is_strict_and_each_version_has_its_clock_and_guard() {
    // upstream marks an isolated late packet
    assert_eq!([steps(json!({}), 1, MS), steps(json!({}), 1, MS + 1)], [0, 1]);
    // nanoseconds shifted by 10, more than 1000
    let ts = || json!({"version": "tsfifo"});
    assert_eq!([steps(ts(), 2, 1_025_023), steps(ts(), 2, 1_025_024)], [0, 1]);
    assert_eq!(steps(ts(), 1, 5 * MS), 0, "one must remain");
    let wrrb = || json!({"version": "wrrb"});
    assert_eq!([steps(wrrb(), 2, 5 * MS), steps(wrrb(), 3, 5 * MS)], [0, 1]);
    // whole microseconds
    let commit = || json!({"version": "4e82fd8", "min_qlen_step": 0});
    assert_eq!([steps(commit(), 1, 1_000_999), steps(commit(), 1, 1_001_000)], [0, 1]);
    assert_eq!([steps(json!({"step_thresh": 0}), 1, 0), steps(json!({"step_thresh": 0}), 1, 1)], [0, 1]);
}

#[test]
fn the_step_of_2019_wants_packets_ahead_or_behind() {
    let of = |version: &str| {
        let mut state = queue(json!({"version": version}));
        let mut log = Counters::default();
        (0..5).for_each(|seq| state.enqueue(packet(2 * seq, Ecn::Ect1), Instant::ZERO, &mut log));
        serve_order(&mut state, 5, Instant::from_millis(5), &mut log);
        log.queue.ce_marks
    };
    assert_eq!(of("linux-6.17"), 5);
    assert_eq!(of("linux-5.10"), 3);
    assert_eq!(of("4e82fd8"), 4);
    assert_eq!(of("tsfifo"), 4);
    assert_eq!(of("wrrb"), 3);
}

#[test]
fn a_step_in_packets_counts_those_that_remain() {
    let of = |config| {
        let mut state = queue(config);
        let mut log = Counters::default();
        (0..6).for_each(|seq| state.enqueue(packet(2 * seq, Ecn::Ect1), Instant::ZERO, &mut log));
        serve_order(&mut state, 6, Instant::ZERO, &mut log);
        log.queue.ce_marks
    };
    // 5, 4, 3 remain: more than two
    assert_eq!(of(json!({"step_packets": 2})), 3);
    assert_eq!(of(json!({"step_packets": 0})), 5);
}

/// Judges 4000 packets of `ecn` with p' = `p` while enough is queued, and returns marks and drops.
fn judge_packets(config: Value, ecn: Ecn, p: f64) -> (u64, u64) {
    let mut state = queue(config);
    let mut log = Counters::default();
    let target = state.coupled.controller.target();
    state.coupled.controller.set((p * f64::from(MAX_PROB)) as u32, target);
    state.coupled.update(target);
    for seq in 0..4000 {
        let mut one = packet(seq, ecn);
        let verdict = state.coupled.judge(&mut one, 100_000, 0.0, At::time(Instant::ZERO), &mut log);
        log.queue.drops_aqm += u64::from(verdict.dropped);
    }
    (log.queue.ce_marks, log.queue.drops_aqm)
}

/// Whether `count` of 4000 is what probability `p` gives: within five standard deviations.
fn matches_probability(count: u64, p: f64) -> bool {
    (count as f64 - 4000.0 * p).abs() <= 5.0 * (4000.0 * p * (1.0 - p)).sqrt() + 1e-9
}

/// As many marks as probability `p` gives, and no drops.
fn only_marks((marks, drops): (u64, u64), p: f64) -> bool {
    matches_probability(marks, p) && drops == 0
}

/// As many drops as probability `p` gives; `marks` of the others were marked.
fn only_drops(judged: (u64, u64), p: f64, others_marked: bool) -> bool {
    matches_probability(judged.1, p) && judged.0 == if others_marked { 4000 - judged.1 } else { 0 }
}

#[test]
fn l_is_marked_in_proportion_and_c_by_the_square() {
    assert!(only_marks(judge_packets(json!({}), Ecn::Ect1, 0.2), 0.4));
    assert!(only_marks(judge_packets(json!({}), Ecn::Ect0, 0.2), 0.04));
    assert!(only_drops(judge_packets(json!({}), Ecn::NotEct, 0.2), 0.04, false));
    assert!(only_marks(judge_packets(json!({"coupling_factor": 4}), Ecn::Ect1, 0.2), 0.8));
}

#[test]
fn masks_say_who_is_l4s() {
    let of = |config: Value, ecn| {
        let mut state = queue(config);
        let mut log = Counters::default();
        state.enqueue(packet(0, ecn), Instant::ZERO, &mut log);
        if state.l.len() == 1 {
            'l'
        } else {
            'c'
        }
    };
    let all = |config: Value| {
        [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce].map(|ecn| of(config.clone(), ecn)).iter().collect::<String>()
    };
    assert_eq!(all(json!({})), "ccll");
    assert_eq!(all(json!({"ecn_mask": "any_ect"})), "clll");
    assert_eq!(all(json!({"version": "tsfifo"})), "clll");
    assert_eq!(all(json!({"version": "tsfifo", "queue_mask": "l4s_ect"})), "ccll");
    assert_eq!(all(json!({"queue_mask": "no_ect"})), "cccc");
    // one queue, two ways to mark
    assert!(only_marks(judge_packets(json!({"queue_mask": "no_ect"}), Ecn::Ect1, 0.2), 0.4));
    assert!(only_marks(judge_packets(json!({"queue_mask": "no_ect"}), Ecn::Ect0, 0.2), 0.04));
    // classic_ecn: the square for all
    assert!(only_marks(judge_packets(json!({"scal_mask": "no_ect"}), Ecn::Ect1, 0.2), 0.04));
    assert!(only_marks(judge_packets(json!({"scal_mask": "any_ect"}), Ecn::Ect0, 0.2), 0.4));
    // no_ecn: drops
    let none = json!({"scal_mask": "no_ect", "mark_mask": "no_ect"});
    assert!(only_drops(judge_packets(none, Ecn::Ect0, 0.2), 0.04, false));
}

#[test]
fn in_overload_both_queues_drop_alike() {
    // k p' = 1.2: L drops with p'^2 and marks the rest, C drops all that is hit
    assert!(only_drops(judge_packets(json!({}), Ecn::Ect1, 0.6), 0.36, true));
    assert!(only_drops(judge_packets(json!({}), Ecn::Ect0, 0.6), 0.36, false));
    // time-shifted FIFO: L is not marked at all
    let old = || json!({"version": "tsfifo", "ecn_mask": "l4s_ect"});
    assert!(only_drops(judge_packets(old(), Ecn::Ect1, 0.6), 0.36, false));
    assert!(only_drops(judge_packets(old(), Ecn::Ect0, 0.6), 0.36, false));
    assert!(only_marks(judge_packets(old(), Ecn::Ect0, 0.4), 0.16));
    assert!(only_marks(judge_packets(old(), Ecn::Ect1, 0.4), 0.8));
    // l_drop: overload from k p' = 0.25 on
    assert!(only_drops(judge_packets(json!({"l_drop": 25.0}), Ecn::Ect1, 0.2), 0.04, true));
    assert!(only_marks(judge_packets(json!({"l_drop": 41.0}), Ecn::Ect1, 0.2), 0.4));
    // a wrrb without l_drop: always, unless p' is 0
    assert!(only_drops(judge_packets(json!({"version": "wrrb", "l_drop": 0.0}), Ecn::Ect1, 0.2), 0.04, false));
}

#[test]
fn overflow_never_drops_l_and_marks_all_of_it() {
    // the cap leaves k p' at 1: everything marked in L, a quarter signalled in C
    let over = || json!({"overload": "overflow"});
    assert_eq!(judge_packets(over(), Ecn::Ect1, 0.9), (4000, 0));
    assert!(only_marks(judge_packets(over(), Ecn::Ect0, 0.9), 0.25));
    let old = json!({"version": "tsfifo", "overload": "overflow"});
    assert!(judge_packets(old, Ecn::Ect1, 0.9).0 > 3990);
}

#[test]
fn below_two_full_frames_nothing_is_decided() {
    let decided = |backlog| {
        let mut state = queue(json!({}));
        state.coupled.controller.set(MAX_PROB, Duration::from_millis(15));
        state.coupled.update(Duration::from_millis(15));
        let mut one = packet(0, Ecn::Ect0);
        state.coupled.judge(&mut one, backlog, 0.0, At::time(Instant::ZERO), &mut Counters::default()).dropped
    };
    assert_eq!([decided(3027), decided(3028)], [false, true]);
}

#[test]
fn the_backlog_is_that_behind_a_leaving_packet_and_that_ahead_of_an_arriving_one() {
    let drops = |config: Value, arrive: u64| {
        let mut state = queue(config);
        state.coupled.controller.set(MAX_PROB, Duration::from_millis(15));
        state.coupled.update(Duration::from_millis(15));
        let mut log = Counters::default();
        (0..arrive).for_each(|seq| state.enqueue(packet(seq, Ecn::NotEct), Instant::ZERO, &mut log));
        let on_arrival = log.queue.drops_aqm;
        let _ = state.dequeue(Instant::ZERO, &mut log);
        (on_arrival, log.queue.drops_aqm - on_arrival)
    };
    assert_eq!(drops(json!({}), 2), (0, 0));
    assert_eq!(drops(json!({}), 3), (0, 1));
    assert_eq!(drops(json!({"drop": "enqueue"}), 3), (1, 0));
    assert_eq!(drops(json!({"drop": "enqueue"}), 2), (0, 0));
}

#[test]
fn limits_count_both_queues() {
    let stored = |config: Value, ecn: Ecn| {
        let mut state = queue(config);
        let mut log = Counters::default();
        (0..40_000)
            .for_each(|seq| state.enqueue(packet(seq, if seq % 2 == 0 { ecn } else { Ecn::NotEct }), Instant::ZERO, &mut log));
        assert_eq!(log.queue.drops_overflow + state.packets() as u64, 40_000);
        state.packets()
    };
    assert_eq!(stored(json!({"limit": 7}), Ecn::Ect1), 7);
    // a full segment takes 832 + 1448 = 2280 B of memory, and 3028 B are there for each packet
    assert_eq!(stored(json!({}), Ecn::Ect1), 10_000);
    assert_eq!(stored(json!({"limit": 100, "memlimit": 22_800}), Ecn::Ect1), 10);
    assert_eq!(stored(json!({"limit": 100, "memlimit": 22_799}), Ecn::Ect1), 9);
    assert_eq!(stored(json!({"version": "cbd8653"}), Ecn::Ect1), 40_000);
    // RFC 9332: 250 ms of 10 Mbit/s are 312500 B, of which the last frame's are kept free
    assert_eq!(stored(json!({"version": "rfc9332"}), Ecn::Ect1), (312_500 - 1514) / 1514 + 1);
}

#[test]
fn small_packets_meet_the_limit_of_packets_before_that_of_memory() {
    // an ACK takes 832 B: 30280000 / 832 = 36394 of them would fit
    let mut state = queue(json!({}));
    let mut log = Counters::default();
    (0..20_000)
        .for_each(|seq| state.enqueue(Packet { len: 66, ..Packet::new_ack_slot(seq, Ecn::NotEct) }, Instant::ZERO, &mut log));
    assert_eq!((state.packets(), state.memory), (10_000, 8_320_000));
    serve_order(&mut state, 10_000, Instant::ZERO, &mut log);
    assert_eq!((state.packets(), state.memory), (0, 0));
}

#[test]
fn the_delay_is_that_of_the_older_head() {
    let mut state = queue(json!({}));
    let mut log = Counters::default();
    let next = state.next_timer();
    assert!(next <= Instant::from_millis(16));
    state.on_timer(next, &mut log);
    assert_eq!(state.next_timer(), next + Duration::from_millis(16));
    assert_eq!(state.head_delay(Instant::from_millis(5)), Duration::ZERO);
    state.enqueue(packet(0, Ecn::Ect1), Instant::from_millis(5), &mut log);
    state.enqueue(packet(1, Ecn::NotEct), Instant::from_millis(8), &mut log);
    assert_eq!(state.head_delay(Instant::from_millis(10)), Duration::from_millis(5));
    assert_eq!(serve_order(&mut state, 1, Instant::from_millis(10), &mut log), "L");
    assert_eq!(state.head_delay(Instant::from_millis(10)), Duration::from_millis(2));
}

#[test]
fn marks_of_both_stages_are_one_event_and_count_twice() {
    let mut state = queue(json!({}));
    let mut log = Counters { internal: InternalLog::new(state.internal_queues()), ..Counters::default() };
    state.coupled.controller.set(MAX_PROB / 2, Duration::from_millis(15));
    state.coupled.update(Duration::from_millis(15));
    (0..5).for_each(|seq| state.enqueue(packet(2 * seq, Ecn::Ect1), Instant::ZERO, &mut log));
    assert_eq!(serve_order(&mut state, 5, Instant::from_millis(2), &mut log), "LLLLL");
    // the last two find less than two frames: step only
    let counters = |name: &str| state.counters().into_iter().find(|(key, _)| key == name).unwrap().1;
    assert_eq!(log.queue.ce_marks, 5);
    assert_eq!((counters("step_marks"), counters("ecn_mark")), (5, 8));
    assert_eq!((counters("packets_in_l"), counters("packets_in_c"), counters("maxq")), (5, 0, 4));
}
