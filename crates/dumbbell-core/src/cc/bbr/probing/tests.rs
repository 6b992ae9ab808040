//! Vectors by integer emulation of the kernels' arithmetic, and stories.

use super::*;
use crate::cc::bbr::phase::RttProbe;
use crate::cc::bbr2::{self, V2};
use crate::cc::bbr3::{self, V3};
use crate::cc::driver::conn;
use crate::units::{Duration, Instant};

mod cycle;

fn v2() -> Machine<V2> {
    establish_machine(bbr2::State::new(bbr2::Params { ecn: true, ..bbr2::Params::default() }, &CcContext::default()))
}

fn v3() -> Machine<V3> {
    establish_machine(bbr3::State::new(bbr3::Params { ecn: true, ..bbr3::Params::default() }, &CcContext::default()))
}

/// 16 segments in 19379 us, 20 ms without a queue: 17 segments in flight.
fn establish_machine<V: BbrVersion>(mut machine: Machine<V>) -> Machine<V> {
    let mut conn = Conn { delivered: 1, ..conn() };
    conn.rtt.sample_min(20_000, Instant::ZERO);
    machine.init(&mut conn);
    machine.bw_hi[1] = BbrRate(13_852);
    machine.marks.eligible = true;
    machine
}

/// In `state`, as if it had just begun.
fn in_state(state: BbrState) -> BbrPhase<u64, Climb> {
    BbrPhase::in_state(state, 0, Climb { start_us: 0, rounds: 0, cnt: UNSET, acks: 0 })
}

fn probe_is_due<V: BbrVersion>(machine: &mut Machine<V>, conn: &Conn) -> bool {
    let wait = *machine.phase.wait();
    machine.check_time_to_probe(conn, wait)
}

#[test]
fn the_defaults_are_the_kernels() {
    let (two, three) = (v2().set, v3().set);
    assert_eq!([two.startup_gain, two.startup_cwnd_gain, two.drain_gain], [739, 739, 88]);
    assert_eq!([two.probe_up_gain, two.probe_down_gain, two.cwnd_gain, two.probe_up_cwnd_gain], [320, 192, 512, 512]);
    assert_eq!([three.startup_gain, three.startup_cwnd_gain, three.drain_gain], [710, 512, 88]);
    assert_eq!([three.probe_up_gain, three.probe_down_gain, three.cwnd_gain, three.probe_up_cwnd_gain], [320, 232, 512, 576]);
    for set in [two, three] {
        assert_eq!([set.beta, set.loss_thresh, set.headroom, set.probe_rtt_cwnd_gain], [76, 5, 38, 128]);
        assert_eq!([set.ecn_alpha_gain, set.ecn_factor, set.ecn_thresh, set.ecn_max_rtt_us], [16, 85, 128, 5_000]);
        assert_eq!([set.probe_wait_us, set.probe_wait_random_us], [2_000_000, 1_000_000]);
        assert_eq!([set.min_rtt_window_ms, set.probe_rtt_interval_ms, set.probe_rtt_duration_ms], [10_000, 5_000, 200]);
    }
    assert_eq!([v2().set.full_loss_count, v3().set.full_loss_count], [8, 6]);
    assert_eq!([v2().set.ecn_reprobe_gain, v3().set.ecn_reprobe_gain], [0, 128]);
}

#[test]
fn targets_have_room_for_three_bursts_and_a_floor() {
    let mut two = v2();
    let at = |rate| Conn { pacing_rate: rate, ..conn() };
    // bursts of two, and at 149999 B/s of one
    let conn = at(1_183_576);
    assert_eq!(
        [two.add_burst_budget(&conn, 37), two.add_burst_budget(&conn, 3), two.add_burst_budget(&at(149_999), 1)],
        [37, 6, 4]
    );
    two.phase = in_state(BbrState::Up);
    assert_eq!([two.add_burst_budget(&conn, 37), two.add_burst_budget(&at(149_999), 1)], [39, 6]);
}

#[test]
fn headroom_is_15_percent_but_at_least_one_above_the_floor() {
    let mut two = v2();
    for (inflight_hi, left) in [(100, 86), (265, 226), (18, 16), (7, 6), (6, 5), (5, 4), (4, 4), (UNSET, UNSET)] {
        two.bounds.inflight_hi = inflight_hi;
        assert_eq!(two.with_headroom(), left, "{inflight_hi}");
    }
}

#[test]
fn two_percent_of_losses_are_too_many() {
    let two = v2();
    for (in_flight, most) in [(50, 0), (51, 0), (52, 1), (100, 1), (200, 3), (256, 5), (512, 10), (1000, 19)] {
        assert_eq!((two.too_many_lost(most, in_flight), two.too_many_lost(most + 1, in_flight)), (false, true), "{in_flight}");
    }
}

#[test]
fn half_of_marks_are_too_many_for_v2_and_more_than_half_for_v3() {
    for (delivered, marked, v2_says, v3_says) in [
        (1, 1, true, true),
        (2, 1, true, false),
        (20, 10, true, false),
        (20, 9, false, false),
        (21, 10, true, false),
        (21, 11, true, true),
    ] {
        assert_eq!((v2().too_many_marked(marked, delivered), v3().too_many_marked(marked, delivered)), (v2_says, v3_says));
    }
    let mut two = v2();
    two.marks.eligible = false;
    assert!(!two.too_many_marked(20, 20));
}

#[test]
fn a_loss_tells_how_much_was_in_flight_when_it_became_too_much() {
    for (tx, lost, segments, in_flight) in [
        (100, 2, 1, 100),
        (100, 3, 1, 99),
        (200, 5, 2, 199),
        (340, 20, 4, 336),
        (340, 7, 4, 340),
        (60, 2, 2, 60),
        (1, 2, 2, UNSET),
        (9, 1, 2, UNSET),
    ] {
        assert_eq!(v2().inflight_at_loss(tx, lost, segments), in_flight, "{tx} {lost} {segments}");
    }
    // not below 0.703 of the target: 17 * 180 / 256 = 11
    for (tx, inflight_hi) in [(60, 60), (9, 11)] {
        let mut two = v2();
        two.handle_too_high(&Conn { cwnd: 40, pacing_rate: 1_183_576, ..conn() }, tx, false);
        assert_eq!(two.bounds.inflight_hi, inflight_hi);
        two.handle_too_high(&conn(), 1000, true);
        assert_eq!(two.bounds.inflight_hi, inflight_hi, "the application was the limit");
    }
}

/// The average after rounds of (delivered, marked).
fn alpha(from: u32, rounds: &[(u64, u64)]) -> Vec<u32> {
    let mut two = v2();
    two.marks.alpha = from;
    two.full_bw.reached = true;
    let mut conn = conn();
    let mut after = |&(delivered, marked)| {
        conn.delivered += delivered;
        conn.delivered_ce += marked;
        two.update_alpha(&conn);
        two.marks.alpha
    };
    rounds.iter().map(&mut after).collect()
}

#[test]
fn the_average_of_marks_moves_by_a_16th() {
    for (from, delivered, marked, to) in
        [(256, 20, 0, 240), (256, 20, 10, 248), (256, 20, 20, 256), (240, 20, 1, 225), (8, 17, 1, 7), (131, 20, 10, 130)]
    {
        assert_eq!(alpha(from, &[(delivered, marked)]), [to], "{from}: {marked} of {delivered}");
    }
    assert_eq!(alpha(256, &[(20, 0); 12]), [240, 225, 210, 196, 183, 171, 160, 150, 140, 131, 122, 114]);
    assert_eq!(alpha(256, &[(20, 10); 8])[..7], [248, 240, 233, 226, 219, 213, 207]);
    assert_eq!(alpha(256, &[(20, 10); 200])[199], 128);
    let rising = alpha(0, &[(20, 20); 200]);
    assert_eq!((&rising[..13], rising[199]), (&[16, 31, 45, 58, 70, 81, 91, 101, 110, 119, 127, 135, 142][..], 241));
    let falling = alpha(256, &[(20, 0); 60]);
    assert_eq!(falling.iter().position(|&alpha| alpha == 0), Some(52), "no marks: zero after 53 rounds");
}

#[test]
fn marks_cut_by_a_third_of_their_average() {
    for (alpha, left, of_100) in [(256, 171, 66), (240, 177, 69), (128, 214, 83), (64, 235, 91), (16, 251, 98), (3, 256, 100)] {
        let mut two = v2();
        two.phase = in_state(BbrState::Cruise);
        two.marks.alpha = alpha;
        two.marks.in_round = true;
        assert_eq!(two.ecn_cut(), left, "{alpha}");
        two.adapt_lower_bounds(&Conn { cwnd: 100, ..conn() });
        assert_eq!((two.bounds.inflight_lo, two.bounds.bw_lo), (of_100, BbrRate::UNSET), "{alpha}: the rate has no bound");
    }
}

#[test]
fn losses_cut_to_what_was_delivered_but_not_by_more_than_beta() {
    for (latest, inflight_lo) in [(30, 30), (20, 26)] {
        let mut two = v2();
        two.phase = in_state(BbrState::Cruise);
        two.losses.in_round = true;
        (two.bounds.inflight_lo, two.latest.inflight, two.latest.bw) = (37, latest, BbrRate(9_000));
        two.adapt_lower_bounds(&conn());
        assert_eq!((two.bounds.inflight_lo, two.bounds.bw_lo), (inflight_lo, BbrRate(9_739)));
    }
    let mut fast = v2();
    fast.phase = in_state(BbrState::Cruise);
    (fast.losses.in_round, fast.latest.bw) = (true, BbrRate(12_000));
    fast.adapt_lower_bounds(&conn());
    assert_eq!(fast.bounds.bw_lo, BbrRate(12_000));
    // both: the marks' bound is made before the losses cut, and has no floor. 37 * 171 / 256 = 24
    let mut both = v2();
    both.phase = in_state(BbrState::Cruise);
    (both.losses.in_round, both.marks.in_round) = (true, true);
    (both.bounds.inflight_lo, both.latest.inflight) = (37, 30);
    both.adapt_lower_bounds(&conn());
    assert_eq!(both.bounds.inflight_lo, 24);
    // what is asked for by probing is not answered
    for mode in [BbrState::Startup, BbrState::Refill, BbrState::Up] {
        let mut probing = v2();
        probing.phase = in_state(mode);
        probing.losses.in_round = true;
        probing.adapt_lower_bounds(&conn());
        assert_eq!((probing.bounds.inflight_lo, probing.bounds.bw_lo), (UNSET, BbrRate::UNSET));
    }
}

#[test]
fn the_step_of_a_probe_doubles_each_round() {
    for (cwnd, counts) in [(37, vec![37, 18, 9, 4, 2, 1, 1]), (265, vec![265, 132, 66, 33, 16, 8, 4, 2, 1])] {
        let conn = Conn { cwnd, ..conn() };
        let mut climb = Climb::start(&conn, 0, 0);
        let mut steps = vec![climb.cnt];
        for _ in 1..counts.len() {
            climb.raise_slope(&conn);
            steps.push(climb.cnt);
        }
        assert_eq!(steps, counts);
    }
}

#[test]
fn marks_alone_begin_a_probe_of_v3_with_a_large_step() {
    for (inflight_hi, up_rounds) in [(265, 7), (18, 3), (2, 0), (UNSET, 30)] {
        let mut three = v3();
        three.phase = in_state(BbrState::Cruise);
        three.marks.in_cycle = true;
        three.bounds.inflight_hi = inflight_hi;
        assert!(probe_is_due(&mut three, &conn()));
        assert!(matches!(three.phase, BbrPhase::Refill { up_rounds: rounds } if rounds == up_rounds), "{inflight_hi}");
    }
    // not with losses, nor while the window is being reduced, nor in v2
    let mut three = v3();
    three.phase = in_state(BbrState::Cruise);
    three.phase.wait().until = 1;
    three.marks.in_cycle = true;
    assert!(!probe_is_due(&mut three, &Conn { state: CaState::Cwr, ..conn() }));
    three.losses.in_cycle = true;
    assert!(!probe_is_due(&mut three, &conn()));
    let mut two = v2();
    two.phase = in_state(BbrState::Cruise);
    two.phase.wait().until = 1;
    two.marks.in_cycle = true;
    assert!(!probe_is_due(&mut two, &conn()));
}

#[test]
fn a_probe_that_repairs_a_loss_counts_for_v3() {
    for (latest, too_high) in [(50, true), (51, false)] {
        let mut three = v3();
        three.probe_samples = true;
        three.latest.inflight = latest;
        three.cwnd_event(&mut conn(), CaEvent::ProbeRepairedLoss { app_limited: false });
        assert!(three.losses.in_round && three.last_probe.too_high == too_high, "{latest}");
    }
    let mut two = v2();
    two.cwnd_event(&mut conn(), CaEvent::ProbeRepairedLoss { app_limited: false });
    assert!(!two.losses.in_round);
}

#[test]
fn a_quarter_more_is_growth() {
    let search = FullBw { bw: BbrRate(13_852), ..FullBw::default() };
    assert!(!search.is_growth(BbrRate(17_314)) && search.is_growth(BbrRate(17_315)));
}

#[test]
fn a_probe_is_due_after_its_wait_or_as_many_rounds_as_reno_would_need() {
    let mut two = v2();
    two.phase = in_state(BbrState::Cruise);
    // 17 segments: 17 rounds, of which one was drawn
    let conn = Conn { cwnd: 40, pacing_rate: 1_183_576, ..conn() };
    two.phase.wait().until = 2_345_678;
    two.phase.wait().rounds = 16;
    assert!(!probe_is_due(&mut two, &conn));
    two.phase.wait().rounds = 17;
    assert!(probe_is_due(&mut two.clone(), &conn));
    two.phase.wait().rounds = 0;
    two.now_us = 2_345_678;
    assert!(!probe_is_due(&mut two, &conn));
    two.now_us = 2_345_679;
    assert!(probe_is_due(&mut two, &conn) && two.phase.state() == BbrState::Refill);
    let mut far = v2();
    far.min_rtt.rtt = 1_000_000;
    far.phase = in_state(BbrState::Cruise);
    far.phase.wait().until = 1 << 40;
    far.phase.wait().rounds = 63;
    assert!(probe_is_due(&mut far, &Conn { cwnd: 1000, ..conn.clone() }), "63 rounds at the most");
}

/// An ACK of one segment with this RTT at `ms`.
fn ack(ms: u64, rtt_us: u32) -> (Conn, RateSample) {
    let conn = Conn { now: Instant::from_millis(ms), ..conn() };
    (conn, RateSample { ack_delivered: 1, rtt_us: Some(rtt_us), sample_delivered: Some(1), ..RateSample::default() })
}

#[test]
fn probe_rtt_comes_five_seconds_after_the_last_smaller_rtt() {
    for (ms, mode) in [(6_000, BbrState::Cruise), (6_001, BbrState::ProbeRtt)] {
        let mut two = v2();
        two.phase = in_state(BbrState::Cruise);
        two.probe_rtt_min.stamp = 1_000;
        let (mut conn, sample) = ack(ms, 30_000);
        two.update_min_rtt(&mut conn, &sample);
        assert_eq!((two.phase.state(), conn.holds_back), (mode, mode == BbrState::ProbeRtt), "{ms}");
    }
    // an equal RTT is enough for v2, not for v3
    let (mut conn, sample) = ack(4_000, 20_000);
    let (mut two, mut three) = (v2(), v3());
    two.update_min_rtt(&mut conn, &sample);
    three.update_min_rtt(&mut conn, &sample);
    assert_eq!((two.probe_rtt_min.stamp, three.probe_rtt_min.stamp), (4_000, 0));
    // after ten seconds the larger one is taken
    let mut old = v2();
    old.phase = in_state(BbrState::Cruise);
    let (mut late, larger) = ack(10_001, 30_000);
    old.update_min_rtt(&mut late, &larger);
    assert_eq!(old.min_rtt.rtt, 30_000);
}

#[test]
fn probe_rtt_lasts_200_ms_and_a_round() {
    let mut two = v2();
    two.full_bw.reached = true;
    two.phase = in_state(BbrState::Cruise);
    two.prior_cwnd = 37;
    let (mut conn, sample) = ack(6_000, 30_000);
    conn.snd_nxt = 30;
    conn.snd_una = 0;
    two.update_min_rtt(&mut conn, &sample);
    assert_eq!((two.phase.state(), two.phase.rtt_probe().done), (BbrState::ProbeRtt, None), "30 are in flight, more than 9");
    let quiet = |ms| Conn { now: Instant::from_millis(ms), snd_una: 22, snd_nxt: 30, cwnd: 9, ..conn.clone() };
    two.update_min_rtt(&mut quiet(6_020), &sample);
    assert_eq!(two.phase.rtt_probe().done, Some(6_220));
    two.update_min_rtt(&mut quiet(6_221), &sample);
    assert_eq!(two.phase.state(), BbrState::ProbeRtt, "no round yet");
    two.round_start = true;
    two.update_min_rtt(&mut quiet(6_220), &sample);
    assert_eq!(two.phase.state(), BbrState::ProbeRtt);
    (two.bounds.bw_lo, two.bounds.inflight_lo) = (BbrRate(1), 1);
    let mut after = quiet(6_221);
    two.update_min_rtt(&mut after, &sample);
    assert_eq!(
        (two.phase.state(), after.cwnd, two.bounds.bw_lo, two.bounds.inflight_lo),
        (BbrState::Cruise, 37, BbrRate::UNSET, UNSET)
    );
    // before the pipe was ever full: back to STARTUP
    let mut young = v2();
    young.phase = in_state(BbrState::ProbeRtt);
    *young.phase.rtt_probe() = RttProbe { done: Some(6_220), round_done: true };
    young.update_min_rtt(&mut quiet(6_221), &sample);
    assert_eq!(young.phase.state(), BbrState::Startup);
}

#[test]
fn an_undo_restores_the_bounds_of_before() {
    let mut three = v3();
    (three.bounds.bw_lo, three.bounds.inflight_lo, three.bounds.inflight_hi) = (BbrRate::UNSET, 30, 40);
    let mut conn = Conn { cwnd: 37, ..conn() };
    three.ssthresh(&conn, Congestion::Loss);
    (three.bounds.bw_lo, three.bounds.inflight_lo, three.bounds.inflight_hi, three.losses.in_round) =
        (BbrRate(9_000), 20, 25, true);
    three.full_bw = FullBw { bw: BbrRate(5), rounds: 2, now: true, reached: true };
    conn.cwnd = 12;
    assert_eq!(three.undo_cwnd(&mut conn), 37);
    assert_eq!((three.bounds.bw_lo, three.bounds.inflight_lo, three.bounds.inflight_hi), (BbrRate::UNSET, 30, 40));
    assert!(!three.losses.in_round && !three.full_bw.now && three.full_bw.bw == BbrRate(0));
}

#[test]
fn a_timeout_keeps_what_was_in_flight_as_a_bound_and_restores_the_window() {
    let mut two = v2();
    two.phase = in_state(BbrState::Cruise);
    two.prior_cwnd = 37;
    let mut conn = Conn { cwnd: 3, ..conn() };
    two.set_state(&mut conn, CaState::Loss);
    assert_eq!(two.bounds.inflight_lo, 37);
    two.set_state(&mut conn, CaState::Open);
    assert_eq!(conn.cwnd, 37);
    // a probe is not bound
    let mut probing = v2();
    probing.phase = in_state(BbrState::Up);
    probing.set_state(&mut conn, CaState::Loss);
    assert_eq!(probing.bounds.inflight_lo, UNSET);
}

#[test]
fn startup_ends_after_two_rounds_of_half_marked() {
    let mut two = v2();
    let mut conn = Conn { cwnd: 40, pacing_rate: 1_183_576, ..conn() };
    for (round, ended) in [(1, false), (2, true)] {
        conn.delivered = 1 + 20 * round;
        conn.delivered_ce = 11 * round;
        two.update_alpha(&conn);
        assert_eq!((two.full_bw.reached, two.bounds.inflight_hi == 17), (ended, ended), "round {round}");
    }
}

#[test]
fn startup_ends_with_many_lossy_acks_in_a_round_of_recovery() {
    let conn = Conn { cwnd: 40, pacing_rate: 1_183_576, state: CaState::Recovery, ..conn() };
    let lossy = RateSample { ack_lost: 1, sample_lost: 5, tx_in_flight: 40, ..RateSample::default() };
    let mut two = v2();
    for _ in 0..7 {
        two.check_startup_loss(&conn, &lossy);
    }
    two.losses.round_start = true;
    let mut early = two.clone();
    early.check_startup_loss(&conn, &RateSample { ack_lost: 0, ..lossy });
    assert!(!early.full_bw.reached && early.losses.events == 0, "seven in the round");
    let mut open = two.clone();
    open.check_startup_loss(&Conn { state: CaState::Open, ..conn.clone() }, &lossy);
    assert!(!open.full_bw.reached);
    two.latest.inflight = 30;
    two.check_startup_loss(&conn, &lossy);
    assert!(two.full_bw.reached && two.bounds.inflight_hi == 17);
    // v3 keeps what was delivered, and needs six
    let mut three = v3();
    three.latest.inflight = 30;
    for _ in 0..5 {
        three.check_startup_loss(&conn, &lossy);
    }
    three.losses.round_start = true;
    three.check_startup_loss(&conn, &lossy);
    assert!(three.full_bw.reached && three.bounds.inflight_hi == 30);
}

#[test]
fn an_application_that_resumes_paces_at_the_estimate() {
    let mut two = v2();
    two.phase = in_state(BbrState::Cruise);
    two.full_bw.reached = true;
    let mut conn = Conn { pacing_rate: 5_000_000, ..conn() };
    two.cwnd_event(&mut conn, CaEvent::TxStart { idle: Duration::ZERO, app_limited: false });
    assert_eq!((two.idle_restart, conn.pacing_rate), (false, 5_000_000), "not the application's pause");
    two.cwnd_event(&mut conn, CaEvent::TxStart { idle: Duration::ZERO, app_limited: true });
    assert_eq!((two.idle_restart, conn.pacing_rate), (true, 1_183_576));
    // and no PROBE_RTT however long the pause was
    let (mut late, sample) = ack(60_000, 30_000);
    two.update_min_rtt(&mut late, &sample);
    assert_eq!((two.phase.state(), two.idle_restart), (BbrState::Cruise, false));
}
