// Lesson: Reno's sawtooth and its buffer.

import { MS, SECOND } from "../experiment";
import { choice, makeExperiment, makeFifo, makeFlow, readSummary, toPercent } from "./lesson";
import type { Lesson } from "./lesson";
import { findLargest, findReduction } from "./moments";

const RENO = [makeFlow("reno", 80 * MS)];
const MINUTE = { duration: 60 * SECOND };
/** When the rates, which are means over 200 ms, show the gap after a reduction, ms. */
const GAP_AFTER = 500;

export const sawtooth: Lesson = {
  key: "sawtooth",
  title: "Reno's sawtooth and its buffer",
  minutes: 8,
  intro:
    "A sender may have a window of packets, also called segments, on their way without an ACK. Reno is a rule for the window: it adds about one segment each round trip, and takes a loss for a sign that the path is full, so it halves the window. The data in flight that fill the link without a queue are the bandwidth-delay product: here 10 Mbit/s times 80 ms, which are 66 packets.",
  questions: [
    {
      text: "The queue has room for 66 packets. How large is the window when the queue overflows, apart from slow start at the beginning? Press ▶ first if you like, and look at the chart of the window.",
      experiment: makeExperiment("Reno with a buffer of one BDP", 10e6, makeFifo(66), RENO, MINUTE),
      measure: (run) => findReduction(run).before,
      unit: "segments just before a reduction",
      choices: [choice("about 66 segments", 50, 85), choice("about 132 segments", 115, 150), choice("about 264 segments", 230, 300)],
      charts: ["cwnd", "sojourn"],
      reason: (run) =>
        `66 packets are on the way and 66 in the queue when a packet finds no room, and the window grows by one or two segments until the sender knows of it. Half of that, ${findReduction(run).after} segments, still fills the link.`,
      look: { find: (run) => findReduction(run).time, words: "The window is at a top of the sawtooth: it climbs from one half to the top in a straight line, again and again." },
    },
    {
      text: "Which part of the link does this flow use in a minute?",
      experiment: makeExperiment("Reno with a buffer of one BDP", 10e6, makeFifo(66), RENO, MINUTE),
      measure: toPercent(readSummary("utilisation")),
      unit: "% of the link",
      choices: [choice("about 75 %, as the mean of one half and the whole", 70, 80), choice("about 90 %", 85, 95), choice("above 98 %", 98, 100.1)],
      charts: ["rates", "sojourn"],
      reason: (run) => `After the reduction the window is ${findReduction(run).after} segments, and 66 just fill the link: the queue becomes empty for a moment, and the link stays busy.`,
      look: {
        find: (run) => {
          const { time } = findReduction(run);
          return findLargest(run, time, (one) => (one.time < time + 2000 ? -one.sojourn : NaN));
        },
        words: "The window was just halved. The time in queue has fallen to nearly nothing, and the area of the rates stays close to the dashed line.",
      },
    },
    {
      text: "The queue has room for 10 packets only. Which part of the link does the flow use now?",
      experiment: makeExperiment("Reno with a small buffer", 10e6, makeFifo(10), RENO, MINUTE),
      measure: toPercent(readSummary("utilisation")),
      unit: "% of the link",
      choices: [choice("about 15 %, as 10 of 66", 10, 20), choice("about 50 %", 45, 60), choice("about 80 %", 75, 90)],
      charts: ["rates", "cwnd"],
      reason: (run) => {
        const { before, after } = findReduction(run);
        return `The window is halved from ${before} segments to ${after}, and the link has room for 66. It is not full until the window has grown by ${66 - after}, one segment each round trip.`;
      },
      look: { find: (run) => findReduction(run).time + GAP_AFTER, words: "Below the dashed line is a gap after each reduction: that is the part of the link that is lost." },
    },
  ],
  lasting: "Reno halves its window, so a buffer of one bandwidth-delay product keeps the link busy; a smaller one leaves gaps, and a larger one only adds waiting.",
  next: "Set the limit to 33, half of the bandwidth-delay product. Then add three more flows like this one: which part of the link is used, and why is it more?",
};
