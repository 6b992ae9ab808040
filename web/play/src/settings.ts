// Settings: queues, their parameters and controls that change while a run goes on, and the program that repeats such a run.

import type { Experiment, Setting, Spec } from "./experiment";
import { findQueue, findSetting, listFlows } from "./experiment";
import { findUnitKind, formatQuantity, formatValue } from "./quantities";
import type { Param, Registry } from "./registry";
import { findAlgorithm } from "./registry";

const HOPS = ["bottleneck", "reverse"] as const;

/** The parameter that a setting changes at its time: its key is that of a hop's queue. */
export function findSettingParam({ key, at }: Pick<Setting, "key" | "at">, experiment: Experiment, registry: Registry): Param | undefined {
  const hop = HOPS.find((one) => key.startsWith(`${one}.aqm.`));
  const name = hop && findQueue(experiment, hop, at)?.name;
  return name === undefined ? undefined : findAlgorithm(registry, "aqm", name)?.params.find((one) => key.endsWith(`.aqm.${one.name}`));
}

/** The control of a flow, by its number in the run, right before a time, ns. */
function findControl(experiment: Experiment, number: number, time: number): string {
  const set = findSetting(experiment, `flows[${number}].cc`, time - 1) as Spec | undefined;
  return set?.name ?? listFlows(experiment)[number]?.name ?? "";
}

/** Returns a setting in words: a queue or control that takes the place of another one, or the new value of a parameter. */
export function describeSetting({ key, at, value }: Setting, experiment: Experiment, registry: Registry): string {
  const hop = HOPS.find((one) => key === `${one}.aqm`);
  if (hop) return `${(value as Spec).name} replaces ${findQueue(experiment, hop, at - 1)?.name}${hop === "reverse" ? " on the way back" : ""}`;
  const number = /^flows\[(\d+)\]\.cc$/.exec(key)?.[1];
  if (number !== undefined) return `${(value as Spec).name} replaces ${findControl(experiment, Number(number), at)} as the control of flow ${Number(number) + 1}`;
  const param = findSettingParam({ key, at }, experiment, registry);
  return `${key} became ${param ? formatValue(param, value) : String(value)}`;
}

/** Returns a value of a parameter in Python, as an experiment file writes it. */
function formatPython(value: unknown, param: Param | undefined): string {
  const kind = param && findUnitKind(param);
  if (kind && typeof value === "number") return JSON.stringify(formatQuantity(kind, value));
  if (typeof value === "boolean") return value ? "True" : "False";
  return value === null ? '"none"' : JSON.stringify(value);
}

/** Returns an algorithm in Python: its name, or a table if it has parameters. */
function formatSpec({ name, ...params }: Spec, kind: "aqm" | "cc", registry: Registry): string {
  const known = findAlgorithm(registry, kind, name)?.params ?? [];
  const own = Object.entries(params).map(([key, value]) => `, ${JSON.stringify(key)}: ${formatPython(value, known.find((one) => one.name === key))}`);
  return own.length ? `{"name": ${JSON.stringify(name)}${own.join("")}}` : JSON.stringify(name);
}

/** Returns what repeats the run of an experiment whose file has this name: a command, or a program if the run is changed by settings. */
export function formatRepetition(experiment: Experiment, registry: Registry, file: string): string {
  if (!experiment.settings?.length) return `dumbbell run ${file}`;
  const lines = ["import dumbbell", "", `run = dumbbell.Simulation("${file}", seed=${experiment.seed})`];
  let last = -1;
  for (const one of experiment.settings) {
    if (one.at !== last) lines.push(`run.step(until="${formatQuantity("time", one.at)}")`);
    last = one.at;
    const kind = one.key.endsWith(".aqm") ? "aqm" : one.key.endsWith(".cc") ? "cc" : null;
    const value = kind ? formatSpec(one.value as Spec, kind, registry) : formatPython(one.value, findSettingParam(one, experiment, registry));
    lines.push(`run.set("${one.key}", ${value})`);
  }
  lines.push("print(run.finish().runs)");
  return lines.join("\n");
}
