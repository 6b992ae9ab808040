// Lesson: a ping behind a FIFO, CoDel and flow queues.

import { choice, makeExperiment, makeFifo, PING, readFlow, TWO_DOWNLOADS } from "./lesson";
import type { Lesson } from "./lesson";
import { findLongestQueue } from "./moments";

const measure = readFlow("rtt_mean_ms", 2);

export const flowQueues: Lesson = {
  key: "flow-queues",
  title: "FIFO, CoDel and flow queues",
  minutes: 8,
  intro: "A download sends as much as its window allows, which is how many packets may be on their way without an ACK; CUBIC lets the window grow until a packet is lost. A ping crosses the same queue as two downloads. Without a queue its round trip takes 40 ms. In the picture, the packets of the ping have the colour of flow 3.",
  questions: [
    {
      text: "The queue is a FIFO with room for 150 packets. How long does the ping's round trip take in the mean?",
      experiment: makeExperiment("a ping in a FIFO", 20e6, makeFifo(150), TWO_DOWNLOADS, { udp: [PING] }),
      measure,
      unit: "ms",
      choices: [choice("about 40 ms", 39, 42), choice("42 to 60 ms", 42, 60), choice("about 115 ms", 100, 130)],
      charts: ["sojourn", "rtt"],
      reason: (run) => `The downloads keep the FIFO nearly full, and the ping waits behind all of their packets: ${(measure(run) - 40).toFixed(0)} ms in the mean, on top of the 40 ms.`,
      look: { find: () => 15_050, words: "A packet of the ping stands in the middle of the packets of the downloads. Press + RTT: it has left the queue." },
    },
    {
      text: "CoDel drops packets when the time in queue stays above 5 ms for 100 ms. How long does the ping's round trip take now?",
      experiment: makeExperiment("a ping over CoDel", 20e6, { name: "codel" }, TWO_DOWNLOADS, { udp: [PING] }),
      measure,
      unit: "ms",
      choices: [choice("about 40 ms, as without downloads", 39, 41.5), choice("about 44 ms", 42, 60), choice("about 75 ms", 70, 85)],
      charts: ["sojourn", "ticks"],
      reason: () => "The drops let the downloads reduce their windows before the queue gets long. The ping waits for a few milliseconds.",
      look: { find: findLongestQueue, words: "The queue holds about a dozen packets, and not more, and the strip of drops shows what keeps it so." },
    },
    {
      text: "FQ-CoDel has a queue for each flow, and they take turns. How long does the ping's round trip take?",
      experiment: makeExperiment("a ping over flow queues", 20e6, { name: "fq_codel" }, TWO_DOWNLOADS, { udp: [PING] }),
      measure,
      unit: "ms",
      choices: [choice("about 40 ms", 39, 41.5), choice("about 44 ms, as over CoDel", 43, 46), choice("more than 60 ms, because the queues take turns", 60, 200)],
      charts: ["rates", "sojourn"],
      reason: () => "The queue of the ping is empty when its packet arrives, so the packet waits for the one on the link at most, and goes ahead of the downloads.",
      look: { find: () => 15_020, words: "The picture has a row for each flow. The row of the ping is nearly always empty." },
    },
  ],
  lasting: "CoDel makes the queue of all flows short; flow queues let a small flow pass the queue that others build.",
  next: "Add eight more downloads: over CoDel and over FQ-CoDel, what happens to the ping? Then replace the ping by a call (+ application).",
};
