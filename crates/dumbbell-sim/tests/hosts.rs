//! What the hosts do by default is declared once, and is the same wherever it is read.

use dumbbell_core::tcp::host::{self, HostParams};
use dumbbell_sim::config::RunConfig;
use dumbbell_sim::registry;
use serde_json::{json, Map, Value};

/// The hosts of a run with `hosts`; without that section if there is none.
fn hosts_of(hosts: Option<Value>) -> HostParams {
    let mut config = json!({"bottleneck": {"aqm": {"name": "pfifo"}}, "flows": [{"cc": {"name": "reno"}}]});
    if let Some(hosts) = hosts {
        config["hosts"] = hosts;
    }
    RunConfig::from_json(&config).expect("a valid configuration").hosts
}

/// `HostParams` has no equality: every field is in this.
fn shown(params: &HostParams) -> String {
    format!("{params:?}")
}

#[test]
fn the_registry_describes_the_declaration() {
    let specs: Vec<Value> = HostParams::specs().iter().map(|spec| spec.to_json()).collect();
    assert_eq!(registry()["sections"]["hosts"], json!(specs));
    assert_eq!(registry()["profiles"], host::profiles());
}

#[test]
fn no_table_of_hosts_an_empty_one_and_the_defaults_of_the_registry_are_the_same() {
    let default = shown(&HostParams::default());
    assert_eq!(shown(&hosts_of(None)), default);
    assert_eq!(shown(&hosts_of(Some(json!({})))), default);
    // what a file has that writes every default out
    let specs = registry()["sections"]["hosts"].as_array().expect("a list").clone();
    let written: Map<String, Value> =
        specs.iter().map(|spec| (spec["name"].as_str().expect("a name").to_owned(), spec["default"].clone())).collect();
    assert_eq!(shown(&hosts_of(Some(written.into()))), default);
}

#[test]
fn a_profile_in_a_run_is_what_the_registry_says_of_it() {
    for (name, profile) in registry()["profiles"].as_object().expect("a table") {
        let mut written = profile["hosts"].clone();
        written["profile"] = json!(name);
        assert_eq!(shown(&hosts_of(Some(json!({"profile": name})))), shown(&hosts_of(Some(written))), "{name}");
        // every switch alone overrides the profile
        for key in profile["hosts"].as_object().expect("a table").keys() {
            let specs = HostParams::specs();
            let spec = specs.iter().find(|spec| spec.name == key).expect("a switch");
            let hosts = hosts_of(Some(json!({"profile": name, key: spec.default})));
            let mut others = profile["hosts"].clone();
            others["profile"] = json!(name);
            others[key] = spec.default.clone();
            assert_eq!(shown(&hosts), shown(&hosts_of(Some(others))), "{name} {key}");
            assert_ne!(shown(&hosts), shown(&hosts_of(Some(json!({"profile": name})))), "{name} {key}");
        }
    }
}
