// Further seeds of the experiment: the same run with other random numbers, simulated while nothing else is to be done.

import type { Experiment } from "./experiment";
import { listFlows, MS } from "./experiment";
import type { Sample } from "./observer";
import { Observer } from "./observer";
import { Simulation } from "./simulation";
import type { Engine } from "./simulation";

/** Seeds besides that of the experiment. */
export const FURTHER_SEEDS = 4;
/** Samples of each run. */
const SAMPLES = 200;
/** Progress of a run between two looks at the clock, ms of the run. */
const CHUNK_MS = 20;

/** Samples of a run with another seed, in coarse intervals. */
export interface SeedRun {
  seed: number;
  interval: number;
  samples: Sample[];
}

export class SeedRuns {
  #done = 0;
  #simulation: Simulation | null = null;
  #observer: Observer | null = null;
  #samples: Sample[] = [];
  readonly #interval: number;

  constructor(
    readonly engine: Engine,
    readonly experiment: Experiment,
  ) {
    this.#interval = experiment.duration / MS / SAMPLES;
  }

  get isDone(): boolean {
    return this.#done >= FURTHER_SEEDS;
  }

  get #seed(): number {
    return this.experiment.seed + 1 + this.#done;
  }

  /** Goes on for so long, ms of the clock. Returns a run if it came to its end. */
  work(budget: number): SeedRun | null {
    const until = performance.now() + budget;
    if (!this.#simulation) {
      this.#simulation = new Simulation(this.engine, { ...this.experiment, seed: this.#seed });
      this.#observer = new Observer((flow) => String(flow), listFlows(this.experiment).length);
      this.#samples = [];
    }
    const [simulation, observer] = [this.#simulation, this.#observer!];
    const duration = this.experiment.duration / MS;
    while (this.#samples.length < SAMPLES) {
      const next = Math.min(duration, (this.#samples.length + 1) * this.#interval);
      simulation.advance(Math.min(next, simulation.now + CHUNK_MS));
      const rows = simulation.takeEvents();
      if (rows.length) observer.take(rows, simulation.names());
      observer.forgetPackets(simulation.now);
      if (simulation.hasReached(next) || simulation.isOver) this.#samples.push(observer.takeSample(next, simulation.view()));
      if (performance.now() >= until) return null;
    }
    const run = { seed: this.#seed, interval: this.#interval, samples: this.#samples };
    this.end();
    this.#done += 1;
    return run;
  }

  end(): void {
    this.#simulation?.end();
    this.#simulation = null;
  }

  /** No further run begins. */
  stop(): void {
    this.#done = FURTHER_SEEDS;
  }
}
