// Lesson: CoDel against PIE.

import { choice, makeExperiment, readSummary, TWO_DOWNLOADS } from "./lesson";
import type { Lesson } from "./lesson";

const FLOOD = { udp: [{ rate: 25e6, size: 1514 }] };
const WAITS = [choice("about 5 ms", 2, 8), choice("about 15 ms", 12, 22), choice("more than 200 ms", 200, 1000)];

export const codelPie: Lesson = {
  key: "codel-pie",
  title: "CoDel against PIE",
  minutes: 8,
  intro:
    "Both keep the queue short without a limit in packets. CoDel looks at how long each packet waited: if that stays above 5 ms for 100 ms, it drops a packet, and the next ones at shorter and shorter distances. PIE estimates the time in queue 67 times a second and adapts a drop probability p, with a target of 15 ms. The link has 20 Mbit/s. The state of the queue is drawn at the bottom of the charts.",
  questions: [
    {
      text: "Two downloads over CUBIC share a queue with PIE. How long do packets wait in the mean?",
      experiment: makeExperiment("two downloads over PIE", 20e6, { name: "pie" }, TWO_DOWNLOADS),
      measure: readSummary("sojourn_mean_ms"),
      unit: "ms",
      choices: WAITS,
      reason: "PIE raises p while the wait is above its target and lowers it below, so that the mean stays at the target. Over CoDel, the same downloads wait 4 ms.",
      look: { time: 20_000, words: "The time in queue goes up and down around 15 ms, and p follows it." },
    },
    {
      text: "Now there are no downloads. Somebody sends 25 Mbit/s over UDP and does not react to drops. How long do packets wait over CoDel, in the mean of 30 s?",
      experiment: makeExperiment("a flood over CoDel", 20e6, { name: "codel" }, [], FLOOD),
      measure: readSummary("sojourn_mean_ms"),
      unit: "ms",
      choices: WAITS,
      reason:
        "A fifth of the packets has to go, 413 each second. CoDel drops √count times in 100 ms: it reaches that rate at a count of 1700, after 8 s. Until then the queue grows, and what has grown shrinks slowly. CoDel is made for senders that react.",
      look: { time: 5000, words: "The count of drops rises steadily, and the queue grows all the same." },
    },
    {
      text: "The same flood over PIE: how long do packets wait?",
      experiment: makeExperiment("a flood over PIE", 20e6, { name: "pie" }, [], FLOOD),
      measure: readSummary("sojourn_mean_ms"),
      unit: "ms",
      choices: WAITS,
      reason: "PIE's p rises with the wait itself, in a second or so, to the fifth that has to go. A probability finds the share of a flood that does not react; a distance between drops takes long.",
      look: { time: 1500, words: "p is close to 0.2, and the queue that it let grow is already short again." },
    },
  ],
  next: "Put a ping next to the flood, and look for the queue discipline that protects it: the next lesson has it.",
};
