//! Vectors of the fixed point, by hand and by integer emulation; those of rates and windows were also seen in traces of Linux 6.1 and 6.12.

use super::*;
use crate::cc::driver::conn;
use crate::units::Instant;

/// A connection with this pacing rate, bytes per second.
fn connection_paced_at(pacing_rate: u64) -> Conn {
    Conn { pacing_rate, ..conn() }
}

const V1: Bursts = crate::cc::bbr1::BURSTS;
const V2: Bursts = crate::cc::bbr2::BURSTS;
const V3: Bursts = crate::cc::bbr3::BURSTS;

#[test]
fn rates_are_segments_per_microsecond() {
    for (delivered, us, floor, ceil) in [
        (20, 20_000, 16_777, 16_778),
        (10, 20_001, 8_388, 8_389),
        (2, 1_211, 27_708, 27_709),
        (16, 19_379, 13_851, 13_852),
        (165, 40_000, 69_206, 69_207),
        (1, 1_000_000, 16, 17),
    ] {
        assert_eq!(
            (BbrRate::floor(delivered, us), BbrRate::ceil(delivered, us)),
            (BbrRate(floor), BbrRate(ceil)),
            "{delivered} in {us} us"
        );
    }
    // Linux's own report of 13852, and of three others
    for (bw, bytes) in [(13_852, 1_195_531), (16_777, 1_447_981), (16_778, 1_448_067), (69_207, 5_973_084)] {
        assert_eq!(BbrRate(bw).payload(1448), bytes, "{bw}");
    }
}

#[test]
fn pacing_is_one_percent_below_the_estimate() {
    for (gain, rate) in
        [(256, 1_183_576), (320, 1_479_470), (192, 887_682), (232, 1_072_616), (88, 406_854), (739, 3_416_652), (710, 3_282_575)]
    {
        assert_eq!(BbrRate(13_852).pacing(gain, 1448), rate, "gain {gain}");
    }
    for (gain, rate) in [(256, 5_913_354), (320, 7_391_692), (232, 5_358_977), (192, 4_435_015)] {
        assert_eq!(BbrRate(69_207).pacing(gain, 1448), rate, "gain {gain}");
    }
    assert_eq!(BbrRate(140).pacing(256, 1448), 11_962);
    assert_eq!(BbrRate(0).pacing(256, 1448), 1, "never zero");
}

#[test]
fn the_first_rate_is_the_window_a_round_trip() {
    for (srtt_us, gain, rate) in [(20_001, 739, 2_068_934), (20_001, 710, 1_987_744), (0, 739, 41_381_651), (0, 710, 39_757_743)]
    {
        let mut conn = conn();
        conn.rtt.srtt_8us = srtt_us << 3;
        let mut pacing = BbrPacing::new(&mut conn, gain);
        assert_eq!((conn.pacing_rate, conn.paced), (rate, true), "{srtt_us} {gain}");
        // until the pipe is full it only rises
        pacing.set(&mut conn, BbrRate(1), 256, false);
        assert_eq!(conn.pacing_rate, rate);
        pacing.set(&mut conn, BbrRate(13_852), 256, true);
        assert_eq!(conn.pacing_rate, 1_183_576);
    }
    // an RTT that becomes known later
    let mut conn = conn();
    let mut pacing = BbrPacing::new(&mut conn, 739);
    conn.rtt.srtt_8us = 20_001 << 3;
    pacing.set(&mut conn, BbrRate(1), 256, false);
    assert_eq!(conn.pacing_rate, 2_068_934);
}

#[test]
fn the_product_is_rounded_up() {
    for (gain, segments) in [(256, 17), (320, 21), (512, 34), (576, 38), (128, 9)] {
        assert_eq!(BbrRate(13_852).bdp(20_000, gain, 10), segments, "gain {gain}");
    }
    for (gain, segments) in [(256, 166), (320, 207), (512, 331), (576, 372), (128, 83)] {
        assert_eq!(BbrRate(69_207).bdp(40_000, gain, 10), segments, "gain {gain}");
    }
    assert_eq!(
        [BbrRate(13_852).bdp(40_000, 739, 10), BbrRate(140).bdp(60_000, 256, 10), BbrRate(13_852).bdp(UNSET, 256, 10)],
        [96, 1, 10]
    );
}

#[test]
fn bursts_follow_rate_and_round_trip() {
    for (rate, segments) in [(149_999, 1), (150_000, 2), (1_183_576, 2), (5_913_354, 3), (12_000_000, 8)] {
        assert_eq!(V1.goal(&connection_paced_at(rate), 20_000), segments, "v1 {rate}");
    }
    let v3 =
        [(1_183_576, 20_000, 2), (1_183_576, 4_000, 2), (1_183_576, 1_024, 12), (1_183_576, 1_000, 23), (1_183_576, 511, 45)];
    for (rate, rtt, segments) in v3.into_iter().chain([(125_000_000, 5_000, 45), (1, 20_000, 2)]) {
        assert_eq!(V3.goal(&connection_paced_at(rate), rtt), segments, "v3 {rate} {rtt}");
    }
    for (rate, rtt, segments) in [
        (1_183_576, 4_000, 3),
        (1_183_576, 1_000, 181),
        (125_000_000, 5_000, 85),
        (125_000_000, 2_000, 129),
        (125_000_000, 1_000, 265),
        (12_500_000, 500, 361),
        (1, UNSET, 1),
    ] {
        assert_eq!(V2.goal(&connection_paced_at(rate), rtt), segments, "v2 {rate} {rtt}");
        assert!(V2.burst_segments(&connection_paced_at(rate), rtt) <= 45, "a device takes 64 KiB");
    }
}

#[test]
fn what_pacing_holds_is_not_in_the_network() {
    // 3000 us at 13852 are 2 segments; probing for more, a burst of 2 is added
    let sample = RateSample { pacing_wait_us: 3_000, ..RateSample::default() };
    assert_eq!(in_network(20, &sample, BbrRate(13_852), None), 18);
    assert_eq!(in_network(20, &sample, BbrRate(13_852), Some(2)), 20);
    assert_eq!(in_network(1, &sample, BbrRate(13_852), None), 0);
}

#[test]
fn aggregation_is_what_comes_beyond_the_rate() {
    let mut aggregation = Aggregation::default();
    let mut at = |us, acked| {
        let conn = Conn { now: Instant::from_micros(us), cwnd: 100, ..conn() };
        aggregation.update(&conn, acked, BbrRate(13_852), false, AGGREGATION_ROUNDS);
        (aggregation.acked, aggregation.extra())
    };
    // by hand: 0 expected after 1 ms, 8 after 10, 16 after 20
    assert_eq!(at(1_000_000, 2), (2, 2));
    assert_eq!(at(1_001_000, 10), (12, 12));
    assert_eq!(at(1_010_000, 2), (14, 12), "8 expected: 6 extra");
    assert_eq!(at(1_020_000, 2), (2, 12), "14 are not more than 16: a new epoch");
    assert_eq!(aggregation.allowance(BbrRate(13_852)), 12);
    assert_eq!(Aggregation { extra: [500, 0], ..aggregation }.allowance(BbrRate(13_852)), 82, "at most 100 ms");
}

#[test]
fn an_epoch_ends_when_the_rate_explains_all_of_it() {
    // 8 expected after 10 ms
    for (first, left) in [(8, 2), (9, 11)] {
        let mut aggregation = Aggregation::default();
        for (us, acked) in [(1_000_000, first), (1_010_000, 2)] {
            let conn = Conn { now: Instant::from_micros(us), cwnd: 100, ..conn() };
            aggregation.update(&conn, acked, BbrRate(13_852), false, AGGREGATION_ROUNDS);
        }
        assert_eq!(aggregation.acked, left);
    }
}

#[test]
fn the_filter_of_aggregation_forgets_after_five_to_ten_rounds() {
    let mut aggregation = Aggregation::default();
    let mut left = Vec::new();
    for round in 0..12 {
        let conn = Conn { now: Instant::from_millis(1000 * (round + 1)), cwnd: 100, ..conn() };
        aggregation.update(&conn, if round == 0 { 40 } else { 1 }, BbrRate(13_852), true, AGGREGATION_ROUNDS);
        left.push(aggregation.extra());
    }
    // 40 in the first slot; the fifth round changes slots, the tenth clears the first
    assert_eq!(left, [40, 40, 40, 40, 40, 40, 40, 40, 40, 1, 1, 1]);
}

#[test]
fn a_window_bounds_what_aggregation_adds() {
    let mut aggregation = Aggregation::default();
    let conn = Conn { now: Instant::from_millis(1000), cwnd: 7, ..conn() };
    aggregation.update(&conn, 30, BbrRate(13_852), false, AGGREGATION_ROUNDS);
    assert_eq!(aggregation.extra(), 7);
}
