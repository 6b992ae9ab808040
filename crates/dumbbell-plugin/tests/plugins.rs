//! Plugins in C, compiled and loaded: the examples, and what is wrong in many ways.

mod compiled;

use compiled::simulate;
use dumbbell_core::aqm::{Aqm, Dequeue, QueueContext};
use dumbbell_core::cc::driver::conn;
use dumbbell_core::cc::CcContext;
use dumbbell_core::packet::{Ecn, Packet};
use dumbbell_core::units::{Instant, Rate};
use dumbbell_plugin::{abi, trial, Make, Plugin};
use dumbbell_sim::extensions::{Extensions, PluginFault};
use dumbbell_sim::{RunError, Sim};
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

/// Compiles `source` to a library called `name`. What is wrong on purpose is nothing to warn of.
fn compile_library(name: &str, source: &Path) -> PathBuf {
    let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("lib{name}.so"));
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let flags = ["-std=c11", "-w", "-O1", "-shared", "-fPIC", "-I", include];
    // tests that run at once want the same library: none loads what another has half written
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let part = to.with_extension(format!("{}.part", COUNT.fetch_add(1, Ordering::Relaxed)));
    let done = Command::new("cc").args(flags).arg(source).arg("-o").arg(&part).status().expect("a C compiler");
    assert!(done.success(), "{name} does not compile");
    std::fs::rename(&part, &to).expect("a folder to write to");
    to
}

/// The stack that `dumbbell plugin new stack` makes.
fn window() -> String {
    include_str!("../../../python/dumbbell/experiment/plugins/templates/stack.c").replace("@NAME@", "window")
}

/// The control of video that `dumbbell plugin new media` makes.
fn by_delay() -> String {
    include_str!("../../../python/dumbbell/experiment/plugins/templates/media.c").replace("@NAME@", "by-delay")
}

fn example(name: &str) -> Plugin {
    let templates = [("window", window as fn() -> String), ("by-delay", by_delay)];
    if let Some(at) = templates.iter().position(|(of, _)| *of == name) {
        static WRITTEN: [OnceLock<PathBuf>; 2] = [const { OnceLock::new() }; 2];
        let source = WRITTEN[at].get_or_init(|| {
            let source = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.c"));
            std::fs::write(&source, templates[at].1()).expect("a folder to write to");
            source
        });
        return Plugin::load(compile_library(name, source)).expect("a plugin");
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/{name}.c"));
    Plugin::load(compile_library(name, &source)).expect("a plugin")
}

/// The example `lifo` with one text in place of another.
fn change_example(name: &str, from: &str, to: &str) -> PathBuf {
    let lifo = include_str!("../examples/lifo.c");
    assert!(lifo.contains(from), "{from}");
    let source = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.c"));
    std::fs::write(&source, lifo.replace(from, to)).expect("a folder to write to");
    compile_library(name, &source)
}

fn full(seq: u64, ecn: Ecn) -> Packet {
    Packet { len: 1514, ..Packet::new_tcp(seq, ecn, 0) }
}

#[test]
fn a_queue_in_c_by_hand() {
    let plugin = example("lifo");
    assert_eq!(plugin.name(), "lifo");
    let keys = json!({"name": "lifo", "limit": 3, "threshold": 2000});
    let values = plugin.values(keys.as_object().expect("a table")).expect("parameters");
    assert_eq!(values, [3.0, 2000.0]);
    let fault = PluginFault::default();
    let Make::Queue(make) = plugin.make() else { panic!("no queue") };
    let mut queue = make(&values, &QueueContext::new(Rate::from_mbit(10), 1), fault.clone());
    // two are below the threshold when they come; the third finds 3028 B and is marked, a fourth that cannot be is dropped
    for (seq, ecn) in [(0, Ecn::Ect0), (1, Ecn::NotEct), (2, Ecn::Ect0), (3, Ecn::NotEct)] {
        queue.enqueue(full(seq, ecn), Instant(seq), &mut ());
    }
    assert_eq!((queue.packets(), queue.bytes()), (3, 3 * 1514));
    let mut left = || match queue.dequeue(Instant(9), &mut ()) {
        Dequeue::Packet(packet) => Some((packet.number(), packet.ecn(), packet.enqueue_time)),
        _ => None,
    };
    assert_eq!(left(), Some((2, Ecn::Ce, Instant(2))));
    assert_eq!(left(), Some((1, Ecn::NotEct, Instant(1))));
    assert_eq!(left(), Some((0, Ecn::Ect0, Instant(0))));
    assert_eq!((left(), fault.message()), (None, None));
}

fn config(aqm: &str, cc: &str) -> Value {
    json!({"duration": 3_000_000_000_u64, "bottleneck": {"rate": 20_000_000, "aqm": {"name": aqm}},
        "flows": [{"cc": {"name": cc}, "base_rtt": 20_000_000, "count": 2}]})
}

#[test]
fn plugins_run_with_registered_algorithms_and_stand_in_tables_by_name() {
    let (queue, control) = (example("lifo"), example("aimd"));
    let mut extensions = Extensions::default();
    queue.add_to(&mut extensions, "lifo");
    control.add_to(&mut extensions, "aimd");
    let config = config("lifo", "aimd");
    let run = || Sim::builder(&config).extensions(extensions.clone()).build().expect("a configuration").finish().expect("a run");
    let (first, second) = (run(), run());
    assert_eq!(first.hash, second.hash);
    assert!(format!("{:?}", first.tables.flows).contains("aimd"));
    assert!(first.summary["goodput_total_mbit"].as_f64().is_some_and(|mbit| mbit > 10.0), "{}", first.summary);
}

#[test]
fn aimd_of_one_and_a_half_does_what_reno_does() {
    // the same law, counted in fractions instead of whole ACKs: the same goodput and drops, within a few percent
    let plugin = example("aimd");
    let mut extensions = Extensions::default();
    plugin.add_to(&mut extensions, "aimd");
    let run = |cc: &str| {
        let config = config("codel", cc);
        let sim = Sim::builder(&config).extensions(extensions.clone()).build().expect("a configuration");
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
    for name in ["lifo", "aimd", "window", "by-delay"] {
        let plugin = example(name);
        let watch = trial::TrialProgress::default();
        let tried = trial::try_out(&plugin, 7, 20, 6, &watch, simulate).unwrap_or_else(|what| panic!("{name}: {what}"));
        assert_eq!(tried.sequences, if matches!(plugin.make(), Make::Queue(_)) { 20 } else { 0 });
        assert_eq!(watch.count_done(), u64::from(tried.sequences + tried.runs));
        assert!(watch.current_step().starts_with("run 5 of seed 7; its configuration: {") && watch.simulated_time() > 0);
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
        ("version", "{DUMBBELL_ABI, 2", "{7, 2", "it has version 7 of the interface; this dumbbell has 5, and reads 1 to 5"),
        ("nothing", "return &plugin", "(void)plugin; return 0", "dumbbell_describe() returned NULL"),
        (
            "neither",
            "params, &queue, NULL, NULL};",
            "params, NULL, NULL, NULL};\nconst void *unused = &queue;",
            "queue, control, stack and media are NULL; allowed: one of them",
        ),
        ("missing", ".dequeue = dequeue", ".timer = (void (*)(void *, dumbbell_host *, uint64_t))dequeue", "dequeue() is NULL"),
        ("symbol", "dumbbell_describe(void) {", "describe(void); const dumbbell_plugin *describe(void) {", "it exports no"),
        ("taken", "\"lifo\"", "\"codel\"", "name \"codel\" is that of a registered algorithm"),
        ("range", "1000, 1, 1e6", "1000, 2000, 1e6", "parameter limit: kind 1, 1000 from 2000 to 1000000"),
    ];
    for (name, from, to, expected) in cases {
        let text = said(change_example(name, from, to));
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
        let plugin = Plugin::load(change_example(name, from, to)).expect("a plugin");
        let text = trial::try_out(&plugin, 1, 20, 0, &trial::TrialProgress::default(), simulate).expect_err("a mistake");
        assert!(text.contains("queue lifo: ") && text.contains(expected) && !text.contains('\n'), "{name}: {text}");
        // and a run ends with it, too
        let mut extensions = Extensions::default();
        plugin.add_to(&mut extensions, "lifo");
        let config = config("lifo", "reno");
        let run = Sim::builder(&config).extensions(extensions).build().expect("a configuration").finish().map(drop);
        assert!(matches!(run, Err(RunError::Plugin(what)) if what.contains(expected)), "{name}");
    }
}

#[test]
fn plugins_of_older_versions_are_loaded_and_nothing_behind_their_end_is_read() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let aimd = include_str!("../examples/aimd.c");
    let run = |plugin: &Plugin| {
        let mut extensions = Extensions::default();
        plugin.add_to(&mut extensions, "aimd");
        let config = config("codel", "aimd");
        Sim::builder(&config).extensions(extensions).build().expect("a configuration").finish().expect("a run").hash
    };
    let now = run(&example("aimd"));
    for version in [1, 2, 3] {
        // what is there instead of `model`, and of `media`, is none
        let model = ("void (*model)(const void *self, const dumbbell_conn *, dumbbell_model *);", "const char *behind;");
        let media = ("const dumbbell_media *media;", "const char *behind;");
        let (from, to) = if version == 3 { media } else { model };
        let old = dumbbell_plugin::HEADER
            .replace("#define DUMBBELL_ABI 5u", &format!("#define DUMBBELL_ABI {version}u"))
            .replace(from, to);
        assert!(old.contains(to));
        std::fs::write(folder.join(format!("dumbbell-{version}.h")), old).expect("a folder to write to");
        let source = aimd.replace("\"dumbbell.h\"", &format!("\"dumbbell-{version}.h\""));
        let source = if version == 3 {
            source.replace("&control, NULL};", "&control, NULL, \"not yours\"};")
        } else {
            source.replace(".ssthresh = ssthresh", ".behind = \"not yours\", .ssthresh = ssthresh")
        };
        assert!(source.contains("not yours"));
        let path = folder.join(format!("aimd-{version}.c"));
        std::fs::write(&path, source).expect("a folder to write to");
        let plugin = Plugin::load(compile_library(&format!("aimd-{version}"), &path)).expect("a plugin");
        let Make::Control(make) = plugin.make() else { panic!("no control") };
        let control = make(&[1.0, 0.5], &CcContext::default(), PluginFault::default());
        assert_eq!(control.0.model(&conn()), None);
        assert_eq!(run(&plugin), now, "{version}");
    }
}

#[test]
fn the_header_says_the_version() {
    assert!(dumbbell_plugin::HEADER.contains(&format!("#define DUMBBELL_ABI {}u", abi::ABI)));
}

/// A run of 20 s over 10 Mbit/s with the example `window`, and the further keys of `flow`.
fn with_window(plugin: &Plugin, flow: &Value, others: &[Value]) -> Result<dumbbell_sim::Outcome, RunError> {
    let mut extensions = Extensions::default();
    plugin.add_to(&mut extensions, "window");
    let mut own = json!({"cc": {"name": "window"}, "base_rtt": 20_000_000});
    own.as_object_mut().expect("a table").extend(flow.as_object().expect("a table").clone());
    let flows: Vec<&Value> = std::iter::once(&own).chain(others).collect();
    let config = json!({"duration": 20_000_000_000_u64, "flows": flows,
        "bottleneck": {"rate": 10_000_000, "aqm": {"name": "pfifo", "limit": 50}}});
    Sim::builder(&config).extensions(extensions).build().expect("a configuration").finish()
}

fn column(outcome: &dumbbell_sim::Outcome, name: &str) -> Vec<f64> {
    let flows = &outcome.tables.flows;
    let (_, column) = flows.columns.iter().find(|(found, _)| found == name).expect("a column");
    match column {
        dumbbell_sim::table::Column::F64(values) => values.clone(),
        dumbbell_sim::table::Column::U64(values) => values.iter().map(|&value| value as f64).collect(),
        dumbbell_sim::table::Column::Text(_) => panic!("{name} is text"),
    }
}

#[test]
fn a_transport_in_c_fills_a_link_and_shares_it_with_tcp() {
    let plugin = example("window");
    let run = |flow, others: &[Value]| with_window(&plugin, &flow, others).expect("a run");
    let alone = run(json!({}), &[]);
    assert_eq!(alone.hash, run(json!({}), &[]).hash);
    // 1200 of 1258 B of a frame are payload: 9.54 Mbit/s at the most, less what is sent again from a missing packet on
    let goodput = column(&alone, "goodput_mbit")[0];
    assert!((6.5..9.54).contains(&goodput), "{goodput}");
    let (lost, waited) = (column(&alone, "retransmissions")[0], column(&alone, "rtt_p50_ms")[0]);
    assert!(lost > 0.0 && waited > 20.0, "{lost} lost, {waited} ms");
    let beside = run(json!({}), &[json!({"cc": {"name": "reno"}, "base_rtt": 20_000_000})]);
    let shares = column(&beside, "goodput_mbit");
    assert!(shares.iter().all(|&share| share > 1.0) && shares.iter().sum::<f64>() > 7.0, "{shares:?}");
    // ten packets at once, 1258 B each: 10 ms in the queue for the last; a control that never halves keeps them
    let fixed = run(json!({"cc": {"name": "window", "control": "fixed", "initial": 10}}), &[]);
    let (rtt, window) = (column(&fixed, "rtt_max_ms")[0], column(&fixed, "cwnd_max")[0]);
    assert!(window == 8.0 && (20.0..31.0).contains(&rtt), "{rtt} ms, {window}");
}

#[test]
fn a_transport_ends_when_everything_has_arrived_and_writes_as_fast_as_its_application() {
    let plugin = example("window");
    let small = with_window(&plugin, &json!({"size": 120_000}), &[]).expect("a run");
    // 100 packets from a window of 10: 100 * 1.006 ms, and some round trips
    let completion = column(&small, "completion_s")[0];
    assert!((0.11..0.4).contains(&completion), "{completion} s");
    let slow = with_window(&plugin, &json!({"app_rate": 2_000_000}), &[]).expect("a run");
    assert!((column(&slow, "goodput_mbit")[0] - 2.0).abs() < 0.02, "{:?}", column(&slow, "goodput_mbit"));
    assert!(column(&slow, "rtt_max_ms")[0] < 23.0);
    let paused = json!({"duration": 1_000_000_000, "bottleneck": {"rate": 1_000_000, "aqm": {"name": "pfifo"}},
        "flows": [{"cc": {"name": "window"}, "app_pause": 5}]});
    let refused = Sim::builder(&paused);
    let mut extensions = Extensions::default();
    plugin.add_to(&mut extensions, "window");
    let error = refused.extensions(extensions).build().err().expect("it is refused").to_string();
    assert_eq!(error, "flows[0].app_pause: found a value, allowed: none with a stack");
    let web = json!({"duration": 1_000_000_000, "bottleneck": {"aqm": {"name": "pfifo"}}, "web": [{"cc": {"name": "window"}}]});
    let mut again = Extensions::default();
    plugin.add_to(&mut again, "window");
    let short = Sim::builder(&web).extensions(again).build().err().expect("it is refused").to_string();
    assert_eq!(
        short,
        "web[0].cc.plugin: found a stack, allowed: a congestion control: only [[flows]] and [[app]] may be a stack's"
    );
}

#[test]
fn answers_of_a_transport_wait_in_queues_as_packets() {
    let plugin = example("window");
    let mut extensions = Extensions::default();
    plugin.add_to(&mut extensions, "window");
    // 16 B of answer are a frame of 60 B or less: 58 B on a link of 100 kbit/s take 4.6 ms, one for each packet of 1258 B
    let config = json!({"duration": 20_000_000_000_u64, "bottleneck": {"rate": 10_000_000, "aqm": {"name": "pfifo"}},
        "reverse": {"rate": 100_000, "aqm": {"name": "pfifo"}},
        "flows": [{"cc": {"name": "window"}, "base_rtt": 20_000_000}]});
    let outcome = Sim::builder(&config).extensions(extensions).build().expect("a configuration").finish().expect("a run");
    let goodput = column(&outcome, "goodput_mbit")[0];
    assert!(
        (1.9..2.2).contains(&goodput),
        "{goodput}: 1200 B every 4.64 ms are 2.07 Mbit/s, and an answer that is dropped says no less"
    );
}

#[test]
fn a_transport_that_misbehaves_ends_its_run_with_one_line() {
    let window = window();
    for (name, from, to, expected) in [
        (
            "past",
            "? ((const state *)at)->rto_at : NEVER",
            "? 1 : NEVER",
            "stack window: timer() was called 20000 times in a row, and at",
        ),
        ("restless", "now + 300000000 + 2 * self->srtt", "now", "stack window: timer() was called 20000 times in a row, and at"),
        (
            "idle",
            "? ((const state *)at)->rto_at : NEVER; }\nstatic void timer(void *at, dumbbell_wire *wire, uint32_t side, uint64_t now) {\n  (void)side;\n  again(at, wire, now);",
            "? (at ? 1 : 2) : NEVER; }\nstatic void timer(void *at, dumbbell_wire *wire, uint32_t side, uint64_t now) {\n  (void)side, (void)at, (void)wire, (void)now;",
            "stack window: timer() was called 1000 times in a row, and at",
        ),
        (
            "long",
            "length + 16, DUMBBELL_NOT_ECT",
            "70000, DUMBBELL_NOT_ECT",
            "stack window: it sent 70000 bytes with codepoint 0; allowed: 1 to 1472 bytes",
        ),
        ("null", "if (!self) return NULL;", "if (self) return NULL;", "stack window: create() returned NULL"),
    ] {
        let changed = window.replace(from, to);
        assert_ne!(changed, window, "{name}");
        let source = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("window-{name}.c"));
        std::fs::write(&source, changed).expect("a folder to write to");
        let plugin = Plugin::load(compile_library(&format!("window-{name}"), &source)).expect("a plugin");
        let found = with_window(&plugin, &json!({}), &[]).map(drop);
        assert!(matches!(&found, Err(RunError::Plugin(what)) if what.starts_with(expected)), "{name}: {found:?}");
    }
}

#[test]
fn each_connection_of_a_transport_has_a_seed_of_its_own() {
    // refuses a seed that it has had
    let source = window().replace(
        "if (!self) return NULL;",
        "if (!self) return NULL;\n  static uint64_t last;\n  if (flow->seed == last) return NULL;\n  last = flow->seed;",
    );
    assert!(source.contains("flow->seed == last"));
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("window-seeds.c");
    std::fs::write(&path, source).expect("a folder to write to");
    let plugin = Plugin::load(compile_library("window-seeds", &path)).expect("a plugin");
    let outcome =
        with_window(&plugin, &json!({}), &[json!({"cc": {"name": "window"}, "base_rtt": 20_000_000})]).expect("two seeds");
    assert_eq!(column(&outcome, "goodput_mbit").len(), 2);
}

#[test]
fn a_timer_that_asks_for_now_until_the_clock_goes_on_is_called_a_little_later() {
    // the first timeout, of a base RTT above it, sends again only 3 us after it was due
    let source = window().replace(
        "  again(at, wire, now);\n}\n\nstatic void stats",
        "  if (now >= ((state *)at)->rto_at + 3000) again(at, wire, now);\n}\n\nstatic void stats",
    );
    assert!(source.contains("+ 3000)"));
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("window-late.c");
    std::fs::write(&path, source).expect("a folder to write to");
    let plugin = Plugin::load(compile_library("window-late", &path)).expect("a plugin");
    let outcome = with_window(&plugin, &json!({"base_rtt": 1_000_000_000_u64}), &[]).expect("a run");
    assert!(column(&outcome, "goodput_mbit")[0] > 0.0);
    assert!(column(&outcome, "retransmissions")[0] > 0.0, "the timer went off");
}
