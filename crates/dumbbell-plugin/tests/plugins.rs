//! Plugins in C, compiled and loaded: the examples, and what is wrong in many ways.

use dumbbell_core::aqm::{Aqm, Dequeue, QueueContext};
use dumbbell_core::packet::{Ecn, Packet};
use dumbbell_core::units::{Rate, Time};
use dumbbell_plugin::{abi, trial, Make, Plugin};
use dumbbell_sim::additions::{Additions, Fault};
use dumbbell_sim::{RunError, Sim};
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `source` to a library called `name`. What is wrong on purpose is nothing to warn of.
fn compiled(name: &str, source: &Path) -> PathBuf {
    let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("lib{name}.so"));
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let flags = ["-std=c11", "-w", "-O1", "-shared", "-fPIC", "-I", include];
    let done = Command::new("cc").args(flags).arg(source).arg("-o").arg(&to).status().expect("a C compiler");
    assert!(done.success(), "{name} does not compile");
    to
}

fn example(name: &str) -> Plugin {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/{name}.c"));
    Plugin::load(compiled(name, &source)).expect("a plugin")
}

/// The example `lifo` with one text in place of another.
fn changed(name: &str, from: &str, to: &str) -> PathBuf {
    let lifo = include_str!("../examples/lifo.c");
    assert!(lifo.contains(from), "{from}");
    let source = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.c"));
    std::fs::write(&source, lifo.replace(from, to)).expect("a folder to write to");
    compiled(name, &source)
}

fn full(seq: u64, ecn: Ecn) -> Packet {
    Packet { seq, len: 1514, ecn, ..Packet::EMPTY }
}

#[test]
fn a_queue_in_c_by_hand() {
    let plugin = example("lifo");
    assert_eq!(plugin.name(), "lifo");
    let keys = json!({"name": "lifo", "limit": 3, "threshold": 2000});
    let values = plugin.values(keys.as_object().expect("a table")).expect("parameters");
    assert_eq!(values, [3.0, 2000.0]);
    let fault = Fault::default();
    let Make::Queue(make) = plugin.make() else { panic!("no queue") };
    let mut queue = make(&values, &QueueContext::new(Rate::from_mbit(10), 1), fault.clone());
    // two are below the threshold when they come; the third finds 3028 B and is marked, a fourth that cannot be is dropped
    for (seq, ecn) in [(0, Ecn::Ect0), (1, Ecn::NotEct), (2, Ecn::Ect0), (3, Ecn::NotEct)] {
        queue.enqueue(full(seq, ecn), Time(seq), &mut ());
    }
    assert_eq!((queue.packets(), queue.bytes()), (3, 3 * 1514));
    let mut left = || match queue.dequeue(Time(9), &mut ()) {
        Dequeue::Packet(packet) => Some((packet.seq, packet.ecn, packet.enqueue_time)),
        _ => None,
    };
    assert_eq!(left(), Some((2, Ecn::Ce, Time(2))));
    assert_eq!(left(), Some((1, Ecn::NotEct, Time(1))));
    assert_eq!(left(), Some((0, Ecn::Ect0, Time(0))));
    assert_eq!((left(), fault.found()), (None, None));
}

fn config(aqm: &str, cc: &str) -> Value {
    json!({"duration": 3_000_000_000_u64, "bottleneck": {"rate": 20_000_000, "aqm": {"name": aqm}},
        "flows": [{"cc": {"name": cc}, "base_rtt": 20_000_000, "count": 2}]})
}

#[test]
fn plugins_run_with_registered_algorithms_and_stand_in_tables_by_name() {
    let (queue, control) = (example("lifo"), example("aimd"));
    let mut additions = Additions::default();
    queue.add_to(&mut additions, "lifo");
    control.add_to(&mut additions, "aimd");
    let config = config("lifo", "aimd");
    let run = || Sim::builder(&config).additions(additions.clone()).build().expect("a configuration").finish().expect("a run");
    let (first, second) = (run(), run());
    assert_eq!(first.hash, second.hash);
    assert!(format!("{:?}", first.tables.flows).contains("aimd"));
    assert!(first.summary["goodput_total_mbit"].as_f64().is_some_and(|mbit| mbit > 10.0), "{}", first.summary);
}

#[test]
fn aimd_of_one_and_a_half_does_what_reno_does() {
    // the same law, counted in fractions instead of whole ACKs: the same goodput and drops, within a few percent
    let plugin = example("aimd");
    let mut additions = Additions::default();
    plugin.add_to(&mut additions, "aimd");
    let run = |cc: &str| {
        let config = config("codel", cc);
        let sim = Sim::builder(&config).additions(additions.clone()).build().expect("a configuration");
        let summary = sim.finish().expect("a run").summary;
        let of = |key: &str| summary[key].as_f64().expect("a figure");
        (of("goodput_total_mbit"), of("drops"))
    };
    let ((own, own_drops), (reno, reno_drops)) = (run("aimd"), run("reno"));
    assert!((own / reno - 1.0).abs() < 0.03, "{own} and {reno} Mbit/s");
    assert!((own_drops - reno_drops).abs() <= 3.0 + 0.2 * reno_drops, "{own_drops} and {reno_drops} drops");
}

#[test]
fn the_examples_stand_the_trial() {
    for name in ["lifo", "aimd"] {
        let plugin = example(name);
        let tried = trial::try_out(&plugin, 7, 20, 6).unwrap_or_else(|what| panic!("{name}: {what}"));
        assert_eq!(tried.sequences, if matches!(plugin.make(), Make::Queue(_)) { 20 } else { 0 });
    }
}

#[test]
fn values_of_parameters_are_checked() {
    let plugin = example("lifo");
    let refused = |keys: Value| plugin.values(keys.as_object().expect("a table")).expect_err("a wrong value").to_string();
    assert_eq!(refused(json!({"limit": 0})), "limit: found 0, allowed: 1 to 1000000");
    assert_eq!(refused(json!({"limit": "x"})), "limit: found \"x\", allowed: 1 to 1000000");
    assert_eq!(refused(json!({"limits": 3})), "limits: found this key, allowed: limit, threshold");
}

#[test]
fn what_is_no_plugin_is_said_in_a_line() {
    let said = |path: PathBuf| Plugin::load(path).err().map(|error| error.to_string()).expect("an error");
    let cases = [
        ("version", "{DUMBBELL_ABI, 2", "{7, 2", "it has version 7 of the interface; this dumbbell has 2"),
        ("nothing", "return &plugin", "(void)plugin; return 0", "dumbbell_describe() returned NULL"),
        (
            "neither",
            "params, &queue, NULL};",
            "params, NULL, NULL};\nconst void *unused = &queue;",
            "queue and control are NULL; allowed: one of them",
        ),
        ("missing", ".dequeue = dequeue", ".timer = (void (*)(void *, dumbbell_host *, uint64_t))dequeue", "dequeue() is NULL"),
        ("symbol", "dumbbell_describe(void) {", "describe(void); const dumbbell_plugin *describe(void) {", "it exports no"),
        ("taken", "\"lifo\"", "\"codel\"", "name \"codel\" is that of a registered algorithm"),
        ("range", "1000, 1, 1e6", "1000, 2000, 1e6", "parameter limit: kind 1, 1000 from 2000 to 1000000"),
    ];
    for (name, from, to, expected) in cases {
        let text = said(changed(name, from, to));
        assert!(text.starts_with(expected) && !text.contains('\n'), "{name}: {text}");
    }
    assert!(said(PathBuf::from("/nowhere/libnothing.so")).contains("nowhere"));
}

#[test]
fn what_a_queue_must_not_do_ends_the_trial_in_a_line() {
    let cases = [
        ("forged", "return newest ? newest->id : 0", "return newest ? newest->id + 1 : 0", "dequeue() returned packet"),
        ("twice", "else\n    host->push", "else\n    host->push(host, 1, packet->id), host->push", "pushed packet"),
        ("kept", "return newest ? newest->id : 0", "return newest && now % 2 ? newest->id : 0", "dequeue() returned no packet"),
        ("past", "return newest ? newest->id : 0", "if (newest) host->wait(host, now); return 0", "wait() until"),
        ("null", "self = malloc(sizeof *self)", "self = params[0] > 0 ? NULL : malloc(1)", "create() returned NULL"),
    ];
    for (name, from, to, expected) in cases {
        let plugin = Plugin::load(changed(name, from, to)).expect("a plugin");
        let text = trial::try_out(&plugin, 1, 20, 0).expect_err("a mistake");
        assert!(text.contains("queue lifo: ") && text.contains(expected) && !text.contains('\n'), "{name}: {text}");
        // and a run ends with it, too
        let mut additions = Additions::default();
        plugin.add_to(&mut additions, "lifo");
        let config = config("lifo", "reno");
        let run = Sim::builder(&config).additions(additions).build().expect("a configuration").finish().map(drop);
        assert!(matches!(run, Err(RunError::Foreign(what)) if what.contains(expected)), "{name}");
    }
}

#[test]
fn the_header_says_the_version() {
    assert!(dumbbell_plugin::HEADER.contains(&format!("#define DUMBBELL_ABI {}u", abi::ABI)));
}

/// Sizes of the types of the header, as C has them, against those of [`abi`].
#[test]
fn the_types_are_those_of_the_header() {
    macro_rules! sizes {
        ($($c:ident: $rust:ident),*) => {
            [$((stringify!($c), size_of::<abi::$rust>(), align_of::<abi::$rust>())),*]
        };
    }
    let types = sizes!(dumbbell_param: Param, dumbbell_packet: Packet, dumbbell_link: Link, dumbbell_queue: Queue, dumbbell_conn: Conn,
        dumbbell_steer: Steer, dumbbell_sample: Sample, dumbbell_control: Control, dumbbell_flow: Flow,
        dumbbell_stack_stats: StackStats, dumbbell_stack: Stack, dumbbell_plugin: Plugin);
    let asserts: String = types
        .iter()
        .map(|(name, size, align)| {
            format!("_Static_assert(sizeof({name}) == {size} && _Alignof({name}) == {align}, \"{name}\");\n")
        })
        .collect();
    let source = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sizes.c");
    std::fs::write(&source, format!("#include \"dumbbell.h\"\n{asserts}")).expect("a folder to write to");
    compiled("sizes", &source);
}
