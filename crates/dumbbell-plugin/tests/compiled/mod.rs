//! Libraries in C that tests compile, and runs that end by a copy.
// each test uses some
#![allow(dead_code)]

use dumbbell_core::units::Instant;
use dumbbell_plugin::HEADER;
use dumbbell_sim::extensions::Extensions;
use dumbbell_sim::Sim;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Returns the source that `dumbbell plugin new` writes for `kind`, called `name`.
pub fn template(kind: &str, name: &str) -> String {
    let file = format!("{}/../../python/dumbbell/experiment/plugins/templates/{kind}.c", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(file).expect("a template").replace("@NAME@", name)
}

/// Compiles a library called `name` from its source, in a folder of `test`, with another header if there is one. Mistakes that are made on purpose are no warnings.
pub fn compile(test: &str, name: &str, source: &str, header: Option<&str>) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{name}"));
    std::fs::create_dir_all(&folder).expect("a folder to write to");
    let (to, file) = (folder.join(format!("lib{name}.so")), folder.join(format!("{name}.c")));
    std::fs::write(&file, source).expect("a folder to write to");
    std::fs::write(folder.join("dumbbell.h"), header.unwrap_or(HEADER)).expect("a folder to write to");
    let flags = ["-std=c11", "-w", "-O1", "-shared", "-fPIC", "-I"];
    let done = Command::new("cc").args(flags).arg(&folder).arg(&file).arg("-o").arg(&to).status().expect("a C compiler");
    assert!(done.success(), "{name} does not compile");
    to
}

/// Runs a configuration; if `is_copied`, up to a third of its time, from which a copy goes on when the run itself is over.
pub fn simulate(config: &Value, extensions: Extensions, is_copied: bool, simulated: &AtomicU64) -> Result<String, String> {
    let run = |sim: Sim| sim.run(&AtomicBool::new(false), simulated).map_err(|error| error.to_string());
    let mut sim = Sim::builder(config).extensions(extensions).build().map_err(|error| error.to_string())?;
    if is_copied {
        sim.step(Instant(sim.config().end().0 / 3)).map_err(|error| error.to_string())?;
        let copy = sim.fork().map_err(|refused| refused.to_string())?;
        run(std::mem::replace(&mut sim, copy))?;
    }
    run(sim).map(|outcome| outcome.hash)
}
