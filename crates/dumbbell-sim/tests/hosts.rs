//! Tests that the defaults of hosts are declared once, and are the same wherever they are read.

use dumbbell_config::extensions::TransportSpec;
use dumbbell_config::RunConfig;
use dumbbell_core::cc::CcSpec;
use dumbbell_core::tcp::host::{self, HostParams};
use dumbbell_measure::table::Column;
use dumbbell_sim::{registry, Sim};
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
fn format_params(params: &HostParams) -> String {
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
    let default = format_params(&HostParams::default());
    assert_eq!(format_params(&hosts_of(None)), default);
    assert_eq!(format_params(&hosts_of(Some(json!({})))), default);
    // what a file has that writes every default out
    let specs = registry()["sections"]["hosts"].as_array().expect("a list").clone();
    let written: Map<String, Value> =
        specs.iter().map(|spec| (spec["name"].as_str().expect("a name").to_owned(), spec["default"].clone())).collect();
    assert_eq!(format_params(&hosts_of(Some(written.into()))), default);
}

#[test]
fn a_profile_in_a_run_is_what_the_registry_says_of_it() {
    for (name, profile) in registry()["profiles"].as_object().expect("a table") {
        let mut written = profile["hosts"].clone();
        written["profile"] = json!(name);
        assert_eq!(format_params(&hosts_of(Some(json!({"profile": name})))), format_params(&hosts_of(Some(written))), "{name}");
        // every switch alone overrides the profile
        for key in profile["hosts"].as_object().expect("a table").keys() {
            let specs = HostParams::specs();
            let spec = specs.iter().find(|spec| spec.name == key).expect("a switch");
            let hosts = hosts_of(Some(json!({"profile": name, key: spec.default})));
            let mut others = profile["hosts"].clone();
            others["profile"] = json!(name);
            others[key] = spec.default.clone();
            assert_eq!(format_params(&hosts), format_params(&hosts_of(Some(others))), "{name} {key}");
            assert_ne!(format_params(&hosts), format_params(&hosts_of(Some(json!({"profile": name})))), "{name} {key}");
        }
    }
}

/// Reads the congestion control of a flow under a profile, without and with short flows, and of the short flows.
fn controls_of(profile: &str, control: &Value) -> [CcSpec; 3] {
    let config = json!({"bottleneck": {"aqm": {"name": "pfifo"}}, "hosts": {"profile": profile},
        "flows": [{"cc": control}, {"cc": control}]});
    let read = |run: &Value| RunConfig::from_json(run).expect("a valid configuration");
    let of_flow = |run: &RunConfig| match &*run.flows[1].transport {
        TransportSpec::Tcp(cc) => cc.clone(),
        TransportSpec::Stack(stack) => panic!("{stack:?}"),
    };
    let mut web = config.clone();
    web["web"] = json!([{"cc": control}]);
    let web = read(&web);
    [of_flow(&read(&config)), of_flow(&web), web.web[0].cc.clone()]
}

#[test]
fn a_profile_sets_parameters_of_congestion_controls() {
    let mut set = 0;
    for (name, profile) in registry()["profiles"].as_object().expect("a table") {
        for spec in registry()["cc"].as_array().expect("a list") {
            let control = spec["name"].as_str().expect("a name");
            let nothing = Map::new();
            let values = profile["cc"][control].as_object().unwrap_or(&nothing);
            let mut written = values.clone();
            written.insert("name".to_owned(), json!(control));
            for found in controls_of(name, &json!({"name": control})) {
                assert_eq!(found, CcSpec::from_json(&written).expect("a congestion control"), "{name} {control}");
            }
            // every parameter alone overrides the profile
            for key in values.keys() {
                set += 1;
                let specs = spec["params"].as_array().expect("a list");
                let default = &specs.iter().find(|one| one["name"] == json!(key)).expect("a parameter")["default"];
                assert_ne!(*default, values[key], "{name} {control} {key}");
                let mut but = written.clone();
                but.insert(key.clone(), default.clone());
                for found in controls_of(name, &json!({"name": control, key: default})) {
                    assert_eq!(found, CcSpec::from_json(&but).expect("a congestion control"), "{name} {control} {key}");
                }
            }
        }
    }
    assert!(set >= 9, "{set}");
}

#[test]
fn a_run_with_a_profile_is_that_of_its_values() {
    let hash = |hosts: Value, control: Value| {
        let config = json!({"duration": 3_000_000_000_u64, "bottleneck": {"rate": 20_000_000, "aqm": {"name": "pfifo"}},
            "hosts": hosts, "flows": [{"cc": control, "base_rtt": 40_000_000}]});
        Sim::new(&config).expect("a run").finish().expect("a result").hash
    };
    let old = hash(json!({"profile": "linux-5.4"}), json!({"name": "cubic"}));
    assert_eq!(old, hash(json!({"profile": "linux-5.4"}), json!({"name": "cubic", "hystart": "5.5"})));
    assert_ne!(old, hash(json!({"profile": "linux-5.4"}), json!({"name": "cubic", "hystart": "5.6"})));
}

#[test]
fn queues_mark_the_acknowledgements_of_a_receiver_that_counts_ce() {
    // 300 kbit/s are too little for the ACKs of 20 Mbit/s: CoDel drops what has no codepoint, and marks the rest
    let run = |cc: &str, echo: &str| {
        let config = json!({"duration": 5_000_000_000_u64, "bottleneck": {"rate": 20_000_000, "aqm": {"name": "fq_codel"}},
            "reverse": {"rate": 300_000, "aqm": {"name": "fq_codel"}}, "hosts": {"ecn": true},
            "flows": [{"cc": {"name": cc}, "base_rtt": 40_000_000, "ecn_echo": echo}]});
        let hops = Sim::new(&config).expect("a configuration").finish().expect("a run").tables.hops;
        let of = |name: &str| match &hops.columns.iter().find(|(found, _)| found == name).expect("a column").1 {
            Column::U64(values) => values[1],
            _ => panic!("{name} is no count"),
        };
        (of("ce_marks"), of("ack_drops"))
    };
    for (cc, echo) in [("cubic", "accecn"), ("reno", "accecn"), ("prague", "auto"), ("dctcp", "auto")] {
        let (marks, drops) = run(cc, echo);
        assert!(marks > 100 && drops == 0, "{cc}: {marks} marks, {drops} drops");
    }
    let (marks, drops) = run("cubic", "classic");
    assert!(marks == 0 && drops > 100, "{marks} marks, {drops} drops");
}
