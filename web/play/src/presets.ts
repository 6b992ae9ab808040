// Experiments that the page begins with.

import type { Experiment } from "./experiment";
import { MS, SECOND } from "./experiment";

const RTT = 40 * MS;
const PING = { rate: 7840, size: 98, echo: true, base_rtt: RTT };
const at = (seconds: number) => ({ min: seconds * SECOND, max: seconds * SECOND });

function make(title: string, rest: Omit<Experiment, "title" | "duration" | "seed"> & { duration?: number }): Experiment {
  return { title, duration: 30 * SECOND, seed: 1, ...rest } as Experiment;
}

export const PRESETS: Experiment[] = [
  make("Two downloads and a ping in a FIFO", {
    bottleneck: { rate: 20e6, aqm: { name: "pfifo", limit: 150 } },
    flows: [
      { cc: { name: "cubic" }, base_rtt: RTT },
      { cc: { name: "cubic" }, base_rtt: RTT, start: at(4) },
    ],
    udp: [PING],
  }),
  make("The same over CoDel", {
    bottleneck: { rate: 20e6, aqm: { name: "codel" } },
    flows: [
      { cc: { name: "cubic" }, base_rtt: RTT },
      { cc: { name: "cubic" }, base_rtt: RTT, start: at(4) },
    ],
    udp: [PING],
  }),
  make("The same over FQ-CoDel", {
    bottleneck: { rate: 20e6, aqm: { name: "fq_codel" } },
    flows: [
      { cc: { name: "cubic" }, base_rtt: RTT },
      { cc: { name: "cubic" }, base_rtt: RTT, start: at(4) },
    ],
    udp: [PING],
  }),
  make("The sawtooth of Reno", {
    bottleneck: { rate: 10e6, aqm: { name: "pfifo", limit: 33 } },
    flows: [{ cc: { name: "reno" }, base_rtt: RTT }],
  }),
  make("CUBIC and BBR in a FIFO", {
    bottleneck: { rate: 20e6, aqm: { name: "pfifo", limit: 100 } },
    flows: [
      { cc: { name: "cubic" }, base_rtt: RTT },
      { cc: { name: "bbr3" }, base_rtt: RTT, start: at(3) },
    ],
  }),
  make("L4S: Prague and CUBIC over DualPI2", {
    bottleneck: { rate: 40e6, aqm: { name: "dualpi2" } },
    hosts: { ecn: true },
    flows: [
      { cc: { name: "prague" }, base_rtt: 20 * MS },
      { cc: { name: "cubic" }, base_rtt: 20 * MS, start: at(3) },
    ],
  }),
  make("The rate falls for ten seconds", {
    bottleneck: {
      rate: 40e6,
      aqm: { name: "fq_codel" },
      rate_changes: [
        { at: 10 * SECOND, rate: 8e6 },
        { at: 20 * SECOND, rate: 40e6 },
      ],
    },
    flows: [{ cc: { name: "cubic" }, base_rtt: RTT }],
    udp: [PING],
  }),
  make("A download whose ACKs wait behind an upload", {
    bottleneck: { rate: 40e6, aqm: { name: "fq_codel" } },
    reverse: { rate: 4e6, aqm: { name: "pfifo", limit: 60 } },
    flows: [
      { cc: { name: "cubic" }, base_rtt: RTT },
      { cc: { name: "cubic" }, base_rtt: RTT, start: at(5), direction: "up" },
    ],
  }),
  make("A call next to a download", {
    bottleneck: { rate: 8e6, aqm: { name: "pfifo", limit: 200 } },
    flows: [{ cc: { name: "cubic" }, base_rtt: RTT, start: at(5) }],
    app: [{ kind: { name: "call" }, base_rtt: RTT }],
  }),
];
