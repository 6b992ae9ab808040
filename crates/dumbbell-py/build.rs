//! Hashes the engine's sources: part of the engine's version, so that results of a changed engine are never taken for
//! results of the old one.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::{fs, io};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// A hash of all sources in these folders, in hexadecimal.
fn hash(folders: &[&str]) -> io::Result<String> {
    let mut found = Vec::new();
    for folder in folders {
        println!("cargo:rerun-if-changed={folder}");
        sources(Path::new(folder), &mut found)?;
    }
    found.sort();
    let mut hasher = DefaultHasher::new();
    for path in found {
        hasher.write(path.to_string_lossy().as_bytes());
        hasher.write(&fs::read(path)?);
    }
    Ok(format!("{:08x}", hasher.finish() as u32))
}

fn main() -> io::Result<()> {
    let [core, sim, live] = ["../dumbbell-core/src", "../dumbbell-sim/src", "../dumbbell-live/src"];
    println!("cargo:rustc-env=DUMBBELL_ENGINE_SOURCES={}", hash(&[core, sim])?);
    println!("cargo:rustc-env=DUMBBELL_LIVE_SOURCES={}", hash(&[core, sim, live])?);
    Ok(())
}
