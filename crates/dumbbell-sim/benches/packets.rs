//! Measures the cost of a packet on one core; `make bench`. One line per case:
//!
//! `case=a packets_per_cpu_second=… of_bare=… instructions_per_packet=… allocations_per_packet=… bytes_per_flow=… peak_bytes_per_flow=…`
//!
//! - `packets_per_cpu_second`: data packets through the bottleneck; the fastest of a few runs.
//! - `of_bare`: that over a bare loop which only moves packets of 32 bytes through a ring, in the same run, so that figures of different
//!   machines can be held against each other.
//! - `instructions_per_packet`: by callgrind, of the later half of a shorter run; `-` without valgrind. The same on every machine with the
//!   same compiler.
//! - `allocations_per_packet`: calls of the allocator in the later half of a run, so that what grows in slow start is left out.
//! - `bytes_per_flow`: most memory of a run in which all flows are there but none has a packet in flight, without that of a run of one
//!   flow, over the number of flows.
//! - `peak_bytes_per_flow`: the same with all packets in flight, on the path and in the queue.
//!
//! If `BENCH_HISTORY` names the version, the lines are appended to `benches/history.csv`; a second line says how a case has changed since it was
//! last there.

use cpu_time::ProcessTime;
use dumbbell_core::rng::Rng;
use dumbbell_sim::huge_pages::HugePages;
use dumbbell_sim::Sim;
use serde_json::{json, Value};
use stats_alloc::{Region, StatsAlloc, INSTRUMENTED_SYSTEM};
use std::alloc::System;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[global_allocator]
static ALLOCATOR: HugePages<&StatsAlloc<System>> = HugePages(&INSTRUMENTED_SYSTEM);

const REPEATS: usize = 3;

/// A case: what runs, and for how many simulated milliseconds.
struct Case {
    name: &'static str,
    rate: u64,
    base_rtt: u64,
    /// (congestion control, how many flows).
    flows: &'static [(&'static str, usize)],
    aqm: Value,
    millis: u64,
    /// Duration of the run whose instructions are counted.
    short_millis: u64,
    /// Short flows per second beside the others, bounded Pareto from 1 kB to 1 MB.
    web: f64,
    /// Keys of a run that make it one of several hops, and the route of its flows over them.
    net: Option<(Value, &'static [&'static str])>,
}

const GBIT: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn cases() -> Vec<Case> {
    let codel = || json!({"name": "codel", "ecn": true});
    let large = || json!({"name": "fq_codel", "limit": 1_000_000, "memory_limit": 1_u64 << 34});
    // 0.17 of the round trip
    let step = || json!({"name": "step", "threshold": 850_000, "limit": 1_000_000});
    let case = |name, rate, base_rtt, flows, aqm, millis, short_millis| Case {
        name,
        rate,
        base_rtt,
        flows,
        aqm,
        millis,
        short_millis,
        web: 0.0,
        net: None,
    };
    // codel-10 with a second hop or a queue on the way back
    let hops = |name, net, route: &'static [&'static str]| Case {
        net: Some((net, route)),
        ..case(name, GBIT, 5 * MS, &[("cubic", 10)], codel(), 20_000, 1_000)
    };
    let second = |rate: u64| json!({"hop": [{"name": "second", "rate": rate, "aqm": codel()}]});
    let both = &["bottleneck", "second"];
    vec![
        case("a", GBIT, 5 * MS, &[("dctcp", 10)], step(), 30_000, 1_000),
        case("b", GBIT / 10, 20 * MS, &[("cubic", 2)], codel(), 200_000, 10_000),
        case("c", 10 * GBIT, 5 * MS, &[("dctcp", 10)], step(), 4_000, 200),
        case("d", GBIT / 100, 80 * MS, &[("reno", 1)], codel(), 2_000_000, 100_000),
        case(
            "e",
            10 * GBIT,
            20 * MS,
            &[("cubic", 100), ("dctcp-sce", 100)],
            json!({"name": "cake", "isolation": "flowblind", "sce": "on"}),
            3_000,
            200,
        ),
        case("f", 100 * GBIT, 20 * MS, &[("cubic", 10_000)], large(), 1_000, 100),
        // f with few flows: what the number of flows costs
        case("f-10", 100 * GBIT, 20 * MS, &[("cubic", 10)], large(), 2_000, 100),
        case("g", GBIT, 20 * MS, &[("cubic", 100)], json!({"name": "cake"}), 20_000, 1_000),
        // web-like load of 72 % of the link, which costs more a packet than long flows do, beside two of those
        Case { web: 10_000.0, ..case("h", GBIT, 20 * MS, &[("cubic", 2)], codel(), 20_000, 1_000) },
        // a's link and flows: scalable congestion control over DualPI2, alone and beside classic flows
        case("i", GBIT, 5 * MS, &[("prague", 10)], json!({"name": "dualpi2"}), 20_000, 1_000),
        case("i-classic", GBIT, 5 * MS, &[("prague", 5), ("cubic", 5)], json!({"name": "dualpi2"}), 20_000, 1_000),
        // c's link and queue: model-based congestion control, which wants a rate sample of every ACK
        case("j", 10 * GBIT, 5 * MS, &[("bbr2", 10)], step(), 4_000, 200),
        case("codel-10", GBIT, 5 * MS, &[("cubic", 10)], codel(), 20_000, 1_000),
        hops("hop-idle", second(10 * GBIT), both),
        hops("hop-unused", second(10 * GBIT), &["bottleneck"]),
        hops("hop-queues", second(GBIT * 9 / 10), both),
        hops("hop-back", json!({"reverse": {"rate": GBIT, "aqm": codel()}}), &["bottleneck"]),
        case("fq-codel-10", GBIT, 20 * MS, &[("cubic", 10)], json!({"name": "fq_codel"}), 20_000, 1_000),
        case("pie-10", GBIT, 20 * MS, &[("cubic", 10)], json!({"name": "pie", "ecn": true}), 20_000, 1_000),
    ]
}

impl Case {
    fn config(&self, millis: u64, most_flows: usize) -> Value {
        self.start_between(millis, most_flows, 0, 50 * MS)
    }

    /// Flows start between `first` and `last`, ns.
    fn start_between(&self, millis: u64, most_flows: usize, first: u64, last: u64) -> Value {
        let route = self.net.as_ref().map(|(_, route)| *route);
        let flow = |cc: &str| json!({"cc": {"name": cc}, "base_rtt": self.base_rtt, "start": {"min": first, "max": last}, "route": route});
        let flows: Vec<Value> = self.flows.iter().flat_map(|&(cc, count)| vec![flow(cc); count]).take(most_flows).collect();
        let size = json!({"pareto": 0.9, "min": 1000, "max": 1_000_000});
        let short =
            json!({"cc": {"name": "cubic"}, "base_rtt": self.base_rtt, "arrivals": {"per_second": self.web}, "size": size});
        let mut config = json!({"duration": millis * MS, "seed": 1, "web": if self.web > 0.0 { vec![short] } else { Vec::new() }, "bottleneck": {"rate": self.rate, "aqm": self.aqm},
            "hosts": {"ecn": true, "send_buffer": 1_u64 << 30, "receive_buffer": 1_u64 << 30, "sce_feedback": true}, "flows": flows,
            "record": {"series": false}});
        for (key, value) in self.net.iter().flat_map(|(net, _)| net.as_object()).flatten() {
            config[key] = value.clone();
        }
        config
    }

    fn flow_count(&self) -> usize {
        self.flows.iter().map(|&(_, count)| count).sum()
    }
}

/// Runs `config`; packets through the bottleneck.
fn packets(config: &Value) -> f64 {
    let outcome = dumbbell_sim::run(config, &AtomicBool::new(false), &AtomicU64::new(0)).expect("a valid case");
    outcome.summary["packets"].as_u64().expect("packets") as f64
}

fn packets_per_cpu_second(config: &Value) -> f64 {
    let mut best = 0.0_f64;
    for _ in 0..REPEATS {
        let began = ProcessTime::now();
        best = best.max(packets(config) / began.elapsed().as_secs_f64());
    }
    best
}

/// Packets, and calls of the allocator.
fn allocations(config: &Value) -> (f64, f64) {
    let region = Region::new(ALLOCATOR.0);
    let sent = packets(config);
    let change = region.change();
    (sent, (change.allocations + change.reallocations) as f64)
}

/// Bytes that are allocated now.
fn live() -> isize {
    let stats = ALLOCATOR.0.stats();
    stats.bytes_allocated as isize - stats.bytes_deallocated as isize
}

/// Most memory of a run beyond its configuration, bytes, as a thread that looks every millisecond sees it.
fn memory(config: &Value) -> f64 {
    let (before, done) = (live(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = most.max(live() - before);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            most as f64
        });
        packets(config);
        done.store(true, Ordering::Relaxed);
        watch.join().expect("the thread only looks")
    })
}

fn per_packet(later: (f64, f64), sooner: (f64, f64)) -> f64 {
    (later.1 - sooner.1) / (later.0 - sooner.0)
}

/// Packets, and instructions by callgrind of this program running one case; `None` without valgrind.
fn instructions(case: &Case, millis: u64) -> Option<(f64, f64)> {
    let me = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(me)
        .args(["--only", case.name, &millis.to_string()])
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let count = said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())?;
    let sent = String::from_utf8_lossy(&output.stdout).trim().parse().ok()?;
    Some((sent, count))
}

/// Packets per CPU second of a ring of 100 packets of 32 bytes, one in and one out.
fn bare_loop() -> f64 {
    const PACKETS: u64 = 50_000_000;
    let mut best = 0.0_f64;
    for _ in 0..REPEATS {
        let mut ring: VecDeque<[u64; 4]> = (0..100).map(|n| [n; 4]).collect();
        let began = ProcessTime::now();
        let mut sum = 0_u64;
        for n in 0..PACKETS {
            ring.push_back(std::hint::black_box([n; 4]));
            sum = sum.wrapping_add(ring.pop_front().map_or(0, |packet| packet[1]));
        }
        std::hint::black_box(sum);
        best = best.max(PACKETS as f64 / began.elapsed().as_secs_f64());
    }
    best
}

/// Nanoseconds from one load to the next that needs its value, in `bytes` of memory, cache line by cache line in an order that no
/// hardware guesses.
fn latency(bytes: usize) -> f64 {
    const LINE: usize = 64 / size_of::<usize>();
    const LOADS: usize = 5_000_000;
    let lines = bytes / 64;
    let mut order: Vec<usize> = (0..lines).collect();
    let mut random = Rng::stream(1, "latency", 0);
    for index in (1..lines).rev() {
        // Sattolo's algorithm: one cycle through all
        order.swap(index, random.draw_below(index as u64) as usize);
    }
    let mut next = vec![0_usize; lines * LINE];
    for (line, &to) in order.iter().enumerate() {
        next[line * LINE] = to * LINE;
    }
    let mut best = f64::INFINITY;
    for _ in 0..REPEATS {
        let began = ProcessTime::now();
        let place = (0..LOADS).fold(0, |place, _| next[place]);
        std::hint::black_box(place);
        best = best.min(began.elapsed().as_secs_f64() * 1e9 / LOADS as f64);
    }
    best
}

/// Gigabytes a second that are read one after the other, of `bytes` of memory.
fn bandwidth(bytes: usize) -> f64 {
    let values = vec![1_u64; bytes / 8];
    let mut best = 0.0_f64;
    for _ in 0..REPEATS {
        let began = ProcessTime::now();
        std::hint::black_box(std::hint::black_box(&values).iter().sum::<u64>());
        best = best.max(bytes as f64 / 1e9 / began.elapsed().as_secs_f64());
    }
    best
}

fn line(case: &Case, bare: f64) -> String {
    let all = usize::MAX;
    let speed = packets_per_cpu_second(&case.config(case.millis, all));
    let mut line = format!("case={} packets_per_cpu_second={speed:.3e} of_bare={:.4}", case.name, speed / bare);
    let counted = instructions(case, case.short_millis).zip(instructions(case, 2 * case.short_millis));
    let cost = counted.map_or("-".into(), |(sooner, later)| format!("{:.0}", per_packet(later, sooner)));
    let allocated = per_packet(allocations(&case.config(case.millis, all)), allocations(&case.config(case.millis / 2, all)));
    let millis = case.millis.min(1000);
    let per_flow =
        |config: &dyn Fn(usize) -> Value| (memory(&config(all)) - memory(&config(1))).max(0.0) / case.flow_count() as f64;
    let idle = per_flow(&|flows| case.start_between(millis, flows, 2 * millis * MS, 2 * millis * MS));
    let peak = per_flow(&|flows| case.config(millis, flows));
    write!(line, " instructions_per_packet={cost} allocations_per_packet={allocated:.6} bytes_per_flow={idle:.0} peak_bytes_per_flow={peak:.0}")
        .expect("a string");
    line
}

/// Appends `line` to the history, and prints how the case has changed.
fn record(version: &str, line: &str) -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/history.csv");
    let (names, values): (Vec<&str>, Vec<&str>) = line.split(' ').filter_map(|part| part.split_once('=')).unzip();
    let header = format!("version,{}", names.join(","));
    let mut history = std::fs::read_to_string(path).unwrap_or_default();
    if history.is_empty() {
        history = format!("{header}\n");
    }
    if history.lines().next() != Some(&header) {
        return Err(std::io::Error::other(format!("{path} has other columns than {header}")));
    }
    let before = history.lines().rev().map(|row| row.split(',').collect::<Vec<_>>()).find(|row| row.get(1) == values.first());
    if let Some(before) = before {
        let changes = names
            .iter()
            .zip(&values)
            .zip(&before[1..])
            .filter(|((name, _), _)| ["of_bare", "instructions_per_packet"].contains(name));
        let changes = changes.filter_map(|((name, now), then)| {
            let (now, then): (f64, f64) = (now.parse().ok()?, then.parse().ok()?);
            Some(format!(" {name}={:+.1}%", 100.0 * (now / then - 1.0)))
        });
        println!("  since {}:{}", before[0], changes.collect::<String>());
    }
    history += &format!("{version},{}\n", values.join(","));
    std::fs::write(path, history)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--only") {
        let case = cases().into_iter().find(|case| case.name == args[at + 1]).expect("a case");
        println!("{}", packets(&case.config(args[at + 2].parse().expect("milliseconds"), usize::MAX)));
        return;
    }
    // a case for so many milliseconds, or the configuration on standard input ("-"), on threads; "+N" uses windows even where they seem slower: packets, wall time and CPU time
    if let Some(at) = args.iter().position(|arg| arg == "--threads") {
        let [threads, name] = [1, 2].map(|next| args[at + next].as_str());
        let config = match cases().into_iter().find(|case| case.name == name) {
            Some(case) => case.config(args[at + 3].parse().expect("milliseconds"), usize::MAX),
            None => serde_json::from_reader(std::io::stdin()).expect("a configuration as JSON"),
        };
        let builder = Sim::builder(&config).threads(threads.parse().expect("a number"));
        let sim = if threads.starts_with('+') { builder.always_windows().build() } else { builder.build() };
        let (wall, cpu) = (std::time::Instant::now(), ProcessTime::now());
        let outcome = sim.expect("a valid case").finish().expect("a run");
        println!("{} {:.3} {:.3}", outcome.summary["packets"], wall.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
        return;
    }
    // any configuration, on standard input, for profilers
    if args.iter().any(|arg| arg == "--config") {
        let config = serde_json::from_reader(std::io::stdin()).expect("a configuration as JSON");
        println!("{}", packets(&config));
        return;
    }
    // of the machine: latency of a cache behind the first, of the last one, and of memory, ns; bandwidth of memory, GB/s
    if args.iter().any(|arg| arg == "--memory") {
        let [near, last, memory] = [256 << 10, 4 << 20, 256 << 20].map(latency);
        println!("{}", json!({"near": near, "last": last, "memory": memory, "bandwidth": bandwidth(256 << 20)}));
        return;
    }
    let bare = bare_loop();
    println!("case=bare-ring packets_per_cpu_second={bare:.3e}");
    let chosen: Vec<&String> = args[1..].iter().filter(|arg| !arg.starts_with("--")).collect();
    for case in cases().iter().filter(|case| chosen.is_empty() || chosen.iter().any(|name| *name == case.name)) {
        let line = line(case, bare);
        println!("{line}");
        if let Some(version) = std::env::var("BENCH_HISTORY").ok().filter(|version| !version.is_empty()) {
            record(&version, &line).expect("benches/history.csv can be read and written");
        }
    }
}
