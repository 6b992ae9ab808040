//! When everything in a run starts, drawn from its seed: for engines that need all starts before the run.

use crate::web::WebProcess;
use crate::RunConfig;
use dumbbell_core::units::Instant;
use serde_json::{json, Value};

/// When everything in a run starts, drawn from its seed.
pub struct Schedule {
    /// Starts of `[[flows]]`, on their own clocks.
    pub flows: Vec<Instant>,
    /// Starts of `[[udp]]`.
    pub udp: Vec<Instant>,
    /// Short flows, in the order of their numbers.
    pub web: Vec<FlowArrival>,
}

/// A short flow to come.
pub struct FlowArrival {
    /// Which process of `[[web]]`.
    pub process: usize,
    /// When it connects.
    pub at: Instant,
    /// Payload, bytes.
    pub size: u64,
}

impl Schedule {
    /// The schedule of a run, the same that the simulator follows.
    pub fn new(config: &RunConfig) -> Schedule {
        let seed = config.run.seed;
        let mut web = Vec::new();
        for (index, one) in config.web.iter().enumerate() {
            let ahead = one.params.base_rtt / 2;
            let (mut process, mut at) = WebProcess::new(config, one, index);
            while at != Instant::NEVER {
                web.push((at, FlowArrival { process: index, at: at - ahead, size: process.size() }));
                at = process.next_arrival(at);
            }
        }
        // numbered as they reach the queue, and the processes in order at one instant
        web.sort_by_key(|&(at, ref one)| (at, one.process));
        Schedule {
            flows: config.flows.iter().enumerate().map(|(index, flow)| flow.start.draw(seed, "start", index)).collect(),
            udp: config.udp.iter().enumerate().map(|(index, udp)| udp.start.draw(seed, "udp start", index)).collect(),
            web: web.into_iter().map(|(_, one)| one).collect(),
        }
    }

    /// As JSON: `{"flows": [ns], "udp": [ns], "web": [[process, ns, bytes]]}`.
    pub fn to_json(&self) -> Value {
        let times = |of: &[Instant]| of.iter().map(|time| time.0).collect::<Vec<_>>();
        let web: Vec<_> = self.web.iter().map(|one| json!([one.process, one.at.0, one.size])).collect();
        json!({"flows": times(&self.flows), "udp": times(&self.udp), "web": web})
    }
}
