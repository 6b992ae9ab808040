//! Tables of scenarios, rounded: a change of one is a change of behaviour, to be read before it is accepted. Linux's value
//! stands next to each cell that was measured.
//!
//! Every registered queue discipline and congestion control has its rows. To accept a change, or to add rows for a new algorithm, paste
//! what the failure prints.

use dumbbell_core::param::ParamType;
use dumbbell_core::{aqm, cc};
use serde_json::{json, Value};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// Rate of every cell, Mbit/s.
const RATE: f64 = 10.0;
/// How long Linux was measured.
const LINUX_SECONDS: u64 = 60;
/// Length of the other cells.
const SECONDS: u64 = 10;

/// Cells of Linux: docs/references.md says what the columns are.
const LINUX: &str = include_str!("data/linux-6.12.csv");

const HEAD: &str = "\
queue      RTT cc               s   goodput  Linux       RTT  Linux     marks  Linux     drops  Linux
";

/// A queue discipline of the tables.
struct Queue {
    /// As it is called here: the registered name, and a word if there are several.
    name: &'static str,
    /// tc's words for it; "" if it was not measured on Linux.
    tc: &'static str,
    aqm: Value,
    ecn: bool,
    base_rtt: u64,
    /// Whether it draws random numbers, which differ from Linux's.
    random: bool,
}

fn queue(name: &'static str, base_rtt: u64, ecn: bool, tc: &'static str, aqm: Value) -> Queue {
    let mut params = json!({"name": name.split(' ').next()});
    for (key, value) in aqm.as_object().expect("a table") {
        params[key] = value.clone();
    }
    let random = ["red", "pie", "fq_pie", "pi2", "dualpi2"].contains(&name);
    Queue { name, tc, aqm: params, ecn, base_rtt, random }
}

/// With the base RTT (ms) at which most of Linux was measured.
fn queues() -> Vec<Queue> {
    let red = |min: u32, max: u32, burst: u32| json!({"limit": 400_000, "min": min, "max": max, "avpkt": 1500, "burst": burst, "probability": 0.1, "ecn": true});
    vec![
        queue("pfifo", 40, false, "pfifo limit 100", json!({"limit": 100})),
        queue("bfifo", 40, false, "", json!({"limit": 50_000})),
        queue(
            "red",
            20,
            true,
            "red limit 400000 min 30000 max 90000 avpkt 1500 burst 40 ecn bandwidth 10mbit probability 0.1",
            red(30_000, 90_000, 40),
        ),
        queue(
            "red step",
            20,
            true,
            "red limit 400000 min 30000 max 30000 avpkt 1500 burst 20 ecn bandwidth 10mbit probability 0.1",
            red(30_000, 30_000, 20),
        ),
        queue("step", 20, true, "", json!({})),
        queue("codel", 40, true, "codel ecn", json!({"ecn": true})),
        queue("fq_codel", 20, true, "fq_codel ecn", json!({})),
        queue("pie", 20, true, "pie ecn", json!({"ecn": true})),
        queue("fq_pie", 20, true, "fq_pie ecn", json!({"ecn": true})),
        queue("pi2", 20, true, "", json!({})),
        queue("dualpi2", 20, true, "", json!({})),
        queue("cake", 20, true, "cake", json!({})),
        queue("cake sce", 20, true, "", json!({"sce": "on"})),
        queue("csaqm", 20, true, "", json!({})),
        queue("docsis_pie", 20, true, "", json!({})),
        queue("mac80211", 20, true, "", json!({})),
        queue("htb_classes", 20, true, "", json!({})),
        queue("fq", 20, true, "", json!({})),
    ]
}

/// Queues that two flows meet in.
fn queues_of_two() -> Vec<Queue> {
    vec![
        queue("codel", 20, true, "codel ecn", json!({"ecn": true})),
        queue("fq_codel", 20, true, "fq_codel ecn", json!({})),
        queue("cake blind", 20, true, "cake flowblind", json!({"isolation": "flowblind"})),
        queue("dualpi2", 20, true, "", json!({})),
    ]
}

/// Measurements of one flow, and of the queue that it passes.
#[derive(Clone, Copy, Debug)]
struct Measured {
    goodput: f64,
    rtt: f64,
    marks: f64,
    drops: f64,
}

/// A cell: one or two flows through one queue.
struct Cell {
    queue: Queue,
    controls: Vec<&'static str>,
}

impl Cell {
    /// Linux's mean over seeds of flow `flow` (0, 1); `None` if the cell was not measured.
    fn linux(&self, flow: usize) -> Option<Measured> {
        let mut lines = LINUX.lines();
        let head: Vec<&str> = lines.next().expect("a heading").split(',').collect();
        let place = |name: &str| head.iter().position(|&column| column == name).unwrap_or_else(|| panic!("no column {name}"));
        let wanted = [
            ("bottleneck.aqm", self.queue.tc.to_owned()),
            ("hosts.ecn", self.queue.ecn.to_string()),
            ("bottleneck.rate", format!("{RATE}Mbit")),
            ("flows.base_rtt", format!("{}ms", self.queue.base_rtt)),
            ("duration", format!("{LINUX_SECONDS}s")),
        ];
        let wanted = wanted.map(|(name, value)| (place(name), value));
        let [number, cc, start, poll] = ["flow", "flows.cc", "flows.start", "poll_ms"].map(place);
        // the lines of a run follow each other, flow by flow
        let lines: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
        let runs = lines.chunk_by(|_, next| next[number] != "0").filter(|run| {
            run.iter().map(|row| row[cc]).eq(self.controls.iter().copied())
                && run.iter().all(|row| ["", "0ms"].contains(&row[start]))
                && wanted.iter().all(|(at, value)| run[0][*at] == value)
                && (run.len() == 1 || ["", "200"].contains(&run[0][poll]))
        });
        let rows: Vec<&Vec<&str>> = runs.map(|run| &run[flow]).collect();
        let mean = |name: &str| {
            rows.iter().map(|row| row[place(name)].parse::<f64>().expect("a number")).sum::<f64>() / rows.len() as f64
        };
        let all = || Measured {
            goodput: mean("goodput_mbit"),
            rtt: mean("rtt_mean_ms"),
            marks: mean("ce_marks"),
            drops: mean("drops"),
        };
        (!rows.is_empty()).then(all)
    }

    fn seconds(&self) -> u64 {
        if self.linux(0).is_some() {
            LINUX_SECONDS
        } else {
            SECONDS
        }
    }

    fn measure(&self) -> Vec<Measured> {
        let path = if self.queue.name == "csaqm" { json!([{"name": "value_marker"}]) } else { json!([]) };
        let flow = |cc: &&str| json!({"cc": {"name": cc}, "base_rtt": self.queue.base_rtt * MS, "path": path});
        let config = json!({"duration": self.seconds() * SECOND, "seed": 1,
            "bottleneck": {"rate": 10_000_000, "shaper": "htb", "aqm": self.queue.aqm},
            "hosts": {"ecn": self.queue.ecn, "sce_feedback": self.queue.name == "cake sce"},
            "flows": self.controls.iter().map(flow).collect::<Vec<Value>>(), "record": {"series": false}});
        let outcome = dumbbell_sim::run(&config, &AtomicBool::new(false), &AtomicU64::new(0))
            .unwrap_or_else(|error| panic!("{error}: {config}"));
        let real = |column: &str, row: usize| outcome.tables.flows.real(column).expect("a column")[row];
        let count = |key: &str| outcome.summary[key].as_f64().expect("a count");
        let of_flow = |row: usize| Measured {
            goodput: real("goodput_mbit", row),
            rtt: real("rtt_mean_ms", row),
            marks: count("ce_marks") + count("sce_marks"),
            drops: count("drops_overflow") + count("drops_aqm"),
        };
        (0..self.controls.len()).map(of_flow).collect()
    }
}

/// Every cell with what was measured, in order.
fn measure(cells: Vec<Cell>) -> Vec<(Cell, Vec<Measured>)> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let measured = cell.measure();
                    found.lock().expect("no thread has failed").push((std::ptr::from_ref(cell).addr(), measured));
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no thread has failed");
    found.sort_unstable_by_key(|(place, _)| *place);
    cells.into_iter().zip(found.into_iter().map(|(_, measured)| measured)).collect()
}

/// The table of `cells`; in each that was measured on Linux and draws no random numbers, goodput must be within `bar` times the rate of
/// Linux's, and the RTT within 5 %.
/// A figure of what was measured.
type Column = fn(&Measured) -> f64;

fn table(cells: Vec<Cell>, bar: f64) -> String {
    let mut table = HEAD.to_owned();
    let mut off = String::new();
    for (cell, measured) in measure(cells) {
        for (flow, here) in measured.iter().enumerate() {
            let name = match cell.controls.get(1 - flow.min(1)).filter(|_| cell.controls.len() > 1) {
                Some(other) => format!("{}/{other}", cell.controls[flow]),
                None => cell.controls[0].to_owned(),
            };
            let mut row = format!("{:<10} {:3} {name:<15} {:2}", cell.queue.name, cell.queue.base_rtt, cell.seconds());
            let linux = cell.linux(flow);
            let columns: [(Column, usize); 4] = [(|m| m.goodput, 2), (|m| m.rtt, 1), (|m| m.marks, 0), (|m| m.drops, 0)];
            for (of, places) in columns {
                write!(row, " {:9.places$}", of(here)).expect("a string takes all");
                let other = linux.as_ref().map_or("-".to_owned(), |linux| format!("{:.places$}", of(linux)));
                write!(row, " {other:>6}").expect("a string takes all");
            }
            if let Some(linux) = linux.filter(|_| !cell.queue.random) {
                if (here.goodput - linux.goodput).abs() > bar * RATE || (here.rtt / linux.rtt - 1.0).abs() > 0.05 {
                    writeln!(off, "{row}").expect("a string takes all");
                }
            }
            writeln!(table, "{row}").expect("a string takes all");
        }
    }
    assert!(off.is_empty(), "not close to Linux:\n{HEAD}{off}");
    table
}

fn controls() -> Vec<&'static str> {
    cc::specs().iter().map(|spec| spec.name).collect()
}

/// One flow of every control in every queue.
#[test]
fn one_flow_is_as_it_was_and_as_on_linux() {
    for spec in aqm::specs() {
        assert!(queues().iter().any(|queue| queue.aqm["name"] == spec.name), "{} is registered and has no cells", spec.name);
    }
    let cells = |queue: usize| controls().into_iter().map(move |cc| Cell { queue: queues().remove(queue), controls: vec![cc] });
    let found = table((0..queues().len()).flat_map(cells).collect(), 0.02);
    assert!(found == ONE_FLOW, "now:\n{found}\nwas:\n{ONE_FLOW}");
}

/// CUBIC beside every control. On Linux, the shares of two flows differ by up to 3 % of the rate with how often TCP_INFO is polled.
#[test]
fn two_flows_are_as_they_were_and_as_on_linux() {
    let cells = |queue: usize| {
        controls().into_iter().map(move |cc| Cell { queue: queues_of_two().remove(queue), controls: vec!["cubic", cc] })
    };
    let found = table((0..queues_of_two().len()).flat_map(cells).collect(), 0.03);
    assert!(found == TWO_FLOWS, "now:\n{found}\nwas:\n{TWO_FLOWS}");
}

/// One flow over the cellular link of `studies/traces/experiments`, which has an outage, in every queue: use of the capacity, mean RTT, P99 of the time
/// in queue (ms), marks and drops (packets).
#[test]
fn a_link_that_follows_a_trace_is_as_it_was() {
    let text = include_bytes!("data/cellular-outage.trace");
    let trace = dumbbell_core::link_trace::LinkTrace::parse("cellular-outage", text).expect("a trace").to_json();
    let mut table = String::from("queue      cc      use    RTT  P99 ms  marks  drops\n");
    for queue in queues().into_iter().filter(|queue| !queue.name.contains(' ')) {
        for cc in ["cubic", "bbr1"] {
            let config = json!({"duration": 30 * SECOND, "seed": 1, "bottleneck": {"trace": trace, "aqm": queue.aqm},
                "hosts": {"ecn": queue.ecn}, "flows": [{"cc": {"name": cc}, "base_rtt": 40 * MS}], "record": {"series": false}});
            let outcome = dumbbell_sim::run(&config, &AtomicBool::new(false), &AtomicU64::new(0))
                .unwrap_or_else(|error| panic!("{error}: {} {cc}", queue.name));
            let [used, p99, marks, drops] = ["utilisation", "sojourn_p99_ms", "ce_marks", "drops"]
                .map(|key| outcome.summary[key].as_f64().expect("a number"));
            let rtt = outcome.tables.flows.real("rtt_mean_ms").expect("a column")[0];
            writeln!(table, "{:<10} {cc:<5} {used:5.3} {rtt:6.1} {p99:7.0} {marks:6} {drops:6}", queue.name)
                .expect("a string takes all");
        }
    }
    assert!(table == TRACE, "now:\n{table}\nwas:\n{TRACE}");
}

const TRACE: &str = "\
queue      cc      use    RTT  P99 ms  marks  drops
pfifo      cubic 0.999  283.5     575      0     31
pfifo      bbr1  0.980  179.0     346      0      0
bfifo      cubic 0.993  124.7     179      0     34
bfifo      bbr1  0.948  132.8     207      0   1278
red        cubic 0.976  115.4     160     21      0
red        bbr1  0.970  181.4     359   5185      0
step       cubic 0.089   50.9      35    677      0
step       bbr1  0.976  190.4     392  14394      0
codel      cubic 0.819   65.2      76    122      0
codel      bbr1  0.972  167.0     342   3935     24
fq_codel   cubic 0.819   65.2      76    122      0
fq_codel   bbr1  0.972  167.0     342   3935     24
pie        cubic 0.889   72.4      96     36      6
pie        bbr1  0.822   70.9     137     32   1503
fq_pie     cubic 0.870   79.0     102     34     14
fq_pie     bbr1  0.736   83.9     156     36   1793
pi2        cubic 0.680   58.6      45     87      0
pi2        bbr1  0.976  179.9     375  10597      0
dualpi2    cubic 0.823   55.2      50     49     17
dualpi2    bbr1  0.895   59.8      78   1066   1986
cake       cubic 0.672   55.3      40    119      0
cake       bbr1  0.967  175.3     354   8584     35
csaqm      cubic 0.146   62.2      49    331      2
csaqm      bbr1  0.982  180.0     338  14050     46
docsis_pie cubic 0.936  100.3     104      0     82
docsis_pie bbr1  0.847   99.6     156      0   1657
mac80211   cubic 0.878   69.6      84     61      1
mac80211   bbr1  0.961  173.7     329   4595     46
htb_classes cubic 0.996 1093.1    4010      0    571
htb_classes bbr1  0.980  179.0     346      0      0
fq         cubic 0.999  283.4     575      0     31
fq         bbr1  0.980  179.0     346      0      0
";

/// One flow over each link that a file may name, in some queues, at 20 Mbit/s and 40 ms: use of the capacity, mean RTT, P99 of the time in queue (ms),
/// marks and drops (packets).
#[test]
fn runs_over_links_are_as_they_were() {
    let mut table = String::from("link     queue    cc      use    RTT  P99 ms  marks  drops\n");
    for spec in dumbbell_core::link::specs() {
        // a trace has its own table, and an unshaped link needs a queue that shapes
        let wanted: &[&str] = match spec.name {
            "trace" => continue,
            "unshaped" => &["cake"],
            _ => &["codel", "fq_codel", "pie", "dualpi2"],
        };
        for queue in queues().into_iter().filter(|queue| wanted.contains(&queue.name)) {
            for cc in ["cubic", "bbr1"] {
                let config = json!({"duration": 40 * SECOND, "seed": 1,
                    "bottleneck": {"rate": 20_000_000, "link": {"name": spec.name}, "aqm": queue.aqm},
                    "hosts": {"ecn": true}, "flows": [{"cc": {"name": cc}, "base_rtt": 40 * MS}], "record": {"series": false}});
                let outcome = dumbbell_sim::run(&config, &AtomicBool::new(false), &AtomicU64::new(0))
                    .unwrap_or_else(|error| panic!("{error}: {} {} {cc}", spec.name, queue.name));
                let [used, p99, marks, drops] = ["utilisation", "sojourn_p99_ms", "ce_marks", "drops"]
                    .map(|key| outcome.summary[key].as_f64().expect("a number"));
                let rtt = outcome.tables.flows.real("rtt_mean_ms").expect("a column")[0];
                writeln!(table, "{:<8} {:<8} {cc:<5} {used:5.3} {rtt:6.1} {p99:7.0} {marks:6} {drops:6}", spec.name, queue.name)
                    .expect("a string takes all");
            }
        }
    }
    assert!(table == LINKS, "now:\n{table}\nwas:\n{LINKS}");
}

const LINKS: &str = "\
link     queue    cc      use    RTT  P99 ms  marks  drops
serial   codel    cubic 0.958   43.2       7     20      0
serial   codel    bbr1  0.979   46.3      43      8      0
serial   fq_codel cubic 0.958   43.2       7     20      0
serial   fq_codel bbr1  0.979   46.3      43      8      0
serial   pie      cubic 0.989   54.5      38     19      0
serial   pie      bbr1  0.979   46.3      43     12      0
serial   dualpi2  cubic 0.996   52.6      21     22      0
serial   dualpi2  bbr1  0.979   46.3      43    196      0
htb      codel    cubic 0.956   42.3       7     21      0
htb      codel    bbr1  0.979   45.4      43      8      0
htb      fq_codel cubic 0.956   42.3       7     21      0
htb      fq_codel bbr1  0.979   45.4      43      8      0
htb      pie      cubic 0.990   53.7      37     18      0
htb      pie      bbr1  0.979   45.4      43     12      0
htb      dualpi2  cubic 0.997   52.3      20     20      0
htb      dualpi2  bbr1  0.979   45.4      39    166     10
unshaped cake     cubic 0.950   42.5       7     21      0
unshaped cake     bbr1  0.979   45.4      43     10      0
wifi     codel    cubic 0.949   44.9      12     24      0
wifi     codel    bbr1  0.979   71.3      56  30552      0
wifi     fq_codel cubic 0.949   44.9      12     24      0
wifi     fq_codel bbr1  0.979   71.3      56  30552      0
wifi     pie      cubic 0.975   54.0      56     22      0
wifi     pie      bbr1  0.979   57.7      49   6925    146
wifi     dualpi2  cubic 0.979   50.9      22     45      0
wifi     dualpi2  bbr1  0.979   56.5      43  10679    334
onoff    codel    cubic 0.928   43.3     200     25      0
onoff    codel    bbr1  0.976   66.8     221  10447      0
onoff    fq_codel cubic 0.928   43.3     200     25      0
onoff    fq_codel bbr1  0.976   66.8     221  10447      0
onoff    pie      cubic 0.986   54.2     219     18      0
onoff    pie      bbr1  0.977   62.2     219   1146    311
onoff    dualpi2  cubic 0.564   42.3     175     20    608
onoff    dualpi2  bbr1  0.949   45.6     139   1428   2091
leo      codel    cubic 0.946   49.0       8     24      0
leo      codel    bbr1  0.977   59.2      65   1119      0
leo      fq_codel cubic 0.946   49.0       8     24      0
leo      fq_codel bbr1  0.977   59.2      65   1119      0
leo      pie      cubic 0.984   60.3      50     23      0
leo      pie      bbr1  0.977   56.6      65     80     99
leo      dualpi2  cubic 0.987   57.3      25     28      0
leo      dualpi2  bbr1  0.977   55.9      64   1075     95
docsis   codel    cubic 0.903   47.6      42     28      0
docsis   codel    bbr1  0.977   84.7      61  31866      0
docsis   fq_codel cubic 0.903   47.6      42     28      0
docsis   fq_codel bbr1  0.977   84.7      61  31866      0
docsis   pie      cubic 0.881   57.0     135     18    343
docsis   pie      bbr1  0.976   59.4      61   2337    806
docsis   dualpi2  cubic 0.873   52.2      65    206     44
docsis   dualpi2  bbr1  0.975   57.6      44  12633   1238
cellular codel    cubic 0.849   45.3      23     40      0
cellular codel    bbr1  0.972  111.4     221  11980      0
cellular fq_codel cubic 0.849   45.3      23     40      0
cellular fq_codel bbr1  0.972  111.4     221  11980      0
cellular pie      cubic 0.953   54.4      62     39      0
cellular pie      bbr1  0.894   64.3     106    110   2897
cellular dualpi2  cubic 0.949   50.3      42     48      0
cellular dualpi2  bbr1  0.916   57.5      77   2978   3786
";

/// At 10 Mbit/s, for `s` seconds; goodput in Mbit/s, base RTT and RTT in ms, marks (CE and SCE) and drops in packets. A queue of RED, PIE
/// or FQ-PIE draws random numbers, of which Linux's mean over seeds is shown.
const ONE_FLOW: &str = "\
queue      RTT cc               s   goodput  Linux       RTT  Linux     marks  Linux     drops  Linux
pfifo       40 reno            60      9.54   9.54     125.6  125.7         0      0       150    148
pfifo       40 cubic           60      9.54   9.54     138.9  138.8         0      0        32     31
pfifo       40 dctcp           10      9.45      -     126.4      -         0      -       140      -
pfifo       40 prague          10      9.37      -     121.4      -         0      -       142      -
pfifo       40 bbr1            10      9.45      -      51.3      -         0      -         0      -
pfifo       40 bbr2            10      9.38      -      45.2      -         0      -         0      -
pfifo       40 bbr3            10      9.27      -      45.0      -         0      -         0      -
pfifo       40 bbr-draft       10      9.28      -      45.3      -         0      -         0      -
pfifo       40 reno-sce        10      9.45      -     117.7      -         0      -       274      -
pfifo       40 dctcp-sce       10      9.45      -     117.7      -         0      -       274      -
pfifo       40 cubic-sce       10      9.45      -     131.9      -         0      -         9      -
pfifo       40 ledbat          10      8.88      -      82.3      -         0      -         0      -
pfifo       40 ledbat-pp       10      8.39      -      88.6      -         0      -         0      -
pfifo       40 constant        10      2.87      -      40.1      -         0      -         0      -
pfifo       40 external        10      2.87      -      40.1      -         0      -         0      -
bfifo       40 reno            10      9.45      -      61.9      -         0      -        76      -
bfifo       40 cubic           10      9.45      -      70.9      -         0      -         7      -
bfifo       40 dctcp           10      9.45      -      61.9      -         0      -        76      -
bfifo       40 prague          10      9.23      -      61.1      -         0      -        81      -
bfifo       40 bbr1            10      9.45      -      48.7      -         0      -        76      -
bfifo       40 bbr2            10      9.39      -      42.6      -         0      -        86      -
bfifo       40 bbr3            10      9.27      -      44.5      -         0      -        22      -
bfifo       40 bbr-draft       10      9.19      -      45.3      -         0      -        24      -
bfifo       40 reno-sce        10      9.31      -      62.0      -         0      -       160      -
bfifo       40 dctcp-sce       10      9.31      -      62.0      -         0      -       160      -
bfifo       40 cubic-sce       10      9.45      -      70.8      -         0      -         7      -
bfifo       40 ledbat          10      8.87      -      61.0      -         0      -         3      -
bfifo       40 ledbat-pp       10      8.43      -      59.9      -         0      -        25      -
bfifo       40 constant        10      2.87      -      40.1      -         0      -         0      -
bfifo       40 external        10      2.87      -      40.1      -         0      -         0      -
red         20 reno            60      9.54   9.54      38.9   38.6       254    238         0      0
red         20 cubic           60      9.56   9.56      41.3   41.5        73     73         0      0
red         20 dctcp           10      9.52      -      53.7      -       424      -         0      -
red         20 prague          10      9.44      -      58.7      -       523      -         0      -
red         20 bbr1            10      9.52      -      30.1      -         9      -         0      -
red         20 bbr2            10      9.45      -      22.3      -         9      -         0      -
red         20 bbr3            10      9.39      -      26.4      -         2      -         0      -
red         20 bbr-draft       10      9.39      -      26.1      -         0      -         1      -
red         20 reno-sce        10      9.43      -      55.0      -       772      -         0      -
red         20 dctcp-sce       10      9.43      -      55.0      -       772      -         0      -
red         20 cubic-sce       10      9.52      -      41.8      -        11      -         0      -
red         20 ledbat          10      9.38      -      39.0      -         9      -         0      -
red         20 ledbat-pp       10      8.57      -      32.8      -         5      -         0      -
red         20 constant        10      5.77      -      20.0      -         0      -         0      -
red         20 external        10      5.77      -      20.0      -         0      -         0      -
red step    20 reno            60      9.05   9.05      32.7   32.7      2676   2676         0      0
red step    20 cubic           60      9.56   9.56      34.2   34.2       409    428         0      0
red step    20 dctcp           10      9.52      -      43.5      -       885      -         0      -
red step    20 prague          10      9.44      -      43.6      -      1365      -         0      -
red step    20 bbr1            10      9.52      -      30.1      -       191      -         0      -
red step    20 bbr2            10      9.45      -      22.3      -       207      -         0      -
red step    20 bbr3            10      9.39      -      26.4      -       253      -         0      -
red step    20 bbr-draft       10      9.39      -      25.0      -         0      -        13      -
red step    20 reno-sce        10      9.07      -      37.0      -      1331      -         0      -
red step    20 dctcp-sce       10      9.07      -      37.0      -      1331      -         0      -
red step    20 cubic-sce       10      9.52      -      34.0      -        99      -         0      -
red step    20 ledbat          10      8.94      -      32.3      -       140      -         0      -
red step    20 ledbat-pp       10      8.23      -      29.6      -        58      -         0      -
red step    20 constant        10      5.77      -      20.0      -         0      -         0      -
red step    20 external        10      5.77      -      20.0      -         0      -         0      -
step        20 reno            10      1.42      -      23.4      -       370      -         0      -
step        20 cubic           10      1.57      -      20.7      -       225      -         0      -
step        20 dctcp           10      3.30      -      21.8      -       896      -         0      -
step        20 prague          10      9.26      -      21.7      -      2184      -         0      -
step        20 bbr1            10      9.52      -      30.2      -      8221      -         0      -
step        20 bbr2            10      9.45      -      22.2      -      1331      -         0      -
step        20 bbr3            10      9.40      -      26.5      -      4582      -         0      -
step        20 bbr-draft       10      9.39      -      26.1      -         0      -         0      -
step        20 reno-sce        10      1.63      -      23.6      -       531      -         0      -
step        20 dctcp-sce       10      1.63      -      23.6      -       531      -         0      -
step        20 cubic-sce       10      1.57      -      20.7      -       225      -         0      -
step        20 ledbat          10      1.51      -      20.4      -       164      -         0      -
step        20 ledbat-pp       10      1.26      -      20.2      -        50      -         0      -
step        20 constant        10      5.77      -      20.0      -        12      -         0      -
step        20 external        10      5.77      -      20.0      -        12      -         0      -
codel       40 reno            60      8.40   8.40      43.2   43.3        68     68         0      0
codel       40 cubic           60      9.21   9.21      43.3   43.3        58     57         0      0
codel       40 dctcp           10      9.41      -      51.1      -       335      -         0      -
codel       40 prague          10      9.37      -      64.2      -       650      -         0      -
codel       40 bbr1            10      9.45      -      51.3      -       171      -         0      -
codel       40 bbr2            10      9.38      -      45.3      -        60      -         0      -
codel       40 bbr3            10      9.27      -      45.0      -        42      -         0      -
codel       40 bbr-draft       10      8.76      -      46.2      -         0      -        45      -
codel       40 reno-sce        10      8.31      -      54.2      -        38      -         0      -
codel       40 dctcp-sce       10      8.31      -      54.2      -        38      -         0      -
codel       40 cubic-sce       10      9.15      -      43.7      -        12      -         0      -
codel       40 ledbat          10      7.84      -      42.9      -         9      -         0      -
codel       40 ledbat-pp       10      7.22      -      43.0      -         5      -         0      -
codel       40 constant        10      2.87      -      40.1      -         0      -         0      -
codel       40 external        10      2.87      -      40.1      -         0      -         0      -
fq_codel    20 reno            60      9.14   9.14      25.5   25.5       173    173         0      0
fq_codel    20 cubic           60      9.51   9.51      24.5   24.5       146    146         0      0
fq_codel    20 dctcp           10      9.51      -      32.2      -       570      -         0      -
fq_codel    20 prague          10      9.44      -      44.0      -       840      -         0      -
fq_codel    20 bbr1            10      9.52      -      30.2      -      2498      -         0      -
fq_codel    20 bbr2            10      9.45      -      22.3      -        16      -         0      -
fq_codel    20 bbr3            10      9.39      -      26.4      -        48      -         0      -
fq_codel    20 bbr-draft       10      9.09      -      24.9      -         0      -        20      -
fq_codel    20 reno-sce        10      9.19      -      40.8      -        61      -         0      -
fq_codel    20 dctcp-sce       10      9.19      -      40.8      -        61      -         0      -
fq_codel    20 cubic-sce       10      9.47      -      24.7      -        25      -         0      -
fq_codel    20 ledbat          10      9.00      -      24.9      -        27      -         0      -
fq_codel    20 ledbat-pp       10      7.89      -      22.9      -         6      -         0      -
fq_codel    20 constant        10      5.77      -      20.0      -         0      -         0      -
fq_codel    20 external        10      5.77      -      20.0      -         0      -         0      -
pie         20 reno            60      9.46   9.43      39.0   39.4        87     88       467    521
pie         20 cubic           60      9.56   9.56      36.5   36.4        82     80         0      0
pie         20 dctcp           10      9.14      -      52.6      -       196      -       459      -
pie         20 prague          10      8.83      -      62.0      -       115      -      4412      -
pie         20 bbr1            10      9.52      -      30.1      -         0      -         0      -
pie         20 bbr2            10      9.45      -      22.3      -         0      -         0      -
pie         20 bbr3            10      9.39      -      26.4      -         0      -         0      -
pie         20 bbr-draft       10      9.39      -      26.1      -         0      -         0      -
pie         20 reno-sce        10      8.55      -      64.2      -        29      -       518      -
pie         20 dctcp-sce       10      8.55      -      64.2      -        29      -       518      -
pie         20 cubic-sce       10      9.52      -      36.8      -        14      -         0      -
pie         20 ledbat          10      9.33      -      36.5      -        12      -         0      -
pie         20 ledbat-pp       10      8.85      -      36.3      -         3      -         0      -
pie         20 constant        10      5.77      -      20.0      -         0      -         0      -
pie         20 external        10      5.77      -      20.0      -         0      -         0      -
fq_pie      20 reno            10      9.02      -      49.5      -        18      -       465      -
fq_pie      20 cubic           60      9.56   9.56      36.3   36.5        78     79         0      0
fq_pie      20 dctcp           10      9.15      -      50.4      -       210      -       451      -
fq_pie      20 prague          10      8.98      -      51.1      -       198      -       159      -
fq_pie      20 bbr1            10      9.52      -      30.1      -         1      -         0      -
fq_pie      20 bbr2            10      9.45      -      22.3      -         0      -         0      -
fq_pie      20 bbr3            10      9.39      -      26.4      -         0      -         0      -
fq_pie      20 bbr-draft       10      9.39      -      26.1      -         0      -         0      -
fq_pie      20 reno-sce        10      8.66      -      64.4      -        28      -       537      -
fq_pie      20 dctcp-sce       10      8.66      -      64.4      -        28      -       537      -
fq_pie      20 cubic-sce       10      9.52      -      36.6      -        14      -         0      -
fq_pie      20 ledbat          10      9.37      -      37.6      -        11      -         0      -
fq_pie      20 ledbat-pp       10      8.85      -      35.5      -         3      -         0      -
fq_pie      20 constant        10      5.77      -      20.0      -         0      -         0      -
fq_pie      20 external        10      5.77      -      20.0      -         0      -         0      -
pi2         20 reno            10      9.22      -      28.1      -        34      -         0      -
pi2         20 cubic           10      9.40      -      29.3      -        21      -         0      -
pi2         20 dctcp           10      9.52      -      42.0      -       379      -         0      -
pi2         20 prague          10      9.44      -      42.9      -       607      -         0      -
pi2         20 bbr1            10      9.52      -      30.1      -       156      -         0      -
pi2         20 bbr2            10      9.45      -      22.2      -        89      -         0      -
pi2         20 bbr3            10      9.39      -      26.3      -       130      -         0      -
pi2         20 bbr-draft       10      9.37      -      25.7      -         0      -         5      -
pi2         20 reno-sce        10      8.53      -      28.8      -       181      -         0      -
pi2         20 dctcp-sce       10      8.53      -      28.8      -       181      -         0      -
pi2         20 cubic-sce       10      9.38      -      29.8      -        25      -         0      -
pi2         20 ledbat          10      8.93      -      26.5      -        31      -         0      -
pi2         20 ledbat-pp       10      8.49      -      26.7      -         6      -         0      -
pi2         20 constant        10      5.77      -      20.0      -         0      -         0      -
pi2         20 external        10      5.77      -      20.0      -         0      -         0      -
dualpi2     20 reno            10      9.35      -      34.9      -        46      -         0      -
dualpi2     20 cubic           10      9.52      -      36.1      -        16      -         0      -
dualpi2     20 dctcp           10      9.50      -      38.3      -       479      -         0      -
dualpi2     20 prague          10      9.26      -      21.7      -      2184      -         0      -
dualpi2     20 bbr1            10      9.52      -      30.1      -        18      -         0      -
dualpi2     20 bbr2            10      9.45      -      22.4      -        12      -         0      -
dualpi2     20 bbr3            10      9.39      -      26.4      -        12      -         0      -
dualpi2     20 bbr-draft       10      9.38      -      25.8      -         0      -         3      -
dualpi2     20 reno-sce        10      8.88      -      36.2      -       113      -       196      -
dualpi2     20 dctcp-sce       10      8.88      -      36.2      -       113      -       196      -
dualpi2     20 cubic-sce       10      9.52      -      36.7      -        18      -         0      -
dualpi2     20 ledbat          10      9.34      -      34.3      -        15      -         0      -
dualpi2     20 ledbat-pp       10      8.73      -      31.0      -         7      -         0      -
dualpi2     20 constant        10      5.77      -      20.0      -         0      -         0      -
dualpi2     20 external        10      5.77      -      20.0      -         0      -         0      -
cake        20 reno            60      9.00   9.00      25.3   25.3       166    166         0      0
cake        20 cubic           60      9.42   9.42      24.7   24.7       145    145         0      0
cake        20 dctcp           10      9.46      -      26.2      -       723      -         0      -
cake        20 prague          10      9.36      -      30.8      -       954      -         0      -
cake        20 bbr1            10      9.52      -      29.4      -      2585      -         0      -
cake        20 bbr2            10      9.31      -      22.2      -         6      -         0      -
cake        20 bbr3            10      9.36      -      26.4      -        36      -         0      -
cake        20 bbr-draft       10      9.06      -      25.7      -         0      -        39      -
cake        20 reno-sce        10      9.12      -      29.9      -        41      -         0      -
cake        20 dctcp-sce       10      9.12      -      29.9      -        41      -         0      -
cake        20 cubic-sce       10      9.34      -      24.6      -        23      -         0      -
cake        20 ledbat          10      8.86      -      25.0      -        26      -         0      -
cake        20 ledbat-pp       10      7.66      -      23.4      -         6      -         0      -
cake        20 constant        10      5.44      -      21.2      -         1      -         0      -
cake        20 external        10      5.44      -      21.2      -         1      -         0      -
cake sce    20 reno            10      8.94      -      25.3      -      3919      -         0      -
cake sce    20 cubic           10      9.34      -      24.8      -      3807      -         0      -
cake sce    20 dctcp           10      9.44      -      25.6      -      6056      -         0      -
cake sce    20 prague          10      9.36      -      30.8      -       954      -         0      -
cake sce    20 bbr1            10      9.52      -      29.4      -      8215      -         0      -
cake sce    20 bbr2            10      9.33      -      22.2      -       533      -         0      -
cake sce    20 bbr3            10      9.37      -      26.4      -      3350      -         0      -
cake sce    20 bbr-draft       10      9.06      -      25.7      -         0      -        39      -
cake sce    20 reno-sce        10      8.20      -      23.0      -      1515      -         0      -
cake sce    20 dctcp-sce       10      6.75      -      23.5      -       796      -         0      -
cake sce    20 cubic-sce       10      9.42      -      23.4      -      1766      -         0      -
cake sce    20 ledbat          10      8.88      -      25.0      -      3872      -         0      -
cake sce    20 ledbat-pp       10      7.65      -      23.4      -      1630      -         0      -
cake sce    20 constant        10      5.44      -      21.2      -         7      -         0      -
cake sce    20 external        10      5.44      -      21.2      -         7      -         0      -
csaqm       20 reno            10      8.44      -      22.5      -       124      -         0      -
csaqm       20 cubic           10      9.04      -      22.4      -        76      -         0      -
csaqm       20 dctcp           10      9.46      -      25.5      -       702      -         0      -
csaqm       20 prague          10      9.37      -      26.5      -      1105      -         0      -
csaqm       20 bbr1            10      9.52      -      30.1      -      3525      -         0      -
csaqm       20 bbr2            10      9.45      -      22.3      -       513      -         0      -
csaqm       20 bbr3            10      9.39      -      26.4      -      1880      -         0      -
csaqm       20 bbr-draft       10      9.25      -      20.8      -         0      -       117      -
csaqm       20 reno-sce        10      8.03      -      23.8      -       411      -         0      -
csaqm       20 dctcp-sce       10      8.03      -      23.8      -       411      -         0      -
csaqm       20 cubic-sce       10      9.03      -      22.5      -        69      -         0      -
csaqm       20 ledbat          10      8.44      -      22.5      -       143      -         0      -
csaqm       20 ledbat-pp       10      7.07      -      21.9      -        21      -         0      -
csaqm       20 constant        10      5.77      -      20.0      -         1      -         0      -
csaqm       20 external        10      5.77      -      20.0      -         1      -         0      -
docsis_pie  20 reno            10      9.44      -      39.6      -         0      -       137      -
docsis_pie  20 cubic           10      9.52      -      35.5      -         0      -        15      -
docsis_pie  20 dctcp           10      9.44      -      39.6      -         0      -       137      -
docsis_pie  20 prague          10      9.22      -      38.9      -         0      -       128      -
docsis_pie  20 bbr1            10      9.52      -      30.1      -         0      -         1      -
docsis_pie  20 bbr2            10      9.45      -      22.3      -         0      -         0      -
docsis_pie  20 bbr3            10      9.39      -      26.4      -         0      -         0      -
docsis_pie  20 bbr-draft       10      9.39      -      26.1      -         0      -         0      -
docsis_pie  20 reno-sce        10      9.36      -      43.3      -         0      -       249      -
docsis_pie  20 dctcp-sce       10      9.36      -      43.3      -         0      -       249      -
docsis_pie  20 cubic-sce       10      9.50      -      35.0      -         0      -        17      -
docsis_pie  20 ledbat          10      9.36      -      36.3      -         0      -        11      -
docsis_pie  20 ledbat-pp       10      8.85      -      31.0      -         0      -         4      -
docsis_pie  20 constant        10      5.77      -      20.0      -         0      -         0      -
docsis_pie  20 external        10      5.77      -      20.0      -         0      -         0      -
mac80211    20 reno            10      9.02      -      39.6      -        21      -         0      -
mac80211    20 cubic           10      9.02      -      38.4      -        13      -         0      -
mac80211    20 dctcp           10      9.02      -      48.8      -       368      -         0      -
mac80211    20 prague          10      8.95      -      60.2      -       671      -         0      -
mac80211    20 bbr1            10      9.02      -      53.0      -      2215      -         0      -
mac80211    20 bbr2            10      8.92      -      29.6      -         3      -         0      -
mac80211    20 bbr3            10      8.92      -      34.4      -        19      -         0      -
mac80211    20 bbr-draft       10      8.80      -      33.2      -         0      -        22      -
mac80211    20 reno-sce        10      8.97      -      54.0      -        55      -         0      -
mac80211    20 dctcp-sce       10      8.97      -      54.0      -        55      -         0      -
mac80211    20 cubic-sce       10      9.02      -      38.8      -        13      -         0      -
mac80211    20 ledbat          10      8.89      -      34.8      -        12      -         0      -
mac80211    20 ledbat-pp       10      8.37      -      33.4      -         3      -         0      -
mac80211    20 constant        10      5.39      -      21.4      -         0      -         0      -
mac80211    20 external        10      5.39      -      21.4      -         0      -         0      -
htb_classes  20 reno            10      9.52      -     862.3      -         0      -       651      -
htb_classes  20 cubic           10      9.52      -     272.9      -         0      -         0      -
htb_classes  20 dctcp           10      9.52      -     862.3      -         0      -       651      -
htb_classes  20 prague          10      9.44      -     783.2      -         0      -       289      -
htb_classes  20 bbr1            10      9.52      -      30.1      -         0      -         0      -
htb_classes  20 bbr2            10      9.45      -      22.3      -         0      -         0      -
htb_classes  20 bbr3            10      9.39      -      26.4      -         0      -         0      -
htb_classes  20 bbr-draft       10      9.39      -      26.1      -         0      -         0      -
htb_classes  20 reno-sce        10      9.52      -     800.1      -         0      -       816      -
htb_classes  20 dctcp-sce       10      9.52      -     800.1      -         0      -       816      -
htb_classes  20 cubic-sce       10      9.52      -     274.0      -         0      -         0      -
htb_classes  20 ledbat          10      9.38      -      77.1      -         0      -         0      -
htb_classes  20 ledbat-pp       10      8.85      -      71.3      -         0      -         0      -
htb_classes  20 constant        10      5.77      -      20.0      -         0      -         0      -
htb_classes  20 external        10      5.77      -      20.0      -         0      -         0      -
fq          20 reno            10      9.52      -     106.0      -         0      -       122      -
fq          20 cubic           10      9.52      -     113.1      -         0      -         8      -
fq          20 dctcp           10      9.52      -     106.0      -         0      -       122      -
fq          20 prague          10      9.44      -     103.8      -         0      -       130      -
fq          20 bbr1            10      9.52      -      30.1      -         0      -         0      -
fq          20 bbr2            10      9.45      -      22.3      -         0      -         0      -
fq          20 bbr3            10      9.39      -      26.4      -         0      -         0      -
fq          20 bbr-draft       10      9.39      -      26.1      -         0      -         0      -
fq          20 reno-sce        10      9.52      -     105.3      -         0      -       244      -
fq          20 dctcp-sce       10      9.52      -     105.3      -         0      -       244      -
fq          20 cubic-sce       10      9.52      -     113.5      -         0      -         8      -
fq          20 ledbat          10      9.38      -      77.1      -         0      -         0      -
fq          20 ledbat-pp       10      8.85      -      71.3      -         0      -         0      -
fq          20 constant        10      5.77      -      20.0      -         0      -         0      -
fq          20 external        10      5.77      -      20.0      -         0      -         0      -
";

/// Runs of two flows, as above: the first name is the flow's own, the second that of the flow beside it. Marks and drops are of both.
const TWO_FLOWS: &str = "\
queue      RTT cc               s   goodput  Linux       RTT  Linux     marks  Linux     drops  Linux
codel       20 cubic/reno      60      4.39   4.27      29.9   30.0       412    414         0      0
codel       20 reno/cubic      60      5.15   5.27      29.7   29.8       412    414         0      0
codel       20 cubic/cubic     10      4.79      -      30.2      -        67      -         0      -
codel       20 cubic/cubic     10      4.73      -      30.2      -        67      -         0      -
codel       20 cubic/dctcp     10      1.71      -      38.7      -       607      -         0      -
codel       20 dctcp/cubic     10      7.81      -      33.4      -       607      -         0      -
codel       20 cubic/prague    10      1.26      -      42.6      -       819      -         0      -
codel       20 prague/cubic    10      8.20      -      37.0      -       819      -         0      -
codel       20 cubic/bbr1      10      0.87      -      53.8      -      2404      -         0      -
codel       20 bbr1/cubic      10      8.65      -      50.0      -      2404      -         0      -
codel       20 cubic/bbr2      10      1.45      -      47.2      -       532      -         0      -
codel       20 bbr2/cubic      10      8.05      -      40.2      -       532      -         0      -
codel       20 cubic/bbr3      10      1.75      -      42.9      -       621      -         0      -
codel       20 bbr3/cubic      10      7.72      -      37.7      -       621      -         0      -
codel       20 cubic/bbr-draft 10      3.41      -      34.0      -        42      -        97      -
codel       20 bbr-draft/cubic 10      6.05      -      32.1      -        42      -        97      -
codel       20 cubic/reno-sce  10      5.07      -      36.7      -        94      -         0      -
codel       20 reno-sce/cubic  10      4.44      -      39.8      -        94      -         0      -
codel       20 cubic/dctcp-sce 10      5.07      -      36.7      -        94      -         0      -
codel       20 dctcp-sce/cubic 10      4.44      -      39.8      -        94      -         0      -
codel       20 cubic/cubic-sce 10      4.91      -      30.7      -        70      -         0      -
codel       20 cubic-sce/cubic 10      4.61      -      30.9      -        70      -         0      -
codel       20 cubic/ledbat    10      4.85      -      29.9      -        65      -         0      -
codel       20 ledbat/cubic    10      4.66      -      29.5      -        65      -         0      -
codel       20 cubic/ledbat-pp 10      6.64      -      27.6      -        38      -         0      -
codel       20 ledbat-pp/cubic 10      2.87      -      30.0      -        38      -         0      -
codel       20 cubic/constant  10      5.36      -      28.2      -        59      -         0      -
codel       20 constant/cubic  10      4.16      -      28.5      -        59      -         0      -
codel       20 cubic/external  10      5.36      -      28.2      -        59      -         0      -
codel       20 external/cubic  10      4.16      -      28.5      -        59      -         0      -
fq_codel    20 cubic/reno      60      4.93   4.93      28.6   28.8       418    416         0      0
fq_codel    20 reno/cubic      60      4.60   4.60      29.6   29.6       418    416         0      0
fq_codel    20 cubic/cubic     10      4.75      -      30.7      -        71      -         0      -
fq_codel    20 cubic/cubic     10      4.78      -      29.2      -        71      -         0      -
fq_codel    20 cubic/dctcp     10      4.75      -      30.7      -       576      -         0      -
fq_codel    20 dctcp/cubic     10      4.78      -      35.6      -       576      -         0      -
fq_codel    20 cubic/prague    10      4.74      -      30.7      -       737      -         0      -
fq_codel    20 prague/cubic    10      4.75      -      44.1      -       737      -         0      -
fq_codel    20 cubic/bbr1      10      4.73      -      30.8      -      2382      -         0      -
fq_codel    20 bbr1/cubic      10      4.79      -      61.4      -      2382      -         0      -
fq_codel    20 cubic/bbr2      10      4.77      -      30.4      -        94      -         0      -
fq_codel    20 bbr2/cubic      10      4.75      -      27.8      -        94      -         0      -
fq_codel    20 cubic/bbr3      10      4.76      -      30.6      -       363      -         0      -
fq_codel    20 bbr3/cubic      10      4.73      -      36.8      -       363      -         0      -
fq_codel    20 cubic/bbr-draft 10      4.81      -      30.6      -        38      -        77      -
fq_codel    20 bbr-draft/cubic 10      4.69      -      30.6      -        38      -        77      -
fq_codel    20 cubic/reno-sce  10      4.79      -      30.5      -       104      -         0      -
fq_codel    20 reno-sce/cubic  10      4.73      -      48.0      -       104      -         0      -
fq_codel    20 cubic/dctcp-sce 10      4.79      -      30.5      -       104      -         0      -
fq_codel    20 dctcp-sce/cubic 10      4.73      -      48.0      -       104      -         0      -
fq_codel    20 cubic/cubic-sce 10      4.74      -      30.7      -        71      -         0      -
fq_codel    20 cubic-sce/cubic 10      4.78      -      29.3      -        71      -         0      -
fq_codel    20 cubic/ledbat    10      4.90      -      30.2      -        74      -         0      -
fq_codel    20 ledbat/cubic    10      4.57      -      28.8      -        74      -         0      -
fq_codel    20 cubic/ledbat-pp 10      5.33      -      30.3      -        45      -         0      -
fq_codel    20 ledbat-pp/cubic 10      4.06      -      25.3      -        45      -         0      -
fq_codel    20 cubic/constant  10      4.74      -      30.6      -        38      -         0      -
fq_codel    20 constant/cubic  10      4.79      -      24.1      -        38      -         0      -
fq_codel    20 cubic/external  10      4.74      -      30.6      -        38      -         0      -
fq_codel    20 external/cubic  10      4.79      -      24.1      -        38      -         0      -
cake blind  20 cubic/reno      60      4.83   5.00      27.1   26.9       473    479         0      0
cake blind  20 reno/cubic      60      4.60   4.44      27.4   27.3       473    479         0      0
cake blind  20 cubic/cubic     10      4.64      -      26.9      -        76      -         0      -
cake blind  20 cubic/cubic     10      4.85      -      27.1      -        76      -         0      -
cake blind  20 cubic/dctcp     60      1.17   1.15      31.4   31.1      5720   5764         0      0
cake blind  20 dctcp/cubic     60      8.39   8.40      26.0   26.0      5720   5764         0      0
cake blind  20 cubic/prague    10      1.12      -      37.0      -       987      -         0      -
cake blind  20 prague/cubic    10      8.34      -      31.8      -       987      -         0      -
cake blind  20 cubic/bbr1      10      0.65      -      53.4      -      2595      -         0      -
cake blind  20 bbr1/cubic      10      8.87      -      49.0      -      2595      -         0      -
cake blind  20 cubic/bbr2      10      0.92      -      42.2      -      2043      -         0      -
cake blind  20 bbr2/cubic      10      8.53      -      39.0      -      2043      -         0      -
cake blind  20 cubic/bbr3      10      1.03      -      39.9      -      1675      -         0      -
cake blind  20 bbr3/cubic      10      8.42      -      35.7      -      1675      -         0      -
cake blind  20 cubic/bbr-draft 10      3.34      -      29.0      -        52      -        89      -
cake blind  20 bbr-draft/cubic 10      5.99      -      27.0      -        52      -        89      -
cake blind  20 cubic/reno-sce  10      3.97      -      29.3      -       166      -         0      -
cake blind  20 reno-sce/cubic  10      5.19      -      30.1      -       166      -         0      -
cake blind  20 cubic/dctcp-sce 10      3.97      -      29.3      -       166      -         0      -
cake blind  20 dctcp-sce/cubic 10      5.19      -      30.1      -       166      -         0      -
cake blind  20 cubic/cubic-sce 10      4.65      -      27.2      -        74      -         0      -
cake blind  20 cubic-sce/cubic 10      4.84      -      27.3      -        74      -         0      -
cake blind  20 cubic/ledbat    10      4.65      -      26.7      -        78      -         0      -
cake blind  20 ledbat/cubic    10      4.73      -      26.2      -        78      -         0      -
cake blind  20 cubic/ledbat-pp 10      6.50      -      26.6      -        40      -         0      -
cake blind  20 ledbat-pp/cubic 10      2.90      -      29.5      -        40      -         0      -
cake blind  20 cubic/constant  10      5.18      -      27.1      -        52      -         0      -
cake blind  20 constant/cubic  10      4.32      -      27.2      -        52      -         0      -
cake blind  20 cubic/external  10      5.18      -      27.1      -        52      -         0      -
cake blind  20 external/cubic  10      4.32      -      27.2      -        52      -         0      -
dualpi2     20 cubic/reno      10      3.96      -      37.4      -        78      -         0      -
dualpi2     20 reno/cubic      10      5.53      -      36.8      -        78      -         0      -
dualpi2     20 cubic/cubic     10      5.29      -      37.3      -        55      -         0      -
dualpi2     20 cubic/cubic     10      4.24      -      37.3      -        55      -         0      -
dualpi2     20 cubic/dctcp     10      1.51      -      44.7      -       512      -         0      -
dualpi2     20 dctcp/cubic     10      8.01      -      38.3      -       512      -         0      -
dualpi2     20 cubic/prague    10      6.76      -      36.9      -       767      -         0      -
dualpi2     20 prague/cubic    10      2.73      -      23.2      -       767      -         0      -
dualpi2     20 cubic/bbr1      10      1.16      -      45.1      -      1272      -       185      -
dualpi2     20 bbr1/cubic      10      8.34      -      40.6      -      1272      -       185      -
dualpi2     20 cubic/bbr2      10      1.74      -      43.5      -       393      -         0      -
dualpi2     20 bbr2/cubic      10      7.78      -      39.5      -       393      -         0      -
dualpi2     20 cubic/bbr3      10      1.92      -      43.6      -       412      -         0      -
dualpi2     20 bbr3/cubic      10      7.60      -      39.1      -       412      -         0      -
dualpi2     20 cubic/bbr-draft 10      3.34      -      38.4      -        37      -       104      -
dualpi2     20 bbr-draft/cubic 10      6.16      -      36.8      -        37      -       104      -
dualpi2     20 cubic/reno-sce  10      3.51      -      37.1      -       139      -        58      -
dualpi2     20 reno-sce/cubic  10      5.83      -      37.8      -       139      -        58      -
dualpi2     20 cubic/dctcp-sce 10      3.51      -      37.1      -       139      -        58      -
dualpi2     20 dctcp-sce/cubic 10      5.83      -      37.8      -       139      -        58      -
dualpi2     20 cubic/cubic-sce 10      4.84      -      37.5      -        63      -         0      -
dualpi2     20 cubic-sce/cubic 10      4.68      -      37.9      -        63      -         0      -
dualpi2     20 cubic/ledbat    10      4.74      -      37.4      -        54      -         0      -
dualpi2     20 ledbat/cubic    10      4.78      -      36.7      -        54      -         0      -
dualpi2     20 cubic/ledbat-pp 10      7.29      -      35.8      -        27      -         0      -
dualpi2     20 ledbat-pp/cubic 10      2.21      -      38.2      -        27      -         0      -
dualpi2     20 cubic/constant  10      6.31      -      37.3      -        34      -         0      -
dualpi2     20 constant/cubic  10      3.22      -      37.1      -        34      -         0      -
dualpi2     20 cubic/external  10      6.31      -      37.3      -        34      -         0      -
dualpi2     20 external/cubic  10      3.22      -      37.1      -        34      -         0      -
";
