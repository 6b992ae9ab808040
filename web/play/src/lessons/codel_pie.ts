// Lesson: CoDel against PIE.

import { choice, makeExperiment, readSummary, TWO_DOWNLOADS } from "./lesson";
import type { Lesson } from "./lesson";
import { findLargest } from "./moments";
import type { WholeRun } from "./moments";
import type { Sample } from "../observer";

const FLOOD = { udp: [{ rate: 25e6, size: 1514 }] };
const readProbability = (sample: Sample) => sample.states["p"] ?? NaN;
const findLargestP = (run: WholeRun) => findLargest(run, 0, readProbability);

/** The mean of p in the second half of the run. */
function computeMeanP({ samples }: WholeRun): number {
  const later = samples.slice(samples.length / 2).map(readProbability);
  return later.reduce((sum, one) => sum + one, 0) / later.length;
}

export const codelPie: Lesson = {
  key: "codel-pie",
  title: "CoDel against PIE",
  minutes: 8,
  intro:
    "A sender takes a dropped packet for a sign to send less; over CUBIC it reduces its window, which is how many packets may be on their way without an ACK. CoDel and PIE drop early for that. Both keep the queue short without a limit in packets. CoDel looks at how long each packet waited: if that stays above 5 ms for 100 ms, it drops a packet, and the next ones at shorter and shorter distances. PIE estimates the time in queue 67 times a second and adapts a drop probability p, with a target of 15 ms. The link has 20 Mbit/s. The framed chart \"State of …\" draws what the queue computes: p of PIE, and for CoDel count, the number of drops in this phase.",
  questions: [
    {
      text: "Two downloads over CUBIC share a queue with PIE. How long do packets wait in the mean?",
      experiment: makeExperiment("two downloads over PIE", 20e6, { name: "pie" }, TWO_DOWNLOADS),
      measure: readSummary("sojourn_mean_ms"),
      unit: "ms",
      choices: [choice("about 5 ms", 2, 8), choice("about 15 ms", 12, 22), choice("more than 200 ms", 200, 1000)],
      charts: ["sojourn", "queue-states"],
      reason: () => "PIE raises p while the wait is above its target and lowers it below, so that the mean stays at the target. Over CoDel, the same downloads wait 4 ms.",
      look: { find: () => 20_000, words: "The time in queue goes up and down around 15 ms, and p follows it." },
    },
    {
      text: "Now there are no downloads. Somebody sends 25 Mbit/s over UDP and does not react to drops. How long do packets wait over CoDel, in the mean of 30 s?",
      experiment: makeExperiment("a flood over CoDel", 20e6, { name: "codel" }, [], FLOOD),
      measure: readSummary("sojourn_mean_ms"),
      unit: "ms",
      choices: [choice("about 5 ms", 2, 8), choice("about 50 ms", 40, 60), choice("more than 200 ms", 200, 1000)],
      charts: ["sojourn", "queue-states"],
      reason: () =>
        "A fifth of the packets has to go, 413 each second. Two drops of CoDel are 100 ms/√count apart, and each drop adds 1 to count: CoDel reaches 413 drops a second at a count of 1700, after 8 s. Until then more packets come than leave: the queue grows to its limit of 1000 packets, and shrinks slowly afterwards. CoDel is made for senders that react.",
      look: { find: () => 2000, words: "The count of drops rises steadily, and the queue grows all the same." },
    },
    {
      text: "The same flood over PIE: how long do packets wait, in the mean of 30 s?",
      experiment: makeExperiment("a flood over PIE", 20e6, { name: "pie" }, [], FLOOD),
      measure: readSummary("sojourn_mean_ms"),
      unit: "ms",
      choices: [choice("about 17 ms", 12, 22), choice("about 50 ms", 40, 60), choice("more than 200 ms", 200, 1000)],
      charts: ["sojourn", "queue-states"],
      reason: (run) =>
        `PIE's p rises with the wait itself: it is at its largest after ${(findLargestP(run) / 1000).toFixed(1)} s, and in the second half of the run it swings around ${computeMeanP(run).toFixed(2)}. PIE drops no packet until the sum of p since the last drop is 0.85, so that a p of a third drops about a fifth. A probability finds the share of a flood that does not react; a distance between drops takes long.`,
      look: { find: findLargestP, words: "p is at its largest, and the queue that it let grow becomes shorter. Afterwards p falls, and the queue stays near its target." },
    },
  ],
  lasting: "CoDel drops at shorter and shorter distances and waits for senders to react; PIE adapts a probability, and also finds the share of a sender that does not react.",
  next: "Put a ping next to the flood, and look for the queue discipline that protects it: the next lesson has it.",
};
