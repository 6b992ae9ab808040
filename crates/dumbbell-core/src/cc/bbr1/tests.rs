//! Vectors by integer emulation of the kernel's arithmetic, and stories.

use super::*;
use crate::cc::driver::conn;
use crate::units::Instant;

fn v1() -> State {
    let mut state = State::new(Params::default(), &CcContext::default());
    let mut conn = Conn { delivered: 1, ..conn() };
    conn.rtt.sample_min(20_000, Instant::ZERO);
    state.init(&mut conn);
    state.bw.update(BW_ROUNDS, 1, BbrRate(13_852));
    state
}

#[test]
fn the_largest_of_ten_rounds_is_kept_by_its_three_best() {
    let mut filter = WindowedMax::default();
    let at = |all: &mut WindowedMax<u32>, round, value| all.update(BW_ROUNDS, round, value);
    assert_eq!(at(&mut filter, 1, 100), 100);
    assert_eq!(at(&mut filter, 2, 50), 100);
    // a quarter of the window later the second choice is of a quarter's own
    assert_eq!((at(&mut filter, 4, 80), filter.best[1]), (100, (4, 80)));
    assert_eq!(at(&mut filter, 8, 70), 100);
    assert_eq!(at(&mut filter, 11, 60), 100, "ten rounds old");
    assert_eq!(at(&mut filter, 12, 60), 80, "too old: the second choice");
    assert_eq!(at(&mut filter, 13, 90), 90);
    assert_eq!(at(&mut filter, 40, 5), 5, "nothing in the window");
}

#[test]
fn the_window_has_room_for_three_bursts_and_is_even() {
    let mut state = v1();
    let conn = Conn { pacing_rate: 1_183_576, ..conn() };
    // 38 + 3 * 2 = 44; 17 + 6 = 23, rounded up
    assert_eq!([state.add_burst_budget(&conn, 38), state.add_burst_budget(&conn, 17)], [44, 24]);
    state.start_phase(0);
    assert_eq!(state.add_burst_budget(&conn, 38), 46, "two more in the phase that probes");
    state.start_phase(3);
    assert_eq!(state.add_burst_budget(&conn, 38), 44);
}

#[test]
fn the_cycle_begins_anywhere_but_in_the_phase_that_drains() {
    let mut state = v1();
    let mut seen = [0; 8];
    for _ in 0..700 {
        state.enter_probe_bw();
        let Bbr1Mode::ProbeBw { phase, .. } = state.mode else { panic!("{:?}", state.mode) };
        seen[phase as usize] += 1;
    }
    assert_eq!(seen[1], 0);
    assert!([0, 2, 3, 4, 5, 6, 7].iter().all(|&phase| seen[phase] > 60), "{seen:?}");
}

#[test]
fn phases_last_a_round_trip_and_the_probe_until_it_filled_the_pipe() {
    let mut state = v1();
    let conn = Conn { pacing_rate: 1_183_576, ..conn() };
    let over = |of: &State, prior_in_flight, newly_lost| {
        let sample = RateSample { prior_in_flight, ack_lost: newly_lost, ..RateSample::default() };
        of.phase_is_over(&conn, &sample, 0)
    };
    let at = |of: &mut State, phase, us| {
        of.mode = Bbr1Mode::ProbeBw { phase, start_us: 0 };
        of.update_gains();
        of.delivered_us = us;
    };
    at(&mut state, 2, 20_000);
    assert!(!over(&state, 50, 0));
    at(&mut state, 2, 20_001);
    assert!(over(&state, 0, 0));
    // probing: ⌈1.25 * 16.5⌉ = 21, + 6, even, + 2 = 30 in flight, the next burst of two included; or losses
    at(&mut state, 0, 20_001);
    assert!(!over(&state, 27, 0) && over(&state, 28, 0) && over(&state, 0, 1));
    at(&mut state, 0, 20_000);
    assert!(!over(&state, 50, 0));
    // draining: until 17 + 6, even, are left
    at(&mut state, 1, 1);
    assert!(!over(&state, 25, 0) && over(&state, 24, 0));
    at(&mut state, 1, 20_001);
    assert!(over(&state, 100, 0));
}

#[test]
fn a_fifth_of_losses_makes_an_interval_lossy() {
    assert!(LongTerm::lossy(10, 50) && !LongTerm::lossy(9, 50) && !LongTerm::lossy(0, 0));
    // 50 segments in 40 ms
    assert_eq!(BbrRate::floor(50, 40_000), BbrRate(20_971));
}

#[test]
fn two_intervals_of_one_rate_are_a_policer() {
    for (second, found) in [(20_971 + 2_621, true), (20_971 + 2_622, false), (20_971 - 2_621, true)] {
        let mut policer = LongTerm::default();
        assert!(!policer.end(BbrRate(20_971), 1448));
        assert_eq!((policer.end(BbrRate(second), 1448), policer.in_use), (found, found), "{second}");
        assert_eq!(policer.bw.0, if found { (20_971 + second) / 2 } else { second });
    }
    // 5 are less than 500 B/s apart
    let mut slow = LongTerm::default();
    slow.end(BbrRate(10), 1448);
    assert!(slow.end(BbrRate(15), 1448));
    let mut apart = LongTerm::default();
    apart.end(BbrRate(10), 1448);
    assert!(!apart.end(BbrRate(16), 1448));
}

/// An ACK of 50 segments that begins a round, with 15 of 65 lost, `ms` after the start.
fn lossy_round(state: &mut State, conn: &mut Conn, ms: u64) {
    conn.now = Instant::from_millis(ms);
    for _ in 0..15 {
        let loss = LossEvent { seq: 0, tx_in_flight: 65, lost: 1, is_app_limited: false, sent: Instant::ZERO };
        state.on_loss(conn, &loss);
    }
    let prior_delivered = conn.delivered;
    conn.delivered += 50;
    let sample = RateSample {
        ack_delivered: 50,
        ack_lost: 15,
        sample_delivered: Some(50),
        interval_us: Some(10_000),
        prior_delivered,
        rtt_us: Some(20_000),
        ..RateSample::default()
    };
    state.cong_control(conn, &sample);
}

#[test]
fn a_policer_is_found_and_its_rate_kept_for_48_rounds() {
    let mut state = v1();
    state.full_bw_reached = true;
    state.enter_probe_bw();
    let mut conn = Conn { delivered: 1, cwnd: 100, ..conn() };
    let mut found = None;
    for round in 1..100 {
        lossy_round(&mut state, &mut conn, 10 * round);
        match (found, state.long_term.in_use) {
            (None, true) => found = Some(round),
            (Some(first), false) => {
                assert_eq!(round - first, 48);
                // 4 rounds each: 50 segments in 10 ms
                return assert!(first <= 10, "{first}");
            }
            _ => {}
        }
        if state.long_term.in_use {
            assert_eq!((state.long_term.bw, state.pacing_gain), (BbrRate::floor(50, 10_000), UNIT));
        }
    }
    panic!("found: {found:?}");
}

#[test]
fn packets_are_conserved_for_a_round_of_recovery() {
    let mut state = v1();
    state.full_bw_reached = true;
    state.enter_probe_bw();
    let mut conn = Conn { delivered: 100, cwnd: 40, snd_nxt: 40, lost_out: 4, ..conn() };
    state.ssthresh(&conn, Congestion::Loss);
    conn.state = CaState::Recovery;
    let sample = RateSample { ack_delivered: 2, ack_lost: 4, rtt_us: Some(20_000), ..RateSample::default() };
    state.cong_control(&mut conn, &sample);
    assert_eq!(conn.cwnd, 38, "36 in flight and 2 delivered");
    // what was saved comes back
    conn.state = CaState::Open;
    conn.pacing_rate = 1_183_576;
    state.cong_control(&mut conn, &RateSample { ack_lost: 0, ..sample });
    assert!(!state.packet_conservation);
    assert_eq!(conn.cwnd, state.add_burst_budget(&conn, 34).min(42));
}

#[test]
fn probe_rtt_comes_after_ten_seconds_with_four_segments() {
    let mut state = v1();
    state.full_bw_reached = true;
    state.enter_probe_bw();
    let mut conn = Conn { now: Instant::from_millis(10_000), cwnd: 40, snd_nxt: 4, delivered: 100, ..conn() };
    let sample = RateSample { ack_delivered: 1, rtt_us: Some(30_000), sample_delivered: Some(1), ..RateSample::default() };
    state.cong_control(&mut conn, &sample);
    assert!(matches!(state.mode, Bbr1Mode::ProbeBw { .. }));
    conn.now = Instant::from_millis(10_001);
    state.cong_control(&mut conn, &sample);
    assert_eq!((conn.cwnd, conn.holds_back, state.min_rtt_us), (4, true, 30_000));
    assert!(matches!(state.mode, Bbr1Mode::ProbeRtt(probe) if probe.done == Some(10_201)));
    state.round_start = true;
    conn.now = Instant::from_millis(10_202);
    let round = RateSample { interval_us: Some(20_000), prior_delivered: 100, ..sample };
    state.cong_control(&mut conn, &round);
    assert!(matches!(state.mode, Bbr1Mode::ProbeBw { .. }));
    assert!(conn.cwnd > 4);
}

#[test]
fn conservation_ends_with_its_round() {
    let mut state = v1();
    let mut conn = Conn { delivered: 100, cwnd: 40, snd_nxt: 36, state: CaState::Recovery, ..conn() };
    state.prev_state = CaState::Recovery;
    (state.packet_conservation, state.next_round, state.rounds) = (true, 90, 1);
    let sample = RateSample {
        ack_delivered: 2,
        sample_delivered: Some(10),
        interval_us: Some(20_000),
        rtt_us: Some(20_000),
        ..RateSample::default()
    };
    state.cong_control(&mut conn, &RateSample { prior_delivered: 89, ..sample });
    assert!(state.packet_conservation);
    state.cong_control(&mut conn, &RateSample { prior_delivered: 90, ..sample });
    assert!(!state.packet_conservation);
}

#[test]
fn the_window_of_before_comes_back_after_recovery() {
    let mut state = v1();
    (state.prev_state, state.prior_cwnd, state.packet_conservation) = (CaState::Loss, 33, true);
    let conn = Conn { cwnd: 5, ..conn() };
    let sample = RateSample { ack_delivered: 1, ..RateSample::default() };
    assert_eq!(state.recover(&conn, &sample), (33, false));
}

#[test]
fn aggregation_counts_once_the_pipe_was_full() {
    for (full, extra) in [(false, 0), (true, 20)] {
        let mut state = v1();
        state.full_bw_reached = full;
        let mut conn = Conn { cwnd: 1000, pacing_rate: 1_183_576, delivered: 500, now: Instant::from_millis(500), ..conn() };
        state.aggregation.update(&conn, 20, BbrRate(13_852), false, AGGREGATION_ROUNDS);
        state.set_cwnd(&mut conn, &RateSample { ack_delivered: 1, ..RateSample::default() }, BbrRate(13_852));
        let target = state.add_burst_budget(&conn, BbrRate(13_852).bdp(20_000, 739, 10) + extra);
        // without a full pipe the window is left where it is above the target
        assert_eq!(conn.cwnd, if full { target } else { 1000 });
        let mut growing = Conn { cwnd: state.add_burst_budget(&conn, BbrRate(13_852).bdp(20_000, 739, 10)), ..conn.clone() };
        let before = growing.cwnd;
        state.full_bw_reached = false;
        state.set_cwnd(&mut growing, &RateSample { ack_delivered: 1, ..RateSample::default() }, BbrRate(13_852));
        assert_eq!(growing.cwnd, before, "at the target without what is aggregated");
    }
}
