// A worker: it simulates one set-up, so that the page never waits.

import { load } from "../../../crates/dumbbell-wasm/js/dumbbell.js";
import { listFlows, makeConfig } from "./experiment";
import type { Frame, Reply, Request } from "./messages";
import { Observer } from "./observer";
import type { Sample } from "./observer";
import { startSimulation } from "./simulation";
import type { Engine, Simulation } from "./simulation";

const MOST_SAMPLES = 4000;
const LEAST_INTERVAL_MS = 1;
/** Events are taken at least so often, ms of the run. */
const CHUNK_MS = 20;
/** Progress of the search for the next packet that leaves, ms. */
const PACKET_STEP_MS = 0.02;

let engine: Engine;
let current: WatchedSetup | null = null;

class WatchedSetup {
  #simulation: Simulation;
  #observer: Observer;
  #samples: Sample[] = [];
  #reported = { samples: 0, stories: 0, states: 0 };
  readonly interval: number;
  readonly #names: string[];
  now = 0;

  constructor(
    readonly run: number,
    readonly request: Extract<Request, { kind: "start" }>,
  ) {
    const { experiment } = request;
    const flows = listFlows(experiment);
    this.#names = flows.map((one, number) => `flow ${number + 1} (${one.name})`);
    this.interval = Math.max(LEAST_INTERVAL_MS, Math.ceil(experiment.duration / 1e6 / MOST_SAMPLES));
    this.#observer = this.#makeObserver();
    this.#simulation = startSimulation(engine, makeConfig(experiment));
  }

  #makeObserver(): Observer {
    return new Observer((flow) => this.#names[flow] ?? "another flow", this.#names.length);
  }

  get duration(): number {
    return this.request.experiment.duration / 1e6;
  }

  /** Simulates until a moment can be shown, ms. */
  advance(until: number): void {
    const end = Math.min(until, this.duration);
    this.now = Math.max(this.now, end);
    let target = this.now + this.#observer.lookahead;
    while (this.#simulation.now < target && !this.#simulation.isOver) {
      const next = (Math.floor(this.#simulation.now / this.interval + 1e-9) + 1) * this.interval;
      const step = Math.min(next, this.#simulation.now + CHUNK_MS, target);
      this.#simulation.advance(step);
      this.#takeEvents();
      if (step >= next) this.#takeSample(next);
      target = this.now + this.#observer.lookahead;
    }
  }

  #takeEvents(): void {
    const rows = this.#simulation.takeEvents();
    if (rows.length) this.#observer.take(rows, this.#simulation.names);
  }

  #takeSample(time: number): void {
    const sample = this.#observer.takeSample(time, this.#simulation.view());
    const index = Math.round(time / this.interval) - 1;
    if (index >= this.#samples.length) this.#samples.push(sample);
  }

  /** Goes back to a moment, ms: the series stay, the packets are seen again. */
  goBack(time: number): void {
    this.#simulation.end();
    this.#simulation = startSimulation(engine, makeConfig(this.request.experiment));
    this.#observer = this.#makeObserver();
    this.#reported.stories = this.#reported.states = 0;
    this.now = 0;
    this.advance(time);
  }

  /** Goes on until the next packet leaves the link. */
  advancePacket(): void {
    const before = this.#observer.departures;
    while (this.#observer.departures === before && this.now < this.duration) this.advance(this.now + PACKET_STEP_MS);
  }

  makeFrame(cost: number): Frame {
    const observer = this.#observer;
    const reported = this.#reported;
    this.#reported = { samples: this.#samples.length, stories: observer.stories.length, states: observer.states.length };
    return {
      ...{ kind: "frame", run: this.run, now: this.now, isOver: this.now >= this.duration, cost },
      samples: this.#samples.slice(reported.samples),
      // the last sentences may have grown
      stories: observer.stories,
      states: observer.states.slice(reported.states),
      histogram: observer.histogram,
      packets: observer.listPackets(this.now),
      marks: [...observer.marksByFlow],
      drops: [...observer.dropsByFlow],
    };
  }

  end(): void {
    this.#simulation.end();
  }

  measure() {
    return this.#simulation.measure();
  }
}

function reply(message: Reply): void {
  postMessage(message);
}

function refuse(run: number, error: unknown): void {
  const { message, key = null, allowed = null } = error as { message: string; key?: string | null; allowed?: string | null };
  reply({ kind: "refused", run, message, key, allowed });
}

function showFrame(work: (setup: WatchedSetup) => void): void {
  if (!current) return;
  const began = performance.now();
  try {
    work(current);
    reply(current.makeFrame(performance.now() - began));
  } catch (error) {
    refuse(current.run, error);
  }
}

async function answer(data: Request): Promise<void> {
  switch (data.kind) {
    case "load":
      engine = (await load(data.module)) as unknown as Engine;
      reply({ kind: "loaded", version: engine.version, registry: engine.registry });
      break;
    case "start":
      try {
        const next = new WatchedSetup(data.run, data);
        current?.end();
        current = next;
        reply({ kind: "started", run: data.run, interval: next.interval });
      } catch (error) {
        refuse(data.run, error);
        break;
      }
      showFrame((setup) => setup.advance(data.until));
      break;
    case "advance":
      showFrame((setup) => setup.advance(data.until));
      break;
    case "back":
      showFrame((setup) => setup.goBack(data.until));
      break;
    case "packet":
      showFrame((setup) => setup.advancePacket());
      break;
    case "measure":
      if (current) reply({ kind: "measured", run: current.run, outcome: current.measure() });
      break;
  }
}

/** Requests are answered in their order, also while the engine is still being loaded. */
let last = Promise.resolve();
onmessage = ({ data }: MessageEvent<Request>) => {
  last = last.then(() => answer(data));
};
