// Lesson: L4S and coupling.

import { MS, SECOND } from "../experiment";
import { choice, makeExperiment, makeFlow, readFlow, readSummary, toPercent } from "./lesson";
import type { Lesson } from "./lesson";

const SHORT_RTT = 20 * MS;
const ECN = { hosts: { ecn: true } };
const BOTH = [makeFlow("cubic", SHORT_RTT), makeFlow("prague", SHORT_RTT)];
const WINDOWS = [0, 1].map((flow) => readFlow("cwnd_mean", flow));
const ROUND_TRIPS = [0, 1].map((flow) => readFlow("rtt_mean_ms", flow));
const MINUTE = { duration: 60 * SECOND };

export const l4s: Lesson = {
  key: "l4s",
  title: "L4S and coupling",
  minutes: 9,
  intro:
    "A queue may mark packets instead of dropping them (ECN): the receiver reports the marks with its ACKs, and the sender reduces its window, which is how many packets may be on their way without an ACK. A classic control such as CUBIC takes one mark as one loss and reduces its window by a lot, so marks must be rare and the queue long. Prague reduces its window in proportion to the share of marked packets, so marks can be frequent and early. Senders like it are called L4S, and their packets carry the code ECT(1). DualPI2 gives these a queue of their own, marks them from 1 ms on, and couples both queues: if it drops or marks classic packets with a probability, it marks L4S packets with twice the square root of it. The link has 40 Mbit/s, and the base RTT is 20 ms.",
  questions: [
    {
      text: "Prague is alone over DualPI2. How long do its packets wait in the mean?",
      experiment: makeExperiment("Prague alone over DualPI2", 40e6, { name: "dualpi2" }, [makeFlow("prague", SHORT_RTT)], ECN),
      measure: readSummary("sojourn_mean_ms"),
      unit: "ms",
      choices: [choice("less than 1 ms", 0, 1), choice("about 5 ms", 4, 7), choice("about 15 ms", 12, 20)],
      charts: ["sojourn", "cwnd"],
      reason: () => "The step at 1 ms marks as soon as a short queue forms, and Prague answers each round trip a little. The link is full all the same.",
      look: { find: () => 10_000, words: "Marked packets have a bright core: there are many, and the window hardly moves." },
    },
    {
      text: "A flow over CUBIC joins it, in the classic queue. Which share of the goodput does Prague get?",
      experiment: makeExperiment("Prague and CUBIC over DualPI2", 40e6, { name: "dualpi2" }, BOTH, { ...ECN, ...MINUTE }),
      measure: toPercent(readFlow("share", 1)),
      unit: "% of the goodput",
      choices: [choice("less than 30 %", 0, 30), choice("50 to 75 %", 50, 75), choice("more than 90 %", 90, 100.1)],
      charts: ["rates", "rtt"],
      reason: (run) =>
        `The coupling keeps the windows alike: ${WINDOWS.map((read) => read(run).toFixed(0)).join(" segments for CUBIC and ")} for Prague in the mean. Prague's round trip takes ${ROUND_TRIPS[1]!(run).toFixed(0)} ms and CUBIC's ${ROUND_TRIPS[0]!(run).toFixed(0)} ms, because the classic queue has a target of 15 ms: a similar window in less time is a higher rate.`,
      look: { find: () => 30_000, words: "Row L of the picture is nearly empty and row C is not. The chart of the RTTs shows the difference of 15 ms." },
    },
    {
      text: "Both share one CoDel queue that marks, without a queue of its own for L4S and without coupling. Which share does Prague get?",
      experiment: makeExperiment("Prague and CUBIC over CoDel", 40e6, { name: "codel", ecn: true }, BOTH, { ...ECN, ...MINUTE }),
      measure: toPercent(readFlow("share", 1)),
      unit: "% of the goodput",
      choices: [choice("about 50 %", 40, 60), choice("about 70 %, as before", 65, 80), choice("more than 90 %", 90, 100.1)],
      charts: ["rates", "cwnd"],
      reason: () => "Both see the same marks. CUBIC takes each for a reason to reduce its window by 30 %, Prague reduces it by half of the share of marked packets, which is small. So a classic queue with ECN is dangerous for classic flows, and Prague has to detect it.",
      look: { find: () => 30_000, words: "CUBIC's window is at the bottom of the chart, and each mark keeps it there." },
    },
  ],
  lasting: "Frequent small answers to early marks keep the queue short and the link full, if the queue tells scalable flows from classic ones and couples them.",
  next: "Change coupling_factor of DualPI2 to 1 and to 4, and predict the shares. Then give Prague the RTT of 80 ms.",
};
