// Strips over time: marks and drops as ticks, states of controls as ribbons, and the state of the queue as small lines.

import { useEffect, useRef } from "preact/hooks";
import { listFlows } from "../experiment";
import type { Sample } from "../observer";
import type { Registry } from "../registry";
import type { Session, Side } from "../session";
import { chooseSpan, GUTTER, listShown, onMove, RIGHT, seekByPointer } from "./charts";
import { colourOf, formatNumber, palette } from "./format";
import { Term } from "./tip";

interface StripProps {
  session: Session;
  side: Side;
  height: number;
  label: string;
  paint: (context: CanvasRenderingContext2D, width: number, height: number, toX: (time: number) => number) => void;
}

/** A canvas whose horizontal axis is that of the charts; a click goes to a moment. */
function Strip({ session, side, height, label, paint }: StripProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef(paint);
  latest.current = paint;
  useEffect(() => {
    const own = canvas.current!;
    const draw = () => {
      const { clientWidth: width } = own;
      if (!width) return;
      own.width = Math.round(width * devicePixelRatio);
      own.height = Math.round(height * devicePixelRatio);
      const context = own.getContext("2d")!;
      context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
      const [low, high] = chooseSpan(session);
      const toX = (time: number) => GUTTER + ((time - low) / (high - low)) * (width - GUTTER - RIGHT);
      context.save();
      context.beginPath();
      context.rect(GUTTER, 0, width - GUTTER - RIGHT, height);
      context.clip();
      latest.current(context, width, height, toX);
      context.strokeStyle = palette.get("bad");
      context.beginPath();
      context.moveTo(toX(session.now), 0);
      context.lineTo(toX(session.now), height);
      context.stroke();
      context.restore();
    };
    const observer = new ResizeObserver(draw);
    observer.observe(own);
    const stop = onMove(session, () => own.clientWidth, draw);
    seekByPointer(own, session, (x) => {
      const [low, high] = chooseSpan(session);
      return low + ((x - GUTTER) / (own.clientWidth - GUTTER - RIGHT)) * (high - low);
    });
    draw();
    return () => {
      observer.disconnect();
      stop();
    };
  }, [session, side, height]);
  return <canvas ref={canvas} class="strip" style={{ height: `${height}px` }} role="img" aria-label={label} />;
}

const TICKS: { key: "marks" | "aqmDrops" | "overflow"; word: string; colour: string; explains: string }[] = [
  { key: "marks", word: "marked", colour: "tick", explains: "Packets on which the queue set CE or SCE instead of dropping them." },
  { key: "aqmDrops", word: "dropped", colour: "bad", explains: "Packets that the queue discipline dropped before the queue was full." },
  { key: "overflow", word: "overflow", colour: "ink", explains: "Packets that were dropped because the queue was full." },
];
const TICK_ROW = 14;

export function Ticks({ session, side }: { session: Session; side: Side }) {
  const paint: StripProps["paint"] = (context, _width, _height, toX) => {
    TICKS.forEach(({ key, colour }, row) => {
      context.fillStyle = palette.get("raised");
      context.fillRect(0, row * TICK_ROW + 1, 10_000, TICK_ROW - 2);
      context.fillStyle = palette.get(colour);
      for (const sample of listShown(session, side)) {
        const count = sample[key];
        if (!count) continue;
        const height = Math.min(1, 0.35 + Math.log2(1 + count) / 6) * (TICK_ROW - 3);
        context.fillRect(toX(sample.time) - 0.75, row * TICK_ROW + TICK_ROW - 1.5 - height, 1.5, height);
      }
    });
  };
  return (
    <figure class="strips" data-chart="ticks">
      <figcaption>
        Marks and drops
        {TICKS.map(({ word, colour, explains }) => (
          <span key={word} class="key" style={{ "--key": `var(--${colour})` }}>
            <Term text={explains}>{word}</Term>
          </span>
        ))}
      </figcaption>
      <Strip session={session} side={side} height={TICKS.length * TICK_ROW} label="marks and drops over time" paint={paint} />
    </figure>
  );
}

/** Colours of the states of controls, as the figures of dumbbell have them. */
const STATES: Record<string, string> = {
  startup: "state-0",
  slow_start: "state-0",
  drain: "state-1",
  probe_up: "state-2",
  probe_down: "state-3",
  probe_cruise: "state-4",
  probe_refill: "state-5",
  probe_rtt: "state-6",
  recovery: "state-2",
  avoidance: "state-4",
  cwr: "state-1",
  loss: "bad",
};
const RIBBON_ROW = 18;

function colourOfState(state: string): string {
  return palette.get(STATES[state.toLowerCase().replace(/[ -]/g, "_")] ?? "state-7");
}

export function Ribbons({ session, side }: { session: Session; side: Side }) {
  const flows = listFlows(side.experiment).filter((one) => one.table === "flows");
  const paint: StripProps["paint"] = (context, _width, _height, toX) => {
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    flows.forEach((_, flow) => {
      const changes = side.data.states.kept.filter((one) => one.flow === flow && (!session.isAsking || one.time <= session.now));
      changes.forEach((one, index) => {
        const end = changes[index + 1]?.time ?? Math.max(side.now, one.time);
        const [x0, x1] = [toX(one.time), toX(end)];
        const y = flow * RIBBON_ROW + 1;
        context.fillStyle = colourOfState(one.state);
        context.fillRect(x0, y, Math.max(1, x1 - x0), RIBBON_ROW - 2);
        const words = one.state.replace(/_/g, " ");
        if (x1 - x0 > context.measureText(words).width + 8) {
          context.fillStyle = palette.get("on-state");
          context.fillText(words, Math.max(x0, GUTTER) + 4, y + RIBBON_ROW / 2 - 1);
        }
      });
    });
  };
  if (!flows.length) return null;
  return (
    <figure class="strips" data-chart="states">
      <figcaption>
        <Term text="What the congestion controls report: states of BBR, and for all others slow start, avoidance, and the states of Linux's congestion machine: cwr (after a mark), recovery (after a loss), loss (after a timeout).">
          States of the controls
        </Term>
      </figcaption>
      <div class="ribbons">
        <ol aria-hidden="true" style={{ lineHeight: `${RIBBON_ROW}px` }}>
          {flows.map((_, flow) => (
            <li key={flow} style={{ "--flow": colourOf(flow) }}>
              flow {flow + 1}
            </li>
          ))}
        </ol>
        <Strip session={session} side={side} height={flows.length * RIBBON_ROW} label="states of the congestion controls over time" paint={paint} />
      </div>
    </figure>
  );
}

const STATE_ROW = 34;

/** Small lines of what the queue discipline believes: p, count, and so on. */
export function QueueStates({ session, side, registry }: { session: Session; side: Side; registry: Registry }) {
  const names = Object.keys(side.data.samples.at(-1)?.states ?? {});
  if (!names.length) return null;
  return (
    <figure class="strips" data-chart="queue-states">
      <figcaption>State of {side.experiment.bottleneck.aqm.name}</figcaption>
      {names.map((name) => (
        <QueueState key={name} name={name} session={session} side={side} registry={registry} />
      ))}
    </figure>
  );
}

function QueueState({ name, session, side, registry }: { name: string; session: Session; side: Side; registry: Registry }) {
  const value = useRef<HTMLOutputElement>(null);
  const known = registry.states.find((one) => one.name === name);
  const paint: StripProps["paint"] = (context, _width, height, toX) => {
    const samples = listShown(session, side);
    let top = 0;
    for (const one of samples) top = Math.max(top, one.states[name] ?? 0);
    context.strokeStyle = palette.get("accent");
    context.beginPath();
    for (const one of samples) context.lineTo(toX(one.time), height - 2 - (((one.states[name] ?? 0) / (top || 1)) * (height - 5)));
    context.stroke();
    const shown = findSample(samples, session.now);
    if (value.current) value.current.textContent = `${formatNumber(shown?.states[name])}${known?.unit ? ` ${known.unit}` : ""}`;
  };
  return (
    <div class="queue-state">
      <span>
        <Term text={known?.doc ?? name}>{name}</Term> <output ref={value} />
      </span>
      <Strip session={session} side={side} height={STATE_ROW} label={`${name} of the queue over time`} paint={paint} />
    </div>
  );
}

export function findSample(samples: Sample[], time: number): Sample | undefined {
  return samples.findLast((one) => one.time <= time + 1e-6);
}
