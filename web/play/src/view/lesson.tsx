// A lesson: one question after the other, each checked in the run that the page shows.

import { useEffect, useRef, useState } from "preact/hooks";
import { findLongestRtt, MS } from "../experiment";
import type { Question, WholeRun } from "../lessons";
import { findRightChoice, LESSONS } from "../lessons";
import { formatSeconds } from "../observer";
import type { Session } from "../session";
import { formatNumber } from "./format";
import { Explained } from "./tip";

interface Props {
  session: Session;
  number: number;
  /** Hears of the question that is open, or null after the last one. */
  onAsk: (question: Question | null) => void;
  onEnd: () => void;
  onNext: (number: number) => void;
}

/** A question shows its run from this moment on, in round trips: the first packets are on their way then. */
const FIRST_RTTS = 2.6;
/** Room below the charts that are scrolled to, px. */
const MARGIN_PX = 12;

export function LessonPanel({ session, number, onAsk, onEnd, onNext }: Props) {
  const lesson = LESSONS[number]!;
  const [at, setAt] = useState(0);
  const [right, setRight] = useState<boolean[]>([]);
  const heading = useRef<HTMLHeadingElement>(null);
  const question = lesson.questions[at];
  const following = LESSONS[number + 1];
  useEffect(() => {
    heading.current?.focus({ preventScroll: true });
    heading.current?.scrollIntoView({ block: "nearest" });
  }, [at]);
  useEffect(() => {
    onAsk(question ?? null);
    return () => onAsk(null);
  }, [question]);
  return (
    <section class="lesson" aria-label={`lesson: ${lesson.title}`}>
      <header>
        <h2 ref={heading} tabIndex={-1}>
          {lesson.title}
        </h2>
        <ol class="steps" aria-hidden="true">
          {lesson.questions.map((_, index) => (
            <li key={index} class={index < right.length ? (right[index] ? "good" : "bad") : index === at ? "now" : ""} />
          ))}
        </ol>
        <span class="about">{question ? `question ${at + 1} of ${lesson.questions.length}` : `${right.filter(Boolean).length} of ${lesson.questions.length} right at once`}</span>
        <button type="button" class="quiet" onClick={onEnd}>
          end the lesson
        </button>
      </header>
      {question ? (
        <QuestionForm
          key={at}
          session={session}
          question={question}
          intro={at === 0 ? lesson.intro : ""}
          speed={lesson.speed ?? 1}
          span={lesson.span ?? 0}
          isLast={at === lesson.questions.length - 1}
          onDone={(isRight) => {
            setRight([...right, isRight]);
            setAt(at + 1);
          }}
        />
      ) : (
        <>
          <p>
            <strong>To take home: {lesson.lasting}</strong>
          </p>
          <p>The set-up is yours now. {lesson.next}</p>
          {following && (
            <button type="button" class="first" onClick={() => onNext(number + 1)}>
              next lesson: {following.title}
            </button>
          )}
        </>
      )}
    </section>
  );
}

/** Scrolls until the charts of the question are visible, but the picture is not above the window. */
function showCharts(): void {
  const bar = document.querySelector(".bar")!.getBoundingClientRect();
  const picture = document.querySelector(".picture")!.getBoundingClientRect();
  const ends = [...document.querySelectorAll(".chart, .strips")].filter((one) => getComputedStyle(one).order !== "0").map((one) => one.getBoundingClientRect().bottom);
  const below = Math.max(picture.bottom, ...ends) - innerHeight;
  const most = picture.top - bar.height;
  if (below > 0 || most < 0) scrollBy({ top: Math.min(below + MARGIN_PX, most), behavior: "smooth" });
}

interface FormProps {
  session: Session;
  question: Question;
  intro: string;
  speed: number;
  span: number;
  isLast: boolean;
  onDone: (isRight: boolean) => void;
}

function QuestionForm({ session, question, intro, speed, span, isLast, onDone }: FormProps) {
  const answered = useRef<HTMLDivElement>(null);
  const [chosen, setChosen] = useState(-1);
  const [isAsked, setAsked] = useState(false);
  useEffect(() => {
    // the answer is not in sight before it is given
    session.pause();
    session.endComparison();
    session.isAsking = true;
    session.speed = speed;
    session.span = span;
    session.notice = "";
    session.begin(question.experiment, null, (FIRST_RTTS * findLongestRtt(question.experiment)) / MS);
    session.changed();
    return () => {
      session.isAsking = false;
      session.changed();
    };
  }, [session, question, speed, span]);
  // the button that had the focus is gone, and the next one comes after the words
  useEffect(() => {
    if (isAsked) answered.current?.focus({ preventScroll: true });
  }, [isAsked]);
  const side = session.sides.a!;
  const { outcome } = side;
  // the series and sentences of the whole run are there when its end is shown, and the reader may go back afterwards
  const known = useRef<WholeRun | null>(null);
  if (isAsked && outcome && side.isShown && side.now >= question.experiment.duration / MS) known.current ??= { outcome, samples: side.data.samples, stories: side.data.stories.kept };
  const run = known.current;
  const measured = run && question.measure(run);
  const moment = run ? question.look.find(run) : 0;
  const right = measured === null ? -1 : findRightChoice(question, measured);
  const check = () => {
    setAsked(true);
    session.pause();
    session.isAsking = false;
    session.span = 0;
    const end = question.experiment.duration / MS;
    // the reader may have changed the set-up
    if (side.experiment === question.experiment) session.seek(end);
    else session.begin(question.experiment, null, end);
  };
  const look = () => {
    session.pause();
    session.seek(moment);
    showCharts();
  };
  const answer = (
    <div ref={answered} class="answer" tabIndex={-1}>
      {!isAsked && <p class="about">Choose what you expect. You may play the run first (▶): what it measures is shown after your answer.</p>}
      <div role="status">
        {!side.isShown && <p>The run is being computed.</p>}
        {isAsked && side.isShown && measured === null && <p>The run is being measured.</p>}
        {run && measured !== null && (
          <p>
            <strong class={chosen === right ? "good" : "bad"}>{chosen === right ? "Right" : "Not so"}</strong>: the run measured {formatNumber(measured)} {question.unit}. <Explained text={question.reason(run)} />
          </p>
        )}
      </div>
      {measured !== null && (
        <p class="ask">
          <button type="button" class="first" onClick={() => onDone(chosen === right)}>
            {isLast ? "finish" : "go on"}
          </button>
          <button type="button" onClick={look}>
            see it at {formatSeconds(moment)}
          </button>
          <span class="about">{question.look.words}</span>
        </p>
      )}
    </div>
  );
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        check();
      }}
    >
      {intro && (
        <p class="intro">
          <Explained text={intro} />
        </p>
      )}
      <div>
        <fieldset disabled={isAsked}>
          <legend>
            <Explained text={question.text} />
          </legend>
          {question.choices.map((one, index) => (
            <label key={one.words} class={measured === null ? "" : index === right ? "right" : index === chosen ? "wrong" : ""}>
              <input type="radio" name="choice" checked={chosen === index} onChange={() => setChosen(index)} /> {one.words}
            </label>
          ))}
        </fieldset>
        {!isAsked && (
          <p class="ask">
            <button type="submit" class="first" disabled={chosen < 0}>
              let the run answer
            </button>
          </p>
        )}
        {intro && answer}
      </div>
      {!intro && answer}
    </form>
  );
}
