//! What the fuzz targets share: values of parameters and whole configurations, drawn from the bytes of a case.

use arbitrary::{Result, Unstructured};
use dumbbell_core::param::{AlgorithmSpec, Kind, ParamSpec};
use dumbbell_core::tcp::host::HostParams;
use dumbbell_core::{aqm, cc};
use dumbbell_sim::config::{BottleneckParams, FlowParams};
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
        (Kind::Bool, _) => json!(pick % 2 == 0),
        (Kind::Choice(words), _) => json!(u.choose(words)?),
        (_, 2) if !spec.min.is_null() => spec.min.clone(),
        (_, 3) if !spec.max.is_null() => spec.max.clone(),
        (Kind::Float, _) => {
            let (low, high) = (spec.min.as_f64().unwrap_or(-1e9), spec.max.as_f64().unwrap_or(1e9));
            let share = f64::from(u.arbitrary::<u16>()?) / f64::from(u16::MAX);
            json!((low + (high - low) * share).clamp(low, high))
        }
        (kind, _) => {
            // where no range is given, mostly what every integer type holds
            let open = match (kind, pick) {
                (Kind::Int, 4..) => 63,
                _ => u64::MAX,
            };
            json!(scaled(u, spec.min.as_u64().unwrap_or(0), spec.max.as_u64().unwrap_or(open))?)
        }
    })
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

fn time(u: &mut Unstructured, most: u64) -> Result<u64> {
    Ok(match u.int_in_range(0..=3_u8)? {
        0 => 0,
        1 => u.int_in_range(0..=20)? * MS,
        _ => scaled(u, 0, most)?,
    })
}

fn flow(u: &mut Unstructured, duration: u64) -> Result<Value> {
    let mut flow = table(u, &FlowParams::specs(), &["base_rtt"])?;
    flow.insert("cc".into(), algorithm(u, &cc::specs())?.into());
    // long round trips with little probability: a run lasts that much longer
    let base_rtt =
        if u.ratio(1_u8, 32)? { value(u, &spec_of(&FlowParams::specs(), "base_rtt"))? } else { json!(time(u, SECOND)?) };
    flow.insert("base_rtt".into(), base_rtt);
    if u.arbitrary()? {
        let first = time(u, duration)?;
        flow.insert("start".into(), json!({"min": first, "max": first + time(u, duration)?}));
    }
    // the whole range seldom ends, transfers and delays of the run's own size do
    if u.ratio(1_u8, 4)? {
        flow.insert("stop".into(), json!(time(u, duration)?));
    }
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

fn spec_of(specs: &[ParamSpec], name: &str) -> ParamSpec {
    specs.iter().find(|spec| spec.name == name).expect("a parameter that is registered").clone()
}

/// A whole run; its values are within their ranges, and whether they are allowed together is not looked at.
pub fn run(u: &mut Unstructured) -> Result<Value> {
    let duration = match u.int_in_range(0..=7_u8)? {
        0 => scaled(u, 1, 20 * SECOND)?,
        n => u64::from(n) * 700 * MS,
    };
    let mut bottleneck = table(u, &BottleneckParams::specs(), &["rate"])?;
    bottleneck.insert("rate".into(), json!(scaled(u, 1000, 10_000_000_000)?));
    bottleneck.insert("aqm".into(), algorithm(u, &aqm::specs())?.into());
    let mut changes = Vec::new();
    for _ in 0..u.int_in_range(0..=3_u8)? {
        changes.push(json!({"at": time(u, duration)?, "rate": scaled(u, 1000, 1_000_000_000)?}));
    }
    if !changes.is_empty() {
        bottleneck.insert("rate_changes".into(), changes.into());
    }
    let hosts = table(u, &HostParams::specs(), &[])?;
    let mut flows = Vec::new();
    for _ in 0..u.int_in_range(1..=4_u8)? {
        flows.push(flow(u, duration)?);
    }
    let interval = *u.choose(&[MS, 100 * MS, SECOND, u64::MAX])?;
    let record = json!({"series": u.arbitrary::<bool>()?, "interval": interval});
    let seed: u64 = u.arbitrary()?;
    Ok(json!({
        "duration": duration, "seed": seed, "bottleneck": bottleneck, "hosts": hosts, "flows": flows, "record": record,
    }))
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
