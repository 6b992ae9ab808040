// Messages between the page and the workers that simulate.

import type { Experiment } from "./experiment";
import type { Sample, StateChange, Story } from "./observer";
import type { Outcome } from "./simulation";
import type { Registry } from "./registry";

export type Request =
  | { kind: "load"; module: WebAssembly.Module }
  /** Runs an experiment and shows it from `until`, ms, on. */
  | { kind: "start"; run: number; experiment: Experiment; until: number }
  | { kind: "advance"; until: number }
  | { kind: "back"; until: number }
  | { kind: "packet" }
  | { kind: "measure" };

/** What became known of a run since the last frame. */
export interface Frame {
  kind: "frame";
  run: number;
  /** The moment that is shown, ms. */
  now: number;
  isOver: boolean;
  samples: Sample[];
  stories: Story[];
  states: StateChange[];
  histogram: Float64Array;
  packets: Float64Array;
  marks: [number, number][];
  drops: [number, number][];
  /** How long the worker computed, ms. */
  cost: number;
}

export type Reply =
  | { kind: "loaded"; version: string; registry: Registry }
  | { kind: "started"; run: number; interval: number }
  | Frame
  | { kind: "measured"; run: number; outcome: Outcome }
  | { kind: "refused"; run: number; key: string | null; message: string; allowed: string | null };
