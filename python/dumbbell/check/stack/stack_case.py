"""Cases for QUIC stacks, the scenes in which they run, and their verdicts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dumbbell.check.stack.outcomes import WITHIN, Outcome, StackFlow
from dumbbell.evaluate import grade as grades
from dumbbell.evaluate.case_verdict import CaseVerdict, Expectation

PASSED, DIFFERS, FAILED, CLOSED = "passed", "differs from TCP", "failed", "closed"
CANNOT_TELL, CRASHED, HUNG = grades.CANNOT_TELL, grades.CRASHED, grades.HUNG
# what the results mean, best first
MEANING = {
    PASSED: "within all limits",
    DIFFERS: "within all limits, and unlike TCP's CUBIC in the same place, or outside of a limit that Linux's control"
    " of the same family does not keep there either, and not worse than that: for information",
    CANNOT_TELL: "a run that the judge needs has failed, or it left no figure; the reason names it",
    FAILED: "a limit was exceeded",
    CLOSED: "the stack closed the connection before its end",
    CRASHED: "the stack ended its process, or did what the interface forbids",
    HUNG: "the stack did not come back from a call",
}
_HANGS = "the plugin hangs"  # what the process of a run says of one
SUBJECT = "subject"  # stands for the stack in the table of an experiment: `{"who": SUBJECT}`


@dataclass(frozen=True)
class Scene:
    """One experiment of a case: where it takes place, in a word or two, and what the judge has to know of it.

    Rates are Mbit/s of frames, times seconds. `outages` are the times in which nothing can be delivered, `within`
    is the longest time for completion, counted from 0. At `changed` the rate becomes
    `rate_after`, or the path changes in another way.
    """

    place: str
    table: Mapping[str, Any]
    rate: float
    rtt: float
    seconds: float
    outages: tuple[tuple[float, float], ...] = ()
    within: float | None = None
    changed: float | None = None
    rate_after: float | None = None

    @property
    def subjects(self) -> list[int]:
        """Numbers of the flows of the stack."""
        return [number for number, one in enumerate(self.table["flows"]) if one.get("who") == SUBJECT]

    def substitute_control(self, control: dict[str, Any], seeds: list[int]) -> dict[str, Any]:
        """Return the experiment with `control`, keys of a flow, in place of the stack.

        Flows of TCP ask for ECN.
        """
        flows = [
            {key: value for key, value in one.items() if key != "who"} | (control if one.get("who") == SUBJECT else {})
            for one in self.table["flows"]
        ]
        has_tcp = any("stack" not in one for one in flows)  # keys of hosts are refused where nothing has their TCP
        return {**self.table, "flows": flows, "seeds": seeds} | ({"hosts": {"ecn": True}} if has_tcp else {})


@dataclass(frozen=True)
class SceneOutcomes:
    """The input of a judge: the scene, what the stack did, and what TCP's CUBIC did in its place, if it was run.

    `family` is what Linux's control of the same family did there, if that is another one, and `relative` its name.
    """

    scene: Scene
    subject: Outcome
    tcp: Outcome
    family: Outcome = field(default_factory=Outcome)
    relative: str = ""

    def compare_means(self, figure: Callable[[StackFlow], float]) -> tuple[float, float]:
        """Return the mean of a figure of the first flow of the stack, and of TCP's CUBIC in its place."""
        number = self.scene.subjects[0]
        return self.subject.compute_mean(number, figure), self.tcp.compute_mean(number, figure)


class Limits:
    """Expectations of a case as they are looked at; the verdict follows from them."""

    def __init__(self) -> None:
        self.all: list[Expectation] = []
        self.notes: list[str] = []
        self.worst = ""

    def require(self, what: str, held: bool, found: str) -> bool:
        """Note a limit; return whether it was kept."""
        self.all.append(Expectation(what, bool(held), found))
        return bool(held)

    def note_unknown(self, what: str, why: str) -> None:
        """Note a limit of which nobody can tell whether it was kept."""
        self.all.append(Expectation(what, None, why))

    def note(self, what: str) -> None:
        """Note what is unlike TCP, and no failure."""
        self.notes.append(what)

    def excuse(self, others: Limits, against: Limits, who: str) -> None:
        """Note the limits that `who` does not keep either: they are no failures.

        `against` has the same limits with `who` as the yardstick in place of TCP's CUBIC: what is worse than that as
        well stays a failure. Where nobody can tell whether `who` keeps a limit, nobody can tell whether it is one.
        """
        theirs = {_strip_numbers(one.what): one for one in others.all if not one.held}
        worse = {_strip_numbers(one.what): one.held for one in against.all}
        kept = []
        for one in self.all:
            other = theirs.get(_strip_numbers(one.what)) if one.held is False else None
            if other is None:
                kept.append(one)
                continue
            found = f"{one.found}; {who}: {other.found}"
            held = worse.get(_strip_numbers(one.what), True)
            if held is False:
                kept.append(Expectation(one.what, False, found))
            elif other.held is None or held is None:
                kept.append(Expectation(one.what, None, f"{found}: {WITHIN}" if WITHIN not in found else found))
            else:
                self.notes.append(f"{one.found} ({one.what}); {who}: {other.found}")
        self.all = kept

    def note_broken(self, result: str, what: str, found: str) -> None:
        """Note what is worse than a limit that was exceeded."""
        self.all.append(Expectation(what, False, found))
        self.worst = result

    def make_verdict(self) -> CaseVerdict:
        """Return the result of all of them."""
        if self.worst:
            one = self.all[-1]
            return CaseVerdict(self.worst, f"{one.found} ({one.what})", tuple(self.all))
        for result, held in ((FAILED, False), (CANNOT_TELL, None)):
            broken = [one for one in self.all if one.held is held]
            if broken:
                return CaseVerdict(result, "; ".join(f"{one.found} ({one.what})" for one in broken), tuple(self.all))
        return CaseVerdict(DIFFERS if self.notes else PASSED, "; ".join(self.notes), tuple(self.all))


Judge = Callable[[SceneOutcomes, Limits], None]
_NUMBER = re.compile(r"\d+(\.\d+)?")


def _strip_numbers(what: str) -> str:
    """Return what a limit says without its numbers, which may depend on the run."""
    return _NUMBER.sub("#", what)


@dataclass(frozen=True)
class StackCase:
    """A question to a stack: its source, how it is judged, and the scenes in which it is asked.

    `limits` says in words what it is held against, `only` is the start of the names of controls that it is about.
    `tcp`: the same scene is run with TCP's CUBIC in place of the stack. `figure` is a figure for the report, and
    `measure` what it is.
    """

    key: str
    group: str
    question: str
    source: str
    limits: str
    judge: Judge
    scenes: tuple[Scene, ...]
    only: str = ""
    tcp: bool = True
    measure: str = ""
    figure: Callable[[SceneOutcomes], str] = lambda _: ""

    def applies_to(self, control: str) -> bool:
        """Whether it is about a congestion control of this name."""
        return control.startswith(self.only)

    def judge_scene(self, seen: SceneOutcomes) -> CaseVerdict:
        """Judge a scene; a connection that was closed, a crash and a hang are worse than any failure."""
        limits = Limits()
        if seen.subject.error:
            limits.note_broken(HUNG if _HANGS in seen.subject.error else CRASHED, "the stack runs", seen.subject.error)
        elif closed := seen.subject.explain_close(seen.scene.subjects):
            limits.note_broken(CLOSED, "the connection stays open", closed)
        elif self.tcp and seen.tcp.error:
            limits.note_unknown("TCP's CUBIC runs", seen.tcp.error)
        else:
            self.judge(seen, limits)
            if seen.family.runs and any(one.held is False for one in limits.all):
                relative = Limits()
                self.judge(replace(seen, subject=seen.family), relative)
                against = Limits()
                if self.tcp:
                    self.judge(replace(seen, tcp=seen.family), against)
                limits.excuse(relative, against, seen.relative)
        return limits.make_verdict()
