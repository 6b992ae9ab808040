//! What a program brings along: queue disciplines, controls and listeners through the builder.

use dumbbell_core::aqm::{codel, Aqm, Dequeue, QueueContext};
use dumbbell_core::cc::conn::{Congestion, Conn};
use dumbbell_core::cc::{cubic, CcContext, CongestionControl};
use dumbbell_core::log::{At, DropReason, Log, Mark, MarkReason, Place};
use dumbbell_core::packet::{Ecn, Packet};
use dumbbell_core::units::Time;
use dumbbell_sim::{Outcome, RunError, Sim};
use serde_json::{json, Value};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

fn config(aqm: &str, cc: &str) -> Value {
    json!({"duration": 3_000_000_000_u64, "bottleneck": {"rate": 20_000_000, "aqm": {"name": aqm}}, "flows": [
        {"cc": {"name": cc}, "base_rtt": 20_000_000, "count": 2}],
        "web": [{"cc": {"name": cc}, "base_rtt": 20_000_000, "arrivals": {"per_second": 5}, "size": {"fixed": 20_000}}]})
}

/// Hop 2 behind the bottleneck, a copy of it.
fn two_hops(mut config: Value) -> Value {
    let mut second = config["bottleneck"].clone();
    second["name"] = json!("second");
    config["hop"] = json!([second]);
    for section in ["flows", "web"] {
        config[section][0]["route"] = json!(["bottleneck", "second"]);
    }
    config
}

fn plain(config: &Value) -> Outcome {
    Sim::new(config).expect("a configuration").finish().expect("a run")
}

/// The tables with one name in place of another.
fn renamed(outcome: &Outcome, from: &str, to: &str) -> String {
    format!("{:?}", outcome.tables).replace(from, to)
}

#[test]
fn a_queue_in_a_box_is_the_queue() {
    for config in [config("codel", "cubic"), two_hops(config("codel", "cubic"))] {
        let mut own = config.clone();
        own["bottleneck"]["aqm"]["name"] = json!("mine");
        let sim = Sim::builder(&own).aqm("mine", codel::Params::from_json, codel::State::new).build().expect("a configuration");
        assert_eq!(format!("{:?}", sim.finish().expect("a run").tables), format!("{:?}", plain(&config).tables));
    }
}

#[test]
fn a_control_in_a_box_is_the_control_and_has_its_own_name_in_tables() {
    let own = config("codel", "mine");
    let sim = Sim::builder(&own).control("mine", cubic::Params::from_json, cubic::State::new).build().expect("a configuration");
    let outcome = sim.finish().expect("a run");
    assert!(format!("{:?}", outcome.tables).contains("mine"));
    assert_eq!(renamed(&outcome, "mine", "cubic"), renamed(&plain(&config("codel", "cubic")), "mine", "cubic"));
}

/// Last in, first out, 50 packets: as nobody has it.
struct Stack {
    packets: VecDeque<Packet>,
}

impl Aqm for Stack {
    fn enqueue<L: Log>(&mut self, mut packet: Packet, now: Time, log: &mut L) {
        if self.packets.len() == 50 {
            return log.dropped(&packet, DropReason::Overflow, Place::Arrival, At::time(now));
        }
        packet.enqueue_time = now;
        log.enqueued(&packet, At::time(now));
        self.packets.push_back(packet);
    }

    fn dequeue<L: Log>(&mut self, now: Time, log: &mut L) -> Dequeue {
        self.packets.pop_back().map_or(Dequeue::Empty, |packet| {
            log.sent(&packet, At::time(now));
            Dequeue::Packet(packet)
        })
    }

    fn packets(&self) -> usize {
        self.packets.len()
    }

    fn bytes(&self) -> u64 {
        self.packets.iter().map(|packet| u64::from(packet.len)).sum()
    }
}

/// One segment more a round trip, 0.7 of the window after congestion.
#[derive(Clone)]
struct Aimd;

impl CongestionControl for Aimd {
    fn ssthresh(&mut self, conn: &Conn, _cause: Congestion) -> u32 {
        (conn.cwnd * 7 / 10).max(2)
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        dumbbell_core::cc::additive_increase(conn, conn.cwnd, acked);
    }
}

/// What a listener heard at one hop.
#[derive(Default, Debug, PartialEq)]
struct Heard {
    arrived: u64,
    dropped: u64,
    marked: u64,
    departed: u64,
}

struct Ear(Arc<Mutex<Heard>>);

impl Log for Ear {
    fn arrived(&mut self, _packet: &Packet, _now: Time) {
        self.0.lock().expect("no panic").arrived += 1;
    }
    fn marked(&mut self, _packet: &Packet, _before: Ecn, _mark: Mark, _reason: MarkReason, _at: At) {
        self.0.lock().expect("no panic").marked += 1;
    }
    fn dropped(&mut self, _packet: &Packet, _reason: DropReason, _place: Place, _at: At) {
        self.0.lock().expect("no panic").dropped += 1;
    }
    fn departed(&mut self, _packet: &Packet, _now: Time) {
        self.0.lock().expect("no panic").departed += 1;
    }
}

#[test]
fn own_queue_own_control_and_a_listener_at_each_hop() {
    let config = two_hops(config("stack", "aimd"));
    let mut heard = Vec::new();
    let sim = Sim::builder(&config)
        .aqm("stack", |_| Ok(()), |(), _: &QueueContext| Stack { packets: VecDeque::new() })
        .control("aimd", |_| Ok(()), |(), _: &CcContext| Aimd)
        .listener(|hop| {
            heard.push((hop.to_owned(), Arc::new(Mutex::new(Heard::default()))));
            Ear(Arc::clone(&heard[heard.len() - 1].1))
        })
        .build()
        .expect("a configuration");
    let outcome = sim.finish().expect("a run");
    let names: Vec<&str> = heard.iter().map(|(hop, _)| hop.as_str()).collect();
    assert_eq!(names, ["bottleneck", "second"]);
    let of = |hop: usize| heard[hop].1.lock().expect("no panic");
    assert!(of(0).arrived > 1000 && of(0).dropped > 0 && of(0).marked == 0);
    // all that left the first hop came to the second
    assert_eq!(of(0).departed, of(1).arrived);
    // and a listener changes nothing
    let unheard = Sim::builder(&config)
        .aqm("stack", |_| Ok(()), |(), _: &QueueContext| Stack { packets: VecDeque::new() })
        .control("aimd", |_| Ok(()), |(), _: &CcContext| Aimd)
        .build()
        .expect("a configuration");
    assert_eq!(unheard.finish().expect("a run").hash, outcome.hash);
}

#[test]
fn a_listener_over_one_hop_hears_what_the_counters_count() {
    let config = config("codel", "cubic");
    let heard = Arc::new(Mutex::new(Heard::default()));
    let sim = Sim::builder(&config).listener(|_| Ear(Arc::clone(&heard))).build().expect("a configuration");
    let outcome = sim.finish().expect("a run");
    assert_eq!(outcome.hash, plain(&config).hash);
    let dropped = outcome.summary["drops"].as_u64();
    assert_eq!(dropped, Some(heard.lock().expect("no panic").dropped));
}

#[test]
fn a_name_that_nobody_has_is_an_error_that_lists_the_additions() {
    let unknown = config("stack", "aimd");
    let message =
        Sim::builder(&unknown).control("mine", |_| Ok(()), |(), _: &CcContext| Aimd).build().err().map(|e| e.to_string());
    assert!(message.expect("an error").starts_with("web[0].cc.name: found \"aimd\""));
}

#[test]
fn a_fault_ends_the_run() {
    let own = config("codel", "cubic");
    let mut additions = dumbbell_sim::additions::Additions::default();
    let fault = additions.fault.clone();
    additions.control(
        "cubic",
        |_| Ok(()),
        move |(), _: &CcContext| {
            fault.report(|| "it was wrong".to_owned());
            Aimd
        },
    );
    let error = Sim::builder(&own).additions(additions).build().expect("a configuration").finish().map(drop);
    assert!(matches!(error, Err(RunError::Foreign(what)) if what == "it was wrong"));
}
