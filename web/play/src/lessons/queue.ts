// Lesson: what a queue is.

import { choice, makeExperiment, makeFifo, makeFlow, readFlow, readSummary } from "./lesson";
import type { Lesson } from "./lesson";
import { findLongestQueue } from "./moments";

const DOWNLOAD = [makeFlow("cubic")];
const measureWait = readSummary("sojourn_max_ms");
const measureGoodput = readFlow("goodput_mbit", 0);

export const queue: Lesson = {
  key: "queue",
  title: "What a queue is",
  minutes: 6,
  speed: 0.1,
  span: 2000,
  intro:
    "A sender sends packets, the receiver confirms each by an ACK, and the window is how many packets may be on their way without an ACK. CUBIC is a rule for the window: it lets the window grow until a packet is lost, then reduces it. A link sends one packet at a time, and a packet that arrives meanwhile waits in the queue. The run is slowed down to a tenth of real time: press ▶ and watch the queue grow.",
  questions: [
    {
      text: "A download over CUBIC fills a queue of 150 packets in front of a link of 20 Mbit/s. A full packet has 1514 bytes. How long does the packet that waits longest wait?",
      experiment: makeExperiment("a queue of 150 packets", 20e6, makeFifo(150), DOWNLOAD),
      measure: measureWait,
      unit: "ms",
      choices: [choice("about 1 ms", 0, 5), choice("about 45 ms", 40, 50), choice("about 90 ms", 85, 95), choice("about 180 ms", 170, 190)],
      charts: ["sojourn", "cwnd"],
      reason: (run) => `150 packets of 1514 bytes are 1.8 Mbit, and the link needs ${measureWait(run).toFixed(0)} ms to send them.`,
      look: { find: findLongestQueue, words: "The queue is full, and the time in queue is at one of its peaks. The next packets are dropped, and the window becomes smaller." },
    },
    {
      text: "That download had a goodput of 19 Mbit/s. Does a longer queue make it faster? The queue now has room for 300 packets. How large is the goodput?",
      experiment: makeExperiment("a queue of 300 packets", 20e6, makeFifo(300), DOWNLOAD),
      measure: measureGoodput,
      unit: "Mbit/s",
      choices: [choice("15 to 17 Mbit/s: the packets wait longer", 15, 17), choice("about 19 Mbit/s, as before", 18.5, 19.4), choice("20 Mbit/s, the whole rate of the link", 19.5, 21)],
      charts: ["rates", "sojourn"],
      reason: (run) =>
        `A queue cannot make the link faster: it was busy all the time before, and 4 % of its rate are headers of packets. The longest wait is ${measureWait(run).toFixed(0)} ms now, and nothing is gained by it.`,
      look: { find: findLongestQueue, words: "The rate on the link is the same as with a short queue, and the time in queue is twice as long." },
    },
    {
      text: "The queue has room for 300 packets, and the link sends only 10 Mbit/s. How long is the longest wait?",
      experiment: makeExperiment("300 packets and half of the rate", 10e6, makeFifo(300), DOWNLOAD),
      measure: measureWait,
      unit: "ms",
      choices: [choice("about 90 ms", 85, 95), choice("about 180 ms", 170, 190), choice("about 360 ms", 350, 375), choice("about 730 ms", 700, 750)],
      charts: ["sojourn", "cwnd"],
      reason: () =>
        "Twice as many packets wait as in the first question, and each takes twice as long on the link: four times 91 ms. The time in queue is the data in the queue over the rate, so a buffer that is right for one rate is too large for a lower one.",
      look: { find: findLongestQueue, words: "300 packets are in the queue, and each of them takes 1.2 ms on the link." },
    },
  ],
  lasting: "The wait is the data in the queue over the rate of the link: a longer queue makes packets late, and no download faster.",
  next: "Set the rate to 1 Mbit/s and the queue back to 1000 packets, the default of many devices: how long could the longest wait be?",
};
