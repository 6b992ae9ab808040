// Lesson: CUBIC.

import { MS, SECOND } from "../experiment";
import { choice, makeExperiment, makeFifo, makeFlow, readFlow, readSummary, toPercent } from "./lesson";
import type { Lesson } from "./lesson";
import { findReduction } from "./moments";

const LONG = 100 * MS;
const MINUTE = { duration: 60 * SECOND };
/** Where the curve after a reduction is seen, ms. */
const CURVE_AFTER = 4000;

export const cubic: Lesson = {
  key: "cubic",
  title: "CUBIC: growth that knows no RTT",
  minutes: 8,
  intro:
    "A sender may have a window of segments, which are full packets, on their way without an ACK; Reno and CUBIC are rules for the window. Reno's growth by one segment each round trip is slow on a long and fast path: half of 500 segments are 250 round trips. CUBIC reduces its window to 0.7 of it, and grows by a cubic function of the time since the reduction: fast at first, flat near the old window, then fast again. The path is long and fast here: 50 Mbit/s times 100 ms are 413 packets, and the queue has room for 100.",
  questions: [
    {
      text: "Which part of the link does one flow over Reno use in a minute?",
      experiment: makeExperiment("Reno on a long path", 50e6, makeFifo(100), [makeFlow("reno", LONG)], MINUTE),
      measure: toPercent(readSummary("utilisation")),
      unit: "% of the link",
      choices: [choice("60 to 75 %", 60, 75), choice("80 to 90 %", 80, 90), choice("above 95 %", 95, 100.1)],
      charts: ["cwnd", "rates"],
      reason: (run) => {
        const { before, after } = findReduction(run);
        return `Reno halves a window of ${before} segments to ${after}, and the link has room for 413. At one segment each 100 ms it takes ${((413 - after) / 10).toFixed(0)} s until the link is full again.`;
      },
      look: { find: (run) => findReduction(run).time + 2000, words: "The window climbs in a straight line, and the rate is below the dashed line for a good part of it." },
    },
    {
      text: "And one flow over CUBIC?",
      experiment: makeExperiment("CUBIC on a long path", 50e6, makeFifo(100), [makeFlow("cubic", LONG)], MINUTE),
      measure: toPercent(readSummary("utilisation")),
      unit: "% of the link",
      choices: [choice("about 86 %, as Reno", 84, 88), choice("about 91 %", 89, 93), choice("above 95 %", 95, 100.1)],
      charts: ["cwnd", "rates"],
      reason: (run) => `A reduction leaves ${findReduction(run).after} of ${findReduction(run).before} segments: less is missing, and the first seconds of CUBIC's curve are its steepest.`,
      look: { find: (run) => findReduction(run).time + CURVE_AFTER, words: "The window rose fast, and bends near the old maximum: the concave part of the cubic function." },
    },
    {
      text: "Reno reduced its window 3 times in this minute, slow start included. How often does CUBIC?",
      experiment: makeExperiment("CUBIC on a long path", 50e6, makeFifo(100), [makeFlow("cubic", LONG)], MINUTE),
      measure: readFlow("loss_reductions", 0),
      unit: "reductions",
      choices: [choice("1 to 3 times", 0, 4), choice("6 to 12 times", 6, 13), choice("more than 20 times", 20, 1000)],
      charts: ["cwnd"],
      reason: () => "CUBIC is back at the old window W after K seconds, with K³ = 0.3 W/0.4: a reduction takes 0.3 of the window, and 0.4 is CUBIC's constant. For 515 segments K is 7.3 s, and a minute has eight times 7.3 s. Some teeth are shorter and some are longer, because after a lower top the next one is aimed lower. The RTT is not in the formula.",
      look: { find: () => 45_000, words: "Count the teeth of the window: in the mean, their distance is about K." },
    },
  ],
  lasting: "CUBIC grows with the time since the last loss and not with round trips, so it fills long and fast paths that Reno leaves half used.",
  next: "Set the RTT to 20 ms and the rate to 10 Mbit/s, and compare Reno with CUBIC in two set-ups side by side: on a short path CUBIC follows Reno's growth where that is faster.",
};
