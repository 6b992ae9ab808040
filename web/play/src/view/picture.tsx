// The picture of the path: packets on their way to the queue, in it, on the link, and their ACKs on the way back.

import { useEffect, useRef } from "preact/hooks";
import type { Experiment } from "../experiment";
import { findLimit, findRate, MS } from "../experiment";
import { BACK, L4S, MARKED, PACKET_COLUMNS, Place, RETRANSMITTED } from "../observer";
import { formatQuantity } from "../quantities";
import type { Registry } from "../registry";
import type { Session, Side } from "../session";
import { formatNumber, palette } from "./format";

/** Queues that keep a queue for each flow, and those that keep one for L4S and one for all other packets. */
const FLOW_QUEUES = ["fq_codel", "fq_pie", "cake", "fq", "mac80211"];
const L4S_QUEUES = ["dualpi2"];
const LEAST_CAPACITY = 24;
const HEIGHT = 178;

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

interface QueuedPacket {
  flow: number;
  flags: number;
  row: number;
}

/** Cells of one size in rows: a row for each queue, or as many as make the cells largest. */
function layCells(box: Box, packets: QueuedPacket[], rows: number, capacity: number): { x: number; y: number; size: number; packet: QueuedPacket }[] {
  if (rows > 1) {
    const rowHeight = box.height / rows;
    const size = Math.min(rowHeight, box.width / capacity);
    const filled = Array.from({ length: rows }, () => 0);
    return packets.map((packet) => {
      const at = filled[packet.row]!++;
      return { packet, size, x: box.x + box.width - (at + 1) * size, y: box.y + packet.row * rowHeight + (rowHeight - size) / 2 };
    });
  }
  let best = { size: 0, rows: 1, width: 0, height: 0 };
  for (let count = 1; count <= 12; count++) {
    const [width, height] = [box.width / Math.ceil(capacity / count), box.height / count];
    const size = Math.min(width, height);
    if (size > best.size) best = { size, rows: count, width, height };
  }
  // cells are spread over the whole box: a queue that is full fills it
  const { size, width, height } = best;
  return packets.map((packet, at) => ({
    packet,
    size,
    x: box.x + box.width - Math.floor(at / best.rows) * width - (width + size) / 2,
    y: box.y + (at % best.rows) * height + (height - size) / 2,
  }));
}

/** The number of packets that the box has room for: it follows the queue in steps, so that cells keep their size, and ends at the limit of the queue. */
class Capacity {
  #shown = LEAST_CAPACITY;

  follow(packets: number, limit: number): number {
    while (this.#shown < packets) this.#shown *= 2;
    while (this.#shown > LEAST_CAPACITY && this.#shown > packets * 8) this.#shown /= 2;
    return Math.max(packets, Math.min(this.#shown, limit));
  }
}

export function Picture({ session, side, label }: { session: Session; side: Side; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const capacities = useRef([new Capacity(), new Capacity()]);
  useEffect(() => {
    const paint = () => canvas.current && paintPicture(canvas.current, side, session.registry!, capacities.current, session.isComputing);
    const observer = new ResizeObserver(paint);
    observer.observe(canvas.current!);
    const stop = session.onFrame(paint);
    paint();
    return () => {
      observer.disconnect();
      stop();
    };
  }, [session, side]);
  return <canvas ref={canvas} class="picture" style={{ height: `${HEIGHT}px` }} role="img" aria-label={`${label}: packets on the path and in the queue`} />;
}

function paintPicture(canvas: HTMLCanvasElement, side: Side, registry: Registry, capacities: Capacity[], isComputing: boolean): void {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width) return;
  const scale = devicePixelRatio;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d")!;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  const { experiment } = side;
  const narrow = width < 560;
  const queueBox = { x: width * (narrow ? 0.24 : 0.27), y: 28, width: width * (narrow ? 0.48 : 0.46), height: 66 };
  const backBox = { x: width * 0.34, y: height - 46, width: width * 0.3, height: 26 };
  const linkEnd = queueBox.x + queueBox.width + width * (narrow ? 0.1 : 0.12);
  const [left, right] = [narrow ? 8 : 14, width - (narrow ? 8 : 14)];
  const middle = queueBox.y + queueBox.height / 2;
  const backY = height - 33;

  context.lineWidth = 1;
  context.strokeStyle = palette.get("line");
  line(context, left, middle, queueBox.x, middle);
  line(context, linkEnd, middle, right, middle);
  line(context, left, backY, right, backY);
  context.fillStyle = palette.get("raised");
  context.fillRect(queueBox.x, queueBox.y, queueBox.width, queueBox.height);
  context.strokeStyle = palette.get("soft");
  context.strokeRect(queueBox.x - 0.5, queueBox.y - 0.5, queueBox.width + 1, queueBox.height + 1);
  // the link: as thick as it is busy
  const { packets } = side.data;
  context.fillStyle = palette.get("raised");
  context.fillRect(queueBox.x + queueBox.width, middle - 9, linkEnd - queueBox.x - queueBox.width, 18);
  context.strokeRect(queueBox.x + queueBox.width + 0.5, middle - 9.5, linkEnd - queueBox.x - queueBox.width - 1, 19);
  if (experiment.reverse) {
    context.fillRect(backBox.x, backBox.y, backBox.width, backBox.height);
    context.strokeRect(backBox.x - 0.5, backBox.y - 0.5, backBox.width + 1, backBox.height + 1);
  }

  const rowsOf = chooseRows(experiment, packets);
  const limits = [experiment.bottleneck, experiment.reverse].map((one) => (one ? findLimit(one, registry) : Infinity));
  const queues: QueuedPacket[][] = [[], []];
  for (let at = 0; at < packets.length; at += PACKET_COLUMNS) {
    const [place, progress, flow, hop, flags] = [packets[at]!, packets[at + 1]!, packets[at + 2]!, packets[at + 3]!, packets[at + 4]!];
    const isBack = (flags & BACK) !== 0;
    context.fillStyle = palette.flow(flow);
    const shift = ((flow % 5) - 2) * 5;
    switch (place as Place) {
      case Place.ToQueue:
        if (hop === 0) drawPacket(context, left + progress * (queueBox.x - left - 8), middle + shift - 3.5, 7, flags);
        break;
      case Place.Queue:
        queues[hop ? 1 : 0]!.push({ flow, flags, row: hop ? 0 : rowsOf.find(flow, flags) });
        break;
      case Place.Link:
        if (hop === 0) {
          const from = queueBox.x + queueBox.width;
          drawPacket(context, from + progress * (linkEnd - from - 14), middle - 7, 14, flags);
        }
        break;
      case Place.ToReceiver:
        if (hop === 0) drawPacket(context, linkEnd + progress * (right - linkEnd - 7), middle + shift - 3.5, 7, flags);
        break;
      case Place.Dropped:
        context.globalAlpha = 1 - progress;
        drawDrop(context, hop ? backBox.x + backBox.width + 6 : queueBox.x - 12, (hop ? backBox.y : middle + shift) + progress * 40, palette.flow(flow));
        context.globalAlpha = 1;
        break;
      case Place.Ack:
        if (!experiment.reverse || !isBack || hop === 0) {
          const isPastQueue = experiment.reverse && progress > 0;
          if (!isPastQueue) {
            context.beginPath();
            context.arc(right - progress * (right - left), backY + ((flow % 3) - 1) * 4, 2.2, 0, 7);
            context.fill();
          }
        }
        break;
    }
  }
  /** The limit of the queue, if its box ends there. */
  let limit: number | null = null;
  for (const [hop, box] of [queueBox, backBox].entries()) {
    const queued = queues[hop]!;
    const rows = hop ? 1 : rowsOf.count;
    const longest = rows > 1 ? Math.max(0, ...Array.from({ length: rows }, (_, row) => queued.filter((one) => one.row === row).length)) : queued.length;
    const capacity = capacities[hop]!.follow(longest, limits[hop]!);
    if (!hop) limit = rows === 1 && capacity >= limits[0]! ? limits[0]! : null;
    for (const { packet, x, y, size } of layCells(box, queued, rows, capacity)) {
      context.fillStyle = palette.flow(packet.flow);
      drawPacket(context, x + size * 0.08, y + size * 0.08, Math.max(1, size * 0.84), packet.flags);
    }
  }
  if (isComputing) {
    context.fillStyle = palette.get("soft");
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "center";
    context.fillText("computing …", queueBox.x + queueBox.width / 2, queueBox.y + queueBox.height + 18);
  }
  labelPicture(context, side, describeQueue(queues[0]!.length, limit, limits[0]!), { left, right, middle, backY, queueBox, backBox, linkEnd, width, narrow, rows: rowsOf.names });
}

function line(context: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  context.beginPath();
  context.moveTo(x0, Math.round(y0) + 0.5);
  context.lineTo(x1, Math.round(y1) + 0.5);
  context.stroke();
}

/** A packet: marked ones have a bright core, those sent again a dark one. */
function drawPacket(context: CanvasRenderingContext2D, x: number, y: number, size: number, flags: number): void {
  context.fillRect(x, y, size, size);
  if (!(flags & (MARKED | RETRANSMITTED)) || size < 3) return;
  const colour = context.fillStyle;
  context.fillStyle = palette.get(flags & MARKED ? "mark" : "paper");
  context.fillRect(x + size * 0.28, y + size * 0.28, size * 0.44, size * 0.44);
  context.fillStyle = colour;
}

function drawDrop(context: CanvasRenderingContext2D, x: number, y: number, colour: string): void {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.beginPath();
  for (const [dx, dy] of [
    [4, 4],
    [4, -4],
  ] as const) {
    context.moveTo(x - dx, y - dy);
    context.lineTo(x + dx, y + dy);
  }
  context.stroke();
  context.lineWidth = 1;
}

interface Rows {
  count: number;
  names: string[];
  find(flow: number, flags: number): number;
}

/** The rows of the queue: one for each flow or kind of traffic that a discipline keeps apart. */
function chooseRows(experiment: Experiment, packets: Float64Array): Rows {
  const { name } = experiment.bottleneck.aqm;
  if (L4S_QUEUES.includes(name)) return { count: 2, names: ["L", "C"], find: (_, flags) => (flags & L4S ? 0 : 1) };
  if (!FLOW_QUEUES.includes(name)) return { count: 1, names: [], find: () => 0 };
  const flows = new Set<number>();
  for (let at = 0; at < packets.length; at += PACKET_COLUMNS) if (packets[at + 3] === 0) flows.add(packets[at + 2]!);
  const order = [...flows].sort((a, b) => a - b);
  return { count: Math.max(1, order.length), names: [], find: (flow) => Math.max(0, order.indexOf(flow)) };
}

interface Places {
  left: number;
  right: number;
  middle: number;
  backY: number;
  queueBox: Box;
  backBox: Box;
  linkEnd: number;
  width: number;
  narrow: boolean;
  rows: string[];
}

function formatRate(rate: number): string {
  return `${formatQuantity("rate", rate).replace(/(?<=\d)(?=[A-Za-z])/, "\u202f")}/s`;
}

/** The queue in words. Its limit is named where the box ends there: a queue that is far from its limit is drawn larger. */
function describeQueue(packets: number, shownLimit: number | null, limit: number): string {
  const count = formatNumber(packets, 4);
  if (packets >= limit) return `${count} packets, full`;
  if (shownLimit !== null && shownLimit < Infinity) return `${count} of ${formatNumber(shownLimit, 4)} packets`;
  return packets === 1 ? "1 packet" : `${count} packets`;
}

function labelPicture(context: CanvasRenderingContext2D, side: Side, queued: string, places: Places): void {
  const { left, right, backY, queueBox, backBox, linkEnd, narrow, rows } = places;
  const { experiment } = side;
  context.fillStyle = palette.get("soft");
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "alphabetic";
  context.textAlign = "left";
  context.fillText(narrow ? "senders" : "from the senders", left, queueBox.y - 9);
  const caption = `${experiment.bottleneck.aqm.name}${side.isShown ? `, ${queued}` : ""}`;
  const rate = formatRate(findRate(experiment, side.now * MS));
  const linkMiddle = (queueBox.x + queueBox.width + linkEnd) / 2;
  const room = linkMiddle - context.measureText(rate).width / 2 - queueBox.x;
  const isLong = context.measureText(caption).width > room - 8;
  context.fillText(isLong ? caption.replace(" packets", "") : caption, queueBox.x, queueBox.y - 9);
  context.textAlign = "center";
  context.fillText(rate, linkMiddle, queueBox.y - 9);
  context.textAlign = "right";
  if (!narrow) context.fillText("to the receivers", right, queueBox.y - 9);
  context.fillText("ACKs come back", right, backY + 25);
  if (experiment.reverse) {
    context.textAlign = "left";
    context.fillText(`${experiment.reverse.aqm.name}, ${formatRate(experiment.reverse.rate)}`, backBox.x, backBox.y + backBox.height + 14);
  }
  context.textAlign = "left";
  rows.forEach((name, row) => context.fillText(name, queueBox.x + 4, queueBox.y + ((row + 0.5) * queueBox.height) / rows.length + 4));
}
