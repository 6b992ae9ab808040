//! A viewer who watches a video that is downloaded in segments over one connection, with the bit rates that BOLA-O chooses ([`media::bola`](crate::media::bola)).
//!
//! The player requests one segment at a time, and waits while its buffer is full. The server answers at once. When the user stops, the measures stop.

use super::measure::{Measure, MeasureKind};
use super::{AnyApp, AppContext, AppKind, ExchangeArrival, Load, StreamApp, StreamArrival, StreamDirection, StreamOutlet};
use crate::media::bola::{self, Player, SegmentRequest, StreamQuality, PENSIEVE_LADDER};
use crate::param::ParamError;
use crate::units::{Duration, Instant, Rate};
use crate::{choice, params};

/// Name in configurations.
pub const NAME: &str = "dash";
/// Title of the application.
pub const TITLE: &str = "A viewer of a video in segments, whose bit rates follow buffer and throughput";
/// Where it comes from.
pub const SOURCE: &str = "BOLA-O of dash.js (BolaRule, commit ccf3b95d9) and Spiteri et al., INFOCOM 2016; ladder and segments of Mao et al., SIGCOMM 2017";
/// Kind of its traffic: segments go to the client.
pub const KIND: AppKind = AppKind::Streams(StreamDirection::Response);

/// Bit rates of the video of PiTree.
pub const PITREE_LADDER: [Rate; 6] =
    [Rate(1_000_000), Rate(2_500_000), Rate(5_000_000), Rate(8_000_000), Rate(16_000_000), Rate(40_000_000)];
/// Levels of each ladder.
const LEVELS: u32 = 6;

choice! {
    /// Bit rates of a video.
    pub enum Ladder {
        /// Up to 4.3 Mbit/s.
        Pensieve = "pensieve",
        /// Up to 40 Mbit/s.
        Pitree = "pitree",
    }
}

impl Ladder {
    /// Returns the bit rates, ascending.
    pub fn rates(self) -> &'static [Rate; LEVELS as usize] {
        match self {
            Ladder::Pensieve => &PENSIEVE_LADDER,
            Ladder::Pitree => &PITREE_LADDER,
        }
    }
}

params! {
    /// Parameters of a viewer.
    pub struct Params {
        /// Bit rates of the video: pensieve 0.3, 0.75, 1.2, 1.85, 2.85 and 4.3 Mbit/s; pitree 1, 2.5, 5, 8, 16 and 40 Mbit/s.
        ladder: Ladder = Ladder::Pensieve, unit "", source "Mao et al., SIGCOMM 2017; github.com/transys-project/pitree-dataset, video/README.md";
        /// Every segment has this level of the ladder, from 0: a player that does not adapt.
        level: Option<u32> = None, unit "", range 0_u32, LEVELS - 1, source "";
        /// Duration of a segment.
        segment: Duration = Duration::from_secs(4), unit "", range Duration::from_millis(100), Duration::from_secs(60), source "Mao et al., SIGCOMM 2017, section 5.1";
        /// The player requests nothing while another segment would make its buffer longer than this.
        buffer: Duration = Duration::from_secs(30), unit "", range Duration::from_millis(100), Duration::from_secs(3_600), source "dash.js: bufferTimeAtTopQuality";
        /// Segments in the buffer from which on the video starts.
        start_segments: u32 = 2, unit "segments", range 1_u32, 100_u32, source "ours";
        /// Share of the throughput that a bit rate may have.
        safety: f64 = 0.9, unit "", range 0.01, 1.0, source "dash.js: bandwidthSafetyFactor";
        /// Payload of a request.
        request: u32 = 400, unit "bytes", range 1_u32, 1_000_000_u32, source "a request of HTTP with its headers";
    }
    check check
}

fn check(params: &Params) -> Result<(), ParamError> {
    bola::Params::from_json(&player_params(params).values()).map(|_| ())
}

/// Returns the parameters of the player.
fn player_params(params: &Params) -> bola::Params {
    let Params { segment, buffer, start_segments, safety, .. } = *params;
    bola::Params { segment, buffer, start_segments, safety, ..bola::Params::default() }
}

/// Measures in addition to the load times, which are those of segments.
pub static MEASURES: [Measure; 5] = [
    Measure {
        name: "bitrate_mbit",
        unit: "Mbit/s",
        label: "bit rate of a video, mean",
        doc: &["Mean of the bit rates of the segments that arrived."],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "switches",
        unit: "switches",
        label: "changes of the bit rate",
        doc: &["Segments that arrived and whose bit rate differs from that of the one before."],
        kind: MeasureKind::Count,
    },
    Measure {
        name: "startup_s",
        unit: "s",
        label: "start-up delay",
        doc: &["Time from the start of the user until the video started, with start_segments in the buffer; without a value if it started before the measured time, or not at all."],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "stalls",
        unit: "stalls",
        label: "stalls of a video",
        doc: &["Times that the video had started and its buffer ran empty. It goes on with the next segment."],
        kind: MeasureKind::Count,
    },
    Measure {
        name: "stalled_share",
        unit: "",
        label: "share of time stalled",
        doc: &["Time that the video stalled, over the measured time from when it had started."],
        kind: MeasureKind::Real,
    },
];

/// The viewer and the server.
#[derive(Clone)]
struct Viewer {
    params: Params,
    /// Made when the user starts.
    player: Option<Player>,
    /// The segment that is on its way.
    requested: Option<(SegmentRequest, Instant)>,
    /// Bytes written so far.
    requests: u64,
    responses: u64,
    /// Number of the exchange that fetches it.
    exchange: u64,
    /// Measures when the measured time began, and when the user stopped.
    before: StreamQuality,
    last: Option<StreamQuality>,
}

/// Streams have segments of the hosts.
pub fn largest_frame(_params: &Params) -> u16 {
    0
}

/// Builds a viewer.
pub fn build(params: &Params, _context: &AppContext) -> AnyApp {
    AnyApp::Streams(Box::new(Viewer {
        params: params.clone(),
        player: None,
        requested: None,
        requests: 0,
        responses: 0,
        exchange: 0,
        before: StreamQuality::default(),
        last: None,
    }))
}

impl Viewer {
    /// Returns the measures until `now`, or until the user stopped.
    fn quality(&mut self, now: Instant) -> StreamQuality {
        match (self.last, &mut self.player) {
            (Some(last), _) => last,
            (None, Some(player)) => player.quality(now),
            (None, None) => StreamQuality::default(),
        }
    }

    /// All of a request or a segment is there.
    fn go_on(&mut self, way: StreamDirection, now: Instant, outlet: &mut dyn StreamOutlet) {
        let Some((request, start)) = self.requested else { return };
        match way {
            StreamDirection::Request => {
                self.responses += request.bytes.max(1);
                outlet.write_exchange(0, self.exchange, StreamDirection::Response, request.bytes.max(1));
            }
            StreamDirection::Response => {
                self.requested = None;
                self.exchange += 1;
                outlet.finish_load(Load { start, time: now - start, bytes: request.bytes });
                if let Some(player) = &mut self.player {
                    player.on_segment(now);
                }
            }
        }
    }
}

impl StreamApp for Viewer {
    crate::fork_by_clone!(dyn StreamApp);

    fn connections(&self) -> usize {
        1
    }

    fn start(&mut self, now: Instant) {
        let rates = self.params.ladder.rates();
        let ladder = match self.params.level {
            Some(level) => &rates[level as usize..=level as usize],
            None => &rates[..],
        };
        self.player = Some(Player::new(player_params(&self.params), ladder, now));
    }

    fn stop(&mut self, now: Instant) {
        self.last = Some(self.quality(now));
    }

    fn next_timer(&self) -> Instant {
        match &self.player {
            Some(player) if self.last.is_none() => player.next_timer(),
            _ => Instant::NEVER,
        }
    }

    fn on_timer(&mut self, now: Instant, outlet: &mut dyn StreamOutlet) {
        let Some(player) = &mut self.player else { return };
        if let Some(request) = player.request(now) {
            self.requested = Some((request, now));
            self.requests += u64::from(self.params.request);
            outlet.begin_load();
            outlet.write_exchange(0, self.exchange, StreamDirection::Request, u64::from(self.params.request));
        }
    }

    fn on_arrival(&mut self, arrival: StreamArrival, now: Instant, outlet: &mut dyn StreamOutlet) {
        let awaited = match arrival.way {
            StreamDirection::Request => self.requests,
            StreamDirection::Response => self.responses,
        };
        if arrival.bytes == awaited {
            self.go_on(arrival.way, now, outlet);
        }
    }

    fn on_exchange(&mut self, arrival: ExchangeArrival, now: Instant, outlet: &mut dyn StreamOutlet) {
        if arrival.exchange == self.exchange {
            self.go_on(arrival.way, now, outlet);
        }
    }

    fn forget(&mut self, now: Instant) {
        self.before = self.quality(now);
    }

    fn figures(&mut self, now: Instant) -> Vec<f64> {
        let (before, all) = (self.before, self.quality(now));
        let segments = all.segments - before.segments;
        let sum = all.mean_rate * all.segments as f64 - before.mean_rate * before.segments as f64;
        let startup = if before.startup.is_some() { None } else { all.startup };
        let watched = (all.watched - before.watched).as_secs_f64();
        let stalled = (all.stalled - before.stalled).as_secs_f64();
        vec![
            if segments > 0 { sum / segments as f64 / 1e6 } else { f64::NAN },
            (all.switches - before.switches) as f64,
            startup.map_or(f64::NAN, Duration::as_secs_f64),
            (all.stalls - before.stalls) as f64,
            if watched > 0.0 { stalled / watched } else { f64::NAN },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{arrive, build_streams, fire};
    use super::super::AppSpec;
    use super::*;

    /// A session over a link that carries `rate(seconds)`, with requests that take no time.
    fn watch(app: &mut dyn StreamApp, rate: impl Fn(f64) -> f64, end_ms: u64) {
        let (mut requests, mut responses) = (0, 0);
        while app.next_timer() < Instant::from_millis(end_ms) {
            let (now, seen) = fire(app);
            if seen.writes.is_empty() {
                continue;
            }
            let mut at = now.as_millis();
            requests += 400;
            let (_, _, bytes) = arrive(app, at, 0, StreamDirection::Request, requests).writes[0];
            responses += bytes;
            let mut left = bytes as f64 * 8.0;
            while left > 0.0 && at < end_ms {
                left -= rate(at as f64 / 1e3) / 1e3;
                at += 1;
            }
            if left <= 0.0 {
                arrive(app, at, 0, StreamDirection::Response, responses);
            }
        }
    }

    fn viewer(params: Params) -> Box<dyn StreamApp> {
        let mut app = build_streams(&AppSpec::Dash(params), 1);
        app.start(Instant::ZERO);
        app
    }

    #[test]
    fn a_segment_is_requested_at_a_time_and_the_video_starts_with_two() {
        let mut app = viewer(Params::default());
        let (now, seen) = fire(&mut *app);
        assert_eq!((now, seen.begun, app.next_timer()), (Instant::ZERO, 1, Instant::NEVER));
        assert_eq!(seen.writes, [(0, StreamDirection::Request, 400)]);
        // 4 s of 0.3 Mbit/s are 150,000 B
        assert_eq!(arrive(&mut *app, 10, 0, StreamDirection::Request, 400).writes, [(0, StreamDirection::Response, 150_000)]);
        let first = arrive(&mut *app, 130, 0, StreamDirection::Response, 150_000);
        assert_eq!(first.loads, [Load { start: now, time: Duration::from_millis(130), bytes: 150_000 }]);
        // 1.2 Mbit in 0.13 s: 90 % of 9.23 Mbit/s carry the highest level, 4 s of 4.3 Mbit/s
        fire(&mut *app);
        assert_eq!(arrive(&mut *app, 140, 0, StreamDirection::Request, 800).writes[0].2, 2_150_000);
        assert!(app.figures(Instant::from_millis(500))[2].is_nan());
        arrive(&mut *app, 1_140, 0, StreamDirection::Response, 2_300_000);
        // (0.3 + 4.3) / 2, one switch, start after 1.14 s, and nothing of the 2 s since stalled
        let figures = app.figures(Instant::from_millis(3_140));
        assert!((figures[0] - 2.3).abs() < 1e-9 && figures[1..] == [1.0, 1.14, 0.0, 0.0], "{figures:?}");
    }

    #[test]
    fn a_player_that_does_not_adapt_is_seen_by_every_measure() {
        // 5 Mbit/s, and 0.5 Mbit/s from 60 to 180 s
        let rate = |seconds: f64| if (60.0..180.0).contains(&seconds) { 0.5e6 } else { 5e6 };
        let end = Instant::from_secs(240);
        let figures = |level| {
            let mut app = viewer(Params { level, ..Params::default() });
            watch(&mut *app, rate, 240_000);
            app.figures(end)
        };
        let (adaptive, high, low) = (figures(None), figures(Some(4)), figures(Some(0)));
        assert!(adaptive[1] >= 4.0 && high[1] == 0.0 && low[1] == 0.0, "{adaptive:?} {high:?} {low:?}");
        assert!((high[0] - 2.85).abs() < 1e-9 && (low[0] - 0.3).abs() < 1e-9 && (0.9..2.8).contains(&adaptive[0]));
        // at least 69 of 240 s stall at 2.85 Mbit/s: `media::bola` has the sum
        assert!(high[4] > 0.28 && high[3] >= 3.0 && adaptive[4] < 0.05 && low[4] == 0.0, "{adaptive:?} {high:?} {low:?}");
        // 11.4 Mbit, twice, at 5 Mbit/s
        assert!((high[2] - 4.56).abs() < 0.01 && low[2] < 0.5, "{high:?} {low:?}");
    }

    #[test]
    fn what_was_before_the_measured_time_and_after_the_stop_does_not_count() {
        // nothing arrives from 20 s on: the buffer of 30 s at the most lasts until 50 s
        let rate = |seconds: f64| if seconds < 20.0 { 10e6 } else { 1.0 };
        let mut app = viewer(Params::default());
        watch(&mut *app, rate, 20_000);
        app.forget(Instant::from_secs(20));
        let rest = app.figures(Instant::from_secs(90));
        // 40 of 70 s or more
        assert!(rest[0].is_nan() && rest[1] == 0.0 && rest[2].is_nan() && rest[3] == 1.0, "{rest:?}");
        assert!((40.0 / 70.0..0.75).contains(&rest[4]), "{rest:?}");
        let mut stopped = viewer(Params::default());
        watch(&mut *stopped, rate, 20_000);
        stopped.stop(Instant::from_secs(20));
        assert!(stopped.next_timer() == Instant::NEVER && stopped.figures(Instant::from_secs(90))[3] == 0.0);
    }

    #[test]
    fn a_buffer_without_room_for_the_start_and_a_level_that_is_not_there_are_refused() {
        let read = |keys: serde_json::Value| Params::from_json(keys.as_object().expect("a table"));
        let refused = read(serde_json::json!({"buffer": 7_000_000_000_u64})).expect_err("an error");
        assert_eq!(refused.to_string(), "buffer: found 7s, allowed: at least start_segments times segment, 8s");
        assert_eq!(read(serde_json::json!({"level": 6})).expect_err("an error").to_string(), "level: found 6, allowed: 0 to 5");
    }
}
