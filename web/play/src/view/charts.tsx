// Charts over time. They share their axis and show the moment; a click goes to it.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { chooseMeanTime, computeBdp, findLimit, findRate, listFlows, MS } from "../experiment";
import type { Experiment } from "../experiment";
import type { Sample } from "../observer";
import { computeRatesAt } from "../observer";
import type { Registry } from "../registry";
import type { RunData, Session, Side } from "../session";
import { palette } from "./format";
import { Term } from "./tip";

const HEIGHT = 150;
/** Room for the numbers on the left, and for half of the last one on the right, px. */
export const GUTTER = 46;
export const RIGHT = 16;

interface Series {
  label: string;
  colour: () => string;
  width?: number;
  fill?: boolean;
  dash?: number[];
  isStepped?: boolean;
  /** No band of further seeds. */
  isBare?: boolean;
}

interface Level {
  value: number;
  words: string;
}

export interface ChartKind {
  key: string;
  title: string;
  /** Word of the glossary, or a text that explains the measure. */
  explains: string;
  unit: string;
  /** What else the caption says of the values. */
  note?(experiment: Experiment): string;
  series(experiment: Experiment): Series[];
  /** A value for each series of the sample with this number. */
  row(samples: Sample[], index: number, interval: number, experiment: Experiment): (number | null)[];
  isStacked?: boolean;
  /** Lines across the chart, at a time in ns. */
  levels?(experiment: Experiment, registry: Registry, time: number): Level[];
  /** The largest value that the axis shows at least. */
  least?: number;
}

const finite = (value: number | undefined) => (value === undefined || Number.isNaN(value) ? null : value);

function listFlowSeries(experiment: Experiment): Series[] {
  return listFlows(experiment).map((one, flow) => ({ label: `flow ${flow + 1}, ${one.name}`, colour: () => palette.flow(flow), width: 1.5 }));
}

function pickFlows(list: number[]): (number | null)[] {
  return list.map(finite);
}

/** What a single flow fills: the path, and the path with its queue. */
function listWindowLevels(experiment: Experiment, registry: Registry, time: number): Level[] {
  const { bottleneck, flows, app, web } = experiment;
  if (flows.length !== 1 || (flows[0]!.count ?? 1) > 1 || app?.length || web?.length) return [];
  const bdp = computeBdp({ ...experiment, bottleneck: { ...bottleneck, rate: findRate(experiment, time) } });
  const full = bdp + findLimit(bottleneck, registry);
  return [
    { value: bdp, words: `BDP: ${Math.round(bdp)}` },
    ...(full < Infinity ? [{ value: full, words: `BDP and full queue: ${Math.round(full)}` }] : []),
  ];
}

/** Whether senders that are not listed one by one are on the link. */
const hasOthers = (experiment: Experiment) => Boolean(experiment.app?.length || experiment.web?.length);

export const CHARTS: ChartKind[] = [
  {
    key: "rates",
    title: "Rates on the link",
    explains: "Frames that left the link, by flow. The dashed line is the rate of the link.",
    unit: "Mbit/s",
    note: (experiment) => `means over ${chooseMeanTime(experiment)} ms`,
    isStacked: true,
    series: (experiment) => [
      ...listFlowSeries(experiment).map((one) => ({ ...one, fill: true, width: 1 })),
      ...(hasOthers(experiment) ? [{ label: "others", colour: () => palette.get("soft"), fill: true, width: 1 }] : []),
      { label: "rate of the link", colour: () => palette.get("ink"), width: 1, dash: [4, 3], isStepped: true },
    ],
    row: (samples, index, interval, experiment) => {
      const rates = computeRatesAt(samples, index, interval, chooseMeanTime(experiment));
      if (!hasOthers(experiment)) rates.pop();
      return [...stack(rates), findRate(experiment, samples[index]!.time * MS) / 1e6];
    },
  },
  {
    key: "sojourn",
    title: "Time in queue",
    explains: "time in queue",
    unit: "ms",
    least: 1,
    series: () => [
      { label: "largest", colour: () => palette.get("pale"), width: 1, isBare: true },
      { label: "mean", colour: () => palette.get("accent"), width: 1.5 },
    ],
    row: (samples, index) => [finite(samples[index]!.sojournMax), finite(samples[index]!.sojourn)],
  },
  {
    key: "cwnd",
    title: "Congestion window",
    explains: "The segments that a sender may have in flight. A window above the bandwidth-delay product (BDP) lets packets wait in the queue. At the BDP and a full queue together, packets are dropped.",
    unit: "segments",
    least: 10,
    series: listFlowSeries,
    levels: listWindowLevels,
    row: (samples, index) => pickFlows(samples[index]!.cwnd),
  },
  {
    key: "rtt",
    title: "Smoothed RTT",
    explains: "The round-trip time as the sender knows it: propagation, and the time in queues.",
    unit: "ms",
    least: 5,
    series: listFlowSeries,
    row: (samples, index) => pickFlows(samples[index]!.srtt),
  },
];

/** A click on an element goes to the moment there, and so does a drag. `toTime` returns the time at a place, px. */
export function seekByPointer(element: HTMLElement, session: Session, toTime: (x: number) => number): void {
  const seek = (event: PointerEvent) => {
    session.pause();
    session.seek(toTime(event.clientX - element.getBoundingClientRect().left));
  };
  element.style.touchAction = "pan-y";
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    element.setPointerCapture(event.pointerId);
    seek(event);
  });
  element.addEventListener("pointermove", (event) => {
    if (element.hasPointerCapture(event.pointerId)) seek(event);
  });
}

/** The part of a run that charts show, ms. */
export function chooseSpan(session: Session): [number, number] {
  const { now, duration, span } = session;
  return span ? [Math.max(0, now - span), Math.max(span, now)] : [0, duration];
}

/** Calls `paint` for new moments, in its turn among charts. While the run plays, it waits until the moment has moved by a pixel of a chart of this width. */
export function onMove(session: Session, getWidth: () => number, paint: () => void): () => void {
  let drawn = -1;
  const draw = () => {
    drawn = session.now;
    paint();
  };
  const stop = session.onFrame(() => {
    const [low, high] = chooseSpan(session);
    const moved = Math.abs(session.now - drawn) / (high - low);
    if (!session.isPlaying || moved * getWidth() >= 1) session.paintInTurn(draw);
  });
  return () => {
    stop();
    session.forgetTurn(draw);
  };
}

/** Samples that charts show: before the reader has answered a lesson's question, up to the moment. */
export function listShown(session: Session, side: Side): Sample[] {
  const { samples } = side.data;
  return session.isAsking ? samples.slice(0, countUntil(samples, session.now)) : samples;
}

/** How many samples there are up to a time, ms. */
function countUntil(samples: Sample[], time: number): number {
  return samples.findLastIndex((one) => one.time <= time + 1e-6) + 1;
}

/** The top of a chart's axis: both sides have one scale. */
function findTop(kind: ChartKind, session: Session): number {
  return Math.max(kind.least ?? 0, ...session.all.map((side) => side.tops[kind.key] ?? 0)) * 1.05;
}

/** Sums of the values up to each. */
function stack(values: number[]): number[] {
  let sum = 0;
  return values.map((one) => (sum += one));
}

/** The columns of a chart: samples are added as they come. */
class Columns {
  times: number[] = [];
  values: (number | null)[][];
  #samples: Sample[] | null = null;
  /** The largest value up to each time. */
  #tops: number[] = [];

  constructor(
    readonly kind: ChartKind,
    readonly count: number,
  ) {
    this.values = Array.from({ length: count }, () => []);
  }

  /** Takes the samples that are new. Returns false if they are those of another experiment, whose chart comes soon. */
  follow({ samples, interval }: RunData, experiment: Experiment): boolean {
    if (samples !== this.#samples) {
      this.#samples = samples;
      this.times = [];
      this.values = this.values.map(() => []);
      this.#tops = [];
    }
    for (let index = this.times.length; index < samples.length; index++) {
      const row = this.kind.row(samples, index, interval, experiment);
      if (row.length !== this.count) return false;
      this.times.push(samples[index]!.time);
      row.forEach((value, series) => this.values[series]!.push(value));
      this.#tops.push(Math.max(this.#tops.at(-1) ?? 0, ...row.map((value) => value ?? 0)));
    }
    return true;
  }

  /** The largest of the first `count` values. */
  findTop(count: number): number {
    return this.#tops[count - 1] ?? 0;
  }
}

/** A chart with less than this part of its axis looks empty. */
const LEAST_SHARE = 0.1;

/** Whether a chart has next to nothing to show, and grows when the reader lets the run play. */
function isHardlyBegun(session: Session): boolean {
  const [low, high] = chooseSpan(session);
  return session.isAsking && !session.isPlaying && session.now - low < LEAST_SHARE * (high - low);
}

interface ChartProps {
  session: Session;
  side: Side;
  kind: ChartKind;
  label: string;
  /** The chart shows the answer of a question. */
  isAsked: boolean;
}

export function Chart({ session, side, kind, label, isAsked }: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const shape = kind.series(side.experiment).map((one) => one.label).join();
  useEffect(() => {
    const plot = makePlot(host.current!, session, side, kind);
    const columns = new Columns(kind, kind.series(side.experiment).length);
    const paint = () => updatePlot(plot, columns, session, side);
    const observer = new ResizeObserver(() => {
      const width = host.current?.clientWidth ?? 0;
      if (width) plot.setSize({ width, height: HEIGHT });
      paint();
    });
    observer.observe(host.current!);
    const stop = onMove(session, () => host.current?.clientWidth ?? 0, paint);
    const recolour = () => plot.redraw();
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", recolour);
    return () => {
      observer.disconnect();
      scheme.removeEventListener("change", recolour);
      stop();
      plot.destroy();
    };
  }, [session, side, kind, shape]);
  return (
    <figure class="chart" data-chart={kind.key}>
      <figcaption>
        <Term {...(kind.explains.includes(" ") && kind.explains.endsWith(".") ? { text: kind.explains } : { word: kind.explains })}>{kind.title}</Term> <span class="unit">{[kind.unit, kind.note?.(side.experiment)].filter(Boolean).join(", ")}</span>
      </figcaption>
      <div ref={host} role="img" aria-label={`${label}: ${kind.title}, ${kind.unit}, over time`} />
      {isAsked && isHardlyBegun(session) && <p class="begin">Press ▶ to see it grow.</p>}
    </figure>
  );
}

function makePlot(host: HTMLElement, session: Session, side: Side, kind: ChartKind): uPlot {
  const series = kind.series(side.experiment);
  const order = orderSeries(kind, series);
  const axis = { stroke: () => palette.get("soft"), grid: { stroke: () => palette.get("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const options: uPlot.Options = {
    width: host.clientWidth || 400,
    height: HEIGHT,
    legend: { show: false },
    cursor: { x: true, y: false, points: { show: false }, drag: { x: false, y: false }, sync: { key: "dumbbell" } },
    scales: { x: { time: false, range: (_plot, low, high) => [low, high] }, y: { range: (_plot, low, high) => [low, high] } },
    axes: [
      { ...axis, size: 26, gap: 6, values: (_plot, ticks) => ticks.map((one) => `${Number((one / 1000).toFixed(4))} s`) },
      { ...axis, size: GUTTER, gap: 4, values: (_plot, ticks) => ticks.map((one) => String(Number(one.toPrecision(6)))) },
    ],
    series: [
      {},
      ...order.map((one) => ({
        label: one.label,
        stroke: one.colour,
        width: one.width ?? 1.5,
        ...(one.fill ? { fill: one.colour } : {}),
        ...(one.dash ? { dash: one.dash } : {}),
        ...(one.isStepped ? { paths: uPlot.paths.stepped!({ align: -1 }) } : {}),
        points: { show: false },
        spanGaps: false,
      })),
    ],
    hooks: { drawAxes: [(plot) => drawSeeds(plot, session, side, kind)], draw: [(plot) => drawLevels(plot, session, side, kind), (plot) => drawMoment(plot, session, side)] },
    padding: [6, RIGHT, 0, 0],
  };
  const plot = new uPlot(options, [[], ...order.map(() => [])] as unknown as uPlot.AlignedData, host);
  seekByPointer(plot.over, session, (x) => plot.posToVal(x, "x"));
  return plot;
}

/** Draws the lines across a chart that are within its axis, with their words at the right. */
function drawLevels(plot: uPlot, session: Session, side: Side, kind: ChartKind): void {
  const { ctx: context, bbox } = plot;
  for (const { value, words } of kind.levels?.(side.experiment, session.registry!, session.now * MS) ?? []) {
    if (value > (plot.scales["y"]!.max ?? 0)) continue;
    const y = Math.round(plot.valToPos(value, "y", true)) + 0.5;
    context.save();
    context.strokeStyle = context.fillStyle = palette.get("soft");
    context.lineWidth = devicePixelRatio;
    context.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    context.beginPath();
    context.moveTo(bbox.left, y);
    context.lineTo(bbox.left + bbox.width, y);
    context.stroke();
    context.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    context.textAlign = "right";
    context.textBaseline = "bottom";
    // the words stand out from the series behind them
    context.setLineDash([]);
    context.strokeStyle = palette.get("paper");
    context.lineWidth = 4 * devicePixelRatio;
    context.lineJoin = "round";
    const [x, base] = [bbox.left + bbox.width - 3 * devicePixelRatio, y - 2 * devicePixelRatio];
    context.strokeText(words, x, base);
    context.fillText(words, x, base);
    context.restore();
  }
}

/** Draws the moment, and the changes that happen during the run. */
function drawMoment(plot: uPlot, session: Session, side: Side): void {
  const { ctx: context, bbox } = plot;
  const draw = (time: number, colour: string, dash: number[]) => {
    const x = Math.round(plot.valToPos(time, "x", true)) + 0.5;
    if (x < bbox.left || x > bbox.left + bbox.width + 1) return;
    context.save();
    context.strokeStyle = colour;
    context.lineWidth = devicePixelRatio;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(x, bbox.top);
    context.lineTo(x, bbox.top + bbox.height);
    context.stroke();
    context.restore();
  };
  for (const one of side.experiment.bottleneck.rate_changes ?? []) draw(one.at / MS, palette.get("soft"), [2, 3]);
  draw(session.now, palette.get("bad"), []);
}

/** The order in which series are drawn: areas from the largest sum to the smallest, below the lines. */
function orderSeries<T>(kind: ChartKind, series: T[]): T[] {
  return kind.isStacked ? [...series.slice(0, -1).reverse(), series.at(-1)!] : series;
}

function updatePlot(plot: uPlot, columns: Columns, session: Session, side: Side): void {
  const { kind } = columns;
  if (!columns.follow(side.data, side.experiment)) return;
  const count = session.isAsking ? countUntil(side.data.samples, session.now) : columns.times.length;
  side.tops[kind.key] = columns.findTop(count);
  const cut = <T,>(values: T[]): T[] => (count < columns.times.length ? values.slice(0, count) : values);
  const [low, high] = chooseSpan(session);
  plot.batch(() => {
    plot.setData([columns.times, ...orderSeries(kind, columns.values)].map((one) => cut<number | null>(one)) as uPlot.AlignedData, false);
    plot.setScale("x", { min: low, max: high });
    plot.setScale("y", { min: 0, max: findTop(kind, session) });
  });
}

/** Draws where the values of all seeds are, up to the last moment that was seen: a band for each series that has its own line. */
function drawSeeds(plot: uPlot, session: Session, side: Side, kind: ChartKind): void {
  const { seedRuns, experiment } = side;
  const [first] = seedRuns;
  const seen = side.data.samples.at(-1)?.time ?? 0;
  // a question is about one run
  if (!first || kind.isStacked || session.isAsking) return;
  const rows = seedRuns.map((run) => run.samples.map((_, index) => kind.row(run.samples, index, run.interval, experiment)));
  const { ctx: context, bbox } = plot;
  context.save();
  context.beginPath();
  context.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  context.clip();
  context.globalAlpha = 0.2;
  kind.series(experiment).forEach((series, number) => {
    if (series.isBare) return;
    context.fillStyle = series.colour();
    const ends: [number, number, number][] = [];
    const close = () => {
      context.beginPath();
      for (const [x, low] of ends) context.lineTo(x, low);
      for (const [x, , high] of ends.reverse()) context.lineTo(x, high);
      context.fill();
      ends.length = 0;
    };
    for (let index = 0; index < first.samples.length && first.samples[index]!.time <= seen + first.interval; index++) {
      const values = rows.map((run) => run[index]?.[number]).filter((one) => one !== null && one !== undefined);
      if (!values.length) {
        close();
        continue;
      }
      // half of an interval back: the value is the mean of the interval that ends here
      const x = plot.valToPos(first.samples[index]!.time - first.interval / 2, "x", true);
      const [low, high] = [plot.valToPos(Math.min(...values), "y", true), plot.valToPos(Math.max(...values), "y", true)];
      ends.push([x, low + devicePixelRatio, high - devicePixelRatio]);
    }
    close();
  });
  context.restore();
}
