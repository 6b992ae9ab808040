// Experiment files: the text of an experiment, and the experiment of a text.

import { parse as parseToml, TomlError } from "smol-toml";
import type { Experiment, Hop, SenderTable, Spec, Start, Table } from "./experiment";
import { SENDERS } from "./experiment";
import { findUnitKind, formatQuantity, parseQuantity, ValueError } from "./quantities";
import type { AlgorithmKind, Param, Registry } from "./registry";
import { findAlgorithm } from "./registry";

const TIME: Pick<Param, "kind" | "unit"> = { kind: "time", unit: "" };
const HOPS = ["bottleneck", "reverse"] as const;
/** Tables that the engine knows and the page does not show. */
const NOT_SHOWN = ["matrix", "override", "hop", "setting"];
/** Keys of hops that are no parameters of the registry's section. */
const HOP_PARAMS: Record<string, Pick<Param, "kind" | "unit">> = { delay: TIME };

// ---------------------------------------------------------------- experiment to text

/** Returns the experiment file of an experiment: `dumbbell run` makes the same run of it. */
export function formatToml(experiment: Experiment, registry: Registry): string {
  const lines = [`title = ${quote(experiment.title)}`, `duration = ${quote(formatQuantity("time", experiment.duration))}`, `seeds = [${experiment.seed}]`];
  for (const name of HOPS) {
    const hop = experiment[name];
    if (hop) lines.push("", `[${name}]`, ...formatHop(hop, registry));
  }
  const params = (section: string) => registry.sections[section] ?? [];
  for (const section of ["hosts", "record"]) {
    const table = experiment[section] as Table | undefined;
    const keys = Object.entries(table ?? {}).map(([key, value]) => formatKey(key, value, params(section)));
    if (keys.length) lines.push("", `[${section}]`, ...keys);
  }
  for (const table of Object.keys(SENDERS) as SenderTable[])
    for (const entry of experiment[table] ?? []) lines.push("", `[[${table}]]`, ...formatSender(table, entry, registry));
  return `${lines.join("\n")}\n`;
}

function formatHop(hop: Hop, registry: Registry): string[] {
  return Object.entries(hop).map(([key, value]) => {
    if (key === "aqm" || key === "link") return `${key} = ${formatSpec(key, value as Spec, registry)}`;
    if (key === "path" || key === "behind") return `${key} = ${formatSpecs(value as Spec[], registry)}`;
    if (key === "rate_changes") {
      const changes = (value as { at: number; rate: number }[]).map(
        (one) => `{ at = ${quote(formatQuantity("time", one.at))}, rate = ${quote(formatQuantity("rate", one.rate))} }`,
      );
      return `rate_changes = [${changes.join(", ")}]`;
    }
    return formatKey(key, value, [...(registry.sections["bottleneck"] ?? []), { ...TIME, name: "delay" }]);
  });
}

function formatSender(table: SenderTable, entry: Table, registry: Registry): string[] {
  const params = registry.sections[table] ?? [];
  const { cc, kind, ...rest } = entry;
  const ahead = Object.entries({ kind, cc }).filter(([, value]) => value !== undefined);
  return [...ahead, ...Object.entries(rest)].map(([key, value]) => {
    if (key === "cc") return `cc = ${formatSpec("cc", value as Spec, registry)}`;
    if (key === "kind") return `kind = ${formatSpec("app", value as Spec, registry)}`;
    if (key === "path" || key === "ack_path") return `${key} = ${formatSpecs(value as Spec[], registry)}`;
    if (key === "start") return `start = ${formatStart(value as Start)}`;
    return formatKey(key, value, params);
  });
}

function formatStart({ min, max }: Start): string {
  const [low, high] = [min, max].map((time) => quote(formatQuantity("time", time)));
  return min === max ? low! : `{ uniform = [${low}, ${high}] }`;
}

function formatSpecs(specs: Spec[], registry: Registry): string {
  return `[${specs.map((one) => formatSpec("stage", one, registry)).join(", ")}]`;
}

function formatSpec(kind: AlgorithmKind, spec: Spec, registry: Registry): string {
  const params = findAlgorithm(registry, kind, spec.name)?.params ?? [];
  const { name, ...rest } = spec;
  const keys = Object.entries(rest).map(([key, value]) => formatKey(key, value, params));
  return keys.length ? `{ ${[`name = ${quote(name)}`, ...keys].join(", ")} }` : quote(name);
}

function formatKey(key: string, value: unknown, params: (Pick<Param, "kind" | "unit"> & { name: string })[]): string {
  const param = params.find((one) => one.name === key);
  return `${key} = ${formatAny(param, value)}`;
}

function formatAny(param: Pick<Param, "kind" | "unit"> | undefined, value: unknown): string {
  if (value === null) return quote("none");
  const kind = param && findUnitKind(param);
  if (kind && typeof value === "number") return quote(formatQuantity(kind, value));
  if (param?.kind === "arrivals") return quote(formatArrivals(value as Table));
  if (param?.kind === "sizes") return formatSizes(value as Table);
  if (param?.kind === "float" && typeof value === "number" && Number.isInteger(value)) return value.toFixed(1);
  if (typeof value === "string") return quote(value);
  if (Array.isArray(value)) return `[${value.map((one) => formatAny(undefined, one)).join(", ")}]`;
  return String(value);
}

function formatArrivals(value: Table): string {
  return "per_mbit" in value ? `${value["per_mbit"]}/s/Mbit` : `${value["per_second"]}/s`;
}

function formatSizes(value: Table): string {
  if (!("pareto" in value)) return quote(formatQuantity("size", Number(value["bytes"])));
  const [low, high] = [value["min"], value["max"]].map((one) => quote(formatQuantity("size", Number(one))));
  return `{ pareto = ${value["pareto"]}, min = ${low}, max = ${high} }`;
}

function quote(text: string): string {
  return JSON.stringify(text).replace(/\x7f/g, "\\u007f");
}

// ---------------------------------------------------------------- text to experiment

/** A text that is no experiment file; line and column count from 1. */
export class TextError extends Error {
  constructor(
    message: string,
    readonly line: number | null = null,
  ) {
    super(message);
    this.name = "TextError";
  }
}

/** Returns the experiment of a file. Raises TextError if it is not TOML, ValueError if the page does not show a value of it. */
export function readToml(text: string, registry: Registry): Experiment {
  let table: Table;
  try {
    table = parseToml(text) as Table;
  } catch (error) {
    if (error instanceof TomlError) throw new TextError(error.message.split("\n")[0]!.replace(/^Invalid TOML document: /, ""), error.line);
    throw error;
  }
  const { title = "", duration, seeds = [1], bottleneck, reverse, flows = [], udp, app, web, ...rest } = table;
  for (const key of NOT_SHOWN)
    if (key in rest) throw new ValueError(key, "a table", "one run: the playground shows no matrix and no further hops; dumbbell play FILE --cell N shows a run of a matrix");
  if (!Array.isArray(seeds) || seeds.length !== 1) throw new ValueError("seeds", JSON.stringify(seeds), "a list with one seed: the playground shows one run");
  const result: Experiment = {
    title: String(title),
    duration: duration === undefined ? 60e9 : parseQuantity("time", duration, "duration"),
    seed: Number(seeds[0]),
    bottleneck: readHop("bottleneck", bottleneck ?? {}, registry),
    flows: readSenders("flows", flows, registry) as Experiment["flows"],
  };
  if (reverse !== undefined) result.reverse = readHop("reverse", reverse, registry);
  for (const [name, entries] of Object.entries({ udp, app, web }))
    if (entries !== undefined) result[name] = readSenders(name as SenderTable, entries, registry);
  for (const [key, value] of Object.entries(rest)) {
    const params = registry.sections[key];
    if (!params || (key !== "hosts" && key !== "record")) throw new ValueError(key, "a key", "title, duration, seeds, bottleneck, reverse, hosts, flows, udp, app, web, record");
    result[key] = readKeys(key, expectTable(key, value), params);
  }
  return result;
}

function expectTable(key: string, value: unknown): Table {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new ValueError(key, JSON.stringify(value), "a table");
  return value as Table;
}

function expectList(key: string, value: unknown): unknown[] {
  if (!Array.isArray(value)) throw new ValueError(key, JSON.stringify(value), "a list");
  return value;
}

function readHop(name: string, value: unknown, registry: Registry): Hop {
  const result: Table = { rate: 10_000_000, aqm: { name: "pfifo" } };
  const params = registry.sections["bottleneck"] ?? [];
  for (const [key, inner] of Object.entries(expectTable(name, value))) {
    const where = `${name}.${key}`;
    if (key === "aqm" || key === "link") result[key] = readSpec(where, key, inner, registry);
    else if (key === "path" || key === "behind") result[key] = readSpecs(where, inner, registry);
    else if (key === "rate_changes")
      result[key] = expectList(where, inner).map((one, index) => {
        const change = expectTable(`${where}[${index}]`, one);
        return { at: parseQuantity("time", change["at"], `${where}[${index}].at`), rate: parseQuantity("rate", change["rate"], `${where}[${index}].rate`) };
      });
    else if (key === "buffer") throw new ValueError(where, JSON.stringify(inner), "the limit of the queue: the playground does not compute buffers");
    else result[key] = readValue(where, inner, params.find((one) => one.name === key) ?? HOP_PARAMS[key]);
  }
  return result as Hop;
}

function readSenders(table: SenderTable, value: unknown, registry: Registry): Table[] {
  const params = registry.sections[table] ?? [];
  return expectList(table, value).map((one, index) => {
    const where = `${table}[${index}]`;
    const result: Table = {};
    for (const [key, inner] of Object.entries(expectTable(where, one))) {
      const place = `${where}.${key}`;
      if (key === "cc") result[key] = readSpec(place, "cc", inner, registry);
      else if (key === "kind") result[key] = readSpec(place, "app", inner, registry);
      else if (key === "path" || key === "ack_path") result[key] = readSpecs(place, inner, registry);
      else if (key === "start") result[key] = readStart(place, inner);
      else result[key] = readValue(place, inner, params.find((param) => param.name === key));
    }
    return result;
  });
}

function readStart(key: string, value: unknown): Start {
  const uniform = typeof value === "object" && value !== null ? (value as Table)["uniform"] : [value, value];
  const [min, max] = expectList(key, uniform).map((one) => parseQuantity("time", one, key));
  if (min === undefined || max === undefined) throw new ValueError(key, JSON.stringify(value), 'a time, or { uniform = ["0s", "1s"] }');
  return { min, max };
}

function readSpecs(key: string, value: unknown, registry: Registry): Spec[] {
  return expectList(key, value).map((one, index) => readSpec(`${key}[${index}]`, "stage", one, registry));
}

function readSpec(key: string, kind: AlgorithmKind, value: unknown, registry: Registry): Spec {
  const { name, ...rest } = typeof value === "string" ? { name: value } : (expectTable(key, value) as { name?: unknown });
  const known = findAlgorithm(registry, kind, String(name));
  if (!known) throw new ValueError(`${key}.name`, JSON.stringify(name), registry[kind].map((one) => one.name).join(", "));
  return { name: known.name, ...readKeys(key, rest as Table, known.params) };
}

function readKeys(key: string, table: Table, params: Param[]): Table {
  return Object.fromEntries(
    Object.entries(table).map(([name, value]) => [name, readValue(`${key}.${name}`, value, params.find((one) => one.name === name))]),
  );
}

function readValue(key: string, value: unknown, param: Pick<Param, "kind" | "unit"> | undefined): unknown {
  const kind = param && findUnitKind(param);
  if (value === "none" && param && (param as Param).optional && !(param as Param).choices?.includes("none")) return null;
  if (kind) return parseQuantity(kind, value, key);
  if (param?.kind === "arrivals") return readArrivals(key, value);
  if (param?.kind === "sizes") return readSizes(key, value);
  return typeof value === "bigint" ? Number(value) : value;
}

function readArrivals(key: string, value: unknown): Table {
  const match = typeof value === "string" ? /^\s*([0-9.]+)\s*\/s(\/Mbit)?\s*$/.exec(value) : null;
  if (!match) throw new ValueError(key, JSON.stringify(value), '"100/s", or "2.5/s/Mbit"');
  return { [match[2] ? "per_mbit" : "per_second"]: Number(match[1]) };
}

function readSizes(key: string, value: unknown): Table {
  if (typeof value === "string") return { bytes: parseQuantity("size", value, key) };
  const { pareto, min, max } = expectTable(key, value);
  if (typeof pareto !== "number") throw new ValueError(key, JSON.stringify(value), 'a size, or { pareto = 0.9, min = "1kB", max = "1MB" }');
  return { pareto, min: parseQuantity("size", min, `${key}.min`), max: parseQuantity("size", max, `${key}.max`) };
}
