//! Reading the parts of a configuration.

use crate::extensions::{CarrierSpec, Extensions, TransportSpec};
use crate::frames::settle_algorithm;
use crate::keys::{field, list, object, read_path, without_keys};
use crate::route::{read_route, OF_ROUTE};
use crate::sections::{AppParams, EcnEcho, FlowParams, UdpParams, WebParams};
use crate::{AppConfig, FlowConfig, Route, RunConfig, StageConfig, StartRange, UdpConfig, WebConfig};
use dumbbell_core::app::{AppKind, AppSpec, StreamDirection};
use dumbbell_core::aqm::{self, AqmSpec};
use dumbbell_core::cc::CcSpec;
use dumbbell_core::packet::Packet;
use dumbbell_core::param::{check_keys, ParamError};
use dumbbell_core::path::StageSpec;
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::units::{Duration, Instant};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Reads the list `key`. `read` turns an entry, given the result of the one before it, into a value and its count; at most `most` in
/// total.
pub(crate) fn read_all<T: Clone>(
    root: &Map<String, Value>,
    key: &str,
    most: usize,
    read: impl Fn(&Value, Option<&T>) -> Result<(T, usize), ParamError>,
) -> Result<Vec<T>, ParamError> {
    let entries = list(root.get(key), key)?;
    let mut all: Vec<T> = Vec::with_capacity(entries.len().min(most));
    let mut before: Option<(&Value, usize)> = None;
    for (index, entry) in entries.iter().enumerate() {
        let (one, count) = match (before, all.last()) {
            (Some((same, count)), Some(last)) if same == entry => (last.clone(), count),
            (_, last) => read(entry, last).map_err(|e| e.prefix_key(&format!("{key}[{index}]")))?,
        };
        before = Some((entry, count));
        let total = all.len().saturating_add(count);
        if total > most {
            return Err(ParamError::new(key, format!("{total} of them"), format!("at most {most}")));
        }
        all.resize(total, one);
    }
    Ok(all)
}

/// The congestion control in `map`: what it does not set is as the hosts' profile has it, by name of the control in `of_profile`.
pub(crate) fn read_control(map: &Map<String, Value>, of_profile: &Map<String, Value>) -> Result<Map<String, Value>, ParamError> {
    let mut control = object(map.get("cc").unwrap_or(&Value::Null), "cc")?.clone();
    let name = control.get("name").and_then(Value::as_str).unwrap_or("");
    if let Some(values) = of_profile.get(name).and_then(Value::as_object) {
        for (key, value) in values {
            control.entry(key).or_insert_with(|| value.clone());
        }
    }
    Ok(control)
}

/// Refuses an algorithm of a program where only registered ones may be.
fn refuse_plugin(keys: &Map<String, Value>, allowed: &str) -> Result<(), ParamError> {
    match keys.get("plugin") {
        Some(_) => Err(ParamError::new("plugin", "an algorithm of a plugin", allowed)),
        None => Ok(()),
    }
}

impl RunConfig {
    /// Reads a registered queue discipline of this run: canonical JSON, as `aqm` of a hop.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn read_aqm(&self, value: &Value) -> Result<AqmSpec, ParamError> {
        let mut own = Value::Object(object(value, "aqm")?.clone());
        settle_algorithm(Some(&mut own), &aqm::specs(), self.hosts.full_frame());
        let keys = object(&own, "aqm")?;
        refuse_plugin(keys, "a registered queue discipline")?;
        AqmSpec::from_json(keys)
    }

    /// Reads a registered congestion control of this run: canonical JSON, as `cc` of a flow.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn read_cc(&self, value: &Value) -> Result<CcSpec, ParamError> {
        let keys = read_control(&Map::from_iter([("cc".to_owned(), value.clone())]), &self.hosts.profile.controls())?;
        refuse_plugin(&keys, "a registered congestion control")?;
        CcSpec::from_json(&keys)
    }
}

/// Reads one entry of `[[flows]]` and its count; shares `transport` and `stages` with `last` if they are equal.
pub(crate) fn read_flow(
    value: &Value,
    last: Option<&FlowConfig>,
    of_profile: &Map<String, Value>,
    hops: &[&str],
    extensions: &Extensions,
) -> Result<(FlowConfig, usize), ParamError> {
    let map = object(value, "flow")?;
    let params =
        FlowParams::from_json(&without_keys(&without_keys(map, &OF_ROUTE), &["cc", "start", "count", "path", "ack_path"]))?;
    let route = read_route(map, hops)?;
    let route = last.map(|flow| &flow.route).filter(|same| **same == route).cloned().unwrap_or(route);
    let count = read_count(map)?;
    let mut stages = read_stages(map)?;
    // loss and jitter are short for the stages that come first
    if params.jitter > Duration::ZERO {
        stages.path.insert(0, StageSpec::uniform_jitter(params.jitter));
    }
    if params.loss > 0.0 {
        stages.path.insert(0, StageSpec::constant_loss(params.loss));
    }
    let stages = last.map(|flow| &flow.stages).filter(|same| ***same == stages).cloned().unwrap_or_else(|| Arc::new(stages));
    let transport = extensions.read_transport(&read_control(map, of_profile)?).map_err(|e| e.prefix_key("cc"))?;
    if matches!(transport, TransportSpec::Stack(_)) {
        check_stack(&params)?;
    }
    let same = last.map(|flow| &flow.transport).filter(|same| ***same == transport).cloned();
    let transport = same.unwrap_or_else(|| Arc::new(transport));
    let start = read_start(map)?;
    if let Some(connect) = params.connect.filter(|&connect| connect > start.min) {
        return Err(ParamError::new("connect", connect, format!("up to start, {}", start.min)));
    }
    Ok((FlowConfig { transport, start, stages, route, params }, count))
}

pub(crate) fn read_web(
    value: &Value,
    of_profile: &Map<String, Value>,
    hops: &[&str],
    extensions: &Extensions,
) -> Result<WebConfig, ParamError> {
    let map = object(value, "web")?;
    let params = WebParams::from_json(&without_keys(&without_keys(map, &OF_ROUTE), &["cc", "start", "path", "ack_path"]))?;
    let route = read_route(map, hops)?;
    let cc = extensions.read_control(&read_control(map, of_profile)?).map_err(|e| e.prefix_key("cc"))?;
    Ok(WebConfig { cc, start: read_start(map)?, stages: read_stages(map)?, route, params })
}

pub(crate) fn read_udp(value: &Value, hops: &[&str], extensions: &Extensions) -> Result<(UdpConfig, usize), ParamError> {
    let map = object(value, "udp")?;
    let params =
        UdpParams::from_json(&without_keys(&without_keys(map, &OF_ROUTE), &["start", "count", "path", "ack_path", "protocol"]))?;
    let protocol = match map.get("protocol") {
        None => None,
        Some(keys) => {
            let keys = object(keys, "protocol")?;
            Some(extensions.read_endpoint(keys).map_err(|e| e.prefix_key("protocol"))?)
        }
    };
    if params.base_rtt > Duration::ZERO && !params.echo {
        return Err(ParamError::new("base_rtt", params.base_rtt, "0s without echo"));
    }
    let route = read_route(map, hops)?;
    let stages = read_stages(map)?;
    if !stages.ack_path.is_empty() && !params.echo {
        return Err(ParamError::new("ack_path", "stages of answers", "none without echo"));
    }
    Ok((UdpConfig { start: read_start(map)?, stages, route, protocol, params }, read_count(map)?))
}

/// Reads one entry of `[[app]]` and its count.
pub(crate) fn read_app(
    value: &Value,
    of_profile: &Map<String, Value>,
    hops: &[&str],
    extensions: &Extensions,
) -> Result<(AppConfig, usize), ParamError> {
    let map = object(value, "app")?;
    let own = ["kind", "cc", "start", "count", "path", "ack_path"];
    let params = AppParams::from_json(&without_keys(&without_keys(map, &OF_ROUTE), &own))?;
    let kind = object(map.get("kind").unwrap_or(&Value::Null), "kind")?;
    let spec = extensions.read_app(kind).map_err(|e| e.prefix_key("kind"))?;
    let has_control = map.get("cc").is_some_and(|cc| !cc.is_null());
    let cc = if spec.has_streams() {
        Some(extensions.read_carrier(&read_control(map, of_profile)?).map_err(|e| e.prefix_key("cc"))?)
    } else {
        let given = [("cc", has_control), ("ecn", params.ecn.is_some()), ("ecn_echo", params.ecn_echo != EcnEcho::Auto)];
        if let Some((key, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            let allowed = format!("none: {} sends datagrams, without a congestion control", spec.name());
            return Err(ParamError::new(key, "a value", allowed));
        }
        None
    };
    let is_stack = matches!(cc, Some(CarrierSpec::Stack(_)));
    if is_stack {
        check_app_of_stack(&spec, &params)?;
    }
    let responses = read_route(map, hops)?;
    // what goes the other way passes the hops of acknowledgements, and is acknowledged over those of the responses
    let requests = Route { data: responses.acks.clone(), acks: responses.data.clone(), up: !responses.up };
    // the datagrams of a stack are data each way, whatever they acknowledge
    let is_answered = spec.kind() != AppKind::Datagrams && !is_stack;
    // Acknowledgements of requests that are answered at once travel with the answers: they are no packets of their own. Linux, once a connection is in
    // pingpong mode (tcp_event_data_sent, net/ipv4/tcp_output.c).
    let has_own_acks = |way| match spec.kind() {
        _ if is_stack => false,
        AppKind::Streams(measured) => measured == way || !spec.answers_at_once(),
        AppKind::Media => true,
        AppKind::Datagrams => false,
    };
    let requests = if has_own_acks(StreamDirection::Request) { requests } else { Route { acks: Vec::new(), ..requests } };
    let responses = if has_own_acks(StreamDirection::Response) {
        responses
    } else {
        Arc::new(Route { acks: Vec::new(), ..(*responses).clone() })
    };
    let StageConfig { path, ack_path } = read_stages(map)?;
    let of_requests = read_path::<Packet>(map, "ack_path")?;
    let acks = if is_answered { ack_path } else { Vec::new() };
    let stages = [StageConfig { path, ack_path: acks }, StageConfig { path: of_requests, ack_path: Vec::new() }];
    let routes = [responses, Arc::new(requests)];
    Ok((AppConfig { spec, cc, start: read_start(map)?, stages, routes, params }, read_count(map)?))
}

/// Reads the names of the queue disciplines' states that the time series keep.
pub(crate) fn read_states(root: &Map<String, Value>) -> Result<Vec<&'static str>, ParamError> {
    let known = aqm::STATES.map(|(name, _, _)| name);
    let named = list(root.get("record").and_then(|record| record.get("queue")), "queue")?;
    let state = |value: &Value| {
        let found = known.into_iter().find(|name| value.as_str() == Some(name));
        found.ok_or_else(|| ParamError::new("queue", value, known.join(", ")))
    };
    named.iter().map(state).collect()
}

pub(crate) fn read_stages(map: &Map<String, Value>) -> Result<StageConfig, ParamError> {
    Ok(StageConfig { path: read_path::<Packet>(map, "path")?, ack_path: read_path::<ReceiverReply>(map, "ack_path")? })
}

/// Checks that a flow of a stack asks for nothing that only TCP's application and receiver can do.
fn check_stack(params: &FlowParams) -> Result<(), ParamError> {
    let default = FlowParams::default();
    let given = [
        ("connect", params.connect.is_some()),
        ("app_pause", params.app_pause.is_some()),
        ("app_rate_from", params.app_rate_from != default.app_rate_from),
        ("ecn_echo", params.ecn_echo != default.ecn_echo),
        ("initial_window", params.initial_window.is_some()),
        ("mss", params.mss.is_some()),
        ("receive_buffer", params.receive_buffer.is_some()),
        ("misbehaves", params.misbehaves.is_some()),
    ];
    let refuse = |(key, _): &(&str, bool)| Err(ParamError::new(*key, "a value", "none with a stack"));
    given.iter().find(|(_, is_given)| *is_given).map_or(Ok(()), refuse)
}

/// Checks that an application over a stack is one that streams can carry, and asks for nothing that only TCP's receiver can do.
fn check_app_of_stack(spec: &AppSpec, params: &AppParams) -> Result<(), ParamError> {
    if !spec.fits_streams() {
        let found = format!("{}, which fills its connections", spec.name());
        return Err(ParamError::new("kind", found, "another application, or TCP: no stack"));
    }
    if params.ecn_echo != EcnEcho::Auto {
        return Err(ParamError::new("ecn_echo", "a value", "none with a stack"));
    }
    Ok(())
}

pub(crate) fn read_count(map: &Map<String, Value>) -> Result<usize, ParamError> {
    match field(map, "count", 1_u64)? {
        0 => Err(ParamError::new("count", 0, "1 or more")),
        count => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
    }
}

pub(crate) fn read_start(map: &Map<String, Value>) -> Result<StartRange, ParamError> {
    match map.get("start") {
        None => Ok(StartRange { min: Instant::ZERO, max: Instant::ZERO }),
        Some(Value::Object(range)) => {
            check_keys(range, &[], &["min", "max"]).map_err(|e| e.prefix_key("start"))?;
            let end = |key: &str| range.get(key).and_then(Value::as_u64).map(Instant);
            match (end("min"), end("max")) {
                (Some(min), Some(max)) if min <= max && max <= Instant::from_secs(86_400) => Ok(StartRange { min, max }),
                _ => Err(ParamError::new("start", Value::Object(range.clone()), "min <= max, within a day")),
            }
        }
        Some(other) => Err(ParamError::new("start", other, "{min, max}")),
    }
}
