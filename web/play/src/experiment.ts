// The experiment of the page: the engine's configuration without its defaults, and changes of it.

import { findAlgorithm } from "./registry";
import type { Registry } from "./registry";

/** A table of an experiment. Quantities are ns, bit/s and bytes, as the engine takes them. */
export type Table = { [key: string]: unknown };

export interface Spec extends Table {
  name: string;
}

export interface Start extends Table {
  min: number;
  max: number;
}

export interface Flow extends Table {
  cc: Spec;
  base_rtt?: number;
  count?: number;
  start?: Start;
  stop?: number;
  direction?: string;
  path?: Spec[];
}

export interface Hop extends Table {
  rate: number;
  aqm: Spec;
  rate_changes?: { at: number; rate: number }[];
}

/** A change of a queue, of one of its parameters, or of the control of a flow at a time, ns, while the run goes on. The engine's `set` makes it; an experiment file has no words for it. */
export interface Setting {
  at: number;
  key: string;
  value: unknown;
}

export interface Experiment extends Table {
  title: string;
  duration: number;
  seed: number;
  bottleneck: Hop;
  reverse?: Hop;
  hosts?: Table;
  flows: Flow[];
  udp?: Table[];
  app?: Table[];
  web?: Table[];
  /** In order of time. */
  settings?: Setting[];
}

export const MS = 1e6;
export const SECOND = 1e9;
/** Full frames of the default segment, bytes. */
export const FRAME = 1514;
const DEFAULT_RTT = 20 * MS;

/** Tables that list senders, and the words for one of them. */
export const SENDERS = { flows: "flow", udp: "UDP source", app: "application", web: "short flows" } as const;
export type SenderTable = keyof typeof SENDERS;

/** Returns the configuration that the engine runs. The series of the page are its own; those of the tables keep their interval. */
export function makeConfig(experiment: Experiment): Table {
  const { title: _, settings: _made, ...config } = experiment;
  return config;
}

/** How many flows are listed one by one, and the words that name each: its number in the run is its place. */
export function listFlows(experiment: Experiment): { table: SenderTable; index: number; name: string }[] {
  const named = (table: "flows" | "udp", name: (entry: Table) => string) =>
    (experiment[table] ?? []).flatMap((entry, index) =>
      Array.from({ length: Number(entry["count"] ?? 1) }, () => ({ table, index, name: name(entry) })),
    );
  return [
    ...named("flows", (entry) => (entry as Flow).cc.name),
    ...named("udp", (entry) => (entry["echo"] === true ? "ping" : "UDP")),
  ];
}

/** The largest base RTT of the listed senders, ns. */
export function findLongestRtt(experiment: Experiment): number {
  const senders = [...experiment.flows, ...(experiment.app ?? []), ...(experiment.web ?? [])];
  return Math.max(0, ...senders.map((one) => Number(one["base_rtt"] ?? DEFAULT_RTT)), ...(experiment.udp ?? []).map((one) => Number(one["base_rtt"] ?? 0)));
}

/** The bandwidth-delay product at the longest RTT, in full frames. */
export function computeBdp(experiment: Experiment): number {
  return (experiment.bottleneck.rate * findLongestRtt(experiment)) / SECOND / 8 / FRAME;
}

/** Rates are means over so long at most, ms, and over so many full frames at least. */
const LONGEST_MEAN_MS = 200;
const LEAST_FRAMES = 20;

/** The time over which rates are means, ms: a fiftieth of the run, within the bounds. */
export function chooseMeanTime({ duration, bottleneck }: Experiment): number {
  const least = (LEAST_FRAMES * FRAME * 8 * 1e3) / bottleneck.rate;
  return Math.round(Math.min(LONGEST_MEAN_MS, Math.max(duration / MS / 50, least)));
}

/** The limit of a queue, packets; Infinity if it has none in packets. */
export function findLimit({ aqm }: Hop, registry: Registry): number {
  const param = findAlgorithm(registry, "aqm", aqm.name)?.params.find((one) => one.name === "limit" && one.unit === "packets");
  const limit = param && (aqm["limit"] ?? param.default);
  return typeof limit === "number" ? limit : Infinity;
}

/** Returns the experiment with a key of a table set, or taken out if the value is undefined. Names of the way are keys and places in lists. */
export function setKey<T>(table: T, way: (string | number)[], value: unknown): T {
  const [key, ...rest] = way;
  if (key === undefined) return value as T;
  const copy = (Array.isArray(table) ? [...table] : { ...(table as object) }) as Record<string | number, unknown>;
  const inner = rest.length ? setKey(copy[key] ?? (typeof rest[0] === "number" ? [] : {}), rest, value) : value;
  if (inner === undefined && Array.isArray(copy)) copy.splice(Number(key), 1);
  else if (inner === undefined) delete copy[key];
  else copy[key] = inner;
  return copy as T;
}

export function getKey(table: unknown, way: (string | number)[]): unknown {
  return way.reduce<unknown>((inner, key) => (inner as Record<string | number, unknown> | undefined)?.[key], table);
}

/** A change that happens while a run goes on. It is a part of the experiment, so that the file and the link have it as well. */
export type Change =
  | { kind: "rate"; rate: number }
  | { kind: "delay"; flow: number; add: number }
  | { kind: "loss"; flow: number; probability: number }
  | { kind: "stop"; table: SenderTable; index: number }
  | { kind: "set"; key: string; value: unknown }
  | { kind: "control"; index: number; cc: Spec }
  | { kind: "join"; flow: Flow };

/** Returns the experiment in which a change happens at a time, ns. What happened before that time stays the same, to the bit. */
export function changeAt(experiment: Experiment, change: Change, time: number): Experiment {
  const at = Math.max(1, Math.round(time));
  switch (change.kind) {
    case "rate": {
      const before = (experiment.bottleneck.rate_changes ?? []).filter((one) => one.at < at);
      return setKey(experiment, ["bottleneck", "rate_changes"], [...before, { at, rate: change.rate }]);
    }
    case "delay":
      return changePath(experiment, change.flow, { name: "delay", add: change.add }, at, change.add > 0);
    case "loss":
      return changePath(experiment, change.flow, { name: "loss", probability: change.probability }, at, change.probability > 0);
    case "stop":
      return setKey(experiment, [change.table, change.index, "stop"], at);
    case "join":
      return setKey(experiment, ["flows", experiment.flows.length], { ...change.flow, start: { min: at, max: at } });
    case "set": {
      // parameters of a queue that another one replaces go with it
      const others = (experiment.settings ?? []).filter((one) => one.at < at || !`${one.key}.`.startsWith(`${change.key}.`));
      return { ...experiment, settings: [...others, { at, key: change.key, value: change.value }].sort((a, b) => a.at - b.at) };
    }
    case "control": {
      const numbers = [...listFlows(experiment).entries()].filter(([, one]) => one.table === "flows" && one.index === change.index);
      return numbers.reduce((sum, [number]) => changeAt(sum, { kind: "set", key: `flows[${number}].cc`, value: change.cc }, time), experiment);
    }
  }
}

/** Ends the stages of this name that last, at `at`, and adds the new one from then on. */
function changePath(experiment: Experiment, flow: number, stage: Spec, at: number, lasts: boolean): Experiment {
  const before = experiment.flows[flow]?.path ?? [];
  const kept = before
    .filter((one) => one.name !== stage.name || Number(one["from"] ?? 0) < at)
    .map((one) => (one.name === stage.name && (one["to"] === undefined || Number(one["to"]) > at) ? { ...one, to: at } : one));
  return setKey(experiment, ["flows", flow, "path"], lasts ? [...kept, { ...stage, from: at }] : kept);
}

/** The value that a setting has given to a key by a time, ns. */
export function findSetting(experiment: Experiment, key: string, time: number): unknown {
  return experiment.settings?.findLast((one) => one.key === key && one.at <= time)?.value;
}

/** The queue of a hop at a time, ns: that of the file, or the last one that has replaced it. */
export function findQueue(experiment: Experiment, hop: "bottleneck" | "reverse", time: number): Spec | undefined {
  return (findSetting(experiment, `${hop}.aqm`, time) as Spec | undefined) ?? experiment[hop]?.aqm;
}

/** The rate of the bottleneck at a time, ns: what the file says first, or the last change. */
export function findRate(experiment: Experiment, time: number): number {
  return (experiment.bottleneck.rate_changes ?? []).filter((one) => one.at <= time).at(-1)?.rate ?? experiment.bottleneck.rate;
}

/** Returns a sender of its kind with the registry's defaults, ready to be changed. */
export function makeSender(table: SenderTable): Table {
  switch (table) {
    case "flows":
      return { cc: { name: "cubic" }, base_rtt: 40 * MS };
    case "udp":
      return { rate: 7840, size: 98, echo: true, base_rtt: 40 * MS };
    case "app":
      return { kind: { name: "call" }, base_rtt: 40 * MS };
    case "web":
      return { cc: { name: "cubic" }, base_rtt: 40 * MS };
  }
}

/** Returns the experiment with every key of the registry's default left out, for a short link. */
export function dropDefaults(experiment: Experiment, registry: Registry): Experiment {
  const clean = (table: Table, params: { name: string; default: unknown }[]) =>
    Object.fromEntries(
      Object.entries(table).filter(([key, value]) => {
        const known = params.find((one) => one.name === key);
        return value !== undefined && (!known || JSON.stringify(known.default) !== JSON.stringify(value));
      }),
    );
  const spec = (kind: "aqm" | "cc" | "app" | "stage", one: Spec): Spec => ({
    ...clean(one, registry[kind].find((known) => known.name === one.name)?.params ?? []),
    name: one.name,
  });
  const hop = ({ rate, aqm, ...rest }: Hop): Hop => ({ rate, aqm: spec("aqm", aqm), ...dropEmpty(clean(rest, registry.sections["bottleneck"] ?? [])) });
  const sender = (table: SenderTable) => (one: Table) => {
    const inner = dropEmpty(clean(one, registry.sections[table] ?? []));
    if (one["cc"]) inner["cc"] = spec("cc", one["cc"] as Spec);
    if (table === "app") inner["kind"] = spec("app", one["kind"] as Spec);
    const start = inner["start"] as Start | undefined;
    if (start?.max === 0) delete inner["start"];
    if (inner["count"] === 1) delete inner["count"];
    if (inner["direction"] === "down") delete inner["direction"];
    return inner;
  };
  const result: Experiment = { ...(dropEmpty(experiment) as Experiment), bottleneck: hop(experiment.bottleneck) };
  if (experiment.reverse) result.reverse = hop(experiment.reverse);
  for (const section of ["hosts", "record"]) {
    const own = clean((experiment[section] ?? {}) as Table, registry.sections[section] ?? []);
    if (Object.keys(own).length) result[section] = own;
    else delete result[section];
  }
  for (const table of Object.keys(SENDERS) as SenderTable[]) {
    const entries = experiment[table];
    if (entries?.length) (result[table] as Table[]) = entries.map(sender(table));
    else if (table !== "flows") delete result[table];
    else result.flows = [];
  }
  return result;
}

/** Returns a table without its empty lists and tables. */
function dropEmpty(table: Table): Table {
  return Object.fromEntries(Object.entries(table).filter(([, value]) => typeof value !== "object" || value === null || Object.keys(value).length > 0));
}
