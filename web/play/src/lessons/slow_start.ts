// Lesson: why slow start overshoots.

import { SECOND } from "../experiment";
import { choice, makeExperiment, makeFifo, makeFlow, readFlow, readSummary } from "./lesson";
import type { Lesson } from "./lesson";

const DROPS = [choice("fewer than 20", 0, 20), choice("about 130, a whole window", 100, 170), choice("more than 500", 500, 100_000)];
const SHORT = { duration: SECOND };

export const slowStart: Lesson = {
  key: "slow-start",
  title: "Why slow start overshoots",
  minutes: 7,
  speed: 0.03,
  intro:
    "A sender does not know the rate of the path. In slow start it sends two packets for each packet that was acknowledged, so its window doubles each round trip. The link and the queue of this lesson have room for 132 packets together: 66 on the way (20 Mbit/s times 40 ms), and 66 in the queue. The run is slowed down to 1/33 of real time: press ▶, and watch the first second.",
  questions: [
    {
      text: "A flow over Reno begins with a window of 10 segments, after a handshake of 40 ms. When does it know of the first loss?",
      experiment: makeExperiment("Reno's slow start", 20e6, makeFifo(66), [makeFlow("reno")], SHORT),
      measure: (outcome) => 1000 * readFlow("slow_start_exit_s", 0)(outcome),
      unit: "ms after the start",
      choices: [choice("after about 100 ms", 80, 140), choice("after about 300 ms", 250, 380), choice("after about 1 s", 800, 1200)],
      reason: "10, 20, 40, 80, 160: after the handshake, four round trips are enough to pass 132. The news of the loss takes a round trip through the full queue, which is 80 ms.",
      look: { time: 300, words: "The queue has just become full. Go on by single packets (+ packet) to see the crosses: each is a packet that found no room." },
    },
    {
      text: "How many packets does the queue drop in this first second?",
      experiment: makeExperiment("Reno's slow start", 20e6, makeFifo(66), [makeFlow("reno")], SHORT),
      measure: readSummary("drops_overflow"),
      unit: "packets",
      choices: DROPS,
      reason: "While the news of the first loss travels, the sender still sends two packets for each ACK. One of each two finds no room, for a whole round trip: that is as many as the window had segments, 134.",
      look: { time: 330, words: "The window falls now, and the flow repeats what was lost. \"What happened\" counts the drops." },
    },
    {
      text: "CUBIC in Linux uses HyStart: it leaves slow start when the ACKs of one round trip arrive over a long time, or when the round-trip time rises. How many packets does the queue drop in the first second?",
      experiment: makeExperiment("CUBIC with HyStart", 20e6, makeFifo(66), [makeFlow("cubic")], SHORT),
      measure: readSummary("drops_overflow"),
      unit: "packets",
      choices: DROPS,
      reason: "HyStart saw a long train of ACKs after 184 ms, with the queue half empty. From then on the window grows slowly, so that only a few packets find no room when the queue is full.",
      look: { time: 190, words: "The state of the flow changes from slow start to avoidance, and the window stops to double." },
    },
  ],
  next: "Set the key \"hystart\" of CUBIC to off, or the initial window of the transport to 40: what do you expect?",
};
