//! The C interface: the example, compiled against the header and run, and the types of the header against those of Rust.

use dumbbell_net::c::{CArrival, CFrame};
use dumbbell_net::{Config, Ecn, Frame, Net, NetCounters};
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Whether there is a C compiler; says so if there is none.
fn has_compiler() -> bool {
    let found = Command::new("cc").arg("--version").output().is_ok_and(|done| done.status.success());
    if !found {
        eprintln!("skipped: there is no C compiler, cc, and what is in C is not tested");
    }
    found
}

/// Compiles `source` with `more` arguments to `name`, without a warning.
fn compile_program(name: &str, source: &Path, more: &[&str]) -> PathBuf {
    let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", include, "-o"];
    let done = Command::new("cc").args(flags).arg(&to).arg(source).args(more).status().expect("a C compiler");
    assert!(done.success(), "{name} does not compile");
    to
}

/// The newest library of this crate that cargo has built next to this test and begins and ends so.
fn library(begin: &str, end: &str) -> PathBuf {
    let here = std::env::current_exe().expect("a path");
    let folders = here.ancestors().skip(1).take(2);
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let named = files.filter(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        let hash = name.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
        hash.is_some_and(|hash| hash.is_empty() || hash.starts_with('-'))
    });
    let age = |file: &std::fs::DirEntry| file.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    named.max_by_key(age).expect("cargo builds it with the crate").path()
}

fn run(program: &Path) -> String {
    let done = Command::new(program).output().expect("a program");
    assert!(done.status.success(), "{}: {}", done.status, String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Returns the output of the example in C, made by Rust.
fn story() -> String {
    let error = Config::parse("aqm = 'codel'\nrate = '10'\n").expect_err("no unit");
    let mut net: Net<u32> =
        Net::new("rate = '10Mbit'\naqm = { name = 'codel', ecn = true }\ndelay = '10ms'\n").expect("a bottleneck");
    for number in 0..300 {
        assert!(net.push(Duration::ZERO, Frame::udp(1472).ecn(Ecn::Ect0).flow(1), number));
    }
    let (mut last, mut marked) = (Duration::ZERO, 0);
    while let Some(next) = net.next() {
        while let Some(arrival) = net.pop(next) {
            last = arrival.at;
            marked += u32::from(arrival.frame.ecn == Ecn::Ce);
        }
    }
    let NetCounters { pushed, popped, ce_marks, .. } = net.counters();
    assert!(marked > 0);
    format!(
        "error: {error}\npopped {popped} of {pushed}, the last at {} ns\nCE marks: {ce_marks} counted, {marked} seen\n",
        last.as_nanos()
    )
}

#[test]
fn the_example_in_c_says_what_rust_says() {
    if !has_compiler() {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/story.c");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let shared = library("libdumbbell_net", std::env::consts::DLL_SUFFIX);
    let folder = text(shared.parent().expect("a folder"));
    let by_name = compile_program("story-shared", &source, &[&text(&shared), &format!("-Wl,-rpath,{folder}")]);
    assert_eq!(run(&by_name), story());
    if cfg!(target_os = "linux") {
        let whole = library("libdumbbell_net", ".a");
        let with_it = compile_program("story-static", &source, &[&text(&whole), "-lpthread", "-lm", "-ldl"]);
        assert_eq!(run(&with_it), story());
    }
}

#[test]
fn the_types_are_those_of_the_header() {
    if !has_compiler() {
        return;
    }
    macro_rules! fields {
        ($c:ident = $rust:ident: $($field:ident),*) => {{
            let mut asserts = format!("_Static_assert(sizeof({}) == {}, \"size\");\n", stringify!($c), size_of::<$rust>());
            $(asserts += &format!(
                "_Static_assert(offsetof({0}, {1}) == {2}, \"{1}\");\n", stringify!($c), stringify!($field), offset_of!($rust, $field)
            );)*
            asserts
        }};
    }
    let asserts = [
        fields!(dumbbell_net_frame = CFrame: flow, length, ecn, zero),
        fields!(dumbbell_net_arrival = CArrival: at, bytes, size, frame),
        fields!(dumbbell_net_counters = NetCounters: pushed, popped, departed, departed_bytes, dropped_overflow, dropped_aqm, lost, ce_marks,
            sce_marks, sent, sojourn_ns, queued, queued_bytes, held),
    ];
    let codepoints = [("NOT_ECT", Ecn::NotEct), ("ECT1", Ecn::Ect1), ("ECT0", Ecn::Ect0), ("CE", Ecn::Ce)]
        .map(|(name, ecn)| format!("_Static_assert(DUMBBELL_NET_{name} == {}, \"{name}\");\n", ecn as u8));
    let headers = format!("_Static_assert(DUMBBELL_NET_UDP_HEADERS == {}, \"UDP\");\n", Frame::udp(0).len);
    let source = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("net_sizes.c");
    let text = format!("#include \"dumbbell_net.h\"\n{}{}{headers}", asserts.concat(), codepoints.concat());
    std::fs::write(&source, text).expect("a folder to write to");
    compile_program("net_sizes.o", &source, &["-c"]);
}

#[test]
fn null_and_little_room_do_no_harm() {
    if !has_compiler() {
        return;
    }
    let source = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("net_null.c");
    let text = r#"#include "dumbbell_net.h"
        #include <string.h>
        int main(void) {
          char four[4] = "xxx";
          dumbbell_net_frame frame = {0, 0, 0xff, 0};
          dumbbell_net_arrival arrival;
          dumbbell_net_counters counters;
          if (dumbbell_net_new(NULL, 1, 0, four, sizeof four) || strcmp(four, "tex")) return 1;
          if (dumbbell_net_new("aqm = 1", 1, 0, NULL, 0) || dumbbell_net_new("\xff", 1, 0, four, 0)) return 2;
          if (dumbbell_net_push(NULL, 0, frame, NULL, 0) || dumbbell_net_pop(NULL, 0, &arrival)) return 3;
          dumbbell_net_count(NULL, &counters);
          if (counters.pushed || dumbbell_net_next(NULL) != DUMBBELL_NET_NEVER) return 4;
          dumbbell_net_free(NULL);
          dumbbell_net *net = dumbbell_net_new("aqm = 'pfifo'", 1, 0, NULL, 0);
          if (!net || !dumbbell_net_push(net, UINT64_MAX, frame, NULL, 5)) return 5;
          if (dumbbell_net_pop(net, UINT64_MAX, NULL) || dumbbell_net_pop(net, UINT64_MAX, &arrival)) return 6;
          dumbbell_net_free(net);
          return 0;
        }"#;
    std::fs::write(&source, text).expect("a folder to write to");
    let shared = library("libdumbbell_net", std::env::consts::DLL_SUFFIX);
    let folder = format!("-Wl,-rpath,{}", shared.parent().expect("a folder").display());
    run(&compile_program("net_null", &source, &[shared.to_str().expect("UTF-8"), &folder]));
}
