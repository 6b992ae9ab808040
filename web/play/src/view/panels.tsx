// What happened, the distribution of the time in queue, the measurements, and the experiment file.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Experiment } from "../experiment";
import { listFlows } from "../experiment";
import { binOf, computeQuantile, formatSeconds } from "../observer";
import type { Outcome } from "../simulation";
import { ValueError } from "../quantities";
import type { Registry } from "../registry";
import type { Session, Side } from "../session";
import { formatRepetition } from "../settings";
import { formatToml, readToml, TextError } from "../toml";
import { colourOf, formatNumber, palette } from "./format";
import { Term } from "./tip";

/** Renders again with the moments of a session, some times a second at most. */
function useMoments(session: Session, perSecond = 8): void {
  const [, update] = useState(0);
  useEffect(() => {
    let last = 0;
    let waiting: ReturnType<typeof setTimeout> | undefined;
    const render = () => {
      last = performance.now();
      waiting = undefined;
      update((count) => count + 1);
    };
    const stop = session.onFrame(() => {
      const wait = last + 1000 / perSecond - performance.now();
      if (wait <= 0) render();
      else waiting ??= setTimeout(render, wait);
    });
    return () => {
      clearTimeout(waiting);
      stop();
    };
  }, [session, perSecond]);
}

/** Lets no line break between a number and its unit. */
function keepUnits(text: string): string {
  return text.replace(/(\d) (?=m?s\b|[kM]?bit|packets|segments)/g, "$1\u00a0");
}

const SHOWN_STORIES = 60;

export function Stories({ session, side }: { session: Session; side: Side }) {
  useMoments(session);
  const told = side.data.stories.kept.filter((one) => one.time <= session.now).sort((a, b) => a.time - b.time);
  const shown = told.slice(-SHOWN_STORIES).reverse();
  return (
    <section class="panel stories">
      <h3>What happened</h3>
      {shown.length === 0 && <p class="about">{session.now > 0 ? "Nothing so far." : "The run has not begun."}</p>}
      <ol>
        {shown.map((one, index) => (
          <li key={told.length - index} class={one.kind}>
            <button type="button" title="go to this moment" onClick={() => (session.pause(), session.seek(one.time))}>
              {formatSeconds(one.time)}
            </button>{" "}
            <span style={one.flow < 0 ? {} : { "--flow": colourOf(one.flow) }}>{keepUnits(one.text)}</span>
          </li>
        ))}
      </ol>
      {told.length > SHOWN_STORIES && <p class="about">{told.length - SHOWN_STORIES} earlier ones are left out.</p>}
    </section>
  );
}

const HISTOGRAM_HEIGHT = 110;
const QUANTILES: [number, string][] = [
  [0.5, "median"],
  [0.95, "P95"],
  [0.99, "P99"],
];

export function Distribution({ session, side }: { session: Session; side: Side }) {
  useMoments(session);
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (canvas.current) paintHistogram(canvas.current, side.data.histogram);
  });
  return (
    <section class="panel distribution">
      <h3>
        <Term word="time in queue">Time in queue</Term>, all packets so far
      </h3>
      <canvas ref={canvas} style={{ height: `${HISTOGRAM_HEIGHT}px` }} role="img" aria-label="histogram of the time in queue" />
      <dl>
        {QUANTILES.map(([share, word]) => (
          <div key={word}>
            <dt>{word}</dt>
            <dd>{formatNumber(computeQuantile(side.data.histogram, share))} ms</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function paintHistogram(canvas: HTMLCanvasElement, histogram: Float64Array): void {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width) return;
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  const context = canvas.getContext("2d")!;
  context.scale(devicePixelRatio, devicePixelRatio);
  const [first, last] = [binOf(0.05), binOf(2000)];
  const most = Math.max(1, ...histogram);
  const step = width / (last - first);
  const bottom = height - 16;
  context.fillStyle = palette.get("accent");
  for (let bin = first; bin <= last; bin++) {
    // what is below the first bin stands in it
    const count = bin === first ? histogram.slice(0, first + 1).reduce((sum, one) => sum + one, 0) : (histogram[bin] ?? 0);
    const size = Math.min(1, count / most) * (bottom - 4);
    if (count) context.fillRect((bin - first) * step, bottom - Math.max(1, size), Math.max(1, step - 0.6), Math.max(1, size));
  }
  context.fillStyle = palette.get("soft");
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  for (const ms of [0.1, 1, 10, 100, 1000]) {
    const x = (binOf(ms * 1.001) - first) * step;
    context.fillRect(x, bottom, 1, 3);
    if (x > 16 && x < width - 26) context.fillText(`${ms} ms`, x, height - 3);
  }
}

type Row = Record<string, number | string | null>;

/** The rows of a table of columns. */
export function listRows(table: Outcome["tables"][string] | undefined): Row[] {
  if (!table) return [];
  const length = Object.values(table)[0]?.length ?? 0;
  return Array.from({ length }, (_, index) => Object.fromEntries(Object.entries(table).map(([name, values]) => [name, values[index] ?? null])));
}

const SUMMARY: [string, string, string, string][] = [
  ["utilisation", "utilisation", "", "What left the link over what it could carry."],
  ["sojourn_mean_ms", "time in queue, mean", "ms", "Mean over all packets that left the queue."],
  ["sojourn_p99_ms", "time in queue, P99", "ms", "99 % of the packets waited no longer."],
  ["ce_marks", "CE marks", "packets", "Packets that the queue marked."],
  ["drops_aqm", "dropped by the discipline", "packets", "Packets that the queue discipline dropped."],
  ["drops_overflow", "dropped, queue full", "packets", "Packets for which there was no room."],
];

function formatGoodput(mbit: number): string {
  return mbit > 0 && mbit < 0.1 ? `${formatNumber(1000 * mbit)} kbit/s` : `${formatNumber(mbit)} Mbit/s`;
}

/** The measurements of the whole run: those of `dumbbell run` with the file. */
export function Results({ session, side, native }: { session: Session; side: Side; native: NativeRun | null }) {
  const outcome = session.isAsking ? null : side.outcome;
  const flows = listFlows(side.experiment);
  const rows = listRows(outcome?.tables["flows"]);
  return (
    <section class="panel results" data-digest={outcome?.digest ?? ""}>
      <h3>The whole run, measured</h3>
      {!outcome && <p class="about">{session.isAsking ? "The answer of the lesson comes first." : "The whole run is measured when you pause."}</p>}
      {outcome && (
        <>
          <table>
            <tbody>
              {SUMMARY.filter(([key]) => outcome.summary[key] !== undefined).map(([key, words, unit, explains]) => (
                <tr key={key}>
                  <th scope="row">
                    <Term text={explains}>{words}</Term>
                  </th>
                  <td data-key={key} data-value={String(outcome.summary[key])}>
                    {formatNumber(Number(outcome.summary[key]))} {unit}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          <table>
            <thead>
              <tr>
                <th scope="col">flow</th>
                <th scope="col">
                  <Term word="goodput, throughput">goodput</Term>
                </th>
                <th scope="col">RTT</th>
                <th scope="col">
                  <Term word="retransmissions">sent again</Term>
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row, index) => (
                <tr key={index}>
                  <th scope="row">
                    <span class="dot" style={{ "--flow": colourOf(index) }} /> {index + 1}, {flows[index]?.name ?? String(row["cc"])}
                  </th>
                  <td data-key={`goodput_mbit ${index}`} data-value={String(row["goodput_mbit"])}>
                    {formatGoodput(Number(row["goodput_mbit"]))}
                  </td>
                  <td>{formatNumber(row["srtt_mean_ms"] === null ? NaN : Number(row["srtt_mean_ms"] ?? row["rtt_mean_ms"]))} ms</td>
                  <td>{formatNumber(row["retransmissions"] === undefined ? NaN : Number(row["retransmissions"]))}</td>
                </tr>
              ))}
            </tbody>
          </table>
          <Digest digest={outcome.digest} version={session.version} native={native} experiment={side.experiment} />
        </>
      )}
    </section>
  );
}

/** The digest of the run that `dumbbell play FILE` made, and its experiment. */
export interface NativeRun {
  digest: string;
  experiment: string;
}

function Digest({ digest, version, native, experiment }: { digest: string; version: string; native: NativeRun | null; experiment: Experiment }) {
  const isSame = native !== null && native.experiment === JSON.stringify(experiment);
  return (
    <p class="digest">
      <Term text="A hash of all that the run measured. dumbbell run gives the same one for the same file, on every machine.">digest</Term> <code>{digest}</code> of engine {version}
      {isSame && (native.digest === digest ? <strong class="good"> = the digest of dumbbell run</strong> : <strong class="bad"> differs from {native.digest} of dumbbell run</strong>)}
    </p>
  );
}

/** The experiment file: it can be edited, copied and saved. */
export function FilePanel(props: { session: Session; side: Side; registry: Registry; edit: (experiment: Experiment) => void; link: string }) {
  const { side, registry, edit, link } = props;
  const text = formatToml(side.experiment, registry);
  const [draft, setDraft] = useState<string | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  const [copied, setCopied] = useState("");
  useEffect(() => {
    setDraft(null);
    setFault(null);
  }, [text]);
  const apply = () => {
    try {
      const { settings } = side.experiment;
      edit({ ...readToml(draft ?? text, registry), ...(settings ? { settings } : {}) });
      setFault(null);
    } catch (error) {
      if (error instanceof TextError) setFault(error.line === null ? error.message : `line ${error.line}: ${error.message}`);
      else if (error instanceof ValueError) setFault(error.message);
      else throw error;
    }
  };
  const copy = async (what: string, words: string) => {
    try {
      await navigator.clipboard.writeText(what);
      setCopied(words);
    } catch {
      setCopied("The browser does not allow copying here: select the text.");
    }
  };
  return (
    <section class="panel file">
      <h3>The experiment file</h3>
      <textarea aria-label="experiment file" spellcheck={false} rows={Math.min(30, text.split("\n").length + 1)} value={draft ?? text} onInput={(event) => setDraft(event.currentTarget.value)} />
      {fault && (
        <p class="fault" role="alert">
          {fault}
        </p>
      )}
      <div class="adds">
        <button type="button" disabled={draft === null} onClick={apply}>
          run this text
        </button>
        <button type="button" onClick={() => copy(draft ?? text, "The file is copied.")}>
          copy
        </button>
        <a class="button" download="playground.toml" href={`data:application/toml;charset=utf-8,${encodeURIComponent(draft ?? text)}`}>
          save
        </a>
        <button type="button" onClick={() => copy(link, "The link is copied.")}>
          copy a link to this moment
        </button>
      </div>
      <p class="live" role="status">
        {copied}
      </p>
      <p class="about">
        {side.experiment.settings ? "This program repeats the run: the file has no words for what changes in the middle of it." : "This command repeats the run:"}
        <code class="command">{formatRepetition(side.experiment, registry, "playground.toml")}</code>
      </p>
    </section>
  );
}
