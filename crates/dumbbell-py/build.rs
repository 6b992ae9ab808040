//! Hashes the engines' code: part of their versions, so that results of a changed engine are never taken for results of the old one.

#[path = "build/code.rs"]
mod code;
#[path = "build/engines.rs"]
mod engines;

use engines::{hash, sources, Sources, MEASURING};
use std::path::Path;
use std::{env, io};

fn main() -> io::Result<()> {
    let here = env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| io::Error::other("CARGO_MANIFEST_DIR is not set"))?;
    for own in ["build.rs", "build/code.rs", "build/engines.rs"] {
        println!("cargo:rerun-if-changed={own}");
    }
    let mut all = Sources::new();
    let set = |variable: &str, hash: String| println!("cargo:rustc-env={variable}={hash}");
    for name in ["dumbbell-core", "dumbbell-config", "dumbbell-measure", "dumbbell-bottleneck", "dumbbell-sim", "dumbbell-live"] {
        let (src, code) = sources(Path::new(&here), name)?;
        // file by file: a changed test changes nothing here, and a new file comes with a line in one that is known
        for path in code.keys() {
            println!("cargo:rerun-if-changed={}", src.join(path.trim_start_matches(name).trim_start_matches('/')).display());
        }
        all.extend(code);
        match name {
            "dumbbell-sim" => set("DUMBBELL_ENGINE_SOURCES", hash(&all)),
            "dumbbell-live" => set("DUMBBELL_LIVE_SOURCES", hash(&all)),
            _ => {}
        }
    }
    if let Some(missing) = MEASURING.iter().find(|path| !all.contains_key(**path)) {
        return Err(io::Error::other(format!("{missing} is in MEASURING and not there")));
    }
    set("DUMBBELL_APPS_SOURCES", hash(all.iter().filter(|(path, _)| engines::is_of_apps(path))));
    set("DUMBBELL_MEASURING_SOURCES", hash(all.iter().filter(|(path, _)| MEASURING.contains(&path.as_str()))));
    Ok(())
}
