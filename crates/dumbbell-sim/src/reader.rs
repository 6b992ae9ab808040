//! Configurations as text, one after the other.

use crate::config::RunConfig;
use dumbbell_core::param::ParamError;
use serde_json::Value;

/// The key before the seed in canonical JSON.
const SEED: &str = "\"seed\":";

/// Reads configurations, canonical JSON. Runs of a sweep often differ in their seed alone: such a run is a copy of the one before it.
#[derive(Debug, Default)]
pub struct ConfigReader {
    last: Option<LastRead>,
}

/// A configuration that was read, and its text before and behind the digits of the seed.
#[derive(Debug)]
struct LastRead {
    before: String,
    behind: String,
    config: RunConfig,
}

impl ConfigReader {
    /// Reads a configuration without algorithms of programs.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn read(&mut self, text: &str) -> Result<RunConfig, ParamError> {
        if let Some(LastRead { before, behind, config }) = &self.last {
            let seed = text.strip_prefix(before.as_str()).and_then(|rest| rest.strip_suffix(behind.as_str()));
            if let Some(seed) = seed.and_then(parse_seed) {
                let mut config = config.clone();
                config.run.seed = seed;
                return Ok(config);
            }
        }
        let value: Value = serde_json::from_str(text).map_err(|error| ParamError::new("config", error, "JSON"))?;
        let config = RunConfig::from_json(&value)?;
        self.last = split_at_seed(text).filter(|_| value.get("seed").is_some()).map(|(before, behind)| LastRead {
            before: before.to_owned(),
            behind: behind.to_owned(),
            config: config.clone(),
        });
        Ok(config)
    }
}

/// Returns what is before and behind the digits of the seed, if no other table of the configuration has a key of this name.
fn split_at_seed(text: &str) -> Option<(&str, &str)> {
    let at = text.find(SEED)? + SEED.len();
    let (before, rest) = text.split_at(at);
    let digits = rest.find(|char: char| !char.is_ascii_digit())?;
    (digits > 0 && !rest.contains(SEED)).then(|| (before, &rest[digits..]))
}

/// Returns the seed that canonical JSON writes with these digits.
fn parse_seed(digits: &str) -> Option<u64> {
    let is_canonical = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    is_canonical.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The canonical text of a run with this seed and queue limit.
    fn text(seed: &str, limit: &str) -> String {
        format!(
            r#"{{"bottleneck":{{"aqm":{{"limit":{limit},"name":"pfifo"}}}},"duration":1000000000,"flows":[{{"cc":{{"name":"cubic"}}}}],"seed":{seed},"udp":[]}}"#
        )
    }

    #[test]
    fn a_run_with_another_seed_is_what_its_text_says() {
        let mut reader = ConfigReader::default();
        for (seed, limit) in [("1", "10"), ("2", "10"), ("18446744073709551615", "10"), ("2", "11"), ("0", "11")] {
            let text = text(seed, limit);
            let alone = RunConfig::from_json(&serde_json::from_str(&text).unwrap()).unwrap();
            assert_eq!(format!("{:?}", reader.read(&text).unwrap()), format!("{alone:?}"), "{text}");
        }
    }

    #[test]
    fn what_is_no_seed_is_an_error_of_its_own() {
        let mut reader = ConfigReader::default();
        assert!(reader.read(&text("1", "10")).is_ok());
        for seed in ["", "01", "-1", "1.5", "18446744073709551616", "null", "\"1\"", "1,\"seed\":2e0"] {
            let text = text(seed, "10");
            let alone = ConfigReader::default().read(&text).map_err(|error| error.to_string());
            let found = reader.read(&text).map_err(|error| error.to_string());
            assert_eq!(found.map(|config| config.run.seed), alone.map(|config| config.run.seed), "{text}");
            assert!(reader.read(&self::text("1", "10")).is_ok());
        }
    }

    #[test]
    fn a_seed_of_another_table_is_not_taken_for_the_runs() {
        let inner = text("1", "10").replace("\"udp\":[]", "\"udp\":[],\"x\":{\"seed\":5}");
        assert_eq!(split_at_seed(&inner), None);
        assert_eq!(split_at_seed(r#"{"seed":}"#), None);
        assert_eq!(split_at_seed(r#"{"seed":12}"#), Some((r#"{"seed":"#, "}")));
    }
}
