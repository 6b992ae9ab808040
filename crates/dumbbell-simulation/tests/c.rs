//! The C interface: the example, compiled against the header and run, and the struct of the header against that of Rust.

use dumbbell_core::units::Instant;
use dumbbell_sim::Sim;
use dumbbell_simulation::CEvent;
use serde_json::{json, Value};
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Compiles `source` with `more` arguments to `name`, without a warning.
fn compile_program(name: &str, source: &Path, more: &[&str]) -> PathBuf {
    let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", include, "-o"];
    let done = Command::new("cc").args(flags).arg(&to).arg(source).args(more).status().expect("a C compiler");
    assert!(done.success(), "{name} does not compile");
    to
}

/// The newest library of this crate that cargo has built next to this test.
fn library() -> PathBuf {
    let here = std::env::current_exe().expect("a path");
    let folders = here.ancestors().skip(1).take(2);
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let named = files.filter(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        let hash = name.strip_prefix("libdumbbell_simulation").and_then(|rest| rest.strip_suffix(std::env::consts::DLL_SUFFIX));
        hash.is_some_and(|hash| hash.is_empty() || hash.starts_with('-'))
    });
    let age = |file: &std::fs::DirEntry| file.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    named.max_by_key(age).expect("cargo builds it with the crate").path()
}

/// Returns the output of the example, made by Rust.
fn story() -> String {
    let config: Value = json!({"duration": 3_000_000_000_u64, "bottleneck": {"rate": 10_000_000, "aqm": {"name": "codel"}},
        "flows": [{"cc": {"name": "cubic"}, "base_rtt": 20_000_000}]});
    let mut sim = Sim::builder(&config).changeable().build().expect("a run");
    sim.step(Instant::from_secs(1)).expect("a step");
    let drops = |one: &Sim| one.view().queue.drops_aqm + one.view().queue.drops_overflow;
    let mut text = String::new();
    for target in [5_000_000, 50_000_000] {
        let mut copy = sim.fork().expect("a copy");
        copy.set("bottleneck.aqm.target", &json!(target)).expect("a change");
        copy.step(Instant::from_secs(2)).expect("a step");
        text += &format!("\"backlog_packets\":{}\n", copy.view().queued_packets);
    }
    let refused = sim.set("bottleneck.aqm.control_law", &json!("rfc8289")).expect_err("a refusal");
    let mut whole = sim.fork().expect("a copy");
    whole.step(Instant::NEVER).expect("a step");
    assert!(drops(&whole) > 0);
    // events that were not taken before the snapshot are those of the first second
    text + &format!("{refused}\ndrops: {}\n\"digest\":\"{}\"\n", drops(&whole), sim.finish().expect("a run").hash)
}

#[test]
fn the_example_in_c_says_what_rust_says() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/steps.c");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let shared = library();
    let folder = text(shared.parent().expect("a folder"));
    let program = compile_program("steps", &source, &[&text(&shared), &format!("-Wl,-rpath,{folder}")]);
    let done = Command::new(program).output().expect("a program");
    assert!(done.status.success(), "{}: {}", done.status, String::from_utf8_lossy(&done.stderr));
    assert_eq!(String::from_utf8_lossy(&done.stdout), story());
}

#[test]
fn a_compiler_of_c_finds_every_field_where_rust_has_it() {
    let fields = [
        ("time", offset_of!(CEvent, time)),
        ("number", offset_of!(CEvent, number)),
        ("hop", offset_of!(CEvent, hop)),
        ("event", offset_of!(CEvent, event)),
        ("kind", offset_of!(CEvent, kind)),
        ("reason", offset_of!(CEvent, reason)),
        ("flow", offset_of!(CEvent, flow)),
        ("length", offset_of!(CEvent, length)),
        ("is_ack", offset_of!(CEvent, is_ack)),
    ];
    let mut asserts = format!(
        "#include \"dumbbell_simulation.h\"\n_Static_assert(sizeof(dumbbell_simulation_event) == {}, \"size\");\n",
        size_of::<CEvent>()
    );
    for (field, offset) in fields {
        asserts += &format!("_Static_assert(offsetof(dumbbell_simulation_event, {field}) == {offset}, \"{field}\");\n");
    }
    let source = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("layout.c");
    std::fs::write(&source, asserts + "int main(void) { return 0; }\n").expect("a folder to write to");
    compile_program("layout", &source, &[]);
}

/// Returns the error of a call that fails.
fn read_error(call: impl FnOnce(*mut std::ffi::c_char, usize) -> bool) -> String {
    let mut room = [1_u8; 300];
    assert!(call(room.as_mut_ptr().cast(), room.len()), "it succeeds");
    std::ffi::CStr::from_bytes_until_nul(&room).expect("an end").to_str().expect("UTF-8").to_owned()
}

#[test]
#[allow(unsafe_code, reason = "the functions of the interface")]
fn misuse_is_answered_in_a_line() {
    use dumbbell_simulation::{
        dumbbell_simulation_finish, dumbbell_simulation_free, dumbbell_simulation_new, dumbbell_simulation_restore,
        dumbbell_simulation_set, dumbbell_simulation_snapshot, dumbbell_simulation_step, dumbbell_simulation_view,
    };
    let null = std::ptr::null_mut();
    // SAFETY: texts end with 0, simulations come from the library and are freed once, and errors have their sizes
    unsafe {
        let made =
            |text: &std::ffi::CStr| read_error(|error, size| dumbbell_simulation_new(text.as_ptr(), 0, error, size).is_null());
        assert!(made(c"{").ends_with("allowed: JSON"));
        assert!(made(c"{\"duration\": -1}").starts_with("duration: found -1"), "{}", made(c"{\"duration\": -1}"));
        assert!(read_error(|error, size| dumbbell_simulation_step(null, 1, error, size) == -1).contains("found NULL"));
        let config = c"{\"duration\": 1000000000, \"bottleneck\": {\"aqm\": {\"name\": \"pfifo\"}}, \"flows\": [{\"cc\": {\"name\": \"reno\"}}]}";
        let one = dumbbell_simulation_new(config.as_ptr(), 0, null.cast(), 0);
        assert!(!one.is_null());
        let key = c"bottleneck.aqm.limit".as_ptr();
        assert!(read_error(|error, size| dumbbell_simulation_set(one, key, c"many".as_ptr(), error, size) == -1)
            .ends_with("allowed: JSON"));
        assert!(
            read_error(|error, size| dumbbell_simulation_set(one, key, c"-1".as_ptr(), error, size) == -1).contains("found -1")
        );
        assert!(read_error(|error, size| dumbbell_simulation_restore(one, null, error, size) == -1).contains("found NULL"));
        // a simulation may be restored to itself
        assert_eq!(dumbbell_simulation_restore(one, one, null.cast(), 0), 0);
        assert!(!dumbbell_simulation_finish(one, null.cast(), 0).is_null());
        assert!(dumbbell_simulation_view(one).is_null());
        assert_eq!(
            read_error(|error, size| dumbbell_simulation_snapshot(one, error, size).is_null()),
            "the simulation is over: it was finished, or it failed"
        );
        dumbbell_simulation_free(one);
        dumbbell_simulation_free(null);
    }
}
