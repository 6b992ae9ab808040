// The state of the page: one or two set-ups, what is known of their runs, and the clock that all of them follow.

import type { Experiment } from "./experiment";
import { changeAt, findLongestRtt, MS } from "./experiment";
import type { Change } from "./experiment";
import type { Frame, Reply, Request } from "./messages";
import type { Sample, StateChange, Story } from "./observer";
import { applyChanges } from "./observer";
import type { SeedRun } from "./seeds";
import type { Outcome } from "./simulation";
import type { Registry } from "./registry";

export type SideName = "a" | "b";

/** A refusal of the engine: the key of the experiment, and the allowed values. */
export interface Refusal {
  key: string | null;
  message: string;
  allowed: string | null;
}

export interface RunData {
  interval: number;
  samples: Sample[];
  /** The last ones: `forgotten` of them are left out. */
  stories: { forgotten: number; kept: Story[] };
  states: { forgotten: number; kept: StateChange[] };
  histogram: Float64Array;
  packets: Float64Array;
}

const NO_DATA: RunData = {
  ...{ interval: 1, samples: [], stories: { forgotten: 0, kept: [] }, states: { forgotten: 0, kept: [] } },
  ...{ histogram: new Float64Array(1), packets: new Float64Array(0) },
};
const NOTHING: Experiment = { title: "", duration: 1e9, seed: 1, bottleneck: { rate: 1e7, aqm: { name: "pfifo" } }, flows: [] };
/** Speeds, seconds of the run for each second of the clock. */
export const SPEEDS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, Infinity];
/** Work of a worker for each frame at the highest speed, ms: pages of 60 frames a second stay smooth. */
const WORK_MS = 10;
/** Charts are painted in turns for so long in each frame, ms. */
const PAINT_MS = 5;
/** The clock does not jump when the page was hidden, ms. */
const LONGEST_FRAME_MS = 100;

/** How long the reader pauses before whole runs are measured, ms. */
const MEASURE_AFTER_MS = 250;
/** A moment that takes longer than this to compute, ms, is announced. */
const ANNOUNCE_AFTER_MS = 150;

export class Side {
  data: RunData = NO_DATA;
  refusal: Refusal | null = null;
  outcome: Outcome | null = null;
  now = 0;
  isBusy = false;
  isMeasuring = false;
  /** The first frame of the present run has been shown. */
  isShown = false;
  cost = 0;
  /** Runs with other seeds that are done. */
  seedRuns: SeedRun[] = [];
  /** Keys of the queues' parameters that may change while the run goes on. */
  changeable: string[] = [];
  /** Bytes of the engine's memory, and snapshots in it. */
  memory = 0;
  snapshots = 0;
  /** The largest value that each chart shows. */
  tops: Record<string, number> = {};
  #run = 0;
  #interval = 1;
  #next: Request | null = null;
  /** The moment that was asked for last, ms. */
  #until = 0;

  constructor(
    public experiment: Experiment,
    readonly worker: Worker,
    readonly session: Session,
  ) {
    worker.onmessage = ({ data }: MessageEvent<Reply>) => this.take(data);
    worker.onerror = (event) => {
      this.refusal = { key: null, message: event.message, allowed: null };
      session.changed();
    };
  }

  /** Sends a request, or keeps it until the last one is answered. Only the newest is kept; a start is kept with the newest moment. */
  ask(request: Request): void {
    // nothing is to be seen of a run that was refused
    if (this.refusal && request.kind !== "start" && request.kind !== "load") return;
    if (this.isBusy) {
      const next = this.#next;
      // each frame asks for measurements again
      if (request.kind === "measure") return;
      if (next?.kind !== "start" || request.kind === "start") this.#next = request;
      else if (request.kind === "advance" || request.kind === "seek") this.#next = { ...next, until: request.until };
      return;
    }
    this.isBusy = request.kind !== "load";
    this.isMeasuring = request.kind === "measure";
    if ("until" in request) this.#until = Math.min(request.until, this.experiment.duration / MS);
    else this.#until = 0;
    this.worker.postMessage(request);
  }

  restart(until: number): void {
    this.#run += 1;
    this.refusal = null;
    this.isShown = false;
    this.now = until;
    this.tops = {};
    this.ask({ kind: "start", run: this.#run, experiment: this.experiment, until });
  }

  /** Sends the request that was kept, or else one that goes on with the last one, which is done by a piece only. */
  #answered(rest: Request | null = null): void {
    this.isBusy = false;
    const next = this.#next ?? rest;
    this.#next = null;
    if (next) this.ask(next);
  }

  take(message: Reply): void {
    switch (message.kind) {
      case "loaded":
        this.session.loaded(message);
        return;
      case "started":
        if (message.run !== this.#run) return;
        this.outcome = null;
        this.seedRuns = [];
        this.#interval = message.interval;
        return;
      case "changeable":
        if (message.run !== this.#run) return;
        this.changeable = message.keys;
        if (!this.session.isPlaying) this.session.changed();
        return;
      case "seed":
        if (message.run !== this.#run) return;
        this.seedRuns.push(message.seedRun);
        if (!this.session.isPlaying) this.session.changed();
        return;
      case "refused":
        if (message.run === this.#run) this.refusal = message;
        this.#answered();
        this.session.pause();
        return;
      case "measured":
        if (message.run === this.#run) this.outcome = message.outcome;
        this.#answered(message.outcome || this.session.isPlaying ? null : { kind: "measure" });
        if (message.outcome) this.session.changed();
        return;
      case "frame":
        if (message.run === this.#run) this.#show(message);
        this.#answered(this.now < this.#until ? { kind: "advance", until: this.#until } : null);
        if (message.run === this.#run) this.session.framed();
        return;
    }
  }

  #show(frame: Frame): void {
    // the former run is shown until there is something to see of this one
    const data = this.isShown ? this.data : { ...NO_DATA, interval: this.#interval, samples: [] };
    data.samples.push(...frame.samples);
    this.data = {
      ...{ interval: data.interval, samples: data.samples },
      ...{ stories: applyChanges(data.stories, frame.stories), states: applyChanges(data.states, frame.states) },
      ...{ histogram: frame.histogram, packets: frame.packets },
    };
    this.now = frame.now;
    this.cost = frame.cost;
    this.memory = frame.memory;
    this.snapshots = frame.snapshots;
    this.isShown = true;
  }

  measure(): void {
    this.ask({ kind: "measure" });
  }
}

export class Session {
  registry: Registry | null = null;
  /** What the page could not do, until the next change. */
  notice = "";
  /** A question is open whose answer the measurements would give away. */
  isAsking = false;
  /** The moment that the reader asked for has been computed for a while, and is not there yet. */
  isComputing = false;
  version = "";
  sides: Partial<Record<SideName, Side>> = {};
  active: SideName = "a";
  isPlaying = false;
  speed = 1;
  /** Milliseconds of the run that charts show, up to the moment; 0 for the whole run. */
  span = 0;
  #module: WebAssembly.Module | null = null;
  #makeWorker: () => Worker;
  #listeners = new Set<() => void>();
  #painters = new Set<() => void>();
  #turns = new Set<() => void>();
  /** A moment has come that is not painted yet. */
  #isNew = false;
  /** Charts that wait for their turn are painted in the next frame. */
  #isTurnDue = false;
  #clock = 0;
  #stride = 5;
  #begin: ((registry: Registry) => void) | null = null;
  #waiting: ReturnType<typeof setTimeout> | undefined;
  #announcing: ReturnType<typeof setTimeout> | undefined;

  constructor(makeWorker: () => Worker) {
    this.#makeWorker = makeWorker;
  }

  /** Takes over a worker that loads the engine, with its replies so far, then calls `begin` with the engine's registry. */
  open({ worker, replies }: { worker: Worker; replies: MessageEvent<Reply>[] }, begin: (registry: Registry) => void): void {
    this.#begin = begin;
    const side = new Side(NOTHING, worker, this);
    this.sides.a = side;
    for (const { data } of replies) side.take(data);
  }

  /** Shows an experiment from a moment on, ms, next to another one if there is one. */
  begin(experiment: Experiment, other: Experiment | null, until: number): void {
    const side = this.sides.a!;
    side.experiment = experiment;
    side.data = NO_DATA;
    side.outcome = null;
    side.restart(Math.min(until, experiment.duration / MS));
    this.#announceSoon();
    if (other) this.compare(other, until);
  }

  #addSide(name: SideName, experiment: Experiment): Side {
    const side = new Side(experiment, this.#makeWorker(), this);
    this.sides[name] = side;
    side.ask({ kind: "load", module: this.#module! });
    return side;
  }

  loaded({ registry, version, module }: Extract<Reply, { kind: "loaded" }>): void {
    this.registry ??= registry;
    this.version = version;
    this.#module = module;
    this.#begin?.(registry);
    this.#begin = null;
    this.changed();
  }

  get side(): Side {
    return this.sides[this.active] ?? this.sides.a!;
  }

  get all(): Side[] {
    return Object.values(this.sides);
  }

  /** The moment that is shown, ms. */
  get now(): number {
    return Math.min(...this.all.map((one) => one.now));
  }

  get duration(): number {
    return Math.max(...this.all.map((one) => one.experiment.duration)) / MS;
  }

  // ---------------------------------------------------------------- changes

  /** Replaces the experiment of the active side, or of another one, and shows the same moment of it. */
  edit(experiment: Experiment, name: SideName = this.active): void {
    const side = this.sides[name]!;
    this.notice = "";
    side.experiment = experiment;
    const end = experiment.duration / MS;
    // a run that was watched to its end is shown to its end
    side.restart(Math.min(this.now, end));
    this.#announceSoon();
    this.changed();
  }

  /** Changes something from this moment on. */
  change(change: Change): void {
    this.edit(changeAt(this.side.experiment, change, this.now * MS));
  }

  compare(other: Experiment, until = this.now): void {
    this.#addSide("b", other).restart(until);
    this.active = "b";
    this.changed();
  }

  endComparison(): void {
    if (!this.sides.b) return;
    this.sides.b.worker.terminate();
    delete this.sides.b;
    this.active = "a";
    this.changed();
  }

  // ---------------------------------------------------------------- the clock

  play(): void {
    if (this.isPlaying) return;
    if (this.now >= this.duration) this.seek(0);
    this.isPlaying = true;
    this.#clock = performance.now();
    requestAnimationFrame(() => this.#tick());
    this.changed();
  }

  pause(): void {
    this.isPlaying = false;
    this.#measureSoon();
    this.changed();
  }

  #tick(): void {
    if (!this.isPlaying) return;
    const clock = performance.now();
    if (this.#isNew) this.#paint(clock + PAINT_MS);
    const passed = Math.min(clock - this.#clock, LONGEST_FRAME_MS);
    if (this.all.every((one) => !one.isBusy)) {
      this.#clock = clock;
      if (this.speed === Infinity) {
        const cost = Math.max(...this.all.map((one) => one.cost), 0.1);
        this.#stride = Math.min(1000, Math.max(1, this.#stride * Math.min(2, Math.max(0.5, WORK_MS / cost))));
      }
      const until = this.now + (this.speed === Infinity ? this.#stride : passed * this.speed);
      for (const side of this.all) side.ask({ kind: "advance", until });
    }
    requestAnimationFrame(() => this.#tick());
  }

  /** Shows another moment, ms. */
  seek(time: number): void {
    const until = Math.max(0, Math.min(time, this.duration));
    for (const side of this.all) side.ask({ kind: "seek", until });
    this.#announceSoon();
  }

  /** Lets the page say that it computes, unless the moment comes soon. */
  #announceSoon(): void {
    clearTimeout(this.#announcing);
    this.#announcing = setTimeout(() => {
      if (this.isPlaying || !this.#isWorking) return;
      this.isComputing = true;
      this.changed();
    }, ANNOUNCE_AFTER_MS);
  }

  /** Whether a moment is on its way. */
  get #isWorking(): boolean {
    return this.all.some((one) => one.isBusy && !one.refusal && !one.isMeasuring);
  }

  stepPacket(): void {
    this.pause();
    for (const side of this.all) side.ask({ kind: "packet" });
  }

  /** Goes on by so many round trips, or back. */
  stepRtt(count = 1): void {
    this.pause();
    this.seek(this.now + (count * findLongestRtt(this.side.experiment)) / MS);
  }

  // ---------------------------------------------------------------- listeners

  /** Calls `listener` when something other than the moment changed. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Calls `painter` for each new moment. */
  onFrame(painter: () => void): () => void {
    this.#painters.add(painter);
    return () => this.#painters.delete(painter);
  }

  changed(): void {
    if (this.isPlaying || !this.#isWorking) this.isComputing = false;
    for (const listener of this.#listeners) listener();
    this.#paint(performance.now() + PAINT_MS);
  }

  /** Paints the new moment, then the charts whose turn it is, until a time of the clock, ms: one at least. */
  #paint(until: number): void {
    this.#isNew = false;
    for (const painter of this.#painters) painter();
    this.#takeTurns(until);
  }

  #takeTurns(until: number): void {
    for (const paint of this.#turns) {
      this.#turns.delete(paint);
      paint();
      if (performance.now() >= until) break;
    }
    // while the run plays, each new moment goes on with the turns
    if (!this.#turns.size || this.isPlaying || this.#isTurnDue) return;
    this.#isTurnDue = true;
    requestAnimationFrame(() => {
      this.#isTurnDue = false;
      this.#takeTurns(performance.now() + PAINT_MS);
    });
  }

  /** Calls `paint` once, in one of the next frames. */
  paintInTurn(paint: () => void): void {
    this.#turns.add(paint);
  }

  forgetTurn(paint: () => void): void {
    this.#turns.delete(paint);
  }

  framed(): void {
    if (this.isPlaying && this.now >= this.duration) this.pause();
    else if (this.isPlaying) this.#isNew = true;
    else {
      this.changed();
      this.#measureSoon();
    }
  }

  /** The measurements of whole runs, once the reader has paused. */
  #measureSoon(): void {
    clearTimeout(this.#waiting);
    this.#waiting = setTimeout(() => {
      for (const side of this.all) if (!side.outcome && !side.refusal) side.measure();
    }, MEASURE_AFTER_MS);
  }
}
