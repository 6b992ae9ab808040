//! Builds what a configuration names: the queue disciplines of its hops, and what its flows speak.

use dumbbell_config::extensions::{Extensions, MakeProtocol};
use dumbbell_config::{BottleneckParams, FlowConfig, FlowParams, RunConfig, BOTTLENECK};
use dumbbell_core::aqm::{AnyAqm, Aqm, QueueContext};
use dumbbell_core::cc::{AnyCc, CcContext, CcSpec};
use dumbbell_core::link;
use dumbbell_core::packet::HEADERS;
use dumbbell_core::param::ParamError;
use dumbbell_core::rng::mix;
use dumbbell_core::units::{Rate, Time};
use serde_json::{Map, Value};
use std::sync::Arc;

/// What a listed flow speaks.
pub enum Speaks {
    /// TCP with this congestion control.
    Tcp(AnyCc),
    /// What a library brings along.
    Stack(MakeProtocol),
}

/// Checks a configuration, canonical JSON, without running it.
///
/// # Errors
/// The first key that cannot be used.
pub fn check(config: &Value) -> Result<(), ParamError> {
    check_with(config, &Extensions::default())
}

/// [`check`] with algorithms that are not registered.
///
/// # Errors
/// The first key that cannot be used.
pub fn check_with(config: &Value, extensions: &Extensions) -> Result<(), ParamError> {
    let config = RunConfig::read(config, extensions)?;
    let (queues, _) = build(&config, extensions)?;
    // a run itself may ask for more than there is: whoever watches one asks for all
    check_states(&config, &queues)
}

/// Builds what `config` names: the queue discipline of each hop and the congestion controls of the flows.
///
/// # Errors
/// The first key that cannot be used.
pub fn build(config: &RunConfig, extensions: &Extensions) -> Result<(Vec<AnyAqm>, Vec<Speaks>), ParamError> {
    if config.hosts.mss + u32::from(HEADERS) > u32::from(u16::MAX) {
        return Err(ParamError::new("hosts.mss", config.hosts.mss, "frames below 64 KiB"));
    }
    let mut controls = Vec::with_capacity(config.flows.len());
    let mut last: Option<(&FlowConfig, CcSpec)> = None;
    for (index, flow) in config.flows.iter().enumerate() {
        let within = |error: ParamError| error.prefix_key(&format!("flows[{index}].cc"));
        if let Some(make) = extensions.choose_stack(&flow.cc).map_err(within)? {
            fits_stack(&flow.params).map_err(|error| error.prefix_key(&format!("flows[{index}]")))?;
            controls.push(Speaks::Stack(make));
            continue;
        }
        let chosen = match last.take() {
            Some((other, chosen)) if Arc::ptr_eq(&other.cc, &flow.cc) => chosen,
            _ => extensions.choose_control(&flow.cc).map_err(within)?,
        };
        controls.push(Speaks::Tcp(chosen.build(&CcContext { seed: config.run.seed, flow: index as u64 })));
        last = Some((flow, chosen));
    }
    Ok((every_queue(config, extensions)?, controls))
}

/// What is to be recorded of queue disciplines, one of them tells, at points of the time series; of a plugin that is not known before it runs.
fn check_states(config: &RunConfig, queues: &[AnyAqm]) -> Result<(), ParamError> {
    if config.states.is_empty() {
        return Ok(());
    }
    if !config.record.series {
        return Err(ParamError::new(
            "record.queue",
            config.states.join(", "),
            "nothing without record.series: it is kept at its points",
        ));
    }
    let mut told = Vec::new();
    for queue in queues {
        if matches!(queue, AnyAqm::Dyn(_)) {
            return Ok(());
        }
        queue.state(&mut |name, _| told.push(name));
    }
    match config.states.iter().find(|state| !told.contains(state)) {
        None => Ok(()),
        Some(state) if told.is_empty() => {
            Err(ParamError::new("record.queue", state, "nothing: the queue disciplines of this run tell nothing of their state"))
        }
        Some(state) => {
            told.dedup();
            Err(ParamError::new("record.queue", state, format!("what a queue discipline of this run tells: {}", told.join(", "))))
        }
    }
}

/// What only TCP's application and receiver can do, a flow of a stack does not ask for.
fn fits_stack(params: &FlowParams) -> Result<(), ParamError> {
    let refused = |key: &str| Err(ParamError::new(key, "a value", "none with a stack"));
    let default = FlowParams::default();
    if params.connect.is_some() {
        return refused("connect");
    }
    if params.app_rate_from != default.app_rate_from || params.app_pause.is_some() {
        return refused(if params.app_pause.is_some() { "app_pause" } else { "app_rate_from" });
    }
    if params.ecn_echo != default.ecn_echo {
        return refused("ecn_echo");
    }
    Ok(())
}

/// Builds the queue discipline of each hop of `config`: the bottleneck, then the others.
///
/// # Errors
/// The first key below an `aqm` that cannot be used.
pub fn queue_disciplines(config: &RunConfig) -> Result<Vec<AnyAqm>, ParamError> {
    every_queue(config, &Extensions::default())
}

fn every_queue(config: &RunConfig, extensions: &Extensions) -> Result<Vec<AnyAqm>, ParamError> {
    let mut aqms = vec![first_queue(config, extensions)?];
    for (index, hop) in config.hops.iter().enumerate() {
        // queues of one kind do not draw the same numbers
        let seed = mix(config.run.seed ^ (index as u64 + 1) << 48);
        let context = context(config, &hop.params, seed);
        let place = format!("{}.aqm", hop.name);
        let is_paced = is_paced(&hop.params, hop.link.as_ref());
        let aqm = discipline(&hop.aqm, &context, is_paced, extensions).map_err(|e| e.prefix_key(&place))?;
        check_link(hop.link.as_ref(), &aqm).map_err(|e| e.prefix_key(&hop.name))?;
        aqms.push(aqm);
    }
    Ok(aqms)
}

/// Builds the queue discipline of `config`, which learns the rate that it is to know.
///
/// # Errors
/// The first key below `bottleneck.aqm` that cannot be used.
pub fn queue_discipline(config: &RunConfig) -> Result<AnyAqm, ParamError> {
    first_queue(config, &Extensions::default())
}

/// What a queue is built for.
fn context(config: &RunConfig, params: &BottleneckParams, seed: u64) -> QueueContext {
    let hosts = &config.hosts;
    let (full_frame, small_heads) = (hosts.full_frame(), hosts.small_heads());
    QueueContext { rate: params.rate, seed, link_layer: params.layer(), full_frame, small_heads }
}

fn first_queue(config: &RunConfig, extensions: &Extensions) -> Result<AnyAqm, ParamError> {
    let context = context(config, &config.bottleneck, config.run.seed);
    let is_paced = is_paced(&config.bottleneck, config.link.as_ref());
    let aqm = discipline(&config.aqm, &context, is_paced, extensions).map_err(|e| e.prefix_key("bottleneck.aqm"))?;
    check_link(config.link.as_ref(), &aqm).map_err(|e| e.prefix_key(BOTTLENECK))?;
    Ok(aqm)
}

/// Whether a link has a pace of its own, which a queue that shapes leaves to it.
fn is_paced(params: &BottleneckParams, link: Option<&link::LinkSpec>) -> bool {
    params.trace.is_some() || link.is_some_and(|link| !matches!(link, link::LinkSpec::Unshaped(_)))
}

/// A link without a rate needs a queue that has one.
fn check_link(link: Option<&link::LinkSpec>, aqm: &AnyAqm) -> Result<(), ParamError> {
    match link {
        Some(link::LinkSpec::Unshaped(_)) if !aqm.shapes() => {
            Err(ParamError::new("link", "unshaped", "a link with a rate, or a queue that shapes by itself"))
        }
        _ => Ok(()),
    }
}

fn discipline(
    aqm: &Map<String, Value>,
    context: &QueueContext,
    is_paced: bool,
    extensions: &Extensions,
) -> Result<AnyAqm, ParamError> {
    let mut any = extensions.build_aqm(aqm, context)?;
    if is_paced {
        dumbbell_core::with_aqm!(&mut any, aqm => if aqm.shapes() {
            // a rate that is the mean of others is none to shape at: without a rate of its own, the queue leaves the pace to the link
            aqm.set_rate(Rate::UNLIMITED, Time::ZERO);
        });
    }
    Ok(any)
}
