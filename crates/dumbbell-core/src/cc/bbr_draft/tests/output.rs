//! Section 5.6.

use super::*;

// ---- 5.6: what it controls

#[test]
fn gains_are_those_of_the_table() {
    for (phase, pacing, window) in [
        (BbrState::Startup, 2.77, 2.0),
        (BbrState::Drain, 0.5, 2.0),
        (BbrState::Down, 0.9, 2.0),
        (BbrState::Cruise, 1.0, 2.0),
        (BbrState::Refill, 1.0, 2.0),
        (BbrState::Up, 1.25, 2.25),
        (BbrState::ProbeRtt, 1.0, 0.5),
    ] {
        let (mut state, mut conn) = start_phase(phase);
        state.full_bw.reached = true;
        state.set_pacing_rate(&mut conn);
        // 1 % below, of 1000 segments of 1448 B
        assert_eq!(conn.pacing_rate, (pacing * 1_000.0 * 1_448.0 * 0.99) as u64, "{phase:?}");
        assert_eq!(state.cwnd_gain(), window, "{phase:?}");
    }
}

#[test]
fn the_rate_does_not_fall_before_the_pipe_was_full() {
    let (mut state, mut conn) = start_phase(BbrState::Startup);
    conn.pacing_rate = 5_000_000;
    state.set_pacing_rate(&mut conn);
    assert_eq!(conn.pacing_rate, 5_000_000);
    // 2.77 * 1433520 = 3970850.4
    conn.pacing_rate = 3_000_000;
    state.set_pacing_rate(&mut conn);
    assert_eq!(conn.pacing_rate, 3_970_850);
    // nor to nothing
    (state.bw.estimate, state.full_bw.reached) = (BbrRate::ZERO, true);
    state.set_pacing_rate(&mut conn);
    assert_eq!(conn.pacing_rate, 3_970_850);
}

#[test]
fn a_burst_is_a_millisecond_of_the_rate() {
    let (mut state, mut conn) = start_phase(BbrState::Cruise);
    // bytes in 1 ms: 1433, two segments at least; 10000 = 6.9 segments; 65536 at most = 45.3
    for (rate, burst, offload) in [(1_433_520, 2, 6), (10_000_000, 6, 20), (100_000_000, 45, 135), (u64::MAX, 45, 135)] {
        conn.pacing_rate = rate;
        state.set_send_quantum(&conn);
        assert_eq!(state.max_burst(&conn), Some(burst), "{rate}");
        // three of them fit the window, however small the BDP
        assert_eq!(state.inflight(BbrRate(1.0), 1.0), offload, "{rate}");
    }
}

#[test]
fn inflight_is_the_bdp_with_its_floors() {
    let (mut state, conn) = start_phase(BbrState::Cruise);
    // 20 segments; 12.5; below six segments the offload budget of two bursts of three
    for (bw, gain, segments) in [(1_000.0, 1.0, 20), (1_000.0, 2.25, 45), (625.0, 1.0, 12), (200.0, 1.0, 6)] {
        assert_eq!(state.inflight(BbrRate(bw), gain), segments);
    }
    state.phase = in_state(BbrState::Up, &conn);
    assert_eq!((state.inflight(BbrRate(1_000.0), 1.0), state.inflight(BbrRate(200.0), 1.0)), (22, 8));
    let (mut bare, _) = start_connection(json!({"offload_quanta": 0}));
    bare.min_rtt.rtt = 20_000.0;
    assert_eq!(bare.inflight(BbrRate(50.0), 1.0), 4);
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
        let (mut state, mut conn) = start_phase(BbrState::Refill);
        (state.full_bw.reached, state.bw.estimate, state.extra_acked.extra) = (full, BbrRate(bw), extra);
        conn.cwnd = cwnd;
        state.set_cwnd(&mut conn, &rs());
        assert_eq!(conn.cwnd, after, "full {full}, from {cwnd}");
    }
    // until the initial window is delivered it grows whatever the BDP
    for (delivered, after) in [(10, 82), (11, 80)] {
        let (mut state, mut conn) = start_phase(BbrState::Startup);
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
        (BbrState::Startup, 42, 20),
        (BbrState::Drain, 40, 20),
        (BbrState::Down, 30, 20),
        (BbrState::Cruise, 25, 20),
        (BbrState::Refill, 30, 20),
        (BbrState::Up, 30, 20),
        (BbrState::ProbeRtt, 10, 10),
    ] {
        for (shortterm, after) in [(UNBOUNDED, long), (20, short), (2, 4)] {
            let (mut state, mut conn) = start_phase(phase);
            (state.inflight.longterm, state.inflight.shortterm) = (30, shortterm);
            if phase == BbrState::Startup {
                state.bw.estimate = BbrRate(2_000.0);
            }
            state.set_cwnd(&mut conn, &rs());
            assert_eq!(conn.cwnd, after, "{phase:?} {shortterm}");
        }
    }
    let (state, mut conn) = start_phase(BbrState::Cruise);
    conn.cwnd_clamp = 7;
    state.set_cwnd(&mut conn, &rs());
    assert_eq!(conn.cwnd, 7);
}

#[test]
fn the_model_says_what_it_believes() {
    let (mut state, conn) = start_phase(BbrState::Up);
    state.phase.climb().rounds = 3;
    (state.inflight.longterm, state.bw.shortterm, state.bw.estimate) = (50, BbrRate(800.0), BbrRate(800.0));
    let model = state.model(&conn).unwrap();
    // 1000 and 800 segments of 1448 B; 16 segments and two more
    assert_eq!((model.state, model.max_bw, model.bw, model.bw_shortterm), ("probe_up", 1_448_000, 1_158_400, Some(1_158_400)));
    assert_eq!((model.inflight, model.inflight_longterm, model.inflight_shortterm), (18, Some(50), None));
    assert_eq!((model.probe_up_step, model.min_rtt_us, model.pacing_gain, model.cwnd_gain), (Some(4), Some(20_000), 1.25, 2.25));
}
