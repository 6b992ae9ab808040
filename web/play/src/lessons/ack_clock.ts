// Lesson: ACK clocking, both ways.

import { choice, makeExperiment, makeFifo, makeFlow, readFlow, RTT } from "./lesson";
import type { Lesson } from "./lesson";
import { findLargest } from "./moments";
import type { Spec } from "../experiment";

const DOWN = makeFlow("cubic");
const UP = makeFlow("cubic", RTT, { direction: "up" });
const measureRtt = readFlow("rtt_mean_ms", 0);
const back = (aqm: Spec) => ({ reverse: { rate: 2e6, aqm } });

export const ackClock: Lesson = {
  key: "ack-clock",
  title: "ACK clocking, both ways",
  minutes: 8,
  intro:
    "A sender keeps a window of packets on their way: it sends the next one when an ACK, by which the receiver confirms a packet, arrives, so ACKs are its clock. CUBIC is its rule for the size of the window. ACKs are small, and they use the way back, which has its own link and its own queue. Here the way forth has 40 Mbit/s and FQ-CoDel, and the way back has 2 Mbit/s: such lines are common. The small box in the picture is the queue of the way back.",
  questions: [
    {
      text: "A download is alone. Which goodput does it have over 40 Mbit/s, with 2 Mbit/s for its ACKs?",
      experiment: makeExperiment("a download and its ACKs", 40e6, { name: "fq_codel" }, [DOWN], back(makeFifo(100))),
      measure: readFlow("goodput_mbit", 0),
      unit: "Mbit/s",
      choices: [choice("about 2 Mbit/s", 1, 4), choice("about 14 Mbit/s", 11, 18), choice("more than 33 Mbit/s", 33, 40)],
      charts: ["rates", "rtt"],
      reason: (run) => `About ${(readFlow("acks", 0)(run) / 30).toFixed(0)} ACKs a second of 66 bytes are ${((readFlow("acks", 0)(run) / 30) * 66 * 8e-6).toFixed(1)} Mbit/s, so the ACKs have enough room. With 0.4 Mbit/s on the way back they would not: the clock would tick too slowly.`,
      look: { find: () => 10_000, words: "The box of the way back is nearly empty: ACKs leave it as they come." },
    },
    {
      text: "An upload begins. Its full packets wait in the same FIFO for 100 packets as the ACKs of the download. Which goodput does the download have now?",
      experiment: makeExperiment("a download behind an upload", 40e6, { name: "fq_codel" }, [DOWN, UP], back(makeFifo(100))),
      measure: readFlow("goodput_mbit", 0),
      unit: "Mbit/s",
      choices: [choice("about 5 Mbit/s", 3, 8), choice("about 14 Mbit/s", 11, 18), choice("about 28 Mbit/s", 24, 31), choice("more than 33 Mbit/s, as before", 33, 40)],
      charts: ["rates", "rtt"],
      reason: (run) => `The ACKs wait behind the packets of the upload. The download's round trip takes ${measureRtt(run).toFixed(0)} ms in the mean instead of 43 ms, four times as long, so its window carries a quarter, and it grows only once each of these round trips.`,
      look: { find: (run) => findLargest(run, 10_000, (one) => Math.min(...one.srtt)), words: "The box of the way back is full of packets of the upload, with ACKs between them; the chart of the RTTs shows both flows above 100 ms." },
    },
    {
      text: "The way back gets FQ-CoDel: a queue for the upload, and one for the ACKs of the download. Which goodput does the download have?",
      experiment: makeExperiment("a download next to an upload with flow queues", 40e6, { name: "fq_codel" }, [DOWN, UP], back({ name: "fq_codel" })),
      measure: readFlow("goodput_mbit", 0),
      unit: "Mbit/s",
      choices: [choice("about 14 Mbit/s, as before", 11, 18), choice("about 25 Mbit/s", 20, 30), choice("more than 33 Mbit/s", 33, 40)],
      charts: ["rates", "rtt"],
      reason: (run) => `The ACKs no longer wait behind the upload, and the upload's own queue stays short. The queue that mattered for the download was that of the other direction. The RTT of the download is ${measureRtt(run).toFixed(0)} ms in the mean.`,
      look: { find: (run) => findLargest(run, 10_000, (one) => -one.srtt[0]!), words: "The RTT of the download is close to its base of 40 ms again, as it is when the ACKs do not wait." },
    },
  ],
  lasting: "Data in one direction need ACKs in the other: a long queue on the way back slows a download whose own queue is short.",
  next: "Put Cake on the way back and switch its ack_filter on. Then lower the way back to 0.4 Mbit/s with and without the filter.",
};
