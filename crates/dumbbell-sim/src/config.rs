//! One run, resolved: what the engine reads.

use dumbbell_core::param::{check_keys, ParamError, ParamType};
use dumbbell_core::tcp::host::{self, HostParams};
use dumbbell_core::units::{Rate, Time};
use dumbbell_core::{aqm, cc, choice, params};
use serde_json::{json, Map, Value};
use std::sync::Arc;

choice! {
    /// How packets leave the queue.
    pub enum Shaper {
        /// A serial link: a packet arrives when its last bit has been sent.
        Link = "link",
        /// A token bucket on an infinitely fast link, as Linux HTB: a packet arrives when it leaves the queue.
        Htb = "htb",
    }
}

choice! {
    /// How the receiver echoes CE.
    pub enum EcnEcho {
        /// As the congestion control expects it.
        Auto = "auto",
        /// ECE until CWR (RFC 3168).
        Classic = "classic",
        /// ECE as the packets came (RFC 8257 section 3.2).
        Dctcp = "dctcp",
        /// A count of CE packets on every ACK (AccECN, RFC 9768).
        AccEcn = "accecn",
    }
}

params! {
    /// The whole run.
    pub struct RunParams {
        /// Length of the run.
        duration: Time = Time::from_secs(60), unit "", range Time(1), Time::from_secs(86_400), source "tcp_nup of Flent runs 60 s by default";
        /// Seed of every random stream.
        seed: u64 = 1, unit "", source "";
    }
}

params! {
    /// The bottleneck, beside its queue discipline.
    pub struct BottleneckParams {
        /// Rate, counting Ethernet frames without FCS.
        rate: Rate = Rate::from_mbit(10), unit "", range Rate(1000), Rate(10_000_000_000_000), source "";
        /// How packets leave the queue; not used by a queue that shapes by itself (cake).
        shaper: Shaper = Shaper::Link, unit "", source "";
        /// Bucket of the htb shaper.
        burst: u32 = 1514, unit "bytes", range 1514_u32, 100_000_000_u32, source "one frame, the least that sch_htb works with";
    }
}

params! {
    /// One flow, beside its congestion control and start.
    pub struct FlowParams {
        /// Propagation, both directions together.
        base_rtt: Time = Time::from_millis(20), unit "", range Time(0), Time::from_secs(60), source "";
        /// Sends nothing new from this time on.
        stop: Option<Time> = None, unit "", source "";
        /// Ends after this much payload.
        size: Option<u64> = None, unit "bytes", range 1_u64, 1_u64 << 60, source "";
        /// The application writes payload at this rate instead of as fast as it can.
        app_rate: Option<Rate> = None, unit "", range Rate(1000), Rate(10_000_000_000_000), source "";
        /// Random loss of data packets ahead of the bottleneck.
        loss: f64 = 0.0, unit "probability", range 0.0, 1.0, source "";
        /// Random extra delay of each data packet, uniform from 0 to this; packets stay in order.
        jitter: Time = Time::ZERO, unit "", range Time(0), Time::from_secs(60), source "";
        /// Sending host, for queues that isolate hosts.
        src_host: u32 = 1, unit "", source "";
        /// Receiving host, for queues that isolate hosts.
        dst_host: u32 = 2, unit "", source "";
        /// Differentiated-services codepoint.
        dscp: u8 = 0, unit "", range 0_u8, 63_u8, source "RFC 2474";
        /// How the receiver echoes CE: as the congestion control expects it, until CWR, per packet, or as a count.
        ecn_echo: EcnEcho = EcnEcho::Auto, unit "", source "RFC 3168 section 6.1.3, RFC 8257 section 3.2, RFC 9768";
        /// Overrides `hosts.ecn` for this flow.
        ecn: Option<bool> = None, unit "", source "";
    }
}

/// Everything that a run's configuration can hold, described: queue disciplines, congestion controls, sections
/// and the profiles of hosts.
pub fn registry() -> Value {
    let algorithms = |specs: Vec<dumbbell_core::param::AlgorithmSpec>| specs.iter().map(|s| s.to_json()).collect::<Vec<_>>();
    let section = |specs: Vec<dumbbell_core::param::ParamSpec>| specs.iter().map(|s| s.to_json()).collect::<Vec<_>>();
    json!({
        "aqm": algorithms(aqm::specs()),
        "cc": algorithms(cc::specs()),
        "sections": {
            "run": section(RunParams::specs()), "bottleneck": section(BottleneckParams::specs()),
            "hosts": section(HostParams::specs()), "flows": section(FlowParams::specs()),
        },
        "profiles": host::profiles(),
    })
}

/// Earliest and latest start of a flow; drawn uniformly.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Earliest.
    pub min: Time,
    /// Latest.
    pub max: Time,
}

/// One flow.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// Congestion control: `name` and parameters; one map for flows in a row that have the same.
    pub cc: Arc<Map<String, Value>>,
    /// When it starts.
    pub start: Start,
    /// The rest.
    pub params: FlowParams,
}

impl FlowConfig {
    /// Whether both are of one connection class.
    fn is_like(&self, other: &FlowConfig) -> bool {
        let of = |flow: &FlowConfig| (flow.params.base_rtt, flow.params.ecn);
        of(self) == of(other) && self.cc == other.cc
    }
}

/// A change of the bottleneck's rate.
#[derive(Clone, Copy, Debug)]
pub struct RateChange {
    /// When.
    pub at: Time,
    /// To what.
    pub rate: Rate,
}

/// One run, checked.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// The whole run.
    pub run: RunParams,
    /// The bottleneck.
    pub bottleneck: BottleneckParams,
    /// Queue discipline: `name` and parameters.
    pub aqm: Map<String, Value>,
    /// Changes of rate, in order of time.
    pub rate_changes: Vec<RateChange>,
    /// Both ends.
    pub hosts: HostParams,
    /// Flows, in order.
    pub flows: Vec<FlowConfig>,
    /// Interval of the time series; zero for none.
    pub series_interval: Time,
}

/// Most flows in one run.
pub const MAX_FLOWS: usize = 1_000_000;

impl RunConfig {
    /// Reads canonical JSON.
    ///
    /// # Errors
    /// The first key that cannot be used: which, what was found, what is allowed.
    pub fn from_json(config: &Value) -> Result<RunConfig, ParamError> {
        let root = object(config, "run")?;
        check_keys(root, &RunParams::specs(), &["bottleneck", "hosts", "flows", "record"])?;
        let run = RunParams::from_json(&without(root, &["bottleneck", "hosts", "flows", "record"]))?;

        let section = object(root.get("bottleneck").unwrap_or(&Value::Null), "bottleneck")?;
        let bottleneck =
            BottleneckParams::from_json(&without(section, &["aqm", "rate_changes"])).map_err(|e| e.within("bottleneck"))?;
        let aqm = object(section.get("aqm").unwrap_or(&Value::Null), "bottleneck.aqm")?.clone();
        let mut rate_changes = Vec::new();
        for change in list(section.get("rate_changes"), "bottleneck.rate_changes")? {
            rate_changes.push(read_rate_change(change).map_err(|e| e.within("bottleneck.rate_changes"))?);
        }
        rate_changes.sort_by_key(|change| change.at);

        let hosts = match root.get("hosts") {
            None => HostParams::default(),
            Some(hosts) => HostParams::from_json(object(hosts, "hosts")?).map_err(|e| e.within("hosts"))?,
        };

        let other_than = |flows: usize| ParamError::new("flows", format!("{flows} flows"), format!("1 to {MAX_FLOWS}"));
        let entries = list(root.get("flows"), "flows")?;
        let mut flows: Vec<FlowConfig> = Vec::with_capacity(entries.len().min(MAX_FLOWS));
        for (index, entry) in entries.iter().enumerate() {
            let (flow, count) = read_flow(entry, flows.last()).map_err(|e| e.within(&format!("flows[{index}]")))?;
            let all = flows.len().saturating_add(count);
            if all > MAX_FLOWS {
                return Err(other_than(all));
            }
            flows.resize(all, flow);
        }
        if flows.is_empty() {
            return Err(other_than(0));
        }

        let record = match root.get("record") {
            None => Map::new(),
            Some(record) => object(record, "record")?.clone(),
        };
        check_keys(&record, &[], &["series", "interval"]).map_err(|e| e.within("record"))?;
        let wanted = field(&record, "series", true).map_err(|e| e.within("record"))?;
        let interval = field(&record, "interval", Time::from_secs(1)).map_err(|e| e.within("record"))?;
        if wanted && interval < Time::from_millis(1) {
            return Err(ParamError::new("record.interval", interval, "1ms or more"));
        }
        let series_interval = if wanted { interval } else { Time::ZERO };
        Ok(RunConfig { run, bottleneck, aqm, rate_changes, hosts, flows, series_interval })
    }
}

/// Most connection classes that are told apart; what comes after shares the last.
pub const MAX_CLASSES: usize = 256;

impl RunConfig {
    /// Connection class of each flow, numbered as they appear: congestion control with its parameters, base RTT and ECN.
    pub fn classes(&self) -> Vec<u16> {
        let mut known: Vec<&FlowConfig> = Vec::new();
        let class_of = |flow| {
            let alike = |other: &&FlowConfig| other.is_like(flow);
            let class = known.iter().position(alike).unwrap_or_else(|| {
                if known.len() < MAX_CLASSES {
                    known.push(flow);
                }
                known.len() - 1
            });
            class as u16
        };
        self.flows.iter().map(class_of).collect()
    }
}

fn without(map: &Map<String, Value>, keys: &[&str]) -> Map<String, Value> {
    map.iter().filter(|(key, _)| !keys.contains(&key.as_str())).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn object<'a>(value: &'a Value, key: &str) -> Result<&'a Map<String, Value>, ParamError> {
    value.as_object().ok_or_else(|| ParamError::new(key, value, "a table"))
}

fn list<'a>(value: Option<&'a Value>, key: &str) -> Result<&'a [Value], ParamError> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(ParamError::new(key, other, "a list")),
    }
}

/// The value of `key`, or `default` where there is none.
fn field<T: ParamType>(map: &Map<String, Value>, key: &str, default: T) -> Result<T, ParamError> {
    map.get(key).map_or(Ok(default), |value| T::from_json(value).map_err(|allowed| ParamError::new(key, value, allowed)))
}

fn read_rate_change(value: &Value) -> Result<RateChange, ParamError> {
    let map = object(value, "[]")?;
    check_keys(map, &[], &["at", "rate"])?;
    let field = |key: &str| map.get(key).cloned().unwrap_or(Value::Null);
    let at = Time::from_json(&field("at")).map_err(|allowed| ParamError::new("at", field("at"), allowed))?;
    let rate = Rate::from_json(&field("rate")).map_err(|allowed| ParamError::new("rate", field("rate"), allowed))?;
    if rate.0 < 1000 || rate.0 > 10_000_000_000_000 {
        return Err(ParamError::new("rate", rate, "1kbit to 10000Gbit"));
    }
    Ok(RateChange { at, rate })
}

/// A flow, which may share what it has in common with the `last` one, and how many there are of it.
fn read_flow(value: &Value, last: Option<&FlowConfig>) -> Result<(FlowConfig, usize), ParamError> {
    let map = object(value, "flow")?;
    let params = FlowParams::from_json(&without(map, &["cc", "start", "count"]))?;
    let count = match field(map, "count", 1_u64)? {
        0 => return Err(ParamError::new("count", 0, "1 or more")),
        count => usize::try_from(count).unwrap_or(usize::MAX),
    };
    let cc = object(map.get("cc").unwrap_or(&Value::Null), "cc")?;
    let cc = last.map(|flow| &flow.cc).filter(|same| ***same == *cc).cloned().unwrap_or_else(|| Arc::new(cc.clone()));
    let start = match map.get("start") {
        None => Start { min: Time::ZERO, max: Time::ZERO },
        Some(Value::Object(range)) => {
            check_keys(range, &[], &["min", "max"]).map_err(|e| e.within("start"))?;
            let end = |key: &str| range.get(key).and_then(Value::as_u64).map(Time);
            match (end("min"), end("max")) {
                (Some(min), Some(max)) if min <= max && max <= Time::from_secs(86_400) => Start { min, max },
                _ => return Err(ParamError::new("start", Value::Object(range.clone()), "min <= max, within a day")),
            }
        }
        Some(other) => return Err(ParamError::new("start", other, "{min, max}")),
    };
    Ok((FlowConfig { cc, start, params }, count))
}
