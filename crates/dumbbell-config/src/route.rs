//! Hops, and which of them packets pass.

use crate::extensions::Extensions;
use crate::keys::{field, list, object, read_path, without_keys};
use crate::sections::{BottleneckParams, Shaper};
use crate::RunConfig;
use dumbbell_core::aqm::AqmSpec;
use dumbbell_core::link::LinkSpec;
use dumbbell_core::packet::Packet;
use dumbbell_core::param::{check_keys, ParamError, ParamType};
use dumbbell_core::path::StageSpec;
use dumbbell_core::units::{Duration, Instant, Rate};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A change of a hop's rate.
#[derive(Clone, Copy, Debug)]
pub struct RateChange {
    /// When.
    pub at: Instant,
    /// To what.
    pub rate: Rate,
    /// Number of the hop: 0 is the bottleneck.
    pub hop: u16,
}

/// Name of the hop that every run has.
pub const BOTTLENECK: &str = "bottleneck";
/// Name of the hop for acknowledgements and for what is sent up: `[reverse]`.
pub const REVERSE: &str = "reverse";
/// Most hops of a run.
pub const MAX_HOPS: usize = 64;

/// Shortest time between two changes of a cycle of rates.
const LEAST_CYCLE: Duration = Duration::from_millis(1);
/// Most changes that a cycle of rates makes: a day at ten a second, and 24 MB.
const MAX_RATE_CHANGES: u64 = 1_000_000;

/// A hop in addition to the bottleneck.
#[derive(Clone, Debug)]
pub struct HopConfig {
    /// Name that routes use.
    pub name: String,
    /// Rate, buffer and other parameters of the hop.
    pub params: BottleneckParams,
    /// Link of the hop, if the configuration names one.
    pub link: Option<LinkSpec>,
    /// Queue discipline.
    pub aqm: AqmSpec,
    /// Stages that all packets pass right ahead of the queue.
    pub path: Vec<StageSpec>,
    /// Stages that all packets pass behind the link.
    pub behind: Vec<StageSpec>,
    /// Propagation behind the link.
    pub delay: Duration,
}

/// Which hops packets pass: 0 is the bottleneck, then those of [`RunConfig::hops`]. No hop is in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Data.
    pub data: Vec<u16>,
    /// Acknowledgements.
    pub acks: Vec<u16>,
    /// Sent up: half of the base RTT lies behind the data's last hop, half ahead of the acknowledgements' first one. Down, both lie where
    /// no queue is: ahead of the data's first hop and behind the acknowledgements' last one.
    pub up: bool,
}

impl Route {
    /// Which way the data go, as it stands in a configuration.
    pub fn direction(&self) -> &'static str {
        if self.up {
            "up"
        } else {
            "down"
        }
    }
}

impl Default for Route {
    /// Over the bottleneck; acknowledgements never wait.
    fn default() -> Route {
        Route { data: vec![0], acks: Vec::new(), up: false }
    }
}

/// Keys of a hop that are not of its link. `buffer` is what the file says of the limit that stands in `aqm`, for tables of results.
const OF_HOP: [&str; 8] = ["name", "aqm", "link", "rate_changes", "path", "behind", "delay", "buffer"];
/// Keys of what sends that say which way.
pub const OF_ROUTE: [&str; 3] = ["direction", "route", "ack_route"];

/// Reads the hop `name`, number `hop`, of a run until `end`; its changes of rate go to `changes`.
pub fn read_hop(
    section: &Map<String, Value>,
    name: &str,
    hop: u16,
    end: Instant,
    changes: &mut Vec<RateChange>,
    extensions: &Extensions,
) -> Result<HopConfig, ParamError> {
    let mut params = BottleneckParams::from_json(&without_keys(section, &OF_HOP))?;
    let link = read_link(section, &mut params)?;
    params.settle_rate(section.contains_key("rate"))?;
    let path = read_path::<Packet>(section, "path")?;
    let behind = read_path::<Packet>(section, "behind")?;
    let aqm = object(section.get("aqm").unwrap_or(&Value::Null), "aqm")?;
    let aqm = extensions.read_aqm(aqm).map_err(|e| e.prefix_key("aqm"))?;
    let before = changes.len();
    match section.get("rate_changes") {
        Some(Value::Object(cycle)) => {
            read_rate_cycle(cycle, hop, end, changes).map_err(|e| e.prefix_key("rate_changes"))?;
        }
        given => {
            for change in list(given, "rate_changes")? {
                let read = read_rate_change(change).map_err(|e| e.prefix_key("rate_changes"))?;
                changes.push(RateChange { hop, ..read });
            }
        }
    }
    if params.trace.is_some() && changes.len() > before {
        return Err(ParamError::new("rate_changes", "changes of rate beside a trace", "a trace without them"));
    }
    let delay = field(section, "delay", Duration::ZERO)?;
    if delay > Duration::from_secs(60) {
        return Err(ParamError::new("delay", delay, "at most 60 s"));
    }
    Ok(HopConfig { name: name.to_owned(), params, link, aqm, path, behind, delay })
}

impl RunConfig {
    /// The bottleneck, as a hop among others.
    pub fn first_hop(&self) -> HopConfig {
        HopConfig {
            name: BOTTLENECK.to_owned(),
            params: self.bottleneck.clone(),
            link: self.link.clone(),
            aqm: self.aqm.clone(),
            path: self.path.clone(),
            behind: self.behind.clone(),
            delay: self.delay,
        }
    }
}

/// The link that a hop names. That of a trace is left to the key `trace`, which says the same.
fn read_link(section: &Map<String, Value>, params: &mut BottleneckParams) -> Result<Option<LinkSpec>, ParamError> {
    let default = BottleneckParams::default();
    let Some(given) = section.get("link").filter(|value| !value.is_null()) else {
        if params.burst != default.burst && params.shaper == Shaper::Link {
            return Err(ParamError::new("burst", params.burst, format!("{} without shaper = \"htb\"", default.burst)));
        }
        return Ok(None);
    };
    let chosen = LinkSpec::from_json(object(given, "link")?).map_err(|e| e.prefix_key("link"))?;
    let twice = [
        ("trace", params.trace.is_some()),
        ("shaper", params.shaper != default.shaper),
        ("burst", params.burst != default.burst),
    ];
    if let Some((key, _)) = twice.into_iter().find(|(_, is_given)| *is_given) {
        return Err(ParamError::new("link", format!("link and {key}"), "one of the two: each says how packets leave the queue"));
    }
    match chosen {
        LinkSpec::Trace(own) => {
            let file = own.file.ok_or_else(|| ParamError::new("link.file", "none", "the file of a trace"))?;
            params.trace = Some(file);
            Ok(None)
        }
        chosen => Ok(Some(chosen)),
    }
}

/// The hops of `[[hop]]`, and then that of `[reverse]`, of a run until `end`.
pub fn read_hops(
    root: &Map<String, Value>,
    end: Instant,
    changes: &mut Vec<RateChange>,
    extensions: &Extensions,
) -> Result<Vec<HopConfig>, ParamError> {
    let mut hops: Vec<HopConfig> = Vec::new();
    let listed = list(root.get("hop"), "hop")?;
    if listed.len() > MAX_HOPS - 2 {
        return Err(ParamError::new("hop", format!("{} of them", listed.len()), format!("at most {}", MAX_HOPS - 2)));
    }
    for (index, value) in listed.iter().enumerate() {
        let place = format!("hop[{index}]");
        let section = object(value, &place)?;
        let name = section.get("name").and_then(Value::as_str).unwrap_or("");
        let is_taken = name == BOTTLENECK || name == REVERSE || hops.iter().any(|hop| hop.name == name);
        if name.is_empty() || is_taken {
            let key = format!("{place}.name");
            return Err(ParamError::new(&key, format!("{name:?}"), "a name that no other hop has"));
        }
        hops.push(read_hop(section, name, hops.len() as u16 + 1, end, changes, extensions).map_err(|e| e.prefix_key(&place))?);
    }
    if let Some(value) = root.get(REVERSE).filter(|value| !value.is_null()) {
        let section = object(value, REVERSE)?;
        hops.push(
            read_hop(section, REVERSE, hops.len() as u16 + 1, end, changes, extensions).map_err(|e| e.prefix_key(REVERSE))?,
        );
    }
    Ok(hops)
}

/// The route of what sends, over the hops `names`.
pub fn read_route(map: &Map<String, Value>, names: &[&str]) -> Result<Arc<Route>, ParamError> {
    let up = match map.get("direction") {
        None => false,
        Some(Value::String(way)) if way == "down" => false,
        Some(Value::String(way)) if way == "up" => true,
        Some(other) => return Err(ParamError::new("direction", other, "down or up")),
    };
    let number = |name: &str| names.iter().position(|known| *known == name).map(|found| found as u16);
    let of = |key: &str| -> Result<Option<Vec<u16>>, ParamError> {
        let Some(given) = map.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
        let mut hops = Vec::new();
        for name in list(Some(given), key)? {
            match name.as_str().and_then(number) {
                Some(hop) if !hops.contains(&hop) => hops.push(hop),
                Some(_) => return Err(ParamError::new(key, name, "each hop once")),
                None => return Err(ParamError::new(key, name, format!("hops: {}", names.join(", ")))),
            }
        }
        Ok(Some(hops))
    };
    let (forward, back) = (vec![0], number(REVERSE).map_or(Vec::new(), |hop| vec![hop]));
    let (data, acks) = if up { (back, forward) } else { (forward, back) };
    let route = Route { data: of("route")?.unwrap_or(data), acks: of("ack_route")?.unwrap_or(acks), up };
    if route.data.is_empty() {
        let allowed = if up { "one hop or more; direction up has that of [reverse]" } else { "one hop or more" };
        return Err(ParamError::new("route", "no hop", allowed));
    }
    if let Some(&twice) = route.data.iter().find(|hop| route.acks.contains(hop)) {
        return Err(ParamError::new("ack_route", names[usize::from(twice)], "hops that are not in route"));
    }
    Ok(Arc::new(route))
}

/// Reads a change of rate, `{"at": ns, "rate": bit/s}`, at the bottleneck.
///
/// # Errors
/// A key or value that cannot be.
pub fn read_rate_change(value: &Value) -> Result<RateChange, ParamError> {
    let map = object(value, "[]")?;
    check_keys(map, &[], &["at", "rate"])?;
    Ok(RateChange { at: read_value(map, "at")?, rate: read_rate(map.get("rate").unwrap_or(&Value::Null), "rate")?, hop: 0 })
}

/// Reads the value of `key`, which has to be there.
fn read_value<T: ParamType>(map: &Map<String, Value>, key: &str) -> Result<T, ParamError> {
    let value = map.get(key).unwrap_or(&Value::Null);
    T::from_json(value).map_err(|allowed| ParamError::new(key, value, allowed))
}

fn read_rate(value: &Value, key: &str) -> Result<Rate, ParamError> {
    let rate = Rate::from_json(value).map_err(|allowed| ParamError::new(key, value, allowed))?;
    if rate.0 < 1000 || rate.0 > 10_000_000_000_000 {
        return Err(ParamError::new(key, rate, "1kbit to 10000Gbit"));
    }
    Ok(rate)
}

/// Appends the changes of a cycle to `changes`: every `every` the rate becomes the next of `rates`, and after the last of them the first again, until
/// `until` or `end`.
fn read_rate_cycle(cycle: &Map<String, Value>, hop: u16, end: Instant, changes: &mut Vec<RateChange>) -> Result<(), ParamError> {
    check_keys(cycle, &[], &["every", "rates", "until"])?;
    let every: Duration = read_value(cycle, "every")?;
    if every < LEAST_CYCLE {
        return Err(ParamError::new("every", every, format!("at least {LEAST_CYCLE}")));
    }
    let rates = list(cycle.get("rates"), "rates")?.iter().enumerate();
    let rates = rates.map(|(index, rate)| read_rate(rate, &format!("rates[{index}]"))).collect::<Result<Vec<_>, _>>()?;
    let until = field(cycle, "until", None::<Instant>)?.map_or(end, |until| until.min(end));
    let first = Instant::ZERO.saturating_add(every);
    if rates.is_empty() {
        return Err(ParamError::new("rates", "no rate", "one rate or more"));
    }
    if first >= until {
        return Err(ParamError::new("every", every, format!("a time before the last change, {until}")));
    }
    let count = (until.0 - 1) / every.0;
    if count > MAX_RATE_CHANGES {
        return Err(ParamError::new("every", every, format!("at most {MAX_RATE_CHANGES} changes of rate, not {count}")));
    }
    let times = (1..=count).map(|number| Instant(number * every.0));
    changes.extend(times.zip(rates.into_iter().cycle()).map(|(at, rate)| RateChange { at, rate, hop }));
    Ok(())
}
