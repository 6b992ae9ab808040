// Lessons: they ask questions, and the run that the page shows measures the answers.

import type { Experiment, Flow, Spec, Table } from "../experiment";
import { MS, SECOND } from "../experiment";
import type { WholeRun } from "./moments";

/** A range of the measured number, and its words. The right one is the one that contains what the run measures. */
export interface Choice {
  words: string;
  from: number;
  to: number;
}

/** Charts of the page, as CHARTS of view/charts.tsx and the strips below them have their keys. */
export type ChartKey = "rates" | "sojourn" | "cwnd" | "rtt" | "ticks" | "states" | "queue-states";

export interface Question {
  /** The set-up in words, and the question. */
  text: string;
  experiment: Experiment;
  /** The number that answers it. */
  measure(run: WholeRun): number;
  unit: string;
  choices: Choice[];
  /** The charts that show it: they are framed, and stand first. */
  charts: ChartKey[];
  /** Why it is so, with numbers of the run. */
  reason(run: WholeRun): string;
  /** A moment of the run at which it can be seen, ms, and what to look at there. */
  look: { find(run: WholeRun): number; words: string };
}

export interface Lesson {
  /** Its name in links: `#lesson=queue`. */
  key: string;
  title: string;
  minutes: number;
  /** Speed at which its runs are played: one of SPEEDS, real time by default. */
  speed?: number;
  /** Milliseconds of a run that charts show before the answer: one of SPANS of view/transport.tsx, the whole run by default. */
  span?: number;
  intro: string;
  questions: Question[];
  /** The sentence to take home. */
  lasting: string;
  /** What to try afterwards. */
  next: string;
}

export const RTT = 40 * MS;
/** A ping: ten small packets a second, which the receiver returns. */
export const PING: Table = { rate: 7840, size: 98, echo: true, base_rtt: RTT };

export function choice(words: string, from: number, to: number): Choice {
  return { words, from, to };
}

export function makeExperiment(title: string, rate: number, aqm: Spec, flows: Flow[], rest: Table = {}): Experiment {
  return { title: `Lesson: ${title}`, duration: 30 * SECOND, seed: 1, bottleneck: { rate, aqm }, flows, ...rest } as Experiment;
}

export function makeFlow(cc: string | Spec, rtt = RTT, rest: Table = {}): Flow {
  return { cc: typeof cc === "string" ? { name: cc } : cc, base_rtt: rtt, ...rest };
}

export function makeFifo(limit: number): Spec {
  return { name: "pfifo", limit };
}

/** Two downloads over CUBIC, the second from 4 s on. */
export const TWO_DOWNLOADS: Flow[] = [makeFlow("cubic"), makeFlow("cubic", RTT, { start: { min: 4 * SECOND, max: 4 * SECOND } })];

/** A value of the summary of the run. */
export function readSummary(key: string): (run: WholeRun) => number {
  return ({ outcome }) => Number(outcome.summary[key]);
}

/** A column of table `flows` for the flow with this number. */
export function readFlow(key: string, flow: number): (run: WholeRun) => number {
  return ({ outcome }) => Number(outcome.tables["flows"]?.[key]?.[flow]);
}

/** A share in per cent. */
export function toPercent(read: (run: WholeRun) => number): (run: WholeRun) => number {
  return (run) => 100 * read(run);
}

/** The choice that contains a measured number. */
export function findRightChoice(question: Question, measured: number): number {
  return question.choices.findIndex((one) => one.from <= measured && measured < one.to);
}
