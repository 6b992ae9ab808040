//! Quality of a call by the E-model, Rec. ITU-T G.107 (06/2015): the rating R from one-way delay and losses, and the mean opinion score (MOS) that follows from R.
//!
//! All inputs except delay, loss and codec have the defaults of table 2 of G.107: two ordinary handsets in quiet rooms, whose echo is 65 dB down. The model is
//! that of narrowband speech (300 to 3400 Hz). Wideband codecs have models of their own (G.107.1, G.107.2) on other scales. Neither G.113 nor these have values for Opus, so that
//! a call with Opus can only be rated as if one of the listed codecs carried it.

use super::playout::LossRuns;
use crate::real;
use crate::units::Duration;
use std::f64::consts::LN_10;

/// Loudness ratings of a sending and of a receiving handset, dB (SLR, RLR).
const SEND_LOUDNESS: f64 = 8.0;
const RECEIVE_LOUDNESS: f64 = 2.0;
/// Sidetone masking rating, dB (STMR), and the sensitivity of both handsets to noise of the room relative to speech (Ds, Dr).
const SIDETONE: f64 = 15.0;
const ROOM_SENSITIVITY: f64 = 3.0;
/// Talker echo loudness rating, dB (TELR), and weighted echo path loss, dB (WEPL).
const TALKER_ECHO: f64 = 65.0;
const LISTENER_ECHO: f64 = 110.0;
/// Circuit noise, dBm0p (Nc), noise floor at the receiver, dBmp (Nfor), and noise of the rooms of sender and receiver, dB(A) (Ps, Pr).
const CIRCUIT_NOISE: f64 = -70.0;
const NOISE_FLOOR: f64 = -64.0;
const ROOM_NOISE: f64 = 35.0;
/// Units of quantising distortion (qdu): one pair of A-law or mu-law converters.
const QUANTISING_UNITS: f64 = 1.0;
/// Delay from which interactivity suffers, ms (mT), for users of ordinary sensitivity (sT = 1).
const NOTICED_DELAY: f64 = 100.0;
/// The largest rating that impairments of equipment are taken from (clause 7.5).
const LARGEST_EQUIPMENT_IMPAIRMENT: f64 = 95.0;
/// Ranges that table 2 of G.107 permits: absolute delay and loss.
const LONGEST_DELAY: Duration = Duration::from_millis(500);
const LARGEST_LOSS: f64 = 0.2;

/// A speech codec, as the E-model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Codec {
    /// Name in files and tables.
    pub name: &'static str,
    /// Impairment without loss (Ie).
    pub impairment: f64,
    /// Robustness against random loss (Bpl), percentage points of loss.
    pub robustness: f64,
    /// Length of a packet for which the values hold.
    pub packet: Duration,
}

/// Codecs with values in Rec. ITU-T G.113 (11/2007), appendix I, table I.4: provisional planning values.
pub const CODECS: [Codec; 5] = [
    Codec { name: "g711", impairment: 0.0, robustness: 4.3, packet: Duration::from_millis(10) },
    Codec { name: "g711-plc", impairment: 0.0, robustness: 25.1, packet: Duration::from_millis(10) },
    Codec { name: "g723.1", impairment: 15.0, robustness: 16.1, packet: Duration::from_millis(30) },
    Codec { name: "g729a", impairment: 11.0, robustness: 19.0, packet: Duration::from_millis(20) },
    Codec { name: "gsm-efr", impairment: 5.0, robustness: 10.0, packet: Duration::from_millis(20) },
];

/// Returns the codec that is called `name`.
pub fn find_codec(name: &str) -> Option<&'static Codec> {
    CODECS.iter().find(|codec| codec.name == name)
}

crate::choice! {
    /// The codec by whose values a call is rated.
    pub enum RatedCodec {
        /// G.711, which plays nothing in place of a lost packet.
        G711 = "g711",
        /// G.711 with the concealment of its appendix I.
        G711Concealed = "g711-plc",
        /// G.723.1 at 6.3 kbit/s.
        G7231 = "g723.1",
        /// G.729 annex A, 8 kbit/s.
        G729a = "g729a",
        /// Enhanced full rate of GSM, 12.2 kbit/s.
        GsmEnhanced = "gsm-efr",
    }
}

impl RatedCodec {
    /// Returns the values of the codec.
    pub fn values(self) -> &'static Codec {
        &CODECS[self as usize]
    }
}

/// A call's quality, with the impairments that it results from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallQuality {
    /// Transmission rating factor R: 93.2 without delay and loss, above 80 for satisfied users, below 50 not recommended (G.109).
    pub rating: f64,
    /// Mean opinion score, 1 to 4.5 (annex B: MOS-CQE).
    pub mos: f64,
    /// Impairment by delay and echo (Id).
    pub delay_impairment: f64,
    /// Impairment by codec and losses (Ie-eff).
    pub loss_impairment: f64,
    /// Whether delay and loss are in the ranges of table 2 of G.107: up to 500 ms and 20 %. Beyond these, the formulas are extrapolated.
    pub is_in_range: bool,
}

/// Rates a call: `delay` is the mean time from mouth to ear, with the buffers of both ends.
pub fn rate_call(codec: &Codec, delay: Duration, losses: &LossRuns) -> CallQuality {
    let loss = losses.compute_loss();
    let ms = delay.as_secs_f64() * 1e3;
    let noise = compute_noise();
    let delay_impairment = compute_talker_echo(noise, ms) + compute_listener_echo(noise, ms) + compute_absolute_delay(ms);
    let loss_impairment = compute_loss_impairment(codec, loss, losses.compute_burst_ratio());
    let rating = compute_signal_to_noise(noise) - compute_simultaneous(noise, ms) - delay_impairment - loss_impairment;
    let is_in_range = delay <= LONGEST_DELAY && loss <= LARGEST_LOSS;
    CallQuality { rating, mos: compute_mos(rating), delay_impairment, loss_impairment, is_in_range }
}

/// Mean opinion score of a rating (annex B). For ratings from 0 to 6.5 the polynomial of annex B falls below 1, the lowest score that a listener can give: the score is 1 there.
pub fn compute_mos(rating: f64) -> f64 {
    if rating <= 0.0 {
        1.0
    } else if rating >= 100.0 {
        4.5
    } else {
        (1.0 + 0.035 * rating + rating * (rating - 60.0) * (100.0 - rating) * 7e-6).max(1.0)
    }
}

fn log10(x: f64) -> f64 {
    real::ln(x) / LN_10
}

/// 10 to the power of `decibel / 10`.
fn from_decibel(decibel: f64) -> f64 {
    real::pow(10.0, decibel / 10.0)
}

/// (1 + x^n)^(1/n): 1 for small `x`, `x` for large ones.
fn soften(x: f64, n: f64) -> f64 {
    real::pow(1.0 + real::pow(x, n), 1.0 / n)
}

/// Sum of all noises at the point of reference, dBm0p (No, equation 7-3).
fn compute_noise() -> f64 {
    let overall = SEND_LOUDNESS + RECEIVE_LOUDNESS;
    let above = ROOM_NOISE - overall - ROOM_SENSITIVITY - 14.0;
    let sender_room = ROOM_NOISE - SEND_LOUDNESS - ROOM_SENSITIVITY - 100.0 + 0.004 * above * above;
    let listener_sidetone = SIDETONE + ROOM_SENSITIVITY;
    let effective = ROOM_NOISE + 10.0 * log10(1.0 + from_decibel(10.0 - listener_sidetone));
    let receiver_room = RECEIVE_LOUDNESS - 121.0 + effective + 0.008 * (effective - 35.0) * (effective - 35.0);
    let noises = [CIRCUIT_NOISE, sender_room, receiver_room, NOISE_FLOOR + RECEIVE_LOUDNESS];
    10.0 * log10(noises.into_iter().map(from_decibel).sum())
}

/// Basic signal-to-noise ratio (Ro, equation 7-2).
fn compute_signal_to_noise(noise: f64) -> f64 {
    15.0 - 1.5 * (SEND_LOUDNESS + noise)
}

/// Impairments that come with the voice (Is, equations 7-8 to 7-17): loudness, sidetone, quantising.
fn compute_simultaneous(noise: f64, echo_ms: f64) -> f64 {
    let loud = (SEND_LOUDNESS + RECEIVE_LOUDNESS + 0.2 * (64.0 + noise - RECEIVE_LOUDNESS)) / 8.0;
    let loudness = 20.0 * (soften(loud, 8.0) - loud);

    let sidetone = -10.0 * log10(from_decibel(-SIDETONE) + real::exp(-echo_ms / 4.0) * from_decibel(-TALKER_ECHO));
    let terms = [12.0, -28.0, -13.0];
    let softened =
        [soften((sidetone - 13.0) / 6.0, 8.0), soften((sidetone + 1.0) / 19.4, 35.0), soften((sidetone - 3.0) / 33.0, 13.0)];
    let sidetone_impairment = 29.0 + terms.into_iter().zip(softened).map(|(weight, x)| weight * x).sum::<f64>();

    let q = 37.0 - 15.0 * log10(QUANTISING_UNITS);
    let g = 1.07 + 0.258 * q + 0.0602 * q * q;
    let y = (compute_signal_to_noise(noise) - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0;
    let z = 46.0 / 30.0 - g / 40.0;
    let quantising = 15.0 * log10(1.0 + real::pow(10.0, y) + real::pow(10.0, z));
    loudness + sidetone_impairment + quantising
}

/// Impairment by talker echo (Idte, equations 7-19 to 7-22); the echo's one-way delay is that of the call. The default sidetone is within 9 and 20 dB, so that it does not
/// mask the echo.
fn compute_talker_echo(noise: f64, ms: f64) -> f64 {
    let heard = TALKER_ECHO - 40.0 * log10((1.0 + ms / 10.0) / (1.0 + ms / 150.0)) + 6.0 * real::exp(-0.3 * ms * ms);
    let without = -1.5 * (noise - RECEIVE_LOUDNESS);
    let half = (without - (80.0 + 2.5 * (heard - 14.0))) / 2.0;
    (half + (half * half + 100.0).sqrt() - 1.0) * (1.0 - real::exp(-ms))
}

/// Impairment by listener echo (Idle, equations 7-25 and 7-26): the echo takes a round trip.
fn compute_listener_echo(noise: f64, ms: f64) -> f64 {
    let echo = 10.5 * (LISTENER_ECHO + 7.0) / real::pow(2.0 * ms + 1.0, 0.25);
    let half = (compute_signal_to_noise(noise) - echo) / 2.0;
    half + (half * half + 169.0).sqrt()
}

/// Impairment by delay alone, with a perfect suppression of echo (Idd, equations 7-27 and 7-28).
fn compute_absolute_delay(ms: f64) -> f64 {
    if ms <= NOTICED_DELAY {
        return 0.0;
    }
    let doublings = real::ln(ms / NOTICED_DELAY) / std::f64::consts::LN_2;
    25.0 * (soften(doublings, 6.0) - 3.0 * soften(doublings / 3.0, 6.0) + 2.0)
}

/// Impairment by codec and losses (Ie-eff, equation 7-29), which counts losses in per cent.
fn compute_loss_impairment(codec: &Codec, loss: f64, burst_ratio: f64) -> f64 {
    let percent = 100.0 * loss;
    let Codec { impairment, robustness, .. } = codec;
    impairment + (LARGEST_EQUIPMENT_IMPAIRMENT - impairment) * percent / (percent / burst_ratio + robustness)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(found: f64, expected: f64, within: f64) -> bool {
        (found - expected).abs() <= within
    }

    fn rate_delay(ms: u64) -> CallQuality {
        rate_call(&CODECS[1], Duration::from_millis(ms), &LossRuns::default())
    }

    #[test]
    fn the_defaults_of_the_recommendation_rate_93_2_and_score_4_41() {
        // G.107, clause 7.7: all defaults give R = 93.2. By hand: sender's room 35 - 8 - 3 - 100 + 0.004 (35 - 10 - 3 - 14)^2 = -75.744;
        // receiver's 2 - 121 + 35.639 + 0.008 * 0.639^2 = -83.358; floor -62; circuit -70: the sum of the powers is -61.179 dBm0p, Ro = 15 - 1.5 (8 - 61.179) = 94.769
        assert!(is_near(compute_noise(), -61.179, 0.001), "{}", compute_noise());
        assert!(is_near(compute_signal_to_noise(compute_noise()), 94.769, 0.001));
        // loudness 0.440, sidetone -0.001, quantising 0.974
        assert!(is_near(compute_simultaneous(compute_noise(), 0.0), 1.414, 0.001));
        let quality = rate_delay(0);
        // 94.769 - 1.414 - 0.149 (listener echo at no delay: Rle = 10.5 * 117 = 1228.5, half of Ro - Rle -566.87, root of its square + 169 567.015)
        assert!(is_near(quality.delay_impairment, 0.149, 0.001), "{quality:?}");
        assert_eq!(format!("{:.1} {:.2}", quality.rating, quality.mos), "93.2 4.41");
        assert!(quality.is_in_range && quality.loss_impairment == 0.0);
    }

    #[test]
    fn codecs_have_the_values_of_g_113() {
        // G.113 (11/2007), appendix I: Ie, Bpl
        let values =
            [("g711", 0.0, 4.3), ("g711-plc", 0.0, 25.1), ("g723.1", 15.0, 16.1), ("g729a", 11.0, 19.0), ("gsm-efr", 5.0, 10.0)];
        assert_eq!(CODECS.map(|codec| (codec.name, codec.impairment, codec.robustness)), values);
        for (name, codec) in values.iter().zip(CODECS) {
            let rated = <RatedCodec as crate::param::ParamType>::from_json(&serde_json::json!(name.0)).expect("a codec");
            assert_eq!(*rated.values(), codec);
        }
        // without loss and delay: 93.2 less Ie; G.729A 82.2, G.723.1 78.2
        let rate = |codec| rate_call(codec, Duration::ZERO, &LossRuns::default()).rating;
        assert!(is_near(rate(&CODECS[3]), 82.2, 0.01) && is_near(rate(&CODECS[2]), 78.2, 0.01));
    }

    #[test]
    fn scores_are_those_of_the_table_of_annex_b() {
        // G.107, table B.1: lower limits of the categories of users' satisfaction
        for (rating, mos) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            // by the equation, 80 is 4.024: the table rounds it up
            assert!(is_near(compute_mos(rating), mos, 0.0061), "{rating}: {}", compute_mos(rating));
        }
        assert_eq!((compute_mos(-5.0), compute_mos(0.0), compute_mos(100.0), compute_mos(120.0)), (1.0, 1.0, 4.5, 4.5));
        // 1 + 0.105 + 3 (-57) 97 * 7e-6 = 0.989 is below the scale
        assert_eq!(compute_mos(3.0), 1.0);
        assert!((0..1000).all(|tenth| compute_mos(f64::from(tenth) / 10.0) <= compute_mos(f64::from(tenth + 1) / 10.0)));
    }

    #[test]
    fn delay_costs_little_to_150_ms_and_much_beyond() {
        // Idd at 400 ms: X = 2, 25 (65^(1/6) - 3 (1 + (2/3)^6)^(1/6) + 2) = 25 (2.00517 - 3 * 1.01413 + 2) = 24.070; at 150 ms X = 0.58496: 0.164
        assert!(is_near(compute_absolute_delay(400.0), 24.070, 0.001) && is_near(compute_absolute_delay(150.0), 0.1635, 0.0001));
        assert_eq!((compute_absolute_delay(100.0), compute_absolute_delay(0.0)), (0.0, 0.0));
        // talker echo at 400 ms: TERV = 65 - 40 log10(41 / 3.6667) = 23.06, Re = 102.65, Roe = 94.77: half -3.94, -3.94 + 10.748 - 1 = 5.81;
        // listener echo: Rle = 1228.5 / 801^0.25 = 230.92, half -68.08, -68.08 + 69.31 = 1.23
        let noise = compute_noise();
        assert!(
            is_near(compute_talker_echo(noise, 400.0), 5.808, 0.001)
                && is_near(compute_listener_echo(noise, 400.0), 1.230, 0.001)
        );
        for (ms, rating) in
            [(50, 91.76), (100, 90.66), (150, 89.54), (200, 85.80), (250, 79.18), (300, 72.67), (400, 62.25), (500, 54.80)]
        {
            assert!(is_near(rate_delay(ms).rating, rating, 0.005), "{ms} ms: {:?}", rate_delay(ms));
        }
        // without echo, as in figure 1 of G.114: R = 93.2 less Idd, above 90 to 150 ms and about 70 (some users dissatisfied) at 400 ms
        assert!(93.2 - compute_absolute_delay(150.0) > 90.0 && is_near(93.2 - compute_absolute_delay(400.0), 69.1, 0.1));
        assert!(rate_delay(500).is_in_range && !rate_delay(501).is_in_range);
    }

    #[test]
    fn the_approximation_of_cole_and_rosenbluth_is_near() {
        // Cole and Rosenbluth, Voice over IP performance monitoring, CCR 31(2), 2001: Id = 0.024 d + 0.11 (d - 177.3) H(d - 177.3), fitted to an earlier G.107
        for ms in (0..=400).step_by(10) {
            let d = f64::from(ms);
            let approximate = 0.024 * d + 0.11 * (d - 177.3).max(0.0);
            let exact = rate_delay(ms as u64).delay_impairment;
            assert!(is_near(exact, approximate, 3.1), "{ms} ms: {exact} and {approximate}");
        }
    }

    #[test]
    fn losses_cost_by_codec_and_by_their_bursts() {
        let losses = |packets, lost, runs| LossRuns { packets, lost, runs };
        let impairment = |name: &str, runs: &LossRuns| {
            let codec = find_codec(name).expect("a codec");
            rate_call(codec, Duration::ZERO, runs).loss_impairment
        };
        let random = losses(100, 2, 2);
        // 95 * 2 / (2 + 25.1) = 7.011; 95 * 2 / (2 + 4.3) = 30.159; 11 + 84 * 2 / (2 + 19) = 19
        assert!(is_near(impairment("g711-plc", &random), 7.011, 0.001) && is_near(impairment("g711", &random), 30.159, 0.001));
        assert!(is_near(impairment("g729a", &random), 19.0, 1e-9));
        // 10 of 100 in two runs of 5: 5 * 0.9 = 4.5 times as long as random ones; 95 * 10 / (10 / 4.5 + 25.1) = 34.77
        let bursts = losses(100, 10, 2);
        assert!(is_near(impairment("g711-plc", &bursts), 34.771, 0.001));
        let broken = rate_call(&CODECS[0], Duration::from_secs(10), &losses(10, 10, 1));
        assert!(broken.mos == 1.0 && broken.rating.is_finite() && !broken.is_in_range, "{broken:?}");
        assert_eq!(find_codec("opus"), None);
    }
}
