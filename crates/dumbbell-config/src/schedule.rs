//! When everything in a run starts, drawn from its seed: for engines that need all starts before the run.

use crate::web::WebProcess;
use crate::RunConfig;
use dumbbell_core::app::{AnyApp, AppContext, StreamDirection};
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
    /// Users of applications.
    pub apps: Vec<UserArrival>,
}

/// A user of an application to come.
pub struct UserArrival {
    /// When the user starts.
    pub at: Instant,
    /// Connections that it may have at one time; one of datagrams.
    pub connections: usize,
}

/// One way of a connection of a user, or of its datagrams, numbered behind `[[flows]]` and `[[udp]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppEndpoint {
    /// Number of the user.
    pub app: u32,
    /// Number of the connection among those of its user.
    pub connection: u32,
    /// Which way its data go.
    pub way: StreamDirection,
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
            apps: config
                .apps
                .iter()
                .enumerate()
                .map(|(app, one)| UserArrival {
                    at: one.start.draw(seed, "app start", app),
                    connections: match one.spec.build(&AppContext { seed, number: app as u64 }) {
                        AnyApp::Streams(streams) => streams.connections(),
                        AnyApp::Datagrams(_) | AnyApp::Media(_) => 1,
                    },
                })
                .collect(),
        }
    }

    /// Both ways of all connections of users, in the order of their numbers: the responses of a connection, then its requests.
    pub fn app_endpoints(&self) -> Vec<AppEndpoint> {
        let mut all = Vec::new();
        for (app, user) in (0..).zip(&self.apps) {
            for connection in 0..user.connections as u32 {
                all.extend(StreamDirection::ALL.map(|way| AppEndpoint { app, connection, way }));
            }
        }
        all
    }

    /// As JSON: `{"flows": [ns], "udp": [ns], "web": [[process, ns, bytes]], "app": [[ns, connections]]}`.
    pub fn to_json(&self) -> Value {
        let times = |of: &[Instant]| of.iter().map(|time| time.0).collect::<Vec<_>>();
        let web: Vec<_> = self.web.iter().map(|one| json!([one.process, one.at.0, one.size])).collect();
        let apps: Vec<_> = self.apps.iter().map(|one| json!([one.at.0, one.connections])).collect();
        json!({"flows": times(&self.flows), "udp": times(&self.udp), "web": web, "app": apps})
    }
}
