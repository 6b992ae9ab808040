//! Sections 5.3 and 5.4.

use super::*;

// ---- 5.3.1: Startup

#[test]
fn three_rounds_of_less_than_a_quarter_of_growth_fill_the_pipe() {
    let (mut state, _) = start_phase(BbrPhase::Startup);
    let mut round = |rate: f64, is_app_limited: bool| {
        state.round_start = true;
        state.check_full_bw_reached(&Rs { delivery_rate: rate, is_app_limited, ..rs() });
        (state.full_bw, state.full_bw_count, state.full_bw_reached)
    };
    assert_eq!(round(800.0, false), (800.0, 0, false));
    // 999.9 < 800 * 1.25 = 1000
    assert_eq!(round(999.9, false), (800.0, 1, false));
    assert_eq!(round(1_000.0, false), (1_000.0, 0, false));
    assert_eq!(round(1_249.0, false), (1_000.0, 1, false));
    // rounds of the application say nothing, nor do ACKs within a round
    assert_eq!(round(1_000.0, true), (1_000.0, 1, false));
    assert_eq!(round(1_000.0, false), (1_000.0, 2, false));
    assert_eq!(round(1_000.0, false), (1_000.0, 3, true));
    assert!(state.full_bw_now);
    let (mut within, _) = start_phase(BbrPhase::Startup);
    within.check_full_bw_reached(&rs());
    assert_eq!(within.full_bw, 0.0);
}

/// Startup in which `ranges` segments with others between them were lost within recovery, of which a round has passed if `full_round`; the ACK that
/// ends the round shows `of` lost among 100 in flight.
fn startup_with_losses(ranges: u64, of: u32, full_round: bool, ca: CaState) -> State {
    let (mut state, mut conn) = start_phase(BbrPhase::Startup);
    for n in 0..ranges {
        state.on_loss(&mut conn, &loss_event(1_000 + 2 * n, 1, 40));
    }
    // the ACK of what was sent when 1000 were delivered
    state.set_state(&mut conn, ca);
    conn.state = ca;
    if !full_round {
        state.recovery_delivered = 1_001;
    }
    conn.delivered = 1_040;
    state.cong_control(&mut conn, &RateSample { prior_delivered: 1_000, sample_lost: of, tx_in_flight: 100, ..ack() });
    state
}

#[test]
fn startup_ends_on_loss_if_all_three_signs_are_there() {
    let left = startup_with_losses(6, 3, true, CaState::Recovery);
    assert!(left.full_bw_reached && left.full_bw_now && left.undo.left == Some(BbrPhase::Startup));
    // max(BDP of 20, 20 delivered); Drain is over at once, for 20 are in flight; Down is not, which wants 15 % of headroom
    assert_eq!((left.inflight_longterm, left.state), (20, BbrPhase::Down));
    // 5 ranges; 2 of 100 lost are not more than 2 %; no full round in recovery; not in fast recovery
    for (ranges, of, full_round, ca) in [
        (5, 3, true, CaState::Recovery),
        (6, 2, true, CaState::Recovery),
        (6, 3, false, CaState::Recovery),
        (6, 3, true, CaState::Loss),
        (6, 3, true, CaState::Disorder),
    ] {
        let stayed = startup_with_losses(ranges, of, full_round, ca);
        assert_eq!((stayed.state, stayed.lost_ranges), (BbrPhase::Startup, 0), "{ranges} {of} {full_round} {ca:?}");
    }
}

#[test]
fn losses_side_by_side_are_one_range() {
    let (mut state, mut conn) = start_phase(BbrPhase::Startup);
    for seq in [1_000, 1_001, 1_002, 1_004, 1_007, 1_008] {
        state.on_loss(&mut conn, &loss_event(seq, 1, 40));
    }
    assert_eq!(state.lost_ranges, 3);
}

// ---- 5.3.2: Drain

#[test]
fn drain_ends_when_the_queue_is_empty_or_after_three_rounds() {
    // the BDP is 20; rounds 7 to 10 are within three of the start, round 11 is not
    for (in_flight, rounds, state_after) in
        [(21, 0, BbrPhase::Drain), (20, 0, BbrPhase::Down), (21, 3, BbrPhase::Drain), (21, 4, BbrPhase::Down)]
    {
        let (mut state, mut conn) = start_phase(BbrPhase::Drain);
        state.drain_start_round = 7;
        state.round_count = 7 + rounds;
        conn.snd_nxt = conn.snd_una + in_flight;
        state.check_drain_done(&conn);
        assert_eq!(state.state, state_after, "{in_flight} in flight, {rounds} rounds");
    }
    assert_eq!((start_phase(BbrPhase::Drain).0.pacing_gain(), start_phase(BbrPhase::Drain).0.cwnd_gain()), (0.5, 2.0));
    // below its short-term bound the rate is lower, and so is the BDP: 600 * 20 ms = 12
    let (mut slower, conn) = start_phase(BbrPhase::Drain);
    slower.bw = 600.0;
    slower.check_drain_done(&conn);
    assert_eq!(slower.state, BbrPhase::Drain);
}

// ---- 5.3.3: ProbeBW

#[test]
fn the_wait_is_two_to_three_seconds_and_at_most_a_round_shorter() {
    let (mut state, conn) = start_phase(BbrPhase::Up);
    let waits: Vec<(Time, u32)> = (0..1_000)
        .map(|_| {
            state.start_probe_bw_down(&conn);
            (state.bw_probe_wait, state.rounds_since_probe_up)
        })
        .collect();
    assert!(waits.iter().all(|wait| (Time::from_secs(2)..Time::from_secs(3)).contains(&wait.0)));
    let early = waits.iter().filter(|wait| wait.0 < Time::from_millis(2_500)).count();
    let ones = waits.iter().filter(|wait| wait.1 == 1).count();
    assert!((400..600).contains(&early) && (400..600).contains(&ones), "{early} {ones}");
    assert!(waits.iter().all(|wait| wait.1 <= 1));
    // another flow draws otherwise, the same flow the same
    let first = |flow| {
        let mut other = State::new(Params::default(), &CcContext { seed: 1, flow });
        other.start_probe_bw_down(&conn);
        other.bw_probe_wait
    };
    assert!(first(0) == first(0) && first(0) != first(1));
}

#[test]
fn it_probes_when_its_time_or_renos_has_come() {
    // (ms since DOWN, rounds, BDP, cwnd): waiting 2500 ms, strictly; min(BDP, cwnd, 63) rounds
    for (ms, rounds, bdp, cwnd, refill) in [
        (2_500, 0, 20.0, 40, false),
        (2_501, 0, 20.0, 40, true),
        (0, 19, 20.0, 40, false),
        (0, 20, 20.0, 40, true),
        (0, 20, 20.5, 40, false),
        (0, 21, 20.5, 40, true),
        (0, 10, 20.0, 10, true),
        (0, 62, 100.0, 200, false),
        (0, 63, 100.0, 200, true),
    ] {
        let (mut state, mut conn) = start_phase(BbrPhase::Cruise);
        state.bw = bdp * 50.0;
        (state.bw_shortterm, state.inflight_shortterm) = (500.0, 10);
        conn.now = state.cycle_stamp + Time::from_millis(ms);
        conn.cwnd = cwnd;
        state.rounds_since_probe_up = rounds;
        state.update_probe_bw_cycle_phase(&conn, &rs());
        assert_eq!(state.state == BbrPhase::Refill, refill, "{ms} ms, {rounds} rounds, BDP {bdp}, cwnd {cwnd}");
        // refilling forgets the short-term model
        assert_eq!(state.inflight_shortterm == UNBOUNDED && state.bw_shortterm == f64::INFINITY, refill);
    }
}

#[test]
fn down_ends_with_headroom_and_an_empty_queue() {
    // BDP 20; 0.85 * 22 = 18.7
    for (in_flight, longterm, cruises) in
        [(20, UNBOUNDED, true), (21, UNBOUNDED, false), (18, 22, true), (19, 22, false), (20, 40, true)]
    {
        let (mut state, mut conn) = start_phase(BbrPhase::Down);
        state.inflight_longterm = longterm;
        // Inflight(max_bw, 1.0), whatever the short-term bound
        state.bw = 500.0;
        conn.snd_nxt = conn.snd_una + in_flight;
        state.update_probe_bw_cycle_phase(&conn, &Rs { tx_in_flight: 0, ..rs() });
        assert_eq!(state.state == BbrPhase::Cruise, cruises, "{in_flight} in flight, bound {longterm}");
    }
    // its time has come before: straight to the next probe
    let (mut state, mut conn) = start_phase(BbrPhase::Down);
    conn.now += Time::from_millis(2_501);
    conn.snd_nxt = conn.snd_una + 30;
    state.update_probe_bw_cycle_phase(&conn, &rs());
    assert_eq!(state.state, BbrPhase::Refill);
}

#[test]
fn a_round_of_refill_comes_before_up() {
    let (mut state, conn) = start_phase(BbrPhase::Refill);
    state.update_probe_bw_cycle_phase(&conn, &rs());
    assert_eq!(state.state, BbrPhase::Refill);
    state.round_start = true;
    state.full_bw_now = true;
    state.update_probe_bw_cycle_phase(&conn, &rs());
    assert_eq!((state.state, state.ack_phase, state.is_bw_probe_sample), (BbrPhase::Up, AckPhase::ProbeStarting, true));
    // the search begins anew, from this rate; the first round's step is one segment a window
    assert_eq!(
        (state.full_bw, state.full_bw_now, state.probe_up_acked_per_inc, state.bw_probe_up_rounds),
        (1_000.0, false, 40.0, 1)
    );
    assert_eq!(state.next_round_delivered, conn.delivered);
}

#[test]
fn up_ends_on_a_plateau_or_early_out_of_caution() {
    // (full, too high before, bound, limited): (down, precautionary)
    for (full, too_high, longterm, limited, down, precautionary) in [
        (false, false, UNBOUNDED, true, false, false),
        (true, false, UNBOUNDED, true, true, false),
        (true, false, 40, true, false, false),
        (true, false, 40, false, true, false),
        (true, false, 41, true, true, false),
        (false, true, 20, false, true, true),
        (false, true, 21, false, false, false),
        (false, true, UNBOUNDED, true, false, false),
    ] {
        let (mut state, mut conn) = start_phase(BbrPhase::Up);
        (state.full_bw_now, state.prev_probe_too_high, state.inflight_longterm) = (full, too_high, longterm);
        (state.full_bw, state.full_bw_count) = (700.0, 2);
        conn.is_cwnd_limited = limited;
        state.probe_up_acked_per_inc = f64::INFINITY;
        state.update_probe_bw_cycle_phase(&conn, &rs());
        let case = (full, too_high, longterm, limited);
        assert_eq!((state.state == BbrPhase::Down, state.prev_probe_precautionary), (down, precautionary), "{case:?}");
        if down {
            assert!(!state.prev_probe_too_high, "{case:?}");
            assert_eq!((state.ack_phase, state.probe_up_acked_per_inc), (AckPhase::ProbeStopping, f64::INFINITY));
        }
        if limited && longterm == 40 {
            // the bound was the limit: the search begins anew
            assert_eq!((state.full_bw, state.full_bw_count, state.full_bw_now), (1_000.0, 0, false), "{case:?}");
        }
    }
}

#[test]
fn headroom_is_fifteen_percent_and_a_segment_at_least() {
    let (mut state, _) = start_phase(BbrPhase::Cruise);
    // 100 - 15, 20 - 3, 18 - 2.7, 7 - 1.05, 6 - 1, 5 - 1, then four segments
    for (longterm, left) in [(UNBOUNDED, UNBOUNDED), (100, 85), (20, 17), (18, 15), (7, 5), (6, 5), (5, 4), (4, 4), (0, 4)] {
        state.inflight_longterm = longterm;
        assert_eq!(state.inflight_with_headroom(), left, "{longterm}");
    }
}

#[test]
fn the_step_of_the_long_term_bound_doubles_each_round() {
    let (mut state, mut conn) = start_phase(BbrPhase::Refill);
    conn.cwnd = 37;
    state.round_start = true;
    state.update_probe_bw_cycle_phase(&conn, &rs());
    let mut steps = vec![state.probe_up_acked_per_inc];
    state.inflight_longterm = 37;
    for _ in 0..6 {
        // 0 segments: only the round counts
        state.update_probe_bw_cycle_phase(&conn, &Rs { newly_acked: 0, ..rs() });
        steps.push(state.probe_up_acked_per_inc);
    }
    // 37 / 2^n, one segment at least
    assert_eq!(steps, [37.0, 18.5, 9.25, 4.625, 2.3125, 1.15625, 1.0]);
    state.bw_probe_up_rounds = 30;
    state.update_probe_bw_cycle_phase(&conn, &Rs { newly_acked: 0, ..rs() });
    assert_eq!((state.bw_probe_up_rounds, state.probe_up_acked_per_inc), (30, 1.0));
}

#[test]
fn the_long_term_bound_rises_by_what_is_acknowledged_while_it_is_the_limit() {
    let (mut state, mut conn) = start_phase(BbrPhase::Up);
    (state.inflight_longterm, state.probe_up_acked_per_inc) = (40, 4.5);
    let mut acked = |newly_acked: u32, cwnd: u32, limited: bool| {
        (conn.cwnd, conn.is_cwnd_limited) = (cwnd, limited);
        state.update_probe_bw_cycle_phase(&conn, &Rs { newly_acked, ..rs() });
        (state.inflight_longterm, state.bw_probe_up_acked)
    };
    assert_eq!(acked(2, 40, true), (40, 2.0));
    // neither without the window as the limit, nor with a window below the bound
    assert_eq!(acked(2, 40, false), (40, 2.0));
    assert_eq!(acked(2, 39, true), (40, 2.0));
    // 2 + 12 = 3 * 4.5 + 0.5
    assert_eq!(acked(12, 40, true), (43, 0.5));
    // what was delivered with more in flight raises it at once, unless too much was lost: 1 of 60 is less than 2 %, 2 are more
    for (lost, after) in [(2, 40), (1, 60)] {
        let (mut raised, other) = start_phase(BbrPhase::Cruise);
        raised.inflight_longterm = 40;
        raised.update_probe_bw_cycle_phase(&other, &Rs { tx_in_flight: 60, lost, ..rs() });
        assert_eq!(raised.inflight_longterm, after);
    }
}

#[test]
fn the_round_after_up_ends_the_probe() {
    // (state, application-limited, precautionary, too high): (cycle counted, refills at once)
    for (phase, app, precautionary, too_high, counted, refills) in [
        (BbrPhase::Down, false, false, false, true, false),
        (BbrPhase::Down, true, false, false, false, false),
        (BbrPhase::Down, false, true, false, true, true),
        (BbrPhase::Down, true, true, false, false, true),
        (BbrPhase::Down, false, true, true, true, false),
        (BbrPhase::ProbeRtt, false, true, false, false, false),
    ] {
        let (mut state, mut conn) = start_phase(phase);
        (state.ack_phase, state.round_start, state.is_bw_probe_sample) = (AckPhase::ProbeStopping, true, true);
        (state.prev_probe_precautionary, state.prev_probe_too_high) = (precautionary, too_high);
        conn.snd_nxt = conn.snd_una + 30;
        state.update_probe_bw_cycle_phase(&conn, &Rs { is_app_limited: app, ..rs() });
        let case = (phase, app, precautionary, too_high);
        assert!(!state.is_bw_probe_sample, "{case:?}");
        // the sample of the last cycle counts for one more
        let largest = state.max_bw_filter.clone();
        assert_eq!(largest.clone().update(1.0), 1_000.0, "{case:?}");
        let mut later = largest;
        later.advance();
        assert_eq!(later.update(1.0), if counted { 1.0 } else { 1_000.0 }, "{case:?}");
        assert_eq!(state.state == BbrPhase::Refill, refills, "{case:?}");
    }
}

// ---- 5.3.4: ProbeRTT

#[test]
fn the_minimum_is_kept_for_ten_seconds_and_looked_for_after_five() {
    let (mut state, mut conn) = start_phase(BbrPhase::Cruise);
    let start = conn.now;
    let mut sample = |ms: u64, rtt_us: Option<u32>| {
        conn.now = start + Time::from_millis(ms);
        state.update_min_rtt(&conn, &Rs { rtt_us, ..rs() });
        (state.probe_rtt_min_delay, state.min_rtt, state.probe_rtt_expired)
    };
    // an equal RTT is no new minimum
    assert_eq!(sample(100, Some(20_000)), (20_000.0, 20_000.0, false));
    assert_eq!(sample(200, Some(19_000)), (19_000.0, 19_000.0, false));
    assert_eq!(sample(5_200, Some(25_000)), (19_000.0, 19_000.0, false));
    // expired after 5.2 s; the 10 s are not over
    assert_eq!(sample(5_201, None), (19_000.0, 19_000.0, true));
    assert_eq!(sample(5_202, Some(25_000)), (25_000.0, 19_000.0, true));
    assert_eq!(sample(10_200, Some(26_000)), (25_000.0, 19_000.0, false));
    assert_eq!(sample(10_201, Some(26_000)), (25_000.0, 25_000.0, false));
}

#[test]
fn probe_rtt_takes_two_hundred_milliseconds_and_a_round() {
    let (mut state, mut conn) = start_phase(BbrPhase::Cruise);
    conn.now += Time::from_millis(5_001);
    state.cong_control(&mut conn, &ack());
    // half of the BDP; its samples are not the path's
    assert_eq!((state.state, conn.cwnd, state.cwnd_gain(), conn.holds_back), (BbrPhase::ProbeRtt, 10, 0.5, true));
    assert_eq!((state.prior_cwnd, state.probe_rtt_done_stamp), (40, None));
    let mut later = |ms: u64, in_flight: u64, round: bool| {
        conn.now += Time::from_millis(ms);
        conn.delivered += 2;
        conn.snd_una += 2;
        conn.snd_nxt = conn.snd_una + in_flight;
        let prior_delivered = if round { conn.delivered - 2 } else { 0 };
        if round {
            state.next_round_delivered = prior_delivered;
        }
        state.cong_control(&mut conn, &RateSample { prior_delivered, ..ack() });
        (state.state, conn.cwnd, state.probe_rtt_done_stamp.is_some())
    };
    assert_eq!(later(10, 11, false), (BbrPhase::ProbeRtt, 10, false));
    assert_eq!(later(10, 10, false), (BbrPhase::ProbeRtt, 10, true));
    // time alone is not enough, nor a round; 200 ms strictly
    assert_eq!(later(150, 10, false), (BbrPhase::ProbeRtt, 10, true));
    assert_eq!(later(50, 10, true), (BbrPhase::ProbeRtt, 10, true));
    // the window of before, and 2 more acknowledged: as many are aggregated
    assert_eq!(later(1, 10, false), (BbrPhase::Cruise, 42, true));
    assert_eq!((state.probe_rtt_min_stamp, state.cycle_stamp), (conn.now, conn.now));
}

#[test]
fn probe_rtt_ends_in_startup_if_the_pipe_was_never_full() {
    let (mut state, mut conn) = start_phase(BbrPhase::ProbeRtt);
    state.full_bw_reached = false;
    (state.bw_shortterm, state.inflight_shortterm) = (500.0, 9);
    state.probe_rtt_done_stamp = Some(conn.now - Time(1));
    state.probe_rtt_round_done = true;
    state.check_probe_rtt(&mut conn, &rs());
    assert_eq!((state.state, state.bw_shortterm, state.inflight_shortterm), (BbrPhase::Startup, f64::INFINITY, UNBOUNDED));
}

// ---- 5.4: idleness

#[test]
fn after_idleness_it_paces_at_its_bandwidth_and_skips_probe_rtt() {
    let (mut state, mut conn) = start_phase(BbrPhase::Down);
    conn.pacing_rate = 9_999_999;
    conn.now += Time::from_secs(6);
    state.cwnd_event(&mut conn, CaEvent::TxStart { idle: Time::from_secs(5), app_limited: false });
    assert!(!state.idle_restart, "pacing alone held it");
    state.cwnd_event(&mut conn, CaEvent::TxStart { idle: Time::from_secs(5), app_limited: true });
    // 1000 * 1448 * 0.99
    assert_eq!((state.idle_restart, conn.pacing_rate, state.extra_acked_interval_start), (true, 1_433_520, conn.now));
    // the first ACK finds the minimum expired, and is enough to end the restart
    state.cong_control(&mut conn, &ack());
    assert!(state.probe_rtt_expired && state.state != BbrPhase::ProbeRtt && !state.idle_restart);
    // in Startup the rate stays
    let mut start = start_phase(BbrPhase::Startup).0;
    conn.pacing_rate = 9_999_999;
    start.cwnd_event(&mut conn, CaEvent::TxStart { idle: Time::from_secs(5), app_limited: true });
    assert_eq!((start.idle_restart, conn.pacing_rate), (true, 9_999_999));
}

#[test]
fn idleness_may_end_probe_rtt() {
    for (since, after, cwnd) in [(Time::ZERO, BbrPhase::ProbeRtt, 10), (Time(1), BbrPhase::Cruise, 33)] {
        let (mut state, mut conn) = start_phase(BbrPhase::ProbeRtt);
        (conn.cwnd, state.prior_cwnd) = (10, 33);
        state.probe_rtt_done_stamp = Some(conn.now - since);
        state.cwnd_event(&mut conn, CaEvent::TxStart { idle: Time::from_secs(1), app_limited: true });
        assert_eq!((state.state, conn.cwnd), (after, cwnd));
    }
}
