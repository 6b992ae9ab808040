//! Short flows: when the next one arrives, and what it is like.

use crate::{RunConfig, WebConfig};
use dumbbell_core::packet::FlowKey;
use dumbbell_core::rng::Rng;
use dumbbell_core::traffic::{Arrivals, SizeSource};
use dumbbell_core::units::{Instant, Rate};

/// One process of arrivals.
#[derive(Clone)]
pub struct WebProcess {
    arrivals: Arrivals,
    sizes: SizeSource,
    rate: Rate,
    arrival_rng: Rng,
    size_rng: Rng,
    /// No flow arrives from then on, on the engine's clock.
    until: Instant,
    key: FlowKey,
}

impl WebProcess {
    /// Process number `index` of `config`. Returns it with the time of its first arrival.
    pub fn new(config: &RunConfig, web: &WebConfig, index: usize) -> (WebProcess, Instant) {
        let (seed, params) = (config.run.seed, &web.params);
        let ahead = params.base_rtt / 2;
        let start = web.start.draw(seed, "web start", index);
        let end = params.stop.map_or(config.end(), |stop| stop.min(config.end()));
        let mut process = WebProcess {
            arrivals: params.arrivals,
            sizes: params.size.source(),
            rate: config.bottleneck.rate,
            arrival_rng: Rng::stream(seed, "web arrivals", index as u64),
            size_rng: Rng::stream(seed, "web sizes", index as u64),
            until: end.saturating_add(ahead),
            key: FlowKey { src_host: params.src_host, dst_host: params.dst_host, ports: 0, dscp: params.dscp },
        };
        let first = process.next_arrival(start + ahead);
        (process, first)
    }

    /// When the next flow arrives after `time`; [`Instant::NEVER`] if none does.
    pub fn next_arrival(&mut self, time: Instant) -> Instant {
        let next = time.saturating_add(self.arrivals.gap(self.rate, &mut self.arrival_rng));
        if next < self.until {
            next
        } else {
            Instant::NEVER
        }
    }

    /// The size of the next flow, bytes.
    pub fn size(&mut self) -> u64 {
        self.sizes.draw(&mut self.size_rng)
    }

    /// The key of flow `number`.
    pub fn key(&self, number: u32) -> FlowKey {
        FlowKey { ports: number, ..self.key }
    }
}
