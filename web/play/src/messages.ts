// Messages between the page and the workers that simulate. A worker answers each request, except for a load, with a frame, measurements or a refusal.

import type { Experiment } from "./experiment";
import type { Changes, Sample, StateChange, Story } from "./observer";
import type { SeedRun } from "./seeds";
import type { Outcome } from "./simulation";
import type { Registry } from "./registry";

export type Request =
  /** The module, or its bytes compressed by gzip, in Base64. */
  | { kind: "load"; module: WebAssembly.Module | string }
  /** Runs an experiment and shows it from `until`, ms, on. */
  | { kind: "start"; run: number; experiment: Experiment; until: number }
  /** A frame may be of an earlier moment: the page then asks for the rest. */
  | { kind: "advance"; until: number }
  | { kind: "seek"; until: number }
  | { kind: "packet" }
  | { kind: "measure" };

/** What became known of a run since the last frame. */
export interface Frame {
  kind: "frame";
  run: number;
  /** The moment that is shown, ms. */
  now: number;
  samples: Sample[];
  stories: Changes<Story>;
  states: Changes<StateChange>;
  histogram: Float64Array;
  packets: Float64Array;
  /** How long the worker computed, ms. */
  cost: number;
  /** Bytes of the engine's memory, and snapshots in it. */
  memory: number;
  snapshots: number;
}

export type Reply =
  | { kind: "loaded"; version: string; registry: Registry; module: WebAssembly.Module }
  | { kind: "started"; run: number; interval: number }
  /** Keys of the queues' parameters that may change while the run goes on. */
  | { kind: "changeable"; run: number; keys: string[] }
  | { kind: "seed"; run: number; seedRun: SeedRun }
  | Frame
  /** Without an outcome, the run that is measured is not over. */
  | { kind: "measured"; run: number; outcome: Outcome | null }
  | { kind: "refused"; run: number; key: string | null; message: string; allowed: string | null };
