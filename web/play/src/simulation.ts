// A simulation that the page advances, changes, and takes back to an earlier state.

import type { Experiment, Setting, Spec, Table } from "./experiment";
import { makeConfig } from "./experiment";
import type { Registry } from "./registry";

export interface SenderView {
  number: number;
  class: number;
  payload: number;
  cwnd: number;
  ssthresh: number;
  in_flight: number;
  srtt_ms: number;
}

/** The state of a run at an instant. */
export interface View {
  time_ms: number;
  events: number;
  backlog_packets: number;
  backlog_bytes: number;
  packets: number;
  bytes: number;
  ce_marks: number;
  sce_marks: number;
  drops_overflow: number;
  drops_aqm: number;
  states: Record<string, number>;
  endpoints: SenderView[];
}

export interface EventNames {
  columns: string[];
  kinds: string[];
  drop_reasons: string[];
  drop_sites: string[];
  marks: string[];
  mark_reasons: string[];
  exit_causes: string[];
  states: string[];
}

export type Column = (number | string | null)[];

export interface Outcome {
  summary: Record<string, number | string | null>;
  digest: string;
  tables: Record<string, Record<string, Column>>;
}

/** A run on its way (crates/dumbbell-wasm/js/dumbbell.js). */
interface StartedRun {
  step(ms: number): boolean;
  set(key: string, value: unknown): void;
  finish(): Outcome;
  forget(): void;
}

/** A run whose events are recorded. */
interface WatchedRun extends StartedRun {
  view(): View;
  events(): Float64Array;
  eventNames(): EventNames;
  snapshot(): WatchedRun;
  restore(snapshot: WatchedRun): void;
}

/** The engine's module. */
export interface Engine {
  readonly version: string;
  readonly registry: Registry;
  /** Bytes of the module's memory; it does not shrink. */
  readonly memory: number;
  check(config: Table): void;
  run(config: Table): Outcome;
  start(config: Table, options: { changeable: boolean }): StartedRun;
  watch(config: Table): WatchedRun;
}

const NS_PER_MS = 1e6;
/** Progress of a measurement between two looks at the clock, ms of the run. */
const MEASURE_STEP_MS = 5;

function roundToNs(ms: number): number {
  return Math.round(ms * NS_PER_MS) / NS_PER_MS;
}

/** A state of a simulation, to return to. */
export interface Snapshot {
  readonly time: number;
  forget(): void;
}

class RunSnapshot implements Snapshot {
  constructor(
    readonly run: WatchedRun,
    readonly time: number,
    readonly isOver: boolean,
    readonly made: number,
  ) {}

  forget(): void {
    this.run.forget();
  }
}

/** Makes the settings of an experiment while its run goes on. Its time is in whole nanoseconds. */
class SteppedRun<Run extends StartedRun> {
  /** How far it has come, ms. */
  now = 0;
  isOver = false;
  /** How many of the settings are made. */
  made = 0;
  readonly #settings: Setting[];

  constructor(
    readonly run: Run,
    { settings = [] }: Experiment,
  ) {
    this.#settings = settings;
  }

  /** Goes on until a time, ms. */
  advance(until: number): void {
    for (let next = this.#settings[this.made]; next && next.at <= until * NS_PER_MS && !this.isOver; next = this.#settings[this.made]) {
      this.#step(next.at / NS_PER_MS);
      this.made += 1;
      if (!this.isOver) this.run.set(next.key, next.value);
    }
    this.#step(until);
  }

  #step(until: number): void {
    const time = roundToNs(until);
    if (time <= this.now || this.isOver) return;
    this.isOver = this.run.step(time - this.now);
    this.now = time;
  }

  end(): void {
    this.run.forget();
  }
}

/** A run of an experiment that the page shows. */
export class Simulation extends SteppedRun<WatchedRun> {
  readonly names = () => this.run.eventNames();

  /** Throws the engine's ConfigError if the experiment cannot be used. */
  constructor(engine: Engine, experiment: Experiment) {
    super(engine.watch(makeConfig(experiment)), experiment);
  }

  /** Whether it has come to a time, ms: to the nearest nanosecond. */
  hasReached(time: number): boolean {
    return this.now >= roundToNs(time);
  }

  view(): View {
    return this.run.view();
  }

  /** Events since the last call, in rows; `names` has their columns. */
  takeEvents(): Float64Array {
    return this.run.events();
  }

  takeSnapshot(): Snapshot {
    return new RunSnapshot(this.run.snapshot(), this.now, this.isOver, this.made);
  }

  restore(snapshot: Snapshot): void {
    const { run, time, isOver, made } = snapshot as RunSnapshot;
    this.run.restore(run);
    this.now = time;
    this.isOver = isOver;
    this.made = made;
  }
}

/** The whole run of an experiment, without events: it is measured a piece at a time. */
export class Measurement {
  readonly #run: SteppedRun<StartedRun>;

  constructor(engine: Engine, experiment: Experiment) {
    this.#run = new SteppedRun(engine.start(makeConfig(experiment), { changeable: Boolean(experiment.settings?.length) }), experiment);
  }

  /** Goes on for so long, ms of the clock. Returns the measurements once the run is over; it is then forgotten. */
  work(budget: number): Outcome | null {
    const end = performance.now() + budget;
    while (!this.#run.isOver) {
      if (performance.now() >= end) return null;
      this.#run.advance(this.#run.now + MEASURE_STEP_MS);
    }
    return this.#run.run.finish();
  }

  end(): void {
    this.#run.end();
  }
}

/** Returns the measurements of a whole run. */
export function measureRun(engine: Engine, experiment: Experiment): Outcome {
  return new Measurement(engine, experiment).work(Infinity)!;
}

/** The parameters that may change while the run goes on, of each queue that the experiment has at any time: its name, a dot, and that of the parameter. */
export function listChangeable(engine: Engine, registry: Registry, experiment: Experiment): string[] {
  const run = engine.start(makeConfig(experiment), { changeable: true });
  const found = new Set<string>();
  for (const hop of ["bottleneck", "reverse"] as const) {
    const replacing = (experiment.settings ?? []).filter((one) => one.key === `${hop}.aqm`).map((one) => one.value as Spec);
    for (const aqm of [experiment[hop]?.aqm, ...replacing]) {
      const accepts = (key: string, value: unknown): boolean => {
        try {
          run.set(key, value);
          return true;
        } catch {
          return false;
        }
      };
      // the engine refuses parameters that cannot change
      if (!aqm || !accepts(`${hop}.aqm`, aqm)) continue;
      for (const { name, default: usual } of registry.aqm.find((one) => one.name === aqm.name)?.params ?? [])
        if (accepts(`${hop}.aqm.${name}`, aqm[name] ?? usual)) found.add(`${aqm.name}.${name}`);
    }
  }
  run.forget();
  return [...found];
}
