//! Which code each engine's version is a hash of.

use super::code::{files, Code, Hash};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The code that makes results of captures, which an engine has that is not written in Rust: Linux.
///
/// The code is named file by file, since a hash over everything would throw away all that Linux has measured, minutes a run, whenever a
/// queue discipline of the simulator changes. A test follows each path in these files: what they call is in this list, or in
/// [`NOT_MEASURING`] with the reason.
pub const MEASURING: [&str; 50] = [
    "dumbbell-core/histogram.rs",
    "dumbbell-core/link/htb.rs",
    "dumbbell-core/link/pace.rs",
    "dumbbell-core/link_trace.rs",
    "dumbbell-core/log.rs",
    "dumbbell-core/packet.rs",
    "dumbbell-core/param.rs",
    "dumbbell-core/real.rs",
    "dumbbell-core/record.rs",
    "dumbbell-core/rng.rs",
    "dumbbell-core/slots.rs",
    "dumbbell-core/tcp/stats.rs",
    "dumbbell-core/traffic.rs",
    "dumbbell-core/traffic/pareto.rs",
    "dumbbell-core/units.rs",
    "dumbbell-config/classes.rs",
    "dumbbell-config/keys.rs",
    "dumbbell-config/lib.rs",
    "dumbbell-config/read.rs",
    "dumbbell-config/route.rs",
    "dumbbell-config/schedule.rs",
    "dumbbell-config/sections.rs",
    "dumbbell-config/web.rs",
    "dumbbell-measure/apps.rs",
    "dumbbell-measure/capacity.rs",
    "dumbbell-measure/classes.rs",
    "dumbbell-measure/columns.rs",
    "dumbbell-measure/columns/apps.rs",
    "dumbbell-measure/columns/classes.rs",
    "dumbbell-measure/columns/flows.rs",
    "dumbbell-measure/columns/hops.rs",
    "dumbbell-measure/columns/runs.rs",
    "dumbbell-measure/columns/series.rs",
    "dumbbell-measure/columns/short_flows.rs",
    "dumbbell-measure/columns/trace.rs",
    "dumbbell-measure/flow.rs",
    "dumbbell-measure/from_capture.rs",
    "dumbbell-measure/from_capture/apps.rs",
    "dumbbell-measure/from_capture/events.rs",
    "dumbbell-measure/from_capture/records.rs",
    "dumbbell-measure/from_capture/tail_drop.rs",
    "dumbbell-measure/hop_log.rs",
    "dumbbell-measure/measure.rs",
    "dumbbell-measure/outcome.rs",
    "dumbbell-measure/short_flows.rs",
    "dumbbell-measure/statistics.rs",
    "dumbbell-measure/table.rs",
    "dumbbell-measure/together.rs",
    "dumbbell-measure/trace.rs",
    "dumbbell-measure/transit.rs",
];

/// Other files that these files name, and why they are not in the hash.
#[allow(dead_code)] // of the test
pub const NOT_MEASURING: [(&str, &str); 21] = [
    (
        "dumbbell-core/app/mod.rs",
        "reads parameters of applications, which the run's key has; what users do is in the version of their program",
    ),
    ("dumbbell-core/aqm/mod.rs", "reads parameters of queue disciplines, which the run's key has, and a short flow's hash"),
    ("dumbbell-core/cc/conn.rs", "states of a simulated congestion control, for traces, which captures have not"),
    ("dumbbell-core/cc/exit.rs", "ends of slow start of a simulated congestion control, which captures have not"),
    ("dumbbell-core/cc/mod.rs", "reads parameters of congestion controls, which the run's key has"),
    ("dumbbell-core/hint.rs", "a hint to the compiler"),
    ("dumbbell-core/lib.rs", "declares modules"),
    ("dumbbell-core/link/mod.rs", "reads parameters of simulated links, which the run's key has"),
    ("dumbbell-core/link_layer.rs", "what frames take on a simulated link"),
    ("dumbbell-core/observe.rs", "states of simulated senders, for listeners, which captures have not"),
    ("dumbbell-core/path/mod.rs", "reads parameters of stages, which the run's key has"),
    ("dumbbell-core/prefetch.rs", "a hint to the processor"),
    ("dumbbell-core/protocol.rs", "counters of a simulated transport without TCP, for traces, which captures have not"),
    ("dumbbell-core/reply.rs", "a type of acknowledgements and answers, for stages that delay them"),
    ("dumbbell-core/tcp/host.rs", "reads switches of hosts, which the run's key has, and describes profiles"),
    ("dumbbell-core/tcp/mod.rs", "a type of acknowledgements, for stages that delay them"),
    ("dumbbell-core/tcp/receiver.rs", "names of misbehaviours of simulated receivers, which captures have not"),
    ("dumbbell-core/tcp/sender.rs", "a simulated sender, of which measures are taken in simulations only"),
    ("dumbbell-config/extensions.rs", "algorithms of a program around the simulator, which no other engine has"),
    ("dumbbell-config/frames.rs", "defaults of keys, which the run's key has"),
    ("dumbbell-measure/lib.rs", "declares modules"),
];

/// Whether a file is of the code that runs applications in guests: what their users do, apart from what [`MEASURING`] has.
#[allow(dead_code)] // of the build
pub fn is_of_apps(path: &str) -> bool {
    ["dumbbell-core/app/", "dumbbell-core/media/", "dumbbell-live/apps"].iter().any(|folder| path.starts_with(folder))
}

/// The code of some crates: name of the crate and path below its `src`.
pub type Sources = BTreeMap<String, Code>;

/// The code of the crate `name`, which lies beside the one at `here`: in the workspace, in a folder of vendored crates, or unpacked with its
/// version in its name.
///
/// # Errors
/// A crate that is not there, or a file that cannot be read.
pub fn sources(here: &Path, name: &str) -> io::Result<(PathBuf, Sources)> {
    let beside = here.parent().unwrap_or(here);
    let version = env!("CARGO_PKG_VERSION");
    let places = [beside.join(name).join("src"), beside.join(format!("{name}-{version}")).join("src")];
    let Some(src) = places.iter().find(|place| place.is_dir()) else {
        return Err(io::Error::other(format!("{}: not found, nor {}", places[0].display(), places[1].display())));
    };
    let code = files(src)?.into_iter().map(|(path, code)| (format!("{name}/{path}"), code)).collect();
    Ok((src.clone(), code))
}

/// A hash of these files, in hexadecimal.
pub fn hash<'a>(of: impl IntoIterator<Item = (&'a String, &'a Code)>) -> String {
    let mut hash = Hash::new();
    for (path, code) in of {
        hash.add(path.as_bytes());
        hash.add(&[0]);
        code.hash(&mut hash);
    }
    hash.hex()
}
