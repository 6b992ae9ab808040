// A simulation that the page advances. To go back, the page starts another one: ten seconds of a run take some ten milliseconds.

import type { Table } from "./experiment";
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

/** A run whose events are recorded (crates/dumbbell-wasm/js/dumbbell.js). */
interface WatchedRun {
  step(ms: number): boolean;
  view(): View;
  events(): Float64Array;
  eventNames(): EventNames;
  finish(): Outcome;
  forget(): void;
}

/** The engine's module. */
export interface Engine {
  readonly version: string;
  readonly registry: Registry;
  check(config: Table): void;
  run(config: Table): Outcome;
  watch(config: Table): WatchedRun;
}

export interface Simulation {
  /** How far it has come, ms. */
  readonly now: number;
  readonly isOver: boolean;
  /** Goes on until a time, ms. */
  advance(until: number): void;
  view(): View;
  /** Events since the last call, in rows; `names` has their columns. */
  takeEvents(): Float64Array;
  readonly names: EventNames;
  /** The measurements of the whole run; this simulation stays where it is. */
  measure(): Outcome;
  end(): void;
}

/** Starts a simulation. Throws the engine's ConfigError if the configuration cannot be used. */
export function startSimulation(engine: Engine, config: Table): Simulation {
  return new EngineRun(engine, config);
}

class EngineRun implements Simulation {
  now = 0;
  isOver = false;
  #run: WatchedRun;

  constructor(
    readonly engine: Engine,
    readonly config: Table,
  ) {
    this.#run = engine.watch(config);
  }

  get names(): EventNames {
    return this.#run.eventNames();
  }

  advance(until: number): void {
    if (until <= this.now || this.isOver) return;
    this.isOver = this.#run.step(until - this.now);
    this.now = until;
  }

  view(): View {
    return this.#run.view();
  }

  takeEvents(): Float64Array {
    const rows = this.#run.events();
    return rows;
  }

  measure(): Outcome {
    return this.engine.run(this.config);
  }

  end(): void {
    this.#run.forget();
  }
}
