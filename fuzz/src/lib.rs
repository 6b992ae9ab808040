//! Common parts of the fuzz targets: values of parameters and whole configurations, drawn from the bytes of a case.

use arbitrary::{Result, Unstructured};
use dumbbell_config::{BottleneckParams, FlowParams, RecordParams, UdpParams, WebParams};
use dumbbell_core::param::{AlgorithmSpec, ParamKind, ParamSpec};
use dumbbell_core::tcp::host::HostParams;
use dumbbell_core::units::Rate;
use dumbbell_core::{aqm, cc, link, path};
use serde_json::{json, Map, Value};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// An integer from `low` to `high`, evenly on a logarithmic scale.
pub fn scaled(u: &mut Unstructured, low: u64, high: u64) -> Result<u64> {
    let share = f64::from(u.arbitrary::<u16>()?) / f64::from(u16::MAX);
    let (from, to) = (low as f64 + 1.0, high as f64 + 1.0);
    // as f64, large integers are not exact
    Ok(((from * (to / from).powf(share) - 1.0) as u64).clamp(low, high))
}

/// A value for `spec` that its kind and range allow: default, either end, unset, or one between.
pub fn value(u: &mut Unstructured, spec: &ParamSpec) -> Result<Value> {
    let pick = u.int_in_range(0..=7_u8)?;
    Ok(match (&spec.kind, pick) {
        (_, 0) => spec.default.clone(),
        (_, 1) if spec.optional => Value::Null,
        (ParamKind::Bool, _) => json!(pick % 2 == 0),
        (ParamKind::Choice(words), _) => json!(u.choose(words)?),
        (ParamKind::Arrivals, _) => {
            // to about a flow a millisecond
            let flows = scaled(u, 0, 1_000_000)? as f64 / 1e3;
            let key = *u.choose(&["per_second", "per_mbit"])?;
            Map::from_iter([(key.to_owned(), json!(flows))]).into()
        }
        (ParamKind::Sizes, _) => sizes(u)?,
        (_, 2) if !spec.min.is_null() => spec.min.clone(),
        (_, 3) if !spec.max.is_null() => spec.max.clone(),
        (ParamKind::Float, _) => {
            let (low, high) = (spec.min.as_f64().unwrap_or(-1e9), spec.max.as_f64().unwrap_or(1e9));
            let share = f64::from(u.arbitrary::<u16>()?) / f64::from(u16::MAX);
            json!((low + (high - low) * share).clamp(low, high))
        }
        (kind, _) => {
            // where no range is given, mostly what every integer type holds
            let open = match (kind, pick) {
                (ParamKind::Int, 4..) => 63,
                _ => u64::MAX,
            };
            json!(scaled(u, spec.min.as_u64().unwrap_or(0), spec.max.as_u64().unwrap_or(open))?)
        }
    })
}

/// Sizes of short flows.
fn sizes(u: &mut Unstructured) -> Result<Value> {
    let least = scaled(u, 1, 1_000_000)?;
    Ok(match u.int_in_range(0..=3_u8)? {
        0 => json!({"fixed": least}),
        1 => {
            let pairs = (0..u.int_in_range(1..=4_u8)?).map(|_| Ok(json!([scaled(u, 1, 100_000)?, u.int_in_range(0..=9_u8)?])));
            json!({"empirical": pairs.collect::<Result<Vec<_>>>()?})
        }
        _ => {
            let shape = *u.choose(&[0.01, 0.9, 1.0, 2.5, 100.0])?;
            json!({"pareto": shape, "min": least, "max": least + scaled(u, 1, 1_000_000)?})
        }
    })
}

/// Up to three stages of a path, mostly none.
fn stages(u: &mut Unstructured) -> Result<Vec<Value>> {
    let count = *u.choose(&[0, 0, 0, 1, 1, 2, 3])?;
    let stage = |u: &mut Unstructured| {
        let mut stage = algorithm(u, &path::specs())?;
        // the whole range of probabilities and times loses nearly everything or holds it for longer than the run
        for (key, value) in &mut stage {
            match key.as_str() {
                "probability" | "p" if u.ratio(3_u8, 4)? => *value = json!(*u.choose(&[0.001, 0.01, 0.1, 0.5])?),
                "interval" | "max" | "delay" if u.ratio(7_u8, 8)? => *value = json!(scaled(u, 1, 50 * MS)?),
                _ => {}
            }
        }
        Ok(stage.into())
    };
    (0..count).map(|_| stage(u)).collect()
}

/// Gives `table` the paths `keys`.
fn add_paths(u: &mut Unstructured, table: &mut Map<String, Value>, keys: &[&str]) -> Result<()> {
    for &key in keys {
        let stages = stages(u)?;
        if !stages.is_empty() {
            table.insert(key.into(), stages.into());
        }
    }
    Ok(())
}

/// Some of the parameters in `specs`, none of those in `without`.
pub fn table(u: &mut Unstructured, specs: &[ParamSpec], without: &[&str]) -> Result<Map<String, Value>> {
    let mut map = Map::new();
    // all of them, a few, or none
    let share = *u.choose(&[0_u8, 32, 255])?;
    for spec in specs.iter().filter(|spec| !without.contains(&spec.name)) {
        if share == 255 || u.arbitrary::<u8>()? < share {
            map.insert(spec.name.into(), value(u, spec)?);
        }
    }
    Ok(map)
}

/// One of `specs` with some of its parameters.
pub fn algorithm(u: &mut Unstructured, specs: &[AlgorithmSpec]) -> Result<Map<String, Value>> {
    let spec = u.choose(specs)?;
    let mut map = Map::new();
    map.insert("name".into(), spec.name.into());
    map.extend(table(u, &spec.params, &[])?);
    Ok(map)
}

/// A queue discipline with keys that it accepts together.
pub fn queue(u: &mut Unstructured) -> Result<Map<String, Value>> {
    let mut config = algorithm(u, &aqm::specs())?;
    let context = aqm::QueueContext::new(Rate::from_mbit(10), 1);
    while let Err(error) = aqm::build(&config, &context) {
        if config.remove(&error.key).is_none() {
            break;
        }
    }
    Ok(config)
}

fn time(u: &mut Unstructured, most: u64) -> Result<u64> {
    Ok(match u.int_in_range(0..=3_u8)? {
        0 => 0,
        1 => u.int_in_range(0..=20)? * MS,
        _ => scaled(u, 0, most)?,
    })
}

/// A base RTT; long ones with little probability: a run lasts that much longer.
fn base_rtt(u: &mut Unstructured) -> Result<Value> {
    Ok(if u.ratio(1_u8, 32)? { value(u, &spec_of(&FlowParams::specs(), "base_rtt"))? } else { json!(time(u, SECOND)?) })
}

/// Start and stop of what sends, within a run's `duration`; the whole range seldom ends.
fn add_times(u: &mut Unstructured, table: &mut Map<String, Value>, duration: u64) -> Result<()> {
    if u.arbitrary()? {
        let first = time(u, duration)?;
        table.insert("start".into(), json!({"min": first, "max": first + time(u, duration)?}));
    }
    if u.ratio(1_u8, 4)? {
        table.insert("stop".into(), json!(time(u, duration)?));
    }
    Ok(())
}

fn flow(u: &mut Unstructured, duration: u64) -> Result<Value> {
    let mut flow = table(u, &FlowParams::specs(), &["base_rtt"])?;
    flow.insert("cc".into(), algorithm(u, &cc::specs())?.into());
    flow.insert("base_rtt".into(), base_rtt(u)?);
    add_times(u, &mut flow, duration)?;
    add_paths(u, &mut flow, &["path", "ack_path"])?;
    // transfers and delays of the run's own size
    if u.ratio(1_u8, 4)? {
        flow.insert("size".into(), json!(scaled(u, 1, 10_000_000)?));
    }
    if u.ratio(1_u8, 4)? {
        flow.insert("app_rate".into(), json!(scaled(u, 1000, 100_000_000)?));
    }
    let loss = *u.choose(&[0.0, 0.0, 0.01, 0.1, 0.5])?;
    flow.entry("loss").or_insert(json!(loss));
    if u.ratio(1_u8, 4)? {
        flow.insert("count".into(), json!(u.int_in_range(1..=4_u8)?));
    }
    if u.ratio(3_u8, 4)? {
        flow.insert("jitter".into(), json!(time(u, 100 * MS)?));
    }
    Ok(flow.into())
}

fn web(u: &mut Unstructured, duration: u64) -> Result<Value> {
    let mut web = table(u, &WebParams::specs(), &["base_rtt"])?;
    web.insert("cc".into(), algorithm(u, &cc::specs())?.into());
    web.insert("base_rtt".into(), base_rtt(u)?);
    add_times(u, &mut web, duration)?;
    add_paths(u, &mut web, &["path", "ack_path"])?;
    Ok(web.into())
}

fn udp(u: &mut Unstructured, duration: u64) -> Result<Value> {
    let mut udp = table(u, &UdpParams::specs(), &[])?;
    udp.insert("rate".into(), json!(scaled(u, 1000, 100_000_000)?));
    add_times(u, &mut udp, duration)?;
    add_paths(u, &mut udp, &["path"])?;
    if u.ratio(1_u8, 4)? {
        udp.insert("count".into(), json!(u.int_in_range(1..=4_u8)?));
    }
    Ok(udp.into())
}

/// A queue with its link, as `[bottleneck]`, `[[hop]]` and `[reverse]` have them.
fn hop(u: &mut Unstructured, duration: u64) -> Result<Map<String, Value>> {
    let mut hop = table(u, &BottleneckParams::specs(), &["rate"])?;
    hop.insert("rate".into(), json!(scaled(u, 1000, 10_000_000_000)?));
    hop.insert("aqm".into(), queue(u)?.into());
    let mut changes = Vec::new();
    for _ in 0..u.int_in_range(0..=3_u8)? {
        changes.push(json!({"at": time(u, duration)?, "rate": scaled(u, 1000, 1_000_000_000)?}));
    }
    if !changes.is_empty() {
        hop.insert("rate_changes".into(), changes.into());
    }
    if u.ratio(1_u8, 4)? {
        // a link says how packets leave: these keys beside it are refused
        for key in ["shaper", "burst", "trace"] {
            hop.remove(key);
        }
        hop.insert("link".into(), algorithm(u, &link::specs())?.into());
    }
    add_paths(u, &mut hop, &["path", "behind"])?;
    Ok(hop)
}

/// Gives what sends a direction, and routes over some of the hops `names`, seldom none and mostly each once.
fn add_route(u: &mut Unstructured, source: &mut Value, names: &[String]) -> Result<()> {
    let Value::Object(source) = source else { return Ok(()) };
    if u.ratio(1_u8, 4)? {
        source.insert("direction".into(), json!(*u.choose(&["down", "up"])?));
    }
    let (mut data, mut acks) = (Vec::new(), Vec::new());
    for name in names {
        match u.int_in_range(0..=3_u8)? {
            0 | 1 => data.push(name),
            2 => acks.push(name),
            _ => {}
        }
    }
    source.insert("route".into(), json!(data));
    if u.arbitrary()? {
        source.insert("ack_route".into(), json!(acks));
    }
    Ok(())
}

/// Up to `most` of what `one` draws.
fn some(u: &mut Unstructured, most: u8, one: impl Fn(&mut Unstructured) -> Result<Value>) -> Result<Vec<Value>> {
    (0..u.int_in_range(0..=most)?).map(|_| one(u)).collect()
}

fn spec_of(specs: &[ParamSpec], name: &str) -> ParamSpec {
    specs.iter().find(|spec| spec.name == name).expect("a parameter that is registered").clone()
}

/// A whole run; its values are within their ranges, and whether they are allowed together is not looked at.
pub fn run(u: &mut Unstructured) -> Result<Value> {
    let duration = match u.int_in_range(0..=7_u8)? {
        0 => scaled(u, 1, 20 * SECOND)?,
        n => u64::from(n) * 700 * MS,
    };
    let bottleneck = hop(u, duration)?;
    let mut root = Map::new();
    let mut names = vec!["bottleneck".to_owned()];
    if u.ratio(1_u8, 3)? {
        let mut hops = Vec::new();
        for number in 0..u.int_in_range(0..=3_u8)? {
            let name = format!("hop-{number}");
            let mut hop = hop(u, duration)?;
            hop.insert("name".into(), json!(name));
            hops.push(Value::from(hop));
            names.push(name);
        }
        root.insert("hop".into(), hops.into());
        if u.arbitrary()? {
            root.insert("reverse".into(), hop(u, duration)?.into());
            names.push("reverse".into());
        }
    }
    // a profile alone, or single switches over it
    let mut hosts = if u.ratio(1_u8, 4)? { Map::new() } else { table(u, &HostParams::specs(), &[])? };
    if u.arbitrary()? {
        hosts.insert("profile".into(), value(u, &spec_of(&HostParams::specs(), "profile"))?);
    }
    let mut record = table(u, &RecordParams::specs(), &["interval", "short_flows"])?;
    record.insert("interval".into(), json!(*u.choose(&[MS, 100 * MS, SECOND, 86_400 * SECOND])?));
    if u.arbitrary()? {
        record.insert("short_flows".into(), json!(scaled(u, 0, 1000)?));
    }
    let seed: u64 = u.arbitrary()?;
    let mut flows = some(u, 4, |u| flow(u, duration))?;
    let mut web = some(u, 2, |u| web(u, duration))?;
    let mut udp = some(u, 2, |u| udp(u, duration))?;
    if flows.is_empty() && web.is_empty() && udp.is_empty() {
        flows.push(flow(u, duration)?);
    }
    if names.len() > 1 {
        for source in flows.iter_mut().chain(&mut web).chain(&mut udp) {
            add_route(u, source, &names)?;
        }
    }
    root.extend([
        ("duration".into(), json!(duration)),
        ("seed".into(), json!(seed)),
        ("bottleneck".into(), bottleneck.into()),
        ("hosts".into(), hosts.into()),
        ("flows".into(), flows.into()),
        ("web".into(), web.into()),
        ("udp".into(), udp.into()),
        ("record".into(), record.into()),
    ]);
    Ok(root.into())
}

/// A value of any shape, not deep.
pub fn junk(u: &mut Unstructured, depth: u8) -> Result<Value> {
    Ok(match u.int_in_range(0..=if depth == 0 { 8 } else { 10_u8 })? {
        0 => Value::Null,
        1 => json!(u.arbitrary::<bool>()?),
        2 => json!(u.arbitrary::<u64>()?),
        3 => json!(u.arbitrary::<i64>()?),
        4 => json!(u.arbitrary::<f64>()?),
        5 => json!(u.arbitrary::<&str>()?),
        6 => json!(u.choose(&[0, 1, u64::from(u16::MAX), u64::from(u32::MAX), u64::from(u32::MAX) + 1, 1 << 53, u64::MAX])?),
        7 => json!({"name": u.choose(&["codel", "cake", "reno", "cubic", "", "codle"])?}),
        8 => json!([]),
        9 => (0..u.int_in_range(0..=3_u8)?).map(|_| junk(u, depth - 1)).collect::<Result<Vec<_>>>()?.into(),
        _ => {
            let mut map = Map::new();
            for _ in 0..u.int_in_range(0..=3_u8)? {
                map.insert(u.arbitrary::<&str>()?.into(), junk(u, depth - 1)?);
            }
            map.into()
        }
    })
}

/// Puts junk at a random place of `value`, or takes that place away.
pub fn spoil(u: &mut Unstructured, value: &mut Value) -> Result<()> {
    match value {
        Value::Object(map) if !map.is_empty() && u.ratio(7_u8, 8)? => {
            let key = u.choose_iter(map.keys())?.clone();
            if u.ratio(1_u8, 8)? {
                map.remove(&key);
            } else {
                spoil(u, &mut map[&key])?;
            }
        }
        Value::Array(items) if !items.is_empty() && u.ratio(7_u8, 8)? => {
            let index = u.choose_index(items.len())?;
            spoil(u, &mut items[index])?;
        }
        other => *other = junk(u, 2)?,
    }
    Ok(())
}
