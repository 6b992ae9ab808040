// Runs as the page sees them.

import type { Experiment } from "../src/experiment";
import { listFlows } from "../src/experiment";
import { Observer } from "../src/observer";
import type { Sample } from "../src/observer";
import type { Engine } from "../src/simulation";
import { Simulation } from "../src/simulation";

/** Takes the events and samples of a run until a time, both in ms. */
export function observe(engine: Engine, experiment: Experiment, until: number, interval = 10) {
  const simulation = new Simulation(engine, experiment);
  const observer = new Observer((flow) => `flow ${flow + 1}`, listFlows(experiment).length);
  const samples: Sample[] = [];
  for (let time = interval; time <= until; time += interval) {
    simulation.advance(time);
    observer.take(simulation.takeEvents(), simulation.names());
    samples.push(observer.takeSample(time, simulation.view()));
  }
  const view = simulation.view();
  simulation.end();
  return { observer, samples, view };
}
