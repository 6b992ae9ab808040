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

export type StoryKind = "start" | "exit" | "mark" | "drop" | "state" | "timeout" | "reduction" | "rate" | "stop" | "queue" | "set";

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

/** Causes that end slow start, in the words of `dumbbell explain` (python/dumbbell/explain/facts/senders.py). */
const ENDED: Record<string, string> = {
  loss: "loss ended",
  ecn: "CE marks ended",
  sce: "SCE marks ended",
  timeout: "a retransmission timeout ended",
  threshold: "the window reached the initial threshold, which ended",
  delay: "HyStart saw the RTT rise and ended",
  train: "HyStart saw a long train of ACKs and ended",
  plateau: "the bandwidth grew no more, which ended",
};
/** States of the congestion machine in which a window is reduced, and what brought the sender there. */
const REDUCERS: Record<string, string> = { recovery: "loss", cwr: "CE marks" };
const DROP_WORDS: Record<string, string> = {
  overflow: "because the queue was full",
  aqm: "by the decision of the queue discipline",
  loss: "lost on the path",
  policer: "by the policer",
  filter: "by the ACK filter",
  replaced: "because another queue took its place",
};
/** States of Linux's congestion machine. */
const MACHINE = ["open", "disorder", "cwr", "recovery", "loss"];
/** Sentences about marks and drops of one flow are at least this far apart, ms: those between are counted. */
const BURST_MS = 500;
/** Sentences and changes of states that are kept: the oldest of more are forgotten. */
const MOST_STORIES = 2000;
const MOST_STATES = 20_000;
/** States of BBR's cycle that come each few round trips: ribbons show them, sentences would be too many. */
const ROUTINE = ["probe_bw", "probe_up", "probe_down", "probe_cruise", "probe_refill"];
/** A queue that was not empty for so long stands. */
const STANDING_MS = 2000;
/** States that the page adds: a control without states of its own is in one of these, unless the congestion machine is busy. */
const SLOW_START = "slow start";
const AVOIDANCE = "avoidance";
/** What the code of a packet is divided by to get the length of its frame, bytes. */
const LENGTH = 16;
/** Bounds of the histogram of the time in queue: sixty for each factor of ten, from 10 us. */
const LEAST_MS = 0.01;
const BINS_PER_DECADE = 60;
const BINS = 8 * BINS_PER_DECADE;

/** A list that forgets its oldest entries. Numbers of entries count from the first one that there ever was. */
export class Chronicle<T> {
  /** How many entries are forgotten. */
  forgotten = 0;
  /** Entries from this number on are new, or have changed, since the last `takeChanges`. */
  #changedFrom = 0;

  constructor(
    readonly most: number,
    public kept: T[] = [],
  ) {}

  get end(): number {
    return this.forgotten + this.kept.length;
  }

  push(entry: T): number {
    if (this.kept.length >= this.most) {
      const dropped = Math.ceil(this.most / 4);
      this.kept.splice(0, dropped);
      this.forgotten += dropped;
    }
    return this.forgotten + this.kept.push(entry) - 1;
  }

  noteChange(number: number): void {
    this.#changedFrom = Math.min(this.#changedFrom, number);
  }

  /** The entries since the last call, and those that changed since; the first of them has the number `from`. */
  takeChanges(): Changes<T> {
    const from = Math.max(this.#changedFrom, this.forgotten);
    this.#changedFrom = this.end;
    return { from, forgotten: this.forgotten, entries: this.kept.slice(from - this.forgotten) };
  }

  copy(copyEntry: (entry: T) => T): Chronicle<T> {
    const copied = new Chronicle(this.most, this.kept.map(copyEntry));
    copied.forgotten = this.forgotten;
    return copied;
  }
}

/** What a chronicle reports. */
export interface Changes<T> {
  from: number;
  forgotten: number;
  entries: T[];
}

/** Returns a list of the entries that a chronicle keeps, brought up to date. */
export function applyChanges<T>(known: { forgotten: number; kept: T[] }, { from, forgotten, entries }: Changes<T>): { forgotten: number; kept: T[] } {
  const before = known.kept.slice(Math.max(0, forgotten - known.forgotten), Math.max(0, from - known.forgotten));
  return { forgotten, kept: entries.length || before.length !== known.kept.length ? [...before, ...entries] : known.kept };
}

/** A reduction of a window that is not over: its sentence gets the window when it is. */
interface Episode {
  number: number;
  cause: string;
  before: number;
  /** Reductions of the flow by the same cause that follow each other. */
  count: number;
}

export class Observer {
  readonly flows = new Map<number, FlowEnds>();
  stories = new Chronicle<Story>(MOST_STORIES);
  states = new Chronicle<StateChange>(MOST_STATES);
  /** Packets that left the queue, by time in queue (`binOf`). */
  readonly histogram = new Float64Array(BINS);
  departures = 0;
  #packets = new Map<string, SeenPacket>();
  #acks: { flow: number; time: number; hop: number }[] = [];
  #bursts = new Map<string, { number: number; last: number; count: number }>();
  #episodes = new Map<number, Episode>();
  /** The last reductions that are over, by flow, and when each began. */
  #reductions = new Map<number, Episode & { last: number }>();
  #isStarting = new Set<number>();
  #lastStates = new Map<number, string>();
  #machines = new Map<number, string>();
  #windows = new Map<number, number>();
  #starts = new Map<number, number>();
  #sojourn = { sum: 0, count: 0, max: 0 };
  #before = { bytes: 0, marks: 0, overflow: 0, aqm: 0 };
  #standing = { since: NaN, isTold: false };
  /** Bytes that left the link, by flow; those of senders that are not listed come last. */
  #carried: number[];

  constructor(
    readonly nameOf: (flow: number) => string,
    readonly flowCount: number,
  ) {
    this.#carried = Array.from({ length: flowCount + 1 }, () => 0);
  }

  /** A copy that takes the same events as this one does, for a snapshot of the run. */
  copy(): Observer {
    const copied = new Observer(this.nameOf, this.flowCount);
    for (const [flow, ends] of this.flows) copied.flows.set(flow, ends);
    copied.stories = this.stories.copy((one) => ({ ...one }));
    copied.states = this.states.copy((one) => one);
    copied.histogram.set(this.histogram);
    copied.departures = this.departures;
    for (const [key, packet] of this.#packets) copied.#packets.set(key, { ...packet });
    copied.#acks = [...this.#acks];
    for (const [key, burst] of this.#bursts) copied.#bursts.set(key, { ...burst });
    for (const [flow, one] of this.#reductions) copied.#reductions.set(flow, { ...one });
    copied.#isStarting = new Set(this.#isStarting);
    copied.#episodes = new Map(this.#episodes);
    copied.#lastStates = new Map(this.#lastStates);
    copied.#machines = new Map(this.#machines);
    copied.#starts = new Map(this.#starts);
    copied.#windows = new Map(this.#windows);
    copied.#sojourn = { ...this.#sojourn };
    copied.#before = { ...this.#before };
    copied.#standing = { ...this.#standing };
    copied.#carried = [...this.#carried];
    return copied;
  }

  /** Tells something that no event of the engine says, such as a change of the rate. */
  tell(story: Story): number {
    return this.stories.push(story);
  }

  /** Replaces the words of the sentence with this number, unless it is forgotten. */
  #reword(number: number, words: string): void {
    const story = this.stories.kept[number - this.stories.forgotten];
    if (!story) return;
    story.text = words;
    this.stories.noteChange(number);
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
          this.#enterState(time, flow, SLOW_START);
          this.#starts.set(flow, time);
          this.#isStarting.add(flow);
          if (flow < this.flowCount) this.tell({ time, kind: "start", flow, text: `${this.nameOf(flow)} started.` });
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
          this.#tellBurst("mark", time, flow, `${names.marks[Math.floor(code / 8)]!.toUpperCase()}-marked${placeOf(hop)}`);
          break;
        }
        case "drop": {
          const [reason, site] = [names.drop_reasons[code % 8]!, names.drop_sites[Math.floor(code / 8)]!];
          const known = site === "queue" ? this.#packets.get(`${hop} ${flow} ${number} ${queued}`) : undefined;
          const packet = known ?? { flow, hop, flags: 0, queued: time, dequeued: Infinity, departed: Infinity, dropped: time };
          packet.dropped = time;
          if (!known) this.#packets.set(`drop ${hop} ${flow} ${number} ${time}`, packet);
          this.#tellBurst("drop", time, flow, `dropped${placeOf(hop)} ${DROP_WORDS[reason] ?? reason}`);
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
          const phase = this.#lastStates.get(flow)?.toLowerCase() === "startup" ? "STARTUP" : SLOW_START;
          const start = this.#starts.get(flow) ?? 0;
          const after = start > 0 ? `, ${formatSeconds(time - start)} after it had begun` : "";
          const text = `${capitalise(ENDED[cause] ?? "something unknown ended")} the ${phase} of ${this.nameOf(flow)} at a window of ${countSegments(number)}${after}.`;
          // a control without slow start reports that it is past it with each reduction
          if (this.#isStarting.delete(flow)) this.tell({ time, kind: cause === "timeout" ? "timeout" : "exit", flow, text });
          if (this.#lastStates.get(flow) === SLOW_START) this.#enterState(time, flow, AVOIDANCE);
          break;
        }
      }
    }
  }

  #enterState(time: number, flow: number, state: string): void {
    this.#lastStates.set(flow, state);
    this.states.push({ time, flow, state });
  }

  #noteState(time: number, flow: number, state: string): void {
    const last = this.#lastStates.get(flow);
    if (!MACHINE.includes(state)) {
      if (state === last || state === "") return;
      this.#enterState(time, flow, state);
      if (!ROUTINE.includes(state.toLowerCase())) this.tell({ time, kind: "state", flow, text: `${this.nameOf(flow)} went to ${state}.` });
      return;
    }
    this.#machines.set(flow, state);
    // a control with states of its own shows those; its losses are told
    const hasOwn = last !== undefined && !MACHINE.includes(last) && last !== SLOW_START && last !== AVOIDANCE;
    const shown = state === "open" ? (last === "loss" ? SLOW_START : last === SLOW_START ? last : AVOIDANCE) : state;
    if (!hasOwn && state !== "disorder" && shown !== last) this.#enterState(time, flow, shown);
    this.#noteEpisode(time, flow, state, hasOwn);
    if (state !== "loss") return;
    this.tell({ time, kind: "timeout", flow, text: `The retransmission timer of ${this.nameOf(flow)} ran out: it starts again with a small window.` });
  }

  /** A reduction begins in recovery or cwr, and is over in open. Its sentence then has both windows, as that of `dumbbell explain`. */
  #noteEpisode(time: number, flow: number, state: string, hasModel: boolean): void {
    const cause = REDUCERS[state];
    if (hasModel) {
      if (state === "recovery") this.tell({ time, kind: "reduction", flow, text: `Loss took ${this.nameOf(flow)} into recovery.` });
    } else if (cause !== undefined && !this.#episodes.has(flow)) {
      const before = this.#windows.get(flow) ?? NaN;
      const former = this.#reductions.get(flow);
      const goesOn = former?.cause === cause && time - former.last < BURST_MS;
      const makes = cause === "loss" ? "makes" : "make";
      const number = goesOn ? former.number : this.tell({ time, kind: "reduction", flow, text: `${capitalise(cause)} ${makes} ${this.nameOf(flow)} reduce its window.` });
      const count = goesOn ? former.count + 1 : 1;
      this.#episodes.set(flow, { number, cause, before, count });
      this.#reductions.set(flow, { number, cause, before, count, last: time });
    } else if (state === "loss") {
      this.#episodes.delete(flow);
      this.#isStarting.add(flow);
    }
  }

  #endEpisodes(view: View): void {
    for (const one of view.endpoints) {
      const episode = this.#episodes.get(one.number);
      const state = this.#machines.get(one.number);
      if (episode && state !== "recovery" && state !== "cwr") {
        this.#episodes.delete(one.number);
        const { number, cause, before, count } = episode;
        const changed = one.cwnd < before ? ` from ${before} to ${countSegments(one.cwnd)}` : "";
        const times = count > 1 ? ` ${count} times until ${formatSeconds(view.time_ms)}${changed && `, the last time${changed}`}` : changed;
        this.#reword(number, `${capitalise(cause)} made ${this.nameOf(one.number)} reduce its window${times}.`);
      }
      if (!this.#episodes.has(one.number)) this.#windows.set(one.number, one.cwnd);
    }
  }

  #tellBurst(kind: "mark" | "drop", time: number, flow: number, words: string): void {
    const key = `${flow} ${words}`;
    const burst = this.#bursts.get(key);
    if (burst && time - burst.last < BURST_MS) {
      burst.last = time;
      burst.count += 1;
      this.#reword(burst.number, `${burst.count} packets of ${this.nameOf(flow)} were ${words}, until ${formatSeconds(time)}.`);
      return;
    }
    const number = this.tell({ time, kind, flow, text: `A packet of ${this.nameOf(flow)} was ${words}.` });
    this.#bursts.set(key, { number, last: time, count: 1 });
  }

  /** A queue that is never empty for a time is told once, and again after it was empty. */
  #noteQueue(time: number, view: View): void {
    const standing = this.#standing;
    if (view.backlog_packets === 0) this.#standing = { since: NaN, isTold: false };
    else if (Number.isNaN(standing.since)) standing.since = time;
    else if (!standing.isTold && time - standing.since >= STANDING_MS) {
      standing.isTold = true;
      const text = `The queue has not been empty for ${formatSeconds(STANDING_MS)}, with ${countThings(view.backlog_packets, "packet")} in it now: a standing queue.`;
      this.tell({ time, kind: "queue", flow: -1, text });
    }
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
    this.#endEpisodes(view);
    this.#noteQueue(time, view);
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

  /** How many packets are known: those on the path, and those that left it or were dropped a moment ago. */
  get packetCount(): number {
    return this.#packets.size;
  }

  /** Forgets the packets that have left the link or were dropped before a time, ms: nobody looks at them. */
  forgetPackets(time: number): void {
    for (const [key, one] of this.#packets) if (one.departed <= time || one.dropped <= time) this.#packets.delete(key);
    this.#acks.length = 0;
  }

  /** How long before it is queued a packet can be seen, ms: the picture needs events of so much later. */
  get lookahead(): number {
    let most = 0;
    for (const { ahead } of this.flows.values()) most = Math.max(most, ahead);
    return Math.min(most, 250);
  }
}

/** Where a hop is, unless it is the bottleneck. */
function placeOf(hop: number): string {
  return hop === 0 ? "" : " on the way back";
}

function capitalise(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function countThings(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}

function countSegments(count: number): string {
  return countThings(count, "segment");
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

/** Mean rates over the window before a sample, Mbit/s, of each flow, and of all other senders together. */
export function computeRatesAt(samples: Sample[], index: number, interval: number, windowMs: number): number[] {
  const width = Math.max(1, Math.round(windowMs / interval));
  const before = samples[index - width]?.carried;
  return samples[index]!.carried.map((bytes, list) => ((bytes - (before?.[list] ?? 0)) * 8) / 1e3 / (Math.min(width, index + 1) * interval));
}
