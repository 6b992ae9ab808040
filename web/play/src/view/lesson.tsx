// A lesson: one question after the other, each checked in the run that the page shows.

import { useEffect, useState } from "preact/hooks";
import type { Question } from "../lessons";
import { findRightChoice, LESSONS } from "../lessons";
import type { Session } from "../session";
import { MS } from "../experiment";
import { formatNumber } from "./format";

export function LessonPanel({ session, number, onEnd }: { session: Session; number: number; onEnd: () => void }) {
  const lesson = LESSONS[number]!;
  const [at, setAt] = useState(0);
  const [right, setRight] = useState<boolean[]>([]);
  const question = lesson.questions[at];
  return (
    <section class="lesson" aria-label={`lesson: ${lesson.title}`}>
      <header>
        <h2>{lesson.title}</h2>
        <span class="about">
          {question ? `question ${at + 1} of ${lesson.questions.length}` : `${right.filter(Boolean).length} of ${lesson.questions.length} right at once`}
        </span>
        <button type="button" class="quiet" onClick={onEnd}>
          end the lesson
        </button>
      </header>
      {at === 0 && <p>{lesson.intro}</p>}
      {question ? (
        <QuestionForm
          key={at}
          session={session}
          question={question}
          onDone={(isRight) => {
            setRight([...right, isRight]);
            setAt(at + 1);
          }}
        />
      ) : (
        <p>This was the last question. The set-up is yours now: change the rate, the queue or the flows, and predict what follows before you look.</p>
      )}
    </section>
  );
}

function QuestionForm({ session, question, onDone }: { session: Session; question: Question; onDone: (isRight: boolean) => void }) {
  const [chosen, setChosen] = useState(-1);
  const [first, setFirst] = useState<number | null>(null);
  const [isAsked, setAsked] = useState(false);
  useEffect(() => {
    // the answer is not in sight before it is given
    session.pause();
    session.isAsking = true;
    session.edit(question.experiment, "a");
    session.seek(0);
    return () => {
      session.isAsking = false;
      session.changed();
    };
  }, [session, question]);
  const { outcome } = session.sides.a!;
  const measured = isAsked && outcome ? question.measure(outcome) : null;
  const right = measured === null ? -1 : findRightChoice(question, measured);
  const check = () => {
    setAsked(true);
    session.isAsking = false;
    setFirst((before) => before ?? chosen);
    session.seek(question.experiment.duration / MS);
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        check();
      }}
    >
      <fieldset disabled={isAsked}>
        <legend>{question.text}</legend>
        {question.choices.map((one, index) => (
          <label key={one.words} class={measured === null ? "" : index === right ? "right" : index === chosen ? "wrong" : ""}>
            <input type="radio" name="choice" checked={chosen === index} onChange={() => setChosen(index)} /> {one.words}
          </label>
        ))}
      </fieldset>
      {!isAsked && (
        <button type="submit" disabled={chosen < 0}>
          let the run answer
        </button>
      )}
      <div role="status">
        {isAsked && measured === null && <p>The run is being measured.</p>}
        {measured !== null && (
          <p>
            <strong class={chosen === right ? "good" : "bad"}>{chosen === right ? "Right" : "Not so"}</strong>: the run measured {formatNumber(measured)} {question.unit}. {question.reason}
          </p>
        )}
      </div>
      {measured !== null && (
        <button type="button" onClick={() => onDone(first === right)}>
          go on
        </button>
      )}
    </form>
  );
}
