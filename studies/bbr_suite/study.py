"""BBR in four versions and the draft's own test cases: the page of `make check-bbr`.

The evidence is made by studies/bbr_suite/gather.py from the report of the suite and from traces of Linux.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from dumbbell.evaluate import grade
from dumbbell.evaluate.bbr.cases import CASES, SUITE
from dumbbell.evaluate.bbr.lab import PathPoint
from dumbbell.experiment import units
from dumbbell.figures.style import GUIDE, TEXT
from dumbbell.study import Evidence, Nothing, Picture, Series, figures, map_names

QUESTION = "Which of the draft's 22 test cases does each version pass?"
# the words of the evidence, and the grades that they stand for
PASSED, CONSTANT, FAILED, CANNOT_TELL, NOT_APPLICABLE = "passed", "constant", "failed", "cannot tell", "not applicable"
WORDS = {
    grade.PASSES: PASSED,
    grade.CONSTANT: CONSTANT,
    grade.FAILS: FAILED,
    grade.CANNOT_TELL: CANNOT_TELL,
    grade.NOT_APPLICABLE: NOT_APPLICABLE,
}
# what the results mean, best first
MEANING = {
    grade.PASSES: "everything that the case expects was seen",
    grade.CONSTANT: "the behaviour is as expected; only a constant or a flag differs from the draft's",
    grade.FAILS: "something that the case expects was not seen",
    grade.CANNOT_TELL: "the trace lacks a field that the judge needs; the fields to log are named",
    grade.NOT_APPLICABLE: "the case makes no sense there, for the reason given",
    grade.CRASHED: "the plugin ended its process, or did what the interface forbids",
    grade.HUNG: "the plugin did not come back from a call",
}
SIGNS = {PASSED: "+", CONSTANT: "c", FAILED: "F", CANNOT_TELL: "?", NOT_APPLICABLE: "."}
PROBE_LIMIT = 2  # round trips; the case asks for three rounds or more
DRAWN = ("spurious-recovery", "bbr3", PathPoint(10_000_000, 0.04))


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def _list_controls(found: Evidence) -> list[str]:
    return list(dict.fromkeys(found["counts"]["control"].to_list()))


def format_result_count(row: dict[str, Any]) -> str:
    """Return the results of a case and a control in words."""
    if not row["applies"]:
        return "-"
    if row["failed"]:
        return f"**failed {row['failed']} of {row['applies']}**"
    return f"{'constant' if row['constant'] else 'passed'} {row['applies']}"


def format_summary(found: Evidence) -> str:
    """Return who passes what where."""
    names = _list_controls(found)
    rows = []
    for key, case in CASES.items():
        cells = {row["control"]: row for row in found["counts"].filter(pl.col("case") == key).iter_rows(named=True)}
        rows.append([case.number, case.heading, *(format_result_count(cells[name]) for name in names)])
    return format_table(["", "case", *names], rows)


def format_points(found: Evidence) -> str:
    """Return a sign for every point, in groups by rate."""
    names = _list_controls(found)
    signs: dict[tuple[str, str], dict[int, str]] = {}
    for row in found["results"].iter_rows(named=True):
        of_rates = signs.setdefault((row["case"], row["control"]), {})
        of_rates[row["rate_bit"]] = of_rates.get(row["rate_bit"], "") + SIGNS[row["result"]]
    rows = [[CASES[key].number, *(f"`{' '.join(signs[key, name].values())}`" for name in names)] for key in CASES]
    return format_table(["", *names], rows)


def describe_axes(found: Evidence) -> str:
    """Return which rates and RTTs the signs are for."""
    frame = found["results"]
    rates = ", ".join(units.show("rate", one) for one in frame["rate_bit"].unique(maintain_order=True))
    rtts = ", ".join(units.show("time", round(one * 1e9)) for one in frame["rtt_s"].unique(maintain_order=True))
    return f"Each group is one rate ({rates}); each sign in a group is one RTT ({rtts})."


def _format_reasons(found: Evidence, result: str) -> str:
    rows = found["reasons"].filter(pl.col("result") == result).iter_rows(named=True)
    return "\n".join(f"- Case {row['number']}, {row['control']}, {row['reason']}" for row in rows)


def list_notes(_: Evidence) -> str:
    """Return the notes on cases."""
    return "\n".join(f"- Case {case.number}: {case.criterion.note}" for case in CASES.values() if case.criterion.note)


def describe_results(_: Evidence) -> str:
    """Return what the results mean."""
    return "\n".join(f"- {result}: {text}." for result, text in ((WORDS[one], MEANING[one]) for one in WORDS))


BEFORE_S = 0.1  # that are drawn before segments come late
LINES = {"cwnd": "cwnd", "in_flight": "in flight", "inflight_longterm": "inflight_longterm"}


def draw_spurious(found: Evidence) -> Picture:
    """Draw a flow whose bound is not restored."""
    _, control, point = DRAWN
    late = found["times"].filter(pl.col("name") == "late segments")["time_s"].item()
    frame = found["trace"].filter(pl.col("time_s") >= late - BEFORE_S)
    frame = frame.with_columns(pl.col(*LINES).cast(pl.Float64, strict=False))
    long = frame.unpivot(list(LINES), index=["time_s"], variable_name="what", value_name="segments")
    set_at, bound = find_lasting_bound(found)
    end = float(frame["time_s"].to_numpy().max())
    name = control.replace("bbr", "BBRv")
    answer = f"{name} keeps a bound of {bound:.0f} segments that a spurious recovery has set"
    picture = figures.stacked_series(
        [Series(long.with_columns(map_names("what", LINES)), "segments", "what", "segments", steps=True)],
        x="time_s",
        states={"": figures.find_bands(frame["time_s"], frame["state"], end)},
        x_label="time, s",
        title=f"{answer}\nCase {CASES[DRAWN[0]].number} of the draft: segments come late and are not lost; one flow, "
        f"{point.rate / 1e6:g} Mbit/s, {point.rtt * 1e3:g} ms, one run",
    )
    [axes] = picture.panels.values()
    axes.set_ylim(0, 95)
    arrow = {"arrowstyle": "->", "color": "black", "linewidth": 0.9}
    for text, at, place in (
        ("segments come late", (late, 0.0), (late + 0.03, 12)),
        ("set here, never restored", (set_at, bound), (set_at + 0.06, 66)),
    ):
        axes.annotate(text, at, place, arrowprops=arrow, fontsize=TEXT, va="center", zorder=5)
    axes.axvline(late, color=GUIDE, linewidth=0.9, linestyle=":", label="_late")
    for line in axes.lines:
        if line.get_label() == LINES["inflight_longterm"]:
            line.set(linewidth=2.2, linestyle="-", zorder=3)
    picture.name_lines({label: label for label in LINES.values()})
    return picture.set_width(5.2)


def find_lasting_bound(found: Evidence) -> tuple[float, float]:
    """Return when the long-term bound of the trace is set and its value, which it keeps to the end."""
    bounds = found["trace"].select("time_s", pl.col("inflight_longterm").cast(pl.Float64, strict=False))
    after = bounds.filter(pl.col("inflight_longterm").is_not_null().cum_max())
    if after.is_empty() or after["inflight_longterm"].n_unique() != 1:
        raise Nothing("a bound that changes or ends", "a bound that lasts: another figure, another title")
    return after.row(0)


def make_facts(found: Evidence) -> dict[str, Any]:
    """Return what the template asks for in addition to the tables."""

    def find_cell(case: str, control: str) -> dict[str, Any]:
        return dict(
            found["counts"].row(by_predicate=(pl.col("case") == case) & (pl.col("control") == control), named=True)
        )

    def describe_cell(case: str, control: str) -> str:
        one = find_cell(case, control)
        return f"{one['failed']} of {one['applies']}"

    draft = found["counts"].filter(pl.col("control") == "bbr-draft")
    return {
        "cell": find_cell,
        "said": describe_cell,
        "specification": SUITE.source,
        "verdicts": found["results"].height,
        "draft_passed": draft["passed"].sum(),
        "draft_applies": draft["applies"].sum(),
        "heading": lambda key: f"{CASES[key].number}. {CASES[key].heading}",
        "drawn_at": f"{DRAWN[2].rate / 1e6:g} Mbit/s and {DRAWN[2].rtt * 1e3:g} ms",
        "probe_limit": PROBE_LIMIT,
        "engine": found.made["suite"]["engines"][0],
    }


TABLES = {
    "summary": format_summary,
    "points": format_points,
    "axes": describe_axes,
    "failed": lambda found: _format_reasons(found, FAILED),
    "constants": lambda found: _format_reasons(found, CONSTANT),
    "elsewhere": lambda found: _format_reasons(found, NOT_APPLICABLE),
    "notes": list_notes,
    "meanings": describe_results,
}
FIGURES = {"bbr-suite-spurious": draw_spurious}
