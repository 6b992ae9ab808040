//! Builds the parts of a run from its configuration.

use super::delay_lines::DelayLine;
use super::port::Stages;
use crate::config::{AppConfig, AppParams, FlowConfig, RunConfig, StageConfig, UdpConfig};
use dumbbell_bottleneck::build_path;
use dumbbell_core::app::StreamDirection;
use dumbbell_core::packet::FlowKey;
use dumbbell_core::ring::Ring;
use dumbbell_core::tcp::sender::{AppPlan, Application};
use dumbbell_core::units::{Duration, Instant, Rate};
use std::ops::Range;

/// Builds the stages that the packets of endpoint `number` pass alone.
pub fn build_stages(stages: &StageConfig, seed: u64, number: usize) -> Stages {
    let data = build_path(&stages.path, seed, "path", number);
    let acks = build_path(&stages.ack_path, seed, "ack path", number);
    Stages { data, acks }
}

/// The lines of a run, ascending by base RTT.
pub fn lines(config: &RunConfig) -> Vec<DelayLine> {
    let flows = config.flows.iter().map(|flow| (flow.params.base_rtt, flow.route.up));
    let web = config.web.iter().map(|web| (web.params.base_rtt, web.route.up));
    // UDP without echo has no propagation: its measured time is that of the queue
    let udp = config.udp.iter().map(UdpConfig::line);
    let apps = config.apps.iter().flat_map(|app| app.routes.iter().map(|route| (app.params.base_rtt, route.up)));
    let mut all: Vec<(Duration, bool)> = flows.chain(web).chain(udp).chain(apps).collect();
    all.sort_unstable();
    all.dedup();
    let line = |(delay, up): (Duration, bool)| {
        let ahead = if up { Duration::ZERO } else { delay / 2 };
        DelayLine { delay, up, ahead, acks: Ring::default(), members: Vec::new(), over: false, is_added: false }
    };
    all.into_iter().map(line).collect()
}

/// The line of a base RTT and direction.
pub fn line_of(lines: &[DelayLine], base_rtt: Duration, up: bool) -> u32 {
    lines.partition_point(|line| !line.is_added && (line.delay, line.up) < (base_rtt, up)) as u32
}

/// Returns the application of `flow`. The sender's clock is `ahead` of the engine's. It is `silent` between connecting and writing.
pub fn application(flow: &FlowConfig, ahead: Duration, silent: Range<Instant>) -> Application {
    let params = &flow.params;
    let rate = params.app_rate.map(Rate::bytes);
    if params.connect.is_some() {
        return Application::Planned(Box::new(AppPlan::new(None, Instant::ZERO, silent.start, silent.end)));
    }
    if params.app_rate_from > Instant::ZERO || params.app_pause.is_some() {
        let of = |time: Option<Instant>| time.map_or(Instant::NEVER, |time| time.saturating_add(ahead));
        let rate_from = params.app_rate_from.saturating_add(ahead);
        return Application::Planned(Box::new(AppPlan::new(rate, rate_from, of(params.app_pause), of(params.app_resume))));
    }
    match (params.size, rate) {
        (Some(size), _) => Application::Size(size),
        (None, Some(rate)) => Application::Rate(rate),
        (None, None) => Application::Bulk,
    }
}

/// Identity of one way of a connection of an application. `number` is that of the endpoint of its responses: what goes the other way has the
/// same addresses and ports, turned round, as acknowledgements have.
pub fn app_key(app: &AppConfig, number: u32, way: StreamDirection) -> FlowKey {
    let AppParams { src_host, dst_host, dscp, .. } = app.params;
    let ports = match way {
        StreamDirection::Response => number,
        StreamDirection::Request => number ^ (1 << 31),
    };
    FlowKey { src_host, dst_host, ports, dscp }
}

/// Identity of a listed flow or source of UDP, for queues that tell flows apart.
pub fn listed_key(config: &RunConfig, number: u32) -> FlowKey {
    let index = number as usize;
    match config.flows.get(index) {
        Some(FlowConfig { params, .. }) => {
            FlowKey { src_host: params.src_host, dst_host: params.dst_host, ports: number, dscp: params.dscp }
        }
        None => {
            let params = &config.udp[index - config.flows.len()].params;
            FlowKey { src_host: params.src_host, dst_host: params.dst_host, ports: number, dscp: params.dscp }
        }
    }
}
