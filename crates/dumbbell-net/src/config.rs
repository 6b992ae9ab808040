//! A bottleneck that has been read and checked, from which any number of nets are built.

use crate::error::Error;
use crate::net::Net;
use crate::text::{FileReader, Section};
use dumbbell_config::{RunConfig, BOTTLENECK};
use dumbbell_core::aqm::{AnyAqm, Aqm};
use dumbbell_core::param::ParamError;
use dumbbell_core::units;
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::time::Duration;

/// Largest size of a trace, bytes, as in experiment files.
const MOST_FILE_BYTES: u64 = 32 << 20;

/// A bottleneck, read from the text of an experiment's `[bottleneck]`.
///
/// ```
/// use dumbbell_net::{Config, Net};
/// let config = Config::parse(r#"
///     rate = "10Mbit"
///     aqm = { name = "codel", target = "5ms", ecn = true }
///     delay = "10ms"
/// "#)?;
/// let [there, back]: [Net; 2] = [config.build()?, config.seed(2).build()?];
/// assert_eq!((there.next(), back.next()), (None, None));
/// # Ok::<(), dumbbell_net::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    run: RunConfig,
    start: units::Duration,
}

impl Config {
    /// Reads `text`, TOML: the keys of a `[bottleneck]`, with or without that line above them. Times, rates and sizes are strings with a unit,
    /// such as `"5ms"`, `"10Mbit"` and `"10kB"`. `docs/reference` of the project lists all keys with their units, defaults and sources. The file that `trace`
    /// names is read, relative to the folder in which the program runs.
    ///
    /// # Errors
    /// No TOML; the first key that is unknown, missing or has a value that it cannot have: line, key, what was found and what is allowed.
    pub fn parse(text: &str) -> Result<Config, Error> {
        Config::parse_with(text, read_file)
    }

    /// Reads `text` as [`Config::parse`] does; `files` reads the file that `trace` names, or returns the reason why it cannot.
    ///
    /// # Errors
    /// Errors of [`Config::parse`] and of `files`.
    pub fn parse_with(text: &str, mut files: impl FnMut(&str) -> Result<Vec<u8>, String>) -> Result<Config, Error> {
        let section = Section::read(text)?;
        let files: &mut FileReader = &mut files;
        let hop = section.canonical(files)?;
        // something must send in a whole run: a source that no packet comes from here
        let run = RunConfig::from_json(&json!({BOTTLENECK: hop, "udp": [{}]}));
        let config = run.and_then(|run| {
            let config = Config { run, start: units::Duration::ZERO };
            config.discipline().map(|_| config)
        });
        config.map_err(|error| {
            let key = error.key.strip_prefix(BOTTLENECK).and_then(|rest| rest.strip_prefix('.')).map(str::to_owned);
            section.locate(ParamError { key: key.unwrap_or(error.key), ..error })
        })
    }

    /// Sets the seed of all that is random. Without it, the seed is 1, as in a run of dumbbell.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Config {
        self.run.run.seed = seed;
        self
    }

    /// Sets the time `start` that the caller's clock shows when the net begins. `rate_changes`, traces, links that change, and the clocks of
    /// queue disciplines count from then. Without it, they count from 0. An earlier time counts as `start`.
    /// Set it if the clock is not near 0, as one since 1970: a queue discipline with a clock, such as PIE, goes through each of its ticks, every 15 ms, since the
    /// start.
    #[must_use]
    pub fn start(mut self, start: Duration) -> Config {
        self.start = crate::net::nanoseconds(start);
        self
    }

    /// A net with nothing in it.
    ///
    /// # Errors
    /// None that [`Config::parse`] has not reported.
    pub fn build<T>(&self) -> Result<Net<T>, Error> {
        let queue = self.discipline().map_err(|error| Error::in_line(1, error))?;
        Ok(Net::from_run(&self.run, queue, self.start))
    }

    fn discipline(&self) -> Result<AnyAqm, ParamError> {
        let queue = dumbbell_bottleneck::queue_discipline(&self.run)?;
        if queue.reads_acks() {
            // payloads are opaque
            return Err(ParamError::new("aqm.ack_filter", "a filter", "off: a payload may be anything, and is not read"));
        }
        Ok(queue)
    }
}

impl<T> Net<T> {
    /// The bottleneck that `text` describes as the section `[bottleneck]` of an experiment does, with seed 1: see [`Config`], which has more
    /// to choose from.
    ///
    /// # Errors
    /// Errors of [`Config::parse`].
    pub fn new(text: &str) -> Result<Net<T>, Error> {
        Config::parse(text)?.build()
    }
}

fn read_file(name: &str) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let file = File::open(name).map_err(|error| error.to_string())?;
    file.take(MOST_FILE_BYTES + 1).read_to_end(&mut content).map_err(|error| error.to_string())?;
    if content.len() as u64 > MOST_FILE_BYTES {
        return Err(format!("it has more than {} MiB", MOST_FILE_BYTES >> 20));
    }
    Ok(content)
}
