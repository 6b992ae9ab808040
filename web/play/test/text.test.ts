import assert from "node:assert/strict";
import { test } from "node:test";
import type { Experiment, Spec } from "../src/experiment";
import { dropDefaults, MS, SECOND, setKey } from "../src/experiment";
import { formatLink, packText, readLink, unpackText } from "../src/link";
import { PRESETS } from "../src/presets";
import { formatLimits, formatQuantity, parseQuantity, ValueError } from "../src/quantities";
import { formatRepetition } from "../src/settings";
import { formatToml, readToml, TextError } from "../src/toml";
import { loadEngine } from "./engine";

const { registry } = await loadEngine();

test("quantities are read as dumbbell reads them", () => {
  const read: [Parameters<typeof parseQuantity>[0], unknown, number][] = [
    ["time", "20ms", 20e6],
    ["time", "0.1us", 100],
    ["time", "1.5 s", 1.5e9],
    ["time", 0, 0],
    ["rate", "10mbit", 10e6],
    ["rate", "1.5Mbit/s", 1.5e6],
    ["size", "64KiB", 65536],
    ["size", "1.5kB", 1500],
  ];
  for (const [kind, text, value] of read) assert.equal(parseQuantity(kind, text), value);
  for (const [kind, text] of [["time", "20"], ["time", 20], ["time", "20Mbit"], ["rate", "10MB"], ["size", "2.5B"], ["time", "0.5ns"], ["time", "1ms/s"]] as const)
    assert.throws(() => parseQuantity(kind, text), ValueError, String(text));
});

test("quantities are written so that they are read as the same", () => {
  assert.deepEqual([20e6, 1.5e9, 1, 1234567].map((one) => formatQuantity("time", one)), ["20ms", "1.5s", "1ns", "1234.567us"]);
  assert.deepEqual([1e7, 33333333].map((one) => formatQuantity("rate", one)), ["10Mbit", "33333.333kbit"]);
  assert.deepEqual([1448, 65536, 7500, 0].map((one) => formatQuantity("size", one)), ["1448B", "64KiB", "7.5kB", "0B"]);
  for (const kind of ["time", "rate", "size"] as const)
    for (let value = 1; value < 1e15; value = Math.ceil(value * 1.37)) assert.equal(parseQuantity(kind, formatQuantity(kind, value)), value);
});

test("limits of a parameter have its unit", () => {
  const [rate] = registry.sections["bottleneck"]!.filter((one) => one.name === "rate");
  assert.equal(formatLimits(rate!), "from 1 kbit to 10 Tbit");
});

test("every preset is the experiment of its own file, and the engine takes it", async () => {
  const engine = await loadEngine();
  for (const preset of PRESETS) {
    const toml = formatToml(preset, registry);
    assert.deepEqual(readToml(toml, registry), preset);
    const { title: _, ...config } = preset;
    engine.check(config);
  }
  assert.ok(new Set(PRESETS.map((one) => one.title)).size === PRESETS.length);
});

test("what cannot be shown is refused with its key", () => {
  const refused: [string, string][] = [
    ['[matrix]\n"bottleneck.rate" = ["1Mbit"]', "matrix"],
    ["seeds = [1, 2]", "seeds"],
    ['[bottleneck]\nrate = "10"', "bottleneck.rate"],
    ['[bottleneck]\naqm = "codle"', "bottleneck.aqm.name"],
    ['[[flows]]\ncc = { name = "cubic", beta = 1 }\nstart = "3"', "flows[0].start"],
    ['[bottleneck]\nbuffer = "1bdp"', "bottleneck.buffer"],
    ["colour = 3", "colour"],
  ];
  for (const [text, key] of refused) assert.throws(() => readToml(text, registry), (error) => error instanceof ValueError && error.key === key, text);
  assert.throws(() => readToml("title = 'a\nx", registry), (error) => error instanceof TextError && error.line === 1);
});

test("defaults are left out, and everything else stays", () => {
  const [first] = PRESETS;
  const longer = setKey(setKey(first!, ["bottleneck", "aqm", "limit"], 1000), ["flows", 0, "base_rtt"], 20 * MS);
  const short = dropDefaults(longer, registry);
  assert.deepEqual(short.bottleneck.aqm, { name: "pfifo" });
  assert.equal(short.flows[0]!.base_rtt, undefined);
  assert.equal(short.flows[1]!.base_rtt, 40 * MS);
});

const SETTING = { at: 1_500_000_000, key: "bottleneck.aqm.target", value: 20 * MS };

test("a run with settings is repeated by a program", () => {
  const codel = PRESETS.find((one) => one.bottleneck.aqm.name === "codel")!;
  assert.equal(formatRepetition(codel, registry, "a.toml"), "dumbbell run a.toml");
  const algorithms = [
    { at: 2 * SECOND, key: "flows[0].cc", value: { name: "bbr3" } },
    { at: 2 * SECOND, key: "bottleneck.aqm", value: { name: "fq_codel", target: 5 * MS, ecn: false } },
    { at: 3 * SECOND, key: "bottleneck.aqm.quantum", value: 300 },
  ];
  const settings = [SETTING, { ...SETTING, key: "bottleneck.aqm.ecn", value: true }, ...algorithms];
  assert.equal(
    formatRepetition({ ...codel, settings }, registry, "a.toml"),
    'import dumbbell\n\nrun = dumbbell.Simulation("a.toml", seed=1)\nrun.step(until="1.5s")\nrun.set("bottleneck.aqm.target", "20ms")\nrun.set("bottleneck.aqm.ecn", True)\nrun.step(until="2s")\nrun.set("flows[0].cc", "bbr3")\nrun.set("bottleneck.aqm", {"name": "fq_codel", "target": "5ms", "ecn": False})\nrun.step(until="3s")\nrun.set("bottleneck.aqm.quantum", "300B")\nprint(run.finish().runs)',
  );
});

test("a run as the engine has it, with all defaults, is the experiment without them", () => {
  const [first] = PRESETS;
  const all = (params: { name: string; default: unknown }[]) => Object.fromEntries(params.map((one) => [one.name, one.default]));
  const whole = (kind: "aqm" | "cc", one: Spec): Spec => ({ ...all(registry[kind].find((known) => known.name === one.name)!.params), ...one });
  const { bottleneck, flows, udp, ...rest } = first!;
  const canonical = {
    ...{ ...rest, hop: [], web: [], app: [], plugins: {}, hosts: all(registry.sections["hosts"]!), record: all(registry.sections["record"]!) },
    bottleneck: { ...all(registry.sections["bottleneck"]!), path: [], behind: [], rate_changes: [], ...bottleneck, aqm: whole("aqm", bottleneck.aqm) },
    flows: flows.map((one) => ({ ...all(registry.sections["flows"]!), path: [], ack_path: [], count: 1, start: { min: 0, max: 0 }, ...one, cc: whole("cc", one.cc) })),
    udp: udp!.map((one) => ({ ...all(registry.sections["udp"]!), start: { min: 0, max: 0 }, count: 1, path: [], ...one })),
  } as Experiment;
  assert.equal(formatToml(dropDefaults(canonical, registry), registry), formatToml(dropDefaults(first!, registry), registry));
});

test("a link is its experiment", async () => {
  const toml = formatToml(PRESETS[1]!, registry);
  const fragment = await formatLink({ toml, time: 1234.5678, other: `${toml}# ümlaut`, settings: [[], [SETTING]] });
  assert.match(fragment, /^[A-Za-z0-9_=&.-]+$/);
  assert.ok((await packText(toml)).length < 400);
  assert.deepEqual(await readLink(`#${fragment}`), { toml, time: 1234.568, other: `${toml}# ümlaut`, settings: [[], [SETTING]] });
  assert.equal(await readLink("#other"), null);
  await assert.rejects(unpackText("AAAA"));
});
