//! Vectors reckoned by hand, section by section.

use super::*;
use crate::cc::testing::conn;
use serde_json::{json, Value};

/// With `params`, on a connection of 10 segments, all in flight, whose RTT is 20 ms.
fn with(params: Value) -> (State, Conn) {
    let params = Params::from_json(params.as_object().unwrap()).unwrap();
    let mut state = State::new(params, &CcContext { seed: 1, flow: 0 });
    let mut conn = Conn { now: Time::from_secs(1), delivered: 1, ..conn() };
    conn.rtt.sample(20_000, 0, 10);
    state.init(&mut conn);
    (state, conn)
}

fn bbr() -> (State, Conn) {
    with(json!({}))
}

/// In `phase`, with an estimate of 1000 segments a second and 20 ms: a BDP of 20 segments, all in flight under a window of 40.
fn at(phase: Phase) -> (State, Conn) {
    let (mut state, mut conn) = bbr();
    state.max_bw = state.max_bw_filter.update(1_000.0);
    state.bw = 1_000.0;
    state.full_bw_reached = phase != Phase::Startup;
    state.state = phase;
    state.cycle_stamp = conn.now;
    state.bw_probe_wait = Time::from_millis(2_500);
    (conn.cwnd, conn.delivered) = (40, 1_000);
    (conn.snd_una, conn.snd_nxt) = (1_000, 1_020);
    // no round ends by itself
    state.next_round_delivered = u64::MAX;
    state.loss_round_delivered = u64::MAX;
    (state, conn)
}

/// An ACK of 2 segments whose sample is of 20 segments in 20 ms, 20 of them in flight when it was sent.
fn ack() -> RateSample {
    RateSample {
        newly_delivered: 2,
        delivered: Some(20),
        interval_us: Some(20_000),
        prior_delivered: 980,
        tx_in_flight: 20,
        rtt_us: Some(21_000),
        ..RateSample::default()
    }
}

fn rs() -> Rs {
    Rs::new(&ack())
}

fn lost(seq: u64, lost: u32, tx_in_flight: u32) -> LossEvent {
    LossEvent { seq, tx_in_flight, lost, is_app_limited: false, sent: Time::ZERO }
}

/// The congestion machine goes to `ca`.
fn enter(state: &mut State, conn: &mut Conn, ca: CaState) {
    state.set_state(conn, ca);
    conn.state = ca;
}

// ---- 2 to 4: parameters, samples, ECN

#[test]
fn a_sample_that_is_too_short_has_no_rate_but_counts_what_it_delivered() {
    assert_eq!((rs().delivery_rate, rs().delivered), (1_000.0, 20));
    let short = Rs::new(&RateSample { interval_us: None, ..ack() });
    assert_eq!((short.delivery_rate, short.delivered, short.has_data), (0.0, 20, true));
    let none = Rs::new(&RateSample { delivered: None, interval_us: None, ..ack() });
    assert_eq!((none.delivery_rate, none.delivered, none.has_data), (0.0, 0, false));
}

#[test]
fn it_does_not_ask_for_ecn() {
    assert_eq!((bbr().0.ecn().codepoint, bbr().0.ecn().required), (Ecn::NotEct, false));
}

// ---- 5.2: initialisation

#[test]
fn it_begins_with_the_rtt_of_the_handshake_or_none() {
    let (state, conn) = bbr();
    assert_eq!((state.min_rtt, state.probe_rtt_min_delay, state.min_rtt_stamp), (20_000.0, 20_000.0, conn.now));
    // 2.77 * 10 * 1448 B / 20 ms, and over 1 ms
    assert_eq!(conn.pacing_rate, 2_005_480);
    let mut blank = Conn { pacing_rate: 5, ..crate::cc::testing::conn() };
    let mut state = State::new(Params::default(), &CcContext::default());
    state.init(&mut blank);
    assert_eq!((blank.pacing_rate, state.min_rtt), (40_109_600, f64::INFINITY));
    // BDPMultiple before the first RTT: the initial window, whatever the gain
    assert_eq!(state.bdp_multiple(1_000.0, 2.0), 10.0);
}

// ---- 5.3.1: Startup

#[test]
fn three_rounds_of_less_than_a_quarter_of_growth_fill_the_pipe() {
    let (mut state, _) = at(Phase::Startup);
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
    let (mut within, _) = at(Phase::Startup);
    within.check_full_bw_reached(&rs());
    assert_eq!(within.full_bw, 0.0);
}

/// Startup in which `ranges` segments with others between them were lost within recovery, of which a round has passed if `full_round`; the ACK that
/// ends the round shows `of` lost among 100 in flight.
fn startup_with_losses(ranges: u64, of: u32, full_round: bool, ca: CaState) -> State {
    let (mut state, mut conn) = at(Phase::Startup);
    for n in 0..ranges {
        state.on_loss(&mut conn, &lost(1_000 + 2 * n, 1, 40));
    }
    // the ACK of what was sent when 1000 were delivered
    state.set_state(&mut conn, ca);
    conn.state = ca;
    if !full_round {
        state.recovery_delivered = 1_001;
    }
    conn.delivered = 1_040;
    state.cong_control(&mut conn, &RateSample { prior_delivered: 1_000, lost: of, tx_in_flight: 100, ..ack() });
    state
}

#[test]
fn startup_ends_on_loss_if_all_three_signs_are_there() {
    let left = startup_with_losses(6, 3, true, CaState::Recovery);
    assert!(left.full_bw_reached && left.full_bw_now && left.undo.left == Some(Phase::Startup));
    // max(BDP of 20, 20 delivered); Drain is over at once, for 20 are in flight; Down is not, which wants 15 % of headroom
    assert_eq!((left.inflight_longterm, left.state), (20, Phase::Down));
    // 5 ranges; 2 of 100 lost are not more than 2 %; no full round in recovery; not in fast recovery
    for (ranges, of, full_round, ca) in [
        (5, 3, true, CaState::Recovery),
        (6, 2, true, CaState::Recovery),
        (6, 3, false, CaState::Recovery),
        (6, 3, true, CaState::Loss),
        (6, 3, true, CaState::Disorder),
    ] {
        let stayed = startup_with_losses(ranges, of, full_round, ca);
        assert_eq!((stayed.state, stayed.lost_ranges), (Phase::Startup, 0), "{ranges} {of} {full_round} {ca:?}");
    }
}

#[test]
fn losses_side_by_side_are_one_range() {
    let (mut state, mut conn) = at(Phase::Startup);
    for seq in [1_000, 1_001, 1_002, 1_004, 1_007, 1_008] {
        state.on_loss(&mut conn, &lost(seq, 1, 40));
    }
    assert_eq!(state.lost_ranges, 3);
}

// ---- 5.3.2: Drain

#[test]
fn drain_ends_when_the_queue_is_empty_or_after_three_rounds() {
    // the BDP is 20; rounds 7 to 10 are within three of the start, round 11 is not
    for (in_flight, rounds, state_after) in [(21, 0, Phase::Drain), (20, 0, Phase::Down), (21, 3, Phase::Drain), (21, 4, Phase::Down)] {
        let (mut state, mut conn) = at(Phase::Drain);
        state.drain_start_round = 7;
        state.round_count = 7 + rounds;
        conn.snd_nxt = conn.snd_una + in_flight;
        state.check_drain_done(&conn);
        assert_eq!(state.state, state_after, "{in_flight} in flight, {rounds} rounds");
    }
    assert_eq!((at(Phase::Drain).0.pacing_gain(), at(Phase::Drain).0.cwnd_gain()), (0.5, 2.0));
    // below its short-term bound the rate is lower, and so is the BDP: 600 * 20 ms = 12
    let (mut slower, conn) = at(Phase::Drain);
    slower.bw = 600.0;
    slower.check_drain_done(&conn);
    assert_eq!(slower.state, Phase::Drain);
}

// ---- 5.3.3: ProbeBW

#[test]
fn the_wait_is_two_to_three_seconds_and_at_most_a_round_shorter() {
    let (mut state, conn) = at(Phase::Up);
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
        let (mut state, mut conn) = at(Phase::Cruise);
        state.bw = bdp * 50.0;
        (state.bw_shortterm, state.inflight_shortterm) = (500.0, 10);
        conn.now = state.cycle_stamp + Time::from_millis(ms);
        conn.cwnd = cwnd;
        state.rounds_since_probe_up = rounds;
        state.update_probe_bw_cycle_phase(&conn, &rs());
        assert_eq!(state.state == Phase::Refill, refill, "{ms} ms, {rounds} rounds, BDP {bdp}, cwnd {cwnd}");
        // refilling forgets the short-term model
        assert_eq!(state.inflight_shortterm == UNBOUNDED && state.bw_shortterm == f64::INFINITY, refill);
    }
}

#[test]
fn down_ends_with_headroom_and_an_empty_queue() {
    // BDP 20; 0.85 * 22 = 18.7
    for (in_flight, longterm, cruises) in [(20, UNBOUNDED, true), (21, UNBOUNDED, false), (18, 22, true), (19, 22, false), (20, 40, true)] {
        let (mut state, mut conn) = at(Phase::Down);
        state.inflight_longterm = longterm;
        // Inflight(max_bw, 1.0), whatever the short-term bound
        state.bw = 500.0;
        conn.snd_nxt = conn.snd_una + in_flight;
        state.update_probe_bw_cycle_phase(&conn, &Rs { tx_in_flight: 0, ..rs() });
        assert_eq!(state.state == Phase::Cruise, cruises, "{in_flight} in flight, bound {longterm}");
    }
    // its time has come before: straight to the next probe
    let (mut state, mut conn) = at(Phase::Down);
    conn.now = conn.now + Time::from_millis(2_501);
    conn.snd_nxt = conn.snd_una + 30;
    state.update_probe_bw_cycle_phase(&conn, &rs());
    assert_eq!(state.state, Phase::Refill);
}

#[test]
fn a_round_of_refill_comes_before_up() {
    let (mut state, conn) = at(Phase::Refill);
    state.update_probe_bw_cycle_phase(&conn, &rs());
    assert_eq!(state.state, Phase::Refill);
    state.round_start = true;
    state.full_bw_now = true;
    state.update_probe_bw_cycle_phase(&conn, &rs());
    assert_eq!((state.state, state.ack_phase, state.is_bw_probe_sample), (Phase::Up, AckPhase::ProbeStarting, true));
    // the search begins anew, from this rate; the first round's step is one segment a window
    assert_eq!((state.full_bw, state.full_bw_now, state.probe_up_acked_per_inc, state.bw_probe_up_rounds), (1_000.0, false, 40.0, 1));
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
        let (mut state, mut conn) = at(Phase::Up);
        (state.full_bw_now, state.prev_probe_too_high, state.inflight_longterm) = (full, too_high, longterm);
        (state.full_bw, state.full_bw_count) = (700.0, 2);
        conn.is_cwnd_limited = limited;
        state.probe_up_acked_per_inc = f64::INFINITY;
        state.update_probe_bw_cycle_phase(&conn, &rs());
        let case = (full, too_high, longterm, limited);
        assert_eq!((state.state == Phase::Down, state.prev_probe_precautionary), (down, precautionary), "{case:?}");
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
    let (mut state, _) = at(Phase::Cruise);
    // 100 - 15, 20 - 3, 18 - 2.7, 7 - 1.05, 6 - 1, 5 - 1, then four segments
    for (longterm, left) in [(UNBOUNDED, UNBOUNDED), (100, 85), (20, 17), (18, 15), (7, 5), (6, 5), (5, 4), (4, 4), (0, 4)] {
        state.inflight_longterm = longterm;
        assert_eq!(state.inflight_with_headroom(), left, "{longterm}");
    }
}

#[test]
fn the_step_of_the_long_term_bound_doubles_each_round() {
    let (mut state, mut conn) = at(Phase::Refill);
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
    let (mut state, mut conn) = at(Phase::Up);
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
        let (mut raised, conn) = at(Phase::Cruise);
        raised.inflight_longterm = 40;
        raised.update_probe_bw_cycle_phase(&conn, &Rs { tx_in_flight: 60, lost, ..rs() });
        assert_eq!(raised.inflight_longterm, after);
    }
}

#[test]
fn the_round_after_up_ends_the_probe() {
    // (state, application-limited, precautionary, too high): (cycle counted, refills at once)
    for (phase, app, precautionary, too_high, counted, refills) in [
        (Phase::Down, false, false, false, true, false),
        (Phase::Down, true, false, false, false, false),
        (Phase::Down, false, true, false, true, true),
        (Phase::Down, true, true, false, false, true),
        (Phase::Down, false, true, true, true, false),
        (Phase::ProbeRtt, false, true, false, false, false),
    ] {
        let (mut state, mut conn) = at(phase);
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
        assert_eq!(state.state == Phase::Refill, refills, "{case:?}");
    }
}

// ---- 5.3.4: ProbeRTT

#[test]
fn the_minimum_is_kept_for_ten_seconds_and_looked_for_after_five() {
    let (mut state, mut conn) = at(Phase::Cruise);
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
    let (mut state, mut conn) = at(Phase::Cruise);
    conn.now = conn.now + Time::from_millis(5_001);
    state.cong_control(&mut conn, &ack());
    // half of the BDP; its samples are not the path's
    assert_eq!((state.state, conn.cwnd, state.cwnd_gain(), conn.holds_back), (Phase::ProbeRtt, 10, 0.5, true));
    assert_eq!((state.prior_cwnd, state.probe_rtt_done_stamp), (40, None));
    let mut later = |ms: u64, in_flight: u64, round: bool| {
        conn.now = conn.now + Time::from_millis(ms);
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
    assert_eq!(later(10, 11, false), (Phase::ProbeRtt, 10, false));
    assert_eq!(later(10, 10, false), (Phase::ProbeRtt, 10, true));
    // time alone is not enough, nor a round; 200 ms strictly
    assert_eq!(later(150, 10, false), (Phase::ProbeRtt, 10, true));
    assert_eq!(later(50, 10, true), (Phase::ProbeRtt, 10, true));
    // the window of before, and 2 more acknowledged: as many are aggregated
    assert_eq!(later(1, 10, false), (Phase::Cruise, 42, true));
    assert_eq!((state.probe_rtt_min_stamp, state.cycle_stamp), (conn.now, conn.now));
}

#[test]
fn probe_rtt_ends_in_startup_if_the_pipe_was_never_full() {
    let (mut state, mut conn) = at(Phase::ProbeRtt);
    state.full_bw_reached = false;
    (state.bw_shortterm, state.inflight_shortterm) = (500.0, 9);
    state.probe_rtt_done_stamp = Some(conn.now - Time(1));
    state.probe_rtt_round_done = true;
    state.check_probe_rtt(&mut conn, &rs());
    assert_eq!((state.state, state.bw_shortterm, state.inflight_shortterm), (Phase::Startup, f64::INFINITY, UNBOUNDED));
}

// ---- 5.4: idleness

#[test]
fn after_idleness_it_paces_at_its_bandwidth_and_skips_probe_rtt() {
    let (mut state, mut conn) = at(Phase::Down);
    conn.pacing_rate = 9_999_999;
    conn.now = conn.now + Time::from_secs(6);
    state.cwnd_event(&mut conn, CaEvent::TxStart { idle: Time::from_secs(5), app_limited: false });
    assert!(!state.idle_restart, "pacing alone held it");
    state.cwnd_event(&mut conn, CaEvent::TxStart { idle: Time::from_secs(5), app_limited: true });
    // 1000 * 1448 * 0.99
    assert_eq!((state.idle_restart, conn.pacing_rate, state.extra_acked_interval_start), (true, 1_433_520, conn.now));
    // the first ACK finds the minimum expired, and is enough to end the restart
    state.cong_control(&mut conn, &ack());
    assert!(state.probe_rtt_expired && state.state != Phase::ProbeRtt && !state.idle_restart);
    // in Startup the rate stays
    let (mut start, mut conn) = at(Phase::Startup);
    conn.pacing_rate = 9_999_999;
    start.cwnd_event(&mut conn, CaEvent::TxStart { idle: Time::from_secs(5), app_limited: true });
    assert_eq!((start.idle_restart, conn.pacing_rate), (true, 9_999_999));
}

#[test]
fn idleness_may_end_probe_rtt() {
    for (since, after, cwnd) in [(Time::ZERO, Phase::ProbeRtt, 10), (Time(1), Phase::Cruise, 33)] {
        let (mut state, mut conn) = at(Phase::ProbeRtt);
        (conn.cwnd, state.prior_cwnd) = (10, 33);
        state.probe_rtt_done_stamp = Some(conn.now - since);
        state.cwnd_event(&mut conn, CaEvent::TxStart { idle: Time::from_secs(1), app_limited: true });
        assert_eq!((state.state, conn.cwnd), (after, cwnd));
    }
}

// ---- 5.5: the path

#[test]
fn a_round_ends_with_what_was_sent_after_its_start() {
    let (mut state, mut conn) = at(Phase::Cruise);
    (state.next_round_delivered, state.rounds_since_probe_up) = (990, 0);
    let mut acked = |prior_delivered: u64, delivered: Option<u32>| {
        state.update_congestion_signals(&conn, &Rs::new(&RateSample { prior_delivered, delivered, ..ack() }));
        conn.delivered += 2;
        (state.round_start, state.round_count, state.rounds_since_probe_up)
    };
    assert_eq!(acked(989, Some(20)), (false, 0, 0));
    // an ACK without a sample ends nothing
    assert_eq!(acked(990, None), (false, 0, 0));
    assert_eq!(acked(990, Some(20)), (true, 1, 1));
    // the next one ends with what was sent when 1004 were delivered
    assert_eq!(acked(1_003, Some(20)), (false, 1, 1));
    assert_eq!(acked(1_004, Some(20)), (true, 2, 2));
}

#[test]
fn the_bandwidth_is_the_largest_of_two_cycles() {
    let (mut state, conn) = at(Phase::Cruise);
    let mut sample = |rate: f64, is_app_limited: bool, advance: bool| {
        if advance {
            state.max_bw_filter.advance();
        }
        state.update_congestion_signals(&conn, &Rs { delivery_rate: rate, is_app_limited, ..rs() });
        state.max_bw
    };
    assert_eq!(sample(900.0, false, false), 1_000.0);
    // of the application only what is larger
    assert_eq!(sample(999.0, true, false), 1_000.0);
    assert_eq!(sample(1_100.0, true, false), 1_100.0);
    assert_eq!(sample(800.0, false, true), 1_100.0);
    assert_eq!(sample(700.0, false, true), 800.0);
    // a cycle without samples: the old one until there is one
    assert_eq!(sample(0.0, false, true), 800.0);
    assert_eq!(sample(650.0, false, false), 700.0);
}

#[test]
fn a_filter_of_one_cycle_forgets_at_once() {
    let mut filter = MaxOfCycles::new(1);
    assert_eq!((filter.update(5.0), filter.update(3.0)), (5.0, 5.0));
    filter.advance();
    assert_eq!(filter.update(3.0), 3.0);
}

#[test]
fn the_windowed_maximum_is_of_the_window() {
    let mut filter = WindowedMax::default();
    let found: Vec<f64> = [(0, 9.0), (1, 5.0), (3, 4.0), (6, 3.0), (10, 1.0), (11, 1.0), (13, 2.0), (14, 1.0), (25, 0.5)]
        .map(|(now, value)| filter.update(10, now, value))
        .to_vec();
    // 9 of round 0 counts up to round 10; then the best that was kept: 4 of round 3, for more than a quarter of the window had passed
    assert_eq!(found, [9.0, 9.0, 9.0, 9.0, 9.0, 4.0, 4.0, 3.0, 0.5]);
    // whatever comes: a value from within the window, and never less than the newest
    let mut rng = Rng::stream(1, "window", 0);
    let (mut now, mut samples) = (0, Vec::new());
    let mut filter = WindowedMax::default();
    for _ in 0..5_000 {
        now += rng.below(4);
        let value = rng.below(1_000) as f64;
        samples.push((now, value));
        let largest = filter.update(10, now, value);
        let recent = samples.iter().filter(|sample| now - sample.0 <= 10);
        assert!(largest >= value && recent.clone().any(|sample| sample.1 == largest), "round {now}: {largest}");
    }
}

#[test]
fn extra_acked_is_what_came_beyond_the_rate() {
    let (mut state, mut conn) = at(Phase::Cruise);
    state.bw = 800.0;
    let start = conn.now;
    let mut acked = |us: u64, newly_acked: u32, round: u64| {
        conn.now = start + Time::from_micros(us);
        state.round_count = round;
        state.update_ack_aggregation(&conn, &Rs { newly_acked, ..rs() });
        (state.extra_acked * 10.0).round() / 10.0
    };
    assert_eq!(acked(0, 2, 0), 2.0);
    // 12 - 0.8
    assert_eq!(acked(1_000, 10, 0), 11.2);
    // 14 - 8 = 6 is less
    assert_eq!(acked(10_000, 2, 1), 11.2);
    // 16 were expected, 14 came: the interval begins anew, with 2
    assert_eq!(acked(20_000, 2, 2), 11.2);
    // the window of 40 bounds it
    assert_eq!(acked(20_000, 90, 3), 40.0);
    // before the pipe was full, it is of the last round
    let (mut startup, conn) = at(Phase::Startup);
    for (round, newly_acked, largest) in [(0, 9, 9.0), (1, 1, 10.0), (3, 1, 11.0)] {
        startup.round_count = round;
        startup.update_ack_aggregation(&conn, &Rs { newly_acked, ..rs() });
        assert_eq!(startup.extra_acked, largest);
    }
    startup.extra_acked_delivered = 0.0;
    startup.round_count = 5;
    startup.update_ack_aggregation(&conn, &Rs { newly_acked: 3, ..rs() });
    assert_eq!(startup.extra_acked, 3.0);
}

#[test]
fn more_than_two_percent_is_too_much() {
    let (state, _) = bbr();
    for (lost, tx_in_flight, too_high) in [(0, 0, false), (1, 50, false), (1, 49, true), (2, 100, false), (3, 100, true), (1, 0, true)] {
        assert_eq!(state.is_inflight_too_high(lost, tx_in_flight), too_high, "{lost} of {tx_in_flight}");
    }
}

#[test]
fn inflight_at_loss_is_where_two_percent_were_crossed() {
    let (state, _) = bbr();
    // prev + (0.02 prev - lost_prev) / 0.98: 99 + (1.98 - 2) / 0.98; 9 + 0.18 / 0.98; 59 + (1.18 - 1) / 0.98
    for (lost, tx_in_flight, at_loss) in [(3, 100, 98.979_591_8), (1, 10, 9.183_673_5), (2, 60, 59.183_673_5)] {
        let found = state.inflight_at_loss(lost, tx_in_flight);
        assert!((found - at_loss).abs() < 1e-6, "{found}");
        // of a prefix of x, 2 % of all are lost
        let x = found - f64::from(tx_in_flight - 1);
        assert!(((f64::from(lost - 1) + x) / found - 0.02).abs() < 1e-9);
    }
}

#[test]
fn too_much_loss_while_it_probes_sets_the_long_term_bound_once() {
    // (lost, in flight, application): the bound, if it is set
    for (lost_now, tx_in_flight, app, bound) in
        [(1, 50, false, None), (1, 30, false, Some(29)), (1, 10, false, Some(14)), (1, 30, true, None)]
    {
        let (mut state, mut conn) = at(Phase::Up);
        state.is_bw_probe_sample = true;
        state.on_loss(&mut conn, &LossEvent { is_app_limited: app, ..lost(1_000, lost_now, tx_in_flight) });
        // 29 + 0.58 / 0.98 = 29.6; 9.2 is less than 0.7 * 20
        assert_eq!(state.inflight_longterm, bound.unwrap_or(UNBOUNDED), "{lost_now} of {tx_in_flight}");
        let too_high = tx_in_flight < 50;
        assert_eq!((state.state == Phase::Down, state.prev_probe_too_high), (too_high, too_high));
        assert_eq!(state.is_bw_probe_sample, !too_high);
        // the next ones find it answered
        state.inflight_longterm = 99;
        state.on_loss(&mut conn, &lost(1_002, 40, 40));
        assert_eq!(state.inflight_longterm, if too_high { 99 } else { 14 });
    }
    // without a probe they say nothing of the bound; one in refill does not end it
    let (mut cruise, mut conn) = at(Phase::Cruise);
    cruise.on_loss(&mut conn, &lost(1_000, 9, 20));
    assert_eq!((cruise.inflight_longterm, cruise.is_loss_in_round), (UNBOUNDED, true));
}

#[test]
fn a_round_with_loss_lowers_the_short_term_bounds_once() {
    // latest rate and volume: the bounds from 1000 and a window of 40
    for (phase, rate, volume, bw, inflight) in [
        (Phase::Cruise, 600.0, 20, 700.0, 28),
        (Phase::Cruise, 900.0, 30, 900.0, 30),
        (Phase::Down, 600.0, 30, 700.0, 30),
        (Phase::Drain, 600.0, 20, 700.0, 28),
        (Phase::ProbeRtt, 600.0, 20, 700.0, 28),
        (Phase::Startup, 600.0, 20, f64::INFINITY, UNBOUNDED),
        (Phase::Refill, 600.0, 20, f64::INFINITY, UNBOUNDED),
        (Phase::Up, 600.0, 20, f64::INFINITY, UNBOUNDED),
    ] {
        let (mut state, mut conn) = at(phase);
        state.on_loss(&mut conn, &lost(1_000, 1, 40));
        assert_eq!(state.loss_round_delivered, 1_000);
        let sample = |prior_delivered: u64| Rs { prior_delivered, delivered: volume, delivery_rate: rate, ..rs() };
        let mut acked = |prior_delivered: u64| {
            state.update_latest_delivery_signals(&conn, &sample(prior_delivered));
            state.update_congestion_signals(&conn, &sample(prior_delivered));
            state.advance_latest_delivery_signals(&sample(prior_delivered));
            (state.bw_shortterm, state.inflight_shortterm)
        };
        // not before a round has passed since the first loss
        assert_eq!(acked(999), (f64::INFINITY, UNBOUNDED));
        assert_eq!(acked(1_000), (bw, inflight), "{phase:?}");
        conn.delivered += 50;
        // the next round had none
        let before = (state.bw_shortterm, state.inflight_shortterm);
        state.update_latest_delivery_signals(&conn, &sample(1_000));
        state.update_congestion_signals(&conn, &sample(1_000));
        assert_eq!((state.bw_shortterm, state.inflight_shortterm), before);
        state.bound_bw_for_model();
        assert_eq!(state.bw, bw.min(state.max_bw));
    }
}

#[test]
fn a_segment_that_a_probe_repaired_is_a_loss() {
    let (mut state, conn) = at(Phase::Cruise);
    assert_eq!(state.ssthresh(&conn, Congestion::Loss), conn.ssthresh);
    assert!(state.is_loss_in_round && state.loss_round_delivered == 1_000);
    // a mark and the reduction that follows it are one loss: the end of the probe has cleared it
    let (mut up, mut conn) = at(Phase::Up);
    up.is_bw_probe_sample = true;
    up.on_loss(&mut conn, &lost(1_000, 1, 30));
    up.ssthresh(&conn, Congestion::Loss);
    assert!(!up.is_loss_in_round);
}

// ---- 5.5.11 and 5.6.4.4: recovery and undo

#[test]
fn recovery_leaves_the_window_it_began_with() {
    for ca in [CaState::Recovery, CaState::Loss] {
        let (mut state, mut conn) = at(Phase::Cruise);
        state.on_loss(&mut conn, &lost(1_000, 1, 40));
        if ca == CaState::Loss {
            // the transport's: nothing else is in flight
            conn.cwnd = 1;
        }
        enter(&mut state, &mut conn, ca);
        assert_eq!(state.prior_cwnd, 40);
        // within recovery a larger window is remembered, a smaller one is not
        conn.cwnd = 25;
        state.save_cwnd(&conn, conn.cwnd);
        assert_eq!(state.prior_cwnd, 40);
        enter(&mut state, &mut conn, CaState::Open);
        assert_eq!(conn.cwnd, 40);
    }
    // no recovery: nothing comes back
    let (mut state, mut conn) = at(Phase::Cruise);
    state.prior_cwnd = 99;
    enter(&mut state, &mut conn, CaState::Disorder);
    enter(&mut state, &mut conn, CaState::Open);
    assert_eq!(conn.cwnd, 40);
}

#[test]
fn undo_returns_to_startup() {
    let (mut state, mut conn) = at(Phase::Startup);
    state.on_loss(&mut conn, &lost(1_000, 1, 40));
    enter(&mut state, &mut conn, CaState::Recovery);
    for n in 1..6 {
        state.on_loss(&mut conn, &lost(1_000 + 2 * n, 3, 40));
    }
    conn.delivered = 1_040;
    conn.now = conn.now + Time::from_millis(20);
    state.cong_control(&mut conn, &RateSample { prior_delivered: 1_000, lost: 6, tx_in_flight: 40, ..ack() });
    assert!(state.full_bw_reached && state.inflight_longterm == 20 && state.state == Phase::Down);
    conn.cwnd = 22;
    assert_eq!(state.undo_cwnd(&mut conn), 40);
    assert_eq!((state.state, state.full_bw_reached, state.full_bw_now), (Phase::Startup, false, false));
    assert_eq!((state.inflight_longterm, state.full_bw_count), (UNBOUNDED, 0));
    // once
    state.state = Phase::Cruise;
    state.undo_cwnd(&mut conn);
    assert_eq!(state.state, Phase::Cruise);
}

#[test]
fn undo_restarts_the_probe_that_losses_ended() {
    let (mut state, mut conn) = at(Phase::Up);
    (state.is_bw_probe_sample, state.inflight_longterm) = (true, 60);
    // marked before recovery begins, as the transport does: the second loss ends the probe, the third is the first of a new round
    for n in 0..3 {
        state.on_loss(&mut conn, &lost(1_000 + n, 1 + n as u32, 60));
    }
    enter(&mut state, &mut conn, CaState::Recovery);
    assert_eq!((state.state, state.inflight_longterm, state.undo.left), (Phase::Down, 59, Some(Phase::Up)));
    // later losses of the same episode do not overwrite what it began with
    conn.now = conn.now + Time::from_millis(5);
    state.cong_control(&mut conn, &ack());
    state.is_loss_in_round = false;
    state.on_loss(&mut conn, &lost(1_010, 4, 60));
    (state.bw_shortterm, state.inflight_shortterm, conn.cwnd) = (700.0, 28, 28);
    // the window had grown by 2 within recovery
    assert_eq!(state.undo_cwnd(&mut conn), 42);
    assert_eq!((state.state, state.inflight_longterm), (Phase::Refill, 60));
    assert_eq!((state.bw_shortterm, state.inflight_shortterm, state.is_loss_in_round), (f64::INFINITY, UNBOUNDED, false));
    // in ProbeRTT only the bounds come back
    let (mut probing, mut conn) = at(Phase::ProbeRtt);
    probing.undo = Saved { left: Some(Phase::Up), inflight_longterm: 80, ..probing.undo };
    probing.inflight_longterm = 30;
    probing.undo_cwnd(&mut conn);
    assert_eq!((probing.state, probing.inflight_longterm), (Phase::ProbeRtt, 80));
}

#[test]
fn a_timeout_saves_what_was_there_before_its_marks() {
    // in Up, nothing lost so far: all is marked, then the transport cuts the window
    let (mut state, mut conn) = at(Phase::Up);
    (state.is_bw_probe_sample, state.inflight_longterm) = (true, 60);
    for n in 0..20 {
        state.on_loss(&mut conn, &lost(1_000 + n, 1 + n as u32, 20));
    }
    conn.cwnd = 1;
    enter(&mut state, &mut conn, CaState::Loss);
    assert_eq!((state.state, state.prior_cwnd, state.undo.inflight_longterm), (Phase::Down, 40, 60));
    conn.cwnd = 2;
    assert_eq!(state.undo_cwnd(&mut conn), 40);
    assert_eq!((state.state, state.inflight_longterm), (Phase::Refill, 60));
}

// ---- 5.6: what it controls

#[test]
fn gains_are_those_of_the_table() {
    for (phase, pacing, window) in [
        (Phase::Startup, 2.77, 2.0),
        (Phase::Drain, 0.5, 2.0),
        (Phase::Down, 0.9, 2.0),
        (Phase::Cruise, 1.0, 2.0),
        (Phase::Refill, 1.0, 2.0),
        (Phase::Up, 1.25, 2.25),
        (Phase::ProbeRtt, 1.0, 0.5),
    ] {
        let (mut state, mut conn) = at(phase);
        state.full_bw_reached = true;
        state.set_pacing_rate(&mut conn);
        // 1 % below, of 1000 segments of 1448 B
        assert_eq!(conn.pacing_rate, (pacing * 1_000.0 * 1_448.0 * 0.99) as u64, "{phase:?}");
        assert_eq!(state.cwnd_gain(), window, "{phase:?}");
    }
}

#[test]
fn the_rate_does_not_fall_before_the_pipe_was_full() {
    let (mut state, mut conn) = at(Phase::Startup);
    conn.pacing_rate = 5_000_000;
    state.set_pacing_rate(&mut conn);
    assert_eq!(conn.pacing_rate, 5_000_000);
    // 2.77 * 1433520 = 3970850.4
    conn.pacing_rate = 3_000_000;
    state.set_pacing_rate(&mut conn);
    assert_eq!(conn.pacing_rate, 3_970_850);
    // nor to nothing
    (state.bw, state.full_bw_reached) = (0.0, true);
    state.set_pacing_rate(&mut conn);
    assert_eq!(conn.pacing_rate, 3_970_850);
}

#[test]
fn a_burst_is_a_millisecond_of_the_rate() {
    let (mut state, mut conn) = at(Phase::Cruise);
    // bytes in 1 ms: 1433, two segments at least; 10000 = 6.9 segments; 65536 at most = 45.3
    for (rate, burst, offload) in [(1_433_520, 2, 6), (10_000_000, 6, 20), (100_000_000, 45, 135), (u64::MAX, 45, 135)] {
        conn.pacing_rate = rate;
        state.set_send_quantum(&conn);
        assert_eq!(state.max_burst(&conn), Some(burst), "{rate}");
        // three of them fit the window, however small the BDP
        assert_eq!(state.inflight(1.0, 1.0), offload, "{rate}");
    }
}

#[test]
fn inflight_is_the_bdp_with_its_floors() {
    let (mut state, _) = at(Phase::Cruise);
    // 20 segments; 12.5; below six segments the offload budget of two bursts of three
    for (bw, gain, segments) in [(1_000.0, 1.0, 20), (1_000.0, 2.25, 45), (625.0, 1.0, 12), (200.0, 1.0, 6)] {
        assert_eq!(state.inflight(bw, gain), segments);
    }
    state.state = Phase::Up;
    assert_eq!((state.inflight(1_000.0, 1.0), state.inflight(200.0, 1.0)), (22, 8));
    let (mut bare, _) = with(json!({"offload_quanta": 0}));
    bare.min_rtt = 20_000.0;
    assert_eq!(bare.inflight(50.0, 1.0), 4);
}

#[test]
fn the_window_grows_by_what_is_acknowledged_and_falls_at_once() {
    // (full, window, BDP of bw, extra): 2 acknowledged
    for (full, cwnd, bw, extra, after) in [
        (true, 30, 1_000.0, 0.0, 32),
        (true, 39, 1_000.0, 0.0, 40),
        (true, 80, 1_000.0, 0.0, 40),
        (true, 80, 1_000.0, 5.7, 45),
        (false, 39, 1_000.0, 0.0, 41),
        (false, 40, 1_000.0, 0.0, 40),
        (false, 80, 1_000.0, 0.0, 80),
        (true, 1, 1_000.0, 0.0, 4),
    ] {
        let (mut state, mut conn) = at(Phase::Refill);
        (state.full_bw_reached, state.bw, state.extra_acked) = (full, bw, extra);
        conn.cwnd = cwnd;
        state.set_cwnd(&mut conn, &rs());
        assert_eq!(conn.cwnd, after, "full {full}, from {cwnd}");
    }
    // until the initial window is delivered it grows whatever the BDP
    for (delivered, after) in [(10, 82), (11, 80)] {
        let (mut state, mut conn) = at(Phase::Startup);
        state.initial_delivered = 1;
        (conn.cwnd, conn.delivered) = (80, delivered);
        state.set_cwnd(&mut conn, &rs());
        assert_eq!(conn.cwnd, after, "{delivered} delivered");
    }
}

#[test]
fn bounds_hold_the_window_state_by_state() {
    // long-term bound 30, with headroom 25; then a short-term bound of 20, and of 2
    for (phase, long, short) in [
        (Phase::Startup, 42, 20),
        (Phase::Drain, 40, 20),
        (Phase::Down, 30, 20),
        (Phase::Cruise, 25, 20),
        (Phase::Refill, 30, 20),
        (Phase::Up, 30, 20),
        (Phase::ProbeRtt, 10, 10),
    ] {
        for (shortterm, after) in [(UNBOUNDED, long), (20, short), (2, 4)] {
            let (mut state, mut conn) = at(phase);
            (state.inflight_longterm, state.inflight_shortterm) = (30, shortterm);
            if phase == Phase::Startup {
                state.bw = 2_000.0;
            }
            state.set_cwnd(&mut conn, &rs());
            assert_eq!(conn.cwnd, after, "{phase:?} {shortterm}");
        }
    }
    let (state, mut conn) = at(Phase::Cruise);
    conn.cwnd_clamp = 7;
    state.set_cwnd(&mut conn, &rs());
    assert_eq!(conn.cwnd, 7);
}

#[test]
fn the_model_says_what_it_believes() {
    let (mut state, conn) = at(Phase::Up);
    (state.bw_probe_up_rounds, state.inflight_longterm, state.bw_shortterm, state.bw) = (3, 50, 800.0, 800.0);
    let model = state.model(&conn).unwrap();
    // 1000 and 800 segments of 1448 B; 16 segments and two more
    assert_eq!((model.state, model.max_bw, model.bw, model.bw_shortterm), ("probe_up", 1_448_000, 1_158_400, Some(1_158_400)));
    assert_eq!((model.inflight, model.inflight_longterm, model.inflight_shortterm), (18, Some(50), None));
    assert_eq!((model.probe_up_step, model.min_rtt_us, model.pacing_gain, model.cwnd_gain), (Some(4), Some(20_000), 1.25, 2.25));
}
