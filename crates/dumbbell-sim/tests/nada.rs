//! NADA in the test cases of RFC 8867, sections 5 and 6. Each source has a video and a call of 20 kbit/s, and capacities are those of the RFC in binary units, as in the authors' simulations.
//!
//! The RFC says in words what it expects. The bars here are: use of the capacity, an equilibrium queueing delay of XREF * RMAX / rate (RFC 8698, section 4.3), and flows whose rates are within a factor of 3, which RFC 8868,
//! section 4.1, takes for fair.

use dumbbell_core::app::AppContext;
use dumbbell_core::media::control::{MediaArrival, MediaControl, MediaReport};
use dumbbell_core::media::nada::{Nada, Params};
use dumbbell_core::units::{Duration, Instant, Rate};
use dumbbell_sim::{Outcome, Sim};
use serde_json::{json, Value};
use std::sync::{Arc, Mutex};

const SECOND: u64 = 1_000_000_000;
/// 1 Mbit/s of RFC 8867.
const MBIT: f64 = (1 << 20) as f64;
/// Highest rate of a video.
const MOST: f64 = 1.5e6;

/// Events of a video.
#[derive(Clone, Default)]
struct Journal {
    /// Times of reports, s, and the reference rate after each, bit/s.
    rates: Vec<(f64, f64)>,
    /// Times of arrivals, s, the payload that has arrived by then, bytes, and the delay one way, ms.
    arrivals: Vec<(f64, f64, f64)>,
}

impl Journal {
    /// Mean reference rate between two times in s, bit/s.
    fn mean_rate(&self, from: f64, to: f64) -> f64 {
        let within = self.rates.iter().filter(|(time, _)| (from..to).contains(time)).map(|(_, rate)| *rate);
        within.clone().sum::<f64>() / within.count() as f64
    }

    /// Payload that arrives between two times in s, bit/s.
    fn goodput(&self, from: f64, to: f64) -> f64 {
        let until = |time: f64| match self.arrivals.partition_point(|(other, ..)| *other < time) {
            0 => 0.0,
            n => self.arrivals[n - 1].1,
        };
        (until(to) - until(from)) * 8.0 / (to - from)
    }

    /// Mean and 95th percentile of the delay one way between two times in s, ms.
    fn delay(&self, from: f64, to: f64) -> [f64; 2] {
        let mut within: Vec<f64> =
            self.arrivals.iter().filter(|(time, ..)| (from..to).contains(time)).map(|(.., delay)| *delay).collect();
        within.sort_unstable_by(f64::total_cmp);
        [within.iter().sum::<f64>() / within.len() as f64, within[within.len() * 95 / 100]]
    }
}

/// NADA that writes a journal.
struct Recorded {
    nada: Nada,
    user: usize,
    journals: Arc<Mutex<Vec<Journal>>>,
}

impl Recorded {
    fn note(&self, write: impl FnOnce(&mut Journal)) {
        let mut all = self.journals.lock().expect("no panic");
        if all.len() <= self.user {
            all.resize(self.user + 1, Journal::default());
        }
        write(&mut all[self.user]);
    }
}

impl MediaControl for Recorded {
    fn start(&mut self, now: Instant) {
        self.nada.start(now);
    }
    fn encoder_rate(&self, buffered: u64) -> Rate {
        self.nada.encoder_rate(buffered)
    }
    fn pacing_rate(&self, buffered: u64) -> Rate {
        self.nada.pacing_rate(buffered)
    }
    fn on_arrival(&mut self, arrival: &MediaArrival) {
        self.nada.on_arrival(arrival);
        self.note(|journal| {
            let before = journal.arrivals.last().map_or(0.0, |last| last.1);
            let bytes = before + f64::from(arrival.packet.bytes);
            journal.arrivals.push((arrival.at.as_secs_f64(), bytes, arrival.delay.as_secs_f64() * 1e3));
        });
    }
    fn report_interval(&self) -> Duration {
        self.nada.report_interval()
    }
    fn report(&mut self, now: Instant) -> MediaReport {
        self.nada.report(now)
    }
    fn on_report(&mut self, value: u64, rtt: Duration, now: Instant) {
        self.nada.on_report(value, rtt, now);
        let rate = self.nada.sender().reference_rate().bits() as f64;
        self.note(|journal| journal.rates.push((now.as_secs_f64(), rate)));
    }
}

/// A video with NADA, from `start` to `stop` s.
fn video(one_way_ms: u64, start: u64, stop: u64) -> Value {
    json!({
        "kind": {"name": "video", "source": "statistical", "control": "recorded"}, "base_rtt": 2 * one_way_ms * SECOND / 1000,
        "start": {"min": start * SECOND, "max": start * SECOND}, "stop": stop * SECOND,
    })
}

/// The call beside a video: 50 B each 20 ms are 20 kbit/s.
fn call(video: &Value) -> Value {
    let mut call = video.clone();
    call["kind"] = json!({"name": "call", "payload": 50});
    call
}

/// A run of these videos, each with a call, over a link with these capacities from these times in s on, and a queue of 300 ms at the first of them.
fn scene(seconds: u64, capacities: &[(u64, f64)], videos: &[Value]) -> Value {
    let rate = |mbit: f64| (mbit * MBIT) as u64;
    let changes: Vec<Value> =
        capacities[1..].iter().map(|&(at, mbit)| json!({"at": at * SECOND, "rate": rate(mbit)})).collect();
    let first = rate(capacities[0].1);
    let calls = videos.iter().map(call);
    let apps: Vec<Value> = videos.iter().cloned().chain(calls).collect();
    json!({
        "duration": seconds * SECOND,
        "bottleneck": {"rate": first, "rate_changes": changes, "aqm": {"name": "bfifo", "limit": first * 3 / 10 / 8}},
        "app": apps,
    })
}

/// Runs a scene. Returns the journals of its videos, in order.
fn run(config: &Value, seed: u64) -> (Vec<Journal>, Outcome) {
    let mut config = config.clone();
    config["seed"] = json!(seed);
    let journals = Arc::new(Mutex::new(Vec::new()));
    let ours = Arc::clone(&journals);
    let new = move |params: Params, context: &AppContext| Recorded {
        nada: Nada::new(&params),
        user: context.number as usize,
        journals: Arc::clone(&ours),
    };
    let read = |keys: &serde_json::Map<String, Value>| Params::from_json(keys);
    let outcome = Sim::builder(&config).media_control("recorded", read, new).build().expect("a configuration").finish();
    let all = journals.lock().expect("no panic").clone();
    (all, outcome.expect("a run"))
}

/// Payload of videos that a link of `mbit` carries beside `calls`: 1000 of 1054 B of a packet, and calls of 104 B each 20 ms.
fn payload_capacity(mbit: f64, calls: usize) -> f64 {
    (mbit * MBIT - calls as f64 * 41_600.0) * 1_000.0 / 1_054.0
}

#[test]
fn explore() {
    let show = |name: &str, journals: &[Journal], windows: &[(f64, f64)]| {
        for &(from, to) in windows {
            print!("{name} {from}-{to}:");
            for j in journals {
                let [mean, p95] = if j.goodput(from, to) > 0.0 { j.delay(from, to) } else { [f64::NAN; 2] };
                print!("  {:.3} Mbit {:.0}/{:.0} ms", j.goodput(from, to) / 1e6, mean, p95);
            }
            println!();
        }
    };
    for owd in [50, 100] {
        let (j, o) = run(&scene(100, &[(0, 1.0), (40, 2.5), (60, 0.6), (80, 1.0)], &[video(owd, 0, 99)]), 1);
        show(&format!("5.1 {owd}"), &j, &[(10., 39.), (45., 60.), (62., 70.), (70., 80.), (88., 98.)]);
        println!("{:?} {:?}", o.tables.apps.real("frozen_s"), o.tables.apps.real("loss_share"));
        let (j, _) = run(&scene(125, &[(0, 4.0), (25, 2.0), (50, 3.5), (75, 1.0), (100, 2.0)], &[video(owd, 0, 124), video(owd, 0, 124)]), 1);
        show(&format!("5.2 {owd}"), &j, &[(15., 25.), (35., 50.), (60., 75.), (85., 100.), (110., 124.)]);
    }
    // 5.3
    for impaired in [true, false] {
        let mut config = scene(100, &[(0, 2.0), (20, 1.0), (40, 0.5), (60, 2.0)], &[video(50, 0, 99), video(50, 0, 99)]);
        config["app"][1]["direction"] = json!("up");
        config["app"][3]["direction"] = json!("up");
        let r = |m: f64| (m * MBIT) as u64;
        config["reverse"] = if impaired {
            json!({"rate": r(2.0), "rate_changes": [{"at": 35 * SECOND, "rate": r(0.8)}, {"at": 70 * SECOND, "rate": r(2.0)}], "aqm": {"name": "bfifo", "limit": r(2.0) * 3 / 80}})
        } else {
            json!({"rate": r(20.0), "aqm": {"name": "bfifo", "limit": r(2.0) * 3 / 80}})
        };
        let (j, _) = run(&config, 1);
        show(&format!("5.3 {impaired}"), &j, &[(10., 20.), (28., 40.), (48., 60.), (70., 98.)]);
    }
    let three = |p: f64| {
        let mut config = scene(120, &[(0, 3.5)], &[video(50, 0, 119), video(50, 20, 119), video(50, 40, 119)]);
        config["app"][0]["kind"]["control"] = json!({"name": "recorded", "priority": p});
        config
    };
    for seed in 1..4 {
        show("5.4", &run(&three(1.0), seed).0, &[(10., 20.), (30., 40.), (60., 119.)]);
    }
    let rtts: Vec<Value> = [10, 25, 50, 100, 150].iter().zip(0..).map(|(owd, n)| video(*owd, 10 * n, 299)).collect();
    for seed in 1..4 {
        show("5.5", &run(&scene(300, &[(0, 4.0)], &rtts), seed).0, &[(60., 180.), (180., 299.)]);
    }
    for queue in [300, 1000] {
        let mut config = scene(120, &[(0, 2.0)], &[video(50, 5, 119)]);
        config["bottleneck"]["aqm"]["limit"] = json!((2.0 * MBIT) as u64 * queue / 8000);
        config["flows"] = json!([{"cc": {"name": "reno"}, "base_rtt": SECOND / 10}]);
        for seed in 1..4 {
            let (j, o) = run(&config, seed);
            show(&format!("5.6 {queue}"), &j, &[(30., 119.)]);
            println!("tcp {:?}", o.tables.flows.real("goodput_mbit"));
        }
    }
    let mut short = scene(300, &[(0, 2.0)], &[video(50, 5, 299), video(50, 5, 299)]);
    short["web"] = json!([{"cc": {"name": "reno"}, "base_rtt": SECOND / 10, "arrivals": {"per_second": 1.0}, "size": {"fixed": 40_000}}]);
    show("5.7", &run(&short, 1).0, &[(30., 299.)]);
    let pause = scene(120, &[(0, 3.5)], &[video(50, 0, 119), video(50, 0, 40), video(50, 0, 119), video(50, 60, 119)]);
    show("5.8", &run(&pause, 1).0, &[(20., 40.), (45., 60.), (80., 119.)]);
    show("6.1", &run(&three(2.0), 1).0, &[(60., 119.)]);
    for aqm in ["codel", "fq_codel", "pie"] {
        for ecn in [true, false] {
            let mut config = scene(60, &[(0, 1.0)], &[video(50, 0, 59)]);
            config["bottleneck"]["aqm"] = json!({"name": aqm, "ecn": ecn});
            config["app"][0]["kind"]["marking"] = json!("ect0");
            let (j, o) = run(&config, 1);
            show(&format!("6.2 {aqm} {ecn}"), &j, &[(20., 59.)]);
            println!("{:?}", o.tables.apps.real("loss_share"));
        }
    }
    let hop = |name: &str, m: f64| { let r = (m * MBIT) as u64; json!({"name": name, "rate": r, "aqm": {"name": "bfifo", "limit": r * 3 / 80}}) };
    let mut two = scene(300, &[(0, 2.0)], &[video(100, 0, 299), video(40, 0, 299), video(40, 0, 299)]);
    two["hop"] = json!([hop("b-c", 8.0), hop("c-d", 1.5)]);
    for n in [0, 1, 2, 3, 4, 5] {
        two["app"][n]["route"] = [json!(["bottleneck", "b-c", "c-d"]), json!(["bottleneck"]), json!(["c-d"])][n % 3].clone();
    }
    show("6.3", &run(&two, 1).0, &[(60., 299.)]);
}
