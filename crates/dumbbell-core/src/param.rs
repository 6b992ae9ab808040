//! Parameters that describe themselves.
//!
//! [`params!`](crate::params) declares an algorithm's `Params` struct once, with unit, default, range and source of
//! every field; command line, experiment schema, documentation and invariant tests are all made from that declaration.

use crate::units::{Rate, Time};
use serde_json::{json, Map, Value};

/// What kind of value a parameter takes; in canonical JSON, times are integer ns, rates integer bit/s, sizes integer B.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Nanoseconds.
    Time,
    /// Bits per second, 0 = unlimited.
    Rate,
    /// An integer count; the unit is given beside it.
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

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Kind::Time => "time",
            Kind::Rate => "rate",
            Kind::Int => "int",
            Kind::Float => "float",
            Kind::Bool => "bool",
            Kind::Choice(_) => "choice",
            Kind::Arrivals => "arrivals",
            Kind::Sizes => "sizes",
            Kind::LinkTrace => "trace",
        }
    }
}

/// One parameter, described.
#[derive(Clone, Debug)]
pub struct ParamSpec {
    /// Key in the experiment file.
    pub name: &'static str,
    /// Kind of value.
    pub kind: Kind,
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
    /// What it does.
    pub doc: &'static str,
    /// Where the default comes from: RFC section, paper or kernel file.
    pub source: &'static str,
}

impl ParamSpec {
    /// As JSON, for other languages.
    pub fn to_json(&self) -> Value {
        let choices = match &self.kind {
            Kind::Choice(words) => json!(words),
            _ => Value::Null,
        };
        json!({
            "name": self.name, "kind": self.kind.name(), "optional": self.optional, "unit": self.unit, "default": self.default,
            "min": self.min, "max": self.max, "choices": choices, "doc": self.doc.trim(), "source": self.source,
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
    /// Its parameters.
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

/// A parameter that cannot be used: which, what was found, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: found {found}, allowed: {allowed}")]
pub struct ParamError {
    /// Dotted path of the key.
    pub key: String,
    /// The value as found.
    pub found: String,
    /// What would be right.
    pub allowed: String,
}

impl ParamError {
    /// An error at `key`.
    pub fn new(key: impl Into<String>, found: impl ToString, allowed: impl Into<String>) -> ParamError {
        ParamError { key: key.into(), found: found.to_string(), allowed: allowed.into() }
    }

    /// The same error, one level further out: `key` becomes `prefix.key`.
    pub fn within(self, prefix: &str) -> ParamError {
        ParamError { key: format!("{prefix}.{}", self.key), ..self }
    }
}

/// A type that can be a parameter.
pub trait ParamType: Sized + Clone {
    /// Its kind.
    const KIND: Kind;
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
            const KIND: Kind = Kind::Int;
            fn from_json(value: &Value) -> Result<Self, String> {
                value.as_u64().and_then(|n| n.try_into().ok()).ok_or(format!("an integer from 0 to {}", <$type>::MAX))
            }
            fn to_json(&self) -> Value { json!(self) }
        }
    )*};
}
integer_param!(u8, u16, u32, u64);

impl ParamType for f64 {
    const KIND: Kind = Kind::Float;
    fn from_json(value: &Value) -> Result<Self, String> {
        value.as_f64().filter(|x| x.is_finite()).ok_or("a finite number".into())
    }
    fn to_json(&self) -> Value {
        json!(self)
    }
}

impl ParamType for bool {
    const KIND: Kind = Kind::Bool;
    fn from_json(value: &Value) -> Result<Self, String> {
        value.as_bool().ok_or("true or false".into())
    }
    fn to_json(&self) -> Value {
        json!(self)
    }
}

impl ParamType for Time {
    const KIND: Kind = Kind::Time;
    fn from_json(value: &Value) -> Result<Self, String> {
        value.as_u64().map(Time).ok_or("a time (integer nanoseconds)".into())
    }
    fn to_json(&self) -> Value {
        json!(self.0)
    }
}

impl ParamType for Rate {
    const KIND: Kind = Kind::Rate;
    fn from_json(value: &Value) -> Result<Self, String> {
        value.as_u64().map(Rate).ok_or("a rate (integer bit/s)".into())
    }
    fn to_json(&self) -> Value {
        json!(self.0)
    }
}

impl<T: ParamType> ParamType for Option<T> {
    const KIND: Kind = T::KIND;
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

/// What each word of the first of `specs` sets unlike the defaults, where `values_of` gives all values under a configuration.
pub fn versions(
    specs: &[ParamSpec],
    values_of: impl Fn(&Map<String, Value>) -> Option<Map<String, Value>>,
) -> Map<String, Value> {
    let Some(first) = specs.first() else { return Map::new() };
    let Kind::Choice(words) = first.kind else { return Map::new() };
    let of = |word: &&'static str| {
        let values = values_of(&Map::from_iter([(first.name.to_string(), json!(word))]))?;
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

/// Declares a `Params` struct whose fields describe themselves. Behind it, `check path` names a function that refuses combinations of
/// values: `fn(&Params) -> Result<(), ParamError>`. Before that, `over path;` names a function that gives the values which the keys of a
/// configuration are read over, instead of the defaults: `fn(&Map<String, Value>) -> Result<Params, ParamError>`.
///
/// ```
/// use dumbbell_core::{params, units::Time};
/// params! {
///     /// Parameters of an example.
///     pub struct Params {
///         /// Acceptable standing queue.
///         target: Time = Time::from_millis(5), unit "", range Time::from_micros(1), Time::from_secs(10), source "RFC 8289 section 4.3";
///         /// Mark instead of drop.
///         ecn: bool = false, unit "", source "tc-codel(8)";
///     }
/// }
/// let params = Params::from_json(serde_json::json!({"ecn": true}).as_object().unwrap()).unwrap();
/// assert!(params.ecn && params.target == Time::from_millis(5));
/// assert_eq!(Params::specs()[0].doc.trim(), "Acceptable standing queue.");
/// ```
#[macro_export]
macro_rules! params {
    (@bound) => { ::serde_json::Value::Null };
    (@bound $bound:expr) => { $crate::param::ParamType::to_json(&$bound) };
    (@base $name:ident, $map:ident) => { $name::default() };
    (@base $name:ident, $map:ident, $base:path) => { $base($map)? };
    (@versions $name:ident) => { ::serde_json::Map::new() };
    (@versions $name:ident, $base:path) => { $crate::param::versions(&$name::specs(), |map| Some($base(map).ok()?.values())) };
    ($(#[$outer:meta])* pub struct $name:ident { $(
        $(#[doc = $doc:literal])* $field:ident : $type:ty = $default:expr, unit $unit:literal
        $(, range $min:expr, $max:expr)?, source $source:literal;
    )* } $(over $base:path;)? $(check $check:path)?) => {
        $(#[$outer])*
        #[derive(Clone, Debug)]
        pub struct $name { $( $(#[doc = $doc])* pub $field: $type, )* }

        impl Default for $name {
            fn default() -> Self { $name { $( $field: $default, )* } }
        }

        impl $name {
            /// Every parameter, described, in order of declaration.
            pub fn specs() -> Vec<$crate::param::ParamSpec> {
                vec![ $( $crate::param::ParamSpec {
                    name: stringify!($field),
                    kind: <$type as $crate::param::ParamType>::KIND,
                    optional: <$type as $crate::param::ParamType>::OPTIONAL,
                    unit: $unit,
                    default: $crate::param::ParamType::to_json(&{ let default: $type = $default; default }),
                    min: $crate::params!(@bound $($min)?),
                    max: $crate::params!(@bound $($max)?),
                    doc: concat!($($doc),*),
                    source: $source,
                }, )* ]
            }

            /// What every word of the first parameter, the version, sets unlike the defaults: `{word: {parameter: value}}`. Empty if there are no
            /// versions.
            #[allow(dead_code)]
            pub fn versions() -> ::serde_json::Map<String, ::serde_json::Value> {
                $crate::params!(@versions $name $(, $base)?)
            }

            /// All values, canonical.
            #[allow(dead_code)]
            pub fn values(&self) -> ::serde_json::Map<String, ::serde_json::Value> {
                let mut values = ::serde_json::Map::new();
                $( values.insert(stringify!($field).into(), $crate::param::ParamType::to_json(&self.$field)); )*
                values
            }

            /// Sets the parameter that is called `key`.
            ///
            /// # Errors
            /// An unknown key, a value of the wrong kind or out of range.
            #[allow(dead_code)]
            pub fn set(&mut self, key: &str, value: &::serde_json::Value) -> Result<(), $crate::param::ParamError> {
                let specs = $name::specs();
                let mut specs = specs.iter();
                $(
                    let spec = specs.next().expect("one specification a field");
                    if key == spec.name {
                        self.$field = $crate::param::read_field(spec, value)?;
                        return Ok(());
                    }
                )*
                Err($crate::param::ParamError::new(key, "this key", stringify!($($field),*)))
            }

            /// Reads the keys in `map` over the defaults. The key `name` is the algorithm's and is passed over.
            ///
            /// # Errors
            /// An unknown key, a value of the wrong kind or out of range.
            #[allow(unused_mut, unused_variables)]
            pub fn from_json(map: &::serde_json::Map<String, ::serde_json::Value>) -> Result<$name, $crate::param::ParamError> {
                let specs = $name::specs();
                $crate::param::check_keys(map, &specs, &["name"])?;
                let mut params = $crate::params!(@base $name, map $(, $base)?);
                let mut specs = specs.iter();
                $(
                    let spec = specs.next().expect("one specification a field");
                    if let Some(value) = map.get(stringify!($field)) {
                        params.$field = $crate::param::read_field(spec, value)?;
                    }
                )*
                $( $check(&params)?; )?
                Ok(params)
            }
        }
    };
}

/// Declares an enum whose variants are words in the experiment file, usable as a parameter.
#[macro_export]
macro_rules! choice {
    ($(#[$outer:meta])* pub enum $name:ident { $( $(#[$inner:meta])* $variant:ident = $word:literal ),* $(,)? }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[$inner])* $variant ),* }

        impl $crate::param::ParamType for $name {
            const KIND: $crate::param::Kind = $crate::param::Kind::Choice(&[$($word),*]);
            fn from_json(value: &::serde_json::Value) -> Result<Self, String> {
                match value.as_str() {
                    $( Some($word) => Ok($name::$variant), )*
                    _ => Err([$($word),*].join(", ")),
                }
            }
            fn to_json(&self) -> ::serde_json::Value {
                match self { $( $name::$variant => ::serde_json::Value::from($word) ),* }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    choice! {
        /// Two words.
        pub enum Mode { /// One.
            One = "one", /// Two.
            Two = "two" }
    }
    params! {
        /// Example.
        pub struct Params {
            /// A time.
            target: Time = Time::from_millis(5), unit "", range Time(1), Time::from_secs(1), source "test";
            /// A word.
            mode: Mode = Mode::One, unit "", source "test";
            /// May be off.
            threshold: Option<Time> = None, unit "", source "test";
        }
    }

    fn read(value: Value) -> Result<Params, ParamError> {
        Params::from_json(value.as_object().unwrap())
    }

    #[test]
    fn keys_override_defaults() {
        let params = read(json!({"name": "x", "mode": "two", "threshold": 7})).unwrap();
        assert_eq!((params.target, params.mode, params.threshold), (Time::from_millis(5), Mode::Two, Some(Time(7))));
    }

    #[test]
    fn errors_name_key_found_and_allowed() {
        assert_eq!(read(json!({"mode": "three"})).unwrap_err().to_string(), "mode: found \"three\", allowed: one, two");
        assert_eq!(read(json!({"target": 0})).unwrap_err().to_string(), "target: found 0, allowed: 1 to 1000000000");
        assert!(read(json!({"targte": 1})).unwrap_err().to_string().ends_with("allowed: target, mode, threshold"));
        assert!(read(json!({"target": -5})).is_err() && read(json!({"target": 1.5})).is_err());
    }
}
