// Moments of a whole run at which a lesson looks, and the numbers there.

import type { Sample, Story, StoryKind } from "../observer";
import type { Outcome } from "../simulation";

/** What the page knows of a run that is over. */
export interface WholeRun {
  outcome: Outcome;
  samples: Sample[];
  stories: Story[];
}

/** How long after a reduction its window is looked for, ms. */
const RECOVERY_MS = 600;

/** The last sample at a time, ms, or before it. */
export function findSampleAt({ samples }: WholeRun, time: number): Sample {
  return samples.findLast((one) => one.time <= time) ?? samples[0]!;
}

/** The first time from `from` on at which something of a kind was told, ms; Infinity if it never was. */
export function findStory({ stories }: WholeRun, kind: StoryKind, from = 0): number {
  return Math.min(...stories.filter((one) => one.kind === kind && one.time >= from).map((one) => one.time));
}

/** The time of the sample with the largest value from `from` on, ms. Values that are not known do not take part. */
export function findLargest({ samples }: WholeRun, from: number, read: (sample: Sample) => number): number {
  const known = samples.filter((one) => one.time >= from && !Number.isNaN(read(one)));
  return known.reduce((best, one) => (read(one) > read(best) ? one : best)).time;
}

/** The time from the middle of the run on at which the queue is longest, ms. */
export function findLongestQueue(run: WholeRun): number {
  return findLargest(run, run.samples.at(-1)!.time / 2, (one) => one.backlog);
}

/** The first reduction of the window of flow 1 after the middle of the run: its time, ms, and the windows before and after it. */
export function findReduction(run: WholeRun): { time: number; before: number; after: number } {
  const time = findStory(run, "reduction", run.samples.at(-1)!.time / 2);
  const later = run.samples.filter((one) => one.time > time && one.time <= time + RECOVERY_MS);
  return { time, before: findSampleAt(run, time).cwnd[0]!, after: Math.min(...later.map((one) => one.cwnd[0]!)) };
}

/** The first drop, and the first time at which the sender reacts to a loss, ms. */
export function findFirstLoss(run: WholeRun): { dropped: number; known: number } {
  return { dropped: findStory(run, "drop"), known: findStory(run, "exit") };
}
