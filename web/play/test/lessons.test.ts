import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseMeanTime, listFlows, makeConfig, MS } from "../src/experiment";
import type { Experiment } from "../src/experiment";
import { GLOSSARY } from "../src/glossary";
import type { Question, WholeRun } from "../src/lessons";
import { findRightChoice, LESSONS } from "../src/lessons";
import { findReduction, findSampleAt } from "../src/lessons/moments";
import type { Sample } from "../src/observer";
import { computeRatesAt } from "../src/observer";
import { loadEngine } from "./engine";
import { observe } from "./observe";

const engine = await loadEngine();

/** Samples of a run as the page takes them. */
const MOST_SAMPLES = 4000;
const findInterval = ({ duration }: Experiment) => Math.max(1, Math.ceil(duration / MS / MOST_SAMPLES));
const runs = new Map<string, WholeRun>();

function runWhole(experiment: Experiment): WholeRun {
  const key = JSON.stringify({ ...experiment, title: "" });
  const known = runs.get(key);
  if (known) return known;
  const { observer, samples } = observe(engine, experiment, experiment.duration / MS, findInterval(experiment));
  const run = { outcome: engine.run(makeConfig(experiment)), samples, stories: observer.stories.kept };
  runs.set(key, run);
  return run;
}

for (const lesson of LESSONS)
  test(`each question of "${lesson.title}" has one right answer, at different places`, () => {
    assert.equal(lesson.questions.length, 3);
    const places = lesson.questions.map((question) => {
      const { choices } = question;
      const measured = question.measure(runWhole(question.experiment));
      const containing = choices.filter((one) => one.from <= measured && measured < one.to);
      assert.equal(containing.length, 1, `${question.text} ${measured}`);
      const bounds = choices.flatMap((one) => [one.from, one.to]);
      assert.deepEqual(bounds, [...bounds].sort((a, b) => a - b));
      return findRightChoice(question, measured);
    });
    assert.ok(new Set(places).size > 1, String(places));
    const words = lesson.questions.map((one) => one.choices.map((choice) => choice.words).join());
    assert.equal(new Set(words).size, 3, "two questions have the same choices");
  });

test("each lesson has a key of its own", () => {
  assert.equal(new Set(LESSONS.map((one) => one.key)).size, LESSONS.length);
  for (const { minutes } of LESSONS) assert.ok(minutes >= 5 && minutes <= 10);
});

/** What can be seen at the moment of each question, as its words say. */
interface Sight {
  question: Question;
  run: WholeRun;
  time: number;
  sample: Sample;
  /** Rates on the link as the chart has them, Mbit/s, of all flows. */
  rate: number;
}

function look(question: Question): Sight {
  const run = runWhole(question.experiment);
  const time = question.look.find(run);
  const sample = findSampleAt(run, time);
  const rates = computeRatesAt(run.samples, run.samples.indexOf(sample), findInterval(question.experiment), chooseMeanTime(question.experiment));
  return { question, run, time, sample, rate: rates.reduce((sum, one) => sum + one, 0) };
}

const seesFullQueue = (limit: number) => (at: Sight) => at.sample.backlog >= limit - 1;
const tellsNear = (at: Sight, kind: string, within: number) => at.run.stories.some((one) => one.kind === kind && Math.abs(one.time - at.time) < within);
const readMean = (at: Sight, key: string, flow: number) => Number(at.run.outcome.tables["flows"]![key]![flow]);

/** Numbers that a reason has from its run are not here: these are the ones that its words say, and what its moment shows. */
const HOLDS: Record<string, ((at: Sight) => boolean)[]> = {
  queue: [
    (at) => seesFullQueue(150)(at) && at.sample.sojournMax > 88,
    (at) => seesFullQueue(300)(at) && at.rate > 19.9 && at.sample.sojournMax > 2 * 88 && Math.abs(readMean(at, "goodput_mbit", 0) - 19) < 0.1,
    seesFullQueue(300),
  ],
  "slow-start": [
    // the next packets are the first drops
    (at) => seesFullQueue(65)(at) && at.run.stories.some((one) => one.kind === "drop" && one.time > at.time && one.time < at.time + 2),
    (at) => tellsNear(at, "exit", 0.1) && Math.min(...at.run.samples.filter((one) => one.time > at.time).map((one) => one.cwnd[0]!)) < 70,
    (at) => at.sample.backlog > 0 && at.sample.backlog < 20 && tellsNear(at, "exit", 0.1) && Number(at.run.outcome.summary["drops_overflow"]) < 20,
  ],
  sawtooth: [
    (at) => tellsNear(at, "reduction", 0.1) && seesFullQueue(65)(at),
    (at) => at.sample.sojourn < 4 && at.rate > 9.7,
    (at) => at.rate < 8.5 && findReduction(at.run).after < 66,
  ],
  cubic: [
    (at) => at.rate < 45 && at.sample.cwnd[0]! < 300,
    (at) => at.sample.cwnd[0]! > 420 && at.sample.cwnd[0]! < 515,
    (at) => Math.abs(60 / Number(at.run.outcome.tables["flows"]!["loss_reductions"]![0]) - Math.cbrt((0.3 * 515) / 0.4)) < 1,
  ],
  "codel-pie": [
    (at) => Math.abs(at.sample.sojourn - 15) < 8,
    (at) => {
      const [before, after] = [-1000, 500].map((shift) => findSampleAt(at.run, at.time + shift));
      return before!.backlog < at.sample.backlog && at.sample.backlog < after!.backlog && before!.states["count"]! < at.sample.states["count"]!;
    },
    (at) => {
      const { summary } = at.run.outcome;
      const share = Number(summary["drops_aqm"]) / (Number(summary["drops_aqm"]) + Number(summary["packets"]));
      const later = findSampleAt(at.run, at.time + 500);
      return Math.abs(share - 0.2) < 0.01 && later.backlog < at.sample.backlog && later.states["p"]! < at.sample.states["p"]!;
    },
  ],
  "flow-queues": [
    (at) => at.sample.backlog > 80,
    (at) => at.sample.backlog >= 10 && at.sample.backlog <= 16,
    (at) => at.sample.backlog < 20,
  ],
  bbr: [
    (at) => at.sample.backlog > 50 && findSampleAt(at.run, at.time + 400).backlog < 10,
    (at) => at.run.stories.some((one) => one.kind === "drop" && Math.abs(one.time - at.time) < 1000),
    (at) => at.sample.cwnd[1]! > 3 * at.sample.cwnd[0]!,
  ],
  l4s: [
    (at) => Math.abs(at.sample.cwnd[0]! - findSampleAt(at.run, at.time + 1000).cwnd[0]!) < 5 && at.rate > 38,
    (at) => Math.abs(at.sample.srtt[0]! - at.sample.srtt[1]! - 15) < 3,
    (at) => at.sample.cwnd[0]! < 12 && at.sample.cwnd[1]! > 60,
  ],
  "ack-clock": [
    (at) => readMean(at, "rtt_mean_ms", 0) > 42 && readMean(at, "rtt_mean_ms", 0) < 43.5,
    (at) => Math.min(...at.sample.srtt) > 150 && Math.abs(readMean(at, "rtt_mean_ms", 0) / 43 - 4) < 0.2,
    (at) => at.sample.srtt[0]! < 45,
  ],
};

for (const lesson of LESSONS)
  test(`moments and reasons of "${lesson.title}" are those of its runs`, () => {
    lesson.questions.forEach((question, number) => {
      const at = look(question);
      assert.ok(at.time > 0 && at.time * MS < question.experiment.duration, `${question.look.words} ${at.time}`);
      assert.ok(HOLDS[lesson.key]![number]!(at), `question ${number + 1} at ${at.time} ms: ${JSON.stringify(at.sample)}, ${at.rate} Mbit/s, ${question.reason(at.run)}`);
      assert.doesNotMatch(question.reason(at.run), /NaN|undefined|Infinity/);
    });
  });

test("windows around a reduction are those that \"What happened\" tells", () => {
  for (const key of ["sawtooth", "cubic"])
    for (const { experiment } of LESSONS.find((one) => one.key === key)!.questions) {
      const run = runWhole(experiment);
      const { time, before, after } = findReduction(run);
      const told = /from (\d+) to (\d+) segments/.exec(run.stories.find((one) => one.time === time)!.text)!;
      assert.ok(Math.abs(before - Number(told[1])) <= 2 && Math.abs(after - Number(told[2])) <= 2, `${told[0]}: ${before} ${after}`);
    }
});

test("each lesson begins with the words that it uses", () => {
  for (const { intro, questions, lasting, key } of LESSONS) {
    assert.match(intro, /window/, key);
    assert.match(intro, /ACK/, key);
    const controls = new Set(questions.flatMap((one) => listFlows(one.experiment).map((flow) => flow.name)));
    if (controls.has("cubic")) assert.match(intro, /CUBIC/, key);
    if (controls.has("reno")) assert.match(intro, /Reno/, key);
    assert.ok(lasting.endsWith("."));
  }
  assert.ok(["ACK", "congestion window, cwnd", "CUBIC", "Reno", "HyStart"].every((word) => GLOSSARY[word]));
});
