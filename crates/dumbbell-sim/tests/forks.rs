//! A copy of a run goes on as the run itself does, to the same bits, whenever it is made; what cannot be copied is refused by name.

mod drawn;

use drawn::{bottleneck, compare_copies, count_cases, net, MS};
use dumbbell_core::aqm::{pfifo, Aqm, Dequeue};
use dumbbell_core::cc::conn::{Congestion, Conn};
use dumbbell_core::cc::CongestionControl;
use dumbbell_core::log::Log;
use dumbbell_core::observe::Tap;
use dumbbell_core::packet::Packet;
use dumbbell_core::param::ParamError;
use dumbbell_core::protocol::{Answer, Datagram, DatagramOutlet, Protocol};
use dumbbell_core::rng::Rng;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_sim::Sim;
use serde_json::{json, Map, Value};

fn build(config: &Value) -> Sim {
    Sim::new(config).unwrap_or_else(|error| panic!("{error}\n{config}"))
}

#[test]
fn copies_of_random_nets_go_on_to_the_same_bits() {
    for number in 0..count_cases() {
        compare_copies(&net(number), &mut Rng::stream(number, "forks", 0), build);
    }
}

#[test]
fn copies_of_random_bottlenecks_go_on_to_the_same_bits() {
    for number in 0..count_cases() {
        let config = bottleneck(&mut Rng::stream(number, "forks of bottlenecks", 0));
        compare_copies(&config, &mut Rng::stream(number, "forks", 1), build);
        let at_departure = |given: &Value| Sim::builder(given).delivers_ahead(false).build().expect("a run");
        compare_copies(&config, &mut Rng::stream(number, "forks", 2), at_departure);
    }
}

#[test]
fn copies_of_a_run_in_windows_go_on_to_the_same_bits() {
    let flows = |name| json!({"cc": {"name": name}, "base_rtt": 20 * MS, "count": 6, "start": {"min": 0, "max": 50 * MS}});
    let config = json!({"duration": 700 * MS, "bottleneck": {"rate": 100_000_000, "aqm": {"name": "codel"}},
        "flows": [flows("cubic"), flows("bbr3")]});
    for number in 0..10 {
        let in_windows = |given: &Value| Sim::builder(given).threads(2).always_windows().build().expect("a run");
        compare_copies(&config, &mut Rng::stream(number, "forks", 3), in_windows);
    }
}

#[test]
fn a_program_that_sets_shapers_and_its_probes_share_one_copy_of_what_they_measured() {
    let shaped = |name: &str| json!({"name": name, "rate": 50_000_000, "aqm": {"name": "cake", "bandwidth": 20_000_000}});
    let config = json!({"duration": 4_000 * MS, "bottleneck": {"rate": 50_000_000, "aqm": {"name": "cake", "bandwidth": 20_000_000}},
        "reverse": shaped("reverse"), "record": {"interval": 100 * MS},
        "flows": [{"cc": {"name": "cubic"}, "base_rtt": 20 * MS}],
        "app": [{"kind": {"name": "autorate"}, "base_rtt": 20 * MS}]});
    for number in 0..5 {
        compare_copies(&config, &mut Rng::stream(number, "forks", 4), build);
    }
}

/// A control of a program with a window of its own; `COPIED` says whether it can be copied.
#[derive(Clone)]
struct Own<const COPIED: bool> {
    window: u32,
}

impl<const COPIED: bool> CongestionControl for Own<COPIED> {
    fn ssthresh(&mut self, conn: &Conn, _cause: Congestion) -> u32 {
        self.window += 1;
        conn.cwnd / 2
    }

    fn cong_avoid(&mut self, conn: &mut Conn, _acked: u32) {
        conn.cwnd = self.window;
    }

    fn fork(
        &self,
        _shared: &mut dumbbell_core::fork::SharedCopies,
    ) -> Result<Box<dyn CongestionControl + Send>, dumbbell_sim::CannotFork> {
        if COPIED {
            Ok(Box::new(self.clone()))
        } else {
            Err(dumbbell_sim::CannotFork::because("it holds a socket"))
        }
    }
}

/// A queue of a program that does not say how it is copied.
struct Plain(pfifo::State);

impl Aqm for Plain {
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        self.0.enqueue(packet, now, log);
    }

    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        self.0.dequeue(now, log)
    }

    fn packets(&self) -> usize {
        self.0.packets()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}

/// An endpoint of a program that does not say how it is copied.
struct Silent;

impl Protocol for Silent {
    fn start(&mut self, _now: Instant) {}
    fn stop(&mut self, _now: Instant) {}
    fn next_timer(&self) -> Instant {
        Instant::NEVER
    }
    fn on_timer(&mut self, _now: Instant, _net: &mut dyn DatagramOutlet) {}
    fn on_datagram(&mut self, _datagram: &Datagram, _now: Instant) -> Option<Answer> {
        None
    }
    fn on_answer(&mut self, _answer: &Answer, _rtt: Duration, _now: Instant) {}
}

/// Listens to nothing, and cannot be copied.
struct Deaf;

impl Log for Deaf {}
impl Tap for Deaf {}

fn no_keys(_: &Map<String, Value>) -> Result<(), ParamError> {
    Ok(())
}

#[test]
fn what_a_program_brings_along_is_copied_or_refused_by_name() {
    let config = |cc: &str, aqm: &str| {
        json!({"duration": 900 * MS, "bottleneck": {"rate": 5_000_000, "aqm": {"name": aqm}},
            "flows": [{"cc": {"name": "cubic"}}, {"cc": {"name": cc}}]})
    };
    let with_controls = |given: &Value| {
        let builder = Sim::builder(given).control("own", no_keys, |(), _| Own::<true> { window: 7 });
        let builder = builder.control("held", no_keys, |(), _| Own::<false> { window: 7 });
        builder
            .aqm("plain", no_keys, |(), context| Plain(pfifo::State::new(pfifo::Params::default(), context)))
            .build()
            .expect("a run")
    };
    compare_copies(&config("own", "codel"), &mut Rng::stream(1, "forks", 5), with_controls);
    let refusal = |sim: Sim| sim.fork().err().expect("a refusal").to_string();
    let of_control = refusal(with_controls(&config("held", "codel")));
    assert_eq!(of_control, "flow 1: the congestion control held cannot be copied: it holds a socket");
    let of_queue = refusal(with_controls(&config("own", "plain")));
    assert_eq!(of_queue, "hop bottleneck: the queue discipline plain cannot be copied");
    let mut with_endpoint = config("cubic", "codel");
    with_endpoint["udp"] = json!([{"protocol": {"name": "silent"}}]);
    let silent = Sim::builder(&with_endpoint).endpoint("silent", no_keys, |(), _| Silent).build().expect("a run");
    assert_eq!(refusal(silent), "flow 2: the endpoint silent cannot be copied");
    let heard = Sim::builder(&config("cubic", "codel")).listener(|_| Deaf).build().expect("a run");
    assert_eq!(refusal(heard), "hop bottleneck: a listener cannot be copied");
}
