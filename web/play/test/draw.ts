// Random experiments, made by the changes that the controls of the page make.

import type { Experiment, Flow, Spec, Table } from "../src/experiment";
import { changeAt, makeSender, MS, SECOND, setKey } from "../src/experiment";
import { findUnitKind } from "../src/quantities";
import type { Algorithm, Param, Registry } from "../src/registry";

/** Numbers from 0 to 1 that follow from a seed (mulberry32). */
export function makeRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

type Random = () => number;

const pick = <T>(random: Random, list: T[]): T => list[Math.floor(random() * list.length)]!;
const between = (random: Random, low: number, high: number) => low * (high / low) ** random();

/** A value near the default: a field takes any, but most of a wide range stops all traffic. */
function drawValue(param: Param, random: Random): unknown {
  if (param.kind === "bool") return random() < 0.5;
  if (param.kind === "choice") return pick(random, param.choices ?? []);
  if (typeof param.default !== "number") return undefined;
  const [low, high] = [param.min ?? 0, param.max ?? Infinity];
  const value = Math.min(high, Math.max(low, param.default * between(random, 0.5, 2)));
  if (param.kind === "float") return value;
  return findUnitKind(param) ? Math.round(value) : Math.max(low, Math.round(value));
}

function drawSpec(known: Algorithm[], random: Random, changes: number): Spec {
  const algorithm = pick(random, known);
  let spec: Spec = { name: algorithm.name };
  for (let count = 0; count < changes && algorithm.params.length; count++) {
    const param = pick(random, algorithm.params);
    const value = drawValue(param, random);
    if (value !== undefined) spec = setKey(spec, [param.name], value);
  }
  return spec;
}

function drawFlow(registry: Registry, random: Random): Flow {
  let flow: Flow = { cc: drawSpec(registry.cc, random, random() < 0.3 ? 1 : 0), base_rtt: Math.round(between(random, 2, 150)) * MS };
  if (random() < 0.4) flow = setKey(flow, ["start"], { min: Math.round(random() * 1000) * MS, max: 1000 * MS });
  if (random() < 0.2) flow = setKey(flow, ["direction"], "up");
  if (random() < 0.2) flow = setKey(flow, ["count"], 2);
  if (random() < 0.2) flow = setKey(flow, ["path"], [{ name: pick(random, ["loss", "jitter", "reorder", "batch"]) }]);
  return flow;
}

function drawOthers(registry: Registry, random: Random): Partial<Experiment> {
  const others: Partial<Experiment> = {};
  if (random() < 0.4) others.udp = [makeSender("udp")];
  if (random() < 0.2) others.web = [makeSender("web")];
  if (random() < 0.3) {
    const kind = pick(random, registry.app.filter((one) => one.name !== "autorate" && one.name !== "responsiveness"));
    const needsControl = ["pages", "request", "onoff", "backup", "dash"].includes(kind.name);
    const entry: Table = { kind: { name: kind.name }, base_rtt: 30 * MS };
    others.app = [needsControl ? { ...entry, cc: { name: "cubic" } } : entry];
  }
  return others;
}

/** Returns the experiment of a seed. */
export function drawExperiment(registry: Registry, seed: number): Experiment {
  const random = makeRandom(seed);
  const flows = Array.from({ length: 1 + Math.floor(random() * 3) }, () => drawFlow(registry, random));
  let experiment: Experiment = {
    title: `experiment ${seed}`,
    duration: 2 * SECOND,
    seed: Math.floor(random() * 1000),
    bottleneck: { rate: Math.round(between(random, 2, 60)) * 1e6, aqm: drawSpec(registry.aqm, random, random() < 0.5 ? 2 : 0) },
    flows,
    ...drawOthers(registry, random),
  };
  if (random() < 0.25 || flows.some((one) => one.direction === "up"))
    experiment.reverse = { rate: Math.round(between(random, 1, 20)) * 1e6, aqm: drawSpec(registry.aqm, random, 0) };
  if (random() < 0.3) experiment.hosts = { ecn: true };
  const moment = () => Math.round(random() * 2000) * MS;
  if (random() < 0.4) experiment = changeAt(experiment, { kind: "rate", rate: experiment.bottleneck.rate / 2 }, moment());
  if (random() < 0.2) experiment = changeAt(experiment, { kind: "delay", flow: 0, add: 40 * MS }, moment());
  if (random() < 0.2) experiment = changeAt(experiment, { kind: "loss", flow: 0, probability: 0.01 }, moment());
  if (random() < 0.2) experiment = changeAt(experiment, { kind: "join", flow: makeSender("flows") as Flow }, moment());
  if (random() < 0.2) experiment = changeAt(experiment, { kind: "stop", table: "flows", index: 0 }, SECOND + moment());
  return experiment;
}
