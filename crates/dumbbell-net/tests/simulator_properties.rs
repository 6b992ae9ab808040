//! Sends equal packets at equal times through a net and through the simulator: arrivals are equal to the nanosecond, and so are marks and
//! counters, for every registered queue discipline, link and stage. No packet is lost or made.

use dumbbell_core::packet::Ecn;
use dumbbell_core::param::{AlgorithmSpec, ParamKind, ParamSpec};
use dumbbell_core::units::{self, Instant};
use dumbbell_core::{aqm, link, path};
use dumbbell_net::{Config, FlowKey, Frame, Net, NetCounters};
use dumbbell_sim::protocol::{Answer, Datagram, DatagramOutlet, Protocol, ProtocolContext};
use dumbbell_sim::Sim;
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};
use serde_json::{json, Map, Value};
use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const FLOWS: usize = 3;
const SECOND: u64 = 1_000_000_000;

/// A packet of a story.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: u64,
    flow: usize,
    length: u16,
    ecn: Ecn,
}

/// A packet that comes out: time, flow, number in the flow, ECN field.
type Came = (u64, usize, u64, Ecn);

/// A sender of the simulator that sends the packets of a story, and its receiver.
struct Teller {
    flow: usize,
    story: Vec<Sent>,
    told: usize,
    came: Arc<Mutex<Vec<Came>>>,
}

impl Protocol for Teller {
    fn start(&mut self, _now: Instant) {}
    fn stop(&mut self, _now: Instant) {}
    fn next_timer(&self) -> Instant {
        self.story.get(self.told).map_or(Instant::NEVER, |sent| Instant(sent.at))
    }
    fn on_timer(&mut self, _now: Instant, net: &mut dyn DatagramOutlet) {
        let Sent { length, ecn, .. } = self.story[self.told];
        net.send(Datagram { number: self.told as u64, length, ecn });
        self.told += 1;
    }
    fn on_datagram(&mut self, datagram: &Datagram, now: Instant) -> Option<Answer> {
        self.came.lock().expect("no panic").push((now.0, self.flow, datagram.number, datagram.ecn));
        None
    }
    fn on_answer(&mut self, _answer: &Answer, _rtt: units::Duration, _now: Instant) {}
}

/// How the caller of a net goes about it; none of it may matter.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Caller {
    /// Pops whenever the net says.
    Prompt,
    /// Pops just before and just after each burst, too.
    Restless,
    /// Pops at the end alone.
    Late,
}

/// A bottleneck as its keys are in canonical JSON, and what is sent over it.
#[derive(Clone, Debug)]
struct Case {
    bottleneck: Map<String, Value>,
    seed: u64,
    story: Vec<Sent>,
}

impl Case {
    /// When everything should have come out, however slow the link.
    fn end(&self) -> u64 {
        self.story.last().map_or(0, |last| last.at) + 60 * SECOND
    }

    /// Returns the packets that come out in the simulator until the end, and the counters of its queue.
    fn simulate(&self) -> Result<(Vec<Came>, NetCounters), String> {
        let came = Arc::new(Mutex::new(Vec::new()));
        let new = {
            let (story, came) = (self.story.clone(), Arc::clone(&came));
            move |(), context: &ProtocolContext| {
                let flow = context.number as usize;
                let story = story.iter().copied().filter(|sent| sent.flow == flow).collect();
                Teller { flow, story, told: 0, came: Arc::clone(&came) }
            }
        };
        let config = json!({"duration": self.end() + SECOND, "seed": self.seed, "bottleneck": self.bottleneck,
            "udp": [{"protocol": {"name": "teller"}, "count": FLOWS}], "record": {"series": false}});
        let sim = Sim::builder(&config).endpoint("teller", |_| Ok(()), new).build();
        let mut sim = sim.map_err(|error| error.to_string())?;
        sim.step(Instant(self.end())).map_err(|error| error.to_string())?;
        let (view, came) = (sim.view(), came.lock().expect("no panic").clone());
        let queue = view.queue;
        let counters = NetCounters {
            departed: queue.packets,
            departed_bytes: queue.bytes,
            dropped_overflow: queue.drops_overflow,
            dropped_aqm: queue.drops_aqm,
            ce_marks: queue.ce_marks,
            sce_marks: queue.sce_marks,
            sent: queue.sent,
            sojourn_ns: queue.sojourn_ns,
            queued: view.queued_packets,
            queued_bytes: view.queued_bytes,
            ..NetCounters::default()
        };
        Ok((came, counters))
    }

    /// Returns the packets that come out of a net with this `caller`, on a clock that says `start` at its beginning.
    fn through_a_net(&self, config: &Config, start: u64, caller: Caller) -> (Vec<Came>, NetCounters) {
        let config = config.clone().seed(self.seed).start(Duration::from_nanos(start));
        let mut net: Net<(usize, u64)> = config.build().expect("it was checked");
        // the simulator lists its senders before they send, and stages that hold packets of several flows let those of the first one go first
        for flow in 0..FLOWS as u32 {
            net.announce(flow, &FlowKey { src_host: 1, dst_host: 2, ports: flow, dscp: 0 });
        }
        let mut numbers = [0; FLOWS];
        let mut came = Vec::new();
        // up to `until`, that instant included
        let mut pop = |from: &mut Net<(usize, u64)>, until: Duration| {
            while let Some(packet) = from.pop(until) {
                let (flow, number) = packet.payload;
                assert_eq!(packet.frame.flow as usize, flow);
                assert!(packet.at <= until);
                came.push((packet.at.as_nanos() as u64 - start, flow, number, packet.frame.ecn));
            }
            check_conservation(from);
        };
        let on_clock = |at: u64| Duration::from_nanos(at + start);
        for burst in self.story.chunk_by(|one, next| (one.at, one.flow) == (next.at, next.flow)) {
            let at = on_clock(burst[0].at);
            if caller != Caller::Late {
                while let Some(next) = net.next().filter(|&next| next < at) {
                    pop(&mut net, next);
                }
            }
            if caller == Caller::Restless {
                pop(&mut net, at);
            }
            for sent in burst {
                let frame = Frame::new(sent.length).ecn(sent.ecn).flow(sent.flow as u32);
                net.push(at, frame, (sent.flow, numbers[sent.flow]));
                numbers[sent.flow] += 1;
                check_conservation(&net);
            }
            if caller == Caller::Restless {
                pop(&mut net, at);
            }
        }
        if caller != Caller::Late {
            while let Some(next) = net.next().filter(|&next| next <= on_clock(self.end())) {
                pop(&mut net, next);
            }
        }
        pop(&mut net, on_clock(self.end()));
        let counters = net.counters();
        if counters.held == 0 {
            assert_eq!(net.next(), None);
        }
        (came, counters)
    }

    /// Holds both against each other. `None` if both refuse the configuration; else what the net has counted.
    fn check(&self) -> Option<NetCounters> {
        let text = text(&self.bottleneck);
        let simulated = self.simulate();
        let Ok(config) = Config::parse(&text) else {
            assert!(simulated.is_err(), "only the net refuses: {:?}\n{text}", Config::parse(&text).map(drop));
            return None;
        };
        let (came, counted) = simulated.unwrap_or_else(|error| panic!("only the simulator refuses: {error}\n{text}"));
        let mut last = None;
        for (caller, start) in [(Caller::Prompt, 0), (Caller::Restless, 0), (Caller::Late, 1_700_000_000 * SECOND)] {
            let (own_came, own) = self.through_a_net(&config, start, caller);
            let different = came.iter().zip(&own_came).find(|(theirs, ours)| theirs != ours);
            assert_eq!(different, None, "simulator and net, {caller:?}\n{text}");
            assert_eq!(came.len(), own_came.len(), "{caller:?}\n{text}");
            let NetCounters { pushed, popped, lost, held, .. } = own;
            assert_eq!(own, NetCounters { pushed, popped, lost, held, ..counted }, "{caller:?}\n{text}");
            assert_eq!(popped, came.len() as u64);
            last = Some(own);
        }
        last
    }
}

fn check_conservation<T>(net: &Net<T>) {
    let counters = net.counters();
    assert_eq!(counters.pushed, counters.popped + counters.count_dropped() + counters.held, "{counters:?}");
    assert_eq!(counters.held == 0, net.next().is_none(), "{counters:?}");
}

/// Canonical keys as an experiment file spells them.
fn text(bottleneck: &Map<String, Value>) -> String {
    let specs = dumbbell_config::BottleneckParams::specs();
    let lines = bottleneck.iter().map(|(key, value)| {
        let value = match key.as_str() {
            "aqm" => algorithm(value, &aqm::specs()),
            "link" => algorithm(value, &link::specs()),
            "path" | "behind" => {
                let stages = value.as_array().expect("a list").iter().map(|stage| algorithm(stage, &path::specs()));
                format!("[{}]", stages.collect::<Vec<_>>().join(", "))
            }
            "rate_changes" => {
                let changes = value.as_array().expect("a list").iter();
                let spelt = changes.map(|change| format!("{{ at = \"{}ns\", rate = \"{}bit\" }}", change["at"], change["rate"]));
                format!("[{}]", spelt.collect::<Vec<_>>().join(", "))
            }
            "delay" => format!("\"{value}ns\""),
            _ => spell_value(specs.iter().find(|spec| spec.name == key).expect("a key"), value),
        };
        format!("{key} = {value}\n")
    });
    lines.collect()
}

fn algorithm(value: &Value, known: &[AlgorithmSpec]) -> String {
    let table = value.as_object().expect("a table");
    let spec = known.iter().find(|spec| table["name"] == spec.name).expect("a name");
    let params = spec.params.iter().filter_map(|param| Some((param, table.get(param.name)?)));
    let keys: String = params.map(|(param, own)| format!(", {} = {}", param.name, spell_value(param, own))).collect();
    format!("{{ name = \"{}\"{keys} }}", spec.name)
}

fn spell_value(spec: &ParamSpec, value: &Value) -> String {
    match &spec.kind {
        _ if value.is_null() => "\"none\"".to_owned(),
        ParamKind::Time => format!("\"{value}ns\""),
        ParamKind::Rate => format!("\"{value}bit\""),
        ParamKind::Int if spec.unit == "bytes" => format!("\"{value}B\""),
        _ => value.to_string(),
    }
}

/// Some parameters of `spec` at random, within their ranges.
fn some(spec: &AlgorithmSpec) -> BoxedStrategy<Value> {
    let name = spec.name;
    let params: Vec<_> =
        spec.params.iter().filter(|param| param.name != "ack_filter" && param.kind != ParamKind::LinkTrace).cloned().collect();
    let numbers = prop::collection::vec(any::<u64>(), params.len());
    let table = move |draws: Vec<u64>| {
        let mut table = json!({"name": name});
        for (param, draw) in params.iter().zip(draws).filter(|(_, draw)| draw % 5 == 0) {
            table[param.name] = value(param, draw / 5);
        }
        table
    };
    prop_oneof![1 => Just(json!({"name": name})), 2 => numbers.prop_map(table)].boxed()
}

fn value(spec: &ParamSpec, draw: u64) -> Value {
    let share = (draw % 1000) as f64 / 1000.0;
    match &spec.kind {
        // where "none" is a value of its own, nothing in a file says that the key is unset
        ParamKind::Choice(words) if spec.optional && words.contains(&"none") => json!(words[draw as usize % words.len()]),
        _ if spec.optional && draw % 7 == 0 => Value::Null,
        ParamKind::Bool => json!(draw % 2 == 0),
        ParamKind::Choice(words) => json!(words[draw as usize % words.len()]),
        ParamKind::Float => match (spec.min.as_f64(), spec.max.as_f64()) {
            (Some(low), Some(high)) => json!(low + share * (high.min(low + 10.0) - low)),
            _ => spec.default.clone(),
        },
        // near the default, where the story has something to do with it
        _ => match (spec.default.as_u64(), spec.min.as_u64(), spec.max.as_u64()) {
            (Some(default), Some(low), Some(high)) => json!(((default as f64 * 2.0 * share) as u64).clamp(low, high)),
            _ => spec.default.clone(),
        },
    }
}

/// A number of equal packets of one flow, and the pause ahead of them.
#[derive(Clone, Debug)]
struct Burst {
    pause: u64,
    packet: Sent,
    count: usize,
}

fn burst() -> impl Strategy<Value = Burst> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let pause = prop_oneof![Just(0), Just(1_211_200), Just(15_000_000), 0..3_000_000_u64, 0..2 * SECOND];
    let length = prop_oneof![Just(1514_u16), Just(74), 60..9_000_u16];
    let packet = (0..FLOWS, length, ecn).prop_map(|(flow, length, ecn)| Sent { at: 0, flow, length, ecn });
    (pause, packet, 1..60_usize).prop_map(|(pause, packet, count)| Burst { pause, packet, count })
}

/// Bursts, pauses and streams; many packets at the same instant.
fn story() -> impl Strategy<Value = Vec<Sent>> {
    prop::collection::vec(burst(), 1..25).prop_map(|bursts| {
        let mut at = 0;
        let mut story = Vec::new();
        for Burst { pause, packet, count } in bursts {
            at += pause;
            story.extend(std::iter::repeat_n(Sent { at, ..packet }, count));
        }
        // at one instant the simulator asks its senders in order
        story.sort_by_key(|sent| (sent.at, sent.flow));
        story
    })
}

fn rate() -> impl Strategy<Value = u64> {
    prop_oneof![Just(10_000_000_u64), 1_000_000..100_000_000_u64]
}

/// A bottleneck with this queue and, often, everything else that there is.
fn case(queue: &AlgorithmSpec) -> impl Strategy<Value = Case> {
    let links: Vec<_> = link::specs().iter().filter(|spec| spec.name != "trace" && spec.name != "unshaped").map(some).collect();
    let stages: Vec<_> = path::specs().iter().map(some).collect();
    let row =
        || prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(proptest::strategy::Union::new(stages.clone()), 1..3)];
    let link = prop_oneof![
        4 => Just(json!({})),
        1 => Just(json!({"shaper": "htb", "burst": 4542})),
        1 => prop_oneof![Just("docsis"), Just("pppoe-ptm"), Just("ipoa-vcmux")].prop_map(|layer| json!({"link_layer": layer, "mpu": 64})),
        2 => proptest::strategy::Union::new(links).prop_map(|link| json!({"link": link})),
    ];
    let change = (0..20 * SECOND, rate()).prop_map(|(at, rate)| json!({"at": at / 5_000_000 * 5_000_000, "rate": rate}));
    let changes = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(change, 1..4)];
    let propagation = prop_oneof![Just(0), Just(10_000_000), 0..SECOND];
    let all = (some(queue), rate(), link, changes, (row(), row()), propagation, any::<u64>(), story());
    all.prop_map(|(aqm, rate, more, rate_changes, (path, behind), delay, seed, story)| {
        let mut bottleneck =
            json!({"aqm": aqm, "rate": rate, "rate_changes": rate_changes, "path": path, "behind": behind, "delay": delay});
        for (key, value) in more.as_object().expect("keys") {
            bottleneck[key] = value.clone();
        }
        Case { bottleneck: bottleneck.as_object().expect("keys").clone(), seed: seed >> 1, story }
    })
}

/// More packets at one instant than `queue` holds by default.
fn flood(queue: &AlgorithmSpec) -> Case {
    let bottleneck = json!({"aqm": {"name": queue.name}, "rate": 100_000_000});
    let packet = Sent { at: 0, flow: 0, length: 1514, ecn: Ecn::NotEct };
    Case { bottleneck: bottleneck.as_object().expect("keys").clone(), seed: 1, story: vec![packet; 12_000] }
}

/// Checks a flood, which the queue must drop packets of, and random cases. Returns how many packets of the latter were dropped.
fn hold_against_the_simulator(queue: &AlgorithmSpec) -> u64 {
    let flooded = flood(queue).check().unwrap_or_else(|| panic!("{}: both refuse the defaults", queue.name));
    assert!(flooded.count_dropped() > 0 && flooded.popped > 0, "{}: {flooded:?}", queue.name);
    let usual = Cases::default();
    let mut runner = TestRunner::new(Cases { cases: usual.cases / 2, failure_persistence: None, ..usual });
    let (tried, used, popped, dropped) = (Cell::new(0), Cell::new(0), Cell::new(0), Cell::new(0));
    let done = runner.run(&case(queue), |case| {
        tried.set(tried.get() + 1);
        if let Some(counters) = case.check() {
            used.set(used.get() + 1);
            popped.set(popped.get() + counters.popped);
            dropped.set(dropped.get() + counters.dropped_overflow + counters.dropped_aqm);
        }
        Ok(())
    });
    done.unwrap_or_else(|error| panic!("{}: {error}", queue.name));
    // the stories have something to tell
    assert!(used.get() * 2 > tried.get(), "{}: both refuse {} of {tried:?}", queue.name, tried.get() - used.get());
    assert!(popped.get() > 100 * used.get(), "{}: {popped:?} of {used:?}", queue.name);
    dropped.get()
}

#[test]
fn a_net_is_the_simulator_s_bottleneck_for_every_queue_discipline() {
    // what the burst of a class of HTB lets go at the instant at which others arrive leaves between these in the simulator, and after them in a net
    let queues: Vec<_> = aqm::specs().into_iter().filter(|one| one.name != "htb_classes").collect();
    let dropped: u64 = thread::scope(|scope| {
        let check = |first| queues.iter().skip(first).step_by(2).map(hold_against_the_simulator).sum::<u64>();
        let halves = [0, 1].map(|first| scope.spawn(move || check(first)));
        halves.into_iter().map(|half| half.join().expect("no panic")).sum()
    });
    // a random case may have room for all its packets, but not all of them
    assert!(dropped > 0);
}
