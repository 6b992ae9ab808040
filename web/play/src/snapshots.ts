// Snapshots of a run, a bounded number of them: going back starts from the nearest one.

import type { Observer } from "./observer";
import type { Snapshot } from "./simulation";

/** Snapshots at most. When there are more, every other one is forgotten, and later ones are twice as far apart. */
export const MOST_SNAPSHOTS = 32;
/** Snapshots are so far apart at first, ms of the run. */
const FIRST_SPACING_MS = 250;

export interface Kept {
  /** How far the simulation had come, ms. */
  time: number;
  snapshot: Snapshot;
  observer: Observer;
}

export class SnapshotRing {
  /** In order of time. */
  #kept: Kept[] = [];
  #spacing = FIRST_SPACING_MS;

  get count(): number {
    return this.#kept.length;
  }

  /** Whether a run that has come to this time, ms, is due for a snapshot. */
  isDue(time: number): boolean {
    return time >= (this.#kept.at(-1)?.time ?? 0) + this.#spacing;
  }

  add(kept: Kept): void {
    this.#kept.push(kept);
    if (this.#kept.length > MOST_SNAPSHOTS) this.thin();
  }

  /** Forgets every other snapshot. */
  thin(): void {
    this.#spacing *= 2;
    this.#kept.filter((_, index) => index % 2 === 0).forEach((one) => one.snapshot.forget());
    this.#kept = this.#kept.filter((_, index) => index % 2 === 1);
  }

  /** The last snapshot up to a time, ms. */
  find(time: number): Kept | undefined {
    return this.#kept.findLast((one) => one.time <= time);
  }

  clear(): void {
    for (const one of this.#kept) one.snapshot.forget();
    this.#kept = [];
  }
}
