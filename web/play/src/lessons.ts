// Lessons: questions whose answers are measured in the run that the page shows.

import type { Experiment, Flow, Table } from "./experiment";
import { MS, SECOND } from "./experiment";
import type { Outcome } from "./simulation";

/** A range of the measured number, and its words. The right one is the one that contains what the run measures. */
export interface Choice {
  words: string;
  from: number;
  to: number;
}

export interface Question {
  /** The set-up in words, and the question. */
  text: string;
  experiment: Experiment;
  /** The number that answers it. */
  measure(outcome: Outcome): number;
  unit: string;
  choices: Choice[];
  /** Why it is so. */
  reason: string;
}

export interface Lesson {
  title: string;
  minutes: number;
  intro: string;
  questions: Question[];
}

const choice = (words: string, from: number, to: number): Choice => ({ words, from, to });

function make(title: string, rate: number, aqm: Experiment["bottleneck"]["aqm"], flows: Flow[], rest: Table = {}): Experiment {
  return { title, duration: 30 * SECOND, seed: 1, bottleneck: { rate, aqm }, flows, ...rest } as Experiment;
}

const RTT = 40 * MS;
const CUBIC: Flow = { cc: { name: "cubic" }, base_rtt: RTT };
const RENO: Flow = { cc: { name: "reno" }, base_rtt: 80 * MS };
const PING: Table = { rate: 7840, size: 98, echo: true, base_rtt: RTT };
const TWO = [CUBIC, { ...CUBIC, start: { min: 4 * SECOND, max: 4 * SECOND } }];

const number = (value: unknown) => Number(value);
const summary = (key: string) => (outcome: Outcome) => number(outcome.summary[key]);
/** A column of table `flows` for the flow with this number. */
const column = (key: string, flow: number) => (outcome: Outcome) => number(outcome.tables["flows"]?.[key]?.[flow]);

const WAITS = [choice("about 1 ms", 0, 5), choice("about 45 ms", 40, 50), choice("about 90 ms", 85, 95), choice("about 180 ms", 170, 190)];

const queue: Lesson = {
  title: "What a queue is",
  minutes: 5,
  intro:
    "A link sends one packet at a time. A packet that arrives while the link is busy waits in the queue. Slow the run down to 1/100 and watch: the queue grows when packets arrive faster than the link sends them.",
  questions: [
    {
      text: "A download over CUBIC fills a queue of 150 packets in front of a link of 20 Mbit/s. A full packet has 1514 bytes. How long does the packet that waits longest wait?",
      experiment: make("Lesson: a queue of 150 packets", 20e6, { name: "pfifo", limit: 150 }, [CUBIC]),
      measure: summary("sojourn_max_ms"),
      unit: "ms",
      choices: WAITS,
      reason: "150 packets of 1514 bytes are 1.8 Mbit, and the link needs 91 ms to send them.",
    },
    {
      text: "Now the queue has room for 75 packets. How long is the longest wait?",
      experiment: make("Lesson: a queue of 75 packets", 20e6, { name: "pfifo", limit: 75 }, [CUBIC]),
      measure: summary("sojourn_max_ms"),
      unit: "ms",
      choices: WAITS,
      reason: "Half as many packets wait, so the last one waits half as long.",
    },
    {
      text: "The queue has room for 150 packets again, and the link sends 10 Mbit/s. How long is the longest wait?",
      experiment: make("Lesson: 150 packets and half of the rate", 10e6, { name: "pfifo", limit: 150 }, [CUBIC]),
      measure: summary("sojourn_max_ms"),
      unit: "ms",
      choices: WAITS,
      reason: "The time in queue is the data in the queue over the rate. A buffer that is right for one rate is too large for a lower one.",
    },
  ],
};

const sawtooth: Lesson = {
  title: "Reno's sawtooth and its buffer",
  minutes: 8,
  intro:
    "Reno adds about one segment to its window each round trip, and halves the window after a loss. The data in flight that fill the link without a queue are the bandwidth-delay product: here 10 Mbit/s times 80 ms, which are 66 packets.",
  questions: [
    {
      text: "The queue has room for 66 packets. How large is the window when the queue overflows, apart from slow start? Look at the chart of the window first if you like.",
      experiment: { ...make("Lesson: Reno with a buffer of one BDP", 10e6, { name: "pfifo", limit: 66 }, [RENO]), duration: 60 * SECOND },
      // the mean of a sawtooth from one half to the top is three quarters of the top
      measure: (outcome) => column("cwnd_mean", 0)(outcome) / 0.75,
      unit: "segments, as 4/3 of the mean window",
      choices: [choice("about 66 segments", 50, 85), choice("about 132 segments", 115, 150), choice("about 264 segments", 230, 300)],
      reason: "66 packets are on the way and 66 in the queue when a packet finds no room. Half of that still fills the link.",
    },
    {
      text: "Which part of the link does this flow use in a minute?",
      experiment: { ...make("Lesson: Reno with a buffer of one BDP", 10e6, { name: "pfifo", limit: 66 }, [RENO]), duration: 60 * SECOND },
      measure: summary("utilisation"),
      unit: "of the link",
      choices: [choice("about 75 %", 0.7, 0.8), choice("80 to 90 %", 0.8, 0.9), choice("above 98 %", 0.98, 1.001)],
      reason: "After the reduction the window is 66 segments, which just fill the link: the queue becomes empty for a moment, and the link stays busy.",
    },
    {
      text: "The queue has room for 10 packets only. Which part of the link does the flow use now?",
      experiment: { ...make("Lesson: Reno with a small buffer", 10e6, { name: "pfifo", limit: 10 }, [RENO]), duration: 60 * SECOND },
      measure: summary("utilisation"),
      unit: "of the link",
      choices: [choice("about 50 %", 0.45, 0.6), choice("80 to 90 %", 0.8, 0.9), choice("above 98 %", 0.98, 1.001)],
      reason: "The window is halved from 76 segments to 38, and the link has room for 66. It is not full until the window has grown by 28, one segment each round trip.",
    },
  ],
};

const ROUND_TRIPS = [choice("about 40 ms", 39, 42), choice("42 to 60 ms", 42, 60), choice("about 115 ms", 100, 130)];

const queues: Lesson = {
  title: "FIFO, CoDel and flow queues",
  minutes: 8,
  intro: "A ping crosses the same queue as two downloads. Without a queue its round trip takes 40 ms. Follow its green packets in the picture.",
  questions: [
    {
      text: "The queue is a FIFO with room for 150 packets. How long does the ping's round trip take in the mean?",
      experiment: make("Lesson: a ping in a FIFO", 20e6, { name: "pfifo", limit: 150 }, TWO, { udp: [PING] }),
      measure: column("rtt_mean_ms", 2),
      unit: "ms",
      choices: ROUND_TRIPS,
      reason: "The downloads keep the FIFO nearly full, and the ping waits behind all of their packets.",
    },
    {
      text: "CoDel drops packets when the time in queue stays above 5 ms for 100 ms. How long does the ping's round trip take now?",
      experiment: make("Lesson: a ping over CoDel", 20e6, { name: "codel" }, TWO, { udp: [PING] }),
      measure: column("rtt_mean_ms", 2),
      unit: "ms",
      choices: ROUND_TRIPS,
      reason: "The drops let the downloads reduce their windows before the queue gets long. The ping waits for a few milliseconds.",
    },
    {
      text: "FQ-CoDel has a queue for each flow, and they take turns. How long does the ping's round trip take?",
      experiment: make("Lesson: a ping over flow queues", 20e6, { name: "fq_codel" }, TWO, { udp: [PING] }),
      measure: column("rtt_mean_ms", 2),
      unit: "ms",
      choices: ROUND_TRIPS,
      reason: "The queue of the ping is empty when its packet arrives, so the packet waits for the one on the link at most, and goes ahead of the downloads.",
    },
  ],
};

export const LESSONS: Lesson[] = [queue, sawtooth, queues];

/** The choice that contains a measured number. */
export function findRightChoice(question: Question, measured: number): number {
  return question.choices.findIndex((one) => one.from <= measured && measured < one.to);
}
