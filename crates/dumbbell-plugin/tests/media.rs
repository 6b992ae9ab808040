//! Congestion controls of video in C, compiled and loaded.

#[path = "../../dumbbell-sim/examples/delay_based.rs"]
mod delay_based;

use dumbbell_plugin::Plugin;
use dumbbell_sim::extensions::Extensions;
use dumbbell_sim::{Outcome, RunError, Sim};
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;

/// The source of the control that `dumbbell plugin new media` makes.
fn template() -> String {
    include_str!("../../../python/dumbbell/experiment/plugins/templates/media.c").replace("@NAME@", "by-delay")
}

/// Compiles `source` and loads it.
fn load(name: &str, source: &str) -> Result<Plugin, String> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (from, to) = (folder.join(format!("media-{name}.c")), folder.join(format!("libmedia-{name}.so")));
    std::fs::write(&from, source).expect("a folder to write to");
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let flags = ["-std=c11", "-w", "-O1", "-shared", "-fPIC", "-I", include];
    let done = Command::new("cc").args(flags).arg(from).arg("-o").arg(&to).status().expect("a C compiler");
    assert!(done.success(), "{name} does not compile");
    Plugin::load(to).map_err(|error| error.to_string())
}

/// The run of the example in Rust with the control of `plugin`, whose target is `target_ms`.
fn run(plugin: &Plugin, target_ms: u64) -> Result<Outcome, RunError> {
    let mut extensions = Extensions::default();
    plugin.add_to(&mut extensions, "by-delay");
    let control = json!({"name": "by-delay", "target": target_ms * 1_000_000});
    let config = json!({
        "duration": 60_000_000_000_u64, "record": {"from": 20_000_000_000_u64},
        "bottleneck": {"rate": 1_000_000, "aqm": {"name": "pfifo", "limit": 100}},
        "app": [{"kind": {"name": "video", "source": "statistical", "control": control}, "base_rtt": 40_000_000}],
    });
    Sim::builder(&config).extensions(extensions).build().expect("a configuration").finish()
}

/// The template with functions that are optional, and `timer` 40 ms after the last packet that was sent.
fn with_window() -> String {
    let functions = r#"
static uint64_t asked;
static int started;
static void start(void *this, uint64_t now) { started = 1; }
static void packet_sent(void *this, const dumbbell_media_packet *packet) {
  if (packet->arrived == -1 && packet->bytes > 0) asked = packet->sent + 40000000;
}
static dumbbell_flag may_send(const void *this, uint32_t bytes) { return started && bytes <= 1000; }
static uint64_t timer_at(const void *this) { return asked ? asked : UINT64_MAX; }
static void timer(void *this, uint64_t now) { asked = now + 40000000; }
"#;
    let media =
        ".start = start, .packet_sent = packet_sent, .may_send = may_send, .timer_at = timer_at, .timer = timer, .feedback";
    let (before, after) =
        template().split_once("static const dumbbell_param").map(|(a, b)| (a.to_owned(), b.to_owned())).expect("params");
    format!("{before}{functions}static const dumbbell_param{}", after.replace(".feedback", media))
}

#[test]
fn the_rule_in_c_gives_the_run_of_the_rule_in_rust() {
    let plugin = load("same", &template()).expect("a plugin");
    assert_eq!(plugin.to_json()["kind"], "media");
    let (in_c, in_rust) = (run(&plugin, 20).expect("a run"), delay_based::run().expect("a run"));
    assert_eq!(in_c.hash, in_rust.hash);
    // the parameter counts: with a target of 200 ms the video waits longer
    let delay = |outcome: &Outcome| outcome.tables.apps.real("frame_delay_mean_ms").expect("a column")[0];
    let patient = run(&plugin, 200).expect("a run");
    assert!(delay(&patient) > 1.5 * delay(&in_c), "{} and {} ms", delay(&patient), delay(&in_c));
}

#[test]
fn functions_that_are_optional_are_called() {
    let with = run(&load("window", &with_window()).expect("a plugin"), 20).expect("a run");
    assert_eq!(with.hash, run(&load("plain", &template()).expect("a plugin"), 20).expect("a run").hash);
    // a window that lets nothing go: no frame is shown
    let source = with_window().replace("return started && bytes <= 1000;", "return 0;");
    let none = run(&load("closed", &source).expect("a plugin"), 20).expect("a run");
    assert_eq!(none.tables.apps.real("loss_share").expect("a column").len(), 1);
    assert_ne!(none.hash, with.hash);
}

#[test]
fn what_is_no_control_of_video_is_said_in_a_line() {
    let cases = [
        (".feedback = feedback", ".start = (void (*)(void *, uint64_t))feedback", "feedback() is NULL; allowed: a function"),
        (".interval = 50000000", ".interval = 5", "interval 5; allowed: 1000000 to 60000000000, ns"),
        (".feedback", ".timer = (void (*)(void *, uint64_t))feedback, .feedback", "one of timer() and timer_at() is NULL"),
    ];
    for (number, (from, to, expected)) in cases.into_iter().enumerate() {
        let changed = template().replace(from, to);
        assert_ne!(changed, template());
        let said = load(&format!("wrong-{number}"), &changed).err().expect("an error");
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn a_control_that_misbehaves_ends_its_run_with_one_line() {
    let cases = [
        (
            "null",
            template().replace("if (self) *self", "if (!self) *self").replace("return self;", "return NULL;"),
            "create() returned NULL",
        ),
        (
            "slow",
            template().replace("return (uint64_t)(1.5 *", "return (uint64_t)(0 *"),
            "pacing_rate() returned 0; allowed: 1000 to",
        ),
        ("late", with_window().replace("asked = now + 40000000;", "asked = now;"), "timer_at() is"),
    ];
    for (name, source, expected) in cases {
        assert!(source != template() && source != with_window(), "{name}");
        let found = run(&load(name, &source).expect("a plugin"), 20).map(drop);
        let expected = format!("media by-delay: {expected}");
        assert!(matches!(&found, Err(RunError::Plugin(what)) if what.starts_with(&expected)), "{name}: {found:?}");
    }
}
