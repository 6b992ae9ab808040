// The program of the page: the worker that start.ts began has the engine.

import { render } from "preact";
import type { Experiment, Setting } from "./experiment";
import { dropDefaults, MS } from "./experiment";
import { LESSONS } from "./lessons";
import { readLesson, readLink, readRun } from "./link";
import { PRESETS } from "./presets";
import { Session } from "./session";
import type { Registry } from "./registry";
import { ValueError } from "./quantities";
import { readToml, TextError } from "./toml";
import { App } from "./view/app";
import type { NativeRun } from "./view/panels";
import { installTips } from "./view/tip";

/** The moment that is shown at first: this share of the run, and so long at most, ms. The run is at rest there: nothing moves while somebody reads. */
const FIRST_SHARE = 0.4;
const LATEST_FIRST_MS = 12_000;

/** What `dumbbell play FILE` puts into the page. */
interface Given {
  experiment: Experiment;
  digest: string | null;
}

function readGiven(): Given | null {
  const text = document.getElementById("given")!.textContent.trim();
  return text ? (JSON.parse(text) as Given) : null;
}

interface Beginning {
  experiment: Experiment;
  other: Experiment | null;
  time: number | null;
}

/** The experiment of the link, of the file, or the first one of the page. */
async function chooseBeginning(given: Given | null, registry: Registry): Promise<Beginning> {
  const run = await readRun(location.hash);
  if (run) return { experiment: dropDefaults(run.experiment, registry), other: null, time: run.time };
  const link = await readLink(location.hash);
  if (link) {
    const read = (toml: string, settings: Setting[] = []): Experiment => ({ ...readToml(toml, registry), ...(settings.length ? { settings } : {}) });
    const [own, others] = link.settings;
    return { experiment: read(link.toml, own), other: link.other === null ? null : read(link.other, others), time: link.time };
  }
  return { experiment: given?.experiment ?? PRESETS[0]!, other: null, time: null };
}

function start(): void {
  const given = readGiven();
  const session = new Session(() => new Worker(started.address));
  const native: NativeRun | null = given?.digest ? { digest: given.digest, experiment: JSON.stringify(given.experiment) } : null;
  const root = document.getElementById("page")!;
  const stopListening = session.subscribe(() => {
    const refusal = session.sides.a?.refusal;
    if (refusal) root.textContent = `The playground does not start: ${refusal.message}`;
  });
  session.open(started, async (registry) => {
    const key = readLesson(location.hash);
    const firstLesson = LESSONS.findIndex((one) => one.key === key);
    // a lesson begins with its own run
    if (firstLesson < 0) {
      let beginning: Beginning = { experiment: PRESETS[0]!, other: null, time: null };
      if (key !== null) session.notice = `There is no lesson "${key}"; the lessons are ${LESSONS.map((one) => one.key).join(", ")}.`;
      try {
        beginning = await chooseBeginning(given, registry);
      } catch (error) {
        const isKnown = error instanceof ValueError || error instanceof TextError;
        session.notice = `This link contains no experiment that can be shown: ${isKnown ? error.message : "it is damaged, or a part of it is missing."}`;
      }
      const { experiment, other, time } = beginning;
      session.begin(experiment, other, time ?? Math.min(LATEST_FIRST_MS, (FIRST_SHARE * experiment.duration) / MS));
    }
    root.replaceChildren();
    stopListening();
    const isNew = !given && !location.hash;
    render(<App session={session} native={native} firstLesson={firstLesson} isNew={isNew} />, root);
    const stop = session.onFrame(() => {
      if (!session.all.every((one) => one.isShown)) return;
      performance.mark("first picture");
      stop();
    });
  });
  addEventListener("hashchange", () => location.reload());
  // for tests, and for readers who write programs in the console
  Object.assign(globalThis, { playground: session });
}

installTips();
start();
