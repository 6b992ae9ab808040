//! Tests additions of a program: queue disciplines, controls, endpoints and listeners through the builder.

use dumbbell_core::aqm::{codel, Aqm, Dequeue, QueueContext};
use dumbbell_core::cc::conn::{Congestion, Conn};
use dumbbell_core::cc::{cubic, CcContext, CongestionControl};
use dumbbell_core::log::{At, DropReason, DropSite, Log, Mark, MarkReason};
use dumbbell_core::observe::Tap;
use dumbbell_core::packet::{Ecn, Packet};
use dumbbell_core::units::{Duration, Instant};
use dumbbell_sim::protocol::{Answer, AnswerOutlet, Datagram, DatagramOutlet, Protocol, ProtocolContext};
use dumbbell_sim::{Outcome, RunError, Sim};
use serde_json::{json, Map, Value};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

#[path = "../examples/delay_based.rs"]
mod delay_based;
#[path = "../examples/stop_and_wait.rs"]
mod stop_and_wait;

#[test]
fn the_endpoint_of_the_how_to_sends_when_it_is_answered() {
    let outcome = stop_and_wait::run().expect("a run");
    // 10 ms of transmission and 40 ms: one in 50 ms
    assert_eq!(outcome.summary["packets"].as_u64(), Some(200));
    assert_eq!(outcome.tables.flows.real("rtt_mean_ms"), Some(&[50.0][..]));
}

#[test]
fn the_media_control_of_the_how_to_fills_the_link_without_filling_the_queue() {
    let apps = delay_based::run().expect("a run").tables.apps;
    let value = |name: &str| apps.real(name).expect("a column")[0];
    // 1000 of 1054 B are video: 0.949 of 1 Mbit/s at most; the queue alone holds 0.8 s
    assert!((0.7..0.95).contains(&value("encoder_mbit")), "{}", value("encoder_mbit"));
    assert!(value("delay_p95_ms") < 100.0 && value("frozen_s") == 0.0 && value("loss_share") == 0.0, "{apps:?}");
}

#[test]
fn wrong_media_controls_are_refused_with_what_is_there() {
    use dumbbell_core::app::AppContext;
    use dumbbell_core::media::nada::{Nada, Params};
    let error = |kind: Value| {
        let config = json!({"bottleneck": {"aqm": {"name": "pfifo"}}, "app": [{"kind": kind}]});
        let new = |params: Params, _: &AppContext| Nada::new(&params);
        Sim::builder(&config).media_control("mine", Params::from_json, new).build().err().expect("an error").to_string()
    };
    let of_video = |control: Value| error(json!({"name": "video", "control": control}));
    assert_eq!(of_video(json!("gcc")), "app[0].kind.control: found \"gcc\", allowed: none, nada, mine");
    let wrong = of_video(json!({"name": "mine", "kappa": -1.0}));
    assert_eq!(wrong, "app[0].kind.control.kappa: found -1.0, allowed: 0.0 to 10.0");
    let call = error(json!({"name": "call", "control": "mine"}));
    assert!(call.starts_with("app[0].kind.control: found this key, allowed: payload, "), "{call}");
}

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
    for section in ["flows", "web", "udp"].into_iter().filter(|section| !config[section].is_null()).collect::<Vec<_>>() {
        config[section][0]["route"] = json!(["bottleneck", "second"]);
    }
    config
}

fn plain(config: &Value) -> Outcome {
    Sim::new(config).expect("a configuration").finish().expect("a run")
}

/// The tables with one name in place of another.
fn rename_tables(outcome: &Outcome, from: &str, to: &str) -> String {
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
    assert_eq!(rename_tables(&outcome, "mine", "cubic"), rename_tables(&plain(&config("codel", "cubic")), "mine", "cubic"));
}

/// Last in, first out, 50 packets: as nobody has it.
struct Stack {
    packets: VecDeque<Packet>,
}

impl Aqm for Stack {
    fn enqueue<L: Log>(&mut self, mut packet: Packet, now: Instant, log: &mut L) {
        if self.packets.len() == 50 {
            return log.on_drop(&packet, DropReason::Overflow, DropSite::Arrival, At::time(now));
        }
        packet.enqueue_time = now;
        log.on_enqueue(&packet, At::time(now));
        self.packets.push_back(packet);
    }

    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        self.packets.pop_back().map_or(Dequeue::Empty, |packet| {
            log.on_dequeue(&packet, At::time(now));
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

/// Events that a listener received at one hop.
#[derive(Default, Debug, PartialEq)]
struct Heard {
    arrived: u64,
    dropped: u64,
    marked: u64,
    departed: u64,
}

struct Ear(Arc<Mutex<Heard>>);

impl Log for Ear {
    fn on_arrival(&mut self, _packet: &Packet, _now: Instant) {
        self.0.lock().expect("no panic").arrived += 1;
    }
    fn on_mark(&mut self, _packet: &Packet, _before: Ecn, _mark: Mark, _reason: MarkReason, _at: At) {
        self.0.lock().expect("no panic").marked += 1;
    }
    fn on_drop(&mut self, _packet: &Packet, _reason: DropReason, _place: DropSite, _at: At) {
        self.0.lock().expect("no panic").dropped += 1;
    }
    fn on_departure(&mut self, _packet: &Packet, _now: Instant) {
        self.0.lock().expect("no panic").departed += 1;
    }
}

impl Tap for Ear {}

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
    let refused = |aqm: &str| {
        let config = config(aqm, "aimd");
        let run = Sim::builder(&config).control("mine", |_| Ok(()), |(), _: &CcContext| Aimd).build();
        run.err().expect("an error").to_string()
    };
    assert!(refused("stack").starts_with("bottleneck.aqm.name: found \"stack\""));
    let message = refused("codel");
    assert!(message.starts_with("flows[0].cc.name: found \"aimd\"") && message.ends_with(", mine"), "{message}");
}

#[test]
fn a_fault_ends_the_run() {
    let own = config("codel", "cubic");
    let mut extensions = dumbbell_sim::extensions::Extensions::default();
    let fault = extensions.fault.clone();
    extensions.control(
        "cubic",
        |_| Ok(()),
        move |(), _: &CcContext| {
            fault.report(|| "it was wrong".to_owned());
            Aimd
        },
    );
    let error = Sim::builder(&own).extensions(extensions).build().expect("a configuration").finish().map(drop);
    assert!(matches!(error, Err(RunError::Plugin(what)) if what == "it was wrong"));
}

/// Stop and wait: a datagram, its answer, the next datagram.
struct StopAndWait {
    length: u16,
    next: Instant,
    number: u64,
    rtts: Arc<Mutex<Vec<Duration>>>,
}

impl Protocol for StopAndWait {
    fn start(&mut self, now: Instant) {
        self.next = now;
    }
    fn stop(&mut self, _now: Instant) {
        self.next = Instant::NEVER;
    }
    fn next_timer(&self) -> Instant {
        self.next
    }
    fn on_timer(&mut self, _now: Instant, net: &mut dyn DatagramOutlet) {
        self.next = Instant::NEVER;
        net.send(Datagram { number: self.number, length: self.length, ecn: Ecn::Ect0 });
    }
    fn on_datagram(&mut self, datagram: &Datagram, _now: Instant) -> Option<Answer> {
        assert_eq!(datagram.ecn, Ecn::Ect0);
        Some(Answer { value: datagram.number << 33 | 7, length: 64, ecn: Ecn::NotEct })
    }
    fn on_answer(&mut self, answer: &Answer, rtt: Duration, now: Instant) {
        assert_eq!((answer.value, answer.length), (self.number << 33 | 7, 64));
        self.rtts.lock().expect("no panic").push(rtt);
        self.number += 1;
        self.next = now;
    }
}

#[test]
fn an_endpoint_of_ones_own_sends_when_it_is_answered() {
    let one = json!({"duration": 10_000_000_000_u64, "bottleneck": {"rate": 1_000_000, "aqm": {"name": "codel"}},
        "udp": [{"protocol": {"name": "stop-and-wait", "length": 1250}, "base_rtt": 40_000_000, "echo": true}]});
    let two = two_hops(one.clone());
    // 10 ms a hop and 40 ms: 200 of 50 ms in 10 s, the last answer at its end; over two hops 166 of 60 ms, and one on its way
    for (config, rtt, sent, answered) in [(one, 50, 200, 200), (two, 60, 167, 166)] {
        let rtts = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&rtts);
        let read = |keys: &Map<String, Value>| Ok(keys["length"].as_u64().map_or(0, |length| length as u16));
        let new = move |length, context: &ProtocolContext| {
            assert_eq!(context.number, 0);
            StopAndWait { length, next: Instant::NEVER, number: 0, rtts: Arc::clone(&heard) }
        };
        let sim = Sim::builder(&config).endpoint("stop-and-wait", read, new).build().expect("a configuration");
        let outcome = sim.finish().expect("a run");
        let text = format!("{:?}", outcome.tables.flows);
        assert!(text.contains("stop-and-wait"), "{text}");
        assert_eq!(*rtts.lock().expect("no panic"), vec![Duration::from_millis(rtt); answered]);
        assert_eq!(outcome.summary["packets"].as_u64(), Some(sent), "{}", outcome.summary);
    }
}

#[test]
fn an_endpoint_that_nobody_brings_is_an_error() {
    let config = json!({"bottleneck": {"aqm": {"name": "codel"}}, "udp": [{"protocol": {"name": "quic"}}]});
    let message = Sim::new(&config).err().map(|error| error.to_string());
    assert_eq!(message.as_deref(), Some("udp[0].protocol.name: found \"quic\", allowed: none is there"));
}

/// A protocol whose receiver answers twice at once, 5 ms after a datagram.
struct Late {
    next: Instant,
    due: Instant,
    heard: Arc<Mutex<Vec<(u64, Ecn, Duration)>>>,
}

impl Protocol for Late {
    fn start(&mut self, now: Instant) {
        self.next = now;
    }
    fn stop(&mut self, _now: Instant) {}
    fn next_timer(&self) -> Instant {
        self.next
    }
    fn on_timer(&mut self, _now: Instant, net: &mut dyn DatagramOutlet) {
        self.next = Instant::NEVER;
        net.send(Datagram { number: 0, length: 1250, ecn: Ecn::Ect0 });
    }
    fn on_datagram(&mut self, _datagram: &Datagram, now: Instant) -> Option<Answer> {
        self.due = now + Duration::from_millis(5);
        None
    }
    fn receiver_timer(&self) -> Instant {
        self.due
    }
    fn on_receiver_timer(&mut self, _now: Instant, back: &mut dyn AnswerOutlet) {
        self.due = Instant::NEVER;
        (1..3).for_each(|value| back.answer(Answer { value, length: 125, ecn: Ecn::Ect0 }));
    }
    fn on_answer(&mut self, answer: &Answer, rtt: Duration, _now: Instant) {
        self.heard.lock().expect("no panic").push((answer.value, answer.ecn, rtt));
    }
}

#[test]
fn a_stack_answers_by_its_own_timer_and_hears_which_answer_was_marked() {
    // 1250 B at 10 Mbit/s take 1 ms, 125 B back at 1 Mbit/s 1 ms each; the second waits for the first, and whoever waits is marked
    let config = json!({"duration": 1_000_000_000, "bottleneck": {"rate": 10_000_000, "aqm": {"name": "pfifo"}},
        "reverse": {"rate": 1_000_000, "aqm": {"name": "step", "threshold": 0}},
        "flows": [{"cc": {"name": "late"}, "base_rtt": 40_000_000}]});
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ours = Arc::clone(&heard);
    let mut extensions = dumbbell_sim::extensions::Extensions::default();
    let new = move |(), _: &ProtocolContext| Late { next: Instant::NEVER, due: Instant::NEVER, heard: Arc::clone(&ours) };
    extensions.stack("late", |_| Ok(()), new);
    Sim::builder(&config).extensions(extensions).build().expect("a configuration").finish().expect("a run");
    let of = |value, ecn, ms| (value, ecn, Duration::from_millis(ms));
    assert_eq!(*heard.lock().expect("no panic"), [of(1, Ecn::Ect0, 47), of(2, Ecn::Ce, 48)]);
}

/// Always due: it lets no time pass by itself, and the run ends all the same.
struct Restless;

impl Protocol for Restless {
    fn start(&mut self, _now: Instant) {}
    fn stop(&mut self, _now: Instant) {}
    fn next_timer(&self) -> Instant {
        Instant::ZERO
    }
    fn on_timer(&mut self, _now: Instant, _net: &mut dyn DatagramOutlet) {}
    fn on_datagram(&mut self, _datagram: &Datagram, _now: Instant) -> Option<Answer> {
        None
    }
    fn on_answer(&mut self, _answer: &Answer, _rtt: Duration, _now: Instant) {}
}

#[test]
fn a_run_with_an_endpoint_that_is_always_due_can_be_cancelled() {
    let config =
        json!({"duration": 1_000_000_000, "bottleneck": {"aqm": {"name": "codel"}}, "udp": [{"protocol": {"name": "restless"}}]});
    let mut extensions = dumbbell_sim::extensions::Extensions::default();
    extensions.endpoint("restless", |_| Ok(()), |(), _| Restless);
    let cancelled = AtomicBool::new(true);
    let sim = Sim::builder(&config).extensions(extensions).build().unwrap();
    let run = sim.run(&cancelled, &AtomicU64::new(0)).map(drop);
    assert!(matches!(run, Err(RunError::Cancelled)));
}
