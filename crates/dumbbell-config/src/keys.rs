//! Reading the values of keys.

use dumbbell_core::param::{ParamError, ParamType};
use dumbbell_core::path::{self, PathItem, StageSpec};
use serde_json::{Map, Value};

pub(crate) fn without_keys(map: &Map<String, Value>, keys: &[&str]) -> Map<String, Value> {
    map.iter().filter(|(key, _)| !keys.contains(&key.as_str())).map(|(key, value)| (key.clone(), value.clone())).collect()
}

pub(crate) fn object<'a>(value: &'a Value, key: &str) -> Result<&'a Map<String, Value>, ParamError> {
    value.as_object().ok_or_else(|| ParamError::new(key, value, "a table"))
}

pub(crate) fn list<'a>(value: Option<&'a Value>, key: &str) -> Result<&'a [Value], ParamError> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(ParamError::new(key, other, "a list")),
    }
}

/// The value of `key`, or `default` where there is none.
pub(crate) fn field<T: ParamType>(map: &Map<String, Value>, key: &str, default: T) -> Result<T, ParamError> {
    map.get(key).map_or(Ok(default), |value| T::from_json(value).map_err(|allowed| ParamError::new(key, value, allowed)))
}

/// The stages in the list `key`, for items of type `T`.
pub(crate) fn read_path<T: PathItem>(map: &Map<String, Value>, key: &str) -> Result<Vec<StageSpec>, ParamError> {
    let entries = list(map.get(key), key)?.iter().enumerate();
    let stages =
        entries.map(|(index, stage)| object(stage, &format!("{key}[{index}]")).cloned()).collect::<Result<Vec<_>, _>>()?;
    path::read::<T>(&stages).map_err(|error| ParamError { key: format!("{key}{}", error.key), ..error })
}
