use super::super::testing::{context, packet};
use super::controller::{Controller, MAX_PROB};
use super::*;
use crate::param::ParamError;
use crate::record::{Counters, InternalLog};
use serde_json::{json, Value};

fn try_params(config: Value) -> Result<Params, ParamError> {
    Params::from_json(config.as_object().unwrap())
}

fn params(config: Value) -> Params {
    try_params(config).unwrap()
}

fn queue(config: Value) -> State {
    State::new(params(config), &context(10))
}

fn controller(config: Value) -> Controller {
    params(config).setup(&context(10)).1
}

/// One update: p' before in units of 2^-32, delay and last delay in ns; p' after.
fn after(config: &Value, before: u32, qdelay: u64, last: u64) -> u32 {
    let mut controller = controller(config.clone());
    controller.set(before, Time(last));
    controller.update(Time(qdelay));
    controller.prob()
}

fn share(prob: u32) -> f64 {
    f64::from(prob) / f64::from(MAX_PROB)
}

const MS: u64 = 1_000_000;

#[test]
fn updates_as_linux_computes_them() {
    // A = floor(41 (2^32 - 1) / 4e9) = 44, B = 879: p' += (44 (q - 15 ms) + 879 (q - last)) / 64
    let linux = json!({});
    for (before, qdelay, last, expected) in [
        (0, 15 * MS, 0, 206_015_625),
        (0, 20 * MS, 0, 278_125_000),
        (0, 20 * MS, 20 * MS, 3_437_500),
        (0, 16 * MS, 15 * MS, 14_421_875),
        (429_496_729, 10 * MS, 20 * MS, 288_715_479),
        (429_496_729, 0, 15 * MS, 213_168_604),
        (429_496_729, 0, 0, 419_184_229),
        (0, 0, 0, 0),
        (0, MS, MS, 0),
        (429_496_729, 15 * MS, 15 * MS, 429_496_729),
        (429_496_729, 16 * MS, 15 * MS, 443_918_604),
        (429_496_729, 14 * MS, 16 * MS, 401_340_479),
        (2_147_483_647, 30 * MS, 15 * MS, 2_363_811_772),
        (214_748_364, 0, MS, 190_701_489),
        (4_290_000_000, 40 * MS, 0, 4_294_967_295),
        (100_000, 15_000_001, 15 * MS, 100_014),
        (100_000, 14_999_999, 15 * MS, 99_986),
    ] {
        assert_eq!(after(&linux, before, qdelay, last), expected, "{before} {qdelay} {last}");
        assert_eq!(after(&json!({"version": "linux-5.10"}), before, qdelay, last), expected);
    }
}

#[test]
fn a_fall_by_more_than_one_can_go_unnoticed_in_32_bits() {
    let linux = json!({});
    // from 300 ms to 0: -(44 * 15 + 879 * 300) ms / 64 is below -2^31, and 32 bits of the difference are above p'
    assert_eq!(after(&linux, 0x7fff_ffff, 0, 300 * MS), 0);
    // from 400 ms: more than 2^32 below, so that they are not: 2^31 - 1 - (44 * 15e6 + 879 * 400e6) / 64 + 2^32
    let fall = (44 * 15 * MS + 879 * 400 * MS) / 64;
    assert_eq!(u64::from(after(&linux, 0x7fff_ffff, 0, 400 * MS)), (1_u64 << 31) - 1 + (1 << 32) - fall);
    assert!((share(after(&linux, 0x7fff_ffff, 0, 400 * MS)) - 0.21849).abs() < 1e-5);
}

#[test]
fn updates_of_august_2019_have_half_the_gain() {
    let halved = json!({"arithmetic": "linux-127"});
    for (before, qdelay, last, expected) in [
        (0, 15, 0, 0.024172),
        (0, 20, 0, 0.032633),
        (0, 20, 20, 0.000403),
        (0, 16, 15, 0.001692),
        (429_496_729, 10, 20, 0.083482),
        (429_496_729, 0, 15, 0.074618),
        (429_496_729, 0, 0, 0.098790),
        (0, 0, 0, 0.0),
    ] {
        let got = share(after(&halved, before, qdelay * MS, last * MS));
        assert!((got - expected).abs() < 6e-7, "{before} {qdelay} {last}: {got}, not {expected}");
    }
}

#[test]
fn terms_are_cut_each_in_july_2019_and_together_later() {
    // q 1 ns below the target, last 1 ns below q: terms -44 and 879
    let of = |arithmetic: &str, qdelay, last| i64::from(after(&json!({"arithmetic": arithmetic}), 1000, qdelay, last)) - 1000;
    let below = |arithmetic| of(arithmetic, 15 * MS - 1, 15 * MS - 2);
    // 835 / 64 = 13.05; 835 / 127 = 6.6; 0 + 6; -1 (downwards) + 13
    assert_eq!(below("linux"), 13);
    assert_eq!(below("linux-127"), 6);
    assert_eq!(below("linux-127-terms"), 6);
    assert_eq!(below("linux-shift-terms"), 12);
    // nothing but -44: towards zero, and down
    let still = |arithmetic| of(arithmetic, 15 * MS - 1, 15 * MS - 1);
    assert_eq!([still("linux"), still("linux-127"), still("linux-127-terms"), still("linux-shift-terms")], [0, 0, 0, -1]);
    // -44 * 3 and 879 * 2: 1626 / 127 = 12; -1 + 13
    assert_eq!(of("linux-127", 15 * MS - 3, 15 * MS - 5), 12);
    assert_eq!(of("linux-127-terms", 15 * MS - 3, 15 * MS - 5), 12);
    // -44 * 5 = -220, 879 * 3 = 2637: 2417 / 127 = 19; -1 + 20; >> 6: -4 + 41
    assert_eq!(of("linux-127", 15 * MS - 5, 15 * MS - 8), 19);
    assert_eq!(of("linux-127-terms", 15 * MS - 5, 15 * MS - 8), 19);
    assert_eq!(of("linux-shift-terms", 15 * MS - 5, 15 * MS - 8), 37);
    // the largest difference of the two ways to divide is one unit: -44 * 4 = -176 -> -1; 879 * 2 = 1758 -> 13; 1582 -> 12
    assert_eq!(of("linux-127", 15 * MS - 4, 15 * MS - 6), 12);
    assert_eq!(of("linux-127-terms", 15 * MS - 4, 15 * MS - 6), 12);
}

#[test]
fn updates_of_the_time_shifted_fifo() {
    // gains of 1 and 12 per ns; target 20 ms
    let old = json!({"version": "tsfifo"});
    let of = |before, qdelay, last| share(after(&old, before, qdelay * MS, last * MS));
    assert!((of(0, 20, 0) - 0.055879).abs() < 1e-6);
    assert!((of(0, 40, 0) - 0.116415).abs() < 1e-6);
    // with overflow, never above 1 / k
    let capped = json!({"version": "tsfifo", "overload": "overflow"});
    assert_eq!(after(&capped, MAX_PROB / 2 - 5, 40 * MS, 0), MAX_PROB / 2);
    assert_eq!(after(&json!({"overload": "overflow", "coupling_factor": 3}), MAX_PROB / 3, 40 * MS, 0), MAX_PROB / 3);
}

#[test]
fn gains_are_cut_as_by_tc_and_the_kernel() {
    // tc cuts 0.16 Hz to 40/256, and floor(40 (2^32 - 1) / 4e9) = 42: at a constant 20 ms, 42 * 5 ms / 64
    assert_eq!(after(&json!({"alpha": 0.16}), 0, 20 * MS, 20 * MS), (42 * 5 * MS / 64) as u32);
    // floor(1 (2^32 - 1) / 4e9) = 1
    assert_eq!(after(&json!({"alpha": 1.0 / 256.0}), 0, 20 * MS, 20 * MS), (5 * MS / 64) as u32);
}

#[test]
fn max_rtt_and_typical_rtt_set_four_parameters() {
    let of = |config: Value| {
        let (setup, _, _) = params(config.clone()).setup(&context(10));
        // alpha in 1/256 Hz from two updates at a constant delay, beta from a change at the target
        (setup.tupdate, config)
    };
    assert_eq!(of(json!({"max_rtt": 100 * MS})).0, Time::from_micros(16_666));
    assert_eq!(of(json!({"max_rtt": 100 * MS, "typical_rtt": 15 * MS})).0, Time::from_millis(15));
    assert_eq!(of(json!({"max_rtt": 20 * MS, "typical_rtt": 10 * MS})).0, Time::from_micros(6_666));
    // alpha 0.15 and beta 3 Hz: 38/256 and 768/256, target 15 ms
    let both = json!({"max_rtt": 100 * MS, "typical_rtt": 15 * MS});
    let explicit = json!({"alpha": 38.0 / 256.0, "beta": 3.0, "target": 15 * MS});
    for (qdelay, last) in [(15 * MS, 0), (20 * MS, 20 * MS), (25 * MS, 15 * MS)] {
        assert_eq!(after(&both, 0, qdelay, last), after(&explicit, 0, qdelay, last));
    }
    // 20 ms and 10 ms: alpha 0.1 * 6.666 ms / (20 ms)^2 = 1.6665 Hz = 426/256, beta 15 Hz
    let short = json!({"max_rtt": 20 * MS, "typical_rtt": 10 * MS});
    let explicit = json!({"alpha": 426.0 / 256.0, "beta": 15.0, "target": 10 * MS});
    assert_eq!(after(&short, 0, 12 * MS, 11 * MS), after(&explicit, 0, 12 * MS, 11 * MS));
    // typical_rtt alone: max_rtt is six times as long
    let alone = json!({"typical_rtt": 20 * MS});
    let explicit = json!({"max_rtt": 120 * MS, "typical_rtt": 20 * MS});
    assert_eq!(after(&alone, 0, 30 * MS, 20 * MS), after(&explicit, 0, 30 * MS, 20 * MS));
}

#[test]
fn what_contradicts_is_refused_in_words() {
    let refused = |config: Value| try_params(config).unwrap_err().to_string();
    for key in ["target", "tupdate", "alpha", "beta"] {
        let value = if key.len() < 6 && key != "target" { json!(1.0) } else { json!(15 * MS) };
        let error = refused(json!({"max_rtt": 100 * MS, key: value}));
        assert!(error.starts_with(&format!("{key}: found it beside max_rtt")), "{error}");
    }
    assert!(refused(json!({"step_thresh": MS, "step_packets": 3})).starts_with("step_packets:"));
    assert!(refused(json!({"max_rtt": 10 * MS, "typical_rtt": 20 * MS})).starts_with("typical_rtt:"));
    assert!(refused(json!({"max_rtt": 50_000 * MS})).contains("1/256 Hz"));
    assert!(refused(json!({"version": "rfc9332", "drop": "enqueue"})).starts_with("drop:"));
    assert!(refused(json!({"marking": "random"})).starts_with("marking:"));
    assert!(refused(json!({"ramp_range": MS})).starts_with("ramp_range:"));
    assert!(refused(json!({"overload": "overflow", "l_drop": 50.0})).starts_with("l_drop:"));
    assert!(try_params(json!({"version": "rfc9332", "marking": "random", "ramp_range": MS})).is_ok());
}

/// `count` full frames for each of two queues at 0; ECT(1) goes to L.
fn filled(config: Value, count: u64) -> (State, Counters) {
    let mut state = queue(config);
    let mut log = Counters { internal: InternalLog::new(state.internal_queues()), ..Counters::default() };
    for seq in 0..count {
        state.enqueue(packet(2 * seq, Ecn::Ect1), Time::ZERO, &mut log);
        state.enqueue(packet(2 * seq + 1, Ecn::NotEct), Time::ZERO, &mut log);
    }
    (state, log)
}

/// Who is served, `count` times, at `now`: "LLC".
fn served(state: &mut State, count: usize, now: Time, log: &mut Counters) -> String {
    (0..count)
        .map(|_| match state.dequeue(now, log) {
            Dequeue::Packet(packet) if packet.seq % 2 == 0 => 'L',
            Dequeue::Packet(_) => 'C',
            _ => '-',
        })
        .collect()
}

fn pattern(config: Value, count: usize) -> String {
    let (mut state, mut log) = filled(config, 100);
    served(&mut state, count, Time::ZERO, &mut log)
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
    let (mut state, mut log) = filled(json!({}), 10);
    assert_eq!(state.scheduler.credit(), -121_120);
    let mut credits = Vec::new();
    for _ in 0..10 {
        let _ = state.dequeue(Time::ZERO, &mut log);
        credits.push(state.scheduler.credit());
    }
    // each L: + 10 * 1514; the tenth is C: - 90 * 1514
    let expected = [-105_980, -90_840, -75_700, -60_560, -45_420, -30_280, -15_140, 0, 15_140, -121_120];
    assert_eq!(credits, expected);
    // an ACK of 78 B: + 780
    let mut small = queue(json!({}));
    small.enqueue(Packet { len: 78, ..packet(0, Ecn::Ect1) }, Time::ZERO, &mut log);
    small.enqueue(packet(1, Ecn::NotEct), Time::ZERO, &mut log);
    let _ = small.dequeue(Time::ZERO, &mut log);
    assert_eq!(small.scheduler.credit(), -121_120 + 780);
    // alone, C costs nothing; what finds both empty resets
    let _ = small.dequeue(Time::ZERO, &mut log);
    assert_eq!(small.scheduler.credit(), -121_120 + 780);
    assert!(matches!(small.dequeue(Time::ZERO, &mut log), Dequeue::Empty));
    assert_eq!(small.scheduler.credit(), -121_120);
}

#[test]
fn packets_that_the_aqm_drops_do_not_cost_credit() {
    let (mut state, mut log) = filled(json!({}), 30);
    state.coupled.controller.set(MAX_PROB, Time::ZERO);
    state.coupled.update(Time::from_millis(15));
    // everything is dropped by p'^2 = 1 down to the backlog of two frames
    let _ = state.dequeue(Time::ZERO, &mut log);
    assert!(log.queue.drops_aqm > 40);
    assert_eq!(state.scheduler.credit() + 121_120, 0, "the one that was sent was alone");
}

#[test]
fn time_shift_serves_the_longer_wait_with_a_head_start_for_l() {
    let choice = |config: Value, age_l: u64, age_c: u64| {
        let mut state = queue(config);
        let now = Time::from_millis(100);
        let mut log = Counters::default();
        let mut ages = [(0, Ecn::Ect1, age_l), (1, Ecn::NotEct, age_c)];
        ages.sort_by_key(|(_, _, age)| std::cmp::Reverse(*age));
        for (seq, ecn, age) in ages {
            state.enqueue(packet(seq, ecn), now - Time(age), &mut log);
        }
        served(&mut state, 1, now, &mut log)
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
    let both = json!({"version": "tsfifo", "wrr_ratio": 3});
    let (mut state, mut log) = filled(both, 10);
    assert_eq!(served(&mut state, 8, Time::from_millis(1), &mut log), "LLLLLLLL");
    let both = json!({"version": "tsfifo", "wrr_ratio": 3, "t_shift": 0, "min_backlog": 1_000_000_000});
    let mut state = queue(both);
    for seq in 0..8 {
        state.enqueue(packet(2 * seq + 1, Ecn::NotEct), Time::ZERO, &mut log);
    }
    for seq in 0..8 {
        state.enqueue(packet(2 * seq, Ecn::Ect1), Time::from_millis(1), &mut log);
    }
    assert_eq!(served(&mut state, 9, Time::from_millis(2), &mut log), "LLLCLLLCL");
}

#[test]
fn packets_are_served_in_a_ratio() {
    assert_eq!(pattern(json!({"version": "wrr"}), 34), format!("{0}C{0}C", "L".repeat(16)));
    assert_eq!(pattern(json!({"scheduler": "wrr-packets", "wrr_ratio": 2}), 7), "LLCLLCL");
    // it counts L while C is empty: what comes to C then is served at once
    let mut state = queue(json!({"version": "wrr"}));
    let mut log = Counters::default();
    (0..20).for_each(|seq| state.enqueue(packet(2 * seq, Ecn::Ect1), Time::ZERO, &mut log));
    assert_eq!(served(&mut state, 17, Time::ZERO, &mut log), "L".repeat(17));
    state.enqueue(packet(1, Ecn::NotEct), Time::ZERO, &mut log);
    assert_eq!(served(&mut state, 3, Time::ZERO, &mut log), "CLL");
}

#[test]
fn bytes_are_served_in_a_ratio() {
    // credit -13626 at first, one frame of L at a time: ten until it is positive, then - 1514 * 10
    assert_eq!(pattern(json!({"version": "wrrb"}), 22), format!("{0}C{0}C", "L".repeat(10)));
    // L alone drives the credit above 0, and it stays there
    let mut state = queue(json!({"version": "wrrb"}));
    let mut log = Counters::default();
    (0..30).for_each(|seq| state.enqueue(packet(2 * seq, Ecn::Ect1), Time::ZERO, &mut log));
    assert_eq!(served(&mut state, 20, Time::ZERO, &mut log), "L".repeat(20));
    assert_eq!(state.scheduler.credit(), 1514);
    state.enqueue(packet(1, Ecn::NotEct), Time::ZERO, &mut log);
    assert_eq!(served(&mut state, 2, Time::ZERO, &mut log), "CL");
    while !matches!(state.dequeue(Time::ZERO, &mut log), Dequeue::Empty) {}
    assert_eq!(state.scheduler.credit(), -13_626);
    // in turns: C first, since the first turn is over
    let turns = json!({"version": "wrrb", "scheduler": "wrr-bytes-turns"});
    assert_eq!(pattern(turns, 23), format!("C{0}C{0}C", "L".repeat(10)));
}

/// Marks of what leaves L as the first of `count` frames, all of which arrived at 0, after `ns`.
fn steps(config: Value, count: u64, ns: u64) -> u64 {
    let mut state = queue(config);
    let mut log = Counters::default();
    (0..count).for_each(|seq| state.enqueue(packet(2 * seq, Ecn::Ect1), Time::ZERO, &mut log));
    let _ = state.dequeue(Time(ns), &mut log);
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
fn the_step_of_2019_wants_two_packets_ahead() {
    let of = |version: &str| {
        let mut state = queue(json!({"version": version}));
        let mut log = Counters::default();
        (0..5).for_each(|seq| state.enqueue(packet(2 * seq, Ecn::Ect1), Time::ZERO, &mut log));
        served(&mut state, 5, Time::from_millis(5), &mut log);
        log.queue.ce_marks
    };
    assert_eq!(of("linux-6.17"), 5);
    assert_eq!(of("linux-5.10"), 3);
    assert_eq!(of("4e82fd8"), 3);
    assert_eq!(of("tsfifo"), 4);
    assert_eq!(of("wrrb"), 3);
}

#[test]
fn a_step_in_packets_counts_those_that_remain() {
    let of = |config| {
        let mut state = queue(config);
        let mut log = Counters::default();
        (0..6).for_each(|seq| state.enqueue(packet(2 * seq, Ecn::Ect1), Time::ZERO, &mut log));
        served(&mut state, 6, Time::ZERO, &mut log);
        log.queue.ce_marks
    };
    // 5, 4, 3 remain: more than two
    assert_eq!(of(json!({"step_packets": 2})), 3);
    assert_eq!(of(json!({"step_packets": 0})), 5);
}

/// What happens to 4000 packets of `ecn`, judged with p' = `p` while enough is queued: marks, drops.
fn judged(config: Value, ecn: Ecn, p: f64) -> (u64, u64) {
    let mut state = queue(config);
    let mut log = Counters::default();
    let target = state.coupled.controller.target();
    state.coupled.controller.set((p * f64::from(MAX_PROB)) as u32, target);
    state.coupled.update(target);
    for seq in 0..4000 {
        let mut one = packet(seq, ecn);
        let verdict = state.coupled.judge(&mut one, 100_000, 0.0, At::time(Time::ZERO), &mut log);
        log.queue.drops_aqm += u64::from(verdict.dropped);
    }
    (log.queue.ce_marks, log.queue.drops_aqm)
}

/// Whether `count` of 4000 is what probability `p` gives: within five standard deviations.
fn fits(count: u64, p: f64) -> bool {
    (count as f64 - 4000.0 * p).abs() <= 5.0 * (4000.0 * p * (1.0 - p)).sqrt() + 1e-9
}

#[test]
fn l_is_marked_in_proportion_and_c_by_the_square() {
    let (marks, drops) = judged(json!({}), Ecn::Ect1, 0.2);
    assert!(fits(marks, 0.4) && drops == 0, "{marks} {drops}");
    let (marks, drops) = judged(json!({}), Ecn::Ect0, 0.2);
    assert!(fits(marks, 0.04) && drops == 0, "{marks} {drops}");
    let (marks, drops) = judged(json!({}), Ecn::NotEct, 0.2);
    assert!(fits(drops, 0.04) && marks == 0, "{marks} {drops}");
    let (marks, _) = judged(json!({"coupling_factor": 4}), Ecn::Ect1, 0.2);
    assert!(fits(marks, 0.8), "{marks}");
}

#[test]
fn masks_say_who_is_l4s() {
    let of = |config: Value, ecn| {
        let mut state = queue(config);
        let mut log = Counters::default();
        state.enqueue(packet(0, ecn), Time::ZERO, &mut log);
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
    assert!(fits(judged(json!({"queue_mask": "no_ect"}), Ecn::Ect1, 0.2).0, 0.4));
    // classic_ecn: the square for all
    assert!(fits(judged(json!({"scal_mask": "no_ect"}), Ecn::Ect1, 0.2).0, 0.04));
    assert!(fits(judged(json!({"scal_mask": "any_ect"}), Ecn::Ect0, 0.2).0, 0.4));
    // no_ecn: drops
    let none = json!({"scal_mask": "no_ect", "mark_mask": "no_ect"});
    let (marks, drops) = judged(none, Ecn::Ect0, 0.2);
    assert!(marks == 0 && fits(drops, 0.04));
}

#[test]
fn in_overload_both_queues_drop_alike() {
    // k p' = 1.2: L drops with p'^2 and marks the rest, C drops all that is hit
    let (marks, drops) = judged(json!({}), Ecn::Ect1, 0.6);
    assert!(fits(drops, 0.36) && marks + drops == 4000, "{marks} {drops}");
    let (marks, drops) = judged(json!({}), Ecn::Ect0, 0.6);
    assert!(fits(drops, 0.36) && marks == 0, "{marks} {drops}");
    // time-shifted FIFO: L is not marked at all
    let old = || json!({"version": "tsfifo", "ecn_mask": "l4s_ect"});
    let (marks, drops) = judged(old(), Ecn::Ect1, 0.6);
    assert!(fits(drops, 0.36) && marks == 0, "{marks} {drops}");
    let (marks, drops) = judged(old(), Ecn::Ect0, 0.4);
    assert!(fits(marks, 0.16) && drops == 0, "{marks} {drops}");
    // l_drop: overload from k p' = 0.25 on
    let (marks, drops) = judged(json!({"l_drop": 25.0}), Ecn::Ect1, 0.2);
    assert!(fits(drops, 0.04) && marks + drops == 4000, "{marks} {drops}");
    let (marks, drops) = judged(json!({"l_drop": 41.0}), Ecn::Ect1, 0.2);
    assert!(drops == 0 && fits(marks, 0.4), "{marks} {drops}");
}

#[test]
fn overflow_never_drops_l_and_marks_all_of_it() {
    // the cap leaves k p' at 1: everything marked in L, a quarter signalled in C
    let over = || json!({"overload": "overflow"});
    let (marks, drops) = judged(over(), Ecn::Ect1, 0.9);
    assert_eq!((marks, drops), (4000, 0));
    let (marks, drops) = judged(over(), Ecn::Ect0, 0.9);
    assert!(fits(marks, 0.25) && drops == 0, "{marks} {drops}");
}

#[test]
fn below_two_full_frames_nothing_is_decided() {
    let decided = |backlog| {
        let mut state = queue(json!({}));
        state.coupled.controller.set(MAX_PROB, Time::from_millis(15));
        state.coupled.update(Time::from_millis(15));
        let mut one = packet(0, Ecn::Ect0);
        state.coupled.judge(&mut one, backlog, 0.0, At::time(Time::ZERO), &mut Counters::default()).dropped
    };
    assert_eq!([decided(3027), decided(3028)], [false, true]);
}

#[test]
fn the_backlog_is_that_behind_a_leaving_packet_and_that_ahead_of_an_arriving_one() {
    let drops = |config: Value, arrive: u64| {
        let mut state = queue(config);
        state.coupled.controller.set(MAX_PROB, Time::from_millis(15));
        state.coupled.update(Time::from_millis(15));
        let mut log = Counters::default();
        (0..arrive).for_each(|seq| state.enqueue(packet(seq, Ecn::NotEct), Time::ZERO, &mut log));
        let on_arrival = log.queue.drops_aqm;
        let _ = state.dequeue(Time::ZERO, &mut log);
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
            .for_each(|seq| state.enqueue(packet(seq, if seq % 2 == 0 { ecn } else { Ecn::NotEct }), Time::ZERO, &mut log));
        assert_eq!(log.queue.drops_overflow + state.packets() as u64, 40_000);
        state.packets()
    };
    assert_eq!(stored(json!({"limit": 7}), Ecn::Ect1), 7);
    // a full frame takes 2304 B of memory, and 3028 B are there for each packet
    assert_eq!(stored(json!({}), Ecn::Ect1), 10_000);
    assert_eq!(stored(json!({"limit": 100, "memlimit": 23_040}), Ecn::Ect1), 10);
    assert_eq!(stored(json!({"limit": 100, "memlimit": 23_039}), Ecn::Ect1), 9);
    assert_eq!(stored(json!({"version": "cbd8653"}), Ecn::Ect1), 40_000);
    // RFC 9332: 250 ms of 10 Mbit/s are 312500 B, of which the last frame's are kept free
    assert_eq!(stored(json!({"version": "rfc9332"}), Ecn::Ect1), (312_500 - 1514) / 1514 + 1);
}

#[test]
fn small_packets_meet_the_limit_of_packets_before_that_of_memory() {
    // an ACK takes 768 B: 30280000 / 768 = 39427 of them would fit
    let mut state = queue(json!({}));
    let mut log = Counters::default();
    (0..20_000).for_each(|seq| state.enqueue(Packet { len: 66, ..packet(seq, Ecn::NotEct) }, Time::ZERO, &mut log));
    assert_eq!((state.packets(), state.memory), (10_000, 7_680_000));
}

#[test]
fn the_delay_is_that_of_the_older_head() {
    let mut state = queue(json!({}));
    let mut log = Counters::default();
    assert_eq!(state.head_delay(Time::from_millis(5)), Time::ZERO);
    state.enqueue(packet(0, Ecn::Ect1), Time::from_millis(5), &mut log);
    state.enqueue(packet(1, Ecn::NotEct), Time::from_millis(8), &mut log);
    assert_eq!(state.head_delay(Time::from_millis(10)), Time::from_millis(5));
    assert_eq!(served(&mut state, 1, Time::from_millis(10), &mut log), "L");
    assert_eq!(state.head_delay(Time::from_millis(10)), Time::from_millis(2));
    let next = state.next_timer();
    assert!(next <= Time::from_millis(16));
    state.on_timer(next, &mut log);
    assert_eq!(state.next_timer(), next + Time::from_millis(16));
}

#[test]
fn marks_of_both_stages_are_one_event_and_count_twice() {
    let mut state = queue(json!({}));
    let mut log = Counters { internal: InternalLog::new(state.internal_queues()), ..Counters::default() };
    state.coupled.controller.set(MAX_PROB / 2, Time::from_millis(15));
    state.coupled.update(Time::from_millis(15));
    (0..5).for_each(|seq| state.enqueue(packet(2 * seq, Ecn::Ect1), Time::ZERO, &mut log));
    assert_eq!(served(&mut state, 5, Time::from_millis(2), &mut log), "LLLLL");
    // the last two find less than two frames: step only
    let counters = |name: &str| state.counters().into_iter().find(|(key, _)| key == name).unwrap().1;
    assert_eq!(log.queue.ce_marks, 5);
    assert_eq!((counters("step_marks"), counters("ecn_mark")), (5, 8));
    assert_eq!((counters("packets_in_l"), counters("packets_in_c"), counters("maxq")), (5, 0, 4));
}

#[test]
fn a_constant_delay_raises_the_probability_in_equal_steps() {
    let mut controller = controller(json!({}));
    for n in 0..1000_u32 {
        controller.update(Time::from_millis(20));
        // (44 * 5 + 879 * 20) ms / 64 at once, then 44 * 5 ms / 64 a period
        assert_eq!(controller.prob(), 278_125_000 + n * 3_437_500, "{n}");
    }
}

/// p' of a controller whose delay is `offered - gain * p'`, s, for `periods`; it was idle before.
fn closed_loop(config: Value, offered: f64, gain: f64, periods: usize) -> Vec<f64> {
    let mut controller = controller(config);
    (0..periods)
        .map(|_| {
            controller.update(Time(((offered - gain * controller.probability()) * 1e9).round() as u64));
            controller.probability()
        })
        .collect()
}

#[test]
fn in_a_linear_loop_the_controller_follows_the_closed_form() {
    // p_n = p_(n-1) + a (q_n - t) + b (q_n - q_(n-1)) with q_n = Q - G p_(n-1): p_n = (1 - (a + b) G) p_(n-1) + b G p_(n-2) + a (Q - t).
    // Its roots are those of x^2 - (1 - (a + b) G) x - b G, its rest is (Q - t) / G.
    let unit = 1e9 / f64::from(MAX_PROB);
    for (version, arithmetic, target, a, b) in [
        ("linux-6.17", "linux", 0.015, 44.0 / 64.0 * unit, 879.0 / 64.0 * unit),
        ("linux-6.17", "linux-127", 0.015, 44.0 / 127.0 * unit, 879.0 / 127.0 * unit),
        ("4e82fd8", "linux-127-terms", 0.015, 44.0 / 127.0 * unit, 879.0 / 127.0 * unit),
        ("linux-6.17", "linux-shift-terms", 0.015, 44.0 / 64.0 * unit, 879.0 / 64.0 * unit),
        ("tsfifo", "per-ns", 0.02, unit, 12.0 * unit),
        ("rfc9332", "real", 0.015, 0.15, 3.0),
    ] {
        let (offered, gain) = (0.04, 0.1);
        let rest = (offered - target) / gain;
        let (half, product) = ((1.0 - (a + b) * gain) / 2.0, b * gain);
        let root = (half * half + product).sqrt();
        let (x, y) = (half + root, half - root);
        // the first two by hand: from idle to Q, then the first answer of the loop
        let first = a * (offered - target) + b * offered;
        let second = first + a * (offered - gain * first - target) - b * gain * first;
        let (d1, d2) = (first - rest, second - rest);
        // d_n = c x^(n-1) + e y^(n-1)
        let c = (d2 - y * d1) / (x - y);
        let e = d1 - c;
        let got = closed_loop(json!({"version": version, "arithmetic": arithmetic}), offered, gain, 1500);
        for (n, p) in got.iter().enumerate() {
            let expected = rest + c * x.powi(n as i32) + e * y.powi(n as i32);
            assert!((p - expected).abs() < 2e-6, "{version} {arithmetic}, period {n}: {p}, not {expected}");
        }
        assert!((got[1499] - rest).abs() < 0.01 && (got[0] - rest).abs() > 0.05, "it moves, and settles at {rest}");
    }
}

#[test]
fn sums_of_probabilities_hit_when_they_pass_a_whole_number() {
    let hits = |p: f64, count: usize| {
        let mut recur = coupled::Recur::default();
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
fn rfc(config: Value, p: f64) -> State {
    let mut config = config;
    config["version"] = json!("rfc9332");
    let mut state = queue(config);
    let target = state.coupled.controller.target();
    state.coupled.controller.set((p * f64::from(MAX_PROB)) as u32, target);
    state.coupled.update(target);
    state
}

/// Marks and drops of 1000 packets of L of which each has waited for `us` and leaves another behind.
fn waited(mut state: State, us: u64) -> (u64, u64) {
    let mut log = Counters::default();
    state.enqueue(packet(0, Ecn::Ect1), Time::ZERO, &mut log);
    for seq in 1..=1000 {
        let now = Time::from_micros(us * seq);
        state.enqueue(packet(seq, Ecn::Ect1), now, &mut log);
        let _ = state.dequeue(now, &mut log);
    }
    (log.queue.ce_marks, log.queue.drops_aqm)
}

#[test]
fn the_ramp_of_the_rfc_rises_from_800_to_1200_us() {
    let of = |us| waited(rfc(json!({}), 0.0), us).0;
    assert_eq!([of(800), of(900), of(1000), of(1100)], [0, 249, 499, 749]);
    assert_eq!([of(1200), of(5000)], [999, 999]);
    // nothing remains behind: no native marks
    let mut state = rfc(json!({}), 0.0);
    let mut log = Counters::default();
    for seq in 0..100 {
        state.enqueue(packet(seq, Ecn::Ect1), Time::from_millis(5 * seq), &mut log);
        let _ = state.dequeue(Time::from_millis(5 * seq + 4), &mut log);
    }
    assert_eq!(log.queue.ce_marks, 0);
    // a ramp without width is a step
    assert_eq!(waited(rfc(json!({"ramp_range": 0}), 0.0), 801).0, 999);
    assert_eq!(waited(rfc(json!({"ramp_range": 0}), 0.0), 800).0, 0);
    // by chance, as many
    let (marks, _) = waited(rfc(json!({"marking": "random"}), 0.0), 1000);
    assert!((marks as f64 - 500.0).abs() < 5.0 * 250.0_f64.sqrt(), "{marks}");
}

#[test]
fn l_gets_the_larger_of_ramp_and_coupled_probability() {
    // k p' = 0.2: the ramp counts from 0.5 on, and is not added
    assert_eq!(waited(rfc(json!({}), 0.1), 500).0, 199);
    assert_eq!(waited(rfc(json!({}), 0.1), 840).0, 199, "a ramp of 0.1");
    assert_eq!(waited(rfc(json!({}), 0.1), 1000).0, 499);
}

#[test]
fn at_saturation_the_rfc_drops_from_both_queues() {
    // k p' = 1: L drops a quarter and marks the rest; without, it marks
    let (marks, drops) = waited(rfc(json!({}), 0.51), 100);
    assert!((drops as f64 - 260.0).abs() < 3.0, "{drops}");
    assert!((999..=1001).contains(&(marks + drops)), "{marks} {drops}");
    assert_eq!(waited(rfc(json!({}), 0.49), 100).1, 0);
    // C is marked by the square below, and dropped from 1 / k^2 on
    let classic = |p| {
        let mut state = rfc(json!({}), p);
        let mut log = Counters::default();
        for seq in 0..1000 {
            state.enqueue(packet(seq, Ecn::Ect0), Time::ZERO, &mut log);
            let _ = state.dequeue(Time::ZERO, &mut log);
        }
        (log.queue.ce_marks, log.queue.drops_aqm)
    };
    assert_eq!(classic(0.41), (168, 0));
    assert_eq!(classic(0.61), (0, 372));
}

/// Everything that happens to a mixed load of 20 Mbit/s over 10 Mbit/s for two seconds.
fn story(config: Value) -> Vec<(u64, Ecn, Time)> {
    let mut state = queue(config);
    let mut log = Counters::default();
    let mut sent = Vec::new();
    for seq in 0..4000_u64 {
        let now = Time::from_micros(500 * seq);
        while state.next_timer() <= now {
            let timer = state.next_timer();
            state.on_timer(timer, &mut log);
        }
        let ecn = [Ecn::Ect1, Ecn::NotEct, Ecn::Ect0][(seq % 3) as usize];
        state.enqueue(packet(seq, ecn), now, &mut log);
        if seq % 2 == 0 {
            if let Dequeue::Packet(packet) = state.dequeue(now, &mut log) {
                sent.push((packet.seq, packet.ecn, now));
            }
        }
    }
    sent
}

#[test]
fn a_version_is_nothing_but_the_default_of_its_keys() {
    let upstream = || json!({"version": "linux-6.17"});
    assert_eq!(story(json!({"version": "linux-5.10", "min_qlen_step": 0})), story(upstream()));
    let wrr = json!({"version": "tsfifo", "scheduler": "wrr-packets", "wrr_ratio": 16});
    assert_eq!(story(wrr), story(json!({"version": "wrr"})));
    let keys = json!({
        "version": "tsfifo", "target": 15 * MS, "tupdate": 16 * MS, "alpha": 41.0 / 256.0, "beta": 819.0 / 256.0, "arithmetic": "linux",
        "law": "linux", "min_qlen_step": 0, "ecn_mask": "l4s_ect", "scheduler": "credit", "step_thresh": 999_000,
    });
    // what is left is the clock of the step, which no key sets: 999 units of 1024 ns are 1.024 ms less 1 ns
    let late = json!({"version": "linux-6.17", "step_thresh": 1000 * 1024 - 1});
    assert_eq!(story(keys), story(late));
    for version in ["cbd8653", "0952823"] {
        assert_eq!(story(json!({"version": version})), story(json!({"version": "4e82fd8"})));
    }
    for version in ["linux-5.10", "tsfifo", "wrr", "wrrb", "4e82fd8", "rfc9332"] {
        assert_ne!(story(json!({"version": version})), story(upstream()), "{version}");
    }
}
