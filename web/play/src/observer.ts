// What the page knows of a run: series, ticks, states, packets and sentences, from the engine's events.

import type { EventNames, View } from "./simulation";

/** Places where a packet can be seen. */
export enum Place {
  ToQueue,
  Queue,
  Link,
  ToReceiver,
  Dropped,
  Ack,
}

/** Numbers of a visible packet: its place, how far it is there (0 to 1, in the queue its position), flow, hop, whether it is marked, sent again, or an ACK. */
export const PACKET_COLUMNS = 5;
export const MARKED = 1;
export const RETRANSMITTED = 2;
export const BACK = 4;
/** ECT(1) or CE: the packet of a scalable control, for queues that tell these apart. */
export const L4S = 8;

/** How long a dropped packet is seen, ms of the run, at most; the picture uses a part of the RTT. */
const DROP_SEEN_MS = 60;

interface SeenPacket {
  flow: number;
  hop: number;
  flags: number;
  queued: number;
  dequeued: number;
  departed: number;
  dropped: number;
}

export interface FlowEnds {
  /** Propagation ahead of the queue and behind the link, ms. */
  ahead: number;
  behind: number;
  up: boolean;
}

export type StoryKind = "start" | "exit" | "mark" | "drop" | "state" | "timeout" | "stop";

/** A sentence about something that happened. */
export interface Story {
  time: number;
  kind: StoryKind;
  flow: number;
  text: string;
}

/** Counts of one interval of the series. */
export interface Sample {
  time: number;
  /** Bytes of each flow that left the link so far, and of all other senders together. */
  carried: number[];
  cwnd: number[];
  srtt: number[];
  backlog: number;
  /** Time in queue of the packets that left in the interval, ms: mean and largest; NaN if none did. */
  sojourn: number;
  sojournMax: number;
  bytes: number;
  marks: number;
  overflow: number;
  aqmDrops: number;
  states: Record<string, number>;
}

/** From this time on a flow was in this state. */
export interface StateChange {
  time: number;
  flow: number;
  state: string;
}

const EXIT_WORDS: Record<string, string> = {
  loss: "after a loss",
  ecn: "after a CE mark",
  timeout: "after a timeout",
  sce: "after an SCE mark",
  threshold: "because its window reached ssthresh",
  delay: "because the round-trip time rose (HyStart)",
  train: "because its train of ACKs was long (HyStart)",
  plateau: "because its delivery rate grew no more",
};
const DROP_WORDS: Record<string, string> = {
  overflow: "because the queue was full",
  aqm: "by the decision of the queue discipline",
  loss: "lost on the path",
  policer: "by the policer",
  filter: "by the ACK filter",
};
/** States of Linux's congestion machine. */
const MACHINE = ["open", "disorder", "cwr", "recovery", "loss"];
/** Sentences about marks and drops of one flow are at least this far apart, ms: those between are counted. */
const BURST_MS = 500;
/** Rates are means over so long, ms. */
const RATE_WINDOW_MS = 200;
/** States that the page adds: a control without states of its own is in one of these, unless the congestion machine is busy. */
const SLOW_START = "slow start";
const AVOIDANCE = "avoidance";
/** What the code of a packet is divided by to get the length of its frame, bytes. */
const LENGTH = 16;
/** Bounds of the histogram of the time in queue: sixty for each factor of ten, from 10 us. */
const LEAST_MS = 0.01;
const BINS_PER_DECADE = 60;
const BINS = 8 * BINS_PER_DECADE;

export class Observer {
  readonly flows = new Map<number, FlowEnds>();
  readonly stories: Story[] = [];
  readonly states: StateChange[] = [];
  /** Packets that left the queue, by time in queue (`binOf`). */
  readonly histogram = new Float64Array(BINS);
  marksByFlow = new Map<number, number>();
  dropsByFlow = new Map<number, number>();
  #packets = new Map<string, SeenPacket>();
  #acks: { flow: number; time: number; hop: number }[] = [];
  #bursts = new Map<string, { story: Story; last: number; count: number }>();
  #sojourn = { sum: 0, count: 0, max: 0 };
  #before = { bytes: 0, marks: 0, overflow: 0, aqm: 0 };
  departures = 0;
  /** Bytes that left the link, by flow; those of senders that are not listed come last. */
  readonly #carried: number[];

  constructor(
    readonly nameOf: (flow: number) => string,
    readonly flowCount: number,
  ) {
    this.#carried = Array.from({ length: flowCount + 1 }, () => 0);
  }

  /** Takes rows of events, in order of time. */
  take(rows: Float64Array, names: EventNames): void {
    const width = names.columns.length;
    for (let at = 0; at < rows.length; at += width) {
      const kind = names.kinds[rows[at]!];
      const [time, flow, hop, number, queued, code] = [rows[at + 1]!, rows[at + 2]!, rows[at + 3]!, rows[at + 4]!, rows[at + 5]!, rows[at + 6]!];
      switch (kind) {
        case "flow":
          this.flows.set(flow, { ahead: number, behind: queued, up: code === 1 });
          this.states.push({ time, flow, state: SLOW_START });
          break;
        case "enqueue":
          this.#packets.set(`${hop} ${flow} ${number} ${queued}`, {
            ...{ flow, hop, queued: time, dequeued: Infinity, departed: Infinity, dropped: Infinity },
            flags: flagsOf(code),
          });
          break;
        case "dequeue": {
          const packet = this.#packets.get(`${hop} ${flow} ${number} ${queued}`);
          if (packet) packet.dequeued = time;
          if (hop === 0) this.#countSojourn(time - queued);
          break;
        }
        case "departure": {
          const packet = this.#packets.get(`${hop} ${flow} ${number} ${queued}`);
          if (packet) {
            packet.departed = time;
            packet.flags |= flagsOf(code);
          }
          this.departures += 1;
          if (hop === 0) this.#carried[Math.min(flow, this.flowCount)]! += Math.floor(code / LENGTH);
          break;
        }
        case "mark": {
          const packet = this.#packets.get(`${hop} ${flow} ${number} ${queued}`);
          if (packet) packet.flags |= MARKED;
          this.#add(this.marksByFlow, flow);
          this.#tellBurst("mark", time, flow, `${names.marks[Math.floor(code / 8)]!.toUpperCase()}-marked`);
          break;
        }
        case "drop": {
          const [reason, site] = [names.drop_reasons[code % 8]!, names.drop_sites[Math.floor(code / 8)]!];
          const known = site === "queue" ? this.#packets.get(`${hop} ${flow} ${number} ${queued}`) : undefined;
          const packet = known ?? { flow, hop, flags: 0, queued: time, dequeued: Infinity, departed: Infinity, dropped: time };
          packet.dropped = time;
          if (!known) this.#packets.set(`drop ${hop} ${flow} ${number} ${time}`, packet);
          this.#add(this.dropsByFlow, flow);
          this.#tellBurst("drop", time, flow, `dropped ${DROP_WORDS[reason] ?? reason}`);
          break;
        }
        case "ack":
          this.#acks.push({ flow, time, hop });
          break;
        case "state":
          this.#noteState(time, flow, names.states[code]!);
          break;
        case "exit": {
          const cause = names.exit_causes[code]!;
          const text = `${this.nameOf(flow)} left slow start with a window of ${number} segments, ${EXIT_WORDS[cause] ?? cause}.`;
          this.stories.push({ time, kind: cause === "timeout" ? "timeout" : "exit", flow, text });
          if (this.#lastState(flow) === SLOW_START) this.states.push({ time, flow, state: AVOIDANCE });
          break;
        }
      }
    }
  }

  #add(counts: Map<number, number>, flow: number): void {
    counts.set(flow, (counts.get(flow) ?? 0) + 1);
  }

  #lastState(flow: number): string | undefined {
    return this.states.findLast((one) => one.flow === flow)?.state;
  }

  #noteState(time: number, flow: number, state: string): void {
    const last = this.#lastState(flow);
    if (MACHINE.includes(state)) {
      // a control with states of its own shows those; its losses are told
      const hasOwn = last !== undefined && !MACHINE.includes(last) && last !== SLOW_START && last !== AVOIDANCE;
      const shown = state === "open" ? (last === "loss" ? SLOW_START : last === SLOW_START ? last : AVOIDANCE) : state;
      if (!hasOwn && state !== "disorder" && shown !== last) this.states.push({ time, flow, state: shown });
      if (state !== "loss") return;
    } else {
      if (state === last || state === "") return;
      this.states.push({ time, flow, state });
    }
    const text =
      state === "loss"
        ? `The retransmission timer of ${this.nameOf(flow)} ran out: it starts again with a small window.`
        : `${this.nameOf(flow)} went to ${state}.`;
    this.stories.push({ time, kind: state === "loss" ? "timeout" : "state", flow, text });
  }

  #tellBurst(kind: "mark" | "drop", time: number, flow: number, words: string): void {
    const key = `${flow} ${words}`;
    const burst = this.#bursts.get(key);
    if (burst && time - burst.last < BURST_MS) {
      burst.last = time;
      burst.count += 1;
      burst.story.text = `${burst.count} packets of ${this.nameOf(flow)} were ${words}, until ${formatSeconds(time)}.`;
      return;
    }
    const story: Story = { time, kind, flow, text: `A packet of ${this.nameOf(flow)} was ${words}.` };
    this.stories.push(story);
    this.#bursts.set(key, { story, last: time, count: 1 });
  }

  #countSojourn(ms: number): void {
    this.#sojourn.sum += ms;
    this.#sojourn.count += 1;
    this.#sojourn.max = Math.max(this.#sojourn.max, ms);
    this.histogram[binOf(ms)]! += 1;
  }

  /** Returns the sample that ends at a time, ms, from the state at that time. */
  takeSample(time: number, view: View): Sample {
    const { flowCount } = this;
    const { sum, count, max } = this.#sojourn;
    this.#sojourn = { sum: 0, count: 0, max: 0 };
    const before = this.#before;
    const { bytes, ce_marks: ce, sce_marks: sce, drops_overflow: overflow, drops_aqm: aqm } = view;
    this.#before = { bytes, marks: ce + sce, overflow, aqm };
    const none = () => Array.from({ length: flowCount }, () => NaN);
    const sample: Sample = {
      ...{ time, carried: [...this.#carried], cwnd: none(), srtt: none(), backlog: view.backlog_packets },
      ...{ sojourn: count ? sum / count : NaN, sojournMax: count ? max : NaN, states: view.states },
      ...{ bytes: bytes - before.bytes, marks: ce + sce - before.marks, overflow: overflow - before.overflow, aqmDrops: aqm - before.aqm },
    };
    for (const one of view.endpoints) {
      if (one.number >= flowCount || !this.flows.has(one.number)) continue;
      if (one.cwnd > 0) sample.cwnd[one.number] = one.cwnd;
      if (one.srtt_ms > 0) sample.srtt[one.number] = one.srtt_ms;
    }
    return sample;
  }

  /** Returns the packets that can be seen at a time, ms, in rows of PACKET_COLUMNS, and forgets those that are gone. */
  listPackets(now: number): Float64Array {
    const rows: number[] = [];
    const positions = new Map<string, number>();
    for (const [key, one] of this.#packets) {
      const { ahead, behind } = this.flows.get(one.flow) ?? { ahead: 0, behind: 0 };
      const push = (place: Place, at: number) => rows.push(place, at, one.flow, one.hop, one.flags);
      if (one.dropped <= now) {
        const seen = Math.min(DROP_SEEN_MS, ahead + behind || DROP_SEEN_MS);
        if (now - one.dropped < seen) push(Place.Dropped, (now - one.dropped) / seen);
        else this.#packets.delete(key);
      } else if (one.departed <= now) {
        if (one.flags & BACK) this.#packets.delete(key);
        else if (now - one.departed < behind) push(Place.ToReceiver, (now - one.departed) / behind);
        else this.#packets.delete(key);
      } else if (one.dequeued <= now) {
        push(Place.Link, one.departed === Infinity ? 0.5 : (now - one.dequeued) / (one.departed - one.dequeued || 1));
      } else if (one.queued <= now) {
        const lane = `${one.hop}`;
        const position = positions.get(lane) ?? 0;
        positions.set(lane, position + 1);
        push(Place.Queue, position);
      } else if (one.queued - ahead <= now && !(one.flags & BACK)) {
        push(Place.ToQueue, 1 - (one.queued - now) / (ahead || 1));
      }
    }
    let kept = 0;
    for (const ack of this.#acks) {
      const { ahead, behind } = this.flows.get(ack.flow) ?? { ahead: 0, behind: 0 };
      const [left, way] = [ack.time + behind, ahead + behind];
      if (now >= left + way) continue;
      this.#acks[kept++] = ack;
      if (now >= left) rows.push(Place.Ack, (now - left) / (way || 1), ack.flow, ack.hop, BACK);
    }
    this.#acks.length = kept;
    return Float64Array.from(rows);
  }

  /** How long before it is queued a packet can be seen, ms: the picture needs events of so much later. */
  get lookahead(): number {
    let most = 0;
    for (const { ahead } of this.flows.values()) most = Math.max(most, ahead);
    return Math.min(most, 250);
  }
}

function flagsOf(code: number): number {
  const ecn = code & 3;
  return (ecn === 3 ? MARKED : 0) | (code & 4 ? RETRANSMITTED : 0) | (code & 8 ? BACK : 0) | (ecn & 1 ? L4S : 0);
}

export function binOf(ms: number): number {
  if (ms < LEAST_MS) return 0;
  return Math.min(BINS - 1, 1 + Math.floor(Math.log10(ms / LEAST_MS) * BINS_PER_DECADE));
}

/** The upper bound of a bin, ms. */
export function boundOf(bin: number): number {
  return LEAST_MS * 10 ** (bin / BINS_PER_DECADE);
}

/** The value that a share of the packets of a histogram does not exceed, ms; NaN without packets. */
export function computeQuantile(histogram: Float64Array, share: number): number {
  const all = histogram.reduce((sum, one) => sum + one, 0);
  let left = share * all;
  for (let bin = 0; bin < histogram.length; bin++) {
    left -= histogram[bin]!;
    if (left <= 0 && all > 0) return boundOf(bin);
  }
  return NaN;
}

export function formatSeconds(ms: number): string {
  return ms >= 1000 ? `${(ms / 1000).toFixed(3).replace(/\.?0+$/, "")} s` : `${Number(ms.toFixed(ms < 10 ? 2 : 1))} ms`;
}

/** Mean rate of each list of bytes over the window before each sample, Mbit/s. */
export function computeRates(samples: Sample[], interval: number, windowMs = RATE_WINDOW_MS): number[][] {
  const width = Math.max(1, Math.round(windowMs / interval));
  return (samples[0]?.carried ?? []).map((_, list) =>
    samples.map((sample, index) => {
      const bytes = sample.carried[list]! - (samples[index - width]?.carried[list] ?? 0);
      return (bytes * 8) / 1e3 / (Math.min(width, index + 1) * interval);
    }),
  );
}
