// Lesson: why slow start overshoots.

import { SECOND } from "../experiment";
import { choice, makeExperiment, makeFifo, makeFlow, readFlow, readSummary } from "./lesson";
import type { Lesson } from "./lesson";
import { findFirstLoss, findSampleAt, findStory } from "./moments";
import type { WholeRun } from "./moments";

const SHORT = { duration: SECOND };
/** "+ packet" then shows the drop, ms. */
const JUST_BEFORE = 1;
const countDrops = readSummary("drops_overflow");
const measureExit = (run: WholeRun) => 1000 * readFlow("slow_start_exit_s", 0)(run);

export const slowStart: Lesson = {
  key: "slow-start",
  title: "Why slow start overshoots",
  minutes: 7,
  speed: 0.03,
  intro:
    "A sender may have a window of packets, also called segments, on their way without an ACK, and Reno and CUBIC are two rules for the window. Both begin with slow start: two packets are sent for each one that was acknowledged, so the window doubles each round trip, because the sender does not know the rate of the path. The link and the queue of this lesson have room for 132 packets together: 66 on the way (20 Mbit/s times 40 ms), and 66 in the queue. The run is slowed down to 1/33 of real time: press ▶, and watch the first second.",
  questions: [
    {
      text: "A connection begins with a handshake, one round trip of 40 ms without data. Then Reno sends its first window, 10 segments. When does it know of the first loss?",
      experiment: makeExperiment("Reno's slow start", 20e6, makeFifo(66), [makeFlow("reno")], SHORT),
      measure: measureExit,
      unit: "ms after the start",
      choices: [choice("after about 100 ms", 80, 140), choice("after about 300 ms", 250, 380), choice("after about 1 s", 800, 1200)],
      charts: ["cwnd", "ticks"],
      reason: (run) => {
        const { dropped, known } = findFirstLoss(run);
        return `10, 20, 40, 80, 160: after the handshake, the window passes 132 in the fifth round trip, and the first packet is dropped at ${dropped.toFixed(0)} ms. The news comes ${(known - dropped).toFixed(0)} ms later: the packets ahead of the gap first leave the full queue, which takes 40 ms, then the packets behind the gap reach the receiver, and their ACKs come back and report the gap.`;
      },
      look: {
        find: (run) => findFirstLoss(run).dropped - JUST_BEFORE,
        words: "The queue has no room any more. Go on by single packets (+ packet) to see the first crosses: each is a packet that found no room.",
      },
    },
    {
      text: "How many packets does the queue drop in this first second?",
      experiment: makeExperiment("Reno's slow start", 20e6, makeFifo(66), [makeFlow("reno")], SHORT),
      measure: countDrops,
      unit: "packets",
      choices: [choice("fewer than 20", 0, 20), choice("about 65, half of a window", 50, 80), choice("about 130, a whole window", 100, 170), choice("more than 250", 250, 100_000)],
      charts: ["cwnd", "ticks"],
      reason: (run) =>
        `While the news of the first loss travels, the sender still sends two packets for each ACK. One of each two finds no room, for a whole round trip: that is about as many as the window had segments when the queue became full, ${findSampleAt(run, findFirstLoss(run).dropped).cwnd[0]}.`,
      look: { find: measureExit, words: "The sender knows of the loss now and repeats what was lost, and its window begins to fall. \"What happened\" counts the drops." },
    },
    {
      text: "CUBIC in Linux uses HyStart, which leaves slow start before a loss: when the ACKs of one window arrive over more than half of a round trip, the link is about full. With Reno the first packet was dropped after 255 ms. When is the first drop now?",
      experiment: makeExperiment("CUBIC with HyStart", 20e6, makeFifo(66), [makeFlow("cubic")], SHORT),
      measure: (run) => findStory(run, "drop"),
      unit: "ms after the start",
      choices: [choice("earlier, before 250 ms", 0, 250), choice("after about 500 ms", 400, 600), choice("after about 900 ms", 850, 1000)],
      charts: ["cwnd", "states"],
      reason: (run) => {
        const exit = measureExit(run);
        return `HyStart ended slow start at ${exit.toFixed(0)} ms, with ${findSampleAt(run, exit).backlog} of 66 packets in the queue. From then on the window grows slowly, so the queue fills late, and then only ${countDrops(run)} packets find no room in this second.`;
      },
      look: { find: measureExit, words: "The state of the flow changes from slow start to avoidance, in which the window grows slowly: it doubles no more." },
    },
  ],
  lasting: "Slow start doubles the window each round trip and hears of a loss late, so it sends about one window too much, unless it stops before the loss.",
  next: "Set the key \"hystart\" of CUBIC to off, or the initial window of the transport to 40: what do you expect?",
};
