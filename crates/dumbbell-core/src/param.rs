//! Parameters that describe themselves.
//!
//! [`params!`](crate::params) declares an algorithm's `Params` struct once, with unit, default, range and source of
//! every field; command line, experiment schema, documentation and invariant tests are all made from that declaration.

mod described;

pub use described::*;

use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// An algorithm of a program, with the keys of a configuration that chose it and gave it its parameters. It builds any number of instances, each
/// for a context such as a queue or a connection. Two are equal if their keys are.
pub struct Factory<C, T> {
    keys: Arc<Map<String, Value>>,
    new: Arc<dyn Fn(&C) -> T + Send + Sync>,
}

impl<C, T> Factory<C, T> {
    /// A factory for `keys` that builds by `new`.
    pub fn new(keys: &Map<String, Value>, new: impl Fn(&C) -> T + Send + Sync + 'static) -> Factory<C, T> {
        Factory { keys: Arc::new(keys.clone()), new: Arc::new(new) }
    }

    /// Returns the name that the configuration gives the algorithm.
    pub fn name(&self) -> &str {
        self.keys.get("name").and_then(Value::as_str).unwrap_or("")
    }

    /// Returns the keys, `name` included.
    pub fn values(&self) -> Map<String, Value> {
        self.keys.as_ref().clone()
    }

    /// Builds an instance for `context`.
    pub fn build(&self, context: &C) -> T {
        (self.new)(context)
    }
}

impl<C, T> Clone for Factory<C, T> {
    fn clone(&self) -> Self {
        Factory { keys: Arc::clone(&self.keys), new: Arc::clone(&self.new) }
    }
}

impl<C, T> fmt::Debug for Factory<C, T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_tuple("Factory").field(&self.keys).finish()
    }
}

impl<C, T> PartialEq for Factory<C, T> {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys
    }
}

/// Declares the specification of a registry's algorithms, an enum of their parameters: `$spec { Variant: module, … }`, and `Dyn Factory<…>` behind it
/// where programs bring algorithms along. `specs` describes every module.
macro_rules! algorithm_specs {
    ($(#[$outer:meta])* $spec:ident { $( $(#[$meta:meta])* $variant:ident : $module:ident ),* $(,)? } $(Dyn $factory:ty)?) => {
        $(#[$outer])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $spec {
            $(
                $(#[$meta])*
                #[doc = concat!("See [`", stringify!($module), "`].")]
                $variant($module::Params),
            )*
            $(
                /// One that this crate does not know.
                Dyn($factory),
            )?
        }

        impl $spec {
            /// Names of the registered algorithms.
            pub const NAMES: &'static [&'static str] = &[ $( $(#[$meta])* $module::NAME ),* ];

            /// Reads the algorithm that `config` names in its key `name`, with its other keys as parameters.
            ///
            /// # Errors
            /// An unknown name, key or value.
            pub fn from_json(config: &Map<String, Value>) -> Result<$spec, ParamError> {
                match config.get("name").and_then(Value::as_str).unwrap_or("") {
                    $( $(#[$meta])* $module::NAME => Ok($spec::$variant($module::Params::from_json(config)?)), )*
                    name => Err(ParamError::new("name", format!("{name:?}"), $spec::NAMES.join(", "))),
                }
            }

            /// Returns the name of the algorithm.
            pub fn name(&self) -> &str {
                match self {
                    $( $(#[$meta])* $spec::$variant(_) => $module::NAME, )*
                    $( $spec::Dyn(factory) => <$factory>::name(factory), )?
                }
            }

            /// Returns the values of all parameters, canonical.
            pub fn values(&self) -> Map<String, Value> {
                match self {
                    $( $(#[$meta])* $spec::$variant(params) => params.values(), )*
                    $( $spec::Dyn(factory) => <$factory>::values(factory), )?
                }
            }
        }

        /// Every registered algorithm, described.
        pub fn specs() -> Vec<AlgorithmSpec> {
            Vec::from([ $( $(#[$meta])* AlgorithmSpec {
                name: $module::NAME,
                title: $module::TITLE,
                source: $module::SOURCE,
                params: $module::Params::specs(),
                versions: $module::Params::versions(),
            }, )* ])
        }
    };
}
pub(crate) use algorithm_specs;

/// A parameter that cannot be used: which, what was found, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: found {found}, allowed: {allowed}")]
pub struct ParamError {
    /// Dotted path of the key.
    pub key: String,
    /// The value as found.
    pub found: String,
    /// The allowed values.
    pub allowed: String,
}

impl ParamError {
    /// An error at `key`.
    pub fn new(key: impl Into<String>, found: impl ToString, allowed: impl Into<String>) -> ParamError {
        ParamError { key: key.into(), found: found.to_string(), allowed: allowed.into() }
    }

    /// Moves the error one level further out: `key` becomes `prefix.key`.
    pub fn prefix_key(self, prefix: &str) -> ParamError {
        ParamError { key: format!("{prefix}.{}", self.key), ..self }
    }
}

/// Declares a `Params` struct whose fields describe themselves. Behind it, `check path` names a function that refuses combinations of
/// values: `fn(&Params) -> Result<(), ParamError>`. Before that, `over Version;` names the type of the first parameter, which
/// [`versions!`](crate::versions) declares to set `Params`: the keys of a configuration are read over what its version sets, instead of the defaults.
/// `frames n` behind a range says that the default is `n` full frames: its value is that of an MTU of 1500 B, and a run with other segments has
/// another ([`ParamSpec::of_frame`]).
///
/// ```
/// use dumbbell_core::{params, units::Duration};
/// params! {
///     /// Parameters of an example.
///     pub struct Params {
///         /// Acceptable standing queue.
///         target: Duration = Duration::from_millis(5), unit "", range Duration::from_micros(1), Duration::from_secs(10), source "RFC 8289 section 4.3";
///         /// Mark instead of drop.
///         ecn: bool = false, unit "", source "tc-codel(8)";
///     }
/// }
/// let params = Params::from_json(serde_json::json!({"ecn": true}).as_object().unwrap()).unwrap();
/// assert!(params.ecn && params.target == Duration::from_millis(5));
/// assert_eq!(Params::specs()[0].doc.trim(), "Acceptable standing queue.");
/// ```
#[macro_export]
macro_rules! params {
    (@bounds) => { None::<[&bool; 2]> };
    (@bounds $min:expr, $max:expr) => { Some([&$min, &$max]) };
    (@base $name:ident, $map:ident) => { $name::default() };
    (@base $name:ident, $map:ident, $version:ident) => { $crate::param::version::<$version>($map, &$name::specs())?.sets() };
    (@versions $name:ident) => { ::serde_json::Map::new() };
    (@versions $name:ident, $version:ident) => {
        $crate::param::versions(&$name::specs(), |word: $version| word.sets().values())
    };
    ($(#[$outer:meta])* pub struct $name:ident { $(
        $(#[doc = $doc:literal])* $field:ident : $type:ty = $default:expr, unit $unit:literal
        $(, range $min:expr, $max:expr)? $(, frames $frames:literal)?, source $source:literal;
    )* } $(over $version:ident;)? $(check $check:path)?) => {
        $(#[$outer])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $( $(#[doc = $doc])* pub $field: $type, )* }

        impl Default for $name {
            fn default() -> Self { $name { $( $field: $default, )* } }
        }

        impl $name {
            /// Every parameter, described, in order of declaration.
            pub fn specs() -> Vec<$crate::param::ParamSpec> {
                #[allow(unused_mut)]
                let mut specs = Vec::new();
                $( $crate::param::describe_field::<$type, _>(
                    &mut specs,
                    &$crate::param::FieldWords {
                        name: stringify!($field),
                        unit: $unit,
                        frames: 0 $( + $frames )?,
                        doc: concat!($($doc),*),
                        source: $source,
                    },
                    &$default,
                    $crate::params!(@bounds $($min, $max)?),
                ); )*
                specs
            }

            /// Values that every word of the first parameter, the version, sets unlike the defaults: `{word: {parameter: value}}`. Empty without
            /// versions.
            #[allow(dead_code)]
            pub fn versions() -> ::serde_json::Map<String, ::serde_json::Value> {
                $crate::params!(@versions $name $(, $version)?)
            }

            /// All values, canonical.
            #[allow(dead_code, unused_mut)]
            pub fn values(&self) -> ::serde_json::Map<String, ::serde_json::Value> {
                let mut values = ::serde_json::Map::new();
                $( $crate::param::insert_value(&mut values, stringify!($field), &self.$field); )*
                values
            }

            /// Sets the parameter that is called `key`.
            ///
            /// # Errors
            /// An unknown key, a value of the wrong kind or out of range.
            #[allow(dead_code, unused_mut, unused_variables)]
            pub fn set(&mut self, key: &str, value: &::serde_json::Value) -> Result<(), $crate::param::ParamError> {
                let specs = $name::specs();
                let mut setter = $crate::param::FieldSetter::new(&specs, key, value);
                let _ = $( setter.set(&mut self.$field) || )* true;
                setter.finish(stringify!($($field),*))
            }

            /// Reads the keys in `map` over the defaults. The key `name` is the algorithm's and is passed over.
            ///
            /// # Errors
            /// An unknown key, a value of the wrong kind or out of range.
            #[allow(unused_mut, unused_variables)]
            pub fn from_json(map: &::serde_json::Map<String, ::serde_json::Value>) -> Result<$name, $crate::param::ParamError> {
                let specs = $name::specs();
                $crate::param::check_keys(map, &specs, &["name"])?;
                let mut params = $crate::params!(@base $name, map $(, $version)?);
                let mut reader = $crate::param::FieldReader::new(&specs, map);
                let _ = $( reader.read(&mut params.$field) && )* true;
                reader.finish()?;
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
            const KIND: $crate::param::ParamKind = $crate::param::ParamKind::Choice(&[$($word),*]);
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

/// Declares the versions of an algorithm: words of the experiment file, and what each sets of a struct unlike `= base`, or unlike another
/// version with `like`. If the struct is `Params`, whose `params!` ends in `over`, these are defaults which keys override, and they are described with
/// the algorithm. If it is another, it holds what keys that are not set are, and what no key sets.
///
/// ```
/// #[derive(Clone, Copy, Debug)]
/// struct Limits { packets: u32, bytes: u32 }
/// dumbbell_core::versions! {
///     /// Whose limits.
///     pub enum Version sets Limits = { Limits { packets: 1000, bytes: 1 << 20 } } {
///         /// The first.
///         Old = "old" { packets: 100 },
///         /// With a smaller memory.
///         Small = "small" like Old { bytes: 1 << 16 },
///         /// As everybody has it.
///         New = "new" {},
///     }
/// }
/// let [old, small, new] = [Version::Old, Version::Small, Version::New].map(Version::sets);
/// assert_eq!([old.packets, small.packets, new.packets], [100, 100, 1000]);
/// assert_eq!([old.bytes, small.bytes, new.bytes], [1 << 20, 1 << 16, 1 << 20]);
/// ```
#[macro_export]
macro_rules! versions {
    (@base $base:expr) => { $base };
    (@base $base:expr, $other:expr) => { $other.sets() };
    ($(#[$outer:meta])* pub enum $name:ident sets $what:ident = { $base:expr } { $(
        $(#[$inner:meta])* $variant:ident = $word:literal $(like $other:ident)? { $($field:ident: $value:expr),* $(,)? }
    ),* $(,)? }) => {
        $crate::choice! { $(#[$outer])* pub enum $name { $( $(#[$inner])* $variant = $word ),* } }

        impl $name {
            /// Returns the values that the version sets.
            #[allow(clippy::field_reassign_with_default)]
            pub(crate) fn sets(self) -> $what {
                match self { $( $name::$variant => {
                    #[allow(unused_mut)]
                    let mut all: $what = $crate::versions!(@base $base $(, $name::$other)?);
                    $( all.$field = $value; )*
                    all
                } )* }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Duration;
    use serde_json::{json, Value};

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
            target: Duration = Duration::from_millis(5), unit "", range Duration(1), Duration::from_secs(1), source "test";
            /// A word.
            mode: Mode = Mode::One, unit "", source "test";
            /// May be off.
            threshold: Option<Duration> = None, unit "", source "test";
        }
    }

    fn read(value: Value) -> Result<Params, ParamError> {
        Params::from_json(value.as_object().unwrap())
    }

    #[test]
    fn keys_override_defaults() {
        let params = read(json!({"name": "x", "mode": "two", "threshold": 7})).unwrap();
        assert_eq!((params.target, params.mode, params.threshold), (Duration::from_millis(5), Mode::Two, Some(Duration(7))));
    }

    #[test]
    fn errors_name_key_found_and_allowed() {
        assert_eq!(read(json!({"mode": "three"})).unwrap_err().to_string(), "mode: found \"three\", allowed: one, two");
        assert_eq!(read(json!({"target": 0})).unwrap_err().to_string(), "target: found 0, allowed: 1 to 1000000000");
        assert!(read(json!({"targte": 1})).unwrap_err().to_string().ends_with("allowed: target, mode, threshold"));
        assert!(read(json!({"target": -5})).is_err() && read(json!({"target": 1.5})).is_err());
    }
}
