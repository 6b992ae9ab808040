// Charts over time. They share their axis and show the moment; a click goes to it.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { findRate, listFlows, MS } from "../experiment";
import type { Experiment } from "../experiment";
import type { Sample } from "../observer";
import { computeRates } from "../observer";
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
}

export interface ChartKind {
  key: string;
  title: string;
  /** Word of the glossary, or a text that explains the measure. */
  explains: string;
  unit: string;
  series(experiment: Experiment): Series[];
  /** One list of values for each series. */
  values(data: RunData, experiment: Experiment): (number | null)[][];
  isStacked?: boolean;
  /** The largest value that the axis shows at least. */
  least?: number;
}

const finite = (value: number | undefined) => (value === undefined || Number.isNaN(value) ? null : value);

function listFlowSeries(experiment: Experiment): Series[] {
  return listFlows(experiment).map((one, flow) => ({ label: `flow ${flow + 1}, ${one.name}`, colour: () => palette.flow(flow), width: 1.5 }));
}

function pickFlows(experiment: Experiment, data: RunData, pick: (sample: Sample, flow: number) => number | undefined): (number | null)[][] {
  return listFlows(experiment).map((_, flow) => data.samples.map((sample) => finite(pick(sample, flow))));
}

/** Whether senders that are not listed one by one are on the link. */
const hasOthers = (experiment: Experiment) => Boolean(experiment.app?.length || experiment.web?.length);

export const CHARTS: ChartKind[] = [
  {
    key: "rates",
    title: "Rates on the link",
    explains: "Frames that left the link, by flow, as means over 200 ms. The dashed line is the rate of the link.",
    unit: "Mbit/s",
    isStacked: true,
    series: (experiment) => [
      ...listFlowSeries(experiment).map((one) => ({ ...one, fill: true, width: 1 })),
      ...(hasOthers(experiment) ? [{ label: "others", colour: () => palette.get("soft"), fill: true, width: 1 }] : []),
      { label: "rate of the link", colour: () => palette.get("ink"), width: 1, dash: [4, 3], isStepped: true },
    ],
    values: (data, experiment) => {
      const flows = listFlows(experiment).length;
      const rates = computeRates(data.samples, data.interval);
      const empty = Array.from({ length: flows + 1 }, () => []);
      return [...(rates.length ? rates : empty).slice(0, hasOthers(experiment) ? flows + 1 : flows), data.samples.map((one) => findRate(experiment, one.time * MS) / 1e6)];
    },
  },
  {
    key: "sojourn",
    title: "Time in queue",
    explains: "time in queue",
    unit: "ms",
    least: 1,
    series: () => [
      { label: "largest", colour: () => palette.get("pale"), width: 1 },
      { label: "mean", colour: () => palette.get("accent"), width: 1.5 },
    ],
    values: (data) => [data.samples.map((one) => finite(one.sojournMax)), data.samples.map((one) => finite(one.sojourn))],
  },
  {
    key: "cwnd",
    title: "Congestion window",
    explains: "The segments that a sender may have in flight.",
    unit: "segments",
    least: 10,
    series: listFlowSeries,
    values: (data, experiment) => pickFlows(experiment, data, (sample, flow) => sample.cwnd[flow]),
  },
  {
    key: "rtt",
    title: "Smoothed RTT",
    explains: "The round-trip time as the sender knows it: propagation, and the time in queues.",
    unit: "ms",
    least: 5,
    series: listFlowSeries,
    values: (data, experiment) => pickFlows(experiment, data, (sample, flow) => sample.srtt[flow]),
  },
];

/** The part of a run that charts show, ms. */
export function chooseSpan(session: Session): [number, number] {
  const { now, duration, span } = session;
  return span ? [Math.max(0, now - span), Math.max(span, now)] : [0, duration];
}

/** Calls `paint` for new moments. While the run plays, it waits until the moment has moved by a pixel of a chart of this width. */
export function onMove(session: Session, getWidth: () => number, paint: () => void): () => void {
  let drawn = -1;
  return session.onFrame(() => {
    const [low, high] = chooseSpan(session);
    const moved = Math.abs(session.now - drawn) / (high - low);
    if (session.isPlaying && moved * getWidth() < 1) return;
    drawn = session.now;
    paint();
  });
}

/** The top of a chart's axis: both sides have one scale. */
function findTop(kind: ChartKind, session: Session): number {
  return Math.max(kind.least ?? 0, ...session.all.map((side) => side.tops[kind.key] ?? 0)) * 1.05;
}

function findLargest(values: (number | null)[][]): number {
  let largest = 0;
  for (const list of values) for (const value of list) if (value !== null && value > largest) largest = value;
  return largest;
}

function stack(values: (number | null)[][], count: number): (number | null)[][] {
  const sums = values.map((one) => [...one]);
  for (let series = 1; series < count; series++)
    for (let at = 0; at < sums[series]!.length; at++) sums[series]![at] = (sums[series]![at] ?? 0) + (sums[series - 1]![at] ?? 0);
  return sums;
}

export function Chart({ session, side, kind, label }: { session: Session; side: Side; kind: ChartKind; label: string }) {
  const host = useRef<HTMLDivElement>(null);
  const shape = kind.series(side.experiment).map((one) => one.label).join();
  useEffect(() => {
    const plot = makePlot(host.current!, session, side, kind);
    const paint = () => updatePlot(plot, session, side, kind);
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
        <Term {...(kind.explains.includes(" ") && kind.explains.endsWith(".") ? { text: kind.explains } : { word: kind.explains })}>{kind.title}</Term> <span class="unit">{kind.unit}</span>
      </figcaption>
      <div ref={host} role="img" aria-label={`${label}: ${kind.title}, ${kind.unit}, over time`} />
    </figure>
  );
}

function makePlot(host: HTMLElement, session: Session, side: Side, kind: ChartKind): uPlot {
  const series = kind.series(side.experiment);
  const order = kind.isStacked ? [...series.slice(0, -1).reverse(), series.at(-1)!] : series;
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
    hooks: { draw: [(plot) => drawMoment(plot, session, side)] },
    padding: [6, RIGHT, 0, 0],
  };
  const plot = new uPlot(options, [[], ...order.map(() => [])] as unknown as uPlot.AlignedData, host);
  plot.over.addEventListener("click", (event) => {
    session.pause();
    session.seek(plot.posToVal(event.offsetX, "x"));
  });
  return plot;
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

function updatePlot(plot: uPlot, session: Session, side: Side, kind: ChartKind): void {
  const { experiment, data } = side;
  const times = data.samples.map((one) => one.time);
  let values = kind.values(data, experiment);
  if (kind.isStacked) {
    const sums = stack(values, values.length - 1);
    values = [...sums.slice(0, -1).reverse(), sums.at(-1)!];
  }
  // until the first frame of a changed experiment, or until its chart is there
  if (values.length !== plot.series.length - 1) return;
  side.tops[kind.key] = findLargest(values);
  const [low, high] = chooseSpan(session);
  plot.batch(() => {
    plot.setData([times, ...values] as uPlot.AlignedData, false);
    plot.setScale("x", { min: low, max: high });
    plot.setScale("y", { min: 0, max: findTop(kind, session) });
  });
}
