//! Prague by hand-computed vectors and short stories.

use super::*;
use crate::cc::driver::conn;
use crate::packet::HEADERS;
use serde_json::{json, Value};

/// Module `version` with other parameters, outside slow start, on a connection whose round trip is `srtt_8us`.
fn prague(params: Value, srtt_8us: u32, segments: f64) -> (State, Conn) {
    let params = Params::from_json(params.as_object().unwrap()).unwrap();
    let mut conn = Conn { ssthresh: 2, cwnd: segments.ceil() as u32, headers: HEADERS, ..conn() };
    conn.rtt.srtt_8us = srtt_8us;
    let mut state = State::new(params, &CcContext::default());
    state.init(&mut conn);
    state.window = (segments * SEGMENT as f64) as u64;
    state.round = 4;
    state.update_increase(&conn);
    (state, conn)
}

fn sample(newly_delivered: u32, newly_marked: u32) -> RateSample {
    RateSample { ack_delivered: newly_delivered, ack_marked: newly_marked, ..RateSample::default() }
}

/// alpha moves from `before` after a round with `marked` of `delivered`.
fn update_alpha(before: u64, marked: u64, delivered: u64) -> u64 {
    let (mut state, mut conn) = prague(json!({}), 80_000, 10.0);
    state.upscaled_alpha = before;
    state.saw_ce = true;
    conn.now = Instant::from_millis(25);
    conn.snd_una = state.next_seq;
    (conn.delivered, conn.delivered_ce) = (delivered, marked);
    state.end_round(&mut conn);
    state.upscaled_alpha
}

// ---- alpha

#[test]
fn alpha_moves_by_a_sixteenth_in_24_bits() {
    // U - (U >> 4) + marked * 2^24 / delivered
    let table = [
        (0, 5, 9, 9_320_675),
        (0, 8, 9, 14_913_080),
        (9_320_675, 0, 16, 8_738_133),
        (8_738_133, 0, 18, 8_192_000),
        (8_192_000, 1, 100, 7_847_772),
        (7_847_772, 10, 100, 9_035_008),
        (9_035_008, 50, 100, 16_858_928),
        (16_858_928, 100, 100, 32_582_461),
        (1 << 28, 0, 10, 251_658_240),
        (1 << 28, 12, 10, 1 << 28),
        (15, 0, 10, 15),
        (16, 0, 10, 15),
    ];
    for (before, marked, delivered, after) in table {
        assert_eq!(update_alpha(before, marked, delivered), after, "{before} {marked}/{delivered}");
    }
    for (marked, of, after) in [(1, 10, 17_285_252), (1, 2, 86_426_271), (1, 1, 172_852_537)] {
        assert_eq!((0..16).fold(0, |alpha, _| update_alpha(alpha, marked, of)), after);
    }
}

#[test]
fn alpha_waits_for_a_mark_for_the_round_and_for_the_target() {
    let (mut state, mut conn) = prague(json!({"first_mark": "alpha"}), 80_000, 10.0);
    let one = 1 << 28;
    let mut at = |cc: &mut State, ms, una| {
        (conn.now, conn.snd_una) = (Instant::from_millis(ms), una);
        cc.end_round(&mut conn);
        (cc.upscaled_alpha, cc.round)
    };
    // no mark yet: rounds go by (of 10 ms, counted since 25 ms are over), alpha stays
    assert_eq!(at(&mut state, 30, 10), (one, 5));
    state.saw_ce = true;
    // the round is over, and alpha has never moved
    assert_eq!(at(&mut state, 40, 9), (one, 5));
    assert_eq!(at(&mut state, 40, 10), (one - (one >> 4), 6));
    // 20 ms later it is too early for a flow that counts as one of 25 ms
    assert_eq!(at(&mut state, 60, 10), (one - (one >> 4), 6));
    assert_eq!(at(&mut state, 65, 10).1, 7);
}

#[test]
fn rounds_in_slow_start_do_not_count() {
    for (ssthresh, rounds) in [(2, 1), (u32::MAX, 0)] {
        let (mut state, conn) = prague(json!({}), 80_000, 10.0);
        state.round = 0;
        state.begin_round(&Conn { ssthresh, ..conn });
        assert_eq!(state.round, rounds);
    }
}

// ---- reductions

#[test]
fn a_mark_cuts_half_of_alpha_in_fractions_of_a_segment() {
    // (16 alpha, window before, after), 2^20 a segment
    let table = [
        (16 * 838_861, 10_485_760, 10_223_616),
        (20_132_656, 38_010_880, 36_585_472),
        (1 << 26, 20_971_520, 18_350_080),
        (1 << 27, 10_485_760, 7_864_320),
        (1 << 28, 10_485_760, 5_242_880),
        (1 << 28, 3_145_728, 1_572_864),
        (1 << 23, 104_857_600, 103_219_200),
        (16, 1_048_576, 1_048_576),
        (16, 10_485_760, 10_485_760),
        (16, 33_554_432, 33_554_431),
    ];
    for (alpha, before, after) in table {
        let (mut state, conn) = prague(json!({}), 80_000, 10.0);
        (state.upscaled_alpha, state.window) = (alpha, before);
        state.cut_for_mark(&conn);
        assert_eq!(state.window, after, "{alpha} {before}");
    }
}

#[test]
fn cuts_for_marks_are_25_ms_apart_once_independent_of_the_round_trip() {
    for (round, cuts) in [(4, 1), (3, 2)] {
        let (mut state, mut conn) = prague(json!({}), 80_000, 10.0);
        (state.upscaled_alpha, state.round) = (1 << 28, round);
        for ms in [100, 124] {
            conn.now = Instant::from_millis(ms);
            assert_eq!(state.ssthresh(&conn, Congestion::Ecn), 2);
        }
        assert_eq!(state.window, (10 * SEGMENT) >> cuts, "round {round}");
        conn.now = Instant::from_millis(125);
        state.ssthresh(&conn, Congestion::Ecn);
        assert_eq!(state.window, (10 * SEGMENT) >> (cuts + 1));
    }
}

#[test]
fn loss_halves_at_once_and_stops_growth_until_open() {
    let (mut state, mut conn) = prague(json!({}), 80_000, 20.0);
    state.set_state(&mut conn, CaState::Recovery);
    assert_eq!(state.window, 10 * SEGMENT);
    conn.state = CaState::Recovery;
    // the window of the connection follows by one segment an ACK
    for cwnd in (10..20).rev() {
        state.cong_control(&mut conn, &sample(2, 0));
        assert_eq!((conn.cwnd, state.window), (cwnd, 10 * SEGMENT));
    }
    state.cong_control(&mut conn, &sample(2, 0));
    assert_eq!((conn.cwnd, state.window, conn.ssthresh), (10, 10 * SEGMENT, 10));
    state.set_state(&mut conn, CaState::Open);
    conn.state = CaState::Open;
    state.cong_control(&mut conn, &sample(2, 0));
    assert!(state.window > 10 * SEGMENT);
    // spurious: rate and window of before
    let (window, rate) = (conn.cwnd, state.rate);
    state.set_state(&mut conn, CaState::Recovery);
    conn.state = CaState::Recovery;
    (0..3).for_each(|_| state.cong_control(&mut conn, &sample(2, 0)));
    assert_eq!((conn.cwnd, window), (8, 11));
    assert_eq!((state.undo_cwnd(&mut conn), state.rate, state.in_loss), (11, rate, false));
}

#[test]
fn a_timeout_halves_too() {
    let (mut state, mut conn) = prague(json!({}), 80_000, 20.0);
    assert_eq!(state.ssthresh(&conn, Congestion::Timeout), 2);
    state.cwnd_event(&mut conn, CaEvent::Loss);
    assert_eq!(state.window, 10 * SEGMENT);
}

// ---- growth

#[test]
fn growth_is_that_of_25_ms_below_it() {
    // (1/8 us, increase a window, for a segment at windows of 2, 10, 100; for two at once)
    let table = [
        (8_000, 1_678, [839, 168, 17], [1_678, 336, 34]),
        (40_000, 41_943, [20_972, 4_194, 419], [41_943, 8_389, 839]),
        (80_000, 167_772, [83_886, 16_777, 1_678], [167_772, 33_554, 3_355]),
        (160_000, 671_089, [335_545, 67_109, 6_711], [671_089, 134_218, 13_422]),
        (200_000, 1_048_576, [524_288, 104_858, 10_486], [1_048_576, 209_715, 20_972]),
        (808_000, 1_048_576, [524_288, 104_858, 10_486], [1_048_576, 209_715, 20_972]),
    ];
    for (srtt, increase, one, two) in table {
        for (acked, grown) in [(1, one), (2, two)] {
            for (segments, grows) in [2.0, 10.0, 100.0].into_iter().zip(grown) {
                let (mut state, conn) = prague(json!({"mode": "window"}), srtt, segments);
                let before = state.window;
                state.grow(acked, &conn);
                assert_eq!((state.increase, state.window - before), (increase, grows), "{srtt} {segments} {acked}");
            }
        }
    }
    // smaller segments: as many bytes
    let (mut small, conn_small) = prague(json!({"mode": "window"}), 200_000, 10.0);
    small.mtu = 750;
    small.grow(1, &conn_small);
    assert_eq!(small.window - 10 * SEGMENT, 2 * 104_858);
    // ten segments of a window of ten, one by one: 10.15886
    let (mut state, conn) = prague(json!({}), 80_000, 10.0);
    (0..10).for_each(|_| state.grow(1, &conn));
    assert_eq!(state.window, 10_652_340);
}

#[test]
fn module_0_6_counts_round_trips_in_128_us() {
    // (1/8 us, increase): 7, 39, 78 and 156 units of 195, squared
    for (srtt, increase) in [(8_000, 1_351), (40_000, 41_943), (80_000, 167_772), (160_000, 671_089), (200_000, SEGMENT)] {
        let (mut state, conn) = prague(json!({"version": "0.6", "rtt_transition": 4}), srtt, 10.0);
        assert_eq!(state.increase, increase, "{srtt}");
        // a share of whole segments, carried over
        state.grow(1, &conn);
        assert_eq!(state.carry as u64, (increase + 5) / 10);
    }
    // 500 rounds before anything is scaled
    let (mut state, conn) = prague(json!({"version": "0.6"}), 80_000, 10.0);
    assert_eq!(state.increase, SEGMENT);
    state.round = 499;
    state.begin_round(&conn);
    assert_eq!((state.increase, state.round), (167_772, 500));
}

#[test]
fn only_module_0_5_grows_where_its_window_is_not_the_limit() {
    for (version, grows) in [("0.7", false), ("0.6", false), ("0.5", true)] {
        let (mut state, mut conn) = prague(json!({"version": version}), 80_000, 10.0);
        conn.is_cwnd_limited = false;
        let (window, carry) = (state.window, state.carry);
        state.update_window(&mut conn, &sample(1, 0));
        assert_eq!(state.window > window || state.carry > carry, grows, "{version}");
        // one unmarked segment of a window of ten
        if grows {
            assert_eq!(state.carry, (SEGMENT as i64 + 5) / 10);
        }
    }
}

#[test]
fn slow_start_ends_by_the_mark_or_the_loss_that_lowers_the_window() {
    for version in ["0.5", "0.6", "0.7"] {
        for (state_of_loss, cause) in
            [(None, ExitCause::Ecn), (Some(CaState::Recovery), ExitCause::Loss), (Some(CaState::Loss), ExitCause::Timeout)]
        {
            let (mut state, mut conn) = prague(json!({ "version": version }), 80_000, 20.0);
            conn.ssthresh = u32::MAX;
            state.upscaled_alpha = 1 << (state.alpha_bits() + SHIFT_G);
            match state_of_loss {
                None => state.cut_for_mark(&conn),
                Some(loss) => {
                    state.cut_for_loss(&conn);
                    conn.state = loss;
                }
            }
            state.follow(&mut conn);
            assert_eq!((conn.cwnd, conn.exits.first.map(|exit| exit.cause)), (19, Some(cause)), "{version} {cause:?}");
        }
    }
}

#[test]
fn module_0_6_carries_what_is_less_than_a_segment() {
    let (mut state, mut conn) = prague(json!({"version": "0.6"}), 80_000, 10.0);
    // alpha of 3/8 takes 10 * 3/16 = 1.875 segments of 10: one at once, the rest when there is a whole one
    state.upscaled_alpha = 6 << 20;
    state.cut_for_mark(&conn);
    state.follow(&mut conn);
    let eighth = SEGMENT as i64 / 8;
    assert_eq!((conn.cwnd, conn.ssthresh, state.carry), (9, 9, -7 * eighth));
    state.follow(&mut conn);
    assert_eq!((conn.cwnd, state.carry), (9, -7 * eighth));
    // loss takes half of nine and of the carry
    state.set_state(&mut conn, CaState::Recovery);
    assert_eq!((state.carry, state.in_loss), (-7 * eighth - 36 * eighth + 28 * eighth / 8, true));
    (0..20).for_each(|_| state.follow(&mut conn));
    // 39.5 eighths are four segments and 7.5 eighths
    assert_eq!((conn.cwnd, state.carry), (5, -15 * eighth / 2));
    // two at the least
    state.carry = -5 * SEGMENT as i64;
    (0..20).for_each(|_| state.follow(&mut conn));
    assert_eq!((conn.cwnd, state.carry), (2, 0));
    // it paces by whole segments, or by what is in flight: 2, and 10 of 1500 B in 10 ms
    for (in_flight, rate) in [(0, 300_000), (10, 1_500_000)] {
        (conn.snd_nxt, conn.ssthresh) = (in_flight, 2);
        state.update_pacing(&mut conn);
        assert_eq!(conn.pacing_rate, rate);
    }
}

#[test]
fn only_unmarked_segments_grow_the_window() {
    let (mut state, mut conn) = prague(json!({}), 200_000, 10.0);
    state.saw_ce = true;
    state.update_window(&mut conn, &sample(2, 2));
    assert_eq!(state.window, 10 * SEGMENT);
    state.update_window(&mut conn, &sample(2, 1));
    assert_eq!(state.window, 10 * SEGMENT + 104_858);
    conn.is_cwnd_limited = false;
    state.update_window(&mut conn, &sample(2, 0));
    assert_eq!(state.window, 10 * SEGMENT + 104_858);
}

#[test]
fn the_first_mark_ends_slow_start() {
    let (mut state, mut conn) = prague(json!({}), 80_000, 10.0);
    conn.ssthresh = crate::cc::conn::INFINITE_SSTHRESH;
    for n in 1..=5 {
        state.cong_control(&mut conn, &sample(1, 0));
        assert_eq!((conn.cwnd, state.window), (10 + n, u64::from(10 + n) * SEGMENT));
    }
    // 15 / 2 = 7.5: cwnd goes down to 8, one an ACK
    state.cong_control(&mut conn, &sample(1, 1));
    assert_eq!((conn.cwnd, conn.ssthresh, state.window), (14, 14, 15 * SEGMENT / 2));
    for cwnd in (8..14).rev() {
        state.cong_control(&mut conn, &sample(1, 1));
        assert_eq!((conn.cwnd, conn.ssthresh), (cwnd, cwnd));
    }
    state.cong_control(&mut conn, &sample(1, 1));
    assert_eq!((conn.cwnd, conn.ssthresh), (8, 8));
}

#[test]
fn cwnd_is_the_window_rounded_up_and_two_at_the_least() {
    for (window, target) in [(5_242_880, 5), (5_242_881, 6), (2_097_153, 3), (524_288, 2)] {
        let (mut state, mut conn) = prague(json!({}), 80_000, 10.0);
        state.window = window;
        (0..20).for_each(|_| state.follow(&mut conn));
        assert_eq!(conn.cwnd, target);
    }
}

// ---- pacing

#[test]
fn it_paces_at_the_rate_of_its_window() {
    // (whole segments, in flight, 1/8 us, cwnd, ssthresh) -> rate, largest burst
    let table = [
        (10, 0, 80_000, 10, u32::MAX, 3_000_000, 1),
        (10, 0, 160_008, 10, u32::MAX, 1_499_920, 1),
        (10, 0, 400_000, 10, u32::MAX, 600_000, 1),
        // twice that below half of ssthresh, and not at it
        (10, 0, 80_000, 10, 22, 3_000_000, 1),
        (10, 0, 80_000, 10, 21, 1_500_000, 1),
        (36, 36, 87_208, 37, 35, 4_953_672, 1),
        (36, 37, 87_208, 37, 35, 5_091_274, 1),
        (18, 18, 171_064, 19, 18, 1_262_682, 1),
        (4, 2, 134_176, 5, 5, 357_736, 1),
        (86, 86, 80_000, 86, 80, 12_900_000, 2),
        (2, 2, 8_000, 2, 2, 3_000_000, 1),
        (1, 1, 8_000_000, 2, 2, 12_500, 1),
    ];
    for (segments, in_flight, srtt, cwnd, ssthresh, rate, burst) in table {
        let (mut state, conn) = prague(json!({}), srtt, f64::from(segments) + 0.5);
        let mut conn = Conn { cwnd, ssthresh, snd_nxt: in_flight, ..conn };
        state.update_pacing(&mut conn);
        assert_eq!((conn.pacing_rate, state.max_burst), (rate, burst), "{segments} {in_flight} {srtt}");
    }
    // the option of AccECN takes payload, not rate: 1436 B of 1500
    let params = Params::default();
    let mut conn = Conn { mss: 1436, headers: HEADERS + 12, ..conn() };
    conn.rtt.srtt_8us = 80_000;
    let mut state = State::new(params, &CcContext::default());
    state.init(&mut conn);
    assert_eq!((state.mtu, conn.pacing_rate, conn.paced), (1500, 3_000_000, true));
}

// ---- rate mode

#[test]
fn rate_and_window_follow_each_other() {
    let (mut state, conn) = prague(json!({}), 108_000, 4.0);
    assert_eq!(state.to_rate(4 * SEGMENT), 444_444);
    state.slow_rtt = 108_000 << 7;
    assert_eq!(state.to_window(444_444, &conn), 3_999_996);
}

#[test]
fn the_rate_grows_by_a_segment_a_round_and_falls_by_half_of_alpha() {
    for (rate, acked, srtt, after) in
        [(400_000, 1, 108_000, 408_988), (400_000, 2, 108_000, 417_976), (120_000, 1, 80_000, 151_457)]
    {
        let (mut state, conn) = prague(json!({"mode": "rate"}), srtt, 4.0);
        state.rate = rate;
        state.grow(acked, &conn);
        assert_eq!(state.rate, after);
    }
    let (mut cut, conn) = prague(json!({"mode": "rate"}), 80_000, 4.0);
    (cut.rate, cut.upscaled_alpha) = (400_000, 1 << 26);
    cut.cut_for_mark(&conn);
    assert_eq!(cut.rate, 350_000);
}

#[test]
fn the_least_rate_stays_while_one_of_two_segments_is_in_flight() {
    // 12,500 B/s are 1500 B in 120 ms, on a path of 100 us: no second segment is ever in flight. If the window were the limit,
    // one acknowledged segment would add 1500 * 2^23 / 200,000 = 62,914 B/s, over a window of one segment in 25 ms
    for (limited, rate) in [(false, 12_500), (true, 75_414)] {
        let (mut state, mut conn) = prague(json!({"mode": "rate"}), 800, 2.0);
        (state.rate, state.saw_ce) = (MIN_RATE, true);
        state.window = state.to_window(MIN_RATE, &conn);
        (conn.is_cwnd_limited, conn.max_packets_out) = (limited, 1);
        state.update_window(&mut conn, &sample(1, 0));
        assert_eq!((state.rate, conn.cwnd), (rate, 2), "{limited}");
    }
}

#[test]
fn in_rate_mode_it_paces_a_little_faster_and_slower_by_turns() {
    for (rate, faster, slower) in [(400_000, 412_500, 387_500), (120_000, 123_750, 116_250)] {
        let (mut state, mut conn) = prague(json!({"mode": "rate"}), 80_000, 4.0);
        (state.rate, state.alpha_stamp) = (rate, Instant::from_millis(100));
        // half of 25 ms
        for (us, paced) in [(112_499, faster), (112_500, slower)] {
            conn.now = Instant::from_micros(us);
            state.update_pacing(&mut conn);
            assert_eq!((conn.pacing_rate, state.rate), (paced, rate));
        }
    }
}

#[test]
fn below_two_segments_in_25_ms_they_get_smaller() {
    for (rate, mtu) in [(130_000, 1500), (120_000, 1431), (60_000, 715), (12_500, 202)] {
        let (mut state, mut conn) = prague(json!({"mode": "rate"}), 80_000, 4.0);
        state.rate = rate;
        state.fit_segments(&mut conn);
        // 66 B of headers, 14 of them Ethernet's
        assert_eq!((state.mtu, conn.mss), (mtu, mtu - 52), "{rate}");
    }
    // half a segment in 10 ms is 1875 B in 25 ms; the window holds the same bytes
    let (mut state, mut conn) = prague(json!({}), 80_000, 0.5);
    (conn.cwnd, conn.ssthresh) = (3, 3);
    state.fit_segments(&mut conn);
    assert_eq!((state.mtu, state.window, conn.cwnd, conn.ssthresh), (938, SEGMENT / 2 * 1500 / 938, 2, 4));
    // they grow again: 2 * 202 / 1500 leaves no threshold (the module does not bound it), and no slow start
    let (mut grown, mut small) = prague(json!({}), 80_000, 30.0);
    (grown.mtu, small.mss, small.cwnd, small.ssthresh) = (202, 150, 30, 2);
    grown.fit_segments(&mut small);
    assert_eq!((grown.mtu, small.cwnd, small.ssthresh, small.in_slow_start()), (1500, 5, 0, false));
    // where the transport cannot
    let (mut whole, mut fixed) = prague(json!({}), 80_000, 0.5);
    fixed.least_mss = fixed.mss;
    whole.fit_segments(&mut fixed);
    assert_eq!((whole.mtu, fixed.mss), (1500, 1448));
}

#[test]
fn four_segments_and_less_are_controlled_by_rate_after_a_mark() {
    let (mut state, mut conn) = prague(json!({}), 108_000, 4.0);
    state.slow_rtt = 108_000 << 7;
    state.switch_mode(&conn);
    assert!(!state.rate_mode && state.rate == 444_444);
    state.saw_ce = true;
    state.switch_mode(&conn);
    assert!(state.rate_mode && state.window == 3_999_996);
    conn.cwnd = 5;
    state.switch_mode(&conn);
    // 8 * 10^6 * 1500 / 108000 = 111111, times 3.81469
    assert!(!state.rate_mode && state.rate == 423_854);
    let (old, _) = prague(json!({"version": "0.6"}), 108_000, 4.0);
    assert_eq!(old.params.mode, PragueMode::Window);
}

#[test]
fn a_version_sets_what_is_not_given() {
    let old = Params::from_json(json!({"version": "0.6", "min_burst": 1}).as_object().unwrap()).unwrap();
    assert_eq!((old.rtt_transition, old.min_burst, old.first_mark), (500, 1, FirstMark::Alpha));
    assert_eq!(
        Value::from(Params::versions()),
        json!({
            "0.7": {},
            "0.6": {"first_mark": "alpha", "rtt_transition": 500, "mode": "window", "min_burst": 2},
            "0.5": {"first_mark": "alpha", "rtt_transition": 1_000_000, "mode": "window"}
        })
    );
}
