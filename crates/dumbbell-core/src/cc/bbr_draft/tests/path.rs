//! Section 5.5, and recovery (5.6.4.4).

use super::*;

// ---- 5.5: the path

#[test]
fn a_round_ends_with_what_was_sent_after_its_start() {
    let (mut state, mut conn) = start_phase(BbrState::Cruise);
    state.round.next_delivered = 990;
    let mut acked = |prior_delivered: u64, delivered: Option<u32>| {
        state.update_congestion_signals(&conn, &Rs::new(&RateSample { prior_delivered, sample_delivered: delivered, ..ack() }));
        conn.delivered += 2;
        (state.round.start, state.round.count, state.phase.wait().rounds)
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
    let (mut state, conn) = start_phase(BbrState::Cruise);
    let mut sample = |rate: f64, is_app_limited: bool, advance: bool| {
        if advance {
            state.bw.filter.advance();
        }
        state.update_congestion_signals(&conn, &Rs { delivery_rate: BbrRate(rate), is_app_limited, ..rs() });
        state.bw.max.0
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
    filter = WindowedMax::default();
    for _ in 0..5_000 {
        now += rng.draw_below(4);
        let value = rng.draw_below(1_000) as f64;
        samples.push((now, value));
        let largest = filter.update(10, now, value);
        let recent = samples.iter().filter(|sample| now - sample.0 <= 10);
        assert!(largest >= value && recent.clone().any(|sample| sample.1 == largest), "round {now}: {largest}");
    }
}

#[test]
fn extra_acked_is_what_came_beyond_the_rate() {
    let (mut state, mut conn) = start_phase(BbrState::Cruise);
    state.bw.estimate = BbrRate(800.0);
    let start = conn.now;
    let mut acked = |us: u64, newly_acked: u32, round: u64| {
        conn.now = start + Duration::from_micros(us);
        state.round.count = round;
        state.update_ack_aggregation(&conn, &Rs { newly_acked, ..rs() });
        (state.extra_acked.extra * 10.0).round() / 10.0
    };
    assert_eq!(acked(0, 2, 0), 2.0);
    // 12 - 0.8
    assert_eq!(acked(1_000, 10, 0), 11.2);
    // 14 - 8 = 6 is less
    assert_eq!(acked(10_000, 2, 1), 11.2);
    // 16 were expected, 14 came: the interval begins again, with 2
    assert_eq!(acked(20_000, 2, 2), 11.2);
    // the window of 40 bounds it
    assert_eq!(acked(20_000, 90, 3), 40.0);
    // before the pipe was full, it is of the last round
    let (mut startup, fresh) = start_phase(BbrState::Startup);
    for (round, newly_acked, largest) in [(0, 9, 9.0), (1, 1, 10.0), (3, 1, 11.0)] {
        startup.round.count = round;
        startup.update_ack_aggregation(&fresh, &Rs { newly_acked, ..rs() });
        assert_eq!(startup.extra_acked.extra, largest);
    }
    startup.extra_acked.delivered = 0.0;
    startup.round.count = 5;
    startup.update_ack_aggregation(&fresh, &Rs { newly_acked: 3, ..rs() });
    assert_eq!(startup.extra_acked.extra, 3.0);
}

#[test]
fn more_than_two_percent_is_too_much() {
    let (state, _) = bbr();
    for (lost, tx_in_flight, too_high) in
        [(0, 0, false), (1, 50, false), (1, 49, true), (2, 100, false), (3, 100, true), (1, 0, true)]
    {
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
        let (mut state, mut conn) = start_phase(BbrState::Up);
        state.is_bw_probe_sample = true;
        state.on_loss(&mut conn, &LossEvent { is_app_limited: app, ..loss_event(1_000, lost_now, tx_in_flight) });
        // 29 + 0.58 / 0.98 = 29.6; 9.2 is less than 0.7 * 20
        assert_eq!(state.inflight.longterm, bound.unwrap_or(UNBOUNDED), "{lost_now} of {tx_in_flight}");
        let too_high = tx_in_flight < 50;
        assert_eq!((state.phase.state() == BbrState::Down, state.last_probe.too_high), (too_high, too_high));
        assert_eq!(state.is_bw_probe_sample, !too_high);
        // the next ones find it answered
        state.inflight.longterm = 99;
        state.on_loss(&mut conn, &loss_event(1_002, 40, 40));
        assert_eq!(state.inflight.longterm, if too_high { 99 } else { 14 });
    }
    // without a probe they say nothing of the bound; one in refill does not end it
    let (mut cruise, mut conn) = start_phase(BbrState::Cruise);
    cruise.on_loss(&mut conn, &loss_event(1_000, 9, 20));
    assert_eq!((cruise.inflight.longterm, cruise.loss_round.has_loss), (UNBOUNDED, true));
}

#[test]
fn a_round_with_loss_lowers_the_short_term_bounds_once() {
    // latest rate and volume: the bounds from 1000 and a window of 40
    for (phase, rate, volume, bw, inflight) in [
        (BbrState::Cruise, 600.0, 20, 700.0, 28),
        (BbrState::Cruise, 900.0, 30, 900.0, 30),
        (BbrState::Down, 600.0, 30, 700.0, 30),
        (BbrState::Drain, 600.0, 20, 700.0, 28),
        (BbrState::ProbeRtt, 600.0, 20, 700.0, 28),
        (BbrState::Startup, 600.0, 20, f64::INFINITY, UNBOUNDED),
        (BbrState::Refill, 600.0, 20, f64::INFINITY, UNBOUNDED),
        (BbrState::Up, 600.0, 20, f64::INFINITY, UNBOUNDED),
    ] {
        let (mut state, mut conn) = start_phase(phase);
        state.on_loss(&mut conn, &loss_event(1_000, 1, 40));
        assert_eq!(state.loss_round.delivered, 1_000);
        let sample = |prior_delivered: u64| Rs { prior_delivered, delivered: volume, delivery_rate: BbrRate(rate), ..rs() };
        let mut acked = |prior_delivered: u64| {
            state.update_latest_delivery_signals(&conn, &sample(prior_delivered));
            state.update_congestion_signals(&conn, &sample(prior_delivered));
            state.advance_latest_delivery_signals(&sample(prior_delivered));
            (state.bw.shortterm.0, state.inflight.shortterm)
        };
        // not before a round has passed since the first loss
        assert_eq!(acked(999), (f64::INFINITY, UNBOUNDED));
        assert_eq!(acked(1_000), (bw, inflight), "{phase:?}");
        conn.delivered += 50;
        // the next round had none
        let before = (state.bw.shortterm, state.inflight.shortterm);
        state.update_latest_delivery_signals(&conn, &sample(1_000));
        state.update_congestion_signals(&conn, &sample(1_000));
        assert_eq!((state.bw.shortterm, state.inflight.shortterm), before);
        state.bound_bw_for_model();
        assert_eq!(state.bw.estimate, BbrRate(bw).min(state.bw.max));
    }
}

#[test]
fn a_segment_that_a_probe_repaired_is_a_loss() {
    let (mut state, mut conn) = start_phase(BbrState::Cruise);
    assert_eq!(state.ssthresh(&conn, Congestion::Loss), conn.ssthresh);
    assert!(state.loss_round.has_loss && state.loss_round.delivered == 1_000);
    // a mark and the reduction that follows it are one loss: the end of the probe has cleared it
    let mut up = start_phase(BbrState::Up).0;
    up.is_bw_probe_sample = true;
    up.on_loss(&mut conn, &loss_event(1_000, 1, 30));
    up.ssthresh(&conn, Congestion::Loss);
    assert!(!up.loss_round.has_loss);
}

// ---- 5.5.11 and 5.6.4.4: recovery and undo

#[test]
fn recovery_leaves_the_window_it_began_with() {
    for ca in [CaState::Recovery, CaState::Loss] {
        let (mut state, mut conn) = start_phase(BbrState::Cruise);
        state.on_loss(&mut conn, &loss_event(1_000, 1, 40));
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
    let (mut state, mut conn) = start_phase(BbrState::Cruise);
    state.prior_cwnd = 99;
    enter(&mut state, &mut conn, CaState::Disorder);
    enter(&mut state, &mut conn, CaState::Open);
    assert_eq!(conn.cwnd, 40);
}

#[test]
fn undo_returns_to_startup() {
    let (mut state, mut conn) = start_phase(BbrState::Startup);
    state.on_loss(&mut conn, &loss_event(1_000, 1, 40));
    enter(&mut state, &mut conn, CaState::Recovery);
    for n in 1..6 {
        state.on_loss(&mut conn, &loss_event(1_000 + 2 * n, 3, 40));
    }
    conn.delivered = 1_040;
    conn.now += Duration::from_millis(20);
    state.cong_control(&mut conn, &RateSample { prior_delivered: 1_000, sample_lost: 6, tx_in_flight: 40, ..ack() });
    assert!(state.full_bw.reached && state.inflight.longterm == 20 && state.phase.state() == BbrState::Down);
    conn.cwnd = 22;
    assert_eq!(state.undo_cwnd(&mut conn), 40);
    assert_eq!((state.phase.state(), state.full_bw.reached, state.full_bw.now), (BbrState::Startup, false, false));
    assert_eq!((state.inflight.longterm, state.full_bw.rounds), (UNBOUNDED, 0));
    // once
    state.phase = in_state(BbrState::Cruise, &conn);
    state.undo_cwnd(&mut conn);
    assert_eq!(state.phase.state(), BbrState::Cruise);
}

#[test]
fn undo_restarts_the_probe_that_losses_ended() {
    let (mut state, mut conn) = start_phase(BbrState::Up);
    (state.is_bw_probe_sample, state.inflight.longterm) = (true, 60);
    // marked before recovery begins, as the transport does: the second loss ends the probe, the third is the first of a new round
    for n in 0..3 {
        state.on_loss(&mut conn, &loss_event(1_000 + n, 1 + n as u32, 60));
    }
    enter(&mut state, &mut conn, CaState::Recovery);
    assert_eq!((state.phase.state(), state.inflight.longterm, state.undo.saved.left), (BbrState::Down, 59, Some(BbrState::Up)));
    // later losses of the same episode do not overwrite what it began with
    conn.now += Duration::from_millis(5);
    state.cong_control(&mut conn, &ack());
    state.loss_round.has_loss = false;
    state.on_loss(&mut conn, &loss_event(1_010, 4, 60));
    (state.bw.shortterm, state.inflight.shortterm, conn.cwnd) = (BbrRate(700.0), 28, 28);
    // the window had grown by 2 within recovery
    assert_eq!(state.undo_cwnd(&mut conn), 42);
    assert_eq!((state.phase.state(), state.inflight.longterm), (BbrState::Refill, 60));
    assert_eq!((state.bw.shortterm, state.inflight.shortterm, state.loss_round.has_loss), (BbrRate::INFINITE, UNBOUNDED, false));
    // in ProbeRTT only the bounds come back
    let mut probing = start_phase(BbrState::ProbeRtt).0;
    probing.undo.saved = Saved { left: Some(BbrState::Up), inflight_longterm: 80, ..probing.undo.saved };
    probing.inflight.longterm = 30;
    probing.undo_cwnd(&mut conn);
    assert_eq!((probing.phase.state(), probing.inflight.longterm), (BbrState::ProbeRtt, 80));
}

#[test]
fn a_timeout_saves_what_was_there_before_its_marks() {
    // in Up, nothing lost so far: all is marked, then the transport cuts the window
    let (mut state, mut conn) = start_phase(BbrState::Up);
    (state.is_bw_probe_sample, state.inflight.longterm) = (true, 60);
    for n in 0..20 {
        state.on_loss(&mut conn, &loss_event(1_000 + n, 1 + n as u32, 20));
    }
    conn.cwnd = 1;
    enter(&mut state, &mut conn, CaState::Loss);
    assert_eq!((state.phase.state(), state.prior_cwnd, state.undo.saved.inflight_longterm), (BbrState::Down, 40, 60));
    conn.cwnd = 2;
    assert_eq!(state.undo_cwnd(&mut conn), 40);
    assert_eq!((state.phase.state(), state.inflight.longterm), (BbrState::Refill, 60));
}
