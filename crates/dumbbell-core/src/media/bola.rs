//! Streaming of video in segments (DASH), with the bit rates that BOLA-O chooses.
//!
//! BOLA: Spiteri, Urgaonkar, Sitaraman, "BOLA: near-optimal bitrate adaptation for online videos", INFOCOM 2016, with the parameters, the start by throughput, the placeholder buffer and the limit
//! against oscillation (variant O) of dash.js (BolaRule, commit ccf3b95d9): Spiteri, Sitaraman, Sparacio, "From theory to practice: improving bitrate adaptation in the DASH reference player", MMSys 2018. The
//! ladder is that of Pensieve (Mao, Netravali, Alizadeh, SIGCOMM 2017).
//!
//! Three deviations from dash.js. A sample of throughput weighs the seconds of its download, which gives the half-lives their meaning; dash.js weighs them by 1.5. The first segment has the
//! lowest bit rate, as no throughput is known; dash.js begins with a configured one. The buffer at which two levels have the same score, and the one at which a level has the score 0 and waiting is better, follow
//! from the score; dash.js adds Vp, 4.5 s with this ladder, to both. Not modelled: abandoned downloads, seeking, audio.

use crate::real;
use crate::units::{Duration, Instant, Rate};

/// Bit rates of Pensieve's video.
pub const PENSIEVE_LADDER: [Rate; 6] =
    [Rate(300_000), Rate(750_000), Rate(1_200_000), Rate(1_850_000), Rate(2_850_000), Rate(4_300_000)];
/// BOLA does not wait while the buffer is shorter than this (MINIMUM_BUFFER_S).
const MINIMUM_BUFFER: f64 = 10.0;
/// Buffer that each bit rate adds to the one from which on the highest is chosen (MINIMUM_BUFFER_PER_BITRATE_LEVEL_S).
const BUFFER_PER_LEVEL: f64 = 2.0;
/// The least buffer from which on the highest bit rate is chosen (bufferTimeDefault).
const LEAST_TARGET: f64 = 12.0;
/// Share of the placeholder buffer that remains after a segment (PLACEHOLDER_BUFFER_DECAY).
const PLACEHOLDER_DECAY: f64 = 0.99;

crate::params! {
    /// Parameters of a player.
    pub struct Params {
        /// Duration of a segment.
        segment: Duration = Duration::from_secs(4), unit "", range Duration::from_millis(100), Duration::from_secs(60), source "Pensieve section 5.1";
        /// The player requests nothing while another segment would make the buffer longer than this.
        buffer: Duration = Duration::from_secs(30), unit "", range Duration::from_millis(100), Duration::from_secs(3_600), source "dash.js: bufferTimeAtTopQuality";
        /// Segments in the buffer from which on the video starts.
        start_segments: u32 = 2, unit "segments", range 1_u32, 100_u32, source "ours";
        /// Share of the throughput that a bit rate may have.
        safety: f64 = 0.9, unit "", range 0.01, 1.0, source "dash.js: bandwidthSafetyFactor";
        /// Half-life of the fast average of the throughput, in time of downloads.
        fast_half_life: Duration = Duration::from_secs(3), unit "", range Duration::from_millis(1), Duration::from_secs(3_600), source "dash.js: throughputFastHalfLifeSeconds";
        /// Half-life of the slow average.
        slow_half_life: Duration = Duration::from_secs(8), unit "", range Duration::from_millis(1), Duration::from_secs(3_600), source "dash.js: throughputSlowHalfLifeSeconds";
    }
    check check
}

/// Refuses a buffer that never has room for the segments that the start waits for.
fn check(params: &Params) -> Result<(), crate::param::ParamError> {
    let least = params.segment.0.saturating_mul(u64::from(params.start_segments));
    if params.buffer.0 < least {
        let allowed = format!("at least start_segments times segment, {}", Duration(least));
        return Err(crate::param::ParamError::new("buffer", params.buffer, allowed));
    }
    Ok(())
}

/// An average of throughputs that halves the weight of what is older by its half-life.
#[derive(Clone, Copy, Debug)]
struct Average {
    half_life: f64,
    estimate: f64,
    weight: f64,
}

impl Average {
    fn new(half_life: Duration) -> Average {
        Average { half_life: half_life.as_secs_f64(), estimate: 0.0, weight: 0.0 }
    }

    fn add(&mut self, value: f64, seconds: f64) {
        let keep = real::pow(0.5, seconds / self.half_life);
        self.estimate = keep * self.estimate + (1.0 - keep) * value;
        self.weight += seconds;
    }

    /// Returns the average without the weight of the initial 0.
    fn get(&self) -> f64 {
        self.estimate / (1.0 - real::pow(0.5, self.weight / self.half_life))
    }
}

/// The estimate of throughput: the smaller one of a fast and a slow average.
#[derive(Clone, Copy, Debug)]
struct Throughput {
    fast: Average,
    slow: Average,
}

impl Throughput {
    fn new(params: &Params) -> Throughput {
        Throughput { fast: Average::new(params.fast_half_life), slow: Average::new(params.slow_half_life) }
    }

    /// A download of `bytes` took `time`, from its request to its last byte.
    fn add(&mut self, bytes: u64, time: Duration) {
        let seconds = time.as_secs_f64().max(1e-9);
        let rate = bytes as f64 * 8.0 / seconds;
        self.fast.add(rate, seconds);
        self.slow.add(rate, seconds);
    }

    /// Bits per second; `None` before the first download.
    fn get(&self) -> Option<f64> {
        (self.fast.weight > 0.0).then(|| self.fast.get().min(self.slow.get()))
    }
}

/// The decision of BOLA. Buffers are in seconds.
#[derive(Clone, Debug)]
struct Bola {
    /// Bit rates, ascending, and their utilities: ln(rate / lowest rate) + 1.
    rates: Vec<f64>,
    utilities: Vec<f64>,
    /// Weight of utility against buffer (Vp), and the utility of not stalling (gp).
    utility_weight: f64,
    stall_utility: f64,
    /// Whether the buffer decides: at the start, the throughput does.
    is_steady: bool,
    placeholder: f64,
    level: usize,
}

impl Bola {
    fn new(ladder: &[Rate]) -> Bola {
        let mut rates: Vec<f64> = ladder.iter().map(|rate| rate.bits().max(1) as f64).collect();
        rates.sort_unstable_by(f64::total_cmp);
        rates.dedup();
        let lowest = rates.first().copied().unwrap_or(1.0);
        let utilities: Vec<f64> = rates.iter().map(|rate| real::ln(rate / lowest) + 1.0).collect();
        let target = (MINIMUM_BUFFER + BUFFER_PER_LEVEL * rates.len() as f64).max(LEAST_TARGET);
        // the score of the lowest rate is 0 at the minimum buffer, that of the highest at the target
        let stall_utility = (utilities.last().copied().unwrap_or(1.0) - 1.0) / (target / MINIMUM_BUFFER - 1.0);
        let utility_weight = MINIMUM_BUFFER / stall_utility;
        Bola { rates, utilities, utility_weight, stall_utility, is_steady: false, placeholder: 0.0, level: 0 }
    }

    /// The level with the best score for an effective buffer.
    fn best_level(&self, buffer: f64) -> usize {
        let score = |level: usize| {
            let utility = self.utilities[level] - 1.0 + self.stall_utility;
            (self.utility_weight * utility - buffer) / self.rates[level]
        };
        (1..self.rates.len()).fold(0, |best, level| if score(level) >= score(best) { level } else { best })
    }

    /// The highest level that `throughput` carries; the lowest if it carries none.
    fn sustained_level(&self, throughput: f64) -> usize {
        self.rates.partition_point(|rate| *rate <= throughput).saturating_sub(1)
    }

    /// The effective buffer from which on BOLA prefers `level` to all lower ones.
    fn least_buffer(&self, level: usize) -> f64 {
        let (rate, utility) = (self.rates[level], self.utilities[level]);
        let preferred = |lower: usize| {
            let crossing = (rate * self.utilities[lower] - self.rates[lower] * utility) / (rate - self.rates[lower]);
            self.utility_weight * (self.stall_utility - 1.0 + crossing)
        };
        (0..level).map(preferred).fold(0.0, f64::max)
    }

    /// The effective buffer up to which BOLA downloads at `level` instead of waiting.
    fn most_buffer(&self, level: usize) -> f64 {
        self.utility_weight * (self.utilities[level] - 1.0 + self.stall_utility)
    }

    /// Decides on the level of the next segment, and returns how long to wait before it is requested, in seconds.
    fn decide(&mut self, buffer: f64, throughput: Option<f64>, segment: f64) -> f64 {
        let (Some(throughput), true) = (throughput, self.rates.len() > 1) else { return 0.0 };
        let sustained = self.sustained_level(throughput);
        if !self.is_steady {
            self.level = sustained;
            self.placeholder = (self.least_buffer(sustained) - buffer).max(0.0);
            self.is_steady = buffer >= segment;
            return 0.0;
        }
        let best = self.best_level(buffer + self.placeholder);
        // BOLA-O: goes up no further than the throughput carries
        self.level = if best > self.level { best.min(sustained.max(self.level)) } else { best };
        let wait = (buffer + self.placeholder - self.most_buffer(self.level)).max(0.0);
        let shortened = wait.min(self.placeholder);
        self.placeholder -= shortened;
        if self.level + 1 == self.rates.len() {
            // the size of the buffer alone limits the highest level
            return 0.0;
        }
        wait - shortened
    }

    /// A segment has arrived `time` seconds after its request; the buffer is `buffer` now.
    fn on_segment(&mut self, buffer: f64, time: f64) {
        if self.rates.len() > 1 {
            let at_request = buffer + time;
            let most = (self.most_buffer(self.level) - at_request).max(0.0);
            self.placeholder = (self.placeholder * PLACEHOLDER_DECAY).min(most);
        }
    }

    /// The player waits because its buffer is full: the decision must not depend on a shorter buffer than that of a player that need not wait.
    fn on_full_buffer(&mut self, wait: f64) {
        self.placeholder += wait;
    }

    /// The video stalls: the placeholder must not make it look as if there were a buffer.
    fn on_stall(&mut self) {
        if self.is_steady {
            self.placeholder = 0.0;
        }
    }
}

/// A request for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRequest {
    /// Number of the segment, from 0.
    pub number: u64,
    /// Level of the ladder, from 0.
    pub level: usize,
    /// Bytes of the segment: constant bit rate.
    pub bytes: u64,
}

/// Measures of a session so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamQuality {
    /// Segments that arrived.
    pub segments: u64,
    /// Mean bit rate of these, bit/s.
    pub mean_rate: f64,
    /// Segments whose level differs from the one before.
    pub switches: u64,
    /// Time from the start of the session until the video started; `None` if it has not.
    pub startup: Option<Duration>,
    /// Times that the video stalled after it had started.
    pub stalls: u64,
    /// Time that it stalled.
    pub stalled: Duration,
    /// Time since the video started.
    pub watched: Duration,
}

impl StreamQuality {
    /// Seconds of rebuffering per minute since the video started.
    pub fn compute_rebuffering(&self) -> f64 {
        self.stalled.as_secs_f64() / self.watched.as_secs_f64().max(1e-9) * 60.0
    }
}

/// A player that downloads one segment at a time over one connection.
#[derive(Clone, Debug)]
pub struct Player {
    params: Params,
    bola: Bola,
    throughput: Throughput,
    started: Instant,
    /// Time of the last change of the buffer, and what it contained then.
    updated: Instant,
    buffer: Duration,
    is_playing: bool,
    /// The segment that is on its way, and when it was requested.
    requested: Option<(SegmentRequest, Instant)>,
    /// Earliest time of the next request.
    next_request: Instant,
    /// Whether the level of the next segment is decided.
    is_decided: bool,
    sum_of_rates: f64,
    last_level: Option<usize>,
    quality: StreamQuality,
}

impl Player {
    /// A player that starts at `start`. An empty ladder is replaced by [`PENSIEVE_LADDER`].
    pub fn new(params: Params, ladder: &[Rate], start: Instant) -> Player {
        let bola = Bola::new(if ladder.is_empty() { &PENSIEVE_LADDER } else { ladder });
        Player {
            throughput: Throughput::new(&params),
            params,
            bola,
            started: start,
            updated: start,
            buffer: Duration::ZERO,
            is_playing: false,
            requested: None,
            next_request: start,
            is_decided: false,
            sum_of_rates: 0.0,
            last_level: None,
            quality: StreamQuality::default(),
        }
    }

    /// Returns when [`Player::request`] has a request, or has to be asked again; `NEVER` while a segment is on its way.
    pub fn next_timer(&self) -> Instant {
        if self.requested.is_some() {
            Instant::NEVER
        } else {
            self.next_request
        }
    }

    /// Returns the request that is due, which the server answers with that many bytes.
    pub fn request(&mut self, now: Instant) -> Option<SegmentRequest> {
        if self.requested.is_some() || now < self.next_request {
            return None;
        }
        self.update(now);
        if !self.is_decided {
            let (buffer, segment) = (self.buffer.as_secs_f64(), self.params.segment.as_secs_f64());
            let safe_throughput = self.throughput.get().map(|rate| rate * self.params.safety);
            let wait = Duration((self.bola.decide(buffer, safe_throughput, segment) * 1e9) as u64);
            self.is_decided = true;
            let excess = self.buffer.saturating_add(self.params.segment).saturating_sub(self.params.buffer);
            if excess > wait {
                self.bola.on_full_buffer(excess.saturating_sub(wait).as_secs_f64());
            }
            if wait.max(excess) > Duration::ZERO {
                self.next_request = now.saturating_add(wait.max(excess));
                return None;
            }
        }
        self.is_decided = false;
        let level = self.bola.level;
        let bits = self.bola.rates[level] * self.params.segment.as_secs_f64();
        let request = SegmentRequest { number: self.quality.segments, level, bytes: (bits / 8.0) as u64 };
        self.requested = Some((request, now));
        Some(request)
    }

    /// The last byte of the requested segment arrives.
    pub fn on_segment(&mut self, now: Instant) {
        let Some((request, requested)) = self.requested.take() else { return };
        self.update(now);
        let time = now.saturating_since(requested);
        self.throughput.add(request.bytes, time);
        self.buffer = self.buffer.saturating_add(self.params.segment);
        self.bola.on_segment(self.buffer.as_secs_f64(), time.as_secs_f64());
        self.sum_of_rates += self.bola.rates[request.level];
        self.quality.segments += 1;
        self.quality.switches += u64::from(self.last_level.is_some_and(|last| last != request.level));
        self.last_level = Some(request.level);
        self.next_request = now;
        let needed = if self.quality.startup.is_some() { 1 } else { u64::from(self.params.start_segments) };
        if !self.is_playing && self.buffer.0 >= self.params.segment.0.saturating_mul(needed) {
            self.is_playing = true;
            self.quality.startup.get_or_insert(now.saturating_since(self.started));
        }
    }

    /// Returns the measures at `now`.
    pub fn quality(&mut self, now: Instant) -> StreamQuality {
        self.update(now);
        let mean_rate = self.sum_of_rates / self.quality.segments.max(1) as f64;
        StreamQuality { mean_rate, ..self.quality }
    }

    /// Seconds of video in the buffer at `now`.
    pub fn buffer(&mut self, now: Instant) -> Duration {
        self.update(now);
        self.buffer
    }

    /// Plays until `now`.
    fn update(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.updated);
        self.updated = self.updated.max(now);
        if self.quality.startup.is_none() {
            return;
        }
        self.quality.watched += elapsed;
        let played = if self.is_playing { elapsed.min(self.buffer) } else { Duration::ZERO };
        self.buffer -= played;
        if elapsed > played {
            self.quality.stalled += elapsed - played;
            self.quality.stalls += u64::from(self.is_playing);
            self.is_playing = false;
            self.bola.on_stall();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prop_assert, prop_assert_eq, proptest};

    fn bola() -> Bola {
        Bola::new(&PENSIEVE_LADDER)
    }

    fn is_near(found: f64, expected: f64, within: f64) -> bool {
        (found - expected).abs() <= within
    }

    #[test]
    fn utilities_and_weights_follow_from_the_ladder() {
        let bola = bola();
        // ln(rate / 300) + 1: ln 2.5, 4, 6.1667, 9.5, 14.333
        let utilities = [1.0, 1.91629, 2.38629, 2.81916, 3.25129, 3.66259];
        assert!(bola.utilities.iter().zip(utilities).all(|(found, expected)| is_near(*found, expected, 1e-5)), "{bola:?}");
        // target: max(12, 10 + 2 * 6) = 22 s; gp = 2.66259 / (2.2 - 1) = 2.21882, Vp = 10 / 2.21882 = 4.50689
        assert!(is_near(bola.stall_utility, 2.21882, 1e-5) && is_near(bola.utility_weight, 4.50689, 1e-5), "{bola:?}");
        // the score of the lowest level is 0 at Vp gp = 10 s, that of the highest at 4.50689 (2.66259 + 2.21882) = 22 s
        assert!(is_near(bola.most_buffer(0), 10.0, 1e-9) && is_near(bola.most_buffer(5), 22.0, 1e-9));
    }

    #[test]
    fn the_buffer_decides() {
        let bola = bola();
        // At 12 s, by (Vp (u - 1 + gp) - 12) / rate with rates in Mbit/s: level 0 (10 - 12) / 0.3 = -6.67; 1 (14.130 - 12) / 0.75 = 2.839; 2 (16.248 - 12) / 1.2 = 3.540;
        // 3 (18.199 - 12) / 1.85 = 3.351; 4 (20.146 - 12) / 2.85 = 2.858; 5 (22 - 12) / 4.3 = 2.326
        assert_eq!(bola.best_level(12.0), 2);
        // at 5 s 16.67, 12.17, 9.37, 7.13, 5.31, 3.95; at 15 s -16.7, -1.16, 1.040, 1.729, 1.806, 1.628; at 30 s all are negative, and the highest is -1.86
        assert_eq!([0.0, 5.0, 15.0, 30.0].map(|buffer| bola.best_level(buffer)), [0, 0, 4, 5]);
        // Level 2 scores as level 1 at 4.50689 (2.21882 - 1 + (1.2 * 1.91629 - 0.75 * 2.38629) / 0.45) = 4.50689 * 2.35178 = 10.599 s
        assert!(is_near(bola.least_buffer(2), 10.599, 0.001), "{}", bola.least_buffer(2));
        for level in 1..6 {
            let least = bola.least_buffer(level);
            assert_eq!((bola.best_level(least - 0.01), bola.best_level(least + 0.01)), (level - 1, level));
        }
        assert_eq!(bola.least_buffer(0), 0.0);
    }

    #[test]
    fn a_level_that_the_throughput_does_not_carry_is_not_begun() {
        let mut bola = Bola { is_steady: true, level: 1, ..bola() };
        // at 15 s the buffer says level 4; 1.3 Mbit/s carry level 2 (1.2), 0.8 carry level 1, 0.5 carry level 0: never below the last level
        for (throughput, level) in [(1.3e6, 2), (0.8e6, 2), (5e6, 4), (0.5e6, 4)] {
            assert_eq!((bola.decide(15.0, Some(throughput), 4.0), bola.level), (0.0, level), "{throughput}");
        }
        // the buffer alone takes levels back
        assert_eq!((bola.decide(5.0, Some(5e6), 4.0), bola.level), (0.0, 0));
        // Level 0 waits beyond 10 s: with 12 s of buffer and 0.3 Mbit/s, 2 s. A placeholder is used up first.
        assert!(is_near(bola.decide(12.0, Some(0.3e6), 4.0), 2.0, 1e-9));
        bola.placeholder = 1.5;
        assert!(is_near(bola.decide(12.0, Some(0.3e6), 4.0), 2.0, 1e-9) && bola.placeholder == 0.0);
    }

    #[test]
    fn the_throughput_is_the_smaller_of_two_averages() {
        let mut throughput = Throughput::new(&Params::default());
        assert_eq!(throughput.get(), None);
        throughput.add(375_000, Duration::from_secs(3));
        // one sample of 1 Mbit/s, whatever its length
        assert!(is_near(throughput.get().expect("a sample"), 1e6, 1e-3));
        throughput.add(1_500_000, Duration::from_secs(3));
        // 3 s of 4 Mbit/s: the fast one (0.25 + 2) / 0.75 = 3 Mbit/s; the slow one with 2^(-3/8) = 0.771105: (0.771105 * 0.228895 + 4 * 0.228895) / (1 - 0.594603) = 2.69387
        assert!(is_near(throughput.get().expect("samples"), 2.69387e6, 20.0), "{throughput:?}");
        assert!(is_near(throughput.fast.get(), 3e6, 1e-3));
    }

    /// A session over a link whose rate is `rate(seconds)`, for `seconds`.
    fn stream(ladder: &[Rate], params: Params, rate: impl Fn(f64) -> f64, seconds: u64) -> (StreamQuality, Vec<usize>) {
        let mut player = Player::new(params, ladder, Instant::ZERO);
        let (mut now, end, mut levels) = (Instant::ZERO, Instant::from_secs(seconds), Vec::new());
        while now < end {
            if let Some(request) = player.request(now) {
                levels.push(request.level);
                // by steps of 1 ms
                let mut left = request.bytes as f64 * 8.0;
                while left > 0.0 && now < end {
                    left -= rate(now.as_secs_f64()) / 1e3;
                    now += Duration::from_millis(1);
                }
                if left <= 0.0 {
                    player.on_segment(now);
                }
            } else {
                now = now.max(player.next_timer());
            }
        }
        (player.quality(end), levels)
    }

    #[test]
    fn a_fast_link_carries_the_highest_level_after_one_segment() {
        let (quality, levels) = stream(&PENSIEVE_LADDER, Params::default(), |_| 10e6, 120);
        assert!(levels[0] == 0 && levels[1..].iter().all(|level| *level == 5), "{levels:?}");
        // 1.2 Mbit take 0.12 s, 17.2 Mbit 1.72 s: the video starts with two segments
        assert_eq!(quality.startup, Some(Duration::from_millis(1_840)));
        assert_eq!((quality.switches, quality.stalls, quality.compute_rebuffering()), (1, 0, 0.0));
        // 118.16 s were watched, and at most 30 s more are in the buffer
        assert!((36..=38).contains(&quality.segments), "{quality:?}");
        let mean = (0.3e6 + 4.3e6 * (quality.segments - 1) as f64) / quality.segments as f64;
        assert!(is_near(quality.mean_rate, mean, 1.0), "{quality:?}");
    }

    #[test]
    fn a_slow_link_carries_the_level_below_its_rate() {
        // 0.9 * 1.5 Mbit/s carry level 2, 1.2 Mbit/s. The first two segments take 0.8 and 3.2 s
        let (quality, levels) = stream(&PENSIEVE_LADDER, Params::default(), |_| 1.5e6, 300);
        assert!(levels[0] == 0 && levels[1..].iter().all(|level| *level == 2), "{levels:?}");
        assert_eq!((quality.startup, quality.switches, quality.stalls), (Some(Duration::from_secs(4)), 1, 0));
    }

    #[test]
    fn a_player_that_never_switches_is_seen_by_every_measure() {
        // 5 Mbit/s, and 0.5 Mbit/s from 60 to 180 s: level 0 (0.3 Mbit/s) is the only one that the slow link carries
        let rate = |seconds: f64| if (60.0..180.0).contains(&seconds) { 0.5e6 } else { 5e6 };
        let (adaptive, levels) = stream(&PENSIEVE_LADDER, Params::default(), rate, 240);
        let (high, _) = stream(&PENSIEVE_LADDER[4..5], Params::default(), rate, 240);
        let (low, _) = stream(&PENSIEVE_LADDER[..1], Params::default(), rate, 240);
        assert!(levels.contains(&0) && levels.contains(&4) && adaptive.switches >= 4, "{levels:?}");
        assert_eq!((high.switches, low.switches), (0, 0));
        // 120 s at 0.5 Mbit/s carry 21 s of 2.85 Mbit/s, and the buffer has at most 30 s: at least 69 s of stall
        assert!(high.stalled > Duration::from_secs(69) && high.compute_rebuffering() > 17.0, "{high:?}");
        assert!(adaptive.stalled < Duration::from_secs(10), "{adaptive:?}");
        assert!(low.stalls == 0 && is_near(low.mean_rate, 0.3e6, 1e-3) && adaptive.mean_rate > 1e6, "{low:?} {adaptive:?}");
    }

    #[test]
    fn a_small_buffer_reaches_the_highest_level_too() {
        let params = Params { buffer: Duration::from_secs(12), ..Params::default() };
        let (quality, levels) = stream(&PENSIEVE_LADDER, params, |_| 20e6, 120);
        assert!(levels[10..].iter().all(|level| *level == 5) && quality.stalls == 0, "{levels:?}");
    }

    #[test]
    fn a_small_buffer_does_not_keep_the_level_low() {
        // 30 s at a rate that carries level 2, then a fast link. Decisions are made with at most 12 s in the buffer, which alone mean level 2
        let params = Params { buffer: Duration::from_secs(12), ..Params::default() };
        let rate = |seconds: f64| if seconds < 30.0 { 1.5e6 } else { 20e6 };
        let (_, levels) = stream(&PENSIEVE_LADDER, params, rate, 120);
        assert!(levels[1..5].iter().all(|level| *level == 2) && levels.last() == Some(&5), "{levels:?}");
    }

    #[test]
    fn a_stall_empties_the_placeholder() {
        let mut bola = Bola { is_steady: true, placeholder: 8.0, ..bola() };
        bola.decide(4.0, Some(5e6), 4.0);
        assert_eq!(bola.level, 2);
        bola.on_stall();
        bola.decide(4.0, Some(5e6), 4.0);
        assert_eq!(bola.level, 0);
    }

    #[test]
    fn a_buffer_without_room_for_the_start_is_refused() {
        let refused = Params::from_json(serde_json::json!({"buffer": 7_000_000_000_u64}).as_object().expect("a table"));
        assert_eq!(
            refused.expect_err("an error").to_string(),
            "buffer: found 7s, allowed: at least start_segments times segment, 8s"
        );
    }

    proptest! {
        #[test]
        fn time_is_watched_or_stalled_and_the_buffer_stays_bounded(rates in vec(1e4_f64..2e7, 1..20), ladder in vec(1_u64..10_000_000, 1..8)) {
            let ladder: Vec<Rate> = ladder.into_iter().map(Rate).collect();
            let rate = |seconds: f64| rates[(seconds / 7.0) as usize % rates.len()];
            let mut player = Player::new(Params::default(), &ladder, Instant::ZERO);
            let mut now = Instant::ZERO;
            for _ in 0..60 {
                if let Some(request) = player.request(now) {
                    now += Duration((request.bytes as f64 * 8e9 / rate(now.as_secs_f64())) as u64);
                    player.on_segment(now);
                } else {
                    prop_assert!(player.next_timer() > now);
                    now = player.next_timer();
                }
                prop_assert!(player.buffer(now) <= Duration::from_secs(30));
                let quality = player.quality(now);
                prop_assert_eq!(quality.startup.map_or(Duration::ZERO, |startup| now - Instant::ZERO - startup), quality.watched);
                // what was downloaded was played, or is in the buffer
                let played = quality.watched - quality.stalled;
                prop_assert_eq!(Duration::from_secs(4) * quality.segments, played + player.buffer(now));
            }
        }
    }
}
