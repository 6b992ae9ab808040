//! Applications: what their users waited for, and what was measured of their connections and datagrams.

use crate::columns::{self, AppLoadsRow, AppRow};
use crate::flow::FlowResult;
use crate::table::Table;
use crate::transit::{Delays, UdpFate};
use dumbbell_config::{Classes, RunConfig};
use dumbbell_core::app::{AppKind, Load, PacketFate, StreamDirection};
use dumbbell_core::histogram::Histogram;
use dumbbell_core::rng::Rng;
use dumbbell_core::units::Instant;

/// The loads of one user: what it waited for, such as pages.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    /// How many began in the measured time.
    pub begun: u64,
    /// Times of those that were complete.
    pub times: Histogram,
    /// Sum of the exact times.
    total_ns: u128,
}

impl Loads {
    /// Mean time, s; NaN of none.
    pub fn mean_s(&self) -> f64 {
        self.total_ns as f64 / 1e9 / self.times.total() as f64
    }

    /// A quantile of the times, s; NaN of none.
    pub fn quantile_s(&self, share: f64) -> f64 {
        if self.times.total() > 0 {
            self.times.quantile(share).as_secs_f64()
        } else {
            f64::NAN
        }
    }
}

/// Results of the connections or datagrams of one user, one way.
#[derive(Clone, Debug, Default)]
pub struct WayResult {
    /// Payload that arrived, bytes.
    pub payload: u64,
    /// Packets sent, and sent again.
    pub sent: u64,
    /// Retransmissions.
    pub retransmissions: u64,
    /// One-way delays of datagrams.
    pub delays: Delays,
    /// Jitter of datagrams after the last packet, ms; NaN of none.
    pub jitter_ms: f64,
    /// Datagrams that were lost.
    pub fate: UdpFate,
    /// Values of the application's measures.
    pub figures: Vec<f64>,
}

/// Everything measured of one user.
#[derive(Clone, Debug, Default)]
pub struct UserResult {
    /// When it started.
    pub start: Instant,
    /// Loads of the user.
    pub loads: Loads,
    /// Results of its connections or datagrams, by [`StreamDirection::index`].
    pub ways: [WayResult; 2],
}

/// Everything measured of the applications of a run.
#[derive(Clone, Debug)]
pub struct AppMeasures {
    from: Instant,
    end: Instant,
    /// By number of the application.
    pub users: Vec<UserResult>,
    /// Counts of their endpoints when the measured time began, by number of the endpoint.
    begun: Vec<Option<FlowResult>>,
    limit: usize,
    /// Loads that are kept one by one, each with its application.
    kept: Vec<(u32, Load)>,
    seen: u64,
    rng: Rng,
}

impl AppMeasures {
    /// Nothing measured yet of a run of `config`.
    pub fn new(config: &RunConfig) -> AppMeasures {
        AppMeasures {
            from: config.measured_from(),
            end: config.end(),
            users: vec![UserResult::default(); config.apps.len()],
            begun: Vec::new(),
            limit: config.record.short_flows as usize,
            kept: Vec::new(),
            seen: 0,
            rng: Rng::stream(config.run.seed, "loads kept", 0),
        }
    }

    /// User `app` starts to wait for a load at `now`.
    pub fn begin_load(&mut self, app: u32, now: Instant) {
        self.users[app as usize].loads.begun += u64::from(self.from <= now && now < self.end);
    }

    /// User `app` has all of a load.
    pub fn finish_load(&mut self, app: u32, load: Load) {
        if load.start < self.from || load.start + load.time > self.end {
            return;
        }
        let loads = &mut self.users[app as usize].loads;
        loads.times.record(load.time);
        loads.total_ns += u128::from(load.time.0);
        // Vitter's algorithm R, as of short flows
        self.seen += 1;
        if self.kept.len() < self.limit {
            self.kept.push((app, load));
        } else {
            let place = self.rng.draw_below(self.seen) as usize;
            if place < self.limit {
                self.kept[place] = (app, load);
            }
        }
    }

    /// The measured time of endpoint `number` begins `now`; `before` is what it has counted.
    pub fn begin_endpoint(&mut self, number: usize, before: FlowResult, now: Instant) {
        if self.begun.len() <= number {
            self.begun.resize(number + 1, None);
        }
        self.begun[number] = Some(FlowResult { since: now, ..before });
    }

    /// Endpoint `number` is over, and its number may be that of another.
    pub fn forget_endpoint(&mut self, number: usize) {
        if let Some(before) = self.begun.get_mut(number) {
            *before = None;
        }
    }

    /// The measured time of endpoint `number` of user `app` is over. `figures` gives the values of the application's measures. Returns its result in that time.
    pub fn finish_endpoint(
        &mut self,
        (number, app, way): (usize, u32, StreamDirection),
        result: FlowResult,
        figures: impl FnOnce(PacketFate) -> Vec<f64>,
    ) -> FlowResult {
        let result = match self.begun.get(number) {
            Some(Some(before)) => result.subtract(before),
            _ => result,
        };
        let own = &mut self.users[app as usize].ways[way.index()];
        own.payload += result.payload;
        own.sent += result.sender.sent;
        // of a stack that reports none there is no sum
        own.retransmissions = own.retransmissions.saturating_add(result.retransmissions());
        if let Some(transit) = &result.transit {
            own.delays.merge(&transit.delays);
            own.jitter_ms = transit.jitter_ms();
            own.fate.merge(result.fate());
            own.figures = figures(PacketFate { lost: own.fate.lost, known: own.fate.known });
        }
        result
    }

    /// The values of the measures of user `app`, whose streams are measured this way.
    pub fn set_figures(&mut self, app: u32, way: StreamDirection, figures: Vec<f64>) {
        self.users[app as usize].ways[way.index()].figures = figures;
    }

    /// One row per user, of datagrams one per user and way.
    pub fn table(&self, config: &RunConfig, classes: &Classes) -> Table {
        let seconds = config.measured_time().as_secs_f64();
        let rows =
            config.apps.iter().zip(&self.users).zip(&classes.of_app).enumerate().flat_map(|(number, ((app, user), of_app))| {
                let kind = app.spec.kind();
                let is_shown = move |way: &StreamDirection| match kind {
                    AppKind::Streams(shown) => *way == shown,
                    AppKind::Datagrams => true,
                    AppKind::Media => *way == StreamDirection::Response,
                };
                StreamDirection::ALL.into_iter().filter(is_shown).map(move |way| AppRow {
                    number: number as u64,
                    app,
                    class: of_app[way.index()],
                    way,
                    user,
                    result: &user.ways[way.index()],
                    delays_ms: user.ways[way.index()].delays.figures_ms(),
                    seconds: seconds.min(config.end().saturating_since(user.start).as_secs_f64()),
                })
            });
        columns::Apps::table(&rows.collect::<Vec<_>>())
    }

    /// One row per load that is kept, in order of application and time.
    pub fn loads_table(&mut self, config: &RunConfig, classes: &Classes) -> Table {
        self.kept.sort_unstable_by_key(|&(app, load)| (app, load.start, load.time, load.bytes));
        let row = |&(app, load): &(u32, Load)| {
            let way = match config.apps[app as usize].spec.kind() {
                AppKind::Streams(way) => way,
                AppKind::Datagrams | AppKind::Media => StreamDirection::Response,
            };
            AppLoadsRow { app, class: classes.of_app[app as usize][way.index()], load }
        };
        columns::AppLoads::table(&self.kept.iter().map(row).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbbell_core::units::Duration;
    use serde_json::json;

    fn measures(record: &serde_json::Value) -> (RunConfig, AppMeasures) {
        let config = json!({
            "duration": 10_000_000_000_u64, "bottleneck": {"aqm": {"name": "pfifo"}}, "record": record,
            "app": [{"kind": {"name": "pages"}, "cc": {"name": "cubic"}}],
        });
        let config = RunConfig::from_json(&config).expect("a configuration");
        let measures = AppMeasures::new(&config);
        (config, measures)
    }

    fn load(start_s: u64, time_ms: u64) -> Load {
        Load { start: Instant::from_secs(start_s), time: Duration::from_millis(time_ms), bytes: 1000 }
    }

    #[test]
    fn only_loads_of_the_measured_time_count() {
        let (config, mut measures) = measures(&json!({"from": 2_000_000_000_u64}));
        for (start_s, time_ms) in [(1, 500), (2, 300), (3, 500), (9, 1001)] {
            measures.begin_load(0, Instant::from_secs(start_s));
            measures.finish_load(0, load(start_s, time_ms));
        }
        // the first began before, the last was not complete
        let table = measures.table(&config, &config.classes());
        assert_eq!((table.int("loads_begun"), table.int("loads")), (Some(&[3][..]), Some(&[2][..])));
        assert!((table.real("load_mean_s").expect("a column")[0] - 0.4).abs() < 1e-12);
        assert_eq!(measures.loads_table(&config, &config.classes()).real("start_s"), Some(&[2.0, 3.0][..]));
    }

    #[test]
    fn of_too_many_loads_an_even_sample_is_kept_and_all_are_counted() {
        let (config, mut measures) = measures(&json!({"short_flows": 100}));
        for number in 0..9_000 {
            let start = Instant(number * 1_000_000);
            measures.begin_load(0, start);
            measures.finish_load(0, Load { start, ..load(0, 1) });
        }
        let kept = measures.loads_table(&config, &config.classes());
        let starts = kept.real("start_s").expect("a column");
        // mean 4.5 s, standard deviation 9 / sqrt(12) / 10 = 0.26 s
        assert!(starts.len() == 100 && (starts.iter().sum::<f64>() / 100.0 - 4.5).abs() < 0.9);
        assert_eq!(measures.table(&config, &config.classes()).int("loads"), Some(&[9_000][..]));
    }
}
