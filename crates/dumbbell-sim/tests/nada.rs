//! NADA in the test case of RFC 8867, section 5.1: one video over a link whose capacity varies.

use dumbbell_core::media::nada::{NadaFlow, Params};
use dumbbell_core::media::video::StatisticalParams;
use dumbbell_core::media::viewer::{VideoQuality, ViewerParams};
use dumbbell_core::units::{Duration, Instant};
use dumbbell_sim::protocol::{Answer, AnswerOutlet, Datagram, DatagramOutlet, Protocol, ProtocolContext, ProtocolStats};
use dumbbell_sim::Sim;
use serde_json::json;
use std::sync::{Arc, Mutex};

/// Reference capacity of RFC 8867, bit/s, in binary units.
const REFERENCE: u64 = 1 << 20;

/// Events of a flow.
#[derive(Default)]
struct Journal {
    /// Times of reports, and the reference rate after each, bit/s.
    rates: Vec<(f64, f64)>,
    /// Times of arrivals, and the payload that has arrived, bytes.
    arrivals: Vec<(f64, f64)>,
    quality: VideoQuality,
}

/// A flow that writes a journal.
struct Recorded {
    flow: NadaFlow,
    journal: Arc<Mutex<Journal>>,
}

impl Protocol for Recorded {
    fn start(&mut self, now: Instant) {
        self.flow.start(now);
    }
    fn stop(&mut self, now: Instant) {
        self.flow.stop(now);
        self.journal.lock().expect("no panic").quality = self.flow.viewer().clone().finish(now);
    }
    fn next_timer(&self) -> Instant {
        self.flow.next_timer()
    }
    fn on_timer(&mut self, now: Instant, net: &mut dyn DatagramOutlet) {
        self.flow.on_timer(now, net);
    }
    fn on_datagram(&mut self, datagram: &Datagram, now: Instant) -> Option<Answer> {
        let answer = self.flow.on_datagram(datagram, now);
        let received = self.flow.stats().map_or(0, |stats| stats.received);
        self.journal.lock().expect("no panic").arrivals.push((now.as_secs_f64(), received as f64));
        answer
    }
    fn receiver_timer(&self) -> Instant {
        self.flow.receiver_timer()
    }
    fn on_receiver_timer(&mut self, now: Instant, back: &mut dyn AnswerOutlet) {
        self.flow.on_receiver_timer(now, back);
    }
    fn on_answer(&mut self, answer: &Answer, rtt: Duration, now: Instant) {
        self.flow.on_answer(answer, rtt, now);
        let rate = self.flow.sender().reference_rate().bits() as f64;
        self.journal.lock().expect("no panic").rates.push((now.as_secs_f64(), rate));
    }
    fn stats(&self) -> Option<ProtocolStats> {
        self.flow.stats()
    }
}

/// Runs the first `seconds` of the case, measured from 10 s on: capacity 1.0, 2.5, 0.6 and 1.0 of the reference from 0, 40, 60 and 80 s on, tail drop of 300 ms at the reference.
/// Returns the journal, and the mean and the 95th percentile of the one-way delay, ms.
fn run(one_way: u64, seed: u64, seconds: u64) -> (Journal, [f64; 2]) {
    const SECOND: u64 = 1_000_000_000;
    let capacity = |ratio: f64| (ratio * REFERENCE as f64) as u64;
    let changes = [(40, 2.5), (60, 0.6), (80, 1.0)].map(|(at, ratio)| json!({"at": at * SECOND, "rate": capacity(ratio)}));
    let config = json!({"duration": seconds * SECOND, "seed": seed, "record": {"from": 10 * SECOND},
        "bottleneck": {"rate": REFERENCE, "rate_changes": changes, "aqm": {"name": "bfifo", "limit": REFERENCE * 3 / 10 / 8}},
        "udp": [{"protocol": {"name": "nada"}, "base_rtt": 2 * one_way * SECOND / 1000, "echo": true, "stop": (seconds - 1) * SECOND}]});
    let journal = Arc::new(Mutex::new(Journal::default()));
    let ours = Arc::clone(&journal);
    let new = move |params: Params, context: &ProtocolContext| {
        let flow = NadaFlow::new(params, &StatisticalParams::default(), ViewerParams::default(), context);
        Recorded { flow, journal: Arc::clone(&ours) }
    };
    let sim = Sim::builder(&config).endpoint("nada", Params::from_json, new).build().expect("a configuration");
    let outcome = sim.finish().expect("a run");
    let delays = ["delay_mean_ms", "delay_p95_ms"].map(|name| outcome.tables.flows.real(name).expect("a column")[0]);
    let mut journal = journal.lock().expect("no panic");
    (std::mem::take(&mut *journal), delays)
}

/// Mean reference rate between two times in s, bit/s.
fn mean_rate(journal: &Journal, from: f64, to: f64) -> f64 {
    let within = journal.rates.iter().filter(|(time, _)| (from..to).contains(time)).map(|(_, rate)| *rate);
    within.clone().sum::<f64>() / within.count() as f64
}

/// Payload that arrives between two times in s, bit/s.
fn goodput(journal: &Journal, from: f64, to: f64) -> f64 {
    let before = |time: f64| journal.arrivals[journal.arrivals.partition_point(|(other, _)| *other < time) - 1].1;
    (before(to) - before(from)) * 8.0 / (to - from)
}

/// Payload that a link of `ratio` of the reference capacity carries: 1000 of 1054 B of a packet.
fn payload_capacity(ratio: f64) -> f64 {
    ratio * REFERENCE as f64 * 1_000.0 / 1_054.0
}

#[test]
fn the_rate_converges_to_the_capacity_without_a_standing_queue() {
    for (one_way, seed) in [(50, 1), (50, 2), (100, 1), (100, 2)] {
        let (journal, [delay_mean, delay_p95]) = run(one_way, seed, 40);
        let share = goodput(&journal, 10.0, 39.0) / payload_capacity(1.0);
        assert!((0.9..=1.0).contains(&share), "{one_way} ms, seed {seed}: {share}");
        // at equilibrium, the signal is XREF * RMAX / r_ref = 10 * 1.5 / 0.995 = 15 ms, the smallest of 15 packets; a packet takes 8 ms to send
        let queueing = [delay_mean, delay_p95].map(|delay| delay - one_way as f64);
        assert!(queueing[0] < 40.0 && queueing[1] < 60.0, "{one_way} ms, seed {seed}: {queueing:?}");
        // no oscillation: means of 2 s stay near the mean of all
        let mean = mean_rate(&journal, 20.0, 38.0);
        for from in (20..38).step_by(2) {
            let part = mean_rate(&journal, f64::from(from), f64::from(from + 2)) / mean;
            assert!((0.85..=1.15).contains(&part), "{one_way} ms, seed {seed}, {from} s: {part}");
        }
    }
}

#[test]
fn the_rate_follows_a_capacity_that_varies() {
    for (one_way, seed) in [(50, 1), (50, 2), (50, 3), (100, 1), (100, 2), (100, 3)] {
        let (journal, _) = run(one_way, seed, 100);
        let at_least = |from: f64, to: f64, capacity: f64, least: f64| {
            let share = goodput(&journal, from, to) / capacity;
            assert!(share >= least, "{one_way} ms, seed {seed}, {from} to {to} s: {share}");
        };
        // 2.5 of the reference is more than RMAX
        at_least(45.0, 60.0, 1.5e6, 0.9);
        // the queue overflows at 60 s; the rate is back within 15 s
        at_least(75.0, 80.0, payload_capacity(0.6), 0.85);
        at_least(88.0, 98.0, payload_capacity(1.0), 0.9);
        assert!(mean_rate(&journal, 62.0, 80.0) < payload_capacity(0.6) * 1.05);
        // of 99 s of video, at most 5 s are frozen: the queue of 300 ms takes 500 ms at the lowest capacity
        assert!(journal.quality.frozen < Duration::from_secs(5) && journal.quality.shown > 2_700, "{:?}", journal.quality);
    }
}
