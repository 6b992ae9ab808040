// Settings: parameters of queues that change while a run goes on, and the program that repeats such a run.

import type { Experiment, Setting } from "./experiment";
import { findUnitKind, formatQuantity, formatValue } from "./quantities";
import type { Param, Registry } from "./registry";
import { findAlgorithm } from "./registry";

const HOPS = ["bottleneck", "reverse"] as const;

/** The parameter that a setting changes: its key is that of a hop's queue. */
export function findSettingParam(key: string, experiment: Experiment, registry: Registry): Param | undefined {
  const hop = HOPS.find((one) => key.startsWith(`${one}.aqm.`));
  const name = hop && experiment[hop]?.aqm.name;
  return name === undefined ? undefined : findAlgorithm(registry, "aqm", name)?.params.find((one) => key.endsWith(`.aqm.${one.name}`));
}

/** Returns the value of a setting as the page shows it. */
export function formatSetting({ key, value }: Pick<Setting, "key" | "value">, experiment: Experiment, registry: Registry): string {
  const param = findSettingParam(key, experiment, registry);
  return param ? formatValue(param, value) : String(value);
}

/** Returns the value of a setting in Python, as an experiment file writes it. */
function formatPython({ key, value }: Setting, experiment: Experiment, registry: Registry): string {
  const param = findSettingParam(key, experiment, registry);
  const kind = param && findUnitKind(param);
  if (kind && typeof value === "number") return JSON.stringify(formatQuantity(kind, value));
  if (typeof value === "boolean") return value ? "True" : "False";
  return value === null ? '"none"' : JSON.stringify(value);
}

/** Returns what repeats the run of an experiment whose file has this name: a command, or a program if the run is changed by settings. */
export function formatRepetition(experiment: Experiment, registry: Registry, file: string): string {
  if (!experiment.settings?.length) return `dumbbell run ${file}`;
  const lines = ["import dumbbell", "", `run = dumbbell.Simulation("${file}", seed=${experiment.seed})`];
  let last = -1;
  for (const one of experiment.settings) {
    if (one.at !== last) lines.push(`run.step(until="${formatQuantity("time", one.at)}")`);
    last = one.at;
    lines.push(`run.set("${one.key}", ${formatPython(one, experiment, registry)})`);
  }
  lines.push("print(run.finish().runs)");
  return lines.join("\n");
}
