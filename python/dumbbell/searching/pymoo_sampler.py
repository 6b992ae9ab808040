"""Samplers of pymoo: algorithms that are asked for a generation at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dumbbell.searching.sampler import Answer, Suggestion, import_package
from dumbbell.searching.search_parameter import SearchParameter

_INSTALL = "pip install pymoo"
_POPULATION = 50
_WORST = 1e30  # an objective of what has no values
_MADE = {"sms-emoa": ("pymoo.algorithms.moo.sms", "SMSEMOA"), "de": ("pymoo.algorithms.soo.nonconvex.de", "DE")}


class PymooSampler:
    """An algorithm of pymoo, which sees every parameter as a number from 0 to 1."""

    batch = _POPULATION

    def __init__(self, name: str, parameters: Sequence[SearchParameter], objectives: int, seed: int) -> None:
        module, kind = _MADE[name]
        algorithm = getattr(import_package(module, _INSTALL), kind)(pop_size=_POPULATION)
        self._static = import_package("pymoo.problems.static", _INSTALL).StaticProblem
        problem = import_package("pymoo.core.problem", _INSTALL).Problem
        self._problem = problem(n_var=len(parameters), n_obj=objectives, n_ieq_constr=1, xl=0.0, xu=1.0)
        algorithm.setup(self._problem, termination=("n_gen", 10**9), seed=seed, verbose=False)
        self._algorithm, self._parameters = algorithm, parameters
        self._objectives = objectives
        self._asked: Any = None
        self._left: list[Suggestion] = []
        self._answers: list[Answer] = []

    def ask(self, count: int) -> list[Suggestion]:
        """Return the next suggestions: the rest of a generation, or of a new one."""
        if not self._left:
            self._asked = self._algorithm.ask()
            self._left = [self._decode(row) for row in self._asked.get("X")]
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def _decode(self, row: Sequence[float]) -> Suggestion:
        found: Suggestion = {}
        for one, part in zip(self._parameters, row, strict=True):
            if one.is_log:
                low, high = math.log(one.low), math.log(one.high)
                found[one.name] = math.exp(low + float(part) * (high - low))
            else:
                found[one.name] = one.low + float(part) * (one.high - one.low)
        return found

    def take_answers(self, answers: Sequence[Answer]) -> None:
        """Take the answers; the algorithm gets them once those of the whole generation are there."""
        self._answers += answers
        if self._left:
            return
        values = [one.values or (_WORST,) * self._objectives for one in self._answers]
        violations = [[one.violation if one.violation > 0 else -1.0] for one in self._answers]
        static = self._static(self._problem, F=np.array(values), G=np.array(violations))
        self._algorithm.evaluator.eval(static, self._asked)
        self._algorithm.tell(infills=self._asked)
        self._answers.clear()
