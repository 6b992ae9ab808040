// The page.

import { useEffect, useState } from "preact/hooks";
import type { Experiment, Setting } from "../experiment";
import { dropDefaults, listFlows } from "../experiment";
import { LESSONS } from "../lessons";
import type { Question } from "../lessons";
import { formatLink } from "../link";
import type { Session, Side, SideName } from "../session";
import { formatToml } from "../toml";
import { Chart, CHARTS } from "./charts";
import { Controls } from "./controls";
import { colourOf, formatNumber, formatTime, palette } from "./format";
import { LessonPanel } from "./lesson";
import type { NativeRun } from "./panels";
import { Distribution, FilePanel, Results, Stories } from "./panels";
import { Picture } from "./picture";
import { findSample, QueueStates, Ribbons, Ticks } from "./strips";
import { Term } from "./tip";
import { Transport } from "./transport";

function useSession(session: Session): void {
  const [, update] = useState(0);
  useEffect(() => session.subscribe(() => update((count) => count + 1)), [session]);
}

/** Whether the whole page is to be rendered: its first picture comes before the controls and the charts. */
function useWhole(session: Session): boolean {
  const [isWhole, setWhole] = useState(false);
  useEffect(
    () =>
      session.onFrame(() => {
        if (session.all.every((one) => one.isShown || one.refusal)) requestAnimationFrame(() => setTimeout(() => setWhole(true)));
      }),
    [session],
  );
  useEffect(() => {
    if (isWhole) document.documentElement.dataset["ready"] = "yes";
  }, [isWhole]);
  return isWhole;
}

/** The address of the page with the experiment and the moment in its fragment. */
function useLink(session: Session): string {
  const [link, setLink] = useState("");
  const { registry, sides } = session;
  const own = registry && sides.a ? formatToml(dropDefaults(sides.a.experiment, registry), registry) : "";
  const other = registry && sides.b ? formatToml(dropDefaults(sides.b.experiment, registry), registry) : null;
  const settings = JSON.stringify([sides.a?.experiment.settings ?? [], sides.b?.experiment.settings ?? []]);
  const time = session.isPlaying ? null : session.now;
  useEffect(() => {
    if (!own) return;
    let isLast = true;
    void formatLink({ toml: own, other, time, settings: JSON.parse(settings) as Setting[][] }).then((fragment) => {
      if (!isLast) return;
      setLink(`${location.href.split("#")[0]}#${fragment}`);
      history.replaceState(null, "", `#${fragment}`);
    });
    return () => {
      isLast = false;
    };
  }, [own, other, settings, time]);
  return link;
}

export function App({ session, native, firstLesson, isNew }: { session: Session; native: NativeRun | null; firstLesson: number; isNew: boolean }) {
  useSession(session);
  const link = useLink(session);
  const isWhole = useWhole(session);
  const { registry } = session;
  const both = session.sides.b !== undefined;
  const side = session.side;
  useKeys(session);
  const [lesson, setLesson] = useState(firstLesson);
  const [isGreeted, setGreeted] = useState(isNew);
  const [asked, setAsked] = useState<Question | null>(null);
  // the set-up is put aside while a question is open
  const [isOpen, setOpen] = useState(false);
  const isAside = asked !== null && !isOpen;
  const turnSetUp = () => {
    const opens = isAside || asked === null;
    if (asked) setOpen(opens);
    if (opens) requestAnimationFrame(() => document.querySelector(".controls")?.scrollIntoView({ behavior: "smooth" }));
  };
  const end = () => {
    setLesson(-1);
    document.querySelector<HTMLElement>("header select")?.focus();
  };
  if (!registry) return <p class="loading">The engine is being loaded.</p>;
  const edit = (experiment: Experiment) => session.edit(dropDefaults(experiment, registry));
  return (
    <>
      <header>
        <h1>
          <span class="logo" aria-hidden="true" /> dumbbell <small>playground</small>
        </h1>
        <select aria-label="lesson" value={String(lesson)} onChange={(event) => setLesson(Number(event.currentTarget.value))}>
          <option value="-1">lessons</option>
          {LESSONS.map((one, number) => (
            <option key={one.title} value={String(number)}>
              {one.title}, {one.minutes} min
            </option>
          ))}
        </select>
        <button type="button" class={asked ? "jump wanted" : "jump"} {...(asked ? { "aria-expanded": !isAside } : {})} onClick={turnSetUp}>
          {asked && isOpen ? "hide the set-up" : "set-up"}
        </button>
        <Sides session={session} />
        <ThemeButton session={session} />
      </header>
      <main class={[both && "both", isAside && "aside"].filter(Boolean).join(" ")}>
        {isWhole ? <Controls session={session} experiment={side.experiment} registry={registry} edit={edit} /> : <div class="controls" />}
        <div class="stage">
          {isGreeted && lesson < 0 && (
            <p class="greeting">
              New?{" "}
              <button type="button" class="first" onClick={() => (setGreeted(false), setLesson(0))}>
                Start with: {LESSONS[0]!.title.toLowerCase()}
              </button>
              <span class="about">Or press ▶: the run is at rest until you do.</span>
              <button type="button" class="quiet" aria-label="close the offer of a lesson" onClick={() => setGreeted(false)}>
                ×
              </button>
            </p>
          )}
          {lesson >= 0 && <LessonPanel key={lesson} session={session} number={lesson} onAsk={setAsked} onEnd={end} onNext={setLesson} />}
          <div class="bar">
            <Transport session={session} />
            <Refusals message={side.refusal?.message ?? session.notice} />
          </div>
          <div class="sides">
            {(Object.keys(session.sides) as SideName[]).map((name) => (
              <SideView key={name} name={name} session={session} side={session.sides[name]!} both={both} asked={asked?.charts ?? []} isWhole={isWhole} />
            ))}
          </div>
          <Summary session={session} side={side} />
          {both && <Difference session={session} />}
          {isWhole && (
            <div class="panels">
              <Stories session={session} side={side} />
              <div>
                <Distribution session={session} side={side} />
                <Results session={session} side={side} native={native} />
              </div>
              <FilePanel session={session} side={side} registry={registry} edit={edit} link={link} />
            </div>
          )}
        </div>
      </main>
    </>
  );
}

interface SideProps {
  name: SideName;
  session: Session;
  side: Side;
  both: boolean;
  /** The charts that show the answer of a question. */
  asked: string[];
  isWhole: boolean;
}

function SideView({ name, session, side, both, asked, isWhole }: SideProps) {
  const label = both ? `set-up ${name.toUpperCase()}` : "the run";
  return (
    <article class={both && session.active === name ? "side active" : "side"} data-side={name} data-asked={asked.join(" ")}>
      {both && (
        <h2>
          {name.toUpperCase()}: {side.experiment.bottleneck.aqm.name}
          {side.experiment.reverse && `, ${side.experiment.reverse.aqm.name} on the way back`}, {[...new Set(listFlows(side.experiment).map((one) => one.name))].join(", ")}
        </h2>
      )}
      <Picture session={session} side={side} label={label} />
      <Legend session={session} side={side} />
      {isWhole && (
        <div class="charts">
          {CHARTS.map((kind) => (
            <Chart key={kind.key} session={session} side={side} kind={kind} label={label} isAsked={asked.includes(kind.key)} />
          ))}
          <Ticks session={session} side={side} />
          <Ribbons session={session} side={side} />
          <QueueStates session={session} side={side} registry={session.registry!} />
        </div>
      )}
    </article>
  );
}

function Legend({ session, side }: { session: Session; side: Side }) {
  const seeds = session.isAsking ? [] : side.seedRuns.map((one) => one.seed);
  return (
    <ul class="legend" aria-label="colours">
      {listFlows(side.experiment).map((one, flow) => (
        <li key={flow} style={{ "--flow": colourOf(flow) }}>
          <span class="dot" /> flow {flow + 1}, {one.name}
        </li>
      ))}
      <li>
        <span class="dot marked" /> marked
      </li>
      <li>
        <span class="dot again" /> sent again
      </li>
      {seeds.length > 0 && (
        <li>
          <span class="dot seeds" /> <Term text="The same set-up with other random numbers. The pale bands are between the least and the largest value of these runs; where they have no width, chance decides nothing.">{seeds.length === 1 ? `seed ${seeds[0]}` : `seeds ${seeds[0]} to ${seeds.at(-1)}`}</Term>
        </li>
      )}
    </ul>
  );
}

/** The moment in words, for readers who do not see the picture: it is spoken when the run is paused. */
function Summary({ session, side }: { session: Session; side: Side }) {
  const sample = findSample(side.data.samples, session.now);
  if (session.isComputing) return <SpokenStatus text="The moment is being computed." />;
  if (session.isPlaying || session.isAsking || !sample) return <SpokenStatus text="" />;
  const parts = [`At ${formatTime(session.now)}: ${formatNumber(sample.backlog, 4)} packets in the queue`];
  if (!Number.isNaN(sample.sojourn)) parts.push(`time in queue ${formatNumber(sample.sojourn)} ms`);
  listFlows(side.experiment).forEach((one, flow) => {
    const [cwnd, srtt] = [sample.cwnd[flow], sample.srtt[flow]];
    if (cwnd !== undefined && !Number.isNaN(cwnd)) parts.push(`flow ${flow + 1}, ${one.name}: window ${formatNumber(cwnd)} segments, RTT ${formatNumber(srtt)} ms`);
  });
  return <SpokenStatus text={`${parts.join("; ")}.`} />;
}

function SpokenStatus({ text }: { text: string }) {
  return (
    <p class="spoken" role="status">
      {text}
    </p>
  );
}

function Refusals({ message }: { message: string }) {
  if (!message) return null;
  return (
    <p class="fault" role="alert">
      {message}
    </p>
  );
}

function Sides({ session }: { session: Session }) {
  if (!session.sides.b)
    return (
      <button type="button" onClick={() => session.compare(session.side.experiment)}>
        compare<span class="wide"> with another set-up</span>
      </button>
    );
  return (
    <div class="tabs" role="group" aria-label="the set-up that the controls change">
      {(["a", "b"] as const).map((name) => (
        <button key={name} type="button" aria-pressed={session.active === name} onClick={() => ((session.active = name), session.changed())}>
          {name.toUpperCase()}
        </button>
      ))}
      <button type="button" onClick={() => session.endComparison()}>
        end the comparison
      </button>
    </div>
  );
}

const COMPARED: [string, string, string][] = [
  ["sojourn_mean_ms", "time in queue, mean", "ms"],
  ["sojourn_p99_ms", "time in queue, P99", "ms"],
  ["utilisation", "utilisation", ""],
];

/** The measurements of both set-ups and their difference, on the same random numbers. */
function Difference({ session }: { session: Session }) {
  const [a, b] = [session.sides.a?.outcome, session.sides.b?.outcome];
  if (!a || !b) return <p class="about">Whole runs are compared when you pause.</p>;
  return (
    <table class="difference">
      <thead>
        <tr>
          <th scope="col">whole runs, same seed</th>
          <th scope="col">A</th>
          <th scope="col">B</th>
          <th scope="col">B − A</th>
        </tr>
      </thead>
      <tbody>
        {COMPARED.map(([key, words, unit]) => {
          const [left, right] = [Number(a.summary[key]), Number(b.summary[key])];
          return (
            <tr key={key}>
              <th scope="row">{words}</th>
              <td>
                {left.toPrecision(3)} {unit}
              </td>
              <td>
                {right.toPrecision(3)} {unit}
              </td>
              <td>
                {right >= left ? "+" : "−"}
                {Math.abs(right - left).toPrecision(3)} {unit}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function ThemeButton({ session }: { session: Session }) {
  const isDark = () => {
    const chosen = document.documentElement.dataset["theme"];
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const turn = () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset["theme"] = next;
    try {
      localStorage.setItem("dumbbell-theme", next);
    } catch {
      // a browser that keeps nothing for files
    }
    palette.clear();
    session.changed();
  };
  return (
    <button type="button" class="theme" aria-label="light or dark page" title="light or dark page" onClick={turn}>
      ◐
    </button>
  );
}

/** Space plays and pauses, the arrows go on and back, Home and End to the ends, unless a field has the focus. */
function useKeys(session: Session): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (target.closest("input, select, textarea, button, a, summary") || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === " ") {
        event.preventDefault();
        if (session.isPlaying) session.pause();
        else session.play();
      } else if (event.key === "ArrowRight") session.stepRtt();
      else if (event.key === "ArrowLeft") session.stepRtt(-1);
      else if (event.key === ".") session.stepPacket();
      else if (event.key === "Home" || event.key === "End") {
        event.preventDefault();
        session.pause();
        session.seek(event.key === "Home" ? 0 : session.duration);
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [session]);
}
