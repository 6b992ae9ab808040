//! A congestion control for video of one's own: it slows down while packets wait, and speeds up otherwise.

use dumbbell_core::app::AppContext;
use dumbbell_core::media::feedback::{PacketReport, PerPacketFeedback, SenderControl};
use dumbbell_core::param::ParamError;
use dumbbell_core::units::{Duration, Instant, Rate};
use dumbbell_sim::{Outcome, RunError, Sim};
use serde_json::{json, Map, Value};

/// The sender's end.
struct DelayBased {
    /// Queueing delay from which on it slows down, ns.
    target: i64,
    rate: f64,
    /// Smallest difference between arrival and sending, on two clocks, ns.
    base: i64,
    last: Instant,
}

impl DelayBased {
    fn read(keys: &Map<String, Value>) -> Result<i64, ParamError> {
        let target = keys.get("target").map_or(Some(30_000_000), Value::as_i64);
        target.ok_or_else(|| ParamError::new("target", "no time", "ns"))
    }

    fn new(target: i64, _context: &AppContext) -> PerPacketFeedback<DelayBased> {
        let control = DelayBased { target, rate: 300e3, base: i64::MAX, last: Instant::ZERO };
        PerPacketFeedback::new(control, Duration::from_millis(50))
    }
}

impl SenderControl for DelayBased {
    fn encoder_rate(&self, _buffered: u64) -> Rate {
        Rate(self.rate as u64)
    }

    fn pacing_rate(&self, _buffered: u64) -> Rate {
        Rate((1.5 * self.rate) as u64)
    }

    fn on_feedback(&mut self, packets: &[PacketReport], _rtt: Duration, now: Instant) {
        let transit = |one: &PacketReport| Some(one.arrived?.0 as i64 - one.packet.sent.0 as i64);
        let Some(least) = packets.iter().filter_map(transit).min() else { return };
        self.base = self.base.min(least);
        let lost = packets.iter().filter(|one| one.arrived.is_none()).count();
        let seconds = now.saturating_since(self.last).as_secs_f64().min(0.2);
        self.last = now;
        // half a second of waiting packets or losses costs a third of the rate; it grows by 8 % a second
        let slows_down = least - self.base > self.target || lost * 20 > packets.len();
        self.rate *= if slows_down { 1.0 - 0.8 * seconds } else { 1.0 + 0.08 * seconds };
        self.rate = self.rate.clamp(150e3, 1.5e6);
    }
}

/// A minute of it over 1 Mbit/s and 40 ms, measured from 20 s on.
pub fn run() -> Result<Outcome, RunError> {
    let video = json!({"name": "video", "source": "statistical", "control": {"name": "delay-based", "target": 20_000_000}});
    let config = json!({
        "duration": 60_000_000_000_u64, "record": {"from": 20_000_000_000_u64},
        "bottleneck": {"rate": 1_000_000, "aqm": {"name": "pfifo", "limit": 100}},
        "app": [{"kind": video, "base_rtt": 40_000_000}],
    });
    Sim::builder(&config).media_control("delay-based", DelayBased::read, DelayBased::new).build()?.finish()
}

#[allow(dead_code)] // of the test that runs this
fn main() {
    match run() {
        Ok(outcome) => println!("{:?}", outcome.tables.apps),
        Err(error) => eprintln!("{error}"),
    }
}
