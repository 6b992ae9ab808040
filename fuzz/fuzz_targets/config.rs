//! Any configuration is accepted or refused with a reason.
//!
//! Bytes that are JSON are taken as they are; others decide on a configuration that looks right and on what is wrong in it.

#![no_main]

use arbitrary::{Result, Unstructured};
use dumbbell_fuzz::{run, spoil};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fn configuration(bytes: &[u8]) -> Result<Value> {
    if let Ok(value) = serde_json::from_slice(bytes) {
        return Ok(value);
    }
    let mut u = Unstructured::new(bytes);
    let spoils = u.int_in_range(0..=3_u8)?;
    // what is wrong is decided first: a configuration uses up as many bytes as there are
    let mut places = Unstructured::new(u.bytes(u.len() / 4)?);
    let mut config = run(&mut u)?;
    for _ in 0..spoils {
        spoil(&mut places, &mut config)?;
    }
    Ok(config)
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(config) = configuration(bytes) else { return };
    if let Err(error) = dumbbell_sim::check(&config) {
        assert!(!error.allowed.is_empty(), "{error:?}: {config}");
    }
});
