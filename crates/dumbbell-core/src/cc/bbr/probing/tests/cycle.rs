//! The cycle, ACK by ACK.

use super::*;

/// A connection of 17 segments per round trip that cruises, with 1.2 Mbit/s of pacing and room in its window.
fn cruising<V: BbrVersion>(mut machine: Machine<V>) -> (Machine<V>, Conn) {
    machine.full_bw.reached = true;
    machine.next_round = 0;
    machine.phase = in_state(BbrState::Cruise);
    machine.pacing_gain = UNIT;
    machine.phase.wait().until = 1 << 40;
    let conn = Conn { cwnd: 34, pacing_rate: 1_183_576, delivered: 1000, now: Instant::from_millis(100), ..conn() };
    (machine, conn)
}

/// An ACK of two segments that were sent when `prior_delivered` had been delivered, without losses or marks, at the estimated rate.
fn ack_of(prior_delivered: u64) -> RateSample {
    RateSample {
        ack_delivered: 2,
        sample_delivered: Some(16),
        interval_us: Some(19_379),
        prior_delivered,
        prior_in_flight: 17,
        tx_in_flight: 17,
        rtt_us: Some(20_003),
        ..RateSample::default()
    }
}

#[test]
fn a_cycle_of_v2_goes_through_its_four_states() {
    let (mut two, mut conn) = cruising(v2());
    two.last_probe.too_high = true;
    two.bounds.inflight_hi = 40;
    (two.bounds.inflight_lo, two.bounds.bw_lo) = (20, BbrRate(9_000));
    // the bounded rate has 11 segments in flight, which ask for 11 rounds, and this ACK begins the 11th
    two.phase.wait().rounds = 10;
    two.cong_control(&mut conn, &ack_of(0));
    assert_eq!((two.phase.state(), two.bounds.inflight_lo, two.bounds.bw_lo), (BbrState::Refill, UNSET, BbrRate::UNSET));
    assert!(!two.probe_samples);
    let refill = conn.delivered;
    // ACKs of what was sent before it do not end the round
    conn.delivered += 2;
    two.cong_control(&mut conn, &ack_of(refill - 2));
    assert_eq!(two.phase.state(), BbrState::Refill);
    conn.delivered += 16;
    two.cong_control(&mut conn, &ack_of(refill));
    assert_eq!((two.phase.state(), two.probe_samples, two.pacing_gain), (BbrState::Up, true, 320));
    // a round trip and a queue of a quarter: 21, and 2 in UP, the next burst of two included
    conn.now += Duration::from_micros(20_000);
    two.cong_control(&mut conn, &RateSample { prior_in_flight: 30, ..ack_of(refill) });
    assert_eq!(two.phase.state(), BbrState::Up, "not longer than a round trip");
    conn.now += Duration::from_micros(1);
    two.cong_control(&mut conn, &RateSample { prior_in_flight: 20, ..ack_of(refill) });
    assert_eq!(two.phase.state(), BbrState::Up, "22 are less than 23");
    two.cong_control(&mut conn, &RateSample { prior_in_flight: 21, ..ack_of(refill) });
    assert_eq!((two.phase.state(), two.pacing_gain, two.last_probe.too_high), (BbrState::Down, 192, false));
    assert!(two.probe_samples, "what was sent while it probed may still be lost");
    // DOWN lasts until no queue is left, and the headroom is free: 18 of 40 would do, 17 of 18 is more than 16
    let down = conn.delivered;
    conn.delivered += 2;
    two.cong_control(&mut conn, &RateSample { prior_in_flight: 18, ..ack_of(down - 2) });
    assert_eq!(two.phase.state(), BbrState::Down);
    let mut narrow = two.clone();
    narrow.bounds.inflight_hi = 18;
    narrow.cong_control(&mut conn.clone(), &ack_of(down - 2));
    assert_eq!(narrow.phase.state(), BbrState::Down);
    two.bounds.inflight_lo = 50;
    two.cong_control(&mut conn, &ack_of(down - 2));
    assert_eq!(
        (two.phase.state(), two.bounds.inflight_lo),
        (BbrState::Cruise, 40),
        "the short-term bound is within the long-term one"
    );
    assert_eq!(conn.cwnd, 35, "as far as the headroom lets it: 40 - 5");
    two.bounds.inflight_hi = 20;
    two.cong_control(&mut conn, &ack_of(down - 2));
    assert_eq!(conn.cwnd, 18, "20 less 15 %");
}

#[test]
fn v3_probes_until_the_rate_grows_no_more() {
    let (mut three, mut conn) = cruising(v3());
    three.start_refill(&conn, 0);
    let at_refill = conn.delivered;
    conn.delivered += 16;
    three.cong_control(&mut conn, &ack_of(at_refill));
    assert_eq!((three.phase.state(), three.full_bw.bw, three.full_bw.now), (BbrState::Up, BbrRate(13_852), false));
    for round in 1..=3 {
        let sent = conn.delivered;
        conn.delivered += 16;
        three.cong_control(&mut conn, &ack_of(sent));
        assert_eq!(three.phase.state(), if round < 3 { BbrState::Up } else { BbrState::Down }, "round {round}");
    }
    // a window that its bound limits cannot show growth: the search begins again
    let (mut bound, mut limited) = cruising(v3());
    bound.start_refill(&limited, 0);
    let first = limited.delivered;
    limited.delivered += 16;
    bound.cong_control(&mut limited, &ack_of(first));
    bound.bounds.inflight_hi = 20;
    for _ in 0..6 {
        let sent = limited.delivered;
        limited.delivered += 16;
        limited.cwnd = bound.bounds.inflight_hi + 50;
        bound.cong_control(&mut limited, &ack_of(sent));
        assert_eq!((bound.phase.state(), bound.full_bw.rounds), (BbrState::Up, 0));
    }
    assert!(bound.bounds.inflight_hi > 20);
}

#[test]
fn the_largest_rate_is_of_two_cycles() {
    let (mut two, mut conn) = cruising(v2());
    two.bw_hi = [BbrRate(20_000), BbrRate(13_852)];
    two.phase = in_state(BbrState::Up);
    two.start_down(&conn);
    let down = conn.delivered;
    conn.delivered += 16;
    two.cong_control(&mut conn, &ack_of(down));
    assert_eq!((two.bw_hi, two.max_bw()), ([BbrRate(13_852), BbrRate(0)], BbrRate(13_852)));
    // not while the application is the limit
    let (mut paused, mut quiet) = cruising(v2());
    paused.bw_hi = [BbrRate(20_000), BbrRate(13_852)];
    paused.phase = in_state(BbrState::Up);
    paused.start_down(&quiet);
    let before = quiet.delivered;
    quiet.delivered += 16;
    paused.cong_control(&mut quiet, &RateSample { is_app_limited: true, ..ack_of(before) });
    assert_eq!(paused.bw_hi, [BbrRate(20_000), BbrRate(13_852)]);
}

#[test]
fn a_probe_that_stopped_out_of_caution_and_found_nothing_goes_on() {
    for (too_high, mode) in [(false, BbrState::Refill), (true, BbrState::Cruise)] {
        let (mut two, mut conn) = cruising(v2());
        two.phase = in_state(BbrState::Up);
        two.start_down(&conn);
        two.bounds.inflight_hi = 40;
        (two.last_probe.precautionary, two.last_probe.too_high) = (true, too_high);
        let down = conn.delivered;
        conn.delivered += 16;
        two.cong_control(&mut conn, &ack_of(down));
        assert_eq!(two.phase.state(), mode);
    }
    // it stops where the last one was too high
    let (mut two, conn) = cruising(v2());
    two.phase = in_state(BbrState::Up);
    (two.bounds.inflight_hi, two.last_probe.too_high) = (40, true);
    assert!(!V2::up_is_over(&mut two, &conn, 39, BbrRate(13_852)) && !two.last_probe.precautionary);
    assert!(V2::up_is_over(&mut two, &conn, 40, BbrRate(13_852)) && two.last_probe.precautionary);
}

#[test]
fn the_upper_bound_follows_what_was_in_flight_without_harm() {
    let (mut two, mut conn) = cruising(v2());
    two.bounds.inflight_hi = 20;
    two.cong_control(&mut conn, &RateSample { tx_in_flight: 25, ..ack_of(0) });
    assert_eq!(two.bounds.inflight_hi, 25);
    // 3 of 30 lost: too many, but there was no probe
    two.cong_control(&mut conn, &RateSample { tx_in_flight: 30, sample_lost: 3, ..ack_of(0) });
    assert_eq!(two.bounds.inflight_hi, 25);
    two.probe_samples = true;
    two.cong_control(&mut conn, &RateSample { tx_in_flight: 22, sample_lost: 3, ..ack_of(0) });
    assert_eq!((two.bounds.inflight_hi, two.probe_samples, two.last_probe.too_high), (22, false, true));
}

#[test]
fn the_upper_bound_rises_by_whole_steps_and_keeps_the_rest() {
    let (mut two, mut three) = (v2(), v3());
    let limited = Conn { cwnd: 40, ..conn() };
    let free = Conn { is_cwnd_limited: false, ..limited.clone() };
    (two.bounds.inflight_hi, three.bounds.inflight_hi) = (30, 30);
    (two.phase, three.phase) = (in_state(BbrState::Up), in_state(BbrState::Up));
    (two.phase.climb().cnt, three.phase.climb().cnt) = (10, 10);
    two.probe_upward(&limited, 25);
    assert_eq!((two.bounds.inflight_hi, two.phase.climb().acks), (32, 5));
    two.probe_upward(&limited, 5);
    assert_eq!((two.bounds.inflight_hi, two.phase.climb().acks), (33, 0));
    // ACKs that do not count break the series for v2 only
    two.probe_upward(&limited, 7);
    two.probe_upward(&free, 2);
    three.probe_upward(&limited, 7);
    three.probe_upward(&free, 2);
    assert_eq!((two.phase.climb().acks, three.phase.climb().acks), (0, 7));
    two.round_start = true;
    two.probe_upward(&limited, 1);
    assert_eq!(two.phase.climb().cnt, 40, "a new round, another step");
}

#[test]
fn waits_are_drawn_and_a_cycle_forgets_the_congestion_of_the_last() {
    let mut two = v2();
    let mut rounds = [0; 2];
    for _ in 0..100 {
        (two.losses.in_round, two.losses.in_cycle, two.marks.in_round, two.marks.in_cycle) = (true, true, true, true);
        (two.latest.bw, two.latest.inflight) = (BbrRate(1), 1);
        two.phase = in_state(BbrState::Up);
        two.start_down(&conn());
        let wait = two.phase.wait();
        rounds[wait.rounds as usize] += 1;
        assert!((2_000_000..3_000_000).contains(&wait.until));
        assert!(!two.losses.in_round && !two.losses.in_cycle && !two.marks.in_round && !two.marks.in_cycle);
        assert_eq!((two.latest.bw, two.latest.inflight), (BbrRate(0), 0));
    }
    assert!(rounds[0] > 20 && rounds[1] > 20, "{rounds:?}");
}

#[test]
fn a_round_of_losses_begins_with_the_first() {
    let mut two = v2();
    let loss = |delivered| {
        (
            Conn { delivered, ..conn() },
            LossEvent { seq: 0, tx_in_flight: 20, lost: 1, is_app_limited: false, sent: Instant::ZERO },
        )
    };
    for (delivered, begun) in [(50, 50), (60, 50)] {
        let (mut conn, event) = loss(delivered);
        two.on_loss(&mut conn, &event);
        assert_eq!(two.losses.round_delivered, begun);
    }
}

#[test]
fn a_cycle_remembers_losses_and_marks() {
    let (mut two, mut conn) = cruising(v2());
    two.cong_control(&mut conn, &ack_of(0));
    assert!(!two.losses.in_cycle && !two.marks.in_cycle);
    two.cong_control(&mut conn, &RateSample { sample_lost: 1, ..ack_of(0) });
    assert!(two.losses.in_cycle && !two.marks.in_cycle);
    two.cong_control(&mut conn, &RateSample { sample_marked: 1, ..ack_of(0) });
    assert!(two.marks.in_cycle);
}

#[test]
fn a_doubtful_ack_of_a_probe_leaves_the_latest_signals() {
    for (doubtful, latest) in [(false, 16), (true, 30)] {
        let (mut three, mut conn) = cruising(v3());
        three.losses.round_delivered = 0;
        three.latest.inflight = 30;
        three.cong_control(&mut conn, &RateSample { acks_probe: doubtful, ..ack_of(0) });
        assert_eq!(three.latest.inflight, latest);
    }
}

#[test]
fn before_the_pipe_is_full_the_window_grows_to_twice_the_initial_one_at_least() {
    // 12 of a target of 8: 2.89 times the product of 2.6, with bursts
    let mut two = v2();
    two.cwnd_gain = 739;
    let mut young = Conn { cwnd: 12, pacing_rate: 1_183_576, ..conn() };
    two.set_cwnd(&mut young, 2, BbrRate(2_200));
    assert_eq!((young.cwnd, two.try_fast_path), (14, false));
    young.cwnd = 20;
    two.set_cwnd(&mut young, 2, BbrRate(2_200));
    assert_eq!((young.cwnd, two.try_fast_path), (20, true));
}

#[test]
fn an_application_that_is_the_limit_needs_no_model_while_the_window_is_at_its_target() {
    let (mut two, mut conn) = cruising(v2());
    let slow = RateSample { is_app_limited: true, sample_delivered: Some(2), ..ack_of(1000) };
    conn.cwnd = 20;
    // it has to grow first
    two.cong_control(&mut conn, &slow);
    assert_eq!((conn.cwnd, two.try_fast_path), (22, false));
    assert_eq!(two.aggregation.extra(), 2, "the model is kept");
    two.cong_control(&mut conn, &slow);
    assert_eq!(conn.cwnd, 24);
    two.try_fast_path = true;
    two.cong_control(&mut conn, &slow);
    assert_eq!(conn.cwnd, 24, "left alone");
}
