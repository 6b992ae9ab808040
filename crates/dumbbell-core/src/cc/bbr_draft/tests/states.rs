//! Sections 5.3 and 5.4.

use super::*;
use crate::cc::bbr::phase::RttProbe;

// ---- 5.3.1: Startup

#[test]
fn three_rounds_of_less_than_a_quarter_of_growth_fill_the_pipe() {
    let (mut state, _) = start_phase(BbrState::Startup);
    let mut round = |rate: f64, is_app_limited: bool| {
        state.round.start = true;
        state.check_full_bw_reached(&Rs { delivery_rate: BbrRate(rate), is_app_limited, ..rs() });
        (state.full_bw.bw.0, state.full_bw.rounds, state.full_bw.reached)
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
    assert!(state.full_bw.now);
    let (mut within, _) = start_phase(BbrState::Startup);
    within.check_full_bw_reached(&rs());
    assert_eq!(within.full_bw.bw, BbrRate::ZERO);
}

/// Startup in which `ranges` segments with others between them were lost within recovery, of which a round has passed if `full_round`; the ACK that
/// ends the round shows `of` lost among 100 in flight.
fn startup_with_losses(ranges: u64, of: u32, full_round: bool, ca: CaState) -> State {
    let (mut state, mut conn) = start_phase(BbrState::Startup);
    for n in 0..ranges {
        state.on_loss(&mut conn, &loss_event(1_000 + 2 * n, 1, 40));
    }
    // the ACK of what was sent when 1000 were delivered
    state.set_state(&mut conn, ca);
    conn.state = ca;
    if !full_round {
        state.loss_round.recovery_delivered = 1_001;
    }
    conn.delivered = 1_040;
    state.cong_control(&mut conn, &RateSample { prior_delivered: 1_000, sample_lost: of, tx_in_flight: 100, ..ack() });
    state
}

#[test]
fn startup_ends_on_loss_if_all_three_signs_are_there() {
    let left = startup_with_losses(6, 3, true, CaState::Recovery);
    assert!(left.full_bw.reached && left.full_bw.now && left.undo.saved.left == Some(BbrState::Startup));
    // max(BDP of 20, 20 delivered); Drain is over at once, for 20 are in flight; Down is not, which wants 15 % of headroom
    assert_eq!((left.inflight.longterm, left.phase.state()), (20, BbrState::Down));
    // 5 ranges; 2 of 100 lost are not more than 2 %; no full round in recovery; not in fast recovery
    for (ranges, of, full_round, ca) in [
        (5, 3, true, CaState::Recovery),
        (6, 2, true, CaState::Recovery),
        (6, 3, false, CaState::Recovery),
        (6, 3, true, CaState::Loss),
        (6, 3, true, CaState::Disorder),
    ] {
        let stayed = startup_with_losses(ranges, of, full_round, ca);
        assert_eq!((stayed.phase.state(), stayed.loss_round.ranges), (BbrState::Startup, 0), "{ranges} {of} {full_round} {ca:?}");
    }
}

#[test]
fn losses_side_by_side_are_one_range() {
    let (mut state, mut conn) = start_phase(BbrState::Startup);
    for seq in [1_000, 1_001, 1_002, 1_004, 1_007, 1_008] {
        state.on_loss(&mut conn, &loss_event(seq, 1, 40));
    }
    assert_eq!(state.loss_round.ranges, 3);
}

// ---- 5.3.2: Drain

#[test]
fn drain_ends_when_the_queue_is_empty_or_after_three_rounds() {
    // the BDP is 20; rounds 7 to 10 are within three of the start, round 11 is not
    for (in_flight, rounds, state_after) in
        [(21, 0, BbrState::Drain), (20, 0, BbrState::Down), (21, 3, BbrState::Drain), (21, 4, BbrState::Down)]
    {
        let (mut state, mut conn) = start_phase(BbrState::Drain);
        state.phase = BbrPhase::Drain { start_round: 7 };
        state.round.count = 7 + rounds;
        conn.snd_nxt = conn.snd_una + in_flight;
        state.check_drain_done(&conn);
        assert_eq!(state.phase.state(), state_after, "{in_flight} in flight, {rounds} rounds");
    }
    assert_eq!((start_phase(BbrState::Drain).0.pacing_gain(), start_phase(BbrState::Drain).0.cwnd_gain()), (0.5, 2.0));
    // below its short-term bound the rate is lower, and so is the BDP: 600 * 20 ms = 12
    let (mut slower, conn) = start_phase(BbrState::Drain);
    slower.bw.estimate = BbrRate(600.0);
    slower.check_drain_done(&conn);
    assert_eq!(slower.phase.state(), BbrState::Drain);
}

// ---- 5.3.3: ProbeBW

#[test]
fn the_wait_is_two_to_three_seconds_and_at_most_a_round_shorter() {
    let (mut state, conn) = start_phase(BbrState::Up);
    let waits: Vec<(Duration, u32)> = (0..1_000)
        .map(|_| {
            state.phase = in_state(BbrState::Up, &conn);
            state.start_probe_bw_down(&conn);
            (state.phase.wait().until - conn.now, state.phase.wait().rounds)
        })
        .collect();
    assert!(waits.iter().all(|wait| (Duration::from_secs(2)..Duration::from_secs(3)).contains(&wait.0)));
    let early = waits.iter().filter(|wait| wait.0 < Duration::from_millis(2_500)).count();
    let ones = waits.iter().filter(|wait| wait.1 == 1).count();
    assert!((400..600).contains(&early) && (400..600).contains(&ones), "{early} {ones}");
    assert!(waits.iter().all(|wait| wait.1 <= 1));
    // another flow draws otherwise, the same flow the same
    let first = |flow| {
        let mut other = State::new(Params::default(), &CcContext { seed: 1, flow });
        other.phase = in_state(BbrState::Up, &conn);
        other.start_probe_bw_down(&conn);
        other.phase.wait().until
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
        let (mut state, mut conn) = start_phase(BbrState::Cruise);
        state.bw.estimate = BbrRate(bdp * 50.0);
        (state.bw.shortterm, state.inflight.shortterm) = (BbrRate(500.0), 10);
        conn.now += Duration::from_millis(ms);
        conn.cwnd = cwnd;
        state.phase.wait().rounds = rounds;
        state.update_probe_bw_cycle_phase(&conn, &rs());
        assert_eq!(state.phase.state() == BbrState::Refill, refill, "{ms} ms, {rounds} rounds, BDP {bdp}, cwnd {cwnd}");
        // refilling forgets the short-term model
        assert_eq!(state.inflight.shortterm == UNBOUNDED && state.bw.shortterm == BbrRate::INFINITE, refill);
    }
}

#[test]
fn down_ends_with_headroom_and_an_empty_queue() {
    // BDP 20; 0.85 * 22 = 18.7
    for (in_flight, longterm, cruises) in
        [(20, UNBOUNDED, true), (21, UNBOUNDED, false), (18, 22, true), (19, 22, false), (20, 40, true)]
    {
        let (mut state, mut conn) = start_phase(BbrState::Down);
        state.inflight.longterm = longterm;
        // Inflight(max_bw, 1.0), whatever the short-term bound
        state.bw.estimate = BbrRate(500.0);
        conn.snd_nxt = conn.snd_una + in_flight;
        state.update_probe_bw_cycle_phase(&conn, &Rs { tx_in_flight: 0, ..rs() });
        assert_eq!(state.phase.state() == BbrState::Cruise, cruises, "{in_flight} in flight, bound {longterm}");
    }
    // its time has come before: straight to the next probe
    let (mut state, mut conn) = start_phase(BbrState::Down);
    conn.now += Duration::from_millis(2_501);
    conn.snd_nxt = conn.snd_una + 30;
    state.update_probe_bw_cycle_phase(&conn, &rs());
    assert_eq!(state.phase.state(), BbrState::Refill);
}

#[test]
fn a_round_of_refill_comes_before_up() {
    let (mut state, conn) = start_phase(BbrState::Refill);
    state.update_probe_bw_cycle_phase(&conn, &rs());
    assert_eq!(state.phase.state(), BbrState::Refill);
    state.round.start = true;
    state.full_bw.now = true;
    state.update_probe_bw_cycle_phase(&conn, &rs());
    assert_eq!((state.phase.state(), state.ack_phase, state.is_bw_probe_sample), (BbrState::Up, AckPhase::ProbeStarting, true));
    // the search begins again, from this rate; the first round's step is one segment a window
    assert_eq!(
        (state.full_bw.bw.0, state.full_bw.now, state.phase.climb().acked_per_inc, state.phase.climb().rounds),
        (1_000.0, false, 40.0, 1)
    );
    assert_eq!(state.round.next_delivered, conn.delivered);
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
        let (mut state, mut conn) = start_phase(BbrState::Up);
        (state.full_bw.now, state.last_probe.too_high, state.inflight.longterm) = (full, too_high, longterm);
        (state.full_bw.bw, state.full_bw.rounds) = (BbrRate(700.0), 2);
        conn.is_cwnd_limited = limited;
        state.update_probe_bw_cycle_phase(&conn, &rs());
        let case = (full, too_high, longterm, limited);
        assert_eq!((state.phase.state() == BbrState::Down, state.last_probe.precautionary), (down, precautionary), "{case:?}");
        if down {
            assert!(!state.last_probe.too_high, "{case:?}");
            assert_eq!(state.ack_phase, AckPhase::ProbeStopping);
        }
        if limited && longterm == 40 {
            // the bound was the limit: the search begins again
            assert_eq!((state.full_bw.bw, state.full_bw.rounds, state.full_bw.now), (BbrRate(1_000.0), 0, false), "{case:?}");
        }
    }
}

#[test]
fn headroom_is_fifteen_percent_and_a_segment_at_least() {
    let (mut state, _) = start_phase(BbrState::Cruise);
    // 100 - 15, 20 - 3, 18 - 2.7, 7 - 1.05, 6 - 1, 5 - 1, then four segments
    for (longterm, left) in [(UNBOUNDED, UNBOUNDED), (100, 85), (20, 17), (18, 15), (7, 5), (6, 5), (5, 4), (4, 4), (0, 4)] {
        state.inflight.longterm = longterm;
        assert_eq!(state.inflight_with_headroom(), left, "{longterm}");
    }
}

#[test]
fn the_step_of_the_long_term_bound_doubles_each_round() {
    let (mut state, mut conn) = start_phase(BbrState::Refill);
    conn.cwnd = 37;
    state.round.start = true;
    state.update_probe_bw_cycle_phase(&conn, &rs());
    let mut steps = vec![state.phase.climb().acked_per_inc];
    state.inflight.longterm = 37;
    for _ in 0..6 {
        // 0 segments: only the round counts
        state.update_probe_bw_cycle_phase(&conn, &Rs { newly_acked: 0, ..rs() });
        steps.push(state.phase.climb().acked_per_inc);
    }
    // 37 / 2^n, one segment at least
    assert_eq!(steps, [37.0, 18.5, 9.25, 4.625, 2.3125, 1.15625, 1.0]);
    state.phase.climb().rounds = 30;
    state.update_probe_bw_cycle_phase(&conn, &Rs { newly_acked: 0, ..rs() });
    assert_eq!((state.phase.climb().rounds, state.phase.climb().acked_per_inc), (30, 1.0));
}

#[test]
fn the_long_term_bound_rises_by_what_is_acknowledged_while_it_is_the_limit() {
    let (mut state, mut conn) = start_phase(BbrState::Up);
    (state.inflight.longterm, state.phase.climb().acked_per_inc) = (40, 4.5);
    let mut acked = |newly_acked: u32, cwnd: u32, limited: bool| {
        (conn.cwnd, conn.is_cwnd_limited) = (cwnd, limited);
        state.update_probe_bw_cycle_phase(&conn, &Rs { newly_acked, ..rs() });
        (state.inflight.longterm, state.phase.climb().acked)
    };
    assert_eq!(acked(2, 40, true), (40, 2.0));
    // neither without the window as the limit, nor with a window below the bound
    assert_eq!(acked(2, 40, false), (40, 2.0));
    assert_eq!(acked(2, 39, true), (40, 2.0));
    // 2 + 12 = 3 * 4.5 + 0.5
    assert_eq!(acked(12, 40, true), (43, 0.5));
    // what was delivered with more in flight raises it at once, unless too much was lost: 1 of 60 is less than 2 %, 2 are more
    for (lost, after) in [(2, 40), (1, 60)] {
        let (mut raised, other) = start_phase(BbrState::Cruise);
        raised.inflight.longterm = 40;
        raised.update_probe_bw_cycle_phase(&other, &Rs { tx_in_flight: 60, lost, ..rs() });
        assert_eq!(raised.inflight.longterm, after);
    }
}

#[test]
fn the_round_after_up_ends_the_probe() {
    // (state, application-limited, precautionary, too high): (cycle counted, refills at once)
    for (phase, app, precautionary, too_high, counted, refills) in [
        (BbrState::Down, false, false, false, true, false),
        (BbrState::Down, true, false, false, false, false),
        (BbrState::Down, false, true, false, true, true),
        (BbrState::Down, true, true, false, false, true),
        (BbrState::Down, false, true, true, true, false),
        (BbrState::ProbeRtt, false, true, false, false, false),
    ] {
        let (mut state, mut conn) = start_phase(phase);
        (state.ack_phase, state.round.start, state.is_bw_probe_sample) = (AckPhase::ProbeStopping, true, true);
        (state.last_probe.precautionary, state.last_probe.too_high) = (precautionary, too_high);
        conn.snd_nxt = conn.snd_una + 30;
        state.update_probe_bw_cycle_phase(&conn, &Rs { is_app_limited: app, ..rs() });
        let case = (phase, app, precautionary, too_high);
        assert!(!state.is_bw_probe_sample, "{case:?}");
        // the sample of the last cycle counts for one more
        let largest = state.bw.filter.clone();
        assert_eq!(largest.clone().update(1.0), 1_000.0, "{case:?}");
        let mut later = largest;
        later.advance();
        assert_eq!(later.update(1.0), if counted { 1.0 } else { 1_000.0 }, "{case:?}");
        assert_eq!(state.phase.state() == BbrState::Refill, refills, "{case:?}");
    }
}

// ---- 5.3.4: ProbeRTT

#[test]
fn the_minimum_is_kept_for_ten_seconds_and_looked_for_after_five() {
    let (mut state, mut conn) = start_phase(BbrState::Cruise);
    let start = conn.now;
    let mut sample = |ms: u64, rtt_us: Option<u32>| {
        conn.now = start + Duration::from_millis(ms);
        state.update_min_rtt(&conn, &Rs { rtt_us, ..rs() });
        (state.probe_rtt_min.rtt, state.min_rtt.rtt, state.probe_rtt_expired)
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
    let (mut state, mut conn) = start_phase(BbrState::Cruise);
    conn.now += Duration::from_millis(5_001);
    state.cong_control(&mut conn, &ack());
    // half of the BDP; its samples are not the path's
    assert_eq!((state.phase.state(), conn.cwnd, state.cwnd_gain(), conn.holds_back), (BbrState::ProbeRtt, 10, 0.5, true));
    assert_eq!((state.prior_cwnd, state.phase.rtt_probe().done), (40, None));
    let mut later = |ms: u64, in_flight: u64, round: bool| {
        conn.now += Duration::from_millis(ms);
        conn.delivered += 2;
        conn.snd_una += 2;
        conn.snd_nxt = conn.snd_una + in_flight;
        let prior_delivered = if round { conn.delivered - 2 } else { 0 };
        if round {
            state.round.next_delivered = prior_delivered;
        }
        state.cong_control(&mut conn, &RateSample { prior_delivered, ..ack() });
        (state.phase.state(), conn.cwnd, matches!(&state.phase, BbrPhase::ProbeRtt(probe) if probe.done.is_some()))
    };
    assert_eq!(later(10, 11, false), (BbrState::ProbeRtt, 10, false));
    assert_eq!(later(10, 10, false), (BbrState::ProbeRtt, 10, true));
    // time alone is not enough, nor a round; 200 ms strictly
    assert_eq!(later(150, 10, false), (BbrState::ProbeRtt, 10, true));
    assert_eq!(later(50, 10, true), (BbrState::ProbeRtt, 10, true));
    // the window of before, and 2 more acknowledged: as many are aggregated
    assert_eq!(later(1, 10, false), (BbrState::Cruise, 42, false));
    assert_eq!(state.probe_rtt_min.stamp, conn.now);
    let wait = state.phase.wait().until - conn.now;
    assert!((Duration::from_secs(2)..Duration::from_secs(3)).contains(&wait), "{wait}");
}

#[test]
fn probe_rtt_ends_in_startup_if_the_pipe_was_never_full() {
    let (mut state, mut conn) = start_phase(BbrState::ProbeRtt);
    state.full_bw.reached = false;
    (state.bw.shortterm, state.inflight.shortterm) = (BbrRate(500.0), 9);
    *state.phase.rtt_probe() = RttProbe { done: Some(conn.now - Duration(1)), round_done: true };
    state.check_probe_rtt(&mut conn, &rs());
    assert_eq!(
        (state.phase.state(), state.bw.shortterm.0, state.inflight.shortterm),
        (BbrState::Startup, f64::INFINITY, UNBOUNDED)
    );
}

// ---- 5.4: idleness

#[test]
fn after_idleness_it_paces_at_its_bandwidth_and_skips_probe_rtt() {
    let (mut state, mut conn) = start_phase(BbrState::Down);
    conn.pacing_rate = 9_999_999;
    conn.now += Duration::from_secs(6);
    state.cwnd_event(&mut conn, CaEvent::TxStart { idle: Duration::from_secs(5), app_limited: false });
    assert!(!state.idle_restart, "pacing alone held it");
    state.cwnd_event(&mut conn, CaEvent::TxStart { idle: Duration::from_secs(5), app_limited: true });
    // 1000 * 1448 * 0.99
    assert_eq!((state.idle_restart, conn.pacing_rate, state.extra_acked.interval_start), (true, 1_433_520, conn.now));
    // the first ACK finds the minimum expired, and is enough to end the restart
    state.cong_control(&mut conn, &ack());
    assert!(state.probe_rtt_expired && state.phase.state() != BbrState::ProbeRtt && !state.idle_restart);
    // in Startup the rate stays
    let mut start = start_phase(BbrState::Startup).0;
    conn.pacing_rate = 9_999_999;
    start.cwnd_event(&mut conn, CaEvent::TxStart { idle: Duration::from_secs(5), app_limited: true });
    assert_eq!((start.idle_restart, conn.pacing_rate), (true, 9_999_999));
}

#[test]
fn idleness_may_end_probe_rtt() {
    for (since, after, cwnd) in [(Duration::ZERO, BbrState::ProbeRtt, 10), (Duration(1), BbrState::Cruise, 33)] {
        let (mut state, mut conn) = start_phase(BbrState::ProbeRtt);
        (conn.cwnd, state.prior_cwnd) = (10, 33);
        state.phase.rtt_probe().done = Some(conn.now - since);
        state.cwnd_event(&mut conn, CaEvent::TxStart { idle: Duration::from_secs(1), app_limited: true });
        assert_eq!((state.phase.state(), conn.cwnd), (after, cwnd));
    }
}
