//! Applications over a stack in C that has streams, on links where every time follows from rate, sizes and delays.

mod compiled;

use compiled::{compile, simulate};
use dumbbell_plugin::{trial, Make, Plugin, HEADER};
use dumbbell_sim::extensions::Extensions;
use dumbbell_sim::{Outcome, Sim};
use serde_json::{json, Value};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::OnceLock;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const COURIER: &str = include_str!("../examples/courier.c");

fn courier() -> &'static Plugin {
    static LOADED: OnceLock<Plugin> = OnceLock::new();
    LOADED.get_or_init(|| Plugin::load(compile("streams", "courier", COURIER, None)).expect("a plugin"))
}

fn build(config: &Value, plugin: &Plugin) -> Result<Sim, String> {
    let mut extensions = Extensions::default();
    plugin.add_to(&mut extensions, plugin.name());
    Sim::builder(config).extensions(extensions).build().map_err(|error| error.to_string())
}

fn run(config: &Value) -> Outcome {
    let sim = build(config, courier()).unwrap_or_else(|error| panic!("{error}: {config}"));
    // it checks the conservation of packets at its end
    sim.finish().unwrap_or_else(|error| panic!("{error}: {config}"))
}

/// A user of `kind` over a FIFO of 8 Mbit/s down, 1 us a byte, at a base RTT of 20 ms; up there is no link.
fn user(kind: Value, seconds: u64) -> Value {
    json!({
        "duration": seconds * SECOND, "bottleneck": {"rate": 8_000_000, "aqm": {"name": "pfifo"}},
        "app": [{"kind": kind, "cc": {"name": "courier"}, "base_rtt": 20 * MS}],
    })
}

/// Load times in order, us.
fn loads_us(outcome: &Outcome) -> Vec<u64> {
    let times = outcome.tables.app_loads.real("load_s").expect("a column");
    times.iter().map(|time| (time * 1e6).round() as u64).collect()
}

fn count(outcome: &Outcome, column: &str) -> u64 {
    outcome.tables.apps.int(column).expect("a column")[0]
}

/// A datagram of 1472 B carries 1452 B and takes 1514 B. 10,000 B are six of them and one of 1288 B, which takes 1350 B: 6 * 1514 + 1350.
const WIRE_OF_10_KB: u64 = 10_434;
/// 1000 B with the header of the courier and those of UDP, IP and Ethernet.
const WIRE_OF_1_KB: u64 = 1_062;
/// A round trip and the server's hello of 200 B, a frame of 242 B. The client's goes up, where there is no link.
const HANDSHAKE: u64 = 20_242;

#[test]
fn a_page_takes_a_handshake_a_round_trip_and_its_time_on_the_wire() {
    let kind = json!({"name": "pages", "objects": 1, "size": {"fixed": 10_000}, "connections": 1});
    let outcome = run(&user(kind.clone(), 2));
    let loads = loads_us(&outcome);
    assert_eq!((loads[0], &loads[1..4]), (HANDSHAKE + 20_000 + WIRE_OF_10_KB, &[20_000 + WIRE_OF_10_KB; 3][..]));
    // 2 s hold the first and (2,000,000 - 50,676) / 30,434 = 64.05 others, of seven datagrams each; the 66th is on its way
    assert_eq!((count(&outcome, "loads"), count(&outcome, "loads_begun")), (65, 66));
    assert_eq!((count(&outcome, "sent"), count(&outcome, "retransmissions")), (1 + 65 * 7, 0));
    let payload = outcome.tables.apps.real("goodput_mbit").expect("a column")[0] * 2e6 / 8.0;
    assert!((payload - 650_000.0).abs() < 0.5, "{payload}");
    // up at 8 us a byte, the hello of 142 B takes 1136 us, and a request of 400 + 20 + 42 = 462 B 3696
    let mut config = user(kind, 2);
    config["reverse"] = json!({"rate": 1_000_000, "aqm": {"name": "pfifo"}});
    let up = loads_us(&run(&config));
    let second = 20_000 + 3_696 + WIRE_OF_10_KB;
    assert_eq!(up[..3], [HANDSHAKE + 1_136 + second, second, second]);
}

#[test]
fn objects_of_a_page_are_streams_of_one_connection_or_wait_for_each_other() {
    let page = |connections: u64, multiplexed: bool| {
        let kind = json!({"name": "pages", "objects": 4, "size": {"fixed": 1_000}, "connections": connections, "multiplexed": multiplexed});
        loads_us(&run(&user(kind, 2)))
    };
    // the page itself, and three objects at once
    assert_eq!(page(1, true)[1], 40_000 + 4 * WIRE_OF_1_KB);
    // and one after the other
    assert_eq!(page(1, false)[1], 4 * (20_000 + WIRE_OF_1_KB));
    // over three connections the second and the third shake hands in the first page, behind which their objects come
    let three = page(3, false);
    assert_eq!(three[1], 40_000 + 4 * WIRE_OF_1_KB);
    // The first page: when it is there itself, a request and two hellos leave at once. An object and two hellos of 242 us each come back, the first of which lets the
    // second connection request its object. The third object waits for the one of the second connection, 1062 us, and not for the hello of its own, 242 us
    let rest = 20_000 + WIRE_OF_1_KB + 242 + 20_000 + 2 * WIRE_OF_1_KB;
    assert_eq!(three[0], HANDSHAKE + 20_000 + WIRE_OF_1_KB + rest);
}

#[test]
fn a_connection_for_each_request_is_closed_and_its_place_used_again() {
    let kind = json!({"name": "request", "size": {"fixed": 10_000}, "fresh": true});
    let outcome = run(&user(kind.clone(), 2));
    let loads = loads_us(&outcome);
    assert!(loads.len() == 39 && loads.iter().all(|&time| time == HANDSHAKE + 20_000 + WIRE_OF_10_KB), "{loads:?}");
    // a hello and seven datagrams each; of the 40th, which began at 1,976,364 us, the hello has left
    assert_eq!(count(&outcome, "sent"), 39 * 8 + 1);
    let mut half = user(kind, 2);
    half["record"] = json!({"from": SECOND});
    assert_eq!(count(&run(&half), "loads"), 19);
    assert_eq!(run(&half).hash, run(&half).hash);
}

#[test]
fn a_burst_of_files_has_a_connection_for_each() {
    let kind = json!({"name": "onoff", "connections": 2, "smallest": 10_000, "largest": 10_000, "idle": 200 * MS});
    // both hellos come back at once, the requests 242 us apart, and the files one behind the other
    let loads = loads_us(&run(&user(kind.clone(), 10)));
    assert!(loads.len() > 20 && loads.iter().all(|&time| time == HANDSHAKE + 20_000 + 2 * WIRE_OF_10_KB), "{loads:?}");
    let mut persistent = kind;
    persistent["persistent"] = json!(true);
    let later = loads_us(&run(&user(persistent, 10)));
    assert!(later.len() > 20 && later[1..].iter().all(|&time| time == 20_000 + 2 * WIRE_OF_10_KB), "{later:?}");
}

#[test]
fn what_lasts_as_long_as_the_connection_goes_over_one_stream() {
    // pieces of 10,000 B at 4 Mbit/s come every 20 ms, the last of five at 80 ms
    let kind = json!({"name": "backup", "rate": 4_000_000, "piece": 10_000, "size": 50_000});
    assert_eq!(loads_us(&run(&user(kind.clone(), 2))), [80_000 + 10_000 + WIRE_OF_10_KB]);
    // up as well, where the server is the one who is far from the link
    let mut config = user(kind, 2);
    config["reverse"] = json!({"rate": 8_000_000, "aqm": {"name": "pfifo"}});
    config["app"][0]["direction"] = json!("up");
    assert_eq!(loads_us(&run(&config)), [80_000 + 10_000 + WIRE_OF_10_KB]);
    // 100 ms of 0.3 Mbit/s are 3750 B: two datagrams of 1452 B and one of 846 B, 2 * 1514 + 908 = 3936 B
    let dash = json!({"name": "dash", "segment": 100 * MS, "level": 0, "buffer": 300 * MS});
    assert_eq!(loads_us(&run(&user(dash, 2)))[..3], [HANDSHAKE + 23_936, 23_936, 23_936]);
}

#[test]
fn pages_over_several_hops_and_stages_give_equal_bits_for_equal_seeds() {
    let mut config = user(json!({"name": "pages", "think": 10 * MS, "objects": 20}), 5);
    config["reverse"] = json!({"rate": 2_000_000, "aqm": {"name": "pfifo"}});
    config["app"][0]["path"] = json!([{"name": "jitter", "max": 2 * MS}]);
    config["app"][0]["ack_path"] = json!([{"name": "jitter", "max": 2 * MS}]);
    config["app"][0]["count"] = json!(2);
    config["udp"] = json!([{"rate": 2_000_000}]);
    let (one, other) = (run(&config), run(&config));
    assert!(one.hash == other.hash && count(&one, "loads") > 3, "{:?}", one.tables.apps);
    config["seed"] = json!(2);
    assert_ne!(run(&config).hash, one.hash);
}

#[test]
fn a_stack_that_reads_what_nobody_wrote_ends_the_run() {
    let source =
        COURIER.replace("(piece){stream, length - HEADER};", "(piece){stream, length};").replace("\"courier\"", "\"forger\"");
    assert!(source.contains("{stream, length}"));
    let forger = Plugin::load(compile("streams", "forger", &source, None)).expect("a plugin");
    let mut config = user(json!({"name": "pages", "objects": 1, "size": {"fixed": 10_000}}), 1);
    config["app"][0]["cc"] = json!({"name": "forger"});
    let error = build(&config, &forger).expect("a configuration").finish().expect_err("an error").to_string();
    let part = "stack forger: stream_read() of side 1 is 420 bytes of stream 0; allowed: up to 400, which were written";
    assert!(error.contains(part), "{error}");
}

#[test]
fn the_courier_stands_the_trial_of_plugins() {
    let simulate_pages = |config: &Value, extensions: Extensions, is_copied: bool, simulated: &AtomicU64| {
        assert_eq!(config["app"][0]["kind"]["name"], json!("pages"));
        simulate(config, extensions, is_copied, simulated)
    };
    let tried = trial::try_out(courier(), 7, 0, 4, &trial::TrialProgress::default(), simulate_pages).expect("a trial");
    assert_eq!(tried.runs, 4);
}

#[test]
fn what_cannot_be_carried_is_refused_by_name() {
    let refused = |config: &Value, plugin: &Plugin| build(config, plugin).err().expect("an error");
    let pages = || user(json!({"name": "pages"}), 1);
    let with = |key: &str, value: Value| {
        let mut config = pages();
        config["app"][0][key] = value;
        config
    };
    for (config, part) in [
        (with("kind", json!({"name": "responsiveness"})), "app[0].kind: found responsiveness, which fills its connections"),
        (with("kind", json!({"name": "call"})), "app[0].cc: found a value, allowed: none: call sends datagrams"),
        (with("ecn_echo", json!("dctcp")), "app[0].ecn_echo: found a value, allowed: none with a stack"),
        (with("cc", json!({"name": "courier", "control": "reno"})), "app[0].cc.control: found \"reno\", allowed: none"),
    ] {
        let text = refused(&config, courier());
        assert!(text.contains(part), "{text}");
    }
    // a library of before: what is behind its end is not read
    let header = HEADER
        .replace("#define DUMBBELL_ABI 5u", "#define DUMBBELL_ABI 3u")
        .replace("void (*stream_write)(void *self, dumbbell_wire *, uint32_t side, uint64_t stream, uint64_t bytes, uint32_t last, uint64_t now);", "const char *behind;");
    let source = COURIER.replace("closed,  stream_write,", "closed, \"not yours\",").replace("\"courier\"", "\"older\"");
    assert!(header.contains("behind") && source.contains("not yours"));
    let older = Plugin::load(compile("streams", "older", &source, Some(&header))).expect("a plugin");
    assert!(matches!(older.make(), Make::Stack { has_streams: false, .. }) && older.to_json()["streams"] == json!(false));
    let text = refused(&with("cc", json!({"name": "older"})), &older);
    let part = "app[0].cc.plugin: found stack older, which has no streams: it lacks stream_write(), stream_read(), close(), lost() of dumbbell.h";
    assert!(text.contains(part), "{text}");
    // all four or none
    let some = COURIER.replace("stream_read, close, ", "stream_read, NULL, ");
    let error = Plugin::load(compile("streams", "some", &some, None)).err().expect("an error").to_string();
    assert_eq!(error, "close() is NULL; allowed: a function");
    assert!(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/courier.c")).exists());
}
