//! Tries a plugin out: random operations on a queue discipline, and random runs of either kind, each twice, the second time by a copy that was made on the way.

use crate::load::{Make, Plugin};
use dumbbell_config::extensions::{Extensions, PluginFault};
use dumbbell_core::aqm::{self, Aqm, Dequeue, QueueContext};
use dumbbell_core::fork::SharedCopies;
use dumbbell_core::log::{At, DropReason, DropSite, Log, Mark, MarkReason};
use dumbbell_core::packet::{Ecn, FlowKey, Packet, MTU_FRAME};
use dumbbell_core::rng::{mix, Rng};
use dumbbell_core::units::{Duration, Instant, Rate};
use serde_json::{json, Map, Value};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Counts of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrialCounts {
    /// Sequences of operations on a queue discipline.
    pub sequences: u32,
    /// Runs. Each was made twice, the second time by a copy, if the plugin can be copied.
    pub runs: u32,
}

/// How far a trial has come, for who watches it from another thread.
#[derive(Debug, Default)]
pub struct TrialProgress {
    /// Sequences and runs that are done.
    done: AtomicU64,
    /// Simulated time of the run that is being made, ns.
    simulated: Arc<AtomicU64>,
    doing: Mutex<String>,
}

impl TrialProgress {
    /// Sequences and runs that are done.
    pub fn count_done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Simulated time of the run that is being made, ns.
    pub fn simulated_time(&self) -> u64 {
        self.simulated.load(Ordering::Relaxed)
    }

    /// Returns the current step in words.
    pub fn current_step(&self) -> String {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn begin(&self, number: u32, what: &str, seed: u64, config: Option<&Value>) {
        let mut doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
        doing.clear();
        // a String takes everything
        let _ = write!(doing, "{what} {number} of seed {seed}");
        if let Some(config) = config {
            let _ = write!(doing, "; its configuration: {config}");
        }
        self.simulated.store(0, Ordering::Relaxed);
    }

    fn end(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tries `plugin` in `sequences` sequences of operations, if it is a queue discipline, and in `runs` runs, all drawn from `seed`. `simulate` makes
/// a run of a configuration, stores its simulated time as it goes, and returns its hash; if its third argument is true, that of a copy which is made on the way, if there is one.
/// `watch` counts what is done.
///
/// # Errors
/// One line: what went wrong, and where.
pub fn try_out(
    plugin: &Plugin,
    seed: u64,
    sequences: u32,
    runs: u32,
    watch: &TrialProgress,
    simulate: impl Fn(&Value, Extensions, bool, &AtomicU64) -> Result<String, String>,
) -> Result<TrialCounts, String> {
    let mut tried = TrialCounts::default();
    if matches!(plugin.make(), Make::Queue(_)) {
        for number in 0..sequences {
            watch.begin(number, "sequence", seed, None);
            let place = |what: String| format!("sequence {number} of seed {seed}: {what}");
            let first = sequence(plugin, seed, number, false).map_err(place)?;
            if first != sequence(plugin, seed, number, false).map_err(place)? {
                return Err(place("the same operations gave another result the second time".to_owned()));
            }
            if first != sequence(plugin, seed, number, true).map_err(place)? {
                return Err(place("a copy of the queue did not go on as the queue itself".to_owned()));
            }
            tried.sequences += 1;
            watch.end();
        }
    }
    for number in 0..runs {
        let config = configuration(plugin, seed, number);
        watch.begin(number, "run", seed, Some(&config));
        let place = |what: String| format!("run {number} of seed {seed}: {what}; its configuration: {config}");
        // events of a run are limited by its time; a plugin that lets none pass is somebody else's to end
        let run = |is_copied| {
            let mut extensions = Extensions::default();
            plugin.add_to(&mut extensions, plugin.name());
            simulate(&config, extensions, is_copied, &watch.simulated).map_err(place)
        };
        let first = run(false)?;
        if first != run(true)? {
            // the copy, or what the plugin does
            let cause = if first == run(false)? { "by a copy that was made on the way" } else { "the second time" };
            return Err(place(format!("the same run gave another result {cause}")));
        }
        tried.runs += 1;
        watch.end();
    }
    // the least of all mistakes comes last
    plugin.without_effect().map_or(Ok(tried), |what| Err(what.to_owned()))
}

/// Values of parameters of a queue or a control: the defaults half of the time, else each anywhere in its range.
fn keys(plugin: &Plugin, rng: &mut Rng) -> Map<String, Value> {
    let mut keys = Map::from_iter([("name".to_owned(), json!(plugin.name()))]);
    if let Make::Stack { controls, .. } = plugin.make() {
        // any of its controls; an initial window of 1 TB is no test of it
        keys.insert("control".to_owned(), json!(controls[rng.draw_below(controls.len() as u64) as usize]));
        return keys;
    }
    if rng.draw_below(2) == 1 {
        keys.extend(plugin.params().iter().map(|param| (param.name.clone(), param.draw(rng.next_f64()))));
    }
    keys
}

/// Writes down what happens, as a number that depends on all of it, and counts.
#[derive(Default)]
struct Story {
    hash: u64,
    enqueued: u64,
    left: u64,
    wrong: Option<String>,
}

impl Story {
    fn push_event(&mut self, event: u64, packet: &Packet, at: Instant) {
        self.hash = mix(self.hash ^ mix(event ^ packet.number() << 3) ^ at.0);
    }
}

impl Log for Story {
    fn on_enqueue(&mut self, packet: &Packet, at: At) {
        self.enqueued += 1;
        self.push_event(1, packet, at.now);
    }
    fn on_dequeue(&mut self, packet: &Packet, at: At) {
        self.left += 1;
        self.push_event(2, packet, at.now);
        if packet.enqueue_time > at.now {
            self.wrong = Some(format!("packet {} left before it came", packet.number()));
        }
    }
    fn on_mark(&mut self, packet: &Packet, _before: Ecn, _mark: Mark, _reason: MarkReason, at: At) {
        self.push_event(3, packet, at.now);
    }
    fn on_drop(&mut self, packet: &Packet, _reason: DropReason, place: DropSite, at: At) {
        self.left += u64::from(place == DropSite::Queue);
        self.push_event(4, packet, at.now);
    }
}

/// Operations in a sequence.
const OPERATIONS: u64 = 600;
/// Flows in a sequence.
const FLOWS: u32 = 12;

/// Runs one sequence of operations, and returns a number that depends on all that happened. If `is_copied`, a copy of the queue takes the second half, if the queue can be copied.
fn sequence(plugin: &Plugin, seed: u64, number: u32, is_copied: bool) -> Result<u64, String> {
    let mut rng = Rng::stream(seed, "operations", u64::from(number));
    let fault = PluginFault::default();
    let rates = [Rate::from_mbit(1), Rate::from_mbit(10), Rate::from_mbit(100), Rate::from_mbit(10_000)];
    let rate = |of: &mut Rng| rates[of.draw_below(rates.len() as u64) as usize];
    let context = QueueContext::new(rate(&mut rng), rng.next_u64());
    let values = plugin.values(&keys(plugin, &mut rng)).map_err(|error| error.to_string())?;
    let Make::Queue(make) = plugin.make() else { return Err("no queue discipline".to_owned()) };
    let mut queue = make(&values, &context, fault.clone());
    let (mut story, mut now, mut original) = (Story::default(), Instant::ZERO, None);
    for flow in 0..FLOWS {
        queue.flow_starts(flow, &FlowKey { src_host: flow / 3, dst_host: 7, ports: flow, dscp: (flow * 5 % 64) as u8 });
    }
    // bursts and silence: one of them rules for a while
    let mut arrivals = 5;
    for operation in 0..OPERATIONS {
        if rng.draw_below(40) == 0 {
            arrivals = 1 + rng.draw_below(9);
        }
        if is_copied && operation == OPERATIONS / 2 {
            if let Ok(copy) = queue.fork(&mut SharedCopies::default()) {
                // the original moves before the copy does, and is there as long
                original = Some(std::mem::replace(&mut queue, copy));
            }
        }
        if let Some(moved) = &mut original {
            moved.dequeue(now, &mut Story::default());
        }
        now += Duration([0, 1, 1_000, 120_000, 1_000_000, 30_000_000, 2_000_000_000][rng.draw_below(7) as usize]);
        while queue.next_timer() <= now && fault.message().is_none() {
            let due = queue.next_timer();
            queue.on_timer(due, &mut story);
        }
        if rng.draw_below(20) == 0 {
            let mut told = 0.0;
            queue.state(&mut |_, value| told += value);
        }
        match rng.draw_below(10) {
            draw if draw < arrivals => {
                let len = if rng.draw_below(3) == 0 { 66 + rng.draw_below(1400) as u16 } else { MTU_FRAME };
                let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][rng.draw_below(4) as usize];
                let flow = rng.draw_below(u64::from(FLOWS)) as u32;
                queue.enqueue(Packet { flow, len, ..Packet::new_tcp(operation, ecn, 0) }, now, &mut story);
            }
            9 if rng.draw_below(8) == 0 => queue.set_rate(rate(&mut rng), now),
            _ => drop(queue.dequeue(now, &mut story)),
        }
        check(&queue, &story, &fault)?;
    }
    // what is left comes out
    for _ in 0..=OPERATIONS {
        match queue.dequeue(now, &mut story) {
            Dequeue::Packet(_) => {}
            Dequeue::Wait(until) => now = until,
            Dequeue::Empty => break,
        }
    }
    check(&queue, &story, &fault)?;
    match queue.packets() {
        0 => Ok(story.hash),
        packets => Err(format!("{packets} packets never leave")),
    }
}

fn check(queue: &impl Aqm, story: &Story, fault: &PluginFault) -> Result<(), String> {
    if let Some(what) = fault.message() {
        return Err(what.to_owned());
    }
    if let Some(what) = &story.wrong {
        return Err(what.clone());
    }
    let held = story.enqueued - story.left;
    if held != queue.packets() as u64 {
        return Err(format!("{held} packets should be queued, {} are", queue.packets()));
    }
    Ok(())
}

/// A short run with the plugin in it.
fn configuration(plugin: &Plugin, seed: u64, number: u32) -> Value {
    let mut rng = Rng::stream(seed, "runs", u64::from(number));
    let mut any = |values: &[u64]| values[rng.draw_below(values.len() as u64) as usize];
    let rate = any(&[1_000_000, 10_000_000, 50_000_000]);
    let base_rtt = any(&[1_000_000, 20_000_000, 120_000_000]);
    let count = any(&[1, 2, 5]);
    let duration = any(&[1_000_000_000, 3_000_000_000]);
    let (ecn, loss) = (any(&[0, 1]) == 1, any(&[0, 0, 1]));
    let own = keys(plugin, &mut rng);
    let mut other = |names: &[&str]| json!({"name": names[rng.draw_below(names.len() as u64) as usize]});
    let (aqm, cc) = match plugin.make() {
        Make::Queue(_) => (json!(own), other(&["cubic", "bbr3", "dctcp", "reno"])),
        Make::Control(_) => (other(&["pfifo", "codel", "dualpi2", "fq_codel"]), json!(own)),
        Make::Stack { .. } => {
            let queues: Vec<&str> = aqm::specs().iter().map(|spec| spec.name).collect();
            (other(&queues), json!(own))
        }
        Make::Media(_) => (other(&["bfifo", "codel", "pie", "fq_codel"]), other(&["cubic", "reno"])),
    };
    let path = match (loss, plugin.make()) {
        (0, _) => json!([]),
        (_, Make::Stack { .. }) => rough(&mut rng),
        _ => json!([{"name": "loss", "probability": 0.01}]),
    };
    if matches!(plugin.make(), Make::Media(_)) {
        // a video that has the link alone, and one beside a flow
        let video = json!({"name": "video", "source": if ecn { "statistical" } else { "fixed" }, "control": own});
        let flows = if count == 1 { json!([]) } else { json!([{"cc": cc, "base_rtt": base_rtt}]) };
        return json!({
            "duration": duration, "seed": rng.draw_below(1 << 32), "bottleneck": {"rate": rate, "aqm": aqm}, "flows": flows,
            "app": [{"kind": video, "base_rtt": base_rtt, "count": count, "path": path}],
        });
    }
    let apps = match plugin.make() {
        Make::Stack { has_streams: true, .. } => pages(&own, base_rtt, &mut rng),
        _ => json!([]),
    };
    json!({
        "app": apps,
        "duration": duration, "seed": rng.draw_below(1 << 32), "bottleneck": {"rate": rate, "aqm": aqm},
        "hosts": {"ecn": ecn}, "flows": [{"cc": cc, "base_rtt": base_rtt, "count": count, "path": path}],
        "udp": [{"rate": rate / 4, "start": {"min": duration / 2, "max": duration / 2}}],
    })
}

/// A user who loads pages over a stack.
fn pages(stack: &Map<String, Value>, base_rtt: u64, rng: &mut Rng) -> Value {
    let (objects, connections) = (1 + rng.draw_below(20), 1 + rng.draw_below(6));
    let kind = json!({"name": "pages", "objects": objects, "connections": connections, "multiplexed": rng.draw_below(2) == 1});
    json!([{"kind": kind, "cc": stack, "base_rtt": base_rtt}])
}

/// Stages that a transport must live with: loss up to a fifth, jitter, and packets that come late.
fn rough(rng: &mut Rng) -> Value {
    let mut stages = vec![json!({"name": "loss", "probability": 0.2 * rng.next_f64()})];
    if rng.draw_below(2) == 1 {
        stages.push(json!({"name": "jitter", "max": rng.draw_below(30_000_000)}));
    }
    if rng.draw_below(2) == 1 {
        stages.push(json!({"name": "reorder", "probability": 0.1 * rng.next_f64(), "delay": 1 + rng.draw_below(50_000_000)}));
    }
    json!(stages)
}
