// Lesson: what a queue is.

import { choice, makeExperiment, makeFifo, makeFlow, readSummary } from "./lesson";
import type { Lesson } from "./lesson";

const WAITS = [choice("about 1 ms", 0, 5), choice("about 45 ms", 40, 50), choice("about 90 ms", 85, 95), choice("about 180 ms", 170, 190)];
const DOWNLOAD = [makeFlow("cubic")];

export const queue: Lesson = {
  key: "queue",
  title: "What a queue is",
  minutes: 5,
  intro:
    "A link sends one packet at a time. A packet that arrives while the link is busy waits in the queue. Press ▶, then set the speed to 1/100 and watch: the queue grows when packets arrive faster than the link sends them.",
  questions: [
    {
      text: "A download over CUBIC fills a queue of 150 packets in front of a link of 20 Mbit/s. A full packet has 1514 bytes. How long does the packet that waits longest wait?",
      experiment: makeExperiment("a queue of 150 packets", 20e6, makeFifo(150), DOWNLOAD),
      measure: readSummary("sojourn_max_ms"),
      unit: "ms",
      choices: WAITS,
      reason: "150 packets of 1514 bytes are 1.8 Mbit, and the link needs 91 ms to send them.",
      look: { time: 8000, words: "The queue in the picture is full of packets of one flow, and the chart of the time in queue goes up and down below 91 ms." },
    },
    {
      text: "Now the queue has room for 75 packets. How long is the longest wait?",
      experiment: makeExperiment("a queue of 75 packets", 20e6, makeFifo(75), DOWNLOAD),
      measure: readSummary("sojourn_max_ms"),
      unit: "ms",
      choices: WAITS,
      reason: "Half as many packets wait, so the last one waits half as long.",
      look: { time: 8000, words: "The window is smaller by the 75 packets that no longer fit." },
    },
    {
      text: "The queue has room for 150 packets again, and the link sends 10 Mbit/s. How long is the longest wait?",
      experiment: makeExperiment("150 packets and half of the rate", 10e6, makeFifo(150), DOWNLOAD),
      measure: readSummary("sojourn_max_ms"),
      unit: "ms",
      choices: WAITS,
      reason: "The time in queue is the data in the queue over the rate. A buffer that is right for one rate is too large for a lower one.",
      look: { time: 8000, words: "The queue has the same number of packets as in the first question, and each packet takes twice as long on the link." },
    },
  ],
  next: "Set the rate to 1 Mbit/s and the queue back to 1000 packets, the default of many devices: how long is the longest wait?",
};
