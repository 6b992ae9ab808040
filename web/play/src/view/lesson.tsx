// A lesson: one question after the other, each checked in the run that the page shows.

import { useEffect, useRef, useState } from "preact/hooks";
import { MS } from "../experiment";
import type { Question, WholeRun } from "../lessons";
import { findRightChoice, LESSONS } from "../lessons";
import { formatSeconds } from "../observer";
import type { Session } from "../session";
import { formatNumber } from "./format";
import { Explained } from "./tip";

export function LessonPanel({ session, number, onEnd, onNext }: { session: Session; number: number; onEnd: () => void; onNext: (number: number) => void }) {
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
      {at === 0 && (
        <p>
          <Explained text={lesson.intro} />
        </p>
      )}
      {question ? (
        <QuestionForm
          key={at}
          session={session}
          question={question}
          speed={lesson.speed ?? 1}
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
            <button type="button" onClick={() => onNext(number + 1)}>
              next lesson: {following.title}
            </button>
          )}
        </>
      )}
    </section>
  );
}

function QuestionForm({ session, question, speed, isLast, onDone }: { session: Session; question: Question; speed: number; isLast: boolean; onDone: (isRight: boolean) => void }) {
  const [chosen, setChosen] = useState(-1);
  const [isAsked, setAsked] = useState(false);
  useEffect(() => {
    // the answer is not in sight before it is given
    session.pause();
    session.endComparison();
    session.isAsking = true;
    session.speed = speed;
    session.notice = "";
    session.begin(question.experiment, null, 0);
    session.changed();
    return () => {
      session.isAsking = false;
      session.changed();
    };
  }, [session, question, speed]);
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
    session.seek(question.experiment.duration / MS);
  };
  const look = () => {
    session.pause();
    session.seek(moment);
    document.querySelector(".picture")?.scrollIntoView({ block: "nearest", behavior: "smooth" });
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        check();
      }}
    >
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
          <button type="submit" disabled={chosen < 0}>
            let the run answer
          </button>
          <span class="about">Choose what you expect. You may play the run first: what is measured is shown after your answer.</span>
        </p>
      )}
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
          <button type="button" onClick={() => onDone(chosen === right)}>
            {isLast ? "finish" : "go on"}
          </button>
          <button type="button" onClick={look}>
            see it at {formatSeconds(moment)}
          </button>
          <span class="about">{question.look.words}</span>
        </p>
      )}
    </form>
  );
}
