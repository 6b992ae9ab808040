//! Parameters as JSON: descriptions of them, and reading them.

use super::ParamError;
use crate::units::{Duration, Instant, Rate};
use serde_json::{json, Map, Value};

/// Kind of value that a parameter takes; in canonical JSON, times are integer ns, rates integer bit/s, sizes integer B.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamKind {
    /// Nanoseconds.
    Time,
    /// Bits per second, 0 = unlimited.
    Rate,
    /// An integer count; the unit is given next to it.
    Int,
    /// A real number.
    Float,
    /// true or false.
    Bool,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// How often flows arrive: `{"per_second": N}`, or `{"per_mbit": N}` per second and Mbit/s of the bottleneck.
    Arrivals,
    /// How many bytes flows carry: `{"fixed": N}`, `{"pareto": shape, "min": N, "max": N}` or `{"empirical": [[N, weight], …]}`.
    Sizes,
    /// When a link may send: `{"file": name, "schedule": text}` (see [`link_trace`](crate::link_trace)).
    LinkTrace,
}

impl ParamKind {
    fn name(&self) -> &'static str {
        match self {
            ParamKind::Time => "time",
            ParamKind::Rate => "rate",
            ParamKind::Int => "int",
            ParamKind::Float => "float",
            ParamKind::Bool => "bool",
            ParamKind::Choice(_) => "choice",
            ParamKind::Arrivals => "arrivals",
            ParamKind::Sizes => "sizes",
            ParamKind::LinkTrace => "trace",
        }
    }
}

/// One parameter, described.
#[derive(Clone, Debug)]
pub struct ParamSpec {
    /// Key in the experiment file.
    pub name: &'static str,
    /// ParamKind of value.
    pub kind: ParamKind,
    /// Whether it may be left unset (`null`): the mechanism is then off or derives its own value.
    pub optional: bool,
    /// Unit in words where the kind does not say it: `packets`, `bytes`, `1/16 Hz`, ...
    pub unit: &'static str,
    /// Default, canonical JSON.
    pub default: Value,
    /// Smallest allowed value, canonical; `null` if the kind has no order.
    pub min: Value,
    /// Largest allowed value, canonical; `null` if the kind has no order.
    pub max: Value,
    /// Full frames that the default is: [`ParamSpec::of_frame`]; 0 of those that do not depend on the size of frames.
    pub frames: u64,
    /// Description.
    pub doc: &'static str,
    /// Where the default comes from: RFC section, paper or kernel file.
    pub source: &'static str,
}

impl ParamSpec {
    /// The default on devices whose full frames have `full_frame` bytes, within the range, if it depends on them.
    pub fn of_frame(&self, full_frame: u16) -> Option<Value> {
        if self.frames == 0 {
            return None;
        }
        let [least, most] = [&self.min, &self.max].map(Value::as_u64);
        Some(json!((self.frames * u64::from(full_frame)).clamp(least.unwrap_or(0), most.unwrap_or(u64::MAX))))
    }

    /// As JSON, for other languages.
    pub fn to_json(&self) -> Value {
        let choices = match &self.kind {
            ParamKind::Choice(words) => json!(words),
            _ => Value::Null,
        };
        json!({
            "name": self.name, "kind": self.kind.name(), "optional": self.optional, "unit": self.unit, "default": self.default,
            "min": self.min, "max": self.max, "choices": choices, "frames": self.frames, "doc": self.doc.trim(), "source": self.source,
        })
    }
}

/// An algorithm, described.
#[derive(Clone, Debug)]
pub struct AlgorithmSpec {
    /// Name in experiment files.
    pub name: &'static str,
    /// One line: what it is.
    pub title: &'static str,
    /// Specification, its version, and how we deviate.
    pub source: &'static str,
    /// Parameters.
    pub params: Vec<ParamSpec>,
    /// Parameters that a version sets unlike the defaults: `{version: {parameter: value}}`.
    pub versions: Map<String, Value>,
}

impl AlgorithmSpec {
    /// As JSON, for other languages.
    pub fn to_json(&self) -> Value {
        let params: Vec<Value> = self.params.iter().map(ParamSpec::to_json).collect();
        json!({"name": self.name, "title": self.title, "source": self.source, "params": params, "versions": self.versions})
    }
}

/// A type that can be a parameter.
pub trait ParamType: Sized + Clone {
    /// Kind of the values.
    const KIND: ParamKind;
    /// Whether `null` is a value.
    const OPTIONAL: bool = false;
    /// From canonical JSON; `Err` says what is allowed.
    fn from_json(value: &Value) -> Result<Self, String>;
    /// To canonical JSON.
    fn to_json(&self) -> Value;
}

macro_rules! integer_param {
    ($($type:ty),*) => {$(
        impl ParamType for $type {
            const KIND: ParamKind = ParamKind::Int;
            fn from_json(value: &Value) -> Result<Self, String> {
                value.as_u64().and_then(|n| n.try_into().ok()).ok_or(format!("an integer from 0 to {}", <$type>::MAX))
            }
            fn to_json(&self) -> Value { json!(self) }
        }
    )*};
}
integer_param!(u8, u16, u32, u64);

impl ParamType for f64 {
    const KIND: ParamKind = ParamKind::Float;
    fn from_json(value: &Value) -> Result<Self, String> {
        value.as_f64().filter(|x| x.is_finite()).ok_or("a finite number".into())
    }
    fn to_json(&self) -> Value {
        json!(self)
    }
}

impl ParamType for bool {
    const KIND: ParamKind = ParamKind::Bool;
    fn from_json(value: &Value) -> Result<Self, String> {
        value.as_bool().ok_or("true or false".into())
    }
    fn to_json(&self) -> Value {
        json!(self)
    }
}

macro_rules! newtype_param {
    ($($type:ident: $kind:ident, $allowed:literal;)*) => {$(
        impl ParamType for $type {
            const KIND: ParamKind = ParamKind::$kind;
            fn from_json(value: &Value) -> Result<Self, String> {
                value.as_u64().map($type).ok_or($allowed.into())
            }
            fn to_json(&self) -> Value { json!(self.0) }
        }
    )*};
}
newtype_param! {
    Instant: Time, "a time (integer nanoseconds)";
    Duration: Time, "a time (integer nanoseconds)";
    Rate: Rate, "a rate (integer bit/s)";
}

impl<T: ParamType> ParamType for Option<T> {
    const KIND: ParamKind = T::KIND;
    const OPTIONAL: bool = true;
    fn from_json(value: &Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(None),
            _ => T::from_json(value).map(Some),
        }
    }
    fn to_json(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_json)
    }
}

/// The version that `map` names by the key of the first of `specs`, or its default.
pub fn version<V: ParamType>(map: &Map<String, Value>, specs: &[ParamSpec]) -> Result<V, ParamError> {
    read_field(&specs[0], map.get(specs[0].name).unwrap_or(&specs[0].default))
}

/// Returns the values that each version (a word of the first of `specs`) sets unlike the defaults; `values_of` gives all values under a version.
pub fn versions<V: ParamType>(specs: &[ParamSpec], values_of: impl Fn(V) -> Map<String, Value>) -> Map<String, Value> {
    let ParamKind::Choice(words) = V::KIND else { return Map::new() };
    let of = |word: &&'static str| {
        let values = values_of(V::from_json(&json!(word)).ok()?);
        let differs = specs[1..].iter().filter(|spec| values[spec.name] != spec.default);
        let set: Map<String, Value> = differs.map(|spec| (spec.name.into(), values[spec.name].clone())).collect();
        Some(((*word).to_string(), json!(set)))
    };
    words.iter().filter_map(of).collect()
}

/// Compares two canonical values of one kind; `None` where there is no order.
pub fn compare(a: &Value, b: &Value) -> Option<std::cmp::Ordering> {
    match (a.as_u64(), b.as_u64()) {
        (Some(x), Some(y)) => Some(x.cmp(&y)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// Fills one field from `value`, checked against `spec`.
pub fn read_field<T: ParamType>(spec: &ParamSpec, value: &Value) -> Result<T, ParamError> {
    let parsed = T::from_json(value).map_err(|allowed| ParamError::new(spec.name, value, allowed))?;
    let below = compare(value, &spec.min).is_some_and(std::cmp::Ordering::is_lt);
    let above = compare(value, &spec.max).is_some_and(std::cmp::Ordering::is_gt);
    if below || above {
        return Err(ParamError::new(spec.name, value, format!("{} to {}", spec.min, spec.max)));
    }
    Ok(parsed)
}

/// A parameter in words and numbers that its type does not have.
pub struct FieldWords {
    /// [`ParamSpec::name`].
    pub name: &'static str,
    /// [`ParamSpec::unit`].
    pub unit: &'static str,
    /// [`ParamSpec::frames`].
    pub frames: u64,
    /// [`ParamSpec::doc`].
    pub doc: &'static str,
    /// [`ParamSpec::source`].
    pub source: &'static str,
}

// Functions that `params!` calls for each field. They are not inlined: there are hundreds of fields, and web pages load their code.

/// Adds the description of a field to `specs`. `bounds` are its smallest and its largest value.
#[inline(never)]
pub fn describe_field<T: ParamType, B: ParamType>(
    specs: &mut Vec<ParamSpec>,
    words: &FieldWords,
    default: &T,
    bounds: Option<[&B; 2]>,
) {
    let bounds = bounds.map(|both| both.map(B::to_json));
    push_spec(specs, words, (T::KIND, T::OPTIONAL), default.to_json(), bounds);
}

#[inline(never)]
fn push_spec(
    specs: &mut Vec<ParamSpec>,
    words: &FieldWords,
    (kind, optional): (ParamKind, bool),
    default: Value,
    bounds: Option<[Value; 2]>,
) {
    let &FieldWords { name, unit, frames, doc, source } = words;
    let [min, max] = bounds.unwrap_or_default();
    specs.push(ParamSpec { name, kind, optional, unit, default, min, max, frames, doc, source });
}

/// Adds the value of a field to `values`.
#[inline(never)]
pub fn insert_value<T: ParamType>(values: &mut Map<String, Value>, name: &str, value: &T) {
    values.insert(name.to_owned(), value.to_json());
}

/// Reads the fields of a struct from the keys of a configuration, in the order of their descriptions.
pub struct FieldReader<'a> {
    specs: std::slice::Iter<'a, ParamSpec>,
    map: &'a Map<String, Value>,
    fault: Option<ParamError>,
}

impl<'a> FieldReader<'a> {
    /// A reader of the keys in `map`.
    pub fn new(specs: &'a [ParamSpec], map: &'a Map<String, Value>) -> FieldReader<'a> {
        FieldReader { specs: specs.iter(), map, fault: None }
    }

    /// Reads the next field if `map` has its key. Returns whether it could.
    #[inline(never)]
    pub fn read<T: ParamType>(&mut self, field: &mut T) -> bool {
        let Some(spec) = self.specs.next() else { return false };
        let Some(value) = self.map.get(spec.name) else { return true };
        match read_field(spec, value) {
            Ok(read) => *field = read,
            Err(fault) => self.fault = Some(fault),
        }
        self.fault.is_none()
    }

    /// Returns the first error.
    pub fn finish(self) -> Result<(), ParamError> {
        self.fault.map_or(Ok(()), Err)
    }
}

/// Sets the field that is called `key`, of those that it gets in the order of their descriptions.
pub struct FieldSetter<'a> {
    specs: std::slice::Iter<'a, ParamSpec>,
    key: &'a str,
    value: &'a Value,
    result: Option<Result<(), ParamError>>,
}

impl<'a> FieldSetter<'a> {
    /// A setter of `key` to `value`.
    pub fn new(specs: &'a [ParamSpec], key: &'a str, value: &'a Value) -> FieldSetter<'a> {
        FieldSetter { specs: specs.iter(), key, value, result: None }
    }

    /// Sets the next field if it is the one. Returns whether it is.
    #[inline(never)]
    pub fn set<T: ParamType>(&mut self, field: &mut T) -> bool {
        let Some(spec) = self.specs.next() else { return true };
        if spec.name != self.key {
            return false;
        }
        self.result = Some(read_field(spec, self.value).map(|read| *field = read));
        true
    }

    /// Returns what came of it; `names` are those of all fields.
    pub fn finish(self, names: &str) -> Result<(), ParamError> {
        self.result.unwrap_or_else(|| Err(ParamError::new(self.key, "this key", names)))
    }
}

/// The error for a key that is in `map` but in none of `specs` (keys in `also` are known elsewhere).
pub fn check_keys(map: &Map<String, Value>, specs: &[ParamSpec], also: &[&str]) -> Result<(), ParamError> {
    match map.keys().find(|key| !also.contains(&key.as_str()) && specs.iter().all(|s| s.name != key.as_str())) {
        None => Ok(()),
        Some(key) => {
            // every table of parameters takes a name, and only those of algorithms have one
            let also = also.iter().copied().filter(|&other| other != "name");
            let allowed: Vec<&str> = also.chain(specs.iter().map(|s| s.name)).collect();
            Err(ParamError::new(key.clone(), "this key", allowed.join(", ")))
        }
    }
}
