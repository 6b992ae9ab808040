import assert from "node:assert/strict";
import { test } from "node:test";
import type { Experiment, Flow } from "../src/experiment";
import { changeAt, findRate, listFlows, makeConfig, makeSender, MS, SECOND, setKey } from "../src/experiment";
import { applyChanges, binOf, boundOf, Chronicle, computeQuantile, computeRatesAt, L4S, MARKED, Observer, PACKET_COLUMNS, Place } from "../src/observer";
import { PRESETS } from "../src/presets";
import { describeSetting, findSettingParam } from "../src/settings";
import type { EventNames } from "../src/simulation";
import { listChangeable, measureRun, Simulation } from "../src/simulation";
import { MOST_SNAPSHOTS, SnapshotRing } from "../src/snapshots";
import { loadEngine } from "./engine";
import { observe as observeRun } from "./observe";

const engine = await loadEngine();
const observe = (experiment: Experiment, until: number, interval?: number) => observeRun(engine, experiment, until, interval);

test("the picture has as many queued packets as the engine", () => {
  const [fifo] = PRESETS;
  const { observer, view } = observe(fifo!, 3000);
  const rows = observer.listPackets(3000);
  const places = Array.from({ length: rows.length / PACKET_COLUMNS }, (_, index) => rows[index * PACKET_COLUMNS]);
  // a packet on the link is still in the queue for the engine, or it is not
  const queued = places.filter((one) => one === Place.Queue).length;
  assert.ok(view.backlog_packets > 20 && Math.abs(queued - view.backlog_packets) <= 1, `${queued} ${view.backlog_packets}`);
  assert.ok(places.filter((one) => one === Place.Ack).length > 5);
  assert.equal(places.filter((one) => one === Place.Link).length, 1);
});

test("rates on the link add up to what it carried, and never exceed its rate", () => {
  const [fifo] = PRESETS;
  const { samples, view } = observe(fifo!, 6000);
  assert.equal(samples.at(-1)!.carried.reduce((sum, one) => sum + one, 0), view.bytes);
  const rates = samples.map((_, index) => computeRatesAt(samples, index, 10, 200));
  for (let at = 20; at < samples.length; at++) {
    const sum = rates[at]!.reduce((total, one) => total + one, 0);
    assert.ok(sum < 20 * 1.01, `${sum} at ${at}`);
  }
  assert.ok(rates.at(-1)![0]! + rates.at(-1)![1]! > 18);
});

test("marks, drops and the time in queue are those that the engine counts", () => {
  const l4s = PRESETS.find((one) => one.title.startsWith("L4S"))!;
  const { observer, samples, view } = observe(l4s, 5000);
  assert.ok(view.ce_marks > 100);
  assert.equal(samples.reduce((total, one) => total + one.marks, 0), view.ce_marks);
  const { tables, summary } = engine.run({ ...makeConfig(l4s), duration: 5 * SECOND });
  const [p50, p99] = [0.5, 0.99].map((share) => computeQuantile(observer.histogram, share));
  assert.ok(Object.keys(tables).includes("flows"));
  const within = (found: number, exact: number) => Math.abs(found / exact - 1) < 0.05;
  assert.ok(within(p99!, Number(summary["sojourn_p99_ms"])), `${p99} ${summary["sojourn_p99_ms"]}`);
  assert.ok(within(p50!, Number(summary["sojourn_p50_ms"])), `${p50} ${summary["sojourn_p50_ms"]}`);
});

test("what happens before a change stays the same, to the bit", () => {
  const [fifo] = PRESETS;
  const before = observe(fifo!, 3000).samples;
  const changes = [
    changeAt(fifo!, { kind: "rate", rate: 5e6 }, 3 * SECOND),
    changeAt(fifo!, { kind: "delay", flow: 0, add: 40 * MS }, 3 * SECOND),
    changeAt(fifo!, { kind: "loss", flow: 0, probability: 0.5 }, 3 * SECOND),
    changeAt(fifo!, { kind: "stop", table: "flows", index: 0 }, 3 * SECOND),
  ];
  for (const changed of changes) {
    assert.deepEqual(observe(changed, 3000).samples, before);
    assert.notDeepEqual(observe(changed, 4000).samples.slice(300), observe(fifo!, 4000).samples.slice(300));
  }
  const joined = observe(changeAt(fifo!, { kind: "join", flow: makeSender("flows") as Flow }, 3 * SECOND), 3000).samples;
  assert.deepEqual(joined.map((one) => one.backlog), before.map((one) => one.backlog));
});

test("a change replaces the later ones of its kind", () => {
  const [fifo] = PRESETS;
  const once = changeAt(fifo!, { kind: "rate", rate: 5e6 }, 3 * SECOND);
  const twice = changeAt(changeAt(once, { kind: "rate", rate: 7e6 }, 5 * SECOND), { kind: "rate", rate: 6e6 }, 4 * SECOND);
  assert.deepEqual(twice.bottleneck.rate_changes, [{ at: 3 * SECOND, rate: 5e6 }, { at: 4 * SECOND, rate: 6e6 }]);
  assert.deepEqual([2, 3, 4, 9].map((time) => findRate(twice, time * SECOND) / 1e6), [20, 5, 6, 6]);
  const delayed = changeAt(changeAt(fifo!, { kind: "delay", flow: 0, add: MS }, SECOND), { kind: "delay", flow: 0, add: 0 }, 2 * SECOND);
  assert.deepEqual(delayed.flows[0]!.path, [{ name: "delay", add: MS, from: SECOND, to: 2 * SECOND }]);
});

test("states and sentences follow from events", () => {
  const names: EventNames = {
    columns: ["kind", "time_ms", "flow", "hop", "number", "queued_ms", "code"],
    kinds: ["flow", "enqueue", "dequeue", "departure", "mark", "drop", "ack", "state", "exit"],
    drop_reasons: ["overflow", "aqm", "loss", "policer", "filter"],
    drop_sites: ["arrival", "queue", "ahead", "behind"],
    marks: ["ce", "sce"],
    mark_reasons: ["aqm", "step", "coupled", "ramp"],
    exit_causes: ["loss", "ecn", "timeout", "sce", "threshold", "delay", "train", "plateau"],
    states: ["open", "disorder", "cwr", "recovery", "loss", "STARTUP"],
  };
  const observer = new Observer((flow) => `flow ${flow + 1}`, 1);
  // a flow of 10 ms on each side, a packet that is queued at 20 ms, marked, and leaves; one that is dropped at the door
  const rows = [
    [0, 0, 0, 0, 10, 10, 0],
    [1, 20, 0, 0, 7, 20, 2 + 16 * 1514],
    [4, 20, 0, 0, 7, 20, 0],
    [2, 24, 0, 0, 7, 20, 3 + 16 * 1514],
    [3, 25, 0, 0, 7, 20, 3 + 16 * 1514],
    [5, 26, 0, 0, 8, 26, 0],
    [5, 27, 0, 0, 9, 27, 0],
    [8, 30, 0, 0, 40, 0, 1],
    [7, 31, 0, 0, 0, 0, 3],
    [7, 60, 0, 0, 0, 0, 0],
    [7, 300, 0, 0, 0, 0, 4],
  ].flat();
  observer.take(Float64Array.from(rows), names);
  const seen = (time: number) => [...observer.listPackets(time)];
  assert.deepEqual(seen(15), [Place.ToQueue, 0.5, 0, 0, MARKED | L4S]);
  assert.deepEqual(seen(21).slice(0, 3), [Place.Queue, 0, 0]);
  assert.deepEqual(seen(24.5).slice(0, 2), [Place.Link, 0.5]);
  assert.deepEqual(observer.states.kept.map((one) => [one.time, one.state]), [[0, "slow start"], [30, "avoidance"], [31, "recovery"], [60, "avoidance"], [300, "loss"]]);
  assert.deepEqual(
    observer.stories.kept.map((one) => one.text),
    [
      "flow 1 started.",
      "A packet of flow 1 was CE-marked.",
      "2 packets of flow 1 were dropped because the queue was full, until 27 ms.",
      "CE marks ended the slow start of flow 1 at a window of 40 segments.",
      "Loss makes flow 1 reduce its window.",
      "The retransmission timer of flow 1 ran out: it starts again with a small window.",
    ],
  );
  assert.equal(observer.takeSample(400, { ...EMPTY, bytes: 1514 }).sojourn, 4);
});

const EMPTY = {
  ...{ time_ms: 0, events: 0, backlog_packets: 0, backlog_bytes: 0, packets: 0, bytes: 0, ce_marks: 0, sce_marks: 0 },
  ...{ drops_overflow: 0, drops_aqm: 0, states: {}, endpoints: [] },
};

test("bins of the histogram hold what their bounds say", () => {
  for (const ms of [0.001, 0.0101, 0.5, 1, 7.3, 99, 4000]) {
    const bin = binOf(ms);
    assert.ok(ms <= boundOf(bin) * (1 + 1e-9) && (bin === 0 || ms >= boundOf(bin - 1) * (1 - 1e-9)), String(ms));
  }
  const histogram = new Float64Array(480);
  histogram[binOf(1)] = 99;
  histogram[binOf(50)] = 1;
  assert.equal(computeQuantile(histogram, 0.5), boundOf(binOf(1)));
  assert.equal(computeQuantile(histogram, 1), boundOf(binOf(50)));
  assert.ok(Number.isNaN(computeQuantile(new Float64Array(160), 0.5)));
});

test("a simulation returns to a snapshot, and goes on to the same bits", () => {
  for (const preset of PRESETS) {
    const simulation = new Simulation(engine, preset);
    const observer = new Observer((flow) => `flow ${flow + 1}`, listFlows(preset).length);
    const goOn = (seen: Observer, until: number) => {
      const samples = [];
      while (simulation.now < until) {
        simulation.advance(simulation.now + 50);
        seen.take(simulation.takeEvents(), simulation.names());
        samples.push(seen.takeSample(simulation.now, simulation.view()));
      }
      return { samples, packets: seen.listPackets(until), stories: seen.stories.kept, states: seen.states.kept, histogram: seen.histogram };
    };
    goOn(observer, 2000);
    const snapshot = simulation.takeSnapshot();
    const copy = observer.copy();
    const first = structuredClone(goOn(observer, 5000));
    simulation.restore(snapshot);
    assert.equal(simulation.now, 2000);
    assert.deepEqual(goOn(copy, 5000), first);
    snapshot.forget();
    simulation.end();
  }
});

test("a simulation comes to a time that is no whole nanosecond", () => {
  const simulation = new Simulation(engine, PRESETS[0]!);
  for (const time of [0.1 + 0.2, 16.66666666666, 16.66666666669, 33.1000000000004]) {
    simulation.advance(time);
    assert.ok(simulation.hasReached(time) && Math.abs(simulation.now - time) < 1e-6);
  }
});

test("snapshots are bounded, and the nearest one before a moment is found", () => {
  const ring = new SnapshotRing();
  const forgotten: number[] = [];
  const observer = new Observer(String, 1);
  for (let time = 50; time <= 600_000; time += 50)
    if (ring.isDue(time)) ring.add({ time, observer, snapshot: { time, forget: () => forgotten.push(time) } });
  assert.ok(ring.count <= MOST_SNAPSHOTS && ring.count >= MOST_SNAPSHOTS / 2 - 1, String(ring.count));
  assert.ok(new Set(forgotten).size === forgotten.length && forgotten.length > 10);
  for (const time of [100_000, 333_333, 599_999]) {
    const found = ring.find(time)!.time;
    assert.ok(found <= time && time - found < 600_000 / (MOST_SNAPSHOTS / 2 - 1), `${found} ${time}`);
  }
  assert.equal(ring.find(10), undefined);
  ring.clear();
  assert.equal(ring.count, 0);
});

test("a parameter of the queue changes in mid-run, as the engine changes it", () => {
  const codel = PRESETS.find((one) => one.bottleneck.aqm.name === "codel")!;
  const { registry } = engine;
  const keys = listChangeable(engine, registry, codel);
  assert.deepEqual(keys, ["limit", "target", "interval", "ecn", "ce_threshold"].map((name) => `codel.${name}`));
  const changed = changeAt(codel, { kind: "set", key: "bottleneck.aqm.target", value: 50 * MS }, 3 * SECOND);
  assert.deepEqual(changed.settings, [{ at: 3 * SECOND, key: "bottleneck.aqm.target", value: 50 * MS }]);
  assert.deepEqual(observe(changed, 3000).samples, observe(codel, 3000).samples);
  const later = (experiment: Experiment) => observe(experiment, 9000).samples.slice(500).reduce((sum, one) => sum + one.backlog, 0);
  assert.ok(later(changed) > 3 * later(codel), `${later(changed)} ${later(codel)}`);
  assert.notEqual(measureRun(engine, changed).digest, measureRun(engine, codel).digest);
  const restored = changeAt(changed, { kind: "set", key: "bottleneck.aqm.target", value: 50 * MS }, 2 * SECOND);
  assert.equal(restored.settings!.length, 1);
  // a setting to the value that the parameter has changes nothing
  const same = changeAt(codel, { kind: "set", key: "bottleneck.aqm.target", value: 5 * MS }, 3 * SECOND);
  assert.equal(measureRun(engine, same).digest, measureRun(engine, codel).digest);
});

test("another queue takes the place of a full one, whose packets are dropped", () => {
  const fifo = PRESETS[0]!;
  const replaced = changeAt(fifo, { kind: "set", key: "bottleneck.aqm", value: { name: "fq_codel" } }, 3 * SECOND);
  const before = observe(fifo, 3000);
  const after = observe(replaced, 3000);
  const queued = before.view.backlog_packets;
  assert.ok(queued > 50, `${queued}`);
  assert.equal(after.view.drops_aqm - before.view.drops_aqm, queued);
  assert.ok(after.observer.stories.kept.some((one) => one.text.includes("dropped because another queue took its place")));
  // its parameters are those of the new one, until another queue comes before them
  const { registry } = engine;
  assert.ok(listChangeable(engine, registry, replaced).includes("fq_codel.quantum"));
  const tuned = changeAt(replaced, { kind: "set", key: "bottleneck.aqm.target", value: MS }, 4 * SECOND);
  assert.equal(findSettingParam(tuned.settings![1]!, tuned, registry)?.doc, registry.aqm.find((one) => one.name === "fq_codel")!.params.find((one) => one.name === "target")!.doc);
  assert.notEqual(measureRun(engine, tuned).digest, measureRun(engine, replaced).digest);
  assert.deepEqual(changeAt(tuned, { kind: "set", key: "bottleneck.aqm", value: { name: "pie" } }, 2 * SECOND).settings, [{ at: 2 * SECOND, key: "bottleneck.aqm", value: { name: "pie" } }]);
});

test("another control takes over the connection of each flow of its table", () => {
  const fifo = setKey(PRESETS[0]!, ["flows", 0, "count"], 2);
  const replaced = changeAt(fifo, { kind: "control", index: 0, cc: { name: "bbr3" } }, 3 * SECOND);
  assert.deepEqual(replaced.flows, fifo.flows);
  assert.deepEqual(replaced.settings, [0, 1].map((flow) => ({ at: 3 * SECOND, key: `flows[${flow}].cc`, value: { name: "bbr3" } })));
  assert.deepEqual(observe(replaced, 2990).samples, observe(fifo, 2990).samples);
  const outcome = measureRun(engine, replaced);
  assert.deepEqual(outcome.tables["flows"]!["cc"]!.slice(0, 3), ["bbr3", "bbr3", "cubic"]);
  assert.equal(measureRun(engine, replaced).digest, outcome.digest);
  assert.deepEqual(replaced.settings!.map((one) => describeSetting(one, replaced, engine.registry)), [1, 2].map((flow) => `bbr3 replaces cubic as the control of flow ${flow}`));
});

test("a chronicle keeps the newest entries, and its reader has the same ones", () => {
  const chronicle = new Chronicle<number>(100);
  let read: { forgotten: number; kept: number[] } = { forgotten: 0, kept: [] };
  for (let entry = 0; entry < 1000; entry++) {
    const number = chronicle.push(entry);
    if (entry % 7 === 0) {
      const changed = number - (entry % 3);
      if (changed >= chronicle.forgotten) {
        chronicle.kept[changed - chronicle.forgotten]! += 0.5;
        chronicle.noteChange(changed);
      }
    }
    if (entry % 11 === 0) {
      read = applyChanges(read, chronicle.takeChanges());
      assert.deepEqual(read, { forgotten: chronicle.forgotten, kept: chronicle.kept });
    }
  }
  assert.ok(chronicle.kept.length <= 100 && chronicle.end === 1000);
});
