import assert from "node:assert/strict";
import { test } from "node:test";
import { makeConfig, MS } from "../src/experiment";
import { findRightChoice, LESSONS } from "../src/lessons";
import { loadEngine } from "./engine";

const engine = await loadEngine();

for (const lesson of LESSONS)
  test(`each question of "${lesson.title}" has one right answer`, () => {
    assert.equal(lesson.questions.length, 3);
    for (const question of lesson.questions) {
      const { choices } = question;
      const measured = question.measure(engine.run(makeConfig(question.experiment)));
      const containing = choices.filter((one) => one.from <= measured && measured < one.to);
      assert.equal(containing.length, 1, `${question.text} ${measured}`);
      assert.equal(choices[findRightChoice(question, measured)], containing[0]);
      const bounds = choices.flatMap((one) => [one.from, one.to]);
      assert.deepEqual(bounds, [...bounds].sort((a, b) => a - b));
    }
  });

test("each lesson has a key of its own, and looks at a moment of its runs", () => {
  assert.equal(new Set(LESSONS.map((one) => one.key)).size, LESSONS.length);
  for (const { questions, minutes } of LESSONS) {
    assert.ok(minutes >= 5 && minutes <= 10);
    for (const { experiment, look } of questions) assert.ok(look.time > 0 && look.time * MS < experiment.duration, look.words);
  }
});

test("the right answer has no fixed place", () => {
  for (const { questions } of LESSONS) {
    const places = questions.map((one) => findRightChoice(one, one.measure(engine.run(makeConfig(one.experiment)))));
    assert.ok(new Set(places).size > 1, String(places));
  }
});
