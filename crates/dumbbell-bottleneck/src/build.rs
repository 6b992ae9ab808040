//! Builds the queue disciplines of a configuration.

use dumbbell_config::extensions::Extensions;
use dumbbell_config::{RunConfig, BOTTLENECK};
use dumbbell_core::aqm::{AnyAqm, Aqm, QueueContext};
use dumbbell_core::link::LinkSpec;
use dumbbell_core::param::ParamError;
use dumbbell_core::rng::mix;
use dumbbell_core::units::{Instant, Rate};
use serde_json::Value;

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
    // a run itself may ask for more than there is: whoever watches one asks for all
    check_states(&config, &queue_disciplines(&config)?)
}

/// Checks that each state to be recorded is one of a queue discipline of the run, and that the time series are kept. The states of a plugin are not known
/// before it runs.
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

/// Builds the queue discipline of each hop of `config`: the bottleneck, then the others.
///
/// # Errors
/// A link without a rate whose queue has none.
pub fn queue_disciplines(config: &RunConfig) -> Result<Vec<AnyAqm>, ParamError> {
    (0..=config.hops.len()).map(|hop| build_queue(config, hop)).collect()
}

/// Builds the queue discipline of the bottleneck of `config`.
///
/// # Errors
/// A link without a rate whose queue has none.
pub fn queue_discipline(config: &RunConfig) -> Result<AnyAqm, ParamError> {
    build_queue(config, 0)
}

/// Builds the queue discipline of hop `hop`, 0 is the bottleneck.
///
/// # Errors
/// A link without a rate whose queue has none.
pub fn build_queue(config: &RunConfig, hop: usize) -> Result<AnyAqm, ParamError> {
    build_queue_at(config, hop, config.hop_params(hop).rate, Instant::ZERO)
}

/// [`build_queue`] at `now`, while the run goes on and the link has this `rate`.
///
/// # Errors
/// A link without a rate whose queue has none.
pub fn build_queue_at(config: &RunConfig, hop: usize, rate: Rate, now: Instant) -> Result<AnyAqm, ParamError> {
    let (name, params, link, spec) = match hop.checked_sub(1).map(|other| &config.hops[other]) {
        None => (BOTTLENECK, &config.bottleneck, &config.link, &config.aqm),
        Some(other) => (other.name.as_str(), &other.params, &other.link, &other.aqm),
    };
    // queues of one kind do not draw the same numbers
    let seed = if hop == 0 { config.run.seed } else { mix(config.run.seed ^ (hop as u64) << 48) };
    let (full_frame, small_heads) = (config.hosts.full_frame(), config.hosts.small_heads());
    let mut any = spec.build(&QueueContext { rate, seed, link_layer: params.layer(), full_frame, small_heads, now });
    let is_unshaped = matches!(link, Some(LinkSpec::Unshaped(_)));
    if is_unshaped && !any.shapes() {
        let error = ParamError::new("link", "unshaped", "a link with a rate, or a queue that shapes by itself");
        return Err(error.prefix_key(name));
    }
    // a link with a pace of its own: its rate is the mean of others, which is none to shape at, and a queue that shapes leaves the pace to it
    let is_paced = params.trace.is_some() || (link.is_some() && !is_unshaped);
    if is_paced && any.shapes() {
        any.set_rate(Rate::UNLIMITED, Instant::ZERO);
    }
    Ok(any)
}
