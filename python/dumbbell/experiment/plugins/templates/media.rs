//! @NAME@: a video slows down while its packets wait, and speeds up otherwise.

mod dumbbell;

use dumbbell::{export_media, Kind, Media, MediaPacket, Param};

#[derive(Clone)]
struct ByDelay {
    target: i64,
    /// Smallest difference between arrival and sending, on two clocks, ns.
    base: i64,
    rate: f64,
    last: u64,
}

impl Media for ByDelay {
    const NAME: &'static str = "@NAME@";
    const TITLE: &'static str = "By delay";
    const SOURCE: &'static str = "its author";
    const PARAMS: &'static [Param] = &[
        Param { name: "target", kind: Kind::Time, value: 30e6, min: 1e6, max: 1e9, unit: "", doc: "Queueing delay from which on the video slows down." },
    ];

    fn new(_seed: u64, _number: u64, params: &[f64]) -> ByDelay {
        ByDelay { target: params[0] as i64, base: i64::MAX, rate: 300e3, last: 0 }
    }

    fn encoder_rate(&self, _buffered: u64) -> u64 {
        self.rate as u64
    }

    fn pacing_rate(&self, _buffered: u64) -> u64 {
        (1.5 * self.rate) as u64
    }

    fn feedback(&mut self, packets: &[MediaPacket], _rtt: u64, now: u64) {
        let arrived = packets.iter().filter(|one| one.arrived >= 0);
        let Some(least) = arrived.clone().map(|one| one.arrived - one.sent as i64).min() else { return };
        self.base = self.base.min(least);
        let lost = packets.len() - arrived.count();
        let seconds = ((now - self.last) as f64 / 1e9).min(0.2);
        self.last = now;
        // half a second of waiting packets or losses costs a third of the rate; it grows by 8 % a second
        let slows_down = least - self.base > self.target || lost * 20 > packets.len();
        self.rate *= if slows_down { 1.0 - 0.8 * seconds } else { 1.0 + 0.08 * seconds };
        self.rate = self.rate.clamp(150e3, 1.5e6);
    }

    fn copy(&self) -> Option<ByDelay> {
        Some(self.clone())
    }
}

export_media!(ByDelay);
