//! Copies of runs with plugins: they go on as the runs do, to the same bits; plugins without `clone` are refused by name.

mod compiled;
#[path = "../../dumbbell-sim/tests/drawn/mod.rs"]
mod drawn;

use compiled::{compile, template};
use drawn::{compare_copies, count_cases, net, rarely, MS};
use dumbbell_core::rng::Rng;
use dumbbell_plugin::{trial, Plugin, HEADER};
use dumbbell_sim::extensions::Extensions;
use dumbbell_sim::Sim;
use serde_json::{json, Value};
use std::sync::OnceLock;

const LIFO: &str = include_str!("../examples/lifo.c");
const AIMD: &str = include_str!("../examples/aimd.c");
const COURIER: &str = include_str!("../examples/courier.c");

/// One plugin of each kind.
fn plugins() -> &'static Extensions {
    static LOADED: OnceLock<Extensions> = OnceLock::new();
    LOADED.get_or_init(|| {
        let mut extensions = Extensions::default();
        let sources = [
            ("lifo", LIFO.to_owned()),
            ("aimd", AIMD.to_owned()),
            ("courier", COURIER.to_owned()),
            ("marks", template("queue", "marks")),
            ("window", template("stack", "window")),
            ("by-delay", template("media", "by-delay")),
        ];
        for (name, source) in sources {
            Plugin::load(compile("copies", name, &source, None)).expect("a plugin").add_to(&mut extensions, name);
        }
        extensions
    })
}

/// The run of a configuration, which may have any of these plugins.
fn build(config: &Value) -> Sim {
    let extensions = plugins().clone();
    Sim::builder(config).extensions(extensions).build().unwrap_or_else(|error| panic!("{error}\n{config}"))
}

/// Draws a plugin of a queue and its parameters.
fn draw_queue(rng: &mut Rng) -> Value {
    if rarely(rng, 2) {
        json!({"name": "lifo", "limit": 1 + rng.draw_below(300)})
    } else {
        json!({"name": "marks", "limit": 1 + rng.draw_below(300), "threshold": rng.draw_below(60_000)})
    }
}

/// Puts plugins into a net, wherever one may be.
fn plug_in(config: &mut Value, rng: &mut Rng) -> u32 {
    let mut count = 0;
    let mut place = |to: &mut Value, plugin: Value| {
        *to = plugin;
        count += 1;
    };
    let hops = config["hop"].as_array().map_or(0, Vec::len);
    for pointer in ["/bottleneck".to_owned(), "/reverse".to_owned()].into_iter().chain((0..hops).map(|hop| format!("/hop/{hop}")))
    {
        let Some(hop) = config.pointer_mut(&pointer) else { continue };
        // a link without a rate needs a queue that has one
        if hop["link"]["name"] != "unshaped" && rarely(rng, 2) {
            place(&mut hop["aqm"], draw_queue(rng));
        }
    }
    for section in ["flows", "web", "app"] {
        for entry in config[section].as_array_mut().into_iter().flatten() {
            let kind = entry["kind"]["name"].as_str().unwrap_or("").to_owned();
            if kind == "video" {
                place(&mut entry["kind"]["control"], json!({"name": "by-delay", "target": (1 + rng.draw_below(40)) * MS}));
            }
            if entry.get("cc").is_none() || rarely(rng, 3) {
                continue;
            }
            let control = match section {
                "flows" if rarely(rng, 2) => json!({"name": "window", "initial": 1 + rng.draw_below(20)}),
                "app" if ["pages", "request"].contains(&kind.as_str()) => json!({"name": "courier"}),
                _ => json!({"name": "aimd", "increase": 0.5 + rng.next_f64()}),
            };
            place(&mut entry["cc"], control);
        }
    }
    count
}

#[test]
fn copies_of_random_nets_with_plugins_go_on_to_the_same_bits() {
    let mut count = 0;
    for number in 0..count_cases() {
        let (mut config, mut rng) = (net(number), Rng::stream(number, "plugins", 0));
        count += plug_in(&mut config, &mut rng);
        compare_copies(&config, &mut rng, build);
    }
    assert!(u64::from(count) > 2 * count_cases(), "{count} plugins");
}

/// A plugin of `source` by the header of version 4, whose structs end before `clone`: what is there instead is none.
fn load_older(name: &str, source: &str, ending: (&str, &str)) -> Plugin {
    let header = HEADER
        .replace("#define DUMBBELL_ABI 5u", "#define DUMBBELL_ABI 4u")
        .replace("void *(*clone)(const void *self);", "const char *behind;");
    let (from, to) = ending;
    assert!(source.contains(from), "{name}");
    let old = source.replace(from, to);
    assert!(old.contains("not yours") && header.contains("ABI 4u"), "{name}");
    Plugin::load(compile("older", name, &old, Some(&header))).expect("a plugin")
}

#[test]
fn plugins_of_version_4_are_loaded_and_runs_with_them_are_not_copied() {
    let base = json!({"duration": 1_000 * MS, "bottleneck": {"rate": 5_000_000, "aqm": {"name": "pfifo"}}});
    let flow = |name: &str| json!([{"cc": {"name": "cubic"}}, {"cc": {"name": name}}]);
    let by_name = (".clone = copy", ".behind = \"not yours\"");
    let cases = [
        ("lifo", LIFO.to_owned(), by_name, "hop bottleneck: the queue discipline lifo"),
        ("aimd", AIMD.to_owned(), by_name, "flow 1: the congestion control aimd"),
        ("window", template("stack", "window"), by_name, "flow 1: the endpoint window"),
        (
            "courier",
            COURIER.to_owned(),
            ("close, lost, copy}", "close, lost, \"not yours\"}"),
            "application 0 (pages): the endpoint courier",
        ),
        ("by-delay", template("media", "by-delay"), by_name, "application 0 (video): its congestion control"),
    ];
    for (name, source, ending, part) in cases {
        let mut config = base.clone();
        match name {
            "lifo" => config["bottleneck"]["aqm"] = json!({"name": "lifo"}),
            "courier" => config["app"] = json!([{"kind": {"name": "pages"}, "cc": {"name": "courier"}}]),
            "by-delay" => config["app"] = json!([{"kind": {"name": "video", "control": {"name": "by-delay"}}}]),
            _ => {}
        }
        config["flows"] = flow(if ["aimd", "window"].contains(&name) { name } else { "reno" });
        let mut extensions = Extensions::default();
        load_older(name, &source, ending).add_to(&mut extensions, name);
        let mut sim = Sim::builder(&config).extensions(extensions).build().expect("a configuration");
        sim.step(dumbbell_core::units::Instant(300 * MS)).expect("a step");
        let refusal = sim.fork().err().expect("a refusal").to_string();
        let reason = "cannot be copied: its library has no clone(), which version 5 of dumbbell.h has";
        assert!(refusal.starts_with(part) && refusal.ends_with(reason), "{refusal}");
        // and what it measures is that of the plugin of today
        let hash = sim.finish().expect("it goes on all the same").hash;
        assert_eq!(hash, build(&config).finish().expect("a run").hash, "{name}");
    }
}

#[test]
fn a_copy_that_shares_what_the_instance_changes_does_not_stand_the_trial() {
    // the instance itself instead of a copy of it, and never given back
    let shared = AIMD.replace("if (made) *made = *(const aimd *)this;\n  return made;", "free(made);\n  return (void *)this;");
    let shared = shared
        .replace(".destroy = free", ".destroy = forget")
        .replace("static void *copy", "static void forget(void *this) {}\nstatic void *copy");
    let refused = AIMD.replace("if (made) *made = *(const aimd *)this;\n  return made;", "free(made);\n  return NULL;");
    let [shared, refused] = [("shared", shared), ("refused", refused)]
        .map(|(name, source)| Plugin::load(compile("copies", name, &source, None)).expect("a plugin"));
    let watch = trial::TrialProgress::default();
    let found = trial::try_out(&shared, 7, 0, 6, &watch, compiled::simulate).expect_err("a copy that is none");
    assert!(found.contains("the same run gave another result by a copy that was made on the way"), "{found}");
    let refusal = trial::try_out(&refused, 7, 0, 1, &watch, compiled::simulate).expect_err("no copy");
    assert!(refusal.contains("the congestion control aimd cannot be copied: clone() returned NULL"), "{refusal}");
}
