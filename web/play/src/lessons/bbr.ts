// Lesson: BBR's model and its faults.

import { MS, SECOND } from "../experiment";
import { choice, makeExperiment, makeFifo, makeFlow, readFlow, readSummary, RTT, toPercent } from "./lesson";
import type { Lesson } from "./lesson";
import { findStory } from "./moments";

const MINUTE = { duration: 60 * SECOND };

export const bbr: Lesson = {
  key: "bbr",
  title: "BBR's model and its faults",
  minutes: 10,
  intro:
    "Reno and CUBIC let their window, which is how many packets may be on their way without an ACK, grow until a packet is lost. BBR instead measures the path: the largest rate at which packets arrived, and the smallest round-trip time. It sends at that rate, with at most twice their product in flight, and does not wait for losses. From time to time it sends faster (probe up) to see if there is more, and every few seconds nearly nothing (probe rtt), to see the RTT of an empty queue. The link has 20 Mbit/s, and the base RTT is 40 ms: a bandwidth-delay product of 66 packets.",
  questions: [
    {
      text: "BBRv3 is alone with a FIFO for 150 packets. CUBIC alone keeps it filled: packets wait 71 ms in the mean. How long do they wait with BBRv3?",
      experiment: makeExperiment("BBRv3 alone", 20e6, makeFifo(150), [makeFlow("bbr3")]),
      measure: readSummary("sojourn_mean_ms"),
      unit: "ms",
      choices: [choice("about 3 ms", 1, 8), choice("about 35 ms", 25, 45), choice("about 70 ms", 60, 80)],
      charts: ["sojourn", "states"],
      reason: () => "BBR knows the rate and sends just that. After the start the queue is empty, except while it probes.",
      look: { find: (run) => findStory(run, "exit"), words: "Startup has filled a part of the queue; the state drain, which begins now, empties it. Later the states cruise, refill, up and down follow each other." },
    },
    {
      text: "BBRv1, the first version, shares a FIFO for 33 packets with CUBIC: half of a bandwidth-delay product. Which share of the goodput does BBRv1 get?",
      experiment: makeExperiment("BBRv1 and CUBIC in a small buffer", 20e6, makeFifo(33), [makeFlow("cubic"), makeFlow("bbr1")], MINUTE),
      measure: toPercent(readFlow("share", 1)),
      unit: "% of the goodput",
      choices: [choice("less than 30 %", 0, 30), choice("40 to 60 %", 40, 60), choice("more than 80 %", 80, 100.1)],
      charts: ["rates", "ticks"],
      reason: () => "BBRv1 does not react to loss: it keeps up to two bandwidth-delay products in flight, and the small buffer overflows. CUBIC reduces its window at each loss. BBRv3 answers loss, and gets about a half here.",
      look: { find: () => 30_000, words: "The strip of overflows is never quiet, and the sentences show whose packets are dropped." },
    },
    {
      text: "Two flows over BBRv1 share a deep FIFO, one with a base RTT of 20 ms, the other with 80 ms. Which share does the one with 80 ms get?",
      experiment: makeExperiment("BBRv1 with two RTTs", 20e6, makeFifo(300), [makeFlow("bbr1", RTT / 2), makeFlow("bbr1", 80 * MS)], MINUTE),
      measure: toPercent(readFlow("share", 1)),
      unit: "% of the goodput",
      choices: [choice("less than 30 %", 0, 30), choice("40 to 60 %", 40, 60), choice("more than 70 %", 70, 100.1)],
      charts: ["rates", "cwnd"],
      reason: () => "Each measures the largest rate at which its packets arrived, and the sum of both is more than the link has. So the limit of two bandwidth-delay products decides who has how much in the queue: the flow with the longer RTT may have four times as much. Reno and CUBIC favour the short RTT instead.",
      look: { find: () => 30_000, words: "The window of flow 2 is several times that of flow 1, and so is its part of the link." },
    },
  ],
  lasting: "BBR sends at the rate that it measured and leaves the queue empty when it is alone; with other flows its measurements mislead it.",
  next: "Replace bbr1 by bbr3 in the last two questions. Then let a flow over BBRv3 begin when another one has kept the queue filled for 10 s: which base RTT does it believe in?",
};
