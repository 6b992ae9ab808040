// A worker: it simulates one set-up, so that the page never waits.

import { load } from "../../../crates/dumbbell-wasm/js/dumbbell.js";
import type { Experiment } from "./experiment";
import { listFlows, MS } from "./experiment";
import type { Frame, Reply, Request } from "./messages";
import { formatSeconds, Observer } from "./observer";
import type { Sample, StoryKind } from "./observer";
import { formatQuantity } from "./quantities";
import type { Registry } from "./registry";
import type { SeedRun } from "./seeds";
import { SeedRuns } from "./seeds";
import { describeSetting } from "./settings";
import { listChangeable, Measurement, Simulation } from "./simulation";
import type { Engine, Outcome, Snapshot } from "./simulation";
import { SnapshotRing } from "./snapshots";

const MOST_SAMPLES = 4000;
const LEAST_INTERVAL_MS = 1;
/** Events are taken at least so often, ms of the run, and more often where that takes longer than SLOW_CHUNK_MS of the clock. */
const CHUNK_MS = 20;
const SLOW_CHUNK_MS = 20;
/** The first chunk, ms of the run: nothing is known of how long it takes. */
const FIRST_CHUNK_MS = 0.1;
/** The worker answers a request after so long, ms, with what it has: a newer request may follow. */
const PIECE_MS = 100;
/** The first answer of a run comes after so long, ms: there is something to see soon. */
const FIRST_PIECE_MS = 20;
/** Progress of the search for the next packet that leaves, ms. */
const PACKET_STEP_MS = 0.02;
/** The page draws each packet: this is a picture and a memory that a browser can hold. */
const MOST_PACKETS = 100_000;
/** Snapshots are forgotten while the engine's memory is larger, bytes. */
const MOST_MEMORY = 256 * 2 ** 20;
/** Further seeds run when no request has come for so long, ms, in pieces of so long: a request waits for one piece at most. */
const IDLE_AFTER_MS = 400;
const IDLE_PIECE_MS = 5;
const IDLE_PAUSE_MS = 10;

let module: WebAssembly.Module;
let engine: Engine;
let registry: Registry;
let current: WatchedSetup | null = null;

/** Sentences of what the experiment itself changes, by time. */
function listAnnouncements(experiment: Experiment): { time: number; kind: StoryKind; flow: number; text: string }[] {
  const found: { time: number; kind: StoryKind; flow: number; text: string }[] = [];
  const flows = listFlows(experiment);
  let rate = experiment.bottleneck.rate;
  for (const one of [...(experiment.bottleneck.rate_changes ?? [])].sort((a, b) => a.at - b.at)) {
    const verb = one.rate < rate ? "fell" : "rose";
    found.push({ time: one.at / MS, kind: "rate", flow: -1, text: `The rate of the link ${verb} from ${spell(rate)} to ${spell(one.rate)}.` });
    rate = one.rate;
  }
  flows.forEach(({ table, index, name }, flow) => {
    const stop = experiment[table]?.[index]?.["stop"];
    if (typeof stop === "number") found.push({ time: stop / MS, kind: "stop", flow, text: `flow ${flow + 1} (${name}) stopped sending new data.` });
  });
  for (const one of experiment.settings ?? [])
    found.push({ time: one.at / MS, kind: "set", flow: -1, text: `${describeSetting(one, experiment, registry)}.` });
  return found.sort((a, b) => a.time - b.time);
}

function spell(rate: number): string {
  return `${formatQuantity("rate", rate).replace(/(?<=\d)(?=[A-Za-z])/, " ")}/s`;
}

class WatchedSetup {
  readonly #simulation: Simulation;
  #observer: Observer;
  readonly #first: Observer;
  readonly #start: Snapshot;
  readonly #ring = new SnapshotRing();
  readonly #announcements: ReturnType<typeof listAnnouncements>;
  #samples: Sample[] = [];
  #reported = 0;
  readonly interval: number;
  readonly #names: string[];
  readonly seeds: SeedRuns;
  #measurement: Measurement | null = null;
  #chunk = FIRST_CHUNK_MS;
  now = 0;

  constructor(
    readonly run: number,
    readonly request: Extract<Request, { kind: "start" }>,
  ) {
    const { experiment } = request;
    const flows = listFlows(experiment);
    this.#names = flows.map((one, number) => `flow ${number + 1} (${one.name})`);
    this.interval = Math.max(LEAST_INTERVAL_MS, Math.ceil(experiment.duration / MS / MOST_SAMPLES));
    this.#observer = new Observer((flow) => this.#names[flow] ?? "another flow", this.#names.length);
    this.#first = this.#observer.copy();
    this.#simulation = new Simulation(engine, experiment);
    this.#start = this.#simulation.takeSnapshot();
    this.#announcements = listAnnouncements(experiment);
    this.seeds = new SeedRuns(engine, experiment);
  }

  get duration(): number {
    return this.request.experiment.duration / MS;
  }

  /** Simulates until a moment can be shown, ms, or an earlier one if the clock comes to `deadline`. */
  advance(until: number, deadline = performance.now() + PIECE_MS): void {
    const moment = Math.max(this.now, Math.min(until, this.duration));
    const simulation = this.#simulation;
    // events of so much later are needed to see packets on their way to the queue
    const findTarget = () => Math.min(moment + this.#observer.lookahead, this.duration);
    let target = findTarget();
    let clock = performance.now();
    while (!simulation.hasReached(target) && !simulation.isOver) {
      if (clock >= deadline) {
        this.now = Math.max(this.now, Math.min(moment, simulation.now - this.#observer.lookahead));
        return;
      }
      const next = (Math.floor(simulation.now / this.interval + 1e-9) + 1) * this.interval;
      const step = Math.min(next, simulation.now + this.#chunk, target);
      const before = simulation.now;
      simulation.advance(step);
      for (const one of this.#announcements) if (one.time > before && one.time <= simulation.now) this.#observer.tell(one);
      this.#takeEvents();
      if (simulation.hasReached(next)) this.#takeSample(next);
      if (this.#ring.isDue(simulation.now)) this.#keep();
      target = findTarget();
      const began = clock;
      clock = performance.now();
      this.#chunk = clock - began > SLOW_CHUNK_MS ? this.#chunk / 2 : Math.min(CHUNK_MS, this.#chunk * 2);
    }
    this.now = moment;
  }

  #keep(): void {
    this.#ring.add({ time: this.#simulation.now, snapshot: this.#simulation.takeSnapshot(), observer: this.#observer.copy() });
    if (engine.memory > MOST_MEMORY) this.#ring.thin();
  }

  #takeEvents(): void {
    const rows = this.#simulation.takeEvents();
    if (rows.length) this.#observer.take(rows, this.#simulation.names());
    if (this.#observer.packetCount > MOST_PACKETS) this.#checkPackets();
  }

  /** Refuses a run with too many packets on the path at once. */
  #checkPackets(): void {
    const observer = this.#observer;
    // those that are gone are forgotten when the others are listed
    observer.listPackets(this.#simulation.now - observer.lookahead);
    const { packetCount } = observer;
    if (packetCount > MOST_PACKETS) throw new Error(`${packetCount} packets are on the path after ${formatSeconds(this.#simulation.now)}, allowed: ${MOST_PACKETS}. The playground draws each of them; dumbbell run has no such limit.`);
  }

  #takeSample(time: number): void {
    const sample = this.#observer.takeSample(time, this.#simulation.view());
    const index = Math.round(time / this.interval) - 1;
    if (index >= this.#samples.length) this.#samples.push(sample);
  }

  /** Goes to a moment, ms, from the nearest snapshot before it: the series stay, the packets are seen again. */
  seek(time: number): void {
    const kept = this.#ring.find(time);
    const isAhead = time >= this.now && (kept?.time ?? 0) <= this.#simulation.now;
    if (!isAhead) {
      this.#simulation.restore(kept?.snapshot ?? this.#start);
      this.#observer = (kept?.observer ?? this.#first).copy();
      this.now = Math.min(time, this.#simulation.now);
    }
    this.advance(time);
  }

  /** Goes on until the next packet leaves the link. */
  advancePacket(): void {
    const before = this.#observer.departures;
    const deadline = performance.now() + PIECE_MS;
    while (this.#observer.departures === before && this.now < this.duration && performance.now() < deadline) this.advance(this.now + PACKET_STEP_MS, deadline);
  }

  makeFrame(cost: number): Frame {
    const observer = this.#observer;
    const reported = this.#reported;
    this.#reported = this.#samples.length;
    return {
      ...{ kind: "frame", run: this.run, now: this.now, cost },
      samples: this.#samples.slice(reported),
      stories: observer.stories.takeChanges(),
      states: observer.states.takeChanges(),
      histogram: observer.histogram,
      packets: observer.listPackets(this.now),
      ...{ memory: engine.memory, snapshots: this.#ring.count },
    };
  }

  end(): void {
    this.#ring.clear();
    this.#start.forget();
    this.#simulation.end();
    this.seeds.end();
    this.#measurement?.end();
  }

  /** Measures a piece of the whole run. Returns the measurements at its end. */
  measure(): Outcome | null {
    this.#measurement ??= new Measurement(engine, this.request.experiment);
    const outcome = this.#measurement.work(PIECE_MS);
    if (outcome) this.#measurement = null;
    return outcome;
  }
}

function reply(message: Reply): void {
  postMessage(message);
}

function refuse(run: number, error: unknown): void {
  const { message, key = null, allowed = null } = error as { message: string; key?: string | null; allowed?: string | null };
  reply({ kind: "refused", run, message, key, allowed });
}

function showFrame(setup: WatchedSetup, work: () => void): void {
  const began = performance.now();
  work();
  reply(setup.makeFrame(performance.now() - began));
}

/** Returns the module of its compressed bytes in Base64. */
function unpackModule(packed: string): Promise<WebAssembly.Module> {
  const bytes = new Blob([decodeBase64(packed.trim())]);
  const stream = bytes.stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compileStreaming(new Response(stream, { headers: { "Content-Type": "application/wasm" } }));
}

function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  const { fromBase64 } = Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> };
  if (fromBase64) return fromBase64.call(Uint8Array, text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
  return bytes;
}

async function loadEngine(): Promise<void> {
  engine = (await load(module)) as unknown as Engine;
}

async function answer(data: Request): Promise<void> {
  if (data.kind === "load") {
    module = typeof data.module === "string" ? await unpackModule(data.module) : data.module;
    await loadEngine();
    registry = engine.registry;
    reply({ kind: "loaded", version: engine.version, registry, module });
    return;
  }
  if (data.kind === "start") {
    current?.end();
    current = null;
    current = new WatchedSetup(data.run, data);
    reply({ kind: "started", run: data.run, interval: current.interval });
  }
  const setup = current;
  if (!setup) throw new Error("no run has begun");
  switch (data.kind) {
    case "start":
      showFrame(setup, () => setup.advance(data.until, performance.now() + FIRST_PIECE_MS));
      reply({ kind: "changeable", run: setup.run, keys: listChangeable(engine, registry, data.experiment) });
      break;
    case "advance":
      showFrame(setup, () => setup.advance(data.until));
      break;
    case "seek":
      showFrame(setup, () => setup.seek(data.until));
      break;
    case "packet":
      showFrame(setup, () => setup.advancePacket());
      break;
    case "measure":
      reply({ kind: "measured", run: setup.run, outcome: setup.measure() });
      break;
  }
}

/** Refuses a request. After an error other than one of the experiment, the engine is loaded again: its memory does not shrink, and a bug leaves it unusable. */
async function giveUp(data: Request, error: unknown): Promise<void> {
  refuse(data.kind === "start" ? data.run : (current?.run ?? 0), error);
  current = null;
  if (data.kind === "load" || (error as Error).name === "ConfigError") return;
  await loadEngine();
}

/** Runs of further seeds, a piece at a time. */
function workIdly(): void {
  idle = undefined;
  const setup = current;
  if (!setup || setup.seeds.isDone) return;
  let seedRun: SeedRun | null;
  try {
    seedRun = setup.seeds.work(IDLE_PIECE_MS);
  } catch {
    // a run with another seed that cannot go on: the run of the page tells why, if it cannot either
    setup.seeds.stop();
    return;
  }
  if (seedRun) reply({ kind: "seed", run: setup.run, seedRun });
  idle = setTimeout(workIdly, IDLE_PAUSE_MS);
}

let idle: ReturnType<typeof setTimeout> | undefined;
/** Requests are answered in their order, also while the engine is still being loaded. */
let last = Promise.resolve();
onmessage = ({ data }: MessageEvent<Request>) => {
  // a run that has just begun may be replaced soon: a slider is on its way
  if (data.kind === "start") {
    clearTimeout(idle);
    idle = undefined;
  }
  last = last
    .then(() => answer(data))
    .catch((error: unknown) => giveUp(data, error))
    .then(() => {
      idle ??= setTimeout(workIdly, IDLE_AFTER_MS);
    });
};
