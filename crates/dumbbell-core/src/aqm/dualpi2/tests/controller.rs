use super::*;
use crate::aqm::dualpi2::controller::Controller;

fn controller(config: Value) -> Controller {
    params(config).setup(&context(10)).1
}

/// One update: p' before in units of 2^-32, delay and last delay in ns; p' after.
fn update_prob(config: &Value, before: u32, qdelay: u64, last: u64) -> u32 {
    let mut controller = controller(config.clone());
    controller.set(before, Duration(last));
    controller.update(Duration(qdelay));
    controller.prob()
}

fn share(prob: u32) -> f64 {
    f64::from(prob) / f64::from(MAX_PROB)
}

#[test]
fn updates_as_linux_computes_them() {
    // A = floor(41 (2^32 - 1) / 4e9) = 44, B = 879: p' += (44 (q - 15 ms) + 879 (q - last)) / 64
    let linux = json!({});
    for (before, qdelay, last, expected) in [
        (0, 15 * MS, 0, 206_015_625),
        (0, 20 * MS, 0, 278_125_000),
        (0, 20 * MS, 20 * MS, 3_437_500),
        (0, 16 * MS, 15 * MS, 14_421_875),
        (429_496_729, 10 * MS, 20 * MS, 288_715_479),
        (429_496_729, 0, 15 * MS, 213_168_604),
        (429_496_729, 0, 0, 419_184_229),
        (0, 0, 0, 0),
        (0, MS, MS, 0),
        (429_496_729, 15 * MS, 15 * MS, 429_496_729),
        (429_496_729, 16 * MS, 15 * MS, 443_918_604),
        (429_496_729, 14 * MS, 16 * MS, 401_340_479),
        (2_147_483_647, 30 * MS, 15 * MS, 2_363_811_772),
        (214_748_364, 0, MS, 190_701_489),
        (4_290_000_000, 40 * MS, 0, 4_294_967_295),
        (100_000, 15_000_001, 15 * MS, 100_014),
        (100_000, 14_999_999, 15 * MS, 99_986),
    ] {
        assert_eq!(update_prob(&linux, before, qdelay, last), expected, "{before} {qdelay} {last}");
        assert_eq!(update_prob(&json!({"version": "linux-5.10"}), before, qdelay, last), expected);
    }
}

#[test]
fn a_fall_by_more_than_one_can_go_unnoticed_in_32_bits() {
    let linux = json!({});
    // from 300 ms to 0: -(44 * 15 + 879 * 300) ms / 64 is below -2^31, and 32 bits of the difference are above p'
    assert_eq!(update_prob(&linux, 0x7fff_ffff, 0, 300 * MS), 0);
    // from 400 ms: more than 2^32 below, so that they are not: 2^31 - 1 - (44 * 15e6 + 879 * 400e6) / 64 + 2^32
    let fall = (44 * 15 * MS + 879 * 400 * MS) / 64;
    assert_eq!(u64::from(update_prob(&linux, 0x7fff_ffff, 0, 400 * MS)), (1_u64 << 31) - 1 + (1 << 32) - fall);
    assert!((share(update_prob(&linux, 0x7fff_ffff, 0, 400 * MS)) - 0.21849).abs() < 1e-5);
}

#[test]
fn updates_of_august_2019_have_half_the_gain() {
    let halved = json!({"arithmetic": "linux-127"});
    for (before, qdelay, last, expected) in [
        (0, 15, 0, 0.024172),
        (0, 20, 0, 0.032633),
        (0, 20, 20, 0.000403),
        (0, 16, 15, 0.001692),
        (429_496_729, 10, 20, 0.083482),
        (429_496_729, 0, 15, 0.074618),
        (429_496_729, 0, 0, 0.098790),
        (0, 0, 0, 0.0),
    ] {
        let got = share(update_prob(&halved, before, qdelay * MS, last * MS));
        assert!((got - expected).abs() < 6e-7, "{before} {qdelay} {last}: {got}, not {expected}");
    }
}

#[test]
fn terms_are_cut_each_in_july_2019_and_together_later() {
    // q 1 ns below the target, last 1 ns below q: terms -44 and 879
    let of =
        |arithmetic: &str, qdelay, last| i64::from(update_prob(&json!({"arithmetic": arithmetic}), 1000, qdelay, last)) - 1000;
    let below = |arithmetic| of(arithmetic, 15 * MS - 1, 15 * MS - 2);
    // 835 / 64 = 13.05; 835 / 127 = 6.6; 0 + 6; -1 (downwards) + 13
    assert_eq!(below("linux"), 13);
    assert_eq!(below("linux-127"), 6);
    assert_eq!(below("linux-127-terms"), 6);
    assert_eq!(below("linux-shift-terms"), 12);
    // nothing but -44: towards zero, and down
    let still = |arithmetic| of(arithmetic, 15 * MS - 1, 15 * MS - 1);
    assert_eq!([still("linux"), still("linux-127"), still("linux-127-terms"), still("linux-shift-terms")], [0, 0, 0, -1]);
    // -44 * 3 and 879 * 2: 1626 / 127 = 12; -1 + 13
    assert_eq!(of("linux-127", 15 * MS - 3, 15 * MS - 5), 12);
    assert_eq!(of("linux-127-terms", 15 * MS - 3, 15 * MS - 5), 12);
    // -44 * 5 = -220, 879 * 3 = 2637: 2417 / 127 = 19; -1 + 20; >> 6: -4 + 41
    assert_eq!(of("linux-127", 15 * MS - 5, 15 * MS - 8), 19);
    assert_eq!(of("linux-127-terms", 15 * MS - 5, 15 * MS - 8), 19);
    assert_eq!(of("linux-shift-terms", 15 * MS - 5, 15 * MS - 8), 37);
    // one unit more than cut together: -44 * 2 and 879 * 7: 6065 / 127 = 47.8, but 6153 / 127 = 48.4 and -88 / 127 = -0.7
    assert_eq!(of("linux-127", 15 * MS - 2, 15 * MS - 9), 47);
    assert_eq!(of("linux-127-terms", 15 * MS - 2, 15 * MS - 9), 48);
}

#[test]
fn updates_of_the_time_shifted_fifo() {
    // gains of 1 and 12 per ns; target 20 ms
    let old = json!({"version": "tsfifo"});
    let of = |before, qdelay, last| share(update_prob(&old, before, qdelay * MS, last * MS));
    assert!((of(0, 20, 0) - 0.055879).abs() < 1e-6);
    assert!((of(0, 40, 0) - 0.116415).abs() < 1e-6);
    // with overflow, never above 1 / k
    let capped = json!({"version": "tsfifo", "overload": "overflow"});
    assert_eq!(update_prob(&capped, MAX_PROB / 2 - 5, 40 * MS, 0), MAX_PROB / 2);
    assert_eq!(update_prob(&json!({"overload": "overflow", "coupling_factor": 3}), MAX_PROB / 3, 40 * MS, 0), MAX_PROB / 3);
}

#[test]
fn gains_are_cut_as_by_tc_and_the_kernel() {
    // tc cuts 0.16 Hz to 40/256, and floor(40 (2^32 - 1) / 4e9) = 42: at a constant 20 ms, 42 * 5 ms / 64
    assert_eq!(update_prob(&json!({"alpha": 0.16}), 0, 20 * MS, 20 * MS), (42 * 5 * MS / 64) as u32);
    // floor(1 (2^32 - 1) / 4e9) = 1
    assert_eq!(update_prob(&json!({"alpha": 1.0 / 256.0}), 0, 20 * MS, 20 * MS), (5 * MS / 64) as u32);
}

#[test]
fn max_rtt_and_typical_rtt_set_four_parameters() {
    let tupdate = |config: Value| params(config).setup(&context(10)).0.tupdate;
    assert_eq!(tupdate(json!({"max_rtt": 100 * MS})), Duration::from_micros(16_666));
    assert_eq!(tupdate(json!({"max_rtt": 100 * MS, "typical_rtt": 15 * MS})), Duration::from_millis(15));
    assert_eq!(tupdate(json!({"max_rtt": 20 * MS, "typical_rtt": 10 * MS})), Duration::from_micros(6_666));
    // alpha 0.15 and beta 3 Hz: 38/256 and 768/256, target 15 ms
    let both = json!({"max_rtt": 100 * MS, "typical_rtt": 15 * MS});
    let explicit = json!({"alpha": 38.0 / 256.0, "beta": 3.0, "target": 15 * MS});
    for (qdelay, last) in [(15 * MS, 0), (20 * MS, 20 * MS), (25 * MS, 15 * MS)] {
        assert_eq!(update_prob(&both, 0, qdelay, last), update_prob(&explicit, 0, qdelay, last));
    }
    // 20 ms and 10 ms: alpha 0.1 * 6.666 ms / (20 ms)^2 = 1.6665 Hz = 426/256, beta 15 Hz
    let short = json!({"max_rtt": 20 * MS, "typical_rtt": 10 * MS});
    let same = json!({"alpha": 426.0 / 256.0, "beta": 15.0, "target": 10 * MS});
    assert_eq!(update_prob(&short, 0, 12 * MS, 11 * MS), update_prob(&same, 0, 12 * MS, 11 * MS));
    // typical_rtt alone: max_rtt is six times as long
    let alone = json!({"typical_rtt": 20 * MS});
    let pair = json!({"max_rtt": 120 * MS, "typical_rtt": 20 * MS});
    assert_eq!(update_prob(&alone, 0, 30 * MS, 20 * MS), update_prob(&pair, 0, 30 * MS, 20 * MS));
}

#[test]
fn a_constant_delay_raises_the_probability_in_equal_steps() {
    let mut controller = controller(json!({}));
    for n in 0..1000_u32 {
        controller.update(Duration::from_millis(20));
        // (44 * 5 + 879 * 20) ms / 64 at once, then 44 * 5 ms / 64 a period
        assert_eq!(controller.prob(), 278_125_000 + n * 3_437_500, "{n}");
    }
}

/// p' of a controller whose delay is `offered - gain * p'`, s, for `periods`; it was idle before.
fn closed_loop(config: Value, offered: f64, gain: f64, periods: usize) -> Vec<f64> {
    let mut controller = controller(config);
    (0..periods)
        .map(|_| {
            controller.update(Duration(((offered - gain * controller.probability()) * 1e9).round() as u64));
            controller.probability()
        })
        .collect()
}

#[test]
fn in_a_linear_loop_the_controller_follows_the_closed_form() {
    // p_n = p_(n-1) + a (q_n - t) + b (q_n - q_(n-1)) with q_n = Q - G p_(n-1): p_n = (1 - (a + b) G) p_(n-1) + b G p_(n-2) + a (Q - t).
    // The roots are those of x^2 - (1 - (a + b) G) x - b G, its rest is (Q - t) / G.
    let unit = 1e9 / f64::from(MAX_PROB);
    for (version, arithmetic, target, a, b) in [
        ("linux-6.17", "linux", 0.015, 44.0 / 64.0 * unit, 879.0 / 64.0 * unit),
        ("linux-6.17", "linux-127", 0.015, 44.0 / 127.0 * unit, 879.0 / 127.0 * unit),
        ("4e82fd8", "linux-127-terms", 0.015, 44.0 / 127.0 * unit, 879.0 / 127.0 * unit),
        ("linux-6.17", "linux-shift-terms", 0.015, 44.0 / 64.0 * unit, 879.0 / 64.0 * unit),
        ("tsfifo", "per-ns", 0.02, unit, 12.0 * unit),
        ("rfc9332", "real", 0.015, 0.15, 3.0),
    ] {
        let (offered, gain) = (0.04, 0.1);
        let rest = (offered - target) / gain;
        let (half, product) = ((1.0 - (a + b) * gain) / 2.0, b * gain);
        let root = (half * half + product).sqrt();
        let (x, y) = (half + root, half - root);
        // the first two by hand: from idle to Q, then the first answer of the loop
        let first = a * (offered - target) + b * offered;
        let second = first + a * (offered - gain * first - target) - b * gain * first;
        let (d1, d2) = (first - rest, second - rest);
        // d_n = c x^(n-1) + e y^(n-1)
        let c = (d2 - y * d1) / (x - y);
        let e = d1 - c;
        let got = closed_loop(json!({"version": version, "arithmetic": arithmetic}), offered, gain, 1500);
        for (n, p) in got.iter().enumerate() {
            let expected = rest + c * x.powi(n as i32) + e * y.powi(n as i32);
            assert!((p - expected).abs() < 2e-6, "{version} {arithmetic}, period {n}: {p}, not {expected}");
        }
        assert!((got[1499] - rest).abs() < 0.01 && (got[0] - rest).abs() > 0.05, "it moves, and settles at {rest}");
    }
}
