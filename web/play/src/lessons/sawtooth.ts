// Lesson: Reno's sawtooth and its buffer.

import { MS, SECOND } from "../experiment";
import { choice, makeExperiment, makeFifo, makeFlow, readFlow, readSummary } from "./lesson";
import type { Lesson } from "./lesson";

const RENO = [makeFlow("reno", 80 * MS)];
const MINUTE = { duration: 60 * SECOND };

export const sawtooth: Lesson = {
  key: "sawtooth",
  title: "Reno's sawtooth and its buffer",
  minutes: 8,
  intro:
    "Reno adds about one segment to its window each round trip, and halves the window after a loss. The data in flight that fill the link without a queue are the bandwidth-delay product: here 10 Mbit/s times 80 ms, which are 66 packets.",
  questions: [
    {
      text: "The queue has room for 66 packets. How large is the window when the queue overflows, apart from slow start? Look at the chart of the window first if you like.",
      experiment: makeExperiment("Reno with a buffer of one BDP", 10e6, makeFifo(66), RENO, MINUTE),
      // the mean of a sawtooth from one half to the top is three quarters of the top
      measure: (outcome) => readFlow("cwnd_mean", 0)(outcome) / 0.75,
      unit: "segments, as 4/3 of the mean window",
      choices: [choice("about 66 segments", 50, 85), choice("about 132 segments", 115, 150), choice("about 264 segments", 230, 300)],
      reason: "66 packets are on the way and 66 in the queue when a packet finds no room. Half of that still fills the link.",
      look: { time: 20_000, words: "The window climbs from one half to the top in a straight line, again and again: the sawtooth." },
    },
    {
      text: "Which part of the link does this flow use in a minute?",
      experiment: makeExperiment("Reno with a buffer of one BDP", 10e6, makeFifo(66), RENO, MINUTE),
      measure: readSummary("utilisation"),
      unit: "of the link",
      choices: [choice("about 75 %", 0.7, 0.8), choice("80 to 90 %", 0.8, 0.9), choice("above 98 %", 0.98, 1.001)],
      reason: "After the reduction the window is 66 segments, which just fill the link: the queue becomes empty for a moment, and the link stays busy.",
      look: { time: 20_000, words: "The area of the rates stays at the dashed line when the window is halved, and the time in queue falls to nearly nothing." },
    },
    {
      text: "The queue has room for 10 packets only. Which part of the link does the flow use now?",
      experiment: makeExperiment("Reno with a small buffer", 10e6, makeFifo(10), RENO, MINUTE),
      measure: readSummary("utilisation"),
      unit: "of the link",
      choices: [choice("about 50 %", 0.45, 0.6), choice("80 to 90 %", 0.8, 0.9), choice("above 98 %", 0.98, 1.001)],
      reason: "The window is halved from 76 segments to 38, and the link has room for 66. It is not full until the window has grown by 28, one segment each round trip.",
      look: { time: 20_000, words: "Below the dashed line is a gap after each reduction: that is the part of the link that is lost." },
    },
  ],
  next: "Set the limit to 33, half of the bandwidth-delay product. Then add three more flows like this one: which part of the link is used, and why is it more?",
};
