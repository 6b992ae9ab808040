//! Changes of a run while it is on its way, and how their keys are read.

use crate::config::{FlowParams, RunConfig, BOTTLENECK, REVERSE};
use dumbbell_config::read_rate_change;
use dumbbell_core::aqm::AqmSpec;
use dumbbell_core::cc::{external, CcSpec};
use dumbbell_core::param::ParamError;
use dumbbell_core::path::{loss, StageSpec};
use dumbbell_core::units::{Duration, Instant, Rate};
use serde_json::{Map, Value};

/// Where a stage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagePlace {
    /// Ahead of the queue of this hop; 0 is the bottleneck.
    Ahead(usize),
    /// Behind the link of this hop.
    Behind(usize),
    /// On the way of the data of this flow.
    Data(usize),
    /// On the way of its acknowledgements.
    Acks(usize),
}

/// A change of a run, made when everything up to the present has happened. Hops count from 0, the bottleneck; flows and sources of UDP are numbered as in the
/// results.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The link of a hop has this rate, as a change of `rate_changes` has it; what is on the wire goes on at the old one.
    Rate {
        /// Which hop.
        hop: usize,
        /// The rate.
        rate: Rate,
    },
    /// A queue discipline has other parameters. It keeps its packets and everything that it has measured.
    Queue {
        /// Which hop.
        hop: usize,
        /// The queue discipline with all of its parameters.
        spec: Box<AqmSpec>,
        /// The parameters that change.
        keys: Vec<String>,
    },
    /// Another queue discipline takes the place of the present one, whose packets are dropped, as `tc qdisc replace` has it.
    ReplaceQueue {
        /// Which hop.
        hop: usize,
        /// The queue discipline with all of its parameters.
        spec: Box<AqmSpec>,
    },
    /// Another congestion control takes over a connection of TCP, as the socket option `TCP_CONGESTION` has it.
    ReplaceControl {
        /// Which flow.
        flow: usize,
        /// The congestion control with all of its parameters.
        spec: Box<CcSpec>,
    },
    /// A stage loses packets with this probability.
    Loss {
        /// Where the stage is.
        place: StagePlace,
        /// Number of the stage there.
        stage: usize,
        /// The probability.
        probability: f64,
    },
    /// A flow of TCP has this base RTT. Acknowledgements that are on their way arrive as if it had been so since they were sent, none of them before now, so that none
    /// overtakes another.
    BaseRtt {
        /// Which flow.
        flow: usize,
        /// The base RTT.
        rtt: Duration,
    },
    /// A flow that has not begun begins at this time.
    Start {
        /// Which flow.
        flow: usize,
        /// When.
        at: Instant,
    },
    /// A flow stops at this time.
    Stop {
        /// Which flow.
        flow: usize,
        /// When.
        at: Instant,
    },
    /// An agent acts on a flow with the control `external`. What is `None` stays.
    Steer {
        /// Which flow.
        flow: usize,
        /// Window, segments.
        window: Option<u32>,
        /// Pacing rate of the payload.
        rate: Option<Rate>,
    },
}

/// The keys that may change.
const KEYS: &str =
    "a key such as bottleneck.rate, bottleneck.aqm, hop[0].aqm.limit, bottleneck.path[0].probability, flows[0].cc, flows[0].base_rtt, \
flows[0].start, flows[0].stop, flows[0].cwnd, flows[0].pacing_rate";

/// Steps of a dotted key.
fn split_key(key: &str) -> Option<Vec<(&str, Option<usize>)>> {
    let step = |part| -> Option<(&str, Option<usize>)> {
        let (name, number): (&str, _) = match str::split_once(part, '[') {
            None => (part, None),
            Some((name, rest)) => (name, Some(rest.strip_suffix(']')?.parse().ok()?)),
        };
        (!name.is_empty()).then_some((name, number))
    };
    key.split('.').map(step).collect()
}

/// Reads one value by the declaration of a parameter.
fn one(name: &str, value: &Value) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), value.clone())])
}

/// The time of a start or stop, not before `now`; null is now.
fn read_time(value: &Value, now: Instant) -> Result<Instant, ParamError> {
    if value.is_null() {
        return Ok(now);
    }
    let at = FlowParams::from_json(&one("stop", value))?.stop.unwrap_or(now);
    if at < now {
        return Err(ParamError::new("stop", at, format!("{now} or later: the run has come so far")));
    }
    Ok(at)
}

impl Change {
    /// Reads the change of `key`, a key as in an experiment file, to `value`, canonical JSON, in a run of `config` that has come to `now`. Flows are numbered as in
    /// the results.
    ///
    /// # Errors
    /// A key that cannot change, or a value that it cannot have.
    pub fn read(config: &RunConfig, key: &str, value: &Value, now: Instant) -> Result<Change, ParamError> {
        let unknown = || ParamError::new(key, "a key that cannot change while the run goes on", KEYS);
        let steps = split_key(key).ok_or_else(unknown)?;
        let named = |error: ParamError| ParamError { key: key.to_owned(), ..error };
        if let [("flows", Some(flow)), rest @ ..] = &steps[..] {
            return read_flow_change(config, *flow, rest, value, now).unwrap_or_else(|| Err(unknown())).map_err(named);
        }
        let (hop, rest) = match &steps[..] {
            [(BOTTLENECK, None), rest @ ..] => (0, rest),
            [(REVERSE, None), rest @ ..] => (find_hop(config, key, |one| one == REVERSE, 0)?, rest),
            [("hop", Some(number)), rest @ ..] => (find_hop(config, key, |one| one != REVERSE, *number)?, rest),
            _ => return Err(unknown()),
        };
        read_hop_change(config, hop, rest, value).unwrap_or_else(|| Err(unknown())).map_err(named)
    }
}

/// Number of the hop `number` among those whose names are `wanted`, not the bottleneck.
fn find_hop(config: &RunConfig, key: &str, wanted: impl Fn(&str) -> bool, number: usize) -> Result<usize, ParamError> {
    let mut found = (1..).zip(&config.hops).filter(|(_, hop)| wanted(&hop.name)).map(|(index, _)| index);
    let missing = || {
        let names: Vec<&str> = (0..=config.hops.len()).map(|hop| config.hop_name(hop)).collect();
        ParamError::new(key, "a hop that the run does not have", names.join(", "))
    };
    found.nth(number).ok_or_else(missing)
}

/// A number of a stage of `stages` that loses packets.
fn read_loss(stages: &[StageSpec], place: StagePlace, stage: usize, value: &Value) -> Result<Change, ParamError> {
    match stages.get(stage) {
        Some(StageSpec::Loss(_)) => {
            let probability = loss::Params::from_json(&one("probability", value))?.probability;
            Ok(Change::Loss { place, stage, probability })
        }
        Some(other) => Err(ParamError::new("path", format!("a stage {}", other.name()), "a stage loss")),
        None => Err(ParamError::new(
            "path",
            "a stage that is not there",
            "a stage loss of the experiment, of probability 0 if nothing is lost at first",
        )),
    }
}

fn read_hop_change(
    config: &RunConfig,
    hop: usize,
    rest: &[(&str, Option<usize>)],
    value: &Value,
) -> Option<Result<Change, ParamError>> {
    let (aqm, path, behind) = match hop.checked_sub(1).map(|other| &config.hops[other]) {
        None => (&config.aqm, &config.path, &config.behind),
        Some(other) => (&other.aqm, &other.path, &other.behind),
    };
    Some(match rest {
        [("rate", None)] if config.hop_params(hop).trace.is_some() => {
            Err(ParamError::new("rate", "a rate for a link that follows a trace", "a link without one"))
        }
        [("rate", None)] => {
            let change = Map::from_iter([("at".to_owned(), Value::from(0)), ("rate".to_owned(), value.clone())]);
            read_rate_change(&change.into()).map(|read| Change::Rate { hop, rate: read.rate })
        }
        [("aqm", None), (name, None)] => read_queue_change(aqm, hop, one(name, value)),
        [("aqm", None)] => read_queue(config, aqm, hop, value),
        [("path", Some(stage)), ("probability", None)] => read_loss(path, StagePlace::Ahead(hop), *stage, value),
        [("behind", Some(stage)), ("probability", None)] => read_loss(behind, StagePlace::Behind(hop), *stage, value),
        _ => return None,
    })
}

/// Reads other values of some parameters of `aqm`; the rest stays.
fn read_queue_change(aqm: &AqmSpec, hop: usize, given: Map<String, Value>) -> Result<Change, ParamError> {
    if let AqmSpec::Dyn(_) = aqm {
        let found = format!("a parameter of {}", aqm.name());
        return Err(ParamError::new("aqm", found, "parameters of registered queue disciplines"));
    }
    let names = given.keys().cloned().collect();
    let mut keys = aqm.values();
    keys.insert("name".to_owned(), aqm.name().into());
    keys.extend(given);
    Ok(Change::Queue { hop, spec: Box::new(AqmSpec::from_json(&keys)?), keys: names })
}

/// Reads a queue discipline in the place of `aqm`. One of the same kind is `aqm` with other values of the given parameters: `tc qdisc replace` changes it then
/// (`tc_modify_qdisc`).
fn read_queue(config: &RunConfig, aqm: &AqmSpec, hop: usize, value: &Value) -> Result<Change, ParamError> {
    let name = value.get("name").and_then(Value::as_str);
    match (aqm, value) {
        (AqmSpec::Dyn(_), _) => {}
        (_, Value::Object(keys)) if name == Some(aqm.name()) && !keys.contains_key("plugin") => {
            let (present, mut given) = (aqm.values(), keys.clone());
            given.retain(|key, wanted| key != "name" && present.get(key) != Some(wanted));
            return read_queue_change(aqm, hop, given);
        }
        _ => {}
    }
    Ok(Change::ReplaceQueue { hop, spec: Box::new(config.read_aqm(value)?) })
}

fn read_flow_change(
    config: &RunConfig,
    flow: usize,
    rest: &[(&str, Option<usize>)],
    value: &Value,
    now: Instant,
) -> Option<Result<Change, ParamError>> {
    let listed = config.flows.len() + config.udp.len();
    if flow >= listed {
        let allowed = listed.checked_sub(1).map_or("no flow: the run lists none".to_owned(), |last| format!("0 to {last}"));
        return Some(Err(ParamError::new("flows", flow, allowed)));
    }
    let stages = || match config.flows.get(flow) {
        Some(one) => (&one.stages.path, &one.stages.ack_path),
        None => {
            let udp = &config.udp[flow - config.flows.len()];
            (&udp.stages.path, &udp.stages.ack_path)
        }
    };
    let steered = |name: &str| external::Params::from_json(&one(name, value));
    Some(match rest {
        [("base_rtt", None)] => {
            FlowParams::from_json(&one("base_rtt", value)).map(|params| Change::BaseRtt { flow, rtt: params.base_rtt })
        }
        [("cc", None)] => config.read_cc(value).map(|spec| Change::ReplaceControl { flow, spec: Box::new(spec) }),
        [("start", None)] => read_time(value, now).map(|at| Change::Start { flow, at }),
        [("stop", None)] => read_time(value, now).map(|at| Change::Stop { flow, at }),
        [("path", Some(stage)), ("probability", None)] => read_loss(stages().0, StagePlace::Data(flow), *stage, value),
        [("ack_path", Some(stage)), ("probability", None)] => read_loss(stages().1, StagePlace::Acks(flow), *stage, value),
        [("cwnd", None)] => steered("window").map(|params| Change::Steer { flow, window: Some(params.window), rate: None }),
        [("pacing_rate", None)] => steered("rate").map(|params| Change::Steer { flow, window: None, rate: params.rate }),
        _ => return None,
    })
}
